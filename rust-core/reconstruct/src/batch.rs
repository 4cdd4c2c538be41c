// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The worker of one core: turns PT pieces of the capture into batches of machine-flow items.

use crate::error::Error;
use crate::needs::Needs;
use crate::recording::{Recording, Turn};
use crate::stretches::Stretch;
use jportal_capture::Piece;
use jportal_capture::header::{Header, packet_flags, return_pops, sources};
use jportal_machine_flow::{
    CodeHistory, Config, CoreDecoder, Decision, Item, MtcConfig, PopRule, Progress, Slack,
};
use jportal_pt_packet::find_psbs;
use jportal_units::{Core, StreamOffset, Tsc};
use std::cell::Cell;

/// The items of one stretch, or a part of them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub core: Core,
    /// The offset in the core's PT stream at which decoding of this part began.
    pub offset: StreamOffset,
    pub items: Vec<Item>,
    /// The indices of the gaps among the items.
    pub gaps: Vec<u32>,
    /// This batch completes the stretch.
    pub last: bool,
    /// Nothing needs the stretch: its items are not here.
    pub skipped: bool,
}

impl Batch {
    fn new(core: Core, offset: StreamOffset, items: Vec<Item>, last: bool) -> Self {
        let gaps = (0..).zip(&items).filter(|(_, item)| matches!(item, Item::Gap(_)));
        let gaps = gaps.map(|(index, _)| index).collect();
        Self { core, offset, items, gaps, last, skipped: false }
    }
    /// What it counts for where the batches under way are bounded. An empty batch counts, too.
    pub(crate) fn weight(&self) -> usize {
        self.items.len() + 1
    }
}

/// Bytes of PT passed to the decoder at once.
const PORTION: u64 = 256 << 10;
/// The least number of bytes of trace between the beginning of trace that nothing needs and the
/// next stretch that is needed, for which the stream is left and found again.
const LEAP: u64 = 16 << 10;
/// The least number of bytes of trace that are decoded before such a stretch: a PSB+ is among them.
const RUN_UP: u64 = 256;

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
        let turns = self.turns().remove(&core.0).unwrap_or_default();
        let mut stream = CoreStream::deciding(self, core, turns);
        let mut check = Listening { listener, wants_more: &wants_more };
        while wants_more.get() && stream.next_checked(&mut check)?.is_some() {}
        Ok(())
    }
}

/// Decodes a core and sends the batches. Ends early when the receiver has hung up.
pub(crate) fn send(
    recording: &Recording,
    core: Core,
    turns: Vec<Turn>,
    needs: Option<&Needs>,
    to: &jportal_flow::Sender<Result<Batch, Error>>,
) {
    let mut stream = CoreStream::new(recording, core, turns, false).needed_by(needs);
    while let Some(batch) = stream.next().transpose() {
        let weight = batch.as_ref().map_or(1, Batch::weight);
        let failed = batch.is_err();
        if to.send(batch, weight).is_err() || failed {
            return;
        }
    }
}

/// Decodes a core with both decoders in lock-step and sends the batches. Ends early when the
/// receiver has hung up. libipt needs the whole trace of the core in memory.
#[cfg(feature = "libipt")]
pub(crate) fn send_checked(
    recording: &Recording,
    core: Core,
    turns: Vec<Turn>,
    _: Option<&Needs>,
    to: &jportal_flow::Sender<Result<Batch, Error>>,
) {
    let done = checked(recording, core, turns, &mut |batch| {
        let weight = batch.weight();
        to.send(Ok(batch), weight).is_ok()
    });
    if let Err(e) = done {
        // If the receiver has hung up, nobody can receive the error.
        let _ = to.send(Err(e), 1);
    }
}

#[cfg(feature = "libipt")]
fn checked(
    recording: &Recording,
    core: Core,
    turns: Vec<Turn>,
    to: &mut dyn FnMut(Batch) -> bool,
) -> Result<(), Error> {
    use jportal_machine_flow::{Peer, PeerPiece};
    let reader = recording.reader();
    let (mut trace, mut pieces) = (Vec::new(), Vec::new());
    for piece in reader.pt(core) {
        pieces.push(PeerPiece { offset: StreamOffset(piece.offset), at: trace.len() });
        trace.extend_from_slice(&reader.read(piece)?);
    }
    let peer = Peer::new(&mut trace, pieces, &config(reader.header()), recording.history());
    let mut peer = peer.map_err(|e| Error::Libipt { core, message: e.to_string() })?;
    let mut stream = CoreStream::deciding(recording, core, turns);
    while let Some(batch) = stream.next_checked(&mut peer)? {
        if !to(batch) {
            break;
        }
    }
    Ok(())
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

/// The decoder of one core and its input. It decodes every stretch, in stream order.
pub(crate) struct CoreStream<'a> {
    recording: &'a Recording,
    core: Core,
    decoder: CoreDecoder,
    turns: Vec<Turn>,
    at: StreamReach,
    /// The next piece of the capture to push, and the stream offset up to which bytes were
    /// pushed.
    piece: usize,
    pushed: u64,
    /// The stream offset of the piece that was read last, and its bytes.
    bytes: (Option<u64>, Vec<u8>),
    /// The empty list of a batch that was used up.
    spare: Option<Vec<Item>>,
    /// How far the times of changes of code and of the trace may differ.
    slack: Slack,
    /// What the lanes need; `None`: everything.
    needs: Option<&'a Needs>,
    /// The trace that is left out.
    leap: Option<Leap>,
    /// Up to this turn nothing can be left out, as long as this number of threads have enough.
    no_leap: (usize, usize),
}

/// Trace of a core that nothing needs.
#[derive(Debug)]
struct Leap {
    /// Index of the next turn that is needed; the number of turns if there is none.
    to: usize,
    /// Where decoding resumes before it: index of the turn, and offset of a PSB inside of it.
    resume: Option<(usize, u64)>,
}

/// How far a core's stream is decoded.
#[derive(Debug, Default)]
struct StreamReach {
    /// Index of the present turn.
    turn: usize,
    /// When the turn before it was closed.
    since: Tsc,
    /// The offset up to which the turn is decoded; `None` if it has not begun.
    reached: Option<u64>,
    /// The end of the portion that was pushed and is not decoded completely.
    portion: Option<u64>,
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
    /// `step_by_step`: the decoder follows each branch by itself.
    pub(crate) fn new(recording: &'a Recording, core: Core, turns: Vec<Turn>, step_by_step: bool) -> Self {
        Self::with(recording, core, turns, Config { step_by_step, ..config(recording.reader().header()) })
    }
    /// Records the decisions on code.
    fn deciding(recording: &'a Recording, core: Core, turns: Vec<Turn>) -> Self {
        let config = Config { record_decisions: true, ..config(recording.reader().header()) };
        Self::with(recording, core, turns, config)
    }
    fn with(recording: &'a Recording, core: Core, turns: Vec<Turn>, config: Config) -> Self {
        let mut decoder = CoreDecoder::new(config, recording.history());
        for stale in recording.stale_blocks(core) {
            decoder.stale(stale.offset, stale.address, &stale.bytes);
        }
        let slack = config.slack;
        let (at, bytes, spare) = Default::default();
        let (piece, pushed, needs, leap, no_leap) = Default::default();
        Self { recording, core, decoder, turns, at, piece, pushed, bytes, spare, slack, needs, leap, no_leap }
    }
    /// The same stream, which leaves out what `needs` excludes.
    pub(crate) fn needed_by(self, needs: Option<&'a Needs>) -> Self {
        Self { needs, ..self }
    }
    /// Takes the list of a batch that was used up, so that its memory is used again.
    pub(crate) fn reuse(&mut self, list: Vec<Item>) {
        self.spare = Some(list);
    }
    /// The next batch; `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, Error> {
        self.next_checked(&mut Unchecked)
    }
    /// As [`Self::next`]. `check` sees the items first.
    fn next_checked(&mut self, check: &mut dyn Check) -> Result<Option<Batch>, Error> {
        let Some(&turn) = self.turns.get(self.at.turn) else { return Ok(None) };
        let s = &turn.stretch;
        if self.at.reached.is_none() {
            self.plan_leap()?;
        }
        let skipped = self.leap.is_some();
        let reached = match self.at.reached {
            Some(reached) => reached,
            None => match self.leap.as_ref().map(|leap| leap.resume) {
                Some(Some((turn, psb))) if turn == self.at.turn => self.land(psb),
                Some(Some((turn, _))) if turn < self.at.turn => self.begin(s),
                Some(_) => {
                    self.at = StreamReach { turn: self.at.turn + 1, since: s.closed, ..Default::default() };
                    let batch = Batch::new(self.core, s.from, Vec::new(), true);
                    return Ok(Some(Batch { skipped, ..batch }));
                }
                None => self.begin(s),
            },
        };
        let until = match self.at.portion {
            Some(until) => until,
            None => self.push_portion(s, reached)?,
        };
        let at_end = until == s.to.0;
        let part = jportal_machine_flow::Stretch {
            until: StreamOffset(until),
            since: turn.since(self.at.since),
            latest: s.closed,
            tid: s.tid,
            left: turn.left,
            continues: turn.continues || !at_end,
        };
        let mut items = self.spare.take().unwrap_or_default();
        let history = self.recording.history();
        let progress = self.decoder.decode(part, history, &mut items);
        check
            .items(s, &items, self.decoder.decisions(), history)
            .map_err(|message| Error::Libipt { core: self.core, message })?;
        let done = progress == Progress::Done;
        if done && at_end {
            self.at = StreamReach { turn: self.at.turn + 1, since: s.closed, ..StreamReach::default() };
        } else if done {
            self.at = StreamReach { reached: Some(until), portion: None, ..self.at };
        }
        if skipped {
            items.clear();
        }
        let batch = Batch::new(self.core, StreamOffset(reached), items, done && at_end);
        Ok(Some(Batch { skipped, ..batch }))
    }
    /// At the beginning of a turn: whether to leave out trace from here on, and up to where.
    fn plan_leap(&mut self) -> Result<(), Error> {
        let here = self.at.turn;
        self.leap.take_if(|leap| leap.to == here);
        let (Some(needs), None) = (self.needs, &self.leap) else { return Ok(()) };
        let ended = needs.ended();
        if here < self.no_leap.0 && self.no_leap.1 == ended {
            return Ok(());
        }
        let excluded = |turn: &&Turn| needs.excludes(&turn.stretch);
        let to = here + self.turns[here..].iter().take_while(excluded).count();
        self.leap = match to < self.turns.len() {
            true => self.resume(here, to)?.map(|resume| Leap { to, resume: Some(resume) }),
            false => Some(Leap { to, resume: None }),
        };
        if self.leap.is_none() {
            self.no_leap = (to, ended);
        }
        Ok(())
    }
    /// Where decoding resumes if nothing needs the turns from `here` up to `to`: index of the turn,
    /// and offset of a PSB inside of it. From there on the decoder sees all that tells it which
    /// changes of code the core has seen when the turn `to` begins.
    fn resume(&mut self, here: usize, to: usize) -> Result<Option<(usize, u64)>, Error> {
        let (turns, next) = (&self.turns[here..to], &self.turns[to]);
        let from = turns.first().map_or(u64::MAX, |t| t.stretch.from.0);
        // Where records are missing, the next stretch begins anew.
        if next.stretch.blind.is_some() || next.stretch.from.0.saturating_sub(from) < LEAP {
            return Ok(None);
        }
        let begin = next.since(turns.last().map_or(Tsc(0), |t| t.stretch.closed));
        let unsettled = self.recording.history().unsettled_since(begin, self.slack);
        let before = |t: &Turn| t.stretch.closed <= unsettled;
        let after_blind = turns.iter().rposition(|t| t.stretch.blind.is_some()).map_or(0, |at| at + 1);
        let Some(last) = turns.iter().rposition(before).filter(|last| *last >= after_blind) else {
            return Ok(None);
        };
        let (first, last) = (turns[after_blind].stretch, turns[last].stretch);
        let until = last.to.0.min(next.stretch.from.0 - RUN_UP);
        let Some(psb) = self.last_psb(first.from.0, until)? else { return Ok(None) };
        let holds = |t: &Turn| before(t) && (t.stretch.from.0..t.stretch.to.0).contains(&psb);
        let turn = self.turns[here..to].iter().position(holds);
        Ok(turn.map(|turn| (here + turn, psb)).filter(|(_, psb)| psb - from >= LEAP / 2))
    }
    /// The last PSB between two offsets of the stream.
    fn last_psb(&mut self, from: u64, to: u64) -> Result<Option<u64>, Error> {
        let pieces = self.recording.reader().pt(self.core);
        let before = pieces.partition_point(|p| p.offset < to);
        for piece in pieces[..before].iter().rev().take_while(|p| p.end() > from) {
            match self.read(piece) {
                Ok(()) => {}
                Err(e @ jportal_capture::Error::Read { .. }) => return Err(e.into()),
                Err(_) => continue,
            }
            // One that is split between two pieces is not found: an earlier one serves as well.
            let places = find_psbs(&self.bytes.1).map(|at| piece.offset + at as u64);
            if let Some(last) = places.filter(|at| (from..to).contains(at)).last() {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }
    /// Resumes at a PSB inside of the present turn, after trace that was left out.
    fn land(&mut self, psb: u64) -> u64 {
        self.decoder.leave_out(StreamOffset(psb));
        self.pushed = psb;
        self.piece = self.recording.reader().pt(self.core).partition_point(|p| p.end() <= psb);
        self.at.reached = Some(psb);
        psb
    }
    /// Begins a stretch. Returns the offset of its first byte.
    fn begin(&mut self, s: &Stretch) -> u64 {
        if let Some(blind) = s.blind {
            self.decoder.blind(blind.since, blind.until);
            // Trace that belongs to no known thread is not decoded.
            self.pushed = self.pushed.max(s.from.0);
        }
        if let Some(tsc) = s.came {
            self.decoder.came_while_lost(tsc);
        }
        self.at.reached = Some(s.from.0);
        s.from.0
    }
    /// Pushes the next portion of a stretch. Returns its end.
    fn push_portion(&mut self, s: &Stretch, reached: u64) -> Result<u64, Error> {
        let until = s.to.0.min(reached.saturating_add(PORTION).max(self.next_held(reached)));
        self.push_up_to(until)?;
        if until == s.to.0 && s.truncated {
            self.decoder.loss(StreamOffset(until));
        }
        self.at.portion = Some(until);
        Ok(until)
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

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_capture::header::PtConfig;
    use jportal_capture::{CaptureReader, CaptureWriter, EndReason};
    use jportal_machine_flow::Patch;
    use jportal_perf_abi::Record;
    use jportal_perf_abi::record::{Body, SampleId};
    use jportal_pt_packet::Encoder;
    use jportal_units::{Address, AddressRange, CodeId, Tid};
    use std::collections::BTreeSet;

    const CODE: u64 = 0x10000;
    const TURNS: u64 = 120;

    /// Thread 2 has the core in the turns 3 and 100, thread 1 in all others. A PSB is in every
    /// fourth turn only.
    fn recording(dir: &tempfile::TempDir) -> Recording {
        let path = dir.path().join("a");
        let mut w = CaptureWriter::create(&path).unwrap();
        let pt = PtConfig { source: sources::EMULATED, cores: 1, ..PtConfig::default() };
        let (code_cache_low, code_cache_high) = (CODE, 2 * CODE);
        w.header(&Header { code_cache_low, code_cache_high, pt, ..Header::default() }).unwrap();
        let (mut out, mut sideband, mut at) = (Encoder::new(), Vec::new(), 0);
        for n in 0..TURNS {
            let (tid, time) = (if [3, 100].contains(&n) { 2 } else { 1 }, 1000 * (n + 1));
            if n % 4 == 0 {
                out.psb();
                out.tsc(time);
                out.psbend();
            } else {
                out.tsc(time);
            }
            out.tip_pge(CODE + 16 * (n % 64));
            (0..3000).for_each(|i| out.tip(CODE + 16 * ((7 * i + n) % 64)));
            out.tip_pgd(Some(4 * CODE));
            let bytes = out.take();
            w.pt(Core(0), StreamOffset(at), &bytes).unwrap();
            let (offset, size) = (at, bytes.len() as u64);
            at += size;
            let switch = |out| Body::Switch { out, preempted: false };
            let aux = Body::Aux { offset, size, flags: 0 };
            for (body, time) in [(switch(false), time - 1), (switch(true), time + 500), (aux, time + 500)] {
                let sample = SampleId { tid, time, ..SampleId::default() };
                Record { body, sample }.encode(&mut sideband);
            }
        }
        w.sideband(Core(0), &sideband).unwrap();
        w.finish(EndReason::Exit, "", Vec::new()).unwrap();
        Recording::open(CaptureReader::open(&path).unwrap()).unwrap().with_code(code())
    }

    fn code() -> CodeHistory {
        let range = AddressRange { start: Address(CODE), end: Address(2 * CODE) };
        let mut code = CodeHistory::new(range).unwrap();
        // Each block of 16 bytes begins with `jmp rax`.
        let bytes: Vec<u8> = (0..1024).map(|i| [0xff, 0xe0].get(i % 16).copied().unwrap_or(0x90)).collect();
        code.install(Tsc(1), Address(CODE), &bytes, CodeId(0)).unwrap();
        code
    }

    /// The items of each turn, the number of turns left out, and the pieces that were read.
    fn decoded(recording: &Recording, needs: Option<&Needs>) -> (Vec<Vec<Item>>, usize, BTreeSet<u64>) {
        let turns = recording.turns().remove(&0).unwrap();
        let mut stream = CoreStream::new(recording, Core(0), turns, false).needed_by(needs);
        let (mut all, mut left_out, mut read) = (vec![Vec::new()], 0, BTreeSet::new());
        while let Some(batch) = stream.next().unwrap() {
            read.extend(stream.bytes.0);
            all.last_mut().unwrap().extend(batch.items);
            left_out += usize::from(batch.skipped && batch.last);
            if batch.last {
                all.push(Vec::new());
            }
        }
        all.pop();
        (all, left_out, read)
    }

    #[test]
    fn trace_that_nothing_needs_is_not_read_and_the_rest_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let recording = recording(&dir);
        let (whole, left_out, read) = decoded(&recording, None);
        assert_eq!((whole.len(), left_out, read.len()), (120, 0, 120));
        let blocks = |turn: &[Item]| turn.iter().filter(|i| matches!(i, Item::Block { .. })).count();
        // Items of a turn may arrive with the next one if the thread stays.
        assert_eq!((blocks(&whole[3]), blocks(&whole[100])), (3001, 3001));
        let needs = Needs::of(None::<std::iter::Empty<Tid>>).until_enough(&[], &recording.image().threads);
        assert_eq!(decoded(&recording, Some(&needs)), (whole.clone(), 0, read));
        needs.has_enough(Tid(1), Tsc(0));
        let ended = decoded(&recording, Some(&needs));
        let (part, left_out, read) = &ended;
        assert_eq!(part.len(), 120);
        assert_eq!((&part[3], &part[100]), (&whole[3], &whole[100]));
        // Before turn 3 there is a PSB in turn 0 only.
        assert_eq!(*left_out, 115);
        assert!(read.len() < 20, "{read:?}");
        // A selection says the same from the start.
        assert_eq!(decoded(&recording, Some(&Needs::of(Some([Tid(2)].into_iter())))), ended);
        needs.has_enough(Tid(2), Tsc(0));
        assert_eq!(decoded(&recording, Some(&needs)).1, 120);
    }

    #[test]
    fn decoding_resumes_before_a_change_that_may_have_been_seen() {
        let dir = tempfile::tempdir().unwrap();
        let needs = Needs::of(Some([Tid(2)].into_iter()));
        // A patch of the last byte of the code: turn 100 begins less than a slack after its record.
        let read = |since| {
            let mut code = code();
            let (tsc, at) = (Tsc(70_000), Address(2 * CODE - 1));
            code.patch(tsc, Some(Tsc(since)), at, &[0x90], None, Patch::Other).unwrap();
            let recording = recording(&dir).with_code(code);
            decoded(&recording, Some(&needs)).2.into_iter().find(|at| *at > 30_000)
        };
        let turn = |n: usize| Some(recording(&dir).turns()[&0][n].stretch.from.0);
        // Turn 48 is closed at 49,500, and so on. There is a PSB in every fourth turn.
        assert_eq!([69_999, 69_500, 69_499, 49_400].map(read), [68, 68, 64, 44].map(turn));
    }
}
