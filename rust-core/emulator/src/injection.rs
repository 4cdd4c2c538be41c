// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Injects events that do not occur by themselves under QEMU: interrupts, page faults,
//! overflows of the unit's internal buffer.

use crate::config::Config;
use crate::random::Random;

/// When the events of one core are due.
#[derive(Clone, Debug)]
pub struct Injection {
    irq: u64,
    irq_left: u64,
    irq_inside: u64,
    irq_inside_left: u64,
    overflow: u64,
    overflow_at: u64,
    overflow_blocks: u64,
    random: Random,
}

impl Injection {
    /// The events that `config` asks for on core `core`.
    pub fn new(config: &Config, core: u32) -> Injection {
        Injection {
            irq: config.irq,
            irq_left: config.irq,
            irq_inside: config.irq_inside,
            irq_inside_left: config.irq_inside,
            overflow: config.overflow,
            overflow_at: config.overflow,
            overflow_blocks: config.overflow_blocks,
            random: Random::new(config.seed ^ u64::from(core) << 32),
        }
    }

    /// From this call on, stream positions count from `position`.
    pub fn rebase(&mut self, position: u64) {
        self.overflow_at = self.overflow_at.saturating_sub(position);
    }

    /// Whether events can be due before a block.
    #[inline]
    pub fn any(&self) -> bool {
        self.irq | self.overflow != 0
    }

    /// Whether events can be due inside a block.
    #[inline]
    pub fn inside(&self) -> bool {
        self.irq_inside != 0
    }

    /// Whether an interrupt is due before the block that begins.
    pub fn interrupts_now(&mut self) -> bool {
        due(&mut self.irq_left, self.irq)
    }

    /// If an interrupt is due inside the block that has ended: the index of the instruction, of
    /// `n`, before which it comes.
    pub fn interrupts_inside(&mut self, n: usize) -> Option<usize> {
        due(&mut self.irq_inside_left, self.irq_inside).then(|| self.random.below(n as u64) as usize)
    }

    /// If an overflow is due at stream position `position`: the number of blocks that it
    /// swallows.
    pub fn overflows_now(&mut self, position: u64) -> Option<u64> {
        if self.overflow == 0 || position < self.overflow_at {
            return None;
        }
        self.overflow_at = position + self.overflow;
        Some(self.overflow_blocks)
    }
}

/// Decrements `left`. When it reaches 0, restarts it from `from` and returns true. Never true
/// if `from` is 0.
fn due(left: &mut u64, from: u64) -> bool {
    if from == 0 {
        return false;
    }
    *left -= 1;
    if *left == 0 {
        *left = from;
        return true;
    }
    false
}
