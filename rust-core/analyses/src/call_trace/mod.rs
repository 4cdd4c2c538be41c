// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call traces: for each thread the sequence of call sites and return sites that it executed.
//!
//! A call site is written when its `invoke*` begins, before the check of the receiver; a return
//! site when its `*return` begins; an exceptional exit when an exception leaves a frame. Frames
//! outside of a scope write nothing. What enters the scope from outside is an escape (see
//! [`Token`]), and so is each place where tokens may be missing: a trace is never silently
//! incomplete. `docs/call-trace-format.md` describes the files.

mod hides;
#[cfg(test)]
mod machine;
mod sites;
mod summary;
#[cfg(test)]
mod tests;
mod thread;
mod token;

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use jportal_bytecode::Shapes;
use jportal_flow::{Analysis, Enough, Event, Exclude, ThreadInfo};

use self::hides::Hides;
pub use self::sites::{Site, SiteKind, Sites, TooManySites};
pub use self::summary::{CallTraces, ThreadTrace, Tokens};
use self::thread::Tracer;
pub use self::token::{Ended, Mark, Token};
use crate::hidden::Inlined;
pub use crate::known::Known;

/// Receives the words of one thread's trace.
pub trait TraceSink: Send {
    /// The next words. Tokens are not divided between calls.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn words(&mut self, words: &[u32]) -> io::Result<()>;
    /// The trace is complete.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn end(&mut self) -> io::Result<()>;
}

/// What all threads share.
#[derive(Debug)]
struct CallTraceContext {
    sites: Arc<Sites>,
    shapes: Shapes,
    hides: Hides,
    exclude: Exclude,
    times: bool,
    error: Mutex<Option<io::Error>>,
}

impl CallTraceContext {
    fn fail(&self, e: io::Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
    }
}

/// Writes call traces. `F` opens the output of a thread when its first token is due, so that a
/// thread without tokens has no output; `None` for a thread that is not wanted. An output stays
/// open until the threads are merged.
#[derive(Debug)]
pub struct CallTraceAnalysis<F> {
    shared: CallTraceContext,
    open: Arc<F>,
    threads: Vec<ThreadTrace>,
}

impl<F> CallTraceAnalysis<F>
where
    F: Fn(&ThreadInfo) -> io::Result<Option<Box<dyn TraceSink>>> + Send + Sync + 'static,
{
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(sites: Arc<Sites>, inlined: Arc<Inlined>, open: F) -> Self {
        let shared = CallTraceContext {
            shapes: Shapes::new(sites.methods()),
            hides: Hides::new(Arc::clone(&sites), inlined),
            sites,
            exclude: Exclude::default(),
            times: false,
            error: Mutex::new(None),
        };
        Self { shared, open: Arc::new(open), threads: Vec::new() }
    }
    /// The same analysis without events of some provenances. Gaps are always marked.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { shared: CallTraceContext { exclude, ..self.shared }, ..self }
    }
    /// The same analysis, with or without times between the tokens.
    pub fn times(self, times: bool) -> Self {
        Self { shared: CallTraceContext { times, ..self.shared }, ..self }
    }
    /// The first error of any output. The trace of that thread is incomplete.
    pub fn error(&self) -> Option<io::Error> {
        self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
    /// What was written, by thread.
    pub fn report(&self) -> CallTraces {
        CallTraces::new(self.shared.sites.len(), self.threads.clone())
    }
}

impl<F> Analysis for CallTraceAnalysis<F>
where
    F: Fn(&ThreadInfo) -> io::Result<Option<Box<dyn TraceSink>>> + Send + Sync + 'static,
{
    type Thread = Tracer;

    fn begin(&self, info: &ThreadInfo) -> Tracer {
        let open = Arc::clone(&self.open);
        Tracer::new(info, Box::new(move |info| open(info)))
    }
    fn events(&self, thread: &mut Tracer, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            thread.event(&self.shared, e);
        }
        if thread.is_stopped() { ControlFlow::Break(Enough::OfThread) } else { ControlFlow::Continue(()) }
    }
    fn merge(&mut self, thread: Tracer) {
        self.threads.extend(thread.finish(&self.shared));
    }
}
