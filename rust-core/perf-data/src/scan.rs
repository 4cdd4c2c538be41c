// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds where perf can stop, and at what time.
//!
//! perf decodes up to the first branch that is not older than the next sideband record, takes
//! that record, and continues. Such a branch is a *stop*: a TIP, a TIP.PGE, a TIP.PGD, or an
//! outcome of a TNT that was taken. Its time is that of the timing packets before its packet.
//! Direct jumps and calls that perf passes in between have the time of the previous stop.
//! Outcomes that were not taken are not stops.
//!
//! At a TIP.PGE, perf does not use the time of the packets but adds an estimate: two ticks for
//! each instruction since the last timing packet. Where the estimate must not run ahead of the
//! packets, a timing packet has to precede the TIP.PGE ([`Scan::quiet`]).

use crate::clock::TraceClock;
use crate::error::Error;
use crate::packets;
use crate::uses::{CoreUses, WalkPlace};
use jportal_capture::CaptureReader;
use jportal_pt_packet::{Packet, Tnt};
use jportal_units::Core;

/// A place in a core's trace at which a packet can be inserted: before the outcome `outcome` of
/// the packet at `offset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InsertionPlace {
    /// Offset of the packet.
    pub offset: u64,
    /// Number of an outcome in a TNT; the oldest is 0.
    pub outcome: u8,
}

/// The last stop before a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Its place; `None` if there is none.
    pub place: Option<InsertionPlace>,
    /// perf's time there.
    pub time: u64,
}

/// The last stop before a use of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// The change of code.
    pub change: u32,
    /// Whether the walk executes the new bytes. Otherwise it is the last one that executes the
    /// old ones.
    pub new: bool,
    /// The last stop before the walk.
    pub stop: Stop,
}

/// The first stop of a thread's turn on the core, and the last stop of the previous thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnChange {
    /// Number of the turn.
    pub turn: usize,
    /// The last stop before the turn.
    pub before: Stop,
    /// Its first stop.
    pub first: Stop,
}

/// The data of one core that planning needs.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// In order of place.
    pub sights: Vec<Sight>,
    /// In order of place.
    pub turns: Vec<TurnChange>,
    /// Number of CYC packets.
    pub cycles: u64,
    /// Time of the first timing packet.
    pub begins: u64,
    /// Stretches in which perf must not estimate: first and last offset, ascending.
    pub quiet: Vec<(u64, u64)>,
}

/// A use, with the place at which it is due.
struct Waiting {
    change: u32,
    new: bool,
    place: WalkPlace,
}

struct Scanner<'t> {
    out: Scan,
    clock: TraceClock,
    /// In descending order of place: the next one is last.
    waiting: Vec<Waiting>,
    /// Offsets at which another thread's trace begins.
    turns: &'t [u64],
    next_turn: usize,
    last: Stop,
    /// The time of `last`, except that a PSB counts as well: perf may stop there.
    last_old: u64,
    /// Offset of the last timing packet.
    timed: u64,
    psb_plus: bool,
    /// The FUP to which a TIP or TIP.PGD belongs.
    fup: Option<Stop>,
}

/// Reads the packets of `core`. `turns`: offsets at which another thread's trace begins,
/// ascending. `losses`: offsets after which trace was lost.
pub(crate) fn scan(
    reader: &CaptureReader,
    core: Core,
    uses: &CoreUses,
    turns: &[u64],
    losses: &[u64],
    clock: TraceClock,
) -> Result<Scan, Error> {
    let mut waiting: Vec<Waiting> = Vec::new();
    for (&change, u) in &uses.uses {
        let both = [(u.not_yet, false), (u.seen, true)];
        waiting.extend(both.into_iter().filter_map(|(p, new)| Some(Waiting { change, new, place: p? })));
    }
    waiting.sort_by_key(|w| {
        // Within a TNT, the walk with more outcomes left comes first.
        let left = w.place.outcomes_left.map_or(0, |left| u8::MAX - left);
        std::cmp::Reverse((w.place.packet, w.place.outcomes_left.is_none(), left, w.change))
    });
    let mut scanner = Scanner {
        out: Scan::default(),
        clock,
        waiting,
        turns,
        next_turn: 0,
        last: Stop::default(),
        last_old: 0,
        timed: 0,
        psb_plus: false,
        fup: None,
    };
    packets::for_each(reader, core, losses, |unit| {
        match unit.packet {
            Some(packet) => scanner.take(unit.offset, &packet),
            None => scanner.fup = None,
        }
        Ok(())
    })?;
    scanner.finish();
    Ok(scanner.out)
}

impl Scanner<'_> {
    fn take(&mut self, offset: u64, packet: &Packet) {
        self.clock.take(packet);
        if self.out.begins == 0 {
            self.out.begins = self.clock.now();
        }
        let time = self.clock.now();
        match packet {
            Packet::TntShort(tnt) | Packet::TntLong(tnt) => self.tnt(offset, *tnt, time),
            Packet::Tip(_) | Packet::TipPgd(_) => {
                self.walks(offset, None, time);
                let stop = self.fup.take().unwrap_or(Stop { place: place(offset, 0), time });
                self.stop(stop);
            }
            Packet::TipPge(_) => {
                self.fup = None;
                self.stop(Stop { place: place(offset, 0), time });
            }
            Packet::Fup(_) if !self.psb_plus => {
                self.walks(offset, None, time);
                self.fup = Some(Stop { place: place(offset, 0), time });
            }
            Packet::Tsc(_) | Packet::Mtc(_) => self.timed = offset,
            Packet::Psb => (self.psb_plus, self.fup) = (true, None),
            Packet::PsbEnd => {
                self.psb_plus = false;
                self.last_old = time;
            }
            Packet::Ovf => (self.psb_plus, self.fup) = (false, None),
            Packet::Cyc(_) => self.out.cycles += 1,
            _ => {}
        }
    }

    fn tnt(&mut self, offset: u64, tnt: Tnt, time: u64) {
        // Most packets matter only for their last taken outcome.
        if self.waiting.last().is_some_and(|w| w.place.packet <= offset) {
            for outcome in 0..tnt.len {
                self.walks(offset, Some((outcome, tnt.len)), time);
                if tnt.bits >> (tnt.len - 1 - outcome) & 1 != 0 {
                    self.stop(Stop { place: place(offset, outcome), time });
                }
            }
        } else if tnt.bits != 0 {
            let youngest = tnt.bits.trailing_zeros() as u8;
            let oldest = tnt.len - 1 - tnt.bits.ilog2() as u8;
            if self.next_turn < self.turns.len() {
                self.stop(Stop { place: place(offset, oldest), time });
            }
            self.stop(Stop { place: place(offset, tnt.len - 1 - youngest), time });
        }
    }

    /// Notes the walks that end with this outcome of the packet at `offset`, or with that
    /// packet.
    fn walks(&mut self, offset: u64, outcome: Option<(u8, u8)>, _time: u64) {
        while let Some(w) = self.waiting.last() {
            let here = match w.place.outcomes_left {
                _ if w.place.packet > offset => false,
                _ if w.place.packet < offset => true,
                None => false,
                Some(left) => outcome.is_none_or(|(outcome, len)| len.saturating_sub(left) <= outcome),
            };
            if !here {
                return;
            }
            let (change, new) = (w.change, w.new);
            let time = if new { self.last.time } else { self.last.time.max(self.last_old) };
            if !new {
                self.be_quiet();
            }
            self.out.sights.push(Sight { change, new, stop: Stop { time, ..self.last } });
            self.waiting.pop();
        }
    }

    fn stop(&mut self, stop: Stop) {
        let at = stop.place.unwrap_or_default().offset;
        let mut turn = None;
        while self.turns.get(self.next_turn).is_some_and(|&t| t <= at) {
            turn = Some(self.next_turn);
            self.next_turn += 1;
        }
        if let Some(turn) = turn {
            self.be_quiet();
            self.out.turns.push(TurnChange { turn, before: self.last, first: stop });
        }
        self.last = stop;
        self.last_old = stop.time;
    }

    /// Up to the last stop, perf must use the time of the packets.
    fn be_quiet(&mut self) {
        let Some(place) = self.last.place.filter(|p| p.offset >= self.timed) else { return };
        match self.out.quiet.last_mut() {
            Some(last) if last.1 >= self.timed => last.1 = place.offset,
            _ => self.out.quiet.push((self.timed, place.offset)),
        }
    }

    /// The uses that still wait do not matter: no walk follows.
    fn finish(&mut self) {
        self.waiting.clear();
    }
}

fn place(offset: u64, outcome: u8) -> Option<InsertionPlace> {
    Some(InsertionPlace { offset, outcome })
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
