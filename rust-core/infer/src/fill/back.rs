// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The way back: copies from the captured data, backwards, what led to the end of a gap.
//! [`Trail`](super::trail) does the same forwards.

use super::ancestors::{Above, Ancestors, revealed};
use super::contexts::Contexts;
use super::follow::GapEnd;
use super::frames::Frames;
use super::pace::Expected;
use super::passage::Spots;
use super::trail::Ground;
use super::{FillWork, Tier, Tiers, common};
use crate::cut::FrameSites;
use jportal_bytecode::{Icfg, Node, Transfer};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A point on the way back. A path that reaches it with the same frames can continue along the
/// way back to the end of the gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// Number of the frames known after the gap that have not been entered yet. The spot lies
    /// in, or above, the innermost frame that has been entered.
    pub(super) level: u32,
    /// The frames above that one, which end before the end of the gap.
    pub(super) above: Above,
    /// Number of instructions from here to the end of the gap.
    pub(super) len: u32,
    /// How often the way back switched to another place between here and the end of the gap.
    pub(super) hops: u32,
    /// The hash [`ahead`] of the instructions from here on.
    pub(super) ahead: Option<u32>,
}

/// Number of instructions that [`ahead`] hashes.
pub(super) const AHEAD: usize = 8;

/// A hash of the first [`AHEAD`] instructions, which others hardly ever share. `None` if there
/// are fewer.
pub(super) fn ahead<'n>(nodes: impl Iterator<Item = &'n Node>) -> Option<u32> {
    let mixed = |(len, hash): (usize, u32), node: &Node| {
        (len + 1, (hash ^ node.0).wrapping_mul(0x9e37_79b1).rotate_left(15))
    };
    let (len, hash) = nodes.take(AHEAD).fold((0, 0), mixed);
    (len == AHEAD).then_some(hash)
}

/// Number of spots with the same instruction that are kept.
pub(super) const SAME: usize = 32;

/// Spots with the same instruction, evenly spread over all that were noted.
#[derive(Debug, Default)]
pub(super) struct Same {
    spots: Vec<Spot>,
    /// The length of each spot, ascending. Lengths and call sites have vectors of their own, so
    /// that a search reads adjacent memory.
    lens: Vec<u32>,
    /// The call site below the frame of each spot, if it is known. A spot whose call site
    /// differs need not be compared any further.
    sites: Vec<Option<Node>>,
    /// Number of spots noted.
    seen: usize,
    /// One in this many spots is kept; 0 means 1.
    stride: usize,
}

impl Same {
    /// Counts a spot of this length, unless the last one kept has the same length. Returns
    /// whether it is to be [added](Self::add).
    fn counts(&mut self, len: u32) -> bool {
        if self.lens.last() == Some(&len) {
            return false;
        }
        let kept = self.seen.is_multiple_of(self.stride.max(1));
        self.seen += 1;
        kept
    }
    /// Removes all spots.
    fn clear(&mut self) {
        self.spots.clear();
        self.lens.clear();
        self.sites.clear();
        (self.seen, self.stride) = (0, 0);
    }
    fn add(&mut self, spot: Spot, site: Option<Node>) {
        if self.spots.len() == SAME {
            every_other(&mut self.spots);
            every_other(&mut self.lens);
            every_other(&mut self.sites);
            self.stride = 2 * self.stride.max(1);
        }
        self.lens.push(spot.len);
        self.sites.push(site);
        self.spots.push(spot);
    }
    /// All spots kept.
    pub(super) fn spots(&self) -> &[Spot] {
        &self.spots
    }
    /// The indices of the spots with lengths from `least` to `most`.
    pub(super) fn with_len(&self, (least, most): (u32, u32)) -> Range<usize> {
        // Counts all of them: they are few, and a processor cannot predict the branches of a
        // binary search.
        let from = self.lens.iter().filter(|len| **len < least).count();
        let to = self.lens.iter().filter(|len| **len <= most).count();
        from..to.max(from)
    }
    /// Those of the spots in `some` whose call site may be `site`.
    pub(super) fn called_from(&self, some: Range<usize>, site: Option<Node>) -> impl Iterator<Item = &Spot> {
        let differs = move |own: &Option<Node>| own.zip(site).is_some_and(|(own, site)| own != site);
        let all = self.sites[some.clone()].iter().zip(&self.spots[some]);
        all.filter(move |(own, _)| !differs(own)).map(|(_, spot)| spot)
    }
}

/// Removes every second element.
fn every_other<T>(all: &mut Vec<T>) {
    let mut kept = false;
    all.retain(|_| {
        kept = !kept;
        kept
    });
}

/// Limit of instructions in a row without a choice.
const FORCED: usize = 1 << 12;
/// The length of the way is checked once per this many instructions.
const TICK: usize = 64;
/// Number of instructions after the gap in which callers are looked for.
const REVEALED: usize = 1 << 14;

/// Number of nodes for whose spots a table keeps memory.
const SPARE: usize = 1 << 12;

/// The spots of a way back, by node.
#[derive(Debug, Default)]
struct SpotTable {
    /// Nodes with their spots. Entries from `used` on are not in use; they keep their memory
    /// for later.
    spots: Vec<(Node, Same)>,
    used: usize,
    /// For each node of the program, the index of its entry in `spots` plus 1; 0 if it has
    /// none. Read for every instruction of a trail.
    slots: Vec<u32>,
}

impl SpotTable {
    fn spots(&self) -> &[(Node, Same)] {
        &self.spots[..self.used]
    }
    /// The spots of `node`. Creates an empty entry if there is none.
    fn of(&mut self, node: Node) -> &mut Same {
        let slot = &mut self.slots[node.0 as usize];
        if *slot == 0 {
            match self.spots.get_mut(self.used) {
                Some(spare) => spare.0 = node,
                None => self.spots.push((node, Same::default())),
            }
            self.used += 1;
            *slot = self.used as u32;
        }
        &mut self.spots[*slot as usize - 1].1
    }
    fn clear(&mut self) {
        for (node, same) in &mut self.spots[..self.used] {
            self.slots[node.0 as usize] = 0;
            same.clear();
        }
        self.spots.truncate(SPARE);
        self.used = 0;
    }
}

/// Tables that are not in use. A table has a slot for every node of the program and keeps the
/// memory of its spots, so it is reused for the next gap.
#[derive(Debug, Default)]
pub(super) struct Tables(Mutex<Vec<SpotTable>>);

impl Tables {
    fn take(&self, nodes: usize) -> SpotTable {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        table.slots.resize(nodes, 0);
        table
    }
    fn give(&self, table: SpotTable) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(table);
    }
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.table.clear();
        self.ground.tables.give(std::mem::take(&mut self.table));
    }
}

/// The way back from the end of a gap.
pub(super) struct Back<'a> {
    ground: Ground<'a>,
    expected: Option<Expected>,
    /// Position of the first instruction after the gap.
    begin: usize,
    /// The instructions of its segment.
    post: &'a [Node],
    /// The frames below the first instruction after the gap.
    below: FrameSites,
    ancestors: Ancestors<'a>,
    /// The instructions of the way, the last one of the gap first.
    nodes: Vec<Node>,
    /// The next transfers of control, the nearest last. Each has the position after it relative
    /// to the end of the gap: positive after the gap, 0 or negative in it.
    transfers: Vec<(Node, isize)>,
    /// Number of instructions before the nearest transfer.
    offset: usize,
    hops: usize,
    table: SpotTable,
}

impl<'a> Back<'a> {
    /// An empty way back from `end`.
    pub(super) fn new(ground: Ground<'a>, end: &GapEnd<'_>) -> Self {
        let range = ground.captured.range(end.segment);
        let (begin, post) = (range.start, &ground.captured.nodes()[range]);
        let below = revealed(ground.icfg, end.frames, &post[..post.len().min(REVEALED)]);
        let is_transfer = |n: &Node| ground.icfg.tier(*n) <= Tier::Control;
        let offset = post.iter().position(is_transfer).unwrap_or(post.len());
        let near = (1..).zip(post).take(ground.settings.context).filter(|(_, n)| is_transfer(n));
        let mut transfers: Vec<(Node, isize)> =
            near.take(Contexts::longest()).map(|(behind, n)| (*n, behind)).collect();
        transfers.reverse();
        let ancestors = Ancestors::new(ground.icfg, &below);
        let table = ground.tables.take(ground.icfg.len());
        let nodes = Vec::new();
        let expected = end.expected;
        Self { ground, expected, begin, post, below, ancestors, nodes, transfers, offset, hops: 0, table }
    }
    /// The instruction that the walk has reached.
    fn head(&self) -> Option<Node> {
        self.nodes.last().or(self.post.first()).copied()
    }
    /// The first instruction after the gap.
    pub(super) fn first(&self) -> Option<Node> {
        self.post.first().copied()
    }
    /// The spots in frames that still exist after the gap, by method.
    pub(super) fn by_method(&self, icfg: &Icfg) -> Spots<'_> {
        let mut all = Spots::new();
        for (node, spots) in self.table.spots() {
            let there = spots.spots.iter().filter(|spot| spot.above.is_none());
            all.entry(icfg.method(*node)).or_default().extend(there.map(|spot| (*node, spot)));
        }
        for spots in all.values_mut() {
            spots.sort_unstable_by_key(|(node, spot)| (spot.len, *node));
        }
        all
    }
    /// The instructions with spots in frames that still exist after the gap.
    pub(super) fn nodes_there(&self) -> impl Iterator<Item = Node> + '_ {
        let there = |same: &Same| same.spots.iter().any(|spot| spot.above.is_none());
        self.table.spots().iter().filter(move |(_, same)| there(same)).map(|(node, _)| *node)
    }
    /// The number of `node` among the instructions with spots, if it has any; less than
    /// [`Self::count`].
    pub(super) fn number(&self, node: Node) -> Option<usize> {
        self.table.slots[node.0 as usize].checked_sub(1).map(|slot| slot as usize)
    }
    /// How many instructions have spots.
    pub(super) const fn count(&self) -> usize {
        self.table.used
    }
    /// The spots of the instruction with this number.
    pub(super) fn numbered(&self, number: usize) -> &Same {
        &self.table.spots[number].1
    }
    /// The spots of `node`, if there are any.
    pub(super) fn spots(&self, node: Node) -> Option<&Same> {
        self.number(node).map(|number| self.numbered(number))
    }
    /// The first of `nodes` that has spots.
    pub(super) fn next_spot(&self, nodes: Range<u32>) -> Option<Node> {
        let slots = &self.table.slots[nodes.start as usize..nodes.end as usize];
        (nodes.start..).zip(slots).find(|(_, slot)| **slot != 0).map(|(node, _)| Node(node))
    }
    /// The `len` instructions from a spot to the end of the gap, then what follows the gap.
    pub(super) fn from(&self, len: usize) -> impl Iterator<Item = &Node> {
        self.nodes[..len].iter().rev().chain(self.post)
    }
    /// For how many instructions `nodes` agrees with [`Self::from`] of the same `len`.
    pub(super) fn common(&self, len: usize, nodes: &[Node]) -> usize {
        match common::mirrored(&self.nodes[..len], nodes) {
            all if all == len => all + common::prefix(self.post, &nodes[all..]),
            part => part,
        }
    }
    /// Whether `frames` may be those at `spot`.
    pub(super) fn may_be(&self, frames: &Frames<'_>, spot: &Spot) -> bool {
        let (sites, whole) = self.below(spot.level);
        self.ancestors.may_be(frames, spot.above, sites, whole)
    }
    /// The frames below the first instruction after the gap if those at `spot` are `frames`.
    /// `None` if frames were entered in between whose call sites are not known.
    pub(super) fn frames_after(&self, mut frames: FrameSites, spot: &Spot) -> Option<FrameSites> {
        let entered = self.below.sites.len().checked_sub(spot.level as usize)?;
        frames.sites.truncate(frames.sites.len().saturating_sub(self.ancestors.count(spot.above)));
        frames.sites.extend(&self.below.sites[entered..]);
        Some(frames)
    }
    /// The known call sites below the ancestor that a spot of this `level` lies in, outermost
    /// first, and whether nothing lies below them.
    pub(super) fn below(&self, level: u32) -> (&[Node], bool) {
        let left = self.below.sites.len().saturating_sub(level as usize);
        (&self.below.sites[..left], self.below.whole)
    }
    /// Number of instructions of the way.
    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }
    /// The `len` instructions from a spot to the end of the gap.
    pub(super) fn way(&self, len: usize) -> impl Iterator<Item = Node> {
        self.nodes[..len].iter().rev().copied()
    }
    /// Goes back for as long as the gap may be. Returns the number of instructions at the end
    /// of the gap that are without a choice, and the places that agree from there on, of which
    /// the first is followed.
    pub(super) fn run(&mut self, work: &mut FillWork) -> (usize, Vec<u32>) {
        self.note();
        self.forced_back();
        let forced = self.nodes.len();
        let settings = self.ground.settings;
        // Without the ICFG, a place must agree with instructions after the gap as well: it must
        // have been seen to lead here.
        let least = if settings.visits > 0 { 0 } else { settings.join.min(self.post.len()) };
        let alike = self.places(None).into_iter().filter(|p| p.1 >= forced + least);
        let first: Vec<u32> = alike.map(|p| p.0).collect();
        let mut next = first.first().copied();
        work.tried += u64::from(next.is_some());
        while !self.is_done() && self.hops <= self.ground.settings.hops {
            let stuck = match next {
                Some(place) => self.copy(place, work),
                None if !self.guess() => break,
                None => None,
            };
            self.forced_back();
            self.hops += 1;
            next = self.place(stuck);
        }
        self.note();
        (forced, first)
    }
    fn is_done(&self) -> bool {
        let settings = self.ground.settings;
        let over = match self.expected {
            Some(expected) => self.nodes.len() as f64 > expected.instructions + expected.slack,
            None => self.nodes.len() >= settings.untimed,
        };
        over || self.nodes.len() >= settings.longest
    }
    /// Notes a spot at the head: what reaches the head with the same frames can continue from
    /// here.
    fn note(&mut self) {
        let (Some(head), true) = (self.head(), self.ancestors.are_known()) else { return };
        let len = self.nodes.len() as u32;
        if !self.table.of(head).counts(len) {
            return;
        }
        if let Some((level, above)) = self.ancestors.place() {
            let (hops, site) = (self.hops as u32, self.ancestors.caller());
            let ahead = ahead(self.from(len as usize));
            self.table.of(head).add(Spot { level: level as u32, above, len, hops, ahead }, site);
        }
    }
    fn push(&mut self, node: Node, transfers: bool) {
        self.nodes.push(node);
        if transfers {
            self.offset = 0;
            self.transfers.push((node, 1 - self.nodes.len() as isize));
            if self.transfers.len() > 64 * Contexts::longest() {
                self.transfers.drain(..self.transfers.len() - Contexts::longest());
            }
        } else {
            self.offset += 1;
        }
    }
    /// Goes back while only one instruction can precede the head.
    fn forced_back(&mut self) {
        for _ in 0..FORCED {
            let Some((head, from)) = self.head().and_then(|head| Some((head, self.forced(head)?))) else {
                return;
            };
            if !self.step(from, head) {
                return;
            }
        }
    }
    /// Goes back from `to` to `from` if the frames allow it. Returns whether they do.
    fn step(&mut self, from: Node, to: Node) -> bool {
        let transfers = self.ground.icfg.tier(from) <= Tier::Control;
        if transfers {
            self.note();
        }
        let straight = !transfers && from.0 + 1 == to.0;
        let goes = straight || self.ancestors.back(from, to);
        if goes {
            self.push(from, transfers);
        }
        goes
    }
    /// The only instruction that may precede `head`, if there is just one.
    fn forced(&self, head: Node) -> Option<Node> {
        let g = self.ground.icfg;
        if g.is_entry(head) {
            return self.ancestors.caller();
        }
        let from = Node(head.0.checked_sub(1)?);
        let only = g.jumps_to(head).next().is_none()
            && g.rows_into(head).next().is_none()
            && g.opcode(from).transfer() == Transfer::None;
        only.then_some(from)
    }
    /// Goes back to the instruction that most often preceded the head, of those that the frames
    /// allow. Used where no place in the same context can be followed. Returns false if there
    /// is none.
    fn guess(&mut self) -> bool {
        let Some(head) = self.head().filter(|_| self.ground.settings.visits > 0) else { return false };
        let froms = self.ground.learned.frequencies.before(self.ground.icfg, head);
        froms.into_iter().any(|from| self.step(from, head))
    }
    /// Copies the instructions before `place`, backwards. Returns the position where that ended
    /// because the frames or the segment allow no more; `None` if the way is long enough.
    fn copy(&mut self, place: u32, work: &mut FillWork) -> Option<u32> {
        let captured = self.ground.captured;
        let to = place as usize;
        let start = captured.range(captured.segment_at(to)).start;
        let mut position = to;
        while position > start {
            let head = self.head()?;
            // Straight code up to the next check of the length needs no check of the frames.
            let ticks = (to - position) % TICK;
            let near = start.max(position.saturating_sub(TICK - 1 - ticks));
            let straight = captured.straight_back(near..position, head);
            if straight > 0 {
                work.read += straight as u64;
                self.nodes.extend(captured.nodes()[position - straight..position].iter().rev());
                self.offset += straight;
                position -= straight;
                continue;
            }
            position -= 1;
            work.read += 1;
            if (to - position).is_multiple_of(TICK) && self.is_done() {
                return None;
            }
            if !self.step(captured.nodes()[position], head) {
                return Some(position as u32 + 1);
            }
        }
        Some(start as u32)
    }
    /// Places in the same context from which the frames allow to go back, each with the number
    /// of instructions from there on that agree; the highest number first.
    fn places(&self, avoid: Option<u32>) -> Vec<(u32, usize)> {
        let Some(head) = self.head() else { return Vec::new() };
        let mut all: Vec<_> = self.alike(avoid).collect();
        all.sort_by_key(|p| std::cmp::Reverse(p.1));
        all.retain(|p| self.is_possible(p.0, head));
        all
    }
    /// The first of [`Self::places`].
    fn place(&self, avoid: Option<u32>) -> Option<u32> {
        let head = self.head()?;
        let mut best = (None, 0);
        for (place, common) in self.alike(avoid) {
            if common > best.1 && self.is_possible(place, head) {
                best = (Some(place), common);
                // No other place agrees with more.
                if common == self.ground.settings.context {
                    break;
                }
            }
        }
        best.0
    }
    /// Places in the same context, each with the number of instructions from there on that
    /// agree.
    fn alike(&self, avoid: Option<u32>) -> impl Iterator<Item = (u32, usize)> + '_ {
        let len = self.nodes.len();
        let next =
            self.transfers.iter().rev().map(|(node, behind)| (*node, len.saturating_add_signed(*behind)));
        let places = self.ground.learned.contexts.places_before(next).into_iter();
        places
            .filter(move |p| Some(*p) != avoid && *p as usize != self.begin)
            .map(|p| (p, self.common_after(p as usize)))
            .filter(|p| p.1 > self.offset)
    }
    /// Whether the instruction before `place` may precede `head`.
    fn is_possible(&self, place: u32, head: Node) -> bool {
        let (captured, place) = (self.ground.captured, place as usize);
        let segment = captured.segment_at(place);
        !captured.is_hidden(segment)
            && place > captured.range(segment).start
            && self.ancestors.allow(captured.nodes()[place - 1], head)
    }
    /// The number of instructions that agree from `position` on and from the head on.
    fn common_after(&self, position: usize) -> usize {
        let behind = self.ground.captured.from(position);
        self.common(self.nodes.len(), &behind[..behind.len().min(self.ground.settings.context)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_ahead_tells_sequences_apart() {
        let of = |all: &[u32]| ahead(all.iter().copied().map(Node).collect::<Vec<_>>().iter());
        let (same, longer) = ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(of(&same).is_some() && of(&same) == of(&longer));
        assert_eq!(of(&same[..AHEAD - 1]), None);
        // Another instruction at any index, or another order, changes the hash.
        for at in 0..AHEAD {
            let mut other = same;
            other[at] += 100;
            assert_ne!(of(&other), of(&same), "{at}");
        }
        assert_ne!(of(&[2, 1, 3, 4, 5, 6, 7, 8]), of(&same));
    }
}
