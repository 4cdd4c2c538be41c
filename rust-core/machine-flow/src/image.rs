// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The contents of the traced code cache as a function of time.

use crate::config::Slack;
use crate::error::Error;
use jportal_units::{Address, AddressRange, CodeId, Tid, Tsc};
use std::collections::HashMap;
use std::sync::OnceLock;

/// What a patch is. Threads make patches while they are outside the traced range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patch {
    /// The destination of a call. The writer entered the VM through that call
    /// (`SharedRuntime::resolve_helper`, `handle_ic_miss_helper`, `reresolve_call_site`,
    /// `fixup_callers_callsite`).
    Call,
    /// An instruction of C1 that replaces the jump to its patch stub, or an intermediate step of
    /// that patch. The writer entered the VM through a patch stub (`Runtime1::patch_code`).
    PatchStub,
    /// Anything else.
    Other,
}

/// What a [`CacheChange`] did to its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangeKind {
    /// New code was installed.
    Install(CodeId),
    /// Some bytes of the present code changed.
    Patch(Patch),
    /// The code will not run any more.
    Free,
}

/// One change of the code cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheChange {
    /// Time of the record. Old bytes do not run after it.
    pub tsc: u64,
    /// New bytes do not run before this time; `None` if unknown.
    pub since: Option<u64>,
    /// Offset from the start of the code cache.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
    /// What the change did.
    pub kind: ChangeKind,
    /// Thread that wrote the change; 0 if unknown.
    pub writer: u32,
    data: usize,
}

impl CacheChange {
    /// Offset of the first byte after the change.
    pub fn end(&self) -> u32 {
        self.start + self.len
    }
    /// The time before which no new bytes run, if a record may follow its store by `before`
    /// ticks.
    pub fn earliest(&self, before: u64) -> u64 {
        self.since.unwrap_or(self.tsc.saturating_sub(before))
    }
    /// Whether the change is the destination of a call.
    pub fn is_call(&self) -> bool {
        self.kind == ChangeKind::Patch(Patch::Call)
    }
    /// Whether the change has a byte in `[start, end)`.
    pub fn overlaps(&self, start: u32, end: u32) -> bool {
        self.start < end && start < self.end()
    }
}

/// Everything that was written to the code cache, with the time of each record.
///
/// Built once from the capture's metadata and shared by the decoders of all cores.
/// Changes may come in any order of time, because producers stamp their records themselves.
/// Changes with the same time keep the order in which they came.
#[derive(Clone, Debug)]
pub struct CodeHistory {
    range: AddressRange,
    changes: Vec<CacheChange>,
    data: Vec<u8>,
    /// Indexed by the number of the code.
    marks: Vec<Marks>,
    /// By thread, in order of time.
    resolutions: HashMap<u32, Vec<Resolution>>,
    /// For each change, the smallest `since` of this change and those after it. Changes without a
    /// `since` do not count.
    reach: OnceLock<Vec<u64>>,
    /// Whether there are changes without a `since`.
    vague: bool,
}

/// Properties of a code other than its bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Marks {
    leaves_by_calls: bool,
    resolves_calls: bool,
    upcalls: bool,
    calls_out: bool,
}

/// A thread entered the VM for the destination of a call or the instruction of a patch stub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolution {
    pub tsc: u64,
    /// Offset at which the call returns; `u32::MAX` outside the code cache.
    pub returns: u32,
}

/// The contents of an address range from some time on, as [`CodeHistory::versions`] reports them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Time of the change that made these bytes; 0 for the first.
    pub since: Tsc,
    /// The code that the range belongs to; `None` if no code was installed.
    pub code: Option<CodeId>,
    /// The bytes; 0 where they are unknown.
    pub bytes: Vec<u8>,
}

/// One change of the code cache, as [`CodeHistory::code_change`] reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeChange<'a> {
    /// Time of its record.
    pub tsc: Tsc,
    /// A time before its store; `None` if unknown.
    pub since: Option<Tsc>,
    /// What it changed.
    pub range: AddressRange,
    /// The bytes of the range afterwards; empty where code was freed.
    pub bytes: &'a [u8],
    /// The code that was installed; `None` for a patch, and where code was freed.
    pub installed: Option<CodeId>,
}

impl CodeHistory {
    /// An empty code cache.
    pub fn new(range: AddressRange) -> Result<Self, Error> {
        if range.len() >= u64::from(u32::MAX) {
            return Err(Error::CodeCacheTooLarge { size: range.len() });
        }
        Ok(Self {
            range,
            changes: Vec::new(),
            data: Vec::new(),
            marks: Vec::new(),
            resolutions: HashMap::new(),
            reach: OnceLock::new(),
            vague: false,
        })
    }

    /// The code cache's bounds. Offsets in [`crate::Item::Block`] count from its start.
    pub fn range(&self) -> AddressRange {
        self.range
    }

    /// Code was installed at `start`: `bytes` replace the previous contents. None of it runs
    /// before `tsc`.
    pub fn install(&mut self, tsc: Tsc, start: Address, bytes: &[u8], code: CodeId) -> Result<(), Error> {
        self.insert((Some(tsc), tsc), start, bytes, bytes.len() as u64, ChangeKind::Install(code), None)
    }

    /// Marks a `code` that only code of the cache calls, and that jumps only to such code. So
    /// control leaves the cache from `code` only by calls.
    pub fn mark_leaves_by_calls(&mut self, code: CodeId) {
        self.marks(code).leaves_by_calls = true;
    }

    /// Marks a `code` whose calls out of the code cache have the VM resolve a call or a patch
    /// stub. There is a [`CodeHistory::resolution`] for each of those calls
    /// (`SharedRuntime::generate_resolve_blob`, `Runtime1::generate_patching`).
    pub fn mark_resolves_calls(&mut self, code: CodeId) {
        self.marks(code).resolves_calls = true;
    }

    /// Marks a `code` through which the VM calls Java code (`StubRoutines::call_stub`). It may do
    /// so in the middle of a visit.
    pub fn mark_upcalls(&mut self, code: CodeId) {
        self.marks(code).upcalls = true;
    }

    /// Marks a `code` whose calls through a register all lead out of the cache
    /// (`SharedRuntime::generate_native_wrapper`).
    pub fn mark_calls_out(&mut self, code: CodeId) {
        self.marks(code).calls_out = true;
    }

    fn marks(&mut self, code: CodeId) -> &mut Marks {
        let number = code.0 as usize;
        if self.marks.len() <= number {
            self.marks.resize(number + 1, Marks::default());
        }
        &mut self.marks[number]
    }

    fn marked(&self, code: CodeId) -> Marks {
        self.marks.get(code.0 as usize).copied().unwrap_or_default()
    }

    pub(crate) fn leaves_only_by_calls(&self, code: CodeId) -> bool {
        self.marked(code).leaves_by_calls
    }

    pub(crate) fn calls_out(&self, code: CodeId) -> bool {
        self.marked(code).calls_out
    }

    pub(crate) fn resolves_calls(&self, code: CodeId) -> bool {
        self.marked(code).resolves_calls
    }

    /// Whether a thread that enters the range in `code` may be in the middle of a visit that has
    /// not made its record.
    pub(crate) fn may_be_visiting(&self, code: CodeId) -> bool {
        let marks = self.marked(code);
        marks.resolves_calls || marks.upcalls
    }

    /// `thread` was outside the traced range to have the VM resolve a call, or a patch stub with
    /// a call, that returns to `returns`.
    pub fn resolution(&mut self, tsc: Tsc, thread: Tid, returns: Address) {
        let inside = self.range.contains(returns);
        let returns = if inside { returns.minus(self.range.start) as u32 } else { u32::MAX };
        let list = self.resolutions.entry(thread.0).or_default();
        let at = list.partition_point(|r| r.tsc <= tsc.0);
        list.insert(at, Resolution { tsc: tsc.0, returns });
    }

    /// The resolutions of `thread`, in order of time.
    pub(crate) fn resolutions(&self, thread: Tid) -> &[Resolution] {
        self.resolutions.get(&thread.0).map_or(&[], |list| list)
    }

    /// Bytes of installed code were overwritten by `bytes`, between `since` (`None` if unknown)
    /// and `tsc`, by the thread `writer` (`None` if unknown).
    pub fn patch(
        &mut self,
        tsc: Tsc,
        since: Option<Tsc>,
        address: Address,
        bytes: &[u8],
        writer: Option<Tid>,
        what: Patch,
    ) -> Result<(), Error> {
        self.insert((since, tsc), address, bytes, bytes.len() as u64, ChangeKind::Patch(what), writer)
    }

    /// The code at `start` was freed.
    pub fn free(&mut self, tsc: Tsc, start: Address, size: u64) -> Result<(), Error> {
        self.insert((Some(tsc), tsc), start, &[], size, ChangeKind::Free, None)
    }

    fn insert(
        &mut self,
        (since, tsc): (Option<Tsc>, Tsc),
        start: Address,
        bytes: &[u8],
        len: u64,
        kind: ChangeKind,
        writer: Option<Tid>,
    ) -> Result<(), Error> {
        let range = AddressRange::at(start, len);
        let inside =
            start.0 >= self.range.start.0 && range.end.0 <= self.range.end.0 && range.end.0 >= start.0;
        if !inside {
            return Err(Error::OutsideCodeCache { range, cache: self.range });
        }
        if len == 0 {
            return Ok(());
        }
        let change = CacheChange {
            tsc: tsc.0,
            since: since.map(|t| t.0.min(tsc.0)),
            start: start.minus(self.range.start) as u32,
            len: len as u32,
            kind,
            writer: writer.map_or(0, |t| t.0),
            data: self.data.len(),
        };
        self.vague |= since.is_none();
        self.reach.take();
        self.data.extend_from_slice(bytes);
        let at = self.changes.partition_point(|c| c.tsc <= change.tsc);
        self.changes.insert(at, change);
        Ok(())
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing was ever installed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Time and range of a change, by its number in a [`crate::Decision`].
    pub fn change(&self, number: u32) -> Option<(Tsc, AddressRange)> {
        let c = self.changes.get(number as usize)?;
        Some((Tsc(c.tsc), AddressRange::at(self.range.start.plus(c.start.into()), c.len.into())))
    }

    /// A change, by its number in a [`crate::Decision`].
    pub fn code_change(&self, number: u32) -> Option<CodeChange<'_>> {
        let c = self.changes.get(number as usize)?;
        let installed = match c.kind {
            ChangeKind::Install(code) => Some(code),
            ChangeKind::Patch(_) | ChangeKind::Free => None,
        };
        let range = AddressRange::at(self.range.start.plus(c.start.into()), c.len.into());
        let since = c.since.map(Tsc);
        Some(CodeChange { tsc: Tsc(c.tsc), since, range, bytes: self.bytes_of(c), installed })
    }

    /// Whether there are changes that do not say when their store began.
    pub(crate) fn is_vague(&self) -> bool {
        self.vague
    }

    /// Whether change `number`, or a change after it, may be visible at `latest`, if a record may
    /// follow its store by `before` ticks. If the answer is no, it is no for all later changes,
    /// too.
    pub(crate) fn reaches(&self, number: usize, latest: u64, before: u64) -> bool {
        let late = |c: &CacheChange| self.vague && c.tsc <= latest.saturating_add(before);
        self.reach().get(number).is_some_and(|&since| since <= latest)
            || self.changes.get(number).is_some_and(late)
    }

    /// A core that ran code at `tsc` may or may not have seen some changes by then. The time
    /// before which none of them was visible: what a core ran before it says nothing about them.
    /// `Tsc(u64::MAX)` if there is no such change, now or later.
    pub fn unsettled_since(&self, tsc: Tsc, slack: Slack) -> Tsc {
        let settled = tsc.0.saturating_sub(slack.after);
        let first = self.changes.partition_point(|c| c.tsc < settled);
        let known = self.reach().get(first).copied().unwrap_or(u64::MAX);
        let vague =
            self.changes.get(first).filter(|_| self.vague).map(|c| c.tsc.saturating_sub(slack.before));
        Tsc(vague.map_or(known, |v| v.min(known)))
    }

    /// For each change, the earliest time at which the store of it, or of a change after it, began.
    fn reach(&self) -> &[u64] {
        self.reach.get_or_init(|| {
            let mut least = u64::MAX;
            let mut all: Vec<u64> = self
                .changes
                .iter()
                .rev()
                .map(|c| {
                    least = least.min(c.since.unwrap_or(u64::MAX));
                    least
                })
                .collect();
            all.reverse();
            all
        })
    }

    pub(crate) fn changes(&self) -> &[CacheChange] {
        &self.changes
    }

    /// The bytes that a change wrote; empty for a [`ChangeKind::Free`].
    pub(crate) fn bytes_of(&self, change: &CacheChange) -> &[u8] {
        match change.kind {
            ChangeKind::Free => &[],
            _ => &self.data[change.data..change.data + change.len as usize],
        }
    }

    /// Copies the part of `change` that lies in `[at, at + out.len())` to `out`.
    pub(crate) fn apply(&self, change: &CacheChange, at: u32, out: &mut [u8]) {
        let bytes = self.bytes_of(change);
        let (from, to) = (change.start.max(at), change.end().min(at + out.len() as u32));
        if bytes.is_empty() || from >= to {
            return;
        }
        let source = &bytes[(from - change.start) as usize..(to - change.start) as usize];
        out[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
    }

    /// The contents of `[address, address + len)` between `since` and `latest`: one version if
    /// they did not change, else all versions in order of time. Walks the whole history; the
    /// decoder uses its own view instead.
    pub fn versions(&self, address: Address, len: usize, since: Tsc, latest: Tsc) -> Vec<Version> {
        let mut versions = vec![Version { since: Tsc(0), code: None, bytes: vec![0; len] }];
        if !self.range.contains(address) || address.plus(len as u64) > self.range.end {
            return versions;
        }
        let at = address.minus(self.range.start) as u32;
        for change in self.changes.iter().filter(|c| c.overlaps(at, at + len as u32)) {
            if change.tsc > latest.0 {
                break;
            }
            let mut next = versions[versions.len() - 1].clone();
            next.since = Tsc(change.tsc);
            self.apply(change, at, &mut next.bytes);
            match change.kind {
                ChangeKind::Install(code) if change.start <= at => next.code = Some(code),
                ChangeKind::Free if change.start <= at => next.code = None,
                _ => {}
            }
            if change.tsc <= since.0 {
                versions.clear();
            }
            versions.push(next);
        }
        versions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> CodeHistory {
        let mut h = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        h.install(Tsc(10), Address(0x1100), &[1, 2, 3, 4], CodeId(1)).unwrap();
        h.patch(Tsc(30), None, Address(0x1102), &[9], None, Patch::Other).unwrap();
        h.patch(Tsc(20), None, Address(0x1101), &[8], None, Patch::Other).unwrap();
        h.free(Tsc(40), Address(0x1100), 4).unwrap();
        h.install(Tsc(50), Address(0x10fe), &[5; 8], CodeId(2)).unwrap();
        h
    }

    #[test]
    fn versions_are_ordered_by_time_and_replaced_by_installs() {
        let h = history();
        let at = |since, latest| -> Vec<(u64, Option<u32>, Vec<u8>)> {
            let v = h.versions(Address(0x1100), 4, Tsc(since), Tsc(latest));
            v.into_iter().map(|v| (v.since.0, v.code.map(|c| c.0), v.bytes)).collect()
        };
        assert_eq!(at(15, 19), [(10, Some(1), vec![1, 2, 3, 4])]);
        assert_eq!(at(15, 20), [(10, Some(1), vec![1, 2, 3, 4]), (20, Some(1), vec![1, 8, 3, 4])]);
        assert_eq!(at(35, 35), [(30, Some(1), vec![1, 8, 9, 4])]);
        assert_eq!(at(60, 70), [(50, Some(2), vec![5; 4])]);
        assert_eq!(at(0, 5), [(0, None, vec![0; 4])]);
    }

    #[test]
    fn a_change_is_reached_with_the_earliest_one_after_it() {
        let mut h = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        h.install(Tsc(10), Address(0x1100), &[1; 8], CodeId(1)).unwrap();
        h.patch(Tsc(90), Some(Tsc(20)), Address(0x1101), &[2], None, Patch::Other).unwrap();
        h.patch(Tsc(50), Some(Tsc(40)), Address(0x1102), &[3], None, Patch::Other).unwrap();
        let reached =
            |h: &CodeHistory, latest| (0..4).filter(|&n| h.reaches(n, latest, 100)).collect::<Vec<_>>();
        assert_eq!(reached(&h, 9), []);
        assert_eq!(reached(&h, 10), [0]);
        assert_eq!(reached(&h, 20), [0, 1, 2], "the last one may be there, so those before it are looked at");
        // A change that does not say when its store began.
        assert!(!h.is_vague());
        h.patch(Tsc(130), None, Address(0x1103), &[4], None, Patch::Other).unwrap();
        assert!(h.is_vague());
        assert_eq!(reached(&h, 29), [0, 1, 2]);
        assert_eq!(reached(&h, 30), [0, 1, 2, 3]);
    }

    #[test]
    fn what_ran_before_an_unsettled_change_says_nothing_about_it() {
        let mut h = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        let slack = Slack { before: 40, after: 10 };
        let since = |h: &CodeHistory, tsc| h.unsettled_since(Tsc(tsc), slack).0;
        assert_eq!(since(&h, 5), u64::MAX);
        h.install(Tsc(100), Address(0x1100), &[1; 8], CodeId(1)).unwrap();
        h.patch(Tsc(190), Some(Tsc(120)), Address(0x1101), &[2], None, Patch::Other).unwrap();
        h.patch(Tsc(200), Some(Tsc(195)), Address(0x1102), &[3], None, Patch::Other).unwrap();
        assert_eq!([110, 111, 200, 201, 210, 211].map(|t| since(&h, t)), [100, 120, 120, 195, 195, u64::MAX]);
        // A change that does not say when its store began.
        h.patch(Tsc(230), None, Address(0x1103), &[4], None, Patch::Other).unwrap();
        assert_eq!([111, 205, 211].map(|t| since(&h, t)), [120, 160, 190]);
    }

    #[test]
    fn what_is_outside_is_refused() {
        let mut h = history();
        for (start, len) in [(0xfff, 1), (0x1fff, 2), (0x2000, 1), (u64::MAX, 2)] {
            let result = h.install(Tsc(1), Address(start), &vec![0; len], CodeId(3));
            assert!(matches!(result, Err(Error::OutsideCodeCache { .. })), "{start:#x}");
        }
        assert!(CodeHistory::new(AddressRange::at(Address(0), 1 << 32)).is_err());
    }
}
