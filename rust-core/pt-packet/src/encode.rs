// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Encodes packets into bytes.

use crate::ip::{IpPayload, LastIp};
use crate::packet::{BlockItemSize, CodeSize, Packet, Tnt};
use crate::sync::PSB;

/// Appends packets to its own buffer and compresses addresses against the last IP.
///
/// It does not check the order of packets: the caller decides when a PT unit would emit which
/// packet. [`Encoder::psb`] resets the last IP as the SDM demands.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    out: Vec<u8>,
    last_ip: LastIp,
    block: Option<BlockItemSize>,
}

impl Encoder {
    /// An empty buffer and last IP 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes written and not yet taken.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Number of bytes written and not yet taken.
    #[inline]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether there are no bytes to take.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Drops the bytes, which the caller has copied; keeps capacity and last IP.
    #[inline]
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Takes the bytes out of the buffer.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// The address the next IP packet is compressed against.
    pub fn last_ip(&self) -> LastIp {
        self.last_ip
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    fn put_ip(&mut self, opcode: u8, payload: IpPayload) {
        let mut b = [0u8; 9];
        b[0] = opcode | (payload.compression as u8) << 5;
        b[1..].copy_from_slice(&payload.raw.to_le_bytes());
        self.out.extend_from_slice(&b[..1 + payload.compression.len()]);
    }

    #[inline]
    fn compressed(&mut self, opcode: u8, ip: u64) {
        let payload = self.last_ip.compress(ip);
        self.put_ip(opcode, payload);
    }

    /// Appends bytes unchanged, for tests of sequences that no unit sends.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// PAD, `n` times.
    pub fn pad(&mut self, n: usize) {
        self.out.resize(self.out.len() + n, 0);
    }

    /// PSB; resets the last IP.
    pub fn psb(&mut self) {
        self.put(&PSB);
        self.last_ip.reset();
    }

    /// PSBEND.
    pub fn psbend(&mut self) {
        self.put(&[0x02, 0x23]);
    }

    /// TNT: the shortest packet for `len` outcomes (1 to 47), the oldest in bit `len - 1`.
    /// Writes nothing if `len` is 0.
    #[inline]
    pub fn tnt(&mut self, bits: u64, len: u8) {
        match len {
            0 => {}
            1..=6 => self.tnt_short(Tnt { bits, len }),
            _ => self.tnt_long(Tnt { bits, len }),
        }
    }

    #[inline]
    fn tnt_short(&mut self, t: Tnt) {
        let stop = 1u64 << t.len.min(6);
        self.out.push(((stop | t.bits & (stop - 1)) << 1) as u8);
    }

    /// TNT-64, whatever the number of outcomes.
    #[inline]
    pub fn tnt_long(&mut self, t: Tnt) {
        let stop = 1u64 << t.len.min(47);
        let b = (stop | t.bits & (stop - 1)).to_le_bytes();
        self.put(&[0x02, 0xa3, b[0], b[1], b[2], b[3], b[4], b[5]]);
    }

    /// TIP.
    #[inline]
    pub fn tip(&mut self, ip: u64) {
        self.compressed(0x0d, ip);
    }

    /// TIP.PGE.
    pub fn tip_pge(&mut self, ip: u64) {
        self.compressed(0x11, ip);
    }

    /// TIP.PGD with the target of the branch that left the filter; `None` for a suppressed IP.
    pub fn tip_pgd(&mut self, ip: Option<u64>) {
        match ip {
            Some(ip) => self.compressed(0x01, ip),
            None => self.put_ip(0x01, IpPayload::SUPPRESSED),
        }
    }

    /// FUP.
    pub fn fup(&mut self, ip: u64) {
        self.compressed(0x1d, ip);
    }

    /// MODE.Exec.
    pub fn mode_exec(&mut self, size: CodeSize) {
        self.packet(&Packet::ModeExec { size, interrupt_flag: false });
    }

    /// TSC; the top byte of `tsc` is not sent.
    pub fn tsc(&mut self, tsc: u64) {
        let b = tsc.to_le_bytes();
        self.put(&[0x19, b[0], b[1], b[2], b[3], b[4], b[5], b[6]]);
    }

    /// TMA; `fast_counter` has nine bits.
    pub fn tma(&mut self, ctc: u16, fast_counter: u16) {
        let [c0, c1] = ctc.to_le_bytes();
        let [f0, f1] = fast_counter.to_le_bytes();
        self.put(&[0x02, 0x73, c0, c1, 0, f0, f1 & 1]);
    }

    /// MTC.
    pub fn mtc(&mut self, ctc: u8) {
        self.put(&[0x59, ctc]);
    }

    /// CYC.
    #[inline]
    pub fn cyc(&mut self, cycles: u64) {
        let mut rest = cycles >> 5;
        self.out.push(0b11 | u8::from(rest != 0) << 2 | (cycles as u8 & 0x1f) << 3);
        while rest != 0 {
            let byte = (rest as u8 & 0x7f) << 1;
            rest >>= 7;
            self.out.push(byte | u8::from(rest != 0));
        }
    }

    /// CBR.
    pub fn cbr(&mut self, ratio: u8) {
        self.put(&[0x02, 0x03, ratio, 0]);
    }

    /// OVF. The unit sends the next FUP's or TIP.PGE's IP uncompressed: the last IP is reset.
    pub fn ovf(&mut self) {
        self.put(&[0x02, 0xf3]);
        self.last_ip.reset();
    }

    /// Any packet, unchanged. IP payloads are written as they are and update the last IP.
    pub fn packet(&mut self, packet: &Packet) {
        match *packet {
            Packet::Pad => self.pad(1),
            Packet::Psb => self.psb(),
            Packet::PsbEnd => self.psbend(),
            Packet::TntShort(t) => self.tnt_short(t),
            Packet::TntLong(t) => self.tnt_long(t),
            Packet::Tip(ip) => self.raw_ip(0x0d, ip),
            Packet::TipPge(ip) => self.raw_ip(0x11, ip),
            Packet::TipPgd(ip) => self.raw_ip(0x01, ip),
            Packet::Fup(ip) => self.raw_ip(0x1d, ip),
            Packet::Tsc(v) => self.tsc(v),
            Packet::Tma { ctc, fast_counter } => self.tma(ctc, fast_counter),
            Packet::Mtc(v) => self.mtc(v),
            Packet::Cyc(v) => self.cyc(v),
            Packet::Cbr(v) => self.cbr(v),
            Packet::Ovf => self.ovf(),
            _ => self.rare(packet),
        }
    }

    fn raw_ip(&mut self, opcode: u8, payload: IpPayload) {
        self.last_ip.update(payload);
        self.put_ip(opcode, payload);
    }

    fn rare(&mut self, packet: &Packet) {
        match *packet {
            Packet::ModeExec { size, interrupt_flag } => {
                let mode = match size {
                    CodeSize::Bits16 => 0,
                    CodeSize::Bits64 => 1,
                    CodeSize::Bits32 => 2,
                };
                self.put(&[0x99, mode | u8::from(interrupt_flag) << 2]);
            }
            Packet::ModeTsx { in_transaction, aborted } => {
                self.put(&[0x99, 1 << 5 | u8::from(in_transaction) | u8::from(aborted) << 1]);
            }
            Packet::Pip { cr3, non_root } => {
                let v = (cr3 >> 5 & ((1 << 47) - 1)) << 1 | u64::from(non_root);
                self.extended(0x43, v, 6);
            }
            Packet::Vmcs(base) => self.extended(0xc8, base >> 12, 5),
            Packet::TraceStop => self.extended(0x83, 0, 0),
            Packet::Mnt(v) => {
                self.put(&[0x02, 0xc3, 0x88]);
                self.put(&v.to_le_bytes());
            }
            Packet::Ptw { payload, wide, ip } => {
                let opcode = 0x12 | u8::from(wide) << 5 | u8::from(ip) << 7;
                self.extended(opcode, payload, if wide { 8 } else { 4 });
            }
            _ => self.power_and_blocks(packet),
        }
    }

    fn power_and_blocks(&mut self, packet: &Packet) {
        match *packet {
            Packet::Exstop { ip } => self.extended(0x62 | u8::from(ip) << 7, 0, 0),
            Packet::Mwait { hints, extensions } => {
                self.extended(0xc2, u64::from(hints) | u64::from(extensions & 3) << 32, 8);
            }
            Packet::Pwre { hardware, state, substate } => {
                self.put(&[0x02, 0x22, u8::from(hardware) << 7, state << 4 | substate & 0xf]);
            }
            Packet::Pwrx { last, deepest, wake } => {
                self.put(&[0x02, 0xa2, last << 4 | deepest & 0xf, wake & 0xf, 0, 0, 0]);
            }
            Packet::Bbp { size, kind } => {
                self.block = Some(size);
                self.put(&[0x02, 0x63, u8::from(size == BlockItemSize::Bytes4) << 7 | kind & 0x1f]);
            }
            Packet::Bip { id, payload } => {
                self.out.push(id << 3 | 0b100);
                let size = self.block.unwrap_or(BlockItemSize::Bytes8);
                self.put(&payload.to_le_bytes()[..size.len()]);
            }
            Packet::Bep { ip } => {
                self.block = None;
                self.extended(0x33 | u8::from(ip) << 7, 0, 0);
            }
            Packet::Cfe { kind, vector, ip } => {
                self.put(&[0x02, 0x13, u8::from(ip) << 7 | kind & 0x1f, vector]);
            }
            Packet::Evd { kind, payload } => {
                self.put(&[0x02, 0x53, kind & 0x3f]);
                self.put(&payload.to_le_bytes());
            }
            _ => {}
        }
    }

    fn extended(&mut self, opcode: u8, payload: u64, len: usize) {
        self.put(&[0x02, opcode]);
        self.put(&payload.to_le_bytes()[..len]);
    }
}
