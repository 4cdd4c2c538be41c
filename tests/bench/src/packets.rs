// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Packet decoding: JPortal's decoder, iptr-decoder and libipt.

use crate::trace::Trace;
use crate::{Row, best};
use anyhow::{Result, anyhow};
use iptr_decoder::{DecodeOptions, HandlePacket, decode};
use jportal_pt_packet::{LastIp, Packet, PacketDecoder};
use libipt::enc_dec_builder::PtEncoderDecoder;
use std::convert::Infallible;

const ROUNDS: usize = 5;

/// Measures the three decoders.
pub fn measure(traces: &[Trace], rows: &mut Vec<Row>) -> Result<()> {
    let bytes = traces.iter().map(|t| t.bytes.len() as u64).sum();
    let mut add = |what, work: &mut dyn FnMut() -> Result<u64>| -> Result<()> {
        let (time, packets) = best(ROUNDS, work)?;
        rows.push(Row { what, bytes, time, counts: vec![("packets", packets)] });
        Ok(())
    };
    add("packets: jportal-pt-packet", &mut || traces.iter().map(ours).sum())?;
    add("packets: iptr-decoder, counting handler", &mut || traces.iter().map(iptr).sum())?;
    add("packets: libipt packet decoder", &mut || traces.iter().map(libipt_packets).sum())
}

/// Counts packets. Addresses are reconstructed, as a consumer of packets would do.
fn ours(trace: &Trace) -> Result<u64> {
    let mut decoder = PacketDecoder::new(&trace.bytes);
    let mut last_ip = LastIp::default();
    let (mut packets, mut outcomes, mut sum) = (0, 0u64, 0u64);
    decoder.for_each(|_, packet| {
        packets += 1;
        match packet {
            Packet::TntShort(t) | Packet::TntLong(t) => outcomes += u64::from(t.len),
            Packet::Tip(ip) | Packet::TipPge(ip) | Packet::TipPgd(ip) | Packet::Fup(ip) => {
                sum = sum.wrapping_add(last_ip.update(ip).unwrap_or(0));
            }
            Packet::Psb => last_ip.reset(),
            _ => {}
        }
    })?;
    std::hint::black_box((outcomes, sum));
    Ok(packets)
}

/// Counts the TNT and TIP packets.
#[derive(Default)]
struct PacketCounter(u64);

impl HandlePacket for PacketCounter {
    type Error = Infallible;

    fn at_decode_begin(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn on_short_tnt_packet(
        &mut self,
        _: &iptr_decoder::DecoderContext,
        _: std::num::NonZero<u8>,
        _: u32,
    ) -> Result<(), Infallible> {
        self.0 += 1;
        Ok(())
    }
    fn on_long_tnt_packet(
        &mut self,
        _: &iptr_decoder::DecoderContext,
        _: std::num::NonZero<u64>,
        _: u32,
    ) -> Result<(), Infallible> {
        self.0 += 1;
        Ok(())
    }
    fn on_tip_packet(
        &mut self,
        _: &iptr_decoder::DecoderContext,
        _: iptr_decoder::IpReconstructionPattern,
    ) -> Result<(), Infallible> {
        self.0 += 1;
        Ok(())
    }
}

fn iptr(trace: &Trace) -> Result<u64> {
    let mut counter = PacketCounter::default();
    decode(&trace.bytes, DecodeOptions::default(), &mut counter)
        .map_err(|e| anyhow!("iptr-decoder on {}: {e:?}", trace.core))?;
    Ok(counter.0)
}

fn libipt_packets(trace: &Trace) -> Result<u64> {
    let builder = libipt::packet::PacketDecoder::<()>::builder();
    // SAFETY: libipt only reads the buffer, which outlives the decoder.
    let builder = unsafe { builder.buffer_from_raw(trace.bytes.as_ptr().cast_mut(), trace.bytes.len()) };
    let mut decoder = builder.build().map_err(|e| anyhow!("libipt: {e}"))?;
    decoder.sync_forward().map_err(|e| anyhow!("libipt: {e}"))?;
    let mut packets = 0;
    for packet in decoder {
        packet.map_err(|e| anyhow!("libipt: {e}"))?;
        packets += 1;
    }
    Ok(packets)
}
