// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The bytecodes at which control may be, given the block that began last.
//!
//! Control is in the block of the last path marker. If that block ends with a return, and its
//! frame is inlined, control may also be in the rest of the caller's block after the call: no
//! marker stands there. A branch or the start of another block would have passed a marker.

use hashbrown::HashMap;
use jportal_bytecode::{Blocks, Instruction, Method, MethodTable, Opcode, Transfer};
use jportal_reconstruct::{Marked, MarkedBlock};
use jportal_units::{Bci, MethodId};
use jportal_vm_image::{NMethod, PathMarkers};

/// A frame and the bytecode that it is at; `None` before the first one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FramePosition {
    pub method: MethodId,
    pub bci: Option<u16>,
}

/// A bytecode at which control may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Possible {
    /// Index of its frame, 0 for the outermost.
    pub depth: usize,
    pub bci: Option<u16>,
    pub opcode: Option<Opcode>,
}

/// A block in its frames, and the bytecodes at which control may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whereabouts {
    /// Outermost first; the last one is at the first bytecode of the block.
    pub frames: Vec<FramePosition>,
    pub possible: Vec<Possible>,
}

/// The instructions of a method, with the last one of each block marked.
#[derive(Debug, Default)]
struct MethodSteps {
    steps: Vec<(u16, Opcode, bool)>,
}

impl MethodSteps {
    fn of(method: &Method) -> Self {
        let Ok(blocks) = Blocks::of(method) else { return Self::default() };
        let step = |bci: &Bci| {
            let i = Instruction::at(&method.code, usize::from(bci.0)).ok()?;
            let ends = !matches!(i.opcode.transfer(), Transfer::None | Transfer::Invoke);
            Some((bci.0, i.opcode, ends || blocks.is_leader(i.next())))
        };
        Self { steps: blocks.instruction_starts().iter().filter_map(step).collect() }
    }
    /// The instructions from `bci` to the end of its block.
    fn block(&self, bci: u16) -> &[(u16, Opcode, bool)] {
        let Ok(from) = self.steps.binary_search_by_key(&bci, |s| s.0) else { return &[] };
        let len = self.steps[from..].iter().position(|s| s.2).map_or(0, |at| at + 1);
        &self.steps[from..from + len]
    }
}

/// The layouts of all methods that were asked for.
#[derive(Debug)]
pub(crate) struct Layouts<'a> {
    pub methods: &'a MethodTable,
    known: HashMap<MethodId, MethodSteps>,
}

impl<'a> Layouts<'a> {
    pub(crate) fn new(methods: &'a MethodTable) -> Self {
        Self { methods, known: HashMap::new() }
    }
    fn layout(&mut self, method: MethodId) -> &MethodSteps {
        let methods = self.methods;
        self.known
            .entry(method)
            .or_insert_with(|| methods.get(method).map(MethodSteps::of).unwrap_or_default())
    }
    /// The opcode at a position; `None` if no instruction begins there.
    pub(crate) fn opcode(&mut self, p: FramePosition) -> Option<Opcode> {
        let steps = &self.layout(p.method).steps;
        steps.binary_search_by_key(&p.bci?, |s| s.0).ok().map(|i| steps[i].1)
    }
    /// Where control is, by what markers say; `None` if they say nothing or name a method that
    /// the VM never described.
    pub(crate) fn whereabouts(&mut self, n: &NMethod, marked: Marked) -> Option<Whereabouts> {
        match marked {
            Marked::Unknown(_) => None,
            Marked::Entry => {
                let root = FramePosition { method: n.method?, bci: n.osr_bci };
                let mut at = self.of(vec![FramePosition { bci: root.bci.or(Some(0)), ..root }]);
                at.frames = vec![root];
                Some(at)
            }
            Marked::Block(block) => Some(self.of(frames_of(n.markers.as_deref()?, block)?)),
        }
    }
    fn of(&mut self, frames: Vec<FramePosition>) -> Whereabouts {
        let mut possible = Vec::new();
        for (depth, p) in frames.iter().enumerate().rev() {
            let innermost = depth + 1 == frames.len();
            if innermost && p.bci == Some(0) {
                possible.push(Possible { depth, bci: None, opcode: None });
            }
            let Some(bci) = p.bci else { break };
            let block = self.layout(p.method).block(bci);
            // The call of an inlined callee is over.
            let rest = if innermost { block } else { block.get(1..).unwrap_or_default() };
            possible.extend(rest.iter().map(|s| Possible { depth, bci: Some(s.0), opcode: Some(s.1) }));
            let returns = block.last().is_some_and(|s| s.1.transfer() == Transfer::Return);
            if !returns {
                break;
            }
        }
        Whereabouts { frames, possible }
    }
}

/// The frames of a marker, outermost first.
fn frames_of(m: &PathMarkers, block: MarkedBlock) -> Option<Vec<FramePosition>> {
    let mut bci = block.bci;
    let mut frames = Vec::new();
    for c in m.chain(block.context) {
        frames.push(FramePosition { method: c.method?, bci: Some(std::mem::replace(&mut bci, c.call_bci)) });
    }
    frames.reverse();
    (!frames.is_empty()).then_some(frames)
}

/// The frames of a scope, outermost first; `None` if one is of an unknown method.
pub(crate) fn frames_of_scope(n: &NMethod, scope: Option<u32>) -> Option<Vec<FramePosition>> {
    let frames =
        n.chain(scope).map(|s| Some(FramePosition { method: s.method?, bci: u16::try_from(s.bci).ok() }));
    let mut frames: Vec<FramePosition> = frames.collect::<Option<_>>()?;
    frames.reverse();
    (!frames.is_empty()).then_some(frames)
}

/// How a state compares with where control is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    /// It is a bytecode at which control may be.
    Inside(Possible),
    /// It is in a caller, at the call of the frame that control is in.
    CallSite,
    /// The same frames; another place in the method.
    OtherBlock,
    /// The same frames and a bci in the right block at which no instruction begins.
    NoInstruction,
    /// Frames are missing, superfluous, or called from elsewhere.
    OtherChain,
    /// The same callers, but another method.
    OtherMethod,
}

impl Whereabouts {
    /// Compares `state` (outermost first, not empty).
    pub(crate) fn relation(&self, state: &[FramePosition]) -> Relation {
        let Some((last, callers)) = state.split_last() else { return Relation::OtherChain };
        let depth = callers.len();
        let same_callers = self.frames.starts_with(callers) && self.frames.len() > depth;
        let same = same_callers && self.frames[depth].method == last.method;
        if same && let Some(p) = self.possible.iter().find(|p| (p.depth, p.bci) == (depth, last.bci)) {
            return Relation::Inside(*p);
        }
        // A callee that has not begun its first block: the compiler locks its monitor there.
        if last.bci.is_none()
            && let Some((call, outer)) = callers.split_last()
            && let Relation::Inside(p) = self.relation_of_call(outer, call)
            && p.opcode.is_some_and(|o| o.transfer() == Transfer::Invoke)
        {
            return Relation::Inside(Possible { depth, bci: None, opcode: None });
        }
        if same && depth + 1 < self.frames.len() && self.frames[depth].bci == last.bci {
            return Relation::CallSite;
        }
        if depth + 1 != self.frames.len() || !same_callers {
            return Relation::OtherChain;
        }
        if !same {
            return Relation::OtherMethod;
        }
        let span = self.possible.iter().filter(|p| p.depth == depth).filter_map(|p| p.bci);
        let (first, end) = span.fold((u16::MAX, 0), |(a, b), bci| (a.min(bci), b.max(bci)));
        match last.bci {
            Some(bci) if (first..end).contains(&bci) => Relation::NoInstruction,
            _ => Relation::OtherBlock,
        }
    }
    fn relation_of_call(&self, callers: &[FramePosition], call: &FramePosition) -> Relation {
        let depth = callers.len();
        let same = self.frames.starts_with(callers)
            && self.frames.get(depth).is_some_and(|f| f.method == call.method);
        let inside = self.possible.iter().find(|p| same && (p.depth, p.bci) == (depth, call.bci));
        inside.map_or(Relation::OtherChain, |p| Relation::Inside(*p))
    }
}
