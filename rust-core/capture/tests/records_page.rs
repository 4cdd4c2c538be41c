// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `docs/capture-records.md` is generated from the schema. After a change of the schema, write it
//! anew with `JPORTAL_BLESS=1 cargo test -p jportal-capture --test records_page`.

use std::fmt::Write;
use std::path::Path;

use jportal_capture::schema::{CONSTANTS, ConstantSchema, SCHEMA, StructSchema};

/// The longest line of prose.
const COLUMNS: usize = 100;

/// Doc comments as Markdown: links to items become code, and `|` is escaped for tables.
fn prose(lines: &[&str]) -> String {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    text.replace("[`", "`").replace("`]", "`").replace('|', "\\|").trim().to_owned()
}

/// `text` in lines of at most [`COLUMNS`].
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(&line);
            lines.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line
}

/// The type as in the Rust source, with a link to the group that it names.
fn kind(ty: &str) -> String {
    let ty = ty.replace(' ', "");
    let inside = |ty, head| str::strip_prefix(ty, head).and_then(|rest| rest.strip_suffix('>')).unwrap_or(ty);
    let inner = inside(inside(&ty, "Option<"), "Vec<");
    match SCHEMA.iter().any(|group| group.name == inner) {
        true => format!("`{ty}`, see [{inner}](#{})", inner.to_lowercase()),
        false => format!("`{ty}`"),
    }
}

fn section(page: &mut String, of: &StructSchema) -> std::fmt::Result {
    match of.kind {
        Some(number) => {
            writeln!(page, "### {}\n\n{}\n", of.name, wrapped(&format!("Kind {number}. {}", prose(of.doc))))?;
        }
        None => writeln!(page, "### {}\n\n{}\n", of.name, wrapped(&prose(of.doc)))?,
    }
    if of.fields.is_empty() {
        return writeln!(page, "No fields.\n");
    }
    writeln!(page, "| field | type | meaning |\n|---|---|---|")?;
    for field in of.fields {
        writeln!(page, "| `{}` | {} | {} |", field.name, kind(field.ty), prose(field.doc))?;
    }
    writeln!(page)
}

fn constants(page: &mut String, title: &str, all: &[&ConstantSchema]) -> std::fmt::Result {
    writeln!(page, "### {title}\n\n| name | type | value | meaning |\n|---|---|---|---|")?;
    for c in all {
        let value = match c.ty {
            "u32" if c.value > 0xffff => format!("{:#x}", c.value),
            _ => c.value.to_string(),
        };
        writeln!(page, "| `{}` | `{}` | {value} | {} |", c.name, c.ty, prose(c.doc))?;
    }
    writeln!(page)
}

fn page() -> Result<String, std::fmt::Error> {
    let mut page = String::from(
        "# Metadata records

This page is generated from `rust-core/capture/src/schema.rs`, which also defines the C++ side. [The
capture format](capture-format.md) says how records are framed and how the types are encoded. Fields
are in the order of the body.

## Records

",
    );
    for record in SCHEMA.iter().filter(|s| s.kind.is_some()) {
        section(&mut page, record)?;
    }
    page.push_str("## Groups\n\nItems of the lists in records.\n\n");
    for group in SCHEMA.iter().filter(|s| s.kind.is_none()) {
        section(&mut page, group)?;
    }
    page.push_str("## Constants\n\n");
    let mut modules: Vec<&str> = CONSTANTS.iter().map(|c| c.module).collect();
    modules.dedup();
    for module in modules {
        let title = if module.is_empty() { "Single values" } else { module };
        let all: Vec<_> = CONSTANTS.iter().filter(|c| c.module == module).collect();
        constants(&mut page, title, &all)?;
    }
    Ok(format!("{}\n", page.trim_end()))
}

#[test]
fn the_page_is_that_of_the_schema() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/capture-records.md");
    let page = page().unwrap();
    if std::env::var_os("JPORTAL_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    let line = stored.lines().zip(page.lines()).position(|(a, b)| a != b);
    assert!(
        stored == page,
        "line {line:?} of docs/capture-records.md is not that of the schema; see the top of this test"
    );
}
