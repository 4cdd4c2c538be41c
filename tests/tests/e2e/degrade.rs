//! `jportal degrade`: what is decoded of a degraded capture is what the loss-free one has there.

use std::collections::HashMap;
use std::path::Path;

use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{Mode, Plan, Recording};

/// The bytecodes of `main` as `print` shows them, without times and frames; gaps by their reason.
fn lines(recording: &Recording, capture: &Path) -> Vec<String> {
    let print = ["print", "--level", "bytecode", "--json", "--thread", "main"];
    let out = recording.jportal(&print, capture, &[]).unwrap();
    assert!(out.status.success(), "{}", out.stderr);
    let text = out.text();
    let events = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    events
        .filter_map(|e| match e["event"].as_str() {
            Some("bytecode") => Some(format!("{} {}", e["method"], e["bci"])),
            Some("gap") => Some("gap".to_owned()),
            _ => None,
        })
        .collect()
}

/// Bytecodes of `part` that are not found in order in `whole`. Behind a gap the place in `whole` is the next one at which
/// the following run of bytecodes stands; `run` of them name it well enough.
fn strangers(part: &[String], whole: &[String], run: usize) -> usize {
    let mut places: HashMap<&[String], Vec<usize>> = HashMap::new();
    for (i, window) in whole.windows(run).enumerate() {
        places.entry(window).or_default().push(i);
    }
    let (mut at, mut strange) = (0, 0);
    for segment in part.split(|l| l == "gap").filter(|s| !s.is_empty()) {
        let next = segment.get(..run).and_then(|start| places.get(start));
        let fits = |i: &usize| whole[*i..].starts_with(segment);
        let found = next.and_then(|all| all[all.partition_point(|&i| i < at)..].iter().copied().find(|i| fits(i)));
        match found {
            Some(place) => at = place + segment.len(),
            // Too short to be named by its start.
            None if segment.len() < run => {}
            None => strange += segment.len(),
        }
    }
    strange
}

#[test]
fn what_is_left_is_the_flow_of_the_whole_in_order() {
    let Some(place) = place::installed("what_is_left_is_the_flow_of_the_whole_in_order") else { return };
    let program = programs::by_name("hot-loops").expect("a program of that name");
    let recording = Recording::make(&place, &program, &Plan::new(Mode::Interpreter)).unwrap();
    let whole = lines(&recording, &recording.capture());
    let (copy, again) = (recording.file("lossy.jportal"), recording.file("again.jportal"));
    for arguments in [["--loss", "25%"], ["--overflow", "64k"]] {
        for target in [&copy, &again] {
            let target = target.to_str().expect("a plain name");
            let degrade = ["degrade", "--json", "-o", target, arguments[0], arguments[1]];
            let out = recording.jportal(&degrade, &recording.capture(), &[]).unwrap();
            assert!(out.status.success(), "{}", out.stderr);
            let share = out.json().unwrap()["share"].as_f64().unwrap();
            println!("{arguments:?}: {share} lost");
            assert!(if arguments[0] == "--loss" { (share - 0.25).abs() < 0.05 } else { share > 0.0 });
        }
        assert!(std::fs::read(&copy).unwrap() == std::fs::read(&again).unwrap(), "the same seed");
        let info = recording.jportal(&["info", "--json"], &copy, &[]).unwrap().json().unwrap();
        assert_eq!(info["errors"]["native_flow"], 0, "{info}");
        let reason = if arguments[0] == "--loss" { "truncated" } else { "overflow" };
        assert!(info["gaps_by_reason"][reason].as_u64().is_some_and(|n| n > 3), "{info}");
        let verdict = recording.verify(&copy, &["--allow-gaps"]).unwrap();
        assert!(verdict.matched().unwrap() > 0);
        let part = lines(&recording, &copy);
        let strange = strangers(&part, &whole, 40);
        println!("{} of {} lines, {strange} out of order", part.len(), whole.len());
        assert!(part.len() < whole.len() && strange == 0, "{strange} of {}", part.len());
    }
    // The comparison sees what it should: a line taken out, and segments in the wrong order.
    let mut wrong = lines(&recording, &copy);
    let place = wrong.len() / 2;
    wrong.remove(place);
    assert!(strangers(&wrong, &whole, 40) > 0, "a missing line was not seen");
}
