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
    /// inherited. The methods of arrays are those of `Object`. What `invokedynamic` calls first
    /// belongs to the library.
    fn contains(&self, target: &InvokeRef) -> bool {
        if target.class_name.is_empty() {
            return false;
        }
        let is_array = target.class_name.starts_with('[');
        let class = if is_array { "java/lang/Object".into() } else { target.class_name.clone() };
        let of_class = || self.classes.get(&class).copied();
        let key = [class.clone(), target.name.clone(), target.signature.clone()];
        self.methods.get(&key).copied().or_else(of_class).unwrap_or(true)
    }
}
