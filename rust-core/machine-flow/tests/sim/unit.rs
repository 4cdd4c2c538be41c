// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A simulated PT unit.

use super::Rng;
use jportal_machine_flow::{Item, MtcConfig, PopRule};
use jportal_pt_packet::{CodeSize, Encoder, Tnt};

pub const MTC: MtcConfig = MtcConfig { frequency: 0, numerator: 64, denominator: 1 };

/// How the unit encodes.
#[derive(Clone, Copy, Debug)]
pub struct EncodingOptions {
    pub return_compression: Option<PopRule>,
    pub long_tnt: bool,
    pub defer_tips: bool,
    /// Bytes between PSBs.
    pub psb_period: usize,
    pub mtc: bool,
    /// Number of branches per overflow; 0 for no overflows.
    pub overflow: u64,
    /// Number of instructions per interrupt; 0 for no interrupts.
    pub interrupt: u64,
}

pub const PLAIN: EncodingOptions = EncodingOptions {
    return_compression: None,
    long_tnt: false,
    defer_tips: false,
    psb_period: 4096,
    mtc: false,
    overflow: 0,
    interrupt: 0,
};

/// Encodes what the machine reports and keeps the truth that the packets determine.
pub struct SimulatedUnit {
    pub out: Encoder,
    /// The items that the machine executed.
    pub truth: Vec<Item>,
    /// Number of those items that the packets written so far determine.
    determined: usize,
    /// Number of those items that the buffered outcomes will determine.
    waiting: usize,
    options: EncodingOptions,
    outcomes: Tnt,
    deferred: Vec<u64>,
    stack: Vec<u64>,
    since_psb: usize,
    mode_sent: bool,
    last_ctc: u64,
    pub enabled: bool,
    pub tsc: u64,
    /// Some pairs (bytes written, time), as sideband records would report them.
    pub times: Vec<(usize, u64)>,
    rng: Rng,
}

impl SimulatedUnit {
    pub fn new(options: EncodingOptions, rng: Rng) -> Self {
        let mut unit = Self {
            out: Encoder::new(),
            truth: Vec::new(),
            determined: 0,
            waiting: 0,
            options,
            outcomes: Tnt { bits: 0, len: 0 },
            deferred: Vec::new(),
            stack: Vec::new(),
            since_psb: 0,
            mode_sent: false,
            last_ctc: 0,
            enabled: false,
            tsc: 1000,
            times: Vec::new(),
            rng,
        };
        unit.psb(None);
        unit
    }

    fn time(&mut self) {
        self.out.tsc(self.tsc);
        if self.options.mtc {
            let ctc = self.tsc / u64::from(MTC.numerator);
            self.last_ctc = ctc;
            self.out.tma(ctc as u16, (self.tsc % u64::from(MTC.numerator)) as u16);
        }
    }

    fn ticks(&mut self) {
        if !self.options.mtc {
            return;
        }
        let ctc = self.tsc / u64::from(MTC.numerator);
        if ctc - self.last_ctc > 200 {
            self.time();
        }
        while self.last_ctc < ctc {
            self.last_ctc += 1;
            self.out.mtc(self.last_ctc as u8);
        }
    }

    /// Sends a PSB+ if it is due; `ip` executes next.
    pub fn psb_if_due(&mut self, ip: u64) {
        if self.out.len() - self.since_psb >= self.options.psb_period {
            self.psb(Some(ip));
            self.determined = self.truth.len();
        }
    }

    fn psb(&mut self, ip: Option<u64>) {
        self.flush();
        self.since_psb = self.out.len();
        self.out.psb();
        self.time();
        self.out.cbr(20);
        if let Some(ip) = ip {
            self.out.mode_exec(CodeSize::Bits64);
            self.out.fup(ip);
        }
        self.mode_sent = ip.is_some();
        self.out.psbend();
        self.stack.clear();
    }

    fn flush(&mut self) {
        if self.outcomes.len > 0 {
            self.ticks();
            self.out.tnt(self.outcomes.bits, self.outcomes.len);
            self.outcomes = Tnt { bits: 0, len: 0 };
        }
        for ip in std::mem::take(&mut self.deferred) {
            self.out.tip(ip);
        }
        self.determined = self.waiting.max(self.determined);
        self.times.push((self.out.len(), self.tsc));
    }

    pub fn conditional(&mut self, taken: bool) {
        self.waiting = self.truth.len();
        self.outcomes.bits = self.outcomes.bits << 1 | u64::from(taken);
        self.outcomes.len += 1;
        let full = if self.options.long_tnt { 47 } else { 6 };
        if self.outcomes.len >= full || self.rng.once_in(50) {
            self.flush();
        }
    }

    pub fn target(&mut self, ip: u64) {
        self.waiting = self.truth.len();
        if self.options.defer_tips && self.outcomes.len > 0 {
            self.deferred.push(ip);
            return;
        }
        self.flush();
        self.ticks();
        self.out.tip(ip);
    }

    pub fn call(&mut self, next: u64, target: u64) {
        if next != target {
            self.stack.push(next);
            if self.stack.len() > 64 {
                self.stack.remove(0);
            }
        }
    }

    pub fn indirect_call(&mut self, next: u64) {
        self.stack.push(next);
        if self.stack.len() > 64 {
            self.stack.remove(0);
        }
    }

    pub fn ret(&mut self, to: u64) {
        let Some(rule) = self.options.return_compression else { return self.target(to) };
        let hit = self.stack.last() == Some(&to);
        if hit || rule == PopRule::Always {
            self.stack.pop();
        }
        if hit {
            return self.conditional(true);
        }
        self.flush();
        self.target(to);
    }

    pub fn enable(&mut self, ip: u64) {
        self.ticks();
        if !self.mode_sent {
            self.out.mode_exec(CodeSize::Bits64);
            self.mode_sent = true;
        }
        self.out.tip_pge(ip);
        self.stack.clear();
        self.enabled = true;
        self.commit();
    }

    /// The branch that was just reported left the range for `ip`.
    pub fn leave(&mut self, ip: u64) {
        self.flush();
        self.out.tip_pgd(Some(ip));
        self.enabled = false;
        self.commit();
    }

    pub fn interrupt(&mut self, ip: u64) {
        self.flush();
        self.out.fup(ip);
        self.out.tip_pgd(None);
        self.enabled = false;
        self.commit();
    }

    fn commit(&mut self) {
        self.waiting = self.truth.len();
        self.determined = self.truth.len();
    }

    /// The buffered packets are lost, with the part of the truth that no packet determined.
    pub fn overflow_begins(&mut self) {
        self.outcomes = Tnt { bits: 0, len: 0 };
        self.deferred.clear();
        self.stack.clear();
        self.truth.truncate(self.determined);
        self.waiting = self.truth.len();
    }

    pub fn overflow_ends(&mut self, ip: u64) {
        self.out.ovf();
        self.out.fup(ip);
        self.enabled = true;
        self.commit();
    }

    pub fn should_overflow(&mut self) -> bool {
        self.options.overflow != 0 && self.rng.once_in(self.options.overflow)
    }

    pub fn should_interrupt(&mut self) -> bool {
        self.options.interrupt != 0 && self.rng.once_in(self.options.interrupt)
    }

    /// The trace, the truth that it determines, and the times.
    pub fn finish(mut self) -> (Vec<u8>, Vec<Item>, Vec<(usize, u64)>) {
        self.flush();
        self.truth.truncate(self.determined);
        (self.out.take(), self.truth, self.times)
    }
}
