//! Two recordings of one deterministic program: what a thread did in the one it must have done in the other.
//!
//! The reference is meant to be a recording of the interpreter, where nothing is unresolved. The comparison is
//! of single bytecodes of the methods asked for, whoever executed them.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Event, EventKind, FlowConsumer, FlowSink, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId};
use serde::Serialize;

/// What is compared, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A bytecode began.
    Bytecode {
        /// Names the method in both recordings.
        key: u64,
        /// Names it in its own one.
        method: MethodId,
        /// Which bytecode.
        bci: Bci,
        /// Who executed it.
        tier: Tier,
    },
    /// A stretch of compiled code that more than one path fits.
    Unresolved,
    /// Nothing is known.
    Gap,
}

/// Steps on their way to [`compare`].
pub type Steps = Vec<Step>;

/// Hands the steps of one thread on.
#[derive(Debug)]
pub struct StepsConsumer {
    thread: String,
    keys: Arc<Vec<Option<u64>>>,
    to: SyncSender<Steps>,
}

impl StepsConsumer {
    /// The steps of the first thread called `thread` in methods that `wanted` accepts go to `to`.
    pub fn new(
        methods: &MethodTable,
        wanted: impl Fn(&Method) -> bool,
        thread: &str,
        to: SyncSender<Steps>,
    ) -> Self {
        let key = |m: &Method| wanted(m).then(|| key(m));
        Self { thread: thread.into(), keys: Arc::new(methods.iter().map(key).collect()), to }
    }
}

/// Hidden classes have an address behind their name, which differs between runs.
fn key(m: &Method) -> u64 {
    let class =
        m.class_name.split_once("/0x").or(m.class_name.split_once("+0x")).map_or(&*m.class_name, |n| n.0);
    let mut hasher = DefaultHasher::new();
    (class, &m.name, &m.signature).hash(&mut hasher);
    hasher.finish()
}

impl FlowConsumer for StepsConsumer {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        if info.name != self.thread {
            return Box::new(Ignored);
        }
        // Only one thread is asked for, even if another one of that name follows.
        self.thread.push('\0');
        Box::new(StepsSink { keys: Arc::clone(&self.keys), to: self.to.clone() })
    }
}

struct Ignored;

impl FlowSink for Ignored {
    fn events(&mut self, _: &[Event]) {}
    fn end(self: Box<Self>) {}
}

struct StepsSink {
    keys: Arc<Vec<Option<u64>>>,
    to: SyncSender<Steps>,
}

impl FlowSink for StepsSink {
    fn events(&mut self, events: &[Event]) {
        let key = |m: MethodId| self.keys.get(m.0 as usize).copied().flatten();
        let step = |e: &Event| match e.kind {
            EventKind::Bytecode { method, bci, tier } => {
                Some(Step::Bytecode { key: key(method)?, method, bci, tier })
            }
            EventKind::Unresolved { method, .. } => key(method).map(|_| Step::Unresolved),
            EventKind::Gap(_) => Some(Step::Gap),
            _ => None,
        };
        let steps: Steps = events.iter().filter_map(step).collect();
        // When nobody listens any more, the comparison has ended.
        let _ = self.to.send(steps);
    }
    fn end(self: Box<Self>) {}
}

/// Where two flows part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Bytecodes of the tested flow before.
    pub at: u64,
    /// The last common bytecodes.
    pub before: Vec<String>,
    /// What the reference did next.
    pub reference: Vec<String>,
    /// What the tested flow says.
    pub tested: Vec<String>,
}

/// Result of [`compare`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Bytecodes equal in both.
    pub matched: u64,
    /// Those of them that C1 or C2 executed in the tested flow.
    pub matched_compiled: u64,
    /// Bytecodes of the reference that an unresolved stretch or a gap of the tested flow hides.
    pub hidden: u64,
    /// Unresolved stretches of the tested flow.
    pub unresolved: u64,
    /// Gaps of either.
    pub gaps: u64,
    /// Where the flows part; nothing behind it was compared.
    pub first: Option<Difference>,
}

impl Comparison {
    /// Whether nothing contradicts the reference.
    pub fn agrees(&self) -> bool {
        self.first.is_none()
    }
    /// Whether every bytecode is the reference's.
    pub fn equal(&self) -> bool {
        self.agrees() && self.hidden + self.unresolved + self.gaps == 0
    }
    /// As lines of text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} bytecodes equal, {} of them in compiled code; {} unresolved stretches and {} gaps hide {} of the reference's\n",
            self.matched, self.matched_compiled, self.unresolved, self.gaps, self.hidden
        );
        if let Some(d) = &self.first {
            text += &format!("the flows part behind {} bytecodes:\n", d.at);
            let blocks = [("common", &d.before), ("reference", &d.reference), ("tested", &d.tested)];
            for (name, lines) in blocks {
                lines.iter().for_each(|l| text += &format!("  {name:9} {l}\n"));
            }
        }
        text
    }
}

/// Bytecodes shown on either side of a difference.
const SHOWN: usize = 8;
/// Bytecodes that must agree behind a hidden stretch.
const ANCHOR: usize = 16;
/// Bytecodes that should agree there, if so many are certain.
const LONG_ANCHOR: usize = 4096;
/// How much further on a place may be at which they do.
const REACH: usize = 1 << 20;

/// One side, as one sequence.
struct Side<'a> {
    from: Receiver<Steps>,
    ready: VecDeque<Step>,
    methods: &'a MethodTable,
}

impl Side<'_> {
    /// Sees to it that `n` steps are there, if there are so many.
    fn fill(&mut self, n: usize) {
        while self.ready.len() < n {
            match self.from.recv() {
                Ok(steps) => self.ready.extend(steps),
                Err(_) => return,
            }
        }
    }
    fn next(&mut self) -> Option<Step> {
        self.fill(1);
        self.ready.pop_front()
    }
    fn show(&self, step: &Step) -> String {
        match step {
            Step::Bytecode { method, bci, tier, .. } => {
                let name =
                    self.methods.get(*method).map_or_else(|| method.to_string(), Method::qualified_name);
                format!("{name} @{bci} {tier:?}")
            }
            Step::Unresolved => "(unresolved)".into(),
            Step::Gap => "(gap)".into(),
        }
    }
    fn coming(&mut self) -> Vec<String> {
        self.fill(SHOWN);
        self.ready.iter().take(SHOWN).map(|s| self.show(s)).collect()
    }
}

fn same(a: &Step, b: &Step) -> bool {
    match (a, b) {
        (Step::Bytecode { key: x, bci: i, .. }, Step::Bytecode { key: y, bci: j, .. }) => (x, i) == (y, j),
        _ => false,
    }
}

/// Compares `tested` with `reference`, each with the methods of its recording. Ends at the first difference.
pub fn compare(
    reference: (Receiver<Steps>, &MethodTable),
    tested: (Receiver<Steps>, &MethodTable),
) -> Comparison {
    let side = |(from, methods)| Side { from, ready: VecDeque::new(), methods };
    let (mut a, mut b) = (side(reference), side(tested));
    let mut result = Comparison::default();
    let mut before: VecDeque<Step> = VecDeque::new();
    loop {
        let step = match b.next() {
            Some(step @ Step::Bytecode { .. }) => step,
            Some(open) => {
                result.unresolved += u64::from(open == Step::Unresolved);
                result.gaps += u64::from(open == Step::Gap);
                match skip(&mut a, &mut b) {
                    Some(hidden) => result.hidden += hidden,
                    None => return part(result, &mut a, &mut b, &before),
                }
                continue;
            }
            None => break,
        };
        b.ready.push_front(step);
        a.fill(1);
        while a.ready.front() == Some(&Step::Gap) {
            result.gaps += 1;
            a.ready.pop_front();
            a.fill(1);
        }
        if !a.ready.front().is_some_and(|s| same(s, &step)) {
            return part(result, &mut a, &mut b, &before);
        }
        a.ready.pop_front();
        b.ready.pop_front();
        result.matched += 1;
        result.matched_compiled +=
            u64::from(matches!(step, Step::Bytecode { tier: Tier::C1 | Tier::C2, .. }));
        before.push_back(step);
        if before.len() > SHOWN {
            before.pop_front();
        }
    }
    if a.next().is_some() { part(result, &mut a, &mut b, &before) } else { result }
}

/// The tested flow does not say how it came to its next bytecodes: goes on to them in the reference. Returns
/// how many bytecodes that hides.
///
/// What is hidden may be rounds of a loop, and then the next bytecodes alone stand in the reference at several
/// places: the first is taken after which all agrees up to the next hidden stretch.
fn skip(a: &mut Side<'_>, b: &mut Side<'_>) -> Option<u64> {
    let anchor = resolved(b);
    let mut hidden = 0;
    if anchor.is_empty() {
        // Either nothing follows at all, or another such stretch.
        while b.ready.is_empty() && a.next().is_some() {
            hidden += 1;
        }
        return Some(hidden);
    }
    let short = anchor.len().min(ANCHOR);
    let mut first = None;
    let mut at = 0;
    let found = loop {
        a.fill(at + anchor.len());
        let left = a.ready.len() - at.min(a.ready.len());
        if left < short || first.is_some_and(|first| at > first + REACH) {
            break first?;
        }
        let agree = a.ready.range(at..).zip(&anchor).take_while(|(x, y)| same(x, y)).count();
        if agree == anchor.len() {
            break at;
        }
        if agree >= short && first.is_none() {
            first = Some(at);
        }
        at += 1;
    };
    a.ready.drain(..found);
    Some(found as u64)
}

/// The bytecodes that `b` is certain of before the next hidden stretch, or the first of them.
fn resolved(b: &mut Side<'_>) -> Vec<Step> {
    let mut wanted = ANCHOR;
    loop {
        b.fill(wanted);
        let steps = b.ready.iter().take_while(|s| matches!(s, Step::Bytecode { .. }));
        let steps: Vec<Step> = steps.take(wanted).copied().collect();
        if steps.len() < wanted || wanted >= LONG_ANCHOR {
            return steps;
        }
        wanted *= 2;
    }
}

fn part(mut result: Comparison, a: &mut Side<'_>, b: &mut Side<'_>, before: &VecDeque<Step>) -> Comparison {
    result.first = Some(Difference {
        at: result.matched,
        before: before.iter().map(|s| b.show(s)).collect(),
        reference: a.coming(),
        tested: b.coming(),
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn bytecode(key: u64, bci: u16, tier: Tier) -> Step {
        Step::Bytecode { key, method: MethodId(0), bci: Bci(bci), tier }
    }

    fn run(reference: &[Step], tested: &[Step]) -> Comparison {
        let table = MethodTable::default();
        let side = |steps: &[Step]| {
            let (to, from) = sync_channel(100);
            steps.chunks(3).for_each(|c| to.send(c.to_vec()).unwrap());
            from
        };
        compare((side(reference), &table), (side(tested), &table))
    }

    fn line(n: u16) -> Vec<Step> {
        (0..n).map(|i| bytecode(1, i, Tier::Interpreter)).collect()
    }

    #[test]
    fn equal_flows_are_equal_whoever_executed_them() {
        let tested: Vec<Step> = (0..10).map(|i| bytecode(1, i, Tier::C2)).collect();
        let c = run(&line(10), &tested);
        assert!(c.equal());
        assert_eq!((c.matched, c.matched_compiled), (10, 10));
    }

    #[test]
    fn a_wrong_a_missing_and_a_surplus_bytecode_are_found() {
        let mut wrong = line(10);
        wrong[4] = bytecode(2, 4, Tier::C1);
        for (tested, at) in [(wrong, 4), (line(9), 9), (line(11), 10)] {
            let c = run(&line(10), &tested);
            assert_eq!(c.first.as_ref().map(|d| d.at), Some(at));
            assert!(!c.agrees() && c.text().contains("part behind"));
        }
    }

    #[test]
    fn what_is_unresolved_hides_and_does_not_contradict() {
        let mut tested = line(100);
        tested.splice(20..25, [Step::Unresolved]);
        tested.push(Step::Gap);
        let c = run(&line(110), &tested);
        assert_eq!((c.matched, c.hidden, c.unresolved, c.gaps), (95, 15, 1, 1));
        assert!(c.agrees() && !c.equal());
        tested.splice(40..41, [Step::Unresolved, bytecode(9, 9, Tier::C2)]);
        assert!(!run(&line(110), &tested).agrees());
    }

    #[test]
    fn rounds_of_a_loop_may_be_hidden() {
        let round: Vec<Step> = line(40);
        let end: Vec<Step> = (200..230).map(|i| bytecode(1, i, Tier::C2)).collect();
        let reference = [round.repeat(6), end.clone()].concat();
        let mut tested = [round.repeat(4), end.clone()].concat();
        tested.splice(43..46, [Step::Unresolved]);
        let c = run(&reference, &tested);
        assert!(c.agrees() && c.hidden == 2 * 40 + 3, "{c:?}");
        // Without anything hidden it is a difference, and so is what stands nowhere behind the hidden stretch.
        assert!(!run(&reference, &[round.repeat(4), end].concat()).agrees());
        tested.push(bytecode(9, 9, Tier::C2));
        assert!(!run(&reference, &tested).agrees());
    }
}
