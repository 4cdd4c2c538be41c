// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How often the execution went which way: a first-order model of the captured data.

use super::{Captured, SegmentId, Tier, Tiers};
use hashbrown::HashMap;
use jportal_bytecode::{Icfg, Node, Transfer};
use jportal_units::MethodId;

/// What followed each transfer of control, and how often.
#[derive(Debug, Default)]
pub struct Frequencies {
    /// From, to, count; ascending.
    ways: Box<[(Node, Node, u32)]>,
    /// To, from, count; ascending.
    into: Box<[(Node, Node, u32)]>,
    /// Surprise per instruction, the mean of −ln p.
    surprise: f64,
}

/// Counts of ways. A table by source and target holds the recent ones, so that most additions
/// need no map.
#[derive(Default)]
struct WayCounts {
    all: HashMap<(Node, Node), u32>,
    recent: Vec<Option<(Node, Node, u32)>>,
}

/// Slots for recent ways.
const RECENT: usize = 1 << 14;

impl WayCounts {
    fn add(&mut self, from: Node, to: Node) {
        if self.recent.is_empty() {
            self.recent = vec![None; RECENT];
        }
        let slot =
            (from.0.wrapping_mul(0x9e37_79b9) ^ to.0.wrapping_mul(0x85eb_ca6b)) as usize >> 8 & (RECENT - 1);
        match &mut self.recent[slot] {
            Some((f, t, count)) if (*f, *t) == (from, to) => *count = count.saturating_add(1),
            other => {
                let old = other.replace((from, to, 1));
                self.put(old);
            }
        }
    }
    fn put(&mut self, way: Option<(Node, Node, u32)>) {
        if let Some((from, to, count)) = way {
            let sum = self.all.entry((from, to)).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    /// All ways, ascending.
    fn sorted(mut self) -> Box<[(Node, Node, u32)]> {
        std::mem::take(&mut self.recent).into_iter().for_each(|way| self.put(way));
        let mut ways: Box<[_]> = self.all.into_iter().map(|((from, to), n)| (from, to, n)).collect();
        ways.sort_unstable();
        ways
    }
}

/// The count of a way that the graph has and the execution never went.
const UNSEEN: f64 = 0.5;
/// Number of callees or callers taken from the graph in addition to those seen.
const CALLEES: usize = 16;

impl Frequencies {
    /// Counts the ways in `captured`, without hidden segments.
    pub fn new(captured: &Captured) -> Self {
        let mut counts = WayCounts::default();
        let segments = (0..captured.len() as u32).map(SegmentId);
        let mut transfers = Vec::new();
        for segment in segments.filter(|s| !captured.is_hidden(*s)) {
            captured.transfers(segment, &mut transfers);
            let nodes = &captured.nodes()[..captured.range(segment).end];
            for at in &transfers {
                if let Some([from, to]) = nodes.get(*at as usize..*at as usize + 2) {
                    counts.add(*from, *to);
                }
            }
        }
        let ways = counts.sorted();
        let mut into: Box<[_]> = ways.iter().map(|(from, to, n)| (*to, *from, *n)).collect();
        into.sort_unstable();
        let mut all = Self { ways, into, surprise: 0.0 };
        all.surprise = all.mean_surprise() / captured.nodes().len().max(1) as f64;
        all
    }
    fn mean_surprise(&self) -> f64 {
        let groups = self.ways.chunk_by(|a, b| a.0 == b.0);
        let of_group = |group: &[(Node, Node, u32)]| {
            let total: f64 = group.iter().map(|w| f64::from(w.2)).sum();
            group.iter().map(|w| -f64::from(w.2) * (f64::from(w.2) / total).ln()).sum::<f64>()
        };
        groups.map(of_group).sum()
    }
    /// The mean of −ln p over all captured instructions.
    pub const fn surprise(&self) -> f64 {
        self.surprise
    }
    /// The methods that executed a transfer of control.
    pub fn methods(&self, icfg: &Icfg) -> Vec<MethodId> {
        // Nodes ascend by method.
        let mut all: Vec<MethodId> = self.ways.iter().map(|way| icfg.method(way.0)).collect();
        all.dedup();
        all
    }
    /// The instructions that may precede `to`: first those that did, most frequent first, then
    /// others that the graph has.
    pub fn before(&self, icfg: &Icfg, to: Node) -> Vec<Node> {
        let start = self.into.partition_point(|w| w.0 < to);
        let mut seen: Vec<_> = self.into[start..].iter().take_while(|w| w.0 == to).collect();
        seen.sort_by_key(|w| std::cmp::Reverse(w.2));
        let mut all: Vec<Node> = seen.iter().map(|w| w.1).collect();
        let mut add = |node: Node| {
            if !all.contains(&node) {
                all.push(node);
            }
        };
        let above = to.0.checked_sub(1).map(Node).filter(|n| icfg.edges(*n).any(|e| e.1 == to));
        above.filter(|n| icfg.tier(*n) > Tier::Calls).into_iter().for_each(&mut add);
        icfg.jumps_to(to).for_each(&mut add);
        if let Some(site) = icfg.site_before(to) {
            let methods =
                icfg.callees(site).iter().take(CALLEES).map(|entry| icfg.nodes_of(icfg.method(*entry)));
            let returns = methods.flat_map(|nodes| nodes.map(Node));
            returns.filter(|n| icfg.opcode(*n).transfer() == Transfer::Return).for_each(&mut add);
        }
        if icfg.is_entry(to) {
            let behind = icfg.after_own_calls_of(icfg.method(to)).flatten().take(CALLEES);
            behind.filter_map(|n| icfg.site_before(*n)).for_each(&mut add);
        }
        all
    }
    /// The call sites that may have called the method with this entry, with their
    /// probabilities: those seen, and some that the graph has.
    pub fn callers(&self, icfg: &Icfg, entry: Node) -> Vec<(Node, f64)> {
        let start = self.into.partition_point(|w| w.0 < entry);
        let seen = self.into[start..].iter().take_while(|w| w.0 == entry);
        let seen = seen.filter(|w| icfg.may_call(w.1, entry));
        let mut all: Vec<(Node, f64)> = seen.map(|w| (w.1, f64::from(w.2))).collect();
        let behind = icfg.after_own_calls_of(icfg.method(entry)).flatten().take(CALLEES);
        for site in behind.filter_map(|n| icfg.site_before(*n)) {
            if all.iter().all(|w| w.0 != site) {
                all.push((site, UNSEEN));
            }
        }
        normalised(all)
    }
    /// The instructions that may follow the transfer of control `from`, with their
    /// probabilities: those that did, and those at other edges of its method.
    pub fn after(&self, icfg: &Icfg, from: Node) -> Vec<(Node, f64)> {
        let start = self.ways.partition_point(|w| w.0 < from);
        let seen = self.ways[start..].iter().take_while(|w| w.0 == from);
        let mut all: Vec<(Node, f64)> = seen.map(|w| (w.1, f64::from(w.2))).collect();
        for (_, to) in icfg.edges(from) {
            if icfg.tier(from) == Tier::Control && all.iter().all(|w| w.0 != to) {
                all.push((to, UNSEEN));
            }
        }
        normalised(all)
    }
}

/// Divides the weights by their sum.
fn normalised(mut all: Vec<(Node, f64)>) -> Vec<(Node, f64)> {
    let total: f64 = all.iter().map(|w| w.1).sum();
    all.iter_mut().for_each(|w| w.1 /= total);
    all
}
