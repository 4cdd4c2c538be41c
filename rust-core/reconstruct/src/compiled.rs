// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Follows compiled code through debug info: executed machine blocks → `PcDesc` positions.
//!
//! A `PcDesc` names the return address of a call, a safepoint poll or an instruction that may
//! fault. When the executed blocks of an nmethod are walked in order, each `PcDesc` gives a
//! point of the bytecode flow with its whole inline chain. Debug info says nothing about the
//! code between two positions. Path markers do, where they are in use ([`Machine::positions`]
//! handles code without them).

use crate::contradiction::{Contradiction, Walk};
use crate::driver::Positions;
use crate::frame::{Compiled, Frame, Interpreted, Position, Run, Trail};
use crate::machine::{Before, Machine};
use crate::marked::scope_chain;
use crate::tags::CodeClass;
use jportal_bytecode::Transfer;
use jportal_capture::schema::compilers;
use jportal_flow::{Cause, EventKind, Exit as FrameExit, Tier};
use jportal_machine_flow::Exit;
use jportal_units::{Bci, CodeId, MethodId};
use jportal_vm_image::NMethod;

/// Length of a `jmp rel32`, which replaces the verified entry of a not-entrant nmethod.
const PATCHED_ENTRY: u32 = 5;

/// Whether the offset `at` is that of a handler to which a call returns whose frame is invalid.
pub(crate) fn is_deopt_handler(n: &NMethod, at: u32) -> bool {
    n.deopt_handler == Some(at) || n.deopt_mh_handler == Some(at)
}

impl<'a> Machine<'a> {
    /// A block of C1 or C2 code.
    pub(crate) fn nmethod_block(&mut self, start: u32, end: u32, code: CodeId, exit: Exit) -> Walk<()> {
        self.unfold();
        let image = self.shared.image;
        let Some(version) = image.code(code) else { return Ok(()) };
        let Some(n) = version.nmethod() else { return Ok(()) };
        if let Some(flaw) = n.flaw.as_deref() {
            return Err(Contradiction::Flawed { code: version.describe(), flaw: flaw.clone() }.into());
        }
        let base = version.range.start.minus(self.shared.cache.start) as u32;
        let (from, to) = (start.wrapping_sub(base), end.wrapping_sub(base));
        if Self::has_no_frame(n, (from, to), exit) {
            return Ok(());
        }
        // The inline-cache check falls through into the verified entry, perhaps inside one
        // block.
        let enters = from <= n.verified_entry;
        let resumes = self.resumes_in(code);
        if enters {
            self.enter_compiled(n, code)?;
        } else if n.osr_entry == Some(from) && !resumes {
            self.enter_osr(n, code)?;
        } else if !resumes {
            self.land_in(code, n, from)?;
        }
        self.observe_no_callee();
        self.follow(n, (from, to), exit);
        if exit == Exit::Return {
            // Pops the frame only if its caller is compiled. In the interpreter or the call
            // stub, the landing there pops it.
            self.return_to_compiled();
        }
        Ok(())
    }
    /// Whether the block `from..to` is executed before the method's frame exists.
    pub(crate) fn has_no_frame(n: &NMethod, (from, to): (u32, u32), exit: Exit) -> bool {
        if from < n.verified_entry && to <= n.verified_entry {
            // This is the inline-cache check before the method's entry.
            return true;
        }
        // The nmethod is not entrant: the call continues in a stub that finds the right callee.
        from <= n.verified_entry
            && exit == Exit::Jump
            && to.checked_sub(PATCHED_ENTRY) == Some(n.verified_entry)
    }
    /// The top frame executes the block `from..to` of its code.
    pub(crate) fn follow(&mut self, n: &'a NMethod, (from, to): (u32, u32), exit: Exit) {
        match &n.markers {
            Some(markers) if self.uses_markers(n) => self.follow_markers(n, markers, (from, to), exit),
            _ => {
                self.observe_unmarked(n, (from, to), exit);
                self.positions(n, from, to, exit);
                if let Some(trail) = self.trail().filter(|_| from < n.stub) {
                    trail.run(Run { from, to, exit }, false);
                }
            }
        }
    }
    /// Whether path markers position this code.
    pub(crate) fn uses_markers(&self, n: &NMethod) -> bool {
        n.markers.is_some() && self.shared.positions == Positions::Markers
    }
    /// Whether the previous block belongs to the same code and did not leave it.
    pub(crate) fn resumes_in(&self, code: CodeId) -> bool {
        matches!(self.before, Before::Block { exit, code: c, .. }
            if c == code && !matches!(exit, Exit::Call | Exit::IndirectCall | Exit::Return))
    }
    pub(crate) fn tier(n: &NMethod) -> Tier {
        if n.compiler == compilers::C1 { Tier::C1 } else { Tier::C2 }
    }
    fn enter_compiled(&mut self, n: &NMethod, code: CodeId) -> Walk<()> {
        let method = n.method.ok_or(Contradiction::UnknownMethod(n.pointer))?;
        let tier = Self::tier(n);
        let entry = self.entry_cause();
        let chain = vec![Position { method, bci: None }];
        let trail = Trail::default();
        self.push(Frame::Compiled(Compiled { code, tier, chain, trail }), method, tier, entry);
        Ok(())
    }
    fn enter_osr(&mut self, n: &NMethod, code: CodeId) -> Walk<()> {
        let method = n.method.ok_or(Contradiction::UnknownMethod(n.pointer))?;
        let trail = Trail { fresh: true, ..Trail::default() };
        let compiled = Compiled { code, tier: Self::tier(n), chain: Vec::new(), trail };
        self.on_stack_replacement(compiled, Position { method, bci: n.osr_bci.map(Bci) });
        Ok(())
    }
    /// Control arrives at `from` in the middle of `code`: the frames above its activation are
    /// gone. Usually there are none, because callees pop themselves.
    fn land_in(&mut self, code: CodeId, n: &NMethod, from: u32) -> Walk<()> {
        let depth = self.stack.len();
        self.find_activation(code, n, from)?;
        // A runtime stub returns here, too, and has no frame.
        let of_java = self.came_by_return()
            && matches!(
                self.before,
                Before::Block { class: CodeClass::NMethod | CodeClass::NativeWrapper, .. }
            );
        let ended = of_java || self.stack.len() < depth;
        if let Some(Frame::Compiled(c)) = self.stack.last_mut().filter(|_| ended && is_deopt_handler(n, from))
        {
            c.trail.ended = true;
        }
        Ok(())
    }
    fn find_activation(&mut self, code: CodeId, n: &NMethod, from: u32) -> Walk<()> {
        self.return_through_poll(code, from);
        if self.lowest_returned() {
            self.pop(FrameExit::Return);
        }
        let here = |f: &Frame| matches!(f, Frame::Compiled(c) if c.code == code);
        if self.stack.last().is_some_and(here) {
            return Ok(());
        }
        let floor = self.stack.iter().rposition(|f| matches!(f, Frame::Upcall { .. })).map_or(0, |i| i + 1);
        if let Some(i) = self.stack[floor..].iter().rposition(here) {
            let callee = floor + i + 1;
            let proven = self.proven_exit(n, floor + i, from);
            while self.stack.len() > callee {
                let exit = if self.stack.len() == callee + 1 { proven } else { FrameExit::Unknown };
                let exit = self.exit_of_top(exit);
                self.pop(exit);
            }
            return Ok(());
        }
        if !self.stack.is_empty() {
            let code = self.shared.image.code(code).map_or_else(String::new, |v| v.describe());
            return Err(Contradiction::NotOnStack { code, top: self.describe_top() }.into());
        }
        // The trace began, or began again, inside this activation.
        let method = n.method.ok_or(Contradiction::UnknownMethod(n.pointer))?;
        let tier = Self::tier(n);
        let chain = vec![Position { method, bci: None }];
        let entry = jportal_flow::Entry::Found;
        let trail = Trail::found();
        self.push(Frame::Compiled(Compiled { code, tier, chain, trail }), method, tier, entry);
        Ok(())
    }
    #[cold]
    fn describe_top(&self) -> String {
        let code = |id| self.shared.image.code(id).map_or_else(String::new, |v| v.describe());
        match self.stack.last() {
            None => "unknown".into(),
            Some(Frame::Interpreted(f)) => format!("interpreted {}", self.name(f.method)),
            Some(Frame::Compiled(c)) => code(c.code),
            Some(Frame::Interned { code: c, .. }) => code(*c),
            Some(Frame::Native { method, .. }) => format!("native {}", self.name(*method)),
            Some(Frame::Upcall { .. }) => "a call by the VM".into(),
        }
    }
    /// Handles the poll before a compiled method's return. The method jumps to the safepoint
    /// handler after it removed its frame, and the handler returns to the caller itself.
    /// Between two activations of the same code, this is the only sign that one has ended.
    fn return_through_poll(&mut self, code: CodeId, from: u32) {
        let [.., Frame::Compiled(caller), Frame::Compiled(callee)] = &self.stack[..] else { return };
        if callee.trail.jumped()
            && caller.code == code
            && caller.trail.called_up_to(from)
            && self.came_by_return()
        {
            self.pop(FrameExit::Return);
        }
    }
    /// An exception arrives from a stub. If compiled code jumped to that stub, the stub was the
    /// handler of the poll before the code's return. The frame has returned then, and the
    /// exception, which came from outside (`Thread.stop`), is thrown in its caller
    /// (`ThreadSafepointState::handle_polling_page_exception`).
    pub(crate) fn return_before_exception(&mut self) {
        let from_stub = matches!(self.before, Before::Block { class: CodeClass::Transparent, .. });
        if from_stub && matches!(self.stack.last(), Some(Frame::Compiled(c)) if c.trail.left) {
            self.pop(FrameExit::Return);
        }
    }
    /// A stub runs: if compiled code jumped to it, its frame is marked as left.
    pub(crate) fn stub_after_jump(&mut self) {
        let Before::Block { exit: Exit::Jump, class: CodeClass::NMethod, code } = self.before else { return };
        self.unfold();
        match self.stack.last_mut() {
            // In a recursion the jump may be that of a callee that never had a frame, because
            // its code is not entrant.
            Some(Frame::Compiled(c)) if c.code == code && c.trail.jumped() => c.trail.left = true,
            _ => {}
        }
    }
    /// Whether the lowest known frame has just returned. Its caller is older than the trace or
    /// lies in a gap: a stack that is known completely has an upcall at the bottom.
    fn lowest_returned(&self) -> bool {
        match (&self.stack[..], &self.before) {
            (
                [Frame::Compiled(Compiled { code: frame, .. }) | Frame::Native { code: Some(frame), .. }],
                Before::Block { exit: Exit::Return, code, .. },
            ) if frame == code => true,
            // Control comes from the handler of the poll at the callee's return, to which the
            // callee jumped.
            (
                [Frame::Compiled(Compiled { trail: Trail { left: true, .. }, .. })],
                Before::Block { exit: Exit::Return, class: CodeClass::Transparent, .. },
            ) => true,
            // The interpreter's return is a jump.
            (
                [Frame::Interpreted(_) | Frame::Native { code: None, .. }],
                Before::Block { exit: Exit::Return | Exit::IndirectJump, .. },
            ) => self.exit_of_top(FrameExit::Unknown) == FrameExit::Return,
            _ => false,
        }
    }
    fn came_by_return(&self) -> bool {
        matches!(self.before, Before::Block { exit: Exit::Return, .. })
    }
    /// How the callee of the compiled frame `caller` (its index on the stack) ended, if landing
    /// at `from` in the caller's code `n` proves it. A return arrives at the return address, or
    /// at the deoptimisation handler that replaced it. `forward_exception` arrives at the
    /// exception handler.
    fn proven_exit(&self, n: &NMethod, caller: usize, from: u32) -> FrameExit {
        let Some(Frame::Compiled(c)) = self.stack.get(caller) else { return FrameExit::Unknown };
        let deoptimised = is_deopt_handler(n, from);
        if n.exception_handler == Some(from) {
            FrameExit::Unwind
        } else if self.came_by_return() && (deoptimised || c.trail.called_up_to(from)) {
            FrameExit::Return
        } else {
            FrameExit::Unknown
        }
    }
    /// How the top frame ended when control is found below it. `proven` is the exit that is
    /// certain from the landing. When an exception leaves an interpreted frame, the decoder
    /// sees the interpreter remove the frame. So an interpreted frame whose last bytecode is a
    /// return has returned.
    pub(crate) fn exit_of_top(&self, proven: FrameExit) -> FrameExit {
        match self.stack.last() {
            Some(Frame::Interpreted(Interpreted { forced: true, .. })) => FrameExit::Return,
            Some(Frame::Interpreted(Interpreted { method, at: Some(at), .. }))
                if self.step(*method, *at).is_ok_and(|s| s.transfer == Transfer::Return) =>
            {
                FrameExit::Return
            }
            // In the interpreter's own native frames, too, the decoder sees a pending exception
            // being thrown.
            Some(Frame::Native { code: None, .. }) => FrameExit::Return,
            _ => proven,
        }
    }
    /// The compiled or wrapper frame on top executed its return. If the caller is the
    /// interpreter or the call stub, the landing there pops the frame. A return into compiled
    /// code has no landmark, so the frame is popped here.
    pub(crate) fn return_to_compiled(&mut self) {
        let caller_is_compiled = matches!(self.stack.iter().nth_back(1), Some(Frame::Compiled(_)));
        if caller_is_compiled {
            self.pop(FrameExit::Return);
        }
    }
    /// Follows the positions of the block `from..to` (offsets in the nmethod), in order.
    fn positions(&mut self, n: &NMethod, from: u32, to: u32, exit: Exit) {
        let returned_here =
            matches!(
                self.before,
                Before::Block { exit: Exit::Return | Exit::IndirectJump | Exit::Jump, class, .. }
                    if class != CodeClass::NMethod
            ) || matches!(self.before, Before::Block { exit: Exit::Return, .. } | Before::Nothing);
        for p in n.positions_in(from, to) {
            // A return address at the start of the block belongs to the call that returned.
            if p.offset == from && returned_here {
                continue;
            }
            self.at_position(n, p.scope, false);
        }
        let called = matches!(exit, Exit::Call | Exit::IndirectCall);
        if let Some(p) = n.position_at(to).filter(|_| called) {
            self.at_position(n, p.scope, true);
        }
    }
    /// The thread is at a debug-info position. `call`: it executes the call at that position.
    fn at_position(&mut self, n: &NMethod, scope: Option<u32>, call: bool) {
        let chain = scope_chain(n, scope);
        let Some(Frame::Compiled(c)) = self.stack.last_mut() else { return };
        if chain.is_empty() {
            return;
        }
        let tier = c.tier;
        let old = std::mem::replace(&mut c.chain, chain.clone());
        if old == chain && !call {
            return;
        }
        self.move_chain(&old, &chain, tier);
    }
    /// Emits the events that lead from one inline chain to another.
    fn move_chain(&mut self, old: &[Position], new: &[Position], tier: Tier) {
        // A frame stays while its method and, for callers, its call site are the same.
        let mut same = 0;
        while same < old.len() && same < new.len() && old[same].method == new[same].method {
            same += 1;
            if old[same - 1].bci != new[same - 1].bci {
                break;
            }
        }
        for p in old[same..].iter().rev() {
            self.walk(p.method, p.bci, None, tier);
            self.emit(EventKind::Leave { method: p.method, exit: FrameExit::Return });
        }
        // The innermost common frame moved, or executes its bytecode again.
        if let (Some(was), Some(is)) =
            (same.checked_sub(1).map(|i| old[i]), same.checked_sub(1).map(|i| new[i]))
        {
            match is.bci {
                Some(to) if was.bci != is.bci => self.walk(is.method, was.bci, Some(to), tier),
                Some(to) if same == new.len() => self.emit_bytecode(is.method, to, tier),
                _ => {}
            }
        }
        for p in &new[same..] {
            self.emit_enter(p.method, tier, jportal_flow::Entry::Call);
            if let Some(bci) = p.bci {
                self.walk(p.method, None, Some(bci), tier);
            }
        }
    }
    /// The top frame went from `from` to `to`. Emits the bytecodes in between if exactly one
    /// path exists, else an unresolved stretch and the end.
    fn walk(&mut self, method: MethodId, from: Option<Bci>, to: Option<Bci>, tier: Tier) {
        let mut paths = std::mem::take(&mut self.paths);
        match paths.between(&self.shared.maps, method, (from, to)) {
            Some(path) => path.iter().for_each(|&b| self.emit_bytecode(method, b, tier)),
            None => {
                self.emit_unresolved(method, (from, to), tier, Cause::SeveralPaths);
                if let Some(bci) = to {
                    self.emit_bytecode(method, bci, tier);
                }
            }
        }
        self.paths = paths;
    }
    /// Whether the frame was followed by path markers.
    pub(crate) fn is_marked(&self, c: &Compiled) -> bool {
        let n = self.shared.image.code(c.code).and_then(|v| v.nmethod());
        n.is_some_and(|n| self.uses_markers(n))
    }
    /// A compiled frame returned: emits what its inlined frames did after their last position.
    pub(crate) fn walk_to_return(&mut self, c: &Compiled) {
        if self.is_marked(c) {
            return self.return_marked(&c.chain, &c.trail, c.tier);
        }
        for p in c.chain.iter().rev() {
            self.walk(p.method, p.bci, None, c.tier);
            self.emit(EventKind::Leave { method: p.method, exit: FrameExit::Return });
        }
    }
}
