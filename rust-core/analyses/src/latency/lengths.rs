// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Lengths of activations in ticks of the TSC, with histograms, for programs that draw them.

use hashbrown::HashMap;
use serde::Serialize;

use super::LatencyAnalysis;
use super::figures::ActivationFigures;
use crate::hidden::{Inexact, Missing};
use crate::names::{Name, Names, version_text};

/// One activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Length {
    /// Last known time before its beginning, a value of the TSC.
    pub begin: u64,
    /// Measured length in wall time.
    pub ticks: u64,
    /// OS thread id.
    pub tid: u32,
}

/// The lengths of one method's activations, in wall time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MethodLengths {
    /// `class.name(descriptor)`, with the version if there are several.
    pub method: String,
    /// Activations measured.
    pub measured: u64,
    /// Activations that were seen and not measured: found, cut, inferred or untimed.
    pub unmeasured: u64,
    /// The sum of the outermost activations.
    pub sum: u64,
    /// Least, median, 90th and 99th percentile, greatest. The least and the greatest are exact, the
    /// others at most 1/64 too high. All are 0 if nothing was measured.
    pub quantiles: [u64; 5],
    /// Lower bounds of lengths, and numbers of activations; ascending. A bucket ends where the next
    /// one begins, the last one at the greatest length.
    pub buckets: Vec<(u64, u64)>,
    /// Those of the slowest activations that are of this method, slowest first.
    pub slowest: Vec<Length>,
    /// Whether no call is missing and every activation was measured.
    pub exact: bool,
}

/// The lengths of the activations of all chosen methods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// Whether no call is missing and every activation was measured.
    pub exact: bool,
    /// Why not, in the threads shown.
    pub inexact: Inexact,
    /// Mean distance of the known times before and after a beginning or an end. `None` if no
    /// activation has an upper limit.
    pub resolution: Option<u64>,
    /// The methods of which an activation was seen or may be hidden, greatest sum first.
    pub methods: Vec<MethodLengths>,
}

impl LatencyAnalysis {
    /// The lengths of the activations, in ticks.
    pub fn lengths(&self) -> Lengths {
        let names = Names::new(&self.methods, self.naming);
        let inexact = self.hidden.inexact.clone();
        let lossy = inexact.is_lossy();
        let mut slowest: HashMap<Name, Vec<Length>> = HashMap::new();
        for slow in &self.slowest.all {
            let tid = self.slowest.threads.get(slow.thread).map_or(0, |who| who.tid);
            let length = Length { begin: slow.begin, ticks: slow.wall, tid };
            slowest.entry(names.get(slow.method)).or_default().push(length);
        }
        let rows = self.rows(&names).into_iter();
        let methods = rows.map(|(name, (_, figures, missing))| {
            let slowest = slowest.remove(&name).unwrap_or_default();
            MethodLengths { slowest, ..lengths_of(&name, &figures, &missing, lossy) }
        });
        let methods: Vec<MethodLengths> = methods.collect();
        let exact = !lossy && methods.iter().all(|m| m.exact);
        Lengths { exact, inexact, resolution: self.resolution(), methods }
    }
    fn resolution(&self) -> Option<u64> {
        let widths = self.figures.values().map(|f| f.widths);
        let (sum, count) = widths.fold((0, 0), |(sum, count), w| (sum + w.sum, count + w.count));
        // An activation has a beginning and an end.
        let mean = u128::checked_div(sum, 2 * u128::from(count))?;
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}

fn lengths_of(name: &Name, f: &ActivationFigures, missing: &Missing, lossy: bool) -> MethodLengths {
    let (least, greatest) = f.wall.extremes().unwrap_or_default();
    let part = |part| f.wall.percentile(part).unwrap_or(greatest);
    MethodLengths {
        method: name.qualified() + &version_text(name.version),
        measured: f.wall.count(),
        unmeasured: f.unmeasured(),
        sum: u64::try_from(f.wall_sum.measured).unwrap_or(u64::MAX),
        quantiles: [least, part(0.5), part(0.9), part(0.99), greatest],
        buckets: f.wall.steps(),
        slowest: Vec::new(),
        exact: f.is_exact(missing, lossy),
    }
}
