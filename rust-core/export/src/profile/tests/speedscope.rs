// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! speedscope.

use serde_json::Value;

use super::super::testing::{all_known, mixed, sources};
use super::*;

fn decode(tree: &CallTree, options: &ProfileOptions<'_>) -> Value {
    let value: Value = serde_json::from_slice(&written(|out| write_speedscope(tree, options, out))).unwrap();
    let frames = value["shared"]["frames"].as_array().unwrap().len() as u64;
    for profile in value["profiles"].as_array().unwrap() {
        let (samples, weights) =
            (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len());
        let mut all = samples.iter().flat_map(|s| s.as_array().unwrap());
        assert!(all.all(|frame| frame.as_u64().unwrap() < frames));
        assert_eq!((profile["type"].as_str(), profile["startValue"].as_u64()), (Some("sampled"), Some(0)));
        assert_eq!(profile["endValue"].as_u64(), Some(weights.iter().map(|w| w.as_u64().unwrap()).sum()));
    }
    value
}
fn total(value: &Value) -> u64 {
    value["profiles"].as_array().unwrap().iter().map(|p| p["endValue"].as_u64().unwrap()).sum()
}

#[test]
fn a_small_tree() {
    let golden: Value = serde_json::from_str(include_str!("../testdata/foo.speedscope.json")).unwrap();
    let mut value = decode(&foo(), &ProfileOptions { title: "foo.jportal", ..ProfileOptions::default() });
    assert!(value["exporter"].as_str().unwrap().starts_with("jportal "));
    value["exporter"] = "jportal".into();
    assert_eq!(value, golden);
}

#[test]
fn names_say_what_is_not_exact() {
    let sources = sources();
    let value = decode(&mixed(), &all_known(&sources));
    let names: Vec<_> =
        value["profiles"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["main", "pool worker;1 (inexact: lower bounds)"]);
    let name = value["name"].as_str().unwrap();
    assert!(name.starts_with("app.jportal, bytecodes (not exact: gaps 1, orphans 4"), "{name}");
    assert_eq!(
        value["shared"]["frames"][1],
        serde_json::json!({"name": "a.B.f", "file": "a/B.java", "line": 16})
    );
    let timed = decode(&mixed(), &ProfileOptions { weight: Weight::Time, ..all_known(&sources) });
    assert_eq!(timed["profiles"].as_array().unwrap().len(), 1, "the other thread has no time");
    assert_eq!((timed["profiles"][0]["unit"].as_str(), total(&timed)), (Some("nanoseconds"), 3000));
    let one = decode(&mixed(), &ProfileOptions { threads: false, ..ProfileOptions::default() });
    assert_eq!(one["profiles"][0]["name"], "all threads (inexact: lower bounds)");
    assert_eq!((one["profiles"].as_array().unwrap().len(), total(&one)), (1, sums(&mixed())[1]));
}

#[test]
fn sums_are_those_of_the_tree() {
    for t in randoms() {
        let value = decode(&t, &ProfileOptions::default());
        assert_eq!(total(&value), sums(&t)[1]);
        for p in value["profiles"].as_array().unwrap() {
            let thread = t.threads.iter().find(|t| p["name"] == t.name.as_str()).unwrap();
            assert_eq!(p["endValue"], t.nodes[thread.root as usize].total);
        }
        let calls = ProfileOptions { weight: Weight::Calls, ..ProfileOptions::default() };
        assert_eq!(total(&decode(&t, &calls)), sums(&t)[0]);
    }
}
