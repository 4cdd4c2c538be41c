// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Theorem 4.4, and the agreement of the methods of placing, on random programs.

mod support;

use jportal_bytecode::{Icfg, Node, Transfer};
use jportal_infer::project::backwards::Backwards;
use jportal_infer::project::nfa::Nfa;
use jportal_infer::project::paths::{Below, search};
use jportal_infer::project::{
    Anfa, Dfa, Enumerate, Extent, Fit, Guided, Indexed, Places, Project, Projected, Projection,
    ProjectionLimits, Work, abstraction,
};
use jportal_infer::segment::Ends;
use jportal_infer::{Outcome, Segment, Symbol};
use proptest::prelude::*;
use support::random::{RandomWalk, drafts, frames, is_edge, is_path_of, program, walk};

fn paths(fit: &Fit) -> Option<&Projection> {
    match fit {
        Fit::Paths(projection) => Some(projection),
        _ => None,
    }
}

/// The result without the ambiguous nodes: the node shown there depends on where the search
/// began.
fn told(fit: &Fit) -> Fit {
    let mut fit = fit.clone();
    if let Fit::Paths(found) = &mut fit {
        let several = found.ambiguous.iter().flat_map(|r| r.start as usize..r.end as usize);
        several.for_each(|at| found.nodes[at] = Node(u32::MAX));
    }
    fit
}

/// The number of paths of `segment` from `at` on, counted one by one.
fn count(g: &Icfg, segment: &Segment, index: usize, at: Node) -> u64 {
    let symbols = segment.symbols();
    if g.opcode(at) != symbols[index].opcode {
        return 0;
    }
    if index + 1 == symbols.len() {
        return 1;
    }
    let outcome = symbols[index].outcome;
    g.nodes().filter(|n| is_edge(g, at, outcome, *n)).map(|n| count(g, segment, index + 1, n)).sum()
}

/// A walk's segment, changed at one symbol if `change` is set.
fn changed(segment: Segment, change: Option<(usize, u8)>) -> Segment {
    let mut symbols = segment.symbols().to_vec();
    if let Some((at, opcode)) = change.filter(|_| !symbols.is_empty()) {
        let at = at % symbols.len();
        symbols[at] = Symbol::open(jportal_bytecode::Opcode(opcode));
    }
    Segment::new(symbols)
}

fn change() -> impl Strategy<Value = Option<(usize, u8)>> {
    let opcode = prop_oneof![Just(4u8), Just(26), Just(153), Just(172), Just(184), Just(167)];
    prop::option::of((any::<usize>(), opcode))
}

/// The search from every node, and [`Indexed`].
fn everywhere_and_indexed(g: &Icfg, segment: &Segment) -> (Projected, Projected) {
    let limits = ProjectionLimits { stacked: 100, ..ProjectionLimits::default() };
    let everywhere: Vec<Node> = g.nodes().collect();
    let mut work = Work::default();
    let fit = search(&Nfa::new(g), segment, (&everywhere, None), Below::Unknown, &limits, &mut work);
    (Projected { fit, work }, Indexed::new(g).project(segment, &limits))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Theorem 4.4: the concrete automaton accepts nothing that the abstract one rejects.
    #[test]
    fn acceptance_by_the_abstraction_is_necessary(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..40),
        hidden: u64,
        change in change(),
    ) {
        let g = program(&drafts);
        let segment = changed(walk(&g, &choices).segment(&g, 0, hidden), change);
        let (nfa, limits, mut work) = (Nfa::new(&g), ProjectionLimits::default(), Work::default());
        let mut dfa = Dfa::new(Anfa::new(nfa));
        let abstracted = abstraction(&segment);
        for start in g.nodes() {
            let matched = nfa.accepts(start, &segment, &limits, &mut work);
            let may = dfa.accepts(start, &abstracted, &limits, &mut work);
            prop_assert!(may == Some(true) || matched != Some(segment.len()));
        }
    }

    /// Algorithm 2 finds what Algorithm 1 finds, even with a cache that is emptied all the
    /// time.
    #[test]
    fn guided_finds_what_enumeration_finds(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..40),
        hidden: u64,
        change in change(),
        cached in prop_oneof![Just(3usize), Just(1 << 20)],
    ) {
        let g = program(&drafts);
        let segment = changed(walk(&g, &choices).segment(&g, 0, hidden), change);
        let limits = ProjectionLimits { cached, width: 1 << 20, ..ProjectionLimits::default() };
        for extent in [Extent::First, Extent::All] {
            let one = Enumerate::new(&g, extent).project(&segment, &limits);
            let two = Guided::new(&g, extent).project(&segment, &limits);
            match (&one.fit, &two.fit) {
                (Fit::Nowhere { matched: a }, Fit::Nowhere { matched: b }) => prop_assert!(b <= a),
                (a, b) => prop_assert_eq!(a, b),
            }
            prop_assert_eq!(one.work.accepted, two.work.accepted);
            prop_assert!(two.work.concrete_tested <= one.work.concrete_tested);
        }
    }

    /// The path shown fits the segment, and at certain symbols it agrees with the walk.
    #[test]
    fn the_walk_is_found(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..40),
        hidden: u64,
    ) {
        let g = program(&drafts);
        let walk = walk(&g, &choices);
        let segment = walk.segment(&g, 0, hidden);
        let found = Enumerate::new(&g, Extent::All).project(&segment, &ProjectionLimits::default());
        let found = paths(&found.fit).expect("the walk fits");
        prop_assert!(is_path_of(&g, &found.nodes, &segment));
        for index in 0..segment.len() {
            prop_assert!(!found.is_certain(index) || found.nodes[index] == walk.nodes[index], "symbol {index}");
        }
    }

    /// The number of paths is that of the paths counted one by one.
    #[test]
    fn paths_are_counted(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..9),
        hidden: u64,
    ) {
        let g = program(&drafts);
        let segment = walk(&g, &choices).segment(&g, 0, hidden);
        // `is_edge` does not check which frames an exception leaves, so it would count other
        // paths.
        prop_assume!(!segment.symbols().iter().any(|s| s.outcome == Outcome::Unwound));
        let found = Enumerate::new(&g, Extent::All).project(&segment, &ProjectionLimits::default());
        let one_by_one: u64 = g.nodes().map(|n| count(&g, &segment, 0, n)).sum();
        prop_assert_eq!(paths(&found.fit).map(|p| p.paths), Some(one_by_one));
    }

    /// A node precedes another one exactly if the other one succeeds it.
    #[test]
    fn backwards_is_forwards(drafts in drafts()) {
        let g = program(&drafts);
        let (nfa, places) = (Nfa::new(&g), Places::new(&g));
        let backwards = Backwards::new(nfa, &places);
        use Outcome::{NotTaken, Open, Returned, Taken, Thrown};
        for outcome in [Open, Taken, NotTaken, Thrown, Returned] {
            let (mut forth, mut back) = (Vec::new(), Vec::new());
            for n in g.nodes() {
                nfa.successors(n, outcome, None, &mut |to, _| forth.push((n, to)));
                for from in g.nodes() {
                    let symbol = Symbol::with(g.opcode(from), outcome);
                    backwards.predecessors(n, symbol, &mut |f| back.push((f, n)));
                }
            }
            for all in [&mut forth, &mut back] {
                all.sort_unstable();
                all.dedup();
            }
            prop_assert_eq!(forth, back);
        }
    }

    /// The index loses no path, and an anchor is enough.
    #[test]
    fn the_index_finds_what_the_search_from_everywhere_finds(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..60),
        hidden: u64,
        change in change(),
        anchor: Option<usize>,
    ) {
        let g = program(&drafts);
        let walk = walk(&g, &choices);
        let mut segment = changed(walk.segment(&g, 0, hidden), change);
        if let Some(index) = anchor.map(|a| a % walk.nodes.len()) {
            let node = walk.nodes[index];
            prop_assume!(segment.symbols()[index].opcode == g.opcode(node));
            segment.anchor(&g, index, g.method(node), g.bci(node)).unwrap();
        }
        let (all, found) = everywhere_and_indexed(&g, &segment);
        if all.work.forgotten + found.work.forgotten == 0 {
            prop_assert_eq!(told(&found.fit), told(&all.fit));
        }
    }

    /// A segment that is divided after returns to unknown frames has the same paths.
    #[test]
    fn what_is_divided_after_returns_loses_no_path(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..120),
        cut: usize,
        hidden: u64,
    ) {
        let g = program(&drafts);
        let walk = walk(&g, &choices);
        let segment = walk.segment(&g, cut % walk.nodes.len(), hidden);
        let limits = ProjectionLimits { stacked: 100, ..ProjectionLimits::default() };
        let whole = Indexed::new(&g).project(&segment, &limits);
        prop_assume!(whole.work.forgotten == 0);
        let whole = paths(&whole.fit).expect("the walk fits");
        let certain = |p: &Projection| (0..p.nodes.len()).map(|at| p.is_certain(at).then_some(p.nodes[at])).collect::<Vec<_>>();
        let (mut count, mut nodes, mut returned) = (1u64, Vec::new(), None);
        while nodes.len() < segment.len() {
            let mut part = Segment::new(segment.symbols()[nodes.len()..].to_vec());
            part.end(Ends { returned, ..Ends::default() });
            let found = Indexed::new(&g).project(&part, &ProjectionLimits { returns: 0, ..limits });
            prop_assume!(found.work.forgotten == 0);
            let front = match found.fit {
                Fit::Paths(all) => all,
                Fit::GivenUp { front: Some(front), resume } if resume == front.nodes.len() => front,
                other => panic!("{other:?}"),
            };
            count = count.saturating_mul(front.paths);
            returned = front.nodes.last().map(|n| g.method(*n));
            nodes.extend(certain(&front));
        }
        prop_assert_eq!((count, nodes), (whole.paths, certain(whole)));
    }

    /// Pairing calls with returns keeps the walk and excludes other paths.
    #[test]
    fn a_known_stack_constrains_returns(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..60),
        cut: usize,
        hidden: u64,
    ) {
        let g = program(&drafts);
        let walk = walk(&g, &choices);
        let cut = cut % walk.nodes.len();
        let stack = frames(&g, &walk.nodes[..=cut], &walk.outcomes);
        let segment = walk.segment(&g, cut, hidden);
        let limits = ProjectionLimits { stacked: 100, ..ProjectionLimits::default() };
        let (nfa, mut work) = (Nfa::new(&g), Work::default());
        let mut last = u64::MAX;
        for below in [Below::Unpaired, Below::Unknown, Below::Top(&stack), Below::Frames(&stack)] {
            let starts: Vec<Node> = g.nodes().collect();
            let fit = search(&nfa, &segment, (&starts, None), below, &limits, &mut work);
            let found = paths(&fit).expect("the walk fits");
            prop_assert!(is_path_of(&g, &found.nodes, &segment));
            for (index, node) in walk.nodes[cut..].iter().enumerate() {
                prop_assert!(!found.is_certain(index) || found.nodes[index] == *node, "{below:?}: symbol {index}");
            }
            if work.forgotten == 0 && !segment.symbols().iter().any(|s| s.throws()) {
                prop_assert!(found.paths <= last);
                last = found.paths;
            }
        }
    }

    /// No path is lost if the segment omits the bytecodes of calls but names the callees, and
    /// says after which call it begins. Certain symbols agree with the walk.
    #[test]
    fn calls_that_are_left_out_lose_no_path(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 2..80),
        cut: usize,
        hidden: u64,
        others: bool,
        width in 1..12usize,
    ) {
        let g = program(&drafts);
        let walk = walk(&g, &choices);
        let cut = cut % walk.nodes.len();
        let (segment, nodes) = without_visits(&g, &walk, cut, hidden);
        let (all, found) = everywhere_and_indexed(&g, &segment);
        if all.work.forgotten + found.work.forgotten == 0 {
            prop_assert_eq!(told(&found.fit), told(&all.fit));
        }
        // With a smaller width it may find nothing, but never only some of the paths.
        let limits = ProjectionLimits { width, stacked: 100, ..ProjectionLimits::default() };
        let narrow = Indexed::new(&g).project(&segment, &limits);
        if paths(&narrow.fit).is_some() && all.work.forgotten + narrow.work.forgotten == 0 {
            prop_assert_eq!(told(&narrow.fit), told(&all.fit));
        }
        let fits = paths(&found.fit).expect("the walk fits");
        for (index, node) in nodes.iter().enumerate() {
            prop_assert!(!fits.is_certain(index) || fits.nodes[index] == *node, "symbol {index}");
        }
        // A node that cannot call the named callee is not admitted.
        if let Some((at, method)) = segment.callees().first().filter(|_| others) {
            let at = *at as usize;
            prop_assert!(g.may_call_method(nodes[at], *method) && segment.admits(&g, at, nodes[at]));
            let uncallable = |n: &Node| g.opcode(*n) == g.opcode(nodes[at]) && !g.may_call_method(*n, *method);
            prop_assert!(g.nodes().filter(uncallable).all(|n| !segment.admits(&g, at, n)));
        }
    }
}

/// The walk from `cut` on, without the bytecodes between calls and their returns, and the nodes
/// that remain.
fn without_visits(g: &Icfg, walk: &RandomWalk, cut: usize, hidden: u64) -> (Segment, Vec<Node>) {
    let whole = walk.segment(g, cut, hidden);
    let mut symbols: Vec<Symbol> = Vec::new();
    let (mut nodes, mut callees) = (Vec::new(), Vec::new());
    // For each frame entered since: the index of its invoke.
    let mut calls: Vec<usize> = Vec::new();
    let mut after = None;
    for (index, node) in walk.nodes.iter().enumerate().skip(cut) {
        symbols.push(whole.symbols()[index - cut]);
        nodes.push(*node);
        let transfer = g.opcode(*node).transfer();
        let Some(next) = walk.nodes.get(index + 1) else { break };
        match (walk.outcomes[index], transfer) {
            // The bytecodes of frames that an exception leaves remain.
            (Outcome::Thrown | Outcome::Unwound, _) => calls.clear(),
            (_, Transfer::Invoke) if g.site_before(*next) != Some(*node) => calls.push(nodes.len() - 1),
            (_, Transfer::Return) => match calls.pop() {
                // A method that was called from outside is no callee of the site.
                Some(site) if !g.may_call_method(nodes[site], g.method(*node)) => calls.clear(),
                Some(site) => {
                    let callee = g.method(*node);
                    nodes.truncate(site + 1);
                    symbols.truncate(site + 1);
                    callees.retain(|(at, _)| *at < site);
                    callees.push((site, callee));
                    symbols[site].outcome = Outcome::Returned;
                }
                // The first frame returns: the rest begins after a call.
                None if callees.is_empty() && g.may_call_method(Node(next.0 - 1), g.method(*node)) => {
                    after = Some(g.method(*node));
                    nodes.clear();
                    symbols.clear();
                }
                None => {}
            },
            _ => {}
        }
    }
    let mut segment = Segment::new(symbols);
    callees.iter().for_each(|(at, callee)| segment.call(*at, *callee).unwrap());
    segment.end(Ends { after, ..Ends::default() });
    (segment, nodes)
}
