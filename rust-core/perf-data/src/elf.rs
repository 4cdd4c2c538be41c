// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The code file from which perf reads instructions and symbols: an ELF64 shared object. Its
//! only segment holds all versions of the code one after the other, at addresses that equal
//! file offsets. Code is written as it comes; headers, symbols and names are those of `object`.

use object::write::elf::{Encoder, FileHeader, FileHeaderLayout, ProgramHeader, SectionHeader, Sym};
use object::write::{CountingBuffer, StreamingBuffer, StringTable, WritableBuffer};
use object::{LittleEndian, elf};
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes before the code: ELF header and one program header, padded.
pub(crate) const CODE_AT: u64 = 0x1000;
/// Bytes after each piece of code, so that a reader of an instruction at its end does not see
/// the next piece.
const GUARD: u64 = 16;

/// The sections, by number; 0 is none.
const SECTIONS: [&[u8]; 4] = [b".text", b".symtab", b".strtab", b".shstrtab"];
const TEXT: u32 = 1;
const STRTAB: u32 = 3;
const SHSTRTAB: u32 = 4;

/// A symbol of the file.
struct Symbol {
    name: String,
    at: u64,
    len: u64,
}

/// Writes such a file from front to back; the headers come last.
pub(crate) struct CodeFile<W> {
    out: W,
    end: u64,
    symbols: Vec<Symbol>,
}

impl<W: Write + Seek> CodeFile<W> {
    /// Starts the file at the beginning of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[0; CODE_AT as usize])?;
        Ok(Self { out, end: CODE_AT, symbols: Vec::new() })
    }

    /// Appends a piece of code and returns its offset.
    pub fn add(&mut self, bytes: &[u8], name: &str) -> io::Result<u64> {
        let (at, len) = (self.end, bytes.len() as u64);
        self.out.write_all(bytes)?;
        let end = (at + len + GUARD).next_multiple_of(16);
        io::copy(&mut io::Read::take(io::repeat(0), end - at - len), &mut self.out)?;
        self.end = end;
        // A NUL would end the name.
        self.symbols.push(Symbol { name: name.replace('\0', "?"), at, len });
        Ok(at)
    }

    /// Bytes of code so far.
    pub fn len(&self) -> u64 {
        self.end - CODE_AT
    }

    /// Writes symbols and headers; returns the length of the file.
    pub fn finish(mut self) -> io::Result<u64> {
        let file = Encoder::new(LittleEndian, true, elf::EM_X86_64);
        let symtab = self.end;
        let mut out = CountingBuffer::new(StreamingBuffer::new(&mut self.out));
        let mut names = StringTable::new_in_order(1);
        file.null_symbol(&mut out);
        for s in &self.symbols {
            let name = names.add(s.name.as_bytes());
            let symbol = Sym {
                section: Some(TEXT),
                st_name: names.get_offset(name),
                st_info: elf::STB_GLOBAL | elf::STT_FUNC,
                st_other: elf::STV_DEFAULT.into(),
                st_shndx: elf::SHN_UNDEF,
                st_value: s.at,
                st_size: s.len,
            };
            file.symbol(&mut out, &symbol);
        }
        let strtab = symtab + out.count();
        let strtab_size = write_strings(&mut names, &mut out)?;
        let shstrtab = strtab + strtab_size;
        let mut titles = StringTable::new_in_order(1);
        let sh_name = SECTIONS.map(|title| {
            let id = titles.add(title);
            titles.get_offset(id)
        });
        let shstrtab_size = write_strings(&mut titles, &mut out)?;
        // The symbols begin at a multiple of 16.
        out.write_align(file.address_size());
        let layout = FileHeaderLayout {
            e_phoff: file.file_header_size(),
            segment_num: 1,
            e_shoff: symtab + out.count(),
            section_num: SECTIONS.len() as u32 + 1,
            shstrtab_index: SHSTRTAB,
        };
        let text = SectionHeader {
            sh_type: elf::SHT_PROGBITS,
            sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
            sh_addr: CODE_AT,
            sh_addralign: 16,
            ..SectionHeader::default()
        };
        // The null symbol is the only local one.
        let symbols = file.symtab_section_header(STRTAB, 1);
        file.null_section_header(&mut out, &layout);
        let sections = [
            (text, CODE_AT, symtab - CODE_AT),
            (symbols, symtab, strtab - symtab),
            (file.strtab_section_header(), strtab, strtab_size),
            (file.strtab_section_header(), shstrtab, shstrtab_size),
        ];
        for (sh_name, (section, sh_offset, sh_size)) in sh_name.into_iter().zip(sections) {
            file.section_header(&mut out, &SectionHeader { sh_name, sh_offset, sh_size, ..section });
        }
        let len = symtab + out.count();
        out.into_inner().result()?;

        self.out.seek(SeekFrom::Start(0))?;
        let mut out = StreamingBuffer::new(&mut self.out);
        let header = FileHeader { e_type: elf::ET_DYN, e_machine: elf::EM_X86_64, ..FileHeader::default() };
        file.file_header(&mut out, &header, &layout).map_err(io::Error::other)?;
        let segment = ProgramHeader {
            p_type: elf::PT_LOAD,
            p_flags: elf::PF_R | elf::PF_X,
            p_offset: 0,
            p_vaddr: 0,
            p_paddr: 0,
            p_filesz: symtab,
            p_memsz: symtab,
            p_align: 0x1000,
        };
        file.program_header(&mut out, &segment);
        out.flush()?;
        Ok(len)
    }
}

/// Writes the strings after a NUL, as ELF has them; returns the number of bytes.
fn write_strings(strings: &mut StringTable<'_>, out: &mut impl WritableBuffer) -> io::Result<u64> {
    out.write_zeros(1);
    strings.write(out, 1).map(u64::from).map_err(io::Error::other)
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
        let entry = symtab as usize + 2 * 24;
        assert_eq!((u64_at(&bytes, entry + 8), u64_at(&bytes, entry + 16)), (second, 40));
        let name = u32::from_le_bytes(bytes[entry..entry + 4].try_into().unwrap()) as usize;
        assert!(bytes[strtab as usize + name..].starts_with(b"se?cond\0"));
        assert_eq!(bytes[second as usize..second as usize + 40], [2; 40]);
    }
}
