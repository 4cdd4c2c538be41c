//! The methods of recovery behind one face: asked for one place after the other, in order.

use crate::holes::Place;
use jportal_bytecode::Node;
use jportal_flow::bounded;
use jportal_recover::cut::Sites;
use jportal_recover::fill::{
    Basic, Calibration, Captured, Choose, Confidence, Filled, Follower, Gap, Hole, Parameters, Source,
    Tiered, Walker, WayBack, recover,
};
use jportal_recover::fill::{FillWork, Settings};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

/// How gaps are filled.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Method {
    /// The paper's Algorithm 3. It says nothing of how sure a fill is: what was taken from a complete segment has confidence
    /// 0.5, a path through the ICFG 0.1.
    Basic(Parameters),
    /// The paper's Algorithm 4; confidences as for Algorithm 3.
    Tiered(Parameters),
    /// Our own, with confidences that the run itself bears out.
    Follow(Settings),
}

impl Method {
    /// A short stable name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Basic(_) => "basic",
            Self::Tiered(_) => "tiered",
            Self::Follow(_) => "follow",
        }
    }
}

/// What may have run at a place.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Fill {
    /// The instructions.
    pub(crate) nodes: Vec<Node>,
    /// How sure each of them is.
    pub(crate) confidence: Confidence,
    /// The first of them that nothing leads to from those in front.
    pub(crate) broken: Option<usize>,
    /// Whether gaps may stand where no frames lead on.
    pub(crate) breaks: bool,
}

/// Fills the places of one thread.
pub(crate) trait Filler {
    /// Foretells what will most likely be asked for next, so that it may be looked for meanwhile. What comes of it does not depend on that.
    fn foretell(&mut self, _question: Question) {}
    /// The fill of a place, which comes behind those asked for before.
    fn fill(&mut self, question: Question) -> Option<Fill>;
    /// What a callee of the invoke at `site` may have executed, where a fill goes on behind the call without it.
    fn callee_of(&self, _site: Node) -> Option<Vec<Node>> {
        None
    }
    /// What that cost so far.
    fn work(&self) -> FillWork;
}

/// What may have run at a place?
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Question {
    /// Which place.
    pub(crate) index: usize,
    /// The frames below the last instruction in front of it.
    pub(crate) before: Sites,
    /// The entry of the method that has been called since.
    pub(crate) entered: Option<Node>,
}

/// Our own. A place's frames are known when those before it have been filled, and led through; what they will most likely be is known
/// before. So places are filled on another thread, some ahead, and what was found is taken if the frames prove to be the ones. What leads to
/// their ends depends on nothing, and is looked for on a third thread.
pub(crate) struct Followed<'a> {
    follower: &'a Follower<'a>,
    asks: Sender<Question>,
    answers: Receiver<(Option<Fill>, FillWork)>,
    /// Asked, and not answered yet.
    foretold: Option<Question>,
    work: FillWork,
}

/// Places that are filled before anybody asks for them.
const FORETOLD: usize = 3;

/// Instructions that lead to the ends of places behind the one that is filled.
const AHEAD: usize = 1 << 22;
/// What a way there takes beside them counts as so many.
const LEAST: usize = 1 << 19;

/// By number of the place, which ascends.
type Numbered<'a> = (usize, Option<WayBack<'a>>);

/// A fill with what it took, and the frames behind it.
#[derive(Debug)]
struct Found {
    fill: Option<Fill>,
    work: FillWork,
    behind: Option<Sites>,
}

/// Answers for [`Followed`].
struct Finder<'a> {
    follower: Follower<'a>,
    calibration: &'a Calibration,
    places: &'a [Place],
    ways: jportal_flow::Receiver<Numbered<'a>>,
    /// Where they go when they have been used: to free their thousands of spots takes time.
    used: Sender<Numbered<'a>>,
    /// Those taken and not given back yet, in order.
    taken: VecDeque<Numbered<'a>>,
    /// What was found ahead, in order, each for the frames that the one before leads to.
    ahead: VecDeque<(Question, Found)>,
    /// What is asked next if all of that proves right.
    next: Option<Question>,
}

impl<'a> Followed<'a> {
    pub(crate) fn new<'s>(
        follower: &'a Follower<'a>,
        calibration: &'a Calibration,
        places: &'a [Place],
        scope: &'s Scope<'s, '_>,
    ) -> Self
    where
        'a: 's,
    {
        let (send, ways) = bounded(AHEAD);
        let (used, unused) = channel();
        let (asks, asked) = channel();
        let (answer, answers) = channel();
        let back = follower.ways_back();
        if !places.is_empty() {
            scope.spawn(move || {
                for (at, place) in places.iter().enumerate() {
                    unused.try_iter().for_each(drop);
                    let Some(end) = place.end() else { continue };
                    let way = back.to(&end);
                    let len = way.as_ref().map_or(0, WayBack::len);
                    // Who fills them may have failed.
                    if send.send((at, way), len + LEAST).is_err() {
                        return;
                    }
                }
            });
            let follower = follower.another();
            let (taken, ahead) = (VecDeque::new(), VecDeque::new());
            let finder = Finder { follower, calibration, places, ways, used, taken, ahead, next: None };
            scope.spawn(move || finder.run(&asked, &answer));
        }
        Self { follower, asks, answers, foretold: None, work: FillWork::default() }
    }
    /// The answer to the question that was asked last. There is none only if the thread that looks for it has panicked, which is passed on
    /// where it is joined.
    fn answer(&self) -> Option<(Option<Fill>, FillWork)> {
        self.answers.recv().ok()
    }
}

impl Finder<'_> {
    /// Answers until nobody asks any more.
    fn run(mut self, asked: &Receiver<Question>, answer: &Sender<(Option<Fill>, FillWork)>) {
        loop {
            let next = self.next.take_if(|_| self.ahead.len() < FORETOLD);
            let question = if next.is_some() { asked.try_recv().ok() } else { asked.recv().ok() };
            match (question, next) {
                (Some(question), next) => {
                    self.next = next.or(self.next.take());
                    let Found { fill, work, .. } = self.answer(&question);
                    // Who asked may have failed.
                    if answer.send((fill, work)).is_err() {
                        return;
                    }
                }
                (None, Some(next)) => {
                    let found = self.find(&next);
                    self.next = self.behind(next.index, &found);
                    self.ahead.push_back((next, found));
                }
                (None, None) => return,
            }
        }
    }
    /// What was found ahead, if it is for this question, or what is found now.
    fn answer(&mut self, question: &Question) -> Found {
        self.give_back(question.index);
        while self.ahead.front().is_some_and(|(known, _)| known.index < question.index) {
            self.ahead.pop_front();
        }
        if self.ahead.front().is_some_and(|(known, _)| known == question)
            && let Some((_, found)) = self.ahead.pop_front()
        {
            return found;
        }
        // What was found behind it went by other frames.
        self.ahead.clear();
        let found = self.find(question);
        self.next = self.behind(question.index, &found);
        found
    }
    /// What is most likely asked behind the place with this number.
    fn behind(&self, index: usize, found: &Found) -> Option<Question> {
        let place = self.places.get(index + 1).filter(|place| place.hole.is_some())?;
        Some(place.before.question(index + 1, found.behind.clone(), self.follower.icfg()))
    }
    /// What may have run at a place. Ways to it and to those behind are kept.
    fn find(&mut self, question: &Question) -> Found {
        let Question { index, before, entered } = question;
        self.take(*index);
        let place = &self.places[*index];
        let Some(hole) = place.hole else {
            return Found { fill: None, work: FillWork::default(), behind: None };
        };
        let one_of = |paths: u32| 1.0 / paths.max(1) as f32;
        let sure = (one_of(place.paths.0), one_of(place.paths.1));
        let (before, after) = (before.below(), place.after.below());
        let gap = Gap { hole, before, entered: *entered, after, sure, expected: place.expected };
        let way = self.taken.iter().find(|way| way.0 == *index).and_then(|way| way.1.as_ref());
        let (found, work) = self.follower.recover_to(&gap, way);
        let behind = found.as_ref().map(|f| self.follower.frames_behind(&gap, f));
        let fill = found.map(|found| {
            let confidence = found.confidence.map(|sure| self.calibration.apply(sure));
            Fill { nodes: found.nodes, confidence, broken: found.broken, breaks: true }
        });
        Found { fill, work, behind }
    }
    /// Takes what leads to the end of a place, if anything does, and what comes before it.
    fn take(&mut self, index: usize) {
        while self.taken.back().is_none_or(|(at, _)| *at < index) {
            let Some(next) = self.ways.recv() else { return };
            self.taken.push_back(next);
        }
    }
    /// Nothing will be asked in front of a place.
    fn give_back(&mut self, index: usize) {
        while self.taken.front().is_some_and(|(at, _)| *at < index)
            && let Some(used) = self.taken.pop_front()
        {
            // Behind the last place nobody takes it.
            let _ = self.used.send(used);
        }
    }
}

impl Filler for Followed<'_> {
    fn foretell(&mut self, question: Question) {
        if self.foretold.is_none() && self.asks.send(question.clone()).is_ok() {
            self.foretold = Some(question);
        }
    }
    fn fill(&mut self, question: Question) -> Option<Fill> {
        let foretold = self.foretold.take();
        if foretold.as_ref() != Some(&question) {
            if foretold.is_some() {
                // It had other frames.
                self.answer();
            }
            self.asks.send(question).ok()?;
        }
        let (fill, work) = self.answer()?;
        self.work.add(&work);
        fill
    }
    fn callee_of(&self, site: Node) -> Option<Vec<Node>> {
        self.follower.callee_of(site)
    }
    fn work(&self) -> FillWork {
        self.work
    }
}

/// Places are recovered so many at a time: a pass over all that was captured for each batch, its fills in memory.
const BATCH: usize = 256;

/// Nodes that walks of one thread may visit in all; each has a limit of its own. Beyond that, from the next batch on, gaps
/// have no walk: where there are some thousand gaps, each would wander through half the program.
const WALKED: u64 = 1 << 27;

/// The paper's algorithms, which ask for no frames.
pub(crate) struct Chosen<'a> {
    captured: &'a Captured,
    places: &'a [Place],
    choose: &'a dyn Choose,
    walker: Walker<'a>,
    parameters: Parameters,
    /// The fills of places from `base` on.
    batch: Vec<Option<Filled>>,
    base: usize,
    work: FillWork,
}

impl<'a> Chosen<'a> {
    pub(crate) fn new(
        captured: &'a Captured,
        places: &'a [Place],
        tiered: bool,
        walker: Walker<'a>,
        parameters: Parameters,
    ) -> Self {
        let choose: &dyn Choose = if tiered { &Tiered } else { &Basic };
        let (batch, work) = (Vec::new(), FillWork::default());
        Self { captured, places, choose, walker, parameters, batch, base: 0, work }
    }
    fn recover_from(&mut self, base: usize) {
        let places = &self.places[base..self.places.len().min(base + BATCH)];
        let holes: Vec<Hole> = places.iter().filter_map(|p| p.hole).collect();
        let walker = (self.work.visited < WALKED).then_some(&self.walker);
        let filled = recover(self.captured, &holes, self.choose, walker, &self.parameters);
        filled.iter().for_each(|f| self.work.add(&f.work));
        let mut filled = filled.into_iter();
        self.batch = places.iter().map(|p| p.hole.and_then(|_| filled.next())).collect();
        self.base = base;
    }
}

impl Filler for Chosen<'_> {
    fn fill(&mut self, Question { index, .. }: Question) -> Option<Fill> {
        if index < self.base || index >= self.base + self.batch.len() {
            self.recover_from(index);
        }
        let fill = self.batch.get_mut(index - self.base)?.take()?.fill?;
        let sure = if fill.source == Source::Walk { 0.1 } else { 0.5 };
        Some(Fill {
            confidence: Confidence::uniform(fill.nodes.len(), sure),
            nodes: fill.nodes,
            broken: None,
            breaks: false,
        })
    }
    fn work(&self) -> FillWork {
        self.work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holes::Before;
    use crate::support::{at, calling, graph, method};
    use jportal_recover::fill::{Expected, Learned, Tally};
    use std::thread::scope;

    #[test]
    fn what_was_foretold_changes_no_answer() {
        // 0 main and 1 other call 2 f.
        let caller = |name| calling(method(name, &[184, 0, 1, 177]), &["f"]);
        let g = graph(vec![caller("main"), caller("other"), method("f", &[26, 27, 177])]);
        let mut captured = Captured::default();
        let [begin, end] = [[at(&g, 0, &[0]), at(&g, 2, &[0])].concat(), at(&g, 0, &[3])];
        let all = [&begin[..], &at(&g, 2, &[1, 2]), &end].concat();
        let [_, before, after] = [all, begin, end].map(|nodes| captured.push(&g, &nodes, &[]).unwrap());
        let place = Place {
            events: 0..0,
            hole: Some(Hole { before, after, time: None }),
            before: Before::default(),
            after: Sites::default(),
            paths: (1, 1),
            expected: Some(Expected { instructions: 2.0, slack: 0.0 }),
        };
        let places = vec![place; 4];
        let learned = Learned::new(&g, &captured);
        let follower = Follower::new(&g, &captured, &learned, Settings::default());
        let calibration = Calibration::of(&Tally::default());
        let question = |index, caller| {
            let before = Sites { sites: at(&g, caller, &[0]), whole: true };
            Question { index, before, entered: None }
        };
        // f returns to main, if that has called it. Of the third place nothing is asked.
        let asked = [question(0, 0), question(1, 1), question(3, 0)];
        let answers = |foretold: &[Question]| {
            scope(|scope| {
                let mut followed = Followed::new(&follower, &calibration, &places, scope);
                let mut all = Vec::new();
                for question in &asked {
                    foretold
                        .iter()
                        .filter(|q| q.index <= question.index)
                        .for_each(|q| followed.foretell(q.clone()));
                    // For other frames than these places behind are filled meanwhile.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    all.push(followed.fill(question.clone()).map(|fill| fill.nodes));
                }
                (all, followed.work())
            })
        };
        let expected = answers(&[]);
        let fill = Some(at(&g, 2, &[1, 2]));
        assert_eq!(expected.0, [fill.clone(), None, fill]);
        for foretold in [&asked[..], &[question(0, 1), question(1, 0), question(3, 1)], &[question(2, 0)]] {
            assert_eq!(answers(foretold), expected, "{foretold:?}");
        }
    }
}
