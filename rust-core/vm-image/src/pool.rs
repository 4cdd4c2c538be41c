// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Constant pools of classes: what the bytecodes of their methods refer to.

use hashbrown::HashMap;
use jportal_bytecode::{Constant, InvokeRef, Method, Transfer, instructions};
use jportal_capture::codec::Str;
use jportal_capture::schema::{ClassConstants, PoolReference};

/// Tags of constants (JVMS table 4.4-A).
const CLASS: u8 = 7;
const FIELD: u8 = 9;
const DYNAMIC: u8 = 17;

pub(crate) fn text(s: &Str) -> Box<str> {
    s.text().into()
}

/// An entry, from its tag and the texts that a record has for it.
pub(crate) fn constant(tag: u8, class_name: &Str, name: &Str, signature: &Str) -> Constant {
    let (name, descriptor) = (text(name), text(signature));
    match tag {
        CLASS => Constant::Class(text(class_name)),
        FIELD => Constant::Field { class_name: text(class_name), name, descriptor },
        DYNAMIC => Constant::Dynamic { name, descriptor },
        tag => Constant::Other(tag),
    }
}

/// Whether the targets of all invokes of a method are known.
pub(crate) fn has_targets(method: &Method) -> bool {
    let invokes =
        instructions(&method.code).map_while(Result::ok).filter(|i| i.opcode.transfer() == Transfer::Invoke);
    invokes.count() <= method.invokes.len()
}

/// The constant pool of a class.
#[derive(Debug)]
pub(crate) struct Pool {
    references: HashMap<u16, PoolReference>,
    /// The text at 0, which entries name where they have none, is empty.
    texts: HashMap<u16, Str>,
}

impl Pool {
    pub(crate) fn new(r: ClassConstants) -> Self {
        let mut texts: HashMap<_, _> = r.texts.into_iter().map(|entry| (entry.index, entry.text)).collect();
        texts.insert(0, Str::default());
        Self { references: r.references.into_iter().map(|entry| (entry.index, entry)).collect(), texts }
    }

    /// The texts of an entry: class, name and descriptor. `None` if one is not in the pool.
    fn texts_of(&self, entry: &PoolReference) -> Option<[&Str; 3]> {
        let text = |index| self.texts.get(&index);
        Some([text(entry.class_name)?, text(entry.name)?, text(entry.signature)?])
    }

    /// Adds what the method's bytecodes refer to. Returns whether all of it is in the pool.
    pub(crate) fn fill(&self, method: &mut Method) -> bool {
        let (mut invokes, mut constants, mut is_complete) = (Vec::new(), HashMap::new(), true);
        for instruction in instructions(&method.code).map_while(Result::ok) {
            let Some(index) = instruction.constant_index() else { continue };
            let entry = self.references.get(&index);
            let Some((tag, [class_name, name, signature])) =
                entry.and_then(|entry| Some((entry.tag, self.texts_of(entry)?)))
            else {
                is_complete = false;
                continue;
            };
            if instruction.opcode.transfer() == Transfer::Invoke {
                invokes.push(InvokeRef {
                    bci: instruction.bci,
                    class_name: text(class_name),
                    name: text(name),
                    signature: text(signature),
                });
            } else {
                constants.entry(index).or_insert_with(|| constant(tag, class_name, name, signature));
            }
        }
        let mut constants: Vec<_> = constants.into_iter().collect();
        constants.sort_by_key(|c| c.0);
        method.invokes = invokes.into();
        method.constants = Some(constants.into());
        is_complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::MethodIndex;
    use jportal_capture::schema::{InvokeTarget, MethodDefined, PoolConstant, PoolText};
    use jportal_units::Tsc;

    // getstatic #9; ldc #3; ldc #4; new #7; ldc_w #3; invokevirtual #10; invokedynamic #11; return
    const CODE: [u8; 22] = [178, 0, 9, 18, 3, 18, 4, 187, 0, 7, 19, 0, 3, 182, 0, 10, 186, 0, 11, 0, 0, 177];

    fn pool() -> ClassConstants {
        let entry = |index, tag, class_name, name, signature| PoolReference {
            index,
            tag,
            class_name,
            name,
            signature,
        };
        let references = vec![
            entry(3, DYNAMIC, 0, 21, 22),
            entry(4, 8, 0, 0, 0),
            entry(7, CLASS, 20, 0, 0),
            entry(9, FIELD, 20, 21, 22),
            entry(10, 10, 20, 21, 23),
            entry(11, 18, 0, 24, 23),
            entry(12, CLASS, 24, 0, 0),
        ];
        let texts = [(20, "a/B"), (21, "f"), (22, "I"), (23, "()V"), (24, "run")];
        let texts = texts.map(|(index, text)| PoolText { index, text: text.into() }).to_vec();
        ClassConstants { klass: 1, references, texts }
    }

    fn defined(pool: Option<ClassConstants>, method: MethodDefined) -> (Method, bool) {
        let mut index = MethodIndex::default();
        if let Some(pool) = pool {
            index.set_constants(pool);
        }
        let method = MethodDefined { method: 2, klass: 1, code: CODE[..].into(), ..method };
        let defined = index.define(Tsc(1), method);
        (index.table().get(defined.id).unwrap().clone(), defined.is_complete)
    }

    #[test]
    fn a_class_pool_and_lists_of_the_method_say_the_same() {
        let invoke = |bci, class: &str, name: &str| InvokeTarget {
            bci,
            class_name: class.into(),
            name: name.into(),
            signature: "()V".into(),
        };
        let put = |index, tag, class: &str, name: &str, signature: &str| PoolConstant {
            index,
            tag,
            class_name: class.into(),
            name: name.into(),
            signature: signature.into(),
        };
        let constants = vec![
            put(9, FIELD, "a/B", "f", "I"),
            put(3, DYNAMIC, "", "f", "I"),
            put(4, 8, "", "", ""),
            put(7, CLASS, "a/B", "", ""),
        ];
        let lists = MethodDefined {
            invokes: vec![invoke(13, "a/B", "f"), invoke(16, "", "run")],
            constants: Some(constants),
            ..MethodDefined::default()
        };
        let of_lists = defined(None, lists.clone());
        assert_eq!((of_lists.0.invokes.len(), of_lists.1), (2, true));
        assert_eq!(defined(Some(pool()), MethodDefined::default()), of_lists);
        let found: Vec<_> = instructions(&CODE).map(|i| of_lists.0.constant_of(&i.unwrap())).collect();
        let [name, descriptor] = ["f", "I"].map(Into::into);
        let field = Constant::Field { class_name: "a/B".into(), name, descriptor };
        let dynamic = Constant::Dynamic { name: "f".into(), descriptor: "I".into() };
        let (string, class) = (Constant::Other(8), Constant::Class("a/B".into()));
        let [field, dynamic, string, class] = [&field, &dynamic, &string, &class].map(Some);
        assert_eq!(found, [field, dynamic, string, class, dynamic, None, None, None]);
        // A method with lists has a pool of its own.
        let other = ClassConstants { klass: 1, ..ClassConstants::default() };
        assert_eq!(defined(Some(other), lists), of_lists);
    }

    #[test]
    fn what_the_pool_lacks_is_reported() {
        let (method, is_complete) = defined(None, MethodDefined::default());
        assert_eq!((method.constants, is_complete), (None, false));
        for missing in 0..6 {
            let mut pool = pool();
            pool.references.remove(missing);
            let (method, is_complete) = defined(Some(pool), MethodDefined::default());
            let known = method.invokes.len() + method.constants.unwrap().len();
            assert_eq!((known, is_complete), (5, false), "entry {missing}");
        }
        for missing in 0..5 {
            let mut pool = pool();
            pool.texts.remove(missing);
            assert!(!defined(Some(pool), MethodDefined::default()).1, "text {missing}");
        }
    }

    #[test]
    fn the_pool_of_a_class_ends_with_it() {
        let mut index = MethodIndex::default();
        index.set_constants(pool());
        index.unload_class(Tsc(1), 1);
        let method = MethodDefined { method: 2, klass: 1, code: CODE[..].into(), ..MethodDefined::default() };
        let id = index.define(Tsc(2), method).id;
        assert_eq!(index.table().get(id).unwrap().constants, None);
    }
}
