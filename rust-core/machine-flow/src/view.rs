// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One core's view of the code cache: which changes it has seen.
//!
//! Old changes are merged into a *base* image. Changes whose times are near the present time of
//! the trace form the *overlay*: each of them is either seen by this core or still pending.

use crate::image::{ChangeKind, CodeHistory};
use jportal_units::CodeId;
use std::collections::BTreeMap;

const PAGE: usize = 1 << 12;

/// A change of the overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Recent {
    /// Index of the change in the history.
    pub change: u32,
    /// Whether this core executes the new bytes.
    pub seen: bool,
}

/// The contents of the code cache as a core sees them.
#[derive(Debug)]
pub(crate) struct View {
    pages: Vec<Option<Box<[u8; PAGE]>>>,
    /// Owners in the base: start → (end, code), disjoint.
    owners: BTreeMap<u32, (u32, CodeId)>,
    /// Changes below this index are in the base.
    settled: usize,
    /// Changes `settled..settled + overlay.len()`, in order.
    overlay: Vec<Recent>,
    /// The pending changes of the overlay, in order.
    pending: Vec<u32>,
}

/// The changes that a core had seen at some point.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    active: usize,
    pending: Vec<u32>,
}

impl View {
    /// The initial view of a code cache of `len` bytes: no change is seen.
    pub fn new(len: u64) -> Self {
        let pages = (len as usize).div_ceil(PAGE);
        Self {
            pages: (0..pages).map(|_| None).collect(),
            owners: BTreeMap::new(),
            settled: 0,
            overlay: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// The pending changes, in order of time.
    pub fn pending(&self) -> &[u32] {
        &self.pending
    }

    /// Whether all changes up to [`View::active`] are in the base.
    pub fn is_settled(&self) -> bool {
        self.overlay.is_empty()
    }

    /// Index of the first change that is in neither the base nor the overlay.
    pub fn active(&self) -> usize {
        self.settled + self.overlay.len()
    }

    /// The latest seen change of the overlay for which `which` holds.
    pub fn latest_seen(&self, which: impl Fn(u32) -> bool) -> Option<u32> {
        self.overlay.iter().rev().find(|r| r.seen && which(r.change)).map(|r| r.change)
    }

    /// Adds the next change to the overlay, as pending.
    pub fn activate(&mut self) {
        let change = self.active() as u32;
        self.overlay.push(Recent { change, seen: false });
        self.pending.push(change);
    }

    /// Removes the overlay's last change, if it is pending and `which` holds for it.
    pub fn deactivate_last(&mut self, which: impl Fn(u32) -> bool) -> bool {
        let remove = self.overlay.last().is_some_and(|r| !r.seen && which(r.change));
        if remove {
            self.overlay.pop();
            self.pending.pop();
        }
        remove
    }

    /// Marks a change of the overlay as seen.
    pub fn see(&mut self, change: u32) {
        if let Ok(at) = self.pending.binary_search(&change) {
            self.pending.remove(at);
        }
        if let Some(recent) = self.overlay.get_mut((change as usize).wrapping_sub(self.settled)) {
            recent.seen = true;
        }
    }

    /// Makes those seen changes of the overlay pending again for which `which` holds. Returns
    /// them.
    pub fn unsee(&mut self, which: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut undone = Vec::new();
        for recent in self.overlay.iter_mut().filter(|r| r.seen && which(r.change)) {
            recent.seen = false;
            undone.push(recent.change);
        }
        self.pending.extend(&undone);
        self.pending.sort_unstable();
        undone
    }

    /// The current state of the changes, for [`View::restore`].
    pub fn seen(&self) -> Seen {
        Seen { active: self.active(), pending: self.pending.clone() }
    }

    /// Restores the overlay to its state at `then`. Adds the changes whose state differs to
    /// `differing`.
    pub fn restore(&mut self, then: &Seen, differing: &mut Vec<u32>) {
        while self.active() > then.active {
            match self.overlay.pop() {
                Some(r) => differing.push(r.change),
                None => break,
            }
        }
        // When the tolerance narrowed, changes were removed from the overlay.
        while self.active() < then.active {
            let change = self.active() as u32;
            self.overlay.push(Recent { change, seen: true });
            differing.push(change);
        }
        let is_active = |change: u32| (change as usize) < then.active;
        for change in std::mem::take(&mut self.pending) {
            if is_active(change) && then.pending.binary_search(&change).is_err() {
                self.mark(change, true);
                differing.push(change);
            }
        }
        for &change in &then.pending {
            if self.mark(change, false) {
                differing.push(change);
            }
        }
        self.pending.clone_from(&then.pending);
    }

    /// Sets whether a change of the overlay is seen. Returns whether that altered its state.
    fn mark(&mut self, change: u32, seen: bool) -> bool {
        let recent = self.overlay.get_mut((change as usize).wrapping_sub(self.settled));
        recent.is_some_and(|recent| std::mem::replace(&mut recent.seen, seen) != seen)
    }

    /// Merges the overlay's leading seen changes for which `old` holds into the base.
    pub fn settle(&mut self, history: &CodeHistory, old: impl Fn(u64) -> bool) {
        let changes = history.changes();
        let n = self.overlay.iter().take_while(|r| r.seen && old(changes[r.change as usize].tsc)).count();
        for _ in 0..n {
            self.merge(history, self.settled);
        }
        self.overlay.drain(..n);
    }

    /// Merges changes that are older than every remaining part of the trace, bypassing the
    /// overlay. Only for an empty overlay.
    pub fn settle_directly(&mut self, history: &CodeHistory, old: impl Fn(u64) -> bool) {
        debug_assert!(self.overlay.is_empty());
        while history.changes().get(self.settled).is_some_and(|c| old(c.tsc)) {
            self.merge(history, self.settled);
        }
    }

    fn merge(&mut self, history: &CodeHistory, index: usize) {
        let change = &history.changes()[index];
        let (mut at, end) = (change.start, change.end());
        if !matches!(change.kind, ChangeKind::Free) {
            while at < end {
                let page = at as usize / PAGE;
                let page_end = (((page + 1) * PAGE) as u64).min(end.into()) as u32;
                if let Some(slot) = self.pages.get_mut(page) {
                    let bytes = slot.get_or_insert_with(|| Box::new([0; PAGE]));
                    let inside = at as usize % PAGE..at as usize % PAGE + (page_end - at) as usize;
                    history.apply(change, at, &mut bytes[inside]);
                }
                at = page_end;
            }
        }
        match change.kind {
            ChangeKind::Install(code) => {
                self.disown(change.start, end);
                self.owners.insert(change.start, (end, code));
            }
            ChangeKind::Free => self.disown(change.start, end),
            ChangeKind::Patch(_) => {}
        }
        self.settled = index + 1;
    }

    fn disown(&mut self, start: u32, end: u32) {
        let first = self.owners.range(..start).next_back().map(|(&s, &o)| (s, o));
        if let Some((s, (e, code))) = first
            && e > start
        {
            self.owners.insert(s, (start, code));
            if e > end {
                self.owners.insert(end, (e, code));
            }
        }
        while let Some((&s, &(e, code))) = self.owners.range(start..end).next() {
            self.owners.remove(&s);
            if e > end {
                self.owners.insert(end, (e, code));
            }
        }
    }

    /// The code at `at` if the changes for which `visible` holds are present, with the end of the
    /// range that certainly belongs to the same code.
    pub fn owner(
        &self,
        history: &CodeHistory,
        at: u32,
        visible: impl Fn(&Recent) -> bool,
    ) -> Option<(CodeId, u32)> {
        let changes = history.changes();
        let mut limit = u32::MAX;
        for recent in self.overlay.iter().rev().filter(|r| visible(r)) {
            let change = &changes[recent.change as usize];
            let covers = change.start <= at && at < change.end();
            match change.kind {
                ChangeKind::Install(code) if covers => return Some((code, change.end().min(limit))),
                ChangeKind::Free if covers => return None,
                ChangeKind::Patch(_) => continue,
                _ => {}
            }
            if change.start > at {
                limit = limit.min(change.start);
            }
        }
        let (_, &(end, code)) = self.owners.range(..=at).next_back()?;
        (at < end).then_some((code, end.min(limit)))
    }

    /// Reads the bytes from `at` with the changes for which `visible` holds.
    pub fn read(&self, history: &CodeHistory, at: u32, out: &mut [u8], visible: impl Fn(&Recent) -> bool) {
        let mut done = 0;
        while done < out.len() {
            let from = at as usize + done;
            let n = (PAGE - from % PAGE).min(out.len() - done);
            match self.pages.get(from / PAGE) {
                Some(Some(page)) => out[done..done + n].copy_from_slice(&page[from % PAGE..from % PAGE + n]),
                _ => out[done..done + n].fill(0),
            }
            done += n;
        }
        let end = at + out.len() as u32;
        for recent in self.overlay.iter().filter(|r| visible(r)) {
            let change = &history.changes()[recent.change as usize];
            if change.overlaps(at, end) {
                history.apply(change, at, out);
            }
        }
    }
}
