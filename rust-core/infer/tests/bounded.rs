// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Time and memory are bounded for any input.

mod support;

use jportal_bytecode::{Icfg, Node, Opcode};
use jportal_infer::fill::{
    Basic, Captured, Choose, Expected, FillWork, Follower, Gap, Hole, Learned, Parameters, SegmentId,
    Settings, Tiered, Walker, recover,
};
use jportal_infer::project::paths::Below;
use jportal_infer::project::{Enumerate, Extent, Fit, Guided, Indexed, Project, ProjectionLimits};
use jportal_infer::segment::Ends;
use jportal_infer::{Outcome, Segment, Symbol};
use jportal_units::MethodId;
use support::{calling, catching, graph, method, open, some, sym};

/// A loop in each of `count` methods: 0 iload_0; 1 ifeq 9; 4 iload_1, nop; 6 goto 0; 9 return.
fn loops(count: usize) -> Icfg {
    let code = [26, 153, 0, 8, 27, 0, 167, 0xff, 0xfa, 177];
    graph((0..count).map(|i| method(&format!("f{i}"), &code)).collect())
}

fn rounds(count: usize) -> Segment {
    let mut round =
        [Opcode::ILOAD_0, Opcode::IFEQ, Opcode::ILOAD_1, Opcode::NOP, Opcode::GOTO].map(Symbol::open);
    round[1].outcome = Outcome::NotTaken;
    Segment::new(round.into_iter().cycle().take(5 * count).collect())
}

#[test]
fn a_segment_that_fits_everywhere_is_counted() {
    let g = loops(20_000);
    let found = Indexed::new(&g).project(&open(&[Opcode::NOP]), &ProjectionLimits::default());
    let Fit::Paths(paths) = found.fit else { panic!() };
    assert_eq!((paths.paths, paths.is_certain(0)), (20_000, false));
    let found = Indexed::new(&g).project(&rounds(20), &ProjectionLimits::default());
    let Fit::Paths(paths) = found.fit else { panic!() };
    assert_eq!((paths.paths, paths.nodes.len()), (20_000, 100));
    // Twenty thousand paths of five hundred symbols are more than the limits allow.
    assert!(matches!(
        Indexed::new(&g).project(&rounds(100), &ProjectionLimits::default()).fit,
        Fit::GivenUp { .. }
    ));
}

#[test]
fn limits_end_a_search_that_is_too_wide() {
    let g = loops(20_000);
    let few = ProjectionLimits { transitions: 100_000, ..ProjectionLimits::default() };
    for p in [
        &mut Enumerate::new(&g, Extent::All) as &mut dyn Project,
        &mut Guided::new(&g, Extent::All),
        &mut Indexed::new(&g),
    ] {
        let found = p.project(&rounds(100), &few);
        assert!(matches!(found.fit, Fit::GivenUp { .. }));
        let spent = found.work.transitions + found.work.abstract_transitions;
        assert!(spent < 100_000 + 40_000, "{spent}");
    }
    let narrow = ProjectionLimits { width: 1000, ..ProjectionLimits::default() };
    assert!(matches!(Indexed::new(&g).project(&rounds(100), &narrow).fit, Fit::GivenUp { .. }));
}

/// `count` methods, each called by the next, which may catch its exception: 0 invokestatic; 3
/// aconst_null; 4 athrow; 5 astore_0; 6 return. On average an exception may reach half of the
/// handlers.
#[test]
fn exceptions_that_may_get_everywhere_meet_the_limits() {
    let count = 2_000;
    let chain = (0..count).map(|i| {
        let throws = method(&format!("f{i}"), &[184, 0, 1, 1, 191, 75, 177]);
        some(catching(calling(throws, &[&format!("f{}", (i + count - 1) % count)]), 0, 3, 5))
    });
    let g = graph(chain.collect());
    let thrown = [
        Symbol::open(Opcode::ACONST_NULL),
        sym(Opcode::ATHROW, Outcome::Unwound),
        Symbol::open(Opcode::ASTORE_0),
        Symbol::open(Opcode::RETURN),
    ];
    let limits = ProjectionLimits {
        transitions: 500_000,
        cached: 1 << 16,
        width: 1 << 12,
        ..ProjectionLimits::default()
    };
    for p in [&mut Enumerate::new(&g, Extent::All) as &mut dyn Project, &mut Indexed::new(&g)] {
        let found = p.project(&Segment::new(thrown.to_vec()), &limits);
        assert!(matches!(found.fit, Fit::GivenUp { .. }));
        assert!(found.work.transitions < 510_000, "{}", found.work.transitions);
    }
    // With enough transitions, the search ends at the limit on what is kept, long before it has
    // examined everything.
    let found = Indexed::new(&g)
        .project(&Segment::new(thrown.to_vec()), &ProjectionLimits { transitions: 1 << 40, ..limits });
    assert!(matches!(found.fit, Fit::GivenUp { .. }));
    assert!(found.work.transitions < 1_000_000, "{}", found.work.transitions);
}

/// A search that becomes too wide reports the part before, where there is only one path.
#[test]
fn where_a_search_gives_up_its_begin_may_be_known() {
    // main and 3000 other methods call f. Its return may lead to the code after any of these
    // calls, which is the same everywhere.
    let callers = (0..3_000).map(|i| calling(method(&format!("c{i}"), &[184, 0, 1, 4, 87, 177]), &["f"]));
    let main = calling(method("main", &[16, 7, 87, 184, 0, 1, 4, 87, 177]), &["f"]);
    let g = graph([main, method("f", &[3, 87, 177])].into_iter().chain(callers).collect());
    // The segment begins in f and continues after one of the calls; the symbols do not say
    // which.
    let open = |all: &[Opcode]| Segment::new(all.iter().map(|o| Symbol::open(*o)).collect());
    let segment = open(&[Opcode::ICONST_0, Opcode::POP, Opcode::RETURN, Opcode::ICONST_1, Opcode::POP]);
    let narrow = ProjectionLimits { width: 100, cached: 100, ..ProjectionLimits::default() };
    let fit = Indexed::new(&g).project(&segment, &narrow).fit;
    let Fit::GivenUp { front: Some(front), resume: 3 } = &fit else { panic!("{fit:?}") };
    assert_eq!((front.paths, front.nodes.len()), (1, 3));
    // With a limit on returns, the search does not examine the places after the calls.
    let few = ProjectionLimits { returns: 16, ..ProjectionLimits::default() };
    let found = Indexed::new(&g).project(&segment, &few);
    assert_eq!(found.fit, fit);
    assert!(found.work.transitions < 10, "{}", found.work.transitions);
    let Fit::Paths(paths) = Indexed::new(&g).project(&segment, &ProjectionLimits::default()).fit else {
        panic!()
    };
    assert_eq!(paths.paths, 3_001);
    // The part after the return has the same number of places when it is alone.
    let mut rest = open(&[Opcode::ICONST_1, Opcode::POP]);
    rest.end(Ends { returned: Some(MethodId(1)), ..Ends::default() });
    let Fit::Paths(paths) = Indexed::new(&g).project(&rest, &few).fit else { panic!() };
    assert_eq!(paths.paths, 3_001);
}

/// A loop of a method that has a copy: two paths, however long the loop runs.
#[test]
fn copies_of_a_method_are_distinguished_nowhere() {
    // 0 iconst_0; 1 pop; 2 goto 0
    let g = graph(["f", "g"].map(|name| method(name, &[3, 87, 167, 0xff, 0xfe])).to_vec());
    let round = [Opcode::ICONST_0, Opcode::POP, Opcode::GOTO].map(Symbol::open);
    let segment = Segment::new(round.repeat(20_000));
    let limits = ProjectionLimits { cached: 1 << 15, width: 1 << 14, ..ProjectionLimits::default() };
    let Fit::Paths(paths) = Indexed::new(&g).project(&segment, &limits).fit else { panic!() };
    assert_eq!((paths.paths, paths.nodes.len(), paths.is_certain(59_999)), (2, 60_000, false));
    // The front part ends where the limit on transitions was reached.
    let few = ProjectionLimits { transitions: 50_000, ..limits };
    let Fit::GivenUp { front: Some(front), resume } = Indexed::new(&g).project(&segment, &few).fit else {
        panic!()
    };
    assert_eq!((front.paths, front.nodes.len()), (2, resume));
    assert!(resume > 10_000);
}

#[test]
fn ten_thousand_tiny_segments() {
    let g = loops(2_000);
    let mut indexed = Indexed::new(&g);
    let mut transitions = 0;
    for i in 0..10_000 {
        let all = rounds(2);
        let (from, len) = (i % 5, 1 + i % 3);
        let tiny = Segment::new(all.symbols()[from..from + len].to_vec());
        let found = indexed.project(&tiny, &ProjectionLimits::default());
        let Fit::Paths(paths) = found.fit else { panic!() };
        assert_eq!(paths.paths, 2_000);
        transitions += found.work.transitions;
    }
    // Two transitions for each place.
    assert!(transitions <= 10_000 * 2_000 * 2, "{transitions}");
}

/// Two methods that differ only in their last instruction: a loop stays ambiguous until it is
/// left.
#[test]
fn a_long_segment_is_settled_where_its_paths_meet() {
    let code = |last: u8| [26, 153, 0, 8, 27, 0, 167, 0xff, 0xfa, 3, last];
    let main = calling(method("main", &[184, 0, 1, 167, 0xff, 0xfd]), &["f"]);
    let g = graph(vec![main, method("f", &code(172)), method("g", &code(173))]);
    let mut symbols = rounds(3_000).symbols().to_vec();
    let leave = [
        Symbol::open(Opcode::ILOAD_0),
        sym(Opcode::IFEQ, Outcome::Taken),
        Symbol::open(Opcode::ICONST_0),
        Symbol::open(Opcode::IRETURN),
        Symbol::open(Opcode::GOTO),
        Symbol::open(Opcode::INVOKESTATIC),
    ];
    symbols.extend(leave);
    let once = symbols.clone();
    symbols.extend_from_slice(&once);
    symbols.extend_from_slice(&once);
    let len = symbols.len();
    for p in [&mut Enumerate::new(&g, Extent::All) as &mut dyn Project, &mut Indexed::new(&g)] {
        let Fit::Paths(paths) = p.project(&Segment::new(symbols.clone()), &ProjectionLimits::default()).fit
        else {
            panic!()
        };
        assert_eq!((paths.nodes.len(), paths.paths, paths.ambiguous.len()), (len, 1, 0));
        assert!(paths.nodes.iter().all(|n| g.method(*n).0 < 2));
    }
    // Without the end, the segment does not distinguish the two methods.
    let open_end = Segment::new(rounds(3_000).symbols().to_vec());
    let Fit::Paths(paths) = Indexed::new(&g).project(&open_end, &ProjectionLimits::default()).fit else {
        panic!()
    };
    assert_eq!((paths.paths, paths.ambiguous.len(), paths.ambiguous[0].clone()), (2, 1, 0..15_000));
}

/// Only tiny segments of one loop: each fits after every other.
#[test]
fn ten_thousand_tiny_segments_are_recovered_or_not() {
    let g = loops(1);
    let all: Vec<Node> = [0, 1, 2, 3, 4].map(Node).into_iter().cycle().take(60_000).collect();
    let mut captured = Captured::default();
    let push =
        |(at, nodes): (usize, &[Node])| captured.push(&g, &nodes[..3], &[(0, 60 * at as u64)]).unwrap();
    let ids: Vec<SegmentId> = all.chunks(6).enumerate().map(push).collect();
    let hole = |w: &[SegmentId]| Hole { before: w[0], after: w[1], time: Some(30) };
    let holes: Vec<Hole> = ids.windows(2).map(hole).collect();
    let parameters = Parameters { anchors: 1, join: 1, ..Parameters::default() };
    for choose in [&Basic as &dyn Choose, &Tiered] {
        let found = recover(&captured, &holes, choose, Some(&Walker::new(&g)), &parameters);
        assert_eq!(found.len(), 9_999);
        let sum = |of: fn(&FillWork) -> u64| found.iter().map(|f| of(&f.work)).sum::<u64>();
        let (compared, visited) = (sum(|w| w.instructions.iter().sum()), sum(|w| w.visited));
        assert!(compared <= 9_999 * 20_000 && visited <= 9_999 * 10, "{compared}, {visited}");
    }
    let expected = Some(Expected { instructions: 3.0, slack: 0.0 });
    let gap = |h: &Hole| Gap {
        hole: *h,
        before: Below::Unknown,
        entered: None,
        after: Below::Unknown,
        sure: (1.0, 1.0),
        expected,
    };
    let gaps: Vec<Gap<'_>> = holes.iter().map(gap).collect();
    let found =
        Follower::new(&g, &captured, &Learned::new(&g, &captured), Settings::default()).recover(&gaps);
    assert!(found.iter().all(|f| f.0.is_some()));
    let read: u64 = found.iter().map(|f| f.1.read + f.1.visited).sum();
    assert!((1..=9_999 * 5).contains(&read), "{read}");
}
