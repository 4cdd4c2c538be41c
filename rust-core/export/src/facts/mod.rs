// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Static information about classes, methods and blocks (JBInsTrace, sections 3.2.1 and 4.2), as
//! XML, CSV or JSON.
//!
//! What a capture does not have is absent, never 0: the sizes of operand stacks, and, in captures
//! older than version 2.3, the classes of fields, and with them eight of the 19 counts, and the
//! interfaces of classes.

mod comma;
mod counts;
mod json;
mod method;
#[cfg(test)]
mod tests;
mod xml;

use hashbrown::HashMap;
use jportal_analyses::names::{Names, Naming};
use jportal_bytecode::{ClassTable, Method, MethodTable};
use jportal_units::MethodId;
use serde::Serialize;

pub use counts::{Counts, NAMES};
pub use method::{BlockFacts, CallFacts, HandlerFacts, MethodFacts, TargetFacts};

use crate::Error;
use crate::block_trace::Format;

/// The schema of the XML.
pub const XSD: &str = include_str!("../../schema/static.xsd");

/// A class that defines at least one of the methods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassFacts<'a> {
    /// Its number. Classes of the same name of different loaders have different numbers.
    pub id: u32,
    /// Internal name.
    pub name: &'a str,
    /// Loader; empty for the boot loader.
    pub loader: &'a str,
    /// Source file; empty if unknown.
    pub source: &'a str,
    /// Internal name of the superclass. Absent for `java/lang/Object`, and if unknown.
    #[serde(rename = "super", skip_serializing_if = "Option::is_none")]
    pub superclass: Option<&'a str>,
    /// Access flags (JVMS table 4.1-B).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<u32>,
    /// Internal names of the interfaces that it names, in its order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Vec<&'a str>>,
    /// Its methods, by number.
    #[serde(skip)]
    pub methods: Vec<MethodId>,
}

impl<'a> ClassFacts<'a> {
    fn of(m: &'a Method, classes: &'a ClassTable) -> Self {
        let class = classes.get(m.class);
        let name = |n: u32| classes.get(n).map(|c| &*c.name);
        let interfaces = class.and_then(|c| c.interfaces.as_deref());
        Self {
            id: m.class,
            name: &m.class_name,
            loader: &m.loader,
            source: &m.source_file,
            superclass: class.and_then(|c| name(c.superclass?)),
            flags: class.map(|c| c.access_flags),
            interfaces: interfaces.and_then(|all| all.iter().map(|n| name(*n)).collect()),
            methods: Vec::new(),
        }
    }
}

/// Static information of a recording. Memory is bounded by the number of methods; their blocks are
/// computed one method at a time.
#[derive(Debug)]
pub struct StaticFacts<'a> {
    methods: &'a MethodTable,
    format: Format,
    classes: Vec<ClassFacts<'a>>,
    names: Names<'a>,
}

impl<'a> StaticFacts<'a> {
    /// The facts of the methods that `wanted` accepts. `format` says how blocks and methods are
    /// numbered; the numbers are those of a block trace of the same recording.
    ///
    /// # Errors
    /// If the form of numbers has no room for a method or its blocks.
    pub fn new(
        methods: &'a MethodTable,
        format: Format,
        wanted: impl Fn(&Method) -> bool,
    ) -> Result<Self, Error> {
        format.check(methods, &wanted)?;
        let mut at: HashMap<(u32, &str, &str), usize> = HashMap::new();
        let mut classes: Vec<ClassFacts<'a>> = Vec::new();
        for m in methods.iter().filter(|m| wanted(m)) {
            let new = classes.len();
            let n = *at.entry((m.class, &*m.class_name, &*m.loader)).or_insert(new);
            if n == new {
                classes.push(ClassFacts::of(m, methods.classes()));
            }
            classes[n].methods.push(m.id);
        }
        classes.sort_by_key(|c| (c.id, c.methods.first().copied()));
        Ok(Self { methods, format, classes, names: Names::new(methods, Naming::default()) })
    }
    /// Whether the fields that the methods access are known, of one method at least.
    fn has_fields(&self) -> bool {
        let all = self.classes.iter().flat_map(|c| &c.methods);
        all.filter_map(|id| self.methods.get(*id)).any(|m| m.constants.is_some())
    }
    /// How blocks and methods are numbered.
    pub const fn format(&self) -> Format {
        self.format
    }
    /// The classes, by number.
    pub fn classes(&self) -> &[ClassFacts<'a>] {
        &self.classes
    }
    /// Number of methods.
    pub fn len(&self) -> usize {
        self.classes.iter().map(|c| c.methods.len()).sum()
    }
    /// Whether there is no method.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
    /// The facts of the methods of a class.
    pub fn methods<'s>(&'s self, class: &'s ClassFacts<'_>) -> impl Iterator<Item = MethodFacts<'a>> + 's {
        let methods = class.methods.iter().filter_map(|id| self.methods.get(*id));
        methods.map(|m| MethodFacts::of(m, self.format, self.names.version(m.id)))
    }
}
