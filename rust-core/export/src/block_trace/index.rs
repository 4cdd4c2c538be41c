// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The table that gives the numbers of a block trace their names.

use std::io::Write;

use jportal_analyses::block_trace::leaders;
use jportal_bytecode::{ClassTable, MethodTable};
use jportal_plain::line;

use crate::Error;

/// Writes the methods of a recording as CSV: number, class number, loader, class (internal name),
/// name, descriptor, access flags, and the first bci of each block, separated by spaces. The list
/// of blocks is empty for methods without bytecodes, and `?` if they are malformed.
///
/// # Errors
/// If the output cannot be written.
pub fn write_methods(methods: &MethodTable, out: &mut dyn Write) -> Result<(), Error> {
    let mut csv = csv::Writer::from_writer(out);
    let columns = ["method", "class_id", "loader", "class", "name", "descriptor", "flags", "blocks"];
    csv.write_record(columns).map_err(std::io::Error::from)?;
    for m in methods.iter() {
        let blocks = leaders(m).map_or_else(
            |_| "?".to_owned(),
            |b| b.leaders().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        );
        let (id, class, flags) = (m.id.get().to_string(), m.class.to_string(), m.access_flags.to_string());
        let names = [&m.loader, &m.class_name, &m.name, &m.signature].map(|name| line(name));
        let [loader, class_name, name, signature] = &names;
        csv.write_record([&*id, &class, loader, class_name, name, signature, &flags, &blocks])
            .map_err(std::io::Error::from)?;
    }
    csv.flush()?;
    Ok(())
}

/// Writes the classes of a recording as CSV: number, loader, name (internal), access flags, number
/// of the superclass, numbers of the interfaces, separated by spaces, thread that loaded it (OS id)
/// and time of the load (TSC). What is not known is empty; interfaces that are not known are `?`.
///
/// # Errors
/// If the output cannot be written.
pub fn write_classes(classes: &ClassTable, out: &mut dyn Write) -> Result<(), Error> {
    let mut csv = csv::Writer::from_writer(out);
    let columns = ["class_id", "loader", "class", "flags", "super", "interfaces", "loaded_by", "loaded"];
    csv.write_record(columns).map_err(std::io::Error::from)?;
    let text = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
    for c in classes.iter() {
        let interfaces = c.interfaces.as_deref().map_or_else(
            || "?".to_owned(),
            |all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        );
        let (by, at) = (c.loaded.map(|l| l.tid.get().into()), c.loaded.map(|l| l.tsc.get()));
        csv.write_record([
            c.number.to_string(),
            line(&c.loader).into_owned(),
            line(&c.name).into_owned(),
            c.access_flags.to_string(),
            text(c.superclass.map(u64::from)),
            interfaces,
            text(by),
            text(at),
        ])
        .map_err(std::io::Error::from)?;
    }
    csv.flush()?;
    Ok(())
}
