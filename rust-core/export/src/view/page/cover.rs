// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage.

use jportal_analyses::coverage::{Coverage, Figures, Ratio};
use serde::Serialize;

use super::{version, why};
use crate::view::encode::{Column, Deltas, Strings};

/// Coverage.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cover {
    exact: bool,
    certain: bool,
    why: Vec<String>,
    classes: Vec<CoverClass>,
}

/// Name, loader and file as strings, and the methods.
#[derive(Clone, Debug, Serialize)]
struct CoverClass(u32, u32, u32, Vec<CoverMethod>);

/// Name, figures, missed lines, unknown lines, version.
#[derive(Clone, Debug, Serialize)]
struct CoverMethod(u32, Column, Deltas, Deltas, String);

impl Cover {
    pub(super) fn of(c: &Coverage, strings: &mut Strings) -> Self {
        let lines = |all: &[u16]| Deltas(all.iter().map(|l| u64::from(*l)).collect());
        let mut classes = Vec::new();
        for class in &c.classes {
            let methods = class.methods.iter().map(|m| {
                CoverMethod(
                    strings.number(&m.name),
                    figures(&m.figures),
                    lines(&m.missed_lines),
                    lines(&m.unknown_lines),
                    m.version.map(version).unwrap_or_default(),
                )
            });
            let methods = methods.collect();
            let [name, loader, file] =
                [&class.class, &class.loader, &class.source_file].map(|s| strings.number(s));
            classes.push(CoverClass(name, loader, file, methods));
        }
        Self { exact: c.exact, certain: c.missed_is_certain, why: why(&c.inexact), classes }
    }
}

/// Executed, present, unknown: of bytecodes, lines and branches. Then, if there are any, the
/// executed ones that are known by placing or filling only.
fn figures(f: &Figures) -> Column {
    let all = [&f.bytecodes, &f.lines, &f.branches];
    let three = |r: &Ratio| [r.executed.total(), r.present, r.unknown];
    let mut out: Vec<u64> = all.iter().flat_map(|r| three(r)).collect();
    let inferred = all.map(|r| r.executed.projected + r.executed.recovered);
    if inferred.iter().any(|n| *n > 0) {
        out.extend(inferred);
    }
    Column(out)
}
