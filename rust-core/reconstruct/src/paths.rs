// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The path of a method between two positions, if only one exists.
//!
//! With debug info alone, compiled code is visible at its debug-info positions only. The
//! bytecodes executed between two of them are certain exactly when the control flow graph has
//! one path. Loops and diamonds on the way make it ambiguous, and the flow says so.

use crate::code_map::{CodeMap, CodeMaps};
use crate::frame::Position;
use crate::machine::Shared;
use crate::throwers::{Throwers, Thrown, reaches, throwers};
use hashbrown::HashMap;
use jportal_bytecode::{Instruction, Method, Transfer};
use jportal_flow::Cause;
use jportal_units::{Bci, MethodId};

/// The two ends of a path: `None` is the entry (bci 0 included) or a return.
pub(crate) type Ends = (Option<Bci>, Option<Bci>);

/// A cache of paths between positions.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    known: HashMap<(MethodId, Ends), Option<Box<[Bci]>>>,
    /// For each bytecode looked up, whether it can be reached from itself.
    rounds: HashMap<(MethodId, Bci), bool>,
    hops: Vec<Hop>,
    /// Index into `hops`.
    places: HashMap<(MethodId, Ends), u32>,
    recent: Recent,
}

/// A direct-mapped cache of recent lookups: key and index into `hops`. Each key has one
/// possible slot.
#[derive(Debug)]
struct Recent(Box<[(u64, u32)]>);

impl Default for Recent {
    fn default() -> Self {
        Self(vec![(u64::MAX, 0); 1 << Self::BITS].into())
    }
}

impl Recent {
    const BITS: u32 = 10;
    /// Method and ends in one number, which differs from that of an empty slot.
    fn key(method: MethodId, (from, to): Ends) -> Option<u64> {
        let end = |b: Option<Bci>| b.map_or(0, |b| u64::from(b.0) + 1);
        (method.0 < 1 << 29).then(|| u64::from(method.0) << 34 | end(from) << 17 | end(to))
    }
    fn slot(key: u64) -> usize {
        // Knuth's multiplicative hashing.
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS)) as usize
    }
}

/// The connection between two consecutive positions of a frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hop {
    /// The bytecodes after the first position, up to and including the second, if an edge joins
    /// them: straight to the end of the block, and from there to the second position (or to a
    /// return).
    pub path: Option<Box<[Bci]>>,
    /// How many of these, counted from the first, are adjacent in the code.
    straight: usize,
    /// The first of these directly follows the first position in the code.
    follows: bool,
    /// The bytecode at the first position is an invoke whose callee should be visible.
    pub calls: bool,
    /// A bytecode between the two is an invoke whose callee should have been visible.
    pub hides: bool,
    /// The second position is a handler that catches what the block of the first may throw: see
    /// [`Hop::catches`].
    catches: [bool; 2],
}

impl Hop {
    fn of(shared: &Shared<'_>, method: MethodId, (from, to): Ends) -> Self {
        let (Some(m), Some(map)) = (shared.maps.method(method), shared.maps.of(method)) else {
            return Self::default();
        };
        let shows = |b: Bci| {
            map.step(b).is_some_and(|s| s.transfer == Transfer::Invoke) && !shared.may_be_silent(method, b)
        };
        let path = hop(m, map, (from, to)).map(Vec::into_boxed_slice);
        let steps = path.as_deref().unwrap_or_default();
        let behind = |a: Bci, b: Bci| map.step(a).is_some_and(|s| s.next == b);
        let jump = steps.windows(2).position(|pair| !behind(pair[0], pair[1]));
        let passed = path.as_deref().and_then(|p| p.split_last()).map_or(&[][..], |p| p.1);
        let catches = |thrown| {
            from.zip(to).is_some_and(|(from, to)| {
                let at = Position { method, bci: Some(from) };
                reaches(m, from, Some(to))
                    || throwers(shared, at, false, Some(to), thrown) != Throwers::Nobody
            })
        };
        Self {
            calls: from.is_some_and(shows),
            hides: passed.iter().any(|&b| shows(b)),
            catches: [catches(Thrown::Athrow), catches(Thrown::Prepared)],
            straight: jump.map_or(steps.len(), |at| at + 1),
            follows: from.zip(steps.first()).is_some_and(|(from, first)| behind(from, *first)),
            path,
        }
    }
    /// The path as runs of bytecodes that are adjacent in the code: first bytecode, last
    /// bytecode, length. Also whether the first run directly follows the first position in the
    /// code.
    #[inline]
    pub fn runs(&self) -> (impl Iterator<Item = (Bci, Bci, u16)> + '_, bool) {
        let (straight, rest) = self.path.as_deref().unwrap_or_default().split_at(self.straight);
        let ends = straight.first().zip(straight.last());
        let run = ends.map(|(first, last)| (*first, *last, straight.len() as u16));
        (run.into_iter().chain(rest.iter().map(|bci| (*bci, *bci, 1))), self.follows)
    }
    /// Whether the second position is a handler that catches what the block of the first may
    /// throw. Prepared exceptions count only if a path was lost.
    pub fn catches(&self, lost: Option<Cause>) -> bool {
        self.catches[usize::from(lost.is_some())]
    }
}

impl Paths {
    /// The bytecodes executed after `from` up to and including `to` (or the return). `None` if
    /// there is no path, or more than one.
    pub(crate) fn between(&mut self, maps: &CodeMaps<'_>, method: MethodId, ends: Ends) -> Option<&[Bci]> {
        self.known
            .entry((method, ends))
            .or_insert_with(|| {
                let (m, map) = (maps.method(method)?, maps.of(method)?);
                unique_path(m, map, ends).map(Vec::into_boxed_slice)
            })
            .as_deref()
    }
}

impl Paths {
    /// Whether the same activation may execute the bytecode at `bci` again.
    pub(crate) fn comes_again(&mut self, shared: &Shared<'_>, method: MethodId, bci: Bci) -> bool {
        *self.rounds.entry((method, bci)).or_insert_with(|| {
            let code = shared.maps.method(method).zip(shared.maps.of(method));
            code.is_some_and(|(m, map)| comes_again(m, map, bci))
        })
    }
    #[cold]
    fn add(&mut self, shared: &Shared<'_>, method: MethodId, ends: Ends) -> usize {
        let place = self.hops.len();
        self.hops.push(Hop::of(shared, method, ends));
        self.places.insert((method, ends), place as u32);
        place
    }
    /// The connection between the two ends.
    #[inline]
    pub(crate) fn hop(&mut self, shared: &Shared<'_>, method: MethodId, ends: Ends) -> &Hop {
        let key = Recent::key(method, ends);
        if let Some(key) = key
            && let (known, place) = self.recent.0[Recent::slot(key)]
            && known == key
        {
            return &self.hops[place as usize];
        }
        let place = match self.places.get(&(method, ends)) {
            Some(&place) => place as usize,
            None => self.add(shared, method, ends),
        };
        if let Some(key) = key {
            self.recent.0[Recent::slot(key)] = (key, place as u32);
        }
        &self.hops[place]
    }
}

/// Whether a path leads from `bci` to itself; every bytecode may throw.
fn comes_again(m: &Method, map: &CodeMap, bci: Bci) -> bool {
    let mut open = vec![bci];
    let mut seen = vec![false; m.code.len()];
    while let Some(at) = open.pop() {
        let handlers = m.exceptions.iter().filter(|e| (e.start..e.end).contains(&at)).map(|e| e.handler);
        for next in successors(m, map, at).into_iter().chain(handlers) {
            if next == bci {
                return true;
            }
            if seen.get(usize::from(next.0)) == Some(&false) {
                seen[usize::from(next.0)] = true;
                open.push(next);
            }
        }
    }
    false
}

fn hop(m: &Method, map: &CodeMap, (from, to): Ends) -> Option<Vec<Bci>> {
    let mut path = Vec::new();
    let mut at = from.unwrap_or(Bci(0));
    if from.is_none() {
        path.push(at);
        if to == Some(at) {
            return Some(path);
        }
    }
    loop {
        let step = map.step(at)?;
        match step.transfer {
            Transfer::None | Transfer::Invoke => {
                path.push(step.next);
                if to == Some(step.next) {
                    return Some(path);
                }
                at = step.next;
            }
            Transfer::Return => return to.is_none().then_some(path),
            // The target of `ret` depends on data; the marker gives it.
            Transfer::Ret => {
                path.push(to.filter(|&t| map.step(t).is_some())?);
                return Some(path);
            }
            _ => {
                path.push(to.filter(|t| successors(m, map, at).contains(t))?);
                return Some(path);
            }
        }
    }
}

/// Successors of the bytecode at `bci` inside its method, without exceptions.
fn successors(m: &Method, map: &CodeMap, bci: Bci) -> Vec<Bci> {
    let Some(s) = map.step(bci) else { return Vec::new() };
    match s.transfer {
        Transfer::None | Transfer::Invoke => vec![s.next],
        Transfer::Goto | Transfer::Jsr => vec![s.target],
        Transfer::If if s.target == s.next => vec![s.next],
        Transfer::If => vec![s.next, s.target],
        // The target of `ret` depends on data: nothing after it is unique.
        Transfer::Return | Transfer::Throw | Transfer::Ret => Vec::new(),
        Transfer::Switch => {
            let switch = Instruction::at(&m.code, bci.0.into()).ok().and_then(|i| i.switch().ok().flatten());
            let mut to: Vec<Bci> =
                switch.map_or_else(Vec::new, |s| s.cases.iter().map(|c| c.1).chain([s.default]).collect());
            to.sort_unstable();
            to.dedup();
            to
        }
    }
}

/// By bci, whether the bytecode leads to `to` (or to a return).
fn leads_to(m: &Method, map: &CodeMap, to: Option<Bci>) -> Vec<bool> {
    let n = m.code.len();
    let mut before: Vec<Vec<u16>> = vec![Vec::new(); n];
    let mut work: Vec<Bci> = Vec::new();
    for at in (0..n).filter_map(|i| u16::try_from(i).ok()).map(Bci) {
        let Some(step) = map.step(at) else { continue };
        for s in successors(m, map, at) {
            if let Some(b) = before.get_mut(usize::from(s.0)) {
                b.push(at.0);
            }
        }
        let is_end = to.map_or(step.transfer == Transfer::Return, |t| t == at);
        if is_end {
            work.push(at);
        }
    }
    let mut leads = vec![false; n];
    while let Some(b) = work.pop() {
        if std::mem::replace(&mut leads[usize::from(b.0)], true) {
            continue;
        }
        work.extend(before[usize::from(b.0)].iter().map(|&p| Bci(p)));
    }
    leads
}

fn unique_path(m: &Method, map: &CodeMap, (from, to): Ends) -> Option<Vec<Bci>> {
    let leads = leads_to(m, map, to);
    let mut path = Vec::new();
    let mut next = match from {
        None => vec![Bci(0)],
        Some(f) => successors(m, map, f),
    };
    // A unique path visits each bytecode at most once.
    for _ in 0..=m.code.len() {
        next.retain(|b| leads.get(usize::from(b.0)).copied().unwrap_or(false));
        let [only] = next[..] else { return None };
        path.push(only);
        let step = map.step(only)?;
        let at_end = to.map_or(step.transfer == Transfer::Return, |t| t == only);
        if at_end {
            return Some(path);
        }
        next = successors(m, map, only);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_bytecode::{ExceptionRow, MethodTable};

    fn path(code: &[u8], ends: Ends) -> Option<Vec<u16>> {
        let mut table = MethodTable::default();
        let id = table.push(Method { code: code.into(), ..crate::testing::method("m") });
        let maps = CodeMaps::new(&table);
        Paths::default().between(&maps, id, ends).map(|p| p.iter().map(|b| b.0).collect())
    }

    // 0 iload_0; 1 ifeq 8; 4 nop; 5 goto 9; 8 nop; 9 return
    const DIAMOND: [u8; 10] = [26, 153, 0, 7, 0, 167, 0, 4, 0, 177];

    #[test]
    fn an_arm_is_unique_and_the_diamond_is_not() {
        let at = |b| Some(Bci(b));
        assert_eq!(path(&DIAMOND, (None, at(4))), Some(vec![0, 1, 4]));
        assert_eq!(path(&DIAMOND, (at(4), None)), Some(vec![5, 9]));
        assert_eq!(path(&DIAMOND, (at(1), at(9))), None);
        assert_eq!(path(&DIAMOND, (at(8), at(4))), None);
    }

    #[test]
    fn a_hop_takes_one_edge() {
        let mut table = MethodTable::default();
        let id = table.push(Method { code: DIAMOND.into(), ..crate::testing::method("m") });
        let maps = CodeMaps::new(&table);
        let (m, map) = (table.get(id).unwrap(), maps.of(id).unwrap());
        let hop = |from: Option<u16>, to: Option<u16>| {
            let path = super::hop(m, map, (from.map(Bci), to.map(Bci)))?;
            Some(path.iter().map(|b| b.0).collect::<Vec<_>>())
        };
        assert_eq!(hop(None, Some(0)), Some(vec![0]));
        assert_eq!(hop(Some(0), Some(4)), Some(vec![1, 4]));
        assert_eq!(hop(Some(0), Some(8)), Some(vec![1, 8]));
        assert_eq!(hop(Some(0), Some(9)), None);
        assert_eq!(hop(Some(4), Some(9)), Some(vec![5, 9]));
        assert_eq!(hop(Some(8), None), Some(vec![9]));
        assert_eq!(hop(Some(9), None), Some(vec![]));
        assert_eq!(hop(Some(4), None), None);
    }

    #[test]
    fn a_path_in_pieces() {
        let vm = crate::machine_tests::vm_with(&[(&DIAMOND, &[])], &[]);
        let shared = Shared::new(&vm.image, &vm.history, crate::driver::Positions::Markers, false);
        let pieces = |from: Option<u16>, to: Option<u16>| {
            let mut paths = Paths::default();
            let (runs, follows) = paths.hop(&shared, MethodId(0), (from.map(Bci), to.map(Bci))).runs();
            (runs.map(|(first, last, len)| (first.0, last.0, len)).collect::<Vec<_>>(), follows)
        };
        assert_eq!(pieces(None, Some(4)), (vec![(0, 4, 3)], false));
        assert_eq!(pieces(None, Some(1)), (vec![(0, 1, 2)], false));
        assert_eq!(pieces(Some(0), Some(4)), (vec![(1, 4, 2)], true));
        assert_eq!(pieces(Some(0), Some(8)), (vec![(1, 1, 1), (8, 8, 1)], true));
        assert_eq!(pieces(Some(1), Some(8)), (vec![(8, 8, 1)], false));
        assert_eq!(pieces(Some(1), Some(4)), (vec![(4, 4, 1)], true));
        assert_eq!(pieces(Some(4), None), (vec![], false));
        assert_eq!(pieces(Some(9), None), (vec![], false));
    }

    #[test]
    fn different_places_have_different_keys() {
        let ends = [None, Some(Bci(0)), Some(Bci(1)), Some(Bci(u16::MAX))];
        let methods = [0, 1, (1 << 29) - 1].map(MethodId);
        let all = methods.iter().flat_map(|&m| ends.map(|a| ends.map(|b| Recent::key(m, (a, b)))));
        let keys: Vec<u64> = all.flatten().flatten().collect();
        let distinct: hashbrown::HashSet<&u64> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (48, 48));
        assert!(!keys.contains(&u64::MAX));
        assert_eq!(Recent::key(MethodId(1 << 29), (None, None)), None);
    }

    #[test]
    fn a_bytecode_of_a_loop_comes_again() {
        // 0 nop; 1 iload_0; 2 ifeq 0; 5 return. An exception row that leads from 5 to 1 makes 5
        // part of the loop.
        let code = [0, 26, 153, 0xff, 0xfe, 177];
        let mut table = MethodTable::default();
        let row =
            |handler| ExceptionRow { start: Bci(5), end: Bci(6), handler: Bci(handler), catch_type: None };
        let ids = [None, Some(row(1))].map(|row| {
            let exceptions = row.into_iter().collect();
            table.push(Method { code: code.into(), exceptions, ..crate::testing::method("m") })
        });
        let maps = CodeMaps::new(&table);
        let again = |id, bci| super::comes_again(table.get(id).unwrap(), maps.of(id).unwrap(), Bci(bci));
        assert!(again(ids[0], 0) && again(ids[0], 2) && !again(ids[0], 5));
        assert!(again(ids[1], 5), "by way of its handler");
    }

    #[test]
    fn a_loop_on_the_way_is_ambiguous() {
        // 0 nop; 1 iload_0; 2 ifeq 0; 5 return
        let code = [0, 26, 153, 0xff, 0xfe, 177];
        assert_eq!(path(&code, (None, Some(Bci(1)))), Some(vec![0, 1]));
        assert_eq!(path(&code, (Some(Bci(1)), None)), None);
    }
}
