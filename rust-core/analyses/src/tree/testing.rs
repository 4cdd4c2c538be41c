// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A small interpreter that writes the flow of what it executes.

use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::{ExceptionRow, Instruction, InvokeRef, Method, MethodTable};
use jportal_flow::testing::{bytecode, enter_as, leave_as};
use jportal_flow::{Entry, Event, EventKind, Exit};
use jportal_units::{Bci, MethodId};

use super::{CallTree, Hide, Kind, Options, TreeAnalysis};
use crate::run_tests::in_runs;
use crate::select::is_application;
use crate::testing::feed;

/// A method `class.name` with a descriptor of ints and references. Each invoke is given as bci,
/// class, name and descriptor.
pub(super) fn method(
    (class, name, signature): (&str, &str, &str),
    code: &[u8],
    invokes: &[(u16, &str, &str, &str)],
) -> Method {
    let invoke = |&(bci, class, name, signature): &(u16, &str, &str, &str)| InvokeRef {
        bci: Bci(bci),
        class_name: class.into(),
        name: name.into(),
        signature: signature.into(),
    };
    Method {
        signature: signature.into(),
        invokes: invokes.iter().map(invoke).collect(),
        ..crate::testing::method(class, name, code)
    }
}

/// A method of the library that returns at once.
pub(super) fn library(class: &str, name: &str, signature: &str) -> Method {
    method((class, name, signature), &[177], &[])
}

pub(super) fn handler(start: u16, end: u16, handler: u16) -> Box<[ExceptionRow]> {
    [jportal_bytecode::testing::row(start, end, handler, Some("E"))].into()
}

pub(super) fn table(methods: Vec<Method>) -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    methods.into_iter().for_each(|m| {
        t.push(m);
    });
    Arc::new(t)
}

/// An exception is on its way.
struct PendingException;

struct FlowInterpreter<'m> {
    methods: &'m MethodTable,
    fields: HashMap<u16, i32>,
    events: Vec<Event>,
}

struct InterpretedActivation {
    locals: [i32; 8],
    stack: Vec<i32>,
    at: Bci,
}

/// What an instruction does to its activation.
enum InstructionEffect {
    At(Bci),
    Return(i32),
}

/// The flow of the last method of `methods`, called by the VM, and the last value of its field
/// number `field`.
pub(super) fn executed(methods: &MethodTable, field: u16) -> (Vec<Event>, i32) {
    let mut machine = FlowInterpreter { methods, fields: HashMap::new(), events: Vec::new() };
    let main = MethodId(methods.len() as u32 - 1);
    assert!(machine.call(main, &[0], Entry::Upcall).is_ok());
    (machine.events, machine.fields.get(&field).copied().unwrap_or(0))
}

/// The result of `iadd`, `isub` or `irem`.
fn computed(op: u8, a: i32, b: i32) -> i32 {
    match op {
        96 => a + b,
        100 => a - b,
        _ => a % b,
    }
}

impl FlowInterpreter<'_> {
    fn call(&mut self, id: MethodId, arguments: &[i32], entry: Entry) -> Result<i32, PendingException> {
        let method = self.methods.get(id).unwrap();
        let mut own = InterpretedActivation { locals: [0; 8], stack: Vec::new(), at: Bci(0) };
        own.locals[..arguments.len()].copy_from_slice(arguments);
        self.events.push(enter_as(id.get(), entry));
        loop {
            self.events.push(bytecode(id.get(), own.at.get()));
            match self.step(method, &mut own) {
                Ok(InstructionEffect::At(bci)) => own.at = bci,
                Ok(InstructionEffect::Return(value)) => {
                    self.events.push(leave_as(id.get(), Exit::Return));
                    return Ok(value);
                }
                Err(PendingException) => {
                    let covers = |e: &&ExceptionRow| (e.start..e.end).contains(&own.at);
                    let Some(row) = method.exceptions.iter().find(covers) else {
                        self.events.push(leave_as(id.get(), Exit::Unwind));
                        return Err(PendingException);
                    };
                    own.at = row.handler;
                    self.events.push(Event::decoded(EventKind::Catch { method: id, bci: own.at }));
                    own.stack = vec![0];
                }
            }
        }
    }
    fn step(
        &mut self,
        method: &Method,
        own: &mut InterpretedActivation,
    ) -> Result<InstructionEffect, PendingException> {
        let i = Instruction::at(&method.code, own.at.get().into()).unwrap();
        let operand = |n: u16| method.code.get(usize::from(own.at.get() + n)).copied().unwrap_or(0);
        let index = u16::from_be_bytes([operand(1), operand(2)]);
        let branch = |taken: bool| match taken {
            true => i.branch_target().unwrap().unwrap(),
            false => i.next(),
        };
        let stack = &mut own.stack;
        let mut pop = || stack.pop().unwrap();
        let mut next = i.next();
        match i.opcode.0 {
            2..=8 | 16 | 17 => stack.push(i.int_constant().unwrap()),
            op @ (26..=29 | 42..=45) => stack.push(own.locals[usize::from((op - 26) % 16)]),
            op @ (59..=62 | 75..=78) => own.locals[usize::from((op - 59) % 16)] = pop(),
            89 => stack.push(*stack.last().unwrap()),
            op @ (96 | 100 | 112) => {
                let (b, a) = (pop(), pop());
                stack.push(computed(op, a, b));
            }
            132 => own.locals[usize::from(operand(1))] += i32::from(operand(2) as i8),
            153 => next = branch(pop() == 0),
            154 => next = branch(pop() != 0),
            op @ (162 | 163) => {
                let (b, a) = (pop(), pop());
                next = branch(if op == 162 { a >= b } else { a > b });
            }
            167 => next = branch(true),
            172 => return Ok(InstructionEffect::Return(pop())),
            177 => return Ok(InstructionEffect::Return(0)),
            178 => stack.push(self.fields.get(&index).copied().unwrap_or(0)),
            179 => drop(self.fields.insert(index, pop())),
            187 => stack.push(0),
            191 => return Err(PendingException),
            182..=184 | 186 => self.invoke(method, own)?,
            op => panic!("the interpreter does not know opcode {op}"),
        }
        Ok(InstructionEffect::At(next))
    }
    fn invoke(&mut self, method: &Method, own: &mut InterpretedActivation) -> Result<(), PendingException> {
        let target = method.invoke_at(own.at).unwrap();
        let same = |m: &&Method| {
            (&m.class_name, &m.name, &m.signature) == (&target.class_name, &target.name, &target.signature)
        };
        let callee = self.methods.iter().find(same).unwrap();
        let (parameters, result) = callee.signature[1..].split_once(')').unwrap();
        let mut count = usize::from(matches!(method.code[usize::from(own.at.get())], 182 | 183));
        let mut rest = parameters;
        while let Some(first) = rest.chars().next() {
            rest = if first == 'L' { rest.split_once(';').unwrap().1 } else { &rest[1..] };
            count += 1;
        }
        let arguments = own.stack.split_off(own.stack.len() - count);
        let value = self.call(callee.id, &arguments, Entry::Call)?;
        own.stack.extend((result != "V").then_some(value));
        Ok(())
    }
}

/// The tree of one thread's events, given as single bytecodes. The tree of the same events in
/// runs is equal.
pub(super) fn tree_of(methods: &Arc<MethodTable>, events: &[Event], options: Options) -> CallTree {
    let tree = |events: &[Event]| {
        let mut analysis = TreeAnalysis::new(Arc::clone(methods), Arc::default(), options);
        if options.hide != Hide::Show {
            analysis = analysis.within(is_application);
        }
        feed(&mut analysis, 7, events);
        let tree = analysis.tree().unwrap();
        assert_eq!(analysis.exactness().unwrap(), (tree.exact, tree.inexact.clone()));
        tree
    };
    let single = tree(events);
    assert_eq!(tree(&in_runs(methods, events)), single);
    single
}

/// The lines `name invocations/bytecodes`, indented by depth, without descriptors. Of nodes that
/// are not exact, `name ≥ invocations/bytecodes`.
pub(super) fn lines(tree: &CallTree) -> Vec<String> {
    let mut depths: Vec<usize> = Vec::new();
    let mut all = Vec::new();
    for n in &tree.nodes {
        let depth = n.parent.map_or(0, |p| depths[p as usize] + 1);
        depths.push(depth);
        if n.kind != Kind::Root {
            let name = n.method.split('(').find(|s| !s.is_empty()).unwrap().trim_end_matches(')');
            let least = if n.exact { "" } else { "≥ " };
            let (invocations, bytecodes) = (n.invocations.total(), n.bytecodes.total());
            all.push(format!("{:1$}{name} {least}{invocations}/{bytecodes}", "", depth - 1));
        }
    }
    all
}
