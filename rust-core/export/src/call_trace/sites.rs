// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The table of sites, `sites.tsv`.

use std::io::{self, BufRead, Write};

use jportal_analyses::call_trace::Sites;
use jportal_plain::line;

use super::ReadError;

/// The columns. A reader finds them by name.
const COLUMNS: [&str; 11] =
    ["id", "kind", "class", "loader", "method", "descriptor", "bci", "line", "opcode", "targets", "version"];

/// Writes the table: one line with the names of the columns, then one line per site, by number.
/// Cells are separated by tabs. Control characters in names are escaped.
///
/// # Errors
/// If the output cannot be written.
pub fn write_sites(sites: &Sites, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join("\t"))?;
    let number = |n: Option<u16>| n.map_or_else(String::new, |n| n.to_string());
    for s in sites.iter() {
        let version = s.version.map_or_else(String::new, |v| v.number.to_string());
        let (bci, row_line) = (number(s.bci), number(s.line));
        let id = s.id.to_string();
        let (kind, opcode) = (s.kind.name(), s.opcode);
        let names = [&s.class, &s.loader, &s.method, &s.descriptor, &s.target].map(|n| line(n));
        let [class, loader, method, descriptor, target] = &names;
        let cells: [&str; 11] =
            [&id, kind, class, loader, method, descriptor, &bci, &row_line, opcode, target, &version];
        writeln!(out, "{}", cells.join("\t"))?;
    }
    out.flush()
}

/// One line of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteRow {
    /// `call`, `return` or `exit`.
    pub kind: String,
    /// Binary name of the class.
    pub class: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// Name of the method.
    pub method: String,
    /// Descriptor of the method.
    pub descriptor: String,
    /// The bytecode; empty for an exceptional exit.
    pub bci: String,
    /// Its source line, if it is known.
    pub line: String,
    /// The method that the constant pool names.
    pub target: String,
}

impl SiteRow {
    /// `class.name(descriptor)`.
    pub fn qualified(&self) -> String {
        format!("{}.{}{}", self.class, self.method, self.descriptor)
    }
}

/// The table of sites, read from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTable {
    rows: Vec<SiteRow>,
}

impl SiteTable {
    /// The table that [`write_sites`] writes.
    pub fn of(sites: &Sites) -> Self {
        let number = |n: Option<u16>| n.map_or_else(String::new, |n| n.to_string());
        let text = |name: &str| line(name).into_owned();
        let row = |s: jportal_analyses::call_trace::Site| SiteRow {
            kind: s.kind.name().to_owned(),
            class: text(&s.class),
            loader: text(&s.loader),
            method: text(&s.method),
            descriptor: text(&s.descriptor),
            bci: number(s.bci),
            line: number(s.line),
            target: text(&s.target),
        };
        Self { rows: sites.iter().map(row).collect() }
    }
    /// Reads a table.
    ///
    /// # Errors
    /// If it cannot be read, lacks a column, or its numbers are not 0, 1, 2 …
    pub fn read(input: &mut dyn BufRead) -> Result<Self, ReadError> {
        let bad = |number: usize, why: &str| {
            let text = format!("line {number} of the table of sites: {why}");
            ReadError::Read(io::Error::new(io::ErrorKind::InvalidData, text))
        };
        let mut lines = input.lines();
        let head = lines.next().transpose()?.unwrap_or_default();
        let names: Vec<&str> = head.split('\t').collect();
        let column = |name: &str| {
            let missing = || bad(1, &format!("there is no column {name:?}"));
            names.iter().position(|n| *n == name).ok_or_else(missing)
        };
        let wanted = ["id", "kind", "class", "loader", "method", "descriptor", "bci", "line", "targets"];
        let columns = wanted.iter().map(|name| column(name)).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        for (number, text) in (2..).zip(lines) {
            let text = text?;
            let cells: Vec<&str> = text.split('\t').collect();
            let cell = |i: usize| columns.get(i).and_then(|c| cells.get(*c)).map(|c| (*c).to_owned());
            let all: Option<Vec<String>> = (0..wanted.len()).map(cell).collect();
            let all = all.ok_or_else(|| bad(number, "a cell is missing"))?;
            let [id, kind, class, loader, method, descriptor, bci, line, target]: [String; 9] =
                all.try_into().map_err(|_| bad(number, "a cell is missing"))?;
            if id != rows.len().to_string() {
                return Err(bad(number, &format!("the number is {id:?}, not {}", rows.len())));
            }
            rows.push(SiteRow { kind, class, loader, method, descriptor, bci, line, target });
        }
        Ok(Self { rows })
    }
    /// A site by number.
    pub fn get(&self, id: u32) -> Option<&SiteRow> {
        self.rows.get(id as usize)
    }
    /// Number of sites.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Whether there is no site.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
