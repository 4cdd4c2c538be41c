// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decodes with libipt's instruction flow decoder, in step with the record of executed blocks.
//!
//! libipt uses only the code bytes and the packets. The bytes are those of the block that
//! executes next according to the record, so code that changes is decoded as it was executed.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use jportal_perf_abi::Body;
use jportal_perf_abi::record::aux_flags;
use jportal_pt_packet::{Packet, PacketDecoder};
use libipt::enc_dec_builder::{EncoderDecoderBuilder, Frequency, PtEncoderDecoder};
use libipt::error::PtErrorCode;
use libipt::event::EventType;
use libipt::insn::InsnDecoder;

use libipt::status::Status;

use super::truth::{TruthBlock, TruthEntry, read_code, read_core};
use super::{CoreTrace, GuestRun, switch};

/// Results of a comparison.
#[derive(Debug, Default, Clone)]
pub struct Matched {
    /// Instructions that were decoded as executed.
    pub instructions: u64,
    /// Instructions that were executed, but are missing because of an overflow or because the
    /// buffer was full.
    pub lost: u64,
    /// Decoders that were started at a PSB within the stream.
    pub cold_starts: u64,
    /// Overflows that were decoded.
    pub overflows: u64,
    /// Segments that end with a truncation.
    pub truncations: u64,
    /// Switches to a core.
    pub switches: u64,
    /// Threads seen per core.
    pub tids: Vec<Vec<u32>>,
    /// How often each instruction was executed.
    pub counts: HashMap<u64, u64>,
}

type Memory = Rc<RefCell<BTreeMap<u64, Box<[(u8, bool); 4096]>>>>;

fn write(memory: &Memory, address: u64, bytes: &[u8]) {
    let mut memory = memory.borrow_mut();
    for (i, &b) in bytes.iter().enumerate() {
        let a = address + i as u64;
        let page = memory.entry(a >> 12).or_insert_with(|| Box::new([(0, false); 4096]));
        page[(a & 4095) as usize] = (b, true);
    }
}

fn read(memory: &Memory, address: u64, to: &mut [u8]) -> i32 {
    let memory = memory.borrow();
    let mut n = 0;
    for (i, b) in to.iter_mut().enumerate() {
        let a = address + i as u64;
        match memory.get(&(a >> 12)).map(|p| p[(a & 4095) as usize]) {
            Some((byte, true)) => *b = byte,
            _ => break,
        }
        n += 1;
    }
    if n == 0 { -(PtErrorCode::Nomap as i32).abs() } else { n }
}

/// The instructions that must come next.
#[derive(Clone)]
struct Expected {
    entries: Rc<Vec<TruthEntry>>,
    blocks: Rc<Vec<TruthBlock>>,
    at: usize,
    next: usize,
    memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedStep {
    Instruction(u64),
    Lost,
    Recovered,
    Truncated(u64),
    Psb(u64),
    End,
}

impl Expected {
    fn peek(&mut self) -> ExpectedStep {
        while let Some(&entry) = self.entries.get(self.at) {
            match entry {
                TruthEntry::Retired { id, n } => {
                    let block = &self.blocks[id as usize - 1];
                    if self.next < n as usize {
                        if self.next == 0 {
                            write(&self.memory, block.address, &block.bytes);
                        }
                        return ExpectedStep::Instruction(
                            block.address + u64::from(block.offsets[self.next]),
                        );
                    }
                    self.next = 0;
                    self.at += 1;
                }
                TruthEntry::SwitchIn(_) | TruthEntry::SwitchOut(_) => self.at += 1,
                TruthEntry::Lost => return ExpectedStep::Lost,
                TruthEntry::Recovered(_) => return ExpectedStep::Recovered,
                TruthEntry::Truncated(position) => return ExpectedStep::Truncated(position),
                TruthEntry::Psb(position) => return ExpectedStep::Psb(position),
            }
        }
        ExpectedStep::End
    }

    fn skip(&mut self) {
        match self.entries.get(self.at) {
            Some(TruthEntry::Retired { .. }) => self.next += 1,
            _ => self.at += 1,
        }
    }

    /// Skips everything up to the end of the next loss; returns the number of instructions
    /// skipped.
    fn skip_loss(&mut self) -> u64 {
        let mut n = 0;
        loop {
            match self.peek() {
                ExpectedStep::End => return n,
                ExpectedStep::Recovered => {
                    self.skip();
                    return n;
                }
                ExpectedStep::Instruction(_) => n += 1,
                _ => {}
            }
            self.skip();
        }
    }
}

/// A decoder of `bytes` that reads code from `memory`.
fn decoder<'a>(bytes: &'a mut [u8], run: &GuestRun, memory: &Memory) -> InsnDecoder<'a> {
    let mut builder: EncoderDecoderBuilder<InsnDecoder<'_>> = InsnDecoder::builder();
    let config = run.unit.config();
    if let Some(mtc) = config.packets.mtc_period {
        let (numerator, denominator) = config.tsc_ctc;
        builder = builder.freq(Frequency::new(mtc, 30, numerator, denominator));
    }
    // SAFETY: the buffer outlives the decoder, which only reads it.
    let builder = unsafe { builder.buffer_from_raw(bytes.as_mut_ptr(), bytes.len()) };
    let mut decoder = builder.build().unwrap();
    let memory = Rc::clone(memory);
    decoder.image().set_callback(Some(move |to: &mut [u8], ip: u64, _| read(&memory, ip, to)));
    decoder
}

/// Checks every core; panics at the first difference. Every `cold_every`-th PSB of a segment is
/// also decoded from a cold start; 0: none.
pub fn check(run: &GuestRun, cold_every: usize) -> Matched {
    let directory = run.truth_directory();
    let blocks = read_code(&directory);
    let mut sum = Matched::default();
    for (n, core) in run.cores.iter().enumerate() {
        let entries = read_core(&directory, n);
        check_records(n, core, &entries, &mut sum);
        check_times(n, core);
        let memory = Memory::default();
        let blocks = Rc::clone(&blocks);
        let mut expected = Expected { entries, blocks, at: 0, next: 0, memory };
        let mut begin = 0;
        for end in segment_ends(core) {
            let mut bytes = core.aux[begin as usize..end as usize].to_vec();
            Segment {
                core: n,
                base: begin,
                run,
                expected: &mut expected,
                sum: &mut sum,
                cold_every,
                psbs: 0,
            }
            .decode(&mut bytes);
            begin = end;
        }
        assert_eq!(expected.peek(), ExpectedStep::End, "core {n}: executed, but not decoded");
    }
    sum
}

/// Stream positions at which segments end: after each truncation, and at the end of the stream.
fn segment_ends(core: &CoreTrace) -> Vec<u64> {
    let mut ends: Vec<u64> = core
        .records
        .iter()
        .filter_map(|r| match r.body {
            Body::Aux { offset, size, flags } if flags & aux_flags::TRUNCATED != 0 => Some(offset + size),
            _ => None,
        })
        .collect();
    if ends.last() != Some(&(core.aux.len() as u64)) {
        ends.push(core.aux.len() as u64);
    }
    ends
}

/// Maximum number of bytes of a packet (SDM, table "PSB Packet Definition").
const LONGEST: u64 = 16;

/// Whether the decoder is so close to the end of `len` bytes that the next packet may be cut.
fn ends(decoder: &InsnDecoder<'_>, len: u64) -> bool {
    decoder.offset().is_ok_and(|at| at + LONGEST > len)
}

struct Segment<'a> {
    core: usize,
    base: u64,
    run: &'a GuestRun,
    expected: &'a mut Expected,
    sum: &'a mut Matched,
    cold_every: usize,
    psbs: usize,
}

impl Segment<'_> {
    fn decode(&mut self, bytes: &mut [u8]) {
        let mut copy = bytes.to_vec();
        let len = bytes.len() as u64;
        let mut decoder = decoder(bytes, self.run, &self.expected.memory);
        let mut status = match decoder.sync_forward() {
            Ok(first) => first,
            Err(e) if e.code() == PtErrorCode::Eos => return,
            Err(e) => panic!("core {}: sync: {e}", self.core),
        };
        while self.events(&mut decoder, status).is_some() {
            self.pass_psbs(&mut copy);
            match decoder.decode_next() {
                Ok((insn, after)) => {
                    self.compare(insn.ip(), &decoder);
                    status = after;
                }
                Err(e) if e.code() == PtErrorCode::Eos => break,
                // The last packets of a truncated segment may lead to code that no thread
                // reaches before the loss: what completes them, the end of a packet or the
                // TIP.PGD after a FUP, is lost.
                Err(e) if e.code() == PtErrorCode::Nomap && ends(&decoder, len) => break,
                Err(e) if self.expected.peek() == ExpectedStep::Lost => panic!("{e} while packets are lost"),
                Err(e) => self.fail(&decoder, &e.to_string()),
            }
        }
        self.end_of_segment();
    }

    /// Takes the pending events; `None` at the end of the trace.
    fn events(&mut self, decoder: &mut InsnDecoder<'_>, mut status: Status) -> Option<Status> {
        while status.event_pending() {
            match decoder.event() {
                Ok((event, after)) => {
                    if let EventType::Overflow(_) = event.event_type() {
                        self.sum.overflows += 1;
                        self.sum.lost += self.expected.skip_loss();
                    }
                    status = after;
                }
                Err(e) if e.code() == PtErrorCode::Eos => return None,
                Err(e) => self.fail(decoder, &e.to_string()),
            }
        }
        Some(status)
    }

    fn pass_psbs(&mut self, bytes: &mut [u8]) {
        while let ExpectedStep::Psb(position) = self.expected.peek() {
            self.expected.skip();
            self.psbs += 1;
            if self.cold_every > 0 && self.psbs.is_multiple_of(self.cold_every) {
                self.cold_start(bytes, position - self.base);
            }
        }
    }

    fn compare(&mut self, ip: u64, decoder: &InsnDecoder<'_>) {
        match self.expected.peek() {
            ExpectedStep::Instruction(a) if a == ip => {
                self.sum.instructions += 1;
                *self.sum.counts.entry(ip).or_default() += 1;
                self.expected.skip();
            }
            // After packets are lost, a decoder continues up to the next branch.
            ExpectedStep::Lost | ExpectedStep::Truncated(_) => {}
            other => self.fail(decoder, &format!("decoded {ip:#x}, executed {other:x?}")),
        }
    }

    fn fail(&mut self, decoder: &InsnDecoder<'_>, what: &str) -> ! {
        let wanted = self.expected.peek();
        let around =
            self.expected.at.saturating_sub(8)..(self.expected.at + 4).min(self.expected.entries.len());
        panic!(
            "core {}, offset {:?} of the segment at {}, after {} instructions: {what}; expected {wanted:x?} in {:?}",
            self.core,
            decoder.offset(),
            self.base,
            self.sum.instructions,
            &self.expected.entries[around]
        )
    }

    /// Decodes some instructions from the PSB at `offset`, without earlier state.
    fn cold_start(&mut self, bytes: &mut [u8], offset: u64) {
        let mut expected = self.expected.clone();
        let mut decoder = decoder(bytes, self.run, &expected.memory);
        match decoder.sync_set(offset) {
            Ok(()) => self.sum.cold_starts += 1,
            // The stream may end inside this PSB+.
            Err(e) if e.code() == PtErrorCode::Eos => return,
            Err(e) => self.fail(&decoder, &format!("cold start: {e}")),
        }
        let mut status = Status::EVENT_PENDING;
        for _ in 0..500 {
            while status.event_pending() {
                match decoder.event() {
                    Ok((_, after)) => status = after,
                    Err(e) if matches!(e.code(), PtErrorCode::Eos | PtErrorCode::BadQuery) => break,
                    Err(e) => self.fail(&decoder, &format!("cold start: {e}")),
                }
            }
            while let ExpectedStep::Psb(_) = expected.peek() {
                expected.skip();
            }
            let ExpectedStep::Instruction(want) = expected.peek() else { return };
            match decoder.decode_next() {
                Ok((insn, after)) => {
                    if insn.ip() != want {
                        self.fail(&decoder, &format!("cold start: {:#x}, executed {want:#x}", insn.ip()));
                    }
                    expected.skip();
                    status = after;
                }
                Err(e) if e.code() == PtErrorCode::Eos => return,
                Err(e) => self.fail(&decoder, &format!("cold start: {e}")),
            }
        }
    }

    /// If the segment ends with a truncation, the instructions up to the recovery were executed
    /// without packets.
    fn end_of_segment(&mut self) {
        let mut probe = self.expected.clone();
        loop {
            match probe.peek() {
                ExpectedStep::End => return,
                ExpectedStep::Truncated(_) => break,
                _ => probe.skip(),
            }
        }
        self.sum.truncations += 1;
        self.sum.lost += self.expected.skip_loss();
    }
}

/// Checks that AUX records cover the stream exactly once, each within one thread's stay, and
/// that switches alternate.
fn check_records(n: usize, core: &CoreTrace, entries: &[TruthEntry], sum: &mut Matched) {
    let mut position = 0;
    let mut running = None;
    let mut stays = stays(entries).into_iter().peekable();
    let mut tids = Vec::new();
    for record in &core.records {
        let tid = record.sample.tid;
        assert_eq!(record.sample.cpu, n as u32);
        match switch(record) {
            Some(true) => assert_eq!(running.take(), Some(tid), "core {n}: leaves without having entered"),
            Some(false) => {
                assert_eq!(running.replace(tid), None, "core {n}: enters while another runs");
                sum.switches += 1;
                if !tids.contains(&tid) {
                    tids.push(tid);
                }
            }
            None => {}
        }
        if let Body::Aux { offset, size, .. } = record.body {
            assert_eq!(offset, position, "core {n}: AUX records without gap or overlap");
            position += size;
            while stays.peek().is_some_and(|&(end, _)| end <= offset && size > 0) {
                stays.next();
            }
            if let (Some(&(end, owner)), true) = (stays.peek(), size > 0) {
                assert_eq!(tid, owner, "core {n}: bytes at {offset}");
                assert!(position <= end, "core {n}: the record at {offset} crosses a switch at {end}");
            }
        }
    }
    assert_eq!(position, core.aux.len() as u64, "core {n}: every byte has a record");
    sum.tids.push(tids);
}

/// Checks that there is one clock: the host's counter stamps the TSC packets and the records of
/// a core, in order, and the packets of a record are not later than the record.
fn check_times(n: usize, core: &CoreTrace) {
    let mut last_record = 0;
    let mut last_packet = 0;
    for record in &core.records {
        let now = record.sample.time;
        assert!(now >= last_record, "core {n}: records go back in time");
        last_record = now;
        let Body::Aux { offset, size, flags } = record.body else { continue };
        if flags & aux_flags::TRUNCATED != 0 {
            continue; // ends inside a packet
        }
        let mut packets = PacketDecoder::new(&core.aux[offset as usize..(offset + size) as usize]);
        while let Some((at, packet)) = packets.next_packet().expect("records hold whole packets") {
            if let Packet::Tsc(low) = packet {
                let tsc = now & !((1 << 56) - 1) | low;
                assert!(last_packet <= tsc && tsc <= now, "core {n}: TSC {tsc} at {at} in a record of {now}");
                last_packet = tsc;
            }
        }
    }
    assert!(last_packet > 0, "core {n}: no TSC packet");
}

/// (stream position of the end, thread) of each stay.
fn stays(entries: &[TruthEntry]) -> Vec<(u64, u32)> {
    let mut tid = 0;
    let mut list = Vec::new();
    for entry in entries {
        match *entry {
            TruthEntry::SwitchIn(t) => tid = t,
            TruthEntry::SwitchOut(position) => list.push((position, tid)),
            _ => {}
        }
    }
    list
}
