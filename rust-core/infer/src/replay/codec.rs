// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The encoding of events in a temporary file, which only the process that wrote it reads.
//!
//! Most events are one byte. Writer and reader keep the same shadow stack: a bytecode of the
//! top frame is encoded as the distance of its bci from the frame's last one, and the end of
//! the top frame as its cause. What the stack does not predict is written in full. Numbers are
//! LEB128, differences zigzag first.
//!
//! | first byte | event |
//! |---|---|
//! | [`STEP`]`..` | bytecode of the top frame in its tier: step from its last bci, plus [`BACK`] |
//! | [`RUN`] | run of the top frame in its tier: step to the first bci, step to the last, length |
//! | [`LEAVE`]` + exit` | end of the top frame |
//! | [`ENTER`]` + entry` | tier, method |
//! | others | tag, then all fields |
//!
//! An event that is not [`Provenance::Decoded`] is preceded by [`PROJECTED`] or [`RECOVERED`].

use jportal_flow::{Cause, Entry, Event, EventKind, Exit, Gap, GapReason, Orphan, Provenance, Tier};
use jportal_units::{Bci, Core, MethodId, StreamOffset, Tsc};
use std::io::{self, Read as _};

const BYTECODE: u8 = 0;
const LEAVE_OTHER: u8 = 1;
const CATCH: u8 = 2;
const UNRESOLVED: u8 = 3;
const TIME: u8 = 4;
const GAP: u8 = 5;
const PROJECTED: u8 = 6;
const RECOVERED: u8 = 7;
const ORPHAN: u8 = 8;
const ORPHAN_THROW: u8 = 9;
const RUN: u8 = 10;
const RUN_OTHER: u8 = 11;
const LEAVE: u8 = 12;
const ENTER: u8 = LEAVE + EXITS.len() as u8;
const STEP: u8 = ENTER + ENTRIES.len() as u8;
/// Backward distances of up to this many bytes of code are encoded in one byte, and forward
/// distances up to the rest of the byte's values.
const BACK: i32 = 64;

const TIERS: [Tier; 4] = [Tier::Interpreter, Tier::C1, Tier::C2, Tier::Native];
/// In the order of their discriminants, which are what is written.
const EXITS: [Exit; 7] = [
    Exit::Return,
    Exit::Unwind,
    Exit::PopFrame,
    Exit::EarlyReturn,
    Exit::Replaced,
    Exit::Lost,
    Exit::Unknown,
];
const ENTRIES: [Entry; 5] = [Entry::Call, Entry::Upcall, Entry::Osr, Entry::Deoptimisation, Entry::Found];

/// The maximum number of frames of the shadow stack; a flow may have any number.
const DEPTH: usize = 1 << 12;
/// The maximum length of a string in a gap's reason, in bytes; a longer one is damaged.
const TEXT: u64 = 1 << 24;

/// A frame of the shadow stack that predicts events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CodecFrame {
    method: MethodId,
    tier: Tier,
    /// The bci of its last bytecode.
    bci: u16,
}

/// The state that writer and reader share.
#[derive(Debug, Default)]
struct CodecState {
    frames: Vec<CodecFrame>,
    time: u64,
}

impl CodecState {
    /// Updates the state with an event.
    fn follow(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::Enter { method, tier, .. } => self.push(CodecFrame { method, tier, bci: 0 }),
            EventKind::Leave { .. } => {
                self.frames.pop();
            }
            EventKind::Bytecode { method, bci: last, tier } | EventKind::Run { method, last, tier, .. } => {
                let frame = CodecFrame { method, tier, bci: last.0 };
                match self.frames.last_mut() {
                    Some(top) => *top = frame,
                    None => self.push(frame),
                }
            }
            EventKind::Time(tsc) => self.time = tsc.0,
            EventKind::Catch { .. }
            | EventKind::Unresolved { .. }
            | EventKind::Gap(_)
            | EventKind::Orphan(_)
            | EventKind::Code(_) => {}
        }
    }
    fn push(&mut self, frame: CodecFrame) {
        if self.frames.len() == DEPTH {
            self.frames.clear();
        }
        self.frames.push(frame);
    }
    fn top(&self) -> Option<CodecFrame> {
        self.frames.last().copied()
    }
}

/// Writes the events of one thread.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    state: CodecState,
}

impl Encoder {
    /// Appends `event` to `out`.
    pub(crate) fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event.provenance {
            Provenance::Decoded => {}
            Provenance::Projected { paths } => {
                out.push(PROJECTED);
                number(out, paths.into());
            }
            Provenance::Recovered { confidence } => {
                out.push(RECOVERED);
                out.extend(confidence.to_le_bytes());
            }
        }
        self.kind(&event.kind, out);
        self.state.follow(&event.kind);
    }
    fn kind(&self, kind: &EventKind, out: &mut Vec<u8>) {
        match kind {
            EventKind::Bytecode { method, bci, tier } => self.bytecode(*method, *bci, *tier, out),
            EventKind::Run { method, first, last, len, tier } => {
                match self.state.top().filter(|t| (t.method, t.tier) == (*method, *tier)) {
                    Some(top) => {
                        out.push(RUN);
                        number(out, zigzag(i64::from(first.0) - i64::from(top.bci)));
                    }
                    None => {
                        out.extend([RUN_OTHER, *tier as u8]);
                        number(out, method.0.into());
                        number(out, first.0.into());
                    }
                }
                number(out, zigzag(i64::from(last.0) - i64::from(first.0)));
                number(out, (*len).into());
            }
            EventKind::Enter { method, tier, entry } => {
                out.push(ENTER + *entry as u8);
                out.push(*tier as u8);
                number(out, method.0.into());
            }
            EventKind::Leave { method, exit } if self.state.top().is_some_and(|t| t.method == *method) => {
                out.push(LEAVE + *exit as u8);
            }
            EventKind::Leave { method, exit } => {
                out.extend([LEAVE_OTHER, *exit as u8]);
                number(out, method.0.into());
            }
            EventKind::Catch { method, bci } => {
                out.push(CATCH);
                number(out, method.0.into());
                number(out, bci.0.into());
            }
            EventKind::Unresolved { method, from, to, cause, callers } => {
                out.push(UNRESOLVED);
                number(out, method.0.into());
                optional(out, from.map(|b| b.0.into()));
                optional(out, to.map(|b| b.0.into()));
                number(out, Cause::ALL.iter().position(|c| c == cause).unwrap_or(0) as u64);
                number(out, (*callers).into());
            }
            EventKind::Time(tsc) => {
                out.push(TIME);
                number(out, zigzag(tsc.0.wrapping_sub(self.state.time) as i64));
            }
            EventKind::Gap(gap) => {
                out.push(GAP);
                gap_fields(gap, out);
            }
            EventKind::Orphan(Orphan::Bytecode { opcode, taken }) => {
                out.extend([ORPHAN, *opcode, taken.map_or(0, |taken| 1 + u8::from(taken))]);
            }
            EventKind::Orphan(Orphan::Throw) => out.push(ORPHAN_THROW),
            // Filling takes no steps of code, so none arrives.
            EventKind::Code(_) => {}
        }
    }
    fn bytecode(&self, method: MethodId, bci: Bci, tier: Tier, out: &mut Vec<u8>) {
        let top = self.state.top().filter(|t| (t.method, t.tier) == (method, tier));
        let step = top.map(|t| i32::from(bci.0) - i32::from(t.bci) + BACK);
        match step.and_then(|s| u8::try_from(s).ok()).and_then(|s| s.checked_add(STEP)) {
            Some(byte) => out.push(byte),
            None => {
                out.extend([BYTECODE, tier as u8]);
                number(out, method.0.into());
                number(out, bci.0.into());
            }
        }
    }
}

fn gap_fields(gap: &Gap, out: &mut Vec<u8>) {
    text(out, gap.reason.name());
    text(out, gap.reason.fault().unwrap_or_default());
    text(out, gap.reason.detail().unwrap_or_default());
    number(out, gap.core.0.into());
    number(out, gap.offset.0);
    optional(out, gap.address);
    optional(out, gap.since.map(|t| t.0));
    optional(out, gap.until.map(|t| t.0));
    optional(out, gap.bytes);
    out.push(gap.stack_lost.into());
}

fn number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn optional(out: &mut Vec<u8>, n: Option<u64>) {
    out.push(n.is_some().into());
    n.into_iter().for_each(|n| number(out, n));
}

fn text(out: &mut Vec<u8>, s: &str) {
    number(out, s.len() as u64);
    out.extend(s.as_bytes());
}

const fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

const fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// Reads what an [`Encoder`] wrote.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    state: CodecState,
}

impl Decoder {
    /// Reads the next event and advances `input` past it.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] at the end of the input, [`io::ErrorKind::InvalidData`]
    /// where the bytes are not the output of an encoder.
    pub(crate) fn event(&mut self, input: &mut &[u8]) -> io::Result<Event> {
        EventReader { state: &mut self.state, input }.event()
    }
}

/// Reads one event.
struct EventReader<'r, 'b> {
    state: &'r mut CodecState,
    input: &'r mut &'b [u8],
}

impl EventReader<'_, '_> {
    fn event(&mut self) -> io::Result<Event> {
        let mut tag = self.byte()?;
        let mut provenance = Provenance::Decoded;
        if tag == PROJECTED {
            provenance = Provenance::Projected { paths: self.small()? };
            tag = self.byte()?;
        } else if tag == RECOVERED {
            let mut bytes = [0; 4];
            self.input.read_exact(&mut bytes)?;
            provenance = Provenance::Recovered { confidence: f32::from_le_bytes(bytes) };
            tag = self.byte()?;
        }
        let kind = self.kind(tag)?;
        self.state.follow(&kind);
        Ok(Event { kind, provenance })
    }
    fn kind(&mut self, tag: u8) -> io::Result<EventKind> {
        Ok(match tag {
            STEP.. => {
                let top = self.state.top().ok_or_else(damaged)?;
                let bci = i32::from(top.bci) + i32::from(tag - STEP) - BACK;
                let bci = Bci(u16::try_from(bci).map_err(|_| damaged())?);
                EventKind::Bytecode { method: top.method, bci, tier: top.tier }
            }
            ENTER..STEP => {
                let entry = of(&ENTRIES, tag - ENTER)?;
                EventKind::Enter { tier: of(&TIERS, self.byte()?)?, method: self.method()?, entry }
            }
            LEAVE..ENTER => {
                let top = self.state.top().ok_or_else(damaged)?;
                EventKind::Leave { method: top.method, exit: of(&EXITS, tag - LEAVE)? }
            }
            RUN => {
                let CodecFrame { method, tier, bci } = self.state.top().ok_or_else(damaged)?;
                let first = self.bci_from(Bci(bci))?;
                EventKind::Run { method, first, last: self.bci_from(first)?, len: self.small()?, tier }
            }
            RUN_OTHER => {
                let (tier, method, first) = (of(&TIERS, self.byte()?)?, self.method()?, self.bci()?);
                EventKind::Run { method, first, last: self.bci_from(first)?, len: self.small()?, tier }
            }
            BYTECODE => EventKind::Bytecode {
                tier: of(&TIERS, self.byte()?)?,
                method: self.method()?,
                bci: self.bci()?,
            },
            LEAVE_OTHER => EventKind::Leave { exit: of(&EXITS, self.byte()?)?, method: self.method()? },
            CATCH => EventKind::Catch { method: self.method()?, bci: self.bci()? },
            UNRESOLVED => EventKind::Unresolved {
                method: self.method()?,
                from: self.optional_bci()?,
                to: self.optional_bci()?,
                cause: of(Cause::ALL, u8::try_from(self.number()?).map_err(|_| damaged())?)?,
                callers: self.small()?,
            },
            TIME => {
                let step = unzigzag(self.number()?);
                EventKind::Time(Tsc(self.state.time.wrapping_add(step as u64)))
            }
            GAP => EventKind::Gap(Box::new(self.gap()?)),
            ORPHAN => EventKind::Orphan(Orphan::Bytecode {
                opcode: self.byte()?,
                taken: match self.byte()? {
                    0 => None,
                    taken @ (1 | 2) => Some(taken == 2),
                    _ => return Err(damaged()),
                },
            }),
            ORPHAN_THROW => EventKind::Orphan(Orphan::Throw),
            PROJECTED | RECOVERED => return Err(damaged()),
        })
    }
    fn gap(&mut self) -> io::Result<Gap> {
        let name = self.text()?;
        let fault = self.text()?;
        let detail = self.text()?;
        Ok(Gap {
            reason: GapReason::named(&name, &fault, detail).ok_or_else(damaged)?,
            core: Core(self.small()?),
            offset: StreamOffset(self.number()?),
            address: self.optional()?,
            since: self.optional()?.map(Tsc),
            until: self.optional()?.map(Tsc),
            bytes: self.optional()?,
            stack_lost: self.byte()? != 0,
        })
    }
    fn byte(&mut self) -> io::Result<u8> {
        let (first, rest) = self.input.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
        *self.input = rest;
        Ok(*first)
    }
    fn number(&mut self) -> io::Result<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(damaged())
    }
    fn small<T: TryFrom<u64>>(&mut self) -> io::Result<T> {
        T::try_from(self.number()?).map_err(|_| damaged())
    }
    fn method(&mut self) -> io::Result<MethodId> {
        self.small().map(MethodId)
    }
    /// A bci that is encoded as its distance from another one.
    fn bci_from(&mut self, other: Bci) -> io::Result<Bci> {
        let bci = unzigzag(self.number()?).checked_add(i64::from(other.0));
        bci.and_then(|bci| u16::try_from(bci).ok()).map(Bci).ok_or_else(damaged)
    }
    fn bci(&mut self) -> io::Result<Bci> {
        self.small().map(Bci)
    }
    fn optional(&mut self) -> io::Result<Option<u64>> {
        if self.byte()? == 0 { Ok(None) } else { self.number().map(Some) }
    }
    fn optional_bci(&mut self) -> io::Result<Option<Bci>> {
        let n = self.optional()?;
        n.map(|n| u16::try_from(n).map(Bci).map_err(|_| damaged())).transpose()
    }
    fn text(&mut self) -> io::Result<String> {
        let len = self.number()?;
        if len > TEXT {
            return Err(damaged());
        }
        let (text, rest) = self.input.split_at_checked(len as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        *self.input = rest;
        String::from_utf8(text.to_vec()).map_err(|_| damaged())
    }
}

fn of<T: Copy>(all: &[T], at: u8) -> io::Result<T> {
    all.get(usize::from(at)).copied().ok_or_else(damaged)
}

#[cold]
fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the bytes are no event")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_flow::{FlowFault, MachineFault};
    use proptest::prelude::*;

    fn any_kind() -> impl Strategy<Value = EventKind> {
        // Few methods and bcis, so that the stack often predicts the event; and sometimes
        // arbitrary ones.
        let method = || prop_oneof![8 => 0u32..4, 1 => any::<u32>()].prop_map(MethodId);
        let bci = || prop_oneof![8 => 0u16..300, 1 => any::<u16>()].prop_map(Bci);
        let tier = || prop::sample::select(&TIERS[..]);
        let text = || "[a-zé]{0,9}".boxed();
        let machine = prop::sample::select(MachineFault::ALL);
        let flow = prop::sample::select(FlowFault::ALL);
        let reason = (0usize..6, machine, flow, text()).prop_map(|(n, machine, flow, s)| match n {
            0 => GapReason::Truncated,
            1 => GapReason::Overflow,
            2 => GapReason::BeforePsb,
            3 => GapReason::MachineFlow(machine, s),
            4 => GapReason::Reconstruct(flow, s),
            _ => GapReason::Sideband,
        });
        let times = (any::<Option<u64>>(), any::<Option<u64>>());
        let gap = (reason, any::<(u32, u64)>(), any::<Option<u64>>(), times, any::<(Option<u64>, bool)>());
        let gap =
            gap.prop_map(|(reason, (core, offset), address, (since, until), (bytes, stack_lost))| Gap {
                reason,
                core: Core(core),
                offset: StreamOffset(offset),
                address,
                since: since.map(Tsc),
                until: until.map(Tsc),
                bytes,
                stack_lost,
            });
        let ends = (prop::option::of(bci()), prop::option::of(bci()));
        let unresolved = (method(), ends, prop::sample::select(Cause::ALL), any::<u16>());
        prop_oneof![
            8 => (method(), bci(), tier()).prop_map(|(method, bci, tier)| EventKind::Bytecode { method, bci, tier }),
            4 => (method(), bci(), bci(), any::<u16>(), tier())
                .prop_map(|(method, first, last, len, tier)| EventKind::Run { method, first, last, len, tier }),
            3 => (method(), tier(), prop::sample::select(&ENTRIES[..]))
                .prop_map(|(method, tier, entry)| EventKind::Enter { method, tier, entry }),
            3 => (method(), prop::sample::select(&EXITS[..])).prop_map(|(method, exit)| EventKind::Leave { method, exit }),
            1 => (method(), bci()).prop_map(|(method, bci)| EventKind::Catch { method, bci }),
            1 => unresolved.prop_map(|(method, (from, to), cause, callers)| EventKind::Unresolved {
                method, from, to, cause, callers
            }),
            1 => any::<u64>().prop_map(|t| EventKind::Time(Tsc(t))),
            1 => gap.prop_map(|g| EventKind::Gap(Box::new(g))),
            1 => (any::<u8>(), any::<Option<bool>>())
                .prop_map(|(opcode, taken)| EventKind::Orphan(Orphan::Bytecode { opcode, taken })),
            1 => Just(EventKind::Orphan(Orphan::Throw)),
        ]
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let provenance = prop_oneof![
            4 => Just(Provenance::Decoded),
            1 => any::<u32>().prop_map(|paths| Provenance::Projected { paths }),
            1 => (0f32..=1.0).prop_map(|confidence| Provenance::Recovered { confidence }),
        ];
        (any_kind(), provenance).prop_map(|(kind, provenance)| Event { kind, provenance })
    }

    fn encoded(events: &[Event]) -> Vec<u8> {
        let (mut encoder, mut out) = (Encoder::default(), Vec::new());
        events.iter().for_each(|e| encoder.event(e, &mut out));
        out
    }

    proptest! {
        #[test]
        fn events_come_out_as_they_went_in(events in prop::collection::vec(any_event(), 0..200)) {
            let bytes = encoded(&events);
            let (mut decoder, mut input) = (Decoder::default(), &bytes[..]);
            for event in &events {
                prop_assert_eq!(&decoder.event(&mut input).unwrap(), event);
            }
            prop_assert_eq!(decoder.event(&mut input).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }

        /// Reading arbitrary bytes ends with an event or an error.
        #[test]
        fn any_bytes_end_in_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut decoder, mut input) = (Decoder::default(), &bytes[..]);
            while decoder.event(&mut input).is_ok() {}
        }
    }

    #[test]
    fn most_events_are_one_byte() {
        let enter = |m| EventKind::Enter { method: MethodId(m), tier: Tier::C1, entry: Entry::Call };
        let code = |m, bci| EventKind::Bytecode { method: MethodId(m), bci: Bci(bci), tier: Tier::C1 };
        let leave = EventKind::Leave { method: MethodId(9), exit: Exit::Return };
        let kinds = [enter(3), code(3, 0), code(3, 1), enter(9), code(9, 0), leave, code(3, 4), code(3, 0)];
        let events: Vec<Event> = kinds.into_iter().map(Event::decoded).collect();
        assert_eq!(encoded(&events).len(), events.len() + 2 * 2);
    }

    #[test]
    fn frames_beyond_the_bound_are_only_less_foretold() {
        let enter = EventKind::Enter { method: MethodId(1), tier: Tier::C2, entry: Entry::Call };
        let leave = EventKind::Leave { method: MethodId(1), exit: Exit::Return };
        let deep = DEPTH + 10;
        let events: Vec<Event> =
            (0..2 * deep).map(|i| Event::decoded(if i < deep { &enter } else { &leave }.clone())).collect();
        let bytes = encoded(&events);
        let (mut decoder, mut input) = (Decoder::default(), &bytes[..]);
        assert!(events.iter().all(|e| decoder.event(&mut input).is_ok_and(|d| d == *e)));
    }
}
