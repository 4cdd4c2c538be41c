// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call traces from few logged sites: Wu and others, *Casper: An Efficient Approach to Call Trace
//! Collection* (POPL 2016).
//!
//! A [`Plan`] says which call and return sites write a token. The tokens of a thread, its
//! *witness*, expand to the thread's full call trace, because the plan is chosen so that one token
//! always decides between the ways that a method may take. [`witnesses`] has what the flow would
//! have logged, [`expand`] turns the log of a run, or a witness, back into the full trace, and
//! [`traces`] has the full trace of the flow to compare with.
//!
//! The plan and the log are those of `tests/baselines`, whose README describes the tokens.

mod expand;
mod first;
mod flow;
mod plan;
mod program;
mod words;

#[cfg(test)]
mod tests;

pub use self::expand::{ExpandError, expand};
pub use self::first::FirstSets;
pub use self::flow::{PlannedFlow, PlannedThread, traces, witnesses};
pub use self::plan::{Plan, PlanError};
pub use self::program::Program;
pub use self::words::{LogError, WordLog, write_log};

/// The sites of a thread, by their numbers in the plan, in the order of execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTrace {
    /// Outside of class initialisers.
    pub main: Vec<u32>,
    /// Each class initialiser, in the order of their beginnings. Their place among sites that are
    /// not logged is not known, so they stand apart.
    pub initialisers: Vec<Vec<u32>>,
    /// The log ends before the thread does.
    pub is_truncated: bool,
}

impl SiteTrace {
    /// Number of sites.
    pub fn len(&self) -> usize {
        self.main.len() + self.initialisers.iter().map(Vec::len).sum::<usize>()
    }
    /// Whether nothing was executed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A trace by number: 0 is the main one, the others are those of class initialisers. Empty if
    /// there is none.
    pub fn trace(&self, number: usize) -> &[u32] {
        match number.checked_sub(1) {
            None => &self.main,
            Some(number) => self.initialisers.get(number).map_or(&[], Vec::as_slice),
        }
    }
    /// Where two traces part: the trace, 0 for the main one, and the place in it. `None`: they are
    /// equal. A truncated trace may be a prefix.
    pub fn parts_from(&self, whole: &Self) -> Option<(usize, usize)> {
        for number in 0..=self.initialisers.len().max(whole.initialisers.len()) {
            let (a, b) = (self.trace(number), whole.trace(number));
            let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
            let is_prefix = self.is_truncated && common == a.len();
            if !is_prefix && (common < a.len() || common < b.len()) {
                return Some((number, common));
            }
        }
        None
    }
}
