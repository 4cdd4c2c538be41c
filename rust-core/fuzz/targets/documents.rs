// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as results in JSON, which are compared as `jportal diff` does.
#![no_main]

use jportal::analyses::diff::{Diff, DiffOptions, Document};
use jportal_fuzz_targets::two_parts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((before, after)) = two_parts(data) else { return };
    let Ok(before) = Document::parse(before) else { return };
    let options =
        DiffOptions { allow_inexact: true, merge_threads: data.len() % 2 == 0, ..DiffOptions::default() };
    if let Ok(diff) = Diff::new(&before, &before, &options) {
        assert!(diff.equal, "a document equals itself: {}", diff.text());
    }
    let Ok(after) = Document::parse(after) else { return };
    let _ = Diff::new(&before, &after, &options).map(|diff| diff.text());
});
