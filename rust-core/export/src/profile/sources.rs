// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where methods are defined.

use hashbrown::HashMap;
use jportal_analyses::names::{Naming, stable};
use jportal_bytecode::MethodTable;

/// Source files and first lines of methods, by the names that a call tree has for them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// By name and loader.
    of: HashMap<(String, String), MethodSource>,
}

/// Where a method is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MethodSource {
    /// Path of the file below a source directory: package and `SourceFile` attribute.
    pub(super) file: String,
    /// The first line with code.
    pub(super) line: Option<u16>,
}

impl Sources {
    /// The sources of a recording's methods. `naming`: that of the call tree. Of methods with equal
    /// names, the first counts.
    pub fn new(methods: &MethodTable, naming: Naming) -> Self {
        let named = |name: &str| if naming.stable { stable(name).into_owned() } else { name.to_owned() };
        let mut of = HashMap::new();
        for m in methods.iter().filter(|m| !m.source_file.is_empty()) {
            let class = named(&m.class_name.replace('/', "."));
            let package = m.class_name.rsplit_once('/').map_or("", |(package, _)| package);
            let slash = if package.is_empty() { "" } else { "/" };
            let source = MethodSource {
                file: format!("{package}{slash}{}", m.source_file),
                line: m.lines.iter().map(|row| row.line).min(),
            };
            let name = format!("{class}.{}{}", m.name, m.signature);
            of.entry((name, named(&m.loader))).or_insert(source);
        }
        Self { of }
    }
    /// The source of a method, by its name in a call tree.
    pub(super) fn get(&self, method: &str, loader: &str) -> Option<&MethodSource> {
        let method = method.split_once(" [version ").map_or(method, |(name, _)| name);
        self.of.get(&(method.to_owned(), loader.to_owned()))
    }
}
