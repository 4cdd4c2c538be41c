// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The PT streams of a capture, in memory.

use anyhow::{Context, Result, ensure};
use jportal_reconstruct::Recording;
use jportal_units::{Core, StreamOffset, Tid, Tsc};

/// What one thread ran on a core without leaving it.
pub struct Turn {
    pub until: StreamOffset,
    pub since: Tsc,
    pub latest: Tsc,
    pub tid: Tid,
    pub truncated: bool,
}

/// One core's trace.
pub struct Trace {
    pub core: Core,
    pub bytes: Vec<u8>,
    pub turns: Vec<Turn>,
}

/// Reads the traces of all cores; each must be without holes.
pub fn load(recording: &Recording<'_>) -> Result<Vec<Trace>> {
    recording.cores().map(|core| load_core(recording, core)).collect()
}

fn load_core(recording: &Recording<'_>, core: Core) -> Result<Trace> {
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
