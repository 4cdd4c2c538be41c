//! One core's worker: PT pieces of the capture → batches of machine-flow items.

use crate::driver::NativeDecoder;
use crate::error::Error;
use crate::recording::Recording;
use crate::stretches::Stretch;
use jportal_capture::header::{Header, packet_flags, return_pops};
use jportal_native_flow::{Config, CoreDecoder, Item, MtcConfig, PopRule, Progress};
use jportal_units::{Core, StreamOffset, Tsc};
use std::sync::mpsc::SyncSender;

/// Items of one stretch, or a part of them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub core: Core,
    /// Where in the core's PT stream decoding stood.
    pub offset: StreamOffset,
    pub items: Vec<Item>,
    /// The stretch is complete.
    pub last: bool,
}

/// Bytes of PT handed to the decoder at once.
const PORTION: u64 = 256 << 10;

/// The decoder of one core with its input.
pub(crate) struct CoreStream<'a> {
    recording: &'a Recording<'a>,
    core: Core,
    decoder: CoreDecoder,
    stretches: Vec<(Stretch, bool)>,
    /// Next piece of the capture to push, and the stream offset pushed so far.
    piece: usize,
    pushed: u64,
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
        nominal_ratio: (pt.nominal_ratio != 0).then_some(pt.nominal_ratio),
        ..Config::default()
    }
}

impl<'a> CoreStream<'a> {
    pub(crate) fn new(recording: &'a Recording<'a>, core: Core, with: NativeDecoder) -> Result<Self, Error> {
        if with == NativeDecoder::Libipt {
            return Err(Error::NoLibipt);
        }
        let decoder = CoreDecoder::new(config(recording.reader().header()), recording.history());
        Ok(Self { recording, core, decoder, stretches: recording.turns(core), piece: 0, pushed: 0 })
    }
    /// Decodes every stretch, in stream order. Ends early when nobody listens any more.
    pub(crate) fn run(&mut self, to: &SyncSender<Result<Batch, Error>>) {
        let stretches = std::mem::take(&mut self.stretches);
        let mut since = Tsc(0);
        for (stretch, continues) in &stretches {
            match self.stretch(stretch, *continues, since, to) {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => {
                    // The receiver hung up: nobody is left to tell.
                    let _ = to.send(Err(e));
                    return;
                }
            }
            since = stretch.closed;
        }
    }
    fn stretch(
        &mut self,
        s: &Stretch,
        continues: bool,
        since: Tsc,
        to: &SyncSender<Result<Batch, Error>>,
    ) -> Result<bool, Error> {
        let mut reached = s.from.0;
        loop {
            let until = s.to.0.min(reached + PORTION);
            self.push_up_to(until)?;
            let at_end = until == s.to.0;
            if at_end && s.truncated {
                self.decoder.loss(StreamOffset(until));
            }
            let part = jportal_native_flow::Stretch {
                until: StreamOffset(until),
                since,
                latest: s.closed,
                continues: continues || !at_end,
            };
            loop {
                let mut items = Vec::new();
                let progress = self.decoder.decode(part, self.recording.history(), &mut items);
                let last = at_end && progress == Progress::Done;
                let batch = Batch { core: self.core, offset: StreamOffset(reached), items, last };
                if to.send(Ok(batch)).is_err() {
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
    /// Pushes pieces of the capture until the stream is there up to `until`.
    fn push_up_to(&mut self, until: u64) -> Result<(), Error> {
        let reader = self.recording.reader();
        let pieces = reader.pt(self.core);
        while self.pushed < until {
            let Some(piece) = pieces.get(self.piece) else { return Ok(()) };
            if piece.offset >= until {
                return Ok(());
            }
            match reader.read(piece) {
                Ok(bytes) => self.decoder.push(StreamOffset(piece.offset), &bytes),
                // A damaged chunk is a hole in the stream; the decoder makes a gap of it.
                Err(e @ jportal_capture::Error::Read { .. }) => return Err(e.into()),
                Err(_) => self.decoder.loss(StreamOffset(piece.offset)),
            }
            self.pushed = piece.offset + u64::from(piece.len);
            self.piece += 1;
        }
        Ok(())
    }
}
