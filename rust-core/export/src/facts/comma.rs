// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Static facts as CSV, in five files.

use std::io::{self, Write};

use jportal_plain::line;

use super::counts::{NAMES, OF_FIELDS};
use super::method::{BlockFacts, MethodFacts};
use super::{ClassFacts, StaticFacts};
use crate::Error;

/// The names of the files.
const FILES: [&str; 5] = ["classes.csv", "methods.csv", "blocks.csv", "call_sites.csv", "handlers.csv"];

const CLASSES: [&str; 4] = ["id", "name", "loader", "source"];
const METHODS: [&str; 9] =
    ["id", "number", "class_id", "name", "descriptor", "flags", "code_bytes", "version", "malformed"];
const BLOCKS: [&str; 6] = ["id", "method_id", "number", "bci", "end", "line"];
const CALLS: [&str; 6] = ["block_id", "bci", "opcode", "class", "name", "descriptor"];
const HANDLERS: [&str; 5] = ["block_id", "handler_block_id", "type", "from", "to"];

type File = csv::Writer<Box<dyn Write + Send>>;

/// Which columns the files have.
#[derive(Clone, Copy)]
struct Columns {
    /// Counts that need the classes and types of fields.
    fields: bool,
    /// Superclasses and flags of classes.
    described: bool,
    interfaces: bool,
}

impl Columns {
    /// The columns of counts that captures have.
    fn known<T>(self, all: &[T; 19]) -> impl Iterator<Item = &T> {
        all.iter().enumerate().filter(move |(n, _)| self.fields || !OF_FIELDS.contains(n)).map(|(_, n)| n)
    }
    /// The columns of classes that captures have.
    fn of_class<T>(self, [superclass, flags, interfaces]: [T; 3]) -> impl Iterator<Item = T> {
        let all = [(superclass, self.described), (flags, self.described), (interfaces, self.interfaces)];
        all.into_iter().filter_map(|(value, known)| known.then_some(value))
    }
}

struct FactFiles {
    columns: Columns,
    classes: File,
    methods: File,
    blocks: File,
    calls: File,
    handlers: File,
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

impl FactFiles {
    fn class(&mut self, c: &ClassFacts<'_>) -> csv::Result<()> {
        let [name, loader, source] = [c.name, c.loader, c.source].map(line);
        let interfaces = c.interfaces.as_ref().map(|all| all.join(" "));
        let more = [text(c.superclass.map(line)), text(c.flags), text(interfaces.as_deref().map(line))];
        let more = self.columns.of_class(more);
        let first = [c.id.to_string(), name.into_owned(), loader.into_owned(), source.into_owned()];
        self.classes.write_record(first.into_iter().chain(more))
    }
    fn method(&mut self, c: &ClassFacts<'_>, m: &MethodFacts<'_>) -> csv::Result<()> {
        self.methods.write_record([
            m.id.to_string(),
            m.number.to_string(),
            c.id.to_string(),
            line(m.name).into_owned(),
            line(m.descriptor).into_owned(),
            m.flags.to_string(),
            m.code_bytes.to_string(),
            text(m.version.map(|v| v.number)),
            text(m.malformed.as_deref().map(line)),
        ])?;
        m.blocks.iter().try_for_each(|b| self.block(m, b))
    }
    fn block(&mut self, m: &MethodFacts<'_>, b: &BlockFacts<'_>) -> csv::Result<()> {
        let place = [b.id, m.id, b.number.into(), b.bci.into(), b.end.into()].map(|n| n.to_string());
        let counts = self.columns.known(&b.metrics.0).map(|n| text(*n));
        self.blocks.write_record(place.into_iter().chain([text(b.line)]).chain(counts))?;
        let block = b.id.to_string();
        for c in &b.calls {
            let [class, name, descriptor] =
                c.target.map_or([""; 3], |to| [to.class, to.name, to.descriptor]).map(line);
            let bci = c.bci.to_string();
            self.calls.write_record([&*block, &*bci, c.opcode, &*class, &*name, &*descriptor])?;
        }
        for h in &b.handlers {
            let [handler, from, to] = [h.block, h.from.into(), h.to.into()].map(|n| n.to_string());
            let catch = text(h.catch_type.map(line));
            self.handlers.write_record([&block, &handler, &catch, &from, &to])?;
        }
        Ok(())
    }
}

impl StaticFacts<'_> {
    /// Writes the facts as five files: `classes.csv`, `methods.csv`, `blocks.csv`,
    /// `call_sites.csv` and `handlers.csv` (RFC 4180). `open` opens a file by name. Columns of
    /// which nothing is known are left out; other unknown values are empty. An empty `type` of a
    /// handler stands for all exceptions.
    ///
    /// # Errors
    /// If an output cannot be opened or written.
    pub fn write_csv(
        &self,
        mut open: impl FnMut(&str) -> io::Result<Box<dyn Write + Send>>,
    ) -> Result<(), Error> {
        let columns = Columns {
            fields: self.has_fields(),
            described: self.classes().iter().any(|c| c.flags.is_some()),
            interfaces: self.classes().iter().any(|c| c.interfaces.is_some()),
        };
        let blocks: Vec<&str> = BLOCKS.into_iter().chain(columns.known(&NAMES).copied()).collect();
        let classes: Vec<&str> =
            CLASSES.into_iter().chain(columns.of_class(["super", "flags", "interfaces"])).collect();
        let heads: [&[&str]; 5] = [&classes, &METHODS, &blocks, &CALLS, &HANDLERS];
        let mut file = |n: usize| -> Result<File, Error> {
            let mut file = csv::Writer::from_writer(open(FILES[n])?);
            file.write_record(heads[n]).map_err(io::Error::from)?;
            Ok(file)
        };
        let (classes, methods, blocks) = (file(0)?, file(1)?, file(2)?);
        let mut files = FactFiles { columns, classes, methods, blocks, calls: file(3)?, handlers: file(4)? };
        for class in self.classes() {
            files.class(class).map_err(io::Error::from)?;
            self.methods(class).try_for_each(|m| files.method(class, &m)).map_err(io::Error::from)?;
        }
        let FactFiles { classes, methods, blocks, calls, handlers, .. } = files;
        [classes, methods, blocks, calls, handlers].iter_mut().try_for_each(|f| f.flush())?;
        Ok(())
    }
}
