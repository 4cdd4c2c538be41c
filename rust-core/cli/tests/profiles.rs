// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests what `jportal validate stacks` and `jportal report hot-methods` say of files of profilers.

mod common;

use common::{capture, jportal, json};

/// The words on stderr, and the exit status.
fn said(args: &[&str]) -> (String, Option<i32>) {
    let out = jportal(&[&["validate", "stacks"], args].concat());
    (String::from_utf8_lossy(&out.stderr).into_owned(), out.status.code())
}

#[test]
fn the_cause_is_named_when_a_profile_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let taken = path("a.jportal");
    capture(std::path::Path::new(&taken), true);
    for (name, text) in [
        ("app.jfr", "FLR\0 and more"),
        ("cut.json", "{\"recording\": {\"events\": ["),
        ("none.json", "{\"recording\": {\"events\": []}}"),
        ("empty", ""),
        ("stacks", "a;b 1\nc\n"),
        ("good", "a.B.f 1\n"),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    let [jfr, cut, none, empty, stacks, good, missing] =
        ["app.jfr", "cut.json", "none.json", "empty", "stacks", "good", "missing"].map(path);
    // These stand for a tool that fails, one that prints something else, and one that is silent.
    let tool = |tool, option| said(&[&taken, option, &jfr, "--jfr-tool", tool]);
    for ((text, status), expected) in [
        (tool("/bin/ls", "--jfr"), "unrecognized option"),
        (tool("/bin/ls", "--grade"), "unrecognized option"),
        (tool("/bin/echo", "--jfr"), "not what `jfr print --json` prints: expected"),
        (tool("/bin/false", "--jfr"), "it said nothing"),
        (tool(&missing, "--jfr"), "--jfr-tool: no jfr at"),
        (said(&[&taken, "--jfr", &missing]), "cannot open"),
        (said(&[&taken, "--jfr", &cut]), "EOF while parsing"),
        (said(&[&taken, "--grade", &cut]), "EOF while parsing"),
        (said(&[&taken, "--jfr", &empty]), "neither a recording of JFR nor"),
        (said(&[&taken, "--jfr", &stacks]), "neither a recording of JFR nor"),
        (said(&[&taken, "--grade", &empty]), "is empty"),
        (said(&[&taken, "--grade", &none]), "there is no stack in it"),
        (said(&[&taken, "--grade", &stacks]), "line 2 is no collapsed stack"),
        (said(&[&taken, "--grade", &good, "--thread", "main"]), "--thread has no effect"),
        (said(&[&taken, "--jfr", &none]), "does not say how fast its clock is"),
        (said(&[&taken, "--jfr", &none, "--window", "NaN"]), "give a number of milliseconds"),
        (said(&[&taken, "--jfr", &none, "--allow", "2"]), "give a part between 0 and 1"),
        (said(&[&taken, "--jfr", &none, "--grade", &good]), "cannot be used with"),
        (said(&[&taken, "--grade", &good, "--api", "gst"]), "cannot be used with"),
        (said(&[&taken]), "required arguments were not provided"),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
        assert_eq!(status, Some(2), "{expected}: {text}");
    }
    // A capture without a flow has no call, so this one did not happen.
    let out = jportal(&["validate", "stacks", "--json", "--grade", &good, &taken]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(json(&out)["impossible"], 1);
}

/// The JDK's `jfr` refuses recordings whose names do not end in `.jfr`.
#[test]
fn a_recording_may_have_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let [taken, profile, tool] = ["a.jportal", "profile", "jfr"].map(path);
    capture(std::path::Path::new(&taken), true);
    std::fs::write(&profile, "FLR\0 and more").unwrap();
    let script = "#!/bin/sh\nfor file; do :; done\ncase $file in *.jfr) grep -q FLR \"$file\" && \
                  echo '{\"recording\": {\"events\": []}}';; *) exit 1;; esac\n";
    std::fs::write(&tool, script).unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (text, status) = said(&[&taken, "--grade", &profile, "--jfr-tool", &tool]);
    assert!(text.contains("there is no stack in it") && status == Some(2), "{text}");
}

#[test]
fn hot_methods_beside_profiles() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let [taken, good, bad, packed] = ["a.jportal", "good", "bad", "bad.pb.gz"].map(path);
    capture(std::path::Path::new(&taken), true);
    std::fs::write(&good, "main;a.B.f 3\nmain;a.B.f;a.B.g 1\n").unwrap();
    std::fs::write(&bad, "no stack\n").unwrap();
    std::fs::write(&packed, b"\x1f\x8b and more").unwrap();
    let report = |options: &[&str]| jportal(&[&["report", "hot-methods"], options, &[&taken]].concat());
    for (file, expected) in
        [(&bad, "line 1 is no collapsed stack"), (&packed, "bad.pb.gz: cannot be unpacked")]
    {
        let out = report(&["--compare", file]);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(text.contains(expected) && out.status.code() == Some(2), "{text}");
    }
    let tool = report(&["--jfr-tool", "/bin/true"]);
    assert!(String::from_utf8_lossy(&tool.stderr).contains("--compare"));
    let both = format!("{good},{good}");
    let value = json(&report(&["--by", "time", "--json", "--compare", &both]));
    assert_eq!((&value["by"], value["comparisons"].as_array().map(Vec::len)), (&"time".into(), Some(2)));
    let comparison = &value["comparisons"][1];
    assert_eq!((&comparison["file"], &comparison["graded"]), (&good.as_str().into(), &4.into()));
    // The capture has no flow, so there is nothing to be like.
    assert_eq!(comparison["likeness"], serde_json::json!([]));
    assert_eq!(comparison["methods"][0]["profile"], serde_json::json!({"share": 0.75, "rank": 1}));
    let text = report(&["--compare", &good]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("good: profile (collapsed): weight 4, 2 stacks"), "{text}");
}
