// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! pprof.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use flate2::read::GzDecoder;
use prost::Message;

use super::super::pprof_proto::Profile;
use super::super::testing::{all_known, mixed, sources};
use super::*;

fn decode(tree: &CallTree, options: &ProfileOptions<'_>) -> Profile {
    let mut bytes = Vec::new();
    let written = written(|out| write_pprof(tree, options, out));
    GzDecoder::new(&written[..]).read_to_end(&mut bytes).unwrap();
    let profile = Profile::decode(&bytes[..]).unwrap();
    check(&profile);
    profile
}
/// All references lead somewhere, and all samples have the same number of values.
fn check(p: &Profile) {
    assert_eq!(p.string_table[0], "");
    let texts = p.string_table.iter().collect::<BTreeSet<_>>();
    assert_eq!(texts.len(), p.string_table.len());
    let functions: BTreeSet<u64> = p.function.iter().map(|f| f.id).collect();
    let locations: BTreeSet<u64> = p.location.iter().map(|l| l.id).collect();
    assert!(!functions.contains(&0) && !locations.contains(&0));
    assert_eq!((functions.len(), locations.len()), (p.function.len(), p.location.len()));
    for location in &p.location {
        assert!(location.mapping_id == 1 && functions.contains(&location.line[0].function_id));
    }
    for sample in &p.sample {
        assert!(sample.location_id.iter().all(|id| locations.contains(id)));
        assert_eq!(sample.value.len(), p.sample_type.len());
    }
}
/// The name and line of a location: `a.B.f:17`.
fn place(p: &Profile, id: u64) -> String {
    let line = p.location.iter().find(|l| l.id == id).unwrap().line[0];
    let function = p.function.iter().find(|f| f.id == line.function_id).unwrap();
    let name = &p.string_table[function.name as usize];
    if line.line == 0 { name.clone() } else { format!("{name}:{}", line.line) }
}
/// A line per sample: the stack from the outermost frame, values, labels.
fn text(p: &Profile) -> String {
    let string = |at: i64| p.string_table[at as usize].as_str();
    let mut text = String::new();
    for sample in &p.sample {
        let stack: Vec<String> = sample.location_id.iter().rev().map(|id| place(p, *id)).collect();
        let label = |l: &super::super::pprof_proto::Label| match l.str {
            0 => format!("{}={}", string(l.key), l.num),
            value => format!("{}={}", string(l.key), string(value)),
        };
        let labels: Vec<String> = sample.label.iter().map(label).collect();
        text.push_str(&format!("{} {:?} {}\n", stack.join(" > "), sample.value, labels.join(" ")));
    }
    text
}
fn total(p: &Profile, value: usize) -> u64 {
    p.sample.iter().map(|s| s.value[value] as u64).sum()
}

#[test]
fn a_small_tree() {
    let p = decode(&foo(), &ProfileOptions::default());
    assert_eq!(text(&p), include_str!("../testdata/foo.pprof.txt"));
    assert_eq!((total(&p, 0), total(&p, 1)), (78, 624));
    let string = |at: i64| p.string_table[at as usize].as_str();
    let types: Vec<_> = p.sample_type.iter().map(|t| (string(t.r#type), string(t.unit))).collect();
    assert_eq!(types, [("invocations", "count"), ("bytecodes", "count")]);
    assert_eq!(string(p.default_sample_type), "bytecodes");
    let comments: Vec<&str> = p.comment.iter().map(|c| string(*c)).collect();
    assert_eq!(comments[..2], ["exact: all figures are complete", "624 bytecodes, 78 invocations"]);
    assert_eq!(comments[2], "blocks precise, upcalls nested, natives show, frames out of scope splice");
}

#[test]
fn tiers_lines_sources_times_and_what_is_not_exact() {
    let sources = sources();
    let p = decode(&mixed(), &all_known(&sources));
    assert_eq!(text(&p), include_str!("../testdata/mixed.pprof.txt"));
    let [calls, bytecodes, ticks] = sums(&mixed());
    assert_eq!([total(&p, 0), total(&p, 1), total(&p, 2)], [calls, bytecodes, ticks / 2]);
    assert_eq!((p.time_nanos, p.duration_nanos), (1_700_000_000_000_000_000, 5_000));
    let string = |at: i64| p.string_table[at as usize].as_str();
    let f = p.function.iter().find(|f| string(f.system_name) == "a.B.f(I)I").unwrap();
    assert_eq!((string(f.name), string(f.filename), f.start_line), ("a.B.f", "a/B.java", 16));
    let main = p.function.iter().find(|f| string(f.name) == "a.B.main").unwrap();
    assert_eq!((main.filename, main.start_line), (0, 0));
    assert_eq!(string(p.mapping[0].filename), "app.jportal");
    let comments: Vec<&str> = p.comment.iter().map(|c| string(*c)).collect();
    let why = "gaps 1, orphans 4, found 1, silent_calls 7, recovered 9, unresolved.empty-loop 2";
    assert_eq!(comments[0], format!("not exact: {why}; figures are lower bounds"));
    assert_eq!(comments[1], "171 (9 recovered) bytecodes, 18 invocations");
    assert_eq!(comments[2], "lower bounds in 2 of 10 nodes");
    assert!(comments[3].ends_with("not seen: 1") && comments[4].ends_with("they began: 2"));
}

#[test]
fn sums_are_those_of_the_tree() {
    for t in randoms() {
        let known = all_known(&Sources::default()).ticks_per_second;
        let p = decode(&t, &ProfileOptions { ticks_per_second: known, ..ProfileOptions::default() });
        let [calls, bytecodes, ticks] = sums(&t);
        assert_eq!([total(&p, 0), total(&p, 1), total(&p, 2)], [calls, bytecodes, ticks / 2]);
        let mut tiers: BTreeMap<&str, u64> = BTreeMap::new();
        let mut threads: BTreeMap<&str, u64> = BTreeMap::new();
        for sample in &p.sample {
            for l in &sample.label {
                let (key, value) = (&p.string_table[l.key as usize], &p.string_table[l.str as usize]);
                match key.as_str() {
                    "tier" => *tiers.entry(value).or_default() += sample.value[1] as u64,
                    "thread" => *threads.entry(value).or_default() += sample.value[1] as u64,
                    _ => {}
                }
            }
        }
        let c2: u64 = t.nodes.iter().map(|n| n.tiers.c2).sum();
        let interpreter: u64 = t.nodes.iter().map(|n| n.tiers.interpreter).sum();
        let tier = |name| tiers.get(name).copied().unwrap_or(0);
        assert_eq!((tier("c2"), tier("c1"), tier("interpreter")), (c2, 0, interpreter));
        for thread in &t.threads {
            let total = t.nodes[thread.root as usize].total;
            assert_eq!(threads.get(thread.name.as_str()).copied().unwrap_or(0), total);
        }
    }
}
