// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The code file from which perf reads instructions and symbols: an ELF64 shared object. Its
//! only segment holds all versions of the code one after the other, at addresses that equal
//! file offsets.

use std::io::{self, Seek, SeekFrom, Write};

/// Bytes before the code: ELF header and one program header, padded.
pub(crate) const CODE_AT: u64 = 0x1000;
/// Bytes after each piece of code, so that a reader of an instruction at its end does not see
/// the next piece.
const GUARD: u64 = 16;

const EHDR: u16 = 64;
const PHDR: u16 = 56;
const SHDR: u16 = 64;
const SYM: u64 = 24;

/// A symbol of the file.
struct Symbol {
    name: u32,
    at: u64,
    len: u64,
}

/// Writes such a file from front to back; the headers come last.
pub(crate) struct CodeFile<W> {
    out: W,
    end: u64,
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

impl<W: Write + Seek> CodeFile<W> {
    /// Starts the file at the beginning of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[0; CODE_AT as usize])?;
        Ok(Self { out, end: CODE_AT, symbols: Vec::new(), names: vec![0] })
    }

    /// Appends a piece of code and returns its offset.
    pub fn add(&mut self, bytes: &[u8], name: &str) -> io::Result<u64> {
        let at = self.end;
        self.out.write_all(bytes)?;
        let end = (at + bytes.len() as u64 + GUARD).next_multiple_of(16);
        pad(&mut self.out, end - at - bytes.len() as u64)?;
        self.end = end;
        let start = self.names.len() as u32;
        // A NUL would end the name.
        self.names.extend(name.bytes().map(|b| if b == 0 { b'?' } else { b }));
        self.names.push(0);
        self.symbols.push(Symbol { name: start, at, len: bytes.len() as u64 });
        Ok(at)
    }

    /// Bytes of code so far.
    pub fn len(&self) -> u64 {
        self.end - CODE_AT
    }

    /// Writes symbols and headers; returns the length of the file.
    pub fn finish(mut self) -> io::Result<u64> {
        const SECTIONS: &[u8] = b"\0.text\0.symtab\0.strtab\0.shstrtab\0";
        let symtab = self.end;
        self.out.write_all(&[0; SYM as usize])?;
        for s in &self.symbols {
            let mut b = Vec::with_capacity(SYM as usize);
            b.extend(s.name.to_le_bytes());
            // STT_FUNC, STB_GLOBAL; default visibility; section 1.
            b.extend([0x12, 0, 1, 0]);
            b.extend(s.at.to_le_bytes());
            b.extend(s.len.to_le_bytes());
            self.out.write_all(&b)?;
        }
        let strtab = symtab + SYM * (self.symbols.len() as u64 + 1);
        self.out.write_all(&self.names)?;
        let shstrtab = strtab + self.names.len() as u64;
        self.out.write_all(SECTIONS)?;
        let shdrs = (shstrtab + SECTIONS.len() as u64).next_multiple_of(8);
        pad(&mut self.out, shdrs - shstrtab - SECTIONS.len() as u64)?;
        let names = self.names.len() as u64;
        let table = [
            // Name, type, flags, address, offset, size, link, info, alignment, size of an entry.
            [0; 10],
            [1, 1, 6, CODE_AT, CODE_AT, symtab - CODE_AT, 0, 0, 16, 0],
            [7, 2, 0, 0, symtab, strtab - symtab, 3, 1, 8, SYM],
            [15, 3, 0, 0, strtab, names, 0, 0, 1, 0],
            [23, 3, 0, 0, shstrtab, SECTIONS.len() as u64, 0, 0, 1, 0],
        ];
        for row in table {
            self.out.write_all(&section(row))?;
        }
        let len = shdrs + u64::from(SHDR) * table.len() as u64;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header(shdrs, table.len() as u16))?;
        self.out.write_all(&segment(symtab))?;
        self.out.flush()?;
        Ok(len)
    }
}

fn pad(out: &mut impl Write, n: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), n), out).map(|_| ())
}

fn section(row: [u64; 10]) -> Vec<u8> {
    let mut b = Vec::with_capacity(SHDR.into());
    for (i, v) in row.into_iter().enumerate() {
        match i {
            0 | 1 | 6 | 7 => b.extend((v as u32).to_le_bytes()),
            _ => b.extend(v.to_le_bytes()),
        }
    }
    b
}

fn header(sections_at: u64, sections: u16) -> Vec<u8> {
    let mut b = b"\x7fELF\x02\x01\x01".to_vec();
    b.resize(16, 0);
    // ET_DYN, EM_X86_64, version 1.
    b.extend(3u16.to_le_bytes());
    b.extend(62u16.to_le_bytes());
    b.extend(1u32.to_le_bytes());
    for v in [0, u64::from(EHDR), sections_at] {
        b.extend(v.to_le_bytes());
    }
    b.extend(0u32.to_le_bytes());
    for v in [EHDR, PHDR, 1, SHDR, sections, sections - 1] {
        b.extend(v.to_le_bytes());
    }
    b
}

/// PT_LOAD, readable and executable, of everything up to `end`.
fn segment(end: u64) -> Vec<u8> {
    let mut b = 1u32.to_le_bytes().to_vec();
    b.extend(5u32.to_le_bytes());
    for v in [0, 0, 0, end, end, 0x1000] {
        b.extend(v.to_le_bytes());
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn u64_at(b: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(b[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn pieces_stand_where_their_symbols_say() {
        let mut bytes = Vec::new();
        let mut file = CodeFile::new(Cursor::new(&mut bytes)).unwrap();
        assert_eq!(file.add(&[1; 5], "first").unwrap(), CODE_AT);
        let second = file.add(&[2; 40], "se\0cond").unwrap();
        assert!(second >= CODE_AT + 5 + GUARD && second % 16 == 0);
        let len = file.finish().unwrap();
        assert_eq!(len, bytes.len() as u64);
        assert_eq!(&bytes[..5], b"\x7fELF\x02");
        // Third section header: .symtab; its third entry: the second piece.
        let shdrs = u64_at(&bytes, 40) as usize;
        let (symtab, strtab) = (u64_at(&bytes, shdrs + 2 * 64 + 24), u64_at(&bytes, shdrs + 3 * 64 + 24));
        let entry = symtab as usize + 2 * SYM as usize;
        assert_eq!((u64_at(&bytes, entry + 8), u64_at(&bytes, entry + 16)), (second, 40));
        let name = u32::from_le_bytes(bytes[entry..entry + 4].try_into().unwrap()) as usize;
        assert!(bytes[strtab as usize + name..].starts_with(b"se?cond\0"));
        assert_eq!(bytes[second as usize..second as usize + 40], [2; 40]);
    }
}
