// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The schemas in `docs/schemas`: each kind of result has one, and the results fit them.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jportal::analyses::blocks::{BlocksOptions, CountsAnalysis, Level};
use jportal::analyses::call_trace::{CallTraceAnalysis, Sites, TraceSink};
use jportal::analyses::coverage::split::SplitAnalysis;
use jportal::analyses::coverage::{CoverageAnalysis, CoverageOptions};
use jportal::analyses::diff::{Diff, DiffOptions};
use jportal::analyses::latency::LatencyAnalysis;
use jportal::analyses::metrics::MetricsAnalysis;
use jportal::analyses::names::Naming;
use jportal::analyses::natives::NativesAnalysis;
use jportal::analyses::paths::{PathsAnalysis, Show};
use jportal::analyses::polymorphism::PolymorphismAnalysis;
use jportal::analyses::timeline::{Limits, TimelineAnalysis, TimelineSink};
use jportal::analyses::tree::{self, TreeAnalysis};
use jportal::bytecode::LineRow;
use jportal::bytecode::testing::{calls, method, row};
use jportal::export::block_trace::{BlockTraceAnalysis, BlockTraceOptions, Output};
use jportal::export::call_trace::TraceWriter;
use jportal::export::timeline::perfetto::Perfetto;
use jportal::export::timeline::{Clock, Process};
use jportal::flow::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, recovered};
use jportal::units::{Core, StreamOffset};
use jportal::validate::stacks::{LoggedMethods, StackApi, StackLog, StacksAnalysis, StacksOptions};
use jportal::{
    Analysis, Bci, Cause, Entry, Event, EventKind, Exclude, Exit, Method, MethodId, MethodTable, ThreadInfo,
    Tier, Tsc,
};
use jportal_capture::codec::{Bytes, Str};
use jportal_capture::header::{packet_flags, sources};
use jportal_capture::schema::{
    BlobDefined, ClassDefined, LineEntry, MethodDefined, ThreadStarted, blob_kinds, thread_flags,
};
use jportal_capture::{
    CaptureWriter, Counter, EndReason, FilterRange, Header, PtConfig, Record, Stamped, encode_frame,
};
use jportal_perf_abi::record::{SAMPLE_TYPE, SampleId};
use jportal_perf_abi::{Body, Record as PerfRecord};
use jportal_pt_packet::{CodeSize, Encoder};
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};

use common::{capture, jportal, json};

/// The schema of the lines of `print`. No `ResultKind` of the command names it, and the lines do
/// not name it either.
const LINES: &str = "print-lines";

/// The reports on any capture.
const REPORTS: [&str; 10] = [
    "coverage",
    "hot-methods",
    "calls",
    "call-tree",
    "blocks",
    "paths",
    "polymorphism",
    "natives",
    "metrics",
    "jit",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The schemas by the names of their files.
fn schemas() -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(root().join("docs/schemas")).unwrap().map(|e| e.unwrap().path());
    let files = files.filter(|p| p.extension().is_some_and(|e| e == "json"));
    let schema = |p: PathBuf| {
        let schema = serde_json::from_slice(&std::fs::read(&p).unwrap());
        let schema = schema.unwrap_or_else(|e| panic!("{}: {e}", p.display()));
        (p.file_stem().unwrap().to_str().unwrap().to_owned(), schema)
    };
    files.map(schema).collect()
}

/// The names in `ResultKind::new("NAME"` in the sources of the command, without their tests.
fn kinds(folder: &Path, to: &mut BTreeSet<String>) {
    for path in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if path.is_dir() {
            kinds(&path, to);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let names = code.split("ResultKind::new(\"").skip(1).filter_map(|rest| rest.split('"').next());
        to.extend(names.map(str::to_owned));
    }
}

#[test]
fn each_kind_has_a_schema_and_each_schema_a_kind() {
    let mut kinds_of_sources = BTreeSet::from([LINES.to_owned()]);
    kinds(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut kinds_of_sources);
    assert!(kinds_of_sources.len() > 10, "{kinds_of_sources:?}");
    assert_eq!(schemas().into_keys().collect::<BTreeSet<_>>(), kinds_of_sources);
}

#[test]
fn schemas_are_valid_and_have_their_names() {
    for (name, schema) in schemas() {
        jsonschema::meta::validate(&schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        let title = schema["title"].as_str().unwrap();
        let version = title.strip_prefix(&format!("jportal/{name}/"));
        assert!(version.is_some_and(|v| v.parse::<u32>().is_ok()), "{name}: {title}");
        if name != LINES {
            assert_eq!(schema["properties"]["schema"]["const"], title, "{name}");
            assert!(schema["required"].as_array().unwrap().contains(&"schema".into()), "{name}");
        }
    }
}

/// Objects with fields are closed, and have a description.
fn closed(name: &str, schema: &Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("type") == Some(&"object".into()) && fields.contains_key("properties") {
                assert_eq!(fields.get("additionalProperties"), Some(&false.into()), "{name}: {schema}");
                assert!(fields.contains_key("description"), "{name}: {schema}");
            }
            fields.values().for_each(|v| closed(name, v));
        }
        Value::Array(all) => all.iter().for_each(|v| closed(name, v)),
        _ => {}
    }
}

#[test]
fn objects_are_closed_and_shared_parts_are_the_same() {
    let mut shared: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for (name, schema) in schemas() {
        closed(&name, &schema);
        for (part, definition) in schema["$defs"].as_object().unwrap() {
            let (first, known) =
                shared.entry(part.clone()).or_insert_with(|| (name.clone(), definition.clone()));
            assert_eq!(known, definition, "{part} differs in {first} and {name}");
        }
    }
}

fn validator(name: &str) -> Validator {
    let schema = schemas().remove(name).unwrap_or_else(|| panic!("there is no schema {name}"));
    jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Panics if a value does not fit its schema.
#[track_caller]
fn fits(validator: &Validator, value: &Value) {
    let error = |e: ValidationError<'_>| format!("{}: {:.300}", e.instance_path().as_str(), e.to_string());
    let errors: Vec<String> = validator.iter_errors(value).map(error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Runs the command with `--format json`, and panics if the result does not fit the schema.
#[track_caller]
fn result(name: &str, args: &[&str]) -> Value {
    let value = json(&jportal(&[args, &["--format", "json"]].concat()));
    fits(&validator(name), &value);
    value
}

/// Runs `print --format jsonl`, and panics if a line does not fit the schema. The kinds of lines.
#[track_caller]
fn lines(args: &[&str]) -> BTreeSet<String> {
    let out = jportal(&[&["print", "--format", "jsonl"], args].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let validator = validator(LINES);
    lines.iter().for_each(|line| fits(&validator, line));
    lines.iter().map(|l| l["event"].as_str().unwrap().to_owned()).collect()
}

const LOW: u64 = 0x40_0000;
const CALLEE: u64 = LOW + 0x100;
const OUTSIDE: u64 = 0x7000_0000;
const PID: u32 = 40;
const TID: u32 = 41;
const BEGIN: u64 = 2_000_000;

/// Two stubs, a thread, and a method with bytecode.
fn metadata() -> Vec<u8> {
    let blob = |start, name: &str, code: &[u8]| {
        let (kind, code) = (blob_kinds::STUB_ROUTINE, Bytes(code.to_vec().into()));
        Record::BlobDefined(BlobDefined { start, kind, name: Str::from(name), code, entries: Vec::new() })
    };
    let thread = ThreadStarted { tid: TID, flags: thread_flags::JAVA, java_tid: 1, name: "main".into() };
    let class = ClassDefined {
        klass: 0x10,
        loader: 1,
        name: "a/B".into(),
        loader_name: "app".into(),
        source_file: "B.java".into(),
        ..ClassDefined::default()
    };
    let method = MethodDefined {
        method: 0x20,
        klass: 0x10,
        access_flags: 9,
        max_stack: 1,
        max_locals: 1,
        name: "f".into(),
        signature: "(I)I".into(),
        // iload_0; ifeq 6; iconst_1; ireturn; iconst_0; ireturn
        code: Bytes(vec![0x1a, 0x99, 0, 5, 0x04, 0xac, 0x03, 0xac].into()),
        lines: vec![LineEntry { bci: 0, line: 10 }, LineEntry { bci: 6, line: 11 }],
        ..MethodDefined::default()
    };
    let records = [
        Record::ThreadStarted(thread),
        Record::ClassDefined(class),
        Record::MethodDefined(method),
        // `call CALLEE; dec eax; jnz LOW; ret`, and `nop; ret`.
        blob(LOW, "caller", &[0xe8, 0xfb, 0, 0, 0, 0xff, 0xc8, 0x75, 0xf7, 0xc3]),
        blob(CALLEE, "callee", &[0x90, 0xc3]),
    ];
    let mut bytes = Vec::new();
    for (tsc, record) in (10..).zip(records) {
        encode_frame(&Stamped { tsc, record }, &mut bytes);
    }
    bytes
}

/// Runs of the caller, each with a PSB.
fn trace() -> Vec<u8> {
    let mut e = Encoder::new();
    for run in 0..40 {
        e.psb();
        e.tsc(BEGIN + 1000 * run);
        e.psbend();
        e.mode_exec(CodeSize::Bits64);
        e.tip_pge(LOW);
        for round in 0..200u32 {
            // The callee returns; then the loop continues or ends.
            e.tip(LOW + 5);
            e.tnt(u64::from(round < 199), 1);
        }
        e.tip_pgd(Some(OUTSIDE));
    }
    e.take()
}

/// Writes a capture with trace of one core.
fn traced(path: &Path, source: u8) {
    let pt = PtConfig {
        source,
        cores: 1,
        packets: packet_flags::TSC,
        sample_type: SAMPLE_TYPE,
        aux_bytes: 1 << 20,
        filter: vec![FilterRange { low: LOW, high: LOW + 0x1000 }],
        ..PtConfig::default()
    };
    let header = Header {
        pid: PID,
        start_tsc: 1_000_000,
        tsc_khz: 2_500_000,
        code_cache_low: LOW,
        code_cache_high: LOW + 0x1000,
        pt,
        ..Header::default()
    };
    let mut w = CaptureWriter::create(path).unwrap();
    w.header(&header).unwrap();
    w.metadata(&metadata()).unwrap();
    let trace = if source == sources::EMULATED { trace() } else { Vec::new() };
    let switch = |out| Body::Switch { out, preempted: false };
    let end = BEGIN + 1_000_000;
    let mut bodies = vec![(BEGIN - 1000, switch(false)), (end, switch(true))];
    if !trace.is_empty() {
        w.pt(Core(0), StreamOffset(0), &trace).unwrap();
        bodies.push((end, Body::Aux { offset: 0, size: trace.len() as u64, flags: 0 }));
    }
    let mut sideband = Vec::new();
    for (time, body) in bodies {
        let sample = SampleId { pid: PID, tid: TID, time, cpu: 0, id: 1 };
        PerfRecord { body, sample }.encode(&mut sideband);
    }
    w.sideband(Core(0), &sideband).unwrap();
    let counters = vec![Counter { name: "ring_waits".into(), value: 3 }];
    w.finish(EndReason::Exit, "", counters).unwrap();
}

/// A folder with captures: `empty` without trace, `torn`, `traced`, and `sideband` without trace
/// by its source.
struct CaptureFolder(tempfile::TempDir);

impl CaptureFolder {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        capture(place.path("empty").as_ref(), true);
        capture(place.path("torn").as_ref(), false);
        traced(place.path("traced").as_ref(), sources::EMULATED);
        traced(place.path("sideband").as_ref(), sources::SIDEBAND);
        place
    }
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn info_fits() {
    let place = CaptureFolder::new();
    for name in ["empty", "torn", "traced", "sideband"] {
        let file = place.path(name);
        let info = result("info", &["info", &file]);
        let decoded = name != "sideband";
        assert_eq!((info["errors"].is_object(), info["presence"].is_object()), (decoded, !decoded));
        let quick = result("info", &["info", "--no-decode", &file]);
        assert!(quick["errors"].is_null() && quick["threads"][0]["name"] == "main", "{name}");
        let check = result("info", &["info", "--check", &file]);
        assert_eq!(check["check"].is_object(), decoded, "{name}");
    }
}

#[test]
fn a_wrong_result_does_not_fit() {
    let place = CaptureFolder::new();
    let info = result("info", &["info", &place.path("empty")]);
    let validator = validator("info");
    let changes: [(&str, Value); 5] = [
        ("schema", "jportal/info/0".into()),
        ("gaps", (-1).into()),
        ("more", 1.into()),
        ("presence", json!({"visits": 0, "cores": 0, "lost_records": 0, "unnamed": 0, "threads": []})),
        ("gaps_by_reason", json!({"other": 1})),
    ];
    assert!(validator.is_valid(&info));
    for (field, value) in changes {
        let mut wrong = info.clone();
        wrong[field] = value;
        assert!(!validator.is_valid(&wrong), "{field}");
    }
    for field in info.as_object().unwrap().keys().filter(|f| *f != "projection") {
        let mut wrong = info.clone();
        wrong.as_object_mut().unwrap().remove(field);
        assert!(!validator.is_valid(&wrong), "{field}");
    }
}

#[test]
fn reports_fit() {
    let place = CaptureFolder::new();
    for name in ["empty", "torn", "traced", "sideband"] {
        for kind in REPORTS {
            let schema = format!("report-{kind}");
            let report = result(&schema, &["report", kind, "--classes", "all", &place.path(name)]);
            assert_eq!(report["schema"], format!("jportal/{schema}/1"));
            let rows = report["classes"].as_array().map_or(0, Vec::len);
            assert!(kind != "coverage" || name == "empty" || name == "torn" || rows == 1, "{report}");
        }
    }
    // The clock of the others is not known.
    for name in ["traced", "sideband"] {
        result("report-latency", &["report", "latency", &place.path(name)]);
    }
}

/// What options add to the reports.
#[test]
fn reports_with_options_fit() {
    let place = CaptureFolder::new();
    let traced = place.path("traced");
    let rest: [&str; 3] = ["--classes", "all", &traced];
    let report = |schema: &str, args: &[&str]| result(schema, &[&["report"], args, &rest].concat());
    let covered = report("report-coverage", &["coverage", "--counts", "--exception-branches"]);
    assert!(covered["classes"][0]["methods"][0]["detail"]["lines"].is_array(), "{covered}");
    let missed = report("report-uncovered", &["coverage", "--uncovered"]);
    assert_eq!(missed["classes"][0]["methods"][0]["lines"], json!([10, 11]));
    report("report-coverage-split", &["coverage", "--split", "a.B"]);
    let line = ["coverage", "--split", "a.B", "--which-covers", "B.java:10"];
    let covers = report("report-which-covers", &line);
    assert_eq!((&covers["line"], &covers["buckets"]), (&json!(10), &json!([])));
    let blocks = report("report-blocks", &["blocks", "--idle", "--bytecodes"]);
    assert!(blocks["classes"][0]["methods"][0]["code"].is_array(), "{blocks}");
    let tree = report("report-call-tree", &["call-tree", "--merge", "--bba", "both", "--sites"]);
    assert_eq!(tree["threads"][0]["tid"], Value::Null);
    let split = report("report-call-tree", &["call-tree", "--split", "a.B"]);
    assert_eq!(split["settings"]["split"], true);
    let series = report("report-call-tree", &["call-tree", "--every", "10"]);
    assert_eq!((&series["every"], &series["intervals"]), (&json!(10), &json!([])));
    for kind in REPORTS.into_iter().chain(["latency"]) {
        let part = report(&format!("report-{kind}"), &[kind, "--from", "1ms"]);
        assert!(part.get("execution").is_none(), "it is that of the whole recording");
    }
}

#[test]
fn comparisons_fit() {
    let place = CaptureFolder::new();
    let (empty, traced) = (place.path("empty"), place.path("traced"));
    let oracle = place.path("oracle");
    std::fs::create_dir(&oracle).unwrap();
    result("verify-oracle", &["verify", "--check", "--oracle", &oracle, &empty]);
    // A log with one probe, of a thread of each capture.
    for (file, tid) in [(&empty, 78u32), (&traced, TID)] {
        let mut log = b"JPPROBE\0\x01\0\0\0".to_vec();
        log.extend(tid.to_le_bytes());
        log.extend([0; 16]);
        log.extend(1u32.to_le_bytes());
        std::fs::write(Path::new(&oracle).join("t.probes"), &log).unwrap();
        let verdict = result("verify-oracle", &["verify", "--oracle", &oracle, file]);
        assert_eq!(verdict["first_mismatch"]["expected"]["id"], 1);
    }
    for file in [&empty, &traced] {
        result("verify-against", &["verify", "--against", file, file]);
        result("accuracy", &["accuracy", file, file]);
    }
    result("blocks-around", &["dev", "blocks-around", "--thread", "main", &empty, "7"]);
    let look = result("blocks-around", &["print", "--around", "7", "--thread", "main", &traced]);
    assert!(look["steps"].is_array());
}

#[test]
fn degraded_captures_fit() {
    let place = CaptureFolder::new();
    let (whole, lossy) = (place.path("traced"), place.path("lossy"));
    let ways: [&[&str]; 5] = [
        &["--every", "256"],
        &["--without-ends"],
        &["--overflow", "1k"],
        &["--loss", "25%", "--aux", "8k"],
        &["--lost-records", "1:1"],
    ];
    let (truth, mut reasons) = (place.path("truth"), BTreeSet::new());
    let truths = validator("degrade-truth");
    for way in ways {
        let degrade = ["degrade", &whole, "-o", &lossy, "--truth", &truth];
        let lost = result("degrade", &[&degrade, way].concat());
        let truth: Value = serde_json::from_slice(&std::fs::read(&truth).unwrap()).unwrap();
        fits(&truths, &truth);
        assert_eq!((&truth["lost"], &truth["threads"]), (&lost["lost"], &lost["threads"]));
        let gaps = truth["cores"][0]["gaps"].as_array().unwrap();
        reasons.extend(gaps.iter().map(|gap| gap["reason"].as_str().unwrap().to_owned()));
        let records = truth["cores"][0]["sideband"].as_array().unwrap();
        reasons.extend(records.iter().map(|_| "records".to_owned()));
        result("info", &["info", "--check", "--recover", "follow", "--project", "indexed", &lossy]);
        result("accuracy", &["accuracy", "--recover", "follow", &whole, &lossy]);
        for kind in REPORTS.into_iter().chain(["latency"]) {
            result(&format!("report-{kind}"), &["report", kind, &lossy]);
        }
        let seen = lines(&[&lossy]);
        assert!(lost["lost"] == 0 || seen.contains("gap"), "{way:?}: {seen:?}");
    }
    let expected = ["overflow", "records", "start", "truncated"].map(str::to_owned);
    assert_eq!(reasons, BTreeSet::from(expected));
}

#[test]
fn lines_fit() {
    let place = CaptureFolder::new();
    for name in ["empty", "torn", "traced", "sideband"] {
        for level in ["call", "block", "bytecode"] {
            let seen = lines(&["--level", level, &place.path(name)]);
            assert!(seen.contains("execution"), "{name}");
            assert!(name != "traced" || seen.contains("thread"), "{seen:?}");
        }
    }
}

/// Events for which a small capture has no room.
#[test]
fn lines_of_all_events_fit() {
    let own = [
        json!({"event": "enter", "method": "a.B.f(I)I", "tier": "C1", "entry": "osr"}),
        json!({"event": "leave", "method": "a.B.f(I)I", "exit": "pop-frame"}),
        json!({"event": "bytecode", "method": "a.B.f(I)I", "bci": 3, "opcode": null, "line": 7, "tier": "C2"}),
        json!({"event": "catch", "method": "a.B.f(I)I", "bci": 3}),
        json!({"event": "unresolved", "method": "m", "from": null, "to": 9, "cause": "empty-loop", "callers": 1}),
        json!({"event": "orphan", "opcode": "ifeq", "taken": null}),
        json!({"event": "orphan-throw"}),
    ];
    let validator = validator(LINES);
    for mut line in own {
        (line["tid"], line["number"], line["depth"]) = (7.into(), 0.into(), 2.into());
        fits(&validator, &line);
        line["recovered"] = json!({"confidence": 0.5f32});
        fits(&validator, &line);
    }
}

#[test]
fn exchange_fits() {
    let place = CaptureFolder::new();
    let (traced, folder) = (place.path("traced"), place.path("perf"));
    let exported = result("export-perf-data", &["export", "perf-data", &traced, "-o", &folder]);
    let (data, imported) = (exported["file"].as_str().unwrap(), place.path("imported"));
    result("import", &["import", data, "--capture", &traced, "-o", &imported]);
    result("info", &["info", &imported]);
}

#[test]
fn doctor_fits() {
    let diagnosis = result("doctor", &["doctor"]);
    assert!(diagnosis["checks"].as_array().is_some_and(|c| !c.is_empty()));
}

#[test]
fn exports_fit() {
    let place = CaptureFolder::new();
    let formats = [
        "collapsed",
        "pprof",
        "speedscope",
        "otlp",
        "lcov",
        "jacoco",
        "cobertura",
        "call-trace",
        "dot",
        "graphml",
        "block-trace",
        "static",
        "perfetto",
        "firefox",
        "parquet",
    ];
    for format in formats {
        let to = place.path(&format!("out-{format}"));
        let written = result("export", &["export", format, &place.path("traced"), "-o", &to]);
        assert_eq!((&written["format"], &written["output"]), (&json!(format), &json!(to)));
        assert!(Path::new(&to).exists(), "{to}");
        let reports = ["call-trace", "block-trace", "perfetto", "firefox"].contains(&format);
        assert_eq!(written["report"].is_object(), reports, "{written}");
    }
    let traced = place.path("traced");
    let (to, graph) = (place.path("two.folded"), place.path("out-dot"));
    let both = ["export", "collapsed", "--against", &traced, "-o", &to, &traced];
    assert_eq!(result("export", &both)["format"], "collapsed");
    assert!(std::fs::read_to_string(graph).unwrap().starts_with("digraph \"traced\" {\n"));
    let page = place.path("page.html");
    let written = result("export", &["view", "--latency", "a.B", "-o", &page, &place.path("traced")]);
    assert_eq!((&written["format"], &written["output"]), (&json!("html"), &json!(page)));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("a.B"), "{page:.300}");
}

#[test]
fn differences_fit() {
    let place = CaptureFolder::new();
    let (empty, traced) = (place.path("empty"), place.path("traced"));
    for by in ["call-tree", "hot-methods", "calls", "coverage"] {
        let same = result("diff", &["diff", "--allow-inexact", "--by", by, &traced, &traced]);
        assert_eq!((&same["kind"], &same["equal"]), (&json!(by), &json!(true)));
    }
    let new = result("diff", &["diff", "--allow-inexact", "--by", "coverage", &empty, &traced]);
    assert_eq!((&new["equal"], &new["numbers"]["only_after"]), (&json!(false), &json!(1)));
    let base = place.path("base.json");
    std::fs::write(&base, jportal(&["report", "call-tree", &traced, "--json"]).stdout).unwrap();
    let traces = ["diff", "--by", "call-trace", &traced, &traced];
    assert_eq!(result("diff-call-trace", &traces)["equal"], true);
    for refused in [&["--merge", &traced][..], &["--tolerance", "1", &traced], &[&base]] {
        let refused = jportal(&[&["diff", "--by", "call-trace", &traced], refused].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        let is_told = said.contains("leave it out") || said.contains("name two captures");
        assert!(refused.status.code() == Some(2) && is_told, "{said}");
    }
    let stored = result("diff", &["diff", "--allow-inexact", &base, &traced]);
    assert_eq!((&stored["kind"], &stored["equal"]), (&json!("call-tree"), &json!(true)));
}

/// m0 `a.A.f` calls the native m3, and m1 `a.B.g`, which returns, or m2 `a.C.g`, which throws. m4
/// is a later version of m1.
fn methods() -> Arc<MethodTable> {
    // 0 iload_0; 1 ifeq 11; 4 aload_1; 5 invokevirtual g; 8 invokestatic n; 11 return; 12 pop;
    // 13 return
    let f = [0x1a, 0x99, 0, 10, 0x2b, 0xb6, 0, 1, 0xb8, 0, 2, 0xb1, 0x57, 0xb1];
    let line = |bci, line| LineRow { bci: Bci(bci), line };
    let g = |class, name: &str, code: &[u8]| Method {
        class,
        class_name: name.into(),
        access_flags: 0,
        ..method("g", code)
    };
    let mut all = MethodTable::default();
    all.push(Method {
        exceptions: [row(5, 8, 12, None)].into(),
        lines: [line(0, 10), line(4, 11), line(11, 12)].into(),
        invokes: [calls(5, "a/B", "g"), calls(8, "a/A", "n")].into(),
        ..method("f", &f)
    });
    all.push(g(1, "a/B", &[0xb1]));
    all.push(g(2, "a/C", &[1, 0xbf]));
    all.push(Method { access_flags: 0x108, ..method("n", &[]) });
    all.push(g(1, "a/B", &[0, 0xb1]));
    Arc::new(all)
}

/// The flows of two threads. In the first, the third call of `f` has an unresolved stretch. In the
/// second, trace was lost.
fn flows() -> [Vec<Event>; 2] {
    let time = |tsc| Event::decoded(EventKind::Time(Tsc(tsc)));
    let f = |bci| bytecode(0, bci);
    let call = || enter_as(0, Entry::Upcall);
    let native = EventKind::Enter { method: MethodId(3), tier: Tier::Native, entry: Entry::Call };
    let catch = EventKind::Catch { method: MethodId(0), bci: Bci(12) };
    let (from, to, cause) = (Some(Bci(1)), Some(Bci(11)), Cause::ConditionalExpression);
    let fold = EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 };
    let mut first = vec![time(1000), call(), f(0), f(1), f(4), f(5), enter(1), bytecode(1, 0), leave(1)];
    first.extend([f(8), Event::decoded(native), leave(3), f(11), leave(0)]);
    first.extend([time(5000), call(), f(0), f(1), f(4), f(5), enter(2), bytecode(2, 0), bytecode(2, 1)]);
    first.extend([leave_as(2, Exit::Unwind), Event::decoded(catch), f(12), f(13), leave(0)]);
    first.extend([time(9000), call(), f(0), f(1), Event::decoded(fold), f(11), leave(0), time(12_000)]);
    let mut second = vec![time(2000), enter_as(0, Entry::Found), f(4), recovered(f(5)), gap(true)];
    second.extend([enter_as(0, Entry::Found), f(11), leave(0), time(9000)]);
    [first, second]
}

/// An analysis of both flows.
fn fed<A: Analysis>(mut analysis: A) -> A {
    for (tid, events) in (1..).zip(flows()) {
        feed(&mut analysis, tid, &events);
    }
    analysis
}

/// Panics if a result does not fit the schema.
#[track_caller]
fn written(name: &str, report: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(report).unwrap();
    value["schema"] = format!("jportal/{name}/1").into();
    fits(&validator(name), &value);
    value
}

/// The number of items of a list.
#[track_caller]
fn len(list: &Value) -> usize {
    list.as_array().unwrap_or_else(|| panic!("{list} is no list")).len()
}

/// Rows for which a small capture has no room.
#[test]
fn rows_of_counts_fit() {
    let (all, m) = (|_: &Method| true, methods);
    let options = BlocksOptions { level: Level::Bytecodes, top: None, idle: true };
    let blocks = fed(CountsAnalysis::new(m(), Arc::default())).blocks(options, all);
    let blocks = written("report-blocks", &blocks);
    let f = &blocks["classes"][0]["methods"][0];
    assert!(len(&f["blocks"]) == 4 && len(&f["exceptions"]) > 0 && len(&f["code"]) == 8, "{f}");
    let options = CoverageOptions { counts: true, exception_branches: true };
    let coverage = fed(CoverageAnalysis::new(m(), Arc::default())).report_with(options, all);
    let value = written("report-coverage", &coverage);
    assert!(len(&value["classes"][0]["methods"][0]["detail"]["exceptions"]) > 0, "{value}");
    written("report-uncovered", &coverage.uncovered());
    let begins = |m: &Method| &*m.name == "f";
    let split = fed(SplitAnalysis::new(m(), Arc::default(), begins)).report(all);
    assert!(len(&written("report-coverage-split", &split)["buckets"]) >= 3);
    let covers = json!({ "file": "A.java", "line": 10, "buckets": split.which_covers("A.java", 10) });
    assert!(len(&written("report-which-covers", &covers)["buckets"]) >= 3);
    let paths = fed(PathsAnalysis::new(m(), Arc::default())).report(Show { top: 9, cut: true }, all);
    let value = written("report-paths", &paths);
    assert!(len(&value["hot"]) > 0 && len(&value["methods"][0]["cuts"]) > 0, "{value}");
}

#[test]
fn rows_of_calls_fit() {
    let (all, m) = (|_: &Method| true, methods);
    let options = tree::Options { counting: tree::Counting::Both, sites: true, ..tree::Options::default() };
    let tree = fed(TreeAnalysis::new(m(), Arc::default(), options)).tree().unwrap();
    let value = written("report-call-tree", &tree);
    let nodes = value["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|n| n["site"].is_object()) && value["delta"].is_object(), "{value}");
    let split = TreeAnalysis::new(m(), Arc::default(), tree::Options::default()).split(|m| &*m.name == "f");
    let split = written("report-call-tree", &fed(split).tree().unwrap());
    let of_bucket = &split["threads"][0]["bucket"];
    assert_eq!((&of_bucket["activations"], &of_bucket["thread"]), (&json!(1), &json!("t1")), "{split}");
    let series = TreeAnalysis::new(m(), Arc::default(), tree::Options::default());
    let series = fed(tree::SeriesAnalysis::new(series, 1)).series().unwrap();
    let series = written("report-call-tree", &series);
    assert!(len(&series["intervals"]) > 3 && len(&series["intervals"][0]["changes"]) > 0, "{series}");
    let mut other = tree.clone();
    other.nodes[1].bytecodes.decoded += 3;
    let options = DiffOptions { allow_inexact: true, ..DiffOptions::default() };
    let diff = written("diff", &Diff::new(&tree.into(), &other.into(), &options).unwrap());
    assert!(len(&diff["differences"]) == 1 && diff["before_inexact"].is_string(), "{diff}");
    let virtuals = fed(PolymorphismAnalysis::new(m(), Arc::default())).report(9, all);
    assert!(len(&written("report-polymorphism", &virtuals)["sites"][0]["targets"]) == 2);
    let natives = written("report-natives", &fed(NativesAnalysis::new(m(), Arc::default())).report(9, all));
    assert!(len(&natives["rows"][0]["callers"]) == 1, "{natives}");
    written("report-metrics", &fed(MetricsAnalysis::new(m(), Arc::default())).report());
    let latency = LatencyAnalysis::new(m(), Arc::default(), 3, all);
    let latency = fed(latency.on_core(Arc::new(|_: &ThreadInfo, tsc: Tsc| tsc.get())));
    let latency = written("report-latency", &latency.report(9, Tsc(0), 1_000_000));
    assert!(len(&latency["slowest"]) == 3 && latency["methods"][0]["on_core"].is_object(), "{latency}");
}

#[test]
fn rows_of_stacks_fit() {
    let mut table = MethodTable::default();
    let caller = table.push(method("f", &[0xb1]));
    let hit = ("jportal/oracle/Probe", "(II)V");
    table.push(Method { class_name: hit.0.into(), signature: hit.1.into(), ..method("hit", &[]) });
    let caller = table.get(caller).unwrap().clone();
    let names = format!(
        "id\n1\t{}\t0\thit\t{}\n2\t{}\t0\tf\t{}\n",
        hit.0, hit.1, caller.class_name, caller.signature
    );
    // A header; a sample with a wrong bci, an error, and a call that the flow does not have.
    let mut log = [&b"JPSTACK\0\x01\0\0\0\x07\0\0\0"[..], &[0; 16]].concat();
    for (api, call, result, frames) in
        [(1, 0, 2, &[(1, -1), (2, 9)][..]), (2, 0, -5, &[]), (4, 9, 1, &[(1, -1)])]
    {
        log.extend((40 + 16 * frames.len() as u32).to_le_bytes());
        log.extend([api, 0, 0, 0, call, 0, 0, 0, 0, 0, 0, 0]);
        log.extend([0; 16]);
        log.extend([i32::to_le_bytes(result), [0; 4]].concat());
        for (id, at) in frames {
            log.extend([u64::to_le_bytes(*id), (i64::from(i32::cast_unsigned(*at))).to_le_bytes()].concat());
        }
    }
    let native = EventKind::Enter { method: MethodId(1), tier: Tier::Native, entry: Entry::Call };
    let flow = [enter_as(0, Entry::Upcall), bytecode(0, 0), Event::decoded(native), leave(1)];
    let names = LoggedMethods::read(names.as_bytes()).unwrap();
    let log = StackLog::open(Box::new(std::io::Cursor::new(log))).unwrap();
    let options =
        StacksOptions { findings: 9, capture: "x".into(), apis: StackApi::ALL.to_vec(), anytime: false };
    let mut analysis = StacksAnalysis::new(Arc::new(table), &names, vec![log], Vec::new(), options);
    feed(&mut analysis, 7, &flow);
    let value = written("validate-stacks", &analysis.finish());
    assert!(len(&value["apis"]) == 3 && len(&value["findings"]) == 1, "{value}");
    assert!(len(&value["not_judged"]) == 1 && len(&value["groups"]) == 1, "{value}");
}

#[test]
fn rows_of_jfr_and_of_grades_fit() {
    use jportal::analyses::execution::OnCore;
    use jportal::analyses::hot::{HotAnalysis, HotRank};
    use jportal::analyses::tree::{Options, TreeAnalysis};
    use jportal::validate::stacks::grade::{GradeLimits, GradeReport, RankingReport, StackProfile};
    use jportal::validate::stacks::jfr::{JfrAnalysis, JfrOptions, JfrSamples, WallClock};
    let caller = methods().get(MethodId(0)).unwrap().clone();
    let frame = |class: &str, bci: u16, kind: &str| {
        let (name, descriptor) = (caller.name.to_string(), caller.signature.to_string());
        let method = json!({"type": {"name": class}, "name": name, "descriptor": descriptor});
        json!({"method": method, "bytecodeIndex": bci, "type": kind})
    };
    let event = |tid: u32, truncated: bool, frames: &[Value]| {
        let thread = json!({"osName": "t", "osThreadId": tid, "javaName": "t", "javaThreadId": 1});
        let stack = json!({"truncated": truncated, "frames": frames});
        let values =
            json!({"startTime": "1970-01-01T00:00:01Z", "sampledThread": thread, "stackTrace": stack});
        json!({"type": "jdk.ExecutionSample", "values": values})
    };
    let right = frame(&caller.class_name, 0, "Interpreted");
    let never = frame("x/Y", 0, "Inlined");
    let events = [
        event(7, false, std::slice::from_ref(&right)),
        event(7, false, &[never.clone(), right.clone()]),
        event(7, true, std::slice::from_ref(&never)),
        event(8, false, std::slice::from_ref(&right)),
    ];
    let text = json!({"recording": {"events": events}}).to_string();
    let samples = || JfrSamples::read(text.as_bytes()).unwrap();
    let clock = WallClock { start_tsc: 0, start_unix_ns: 1_000_000_000, tsc_khz: 1 };
    let options = JfrOptions { clock, window_ms: 1.0, findings: 9 };
    let flow = [enter_as(0, Entry::Upcall), bytecode(0, 0), leave(0)];
    let mut analysis = JfrAnalysis::new(methods(), samples(), options);
    feed(&mut analysis, 7, &flow);
    let value = written("validate-stacks-jfr", &analysis.finish());
    assert!(len(&value["findings"]) == 2 && len(&value["not_judged"]) == 1, "{value}");
    assert!(value["distances"]["samples"] == 1 && len(&value["groups"]) == 2, "{value}");
    let mut analysis =
        TreeAnalysis::new(methods(), Arc::default(), Options { merged: true, ..Options::default() });
    feed(&mut analysis, 7, &flow);
    let (profile, tree) = (StackProfile::of_jfr(&samples()).unwrap(), analysis.tree().unwrap());
    let report = GradeReport::new(&profile, &tree, &methods(), GradeLimits { calls: 9 });
    let value = written("grade", &report);
    assert!(len(&value["calls"]) == 1 && len(&value["unknown"]) == 1, "{value}");
    assert!(len(&value["likeness"]) == 2 && len(&value["methods"]) == 2, "{value}");
    let flow =
        [&[Event::decoded(EventKind::Time(Tsc(0)))], &flow[..], &[Event::decoded(EventKind::Time(Tsc(9)))]];
    let clock: OnCore = Arc::new(|_, t| t.get());
    let mut analysis = HotAnalysis::new(methods(), Arc::default())
        .ranked(HotRank::Inclusive, Arc::clone(&clock))
        .beside_profiles(clock);
    feed(&mut analysis, 7, &flow.concat());
    let ranking = RankingReport::new(&profile, &analysis.named_costs(), &methods());
    let mut value = serde_json::to_value(analysis.report(9, |_| true)).unwrap();
    let mut comparison = serde_json::to_value(&ranking).unwrap();
    comparison["file"] = json!("app.jfr");
    value["comparisons"] = json!([comparison]);
    let value = written("report-hot-methods", &value);
    assert!(value["methods"][0]["ticks"] == 9 && value["time"]["steps"] == 1, "{value}");
    assert!(len(&value["comparisons"][0]["likeness"]) == 3, "{value}");
}

#[test]
fn rows_of_the_jit_fit() {
    use jportal::analyses::jit::*;
    use jportal::flow::{CodeStep, CodeStop};
    use jportal::units::CodeId;
    let frame = |parent, call_bci, method| ChainFrame { parent, call_bci, method: Some(MethodId(method)) };
    let compilation = |compile_id| Compilation {
        code: CodeId(compile_id),
        compile_id,
        tier: Tier::C2,
        level: 4,
        method: Some(MethodId(0)),
        osr_bci: None,
        installed: Tsc(2000),
        size: 64,
        states: vec![(Tsc(5000), CodeState::NotEntrant)],
        freed: None,
        frames: vec![frame(None, 0, 0), frame(Some(0), 5, 1)],
        blocks: Some(vec![(0, 0), (0, 12), (1, 0)]),
        traps: vec![PlannedTrap {
            returns: 9,
            request: Some(!(23 << 3 | 2)),
            position: Some((MethodId(0), 1)),
        }],
    };
    let all = Arc::new(CompilationTable::new([1, 2, 3].map(compilation).into(), 0));
    let mut jit = fed(JitAnalysis::new(methods(), Arc::default(), all).on_core(Arc::new(|_, t| t.get())));
    let code = |step| Event::decoded(EventKind::Code(step));
    let deoptimised = CodeStep::Deoptimised { code: CodeId(1), stop: Some(CodeStop::Call(9)) };
    let enter = EventKind::Enter { method: MethodId(0), tier: Tier::C2, entry: Entry::Upcall };
    let bytecode = EventKind::Bytecode { method: MethodId(0), bci: Bci(1), tier: Tier::C2 };
    let mut flow = vec![Event::decoded(enter), code(CodeStep::Entered(CodeId(1))), Event::decoded(bytecode)];
    flow.extend([
        code(deoptimised),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Deoptimisation),
        leave(0),
    ]);
    (0..10).for_each(|tid| feed(&mut jit, 10 + tid, &flow));
    let log = "<hotspot_log><nmethod compile_id='1' level='4' method='x y ()V'/>        <task_queued compile_id='1'/><writer/><task compile_id='8'><task_done success='0'/></task></hotspot_log>";
    let log = CompilationLog::read(log.as_bytes());
    let clock = CodeClock { start: Tsc(0), khz: 1_000_000 };
    let report = jit.report(JitOptions { top: 9, clock, whole: true, log: Some(&log) }, |_| true);
    let value = written("report-jit", &report);
    for list in ["nmethods", "sites", "branches", "deoptimisations", "loops", "storms", "tiers"] {
        assert!(len(&value[list]) > 0, "{list}: {value}");
    }
    assert!(len(&value["log"]["log_only"]) == 1 && value["log"]["broken"].is_string(), "{value}");
}

#[test]
fn what_exports_report_fits() {
    let (all, m) = (|_: &Method| true, methods);
    let export = |format: &str, report: Value| {
        let value = json!({ "format": format, "output": "o", "exact": false, "report": report });
        let value = written("export", &value);
        assert!(len(&value["report"]["threads"]) == 2, "{value}");
    };
    let sites = Arc::new(Sites::new(m(), Naming::default(), all).unwrap());
    let open = |thread: &ThreadInfo| {
        let writer = TraceWriter::new(std::io::sink(), thread, false, true);
        writer.map(|writer| Some(Box::new(writer) as Box<dyn TraceSink>))
    };
    let traces = fed(CallTraceAnalysis::new(sites, Arc::default(), open).times(true));
    export("call-trace", json!(traces.report()));
    let open = |_: &ThreadInfo| Ok(Box::new(std::io::sink()) as Output);
    let traces =
        BlockTraceAnalysis::new(m(), Arc::default(), BlockTraceOptions::default(), all, open).unwrap();
    export("block-trace", json!(fed(traces).finish().unwrap()));
    let clock = Clock { start: Tsc(0), tsc_khz: 1_000_000 };
    let perfetto = Perfetto::new(std::io::sink(), clock, &Process::default()).unwrap();
    let open =
        move |thread: &ThreadInfo| Ok(Some(Box::new(perfetto.thread(thread)) as Box<dyn TimelineSink>));
    let limits = Limits { min: 0, ..Limits::new(1_000_000) };
    let timelines = TimelineAnalysis::new(m(), Naming::default(), (limits, Exclude::default()), open);
    export("perfetto", json!(fed(timelines).report()));
}
