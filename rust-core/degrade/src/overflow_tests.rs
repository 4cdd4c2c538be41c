// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Overruns of a small trace.

use super::*;
use crate::map::Map;
use jportal_perf_abi::{Record, SampleId};
use jportal_units::Core;

/// Two threads in turn: PSB+, TIP.PGE, many TIPs and TNTs, TIP.PGD.
fn trace() -> CoreTrace {
    let mut out = Encoder::new();
    let mut records = Vec::new();
    let mut from = 0;
    for stay in 0..40u64 {
        out.psb();
        out.tsc(1000 * stay + 1000);
        out.psbend();
        for entry in 0..10 {
            out.tip_pge(0x7000_0000 + entry);
            for i in 0..20 {
                out.tip(0x7000_1000 + 0x100 * i + stay);
                out.tnt(i, 5);
                out.mtc(i as u8);
            }
            out.tip_pgd(None);
        }
        let (size, sample) =
            (out.len() as u64 - from, SampleId { tid: 1 + stay as u32 % 2, ..SampleId::default() });
        records.push(Record { body: Body::Aux { offset: from, size, flags: 0 }, sample });
        from += size;
    }
    CoreTrace { core: Core(0), bytes: out.take(), records }
}

fn packets(bytes: &[u8]) -> Vec<(u64, Packet, Option<u64>)> {
    let (mut last, mut decoder, mut all) = (LastIp::default(), PacketDecoder::new(bytes), Vec::new());
    while let Some((offset, packet)) = decoder.next_packet().unwrap() {
        let ip = match packet {
            Packet::Psb | Packet::Ovf => {
                last.reset();
                None
            }
            Packet::Tip(p) | Packet::TipPge(p) | Packet::TipPgd(p) | Packet::Fup(p) => last.update(p),
            _ => None,
        };
        all.push((offset.0, packet, ip));
    }
    all
}

#[test]
fn what_stands_after_an_overrun_means_what_it_meant() {
    let trace = trace();
    let found = overruns(&trace, Overflow { every: 800, swallow: 60 }, 1).unwrap();
    assert!(found.len() > 20 && found.iter().any(|o| o.fup) && found.iter().any(|o| !o.fup), "{found:?}");
    let owned: Vec<_> = trace.owned().collect();
    for o in &found {
        assert!(owned.iter().any(|t| t.from < o.cut.from && o.cut.to <= t.to), "in one thread: {o:?}");
        assert!(o.cut.to - o.cut.from >= 30, "{o:?}");
    }
    let map = Map::new(found.iter().map(|o| o.cut.clone()).collect());
    let (old, new) = (packets(&trace.bytes), packets(&trace.cut(&map).bytes));
    assert_eq!(new.iter().filter(|p| p.1 == Packet::Ovf).count(), found.len());
    // Every remaining address is unchanged.
    let address = |p: &&(u64, Packet, Option<u64>)| !map.is_cut(p.0) && p.2.is_some();
    let want: Vec<_> = old.iter().filter(address).map(|p| (map.new_place(p.0), p.2)).collect();
    let have: Vec<_> = new.iter().filter(|p| p.2.is_some()).map(|p| (p.0, p.2)).collect();
    assert!(want.iter().all(|w| have.binary_search(w).is_ok()));
    assert_eq!(have.len(), want.len() + found.len(), "and one more for each overrun");
}

#[test]
fn the_way_it_continues_is_the_way_it_says() {
    let trace = trace();
    let found = overruns(&trace, Overflow { every: 800, swallow: 60 }, 3).unwrap();
    let old = packets(&trace.bytes);
    for o in &found {
        let last = old.iter().rfind(|p| p.0 < o.cut.to).unwrap();
        let inserted = packets(&o.cut.insert);
        assert_eq!(inserted[0].1, Packet::Ovf);
        let (_, end, ip) = inserted[inserted.len() - 1];
        assert_eq!(ip, last.2);
        assert_eq!(o.fup, matches!(end, Packet::Fup(_)));
        assert_eq!(o.fup, matches!(last.1, Packet::Tip(_)));
        // The clock has its old state: the last MTC of the lost ones.
        let mut lost = old.iter().filter(|p| (o.cut.from..o.cut.to).contains(&p.0)).map(|p| p.1);
        let mtc = |p: &Packet| matches!(p, Packet::Mtc(_));
        assert_eq!(inserted.iter().map(|p| p.1).rfind(mtc), lost.rfind(mtc));
    }
}

#[test]
fn an_overrun_that_finds_no_end_in_its_thread_is_none() {
    let found = overruns(&trace(), Overflow { every: 800, swallow: 1 << 20 }, 1).unwrap();
    assert_eq!(found, []);
}
