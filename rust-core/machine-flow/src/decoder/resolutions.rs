// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Visits to the VM for the destinations of calls and the instructions of patch stubs.
//!
//! A call that is not resolved leads to a stub, and that calls the VM. Which call it was packets do not say: if there are two
//! versions of one, unresolved and leading to a callee, and the callee begins with an unresolved call, both leave the range in
//! the same way and come back to the same place; so do two patch stubs of C1, one behind the other. The VM says it
//! ([`CodeHistory::resolution`]): each visit makes one record, before the thread is back, and a thread makes its records in the
//! order of its visits.
//!
//! *Which record is the next.* When a thread comes to a core or goes on there, and at a PSB+ inside the range, all records of
//! earlier visits are made, and none of a later one: time tells. From there they are counted. A thread that comes in the middle
//! of a visit, that is, enters the range in the stub that called the VM or by an upcall, may yet make its record; mostly it has.
//!
//! *What a record proves.* The call of the visit. Time: the next visit is not over before its record, the last one is. And what
//! the thread itself wrote behind a visit's record is not there before that visit; it is there after it if it is the call of the
//! visit or was written by a patch stub.

use super::CoreDecoder;
use super::state::Resolutions;
use crate::error::Error;
use crate::image::{Change, ChangeKind, CodeHistory, Patch, Resolution};
use crate::item::{Exit, Item};
use jportal_units::{CodeId, StreamOffset};

/// Branches between a call and the stub (the entry of an nmethod that is not entrant, of an adapter).
const MAX_BRANCHES: usize = 4;

/// Visits inside of a visit that are looked through for it.
const MAX_NESTED: usize = 1024;

/// Whether the running thread has made a change of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Made {
    /// It has.
    Yes,
    /// It has not.
    NotYet,
    /// It has not, or a visit was under way when the thread came, whose record was yet to be made.
    HardlyYet,
}

/// How a thread came to a stub that calls the VM.
enum Way {
    /// By a call, or by branches from where one led.
    Call {
        /// Where it returns.
        returns: u32,
    },
    /// It came back from outside: the visit is over (the fastdebug VM's stubs go out once more, for assertions).
    Back,
    /// That is not known any more.
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

    /// A PSB+ or a switch said the time. A visit that was under way is over: the thread was in the range, and has not gone on
    /// another since.
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

    /// Time of the record that the next visit makes.
    pub(super) fn next_resolution(&self, image: &CodeHistory) -> u64 {
        let known = &self.state.resolutions;
        let next = known.next.map(|n| n as usize + usize::from(known.under_way));
        next.and_then(|n| self.records(image).get(n)).map_or(u64::MAX, |r| r.tsc)
    }

    /// Whether the running thread has made `change` by now, as far as the visits tell. `None` if they do not: another call is
    /// changed by a stub that comes back to it at once (`SharedRuntime::fixup_callers_callsite`), code that became not entrant
    /// at any time, or another thread made the change.
    pub(super) fn made(&self, change: &Change, image: &CodeHistory) -> Option<Made> {
        let known = &self.state.resolutions;
        let next = known.next.filter(|_| self.is_own(change))? as usize;
        let records = self.records(image);
        let last = records.partition_point(|r| r.tsc <= change.tsc).checked_sub(1)?;
        match change.kind {
            // Most of a visit lies behind its record.
            _ if last == next && known.under_way => Some(Made::HardlyYet),
            _ if last >= next => Some(Made::NotYet),
            ChangeKind::Patch(Patch::Call) => (records[last].returns == change.end()).then_some(Made::Yes),
            ChangeKind::Patch(Patch::PatchStub) => Some(Made::Yes),
            _ => None,
        }
    }

    /// Whether the thread was on its visit for the call that `change` is the destination of when it came to this core. The visit may
    /// be that of an initialiser: what runs in it makes visits of its own.
    pub(super) fn was_on_its_way(&self, change: &Change, image: &CodeHistory) -> bool {
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
        let returns = match self.way_to(code) {
            Way::Call { returns } => Some(returns),
            Way::Unknown => None,
            Way::Back => return Ok(()),
        };
        let fits = |r: &&Resolution| returns.is_none_or(|at| r.returns == at);
        let records = self.records(image).get(next as usize..).unwrap_or(&[]);
        let under_way = self.state.resolutions.under_way;
        let (record, after) = match records {
            // The recording ends before the trace does.
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

    /// How the flow came to the stub `code`, in which it stands.
    fn way_to(&self, code: CodeId) -> Way {
        let mut branches = 0;
        let mut back = self.items.iter().rev().filter(|i| !matches!(i, Item::Time(_)));
        while let Some(item) = back.next() {
            match *item {
                Item::Block { code: c, .. } if c == code && branches == 0 => {}
                Item::Block { end, exit: Exit::Call | Exit::IndirectCall, .. } => {
                    return Way::Call { returns: end };
                }
                Item::Block {
                    exit: Exit::Jump | Exit::Taken | Exit::NotTaken | Exit::FallThrough, ..
                } if branches < MAX_BRANCHES => {
                    branches += 1;
                }
                Item::Enter { ip } => match back.next() {
                    Some(Item::Interrupt { ip: at }) if *at == ip => {}
                    _ if branches == 0 => return Way::Back,
                    _ => return Way::Unknown,
                },
                _ => return Way::Unknown,
            }
        }
        Way::Unknown
    }
}
