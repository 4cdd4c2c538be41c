// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compact JSON: columns of numbers, and a table of strings.

use std::io::{self, Write};

use hashbrown::HashMap;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

/// The greatest number to which all smaller ones are exact in JavaScript: 2⁵³ - 1.
const SAFE: u64 = (1 << 53) - 1;

/// A number. It is a string if JavaScript's numbers cannot hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Num(pub(super) u64);

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.0 <= SAFE { s.serialize_u64(self.0) } else { s.collect_str(&self.0) }
    }
}

/// A column of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Column(pub(super) Vec<u64>);

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.0.iter().map(|n| Num(*n)))
    }
}

/// A column of numbers, each as its difference from the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deltas(pub(super) Vec<u64>);

impl Serialize for Deltas {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut before = 0u64;
        let mut seq = s.serialize_seq(Some(self.0.len()))?;
        for n in &self.0 {
            // As two's complement, so that any two numbers have a difference.
            let difference = n.wrapping_sub(before) as i64;
            match difference.unsigned_abs() <= SAFE {
                true => seq.serialize_element(&difference)?,
                false => seq.serialize_element(&difference.to_string())?,
            }
            before = *n;
        }
        seq.end()
    }
}

/// A column that is mostly 0: pairs of a row, as its distance from the row before, and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sparse {
    pairs: Column,
    next: u64,
}

impl Sparse {
    /// Adds a value. Rows come in ascending order.
    pub(super) fn put(&mut self, row: usize, value: u64) {
        if value != 0 {
            let row = row as u64;
            self.pairs.0.extend([row - self.next, value]);
            self.next = row;
        }
    }
}

impl Serialize for Sparse {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.pairs.serialize(s)
    }
}

/// The strings of the page, each once, and the names of methods: pairs of a string and the loader.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Strings {
    #[serde(skip)]
    numbers: HashMap<String, u32>,
    all: Vec<String>,
    #[serde(skip)]
    pairs: HashMap<(u32, u32), u32>,
    names: Vec<u32>,
}

impl Strings {
    /// The number of a string.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
    /// The number of a method's name.
    pub(super) fn name(&mut self, method: &str, loader: &str) -> u64 {
        let pair = (self.number(method), self.number(loader));
        let next = self.pairs.len() as u32;
        let number = *self.pairs.entry(pair).or_insert(next);
        if number == next {
            self.names.extend([pair.0, pair.1]);
        }
        number.into()
    }
    /// About the number of bytes of its strings in the page.
    pub(super) fn bytes(&self) -> usize {
        self.all.iter().map(|s| s.len() + 3).sum()
    }
}

/// The number of bytes of a value as JSON inside of the page.
pub(super) fn size(value: &impl Serialize) -> io::Result<usize> {
    let mut counted = Counted(0);
    json(value, &mut counted)?;
    Ok(counted.0)
}

/// Writes a value as JSON that cannot end the script element in which it stands.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    Ok(serde_json::to_writer(Escaping(out), value)?)
}

struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes each `<` as an escape of JSON. In JSON, `<` occurs only in strings.
struct Escaping<'w>(&'w mut dyn Write);

impl Write for Escaping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (i, part) in bytes.split(|b| *b == b'<').enumerate() {
            if i > 0 {
                self.0.write_all(br"\u003c")?;
            }
            self.0.write_all(part)?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &impl Serialize) -> String {
        let mut out = Vec::new();
        json(value, &mut out).unwrap();
        assert_eq!(size(value).unwrap(), out.len());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_string_ends_the_script_element() {
        let hostile = "</script><!--<script>\u{2028}\"\\\n";
        let written = text(&hostile);
        assert!(!written.contains('<'), "{written}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), hostile);
    }

    #[test]
    fn numbers_that_javascript_cannot_hold_are_strings() {
        assert_eq!(text(&Column(vec![0, SAFE, SAFE + 1])), r#"[0,9007199254740991,"9007199254740992"]"#);
    }

    #[test]
    fn columns_are_short() {
        assert_eq!(text(&Deltas(vec![5, 7, 6, u64::MAX])), "[5,2,-1,-7]");
        assert_eq!(text(&Deltas(vec![0, 1 << 60])), r#"[0,"1152921504606846976"]"#);
        let mut s = Sparse::default();
        for (row, value) in [(2, 9), (3, 0), (7, 1)] {
            s.put(row, value);
        }
        assert_eq!(text(&s), "[2,9,5,1]");
        let mut strings = Strings::default();
        assert_eq!(["a", "b", "a"].map(|s| strings.number(s)), [0, 1, 0]);
        assert_eq!([("b", "l"), ("a", "l"), ("b", "l")].map(|(m, l)| strings.name(m, l)), [0, 1, 0]);
        assert_eq!(text(&strings), r#"{"all":["a","b","l"],"names":[1,2,0,2]}"#);
    }
}
