// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use serde_json::{Value, json};

use super::read::{JfrError, JfrFrame, JfrFrameType, JfrSamples};
use super::testing::{event, frame, recording};

const F: (&str, &str, &str) = ("a/B", "f", "(I)I");
const TIME: &str = "1970-01-01T00:00:01.5Z";

fn read(text: &str) -> Result<JfrSamples, JfrError> {
    JfrSamples::read(text.as_bytes())
}

#[test]
fn samples_are_read_and_other_events_are_not() {
    let frames =
        [frame(F, 3, "Inlined"), frame(("a/C", "g", "()V"), 7, "JIT compiled"), frame(F, 0, "Native")];
    let mut bare = event("jdk.ExecutionSample", TIME, 7, false, &[]);
    bare["values"]["stackTrace"] = Value::Null;
    let text = recording(&[
        json!({"type": "jdk.CPULoad", "values": {"startTime": TIME, "jvmUser": 0.5}}),
        event("jdk.ExecutionSample", TIME, 7, false, &frames),
        bare,
        event("jdk.NativeMethodSample", "1970-01-01T01:00:02+01:00", 8, true, &frames[1..]),
    ]);
    let samples = read(&text).unwrap();
    assert_eq!(samples.len(), 2);
    let [a, b] = &samples.all[..] else { panic!("{samples:?}") };
    assert_eq!((a.event, a.unix_ns, a.tid, a.java_tid, a.truncated), (0, 1_500_000_000, 7, 1, false));
    assert_eq!((b.event, b.unix_ns, b.tid, b.truncated, b.frames.len()), (1, 2_000_000_000, 8, true, 2));
    let kinds = [JfrFrameType::Inlined, JfrFrameType::Compiled, JfrFrameType::Native];
    let expected = [(0, 3), (1, 7), (0, 0)].into_iter().zip(kinds);
    let expected: Vec<_> = expected.map(|((method, bci), kind)| JfrFrame { method, bci, kind }).collect();
    assert_eq!(a.frames, expected, "equal methods have one number");
    assert_eq!((&*samples.methods[1].class, &*samples.methods[1].name), ("a/C", "g"));
    assert!(samples.remarks()[0].starts_with("1 samples have no stack"), "{:?}", samples.remarks());
}

#[test]
fn names_of_hidden_classes_become_those_of_captures() {
    for (jfr, name) in [
        ("a.Main$$Lambda$14+0x0000000800c01208/1830423", "a/Main$$Lambda$14+0x0000000800c01208"),
        ("a/b/C", "a/b/C"),
        ("a/b/C2", "a/b/C2"),
        ("C", "C"),
    ] {
        let one = frame((jfr, "f", "()V"), 0, "Interpreted");
        let samples = read(&recording(&[event("jdk.ExecutionSample", TIME, 7, false, &[one])])).unwrap();
        assert_eq!(&*samples.methods[0].class, name);
    }
}

#[test]
fn what_jfr_does_not_print_is_refused_with_its_place() {
    let good = event("jdk.ExecutionSample", TIME, 7, false, &[frame(F, 3, "Interpreted")]);
    let with = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        recording(&[good.clone(), bad])
    };
    for (text, said) in [
        (String::new(), "EOF while parsing"),
        ("{}".to_owned(), "missing field `recording`"),
        (json!({"recording": {}}).to_string(), "missing field `events`"),
        (json!({"recording": {"events": 7}}).to_string(), "an array of events"),
        (recording(&[json!({"type": 7, "values": {}})]), "invalid type"),
        (recording(std::slice::from_ref(&good))[..200].to_owned(), "EOF while parsing"),
        (recording(std::slice::from_ref(&good)) + "}", "trailing characters"),
        (
            with("/values/startTime", json!("yesterday")),
            "event 2 of JFR is malformed: startTime is \"yesterday\"",
        ),
        (with("/values/startTime", Value::Null), "event 2 of JFR is malformed: it has no startTime"),
        (with("/values/stackTrace/frames/0/type", json!("Odd")), "a frame has the type \"Odd\""),
        (with("/values/stackTrace/frames/0/bytecodeIndex", json!(-2)), "a frame has the bytecodeIndex -2"),
        (with("/values/stackTrace/frames/0/bytecodeIndex", json!(65_536)), "bytecodeIndex 65536"),
        (with("/values/stackTrace/frames", json!([{}])), "missing field"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}, expected {said}");
    }
    assert!(read(&recording(&[])).unwrap().is_empty());
}

#[test]
fn stacks_that_the_printer_cut_count_as_truncated() {
    let of = |n: u16| {
        let frames: Vec<Value> = (0..n).map(|bci| frame(F, bci, "Interpreted")).collect();
        event("jdk.ExecutionSample", TIME, 7, false, &frames)
    };
    let truncated = |events: &[Value]| {
        let samples = read(&recording(events)).unwrap();
        let remarked = samples.remarks().iter().any(|r| r.contains("--stack-depth 2048"));
        (samples.all.iter().map(|s| s.truncated).collect::<Vec<_>>(), remarked)
    };
    assert_eq!(truncated(&[of(2), of(5), of(5)]), (vec![false, true, true], true));
    assert_eq!(truncated(&[of(2), of(5), of(6)]), (vec![false, false, false], false));
    assert_eq!(truncated(&[of(2), of(4)]), (vec![false, false], false));
}
