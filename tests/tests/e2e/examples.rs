// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small programs whose figures were worked out by hand, in every tier.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use jportal_tests::figures::figure;
use jportal_tests::peer::{TableKind, table};
use jportal_tests::place::{self, Installation};
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};

/// All examples in one VM, one after the other.
fn record(place: &Installation, mode: EngineMode, flags: &[&str]) -> RecordedRun {
    let classes = place.programs.join("examples.jar");
    let arguments = ["-cp".to_owned(), classes.display().to_string(), "All".to_owned()];
    let flags = flags.iter().map(ToString::to_string).collect();
    let recording =
        RecordedRun::command(place, &arguments, &Plan { oracle: false, flags, ..Plan::new(mode) });
    let recording = recording.expect("the examples can be recorded");
    assert_eq!(recording.program.text(), "5\n396\n11\n41\n48\n5 1500\n[1, 2, 3] 4 10\n6\n");
    recording
}

fn json(recording: &RecordedRun, capture: &Path, command: &[&str]) -> Value {
    let finished = recording.jportal(&[command, &["--json"]].concat(), capture, &[]).unwrap();
    assert!(finished.status.success(), "{command:?}: {}", finished.stderr);
    finished.json().unwrap()
}

/// The number of items, over all provenances.
fn total(tally: &Value) -> u64 {
    tally.as_object().unwrap_or_else(|| panic!("{tally}")).values().filter_map(Value::as_u64).sum()
}

/// The nodes of a call tree by path: invocations, bytecodes, bytecodes by whole blocks. Paths have
/// the names of methods without class and descriptor, except where `full` says so.
fn nodes(tree: &Value, full: bool) -> BTreeMap<String, (u64, u64, u64)> {
    let mut paths: Vec<String> = Vec::new();
    let mut all = BTreeMap::new();
    for node in tree["nodes"].as_array().unwrap() {
        let name = node["method"].as_str().unwrap();
        let short = name.split('(').next().unwrap().rsplit('.').next().unwrap();
        let own = if full { name } else { short };
        let path = match node["parent"].as_u64() {
            None => String::new(),
            Some(parent) if paths[parent as usize].is_empty() => own.to_owned(),
            Some(parent) => format!("{}/{own}", paths[parent as usize]),
        };
        if ["call", "upcall"].contains(&node["kind"].as_str().unwrap()) {
            let default = node["default"].as_u64().unwrap_or(0);
            let figures = (total(&node["invocations"]), total(&node["bytecodes"]), default);
            assert_eq!(all.insert(path.clone(), figures), None, "{path} has two nodes");
        }
        paths.push(path);
    }
    all
}

/// Checks the tree of a class against paths with invocations and bytecodes. `default` has the sum
/// by whole blocks, if it differs from the sum of bytecodes.
fn tree(recording: &RecordedRun, class: &str, expected: &[(&str, u64, u64)], default: Option<u64>) {
    let capture = recording.capture();
    let found = json(
        recording,
        &capture,
        &["report", "call-tree", "--class", class, "--merge", "--bba", "both", "--hide", "splice"],
    );
    assert_eq!(found["exact"], true, "{class}: {}", found["inexact"]);
    let counted: BTreeMap<String, (u64, u64)> =
        nodes(&found, false).into_iter().map(|(path, (i, b, _))| (path, (i, b))).collect();
    let expected: BTreeMap<String, (u64, u64)> =
        expected.iter().map(|(path, i, b)| ((*path).to_owned(), (*i, *b))).collect();
    let all: BTreeSet<&String> = counted.keys().chain(expected.keys()).collect();
    for path in all {
        // The path of a deep call is long.
        let end = &path[path.len().saturating_sub(100)..];
        assert_eq!(counted.get(path), expected.get(path), "{class}: {end}");
    }
    let precise: u64 = expected.values().map(|(_, b)| b).sum();
    let delta = &found["delta"];
    assert_eq!(
        (delta["precise"].as_u64(), delta["default"].as_u64()),
        (Some(precise), Some(default.unwrap_or(precise))),
        "{class}"
    );
}

/// The tree of `fib(n)` below `path`.
fn fib(path: &str, n: u64, to: &mut BTreeMap<String, (u64, u64)>) {
    let entry = to.entry(path.to_owned()).or_default();
    entry.0 += 1;
    entry.1 += if n < 2 { 6 } else { 13 };
    if n >= 2 {
        fib(&format!("{path}/fib"), n - 1, to);
        fib(&format!("{path}/fib"), n - 2, to);
    }
}

fn trees(recording: &RecordedRun) {
    let sums = [
        ("main", 1, 5),
        ("main/<init>", 1, 3),
        ("main/f", 1, 106),
        ("main/f/g", 10, 445),
        ("main/f/g/h", 55, 55),
        ("main/f/h", 10, 10),
    ];
    tree(recording, "Foo", &sums, None);
    tree(recording, "Fun", &[("main", 1, 150), ("main/fun", 10, 124)], None);
    tree(recording, "Thr", &[("main", 1, 72), ("main/call", 9, 108), ("main/call/boom", 9, 78)], Some(273));
    let cas = [
        ("main", 1, 19),
        ("main/main0", 1, 46),
        ("main/main0/A", 1, 5),
        ("main/main0/B", 2, 10),
        ("main/main0/B/C", 2, 10),
        ("main/main0/E", 1, 5),
        ("main/main0/E/C", 1, 5),
        ("main/main0/H", 1, 5),
    ];
    tree(recording, "Cas", &cas, None);
    tree(recording, "Nat", &[("main", 1, 176), ("main/lib", 3, 9)], Some(179 + 12));
    tree(recording, "Pre", &[("main", 1, 10), ("main/prep", 1, 5), ("main/prep/fail", 1, 4)], Some(25));

    let mut rec = BTreeMap::from([("main".to_owned(), (1, 8))]);
    fib("main/fib", 5, &mut rec);
    let mut path = "main".to_owned();
    for n in (0..=1500).rev() {
        path.push_str("/deep");
        rec.insert(path.clone(), (1, if n == 0 { 5 } else { 9 }));
    }
    let rec: Vec<(&str, u64, u64)> = rec.iter().map(|(path, (i, b))| (path.as_str(), *i, *b)).collect();
    tree(recording, "Rec", &rec, None);
}

/// Each call of `Foo.g` has a tree of its own. The i-th call has 7i + 6 bytecodes, and calls `h` i
/// times.
fn trees_of_buckets(recording: &RecordedRun) {
    let command = ["report", "call-tree", "--class", "Foo", "--split", "Foo#g"];
    let found = json(recording, &recording.capture(), &command);
    assert_eq!(found["exact"], true, "{}", found["inexact"]);
    let trees = found["threads"].as_array().expect("a list").iter().map(|tree| {
        let root = tree["root"].as_u64().and_then(|root| usize::try_from(root).ok()).expect("a number");
        (tree["name"].as_str().expect("a name"), found["nodes"][root]["total"].as_u64().expect("a count"))
    });
    let names: Vec<String> = (1..=10).map(|i| format!("Foo.g(I)V#{i}")).collect();
    let mut expected: Vec<(&str, u64)> =
        (1..=10).zip(&names).map(|(i, name)| (name.as_str(), 8 * i + 6)).collect();
    expected.push(("(none)", 5 + 3 + 106 + 10));
    assert_eq!(trees.collect::<Vec<_>>(), expected);
}

/// Trees with several methods of one name.
fn trees_by_full_names(recording: &RecordedRun) {
    let of = |class: &str| {
        let command = ["report", "call-tree", "--class", class, "--merge", "--hide", "splice"];
        let found = json(recording, &recording.capture(), &command);
        assert_eq!(found["exact"], true, "{class}: {}", found["inexact"]);
        nodes(&found, true).into_iter().map(|(path, (i, b, _))| (path, (i, b))).collect::<BTreeMap<_, _>>()
    };
    let main = "Poly.main([Ljava/lang/String;)V";
    let under = |path: &str, i, b| (format!("{main}/{path}"), (i, b));
    let expected = BTreeMap::from([
        (main.to_owned(), (1, 404)),
        under("Poly$P.<init>()V", 1, 3),
        under("Poly$Q.<init>()V", 1, 3),
        under("Poly$R.<init>()V", 1, 3),
        under("Poly$R.<init>()V/Poly$P.<init>()V", 1, 3),
        under("Poly$P.a()I", 20, 40),
        under("Poly$Q.a()I", 4, 8),
        under("Poly$S.tag()I", 8, 16),
        under("Poly$R.tag()I", 4, 8),
    ]);
    assert_eq!(of("Poly"), expected);

    let main = "Cb.main([Ljava/lang/String;)V";
    let under = |path: &str, i, b| (format!("{main}/{path}"), (i, b));
    let (objects, integers) = (
        "Cb.compare(Ljava/lang/Object;Ljava/lang/Object;)I",
        "Cb.compare(Ljava/lang/Integer;Ljava/lang/Integer;)I",
    );
    let expected = BTreeMap::from([
        (main.to_owned(), (1, 45)),
        under("Cb.<init>()V", 1, 3),
        under(objects, 4, 28),
        under(&format!("{objects}/{integers}"), 4, 40),
        under("Cb.app()V", 1, 2),
        under("Cb.app()V/Cb$Lazy.<clinit>()V", 1, 7),
        under("Cb.app()V/Cb$Lazy.touch()V", 1, 5),
        ("Cb.lambda$main$0()V".to_owned(), (1, 2)),
        ("Cb.lambda$main$0()V/Cb.app()V".to_owned(), (1, 2)),
        ("Cb.lambda$main$0()V/Cb.app()V/Cb$Lazy.touch()V".to_owned(), (1, 5)),
    ]);
    assert_eq!(of("Cb"), expected);
}

/// The rows of a report, by the name of the method without class and descriptor.
fn by_method<'v>(rows: &'v Value, field: &str) -> BTreeMap<String, &'v Value> {
    let name = |row: &Value| {
        let name = row[field].as_str().unwrap();
        name.split('(').next().unwrap().rsplit('.').next().unwrap().to_owned()
    };
    rows.as_array().unwrap().iter().map(|row| (name(row), row)).collect()
}

/// Paths by method: id and how often.
fn paths(recording: &RecordedRun) {
    let of = |class: &str| {
        let report = json(recording, &recording.capture(), &["report", "paths", "--class", class, "--cut"]);
        let all = by_method(&report["methods"], "method");
        let ids = |row: &Value| -> Vec<(u64, u64)> {
            let rows = row["rows"].as_array().unwrap();
            let mut ids: Vec<_> =
                rows.iter().map(|p| (p["id"].as_u64().unwrap(), total(&p["times"]))).collect();
            ids.sort_unstable();
            ids
        };
        all.into_iter().map(|(name, row)| (name, ids(row))).collect::<BTreeMap<_, _>>()
    };
    let sums = of("Foo");
    assert_eq!(sums["f"], [(0, 1), (2, 9), (3, 1)]);
    assert_eq!(sums["g"], [(0, 10), (2, 45), (3, 10)]);
    assert_eq!(sums["h"], [(0, 65)]);
    assert_eq!(of("Fun")["fun"], [(0, 2), (1, 2), (2, 3), (3, 3)]);
    assert_eq!(of("Thr")["call"], [(0, 6), (1, 3)]);
}

/// Executions of the blocks of a method, by bci.
fn blocks(recording: &RecordedRun) {
    let report = json(recording, &recording.capture(), &["report", "blocks", "--class", "Foo"]);
    let class = &report["classes"].as_array().unwrap()[0];
    let of = |method: &str| -> Vec<(u64, u64)> {
        let methods = by_method(&class["methods"], "name");
        let rows = methods[method]["blocks"].as_array().unwrap();
        rows.iter().map(|b| (b["bci"].as_u64().unwrap(), total(&b["executions"]))).collect()
    };
    assert_eq!(of("f"), [(0, 1), (2, 11), (8, 10), (23, 1)]);
    assert_eq!(of("g"), [(0, 10), (2, 65), (7, 55), (17, 10)]);
    assert_eq!(of("h"), [(0, 65)]);
    let coverage =
        json(recording, &recording.capture(), &["report", "coverage", "--methods", "--class", "Pre"]);
    let class = &coverage["classes"].as_array().unwrap()[0];
    let methods = by_method(&class["methods"], "name");
    let bytecodes = &methods["prep"]["bytecodes"];
    assert_eq!((total(&bytecodes["executed"]), bytecodes["present"].as_u64()), (5, Some(10)));
}

/// Executions of each bytecode of `Thr`, where exceptions went, and the paths that they cut.
fn exceptions(recording: &RecordedRun) {
    let capture = recording.capture();
    let report = json(recording, &capture, &["report", "blocks", "--bytecodes", "--class", "Thr"]);
    let methods = by_method(&report["classes"][0]["methods"], "name");
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap();
    let executions = |method: &str, from, to| -> BTreeSet<u64> {
        let code = methods[method]["code"].as_array().unwrap().iter();
        let code = code.filter(|row| (from..=to).contains(&number(row, "bci")));
        code.map(|row| total(&row["executions"])).collect()
    };
    for (method, from, to, times) in [
        ("call", 0, 9, 9),
        ("call", 12, 21, 6),
        ("call", 24, 31, 3),
        ("call", 34, 34, 9),
        ("boom", 0, 3, 9),
        ("boom", 6, 13, 3),
        ("boom", 14, 22, 6),
    ] {
        assert_eq!(executions(method, from, to), BTreeSet::from([times]), "{method}@{from}");
    }
    let ways = |method: &str| -> Vec<(u64, Option<u64>, u64)> {
        let rows = methods[method]["exceptions"].as_array().unwrap().iter();
        rows.map(|row| (number(row, "from"), row["to"].as_u64(), total(&row["times"]))).collect()
    };
    assert_eq!((ways("boom"), ways("call")), (vec![(13, None, 3)], vec![(9, Some(24), 3)]));
    let report = json(recording, &capture, &["report", "paths", "--cut", "--class", "Thr"]);
    let cuts = &by_method(&report["methods"], "method")["call"]["cuts"];
    let cut = &cuts[0];
    let found = (cuts.as_array().unwrap().len(), number(cut, "bci"), &cut["blocks"], total(&cut["times"]));
    assert_eq!(found, (1, 9, &serde_json::json!([0]), 3));
}

/// Native calls of `Nat`. What the paper's rule calls native is wrong for the three calls on null,
/// and for the four of `Math.abs` where a compiler has replaced them.
fn natives(recording: &RecordedRun, mode: EngineMode) {
    let report = json(recording, &recording.capture(), &["report", "natives", "--class", "Nat"]);
    let rows = by_method(&report["rows"], "method");
    let row = |name: &str| (total(&rows[name]["calls"]), total(&rows[name]["not_called"]));
    assert_eq!((row("freeMemory"), row("hashCode")), ((5, 0), (0, 3)));
    assert_eq!((total(&report["calls"]), total(&report["not_called"])), (5, 3));
    let intrinsic = if total(&report["silent"]) > 0 { 4 } else { 0 };
    assert!(mode == EngineMode::Tiered || intrinsic == 0, "{}", report["silent"]);
    assert_eq!((total(&report["silent"]), report["by_absence"].as_u64()), (intrinsic, Some(8 + intrinsic)));
}

/// Targets of the calls of `Poly`: for each site bci, calls, targets, misses and changes.
fn targets(recording: &RecordedRun) {
    let report = json(recording, &recording.capture(), &["report", "polymorphism", "--class", "Poly"]);
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap();
    let sites = report["sites"].as_array().unwrap().iter();
    let mut sites: Vec<_> = sites
        .map(|site| {
            let targets = site["targets"].as_array().unwrap().len();
            let figures = (number(site, "misses"), number(site, "changes"));
            (number(site, "bci"), total(&site["calls"]), targets, figures)
        })
        .collect();
    sites.sort_unstable();
    let expected = [(51, 12, 2, (9, 8)), (64, 12, 2, (2, 1)), (78, 12, 1, (1, 0)), (93, 1, 1, (1, 0))];
    assert_eq!(sites, expected);
    let totals = &report["totals"];
    assert_eq!(
        (number(totals, "callSites"), total(&totals["calls"]), number(totals, "targetMisses")),
        (4, 37, 13)
    );
    assert_eq!(totals["targetArity.bin"], serde_json::json!([2, 2, 0]));
    assert_eq!(totals["targetArityCalls.bin"], serde_json::json!([13, 24, 0]));
    let rate = |field: &str| (totals[field].as_f64().unwrap() * 1e4).round();
    assert_eq!((rate("targetPolyDensity"), rate("targetPolyDensityCalls")), (5000.0, 6486.0));
    assert_eq!(rate("targetCacheMissRate"), 3514.0);
}

/// The call trace of `Cas`, which is Casper's running example, and the block trace of the first
/// rounds of `Thr`.
fn sequences(recording: &RecordedRun) {
    let rows = |kind, class: &str| -> Vec<String> {
        let table = table(recording, kind, None).unwrap();
        let rows = table.lines().skip(1).map(|row| row.split('\t').collect::<Vec<_>>());
        let rows = rows.filter(|cells| cells[2] == class);
        rows.map(|cells| format!("{} {}@{}", cells[1], cells[3], cells[5])).collect()
    };
    let mut trace = rows(TableKind::Trace, "Cas");
    trace.retain(|token| !token.contains(" main@"));
    let expected = [
        "c main0@0",
        "r A@8", // c1 r2
        "c main0@14",
        "c B@4",
        "r C@8",
        "r B@13", // c2 c5 r4 r3
        "c main0@14",
        "c B@4",
        "r C@8",
        "r B@13", // c2 c5 r4 r3
        "c main0@23",
        "c E@4",
        "r C@8",
        "r E@13", // c3 c7 r4 r6
        "c main0@35",
        "r H@8",
        "r main0@38", // c4 r7 r1
    ];
    assert_eq!(trace, expected);
    let sites = std::fs::read_to_string(recording.file("call-trace").join("sites.tsv")).unwrap();
    let sites = sites.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let sites = sites.filter(|cells| cells[2] == "Cas" && cells[1] != "exit");
    let own = |cells: &Vec<&str>| !["main", "<init>", "<clinit>"].contains(&cells[4]);
    let (own, others): (Vec<_>, Vec<_>) = sites.partition(own);
    assert_eq!((own.len(), others.len()), (15, 5));

    let blocks = rows(TableKind::Blocks, "Thr");
    let expected = [
        "s main@",
        "b main@0",
        "b main@2",
        "b main@8",
        "s call@",
        "b call@0",
        "s boom@",
        "b boom@0",
        "b boom@6",
        "x boom@",
        "b call@24",
        "b call@34",
        "e call@",
        "b main@2",
        "b main@8",
        "s call@",
        "b call@0",
        "s boom@",
        "b boom@0",
        "b boom@14",
        "e boom@",
        "b call@34",
        "e call@",
    ];
    assert_eq!(blocks[..expected.len()], expected);
}

const EXACT: [&str; 2] = ["-XX:JPortalPrecision=exact", "-XX:-OmitStackTraceInFastThrow"];
const COMPILE: [&str; 2] = ["-Xcomp", "-XX:CompileCommand=quiet"];
const CLASSES: [&str; 9] = ["All", "Foo", "Fun", "Thr", "Cas", "Nat", "Poly*", "Rec", "Cb*"];

fn check(place: &Installation, mode: EngineMode, flags: &[&str]) {
    let recording = record(place, mode, flags);
    trees(&recording);
    trees_of_buckets(&recording);
    trees_by_full_names(&recording);
    paths(&recording);
    blocks(&recording);
    exceptions(&recording);
    natives(&recording, mode);
    targets(&recording);
    sequences(&recording);
}

/// Flags that compile the examples, and little else, at their first call.
fn compiled(which: &str) -> Vec<String> {
    let only = CLASSES.iter().chain(&["Pre"]).map(|c| format!("-XX:CompileCommand=compileonly,{c}::*"));
    let all = COMPILE.iter().chain(&EXACT).map(ToString::to_string);
    all.chain([which.to_owned()]).chain(only).collect()
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn in_the_interpreter() {
    let Some(place) = place::installed("in_the_interpreter") else { return };
    check(&place, EngineMode::Interpreter, &[]);
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn in_tiers() {
    let Some(place) = place::installed("in_tiers") else { return };
    check(&place, EngineMode::Tiered, &EXACT);
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn in_compiled_code() {
    let Some(place) = place::installed("in_compiled_code") else { return };
    for which in ["-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation"] {
        let flags = compiled(which);
        check(&place, EngineMode::Tiered, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Calls and bytecodes below a method of `Hello`, its own included: of the first node of that name.
fn below(tree: &Value, method: &str) -> (u64, u64) {
    let nodes = tree["nodes"].as_array().expect("nodes");
    let top = nodes.iter().position(|n| n["method"].as_str().is_some_and(|m| m.starts_with(method)));
    let top = top.unwrap_or_else(|| panic!("{method} was not entered"));
    // A node comes after its parent.
    let mut inside = BTreeSet::from([top as u64]);
    let (mut calls, mut bytecodes) = (0, total(&nodes[top]["bytecodes"]));
    for node in &nodes[top + 1..] {
        if node["parent"].as_u64().is_some_and(|p| inside.contains(&p)) {
            inside.insert(node["id"].as_u64().expect("an id"));
            calls += total(&node["invocations"]);
            bytecodes += total(&node["bytecodes"]);
        }
    }
    (calls, bytecodes)
}

/// The paper on JBInsTrace has 42,550 bytecodes for the program, and 160 calls and 2,660 bytecodes
/// for `println`, of another JDK.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn hello_world_is_counted() {
    let Some(place) = place::installed("hello_world_is_counted") else { return };
    let modes = [(EngineMode::Interpreter, &[][..]), (EngineMode::Tiered, &EXACT[..])];
    let counted = modes.map(|(mode, flags)| {
        let flags = flags.iter().map(ToString::to_string).collect();
        let plan = Plan { oracle: false, flags, ..Plan::new(mode) };
        let classes = place.programs.join("examples.jar");
        let arguments = ["-cp".to_owned(), classes.display().to_string(), "Hello".to_owned()];
        let recording = RecordedRun::command(&place, &arguments, &plan).expect("Hello is recorded");
        assert_eq!(recording.program.text(), "Hello, world!\n");
        let tree = json(&recording, &recording.capture(), &["report", "call-tree", "--thread", "main"]);
        assert_eq!(tree["exact"], true, "{}", tree["inexact"]);
        [below(&tree, "Hello.main("), below(&tree, "java.io.PrintStream.println(")]
    });
    let [main, println] = counted[0];
    figure(&format!(
        "hello\tmain {} bytecodes\tprintln {} calls, {} bytecodes",
        main.1, println.0, println.1
    ));
    assert_eq!(counted[0], counted[1], "the interpreter and the tiers differ");
    assert!((50..500).contains(&println.0) && (1_000..5_000).contains(&println.1), "{println:?}");
    assert!(main.1 >= println.1 + 4, "{main:?}");
}
