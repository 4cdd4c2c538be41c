// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Turns the flow of one thread into tokens.

use std::io;

use jportal_flow::{Entry, Event, EventKind, Exit, ThreadInfo};
use jportal_units::{Bci, MethodId};

use super::hides::Stretches;
use super::sites::Implicit;
use super::summary::{ThreadTrace, Tokens};
use super::token::{Ended, Mark, Token};
use super::{CallTraceContext, TraceSink};
use crate::hidden::Follower;
use crate::known::Known;

/// Opens the output of a thread.
type Open = Box<dyn Fn(&ThreadInfo) -> io::Result<Option<Box<dyn TraceSink>>> + Send>;

/// Words that are collected before they are written.
const BATCH: usize = 1 << 14;

/// The output of a thread.
enum Output {
    /// Not opened yet: there was no token.
    Unopened(Open),
    Open(Box<dyn TraceSink>),
    /// The thread is not wanted, or an error occurred.
    Closed,
}

/// The trace of one thread.
pub struct Tracer {
    info: ThreadInfo,
    output: Output,
    words: Vec<u32>,
    follower: Follower,
    /// Depths of the frames of the scope, counted from 1, from the bottom up.
    scope: Vec<usize>,
    /// The last time, and whether it was written.
    time: Option<u64>,
    known: Known,
    /// Frames that were given up. Unless another event follows, nothing is missing: they stood
    /// there when the recording ended.
    given_up: Vec<Option<u32>>,
    /// The frames below the known ones may be others than the stack says.
    blind: bool,
    /// The mark that was written last, if no other token followed it.
    last: Option<Mark>,
    stretches: Stretches,
    tokens: Tokens,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Tracer {
    pub(super) fn new(info: &ThreadInfo, open: Open) -> Self {
        Self {
            info: info.clone(),
            output: Output::Unopened(open),
            words: Vec::new(),
            follower: Follower::default(),
            scope: Vec::new(),
            time: None,
            known: Known::Decoded,
            given_up: Vec::new(),
            blind: false,
            last: None,
            stretches: Stretches::default(),
            tokens: Tokens::default(),
        }
    }
    pub(super) const fn is_stopped(&self) -> bool {
        matches!(self.output, Output::Closed)
    }
    pub(super) fn event(&mut self, s: &CallTraceContext, e: &Event) {
        if let EventKind::Time(tsc) = e.kind {
            self.time = Some(tsc.get());
            return;
        }
        let lost = matches!(e.kind, EventKind::Leave { exit: Exit::Lost, .. });
        if !lost && !self.given_up.is_empty() {
            self.give_up(s);
        }
        let hidden = s.exclude.hides(e.provenance) && !matches!(e.kind, EventKind::Gap(_));
        if hidden {
            self.mark_once(s, Mark::LeftOut);
        } else {
            self.write(s, e);
        }
        self.follower.event((s.sites.methods(), &s.shapes), e, s.exclude);
        self.follow(s, &e.kind);
    }
    /// Keeps the depths of the scope's frames in step with the stack.
    fn follow(&mut self, s: &CallTraceContext, kind: &EventKind) {
        let depth = self.follower.stack().depth();
        while self.scope.last().is_some_and(|d| *d > depth) {
            self.scope.pop();
        }
        let method = match kind {
            EventKind::Enter { method, .. } => *method,
            EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } if depth == 1 => *method,
            _ => return,
        };
        if s.sites.exit(method).is_some() && self.scope.last() != Some(&depth) {
            self.scope.push(depth);
        }
    }
    fn write(&mut self, s: &CallTraceContext, e: &Event) {
        let known = Known::from(e.provenance);
        match &e.kind {
            EventKind::Bytecode { method, bci, .. } => self.executed(s, known, *method, (*bci, *bci)),
            EventKind::Run { method, first, last, .. } => self.executed(s, known, *method, (*first, *last)),
            EventKind::Enter { method, entry, .. } => self.enter(s, known, *method, *entry),
            EventKind::Leave { method, exit } => self.leave(s, known, *method, *exit),
            EventKind::Unresolved { method, from, to, cause, callers } => {
                let after_call = self
                    .follower
                    .invoke()
                    .is_some_and(|(m, bci)| m == *method && Some(bci) == *from && s.hides.silent(m, bci));
                let stretch = (*method, *from, *to, *cause);
                if after_call || *callers > 0 || self.stretches.hides(&s.hides, stretch) {
                    let method = s.sites.exit(*method);
                    self.mark(s, Mark::Unresolved { cause: cause.name(), method });
                }
            }
            EventKind::Orphan(_) => {
                self.blind = true;
                self.mark_once(s, Mark::Orphans);
            }
            EventKind::Gap(gap) => {
                self.blind |= gap.stack_lost;
                self.mark(s, Mark::Gap { reason: gap.reason.name(), stack_lost: gap.stack_lost });
            }
            EventKind::Catch { .. } | EventKind::Time(_) | EventKind::Code(_) => {}
        }
    }
    fn executed(&mut self, s: &CallTraceContext, known: Known, method: MethodId, (first, last): (Bci, Bci)) {
        if let Some((caller, bci)) = self.follower.invoke()
            && caller == method
            && s.hides.silent(caller, bci)
        {
            self.mark(s, Mark::Silent);
        }
        if self.follower.stack().depth() == 0
            && let Some(exit) = s.sites.exit(method)
        {
            self.blind = true;
            self.mark(s, Mark::Found(exit));
        }
        if first == last && !s.sites.is_site(method, last) {
            return;
        }
        let sites = s.sites.between(method, first, last);
        if sites.is_empty() {
            self.silent_outside(s, method, (first, last));
        }
        for site in sites {
            self.put(s, known, Token::Site(site));
            let bci = s.sites.bci(site);
            if !s.sites.is_call(method, bci) {
                self.tokens.returns += 1;
                continue;
            }
            self.tokens.calls += 1;
            if bci != last && s.hides.silent(method, bci) {
                self.mark(s, Mark::Silent);
            }
        }
    }
    /// The silent calls within a run of a method outside of the scope.
    fn silent_outside(&mut self, s: &CallTraceContext, method: MethodId, run: (Bci, Bci)) {
        let shape = s.shapes.get(s.sites.methods(), method);
        let calls = shape.map_or(&[][..], |s| s.invokes_before(run));
        if calls.iter().any(|bci| s.hides.silent(method, *bci)) {
            self.mark(s, Mark::Silent);
        }
    }
    fn enter(&mut self, s: &CallTraceContext, known: Known, method: MethodId, entry: Entry) {
        let from_scope = self.scope.last() == Some(&self.follower.stack().depth());
        let Some(exit) = s.sites.exit(method) else {
            self.blind |= entry == Entry::Found;
            return;
        };
        match entry {
            Entry::Osr | Entry::Deoptimisation => {}
            Entry::Found => {
                self.blind = true;
                self.mark(s, Mark::Found(exit));
            }
            Entry::Call | Entry::Upcall => {
                let outside = entry == Entry::Upcall || !from_scope;
                match s.sites.implicit(method) {
                    Implicit::Always => self.implicit(s, known, exit),
                    Implicit::FromOutside if outside => self.implicit(s, known, exit),
                    _ if outside => self.called_from_outside(s, known, exit, entry),
                    _ => {}
                }
            }
        }
    }
    fn implicit(&mut self, s: &CallTraceContext, known: Known, exit: u32) {
        self.tokens.implicit += 1;
        self.put(s, known, Token::Implicit(exit));
    }
    fn called_from_outside(&mut self, s: &CallTraceContext, known: Known, method: u32, entry: Entry) {
        let stack = self.follower.stack();
        let depth = stack.depth();
        let Some(nearest) = self.scope.last() else {
            self.tokens.entries += 1;
            let blind = self.blind || (entry == Entry::Call && depth == 0);
            return self.put(s, known, Token::Entry { method, blind });
        };
        let frame = stack.frames().nth(depth - (*nearest).min(depth));
        let at = frame.and_then(|f| Some((f.method, f.bci?)));
        let at = at.filter(|(m, bci)| s.sites.is_call(*m, *bci));
        let site = at.and_then(|(m, bci)| s.sites.find(m, bci));
        self.tokens.callbacks += 1;
        self.put(s, known, Token::Callback { site, method, blind: false });
    }
    fn leave(&mut self, s: &CallTraceContext, known: Known, method: MethodId, exit: Exit) {
        let own = s.sites.exit(method);
        let ended = match exit {
            Exit::Return | Exit::Replaced => return,
            Exit::Unwind => {
                if let Some(id) = own {
                    self.tokens.exits += 1;
                    self.put(s, known, Token::Site(id));
                }
                return;
            }
            Exit::Lost => return self.given_up.push(own),
            Exit::PopFrame => Ended::PopFrame,
            Exit::EarlyReturn => Ended::EarlyReturn,
            Exit::Unknown => Ended::Unknown,
        };
        if own.is_some() {
            self.mark(s, Mark::Left { method: own, ended });
        }
    }
    /// Frames were given up, and the thread continued.
    fn give_up(&mut self, s: &CallTraceContext) {
        self.blind = true;
        let all = std::mem::take(&mut self.given_up);
        let inside: Vec<u32> = all.into_iter().flatten().collect();
        if inside.is_empty() {
            self.mark(s, Mark::Left { method: None, ended: Ended::Lost });
        }
        for method in inside {
            self.mark(s, Mark::Left { method: Some(method), ended: Ended::Lost });
        }
    }
    /// A mark of which one is enough, unless another token came in between.
    fn mark_once(&mut self, s: &CallTraceContext, mark: Mark) {
        if self.last != Some(mark) {
            self.mark(s, mark);
        }
    }
    fn mark(&mut self, s: &CallTraceContext, mark: Mark) {
        *self.tokens.marks.entry(mark.name()).or_default() += 1;
        self.put(s, self.known, Token::Mark(mark));
        self.last = Some(mark);
    }
    fn put(&mut self, s: &CallTraceContext, known: Known, token: Token) {
        self.last = None;
        if let Some(time) = self.time.take()
            && s.times
        {
            self.tokens.times += 1;
            Token::Time(time).encode(&mut self.words);
        }
        if known != self.known {
            self.known = known;
            Token::Known(known).encode(&mut self.words);
        }
        self.tokens.inferred += u64::from(known != Known::Decoded && !matches!(token, Token::Mark(_)));
        token.encode(&mut self.words);
        if self.words.len() >= BATCH {
            self.flush(s);
        }
    }
    fn flush(&mut self, s: &CallTraceContext) {
        if let Output::Unopened(open) = &self.output {
            self.output = match open(&self.info) {
                Ok(Some(sink)) => Output::Open(sink),
                Ok(None) => Output::Closed,
                Err(e) => self.failed(s, e),
            };
        }
        if let Output::Open(sink) = &mut self.output
            && let Err(e) = sink.words(&self.words)
        {
            self.output = self.failed(s, e);
        }
        self.tokens.words += self.words.len() as u64;
        self.words.clear();
    }
    fn failed(&self, s: &CallTraceContext, e: io::Error) -> Output {
        s.fail(e);
        Output::Closed
    }
    /// Ends the trace. `None` if the thread has no trace.
    pub(super) fn finish(mut self, s: &CallTraceContext) -> Option<ThreadTrace> {
        let started = !self.words.is_empty() || !matches!(self.output, Output::Unopened(_));
        if !started {
            return None;
        }
        let exact = self.tokens.are_exact(self.follower.inexact());
        Token::End { exact }.encode(&mut self.words);
        self.flush(s);
        if let Output::Open(sink) = &mut self.output
            && let Err(e) = sink.end()
        {
            self.output = self.failed(s, e);
        }
        if self.is_stopped() {
            return None;
        }
        let inexact = self.follower.end().inexact;
        Some(ThreadTrace::new(&self.info, exact, inexact, self.tokens))
    }
}
