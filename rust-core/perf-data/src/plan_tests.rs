// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::scan::{Sight, TurnChange};
use jportal_capture::Header;
use jportal_machine_flow::Patch;
use jportal_units::{Address, AddressRange, CodeId};

const LOW: u64 = 0x1000;
/// The times are far from 0, so that the decoder's slack fits.
const BASE: u64 = 10_000_000;

/// perf's time is the TSC.
fn clock() -> PerfClock {
    PerfClock::of(&Header::default())
}

/// Code at `LOW`, and a patch of it at each of `patches`.
fn history(patches: &[u64]) -> CodeHistory {
    let mut h = CodeHistory::new(AddressRange::at(Address(LOW), 0x1000)).unwrap();
    h.install(Tsc(1), Address(LOW), &[0x90; 64], CodeId(0)).unwrap();
    for &tsc in patches {
        h.patch(Tsc(tsc), None, Address(LOW + 8), &[tsc as u8], None, Patch::Other).unwrap();
    }
    h
}

fn stop(offset: u64, time: u64) -> Stop {
    Stop { place: Some(InsertionPlace { offset, outcome: 0 }), time: BASE + time }
}

fn sight(change: u32, new: bool, stop: Stop) -> Sight {
    Sight { change, new, stop }
}

fn core(sights: Vec<Sight>) -> CorePlan {
    CorePlan {
        core: Core(0),
        scan: Scan { sights, ..Scan::default() },
        losses: Vec::new(),
        switched: Vec::new(),
        insertions: Insertions::new(),
        turn_times: Vec::new(),
    }
}

/// The times of all changes but the first, all inserted packets, and the number of misplaced
/// changes.
fn settled(patches: &[u64], cores: &mut [CorePlan]) -> (Vec<u64>, Vec<(u64, u64)>, u64) {
    let patches: Vec<u64> = patches.iter().map(|p| BASE + p).collect();
    settled_of(&history(&patches), cores)
}

fn settled_of(history: &CodeHistory, cores: &mut [CorePlan]) -> (Vec<u64>, Vec<(u64, u64)>, u64) {
    let times = settle(history, &clock(), cores);
    let changes = times.changes[1..].iter().map(|t| t.0 - BASE).collect();
    let put = cores.iter().flat_map(|c| &c.insertions).map(|(p, t)| (p.offset, t - BASE)).collect();
    (changes, put, times.misplaced)
}

#[test]
fn a_change_that_time_alone_places_keeps_its_time() {
    let mut cores = [core(vec![sight(1, false, stop(10, 100)), sight(1, true, stop(20, 300))])];
    assert_eq!(settled(&[200], &mut cores), (vec![200], vec![], 0));
}

#[test]
fn a_change_that_was_seen_early_is_reported_early() {
    let mut cores = [core(vec![sight(1, false, stop(10, 100)), sight(1, true, stop(20, 150))])];
    assert_eq!(settled(&[200], &mut cores), (vec![150], vec![], 0));
    // Old bytes that ran late make the change late.
    let mut cores = [core(vec![sight(1, false, stop(10, 250)), sight(1, true, stop(20, 300))])];
    assert_eq!(settled(&[200], &mut cores), (vec![251], vec![], 0));
}

#[test]
fn where_the_trace_says_no_time_in_between_it_is_put_in() {
    let mut cores = [core(vec![sight(1, false, stop(10, 250)), sight(1, true, stop(20, 250))])];
    assert_eq!(settled(&[200], &mut cores), (vec![251], vec![(20, 251)], 0));
}

#[test]
fn a_core_that_was_idle_long_does_not_drag_a_change_back() {
    // The core's last known time is older than anything that the decoder examined. What other
    // cores ran at that time is not known.
    let long_ago = Slack::default().before + 1000;
    let mut cores = [core(vec![sight(1, true, stop(20, 100))])];
    let at = long_ago + 500;
    assert_eq!(settled(&[at], &mut cores), (vec![at], vec![(20, at)], 0));
}

#[test]
fn a_change_that_was_seen_before_an_older_one_is_reported_before_it() {
    // The writing thread lost its core between the store and the reading of the clock, for
    // longer than the decoder's slack. The core that saw the change has not seen a timing
    // packet for long, either.
    let late = Slack::default().before + 5000;
    let mut history = CodeHistory::new(AddressRange::at(Address(LOW), 0x1000)).unwrap();
    history.install(Tsc(1), Address(LOW), &[0x90; 256], CodeId(0)).unwrap();
    for (tsc, at) in [(1000, 8), (1000 + late, 200)] {
        history.patch(Tsc(BASE + tsc), None, Address(LOW + at), &[1], None, Patch::Other).unwrap();
    }
    let seen = |old: u64| vec![sight(2, true, stop(20, 100)), sight(1, false, stop(old, 100))];
    for old in [20, 30] {
        let told = settled_of(&history, &mut [core(seen(old))]);
        assert_eq!(told, (vec![1000, 999], vec![(20, 999)], 0), "{old}");
    }
    // An older change that was unseen only before that says nothing.
    let (changes, put, _) = settled_of(
        &history,
        &mut [core(vec![sight(1, false, stop(10, 100)), sight(2, true, stop(20, 100))])],
    );
    assert_eq!((changes, put), (vec![1000, 1000 + late], vec![(20, 1000 + late)]));
}

#[test]
fn all_cores_have_to_agree() {
    let one = core(vec![sight(1, false, stop(10, 400)), sight(1, true, stop(20, 600))]);
    let other = core(vec![sight(1, true, stop(30, 300))]);
    // By their clocks, the second core saw the new bytes while the first still ran the old
    // ones.
    assert_eq!(settled(&[350], &mut [one, other]), (vec![401], vec![(30, 401)], 0));
}

#[test]
fn changes_of_one_place_keep_their_order() {
    let sights =
        vec![sight(1, false, stop(10, 500)), sight(1, true, stop(20, 700)), sight(2, true, stop(30, 900))];
    let (changes, _, wrong) = settled(&[200, 300], &mut [core(sights)]);
    assert_eq!((changes, wrong), (vec![501, 501], 0));
}

#[test]
fn what_cannot_be_placed_is_counted() {
    // The old bytes ran after the new ones.
    let mut cores = [core(vec![sight(1, true, stop(10, 100)), sight(1, false, stop(20, 250))])];
    assert_eq!(settled(&[200], &mut cores).2, 1);
}

#[test]
fn a_switch_is_reported_between_the_two_threads() {
    let turn = |n, before, first| TurnChange { turn: n, before, first };
    let mut plan = core(Vec::new());
    plan.scan.turns = vec![turn(0, Stop::default(), stop(5, 50)), turn(1, stop(10, 100), stop(20, 100))];
    (plan.switched, plan.turn_times) = (vec![BASE + 40, BASE + 130], vec![0; 2]);
    let mut cores = [plan];
    let (_, put, _) = settled(&[], &mut cores);
    assert_eq!(cores[0].turn_times, [BASE + 40, BASE + 130]);
    assert_eq!(put, [(20, 130)]);
}
