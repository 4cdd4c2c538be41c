// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The template interpreter: the meaning of its addresses.

use hashbrown::HashMap;
use jportal_bytecode::Opcode;
use jportal_capture::schema::{BytecodeNames, InterpreterCodelet, InterpreterTable, NamedAddress, tables};
use jportal_units::{Address, AddressRange};

/// A bytecode of the VM: Java's own or an internal (quickened) one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// HotSpot's `Bytecodes::Code`.
    pub code: u8,
    /// The Java bytecode that it implements (`Bytecodes::java_code`).
    pub java: Opcode,
    /// For templates that execute two bytecodes at once (`fast_iload2`, `fast_icaload`,
    /// `fast_xaccess_0`): the second bytecode, and the distance of its bci from the first.
    pub second: Option<(u8, Opcode)>,
    /// Whether it is reached through the `wide` table.
    pub wide: bool,
    /// Whether it is JVMTI's breakpoint: the original bytecode is dispatched next.
    pub breakpoint: bool,
    /// For a quickened `lookupswitch`: the kind of search.
    pub search: Option<SwitchSearch>,
}

/// How a template finds the case of a `lookupswitch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchSearch {
    /// `fast_linearswitch`: from the last pair to the first.
    Linear,
    /// `fast_binaryswitch`: by bisection, without branches.
    Binary,
}

/// A value that the interpreter shows as branch outcomes. A loop shifts the value out, lowest bit
/// first. It executes one conditional jump for the bit (taken = 0) and one for "more bits
/// follow".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reveal {
    /// Case index of a `tableswitch`.
    TableSwitch,
    /// Pair index of a `lookupswitch` that is searched by bisection.
    BinarySwitch,
    /// Bci to which `ret` returns.
    Ret,
    /// Bci of the exception handler that the VM chose.
    ExceptionHandler,
    /// Bci at or after which a deoptimised frame resumes.
    Deopt,
    /// Bci of the invoke that is executed again after JVMTI's PopFrame.
    PopFrame,
}

/// The meaning of an address where code of the interpreter or of a stub begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landmark {
    /// An entry of a bytecode template.
    Template(Template),
    /// Target of a dispatch while a safepoint is pending; the normal dispatch follows.
    SafepointEntry,
    /// A call by the interpreter returns here.
    ReturnEntry,
    /// A deoptimised frame resumes here, after its bytecode.
    DeoptEntry,
    /// A deoptimised frame resumes here and executes its bytecode again.
    DeoptReexecute,
    /// A method of this `AbstractInterpreter::MethodKind` is entered.
    MethodEntry(u8),
    /// The callee of an interpreted frame threw.
    RethrowException,
    /// The interpreted frame itself throws.
    ThrowException,
    /// A method finds that the stack is exhausted, before it builds its frame.
    StackOverflow,
    /// An exception leaves the interpreted frame.
    RemoveActivation,
    /// The interpreted frame is popped, and its caller executes the invoke again (JVMTI PopFrame).
    RemoveActivationPreservingArgs,
    /// The interpreted frame returns from a bytecode that is not a return (JVMTI
    /// ForceEarlyReturn).
    EarlyReturn,
    /// The VM or native code calls Java.
    CallStub,
    /// A Java method called by the VM returned.
    CallStubReturn,
    /// A Java method called by the VM threw.
    CatchException,
    /// A stub passes an exception on to the caller's handler.
    ForwardException,
}

/// Everything that is known of the interpreter.
#[derive(Clone, Default, Debug)]
pub struct Interpreter {
    codes: HashMap<u8, Template>,
    landmarks: HashMap<u64, Landmark>,
    codelets: Vec<(u64, u64, Box<str>)>,
    reveals: Vec<(Address, Reveal)>,
    asides: Vec<AddressRange>,
    /// Template entries: address, code, wide. Kept until the names of all bytecodes are known.
    templates: Vec<(u64, u8, bool)>,
}

impl Interpreter {
    /// The code sequences that reveal a value, each with its first instruction.
    pub fn reveals(&self) -> &[(Address, Reveal)] {
        &self.reveals
    }
    /// Code inside templates whose branches do not depend on the bytecode (checks of a debug VM).
    pub fn asides(&self) -> &[AddressRange] {
        &self.asides
    }
    /// The meaning of `at`, if code begins there.
    pub fn landmark(&self, at: Address) -> Option<Landmark> {
        self.landmarks.get(&at.0).copied()
    }
    /// Whether the VM has reported where it calls Java code and where those calls return. Older
    /// VMs committed that record after the first Java code had run, so the record is missing if
    /// such a VM was killed early.
    pub fn knows_upcalls(&self) -> bool {
        let needed = [Landmark::CallStub, Landmark::CallStubReturn, Landmark::CatchException];
        needed.iter().all(|n| self.landmarks.values().any(|l| l == n))
    }
    /// All landmarks.
    pub fn landmarks(&self) -> impl Iterator<Item = (Address, Landmark)> {
        self.landmarks.iter().map(|(&a, &l)| (Address(a), l))
    }
    /// HotSpot's description of the codelet that contains `at`.
    pub fn codelet_at(&self, at: Address) -> Option<&str> {
        self.codelets.iter().find(|c| at.0 >= c.0 && at.0 < c.1).map(|c| &*c.2)
    }
    pub(crate) fn codelet(&mut self, r: &InterpreterCodelet) {
        let end = r.start.saturating_add(r.code.0.len() as u64);
        self.codelets.push((r.start, end, r.description.text().into()));
    }
    pub(crate) fn names(&mut self, r: &BytecodeNames) {
        for n in &r.names {
            let (code, java) = (n.address as u8, (n.address >> 16) as u8);
            let template = named_template(&n.name.text(), Template::java(code, Opcode(java)));
            self.codes.insert(code, template);
        }
    }
    fn template(&self, code: u8, wide: bool) -> Option<Template> {
        let known = self.codes.get(&code).copied();
        let own = (code <= 201).then_some(Template::java(code, Opcode(code)));
        known.or(own).map(|t| Template { wide, ..t })
    }
    /// Called after the last record: makes the template entries landmarks. An address that
    /// several bytecodes share is an entry of none of them (`_unimplemented_bytecode`).
    pub(crate) fn finish(&mut self) {
        let mut shared = Vec::new();
        for (address, code, wide) in std::mem::take(&mut self.templates) {
            let Some(t) = self.template(code, wide) else { continue };
            match self.landmarks.insert(address, Landmark::Template(t)) {
                Some(Landmark::Template(other)) if other != t => shared.push(address),
                _ => {}
            }
        }
        for a in shared {
            self.landmarks.remove(&a);
        }
    }
    pub(crate) fn table(&mut self, r: &InterpreterTable) {
        for (i, e) in r.entries.iter().enumerate() {
            if e.address == 0 {
                continue;
            }
            let landmark = match r.table {
                tables::NORMAL | tables::WIDE => {
                    self.templates.push((e.address, i as u8, r.table == tables::WIDE));
                    continue;
                }
                tables::SAFEPOINT | tables::SAFEPOINT_ENTRY => Landmark::SafepointEntry,
                tables::RETURN
                | tables::INVOKE_RETURN
                | tables::INVOKEINTERFACE_RETURN
                | tables::INVOKEDYNAMIC_RETURN => Landmark::ReturnEntry,
                // Length 0: the bytecode is dispatched again (`Interpreter::deopt_entry`).
                tables::DEOPT if r.index == 0 => Landmark::DeoptReexecute,
                tables::DEOPT => Landmark::DeoptEntry,
                tables::METHOD_ENTRY => Landmark::MethodEntry(i as u8),
                _ => continue,
            };
            self.put(e.address, landmark);
        }
    }
    /// Method kinds without an entry of their own share one; the first kind names it. (The
    /// safepoint table holds normal templates for bytecodes that never poll. Templates are
    /// entered last, so they replace it.)
    fn put(&mut self, address: u64, landmark: Landmark) {
        match self.landmarks.get(&address) {
            Some(Landmark::MethodEntry(_)) if matches!(landmark, Landmark::MethodEntry(_)) => {}
            _ => {
                self.landmarks.insert(address, landmark);
            }
        }
    }
    pub(crate) fn entries(&mut self, entries: &[NamedAddress]) {
        let mut aside = None;
        for e in entries.iter().filter(|e| e.address != 0) {
            let name = e.name.text();
            match (&*name, aside) {
                ("aside", _) => aside = Some(Address(e.address)),
                ("aside.end", Some(start)) => {
                    self.asides.push(AddressRange { start, end: Address(e.address) })
                }
                _ => {}
            }
            if let Some(l) = landmark_of(&name) {
                self.landmarks.insert(e.address, l);
            } else if let Some(r) = reveal_of(&name) {
                self.reveals.push((Address(e.address), r));
            }
        }
    }
}

impl Template {
    /// A template that executes exactly the Java bytecode `java`.
    const fn java(code: u8, java: Opcode) -> Self {
        Self { code, java, second: None, wide: false, breakpoint: false, search: None }
    }
}

/// Adds to `t` what HotSpot's name for the bytecode says (`bytecodes.cpp`).
fn named_template(name: &str, t: Template) -> Template {
    match name {
        "fast_iaccess_0" | "fast_aaccess_0" | "fast_faccess_0" => {
            Template { second: Some((1, Opcode::GETFIELD)), ..t }
        }
        "fast_iload2" => Template { second: Some((2, Opcode::ILOAD)), ..t },
        "fast_icaload" => Template { second: Some((2, Opcode::CALOAD)), ..t },
        "fast_linearswitch" => Template { search: Some(SwitchSearch::Linear), ..t },
        "fast_binaryswitch" => Template { search: Some(SwitchSearch::Binary), ..t },
        "breakpoint" => Template { breakpoint: true, ..t },
        _ => t,
    }
}

/// The landmark for HotSpot's name of an entry point.
fn landmark_of(name: &str) -> Option<Landmark> {
    Some(match name {
        "rethrow_exception" => Landmark::RethrowException,
        "throw_exception" => Landmark::ThrowException,
        "throw_StackOverflowError_stub" | "throw_delayed_StackOverflowError" => Landmark::StackOverflow,
        "remove_activation" => Landmark::RemoveActivation,
        "remove_activation_preserving_args" => Landmark::RemoveActivationPreservingArgs,
        // One for each TosState: `earlyret.itos`, ...
        _ if name.starts_with("earlyret.") => Landmark::EarlyReturn,
        "deopt_reexecute_return" => Landmark::DeoptEntry,
        "call_stub" => Landmark::CallStub,
        "call_stub_return" => Landmark::CallStubReturn,
        "catch_exception" => Landmark::CatchException,
        "forward_exception" => Landmark::ForwardException,
        _ => return None,
    })
}

/// The value revealed at the entry of this name.
fn reveal_of(name: &str) -> Option<Reveal> {
    Some(match name.strip_prefix("reveal.")? {
        "tableswitch" => Reveal::TableSwitch,
        "lookupswitch" => Reveal::BinarySwitch,
        "ret" => Reveal::Ret,
        "exception_handler" => Reveal::ExceptionHandler,
        "deopt" => Reveal::Deopt,
        "popframe" => Reveal::PopFrame,
        _ => return None,
    })
}
