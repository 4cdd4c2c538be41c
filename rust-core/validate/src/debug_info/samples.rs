// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a profiler would be shown if each executed instruction were a sample.
//!
//! A profiler takes the first `PcDesc` after the instruction (`forte.cpp`: `pc_desc_near(pc +
//! 1)`; `JfrGetCallTrace` does the same). With `-XX:-DebugNonSafepoints` that is the next
//! safepoint in the code, wherever control goes.

use std::collections::BTreeSet;

use jportal_bytecode::MethodTable;
use jportal_capture::schema::compilers;
use jportal_reconstruct::{Marked, MarkedBlock, RanBlock};
use jportal_units::Bci;
use jportal_vm_image::{Marker, NMethod};
use serde::Serialize;

use super::judge::unknown;
use super::place::{FramePosition, Layouts, Relation, Whereabouts, frames_of_scope};

/// Executed instructions by what a profiler would be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SampleCounts {
    /// All of them.
    pub instructions: u64,
    /// The right frames, and the right line as far as it is known.
    pub right: u64,
    /// The right frames, but another line of the innermost one.
    pub wrong_line: u64,
    /// The right innermost method, but other callers, call sites or depth.
    pub wrong_frames: u64,
    /// Another innermost method.
    pub wrong_method: u64,
    /// No debug info: a profiler shows the nmethod's own method.
    pub no_debug_info: u64,
    /// Markers do not say where control is.
    pub not_judged: u64,
}

impl SampleCounts {
    /// Adds others.
    pub(crate) fn add(&mut self, o: &Self) {
        self.instructions += o.instructions;
        self.right += o.right;
        self.wrong_line += o.wrong_line;
        self.wrong_frames += o.wrong_frames;
        self.wrong_method += o.wrong_method;
        self.no_debug_info += o.no_debug_info;
        self.not_judged += o.not_judged;
    }
    /// Those that would be charged to something else than what ran.
    pub const fn wrong(&self) -> u64 {
        self.wrong_line + self.wrong_frames + self.wrong_method
    }
    /// Those that were compared.
    pub const fn judged(&self) -> u64 {
        self.right + self.wrong()
    }
    fn count(&mut self, sample: SampleVerdict, times: u64) {
        self.instructions += times;
        *match sample {
            SampleVerdict::Right => &mut self.right,
            SampleVerdict::WrongLine => &mut self.wrong_line,
            SampleVerdict::WrongFrames => &mut self.wrong_frames,
            SampleVerdict::WrongMethod => &mut self.wrong_method,
            SampleVerdict::NoDebugInfo => &mut self.no_debug_info,
            SampleVerdict::NotJudged => &mut self.not_judged,
        } += times;
    }
}

/// What a profiler is shown of an instruction, from the best to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SampleVerdict {
    Right,
    WrongLine,
    WrongFrames,
    WrongMethod,
    NoDebugInfo,
    NotJudged,
}

/// The block's instructions, which begin at `offsets`, as samples. Each was executed `times`
/// times.
pub(crate) fn samples(
    layouts: &mut Layouts<'_>,
    n: &NMethod,
    block: &RanBlock,
    offsets: &[u32],
    times: u64,
) -> SampleCounts {
    let mut counts = SampleCounts::default();
    let mut marked = vec![block.marked];
    let mut places = whereabouts(layouts, n, &marked);
    let mut marks: Vec<(u32, &[Marker])> = match n.markers.as_deref() {
        Some(m) => m.passed(block.from, block.to).collect(),
        None => Vec::new(),
    };
    marks.reverse();
    let mut shown: Option<(u32, SampleVerdict)> = None;
    for &pc in offsets {
        let mut moved = false;
        while let Some((_, list)) = marks.pop_if(|(at, _)| *at <= pc) {
            pass(&mut marked, list, n.compiler == compilers::C2);
            moved = true;
        }
        if moved {
            places = whereabouts(layouts, n, &marked);
            shown = None;
        }
        let position = n.position_of_sample(pc);
        let key = position.map_or(u32::MAX, |p| p.offset);
        // Neighbours share a position.
        let sample = match shown {
            Some((known, sample)) if known == key => sample,
            _ => {
                let state = position.and_then(|p| frames_of_scope(n, p.scope));
                compare(layouts.methods, places.as_deref(), state.as_deref())
            }
        };
        shown = Some((key, sample));
        counts.count(sample, times);
    }
    counts
}

/// Where markers place control before the instruction at `offset`, in a machine block that began at
/// `from` with control at `marked`. An instruction of C2 may belong to any of the markers passed.
pub(crate) fn marked_up_to(n: &NMethod, marked: Marked, (from, offset): (u32, u32)) -> Vec<Marked> {
    let mut all = vec![marked];
    if let Some(m) = n.markers.as_deref() {
        m.passed(from, offset + 1).for_each(|(_, list)| pass(&mut all, list, n.compiler == compilers::C2));
    }
    all
}

/// Control passes markers. C2 places all markers of a machine block at its start, so control may
/// be at any of them.
fn pass(marked: &mut Vec<Marked>, list: &[Marker], keeps: bool) {
    for mark in list {
        match *mark {
            Marker::Block { context, bci } => {
                if !keeps || marked.iter().any(|m| matches!(m, Marked::Unknown(_))) {
                    marked.clear();
                }
                marked.push(Marked::Block(MarkedBlock { context, bci }));
            }
            Marker::Ambiguous(_) => {
                *marked = vec![Marked::Unknown(jportal_reconstruct::Unmarked::Lost(
                    jportal_flow::Cause::OtherFold,
                ))];
            }
            Marker::PollState => {}
        }
    }
}

pub(crate) fn whereabouts(
    layouts: &mut Layouts<'_>,
    n: &NMethod,
    marked: &[Marked],
) -> Option<Vec<Whereabouts>> {
    if marked.iter().any(|m| unknown(*m).is_some()) {
        return None;
    }
    marked.iter().map(|m| layouts.whereabouts(n, *m)).collect()
}

fn compare(
    methods: &MethodTable,
    places: Option<&[Whereabouts]>,
    state: Option<&[FramePosition]>,
) -> SampleVerdict {
    let Some(places) = places else { return SampleVerdict::NotJudged };
    let Some(state) = state else { return SampleVerdict::NoDebugInfo };
    places.iter().map(|w| compare_with(methods, w, state)).min().unwrap_or(SampleVerdict::NotJudged)
}

fn compare_with(methods: &MethodTable, place: &Whereabouts, state: &[FramePosition]) -> SampleVerdict {
    let (Some(is), Some(last)) = (place.frames.last(), state.last()) else { return SampleVerdict::NotJudged };
    match place.relation(state) {
        Relation::Inside(_) => SampleVerdict::Right,
        Relation::NoInstruction | Relation::OtherBlock => {
            let line = |bci: Option<u16>| methods.get(last.method)?.line_at(Bci(bci.unwrap_or(0)));
            let depth = state.len() - 1;
            let here = place.possible.iter().filter(|p| p.depth == depth);
            let lines: BTreeSet<Option<u16>> = here.map(|p| line(p.bci)).collect();
            // Without line numbers no line is wrong.
            let shown = line(last.bci);
            if shown.is_none() || lines.contains(&shown) {
                SampleVerdict::Right
            } else {
                SampleVerdict::WrongLine
            }
        }
        _ if is.method == last.method => SampleVerdict::WrongFrames,
        _ => SampleVerdict::WrongMethod,
    }
}
