// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The bytecodes on the paths from one bytecode of a method to another.

use jportal_bytecode::{Cfg, Method, Opcode, Transfer, instructions};
use jportal_units::Bci;

/// The ends of a set of paths. Both ends are excluded from the region because the flow has
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ways {
    /// The paths begin after this bytecode. `None`: at the entry of the method.
    pub(crate) from: Option<Bci>,
    /// The paths end before this bytecode, or where the activation ends.
    pub(crate) to: To,
    /// The paths may pass their two ends again.
    pub(crate) rounds: bool,
}

/// The end of the paths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum To {
    /// This bytecode, which is excluded.
    At(Bci),
    /// A return, which is on the path.
    Return,
    /// A return or an exception: every bytecode may be the last one.
    Anywhere,
}

impl Ways {
    /// A whole activation.
    pub(crate) const WHOLE: Self = Self { from: None, to: To::Anywhere, rounds: true };
}

/// A bytecode of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegionBytecode {
    pub(crate) bci: Bci,
    /// It may be executed more than once on one path.
    pub(crate) again: bool,
}

/// The bytecodes and branches on the paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Region {
    /// The bytecodes, by bci.
    pub(crate) places: Box<[RegionBytecode]>,
    /// Outcomes of conditionals and switches. They include those of the bytecode before the
    /// region, and those that lead to the bytecode after it.
    pub(crate) branches: Box<[(Bci, Bci)]>,
    /// Fewest bytecodes on a path.
    pub(crate) min: u64,
    /// Most bytecodes on a path. `None` when a cycle may lie on it.
    pub(crate) max: Option<u64>,
}

impl Region {
    /// The region of `ways` through `method`. If the code cannot be parsed, or no path leads
    /// from end to end, nothing is known, and the region is the whole method.
    pub(crate) fn of(method: &Method, ways: Ways) -> Self {
        Cfg::of(method)
            .ok()
            .and_then(|cfg| Graph::new(method, &cfg).region(ways))
            .unwrap_or_else(|| all(method))
    }
    /// The bytecodes of `method` that an activation at `bci` may execute again, including
    /// `bci`.
    pub(crate) fn round(method: &Method, bci: Bci) -> Self {
        let ways = Ways { from: Some(bci), to: To::At(bci), rounds: true };
        Cfg::of(method).ok().and_then(|cfg| Graph::new(method, &cfg).region(ways)).unwrap_or_default()
    }
}

/// The whole method, with any number of bytecodes.
fn all(method: &Method) -> Region {
    let starts = instructions(&method.code).map_while(Result::ok);
    let mut branches = Vec::new();
    let places = starts.map(|i| {
        let switch = i.switch().ok().flatten();
        let cases = switch.into_iter().flat_map(|s| s.cases.into_iter().map(|c| c.1).chain([s.default]));
        let taken = i.branch_target().ok().flatten().filter(|_| i.opcode.transfer() == Transfer::If);
        let ways = cases.chain(taken.into_iter().flat_map(|t| [t, i.next()]));
        branches.extend(ways.map(|to| (i.bci, to)));
        RegionBytecode { bci: i.bci, again: true }
    });
    let places = places.collect();
    Region { places, branches: branches.into(), min: 0, max: None }
}

/// Whether the bytecode, or something that it calls, may throw (JVMS 6.5).
pub(crate) const fn may_throw(opcode: Opcode) -> bool {
    matches!(opcode.0,
        18..=20 | 46..=53 | 79..=86 | 108 | 109 | 112 | 113 | 172..=187 | 188..=195 | 197)
}

/// A graph of instructions by number, with the edges to exception handlers.
struct Graph {
    starts: Box<[Bci]>,
    next: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    ops: Vec<Transfer>,
}

impl Graph {
    fn new(method: &Method, cfg: &Cfg) -> Self {
        let starts: Box<[Bci]> = cfg.starts().into();
        let n = starts.len();
        let (mut next, mut before) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        let opcodes = instructions(&method.code).map_while(Result::ok).map(|i| i.opcode);
        let mut ops = Vec::with_capacity(n);
        for (at, opcode) in opcodes.enumerate() {
            ops.push(opcode.transfer());
            let edges = cfg.edges(at as u32).iter().map(|e| e.to);
            // javac generates handlers that cover themselves for monitors. Such a handler does
            // not throw to itself.
            let own = |row: &&jportal_bytecode::HandlerRow| {
                (row.start..row.end).contains(&row.handler) && at as u32 >= row.handler
            };
            let itself: Vec<u32> = cfg.rows().iter().filter(own).map(|row| row.handler).collect();
            let handlers = cfg.handlers(at as u32).filter(|h| may_throw(opcode) && !itself.contains(h));
            let mut to: Vec<u32> = edges.chain(handlers).filter(|to| (*to as usize) < n).collect();
            to.sort_unstable();
            to.dedup();
            to.iter().for_each(|t| before[*t as usize].push(at as u32));
            next[at] = to;
        }
        Self { starts, next, before, ops }
    }
    fn index(&self, bci: Bci) -> Option<u32> {
        self.starts.binary_search(&bci).ok().map(|i| i as u32)
    }
    /// The nodes that can be reached along `edges` from `open`, including `open`. The search
    /// does not continue from the nodes in `stop`.
    fn reach(&self, edges: &[Vec<u32>], open: Vec<u32>, stop: &[u32]) -> Vec<bool> {
        let mut seen = vec![false; self.starts.len()];
        let mut open = open;
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at as usize], true) || stop.contains(&at) {
                continue;
            }
            open.extend(&edges[at as usize]);
        }
        seen
    }
    fn region(&self, ways: Ways) -> Option<Region> {
        if self.starts.is_empty() {
            return None;
        }
        let from = match ways.from {
            Some(bci) => Some(self.index(bci)?),
            None => None,
        };
        let to = match ways.to {
            To::At(bci) => Some(self.index(bci)?),
            _ => None,
        };
        let is_return = |n: u32| self.ops[n as usize] == Transfer::Return;
        // The frame was already at its return.
        if ways.to == To::Return && from.is_some_and(is_return) {
            return Some(Region { max: Some(0), ..Region::default() });
        }
        let first: Vec<u32> = from.map_or_else(|| vec![0], |f| self.next[f as usize].clone());
        let ends: Vec<u32> = if ways.rounds { Vec::new() } else { from.into_iter().chain(to).collect() };
        let forth = self.reach(&self.next, first.clone(), &ends);
        let nodes = 0..self.starts.len() as u32;
        let last: Vec<u32> = match ways.to {
            To::At(_) => self.before[to? as usize].clone(),
            To::Return => nodes.clone().filter(|n| is_return(*n)).collect(),
            To::Anywhere => nodes.clone().collect(),
        };
        let back = self.reach(&self.before, last.clone(), &ends);
        let direct = to.is_some_and(|to| first.contains(&to));
        let inside = |n: u32| {
            forth[n as usize] && back[n as usize] && (ways.rounds || Some(n) != to && Some(n) != from)
        };
        let places: Vec<u32> = nodes.filter(|n| inside(*n)).collect();
        if places.is_empty() && !direct && ways.to != To::Anywhere {
            return None;
        }
        let again = self.again(&places);
        let (min, max) = self.lengths(&places, &again, (&first, &last, to));
        let max = max.filter(|_| !again.contains(&true));
        let (is_start, is_end) = (|n: u32| inside(n) || Some(n) == from, |n: u32| inside(n) || Some(n) == to);
        let mut branches = Vec::new();
        for n in (0..self.starts.len() as u32).filter(|n| is_start(*n)) {
            if matches!(self.ops[n as usize], Transfer::If | Transfer::Switch) {
                let to = self.next[n as usize].iter().filter(|to| is_end(**to));
                branches.extend(to.map(|to| (self.starts[n as usize], self.starts[*to as usize])));
            }
        }
        let place =
            |(n, again): (&u32, &bool)| RegionBytecode { bci: self.starts[*n as usize], again: *again };
        let places = places.iter().zip(&again).map(place).collect();
        Some(Region { places, branches: branches.into(), min, max })
    }
    /// For each of `places`, ascending: whether a cycle within `places` leads through it.
    fn again(&self, places: &[u32]) -> Vec<bool> {
        // Removing nodes without a predecessor and nodes without a successor would leave the
        // cycles, but also the nodes that connect cycles. Strongly connected components
        // separate these. Tarjan's algorithm, without recursion.
        const NONE: u32 = u32::MAX;
        let number = |n: u32| places.binary_search(&n).ok();
        let inside = |at: usize| self.next[places[at] as usize].iter().filter_map(|n| number(*n));
        let n = places.len();
        let (mut order, mut low, mut on_stack) = (vec![NONE; n], vec![NONE; n], vec![false; n]);
        let (mut again, mut stack, mut count) = (vec![false; n], Vec::new(), 0);
        for root in 0..n {
            if order[root] != NONE {
                continue;
            }
            let mut work = vec![(root, inside(root).collect::<Vec<_>>())];
            (order[root], low[root], on_stack[root]) = (count, count, true);
            stack.push(root);
            count += 1;
            while let Some((at, open)) = work.last_mut() {
                let at = *at;
                if let Some(next) = open.pop() {
                    again[at] |= next == at;
                    if order[next] == NONE {
                        (order[next], low[next], on_stack[next]) = (count, count, true);
                        stack.push(next);
                        count += 1;
                        work.push((next, inside(next).collect()));
                    } else if on_stack[next] {
                        low[at] = low[at].min(order[next]);
                    }
                    continue;
                }
                work.pop();
                if let Some((caller, _)) = work.last() {
                    low[*caller] = low[*caller].min(low[at]);
                }
                if low[at] == order[at] {
                    let begin = stack.iter().rposition(|s| *s == at).unwrap_or(0);
                    let several = stack.len() - begin > 1;
                    for member in stack.drain(begin..) {
                        on_stack[member] = false;
                        again[member] |= several;
                    }
                }
            }
        }
        again
    }
    /// Fewest and most bytecodes of `places` on a path. The maximum is `None` if any place can
    /// repeat.
    fn lengths(
        &self,
        places: &[u32],
        again: &[bool],
        (first, last, to): (&[u32], &[u32], Option<u32>),
    ) -> (u64, Option<u64>) {
        let number = |n: &u32| places.binary_search(n).ok();
        let mut shortest = vec![u64::MAX; places.len()];
        let mut queue: std::collections::VecDeque<usize> = first.iter().filter_map(number).collect();
        queue.iter().for_each(|at| shortest[*at] = 1);
        while let Some(at) = queue.pop_front() {
            for next in self.next[places[at] as usize].iter().filter_map(number) {
                if shortest[next] == u64::MAX {
                    shortest[next] = shortest[at] + 1;
                    queue.push_back(next);
                }
            }
        }
        let ends = || last.iter().filter_map(number);
        let direct = to.is_some_and(|to| first.contains(&to));
        let anywhere = to.is_none() && last.len() == self.starts.len();
        let min = if direct || anywhere { 0 } else { ends().map(|at| shortest[at]).min().unwrap_or(0) };
        if again.contains(&true) {
            return (if min == u64::MAX { 0 } else { min }, None);
        }
        // Visit the places in topological order: each after all that lead to it.
        let mut open: Vec<usize> = vec![0; places.len()];
        for at in places {
            self.next[*at as usize].iter().filter_map(number).for_each(|next| open[next] += 1);
        }
        let mut ready: Vec<usize> = (0..places.len()).filter(|at| open[*at] == 0).collect();
        let mut longest: Vec<u64> = vec![0; places.len()];
        first.iter().filter_map(number).for_each(|at| longest[at] = 1);
        while let Some(at) = ready.pop() {
            for next in self.next[places[at] as usize].iter().filter_map(number) {
                if longest[at] > 0 {
                    longest[next] = longest[next].max(longest[at] + 1);
                }
                open[next] -= 1;
                if open[next] == 0 {
                    ready.push(next);
                }
            }
        }
        let max = ends().map(|at| longest[at]).max().unwrap_or(0);
        (if min == u64::MAX { 0 } else { min }, Some(max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BRANCHY, method};
    use jportal_bytecode::ExceptionRow;

    fn bcis(r: &Region) -> Vec<u16> {
        r.places.iter().map(|p| p.bci.0).collect()
    }
    fn ways(from: Option<u16>, to: To) -> Ways {
        Ways { from: from.map(Bci), to, rounds: false }
    }
    fn at(bci: u16) -> To {
        To::At(Bci(bci))
    }

    #[test]
    fn both_arms_of_a_conditional_expression() {
        let m = method("a/B", "f", BRANCHY);
        let r = Region::of(&m, ways(Some(1), at(9)));
        assert_eq!(bcis(&r), [4, 5, 8]);
        assert_eq!((r.min, r.max), (1, Some(2)));
        assert_eq!(&*r.branches, [(Bci(1), Bci(4)), (Bci(1), Bci(8))]);
        let r = Region::of(&m, ways(None, To::Return));
        assert_eq!((bcis(&r).len(), r.min, r.max), (6, 4, Some(5)));
        let r = Region::of(&m, ways(Some(9), To::Return));
        assert_eq!((bcis(&r).len(), r.max), (0, Some(0)), "it stood at its return");
        let r = Region::of(&m, ways(Some(4), To::Anywhere));
        assert_eq!((bcis(&r), r.min, r.max), (vec![5, 9], 0, Some(2)));
        // No path leads from bci 8 to bci 4.
        let r = Region::of(&m, ways(Some(8), at(4)));
        assert_eq!((bcis(&r).len(), r.max, r.branches.len()), (6, None, 2));
    }

    #[test]
    fn a_way_without_anything_on_it() {
        // 0 iload_0; 1 ifeq 5; 4 nop; 5 return
        let m = method("a/B", "f", &[26, 153, 0, 4, 0, 177]);
        let r = Region::of(&m, ways(Some(1), at(5)));
        assert_eq!((bcis(&r), r.min, r.max), (vec![4], 0, Some(1)));
        assert_eq!(&*r.branches, [(Bci(1), Bci(4)), (Bci(1), Bci(5))]);
    }

    #[test]
    fn rounds_of_a_loop() {
        // 0 nop; 1 iload_0; 2 ifeq 9; 5 nop; 6 goto 1; 9 return
        let m = method("a/B", "f", &[0, 26, 153, 0, 7, 0, 167, 255, 251, 177]);
        let once = Region::of(&m, ways(Some(2), at(9)));
        assert_eq!((bcis(&once), once.max), (vec![], Some(0)), "only a round would have more");
        assert_eq!(&*once.branches, [(Bci(2), Bci(9))]);
        let r = Region::of(&m, Ways { rounds: true, ..ways(Some(2), at(9)) });
        assert_eq!((bcis(&r), r.min, r.max), (vec![1, 2, 5, 6], 0, None));
        assert_eq!(&*r.branches, [(Bci(2), Bci(5)), (Bci(2), Bci(9))]);
        assert!(r.places.iter().all(|p| p.again));
        let r = Region::of(&m, Ways::WHOLE);
        let again: Vec<bool> = r.places.iter().map(|p| p.again).collect();
        assert_eq!(again, [false, true, true, true, true, false]);
        assert_eq!(bcis(&Region::round(&m, Bci(5))), [1, 2, 5, 6]);
        assert_eq!(bcis(&Region::round(&m, Bci(0))), [0_u16; 0]);
    }

    #[test]
    fn handlers_lie_on_the_way() {
        // 0 new; 3 pop; 4 goto 8; 7 pop (handler); 8 return. The handler covers itself, as
        // javac generates it.
        let mut m = method("a/B", "f", &[187, 0, 1, 87, 167, 0, 4, 87, 177]);
        let row =
            |start, end| ExceptionRow { start: Bci(start), end: Bci(end), handler: Bci(7), catch_type: None };
        m.exceptions = [row(0, 8)].into();
        let r = Region::of(&m, ways(None, at(8)));
        assert_eq!((bcis(&r), r.min, r.max), (vec![0, 3, 4, 7], 2, Some(3)));
        m.exceptions = [row(3, 7)].into();
        let r = Region::of(&m, ways(None, at(8)));
        assert_eq!(bcis(&r), [0, 3, 4], "pop and goto do not throw");
    }

    #[test]
    fn code_that_cannot_be_read_is_all_unknown() {
        let m = method("a/B", "f", &[26, 153, 0, 1, 203]);
        let r = Region::of(&m, ways(None, at(1)));
        assert_eq!((bcis(&r), r.max), (vec![0, 1], None));
        assert_eq!(Region::of(&method("a/B", "n", &[]), Ways::WHOLE).places.len(), 0);
    }
}
