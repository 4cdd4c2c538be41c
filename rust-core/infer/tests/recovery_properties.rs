// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Theorem 5.5, and the property that every fill is a path that connects.

mod support;

use jportal_bytecode::{Icfg, Node, Transfer};
use jportal_infer::fill::{
    Basic, Candidates, Captured, Choose, Expected, FillWork, Follower, Gap, Hole, Learned, Parameters,
    Recovered, SegmentId, Settings, Tier, Tiered, Tiers, Walker, recover,
};
use jportal_infer::project::paths::Below;
use proptest::prelude::*;
use support::random::{drafts, frames, is_path, program, walk};

struct Few;

impl Tiers for Few {
    fn tier(&self, node: Node) -> Tier {
        match node.0 {
            0 => Tier::Calls,
            1 => Tier::Control,
            _ => Tier::Concrete,
        }
    }
}

/// Segments that have much in common: pieces of a few phrases.
fn segments() -> impl Strategy<Value = Vec<Vec<Node>>> {
    let phrase = prop::collection::vec(0u32..4, 1..6);
    let phrases = prop::collection::vec(phrase, 1..5);
    let plan = prop::collection::vec(prop::collection::vec(any::<usize>(), 1..8), 2..8);
    (phrases, plan).prop_map(|(phrases, plan)| {
        let segment =
            |p: &Vec<usize>| p.iter().flat_map(|i| &phrases[i % phrases.len()]).map(|n| Node(*n)).collect();
        plan.iter().map(segment).collect()
    })
}

fn captured(tiers: &dyn Tiers, segments: &[Vec<Node>]) -> (Captured, Vec<Hole>) {
    let mut all = Captured::default();
    let ids: Vec<SegmentId> = segments.iter().map(|s| all.push(tiers, s, &[]).unwrap()).collect();
    let hole = |w: &[SegmentId]| Hole { before: w[0], after: w[1], time: None };
    (all, ids.windows(2).map(hole).collect())
}

/// `(position, |IS ∘ CS|)` of every complete segment, without index or abstraction.
fn by_hand(segments: &[Vec<Node>], is: usize, anchors: usize) -> Vec<(u32, usize)> {
    let own = &segments[is];
    let mut all = Vec::new();
    let mut base = 0;
    for cs in segments {
        for end in 1..cs.len() {
            let matched =
                (0..own.len().min(end)).take_while(|k| own[own.len() - 1 - k] == cs[end - 1 - k]).count();
            if own.len() >= anchors && matched >= anchors {
                all.push(((base + end) as u32, matched));
            }
        }
        base += cs.len();
    }
    all
}

proptest! {
    #[test]
    fn complete_segments_are_those_with_the_anchor_instructions(segments in segments(), anchors in 1usize..5) {
        let (captured, holes) = captured(&Few, &segments);
        let parameters = Parameters { anchors, ..Parameters::default() };
        let candidates = Candidates::collect(&captured, &holes, &parameters);
        for is in 0..holes.len() {
            let expected: Vec<u32> = by_hand(&segments, is, anchors).iter().map(|c| c.0).collect();
            prop_assert_eq!(candidates.of(is), (&expected[..], 0));
        }
    }

    /// Theorem 5.5: the candidates that Algorithm 4 prunes are no better than those it keeps,
    /// so its best N have the N longest common suffixes; with N = 1 it is Algorithm 3.
    #[test]
    fn pruning_loses_nothing(segments in segments(), anchors in 1usize..4, top in 1usize..5) {
        let (captured, holes) = captured(&Few, &segments);
        let parameters = Parameters { anchors, top, ..Parameters::default() };
        let candidates = Candidates::collect(&captured, &holes, &parameters);
        for (is, hole) in holes.iter().enumerate() {
            let mut expected: Vec<usize> = by_hand(&segments, is, anchors).iter().map(|c| c.1).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.truncate(top);
            let choose = |by: &dyn Choose, work: &mut FillWork| {
                by.choose(&captured, hole.before, candidates.of(is).0, &parameters, work)
            };
            let (mut three, mut four) = (FillWork::default(), FillWork::default());
            let basic = choose(&Basic, &mut three);
            let tiered = choose(&Tiered, &mut four);
            prop_assert_eq!(tiered.iter().map(|r| r.matched).collect::<Vec<_>>(), expected);
            prop_assert_eq!(basic.first(), tiered.first());
            prop_assert!(four.compared <= three.compared);
        }
    }

    /// Every fill, of either algorithm and of the ICFG, is a path from one end to the other.
    #[test]
    fn fills_are_paths_that_connect(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 20..400),
        cuts in prop::collection::vec((1usize..40, 0usize..20), 1..8),
        anchors in 1usize..4,
        join in 1usize..4,
    ) {
        let g = program(&drafts);
        let nodes = walk(&g, &choices).nodes;
        let segments = cut(&nodes, &cuts);
        let (captured, holes) = captured(&g, &segments);
        let parameters = Parameters { anchors, join, ..Parameters::default() };
        let walker = Walker::new(&g);
        for by in [&Basic as &dyn Choose, &Tiered] {
            for walker in [None, Some(&walker)] {
                for (hole, filled) in holes.iter().zip(recover(&captured, &holes, by, walker, &parameters)) {
                    let Some(fill) = filled.fill else { continue };
                    prop_assert!(connects(&g, &captured, hole, &fill.nodes));
                }
            }
        }
    }
}

proptest! {
    /// The fills of [`Follower`] connect, and the frames before the gap lead to those after it.
    /// Where a gap remains inside a fill, both parts are paths from the ends.
    #[test]
    fn followed_fills_connect_with_their_frames(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 20..400),
        cuts in prop::collection::vec((1usize..40, 0usize..20), 1..8),
        join in 1usize..4,
        timed: bool,
        known: bool,
        tries in prop_oneof![Just(0usize), Just(4)],
        visits in prop_oneof![Just(1usize), Just(4096)],
    ) {
        let g = program(&drafts);
        let walk = walk(&g, &choices);
        let segments = cut(&walk.nodes, &cuts);
        let ends = ends_of(&walk.nodes.len(), &cuts);
        let mut captured = Captured::default();
        let mut holes = Vec::new();
        let mut last = None;
        for (segment, (from, to)) in segments.iter().zip(&ends) {
            let marks: Vec<(usize, u64)> = (0..segment.len()).map(|i| (i, (from + i) as u64)).collect();
            let id = captured.push(&g, segment, &marks).unwrap();
            if let Some((before, end)) = last {
                let time = timed.then_some((from - end) as u64);
                holes.push((Hole { before, after: id, time }, end, *from));
            }
            last = Some((id, *to));
        }
        let stack = |at: usize| frames(&g, &walk.nodes[..=at.min(walk.nodes.len() - 1)], &walk.outcomes);
        let stacks: Vec<_> = holes.iter().map(|h| (stack(h.1 - 1), stack(h.2))).collect();
        let below = |sites| if known { Below::Frames(sites) } else { Below::Unknown };
        let gaps: Vec<Gap<'_>> = holes.iter().zip(&stacks).map(|(h, s)| Gap {
            hole: h.0,
            before: below(&s.0[..]),
            entered: None,
            after: below(&s.1[..]),
            sure: (1.0, 1.0),
            expected: h.0.time.map(|time| Expected { instructions: time as f64, slack: 0.0 }),
        }).collect();
        let settings = Settings { join, tries, visits, ..Settings::default() };
        let learned = Learned::new(&g, &captured);
        let follower = Follower::new(&g, &captured, &learned, settings);
        for (gap, (found, _)) in gaps.iter().zip(follower.recover(&gaps)) {
            let Some(found) = found else { continue };
            // The way back reports the same frames as following the fill once more.
            let followed = Recovered { frames: None, ..found.clone() };
            prop_assert_eq!(follower.frames_after(gap, &found), follower.frames_after(gap, &followed));
            prop_assert_eq!(found.nodes.len(), found.confidence.len());
            prop_assert!(found.confidence.iter().all(|c| (0.0..=1.0).contains(&c)));
            let ends = (captured.segment(gap.hole.before).last(), captured.segment(gap.hole.after).first());
            if let Some(at) = found.broken {
                let (front, back) = found.nodes.split_at(at);
                prop_assert!(gap.expected.is_some() && !found.nodes.is_empty());
                prop_assert!(runs(&g, ends.0.into_iter().chain(front)), "{:?}", found);
                prop_assert!(runs(&g, back.iter().chain(ends.1)), "{:?}", found);
                continue;
            }
            prop_assert!(connects(&g, &captured, &gap.hole, &found.nodes));
            prop_assert!(found.misfit.is_none_or(|m| m <= settings.misfit));
            let (Below::Frames(before), Below::Frames(after)) = (gap.before, gap.after) else { continue };
            let (last, first) = (captured.segment(gap.hole.before).last(), captured.segment(gap.hole.after)[0]);
            let whole: Vec<Node> = last.into_iter().chain(&found.nodes).chain([&first]).copied().collect();
            prop_assert_eq!(paired(&g, before.to_vec(), &whole), Some(after.to_vec()));
        }
    }
}

/// The beginning and end of each segment of [`cut`].
fn ends_of(len: &usize, cuts: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut at = 0;
    for (keep, drop) in cuts {
        let end = (at + keep).min(*len);
        all.push((at, end));
        at = (end + drop).min(*len);
    }
    all.push((at, *len));
    all
}

/// The frames at the end of `nodes`, if calls and returns are paired on that path.
fn paired(g: &Icfg, mut stack: Vec<Node>, nodes: &[Node]) -> Option<Vec<Node>> {
    for pair in nodes.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let within = |n: Node| g.edges(n).any(|(_, m)| m == to);
        if g.opcode(from).transfer() == Transfer::Return {
            within(stack.pop()?).then_some(())?;
        } else if g.may_call(from, to) && !within(from) {
            stack.push(from);
        } else if !within(from) && !g.handlers(from).any(|h| h == to) {
            loop {
                let site = stack.pop()?;
                if g.handlers(site).any(|h| h == to) {
                    break;
                }
            }
        }
    }
    Some(stack)
}

/// Removes stretches from `nodes`.
fn cut(nodes: &[Node], cuts: &[(usize, usize)]) -> Vec<Vec<Node>> {
    let mut rest = nodes;
    let mut segments = Vec::new();
    for (keep, drop) in cuts {
        let (kept, behind) = rest.split_at((*keep).min(rest.len()));
        segments.push(kept.to_vec());
        rest = &behind[(*drop).min(behind.len())..];
    }
    segments.push(rest.to_vec());
    segments
}

fn runs<'n>(g: &Icfg, nodes: impl Iterator<Item = &'n Node>) -> bool {
    is_path(g, &nodes.copied().collect::<Vec<_>>())
}

fn connects(g: &Icfg, captured: &Captured, hole: &Hole, fill: &[Node]) -> bool {
    let (before, after) = (captured.segment(hole.before), captured.segment(hole.after));
    let whole: Vec<Node> = before.last().into_iter().chain(fill).chain(after.first()).copied().collect();
    is_path(g, &whole)
}
