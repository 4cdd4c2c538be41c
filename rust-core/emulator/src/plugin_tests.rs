// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::config::Timing;

/// `nop; jmp` to the next instruction, and `ret`.
const CODE: &[u8] = &[0x90, 0xeb, 0x00, 0xc3];

/// Uses code of this process as the code of a guest whose memory lies at the same addresses.
struct PluginRig {
    plugin: Plugin,
    code: Box<[u8]>,
    _dir: tempfile::TempDir,
}

fn rig() -> PluginRig {
    let dir = tempfile::tempdir().unwrap();
    let code: Box<[u8]> = CODE.into();
    let low = code.as_ptr() as u64;
    let config = Config {
        shm: dir.path().join("rings"),
        cores: 1,
        aux: 8192,
        data: 4096,
        timing: Timing::Tsc,
        range: Some((low, low + code.len() as u64)),
        ..Config::default()
    };
    PluginRig { plugin: Plugin::new(config).unwrap(), code, _dir: dir }
}

impl PluginRig {
    fn address(&self, at: usize) -> u64 {
        self.code.as_ptr() as u64 + at as u64
    }

    fn translate(&self, instructions: &[(usize, usize)]) -> &'static Block {
        let list: Vec<_> = instructions
            .iter()
            .map(|&(at, end)| InsnBytes { address: self.address(at), bytes: &self.code[at..end] })
            .collect();
        match self.plugin.translate(&list).0 {
            Hook::Inside(block) => block,
            other => panic!("{other:?}"),
        }
    }

    /// Number of blocks reported as stale, and of entries into the range.
    fn told(&self) -> (u64, u64) {
        let (mut stale, mut entries) = (0, 0);
        self.plugin.scheduler.stop_all(|_, core| {
            stale += core.counts().stale;
            entries += core.sent().pge;
        });
        (stale, entries)
    }
}

/// A write drops the blocks of a page, but a thread inside one of them still continues to the
/// next.
#[test]
fn a_block_that_was_replaced_after_a_running_one_is_reported() {
    let mut r = rig();
    let (first, second) = (r.translate(&[(0, 1), (1, 3)]), r.translate(&[(3, 4)]));
    let run = |r: &PluginRig| {
        // SAFETY: one thread is vCPU 0, and no callback is under way.
        unsafe {
            r.plugin.inside(0, first);
            r.plugin.inside(0, second);
            r.plugin.outside(0, 0x10);
        }
    };
    run(&r);
    assert_eq!(r.told(), (0, 1));
    r.code[3] = 0xcc;
    run(&r);
    assert_eq!(r.told(), (1, 3), "the second, which is entered anew");
    r.code[0] = 0xcc;
    run(&r);
    assert_eq!(r.told(), (3, 5), "and both");
}
