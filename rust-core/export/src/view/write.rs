// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes the page.

use std::io::{self, Write};

use super::encode::{Strings, json, size};
use super::fold::fold;
use super::model::View;
use super::page::{self, Files, MethodListings, Omissions, Rest, Tree};
use crate::Error;

/// Greatest size of a page in bytes, unless methods and classes alone need more.
pub const LIMIT: usize = 19_900_000;
const _: () = assert!(LIMIT < 20_000_000);

/// The page. `@@` is on both sides of the names of what is inserted.
const TEMPLATE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/page.css");
/// The scripts, in this order in one scope.
const SCRIPTS: [&str; 14] = [
    include_str!("assets/base.js"),
    include_str!("assets/data.js"),
    include_str!("assets/grid.js"),
    include_str!("assets/tree.js"),
    include_str!("assets/lanes.js"),
    include_str!("assets/overview.js"),
    include_str!("assets/frames.js"),
    include_str!("assets/flame.js"),
    include_str!("assets/methods.js"),
    include_str!("assets/source.js"),
    include_str!("assets/coverage.js"),
    include_str!("assets/latency.js"),
    include_str!("assets/jit.js"),
    include_str!("assets/main.js"),
];

/// Writes `view` as one page of HTML of at most [`LIMIT`] bytes.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_view(view: &View, out: &mut dyn Write) -> Result<(), Error> {
    write_view_within(LIMIT, view, out)
}

/// As [`write_view`], of at most `limit` bytes. The page may be larger if its text, its methods and
/// its classes alone need more.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_view_within(limit: usize, view: &View, out: &mut dyn Write) -> Result<(), Error> {
    let frame = TEMPLATE.len() + STYLE.len() + SCRIPTS.iter().map(|s| s.len() + 1).sum::<usize>();
    let data = Data::of(view, limit.saturating_sub(frame))?;
    for (i, part) in TEMPLATE.split("@@").enumerate() {
        match (i % 2, part) {
            (0, text) => out.write_all(text.as_bytes())?,
            (_, "style") => out.write_all(STYLE.as_bytes())?,
            (_, "data") => data.write(out)?,
            (_, _) => SCRIPTS.iter().try_for_each(|s| writeln!(out, "{s}"))?,
        }
    }
    out.flush()?;
    Ok(())
}

/// The data of the page.
struct Data {
    rest: Rest,
    code: MethodListings,
    files: Files,
    trees: Vec<Tree>,
    left: Omissions,
    strings: Strings,
}

impl Data {
    /// Chooses what fits into `room` bytes.
    fn of(view: &View, room: usize) -> io::Result<Self> {
        let mut strings = Strings::default();
        let mut left = Omissions::default();
        let rest = Rest::of(view, &mut strings);
        for tree in &view.trees {
            page::names(&tree.tree, &mut strings);
        }
        let fixed = size(&rest)? + size(&strings)?;
        let room = room.saturating_sub(fixed + 1024);
        // A quarter for each of listings and sources; trees get what they leave.
        let code = MethodListings::of(&view.methods, room / 4, &mut left)?;
        let files = Files::of(view, room / 4, &mut left)?;
        let used = size(&code)? + size(&files)?;
        let trees = trees(view, room.saturating_sub(used), &mut strings, &mut left)?;
        Ok(Self { rest, code, files, trees, left, strings })
    }
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"rest\":")?;
        json(&self.rest, out)?;
        out.write_all(b",\n\"code\":")?;
        json(&self.code, out)?;
        out.write_all(b",\n\"files\":")?;
        json(&self.files, out)?;
        out.write_all(b",\n\"trees\":")?;
        json(&self.trees, out)?;
        out.write_all(b",\n\"left\":")?;
        json(&self.left, out)?;
        out.write_all(b",\n\"strings\":")?;
        json(&self.strings, out)?;
        out.write_all(b"}")
    }
}

/// The trees, in `room` bytes. Each gets the share that its nodes have of all nodes.
fn trees(view: &View, room: usize, strings: &mut Strings, left: &mut Omissions) -> io::Result<Vec<Tree>> {
    let all: usize = view.trees.iter().map(|t| t.tree.nodes.len()).sum();
    let mut out = Vec::new();
    for tree in &view.trees {
        let nodes = tree.tree.nodes.len();
        let share = (room as u128 * nodes as u128 / all.max(1) as u128) as usize;
        // No node has less than 14 bytes.
        let mut keep = nodes.min(share / 14);
        loop {
            let folded = fold(&tree.tree, keep);
            let encoded = Tree::of(tree, &folded, strings);
            let bytes = size(&encoded)?;
            if bytes <= share || keep <= 1 {
                left.folded += folded.iter().map(|f| f.folded).sum::<u64>();
                out.push(encoded);
                break;
            }
            let fits = (keep as u128 * share as u128 / bytes as u128) as usize;
            keep = fits.min(keep.saturating_sub(keep / 64).saturating_sub(1));
        }
    }
    Ok(out)
}
