// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What is known of one method: counts, and where more may have happened.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use jportal_flow::Tally;
use jportal_units::{Bci, MethodId};
use serde::{Deserialize, Serialize};

use super::code::{Code, Parts};
use super::planes::{Entries, MethodCounts, Sums, Throw};
use crate::coverage::Ratio;
use crate::hidden::{Account, Hidden};

/// Whether something was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was seen.
    Executed,
    /// It was not seen, but may have been executed where the flow says that it does not know.
    Unknown,
    /// It was not seen, and the flow leaves no room for it, except where trace was lost.
    Missed,
}

impl State {
    pub(crate) const fn of(times: &Tally, perhaps_more: bool) -> Self {
        match (times.total(), perhaps_more) {
            (0, true) => Self::Unknown,
            (0, false) => Self::Missed,
            _ => Self::Executed,
        }
    }
    /// The state of a whole of which one part has this state and the rest has the other.
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Executed, _) | (_, Self::Executed) => Self::Executed,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            _ => Self::Missed,
        }
    }
}

/// More executions of the bytecode are possible than were seen.
const EXECUTED: u8 = 1;
/// More exceptions than were seen may have come from the bytecode.
const THREW: u8 = 2;

/// Where a method may have done more than was seen.
#[derive(Debug)]
pub(crate) struct Perhaps {
    /// By bci.
    bcis: Box<[u8]>,
    /// By slot of the shape.
    ways: Box<[bool]>,
}

impl Perhaps {
    fn mark(&mut self, bci: Bci, bit: u8) {
        if let Some(bits) = self.bcis.get_mut(usize::from(bci.get())) {
            *bits |= bit;
        }
    }
    fn at(&self, bci: Bci) -> u8 {
        self.bcis.get(usize::from(bci.get())).copied().unwrap_or(0)
    }
}

/// Where methods may have done more than was seen, by method.
pub(crate) fn perhaps(code: &Code, account: &mut Account<'_>, hidden: &Hidden) -> HashMap<MethodId, Perhaps> {
    let mut all = HashMap::new();
    for (id, region) in account.regions(hidden) {
        let Some(parts) = code.parts(id) else { continue };
        let perhaps = marks_of(&mut all, &parts);
        region.places.iter().for_each(|place| perhaps.mark(place.bci, EXECUTED | THREW));
        for (from, to) in &region.branches {
            if let Some(slot) = parts.shape.slot(*from, *to) {
                perhaps.ways[slot] = true;
            }
        }
    }
    // How the bytecode before a stretch ended is unknown, too.
    let stretches = hidden.stretches.keys().map(|stretch| (stretch.method, stretch.ways));
    for (id, ways) in stretches.chain(hidden.lost.iter().copied()) {
        if let (Some(parts), Some(from)) = (code.parts(id), ways.from) {
            marks_of(&mut all, &parts).mark(from, THREW);
        }
    }
    all
}

fn marks_of<'p>(all: &'p mut HashMap<MethodId, Perhaps>, parts: &Parts<'_>) -> &'p mut Perhaps {
    all.entry(parts.method.id).or_insert_with(|| Perhaps {
        bcis: vec![0; parts.method.code.len()].into(),
        ways: vec![false; parts.shape.slots].into(),
    })
}

/// What is known of one method. A method of which nothing was seen has empty lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    sums: Sums,
    /// By number of the instruction: whether more executions are possible.
    more: Vec<bool>,
    /// By slot of the shape: whether more are possible.
    more_ways: Vec<bool>,
    /// By number of the instruction: whether more exceptions are possible.
    more_throws: Vec<bool>,
    /// The exceptions.
    pub(crate) throws: BTreeMap<Throw, Tally>,
    pub(crate) entries: Entries,
}

impl Facts {
    pub(crate) fn of(parts: &Parts<'_>, counts: Option<&MethodCounts>, perhaps: Option<&Perhaps>) -> Self {
        let starts = &parts.shape.starts;
        let with = |bit: u8| {
            perhaps.map_or_else(Vec::new, |p| starts.iter().map(|bci| p.at(*bci) & bit != 0).collect())
        };
        Self {
            sums: counts.map_or_else(Sums::default, |c| c.sums(parts)),
            more: with(EXECUTED),
            more_throws: with(THREW),
            more_ways: perhaps.map_or_else(Vec::new, |p| p.ways.to_vec()),
            throws: BTreeMap::new(),
            entries: counts.map(|c| c.entries).unwrap_or_default(),
        }
    }
    /// Adds what is known of the same code under another number.
    pub(crate) fn merge(&mut self, other: Self) {
        fn all<T>(into: &mut Vec<T>, from: Vec<T>, add: impl Fn(&mut T, T)) {
            if into.is_empty() {
                *into = from;
            } else {
                into.iter_mut().zip(from).for_each(|(a, b)| add(a, b));
            }
        }
        let tally = |a: &mut Tally, b: Tally| a.merge(&b);
        let or = |a: &mut bool, b: bool| *a |= b;
        all(&mut self.sums.times, other.sums.times, tally);
        all(&mut self.sums.ways, other.sums.ways, tally);
        all(&mut self.sums.entered, other.sums.entered, tally);
        all(&mut self.more, other.more, or);
        all(&mut self.more_ways, other.more_ways, or);
        all(&mut self.more_throws, other.more_throws, or);
        for (way, n) in other.throws {
            self.throws.entry(way).or_default().merge(&n);
        }
        self.entries.merge(&other.entries);
    }
    /// How often an instruction was executed, and whether it may have been more often.
    pub(crate) fn at(&self, number: usize) -> (Tally, bool) {
        (get(&self.sums.times, number), get(&self.more, number))
    }
    /// How often a branch way was taken, and whether it may have been more often.
    pub(crate) fn way(&self, slot: usize) -> (Tally, bool) {
        (get(&self.sums.ways, slot), get(&self.more_ways, slot))
    }
    /// How often a line was entered from another line.
    pub(crate) fn entered(&self, line: usize) -> Tally {
        get(&self.sums.entered, line)
    }
    /// Whether more exceptions than were seen may have come from an instruction. Of an unknown
    /// instruction they may.
    pub(crate) fn may_throw_more(&self, number: Option<usize>) -> bool {
        number.is_none_or(|n| get(&self.more_throws, n))
    }
    /// Each line of the method that has bytecodes, ascending.
    pub(crate) fn lines(&self, parts: &Parts<'_>) -> Vec<(u16, OfLine)> {
        let mut all: Vec<_> = parts.lines.all.iter().map(|line| (*line, OfLine::default())).collect();
        for (number, bci) in parts.shape.starts.iter().enumerate() {
            let line = parts.lines.number(*bci).and_then(|line| all.get_mut(line));
            let Some((_, line)) = line else { continue };
            let (times, more) = self.at(number);
            if times.total() > line.times.total() {
                line.times = times;
            }
            line.executions.merge(&times);
            line.perhaps_more |= more;
            line.bytecodes.add(&times, more);
        }
        (0..).zip(&mut all).for_each(|(number, (_, line))| line.entered = self.entered(number));
        all.retain(|(_, line)| line.bytecodes.present > 0);
        all
    }
    /// Whether nothing of the method was seen or may have been executed unseen.
    pub(crate) fn is_idle(&self) -> bool {
        self.entries.activations() == 0 && self.state() == State::Missed
    }
    /// Bytecodes executed.
    pub(crate) fn bytecodes(&self) -> Tally {
        let mut all = Tally::default();
        self.sums.times.iter().for_each(|t| all.merge(t));
        all
    }
    /// Whether more bytecodes than were seen may have been executed.
    pub(crate) fn has_more(&self) -> bool {
        self.more.contains(&true)
    }
    /// Whether a bytecode was executed.
    pub(crate) fn state(&self) -> State {
        State::of(&self.bytecodes(), self.has_more())
    }
}

/// What is known of one source line of a method.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfLine {
    /// The greatest count of its bytecodes.
    pub(crate) times: Tally,
    /// How often it was entered from another line.
    pub(crate) entered: Tally,
    /// The sum of the counts of its bytecodes.
    pub(crate) executions: Tally,
    /// Whether more executions of one of its bytecodes are possible.
    pub(crate) perhaps_more: bool,
    /// Its bytecodes.
    pub(crate) bytecodes: Ratio,
}

impl OfLine {
    /// Whether it was executed: whether one of its bytecodes was.
    pub(crate) const fn state(&self) -> State {
        State::of(&self.times, self.perhaps_more)
    }
}

fn get<T: Copy + Default>(all: &[T], number: usize) -> T {
    all.get(number).copied().unwrap_or_default()
}
