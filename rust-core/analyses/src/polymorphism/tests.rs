// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::Arc;

use fastrand::Rng;
use jportal_bytecode::{InvokeRef, Method, MethodTable, testing};
use jportal_flow::{Cause, Event, EventKind, Exclude};
use jportal_units::{Bci, MethodId};

use super::{Polymorphism, PolymorphismAnalysis, SiteRow};
use crate::hidden::Inlined;
use crate::names::Naming;
use crate::paths::examples::{LIBRARY, POLY, POLY_SUPERS};
use crate::paths::machine::{HeapMachine, table};
use crate::run_tests::in_runs;
use crate::testing::{bytecode, enter, feed, gap, leave, leave_as, method, recovered};
use jportal_flow::Exit;

fn report(methods: &Arc<MethodTable>, threads: &[&[Event]]) -> Polymorphism {
    let of = |threads: &[Vec<Event>]| {
        let mut analysis = PolymorphismAnalysis::new(Arc::clone(methods), Arc::default());
        (1..).zip(threads).for_each(|(tid, events)| feed(&mut analysis, tid, events));
        analysis.report(usize::MAX, |m| !m.class_name.starts_with("java/"))
    };
    let report = of(&threads.iter().map(|t| t.to_vec()).collect::<Vec<_>>());
    assert_eq!(report, of(&threads.iter().map(|t| in_runs(methods, t)).collect::<Vec<_>>()));
    report
}

fn at(report: &Polymorphism, bci: u16) -> &SiteRow {
    report.sites.iter().find(|s| s.bci == bci).unwrap()
}

#[test]
fn e6_poly() {
    let mut methods = table(&[POLY, LIBRARY]);
    number_classes(&mut methods);
    let methods = Arc::new(methods);
    let events = HeapMachine::new(&methods, POLY_SUPERS).run("Poly");
    let r = report(&methods, &[&events]);
    assert!(r.exact);
    let figures = |bci| {
        let s = at(&r, bci);
        let n = s.calls.total();
        (n, s.targets.len(), s.misses, s.changes, s.receivers_at_least, s.receiver_misses_at_least)
    };
    // The true number of receivers' classes at 51 and 64 is 3, with 12 and 3 misses.
    assert_eq!(figures(51), (12, 2, 9, 8, 2, 9));
    assert_eq!(figures(64), (12, 2, 2, 1, 2, 2));
    assert_eq!(figures(78), (12, 1, 1, 0, 1, 1));
    assert_eq!(figures(93), (1, 1, 1, 0, 1, 1));
    let t = &r.totals;
    assert_eq!((t.call_sites, t.calls.total(), t.sites_without_call), (4, 37, 0));
    assert_eq!((t.target_arity, t.target_arity_calls), ([2, 2, 0], [13, 24, 0]));
    assert_eq!(t.target_poly_density, Some(0.5));
    let is = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 0.000_05;
    assert!(is(t.target_poly_density_calls, 0.6486) && is(t.target_cache_miss_rate, 0.3514), "{t:?}");
    // main 404, <init> 4 times 3, a 40 + 8, tag 16 + 8.
    assert!(is(t.invoke_density, 37_000.0 / 488.0), "{t:?}");
    assert!(is(t.at_least.receiver_cache_miss_rate, 13.0 / 37.0), "at most the true 17 / 37");
    let s = at(&r, 51);
    assert_eq!((s.opcode, s.declared.as_deref(), s.line), ("invokeinterface", Some("Poly$S.a()I"), Some(10)));
    let targets: Vec<_> = s.targets.iter().map(|t| (t.method.as_deref().unwrap(), t.calls.decoded)).collect();
    assert_eq!(targets, [("Poly$P.a()I", 8), ("Poly$Q.a()I", 4)]);
    let text = r.text();
    let words = |l: &str| l.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    for line in [
        "12 2 9 ≥ 2 Poly.main([Ljava/lang/String;)V @51 line 10: invokeinterface Poly$S.a()I",
        "8 66.7% Poly$P.a()I",
        "targetCacheMissRate 0.3514",
        "receiverCacheMissRate ≥ 0.3514",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line} in {text}");
    }
    let json = serde_json::to_value(&r).unwrap();
    assert_eq!(json["totals"]["targetArity.bin"], serde_json::json!([2, 2, 0]));
    assert_eq!(
        (&json["totals"]["callSites"], &json["totals"]["targetPolyDensity"]),
        (&4.into(), &0.5.into())
    );
}

/// Gives each class a number of its own.
fn number_classes(methods: &mut MethodTable) {
    let mut names: Vec<Box<str>> = Vec::new();
    let mut numbered = MethodTable::default();
    for m in methods.iter() {
        let class = names.iter().position(|n| *n == m.class_name).unwrap_or(names.len());
        if class == names.len() {
            names.push(m.class_name.clone());
        }
        numbered.push(Method { class: class as u32, ..m.clone() });
    }
    *methods = numbered;
}

/// m0: 0 nop; 1 invokevirtual; 4 goto 0. m1 to m4: methods of different classes; m4 has the name
/// of m3.
fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    let invoke = InvokeRef { signature: "(I)I".into(), ..testing::calls(1, "a/A", "g") };
    t.push(Method { invokes: [invoke].into(), ..method("a/B", "f", &[0, 182, 0, 1, 167, 0xff, 0xfc]) });
    for (class, name) in [(1, "a/C"), (2, "a/D"), (3, "a/E"), (3, "a/E")] {
        t.push(Method { class, access_flags: 1, ..method(name, "g", &[177]) });
    }
    Arc::new(t)
}

/// Rounds of the loop, each with a call of a method, without a callee (0), or with an exception
/// in its place (9).
fn rounds(targets: &[u32]) -> Vec<Event> {
    let mut events = vec![enter(0)];
    for &target in targets {
        events.extend([bytecode(0, 0), bytecode(0, 1)]);
        match target {
            0 => {}
            9 => {
                let catch = EventKind::Catch { method: MethodId(0), bci: Bci(4) };
                events.push(Event::decoded(catch));
            }
            m => events.extend([enter(m), bytecode(m, 0), leave(m)]),
        }
        events.push(bytecode(0, 4));
    }
    events
}

#[test]
fn silent_calls_are_one_unknown_target_and_failed_calls_none() {
    let r = report(&methods(), &[&rounds(&[1, 0, 0, 1, 9, 2, 9])]);
    let s = &r.sites[0];
    assert_eq!((s.calls.total(), s.targets.len(), s.silent, s.not_called.total()), (5, 3, 2, 2));
    // 1, unknown, 1, 2
    assert_eq!((s.misses, s.changes, s.receivers_at_least, s.receiver_misses_at_least), (4, 3, 2, 2));
    assert_eq!((r.totals.target_arity, r.totals.silent, s.exact), ([0, 0, 1], 2, false));
    assert!(
        r.text().contains("(unknown: no frame)") && r.text().contains("2 did not happen, 2 without a frame")
    );
    let r = report(&methods(), &[&rounds(&[9])]);
    assert_eq!(
        (r.totals.call_sites, r.totals.sites_without_call, r.totals.target_poly_density),
        (0, 1, None)
    );
    let json = serde_json::to_value(&r).unwrap();
    assert!(json["totals"]["targetCacheMissRate"].is_null(), "nothing is not 0");
}

#[test]
fn misses_are_counted_in_each_thread() {
    let (a, b) = (rounds(&[1, 1, 2]), rounds(&[1, 2, 2]));
    let r = report(&methods(), &[&a, &b, &rounds(&[])]);
    assert_eq!((r.sites[0].calls.total(), r.sites[0].misses, r.sites[0].changes), (6, 4, 2));
    assert_eq!(r, report(&methods(), &[&b, &a]));
}

#[test]
fn versions_are_targets_of_their_own_unless_merged() {
    let flow = rounds(&[3, 4, 3]);
    assert_eq!((report(&methods(), &[&flow]).sites[0].targets.len()), 2);
    let naming = Naming { merge_versions: true, stable: false };
    let mut a = PolymorphismAnalysis::new(methods(), Arc::default()).naming(naming);
    feed(&mut a, 1, &flow);
    let s = a.report(1, |_| true).sites.remove(0);
    assert_eq!((s.targets.len(), s.misses, s.changes, s.calls.total()), (1, 1, 0, 3));
}

#[test]
fn what_is_not_known_is_said() {
    let lost = [rounds(&[1]), vec![bytecode(0, 0), bytecode(0, 1), gap(true)]].concat();
    let r = report(&methods(), &[&lost]);
    let s = &r.sites[0];
    assert_eq!((s.calls.total(), s.unknown.total(), s.exact, r.exact), (1, 1, false, false));
    assert!(r.text().contains("≥ 1") && r.text().contains("1 unknown"), "{}", r.text());
    // A stretch that may hide a call.
    let inlined = Inlined::new(&methods(), [(MethodId(0), Bci(1), MethodId(1))], true);
    let mut a = PolymorphismAnalysis::new(methods(), Arc::new(inlined));
    let (from, to, cause) = (Some(Bci(0)), Some(Bci(4)), Cause::ConditionalMove);
    let stretch = EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 };
    feed(&mut a, 1, &[enter(0), bytecode(0, 0), Event::decoded(stretch), bytecode(0, 4)]);
    let r = a.report(9, |_| true);
    assert_eq!((r.sites[0].calls.total(), r.sites[0].missing.calls.max.0, r.exact), (0, Some(1), false));
    // An exception from the caller of a frame that was recovered.
    let some = [enter(0), bytecode(0, 0), bytecode(0, 1), recovered(enter(1)), leave_as(1, Exit::Unwind)];
    let exclude = Exclude { recovered: true, ..Exclude::default() };
    let mut a = PolymorphismAnalysis::new(methods(), Arc::default()).excluding(exclude);
    feed(&mut a, 1, &some);
    assert_eq!(a.report(9, |_| true).totals.calls.total(), 0);
    let mut a = PolymorphismAnalysis::new(methods(), Arc::default());
    feed(&mut a, 1, &some);
    assert_eq!(a.report(9, |_| true).totals.calls.recovered, 1);
}

#[test]
fn invariants_of_random_flows() {
    let mut rng = Rng::with_seed(3);
    for _ in 0..300 {
        let targets: Vec<u32> =
            (0..rng.usize(..30)).map(|_| *rng.choice([0, 1, 1, 2, 3, 9].iter()).unwrap()).collect();
        let happened: Vec<u32> = targets.iter().copied().filter(|t| *t != 9).collect();
        let r = report(&methods(), &[&rounds(&targets)]);
        let Some(s) = r.sites.first() else {
            assert!(targets.is_empty());
            continue;
        };
        let misses = (0..happened.len()).filter(|i| *i == 0 || happened[*i] != happened[i - 1]).count();
        assert_eq!((s.calls.total(), s.misses), (happened.len() as u64, misses as u64));
        assert_eq!(s.targets.iter().map(|t| t.calls.total()).sum::<u64>(), s.calls.total());
        assert!(
            s.receivers_at_least <= s.targets.len().max(1) as u64 && s.receiver_misses_at_least <= s.misses
        );
        assert_eq!(r.totals.target_arity.iter().sum::<u64>(), r.totals.call_sites);
        assert_eq!(r.totals.target_arity_calls.iter().sum::<u64>(), r.totals.calls.total());
    }
}
