// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What each packet does to the decoder's state.

use super::state::{Demand, Pending, SyncMode};
use super::{CoreDecoder, OpenGap};
use crate::cache::NONE;
use crate::error::Error;
use crate::image::CodeHistory;
use crate::item::{Item, MachineGapReason};
use jportal_pt_packet::{CodeSize, Packet, Tnt};
use jportal_units::{Address, StreamOffset, Tsc};

impl CoreDecoder {
    /// Processes one packet, whose first byte is at `state.packet` and whose successor is at
    /// `state.at`.
    #[inline]
    pub(super) fn packet(&mut self, packet: Packet, image: &CodeHistory) -> Result<(), Error> {
        if self.state.mode == SyncMode::Running {
            match packet {
                Packet::TntShort(tnt) | Packet::TntLong(tnt) => return self.tnt(tnt, image),
                Packet::Tip(payload) => {
                    let Some(ip) = self.state.last_ip.update(payload) else {
                        return Err(self.bad_state("TIP", "no address was sent with it"));
                    };
                    return self.tip(ip, image);
                }
                _ => {}
            }
        }
        self.other(packet, image)
    }

    /// The walk has followed the branch with which the current packet was sent.
    #[inline]
    fn pass(&mut self, image: &CodeHistory) {
        self.state.sent = self.state.clock.now();
        self.pass_to(self.state.sent, image);
    }

    #[inline]
    fn pass_to(&mut self, time: u64, image: &CodeHistory) {
        self.state.passed = time;
        if self.state.later != 0 && time >= self.state.later {
            self.state.later = 0;
            self.update_window(image);
        }
    }

    /// The flow begins here, or is known to be here at the present time.
    pub(super) fn begin_now(&mut self) {
        self.state.sent = self.state.clock.now();
        self.state.passed = self.state.sent;
    }

    #[inline]
    pub(super) fn tnt(&mut self, tnt: Tnt, image: &CodeHistory) -> Result<(), Error> {
        self.state.branches += 1;
        if self.state.outcomes != 0 || !self.state.enabled || self.state.pending != Pending::No {
            return self.odd_tnt(tnt, image);
        }
        self.pass_to(self.state.sent, image);
        self.state.tnt = tnt.bits;
        if self.config.step_by_step || !self.leap(tnt) {
            self.state.outcomes = tnt.len;
            self.walk_outcomes(image)?;
        }
        self.state.sent = self.state.clock.now();
        Ok(())
    }

    fn needs_target(&self, packet: &'static str) -> Error {
        Error::UnexpectedPacket {
            packet,
            offset: StreamOffset(self.state.packet),
            address: self.address(self.state.ip),
            needs: "needs a TIP",
        }
    }

    fn odd_tnt(&mut self, tnt: Tnt, image: &CodeHistory) -> Result<(), Error> {
        self.enabled("TNT")?;
        if self.state.outcomes != 0 {
            return Err(self.needs_target("TNT"));
        }
        self.settle_pending("TNT")?;
        self.pass_to(self.state.sent, image);
        self.state.tnt = tnt.bits;
        self.state.outcomes = tnt.len;
        self.walk(image)?;
        self.state.sent = self.state.clock.now();
        Ok(())
    }

    #[inline]
    pub(super) fn tip(&mut self, ip: u64, image: &CodeHistory) -> Result<(), Error> {
        self.state.branches += 1;
        if !self.state.enabled || self.state.pending != Pending::No {
            return self.odd_tip(ip, image);
        }
        if self.state.outcomes != 0 && !self.config.deferred_tips {
            // The current branch should have come before these outcomes.
            return Err(self.bad_state("TIP", "outcomes of the TNT before it wait for it"));
        }
        self.state.demand = Demand::Target(ip);
        self.walk(image)?;
        self.pass(image);
        Ok(())
    }

    fn odd_tip(&mut self, ip: u64, image: &CodeHistory) -> Result<(), Error> {
        self.enabled("TIP")?;
        if let Pending::Event(from) = self.state.pending {
            // An asynchronous branch to a target inside the range.
            self.items.push(Item::Interrupt { ip: Address(from) });
            self.state.pending = Pending::No;
            self.enter(ip)?;
        } else {
            self.settle_pending("TIP")?;
            self.state.demand = Demand::Target(ip);
            self.walk(image)?;
        }
        self.pass(image);
        Ok(())
    }

    /// A branch packet came: the FUP of an event must not be waiting for its TIP or TIP.PGD; the
    /// FUP of an OVF needs no further packet.
    fn settle_pending(&mut self, packet: &'static str) -> Result<(), Error> {
        match self.state.pending {
            Pending::Event(_) => Err(self.bad_state(packet, "a FUP waits for its TIP or TIP.PGD")),
            Pending::Overflow => Err(self.bad_state(packet, "an OVF waits for its FUP or TIP.PGE")),
            Pending::OwnedFup => Err(self.bad_state(packet, "a packet waits for its FUP")),
            Pending::No | Pending::OverflowFup(_) => {
                self.state.pending = Pending::No;
                Ok(())
            }
        }
    }

    fn enabled(&self, packet: &'static str) -> Result<(), Error> {
        match self.state.enabled {
            true => Ok(()),
            false => Err(self.bad_state(packet, "tracing is off")),
        }
    }

    pub(super) fn bad_state(&self, packet: &'static str, state: &'static str) -> Error {
        Error::UnexpectedState { packet, offset: StreamOffset(self.state.packet), state }
    }

    /// Execution resumes at `ip`.
    fn enter(&mut self, ip: u64) -> Result<(), Error> {
        let at = self.bounds.offset(ip);
        if at >= self.bounds.len {
            return Err(Error::NoCode { address: Address(ip), offset: StreamOffset(self.state.packet) });
        }
        self.state.enabled = true;
        self.state.calls.mark();
        self.state.ip = at;
        self.state.block = NONE;
        self.items.push(Item::Enter { ip: Address(ip) });
        Ok(())
    }

    fn other(&mut self, packet: Packet, image: &CodeHistory) -> Result<(), Error> {
        if packet == Packet::Psb {
            return self.psb();
        }
        match self.state.mode {
            SyncMode::Lost => Ok(()),
            SyncMode::PsbPlus { fresh, fup } => self.in_psb_plus(packet, fresh, fup, image),
            SyncMode::Running => self.running(packet, image),
        }
    }

    fn psb(&mut self) -> Result<(), Error> {
        let fresh = match self.state.mode {
            SyncMode::Lost => true,
            SyncMode::PsbPlus { fresh, .. } => fresh,
            SyncMode::Running => false,
        };
        if self.state.outcomes != 0 {
            return Err(self.bad_state("PSB", "outcomes of a TNT wait for a TIP"));
        }
        self.state.last_ip.reset();
        self.state.psb = self.state.packet;
        self.state.mode = SyncMode::PsbPlus { fresh, fup: None };
        if fresh && let Some(lost) = &mut self.lost {
            lost.resumed = Some(self.state.packet);
        }
        Ok(())
    }

    fn in_psb_plus(
        &mut self,
        packet: Packet,
        fresh: bool,
        fup: Option<u64>,
        image: &CodeHistory,
    ) -> Result<(), Error> {
        match packet {
            Packet::Fup(payload) => {
                let fup = self.state.last_ip.update(payload);
                self.state.mode = SyncMode::PsbPlus { fresh, fup };
                Ok(())
            }
            Packet::PsbEnd => self.psb_end(fresh, fup, image),
            Packet::Ovf => {
                self.state.mode = SyncMode::Running;
                self.overflow();
                Ok(())
            }
            Packet::TntShort(_)
            | Packet::TntLong(_)
            | Packet::Tip(_)
            | Packet::TipPge(_)
            | Packet::TipPgd(_) => Err(self.bad_state(packet.name(), "PSB+ is not ended by PSBEND")),
            _ => self.common(packet),
        }
    }

    fn psb_end(&mut self, fresh: bool, fup: Option<u64>, image: &CodeHistory) -> Result<(), Error> {
        self.state.mode = SyncMode::Running;
        // The flow begins here. In mid-stream, the branches that lead to the FUP of a PSB+ ran
        // before it.
        if fresh || !self.state.enabled {
            self.begin_now();
        }
        match (fresh, fup) {
            (true, _) if self.state.clock.now() < self.blind_until.0 => {
                self.state.mode = SyncMode::Lost;
                return Ok(());
            }
            (true, _) => {
                self.resumed();
                self.tell_time();
                if let Some(ip) = fup {
                    self.enter(ip)?;
                }
            }
            (false, Some(ip)) if self.state.enabled => {
                self.state.demand = Demand::Sync(ip);
                return self.walk(image);
            }
            (false, Some(_)) => return Err(self.bad_state("PSB+ with FUP", "tracing is off")),
            (false, None) if self.state.enabled => {
                return Err(self.bad_state("PSB+ without FUP", "tracing is on"));
            }
            (false, None) => self.tell_time(),
        }
        self.at_sync(image);
        Ok(())
    }

    /// Packets that are not branches and have the same meaning in PSB+ and elsewhere.
    fn common(&mut self, packet: Packet) -> Result<(), Error> {
        match packet {
            Packet::Tsc(tsc) => self.state.clock.tsc(tsc),
            Packet::Tma { ctc, fast_counter } => self.state.clock.tma(ctc, fast_counter, self.config.mtc),
            Packet::Mtc(value) => self.state.clock.mtc(value, self.config.mtc),
            Packet::Cbr(ratio) => self.state.clock.cbr(ratio),
            Packet::Cyc(cycles) => self.state.clock.cyc(cycles, self.config.nominal_ratio),
            Packet::ModeExec { size, .. } if size != CodeSize::Bits64 => {
                return Err(Error::NotLongMode { offset: StreamOffset(self.state.packet) });
            }
            _ => {}
        }
        Ok(())
    }

    fn running(&mut self, packet: Packet, image: &CodeHistory) -> Result<(), Error> {
        match packet {
            Packet::TipPge(payload) => {
                let ip = self.state.last_ip.update(payload);
                self.begin_now();
                self.generation_enabled(ip, image)
            }
            Packet::TipPgd(payload) => {
                let ip = self.state.last_ip.update(payload);
                self.generation_disabled(ip, image)?;
                self.pass(image);
                Ok(())
            }
            Packet::Fup(payload) => {
                let ip = self.state.last_ip.update(payload);
                self.fup(ip, image)?;
                self.pass(image);
                Ok(())
            }
            Packet::Ovf => {
                self.overflow();
                Ok(())
            }
            Packet::Tsc(_) | Packet::Mtc(_) => {
                self.common(packet)?;
                self.tell_time();
                if self.state.enabled {
                    self.state.later = self.state.clock.now();
                } else {
                    self.update_window(image);
                }
                Ok(())
            }
            _ if packet.owns_fup() => {
                self.settle_pending(packet.name())?;
                self.state.pending = Pending::OwnedFup;
                Ok(())
            }
            _ => self.common(packet),
        }
    }

    fn generation_enabled(&mut self, ip: Option<u64>, image: &CodeHistory) -> Result<(), Error> {
        let Some(ip) = ip else {
            return Err(self.bad_state("TIP.PGE", "no address was sent with it"));
        };
        if self.state.enabled {
            return Err(self.bad_state("TIP.PGE", "tracing is on already"));
        }
        if self.state.pending == Pending::Overflow {
            self.state.pending = Pending::No;
        }
        self.state.stack.clear();
        self.tell_time();
        self.enter(ip)?;
        self.find_stale();
        self.back(image);
        Ok(())
    }

    /// Finds out whether the unit reported the block just entered as stale. Skips reports for
    /// earlier places that decoding did not reach.
    fn find_stale(&mut self) {
        self.state.stale = None;
        while let Some(s) = self.stale.get(self.state.next_stale).filter(|s| s.offset <= self.state.packet) {
            if s.start == self.state.ip {
                self.state.stale = Some((self.state.next_stale, self.state.blocks));
            }
            self.state.next_stale += 1;
        }
    }

    fn generation_disabled(&mut self, ip: Option<u64>, image: &CodeHistory) -> Result<(), Error> {
        self.enabled("TIP.PGD")?;
        if self.state.outcomes != 0 {
            return Err(self.bad_state("TIP.PGD", "outcomes of a TNT wait for a TIP"));
        }
        self.state.branches += 1;
        match (self.state.pending, ip) {
            (Pending::Event(from), _) | (Pending::OverflowFup(from), None) => {
                self.items.push(Item::Interrupt { ip: Address(from) });
                self.disable();
                self.tell_time();
                return Ok(());
            }
            (_, Some(ip)) => {
                self.settle_pending("TIP.PGD")?;
                self.state.demand = Demand::Leave(ip);
            }
            (_, None) => {
                self.settle_pending("TIP.PGD")?;
                self.state.demand = Demand::FarLeave;
            }
        }
        self.walk(image)
    }

    fn fup(&mut self, ip: Option<u64>, image: &CodeHistory) -> Result<(), Error> {
        let Some(ip) = ip else {
            // A FUP without an address belongs to an event outside the range.
            self.state.pending = Pending::No;
            return Ok(());
        };
        match self.state.pending {
            Pending::OwnedFup => {
                self.state.pending = Pending::No;
                Ok(())
            }
            Pending::Overflow => {
                self.enter(ip)?;
                self.state.pending = Pending::OverflowFup(ip);
                Ok(())
            }
            Pending::Event(_) => Err(self.bad_state("FUP", "a FUP waits for its TIP or TIP.PGD")),
            Pending::No | Pending::OverflowFup(_) => {
                self.state.pending = Pending::No;
                self.enabled("FUP")?;
                if self.state.outcomes != 0 {
                    return Err(self.bad_state("FUP", "outcomes of a TNT wait for a TIP"));
                }
                self.state.demand = Demand::Event(ip);
                self.walk(image)
            }
        }
    }

    fn overflow(&mut self) {
        let address = self.state.enabled.then(|| self.address(self.state.ip));
        let mut lost =
            OpenGap::new(MachineGapReason::Overflow, self.state.packet, address, self.state.clock.now());
        lost.resumed = Some(self.state.packet);
        self.state.forget_flow();
        self.state.pending = Pending::Overflow;
        let until = self.window.latest;
        self.push_gap(lost, Some(Tsc(until)));
    }

    /// Emits the time if it has advanced.
    pub(super) fn tell_time(&mut self) {
        let now = self.state.clock.now();
        if now > self.state.told {
            self.state.told = now;
            self.items.push(Item::Time(Tsc(now)));
        }
    }
}
