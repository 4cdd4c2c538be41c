// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! libipt's packet decoder reads the same packets at the same offsets.

use jportal_pt_packet::{CodeSize, Encoder, IpCompression, IpPayload, Packet, PacketDecoder, Tnt};
use libipt::enc_dec_builder::PtEncoderDecoder;
use libipt::packet::{Packet as Theirs, PacketDecoder as TheirDecoder};

/// Every packet that libipt knows, several times each, with addresses in every form.
fn stream() -> Vec<u8> {
    let mut e = Encoder::new();
    let mut random = fastrand::Rng::with_seed(1);
    let mut next = || random.u64(..1 << 53);
    for _ in 0..500 {
        e.psb();
        e.tsc(next() % (1 << 56));
        e.tma(next() as u16, next() as u16 % 512);
        e.cbr(next() as u8);
        e.mode_exec(CodeSize::Bits64);
        e.fup(next() % (1 << 47));
        e.psbend();
        for len in 1..=6 {
            e.packet(&Packet::TntShort(Tnt { bits: next() % (1 << len), len }));
        }
        for len in [1, 6, 7, 30, 47] {
            e.tnt_long(Tnt { bits: next() % (1 << len), len });
        }
        use IpCompression::*;
        for (compression, raw) in [
            (Suppressed, 0),
            (Update16, next() % 0x1_0000),
            (Update32, next() % 0x1_0000_0000),
            (Sext48, next() % (1 << 48)),
            (Update48, next() % (1 << 48)),
            (Full, next()),
        ] {
            let ip = IpPayload { compression, raw };
            [Packet::Tip(ip), Packet::TipPge(ip), Packet::TipPgd(ip), Packet::Fup(ip)]
                .iter()
                .for_each(|p| e.packet(p));
        }
        e.mtc(next() as u8);
        e.cyc(next() % 100);
        e.cyc(next());
        e.ovf();
        e.pad(3);
        [
            Packet::ModeTsx { in_transaction: true, aborted: false },
            Packet::Pip { cr3: (next() % (1 << 47)) << 5, non_root: true },
            Packet::Vmcs((next() % (1 << 40)) << 12),
            Packet::TraceStop,
            Packet::Mnt(next()),
            Packet::Ptw { payload: next() % (1 << 32), wide: false, ip: true },
            Packet::Ptw { payload: next(), wide: true, ip: false },
            Packet::Exstop { ip: true },
            Packet::Mwait { hints: next() as u8, extensions: 1 },
            Packet::Pwre { hardware: true, state: 3, substate: 2 },
            Packet::Pwrx { last: 1, deepest: 4, wake: 1 },
        ]
        .iter()
        .for_each(|p| e.packet(p));
    }
    e.take()
}

/// Whether both decoders read the same packet.
fn same(ours: &Packet, theirs: &Theirs<()>) -> bool {
    let ip = |p: &IpPayload, raw: u64, code: u32| p.raw == raw && p.compression as u32 == code;
    match (ours, theirs) {
        (Packet::Pad, Theirs::Pad(_))
        | (Packet::Psb, Theirs::Psb(_))
        | (Packet::PsbEnd, Theirs::Psbend(_))
        | (Packet::Ovf, Theirs::Ovf(_))
        | (Packet::TraceStop, Theirs::Stop(_)) => true,
        (Packet::TntShort(t), Theirs::Tnt8(u)) => (t.bits, t.len) == (u.payload().into(), u.bitsize()),
        // The binding returns only eight of the 47 bits.
        (Packet::TntLong(t), Theirs::Tnt64(u)) => (t.bits as u8, t.len) == (u.payload(), u.bitsize()),
        (Packet::Tip(p), Theirs::Tip(q)) => ip(p, q.tip(), q.compression() as u32),
        (Packet::TipPge(p), Theirs::TipPge(q)) => ip(p, q.tippge(), q.compression() as u32),
        (Packet::TipPgd(p), Theirs::TipPgd(q)) => ip(p, q.tippgd(), q.compression() as u32),
        (Packet::Fup(p), Theirs::Fup(q)) => ip(p, q.fup(), q.compression() as u32),
        (Packet::ModeExec { .. } | Packet::ModeTsx { .. }, Theirs::Mode(_)) => true,
        (Packet::Tsc(t), Theirs::Tsc(u)) => *t == u.tsc(),
        (Packet::Tma { ctc, fast_counter }, Theirs::Tma(u)) => (*ctc, *fast_counter) == (u.ctc(), u.fc()),
        (Packet::Mtc(v), Theirs::Mtc(u)) => *v == u.ctc(),
        (Packet::Cyc(v), Theirs::Cyc(u)) => *v == u.value(),
        (Packet::Cbr(v), Theirs::Cbr(u)) => *v == u.ratio(),
        (Packet::Pip { cr3, non_root }, Theirs::Pip(u)) => (*cr3, *non_root) == (u.cr3(), u.nr()),
        (Packet::Vmcs(v), Theirs::Vmcs(u)) => *v == u.base(),
        (Packet::Mnt(v), Theirs::Mnt(u)) => *v == u.payload(),
        (Packet::Ptw { payload, ip, .. }, Theirs::Ptw(u)) => (*payload, *ip) == (u.payload(), u.ip()),
        (Packet::Exstop { ip }, Theirs::Exstop(u)) => *ip == u.ip(),
        (Packet::Mwait { hints, extensions }, Theirs::Mwait(u)) => {
            (u32::from(*hints), u32::from(*extensions)) == (u.hints(), u.ext())
        }
        // HW is bit 7 of the first payload byte in the SDM and in Linux's perf, bit 3 in libipt.
        (Packet::Pwre { state, substate, .. }, Theirs::Pwre(u)) => {
            (*state, *substate) == (u.state(), u.substate())
        }
        (Packet::Pwrx { last, deepest, .. }, Theirs::Pwrx(u)) => (*last, *deepest) == (u.last(), u.deepest()),
        _ => false,
    }
}

#[test]
fn libipt_reads_the_same() {
    let bytes = stream();
    let builder = TheirDecoder::<()>::builder();
    // SAFETY: libipt only reads the buffer, which outlives the decoder.
    let mut theirs =
        unsafe { builder.buffer_from_raw(bytes.as_ptr().cast_mut(), bytes.len()) }.build().unwrap();
    theirs.sync_forward().unwrap();
    let mut ours = PacketDecoder::new(&bytes);
    let mut compared = 0;
    while let Some((offset, packet)) = ours.next_packet().unwrap() {
        assert_eq!(theirs.offset().unwrap(), offset.0, "{packet}");
        let other = theirs.decode_next().unwrap_or_else(|e| panic!("{packet} at {offset}: libipt: {e}"));
        assert!(same(&packet, &other), "{offset}: ours {packet}, libipt's {other:?}");
        compared += 1;
    }
    assert_eq!(compared, 500 * 60);
}
