// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small programs for tests.
#![allow(dead_code)]

/// Random programs and random walks through them.
pub mod random;

pub use jportal_bytecode::testing::method;
use jportal_bytecode::testing::{calls, row};
use jportal_bytecode::{
    ByName, ExceptionRow, Icfg, InvokeRef, Method, MethodTable, Node, Opcode, Transfer, instructions,
};
use jportal_infer::{Outcome, Segment, Symbol};
use jportal_units::{Bci, MethodId};

/// Names the callees of the invokes of `m`, in order.
pub fn calling(mut m: Method, callees: &[&str]) -> Method {
    let sites = instructions(&m.code).flatten().filter(|i| i.opcode.transfer() == Transfer::Invoke);
    let invokes: Vec<InvokeRef> = sites.zip(callees).map(|(i, name)| calls(i.bci.0, "a/A", name)).collect();
    m.invokes = invokes.into();
    m
}

/// Adds an exception table row that catches every exception.
pub fn catching(mut m: Method, start: u16, end: u16, handler: u16) -> Method {
    m.exceptions = m.exceptions.iter().cloned().chain([row(start, end, handler, None)]).collect();
    m
}

/// `m` with rows that let other exceptions pass.
pub fn some(mut m: Method) -> Method {
    let named = |row: &ExceptionRow| ExceptionRow { catch_type: Some("a/E".into()), ..row.clone() };
    m.exceptions = m.exceptions.iter().map(named).collect();
    m
}

/// The graph of `methods`.
pub fn graph(methods: Vec<Method>) -> Icfg {
    let mut table = MethodTable::default();
    for m in methods {
        table.push(m);
    }
    Icfg::build(&table, &mut ByName::new(&table))
}

/// The nodes at `bcis` of `method`.
pub fn at(icfg: &Icfg, method: u32, bcis: &[u16]) -> Vec<Node> {
    bcis.iter().map(|b| icfg.node_at(MethodId(method), Bci(*b)).unwrap()).collect()
}

/// `fun` of the paper's Figure 2(b).
pub fn fun() -> Method {
    let code = [
        26, // 0: iload_0
        153, 0, 10, // 1: ifeq 11
        27, 4, 96, 60, // 4: iload_1, iconst_1, iadd, istore_1
        167, 0, 7, // 8: goto 15
        27, 5, 100, 60, // 11: iload_1, iconst_2, isub, istore_1
        27, 5, 112, // 15: iload_1, iconst_2, irem
        154, 0, 5, // 18: ifne 23
        4, 172, // 21: iconst_1, ireturn
        3, 172, // 23: iconst_0, ireturn
    ];
    method("fun", &code)
}

/// A segment of symbols without known outcomes.
pub fn open(opcodes: &[Opcode]) -> Segment {
    Segment::new(opcodes.iter().map(|o| Symbol::open(*o)).collect())
}

/// A symbol with an outcome.
pub fn sym(opcode: Opcode, outcome: Outcome) -> Symbol {
    Symbol::with(opcode, outcome)
}
