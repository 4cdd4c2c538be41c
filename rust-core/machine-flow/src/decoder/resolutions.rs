// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Visits to the VM for the destinations of calls and the instructions of patch stubs.
//!
//! An unresolved call leads to a stub that calls the VM. The packets do not say which call it
//! was. Suppose that a call has two versions: one is unresolved, and the other leads to a callee
//! that begins with an unresolved call. Both versions leave the range in the same way and return
//! to the same place. The same holds for two consecutive patch stubs of C1. The VM says which
//! call it was ([`CodeHistory::resolution`]): each visit makes one record before the thread
//! returns, and a thread makes its records in the order of its visits.
//!
//! *Which record is next.* When a thread comes to a core or resumes on it, and at a PSB+ inside
//! the range, the records of all earlier visits exist and none of a later visit does. So the time
//! gives the number of records. From that point the decoder counts visits. A thread can come to
//! the core in the middle of a visit: it then enters the range in the stub that called the VM, or
//! by an upcall. The record of that visit may not exist at that time, although usually it does. If
//! it enters the stub where no call returns, it was interrupted there before the visit.
//!
//! *What a record proves.* It proves which call the visit was for. It also bounds the time: the
//! next visit is not over before the time of its record, and the last visit is. Changes that the
//! thread itself wrote after a visit's record are not visible before that visit. Such a change is
//! visible after the visit if it is the destination of the visit's call or was written by a patch
//! stub.

use super::CoreDecoder;
use super::state::Resolutions;
use crate::block::OUTSIDE;
use crate::error::Error;
use crate::image::{CacheChange, ChangeKind, CodeHistory, Patch, Resolution};
use crate::item::{Exit, Item};
use jportal_units::{Address, CodeId, StreamOffset};

/// Maximal number of branches between a call and the stub (the entry of an nmethod that is not
/// entrant, of an adapter).
const MAX_BRANCHES: usize = 4;

/// Maximal number of nested visits that are searched for the visit around them.
const MAX_NESTED: usize = 1024;

/// Whether the running thread has made a change of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Made {
    /// It has.
    Yes,
    /// It has not.
    NotYet,
    /// It has not made the change, unless a visit was under way when the thread came to the core
    /// and the record of that visit was not made by then.
    UnderWay,
}

/// How a thread came to a stub that calls the VM.
enum StubEntry {
    /// By a call, or by branches from a call's target.
    Call {
        /// Where it returns.
        returns: u32,
    },
    /// It came back from outside: the visit is over. (The stubs of the fastdebug VM leave the
    /// range once more, for assertions.)
    Back,
    /// The items that would show it are not kept, or are those of another core.
    Unknown,
}

impl CoreDecoder {
    fn records<'a>(&self, image: &'a CodeHistory) -> &'a [Resolution] {
        self.stretch.map_or(&[], |s| image.resolutions(s.tid))
    }

    fn count_from_now(&mut self, image: &CodeHistory) {
        let (now, records) = (self.state.clock.now(), self.records(image));
        let made = records.partition_point(|r| r.tsc <= now);
        self.state.resolutions.next = (now != 0 && !records.is_empty()).then_some(made as u32);
    }

    /// A PSB+ or a switch gave the time. A visit that was under way is over: the thread was in
    /// the range, and has not begun another one since.
    pub(super) fn count_resolutions(&mut self, image: &CodeHistory) {
        let known = &mut self.state.resolutions;
        if !known.came && (known.next.is_none() || known.under_way) {
            known.came = !self.state.enabled && known.next.is_none();
            known.under_way = false;
            self.count_from_now(image);
        }
    }

    /// The thread enters the range.
    pub(super) fn back(&mut self, image: &CodeHistory) {
        let known = self.state.resolutions;
        if known.came {
            self.count_from_now(image);
            let owner = self.view.owner(image, self.state.ip, |r| r.seen);
            self.state.resolutions.came = false;
            self.state.resolutions.under_way = owner.is_some_and(|(code, _)| image.may_be_visiting(code));
            self.window.forget();
        }
        if known.made > self.state.now() {
            self.state.floor = known.made;
            self.update_window(image);
        }
    }

    /// Time of the record that the next visit makes; `u64::MAX` if unknown.
    pub(super) fn next_resolution(&self, image: &CodeHistory) -> u64 {
        let known = &self.state.resolutions;
        let next = known.next.map(|n| n as usize + usize::from(known.under_way));
        next.and_then(|n| self.records(image).get(n)).map_or(u64::MAX, |r| r.tsc)
    }

    /// Whether the running thread has made `change` by the present time, according to its visits.
    /// `None` if the visits do not say: a stub that returns to a call at once may change another
    /// call (`SharedRuntime::fixup_callers_callsite`), code may become not entrant at any time,
    /// or another thread made the change.
    pub(super) fn made(&self, change: &CacheChange, image: &CodeHistory) -> Option<Made> {
        let known = &self.state.resolutions;
        let next = known.next.filter(|_| self.is_own(change))? as usize;
        let records = self.records(image);
        let last = records.partition_point(|r| r.tsc <= change.tsc).checked_sub(1)?;
        match change.kind {
            // Most of a visit follows its record. So a visit that was under way had probably made
            // its record when the thread came, and `next` is the record of a later visit.
            _ if last == next && known.under_way => Some(Made::UnderWay),
            _ if last >= next => Some(Made::NotYet),
            ChangeKind::Patch(Patch::Call) => (records[last].returns == change.end()).then_some(Made::Yes),
            ChangeKind::Patch(Patch::PatchStub) => Some(Made::Yes),
            _ => None,
        }
    }

    /// Whether the thread was on its visit for the call whose destination `change` is when it
    /// came to this core. The visit may be the one that runs a class initialiser; the code of the
    /// initialiser makes visits of its own.
    pub(super) fn was_on_its_way(&self, change: &CacheChange, image: &CodeHistory) -> bool {
        let records = self.records(image);
        let made = records.partition_point(|r| r.tsc <= change.tsc);
        let visit = records[..made].iter().rev().take(MAX_NESTED).find(|r| r.returns == change.end());
        visit.is_some_and(|r| r.tsc <= self.state.own.since)
    }

    /// The running thread leaves the range from `code`.
    pub(super) fn resolution(&mut self, code: CodeId, image: &CodeHistory) -> Result<(), Error> {
        let Some(next) = self.state.resolutions.next.filter(|_| image.resolves_calls(code)) else {
            return Ok(());
        };
        let returns = match self.way_to(code, image) {
            StubEntry::Call { returns } => Some(returns),
            StubEntry::Unknown => None,
            StubEntry::Back => return Ok(()),
        };
        let fits = |r: &&Resolution| returns.is_none_or(|at| r.returns == at);
        let records = self.records(image).get(next as usize..).unwrap_or(&[]);
        let under_way = self.state.resolutions.under_way;
        let (record, after) = match records {
            // The metadata ends before the trace does.
            [] => {
                self.state.resolutions = Resolutions::UNKNOWN;
                return Ok(());
            }
            [first, ..] if fits(&first) => (first, 1),
            [_, second, ..] if under_way && fits(&second) => (second, 2),
            [first, ..] => {
                return Err(Error::OtherCall {
                    offset: StreamOffset(self.state.packet),
                    returns: self.address(returns.unwrap_or(0)),
                    resolved: self.address(first.returns),
                });
            }
        };
        self.state.resolutions =
            Resolutions { next: Some(next + after), made: record.tsc, under_way: false, came: false };
        self.window.forget();
        Ok(())
    }

    /// How the flow reached the stub `code`, where it is at present.
    fn way_to(&self, code: CodeId, image: &CodeHistory) -> StubEntry {
        let mut branches = 0;
        let mut back = self.items.iter().rev().filter(|i| !matches!(i, Item::Time(_)));
        while let Some(item) = back.next() {
            match *item {
                Item::Block { code: c, .. } if c == code && branches == 0 => {}
                Item::Block { end, exit: Exit::Call | Exit::IndirectCall, .. } => {
                    return StubEntry::Call { returns: end };
                }
                Item::Block {
                    exit: Exit::Jump | Exit::Taken | Exit::NotTaken | Exit::FallThrough, ..
                } if branches < MAX_BRANCHES => {
                    branches += 1;
                }
                Item::Enter { ip } => match back.next() {
                    Some(Item::Interrupt { ip: at }) if *at == ip => {}
                    _ if branches == 0 && self.follows_call(ip, image) => return StubEntry::Back,
                    // The thread was interrupted there on another core, before its visit.
                    _ => return StubEntry::Unknown,
                },
                _ => return StubEntry::Unknown,
            }
        }
        StubEntry::Unknown
    }

    /// Whether a call can return to `ip`: the instruction before it is a direct call, or one
    /// through a register.
    fn follows_call(&self, ip: Address, image: &CodeHistory) -> bool {
        let at = self.bounds.offset(ip.0);
        let mut bytes = [0; 5];
        if at == OUTSIDE || (at as usize) < bytes.len() {
            return false;
        }
        self.read_seen(at - bytes.len() as u32, image, &mut bytes);
        bytes[0] == 0xe8 || bytes[3] == 0xff && bytes[4] & 0xf8 == 0xd0
    }
}
