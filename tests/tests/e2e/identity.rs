// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Path markers at `default` precision do not change the machine code: it equals the unpatched
//! VM's.

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
        // Few nmethods may remain that were not compared.
        let aside = (result.alone.len() + result.varying.len()) as u64;
        assert!(aside * 20 < result.compared(), "{compilers}: {result}");
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
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

/// `exact` precision prevents folds. If the comparison did not detect that, it would prove
/// nothing.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn exact_precision_is_seen_to_change_code() {
    let Some(pair) = pair("exact_precision_is_seen_to_change_code", "javac", Size::Small) else { return };
    let run = |jdk, recording| {
        run::list(jdk, &pair.agent, &pair.arguments, Compilers::C1, recording, Addresses::Same).unwrap()
    };
    let references = [run(&pair.reference.jdk, pair.reference.recording)];
    let result = compare::listings(&references, &run(&pair.jdk, Recording::Exact));
    assert!(result.different.len() > 10, "{result}");
}
