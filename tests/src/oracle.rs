// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The oracle's log. The tests read it with code of their own, independent of `jportal verify`.
//! `tests/oracle-agent/FORMAT.md` defines the format.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Result;

const HEADER: usize = 32;
const ENTRY: usize = 4;

/// The probe log of one thread. It can be read while the program runs and afterwards.
#[derive(Debug)]
pub struct ProbeFile {
    path: PathBuf,
    file: File,
}

impl ProbeFile {
    /// The logs of all threads in a log directory; none if the directory does not exist.
    ///
    /// # Errors
    /// If a log cannot be opened.
    pub fn all(directory: &Path) -> Result<Vec<Self>> {
        let Ok(all) = std::fs::read_dir(directory) else { return Ok(Vec::new()) };
        let paths = all.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "probes"));
        paths.map(|path| Ok(Self { file: File::open(&path)?, path })).collect()
    }

    /// The log of the only thread that has one; `None` if no thread has one.
    ///
    /// # Errors
    /// If several threads have one.
    pub fn find(directory: &Path) -> Result<Option<Self>> {
        let mut all = Self::all(directory)?;
        if let [one, other, ..] = &all[..] {
            let (one, other) = (one.path.display(), other.path.display());
            return Err(format!("{one} and {other}: two threads have probes").into());
        }
        Ok(all.pop())
    }

    /// The number of probes hit so far.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn passed(&self) -> Result<u64> {
        let length = self.file.metadata()?.len().saturating_sub(HEADER as u64);
        // Entries that have not been written are zero.
        let (mut low, mut high) = (0, length / ENTRY as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            let is_written = self.entries(middle..middle + 1)?.iter().any(|byte| *byte != 0);
            if is_written { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Writes a copy to `directory` that holds the entries of `ranges` only.
    ///
    /// # Errors
    /// If an entry does not exist, or the copy cannot be written.
    pub fn copy(&self, ranges: &[Range<u64>], directory: &Path) -> Result<()> {
        let mut bytes = vec![0; HEADER];
        self.file.read_exact_at(&mut bytes, 0)?;
        for range in ranges {
            bytes.extend(self.entries(range.clone())?);
        }
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join(self.path.file_name().unwrap_or_default()), bytes)?;
        Ok(())
    }

    fn entries(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut ids = vec![0; (range.end - range.start) as usize * ENTRY];
        self.file.read_exact_at(&mut ids, HEADER as u64 + range.start * ENTRY as u64)?;
        Ok(ids)
    }
}

/// The VM's process id, from a log directory.
///
/// # Errors
/// If the directory does not contain it.
pub fn pid(directory: &Path) -> Result<u32> {
    let facts = std::fs::read_to_string(directory.join("agent.tsv"))?;
    let pid = facts.lines().find_map(|line| line.strip_prefix("pid\t"));
    Ok(pid.ok_or("the oracle tells no pid")?.trim().parse()?)
}

/// One thread's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadLog {
    /// OS thread id.
    pub tid: u32,
    /// Probe ids in order.
    pub ids: Vec<u32>,
}

/// The meaning of a probe id. Ids differ between runs, meanings do not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// Internal class name.
    pub class: String,
    /// Name and descriptor.
    pub method: String,
    /// Index among the method's probes.
    pub ordinal: u32,
    /// The bci of the block's leader, before instrumentation.
    pub original_bci: u32,
    /// The line of the block's leader.
    pub line: u32,
}

/// The log of a run.
#[derive(Debug, Default)]
pub struct OracleLog {
    /// The threads that hit a probe, ordered by the time of their first hit.
    pub threads: Vec<ThreadLog>,
    /// Probes by id.
    pub probes: BTreeMap<u32, Probe>,
    /// Lines of skipped.tsv, without its header line.
    pub skipped: Vec<String>,
    /// Content of error.txt.
    pub error: Option<String>,
}

impl OracleLog {
    /// Reads a log directory.
    ///
    /// # Errors
    /// If a file is missing or malformed.
    pub fn read(directory: &Path) -> Result<Self> {
        let mut log = Self {
            probes: read_probes(&directory.join("probes.tsv"))?,
            skipped: std::fs::read_to_string(directory.join("skipped.tsv"))?
                .lines()
                .skip(1)
                .map(Into::into)
                .collect(),
            error: std::fs::read_to_string(directory.join("error.txt")).ok(),
            threads: Vec::new(),
        };
        let mut threads = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "probes") {
                threads.push(read_thread(&path).map_err(|e| format!("{}: {e}", path.display()))?);
            }
        }
        threads.sort_by_key(|(start, _)| *start);
        log.threads = threads.into_iter().map(|(_, thread)| thread).collect();
        Ok(log)
    }

    /// The number of hits of all threads.
    pub fn hits(&self) -> u64 {
        self.threads.iter().map(|t| t.ids.len() as u64).sum()
    }

    /// The meanings of a thread's probes, in order.
    ///
    /// # Errors
    /// If an id is not in probes.tsv.
    pub fn meaning(&self, thread: &ThreadLog) -> Result<Vec<&Probe>> {
        thread
            .ids
            .iter()
            .map(|id| self.probes.get(id).ok_or_else(|| format!("probe {id} is unknown").into()))
            .collect()
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32> {
    let slice = bytes.get(at..at + 4).ok_or("the file ends early")?;
    Ok(u32::from_le_bytes(slice.try_into()?))
}

/// Reads a probe file; returns its start time and the log.
fn read_thread(path: &Path) -> Result<(u64, ThreadLog)> {
    let bytes = std::fs::read(path)?;
    if !bytes.starts_with(b"JPPROBE\0") || word(&bytes, 8)? != 1 {
        return Err("no probe log of version 1".into());
    }
    let start = u64::from(word(&bytes, 16)?) | u64::from(word(&bytes, 20)?) << 32;
    let mut ids = Vec::with_capacity(bytes.len() / 4);
    for at in (HEADER..bytes.len()).step_by(ENTRY) {
        match word(&bytes, at)? {
            0 => break,
            id => ids.push(id),
        }
    }
    Ok((start, ThreadLog { tid: word(&bytes, 12)?, ids }))
}

fn read_probes(path: &Path) -> Result<BTreeMap<u32, Probe>> {
    let mut probes = BTreeMap::new();
    for line in std::fs::read_to_string(path)?.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, class, _loader, method, descriptor, ordinal, _bci, original, source] = fields[..] else {
            return Err(format!("{}: not nine fields: {line:?}", path.display()).into());
        };
        let probe = Probe {
            class: class.into(),
            method: format!("{method}{descriptor}"),
            ordinal: ordinal.parse()?,
            original_bci: original.parse()?,
            line: source.parse()?,
        };
        if probes.insert(id.parse()?, probe).is_some() {
            return Err(format!("{}: probe {id} is there twice", path.display()).into());
        }
    }
    Ok(probes)
}
