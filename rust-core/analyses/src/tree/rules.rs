// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the trees of all threads are built with.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use jportal_bytecode::{InvokeRef, MethodTable, Opcode, Shapes};
use jportal_flow::{Exclude, ThreadInfo};
use jportal_units::{Bci, MethodId, Tsc};

use super::arena::Room;
use super::lengths::AllLengths;
use super::options::{Counting, Hide, Options, Scope};
use crate::buckets::{self, BucketMethods};
use crate::execution::OnCore;
use crate::hidden::may_throw;

/// Maximum number of frames kept, as in [`jportal_flow::Stack`]: far more than a Java thread's
/// stack can hold.
const DEEPEST: usize = 1 << 20;

pub(super) struct Rules {
    pub(super) methods: Arc<MethodTable>,
    pub(super) shapes: Shapes,
    pub(super) lengths: AllLengths,
    pub(super) options: Options,
    pub(super) scope: Scope,
    /// The methods whose outermost activations have trees of their own.
    pub(super) split: Option<BucketMethods>,
    /// Maximum number of such trees of a thread.
    pub(super) most_buckets: usize,
    pub(super) exclude: Exclude,
    pub(super) clock: Option<OnCore>,
    pub(super) room: Room,
    /// Maximum number of frames kept. Deeper frames count for the deepest one.
    pub(super) deepest: usize,
    targets: OnceLock<Targets>,
}

impl Rules {
    pub(super) fn new(methods: Arc<MethodTable>, options: Options) -> Self {
        Self {
            shapes: Shapes::new(&methods),
            lengths: AllLengths::new(&methods),
            methods,
            scope: Scope::default(),
            split: None,
            most_buckets: buckets::LIMIT,
            exclude: Exclude::default(),
            clock: None,
            room: Room::new(options.max_nodes),
            deepest: DEEPEST,
            targets: OnceLock::new(),
            options,
        }
    }
    pub(super) fn counts_blocks(&self) -> bool {
        self.options.counting != Counting::Precise
    }
    pub(super) fn now(&self, thread: &ThreadInfo, time: Tsc) -> u64 {
        self.clock.as_ref().map_or(time.get(), |clock| clock(thread, time))
    }
    /// Whether an exception may leave the bytecode.
    pub(super) fn may_throw(&self, method: MethodId, bci: Bci) -> bool {
        let opcode = self.methods.get(method).and_then(|m| m.code.get(usize::from(bci.get())));
        opcode.is_none_or(|o| may_throw(Opcode(*o)))
    }
    /// Whether calls of the symbolic target are shown. An unknown target is.
    pub(super) fn shows(&self, target: Option<&InvokeRef>) -> bool {
        if self.options.hide == Hide::Show {
            return true;
        }
        let targets = self.targets.get_or_init(|| Targets::new(&self.methods, &self.scope));
        target.is_none_or(|t| targets.contains(t))
    }
}

const OBJECT: &str = "java/lang/Object";

/// Which symbolic targets are in the scope.
struct Targets {
    methods: HashMap<[Box<str>; 3], bool>,
    /// Classes with a method in the scope.
    classes: HashMap<Box<str>, bool>,
}

impl Targets {
    fn new(methods: &MethodTable, scope: &Scope) -> Self {
        let mut targets = Self { methods: HashMap::new(), classes: HashMap::new() };
        for m in methods.iter() {
            let wanted = scope.contains(m.id);
            let key = [m.class_name.clone(), m.name.clone(), m.signature.clone()];
            *targets.methods.entry(key).or_default() |= wanted;
            *targets.classes.entry(m.class_name.clone()).or_default() |= wanted;
        }
        targets
    }
    /// Of a target that the capture does not describe, the class decides: the method is
    /// inherited. The methods of arrays are those of `Object` (JLS 10.7). What `invokedynamic`
    /// calls first belongs to the library.
    fn contains(&self, target: &InvokeRef) -> bool {
        if target.class_name.is_empty() {
            return false;
        }
        let array = target.class_name.starts_with('[');
        let class = if array { OBJECT.into() } else { target.class_name.clone() };
        let key = [class, target.name.clone(), target.signature.clone()];
        let of_class = || self.classes.get(&key[0]).copied();
        self.methods.get(&key).copied().or_else(of_class).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::{library, method, table};

    #[test]
    fn a_silent_call_belongs_to_the_class_that_has_the_method() {
        let methods = table(vec![
            library(OBJECT, "clone", "()Ljava/lang/Object;"),
            method(("a/B", "f", "()V"), &[177], &[]),
        ]);
        let scope = Scope::new(&methods, |m| m.class_name.starts_with("a/"));
        let targets = Targets::new(&methods, &scope);
        let contains = |class: &str, name: &str, signature: &str| {
            let (class_name, name, signature) = (class.into(), name.into(), signature.into());
            targets.contains(&InvokeRef { bci: Bci(0), class_name, name, signature })
        };
        assert!(contains("a/B", "f", "()V"));
        assert!(contains("a/B", "inherited", "()V"), "the class decides");
        assert!(contains("c/Unknown", "f", "()V"), "never left out silently");
        assert!(!contains(OBJECT, "clone", "()Ljava/lang/Object;"));
        for array in ["[I", "[La/B;", "[[La/B;"] {
            assert!(!contains(array, "clone", "()Ljava/lang/Object;"), "{array}");
        }
        assert!(!contains("", "makeConcat", "()V"), "invokedynamic");
    }
}
