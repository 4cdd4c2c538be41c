// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The comparison as text.

use jportal_plain::table::{Align, table};

use super::{Change, Diff, Difference, Presence};
use crate::hidden::counted;

impl Diff {
    /// One line per difference: `-` if the second result lacks it, `+` if the first lacks it, `~`
    /// if its figures differ; the differences of the figures; thread and path. Then the totals and
    /// the numbers.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.differences.is_empty() {
            // Figures without any difference have no column.
            let shown: Vec<&'static str> = self
                .totals
                .iter()
                .map(|total| total.figure)
                .filter(|f| self.differences.iter().flat_map(|d| &d.changes).any(|c| c.figure == *f))
                .collect();
            let rows: Vec<_> = self.differences.iter().map(|d| row(d, &shown)).collect();
            let figures = shown.iter().map(|figure| (*figure, Align::Right));
            let columns: Vec<_> =
                [("", Align::Left)].into_iter().chain(figures).chain([("where", Align::Left)]).collect();
            text.push_str(&table(&columns, &rows));
        }
        let rest = self.numbers.differences().saturating_sub(self.differences.len() as u64);
        if rest > 0 {
            text.push_str(&format!("{}\n", counted(rest, "more difference")));
        }
        text.push_str(&self.summary());
        text
    }
    fn summary(&self) -> String {
        let n = &self.numbers;
        let totals: Vec<String> =
            self.totals.iter().filter(|t| t.before.max(t.after) > 0).map(total).collect();
        let mut text = if totals.is_empty() { String::new() } else { format!("{}\n", totals.join(", ")) };
        let within = match n.within_tolerance {
            0 => String::new(),
            n => format!(", {n} within the tolerance of {}", self.tolerance),
        };
        text.push_str(&match n.differences() {
            0 => format!("equal: {} compared{within}\n", n.compared),
            d => format!(
                "{}: {} changed, {} only in the first, {} only in the second; {} compared{within}\n",
                counted(d, "difference"),
                n.changed,
                n.only_before,
                n.only_after,
                n.compared
            ),
        });
        for (side, why) in [("first", &self.before_inexact), ("second", &self.after_inexact)] {
            if let Some(why) = why {
                text.push_str(&format!("the {side} result is not exact: {why}\n"));
            }
        }
        text
    }
}

fn total(t: &Change) -> String {
    match t.delta {
        0 => format!("{} {}", t.before, t.figure),
        _ => format!("{} → {} {}", t.before, t.after, t.figure),
    }
}

fn row(d: &Difference, shown: &[&str]) -> Vec<String> {
    let mark = match d.presence {
        Presence::Both => "~",
        Presence::Before => "-",
        Presence::After => "+",
    };
    let cell = |figure: &&str| {
        let change = d.changes.iter().find(|c| c.figure == *figure);
        change.map_or_else(String::new, |c| match d.presence {
            Presence::Both => format!("{:+} ({} → {})", c.delta, c.before, c.after),
            _ => format!("{:+}", c.delta),
        })
    };
    let thread = d.thread.as_ref().map(|name| format!("thread \"{name}\""));
    let path: Vec<&str> = thread.iter().chain(&d.path).map(String::as_str).collect();
    let lines = |what, lines: &[u16]| match lines {
        [] => String::new(),
        _ => format!("; {what}: {}", lines.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")),
    };
    let missed = lines("newly missed lines", &d.newly_missed);
    let covered = lines("lines no longer missed", &d.no_longer_missed);
    let mut cells = vec![mark.to_owned()];
    cells.extend(shown.iter().map(cell));
    cells.push(format!("{}{missed}{covered}", path.join(" > ")));
    cells
}
