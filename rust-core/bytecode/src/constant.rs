// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What bytecodes other than invokes refer to in the constant pool.

/// Entry of a constant pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Constant {
    /// A class: its internal name (`java/lang/Object`, `[I`).
    Class(Box<str>),
    /// A field.
    Field {
        /// Class named in the constant pool, internal name.
        class_name: Box<str>,
        /// Its name.
        name: Box<str>,
        /// Its descriptor.
        descriptor: Box<str>,
    },
    /// A constant that a bootstrap method computes.
    Dynamic {
        /// Its name.
        name: Box<str>,
        /// Its descriptor.
        descriptor: Box<str>,
    },
    /// Another constant: its tag (JVMS table 4.4-A).
    Other(u8),
}

impl Constant {
    /// Whether a field or dynamic constant holds a reference, to an object or an array. `None` for
    /// other constants.
    pub fn is_reference(&self) -> Option<bool> {
        match self {
            Self::Field { descriptor, .. } | Self::Dynamic { descriptor, .. } => {
                Some(descriptor.starts_with(['L', '[']))
            }
            Self::Class(_) | Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_says_whether_it_is_a_reference() {
        for (descriptor, expected) in [("I", false), ("J", false), ("[I", true), ("La/B;", true)] {
            let [class_name, name] = ["a/A", "f"].map(Into::into);
            let field = Constant::Field { class_name, name, descriptor: descriptor.into() };
            let dynamic = Constant::Dynamic { name: "f".into(), descriptor: descriptor.into() };
            assert_eq!([field, dynamic].map(|c| c.is_reference()), [Some(expected); 2], "{descriptor}");
        }
        for other in [Constant::Class("[I".into()), Constant::Other(8)] {
            assert_eq!(other.is_reference(), None);
        }
    }
}
