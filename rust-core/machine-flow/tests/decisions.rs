// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decisions on the versions of code that ran: the packet at which each is made, and where the
//! old bytes ran last.

use jportal_machine_flow::{
    CodeHistory, Config, CoreDecoder, Decided, Decision, Patch, Progress, Slack, Stretch,
};
use jportal_pt_packet::Encoder;
use jportal_units::{Address, AddressRange, CodeId, StreamOffset, Tid, Tsc};

const LOW: u64 = 0x1000;
/// `call`, then `mov eax, 1; dec eax; jnz LOW; ret`.
const CALLER: [u8; 15] = [0xe8, 0xfb, 0, 0, 0, 0xb8, 1, 0, 0, 0, 0xff, 0xc8, 0x75, 0xf2, 0xc3];
/// Address of the operand of the instruction after the call.
const OPERAND: u64 = LOW + 6;

/// A loop that calls 0x1100, and 0x1200 after the patch. The packets show the branch at 0x1200.
fn history() -> CodeHistory {
    let mut h = CodeHistory::new(AddressRange::at(Address(LOW), 0x1000)).unwrap();
    h.install(Tsc(1), Address(LOW), &CALLER, CodeId(0)).unwrap();
    h.install(Tsc(2), Address(0x1100), &[0x90, 0xc3], CodeId(1)).unwrap();
    h.install(Tsc(3), Address(0x1200), &[0x85, 0xc0, 0x75, 0, 0xc3], CodeId(2)).unwrap();
    h.patch(Tsc(100_000), None, Address(OPERAND), &[2, 0, 0, 0], None, Patch::Other).unwrap();
    h.patch(Tsc(100_001), None, Address(LOW + 1), &[0xfb, 1, 0, 0], None, Patch::Other).unwrap();
    h
}

const NEUTRAL: u32 = 3;
const CALL: u32 = 4;

/// Three rounds with the old callee and two with the new one. Returns the decisions and the
/// offsets of the first packet of each round.
fn decisions() -> (Vec<Decision>, Vec<u64>) {
    let mut e = Encoder::new();
    e.psb();
    e.tsc(99_000);
    e.psbend();
    e.mode_exec(jportal_pt_packet::CodeSize::Bits64);
    e.tip_pge(LOW);
    let mut rounds = Vec::new();
    for round in 0..5 {
        rounds.push(e.len() as u64);
        if round >= 3 {
            e.tnt(1, 1);
        }
        e.tip(LOW + 5);
        e.tnt(u64::from(round < 4), 1);
    }
    e.tip_pgd(Some(0x9000));
    let history = history();
    let slack = Slack { before: 10_000, after: 10_000 };
    let mut decoder =
        CoreDecoder::new(Config { record_decisions: true, slack, ..Config::default() }, &history);
    decoder.push(StreamOffset(0), e.bytes());
    let until = StreamOffset(e.len() as u64);
    let (since, latest, left) = (Tsc(0), Tsc(101_000), Tsc(0));
    let stretch = Stretch { until, since, latest, tid: Tid(1), left, continues: false };
    let mut out = Vec::new();
    while decoder.decode(stretch, &history, &mut out) == Progress::More {}
    assert_eq!(decoder.statistics().errors, 0);
    (decoder.decisions().to_vec(), rounds)
}

#[test]
fn the_last_walk_with_the_old_bytes_and_the_first_with_the_new_ones_are_named() {
    let (decisions, rounds) = decisions();
    let of = |what: Decided| decisions.iter().filter(move |d| d.what == what);
    let not_yet: Vec<_> =
        of(Decided::NotYet(CALL)).map(|d| (d.packet.0, d.walking, d.outcomes_left)).collect();
    // Each of the old rounds walks for the TIP of its return.
    assert_eq!(not_yet, rounds[..3].iter().map(|&r| (r, true, 0)).collect::<Vec<_>>());
    // The new rounds begin with the outcome of the callee's branch.
    let seen: Vec<_> = of(Decided::Seen(CALL)).map(|d| (d.packet.0, d.walking, d.outcomes_left)).collect();
    assert_eq!(seen, [(rounds[3], true, 1)]);
}

#[test]
fn a_change_that_no_branch_depends_on_is_never_late() {
    let (decisions, _) = decisions();
    assert!(!decisions.iter().any(|d| d.what == Decided::NotYet(NEUTRAL)), "{decisions:?}");
}
