// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::uses::Use;
use jportal_capture::{CaptureWriter, Header};
use jportal_pt_packet::Encoder;
use jportal_units::StreamOffset;

/// A trace, and the offsets of its marked packets.
struct Made {
    encoder: Encoder,
    marks: Vec<u64>,
}

impl Made {
    fn mark(&mut self) -> &mut Encoder {
        self.marks.push(self.encoder.len() as u64);
        &mut self.encoder
    }
}

/// The marked packets:
/// * 0: TIP.PGE at 1000.
/// * 1: TNT of N, T, N, T.
/// * 2: TIP.
/// * 3: TNT of N, at 2000.
/// * 4: TIP.PGD.
/// * 5: TIP.PGE at 3000.
/// * 6: FUP and TIP.PGD.
/// * 7: TIP.PGE at 4000, of another thread.
fn made() -> Made {
    let mut m = Made { encoder: Encoder::new(), marks: Vec::new() };
    m.encoder.psb();
    m.encoder.tsc(1000);
    m.encoder.psbend();
    m.mark().tip_pge(0x1000);
    m.mark().tnt(0b0101, 4);
    m.mark().tip(0x1100);
    m.encoder.tsc(2000);
    m.mark().tnt(0, 1);
    m.mark().tip_pgd(Some(0x9000));
    m.encoder.tsc(3000);
    m.mark().tip_pge(0x1200);
    m.mark().fup(0x1210);
    m.encoder.tip_pgd(None);
    m.encoder.tsc(4000);
    m.mark().tip_pge(0x1300);
    m
}

fn scanned(uses: &[(u32, Option<WalkPlace>, Option<WalkPlace>)]) -> (Scan, Vec<u64>) {
    let m = made();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jportal");
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.header(&Header::default()).unwrap();
    // Pieces end inside packets.
    for (n, piece) in (0u64..).zip(m.encoder.bytes().chunks(7)) {
        writer.pt(Core(0), StreamOffset(7 * n), piece).unwrap();
    }
    let reader = CaptureReader::open(&path).unwrap();
    let mut all = CoreUses::default();
    for &(change, not_yet, seen) in uses {
        all.uses.insert(change, Use { not_yet, seen });
    }
    let turns = [0, m.marks[7]];
    (scan(&reader, Core(0), &all, &turns, &[], TraceClock::new(None, 0)).unwrap(), m.marks)
}

fn walking(packet: u64, outcomes_left: u8) -> Option<WalkPlace> {
    Some(WalkPlace { packet, outcomes_left: Some(outcomes_left) })
}

fn idle(packet: u64) -> Option<WalkPlace> {
    Some(WalkPlace { packet, outcomes_left: None })
}

/// Place and time of the last stop before a use.
fn stop_of(place: impl Fn(&[u64]) -> Option<WalkPlace>) -> (usize, u8, u64) {
    let marks = made().marks;
    let (scan, _) = scanned(&[(1, None, place(&marks))]);
    let stop = scan.sights[0].stop;
    let place = stop.place.unwrap();
    (marks.iter().position(|&m| m == place.offset).unwrap(), place.outcome, stop.time)
}

#[test]
fn a_stop_is_a_target_or_an_outcome_that_was_taken() {
    // Walks for the outcomes of the first TNT.
    let walk = |left| stop_of(move |m| walking(m[1], left));
    assert_eq!([4, 3, 2, 1].map(walk), [(0, 0, 1000), (0, 0, 1000), (1, 1, 1000), (1, 1, 1000)]);
    assert_eq!(stop_of(|m| walking(m[2], 0)), (1, 3, 1000));
    // An outcome that was not taken is not a stop, whatever the time at its packet.
    assert_eq!(stop_of(|m| walking(m[4], 0)), (2, 0, 1000));
}

#[test]
fn what_was_decided_between_two_walks_concerns_the_next_one() {
    // The TIP was already processed; the next walk is the one for the TNT.
    assert_eq!(stop_of(|m| idle(m[2])), (2, 0, 1000));
    // Tracing is off; the next walk is the one for the FUP, after the TIP.PGE.
    assert_eq!(stop_of(|m| idle(m[4])), (5, 0, 3000));
}

#[test]
fn threads_change_between_a_stop_and_the_next() {
    let (scan, marks) = scanned(&[]);
    let place = |n: usize| Some(InsertionPlace { offset: marks[n], outcome: 0 });
    assert_eq!(scan.turns.len(), 2);
    assert_eq!(
        scan.turns[0],
        TurnChange { turn: 0, before: Stop::default(), first: Stop { place: place(0), time: 1000 } }
    );
    // An interrupt's TIP.PGD stops at the place of its FUP: nothing may come between the two.
    let (before, first) = (Stop { place: place(6), time: 3000 }, Stop { place: place(7), time: 4000 });
    assert_eq!(scan.turns[1], TurnChange { turn: 1, before, first });
}

#[test]
fn perf_must_not_estimate_before_the_last_walk_with_old_bytes() {
    let marks = made().marks;
    let (scan, _) = scanned(&[(1, walking(marks[6], 0), None)]);
    assert!(!scan.sights[0].new);
    // From the TSC packet before the TIP.PGE on.
    assert!(
        scan.quiet.iter().any(|q| q.0 < marks[5] && q.0 > marks[4] && q.1 >= marks[5]),
        "{:?}",
        scan.quiet
    );
    assert_eq!(scan.begins, 1000);
}
