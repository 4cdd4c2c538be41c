// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on paths as text and as rows of a table.

use jportal_flow::Tally;
use jportal_plain::table::{Align, percent, table};

use super::report::{CutRow, MethodPaths, PathRow, Paths};
use crate::hidden::counted;
use crate::hot::least_note;
use crate::names::version_text;

/// The columns of [`Paths::csv_rows`].
pub const CSV_HEAD: [&str; 14] = [
    "method",
    "version",
    "loader",
    "paths",
    "id",
    "decoded",
    "projected",
    "recovered",
    "from",
    "to",
    "blocks",
    "lines",
    "length",
    "exact",
];

impl Paths {
    /// The report as text. An incomplete figure is a lower bound: `≥ 12`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let total = self.bytecodes.total();
        if !self.hot.is_empty() {
            text.push_str(&self.hot_text(total));
        }
        for m in &self.methods {
            text.push_str(&format!("\n{}", m.text()));
        }
        let rest = (self.executed + self.perhaps_executed).saturating_sub(self.methods.len());
        match rest.min(self.executed) as u64 {
            0 => {}
            n => text.push_str(&format!(
                "\n{} more {} executed\n",
                n,
                if n == 1 { "method was" } else { "methods were" }
            )),
        }
        if !self.exact {
            text.push_str(&format!("\n{}", least_note(&self.inexact, false)));
            text.push_str(
                "≥: where the flow does not show the beginning or the end of a path, it is not counted\n",
            );
        }
        text
    }
    fn hot_text(&self, total: u64) -> String {
        let row = |hot: &super::HotPath| {
            vec![
                percent(hot.bytecodes, total),
                figure(hot.bytecodes.to_string(), hot.exact),
                hot.path.times.text(),
                hot.path.id.to_string(),
                hot.path.from.clone(),
                hot.path.to.clone(),
                format!("{}{}", hot.method, version_text(hot.version)),
            ]
        };
        let rows: Vec<_> = self.hot.iter().map(row).collect();
        let columns = [
            ("share", Align::Right),
            ("bytecodes", Align::Right),
            ("times", Align::Right),
            ("id", Align::Right),
            ("from", Align::Left),
            ("to", Align::Left),
            ("method", Align::Left),
        ];
        table(&columns, &rows)
    }
    /// The paths as rows with the columns [`CSV_HEAD`]. Blocks are separated by spaces.
    pub fn csv_rows(&self) -> impl Iterator<Item = [String; 14]> + '_ {
        let row = |m: &MethodPaths, row: &PathRow| {
            [
                m.method.clone(),
                m.version.map_or_else(String::new, |v| v.number.to_string()),
                m.loader.clone(),
                m.paths.map_or_else(String::new, |n| n.to_string()),
                row.id.to_string(),
                row.times.decoded.to_string(),
                row.times.projected.to_string(),
                row.times.recovered.to_string(),
                row.from.clone(),
                row.to.clone(),
                blocks_text(&row.blocks),
                row.lines.clone(),
                row.length.to_string(),
                m.exact.to_string(),
            ]
        };
        self.methods.iter().flat_map(move |m| m.rows.iter().map(move |r| row(m, r)))
    }
}

impl MethodPaths {
    /// The method's paths as text.
    fn text(&self) -> String {
        let paths = self.paths.map_or_else(|| "no paths".to_owned(), |n| counted(n, "path"));
        let figure = |tally: &Tally| figure(tally.text(), self.exact);
        let name = format!("{}{}", self.method, version_text(self.version));
        let mut text = format!(
            "{}   {paths}, {} executed, {} completed, {} cut",
            jportal_plain::line(&name),
            self.executed,
            figure(&self.completed),
            self.cut.text()
        );
        if self.parts.total() > 0 {
            text.push_str(&format!(", {} with unknown beginning", counted(self.parts.total(), "part")));
        }
        text.push('\n');
        if let Some(error) = &self.error {
            text.push_str(&format!("  the bytecodes cannot be read: {error}\n"));
        }
        if !self.limited.is_empty() {
            text.push_str(&format!(
                "  too many paths begin at {}: the edges from there end paths\n",
                self.limited.iter().map(|b| format!("@{b}")).collect::<Vec<_>>().join(", ")
            ));
        }
        if !self.rows.is_empty() {
            text.push_str(&indented(&self.rows_text()));
        }
        match self.executed.saturating_sub(self.rows.len() as u64) {
            0 => {}
            n => text.push_str(&format!("  {} more\n", counted(n, "path"))),
        }
        if let Some(cuts) = self.cuts.as_ref().filter(|cuts| !cuts.is_empty()) {
            text.push_str(&indented(&cuts_text(cuts)));
        }
        text
    }
    fn rows_text(&self) -> String {
        let row = |row: &PathRow| {
            vec![
                row.id.to_string(),
                figure(row.times.text(), self.exact),
                percent(row.times.total(), self.completed.total()),
                row.from.clone(),
                row.to.clone(),
                blocks_text(&row.blocks),
                lines_text(&row.lines),
            ]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        let columns = [
            ("id", Align::Right),
            ("times", Align::Right),
            ("share", Align::Right),
            ("from", Align::Left),
            ("to", Align::Left),
            ("blocks", Align::Left),
            ("(lines)", Align::Left),
        ];
        table(&columns, &rows)
    }
}

fn cuts_text(cuts: &[CutRow]) -> String {
    let row = |cut: &CutRow| {
        vec![
            cut.prefix.map_or_else(|| "?".to_owned(), |p| p.to_string()),
            cut.times.text(),
            cut.reason.to_owned(),
            format!("{} @{}", if cut.prefix.is_some() { "at" } else { "from" }, cut.bci),
            blocks_text(&cut.blocks),
            lines_text(&cut.lines),
        ]
    };
    let rows: Vec<_> = cuts.iter().map(row).collect();
    let columns = [
        ("prefix", Align::Right),
        ("times", Align::Right),
        ("cut by", Align::Left),
        ("where", Align::Left),
        ("blocks", Align::Left),
        ("(lines)", Align::Left),
    ];
    table(&columns, &rows)
}

/// A figure that is a lower bound unless it is exact.
fn figure(text: String, exact: bool) -> String {
    if exact { text } else { format!("≥ {text}") }
}

fn blocks_text(blocks: &[u16]) -> String {
    blocks.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")
}

fn lines_text(lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("({lines})") }
}

/// A table with two spaces before each line.
fn indented(table: &str) -> String {
    table.lines().map(|line| format!("  {line}\n")).collect()
}
