// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Stacks that are wrong as HotSpot's source predicts, and stacks that are wrong otherwise.

use std::io::Cursor;

use jportal_capture::codec::Bytes;
use jportal_capture::schema::*;
use jportal_flow::{ThreadInfo, Tier};
use jportal_reconstruct::{
    DepthRanges, LastRun, MachineFrame, Marked, Pause, PausedAt, PausedFrame, StackDepths, StateObserver,
    StateObservers,
};
use jportal_units::{Address, AddressRange, Bci, CodeId, MethodId, Tid, Tsc};
use jportal_vm_image::{Builder, VmImage};

use super::anytime::AnytimeJudge;
use super::compare::StackVerdict;
use super::judge::{StacksAnalysis, StacksOptions};
use super::log::{LoggedMethods, MAGIC, StackApi, StackLog};
use super::moments::MomentFinder;
use super::stacks_tests::{F, TID, header, sample_at};
use crate::testing::NoCode;

const SAFEPOINT: CodeId = CodeId(0);
const STUB: CodeId = CodeId(1);
const REFUSED: CodeId = CodeId(4);
/// Of `f`, with `g` inlined.
const NMETHOD: CodeId = CodeId(2);
/// Of `n`.
const WRAPPER: CodeId = CodeId(3);

const METHODS: &str = "id\tclass\tloader\tmethod\tdescriptor\n\
    50\ta/A\t1\tf\t()V\n51\ta/A\t1\tg\t()V\n52\ta/A\t1\th\t()V\n53\ta/A\t1\tk\t()V\n54\ta/A\t1\tn\t()V\n";

/// Offsets in the nmethod: three return addresses, a return instruction and the handlers of
/// deoptimisation.
const CALL_AT_F_2: u32 = 0x18;
const CALL_IN_G: u32 = 0x28;
const LAST_CALL: u32 = 0x38;
const RETURN: u32 = 0x50;
const OSR: u32 = 0x60;
const DEOPT: u32 = 0x80;
/// Offset of an instruction before which more is on the stack than the frame.
const PUSHED: u32 = 0x70;
/// A poll after the frame has been removed.
const POLL: u32 = 0x74;

fn image(osr_bci: i32) -> VmImage {
    image_with(osr_bci, None)
}

/// `flags`: of the method `g`.
fn image_with_flags(flags: u32) -> VmImage {
    image_of(INVOCATION_ENTRY_BCI, None, flags)
}

/// `invalid`: when the nmethod is invalidated.
fn image_with(osr_bci: i32, invalid: Option<u64>) -> VmImage {
    image_of(osr_bci, invalid, 8)
}

fn image_of(osr_bci: i32, invalid: Option<u64>, g: u32) -> VmImage {
    let mut b = Builder::default();
    let mut put = |record| b.record(Stamped { tsc: 1, record }, &mut NoCode);
    put(Record::ClassDefined(ClassDefined { klass: 5, name: "a/A".into(), ..Default::default() }));
    // 0 aload_0; 1 monitorenter; 2 nop; 3 nop; 4 nop; 5 nop; 6 return
    let code = [42, 194, 0, 0, 0, 0, 177];
    for (method, name, flags) in [(50, "f", 8), (51, "g", g), (52, "h", 8), (53, "k", 8), (54, "n", 0x108)] {
        put(Record::MethodDefined(MethodDefined {
            method,
            klass: 5,
            access_flags: flags,
            name: name.into(),
            signature: "()V".into(),
            code: Bytes(if flags & 0x100 == 0 { code.to_vec().into() } else { Vec::new().into() }),
            ..Default::default()
        }));
    }
    let blob = |start, kind, name: &str| {
        let (code, name) = (Bytes(vec![0x90; 16].into()), name.into());
        Record::BlobDefined(BlobDefined { start, kind, name, code, ..Default::default() })
    };
    put(blob(0x1000, blob_kinds::SAFEPOINT, "SafepointBlob"));
    put(blob(0x1100, blob_kinds::RUNTIME_STUB, "resolve_static_call"));
    let at = |pc_offset, scope| PcDescriptor { pc_offset, scope, flags: 0 };
    let frame = |parent, method, bci| Scope { parent, method, bci };
    let none = NMethodInstalled {
        osr_bci: INVOCATION_ENTRY_BCI,
        stub: 0x100,
        exception_handler: u32::MAX,
        deopt_handler: u32::MAX,
        deopt_mh_handler: u32::MAX,
        unwind_handler: u32::MAX,
        code: Bytes(vec![0x90; 0x120].into()),
        ..Default::default()
    };
    put(Record::NMethodInstalled(NMethodInstalled {
        start: 0x2000,
        method: 50,
        nmethod: 7,
        compiler: compilers::C1,
        osr_bci,
        osr_entry: OSR,
        deopt_handler: DEOPT,
        scopes: vec![frame(NO_SCOPE, 50, 2), frame(NO_SCOPE, 50, 5), frame(1, 51, 3)],
        pc_descs: vec![at(CALL_AT_F_2, 0), at(CALL_IN_G, 2), at(LAST_CALL, 1)],
        ..none.clone()
    }));
    put(Record::NMethodInstalled(NMethodInstalled {
        start: 0x3000,
        method: 54,
        nmethod: 8,
        compiler: compilers::NATIVE_WRAPPER,
        ..none
    }));
    put(blob(0x4000, blob_kinds::RUNTIME_STUB, "_new_array_Java"));
    if let Some(tsc) = invalid {
        let state = nmethod_states::NOT_ENTRANT;
        let record = Record::NMethodStateChanged(NMethodStateChanged { nmethod: 7, state });
        b.record(Stamped { tsc, record }, &mut NoCode);
    }
    b.finish()
}

const CALL_STUB: MachineFrame = MachineFrame::CallStub;
const INTERPRETED: MachineFrame = MachineFrame::Interpreter;

/// `f`, compiled, which called something.
const fn compiled(end: u32) -> MachineFrame {
    MachineFrame::Compiled { code: NMETHOD, depth: 1, end: Some(end) }
}

fn frame(method: u32, bci: u16, tier: Tier) -> PausedFrame {
    let bci = Some(Bci(bci)).filter(|_| tier != Tier::Native);
    PausedFrame { method: MethodId(method), bci, tier, inlined: false }
}

/// `h`, interpreted, at 2, called `f`, compiled, at 2; `above` lies over them.
fn pause(at: PausedAt, above: &[(PausedFrame, MachineFrame)]) -> Pause {
    let below = [frame(2, 2, Tier::Interpreter), frame(0, 2, Tier::C1)];
    let machine = [CALL_STUB, INTERPRETED, compiled(CALL_AT_F_2)];
    Pause {
        since: Tsc(100),
        until: Tsc(200),
        ip: None,
        at,
        frames: below.into_iter().chain(above.iter().map(|a| a.0)).collect(),
        machine: machine.into_iter().chain(above.iter().map(|a| a.1)).collect(),
        returns: false,
        before: None,
        removing: None,
        last: above.is_empty().then_some(LastRun { code: NMETHOD, end: CALL_AT_F_2, cut: false }),
        recent: Vec::new(),
        throwing: false,
        whole: true,
        lost: false,
        event: 7,
    }
}

/// The interpreted method `k` at 1.
const fn interpreted() -> (PausedFrame, MachineFrame) {
    let (method, tier) = (MethodId(3), Tier::Interpreter);
    (PausedFrame { method, bci: Some(Bci(1)), tier, inlined: false }, INTERPRETED)
}

/// The verdict on `frames`, taken by a signal in the pause.
#[track_caller]
fn verdict(pause: &Pause, frames: &[F]) -> String {
    verdict_of(StackApi::AsgctAsync, &image(INVOCATION_ENTRY_BCI), pause, frames)
}

#[track_caller]
fn verdict_of(api: StackApi, image: &VmImage, pause: &Pause, frames: &[F]) -> String {
    let (number, pc) = if api == StackApi::AsgctAsync { (5, 0xf000) } else { (6, 160) };
    let sample = sample_at(number, 0, frames.len() as i32, frames, (150, pc));
    let log = StackLog::open(Box::new(Cursor::new([header(MAGIC, 1), sample].concat()))).unwrap();
    let cache = AddressRange { start: Address(0x1000), end: Address(0x9000) };
    let finder = MomentFinder::new(vec![log], Vec::new(), cache);
    let info = ThreadInfo { tid: Tid(TID), java_tid: 1, name: "main".to_owned(), started: Tsc(1) };
    let mut thread: Box<dyn StateObserver> = finder.thread(&info);
    thread.paused(pause.clone());
    thread.end();
    let logged = LoggedMethods::read(METHODS.as_bytes()).unwrap();
    let apis = StackApi::ALL.to_vec();
    let options = StacksOptions { findings: 9, capture: "x.jportal".into(), apis, anytime: true };
    let ranges = DepthRanges {
        pushed: std::iter::once(PUSHED..PUSHED + 1).collect(),
        removed: std::iter::once(POLL..POLL + 1).collect(),
    };
    let depths = StackDepths::from_iter([(NMETHOD, ranges)]);
    let counts = AnytimeJudge::new(image, image.table(), &logged, depths, options.clone()).judge(finder);
    let table = std::sync::Arc::new(image.table().clone());
    let report = StacksAnalysis::new(table, &logged, Vec::new(), Vec::new(), options).finish_with(counts);
    let row = &report.apis[0];
    let broken = row.verdicts.keys().all(|v| v.is_broken());
    assert_eq!(report.broken, u64::from(broken), "{}", report.text());
    match row.details.keys().next() {
        Some(detail) if !broken => detail.clone(),
        _ if row.verdicts.contains_key(&StackVerdict::NotJudged) => report.not_judged[0].why.to_owned(),
        _ => row.verdicts.keys().next().unwrap().name().to_owned(),
    }
}

/// The frames of `h` at 2, `f` at 2 and 5, `g` at 3, `k` at 1 and `n`.
const H: F = (0x52, 2);
const F_2: F = (0x50, 2);
const F_5: F = (0x50, 5);
const G: F = (0x51, 3);
const K: F = (0x53, 1);
const N: F = (0x54, -3);

#[test]
fn below_a_stub_the_debug_info_is_the_next_one_after_the_return_address() {
    let at_call = pause(PausedAt::Outside, &[]);
    assert_eq!(verdict(&at_call, &[F_2, H]), "equal");
    assert_eq!(verdict(&at_call, &[G, F_5, H]), "imprecise/below-stub");
    for wrong in [&[F_5, H][..], &[G, F_2, H], &[G, F_5], &[H]] {
        assert!(!verdict(&at_call, wrong).starts_with("imprecise"), "{wrong:?}");
    }
    // GetStackTrace has the anchor.
    let other = verdict_of(StackApi::GstOther, &image(INVOCATION_ENTRY_BCI), &at_call, &[G, F_5, H]);
    assert_eq!(other, "too-many");
    // No debug info follows: that of the return address, else the method alone.
    let after = |end| {
        let mut pause = pause(PausedAt::Outside, &[]);
        pause.machine[2] = compiled(end);
        pause
    };
    assert_eq!(verdict(&after(LAST_CALL), &[F_5, H]), "imprecise/below-stub");
    assert_eq!(verdict(&after(LAST_CALL + 1), &[(0x50, 0), H]), "imprecise/below-stub");
    assert_eq!(verdict(&after(LAST_CALL), &[(0x50, 0), H]), "wrong-location");
}

#[test]
fn a_leaf_without_a_frame_hides_the_frame_that_has_set_the_frame_pointer() {
    let in_leaf = pause(PausedAt::Outside, &[interpreted()]);
    assert_eq!(verdict(&in_leaf, &[K, F_2, H]), "equal");
    // The walk begins at the return address of `k`, in compiled code.
    let mut last = in_leaf.clone();
    last.recent = vec![Bci(1)];
    assert_eq!(verdict(&last, &[G, F_5, H]), "imprecise/leaf");
    assert_eq!(verdict(&last, &[G, F_5]), "imprecise/leaf", "the locals of `k` move the frame below");
    for wrong in [&[F_2, H][..], &[H], &[G], &[K, H]] {
        assert!(!verdict(&last, wrong).contains('/'), "{wrong:?}");
    }
    // An adapter has left a return address where the walk looks for one.
    assert_eq!(verdict(&last, &[G, F_5, F_2, H]), "unpredictable/leaf");
    assert_eq!(verdict(&last, &[G, F_2, H]), "wrong-method", "the first frames are known");
    // Compiled code leaves the frame pointer alone: it is that of `h`, which nothing has called.
    let at_call = pause(PausedAt::Outside, &[]);
    assert_eq!(verdict(&at_call, &[H]), "too-few");
    // Inside the code cache the same frames cannot be missing.
    let ip = Pause { at: PausedAt::Interpreter, ..last };
    assert_eq!(verdict(&ip, &[G, F_5, H]), "wrong-method");
}

#[test]
fn below_the_call_stub_the_walk_goes_on_at_the_frame_that_called_the_vm() {
    let upcall =
        [(frame(4, 0, Tier::Native), MachineFrame::Wrapper), (frame(3, 1, Tier::Interpreter), INTERPRETED)];
    let mut pause = pause(PausedAt::Outside, &upcall);
    pause.machine.insert(4, CALL_STUB);
    pause.recent = vec![Bci(1)];
    assert_eq!(verdict(&pause, &[K, N, F_2, H]), "equal");
    assert_eq!(verdict(&pause, &[N, F_2, H]), "imprecise/leaf");
    assert_eq!(verdict(&pause, &[F_2, H]), "too-few");
}

#[test]
fn a_frame_that_is_being_built_is_missing_with_the_compiled_ones_below() {
    let entering = pause(PausedAt::Interpreter, &[interpreted()]);
    assert_eq!(verdict(&entering, &[H]), "imprecise/not-entered");
    assert_eq!(verdict(&entering, &[G, F_5, H]), "imprecise/not-entered");
    assert_eq!(verdict(&entering, &[F_2, H]), "too-few", "not the debug info of the return address");
    let later = Pause { recent: vec![Bci(0), Bci(1)], ..entering.clone() };
    assert_eq!(verdict(&later, &[H]), "too-few");
    // The frame pointer is that of the call stub, which is no frame of the interpreter.
    let mut upcall = entering;
    upcall.machine.insert(2, CALL_STUB);
    assert_eq!(verdict(&upcall, &[H]), "too-few");
}

#[test]
fn at_a_return_instruction_only_the_code_s_own_frames_are_predicted() {
    let at = |returns| {
        let (from, marked) = (RETURN, Marked::Entry);
        pause(PausedAt::Compiled { code: NMETHOD, from, offset: RETURN, marked, returns }, &[])
    };
    let own = (0x50, 0);
    assert_eq!(verdict(&at(true), &[own, H]), "equal");
    for wrong in [&[own, K, H][..], &[own, G], &[own]] {
        assert_eq!(verdict(&at(true), wrong), "unpredictable/removed", "{wrong:?}");
        assert!(!verdict(&at(false), wrong).contains('/'), "{wrong:?}");
    }
    for wrong in [&[F_5, K][..], &[H], &[own, (0, 1)]] {
        assert!(!verdict(&at(true), wrong).contains('/'), "{wrong:?}");
    }
    // The same in a native wrapper.
    let native = (frame(4, 0, Tier::Native), MachineFrame::Wrapper);
    let wrapper = pause(PausedAt::Stub { code: WRAPPER, offset: 8 }, &[native]);
    assert_eq!(verdict(&wrapper, &[N, F_2, H]), "equal");
    assert_eq!(verdict(&wrapper, &[N, K, H]), "wrong-method");
    let returning = Pause { returns: true, ..wrapper };
    assert_eq!(verdict(&returning, &[N, K, H]), "unpredictable/removed");
    assert_eq!(verdict(&returning, &[F_2, H]), "too-few");
}

#[test]
fn code_whose_frame_has_another_size_leads_anywhere() {
    let in_blob = |code| pause(PausedAt::Stub { code, offset: 0 }, &[]);
    assert_eq!(verdict(&in_blob(SAFEPOINT), &[K]), "unpredictable/incomplete");
    assert_eq!(verdict(&in_blob(SAFEPOINT), &[(0, 1)]), "wrong-method", "a method that is none");
    assert_eq!(verdict(&in_blob(STUB), &[K, H]), "wrong-method");
    assert_eq!(verdict(&in_blob(STUB), &[G, F_5, H]), "imprecise/below-stub");
    // The VM refuses to walk from a stub of a compiler's runtime.
    assert_ne!(verdict(&in_blob(REFUSED), &[G, F_5, H]), "imprecise/below-stub");
    let returning = Pause { returns: true, ..in_blob(STUB) };
    assert_eq!(verdict(&returning, &[K, H]), "unpredictable/removed");
    // The handlers of deoptimisation push an address.
    let handler = |offset| pause(PausedAt::Stub { code: NMETHOD, offset }, &[]);
    assert_eq!(verdict(&handler(DEOPT), &[(0x50, 0), K]), "unpredictable/incomplete");
    assert_eq!(verdict(&handler(DEOPT - 1), &[(0x50, 0), K]), "wrong-method");
    // C1's OSR entry lies after the place from which on the normal frame is complete.
    let (from, marked) = (OSR, Marked::Entry);
    let at = PausedAt::Compiled { code: NMETHOD, from, offset: OSR, marked, returns: false };
    let osr = |bci, frames: &[F]| verdict_of(StackApi::AsgctAsync, &image(bci), &pause(at, &[]), frames);
    assert_eq!(osr(2, &[(0x50, 0), K]), "unpredictable/incomplete");
    assert_eq!(osr(INVOCATION_ENTRY_BCI, &[(0x50, 0), K]), "wrong-method");
    // An intrinsic has pushed registers.
    let inside = |offset| {
        let at = PausedAt::Compiled { code: NMETHOD, from, offset, marked, returns: false };
        verdict(&pause(at, &[]), &[(0x50, 0), K])
    };
    assert_eq!(inside(PUSHED), "unpredictable/pushed");
    assert_eq!(inside(PUSHED + 1), "wrong-method");
    assert_eq!(inside(POLL), "unpredictable/removed");
    assert_eq!(inside(POLL + 1), "wrong-method");
}

/// C1 unlocks an inlined synchronized method that an exception leaves, and throws in its caller.
#[test]
fn an_inlined_method_that_has_unlocked_may_be_gone() {
    let mut image = image_with_flags(0x28);
    let mut at_call = pause(PausedAt::Outside, &[]);
    at_call.frames.push(PausedFrame { inlined: true, ..frame(1, 3, Tier::C1) });
    at_call.machine[2] = MachineFrame::Compiled { code: NMETHOD, depth: 2, end: Some(CALL_AT_F_2) };
    let of = |image: &VmImage, frames: &[F]| verdict_of(StackApi::GstOther, image, &at_call, frames);
    assert_eq!(of(&image, &[G, F_2, H]), "equal");
    assert_eq!(of(&image, &[F_2, H]), "equal");
    assert_eq!(of(&image, &[H]), "too-few");
    let thrown = Some(LastRun { code: NMETHOD, end: CALL_AT_F_2 + 15, cut: false });
    let thrown = Pause { last: thrown, ..at_call.clone() };
    assert_eq!(verdict_of(StackApi::GstOther, &image, &thrown, &[F_2, H]), "equal");
    image = image_with_flags(0x8);
    assert_eq!(of(&image, &[F_2, H]), "inline-frames-missing", "no lock");
}

#[test]
fn the_walk_ends_above_invalidated_code() {
    let calling = Pause { recent: vec![Bci(1)], ..pause(PausedAt::Outside, &[interpreted()]) };
    assert_eq!(verdict(&calling, &[K]), "too-few");
    let invalid = |tsc| image_with(INVOCATION_ENTRY_BCI, Some(tsc));
    let of = |image: &VmImage, frames: &[F]| verdict_of(StackApi::AsgctAsync, image, &calling, frames);
    assert_eq!(of(&invalid(150), &[K]), "imprecise/deoptimised");
    assert_eq!(of(&invalid(150), &[(0x53, 2)]), "imprecise/deoptimised", "with another difference");
    assert_eq!(of(&invalid(201), &[K]), "too-few", "invalidated later");
    assert_eq!(of(&invalid(150), &[K, F_2]), "too-few");
    assert_eq!(of(&invalid(150), &[K, F_2, H]), "equal");
    // GetStackTrace knows the original address.
    assert_eq!(verdict_of(StackApi::GstOther, &invalid(150), &calling, &[K]), "too-few");
}

#[test]
fn the_walk_ends_above_a_stub_of_c1_that_called_java() {
    let mut upcall = Pause { recent: vec![Bci(1)], ..pause(PausedAt::Outside, &[interpreted()]) };
    assert_eq!(verdict(&upcall, &[K]), "too-few", "no call of the VM");
    upcall.machine.insert(3, CALL_STUB);
    assert_eq!(verdict(&upcall, &[K]), "imprecise/c1-stub");
    assert_eq!(verdict(&upcall, &[K, F_2]), "too-few");
    // Interpreted code calls the VM without a stub.
    let (h, k) = ((frame(2, 2, Tier::Interpreter), INTERPRETED), interpreted());
    let mut other = Pause { recent: vec![Bci(1)], ..pause(PausedAt::Outside, &[h, k]) };
    other.machine.insert(4, CALL_STUB);
    assert_eq!(verdict(&other, &[K]), "too-few");
}

#[test]
fn the_interpreter_locks_at_the_next_bytecode() {
    let locking = Pause { recent: vec![Bci(1)], ..pause(PausedAt::Outside, &[interpreted()]) };
    let next = (0x53, 2);
    assert_eq!(verdict(&locking, &[next, F_2, H]), "equal");
    let other = verdict_of(StackApi::GstOther, &image(INVOCATION_ENTRY_BCI), &locking, &[next, F_2, H]);
    assert_eq!(other, "equal");
    assert_eq!(verdict(&locking, &[(0x53, 3), F_2, H]), "wrong-location");
}
