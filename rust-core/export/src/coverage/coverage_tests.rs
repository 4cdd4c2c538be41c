// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The files for other tools.

use std::io::{self, Write};
use std::sync::Arc;

use jportal_analyses::coverage::{Coverage, CoverageAnalysis, CoverageOptions};
use jportal_bytecode::testing::{BRANCHY, method, row};
use jportal_bytecode::{LineRow, Method, MethodTable};
use jportal_flow::testing::{bytecode, enter, feed, gap, leave, leave_as};
use jportal_flow::{Cause, Event, EventKind, Exit};
use jportal_units::{Bci, MethodId};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event as XmlEvent};

use super::*;
use crate::Error;

/// m0 `f` and m1 `g` are [`BRANCHY`] with lines 10, 11 and 12; m2 `<init>` is a constructor on line
/// 10; m3 is a method of another class that catches its exception: 0 `iconst_0`; 1 `athrow`;
/// 2 `pop`; 3 `return`, on line 20; m4 is in a class without a source file.
fn methods() -> MethodTable {
    let line = |bci, line| LineRow { bci: Bci(bci), line };
    let branchy = |name| Method {
        class_name: "a/b/Foo".into(),
        signature: "(I)I".into(),
        source_file: "Foo.java".into(),
        lines: [line(0, 10), line(4, 11), line(8, 12)].into(),
        ..method(name, BRANCHY)
    };
    let mut t = MethodTable::default();
    t.push(branchy("f"));
    t.push(branchy("g"));
    t.push(Method {
        class_name: "a/b/Foo".into(),
        source_file: "Foo.java".into(),
        lines: [line(0, 10)].into(),
        ..method("<init>", &[177])
    });
    t.push(Method {
        class_name: "a/b/Foo$In".into(),
        source_file: "Foo.java".into(),
        lines: [line(0, 20)].into(),
        exceptions: [row(0, 2, 2, None)].into(),
        ..method("c", &[3, 191, 87, 177])
    });
    t.push(Method { class_name: "Hid".into(), source_file: "".into(), ..method("h\u{1b}<&\"", &[177]) });
    t
}

fn coverage_of(events: &[Event]) -> Coverage {
    let mut analysis = CoverageAnalysis::new(Arc::new(methods()), Arc::default());
    feed(&mut analysis, 1, events);
    analysis.report_with(CoverageOptions { counts: true, ..CoverageOptions::default() }, |_| true)
}

/// f twice: once either way; `<init>` three times; c once, with its exception.
fn executed() -> Vec<Event> {
    let start = [enter(0), bytecode(0, 0), bytecode(0, 1)];
    let init = [enter(2), bytecode(2, 0), leave(2)];
    let catch = Event::decoded(EventKind::Catch { method: MethodId(3), bci: Bci(2) });
    let caught = [enter(3), bytecode(3, 0), bytecode(3, 1), catch, bytecode(3, 2), bytecode(3, 3), leave(3)];
    let left = [bytecode(0, 4), bytecode(0, 5), bytecode(0, 9), leave(0)];
    let right = [bytecode(0, 8), leave_as(0, Exit::Unwind)];
    [&start[..], &left, &start, &right, &init, &init, &init, &caught].concat()
}

/// f with an unresolved stretch across its diamond, and nothing else.
fn with_unknown() -> Vec<Event> {
    let (from, to) = (Some(Bci(1)), Some(Bci(9)));
    let (method, cause) = (MethodId(0), Cause::ConditionalMove);
    let stretch = Event::decoded(EventKind::Unresolved { method, from, to, cause, callers: 0 });
    vec![enter(0), bytecode(0, 0), bytecode(0, 1), stretch, bytecode(0, 9), leave(0)]
}

fn written(write: impl Fn(&mut dyn Write) -> Result<(), Error>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn lcov(coverage: &Coverage) -> String {
    written(|out| write_lcov(coverage, LcovOptions { test: "my test", prefix: "src/" }, out))
}

fn jacoco(coverage: &Coverage) -> String {
    written(|out| write_jacoco(coverage, JacocoOptions { name: "n" }, out))
}

fn cobertura(coverage: &Coverage) -> String {
    let options = CoberturaOptions { sources: &["src"], timestamp: 5, version: "1" };
    written(|out| write_cobertura(coverage, options, out))
}

#[test]
fn lcov_lists_functions_ways_and_lines() {
    let text = lcov(&coverage_of(&executed()));
    let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "TN:my_test",
            "SF:src/a/b/Foo.java",
            "FN:10,a.b.Foo.<init>()V",
            "FN:10,a.b.Foo.f(I)I",
            "FN:10,a.b.Foo.g(I)I",
            "FN:20,a.b.Foo$In.c()V",
            "FNDA:3,a.b.Foo.<init>()V",
            "FNDA:2,a.b.Foo.f(I)I",
            "FNDA:0,a.b.Foo.g(I)I",
            "FNDA:1,a.b.Foo$In.c()V",
            "FNF:4",
            "FNH:3",
            "BRDA:10,0,0,1",
            "BRDA:10,0,1,1",
            "BRDA:10,1,0,-",
            "BRDA:10,1,1,-",
            "BRF:4",
            "BRH:2",
            "DA:10,3",
            "DA:11,1",
            "DA:12,1",
            "DA:20,1",
            "LF:4",
            "LH:4",
            "end_of_record"
        ]
    );
    assert!(text.contains("# Classes without a source file, which are left out: 1.\n"), "{text}");
}

#[test]
fn lcov_leaves_out_what_is_unknown() {
    let text = lcov(&coverage_of(&with_unknown()));
    let lines: Vec<_> = text.lines().filter(|l| l.starts_with("DA") || l.starts_with("BR")).collect();
    // Line 12 has the bytecode 9, which was seen. Line 11 is unknown in f and missed in g.
    let expected = ["BRDA:10,1,0,-", "BRDA:10,1,1,-", "BRF:2", "BRH:0", "DA:10,1", "DA:12,1", "DA:20,0"];
    assert_eq!(lines, expected);
    assert!(text.contains("\nLF:3\nLH:2\n"), "{text}");
    let left_out = "# Left out, because it is unknown whether they were executed (lines: 1, branch ways: 2, bytecodes: 3).";
    assert!(text.contains(left_out) && text.contains("# The coverage is not exact"), "{text}");
}

#[test]
fn each_file_says_that_trace_was_lost() {
    let coverage = coverage_of(&[enter(0), bytecode(0, 0), gap(true)]);
    for text in [lcov(&coverage), jacoco(&coverage), cobertura(&coverage)] {
        assert!(text.contains("Trace was lost"), "{text}");
    }
}

/// An element's attributes that must be there, those that may be, and its children in order: each
/// stage is any number of elements of these names.
struct Rule {
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
    children: &'static [&'static [&'static str]],
}

const fn rule(
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
    children: &'static [&'static [&'static str]],
) -> Rule {
    Rule { name, required, optional, children }
}

/// JaCoCo's `report.dtd`.
const JACOCO: [Rule; 7] = [
    rule("report", &["name"], &[], &[&["sessioninfo"], &["package"], &["counter"]]),
    rule("package", &["name"], &[], &[&["class", "sourcefile"], &["counter"]]),
    rule("class", &["name"], &["sourcefilename"], &[&["method"], &["counter"]]),
    rule("method", &["name", "desc"], &["line"], &[&["counter"]]),
    rule("sourcefile", &["name"], &[], &[&["line"], &["counter"]]),
    rule("line", &["nr"], &["mi", "ci", "mb", "cb"], &[]),
    rule("counter", &["type", "missed", "covered"], &[], &[]),
];

const RATES: [&str; 3] = ["line-rate", "branch-rate", "complexity"];

/// Cobertura's `coverage-04.dtd`.
const COBERTURA: [Rule; 12] = [
    rule(
        "coverage",
        &[
            RATES[0],
            RATES[1],
            RATES[2],
            "lines-covered",
            "lines-valid",
            "branches-covered",
            "branches-valid",
            "version",
            "timestamp",
        ],
        &[],
        &[&["sources"], &["packages"]],
    ),
    rule("sources", &[], &[], &[&["source"]]),
    rule("source", &[], &[], &[]),
    rule("packages", &[], &[], &[&["package"]]),
    rule("package", &["name", RATES[0], RATES[1], RATES[2]], &[], &[&["classes"]]),
    rule("classes", &[], &[], &[&["class"]]),
    rule("class", &["name", "filename", RATES[0], RATES[1], RATES[2]], &[], &[&["methods"], &["lines"]]),
    rule("methods", &[], &[], &[&["method"]]),
    rule("method", &["name", "signature", RATES[0], RATES[1], RATES[2]], &[], &[&["lines"]]),
    rule("lines", &[], &[], &[&["line"]]),
    rule("line", &["number", "hits"], &["branch", "condition-coverage"], &[&["conditions"]]),
    rule("conditions", &[], &[], &[&["condition"]]),
];

const CONDITION: Rule = rule("condition", &["number", "type", "coverage"], &[], &[]);

/// Panics if the document does not follow the rules. Returns its elements: path and attributes.
fn checked(text: &str, rules: &[Rule]) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<(&Rule, usize)> = Vec::new();
    let mut all = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            XmlEvent::Start(e) => {
                let rule = child(&e, rules, open.last_mut());
                let attributes = attributes_of(&e, rule);
                open.push((rule, 0));
                all.push((open.iter().map(|(r, _)| r.name).collect::<Vec<_>>().join("/"), attributes));
            }
            XmlEvent::End(_) => drop(open.pop()),
            XmlEvent::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty());
    all
}

fn child<'r>(e: &BytesStart<'_>, rules: &'r [Rule], parent: Option<&mut (&Rule, usize)>) -> &'r Rule {
    let name = String::from_utf8(e.name().as_ref().to_vec()).unwrap();
    if let Some((rule, stage)) = parent {
        let next = rule.children.iter().skip(*stage).position(|names| names.contains(&&*name));
        *stage += next.unwrap_or_else(|| panic!("{name} may not be there in {}", rule.name));
    }
    rules.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no element is called {name}"))
}

fn attributes_of(e: &BytesStart<'_>, rule: &Rule) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let all: Vec<_> = e.attributes().map(|a| a.unwrap()).collect();
    let all: Vec<_> =
        all.iter().map(|a| (text(a.key.as_ref()), a.unescape_value().unwrap().into_owned())).collect();
    let has = |name: &str| all.iter().any(|(n, _)| n == name);
    assert!(rule.required.iter().all(|name| has(name)), "{}: {all:?}", rule.name);
    let known = |name: &str| rule.required.contains(&name) || rule.optional.contains(&name);
    assert!(all.iter().all(|(n, _)| known(n)), "{}: {all:?}", rule.name);
    all
}

/// The attributes of the elements of a path, as `a=1 b=2`.
fn found(all: &[(String, Vec<(String, String)>)], path: &str) -> Vec<String> {
    let one = |(_, a): &(String, Vec<(String, String)>)| {
        a.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    all.iter().filter(|(p, _)| p == path).map(one).collect()
}

#[test]
fn jacoco_report_follows_its_dtd() {
    let text = jacoco(&coverage_of(&executed()));
    let all = checked(&text, &JACOCO);
    assert!(text.contains(r#"<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd">"#));
    let lines = found(&all, "report/package/sourcefile/line");
    // Line 10 is in f, g and <init>.
    assert_eq!(
        lines,
        [
            "nr=10 mi=2 ci=3 mb=2 cb=2",
            "nr=11 mi=2 ci=2 mb=0 cb=0",
            "nr=12 mi=2 ci=2 mb=0 cb=0",
            "nr=20 mi=0 ci=4 mb=0 cb=0"
        ]
    );
    let counters = found(&all, "report/package/class/counter");
    assert_eq!(
        counters[3..9],
        [
            // Hid, in the unnamed package, has four counters and no line.
            "type=CLASS missed=1 covered=0",
            "type=INSTRUCTION missed=6 covered=7",
            "type=BRANCH missed=2 covered=2",
            "type=LINE missed=0 covered=3",
            "type=COMPLEXITY missed=2 covered=3",
            "type=METHOD missed=1 covered=2"
        ][..]
            .iter()
            .map(|s| s.to_string())
            .collect::<Vec<_>>()[..]
    );
    let methods = found(&all, "report/package/class/method");
    assert!(methods.contains(&"name=h\\x1b<&\" desc=()V".to_owned()), "{methods:?}");
    assert!(methods.contains(&"name=f desc=(I)I line=10".to_owned()), "{methods:?}");
    let total = found(&all, "report/counter");
    assert_eq!(total[0], "type=INSTRUCTION missed=7 covered=11");
    assert_eq!(total.last().unwrap(), "type=CLASS missed=1 covered=2");
}

#[test]
fn jacoco_counts_nothing_that_is_unknown() {
    let all = checked(&jacoco(&coverage_of(&with_unknown())), &JACOCO);
    // f: 3 of 6 instructions are seen and 3 unknown. Line 11 is unknown in f.
    let lines = found(&all, "report/package/sourcefile/line");
    assert_eq!(lines[0], "nr=10 mi=3 ci=2 mb=2 cb=0");
    assert_eq!(lines[1], "nr=12 mi=2 ci=1 mb=0 cb=0");
    let f = found(&all, "report/package/class/method/counter");
    assert!(f.contains(&"type=INSTRUCTION missed=0 covered=3".to_owned()), "{f:?}");
}

#[test]
fn cobertura_report_follows_its_dtd() {
    let rules: Vec<Rule> = COBERTURA.into_iter().chain([CONDITION]).collect();
    for events in [executed(), with_unknown()] {
        checked(&cobertura(&coverage_of(&events)), &rules);
    }
    let all = checked(&cobertura(&coverage_of(&executed())), &rules);
    let total = &found(&all, "coverage")[0];
    assert!(
        total.starts_with("line-rate=1.0000 branch-rate=0.5000 complexity=1.40 lines-covered=4"),
        "{total}"
    );
    let classes = found(&all, "coverage/packages/package/classes/class");
    assert!(classes[1].starts_with("name=a.b.Foo filename=a/b/Foo.java line-rate=1.0000"), "{classes:?}");
    let lines = found(&all, "coverage/packages/package/classes/class/lines/line");
    assert_eq!(lines[0], "number=10 hits=3 branch=true condition-coverage=50% (2/4)");
    let conditions = found(&all, "coverage/packages/package/classes/class/lines/line/conditions/condition");
    assert_eq!(conditions, ["number=0 type=jump coverage=100%", "number=1 type=jump coverage=0%"]);
}

#[test]
fn counts_are_needed_and_failures_are_passed_on() {
    let mut analysis = CoverageAnalysis::new(Arc::new(methods()), Arc::default());
    feed(&mut analysis, 1, &executed());
    let brief = analysis.report(|_| true);
    let error = write_jacoco(&brief, JacocoOptions::default(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("has no counts of lines"), "{error}");

    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let coverage = coverage_of(&executed());
    let failed = [
        write_lcov(&coverage, LcovOptions::default(), &mut Full),
        write_jacoco(&coverage, JacocoOptions::default(), &mut Full),
        write_cobertura(&coverage, CoberturaOptions::default(), &mut Full),
    ];
    assert!(failed.iter().all(|r| matches!(r, Err(Error::Write(_)))), "{failed:?}");
}
