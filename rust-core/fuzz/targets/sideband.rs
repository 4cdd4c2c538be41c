// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as records of a data ring: no panic, and a decoded record is the same when it is
//! encoded and decoded again.
#![no_main]

use jportal_perf_abi::RecordReader;
use jportal_perf_abi::record::map_times;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for record in RecordReader::new(data).flatten() {
        let bytes = record.to_bytes();
        let again = RecordReader::new(&bytes).next().unwrap().unwrap();
        assert_eq!(again.to_bytes(), bytes);
        assert_eq!(again.sample, record.sample);
    }
    let mut copy = data.to_vec();
    map_times(&mut copy, |time| time.wrapping_mul(3));
    assert_eq!(RecordReader::new(&copy).count(), RecordReader::new(data).count());
});
