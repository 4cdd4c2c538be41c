// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a flow has of a plan's sites: the full trace of each thread, and its witness.

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Exit, Provenance, ThreadInfo};
use jportal_units::{Bci, MethodId};

use super::SiteTrace;
use super::plan::LoggedBy;
use super::program::{FunctionId, Program, SiteIndex};
use super::words::{CALLBACK, CAUGHT, ENTRY, IMPLICIT, IMPLICIT_END, LEFT};

/// One thread of a flow.
#[derive(Clone, Debug)]
pub struct PlannedThread<T> {
    /// The thread.
    pub info: ThreadInfo,
    /// Its trace, or its tokens.
    pub of: T,
    /// Whether nothing is missing.
    pub is_exact: bool,
}

/// An analysis that follows the frames of a plan's methods, and hears of their sites.
#[derive(Debug)]
pub struct PlannedFlow<L: Listener> {
    program: Arc<Program>,
    threads: Vec<PlannedThread<L::Output>>,
}

/// Full traces.
pub fn traces(program: Arc<Program>) -> PlannedFlow<TraceListener> {
    PlannedFlow { program, threads: Vec::new() }
}

/// Witnesses.
pub fn witnesses(program: Arc<Program>) -> PlannedFlow<TokenListener> {
    PlannedFlow { program, threads: Vec::new() }
}

impl<L: Listener> PlannedFlow<L> {
    /// The threads that executed a method of the plan, by start and id.
    pub fn finish(mut self) -> Vec<PlannedThread<L::Output>> {
        self.threads.sort_by_key(|thread| (thread.info.started, thread.info.tid));
        self.threads
    }
}

/// An activation of a method of the plan, as a listener sees it.
#[derive(Clone, Copy, Debug)]
pub struct PlannedFrame {
    function: FunctionId,
    /// The instruction that was executed last.
    insn: u32,
    /// A checked call is in progress.
    is_watching: bool,
    /// Depth and height of the call history stack when it began, itself included.
    own: (i64, usize),
}

/// Hears what happens in methods of the plan.
pub trait Listener: Default + Send {
    /// What comes of it.
    type Output: Send;

    /// A method executes its first instruction.
    fn begins(&mut self, program: &Program, frame: &mut PlannedFrame);
    /// A site is executed.
    fn site(&mut self, program: &Program, frame: &mut PlannedFrame, site: SiteIndex);
    /// A call has returned into the frame.
    fn continues(&mut self, frame: &mut PlannedFrame);
    /// An exception leaves the frame.
    fn unwinds(&mut self, program: &Program, frame: &PlannedFrame);
    /// An exception is caught in the frame, by the handler at an instruction.
    fn catches(&mut self, program: &Program, frame: &mut PlannedFrame, handler: u32);
    /// The thread has ended, or the recording.
    fn ends(self) -> Self::Output;
}

/// A frame of a thread.
#[derive(Clone, Copy, Debug)]
struct FlowFrame {
    method: MethodId,
    function: Option<FunctionId>,
    /// Set once the method executes.
    planned: Option<PlannedFrame>,
}

/// The state of one thread.
#[derive(Debug)]
pub struct FlowThread<L> {
    info: ThreadInfo,
    frames: Vec<FlowFrame>,
    /// Frames that continue in other code.
    replaced: Vec<FlowFrame>,
    listener: L,
    is_exact: bool,
    has_begun: bool,
}

impl<L: Listener<Output: Sync> + 'static> Analysis for PlannedFlow<L> {
    type Thread = FlowThread<L>;

    fn begin(&self, info: &ThreadInfo) -> Self::Thread {
        FlowThread {
            info: info.clone(),
            frames: Vec::new(),
            replaced: Vec::new(),
            listener: L::default(),
            is_exact: true,
            has_begun: false,
        }
    }
    fn events(&self, thread: &mut Self::Thread, events: &[Event]) -> ControlFlow<Enough> {
        for event in events {
            thread.event(&self.program, event);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: Self::Thread) {
        if thread.has_begun {
            let of = thread.listener.ends();
            self.threads.push(PlannedThread { info: thread.info, of, is_exact: thread.is_exact });
        }
    }
}

impl<L: Listener> FlowThread<L> {
    fn event(&mut self, program: &Program, event: &Event) {
        self.is_exact &= event.provenance == Provenance::Decoded;
        match event.kind {
            EventKind::Bytecode { method, bci, .. } => self.executed(program, method, (bci, bci)),
            EventKind::Run { method, first, last, .. } => self.executed(program, method, (first, last)),
            EventKind::Enter { method, entry, .. } => self.enter(program, method, entry),
            EventKind::Leave { exit, .. } => self.leave(program, exit),
            EventKind::Catch { bci, .. } => self.catches(program, bci),
            EventKind::Unresolved { .. } | EventKind::Orphan(_) | EventKind::Gap(_) => self.is_exact = false,
            EventKind::Time(_) | EventKind::Code(_) => {}
        }
    }
    fn enter(&mut self, program: &Program, method: MethodId, entry: Entry) {
        let again = match entry {
            Entry::Osr | Entry::Deoptimisation => self.replaced.pop().filter(|f| f.method == method),
            Entry::Call | Entry::Upcall => None,
            Entry::Found => {
                self.is_exact = false;
                None
            }
        };
        let function = program.of(method);
        self.frames.push(again.unwrap_or(FlowFrame { method, function, planned: None }));
    }
    fn executed(&mut self, program: &Program, method: MethodId, (first, last): (Bci, Bci)) {
        let Some(frame) = self.frames.last_mut().filter(|frame| frame.method == method) else {
            self.is_exact = false;
            return;
        };
        let Some(id) = frame.function else { return };
        let function = program.function(id);
        let Some(graph) = &function.graph else { return };
        let (Some(first), Some(last)) = (graph.insn(first), graph.insn(last)) else {
            self.is_exact = false;
            return;
        };
        let mut planned = frame.planned.unwrap_or(PlannedFrame {
            function: id,
            insn: first,
            is_watching: false,
            own: (0, 0),
        });
        if frame.planned.is_none() {
            self.has_begun = true;
            self.listener.begins(program, &mut planned);
        } else {
            self.listener.continues(&mut planned);
        }
        let from = graph.insns.partition_point(|insn| *insn < first);
        for (site, insn) in
            (from as SiteIndex..).zip(&graph.insns[from..]).take_while(|(_, insn)| **insn <= last)
        {
            planned.insn = *insn;
            self.listener.site(program, &mut planned, site);
            if *insn != last {
                self.listener.continues(&mut planned);
            }
        }
        planned.insn = last;
        frame.planned = Some(planned);
    }
    fn leave(&mut self, program: &Program, exit: Exit) {
        let Some(left) = self.frames.pop() else { return };
        match exit {
            Exit::Replaced => {
                self.replaced.push(left);
                return;
            }
            Exit::Unwind => {
                if let Some(planned) = &left.planned {
                    self.listener.unwinds(program, planned);
                }
            }
            // At the end of a recording, the frames that are left are given up.
            Exit::Return | Exit::Lost => {}
            Exit::PopFrame | Exit::EarlyReturn | Exit::Unknown => self.is_exact = false,
        }
        self.replaced.clear();
    }
    fn catches(&mut self, program: &Program, bci: Bci) {
        let Some(planned) = self.frames.last_mut().and_then(|frame| frame.planned.as_mut()) else { return };
        let graph = &program.function(planned.function).graph;
        match graph.as_ref().and_then(|graph| graph.insn(bci)) {
            Some(handler) => self.listener.catches(program, planned, handler),
            None => self.is_exact = false,
        }
    }
}

/// Hears the full trace.
#[derive(Debug, Default)]
pub struct TraceListener {
    trace: SiteTrace,
    /// The class initialisers that have not ended: the function, and the number of its trace.
    open: Vec<(FunctionId, usize)>,
}

impl TraceListener {
    fn put(&mut self, site: u32) {
        match self.open.last().and_then(|open| self.trace.initialisers.get_mut(open.1)) {
            Some(trace) => trace.push(site),
            None => self.trace.main.push(site),
        }
    }
    /// An activation of a function ends.
    fn end(&mut self, function: FunctionId) {
        if self.open.last().is_some_and(|open| open.0 == function) {
            self.open.pop();
        }
    }
}

impl Listener for TraceListener {
    type Output = SiteTrace;

    fn begins(&mut self, program: &Program, frame: &mut PlannedFrame) {
        if program.function(frame.function).is_initialiser() {
            self.trace.initialisers.push(Vec::new());
            self.open.push((frame.function, self.trace.initialisers.len() - 1));
        }
    }
    fn site(&mut self, program: &Program, frame: &mut PlannedFrame, site: SiteIndex) {
        let planned = &program.function(frame.function).plan.sites[site as usize];
        self.put(planned.id);
        if !planned.is_call {
            self.end(frame.function);
        }
    }
    fn continues(&mut self, _: &mut PlannedFrame) {}
    fn unwinds(&mut self, program: &Program, frame: &PlannedFrame) {
        self.put(program.function(frame.function).plan.exit);
        self.end(frame.function);
    }
    fn catches(&mut self, _: &Program, _: &mut PlannedFrame, _: u32) {}
    fn ends(self) -> SiteTrace {
        self.trace
    }
}

/// Hears the tokens: what the paper's instrumentation keeps at run time (sections 5.1 to 5.4).
#[derive(Debug)]
pub struct TokenListener {
    words: Vec<u32>,
    /// Number of frames of the plan's methods: the paper's AppDepth.
    depth: i64,
    /// Methods that began since the last token.
    activations: u32,
    /// The call history stack: the site of a checked call, and the depth of a callee that library
    /// code calls. At the bottom there is no site.
    calls: Vec<(Option<u32>, i64)>,
    /// `activations` of what class initialisers interrupted.
    interrupted: Vec<u32>,
}

impl Default for TokenListener {
    fn default() -> Self {
        Self { words: Vec::new(), depth: 0, activations: 0, calls: vec![(None, 1)], interrupted: Vec::new() }
    }
}

impl TokenListener {
    fn token(&mut self, words: &[u32]) {
        self.words.extend_from_slice(words);
        self.activations = 0;
    }
    fn end_initialiser(&mut self) {
        self.activations = self.interrupted.pop().unwrap_or(0);
    }
}

impl Listener for TokenListener {
    type Output = Vec<u32>;

    fn begins(&mut self, program: &Program, frame: &mut PlannedFrame) {
        let function = program.function(frame.function);
        let number = function.plan.exit;
        self.depth += 1;
        if function.is_initialiser() {
            self.interrupted.push(self.activations);
            self.token(&[IMPLICIT, number]);
        } else {
            match self.calls.last() {
                Some((None, depth)) if *depth == self.depth => self.token(&[ENTRY, number]),
                Some((Some(site), depth)) if *depth == self.depth => {
                    self.token(&[CALLBACK, *site, number, self.activations]);
                }
                _ => {}
            }
        }
        self.activations += 1;
        frame.own = (self.depth, self.calls.len());
    }
    fn site(&mut self, program: &Program, frame: &mut PlannedFrame, site: SiteIndex) {
        let function = program.function(frame.function);
        let planned = &function.plan.sites[site as usize];
        if planned.logged == LoggedBy::Site {
            self.token(&[planned.id]);
        }
        if planned.is_checked {
            self.calls.push((Some(planned.id), self.depth + 1));
            frame.is_watching = true;
        }
        if !planned.is_call {
            if function.is_initialiser() {
                self.words.push(IMPLICIT_END);
                self.end_initialiser();
            }
            self.depth = frame.own.0 - 1;
        }
    }
    fn continues(&mut self, frame: &mut PlannedFrame) {
        if std::mem::take(&mut frame.is_watching) {
            self.calls.pop();
        }
    }
    fn unwinds(&mut self, program: &Program, frame: &PlannedFrame) {
        let function = program.function(frame.function);
        let Some(graph) = &function.graph else { return };
        // No handler can cover this call: the next handler sees to what is left open.
        if graph.super_call != Some(frame.insn) {
            let segment = graph.segment(frame.insn).unwrap_or(0);
            self.token(&[LEFT, function.plan.exit, segment, self.activations]);
            self.depth = frame.own.0 - 1;
            self.calls.truncate(frame.own.1);
        }
        if function.is_initialiser() {
            self.end_initialiser();
        }
    }
    fn catches(&mut self, program: &Program, frame: &mut PlannedFrame, handler: u32) {
        let function = program.function(frame.function);
        let Some(graph) = &function.graph else { return };
        let segment = graph.segment(frame.insn).unwrap_or(0);
        let block = graph.handler_block(handler).unwrap_or(0);
        self.token(&[CAUGHT, function.plan.exit, segment, self.activations, block]);
        self.depth = frame.own.0;
        self.calls.truncate(frame.own.1);
        frame.is_watching = false;
    }
    fn ends(self) -> Vec<u32> {
        self.words
    }
}
