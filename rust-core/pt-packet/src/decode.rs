// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decodes bytes into packets.

use crate::error::Error;
use crate::ip::{IpCompression, IpPayload};
use crate::packet::{BlockItemSize, CodeSize, Packet, Tnt};
use crate::sync::PSB;
use jportal_units::StreamOffset;

/// A pull decoder over one contiguous piece of trace.
///
/// After an error, its position is that of the offending packet; [`PacketDecoder::resync`]
/// moves it to the next PSB.
#[derive(Clone, Debug)]
pub struct PacketDecoder<'a> {
    bytes: &'a [u8],
    at: usize,
    base: StreamOffset,
    block: Option<BlockItemSize>,
}

impl<'a> PacketDecoder<'a> {
    /// A decoder of `bytes`, which begin with a packet; offsets count from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, StreamOffset(0))
    }

    /// Like [`PacketDecoder::new`], with `base` the offset of the first byte in the core's
    /// stream.
    pub fn at(bytes: &'a [u8], base: StreamOffset) -> Self {
        Self { bytes, at: 0, base, block: None }
    }

    /// Offset at which the next packet begins.
    #[inline]
    pub fn offset(&self) -> StreamOffset {
        StreamOffset(self.base.0 + self.at as u64)
    }

    /// The next packet and its offset; `None` at the end of the bytes.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<(StreamOffset, Packet)>, Error> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let offset = self.offset();
        let (packet, len) = decode_packet(&self.bytes[self.at..], offset, &mut self.block)?;
        self.at += len;
        Ok(Some((offset, packet)))
    }

    /// Passes all packets up to the end of the bytes to `f`: the fastest way to read a trace.
    ///
    /// # Errors
    /// As [`PacketDecoder::next_packet`]; `f` has received the packets before the error.
    #[inline]
    pub fn for_each(&mut self, mut f: impl FnMut(StreamOffset, Packet)) -> Result<(), Error> {
        loop {
            while let Some(head) = self.bytes.get(self.at..self.at + HEAD) {
                let offset = self.offset();
                if let Some(tnt) = hot_tnt(head[0]).filter(|_| self.block.is_none()) {
                    self.at += 1;
                    f(offset, Packet::TntShort(tnt));
                } else if let Some((ip, len)) = hot_tip(head) {
                    self.at += len;
                    f(offset, Packet::Tip(ip));
                } else {
                    break;
                }
            }
            match self.next_packet()? {
                Some((offset, packet)) => f(offset, packet),
                None => return Ok(()),
            }
        }
    }

    /// Moves to the next PSB at or after the present position. Returns `false` if there is
    /// none; the decoder is then at the end of the bytes.
    pub fn resync(&mut self) -> bool {
        self.block = None;
        match crate::sync::find_psb(self.bytes, self.at) {
            Some(at) => {
                self.at = at;
                true
            }
            None => {
                self.at = self.bytes.len();
                false
            }
        }
    }
}

/// Number of bytes that [`hot_tip`] reads.
pub const HEAD: usize = 9;

/// The outcomes of a packet that begins with `first`, if it is a TNT-8. Not for use inside a
/// block (BBP to BEP), where the same byte may begin a block item. Together with [`hot_tip`] a
/// fast path for the two packets that make up most of a trace.
#[inline(always)]
pub fn hot_tnt(first: u8) -> Option<Tnt> {
    if first & 1 != 0 || first & !2 == 0 {
        return None;
    }
    let len = 6 - (first.leading_zeros() as u8);
    Some(Tnt { bits: u64::from(first >> 1) & ((1 << len) - 1), len })
}

/// The payload and the length of the packet at the start of `head`, if it is a TIP with an
/// address. `head` has at least [`HEAD`] bytes.
#[inline(always)]
pub fn hot_tip(head: &[u8]) -> Option<(IpPayload, usize)> {
    let (&first, rest) = head.split_first()?;
    if first & 0x1f != 0x0d {
        return None;
    }
    let compression = IpCompression::from_bits(first >> 5).filter(|c| !c.is_empty())?;
    let raw = u64::from_le_bytes(*rest.first_chunk()?) & compression.mask();
    Some((IpPayload { compression, raw }, 1 + compression.len()))
}

/// Decodes the packet at the start of `bytes`; returns it with its length.
///
/// `offset` is used in errors only. `block` holds, between BBP and BEP, the size of block
/// items, whose first byte would otherwise be that of a TNT-8. Pass `None` for the first
/// packet.
#[inline]
pub fn decode_packet(
    bytes: &[u8],
    offset: StreamOffset,
    block: &mut Option<BlockItemSize>,
) -> Result<(Packet, usize), Error> {
    let Some(&first) = bytes.first() else {
        return Err(Error::Truncated { offset, available: 0 });
    };
    if first & 1 == 0 {
        if first & !2 == 0 {
            return if first == 0 { Ok((Packet::Pad, 1)) } else { extended(bytes, offset, block) };
        }
        if block.is_some() && first & 7 == 0b100 {
            return bip(bytes, offset, *block);
        }
        let len = 6 - (first.leading_zeros() as u8);
        let bits = u64::from(first >> 1) & ((1 << len) - 1);
        return Ok((Packet::TntShort(Tnt { bits, len }), 1));
    }
    if first & 3 == 3 {
        return cyc(bytes, offset);
    }
    match first & 0x1f {
        0x0d => ip_packet(bytes, offset, "TIP").map(|(ip, len)| (Packet::Tip(ip), len)),
        0x1d => ip_packet(bytes, offset, "FUP").map(|(ip, len)| (Packet::Fup(ip), len)),
        0x11 => ip_packet(bytes, offset, "TIP.PGE").map(|(ip, len)| (Packet::TipPge(ip), len)),
        0x01 => ip_packet(bytes, offset, "TIP.PGD").map(|(ip, len)| (Packet::TipPgd(ip), len)),
        _ => single(bytes, offset),
    }
}

/// The first `N` payload bytes after a header of `header` bytes, as a little-endian number.
#[inline(always)]
fn number<const N: usize>(bytes: &[u8], header: usize, offset: StreamOffset) -> Result<u64, Error> {
    match bytes.get(header..header + N) {
        Some(payload) => {
            let mut b = [0u8; 8];
            b[..N].copy_from_slice(payload);
            Ok(u64::from_le_bytes(b))
        }
        None => Err(Error::Truncated { offset, available: bytes.len() }),
    }
}

/// An IP packet. Unless the bytes end soon, one load serves every compression, because a branch
/// on the compression is hard to predict.
#[inline(always)]
fn ip_packet(bytes: &[u8], offset: StreamOffset, name: &'static str) -> Result<(IpPayload, usize), Error> {
    let field = bytes[0] >> 5;
    let Some(compression) = IpCompression::from_bits(field) else {
        return Err(Error::Reserved { offset, packet: name, value: field.into() });
    };
    let raw = match bytes.get(1..9) {
        Some(all) => {
            let mut b = [0u8; 8];
            b.copy_from_slice(all);
            u64::from_le_bytes(b)
        }
        None => return ip_packet_at_end(bytes, offset, compression),
    };
    Ok((IpPayload { compression, raw: raw & compression.mask() }, 1 + compression.len()))
}

#[inline(never)]
fn ip_packet_at_end(
    bytes: &[u8],
    offset: StreamOffset,
    compression: IpCompression,
) -> Result<(IpPayload, usize), Error> {
    let raw = match compression.len() {
        0 => 0,
        2 => number::<2>(bytes, 1, offset)?,
        4 => number::<4>(bytes, 1, offset)?,
        6 => number::<6>(bytes, 1, offset)?,
        _ => number::<8>(bytes, 1, offset)?,
    };
    Ok((IpPayload { compression, raw }, 1 + compression.len()))
}

#[inline(never)]
fn cyc(bytes: &[u8], offset: StreamOffset) -> Result<(Packet, usize), Error> {
    let mut value = u64::from(bytes[0] >> 3);
    let mut more = bytes[0] & 4 != 0;
    let (mut shift, mut len) = (5u32, 1usize);
    while more {
        let &byte = bytes.get(len).ok_or(Error::Truncated { offset, available: bytes.len() })?;
        let part = u64::from(byte >> 1);
        if shift >= 64 || part << shift >> shift != part {
            return Err(Error::Reserved { offset, packet: "CYC", value: part });
        }
        value |= part << shift;
        more = byte & 1 != 0;
        shift += 7;
        len += 1;
    }
    Ok((Packet::Cyc(value), len))
}

/// Packets that their first byte alone identifies, other than IP packets.
#[inline(never)]
fn single(bytes: &[u8], offset: StreamOffset) -> Result<(Packet, usize), Error> {
    match bytes[0] {
        0x19 => Ok((Packet::Tsc(number::<7>(bytes, 1, offset)?), 8)),
        0x59 => Ok((Packet::Mtc(number::<1>(bytes, 1, offset)? as u8), 2)),
        0x99 => mode(number::<1>(bytes, 1, offset)? as u8, offset),
        _ => Err(unknown(bytes, offset)),
    }
}

fn mode(payload: u8, offset: StreamOffset) -> Result<(Packet, usize), Error> {
    let packet = match payload >> 5 {
        0 => {
            let size = match payload & 3 {
                0 => CodeSize::Bits16,
                1 => CodeSize::Bits64,
                2 => CodeSize::Bits32,
                _ => return Err(Error::Reserved { offset, packet: "MODE.Exec", value: payload.into() }),
            };
            Packet::ModeExec { size, interrupt_flag: payload & 4 != 0 }
        }
        1 => Packet::ModeTsx { in_transaction: payload & 1 != 0, aborted: payload & 2 != 0 },
        leaf => return Err(Error::Reserved { offset, packet: "MODE", value: leaf.into() }),
    };
    Ok((packet, 2))
}

fn bip(bytes: &[u8], offset: StreamOffset, block: Option<BlockItemSize>) -> Result<(Packet, usize), Error> {
    let id = bytes[0] >> 3;
    let (payload, len) = match block {
        Some(BlockItemSize::Bytes4) => (number::<4>(bytes, 1, offset)?, 5),
        _ => (number::<8>(bytes, 1, offset)?, 9),
    };
    Ok((Packet::Bip { id, payload }, len))
}

fn unknown(bytes: &[u8], offset: StreamOffset) -> Error {
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    Error::UnknownOpcode { offset, opcode: [at(0), at(1), at(2)] }
}

/// Packets that begin with the extension byte 02.
#[inline(never)]
fn extended(
    bytes: &[u8],
    offset: StreamOffset,
    block: &mut Option<BlockItemSize>,
) -> Result<(Packet, usize), Error> {
    let Some(&opcode) = bytes.get(1) else {
        return Err(Error::Truncated { offset, available: bytes.len() });
    };
    Ok(match opcode {
        0xa3 => tnt_long(number::<6>(bytes, 2, offset)?, offset)?,
        0x82 => psb(bytes, offset, block)?,
        0x23 => (Packet::PsbEnd, 2),
        0x03 => (Packet::Cbr(number::<2>(bytes, 2, offset)? as u8), 4),
        0x73 => {
            let v = number::<5>(bytes, 2, offset)?;
            (Packet::Tma { ctc: v as u16, fast_counter: (v >> 24) as u16 & 0x1ff }, 7)
        }
        0xf3 => (Packet::Ovf, 2),
        0x43 => {
            let v = number::<6>(bytes, 2, offset)?;
            (Packet::Pip { cr3: v >> 1 << 5, non_root: v & 1 != 0 }, 8)
        }
        0xc8 => (Packet::Vmcs(number::<5>(bytes, 2, offset)? << 12), 7),
        0x83 => (Packet::TraceStop, 2),
        0xc3 => mnt(bytes, offset)?,
        _ if opcode & 0x1f == 0x12 => ptw(bytes, offset, opcode)?,
        _ => power_and_blocks(bytes, offset, opcode, block)?,
    })
}

fn tnt_long(payload: u64, offset: StreamOffset) -> Result<(Packet, usize), Error> {
    // The highest set bit is the stop bit. A payload without one, or without a branch after it,
    // is reserved.
    if payload < 2 {
        return Err(Error::Reserved { offset, packet: "TNT-64", value: payload });
    }
    let len = 63 - payload.leading_zeros() as u8;
    Ok((Packet::TntLong(Tnt { bits: payload & ((1 << len) - 1), len }), 8))
}

fn psb(
    bytes: &[u8],
    offset: StreamOffset,
    block: &mut Option<BlockItemSize>,
) -> Result<(Packet, usize), Error> {
    match bytes.get(..PSB.len()) {
        Some(all) if all == PSB => {
            *block = None;
            Ok((Packet::Psb, PSB.len()))
        }
        None if PSB.starts_with(bytes) => Err(Error::Truncated { offset, available: bytes.len() }),
        _ => Err(unknown(bytes, offset)),
    }
}

fn mnt(bytes: &[u8], offset: StreamOffset) -> Result<(Packet, usize), Error> {
    match bytes.get(2) {
        Some(0x88) => Ok((Packet::Mnt(number::<8>(bytes, 3, offset)?), 11)),
        Some(_) => Err(unknown(bytes, offset)),
        None => Err(Error::Truncated { offset, available: bytes.len() }),
    }
}

fn ptw(bytes: &[u8], offset: StreamOffset, opcode: u8) -> Result<(Packet, usize), Error> {
    let ip = opcode & 0x80 != 0;
    Ok(match opcode >> 5 & 3 {
        0 => (Packet::Ptw { payload: number::<4>(bytes, 2, offset)?, wide: false, ip }, 6),
        1 => (Packet::Ptw { payload: number::<8>(bytes, 2, offset)?, wide: true, ip }, 10),
        value => return Err(Error::Reserved { offset, packet: "PTW", value: value.into() }),
    })
}

fn power_and_blocks(
    bytes: &[u8],
    offset: StreamOffset,
    opcode: u8,
    block: &mut Option<BlockItemSize>,
) -> Result<(Packet, usize), Error> {
    let ip = opcode & 0x80 != 0;
    Ok(match opcode {
        0x62 | 0xe2 => (Packet::Exstop { ip }, 2),
        0xc2 => {
            let v = number::<8>(bytes, 2, offset)?;
            (Packet::Mwait { hints: v as u8, extensions: (v >> 32) as u8 & 3 }, 10)
        }
        0x22 => {
            let v = number::<2>(bytes, 2, offset)?;
            let (state, substate) = ((v >> 12) as u8 & 0xf, (v >> 8) as u8 & 0xf);
            (Packet::Pwre { hardware: v & 0x80 != 0, state, substate }, 4)
        }
        0xa2 => {
            let v = number::<5>(bytes, 2, offset)?;
            let (last, deepest) = ((v >> 4) as u8 & 0xf, v as u8 & 0xf);
            (Packet::Pwrx { last, deepest, wake: (v >> 8) as u8 & 0xf }, 7)
        }
        0x63 => {
            let v = number::<1>(bytes, 2, offset)? as u8;
            let size = if v & 0x80 != 0 { BlockItemSize::Bytes4 } else { BlockItemSize::Bytes8 };
            *block = Some(size);
            (Packet::Bbp { size, kind: v & 0x1f }, 3)
        }
        0x33 | 0xb3 => {
            *block = None;
            (Packet::Bep { ip }, 2)
        }
        0x13 => {
            let v = number::<2>(bytes, 2, offset)?;
            (Packet::Cfe { kind: v as u8 & 0x1f, vector: (v >> 8) as u8, ip: v & 0x80 != 0 }, 4)
        }
        0x53 => {
            let kind = number::<1>(bytes, 2, offset)? as u8 & 0x3f;
            (Packet::Evd { kind, payload: number::<8>(bytes, 3, offset)? }, 11)
        }
        _ => return Err(unknown(bytes, offset)),
    })
}
