// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Whether an invoke bytecode may call a given method.
//!
//! For ordinary invokes, selection keeps name and descriptor (JVMS 5.4.6). The holder is
//! determined only where no subclass can override the method. Signature-polymorphic invokes and
//! `invokedynamic` go through lambda forms, whose descriptors are erased, so only the shapes
//! must agree (number and basic types of arguments, and the result). A linker or `invokeBasic`
//! call site that returns nothing may drop a result: `VarHandleGuards.guard_…_V` links a
//! `getAndAdd` in this way when the caller does not use its result.

use hashbrown::HashSet;
use jportal_bytecode::{InvokeRef, Method, MethodTable, Opcode};
use std::hash::BuildHasher;

/// The package of `MethodHandle`, `VarHandle` and the lambda forms, hidden classes included.
const PACKAGE: &str = "java/lang/invoke/";

/// The methods that classes declare themselves, by hash. A collision can only make a call pass.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    hashes: HashSet<u64>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl Declared {
    pub(crate) fn new(methods: &MethodTable) -> Self {
        let mut all = Self::default();
        for m in methods.iter() {
            let hash = all.hash(&m.class_name, &m.name, &m.signature);
            all.hashes.insert(hash);
        }
        all
    }
    fn hash(&self, class: &str, name: &str, signature: &str) -> u64 {
        self.hasher.hash_one((class, name, signature))
    }
    fn has(&self, target: &InvokeRef) -> bool {
        self.hashes.contains(&self.hash(&target.class_name, &target.name, &target.signature))
    }
}

/// Whether `callee` may be entered by the invoke `opcode` with the symbolic target `target`.
pub(crate) fn fits(opcode: Opcode, target: &InvokeRef, callee: &Method, declared: &Declared) -> bool {
    if is_thrower(callee) {
        return true;
    }
    match Linkage::of(opcode, target) {
        Linkage::Ordinary => ordinary(opcode, target, callee, declared),
        Linkage::Adapter { receiver } => {
            let mut arguments = receiver.then_some('L').into_iter().collect::<Vec<_>>();
            arguments.extend(shape(&target.signature).arguments);
            in_package(callee) && adapter_shape(&arguments, target, callee)
        }
        Linkage::Basic => {
            let mut arguments = vec!['L'];
            arguments.extend(shape(&target.signature).arguments);
            linked_shape(&arguments, target, callee)
        }
        Linkage::Linker => {
            let mut arguments = shape(&target.signature).arguments;
            // The linker removes the last argument, the MemberName.
            arguments.pop().is_some() && linked_shape(&arguments, target, callee)
        }
    }
}

/// How an invoke finds its method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Linkage {
    /// Resolution and selection.
    Ordinary,
    /// A lambda form made for the call site, with an appendix argument if it needs one.
    Adapter { receiver: bool },
    /// `MethodHandle.invokeBasic`: the handle's own lambda form.
    Basic,
    /// `MethodHandle.linkTo*`: the method of a MemberName.
    Linker,
}

impl Linkage {
    fn of(opcode: Opcode, target: &InvokeRef) -> Self {
        if opcode == Opcode::INVOKEDYNAMIC {
            return Self::Adapter { receiver: false };
        }
        match (&*target.class_name, &*target.name) {
            ("java/lang/invoke/MethodHandle", "invokeBasic") => Self::Basic,
            ("java/lang/invoke/MethodHandle", "invoke" | "invokeExact") => Self::Adapter { receiver: true },
            ("java/lang/invoke/MethodHandle", name) if name.starts_with("linkTo") => Self::Linker,
            ("java/lang/invoke/VarHandle", name) if is_access_mode(name) => Self::Adapter { receiver: true },
            _ => Self::Ordinary,
        }
    }
}

/// Whether `name` is that of a `VarHandle.AccessMode`.
fn is_access_mode(name: &str) -> bool {
    let rest = ["getAnd", "compareAnd", "weakCompareAndSet"];
    matches!(name, "get" | "set" | "getVolatile" | "setVolatile" | "getOpaque" | "setOpaque")
        || matches!(name, "getAcquire" | "setRelease")
        || rest.iter().any(|prefix| name.starts_with(prefix))
}

/// The methods that HotSpot substitutes for a method that cannot be selected
/// (`Universe::throw_*_error`).
fn is_thrower(callee: &Method) -> bool {
    &*callee.class_name == "jdk/internal/misc/Unsafe"
        && matches!(&*callee.name, "throwIllegalAccessError" | "throwNoSuchMethodError")
}

fn ordinary(opcode: Opcode, target: &InvokeRef, callee: &Method, declared: &Declared) -> bool {
    if callee.name != target.name || callee.signature != target.signature {
        return false;
    }
    if callee.is_static() != (opcode == Opcode::INVOKESTATIC) {
        return false;
    }
    // Resolution finds the class's own declaration first, and neither invoke selects further.
    let settled =
        opcode == Opcode::INVOKESTATIC || (opcode == Opcode::INVOKESPECIAL && &*target.name == "<init>");
    !settled || is_class(&callee.class_name, &target.class_name) || !declared.has(target)
}

/// Whether `class` is `named`, or a hidden class made from a class of that name.
fn is_class(class: &str, named: &str) -> bool {
    class.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', '/']))
}

fn in_package(callee: &Method) -> bool {
    callee.class_name.starts_with(PACKAGE)
}

/// Basic types: `I` also represents `Z B S C`, and `L` represents every reference.
#[derive(Debug, PartialEq, Eq)]
struct BasicSignature {
    arguments: Vec<char>,
    result: char,
}

fn basic(c: char) -> char {
    match c {
        'Z' | 'B' | 'S' | 'C' => 'I',
        '[' => 'L',
        other => other,
    }
}

/// The shape of a descriptor (JVMS 4.3.3). For a malformed descriptor the result is arbitrary.
fn shape(descriptor: &str) -> BasicSignature {
    let mut arguments = Vec::new();
    let mut result = None;
    let mut rest = descriptor.chars();
    while let Some(c) = rest.next() {
        match c {
            '(' => {}
            ')' => result = rest.clone().next().map(basic),
            _ => {
                let mut last = c;
                while last == '[' {
                    last = rest.next().unwrap_or(';');
                }
                if last == 'L' {
                    rest.by_ref().find(|&c| c == ';');
                }
                if result.is_none() {
                    arguments.push(basic(c));
                }
            }
        }
    }
    BasicSignature { arguments, result: result.unwrap_or('V') }
}

/// The shape that the callee accepts, receiver included.
fn taken(callee: &Method) -> BasicSignature {
    let mut shape = shape(&callee.signature);
    if !callee.is_static() {
        shape.arguments.insert(0, 'L');
    }
    shape
}

/// Whether the callee's shape fits a jump that the VM does not check. If the caller expects no
/// result, the callee's result stays in its register and is ignored. Otherwise the callee must
/// return a result of the same basic type.
fn linked_shape(arguments: &[char], target: &InvokeRef, callee: &Method) -> bool {
    let (callee, result) = (taken(callee), shape(&target.signature).result);
    callee.arguments == arguments && (callee.result == result || result == 'V')
}

/// Whether the callee's shape fits a lambda form made for the call site: it takes the
/// arguments, perhaps an appendix reference, and has the same result.
fn adapter_shape(arguments: &[char], target: &InvokeRef, callee: &Method) -> bool {
    let (callee, result) = (taken(callee), shape(&target.signature).result);
    let rest = callee.arguments.strip_prefix(arguments);
    rest.is_some_and(|rest| rest.is_empty() || rest == ['L']) && callee.result == result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::method;
    use jportal_units::Bci;

    fn target(class: &str, name: &str, signature: &str) -> InvokeRef {
        InvokeRef { bci: Bci(0), class_name: class.into(), name: name.into(), signature: signature.into() }
    }
    fn callee(class: &str, name: &str, signature: &str, is_static: bool) -> Method {
        Method {
            class_name: class.into(),
            signature: signature.into(),
            access_flags: if is_static { 8 } else { 0 },
            ..method(name, &[177])
        }
    }
    fn passes(opcode: Opcode, target: &InvokeRef, callee: &Method) -> bool {
        fits(opcode, target, callee, &Declared::default())
    }

    #[test]
    fn shapes() {
        let s = shape("(Z[[Ljava/lang/String;J[ILa;)[B");
        assert_eq!((s.arguments, s.result), (vec!['I', 'L', 'J', 'L', 'L'], 'L'));
        assert_eq!(shape("()V"), BasicSignature { arguments: vec![], result: 'V' });
        shape("([L");
    }

    #[test]
    fn ordinary_calls_keep_name_and_descriptor() {
        let t = target("a/A", "f", "(I)V");
        assert!(passes(Opcode::INVOKEVIRTUAL, &t, &callee("a/B", "f", "(I)V", false)));
        assert!(!passes(Opcode::INVOKEVIRTUAL, &t, &callee("a/B", "f", "(J)V", false)));
        assert!(!passes(Opcode::INVOKEVIRTUAL, &t, &callee("a/B", "g", "(I)V", false)));
        assert!(!passes(Opcode::INVOKEVIRTUAL, &t, &callee("a/B", "f", "(I)V", true)));
    }

    #[test]
    fn a_static_call_stays_in_the_class_that_declares_it() {
        let mut table = MethodTable::default();
        table.push(callee("a/A", "f", "()V", true));
        let declared = Declared::new(&table);
        let fits = |t: &str, c: &str| {
            fits(Opcode::INVOKESTATIC, &target(t, "f", "()V"), &callee(c, "f", "()V", true), &declared)
        };
        assert!(fits("a/A", "a/A") && fits("a/A", "a/A+0x0000000800c03000") && !fits("a/A", "a/B"));
        // a/C inherits it.
        assert!(fits("a/C", "a/A"));
    }

    #[test]
    fn a_linker_may_drop_the_result() {
        let (mh, ints) =
            ("java/lang/invoke/MethodHandle", "java/lang/invoke/VarHandleInts$FieldInstanceReadWrite");
        let handle = "Ljava/lang/invoke/VarHandle;Ljava/lang/Object;I";
        let links = |result: &str, of_target: &str| {
            let t = target(mh, "linkToStatic", &format!("({handle}Ljava/lang/invoke/MemberName;){result}"));
            let c = callee(ints, "getAndAdd", &format!("({handle}){of_target}"), true);
            passes(Opcode::INVOKESTATIC, &t, &c)
        };
        for result in ["I", "Z", "J", "F", "D", "Ljava/lang/Object;", "V"] {
            assert!(links("V", result), "{result} is dropped");
        }
        // Types smaller than int count as int, and all references are equal.
        assert!(links("I", "B") && links("Z", "C") && links("Ljava/lang/Object;", "[I"));
        // A result that is expected must exist and have that basic type.
        assert!(!links("I", "V") && !links("I", "J") && !links("Ljava/lang/Object;", "I"));
        // The same holds for the form of a method handle. An adapter is made for its call site.
        let form = |name: &str, result: &str| {
            let t = target(mh, name, "(I)V");
            let c = callee(
                "java/lang/invoke/LambdaForm$MH",
                "invoke",
                &format!("(Ljava/lang/Object;I){result}"),
                true,
            );
            passes(Opcode::INVOKEVIRTUAL, &t, &c)
        };
        assert!(form("invokeBasic", "I") && form("invokeExact", "V") && !form("invokeExact", "I"));
    }

    #[test]
    fn method_handles_keep_shapes() {
        let mh = "java/lang/invoke/MethodHandle";
        let lf = "java/lang/invoke/LambdaForm$MH+0x01";
        let t = target(mh, "invokeExact", "(ILjava/lang/String;)Z");
        let call = |s: &str| passes(Opcode::INVOKEVIRTUAL, &t, &callee(lf, "invokeExact_MT", s, true));
        let object = "Ljava/lang/Object;";
        assert!(call(&format!("({object}I{object})I")) && call(&format!("({object}I{object}{object})I")));
        assert!(!call(&format!("({object}J{object})I")) && !call(&format!("({object}I{object})V")));
        let t = target(mh, "linkToVirtual", "(Ljava/lang/Object;ILjava/lang/invoke/MemberName;)V");
        assert!(passes(Opcode::INVOKESTATIC, &t, &callee("a/A", "f", "(Z)V", false)));
        assert!(!passes(Opcode::INVOKESTATIC, &t, &callee("a/A", "f", "(Z)V", true)));
        let t = target("", "run", "(La/A;)Ljava/lang/Runnable;");
        let indy =
            |c: &str, s: &str| passes(Opcode::INVOKEDYNAMIC, &t, &callee(c, "linkToTargetMethod", s, true));
        assert!(indy(lf, "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;"));
        assert!(!indy("a/A", "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;"));
    }
}
