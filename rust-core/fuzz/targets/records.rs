// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as framed metadata records: decoding never panics, and a decoded record is the same
//! when it is encoded and decoded again.
#![no_main]

use jportal::file::{Error, decode_frame, encode_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut at = 0;
    while let Some(rest) = data.get(at..) {
        match decode_frame(rest, at as u64) {
            Ok(Some((stamped, len))) => {
                let mut frame = Vec::new();
                encode_frame(&stamped, &mut frame);
                let again = decode_frame(&frame, 0).unwrap().unwrap();
                assert_eq!(again, (stamped, frame.len()));
                at += len;
            }
            Err(Error::Record { .. }) => {
                at += u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            }
            _ => break,
        }
    }
});
