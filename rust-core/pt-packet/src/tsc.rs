// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Full TSC values from the 56 bits of a TSC packet.

/// The full TSC with the packet's 56 bits `low` that is nearest to `near` (SDM vol. 3, "TSC
/// Packet").
pub fn nearest_tsc(low: u64, near: u64) -> u64 {
    const WRAP: u64 = 1 << 56;
    let tsc = near & !(WRAP - 1) | low;
    match tsc.abs_diff(near) <= WRAP / 2 {
        true => tsc,
        false if tsc > near => tsc.checked_sub(WRAP).unwrap_or(tsc),
        false => tsc.saturating_add(WRAP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_byte_of_a_time_is_the_nearest() {
        assert_eq!(nearest_tsc(5, 7), 5);
        assert_eq!(nearest_tsc(5, (1 << 56) - 2), (1 << 56) + 5);
        assert_eq!(nearest_tsc((1 << 56) - 3, (3 << 56) + 9), (3 << 56) - 3);
    }
}
