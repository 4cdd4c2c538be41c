// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The PT streams of a capture, in memory.

use anyhow::{Context, Result, ensure};
use jportal_reconstruct::Recording;
use jportal_units::{Core, StreamOffset, Tid, Tsc};

/// A stretch: the trace of one thread between the switch to a core and the switch away.
pub struct Turn {
    /// The byte after the last.
    pub until: StreamOffset,
    /// Nothing in the stretch happened before this time.
    pub since: Tsc,
    /// Nothing in the stretch happened after this time.
    pub latest: Tsc,
    /// The thread.
    pub tid: Tid,
    /// Whether trace was lost at the end of the stretch.
    pub truncated: bool,
}

/// One core's trace.
pub struct Trace {
    /// The core.
    pub core: Core,
    /// Its PT packets.
    pub bytes: Vec<u8>,
    /// Its stretches, in order.
    pub turns: Vec<Turn>,
}

/// Reads the traces of all cores. Returns an error if one of them is incomplete.
pub fn load(recording: &Recording) -> Result<Vec<Trace>> {
    recording.cores().map(|core| load_core(recording, core)).collect()
}

fn load_core(recording: &Recording, core: Core) -> Result<Trace> {
    let mut bytes = Vec::new();
    for piece in recording.reader().pt(core) {
        ensure!(piece.offset == bytes.len() as u64, "{core}: trace with a hole at {}", bytes.len());
        let read = recording.reader().read(piece).with_context(|| format!("{core}"))?;
        bytes.extend_from_slice(&read);
    }
    let mut since = Tsc(0);
    let mut turns = Vec::new();
    for s in recording.stretches(core) {
        turns.push(Turn { until: s.to, since, latest: s.closed, tid: s.tid, truncated: s.truncated });
        since = s.closed;
    }
    Ok(Trace { core, bytes, turns })
}
