// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arbitrary trace, and real trace with damaged bytes: no panic, bounded work, gaps as results.

mod sim;

use jportal_machine_flow::{
    CodeHistory, Config, CoreDecoder, Item, Patch, PopRule, Progress, Slack, Stretch,
};
use jportal_units::{Address, AddressRange, CodeId, StreamOffset, Tid, Tsc};
use proptest::prelude::*;
use sim::machine::{Changes, run};
use sim::unit::PLAIN;

fn decode(trace: &[u8], pieces: usize, history: &CodeHistory, config: Config, latest: Tsc) -> Vec<Item> {
    let mut decoder = CoreDecoder::new(config, history);
    let mut items = Vec::new();
    let mut at = 0;
    for piece in trace.chunks(pieces.max(1)) {
        decoder.push(StreamOffset(at), piece);
        at += piece.len() as u64;
        if at % 7 == 0 {
            decoder.loss(StreamOffset(at));
        }
        let continues = at % 3 != 0;
        let stretch =
            Stretch { until: StreamOffset(at), since: Tsc(0), latest, tid: Tid(1), left: Tsc(0), continues };
        while decoder.decode(stretch, history, &mut items) == Progress::More {}
    }
    decoder.finish(&mut items);
    items
}

/// All kinds of patches.
const KINDS: [Patch; 3] = [Patch::Call, Patch::PatchStub, Patch::Other];

/// Bytes that are mostly packets of the kinds of which a trace consists.
fn trace() -> impl Strategy<Value = Vec<u8>> {
    let psb = [2u8, 0x82].repeat(8);
    let packet = prop_oneof![
        4 => any::<u8>().prop_map(|b| vec![b & !1]),
        4 => any::<u16>().prop_map(|a| vec![0x2d, a as u8, (a >> 8) as u8 & 0x0f]),
        1 => any::<u16>().prop_map(|a| vec![0x31, a as u8, (a >> 8) as u8 & 0x0f]),
        1 => any::<u16>().prop_map(|a| vec![0x3d, a as u8, (a >> 8) as u8 & 0x0f]),
        1 => any::<u16>().prop_map(|a| vec![0x21, a as u8, (a >> 8) as u8]),
        1 => Just(vec![0x01]),
        1 => Just([&psb[..], &[0x02, 0x23]].concat()),
        1 => any::<u16>().prop_map(move |a| {
            [&[2u8, 0x82].repeat(8)[..], &[0x3d, a as u8, (a >> 8) as u8 & 0x0f, 0x02, 0x23]].concat()
        }),
        1 => Just(vec![0x02, 0xf3]),
        1 => any::<[u8; 7]>().prop_map(|t| [&[0x19][..], &t].concat()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(packet, 0..300).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_trace_ends(
        trace in trace(),
        code in proptest::collection::vec(any::<u8>(), 1..0x1000),
        changes in proptest::collection::vec((any::<u16>(), 0u16..0x1000, proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
        pieces in 1usize..500,
        rule in 0usize..3,
    ) {
        let mut history = CodeHistory::new(AddressRange::at(Address(0), 0x1000)).unwrap();
        history.install(Tsc(1), Address(0), &code, CodeId(0)).unwrap();
        for (i, (time, at, bytes)) in changes.iter().enumerate() {
            let (time, at) = (Tsc((*time).into()), Address((*at).into()));
            let since = (i % 4 < 2).then_some(Tsc(time.0 / 2));
            // Ranges outside the code cache are refused; that is part of the test.
            let _ = match i % 3 {
                0 => history.patch(time, since, at, bytes, (i % 2 == 0).then_some(Tid(1)), KINDS[i / 3 % 3]),
                1 => history.install(time, at, bytes, CodeId(1 + i as u32)),
                _ => history.free(time, at, bytes.len() as u64),
            };
        }
        let return_compression = [None, Some(PopRule::Always), Some(PopRule::Compressed)][rule];
        let config = Config { return_compression, slack: Slack { before: 100, after: 100 }, ..Config::default() };
        decode(&trace, pieces, &history, config, Tsc(u64::MAX));
    }

    #[test]
    fn damaged_trace_ends(seed: u64, damage in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..20), pieces in 100usize..5000) {
        let run = run(seed, 4000, PLAIN, Changes { every: 500, late: 500, early: 100 });
        let mut trace = run.trace.clone();
        for (at, byte) in damage {
            let at = at as usize % trace.len();
            trace[at] = byte;
        }
        let config = Config { deferred_tips: false, slack: Slack { before: 1000, after: 200 }, ..Config::default() };
        decode(&trace, pieces, &run.history, config, Tsc(1_000_000));
    }
}
