// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a recording says of compiled code, whatever ran of it.

use hashbrown::HashMap;
use jportal_flow::Tier;
use jportal_units::{Bci, CodeId, MethodId, Tsc};

/// A state that code changed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeState {
    /// No thread enters it any more.
    NotEntrant,
    /// No thread executes it any more.
    Zombie,
    /// A class that it needs was unloaded.
    Unloaded,
}

/// A frame of an inline chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChainFrame {
    /// The caller's frame, an index into the same list; `None` for the outermost one.
    pub parent: Option<u32>,
    /// The bci of the call in the caller.
    pub call_bci: u16,
    /// The frame's method; `None` if the VM never described it.
    pub method: Option<MethodId>,
}

/// A call with which code deoptimises its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedTrap {
    /// Offset of its return address.
    pub returns: u32,
    /// HotSpot's trap request; `None` if the code does not say it.
    pub request: Option<i32>,
    /// The innermost method and its position.
    pub position: Option<(MethodId, u16)>,
}

/// One compilation: the code that came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compilation {
    /// Its code.
    pub code: CodeId,
    /// HotSpot's number of it.
    pub compile_id: u32,
    /// [`Tier::Native`] for a native wrapper.
    pub tier: Tier,
    /// `CompLevel`.
    pub level: u8,
    /// The outermost method; `None` if the VM never described it.
    pub method: Option<MethodId>,
    /// Where it is entered by on-stack replacement; `None` for code that is called.
    pub osr_bci: Option<u16>,
    /// When it was installed.
    pub installed: Tsc,
    /// Bytes of code.
    pub size: u64,
    /// Its changes of state, in order.
    pub states: Vec<(Tsc, CodeState)>,
    /// When its memory was given back.
    pub freed: Option<Tsc>,
    /// The frames inlined into each other; a caller precedes its callees.
    pub frames: Vec<ChainFrame>,
    /// The bytecode blocks of which the code has an instruction, by path markers: index of the
    /// frame and first bci. `None` if the code has no markers.
    pub blocks: Option<Vec<(u32, u16)>>,
    /// The calls with which it deoptimises its frames, by ascending offset.
    pub traps: Vec<PlannedTrap>,
}

impl Compilation {
    /// When it became not entrant; `None` if it did not.
    pub(crate) fn not_entrant(&self) -> Option<Tsc> {
        self.states.first().map(|s| s.0)
    }
    /// The trap that returns to an offset.
    pub(crate) fn trap(&self, returns: u32) -> Option<&PlannedTrap> {
        let at = self.traps.binary_search_by_key(&returns, |t| t.returns).ok()?;
        self.traps.get(at)
    }
}

/// All compilations of a recording.
#[derive(Clone, Debug, Default)]
pub struct CompilationTable {
    all: Vec<Compilation>,
    by_code: HashMap<CodeId, u32>,
    /// By compilation, its inlined calls: caller's frame, bci of the call, and callee lead to the
    /// callee's frame.
    callees: Vec<HashMap<(u32, u16, MethodId), u32>>,
    /// Changes of state of code that was never described.
    stray_states: u64,
}

impl CompilationTable {
    /// In order of installation. `stray_states`: changes of state of code that was never described.
    pub fn new(mut all: Vec<Compilation>, stray_states: u64) -> Self {
        let callees = all.iter_mut().map(merge_frames).collect();
        let by_code = all.iter().enumerate().map(|(i, c)| (c.code, i as u32)).collect();
        Self { all, by_code, callees, stray_states }
    }
    /// All of them.
    pub fn all(&self) -> &[Compilation] {
        &self.all
    }
    pub(crate) fn get(&self, index: u32) -> Option<&Compilation> {
        self.all.get(index as usize)
    }
    pub(crate) fn index_of(&self, code: CodeId) -> Option<u32> {
        self.by_code.get(&code).copied()
    }
    pub(crate) const fn stray_states(&self) -> u64 {
        self.stray_states
    }
    /// The frame that the call at `bci` of the frame `caller` of a compilation leads to.
    pub(crate) fn callee(&self, index: u32, caller: u32, bci: Bci, method: MethodId) -> Option<u32> {
        self.callees.get(index as usize)?.get(&(caller, bci.get(), method)).copied()
    }
    /// The later compilation that took the place of this one: the last one of the same method and
    /// entry that was installed before this one became not entrant.
    pub(crate) fn successor(&self, index: u32) -> Option<&Compilation> {
        let this = self.get(index)?;
        let until = this.not_entrant()?;
        let later = self.all.get(index as usize + 1..)?.iter().take_while(|c| c.installed <= until);
        let same = later.filter(|c| c.method.is_some() && c.method == this.method);
        same.filter(|c| c.osr_bci == this.osr_bci).last()
    }
}

/// Makes one frame of those that the same calls lead to. Returns the inlined calls.
fn merge_frames(compilation: &mut Compilation) -> HashMap<(u32, u16, MethodId), u32> {
    let mut calls = HashMap::new();
    let mut kept: Vec<u32> = Vec::new();
    for (at, frame) in (0..).zip(&mut compilation.frames) {
        frame.parent = frame.parent.and_then(|p| kept.get(p as usize).copied());
        let same = match (frame.parent, frame.method) {
            (Some(parent), Some(method)) => *calls.entry((parent, frame.call_bci, method)).or_insert(at),
            // There is one outermost frame, and the code is entered in it.
            (None, _) => 0,
            (Some(_), None) => at,
        };
        kept.push(same);
    }
    if let Some(blocks) = &mut compilation.blocks {
        for block in blocks.iter_mut() {
            block.0 = kept.get(block.0 as usize).copied().unwrap_or(block.0);
        }
        blocks.sort_unstable();
        blocks.dedup();
    }
    calls
}

/// HotSpot's names of the reasons of `Deoptimization::DeoptReason`. C1 and C2 use those that a VM
/// without JVMCI has, and `tenured`, whose number depends on JVMCI.
const REASONS: [&str; 26] = [
    "none",
    "null_check",
    "null_assert",
    "range_check",
    "class_check",
    "array_check",
    "intrinsic",
    "bimorphic",
    "profile_predicate",
    "unloaded",
    "uninitialized",
    "initialized",
    "unreached",
    "unhandled",
    "constraint",
    "div0_check",
    "age",
    "predicate",
    "loop_limit_check",
    "speculate_class_check",
    "speculate_null_check",
    "speculate_null_assert",
    "rtm_state_change",
    "unstable_if",
    "unstable_fused_if",
    "receiver_constraint",
];

/// HotSpot's names of the actions of `Deoptimization::DeoptAction`.
const ACTIONS: [&str; 5] =
    ["none", "maybe_recompile", "reinterpret", "make_not_entrant", "make_not_compilable"];

/// Reason and action of a trap request (`Deoptimization::make_trap_request`).
pub(crate) fn reason_and_action(request: i32) -> (&'static str, &'static str) {
    // A constant-pool index: the class is not loaded.
    if request >= 0 {
        return ("unloaded", "reinterpret");
    }
    let bits = !request as usize;
    let reason = REASONS.get(bits >> 3 & 0x1f).copied().unwrap_or("tenured");
    (reason, ACTIONS.get(bits & 7).copied().unwrap_or("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::tests::compilation;

    #[test]
    fn trap_requests_have_reason_and_action() {
        // Seen in code of JDK 17: unstable_if, reinterpret; class_check, maybe_recompile.
        assert_eq!(reason_and_action(!(23 << 3 | 2)), ("unstable_if", "reinterpret"));
        assert_eq!(reason_and_action(!(4 << 3 | 1)), ("class_check", "maybe_recompile"));
        assert_eq!(reason_and_action(7), ("unloaded", "reinterpret"));
        assert_eq!(reason_and_action(!(31 << 3 | 7)), ("tenured", "unknown"));
    }

    #[test]
    fn frames_of_the_same_call_are_one() {
        let frame =
            |parent, call_bci, method| ChainFrame { parent, call_bci, method: Some(MethodId(method)) };
        let frames =
            vec![frame(None, 0, 0), frame(Some(0), 4, 1), frame(Some(0), 4, 1), frame(Some(2), 1, 2)];
        let blocks = Some(vec![(2, 8), (1, 0), (2, 0), (3, 0)]);
        let all = CompilationTable::new(vec![Compilation { frames, blocks, ..compilation(1, 4, 0) }], 0);
        let c = &all.all()[0];
        assert_eq!(c.blocks.as_deref(), Some(&[(1, 0), (1, 8), (3, 0)][..]));
        assert_eq!(all.callee(0, 0, Bci(4), MethodId(1)), Some(1));
        assert_eq!(all.callee(0, 1, Bci(1), MethodId(2)), Some(3));
        assert_eq!(all.callee(0, 0, Bci(4), MethodId(2)), None);
    }

    #[test]
    fn the_successor_was_there_before_the_end() {
        let at = |id, installed, ended: Option<u64>| Compilation {
            installed: Tsc(installed),
            states: ended.map(|t| (Tsc(t), CodeState::NotEntrant)).into_iter().collect(),
            ..compilation(id, 3, 0)
        };
        let osr = Compilation { osr_bci: Some(5), ..at(3, 30, None) };
        let all = vec![at(1, 10, Some(50)), at(2, 20, None), osr, at(4, 60, None)];
        let all = CompilationTable::new(all, 0);
        assert_eq!(all.successor(0).map(|c| c.compile_id), Some(2));
        assert_eq!(all.successor(1), None);
    }
}
