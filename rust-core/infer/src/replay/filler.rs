// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The methods of filling as implementations of one trait, [`Filler`], which is called for one
//! place after the other, in order.

use crate::cut::FrameSites;
use crate::fill::{
    Basic, Calibration, Captured, Choose, Confidence, FillSource, Filled, Follower, Gap, Hole, Parameters,
    Tiered, Walker, WayBack, recover,
};
use crate::fill::{FillWork, Settings};
use crate::replay::holes::GapPlace;
use jportal_bytecode::Node;
use jportal_flow::bounded;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

/// How gaps are filled.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum FillMethod {
    /// The paper's Algorithm 3. It gives no confidence of its own: a fill from a complete
    /// segment has confidence 0.5, a path through the ICFG 0.1.
    Basic(Parameters),
    /// The paper's Algorithm 4, with the confidences of Algorithm 3.
    Tiered(Parameters),
    /// JPortal's own method. Its confidences are calibrated on the run itself.
    Follow(Settings),
}

impl FillMethod {
    /// A short stable name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Basic(_) => "basic",
            Self::Tiered(_) => "tiered",
            Self::Follow(_) => "follow",
        }
    }
}

/// The instructions that may have run at a place.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct RatedFill {
    /// The instructions.
    pub(crate) nodes: Vec<Node>,
    /// The confidence in each of them.
    pub(crate) confidence: Confidence,
    /// The first instruction that does not follow from the one before it.
    pub(crate) broken: Option<usize>,
    /// Whether the fill may contain gaps where no frames lead to an instruction.
    pub(crate) breaks: bool,
}

/// Fills the places of one thread.
pub(crate) trait Filler {
    /// Fills a place, which must follow those of the earlier calls.
    fn fill(&mut self, question: Question) -> Option<RatedFill>;
    /// The instructions that a callee of the invoke at `site` may have executed, for a fill
    /// that continues after the call without them.
    fn callee_of(&self, _site: Node) -> Option<Vec<Node>> {
        None
    }
    /// The work so far.
    fn work(&self) -> FillWork;
}

/// The request for the fill of a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    /// The index of the place.
    pub(crate) index: usize,
    /// The frames below the last instruction before the place.
    pub(crate) before: FrameSites,
    /// The entry of the method that was called after that instruction.
    pub(crate) entered: Option<Node>,
}

/// The filler of [`FillMethod::Follow`]. The frames at a place are known only after the places
/// before it have been filled and the frames led through them. The likely frames are known
/// earlier. So a second thread fills places ahead of the replay for the likely frames, and the
/// replay takes the result if the frames prove right; it rarely has to wait. A third thread
/// computes the ways back from the ends of places, which depend on no other place.
pub(crate) struct Followed<'a> {
    follower: &'a Follower<'a>,
    /// The number of times that [`Filler::fill`] was called with frames other than the likely
    /// ones. Results of an earlier turn are discarded.
    turn: usize,
    /// Starts a turn: its number and the request that it begins with.
    again: Sender<(usize, Question)>,
    /// The results, in the order of places within each turn.
    found: jportal_flow::Receiver<Found>,
    work: FillWork,
}

/// The maximum number of instructions of fills that wait to be taken.
const FOUND: usize = 1 << 21;
/// The number of instructions that the fixed cost of a fill counts as.
const LEAST_FOUND: usize = 1 << 16;
/// The maximum number of instructions of ways back that are computed ahead.
const AHEAD: usize = 1 << 22;
/// The number of instructions that the fixed cost of a way back counts as.
const LEAST: usize = 1 << 19;

/// With the index of the place, which ascends.
type Numbered<'a> = (usize, Option<WayBack<'a>>);

/// The result for a place, and its work.
#[derive(Debug)]
struct Found {
    turn: usize,
    question: Question,
    fill: Option<RatedFill>,
    work: FillWork,
}

/// The thread that fills places ahead for [`Followed`].
struct Finder<'a> {
    follower: Follower<'a>,
    calibration: &'a Calibration,
    places: &'a [GapPlace],
    ways: jportal_flow::Receiver<Numbered<'a>>,
    /// Returns used ways back to their thread: to free their thousands of spots takes time.
    used: Sender<Numbered<'a>>,
    /// The last way back that was received.
    way: Option<Numbered<'a>>,
}

impl<'a> Followed<'a> {
    pub(crate) fn new<'s>(
        follower: &'a Follower<'a>,
        calibration: &'a Calibration,
        places: &'a [GapPlace],
        scope: &'s Scope<'s, '_>,
    ) -> Self
    where
        'a: 's,
    {
        let (send, ways) = bounded(AHEAD);
        let (used, unused) = channel();
        let (again, asked) = channel();
        let (to, found) = bounded(FOUND);
        let back = follower.ways_back();
        if !places.is_empty() {
            scope.spawn(move || {
                for (at, place) in places.iter().enumerate() {
                    unused.try_iter().for_each(drop);
                    let Some(end) = place.end() else { continue };
                    let way = back.to(&end);
                    let len = way.as_ref().map_or(0, WayBack::len);
                    // The receiver may have failed.
                    if send.send((at, way), len + LEAST).is_err() {
                        return;
                    }
                }
            });
            let follower = follower.another();
            let finder = Finder { follower, calibration, places, ways, used, way: None };
            scope.spawn(move || finder.run(&asked, &to));
        }
        Self { follower, turn: 0, again, found, work: FillWork::default() }
    }
}

impl Finder<'_> {
    /// Fills the places in order, each for the frames that the fill before it leads to. A
    /// request with other frames starts a new turn at its place.
    fn run(mut self, asked: &Receiver<(usize, Question)>, to: &jportal_flow::Sender<Found>) {
        let mut turn = 0;
        let mut next = self.question(0, None);
        loop {
            // After the last place there is nothing to do until a request arrives.
            let again = if next.is_some() { asked.try_recv().ok() } else { asked.recv().ok() };
            if let Some((other, question)) = again {
                (turn, next) = (other, Some(question));
            }
            let Some(question) = next else { return };
            let (fill, work, behind) = self.find(&question);
            next = self.question(question.index + 1, behind);
            let len = LEAST_FOUND + fill.as_ref().map_or(0, |fill| fill.nodes.len());
            // The receiver may have failed.
            if to.send(Found { turn, question, fill, work }, len).is_err() {
                return;
            }
        }
    }
    /// The likely request for the place with this index, if there is such a place; see
    /// [`Before::question`](crate::replay::holes::Before::question).
    fn question(&self, index: usize, behind: Option<FrameSites>) -> Option<Question> {
        Some(self.places.get(index)?.before.question(index, behind, self.follower.icfg()))
    }
    /// Fills a place: the fill, the work, and the frames after it.
    fn find(&mut self, question: &Question) -> (Option<RatedFill>, FillWork, Option<FrameSites>) {
        let Question { index, before, entered } = question;
        let place = &self.places[*index];
        let Some(hole) = place.hole else { return (None, FillWork::default(), None) };
        let one_of = |paths: u32| 1.0 / paths.max(1) as f32;
        let sure = (one_of(place.paths.0), one_of(place.paths.1));
        let (before, after) = (before.below(), place.after.below());
        let gap = Gap { hole, before, entered: *entered, after, sure, expected: place.expected };
        self.take(*index);
        let (found, work) = match &self.way {
            Some((at, way)) if at == index => self.follower.recover_to(&gap, way.as_ref()),
            // The way back was used for other frames and has been returned.
            _ => self.follower.recover_gap(&gap),
        };
        let behind = found.as_ref().map(|f| self.follower.frames_after(&gap, f));
        let fill = found.map(|found| {
            let confidence = found.confidence.map(|sure| self.calibration.apply(sure));
            RatedFill { nodes: found.nodes, confidence, broken: found.broken, breaks: true }
        });
        (fill, work, behind)
    }
    /// Receives the way back of a place, unless it has passed already.
    fn take(&mut self, index: usize) {
        while self.way.as_ref().is_none_or(|(at, _)| *at < index) {
            let Some(next) = self.ways.recv() else { return };
            if let Some(used) = self.way.replace(next) {
                // After the last place the receiver is gone.
                let _ = self.used.send(used);
            }
        }
    }
}

impl Filler for Followed<'_> {
    fn fill(&mut self, question: Question) -> Option<RatedFill> {
        // The channel ends only if the finder thread has panicked; joining that thread passes
        // the panic on.
        let found = loop {
            let found = self.found.recv()?;
            if found.turn != self.turn || found.question.index < question.index {
                continue;
            }
            if found.question == question {
                break found;
            }
            self.turn += 1;
            self.again.send((self.turn, question.clone())).ok()?;
        };
        self.work.add(&found.work);
        found.fill
    }
    fn callee_of(&self, site: Node) -> Option<Vec<Node>> {
        self.follower.callee_of(site)
    }
    fn work(&self) -> FillWork {
        self.work
    }
}

/// The number of places that are filled at a time: each batch takes one pass over all that was
/// captured, and its fills are in memory.
const BATCH: usize = 256;

/// The maximum number of nodes that the walks of one thread visit in all; each walk has a limit
/// of its own. After that, gaps of later batches get no walk: with some thousand gaps, each
/// walk would visit half the program.
const WALKED: u64 = 1 << 27;

/// The filler of the paper's algorithms, which use no frames.
pub(crate) struct Chosen<'a> {
    captured: &'a Captured,
    places: &'a [GapPlace],
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
        places: &'a [GapPlace],
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
    fn fill(&mut self, Question { index, .. }: Question) -> Option<RatedFill> {
        if index < self.base || index >= self.base + self.batch.len() {
            self.recover_from(index);
        }
        let fill = self.batch.get_mut(index - self.base)?.take()?.fill?;
        let sure = if fill.source == FillSource::Walk { 0.1 } else { 0.5 };
        Some(RatedFill {
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
    use crate::fill::{Expected, Learned, Tally};
    use crate::replay::holes::Before;
    use crate::support::{at, calling, graph, method};
    use std::thread::scope;

    #[test]
    fn what_was_found_ahead_changes_no_answer() {
        // 0 main and 1 other call 2 f.
        let caller = |name| calling(method(name, &[184, 0, 1, 177]), &["f"]);
        let g = graph(vec![caller("main"), caller("other"), method("f", &[26, 27, 177])]);
        let mut captured = Captured::default();
        let [from_main, from_other] =
            [0, 1].map(|caller| [at(&g, caller, &[0]), at(&g, 2, &[0, 1, 2]), at(&g, caller, &[3])].concat());
        let segments = [&from_main[..], &from_other, &from_main[..2], &at(&g, 0, &[3]), &at(&g, 1, &[3])];
        let [_, _, before, to_main, to_other] = segments.map(|s| captured.push(&g, s, &[]).unwrap());
        let hole = |after| Some(Hole { before, after, time: None });
        let places = [hole(to_main), hole(to_other), None, hole(to_main), hole(to_other)];
        let expected = Some(Expected { instructions: 2.0, slack: 0.0 });
        let (before, after) = (Before::default(), FrameSites::default());
        let place = GapPlace { events: 0..0, hole: None, before, after, paths: (1, 1), expected };
        let places = places.map(|hole| GapPlace { hole, ..place.clone() });
        let learned = Learned::new(&g, &captured);
        let follower = Follower::new(&g, &captured, &learned, Settings::default());
        let calibration = Calibration::of(&Tally::default());
        let question =
            |index, sites, whole| Question { index, before: FrameSites { sites, whole }, entered: None };
        // f returns to its caller. The places have no frames themselves, so they are filled
        // ahead for unknown frames.
        let main = |index| (question(index, at(&g, 0, &[0]), true), [0, 3].contains(&index));
        let other = |index| (question(index, at(&g, 1, &[0]), true), [1, 4].contains(&index));
        let known = |index| (question(index, Vec::new(), false), index != 2);
        for asked in [
            vec![main(0), main(1), other(3), other(4)],
            vec![known(0), known(1), known(2), known(3), known(4)],
            vec![known(0), other(1), known(2), main(3), main(4)],
            vec![main(1), known(4)],
            vec![other(4)],
            vec![],
        ] {
            for pause in [0, 10] {
                scope(|scope| {
                    let mut followed = Followed::new(&follower, &calibration, &places, scope);
                    let mut work = FillWork::default();
                    for (question, fills) in asked.clone() {
                        std::thread::sleep(std::time::Duration::from_millis(pause));
                        let hole = places[question.index].hole;
                        let alone = hole.map(|hole| {
                            let (before, after) = (question.before.below(), FrameSites::default());
                            let after = after.below();
                            let gap = Gap { hole, before, entered: None, after, sure: (1.0, 1.0), expected };
                            follower.recover_gap(&gap)
                        });
                        let fill = followed.fill(question.clone()).map(|fill| fill.nodes);
                        assert_eq!(fill, fills.then(|| at(&g, 2, &[1, 2])), "{question:?} of {asked:?}");
                        alone.into_iter().for_each(|(_, alone)| work.add(&alone));
                        assert_eq!(followed.work(), work, "{question:?} of {asked:?}");
                    }
                    let others = asked.iter().filter(|(question, _)| !question.before.sites.is_empty());
                    assert_eq!(followed.turn, others.count(), "{asked:?}");
                });
            }
        }
    }
}
