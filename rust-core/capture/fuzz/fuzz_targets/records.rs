// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as framed metadata records: decoding never panics, and a decoded record encodes to
//! a prefix of the body that it was decoded from.
#![no_main]

use jportal_capture::schema::FRAME_HEADER;
use jportal_capture::{Error, decode_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut at = 0;
    while let Some(rest) = data.get(at..) {
        match decode_frame(rest, at as u64) {
            Ok(Some((stamped, len))) => {
                let mut body = Vec::new();
                stamped.record.encode(&mut body);
                assert!(rest[FRAME_HEADER..].starts_with(&body));
                at += len;
            }
            Err(Error::Record { .. }) => {
                at += u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            }
            _ => break,
        }
    }
});
