// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Executes small programs of bytecodes and writes down their flow: the examples of the
//! specification, as javac 17 compiles them. Library classes have no events.

use hashbrown::HashMap;
use jportal_bytecode::testing::row;
use jportal_bytecode::{
    ExceptionRow, Instruction, InvokeRef, LineRow, Method, MethodTable, Opcode, Transfer,
};
use jportal_flow::{Entry, Event, EventKind, Exit, Tier};
use jportal_units::{Bci, MethodId};

/// Name, descriptor, whether it is static, code, line table, calls.
type Source<'a> =
    (&'a str, &'a str, bool, &'a [u8], &'a [(u16, u16)], &'a [(u16, &'a str, &'a str, &'a str)]);

fn program(class: &str, sources: &[Source<'_>], rows: &[(&str, ExceptionRow)]) -> MethodTable {
    let mut methods = MethodTable::default();
    for (name, signature, is_static, code, lines, calls) in sources {
        let line = |(bci, line): &(u16, u16)| LineRow { bci: Bci(*bci), line: *line };
        let call = |(bci, class, name, signature): &(u16, &str, &str, &str)| InvokeRef {
            bci: Bci(*bci),
            class_name: (*class).into(),
            name: (*name).into(),
            signature: (*signature).into(),
        };
        let rows = rows.iter().filter(|(method, _)| method == name).map(|(_, row)| row.clone());
        methods.push(Method {
            class_name: class.into(),
            loader: "app".into(),
            source_file: format!("{class}.java").into(),
            name: (*name).into(),
            signature: (*signature).into(),
            access_flags: if *is_static { 8 } else { 0 },
            code: (*code).into(),
            exceptions: rows.collect(),
            lines: lines.iter().map(line).collect(),
            invokes: calls.iter().map(call).collect(),
            ..Method::default()
        });
    }
    methods
}

const STATE: &str = "java/lang/IllegalStateException";
const INIT: Source<'_> =
    ("<init>", "()V", false, &[42, 183, 0, 1, 177], &[(0, 1)], &[(1, "java/lang/Object", "<init>", "()V")]);

/// E1: `<init>`, f, g, h, main.
pub(crate) fn foo() -> MethodTable {
    let f = [4, 60, 27, 16, 10, 163, 0, 18, 42, 182, 0, 7, 42, 27, 182, 0, 12, 132, 1, 1, 167, 255, 238, 177];
    let g = [4, 61, 28, 27, 163, 0, 13, 42, 182, 0, 7, 132, 2, 1, 167, 255, 244, 177];
    let main = [187, 0, 8, 89, 183, 0, 16, 182, 0, 17, 177];
    let sources: [Source<'_>; 5] = [
        INIT,
        ("f", "()V", false, &f, &[(0, 2)], &[(9, "Foo", "h", "()V"), (14, "Foo", "g", "(I)V")]),
        ("g", "(I)V", false, &g, &[(0, 3)], &[(8, "Foo", "h", "()V")]),
        ("h", "()V", false, &[177], &[(0, 4)], &[]),
        (
            "main",
            "([Ljava/lang/String;)V",
            true,
            &main,
            &[(0, 5)],
            &[(4, "Foo", "<init>", "()V"), (7, "Foo", "f", "()V")],
        ),
    ];
    program("Foo", &sources, &[])
}

/// E2: fun, main.
pub(crate) fn fun() -> MethodTable {
    let fun =
        [26, 153, 0, 10, 27, 4, 96, 60, 167, 0, 7, 27, 5, 100, 60, 27, 5, 112, 154, 0, 5, 4, 172, 3, 172];
    let main = [
        3, 60, 3, 61, 28, 16, 10, 162, 0, 30, 28, 6, 112, 154, 0, 7, 4, 167, 0, 4, 3, 28, 184, 0, 7, 153, 0,
        6, 132, 1, 1, 132, 2, 1, 167, 255, 226, 178, 0, 13, 27, 182, 0, 19, 177,
    ];
    let sources: [Source<'_>; 2] = [
        ("fun", "(ZI)Z", true, &fun, &[(0, 3), (15, 4)], &[]),
        (
            "main",
            "([Ljava/lang/String;)V",
            true,
            &main,
            &[(0, 7), (2, 8), (37, 9), (44, 10)],
            &[(22, "Fun", "fun", "(ZI)Z"), (41, "java/io/PrintStream", "println", "(I)V")],
        ),
    ];
    program("Fun", &sources, &[])
}

/// E3: boom, call, main.
pub(crate) fn thr() -> MethodTable {
    let boom = [26, 6, 112, 154, 0, 11, 187, 0, 7, 89, 183, 0, 9, 191, 178, 0, 10, 26, 96, 179, 0, 10, 177];
    let call = [
        178, 0, 10, 4, 96, 179, 0, 10, 26, 184, 0, 16, 178, 0, 10, 16, 10, 96, 179, 0, 10, 167, 0, 13, 76,
        178, 0, 10, 16, 100, 96, 179, 0, 10, 177,
    ];
    let main = [
        3, 60, 27, 16, 9, 162, 0, 13, 27, 184, 0, 20, 132, 1, 1, 167, 255, 243, 178, 0, 23, 178, 0, 10, 182,
        0, 29, 177,
    ];
    let sources: [Source<'_>; 3] = [
        ("boom", "(I)V", true, &boom, &[(0, 3)], &[(10, STATE, "<init>", "()V")]),
        ("call", "(I)V", true, &call, &[(0, 4)], &[(9, "Thr", "boom", "(I)V")]),
        (
            "main",
            "([Ljava/lang/String;)V",
            true,
            &main,
            &[(0, 5)],
            &[(9, "Thr", "call", "(I)V"), (24, "java/io/PrintStream", "println", "(I)V")],
        ),
    ];
    program("Thr", &sources, &[("call", row(0, 21, 24, Some(STATE)))])
}

/// E10: fail, prep, main.
pub(crate) fn pre() -> MethodTable {
    let fail = [187, 0, 7, 89, 183, 0, 9, 191];
    let prep = [178, 0, 10, 4, 96, 179, 0, 10, 184, 0, 16, 178, 0, 10, 4, 100, 179, 0, 10, 177];
    let main =
        [184, 0, 19, 167, 0, 12, 76, 178, 0, 10, 8, 96, 179, 0, 10, 178, 0, 22, 178, 0, 10, 182, 0, 28, 177];
    let sources: [Source<'_>; 3] = [
        ("fail", "()V", true, &fail, &[(0, 3)], &[(4, STATE, "<init>", "()V")]),
        ("prep", "()V", true, &prep, &[(0, 4)], &[(8, "Pre", "fail", "()V")]),
        (
            "main",
            "([Ljava/lang/String;)V",
            true,
            &main,
            &[(0, 5)],
            &[(0, "Pre", "prep", "()V"), (21, "java/io/PrintStream", "println", "(I)V")],
        ),
    ];
    program("Pre", &sources, &[("main", row(0, 3, 6, Some(STATE)))])
}

/// The flow of the method `main`, in single bytecodes, and what it printed.
pub(crate) fn run(methods: &MethodTable) -> (Vec<Event>, Vec<i32>) {
    let main = methods.iter().find(|m| &*m.name == "main").expect("main").id;
    let mut machine =
        PrintingMachine { methods, fields: HashMap::new(), events: Vec::new(), printed: Vec::new() };
    let ended = machine.call(main, vec![0], Entry::Upcall);
    assert_eq!(ended, Ok(None));
    (machine.events, machine.printed)
}

struct PrintingMachine<'a> {
    methods: &'a MethodTable,
    fields: HashMap<u16, i32>,
    events: Vec<Event>,
    printed: Vec<i32>,
}

struct OperandFrame<'a> {
    method: &'a Method,
    locals: [i32; 8],
    stack: Vec<i32>,
}

impl OperandFrame<'_> {
    fn pop(&mut self) -> i32 {
        self.stack.pop().expect("an operand")
    }
    fn pair(&mut self) -> (i32, i32) {
        let b = self.pop();
        (self.pop(), b)
    }
}

/// An exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thrown;

/// What follows an instruction.
enum Next {
    Fall,
    To(Bci),
    Return(Option<i32>),
}

impl<'a> PrintingMachine<'a> {
    fn event(&mut self, kind: EventKind) {
        self.events.push(Event::decoded(kind));
    }
    fn call(&mut self, id: MethodId, arguments: Vec<i32>, entry: Entry) -> Result<Option<i32>, Thrown> {
        let method = self.methods.get(id).expect("a method");
        let tier = Tier::Interpreter;
        self.event(EventKind::Enter { method: id, tier, entry });
        let mut frame = OperandFrame { method, locals: [0; 8], stack: Vec::new() };
        arguments.iter().enumerate().for_each(|(n, v)| frame.locals[n] = *v);
        let mut bci = Bci(0);
        loop {
            self.event(EventKind::Bytecode { method: id, bci, tier });
            let i = Instruction::at(&method.code, bci.0.into()).expect("an instruction");
            match self.step(&mut frame, &i) {
                Ok(Next::Fall) => bci = i.next(),
                Ok(Next::To(to)) => bci = to,
                Ok(Next::Return(value)) => {
                    self.event(EventKind::Leave { method: id, exit: Exit::Return });
                    return Ok(value);
                }
                Err(Thrown) => {
                    let row = method.exceptions.iter().find(|r| (r.start..r.end).contains(&bci));
                    let Some(row) = row else {
                        self.event(EventKind::Leave { method: id, exit: Exit::Unwind });
                        return Err(Thrown);
                    };
                    bci = row.handler;
                    frame.stack = vec![1];
                    self.event(EventKind::Catch { method: id, bci });
                }
            }
        }
    }
    fn step(&mut self, f: &mut OperandFrame<'a>, i: &Instruction<'_>) -> Result<Next, Thrown> {
        let at = usize::from(i.bci.0);
        let operand = |n: usize| f.method.code.get(at + n).copied().unwrap_or(0);
        let (one, two) = (operand(1), operand(2));
        let field = u16::from_be_bytes([one, two]);
        match i.opcode.transfer() {
            Transfer::Return if i.opcode == Opcode::RETURN => return Ok(Next::Return(None)),
            Transfer::Return => return Ok(Next::Return(Some(f.pop()))),
            Transfer::Throw => return Err(Thrown),
            Transfer::Goto => return Ok(Next::To(i.branch_target().unwrap().unwrap())),
            Transfer::If => return Ok(branch(f, i)),
            Transfer::Invoke => return self.invoke(f, i.bci).map(|()| Next::Fall),
            _ => {}
        }
        match i.opcode.0 {
            2..=8 => f.stack.push(i32::from(i.opcode.0) - 3),
            16 => f.stack.push((one as i8).into()),
            26..=29 | 42..=45 => f.stack.push(f.locals[usize::from((i.opcode.0 - 26) % 16)]),
            59..=62 | 75..=78 => {
                let local = usize::from((i.opcode.0 - 59) % 16);
                f.locals[local] = f.pop();
            }
            89 => f.stack.extend(f.stack.last().copied()),
            96 => binary(f, |a, b| a + b),
            100 => binary(f, |a, b| a - b),
            112 => binary(f, |a, b| a % b),
            132 => f.locals[usize::from(one)] += i32::from(two as i8),
            178 => f.stack.push(self.fields.get(&field).copied().unwrap_or(0)),
            179 => drop(self.fields.insert(field, f.pop())),
            187 => f.stack.push(1),
            other => panic!("opcode {other}"),
        }
        Ok(Next::Fall)
    }
    fn invoke(&mut self, f: &mut OperandFrame<'a>, bci: Bci) -> Result<(), Thrown> {
        let target = f.method.invoke_at(bci).expect("a callee");
        let callee = self.methods.iter().find(|m| {
            (&m.class_name, &m.name, &m.signature) == (&target.class_name, &target.name, &target.signature)
        });
        let inside = target.signature.trim_start_matches('(').split(')').next().unwrap();
        let is_static = f.method.code[usize::from(bci.0)] == 184;
        let mut arguments: Vec<i32> = inside.chars().map(|_| f.pop()).collect();
        arguments.extend((!is_static).then(|| f.pop()));
        arguments.reverse();
        match callee {
            Some(callee) => {
                let value = self.call(callee.id, arguments, Entry::Call)?;
                f.stack.extend(value);
            }
            None if &*target.name == "println" => self.printed.extend(arguments.last()),
            None => {}
        }
        Ok(())
    }
}

fn binary(f: &mut OperandFrame<'_>, of: impl Fn(i32, i32) -> i32) {
    let (a, b) = f.pair();
    f.stack.push(of(a, b));
}

fn branch(f: &mut OperandFrame<'_>, i: &Instruction<'_>) -> Next {
    let (a, b) = if i.opcode.0 < 159 { (f.pop(), 0) } else { f.pair() };
    let taken = match (i.opcode.0 - 153) % 6 {
        0 => a == b,
        1 => a != b,
        2 => a < b,
        3 => a >= b,
        4 => a > b,
        _ => a <= b,
    };
    if taken { Next::To(i.branch_target().unwrap().unwrap()) } else { Next::Fall }
}
