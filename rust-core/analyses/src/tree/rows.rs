// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The call tree as rows of a table for other programs.

use serde::Serialize;

use super::report::CallTree;

/// A node as a row. The names of the fields are those of the columns, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row<'a> {
    /// `name (tid n)`; `(merged)` for the merged tree. The name of a bucket is that of its tree.
    pub thread: &'a str,
    /// Number of the node.
    pub id: u32,
    /// Number of the parent; empty for a root.
    pub parent: Option<u32>,
    /// Distance from the root.
    pub depth: u32,
    /// `class.name(descriptor)`, or a text in parentheses.
    pub method: &'a str,
    /// Loader of the class; empty for the boot loader.
    pub loader: &'a str,
    /// Bci of the calling invoke, if the key contains the site.
    pub site_bci: Option<u16>,
    /// Its source line.
    pub site_line: Option<u16>,
    /// Activations that began in this context, of all provenances.
    pub invocations: u64,
    /// Bytecodes executed in these activations themselves, of all provenances.
    pub bytecodes: u64,
    /// The same by whole blocks; empty if it was not counted.
    pub default: Option<u64>,
    /// Bytecodes of the node and of all nodes below.
    pub total: u64,
    /// Bytecodes that the interpreter executed.
    pub interpreter: u64,
    /// Bytecodes that C1's code executed.
    pub c1: u64,
    /// Bytecodes that C2's code executed.
    pub c2: u64,
    /// Whether the node's own figures are complete.
    pub exact: bool,
}

impl CallTree {
    /// Calls `row` with each node, in the order of the nodes. Ends with the first error that it
    /// returns.
    ///
    /// # Errors
    /// Those of `row`.
    pub fn rows<E>(&self, mut row: impl FnMut(&Row<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut depths: Vec<u32> = Vec::with_capacity(self.nodes.len());
        let mut threads = self.threads.iter().peekable();
        let mut thread = String::new();
        for n in &self.nodes {
            if let Some(next) = threads.next_if(|t| t.root == n.id) {
                let name = &next.name;
                thread = next.tid.map_or_else(|| name.clone(), |tid| format!("{name} (tid {tid})"));
            }
            let depth = n.parent.and_then(|p| depths.get(p as usize)).map_or(0, |d| d + 1);
            depths.push(depth);
            row(&Row {
                thread: &thread,
                id: n.id,
                parent: n.parent,
                depth,
                method: &n.method,
                loader: &n.loader,
                site_bci: n.site.map(|s| s.bci),
                site_line: n.site.and_then(|s| s.line),
                invocations: n.invocations.total(),
                bytecodes: n.bytecodes.total(),
                default: n.default,
                total: n.total,
                interpreter: n.tiers.interpreter,
                c1: n.tiers.c1,
                c2: n.tiers.c2,
                exact: n.exact,
            })?;
        }
        Ok(())
    }
}
