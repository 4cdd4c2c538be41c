// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! JaCoCo's own arithmetic: from probes to covered instructions and branches.
//!
//! JaCoCo sees probes, not instructions. An instruction counts as covered if a probe that
//! follows it, on the only way from there, was hit. So nothing counts of a block that an
//! exception leaves before its end. JaCoCo's filters apply afterwards: they leave out
//! instructions, count several as one, or replace branches (JaCoCo's classes
//! `InstructionsBuilder`, `Instruction` and `MethodCoverageCalculator`).

use crate::jacoco::listing::{Count, Counters, Filter, Operation, Probe};

/// The site of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JacocoSite {
    /// Between this instruction and the next.
    Behind(usize),
    /// Before this instruction.
    Before(usize),
    /// On the way of a jump or switch from the first instruction to the second.
    Way(usize, usize),
}

/// An instruction and the ways that leave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instruction {
    branches: u64,
    /// Ways known to have been taken; no number occurs twice.
    covered: Vec<u32>,
    predecessor: Option<(usize, u32)>,
}

impl Instruction {
    pub(crate) fn is_covered(&self) -> bool {
        !self.covered.is_empty()
    }
    fn cover(&mut self, branch: u32) {
        if !self.covered.contains(&branch) {
            self.covered.push(branch);
        }
    }
    pub(crate) fn counters(&self) -> Counters {
        let branches = if self.branches < 2 {
            Count::default()
        } else {
            Count { covered: self.covered.len() as u64, present: self.branches }
        };
        Counters { instructions: Count { covered: u64::from(self.is_covered()), present: 1 }, branches }
    }
}

/// Number of instructions of a method.
pub(crate) fn instruction_count(operations: &[Operation]) -> usize {
    let of = |o: &Operation| match o {
        Operation::Plain(n) => *n,
        Operation::Exit(_) | Operation::Jump { .. } | Operation::Switch => 1,
        Operation::Unreached | Operation::Between(_) | Operation::Case { .. } => 0,
    };
    operations.iter().map(of).sum()
}

/// Every probe of a method with its site.
pub(crate) fn probes(operations: &[Operation]) -> Vec<(JacocoSite, Probe)> {
    let mut found = Vec::new();
    replay(operations, |site, probe| {
        found.push((site, probe));
        false
    });
    found
}

/// The instructions of a method if exactly the probes were hit for which `hit` returns true.
pub(crate) fn replay(
    operations: &[Operation],
    mut hit: impl FnMut(JacocoSite, Probe) -> bool,
) -> Vec<Instruction> {
    let mut walk = ControlWalk::default();
    for operation in operations {
        match *operation {
            Operation::Plain(n) => (0..n).for_each(|_| walk.instruction()),
            Operation::Unreached => walk.current = None,
            Operation::Between(probe) => {
                if let Some(at) = walk.current.take() {
                    walk.probe(at, 0, hit(JacocoSite::Behind(at), probe));
                }
            }
            Operation::Exit(probe) => {
                walk.instruction();
                let at = walk.all.len() - 1;
                walk.probe(at, 0, hit(JacocoSite::Before(at), probe));
            }
            Operation::Jump { target, probe } => {
                walk.instruction();
                walk.way(1, target, probe, &mut hit);
            }
            Operation::Switch => walk.instruction(),
            Operation::Case { branch, target, probe } => walk.way(branch, target, probe, &mut hit),
        }
    }
    walk.finish()
}

#[derive(Default)]
struct ControlWalk {
    all: Vec<Instruction>,
    /// The instruction from which control can reach the next one.
    current: Option<usize>,
    jumps: Vec<(usize, usize, u32)>,
}

impl ControlWalk {
    fn instruction(&mut self) {
        self.all.push(Instruction::default());
        let new = self.all.len() - 1;
        if let Some(before) = self.current {
            self.connect(before, new, 0);
        }
        self.current = Some(new);
    }
    fn way(
        &mut self,
        branch: u32,
        target: usize,
        probe: Option<Probe>,
        hit: &mut impl FnMut(JacocoSite, Probe) -> bool,
    ) {
        let Some(at) = self.all.len().checked_sub(1) else { return };
        match probe {
            Some(probe) => self.probe(at, branch, hit(JacocoSite::Way(at, target), probe)),
            None => self.jumps.push((at, target, branch)),
        }
    }
    fn probe(&mut self, at: usize, branch: u32, hit: bool) {
        self.all[at].branches += 1;
        if hit {
            self.propagate(at, branch);
        }
    }
    fn connect(&mut self, from: usize, to: usize, branch: u32) {
        self.all[from].branches += 1;
        let Some(target) = self.all.get_mut(to) else { return };
        target.predecessor = Some((from, branch));
        if target.is_covered() {
            self.propagate(from, branch);
        }
    }
    fn propagate(&mut self, at: usize, branch: u32) {
        let mut next = Some((at, branch));
        while let Some((at, branch)) = next {
            let known = self.all[at].is_covered();
            self.all[at].cover(branch);
            next = if known { None } else { self.all[at].predecessor };
        }
    }
    fn finish(mut self) -> Vec<Instruction> {
        for (from, to, branch) in std::mem::take(&mut self.jumps) {
            self.connect(from, to, branch);
        }
        self.all
    }
}

/// The effect of the filters on an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Kept,
    LeftOut,
    /// Also counts for others, or has other branches.
    Changed,
}

/// A method's instructions after the filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filtered {
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) treatment: Vec<Treatment>,
}

impl Filtered {
    /// The sum of the counters; `None` if every instruction is left out.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let mut sum = Counters::default();
        let kept = self.instructions.iter().zip(&self.treatment).filter(|(_, t)| **t != Treatment::LeftOut);
        kept.for_each(|(i, _)| sum.add(&i.counters()));
        (sum.instructions.present > 0).then_some(sum)
    }
}

/// Applies JaCoCo's filters.
pub(crate) fn filter(mut instructions: Vec<Instruction>, filters: &[Filter]) -> Filtered {
    let mut treatment = vec![Treatment::Kept; instructions.len()];
    let mut merged: Vec<(usize, usize)> = Vec::new();
    let representative = |merged: &[(usize, usize)], mut at: usize| {
        while let Some(to) = merged.iter().find(|m| m.0 == at) {
            at = to.1;
        }
        at
    };
    for f in filters {
        match *f {
            Filter::Ignore(from, to) => {
                treatment.iter_mut().take(to + 1).skip(from).for_each(|t| *t = Treatment::LeftOut);
            }
            Filter::Merge(one, other) => {
                let (one, other) = (representative(&merged, one), representative(&merged, other));
                if one != other && one.max(other) < instructions.len() {
                    merged.push((other, one));
                }
            }
            Filter::Replace(..) => {}
        }
    }
    for &(node, _) in &merged {
        let covered = instructions[node].covered.clone();
        let into = representative(&merged, node);
        if treatment[into] == Treatment::Kept {
            treatment[into] = Treatment::Changed;
        }
        treatment[node] = Treatment::LeftOut;
        let into = &mut instructions[into];
        covered.into_iter().for_each(|b| into.cover(b));
    }
    for &(node, _) in &merged {
        instructions[node] = instructions[representative(&merged, node)].clone();
    }
    for f in filters {
        let Filter::Replace(source, branches) = f else { continue };
        let taken = |n: &usize| instructions.get(*n).is_some_and(Instruction::is_covered);
        let covered = (0..).take(branches.iter().filter(|n| taken(n)).count()).collect();
        if let Some(i) = instructions.get_mut(*source) {
            if treatment[*source] == Treatment::Kept {
                treatment[*source] = Treatment::Changed;
            }
            *i = Instruction { branches: branches.len() as u64, covered, predecessor: i.predecessor };
        }
    }
    Filtered { instructions, treatment }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: Probe = Probe { hit: true };
    const NOT: Probe = Probe { hit: false };

    /// `iload_0; ifeq 4; iconst_1; goto 5; 4: iconst_0; 5: ireturn`.
    fn branchy(probes: [Probe; 3]) -> Vec<Operation> {
        let [way, between, exit] = probes;
        use Operation::{Between, Exit, Jump, Plain, Unreached};
        let first = [Unreached, Plain(1), Jump { target: 4, probe: None }, Plain(1)];
        let second =
            [Jump { target: 5, probe: Some(way) }, Unreached, Plain(1), Between(between), Exit(exit)];
        [&first[..], &second[..]].concat()
    }

    fn counted(operations: &[Operation], filters: &[Filter]) -> [u64; 4] {
        let c = filter(replay(operations, |_, p| p.hit), filters).counters().unwrap_or_default();
        [c.instructions.covered, c.instructions.present, c.branches.covered, c.branches.present]
    }

    #[test]
    fn a_hit_probe_covers_what_leads_to_it() {
        assert_eq!(counted(&branchy([HIT, NOT, HIT]), &[]), [5, 6, 1, 2]);
        assert_eq!(counted(&branchy([NOT, HIT, HIT]), &[]), [4, 6, 1, 2]);
        assert_eq!(counted(&branchy([HIT, HIT, HIT]), &[]), [6, 6, 2, 2]);
        assert_eq!(counted(&branchy([NOT, NOT, NOT]), &[]), [0, 6, 0, 2]);
        assert_eq!(counted(&branchy([HIT, NOT, NOT]), &[]), [4, 6, 1, 2], "an exception behind the goto");
    }

    #[test]
    fn probes_have_sites() {
        let sites: Vec<JacocoSite> = probes(&branchy([HIT; 3])).iter().map(|p| p.0).collect();
        assert_eq!(sites, [JacocoSite::Way(3, 5), JacocoSite::Behind(4), JacocoSite::Before(5)]);
        assert_eq!(instruction_count(&branchy([HIT; 3])), 6);
    }

    #[test]
    fn filters_leave_out_merge_and_replace() {
        let all = branchy([HIT, NOT, HIT]);
        assert_eq!(counted(&all, &[Filter::Ignore(2, 3)]), [3, 4, 1, 2]);
        assert_eq!(counted(&all, &[Filter::Ignore(0, 5)]), [0; 4]);
        assert_eq!(
            counted(&all, &[Filter::Merge(2, 4)]),
            [5, 5, 1, 2],
            "the uncovered one counts as the other"
        );
        assert_eq!(counted(&all, &[Filter::Replace(1, vec![2, 4, 5])]), [5, 6, 2, 3]);
    }

    #[test]
    fn a_switch_has_a_branch_per_target() {
        use Operation::{Case, Exit, Plain, Switch, Unreached};
        let all = [
            Unreached,
            Plain(1),
            Switch,
            Case { branch: 0, target: 3, probe: Some(HIT) },
            Case { branch: 2, target: 2, probe: None },
            Unreached,
            Exit(NOT),
            Unreached,
            Exit(HIT),
        ];
        assert_eq!(counted(&all, &[]), [3, 4, 1, 2]);
    }
}
