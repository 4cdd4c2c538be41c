//! The methods of recovery behind one face: asked for one place after the other, in order.

use crate::holes::Place;
use jportal_bytecode::Node;
use jportal_recover::cut::Sites;
use jportal_recover::fill::{
    Basic, Calibration, Captured, Choose, Filled, Follower, Gap, Hole, Parameters, Source, Tiered, Walker,
    WayBack, recover,
};
use jportal_recover::fill::{FillWork, Settings};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
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
    pub(crate) confidence: Vec<f32>,
    /// The first of them that nothing leads to from those in front.
    pub(crate) broken: Option<usize>,
    /// Whether gaps may stand where no frames lead on.
    pub(crate) breaks: bool,
}

/// Fills the places of one thread.
pub(crate) trait Filler {
    /// The fill of the `index`-th place, with the frames below the last instruction in front of it, and the entry of the method that has
    /// been called since.
    fn fill(&mut self, index: usize, before: &Sites, entered: Option<Node>) -> Option<Fill>;
    /// What a callee of the invoke at `site` may have executed, where a fill goes on behind the call without it.
    fn callee_of(&self, _site: Node) -> Option<Vec<Node>> {
        None
    }
    /// What that cost so far.
    fn work(&self) -> FillWork;
}

/// Our own: a place's frames are known when those before it have been filled. What leads to its end is known before, and is looked for on
/// another thread.
pub(crate) struct Followed<'a> {
    follower: &'a Follower<'a>,
    calibration: &'a Calibration,
    places: &'a [Place],
    /// By number of the place, which ascends.
    ways: Receiver<(usize, Option<WayBack<'a>>)>,
    /// Where they go when they have been used: to free their thousands of spots takes time.
    used: Sender<WayBack<'a>>,
    work: FillWork,
}

/// Places whose ends are gone back from while one is filled.
const AHEAD: usize = 4;

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
        let (send, ways) = sync_channel(AHEAD);
        let (used, unused) = channel();
        let back = follower.ways_back();
        if !places.is_empty() {
            scope.spawn(move || {
                for (at, place) in places.iter().enumerate() {
                    unused.try_iter().for_each(drop);
                    let Some(end) = place.end() else { continue };
                    // Who fills them may have failed.
                    if send.send((at, back.to(&end))).is_err() {
                        return;
                    }
                }
            });
        }
        Self { follower, calibration, places, ways, used, work: FillWork::default() }
    }
    /// What leads to the end of a place, which is behind all that were asked for.
    fn way_to(&self, index: usize) -> Option<WayBack<'a>> {
        self.ways.iter().find(|(at, _)| *at >= index).filter(|(at, _)| *at == index)?.1
    }
}

impl Filler for Followed<'_> {
    fn fill(&mut self, index: usize, before: &Sites, entered: Option<Node>) -> Option<Fill> {
        let place = &self.places[index];
        let (before, after) = (before.below(), place.after.below());
        let hole = place.hole?;
        let one_of = |paths: u32| 1.0 / paths.max(1) as f32;
        let sure = (one_of(place.paths.0), one_of(place.paths.1));
        let gap = Gap { hole, before, entered, after, sure, expected: place.expected };
        let way = self.way_to(index);
        let (found, work) = self.follower.recover_to(&gap, way.as_ref());
        if let Some(way) = way {
            // Behind the last place nobody takes it.
            let _ = self.used.send(way);
        }
        self.work.add(&work);
        let found = found?;
        let confidence = found.confidence.iter().map(|c| self.calibration.apply(*c)).collect();
        Some(Fill { nodes: found.nodes, confidence, broken: found.broken, breaks: true })
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
    fn fill(&mut self, index: usize, _: &Sites, _: Option<Node>) -> Option<Fill> {
        if index < self.base || index >= self.base + self.batch.len() {
            self.recover_from(index);
        }
        let fill = self.batch.get_mut(index - self.base)?.take()?.fill?;
        let sure = if fill.source == Source::Walk { 0.1 } else { 0.5 };
        Some(Fill {
            confidence: vec![sure; fill.nodes.len()],
            nodes: fill.nodes,
            broken: None,
            breaks: false,
        })
    }
    fn work(&self) -> FillWork {
        self.work
    }
}
