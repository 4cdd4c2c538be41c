// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds path markers that no run can have passed one after the other.
//!
//! Checks the compilers' markers against the methods, without any trace. Each list of markers
//! is checked by itself, and with the lists that the machine code can reach next. A step that
//! no edge of the bytecode explains, and that no marker declares ambiguous, is a fault of the
//! compiler's markers. Exceptions and faulting instructions are not followed.

use crate::driver::Positions;
use crate::frame::{Compiled, Frame, Position, Trail};
use crate::machine::{Machine, Shared};
use crate::marked::marker_chain;
use crate::recording::{Recording, installed};
use hashbrown::{HashMap, HashSet};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use jportal_capture::schema::compilers;
use jportal_flow::Tier;
use jportal_machine_flow::CodeHistory;
use jportal_units::{Address, AddressRange, CodeId};
use jportal_vm_image::{CodeBody, CodeVersion, Marker, NMethod, Outcome, PathMarkers, VmImage};

/// Two path markers of which the second cannot follow the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImplausibleStep {
    /// The compiled code.
    pub code: CodeId,
    /// The place of the list with the second marker: offset in the code, or start of the edge.
    pub offset: u32,
    /// The first marker.
    pub from: Marker,
    /// The second one.
    pub to: Marker,
}

impl Recording {
    /// All implausible steps of all compiled code. Each pair of markers appears once per piece
    /// of code.
    pub fn implausible_steps(&self) -> Vec<ImplausibleStep> {
        implausible_steps(self.image(), self.history())
    }
}

fn implausible_steps(image: &VmImage, history: &CodeHistory) -> Vec<ImplausibleStep> {
    let shared = Shared::new(image, history, Positions::Markers, false);
    let code: HashMap<_, _> = installed(history).collect();
    let one_way = one_way(image);
    let mut found = Vec::new();
    for version in image.codes() {
        let Some(n) = version.nmethod() else { continue };
        let (Some(markers), Some(code)) = (&n.markers, code.get(&version.id)) else { continue };
        let machine = Machine::new(&shared);
        let search = Search {
            machine,
            version,
            n,
            markers,
            code,
            one_way: &one_way,
            found: Vec::new(),
            known: HashMap::new(),
        };
        found.extend(search.run());
    }
    found
}

/// The place of a list of markers.
#[derive(Clone, Copy)]
enum MarkerPlace {
    At(u32),
    Behind { edge: u32, to: u32 },
}

struct Search<'a, 's> {
    machine: Machine<'s>,
    version: &'a CodeVersion,
    n: &'a NMethod,
    markers: &'a PathMarkers,
    code: &'a [u8],
    one_way: &'a [AddressRange],
    found: Vec<ImplausibleStep>,
    /// Pairs of markers, and whether the second may follow the first.
    known: HashMap<(u32, u16, u32, u16), bool>,
}

impl Search<'_, '_> {
    fn run(mut self) -> Vec<ImplausibleStep> {
        // C2 repeats the markers of the entry before the inline-cache check, where the frame
        // does not exist yet.
        let entered = |offset: u32| offset >= self.n.verified_entry;
        let at = self.markers.offsets().filter(|o| entered(o.0));
        let at = at.map(|(offset, list)| (MarkerPlace::At(offset), list));
        let on = self.markers.edges().filter(|e| e.1 < Outcome::Exception as u8);
        let on = on.map(|(from, _, to, list)| (MarkerPlace::Behind { edge: from, to }, list));
        let lists: Vec<_> = at.chain(on).collect();
        for (place, list) in lists {
            let offset = match place {
                MarkerPlace::At(offset) | MarkerPlace::Behind { edge: offset, .. } => offset,
            };
            list.windows(2).for_each(|pair| self.step(offset, pair[0], pair[1]));
            if let Some(&last) = list.last() {
                self.walk(place, last);
            }
        }
        self.found
    }
    fn step(&mut self, offset: u32, from: Marker, to: Marker) {
        if !self.may_follow(from, to) {
            let step = ImplausibleStep { code: self.version.id, offset, from, to };
            if !self.found.iter().any(|f| (f.from, f.to) == (from, to)) {
                self.found.push(step);
            }
        }
    }
    fn may_follow(&mut self, from: Marker, to: Marker) -> bool {
        let (Marker::Block { context: c1, bci: b1 }, Marker::Block { context: c2, bci: b2 }) = (from, to)
        else {
            return true;
        };
        let key = (c1, b1, c2, b2);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let chain = marker_chain(self.markers, c1, b1);
        let may = chain.is_none_or(|chain| self.machine.follows(self.version.id, self.n, chain, to));
        self.known.insert(key, may);
        may
    }
    /// Follows every way from `place` to the next markers.
    fn walk(&mut self, place: MarkerPlace, last: Marker) {
        let mut seen = HashSet::new();
        let mut open = match place {
            MarkerPlace::At(offset) => vec![(offset, true)],
            MarkerPlace::Behind { to, .. } => vec![(to, false)],
        };
        while let Some((offset, passed)) = open.pop() {
            if offset >= self.n.stub || !seen.insert(offset) {
                continue;
            }
            let here = self.markers.at(offset);
            if let Some(&next) = here.first().filter(|_| !passed) {
                self.step(offset, last, next);
                continue;
            }
            let Some(i) = self.decode(offset) else { continue };
            let next = offset + i.len() as u32;
            let target = || self.target(&i);
            let mut ways = Vec::new();
            match i.flow_control() {
                FlowControl::Next => ways.push((Outcome::NotTaken, next)),
                FlowControl::ConditionalBranch => {
                    ways.push((Outcome::NotTaken, next));
                    ways.extend(target().map(|to| (Outcome::Taken, to)));
                }
                FlowControl::UnconditionalBranch => ways.extend(target().map(|to| (Outcome::Taken, to))),
                FlowControl::Call | FlowControl::IndirectCall if !self.is_one_way(&i) => {
                    let list = self.markers.on_edge(next, Outcome::CallReturn, next);
                    match list.first() {
                        Some(&first) => self.step(next, last, first),
                        None => open.push((next, false)),
                    }
                }
                FlowControl::IndirectBranch => {
                    let table =
                        self.markers.edges().filter(|e| e.0 == offset && e.1 == Outcome::JumpTable as u8);
                    let ways: Vec<_> = table.map(|e| (e.2, e.3.first().copied())).collect();
                    for (to, first) in ways {
                        match first {
                            Some(first) => self.step(offset, last, first),
                            None => open.push((to, false)),
                        }
                    }
                }
                _ => {}
            }
            for (outcome, to) in ways {
                match self.markers.on_edge(offset, outcome, to).first() {
                    Some(&first) => self.step(offset, last, first),
                    None => open.push((to, false)),
                }
            }
        }
    }
    fn decode(&self, offset: u32) -> Option<Instruction> {
        let bytes = self.code.get(offset as usize..)?;
        let ip = self.version.range.start.0 + u64::from(offset);
        let i = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        (!i.is_invalid()).then_some(i)
    }
    fn is_one_way(&self, call: &Instruction) -> bool {
        let callee = Address(call.near_branch_target());
        self.one_way.iter().any(|stub| stub.contains(callee))
    }
    fn target(&self, branch: &Instruction) -> Option<u32> {
        let target = Address(branch.near_branch_target());
        self.version.range.contains(target).then(|| target.minus(self.version.range.start) as u32)
    }
}

/// The stubs from which control does not return to the caller: they deoptimise it or throw.
fn one_way(image: &VmImage) -> Vec<AddressRange> {
    let leaves = |name: &str| {
        let name = name.to_lowercase();
        ["uncommon", "throw", "exception", "unwind", "deopt"].iter().any(|part| name.contains(part))
    };
    let stubs =
        image.codes().iter().filter(|c| matches!(&c.body, CodeBody::Blob { name, .. } if leaves(name)));
    stubs.map(|c| c.range).collect()
}

impl<'a> Machine<'a> {
    /// Whether control at `chain` may pass the marker next.
    fn follows(&mut self, code: CodeId, n: &NMethod, chain: Vec<Position>, mark: Marker) -> bool {
        let Some(markers) = &n.markers else { return true };
        let tier = if n.compiler == compilers::C1 { Tier::C1 } else { Tier::C2 };
        // A call may have been made in between: only debug info shows it.
        let trail = Trail { called: true, ..Trail::default() };
        self.stack = vec![Frame::Compiled(Compiled { code, tier, chain, trail })];
        self.pass(markers, mark);
        self.out.clear();
        self.trail().is_none_or(|t| !t.astray)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marked_tests::nmethod;
    use jportal_units::Tsc;

    /// The implausible steps of an nmethod with straight-line code, as pairs of context and
    /// bci.
    fn steps(at: &[(u32, &[(u32, u16)])]) -> Vec<[(u32, u16); 2]> {
        let mut vm = nmethod(at, &[], &[], &[]);
        for version in vm.image.codes().iter().filter(|v| v.nmethod().is_some()) {
            vm.history.install(Tsc(1), version.range.start, &[0x90; 0x120], version.id).unwrap();
        }
        let steps = implausible_steps(&vm.image, &vm.history);
        let block = |m| match m {
            Marker::Block { context, bci } => (context, bci),
            _ => unreachable!("no step begins or ends with {m:?}"),
        };
        steps.iter().map(|s| [block(s.from), block(s.to)]).collect()
    }

    #[test]
    fn markers_are_held_against_the_bytecode() {
        // One iteration of the loop, or the exit.
        assert!(steps(&[(0, &[(0, 0), (0, 4), (1, 0), (1, 5), (0, 0), (0, 10)])]).is_empty());
        assert_eq!(steps(&[(0, &[(0, 0), (0, 4), (1, 0), (1, 5), (1, 4)])]), [[(1, 5), (1, 4)]]);
        // After a loss that C2 reports, any marker may follow.
        let lost = (jportal_capture::schema::NO_CONTEXT, 1);
        assert!(steps(&[(0, &[(0, 0), (0, 4), (1, 0), lost, (1, 4)])]).is_empty());
    }

    #[test]
    fn the_next_markers_are_those_that_the_code_leads_to() {
        assert!(steps(&[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x20, &[(1, 4)])]).is_empty());
        assert_eq!(steps(&[(0, &[(0, 0)]), (0x10, &[(0, 0)])]), [[(0, 0), (0, 0)]]);
    }
}
