// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The properties of a method that the decoder knows.

use std::collections::BTreeMap;

use jportal_units::{Bci, MethodId};

use crate::class::ClassTable;
use crate::constant::Constant;
use crate::opcode::Instruction;

/// Row of an exception table, in table order (JVMS 4.7.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExceptionRow {
    /// First covered bci.
    pub start: Bci,
    /// First bci after the covered range.
    pub end: Bci,
    /// Handler.
    pub handler: Bci,
    /// Internal name of the caught class; `None` for any class.
    pub catch_type: Option<Box<str>>,
}

/// Row of a line number table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineRow {
    /// First bci of the line.
    pub bci: Bci,
    /// Source line.
    pub line: u16,
}

/// Symbolic target of an invoke bytecode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvokeRef {
    /// The invoke's bci.
    pub bci: Bci,
    /// Class named in the constant pool, internal name; empty for `invokedynamic`.
    pub class_name: Box<str>,
    /// Method name.
    pub name: Box<str>,
    /// Method descriptor.
    pub signature: Box<str>,
}

/// One version of one method of one class of one loader.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Method {
    /// Its number in the capture; numbers are dense.
    pub id: MethodId,
    /// Number of the holder in the capture. All versions of a method of a redefined class have
    /// the same number.
    pub class: u32,
    /// Holder, internal name (`java/lang/Object`).
    pub class_name: Box<str>,
    /// Loader's name, empty for the boot loader.
    pub loader: Box<str>,
    /// `SourceFile` of the holder, may be empty.
    pub source_file: Box<str>,
    /// Method name.
    pub name: Box<str>,
    /// Method descriptor.
    pub signature: Box<str>,
    /// JVM access flags (JVMS table 4.6-A).
    pub access_flags: u32,
    /// HotSpot's `vmIntrinsicID` (0 = none).
    pub intrinsic: u16,
    /// HotSpot's `AbstractInterpreter::MethodKind`.
    pub entry_kind: u8,
    /// Original bytecodes; empty for native and abstract methods.
    pub code: Box<[u8]>,
    /// Exception table.
    pub exceptions: Box<[ExceptionRow]>,
    /// Line number table, by bci.
    pub lines: Box<[LineRow]>,
    /// Targets of the invoke bytecodes, by bci.
    pub invokes: Box<[InvokeRef]>,
    /// The constants that the other bytecodes refer to, by their index in the constant pool.
    /// `None`: not known, because the capture is older than version 2.3.
    pub constants: Option<Box<[(u16, Constant)]>>,
}

impl Method {
    /// `class.name(descriptor)`, with dots in the class name.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}{}", self.class_name.replace('/', "."), self.name, self.signature)
    }
    /// The source line of `bci`.
    pub fn line_at(&self, bci: Bci) -> Option<u16> {
        let n = self.lines.partition_point(|row| row.bci <= bci);
        n.checked_sub(1).map(|i| self.lines[i].line)
    }
    /// The symbolic target of the invoke at `bci`.
    pub fn invoke_at(&self, bci: Bci) -> Option<&InvokeRef> {
        self.invokes.binary_search_by_key(&bci, |i| i.bci).ok().map(|i| &self.invokes[i])
    }
    /// The constant that an instruction other than an invoke refers to. `None` if there is none,
    /// or if it is not known.
    pub fn constant_of(&self, instruction: &Instruction<'_>) -> Option<&Constant> {
        let index = instruction.constant_index()?;
        let all = self.constants.as_deref()?;
        all.binary_search_by_key(&index, |(index, _)| *index).ok().map(|at| &all[at].1)
    }
    /// Whether the method is `native`.
    pub const fn is_native(&self) -> bool {
        self.access_flags & 0x100 != 0
    }
    /// Whether the method is `static`.
    pub const fn is_static(&self) -> bool {
        self.access_flags & 0x8 != 0
    }
}

/// All methods of a capture, indexed by [`MethodId`].
#[derive(Clone, Default, Debug)]
pub struct MethodTable {
    methods: Vec<Method>,
    classes: ClassTable,
    /// By class: an older class that it has exchanged methods with.
    exchanged: BTreeMap<u32, u32>,
}

impl MethodTable {
    /// Adds a method. Sets its `id` and returns it.
    pub fn push(&mut self, mut method: Method) -> MethodId {
        let id = MethodId(self.methods.len() as u32);
        method.id = id;
        self.methods.push(method);
        id
    }
    /// The method with `id`; `None` for an id of another capture.
    pub fn get(&self, id: MethodId) -> Option<&Method> {
        self.methods.get(id.0 as usize)
    }
    /// All methods in order of definition.
    pub fn iter(&self) -> impl Iterator<Item = &Method> {
        self.methods.iter()
    }
    /// The classes that the capture describes: those of the methods, and others.
    pub fn classes(&self) -> &ClassTable {
        &self.classes
    }
    /// The same methods, with these classes.
    pub fn set_classes(&mut self, classes: ClassTable) {
        self.classes = classes;
    }
    /// Redefinition has moved a method from one of these classes to the other. They are versions of
    /// one class.
    pub fn join_versions(&mut self, a: u32, b: u32) {
        let (a, b) = (self.first_version(a), self.first_version(b));
        if a != b {
            self.exchanged.insert(a.max(b), a.min(b));
        }
    }
    /// The oldest version of a class, which is the class itself if it was not redefined.
    pub fn first_version(&self, mut class: u32) -> u32 {
        // Each step leads to a smaller number.
        while let Some(older) = self.exchanged.get(&class) {
            class = *older;
        }
        class
    }
    /// Number of methods.
    pub fn len(&self) -> usize {
        self.methods.len()
    }
    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty()
    }
}
