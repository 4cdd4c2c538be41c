// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! From `Method*` to [`MethodId`]: an address identifies a method only during the method's life.

use hashbrown::HashMap;
use jportal_bytecode::{Class, ClassLoad, ExceptionRow, InvokeRef, LineRow, Method, MethodTable};
use jportal_capture::codec::Str;
use jportal_capture::schema::{ClassConstants, ClassDefined, ClassLoaded, MethodDefined, class_flags};
use jportal_units::{Bci, MethodId, MethodPtr, Tid, Tsc};

use crate::pool::{self, Pool, text};
use crate::threads::Threads;

/// What the records say of a class. It refers to other classes by their pointers, because records
/// of these may follow.
#[derive(Debug, Default)]
struct Described {
    class: Class,
    /// Time of the last record.
    tsc: Tsc,
    super_klass: u64,
    interfaces: Option<Box<[u64]>>,
}

/// A method that [`MethodIndex::define`] took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defined {
    pub(crate) id: MethodId,
    /// A record describes its class.
    pub(crate) class_is_known: bool,
    /// All that its bytecodes refer to in the constant pool of the class is there.
    pub(crate) is_complete: bool,
}

/// All methods of the capture, and the times at which a `Method*` meant them.
#[derive(Default, Debug)]
pub struct MethodIndex {
    table: MethodTable,
    /// By number.
    classes: HashMap<u32, Described>,
    /// By pointer: the numbers of the classes that lived there, in commit order; `None` from the
    /// time at which one was unloaded.
    lives: HashMap<u64, Vec<(Tsc, Option<u32>)>>,
    /// Number of classes up to here, described or not.
    count: u32,
    /// By pointer: definitions in commit order.
    spans: HashMap<u64, Vec<(Tsc, MethodId)>>,
    /// By pointer: the method that lives there at present, and its class.
    live: HashMap<u64, (MethodId, u64)>,
    /// By class: the pointers that were reported as its methods.
    members: HashMap<u64, Vec<u64>>,
    /// By class: its constant pool.
    pools: HashMap<u64, Pool>,
    /// When methods ended.
    ended: HashMap<MethodId, Tsc>,
}

impl MethodIndex {
    /// The number of the class that lives at `klass` after the records read up to here.
    fn number(&self, klass: u64) -> Option<u32> {
        self.lives.get(&klass)?.last()?.1
    }
    /// The class of a record. A class may be reported again. After a class was unloaded, another
    /// one may live at its address.
    fn described(&mut self, tsc: Tsc, klass: u64, names: (&Str, &Str), new: bool) -> &mut Described {
        let (name, loader) = (text(names.0), text(names.1));
        let known = self.number(klass).filter(|n| {
            let known = self.classes.get(n).map(|k| (&k.class.name, &k.class.loader));
            !new && known == Some((&name, &loader))
        });
        let number = known.unwrap_or_else(|| self.next_number(tsc, klass));
        let described = self.classes.entry(number).or_default();
        described.tsc = tsc;
        described.class.number = number;
        described.class.name = name;
        described.class.loader = loader;
        described
    }
    pub(crate) fn load_class(&mut self, tsc: Tsc, c: &ClassLoaded) {
        let new = c.tid != 0;
        let d = self.described(tsc, c.klass, (&c.name, &c.loader_name), new);
        d.super_klass = c.super_klass;
        d.interfaces = Some(c.interfaces.iter().map(|i| i.klass).collect());
        d.class.access_flags = c.access_flags;
        d.class.hidden = c.flags & class_flags::HIDDEN != 0;
        if new {
            d.class.loaded = Some(ClassLoad { tsc, tid: Tid(c.tid), started: Tsc(0) });
        }
    }
    pub(crate) fn define_class(&mut self, tsc: Tsc, c: &ClassDefined) {
        let d = self.described(tsc, c.klass, (&c.name, &c.loader_name), false);
        d.super_klass = c.super_klass;
        d.class.access_flags = c.access_flags;
        d.class.hidden = c.flags & class_flags::HIDDEN != 0;
        d.class.source_file = text(&c.source_file);
    }
    /// Methods that follow may use this constant pool.
    pub(crate) fn set_constants(&mut self, r: ClassConstants) {
        self.pools.insert(r.klass, Pool::new(r));
    }
    /// The class was unloaded, and its methods with it. A method that redefinition has moved to
    /// another class stays.
    pub(crate) fn unload_class(&mut self, tsc: Tsc, klass: u64) {
        if let Some(lives) = self.lives.get_mut(&klass) {
            lives.push((tsc, None));
        }
        self.pools.remove(&klass);
        for ptr in self.members.remove(&klass).unwrap_or_default() {
            if let Some(&(id, of)) = self.live.get(&ptr)
                && of == klass
            {
                self.live.remove(&ptr);
                self.ended.insert(id, tsc);
            }
        }
    }
    /// The class that `klass` meant at `tsc`; if none lived there, the next one.
    fn class_at(&self, klass: u64, tsc: Tsc) -> Option<u32> {
        let lives = self.lives.get(&klass)?;
        let after = lives.partition_point(|l| l.0 <= tsc);
        let number = lives[..after].last().and_then(|l| l.1);
        number.or_else(|| lives[after..].iter().find_map(|l| l.1)).filter(|n| self.classes.contains_key(n))
    }
    /// All records were read: puts the classes into the table.
    pub(crate) fn finish(&mut self, threads: &Threads) {
        self.pools = HashMap::new();
        let all = self.classes.values().map(|d| {
            let interfaces = d.interfaces.as_deref();
            let at = |klass: &u64| self.class_at(*klass, d.tsc);
            let started = |load: ClassLoad| threads.at(load.tid, load.tsc).map_or(Tsc(0), |t| t.started);
            let loaded = d.class.loaded.map(|load| ClassLoad { started: started(load), ..load });
            Class {
                loaded,
                superclass: at(&d.super_klass),
                interfaces: interfaces.and_then(|all| all.iter().map(at).collect()),
                ..d.class.clone()
            }
        });
        let all = all.collect();
        self.table.set_classes(all);
    }
    /// Takes a method.
    pub(crate) fn define(&mut self, tsc: Tsc, m: MethodDefined) -> Defined {
        let (klass, ptr) = (m.klass, m.method);
        let number = self.number(klass).unwrap_or_else(|| self.next_number(tsc, klass));
        let class = self.classes.get(&number).map(|d| &d.class).filter(|c| !c.name.is_empty());
        let class_is_known = class.is_some();
        let pool = if m.constants.is_none() { self.pools.get(&klass) } else { None };
        let mut method = convert(m);
        let is_complete = match pool {
            Some(pool) => pool.fill(&mut method),
            None => pool::has_targets(&method),
        };
        method.class = number;
        match class {
            Some(class) => {
                method.class_name = class.name.clone();
                method.loader = class.loader.clone();
                method.source_file = class.source_file.clone();
            }
            None => method.class_name = format!("klass@{klass:#x}").into(),
        }
        if let Some(id) = self.same_as_live(ptr, &method) {
            if self.live.insert(ptr, (id, klass)).is_some_and(|(_, of)| of != klass) {
                self.members.entry(klass).or_default().push(ptr);
            }
            return Defined { id, class_is_known, is_complete };
        }
        let id = self.table.push(method);
        self.live.insert(ptr, (id, klass));
        self.members.entry(klass).or_default().push(ptr);
        self.spans.entry(ptr).or_default().push((tsc, id));
        Defined { id, class_is_known, is_complete }
    }
    /// A class that was not known lives at `klass`.
    fn next_number(&mut self, tsc: Tsc, klass: u64) -> u32 {
        self.count += 1;
        self.lives.entry(klass).or_default().push((tsc, Some(self.count)));
        self.count
    }
    /// The method that lives at `ptr`, if it is the one that is reported again. A class is
    /// re-linked, or a recording restarted. Or redefinition has moved the method to another class:
    /// HotSpot makes the new methods in a scratch class and then exchanges them with those of the
    /// redefined class (`VM_RedefineClasses::redefine_single_class`). The two are versions of one
    /// class.
    fn same_as_live(&mut self, ptr: u64, method: &Method) -> Option<MethodId> {
        let id = self.live(MethodPtr(ptr))?;
        let last = self.table.get(id)?;
        let class = last.class;
        let same = Method { id, class, ..method.clone() } == *last;
        let names =
            |m: &Method| (m.class_name.clone(), m.loader.clone(), m.name.clone(), m.signature.clone());
        if names(last) == names(method) {
            self.table.join_versions(class, method.class);
        }
        same.then_some(id)
    }
    /// The `Method*` was freed; a later method at that address is another one.
    pub(crate) fn freed(&mut self, tsc: Tsc, ptr: MethodPtr) {
        if let Some((id, _)) = self.live.remove(&ptr.0) {
            self.ended.insert(id, tsc);
        }
    }
    /// Whether the method was freed, or its class unloaded, before `tsc`.
    pub(crate) fn had_ended(&self, id: MethodId, tsc: Tsc) -> bool {
        self.ended.get(&id).is_some_and(|ended| *ended < tsc)
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

/// The method without the properties of its class.
fn convert(m: MethodDefined) -> Method {
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
    let constants = m.constants.as_ref().map(|all| {
        let mut all: Vec<_> = all
            .iter()
            .map(|c| (c.index, pool::constant(c.tag, &c.class_name, &c.name, &c.signature)))
            .collect();
        all.sort_by_key(|c| c.0);
        all.into()
    });
    Method {
        name: text(&m.name),
        signature: text(&m.signature),
        access_flags: m.access_flags,
        intrinsic: m.intrinsic,
        entry_kind: m.entry_kind,
        exceptions: exceptions.collect(),
        code: m.code.0,
        lines: lines.into(),
        invokes: invokes.into(),
        constants,
        ..Method::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_capture::Record;
    use jportal_capture::schema::{ClassPointer, ThreadExited, ThreadStarted};

    #[test]
    fn a_class_takes_its_methods_with_it() {
        let mut index = MethodIndex::default();
        let name = |text: &[u8]| Str(text.to_vec().into());
        for klass in [1, 2] {
            index
                .define_class(Tsc(1), &ClassDefined { klass, name: name(b"a/B"), ..ClassDefined::default() });
        }
        let define = |index: &mut MethodIndex, tsc, method, klass| {
            let m = MethodDefined { method, klass, name: name(b"f"), ..MethodDefined::default() };
            index.define(Tsc(tsc), m).id
        };
        let first = define(&mut index, 10, 0x100, 1);
        // Redefinition moves the method to the other class.
        define(&mut index, 20, 0x200, 1);
        let moved = define(&mut index, 30, 0x200, 2);
        assert_eq!(index.live(MethodPtr(0x100)), Some(first));
        index.unload_class(Tsc(35), 1);
        assert_eq!(index.live(MethodPtr(0x100)), None);
        assert_eq!(index.live(MethodPtr(0x200)), Some(moved));
        // An old capture repeats each method.
        index.freed(Tsc(30), MethodPtr(0x100));
        // An equal class at the same addresses has methods of its own; the past keeps the old ones.
        let again = define(&mut index, 40, 0x100, 1);
        assert_ne!(first, again);
        assert_eq!(index.at(MethodPtr(0x100), Tsc(35)), Some(first));
        assert_eq!(index.at(MethodPtr(0x100), Tsc(40)), Some(again));
    }

    #[test]
    fn classes_that_exchange_methods_are_versions_of_one() {
        let mut index = MethodIndex::default();
        let name = |text: &[u8]| Str(text.to_vec().into());
        for (klass, class) in [(1, &b"a/B"[..]), (2, b"a/B"), (3, b"a/B"), (4, b"a/C")] {
            index.define_class(Tsc(1), &ClassDefined { klass, name: name(class), ..ClassDefined::default() });
        }
        let define = |index: &mut MethodIndex, method, klass| {
            let m = MethodDefined { method, klass, name: name(b"f"), ..MethodDefined::default() };
            let id = index.define(Tsc(1), m).id;
            index.table().get(id).unwrap().class
        };
        // Class 2 is the scratch class of 1. Class 3 belongs to another loader.
        let [old, new, other] = [(0x100, 1), (0x200, 2), (0x300, 3)].map(|(m, k)| define(&mut index, m, k));
        let first = |index: &MethodIndex, class| index.table().first_version(class);
        assert_ne!(first(&index, old), first(&index, new));
        define(&mut index, 0x200, 1);
        define(&mut index, 0x100, 2);
        assert_eq!((first(&index, old), first(&index, new)), (old, old));
        // A method of another name at a freed address was not moved.
        define(&mut index, 0x300, 4);
        assert_eq!(first(&index, other), other);
    }

    #[test]
    fn a_method_that_redefinition_moves_is_the_same() {
        let mut index = MethodIndex::default();
        let name = |text: &[u8]| Str(text.to_vec().into());
        for klass in [1, 2] {
            index
                .define_class(Tsc(1), &ClassDefined { klass, name: name(b"a/B"), ..ClassDefined::default() });
        }
        let define = |index: &mut MethodIndex, klass, code: &[u8]| {
            let m = MethodDefined { method: 0x200, klass, name: name(b"f"), ..MethodDefined::default() };
            index.define(Tsc(1), MethodDefined { code: code.into(), ..m }).id
        };
        // Class 2 is the scratch class of 1.
        let made = define(&mut index, 2, &[0xb1]);
        assert_eq!(define(&mut index, 1, &[0xb1]), made);
        index.unload_class(Tsc(2), 2);
        assert_eq!(index.live(MethodPtr(0x200)), Some(made));
        index.unload_class(Tsc(3), 1);
        assert_eq!(index.live(MethodPtr(0x200)), None);
        // With other code it is another method.
        let made = define(&mut index, 2, &[0xb1]);
        assert_ne!(define(&mut index, 1, &[0x00, 0xb1]), made);
    }

    #[test]
    fn a_name_may_hold_supplementary_characters() {
        let mut index = MethodIndex::default();
        // U+1D4D3 in the VM's modified UTF-8.
        let name = |prefix: &[u8]| Str([prefix, b"\xed\xa0\xb5\xed\xb3\x93"].concat().into());
        index.define_class(Tsc(1), &ClassDefined { klass: 1, name: name(b"a/"), ..ClassDefined::default() });
        let method = MethodDefined { method: 2, klass: 1, name: name(b"f"), ..MethodDefined::default() };
        let Defined { id, class_is_known: known, .. } = index.define(Tsc(1), method);
        let method = index.table().get(id).unwrap();
        assert!(known);
        assert_eq!((&*method.class_name, &*method.name), ("a/\u{1d4d3}", "f\u{1d4d3}"));
    }

    fn loaded(klass: u64, super_klass: u64, interfaces: &[u64], tid: u32, name: &str) -> ClassLoaded {
        let interfaces = interfaces.iter().map(|klass| ClassPointer { klass: *klass }).collect();
        ClassLoaded { klass, super_klass, interfaces, tid, name: name.into(), ..ClassLoaded::default() }
    }
    /// Names of the superclass and the interfaces of each class.
    fn hierarchy(index: &mut MethodIndex) -> Vec<(String, Option<String>, Option<Vec<String>>)> {
        index.finish(&Threads::default());
        let all = index.table().classes();
        let name = |n: &u32| all.get(*n).unwrap().name.to_string();
        let names = |c: &Class| c.interfaces.as_deref().map(|all| all.iter().map(name).collect());
        all.iter().map(|c| (c.name.to_string(), c.superclass.as_ref().map(name), names(c))).collect()
    }
    fn of(
        name: &str,
        superclass: &str,
        interfaces: &[&str],
    ) -> (String, Option<String>, Option<Vec<String>>) {
        let superclass = Some(superclass).filter(|s| !s.is_empty()).map(Into::into);
        (name.into(), superclass, Some(interfaces.iter().map(|i| (*i).into()).collect()))
    }

    #[test]
    fn a_class_refers_to_the_classes_of_its_time() {
        let mut index = MethodIndex::default();
        // Classes that were there when the recording began come in any order.
        index.load_class(Tsc(1), &loaded(0x30, 0x10, &[0x20], 0, "A"));
        index.load_class(Tsc(1), &loaded(0x20, 0x10, &[], 0, "I"));
        index.load_class(Tsc(1), &loaded(0x10, 0, &[], 0, "java/lang/Object"));
        index.load_class(Tsc(5), &loaded(0x40, 0x30, &[0x20], 7, "B"));
        index.unload_class(Tsc(6), 0x40);
        index.unload_class(Tsc(6), 0x30);
        // Another class at the address of A, and one of the same name at that of B.
        index.load_class(Tsc(7), &loaded(0x40, 0x30, &[], 8, "B"));
        index.load_class(Tsc(8), &loaded(0x30, 0x10, &[], 8, "C"));
        // An unknown interface, and a class whose end was not recorded.
        index.load_class(Tsc(9), &loaded(0x50, 0x30, &[0x60], 8, "D"));
        index.load_class(Tsc(9), &loaded(0x50, 0x30, &[], 9, "D"));
        let unknown = ("D".to_owned(), Some("C".to_owned()), None);
        let object = of("java/lang/Object", "", &[]);
        let expected = [
            of("A", "java/lang/Object", &["I"]),
            of("I", "java/lang/Object", &[]),
            object,
            of("B", "A", &["I"]),
            of("B", "C", &[]),
            of("C", "java/lang/Object", &[]),
            unknown,
            of("D", "C", &[]),
        ];
        assert_eq!(hierarchy(&mut index), expected);
        let loads: Vec<_> =
            index.table().classes().iter().map(|c| c.loaded.map(|l| (l.tsc.0, l.tid.0))).collect();
        let seen = |tsc, tid| Some((tsc, tid));
        assert_eq!(loads, [None, None, None, seen(5, 7), seen(7, 8), seen(8, 8), seen(9, 8), seen(9, 9)]);
    }

    #[test]
    fn the_records_of_a_class_are_joined() {
        let mut index = MethodIndex::default();
        let name = || Str::from("A");
        let class =
            ClassLoaded { access_flags: 0x31, flags: class_flags::HIDDEN, ..loaded(1, 0, &[], 7, "A") };
        index.load_class(Tsc(3), &class);
        let defined = ClassDefined {
            klass: 1,
            access_flags: 0x31,
            flags: class_flags::HIDDEN,
            name: name(),
            source_file: "A.java".into(),
            ..ClassDefined::default()
        };
        index.define_class(Tsc(3), &defined);
        // Another recording of the same VM begins.
        index.load_class(Tsc(4), &ClassLoaded { tid: 0, ..class });
        index.define_class(Tsc(4), &defined);
        let method = MethodDefined { method: 2, klass: 1, ..MethodDefined::default() };
        let id = index.define(Tsc(4), method).id;
        let mut threads = Threads::default();
        for started in [0, 2] {
            threads.started(Tsc(started), &ThreadStarted { tid: 7, ..ThreadStarted::default() });
            threads.exited(Tsc(started + 2), &ThreadExited { tid: 7, ..ThreadExited::default() });
        }
        index.finish(&threads);
        let number = index.table().get(id).unwrap().class;
        assert_eq!(index.table().classes().len(), 1);
        let class = index.table().classes().get(number).unwrap();
        assert_eq!((&*class.source_file, class.access_flags, class.hidden), ("A.java", 0x31, true));
        assert_eq!(class.loaded, Some(ClassLoad { tsc: Tsc(3), tid: Tid(7), started: Tsc(2) }));
    }

    /// What captures of older versions do not say is unknown.
    #[test]
    fn a_capture_of_version_2_2() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture/tests/golden/classes-2.2.capture");
        let reader = jportal_capture::CaptureReader::open(path.as_ref()).unwrap();
        let mut index = MethodIndex::default();
        for record in reader.metadata() {
            let stamped = record.unwrap();
            match stamped.record {
                Record::ClassDefined(r) => index.define_class(Tsc(stamped.tsc), &r),
                Record::MethodDefined(r) => assert!(index.define(Tsc(stamped.tsc), r).is_complete),
                other => panic!("{other:?}"),
            }
        }
        index.finish(&Threads::default());
        let table = index.table();
        let method = table.iter().next().unwrap();
        assert_eq!((method.invokes.len(), &method.constants), (1, &None));
        let class = table.classes().get(method.class).unwrap();
        let superclass = class.superclass.and_then(|n| table.classes().get(n)).unwrap();
        assert_eq!((&*class.name, &*superclass.name), ("a/A", "java/lang/Object"));
        assert_eq!((&class.interfaces, class.loaded, table.classes().has_loads()), (&None, None, false));
    }
}
