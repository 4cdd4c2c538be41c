// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the branches inside a template reveal about the bytecode it executes.

use crate::code_map::DispatchStep;
use crate::contradiction::{Contradiction, Walk};
use jportal_bytecode::{Instruction, Method, Opcode, Transfer};
use jportal_units::Bci;
use jportal_vm_image::interpreter::{Reveal, SwitchSearch};

/// Branch outcomes seen since the current bytecode was dispatched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BranchOutcomes {
    /// Conditional jumps seen, without those of reveals.
    count: u32,
    /// The outcomes of the first two: bit 0 is the first.
    early: u8,
    /// Linear search: the number of pairs compared before the hit.
    hit: Option<u32>,
    /// Linear search: no pair matched.
    missed: bool,
    /// How the template of a `lookupswitch` searches.
    search: Option<SwitchSearch>,
    collecting: Option<RevealedBits>,
    revealed: Option<(Reveal, u64)>,
}

/// A revealed value whose bits are being collected, least significant first.
#[derive(Clone, Copy, Debug)]
struct RevealedBits {
    what: Reveal,
    value: u64,
    bits: u8,
}

impl BranchOutcomes {
    /// Nothing seen so far of a bytecode whose template uses this search.
    #[inline]
    pub(crate) fn of(search: Option<SwitchSearch>) -> Self {
        Self { search, ..Self::default() }
    }
    /// The outcome of the conditional jump that shows one bit of a revealed value.
    pub(crate) fn reveal_bit(&mut self, what: Reveal, taken: bool) {
        let c = self.collecting.get_or_insert(RevealedBits { what, value: 0, bits: 0 });
        if c.bits < 64 {
            c.value |= u64::from(!taken) << c.bits;
        }
        c.bits = c.bits.saturating_add(1);
    }
    /// The outcome of a conditional jump.
    #[inline]
    pub(crate) fn conditional(&mut self, taken: bool) {
        if let Some(c) = &self.collecting {
            // The jump after each bit says whether more bits follow.
            if !taken {
                self.revealed = Some((c.what, c.value));
                self.collecting = None;
            }
            return;
        }
        if self.count < 2 {
            self.early |= u8::from(taken) << self.count;
        }
        self.linear_search(taken);
        self.count = self.count.saturating_add(1);
    }
    /// `fast_linearswitch`: "more pairs?" and "equal?" alternate, from the last pair down.
    #[inline]
    fn linear_search(&mut self, taken: bool) {
        if self.hit.is_some() || self.missed {
            return;
        }
        if self.count.is_multiple_of(2) {
            self.missed = !taken;
        } else if taken {
            self.hit = Some(self.count / 2);
        }
    }
    fn first(&self) -> Option<bool> {
        (self.count > 0).then_some(self.early & 1 != 0)
    }
    /// Whether the bytecode's own conditional branch was taken. Its template jumps over the
    /// taken arm when the condition is false.
    pub(crate) fn is_branch_taken(&self) -> Option<bool> {
        self.first().map(|jumped| !jumped)
    }
    /// Whether a value was revealed.
    #[inline]
    pub(crate) fn reveals(&self) -> bool {
        self.revealed.is_some()
    }
    /// The value revealed for `what`.
    pub(crate) fn value(&self, what: Reveal) -> Option<u64> {
        self.revealed.filter(|r| r.0 == what).map(|r| r.1)
    }
}

/// The reveals that this VM has. Without them, the default of a switch cannot be distinguished
/// from a case.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reveals {
    pub binary_switch: bool,
}

/// The bci to which the bytecode `step` at `bci` of `method` led.
pub(crate) fn next_bci(
    method: &Method,
    bci: Bci,
    step: &DispatchStep,
    outcome: &BranchOutcomes,
    reveals: Reveals,
) -> Walk<Bci> {
    let none = || no_outcome(method, bci, step);
    match step.transfer {
        Transfer::None | Transfer::Invoke => Ok(step.next),
        Transfer::Goto | Transfer::Jsr => Ok(step.target),
        Transfer::If => match outcome.is_branch_taken().ok_or_else(none)? {
            true => Ok(step.target),
            false => Ok(step.next),
        },
        Transfer::Ret => {
            let value = outcome.value(Reveal::Ret).ok_or_else(none)?;
            u16::try_from(value).map(Bci).map_err(|_| bad(method, bci, step, value))
        }
        Transfer::Switch => switch(method, bci, step, outcome, reveals),
        Transfer::Return | Transfer::Throw => Err(none()),
    }
}

#[cold]
fn no_outcome(method: &Method, bci: Bci, step: &DispatchStep) -> Box<Contradiction> {
    Contradiction::NoOutcome { opcode: step.opcode, bci, method: method.qualified_name() }.into()
}

#[cold]
fn bad(method: &Method, bci: Bci, step: &DispatchStep, value: u64) -> Box<Contradiction> {
    Contradiction::BadOutcome { opcode: step.opcode, bci, value, method: method.qualified_name() }.into()
}

fn switch(
    method: &Method,
    bci: Bci,
    step: &DispatchStep,
    outcome: &BranchOutcomes,
    reveals: Reveals,
) -> Walk<Bci> {
    let none = || no_outcome(method, bci, step);
    let i = Instruction::at(&method.code, bci.0.into()).map_err(|_| none())?;
    let n = i.switch_len();
    let index = if step.opcode == Opcode::TABLESWITCH {
        match outcome.value(Reveal::TableSwitch) {
            Some(v) => Some(v),
            // Below the low bound, or above the high one: the default.
            None if outcome.early & 0b11 != 0 => None,
            None => return Err(none()),
        }
    } else {
        match outcome.search {
            Some(SwitchSearch::Linear) => match outcome.hit {
                Some(k) => Some((n as u64).wrapping_sub(1 + u64::from(k))),
                None if outcome.missed => None,
                None => return Err(none()),
            },
            Some(SwitchSearch::Binary) if reveals.binary_switch => outcome.value(Reveal::BinarySwitch),
            _ => return Err(none()),
        }
    };
    match index {
        None => i.switch_default(),
        Some(v) => usize::try_from(v).ok().and_then(|v| i.switch_case(v)),
    }
    .ok_or_else(|| bad(method, bci, step, index.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(outcomes: &[bool]) -> BranchOutcomes {
        let mut o = BranchOutcomes::default();
        outcomes.iter().for_each(|&t| o.conditional(t));
        o
    }

    #[test]
    fn reveal_collects_bits_from_the_lowest() {
        let mut o = BranchOutcomes::default();
        for (bit, more) in [(0, true), (1, true), (1, false)] {
            o.reveal_bit(Reveal::Ret, bit == 0);
            o.conditional(more);
        }
        assert_eq!(o.value(Reveal::Ret), Some(6));
        assert_eq!(o.value(Reveal::TableSwitch), None);
        assert_eq!(o.first(), None);
    }

    #[test]
    fn linear_search_counts_from_the_last_pair() {
        // more, not equal, more, equal: second pair from the end
        assert_eq!(feed(&[true, false, true, true]).hit, Some(1));
        assert!(feed(&[true, false, false]).missed);
    }
}
