// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What reports call classes and methods.
//!
//! A method is named by its class, its loader, name, descriptor and, where its class was redefined, version. Some names
//! are made up by a run: the numbers and addresses of lambdas, hidden classes, proxies and accessors. [`stable`] takes
//! these parts away, so that two runs can be compared; methods that fall together are added up.

use std::borrow::Cow;

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable};
use jportal_units::MethodId;
use serde::Serialize;

/// How methods are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// Without what a run makes up.
    pub stable: bool,
    /// The versions of a redefined method are one.
    pub merge_versions: bool,
}

/// Which of the versions of a redefined method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Version {
    /// From 1 on, in order of definition.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

/// A method as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    /// Binary name of the class (`java.lang.Object`).
    pub(crate) class: String,
    /// Loader, empty for boot.
    pub(crate) loader: String,
    /// Name and descriptor.
    pub(crate) method: String,
    /// Set where there are several.
    pub(crate) version: Option<Version>,
}

impl Name {
    /// `class.name(descriptor)`.
    pub(crate) fn qualified(&self) -> String {
        format!("{}.{}", self.class, self.method)
    }
}

/// ` [version 1 of 2]` where there are several.
pub(crate) fn version_text(version: Option<Version>) -> String {
    version.map_or_else(String::new, |v| format!(" [version {} of {}]", v.number, v.of))
}

/// The names of a recording's methods.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    methods: &'a MethodTable,
    naming: Naming,
    /// Of redefined methods.
    versions: HashMap<MethodId, Version>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(methods: &'a MethodTable, naming: Naming) -> Self {
        let mut same: HashMap<(u32, &str, &str, &str), Vec<MethodId>> = HashMap::new();
        for m in methods.iter() {
            same.entry((m.class, &m.class_name, &m.name, &m.signature)).or_default().push(m.id);
        }
        let mut versions = HashMap::new();
        for ids in same.values().filter(|ids| ids.len() > 1) {
            let of = ids.len() as u32;
            versions.extend((1..).zip(ids).map(|(number, id)| (*id, Version { number, of })));
        }
        Self { methods, naming, versions }
    }
    /// Which version the method is, if there are several, whatever the naming.
    pub(crate) fn version(&self, id: MethodId) -> Option<Version> {
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
    /// The same for a method that may be unknown.
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

/// What is followed by a number that a run makes up.
const NUMBERED: [&str; 6] = [
    "$$Lambda$",
    "GeneratedMethodAccessor",
    "GeneratedConstructorAccessor",
    "GeneratedSerializationConstructorAccessor",
    "$Proxy",
    "jdk.proxy",
];

/// The name of a class or loader without what a run makes up: the address of a hidden class (`Main$$Lambda$14+0x…`), the
/// numbers of lambdas, accessors and proxies, the identity of a loader (`app.Loader @1b2c`) and of a class without a name.
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
                // `$$Lambda$14` is `$$Lambda`.
                let kept = if mark == "$$Lambda$" { end - 1 } else { end };
                name = Cow::Owned(format!("{}{}", &name[..kept], &name[end + digits..]));
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::method;

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
        for (class, name) in [(1, "f"), (1, "g"), (1, "f"), (2, "f")] {
            t.push(Method { class, ..method("a/B", name, &[177]) });
        }
        let named = |naming| {
            let names = Names::new(&t, naming);
            t.iter()
                .map(|m| names.of(m))
                .map(|n| n.qualified() + &version_text(n.version))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            named(Naming::default()),
            ["a.B.f(I)I [version 1 of 2]", "a.B.g(I)I", "a.B.f(I)I [version 2 of 2]", "a.B.f(I)I"],
            "a class of the same name is another class"
        );
        let merged = named(Naming { merge_versions: true, stable: false });
        assert_eq!(merged, ["a.B.f(I)I", "a.B.g(I)I", "a.B.f(I)I", "a.B.f(I)I"]);
    }
}
