// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use serde_json::Value;

use super::super::testing::{CLOCK, show};
use super::*;

fn profile(most: usize) -> (Value, Written) {
    let process = Process { pid: 70, name: "app".to_owned() };
    let file = Firefox::new(CLOCK, process, most);
    let all = file.clone();
    show(move |info| Box::new(all.thread(info)));
    let mut out = Vec::new();
    let written = file.write(&mut out).unwrap();
    (serde_json::from_slice(&out).unwrap(), written)
}

/// The samples of a thread: time, weight, functions with their categories from the bottom up.
fn samples(whole: &Value, thread: usize) -> Vec<(f64, f64, Vec<String>)> {
    let t = &whole["threads"][thread];
    let at = |v: &Value| v.as_u64().unwrap() as usize;
    let strings = &whole["shared"]["stringArray"];
    let frame = |f: usize| {
        let function = at(&t["frameTable"]["func"][f]);
        let category = at(&t["frameTable"]["category"][f]);
        let name = strings[at(&t["funcTable"]["name"][function])].as_str().unwrap();
        let category = whole["meta"]["categories"][category]["name"].as_str().unwrap();
        format!("{name} {category}")
    };
    let stack = |top: &Value| {
        let (mut frames, mut next) = (Vec::new(), top.as_u64());
        while let Some(n) = next {
            frames.push(frame(at(&t["stackTable"]["frame"][n as usize])));
            next = t["stackTable"]["prefix"][n as usize].as_u64();
        }
        frames.reverse();
        frames
    };
    let s = &t["samples"];
    let one =
        |i: usize| (s["time"][i].as_f64().unwrap(), s["weight"][i].as_f64().unwrap(), stack(&s["stack"][i]));
    (0..at(&s["length"])).map(one).collect()
}

#[test]
fn samples_are_the_changes_of_the_stack() {
    let (whole, written) = profile(MOST_SAMPLES);
    assert_eq!(written, Written { threads: 2, samples: 12, limited: 0 });
    let main = || "a.A.main()V interpreter".to_owned();
    let work = || vec![main(), "a.A.work\u{202e}()V interpreter".to_owned()];
    for thread in [0, 1] {
        assert_eq!(
            samples(&whole, thread),
            [
                (0.0, 0.01, vec![main()]),
                (0.01, 0.03, work()),
                (0.04, 0.01, vec![main()]),
                (0.05, 0.01, work()),
                (0.06, 0.03, vec![main()]),
                (0.09, 0.0, vec![]),
            ]
        );
        let t = &whole["threads"][thread];
        assert_eq!(
            (t["stackTable"]["length"].as_u64(), t["funcTable"]["length"].as_u64()),
            (Some(2), Some(2))
        );
        let marker = t["markers"]["name"][0].as_u64().unwrap() as usize;
        assert_eq!(whole["shared"]["stringArray"][marker], "lost: truncated");
    }
    assert_eq!((&whole["threads"][0]["tid"], &whole["threads"][1]["tid"]), (&"77".into(), &"77.2".into()));
    let source = whole["threads"][0]["funcTable"]["source"][0].as_u64().unwrap() as usize;
    let file = whole["shared"]["sources"]["filename"][source].as_u64().unwrap() as usize;
    assert_eq!(whole["shared"]["stringArray"][file], "A.java");
}

#[test]
fn a_gap_is_a_frame_and_a_marker() {
    let file = Firefox::new(CLOCK, Process::default(), MOST_SAMPLES);
    let mut thread = file.thread(&jportal_flow::testing::thread(3));
    let slice = Slice {
        method: MethodId(4),
        name: "f",
        source: "",
        tier: Tier::C2,
        entry: jportal_flow::Entry::Call,
        depth: 0,
        line: None,
        begin: Tsc(2000),
        inferred: false,
    };
    thread.begin(&slice).unwrap();
    let lost = Lost { since: Tsc(3000), until: Some(Tsc(5000)), reason: "overflow", bytes: None };
    thread.lost(&lost).unwrap();
    thread.end(&SliceEnd { end: Tsc(6000), exit: None, tier: Tier::C2 }).unwrap();
    thread.finish().unwrap();
    let mut out = Vec::new();
    file.write(&mut out).unwrap();
    let whole: Value = serde_json::from_slice(&out).unwrap();
    let f = || "f C2".to_owned();
    assert_eq!(
        samples(&whole, 0),
        [
            (1.0, 1.0, vec![f()]),
            (2.0, 2.0, vec![f(), "(lost) lost".to_owned()]),
            (4.0, 1.0, vec![f()]),
            (5.0, 0.0, vec![])
        ]
    );
    let m = &whole["threads"][0]["markers"];
    assert_eq!((&m["startTime"][0], &m["endTime"][0], &m["phase"][0]), (&2.0.into(), &4.0.into(), &1.into()));
}

#[test]
fn the_limit_of_samples_is_shown() {
    let (whole, written) = profile(3);
    assert_eq!(written, Written { threads: 2, samples: 6, limited: 2 });
    let names = &whole["threads"][0]["markers"]["name"];
    let strings = &whole["shared"]["stringArray"];
    assert!(names.as_array().unwrap().iter().any(|n| strings[n.as_u64().unwrap() as usize] == LIMITED));
    let all = samples(&whole, 0);
    assert_eq!((all.len(), all[2].0, all[2].1), (3, 0.04, 0.01));
}

/// The columns that `src/types/profile.ts` requires, and that those of a table are equally long.
#[test]
fn the_profile_has_the_documented_structure() {
    let (whole, _) = profile(MOST_SAMPLES);
    let has = |v: &Value, keys: &str| {
        keys.split(' ').for_each(|k| assert!(v.get(k).is_some(), "{k}"));
    };
    has(&whole, "meta libs shared threads");
    has(
        &whole["meta"],
        "interval startTime processType product stackwalk version preprocessedProfileVersion markerSchema categories",
    );
    has(&whole["shared"], "stringArray sources");
    assert_eq!(whole["meta"]["preprocessedProfileVersion"], 58);
    let grey = whole["meta"]["categories"].as_array().unwrap().iter().filter(|c| c["color"] == "grey");
    assert_eq!(grey.count(), 1, "the default category");
    let tables = [
        ("samples", "stack time weight weightType length"),
        ("markers", "data name startTime endTime phase category length"),
        ("stackTable", "frame prefix length"),
        (
            "frameTable",
            "address inlineDepth category subcategory func nativeSymbol innerWindowID line column length",
        ),
        ("funcTable", "name isJS relevantForJS resource source lineNumber columnNumber length"),
        ("resourceTable", "lib name host type length"),
        ("nativeSymbols", "libIndex address name functionSize length"),
    ];
    for t in whole["threads"].as_array().unwrap() {
        has(t, "processType processStartupTime processShutdownTime registerTime unregisterTime pausedRanges");
        has(t, "name isMainThread pid tid");
        assert!(t["pid"].is_string());
        for (name, columns) in tables {
            has(&t[name], columns);
            let length = t[name]["length"].as_u64().unwrap() as usize;
            for (column, cells) in t[name].as_object().unwrap() {
                assert!(cells.as_array().is_none_or(|c| c.len() == length), "{name}.{column}");
            }
        }
        let prefix = t["stackTable"]["prefix"].as_array().unwrap();
        assert!(prefix.iter().enumerate().all(|(i, p)| p.as_u64().is_none_or(|p| p < i as u64)));
    }
}
