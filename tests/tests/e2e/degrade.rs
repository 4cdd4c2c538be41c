// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal degrade`: the flow of a degraded capture must be contained in that of the loss-free
//! one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};

/// The number of bytecodes that suffice to identify a place in the flow.
const RUN: usize = 40;

/// The first bytecodes of a thread, as numbers. `None` where the flow is interrupted: at a gap,
/// and where a frame without a known caller begins, because the bytecodes of the frame below are
/// not known.
pub(crate) fn flow(
    recording: &RecordedRun,
    capture: &Path,
    (thread, lines): (&str, &str),
    names: &RandomState,
) -> Vec<Option<u64>> {
    let print =
        ["print", "--project", "none", "--level", "bytecode", "--json", "--thread", thread, "--limit", lines];
    let out = recording.jportal(&print, capture, &[]).unwrap();
    assert!(out.status.success(), "{}", out.stderr);
    let text = out.text();
    let events = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    events
        .filter_map(|e| match e["event"].as_str() {
            Some("bytecode") => Some(Some(names.hash_one((e["method"].as_str(), e["bci"].as_u64())))),
            Some("gap") => Some(None),
            Some("enter") if e["depth"] == 0 => Some(None),
            _ => None,
        })
        .collect()
}

/// Searches the segments of `part` in `whole`, in order. Returns the number of segments found,
/// and the number of bytecodes in segments that were not found. Each segment gets the first place
/// that fits: if all segments can be placed, this places them. Segments of fewer than `RUN`
/// bytecodes do not count.
pub(crate) fn place_segments(part: &[Option<u64>], whole: &[u64]) -> (usize, usize) {
    let mut places: HashMap<&[u64], Vec<usize>> = HashMap::new();
    for (i, window) in whole.windows(RUN).enumerate() {
        places.entry(window).or_default().push(i);
    }
    let (mut at, mut found, mut strange) = (0, 0, 0);
    for segment in part.split(Option::is_none).filter(|s| s.len() >= RUN) {
        let segment: Vec<u64> = segment.iter().flatten().copied().collect();
        let all = places.get(&segment[..RUN]).map_or(&[][..], Vec::as_slice);
        let mut fits =
            all[all.partition_point(|&i| i < at)..].iter().filter(|&&i| whole[i..].starts_with(&segment));
        match fits.next() {
            Some(place) => (at, found) = (place + segment.len(), found + 1),
            None => strange += segment.len(),
        }
    }
    (found, strange)
}

/// A figure of the thread `main`.
fn of_main(threads: &serde_json::Value, at: &str) -> f64 {
    let main = threads.as_array().into_iter().flatten().find(|t| t["name"] == "main");
    main.and_then(|t| t.pointer(at)).and_then(serde_json::Value::as_f64).expect("a figure of main")
}

/// Compares the report on the execution with the truth. The gaps hide no more time than was lost,
/// plus `STEP` for each gap, because the flow's times are known only in steps. This is checked
/// only if `timed`: after an overflow, the time is known again later than the unit resumes. The
/// share of lost bytecodes of `main` is about its share of lost trace. The run takes less than a
/// second of a clock that the emulated unit shares with the whole machine; therefore `TOLERANCE`
/// is large.
fn held_to_the_truth(execution: &serde_json::Value, truth: &serde_json::Value, timed: bool) {
    const STEP: u64 = 1 << 18;
    const TOLERANCE: f64 = 0.25;
    let cores = truth["cores"].as_array().into_iter().flatten();
    let gaps: Vec<&serde_json::Value> = cores.filter_map(|c| c["gaps"].as_array()).flatten().collect();
    let open = gaps.iter().any(|g| g["until"].is_null());
    let lasted = |g: &&serde_json::Value| Some(g["until"].as_u64()? - g["since"].as_u64()? + STEP);
    let most: u64 = gaps.iter().filter_map(lasted).sum();
    let ticks = |of: &str| execution[of].pointer("/ticks/lost").and_then(serde_json::Value::as_u64).unwrap();
    let hidden = ticks("total") + ticks("silent");
    println!("gaps hide {hidden} of at most {most} ticks");
    assert!(hidden > 0 && (open || !timed || hidden <= most), "{execution}");
    let (lost, said) = (of_main(&truth["threads"], "/share"), of_main(&execution["threads"], "/shares/lost"));
    println!("main lost {lost} of its trace, and about {said} of its bytecodes");
    assert!((said - lost).abs() < TOLERANCE, "{execution}");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn what_is_left_is_the_flow_of_the_whole_in_order() {
    let Some(place) = place::installed("what_is_left_is_the_flow_of_the_whole_in_order") else { return };
    let program = programs::by_name("branches").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    let names = RandomState::new();
    let info = recording.jportal(&["info", "--json"], &recording.capture(), &[]).unwrap().json().unwrap();
    let complete =
        serde_json::json!({"decoded": 1.0, "projected": 0.0, "orphans": 0.0, "recovered": 0.0, "lost": 0.0});
    assert_eq!(info["execution"]["total"]["shares"], complete);
    let whole: Vec<u64> =
        flow(&recording, &recording.capture(), ("main", "600000"), &names).into_iter().flatten().collect();
    for (option, value, reason) in [("--loss", "25%", "truncated"), ("--overflow", "64k", "overflow")] {
        let copies = ["lossy.jportal", "again.jportal"].map(|name| recording.file(name));
        let mut truth = serde_json::Value::Null;
        for target in &copies {
            let target = target.to_str().expect("a plain name");
            let file = recording.file("truth.json");
            let told = file.to_str().expect("a plain name");
            let degrade = ["degrade", "--truth", told, "-o", target, option, value];
            let out = recording.jportal(&degrade, &recording.capture(), &[]).unwrap();
            assert!(out.status.success(), "{}", out.stderr);
            truth = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            let share = truth["share"].as_f64().unwrap();
            println!("{option} {value}: {share} lost");
            assert!(if reason == "truncated" { (share - 0.25).abs() < 0.03 } else { share > 0.0 });
        }
        let bytes = copies.each_ref().map(|copy| std::fs::read(copy).unwrap());
        assert!(bytes[0] == bytes[1], "the same seed gives the same bytes");
        let info = recording.jportal(&["info", "--json"], &copies[0], &[]).unwrap().json().unwrap();
        assert_eq!(info["errors"]["native_flow"], 0, "{info}");
        held_to_the_truth(&info["execution"], &truth, reason == "truncated");
        assert!(info["gaps_by_reason"][reason].as_u64().is_some_and(|n| n > 3), "{info}");
        let part = flow(&recording, &copies[0], ("main", "200000"), &names);
        let (found, strange) = place_segments(&part, &whole);
        println!(
            "{} of {} bytecodes, {found} segments, {strange} bytecodes elsewhere",
            part.len(),
            whole.len()
        );
        assert!(found > 10 && strange == 0, "{strange} bytecodes are not where they should be");
        // The comparison must be able to fail.
        let longest = part.split(Option::is_none).map(<[_]>::len).max().unwrap_or(0);
        let mut wrong = part.clone();
        let segment = part.split(Option::is_none).position(|s| s.len() == longest).unwrap();
        let begin: usize = part.split(Option::is_none).take(segment).map(|s| s.len() + 1).sum();
        wrong.remove(begin + longest / 2);
        let (_, strange) = place_segments(&wrong, &whole);
        assert!(strange > 0, "a bytecode that is missing is not seen");
    }
}

/// The report of `jportal accuracy` on a capture with loss, with these values of `--project` and
/// `--recover`.
fn accuracy(recording: &RecordedRun, lossy: &Path, project: &str, recover: &str) -> serde_json::Value {
    let truth = recording.capture();
    let truth = truth.to_str().expect("a plain name");
    let options = ["accuracy", "--json", "--project", project, "--recover", recover, truth];
    let out = recording.jportal(&options, lossy, &[]).unwrap();
    println!("{}", out.stderr);
    out.json().unwrap()
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn orphans_get_their_place_and_gaps_are_filled() {
    let Some(place) = place::installed("orphans_get_their_place_and_gaps_are_filled") else { return };
    let program = programs::by_name("xalan").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    let lossy = recording.file("lossy.jportal");
    let target = lossy.to_str().expect("a plain name");
    let degrade = ["degrade", "-o", target, "--loss", "25%"];
    assert!(recording.jportal(&degrade, &recording.capture(), &[]).unwrap().status.success());
    let [without, with] = ["none", "indexed"].map(|method| accuracy(&recording, &lossy, method, "none"));
    let number = |of: &serde_json::Value, at: &str| of.pointer(at).unwrap().as_f64().unwrap();
    for (name, one) in [("none", &without), ("indexed", &with)] {
        println!("{name}: {} {} {}", one["shares"], one["total"]["wrong"], one["total"]["certain"]);
    }
    let orphans = number(&without, "/total/orphans");
    assert!(orphans > 10_000.0 && number(&without, "/total/flow/projected") == 0.0);
    // What is decoded is right, and so are placed bytecodes with only one possible path. The
    // alignment misses a few. Without placing, the flow contains callees without their callers,
    // and the alignment misses more.
    assert!(number(&with, "/shares/decoded_right") > 0.9999, "{}", with["worst"]);
    assert!(number(&without, "/shares/decoded_right") > 0.998, "{}", without["worst"]);
    let (right, wrong) = (number(&with, "/total/certain/right"), number(&with, "/total/certain/wrong"));
    assert!(right > 0.75 * orphans && wrong < 0.001 * right, "{right} right and {wrong} wrong of {orphans}");
    assert!(number(&with, "/shares/da") > number(&without, "/shares/da"));
    // A JVM could have executed every step.
    let checked = recording.info(&lossy, &["--check"]).unwrap().checked().unwrap();
    assert!(checked.by_rule.is_empty(), "{:?}", checked.first);

    // Filling gaps changes nothing that was decoded or placed. Filled bytecodes have a
    // confidence.
    let filled = accuracy(&recording, &lossy, "indexed", "follow");
    println!("follow: {} {} {}", filled["shares"], filled["total"]["wrong"], filled["reliability"]);
    for of in ["decoded", "projected"] {
        let flow = format!("/total/flow/{of}");
        assert_eq!(number(&filled, &flow), number(&with, &flow));
    }
    assert!(number(&filled, "/shares/ra") > 0.1, "{}", filled["shares"]);
    assert!(number(&filled, "/shares/overall") > number(&with, "/shares/overall") + 0.02);
    let info = recording.info(&lossy, &["--check", "--recover", "follow"]).unwrap();
    let checked = info.checked().unwrap();
    println!("{:?} {:?}", checked.by_rule, info.0["recovery"]["gaps_filled"]);
    // Fills copied from compiled code into interpreted frames may break rules of the checker
    // (docs/notes/filling.md).
    assert!(checked.by_rule.values().sum::<u64>() < 20, "{:?}", checked.first);
    assert!(info.number("/recovery/gaps_filled").unwrap() > 10.0);
}
