// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Plain text tables.
//!
//! `comfy-table` (8.0.1) gives a column without text a width of 1, so its lines are not those that
//! users and tests know; it takes twice the time and no fewer lines here.

use crate::{line, shortened};

/// The alignment of a column.
#[derive(Clone, Copy)]
pub enum Align {
    /// To the left.
    Left,
    /// To the right.
    Right,
}

/// Maximum number of characters of a cell. Names may have 65,535.
const WIDEST: usize = 200;

/// Rows under a heading. Each column is as wide as its widest cell. Long cells are shortened.
pub fn table(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let cell = |c: &String| shortened(&line(c), WIDEST).into_owned();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let width = |i: usize| {
        let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count());
        cells.chain([columns[i].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let mut s = String::new();
        for ((cell, (_, align)), &w) in cells.iter().zip(columns).zip(&widths) {
            match align {
                Align::Left => s.push_str(&format!("{cell:<w$}  ")),
                Align::Right => s.push_str(&format!("{cell:>w$}  ")),
            }
        }
        format!("{}\n", s.trim_end())
    };
    let mut out = line(&columns.iter().map(|c| c.0).collect::<Vec<_>>());
    for row in &rows {
        out.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    out
}

/// `part` of `whole` as a percentage with one decimal. `-` if `whole` is 0.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_any_length_and_content() {
        let long = "x".repeat(70_000);
        let rows =
            [vec![long, "1".to_owned()], vec!["f\nthread \"fake\"\x1b[31m".to_owned(), "22".to_owned()]];
        let text = table(&[("name", Align::Left), ("n", Align::Right)], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].contains('…') && lines.iter().all(|l| l.chars().count() <= WIDEST + 4));
        assert!(lines[2].starts_with("f\\nthread \"fake\"\\x1b[31m "), "{text}");
    }
}
