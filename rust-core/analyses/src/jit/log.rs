// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! HotSpot's log of its compilers (`-XX:+LogCompilation`), as far as it says what a flow does not:
//! why code was compiled, what the compilers knew of branches and calls, and the traps that were
//! taken.
//!
//! Elements that are not needed are counted by name. A log that ends in the middle, because its VM
//! was killed, is read up to there, and says so.

use std::collections::BTreeMap;
use std::io::BufRead;

use hashbrown::HashMap;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event as XmlEvent};
use serde::Serialize;

/// A compilation: its number, and whether it is one for on-stack replacement. Debug builds of
/// HotSpot number these on their own.
pub(crate) type TaskKey = (u32, bool);

/// A task of a compiler.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogTask {
    /// Why it was queued, as HotSpot says it (`tiered`, `must_be_compiled` ...); empty if the log
    /// does not say it.
    pub comment: String,
    /// Seconds since the VM's start: when it was queued, began, and ended.
    pub queued: Option<f64>,
    /// See `queued`.
    pub began: Option<f64>,
    /// See `queued`.
    pub ended: Option<f64>,
    /// Whether code came of it; `None` if the log does not say it.
    pub success: Option<bool>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What C2 knew of a branch, by the profile that it used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogBranch {
    /// The compilation that used it.
    pub compile_id: u32,
    /// How often the branch was taken.
    pub taken: i64,
    /// How often it was not.
    pub not_taken: i64,
    /// The probability of the jump: a number, `never`, `always` or other words.
    pub probability: String,
}

/// What a compiler decided on a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LogCall {
    /// The compilation.
    pub compile_id: u32,
    /// The callee: `class.name(descriptor)`.
    pub callee: String,
    /// How often the profile says that it was called; -1 if unknown.
    pub count: i64,
    /// Whether it was inlined; `None` if the log does not say it.
    pub inlined: Option<bool>,
    /// HotSpot's reason.
    pub reason: String,
}

/// A frame that was deoptimised.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogTrap {
    /// The compilation.
    pub compile_id: u32,
    /// Whether it is one for on-stack replacement.
    pub osr: bool,
    /// HotSpot's name of the reason.
    pub reason: String,
    /// HotSpot's name of the action; empty if the VM deoptimised the frame.
    pub action: String,
    /// The innermost method: `class.name(descriptor)`.
    pub method: String,
    /// Its position.
    pub bci: i32,
    /// Seconds since the VM's start.
    pub stamp: Option<f64>,
}

/// Code that a log names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogNMethod {
    /// The compilation.
    pub compile_id: u32,
    /// Whether it is one for on-stack replacement.
    pub osr: bool,
    /// `CompLevel`.
    pub level: u8,
    /// Its method: `class.name(descriptor)`.
    pub method: String,
    /// Seconds since the VM's start.
    pub stamp: Option<f64>,
}

/// A place in a method: its name and a bci.
pub(crate) type LogPlace = (String, u16);

/// The contents of a log.
#[derive(Clone, Debug, Default)]
pub struct CompilationLog {
    pub(crate) tasks: HashMap<TaskKey, LogTask>,
    pub(crate) nmethods: Vec<LogNMethod>,
    /// Compilations whose code became not entrant, each time that it did.
    pub(crate) not_entrant: Vec<TaskKey>,
    /// Uncommon traps that were taken.
    pub(crate) traps: Vec<LogTrap>,
    /// Frames that the VM deoptimised.
    pub(crate) deoptimised: Vec<LogTrap>,
    pub(crate) branches: HashMap<LogPlace, Vec<LogBranch>>,
    pub(crate) calls: HashMap<LogPlace, Vec<LogCall>>,
    /// Elements that were not used, by name.
    pub(crate) unused: BTreeMap<String, u64>,
    /// Elements that lack an attribute, by name.
    pub(crate) damaged: BTreeMap<String, u64>,
    /// Why the log was not read to its end.
    pub(crate) broken: Option<String>,
}

impl CompilationLog {
    /// Reads a log.
    pub fn read(from: impl BufRead) -> Self {
        let mut reading = Reading::default();
        let mut reader = Reader::from_reader(from);
        // The log of a thread that was compiling when the VM ended is cut off in the middle.
        reader.config_mut().check_end_names = false;
        reader.config_mut().allow_unmatched_ends = true;
        let mut buffer = Vec::new();
        let mut root = false;
        loop {
            match reader.read_event_into(&mut buffer) {
                Ok(XmlEvent::Start(element)) => {
                    root |= element.name().as_ref() == b"hotspot_log";
                    reading.element(&element);
                }
                Ok(XmlEvent::Empty(element)) => {
                    reading.element(&element);
                    reading.end(element.name().as_ref());
                }
                Ok(XmlEvent::End(element)) => reading.end(element.name().as_ref()),
                Ok(XmlEvent::Eof) => break,
                Ok(_) => {}
                Err(e) => {
                    reading.log.broken = Some(format!("byte {}: {e}", reader.error_position()));
                    break;
                }
            }
            buffer.clear();
        }
        if !root {
            let no_log = "no element hotspot_log: this is no log of -XX:+LogCompilation";
            reading.log.broken.get_or_insert_with(|| no_log.to_owned());
        } else if !reading.done {
            let cut = "the log was cut off: it has no element hotspot_log_done";
            reading.log.broken.get_or_insert_with(|| cut.to_owned());
        }
        reading.log
    }
    /// Whether the text was the log of a compiler at all.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.nmethods.is_empty() && self.traps.is_empty()
    }
    /// Why the log was not read to its end; `None` if it was.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }
}

/// The attributes of an element.
struct Attributes(HashMap<String, String>);

impl Attributes {
    fn of(element: &BytesStart<'_>) -> Self {
        let pairs = element.attributes().filter_map(Result::ok);
        Self(
            pairs
                .filter_map(|a| {
                    let key = String::from_utf8_lossy(a.key.as_ref()).into_owned();
                    Some((key, a.unescape_value().ok()?.into_owned()))
                })
                .collect(),
        )
    }
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
    fn number<N: std::str::FromStr>(&self, key: &str) -> Option<N> {
        self.text(key)?.trim().parse().ok()
    }
    fn osr(&self) -> bool {
        self.text("compile_kind") == Some("osr")
    }
    fn key(&self) -> Option<TaskKey> {
        Some((self.number("compile_id")?, self.osr()))
    }
}

/// `class.name(descriptor)` of a log's `class name descriptor`.
fn qualified(text: &str) -> String {
    let mut parts = text.splitn(3, ' ');
    let class = class_name(parts.next().unwrap_or_default());
    format!("{class}.{}{}", parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// The name of a class as a capture has it: the address of a hidden one follows a `+`.
fn class_name(name: &str) -> String {
    name.replace("/0x", "+0x").replace('/', ".")
}

/// The descriptor of a type that a log names (`int`, `[I`, `java.lang.String`).
fn descriptor(name: &str) -> String {
    let letter = match name {
        "void" => "V",
        "boolean" => "Z",
        "byte" => "B",
        "char" => "C",
        "short" => "S",
        "int" => "I",
        "long" => "J",
        "float" => "F",
        "double" => "D",
        array if array.starts_with('[') => return array.replace('.', "/"),
        class => return format!("L{};", class.replace('.', "/")),
    };
    letter.to_owned()
}

/// A method that a compiler parses.
#[derive(Debug, Default)]
struct Parsed {
    method: String,
    /// The bytecode of which the log speaks.
    bci: Option<u16>,
}

/// The state of reading.
#[derive(Debug, Default)]
struct Reading {
    log: CompilationLog,
    task: Option<TaskKey>,
    /// The task's methods under way, outermost first.
    parsed: Vec<Parsed>,
    /// Names of the types, classes and methods of the task.
    types: HashMap<u64, String>,
    methods: HashMap<u64, String>,
    /// The call of which the log speaks.
    call: Option<(LogPlace, LogCall)>,
    /// The trap or deoptimisation whose frames follow.
    trap: Option<(bool, LogTrap, bool)>,
    /// The log has its last element.
    done: bool,
}

impl Reading {
    fn element(&mut self, element: &BytesStart<'_>) {
        let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
        let a = Attributes::of(element);
        let used = match &*name {
            "task_queued" => self.queued(&a),
            "task" => self.begin(&a),
            "failure" => self.failed(&a),
            "task_done" => self.task_done(&a),
            "nmethod" => self.nmethod(&a),
            "make_not_entrant" => a.key().map(|key| self.log.not_entrant.push(key)),
            "uncommon_trap" if a.text("thread").is_some() => self.trap(&a, true),
            // The compiler plans it.
            "uncommon_trap" => Some(()),
            "deoptimized" => self.trap(&a, false),
            "jvms" => self.frame(&a),
            "type" | "klass" => self.named(&a),
            "method" => self.method(&a),
            "parse" => self.parse(&a),
            "bc" => self.bytecode(&a),
            "branch" => self.branch(&a),
            "call" => self.called(&a),
            "inline_success" => self.inlined(&a, true),
            "inline_fail" => self.inlined(&a, false),
            "hotspot_log_done" => {
                self.done = true;
                Some(())
            }
            _ => {
                *self.log.unused.entry(name).or_default() += 1;
                return;
            }
        };
        if used.is_none() {
            *self.log.damaged.entry(name).or_default() += 1;
        }
    }
    fn end(&mut self, name: &[u8]) {
        match name {
            b"uncommon_trap" | b"deoptimized" => {
                if let Some((taken, trap, _)) = self.trap.take() {
                    let list = if taken { &mut self.log.traps } else { &mut self.log.deoptimised };
                    list.push(trap);
                }
            }
            b"parse" => {
                self.settle_call();
                self.parsed.pop();
            }
            b"task" => self.end_task(),
            _ => {}
        }
    }
    fn end_task(&mut self) {
        self.settle_call();
        self.task = None;
        self.parsed.clear();
        self.types.clear();
        self.methods.clear();
    }
    fn queued(&mut self, a: &Attributes) -> Option<()> {
        let task = self.log.tasks.entry(a.key()?).or_default();
        task.comment = a.text("comment").unwrap_or_default().to_owned();
        task.queued = a.number("stamp");
        Some(())
    }
    fn begin(&mut self, a: &Attributes) -> Option<()> {
        self.end_task();
        let key = a.key()?;
        self.task = Some(key);
        self.log.tasks.entry(key).or_default().began = a.number("stamp");
        Some(())
    }
    fn failed(&mut self, a: &Attributes) -> Option<()> {
        let task = self.log.tasks.get_mut(&self.task?)?;
        task.failure = Some(a.text("reason")?.to_owned());
        Some(())
    }
    fn task_done(&mut self, a: &Attributes) -> Option<()> {
        let task = self.log.tasks.get_mut(&self.task?)?;
        task.success = Some(a.number::<u8>("success")? == 1);
        task.ended = a.number("stamp");
        Some(())
    }
    fn nmethod(&mut self, a: &Attributes) -> Option<()> {
        let (compile_id, osr) = a.key()?;
        let method = qualified(a.text("method")?);
        let level = a.number("level")?;
        self.log.nmethods.push(LogNMethod { compile_id, osr, level, method, stamp: a.number("stamp") });
        Some(())
    }
    fn trap(&mut self, a: &Attributes, taken: bool) -> Option<()> {
        let (compile_id, osr) = a.key()?;
        let text = |key| a.text(key).unwrap_or_default().to_owned();
        let trap = LogTrap {
            compile_id,
            osr,
            reason: reason(a.text("reason")?).to_owned(),
            action: text("action"),
            stamp: a.number("stamp"),
            ..LogTrap::default()
        };
        self.trap = Some((taken, trap, false));
        Some(())
    }
    /// The first frame of a trap is the innermost. Frames outside of a trap are those of a
    /// compiler's plans.
    fn frame(&mut self, a: &Attributes) -> Option<()> {
        let Some((_, trap, known)) = &mut self.trap else { return Some(()) };
        if !std::mem::replace(known, true) {
            (trap.method, trap.bci) = (qualified(a.text("method")?), a.number("bci")?);
        }
        Some(())
    }
    fn named(&mut self, a: &Attributes) -> Option<()> {
        self.types.insert(a.number("id")?, a.text("name")?.to_owned());
        Some(())
    }
    fn method(&mut self, a: &Attributes) -> Option<()> {
        let type_of = |id: u64| self.types.get(&id).map(|name| descriptor(name));
        let holder = class_name(self.types.get(&a.number::<u64>("holder")?)?);
        let arguments = a.text("arguments").unwrap_or_default().split_ascii_whitespace();
        let arguments: Option<String> = arguments.map(|id| type_of(id.parse().ok()?)).collect();
        let result = type_of(a.number("return")?)?;
        let name = format!("{holder}.{}({}){result}", a.text("name")?, arguments?);
        self.methods.insert(a.number("id")?, name);
        Some(())
    }
    fn parse(&mut self, a: &Attributes) -> Option<()> {
        self.settle_call();
        let method = a.number("method").and_then(|id: u64| self.methods.get(&id)).cloned();
        let known = method.is_some();
        self.parsed.push(Parsed { method: method.unwrap_or_default(), bci: None });
        known.then_some(())
    }
    fn bytecode(&mut self, a: &Attributes) -> Option<()> {
        self.settle_call();
        let bci = a.number("bci")?;
        if let Some(top) = self.parsed.last_mut() {
            top.bci = Some(bci);
        }
        Some(())
    }
    fn place(&self) -> Option<LogPlace> {
        let top = self.parsed.last().filter(|top| !top.method.is_empty())?;
        Some((top.method.clone(), top.bci?))
    }
    fn branch(&mut self, a: &Attributes) -> Option<()> {
        // A branch without a profile has no probability.
        let branch = LogBranch {
            compile_id: self.task?.0,
            taken: a.number("taken")?,
            not_taken: a.number("not_taken")?,
            probability: a.text("prob").unwrap_or_default().trim().to_owned(),
        };
        let all = self.log.branches.entry(self.place()?).or_default();
        if !all.contains(&branch) {
            all.push(branch);
        }
        Some(())
    }
    fn called(&mut self, a: &Attributes) -> Option<()> {
        self.settle_call();
        let callee = self.methods.get(&a.number::<u64>("method")?)?.clone();
        let call = LogCall {
            compile_id: self.task?.0,
            callee,
            count: a.number("count").unwrap_or(-1),
            inlined: None,
            reason: String::new(),
        };
        self.call = Some((self.place()?, call));
        Some(())
    }
    fn inlined(&mut self, a: &Attributes, inlined: bool) -> Option<()> {
        let reason = a.text("reason").unwrap_or_default();
        // A compiler may decide on a call that the log has not named before.
        let Some((_, call)) = &mut self.call else { return Some(()) };
        (call.inlined, call.reason) = (Some(inlined), reason.to_owned());
        Some(())
    }
    fn settle_call(&mut self) {
        let Some((place, call)) = self.call.take() else { return };
        let all = self.log.calls.entry(place).or_default();
        if !all.contains(&call) {
            all.push(call);
        }
    }
}

/// The name of a reason. A VM with JVMCI has longer names for some.
fn reason(name: &str) -> &str {
    name.split("_or_").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "<?xml version='1.0' encoding='UTF-8'?>
<hotspot_log version='160 1'>
<tty>
<task_queued compile_id='15' method='a.B sum ([La/B$S;I)I' level='4' stamp='0.100' comment='tiered' hot_count='7'/>
<writer thread='1'/>
<nmethod compile_id='15' compiler='c2' level='4' method='a.B &lt;init&gt; ([La/B$S;I)I' stamp='0.107'/>
<uncommon_trap thread='9' reason='null_assert_or_unreached0' action='reinterpret' compile_id='15' compiler='c2' level='4' stamp='0.118'>
<jvms bci='28' method='a.B$$Lambda$1/0x08 f ()V' bytes='4'/>
<jvms bci='2' method='a.B g ()V' bytes='4'/>
</uncommon_trap>
<make_not_entrant thread='9' compile_id='15' compiler='c2' level='4' stamp='0.119'/>
<deoptimized thread='9' reason='constraint' pc='0x1' compile_id='7' compile_kind='osr' compiler='c1' level='3'>
<jvms bci='21' method='a.B loop (I)I'/>
</deoptimized>
</tty>
<compilation_log thread='8'>
<task compile_id='15' method='a.B sum ([La/B$S;I)I' stamp='0.101'>
<type id='1' name='int'/>
<klass id='2' name='[La/B$S;'/>
<klass id='3' name='a.B'/>
<method id='4' holder='3' name='sum' return='1' arguments='2 1'/>
<parse method='4' uses='5.0' stamp='0.1'>
<uncommon_trap bci='5' reason='null_check' action='maybe_recompile'/>
<bc code='162' bci='15'/>
<branch target_bci='41' taken='5119' not_taken='10238' cnt='15357.0' prob='   0.33'/>
<bc code='185' bci='28'/>
<call method='4' count='10' prof_factor='1.0' inline='1'/>
<inline_fail reason='too big'/>
</parse>
<task_done success='1' nmsize='312' stamp='0.116'/>
</task>
</compilation_log>
<hotspot_log_done stamp='0.2'/>
</hotspot_log>
";

    #[test]
    fn what_a_log_says_of_a_compilation() {
        let log = CompilationLog::read(LOG.as_bytes());
        assert_eq!(log.broken, None);
        let task = &log.tasks[&(15, false)];
        assert_eq!((&*task.comment, task.queued, task.ended), ("tiered", Some(0.1), Some(0.116)));
        assert_eq!(task.success, Some(true));
        assert_eq!(log.nmethods[0].method, "a.B.<init>([La/B$S;I)I");
        assert_eq!(log.not_entrant, [(15, false)]);
        let trap = &log.traps[0];
        assert_eq!((&*trap.reason, &*trap.action, trap.bci), ("null_assert", "reinterpret", 28));
        assert_eq!(trap.method, "a.B$$Lambda$1+0x08.f()V");
        assert_eq!((log.traps.len(), log.deoptimised[0].osr, log.deoptimised[0].bci), (1, true, 21));
        let sum = || "a.B.sum([La/B$S;I)I".to_owned();
        let branch = LogBranch { compile_id: 15, taken: 5119, not_taken: 10238, probability: "0.33".into() };
        assert_eq!(log.branches[&(sum(), 15)], [branch]);
        let call = LogCall {
            compile_id: 15,
            callee: sum(),
            count: 10,
            inlined: Some(false),
            reason: "too big".into(),
        };
        assert_eq!(log.calls[&(sum(), 28)], [call]);
        assert_eq!(log.unused["writer"], 1);
        assert!(log.damaged.is_empty(), "{:?}", log.damaged);
    }

    #[test]
    fn a_log_that_is_cut_off_or_none_says_so() {
        let at = LOG.find("<compilation_log").unwrap();
        let log = CompilationLog::read(&LOG.as_bytes()[..at]);
        assert_eq!((log.traps.len(), log.nmethods.len()), (1, 1));
        assert!(log.broken.unwrap().contains("cut off"));
        let log = CompilationLog::read(&LOG.as_bytes()[..at - 30]);
        assert!(log.broken.is_some());
        assert!(CompilationLog::read(&b"no xml"[..]).broken.unwrap().contains("no log of"));
        let log = CompilationLog::read(&b"<hotspot_log><nmethod compile_id='x'/><hotspot_log_done/>"[..]);
        assert_eq!((log.damaged["nmethod"], log.broken), (1, None));
    }
}
