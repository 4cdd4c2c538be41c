//! Where in a thread's flow which time was.

/// Entries kept; a power of two.
const KEPT: usize = 1 << 16;

/// Times of a flow by its bytecodes, thinned to at most [`KEPT`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// Bytecodes before the time, and the time (TSC); both grow.
    entries: Vec<(u64, u64)>,
    /// Every so many times are kept.
    every: u64,
    /// Times seen.
    seen: u64,
}

impl Times {
    /// What follows behind `at` bytecodes happened at or after `tsc`.
    pub(crate) fn push(&mut self, at: u64, tsc: u64) {
        let every = self.every.max(1);
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(every) || self.entries.last().is_some_and(|e| e.1 >= tsc) {
            return;
        }
        self.entries.push((at, tsc));
        if self.entries.len() == KEPT {
            let mut n = 0;
            self.entries.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.every = 2 * every;
        }
    }
    /// The bytecodes between which time `tsc` lies, a step further out on either side, because clocks that were
    /// interrupted estimate. `len`: bytecodes of the flow.
    pub(crate) fn around(&self, tsc: u64, len: u64) -> (u64, u64) {
        let n = self.entries.partition_point(|e| e.1 <= tsc);
        let before = n.checked_sub(2).map_or(0, |n| self.entries[n].0);
        (before, self.entries.get(n + 1).map_or(len, |e| e.0))
    }
    /// The bytecode at which it was `tsc`, in proportion between the times around it.
    pub(crate) fn at(&self, tsc: u64, len: u64) -> u64 {
        let n = self.entries.partition_point(|e| e.1 <= tsc);
        let Some(&(from, since)) = n.checked_sub(1).map(|n| &self.entries[n]) else { return 0 };
        let Some(&(to, until)) = self.entries.get(n) else { return from.min(len) };
        let share = (tsc - since) as f64 / (until - since) as f64;
        from + ((to - from) as f64 * share) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_times() {
        let mut t = Times::default();
        [(0, 100), (50, 200), (50, 300), (90, 400)].into_iter().for_each(|(at, tsc)| t.push(at, tsc));
        assert_eq!(
            [50, 100, 150, 200, 250, 399, 400, 900].map(|x| t.at(x, 120)),
            [0, 0, 25, 50, 50, 89, 90, 90]
        );
        assert_eq!(t.around(250, 120), (0, 90));
        assert_eq!((t.around(50, 120), t.around(350, 120)), ((0, 50), (50, 120)));
        assert_eq!(Times::default().around(7, 120), (0, 120));
    }

    #[test]
    fn a_long_flow_has_its_times_thinned() {
        let mut t = Times::default();
        (0..10 * KEPT as u64).for_each(|i| t.push(10 * i, 7 * i));
        assert!(t.entries.len() < KEPT && t.entries.len() > KEPT / 4);
        let (from, to) = t.around(7 * 500_000, u64::MAX);
        assert!(
            (4_999_000..=5_000_000).contains(&from) && (5_000_000..5_001_000).contains(&to),
            "{from} {to}"
        );
        assert_eq!(t.at(7 * 500_000, u64::MAX), 5_000_000);
    }
}
