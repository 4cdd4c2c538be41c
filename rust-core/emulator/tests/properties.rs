// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Runs random programs on random cores, with faults, signals, injected interrupts and context
//! switches. From every core's stream, libipt must decode exactly what that core executed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jportal_emulator::block::{Block, InsnBytes};
use jportal_emulator::clock;
use jportal_emulator::config::{Config, Pop, Timing};
use jportal_emulator::core::{Core, Unresolved};
use jportal_emulator::outlet::Outlet;
use jportal_emulator::random::Random;
use jportal_perf_abi::emulated::{EmulatedUnit, UnitConfig};
use jportal_perf_abi::ring::CoreConsumer;
use libipt::enc_dec_builder::{Frequency, PtEncoderDecoder};
use libipt::error::PtErrorCode;
use libipt::insn::InsnDecoder;
use proptest::prelude::*;

const BASE: u64 = 0x7f12_3456_0000;
const OUTSIDE: u64 = 0x7f99_0000_0000;
const BLOCKS: u64 = 40;

#[derive(Clone, Copy, Debug)]
enum BlockSuccessor {
    Conditional(u64),
    Jump(u64),
    Call(u64),
    Return,
    IndirectJump,
    IndirectCall,
    Nothing,
}

/// Blocks laid out one after the other. Direct jumps and calls go forward and the last block
/// jumps indirectly, so that every cycle sends packets: no trace can show how often a cycle
/// without packets ran.
struct SyntheticProgram {
    bytes: Vec<u8>,
    blocks: Vec<(&'static Block, BlockSuccessor)>,
    at: HashMap<u64, usize>,
}

fn program(random: &mut Random) -> SyntheticProgram {
    let sizes: Vec<(u64, u64)> = (0..BLOCKS).map(|_| (random.below(4), random.below(7))).collect();
    let length = |way| match way {
        0 => 6,
        1 | 2 => 5,
        3 => 1,
        4 | 5 => 2,
        _ => 1,
    };
    let kind = |i: usize| if i + 1 == sizes.len() { 4 } else { sizes[i].1 };
    let mut starts = vec![BASE];
    for i in 0..sizes.len() {
        starts.push(starts[i] + sizes[i].0 + length(kind(i)));
    }
    let mut p = SyntheticProgram { bytes: Vec::new(), blocks: Vec::new(), at: HashMap::new() };
    for i in 0..sizes.len() {
        let end = starts[i + 1];
        let relative = |opcode: &[u8], target: u64| {
            let distance = (target.wrapping_sub(end)) as u32;
            [opcode, &distance.to_le_bytes()].concat()
        };
        let near = starts[random.below(BLOCKS) as usize];
        let ahead = starts[i + 1 + random.below((sizes.len() - i).max(2) as u64 - 1) as usize];
        let (tail, way) = match kind(i) {
            0 => (relative(&[0x0f, 0x85], near), BlockSuccessor::Conditional(near)),
            1 => (relative(&[0xe9], ahead), BlockSuccessor::Jump(ahead)),
            2 => (relative(&[0xe8], ahead), BlockSuccessor::Call(ahead)),
            3 => (vec![0xc3], BlockSuccessor::Return),
            4 => (vec![0xff, 0xe0], BlockSuccessor::IndirectJump),
            5 => (vec![0xff, 0xd0], BlockSuccessor::IndirectCall),
            _ => (vec![0x90], BlockSuccessor::Nothing),
        };
        let mut insns: Vec<Vec<u8>> = (0..sizes[i].0).map(|_| vec![0x90]).collect();
        insns.push(tail);
        p.add(starts[i], &insns, way);
    }
    p
}

impl SyntheticProgram {
    fn add(&mut self, start: u64, insns: &[Vec<u8>], way: BlockSuccessor) {
        let mut address = start;
        let list: Vec<_> = insns
            .iter()
            .map(|bytes| {
                let insn = InsnBytes { address, bytes };
                address += bytes.len() as u64;
                insn
            })
            .collect();
        let block = Box::leak(Box::new(Block::decode(&list).unwrap()));
        self.at.insert(start, self.blocks.len());
        self.blocks.push((block, way));
        self.bytes.extend(insns.concat());
    }
}

/// A thread: its unresolved block and its return addresses.
#[derive(Default)]
struct SimulatedThread {
    unresolved: Unresolved,
    calls: Vec<u64>,
    /// The core it is on.
    core: Option<usize>,
    /// The stay that was detached in the middle of a block, with the core and the section of
    /// the stream.
    stay: Option<(Box<Core>, usize, usize)>,
}

struct World {
    program: SyntheticProgram,
    cores: Vec<Core>,
    consumers: Vec<CoreConsumer>,
    traces: Vec<Vec<u8>>,
    /// Addresses of the executed instructions, per core and section.
    executed: Vec<Vec<Vec<u64>>>,
    threads: Vec<SimulatedThread>,
    random: Random,
    _dir: tempfile::TempDir,
}

fn world(seed: u64, config: &Config) -> World {
    let dir = tempfile::tempdir().unwrap();
    let sizes = UnitConfig { cores: 2, aux_bytes: 1 << 20, data_bytes: 1 << 20, ..UnitConfig::default() };
    let shared = EmulatedUnit::create(&dir.path().join("rings"), sizes).unwrap();
    let core = |n| {
        let outlet = Outlet::new(shared.producer(n, 7).unwrap(), config.mode, None);
        Core::new(config, n, 7, Arc::new(Mutex::new(outlet)))
    };
    let mut random = Random::new(seed);
    World {
        program: program(&mut random),
        cores: (0..2).map(core).collect(),
        consumers: (0..2).map(|n| shared.consumer(n).unwrap()).collect(),
        traces: vec![Vec::new(); 2],
        executed: vec![vec![Vec::new()]; 2],
        threads: (0..3).map(|_| SimulatedThread::default()).collect(),
        random,
        _dir: dir,
    }
}

impl World {
    fn steps(&mut self, n: u64) {
        for _ in 0..n {
            let t = self.random.below(3) as usize;
            for _ in 0..self.random.below(30) {
                self.place(t);
                self.step(t);
            }
        }
        for t in 0..3 {
            self.remove(t, false);
            if let Some((core, ..)) = self.threads[t].stay.take() {
                core.finish();
            }
        }
        for (consumer, trace) in self.consumers.iter_mut().zip(&mut self.traces) {
            consumer.aux.drain(trace, usize::MAX).unwrap();
        }
    }

    fn remove(&mut self, t: usize, preempted: bool) {
        if let Some(c) = self.threads[t].core.take() {
            self.cores[c].switch_out(preempted);
        }
    }

    /// Puts thread `t` on a core if it has none, and sometimes on another core.
    fn place(&mut self, t: usize) {
        if self.threads[t].stay.is_some() || self.threads[t].core.is_some() && self.random.below(20) != 0 {
            return;
        }
        self.remove(t, false);
        let c = self.random.below(2) as usize;
        if let Some(other) = (0..3).find(|&o| self.threads[o].core == Some(c)) {
            if self.cores[c].should_detach() && self.random.below(4) != 0 {
                self.threads[other].core = None;
                let section = self.executed[c].len() - 1;
                self.threads[other].stay = Some((self.cores[c].detach(clock::tsc()), c, section));
                self.executed[c].push(Vec::new());
            } else {
                self.remove(other, true);
            }
        }
        let thread = &mut self.threads[t];
        self.cores[c].switch_in(100 + t as u32, &mut thread.unresolved, clock::tsc());
        thread.core = Some(c);
    }

    fn ran(&mut self, c: usize, section: Option<usize>, b: &Block, n: usize) {
        let section = section.unwrap_or(self.executed[c].len() - 1);
        self.executed[c][section].extend((0..n).map(|i| b.address(i)));
    }

    /// The next address after the block that thread `t` is in.
    fn next(&mut self, t: usize) -> u64 {
        let Some(block) = self.threads[t].unresolved else { return self.anywhere() };
        let way = self.program.blocks[self.program.at[&block.start]].1;
        let far = if self.random.below(6) == 0 { OUTSIDE } else { self.anywhere() };
        match way {
            BlockSuccessor::Conditional(target) => [target, block.end][self.random.below(2) as usize],
            BlockSuccessor::Jump(target) => target,
            BlockSuccessor::Call(target) => {
                self.threads[t].calls.push(block.end);
                target
            }
            BlockSuccessor::Return => match self.threads[t].calls.pop() {
                Some(back) if self.random.below(5) != 0 => back,
                _ => far,
            },
            BlockSuccessor::IndirectJump => far,
            BlockSuccessor::IndirectCall => {
                self.threads[t].calls.push(block.end);
                far
            }
            BlockSuccessor::Nothing => block.end,
        }
    }

    fn anywhere(&mut self) -> u64 {
        self.program.blocks[self.random.below(BLOCKS) as usize].0.start
    }

    fn step(&mut self, t: usize) {
        let mut stay = self.threads[t].stay.take();
        let (c, section) = match (&stay, self.threads[t].core) {
            (Some((_, c, section)), _) => (*c, Some(*section)),
            (None, Some(c)) => (c, None),
            (None, None) => return,
        };
        let signal = self.threads[t].unresolved.is_some() && self.random.below(40) == 0;
        if signal {
            self.signal(t, c, section, stay.as_mut().map(|s| &mut *s.0));
        } else {
            self.go_on(t, c, section, stay.as_mut().map(|s| &mut *s.0));
        }
        if let Some((core, ..)) = stay {
            core.finish();
        }
    }

    fn go_on(&mut self, t: usize, c: usize, section: Option<usize>, stay: Option<&mut Core>) {
        let next = self.next(t);
        if let Some(b) = self.threads[t].unresolved {
            self.ran(c, section, b, b.len());
        }
        let core = stay.unwrap_or(&mut self.cores[c]);
        let unresolved = &mut self.threads[t].unresolved;
        match self.program.at.get(&next) {
            Some(&i) => {
                core.begin_block(unresolved, self.program.blocks[i].0);
            }
            None => core.leave(unresolved, next),
        }
    }

    /// A fault at some instruction of the block, or a signal before the next address.
    fn signal(&mut self, t: usize, c: usize, section: Option<usize>, stay: Option<&mut Core>) {
        let Some(b) = self.threads[t].unresolved else { return };
        let (n, rip, fault) = match self.random.below(2) {
            0 => {
                let n = self.random.below(b.len() as u64) as usize;
                (n, b.address(n), true)
            }
            _ => (b.len(), self.next(t), false),
        };
        self.ran(c, section, b, n);
        let core = stay.unwrap_or(&mut self.cores[c]);
        core.signal(&mut self.threads[t].unresolved, rip, fault, rip != OUTSIDE);
    }
}

fn decode(trace: &mut [u8], program: &SyntheticProgram, config: &Config) -> Result<Vec<u64>, String> {
    let mut list = Vec::new();
    let bytes = program.bytes.clone();
    let mut builder = InsnDecoder::builder();
    if config.timing != Timing::Tsc {
        builder = builder.freq(Frequency::new(config.mtc_freq, 30, 128, 1));
    }
    // SAFETY: the decoder reads the buffer, which outlives it.
    let builder = unsafe { builder.buffer_from_raw(trace.as_mut_ptr(), trace.len()) };
    let mut decoder: InsnDecoder<'_> = builder.build().map_err(|e| e.to_string())?;
    decoder.image().set_callback(Some(move |to: &mut [u8], ip: u64, _| {
        let rest = usize::try_from(ip.wrapping_sub(BASE)).ok().and_then(|o| bytes.get(o..)).unwrap_or(&[]);
        let n = rest.len().min(to.len());
        to[..n].copy_from_slice(&rest[..n]);
        if n == 0 { PtErrorCode::Nomap as i32 } else { n as i32 }
    }));
    let end = |e: libipt::error::PtError, n: usize| {
        if e.code() == PtErrorCode::Eos { Ok(()) } else { Err(format!("{e} behind {n} instructions")) }
    };
    let mut status = match decoder.sync_forward() {
        Ok(status) => status,
        Err(e) => return end(e, 0).map(|()| list),
    };
    loop {
        while status.event_pending() {
            match decoder.event() {
                Ok((_, after)) => status = after,
                Err(e) => return end(e, list.len()).map(|()| list),
            }
        }
        match decoder.decode_next() {
            Ok((insn, after)) => {
                list.push(insn.ip());
                status = after;
            }
            Err(e) => return end(e, list.len()).map(|()| list),
        }
    }
}

fn config() -> impl Strategy<Value = Config> {
    let timing = prop_oneof![Just(Timing::Tsc), Just(Timing::Mtc), Just(Timing::Cyc)];
    (timing, any::<bool>(), prop_oneof![Just(6u32), Just(47)], 0..30u64, 0..30u64, 200..3000u64).prop_map(
        |(timing, return_compression, tnt_bits, irq, irq_inside, psb)| Config {
            timing,
            return_compression,
            pop: Pop::Compressed,
            tnt_bits,
            irq,
            irq_inside,
            psb,
            mtc_freq: 0,
            aux: 1 << 20,
            ..Config::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_core_decodes_to_what_ran_there(seed in any::<u64>(), config in config()) {
        let mut world = world(seed, &config);
        world.steps(150);
        for c in 0..2 {
            prop_assert_eq!(world.cores[c].counts().anomalies, 0, "{:?}", world.cores[c].take_anomalies());
            let mut trace = std::mem::take(&mut world.traces[c]);
            prop_assert!(trace.len() < 1 << 19, "the ring must hold everything");
            let decoded = decode(&mut trace, &world.program, &config).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&decoded, &world.executed[c].concat(), "core {}", c);
        }
    }
}
