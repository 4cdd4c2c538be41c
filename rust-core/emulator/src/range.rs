// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The filter range and whether tracing is on. Every block checks both.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The filter. The host thread writes it, and every guest thread reads it.
#[derive(Debug, Default)]
pub struct Filter {
    low: AtomicU64,
    len: AtomicU64,
    active: AtomicBool,
}

impl Filter {
    /// Whether blocks are traced now.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Whether `address` lies in the range; false while no range is set.
    #[inline]
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.low.load(Relaxed)) < self.len.load(Relaxed)
    }

    /// Whether a range was set. A block that is translated after that is classified once, at
    /// its translation.
    pub fn is_known(&self) -> bool {
        self.len.load(Acquire) != 0
    }

    /// Sets the range `low..high`. The range can be set once. Setting another one fails,
    /// because translated blocks are already classified by the first.
    pub fn set(&self, low: u64, high: u64) -> Result<(), (u64, u64)> {
        let len = high.saturating_sub(low);
        if self.is_known() {
            let (old, n) = (self.low.load(Relaxed), self.len.load(Relaxed));
            return if (old, n) == (low, len) { Ok(()) } else { Err((old, old + n)) };
        }
        self.low.store(low, Relaxed);
        self.len.store(len, Release);
        Ok(())
    }

    /// Starts or stops tracing.
    pub fn activate(&self, on: bool) {
        self.active.store(on, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_set_once() {
        let f = Filter::default();
        assert!(!f.contains(0) && !f.is_known() && !f.is_active());
        f.set(0x1000, 0x2000).unwrap();
        assert!(f.contains(0x1000) && f.contains(0x1fff) && !f.contains(0x2000) && !f.contains(0xfff));
        f.set(0x1000, 0x2000).unwrap();
        assert_eq!(f.set(0x1000, 0x3000), Err((0x1000, 0x2000)));
        f.activate(true);
        assert!(f.is_active());
    }
}
