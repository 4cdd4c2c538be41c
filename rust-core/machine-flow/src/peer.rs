// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Intel's libipt in lock-step: an independent decoder that must execute the same instructions.
//!
//! libipt follows code and packets by itself, instruction by instruction, but it knows only one
//! image of the code. Before each block, its memory is therefore updated with the changes that
//! [`crate::CoreDecoder`] found visible at that block ([`crate::Decision`]). Our decoder decides
//! which version ran; libipt decides what that version executes. Every difference is an error;
//! nothing is adjusted. The crate's only `unsafe` is here, because the binding takes the trace by
//! pointer.
#![allow(unsafe_code)]

use crate::config::Config;
use crate::decoder::{Decided, Decision};
use crate::image::CodeHistory;
use crate::item::{Item, MachineGap, MachineGapReason};
use jportal_pt_packet::find_psbs;
use jportal_units::{Address, StreamOffset};
use libipt::enc_dec_builder::{EncoderDecoderBuilder, Frequency, PtEncoderDecoder};
use libipt::error::{PtError, PtErrorCode};
use libipt::event::EventType;
use libipt::insn::InsnDecoder;
use libipt::status::Status;
use std::cell::RefCell;
use std::rc::Rc;

/// A difference between libipt and the native decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// libipt cannot be set up.
    #[error("libipt cannot be set up: {0}")]
    Setup(String),
    /// libipt executed another instruction.
    #[error("libipt is at {theirs}, the machine flow at {ours} (block {block})")]
    Elsewhere {
        /// libipt's instruction.
        theirs: Address,
        /// The machine flow's.
        ours: Address,
        /// Number of the block on this core.
        block: u64,
    },
    /// libipt cannot continue where the machine flow does.
    #[error("libipt stops at {at} (block {block}): {message}")]
    Stopped {
        /// The machine flow's instruction.
        at: Address,
        /// Number of the block on this core.
        block: u64,
        /// libipt's message.
        message: String,
    },
}

const PAGE: usize = 4096;

/// The code cache as libipt sees it. A page without code is absent.
struct Memory {
    low: u64,
    pages: Vec<Option<Box<[u8; PAGE]>>>,
}

impl Memory {
    fn write(&mut self, offset: u32, bytes: &[u8]) {
        for (at, &b) in (offset as usize..).zip(bytes) {
            let page = &mut self.pages[at / PAGE];
            page.get_or_insert_with(|| Box::new([0; PAGE]))[at % PAGE] = b;
        }
    }
    /// The result of libipt's memory callback: the number of bytes copied, or a negative error.
    fn read(&self, ip: u64, to: &mut [u8]) -> i32 {
        let mut n = 0;
        for b in to.iter_mut() {
            let Some(at) = ip.checked_sub(self.low).map(|a| a as usize + n) else { break };
            let Some(Some(page)) = self.pages.get(at / PAGE) else { break };
            *b = page[at % PAGE];
            n += 1;
        }
        if n == 0 { -(PtErrorCode::Nomap as i32).abs() } else { n as i32 }
    }
}

/// A contiguous part of the trace in the peer's buffer.
#[derive(Clone, Copy, Debug)]
pub struct PeerPiece {
    /// Offset in the core's stream.
    pub offset: StreamOffset,
    /// Index of its first byte in the buffer.
    pub at: usize,
}

/// libipt's decoder over the whole trace of one core.
pub struct Peer<'t> {
    decoder: InsnDecoder<'t>,
    memory: Rc<RefCell<Memory>>,
    low: u64,
    pieces: Vec<PeerPiece>,
    /// Indices in the buffer at which PSBs begin.
    psbs: Vec<u64>,
    applied: usize,
    blocks: u64,
    status: Option<Status>,
    started: bool,
}

impl<'t> Peer<'t> {
    /// A decoder of `trace`, the whole trace of one core. `pieces` lists its parts in ascending
    /// order.
    ///
    /// # Errors
    /// [`PeerError::Setup`].
    pub fn new(
        trace: &'t mut [u8],
        pieces: Vec<PeerPiece>,
        config: &Config,
        history: &CodeHistory,
    ) -> Result<Self, PeerError> {
        let setup = |e: PtError| PeerError::Setup(e.to_string());
        let mut builder: EncoderDecoderBuilder<InsnDecoder<'_>> = InsnDecoder::builder();
        if let Some(mtc) = config.mtc {
            let nominal = config.nominal_ratio.unwrap_or(0);
            builder = builder.freq(Frequency::new(mtc.frequency, nominal, mtc.numerator, mtc.denominator));
        }
        let psbs = find_psbs(trace).map(|at| at as u64).collect();
        // SAFETY: the buffer is borrowed for `'t`, as long as the decoder lives.
        let builder = unsafe { builder.buffer_from_raw(trace.as_mut_ptr(), trace.len()) };
        let mut decoder = builder.build().map_err(setup)?;
        let range = history.range();
        let pages = (range.len() as usize).div_ceil(PAGE);
        let memory =
            Rc::new(RefCell::new(Memory { low: range.start.0, pages: (0..pages).map(|_| None).collect() }));
        let shared = Rc::clone(&memory);
        decoder.image().set_callback(Some(move |to: &mut [u8], ip: u64, _| shared.borrow().read(ip, to)));
        Ok(Self {
            decoder,
            memory,
            low: range.start.0,
            pieces,
            psbs,
            applied: 0,
            blocks: 0,
            status: None,
            started: false,
        })
    }
    /// Takes the next item of the machine flow. `decisions` contains all decisions so far.
    ///
    /// # Errors
    /// If libipt does not execute the same instructions.
    pub fn item(
        &mut self,
        item: &Item,
        decisions: &[Decision],
        history: &CodeHistory,
    ) -> Result<(), PeerError> {
        match item {
            Item::Block { start, end, .. } => {
                let past = self.see_changes(decisions, history);
                self.blocks += 1;
                let result = self.block(*start, *end);
                if let Some((at, bytes)) = past {
                    self.memory.borrow_mut().write(at, &bytes);
                }
                result
            }
            Item::Gap(gap) => self.gap(gap),
            _ => Ok(()),
        }
    }
    /// Updates the memory to what the core saw when the next block ran. Returns the bytes to
    /// restore after that block.
    fn see_changes(&mut self, decisions: &[Decision], history: &CodeHistory) -> Option<(u32, Vec<u8>)> {
        let mut memory = self.memory.borrow_mut();
        let mut past = None;
        while let Some(d) = decisions.get(self.applied).filter(|d| d.block <= self.blocks) {
            match &d.what {
                Decided::Seen(change) => {
                    if let Some(change) = history.changes().get(*change as usize) {
                        memory.write(change.start, history.bytes_of(change));
                    }
                }
                Decided::Stale { start, bytes } if past.is_none() => {
                    let mut now = vec![0; bytes.len()];
                    memory.read(self.low + u64::from(*start), &mut now);
                    memory.write(*start, bytes);
                    past = Some((*start, now));
                }
                Decided::Stale { .. } | Decided::NotYet(_) => {}
            }
            self.applied += 1;
        }
        past
    }
    fn block(&mut self, start: u32, end: u32) -> Result<(), PeerError> {
        let (mut at, end) = (self.low + u64::from(start), self.low + u64::from(end));
        while at < end {
            let (ip, len) = self.instruction(at)?;
            if ip != at {
                return Err(PeerError::Elsewhere {
                    theirs: Address(ip),
                    ours: Address(at),
                    block: self.blocks,
                });
            }
            at += len;
        }
        Ok(())
    }
    fn stopped(&self, at: u64, e: &PtError) -> PeerError {
        PeerError::Stopped { at: Address(at), block: self.blocks, message: e.to_string() }
    }
    /// libipt's next instruction: its address and length.
    fn instruction(&mut self, at: u64) -> Result<(u64, u64), PeerError> {
        if !self.started {
            self.started = true;
            self.status = Some(self.decoder.sync_forward().map_err(|e| self.stopped(at, &e))?);
        }
        self.events(at)?;
        let (insn, status) = self.decoder.decode_next().map_err(|e| self.stopped(at, &e))?;
        self.status = Some(status);
        Ok((insn.ip(), insn.raw().len() as u64))
    }
    /// Processes pending events. Returns whether one of them was an overflow.
    fn events(&mut self, at: u64) -> Result<bool, PeerError> {
        let mut overflow = false;
        while self.status.is_some_and(|s| s.event_pending()) {
            let (event, status) = self.decoder.event().map_err(|e| self.stopped(at, &e))?;
            overflow |= matches!(event.event_type(), EventType::Overflow(_));
            self.status = Some(status);
        }
        Ok(overflow)
    }
    /// Follows the machine flow across a gap.
    fn gap(&mut self, gap: &MachineGap) -> Result<(), PeerError> {
        if gap.reason == MachineGapReason::Overflow && gap.resumed == Some(gap.offset) {
            return self.run_to_overflow();
        }
        let Some(position) = self.behind(gap) else { return Ok(()) };
        self.started = true;
        self.decoder.sync_set(position).map_err(|e| self.stopped(0, &e))?;
        self.status = Some(Status::EVENT_PENDING);
        Ok(())
    }
    /// Index in the buffer at which the trace resumes after `gap`. If the thread left the core
    /// before the trace resumed, the gap does not say it; the index is then that of the next PSB.
    fn behind(&self, gap: &MachineGap) -> Option<u64> {
        let place = |offset: StreamOffset| {
            let piece = self.pieces.partition_point(|p| p.offset <= offset).checked_sub(1)?;
            let piece = self.pieces.get(piece)?;
            Some(piece.at as u64 + (offset.0 - piece.offset.0))
        };
        match gap.resumed {
            Some(resumed) => place(resumed),
            None if gap.reason == MachineGapReason::Truncated => {
                let lost = place(gap.offset)?;
                self.psbs.get(self.psbs.partition_point(|&psb| psb < lost)).copied()
            }
            None => None,
        }
    }
    /// Packets were lost. libipt may continue over code that needs no packets before it reports
    /// the overflow.
    fn run_to_overflow(&mut self) -> Result<(), PeerError> {
        const LIMIT: u32 = 100_000;
        for _ in 0..LIMIT {
            if self.events(0)? {
                return Ok(());
            }
            let (_, status) = self.decoder.decode_next().map_err(|e| self.stopped(0, &e))?;
            self.status = Some(status);
        }
        Ok(())
    }
}
