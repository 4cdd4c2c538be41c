// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests the machine on a hand-made VM: a code cache of 64 KiB with one template per opcode.

use crate::driver::Positions;
use crate::machine::{Machine, Shared, ThreadCounters};
use jportal_bytecode::Opcode;
use jportal_capture::codec::{Bytes, Str};
use jportal_capture::schema::*;
use jportal_flow::{CodeStep, Entry, Event, EventKind, Exit as FrameExit, Orphan, Provenance};
use jportal_machine_flow::{CodeHistory, Exit, Item, MachineGap, MachineGapReason};
use jportal_units::{Address, AddressRange, Bci, CodeId, StreamOffset, Tid, Tsc};
use jportal_vm_image::{Builder, CodeSink, VmImage};

const LOW: u64 = 0x10_0000;
/// Templates: 16 bytes each, by opcode.
const TEMPLATES: u32 = 0x1000;
pub(crate) const RETURN_ENTRY: u32 = 0x3000;
pub(crate) const RETHROW: u32 = 0x3100;
const THROW: u32 = 0x3120;
const REMOVE: u32 = 0x3140;
pub(crate) const POP_FRAME: u32 = 0x3160;
const EARLY_RETURN: u32 = 0x3180;
const SAFEPOINT: u32 = 0x31a0;
const CALL_STUB: u32 = 0x3200;
pub(crate) const CALL_STUB_RETURN: u32 = 0x3220;
const CATCH_EXCEPTION: u32 = 0x3240;
pub(crate) const DEOPT_REEXECUTE: u32 = 0x3260;
pub(crate) const FORWARD_EXCEPTION: u32 = 0x3280;
/// HotSpot's number of the bytecode with which a debugger replaces another.
const BREAKPOINT: Opcode = Opcode(202);
const REVEAL_SWITCH: u32 = 0x3300;
pub(crate) const REVEAL_HANDLER: u32 = 0x3310;
const ASIDE: u32 = 0x3320;
const REVEAL_POP_FRAME: u32 = 0x3340;
/// `jnz +1; nop`
const ASIDE_CODE: [u8; 3] = [0x75, 0x01, 0x90];
const STUBS: u32 = 0x4000;
/// The offset at which further records may install an nmethod.
pub(crate) const NMETHOD: u32 = 0x8000;
/// The offset at which a second nmethod may be installed.
pub(crate) const NMETHOD_2: u32 = 0xa000;
/// The offset of a blob that is recorded after two nmethods.
pub(crate) const BLOB: u32 = 0xc000;
/// `shr eax,1; jnc +1; nop; test eax,eax; jnz -9`
const REVEAL_CODE: [u8; 9] = [0xd1, 0xe8, 0x73, 0x01, 0x90, 0x85, 0xc0, 0x75, 0xf7];

struct NoBytes;
impl CodeSink for NoBytes {
    fn install(&mut self, _: Tsc, _: Address, _: &[u8], _: CodeId) {}
    fn patch(&mut self, _: Tsc, _: Option<Tsc>, _: Address, _: &[u8], _: Option<Tid>, _: u8) {}
    fn free(&mut self, _: Tsc, _: Address, _: u64) {}
}

pub(crate) fn address(offset: u32) -> u64 {
    LOW + u64::from(offset)
}
/// The address of the template of a bytecode.
pub(crate) fn op_address(op: Opcode) -> u64 {
    address(TEMPLATES + 16 * u32::from(op.0))
}
fn entry(name: &str, offset: u32) -> NamedAddress {
    NamedAddress { name: Str::from(name), address: address(offset) }
}

/// The VM, with the methods `m0`, `m1` … of the given bytecodes and exception tables.
pub(crate) struct Vm {
    pub(crate) image: VmImage,
    pub(crate) history: CodeHistory,
}

fn vm(methods: &[(&[u8], &[ExceptionEntry])]) -> Vm {
    vm_with(methods, &[])
}

/// The same VM with further records.
pub(crate) fn vm_with(methods: &[(&[u8], &[ExceptionEntry])], more: &[Record]) -> Vm {
    vm_that_names(&["call_stub", "call_stub_return", "catch_exception"], methods, more)
}

/// The same VM, of which only these entries for upcalls are known.
fn vm_that_names(upcalls: &[&str], methods: &[(&[u8], &[ExceptionEntry])], more: &[Record]) -> Vm {
    let mut b = Builder::default();
    let mut put = |record| b.record(Stamped { tsc: 1, record }, &mut NoBytes);
    let code = Bytes(vec![0; 0x4000].into());
    put(Record::InterpreterCodelet(InterpreterCodelet {
        start: LOW,
        bytecode: -1,
        description: Str::default(),
        code,
    }));
    let entries = (0..=202).map(|op| CodeAddress { address: address(TEMPLATES + 16 * op) }).collect();
    put(Record::InterpreterTable(InterpreterTable { table: tables::NORMAL, index: 9, entries }));
    let names = vec![NamedAddress { name: Str::from("breakpoint"), address: 202 << 16 | 202 }];
    put(Record::BytecodeNames(BytecodeNames { names }));
    let entries = vec![CodeAddress { address: address(SAFEPOINT) }];
    put(Record::InterpreterTable(InterpreterTable { table: tables::SAFEPOINT_ENTRY, index: 0, entries }));
    let entries = vec![CodeAddress { address: address(RETURN_ENTRY) }];
    put(Record::InterpreterTable(InterpreterTable { table: tables::INVOKE_RETURN, index: 0, entries }));
    let entries = vec![CodeAddress { address: address(DEOPT_REEXECUTE) }];
    put(Record::InterpreterTable(InterpreterTable { table: tables::DEOPT, index: 0, entries }));
    put(Record::InterpreterEntries(InterpreterEntries {
        entries: vec![
            entry("rethrow_exception", RETHROW),
            entry("throw_exception", THROW),
            entry("remove_activation", REMOVE),
            entry("remove_activation_preserving_args", POP_FRAME),
            entry("earlyret.itos", EARLY_RETURN),
            entry("forward_exception", FORWARD_EXCEPTION),
            entry("reveal.tableswitch", REVEAL_SWITCH),
            entry("reveal.exception_handler", REVEAL_HANDLER),
            entry("reveal.popframe", REVEAL_POP_FRAME),
            entry("aside", ASIDE),
            entry("aside.end", ASIDE + ASIDE_CODE.len() as u32),
        ],
    }));
    let all = [
        ("call_stub", CALL_STUB),
        ("call_stub_return", CALL_STUB_RETURN),
        ("catch_exception", CATCH_EXCEPTION),
    ];
    let known = all.iter().filter(|(name, _)| upcalls.contains(name));
    let entries = known.map(|&(name, at)| entry(name, at)).collect();
    put(Record::InterpreterEntries(InterpreterEntries { entries }));
    let kind = blob_kinds::METHOD_STUBS;
    let code = Bytes(vec![0xcc; 0x100].into());
    put(Record::BlobDefined(BlobDefined { start: address(STUBS), kind, code, ..Default::default() }));
    for (i, (code, exceptions)) in methods.iter().enumerate() {
        let method = 0x9000 + i as u64;
        put(Record::MethodDefined(MethodDefined {
            method,
            name: Str::from(&*format!("m{i}")),
            code: Bytes((*code).into()),
            exceptions: exceptions.to_vec(),
            // The callee of an `invokestatic` at bci 4.
            invokes: match code.get(4) {
                Some(184) => vec![InvokeTarget { bci: 4, name: Str::from("m1"), ..Default::default() }],
                _ => Vec::new(),
            },
            ..Default::default()
        }));
        let stub = address(STUBS + 8 * i as u32);
        put(Record::MethodStub(MethodStub { method, address: stub, target: address(0x3f00) }));
    }
    more.iter().for_each(|record| put(record.clone()));
    let range = AddressRange::at(Address(LOW), 0x1_0000);
    let mut history = CodeHistory::new(range).unwrap();
    for at in [REVEAL_SWITCH, REVEAL_HANDLER, REVEAL_POP_FRAME] {
        history.install(Tsc(1), Address(address(at)), &REVEAL_CODE, CodeId(0)).unwrap();
    }
    history.install(Tsc(1), Address(address(ASIDE)), &ASIDE_CODE, CodeId(0)).unwrap();
    Vm { image: b.finish(), history }
}

/// The items that a machine is fed in a test.
#[derive(Clone, Default)]
pub(crate) struct Script(pub(crate) Vec<Item>);

impl Script {
    pub(crate) fn block(mut self, start: u32, end: u32, exit: Exit) -> Self {
        // The code ids follow the order of the records.
        let code = CodeId([STUBS, NMETHOD, NMETHOD_2, BLOB].iter().filter(|&&s| start >= s).count() as u32);
        self.0.push(Item::Block { start, end, code, exit });
        self
    }
    /// A template that ends in a dispatch.
    pub(crate) fn op(self, op: Opcode) -> Self {
        let at = TEMPLATES + 16 * u32::from(op.0);
        self.block(at, at + 8, Exit::IndirectJump)
    }
    /// A template with one conditional jump before its dispatch.
    pub(crate) fn branch(self, op: Opcode, jump: bool) -> Self {
        let at = TEMPLATES + 16 * u32::from(op.0);
        let exit = if jump { Exit::Taken } else { Exit::NotTaken };
        self.block(at, at + 4, exit).block(at + 4, at + 8, Exit::IndirectJump)
    }
    pub(crate) fn call(self, method: u32) -> Self {
        self.block(STUBS + 8 * method, STUBS + 8 * method + 5, Exit::Jump).block(
            0x3f00,
            0x3f08,
            Exit::IndirectJump,
        )
    }
    pub(crate) fn at(self, landmark: u32, exit: Exit) -> Self {
        self.block(landmark, landmark + 2, exit)
    }
    /// The blocks of a reveal loop at `at` for `value`, entered by fall-through.
    pub(crate) fn reveal(mut self, at: u32, value: u32) -> Self {
        let bits = (32 - value.leading_zeros()).max(1);
        for i in 0..bits {
            let bit = value >> i & 1 == 1;
            let start = if i == 0 { at - 4 } else { at };
            self = self.block(start, at + 4, if bit { Exit::NotTaken } else { Exit::Taken });
            let middle = if bit { at + 4 } else { at + 5 };
            self = self.block(middle, at + 9, if i + 1 < bits { Exit::Taken } else { Exit::NotTaken });
        }
        self
    }
    pub(crate) fn upcall(mut self) -> Self {
        self.0.push(Item::Enter { ip: Address(address(CALL_STUB)) });
        self.at(CALL_STUB, Exit::IndirectCall)
    }
}

/// The unit lost packets.
pub(crate) fn overflow() -> Item {
    Item::Gap(Box::new(MachineGap {
        reason: MachineGapReason::Overflow,
        offset: StreamOffset(0),
        resumed: None,
        address: None,
        since: None,
        until: None,
    }))
}

/// The bytecodes of a run, one event each.
fn unrolled(shared: &Shared<'_>, event: &Event) -> Vec<Event> {
    let EventKind::Run { method, first, last, len, tier } = event.kind else { return vec![event.clone()] };
    let map = shared.maps.of(method).unwrap();
    let steps = std::iter::successors(Some(first), |bci| map.step(*bci).map(|step| step.next));
    let bcis: Vec<Bci> = steps.take(len.into()).collect();
    assert!(len > 1 && bcis.last() == Some(&last), "{event:?}");
    bcis.iter().map(|&bci| Event::decoded(EventKind::Bytecode { method, bci, tier })).collect()
}

/// Runs the script and returns one line per event.
pub(crate) fn run(vm: &Vm, script: Script) -> Vec<String> {
    run_on(vm, script, false)
}

/// The events of a machine without the automaton. Those of one whose automaton works out all steps,
/// and of one whose automaton knows them all, are the same.
fn in_lock_step(shared: &Shared<'_>, script: &Script, runs: bool) -> (Vec<Event>, ThreadCounters) {
    let mut automaton = Box::default();
    let [reference, learning, knowing] = [false, true, true].map(|automatic| {
        let mut machine = Machine::new(shared);
        (machine.runs, machine.automatic) = (runs, automatic);
        std::mem::swap(&mut machine.automaton, &mut automaton);
        script.0.iter().for_each(|i| machine.item(i));
        // What the frames hold shows when they are given up.
        let mut out = machine.out.clone();
        machine.out.clear();
        machine.finish();
        out.extend(std::mem::take(&mut machine.out).into_iter().map(|e| Event { provenance: END, ..e }));
        std::mem::swap(&mut machine.automaton, &mut automaton);
        (out, machine.counters)
    });
    assert_eq!(reference, learning);
    assert_eq!(reference, knowing);
    let (mut events, counters) = reference;
    events.retain(|e| e.provenance != END);
    (events, counters)
}

/// Marks the events at the end of a script.
const END: Provenance = Provenance::Projected { paths: 0 };

/// The steps of code in the flow of the script, each with the number of events before it that
/// are none. Checks that the flow is the same without them.
pub(crate) fn code_steps(vm: &Vm, script: &Script) -> Vec<(usize, CodeStep)> {
    let shared = Shared::new(&vm.image, &vm.history, Positions::Markers, false);
    let [mut with, without] = [true, false].map(|codes| {
        let mut machine = Machine::new(&shared);
        (machine.codes, machine.automatic) = (codes, !codes);
        script.0.iter().for_each(|i| machine.item(i));
        machine.out
    });
    let (mut steps, mut before) = (Vec::new(), 0);
    with.retain(|e| match e.kind {
        EventKind::Code(step) => {
            steps.push((before, step));
            false
        }
        _ => {
            before += 1;
            true
        }
    });
    assert_eq!(with, without);
    steps
}

/// The same. `sees_addresses_only`: the unit infers the direction of a branch from the address
/// at which control continued.
pub(crate) fn run_on(vm: &Vm, script: Script, sees_addresses_only: bool) -> Vec<String> {
    let shared = Shared::new(&vm.image, &vm.history, Positions::Markers, sees_addresses_only);
    let [alone, in_runs] = [false, true].map(|runs| {
        let (out, counters) = in_lock_step(&shared, &script, runs);
        (out, counters.bytecodes)
    });
    let unrolled: Vec<Event> = in_runs.0.iter().flat_map(|e| unrolled(&shared, e)).collect();
    assert_eq!((&alone.0, alone.1), (&unrolled, in_runs.1), "runs say the same");
    alone
        .0
        .iter()
        .map(|e| match &e.kind {
            EventKind::Enter { method, entry: Entry::Osr, .. } => format!("osr {method}"),
            EventKind::Enter { method, .. } => format!("> {method}"),
            EventKind::Bytecode { method, bci, .. } => format!("{method}@{bci}"),
            EventKind::Run { .. } => "a run".into(),
            EventKind::Leave { method, exit: FrameExit::Unwind } => format!("! {method}"),
            EventKind::Leave { method, exit: FrameExit::Unknown } => format!("!? {method}"),
            EventKind::Leave { method, exit: FrameExit::PopFrame } => format!("pop {method}"),
            EventKind::Leave { method, exit: FrameExit::EarlyReturn } => format!("early {method}"),
            EventKind::Leave { method, .. } => format!("< {method}"),
            EventKind::Catch { method, bci } => format!("catch {method}@{bci}"),
            EventKind::Time(tsc) => format!("time {tsc}"),
            EventKind::Orphan(Orphan::Throw) => "orphan throws".into(),
            EventKind::Orphan(Orphan::Bytecode { opcode, taken }) => {
                let name = Opcode(*opcode).name();
                taken.map_or_else(|| format!("orphan {name}"), |taken| format!("orphan {name} {taken}"))
            }
            EventKind::Unresolved { method, cause, callers: 0, .. } => format!("? {method} {}", cause.name()),
            EventKind::Unresolved { method, cause, callers, .. } => {
                format!("? {method} {} over {callers}", cause.name())
            }
            EventKind::Gap(g) => format!("gap {:?}", g.reason),
            EventKind::Code(step) => format!("{step:?}"),
        })
        .collect()
}

#[test]
fn straight_code_is_one_run() {
    // 0 iload_0; 1 ifeq 5; 4 nop; 5 return
    let vm = vm(&[(&[26, 153, 0, 4, 0, 177], &[])]);
    let shared = Shared::new(&vm.image, &vm.history, Positions::Markers, false);
    let runs = |falls_through| {
        let mut machine = Machine::new(&shared);
        machine.runs = true;
        let script =
            Script::default().upcall().call(0).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, falls_through);
        let script =
            if falls_through { script.op(Opcode::NOP).op(Opcode::RETURN) } else { script.op(Opcode::RETURN) };
        script.0.iter().for_each(|i| machine.item(i));
        let executed = machine.out.iter().filter_map(|e| Some((e.kind.executed()?, e.kind.bytecodes())));
        executed.map(|((_, first, last), len)| (first.0, last.0, len)).collect::<Vec<_>>()
    };
    assert_eq!(runs(true), [(0, 5, 4)]);
    assert_eq!(runs(false), [(0, 1, 2), (5, 5, 1)]);
}

#[test]
fn both_ways_of_a_branch() {
    // 0 iload_0; 1 ifeq 5; 4 nop; 5 return
    let vm = vm(&[(&[26, 153, 0, 4, 0, 177], &[])]);
    let through = Script::default().upcall().call(0).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, true);
    assert_eq!(run(&vm, through.op(Opcode::NOP)), ["> m0", "m0@0", "m0@1", "m0@4"]);
    let over = Script::default().upcall().call(0).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, false);
    assert_eq!(run(&vm, over.op(Opcode::RETURN)), ["> m0", "m0@0", "m0@1", "m0@5"]);
}

#[test]
fn what_a_template_verifies_decides_nothing() {
    let vm = vm(&[(&[26, 153, 0, 4, 0, 177], &[])]);
    let ifeq = TEMPLATES + 16 * u32::from(Opcode::IFEQ.0);
    for aside in [Exit::Taken, Exit::NotTaken] {
        let s = Script::default().upcall().call(0).op(Opcode::ILOAD_0);
        let s = s.block(ifeq, ASIDE + 2, aside).block(ASIDE + 3, ifeq + 4, Exit::NotTaken);
        let s = s.block(ifeq + 4, ifeq + 8, Exit::IndirectJump).op(Opcode::RETURN);
        assert_eq!(run(&vm, s), ["> m0", "m0@0", "m0@1", "m0@5"]);
    }
}

#[test]
fn a_template_that_faults_at_its_first_instruction_was_dispatched() {
    // 0 iload_0; 1 arraylength
    let vm = vm(&[(&[26, 190, 177], &[])]);
    let template = address(TEMPLATES + 16 * 190);
    let enter = |ip| {
        let mut s = Script::default().upcall().call(0).op(Opcode::ILOAD_0);
        s.0.push(Item::Interrupt { ip: Address(template) });
        s.0.push(Item::Enter { ip: Address(ip) });
        s
    };
    assert_eq!(run(&vm, enter(address(THROW))), ["> m0", "m0@0", "m0@1"]);
    // An interrupt after which the thread resumes is not a fault: the block itself follows.
    assert_eq!(run(&vm, enter(template)), ["> m0", "m0@0"]);
}

#[test]
fn the_wrong_bytecode_is_a_gap() {
    let vm = vm(&[(&[26, 153, 0, 4, 0, 177], &[])]);
    let s =
        Script::default().upcall().call(0).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, true).op(Opcode::RETURN);
    let lines = run(&vm, s);
    assert!(lines.last().unwrap().contains("return is dispatched but"), "{lines:?}");
}

#[test]
fn a_revealed_case_of_a_tableswitch() {
    // 0 iload_0; 1 tableswitch (2 bytes of padding) default 28, 0 → 28, 1 → 29, 2 → 30; 28 nop …
    let mut code = vec![26, 170, 0, 0];
    for v in [27i32, 0, 2, 27, 28, 29] {
        code.extend_from_slice(&v.to_be_bytes());
    }
    code.extend([0, 0, 0, 177]);
    let vm = vm(&[(&code, &[])]);
    let table = TEMPLATES + 16 * 170;
    let go = |value: Option<u32>| {
        let s = Script::default().upcall().call(0).op(Opcode::ILOAD_0);
        let s = match value {
            Some(v) => s
                .block(table, table + 2, Exit::NotTaken)
                .block(table + 2, table + 4, Exit::NotTaken)
                .reveal(REVEAL_SWITCH, v),
            None => s.block(table, table + 2, Exit::Taken),
        };
        let s = s.block(table + 8, table + 12, Exit::IndirectJump).op(Opcode::NOP);
        run(&vm, s).pop().unwrap()
    };
    assert_eq!(go(Some(0)), "m0@28");
    assert_eq!(go(Some(1)), "m0@29");
    assert_eq!(go(Some(2)), "m0@30");
    assert_eq!(go(None), "m0@28");
    assert!(go(Some(3)).contains("cannot go to value 3"));
}

#[test]
fn call_and_return() {
    // m0: 0 invokestatic; 3 return   m1: 0 return
    let vm = vm(&[(&[184, 0, 1, 177], &[]), (&[177], &[])]);
    let s = Script::default().upcall().call(0).op(Opcode::INVOKESTATIC).call(1).op(Opcode::RETURN);
    let s = s.at(RETURN_ENTRY, Exit::IndirectJump).op(Opcode::RETURN).at(CALL_STUB_RETURN, Exit::Return);
    assert_eq!(run(&vm, s), ["> m0", "m0@0", "> m1", "m1@0", "< m1", "m0@3", "< m0"]);
}

/// The trace begins inside a template. An orphan is emitted only when the next bytecode begins.
pub(crate) fn orphans() -> Script {
    Script::default().block(TEMPLATES, TEMPLATES + 8, Exit::IndirectJump)
}

#[test]
fn bytecodes_of_a_frame_older_than_the_trace_are_orphans() {
    // m1: 0 return
    let vm = vm(&[(&[177], &[]), (&[177], &[])]);
    let s = orphans().op(Opcode::ILOAD_0).branch(Opcode::IFEQ, true).branch(Opcode::IFNE, false);
    let s = s.op(Opcode::INVOKESTATIC).call(1).op(Opcode::RETURN).at(RETURN_ENTRY, Exit::IndirectJump);
    let s = s.op(Opcode::IRETURN).at(RETURN_ENTRY, Exit::IndirectJump).op(Opcode::POP).op(Opcode::NOP);
    let both_ways = ["orphan iload_0", "orphan ifeq false", "orphan ifne true"];
    let called = ["orphan invokestatic", "> m1", "m1@0", "< m1", "orphan ireturn", "orphan pop"];
    assert_eq!(run(&vm, s), [&both_ways[..], &called].concat());
}

#[test]
fn an_exception_in_an_orphan_frame_is_reported_frame_by_frame() {
    let vm = vm(&[(&[177], &[]), (&[191], &[])]);
    let s = orphans().op(Opcode::INVOKESTATIC).call(1).op(Opcode::ATHROW);
    let s = s.at(THROW, Exit::IndirectJump).at(REMOVE, Exit::IndirectJump).at(RETHROW, Exit::Call);
    let s = s.at(REMOVE, Exit::IndirectJump).at(RETHROW, Exit::IndirectJump).op(Opcode::POP).op(Opcode::NOP);
    let unwound = ["orphan invokestatic", "> m1", "m1@0", "! m1", "orphan throws", "orphan throws"];
    assert_eq!(run(&vm, s), [&unwound[..], &["orphan pop"]].concat());
}

#[test]
fn an_orphan_is_reported_before_the_upcall_in_its_middle_and_before_a_gap() {
    let vm = vm(&[(&[177], &[]), (&[177], &[])]);
    let ifeq = TEMPLATES + 16 * u32::from(Opcode::IFEQ.0);
    let s = orphans().op(Opcode::NOP).block(ifeq, ifeq + 4, Exit::NotTaken);
    let s = s.upcall().call(1).op(Opcode::RETURN).at(CALL_STUB_RETURN, Exit::Return);
    let mut s = s.block(ifeq + 4, ifeq + 8, Exit::IndirectJump).op(Opcode::GOTO);
    s.0.push(overflow());
    let told = ["orphan nop", "orphan ifeq true", "> m1", "m1@0", "< m1", "orphan goto"];
    let lines = run(&vm, s);
    assert_eq!(lines[..6], told);
    assert!(lines[6].starts_with("gap") && lines.len() == 7, "{lines:?}");
}

#[test]
fn time_passes_after_the_branch_of_an_orphan() {
    let vm = vm(&[(&[177], &[])]);
    let ifeq = TEMPLATES + 16 * u32::from(Opcode::IFEQ.0);
    let mut s = orphans().block(ifeq, ifeq + 4, Exit::Taken);
    s.0.push(Item::Time(Tsc(1 << 20)));
    let s = s.block(ifeq + 4, ifeq + 8, Exit::IndirectJump).op(Opcode::POP).op(Opcode::NOP);
    let lines = run(&vm, s);
    assert_eq!(lines[..], ["orphan ifeq false", "time 1048576", "orphan pop"]);
}

#[test]
fn after_a_gap_the_next_time_is_reported_however_little_has_passed() {
    let vm = vm(&[(&[177], &[])]);
    let mut s = orphans();
    let time = |ticks: u64| Item::Time(Tsc((1 << 20) + ticks));
    s.0.extend([time(0), time(5), overflow(), time(10), time(15)]);
    let lines = run(&vm, s);
    assert!(lines[1].starts_with("gap"), "{lines:?}");
    assert_eq!([&lines[0], &lines[2]], ["time 1048576", "time 1048586"]);
    assert_eq!(lines.len(), 3);
}

#[test]
fn an_exception_unwinds_to_the_revealed_handler() {
    // m0: 0 invokestatic; 3 return; 4 pop; 5 return, handler 4   m1: 0 aconst_null; 1 athrow
    let handler = ExceptionEntry { start_bci: 0, end_bci: 3, handler_bci: 4, catch_type: Str::default() };
    let vm = vm(&[(&[184, 0, 1, 177, 87, 177], &[handler]), (&[1, 191], &[])]);
    let s = Script::default().upcall().call(0).op(Opcode::INVOKESTATIC).call(1);
    let s = s.op(Opcode::ACONST_NULL).op(Opcode::ATHROW).at(THROW, Exit::IndirectJump);
    let s = s.at(REMOVE, Exit::IndirectJump).at(RETHROW, Exit::Call);
    let s = s.reveal(REVEAL_HANDLER, 4).block(0x3400, 0x3408, Exit::IndirectJump).op(Opcode::POP);
    assert_eq!(run(&vm, s), ["> m0", "m0@0", "> m1", "m1@0", "m1@1", "! m1", "catch m0@4", "m0@4"]);
}

#[test]
fn a_class_initialiser_in_the_middle_of_a_bytecode() {
    // m0: 0 iload_0; 1 ifeq 5; 4 nop; 5 return — the upcall comes between the jump and the dispatch
    let vm = vm(&[(&[26, 153, 0, 4, 0, 177], &[]), (&[177], &[])]);
    let at = TEMPLATES + 16 * 153;
    let s = Script::default().upcall().call(0).op(Opcode::ILOAD_0).block(at, at + 4, Exit::NotTaken);
    let s = s.upcall().call(1).op(Opcode::RETURN).at(CALL_STUB_RETURN, Exit::Return);
    let s = s.block(at + 4, at + 8, Exit::IndirectJump).op(Opcode::RETURN);
    assert_eq!(run(&vm, s), ["> m0", "m0@0", "m0@1", "> m1", "m1@0", "< m1", "m0@5"]);
}

#[test]
fn an_upcall_that_throws_ends_once() {
    // m0: 0 new; 3 return   m1: 0 athrow; the initialiser throws, and so does the VM
    let handler = ExceptionEntry { start_bci: 0, end_bci: 3, handler_bci: 3, catch_type: Str::default() };
    let vm = vm(&[(&[187, 0, 1, 177], &[handler]), (&[191], &[])]);
    let s = Script::default().upcall().call(0).op(Opcode::NEW);
    let s =
        s.upcall().call(1).op(Opcode::ATHROW).at(THROW, Exit::IndirectJump).at(REMOVE, Exit::IndirectJump);
    let s = s.at(CATCH_EXCEPTION, Exit::Jump).at(CALL_STUB_RETURN, Exit::Return);
    let s = s.at(RETHROW, Exit::Call).reveal(REVEAL_HANDLER, 3).block(0x3400, 0x3408, Exit::IndirectJump);
    assert_eq!(
        run(&vm, s.op(Opcode::RETURN)),
        ["> m0", "m0@0", "> m1", "m1@0", "! m1", "catch m0@3", "m0@3"]
    );
}

#[test]
fn an_interrupt_at_a_template_is_no_second_dispatch() {
    let vm = vm(&[(&[0, 0, 177], &[])]);
    let nop = TEMPLATES;
    let ip = Address(address(nop));
    let mut s = Script::default().upcall().call(0);
    s.0.push(Item::Interrupt { ip });
    s.0.push(Item::Enter { ip });
    let s = s.op(Opcode::NOP).block(nop, nop + 2, Exit::Cut);
    let mut s = s;
    let middle = Address(address(nop + 2));
    s.0.push(Item::Interrupt { ip: middle });
    s.0.push(Item::Enter { ip: middle });
    let s = s.block(nop + 2, nop + 8, Exit::IndirectJump).op(Opcode::RETURN);
    assert_eq!(run(&vm, s), ["> m0", "m0@0", "m0@1", "m0@2"]);
}

fn row(start: u16, end: u16, handler: u16, catch_type: &str) -> ExceptionEntry {
    ExceptionEntry { start_bci: start, end_bci: end, handler_bci: handler, catch_type: Str::from(catch_type) }
}

impl Script {
    /// The VM found the handler at `bci`.
    fn handler(self, bci: u32) -> Self {
        self.reveal(REVEAL_HANDLER, bci).block(0x3400, 0x3408, Exit::IndirectJump)
    }
}

#[test]
fn an_error_in_the_search_for_a_handler_is_thrown_at_that_handler() {
    // m0: 0 aconst_null; 1 athrow; 2 nop; 3 nop; 4 pop; 5 return. The class of the first
    // handler cannot be loaded, nor can that of the handler that covers the first handler.
    let table = [row(0, 2, 2, "A"), row(2, 3, 3, "B"), row(3, 4, 4, "")];
    let vm = vm(&[(&[1, 191, 0, 0, 87, 177], &table), (&[177], &[])]);
    let thrown = || {
        let s = Script::default().upcall().call(0).op(Opcode::ACONST_NULL).op(Opcode::ATHROW);
        // The class loader is Java code.
        let s = s.at(THROW, Exit::IndirectJump).upcall().call(1).op(Opcode::RETURN);
        s.at(CALL_STUB_RETURN, Exit::Return)
    };
    let flow = ["> m0", "m0@0", "m0@1", "> m1", "m1@0", "< m1"];
    let caught = run(&vm, thrown().handler(4).op(Opcode::POP));
    assert_eq!(caught, [&flow[..], &["catch m0@4", "m0@4"]].concat());
    // No exception has such a handler.
    assert!(run(&vm, thrown().handler(5).op(Opcode::RETURN)).concat().contains("cannot go to value 5"));
}

#[test]
fn an_exception_from_outside_is_thrown_where_the_thread_stopped() {
    // m0: 0 nop; 1 goto 0; 4 pop; 5 return; only the target of the branch is covered.
    let vm = vm(&[(&[0, 167, 0xff, 0xff, 87, 177], &[row(0, 1, 4, "")])]);
    let looped = || Script::default().upcall().call(0).op(Opcode::NOP).op(Opcode::GOTO);
    let caught = ["> m0", "m0@0", "m0@1", "catch m0@4", "m0@4"];
    // The branch polls when the frame is at the target.
    let s = looped().at(SAFEPOINT, Exit::Call).at(FORWARD_EXCEPTION, Exit::IndirectJump);
    assert_eq!(run(&vm, s.at(RETHROW, Exit::Call).handler(4).op(Opcode::POP)), caught);
    // A breakpoint is set at the target.
    let s = looped().op(BREAKPOINT).at(FORWARD_EXCEPTION, Exit::IndirectJump);
    assert_eq!(run(&vm, s.at(RETHROW, Exit::Call).handler(4).op(Opcode::POP)), caught);
    // The branch increments its counter and enters the VM to compile. The VM finds the
    // exception.
    let s = looped().at(FORWARD_EXCEPTION, Exit::IndirectJump).at(RETHROW, Exit::Call).handler(4);
    assert_eq!(run(&vm, s.op(Opcode::POP)), caught);
    // Without an exception the bytecode begins.
    let s = looped().at(SAFEPOINT, Exit::IndirectJump).op(BREAKPOINT).op(Opcode::NOP).op(Opcode::GOTO);
    assert_eq!(run(&vm, s), ["> m0", "m0@0", "m0@1", "m0@0", "m0@1"]);
}

#[test]
fn a_debugger_pops_a_frame() {
    // m0: 0 invokestatic; 3 return   m1: 0 nop; 1 return
    let vm = vm(&[(&[184, 0, 1, 177], &[]), (&[0, 177], &[])]);
    let s = Script::default().upcall().call(0).op(Opcode::INVOKESTATIC).call(1).op(Opcode::NOP);
    let s = s.at(SAFEPOINT, Exit::Call).at(POP_FRAME, Exit::IndirectJump).op(Opcode::INVOKESTATIC).call(1);
    let popped = ["> m0", "m0@0", "> m1", "m1@0", "pop m1", "m0@0", "> m1"];
    assert_eq!(run(&vm, s), popped);
}

#[test]
fn a_debugger_makes_a_frame_return() {
    // m0: 0 invokestatic; 3 return   m1: 0 nop; 1 return
    let vm = vm(&[(&[184, 0, 1, 177], &[]), (&[0, 177], &[])]);
    let s = Script::default().upcall().call(0).op(Opcode::INVOKESTATIC).call(1).op(Opcode::NOP);
    let s = s.at(SAFEPOINT, Exit::Call).at(EARLY_RETURN, Exit::IndirectJump);
    let s = s.at(RETURN_ENTRY, Exit::IndirectJump).op(Opcode::RETURN).at(CALL_STUB_RETURN, Exit::Return);
    let early = ["> m0", "m0@0", "> m1", "m1@0", "early m1", "m0@3", "< m0"];
    assert_eq!(run(&vm, s), early);
    // It returns to the VM, which had called it.
    let s = Script::default().upcall().call(1).op(Opcode::NOP).at(EARLY_RETURN, Exit::IndirectJump);
    assert_eq!(run(&vm, s.at(CALL_STUB_RETURN, Exit::Return)), ["> m1", "m1@0", "early m1"]);
}

#[test]
fn a_debugger_makes_a_frame_return_whose_callee_it_has_popped() {
    // m0: 0 invokestatic; 3 return   m1: 0 nop; 1 invokestatic; 4 return   m2: 0 nop; 1 return
    let vm = vm(&[(&[184, 0, 1, 177], &[]), (&[0, 184, 0, 2, 177], &[]), (&[0, 177], &[])]);
    let s = Script::default().upcall().call(0).op(Opcode::INVOKESTATIC).call(1).op(Opcode::NOP);
    let s = s.op(Opcode::INVOKESTATIC).call(2).op(Opcode::NOP).at(SAFEPOINT, Exit::Call);
    // The invoke in `m1`, at bci 1, is to be executed again; the thread stops before it.
    let s = s.at(POP_FRAME, Exit::Call).reveal(REVEAL_POP_FRAME, 1).at(SAFEPOINT, Exit::Call);
    let s = s.at(EARLY_RETURN, Exit::IndirectJump).at(RETURN_ENTRY, Exit::IndirectJump).op(Opcode::RETURN);
    let flow = ["> m0", "m0@0", "> m1", "m1@0", "m1@1", "> m2", "m2@0", "pop m2", "early m1", "m0@3"];
    assert_eq!(run(&vm, s), flow);
}

#[test]
fn where_it_is_not_known_where_calls_of_the_vm_return_nothing_is() {
    // The VM was killed before it reported this.
    let methods: &[(&[u8], &[ExceptionEntry])] = &[(&[177], &[])];
    let s = || Script::default().upcall().call(0).op(Opcode::RETURN).at(CALL_STUB_RETURN, Exit::Return);
    let twice = || Script([s().0, s().0].concat());
    let known = ["call_stub", "call_stub_return", "catch_exception"];
    assert_eq!(run(&vm_that_names(&known, methods, &[]), twice()).len(), 6);
    for missing in 0..known.len() {
        let named: Vec<&str> = (0..known.len()).filter(|i| *i != missing).map(|i| known[i]).collect();
        let lines = run(&vm_that_names(&named, methods, &[]), twice());
        assert!(lines.len() == 1 && lines[0].contains("where its calls of Java code return"), "{lines:?}");
        // Nothing is lost before Java code runs.
        let stub = Script::default().block(0x3400, 0x3408, Exit::Return);
        assert!(run(&vm_that_names(&named, methods, &[]), stub).is_empty());
    }
}
