// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exceptions in segments.

mod support;

use jportal_bytecode::{Icfg, Opcode};
use jportal_infer::project::{Enumerate, Extent, Fit, Guided, Indexed, Project, ProjectionLimits};
use jportal_infer::{Outcome, Segment, Symbol};
use support::{at, calling, catching, graph, method, open, sym};

/// main calls f, f calls g, g throws, main catches; h throws and catches; so do k and l, whose
/// handler has another constant.
fn program() -> Icfg {
    let main = calling(method("main", &[184, 0, 1, 177, 75, 177]), &["f"]);
    let divides =
        |name: &str, constant: u8| catching(method(name, &[3, 108, 177, 75, constant, 177]), 1, 2, 3);
    graph(vec![
        catching(main, 0, 3, 4),
        calling(method("f", &[184, 0, 1, 177]), &["g"]),
        method("g", &[1, 191]),
        divides("h", 8),
        divides("k", 7),
        divides("l", 7),
    ])
}

#[test]
fn an_exception_leaves_frames_on_its_way_to_a_handler() {
    let g = program();
    let symbols = [
        Symbol::open(Opcode::INVOKESTATIC),
        Symbol::open(Opcode::INVOKESTATIC),
        Symbol::open(Opcode::ACONST_NULL),
        sym(Opcode::ATHROW, Outcome::Unwound),
        Symbol::open(Opcode::ASTORE_0),
        Symbol::open(Opcode::RETURN),
    ];
    let segment = Segment::new(symbols.to_vec());
    let expected = [at(&g, 0, &[0]), at(&g, 1, &[0]), at(&g, 2, &[0, 1]), at(&g, 0, &[4, 5])].concat();
    let mut all: [Box<dyn Project>; 3] = [
        Box::new(Enumerate::new(&g, Extent::All)),
        Box::new(Guided::new(&g, Extent::All)),
        Box::new(Indexed::new(&g)),
    ];
    for p in &mut all {
        let Fit::Paths(found) = p.project(&segment, &ProjectionLimits::default()).fit else { panic!() };
        assert_eq!((&found.nodes, found.paths), (&expected, 1));
    }
}

#[test]
fn the_index_knows_where_handlers_begin() {
    let g = program();
    let symbols = [
        sym(Opcode::IDIV, Outcome::Thrown),
        Symbol::open(Opcode::ASTORE_0),
        Symbol::open(Opcode::ICONST_5),
        Symbol::open(Opcode::RETURN),
    ];
    let found = Indexed::new(&g).project(&Segment::new(symbols.to_vec()), &ProjectionLimits::default());
    let Fit::Paths(paths) = &found.fit else { panic!() };
    // One that the index names, and one from which the search begins.
    assert_eq!((&paths.nodes, found.work.candidates), (&at(&g, 3, &[1, 3, 4, 5]), 2));
}

#[test]
fn what_fits_nowhere_says_how_far_it_got() {
    let g = program();
    let segment = open(&[Opcode::ICONST_0, Opcode::IDIV, Opcode::RETURN, Opcode::RETURN, Opcode::RETURN]);
    for p in [&mut Enumerate::new(&g, Extent::All) as &mut dyn Project, &mut Indexed::new(&g)] {
        assert_eq!(p.project(&segment, &ProjectionLimits::default()).fit, Fit::Nowhere { matched: 3 });
    }
    let empty = Segment::default();
    assert_eq!(
        Indexed::new(&g).project(&empty, &ProjectionLimits::default()).fit,
        Fit::Nowhere { matched: 0 }
    );
}
