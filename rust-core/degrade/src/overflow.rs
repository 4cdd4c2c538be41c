// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Overflows of the unit's internal buffer: packets are missing, and an OVF marks the place.
//!
//! SDM vol. 3, "Overflow (OVF) Packet": if an overflow
//! resolves while the core is in the traced range, a FUP with the next instruction follows the
//! OVF. If it resolves outside, there is no FUP, and a TIP.PGE follows when the core enters the
//! range again. Both begin with a full address, since the last IP is reset. Timing packets may
//! lie between OVF and FUP.
//!
//! The end of an overrun follows from what the packets say without the code: after a TIP,
//! execution is at its target; before a TIP.PGE, the core is outside. An overrun begins after a
//! branch packet and lies within the bytes of one thread. After the OVF, timing packets restore
//! the state of the clock that the lost packets would have left.

use crate::error::Error;
use crate::map::Cut;
use crate::random::Random;
use crate::trace::{CoreTrace, Owned};
use jportal_perf_abi::Body;
use jportal_pt_packet::{CodeSize, Encoder, LastIp, Packet, PacketDecoder};

/// How often and how long the buffer is overrun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Mean distance in bytes of trace.
    pub every: u64,
    /// Mean of the least number of bytes that an overrun loses.
    pub swallow: u64,
}

/// Bytes after which an overrun ends at the first possible packet, with or without FUP.
const PATIENCE: u64 = 4096;

/// An overrun: the bytes that it cuts out, and those that replace them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// From the first lost byte to the end of the packet that says where the flow resumes.
    pub cut: Cut,
    /// The overrun ends in the traced range, and a FUP says where.
    pub fup: bool,
}

/// The overruns of a trace.
///
/// # Errors
/// If the bytes are not packets.
pub fn overruns(trace: &CoreTrace, overflow: Overflow, seed: u64) -> Result<Vec<Overrun>, Error> {
    let mut scan = Scan::new(trace, overflow, seed);
    let mut decoder = PacketDecoder::new(&trace.bytes);
    let read = |source| Error::Packet { core: trace.core, source };
    while let Some((offset, packet)) = decoder.next_packet().map_err(read)? {
        scan.packet(offset.0, packet, decoder.offset().0);
    }
    Ok(scan.found)
}

/// An overrun that has not ended.
struct OpenOverrun {
    from: u64,
    /// First byte at which it may end.
    least: u64,
    fup: bool,
    clock: PacketClock,
}

/// The state of the clock: the last timing packet of each kind that counts.
#[derive(Default)]
struct PacketClock {
    tsc: Option<u64>,
    tma: Option<(u16, u16)>,
    cbr: Option<u8>,
    mtc: Option<u8>,
    cycles: u64,
}

impl PacketClock {
    fn take(&mut self, packet: Packet) {
        match packet {
            Packet::Tsc(tsc) => *self = Self { tsc: Some(tsc), cbr: self.cbr, ..Self::default() },
            Packet::Tma { ctc, fast_counter } => self.tma = Some((ctc, fast_counter)),
            Packet::Cbr(ratio) => self.cbr = Some(ratio),
            // Cycles count from the last MTC.
            Packet::Mtc(mtc) => (self.mtc, self.cycles) = (Some(mtc), 0),
            Packet::Cyc(cycles) => self.cycles += cycles,
            _ => {}
        }
    }

    fn put(&self, out: &mut Encoder) {
        if let Some(tsc) = self.tsc {
            out.tsc(tsc);
        }
        if let Some((ctc, fast_counter)) = self.tma {
            out.tma(ctc, fast_counter);
        }
        if let Some(ratio) = self.cbr {
            out.cbr(ratio);
        }
        if let Some(mtc) = self.mtc {
            out.mtc(mtc);
        }
        if self.cycles > 0 {
            out.cyc(self.cycles);
        }
    }
}

struct Scan<'a> {
    overflow: Overflow,
    random: Random,
    owned: Box<dyn Iterator<Item = Owned> + 'a>,
    /// First byte after those of the current thread.
    owned_to: u64,
    /// Stream offsets and addresses of blocks that ran with old bytes.
    stale: Vec<(u64, u64)>,
    due: u64,
    last_ip: LastIp,
    psb_plus: bool,
    /// A FUP has no TIP or TIP.PGD of its event so far.
    event: bool,
    open: Option<OpenOverrun>,
    found: Vec<Overrun>,
}

impl<'a> Scan<'a> {
    fn new(trace: &'a CoreTrace, overflow: Overflow, seed: u64) -> Self {
        let stale = trace.records.iter().filter_map(|r| match r.body {
            Body::StaleBlock { offset, address, .. } => Some((offset, address)),
            _ => None,
        });
        let mut scan = Self {
            overflow,
            random: Random::new(seed, 2, trace.core.0),
            owned: Box::new(trace.owned()),
            owned_to: 0,
            stale: stale.collect(),
            due: 0,
            last_ip: LastIp::default(),
            psb_plus: false,
            event: false,
            open: None,
            found: Vec::new(),
        };
        scan.next_due(0);
        scan
    }

    fn next_due(&mut self, from: u64) {
        // Half of `every` plus up to `every`: on average `every`.
        self.due = from + self.overflow.every / 2 + self.random.below(self.overflow.every + 1);
    }

    fn packet(&mut self, at: u64, packet: Packet, end: u64) {
        while at >= self.owned_to {
            let Some(next) = self.owned.next() else { return };
            self.owned_to = next.to;
            // An overrun must not extend into the bytes of another thread, so it is dropped.
            self.open = None;
        }
        let ip = self.address(packet);
        if let Some(open) = &mut self.open {
            open.clock.take(packet);
            if at >= open.least {
                self.end_at(at, packet, ip, end);
            }
        } else if end >= self.due && end < self.owned_to && self.is_branch(packet) {
            self.begin(end);
        }
        self.follow(packet);
    }

    fn address(&mut self, packet: Packet) -> Option<u64> {
        match packet {
            Packet::Psb | Packet::Ovf => {
                self.last_ip.reset();
                None
            }
            Packet::Tip(p) | Packet::TipPge(p) | Packet::TipPgd(p) | Packet::Fup(p) => self.last_ip.update(p),
            _ => None,
        }
    }

    /// Whether this is a branch packet that is neither part of PSB+ nor of an event.
    fn is_branch(&self, packet: Packet) -> bool {
        let branch = matches!(packet, Packet::Tip(_) | Packet::TntShort(_) | Packet::TntLong(_));
        branch && !self.psb_plus && !self.event
    }

    fn follow(&mut self, packet: Packet) {
        match packet {
            Packet::Psb => self.psb_plus = true,
            Packet::PsbEnd => self.psb_plus = false,
            Packet::Fup(_) => self.event = !self.psb_plus,
            Packet::Tip(_) | Packet::TipPgd(_) | Packet::TipPge(_) => self.event = false,
            _ => {}
        }
    }

    fn begin(&mut self, from: u64) {
        let least = from + self.overflow.swallow / 2 + self.random.below(self.overflow.swallow + 1);
        let fup = self.random.below(2) == 0;
        self.open = Some(OpenOverrun { from, least, fup, clock: PacketClock::default() });
    }

    /// Ends the open overrun at `packet`, if that says where the flow resumes.
    fn end_at(&mut self, at: u64, packet: Packet, ip: Option<u64>, end: u64) {
        let Some(ip) = ip else { return };
        let inside = matches!(packet, Packet::Tip(_)) && self.is_branch(packet);
        let outside = matches!(packet, Packet::TipPge(_));
        let Some(open) = self.open.take_if(|o| {
            let patient = at < o.least + PATIENCE;
            let old = self.stale.iter().any(|&(s, address)| s >= o.from && s <= at && address == ip);
            (inside && (o.fup || !patient)) || (outside && !old && !(o.fup && patient))
        }) else {
            return;
        };
        let mut out = Encoder::new();
        out.ovf();
        open.clock.put(&mut out);
        if inside {
            out.fup(ip);
        } else {
            out.mode_exec(CodeSize::Bits64);
            out.tip_pge(ip);
        }
        let cut = Cut { from: open.from, to: end, insert: out.take() };
        self.found.push(Overrun { cut, fup: inside });
        self.next_due(end);
    }
}

#[cfg(test)]
#[path = "overflow_tests.rs"]
mod tests;
