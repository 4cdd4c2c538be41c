// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Facts of small methods, worked out by hand, and the three ways to write them.

use std::collections::BTreeMap;

use jportal_bytecode::testing::{calls, method, row};
use jportal_bytecode::{Class, Constant, LineRow, Method, MethodTable};
use jportal_units::Bci;
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;

use super::*;
use crate::Error;
use crate::block_trace::example::{self, Files};

fn facts(methods: &MethodTable, format: Format) -> StaticFacts<'_> {
    StaticFacts::new(methods, format, |_| true).unwrap()
}

/// The counts of the blocks of a method.
fn counts(m: Method) -> Vec<BTreeMap<&'static str, u32>> {
    let mut t = MethodTable::default();
    t.push(m);
    let facts = facts(&t, Format::Jbi32);
    let method = facts.methods(&facts.classes()[0]).next().unwrap();
    assert_eq!(method.malformed, None);
    let nonzero = |c: &Counts| c.known().filter(|(_, n)| *n > 0).collect();
    method.blocks.iter().map(|b| nonzero(&b.metrics)).collect()
}

fn of<const N: usize>(pairs: [(&'static str, u32); N]) -> BTreeMap<&'static str, u32> {
    pairs.into_iter().collect()
}

#[test]
fn loads_stores_and_arithmetic() {
    let code = [
        42, 25, 4, // aload_0; aload 4
        46, 50, 53, // iaload; aaload; saload
        79, 83, // iastore; aastore
        96, 97, 98, 99, 115, 116, 118, 119, // iadd ladd fadd dadd drem ineg fneg dneg
        133, 134, 135, 136, 139, 144, 145, // i2l i2f i2d l2i f2i d2f i2b
        148, 149, 152, // lcmp fcmpl dcmpg
        11, 34, 56, 1, // fconst_0; fload_0; fstore 1: no floating point
        196, 25, 0, 9,   // wide aload 9
        177, // return
    ];
    let expected = of([
        ("instructions", 30),
        ("array_reads", 3),
        ("array_writes", 2),
        ("floating_point", 11),
        ("reference_loads", 3),
        ("control", 1),
    ]);
    assert_eq!(counts(method("f", &code)), [expected]);
}

#[test]
fn calls_and_allocations() {
    let code = [
        187, 0, 1, // 0 new
        188, 10, // 3 newarray
        189, 0, 1, // 5 anewarray
        197, 0, 1, 2, // 8 multianewarray
        182, 0, 1, // 12 invokevirtual a/A
        182, 0, 1, // 15 invokevirtual b/B
        183, 0, 1, // 18 invokespecial b/B
        184, 0, 1, // 21 invokestatic a/A
        185, 0, 1, 1, 0, // 24 invokeinterface b/I
        186, 0, 1, 0, 0, // 29 invokedynamic
        178, 0, 1, 181, 0, 1,   // 34 getstatic; 37 putfield
        191, // 40 athrow
    ];
    let invokes = [
        calls(12, "a/A", "f"),
        calls(15, "b/B", "f"),
        calls(18, "b/B", "<init>"),
        calls(21, "a/A", "g"),
        calls(24, "b/I", "f"),
        calls(29, "", "f"),
    ];
    let m = || Method { invokes: invokes.clone().into(), ..method("f", &code) };
    let expected = of([
        ("instructions", 13),
        ("control", 1),
        ("other_class_calls", 3),
        ("allocations", 4),
        ("virtual_calls", 3),
        ("static_calls", 1),
    ]);
    assert_eq!(counts(m()), std::slice::from_ref(&expected));
    let mut unknown = expected;
    unknown.remove("other_class_calls");
    let without_15 = invokes.iter().filter(|i| i.bci != Bci(15)).cloned().collect();
    assert_eq!(counts(Method { invokes: without_15, ..m() }), [unknown], "unknown, not 0");
    let dynamic = Method { invokes: Box::new([]), ..method("f", &[186, 0, 1, 0, 0, 177]) };
    assert_eq!(counts(dynamic), [of([("instructions", 2), ("control", 1)])]);
}

/// A field of the constant pool.
fn field(index: u16, class: &str, descriptor: &str) -> (u16, Constant) {
    let (class_name, name, descriptor) = (class.into(), "f".into(), descriptor.into());
    (index, Constant::Field { class_name, name, descriptor })
}

/// Accesses of fields: by index 1 to 4 own objects, own primitives, other objects, other
/// primitives; one read each, and writes as often as the index says.
fn accesses() -> Method {
    let mut code = Vec::new();
    for index in 1..=4 {
        code.extend([178 + 2 * (index & 1), 0, index]);
        for n in 0..index {
            code.extend([179 + 2 * (n & 1), 0, index]);
        }
    }
    code.push(177);
    let all = [field(1, "a/A", "La/B;"), field(2, "a/A", "J"), field(3, "a/B", "[I"), field(4, "a/B", "Z")];
    Method { constants: Some(all.into()), ..method("f", &code) }
}

#[test]
fn accesses_of_fields() {
    let known = of([
        ("instructions", 15),
        ("control", 1),
        ("own_object_reads", 1),
        ("own_object_writes", 1),
        ("own_primitive_reads", 1),
        ("own_primitive_writes", 2),
        ("other_object_reads", 1),
        ("other_object_writes", 3),
        ("other_primitive_reads", 1),
        ("other_primitive_writes", 4),
    ]);
    assert_eq!(counts(accesses()), std::slice::from_ref(&known));
    let mut unknown = known;
    unknown.retain(|name, _| !name.contains("_reads") && !name.contains("_writes"));
    let without_3 = Some([field(1, "a/A", "I"), field(2, "a/A", "I"), field(4, "a/A", "I")].into());
    assert_eq!(counts(Method { constants: without_3, ..accesses() }), std::slice::from_ref(&unknown));
    assert_eq!(counts(Method { constants: None, ..accesses() }), [unknown], "unknown, not 0");
}

/// A class, an interface and their superclass; the class has the field accesses, and its loader
/// describes what it extends.
fn hierarchy() -> MethodTable {
    let class = |number, name: &str, superclass, interfaces: Option<&[u32]>| Class {
        number,
        name: name.into(),
        access_flags: 0x20 + number,
        superclass,
        interfaces: interfaces.map(Into::into),
        ..Class::default()
    };
    let mut t = MethodTable::default();
    t.push(Method { class: 1, class_name: "java/lang/Object".into(), ..method("g", &[177]) });
    t.push(Method { class: 4, ..accesses() });
    t.push(Method { class: 5, class_name: "a/Unknown".into(), ..method("h", &[177]) });
    t.set_classes(
        [
            class(1, "java/lang/Object", None, Some(&[])),
            class(2, "a/I", Some(1), Some(&[])),
            class(3, "a/J", Some(1), None),
            class(4, "a/A", Some(1), Some(&[3, 2])),
        ]
        .into_iter()
        .collect(),
    );
    t
}

#[test]
fn classes_have_superclasses_flags_and_interfaces() {
    let t = hierarchy();
    let facts = facts(&t, Format::Jbi32);
    let shown: Vec<_> =
        facts.classes().iter().map(|c| (c.superclass, c.flags, c.interfaces.as_deref())).collect();
    let object = Some("java/lang/Object");
    assert_eq!(
        shown,
        [(None, Some(0x21), Some(&[][..])), (object, Some(0x24), Some(&["a/J", "a/I"])), (None, None, None)]
    );
    let mut out = Vec::new();
    facts.write_xml(&mut out).unwrap();
    let all = parsed(&out);
    let classes: Vec<_> = all.iter().filter(|(name, _)| name == "class").map(|(_, a)| a).collect();
    assert_eq!((classes[1]["super"].as_str(), classes[1]["flags"].as_str()), ("java/lang/Object", "36"));
    assert_eq!((classes[0]["interfaces"].as_str(), classes[1]["interfaces"].as_str()), ("", "a/J a/I"));
    assert!(!classes[0].contains_key("super") && !classes[2].contains_key("interfaces"));
    let blocks: Vec<_> = all.iter().filter(|(name, _)| name == "basic_block").map(|(_, a)| a).collect();
    assert_eq!(blocks[1]["metrics"], "15 0 0 0 0 1 0 1 1 1 2 1 3 1 4 0 0 0 0");
    assert_eq!(blocks[2]["metrics"], "1 0 0 0 0 1 0 - - - - - - - - 0 0 0 0");
    let files = Files::default();
    facts.write_csv(|name| Ok(files.create(name))).unwrap();
    let text = |name: &str| String::from_utf8(files.get(name)).unwrap();
    let expected = "id,name,loader,source,super,flags,interfaces\n\
                    1,java/lang/Object,app,A.java,,33,\n\
                    4,a/A,app,A.java,java/lang/Object,36,a/J a/I\n\
                    5,a/Unknown,app,A.java,,,\n";
    assert_eq!(text("classes.csv"), expected);
    let blocks = text("blocks.csv");
    assert!(blocks.lines().next().is_some_and(|l| l.ends_with(&NAMES.join(","))), "{blocks}");
    assert!(blocks.contains(",15,0,0,0,0,1,0,1,1,1,2,1,3,1,4,0,0,0,0\n"), "{blocks}");
    assert!(blocks.contains(",1,0,0,0,0,1,0,,,,,,,,,0,0,0,0\n"), "{blocks}");
    let mut out = Vec::new();
    facts.write_json(&mut out).unwrap();
    let all: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(all["classes"][1]["super"], "java/lang/Object");
    assert_eq!(all["classes"][1]["interfaces"], serde_json::json!(["a/J", "a/I"]));
    assert!(all["classes"][2].get("flags").is_none() && all["classes"][2].get("interfaces").is_none());
    let old: ClassTable = t.classes().iter().map(|c| Class { interfaces: None, ..c.clone() }).collect();
    let mut t = t.clone();
    t.set_classes(old);
    let files = Files::default();
    self::facts(&t, Format::Jbi32).write_csv(|name| Ok(files.create(name))).unwrap();
    let text = String::from_utf8(files.get("classes.csv")).unwrap();
    assert!(
        text.starts_with("id,name,loader,source,super,flags\n1,java/lang/Object,app,A.java,,33\n"),
        "{text}"
    );
}

#[test]
fn ways_that_can_change() {
    // 0 iload_0; 1 ifeq 4; 4 iload_0; 5 ifne 0; 8 goto 11; 11 tableswitch {0: 28, default: 28}.
    let mut code = vec![26, 153, 0, 3, 26, 154, 0xff, 0xfb, 167, 0, 3, 170];
    for word in [17i32, 0, 0, 17] {
        code.extend(word.to_be_bytes());
    }
    // 28 lookupswitch {5: 48, default: 49}; 48 return; 49 return.
    code.extend([171, 0, 0, 0]);
    for word in [21i32, 1, 5, 20] {
        code.extend(word.to_be_bytes());
    }
    code.extend([177, 177]);
    let block = |n| of([("instructions", n), ("control", 1)]);
    let changing = |n| of([("instructions", n), ("control", 1), ("changing_control", 1)]);
    let expected = [block(2), changing(2), block(1), block(1), changing(1), block(1), block(1)];
    assert_eq!(counts(method("f", &code)), expected);
}

#[test]
fn counts_without_a_source_are_absent() {
    let c = Counts::none(false);
    assert_eq!(c.known().count(), 11);
    assert_eq!(c.text(), "0 0 0 0 0 0 0 - - - - - - - - 0 0 0 0");
    assert_eq!(Counts::none(true).known().count(), 19);
    let names: Vec<&str> = NAMES[counts::OF_FIELDS].to_vec();
    assert!(names.iter().all(|n| n.ends_with("reads") || n.ends_with("writes")), "{names:?}");
}

/// `f`: 0 nop; 1 nop; 2 goto 6; 5 athrow(handler); 6 return. Covered: 0 to 2 by 5 for `E`, all
/// before 5 by 5 for anything.
fn covered() -> MethodTable {
    let exceptions = [row(0, 2, 5, Some("a/E")), row(0, 5, 5, None)];
    let lines = [LineRow { bci: Bci(1), line: 10 }, LineRow { bci: Bci(6), line: 12 }];
    let m = || Method {
        class: 3,
        exceptions: exceptions.clone().into(),
        lines: lines.into(),
        ..method("f", &[0, 0, 167, 0, 4, 191, 177])
    };
    let mut t = MethodTable::default();
    t.push(Method { class_name: "a/<\"&B\n".into(), name: "other".into(), class: 2, ..m() });
    t.push(m());
    t.push(Method { code: [202].into(), name: "bad".into(), ..m() });
    t.push(m());
    t.push(Method { code: [].into(), access_flags: 0x100, name: "n".into(), exceptions: [].into(), ..m() });
    t
}

#[test]
fn blocks_handlers_lines_and_versions() {
    let t = covered();
    let facts = facts(&t, Format::Jbi32);
    assert_eq!(facts.classes().iter().map(|c| (c.id, c.methods.len())).collect::<Vec<_>>(), [(2, 1), (3, 4)]);
    let methods: Vec<MethodFacts<'_>> = facts.methods(&facts.classes()[1]).collect();
    let f = &methods[0];
    assert_eq!((f.number, f.id, f.code_bytes, f.instructions()), (1, 1 << 11, 7, 5));
    assert_eq!(f.version.map(|v| (v.number, v.of)), Some((1, 2)));
    assert_eq!(methods[2].version.map(|v| (v.number, v.of)), Some((2, 2)));
    let extents: Vec<_> = f.blocks.iter().map(|b| (b.id & 2047, b.number, b.bci, b.end, b.line)).collect();
    let line = |n| Some(n);
    assert_eq!(extents, [(0, 0, 0, 5, None), (1, 1, 5, 6, line(10)), (2, 2, 6, 7, line(12))]);
    let handler = f.id | 1;
    let e = HandlerFacts { block: handler, from: 0, to: 2, catch_type: Some("a/E") };
    assert_eq!(f.blocks[0].handlers, [e, HandlerFacts { to: 5, catch_type: None, ..e }]);
    assert!(f.blocks[1].handlers.is_empty());
    assert!(methods[1].malformed.as_deref().is_some_and(|m| m.contains("opcode 202")));
    assert!(methods[1].blocks.is_empty() && methods[3].blocks.is_empty() && methods[3].malformed.is_none());
    assert_eq!(facts.len(), 5);
    let executed = StaticFacts::new(&t, Format::Jbi32, |m| m.id.get() == 3).unwrap();
    assert_eq!((executed.len(), executed.classes()[0].methods[0].get()), (1, 3));
    let none = StaticFacts::new(&t, Format::Jbi32, |_| false).unwrap();
    assert!(none.is_empty());
}

#[test]
fn a_handler_covers_parts_of_blocks() {
    let mut t = MethodTable::default();
    t.push(Method {
        exceptions: Box::new([row(1, 7, 5, None)]),
        ..method("f", &[0, 0, 167, 0, 4, 191, 177])
    });
    let facts = facts(&t, Format::Jbi32);
    let f = facts.methods(&facts.classes()[0]).next().unwrap();
    let parts: Vec<_> = f.blocks.iter().flat_map(|b| &b.handlers).map(|h| (h.block, h.from, h.to)).collect();
    assert_eq!(parts, [(1, 1, 5), (1, 5, 6), (1, 6, 7)]);
}

#[test]
fn too_many_blocks_for_the_numbers() {
    let mut t = MethodTable::default();
    let code: Vec<u8> = [167, 0, 3].repeat(2048).into_iter().chain([177]).collect();
    t.push(method("large", &code));
    assert!(matches!(StaticFacts::new(&t, Format::Jbi32, |_| true), Err(Error::TooManyBlocks { .. })));
    assert_eq!(facts(&t, Format::Jbi64).methods(&facts(&t, Format::Jbi64).classes()[0]).count(), 1);
}

/// The elements of an XML file in order: name and attributes.
fn parsed(xml: &[u8]) -> Vec<(String, BTreeMap<String, String>)> {
    let mut reader = Reader::from_reader(xml);
    let (mut all, mut buffer, mut depth) = (Vec::new(), Vec::new(), 0);
    loop {
        match reader.read_event_into(&mut buffer).unwrap() {
            Event::Start(tag) => {
                depth += 1;
                all.push(element(&tag));
            }
            Event::Empty(tag) => all.push(element(&tag)),
            Event::End(_) => depth -= 1,
            Event::Eof => break,
            _ => {}
        }
        buffer.clear();
    }
    assert_eq!(depth, 0);
    all
}

fn element(tag: &quick_xml::events::BytesStart<'_>) -> (String, BTreeMap<String, String>) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let attribute = |a: quick_xml::events::attributes::Attribute<'_>| {
        (text(a.key.as_ref()), a.unescape_value().unwrap().into_owned())
    };
    (text(tag.name().as_ref()), tag.attributes().map(|a| attribute(a.unwrap())).collect())
}

#[test]
fn xml_is_read_back() {
    let t = covered();
    let mut out = Vec::new();
    facts(&t, Format::Jbi32).write_xml(&mut out).unwrap();
    let all = parsed(&out);
    assert_eq!((all[0].0.as_str(), all[0].1["format"].as_str()), ("program", "jbi32"));
    assert_eq!(all[1].1["name"], "a/<\"&B\\n");
    let blocks: Vec<_> = all.iter().filter(|(name, _)| name == "basic_block").collect();
    assert_eq!(blocks.len(), 9);
    let first = &blocks[3].1;
    assert_eq!((first["id"].as_str(), first["bci"].as_str(), first["end"].as_str()), ("2048", "0", "5"));
    assert_eq!(first["metrics"], "3 0 0 0 0 1 0 - - - - - - - - 0 0 0 0");
    assert_eq!((first["instructions"].as_str(), first["control"].as_str()), ("3", "1"));
    assert!(!first.contains_key("own_object_reads") && !first.contains_key("line"));
    let handlers: Vec<_> = all.iter().filter(|(name, _)| name == "exception_handler").collect();
    assert_eq!(handlers.len(), 6);
    assert_eq!((handlers[2].1["basic_block_id"].as_str(), handlers[2].1["type"].as_str()), ("2049", "a/E"));
    assert!(!handlers[3].1.contains_key("type"));
    if let Some(path) = std::env::var_os("JPORTAL_STATIC_XML") {
        std::fs::write(path, out).unwrap();
    }
}

#[test]
fn xml_has_call_sites() {
    let t = example::methods();
    let mut out = Vec::new();
    facts(&t, Format::Jbi64).write_xml(&mut out).unwrap();
    let all = parsed(&out);
    let calls: Vec<_> = all.iter().filter(|(name, _)| name == "call_site").map(|(_, a)| a).collect();
    let shown: Vec<_> =
        calls.iter().map(|a| (a["call"].as_str(), a["type"].as_str(), a["bci"].as_str())).collect();
    let expected = [
        ("java/lang/Object.<init>()V", "invokespecial", "1"),
        ("Foo.<init>()V", "invokespecial", "4"),
        ("Foo.f()V", "invokevirtual", "7"),
        ("Foo.h()V", "invokevirtual", "9"),
        ("Foo.g(I)V", "invokevirtual", "14"),
        ("Foo.h()V", "invokevirtual", "8"),
    ];
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(sorted, wanted);
    if let Some(path) = std::env::var_os("JPORTAL_STATIC_XML64") {
        std::fs::write(path, out).unwrap();
    }
}

#[test]
fn the_schema_names_all_counts() {
    for (n, name) in NAMES.iter().enumerate() {
        let required = if counts::OF_FIELDS.contains(&n) || n == 15 { "" } else { " use=\"required\"" };
        let line = format!("<xs:attribute name=\"{name}\" type=\"xs:unsignedInt\"{required}/>");
        assert!(XSD.contains(&line), "{line}");
    }
}

#[test]
fn csv_has_five_files_without_unknown_columns() {
    let t = covered();
    let files = Files::default();
    facts(&t, Format::Jbi32).write_csv(|name| Ok(files.create(name))).unwrap();
    assert_eq!(files.names(), ["blocks.csv", "call_sites.csv", "classes.csv", "handlers.csv", "methods.csv"]);
    let text = |name: &str| String::from_utf8(files.get(name)).unwrap();
    let blocks = text("blocks.csv");
    let head = "id,method_id,number,bci,end,line,instructions,array_reads,array_writes,floating_point,\
                reference_loads,control,changing_control,other_class_calls,allocations,virtual_calls,\
                static_calls";
    assert_eq!(blocks.lines().next(), Some(head));
    assert_eq!(blocks.lines().nth(4), Some("2048,2048,0,0,5,,3,0,0,0,0,1,0,0,0,0,0"));
    assert_eq!(text("handlers.csv").lines().nth(4), Some("2048,2049,,0,5"));
    assert_eq!(text("classes.csv").lines().nth(1), Some("2,\"a/<\"\"&B\\n\",app,A.java"));
    assert!(text("methods.csv").contains("opcode 202"));
    let t = example::methods();
    let files = Files::default();
    facts(&t, Format::Jbi32).write_csv(|name| Ok(files.create(name))).unwrap();
    let calls = String::from_utf8(files.get("call_sites.csv")).unwrap();
    assert!(calls.lines().any(|l| l == "4098,9,invokevirtual,Foo,h,()V"), "{calls}");
}

#[test]
fn json_is_read_back() {
    let t = covered();
    let mut out = Vec::new();
    facts(&t, Format::Jbi32).write_json(&mut out).unwrap();
    let all: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(all["classes"][0]["name"], "a/<\"&B\n");
    let f = &all["classes"][1]["methods"][0];
    assert_eq!((&f["id"], &f["version"]["of"]), (&2048.into(), &2.into()));
    assert_eq!(f["blocks"][0]["metrics"]["instructions"], 3);
    assert!(f["blocks"][0]["metrics"].get("own_object_reads").is_none());
    assert_eq!(f["blocks"][0]["handlers"][0]["type"], "a/E");
    assert!(f["blocks"][0]["handlers"][1].get("type").is_none());
    let large = HandlerFacts { block: (1 << 53) + 1, from: 0, to: 1, catch_type: None };
    let text = serde_json::to_string(&[large, HandlerFacts { block: 1 << 53, ..large }]).unwrap();
    let expected = "[{\"block\":\"9007199254740993\",\"from\":0,\"to\":1},\
                    {\"block\":9007199254740992,\"from\":0,\"to\":1}]";
    assert_eq!(text, expected);
}
