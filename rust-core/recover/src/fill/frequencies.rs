//! How often the run went which way: a first-order model of what was captured.

use super::{Captured, SegmentId, Tier, Tiers};
use jportal_bytecode::{Icfg, Node};
use std::collections::HashMap;

/// What followed each transfer of control, and how often.
#[derive(Debug, Default)]
pub struct Frequencies {
    /// From, to, how often; ascending.
    ways: Box<[(Node, Node, u32)]>,
    /// Surprise per instruction, the mean of −ln p.
    surprise: f64,
}

/// A way that the graph has and the run never went counts for so many.
const UNSEEN: f64 = 0.5;

impl Frequencies {
    /// Counts what was captured.
    pub fn new(icfg: &Icfg, captured: &Captured) -> Self {
        let mut counts: HashMap<(Node, Node), u32> = HashMap::new();
        for segment in 0..captured.len() as u32 {
            for pair in captured.segment(SegmentId(segment)).windows(2) {
                if icfg.tier(pair[0]) <= Tier::Control {
                    let count = counts.entry((pair[0], pair[1])).or_default();
                    *count = count.saturating_add(1);
                }
            }
        }
        let mut ways: Box<[_]> = counts.into_iter().map(|((from, to), n)| (from, to, n)).collect();
        ways.sort_unstable();
        let mut all = Self { ways, surprise: 0.0 };
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
    /// The mean of −ln p over all instructions captured.
    pub const fn surprise(&self) -> f64 {
        self.surprise
    }
    /// What may follow `from`, a transfer of control, with its probability: what did, and other edges of its method.
    pub fn after(&self, icfg: &Icfg, from: Node) -> Vec<(Node, f64)> {
        let start = self.ways.partition_point(|w| w.0 < from);
        let seen = self.ways[start..].iter().take_while(|w| w.0 == from);
        let mut all: Vec<(Node, f64)> = seen.map(|w| (w.1, f64::from(w.2))).collect();
        for (_, to) in icfg.edges(from) {
            if icfg.tier(from) == Tier::Control && all.iter().all(|w| w.0 != to) {
                all.push((to, UNSEEN));
            }
        }
        let total: f64 = all.iter().map(|w| w.1).sum();
        all.iter_mut().for_each(|w| w.1 /= total);
        all
    }
}
