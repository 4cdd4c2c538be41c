// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads the record of executed blocks (`jportal_emulator::truth`).

use std::path::Path;
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions};
use jportal_emulator::truth::{FIRST_MARKER, LOST, PSB, RECOVERED, SWITCH_IN, SWITCH_OUT, TRUNCATED};

/// A translated block.
#[derive(Debug)]
pub struct TruthBlock {
    /// Address of the first instruction.
    pub address: u64,
    /// Code bytes.
    pub bytes: Vec<u8>,
    /// Offsets of the instructions in `bytes`.
    pub offsets: Vec<u16>,
}

/// All translated blocks. Block number 1 is the first element.
pub fn read_code(directory: &Path) -> Rc<Vec<TruthBlock>> {
    let data = std::fs::read(directory.join("code")).unwrap();
    let mut rest = &data[..];
    let mut blocks = Vec::new();
    while let Some((head, tail)) = rest.split_first_chunk::<12>() {
        let address = u64::from_le_bytes(head[..8].try_into().unwrap());
        let n = u16::from_le_bytes([head[8], head[9]]);
        let len = u16::from_le_bytes([head[10], head[11]]) as usize;
        let bytes = tail[..len].to_vec();
        rest = &tail[len..];
        let mut decoder = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE);
        let offsets = (0..n).map(|_| (decoder.decode().ip() - address) as u16).collect();
        blocks.push(TruthBlock { address, bytes, offsets });
    }
    Rc::new(blocks)
}

/// One entry of a core's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruthEntry {
    /// The first `n` instructions of block `id` retired.
    Retired { id: u32, n: u32 },
    /// This thread entered the core.
    SwitchIn(u32),
    /// The thread left the core; stream position after its last byte.
    SwitchOut(u64),
    /// Packets are lost from this point on.
    Lost,
    /// Packets are sent again from this stream position on.
    Recovered(u64),
    /// A PSB+ follows at this stream position.
    Psb(u64),
    /// Output stopped at this stream position.
    Truncated(u64),
}

/// The record of core `core`.
pub fn read_core(directory: &Path, core: usize) -> Rc<Vec<TruthEntry>> {
    let data = std::fs::read(directory.join(format!("core{core}"))).unwrap();
    let words: Vec<u32> = data.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    let mut entries = Vec::new();
    let mut i = 0;
    let wide = |i: usize| u64::from(words[i + 1]) | u64::from(words[i + 2]) << 32;
    while i < words.len() {
        let (entry, len) = match words[i] {
            id if id < FIRST_MARKER => (TruthEntry::Retired { id, n: words[i + 1] }, 2),
            SWITCH_IN => (TruthEntry::SwitchIn(words[i + 1]), 2),
            SWITCH_OUT => (TruthEntry::SwitchOut(wide(i)), 3),
            LOST => (TruthEntry::Lost, 1),
            RECOVERED => (TruthEntry::Recovered(wide(i)), 3),
            PSB => (TruthEntry::Psb(wide(i)), 3),
            TRUNCATED => (TruthEntry::Truncated(wide(i)), 3),
            other => panic!("unknown word {other:#x} at {i}"),
        };
        entries.push(entry);
        i += len;
    }
    Rc::new(entries)
}
