// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Debug info and path markers that no compiler can have made.
//!
//! A record that passed its checksum may still be damaged or malicious. A chain of 20,000 frames,
//! for example, costs 20,000 events each time control passes it. Each flaw is refused once, with
//! its place and the limit, and the code with the flaw becomes a gap wherever it runs.

use hashbrown::HashSet;
use jportal_bytecode::{MethodTable, Opcode};
use jportal_capture::schema::{NMethodInstalled, NMethodMarkers, NO_CONTEXT, NO_SCOPE, POLL_STATE};
use jportal_units::MethodId;
use std::hash::Hash;

/// Maximal number of frames at one position. HotSpot inlines up to 15 levels by default
/// (`MaxInlineLevel`), and method handles up to 100 (`MaxForceInlineLevel`).
pub const MAX_DEPTH: u32 = 1024;
/// Maximal number of path markers that the VM keeps at one place (`MaxPathLength` in
/// `jportalMarkers.cpp`).
pub const MAX_MARKERS: u32 = 16 << 10;

/// A flaw in the debug info or the path markers of an nmethod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// A reference to a row that does not exist, or that closes a cycle.
    #[error("{list} {row} refers to row {to}, which is not there or leads back")]
    Dangling {
        /// Name of the list.
        list: &'static str,
        /// Index of the row.
        row: usize,
        /// The reference.
        to: u32,
    },
    /// More frames than a compiler inlines.
    #[error("{list} {row} is nested more than {MAX_DEPTH} frames deep")]
    TooDeep {
        /// Name of the list.
        list: &'static str,
        /// Index of the row.
        row: usize,
    },
    /// A frame is inlined at a position of its caller that is not a call.
    #[error("{list} {row} is inlined at bci {bci} of {caller}, where no invoke stands")]
    NoCall {
        /// Name of the list.
        list: &'static str,
        /// Index of the row.
        row: usize,
        /// The position.
        bci: i64,
        /// The caller.
        caller: String,
    },
    /// A position after the end of a method.
    #[error("{list} {row} stands at bci {bci} of {method}, whose code has {len} bytes")]
    OutsideMethod {
        /// Name of the list.
        list: &'static str,
        /// Index of the row.
        row: usize,
        /// The position.
        bci: i64,
        /// The method.
        method: String,
        /// Length of the method's code.
        len: usize,
    },
    /// An offset after the end of the machine code.
    #[error("{list} {row} stands at offset {offset} of code of {len} bytes")]
    OutsideCode {
        /// Name of the list.
        list: &'static str,
        /// Index of the row.
        row: usize,
        /// The offset.
        offset: u32,
        /// Length of the machine code.
        len: u64,
    },
    /// A row that equals another one.
    #[error("{list} {row} repeats another row")]
    Repeated {
        /// Name of the list.
        list: &'static str,
        /// Index of the row.
        row: usize,
    },
    /// Lists that overlap; each list must have markers of its own.
    #[error("the marked offsets and edges have {wanted} path markers, of {there} that there are")]
    SharedMarkers {
        /// Sum of the lengths of the lists.
        wanted: u64,
        /// Number of markers.
        there: usize,
    },
    /// More markers than the VM keeps at one place.
    #[error("{list} {row} has {count} path markers, the VM keeps {MAX_MARKERS} at most")]
    TooManyMarkers {
        /// Name of the list.
        list: &'static str,
        /// Index of the row.
        row: usize,
        /// Number of its markers.
        count: u32,
    },
}

/// The method table, and the resolution of a `Method*` at the time of installation.
pub(crate) struct Methods<'a, F> {
    /// The methods.
    pub table: &'a MethodTable,
    /// Resolves a `Method*`.
    pub resolve: F,
}

impl<F: Fn(u64) -> Option<MethodId>> Methods<'_, F> {
    /// Refuses a position that the method does not have. Accepts every position of a method that
    /// was never described.
    fn position(&self, list: &'static str, row: usize, pointer: u64, bci: i64) -> Result<(), Flaw> {
        let Some(m) = (self.resolve)(pointer).and_then(|id| self.table.get(id)) else { return Ok(()) };
        let len = m.code.len();
        match usize::try_from(bci) {
            Ok(at) if at >= len => {
                Err(Flaw::OutsideMethod { list, row, bci, method: m.qualified_name(), len })
            }
            // Positions before the first bytecode are negative.
            _ => Ok(()),
        }
    }
    /// Refuses a frame inlined at `bci` of the method at `pointer`, unless there is an invoke at
    /// `bci`.
    fn call(&self, list: &'static str, row: usize, pointer: u64, bci: i64) -> Result<(), Flaw> {
        let Some(m) = (self.resolve)(pointer).and_then(|id| self.table.get(id)) else { return Ok(()) };
        let opcode = usize::try_from(bci).ok().and_then(|at| m.code.get(at));
        match opcode {
            Some(code) if (Opcode::INVOKEVIRTUAL.0..=Opcode::INVOKEDYNAMIC.0).contains(code) => Ok(()),
            _ => Err(Flaw::NoCall { list, row, bci, caller: m.qualified_name() }),
        }
    }
}

/// The first flaw of an nmethod's debug info.
pub(crate) fn of_debug_info(
    r: &NMethodInstalled,
    methods: &Methods<'_, impl Fn(u64) -> Option<MethodId>>,
) -> Option<Flaw> {
    check_scopes(r, methods).err()
}

fn check_scopes(
    r: &NMethodInstalled,
    methods: &Methods<'_, impl Fn(u64) -> Option<MethodId>>,
) -> Result<(), Flaw> {
    const SCOPE: &str = "scope";
    check_depths(SCOPE, r.scopes.len(), |row| Some(r.scopes[row].parent).filter(|&p| p != NO_SCOPE))?;
    for (row, scope) in r.scopes.iter().enumerate() {
        methods.position(SCOPE, row, scope.method, scope.bci.into())?;
        if let Some(caller) = r.scopes.get(scope.parent as usize) {
            methods.call(SCOPE, row, caller.method, caller.bci.into())?;
        }
    }
    let dangles = |scope: u32| scope != NO_SCOPE && scope as usize >= r.scopes.len();
    match r.pc_descs.iter().position(|p| dangles(p.scope)) {
        Some(row) => Err(Flaw::Dangling { list: "PcDesc", row, to: r.pc_descs[row].scope }),
        None => Ok(()),
    }
}

/// The first flaw in the path markers of code with a length of `len` bytes.
pub(crate) fn of_markers(
    r: &NMethodMarkers,
    len: u64,
    methods: &Methods<'_, impl Fn(u64) -> Option<MethodId>>,
) -> Option<Flaw> {
    check_contexts(r, methods)
        .and_then(|()| check_blocks(r, methods))
        .and_then(|()| check_lists(r, len))
        .err()
}

fn check_contexts(
    r: &NMethodMarkers,
    methods: &Methods<'_, impl Fn(u64) -> Option<MethodId>>,
) -> Result<(), Flaw> {
    const CONTEXT: &str = "inline context";
    let parent = |row: usize| Some(r.contexts[row].parent).filter(|&p| p != NO_CONTEXT);
    check_depths(CONTEXT, r.contexts.len(), parent)?;
    check_distinct(CONTEXT, r.contexts.iter().map(|c| (c.parent, c.call_bci, c.method)))?;
    for (row, c) in r.contexts.iter().enumerate() {
        if let Some(caller) = r.contexts.get(c.parent as usize) {
            methods.call(CONTEXT, row, caller.method, c.call_bci.into())?;
        }
    }
    Ok(())
}

fn check_blocks(
    r: &NMethodMarkers,
    methods: &Methods<'_, impl Fn(u64) -> Option<MethodId>>,
) -> Result<(), Flaw> {
    const MARKER: &str = "path marker";
    for (row, marker) in r.markers.iter().enumerate() {
        match r.contexts.get(marker.context as usize) {
            Some(c) => methods.position(MARKER, row, c.method, marker.bci.into())?,
            None if matches!(marker.context, NO_CONTEXT | POLL_STATE) => {}
            None => return Err(Flaw::Dangling { list: MARKER, row, to: marker.context }),
        }
    }
    Ok(())
}

fn check_lists(r: &NMethodMarkers, len: u64) -> Result<(), Flaw> {
    const OFFSET: &str = "marked offset";
    const EDGE: &str = "marked edge";
    for (row, o) in r.offsets.iter().enumerate() {
        check_place(OFFSET, row, o.offset, len)?;
        check_list((OFFSET, row), (o.first, o.count), r.markers.len())?;
    }
    for (row, e) in r.edges.iter().enumerate() {
        check_place(EDGE, row, e.from.max(e.to), len)?;
        check_list((EDGE, row), (e.first, e.count), r.markers.len())?;
    }
    check_distinct(OFFSET, r.offsets.iter().map(|o| o.offset))?;
    check_distinct(EDGE, r.edges.iter().map(|e| (e.from, e.outcome, e.to)))?;
    let counts = r.offsets.iter().map(|o| o.count).chain(r.edges.iter().map(|e| e.count));
    let wanted: u64 = counts.map(u64::from).sum();
    match wanted > r.markers.len() as u64 {
        true => Err(Flaw::SharedMarkers { wanted, there: r.markers.len() }),
        false => Ok(()),
    }
}

/// `len` itself is allowed: control may come from, and go to, the address after the last
/// instruction.
fn check_place(list: &'static str, row: usize, offset: u32, len: u64) -> Result<(), Flaw> {
    match u64::from(offset) > len {
        true => Err(Flaw::OutsideCode { list, row, offset, len }),
        false => Ok(()),
    }
}

fn check_list(
    (list, row): (&'static str, usize),
    (first, count): (u32, u32),
    markers: usize,
) -> Result<(), Flaw> {
    if count > MAX_MARKERS {
        return Err(Flaw::TooManyMarkers { list, row, count });
    }
    match count > 0 && (first as usize).saturating_add(count as usize) > markers {
        true => Err(Flaw::Dangling { list, row, to: first }),
        false => Ok(()),
    }
}

fn check_distinct<K: Eq + Hash>(list: &'static str, keys: impl Iterator<Item = K>) -> Result<(), Flaw> {
    let mut seen = HashSet::new();
    match keys.enumerate().find_map(|(row, key)| (!seen.insert(key)).then_some(row)) {
        Some(row) => Err(Flaw::Repeated { list, row }),
        None => Ok(()),
    }
}

/// Refuses rows whose chain of parents is cyclic, dangling, or longer than [`MAX_DEPTH`].
fn check_depths(list: &'static str, rows: usize, parent: impl Fn(usize) -> Option<u32>) -> Result<(), Flaw> {
    // Depth of each row; 0 if not computed yet.
    let mut depths = vec![0u32; rows];
    let mut chain = Vec::new();
    for row in 0..rows {
        let (mut at, mut depth) = (row, 0);
        chain.clear();
        loop {
            if depths[at] != 0 {
                depth = depths[at];
                break;
            }
            chain.push(at);
            if chain.len() > MAX_DEPTH as usize {
                // A cycle ends here, too.
                return Err(Flaw::TooDeep { list, row });
            }
            let Some(to) = parent(at) else { break };
            at = to as usize;
            if at >= rows {
                return Err(Flaw::Dangling { list, row: chain[chain.len() - 1], to });
            }
        }
        for &at in chain.iter().rev() {
            depth += 1;
            depths[at] = depth;
        }
        if depth > MAX_DEPTH {
            return Err(Flaw::TooDeep { list, row });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "flaw_tests.rs"]
mod tests;
