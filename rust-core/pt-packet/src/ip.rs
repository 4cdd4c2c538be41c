// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! IP payloads and their compression against the last IP (SDM, table "FUP/TIP IP
//! Reconstruction").

/// The IPBytes field of TIP, TIP.PGE, TIP.PGD and FUP: how much of the address follows.
/// The discriminants are the field's values; 5 and 7 are reserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum IpCompression {
    /// 0: no payload, the IP is out of context; the last IP stays.
    Suppressed = 0,
    /// 1: two bytes replace IP\[15:0\].
    Update16 = 1,
    /// 2: four bytes replace IP\[31:0\].
    Update32 = 2,
    /// 3: six bytes, sign-extended from bit 47.
    Sext48 = 3,
    /// 4: six bytes replace IP\[47:0\].
    Update48 = 4,
    /// 6: all eight bytes.
    Full = 6,
}

impl IpCompression {
    /// The variant with the given field value, the top three bits of the packet's first byte.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        // A table lookup, because a branch on this field is hard to predict.
        use IpCompression::*;
        const ALL: [Option<IpCompression>; 8] = [
            Some(Suppressed),
            Some(Update16),
            Some(Update32),
            Some(Sext48),
            Some(Update48),
            None,
            Some(Full),
            None,
        ];
        ALL[bits as usize & 7]
    }

    /// Number of payload bytes.
    #[inline]
    pub const fn len(self) -> usize {
        const LEN: [u8; 8] = [0, 2, 4, 6, 6, 0, 8, 0];
        LEN[self as usize & 7] as usize
    }

    /// The bits of the address that the payload carries.
    #[inline]
    pub(crate) const fn mask(self) -> u64 {
        const MASK: [u64; 8] = [0, 0xffff, 0xffff_ffff, LOW48, LOW48, 0, u64::MAX, 0];
        MASK[self as usize & 7]
    }

    /// Whether there is no payload.
    #[inline]
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::Suppressed)
    }
}

/// An IP as the packet carries it: compressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IpPayload {
    /// Which part of the address `raw` is.
    pub compression: IpCompression,
    /// The payload bytes, zero-extended (also for [`IpCompression::Sext48`]).
    pub raw: u64,
}

impl IpPayload {
    /// A suppressed IP, without payload.
    pub const SUPPRESSED: Self = Self { compression: IpCompression::Suppressed, raw: 0 };

    /// The shortest payload that turns `last` into `ip`, among the forms that PT units emit (1,
    /// 2, 3, 6).
    #[inline]
    pub const fn compress(ip: u64, last: u64) -> Self {
        let changed = ip ^ last;
        let (compression, raw) = if changed >> 16 == 0 {
            (IpCompression::Update16, ip & 0xffff)
        } else if changed >> 32 == 0 {
            (IpCompression::Update32, ip & 0xffff_ffff)
        } else if sext48(ip) == ip {
            (IpCompression::Sext48, ip & LOW48)
        } else {
            (IpCompression::Full, ip)
        };
        Self { compression, raw }
    }
}

const LOW48: u64 = (1 << 48) - 1;

#[inline]
const fn sext48(ip: u64) -> u64 {
    (((ip << 16) as i64) >> 16) as u64
}

/// The last IP sent, as decoder and encoder track it.
///
/// Zero at the start and after PSB (SDM, "IP Compression"). A suppressed IP does not change it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LastIp(u64);

impl LastIp {
    /// The address that packets are compressed against.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Resets to zero, as PSB does.
    #[inline]
    pub fn reset(&mut self) {
        self.0 = 0;
    }

    /// Applies the packet's payload. Returns the full address, or `None` when it is suppressed.
    #[inline]
    pub fn update(&mut self, payload: IpPayload) -> Option<u64> {
        let IpPayload { compression, raw } = payload;
        let mask = compression.mask();
        self.0 = match compression {
            IpCompression::Suppressed => return None,
            IpCompression::Sext48 => sext48(raw),
            _ => self.0 & !mask | raw & mask,
        };
        Some(self.0)
    }

    /// The payload for `ip`, which becomes the last IP.
    #[inline]
    pub fn compress(&mut self, ip: u64) -> IpPayload {
        let payload = IpPayload::compress(ip, self.0);
        self.0 = ip;
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compression_reconstructs() {
        let mut last = LastIp(0x7f12_3456_789a_bcde);
        let mut step = |compression, raw, expect| {
            assert_eq!(last.update(IpPayload { compression, raw }), expect);
        };
        step(IpCompression::Update16, 0x1111, Some(0x7f12_3456_789a_1111));
        step(IpCompression::Update32, 0x2222_3333, Some(0x7f12_3456_2222_3333));
        step(IpCompression::Update48, 0x4444_5555_6666, Some(0x7f12_4444_5555_6666));
        step(IpCompression::Suppressed, 0, None);
        step(IpCompression::Sext48, 0x8000_0000_0001, Some(0xffff_8000_0000_0001));
        step(IpCompression::Sext48, 0x7000_0000_0001, Some(0x7000_0000_0001));
        step(IpCompression::Full, u64::MAX, Some(u64::MAX));
    }

    #[test]
    fn the_encoder_takes_the_shortest_form() {
        let at = |ip, last| IpPayload::compress(ip, last).compression;
        assert_eq!(at(0x1000, 0), IpCompression::Update16);
        assert_eq!(at(0x7f00_0001_0000, 0x7f00_0000_0000), IpCompression::Update32);
        assert_eq!(at(0x7f00_0001_0000, 0), IpCompression::Sext48);
        assert_eq!(at(0xffff_8000_0000_0000, 0), IpCompression::Sext48);
        assert_eq!(at(0x1234_8000_0000_0000, 0), IpCompression::Full);
    }
}
