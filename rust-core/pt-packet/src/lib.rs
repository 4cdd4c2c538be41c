// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Intel Processor Trace packets: decoding, encoding, last-IP reconstruction and PSB search.
//!
//! Purpose: turn the bytes of one core's trace into [`Packet`]s and back, quickly and without
//! loss: `decode(encode(p)) == p` for every packet of the SDM.
//! Constraints: no I/O, no allocation while decoding, no knowledge of code or of the JVM, no
//! `unsafe`, no panic on any input.
//! Non-goals: following control flow (`jportal-machine-flow`), choosing when a PT unit emits a
//! packet (the emulated unit does that on top of [`Encoder`]).
//!
//! *SDM* in this crate's comments means Intel 64 and IA-32 Architectures Software Developer's
//! Manual, volume 3, chapter "Intel Processor Trace", section "Trace Packets and Data Types";
//! packets are cited by the names of its packet definition tables.
//!
//! ```
//! use jportal_pt_packet::{Encoder, LastIp, Packet, PacketDecoder};
//!
//! let mut encoder = Encoder::new();
//! encoder.tip_pge(0x7f00_1234_5678);
//! encoder.tnt(0b10, 2); // oldest branch taken, the next one not
//! encoder.tip(0x7f00_1234_9abc); // only two bytes of address: the rest equals the last IP
//!
//! let mut last_ip = LastIp::default();
//! let mut decoder = PacketDecoder::new(encoder.bytes());
//! while let Some((offset, packet)) = decoder.next_packet()? {
//!     if let Packet::TipPge(ip) | Packet::Tip(ip) = packet {
//!         println!("{offset}: {packet} goes to {:x?}", last_ip.update(ip));
//!     }
//! }
//! # Ok::<(), jportal_pt_packet::Error>(())
//! ```
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error;
mod ip;
mod packet;
mod sync;
mod tsc;

pub use decode::{HEAD, PacketDecoder, decode_packet, hot_tip, hot_tnt};
pub use encode::Encoder;
pub use error::Error;
pub use ip::{IpCompression, IpPayload, LastIp};
pub use packet::{BlockItemSize, CodeSize, Packet, Tnt, wake_reason};
pub use sync::{PSB, find_psb, find_psbs};
pub use tsc::nearest_tsc;
