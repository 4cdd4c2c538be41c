// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Path markers of `default` precision leave the machine code alone: it is the unpatched VM's.

use jportal_tests::identity::compare;
use jportal_tests::identity::run::{self, Addresses, Compilers, Pair, Recording, Reference};
use jportal_tests::place;
use jportal_tests::programs::{self, Size};
use jportal_tests::skip;

fn pair(test: &str, program: &str, size: Size) -> Option<Pair> {
    let place = place::installed(test)?;
    let agent = place.programs.join("libsteadystart.so");
    if !agent.exists() {
        skip::skip(test, &format!("{} is missing; run tests/programs/build.sh", agent.display()));
        return None;
    }
    let program = programs::by_name(program).unwrap();
    if let Some(reason) = program.missing() {
        skip::skip(test, &reason);
        return None;
    }
    let arguments = program.command(&place.root, &place.programs, size);
    let reference = Reference::built(&place.root);
    println!("compared with {} {:?}", reference.jdk.display(), reference.recording);
    Some(Pair::new(reference, place.root.join("build/jdk"), agent, arguments).unwrap())
}

fn check(pair: &Pair) {
    for compilers in Compilers::ALL {
        let result = pair.compare(&mut Vec::new(), compilers, Recording::Marked).unwrap();
        println!("{compilers}: {result}");
        assert!(result.same(), "{compilers}: {:#?}", result.different);
        assert!(result.compared() > 200, "{compilers}: {result}");
        // What was not compared may not be much.
        let aside = (result.alone.len() + result.varying.len()) as u64;
        assert!(aside * 20 < result.compared(), "{compilers}: {result}");
    }
}

#[test]
fn default_precision_changes_no_code() {
    let Some(pair) = pair("default_precision_changes_no_code", "javac", Size::Small) else { return };
    check(&pair);
}

#[test]
#[ignore = "minutes; scripts/verify-all runs it"]
fn default_precision_changes_no_code_of_large_programs() {
    for program in ["h2", "javac"] {
        let test = "default_precision_changes_no_code_of_large_programs";
        let Some(pair) = pair(test, program, Size::Full) else { continue };
        check(&pair);
    }
}

/// `exact` refuses folds: were that not seen, the comparison would say nothing.
#[test]
fn exact_precision_is_seen_to_change_code() {
    let Some(pair) = pair("exact_precision_is_seen_to_change_code", "javac", Size::Small) else { return };
    let run = |jdk, recording| {
        run::list(jdk, &pair.agent, &pair.arguments, Compilers::C1, recording, Addresses::Same).unwrap()
    };
    let references = [run(&pair.reference.jdk, pair.reference.recording)];
    let result = compare::listings(&references, &run(&pair.jdk, Recording::Exact));
    assert!(result.different.len() > 10, "{result}");
}
