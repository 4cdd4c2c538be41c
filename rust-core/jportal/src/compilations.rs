// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The compiled code of a recording, in the form that the analysis of the JIT compilers takes.

use hashbrown::HashMap;
use jportal_analyses::jit::{ChainFrame, CodeState, Compilation, CompilationTable, PlannedTrap};
use jportal_capture::schema::{compilers, nmethod_states};
use jportal_flow::Tier;
use jportal_reconstruct::TrapCall;
use jportal_units::CodeId;
use jportal_vm_image::{CodeVersion, Marker, NMethod, PathMarkers, Scope};

use crate::Capture;

impl Capture {
    /// The compiled code: what it contains, and its life. Analyses that need it are those in
    /// [`crate::analyses::jit`].
    pub fn compilations(&self) -> CompilationTable {
        let image = self.recording().image();
        let traps = self.recording().trap_calls();
        let of = |version: &CodeVersion| Some(compilation(version, version.nmethod()?, &traps));
        CompilationTable::new(image.codes().iter().filter_map(of).collect(), image.stray_states)
    }
}

fn compilation(version: &CodeVersion, n: &NMethod, traps: &HashMap<CodeId, Vec<TrapCall>>) -> Compilation {
    let state = |state| match state {
        nmethod_states::NOT_ENTRANT => Some(CodeState::NotEntrant),
        nmethod_states::ZOMBIE => Some(CodeState::Zombie),
        nmethod_states::UNLOADED => Some(CodeState::Unloaded),
        _ => None,
    };
    let (frames, blocks) = match &n.markers {
        Some(markers) => (marked(markers), Some(blocks(markers))),
        None => (described(n), None),
    };
    let trap = |call: &TrapCall| {
        let scope = n.position_at(call.returns).and_then(|p| n.chain(p.scope).next());
        let position = scope.and_then(|s| Some((s.method?, u16::try_from(s.bci).ok()?)));
        PlannedTrap { returns: call.returns, request: call.request, position }
    };
    Compilation {
        code: version.id,
        compile_id: n.compile_id,
        tier: match n.compiler {
            compilers::NATIVE_WRAPPER => Tier::Native,
            compilers::C1 => Tier::C1,
            _ => Tier::C2,
        },
        level: n.level,
        method: n.method,
        osr_bci: n.osr_bci,
        installed: version.installed,
        size: version.range.len(),
        states: n.states.iter().filter_map(|(tsc, s)| Some((*tsc, state(*s)?))).collect(),
        freed: version.freed,
        frames,
        blocks,
        traps: traps.get(&version.id).map_or_else(Vec::new, |calls| calls.iter().map(trap).collect()),
    }
}

fn marked(markers: &PathMarkers) -> Vec<ChainFrame> {
    let frame = |c: &jportal_vm_image::markers::Context| ChainFrame {
        parent: c.parent,
        call_bci: c.call_bci,
        method: c.method,
    };
    markers.contexts().iter().map(frame).collect()
}

/// The blocks of which there are instructions.
fn blocks(markers: &PathMarkers) -> Vec<(u32, u16)> {
    let lists = markers.offsets().map(|o| o.1).chain(markers.edges().map(|e| e.3));
    let blocks = lists.flatten().filter_map(|mark| match *mark {
        Marker::Block { context, bci } => Some((context, bci)),
        Marker::Ambiguous(_) | Marker::PollState => None,
    });
    blocks.collect()
}

/// The frames that debug info names. Several scopes describe one frame, each at a position.
fn described(n: &NMethod) -> Vec<ChainFrame> {
    let mut frames: Vec<ChainFrame> = Vec::new();
    let mut numbers: HashMap<ChainFrame, u32> = HashMap::new();
    for scope in 0..n.scopes.len() as u32 {
        let mut chain: Vec<&Scope> = n.chain(Some(scope)).collect();
        chain.reverse();
        let (mut parent, mut call_bci) = (None, 0);
        for s in chain {
            let frame = ChainFrame { parent, call_bci, method: s.method };
            let number = *numbers.entry(frame).or_insert_with(|| {
                frames.push(frame);
                frames.len() as u32 - 1
            });
            (parent, call_bci) = (Some(number), u16::try_from(s.bci).unwrap_or(0));
        }
    }
    frames
}
