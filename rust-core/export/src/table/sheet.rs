// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One Parquet file, filled row by row.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::options::Output;

/// Rows of a row group.
pub(super) const ROWS: usize = 1 << 17;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ColumnKind {
    /// Signed 64 bits.
    Long,
    /// Signed 64 bits that mostly grow by little from row to row. The file has the differences.
    Growing,
    /// A truth value.
    Flag,
    /// UTF-8.
    Text,
}

/// A column: name, content, whether it has values in all rows.
pub(super) type Spec = (&'static str, ColumnKind, bool);

/// A value.
#[derive(Clone)]
pub(super) enum Cell<'a> {
    Null,
    Long(i64),
    Flag(bool),
    Text(&'a str),
    /// One of few texts.
    Word(&'static str),
}

impl From<u64> for Cell<'_> {
    fn from(n: u64) -> Self {
        Self::Long(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

enum Values {
    Long(Vec<i64>),
    Flag(Vec<bool>),
    Text(Vec<ByteArray>),
}

struct Column {
    values: Values,
    /// By row: 1 for a value, 0 for none. Absent if all rows have values.
    defined: Option<Vec<i16>>,
    rows: usize,
}

impl Column {
    fn new((_, kind, required): Spec) -> Self {
        let values = match kind {
            ColumnKind::Long | ColumnKind::Growing => Values::Long(Vec::new()),
            ColumnKind::Flag => Values::Flag(Vec::new()),
            ColumnKind::Text => Values::Text(Vec::new()),
        };
        Self { values, defined: (!required).then(Vec::new), rows: 0 }
    }
    /// Adds a value. The value that does not fit a column is none, or the zero of the column.
    fn push(&mut self, cell: &Cell<'_>) {
        self.rows += 1;
        let fits = match (&mut self.values, cell) {
            (Values::Long(all), Cell::Long(n)) => {
                all.push(*n);
                true
            }
            (Values::Flag(all), Cell::Flag(set)) => {
                all.push(*set);
                true
            }
            (Values::Text(all), Cell::Text(text)) => {
                all.push(ByteArray::from(*text));
                true
            }
            (Values::Text(all), Cell::Word(word)) => {
                all.push(Bytes::from_static(word.as_bytes()).into());
                true
            }
            _ => false,
        };
        debug_assert!(fits || (matches!(cell, Cell::Null) && self.defined.is_some()));
        match &mut self.defined {
            Some(defined) => defined.push(fits.into()),
            None if !fits => match &mut self.values {
                Values::Long(all) => all.push(0),
                Values::Flag(all) => all.push(false),
                Values::Text(all) => all.push(ByteArray::from("")),
            },
            None => {}
        }
    }
    fn write(&mut self, out: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let defined = self.defined.as_deref();
        match &mut self.values {
            Values::Long(all) => {
                out.typed::<Int64Type>().write_batch(all, defined, None)?;
                all.clear();
            }
            Values::Flag(all) => {
                out.typed::<BoolType>().write_batch(all, defined, None)?;
                all.clear();
            }
            Values::Text(all) => {
                out.typed::<ByteArrayType>().write_batch(all, defined, None)?;
                all.clear();
            }
        }
        self.defined.iter_mut().for_each(Vec::clear);
        self.rows = 0;
        Ok(())
    }
}

/// One Parquet file.
pub(super) struct Sheet {
    writer: SerializedFileWriter<Output>,
    columns: Vec<Column>,
}

fn schema(name: &str, specs: &[Spec]) -> Result<TypePtr> {
    let field = |&(name, kind, required): &Spec| {
        let repetition = if required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let (physical, text) = match kind {
            ColumnKind::Long | ColumnKind::Growing => (Physical::INT64, false),
            ColumnKind::Flag => (Physical::BOOLEAN, false),
            ColumnKind::Text => (Physical::BYTE_ARRAY, true),
        };
        let mut field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        if text {
            field =
                field.with_logical_type(Some(LogicalType::String)).with_converted_type(ConvertedType::UTF8);
        }
        field.build().map(Arc::new)
    };
    let fields = specs.iter().map(field).collect::<Result<Vec<_>>>()?;
    Type::group_type_builder(name).with_fields(fields).build().map(Arc::new)
}

impl Sheet {
    pub(super) fn new(out: Output, name: &str, specs: &[Spec]) -> Result<Self> {
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("JPortal".to_owned());
        for (name, ..) in specs.iter().filter(|(_, kind, _)| *kind == ColumnKind::Growing) {
            properties = properties
                .set_column_dictionary_enabled((*name).into(), false)
                .set_column_encoding((*name).into(), Encoding::DELTA_BINARY_PACKED);
        }
        let writer = SerializedFileWriter::new(out, schema(name, specs)?, Arc::new(properties.build()))?;
        let columns = specs.iter().map(|spec| Column::new(*spec)).collect();
        Ok(Self { writer, columns })
    }
    /// Adds values to the first columns. Those of the last column may come later.
    pub(super) fn row(&mut self, cells: &[Cell<'_>]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(cell);
        }
    }
    /// Number of rows that are not written yet.
    pub(super) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.rows)
    }
    /// Fills the last column up to the last row.
    pub(super) fn fill_last(&mut self, cell: &Cell<'_>) {
        let rows = self.rows();
        if let Some(last) = self.columns.last_mut() {
            (last.rows..rows).for_each(|_| last.push(cell));
        }
    }
    /// Adds a row of a table without a late column.
    pub(super) fn full_row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        self.row(cells);
        if self.rows() >= ROWS { self.flush() } else { Ok(()) }
    }
    /// Writes the rows as a row group.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.rows() == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let missing = || ParquetError::General("the schema has fewer columns than the table".to_owned());
            let mut out = group.next_column()?.ok_or_else(missing)?;
            column.write(&mut out)?;
            out.close()?;
        }
        group.close()?;
        Ok(())
    }
    /// Writes the rest and the file's metadata.
    pub(super) fn end(mut self, metadata: Vec<(String, String)>) -> Result<()> {
        self.flush()?;
        for (key, value) in metadata {
            self.writer.append_key_value_metadata(KeyValue::new(key, value));
        }
        self.writer.close().map(drop)
    }
}
