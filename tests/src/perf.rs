// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares the branches that `perf script` lists with those of JPortal's machine flow.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use jportal_machine_flow::{Decision, Exit, Item};
use jportal_reconstruct::{MachineListener, Recording, Stretch};
use jportal_units::{AddressRange, Core};

use crate::{Error, Result};

/// The source of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The branch instruction is at this address; 0 if tracing was off before.
    At(u64),
    /// The branch instruction ends before this address.
    EndsAt(u64),
}

/// A taken branch, an entry into the traced range (from 0), or an interrupt (to 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The thread.
    pub tid: u32,
    /// The source.
    pub from: From,
    /// The target; 0 if the trace does not contain it.
    pub to: u64,
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            From::At(ip) => write!(f, "tid {} {ip:#x}", self.tid)?,
            From::EndsAt(ip) => write!(f, "tid {} (end) {ip:#x}", self.tid)?,
        }
        write!(f, " => {:#x}", self.to)
    }
}

/// A branch as `perf script -F tid,cpu,ip,addr,insnlen` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfBranch {
    /// Thread.
    pub tid: u32,
    /// Core.
    pub cpu: u32,
    /// The source.
    pub from: u64,
    /// The target.
    pub to: u64,
    /// Length of the instruction in bytes.
    pub len: u64,
}

impl PerfBranch {
    /// Parses a line; `None` if it is not a branch.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let tid = words.next()?.parse().ok()?;
        let cpu = words.next()?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
        let from = u64::from_str_radix(words.next()?, 16).ok()?;
        words.next().filter(|w| *w == "=>")?;
        let to = u64::from_str_radix(words.next()?, 16).ok()?;
        words.next().filter(|w| *w == "ilen:")?;
        let len = words.next()?.parse().ok()?;
        Some(Self { tid, cpu, from, to, len })
    }

    /// Whether it is the branch `ours`.
    pub fn is(&self, ours: &Branch) -> bool {
        let from = match ours.from {
            From::At(ip) => self.from == ip,
            From::EndsAt(ip) => self.from != 0 && self.from.wrapping_add(self.len) == ip,
        };
        from && self.to == ours.to && self.tid == ours.tid
    }
}

/// Converts the items of one core into branches.
struct Branches {
    cache: AddressRange,
    /// The thread and the end of the block whose branch leads to the next item.
    open: Option<(u32, u64)>,
    send: SyncSender<Vec<Branch>>,
    gaps: u64,
}

impl Branches {
    fn item(&mut self, tid: u32, item: &Item, out: &mut Vec<Branch>) {
        let address = |offset: u32| self.cache.start.plus(offset.into()).0;
        let at = |from, to| Branch { tid, from: From::At(from), to };
        match *item {
            Item::Block { start, end, exit, .. } => {
                if let Some((tid, from)) = self.open.take() {
                    out.push(Branch { tid, from: From::EndsAt(from), to: address(start) });
                }
                if !matches!(exit, Exit::NotTaken | Exit::FallThrough | Exit::Cut) {
                    self.open = Some((tid, address(end)));
                }
            }
            Item::Leave { target } => {
                if let Some((tid, from)) = self.open.take() {
                    let to = target.map_or(0, |t| t.address().0);
                    out.push(Branch { tid, from: From::EndsAt(from), to });
                }
            }
            Item::Interrupt { ip } => {
                // The pending branch led to the interrupted instruction.
                if let Some((tid, from)) = self.open.take() {
                    out.push(Branch { tid, from: From::EndsAt(from), to: ip.0 });
                }
                out.push(at(ip.0, 0));
            }
            Item::Enter { ip } => {
                self.open = None;
                out.push(at(0, ip.0));
            }
            Item::Gap(_) => (self.open, self.gaps) = (None, self.gaps + 1),
            Item::Time(_) => {}
        }
    }
}

impl MachineListener for Branches {
    fn items(&mut self, stretch: &Stretch, items: &[Item], _: &[Decision]) -> bool {
        let mut out = Vec::with_capacity(items.len());
        items.iter().for_each(|item| self.item(stretch.tid.0, item, &mut out));
        out.is_empty() || self.send.send(out).is_ok()
    }
}

/// The branches of one core, in order.
struct Ours {
    receive: Receiver<Vec<Branch>>,
    ready: std::vec::IntoIter<Branch>,
}

impl Ours {
    fn next(&mut self) -> Option<Branch> {
        loop {
            if let Some(branch) = self.ready.next() {
                return Some(branch);
            }
            self.ready = self.receive.recv().ok()?.into_iter();
        }
    }
}

/// The result for one core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreComparison {
    /// The core.
    pub core: u32,
    /// The number of equal branches before the first difference.
    pub equal: u64,
    /// The first difference: our branch and perf's. Nothing after it was compared.
    pub difference: Option<(Option<Branch>, Option<String>)>,
    /// The number of perf's branches after the difference.
    pub not_compared: u64,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfComparison {
    /// The results by core.
    pub cores: Vec<CoreComparison>,
    /// The number of perf's lines that are not branches: its errors.
    pub errors: u64,
    /// The first errors.
    pub first_errors: Vec<String>,
    /// Whether the comparison stopped because `limit` branches were equal.
    pub limited: bool,
}

impl PerfComparison {
    /// The number of equal branches.
    pub fn equal(&self) -> u64 {
        self.cores.iter().map(|c| c.equal).sum()
    }
    /// Whether nothing differs and perf reported no error.
    pub fn is_equal(&self) -> bool {
        self.errors == 0 && self.cores.iter().all(|c| c.difference.is_none())
    }
}

impl fmt::Display for PerfComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in &self.cores {
            write!(f, "core {:<3} {:>12} branches equal", c.core, c.equal)?;
            if let Some((ours, perf)) = &c.difference {
                let ours = ours.map_or_else(|| "nothing more".to_owned(), |b| b.to_string());
                let perf = perf.as_deref().unwrap_or("nothing more");
                write!(f, ", then ours: {ours}, perf's: {perf}; {} behind it", c.not_compared)?;
            }
            writeln!(f)?;
        }
        writeln!(f, "all      {:>12} branches equal, {} errors of perf's", self.equal(), self.errors)?;
        if self.limited {
            writeln!(f, "         (as many as were asked for)")?;
        }
        self.first_errors.iter().try_for_each(|e| writeln!(f, "{e}"))
    }
}

/// Whether `perf` is installed.
pub fn installed() -> bool {
    Command::new("perf").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The number of perf's errors that are kept.
const KEPT: usize = 10;

/// Compares the branches that `perf script` lists for `data` with the machine flow of
/// `recording`, up to `limit` equal branches.
///
/// # Errors
/// If perf cannot be run.
pub fn compare(recording: &Recording, data: &Path, limit: u64) -> Result<PerfComparison> {
    let mut perf = Command::new("perf")
        .args(["script", "--itrace=be", "-F", "tid,cpu,ip,addr,insnlen", "-i"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| Error::from(format!("perf script: {e}")))?;
    let output = perf.stdout.take().ok_or_else(|| Error::from("perf has no output".to_owned()))?;
    let result = std::thread::scope(|scope| {
        let mut ours = Vec::new();
        for core in recording.cores() {
            let (send, receive) = sync_channel(8);
            let mut branches = Branches { cache: recording.code_cache(), open: None, send, gaps: 0 };
            scope.spawn(move || recording.machine_flow(core, &mut branches));
            ours.push((core, Ours { receive, ready: Vec::new().into_iter() }));
        }
        let mut comparer = Comparer::new(ours, limit);
        let mut lines = BufReader::with_capacity(1 << 20, output);
        let mut line = String::new();
        while !comparer.is_done() && lines.read_line(&mut line).is_ok_and(|n| n > 0) {
            comparer.line(line.trim_end());
            line.clear();
        }
        comparer.finish()
    });
    if result.limited {
        // perf would otherwise continue for a long time.
        perf.kill().map_err(|e| Error::from(format!("perf script: {e}")))?;
    }
    let status = perf.wait().map_err(|e| Error::from(format!("perf script: {e}")))?;
    if !status.success() && !result.limited {
        return Err(Error::from(format!("perf script ended with {status}")));
    }
    Ok(result)
}

struct Comparer {
    ours: Vec<(Core, Ours)>,
    found: PerfComparison,
    limit: u64,
    equal: u64,
}

impl Comparer {
    fn new(ours: Vec<(Core, Ours)>, limit: u64) -> Self {
        let cores = ours.iter().map(|o| CoreComparison { core: o.0.0, ..CoreComparison::default() });
        let found = PerfComparison { cores: cores.collect(), ..PerfComparison::default() };
        Self { ours, found, limit, equal: 0 }
    }

    fn is_done(&self) -> bool {
        self.equal >= self.limit
    }

    fn line(&mut self, line: &str) {
        let branch = PerfBranch::parse(line);
        let place = branch.and_then(|b| self.found.cores.iter().position(|c| c.core == b.cpu));
        let (Some(branch), Some(n)) = (branch, place) else {
            if !line.is_empty() {
                self.found.errors += 1;
                if self.found.first_errors.len() < KEPT {
                    self.found.first_errors.push(line.to_owned());
                }
            }
            return;
        };
        let core = &mut self.found.cores[n];
        if core.difference.is_some() {
            core.not_compared += 1;
            return;
        }
        match self.ours[n].1.next() {
            Some(ours) if branch.is(&ours) => {
                core.equal += 1;
                self.equal += 1;
            }
            other => core.difference = Some((other, Some(line.to_owned()))),
        }
    }

    fn finish(mut self) -> PerfComparison {
        self.found.limited = self.is_done();
        for (core, (_, ours)) in self.found.cores.iter_mut().zip(&mut self.ours) {
            if core.difference.is_none() && !self.found.limited {
                core.difference = ours.next().map(|branch| (Some(branch), None));
            }
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_perf() {
        let line = "14158 [002]        402c75b094 =>       402c75b08b ilen: 2";
        let b = PerfBranch::parse(line).unwrap();
        assert_eq!((b.tid, b.cpu, b.from, b.to, b.len), (14158, 2, 0x40_2c75_b094, 0x40_2c75_b08b, 2));
        let same = Branch { tid: 14158, from: From::EndsAt(0x40_2c75_b096), to: 0x40_2c75_b08b };
        assert!(b.is(&same));
        assert!(!b.is(&Branch { tid: 1, ..same }) && !b.is(&Branch { to: 7, ..same }));
        assert!(!b.is(&Branch { from: From::EndsAt(0x40_2c75_b095), ..same }));
        assert!(!b.is(&Branch { from: From::At(0), ..same }));
        assert!(PerfBranch::parse(" instruction trace error type 1 time 1.2 cpu 0 pid 3").is_none());
    }
}
