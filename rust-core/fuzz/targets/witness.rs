// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a plan and as a log of its tokens.
#![no_main]

use std::sync::LazyLock;

use jportal::export::witness::{FirstSets, Plan, Program, WordLog, expand, write_log};
use jportal::{Method, MethodTable};
use jportal_fuzz_targets::two_parts;
use libfuzzer_sys::fuzz_target;

/// `A.f` calls and returns, in a loop; `A.g` returns.
static METHODS: LazyLock<MethodTable> = LazyLock::new(|| {
    let mut table = MethodTable::default();
    for (name, code) in [("f", &[184, 0, 1, 26, 154, 255, 252, 3, 172][..]), ("g", &[3, 172])] {
        let names = |name: &str| (name.into(), "A".into(), "(I)I".into());
        let (name, class_name, signature) = names(name);
        table.push(Method { name, class_name, signature, code: code.into(), ..Method::default() });
    }
    table
});

fuzz_target!(|data: &[u8]| {
    let Some((plan, log)) = two_parts(data) else { return };
    let Ok(plan) = Plan::read(plan) else { return };
    let program = Program::new(plan, &METHODS);
    assert!(program.known() <= 2 && !program.name(0).is_empty());
    let words = match WordLog::read(log) {
        Ok(log) => {
            let mut bytes = Vec::new();
            write_log(&log, &mut bytes).unwrap();
            assert_eq!(WordLog::read(&bytes[..]).unwrap(), log);
            log.words
        }
        Err(_) => log.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect(),
    };
    let _ = expand(&program, &FirstSets::new(&program), &words);
});
