// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::clock::Crystal;
use crate::plan::Insertions;
use jportal_pt_packet::PacketDecoder;

fn rewritten(
    bytes: &[u8],
    insertions: &[(u64, u8, u64)],
    quiet: &[(u64, u64)],
    crystal: Option<Crystal>,
) -> Vec<Packet> {
    let all: Insertions =
        insertions.iter().map(|&(offset, outcome, t)| (InsertionPlace { offset, outcome }, t)).collect();
    let mut rewriter = Rewriter {
        clock: TraceClock::new(crystal, 0),
        insertions: all.iter().peekable(),
        quiet: quiet.iter().peekable(),
        latest: 0,
        told: None,
        out: Encoder::new(),
        written: WrittenCounts::default(),
    };
    let mut decoder = PacketDecoder::new(bytes);
    while let Some((offset, packet)) = decoder.next_packet().unwrap() {
        let bytes = &bytes[offset.0 as usize..decoder.offset().0 as usize];
        rewriter.unit(&Unit {
            offset: offset.0,
            bytes,
            packet: Some(packet),
            after_loss: false,
            is_cut_off: false,
        });
    }
    let mut packets = Vec::new();
    PacketDecoder::new(rewriter.out.bytes()).for_each(|_, p| packets.push(p)).unwrap();
    packets
}

fn tnt(bits: u64, len: u8) -> Packet {
    Packet::TntShort(Tnt { bits, len })
}

#[test]
fn outcomes_are_parted_where_a_time_stands_between_them() {
    let mut e = Encoder::new();
    e.tnt(0b1_0110, 5);
    e.tnt(0b1, 1);
    let got = rewritten(e.bytes(), &[(0, 2, 70), (0, 4, 80), (1, 0, 90)], &[], None);
    let want =
        [tnt(0b10, 2), Packet::Tsc(70), tnt(0b11, 2), Packet::Tsc(80), tnt(0, 1), Packet::Tsc(90), tnt(1, 1)];
    assert_eq!(got, want);
}

#[test]
fn long_packets_are_parted_too() {
    let mut e = Encoder::new();
    e.tnt((1 << 40) | 1, 41);
    let got = rewritten(e.bytes(), &[(0, 40, 5)], &[], None);
    assert_eq!(got, [Packet::TntLong(Tnt { bits: 1 << 39, len: 40 }), Packet::Tsc(5), tnt(1, 1)]);
}

#[test]
fn cycles_are_left_out_and_ticks_that_a_time_has_reported() {
    let crystal = Crystal { shift: 4, numerator: 100, denominator: 1 };
    let mut e = Encoder::new();
    e.tsc(100_000);
    e.tma(1000, 0);
    e.cyc(7);
    let at = e.len() as u64;
    e.tnt(1, 1);
    e.mtc((1008u64 >> 4) as u8);
    e.mtc((1024u64 >> 4) as u8);
    // The inserted time is that of tick 1010: the first MTC adds nothing, the second one does.
    let got = rewritten(e.bytes(), &[(at, 0, 101_000)], &[], Some(crystal));
    let tma = |ctc, fast_counter| Packet::Tma { ctc, fast_counter };
    let want = [
        Packet::Tsc(100_000),
        tma(1000, 0),
        Packet::Tsc(101_000),
        tma(1010, 0),
        tnt(1, 1),
        Packet::Mtc((1024u64 >> 4) as u8),
    ];
    assert_eq!(got, want);
}

#[test]
fn where_perf_must_not_estimate_the_time_stands_in_front_of_each_entry() {
    let mut e = Encoder::new();
    e.tsc(500);
    let first = e.len() as u64;
    e.tip_pge(0x1000);
    e.tip_pgd(None);
    let second = e.len() as u64;
    e.tip_pge(0x2000);
    let plain = rewritten(e.bytes(), &[], &[], None);
    assert_eq!(plain.len(), 4);
    let got = rewritten(e.bytes(), &[], &[(0, first)], None);
    assert_eq!((got.len(), got[1]), (5, Packet::Tsc(500)));
    let got = rewritten(e.bytes(), &[(second, 0, 600)], &[(0, second)], None);
    assert_eq!((got.len(), got[1], got[4]), (6, Packet::Tsc(500), Packet::Tsc(600)));
}

/// Found by fuzzing: where trace is left out, an AUX record may begin in what is missing.
#[test]
fn a_piece_of_what_is_left_out_is_empty() {
    let edges = Edges { places: vec![(0, 0), (100, 20), (200, 120)] };
    assert_eq!(edges.piece(0, 100), (0, 20));
    assert_eq!(edges.piece(100, 100), (20, 100));
    assert_eq!(edges.piece(50, 50), (50, 0));
    assert_eq!(edges.piece(200, u64::MAX), (120, u64::MAX - 200));
}
