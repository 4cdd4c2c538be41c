// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arbitrary code, changes and trace: no panic, bounded work.
#![no_main]

use jportal::units::{Address, AddressRange, CodeId, StreamOffset, Tid, Tsc};
use jportal_machine_flow::{CodeHistory, Config, CoreDecoder, Patch, PopRule, Progress, Stretch};
use libfuzzer_sys::fuzz_target;

const LOW: u64 = 0x1_0000;

const KINDS: [Patch; 3] = [Patch::Call, Patch::PatchStub, Patch::Other];

fuzz_target!(|input: (Vec<u8>, Vec<(u16, u16, Vec<u8>)>, Vec<u8>, u8)| {
    let (code, changes, trace, flags) = input;
    let mut history = CodeHistory::new(AddressRange::at(Address(LOW), 0x1_0000)).unwrap();
    let code = &code[..code.len().min(0x1_0000)];
    history.install(Tsc(1), Address(LOW), code, CodeId(1)).unwrap();
    for (i, (time, at, bytes)) in changes.iter().enumerate() {
        let (time, at) = (Tsc((*time).into()), Address(LOW + u64::from(*at)));
        let since = (flags & 32 != 0).then_some(Tsc(time.0.saturating_sub(u64::from(flags))));
        // Ranges outside the code cache are refused; that is part of the test.
        let _ = match i % 3 {
            0 => history.patch(time, since, at, bytes, (flags & 16 != 0).then_some(Tid(1)), KINDS[i / 3 % 3]),
            1 => history.install(time, at, bytes, CodeId(2 + i as u32)),
            _ => history.free(time, at, bytes.len() as u64),
        };
    }
    let config = Config {
        return_compression: [None, Some(PopRule::Always), Some(PopRule::Compressed)][usize::from(flags % 3)],
        deferred_tips: flags & 4 != 0,
        ..Config::default()
    };
    let mut decoder = CoreDecoder::new(config, &history);
    let mut out = Vec::new();
    let mut at = 0;
    for piece in trace.chunks(1 + usize::from(flags >> 3) * 16) {
        decoder.push(StreamOffset(at), piece);
        at += piece.len() as u64;
        let stretch = Stretch {
            until: StreamOffset(at),
            since: Tsc(0),
            latest: Tsc(u64::MAX),
            tid: Tid(1),
            left: Tsc(0),
            continues: flags & 8 != 0,
        };
        while decoder.decode(stretch, &history, &mut out) == Progress::More {
            out.clear();
        }
        out.clear();
    }
    decoder.finish(&mut out);
});
