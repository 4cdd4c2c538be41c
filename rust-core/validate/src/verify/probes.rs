// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the bytecodes that are probes, and the probes that a flow passes.

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable, Opcode, instructions};
use jportal_flow::{Cause, Entry, Event, EventKind, Exit, Provenance, Tier};
use jportal_units::{Bci, MethodId};

use crate::circumstance::{Behind, Circumstances};

/// Class, method and signature of the oracle agent's probe.
const PROBE: (&str, &str, &str) = ("jportal/oracle/Probe", "hit", "(II)V");

/// Whether this is the native method that probes call.
pub(crate) fn is_probe(method: &Method) -> bool {
    (&*method.class_name, &*method.name, &*method.signature) == PROBE
}

/// The probes of a recording.
#[derive(Debug, Default)]
pub struct Probes {
    ids: HashMap<(MethodId, Bci), u32>,
    places: HashMap<u32, (MethodId, Bci)>,
    /// Methods that contain probes, by id: a quick test before the look-up.
    probed: Vec<bool>,
    /// The native method that probes call.
    natives: Vec<MethodId>,
}

impl Probes {
    /// Finds the probe calls in the bytecodes of all methods.
    pub fn find(methods: &MethodTable) -> Self {
        let mut probes = Self { probed: vec![false; methods.len()], ..Self::default() };
        for method in methods.iter() {
            probes.scan(method);
            if is_probe(method) {
                probes.natives.push(method.id);
            }
        }
        probes
    }
    fn scan(&mut self, method: &Method) {
        if !method.invokes.iter().any(|i| (&*i.class_name, &*i.name, &*i.signature) == PROBE) {
            return;
        }
        let mut last = [None; 2];
        for i in instructions(&method.code).map_while(Result::ok) {
            let target = method.invoke_at(i.bci).map(|t| (&*t.class_name, &*t.name, &*t.signature));
            let is_probe = i.opcode == Opcode::INVOKESTATIC && target == Some(PROBE);
            if let (true, [Some(hi), Some(lo)]) = (is_probe, last) {
                let id = (hi as u32) << 16 | (lo as u32 & 0xffff);
                self.add(id, method.id, i.bci);
            }
            let constant = i.int_constant().filter(|_| i.opcode == Opcode::SIPUSH);
            last = [last[1], constant];
        }
    }
    fn add(&mut self, id: u32, method: MethodId, bci: Bci) {
        self.ids.insert((method, bci), id);
        self.places.insert(id, (method, bci));
        if let Some(flag) = self.probed.get_mut(method.get() as usize) {
            *flag = true;
        }
    }
    /// The probe at a bytecode.
    #[inline]
    pub fn at(&self, method: MethodId, bci: Bci) -> Option<u32> {
        if !self.probed.get(method.get() as usize).copied().unwrap_or(false) {
            return None;
        }
        self.ids.get(&(method, bci)).copied()
    }
    /// Whether a method is the one that probes call.
    #[inline]
    pub fn is_probe(&self, method: MethodId) -> bool {
        self.natives.contains(&method)
    }
    /// The method and bci of a probe.
    pub fn place(&self, id: u32) -> Option<(MethodId, Bci)> {
        self.places.get(&id).copied()
    }
    /// Number of probes.
    pub fn len(&self) -> usize {
        self.places.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// A probe that the flow passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) id: u32,
    /// Number of the event in the thread's flow.
    pub(crate) event: u64,
    pub(crate) provenance: Provenance,
    /// The tier that executed it.
    pub(crate) tier: Tier,
    /// The circumstances in the flow between the previous hit and this one.
    pub(crate) behind: Behind,
    /// The last unresolved stretch between the previous hit and this one, if there is one.
    pub(crate) loose: Option<(Tier, Cause)>,
    /// The aligner knows of a hole between the previous hit and this one
    /// ([`Aligner::hole`](super::align::Aligner::hole)).
    pub(crate) holed: bool,
}

impl Hit {
    /// Whether entries of the log may be skipped before it.
    pub(crate) const fn may_skip(&self) -> bool {
        self.holed || self.loose.is_some()
    }
}

/// What an event implies about a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Passed {
    /// It was hit.
    Hit(Hit),
    /// Its call began, but nothing shows whether the native method was reached: the log may or
    /// may not have it.
    Perhaps(Hit),
}

/// A probe call that began.
#[derive(Clone, Copy, Debug)]
struct ProbeCall {
    id: u32,
    at: (MethodId, Bci),
    event: u64,
    provenance: Provenance,
    tier: Tier,
}

/// A frame of the flow.
#[derive(Clone, Copy, Debug)]
enum ProbeFrame {
    /// Of Java code, with the probe call that began last, until its callee is entered.
    Java(Option<ProbeCall>),
    /// Of the probe's native method, with its hit until that is reported.
    Probe(Option<Hit>),
}

/// Turns events into hits, in the order in which the native method logs them. A probe call
/// counts when the frame of its native method is entered: no compiler inlines a native method,
/// so each tier has that frame. The resolution of the probe's class runs between the call and
/// that frame, and may pass probes of its own. A call without a callee does not count. Filled
/// and placed events may lack the frame.
#[derive(Debug, Default)]
pub(crate) struct HitFinder {
    events: u64,
    frames: Vec<ProbeFrame>,
    /// Frames that continue as frames of another kind, the last one on top: method, and the
    /// call that the new frame takes over.
    replaced: Vec<(MethodId, Option<ProbeCall>)>,
    pub(crate) circumstances: Circumstances,
}

impl HitFinder {
    /// Processes the next event; returns what it implies about a probe.
    #[inline]
    pub(crate) fn event(&mut self, probes: &Probes, e: &Event) -> Option<Passed> {
        let index = self.events;
        self.events += 1;
        let passed = match e.kind {
            EventKind::Time(_) | EventKind::Code(_) => None,
            EventKind::Bytecode { method, bci, tier } => {
                let id = probes.at(method, bci);
                let call = id.map(|id| ProbeCall {
                    id,
                    at: (method, bci),
                    event: index,
                    provenance: e.provenance,
                    tier,
                });
                self.step((method, bci), call)
            }
            EventKind::Run { method, first, .. } => self.step((method, first), None),
            EventKind::Enter { method, entry, .. } => {
                self.enter(probes.is_probe(method), method, entry, index);
                None
            }
            EventKind::Leave { method, exit } => self.leave(method, exit),
            // The exception was thrown at the call itself, which logs nothing.
            EventKind::Catch { .. } => {
                self.forget_call();
                None
            }
            EventKind::Gap(ref gap) => {
                let passed = self.interrupt();
                if gap.stack_lost {
                    self.clear();
                }
                passed
            }
            EventKind::Unresolved { .. } | EventKind::Orphan(_) => self.interrupt(),
        };
        self.circumstances.see(&e.kind);
        passed
    }

    /// Number of events processed.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// Ends the flow; returns what the end leaves open.
    pub(crate) fn end(&mut self) -> Option<Passed> {
        let passed = self.interrupt();
        self.clear();
        passed
    }

    /// A bytecode of the top frame; `call` if it is a probe call.
    #[inline]
    fn step(&mut self, at: (MethodId, Bci), call: Option<ProbeCall>) -> Option<Passed> {
        self.replaced.clear();
        let Some(ProbeFrame::Java(last)) = self.frames.last_mut() else {
            // The frame was on the stack before the trace, or has no `Enter` event.
            self.frames.push(ProbeFrame::Java(call));
            return None;
        };
        let before = std::mem::replace(last, call);
        // The same bytecode once more is a repetition after a deoptimisation.
        let passed = before.filter(|b| b.provenance != Provenance::Decoded && b.at != at);
        passed.map(|call| Passed::Hit(self.hit(call, call.event)))
    }

    fn enter(&mut self, is_probe: bool, method: MethodId, entry: Entry, index: u64) {
        let frame = match entry {
            Entry::Osr | Entry::Deoptimisation => {
                let own = self.replaced.pop_if(|(m, _)| *m == method);
                ProbeFrame::Java(own.and_then(|(_, call)| call))
            }
            Entry::Call if is_probe => {
                let call = match self.frames.last_mut() {
                    Some(ProbeFrame::Java(call)) => call.take(),
                    Some(ProbeFrame::Probe(_)) | None => None,
                };
                ProbeFrame::Probe(call.map(|call| self.hit(call, index)))
            }
            Entry::Call | Entry::Upcall | Entry::Found => ProbeFrame::Java(None),
        };
        self.frames.push(frame);
    }

    fn leave(&mut self, method: MethodId, exit: Exit) -> Option<Passed> {
        match (self.frames.pop()?, exit) {
            // Either the method had no stack left and logged nothing, or Thread.stop hit it,
            // which it notices only after it has logged.
            (ProbeFrame::Probe(hit), Exit::Unwind) => hit.map(Passed::Perhaps),
            (ProbeFrame::Probe(hit), _) => hit.map(Passed::Hit),
            (ProbeFrame::Java(call), Exit::Replaced) => {
                self.replaced.push((method, call));
                None
            }
            (ProbeFrame::Java(call), Exit::Lost | Exit::Unknown) => {
                call.map(|call| Passed::Perhaps(self.hit(call, call.event)))
            }
            (ProbeFrame::Java(_), Exit::Unwind | Exit::Return | Exit::PopFrame | Exit::EarlyReturn) => None,
        }
    }

    /// The next event of the top frame is not known.
    fn interrupt(&mut self) -> Option<Passed> {
        match self.frames.last_mut()? {
            ProbeFrame::Probe(hit) => hit.take().map(Passed::Hit),
            ProbeFrame::Java(call) => {
                let call = call.take()?;
                Some(Passed::Perhaps(self.hit(call, call.event)))
            }
        }
    }

    fn forget_call(&mut self) {
        if let Some(ProbeFrame::Java(call)) = self.frames.last_mut() {
            *call = None;
        }
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.replaced.clear();
    }

    fn hit(&mut self, call: ProbeCall, event: u64) -> Hit {
        let ProbeCall { id, provenance, tier, .. } = call;
        let (behind, loose) = (self.circumstances.take(), self.circumstances.take_hole());
        Hit { id, event, provenance, tier, behind, loose, holed: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, gap, leave, leave_as, methods, probe_call, recovered};

    /// Ids and events of the hits, and the ids of the hits in doubt.
    fn hits(events: &[Event]) -> (Vec<(u32, u64)>, Vec<u32>) {
        let probes = Probes::find(&methods());
        let mut f = HitFinder::default();
        let mut all: Vec<Passed> = events.iter().filter_map(|e| f.event(&probes, e)).collect();
        all.extend(f.end());
        let (mut hits, mut doubts) = (Vec::new(), Vec::new());
        for passed in all {
            match passed {
                Passed::Hit(h) => hits.push((h.id, h.event)),
                Passed::Perhaps(h) => doubts.push(h.id),
            }
        }
        (hits, doubts)
    }

    const FAR: u32 = 0x1_2345;

    #[test]
    fn probes_are_read_from_the_bytecodes() {
        let p = Probes::find(&methods());
        assert_eq!(p.len(), 2);
        assert_eq!(p.at(MethodId(3), Bci(6)), Some(1));
        assert_eq!(p.at(MethodId(3), Bci(16)), Some(FAR));
        assert_eq!(p.at(MethodId(0), Bci(6)), None);
        assert_eq!(p.place(FAR), Some((MethodId(3), Bci(16))));
        assert!(p.is_probe(MethodId(4)) && !p.is_probe(MethodId(3)));
    }

    #[test]
    fn a_probe_is_hit_where_its_native_method_is_entered() {
        let [call, native, back] = probe_call(6);
        let two = [call, native, back, bytecode(3, 9), bytecode(3, 16), enter(4)];
        assert_eq!(hits(&two), (vec![(1, 1), (FAR, 5)], vec![]), "the last one is open at the end");
        let lost = [bytecode(3, 6), enter(4), gap(true), bytecode(3, 16)];
        assert_eq!(hits(&lost), (vec![(1, 1)], vec![FAR]));
    }

    #[test]
    fn what_the_vm_runs_to_find_the_probe_comes_first() {
        let loader = [&[enter_as(3, Entry::Upcall)][..], &probe_call(16), &[leave(3)]].concat();
        let resolved = [&[bytecode(3, 6)][..], &loader, &[enter(4), leave(4), bytecode(3, 9)]].concat();
        assert_eq!(hits(&resolved), (vec![(FAR, 3), (1, 6)], vec![]));
        let thrown = Event::decoded(EventKind::Catch { method: MethodId(3), bci: Bci(9) });
        let refused = [&[bytecode(3, 6)][..], &loader, &[thrown, bytecode(3, 9)]].concat();
        assert_eq!(hits(&refused), (vec![(FAR, 3)], vec![]), "it found none");
        let passed = [&[bytecode(3, 6)][..], &loader, &[bytecode(3, 9)]].concat();
        assert_eq!(hits(&passed), (vec![(FAR, 3)], vec![]), "the flow has no call of it");
    }

    #[test]
    fn a_call_that_did_not_get_in_is_none() {
        let unwound = [bytecode(3, 6), leave_as(3, Exit::Unwind), bytecode(0, 0)];
        assert_eq!(hits(&unwound), (vec![], vec![]));
        let again = [
            bytecode(3, 6),
            leave_as(3, Exit::Replaced),
            enter_as(3, Entry::Deoptimisation),
            bytecode(3, 6),
            enter(4),
            leave(4),
            bytecode(3, 9),
        ];
        assert_eq!(hits(&again), (vec![(1, 4)], vec![]), "executed once, shown twice");
        let onwards = [&again[..3], &again[4..]].concat();
        assert_eq!(hits(&onwards), (vec![(1, 3)], vec![]), "the frame is the same");
    }

    #[test]
    fn what_the_flow_does_not_know_is_in_doubt() {
        let refused = [bytecode(3, 6), enter(4), leave_as(4, Exit::Unwind), leave_as(3, Exit::Unwind)];
        assert_eq!(hits(&refused), (vec![], vec![1]), "no stack, or stopped behind the hit");
        let hidden = EventKind::Unresolved {
            method: MethodId(3),
            from: Some(Bci(6)),
            to: Some(Bci(19)),
            cause: Cause::MissingMarker,
            callers: 0,
        };
        assert_eq!(hits(&[bytecode(3, 6), Event::decoded(hidden), bytecode(3, 19)]), (vec![], vec![1]));
        for end in [gap(true), gap(false), leave_as(3, Exit::Lost)] {
            assert_eq!(hits(&[enter(3), bytecode(3, 6), end, enter(4), leave(4)]), (vec![], vec![1]));
        }
        // The loader's frame is not the probe's caller.
        let below = [bytecode(3, 6), enter_as(3, Entry::Upcall), bytecode(3, 16), gap(false), enter(4)];
        assert_eq!(hits(&below), (vec![], vec![FAR]));
    }

    #[test]
    fn inferred_calls_need_no_callee() {
        let all = [bytecode(3, 6), bytecode(3, 9), bytecode(3, 16), bytecode(3, 19)].map(recovered);
        assert_eq!(hits(&all), (vec![(1, 0), (FAR, 2)], vec![]));
        assert_eq!(hits(&probe_call(6).map(recovered)), (vec![(1, 1)], vec![]));
    }
}
