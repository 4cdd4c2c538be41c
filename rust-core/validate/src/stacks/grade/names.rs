// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The names of frames in profiles.
//!
//! Methods are compared as `class.name`, without descriptor, and without the parts of names that
//! differ from run to run. So overloads are one method.

use hashbrown::HashSet;
use jportal_analyses::names::{split_qualified, stable, stable_qualified};
use jportal_bytecode::MethodTable;

/// What a profiler adds to a name to say how a frame was executed (`-a` of async-profiler).
const SUFFIXES: [(&str, FrameSort); 5] = [
    ("_[j]", FrameSort::Java),
    ("_[i]", FrameSort::Java),
    ("_[0]", FrameSort::Java),
    ("_[1]", FrameSort::Java),
    ("_[k]", FrameSort::Other),
];

/// What a profiler says of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameSort {
    /// A method of Java.
    Java,
    /// Code of the kernel, the VM or a library; or a thread.
    Other,
    /// Nothing.
    Open,
}

/// A name of a profile: `class.name`, and what is known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FrameName {
    pub(super) method: String,
    pub(super) sort: FrameSort,
}

impl FrameName {
    /// Of a frame in collapsed stacks: `pkg/Class.method` or `pkg.Class.method`, perhaps with a
    /// descriptor, the number of a line, and a suffix.
    pub(super) fn of(frame: &str) -> Self {
        let (name, mut sort) = SUFFIXES
            .iter()
            .find_map(|(suffix, sort)| Some((frame.strip_suffix(suffix)?, *sort)))
            .unwrap_or((frame, FrameSort::Open));
        let name = without_number(name, ':');
        let name = name.find('(').filter(|at| *at > 0).map_or(name, |at| &name[..at]);
        let Some((class, method)) = name.rsplit_once('.') else {
            return Self { method: name.to_owned(), sort };
        };
        let class = without_number(class, '/');
        if sort == FrameSort::Open && is_java(class, method) {
            sort = FrameSort::Java;
        }
        Self { method: method_name(class, method), sort }
    }
}

/// `class.name` of a method; `class` has dots or slashes.
pub(super) fn method_name(class: &str, method: &str) -> String {
    format!("{}.{method}", stable(&class.replace('/', ".")))
}

/// The text without a number at its end, and the mark before it.
fn without_number(text: &str, mark: char) -> &str {
    match text.rsplit_once(mark) {
        Some((head, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => head,
        _ => text,
    }
}

/// Whether these can only be the names of a class in a package, and of a method.
fn is_java(class: &str, method: &str) -> bool {
    let is_name = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|c| c.is_alphabetic() || c == '_' || c == '$')
            && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '+'))
    };
    let stable = stable(class);
    let mut parts = stable.split(['.', '/']);
    let all = parts.clone().all(is_name) && parts.nth(1).is_some();
    all && (is_name(method) || matches!(method, "<init>" | "<clinit>"))
}

/// `class.name` of a node of a call tree. `None`: the node stands for no method.
pub(super) fn name_of_node(node: &str) -> Option<String> {
    let name = node.strip_prefix("(intrinsic) ").unwrap_or(node);
    let (class, method, _) = split_qualified(name)?;
    Some(method_name(class, method))
}

/// The names of all methods of a capture, executed or not.
pub(super) fn names_of(methods: &MethodTable) -> HashSet<String> {
    methods.iter().filter_map(|m| name_of_node(&stable_qualified(&m.qualified_name()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_all_their_forms() {
        use FrameSort::{Java, Open, Other};
        for (frame, method, sort) in [
            ("a/b/C.f", "a.b.C.f", Java),
            ("a.b.C.f", "a.b.C.f", Java),
            ("a/b/C.f_[j]", "a.b.C.f", Java),
            ("a.b.C.f_[i]", "a.b.C.f", Java),
            ("C.f_[0]", "C.f", Java),
            ("C.f_[1]", "C.f", Java),
            ("a/b/C.f(Ljava/lang/String;I)V_[j]", "a.b.C.f", Java),
            ("a/b/C.<init>", "a.b.C.<init>", Java),
            ("a.b.C.f:123", "a.b.C.f", Java),
            (
                "java/lang/invoke/LambdaForm$MH.0x0000000800c03400.invoke",
                "java.lang.invoke.LambdaForm$MH.invoke",
                Java,
            ),
            ("a/Main$$Lambda$14/0x0000000800c01208.run", "a.Main$$Lambda.run", Java),
            ("a/Main$$Lambda$14+0x0000000800c01208/77.run_[i]", "a.Main$$Lambda.run", Java),
            ("Main.main", "Main.main", Open),
            ("do_syscall_64_[k]", "do_syscall_64", Other),
            ("JavaCalls::call_helper", "JavaCalls::call_helper", Open),
            ("ParseGenerator::generate(JVMState*)", "ParseGenerator::generate", Open),
            ("libc.so.6", "libc.so.6", Open),
            ("/usr/lib/libz.so.1.2.13", ".usr.lib.libz.so.1.2.13", Open),
            ("[main tid=12]", "[main tid=12]", Open),
            ("[unknown]", "[unknown]", Open),
            ("(root)", "(root)", Open),
            ("all", "all", Open),
            ("", "", Open),
        ] {
            assert_eq!(FrameName::of(frame), FrameName { method: method.to_owned(), sort }, "{frame}");
        }
    }

    #[test]
    fn nodes_of_trees_have_names_of_the_same_form() {
        assert_eq!(name_of_node("a.b.C.f(Ljava/lang/String;I)V").as_deref(), Some("a.b.C.f"));
        assert_eq!(name_of_node("(intrinsic) java.lang.Math.abs(I)I").as_deref(), Some("java.lang.Math.abs"));
        assert_eq!(name_of_node("M$$Lambda$4+0x08.run()V").as_deref(), Some("M$$Lambda.run"));
        for other in ["(root)", "(unknown)", "(orphans)", "(intrinsic) (unknown)"] {
            assert_eq!(name_of_node(other), None, "{other}");
        }
    }
}
