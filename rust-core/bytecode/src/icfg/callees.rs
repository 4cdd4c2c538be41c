// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The possible callees of an invoke: an interface for resolvers, and a resolver that uses only
//! names.

use crate::method::{InvokeRef, Method, MethodTable};
use crate::opcode::Opcode;
use jportal_units::MethodId;
use std::collections::HashMap;

/// An invoke instruction.
#[derive(Clone, Copy, Debug)]
pub struct CallSite<'a> {
    /// The method that contains it.
    pub caller: &'a Method,
    /// One of the five invoke opcodes.
    pub opcode: Opcode,
    /// Its symbolic target, if the VM described it.
    pub target: Option<&'a InvokeRef>,
}

/// Identifies a set of callees. The resolver chooses the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target(pub u32);

/// The possible callees of the sites with one target.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Callees {
    /// Callees that are in the table.
    pub methods: Vec<MethodId>,
    /// Whether any method may be called.
    pub any: bool,
    /// Whether control may return without a visible bytecode of a callee.
    pub passes: bool,
    /// Whether a method that is not in the table may be called. It may call back.
    pub outside: bool,
}

/// Finds the callees of the invoke instructions of a program.
///
/// A callee that it leaves out has no edge in the graph, so a real path through that callee will
/// not be found. A superfluous callee makes more paths fit.
pub trait CalleeResolver {
    /// The target of `site`; sites with one target share their callees.
    fn target(&mut self, site: &CallSite<'_>) -> Target;
    /// The callees of `target`; called once per target.
    fn callees(&mut self, target: Target) -> Callees;
    /// Whether `method` can be entered from outside: by reflection, by native code or by the VM.
    fn enterable(&self, method: &Method) -> bool {
        let _ = method;
        true
    }
}

/// Resolves by name and descriptor.
///
/// Method selection preserves both (JVMS 5.4.6). The class is used where the named class declares
/// the method and no subclass can override it. Without a class hierarchy, a virtual call may lead
/// to every method with its name and descriptor. Method handles and `invokedynamic` lead to
/// lambda forms, which may call anything. Unknown names lead outside.
#[derive(Debug)]
pub struct ByName<'a> {
    methods: &'a MethodTable,
    named: HashMap<(&'a str, &'a str), Vec<MethodId>>,
    targets: HashMap<CalleeKey, Target>,
    keys: Vec<CalleeKey>,
    /// Methods by the types of their parameters and results; computed when first needed.
    linked: Option<HashMap<Box<str>, Vec<MethodId>>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum CalleeKey {
    /// Any method is possible.
    Any,
    /// A lambda form with these types of parameters and result, and everything it may call. A
    /// form that was made for the call site may take one more reference, its appendix.
    Form { parameters: Box<str>, appendix: bool, result: char },
    /// The callee of a linker of a lambda form: any method with these types of parameters, the
    /// receiver first, and result.
    Linked { values: Box<str> },
    /// By name and descriptor; the class is set if it is certain.
    Named { is_static: bool, class: Option<Box<str>>, name: Box<str>, signature: Box<str> },
}

impl<'a> ByName<'a> {
    /// Resolves among `methods`.
    pub fn new(methods: &'a MethodTable) -> Self {
        let mut named: HashMap<_, Vec<_>> = HashMap::new();
        for m in methods.iter() {
            named.entry((&*m.name, &*m.signature)).or_default().push(m.id);
        }
        Self { methods, named, targets: HashMap::new(), keys: Vec::new(), linked: None }
    }
    fn key(&self, site: &CallSite<'_>) -> CalleeKey {
        let Some(target) = site.target else { return CalleeKey::Any };
        if site.opcode == Opcode::INVOKEDYNAMIC {
            return form(&target.signature, "", true);
        }
        if is_polymorphic(target) {
            if !target.name.starts_with("linkTo") {
                // The form of the handle itself, as `LambdaForm`s call each other.
                return form(&target.signature, "L", &*target.name != "invokeBasic");
            }
            // The last argument names the callee.
            let values = values(&target.signature, "").and_then(|mut v| v.parameters.pop().map(|_| v.text()));
            return values.map_or(CalleeKey::Any, |values| CalleeKey::Linked { values });
        }
        let direct = matches!(site.opcode, Opcode::INVOKESTATIC | Opcode::INVOKESPECIAL);
        let class = (direct && self.declares(target)).then(|| target.class_name.clone());
        let is_static = site.opcode == Opcode::INVOKESTATIC;
        CalleeKey::Named { is_static, class, name: target.name.clone(), signature: target.signature.clone() }
    }
    /// Whether the class that `target` names declares such a method.
    fn declares(&self, target: &InvokeRef) -> bool {
        let all = self.named.get(&(&*target.name, &*target.signature));
        let mut all = all.into_iter().flatten().filter_map(|id| self.methods.get(*id));
        all.any(|m| m.class_name == target.class_name)
    }
}

/// The types of a method's parameters and result as lambda forms distinguish them
/// (`LambdaForm.BasicType`): I for all types that are an `int` on the stack; J, F, D; L for
/// references; V.
struct BasicTypes {
    parameters: String,
    result: char,
}

impl BasicTypes {
    fn text(&self) -> Box<str> {
        format!("{}{}", self.parameters, self.result).into()
    }
}

/// Whether `target` is a signature-polymorphic method (JVMS 2.9.3). Decided by name, because the
/// VM need not have described the class.
fn is_polymorphic(target: &InvokeRef) -> bool {
    let name = &*target.name;
    let begins = |all: &[&str]| all.iter().any(|begin| name.starts_with(begin));
    match &*target.class_name {
        "java/lang/invoke/MethodHandle" => {
            matches!(name, "invoke" | "invokeExact" | "invokeBasic") || begins(&["linkTo"])
        }
        "java/lang/invoke/VarHandle" => {
            matches!(name, "get" | "getVolatile" | "getOpaque" | "getAcquire")
                || matches!(name, "set" | "setVolatile" | "setOpaque" | "setRelease")
                || begins(&["getAnd", "compareAnd", "weakCompareAndSet"])
        }
        _ => false,
    }
}

/// The callees of an invoke with `descriptor` that goes through a lambda form. `receiver` is the
/// type of the handle.
fn form(descriptor: &str, receiver: &str, appendix: bool) -> CalleeKey {
    let form =
        |v: BasicTypes| CalleeKey::Form { parameters: v.parameters.into(), appendix, result: v.result };
    values(descriptor, receiver).map_or(CalleeKey::Any, form)
}

fn by_values(methods: &MethodTable) -> HashMap<Box<str>, Vec<MethodId>> {
    let mut all: HashMap<_, Vec<_>> = HashMap::new();
    for m in methods.iter() {
        let receiver = if m.is_static() { "" } else { "L" };
        if let Some(values) = values(&m.signature, receiver) {
            all.entry(values.text()).or_default().push(m.id);
        }
    }
    all
}

/// The types of a descriptor, after `receiver`; `None` if the descriptor is malformed.
fn values(descriptor: &str, receiver: &str) -> Option<BasicTypes> {
    let (parameters, result) = descriptor.strip_prefix('(')?.split_once(')')?;
    let mut values = BasicTypes { parameters: receiver.into(), result: basic(result.chars().next()?) };
    let mut rest = parameters.chars();
    while let Some(mut c) = rest.next() {
        let basic = basic(c);
        while c == '[' {
            c = rest.next()?;
        }
        if c == 'L' {
            rest.find(|c| *c == ';')?;
        }
        values.parameters.push(basic);
    }
    Some(values)
}

const fn basic(c: char) -> char {
    match c {
        'Z' | 'B' | 'S' | 'C' => 'I',
        '[' => 'L',
        c => c,
    }
}

/// Whether the VM may have generated `m` from a lambda form, or `m` is a method of the JDK that
/// serves as one.
fn is_form(m: &Method) -> bool {
    m.is_static() && m.class_name.starts_with("java/lang/invoke/")
}

impl CalleeResolver for ByName<'_> {
    fn target(&mut self, site: &CallSite<'_>) -> Target {
        let key = self.key(site);
        if let Some(target) = self.targets.get(&key) {
            return *target;
        }
        let target = Target(self.keys.len() as u32);
        self.keys.push(key.clone());
        self.targets.insert(key, target);
        target
    }
    fn callees(&mut self, target: Target) -> Callees {
        let unknown = Callees { passes: true, outside: true, ..Callees::default() };
        let (is_static, class, name, signature) = match self.keys.get(target.0 as usize) {
            None | Some(CalleeKey::Any) => return Callees { any: true, ..unknown },
            Some(CalleeKey::Form { parameters, appendix, result }) => {
                let linked = self.linked.get_or_insert_with(|| by_values(self.methods));
                let taking = |more| linked.get(&*format!("{parameters}{more}{result}")).into_iter().flatten();
                let all = taking("").chain(taking("L").filter(|_| *appendix)).copied();
                let forms = all.filter(|id| self.methods.get(*id).is_some_and(is_form)).collect();
                return Callees { methods: forms, ..unknown };
            }
            Some(CalleeKey::Linked { values }) => {
                let linked = self.linked.get_or_insert_with(|| by_values(self.methods));
                return Callees { methods: linked.get(values).cloned().unwrap_or_default(), ..unknown };
            }
            Some(CalleeKey::Named { is_static, class, name, signature }) => {
                (is_static, class, name, signature)
            }
        };
        let fits = |m: &&Method| {
            m.is_static() == *is_static && class.as_ref().is_none_or(|class| *class == m.class_name)
        };
        let named = self.named.get(&(&**name, &**signature));
        let named = named.into_iter().flatten().filter_map(|id| self.methods.get(*id));
        let mut callees = Callees::default();
        for m in named.filter(fits) {
            callees.passes |= m.intrinsic != 0 || m.is_native();
            callees.outside |= m.is_native();
            callees.methods.push(m.id);
        }
        if callees.methods.is_empty() { unknown } else { callees }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{calls, method};

    fn of_class(class: &str, name: &str, flags: u32) -> Method {
        Method { class_name: class.into(), access_flags: flags, ..method(name, &[177]) }
    }
    fn table() -> MethodTable {
        let mut t = MethodTable::default();
        t.push(of_class("a/A", "f", 0));
        t.push(of_class("a/B", "f", 0));
        t.push(of_class("a/A", "s", 8));
        t.push(of_class("a/B", "s", 8));
        t.push(Method { code: Box::new([]), ..of_class("a/B", "n", 0x108) });
        t.push(of_class("java/lang/invoke/MethodHandle", "toString", 0));
        t.push(of_class("java/lang/invoke/LambdaForm$MH/0x1", "reinvoke", 8));
        t
    }
    fn resolve(opcode: Opcode, class: &str, name: &str) -> Callees {
        let (table, caller) = (table(), method("caller", &[177]));
        let mut by_name = ByName::new(&table);
        let target = calls(0, class, name);
        let site = CallSite { caller: &caller, opcode, target: Some(&target) };
        let target = by_name.target(&site);
        assert_eq!(by_name.target(&site), target);
        by_name.callees(target)
    }
    fn inside(methods: &[u32]) -> Callees {
        Callees { methods: methods.iter().copied().map(MethodId).collect(), ..Callees::default() }
    }

    #[test]
    fn linkers_lead_to_what_takes_such_values() {
        let basic = |d: &str, receiver: &str| values(d, receiver).map(|v| v.text());
        assert_eq!(basic("(Z[[ILa/B;[Ljava/lang/String;JF)D", "").as_deref(), Some("ILLLJFD"));
        assert_eq!(basic("()[C", "L").as_deref(), Some("LL"));
        assert_eq!(basic("(La/B)V", ""), None);
        let mut table = MethodTable::default();
        let of =
            |signature: &str, flags| Method { signature: signature.into(), ..of_class("a/A", "f", flags) };
        for (signature, flags) in [("(BLa/A;)Z", 8), ("(La/A;)I", 0), ("(La/A;)I", 8)] {
            table.push(of(signature, flags));
        }
        let site = |signature: &str| {
            let target = InvokeRef {
                bci: jportal_units::Bci(0),
                class_name: "java/lang/invoke/MethodHandle".into(),
                name: "linkToVirtual".into(),
                signature: signature.into(),
            };
            let caller = method("caller", &[177]);
            let mut by_name = ByName::new(&table);
            let opcode = Opcode::INVOKESTATIC;
            let target = by_name.target(&CallSite { caller: &caller, opcode, target: Some(&target) });
            by_name.callees(target).methods.iter().map(|m| m.0).collect::<Vec<_>>()
        };
        let member = "Ljava/lang/invoke/MemberName;";
        assert_eq!(site(&format!("(ILjava/lang/Object;{member})I")), [0]);
        assert_eq!(site(&format!("(Ljava/lang/Object;Ljava/lang/Object;{member})I")), [1]);
    }

    #[test]
    fn forms_take_what_their_sites_hand_over() {
        let mut table = MethodTable::default();
        let of = |class: &str, name: &str, signature: &str, flags| Method {
            signature: signature.into(),
            ..of_class(class, name, flags)
        };
        let (form, handle) = ("java/lang/invoke/LambdaForm$MH", "java/lang/invoke/MethodHandle");
        for (signature, flags) in
            [("(Ljava/lang/Object;I)V", 8), ("(Ljava/lang/Object;II)V", 8), ("(IJ)V", 8)]
        {
            table.push(of(form, "f", signature, flags));
        }
        table.push(of(form, "f", "(Ljava/lang/Object;ILjava/lang/Object;)V", 8));
        table.push(of(form, "f", "(I[I)V", 8));
        // Not static; not from a form; abstract; signature-polymorphic itself.
        table.push(of(form, "f", "(I)V", 0));
        table.push(of("a/A", "f", "(Ljava/lang/Object;I)V", 8));
        table.push(Method { code: Box::new([]), ..of(handle, "rebind", "(I)V", 0x400) });
        table.push(Method { code: Box::new([]), ..of(handle, "invoke", "([Ljava/lang/Object;)V", 0x190) });
        let callees = |opcode, class: &str, name: &str, signature: &str| {
            let target = InvokeRef { signature: signature.into(), ..calls(0, class, name) };
            let caller = method("caller", &[177]);
            let mut by_name = ByName::new(&table);
            let target = by_name.target(&CallSite { caller: &caller, opcode, target: Some(&target) });
            by_name.callees(target).methods.iter().map(|m| m.0).collect::<Vec<_>>()
        };
        assert_eq!(callees(Opcode::INVOKEVIRTUAL, handle, "invokeExact", "(Z)V"), [0, 3]);
        assert_eq!(callees(Opcode::INVOKEVIRTUAL, handle, "invokeBasic", "(I)V"), [0]);
        assert_eq!(callees(Opcode::INVOKEDYNAMIC, "", "apply", "(C)V"), [4]);
        assert_eq!(callees(Opcode::INVOKEVIRTUAL, handle, "rebind", "(I)V"), [7]);
        // A site may use exactly the descriptor of the declaration.
        assert_eq!(callees(Opcode::INVOKEVIRTUAL, handle, "invoke", "([Ljava/lang/Object;)V"), []);
    }

    #[test]
    fn virtual_calls_lead_to_every_class() {
        assert_eq!(resolve(Opcode::INVOKEVIRTUAL, "a/A", "f"), inside(&[0, 1]));
        assert_eq!(resolve(Opcode::INVOKESPECIAL, "a/A", "f"), inside(&[0]));
    }

    #[test]
    fn static_calls_stay_in_the_class_that_declares_them() {
        assert_eq!(resolve(Opcode::INVOKESTATIC, "a/B", "s"), inside(&[3]));
        assert_eq!(resolve(Opcode::INVOKESTATIC, "a/Inherits", "s"), inside(&[2, 3]));
    }

    #[test]
    fn what_nobody_knows_leads_outside() {
        let outside = |any, methods: &[u32]| Callees { any, passes: true, outside: true, ..inside(methods) };
        assert_eq!(resolve(Opcode::INVOKEVIRTUAL, "a/A", "unknown"), outside(false, &[]));
        let handle = |name| resolve(Opcode::INVOKEVIRTUAL, "java/lang/invoke/MethodHandle", name);
        // The descriptor of the helpers has no argument that could name the callee.
        assert_eq!((handle("invoke"), handle("linkToStatic")), (outside(false, &[]), outside(true, &[])));
        assert_eq!(handle("rebind"), outside(false, &[]));
        assert_eq!(handle("toString"), inside(&[5]));
        assert_eq!(resolve(Opcode::INVOKEDYNAMIC, "", "f"), outside(false, &[6]));
        assert_eq!(resolve(Opcode::INVOKESTATIC, "a/B", "n"), outside(false, &[4]));
    }
}
