// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Prints `jportalRecords.hpp`, the C++ side of the metadata schema.
//!
//! ```text
//! cargo run -p jportal-capture --bin jportal-records-hpp \
//!   > hotspot-patches/overlay/src/hotspot/share/jportal/jportalRecords.hpp
//! ```
//! A test of this program fails when the checked-in header is not what it prints.

use std::fmt::Write;

use jportal_capture::schema::{CONSTANTS, ConstantSchema, FRAME_HEADER, FieldSchema, SCHEMA, StructSchema};

const HEAD: &str = r#"/*
 * SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.  The copyright holders
 * designate this particular file as subject to the "Classpath" exception
 * as provided in the LICENSE file that accompanied this code.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */

// Generated from rust-core/capture/src/schema.rs by its program
// jportal-records-hpp. Do not edit: change the schema and generate again.

#ifndef SHARE_JPORTAL_JPORTALRECORDS_HPP
#define SHARE_JPORTAL_JPORTALRECORDS_HPP

#include "jportal/jportalBuffer.hpp"

// A record is its kind and a body. The body is the fields of the struct, in
// order, without padding: write() appends them. Lists come last in a body and
// are not members: each is appended after the head, in the order named, as
//   b->put_count(n), then n times item.write(b).
"#;

const TAIL: &str = "\n#endif // SHARE_JPORTAL_JPORTALRECORDS_HPP\n";

/// C++ type and the `JPortalBuffer` function that appends it.
fn scalar(ty: &str) -> Option<(&'static str, &'static str)> {
    let plain = ty.replace(' ', "");
    Some(match plain.strip_prefix("Appended<").and_then(|t| t.strip_suffix('>')).unwrap_or(&plain) {
        "u8" => ("u1", "put_u1"),
        "u16" => ("u2", "put_u2"),
        "u32" => ("u4", "put_u4"),
        "u64" => ("u8", "put_u8"),
        "i32" => ("int32_t", "put_i4"),
        "Str" | "Bytes" => ("JPortalBytes", "put_bytes"),
        _ => return None,
    })
}

/// Name of a list's item type.
fn item(ty: &str) -> &str {
    ty.strip_prefix("Vec<").and_then(|t| t.strip_suffix('>')).unwrap_or(ty).trim()
}

/// `pc_flags` becomes `PcFlags`.
fn camel(module: &str) -> String {
    module.split('_').map(|w| w.get(..1).unwrap_or("").to_uppercase() + w.get(1..).unwrap_or("")).collect()
}

/// Doc comment lines at `indent`, without Rust's link brackets.
fn comment(out: &mut String, indent: &str, doc: &[&str]) {
    for line in doc {
        let text = line.replace("[`", "`").replace("`]", "`");
        let _ = writeln!(out, "{indent}//{}", text.trim_end());
    }
}

fn literal(c: &ConstantSchema) -> String {
    if c.ty.starts_with('i') { c.value.to_string() } else { format!("{}u", c.value) }
}

fn constants(out: &mut String) {
    let mut module = None;
    for c in CONSTANTS {
        if module != Some(c.module) {
            if module.is_some_and(|m: &str| !m.is_empty()) {
                out.push_str("};\n");
            }
            out.push('\n');
            if !c.module.is_empty() {
                let _ = writeln!(out, "struct JPortal{} : AllStatic {{", camel(c.module));
            }
            module = Some(c.module);
        }
        let (indent, name) = if c.module.is_empty() {
            ("", format!("JPORTAL_{}", c.name))
        } else {
            ("  ", c.name.to_string())
        };
        comment(out, indent, c.doc);
        let ty = scalar(c.ty).map_or(c.ty, |s| s.0);
        let keyword = if c.module.is_empty() { "const" } else { "static const" };
        let _ = writeln!(out, "{indent}{keyword} {ty} {name} = {};", literal(c));
    }
    if module.is_some_and(|m| !m.is_empty()) {
        out.push_str("};\n");
    }
    let _ = writeln!(out, "\n// Bytes of the frame header that the recorder puts before a body.");
    let _ = writeln!(out, "const size_t JPORTAL_FRAME_HEADER = {FRAME_HEADER};");
}

fn structure(out: &mut String, s: &StructSchema) {
    out.push('\n');
    comment(out, "", s.doc);
    let _ = writeln!(out, "struct JPortal{} {{", s.name);
    if let Some(kind) = s.kind {
        let _ = writeln!(out, "  static const u2 KIND = {kind};");
    }
    let (lists, fields): (Vec<&FieldSchema>, Vec<_>) = s.fields.iter().partition(|f| f.ty.starts_with("Vec"));
    for f in &fields {
        comment(out, "  ", f.doc);
        let ty = scalar(f.ty).map_or(f.ty, |t| t.0);
        let _ = writeln!(out, "  {ty} {};", f.name);
    }
    for f in &lists {
        let doc = f.doc.concat();
        let _ = writeln!(out, "  // list {}: JPortal{}.{}", f.name, item(f.ty), doc);
    }
    let _ = writeln!(out, "\n  void write(JPortalBuffer* b) const {{");
    for f in &fields {
        let put = scalar(f.ty).map_or("put", |t| t.1);
        let _ = writeln!(out, "    b->{put}({});", f.name);
    }
    out.push_str("  }\n};\n");
}

fn header() -> String {
    let mut out = String::from(HEAD);
    constants(&mut out);
    for s in SCHEMA {
        structure(&mut out, s);
    }
    out.push_str(TAIL);
    out
}

fn main() -> std::io::Result<()> {
    use std::io::Write;
    std::io::stdout().lock().write_all(header().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_cpp_type() {
        for s in SCHEMA {
            for f in s.fields {
                let known =
                    scalar(f.ty).is_some() || SCHEMA.iter().any(|g| g.kind.is_none() && g.name == item(f.ty));
                assert!(known, "{}.{}: no C++ type for {}", s.name, f.name, f.ty);
            }
        }
    }

    #[test]
    fn the_checked_in_header_is_current() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../hotspot-patches/overlay/src/hotspot/share/jportal/jportalRecords.hpp"
        );
        let found = std::fs::read_to_string(path).expect("the overlay has jportalRecords.hpp");
        assert!(
            found == header(),
            "{path} is out of date: cargo run -p jportal-capture --bin jportal-records-hpp > that file"
        );
    }
}
