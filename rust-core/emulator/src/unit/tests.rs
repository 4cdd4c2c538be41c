// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One test per rule, on decoded packets.

use jportal_pt_packet::{LastIp, Packet, PacketDecoder};

use super::*;
use crate::config::Timing;

const A: u64 = 0x40_0000_1000;

fn config() -> Config {
    Config { timing: Timing::Tsc, ..Config::default() }
}

fn traced(config: &Config) -> Unit {
    let mut u = Unit::new(config);
    u.start(true, clock::tsc());
    u.enter(A);
    u
}

/// The unit's bytes as text: `NAME ip` with full addresses, timing packets without values.
fn shown(u: &Unit) -> Vec<String> {
    let mut last = LastIp::default();
    let mut list = Vec::new();
    let mut d = PacketDecoder::new(u.bytes());
    while let Some((_, p)) = d.next_packet().unwrap() {
        let text = match p {
            Packet::Psb => {
                last.reset();
                "PSB".into()
            }
            Packet::Ovf => {
                last.reset();
                "OVF".into()
            }
            Packet::Tip(ip) | Packet::TipPge(ip) | Packet::TipPgd(ip) | Packet::Fup(ip) => {
                match last.update(ip) {
                    Some(a) => format!("{} {a:x}", p.name()),
                    None => format!("{} -", p.name()),
                }
            }
            Packet::TntShort(t) | Packet::TntLong(t) => format!("{} {t}", p.name()),
            _ => p.name().into(),
        };
        list.push(text);
    }
    list
}

/// The packets after the first `skip` ones.
fn after(u: &Unit, skip: usize) -> Vec<String> {
    shown(u).split_off(skip)
}

const START: usize = 6;

#[test]
fn the_first_bytes_are_psb_plus_without_ip_and_mode_precedes_the_first_pge() {
    let u = traced(&config());
    let want = ["PSB", "TSC", "CBR", "PSBEND", "MODE.Exec", "TIP.PGE 4000001000"];
    assert_eq!(shown(&u), want);
    assert_eq!(want.len(), START);
}

#[test]
fn psb_plus_inside_the_range_carries_mode_and_the_next_instruction() {
    let mut u = traced(&Config { psb: 256, ..config() });
    let mut n = 0u64;
    while !u.psb_if_due(A + n) {
        n += 1;
        u.conditional(true);
        u.indirect(A + n);
    }
    let tail = shown(&u);
    let psb = tail.iter().rposition(|p| p == "PSB").unwrap();
    let fup = format!("FUP {:x}", A + n);
    assert_eq!(tail[psb..], ["PSB", "TSC", "CBR", "MODE.Exec", fup.as_str(), "PSBEND"]);
    assert!(u.bytes().len() >= 256 && u.bytes().len() < 256 + 64, "{}", u.bytes().len());
    // The PSB+ stated the mode, so there is no MODE.Exec before the next TIP.PGE.
    u.leave(1);
    u.enter(A);
    assert_eq!(shown(&u).split_off(tail.len()), ["TIP.PGD 1", "TIP.PGE 4000001000"]);
}

#[test]
fn psb_flushes_outcomes_and_resets_last_ip_and_return_stack() {
    let mut u = traced(&Config { return_compression: true, psb: 256, ..config() });
    u.call(A + 5);
    while u.position() < 256 {
        u.indirect(0x1234_5678_9abc);
    }
    u.conditional(false);
    let before = shown(&u).len();
    assert!(u.psb_if_due(A));
    u.ret(A + 5);
    let tail = after(&u, before);
    assert_eq!(tail[..2], ["TNT-8 N", "PSB"]);
    assert_eq!(tail.last().unwrap(), "TIP 4000001005", "not compressed across PSB");
}

#[test]
fn outcomes_are_flushed_at_six_and_before_every_ip_packet() {
    let mut u = traced(&config());
    for i in 0..8 {
        u.conditional(i % 2 == 0);
    }
    u.indirect(A);
    u.conditional(true);
    u.leave(7);
    assert_eq!(after(&u, START), ["TNT-8 TNTNTN", "TNT-8 TN", "TIP 4000001000", "TNT-8 T", "TIP.PGD 7"]);
}

#[test]
fn long_outcomes() {
    let mut u = traced(&Config { tnt_bits: 47, ..config() });
    for _ in 0..50 {
        u.conditional(true);
    }
    u.indirect(A);
    let want = [format!("TNT-64 {}", "T".repeat(47)), "TNT-8 TTT".into(), "TIP 4000001000".into()];
    assert_eq!(after(&u, START), want);
}

#[test]
fn leaving_by_a_branch_has_the_target_and_no_outcome() {
    let mut u = traced(&config());
    u.leave(0x7777_0000);
    assert!(!u.enabled());
    assert_eq!(after(&u, START), ["TIP.PGD 77770000"]);
}

#[test]
fn leaving_by_an_event_has_source_and_no_target() {
    let mut u = traced(&config());
    u.conditional(true);
    u.interrupt(A + 9);
    u.enter(A + 9);
    u.syscall();
    let want = ["TNT-8 T", "FUP 4000001009", "TIP.PGD -", "TIP.PGE 4000001009", "TIP.PGD -"];
    assert_eq!(after(&u, START), want);
}

#[test]
fn addresses_are_compressed_against_the_last_one_sent() {
    let mut u = Unit::new(&config());
    u.start(true, clock::tsc());
    let begin = u.position() as usize;
    u.enter(0x4000_1234_5678);
    for ip in [0x4000_1234_9999, 0x4000_7777_0000, 0x4111_0000_0000, 0x1234_8000_0000_0000] {
        u.indirect(ip);
    }
    u.interrupt(0x1234_8000_0000_0001);
    u.enter(0x1234_8000_0000_0002);
    let mut d = PacketDecoder::new(&u.bytes()[begin..]);
    let mut lens = Vec::new();
    let mut at = 0;
    while d.next_packet().unwrap().is_some() {
        lens.push(d.offset().get() - at);
        at = d.offset().get();
    }
    // MODE.Exec; PGE 48 bits, TIP 16, 32, 48, 64; FUP 16; PGD suppressed, which leaves the last
    // IP; PGE 16.
    assert_eq!(lens, [2, 7, 3, 5, 7, 9, 3, 1, 3]);
    assert_eq!(shown(&u).last().unwrap(), "TIP.PGE 1234800000000002");
}

#[test]
fn returns_are_compressed_on_match_only() {
    let mut u = traced(&Config { return_compression: true, ..config() });
    u.call(A + 5);
    u.ret(A + 5);
    u.call(A + 5);
    u.conditional(false);
    u.ret(A + 6);
    assert_eq!(after(&u, START), ["TNT-8 TN", "TIP 4000001006"]);
    assert_eq!((u.sent().returns, u.sent().compressed), (2, 1));
}

#[test]
fn the_two_pop_rules_differ_after_an_uncompressed_return() {
    for (pop, last) in [(Pop::Always, "TNT-8 T"), (Pop::Compressed, "TIP 4000001005")] {
        let mut u = traced(&Config { return_compression: true, pop, ..config() });
        u.call(A + 5);
        u.call(A + 100);
        u.ret(A + 6); // misses
        u.ret(A + 5); // hits only if the miss popped
        u.leave(0);
        let all = shown(&u);
        assert_eq!(all[all.len() - 2], last, "{pop:?}");
    }
}

#[test]
fn the_return_stack_does_not_survive_leaving_the_range() {
    let mut u = traced(&Config { return_compression: true, ..config() });
    u.call(A + 5);
    u.leave(1);
    u.enter(A);
    u.ret(A + 5);
    assert_eq!(u.sent().compressed, 0);
}

#[test]
fn returns_without_compression_are_tips() {
    let mut u = traced(&config());
    u.call(A + 5);
    u.ret(A + 5);
    assert_eq!(after(&u, START), ["TIP 4000001005"]);
}

#[test]
fn overflow_inside_the_range() {
    let mut u = traced(&Config { return_compression: true, ..config() });
    u.call(A + 5);
    u.conditional(true);
    u.begin_overflow();
    u.end_overflow(Some(A + 40));
    u.ret(A + 5);
    assert_eq!(after(&u, START), ["OVF", "FUP 4000001028", "TIP 4000001005"]);
}

#[test]
fn overflow_that_ends_outside() {
    let mut u = traced(&config());
    u.conditional(true);
    u.begin_overflow();
    u.end_overflow(None);
    u.enter(A);
    assert_eq!(after(&u, START), ["OVF", "TIP.PGE 4000001000"]);
}

#[test]
fn a_start_without_psb_restates_time_and_mode() {
    let mut u = traced(&config());
    u.interrupt(A);
    u.start(false, clock::tsc());
    u.enter(A);
    let want = ["FUP 4000001000", "TIP.PGD -", "TSC", "CBR", "MODE.Exec", "TIP.PGE 4000001000"];
    assert_eq!(after(&u, START), want);
}

#[test]
fn mtc_and_cyc_accompany_packets() {
    let mut u = traced(&Config { timing: Timing::Mtc, mtc_freq: 0, ..config() });
    let begin = shown(&u).len();
    for i in 0..2000 {
        u.look();
        u.indirect(A + i);
    }
    let all = after(&u, begin);
    assert!(all.iter().any(|p| p == "MTC"), "2000 packets take longer than 128 TSC ticks");
    assert!(!all.iter().any(|p| p == "CYC"));

    let mut u = traced(&Config { timing: Timing::Cyc, ..config() });
    let begin = shown(&u).len();
    u.conditional(true);
    u.indirect(A);
    // An MTC with its own CYC may come in between.
    let mut all = Vec::new();
    for packet in after(&u, begin) {
        match packet.as_str() {
            "MTC" => {
                all.pop_if(|before| before == "CYC");
            }
            _ => all.push(packet),
        }
    }
    assert_eq!(all, ["CYC", "TNT-8 T", "CYC", "TIP 4000001000"]);
}

#[test]
fn mtc_after_a_long_silence_restates_the_time() {
    let c = Config { timing: Timing::Mtc, mtc_freq: 0, ..config() };
    let mut t = TimingState::new(&c);
    let mut out = Encoder::new();
    let mtc = |t: &mut TimingState, out: &mut Encoder, now: u64| {
        t.look(now);
        t.mtc(out);
    };
    mtc(&mut t, &mut out, 3 << 7);
    assert_eq!(out.bytes(), [0x59, 1, 0x59, 2, 0x59, 3]);
    out.clear();
    // A jump of the clock is sent with the next event.
    mtc(&mut t, &mut out, 1000 << 7);
    assert_eq!(out.bytes(), [0u8; 0]);
    mtc(&mut t, &mut out, 1000 << 7);
    assert_eq!(out.bytes()[0], 0x19, "TSC");
    out.clear();
    mtc(&mut t, &mut out, 999 << 7);
    assert_eq!(out.bytes(), [0u8; 0], "a lagging counter sends nothing");
}

#[test]
fn packets_far_apart_tell_the_time_of_the_one_before() {
    let mut t = TimingState::new(&Config { timing: Timing::Mtc, ..config() });
    let mut out = Encoder::new();
    let mut now = 1 << 30;
    t.tsc(&mut out, now);
    for _ in 0..3 {
        out.clear();
        let before = now;
        now += 1 << 20;
        t.look(now);
        t.mtc(&mut out);
        assert!(t.latest() <= before && t.latest() > before - (1 << 13), "{} {before}", t.latest());
    }
}

#[test]
fn cycles_are_counted_up_to_the_time_that_is_sure() {
    let mut t = TimingState::new(&Config { timing: Timing::Cyc, ..config() });
    let mut out = Encoder::new();
    let start = 1 << 30;
    t.tsc(&mut out, start);
    // An event that follows soon, one after a jump of the clock, and one soon after that.
    for (now, sure) in [(1000, 1000), (1 << 20, 1000), ((1 << 20) + 500, (1 << 20) + 500)] {
        out.clear();
        t.look(start + now);
        t.cyc(&mut out);
        t.mtc(&mut out);
        assert_eq!(t.latest(), start + sure, "at {now}");
    }
}

#[test]
fn cycles_add_up_to_the_time_between_tsc_packets() {
    let mut u = Unit::new(&Config { timing: Timing::Cyc, mtc_freq: 0, psb: 2048, ..config() });
    u.start(true, clock::tsc());
    u.enter(A);
    let mut n = 0;
    while u.bytes().len() < 20_000 {
        n += 1;
        u.look();
        u.indirect(A + n % 100);
        u.psb_if_due(A);
    }
    let mut d = PacketDecoder::new(u.bytes());
    let (mut now, mut tsc, mut ctc, mut mtcs) = (0u64, 0u64, 0u64, 0);
    while let Some((_, p)) = d.next_packet().unwrap() {
        match p {
            Packet::Tsc(t) => {
                assert!(now <= t, "cycles ran ahead of the time: {now} {t}");
                (now, tsc) = (t, t);
            }
            Packet::Tma { .. } => ctc = tsc >> 7,
            Packet::Mtc(low) => {
                mtcs += 1;
                ctc += u64::from(low.wrapping_sub(ctc as u8));
                assert!(ctc << 7 <= now, "the tick of an MTC has passed when its CYC is counted");
            }
            Packet::Cyc(c) => now += c,
            _ => {}
        }
    }
    assert!(mtcs > 10);
    assert!(now <= clock::tsc());
}
