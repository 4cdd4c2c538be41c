// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The table of events.

use jportal_bytecode::Opcode;
use jportal_flow::{Entry, Event, EventKind, Orphan, Provenance, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use super::sheet::{Cell, ColumnKind, ROWS, Sheet, Spec};
use crate::Error;

/// The columns. The last one is filled when the next time is known.
pub(super) const COLUMNS: [Spec; 15] = [
    ("number", ColumnKind::Growing, true),
    ("since", ColumnKind::Growing, false),
    ("kind", ColumnKind::Text, true),
    ("method", ColumnKind::Long, false),
    ("bci", ColumnKind::Long, false),
    ("last", ColumnKind::Long, false),
    ("len", ColumnKind::Long, false),
    ("tier", ColumnKind::Text, false),
    ("detail", ColumnKind::Text, false),
    ("callers", ColumnKind::Long, false),
    ("lost_bytes", ColumnKind::Long, false),
    ("stack_lost", ColumnKind::Flag, false),
    ("provenance", ColumnKind::Text, true),
    ("confidence_percent", ColumnKind::Long, false),
    ("until", ColumnKind::Growing, false),
];

/// An event as a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct EventRow {
    kind: &'static str,
    method: Option<MethodId>,
    bci: Option<Bci>,
    last: Option<Bci>,
    len: Option<u64>,
    tier: Option<Tier>,
    detail: Option<&'static str>,
    callers: Option<u16>,
    bytes: Option<u64>,
    stack_lost: Option<bool>,
}

const fn entry_name(entry: Entry) -> &'static str {
    match entry {
        Entry::Call => "call",
        Entry::Upcall => "upcall",
        Entry::Osr => "osr",
        Entry::Deoptimisation => "deoptimisation",
        Entry::Found => "found",
    }
}

impl EventRow {
    fn new(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }
    /// The row of an event; `None` for times.
    fn of(kind: &EventKind) -> Option<Self> {
        Some(match kind {
            EventKind::Time(_) => return None,
            EventKind::Bytecode { tier, .. } | EventKind::Run { tier, .. } => Self {
                method: kind.executed().map(|e| e.0),
                bci: kind.executed().map(|e| e.1),
                last: kind.executed().map(|e| e.2),
                len: Some(kind.bytecodes()),
                tier: Some(*tier),
                ..Self::new("bytecodes")
            },
            EventKind::Enter { method, tier, entry } => Self {
                method: Some(*method),
                tier: Some(*tier),
                detail: Some(entry_name(*entry)),
                ..Self::new("enter")
            },
            EventKind::Leave { method, exit } => {
                Self { method: Some(*method), detail: Some(exit.name()), ..Self::new("leave") }
            }
            EventKind::Catch { method, bci } => {
                Self { method: Some(*method), bci: Some(*bci), ..Self::new("catch") }
            }
            _ => Self::unknown(kind),
        })
    }
    /// The row of something that is not known.
    fn unknown(kind: &EventKind) -> Self {
        match kind {
            EventKind::Unresolved { method, from, to, cause, callers } => Self {
                method: Some(*method),
                bci: *from,
                last: *to,
                detail: Some(cause.name()),
                callers: Some(*callers),
                ..Self::new("unresolved")
            },
            EventKind::Gap(gap) => Self {
                detail: Some(gap.reason.name()),
                bytes: gap.bytes,
                stack_lost: Some(gap.stack_lost),
                ..Self::new("gap")
            },
            EventKind::Orphan(Orphan::Bytecode { opcode, .. }) => {
                Self { len: Some(1), detail: Some(Opcode(*opcode).name()), ..Self::new("orphan") }
            }
            EventKind::Orphan(Orphan::Throw) => Self { detail: Some("throw"), ..Self::new("orphan") },
            _ => Self::new("other"),
        }
    }
}

fn provenance_name(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Decoded => "decoded",
        Provenance::Projected { .. } => "projected",
        Provenance::Recovered { .. } => "recovered",
    }
}

/// One file of events.
pub(super) struct Events {
    pub(super) sheet: Sheet,
    /// The value of the column `thread`, if there is one.
    thread: Option<String>,
}

impl Events {
    pub(super) const fn new(sheet: Sheet, thread: Option<String>) -> Self {
        Self { sheet, thread }
    }
    fn put(&mut self, cells: &[Cell<'_>]) {
        match &self.thread {
            None => self.sheet.row(cells),
            Some(thread) => {
                let mut all = [const { Cell::Null }; COLUMNS.len()];
                all[0] = Cell::Text(thread);
                let n = cells.len().min(all.len() - 1);
                all[1..=n].clone_from_slice(&cells[..n]);
                self.sheet.row(&all[..=n]);
            }
        }
    }
    /// Adds an event. `since`: the last time known before it.
    pub(super) fn event(&mut self, number: u64, since: Option<Tsc>, e: &Event) -> Result<(), Error> {
        let Some(row) = EventRow::of(&e.kind) else { return Ok(()) };
        let long = |n: Option<u64>| Cell::from(n);
        let word = |word: Option<&'static str>| word.map_or(Cell::Null, Cell::Word);
        let bci = |bci: Option<Bci>| long(bci.map(|b| b.get().into()));
        let confidence = match e.provenance {
            Provenance::Recovered { confidence } => Cell::Long((100.0 * confidence).round() as i64),
            _ => Cell::Null,
        };
        self.put(&[
            number.into(),
            long(since.map(Tsc::get)),
            Cell::Word(row.kind),
            long(row.method.map(|m| m.get().into())),
            bci(row.bci),
            bci(row.last),
            long(row.len),
            word(row.tier.map(Tier::name)),
            word(row.detail),
            long(row.callers.map(Into::into)),
            long(row.bytes),
            row.stack_lost.map_or(Cell::Null, Cell::Flag),
            Cell::Word(provenance_name(e.provenance)),
            confidence,
        ]);
        // Where no time comes for long, the rows wait no longer for it.
        if self.sheet.rows() >= 2 * ROWS { self.flush() } else { Ok(()) }
    }
    /// A row for events that were left out.
    pub(super) fn excluded(&mut self, number: u64, since: Option<Tsc>, events: u64) {
        let mut cells = [const { Cell::Null }; COLUMNS.len() - 1];
        cells[0] = number.into();
        cells[1] = since.map(Tsc::get).into();
        cells[2] = Cell::Word("excluded");
        cells[6] = events.into();
        cells[12] = Cell::Word("decoded");
        self.put(&cells);
    }
    /// A time is known.
    pub(super) fn time(&mut self, tsc: Tsc) -> Result<(), Error> {
        self.sheet.fill_last(&tsc.get().into());
        if self.sheet.rows() >= ROWS { self.flush() } else { Ok(()) }
    }
    fn flush(&mut self) -> Result<(), Error> {
        self.sheet.fill_last(&Cell::Null);
        Ok(self.sheet.flush()?)
    }
    /// The file is complete.
    pub(super) fn end(mut self, metadata: Vec<(String, String)>) -> Result<(), Error> {
        self.flush()?;
        Ok(self.sheet.end(metadata)?)
    }
}
