// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decoding returns what was encoded, and arbitrary bytes cause neither a panic nor an endless
//! loop.

use jportal_pt_packet::{
    BlockItemSize, CodeSize, Encoder, IpCompression, IpPayload, LastIp, Packet, PacketDecoder, Tnt,
};
use proptest::prelude::*;

fn payload() -> impl Strategy<Value = IpPayload> {
    (0usize..6, any::<u64>()).prop_map(|(which, raw)| {
        use IpCompression::*;
        let compression = [Suppressed, Update16, Update32, Sext48, Update48, Full][which];
        let keep = match compression.len() {
            8 => u64::MAX,
            n => (1 << (8 * n)) - 1,
        };
        IpPayload { compression, raw: raw & keep }
    })
}

fn tnt(longest: u8) -> impl Strategy<Value = Tnt> {
    (1..=longest, any::<u64>()).prop_map(|(len, bits)| Tnt { bits: bits & ((1 << len) - 1), len })
}

fn flow() -> impl Strategy<Value = Packet> {
    prop_oneof![
        Just(Packet::Pad),
        Just(Packet::Psb),
        Just(Packet::PsbEnd),
        Just(Packet::Ovf),
        Just(Packet::TraceStop),
        tnt(6).prop_map(Packet::TntShort),
        tnt(47).prop_map(Packet::TntLong),
        payload().prop_map(Packet::Tip),
        payload().prop_map(Packet::TipPge),
        payload().prop_map(Packet::TipPgd),
        payload().prop_map(Packet::Fup),
        (0u64..1 << 56).prop_map(Packet::Tsc),
        (any::<u16>(), 0u16..512).prop_map(|(ctc, fast_counter)| Packet::Tma { ctc, fast_counter }),
        any::<u8>().prop_map(Packet::Mtc),
        any::<u64>().prop_map(Packet::Cyc),
        any::<u8>().prop_map(Packet::Cbr),
    ]
}

fn rare() -> impl Strategy<Value = Packet> {
    let size = prop_oneof![Just(CodeSize::Bits16), Just(CodeSize::Bits32), Just(CodeSize::Bits64)];
    prop_oneof![
        (size, any::<bool>()).prop_map(|(size, interrupt_flag)| Packet::ModeExec { size, interrupt_flag }),
        any::<(bool, bool)>()
            .prop_map(|(in_transaction, aborted)| Packet::ModeTsx { in_transaction, aborted }),
        (0u64..1 << 47, any::<bool>()).prop_map(|(v, non_root)| Packet::Pip { cr3: v << 5, non_root }),
        (0u64..1 << 40).prop_map(|v| Packet::Vmcs(v << 12)),
        any::<u64>().prop_map(Packet::Mnt),
        any::<(u32, bool)>().prop_map(|(v, ip)| Packet::Ptw { payload: v.into(), wide: false, ip }),
        any::<(u64, bool)>().prop_map(|(payload, ip)| Packet::Ptw { payload, wide: true, ip }),
        any::<bool>().prop_map(|ip| Packet::Exstop { ip }),
        (any::<u8>(), 0u8..4).prop_map(|(hints, extensions)| Packet::Mwait { hints, extensions }),
        (any::<bool>(), 0u8..16, 0u8..16).prop_map(|(hardware, state, substate)| Packet::Pwre {
            hardware,
            state,
            substate
        }),
        (0u8..16, 0u8..16, 0u8..16).prop_map(|(last, deepest, wake)| Packet::Pwrx { last, deepest, wake }),
        (0u8..32, any::<u8>(), any::<bool>()).prop_map(|(kind, vector, ip)| Packet::Cfe { kind, vector, ip }),
        (0u8..64, any::<u64>()).prop_map(|(kind, payload)| Packet::Evd { kind, payload }),
    ]
}

/// A block: BBP, items of its size, BEP.
fn block() -> impl Strategy<Value = Vec<Packet>> {
    let items = proptest::collection::vec((0u8..32, any::<u64>()), 0..5);
    (any::<bool>(), 0u8..32, items, any::<bool>()).prop_map(|(wide, kind, items, ip)| {
        let size = if wide { BlockItemSize::Bytes8 } else { BlockItemSize::Bytes4 };
        let keep = if wide { u64::MAX } else { u32::MAX.into() };
        let mut all = vec![Packet::Bbp { size, kind }];
        all.extend(items.into_iter().map(|(id, v)| Packet::Bip { id, payload: v & keep }));
        all.push(Packet::Bep { ip });
        all
    })
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let some = prop_oneof![
        8 => flow().prop_map(|p| vec![p]),
        4 => rare().prop_map(|p| vec![p]),
        1 => block(),
    ];
    proptest::collection::vec(some, 0..200).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decode_of_encode_is_the_same(packets in packets()) {
        let mut encoder = Encoder::new();
        packets.iter().for_each(|p| encoder.packet(p));
        let mut decoder = PacketDecoder::new(encoder.bytes());
        let mut decoded = Vec::new();
        while let Some((_, packet)) = decoder.next_packet().unwrap() {
            decoded.push(packet);
        }
        prop_assert_eq!(decoded, packets);
    }

    #[test]
    fn addresses_survive_compression(addresses in proptest::collection::vec(any::<(u64, u8)>(), 1..200)) {
        let mut encoder = Encoder::new();
        // Mostly close to each other, as in a trace.
        let addresses: Vec<u64> = addresses.iter().map(|&(a, near)| match near % 4 {
            0 => a,
            1 => 0x7f00_1234_0000 + a % 0x1_0000,
            2 => 0x7f00_0000_0000 + a % 0x1_0000_0000,
            _ => a % 0x8000_0000_0000,
        }).collect();
        addresses.iter().for_each(|&a| encoder.tip(a));
        let (mut decoder, mut last) = (PacketDecoder::new(encoder.bytes()), LastIp::default());
        for a in addresses {
            let Some((_, Packet::Tip(payload))) = decoder.next_packet().unwrap() else { panic!("no TIP") };
            prop_assert_eq!(last.update(payload), Some(a));
        }
    }

    #[test]
    fn arbitrary_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        let mut decoder = PacketDecoder::new(&bytes);
        let mut packets = 0;
        loop {
            match decoder.next_packet() {
                Ok(Some(_)) => packets += 1,
                Ok(None) => break,
                Err(_) => if !decoder.resync() { break },
            }
        }
        prop_assert!(packets <= bytes.len());
    }
}
