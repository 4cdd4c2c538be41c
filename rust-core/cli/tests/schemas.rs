// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The schemas in `docs/schemas`: each kind of result has one, and the results fit them.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jportal::units::{Core, StreamOffset};
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

/// The schema of the lines of `print`. No `Kind` of the command names it, and the lines do not
/// name it either.
const LINES: &str = "print-lines";

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

/// The names in `Kind::new("NAME"` in the sources of the command, without their tests.
fn kinds(folder: &Path, to: &mut BTreeSet<String>) {
    for path in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if path.is_dir() {
            kinds(&path, to);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let names = code.split("Kind::new(\"").skip(1).filter_map(|rest| rest.split('"').next());
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
struct Place(tempfile::TempDir);

impl Place {
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
    let place = Place::new();
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
    let place = Place::new();
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
    let place = Place::new();
    for name in ["empty", "torn", "traced", "sideband"] {
        for kind in ["coverage", "hot-methods", "calls"] {
            let schema = format!("report-{kind}");
            let report = result(&schema, &["report", kind, "--classes", "all", &place.path(name)]);
            assert_eq!(report["schema"], format!("jportal/{schema}/1"));
            let rows = report["classes"].as_array().map_or(0, Vec::len);
            assert!(kind != "coverage" || name == "empty" || name == "torn" || rows == 1, "{report}");
        }
    }
}

#[test]
fn comparisons_fit() {
    let place = Place::new();
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
    let place = Place::new();
    let (whole, lossy) = (place.path("traced"), place.path("lossy"));
    let ways: [&[&str]; 4] =
        [&["--every", "256"], &["--without-ends"], &["--overflow", "1k"], &["--loss", "25%", "--aux", "8k"]];
    for way in ways {
        let lost = result("degrade", &[&["degrade", &whole, "-o", &lossy], way].concat());
        result("info", &["info", "--check", "--recover", "follow", "--project", "indexed", &lossy]);
        result("accuracy", &["accuracy", "--recover", "follow", &whole, &lossy]);
        for kind in ["coverage", "hot-methods", "calls"] {
            result(&format!("report-{kind}"), &["report", kind, &lossy]);
        }
        let seen = lines(&[&lossy]);
        assert!(lost["lost"] == 0 || seen.contains("gap"), "{way:?}: {seen:?}");
    }
}

#[test]
fn lines_fit() {
    let place = Place::new();
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
    let place = Place::new();
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
