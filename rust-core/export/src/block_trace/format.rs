// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The two forms of event numbers, and their limits.

use jportal_analyses::block_trace::leaders;
use jportal_bytecode::{Method, MethodTable};
use jportal_units::MethodId;
use serde::Serialize;

use crate::Error;

/// The form of event numbers. The type is in the two highest bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// 32 bits: `type << 30 | method << 11 | block`.
    #[default]
    Jbi32,
    /// 64 bits: `type << 62 | method << 31 | block`.
    Jbi64,
}

/// The type of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Type {
    /// A class was loaded, or, with the next bit set, an escape.
    Class = 0,
    Start = 1,
    End = 2,
    Block = 3,
}

/// Bits of the length in an escape.
const LENGTH: u32 = 24;
/// Bits of the kind in an escape.
const KIND: u32 = 5;

impl Format {
    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jbi32 => "jbi32",
            Self::Jbi64 => "jbi64",
        }
    }
    /// Bytes of a word.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Jbi32 => 4,
            Self::Jbi64 => 8,
        }
    }
    const fn bits(self) -> u32 {
        8 * self.bytes() as u32
    }
    /// Bits of a block number.
    const fn block_bits(self) -> u32 {
        match self {
            Self::Jbi32 => 11,
            Self::Jbi64 => 31,
        }
    }
    /// Number of methods that the form can hold.
    pub const fn methods(self) -> u64 {
        match self {
            Self::Jbi32 => 1 << 19,
            Self::Jbi64 => 1 << 31,
        }
    }
    /// Number of blocks per method that the form can hold.
    pub const fn blocks(self) -> u64 {
        1 << self.block_bits()
    }
    /// The number of a block among those of all methods, or of a method (`block` 0).
    pub fn id(self, method: MethodId, block: u32) -> u64 {
        u64::from(method.get()) << self.block_bits() | u64::from(block)
    }
    pub(super) fn event(self, r#type: Type, method: MethodId, block: u32) -> u64 {
        (r#type as u64) << (self.bits() - 2) | self.id(method, block)
    }
    /// The loading of a class.
    pub(super) fn load(self, class: u32) -> u64 {
        u64::from(class) & ((1 << (self.bits() - 3)) - 1)
    }
    pub(super) fn escape(self, kind: u8, length: usize) -> u64 {
        1 << (self.bits() - 3) | u64::from(kind) << LENGTH | length as u64
    }
    /// The type, the method and the block.
    pub(super) fn split(self, word: u64) -> (u8, u32, u32) {
        let id = word & ((1 << (self.bits() - 2)) - 1);
        let block = id & (self.blocks() - 1);
        ((word >> (self.bits() - 2)) as u8, (id >> self.block_bits()) as u32, block as u32)
    }
    /// The kind and the length of an escape; `None` for another word.
    pub(super) fn escaped(self, word: u64) -> Option<(u8, usize)> {
        let fits = word >> (self.bits() - 3) == 1;
        let kind = (word >> LENGTH & ((1 << KIND) - 1)) as u8;
        fits.then_some((kind, (word & ((1 << LENGTH) - 1)) as usize))
    }
    /// The highest bit of a word.
    pub(super) const fn top(self) -> u64 {
        1 << (self.bits() - 1)
    }
    /// Checks that the form has room for the methods in scope and their blocks.
    ///
    /// # Errors
    /// Names the first method for which there is no room.
    pub fn check(self, methods: &MethodTable, scope: impl Fn(&Method) -> bool) -> Result<(), Error> {
        for m in methods.iter() {
            if u64::from(m.id.get()) >= self.methods() {
                let (number, method, limit) = (m.id.get(), m.qualified_name(), self.methods());
                return Err(Error::TooManyMethods { number, method, limit });
            }
            // A block has at least one byte.
            if m.code.len() as u64 > self.blocks() && scope(m) {
                let blocks = leaders(m).map_or(0, |b| b.leaders().len());
                if blocks as u64 > self.blocks() {
                    let (method, limit) = (m.qualified_name(), self.blocks());
                    return Err(Error::TooManyBlocks { method, blocks, limit });
                }
            }
        }
        Ok(())
    }
}
