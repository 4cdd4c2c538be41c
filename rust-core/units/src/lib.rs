// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Newtypes for the quantities that JPortal counts.
//!
//! Every other crate uses these types, so that an address cannot be added to a timestamp and an
//! offset into one core's trace cannot index another stream. The crate holds no logic beyond
//! conversion, comparison and display.
#![forbid(unsafe_code)]

use core::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($repr:ty), $fmt:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        impl $name {
            /// The plain number.
            #[inline]
            pub const fn get(self) -> $repr {
                self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $fmt, self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "(", $fmt, ")"), self.0)
            }
        }
        impl From<$repr> for $name {
            #[inline]
            fn from(v: $repr) -> Self {
                Self(v)
            }
        }
    };
}

unit!(
    /// A virtual address of the traced process.
    Address(u64),
    "{:#x}"
);
unit!(
    /// A byte offset into one core's PT stream, counted from the start of the recording
    /// (the kernel's `aux_head` scale).
    StreamOffset(u64),
    "@{}"
);
unit!(
    /// A timestamp-counter value of the recording machine.
    Tsc(u64),
    "{}"
);
unit!(
    /// A core (for the emulated unit: a virtual core).
    Core(u32),
    "core {}"
);
unit!(
    /// A thread id of the operating system.
    Tid(u32),
    "tid {}"
);
unit!(
    /// Bytecode index inside a method (JVMS 4.7.3: offset into the `code` array).
    Bci(u16),
    "{}"
);
unit!(
    /// The VM's `Method*` as exported. It identifies a method only at a given time: the VM may
    /// reuse the address.
    MethodPtr(u64),
    "{:#x}"
);
unit!(
    /// A method interned by the decoder: dense, unique for the whole recording.
    MethodId(u32),
    "m{}"
);
unit!(
    /// One installed version of a code blob, interned by the decoder: dense, unique for
    /// the whole recording.
    CodeId(u32),
    "c{}"
);

impl Address {
    /// The address `n` bytes higher; wraps as the machine's arithmetic does.
    #[inline]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.wrapping_add(n))
    }
    /// Distance in bytes from `base`; wraps when `base` is larger.
    #[inline]
    pub const fn minus(self, base: Self) -> u64 {
        self.0.wrapping_sub(base.0)
    }
}

/// A half-open range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AddressRange {
    /// First address inside.
    pub start: Address,
    /// First address after the range.
    pub end: Address,
}

impl AddressRange {
    /// The range of `len` bytes that begins at `start`.
    #[inline]
    pub const fn at(start: Address, len: u64) -> Self {
        Self { start, end: start.plus(len) }
    }
    /// Whether `a` lies inside.
    #[inline]
    pub const fn contains(&self, a: Address) -> bool {
        a.0 >= self.start.0 && a.0 < self.end.0
    }
    /// Length in bytes; 0 for an inverted range.
    #[inline]
    pub const fn len(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
    /// Whether no address lies inside.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether the two ranges share an address.
    #[inline]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start.0 < other.end.0 && other.start.0 < self.end.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_edges() {
        let r = AddressRange::at(Address(0x1000), 0x10);
        assert!(r.contains(Address(0x1000)) && !r.contains(Address(0x1010)));
        assert!(r.overlaps(&AddressRange::at(Address(0x100f), 1)));
        assert!(!r.overlaps(&AddressRange::at(Address(0x1010), 1)));
        assert_eq!(r.len(), 16);
    }
}
