// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Prints the flow as text, or as one JSON object per line.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jportal_bytecode::{Blocks, Instruction, Method, MethodTable, Opcode};
use jportal_flow::{
    Analysis, Enough, Entry, Event, EventKind, Exclude, Gap, Orphan, Provenance, Stack, ThreadInfo,
};
use jportal_units::{Bci, MethodId, Tsc};
use serde_json::{Map, Value, json};

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrinterLevel {
    /// Calls, returns, exceptions.
    Call,
    /// Also the bytecode blocks that were entered.
    Block,
    /// Also every bytecode.
    Bytecode,
}

/// What to print.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The level of detail.
    pub level: PrinterLevel,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// Maximum number of lines per thread.
    pub limit: u64,
    /// Events that are not printed.
    pub exclude: Exclude,
}

/// Receives the lines of a thread.
pub type Output = Box<dyn Write + Send>;

/// Prints flows. Each thread has its own output, because flows arrive interleaved.
pub struct Printer<F> {
    shared: Arc<PrinterContext>,
    open: F,
}

struct PrinterContext {
    methods: Arc<MethodTable>,
    blocks: Box<[OnceLock<Option<Blocks>>]>,
    options: Options,
    error: Mutex<Option<io::Error>>,
}

impl<F: Fn(&ThreadInfo) -> io::Result<Option<Output>>> Printer<F> {
    /// A printer. `open` returns the output of a thread, or `None` for a thread that is not
    /// wanted.
    pub fn new(methods: Arc<MethodTable>, options: Options, open: F) -> Self {
        let blocks = (0..methods.len()).map(|_| OnceLock::new()).collect();
        Self { shared: Arc::new(PrinterContext { methods, blocks, options, error: Mutex::new(None) }), open }
    }
    /// The first error of any output. The text of that thread is incomplete.
    pub fn error(&self) -> Option<io::Error> {
        self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<F> Analysis for Printer<F>
where
    F: Fn(&ThreadInfo) -> io::Result<Option<Output>> + Send + Sync + 'static,
{
    type Thread = PrintedThread;

    fn begin(&self, info: &ThreadInfo) -> PrintedThread {
        let out = (self.open)(info).unwrap_or_else(|e| {
            self.shared.fail(e);
            None
        });
        let mut thread = PrintedThread {
            shared: Arc::clone(&self.shared),
            tid: info.tid.get(),
            out,
            stack: Stack::default(),
            number: 0,
            lines: 0,
            resumed: true,
        };
        thread.title(info);
        thread
    }
    fn events(&self, thread: &mut PrintedThread, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            if thread.out.is_none() {
                return ControlFlow::Break(Enough::OfThread);
            }
            thread.event(e);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut thread: PrintedThread) {
        if let Some(Err(e)) = thread.out.as_mut().map(|out| out.flush()) {
            self.shared.fail(e);
        }
    }
    fn takes_runs(&self) -> bool {
        false
    }
}

/// Describes single events as text, at the finest level.
pub struct Words {
    shared: Arc<PrinterContext>,
}

impl Words {
    /// For the methods of one recording.
    pub fn new(methods: Arc<MethodTable>) -> Self {
        let options = Options {
            level: PrinterLevel::Bytecode,
            json: false,
            limit: u64::MAX,
            exclude: Exclude::default(),
        };
        let blocks = Box::default();
        Self { shared: Arc::new(PrinterContext { methods, blocks, options, error: Mutex::new(None) }) }
    }
    /// The event with its method. `None` for events that only state the time.
    pub fn of(&self, e: &Event) -> Option<String> {
        let s = &self.shared;
        let (text, _) = visible(s, &e.kind, 0, 0, false)?;
        let inside = match e.kind {
            EventKind::Bytecode { method, .. } | EventKind::Unresolved { method, .. } => s.method(method),
            _ => String::new(),
        };
        let inside = if inside.is_empty() { inside } else { format!("{inside} ") };
        let text = format!("{inside}{}{}", text.trim_start(), suffix(e.provenance));
        Some(jportal_plain::line(&text).into_owned())
    }
}

impl PrinterContext {
    fn fail(&self, e: io::Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
    }
    fn method(&self, id: MethodId) -> String {
        self.methods.get(id).map_or_else(|| format!("unknown method {id}"), Method::qualified_name)
    }
    fn is_leader(&self, id: MethodId, bci: Bci) -> bool {
        let blocks = self.blocks.get(id.get() as usize);
        let of = || self.methods.get(id).and_then(|m| Blocks::of(m).ok());
        blocks.and_then(|b| b.get_or_init(of).as_ref()).is_some_and(|b| b.is_leader(bci))
    }
    fn line(&self, id: MethodId, bci: Bci) -> Option<u16> {
        self.methods.get(id)?.line_at(bci)
    }
    fn mnemonic(&self, id: MethodId, bci: Bci) -> Option<&'static str> {
        let code = &self.methods.get(id)?.code;
        Instruction::at(code, usize::from(bci.get())).ok().map(|i| i.opcode.name())
    }
    /// `invokestatic java.lang.Math.abs(I)I`. `?` where the method's bytecodes are not known.
    fn instruction(&self, id: MethodId, bci: Bci) -> String {
        let name = self.mnemonic(id, bci).unwrap_or("?");
        match self.methods.get(id).and_then(|m| m.invoke_at(bci)) {
            Some(i) if i.class_name.is_empty() => format!("{name} {}{}", i.name, i.signature),
            Some(i) => format!("{name} {}.{}{}", i.class_name.replace('/', "."), i.name, i.signature),
            None => name.to_owned(),
        }
    }
}

/// One thread whose flow is printed.
pub struct PrintedThread {
    shared: Arc<PrinterContext>,
    tid: u32,
    /// `None` if the thread is not wanted, its limit is reached, or an error occurred.
    out: Option<Output>,
    stack: Stack,
    /// Number of the next event in the thread's flow.
    number: u64,
    lines: u64,
    /// The next bytecode is printed at block level even if no block starts there.
    resumed: bool,
}

impl PrintedThread {
    fn title(&mut self, info: &ThreadInfo) {
        let line = if self.shared.options.json {
            json!({"tid": self.tid, "event": "thread", "name": info.name, "java_tid": info.java_tid})
                .to_string()
        } else {
            format!("thread \"{}\" (tid {}, java {})", info.name, self.tid, info.java_tid)
        };
        self.put(&line);
    }

    fn event(&mut self, e: &Event) {
        let number = self.number;
        self.number += 1;
        let before = self.stack.depth();
        self.stack.follow(&e.kind);
        let after = self.stack.depth();
        if self.shared.options.exclude.hides_event(e) {
            // The next event does not directly follow the one printed last.
            self.resumed = true;
            return;
        }
        let Some((what, depth)) = self.visible(&e.kind, before, after) else { return };
        if self.lines >= self.shared.options.limit {
            self.limit_reached();
            return;
        }
        self.lines += 1;
        let line = if self.shared.options.json {
            self.json(e, number, depth)
        } else {
            let indent = depth.min(MAX_INDENT);
            let deep = if depth > MAX_INDENT { format!("[{depth}] ") } else { String::new() };
            format!("{:indent$}{deep}{what}{}", "", suffix(e.provenance), indent = 2 * indent)
        };
        self.put(&line);
    }

    fn visible(&mut self, kind: &EventKind, before: usize, after: usize) -> Option<(String, usize)> {
        let resumed = self.resumed;
        self.resumed = match kind {
            EventKind::Bytecode { .. } => false,
            // Time and steps of code have no effect on blocks.
            EventKind::Time(_) | EventKind::Code(_) => resumed,
            _ => true,
        };
        visible(&self.shared, kind, before, after, resumed)
    }

    fn json(&self, e: &Event, number: u64, depth: usize) -> String {
        let mut o = Map::new();
        o.insert("tid".into(), self.tid.into());
        o.insert("number".into(), number.into());
        o.insert("depth".into(), depth.into());
        fields(&self.shared, &e.kind, &mut o);
        match e.provenance {
            Provenance::Decoded => {}
            Provenance::Projected { paths } => {
                o.insert("projected".into(), json!({ "paths": paths }));
            }
            Provenance::Recovered { confidence } => {
                o.insert("recovered".into(), json!({ "confidence": confidence }));
            }
        }
        Value::Object(o).to_string()
    }

    fn limit_reached(&mut self) {
        if !self.shared.options.json {
            self.put(&format!("... limit of {} lines reached", self.lines));
        }
        if let Some(Err(e)) = self.out.take().map(|mut out| out.flush()) {
            self.shared.fail(e);
        }
    }

    fn put(&mut self, line: &str) {
        let Some(out) = &mut self.out else { return };
        // JSON has its own escapes.
        let line = if self.shared.options.json { line.into() } else { jportal_plain::line(line) };
        if let Err(e) = writeln!(out, "{line}") {
            self.shared.fail(e);
            self.out = None;
        }
    }
}

/// The text of an event and its depth. `None` when the event is finer than the level.
fn visible(
    s: &PrinterContext,
    kind: &EventKind,
    before: usize,
    after: usize,
    resumed: bool,
) -> Option<(String, usize)> {
    let level = s.options.level;
    Some(match kind {
        EventKind::Enter { method, tier, entry } => {
            (format!("> {} [{}{}]", s.method(*method), tier.name(), entry_note(*entry)), before)
        }
        EventKind::Leave { method, exit } => (format!("< {} {}", s.method(*method), exit.name()), after),
        EventKind::Catch { method, bci } => {
            (format!("catch at {bci}{} in {}", line_note(s, *method, *bci), s.method(*method)), after)
        }
        EventKind::Bytecode { method, bci, .. } => match level {
            PrinterLevel::Bytecode => {
                let text = s.instruction(*method, *bci);
                (format!("{:>5} {text}{}", bci.get(), line_note(s, *method, *bci)), after)
            }
            PrinterLevel::Block if resumed || s.is_leader(*method, *bci) => {
                (format!("block {bci}{}", line_note(s, *method, *bci)), after)
            }
            PrinterLevel::Block | PrinterLevel::Call => return None,
        },
        // This consumer does not accept runs, so none arrives.
        EventKind::Run { .. } => return None,
        EventKind::Unresolved { .. } if level == PrinterLevel::Call => return None,
        EventKind::Unresolved { from, to, cause, callers, .. } => {
            let name = |b: Option<Bci>, none: &str| b.map_or_else(|| none.to_owned(), |b| b.to_string());
            let (from, to) = (name(*from, "entry"), name(*to, "end"));
            let rounds = match callers {
                0 => String::new(),
                1 => ", perhaps by way of the caller".into(),
                n => format!(", perhaps by way of {n} callers"),
            };
            (format!("... {from} to {to} unresolved: {}{rounds}", cause.name()), after)
        }
        EventKind::Orphan(Orphan::Throw) => ("throws, in an unknown frame".into(), 0),
        EventKind::Orphan(_) if level != PrinterLevel::Bytecode => return None,
        EventKind::Orphan(Orphan::Bytecode { opcode, taken }) => {
            let went = match taken {
                Some(true) => ", taken",
                Some(false) => ", not taken",
                None => "",
            };
            (format!("    ? {}{went}", Opcode(*opcode).name()), 0)
        }
        EventKind::Gap(gap) => (gap_text(gap), 0),
        // No printer takes steps of code.
        EventKind::Time(_) | EventKind::Code(_) => return None,
    })
}

/// Beyond this depth, the depth is written as a number.
const MAX_INDENT: usize = 40;

fn fields(s: &PrinterContext, kind: &EventKind, o: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| {
        o.insert(key.to_owned(), value);
    };
    match kind {
        EventKind::Enter { method, tier, entry } => {
            put("event", "enter".into());
            put("method", s.method(*method).into());
            put("tier", tier.name().into());
            put("entry", entry_name(*entry).into());
        }
        EventKind::Leave { method, exit } => {
            put("event", "leave".into());
            put("method", s.method(*method).into());
            put("exit", exit.name().into());
        }
        EventKind::Bytecode { method, bci, tier } => {
            put("event", "bytecode".into());
            put("method", s.method(*method).into());
            put("bci", bci.get().into());
            put("opcode", s.mnemonic(*method, *bci).into());
            put("line", s.line(*method, *bci).into());
            put("tier", tier.name().into());
        }
        EventKind::Run { .. } | EventKind::Code(_) => {}
        EventKind::Catch { method, bci } => {
            put("event", "catch".into());
            put("method", s.method(*method).into());
            put("bci", bci.get().into());
        }
        EventKind::Unresolved { method, from, to, cause, callers } => {
            put("event", "unresolved".into());
            put("method", s.method(*method).into());
            put("from", from.map(Bci::get).into());
            put("to", to.map(Bci::get).into());
            put("cause", cause.name().into());
            put("callers", (*callers).into());
        }
        EventKind::Orphan(Orphan::Throw) => put("event", "orphan-throw".into()),
        EventKind::Orphan(Orphan::Bytecode { opcode, taken }) => {
            put("event", "orphan".into());
            put("opcode", Opcode(*opcode).name().into());
            put("taken", (*taken).into());
        }
        EventKind::Gap(gap) => {
            put("event", "gap".into());
            put("reason", gap.reason.name().into());
            put("fault", gap.reason.fault().into());
            put("detail", gap.reason.detail().into());
            put("core", gap.core.get().into());
            put("offset", gap.offset.get().into());
            put("address", gap.address.into());
            put("since", gap.since.map(Tsc::get).into());
            put("until", gap.until.map(Tsc::get).into());
            put("bytes", gap.bytes.into());
            put("stack_lost", gap.stack_lost.into());
        }
        EventKind::Time(tsc) => put("tsc", tsc.get().into()),
    }
}

/// A gap as text: reason, place, size, and the effect on the frames.
pub fn gap_text(gap: &Gap) -> String {
    let mut s = format!("-- gap: {}", gap.reason.name());
    if let Some(detail) = gap.reason.detail() {
        s.push_str(&format!(" ({detail})"));
    }
    s.push_str(&format!(", {} {}", gap.core, gap.offset));
    if let Some(address) = gap.address {
        s.push_str(&format!(", at {address:#x}"));
    }
    if let Some(bytes) = gap.bytes {
        s.push_str(&format!(", {bytes} bytes lost"));
    }
    if gap.stack_lost {
        s.push_str(", frames unknown from here");
    }
    s
}

fn line_note(s: &PrinterContext, method: MethodId, bci: Bci) -> String {
    s.line(method, bci).map(|l| format!("  line {l}")).unwrap_or_default()
}

fn suffix(provenance: Provenance) -> String {
    match provenance {
        Provenance::Decoded => String::new(),
        Provenance::Projected { paths } => format!("  ~projected, {paths} paths"),
        Provenance::Recovered { confidence } => format!("  ~recovered, confidence {confidence:.2}"),
    }
}

const fn entry_name(entry: Entry) -> &'static str {
    match entry {
        Entry::Call => "call",
        Entry::Upcall => "upcall",
        Entry::Osr => "osr",
        Entry::Deoptimisation => "deoptimisation",
        Entry::Found => "found",
    }
}

const fn entry_note(entry: Entry) -> &'static str {
    match entry {
        Entry::Call => "",
        Entry::Upcall => ", from the VM",
        Entry::Osr => ", by OSR",
        Entry::Deoptimisation => ", by deoptimisation",
        Entry::Found => ", found on the stack",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, methods, recovered};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);
    impl Write for Buffer {
        fn write(&mut self, b: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(b)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn print(level: PrinterLevel, json: bool, limit: u64) -> String {
        print_with(Options { level, json, limit, exclude: Exclude::default() })
    }

    fn print_with(options: Options) -> String {
        let events = [
            enter_as(0, Entry::Upcall),
            bytecode(0, 0),
            bytecode(0, 1),
            enter(1),
            recovered(bytecode(1, 5)),
            leave(1),
            bytecode(0, 8),
            bytecode(0, 9),
            gap(true),
            bytecode(0, 5),
        ];
        printed(&events, options)
    }
    fn printed(events: &[Event], options: Options) -> String {
        let buffer = Buffer::default();
        let out = buffer.clone();
        let mut p = Printer::new(methods(), options, move |t: &ThreadInfo| {
            Ok((t.tid.get() == 7).then(|| Box::new(out.clone()) as Output))
        });
        feed(&mut p, 7, events);
        feed(&mut p, 8, events);
        assert!(p.error().is_none());
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_is_excluded_is_not_printed() {
        let exclude = Exclude { recovered: true, ..Exclude::default() };
        let options = Options { level: PrinterLevel::Block, json: false, limit: 100, exclude };
        let text = print_with(options);
        assert!(!text.contains("recovered") && text.contains("\n  > a.B.g(I)I"), "{text}");
        let all = print_with(Options { exclude: Exclude::default(), ..options });
        assert_eq!(all.lines().count(), text.lines().count() + 1);
        let without = |exclude| print_with(Options { exclude, ..options });
        let text = without(Exclude { lost: true, ..Exclude::default() });
        assert_eq!((all.lines().count(), all.contains("gap")), (text.lines().count() + 1, true));
        assert!(!text.contains("gap") && text.contains("recovered"), "{text}");
        // The depth still follows the frames.
        let text = without(Exclude { decoded: true, ..Exclude::default() });
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let [block, gap] = lines[..] else { panic!("{text}") };
        assert!(block.starts_with("    block 5") && gap.starts_with("-- gap"), "{text}");
    }

    #[test]
    fn bytecode_level() {
        assert_eq!(
            print(PrinterLevel::Bytecode, false, 100),
            "thread \"t7\" (tid 7, java 1)
> a.B.f(I)I [interpreter, from the VM]
      0 iload_0  line 10
      1 ifeq  line 10
  > a.B.g(I)I [interpreter]
        5 goto  line 11  ~recovered, confidence 0.50
  < a.B.g(I)I return
      8 iconst_0  line 12
      9 ireturn  line 12
-- gap: truncated, core 1 @4096, 100 bytes lost, frames unknown from here
      5 goto  line 11
"
        );
    }

    #[test]
    fn coarser_levels() {
        let call = print(PrinterLevel::Call, false, 100);
        assert_eq!(call.lines().count(), 5, "{call}");
        let block = print(PrinterLevel::Block, false, 100);
        let blocks: Vec<&str> = block.lines().filter(|l| l.contains("block")).collect();
        assert_eq!(
            blocks,
            [
                "  block 0  line 10",
                "    block 5  line 11  ~recovered, confidence 0.50",
                "  block 8  line 12",
                "  block 9  line 12",
                "  block 5  line 11"
            ]
        );
    }

    #[test]
    fn limit_and_json() {
        let text = print(PrinterLevel::Bytecode, false, 2);
        assert!(text.ends_with("line 10\n... limit of 2 lines reached\n"), "{text}");
        let json = print(PrinterLevel::Bytecode, true, 100);
        let lines: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[3]["opcode"], "ifeq");
        assert_eq!(lines[9]["reason"], "truncated");
        let call = print(PrinterLevel::Call, true, 100);
        let last: Value = serde_json::from_str(call.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["event"], &last["number"]),
            (&"gap".into(), &8.into()),
            "what is not shown is counted"
        );
    }
    #[test]
    fn orphans() {
        let ifeq = |taken| Orphan::Bytecode { opcode: Opcode::IFEQ.0, taken };
        let events = [ifeq(Some(true)), ifeq(Some(false)), ifeq(None), Orphan::Throw]
            .map(|o| Event::decoded(EventKind::Orphan(o)));
        let text = printed(
            &events,
            Options { level: PrinterLevel::Bytecode, json: false, limit: 100, exclude: Exclude::default() },
        );
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["    ? ifeq, taken", "    ? ifeq, not taken", "    ? ifeq", "throws, in an unknown frame"]
        );
        assert_eq!(
            printed(
                &events,
                Options { level: PrinterLevel::Block, json: false, limit: 100, exclude: Exclude::default() }
            )
            .lines()
            .count(),
            2,
            "the exception"
        );
        let json = printed(
            &events,
            Options { level: PrinterLevel::Bytecode, json: true, limit: 100, exclude: Exclude::default() },
        );
        let lines: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!((&lines[2]["event"], &lines[2]["opcode"]), (&"orphan".into(), &"ifeq".into()));
        assert_eq!((&lines[2]["taken"], &lines[3]["taken"]), (&false.into(), &Value::Null));
        assert_eq!(lines[4]["event"], "orphan-throw");
    }
}
