// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as the listing of `JacocoListing.java`.
#![no_main]

use jportal::validate::jacoco::Listing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Listing::read(data);
});
