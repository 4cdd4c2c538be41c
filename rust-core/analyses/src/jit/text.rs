// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on the JIT compilers as text.

use std::collections::BTreeMap;

use jportal_plain::table::{Align, percent, table};

use super::join::LogJoin;
use super::report::{BranchRow, CallRow, CodeEnd, DeoptRow, Jit, JitSite, NMethodRow};
use crate::hot::{at_least, least_note};
use crate::names::version_text;

const RIGHT: Align = Align::Right;
const LEFT: Align = Align::Left;

/// Milliseconds, or `-` if unknown.
fn ms(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |t| format!("{t:.1}"))
}

/// A number, with `≥` if it is a lower bound.
fn least(n: u64, exact: bool) -> String {
    if exact { n.to_string() } else { format!("≥ {n}") }
}

/// `7, 9, 12`; the first ten.
fn ids(ids: &[u32]) -> String {
    first(10, ids, u32::to_string)
}

/// The first `shown` of a list, and how many more there are.
fn first<T>(shown: usize, all: &[T], text: impl Fn(&T) -> String) -> String {
    let list = all.iter().take(shown).map(text).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(shown) {
        0 => list,
        n => format!("{list} and {n} more"),
    }
}

fn line(line: Option<u16>) -> String {
    line.map_or_else(String::new, |l| format!(" line {l}"))
}

fn bci(bci: Option<u16>) -> String {
    bci.map_or_else(|| "entry".to_owned(), |b| b.to_string())
}

fn more(all: usize, shown: usize, what: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        n => format!("{n} more {what}\n"),
    }
}

impl Jit {
    /// The report as tables.
    pub fn text(&self) -> String {
        let mut text = self.totals_text();
        let mut part = |title: &str, body: String| {
            if !body.is_empty() {
                text.push_str(&format!("\n{title}\n{body}"));
            }
        };
        part("compilations, most bytecodes first", self.nmethods_text());
        part("call sites, most calls first", self.sites_text());
        part("branches, most executions first", self.branches_text());
        part("deoptimisations, most frequent first", self.deoptimisations_text());
        part("deoptimisation storms: ten or more at one bytecode for one reason", self.storms_text());
        part("recompilation loops: three or more compilations at one level", self.loops_text());
        part("compiled code of which nothing ran, the largest first", self.never_ran_text());
        part("blocks of C2's code that were not executed", self.untaken_text());
        part("HotSpot's log of its compilers", self.log.as_ref().map_or_else(String::new, LogJoin::text));
        let mut note = least_note(&self.inexact, self.exact);
        if self.totals.unknown_code > 0 {
            note.push_str(&format!(
                "{} bytecodes ran in compiled frames whose code is not known\n",
                self.totals.unknown_code
            ));
        }
        if !note.is_empty() {
            text.push_str(&format!("\n{note}"));
        }
        text
    }
    fn totals_text(&self) -> String {
        let t = &self.totals;
        let mut text = format!(
            "{} compilations ({} for OSR): {} ran, {} became not entrant; {} compiled frames were deoptimised\n",
            t.compilations, t.osr, t.ran, t.not_entrant, t.deoptimisations
        );
        for (n, what) in [
            (t.undescribed, "frames of code that the recording does not describe"),
            (t.stray_states, "changes of state of code that the recording does not describe"),
        ] {
            if n > 0 {
                text.push_str(&format!("{n} {what}\n"));
            }
        }
        let all: u64 = self.tiers.iter().map(|r| r.bytecodes).sum();
        let lossy = self.inexact.is_blind() || self.inexact.stretches() > 0;
        let rows: Vec<Vec<String>> = self
            .tiers
            .iter()
            .map(|r| {
                vec![
                    r.tier.clone(),
                    r.compilations.to_string(),
                    r.ran.to_string(),
                    least(r.bytecodes, !lossy),
                    percent(r.bytecodes, all),
                    ms(r.time_ms),
                ]
            })
            .collect();
        let columns = [
            ("tier", LEFT),
            ("compilations", RIGHT),
            ("ran", RIGHT),
            ("bytecodes", RIGHT),
            ("share", RIGHT),
            ("ms on cores", RIGHT),
        ];
        text + "\n" + &table(&columns, &rows)
    }
    fn nmethods_text(&self) -> String {
        let rows: Vec<Vec<String>> = self.nmethods.iter().map(nmethod_row).collect();
        if rows.is_empty() {
            return String::new();
        }
        let columns = [
            ("id", RIGHT),
            ("level", RIGHT),
            ("installed ms", RIGHT),
            ("end", LEFT),
            ("calls", RIGHT),
            ("OSR", RIGHT),
            ("bytecodes", RIGHT),
            ("ms", RIGHT),
            ("deopts", RIGHT),
            ("inlined", RIGHT),
            ("blocks", RIGHT),
            ("method", LEFT),
        ];
        table(&columns, &rows) + &more(self.all_nmethods, rows.len(), "compilations")
    }
    fn sites_text(&self) -> String {
        let mut rows = Vec::new();
        let blind = self.inexact.is_blind();
        for site in &self.sites {
            rows.push(site_row(site, blind));
            rows.extend(site.targets.iter().map(|t| target_row(t, site)));
            rows.extend(decision_rows(site));
        }
        if rows.is_empty() {
            return String::new();
        }
        let columns = [
            ("calls", RIGHT),
            ("share", RIGHT),
            ("by compiled code", RIGHT),
            ("inlined", RIGHT),
            ("site, target", LEFT),
        ];
        table(&columns, &rows) + &more(self.all_sites, self.sites.len(), "call sites")
    }
    fn branches_text(&self) -> String {
        let rows: Vec<Vec<String>> = self.branches.iter().map(branch_row).collect();
        if rows.is_empty() {
            return String::new();
        }
        let columns = [
            ("times", RIGHT),
            ("bias", RIGHT),
            ("ways", LEFT),
            ("pruned by", LEFT),
            ("profile taken/not (compilation)", LEFT),
            ("branch", LEFT),
        ];
        table(&columns, &rows) + &more(self.all_branches, rows.len(), "branches")
    }
    fn deoptimisations_text(&self) -> String {
        let rows: Vec<Vec<String>> = self.deoptimisations.iter().map(deopt_row).collect();
        if rows.is_empty() {
            return String::new();
        }
        let columns = [
            ("times", RIGHT),
            ("first ms", RIGHT),
            ("last ms", RIGHT),
            ("id", RIGHT),
            ("level", RIGHT),
            ("how", LEFT),
            ("reason, action", LEFT),
            ("at", LEFT),
        ];
        table(&columns, &rows) + &more(self.all_deoptimisations, rows.len(), "places")
    }
    fn storms_text(&self) -> String {
        let by = |all: &BTreeMap<u32, u64>| {
            all.iter().map(|(id, n)| format!("{id}: {n}")).collect::<Vec<_>>().join(", ")
        };
        self.storms
            .iter()
            .map(|s| {
                let (reason, place) = (s.reason.unwrap_or("unknown reason"), line(s.line));
                let method = jportal_plain::line(&s.method);
                format!(
                    "{} of {reason} at {method} @{}{place} (compilation {})\n",
                    s.times,
                    bci(s.bci),
                    by(&s.compilations)
                )
            })
            .collect()
    }
    fn loops_text(&self) -> String {
        self.loops
            .iter()
            .map(|l| {
                let osr = l.osr_bci.map_or_else(String::new, |b| format!(", OSR at {b}"));
                format!(
                    "{} at level {}{osr}: {} ({})\n",
                    jportal_plain::line(&l.method),
                    l.level,
                    l.compilations.len(),
                    ids(&l.compilations)
                )
            })
            .collect()
    }
    fn never_ran_text(&self) -> String {
        if self.all_never_ran == 0 {
            return String::new();
        }
        let certain = match self.never_ran_is_certain {
            true => "",
            false => "; not certain, because not all of the run is known or selected",
        };
        let first = ids(&self.never_ran);
        format!("{} compilations{certain}; first of them {first}\n", self.all_never_ran)
    }
    fn untaken_text(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .untaken
            .iter()
            .map(|b| {
                let inside = match b.depth {
                    0 => String::new(),
                    n => format!(", inlined {n} deep"),
                };
                vec![b.compile_id.to_string(), format!("{} @{}{}{inside}", b.method, b.bci, line(b.line))]
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        table(&[("id", RIGHT), ("block", LEFT)], &rows) + &more(self.all_untaken, rows.len(), "blocks")
    }
}

fn nmethod_row(n: &NMethodRow) -> Vec<String> {
    let end = match (n.end, n.replaced_by) {
        (CodeEnd::InUse, _) => "in use".to_owned(),
        (CodeEnd::Replaced, Some(by)) => format!("{} by {by}", ms(n.not_entrant_ms)),
        (CodeEnd::Replaced, None) => format!("{} replaced", ms(n.not_entrant_ms)),
        (CodeEnd::Trapped, _) => format!("{} trap", ms(n.not_entrant_ms)),
        (CodeEnd::Invalidated, _) => format!("{} invalid", ms(n.not_entrant_ms)),
        (CodeEnd::Unloaded, _) => format!("{} unloaded", ms(n.not_entrant_ms)),
    };
    let osr = n.osr_bci.map_or_else(String::new, |b| format!(" OSR @{b}"));
    let blocks = match (n.blocks, n.unknown) {
        (None, _) => "-".to_owned(),
        (Some(all), 0) => format!("{}/{all}", n.reached),
        (Some(all), unknown) => format!("{}–{}/{all}", n.reached, n.reached + unknown),
    };
    let why = n.task.as_ref().map(|t| t.comment.as_str()).filter(|c| !c.is_empty());
    let why = why.map_or_else(String::new, |c| format!(" ({c})"));
    let found = if n.found > 0 { format!(" + {} found", n.found) } else { String::new() };
    vec![
        n.compile_id.to_string(),
        format!("{} {}", n.level, n.compiler),
        ms(n.installed_ms),
        end,
        format!("{}{found}", n.calls),
        n.osr_entries.to_string(),
        least(n.bytecodes.total(), n.exact),
        ms(n.time_ms),
        n.deoptimisations.to_string(),
        n.inlined.to_string(),
        blocks,
        format!("{}{}{osr}{why}", n.method, version_text(n.version)),
    ]
}

fn site_row(s: &JitSite, blind: bool) -> Vec<String> {
    let unknown = if s.unknown > 0 { format!(", {} unknown", s.unknown) } else { String::new() };
    vec![
        at_least(&s.calls, s.missing.calls, 0, blind || s.unknown > 0),
        String::new(),
        s.compiled.to_string(),
        s.inlined.to_string(),
        format!("{}{} @{}{}: {}{unknown}", s.caller, version_text(s.version), s.bci, line(s.line), s.opcode),
    ]
}

fn target_row(t: &CallRow, site: &JitSite) -> Vec<String> {
    let name = t.method.clone().unwrap_or_else(|| "(unknown: no frame)".to_owned());
    let by = match t.inlined_by.is_empty() {
        true => String::new(),
        false => format!(" (inlined by {})", ids(&t.inlined_by)),
    };
    let undecided = if t.undecided > 0 { format!(", {} unknown", t.undecided) } else { String::new() };
    vec![
        t.calls.text(),
        percent(t.calls.total(), site.calls.total()),
        t.compiled.to_string(),
        format!("{}{undecided}", t.inlined),
        format!("  {name}{}{by}", version_text(t.version)),
    ]
}

/// A row for each decision that differs from the others, with the compilations that made it.
fn decision_rows(site: &JitSite) -> impl Iterator<Item = Vec<String>> {
    let mut made: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for d in &site.decisions {
        made.entry((&d.callee, d.inlined, &d.reason)).or_default().push(d.compile_id);
    }
    made.into_iter().map(|((callee, inlined, reason), by)| {
        let what = match inlined {
            Some(true) => "inlined",
            Some(false) => "not inlined",
            None => "looked at",
        };
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let text = format!("    {callee} {what}{reason} (by {})", ids(&by));
        vec![String::new(), String::new(), String::new(), String::new(), text]
    })
}

fn branch_row(b: &BranchRow) -> Vec<String> {
    let ways: Vec<String> =
        b.ways.iter().map(|w| format!("→ {}: {}", w.to, least(w.times.total(), w.exact))).collect();
    let profile = first(3, &b.profile, |p| format!("{}/{} ({})", p.taken, p.not_taken, p.compile_id));
    vec![
        least(b.times, b.exact),
        b.bias.map_or_else(|| "-".to_owned(), |bias| format!("{:.1}%", 100.0 * bias)),
        ways.join(", "),
        ids(&b.pruned_by),
        profile,
        format!("{}{} @{}{}", b.method, version_text(b.version), b.bci, line(b.line)),
    ]
}

fn deopt_row(d: &DeoptRow) -> Vec<String> {
    let reason = match (d.reason, d.action) {
        (Some(reason), Some(action)) => format!("{reason}, {action}"),
        _ => "-".to_owned(),
    };
    let osr = if d.osr { " OSR" } else { "" };
    let inside = match d.method == d.nmethod {
        true => String::new(),
        false => format!(" in {}", d.nmethod),
    };
    vec![
        d.times.to_string(),
        ms(d.first_ms),
        ms(d.last_ms),
        d.compile_id.to_string(),
        format!("{}{osr}", d.level),
        d.kind.to_owned(),
        reason,
        format!("{} @{}{}{inside}", d.method, bci(d.bci), line(d.line)),
    ]
}

impl LogJoin {
    fn text(&self) -> String {
        let mut text = String::new();
        let mut put = |line: String| text.push_str(&format!("{line}\n"));
        if let Some(broken) = &self.broken {
            put(format!("not read to its end: {broken}"));
        }
        put(format!(
            "compilations: {} in both, {} in the log only, {} in the recording only",
            self.matched, self.all_log_only, self.all_recording_only
        ));
        for only in &self.log_only {
            put(format!("  log only: {} {}", only.compile_id, jportal_plain::line(&only.what)));
        }
        if !self.recording_only.is_empty() {
            put(format!("  recording only: {}", ids(&self.recording_only)));
        }
        put(format!(
            "not entrant: {} in both, {} in one only",
            self.not_entrant,
            self.not_entrant_differs.len()
        ));
        for (id, log) in self.not_entrant_differs.iter().take(10) {
            put(format!("  {} only: {id}", if *log { "log" } else { "recording" }));
        }
        put(format!(
            "uncommon traps: {} in both, {} places differ; {} frames deoptimised by the VM",
            self.traps, self.all_traps_differ, self.deoptimised_by_vm
        ));
        for t in &self.traps_differ {
            put(format!(
                "  compilation {} at {} @{}, {}: {} by the log, {} by the flow",
                t.compile_id,
                jportal_plain::line(&t.method),
                t.bci,
                t.reason.as_deref().unwrap_or("unknown reason"),
                t.log,
                t.flow
            ));
        }
        for (why, n) in &self.failed_tasks {
            put(format!("{n} tasks made no code: {}", jportal_plain::line(why)));
        }
        let names = |all: &BTreeMap<String, u64>| {
            all.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
        };
        if !self.damaged.is_empty() {
            put(format!("elements that lack an attribute: {}", names(&self.damaged)));
        }
        if !self.unused.is_empty() {
            put(format!("elements that were not used: {}", names(&self.unused)));
        }
        text
    }
}
