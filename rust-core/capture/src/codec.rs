// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The primitive encoding of metadata records: little-endian, unaligned, no padding. Decoding asks
//! for memory fallibly, because a VM decodes its own records when it trims its capture.
//!
//! | type        | bytes                                          |
//! |-------------|------------------------------------------------|
//! | `u8`..`u64` | the value                                      |
//! | `i32`       | two's complement                               |
//! | `Str`       | `u32` length, then the VM's modified UTF-8     |
//! | `Bytes`     | `u32` length, then the bytes                   |
//! | `Vec<T>`    | `u32` count, then the items                    |
//! | `Appended<T>` | as `T`; not there in captures of older versions |
//! | `Option<T>` | as `Appended<T>`, where absence is no value of `T` |

use std::borrow::Cow;

use simd_cesu8::mutf8;

/// Why the body of a record could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The body ends inside a field.
    #[error("record body ends at byte {at} inside a field of {wanted} bytes ({left} left)")]
    Truncated {
        /// Offset of the field in the body.
        at: usize,
        /// Length of the field.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A list claims more items than its bytes could hold.
    #[error("list at byte {at} claims {count} items but only {left} bytes are left")]
    ImpossibleCount {
        /// Offset of the count in the body.
        at: usize,
        /// The claimed number of items.
        count: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// There is no memory for a field. Nothing is known about the record.
    #[error("no memory for a field of {bytes} bytes")]
    Memory {
        /// How much was wanted.
        bytes: usize,
    },
}

/// A cursor over the body of one record.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Source<'a> {
    /// A cursor at the start of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }
    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.body.len() - self.at
    }
    fn take(&mut self, n: usize) -> Result<&'a [u8], CodecError> {
        let left = self.left();
        if n > left {
            return Err(CodecError::Truncated { at: self.at, wanted: n, left });
        }
        let s = &self.body[self.at..self.at + n];
        self.at += n;
        Ok(s)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let mut a = [0; N];
        a.copy_from_slice(self.take(N)?);
        Ok(a)
    }
}

/// A value with a record encoding.
pub trait Wire: Sized {
    /// Reads the value at the cursor.
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError>;
    /// Appends the value.
    fn encode(&self, to: &mut Vec<u8>);
}

macro_rules! wire_int {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
                Ok(Self::from_le_bytes(from.array()?))
            }
            fn encode(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
wire_int!(u8, u16, u32, u64, i32);

/// A string of the VM: modified UTF-8 as HotSpot's symbols hold it.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Str(pub Box<[u8]>);

impl Str {
    /// The text. UTF-8 is also accepted, because the recorder's own texts and the command line are
    /// UTF-8. Each byte that belongs to no character, or to an unpaired surrogate, becomes U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        mutf8::decode_lossy(&self.0)
    }
}
impl From<&str> for Str {
    fn from(s: &str) -> Self {
        Self(s.as_bytes().into())
    }
}
impl std::fmt::Debug for Str {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}
impl std::fmt::Display for Str {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

/// Raw bytes: bytecode or machine code.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Bytes(pub Box<[u8]>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}
impl From<&[u8]> for Bytes {
    fn from(b: &[u8]) -> Self {
        Self(b.into())
    }
}

fn blob(from: &mut Source<'_>) -> Result<Box<[u8]>, CodecError> {
    let bytes = u32::decode(from)? as usize;
    let field = from.take(bytes)?;
    let mut own = Vec::new();
    own.try_reserve_exact(bytes).map_err(|_| CodecError::Memory { bytes })?;
    own.extend_from_slice(field);
    Ok(own.into_boxed_slice())
}
fn put_blob(b: &[u8], to: &mut Vec<u8>) {
    // A blob of 4 GiB cannot pass through the ring, whose frames carry a 32-bit length.
    (b.len() as u32).encode(to);
    to.extend_from_slice(b);
}
impl Wire for Str {
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
        blob(from).map(Self)
    }
    fn encode(&self, to: &mut Vec<u8>) {
        put_blob(&self.0, to);
    }
}
impl Wire for Bytes {
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
        blob(from).map(Self)
    }
    fn encode(&self, to: &mut Vec<u8>) {
        put_blob(&self.0, to);
    }
}
/// A field that a later version of the format appended to a body. A body that ends before the
/// field yields the default value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended<T>(pub T);

impl<T: Wire + Default> Wire for Appended<T> {
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
        if from.left() == 0 { Ok(Self::default()) } else { T::decode(from).map(Self) }
    }
    fn encode(&self, to: &mut Vec<u8>) {
        self.0.encode(to);
    }
}
/// A field that a later version of the format appended to a body, if absence must not look like a
/// value: a body that ends before the field yields `None`. Nothing may follow a `None`.
impl<T: Wire> Wire for Option<T> {
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
        if from.left() == 0 { Ok(None) } else { T::decode(from).map(Some) }
    }
    fn encode(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|value| value.encode(to));
    }
}
impl<T: Wire> Wire for Vec<T> {
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
        let at = from.at;
        let count = u32::decode(from)? as usize;
        // Every item takes at least one byte, so an impossible count is refused before
        // allocating.
        if count > from.left() {
            return Err(CodecError::ImpossibleCount { at, count, left: from.left() });
        }
        let mut items = Self::new();
        for _ in 0..count {
            let bytes = (items.len() + 1) * size_of::<T>();
            items.try_reserve(1).map_err(|_| CodecError::Memory { bytes })?;
            items.push(T::decode(from)?);
        }
        Ok(items)
    }
    fn encode(&self, to: &mut Vec<u8>) {
        (self.len() as u32).encode(to);
        for item in self {
            item.encode(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a/` and U+1D4D3 as a surrogate pair.
    const SUPPLEMENTARY: &[u8] = b"a/\xed\xa0\xb5\xed\xb3\x93";

    fn text(bytes: &[u8]) -> String {
        Str(bytes.into()).text().into_owned()
    }

    #[test]
    fn text_that_is_utf_8_is_not_copied() {
        for text in ["", "java/lang/Object", "a/\u{e4}\u{20ac}", "a/\u{1d4d3}"] {
            let s = Str::from(text);
            assert!(matches!(s.text(), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn modified_utf_8_is_decoded() {
        assert_eq!(text(b"a\xc0\x80b"), "a\0b");
        assert_eq!(text(SUPPLEMENTARY), "a/\u{1d4d3}");
        assert_eq!(text(b"\xc3\xa4\xc0\x80\xe2\x82\xac"), "\u{e4}\0\u{20ac}");
        assert_eq!(Str(SUPPLEMENTARY.into()).to_string(), "a/\u{1d4d3}");
    }

    #[test]
    fn each_byte_of_no_character_is_replaced() {
        let cases: [(&[u8], usize); 7] = [
            // Surrogates: a high one, a low one, and a pair in the wrong order.
            (b"x\xed\xa0\xb5y", 3),
            (b"x\xed\xb3\x93y", 3),
            (b"x\xed\xb3\x93\xed\xa0\xb5y", 6),
            (b"x\xc0y", 1),
            (b"x\xc0\x81y", 2),
            (b"x\xe2\x82y", 2),
            (b"x\x80\xfe\xffy", 3),
        ];
        for (bytes, replaced) in cases {
            assert_eq!(text(bytes), format!("x{}y", "\u{fffd}".repeat(replaced)), "{bytes:x?}");
        }
    }

    #[test]
    fn a_character_that_is_cut_is_replaced() {
        for len in 2..SUPPLEMENTARY.len() {
            let expected = format!("a/{}", "\u{fffd}".repeat(len - 2));
            assert_eq!(text(&SUPPLEMENTARY[..len]), expected, "{len} bytes");
        }
        assert_eq!(text(b"a\xc0"), "a\u{fffd}");
        assert_eq!(text(b"a\xc3"), "a\u{fffd}");
    }
}
