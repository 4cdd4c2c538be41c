// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Spearman's rank correlation.

use super::compare::ByMethod;

/// The rank correlation of two shares, over the methods that either of them has. A method that one
/// of them lacks has the share 0 there; methods of equal shares have the mean of their ranks.
/// `None`: there are fewer than two methods, or all have equal shares on one side.
pub(super) fn rank_correlation(a: &ByMethod, b: &ByMethod) -> Option<f64> {
    let mut all: Vec<u32> = a.keys().chain(b.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    let of = |shares: &ByMethod| -> Vec<f64> {
        ranks(&all.iter().map(|m| shares.get(m).copied().unwrap_or(0.0)).collect::<Vec<_>>())
    };
    let (a, b) = (of(a), of(b));
    // The mean of all ranks, with or without ties.
    let mean = (all.len() as f64 + 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    (spread > 0.0).then(|| product(&a, &b) / spread)
}

/// The rank of each value, from 1 for the largest one.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for same in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let mean = before as f64 + (same.len() as f64 + 1.0) / 2.0;
        same.iter().for_each(|at| ranks[*at] = mean);
        before += same.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares<const N: usize>(of: [(u32, f64); N]) -> ByMethod {
        of.into_iter().collect()
    }

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[0.5, 0.1, 0.1, 0.3]), [1.0, 3.5, 3.5, 2.0]);
        assert!(ranks(&[]).is_empty());
    }

    #[test]
    fn from_the_same_order_to_the_opposite_one() {
        let a = shares([(1, 0.6), (2, 0.3), (3, 0.1)]);
        assert_eq!(rank_correlation(&a, &shares([(1, 0.5), (2, 0.4), (3, 0.1)])), Some(1.0));
        assert_eq!(rank_correlation(&a, &shares([(1, 0.1), (2, 0.4), (3, 0.5)])), Some(-1.0));
        // Ranks 1 2 3 4 beside 1.5 3 1.5 4: the products of the distances from 2.5 add up to 3.
        let b = shares([(1, 0.3), (2, 0.1), (3, 0.3)]);
        let a = shares([(1, 0.6), (2, 0.3), (3, 0.07), (4, 0.03)]);
        let r = rank_correlation(&a, &b).unwrap();
        assert!((r - 3.0 / (5.0_f64 * 4.5).sqrt()).abs() < 1e-12, "{r}");
    }

    #[test]
    fn without_an_order_there_is_none() {
        assert_eq!(rank_correlation(&shares([]), &shares([])), None);
        assert_eq!(rank_correlation(&shares([(1, 1.0)]), &shares([(1, 1.0)])), None);
        assert_eq!(
            rank_correlation(&shares([(1, 0.5), (2, 0.5)]), &shares([(1, 0.9), (2, 0.1)])),
            None,
            "equal shares have no order"
        );
    }
}
