// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! From `Method*` to [`MethodId`]: an address identifies a method only during the method's life.

use hashbrown::HashMap;
use jportal_bytecode::{ExceptionRow, InvokeRef, LineRow, Method, MethodTable};
use jportal_capture::codec::Str;
use jportal_capture::schema::{ClassDefined, MethodDefined};
use jportal_units::{Bci, MethodId, MethodPtr, Tsc};

/// The holder of a method.
#[derive(Clone, Debug, Default)]
struct Class {
    number: u32,
    name: Box<str>,
    loader: Box<str>,
    source_file: Box<str>,
}

/// All methods of the capture, and the times at which a `Method*` meant them.
#[derive(Default, Debug)]
pub struct MethodIndex {
    table: MethodTable,
    classes: HashMap<u64, Class>,
    /// Number of classes up to here, described or not.
    count: u32,
    /// By pointer: definitions in commit order.
    spans: HashMap<u64, Vec<(Tsc, MethodId)>>,
    /// By pointer: the method that lives there at present, and its class.
    live: HashMap<u64, (MethodId, u64)>,
    /// By class: the pointers that were reported as its methods.
    members: HashMap<u64, Vec<u64>>,
}

fn text(s: &Str) -> Box<str> {
    s.text().into()
}

impl MethodIndex {
    pub(crate) fn define_class(&mut self, c: &ClassDefined) {
        let (name, loader) = (text(&c.name), text(&c.loader_name));
        // A class may be reported again. After a class was unloaded, another one may live at its
        // address.
        let again = self.classes.get(&c.klass).filter(|k| (&k.name, &k.loader) == (&name, &loader));
        let number = again.map(|k| k.number).unwrap_or_else(|| self.next_number());
        let class = Class { number, name, loader, source_file: text(&c.source_file) };
        self.classes.insert(c.klass, class);
    }
    /// Returns the new id and whether the holder was known.
    pub(crate) fn define(&mut self, tsc: Tsc, m: MethodDefined) -> (MethodId, bool) {
        let known = self.classes.get(&m.klass).is_some_and(|c| !c.name.is_empty());
        let (klass, ptr) = (m.klass, m.method);
        if !self.classes.contains_key(&klass) {
            let number = self.next_number();
            self.classes.insert(klass, Class { number, ..Class::default() });
        }
        let mut method = convert(m, self.classes[&klass].clone());
        if !known {
            method.class_name = format!("klass@{klass:#x}").into();
        }
        if let Some(id) = self.same_as_live(ptr, &method) {
            return (id, known);
        }
        let id = self.table.push(method);
        self.live.insert(ptr, (id, klass));
        self.members.entry(klass).or_default().push(ptr);
        self.spans.entry(ptr).or_default().push((tsc, id));
        (id, known)
    }
    fn next_number(&mut self) -> u32 {
        self.count += 1;
        self.count
    }
    /// A method that is reported again (class re-linked, recording restarted) is not a new one.
    fn same_as_live(&self, ptr: u64, method: &Method) -> Option<MethodId> {
        let id = self.live(MethodPtr(ptr))?;
        let last = self.table.get(id)?;
        let same = Method { id, ..method.clone() } == *last;
        same.then_some(id)
    }
    /// The `Method*` was freed; a later method at that address is another one.
    pub(crate) fn freed(&mut self, ptr: MethodPtr) {
        self.live.remove(&ptr.0);
    }
    /// The class was unloaded, and its methods with it. A method that redefinition has moved to
    /// another class stays.
    pub(crate) fn unloaded(&mut self, klass: u64) {
        for ptr in self.members.remove(&klass).unwrap_or_default() {
            if self.live.get(&ptr).is_some_and(|l| l.1 == klass) {
                self.live.remove(&ptr);
            }
        }
    }
    /// The method that lives at `ptr` after the records read up to here.
    pub(crate) fn live(&self, ptr: MethodPtr) -> Option<MethodId> {
        self.live.get(&ptr.0).map(|l| l.0)
    }
    /// The method that `ptr` meant at `tsc`: the latest definition not after `tsc`. If `tsc`
    /// precedes all definitions, the first one, because a coarse clock may date a use before the
    /// definition.
    pub fn at(&self, ptr: MethodPtr, tsc: Tsc) -> Option<MethodId> {
        let spans = self.spans.get(&ptr.0)?;
        let n = spans.partition_point(|s| s.0 <= tsc);
        spans.get(n.saturating_sub(1)).map(|s| s.1)
    }
    /// The method table.
    pub fn table(&self) -> &MethodTable {
        &self.table
    }
}

fn convert(m: MethodDefined, class: Class) -> Method {
    let mut invokes: Vec<InvokeRef> = m
        .invokes
        .iter()
        .map(|i| InvokeRef {
            bci: Bci(i.bci),
            class_name: text(&i.class_name),
            name: text(&i.name),
            signature: text(&i.signature),
        })
        .collect();
    invokes.sort_by_key(|i| i.bci);
    let mut lines: Vec<LineRow> = m.lines.iter().map(|l| LineRow { bci: Bci(l.bci), line: l.line }).collect();
    lines.sort_by_key(|l| l.bci);
    let exceptions = m.exceptions.iter().map(|e| ExceptionRow {
        start: Bci(e.start_bci),
        end: Bci(e.end_bci),
        handler: Bci(e.handler_bci),
        catch_type: (!e.catch_type.0.is_empty()).then(|| text(&e.catch_type)),
    });
    Method {
        id: MethodId(0),
        class: class.number,
        class_name: class.name,
        loader: class.loader,
        source_file: class.source_file,
        name: text(&m.name),
        signature: text(&m.signature),
        access_flags: m.access_flags,
        intrinsic: m.intrinsic,
        entry_kind: m.entry_kind,
        exceptions: exceptions.collect(),
        code: m.code.0,
        lines: lines.into(),
        invokes: invokes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_takes_its_methods_with_it() {
        let mut index = MethodIndex::default();
        let name = |text: &[u8]| Str(text.to_vec().into());
        for klass in [1, 2] {
            index.define_class(&ClassDefined { klass, name: name(b"a/B"), ..ClassDefined::default() });
        }
        let define = |index: &mut MethodIndex, tsc, method, klass| {
            let m = MethodDefined { method, klass, name: name(b"f"), ..MethodDefined::default() };
            index.define(Tsc(tsc), m).0
        };
        let first = define(&mut index, 10, 0x100, 1);
        // Redefinition moves the method to the other class.
        define(&mut index, 20, 0x200, 1);
        let moved = define(&mut index, 30, 0x200, 2);
        assert_eq!(index.live(MethodPtr(0x100)), Some(first));
        index.unloaded(1);
        assert_eq!(index.live(MethodPtr(0x100)), None);
        assert_eq!(index.live(MethodPtr(0x200)), Some(moved));
        // An old capture repeats each method.
        index.freed(MethodPtr(0x100));
        // An equal class at the same addresses has methods of its own; the past keeps the old ones.
        let again = define(&mut index, 40, 0x100, 1);
        assert_ne!(first, again);
        assert_eq!(index.at(MethodPtr(0x100), Tsc(35)), Some(first));
        assert_eq!(index.at(MethodPtr(0x100), Tsc(40)), Some(again));
    }

    #[test]
    fn a_name_may_hold_supplementary_characters() {
        let mut index = MethodIndex::default();
        // U+1D4D3 in the VM's modified UTF-8.
        let name = |prefix: &[u8]| Str([prefix, b"\xed\xa0\xb5\xed\xb3\x93"].concat().into());
        index.define_class(&ClassDefined { klass: 1, name: name(b"a/"), ..ClassDefined::default() });
        let method = MethodDefined { method: 2, klass: 1, name: name(b"f"), ..MethodDefined::default() };
        let (id, known) = index.define(Tsc(1), method);
        let method = index.table().get(id).unwrap();
        assert!(known);
        assert_eq!((&*method.class_name, &*method.name), ("a/\u{1d4d3}", "f\u{1d4d3}"));
    }
}
