//! Which bytecodes are probes, and which of them a flow passes.

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable, Opcode, instructions};
use jportal_flow::{Cause, Event, EventKind, Exit, Provenance, Tier};
use jportal_units::{Bci, MethodId};

use crate::circumstance::{Behind, Circumstances};

/// Class and method of the oracle agent's probe.
const PROBE: (&str, &str, &str) = ("jportal/oracle/Probe", "hit", "(II)V");

/// The probes of a recording.
#[derive(Debug, Default)]
pub struct Probes {
    ids: HashMap<(MethodId, Bci), u32>,
    places: HashMap<u32, (MethodId, Bci)>,
    /// Methods that contain probes, by id: a quick test before the look-up.
    probed: Vec<bool>,
}

impl Probes {
    /// Finds the probe calls in the bytecodes of all methods.
    pub fn find(methods: &MethodTable) -> Self {
        let mut probes = Self { probed: vec![false; methods.len()], ..Self::default() };
        for method in methods.iter() {
            probes.scan(method);
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
    /// Where a probe stands.
    pub fn place(&self, id: u32) -> Option<(MethodId, Bci)> {
        self.places.get(&id).copied()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// A probe the flow passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) id: u32,
    /// Number of the event in the thread's flow.
    pub(crate) event: u64,
    pub(crate) provenance: Provenance,
    /// Who executed it.
    pub(crate) tier: Tier,
    /// What stands in the flow between the hit before and this one.
    pub(crate) behind: Behind,
    /// The flow is unresolved between the hit before and this one: the last such stretch.
    pub(crate) loose: Option<(Tier, Cause)>,
    /// The aligner was told of a hole between the hit before and this one ([`Aligner::hole`](super::align::Aligner::hole)).
    pub(crate) holed: bool,
}

impl Hit {
    /// Whether entries of the log may be left out in front of it.
    pub(crate) const fn may_skip(&self) -> bool {
        self.holed || self.loose.is_some()
    }
}

/// Turns events into hits. A probe call counts when it got into the native method: the
/// event behind it decides (an exception thrown at the call itself logs nothing).
#[derive(Debug, Default)]
pub(crate) struct HitFinder {
    events: u64,
    pending: Option<(Hit, MethodId, Bci)>,
    pub(crate) circumstances: Circumstances,
    /// A frame was entered since.
    entered: bool,
    /// The frame went on as one of another kind since.
    replaced: bool,
}

impl HitFinder {
    /// Looks at the next event; gives the hit that it confirms.
    #[inline]
    pub(crate) fn event(&mut self, probes: &Probes, e: &Event) -> Option<Hit> {
        let index = self.events;
        self.events += 1;
        let confirmed = if self.pending.is_some() { self.decide(&e.kind) } else { None };
        self.circumstances.see(&e.kind);
        if let EventKind::Bytecode { method, bci, tier } = e.kind
            && let Some(id) = probes.at(method, bci)
        {
            let (behind, loose) = (self.circumstances.take(), self.circumstances.take_hole());
            let hit = Hit { id, event: index, provenance: e.provenance, tier, behind, loose, holed: false };
            self.pending = Some((hit, method, bci));
            (self.entered, self.replaced) = (false, false);
        }
        confirmed
    }
    /// Events seen.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }
    /// The hit that the end of the flow leaves open.
    pub(crate) fn finish(&mut self) -> Option<Hit> {
        self.pending.take().map(|(hit, ..)| hit)
    }

    fn decide(&mut self, next: &EventKind) -> Option<Hit> {
        let (hit, method, bci) = self.pending?;
        let thrown_here = match next {
            EventKind::Time(_) => return None,
            // Into the native method and out of it, or a change of frame kind at the call.
            EventKind::Enter { .. } => {
                let continues = is_continuation(next);
                self.entered |= !continues;
                self.replaced |= continues;
                return None;
            }
            EventKind::Leave { exit, method: m } if *m == method => match exit {
                Exit::Replaced => return None,
                Exit::Unwind => !self.entered,
                Exit::Return | Exit::Lost | Exit::Unknown => false,
            },
            // The probe itself never throws: a native frame that was unwound had been refused its stack.
            EventKind::Leave { exit, .. } => {
                self.entered &= *exit != Exit::Unwind;
                return None;
            }
            EventKind::Catch { .. } => !self.entered,
            // The call again: it is being executed anew after a deoptimisation.
            EventKind::Bytecode { method: m, bci: b, .. } | EventKind::Run { method: m, first: b, .. } => {
                (*m, *b) == (method, bci) && self.replaced && !self.entered
            }
            EventKind::Gap(_) | EventKind::Unresolved { .. } | EventKind::Orphan(_) => false,
        };
        self.pending = None;
        (!thrown_here).then_some(hit)
    }
}

fn is_continuation(kind: &EventKind) -> bool {
    use jportal_flow::Entry::{Deoptimisation, Osr};
    matches!(kind, EventKind::Enter { entry: Osr | Deoptimisation, .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, gap, leave, leave_as, methods};
    use jportal_flow::Entry;

    fn hits(events: &[Event]) -> Vec<(u32, u64)> {
        let probes = Probes::find(&methods());
        let mut f = HitFinder::default();
        let mut all: Vec<Hit> = events.iter().filter_map(|e| f.event(&probes, e)).collect();
        all.extend(f.finish());
        all.iter().map(|h| (h.id, h.event)).collect()
    }

    #[test]
    fn probes_are_read_from_the_bytecodes() {
        let p = Probes::find(&methods());
        assert_eq!(p.len(), 2);
        assert_eq!(p.at(MethodId(3), Bci(6)), Some(1));
        assert_eq!(p.at(MethodId(3), Bci(16)), Some(0x1_2345));
        assert_eq!(p.at(MethodId(0), Bci(6)), None);
        assert_eq!(p.place(0x1_2345), Some((MethodId(3), Bci(16))));
    }

    #[test]
    fn every_call_of_a_probe_is_a_hit() {
        let plain = [bytecode(3, 3), bytecode(3, 6), bytecode(3, 9), bytecode(3, 16), bytecode(3, 19)];
        assert_eq!(hits(&plain), [(1, 1), (0x1_2345, 3)]);
        let native = [bytecode(3, 6), enter(4), leave(4), bytecode(3, 9), bytecode(3, 16)];
        assert_eq!(hits(&native), [(1, 0), (0x1_2345, 4)], "the last one is open at the end");
        assert_eq!(hits(&[bytecode(3, 6), gap(true), bytecode(3, 16), bytecode(3, 19)]).len(), 2);
    }

    #[test]
    fn a_call_that_did_not_get_in_is_none() {
        let unwound = [bytecode(3, 6), leave_as(3, Exit::Unwind), bytecode(0, 0)];
        assert_eq!(hits(&unwound), []);
        let caught = Event::decoded(EventKind::Catch { method: MethodId(3), bci: Bci(9) });
        assert_eq!(hits(&[bytecode(3, 6), caught, bytecode(3, 9)]), []);
        let refused =
            [bytecode(3, 6), enter(4), leave_as(4, Exit::Unwind), leave_as(3, Exit::Unwind), bytecode(0, 0)];
        assert_eq!(hits(&refused), [], "no stack for the native method's frame");
        let again = [
            bytecode(3, 6),
            leave_as(3, Exit::Replaced),
            enter_as(3, Entry::Deoptimisation),
            bytecode(3, 6),
            enter(4),
            leave(4),
            bytecode(3, 9),
        ];
        assert_eq!(hits(&again), [(1, 3)], "executed once, shown twice");
    }
}
