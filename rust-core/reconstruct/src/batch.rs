// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The worker of one core: turns PT pieces of the capture into batches of machine-flow items.

use crate::driver::MachineDecoder;
use crate::error::Error;
use crate::recording::{Recording, Turn};
use crate::stretches::Stretch;
use jportal_capture::Piece;
use jportal_capture::header::{Header, packet_flags, return_pops, sources};
use jportal_flow::Sender;
use jportal_machine_flow::{CodeHistory, Config, CoreDecoder, Decision, Item, MtcConfig, PopRule, Progress};
use jportal_units::{Core, StreamOffset, Tsc};
use std::cell::Cell;

/// The items of one stretch, or a part of them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub core: Core,
    /// The offset in the core's PT stream at which decoding of this part began.
    pub offset: StreamOffset,
    pub items: Vec<Item>,
    /// This batch completes the stretch.
    pub last: bool,
}

/// Bytes of PT passed to the decoder at once.
const PORTION: u64 = 256 << 10;

/// A check of a core's items by a second party.
trait Check {
    /// Describes in words what is wrong with `items`.
    fn items(
        &mut self,
        stretch: &Stretch,
        items: &[Item],
        decisions: &[Decision],
        history: &CodeHistory,
    ) -> Result<(), String>;
}

/// Checks nothing.
struct Unchecked;

impl Check for Unchecked {
    fn items(&mut self, _: &Stretch, _: &[Item], _: &[Decision], _: &CodeHistory) -> Result<(), String> {
        Ok(())
    }
}

/// Listens to the machine flow of one core ([`Recording::machine_flow`]).
pub trait MachineListener {
    /// The next items, all of the thread of `stretch`. `decisions` holds all decisions of the
    /// core up to here. `false` ends the decode.
    fn items(&mut self, stretch: &Stretch, items: &[Item], decisions: &[Decision]) -> bool;
}

/// Passes everything to a listener.
struct Listening<'l> {
    listener: &'l mut dyn MachineListener,
    wants_more: &'l Cell<bool>,
}

impl Check for Listening<'_> {
    fn items(
        &mut self,
        stretch: &Stretch,
        items: &[Item],
        decisions: &[Decision],
        _: &CodeHistory,
    ) -> Result<(), String> {
        self.wants_more.set(self.listener.items(stretch, items, decisions));
        Ok(())
    }
}

impl Recording {
    /// Decodes the machine flow of one core only, stretch by stretch.
    ///
    /// # Errors
    /// When the capture cannot be read. Trace that cannot be decoded becomes a gap in the flow.
    pub fn machine_flow(&self, core: Core, listener: &mut dyn MachineListener) -> Result<(), Error> {
        let wants_more = Cell::new(true);
        let mut stream = CoreStream::with(self, core, false, true);
        stream.run_with(&mut Listening { listener, wants_more: &wants_more }, &mut |_| wants_more.get())
    }
}

#[cfg(feature = "libipt")]
impl Check for jportal_machine_flow::Peer<'_> {
    fn items(
        &mut self,
        _: &Stretch,
        items: &[Item],
        decisions: &[Decision],
        history: &CodeHistory,
    ) -> Result<(), String> {
        items.iter().try_for_each(|i| self.item(i, decisions, history)).map_err(|e| e.to_string())
    }
}

/// The decoder of one core and its input.
pub(crate) struct CoreStream<'a> {
    recording: &'a Recording,
    core: Core,
    decoder: CoreDecoder,
    /// libipt must agree with the decoder.
    checked: bool,
    turns: Vec<Turn>,
    /// The next piece of the capture to push, and the stream offset up to which bytes were
    /// pushed.
    piece: usize,
    pushed: u64,
    /// The stream offset of the piece that was read last, and its bytes.
    bytes: (Option<u64>, Vec<u8>),
}

/// Decoder configuration from the capture's header.
pub(crate) fn config(header: &Header) -> Config {
    let pt = &header.pt;
    let pop =
        if pt.return_pop == return_pops::COMPRESSED_ONLY { PopRule::Compressed } else { PopRule::Always };
    let mtc = MtcConfig {
        frequency: pt.mtc_period,
        numerator: pt.tsc_ctc_numerator,
        denominator: pt.tsc_ctc_denominator,
    };
    Config {
        return_compression: pt.has(packet_flags::RETURN_COMPRESSION).then_some(pop),
        mtc: (pt.has(packet_flags::MTC) && mtc.numerator != 0 && mtc.denominator != 0).then_some(mtc),
        // The emulated unit sends outcomes and addresses in order.
        deferred_tips: pt.source != sources::EMULATED,
        nominal_ratio: (pt.nominal_ratio != 0).then_some(pt.nominal_ratio),
        ..Config::default()
    }
}

impl<'a> CoreStream<'a> {
    pub(crate) fn new(recording: &'a Recording, core: Core, with: MachineDecoder) -> Result<Self, Error> {
        let checked = with == MachineDecoder::Libipt;
        if checked && !cfg!(feature = "libipt") {
            return Err(Error::NoLibipt);
        }
        Ok(Self::with(recording, core, checked, checked))
    }
    fn with(recording: &'a Recording, core: Core, checked: bool, record_decisions: bool) -> Self {
        let config = Config { record_decisions, ..config(recording.reader().header()) };
        let mut decoder = CoreDecoder::new(config, recording.history());
        for stale in recording.stale_blocks(core) {
            decoder.stale(stale.offset, stale.address, &stale.bytes);
        }
        Self {
            recording,
            core,
            decoder,
            checked,
            turns: recording.turns(core),
            piece: 0,
            pushed: 0,
            bytes: (None, Vec::new()),
        }
    }
    /// Decodes every stretch, in stream order. Ends early when the receiver has hung up.
    pub(crate) fn run(&mut self, to: &Sender<Result<Batch, Error>>) {
        // A batch without items counts as one, so that the bound also limits empty batches.
        let mut send = |batch: Batch| {
            let items = batch.items.len();
            to.send(Ok(batch), items + 1).is_ok()
        };
        let done =
            if self.checked { self.run_checked(&mut send) } else { self.run_with(&mut Unchecked, &mut send) };
        if let Err(e) = done {
            // If the receiver has hung up, nobody can receive the error.
            let _ = to.send(Err(e), 1);
        }
    }
    fn run_with(&mut self, check: &mut dyn Check, to: &mut dyn FnMut(Batch) -> bool) -> Result<(), Error> {
        let mut since = Tsc(0);
        for turn in std::mem::take(&mut self.turns) {
            if !self.turn(&turn, since, check, to)? {
                return Ok(());
            }
            since = turn.stretch.closed;
        }
        Ok(())
    }
    #[cfg(not(feature = "libipt"))]
    fn run_checked(&mut self, _to: &mut dyn FnMut(Batch) -> bool) -> Result<(), Error> {
        Err(Error::NoLibipt)
    }
    /// libipt decodes the same trace in lock-step. It needs the whole trace in memory.
    #[cfg(feature = "libipt")]
    fn run_checked(&mut self, to: &mut dyn FnMut(Batch) -> bool) -> Result<(), Error> {
        use jportal_machine_flow::{Peer, PeerPiece};
        let reader = self.recording.reader();
        let mut trace = Vec::new();
        let mut pieces = Vec::new();
        for piece in reader.pt(self.core) {
            pieces.push(PeerPiece { offset: StreamOffset(piece.offset), at: trace.len() });
            trace.extend_from_slice(&reader.read(piece)?);
        }
        let peer = Peer::new(&mut trace, pieces, &config(reader.header()), self.recording.history());
        let core = self.core;
        let mut peer = peer.map_err(|e| Error::Libipt { core, message: e.to_string() })?;
        self.run_with(&mut peer, to)
    }
    fn turn(
        &mut self,
        turn: &Turn,
        since: Tsc,
        check: &mut dyn Check,
        to: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<bool, Error> {
        let s = &turn.stretch;
        let mut reached = s.from.0;
        if let Some(blind) = s.blind {
            self.decoder.blind(blind.since, blind.until);
            // Trace that belongs to no known thread is not decoded.
            self.pushed = self.pushed.max(s.from.0);
        }
        if let Some(tsc) = s.came {
            self.decoder.came_while_lost(tsc);
        }
        loop {
            let until = s.to.0.min(reached.saturating_add(PORTION).max(self.next_held(reached)));
            self.push_up_to(until)?;
            let at_end = until == s.to.0;
            if at_end && s.truncated {
                self.decoder.loss(StreamOffset(until));
            }
            let part = jportal_machine_flow::Stretch {
                until: StreamOffset(until),
                since: since.max(turn.left).max(s.switched_in.unwrap_or_default()),
                latest: s.closed,
                tid: s.tid,
                left: turn.left,
                continues: turn.continues || !at_end,
            };
            loop {
                let mut items = Vec::new();
                let history = self.recording.history();
                let progress = self.decoder.decode(part, history, &mut items);
                check
                    .items(s, &items, self.decoder.decisions(), history)
                    .map_err(|message| Error::Libipt { core: self.core, message })?;
                let last = at_end && progress == Progress::Done;
                let batch = Batch { core: self.core, offset: StreamOffset(reached), items, last };
                if !to(batch) {
                    return Ok(false);
                }
                if progress == Progress::Done {
                    break;
                }
            }
            if at_end {
                return Ok(true);
            }
            reached = until;
        }
    }
    /// The stream offset of the first byte at or after `place` that the capture holds. The
    /// missing part of the stream may have any size.
    fn next_held(&self, place: u64) -> u64 {
        let pieces = self.recording.reader().pt(self.core);
        let next = pieces.partition_point(|p| p.end() <= place);
        pieces.get(next).map_or(u64::MAX, |p| p.offset)
    }
    /// Pushes the capture's bytes up to `until` and no further: the bytes after `until` may
    /// belong to no known thread.
    fn push_up_to(&mut self, until: u64) -> Result<(), Error> {
        let reader = self.recording.reader();
        let until = until.min(self.recording.end_of(self.core).0);
        let pieces = reader.pt(self.core);
        while self.pushed < until {
            let Some(piece) = pieces.get(self.piece) else { return Ok(()) };
            let end = piece.end();
            let from = self.pushed.max(piece.offset);
            if from >= until {
                return Ok(());
            }
            if from < end {
                match self.read(piece) {
                    Ok(()) => {
                        let part = (from - piece.offset) as usize..(until.min(end) - piece.offset) as usize;
                        self.decoder.push(StreamOffset(from), self.bytes.1.get(part).unwrap_or_default());
                    }
                    // A damaged chunk is a missing part of the stream. The decoder makes a gap
                    // of it.
                    Err(e @ jportal_capture::Error::Read { .. }) => return Err(e.into()),
                    Err(_) => self.decoder.loss(StreamOffset(from)),
                }
            }
            self.pushed = until.min(end).max(from);
            self.piece += usize::from(self.pushed >= end);
        }
        Ok(())
    }
    /// Reads `piece`, unless it was the last one read.
    fn read(&mut self, piece: &Piece) -> Result<(), jportal_capture::Error> {
        if self.bytes.0 != Some(piece.offset) {
            self.bytes.0 = None;
            self.recording.reader().read_into(piece, &mut self.bytes.1)?;
            self.bytes.0 = Some(piece.offset);
        }
        Ok(())
    }
}
