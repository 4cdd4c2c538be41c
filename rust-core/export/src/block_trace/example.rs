// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The program `Foo` as javac compiles it, and its flow:
//!
//! ```java
//! void f() { for (int i = 1; i <= 10; ++i) { h(); g(i); } }
//! void g(int i) { for (int j = 1; j <= i; ++j) h(); }
//! void h() { }
//! public static void main(String[] a) { new Foo().f(); }
//! ```

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use jportal_bytecode::{InvokeRef, LineRow, Method, MethodTable};
use jportal_flow::testing::enter_as;
use jportal_flow::{Entry, Event, EventKind, Exit, Tier};
use jportal_units::{Bci, MethodId};

pub(crate) const MAIN: u32 = 0;
pub(crate) const INIT: u32 = 1;
pub(crate) const F: u32 = 2;
pub(crate) const G: u32 = 3;
pub(crate) const H: u32 = 4;
pub(crate) const OBJECT: u32 = 5;

/// `0 iconst_1; 1 istore_1; 2 iload_1; 3 bipush 10; 5 if_icmpgt 23; 8 aload_0; 9 h; 12 aload_0;
/// 13 iload_1; 14 g; 17 iinc; 20 goto 2; 23 return`.
const F_CODE: &[u8] =
    &[4, 60, 27, 16, 10, 163, 0, 18, 42, 182, 0, 0, 42, 27, 182, 0, 0, 132, 1, 1, 167, 0xff, 0xee, 177];
/// `0 iconst_1; 1 istore_2; 2 iload_2; 3 iload_1; 4 if_icmpgt 17; 7 aload_0; 8 h; 11 iinc;
/// 14 goto 2; 17 return`.
const G_CODE: &[u8] = &[4, 61, 28, 27, 163, 0, 13, 42, 182, 0, 0, 132, 2, 1, 167, 0xff, 0xf4, 177];

fn call(bci: u16, class: &str, name: &str, signature: &str) -> InvokeRef {
    let (class_name, name, signature) = (class.into(), name.into(), signature.into());
    InvokeRef { bci: Bci(bci), class_name, name, signature }
}

/// The methods of `Foo`, and `Object.<init>`.
pub(crate) fn methods() -> Arc<MethodTable> {
    let method = |name: &str, signature: &str, code: &[u8], invokes: Vec<InvokeRef>| Method {
        class: 7,
        class_name: "Foo".into(),
        loader: "app".into(),
        source_file: "Foo.java".into(),
        name: name.into(),
        signature: signature.into(),
        code: code.into(),
        invokes: invokes.into(),
        lines: Box::new([LineRow { bci: Bci(0), line: 2 }]),
        ..Method::default()
    };
    let object = call(1, "java/lang/Object", "<init>", "()V");
    let mains = vec![call(4, "Foo", "<init>", "()V"), call(7, "Foo", "f", "()V")];
    let main = method("main", "([Ljava/lang/String;)V", &[187, 0, 0, 89, 183, 0, 0, 182, 0, 0, 177], mains);
    let h = || call(9, "Foo", "h", "()V");
    let mut t = MethodTable::default();
    t.push(Method { access_flags: 9, ..main });
    t.push(method("<init>", "()V", &[42, 183, 0, 0, 177], vec![object]));
    t.push(method("f", "()V", F_CODE, vec![h(), call(14, "Foo", "g", "(I)V")]));
    t.push(method("g", "(I)V", G_CODE, vec![InvokeRef { bci: Bci(8), ..h() }]));
    t.push(method("h", "()V", &[177], vec![]));
    let (class_name, loader) = ("java/lang/Object".into(), "".into());
    t.push(Method { class: 1, class_name, loader, ..method("<init>", "()V", &[177], vec![]) });
    Arc::new(t)
}

/// A flow, with runs or with single bytecodes.
pub(crate) struct Flow {
    pub(crate) events: Vec<Event>,
    runs: bool,
}

impl Flow {
    pub(crate) fn new(runs: bool) -> Self {
        Self { events: Vec::new(), runs }
    }
    /// Consecutive bytecodes.
    pub(crate) fn at(&mut self, method: u32, bcis: &[u16]) {
        let (method, tier, len) = (MethodId(method), Tier::Interpreter, bcis.len() as u16);
        match bcis {
            [first, .., last] if self.runs => {
                let (first, last) = (Bci(*first), Bci(*last));
                self.events.push(Event::decoded(EventKind::Run { method, first, last, len, tier }));
            }
            _ => self.events.extend(
                bcis.iter().map(|bci| Event::decoded(EventKind::Bytecode { method, bci: Bci(*bci), tier })),
            ),
        }
    }
    fn begin(&mut self, method: u32) {
        self.events.push(enter_as(method, Entry::Call));
    }
    fn end(&mut self, method: u32) {
        let (method, exit) = (MethodId(method), Exit::Return);
        self.events.push(Event::decoded(EventKind::Leave { method, exit }));
    }
    fn h(&mut self) {
        self.begin(H);
        self.at(H, &[0]);
        self.end(H);
    }
    fn g(&mut self, i: u32) {
        self.begin(G);
        let mut entry: &[u16] = &[0, 1, 2, 3, 4];
        for _ in 0..i {
            // The run ends at the call, and reaches over the leader at 7.
            self.at(G, &[entry, &[7, 8]].concat());
            self.h();
            self.at(G, &[11, 14]);
            entry = &[2, 3, 4];
        }
        self.at(G, entry);
        self.at(G, &[17]);
        self.end(G);
    }
    fn f(&mut self) {
        self.begin(F);
        let mut entry: &[u16] = &[0, 1, 2, 3, 5];
        for i in 1..=10 {
            self.at(F, &[entry, &[8, 9]].concat());
            self.h();
            self.at(F, &[12, 13, 14]);
            self.g(i);
            self.at(F, &[17, 20]);
            entry = &[2, 3, 5];
        }
        self.at(F, entry);
        self.at(F, &[23]);
        self.end(F);
    }
}

/// The whole flow of `main`: 624 bytecodes of `Foo`, and one of `Object`.
pub(crate) fn flow(runs: bool) -> Vec<Event> {
    let mut flow = Flow::new(runs);
    flow.events.push(enter_as(MAIN, Entry::Upcall));
    flow.at(MAIN, &[0, 3, 4]);
    flow.begin(INIT);
    flow.at(INIT, &[0, 1]);
    flow.begin(OBJECT);
    flow.at(OBJECT, &[0]);
    flow.end(OBJECT);
    flow.at(INIT, &[4]);
    flow.end(INIT);
    flow.at(MAIN, &[7]);
    flow.f();
    flow.at(MAIN, &[10]);
    flow.end(MAIN);
    flow.events
}

/// Files in memory, by name.
#[derive(Clone, Default)]
pub(crate) struct Files(pub(crate) Arc<Mutex<std::collections::BTreeMap<String, Vec<u8>>>>);

impl Files {
    pub(crate) fn create(&self, name: &str) -> Box<dyn Write + Send> {
        self.0.lock().unwrap().insert(name.to_owned(), Vec::new());
        Box::new(File(self.clone(), name.to_owned()))
    }
    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        self.0.lock().unwrap().get(name).unwrap_or_else(|| panic!("no file {name}")).clone()
    }
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

struct File(Files, String);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap().get_mut(&self.1).unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
