// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports a capture as a folder that `perf script` reads: `perf.data`, and the code in
//! `code.elf`.

use crate::clock::{Crystal, TraceClock};
use crate::code::{self, Mapped};
use crate::error::Error;
use crate::file::{DUMMY_ID, DataFile, PT_ID};
use crate::plan::{self, CorePlan, Insertions};
use crate::scan;
use crate::sideband::{CoreRecords, merge};
use crate::time::PerfClock;
use crate::trace;
use crate::uses::{self, CoreUses};
use jportal_capture::CaptureReader;
use jportal_capture::header::{packet_flags, return_pops};
use jportal_perf_abi::record::{Mapping, SampleId};
use jportal_perf_abi::{Body, Record};
use jportal_reconstruct::Recording;
use jportal_units::{Address, AddressRange, Core, Tid, Tsc};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Name of the data file.
pub const DATA_FILE: &str = "perf.data";
/// Name of the code file.
pub const CODE_FILE: &str = "code.elf";
/// The name that perf shows for addresses outside the code cache.
const OUTSIDE: &str = "[not traced]";
/// First address after user space.
const USER_END: u64 = 0x7fff_ffff_f000;
/// `PROT_READ | PROT_EXEC`, `MAP_PRIVATE`.
const EXECUTABLE: (u32, u32) = (5, 2);
/// Longest name of a thread, as in the kernel.
const COMM: usize = 15;
/// The number of records after which perf may sort those read so far.
const ROUND: u64 = 4096;

/// The result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Cores with trace.
    pub cores: u64,
    /// Bytes of trace.
    pub trace_bytes: u64,
    /// TSC packets that were inserted into the trace.
    pub inserted: u64,
    /// CYC packets that were left out: the time that perf would derive from them cannot be
    /// predicted.
    pub cycles: u64,
    /// Mappings of code.
    pub mappings: u64,
    /// Bytes of code, all versions.
    pub code_bytes: u64,
    /// Changes of code that perf will see at another place of the trace than the decoder did.
    pub misplaced: u64,
    /// Switches at which perf attributes branches to the wrong thread.
    pub misattributed: u64,
    /// Blocks that ran after their bytes had been replaced in memory; perf's format cannot
    /// express this.
    pub stale: u64,
    /// Gaps in the machine flow.
    pub gaps: u64,
}

/// Called from time to time with the steps done and the steps in total.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// Writes the capture of `recording` to the folder `to`, which is created if necessary.
///
/// # Errors
/// When there is no trace, when perf could not decode it, or when something cannot be read or
/// written.
pub fn export(recording: &Recording, to: &Path, progress: &mut Progress<'_>) -> Result<Exported, Error> {
    let reader = recording.reader();
    let pt = &reader.header().pt;
    if recording.pt_bytes() == 0 {
        return Err(Error::NoTrace);
    }
    if pt.has(packet_flags::RETURN_COMPRESSION) && pt.return_pop != return_pops::ALWAYS {
        return Err(Error::ReturnPop);
    }
    let folder = make(to)?;
    let name = folder.to_string_lossy();
    if name.contains([' ', ',', '\n']) {
        return Err(Error::FolderName { path: folder.clone() });
    }
    let clock = PerfClock::of(reader.header());
    let mut exporter = Exporter { recording, clock, exported: Exported::default(), cores: Vec::new() };
    exporter.plan(progress)?;
    exporter.write(&folder, progress)?;
    Ok(exporter.exported)
}

/// Creates the folder; returns its absolute name.
fn make(to: &Path) -> Result<std::path::PathBuf, Error> {
    let fail = |source| Error::Write { path: to.to_owned(), source };
    std::fs::create_dir_all(to).map_err(fail)?;
    std::fs::canonicalize(to).map_err(fail)
}

/// Creates a file that only its owner may read: it holds the program's code.
fn create(path: &Path) -> Result<File, Error> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.map_err(|source| Error::Write { path: path.to_owned(), source })
}

struct Exporter<'a> {
    recording: &'a Recording,
    clock: PerfClock,
    exported: Exported,
    cores: Vec<CorePlan>,
}

impl<'a> Exporter<'a> {
    fn reader(&self) -> &'a CaptureReader {
        self.recording.reader()
    }

    fn trace_clock(&self) -> TraceClock {
        let header = self.reader().header();
        TraceClock::new(Crystal::of(&header.pt), header.start_tsc)
    }

    /// Reads all trace twice: to find which code ran where, and to find which time perf has
    /// there.
    fn plan(&mut self, progress: &mut Progress<'_>) -> Result<(), Error> {
        let cores: Vec<Core> = self.recording.cores().filter(|&c| self.reader().pt_bytes(c) > 0).collect();
        let steps = 3 * cores.len() as u64;
        for (n, &core) in (0u64..).zip(&cores) {
            let found = uses::collect(self.recording, core)?;
            progress(2 * n + 1, steps);
            let plan = self.scan(core, &found)?;
            self.cores.push(plan);
            self.exported.stale += found.stale;
            self.exported.gaps += found.gaps;
            progress(2 * n + 2, steps);
        }
        Ok(())
    }

    fn scan(&self, core: Core, found: &CoreUses) -> Result<CorePlan, Error> {
        let (mut turns, mut switched) = (Vec::new(), Vec::new());
        let mut running = None;
        for s in self.recording.stretches(core).iter().filter(|s| s.to > s.from) {
            if running != Some(s.tid) {
                turns.push(s.from.0);
                switched.push(s.switched_in.unwrap_or_default().0);
                running = Some(s.tid);
            }
        }
        let truncated = self.recording.stretches(core).iter().filter(|s| s.truncated);
        let losses: Vec<u64> = truncated.map(|s| s.to.0).collect();
        let scan = scan::scan(self.reader(), core, found, &turns, &losses, self.trace_clock())?;
        let turn_times = vec![0; turns.len()];
        Ok(CorePlan { core, scan, losses, switched, insertions: Insertions::new(), turn_times })
    }

    fn write(&mut self, folder: &Path, progress: &mut Progress<'_>) -> Result<(), Error> {
        let times = plan::settle(self.recording.history(), &self.clock, &mut self.cores);
        self.exported.misplaced = times.misplaced;
        self.exported.misattributed = times.misattributed;
        let code_path = folder.join(CODE_FILE);
        let code_file = BufWriter::new(create(&code_path)?);
        let (mapped, code_bytes) = code::write(self.recording, &times.changes, code_file)
            .map_err(|source| Error::Write { path: code_path.clone(), source })?;
        self.exported.mappings = mapped.len() as u64;
        self.exported.code_bytes = code_bytes;
        self.data(folder, &code_path, &mapped, progress)
    }

    fn data(
        &mut self,
        folder: &Path,
        code: &Path,
        mapped: &[Mapped],
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let path = folder.join(DATA_FILE);
        let pt = &self.reader().header().pt;
        let mut file = DataFile::new(BufWriter::new(create(&path)?), &path, pt)?;
        let filter = format!("filter 0x0/{USER_END:#x}@{}", code.display());
        file.auxtrace_info(pt, &self.clock, &filter)?;
        let mut lanes = Vec::new();
        let mut exported = self.exported;
        let steps = 3 * self.cores.len() as u64;
        for (n, core) in (0u64..).zip(&self.cores) {
            let mut edges: Vec<u64> = Vec::new();
            self.recording.stretches(core.core).iter().for_each(|s| edges.extend([s.from.0, s.to.0]));
            edges.sort_unstable();
            edges.dedup();
            let (written, moved) = trace::write(self.reader(), core, self.trace_clock(), &edges, &mut file)?;
            exported.cores += 1;
            exported.trace_bytes += written.bytes;
            exported.inserted += written.inserted;
            exported.cycles += written.cycles;
            lanes.push(CoreRecords::new(self.reader(), &self.clock, core, moved));
            progress(2 * self.cores.len() as u64 + n + 1, steps);
        }
        let made = self.made(code, mapped);
        let mut since_round = 0;
        merge(made.into_iter(), lanes, |record| {
            file.record(&record)?;
            since_round += 1;
            if since_round % ROUND == 0 {
                file.finished_round()?;
            }
            Ok(())
        })?;
        file.finish()?;
        self.exported = exported;
        Ok(())
    }

    /// The synthesised records, names of threads and mappings, in order of time.
    fn made(&self, code: &Path, mapped: &[Mapped]) -> Vec<Record> {
        let header = self.reader().header();
        let pid = header.pid;
        let range = self.recording.code_cache();
        let begin = self.begin(mapped);
        let at = |tid: u32, ns: u64, body: Body| Record {
            body,
            sample: SampleId { pid, tid, time: ns, cpu: 0, id: DUMMY_ID },
        };
        let comm = |tid: Tid, name: &str, exec| Body::Comm { pid, tid: tid.0, exec, name: short(name) };
        let mut all = vec![at(pid, begin, comm(Tid(pid), "java", true))];
        let outside = [(0x1000, range.start.0), (range.end.0, USER_END)];
        for (from, to) in outside.into_iter().filter(|(from, to)| from < to) {
            let range = AddressRange { start: Address(from), end: Address(to) };
            all.push(at(pid, begin, mapping(pid, range, 0, OUTSIDE.as_bytes())));
        }
        let name = code.to_string_lossy();
        for m in mapped {
            let body = mapping(pid, m.range, m.file_offset, name.as_bytes());
            all.push(at(pid, self.clock.ns_from(m.tsc), body));
        }
        for span in self.recording.image().threads.iter() {
            all.push(at(span.tid.0, self.clock.ns(span.started), comm(span.tid, &span.name, false)));
        }
        all.sort_by_key(|r| r.sample.time);
        all
    }

    /// A time at or before that of every record.
    fn begin(&self, mapped: &[Mapped]) -> u64 {
        let turns = self.cores.iter().flat_map(|c| c.turn_times.first().copied());
        let first = mapped.first().map(|m| m.tsc.0).into_iter().chain(turns).filter(|&t| t > 0).min();
        let start = self.reader().header().start_tsc;
        self.clock.ns(Tsc(first.map_or(start, |f| f.min(start))))
    }
}

fn mapping(pid: u32, range: AddressRange, file_offset: u64, name: &[u8]) -> Body {
    Body::Mmap2(Mapping {
        pid,
        tid: pid,
        address: range.start.0,
        len: range.len(),
        file_offset,
        identity: [0; 24],
        protection: EXECUTABLE.0,
        flags: EXECUTABLE.1,
        // PERF_RECORD_MISC_USER
        misc: 2,
        name: name.to_vec(),
    })
}

/// A thread's name cut to the kernel's length, between characters.
fn short(name: &str) -> Vec<u8> {
    let end = (0..=name.len().min(COMM)).rev().find(|&n| name.is_char_boundary(n)).unwrap_or(0);
    name.as_bytes()[..end].to_vec()
}

/// The id of the event to which a sideband record belongs.
pub(crate) const fn id_of(body: &Body) -> u64 {
    match body {
        Body::Aux { .. } | Body::ItraceStart { .. } => PT_ID,
        _ => DUMMY_ID,
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
