// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::Arc;

use jportal_bytecode::testing::{self, row};
use jportal_bytecode::{Method, MethodTable};
use jportal_flow::testing::{bytecode, enter, enter_as, feed, leave, leave_as};
use jportal_flow::{Entry, Event, EventKind, Exit};
use jportal_units::{Bci, MethodId};

use super::words::{CALLBACK, CAUGHT, ENTRY, IMPLICIT, IMPLICIT_END, LEFT};
use super::*;

const MAIN: u32 = 0;
const F: u32 = 1;
const G: u32 = 2;
const H: u32 = 3;
const INIT: u32 = 4;
const LIBRARY: u32 = 5;

fn method(class: &str, name: &str, code: &[u8]) -> Method {
    Method { class_name: class.into(), signature: "(I)I".into(), ..testing::method(name, code) }
}

/// `main`: 0 `invokestatic` f; 3 `iload_0`; 4 `ifeq` 10; 7 `invokestatic` g; 10 `iconst_0`; 11
/// `ireturn`, and a handler at 10 for 0. `f`: 0 `iload_0`; 1 `ifeq` 9; 4 `invokestatic` h; 7
/// `aconst_null`; 8 `athrow`; 9 `iconst_0`; 10 `ireturn`. `g`, `h` and the class initialiser
/// return. `L.l` is outside of the plan.
fn methods() -> MethodTable {
    let main = [184, 0, 1, 26, 153, 0, 6, 184, 0, 2, 3, 172];
    let f = [26, 153, 0, 8, 184, 0, 3, 1, 191, 3, 172];
    let leaf = [3, 172];
    let mut table = MethodTable::default();
    table.push(Method { exceptions: [row(0, 3, 10, None)].into(), ..method("a/A", "main", &main) });
    table.push(method("a/A", "f", &f));
    table.push(method("a/A", "g", &leaf));
    table.push(method("a/A", "h", &leaf));
    table.push(method("a/A", "<clinit>", &leaf));
    table.push(method("java/L", "l", &[184, 0, 1, 172]));
    table
}

/// Logged: both returns of which one follows `f`, the return of `f`, and that of `h`, which
/// stands for the call of `h`.
const PLAN: &str = "\
id\tkind\tclass\tmethod\tdescriptor\tbci\tline\topcode\tlogged\tchecked\ttargets
0\tcall\ta/A\tmain\t(I)I\t0\t1\t184\t0\t0\t6
1\tcall\ta/A\tmain\t(I)I\t7\t1\t184\t1\t0\t8
2\treturn\ta/A\tmain\t(I)I\t11\t1\t172\t1\t0\t
3\texit\ta/A\tmain\t(I)I\t\t\t\t\t\t
4\tcall\ta/A\tf\t(I)I\t4\t1\t184\t0\t0\t10
5\treturn\ta/A\tf\t(I)I\t10\t1\t172\t1\t0\t
6\texit\ta/A\tf\t(I)I\t\t\t\t\t\t
7\treturn\ta/A\tg\t(I)I\t1\t1\t172\t0\t0\t
8\texit\ta/A\tg\t(I)I\t\t\t\t\t\t
9\treturn\ta/A\th\t(I)I\t1\t1\t172\t1\t0\t
10\texit\ta/A\th\t(I)I\t\t\t\t\t\t
11\treturn\ta/A\t<clinit>\t(I)I\t1\t1\t172\t0\t0\t
12\texit\ta/A\t<clinit>\t(I)I\t\t\t\t\t\t
";

fn program(plan: &str) -> Arc<Program> {
    Arc::new(Program::new(Plan::read(plan.as_bytes()).unwrap(), &methods()))
}

/// The only thread's trace and tokens.
fn run(program: &Arc<Program>, events: &[Event]) -> (SiteTrace, Vec<u32>) {
    let mut full = traces(Arc::clone(program));
    feed(&mut full, 1, events);
    let mut few = witnesses(Arc::clone(program));
    feed(&mut few, 1, events);
    let (full, few) = (full.finish().remove(0), few.finish().remove(0));
    assert!(full.is_exact && few.is_exact);
    (full.of, few.of)
}

fn expanded(program: &Program, words: &[u32]) -> Result<SiteTrace, ExpandError> {
    expand(program, &FirstSets::new(program), words)
}

fn steps(method: u32, bcis: &[u16]) -> Vec<Event> {
    bcis.iter().map(|bci| bytecode(method, *bci)).collect()
}

fn leaf(method: u32, entry: Entry) -> Vec<Event> {
    [&[enter_as(method, entry)][..], &steps(method, &[0, 1]), &[leave(method)]].concat()
}

/// `f` returns at once, `main` calls what `callee` does, and returns.
fn plain(callee: &[Event]) -> Vec<Event> {
    [
        &[enter_as(MAIN, Entry::Upcall), bytecode(MAIN, 0), enter(F)][..],
        &steps(F, &[0, 1, 9, 10]),
        &[leave(F)],
        &steps(MAIN, &[3, 4, 7]),
        callee,
        &steps(MAIN, &[10, 11]),
        &[leave(MAIN)],
    ]
    .concat()
}

/// `f` calls `h` and throws, and `main` catches.
fn thrown() -> Vec<Event> {
    [
        &[enter_as(MAIN, Entry::Upcall), bytecode(MAIN, 0), enter(F)][..],
        &steps(F, &[0, 1, 4]),
        &leaf(H, Entry::Call),
        &steps(F, &[7, 8]),
        &[leave_as(F, Exit::Unwind)],
        &[Event::decoded(EventKind::Catch { method: MethodId(MAIN), bci: Bci(10) })],
        &steps(MAIN, &[10, 11]),
        &[leave(MAIN)],
    ]
    .concat()
}

#[test]
fn silent_sites_come_back() {
    let program = program(PLAN);
    assert_eq!(program.known(), 5);
    let (full, words) = run(&program, &plain(&leaf(G, Entry::Call)));
    assert_eq!((&full.main[..], full.initialisers.len()), (&[0, 5, 1, 7, 2][..], 0));
    assert_eq!(words, [ENTRY, 3, 5, 1, 2]);
    assert_eq!(expanded(&program, &words).unwrap(), full);
}

#[test]
fn an_exception_names_the_frames_that_it_leaves() {
    let program = program(PLAN);
    let (full, words) = run(&program, &thrown());
    assert_eq!(full.main, [0, 4, 9, 6, 2]);
    // Segments of `f`: its first block, the call, up to `athrow`. Of `main`: the call of `f` is
    // the first one; the handler is block 2.
    assert_eq!(words, [ENTRY, 3, 9, LEFT, 6, 2, 0, CAUGHT, 3, 0, 0, 2, 2]);
    assert_eq!(expanded(&program, &words).unwrap(), full);
    // Nobody catches: the thread ends.
    let mut events = thrown();
    let end = events.len() - 4;
    events.truncate(end);
    events.push(leave_as(MAIN, Exit::Unwind));
    let (full, words) = run(&program, &events);
    assert_eq!(full.main, [0, 4, 9, 6, 3]);
    assert_eq!(expanded(&program, &words).unwrap(), full);
}

#[test]
fn library_code_calls_back() {
    // The call at 7 may reach library code.
    let plan = PLAN.replace("184\t1\t0\t8\n", "184\t1\t1\t\n");
    let program = program(&plan);
    let library = |inside: &[Event]| {
        [&[enter(LIBRARY), bytecode(LIBRARY, 0)][..], inside, &[bytecode(LIBRARY, 3), leave(LIBRARY)]]
            .concat()
    };
    let calls = [leaf(H, Entry::Call), leaf(G, Entry::Upcall)].concat();
    let (full, words) = run(&program, &plain(&library(&calls)));
    assert_eq!(full.main, [0, 5, 1, 9, 7, 2]);
    assert_eq!(words, [ENTRY, 3, 5, 1, CALLBACK, 1, 10, 0, 9, CALLBACK, 1, 8, 0, 2]);
    assert_eq!(expanded(&program, &words).unwrap(), full);
    let (full, words) = run(&program, &plain(&library(&[])));
    assert_eq!(words, [ENTRY, 3, 5, 1, 2]);
    assert_eq!(expanded(&program, &words).unwrap(), full);
}

#[test]
fn a_call_that_has_returned_is_watched_no_longer() {
    // The call at 0 may reach library code, and does. What `main` calls then is no callback.
    let program = program(&PLAN.replace("184\t0\t0\t6\n", "184\t0\t1\t\n"));
    let events = [
        &[enter_as(MAIN, Entry::Upcall), bytecode(MAIN, 0), enter(LIBRARY), bytecode(LIBRARY, 3)][..],
        &[leave(LIBRARY)],
        &steps(MAIN, &[3, 4, 7]),
        &leaf(G, Entry::Call),
        &steps(MAIN, &[10, 11]),
        &[leave(MAIN)],
    ];
    let (full, words) = run(&program, &events.concat());
    assert_eq!(full.main, [0, 1, 7, 2]);
    assert_eq!(words, [ENTRY, 3, 1, 2]);
    assert_eq!(expanded(&program, &words).unwrap(), full);
}

#[test]
fn class_initialisers_stand_apart() {
    let program = program(PLAN);
    let callee = [leaf(INIT, Entry::Upcall), leaf(G, Entry::Call)].concat();
    let (full, words) = run(&program, &plain(&callee));
    assert_eq!((&full.main[..], &full.initialisers[..]), (&[0, 5, 1, 7, 2][..], &[vec![11]][..]));
    assert_eq!(words, [ENTRY, 3, 5, 1, IMPLICIT, 12, IMPLICIT_END, 2]);
    assert_eq!(expanded(&program, &words).unwrap(), full);
}

#[test]
fn each_planted_fault_is_found() {
    let program = program(PLAN);
    for events in [plain(&leaf(G, Entry::Call)), thrown()] {
        let (full, words) = run(&program, &events);
        for at in 2..words.len() {
            let mut dropped = words.clone();
            dropped.remove(at);
            let mut changed = words.clone();
            changed[at] ^= 1;
            let mut swapped = words.clone();
            swapped.swap(at - 1, at);
            for spoiled in [dropped, changed, swapped].iter().filter(|spoiled| **spoiled != words) {
                let differs = match expanded(&program, spoiled) {
                    Err(_) => true,
                    // A log that ends early is a prefix, and is known to be one.
                    Ok(trace) => trace.is_truncated || trace != full,
                };
                assert!(differs, "{words:?} and {spoiled:?}");
            }
        }
        let cut = expanded(&program, &words[..words.len() - 1]).unwrap();
        assert!(cut.is_truncated && full.main.starts_with(&cut.main));
        assert_eq!(cut.parts_from(&full), None);
    }
}

#[test]
fn traces_part_where_they_differ() {
    let of = |main: &[u32], initialisers: &[&[u32]]| SiteTrace {
        main: main.to_vec(),
        initialisers: initialisers.iter().map(|trace| trace.to_vec()).collect(),
        is_truncated: false,
    };
    let whole = of(&[1, 2, 3], &[&[4, 5]]);
    assert_eq!((whole.parts_from(&whole), whole.len(), whole.is_empty()), (None, 5, false));
    assert_eq!(of(&[1, 9, 3], &[&[4, 5]]).parts_from(&whole), Some((0, 1)));
    assert_eq!(of(&[1, 2, 3], &[&[4]]).parts_from(&whole), Some((1, 1)));
    assert_eq!(of(&[1, 2, 3], &[]).parts_from(&whole), Some((1, 0)));
    assert_eq!(of(&[1, 2, 3, 4], &[&[4, 5]]).parts_from(&whole), Some((0, 3)));
    assert_eq!(SiteTrace { is_truncated: true, ..of(&[1, 2], &[]) }.parts_from(&whole), None);
}

#[test]
fn plans_and_logs_that_cannot_be_read() {
    let said = |plan: &str| Plan::read(plan.as_bytes()).unwrap_err().to_string();
    assert!(said("id\tkind\n").starts_with("line 1 of the plan: there is no column \"class\""));
    assert!(
        said(&PLAN.replace("\t10\n5", "\tten\n5")).starts_with("line 6 of the plan: \"ten\" is no number")
    );
    assert!(said(&PLAN.replace("184\t1\t0", "184\t3\t0")).contains("\"3\" is not 0, 1 or 2"));
    let [unknown, cut] = [PLAN.replace("0\t0\t6\n", "0\t0\t60\n"), PLAN[..PLAN.len() - 32].to_owned()];
    assert!(said(&unknown).starts_with("line 2 of the plan: there is no method 60"), "{}", said(&unknown));
    assert!(said(&cut).contains("kind exit") || said(&cut).contains("missing"), "{}", said(&cut));
    let again = said(&PLAN.replace("a/A\tg\t", "a/A\tf\t"));
    assert!(again.starts_with("line 10 of the plan: a/A.f(I)I is there twice"), "{again}");
    let again = said(&PLAN.replace("9\treturn", "4\treturn"));
    assert!(again.starts_with("line 11 of the plan: an earlier line has the number 4"), "{again}");
    let joined = said(&PLAN.replace("6\texit\ta/A\tf\t(I)I\t\t\t\t\t\t\n", ""));
    assert!(joined.starts_with("line 8 of the plan: the method before it has no row"), "{joined}");
    let log = WordLog { tid: 7, number: 1, java_tid: 2, words: vec![1, 2, ENTRY] };
    let mut bytes = Vec::new();
    write_log(&log, &mut bytes).unwrap();
    assert_eq!(WordLog::read(&bytes[..]).unwrap(), log);
    // A mapped file is longer than its log.
    bytes.extend([0; 64]);
    assert_eq!(WordLog::read(&bytes[..]).unwrap(), log);
    assert!(matches!(WordLog::read(&bytes[..40]), Err(LogError::Length { said: 44, found: 40 })));
    assert!(matches!(WordLog::read(&bytes[..20]), Err(LogError::NoLog)));
    bytes[0] = 0;
    assert!(matches!(WordLog::read(&bytes[..]), Err(LogError::NoLog)));
}

#[test]
fn a_hostile_log_is_an_error() {
    let program = program(PLAN);
    for (words, expected) in [
        (vec![7], "does not begin with an entry"),
        (vec![ENTRY, 99], "the plan has no method 99"),
        (vec![ENTRY, 3, 7], "fits 0 of 2 ways"),
        (vec![ENTRY, 3, CALLBACK, 1, 99, 0], "the plan has no method 99"),
        ([IMPLICIT, 12].repeat(2000), "nested too deeply"),
    ] {
        let error = expanded(&program, &words).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // `g` calls itself, and nothing of it is logged.
    let circle = PLAN.replace("7\treturn\ta/A\tg\t(I)I\t1\t1\t172", "7\tcall\ta/A\tg\t(I)I\t0\t1\t184");
    let circle = circle.replace("184\t0\t0\t\n8\t", "184\t0\t0\t8\n8\t");
    let mut table = methods();
    table.push(method("a/B", "g", &[184, 0, 1, 167, 255, 253]));
    let plan = Plan::read(circle.replace("a/A\tg", "a/B\tg").as_bytes()).unwrap();
    let looping = Program::new(plan, &table);
    assert_eq!(looping.known(), 5);
    let error = expanded(&looping, &[ENTRY, 3, 5, 1, 2]).unwrap_err().to_string();
    assert!(error.contains("the plan logs no site of a circle through a.B.g"), "{error}");
    let error = expanded(&looping, &[ENTRY, 3, 5, 1, LEFT, 8, 0, u32::MAX]).unwrap_err().to_string();
    assert!(error.contains("has no end"), "{error}");
    let mut rng = fastrand::Rng::with_seed(1);
    let heads = [ENTRY, CALLBACK, LEFT, CAUGHT, IMPLICIT, IMPLICIT_END];
    for _ in 0..20_000 {
        let word = |rng: &mut fastrand::Rng| match rng.u8(..3) {
            0 => heads[rng.usize(..heads.len())],
            _ => rng.u32(..14),
        };
        let mut words = vec![ENTRY, 3];
        words.extend((0..rng.usize(..24)).map(|_| word(&mut rng)));
        // An error or a trace, but no panic.
        _ = expanded(&program, &words);
    }
}
