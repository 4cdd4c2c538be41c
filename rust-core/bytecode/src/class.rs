// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The properties of a class that the decoder knows.

use std::collections::BTreeMap;

use jportal_units::{Tid, Tsc};

/// When a class was loaded, and by which thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassLoad {
    /// When.
    pub tsc: Tsc,
    /// OS thread id.
    pub tid: Tid,
    /// When the thread started, 0 if that is not known: the OS reuses ids.
    pub started: Tsc,
}

/// One class of one loader.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Class {
    /// Its number in the capture, counted from 1.
    pub number: u32,
    /// Internal name (`java/lang/Object`).
    pub name: Box<str>,
    /// Loader's name, empty for the boot loader.
    pub loader: Box<str>,
    /// `SourceFile`, may be empty; empty also for classes that were never linked.
    pub source_file: Box<str>,
    /// JVM access flags (JVMS table 4.1-B).
    pub access_flags: u32,
    /// Whether it is a hidden class.
    pub hidden: bool,
    /// Number of the superclass. `None` for `java/lang/Object`, and if the superclass is not
    /// known.
    pub superclass: Option<u32>,
    /// Numbers of the interfaces that it names, in its order. `None`: not known.
    pub interfaces: Option<Box<[u32]>>,
    /// `None`: not known, because the class was there when the recording began, or because the
    /// capture is older than version 2.3.
    pub loaded: Option<ClassLoad>,
}

/// The classes that a capture describes, by number.
#[derive(Clone, Default, Debug)]
pub struct ClassTable {
    classes: BTreeMap<u32, Class>,
}

impl ClassTable {
    /// The class with this number. `None` if the capture does not describe it.
    pub fn get(&self, number: u32) -> Option<&Class> {
        self.classes.get(&number)
    }
    /// All classes, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Class> {
        self.classes.values()
    }
    /// Number of classes.
    pub fn len(&self) -> usize {
        self.classes.len()
    }
    /// Whether the capture describes no class.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
    /// Whether the capture says when classes were loaded.
    pub fn has_loads(&self) -> bool {
        self.iter().any(|c| c.loaded.is_some())
    }
}

impl FromIterator<Class> for ClassTable {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Self {
        Self { classes: classes.into_iter().map(|c| (c.number, c)).collect() }
    }
}
