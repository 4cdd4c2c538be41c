// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on polymorphism as text.

use jportal_plain::table::{Align, percent, table};

use super::report::{Polymorphism, SiteRow, TargetRow, Totals};
use crate::hot::{at_least, least_note};
use crate::names::version_text;

impl Polymorphism {
    /// The report as a table of sites, each with its targets, and the totals.
    pub fn text(&self) -> String {
        let blind = self.inexact.is_blind();
        let mut rows = Vec::new();
        for site in &self.sites {
            rows.push(site_row(site, blind));
            rows.extend(site.targets.iter().map(|t| target_row(t, site)));
        }
        let columns = [
            ("calls", Align::Right),
            ("share", Align::Right),
            ("targets", Align::Right),
            ("misses", Align::Right),
            ("receivers", Align::Right),
            ("site, target", Align::Left),
        ];
        let all = self.totals.call_sites + self.totals.sites_without_call;
        let more = match all.saturating_sub(self.sites.len() as u64) {
            0 => String::new(),
            n => format!("{n} more sites\n"),
        };
        let mut note = least_note(&self.inexact, self.exact);
        if !note.is_empty() {
            note.push_str("ratios are those of what was seen\n");
        }
        format!("{}{more}\n{}{note}", table(&columns, &rows), self.totals.text())
    }
}

fn site_row(s: &SiteRow, blind: bool) -> Vec<String> {
    let least = |n: u64, known: bool| if known { n.to_string() } else { format!("≥ {n}") };
    let line = s.line.map_or_else(String::new, |l| format!(" line {l}"));
    let declared = s.declared.as_ref().map_or_else(String::new, |d| format!(" {d}"));
    let mut notes = String::new();
    for (n, what) in [
        (s.not_called.total(), "did not happen"),
        (s.silent, "without a frame"),
        (s.unknown.total(), "unknown"),
    ] {
        if n > 0 {
            notes.push_str(&format!(", {n} {what}"));
        }
    }
    vec![
        at_least(&s.calls, s.missing.calls, 0, blind || s.unknown.total() > 0),
        String::new(),
        least(s.targets.len() as u64, s.exact),
        least(s.misses, s.exact),
        // One class of targets may stand for many classes of receivers.
        format!("≥ {}", s.receivers_at_least),
        format!("{}{} @{}{line}: {}{declared}{notes}", s.caller, version_text(s.version), s.bci, s.opcode),
    ]
}

fn target_row(t: &TargetRow, site: &SiteRow) -> Vec<String> {
    let name = t.method.clone().unwrap_or_else(|| "(unknown: no frame)".to_owned());
    vec![
        t.calls.text(),
        percent(t.calls.total(), site.calls.total()),
        String::new(),
        String::new(),
        String::new(),
        format!("  {name}{}", version_text(t.version)),
    ]
}

impl Totals {
    fn text(&self) -> String {
        let ratio = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.4}"));
        let bins = |b: [u64; 3]| format!("{} / {} / {}", b[0], b[1], b[2]);
        let least = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("≥ {r:.4}"));
        let rows = [
            ("callSites", self.call_sites.to_string()),
            ("calls", self.calls.text()),
            ("targetArity.bin (1 / 2 / 3 and more)", bins(self.target_arity)),
            ("targetArityCalls.bin", bins(self.target_arity_calls)),
            ("targetPolyDensity", ratio(self.target_poly_density)),
            ("targetPolyDensityCalls", ratio(self.target_poly_density_calls)),
            ("targetCacheMissRate", ratio(self.target_cache_miss_rate)),
            ("receiverPolyDensity (by the targets' classes)", least(self.at_least.receiver_poly_density)),
            ("receiverPolyDensityCalls", least(self.at_least.receiver_poly_density_calls)),
            ("receiverCacheMissRate", least(self.at_least.receiver_cache_miss_rate)),
            ("invokeDensity", ratio(self.invoke_density)),
            ("calls without a frame", self.silent.to_string()),
            ("calls that did not happen", self.not_called.text()),
            ("invokes with unknown outcome", self.unknown.text()),
        ];
        let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.into(), value]).collect();
        table(&[("total", Align::Left), ("", Align::Right)], &rows)
    }
}
