// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The JVM's instruction set (JVMS chapter 6): names, lengths and control transfer.

use jportal_units::Bci;

/// A bytecode of the Java virtual machine, 0 to 201.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u8);

macro_rules! opcodes {
    ($($code:literal $konst:ident $name:literal $len:literal),* $(,)?) => {
        #[allow(missing_docs)]
        impl Opcode {
            $(pub const $konst: Self = Self($code);)*
        }
        /// Name and length of every opcode; length 0 if it depends on operands.
        const TABLE: [(&str, u8); 202] = [$(($name, $len)),*];
    };
}

opcodes! {
    0 NOP "nop" 1, 1 ACONST_NULL "aconst_null" 1, 2 ICONST_M1 "iconst_m1" 1, 3 ICONST_0 "iconst_0" 1,
    4 ICONST_1 "iconst_1" 1, 5 ICONST_2 "iconst_2" 1, 6 ICONST_3 "iconst_3" 1, 7 ICONST_4 "iconst_4" 1,
    8 ICONST_5 "iconst_5" 1, 9 LCONST_0 "lconst_0" 1, 10 LCONST_1 "lconst_1" 1, 11 FCONST_0 "fconst_0" 1,
    12 FCONST_1 "fconst_1" 1, 13 FCONST_2 "fconst_2" 1, 14 DCONST_0 "dconst_0" 1, 15 DCONST_1 "dconst_1" 1,
    16 BIPUSH "bipush" 2, 17 SIPUSH "sipush" 3, 18 LDC "ldc" 2, 19 LDC_W "ldc_w" 3, 20 LDC2_W "ldc2_w" 3,
    21 ILOAD "iload" 2, 22 LLOAD "lload" 2, 23 FLOAD "fload" 2, 24 DLOAD "dload" 2, 25 ALOAD "aload" 2,
    26 ILOAD_0 "iload_0" 1, 27 ILOAD_1 "iload_1" 1, 28 ILOAD_2 "iload_2" 1, 29 ILOAD_3 "iload_3" 1,
    30 LLOAD_0 "lload_0" 1, 31 LLOAD_1 "lload_1" 1, 32 LLOAD_2 "lload_2" 1, 33 LLOAD_3 "lload_3" 1,
    34 FLOAD_0 "fload_0" 1, 35 FLOAD_1 "fload_1" 1, 36 FLOAD_2 "fload_2" 1, 37 FLOAD_3 "fload_3" 1,
    38 DLOAD_0 "dload_0" 1, 39 DLOAD_1 "dload_1" 1, 40 DLOAD_2 "dload_2" 1, 41 DLOAD_3 "dload_3" 1,
    42 ALOAD_0 "aload_0" 1, 43 ALOAD_1 "aload_1" 1, 44 ALOAD_2 "aload_2" 1, 45 ALOAD_3 "aload_3" 1,
    46 IALOAD "iaload" 1, 47 LALOAD "laload" 1, 48 FALOAD "faload" 1, 49 DALOAD "daload" 1,
    50 AALOAD "aaload" 1, 51 BALOAD "baload" 1, 52 CALOAD "caload" 1, 53 SALOAD "saload" 1,
    54 ISTORE "istore" 2, 55 LSTORE "lstore" 2, 56 FSTORE "fstore" 2, 57 DSTORE "dstore" 2, 58 ASTORE "astore" 2,
    59 ISTORE_0 "istore_0" 1, 60 ISTORE_1 "istore_1" 1, 61 ISTORE_2 "istore_2" 1, 62 ISTORE_3 "istore_3" 1,
    63 LSTORE_0 "lstore_0" 1, 64 LSTORE_1 "lstore_1" 1, 65 LSTORE_2 "lstore_2" 1, 66 LSTORE_3 "lstore_3" 1,
    67 FSTORE_0 "fstore_0" 1, 68 FSTORE_1 "fstore_1" 1, 69 FSTORE_2 "fstore_2" 1, 70 FSTORE_3 "fstore_3" 1,
    71 DSTORE_0 "dstore_0" 1, 72 DSTORE_1 "dstore_1" 1, 73 DSTORE_2 "dstore_2" 1, 74 DSTORE_3 "dstore_3" 1,
    75 ASTORE_0 "astore_0" 1, 76 ASTORE_1 "astore_1" 1, 77 ASTORE_2 "astore_2" 1, 78 ASTORE_3 "astore_3" 1,
    79 IASTORE "iastore" 1, 80 LASTORE "lastore" 1, 81 FASTORE "fastore" 1, 82 DASTORE "dastore" 1,
    83 AASTORE "aastore" 1, 84 BASTORE "bastore" 1, 85 CASTORE "castore" 1, 86 SASTORE "sastore" 1,
    87 POP "pop" 1, 88 POP2 "pop2" 1, 89 DUP "dup" 1, 90 DUP_X1 "dup_x1" 1, 91 DUP_X2 "dup_x2" 1,
    92 DUP2 "dup2" 1, 93 DUP2_X1 "dup2_x1" 1, 94 DUP2_X2 "dup2_x2" 1, 95 SWAP "swap" 1,
    96 IADD "iadd" 1, 97 LADD "ladd" 1, 98 FADD "fadd" 1, 99 DADD "dadd" 1,
    100 ISUB "isub" 1, 101 LSUB "lsub" 1, 102 FSUB "fsub" 1, 103 DSUB "dsub" 1,
    104 IMUL "imul" 1, 105 LMUL "lmul" 1, 106 FMUL "fmul" 1, 107 DMUL "dmul" 1,
    108 IDIV "idiv" 1, 109 LDIV "ldiv" 1, 110 FDIV "fdiv" 1, 111 DDIV "ddiv" 1,
    112 IREM "irem" 1, 113 LREM "lrem" 1, 114 FREM "frem" 1, 115 DREM "drem" 1,
    116 INEG "ineg" 1, 117 LNEG "lneg" 1, 118 FNEG "fneg" 1, 119 DNEG "dneg" 1,
    120 ISHL "ishl" 1, 121 LSHL "lshl" 1, 122 ISHR "ishr" 1, 123 LSHR "lshr" 1,
    124 IUSHR "iushr" 1, 125 LUSHR "lushr" 1, 126 IAND "iand" 1, 127 LAND "land" 1,
    128 IOR "ior" 1, 129 LOR "lor" 1, 130 IXOR "ixor" 1, 131 LXOR "lxor" 1, 132 IINC "iinc" 3,
    133 I2L "i2l" 1, 134 I2F "i2f" 1, 135 I2D "i2d" 1, 136 L2I "l2i" 1, 137 L2F "l2f" 1, 138 L2D "l2d" 1,
    139 F2I "f2i" 1, 140 F2L "f2l" 1, 141 F2D "f2d" 1, 142 D2I "d2i" 1, 143 D2L "d2l" 1, 144 D2F "d2f" 1,
    145 I2B "i2b" 1, 146 I2C "i2c" 1, 147 I2S "i2s" 1, 148 LCMP "lcmp" 1, 149 FCMPL "fcmpl" 1,
    150 FCMPG "fcmpg" 1, 151 DCMPL "dcmpl" 1, 152 DCMPG "dcmpg" 1,
    153 IFEQ "ifeq" 3, 154 IFNE "ifne" 3, 155 IFLT "iflt" 3, 156 IFGE "ifge" 3, 157 IFGT "ifgt" 3,
    158 IFLE "ifle" 3, 159 IF_ICMPEQ "if_icmpeq" 3, 160 IF_ICMPNE "if_icmpne" 3, 161 IF_ICMPLT "if_icmplt" 3,
    162 IF_ICMPGE "if_icmpge" 3, 163 IF_ICMPGT "if_icmpgt" 3, 164 IF_ICMPLE "if_icmple" 3,
    165 IF_ACMPEQ "if_acmpeq" 3, 166 IF_ACMPNE "if_acmpne" 3, 167 GOTO "goto" 3, 168 JSR "jsr" 3, 169 RET "ret" 2,
    170 TABLESWITCH "tableswitch" 0, 171 LOOKUPSWITCH "lookupswitch" 0,
    172 IRETURN "ireturn" 1, 173 LRETURN "lreturn" 1, 174 FRETURN "freturn" 1, 175 DRETURN "dreturn" 1,
    176 ARETURN "areturn" 1, 177 RETURN "return" 1,
    178 GETSTATIC "getstatic" 3, 179 PUTSTATIC "putstatic" 3, 180 GETFIELD "getfield" 3, 181 PUTFIELD "putfield" 3,
    182 INVOKEVIRTUAL "invokevirtual" 3, 183 INVOKESPECIAL "invokespecial" 3, 184 INVOKESTATIC "invokestatic" 3,
    185 INVOKEINTERFACE "invokeinterface" 5, 186 INVOKEDYNAMIC "invokedynamic" 5,
    187 NEW "new" 3, 188 NEWARRAY "newarray" 2, 189 ANEWARRAY "anewarray" 3, 190 ARRAYLENGTH "arraylength" 1,
    191 ATHROW "athrow" 1, 192 CHECKCAST "checkcast" 3, 193 INSTANCEOF "instanceof" 3,
    194 MONITORENTER "monitorenter" 1, 195 MONITOREXIT "monitorexit" 1, 196 WIDE "wide" 0,
    197 MULTIANEWARRAY "multianewarray" 4, 198 IFNULL "ifnull" 3, 199 IFNONNULL "ifnonnull" 3,
    200 GOTO_W "goto_w" 5, 201 JSR_W "jsr_w" 5,
}

/// The kind of control transfer that an opcode performs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Continues at the next instruction.
    None,
    /// Branches to the target or continues at the next instruction.
    If,
    /// Jumps to the target.
    Goto,
    /// Pushes the bci of the next instruction and jumps to the target.
    Jsr,
    /// Jumps to a bci in a local variable.
    Ret,
    /// Jumps to one of several targets.
    Switch,
    /// Calls a method, then continues at the next instruction.
    Invoke,
    /// Ends the activation.
    Return,
    /// Jumps to a handler or ends the activation.
    Throw,
}

impl Opcode {
    /// Lower-case mnemonic; `?` for a code that is not a Java opcode.
    pub fn name(self) -> &'static str {
        TABLE.get(self.0 as usize).map_or("?", |t| t.0)
    }
    /// Its control transfer. [`crate::Instruction`] resolves `wide`.
    pub const fn transfer(self) -> Transfer {
        match self.0 {
            153..=166 | 198 | 199 => Transfer::If,
            167 | 200 => Transfer::Goto,
            168 | 201 => Transfer::Jsr,
            169 => Transfer::Ret,
            170 | 171 => Transfer::Switch,
            172..=177 => Transfer::Return,
            182..=186 => Transfer::Invoke,
            191 => Transfer::Throw,
            _ => Transfer::None,
        }
    }
    /// Fixed length in bytes; 0 if it depends on operands or the code is not a Java opcode.
    pub(crate) fn fixed_length(self) -> usize {
        TABLE.get(self.0 as usize).map_or(0, |t| t.1 as usize)
    }
}

impl std::fmt::Debug for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}
impl std::fmt::Display for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a method's bytecodes cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BytecodeError {
    /// A byte is not a Java opcode.
    #[error("opcode {code} at bci {at} is not one of Java's")]
    UnknownOpcode {
        /// Its bci.
        at: usize,
        /// The byte found.
        code: u8,
    },
    /// The code ends inside an instruction.
    #[error("{opcode} at bci {at} runs past the end of the code ({len} bytes)")]
    Truncated {
        /// Its bci.
        at: usize,
        /// The instruction.
        opcode: Opcode,
        /// Length of the code.
        len: usize,
    },
    /// A branch leaves the code.
    #[error("{opcode} at bci {at} branches to {target}, outside the code")]
    BadTarget {
        /// The bci of the branch.
        at: usize,
        /// The instruction.
        opcode: Opcode,
        /// The computed target.
        target: i64,
    },
    /// A branch leads into the middle of an instruction.
    #[error("{opcode} at bci {at} branches to {target}, where no instruction begins")]
    InsideInstruction {
        /// The bci of the branch.
        at: usize,
        /// The instruction.
        opcode: Opcode,
        /// The target.
        target: usize,
    },
    /// An exception handler does not begin at the start of an instruction.
    #[error("an exception handler begins at bci {handler}, where no instruction begins")]
    BadHandler {
        /// The bci at which it begins.
        handler: Bci,
    },
    /// The code is longer than the JVM allows.
    #[error("method code of {0} bytes exceeds the JVM's limit of 65535")]
    TooLong(usize),
}

/// One instruction of a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction<'a> {
    code: &'a [u8],
    /// Its bci.
    pub bci: Bci,
    /// Its opcode; the modified opcode for `wide`.
    pub opcode: Opcode,
    /// Whether a `wide` prefix precedes it.
    pub wide: bool,
    /// Length in bytes, including prefix and padding.
    pub len: u16,
}

/// Targets of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Target if no key matches.
    pub default: Bci,
    /// Keys and targets, in the order of the class file.
    pub cases: Vec<(i32, Bci)>,
}

impl<'a> Instruction<'a> {
    /// Parses the instruction at `at`.
    ///
    /// # Errors
    /// If the opcode is unknown or the instruction does not fit.
    pub fn at(code: &'a [u8], at: usize) -> Result<Self, BytecodeError> {
        let byte =
            *code.get(at).ok_or(BytecodeError::Truncated { at, opcode: Opcode::NOP, len: code.len() })?;
        let first = Opcode(byte);
        let (opcode, wide, len) = match first {
            Opcode::WIDE => {
                let op = Opcode(code.get(at + 1).copied().unwrap_or(0));
                (op, true, if op == Opcode::IINC { 6 } else { 4 })
            }
            Opcode::TABLESWITCH | Opcode::LOOKUPSWITCH => (first, false, switch_length(code, at, first)?),
            _ => (first, false, first.fixed_length()),
        };
        if len == 0 {
            return Err(BytecodeError::UnknownOpcode { at, code: byte });
        }
        if at + len > code.len() {
            return Err(BytecodeError::Truncated { at, opcode: first, len: code.len() });
        }
        if code.len() > usize::from(u16::MAX) {
            return Err(BytecodeError::TooLong(code.len()));
        }
        Ok(Self { code, bci: Bci(at as u16), opcode, wide, len: len as u16 })
    }
    /// Bci of the next instruction.
    pub const fn next(&self) -> Bci {
        Bci(self.bci.0.wrapping_add(self.len))
    }
    fn target(&self, offset: i32) -> Result<Bci, BytecodeError> {
        let target = i64::from(self.bci.0) + i64::from(offset);
        if target < 0 || target >= self.code.len() as i64 {
            return Err(BytecodeError::BadTarget { at: self.bci.0.into(), opcode: self.opcode, target });
        }
        Ok(Bci(target as u16))
    }
    /// Target of an `if*`, `goto*` or `jsr*`; `None` for other instructions.
    ///
    /// # Errors
    /// If the target lies outside the code.
    pub fn branch_target(&self) -> Result<Option<Bci>, BytecodeError> {
        let at = usize::from(self.bci.0);
        let offset = match self.opcode.transfer() {
            Transfer::If | Transfer::Goto | Transfer::Jsr => match self.len {
                5 => i32_at(self.code, at + 1),
                _ => i32::from(i16::from_be_bytes([self.code[at + 1], self.code[at + 2]])),
            },
            _ => return Ok(None),
        };
        self.target(offset).map(Some)
    }
    /// The targets of a `tableswitch` or `lookupswitch`; `None` for other instructions.
    ///
    /// # Errors
    /// If a target lies outside the code.
    pub fn switch(&self) -> Result<Option<Switch>, BytecodeError> {
        let base = self.switch_base();
        let key = |i: usize| match self.opcode {
            Opcode::TABLESWITCH => i32_at(self.code, base + 4).wrapping_add(i as i32),
            _ => i32_at(self.code, base + 8 + 8 * i),
        };
        let target = match self.opcode {
            Opcode::TABLESWITCH => |i| 12 + 4 * i,
            Opcode::LOOKUPSWITCH => |i| 12 + 8 * i,
            _ => return Ok(None),
        };
        let cases = (0..self.switch_len())
            .map(|i| Ok((key(i), self.target(i32_at(self.code, base + target(i)))?)))
            .collect::<Result<_, _>>()?;
        let default = self.target(i32_at(self.code, base))?;
        Ok(Some(Switch { default, cases }))
    }
    /// Number of cases of a switch; 0 for other instructions.
    pub fn switch_len(&self) -> usize {
        let base = self.switch_base();
        match self.opcode {
            Opcode::TABLESWITCH => (self.code_end() - base - 12) / 4,
            Opcode::LOOKUPSWITCH => (self.code_end() - base - 8) / 8,
            _ => 0,
        }
    }
    /// Target of the `index`-th case of a switch; `None` if there is none or it is malformed.
    pub fn switch_case(&self, index: usize) -> Option<Bci> {
        if index >= self.switch_len() {
            return None;
        }
        let base = self.switch_base();
        let at =
            if self.opcode == Opcode::TABLESWITCH { base + 12 + 4 * index } else { base + 12 + 8 * index };
        self.target(i32_at(self.code, at)).ok()
    }
    /// Target of a switch if no key matches; `None` for other or malformed instructions.
    pub fn switch_default(&self) -> Option<Bci> {
        match self.opcode {
            Opcode::TABLESWITCH | Opcode::LOOKUPSWITCH => {
                self.target(i32_at(self.code, self.switch_base())).ok()
            }
            _ => None,
        }
    }
    fn switch_base(&self) -> usize {
        (usize::from(self.bci.0) + 4) & !3
    }
    fn code_end(&self) -> usize {
        usize::from(self.bci.0) + usize::from(self.len)
    }
    /// The index that the instruction has into the constant pool; `None` for one without.
    pub fn constant_index(&self) -> Option<u16> {
        let at = usize::from(self.bci.0);
        match self.opcode.0 {
            // ldc
            18 => Some(self.code[at + 1].into()),
            // ldc_w, ldc2_w; fields, invokes, new; anewarray; checkcast, instanceof; multianewarray
            19 | 20 | 178..=187 | 189 | 192 | 193 | 197 => {
                Some(u16::from_be_bytes([self.code[at + 1], self.code[at + 2]]))
            }
            _ => None,
        }
    }
    /// The signed 16-bit immediate of `sipush`, the 8-bit one of `bipush`, the value of `iconst_*`.
    pub fn int_constant(&self) -> Option<i32> {
        let at = usize::from(self.bci.0);
        match self.opcode {
            Opcode::SIPUSH => Some(i16::from_be_bytes([self.code[at + 1], self.code[at + 2]]).into()),
            Opcode::BIPUSH => Some((self.code[at + 1] as i8).into()),
            Opcode(c @ 2..=8) => Some(i32::from(c) - 3),
            _ => None,
        }
    }
}

fn i32_at(code: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]])
}

fn switch_length(code: &[u8], at: usize, opcode: Opcode) -> Result<usize, BytecodeError> {
    let truncated = || BytecodeError::Truncated { at, opcode, len: code.len() };
    let base = (at + 4) & !3;
    let head = if opcode == Opcode::TABLESWITCH { 12 } else { 8 };
    if base + head > code.len() {
        return Err(truncated());
    }
    let items = if opcode == Opcode::TABLESWITCH {
        let (low, high) = (i64::from(i32_at(code, base + 4)), i64::from(i32_at(code, base + 8)));
        (high - low + 1).checked_mul(4)
    } else {
        i64::from(i32_at(code, base + 4)).checked_mul(8)
    };
    match items.and_then(|n| usize::try_from(n).ok()) {
        Some(n) if base + head + n <= code.len() => Ok(base + head + n - at),
        _ => Err(truncated()),
    }
}

/// Iterates over the instructions of `code`; ends after the first error.
pub fn instructions(code: &[u8]) -> impl Iterator<Item = Result<Instruction<'_>, BytecodeError>> {
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let here = at.filter(|&a| a < code.len())?;
        let i = Instruction::at(code, here);
        at = i.as_ref().ok().map(|i| here + usize::from(i.len));
        Some(i)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_java_opcode_has_a_name_and_the_table_is_in_order() {
        assert_eq!(Opcode(201).name(), "jsr_w");
        assert_eq!(Opcode::INVOKEDYNAMIC.0, 186);
        assert_eq!(Opcode(202).name(), "?");
    }

    #[test]
    fn instructions_that_refer_to_the_constant_pool() {
        let code = |opcode: u8| [opcode, 1, 2, 0, 0, 0];
        let index = |o: u8| Instruction::at(&code(o), 0).ok().and_then(|i| i.constant_index());
        let all: Vec<_> = (0..=201).filter(|o| index(*o).is_some()).map(|o| Opcode(o).name()).collect();
        let expected = "ldc ldc_w ldc2_w getstatic putstatic getfield putfield invokevirtual invokespecial \
                        invokestatic invokeinterface invokedynamic new anewarray checkcast instanceof \
                        multianewarray";
        assert_eq!(all.join(" "), expected);
        assert_eq!((index(18), index(19), index(197)), (Some(1), Some(0x102), Some(0x102)));
    }

    #[test]
    fn switch_targets_and_padding() {
        // tableswitch at bci 1: two bytes of padding, default +20, low 5, high 6
        let mut code = vec![0, 170, 0, 0];
        for v in [19i32, 5, 6, 19, 20] {
            code.extend_from_slice(&v.to_be_bytes());
        }
        code.extend([0; 4]);
        let i = Instruction::at(&code, 1).unwrap();
        assert_eq!(i.len, 23);
        let s = i.switch().unwrap().unwrap();
        assert_eq!(s.default, Bci(20));
        assert_eq!(s.cases, vec![(5, Bci(20)), (6, Bci(21))]);
    }

    #[test]
    fn hostile_switches_are_refused() {
        let mut code = vec![171, 0, 0, 0];
        code.extend_from_slice(&0i32.to_be_bytes());
        code.extend_from_slice(&i32::MAX.to_be_bytes());
        assert!(matches!(Instruction::at(&code, 0), Err(BytecodeError::Truncated { .. })));
        let mut code = vec![170, 0, 0, 0];
        for v in [0i32, 7, -9] {
            code.extend_from_slice(&v.to_be_bytes());
        }
        assert!(Instruction::at(&code, 0).is_err());
    }

    #[test]
    fn wide_and_branches() {
        let i = Instruction::at(&[196, 132, 0, 1, 0, 2], 0).unwrap();
        assert_eq!((i.opcode, i.wide, i.len), (Opcode::IINC, true, 6));
        let code = [167, 0, 3, 0];
        assert_eq!(Instruction::at(&code, 0).unwrap().branch_target().unwrap(), Some(Bci(3)));
        let code = [167, 0x80, 3, 0];
        assert!(Instruction::at(&code, 0).unwrap().branch_target().is_err());
    }
}
