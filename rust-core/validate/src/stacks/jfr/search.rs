// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Searches the flow of one thread for stacks.
//!
//! A stack is known by a hash of its frames: of each its method, and where its caller is. What the
//! top frame executes is not part of it. The hash is a polynomial, so that pushing and popping a
//! frame is one step, and so that the hash of the innermost frames alone follows from two hashes.

use hashbrown::{HashMap, HashSet};

use super::read::{JfrFrameType, JfrSample};

/// Where the caller of a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CallSite {
    /// There is no caller.
    Bottom,
    /// In a native method.
    Native,
    /// At a bytecode.
    At(u16),
    /// Not known.
    Unknown,
}

impl CallSite {
    const fn code(self) -> u64 {
        match self {
            Self::Bottom => 0,
            Self::Native => 1,
            Self::At(bci) => 2 + bci as u64,
            Self::Unknown => 1 << 17,
        }
    }
}

const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads the bits of a number (the finaliser of SplitMix64).
const fn spread(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

const fn item(method: u64, site: CallSite) -> u64 {
    spread(method << 18 | site.code())
}

/// The hashes of all stacks that consist of the outermost frames, and the methods of the frames.
#[derive(Debug, Default)]
pub(super) struct StackHashes {
    all: Vec<u64>,
    methods: Vec<u64>,
}

impl StackHashes {
    pub(super) fn push(&mut self, method: u64, site: CallSite) {
        self.all.push(self.whole().wrapping_mul(BASE).wrapping_add(item(method, site)));
        self.methods.push(method);
    }
    pub(super) fn truncate(&mut self, depth: usize) {
        self.all.truncate(depth);
        self.methods.truncate(depth);
    }
    pub(super) fn depth(&self) -> usize {
        self.all.len()
    }
    /// Of the outermost frames, by their number from 1.
    pub(super) fn all(&self) -> &[u64] {
        &self.all
    }
    pub(super) fn whole(&self) -> u64 {
        self.all.last().copied().unwrap_or(0)
    }
    pub(super) fn top(&self) -> Option<u64> {
        self.methods.last().copied()
    }
    /// Of the `n` innermost frames, whatever is below them. `None` if there are fewer.
    pub(super) fn innermost(&self, n: usize) -> Option<u64> {
        let lowest = self.depth().checked_sub(n)?;
        let below = self.all.get(lowest)?.wrapping_mul(BASE.wrapping_pow(n as u32 - 1));
        // Where the lowest frame was called does not count.
        Some(spread(self.whole().wrapping_sub(below) ^ spread(self.methods[lowest] << 1 | 1)))
    }
    /// Of the frames of a sample.
    pub(super) fn of(sample: &JfrSample) -> Self {
        let mut hashes = Self::default();
        let mut site = CallSite::Bottom;
        for frame in sample.frames.iter().rev() {
            hashes.push(u64::from(frame.method), site);
            site = match frame.kind {
                JfrFrameType::Native => CallSite::Native,
                _ => CallSite::At(frame.bci),
            };
        }
        hashes
    }
}

/// The times at which samples with one stack were taken, and how near to each the thread had it.
#[derive(Debug, Default)]
struct Sightings {
    /// Time, and number of the sample, in order.
    wanted: Vec<(u64, usize)>,
    /// Of the first ones, the distance to the nearest time at which the thread had the stack.
    nearest: Vec<u64>,
    /// The end of the last time at which it had the stack.
    last: Option<u64>,
    /// The step in which it was noted last.
    noted: u64,
}

impl Sightings {
    /// The thread had the stack at some moment between two times.
    fn seen(&mut self, since: u64, until: u64) {
        while let Some(&(time, _)) = self.wanted.get(self.nearest.len()).filter(|w| w.0 <= until) {
            let before = self.last.map_or(u64::MAX, |last| time.saturating_sub(last));
            self.nearest.push(before.min(since.saturating_sub(time)));
        }
        self.last = self.last.max(Some(until));
    }
    /// Number of each sample and its distance. `None`: the thread never had the stack.
    fn results(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        let after = |time: u64| self.last.map(|last| time.saturating_sub(last));
        self.wanted
            .iter()
            .enumerate()
            .map(move |(i, &(time, sample))| (sample, self.nearest.get(i).copied().or_else(|| after(time))))
    }
}

/// One stack, with the bytecodes at which samples have the top frame.
#[derive(Debug, Default)]
struct StackTarget {
    any: Sightings,
    by_bci: Vec<(u16, Sightings)>,
}

/// How near to a sample's time the thread had its stack, in ticks. `None`: never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Nearest {
    /// The stack, whatever bytecode the top frame executed.
    pub(super) stack: Option<u64>,
    /// The stack, when the top frame began the sample's bytecode.
    pub(super) bytecode: Option<u64>,
}

/// The stacks of a thread's samples, found while the flow is followed.
#[derive(Debug, Default)]
pub(super) struct StackSearch {
    targets: Vec<StackTarget>,
    by_hash: HashMap<u64, usize>,
    /// Numbers of frames of the truncated samples.
    cuts: Vec<usize>,
    /// The methods of top frames.
    tops: HashSet<u64>,
    /// The targets that are the present stack.
    current: Vec<usize>,
    /// What was seen since `since`: the target, and the index of the bytecode, or that of none.
    noted: Vec<(usize, usize)>,
    /// Number of the present step of time, from 1.
    step: u64,
    since: u64,
}

/// In [`StackSearch::noted`]: the stack, whatever bytecode.
const ANY: usize = usize::MAX;

impl StackSearch {
    /// Samples with their times, in order of time.
    pub(super) fn new<'s>(samples: impl Iterator<Item = (u64, &'s JfrSample)>, since: u64) -> Self {
        let mut search = Self { step: 1, since, ..Self::default() };
        for (n, (time, sample)) in samples.enumerate() {
            let hashes = StackHashes::of(sample);
            let depth = hashes.depth();
            let hash = if sample.truncated { hashes.innermost(depth) } else { Some(hashes.whole()) };
            if sample.truncated && !search.cuts.contains(&depth) {
                search.cuts.push(depth);
            }
            let (Some(hash), Some(top)) = (hash, hashes.top()) else { continue };
            search.tops.insert(top);
            let next = search.targets.len();
            let target = *search.by_hash.entry(hash).or_insert(next);
            if target == next {
                search.targets.push(StackTarget::default());
            }
            let StackTarget { any, by_bci } = &mut search.targets[target];
            any.wanted.push((time, n));
            let Some(frame) = sample.frames.first().filter(|f| f.kind != JfrFrameType::Native) else {
                continue;
            };
            let at = by_bci.iter().position(|(bci, _)| *bci == frame.bci).unwrap_or(by_bci.len());
            if at == by_bci.len() {
                by_bci.push((frame.bci, Sightings::default()));
            }
            by_bci[at].1.wanted.push((time, n));
        }
        search
    }
    fn note(&mut self, target: usize, at: usize) {
        let StackTarget { any, by_bci } = &mut self.targets[target];
        let sightings = if at == ANY { any } else { &mut by_bci[at].1 };
        if sightings.noted != self.step {
            sightings.noted = self.step;
            self.noted.push((target, at));
        }
    }
    /// The thread has this stack now. `bci`: what the top frame began last.
    pub(super) fn is_now(&mut self, hashes: &StackHashes, bci: Option<u16>) {
        self.current.clear();
        if !hashes.top().is_some_and(|top| self.tops.contains(&top)) {
            return;
        }
        let cut = self.cuts.iter().filter(|n| hashes.depth() > **n).filter_map(|n| hashes.innermost(*n));
        let found = cut.chain([hashes.whole()]).filter_map(|hash| self.by_hash.get(&hash));
        self.current.extend(found);
        self.remains(bci);
    }
    /// The present stack is that of a later moment, too.
    fn remains(&mut self, bci: Option<u16>) {
        for i in 0..self.current.len() {
            self.note(self.current[i], ANY);
        }
        if let Some(bci) = bci {
            self.ran(bci, bci, |_| true);
        }
    }
    /// The top frame began the bytecodes from `first` to `last`. `begins`: whether a bytecode
    /// between them begins at this bci.
    pub(super) fn ran(&mut self, first: u16, last: u16, mut begins: impl FnMut(u16) -> bool) {
        for i in 0..self.current.len() {
            let target = self.current[i];
            for at in 0..self.targets[target].by_bci.len() {
                let bci = self.targets[target].by_bci[at].0;
                let is_inside = bci == first || bci == last || (first..=last).contains(&bci) && begins(bci);
                if is_inside {
                    self.note(target, at);
                }
            }
        }
    }
    /// It is `now`. What the top frame began last is `bci`.
    pub(super) fn at(&mut self, now: u64, bci: Option<u16>) {
        for (target, at) in self.noted.drain(..) {
            let StackTarget { any, by_bci } = &mut self.targets[target];
            let sightings = if at == ANY { any } else { &mut by_bci[at].1 };
            sightings.seen(self.since, now);
        }
        self.since = self.since.max(now);
        self.step += 1;
        self.remains(bci);
    }
    /// The results, by the number of the sample.
    pub(super) fn results(&self, samples: usize) -> Vec<Nearest> {
        let mut all = vec![Nearest::default(); samples];
        for target in &self.targets {
            target.any.results().for_each(|(n, ticks)| all[n].stack = ticks);
            if target.by_bci.is_empty() {
                // The top frame is native.
                target.any.results().for_each(|(n, ticks)| all[n].bytecode = ticks);
            }
            for (_, sightings) in &target.by_bci {
                sightings.results().for_each(|(n, ticks)| all[n].bytecode = ticks);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(frames: &[(u64, CallSite)]) -> StackHashes {
        let mut hashes = StackHashes::default();
        frames.iter().for_each(|(method, site)| hashes.push(*method, *site));
        hashes
    }

    #[test]
    fn the_innermost_frames_have_a_hash_of_their_own() {
        use CallSite::{At, Bottom, Native};
        let long = hashes(&[(1, Bottom), (2, At(3)), (3, At(9)), (4, Native)]);
        let other = hashes(&[(7, Bottom), (8, At(1)), (9, At(1)), (3, At(8)), (4, Native)]);
        assert_eq!(long.innermost(2), other.innermost(2), "where the lowest frame was called is left out");
        assert_ne!(long.innermost(3), other.innermost(3));
        assert_ne!(long.innermost(2), hashes(&[(3, Bottom), (4, At(0))]).innermost(2));
        assert_ne!(long.innermost(2), hashes(&[(5, Bottom), (4, Native)]).innermost(2));
        assert!(long.innermost(4).is_some() && long.innermost(5).is_none());
        assert_ne!(long.whole(), other.whole());
        let mut popped = hashes(&[(1, Bottom), (2, At(3)), (5, At(4))]);
        popped.truncate(2);
        popped.push(3, At(9));
        assert_eq!(popped.whole(), long.all()[2]);
    }

    #[test]
    fn the_nearest_time_is_before_at_or_after() {
        let mut s =
            Sightings { wanted: (1..=6).map(|n| (10 * n, n as usize)).collect(), ..Default::default() };
        s.seen(15, 18);
        s.seen(28, 42);
        s.seen(42, 43);
        let found: Vec<_> = s.results().map(|(_, ticks)| ticks.unwrap()).collect();
        assert_eq!(found, [5, 2, 0, 0, 7, 17]);
        let never = Sightings { wanted: vec![(1, 1)], ..Default::default() };
        assert_eq!(never.results().next(), Some((1, None)));
    }
}
