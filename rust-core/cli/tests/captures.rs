// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests the reporting commands on small captures made here: without PT, cut off, damaged.

mod common;

use std::path::Path;

use jportal_capture::{CaptureWriter, EndReason, Header};
use serde_json::Value;

use common::{capture, jportal, json};

#[test]
fn every_command_accepts_a_capture_without_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    capture(&path, true);
    let file = path.to_str().unwrap();
    let info = jportal(&["info", "--json", file]);
    assert_eq!(info.status.code(), Some(0));
    let info = json(&info);
    for field in ["cores", "pt_bytes", "gaps"] {
        assert_eq!(info[field], 0, "{field}");
    }
    assert_eq!(info["errors"]["native_flow"], 0);
    assert_eq!(info["errors"]["reconstruct"], 0);
    assert_eq!(info["completeness"], 1.0);
    assert_eq!(info["header"]["vm_version"], "test VM");
    assert_eq!(info["capture"]["end"], "exit");
    let quick = json(&jportal(&["info", "--json", "--no-decode", file]));
    assert_eq!((&quick["threads"][0]["name"], &quick["threads"][0]["tid"]), (&"main".into(), &78.into()));
    for kind in ["coverage", "hot-methods", "calls"] {
        assert_eq!(jportal(&["report", kind, file]).status.code(), Some(0), "{kind}");
        assert!(json(&jportal(&["report", kind, "--json", file])).is_object(), "{kind}");
    }
    assert_eq!(jportal(&["print", file]).status.code(), Some(0));
    let e = jportal(&["print", "--thread", "worker", file]);
    assert_eq!(e.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&e.stderr).contains("\"main\" (78)"), "names what there is");
    let e = jportal(&["print", "--around", "7", file]);
    assert_eq!(e.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&e.stderr).contains("--thread"), "says what is missing");
    let around = jportal(&["print", "--around", "7", "--thread", "main", file]);
    assert!(String::from_utf8_lossy(&around.stdout).contains("belongs to no machine block"));
    assert_eq!(around.status.code(), Some(1));
}

/// With the index, a damaged chunk head costs nothing, so only a check looks at it.
#[test]
fn a_check_finds_a_damaged_chunk_head() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    capture(&path, true);
    let mut bytes = std::fs::read(&path).unwrap();
    let second = 16 + 32 + u32::from_le_bytes(*bytes[16 + 8..].first_chunk().unwrap()) as usize;
    bytes[second + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let file = path.to_str().unwrap();
    for (args, found) in [(&["info", "--json"][..], false), (&["info", "--check", "--json"], true)] {
        let out = jportal(&[args, &[file]].concat());
        let (stderr, capture) = (String::from_utf8_lossy(&out.stderr), &json(&out)["capture"]);
        assert_eq!(stderr.contains(&format!("bytes {second} to ")), found, "{stderr}");
        assert_eq!(
            (&capture["whole"], capture["damaged"].as_array().unwrap().len()),
            (&(!found).into(), found.into())
        );
        let all = json(&out);
        assert!(all["metadata_bytes"].as_u64() > Some(0) && all["metadata"]["damaged_records"] == 0, "{all}");
    }
}

#[test]
fn checking_is_asked_for_and_needs_the_flow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    capture(&path, true);
    let file = path.to_str().unwrap();
    assert!(json(&jportal(&["info", "--json", file])).get("check").is_none());
    let out = jportal(&["info", "--check", "--json", file]);
    assert_eq!(out.status.code(), Some(0));
    let check = &json(&out)["check"];
    assert_eq!((&check["findings"], &check["events"]), (&0.into(), &0.into()));
    assert!(check["by_rule"].is_object() && check["resets"].is_object() && check["first"].is_array());
    let text = jportal(&["info", "--check", file]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("findings      none"));
    assert_eq!(jportal(&["info", "--check", "--no-decode", file]).status.code(), Some(2));
    assert_eq!(jportal(&["info", "--findings", "3", file]).status.code(), Some(2));
    let oracle = dir.path().to_str().unwrap();
    let verdict = json(&jportal(&["verify", "--check", "--json", "--oracle", oracle, file]));
    assert_eq!((&verdict["probes"], &verdict["check"]["findings"]), (&0.into(), &0.into()));
}

#[test]
fn a_cut_off_capture_gives_a_warning_and_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    capture(&path, false);
    let out = jportal(&["info", "--json", path.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(0));
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(stderr.contains("jportal: warning: the capture was cut off"), "{stderr}");
    let info = json(&out);
    assert_eq!((&info["capture"]["whole"], &info["capture"]["end"]), (&false.into(), &Value::Null));
}

#[test]
fn verify_refuses_what_is_no_log_of_this_run_and_fails_without_probes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    capture(&path, true);
    let oracle = dir.path().join("oracle");
    let verify =
        || jportal(&["verify", path.to_str().unwrap(), "--oracle", oracle.to_str().unwrap(), "--json"]);
    assert_eq!(verify().status.code(), Some(2), "no such directory");
    std::fs::create_dir(&oracle).unwrap();
    let out = verify();
    assert_eq!(out.status.code(), Some(1), "nothing to compare is no success");
    assert_eq!(json(&out)["probes"], 0);
    std::fs::write(oracle.join("agent.tsv"), "format\t1\npid\t5\n").unwrap();
    let out = verify();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("not the same run"));
    std::fs::write(oracle.join("agent.tsv"), "format\t1\npid\t77\n").unwrap();
    let mut log = b"JPPROBE\0\x01\0\0\0\x4e\0\0\0".to_vec();
    log.extend([0; 16]);
    log.extend([1, 0, 0, 0]);
    std::fs::write(oracle.join("t78.probes"), &log).unwrap();
    let out = verify();
    assert_eq!(out.status.code(), Some(1));
    let verdict = json(&out);
    assert_eq!((&verdict["probes"], &verdict["matched"]), (&1.into(), &0.into()));
    assert_eq!(verdict["first_mismatch"]["expected"]["id"], 1);
    std::fs::write(oracle.join("t78.probes"), b"something else, longer than a header is").unwrap();
    assert_eq!(verify().status.code(), Some(2));
}

#[test]
fn doctor_speaks_json() {
    let out = jportal(&["doctor", "--json"]);
    assert!(matches!(out.status.code(), Some(0 | 1)));
    let all = json(&out);
    assert_eq!(all["can_record"], out.status.code() == Some(0));
    assert!(all["checks"].as_array().unwrap().iter().all(|c| c["ok"] == true || c["remedy"].is_string()));
}

#[test]
fn accuracy_refuses_what_cannot_be_compared() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (truth, same, torn, other) =
        (path("t.jportal"), path("s.jportal"), path("c.jportal"), path("o.jportal"));
    capture(Path::new(&truth), true);
    capture(Path::new(&same), true);
    capture(Path::new(&torn), false);
    let mut w = CaptureWriter::create(Path::new(&other)).unwrap();
    w.header(&Header { pid: 99, vm_version: "test VM".into(), ..Header::default() }).unwrap();
    w.finish(EndReason::Exit, "", Vec::new()).unwrap();
    let refused = |truth: &str, capture: &str, why: &str| {
        let out = jportal(&["accuracy", truth, capture]);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && stderr.contains(why), "{stderr}");
    };
    refused(&truth, &other, "not of the same run: process id \"77\" and \"99\"");
    refused(&torn, &truth, "(TRUTH) is cut off or damaged; record TRUTH without loss");
    refused(&truth, "nowhere", "nowhere");
    // The same run, but there is nothing to compare.
    let out = jportal(&["accuracy", "--json", &truth, &same]);
    assert_eq!(out.status.code(), Some(1));
    let all = json(&out);
    assert_eq!((&all["total"]["truth"], &all["shares"]["da"]), (&0.into(), &Value::Null));
    assert!(String::from_utf8_lossy(&out.stderr).contains("nothing was compared"));
    assert!(!String::from_utf8_lossy(&out.stderr).contains('\x1b'), "no progress in a pipe");
}

#[test]
fn classes_are_refused_where_they_have_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    capture(&path, true);
    let (file, to) = (path.to_str().unwrap(), dir.path().join("tables"));
    let to = to.to_str().unwrap();
    let commands: [(&[&str], &str); 3] = [
        (&["report", "metrics", "--class", "a.B", file], "report hot-methods"),
        (&["report", "metrics", "--classes", "app", file], "report hot-methods"),
        (&["export", "parquet", "--class", "a.B", "-o", to, file], "WHERE class"),
    ];
    for (command, remedy) in commands {
        let refused = jportal(command);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{command:?}: {text}");
        assert!(text.contains(command[2]) && text.contains("has no effect here"), "{text}");
        assert!(text.contains(remedy), "{text}");
    }
    assert!(!Path::new(to).exists(), "a refused export wrote something");
    assert_eq!(jportal(&["report", "metrics", file]).status.code(), Some(0));
}

#[test]
fn differences_take_a_number_of_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    capture(&path, true);
    let file = path.to_str().unwrap();
    let status = |jobs: &str| jportal(&["diff", "--allow-inexact", "--jobs", jobs, file, file]).status.code();
    assert_eq!((status("2"), status("0")), (Some(0), Some(2)));
}

/// A table with one method, which calls itself and returns.
const SITES: &str = "id\tkind\tclass\tloader\tmethod\tdescriptor\tbci\tline\topcode\ttargets\tversion\n\
    0\tcall\ta.A\tapp\tf\t()V\t0\t7\tinvokestatic\ta.A.f()V\t\n\
    1\treturn\ta.A\tapp\tf\\n\x1b[1m\t()V\t3\t8\treturn\t\t\n\
    2\texit\ta.A\tapp\tf\t()V\t\t\t\t\t\n";

/// Writes a trace of a thread: its words after the magic number.
fn trace(folder: &Path, name: &str, words: &[u32]) {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(folder.join(name), [&b"JPCT"[..], &bytes].concat()).unwrap();
}

#[test]
fn call_traces_are_shown_as_text() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let decode = |path: &Path| {
        let out = jportal(&["export", "call-trace", "--decode", path.to_str().unwrap()]);
        let [stdout, stderr] = [out.stdout, out.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (out.status.code().unwrap(), stdout, stderr)
    };
    let (status, _, said) = decode(folder);
    assert!(status == 2 && said.contains("has no call traces (*.trace)"), "{said}");
    trace(folder, "t9-1.trace", &[1, 9, 0, 0x9020_0000, 2, 0, 1, 1, 0x80e0_0001]);
    let (status, _, said) = decode(folder);
    assert!(status == 2 && said.contains("sites.tsv, the table of sites"), "{said}");
    std::fs::write(folder.join("sites.tsv"), SITES).unwrap();
    trace(folder, "t8-1.trace", &[1, 8, 0, 0]);
    let (status, text, said) = decode(folder);
    let own = "        0  call        a.A.f()V @0 line 7 -> a.A.f()V\n";
    let of_9 = ["entry       a.A.f()V", "call        a.A.f()V @0 line 7 -> a.A.f()V"];
    assert!(text.starts_with(&format!("thread 8 in t8-1.trace\n{own}thread 9 in t9-1.trace\n")), "{text}");
    assert!(of_9.iter().all(|line| text.contains(line)) && text.ends_with("  end         exact\n"), "{text}");
    assert!(!text.contains('\u{1b}') && text.contains("\\x1b[1m"), "control characters are escaped: {text}");
    assert_eq!(status, 2);
    assert!(said.contains("t8-1.trace: the call trace is incomplete: it ends at token 1"), "{said}");
    assert!(said.contains("1 of 2 call traces could not be read to the end"), "{said}");
    let (status, text, _) = decode(&folder.join("t9-1.trace"));
    assert!(status == 0 && text.lines().count() == 6, "{text}");
    let more = jportal(&["export", "call-trace", "--decode", "x", "--deflate"]);
    assert!(String::from_utf8_lossy(&more.stderr).contains("cannot be used with"), "no other option applies");
}
