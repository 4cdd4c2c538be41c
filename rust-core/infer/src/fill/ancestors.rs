// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The frames of a thread along a path that is followed backwards.

use super::frames::Frames;
use crate::cut::FrameSites;
use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node, Transfer};

/// A frame that ended before the point where the walk began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EndedFrame {
    /// It returned to the instruction after this call site.
    Returned(Node),
    /// An exception left it, and those above it of which nothing is known, for this handler.
    Thrown(Node),
}

/// The innermost of the frames that have ended above an ancestor, as a number; 0 if there is
/// none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Above(u32);

impl Above {
    /// Whether no ended frame lies above the ancestor.
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// The frames along a backward walk.
///
/// The frames that still exist where the walk began are the *ancestors*. The walk is in the
/// innermost ancestor that it has not left, or in a frame above it that ended before the point
/// where the walk began.
#[derive(Debug)]
pub(super) struct Ancestors<'a> {
    icfg: &'a Icfg,
    /// Frames that have ended, numbered from 1. Each has the number of the frame below it,
    /// which is lower.
    ended: Vec<(EndedFrame, Above)>,
    above: Above,
    /// Entries up to this number are kept, because `place` has handed out their numbers.
    told: u32,
    /// How many of the frames from `above` down to the ancestor an exception left.
    thrown: usize,
    /// The known call sites below the ancestor reached, outermost first.
    below: Vec<Node>,
    /// Whether nothing lies below these.
    whole: bool,
    /// Number of ancestors that the walk has left, that is, that were entered between here and
    /// where the walk began.
    level: usize,
}

/// What a step back does to the frames.
enum StepBack {
    /// They stay as they are.
    Stay,
    /// The walk enters a frame that has ended.
    End(EndedFrame),
    /// The walk reaches the call of such a frame.
    Begin,
    /// The walk reaches the call of an ancestor.
    Out,
}

impl<'a> Ancestors<'a> {
    /// A walk that begins where these frames lie below.
    pub(super) fn new(icfg: &'a Icfg, below: &FrameSites) -> Self {
        let (ended, above, told, thrown) = (Vec::new(), Above::default(), 0, 0);
        Self { icfg, ended, above, told, thrown, below: below.sites.clone(), whole: below.whole, level: 0 }
    }
    /// The number of ancestors left, that is, entered between here and where the walk began,
    /// and the ended frames above the ancestor reached. `None` if these frames are unknown.
    pub(super) fn place(&mut self) -> Option<(usize, Above)> {
        self.told = self.told.max(self.above.0);
        self.are_known().then_some((self.level, self.above))
    }
    /// Whether [`Self::place`] returns `Some`.
    pub(super) const fn are_known(&self) -> bool {
        self.thrown == 0
    }
    /// The call site of the frame that the walk is in, if it is known.
    pub(super) fn caller(&self) -> Option<Node> {
        match self.top() {
            Some((EndedFrame::Returned(site), _)) => Some(site),
            Some(_) => None,
            None => self.below.last().copied(),
        }
    }
    fn top(&self) -> Option<(EndedFrame, Above)> {
        self.entry(self.above)
    }
    fn entry(&self, above: Above) -> Option<(EndedFrame, Above)> {
        self.ended.get((above.0 as usize).checked_sub(1)?).copied()
    }
    /// Goes back from `to` to `from`. Returns false and changes nothing if these frames do not
    /// allow it.
    pub(super) fn back(&mut self, from: Node, to: Node) -> bool {
        match self.step(from, to) {
            Some(StepBack::Stay) => {}
            Some(StepBack::End(ended)) => {
                self.thrown += usize::from(matches!(ended, EndedFrame::Thrown(_)));
                self.ended.push((ended, self.above));
                self.above = Above(self.ended.len() as u32);
            }
            Some(StepBack::Begin) => {
                if let Some((ended, below)) = self.top() {
                    self.thrown -= usize::from(matches!(ended, EndedFrame::Thrown(_)));
                    if self.above.0 as usize == self.ended.len() && self.above.0 > self.told {
                        self.ended.pop();
                    }
                    self.above = below;
                }
            }
            Some(StepBack::Out) => {
                self.below.pop();
                self.level += 1;
            }
            None => return false,
        }
        true
    }
    /// Whether [`Self::back`] may go from `to` to `from`.
    pub(super) fn allow(&self, from: Node, to: Node) -> bool {
        self.step(from, to).is_some()
    }
    fn step(&self, from: Node, to: Node) -> Option<StepBack> {
        let g = self.icfg;
        let transfer = g.opcode(from).transfer();
        if transfer == Transfer::Return {
            return self.over_return(from, to);
        }
        let calls = || transfer == Transfer::Invoke && g.may_call(from, to);
        // The entry of another method is reached only by a call, even if the graph does not
        // know this call.
        if g.is_entry(to) && g.method(to) != g.method(from) || calls() {
            return self.over_call(from);
        }
        if g.edges(from).any(|(_, n)| n == to) || g.handlers(from).any(|n| n == to) {
            return Some(StepBack::Stay);
        }
        if g.is_entry(to) {
            return self.over_call(from);
        }
        g.rows_into(to).next().map(|_| StepBack::End(EndedFrame::Thrown(to)))
    }
    fn over_return(&self, from: Node, to: Node) -> Option<StepBack> {
        let g = self.icfg;
        let site = to.0.checked_sub(1).map(Node).filter(|site| g.edges(*site).any(|(_, n)| n == to));
        if let Some((site, entry)) = site.zip(g.entry(g.method(from)))
            && g.may_call(site, entry)
        {
            return Some(StepBack::End(EndedFrame::Returned(site)));
        }
        // After the return, code outside the graph that had called this frame may have called
        // again.
        let outside = |site: Option<&Node>| site.is_none_or(|site| g.is_outside(*site));
        let once_more = g.is_entry(to)
            && match self.top().map(|top| top.0) {
                None => outside(self.below.last()),
                Some(EndedFrame::Returned(site)) => outside(Some(&site)),
                Some(EndedFrame::Thrown(_)) => true,
            };
        once_more.then_some(StepBack::Stay)
    }
    fn over_call(&self, site: Node) -> Option<StepBack> {
        match self.top().map(|top| top.0) {
            Some(EndedFrame::Returned(behind)) => (behind == site).then_some(StepBack::Begin),
            // `site` lies in the frame of the handler, or, in the next arm, in a frame that the
            // exception left.
            Some(EndedFrame::Thrown(handler)) if self.icfg.handlers(site).any(|h| h == handler) => {
                Some(StepBack::Begin)
            }
            Some(EndedFrame::Thrown(_)) => (!self.icfg.catches_all(site)).then_some(StepBack::Stay),
            None => {
                let known = self.below.last().map_or(!self.whole, |known| *known == site);
                known.then_some(StepBack::Out)
            }
        }
    }
    /// The number of ended frames from `above` down to the ancestor.
    pub(super) fn count(&self, above: Above) -> usize {
        std::iter::successors(self.entry(above), |(_, below)| self.entry(*below)).count()
    }
    /// Whether `frames` may be the ended frames `above` on top of the call sites `sites`.
    /// `whole` says that nothing lies below `sites`.
    pub(super) fn may_be(&self, frames: &Frames<'_>, above: Above, sites: &[Node], whole: bool) -> bool {
        let mut known = frames.sites();
        let mut above = above;
        while let Some((ended, below)) = self.entry(above) {
            let Some((last, others)) = known.split_last() else { return !frames.is_whole() };
            if ended != EndedFrame::Returned(*last) {
                return false;
            }
            (known, above) = (others, below);
        }
        frames.may_have(known.len(), sites, whole)
    }
}

/// The call sites below the first instruction of `post`, including those that become known when
/// its frames return.
pub(super) fn revealed(icfg: &Icfg, below: Below<'_>, post: &[Node]) -> FrameSites {
    let mut frames = Frames::new(icfg, below);
    let mut all = frames.known();
    let mut learned = Vec::new();
    // How many of the initial frames still exist.
    let mut stayed = all.sites.len();
    for pair in post.windows(2).filter(|pair| !is_straight(icfg, pair)) {
        let returns = icfg.opcode(pair[0]).transfer() == Transfer::Return && !icfg.is_entry(pair[1]);
        let bottom = frames.depth() == 0 && stayed == 0 && !frames.is_whole();
        let caught = || frames.sites().iter().any(|site| icfg.handlers(*site).any(|h| h == pair[1]));
        // Whether an exception left more frames than are known.
        let lost = !returns && !steps_up(icfg, pair[0], pair[1]) && !caught();
        if !frames.follow(pair[0], pair[1]) {
            break;
        }
        match icfg.site_before(pair[1]) {
            Some(site) if bottom && returns => learned.push(site),
            _ if lost => break,
            _ => {}
        }
        stayed = stayed.min(frames.depth());
    }
    if !learned.is_empty() {
        learned.reverse();
        learned.append(&mut all.sites);
        all.sites = learned;
    }
    all
}

/// Whether the first of `pair` is no transfer of control and the second is the next instruction
/// in the code. Any frames allow this step and stay as they are.
pub(super) fn is_straight(icfg: &Icfg, pair: &[Node]) -> bool {
    pair[0].0 + 1 == pair[1].0 && icfg.opcode(pair[0]).transfer() == Transfer::None
}

/// Whether `to` follows `from` in the same frame or in one that `from` called.
fn steps_up(icfg: &Icfg, from: Node, to: Node) -> bool {
    icfg.edges(from).any(|(_, n)| n == to)
        || icfg.handlers(from).any(|n| n == to)
        || icfg.may_call(from, to)
        || icfg.is_entry(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{at, calling, catching, graph, method};

    /// Methods 0 `main` and 1 `other` call 2 `f`, which calls 3 `g`. `main` catches exceptions.
    fn program() -> Icfg {
        let caller = |name: &str, callee| calling(method(name, &[184, 0, 1, 177, 75, 177]), &[callee]);
        let main = catching(caller("main", "f"), 0, 3, 4);
        graph(vec![main, caller("other", "f"), caller("f", "g"), method("g", &[1, 177, 191])])
    }
    fn ancestors<'g>(g: &'g Icfg, sites: &[Node], whole: bool) -> Ancestors<'g> {
        Ancestors::new(g, &FrameSites { sites: sites.to_vec(), whole })
    }
    /// Goes back along `path`, from its last node to its first.
    fn goes(all: &mut Ancestors<'_>, path: &[Node]) -> bool {
        path.windows(2).rev().all(|pair| all.back(pair[0], pair[1]))
    }

    #[test]
    fn calls_and_returns_are_paired_backwards() {
        let g = program();
        let call = [at(&g, 1, &[0]), at(&g, 2, &[0]), at(&g, 3, &[0, 1]), at(&g, 2, &[3])].concat();
        let mut all = ancestors(&g, &[], false);
        assert!(goes(&mut all, &[&call[..], &at(&g, 1, &[3])].concat()));
        assert!(all.place().is_some_and(|(level, above)| level == 0 && above.is_none()));
        // f returned to other, so main did not call it.
        let mut all = ancestors(&g, &[], false);
        let wrong = [at(&g, 0, &[0]), call[1..].to_vec(), at(&g, 1, &[3])].concat();
        assert!(!goes(&mut all, &wrong));
        assert_eq!(all.caller(), Some(at(&g, 1, &[0])[0]));
    }

    #[test]
    fn frames_known_after_the_gap_were_called_where_they_say() {
        let g = program();
        let (f, site) = (at(&g, 2, &[0])[0], at(&g, 1, &[0]));
        for (below, whole, main, other) in
            [(&site[..], true, false, true), (&[], true, false, false), (&[], false, true, true)]
        {
            let back = |m: u32| ancestors(&g, below, whole).back(at(&g, m, &[0])[0], f);
            assert_eq!((back(0), back(1)), (main, other), "{below:?} {whole}");
        }
        let mut all = ancestors(&g, &site, true);
        assert!(all.back(site[0], f));
        assert!(all.place().is_some_and(|(level, above)| level == 1 && above.is_none()));
        assert!(all.caller().is_none());
    }

    #[test]
    fn what_an_exception_left_is_unknown_up_to_who_caught_it() {
        let g = program();
        let mut all = ancestors(&g, &[], false);
        let path = [at(&g, 0, &[0]), at(&g, 2, &[0]), at(&g, 3, &[0, 2]), at(&g, 0, &[4])].concat();
        assert!(all.back(path[3], path[4]));
        assert!(all.place().is_none());
        assert!(goes(&mut all, &path[..3]));
        assert!(all.place().is_some_and(|(level, above)| level == 0 && above.is_none()));
    }

    #[test]
    fn callers_show_when_frames_return() {
        let g = program();
        let post = [at(&g, 3, &[1]), at(&g, 2, &[3]), at(&g, 1, &[3])].concat();
        let sites = [at(&g, 1, &[0]), at(&g, 2, &[0])].concat();
        assert_eq!(revealed(&g, Below::Unknown, &post), FrameSites { sites: sites.clone(), whole: false });
        assert_eq!(
            revealed(&g, Below::Top(&sites[1..]), &post),
            FrameSites { sites: sites.clone(), whole: false }
        );
        assert_eq!(revealed(&g, Below::Frames(&sites), &post), FrameSites { sites, whole: true });
    }

    #[test]
    fn who_catches_what_leaves_the_first_frame_is_not_its_caller() {
        // As in `program`: 0 main and 1 other call 2 f, which calls 3 g; main catches. 4 start
        // calls main.
        let caller = |name: &str, callee| calling(method(name, &[184, 0, 1, 177, 75, 177]), &[callee]);
        let main = catching(caller("main", "f"), 0, 3, 4);
        let (f, last) = (caller("f", "g"), method("g", &[1, 191]));
        let g = graph(vec![main, caller("other", "f"), f, last, caller("start", "main")]);
        // f calls g, which throws, and main, which catches, returns.
        let post = [at(&g, 2, &[0]), at(&g, 3, &[0, 1]), at(&g, 0, &[4, 5]), at(&g, 4, &[3])].concat();
        assert_eq!(revealed(&g, Below::Unknown, &post), FrameSites { sites: vec![], whole: false });
        // Where main is known to have called f, start called main.
        let called = at(&g, 0, &[0]);
        let sites = [at(&g, 4, &[0]), called.clone()].concat();
        assert_eq!(revealed(&g, Below::Top(&called), &post), FrameSites { sites, whole: false });
    }

    #[test]
    fn frames_may_be_those_at_a_place() {
        let g = program();
        let sites = [at(&g, 1, &[0]), at(&g, 2, &[0])].concat();
        let mut all = ancestors(&g, &[], false);
        assert!(all.back(at(&g, 3, &[1])[0], at(&g, 2, &[3])[0]));
        let (_, above) = all.place().unwrap();
        let may = |frames: Below<'_>, below: &[Node], whole| {
            all.may_be(&Frames::new(&g, frames), above, below, whole)
        };
        // f called g; the frames below may be those that are known at the place.
        assert!(may(Below::Frames(&sites), &sites[..1], true) && may(Below::Unknown, &sites[..1], true));
        assert!(may(Below::Frames(&sites), &[], false) && !may(Below::Frames(&sites), &[], true));
        assert!(!may(Below::Frames(&sites[..1]), &[], false) && !may(Below::Frames(&[]), &[], false));
    }
}
