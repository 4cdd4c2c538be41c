// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The names of classes and methods in reports.
//!
//! A method is named by its class, loader, name, descriptor and, if its class was redefined,
//! version. Some names contain parts that differ from run to run: the numbers and addresses of
//! lambdas, hidden classes, proxies and accessors. [`stable`] removes these parts, so that two
//! runs can be compared. Methods whose names become equal are added up.

use std::borrow::Cow;

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable};
use jportal_units::MethodId;
use serde::{Deserialize, Serialize};

/// How methods are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// Whether parts of names that differ from run to run are removed.
    pub stable: bool,
    /// Whether the versions of a redefined method count as one method.
    pub merge_versions: bool,
}

/// The version of a redefined method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// The number, from 1, in order of definition.
    pub number: u32,
    /// The number of versions.
    pub of: u32,
}

/// A method as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    /// Binary name of the class (`java.lang.Object`).
    pub(crate) class: String,
    /// Loader, empty for the boot loader.
    pub(crate) loader: String,
    /// Name and descriptor.
    pub(crate) method: String,
    /// Set if there are several versions.
    pub(crate) version: Option<Version>,
}

impl Name {
    /// `class.name(descriptor)`.
    pub(crate) fn qualified(&self) -> String {
        format!("{}.{}", self.class, self.method)
    }
}

/// `class.name` of a method, without descriptor, and without what differs from run to run: all that
/// most profilers know of it.
pub(crate) fn class_and_name(m: &Method) -> String {
    format!("{}.{}", stable(&m.class_name.replace('/', ".")), m.name)
}

/// ` [version 1 of 2]` if there are several versions, otherwise empty.
pub(crate) fn version_text(version: Option<Version>) -> String {
    version.map_or_else(String::new, |v| format!(" [version {} of {}]", v.number, v.of))
}

/// For each method the first one of the same name. Methods of one name are one target, and their
/// sites are one.
#[derive(Debug, Default)]
pub(crate) struct FirstOfName(
    /// By method; empty if all names differ.
    Box<[MethodId]>,
);

impl FirstOfName {
    /// For the methods of one recording.
    pub(crate) fn new(methods: &MethodTable, naming: Naming) -> Self {
        if naming == Naming::default() {
            return Self::default();
        }
        let names = Names::new(methods, naming);
        let mut firsts = HashMap::new();
        Self(methods.iter().map(|m| *firsts.entry(names.of(m)).or_insert(m.id)).collect())
    }
    /// The first method of the name that `method` has.
    pub(crate) fn of(&self, method: MethodId) -> MethodId {
        self.0.get(method.get() as usize).copied().unwrap_or(method)
    }
}

/// The names of a recording's methods.
#[derive(Debug)]
pub struct Names<'a> {
    methods: &'a MethodTable,
    naming: Naming,
    /// The versions of redefined methods.
    versions: HashMap<MethodId, Version>,
}

impl<'a> Names<'a> {
    /// For the methods of one recording.
    pub fn new(methods: &'a MethodTable, naming: Naming) -> Self {
        let mut same: HashMap<(u32, &str, &str, &str), Vec<MethodId>> = HashMap::new();
        for m in methods.iter() {
            let class = methods.first_version(m.class);
            same.entry((class, &m.class_name, &m.name, &m.signature)).or_default().push(m.id);
        }
        let mut versions = HashMap::new();
        for ids in same.values().filter(|ids| ids.len() > 1) {
            let of = ids.len() as u32;
            versions.extend((1..).zip(ids).map(|(number, id)| (*id, Version { number, of })));
        }
        Self { methods, naming, versions }
    }
    /// The version of the method, if there are several, regardless of the naming.
    pub fn version(&self, id: MethodId) -> Option<Version> {
        self.versions.get(&id).copied()
    }
    pub(crate) fn of(&self, m: &Method) -> Name {
        let shown = |name: &str| match self.naming.stable {
            true => stable(name).into_owned(),
            false => name.to_owned(),
        };
        Name {
            class: shown(&m.class_name.replace('/', ".")),
            loader: shown(&m.loader),
            method: format!("{}{}", m.name, m.signature),
            version: self.version(m.id).filter(|_| !self.naming.merge_versions),
        }
    }
    /// Like `of`, for a method that may be unknown.
    pub(crate) fn get(&self, id: MethodId) -> Name {
        let unknown = || Name {
            class: String::new(),
            loader: String::new(),
            method: "(unknown)".to_owned(),
            version: None,
        };
        self.methods.get(id).map_or_else(unknown, |m| self.of(m))
    }
}

/// Parts of names that are followed by a number that differs from run to run.
const NUMBERED: [&str; 6] = [
    "$$Lambda$",
    "GeneratedMethodAccessor",
    "GeneratedConstructorAccessor",
    "GeneratedSerializationConstructorAccessor",
    "$Proxy",
    "jdk.proxy",
];

/// The name of a class or loader without the parts that differ from run to run: the address of
/// a hidden class (`Main$$Lambda$14+0x…`), the numbers of lambdas, accessors and proxies, and
/// the identity of a loader (`app.Loader @1b2c`) and of a class without a name.
pub fn stable(name: &str) -> Cow<'_, str> {
    let mut name = Cow::Borrowed(name);
    for mark in ["+0x", "/0x", ".0x", "@0x", " @"] {
        let Some((head, tail)) = name.rsplit_once(mark) else { continue };
        if !tail.is_empty() && tail.bytes().all(|b| b.is_ascii_hexdigit()) {
            name = Cow::Owned(head.to_owned());
        }
    }
    for mark in NUMBERED {
        if let Some(at) = name.find(mark) {
            let end = at + mark.len();
            let digits = name[end..].bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                // `$$Lambda$14` becomes `$$Lambda`.
                let kept = if mark == "$$Lambda$" { end - 1 } else { end };
                name = Cow::Owned(format!("{}{}", &name[..kept], &name[end + digits..]));
            }
        }
    }
    name
}

/// The parts of `class.name(descriptor)`: class, name, descriptor. `None` for other texts.
///
/// A name of Java code has no parentheses, but the JVM allows them in names of classes and
/// methods. The descriptor is the longest tail of the text that has the form of one.
pub fn split_qualified(name: &str) -> Option<(&str, &str, &str)> {
    let start = name.match_indices('(').map(|(at, _)| at).find(|&at| is_descriptor(&name[at..]))?;
    let (class, method) = name[..start].rsplit_once('.')?;
    (!class.is_empty() && !method.is_empty()).then_some((class, method, &name[start..]))
}

/// Whether a text has the form of a method's descriptor (JVMS 4.3.3).
fn is_descriptor(text: &str) -> bool {
    let Some(mut rest) = text.strip_prefix('(') else { return false };
    while !rest.starts_with(')') {
        let Some(after) = after_type(rest) else { return false };
        rest = after;
    }
    matches!(&rest[1..], "V") || after_type(&rest[1..]) == Some("")
}

/// The text after the field type with which `text` begins (JVMS 4.3.2).
fn after_type(text: &str) -> Option<&str> {
    let text = text.trim_start_matches('[');
    match text.as_bytes().first()? {
        b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'Z' => Some(&text[1..]),
        b'L' => text.split_once(';').map(|(_, rest)| rest),
        _ => None,
    }
}

/// [`stable`] for `class.name(descriptor)`. Other texts are returned as they are.
pub fn stable_qualified(name: &str) -> Cow<'_, str> {
    let Some((class, ..)) = split_qualified(name) else { return Cow::Borrowed(name) };
    match stable(class) {
        Cow::Borrowed(_) => Cow::Borrowed(name),
        Cow::Owned(kept) => Cow::Owned(format!("{kept}{}", &name[class.len()..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::method;

    #[test]
    fn qualified_names_are_split_at_their_descriptors() {
        for (name, parts) in [
            ("a.B.f(I)I", ("a.B", "f", "(I)I")),
            ("B.<init>()V", ("B", "<init>", "()V")),
            ("a.B.f([[Ljava/lang/String;J)[I", ("a.B", "f", "([[Ljava/lang/String;J)[I")),
            ("a.B.in (round) brackets(Z)V", ("a.B", "in (round) brackets", "(Z)V")),
            ("a.B.f(La/odd(I)I;)V", ("a.B", "f", "(La/odd(I)I;)V")),
            ("M$$Lambda$4.0x08.run()V", ("M$$Lambda$4.0x08", "run", "()V")),
        ] {
            assert_eq!(split_qualified(name), Some(parts), "{name}");
        }
        for text in
            ["", "(VM)", "(unknown)", "a.B", "f()V", ".f()V", "a.B.()V", "a.B.f(I", "a.B.f()", "a.B.f(L)V"]
        {
            assert_eq!(split_qualified(text), None, "{text}");
        }
        assert_eq!(stable_qualified("M$$Lambda$4.0x08.run()V"), "M$$Lambda.run()V");
        assert_eq!(stable_qualified("M$$Lambda$9/0x0f.run()V"), "M$$Lambda.run()V");
        assert_eq!(stable_qualified("(library)"), "(library)");
    }

    #[test]
    fn what_a_run_makes_up_is_taken_away() {
        for (given, kept) in [
            ("Main$$Lambda$14+0x0000000800c01208", "Main$$Lambda"),
            ("Main$$Lambda$14/0x0000000800c01208", "Main$$Lambda"),
            ("java.lang.invoke.LambdaForm$MH+0x0000000800c03400", "java.lang.invoke.LambdaForm$MH"),
            ("jdk.internal.reflect.GeneratedMethodAccessor7", "jdk.internal.reflect.GeneratedMethodAccessor"),
            (
                "jdk.internal.reflect.GeneratedSerializationConstructorAccessor12",
                "jdk.internal.reflect.GeneratedSerializationConstructorAccessor",
            ),
            ("jdk.proxy2.$Proxy13", "jdk.proxy.$Proxy"),
            ("com.sun.proxy.$Proxy3", "com.sun.proxy.$Proxy"),
            ("app.Loader @5ef04b5", "app.Loader"),
            ("klass@0x7f00", "klass"),
            ("java.lang.Object", "java.lang.Object"),
            ("a.Outer$Inner$1", "a.Outer$Inner$1"),
            ("a.Box+0xyz", "a.Box+0xyz"),
            ("", ""),
        ] {
            assert_eq!(stable(given), kept, "{given}");
        }
    }

    #[test]
    fn versions_are_numbered_and_merged_when_asked_for() {
        let mut t = MethodTable::default();
        for (class, name) in [(1, "f"), (1, "g"), (1, "f"), (2, "f"), (3, "f")] {
            t.push(Method { class, ..method("a/B", name, &[177]) });
        }
        // Redefinition has exchanged methods of these classes.
        t.join_versions(1, 3);
        let named = |naming| {
            let names = Names::new(&t, naming);
            t.iter()
                .map(|m| names.of(m))
                .map(|n| n.qualified() + &version_text(n.version))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            named(Naming::default()),
            [
                "a.B.f(I)I [version 1 of 3]",
                "a.B.g(I)I",
                "a.B.f(I)I [version 2 of 3]",
                "a.B.f(I)I",
                "a.B.f(I)I [version 3 of 3]"
            ],
            "a class of the same name is another class"
        );
        let merged = named(Naming { merge_versions: true, stable: false });
        assert_eq!(merged, ["a.B.f(I)I", "a.B.g(I)I", "a.B.f(I)I", "a.B.f(I)I", "a.B.f(I)I"]);
    }
}
