// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arbitrary bytes cause no panic and no endless loop, and the decoded packets, encoded and
//! decoded again, are the same.
#![no_main]

use jportal_pt_packet::{Encoder, Packet, PacketDecoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = PacketDecoder::new(bytes);
    let mut packets = Vec::new();
    loop {
        match decoder.next_packet() {
            Ok(Some((_, packet))) => packets.push(packet),
            Ok(None) => break,
            Err(_) if decoder.resync() => packets.push(Packet::Psb),
            Err(_) => break,
        }
    }
    let mut encoder = Encoder::new();
    packets.iter().for_each(|p| encoder.packet(p));
    let mut again = PacketDecoder::new(encoder.bytes());
    for packet in packets {
        assert_eq!(again.next_packet().unwrap().unwrap().1, packet);
    }
});
