// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use jportal_capture::{CaptureWriter, Header};
use jportal_pt_packet::Encoder;

/// Offset, number of bytes, whether it is a packet, whether it follows a loss, whether it is
/// cut off.
type Seen = (u64, usize, bool, bool, bool);

/// The units of a core whose pieces begin at these offsets.
fn read(pieces: &[(u64, &[u8])], losses: &[u64]) -> Vec<Seen> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jportal");
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.header(&Header::default()).unwrap();
    for (offset, bytes) in pieces {
        writer.pt(Core(0), StreamOffset(*offset), bytes).unwrap();
    }
    let reader = CaptureReader::open(&path).unwrap();
    let mut all = Vec::new();
    for_each(&reader, Core(0), losses, |u| {
        all.push((u.offset, u.bytes.len(), u.packet.is_some(), u.after_loss, u.is_cut_off));
        Ok(())
    })
    .unwrap();
    all
}

fn trace() -> Vec<u8> {
    let mut e = Encoder::new();
    e.psb();
    e.tsc(7);
    e.tip_pge(0x40_1234_5678);
    e.take()
}

#[test]
fn pieces_may_end_inside_packets() {
    let bytes = trace();
    let whole = read(&[(0, &bytes)], &[]);
    assert_eq!(
        whole,
        [(0, 16, true, false, false), (16, 8, true, false, false), (24, 7, true, false, false)]
    );
    for cut in 1..bytes.len() {
        assert_eq!(read(&[(0, &bytes[..cut]), (cut as u64, &bytes[cut..])], &[]), whole, "{cut}");
    }
}

#[test]
fn a_packet_that_a_loss_cut_is_not_read_on_after_it() {
    let mut bytes = trace()[..20].to_vec();
    bytes.extend(trace());
    let want = [(0, 16, true, false, false), (16, 4, false, false, true), (20, 16, true, true, false)];
    assert_eq!(read(&[(0, &bytes)], &[20])[..3], want);
    assert_eq!(read(&[(0, &bytes[..20]), (20, &bytes[20..])], &[20])[..3], want);
    assert_eq!(read(&[(0, &bytes[..18]), (18, &bytes[18..])], &[20])[..3], want);
    // A loss between two packets cuts no packet.
    let bytes = [trace(), trace()].concat();
    let seen = read(&[(0, &bytes)], &[31]);
    assert_eq!((seen.len(), seen[3]), (6, (31, 16, true, true, false)));
}

#[test]
fn missing_bytes_are_a_loss_and_what_cannot_be_read_ends_at_a_psb() {
    let seen = read(&[(0, &trace()), (100, &trace())], &[]);
    assert_eq!((seen.len(), seen[3]), (6, (100, 16, true, true, false)));
    let bytes = [&trace()[..], &[0x02, 0x00, 9, 9, 9], &trace()].concat();
    let seen = read(&[(0, &bytes)], &[]);
    assert!(seen[3..].iter().take_while(|s| s.0 < 36).all(|s| !s.2), "{seen:?}");
    assert!(seen.contains(&(36, 16, true, false, false)), "{seen:?}");
}
