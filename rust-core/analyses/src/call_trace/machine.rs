// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small programs of the specification, and an interpreter of the opcodes that they use.

use jportal_bytecode::testing::{calls, row};
use jportal_bytecode::{Instruction, InvokeRef, Method, MethodTable};
use jportal_flow::{Entry, Event, EventKind, Exit};
use jportal_units::{Bci, MethodId};

use crate::testing::{bytecode, enter_as, leave, leave_as, method};

/// Executes methods of one `int` parameter and one static field, and records the flow.
#[derive(Default)]
pub(super) struct IntMachine {
    pub(super) methods: MethodTable,
    pub(super) events: Vec<Event>,
    pub(super) field: i32,
    pub(super) array: Vec<i32>,
}

impl IntMachine {
    fn push(&mut self, m: Method) -> u32 {
        self.methods.push(m).get()
    }
    fn target(&self, m: &Method, bci: Bci) -> (u32, usize) {
        let call = m.invoke_at(bci).unwrap();
        let is = |t: &&Method| (&t.name, &t.class_name) == (&call.name, &call.class_name);
        let target = self.methods.iter().find(is).unwrap();
        (target.id.get(), call.signature.matches('I').count() + usize::from(!target.is_static()))
    }
    /// Whether the method returned.
    pub(super) fn call(&mut self, id: u32, args: &[i32], entry: Entry) -> bool {
        let m = self.methods.get(MethodId(id)).unwrap().clone();
        let mut locals = [args, &[0; 4]].concat();
        let (mut stack, mut at) = (Vec::new(), 0);
        self.events.push(enter_as(id, entry));
        loop {
            let i = Instruction::at(&m.code, at).unwrap();
            self.events.push(bytecode(id, at as u16));
            let mut to = i.next();
            let mut throws = false;
            let operand = m.code.get(at + 1).copied().unwrap_or(0);
            match i.opcode.0 {
                op @ 2..=8 => stack.push(i32::from(op) - 3),
                16 => stack.push(operand.into()),
                op @ 26..=29 => stack.push(locals[usize::from(op) - 26]),
                op @ 42..=45 => stack.push(locals[usize::from(op) - 42]),
                46 => {
                    let index = stack.pop().unwrap();
                    stack.pop();
                    stack.push(self.array[index as usize]);
                }
                op @ (59..=62 | 75..=78) => {
                    locals[usize::from((op - 59) % 16)] = stack.pop().unwrap();
                }
                89 => stack.push(*stack.last().unwrap()),
                op @ (96 | 112) => {
                    let (b, a) = (stack.pop().unwrap(), stack.pop().unwrap());
                    stack.push(if op == 96 { a + b } else { a % b });
                }
                132 => locals[usize::from(operand)] += i32::from(m.code[at + 2]),
                op @ 153..=158 => {
                    let a = stack.pop().unwrap();
                    let taken = [a == 0, a != 0, a < 0, a >= 0, a > 0, a <= 0][usize::from(op) - 153];
                    to = if taken { i.branch_target().unwrap().unwrap() } else { to };
                }
                op @ (161 | 162) => {
                    let (b, a) = (stack.pop().unwrap(), stack.pop().unwrap());
                    let taken = (a < b) == (op == 161);
                    to = if taken { i.branch_target().unwrap().unwrap() } else { to };
                }
                167 => to = i.branch_target().unwrap().unwrap(),
                172..=177 => {
                    self.events.push(leave(id));
                    return true;
                }
                178 => stack.push(self.field),
                179 => self.field = stack.pop().unwrap(),
                183 | 184 => {
                    let (target, args) = self.target(&m, i.bci);
                    let args = stack.split_off(stack.len() - args);
                    throws = !self.call(target, &args, Entry::Call);
                }
                187 => stack.push(0),
                190 => {
                    stack.pop();
                    stack.push(self.array.len() as i32);
                }
                191 => throws = true,
                op => panic!("opcode {op}"),
            }
            if throws {
                let Some(handler) = m.exceptions.iter().find(|r| (r.start..r.end).contains(&i.bci)) else {
                    self.events.push(leave_as(id, Exit::Unwind));
                    return false;
                };
                stack = vec![0];
                to = handler.handler;
                self.events.push(Event::decoded(EventKind::Catch { method: MethodId(id), bci: to }));
            }
            at = to.get().into();
        }
    }
}

fn calls_i(bci: u16, class: &str, name: &str) -> InvokeRef {
    InvokeRef { signature: "(I)V".into(), ..calls(bci, class, name) }
}

/// `Cas` of Casper's Figure 2, as javac compiles it; the first method is `main0`.
pub(super) fn cas() -> IntMachine {
    let mut m = IntMachine { array: vec![1, 1, 0], ..IntMachine::default() };
    let call = |bci, name| calls_i(bci, "Cas", name);
    let none = |bci, name| calls(bci, "Cas", name);
    let main0 = [
        184, 0, 1, 3, 60, 42, 27, 46, 153, 0, 12, 42, 27, 46, 184, 0, 2, 167, 0, 9, 42, 27, 46, 184, 0, 3,
        132, 1, 1, 27, 42, 190, 161, 255, 229, 184, 0, 4, 177,
    ];
    let sites = [none(0, "A"), call(14, "B"), call(23, "E"), none(35, "H")];
    m.push(Method { invokes: sites.into(), ..method("Cas", "main0", &main0) });
    let add = |n: u8| [178, 0, 5, 3 + n, 96, 179, 0, 5, 177];
    m.push(method("Cas", "A", &add(1)));
    let choose = |op: u8| [26, op, 0, 9, 184, 0, 6, 167, 0, 6, 184, 0, 7, 177];
    let two = || Box::new([none(4, "C"), none(10, "D")]);
    m.push(Method { invokes: two(), ..method("Cas", "B", &choose(158)) });
    m.push(method("Cas", "C", &add(2)));
    m.push(method("Cas", "D", &add(3)));
    m.push(Method { invokes: two(), ..method("Cas", "E", &choose(154)) });
    m.push(method("Cas", "H", &add(4)));
    m
}

/// `Thr`; the methods are `main`, `call`, `boom` and the exception's constructor.
pub(super) fn thr() -> IntMachine {
    let mut m = IntMachine::default();
    let main = [3, 60, 27, 16, 9, 162, 0, 13, 27, 184, 0, 1, 132, 1, 1, 167, 255, 243, 177];
    m.push(Method { invokes: Box::new([calls_i(9, "Thr", "call")]), ..method("Thr", "main", &main) });
    let call = [
        178, 0, 1, 4, 96, 179, 0, 1, 26, 184, 0, 2, 178, 0, 1, 16, 10, 96, 179, 0, 1, 167, 0, 13, 76, 178, 0,
        1, 16, 100, 96, 179, 0, 1, 177,
    ];
    let catch = Box::new([row(0, 21, 24, Some("java/lang/IllegalStateException"))]);
    let invokes = Box::new([calls_i(9, "Thr", "boom")]);
    m.push(Method { invokes, exceptions: catch, ..method("Thr", "call", &call) });
    let boom = [26, 6, 112, 154, 0, 11, 187, 0, 1, 89, 183, 0, 2, 191, 178, 0, 3, 26, 96, 179, 0, 3, 177];
    let invokes = Box::new([calls(10, "java/lang/IllegalStateException", "<init>")]);
    m.push(Method { invokes, ..method("Thr", "boom", &boom) });
    let init = method("java/lang/IllegalStateException", "<init>", &[177]);
    m.push(Method { access_flags: 0, ..init });
    m
}
