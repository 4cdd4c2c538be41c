// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on polymorphism.

use hashbrown::HashMap;
use hashbrown::HashSet;
use jportal_bytecode::{Instruction, Method};
use jportal_flow::Tally;
use serde::Serialize;

use super::outcome::Site;
use super::{PolymorphismAnalysis, Seen, Target, declared};
use crate::hidden::{Account, Inexact, Missing};
use crate::names::{Names, Version};

/// A target of a site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetRow {
    /// `class.name(descriptor)`; `null` for calls without a frame.
    pub method: Option<String>,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Number of calls.
    pub calls: Tally,
    /// The share of the site's calls, 0 to 1.
    pub share: f64,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteRow {
    /// The caller: `class.name(descriptor)`.
    pub caller: String,
    /// The caller's version, if its method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The caller's loader, empty for the boot loader.
    pub loader: String,
    /// The calling bytecode.
    pub bci: u16,
    /// Its source line.
    pub line: Option<u16>,
    /// `invokevirtual` or `invokeinterface`.
    pub opcode: &'static str,
    /// The symbolic target.
    pub declared: Option<String>,
    /// Number of calls, including those without a frame.
    pub calls: Tally,
    /// Targets, most frequent first. Calls without a frame have one unknown target.
    pub targets: Vec<TargetRow>,
    /// Calls whose target differs from that of the previous call in the thread, with the first
    /// call of each thread.
    pub misses: u64,
    /// The misses without the first call of each thread.
    pub changes: u64,
    /// Lower bound of the number of receivers' classes.
    pub receivers_at_least: u64,
    /// Lower bound of the number of calls whose receiver is of another class than that of the
    /// previous call in the thread, with the first call of each thread.
    pub receiver_misses_at_least: u64,
    /// Calls without a frame.
    pub silent: u64,
    /// Calls that did not happen. They are not among the calls.
    pub not_called: Tally,
    /// Invokes of which the flow does not say whether they called. They are not among the calls.
    pub unknown: Tally,
    /// Whether all calls and their targets are known.
    pub exact: bool,
    /// What may be missing in places that the flow marks as unknown.
    #[serde(skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
}

/// Lower bounds for receivers. A target's class shows only that two receivers differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AtLeast {
    /// Lower bound of the share of sites with more than one class of receivers.
    pub receiver_poly_density: Option<f64>,
    /// The same, weighted by calls.
    pub receiver_poly_density_calls: Option<f64>,
    /// Lower bound of the share of calls that miss.
    pub receiver_cache_miss_rate: Option<f64>,
}

/// Figures over all requested sites. Ratios are `null` if nothing was called.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Sites with at least one call.
    pub call_sites: u64,
    /// Sites at which an invoke was executed but no call is known.
    pub sites_without_call: u64,
    /// Calls.
    pub calls: Tally,
    /// Sites with one, two, and three or more targets.
    #[serde(rename = "targetArity.bin")]
    pub target_arity: [u64; 3],
    /// Calls at sites with one, two, and three or more targets.
    #[serde(rename = "targetArityCalls.bin")]
    pub target_arity_calls: [u64; 3],
    /// The share of sites with more than one target.
    pub target_poly_density: Option<f64>,
    /// The share of calls at such sites.
    pub target_poly_density_calls: Option<f64>,
    /// Calls that miss.
    pub target_misses: u64,
    /// The share of calls that miss.
    pub target_cache_miss_rate: Option<f64>,
    /// Calls per 1000 bytecodes of the requested methods.
    pub invoke_density: Option<f64>,
    /// Lower bounds for receivers.
    pub at_least: AtLeast,
    /// Calls without a frame.
    pub silent: u64,
    /// Calls that did not happen.
    pub not_called: Tally,
    /// Invokes of which the flow does not say whether they called.
    pub unknown: Tally,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Polymorphism {
    /// Whether the figures are complete: of the requested sites nothing is missing, inferred or
    /// lost.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// Figures over all requested sites.
    pub totals: Totals,
    /// The requested number of sites, most calls first.
    pub sites: Vec<SiteRow>,
}

/// A share; `None` of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl PolymorphismAnalysis {
    /// The `top` sites with the most calls, of callers that `wanted` accepts.
    pub fn report(&self, top: usize, wanted: impl Fn(&Method) -> bool) -> Polymorphism {
        let names = Names::new(&self.methods, self.naming);
        let inexact = self.hidden.inexact.clone();
        let lossy = inexact.is_lossy();
        let mut missing = self.missing();
        let mut ids: HashSet<Site> = self.sites.keys().copied().collect();
        ids.extend(missing.keys().copied());
        ids.retain(|site| self.methods.get(site.0).is_some_and(&wanted));
        let nothing = Seen::default();
        let row = |site: Site| {
            let seen = self.sites.get(&site).unwrap_or(&nothing);
            (site, self.row(&names, site, seen, (missing.remove(&site).unwrap_or_default(), lossy)))
        };
        let mut rows: Vec<(Site, SiteRow)> = ids.into_iter().map(row).collect();
        rows.sort_by_key(|(site, row)| (u64::MAX - row.calls.total(), *site));
        let mut sites: Vec<SiteRow> = rows.into_iter().map(|(_, row)| row).collect();
        let exact = !lossy && sites.iter().all(|row| row.exact);
        let bytecodes = self.methods.iter().zip(&self.bytecodes).filter(|(m, _)| wanted(m)).map(|(_, n)| n);
        let totals = Totals::of(&sites, bytecodes.sum());
        sites.truncate(top);
        Polymorphism { exact, inexact, totals, sites }
    }
    /// What may be missing of the calls of each site.
    fn missing(&self) -> HashMap<Site, Missing> {
        let mut all: HashMap<Site, Missing> = HashMap::new();
        for ((caller, bci, _), missing) in Account::new(&self.methods, &self.inlined).of_calls(&self.hidden) {
            if self.is_virtual((caller, bci)) && !missing.calls.is_none() {
                // Calls without a frame are counted as such.
                let missing = Missing { silent_calls: 0, ..missing };
                all.entry((self.first.of(caller), bci)).or_default().merge(&missing);
            }
        }
        all
    }
    fn row(&self, names: &Names<'_>, site: Site, seen: &Seen, (missing, lossy): (Missing, bool)) -> SiteRow {
        let mut calls = Tally::default();
        seen.targets.values().for_each(|t| calls.merge(t));
        let mut targets: Vec<(Target, Tally)> = seen.targets.iter().map(|(t, n)| (*t, *n)).collect();
        targets.sort_by_key(|(target, n)| (u64::MAX - n.total(), *target));
        let target = |&(target, n): &(Target, Tally)| {
            let name = target.map(|t| names.get(t));
            TargetRow {
                method: name.as_ref().map(crate::names::Name::qualified),
                version: name.and_then(|n| n.version),
                calls: n,
                share: n.total() as f64 / calls.total() as f64,
            }
        };
        let classes = seen.targets.keys().filter_map(|t| self.methods.get((*t)?)).map(|m| m.class);
        let classes: HashSet<u32> = classes.collect();
        let silent = seen.targets.get(&None).map_or(0, Tally::total);
        let (caller, method) = (names.get(site.0), self.methods.get(site.0));
        let instruction = method.and_then(|m| Instruction::at(&m.code, site.1.get().into()).ok());
        SiteRow {
            caller: caller.qualified(),
            version: caller.version,
            loader: caller.loader,
            bci: site.1.get(),
            line: method.and_then(|m| m.line_at(site.1)),
            opcode: instruction.map_or("?", |i| i.opcode.name()),
            declared: declared(&self.methods, site),
            calls,
            targets: targets.iter().map(target).collect(),
            misses: seen.misses,
            changes: seen.misses.saturating_sub(seen.threads),
            receivers_at_least: (classes.len() as u64).max(u64::from(calls.total() > 0)),
            receiver_misses_at_least: seen.class_misses,
            silent,
            not_called: seen.not_called,
            unknown: seen.unknown,
            exact: !lossy && missing.is_none() && silent == 0 && seen.unknown.total() == 0,
            missing,
        }
    }
}

impl Totals {
    fn of(rows: &[SiteRow], bytecodes: u64) -> Self {
        let mut totals = Self::default();
        let (mut poly, mut poly_calls, mut misses) = (0, 0, 0);
        for row in rows {
            let n = row.calls.total();
            totals.silent += row.silent;
            totals.not_called.merge(&row.not_called);
            totals.unknown.merge(&row.unknown);
            if n == 0 {
                totals.sites_without_call += 1;
                continue;
            }
            totals.call_sites += 1;
            totals.calls.merge(&row.calls);
            let bin = row.targets.len().clamp(1, 3) - 1;
            totals.target_arity[bin] += 1;
            totals.target_arity_calls[bin] += n;
            totals.target_misses += row.misses;
            misses += row.receiver_misses_at_least;
            if row.receivers_at_least > 1 {
                poly += 1;
                poly_calls += n;
            }
        }
        let (sites, calls) = (totals.call_sites, totals.calls.total());
        let several = |bins: [u64; 3]| bins[1] + bins[2];
        totals.target_poly_density = ratio(several(totals.target_arity), sites);
        totals.target_poly_density_calls = ratio(several(totals.target_arity_calls), calls);
        totals.target_cache_miss_rate = ratio(totals.target_misses, calls);
        totals.invoke_density = ratio(1000 * calls, bytecodes);
        totals.at_least = AtLeast {
            receiver_poly_density: ratio(poly, sites),
            receiver_poly_density_calls: ratio(poly_calls, calls),
            receiver_cache_miss_rate: ratio(misses, calls),
        };
        totals
    }
}
