// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Judges stacks that were taken at any moment: by a signal, or from another thread.
//!
//! Below the innermost frame of the machine, the frames and their bcis are those of the flow. In
//! the innermost one, markers say which bytecode block is executing, and often not which bytecode
//! of it: each bytecode at which control may be is right.
//!
//! AsyncGetCallTrace is imprecise by design. What it does is known from HotSpot's source, so that a
//! stack that is wrong for such a reason, and for no other, has a verdict of its own: it is exactly
//! the stack that the source predicts.

use std::ops::Range;

use jportal_bytecode::{Instruction, MethodTable, Opcode, Transfer};
use jportal_capture::schema::blob_kinds;
use jportal_flow::Tier;
use jportal_reconstruct::{LastRun, Marked, Pause, PausedAt, PausedFrame, StackDepths, Unmarked};
use jportal_units::{Bci, CodeId, MethodId};
use jportal_vm_image::{CodeBody, NMethod, VmImage};

use super::compare::{Compared, Comparer, Detail, Loaders, MethodNames, StackVerdict, TrueFrame};
use super::judge::{StackCounts, StacksOptions, WrongStackPlace};
use super::log::{LoggedMethods, StackApi, TakenStack};
use super::moments::{Moment, MomentFinder, ThreadMoments};
use super::walk::{BEFORE_FIRST, Walks, sampled, tier_of, with_chain};
use crate::debug_info::{FramePosition, Layouts, frames_of_scope, marked_up_to, whereabouts};

/// The bytes from the position of a `throw` in C1's code to the end of the call: `mov rdx, address;
/// call` (`LIR_Assembler::throw_op`).
const THROW: u32 = 15;

/// Of a method (JVM specification, 4.6).
const ACC_SYNCHRONIZED: u32 = 0x20;

/// The stacks that may be right, and those that the VM's source predicts instead.
#[derive(Debug, Default)]
struct ExpectedStacks {
    /// Innermost frame first.
    right: Vec<Vec<TrueFrame>>,
    predicted: Vec<(Detail, Vec<TrueFrame>)>,
    /// HotSpot's source determines these innermost frames only, and not where the walk continues.
    unpredictable: Option<(Detail, Vec<TrueFrame>)>,
}

/// Judges stacks taken at any moment.
#[derive(Debug)]
pub struct AnytimeJudge<'a> {
    image: &'a VmImage,
    methods: &'a MethodTable,
    names: MethodNames,
    options: StacksOptions,
    layouts: Layouts<'a>,
    depths: StackDepths,
    counts: StackCounts,
}

impl<'a> AnytimeJudge<'a> {
    /// `logged`: the methods that the logs name. `depths`: of the code in `image`.
    pub fn new(
        image: &'a VmImage,
        methods: &'a MethodTable,
        logged: &LoggedMethods,
        depths: StackDepths,
        options: StacksOptions,
    ) -> Self {
        let names = MethodNames::new(logged, methods);
        Self {
            image,
            methods,
            names,
            options,
            layouts: Layouts::new(methods),
            depths,
            counts: StackCounts::default(),
        }
    }
    /// Judges all stacks. The decode must have ended.
    pub fn judge(mut self, finder: MomentFinder) -> AnytimeCounts {
        for thread in finder.finish() {
            let mut loaders = Loaders::default();
            for moment in &thread.moments {
                if self.options.apis.contains(&moment.taken.api) {
                    self.moment(&thread, moment, &mut loaders);
                }
            }
            self.counts.log_errors.extend(thread.log_error);
        }
        AnytimeCounts(self.counts)
    }

    fn moment(&mut self, thread: &ThreadMoments, moment: &Moment, loaders: &mut Loaders) {
        let (taken, api) = (&moment.taken, moment.taken.api);
        let fitting = moment.fitting(&thread.pauses);
        let pauses = || fitting.iter().filter_map(|&i| thread.pauses.get(i));
        // Of a thread without Java frames AsyncGetCallTrace says 0, or -3 in native code.
        let no_frame = matches!(taken.error, 0 | -3)
            && pauses().next().is_some()
            && pauses().all(|p| p.frames.is_empty());
        if taken.frames.is_empty() && !no_frame {
            return self.counts.error(api, taken.error);
        }
        if let Some(why) = unmatched(thread, moment, &fitting) {
            return self.counts.not_judged(api, why);
        }
        let mut results = Vec::new();
        let known = normalised(taken);
        for pause in pauses() {
            let expected = match self.expected(pause, api) {
                Ok(expected) => expected,
                Err(why) => return self.counts.not_judged(api, why),
            };
            let compared = self.compare(&known, &expected, loaders);
            results.push((pause, expected, compared));
        }
        let agree = results.windows(2).all(|w| {
            let (a, b) = (&w[0].2.0, &w[1].2.0);
            (a.verdict, a.detail) == (b.verdict, b.detail)
        });
        if !agree {
            return self.counts.not_judged(api, "several moments fit, and they disagree");
        }
        let Some((pause, expected, (compared, index))) = results.pop() else { return };
        let Some(truth) = expected.right.into_iter().nth(index) else { return };
        let near = || moment.near.iter().filter_map(|&i| thread.pauses.get(i));
        if compared.verdict.is_broken() && near().any(|p| p.lost) {
            return self.counts.not_judged(api, "a gap in the thread's flow is near");
        }
        if compared.verdict.is_broken() && self.is_explained_near((thread, moment), &known, loaders) {
            return self
                .counts
                .not_judged(api, "the clocks of trace and stack differ: a neighbouring moment fits");
        }
        self.counts.count(api, compared, &truth);
        if compared.verdict.is_broken() {
            self.find((thread, pause), taken, &truth, compared);
        }
    }

    /// Whether a pause near the moment explains the stack.
    fn is_explained_near(
        &mut self,
        (thread, moment): (&ThreadMoments, &Moment),
        taken: &TakenStack,
        loaders: &mut Loaders,
    ) -> bool {
        let near = moment.near.iter().filter_map(|&i| thread.pauses.get(i));
        near.into_iter().any(|pause| {
            let Ok(expected) = self.expected(pause, taken.api) else { return false };
            let verdict = self.compare(taken, &expected, loaders).0.verdict;
            verdict != StackVerdict::Unpredictable && !verdict.is_broken()
        })
    }

    /// Compares with all stacks that may be right, then with those that are predicted. Also gives
    /// the index of the right one that was meant.
    fn compare(
        &self,
        taken: &TakenStack,
        expected: &ExpectedStacks,
        loaders: &mut Loaders,
    ) -> (Compared, usize) {
        let mut comparer = Comparer { names: &self.names, methods: self.methods, loaders };
        let mut first = None;
        for (i, right) in expected.right.iter().enumerate() {
            let compared = comparer.compare(taken, right);
            if compared.verdict == StackVerdict::Equal {
                return (compared, i);
            }
            // The difference that is farthest from the innermost frame says most.
            if first.is_none_or(|(best, _): (Compared, usize)| compared.at > best.at) {
                first = Some((compared, i));
            }
        }
        for (detail, predicted) in &expected.predicted {
            let compared = comparer.compare(taken, predicted);
            if compared.verdict == StackVerdict::Equal {
                return (Compared { verdict: StackVerdict::Imprecise, detail: *detail, at: 0 }, 0);
            }
        }
        if let Some((detail, top)) = &expected.unpredictable
            && taken.frames.iter().all(|f| self.names.logged(f.method).is_some())
        {
            let mut begin = taken.clone();
            begin.frames.truncate(top.len());
            if comparer.compare(&begin, top).verdict == StackVerdict::Equal {
                return (Compared { verdict: StackVerdict::Unpredictable, detail: *detail, at: 0 }, 0);
            }
        }
        first.unwrap_or((Compared { verdict: StackVerdict::Equal, detail: Detail::None, at: 0 }, 0))
    }

    fn expected(&mut self, pause: &Pause, api: StackApi) -> Result<ExpectedStacks, &'static str> {
        if pause.lost {
            return Err("a gap in the thread's flow comes before");
        }
        if !pause.whole {
            return Err("a frame is older than the trace");
        }
        let frames = true_frames(&pause.frames);
        let asynchronous = api == StackApi::AsgctAsync;
        let mut expected = ExpectedStacks { right: vec![frames.clone()], ..Default::default() };
        match pause.at {
            PausedAt::Moved => return Err("control continued elsewhere than where it was interrupted"),
            PausedAt::Outside | PausedAt::Interpreter => {}
            PausedAt::Stub { code, offset } => self.in_stub(pause, (code, offset), &frames, &mut expected),
            PausedAt::Compiled { code, from, offset, marked, returns } => {
                let Some(n) = self.nmethod(code) else { return Err("the code is not known") };
                let rest = without_top(&frames);
                expected.right = self.in_code(n, (from, offset), marked, rest)?;
                expected.predicted.push((Detail::NextState, sampled(n, offset, rest)));
                // `safe_for_sender` finds the caller by the size of the frame. It gives up before
                // the frame is complete, but asks for the offset only. C1's OSR entry comes after
                // the normal one, and has no frame yet. Intrinsics push registers
                // (`C2_MacroAssembler::string_indexof`). The poll at a return comes when the frame
                // has been removed. `depths` lacks code that only handlers and switches reach.
                let lies_in = |ranges: &[Range<u32>]| ranges.iter().any(|range| range.contains(&offset));
                let depths = self.depths.get(&code);
                let detail = if returns || depths.is_some_and(|d| lies_in(&d.removed)) {
                    Some(Detail::Removed)
                } else if n.osr_entry == Some(offset) {
                    Some(Detail::Incomplete)
                } else {
                    depths.filter(|d| lies_in(&d.pushed)).map(|_| Detail::Pushed)
                };
                expected.unpredictable = detail.map(|detail| (detail, sampled(n, offset, &[])));
            }
        }
        if let Some(last) = pause.last
            && !matches!(pause.at, PausedAt::Compiled { .. })
        {
            let rest = without_top(&frames);
            if last.cut
                && let Some(n) = self.nmethod(last.code)
                && let Some(p) = n.position_of_fault(last.end)
                && let Some(mut chain) = frames_of_scope(n, p.scope)
            {
                if let Some(innermost) = chain.last_mut() {
                    innermost.bci = innermost.bci.or(Some(if asynchronous { BEFORE_FIRST } else { 0 }));
                }
                expected.right = vec![with_chain(&chain, tier_of(n), rest)];
            } else if let Some(left) = self.unlocked(last, &frames) {
                expected.right.push(left);
            }
        }
        let top = frames.first().copied();
        if let Some(top) = top.filter(|_| pause.throwing)
            && let Some(at) = top.bci
        {
            // The VM moves the frame to the handler, and may stop the thread there.
            let handlers = self.methods.get(top.method).map_or(&[][..], |m| &m.exceptions);
            for handler in handlers.iter().filter(|h| (h.start..h.end).contains(&at)) {
                let moved = TrueFrame { bci: Some(handler.handler), ..top };
                expected.right.push(replaced(&frames, moved));
            }
        }
        if pause.at == PausedAt::Outside
            && let Some(top) = top
            && let Some(branched) = self.branched(top)
        {
            expected.right.push(replaced(&frames, branched));
        }
        if let Some(top) = top
            && let Some(locked) = self.after_lock(top)
        {
            expected.right.push(replaced(&frames, locked));
        }
        if !asynchronous {
            expected.predicted.clear();
            expected.unpredictable = None;
            return Ok(expected);
        }
        let Some(top) = top else { return Ok(expected) };
        let walks = Walks::new(self.image, &frames, &pause.machine);
        let is_in_code = matches!(pause.at, PausedAt::Compiled { .. });
        if top.tier == Tier::Interpreter {
            // The interpreter keeps the bci in a register. AsyncGetCallTrace reads the frame's
            // slot, which is stored at calls and in slow paths (`interpreter_frame_bcp`).
            for &bci in pause.recent.iter().filter(|b| Some(**b) != top.bci) {
                let stale = TrueFrame { bci: Some(bci), ..top };
                expected.predicted.push((Detail::StaleBci, replaced(&frames, stale)));
            }
            if let Some(branched) = self.branched(top) {
                expected.predicted.push((Detail::Branched, replaced(&frames, branched)));
            }
        }
        let predict = |expected: &mut ExpectedStacks, detail, stack: Option<Vec<TrueFrame>>| {
            expected.predicted.extend(stack.map(|stack| (detail, stack)));
        };
        if top.tier == Tier::Interpreter && self.returns(top) {
            predict(&mut expected, Detail::Removed, walks.from(1));
        }
        // An entry of the interpreter may also call the VM before the frame is complete.
        let is_new = match top.tier {
            Tier::Interpreter => pause.recent.is_empty(),
            Tier::Native => pause.at == PausedAt::Interpreter,
            _ => false,
        };
        if is_new && !is_in_code {
            predict(&mut expected, Detail::NotEntered, walks.from(1));
            predict(&mut expected, Detail::NotEntered, walks.of_callers_pointer());
        }
        if let Some(top) = pause.removing.filter(|_| pause.at == PausedAt::Interpreter) {
            let top = true_frames(&[top]);
            expected.right.push([&top[..], &frames].concat());
        }
        if let Some(before) = pause.before.as_deref().filter(|b| b.len() > frames.len()) {
            // The flow removes the frame when the code that removes it begins.
            expected.right.push(true_frames(before));
        }
        if pause.last.is_some() && !is_in_code && !self.is_refused(pause.at) {
            // Compiled code called a stub or the VM.
            predict(&mut expected, Detail::BelowStub, walks.from(0));
        }
        if pause.at == PausedAt::Outside {
            let leaf = walks.of_leaf();
            expected.predicted.extend(leaf.into_iter().map(|stack| (Detail::Leaf, stack)));
            expected.unpredictable = walks.of_leaf_above_code().map(|top| (Detail::Leaf, top));
        }
        let all = expected.right.iter().chain(expected.predicted.iter().map(|p| &p.1));
        let ended: Vec<_> = all.flat_map(|stack| walks.ends(stack, pause.until)).collect();
        expected.predicted.extend(ended);
        Ok(expected)
    }

    /// The frames without those of inlined synchronized methods that an exception has left. C1's
    /// code unlocks and then throws in the caller (`GraphBuilder::fill_sync_handler`). The flow has
    /// the frame until it knows where the exception arrives.
    fn unlocked(&self, last: LastRun, frames: &[TrueFrame]) -> Option<Vec<TrueFrame>> {
        let n = self.nmethod(last.code).filter(|n| tier_of(n) == Tier::C1 && !last.cut)?;
        let throws = || n.position_at(last.end.checked_sub(THROW)?);
        let chain = frames_of_scope(n, n.position_at(last.end).or_else(throws)?.scope)?;
        let rest = without_top(frames);
        let left = (frames.len() - rest.len()).checked_sub(chain.len())?;
        let (gone, stay) = frames.split_at(left);
        let is_synchronized = |f: &TrueFrame| {
            self.methods.get(f.method).is_some_and(|m| m.access_flags & ACC_SYNCHRONIZED != 0)
        };
        let fits = !gone.is_empty()
            && gone.iter().all(is_synchronized)
            && with_chain(&chain, Tier::C1, rest) == stay;
        fits.then(|| stay.to_vec())
    }

    /// Whether `safe_for_sender` refuses to walk from there: a stub of the compilers' runtimes has
    /// no offset from which on its frame is complete (`frame_never_safe` in `c1_Runtime1.cpp` and
    /// `output.cpp`). The stubs of `SharedRuntime` and those that throw have one.
    fn is_refused(&self, at: PausedAt) -> bool {
        let PausedAt::Stub { code, .. } = at else { return false };
        let Some(CodeBody::Blob { kind: blob_kinds::RUNTIME_STUB, name, .. }) =
            self.image.code(code).map(|v| &v.body)
        else {
            return false;
        };
        let has_offset = ["resolve_", "wrong_method_", "ic_miss_"].iter().any(|n| name.starts_with(n));
        !has_offset && !name.contains("throw_exception")
    }

    /// A stub, an adapter, a native wrapper or a handler of an nmethod.
    fn in_stub(
        &self,
        pause: &Pause,
        (code, offset): (CodeId, u32),
        frames: &[TrueFrame],
        expected: &mut ExpectedStacks,
    ) {
        let Some(version) = self.image.code(code) else { return };
        let removed = |top| pause.returns.then_some((Detail::Removed, top));
        match &version.body {
            CodeBody::NMethod(n) if self.is_native(n) => {
                let Some(method) = n.method else { return };
                // The entry of the wrapper. The wrapper's own method is shown.
                let tier = Tier::Native;
                let own = TrueFrame { method, bci: None, tier, inlined: false, found: false };
                let rest = without_top(frames);
                expected.right.push(std::iter::once(own).chain(frames.iter().copied()).collect());
                expected.predicted.push((Detail::NextState, sampled(n, offset, rest)));
                expected.unpredictable = removed(vec![own]);
            }
            CodeBody::NMethod(n) => {
                // A handler: its own debug info.
                expected.predicted.push((Detail::NextState, sampled(n, offset, without_top(frames))));
                // The handlers of deoptimisation push an address
                // (`HandlerImpl::emit_deopt_handler`).
                let first = n.deopt_handler.into_iter().chain(n.deopt_mh_handler).min();
                let pushed = first.is_some_and(|first| offset >= first);
                expected.unpredictable = pushed.then(|| (Detail::Incomplete, sampled(n, offset, &[])));
            }
            // `SingletonBlob`s have a size, but no offset from which on their frame is complete
            // (`frame_never_safe`), and `safe_for_sender` asks for that in other blobs only. While
            // they build, replace or remove frames, the walk continues at a wrong place.
            CodeBody::Blob { kind, .. }
                if matches!(
                    *kind,
                    blob_kinds::DEOPTIMIZATION
                        | blob_kinds::UNCOMMON_TRAP
                        | blob_kinds::EXCEPTION
                        | blob_kinds::SAFEPOINT
                ) =>
            {
                expected.unpredictable = Some((Detail::Incomplete, Vec::new()));
            }
            CodeBody::Blob { kind: blob_kinds::RUNTIME_STUB, .. } if !self.is_refused(pause.at) => {
                expected.unpredictable = removed(Vec::new());
            }
            CodeBody::Blob { .. } | CodeBody::Codelet => {}
        }
    }

    /// Whether the code is the wrapper of a native method.
    fn is_native(&self, n: &NMethod) -> bool {
        n.method.and_then(|m| self.methods.get(m)).is_some_and(|m| m.is_native())
    }

    fn returns(&self, top: TrueFrame) -> bool {
        let opcode = || {
            let code = &self.methods.get(top.method)?.code;
            Some(Instruction::at(code, usize::from(top.bci?.0)).ok()?.opcode)
        };
        opcode().is_some_and(|o| o.transfer() == Transfer::Return)
    }

    /// The frame, which is at a branch, at the target. The interpreter moves the bci before it
    /// calls the VM or polls (`TemplateTable::branch`).
    fn branched(&self, top: TrueFrame) -> Option<TrueFrame> {
        let bci = self.branch_target(top.method, top.bci.filter(|_| top.tier == Tier::Interpreter)?)?;
        Some(TrueFrame { bci: Some(bci), ..top })
    }

    fn branch_target(&self, method: MethodId, bci: Bci) -> Option<Bci> {
        let code = &self.methods.get(method)?.code;
        Instruction::at(code, usize::from(bci.0)).ok()?.branch_target().ok()?
    }

    /// The frame, which is at a `monitorenter`, at the next bytecode. The interpreter moves the bci
    /// before it locks (`TemplateTable::monitorenter`).
    fn after_lock(&self, top: TrueFrame) -> Option<TrueFrame> {
        let at = top.bci.filter(|_| top.tier == Tier::Interpreter)?;
        let code = &self.methods.get(top.method)?.code;
        let instruction = Instruction::at(code, usize::from(at.0)).ok()?;
        let is_lock = instruction.opcode == Opcode::MONITORENTER;
        is_lock.then(|| TrueFrame { bci: Some(Bci(at.0 + 1)), ..top })
    }

    fn nmethod(&self, code: CodeId) -> Option<&'a NMethod> {
        self.image.code(code).and_then(|v| v.nmethod())
    }

    /// The stacks that are right while control is before `offset` in compiled code, in a machine
    /// block that begins at `from`. `rest`: the frames below the code's own.
    fn in_code(
        &mut self,
        n: &NMethod,
        (from, offset): (u32, u32),
        marked: Marked,
        rest: &[TrueFrame],
    ) -> Result<Vec<Vec<TrueFrame>>, &'static str> {
        let all = marked_up_to(n, marked, (from, offset));
        if let Some(Marked::Unknown(why)) = all.iter().find(|m| matches!(m, Marked::Unknown(_))) {
            return Err(unplaced(*why));
        }
        let places = whereabouts(&mut self.layouts, n, &all).ok_or("the VM never described a method")?;
        let tier = tier_of(n);
        let mut right = Vec::new();
        for place in &places {
            for possible in &place.possible {
                let mut chain: Vec<FramePosition> = place.frames[..=possible.depth].to_vec();
                let Some(last) = chain.last_mut() else { continue };
                last.bci = Some(possible.bci.unwrap_or(0));
                let stack = with_chain(&chain, tier, rest);
                if !right.contains(&stack) {
                    right.push(stack);
                }
            }
        }
        if right.is_empty() {
            return Err("no bytecode is known at which control may be");
        }
        Ok(right)
    }

    fn find(
        &mut self,
        (thread, pause): (&ThreadMoments, &Pause),
        taken: &TakenStack,
        truth: &[TrueFrame],
        compared: Compared,
    ) {
        let mut tags = super::judge::tags_of(self.methods, truth);
        tags.push(match pause.at {
            PausedAt::Outside => "outside of the code cache",
            PausedAt::Interpreter => "in the interpreter",
            PausedAt::Compiled { marked: Marked::Entry, .. } => "at the entry",
            PausedAt::Compiled { .. } => "in compiled code",
            PausedAt::Stub { .. } => "in a stub",
            PausedAt::Moved => "moved",
        });
        let place = WrongStackPlace {
            tid: thread.tid,
            thread: &thread.name,
            event: pause.event.saturating_sub(1),
            names: &self.names,
            methods: self.methods,
            capture: &self.options.capture,
        };
        self.counts.find(&place, (taken, truth), compared, tags);
    }
}

/// What was counted of stacks taken at any moment.
#[derive(Debug, Default)]
pub struct AnytimeCounts(pub(crate) StackCounts);

/// The stack with [`BEFORE_FIRST`] where AsyncGetCallTrace gives no bci of a Java frame.
fn normalised(taken: &TakenStack) -> TakenStack {
    let mut known = taken.clone();
    if taken.api == StackApi::AsgctAsync {
        let unknown = known.frames.iter_mut().filter(|f| f.location == -1);
        unknown.for_each(|f| f.location = BEFORE_FIRST.into());
    }
    known
}

/// Why no pause of the thread is known to be the stack's.
fn unmatched(thread: &ThreadMoments, moment: &Moment, fitting: &[usize]) -> Option<&'static str> {
    if !thread.seen {
        Some("the capture has no flow of the thread")
    } else if moment.more {
        Some("too many moments fit")
    } else if fitting.is_empty() {
        Some(match moment.taken.api {
            _ if moment.inside => "no interrupt of the thread fits its address and time",
            _ => "no stay outside of the code cache fits its time",
        })
    } else {
        None
    }
}

const fn unplaced(why: Unmarked) -> &'static str {
    match why {
        Unmarked::NoMarkers => "the code has no path markers",
        Unmarked::Found => "the trace begins, or resumes, inside the activation",
        Unmarked::Lost(_) => "the compiler lost the path",
        Unmarked::Astray => "path markers contradict each other",
        Unmarked::MovedPoll => "a moved poll: only its state says which markers happened",
    }
}

/// The frames of a pause, innermost first.
fn true_frames(outermost_first: &[PausedFrame]) -> Vec<TrueFrame> {
    let frame = |f: &PausedFrame| TrueFrame {
        method: f.method,
        bci: f.bci,
        tier: f.tier,
        inlined: f.inlined,
        found: false,
    };
    outermost_first.iter().rev().map(frame).collect()
}

/// The frames below the innermost frame of the machine. Innermost first.
fn without_top(frames: &[TrueFrame]) -> &[TrueFrame] {
    let top = frames.iter().position(|f| !f.inlined).map_or(frames.len(), |i| i + 1);
    &frames[top..]
}

fn replaced(frames: &[TrueFrame], top: TrueFrame) -> Vec<TrueFrame> {
    let mut all = frames.to_vec();
    if let Some(first) = all.first_mut() {
        *first = top;
    }
    all
}
