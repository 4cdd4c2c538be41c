// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on latency.

use hashbrown::HashMap;
use jportal_flow::Tally;
use jportal_plain::table::{Align, table};
use jportal_units::{MethodId, Tsc};
use serde::Serialize;

use super::LatencyAnalysis;
use super::figures::{ActivationFigures, Slow, Widths};
use super::histogram::{Histogram, RELATIVE_ERROR};
use crate::hidden::{Account, Inexact, Missing};
use crate::hot::{at_least, least_note};
use crate::names::{Name, Names, Version, version_text};

/// Lengths of activations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// The least, exactly as measured.
    pub min_ns: u64,
    /// The median, by nearest rank. At most 1/64 too high.
    pub median_ns: u64,
    /// The 99th percentile, by nearest rank. At most 1/64 too high.
    pub p99_ns: u64,
    /// The greatest, exactly as measured.
    pub max_ns: u64,
    /// The sum of the outermost activations: those within another one of the same method are
    /// left out.
    pub sum_ns: u64,
}

/// The latency of one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MethodLatency {
    /// `class.name(descriptor)`.
    pub method: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// Calls seen, measured or not.
    pub calls: Tally,
    /// Whether no call is missing and every activation was measured.
    pub exact: bool,
    /// Calls that may be missing in places that the flow marks as unknown.
    #[serde(skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
    /// Activations measured.
    pub measured: u64,
    /// Of these, activations within another one of the same method.
    pub nested: u64,
    /// Activations whose beginning was not seen.
    pub found: u64,
    /// Activations whose end was not seen, or during which trace was lost.
    pub cut: u64,
    /// Activations that began or ended in placed or filled parts.
    pub inferred: u64,
    /// Activations that began before the first time of their thread.
    pub untimed: u64,
    /// Lengths in wall time. `None` if nothing was measured.
    pub wall: Option<Distribution>,
    /// Lower limit of the sum in wall time, from the resolution of the times.
    pub least_sum_ns: u64,
    /// Upper limit of that sum. `None` if no time follows the end of an activation.
    pub most_sum_ns: Option<u64>,
    /// Time on cores. `None` if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_core: Option<Distribution>,
    /// Mean difference between the limits of an activation's length. `None` if no activation has
    /// an upper limit.
    pub mean_resolution_ns: Option<u64>,
    /// The greatest such difference.
    pub worst_resolution_ns: Option<u64>,
}

/// One activation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Activation {
    /// `class.name(descriptor)`.
    pub method: String,
    /// OS thread id.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// Last known time before its beginning, since the start given by the caller.
    pub start_ns: u64,
    /// Measured length in wall time.
    pub wall_ns: u64,
    /// Lower limit of the length.
    pub least_ns: u64,
    /// Upper limit. `None` if no time follows its end.
    pub most_ns: Option<u64>,
    /// Time on cores, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_core_ns: Option<u64>,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latencies {
    /// Whether no call of the chosen methods is missing and every activation was measured.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// The greatest relative error of median and 99th percentile.
    pub percentile_error: f64,
    /// Number of chosen methods with an activation.
    pub executed: usize,
    /// The requested number of methods, greatest sum first.
    pub methods: Vec<MethodLatency>,
    /// The slowest activations, slowest first.
    pub slowest: Vec<Activation>,
}

/// Turns ticks into nanoseconds.
#[derive(Clone, Copy)]
struct Scale(u64);

impl Scale {
    fn ns(self, ticks: u128) -> u64 {
        u64::try_from(ticks.saturating_mul(1_000_000) / u128::from(self.0.max(1))).unwrap_or(u64::MAX)
    }
    fn distribution(self, h: &Histogram, sum: u128) -> Option<Distribution> {
        let (min, max) = h.extremes()?;
        let part = |p| self.ns(h.percentile(p).unwrap_or(max).into());
        let [min_ns, max_ns] = [min, max].map(|t| self.ns(t.into()));
        Some(Distribution { min_ns, median_ns: part(0.5), p99_ns: part(0.99), max_ns, sum_ns: self.ns(sum) })
    }
}

impl LatencyAnalysis {
    /// The `top` methods with the greatest sums. `start`: the time from which starts count.
    /// `tsc_khz`: ticks per millisecond.
    pub fn report(&self, top: usize, start: Tsc, tsc_khz: u64) -> Latencies {
        let names = Names::new(&self.methods, self.naming);
        let scale = Scale(tsc_khz);
        let inexact = self.hidden.inexact.clone();
        let lossy = inexact.is_lossy();
        let rows = self.rows(&names);
        let all: Vec<MethodLatency> =
            rows.into_iter().map(|(name, (_, f, missing))| row(name, &f, missing, lossy, scale)).collect();
        let exact = !lossy && all.iter().all(|m| m.exact);
        let executed = all.iter().filter(|m| m.calls.total() + m.found > 0).count();
        let methods = all.into_iter().take(top).collect();
        let slowest = self.slowest.all.iter().map(|s| self.activation(&names, s, start, scale)).collect();
        Latencies { exact, inexact, percentile_error: RELATIVE_ERROR, executed, methods, slowest }
    }
    /// The figures by name, greatest sum first.
    pub(super) fn rows(&self, names: &Names<'_>) -> Vec<(Name, (MethodId, ActivationFigures, Missing))> {
        let mut missing = Account::new(&self.methods, &self.inlined).of_methods(&self.hidden);
        missing.retain(|method, _| self.is_chosen(*method));
        let mut rows: HashMap<Name, (MethodId, ActivationFigures, Missing)> = HashMap::new();
        let seen = self.figures.iter().map(|(m, f)| (*m, f.clone(), Missing::default()));
        let hidden = missing.into_iter().map(|(m, missing)| (m, ActivationFigures::default(), missing));
        for (method, figures, missing) in seen.chain(hidden) {
            let row = rows.entry(names.get(method));
            let row = row.or_insert((method, ActivationFigures::default(), Missing::default()));
            row.0 = row.0.min(method);
            row.1.merge(&figures);
            row.2.merge(&missing);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(_, (id, f, _))| {
            (u128::MAX - f.wall_sum.measured, u64::MAX - f.calls.total(), *id)
        });
        rows
    }
    fn activation(&self, names: &Names<'_>, s: &Slow, start: Tsc, scale: Scale) -> Activation {
        let who = self.slowest.threads.get(s.thread);
        let ns = |ticks: u64| scale.ns(ticks.into());
        Activation {
            method: names.get(s.method).qualified(),
            tid: who.map_or(0, |w| w.tid),
            thread: who.map_or_else(String::new, |w| w.name.clone()),
            start_ns: ns(s.begin.saturating_sub(start.get())),
            wall_ns: ns(s.wall),
            least_ns: ns(s.least),
            most_ns: s.most.map(ns),
            on_core_ns: s.on_core.map(ns),
        }
    }
}

fn row(name: Name, f: &ActivationFigures, missing: Missing, lossy: bool, scale: Scale) -> MethodLatency {
    let Widths { sum, greatest, count } = f.widths;
    let sums = &f.wall_sum;
    MethodLatency {
        method: name.qualified(),
        version: name.version,
        loader: name.loader,
        calls: f.calls,
        exact: f.is_exact(&missing, lossy),
        missing,
        measured: f.wall.count(),
        nested: f.nested,
        found: f.found,
        cut: f.cut,
        inferred: f.inferred,
        untimed: f.untimed,
        wall: scale.distribution(&f.wall, sums.measured),
        least_sum_ns: scale.ns(sums.least),
        most_sum_ns: (sums.unlimited == 0).then(|| scale.ns(sums.most)),
        on_core: scale.distribution(&f.on_core, f.on_core_sum),
        mean_resolution_ns: (count > 0).then(|| scale.ns(sum / u128::from(count.max(1)))),
        worst_resolution_ns: (count > 0).then(|| scale.ns(greatest.into())),
    }
}

/// `950 ns`, `1.234 µs`, `12.500 ms`, `3.000 s`.
fn duration(ns: u64) -> String {
    let part = |unit: u64, name: &str| format!("{:.3} {name}", ns as f64 / unit as f64);
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => part(1_000, "µs"),
        1_000_000..1_000_000_000 => part(1_000_000, "ms"),
        _ => part(1_000_000_000, "s"),
    }
}

fn or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

impl MethodLatency {
    /// `2 cut, 1 found`: activations that were not measured.
    fn unmeasured(&self) -> String {
        let parts = [
            (self.found, "found"),
            (self.cut, "cut"),
            (self.inferred, "inferred"),
            (self.untimed, "untimed"),
        ];
        let some = parts.into_iter().filter(|p| p.0 > 0).map(|(n, what)| format!("{n} {what}"));
        some.collect::<Vec<_>>().join(", ")
    }
    fn cells(&self, blind: bool) -> Vec<String> {
        let calls = at_least(&self.calls, self.missing.calls, self.missing.silent_calls, blind);
        let wall = self.wall.as_ref();
        let mut cells = vec![calls];
        let each: [fn(&Distribution) -> u64; 5] =
            [|d| d.min_ns, |d| d.median_ns, |d| d.p99_ns, |d| d.max_ns, |d| d.sum_ns];
        cells.extend(each.map(|get| or_dash(wall.map(get))));
        cells.push(or_dash(self.on_core.as_ref().map(|d| d.sum_ns)));
        cells.push(
            self.mean_resolution_ns.map_or_else(|| "-".to_owned(), |r| format!("±{}", duration(r / 2))),
        );
        cells.push(self.unmeasured());
        cells.push(format!("{}{}", self.method, version_text(self.version)));
        cells
    }
}

impl Latencies {
    /// Two tables: methods, and the slowest activations. `±` is half the mean difference between
    /// the limits of an activation's length.
    pub fn text(&self) -> String {
        let right = ["calls", "min", "median", "p99", "max", "sum", "on core", "clock", "not measured"];
        let mut columns: Vec<(&str, Align)> = right.map(|name| (name, Align::Right)).to_vec();
        columns.push(("method", Align::Left));
        let blind = self.inexact.is_blind();
        let rows: Vec<_> = self.methods.iter().map(|m| m.cells(blind)).collect();
        let mut text = table(&columns, &rows);
        let rest = self.executed.saturating_sub(self.methods.len());
        if rest > 0 {
            text.push_str(&format!("{rest} more methods\n"));
        }
        if !self.slowest.is_empty() {
            text.push_str("\nslowest activations\n");
            text.push_str(&self.slowest_text());
        }
        let worst = self.methods.iter().filter_map(|m| m.worst_resolution_ns).max();
        let worst = worst
            .map_or_else(String::new, |w| format!("A single length is known to within {}. ", duration(w)));
        text.push_str(&format!(
            "{worst}Median and p99 are at most {:.1}% too high.\n",
            RELATIVE_ERROR * 100.0
        ));
        text + &least_note(&self.inexact, self.exact)
    }
    fn slowest_text(&self) -> String {
        let columns = [
            ("start", Align::Right),
            ("length", Align::Right),
            ("least", Align::Right),
            ("most", Align::Right),
            ("on core", Align::Right),
            ("thread", Align::Left),
            ("method", Align::Left),
        ];
        let row = |a: &Activation| {
            let [start, wall, least] = [a.start_ns, a.wall_ns, a.least_ns].map(duration);
            let thread = format!("{} (tid {})", a.thread, a.tid);
            vec![start, wall, least, or_dash(a.most_ns), or_dash(a.on_core_ns), thread, a.method.clone()]
        };
        table(&columns, &self.slowest.iter().map(row).collect::<Vec<_>>())
    }
}
