// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A small interpreter for tests: it executes bytecodes and reports the flow of one thread.
//!
//! All values have one word. A reference is the number of an object, from 1; object 1 is the
//! receiver of library methods that need one.

use std::collections::HashMap;

use jportal_bytecode::{Instruction, InvokeRef, LineRow, Method, MethodTable, Opcode, testing};
use jportal_flow::{Entry, Event, EventKind, Exit, Tier};
use jportal_units::Bci;

/// An exception: its object, and its class.
type Thrown = (i64, String);

/// An object or an array.
struct Object {
    class: String,
    items: Vec<i64>,
}

/// Executes methods.
pub(crate) struct HeapMachine<'a> {
    methods: &'a MethodTable,
    /// Class and superclass or interface.
    supers: &'a [(&'a str, &'a str)],
    /// Methods for which a compiler's instructions stand: they leave no events.
    pub(crate) silent: Vec<&'a str>,
    heap: Vec<Object>,
    statics: HashMap<u16, i64>,
    pub(crate) events: Vec<Event>,
}

impl<'a> HeapMachine<'a> {
    pub(crate) fn new(methods: &'a MethodTable, supers: &'a [(&'a str, &'a str)]) -> Self {
        let object = Object { class: "java/lang/Runtime".into(), items: Vec::new() };
        let (silent, heap) = (Vec::new(), vec![object]);
        Self { methods, supers, silent, heap, statics: HashMap::new(), events: Vec::new() }
    }
    /// The flow of `main` of a class.
    pub(crate) fn run(mut self, class: &str) -> Vec<Event> {
        let main = self.find(class, "main", "([Ljava/lang/String;)V").expect("main");
        self.call(main, vec![0; 9], Entry::Upcall).expect("main catches all");
        self.events
    }
    fn emit(&mut self, kind: EventKind) {
        self.events.push(Event::decoded(kind));
    }
    fn find(&self, class: &str, name: &str, signature: &str) -> Option<&'a Method> {
        let is = |m: &&Method| (&*m.class_name, &*m.name, &*m.signature) == (class, name, signature);
        self.methods.iter().find(is).or_else(|| {
            let mut supers = self.supers.iter().filter(|s| s.0 == class);
            supers.find_map(|s| self.find(s.1, name, signature))
        })
    }
    fn allocate(&mut self, class: &str, len: i64) -> i64 {
        self.heap.push(Object { class: class.to_owned(), items: vec![0; len as usize] });
        self.heap.len() as i64
    }
    fn throw(&mut self, class: &str) -> Thrown {
        (self.allocate(class, 0), class.to_owned())
    }
    fn call(&mut self, method: &'a Method, locals: Vec<i64>, entry: Entry) -> Result<i64, Thrown> {
        let before = self.events.len();
        let tier = if method.is_native() { Tier::Native } else { Tier::Interpreter };
        self.emit(EventKind::Enter { method: method.id, tier, entry });
        let result = if method.is_native() { Ok(1) } else { self.interpret(method, locals) };
        let exit = if result.is_ok() { Exit::Return } else { Exit::Unwind };
        self.emit(EventKind::Leave { method: method.id, exit });
        if self.silent.contains(&&*method.name) {
            self.events.truncate(before);
        }
        result
    }
    fn interpret(&mut self, m: &'a Method, mut locals: Vec<i64>) -> Result<i64, Thrown> {
        let (mut at, mut stack) = (Bci(0), Vec::new());
        loop {
            self.emit(EventKind::Bytecode { method: m.id, bci: at, tier: Tier::Interpreter });
            let i = Instruction::at(&m.code, at.0.into()).expect("an instruction");
            match self.step(m, &i, &mut stack, &mut locals) {
                Ok(InterpretedStep::To(to)) => at = to,
                Ok(InterpretedStep::Return(value)) => return Ok(value),
                Err((object, class)) => {
                    let covers = |r: &&jportal_bytecode::ExceptionRow| {
                        (r.start..r.end).contains(&at) && r.catch_type.as_deref().is_none_or(|c| c == class)
                    };
                    let Some(row) = m.exceptions.iter().find(covers) else { return Err((object, class)) };
                    self.emit(EventKind::Catch { method: m.id, bci: row.handler });
                    (stack, at) = (vec![object], row.handler);
                }
            }
        }
    }
    fn step(
        &mut self,
        m: &'a Method,
        i: &Instruction<'_>,
        stack: &mut Vec<i64>,
        locals: &mut [i64],
    ) -> Result<InterpretedStep, Thrown> {
        let operand = m.code.get(usize::from(i.bci.0) + 1).copied().unwrap_or(0);
        let mut pop = || stack.pop().expect("a value");
        let value = match i.opcode.0 {
            1 => 0,
            c @ 2..=8 => i64::from(c) - 3,
            c @ (9 | 10) => i64::from(c) - 9,
            16 => i64::from(operand as i8),
            26..=45 => locals[usize::from((i.opcode.0 - 26) % 4)],
            50 => {
                let (at, array) = (pop(), pop());
                self.heap[array as usize - 1].items[at as usize]
            }
            59..=78 => {
                locals[usize::from((i.opcode.0 - 59) % 4)] = pop();
                return Ok(InterpretedStep::To(i.next()));
            }
            83 => {
                let (value, at, array) = (pop(), pop(), pop());
                self.heap[array as usize - 1].items[at as usize] = value;
                return Ok(InterpretedStep::To(i.next()));
            }
            89 => {
                let top = pop();
                stack.push(top);
                top
            }
            96 | 100 | 108 | 112 | 148 => {
                let (b, a) = (pop(), pop());
                match i.opcode.0 {
                    96 => a + b,
                    100 => a - b,
                    108 => a / b,
                    112 => a % b,
                    _ => (a > b).into(),
                }
            }
            116 => -pop(),
            132 => {
                locals[usize::from(operand)] += i64::from(m.code[usize::from(i.bci.0) + 2] as i8);
                return Ok(InterpretedStep::To(i.next()));
            }
            167 => return Ok(InterpretedStep::To(target(i))),
            172..=176 => return Ok(InterpretedStep::Return(pop())),
            177 => return Ok(InterpretedStep::Return(0)),
            178 => *self.statics.get(&u16::from(m.code[usize::from(i.bci.0) + 2])).unwrap_or(&1),
            179 => {
                self.statics.insert(m.code[usize::from(i.bci.0) + 2].into(), pop());
                return Ok(InterpretedStep::To(i.next()));
            }
            182..=185 => {
                let Some(value) = self.invoke(m, i, stack)? else { return Ok(InterpretedStep::To(i.next())) };
                value
            }
            187 => {
                // The constructor that follows names the class.
                let class = m.invokes.iter().find(|c| c.bci > i.bci).expect("a constructor");
                let class = class.class_name.clone();
                self.allocate(&class, 0)
            }
            189 => {
                let len = pop();
                self.allocate("array", len)
            }
            191 => {
                let object = pop();
                return Err((object, self.heap[object as usize - 1].class.clone()));
            }
            192 => return Ok(InterpretedStep::To(i.next())),
            153..=158 => return Ok(branch(i, i.opcode.0 - 153, (pop(), 0))),
            159..=164 => {
                let (b, a) = (pop(), pop());
                return Ok(branch(i, i.opcode.0 - 159, (a, b)));
            }
            _ => panic!("{:?} is not supported", Opcode(i.opcode.0)),
        };
        stack.push(value);
        Ok(InterpretedStep::To(i.next()))
    }
    fn invoke(
        &mut self,
        m: &Method,
        i: &Instruction<'_>,
        stack: &mut Vec<i64>,
    ) -> Result<Option<i64>, Thrown> {
        let InvokeRef { class_name, name, signature, .. } = m.invoke_at(i.bci).expect("a target");
        // Types of one letter, or of one class.
        let types = signature[1..].split(')').next().unwrap_or("");
        let count = if types.contains(';') { 1 } else { types.len() };
        let receiver = usize::from(i.opcode != Opcode::INVOKESTATIC);
        let mut locals = stack.split_off(stack.len() - count - receiver);
        let mut class = class_name.to_string();
        if matches!(i.opcode, Opcode::INVOKEVIRTUAL | Opcode::INVOKEINTERFACE) {
            if locals[0] == 0 {
                return Err(self.throw("java/lang/NullPointerException"));
            }
            let own = self.heap[locals[0] as usize - 1].class.clone();
            class = if self.find(&own, name, signature).is_some() { own } else { class };
        }
        let target = self.find(&class, name, signature).unwrap_or_else(|| panic!("{class}.{name}"));
        locals.resize(9, 0);
        let value = self.call(target, locals, Entry::Call)?;
        Ok(Some(value).filter(|_| !signature.ends_with('V')))
    }
}

enum InterpretedStep {
    To(Bci),
    Return(i64),
}

fn target(i: &Instruction<'_>) -> Bci {
    i.branch_target().expect("a target").expect("a target")
}

fn branch(i: &Instruction<'_>, condition: u8, (a, b): (i64, i64)) -> InterpretedStep {
    let taken = match condition {
        0 => a == b,
        1 => a != b,
        2 => a < b,
        3 => a >= b,
        4 => a > b,
        _ => a <= b,
    };
    InterpretedStep::To(if taken { target(i) } else { i.next() })
}

/// Bci, class, name and descriptor of a call.
type Target<'a> = (u16, &'a str, &'a str, &'a str);

/// A method as a class file describes it.
pub(crate) struct ClassFileMethod<'a> {
    pub(crate) class: &'a str,
    pub(crate) name: &'a str,
    pub(crate) signature: &'a str,
    pub(crate) flags: u32,
    pub(crate) code: &'a [u8],
    /// Start, end, handler, class.
    pub(crate) exceptions: &'a [(u16, u16, u16, &'a str)],
    /// Bci and line.
    pub(crate) lines: &'a [(u16, u16)],
    pub(crate) invokes: &'a [Target<'a>],
}

impl ClassFileMethod<'_> {
    fn method(&self) -> Method {
        let line = |&(bci, line): &(u16, u16)| LineRow { bci: Bci(bci), line };
        let invoke = |&(bci, class, name, signature): &Target<'_>| InvokeRef {
            signature: signature.into(),
            ..testing::calls(bci, class, name)
        };
        Method {
            class_name: self.class.into(),
            loader: if self.class.starts_with("java/") { "" } else { "app" }.into(),
            signature: self.signature.into(),
            access_flags: self.flags,
            exceptions: self.exceptions.iter().map(|e| testing::row(e.0, e.1, e.2, Some(e.3))).collect(),
            lines: self.lines.iter().map(line).collect(),
            invokes: self.invokes.iter().map(invoke).collect(),
            ..testing::method(self.name, self.code)
        }
    }
}

/// Methods of some classes.
pub(crate) fn table(sources: &[&[ClassFileMethod<'_>]]) -> MethodTable {
    let mut table = MethodTable::default();
    for source in sources.iter().flat_map(|s| s.iter()) {
        table.push(source.method());
    }
    table
}
