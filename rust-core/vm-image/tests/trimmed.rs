// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! At each time after the horizon, a trimmed capture describes the same VM as the whole one.
//! Random VMs load and unload classes, compile, patch and free code, all at few addresses.

use allocator_api2::alloc::Global;
use fastrand::Rng;
use jportal_capture::schema::{
    BlobDefined, ClassDefined, ClassUnloaded, CodeFreed, CodePatched, MethodDefined, MethodFreed, MethodStub,
    NMethodInstalled, NMethodStateChanged, NO_SCOPE, Resolution, Scope, ThreadExited, ThreadStarted,
    compilers,
};
use jportal_capture::{CaptureReader, CaptureWriter, Header, Record, Stamped, encode_frame};
use jportal_units::{Address, CodeId, MethodId, MethodPtr, Tid, Tsc};
use jportal_vm_image::{Builder, CodeBody, CodeSink, Oddity, VmImage};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;

const METHODS: u64 = 24;
const SLOTS: u64 = 8;
const SLOT: u64 = 0x40;
const STUBS: u64 = 0x9000;

/// A VM at some time, and its records up to then.
#[derive(Default)]
struct RandomVm {
    now: u64,
    records: Vec<Stamped>,
    /// Classes with their methods.
    classes: BTreeMap<u64, Vec<u64>>,
    code: BTreeSet<u64>,
    threads: BTreeSet<u32>,
    /// By address: the name of the last method.
    names: BTreeMap<u64, String>,
    /// By name of a method: when it ended.
    ended: BTreeMap<String, u64>,
}

impl RandomVm {
    fn new(rng: &mut Rng, steps: usize) -> Self {
        let mut vm = Self::default();
        let code = vec![0x90; METHODS as usize * 8][..].into();
        vm.commit(rng, Record::BlobDefined(BlobDefined { start: STUBS, code, ..BlobDefined::default() }));
        for _ in 0..steps {
            vm.step(rng);
        }
        vm
    }

    fn commit(&mut self, rng: &mut Rng, record: Record) {
        self.now += rng.u64(1..4);
        self.records.push(Stamped { tsc: self.now, record });
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.u8(..20) {
            0..3 => self.load(rng),
            3..5 => self.unload(rng),
            5..9 => self.compile(rng),
            9..11 => self.free(rng),
            11..15 => self.patch(rng),
            15 => {
                if let Some(&start) = rng.choice(&self.code) {
                    let change = NMethodStateChanged { nmethod: start - 8, state: 1 };
                    self.commit(rng, Record::NMethodStateChanged(change));
                }
            }
            16 => self.free_method(rng),
            17 => {
                if let (Some(&tid), Some(&start)) = (rng.choice(&self.threads), rng.choice(&self.code)) {
                    let return_address = start + rng.u64(1..SLOT);
                    self.commit(rng, Record::Resolution(Resolution { tid, return_address }));
                }
            }
            _ => self.thread(rng),
        }
    }

    fn load(&mut self, rng: &mut Rng) {
        let klass = 0x100 + rng.u64(..8);
        if self.classes.contains_key(&klass) {
            return;
        }
        let super_klass = rng.choice(self.classes.keys()).copied().unwrap_or(0);
        let name = format!("C{}", self.now);
        let class =
            ClassDefined { klass, super_klass, name: name.as_str().into(), ..ClassDefined::default() };
        let used: BTreeSet<u64> = self.classes.values().flatten().copied().collect();
        let free: Vec<u64> = (0..METHODS).filter(|m| !used.contains(&(0x1000 + m))).collect();
        let own: Vec<u64> = rng.choose_multiple(free, 3).into_iter().map(|m| 0x1000 + m).collect();
        // As the VM does, which links a class before it describes it.
        for &method in &own {
            let address = STUBS + (method - 0x1000) * 8;
            self.commit(rng, Record::MethodStub(MethodStub { method, address, target: 0x8000 }));
        }
        self.commit(rng, Record::ClassDefined(class));
        for &method in &own {
            let name = format!("m{}", self.now);
            self.names.insert(method, name.clone());
            let name = name.as_str().into();
            self.commit(
                rng,
                Record::MethodDefined(MethodDefined { method, klass, name, ..MethodDefined::default() }),
            );
        }
        self.classes.insert(klass, own);
    }

    fn unload(&mut self, rng: &mut Rng) {
        let Some(&klass) = rng.choice(self.classes.keys()) else { return };
        let own = self.classes.remove(&klass).unwrap_or_default();
        self.commit(rng, Record::ClassUnloaded(ClassUnloaded { klass }));
        own.iter().for_each(|method| self.end(*method));
    }

    fn free_method(&mut self, rng: &mut Rng) {
        let Some((_, own)) = rng.choice(self.classes.iter_mut()) else { return };
        if let Some(method) = own.pop() {
            self.commit(rng, Record::MethodFreed(MethodFreed { method }));
            self.end(method);
        }
    }

    fn end(&mut self, method: u64) {
        self.ended.insert(self.names[&method].clone(), self.now);
    }

    fn compile(&mut self, rng: &mut Rng) {
        let start = 0x4000 + rng.u64(..SLOTS) * SLOT;
        let methods: Vec<u64> = self.classes.values().flatten().copied().collect();
        let Some(&method) = rng.choice(&methods) else { return };
        if !self.code.insert(start) {
            return;
        }
        let mut scopes = vec![Scope { parent: NO_SCOPE, method, bci: 0 }];
        scopes.push(Scope { parent: 0, method: *rng.choice(&methods).unwrap(), bci: 0 });
        let code: Vec<u8> = (0..SLOT).map(|_| rng.u8(..)).collect();
        let nmethod = NMethodInstalled {
            start,
            method,
            nmethod: start - 8,
            compiler: compilers::C1,
            code: code[..].into(),
            scopes,
            ..NMethodInstalled::default()
        };
        self.commit(rng, Record::NMethodInstalled(nmethod));
    }

    fn free(&mut self, rng: &mut Rng) {
        if let Some(&start) = rng.choice(&self.code) {
            self.code.remove(&start);
            self.commit(rng, Record::CodeFreed(CodeFreed { start, size: SLOT }));
        }
    }

    fn patch(&mut self, rng: &mut Rng) {
        if let Some(&start) = rng.choice(&self.code) {
            let at = 4 * rng.u64(..8);
            let code: Vec<u8> = (0..rng.usize(1..8)).map(|_| rng.u8(..)).collect();
            let patch = CodePatched { address: start + at, code: code[..].into(), ..CodePatched::default() };
            self.commit(rng, Record::CodePatched(patch));
        }
    }

    fn thread(&mut self, rng: &mut Rng) {
        let tid = rng.u32(1..6);
        let record = if self.threads.remove(&tid) {
            Record::ThreadExited(ThreadExited { tid, ..ThreadExited::default() })
        } else {
            self.threads.insert(tid);
            let name = format!("t{}", self.now);
            Record::ThreadStarted(ThreadStarted {
                tid,
                name: name.as_str().into(),
                ..ThreadStarted::default()
            })
        };
        self.commit(rng, record);
    }
}

/// The bytes of code at the present time, and what happens after the horizon.
#[derive(Default)]
struct Memory {
    horizon: u64,
    bytes: BTreeMap<u64, u8>,
    /// The bytes at the horizon.
    then: Option<BTreeMap<u64, u8>>,
    later: Vec<(u64, u64, Vec<u8>)>,
}

impl Memory {
    fn write(&mut self, tsc: Tsc, start: Address, bytes: &[u8]) {
        self.reach(tsc);
        self.bytes.extend(bytes.iter().enumerate().map(|(n, b)| (start.0 + n as u64, *b)));
        if tsc.0 >= self.horizon {
            self.later.push((tsc.0, start.0, bytes.to_vec()));
        }
    }
    fn reach(&mut self, tsc: Tsc) {
        if tsc.0 >= self.horizon && self.then.is_none() {
            // `stub_at` says whose the stubs are.
            let is_stub = |at: &u64| (STUBS..STUBS + METHODS * 8).contains(at);
            self.then = Some(self.bytes.iter().filter(|b| !is_stub(b.0)).map(|(a, b)| (*a, *b)).collect());
        }
    }
}

impl CodeSink for Memory {
    fn install(&mut self, tsc: Tsc, start: Address, bytes: &[u8], _: CodeId) {
        self.write(tsc, start, bytes);
    }
    fn patch(&mut self, tsc: Tsc, _: Option<Tsc>, start: Address, bytes: &[u8], _: Option<Tid>, _: u8) {
        self.write(tsc, start, bytes);
    }
    fn free(&mut self, tsc: Tsc, start: Address, size: u64) {
        self.reach(tsc);
        self.bytes.retain(|at, _| !(start.0..start.0 + size).contains(at));
        if tsc.0 >= self.horizon {
            self.later.push((tsc.0, start.0, Vec::new()));
        }
    }
    fn resolution(&mut self, tsc: Tsc, thread: Tid, returns: Address) {
        self.reach(tsc);
        if tsc.0 >= self.horizon {
            self.later.push((tsc.0, returns.0, vec![thread.0 as u8]));
        }
    }
}

fn image(reader: &CaptureReader, horizon: u64) -> (VmImage, Memory) {
    let (mut builder, mut memory) = (Builder::default(), Memory { horizon, ..Memory::default() });
    reader.metadata().for_each(|record| builder.record(record.unwrap(), &mut memory));
    memory.reach(Tsc(u64::MAX));
    (builder.finish(), memory)
}

/// What an image says of the times from the horizon on, in words without numbers that depend on
/// what was left out.
fn says(image: &VmImage, horizon: u64, vm: &RandomVm) -> Vec<String> {
    let name = |id: Option<MethodId>| {
        id.and_then(|id| image.table().get(id)).map(|m| format!("{}.{}", m.class_name, m.name))
    };
    let mut all = Vec::new();
    for code in image.codes().iter().filter(|c| c.freed.is_none_or(|t| t.0 >= horizon)) {
        let body = match &code.body {
            CodeBody::NMethod(n) => {
                let scopes: Vec<_> = n.scopes.iter().map(|s| name(s.method)).collect();
                format!("{:?} {scopes:?} {:?}", name(n.method), n.states)
            }
            _ => String::new(),
        };
        all.push(format!("{:?} {:?} {:?} {body}", code.range, code.installed, code.freed));
    }
    // The stub of a method that ended before the horizon may be described or not, and a stub counts
    // before its time if there is no earlier one. The name has the time of the method.
    let lives = |id: &MethodId, tsc: u64| {
        let name = image.table().get(*id).map(|m| &*m.name).unwrap_or_default();
        let began: u64 = name[1..].parse().unwrap();
        began <= tsc && vm.ended.get(name).is_none_or(|t| *t >= horizon)
    };
    for tsc in horizon..=vm.now {
        let stub = |n| image.stub_at(Address(STUBS + 8 * n), Tsc(tsc)).filter(|id| lives(id, tsc));
        all.push(format!("{:?}", (0..METHODS).map(|n| name(stub(n))).collect::<Vec<_>>()));
    }
    for span in image.threads.iter().filter(|s| s.exited.is_none_or(|t| t.0 >= horizon)) {
        all.push(format!("{} {:?} {:?}", span.name, span.started, span.exited));
    }
    all
}

#[test]
fn a_trimmed_capture_describes_the_same_vm() {
    let folder = tempfile::tempdir().unwrap();
    let uid = std::fs::metadata(folder.path()).unwrap().uid();
    let (path, other) = (folder.path().join("whole"), folder.path().join("trimmed"));
    let mut left = (0, 0);
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let vm = RandomVm::new(&mut rng, 400);
        let mut writer = CaptureWriter::create(&path).unwrap();
        writer.header(&Header::default()).unwrap();
        let mut bytes = Vec::new();
        vm.records.iter().for_each(|record| encode_frame(record, &mut bytes));
        writer.metadata(&bytes).unwrap();
        let horizon = rng.u64(0..vm.now);
        let copy = writer.copy().unwrap().trimmed_to(&other, uid, Tsc(horizon), &|| true, Global).unwrap();
        let whole = CaptureReader::open(&path).unwrap();
        drop(copy.take_place(&path).unwrap());
        let trimmed = CaptureReader::open(&path).unwrap();
        left = (left.0 + whole.metadata().count(), left.1 + trimmed.metadata().count());
        let (a, b) = (image(&whole, horizon), image(&trimmed, horizon));
        // No compiler made this code, so its debug info is flawed. Nothing is unknown.
        let unknown = b.0.oddities.iter().find(|o| !matches!(o, Oddity::Flawed(_)));
        assert_eq!(unknown, None, "seed {seed}");
        assert_eq!(a.1.then, b.1.then, "code at the horizon, seed {seed}");
        assert_eq!(a.1.later, b.1.later, "seed {seed}");
        let live = |m: &VmImage| {
            let named = |ptr: u64| m.methods.at(MethodPtr(ptr), Tsc(vm.now)).and_then(|id| m.table().get(id));
            let of = |ptr| named(ptr).map(|m| (m.class_name.clone(), m.name.clone()));
            vm.classes.values().flatten().map(|&ptr| of(ptr)).collect::<Vec<_>>()
        };
        assert_eq!(live(&a.0), live(&b.0), "seed {seed}");
        let (a, b) = (says(&a.0, horizon, &vm), says(&b.0, horizon, &vm));
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(a, b, "seed {seed}, horizon {horizon}");
        }
        assert_eq!(a.len(), b.len(), "seed {seed}");
    }
    assert!(left.1 * 4 < left.0 * 3, "{} of {} records are left", left.1, left.0);
}
