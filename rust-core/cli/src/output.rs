// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Results on stdout: text, JSON, JSON lines, CSV.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, StdoutLock, Write};

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{Format, FormatArgs};

/// A kind of result: the name of its schema in `docs/schemas`, its version, and the field with
/// the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultKind {
    pub(crate) schema: &'static str,
    /// The version of the schema. It grows when a field changes its meaning or goes.
    pub(crate) version: u32,
    /// The field that JSON lines and CSV show.
    pub(crate) rows: Option<&'static str>,
}

impl ResultKind {
    /// A kind of version 1.
    pub(crate) const fn new(schema: &'static str, rows: Option<&'static str>) -> Self {
        Self { schema, version: 1, rows }
    }
    /// The value of the field `schema`.
    pub(crate) fn name(self) -> String {
        format!("jportal/{}/{}", self.schema, self.version)
    }
    /// A result as one document.
    pub(crate) fn document<T: Serialize>(self, value: &T) -> ResultDocument<'_, T> {
        ResultDocument { schema: self.name(), value }
    }
}

/// A result as one document: the name of its schema, and its fields.
#[derive(Serialize)]
pub(crate) struct ResultDocument<'a, T> {
    schema: String,
    #[serde(flatten)]
    value: &'a T,
}

/// Writes a result in the chosen format.
pub(crate) fn put(
    format: &FormatArgs,
    kind: ResultKind,
    value: &impl Serialize,
    text: impl FnOnce() -> Result<String>,
) -> Result<()> {
    if format.get() == Format::Text {
        return put_text(&text()?);
    }
    put_value(format, kind, value)
}

/// Writes a result for programs. A document is written field by field, so that a large one does
/// not exist in memory.
pub(crate) fn put_value(format: &FormatArgs, kind: ResultKind, value: &impl Serialize) -> Result<()> {
    let mut out = stdout();
    match format.get() {
        Format::Text | Format::Json => {
            serde_json::to_writer_pretty(&mut out, &kind.document(value))?;
            writeln!(out)?;
        }
        Format::Jsonl => {
            for row in rows(kind, &serde_json::to_value(value)?)? {
                serde_json::to_writer(&mut out, row)?;
                writeln!(out)?;
            }
        }
        Format::Csv => {
            let value = serde_json::to_value(value)?;
            let rows: Vec<Map<String, Value>> = rows(kind, &value)?.iter().map(flat).collect();
            out.write_all(&csv(&rows)?)?;
        }
    }
    Ok(out.flush()?)
}

/// Standard output with a buffer. Alone it writes at each end of a line, or every kilobyte.
fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Writes rows to stdout as CSV, one by one.
pub(crate) fn put_csv(
    rows: impl FnOnce(&mut csv::Writer<BufWriter<StdoutLock<'static>>>) -> csv::Result<()>,
) -> Result<()> {
    let mut writer = csv::Writer::from_writer(stdout());
    rows(&mut writer)?;
    Ok(writer.flush()?)
}

/// Prints text to stdout. Names from the capture are already escaped in their lines (`plain`).
/// This escapes all other control characters.
pub(crate) fn put_text(text: &str) -> Result<()> {
    io::stdout().lock().write_all(jportal_plain::lines(text).as_bytes())?;
    Ok(())
}

/// Stdout, with control characters escaped. Writes whole lines.
#[derive(Debug, Default)]
pub(crate) struct PlainStdout(Vec<u8>);

impl Write for PlainStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const ENOUGH: usize = 1 << 16;
        self.0.extend_from_slice(bytes);
        if self.0.len() >= ENOUGH && bytes.ends_with(b"\n") {
            self.flush()?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.0);
        io::stdout().lock().write_all(jportal_plain::lines(&text).as_bytes())?;
        self.0.clear();
        Ok(())
    }
}

fn rows(kind: ResultKind, value: &Value) -> Result<&[Value]> {
    match kind.rows.map(|field| &value[field]) {
        Some(Value::Array(rows)) => Ok(rows),
        _ => bail!("this result has no rows; use --format json or text"),
    }
}

/// A row without nested objects: `{"a": {"b": 1}}` becomes `{"a.b": 1}`. Lists of numbers and
/// names are joined with blanks, lists of objects are left out.
fn flat(row: &Value) -> Map<String, Value> {
    fn add(to: &mut Map<String, Value>, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    add(to, &name, value);
                }
            }
            Value::Array(all) if all.iter().any(|v| v.is_object() || v.is_array()) => {}
            Value::Array(all) => {
                let words: Vec<String> = all.iter().map(cell).collect();
                to.insert(name.to_owned(), words.join(" ").into());
            }
            other => {
                to.insert(name.to_owned(), other.clone());
            }
        }
    }
    let mut to = Map::new();
    add(&mut to, "", row);
    to
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The rows under a heading with the names of all fields.
fn csv(rows: &[Map<String, Value>]) -> Result<Vec<u8>> {
    let names: BTreeSet<&String> = rows.iter().flat_map(Map::keys).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&names)?;
    for row in rows {
        writer.write_record(names.iter().map(|name| row.get(*name).map(cell).unwrap_or_default()))?;
    }
    Ok(writer.into_inner()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_cells() {
        let rows = [
            json!({"name": "a,b", "count": {"all": 3, "by": [1, 2]}, "methods": [{"x": 1}]}),
            json!({"name": "c", "exact": true, "line": null}),
        ];
        let rows: Vec<_> = rows.iter().map(flat).collect();
        let text = String::from_utf8(csv(&rows).unwrap()).unwrap();
        assert_eq!(text, "count.all,count.by,exact,line,name\n3,1 2,,,\"a,b\"\n,,true,,c\n");
    }

    #[test]
    fn a_result_without_rows_says_so() {
        let kind = ResultKind::new("x", None);
        assert!(rows(kind, &json!({})).unwrap_err().to_string().contains("--format json"));
        assert_eq!(rows(ResultKind::new("x", Some("r")), &json!({"r": [1]})).unwrap().len(), 1);
        assert_eq!(kind.name(), "jportal/x/1");
    }
}
