// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One golden byte sequence per packet, from the SDM's packet definition tables, decoded and
//! encoded.

use jportal_pt_packet::{
    BlockItemSize, CodeSize, Encoder, Error, IpCompression, IpPayload, Packet, PacketDecoder, Tnt,
};
use jportal_units::StreamOffset;

fn ip(compression: IpCompression, raw: u64) -> IpPayload {
    IpPayload { compression, raw }
}

/// (bytes, packet); the comment names the SDM table from which the row is taken.
fn table() -> Vec<(&'static [u8], Packet)> {
    use IpCompression::*;
    vec![
        // PAD Packet Definition
        (&[0x00], Packet::Pad),
        // PSB Packet Definition
        (&[2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82], Packet::Psb),
        // PSBEND Packet Definition
        (&[0x02, 0x23], Packet::PsbEnd),
        // TNT Packet Definition: stop bit, then B1 (oldest) .. BN, then the header bit 0
        (&[0b0000_0110], Packet::TntShort(Tnt { bits: 1, len: 1 })),
        (&[0b0000_1100], Packet::TntShort(Tnt { bits: 0b10, len: 2 })),
        (&[0b1101_0010], Packet::TntShort(Tnt { bits: 0b101001, len: 6 })),
        (&[0x02, 0xa3, 0x05, 0, 0, 0, 0, 0], Packet::TntLong(Tnt { bits: 1, len: 2 })),
        (&[0x02, 0xa3, 0x01, 0, 0, 0, 0, 0xc0], Packet::TntLong(Tnt { bits: 0x4000_0000_0001, len: 47 })),
        // IP Packet Definition and TIP Packet Definition (and PGE, PGD), FUP Packet Definition
        (&[0x0d], Packet::Tip(ip(Suppressed, 0))),
        (&[0x2d, 0x34, 0x12], Packet::Tip(ip(Update16, 0x1234))),
        (&[0x4d, 0x78, 0x56, 0x34, 0x12], Packet::Tip(ip(Update32, 0x1234_5678))),
        (&[0x6d, 6, 5, 4, 3, 2, 0x81], Packet::Tip(ip(Sext48, 0x8102_0304_0506))),
        (&[0x8d, 6, 5, 4, 3, 2, 0x81], Packet::Tip(ip(Update48, 0x8102_0304_0506))),
        (&[0xcd, 8, 7, 6, 5, 4, 3, 2, 1], Packet::Tip(ip(Full, 0x0102_0304_0506_0708))),
        (&[0x31, 0x34, 0x12], Packet::TipPge(ip(Update16, 0x1234))),
        (&[0x01], Packet::TipPgd(ip(Suppressed, 0))),
        (&[0x21, 0x34, 0x12], Packet::TipPgd(ip(Update16, 0x1234))),
        (&[0x3d, 0x34, 0x12], Packet::Fup(ip(Update16, 0x1234))),
        // MODE.Exec Packet Definition: bit 0 CS.L, bit 1 CS.D, bit 2 RFLAGS.IF
        (&[0x99, 0x00], Packet::ModeExec { size: CodeSize::Bits16, interrupt_flag: false }),
        (&[0x99, 0x01], Packet::ModeExec { size: CodeSize::Bits64, interrupt_flag: false }),
        (&[0x99, 0x06], Packet::ModeExec { size: CodeSize::Bits32, interrupt_flag: true }),
        // MODE.TSX Packet Definition: leaf 001, bit 0 InTX, bit 1 TXAbort
        (&[0x99, 0x21], Packet::ModeTsx { in_transaction: true, aborted: false }),
        (&[0x99, 0x22], Packet::ModeTsx { in_transaction: false, aborted: true }),
        // TSC Packet Definition
        (&[0x19, 1, 2, 3, 4, 5, 6, 7], Packet::Tsc(0x0007_0605_0403_0201)),
        // TMA Packet Definition: CTC, reserved byte, FC[7:0], FC[8]
        (&[0x02, 0x73, 0x34, 0x12, 0, 0xfe, 1], Packet::Tma { ctc: 0x1234, fast_counter: 0x1fe }),
        // MTC Packet Definition
        (&[0x59, 0xab], Packet::Mtc(0xab)),
        // CYC Packet Definition: five bits, then seven per byte
        (&[0b1111_1011], Packet::Cyc(31)),
        (&[0b0000_0111, 0b0000_0010], Packet::Cyc(32)),
        (&[0b1111_1111, 0xff, 0b0000_0010], Packet::Cyc(31 | 127 << 5 | 1 << 12)),
        // CBR Packet Definition
        (&[0x02, 0x03, 0x1e, 0x00], Packet::Cbr(0x1e)),
        // OVF Packet Definition
        (&[0x02, 0xf3], Packet::Ovf),
        // PIP Packet Definition: bit 0 NR, then CR3[51:5]
        (
            &[0x02, 0x43, 0x01, 0x10, 0, 0, 0, 0x80],
            Packet::Pip { cr3: 0x0008_0000_0001_0000, non_root: true },
        ),
        // VMCS Packet Definition: bits 51:12
        (&[0x02, 0xc8, 0x21, 0x43, 0x65, 0x87, 0x09], Packet::Vmcs(0x9876_5432_1000)),
        // TraceStop Packet Definition
        (&[0x02, 0x83], Packet::TraceStop),
        // MNT Packet Definition
        (&[0x02, 0xc3, 0x88, 1, 2, 3, 4, 5, 6, 7, 8], Packet::Mnt(0x0807_0605_0403_0201)),
        // PTW Packet Definition: bit 7 IP, bits 6:5 PayloadBytes
        (&[0x02, 0x12, 4, 3, 2, 1], Packet::Ptw { payload: 0x0102_0304, wide: false, ip: false }),
        (
            &[0x02, 0xb2, 8, 7, 6, 5, 4, 3, 2, 1],
            Packet::Ptw { payload: 0x0102_0304_0506_0708, wide: true, ip: true },
        ),
        // EXSTOP Packet Definition: bit 7 IP
        (&[0x02, 0x62], Packet::Exstop { ip: false }),
        (&[0x02, 0xe2], Packet::Exstop { ip: true }),
        // MWAIT Packet Definition: EAX[7:0], ECX[1:0]
        (&[0x02, 0xc2, 0x20, 0, 0, 0, 1, 0, 0, 0], Packet::Mwait { hints: 0x20, extensions: 1 }),
        // PWRE Packet Definition: bit 7 HW; C-state, sub C-state
        (&[0x02, 0x22, 0x80, 0x31], Packet::Pwre { hardware: true, state: 3, substate: 1 }),
        // PWRX Packet Definition: last, deepest core C-state; wake reason
        (&[0x02, 0xa2, 0x36, 0x04, 0, 0, 0], Packet::Pwrx { last: 3, deepest: 6, wake: 4 }),
        // BBP Packet Definition: bit 7 SZ, bits 4:0 type
        (&[0x02, 0x63, 0x84], Packet::Bbp { size: BlockItemSize::Bytes4, kind: 4 }),
        // BEP Packet Definition: bit 7 IP
        (&[0x02, 0x33], Packet::Bep { ip: false }),
        (&[0x02, 0xb3], Packet::Bep { ip: true }),
        // CFE Packet Definition: bit 7 IP, bits 4:0 type; vector
        (&[0x02, 0x13, 0x81, 0x0e], Packet::Cfe { kind: 1, vector: 14, ip: true }),
        // EVD Packet Definition: bits 5:0 type; payload
        (
            &[0x02, 0x53, 0x00, 1, 2, 3, 4, 5, 6, 7, 8],
            Packet::Evd { kind: 0, payload: 0x0807_0605_0403_0201 },
        ),
    ]
}

#[test]
fn golden_both_ways() {
    for (bytes, packet) in table() {
        let mut decoder = PacketDecoder::new(bytes);
        assert_eq!(decoder.next_packet(), Ok(Some((StreamOffset(0), packet))), "{bytes:02x?}");
        assert_eq!(decoder.next_packet(), Ok(None), "{packet} is longer than decoded");
        let mut encoder = Encoder::new();
        encoder.packet(&packet);
        assert_eq!(encoder.bytes(), bytes, "{packet}");
    }
}

#[test]
fn every_prefix_is_truncated() {
    for (bytes, packet) in table() {
        for cut in 1..bytes.len() {
            let mut decoder = PacketDecoder::at(&bytes[..cut], StreamOffset(7));
            let expect = Error::Truncated { offset: StreamOffset(7), available: cut };
            assert_eq!(decoder.next_packet(), Err(expect), "{packet} cut to {cut}");
        }
    }
}

#[test]
fn block_items_have_the_size_of_their_block() {
    // SDM, "Block Item Packet (BIP)": ID in bits 7:3, bits 2:0 are 100.
    let bytes = [
        0x02, 0x63, 0x84, 0x14, 1, 2, 3, 4, 0x02, 0x33, // 4-byte block, one item
        0x14, // outside a block: TNT-8
        0x02, 0x63, 0x04, 0x1c, 1, 2, 3, 4, 5, 6, 7, 8, 0x02, 0xb3, // 8-byte block
    ];
    let mut decoder = PacketDecoder::new(&bytes);
    let mut seen = Vec::new();
    while let Some((_, packet)) = decoder.next_packet().unwrap() {
        seen.push(packet);
    }
    let expect = [
        Packet::Bbp { size: BlockItemSize::Bytes4, kind: 4 },
        Packet::Bip { id: 2, payload: 0x0403_0201 },
        Packet::Bep { ip: false },
        Packet::TntShort(Tnt { bits: 0b010, len: 3 }),
        Packet::Bbp { size: BlockItemSize::Bytes8, kind: 4 },
        Packet::Bip { id: 3, payload: 0x0807_0605_0403_0201 },
        Packet::Bep { ip: true },
    ];
    assert_eq!(seen, expect);
    let mut encoder = Encoder::new();
    expect.iter().for_each(|p| encoder.packet(p));
    assert_eq!(encoder.bytes(), bytes);
}

#[test]
fn reserved_values_are_errors_with_a_place() {
    let reserved: &[&[u8]] = &[
        &[0xad, 0, 0, 0, 0, 0, 0, 0, 0],       // IPBytes 5
        &[0xed, 0, 0, 0, 0, 0, 0, 0, 0],       // IPBytes 7
        &[0x99, 0x03],                         // CS.L and CS.D
        &[0x99, 0x40],                         // MODE leaf 2
        &[0x02, 0xa3, 1, 0, 0, 0, 0, 0],       // TNT-64 without a branch
        &[0x02, 0x52, 0, 0, 0, 0, 0, 0, 0, 0], // PTW payload size 2
        &[0xff; 12],                           // CYC beyond 64 bits
    ];
    for bytes in reserved {
        let result = PacketDecoder::at(bytes, StreamOffset(3)).next_packet();
        assert!(
            matches!(result, Err(Error::Reserved { offset: StreamOffset(3), .. })),
            "{bytes:02x?}: {result:?}"
        );
    }
    let unknown: &[&[u8]] = &[&[0x05], &[0x09], &[0x15], &[0x39, 0], &[0x02, 0xff], &[0x02, 0xc3, 0x87]];
    for bytes in unknown {
        let result = PacketDecoder::new(bytes).next_packet();
        assert!(matches!(result, Err(Error::UnknownOpcode { .. })), "{bytes:02x?}: {result:?}");
    }
}

#[test]
fn resync_finds_the_next_psb() {
    let mut encoder = Encoder::new();
    encoder.tip(5);
    encoder.psb();
    encoder.psbend();
    let bytes = encoder.take();
    let broken = [&[0x05u8, 0x05][..], &bytes].concat();
    let mut decoder = PacketDecoder::new(&broken);
    assert!(decoder.next_packet().is_err());
    assert!(decoder.resync());
    assert_eq!(decoder.next_packet(), Ok(Some((StreamOffset(5), Packet::Psb))));
    assert_eq!(decoder.next_packet(), Ok(Some((StreamOffset(21), Packet::PsbEnd))));
    assert!(!decoder.resync());
}
