// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes block traces.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use jportal_analyses::Inlined;
use jportal_analyses::block_trace::{Open, Step, Steps, StepsThread, Watch};
use jportal_bytecode::{Method, MethodTable, Shapes};
use jportal_flow::{
    Analysis, Departure, Enough, Event, Exclude, Provenance, SwitchSide, Switches, ThreadInfo,
};
use jportal_units::{Bci, MethodId, Tsc};

use super::format::{Format, Type};
use super::loads::Loads;
use super::record::{Header, kind};
use super::report::{BlockTrace, ThreadTrace};
use super::stream::{NONE, Operand, Stream};
use crate::Error;

/// Receives the file of a thread.
pub type Output = Box<dyn Write + Send>;

/// What a block trace contains.
#[derive(Clone, Copy, Debug)]
pub struct BlockTraceOptions {
    /// The form of event numbers.
    pub format: Format,
    /// Whether words are written in zlib streams of 1 MiB each.
    pub zlib: bool,
    /// Whether marks say where exceptions and debuggers ended frames, and where handlers began.
    pub unwinds: bool,
    /// Whether native methods begin and end.
    pub natives: bool,
    /// Whether the beginnings of instance methods, other than constructors, carry a class.
    pub receivers: bool,
    /// Whether marks say the time.
    pub times: bool,
    /// Events that are left out. A mark says how many.
    pub exclude: Exclude,
}

impl Default for BlockTraceOptions {
    /// What JBInsTrace writes.
    fn default() -> Self {
        Self {
            format: Format::Jbi32,
            zlib: false,
            unwinds: false,
            natives: false,
            receivers: true,
            times: false,
            exclude: Exclude::default(),
        }
    }
}

/// Writes a block trace of each thread into a file of its own.
pub struct BlockTraceAnalysis<F> {
    inlined: Arc<Inlined>,
    shapes: Shapes,
    steps: Steps,
    scoped: bool,
    loads: Loads,
    switches: Option<Switches>,
    options: BlockTraceOptions,
    open: F,
    error: Mutex<Option<Error>>,
    threads: Vec<(ThreadTrace, Open)>,
}

impl<F> BlockTraceAnalysis<F>
where
    F: Fn(&ThreadInfo) -> io::Result<Output>,
{
    /// For the methods of one recording. `inlined` says which methods the compilers inlined where.
    /// `scope` says which methods are traced. `open` opens the file of a thread.
    ///
    /// # Errors
    /// If the form of event numbers has no room for a method or its blocks.
    pub fn new(
        methods: Arc<MethodTable>,
        inlined: Arc<Inlined>,
        options: BlockTraceOptions,
        scope: impl Fn(&Method) -> bool,
        open: F,
    ) -> Result<Self, Error> {
        options.format.check(&methods, &scope)?;
        let scoped = !methods.iter().all(&scope);
        let loads = Loads::new(methods.classes(), &scope);
        let shapes = Shapes::new(&methods);
        let steps = Steps::new(methods, scope, options.natives, options.exclude);
        let (error, threads) = (Mutex::default(), Vec::new());
        let switches = None;
        Ok(Self { inlined, shapes, steps, scoped, loads, switches, options, open, error, threads })
    }
    /// The same, with marks for when the threads came to cores and left them.
    pub fn switches(self, switches: Switches) -> Self {
        Self { switches: Some(switches), ..self }
    }
    /// What was written.
    ///
    /// # Errors
    /// The first error of any thread. The file of that thread is incomplete.
    pub fn finish(self) -> Result<BlockTrace, Error> {
        if let Some(error) = self.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        Ok(BlockTrace::new(self.options.format, &self.steps, &self.inlined, self.threads))
    }
}

impl<F> BlockTraceAnalysis<F> {
    fn fail(&self, error: io::Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.into());
    }
    fn header(&self, info: &ThreadInfo) -> Header {
        let BlockTraceOptions { format, zlib, unwinds, natives, receivers, times, .. } = self.options;
        Header {
            format,
            zlib,
            receivers,
            natives,
            unwinds,
            times,
            scoped: self.scoped,
            loads: self.loads.are_known(),
            switches: self.switches.is_some(),
            tid: info.tid.get(),
            java_tid: info.java_tid,
            started: info.started.get(),
            methods: u32::try_from(self.steps.methods().len()).unwrap_or(u32::MAX),
            name: info.name.clone(),
        }
    }
}

/// One thread of a [`BlockTraceAnalysis`].
pub struct BlockTraceThread {
    /// `None` after an error.
    out: Option<Stream<Output>>,
    steps: StepsThread,
    watch: Watch,
    trace: ThreadTrace,
    /// The thread, by which its loads of classes are found.
    info: ThreadInfo,
    /// Number of its switches that are in the file.
    switched: usize,
}

impl<F> Analysis for BlockTraceAnalysis<F>
where
    F: Fn(&ThreadInfo) -> io::Result<Output> + Send + Sync + 'static,
{
    type Thread = BlockTraceThread;

    fn begin(&self, info: &ThreadInfo) -> BlockTraceThread {
        let begun = (self.open)(info).and_then(|mut out| {
            out.write_all(&self.header(info).to_bytes())?;
            Ok(Stream::new(out, self.options.format, self.options.zlib))
        });
        BlockTraceThread {
            out: begun.map_err(|e| self.fail(e)).ok(),
            steps: StepsThread::default(),
            watch: Watch::default(),
            trace: ThreadTrace { loads: self.loads.are_known().then_some(0), ..ThreadTrace::of(info) },
            info: info.clone(),
            switched: 0,
        }
    }
    fn events(&self, thread: &mut BlockTraceThread, events: &[Event]) -> ControlFlow<Enough> {
        let BlockTraceThread { out: stream, steps, watch, trace, info, switched } = thread;
        for e in events {
            let Some(out) = stream else { return ControlFlow::Break(Enough::OfThread) };
            self.steps.event(steps, e, &mut |step, provenance| {
                if let Step::Time(tsc) = step {
                    self.put_loads(out, trace, info, tsc);
                    self.put_switches(out, (info, switched), tsc);
                }
                self.put(out, trace, step, provenance);
            });
            watch.event((self.steps.methods(), &self.shapes), e, self.options.exclude);
            if let Err(e) = out.drain() {
                self.fail(e);
                *stream = None;
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: BlockTraceThread) {
        let BlockTraceThread { out, mut steps, watch, mut trace, info, mut switched } = thread;
        let Some(mut out) = out else { return };
        self.steps.end(&mut steps, &mut |step, provenance| self.put(&mut out, &mut trace, step, provenance));
        self.put_loads(&mut out, &mut trace, &info, Tsc(u64::MAX));
        self.put_switches(&mut out, (&info, &mut switched), Tsc(u64::MAX));
        trace.words = out.words();
        out.escape(kind::COMPLETE, &[Operand::Long(trace.words)]);
        match out.end() {
            Ok(()) => self.threads.push((trace, watch.end())),
            Err(e) => self.fail(e),
        }
    }
}

impl<F> BlockTraceAnalysis<F> {
    /// The classes that the thread loaded before `until` and that are not in its file yet.
    fn put_loads(&self, out: &mut Stream<Output>, trace: &mut ThreadTrace, info: &ThreadInfo, until: Tsc) {
        let Some(before) = &mut trace.loads else { return };
        for class in self.loads.of(info, *before as usize, until) {
            out.word(self.options.format.load(class));
            *before += 1;
        }
    }
    /// The switches before `until` that are not in the thread's file yet.
    fn put_switches(&self, out: &mut Stream<Output>, (info, had): (&ThreadInfo, &mut usize), until: Tsc) {
        for s in self.switches.iter().flat_map(|all| all.before(info, had, until)) {
            let what = match s.side {
                SwitchSide::Came { seen: true } => 0,
                SwitchSide::Came { seen: false } => 1,
                SwitchSide::Left(Some(Departure::Preempted)) => 2,
                SwitchSide::Left(Some(Departure::Waited)) => 3,
                SwitchSide::Left(None) => 4,
            };
            let core = Operand::Word(s.core.get().into());
            out.escape(kind::SWITCH, &[core, Operand::Word(what), Operand::Long(s.tsc.get())]);
        }
    }
    fn put(&self, out: &mut Stream<Output>, trace: &mut ThreadTrace, step: Step<'_>, provenance: Provenance) {
        let format = self.options.format;
        match step {
            Step::Block { method, block } => {
                trace.blocks.add(provenance);
                out.word(format.event(Type::Block, method, block.into()));
            }
            Step::Start { method } => {
                trace.starts.add(provenance);
                let receiver = self.receiver(method);
                out.word(format.event(Type::Start, method, receiver.is_some().into()));
                receiver.into_iter().for_each(|word| out.word(word));
            }
            Step::End { method } => {
                trace.ends.add(provenance);
                out.word(format.event(Type::End, method, 0));
            }
            _ => self.mark(out, trace, step),
        }
    }
    /// The class of the receiver, in the word that follows a start. A branch trace does not say
    /// it, so it is the declaring class with the top bit set.
    fn receiver(&self, method: MethodId) -> Option<u64> {
        let m = self.steps.methods().get(method)?;
        let carries = self.options.receivers && !m.is_static() && &*m.name != "<init>";
        carries.then(|| self.options.format.top() | u64::from(m.class))
    }
    fn mark(&self, out: &mut Stream<Output>, trace: &mut ThreadTrace, step: Step<'_>) {
        match step {
            Step::Left { method, how } => {
                trace.left(how);
                if self.options.unwinds {
                    out.escape(kind::LEFT, &[number(method), Operand::Word(how as u64)]);
                }
            }
            Step::Catch { method, bci: at } => {
                trace.catches += 1;
                if self.options.unwinds {
                    out.escape(kind::CATCH, &[number(method), bci(Some(at))]);
                }
            }
            Step::Time(tsc) => {
                if self.options.times {
                    out.escape(kind::TIME, &[Operand::Long(tsc.get())]);
                }
            }
            _ => {
                if let Step::NoBlocks { bytecodes, .. } = step {
                    trace.no_blocks += bytecodes;
                }
                if let Some(name) = unknown(out, step) {
                    *trace.marks.entry(name).or_default() += 1;
                }
            }
        }
    }
}

fn number(method: MethodId) -> Operand<'static> {
    Operand::Word(method.get().into())
}

fn bci(bci: Option<Bci>) -> Operand<'static> {
    Operand::Word(bci.map_or(NONE, |b| b.get().into()))
}

/// Marks what is not known, or known otherwise. Returns the name of the mark.
fn unknown(out: &mut Stream<Output>, step: Step<'_>) -> Option<&'static str> {
    use Operand::{Long, Text, Word};
    let mut put = |kind, operands: &[Operand<'_>]| out.escape(kind, operands);
    Some(match step {
        Step::Unresolved { method, from, to, cause, callers } => {
            let callers = Word(callers.into());
            put(kind::UNRESOLVED, &[number(method), bci(from), bci(to), callers, Text(cause.name())]);
            "unresolved"
        }
        Step::Gap(gap) => {
            let bytes = Long(gap.bytes.unwrap_or(u64::MAX));
            put(kind::GAP, &[Word(gap.stack_lost.into()), bytes, Text(gap.reason.name())]);
            "gap"
        }
        Step::Found { method } => {
            put(kind::FOUND, &[number(method)]);
            "found"
        }
        Step::Lost { method, ended } => {
            put(kind::LOST, &[number(method), Word(ended.into())]);
            "lost"
        }
        Step::Orphans(bytecodes) => {
            put(kind::ORPHANS, &[Long(bytecodes)]);
            "orphans"
        }
        Step::Known(known) => {
            put(kind::KNOWN, &[Word(known as u64)]);
            "known"
        }
        Step::Excluded(events) => {
            put(kind::EXCLUDED, &[Long(events)]);
            "excluded"
        }
        Step::NoBlocks { method, bytecodes } => {
            put(kind::NO_BLOCKS, &[number(method), Long(bytecodes)]);
            "no-blocks"
        }
        Step::At { method, bci: at } => {
            put(kind::AT, &[number(method), bci(Some(at))]);
            "at"
        }
        _ => return None,
    })
}

impl std::fmt::Debug for BlockTraceThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockTraceThread").field("trace", &self.trace).finish_non_exhaustive()
    }
}

impl<F> std::fmt::Debug for BlockTraceAnalysis<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockTraceAnalysis").field("options", &self.options).finish_non_exhaustive()
    }
}
