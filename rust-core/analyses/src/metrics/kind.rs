// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the opcode of an instruction says about it.

use jportal_bytecode::Opcode;

/// Kinds of instructions that the metrics count. An instruction may be of several kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpcodeKind {
    /// `if`, `tableswitch`, `lookupswitch`.
    Control,
    /// Reads and writes of array elements.
    Array,
    /// The same, of `char`.
    CharArray,
    /// The same, of `short`, `int`, `long`, `float`, `double`.
    NumArray,
    /// The same, of `byte` or `boolean`: the opcode does not say which.
    ByteArray,
    /// The same, of references.
    RefArray,
    /// Arithmetic, comparison, negation of `float` and `double`, and conversion from or to them.
    Float,
    /// Reads and writes of fields, static or not.
    Field,
    /// `new` and the like.
    Allocation,
    /// `monitorenter`.
    Lock,
}

impl OpcodeKind {
    /// Whether an instruction is of this kind.
    pub(super) const fn has(self, opcode: Opcode) -> bool {
        let o = opcode.0;
        match self {
            Self::Control => matches!(o, 153..=166 | 170 | 171 | 198 | 199),
            Self::Array => matches!(o, 46..=53 | 79..=86),
            Self::CharArray => matches!(o, 52 | 85),
            Self::NumArray => matches!(o, 46..=49 | 53 | 79..=82 | 86),
            Self::ByteArray => matches!(o, 51 | 84),
            Self::RefArray => matches!(o, 50 | 83),
            Self::Float => matches!(o,
                98 | 99 | 102 | 103 | 106 | 107 | 110 | 111 | 114 | 115 | 118 | 119 // arithmetic
                | 134 | 135 | 137..=144 // conversions
                | 149..=152), // comparisons
            Self::Field => matches!(o, 178..=181),
            Self::Allocation => matches!(o, 187..=189 | 197),
            Self::Lock => o == 194,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_the_names() {
        let names = |kind: OpcodeKind| {
            (0..=201).map(Opcode).filter(|o| kind.has(*o)).map(Opcode::name).collect::<Vec<_>>()
        };
        let array = |name: &str| name.ends_with("aload") || name.ends_with("astore");
        let arrays: Vec<_> =
            (0..=201).map(|o| Opcode(o).name()).filter(|n| n.len() > 5 && array(n)).collect();
        assert_eq!(
            names(OpcodeKind::Array),
            arrays.into_iter().filter(|n| *n != "astore").collect::<Vec<_>>()
        );
        assert_eq!(names(OpcodeKind::CharArray), ["caload", "castore"]);
        assert_eq!(names(OpcodeKind::RefArray), ["aaload", "aastore"]);
        assert_eq!(names(OpcodeKind::ByteArray), ["baload", "bastore"]);
        assert_eq!(names(OpcodeKind::NumArray).len() + 6, 16);
        assert_eq!(names(OpcodeKind::Field), ["getstatic", "putstatic", "getfield", "putfield"]);
        assert_eq!(names(OpcodeKind::Allocation), ["new", "newarray", "anewarray", "multianewarray"]);
        assert_eq!(names(OpcodeKind::Control).len(), 18);
        // All names with an f or d that are no loads, stores, constants or returns.
        let float = |name: &str| {
            let types = name.starts_with(['f', 'd']) || name.ends_with("2f") || name.ends_with("2d");
            types && !["load", "store", "const", "return", "dup"].iter().any(|part| name.contains(part))
        };
        let floats: Vec<_> = (0..=201).map(|o| Opcode(o).name()).filter(|n| float(n)).collect();
        assert_eq!(names(OpcodeKind::Float), floats);
    }
}
