// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Shares the time between two time stamps of a flow among the nodes on top.
//!
//! A flow says from time to time how late it is. What lies between two times is shared in
//! proportion to the bytecodes executed, where the entry into a frame counts as one.

use super::arena::Id;

/// The share of frames that have no node.
pub(crate) const NOBODY: Id = Id::MAX;

/// Number of entries after which entries of the same node are added up.
const MANY: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct TimeShares {
    last: Option<u64>,
    /// Node and weight since the last time.
    recent: Vec<(Id, u64)>,
    /// Number of entries at which to add them up again.
    limit: usize,
}

impl TimeShares {
    #[inline]
    pub(crate) fn add(&mut self, node: Id, weight: u64) {
        match self.recent.last_mut() {
            Some(last) if last.0 == node => last.1 += weight,
            _ => self.push(node, weight),
        }
    }
    fn push(&mut self, node: Id, weight: u64) {
        // Before the first time there is nothing to share.
        if self.last.is_none() {
            return;
        }
        self.recent.push((node, weight));
        if self.recent.len() > self.limit.max(MANY) {
            self.recent.sort_unstable();
            self.recent.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                kept.1 += if same { next.1 } else { 0 };
                same
            });
            self.limit = self.recent.len() * 2;
        }
    }
    /// It is `now`, in ticks on a core. `top` is the node on top.
    pub(crate) fn at(&mut self, now: u64, top: Id, mut spend: impl FnMut(Id, u64)) {
        let passed = now.saturating_sub(self.last.unwrap_or(now));
        self.last = Some(self.last.unwrap_or(0).max(now));
        let all: u64 = self.recent.iter().map(|r| r.1).sum();
        if all == 0 {
            spend(top, passed);
        }
        let until = |weight: u64| (u128::from(passed) * u128::from(weight) / u128::from(all.max(1))) as u64;
        let mut done = 0;
        for (node, weight) in self.recent.drain(..) {
            spend(node, until(done + weight) - until(done));
            done += weight;
        }
    }
    /// What happened since the last time is not known.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shared_by_bytecodes() {
        let mut shares = TimeShares::default();
        let mut spent = [0; 3];
        let mut at = |shares: &mut TimeShares, now, top| shares.at(now, top, |n, t| spent[n as usize] += t);
        shares.add(1, 5);
        at(&mut shares, 100, 1);
        shares.add(1, 1);
        shares.add(2, 1);
        shares.add(1, 1);
        at(&mut shares, 200, 1);
        at(&mut shares, 207, 2);
        assert_eq!(spent, [0, 33 + 34, 33 + 7]);
    }

    #[test]
    fn what_is_added_up_stays_the_same() {
        let mut shares = TimeShares::default();
        shares.at(0, 0, |_, _| ());
        (0..100_000).for_each(|n| shares.add(n % 4, u64::from(n % 4)));
        assert!(shares.recent.len() <= 2 * MANY);
        let mut spent = [0; 4];
        shares.at(600_000, 0, |n, t| spent[n as usize] += t);
        assert_eq!(spent.iter().sum::<u64>(), 600_000);
        assert!(spent.iter().zip([0, 100_000, 200_000, 300_000]).all(|(s, e)| s.abs_diff(e) < 5000));
        shares.forget();
        shares.add(1, 1);
        shares.at(900_000, 1, |_, t| assert_eq!(t, 0));
    }
}
