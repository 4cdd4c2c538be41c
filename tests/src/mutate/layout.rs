// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The position of each field in an encoded record.

use jportal_capture::header;
use jportal_capture::schema::{FieldSchema, SCHEMA, StructSchema};

use crate::Result;

/// A number in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Such as `NMethodInstalled.scopes[].parent`; rows are not numbered.
    pub path: String,
    /// Offset of its first byte.
    pub at: usize,
    /// Width in bytes.
    pub width: usize,
}

/// A string or raw bytes. The four bytes before it hold its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// As in [`Field`].
    pub path: String,
    /// Offset of its first byte.
    pub from: usize,
    /// Offset after its last byte.
    pub to: usize,
}

/// A list. The four bytes before it hold the number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// As in [`Field`].
    pub path: String,
    /// Offset of each row, and the offset after the last one.
    pub rows: Vec<usize>,
    /// Offset within a row of the index of its parent row, if rows have parents.
    pub parent: Option<usize>,
}

/// All fields of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodingLayout {
    /// Numbers, including the lengths of strings and lists.
    pub fields: Vec<Field>,
    /// Strings and raw bytes.
    pub blobs: Vec<Blob>,
    /// Lists.
    pub lists: Vec<List>,
    /// Number of bytes that were read.
    pub len: usize,
}

const fn field(name: &'static str, ty: &'static str) -> FieldSchema {
    FieldSchema { name, ty, doc: &[] }
}
const fn payload(name: &'static str, fields: &'static [FieldSchema]) -> StructSchema {
    StructSchema { name, kind: None, doc: &[], fields }
}

/// The payloads of small chunks (`FORMAT.md`). A test compares them with the writer's output.
const PAYLOADS: &[StructSchema] = &[
    payload("Counter", &[field("name", "Str"), field("value", "u64")]),
    payload(
        "End",
        &[
            field("reason", "u8"),
            field("text", "Str"),
            field("metadata_bytes", "u64"),
            field("pt_bytes", "u64"),
            field("sideband_bytes", "u64"),
            field("chunks", "u64"),
            field("counters", "Vec<Counter>"),
        ],
    ),
    payload(
        "Loss",
        &[field("reason", "u8"), field("tsc", "u64"), field("bytes", "u64"), field("text", "Str")],
    ),
];

/// The schema of the struct `name`.
pub fn schema(name: &str) -> Option<&'static StructSchema> {
    SCHEMA.iter().chain(header::SCHEMA).chain(PAYLOADS).find(|s| s.name == name)
}

/// The layout of the encoding of a `name` that begins at offset `at` of `bytes`.
///
/// # Errors
/// If the bytes are not such an encoding, or it has a type that the schemas do not describe.
pub fn layout(name: &str, bytes: &[u8], at: usize) -> Result<EncodingLayout> {
    let mut walk = SchemaWalk { bytes, at, out: EncodingLayout::default() };
    walk.body(name, name)?;
    walk.out.len = walk.at;
    Ok(walk.out)
}

/// Appends to `to` the encoding of a `name` whose numbers are all `value`, with `rows` rows in
/// each list.
///
/// # Errors
/// If it has a type that the schemas do not describe.
pub fn example(name: &str, value: u8, rows: u32, to: &mut Vec<u8>) -> Result<()> {
    let schema = schema(name).ok_or_else(|| format!("no schema of {name}"))?;
    for f in schema.fields {
        let ty = plain(f.ty);
        match (width(ty), item(ty)) {
            (Some(width), _) => {
                to.push(value);
                to.resize(to.len() + width - 1, 0);
            }
            (None, Some(group)) => {
                to.extend_from_slice(&rows.to_le_bytes());
                (0..rows).try_for_each(|_| example(group, value, rows, to))?;
            }
            (None, None) if matches!(ty, "Str" | "Bytes") => {
                to.extend_from_slice(&2u32.to_le_bytes());
                to.extend_from_slice(b"x1");
            }
            (None, None) => example(ty, value, rows, to)?,
        }
    }
    Ok(())
}

/// Whether older writers end a body before a field of this type.
fn may_be_absent(ty: &str) -> bool {
    plain(ty) != ty
}

/// The type without its mark for fields that older writers do not write.
fn plain(ty: &str) -> &str {
    inside(ty, "Appended").or_else(|| inside(ty, "Option")).unwrap_or(ty)
}

fn width(ty: &str) -> Option<usize> {
    match ty {
        "u8" => Some(1),
        "u16" => Some(2),
        "u32" | "i32" => Some(4),
        "u64" => Some(8),
        _ => None,
    }
}

/// The type of a list's rows.
fn item(ty: &str) -> Option<&str> {
    inside(ty, "Vec")
}

/// The parameter of the type `outer<…>`. `stringify!` may insert blanks.
fn inside<'t>(ty: &'t str, outer: &str) -> Option<&'t str> {
    ty.strip_prefix(outer)?.trim().strip_prefix('<')?.strip_suffix('>').map(str::trim)
}

struct SchemaWalk<'b> {
    bytes: &'b [u8],
    at: usize,
    out: EncodingLayout,
}

impl SchemaWalk<'_> {
    fn body(&mut self, name: &str, path: &str) -> Result<()> {
        let schema = schema(name).ok_or_else(|| format!("no schema of {name}"))?;
        for f in schema.fields {
            if !(may_be_absent(f.ty) && self.at == self.bytes.len()) {
                self.value(plain(f.ty), format!("{path}.{}", f.name))?;
            }
        }
        Ok(())
    }
    fn value(&mut self, ty: &str, path: String) -> Result<()> {
        if let Some(width) = width(ty) {
            self.out.fields.push(Field { path, at: self.at, width });
            self.at += width;
        } else if let Some(group) = item(ty) {
            self.list(group, path)?;
        } else if matches!(ty, "Str" | "Bytes") {
            let len = self.count(format!("{path}.len"))?;
            let from = self.at;
            self.at =
                from.checked_add(len).filter(|&to| to <= self.bytes.len()).ok_or("a string too long")?;
            self.out.blobs.push(Blob { path, from, to: self.at });
        } else {
            self.body(ty, &path)?;
        }
        Ok(())
    }
    fn list(&mut self, group: &str, path: String) -> Result<()> {
        let count = self.count(format!("{path}.count"))?;
        let mut rows = vec![self.at];
        let first = self.out.fields.len();
        for _ in 0..count {
            self.body(group, &format!("{path}[]"))?;
            rows.push(self.at);
        }
        let parent = self.out.fields[first..].iter().find(|f| f.path.ends_with("[].parent"));
        let parent = parent.map(|f| f.at - rows[0]);
        self.out.lists.push(List { path, rows, parent });
        Ok(())
    }
    fn count(&mut self, path: String) -> Result<usize> {
        let bytes = self.bytes.get(self.at..self.at + 4).ok_or("it ends inside a length")?;
        self.out.fields.push(Field { path, at: self.at, width: 4 });
        self.at += 4;
        Ok(u32::from_le_bytes(bytes.try_into()?) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_capture::codec::{Source, Wire};
    use jportal_capture::{Counter, End, EndReason, Header, Record};

    #[test]
    fn every_record_and_payload_is_described_to_its_last_byte() {
        for s in SCHEMA.iter().chain(header::SCHEMA).chain(PAYLOADS) {
            let mut bytes = Vec::new();
            example(s.name, 1, 2, &mut bytes).unwrap();
            assert_eq!(layout(s.name, &bytes, 0).unwrap().len, bytes.len(), "{}", s.name);
            if let Some(kind) = s.kind {
                let mut again = Vec::new();
                Record::decode(kind, &bytes).unwrap().encode(&mut again);
                assert_eq!(again, bytes, "{}", s.name);
            }
        }
    }

    #[test]
    fn the_payloads_are_those_of_the_writer() {
        let mut bytes = Vec::new();
        example("Header", 1, 2, &mut bytes).unwrap();
        let mut again = Vec::new();
        Header::decode(&mut Source::new(&bytes)).unwrap().encode(&mut again);
        assert_eq!(again, bytes);
        let counter = |n: u64| Counter { name: "x1".into(), value: n };
        let end = End {
            reason: EndReason::Stopped,
            text: "x1".into(),
            metadata_bytes: 1,
            pt_bytes: 1,
            sideband_bytes: 1,
            chunks: 1,
            counters: vec![counter(1), counter(1)],
        };
        let (mut bytes, mut made) = (Vec::new(), Vec::new());
        end.encode(&mut bytes);
        example("End", 1, 2, &mut made).unwrap();
        assert_eq!(made, bytes);
    }

    #[test]
    fn lists_know_their_rows_and_parents() {
        let mut bytes = vec![9; 3];
        example("NMethodMarkers", 1, 2, &mut bytes).unwrap();
        let layout = layout("NMethodMarkers", &bytes, 3).unwrap();
        let contexts = layout.lists.iter().find(|l| l.path == "NMethodMarkers.contexts").unwrap();
        assert_eq!(
            (contexts.rows.len(), contexts.rows[1] - contexts.rows[0], contexts.parent),
            (3, 14, Some(0))
        );
        assert_eq!(layout.fields[0], Field { path: "NMethodMarkers.start".into(), at: 3, width: 8 });
    }
}
