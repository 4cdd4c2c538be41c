// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The code cache over time, as mappings of one file.
//!
//! Each installation of code, and each patch, becomes a mapping that is valid from its time on.
//! perf caches decoded instructions by their place in the file, and looks only at the mapping
//! in which a run of instructions begins. So a patch maps its whole blob again, from another
//! place in the file. A method's entry stub is entered at its start only, so a patch of it maps
//! the stub alone.

use crate::elf::CodeFile;
use jportal_machine_flow::CodeHistory;
use jportal_reconstruct::Recording;
use jportal_units::{Address, AddressRange, CodeId, Tsc};
use jportal_vm_image::{CodeBody, CodeVersion, VmImage};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Seek, Write};

/// A part of the file that is mapped from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// The time from which on it is mapped.
    pub tsc: Tsc,
    /// The address range.
    pub range: AddressRange,
    /// The place in the file.
    pub file_offset: u64,
}

/// The code that is at an address at present.
struct Standing {
    code: CodeId,
    bytes: Vec<u8>,
}

/// Writes versions of code in the order of their changes.
struct Mapper<'a, W> {
    recording: &'a Recording,
    file: CodeFile<W>,
    /// By start address.
    standing: BTreeMap<u64, Standing>,
    /// The place in the file of code that was written before, by start address and bytes.
    known: HashMap<(u64, CodeId, Vec<u8>), u64>,
    mapped: Vec<Mapped>,
}

/// Writes all code to `file`; each change is valid from its time in `times` on. Returns the
/// mappings in order of time, and the bytes of code.
pub(crate) fn write<W: Write + Seek>(
    recording: &Recording,
    times: &[Tsc],
    file: W,
) -> io::Result<(Vec<Mapped>, u64)> {
    let history = recording.history();
    let mut order: Vec<u32> = (0..history.len() as u32).collect();
    order.sort_by_key(|&n| (times.get(n as usize).copied(), n));
    let file = CodeFile::new(file)?;
    let (standing, known, mapped) = (BTreeMap::new(), HashMap::new(), Vec::new());
    let mut mapper = Mapper { recording, file, standing, known, mapped };
    for number in order {
        mapper.change(history, number, times.get(number as usize).copied().unwrap_or_default())?;
    }
    let bytes = mapper.file.len();
    mapper.file.finish()?;
    Ok((mapper.mapped, bytes))
}

impl<W: Write + Seek> Mapper<'_, W> {
    fn change(&mut self, history: &CodeHistory, number: u32, tsc: Tsc) -> io::Result<()> {
        let Some(change) = history.code_change(number) else { return Ok(()) };
        let range = change.range;
        match change.installed {
            Some(code) => {
                self.clear(range);
                self.standing.insert(range.start.0, Standing { code, bytes: change.bytes.to_vec() });
                self.map(tsc, range.start.0)
            }
            None if change.bytes.is_empty() => {
                self.clear(range);
                Ok(())
            }
            None => self.patch(tsc, range, change.bytes),
        }
    }

    fn patch(&mut self, tsc: Tsc, range: AddressRange, bytes: &[u8]) -> io::Result<()> {
        let Some((&start, standing)) = self.standing.range_mut(..=range.start.0).next_back() else {
            return Ok(());
        };
        let at = (range.start.0 - start) as usize;
        let Some(place) = standing.bytes.get_mut(at..at + bytes.len()) else { return Ok(()) };
        if place == bytes {
            return Ok(());
        }
        place.copy_from_slice(bytes);
        let image = self.recording.image();
        let version = image.code(standing.code);
        if version.is_some_and(CodeVersion::is_method_stubs) {
            let name = stub_name(image, range.start, tsc);
            let file_offset = self.file.add(bytes, &name)?;
            self.mapped.push(Mapped { tsc, range, file_offset });
            return Ok(());
        }
        self.map(tsc, start)
    }

    /// Maps the code at `start`.
    fn map(&mut self, tsc: Tsc, start: u64) -> io::Result<()> {
        let Some(standing) = self.standing.get(&start) else { return Ok(()) };
        let key = (start, standing.code, standing.bytes.clone());
        let file_offset = match self.known.get(&key) {
            Some(&at) => at,
            None => {
                let at =
                    self.file.add(&standing.bytes, &name(self.recording.image(), standing.code, start))?;
                self.known.insert(key, at);
                at
            }
        };
        let range = AddressRange::at(Address(start), standing.bytes.len() as u64);
        self.mapped.push(Mapped { tsc, range, file_offset });
        Ok(())
    }

    /// Removes the code in `range`. Code that overlaps its edges keeps the part outside.
    fn clear(&mut self, range: AddressRange) {
        let (from, to) = (range.start.0, range.end.0);
        let mut starts: Vec<u64> = self.standing.range(from..to).map(|s| *s.0).collect();
        let before = self.standing.range(..from).next_back();
        starts.extend(before.filter(|(s, c)| **s + c.bytes.len() as u64 > from).map(|s| *s.0));
        for start in starts {
            let Some(Standing { code, bytes }) = self.standing.remove(&start) else { continue };
            if start < from {
                let rest = bytes[..(from - start) as usize].to_vec();
                self.standing.insert(start, Standing { code, bytes: rest });
            }
            if start + bytes.len() as u64 > to {
                let rest = bytes[(to - start) as usize..].to_vec();
                self.standing.insert(to, Standing { code, bytes: rest });
            }
        }
    }
}

/// The name of `code` for perf.
fn name(image: &VmImage, code: CodeId, at: u64) -> String {
    let Some(version) = image.code(code) else { return "unknown".to_owned() };
    match &version.body {
        CodeBody::NMethod(n) => {
            let method = n.method.and_then(|m| image.table().get(m));
            let method = method.map_or_else(|| "unknown method".to_owned(), |m| m.qualified_name());
            let osr = n.osr_bci.map_or_else(String::new, |bci| format!(" osr@{bci}"));
            let level =
                if n.is_native_wrapper() { "native".to_owned() } else { format!("level {}", n.level) };
            format!("{method} [{level}{osr} #{}]", n.compile_id)
        }
        CodeBody::Codelet => {
            let codelet = image.interpreter.codelet_at(Address(at)).unwrap_or("codelet");
            format!("interpreter {codelet}")
        }
        CodeBody::Blob { name, .. } => name.to_string(),
    }
}

fn stub_name(image: &VmImage, at: Address, tsc: Tsc) -> String {
    let method = image.stub_at(at, tsc).and_then(|m| image.table().get(m));
    method.map_or_else(|| "method stub".to_owned(), |m| format!("{} [entry stub]", m.qualified_name()))
}
