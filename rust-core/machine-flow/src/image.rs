// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The traced code cache as a function of time.

use crate::error::Error;
use jportal_units::{Address, AddressRange, CodeId, Tid, Tsc};
use std::collections::HashMap;
use std::sync::OnceLock;

/// What a patch is. It is made outside the traced range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patch {
    /// The destination of a call; its writer had come there through that call (`SharedRuntime::resolve_helper`,
    /// `handle_ic_miss_helper`, `reresolve_call_site`, `fixup_callers_callsite`).
    Call,
    /// An instruction of C1 in place of the jump to its patch stub, or on the way there; its writer had come there through a
    /// patch stub (`Runtime1::patch_code`).
    PatchStub,
    /// Anything else.
    Other,
}

/// What a [`Change`] did to its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangeKind {
    /// New code stands there.
    Install(CodeId),
    /// Some bytes of the code that stands there changed.
    Patch(Patch),
    /// The code that stood there will not run any more.
    Free,
}

/// One change of the code cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// No old bytes run later.
    pub tsc: u64,
    /// No new bytes run earlier; `None`: that is not known.
    pub since: Option<u64>,
    /// Offset from the start of the code cache.
    pub start: u32,
    pub len: u32,
    pub kind: ChangeKind,
    /// Thread that wrote it; 0 if that is not known.
    pub writer: u32,
    data: usize,
}

impl Change {
    pub fn end(&self) -> u32 {
        self.start + self.len
    }
    /// No new bytes run earlier, if a record may come `before` ticks after its store.
    pub fn earliest(&self, before: u64) -> u64 {
        self.since.unwrap_or(self.tsc.saturating_sub(before))
    }
    pub fn is_call(&self) -> bool {
        self.kind == ChangeKind::Patch(Patch::Call)
    }
    pub fn overlaps(&self, start: u32, end: u32) -> bool {
        self.start < end && start < self.end()
    }
}

/// Everything that was written to the code cache, with the time of each record.
///
/// Built once from the capture's metadata and shared by the decoders of all cores.
/// Changes may come in any order of time (producers stamp their records themselves); those
/// with the same time keep the order in which they came.
#[derive(Clone, Debug)]
pub struct CodeHistory {
    range: AddressRange,
    changes: Vec<Change>,
    data: Vec<u8>,
    /// By number of the code.
    marks: Vec<Marks>,
    /// By thread, in order of time.
    resolutions: HashMap<u32, Vec<Resolution>>,
    /// For each change, the least `since` of it and of those after it; those without one do not count.
    reach: OnceLock<Vec<u64>>,
    /// There are changes without a `since`.
    vague: bool,
}

/// What is known of a code beside its bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Marks {
    leaves_by_calls: bool,
    resolves_calls: bool,
    upcalls: bool,
    calls_out: bool,
}

/// A thread came to the VM for the destination of a call or the instruction of a patch stub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolution {
    pub tsc: u64,
    /// Offset at which the call returns; `u32::MAX` outside the code cache.
    pub returns: u32,
}

/// What stood at an address from some time on, as [`CodeHistory::versions`] reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Time of the change that made these bytes; 0 for the first.
    pub since: Tsc,
    /// Whose code it is; `None` where no code was installed.
    pub code: Option<CodeId>,
    /// The bytes; 0 where none are known.
    pub bytes: Vec<u8>,
}

/// One change of the code cache, as [`CodeHistory::code_change`] reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeChange<'a> {
    /// Time of its record.
    pub tsc: Tsc,
    /// A time before its store; `None` if none is known.
    pub since: Option<Tsc>,
    /// What it changed.
    pub range: AddressRange,
    /// The bytes that stand there afterwards; none where code was given back.
    pub bytes: &'a [u8],
    /// The code that was installed; `None` for a patch, and where code was given back.
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

    /// Code was installed at `start`: `bytes` replace whatever stood there. None of it runs before `tsc`.
    pub fn install(&mut self, tsc: Tsc, start: Address, bytes: &[u8], code: CodeId) -> Result<(), Error> {
        self.insert((Some(tsc), tsc), start, bytes, bytes.len() as u64, ChangeKind::Install(code), None)
    }

    /// Only code of the cache calls `code`, and it jumps to such only: control leaves the cache from it by calls alone.
    pub fn mark_leaves_by_calls(&mut self, code: CodeId) {
        self.marks(code).leaves_by_calls = true;
    }

    /// Each time `code` calls what lies outside the code cache, a thread has a call or a patch stub resolved, and there is a
    /// [`CodeHistory::resolution`] for it (`SharedRuntime::generate_resolve_blob`, `Runtime1::generate_patching`).
    pub fn mark_resolves_calls(&mut self, code: CodeId) {
        self.marks(code).resolves_calls = true;
    }

    /// The VM calls Java code through `code` (`StubRoutines::call_stub`), from the middle of a visit, too.
    pub fn mark_upcalls(&mut self, code: CodeId) {
        self.marks(code).upcalls = true;
    }

    /// What `code` calls by an address in a register lies outside of the cache (`SharedRuntime::generate_native_wrapper`).
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

    /// Whether a thread that enters the range in `code` may be in the middle of a visit whose record is yet to come.
    pub(crate) fn may_be_visiting(&self, code: CodeId) -> bool {
        let marks = self.marked(code);
        marks.resolves_calls || marks.upcalls
    }

    /// `thread` was outside the traced range to have the call resolved that returns to `returns`, or the patch stub whose call
    /// does.
    pub fn resolution(&mut self, tsc: Tsc, thread: Tid, returns: Address) {
        let inside = self.range.contains(returns);
        let returns = if inside { returns.minus(self.range.start) as u32 } else { u32::MAX };
        let list = self.resolutions.entry(thread.0).or_default();
        let at = list.partition_point(|r| r.tsc <= tsc.0);
        list.insert(at, Resolution { tsc: tsc.0, returns });
    }

    /// Those of `thread`, in order of time.
    pub(crate) fn resolutions(&self, thread: Tid) -> &[Resolution] {
        self.resolutions.get(&thread.0).map_or(&[], |list| list)
    }

    /// Bytes of installed code were overwritten by `bytes`, between `since` (`None` if that is not known) and `tsc`, by the
    /// thread `writer` if that is known.
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

    /// The code at `start` was given back.
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
        let change = Change {
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

    /// Time and range of a change, by the number [`crate::Decision`] names it with.
    pub fn change(&self, number: u32) -> Option<(Tsc, AddressRange)> {
        let c = self.changes.get(number as usize)?;
        Some((Tsc(c.tsc), AddressRange::at(self.range.start.plus(c.start.into()), c.len.into())))
    }

    /// A change, by the number [`crate::Decision`] names it with.
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

    /// Whether there are changes of which it is not known when they began.
    pub(crate) fn is_vague(&self) -> bool {
        self.vague
    }

    /// Whether `number`, or a change after it, may be visible at `latest`, if a record may come `before` ticks after its
    /// store. If it is not, no change after it is.
    pub(crate) fn reaches(&self, number: usize, latest: u64, before: u64) -> bool {
        let reach = self.reach.get_or_init(|| {
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
        });
        let late = |c: &Change| self.vague && c.tsc <= latest.saturating_add(before);
        reach.get(number).is_some_and(|&since| since <= latest) || self.changes.get(number).is_some_and(late)
    }

    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The bytes a change wrote; empty for a [`ChangeKind::Free`].
    pub(crate) fn bytes_of(&self, change: &Change) -> &[u8] {
        match change.kind {
            ChangeKind::Free => &[],
            _ => &self.data[change.data..change.data + change.len as usize],
        }
    }

    /// Copies what `change` wrote to `[at, at + out.len())` into `out`.
    pub(crate) fn apply(&self, change: &Change, at: u32, out: &mut [u8]) {
        let bytes = self.bytes_of(change);
        let (from, to) = (change.start.max(at), change.end().min(at + out.len() as u32));
        if bytes.is_empty() || from >= to {
            return;
        }
        let source = &bytes[(from - change.start) as usize..(to - change.start) as usize];
        out[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
    }

    /// What stood at `[address, address + len)` in the time from `since` to `latest`: one
    /// version if it did not change, else all of them in order of time. Walks the whole
    /// history; the decoder keeps a view of its own.
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
        // One of which it is not known when it began.
        assert!(!h.is_vague());
        h.patch(Tsc(130), None, Address(0x1103), &[4], None, Patch::Other).unwrap();
        assert!(h.is_vague());
        assert_eq!(reached(&h, 29), [0, 1, 2]);
        assert_eq!(reached(&h, 30), [0, 1, 2, 3]);
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
