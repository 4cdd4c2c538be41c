// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares two recordings of one deterministic program: a thread must have done the same in
//! both.
//!
//! The reference should be a recording of the interpreter, where nothing is unresolved. The
//! comparison is of single bytecodes of the selected methods, whichever tier executed them.
//! Where the flows differ, it searches for the cheapest skip on either side after which
//! `GRAM` bytecodes agree again. It does the same after a hidden stretch if the bytecodes
//! that follow it occur in the reference only so late that the flows soon differ again.

mod side;
mod steps;

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use hashbrown::HashMap;
use jportal_bytecode::MethodTable;
use jportal_flow::{Cause, Tier, UnresolvedCounts};
use jportal_plain::line;
use serde::Serialize;

use crate::circumstance::{
    Behind, ByTier, Groups, Hidden, MismatchGroup, MismatchKind, UnresolvedGroup, group, mismatch_groups,
    mismatch_text, unresolved_groups, unresolved_text,
};
use side::{Side, same};
use steps::{ComparisonStep, Executed};
pub use steps::{Steps, StepsAnalysis};

/// A place at which two flows differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Bytecodes of the tested flow before it.
    pub at: u64,
    /// OS thread id in the tested recording.
    pub tid: u32,
    /// When that thread started (TSC).
    pub started: u64,
    /// Number of the event in the tested flow to inspect.
    pub look_at: Option<u64>,
    /// The last common bytecodes.
    pub before: Vec<String>,
    /// The next bytecodes of the reference.
    pub reference: Vec<String>,
    /// The next bytecodes of the tested flow.
    pub tested: Vec<String>,
}

/// Result of [`compare`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Bytecodes equal in both.
    pub matched: u64,
    /// Equal bytecodes that C1 or C2 executed in the tested flow.
    pub matched_compiled: u64,
    /// Bytecodes of the reference that an unresolved stretch or a gap of the tested flow hides.
    pub hidden: u64,
    /// Unresolved stretches of the tested flow.
    pub unresolved: u64,
    /// Gaps of either flow.
    pub gaps: u64,
    /// Bytecodes of the reference that the tested flow lacks and that no stretch or gap hides.
    pub missing: u64,
    /// Bytecodes of the tested flow that the reference does not have.
    pub extra: u64,
    /// Places at which the flows differ.
    pub mismatches: u64,
    /// No agreement was found after the last of them; the rest was not compared.
    pub given_up: bool,
    /// By the tier that executed the tested flow.
    pub tiers: ByTier,
    /// Unresolved stretches by tier and cause.
    pub unresolved_by_cause: Vec<UnresolvedGroup>,
    /// The places in groups.
    pub mismatch_groups: Vec<MismatchGroup>,
    /// The first place at which the flows differ.
    pub first: Option<Difference>,
}

impl Comparison {
    /// Whether nothing contradicts the reference.
    pub fn agrees(&self) -> bool {
        self.first.is_none()
    }
    /// Whether every bytecode equals the reference's, and nothing is hidden.
    pub fn equal(&self) -> bool {
        self.agrees() && self.hidden + self.unresolved + self.gaps == 0
    }
    /// As lines of text.
    pub fn text(&self) -> String {
        let mut text = self.tiers.text("bytecodes");
        text += &unresolved_text(&self.unresolved_by_cause, "bytecodes");
        text += &mismatch_text(&self.mismatch_groups);
        text += &format!(
            "{} bytecodes equal, {} of them in compiled code; {} unresolved stretches and {} gaps hide {} of the reference's\n",
            self.matched, self.matched_compiled, self.unresolved, self.gaps, self.hidden
        );
        if let Some(d) = &self.first {
            text += &format!(
                "the flows part at {} places, the first after {} bytecodes:\n",
                self.mismatches, d.at
            );
            let blocks = [("common", &d.before), ("reference", &d.reference), ("tested", &d.tested)];
            for (name, lines) in blocks {
                lines.iter().for_each(|l| text += &format!("  {name:9} {}\n", line(l)));
            }
        }
        if self.given_up {
            text += "they do not meet again after the last one; what follows was not compared\n";
        }
        text
    }
}

/// Bytecodes shown on either side of a difference.
const SHOWN: usize = 8;
/// Bytecodes that must agree after a hidden stretch.
const ANCHOR: usize = 16;
/// Bytecodes that should agree there, if that many are certain.
const LONG_ANCHOR: usize = 4096;
/// How many bytecodes further on a place with that longer agreement may be.
const REACH: usize = 1 << 20;
/// Bytecodes after a hidden stretch that are examined to decide whether its end was well
/// chosen.
const OUTLOOK: usize = 4096;
/// Number of differences after which that is not examined, because it takes time.
const CLOSELY: u64 = 64;
/// Bytecodes that must agree after a difference.
const GRAM: usize = 24;
/// Windows of either flow in which they are searched for, in bytecodes, tried in this order.
const WINDOWS: [usize; 3] = [1 << 8, 1 << 12, 1 << 16];

/// Compares `tested` with `reference`, each with the methods of its recording.
pub fn compare(
    reference: (Receiver<Steps>, &MethodTable),
    tested: (Receiver<Steps>, &MethodTable),
) -> Comparison {
    let mut run = ComparisonRun {
        a: Side::new(reference),
        b: Side::new(tested),
        result: Comparison::default(),
        before: VecDeque::new(),
        unresolved: UnresolvedCounts::default(),
        hidden: Hidden::new(),
        groups: Groups::new(),
    };
    while run.step() {}
    run.finish()
}

struct ComparisonRun<'a> {
    /// The reference.
    a: Side<'a>,
    /// The tested flow.
    b: Side<'a>,
    result: Comparison,
    before: VecDeque<Executed>,
    unresolved: UnresolvedCounts,
    hidden: Hidden,
    groups: Groups<String>,
}

impl ComparisonRun<'_> {
    /// Compares the next step; false if nothing is left to compare.
    fn step(&mut self) -> bool {
        while self.a.peek() == Some(ComparisonStep::Gap) {
            self.result.gaps += 1;
            self.a.pass(1);
        }
        match (self.a.peek(), self.b.peek()) {
            (None, None) => false,
            (Some(a), Some(ComparisonStep::Bytecode(b))) if same(&a, &ComparisonStep::Bytecode(b)) => {
                self.agree(b);
                true
            }
            (_, Some(ComparisonStep::Bytecode(_)) | None) => self.part(),
            (_, Some(ComparisonStep::Unresolved(tier, cause))) => {
                self.result.unresolved += 1;
                self.unresolved.add(tier, cause);
                self.hole(Some((tier, cause)))
            }
            (_, Some(ComparisonStep::Gap)) => {
                self.result.gaps += 1;
                self.hole(None)
            }
        }
    }

    fn agree(&mut self, step: Executed) {
        self.a.pass(1);
        self.b.pass(1);
        self.result.matched += 1;
        self.result.matched_compiled += u64::from(matches!(step.tier, Tier::C1 | Tier::C2));
        self.result.tiers.of(step.tier).exact += 1;
        self.before.push_back(step);
        if self.before.len() > SHOWN {
            self.before.pop_front();
        }
    }

    /// The tested flow has an unresolved stretch or a gap next.
    fn hole(&mut self, hole: Option<(Tier, Cause)>) -> bool {
        self.b.pass(1);
        let ResumePlace::At(hidden) = place(&mut self.a, &mut self.b, (0, 0), usize::MAX) else {
            return self.part();
        };
        if self.result.mismatches < CLOSELY
            && let Some(skips) = cheaper(&mut self.a, &mut self.b, hidden)
        {
            self.part_by(skips);
            return true;
        }
        let hidden = if self.b.peek().is_none() { self.a.rest_dropped() } else { self.a.pass(hidden) };
        self.result.hidden += hidden;
        if let Some((tier, cause)) = hole {
            self.result.tiers.of(tier).unresolved += hidden;
            *self.hidden.entry((tier, cause)).or_default() += hidden;
        }
        true
    }

    /// The flows differ: continues where they agree again; false if they do not.
    fn part(&mut self) -> bool {
        let skips = match WINDOWS.into_iter().find_map(|n| meet(&mut self.a, &mut self.b, n)) {
            Some(skips) => skips,
            None => {
                let (a, b) = (self.a.peek().is_some(), self.b.peek().is_some());
                self.result.given_up = a && b;
                // If one flow has ended, the rest of the other one is surplus.
                if a && b { (1, 1) } else { (self.a.rest(), self.b.rest()) }
            }
        };
        self.part_by(skips);
        !self.result.given_up
    }

    /// The flows differ, and agree again after `missing` bytecodes of the reference and `extra`
    /// bytecodes of the tested flow.
    fn part_by(&mut self, (missing, extra): (usize, usize)) {
        let first = self.difference();
        let (tier, behind) = match (self.b.peek(), self.before.back()) {
            (Some(ComparisonStep::Bytecode(e)), _) => (e.tier, e.behind),
            (_, Some(last)) => (last.tier, Behind::default()),
            _ => (Tier::Interpreter, Behind::default()),
        };
        for step in self.b.take(extra) {
            if let ComparisonStep::Bytecode(e) = step {
                self.result.tiers.of(e.tier).extra += 1;
            }
        }
        self.a.pass(missing);
        self.result.tiers.of(tier).missing += missing as u64;
        let counts = (missing as u64, extra as u64);
        self.result.missing += counts.0;
        self.result.extra += counts.1;
        self.result.mismatches += 1;
        let words = first.tested.first().or(first.reference.first()).cloned().unwrap_or_default();
        group(&mut self.groups, (tier, MismatchKind::of(counts.0, counts.1), behind), counts, words);
        self.result.first.get_or_insert(first);
    }

    fn difference(&mut self) -> Difference {
        let look_at = match (self.b.peek(), self.before.back()) {
            (Some(ComparisonStep::Bytecode(e)), _) => Some(e.event),
            (_, last) => last.map(|e| e.event),
        };
        Difference {
            at: self.result.matched,
            tid: self.b.tid,
            started: self.b.started,
            look_at,
            before: self.before.iter().map(|e| self.b.show(&ComparisonStep::Bytecode(*e))).collect(),
            reference: self.a.coming(SHOWN),
            tested: self.b.coming(SHOWN),
        }
    }

    fn finish(mut self) -> Comparison {
        self.result.unresolved_by_cause = unresolved_groups(&self.unresolved, &self.hidden);
        self.result.mismatch_groups = mismatch_groups(&self.groups, Clone::clone);
        self.result
    }
}

/// How many bytecodes to skip in either flow so that they agree again for [`GRAM`] bytecodes,
/// or up to the next hidden stretch of the tested flow. Searches the next `window` bytecodes;
/// the least sum wins.
fn meet(a: &mut Side<'_>, b: &mut Side<'_>, window: usize) -> Option<(usize, usize)> {
    a.fill(window);
    b.fill(window);
    let certain = b.certain(window);
    let reference: Vec<(u64, u16)> = a.certain(window);
    let mut places: HashMap<&[(u64, u16)], usize> = HashMap::new();
    for (at, gram) in reference.windows(GRAM).enumerate() {
        places.entry(gram).or_insert(at);
    }
    let mut best: Option<(usize, usize)> = None;
    for (extra, gram) in certain.windows(GRAM).enumerate() {
        if best.is_some_and(|(m, e)| extra >= m + e) {
            break;
        }
        if let Some(&missing) = places.get(gram)
            && best.is_none_or(|(m, e)| missing + extra < m + e)
        {
            best = Some((missing, extra));
        }
    }
    // The bytecodes after a hidden stretch are searched for in any case.
    best.or_else(|| (certain.len() < window && b.hides_at(certain.len())).then_some((0, certain.len())))
}

/// Where in the reference the bytecodes after a hidden stretch are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ResumePlace {
    /// At this step.
    At(usize),
    /// Nowhere.
    Nowhere,
    /// Not among the steps that were examined.
    Further,
}

/// Finds where in the reference, from step `i` on, the tested flow resumes at its step `j`
/// after a hidden stretch, if that is less than `most` steps away.
///
/// A hidden stretch may contain rounds of a loop, and then the next bytecodes alone occur at
/// several places of the reference. The first place is chosen after which everything agrees up
/// to the next hidden stretch.
fn place(a: &mut Side<'_>, b: &mut Side<'_>, (i, j): (usize, usize), most: usize) -> ResumePlace {
    let anchor = resolved(b, j);
    let short = anchor.len().min(ANCHOR);
    let mut first = None;
    let mut at = i;
    loop {
        a.fill(at + anchor.len());
        let left = a.ready.len() - at.min(a.ready.len());
        if left < short || first.is_some_and(|first| at > first + REACH) {
            return first.map_or(ResumePlace::Nowhere, ResumePlace::At);
        }
        if first.is_none() && at - i >= most {
            return ResumePlace::Further;
        }
        let agree = a.ready.range(at..).zip(&anchor).take_while(|(x, y)| same(x, y)).count();
        if agree == anchor.len() {
            return ResumePlace::At(at);
        }
        if agree >= short && first.is_none() {
            first = Some(at);
        }
        at += 1;
    }
}

/// The bytecodes of `b` from step `j` on that precede the next hidden stretch, at most
/// [`LONG_ANCHOR`].
fn resolved(b: &mut Side<'_>, j: usize) -> Vec<ComparisonStep> {
    let mut wanted = ANCHOR;
    loop {
        b.fill(j + wanted);
        let steps = b.ready.iter().skip(j).take_while(|s| matches!(s, ComparisonStep::Bytecode(_)));
        let steps: Vec<ComparisonStep> = steps.take(wanted).copied().collect();
        if steps.len() < wanted || wanted >= LONG_ANCHOR {
            return steps;
        }
        wanted *= 2;
    }
}

/// The bytecodes after a hidden stretch of the tested flow occur in the reference after
/// `hidden` more bytecodes. If they are wrong, that is too late, and the flows soon differ.
/// Returns how many bytecodes to skip in either flow if they then agree for longer. This never
/// hides a difference; it only moves the difference to its true place.
fn cheaper(a: &mut Side<'_>, b: &mut Side<'_>, hidden: usize) -> Option<(usize, usize)> {
    if hidden == 0 {
        return None;
    }
    let here = outlook(a, b, (hidden, 0));
    if !here.parts {
        return None;
    }
    let skips = meet(a, b, WINDOWS[0])?;
    (outlook(a, b, skips).agreed > here.agreed + GRAM).then_some(skips)
}

/// The continuation of two flows.
#[derive(Clone, Copy, Debug)]
struct Outlook {
    /// Bytecodes that agree, up to [`OUTLOOK`].
    agreed: usize,
    /// After these, the flows certainly differ.
    parts: bool,
}

/// How the flows continue after the first `i` and `j` steps.
fn outlook(a: &mut Side<'_>, b: &mut Side<'_>, (mut i, mut j): (usize, usize)) -> Outlook {
    let mut agreed = 0;
    while agreed < OUTLOOK {
        a.fill(i + 1);
        b.fill(j + 1);
        match (a.ready.get(i), b.ready.get(j)) {
            (None, None) => break,
            (Some(x), Some(y)) if same(x, y) => {
                agreed += 1;
                i += 1;
                j += 1;
            }
            (Some(ComparisonStep::Gap), _) => i += 1,
            (_, Some(ComparisonStep::Bytecode(_)) | None) => return Outlook { agreed, parts: true },
            (_, Some(ComparisonStep::Unresolved(..) | ComparisonStep::Gap)) => {
                j += 1;
                b.fill(j + 1);
                match place(a, b, (i, j), REACH) {
                    // The last stretch may hide anything.
                    ResumePlace::At(_) if j == b.ready.len() => break,
                    ResumePlace::At(at) => i = at,
                    end => return Outlook { agreed, parts: end == ResumePlace::Nowhere },
                }
            }
        }
    }
    Outlook { agreed: OUTLOOK, parts: false }
}

#[cfg(test)]
#[path = "against_tests.rs"]
mod tests;
