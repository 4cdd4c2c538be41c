// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::accuracy::testing::{All, XorshiftStar, words};
use crate::accuracy::times::Times;

/// The matches, checked to be equal, in order and disjoint; and the number of their words.
fn aligned(a: &[u32], b: &[u32], cuts: &[Cut]) -> (Vec<Match>, u64) {
    guided(a, b, cuts, &Guide::default())
}

fn guided(a: &[u32], b: &[u32], cuts: &[Cut], guide: &Guide) -> (Vec<Match>, u64) {
    let mut all = All::default();
    align((&mut words(a), 0..a.len() as u64), (&mut words(b), 0..b.len() as u64), (cuts, guide), &mut all)
        .unwrap();
    let (mut i, mut j) = (0, 0);
    for m in &all.0 {
        assert!(m.reference >= i && m.tested >= j && m.len > 0, "{:?}", all.0);
        (i, j) = (m.reference + m.len, m.tested + m.len);
        let (x, y) = (m.reference as usize..i as usize, m.tested as usize..j as usize);
        assert_eq!(a[x], b[y]);
    }
    let n = all.0.iter().map(|m| m.len).sum();
    (all.0, n)
}

/// A cut without bounds by time.
fn anywhere(at: u64, len: u64) -> Cut {
    Cut { at, before: len, from: 0, to: len }
}

fn line(n: u32) -> Vec<u32> {
    (0..n).collect()
}

#[test]
fn equal_sequences_are_one_match() {
    assert_eq!(aligned(&line(5000), &line(5000), &[]).0, [Match { reference: 0, tested: 0, len: 5000 }]);
    assert_eq!(aligned(&[], &[], &[]).1, 0);
    assert_eq!(aligned(&line(5), &[], &[]).1, 0);
}

#[test]
fn a_cut_is_found_again_with_and_without_times() {
    let a = line(200_000);
    let b = [&a[..20_000], &a[150_000..]].concat();
    let told = Cut { at: 20_000, before: 20_100, from: 149_000, to: 151_000 };
    for cut in [told, anywhere(20_000, 200_000)] {
        let (all, n) = aligned(&a, &b, &[cut]);
        assert_eq!(n, 70_000);
        assert_eq!(all[1], Match { reference: 150_000, tested: 20_000, len: 50_000 });
    }
    // The same without a cut.
    assert_eq!(aligned(&a, &b, &[]).1, 70_000);
}

#[test]
fn islands_after_a_cut_are_found() {
    let a = line(100_000);
    // Short stretches first, as happens before the frames are known.
    let b = [&a[..9000], &a[60_000..60_007], &a[60_020..60_035], &a[60_100..]].concat();
    let cut = Cut { at: 9000, before: 9100, from: 59_000, to: 60_000 };
    assert_eq!(aligned(&a, &b, &[cut]).1, b.len() as u64);
}

#[test]
fn in_a_loop_time_and_what_follows_tell_the_round() {
    let round = line(50);
    // 4000 rounds and an end; the rounds from 10 to 3980 are lost.
    let a = [round.repeat(4000), (100..3000).collect()].concat();
    let b = [&a[..500], &a[3980 * 50..]].concat();
    let cut = Cut { at: 500, before: 600, from: 500, to: 3990 * 50 };
    let (all, n) = aligned(&a, &b, &[cut]);
    assert_eq!(n, b.len() as u64);
    assert_eq!(all.last(), Some(&Match { reference: 3980 * 50, tested: 500, len: b.len() as u64 - 500 }));
}

#[test]
fn what_stands_before_a_cut_is_put_early() {
    // The 7 occurs three times in the reference's range; it comes before the cut, so the first
    // one is its counterpart.
    let a = [line(5), vec![9, 7, 100, 7, 101, 7], (200..300).collect()].concat();
    let b = [line(5), vec![7], (200..300).collect()].concat();
    let (all, n) = aligned(&a, &b, &[anywhere(6, a.len() as u64)]);
    assert_eq!((n, all[1]), (106, Match { reference: 6, tested: 5, len: 1 }));
}

#[test]
fn a_cut_at_the_front_and_one_at_the_end() {
    let a = line(90_000);
    let b = a[40_000..50_000].to_vec();
    let cuts = [anywhere(0, 90_000), anywhere(10_000, 90_000)];
    assert_eq!(aligned(&a, &b, &cuts).0, [Match { reference: 40_000, tested: 0, len: 10_000 }]);
}

#[test]
fn wrong_words_are_passed_over() {
    let a = line(60_000);
    let wrong: Vec<u32> = (1_000_000..1_003_000).collect();
    let b = [&a[..10_000], &wrong, &a[10_000..30_000], &wrong[..1], &a[30_001..]].concat();
    assert_eq!(aligned(&a, &b, &[]).1, 59_999);
}

/// A guide with a time at each `every`th word of the reference. `left_out`: the words that the
/// tested sequence lacks. `off`: number of ticks by which its times are later.
fn guide(len: u64, every: u64, left_out: Range<u64>, off: u64) -> Guide {
    let (mut reference, mut tested) = (Times::default(), Times::default());
    for at in (0..len).step_by(every as usize) {
        reference.push(at, at);
        if !left_out.contains(&at) {
            tested
                .push(if at < left_out.start { at } else { at - (left_out.end - left_out.start) }, at + off);
        }
    }
    Guide::new(&reference, len, &tested)
}

#[test]
fn wrong_words_that_stand_far_ahead_lead_nowhere() {
    let a = line(2_000_000);
    // As a wrong choice among several paths may be: words that really come much later, and only
    // there.
    let wrong = &a[1_500_000..1_600_000];
    let b = [&a[..10_000], wrong, &a[110_000..]].concat();
    for off in [0, 1] {
        let times = guide(2_000_000, 1000, 0..0, off);
        assert_eq!(times.anchors(0).is_empty(), off > 0);
        let (all, n) = guided(&a, &b, &[], &times);
        assert_eq!((n, all.len()), (1_900_000, 2), "{all:?}");
    }
    assert!(aligned(&a, &b, &[]).1 < 1_000_000, "nothing else says that it is wrong");
}

#[test]
fn a_wrong_round_is_left_when_time_tells() {
    let round = line(50);
    // Only rounds and an end; many rounds in the middle are missing, without a cut.
    let a = [round.repeat(20_000), (100..3000).collect()].concat();
    let b = [&a[..100_000], &a[700_000..]].concat();
    let places = |all: Vec<Match>| all.iter().map(|m| (m.reference, m.tested)).collect::<Vec<_>>();
    let times = guide(a.len() as u64, 1000, 100_000..700_000, 0);
    assert_eq!(places(guided(&a, &b, &[], &times).0), [(0, 0), (700_000, 100_000)]);
    // With other times in either flow the result is less exact.
    let times = guide(a.len() as u64, 1000, 100_000..700_000, 1);
    let (all, n) = guided(&a, &b, &[], &times);
    let behind = all.iter().find(|m| m.tested + m.len > 200_000).unwrap();
    assert!(behind.reference.abs_diff(behind.tested + 600_000) < 20_000, "{all:?}");
    assert!(n + 20_000 > b.len() as u64, "{n} of {}", b.len());
    assert_eq!(aligned(&a, &b, &[]).0[0].len, 400_000, "nothing else tells");
    // So few rounds are missing that only an equal time can reveal it.
    let few = [&a[..100_000], &a[103_000..]].concat();
    let times = guide(a.len() as u64, 1000, 100_000..103_000, 0);
    assert_eq!(places(guided(&a, &few, &[], &times).0), [(0, 0), (103_000, 100_000)]);
}

#[test]
fn where_both_tell_the_same_time_they_are_at_the_same_place_only_if_the_words_agree() {
    // Long rounds; every second time is off in the tested flow, as if a word was reported late.
    let a = [line(500).repeat(400), (1000..3000).collect()].concat();
    let (mut reference, mut tested) = (Times::default(), Times::default());
    for (k, at) in (0..a.len() as u64).step_by(1250).enumerate() {
        reference.push(at, at);
        tested.push(if k % 2 == 0 { at } else { at + 100 }, at);
    }
    let guide = Guide::new(&reference, a.len() as u64, &tested);
    assert_eq!(guide.anchors(0).len(), a.len().div_ceil(1250));
    assert_eq!(guided(&a, &a, &[], &guide).0.len(), 1);
}

#[test]
fn a_choice_of_diagonals_is_one_by_majority() {
    let round = line(50);
    // A short stretch that precedes many loops, then loops that differ by their lengths.
    let a: Vec<u32> = (0..60)
        .flat_map(|k| [line(40), round.repeat(20 + 7 * k % 31), vec![900 + k as u32]].concat())
        .collect();
    let at = a.len() / 2;
    let b = [&a[..2000], &a[at..]].concat();
    let cut = Cut { at: 2000, before: 2100, from: at as u64 - 9000, to: at as u64 + 9000 };
    let (all, n) = aligned(&a, &b, &[cut]);
    assert_eq!((n, all.last().unwrap().reference), (b.len() as u64, at as u64), "{all:?}");
}

#[test]
fn callees_whose_caller_is_not_known_keep_their_places() {
    // 12,000 rounds of a caller with two callees; the tested sequence has the callees only,
    // which are too short for any gram.
    let round = |k: u32| [line(9), (100..112).collect(), line(9), (200..208 + k % 3).collect()].concat();
    let a: Vec<u32> = (0..12_000).flat_map(round).chain(1000..3000).collect();
    let b: Vec<u32> = a.iter().copied().filter(|w| *w >= 100).collect();
    assert!(BOUND.parts(a.len() as u64, b.len() as u64) > 1);
    let cut = anywhere(0, a.len() as u64);
    let (_, n) = aligned(&a, &b, &[cut]);
    assert!(n * 1000 > b.len() as u64 * 999, "{n} of {}", b.len());
    // With the times of both flows, at each fiftieth round, also without a common end.
    let (mut reference, mut tested) = (Times::default(), Times::default());
    let (mut i, mut j) = (0, 0);
    for k in 0..12_000 {
        if k % 50 == 0 {
            reference.push(i, 1 + i);
            tested.push(j, 1 + i);
        }
        (i, j) = (i + round(k).len() as u64, j + 20 + u64::from(k % 3));
    }
    let guide = Guide::new(&reference, a.len() as u64, &tested);
    let end = a.len() - 2000;
    let (all, n) = guided(&a[..end], &b[..b.len() - 2000], &[cut], &guide);
    assert_eq!(n, b.len() as u64 - 2000);
    // No stretch is more than fifty rounds from its counterpart.
    let at = |m: &Match| b[..m.tested as usize].iter().filter(|w| **w == 100).count();
    let of = |m: &Match| a[..m.reference as usize].iter().filter(|w| **w == 100).count();
    let far = all.iter().step_by(997).map(|m| at(m).abs_diff(of(m))).max();
    assert!(far.is_some_and(|n| n <= 50), "{far:?}");
}

#[test]
fn sequences_with_nothing_in_common_take_bounded_time() {
    let a = line(3_000_000);
    let b: Vec<u32> = (10_000_000..10_400_000).collect();
    let begun = std::time::Instant::now();
    assert_eq!(aligned(&a, &b, &[]).1, 0);
    assert!(begun.elapsed().as_secs() < 120);
}

/// A flow of a program with few methods and some loops.
fn random_flow(random: &mut XorshiftStar, n: usize) -> Vec<u32> {
    let mut all = Vec::new();
    while all.len() < n {
        let (first, len) = (random.below(40) as u32 * 16, 1 + random.below(15) as u32);
        let rounds = if random.below(4) == 0 { 1 + random.below(30) } else { 1 };
        (0..rounds).for_each(|_| all.extend(first..first + len));
    }
    all.truncate(n);
    all
}

/// The length of the longest common subsequence, by the quadratic dynamic programme.
fn length(a: &[u32], b: &[u32]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

#[test]
fn never_more_than_the_longest_common_subsequence_and_seldom_less() {
    let mut random = XorshiftStar(7);
    let (mut found, mut most) = (0, 0);
    for _ in 0..60 {
        let a = random_flow(&mut random, 2500);
        let (mut b, mut cuts, mut at) = (Vec::new(), Vec::new(), 0);
        while at < a.len() {
            let to = a.len().min(at + 50 + random.below(900) as usize);
            b.extend_from_slice(&a[at..to]);
            at = to + random.below(400) as usize;
            match random.below(3) {
                0 => b.extend((0..random.below(60)).map(|_| random.below(640) as u32)),
                1 => cuts.push(anywhere(b.len() as u64, a.len() as u64)),
                _ => {}
            }
        }
        let (_, n) = aligned(&a, &b, &cuts);
        let longest = length(&a, &b) as u64;
        assert!(n <= longest);
        (found, most) = (found + n, most + longest);
        // Without cuts the sequences are small enough to be solved exactly.
        assert_eq!(aligned(&a, &b, &[]).1, longest);
        assert_eq!(
            aligned(&a, &a, &cuts.iter().filter(|c| c.at < 2500).copied().collect::<Vec<_>>()).1,
            2500
        );
    }
    assert!(found * 100 >= most * 97, "{found} of {most}");
}

#[test]
fn what_is_the_same_at_both_ends_is_aligned() {
    // The subsequence would be as long if the 1 and 2 at the front matched those in the middle,
    // and the 3 at the end the one before it.
    let (a, b) = ([1, 2, 8, 1, 2, 9, 3, 7, 3], [1, 2, 9, 3]);
    let mut all = All::default();
    subsequence((&mut words(&a), 0..9), (&mut words(&b), 0..4), &mut all).unwrap();
    let found: Vec<_> = all.0.iter().map(|m| (m.reference, m.tested, m.len)).collect();
    assert_eq!(found, [(0, 0, 2), (5, 2, 1), (8, 3, 1)]);
}

#[test]
fn what_a_loop_has_too_much_is_left_out_of_the_middle() {
    let stretches = |a: &[u32], b: &[u32]| -> Vec<_> {
        let mut all = All::default();
        let (n, m) = (a.len() as u64, b.len() as u64);
        subsequence((&mut words(a), 0..n), (&mut words(b), 0..m), &mut all).unwrap();
        all.0.iter().map(|m| (m.reference, m.tested, m.len)).collect()
    };
    let rounds = |n: usize| [1, 2].repeat(n);
    assert_eq!(stretches(&rounds(3), &rounds(10)), [(0, 0, 3), (3, 17, 3)]);
    assert_eq!(stretches(&rounds(10), &rounds(3)), [(0, 0, 3), (17, 3, 3)]);
    assert_eq!(stretches(&rounds(3), &rounds(3)), [(0, 0, 3), (3, 3, 3)]);
    // The middle is chosen within the lengths of the common prefix and suffix.
    assert_eq!(stretches(&[7, 1, 2, 1, 2], &[1, 2, 7, 1, 2, 1, 2]), [(0, 2, 5)]);
    assert_eq!(stretches(&[1, 2, 1, 2, 7], &[1, 2, 1, 2, 7, 1, 2]), [(0, 0, 5)]);
    assert_eq!(stretches(&[5, 6, 7, 1, 2], &[5, 1, 2, 7, 1, 2]), [(0, 0, 1), (2, 3, 3)]);
}
