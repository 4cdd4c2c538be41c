// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Random programs and their execution.

use super::Rng;
use super::unit::{EncodingOptions, SimulatedUnit};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use jportal_machine_flow::{CodeHistory, Exit, Item, MachineGap, MachineGapReason, Patch, Target};
use jportal_units::{Address, AddressRange, CodeId, StreamOffset, Tsc};

pub const LOW: u64 = 0x7f00_1000_0000;
pub const SIZE: u64 = 0x8000;
const SLOT: u64 = 0x800;
const SLOTS: u64 = SIZE / SLOT;
/// An address outside the code cache.
const ELSEWHERE: u64 = LOW - 0x1000;

/// How the code changes.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// Number of instructions per change; 0 for no changes.
    pub every: u64,
    /// Maximal number of ticks by which a record is stamped after its store.
    pub late: u64,
    /// Maximal number of ticks by which a record is stamped before the core sees the change.
    pub early: u64,
}

pub struct SimulatedRun {
    pub history: CodeHistory,
    pub trace: Vec<u8>,
    pub truth: Vec<Item>,
    /// (bytes written, time), ascending.
    pub times: Vec<(usize, u64)>,
    pub changes: u64,
}

impl SimulatedRun {
    /// A time after which nothing of the first `bytes` bytes happened.
    pub fn latest(&self, bytes: usize) -> Tsc {
        let after = self.times.partition_point(|&(len, _)| len < bytes);
        Tsc(self.times.get(after).map_or(u64::MAX, |&(_, tsc)| tsc))
    }
}

struct SimulatedMachine {
    memory: Vec<u8>,
    owners: Vec<Option<CodeId>>,
    calls: Vec<(u64, u64)>, // (slot, address of a direct call's displacement)
    stack: Vec<u64>,
    next_code: u32,
    history: CodeHistory,
    rng: Rng,
    changes: Changes,
    changed: u64,
    tsc: u64,
    stamps: [u64; SLOTS as usize],
    unit: SimulatedUnit,
}

/// Runs a random program for `steps` instructions.
pub fn run(seed: u64, steps: u64, options: EncodingOptions, changes: Changes) -> SimulatedRun {
    let mut rng = Rng(seed | 1);
    let unit = SimulatedUnit::new(options, Rng(rng.next() | 1));
    let mut machine = SimulatedMachine {
        memory: vec![0; SIZE as usize],
        owners: vec![None; SIZE as usize],
        calls: Vec::new(),
        stack: Vec::new(),
        next_code: 0,
        history: CodeHistory::new(AddressRange::at(Address(LOW), SIZE)).unwrap(),
        rng,
        changes,
        changed: 0,
        tsc: 1000,
        stamps: [0; SLOTS as usize],
        unit,
    };
    for slot in 0..SLOTS {
        machine.install(slot, 1 + slot);
    }
    machine.execute(steps);
    let (trace, truth, times) = machine.unit.finish();
    SimulatedRun { history: machine.history, trace, truth, times, changes: machine.changed }
}

impl SimulatedMachine {
    /// Installs new code in a slot: a prologue whose packets identify the code, then a random body.
    fn install(&mut self, slot: u64, tsc: u64) {
        let code = CodeId(self.next_code);
        self.next_code += 1;
        let start = slot * SLOT;
        let bytes = self.function(slot, code.0);
        self.write(start, &bytes);
        self.owners[start as usize..(start + SLOT) as usize].fill(None);
        self.owners[start as usize..start as usize + bytes.len()].fill(Some(code));
        self.history.install(Tsc(tsc), Address(LOW + start), &bytes, code).unwrap();
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.memory[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn function(&mut self, slot: u64, signature: u32) -> Vec<u8> {
        let base = slot * SLOT;
        self.calls.retain(|&(s, _)| s != slot);
        let mut b = vec![0x0f, 0x1f, 0x80, 0, 0, 0, 0];
        sign(&mut b, signature);
        let mut starts = Vec::new();
        for _ in 0..2 + self.rng.below(6) {
            starts.push(b.len());
            self.filler(&mut b);
            if self.terminator(&mut b, slot, base, &starts) {
                sign(&mut b, signature);
            }
        }
        b.push(0xc3);
        assert!(b.len() < SLOT as usize);
        b
    }

    fn filler(&mut self, b: &mut Vec<u8>) {
        match self.rng.below(8) {
            0 => b.extend([0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8]),
            1 if b.len() < 900 => b.extend([0x90; 300]),
            n => b.extend(vec![0x90; n as usize]),
        }
    }

    /// Appends a branch. Returns whether it is a call that returns.
    fn terminator(&mut self, b: &mut Vec<u8>, slot: u64, base: u64, starts: &[usize]) -> bool {
        let leaf = slot + 1 >= SLOTS;
        match self.rng.below(8) {
            0 | 1 => {
                // Backwards or forwards. Going forwards, control reaches the final return at the
                // latest.
                let to = starts[self.rng.below(starts.len() as u64) as usize] as i32;
                b.extend([0x0f, 0x85]);
                b.extend((to - (b.len() as i32 + 4)).to_le_bytes());
            }
            2 => b.extend([0x74, 0x00]),
            3 => b.extend([0xe9, 0, 0, 0, 0]),
            4 | 5 if !leaf => {
                let to = (slot + 1 + self.rng.below(SLOTS - slot - 1)) * SLOT;
                b.push(0xe8);
                self.calls.push((slot, base + b.len() as u64));
                b.extend((to as i32 - (base as i32 + b.len() as i32 + 4)).to_le_bytes());
                return true;
            }
            6 if !leaf => {
                b.extend([0xff, 0xd0]);
                return true;
            }
            7 => {
                b.push(0xe8);
                b.extend(
                    (ELSEWHERE.wrapping_sub(LOW) as i32 - (base as i32 + b.len() as i32 + 4)).to_le_bytes(),
                );
                return true;
            }
            _ => b.extend([0xe8, 0, 0, 0, 0, 0x58]), // call the next instruction, pop
        }
        false
    }

    fn maybe_change(&mut self, ip: u64) {
        if self.changes.every == 0 || !self.rng.once_in(self.changes.every) {
            return;
        }
        self.changed += 1;
        match self.rng.below(4) {
            0 => self.reinstall(ip),
            1 => self.not_entrant(ip),
            _ => self.patch_call(ip),
        }
    }

    /// Time stamp of a change to a slot: near the present time, in the order of the changes to
    /// the slot.
    fn record_time(&mut self, slot: u64) -> Tsc {
        let late = self.tsc + self.rng.below(self.changes.late + 1);
        let stamp = late.saturating_sub(self.rng.below(self.changes.early + 1));
        let last = &mut self.stamps[slot as usize];
        *last = stamp.max(*last);
        Tsc(*last)
    }

    fn patch_call(&mut self, ip: u64) {
        let n = self.rng.below(self.calls.len() as u64) as usize;
        let Some(&(slot, at)) = self.calls.get(n) else { return };
        if ip > LOW + at - 1 && ip < LOW + at + 4 {
            return;
        }
        let to = (slot + 1 + self.rng.below(SLOTS - slot - 1)) * SLOT;
        let bytes = (to as i32 - (at as i32 + 4)).to_le_bytes();
        self.write(at, &bytes);
        let tsc = self.record_time(at / SLOT);
        self.history.patch(tsc, None, Address(LOW + at), &bytes, None, Patch::Other).unwrap();
    }

    /// Makes the function's entry a jump to an address outside that identifies it.
    fn not_entrant(&mut self, ip: u64) {
        let at = self.rng.below(SLOTS) * SLOT;
        if ip >= LOW + at && ip < LOW + at + 7 {
            return;
        }
        let Some(code) = self.owners[at as usize] else { return };
        let to = ELSEWHERE - 0x1000 - 16 * u64::from(code.0);
        let mut bytes = vec![0xe9];
        bytes.extend((to.wrapping_sub(LOW) as i32 - (at as i32 + 5)).to_le_bytes());
        self.write(at, &bytes);
        let tsc = self.record_time(at / SLOT);
        self.history.patch(tsc, None, Address(LOW + at), &bytes, None, Patch::Other).unwrap();
    }

    /// Frees a slot that is not in use and installs other code there.
    fn reinstall(&mut self, ip: u64) {
        let slot = self.rng.below(SLOTS);
        let range = AddressRange::at(Address(LOW + slot * SLOT), SLOT);
        let used = |a: &u64| range.contains(Address(*a));
        if self.stamps[slot as usize] > self.tsc || used(&ip) || self.stack.iter().any(used) {
            return;
        }
        self.history.free(Tsc(self.tsc), range.start, SLOT).unwrap();
        self.tsc += self.rng.below(200);
        self.unit.tsc = self.tsc;
        self.install(slot, self.tsc);
    }

    fn execute(&mut self, steps: u64) {
        let mut ip = self.come_in(None);
        let mut block = ip;
        for _ in 0..steps {
            self.tsc += 1 + self.rng.below(3);
            self.unit.tsc = self.tsc;
            self.maybe_change(ip);
            self.unit.psb_if_due(ip);
            if self.unit.should_interrupt() {
                self.cut(block, ip);
                self.unit.truth.push(Item::Interrupt { ip: Address(ip) });
                self.unit.interrupt(ip);
                self.tsc += self.rng.below(3000);
                ip = self.come_in(Some(ip));
                block = ip;
            }
            if self.unit.should_overflow() {
                self.unit.overflow_begins();
                for _ in 0..self.rng.below(100) {
                    ip = self.silent(ip);
                    self.tsc += 2;
                }
                self.unit.tsc = self.tsc;
                self.unit.truth.push(Item::Gap(Box::new(any_overflow())));
                self.unit.truth.push(Item::Enter { ip: Address(ip) });
                self.unit.overflow_ends(ip);
                block = ip;
            }
            let instruction = self.fetch(ip);
            let (next, exit) = self.branch(&instruction);
            let Some(exit) = exit else {
                ip = next;
                continue;
            };
            self.finish_block(block, instruction.next_ip(), exit);
            let inside = (LOW..LOW + SIZE).contains(&next);
            if inside {
                self.report(&instruction, exit, next);
            } else {
                self.unit.truth.push(Item::Leave { target: Target::new(Address(next)) });
                self.unit.leave(next);
            }
            ip = if inside { next } else { self.come_in(None) };
            block = ip;
        }
    }

    fn report(&mut self, instruction: &Instruction, exit: Exit, next: u64) {
        match exit {
            Exit::Taken => self.unit.conditional(true),
            Exit::NotTaken => self.unit.conditional(false),
            Exit::Call => self.unit.call(instruction.next_ip(), next),
            Exit::IndirectCall => {
                self.unit.indirect_call(instruction.next_ip());
                self.unit.target(next);
            }
            Exit::Return => self.unit.ret(next),
            Exit::IndirectJump => self.unit.target(next),
            _ => {}
        }
    }

    fn fetch(&self, ip: u64) -> Instruction {
        let at = (ip - LOW) as usize;
        let bytes = &self.memory[at..(at + 15).min(SIZE as usize)];
        let i = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        assert!(!i.is_invalid(), "machine ran into {bytes:02x?} at {ip:#x}");
        i
    }

    /// The target of a branch, and how the block ends if control goes there.
    fn branch(&mut self, i: &Instruction) -> (u64, Option<Exit>) {
        let next = i.next_ip();
        match i.flow_control() {
            FlowControl::ConditionalBranch => match self.rng.below(2) {
                0 => (next, Some(Exit::NotTaken)),
                _ => (i.near_branch_target(), Some(Exit::Taken)),
            },
            FlowControl::UnconditionalBranch => (i.near_branch_target(), Some(Exit::Jump)),
            FlowControl::Call => {
                self.stack.push(next);
                (i.near_branch_target(), Some(Exit::Call))
            }
            FlowControl::IndirectCall => {
                self.stack.push(next);
                let slot = (next - LOW) / SLOT;
                let to = slot + 1 + self.rng.below(SLOTS - slot - 1);
                (LOW + to * SLOT, Some(Exit::IndirectCall))
            }
            FlowControl::IndirectBranch => (next, Some(Exit::IndirectJump)),
            FlowControl::Return => (self.stack.pop().unwrap_or(ELSEWHERE), Some(Exit::Return)),
            _ => {
                if i.mnemonic() == iced_x86::Mnemonic::Pop {
                    self.stack.pop();
                }
                (next, None)
            }
        }
    }

    /// Executes an instruction that the unit does not see; control stays inside the code cache.
    fn silent(&mut self, ip: u64) -> u64 {
        let i = self.fetch(ip);
        let (next, _) = self.branch(&i);
        if (LOW..LOW + SIZE).contains(&next) { next } else { self.outside_return() }
    }

    /// Tracing resumes: at `at`, or at an address to which the code outside returns or which it
    /// calls.
    fn come_in(&mut self, at: Option<u64>) -> u64 {
        let ip = at.unwrap_or_else(|| self.outside_return());
        self.unit.tsc = self.tsc;
        self.unit.truth.push(Item::Enter { ip: Address(ip) });
        self.unit.enable(ip);
        ip
    }

    fn outside_return(&mut self) -> u64 {
        match self.stack.pop() {
            Some(ip) => ip,
            None => LOW + self.rng.below(SLOTS) * SLOT,
        }
    }

    fn finish_block(&mut self, start: u64, end: u64, exit: Exit) {
        let (s, e) = ((start - LOW) as u32, (end - LOW) as u32);
        let code = self.owners[s as usize].expect("runs in installed code");
        self.unit.truth.push(Item::Block { start: s, end: e, code, exit });
    }

    fn cut(&mut self, start: u64, ip: u64) {
        if ip != start {
            self.finish_block(start, ip, Exit::Cut);
        }
    }
}

/// Branches whose packets distinguish the codes: at the entry and at the return addresses of
/// calls.
fn sign(b: &mut Vec<u8>, signature: u32) {
    for digit in [signature % 20, signature / 20] {
        b.extend([0x74, 0x00].repeat(1 + digit as usize));
        b.extend([0xff, 0xe0]);
    }
}

fn any_overflow() -> MachineGap {
    MachineGap {
        reason: MachineGapReason::Overflow,
        offset: StreamOffset(0),
        resumed: None,
        address: None,
        since: None,
        until: None,
    }
}
