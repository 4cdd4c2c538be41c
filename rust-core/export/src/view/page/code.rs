// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Listings and sources, of which some may be left out.

use std::io;

use serde::Serialize;

use super::Omissions;
use crate::view::encode::{Column, Deltas, Sparse, Strings, size};
use crate::view::listing::{Listing, Times};
use crate::view::model::{View, ViewMethod};
use crate::view::sources::Finder;

/// The listings, one per method: 0 if there is none, 1 if it was left out.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::view) struct MethodListings {
    texts: Strings,
    methods: Vec<Listed>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Listed {
    No(u8),
    Rows(Box<Rows>),
}

#[derive(Clone, Debug, Default, Serialize)]
struct Rows {
    bci: Deltas,
    text: Column,
    /// 0: unknown.
    line: Deltas,
    /// Twice the executions, and 1 if there may be more.
    times: Deltas,
    /// From, to, times, as above.
    ways: Column,
    handlers: Vec<(u16, u16, u16, String)>,
    malformed: bool,
}

const fn times(t: Times) -> u64 {
    t.seen.saturating_mul(2) | !t.exact as u64
}

impl Rows {
    fn of(listing: &Listing, texts: &mut Strings) -> Self {
        let rows = &listing.rows;
        Self {
            bci: Deltas(rows.iter().map(|r| r.bci.into()).collect()),
            text: Column(rows.iter().map(|r| texts.number(&r.text).into()).collect()),
            line: Deltas(rows.iter().map(|r| r.line.unwrap_or(0).into()).collect()),
            times: Deltas(rows.iter().map(|r| times(r.times)).collect()),
            ways: Column(
                listing.ways.iter().flat_map(|w| [w.from.into(), w.to.into(), times(w.times)]).collect(),
            ),
            handlers: listing.handlers.clone(),
            malformed: listing.malformed,
        }
    }
}

impl MethodListings {
    /// As many listings, from the first method on, as `room` bytes hold.
    pub(in crate::view) fn of(methods: &[ViewMethod], room: usize, left: &mut Omissions) -> io::Result<Self> {
        let (mut code, mut used) = (Self::default(), 0);
        for m in methods {
            let Some(listing) = &m.listing else {
                code.methods.push(Listed::No(0));
                continue;
            };
            if used >= room {
                left.listings += 1;
                code.methods.push(Listed::No(1));
                continue;
            }
            let before = code.texts.bytes();
            let rows = Rows::of(listing, &mut code.texts);
            used += size(&rows)? + code.texts.bytes() - before;
            code.methods.push(Listed::Rows(Box::new(rows)));
        }
        Ok(code)
    }
}

/// The source files.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::view) struct Files {
    paths: Vec<String>,
    texts: Vec<String>,
    /// For each method: 1 if its file was left out, 2 + the number of its file; absent: no file.
    methods: Sparse,
    /// For each class of the coverage, the same.
    classes: Sparse,
}

impl Files {
    /// The files of the methods, then those of the classes, as many as `room` bytes hold.
    pub(in crate::view) fn of(view: &View, room: usize, left: &mut Omissions) -> io::Result<Self> {
        let finder = Finder::new(&view.sources);
        let classes = view.coverage.iter().flat_map(|c| &c.classes);
        let of_methods: Vec<_> =
            view.methods.iter().map(|m| finder.find(m.class(), &m.source_file)).collect();
        let of_classes: Vec<_> = classes.map(|c| finder.find(&c.class, &c.source_file)).collect();
        let (mut files, mut used) = (Self::default(), 0);
        // 0: not considered yet, 1: left out, otherwise 2 + its number.
        let mut numbers = vec![0u64; view.sources.len()];
        for file in of_methods.iter().chain(&of_classes).flatten().copied() {
            if numbers[file] != 0 {
                continue;
            }
            let source = &view.sources[file];
            let bytes = size(&source.text)? + source.path.len() + 8;
            if used + bytes > room {
                left.files += 1;
                numbers[file] = 1;
                continue;
            }
            used += bytes;
            numbers[file] = 2 + files.paths.len() as u64;
            files.paths.push(source.path.clone());
            files.texts.push(source.text.clone());
        }
        let number = |file: &Option<usize>| file.map_or(0, |f| numbers[f]);
        of_methods.iter().enumerate().for_each(|(row, f)| files.methods.put(row, number(f)));
        of_classes.iter().enumerate().for_each(|(row, f)| files.classes.put(row, number(f)));
        Ok(files)
    }
}
