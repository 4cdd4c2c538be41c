// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Up to which point a recording that was cut off can be decoded.
//!
//! Trace and metadata reach the file independently. When the disk is full, or the file is cut
//! off, the trace may reach further than the metadata. Installed code and patched calls of that
//! time are then unknown, and the trace would be decoded with outdated code. So trace is
//! decoded only up to the time up to which all metadata is known to be present.

use crate::error::Error;
use crate::stretches::Stretch;
use jportal_capture::{CaptureReader, EndReason};
use jportal_pt_packet::{Packet, PacketDecoder, find_psbs, nearest_tsc};
use jportal_units::{Core, StreamOffset, Tsc};

/// The time up to which all metadata is present. `None`: all metadata is present. `latest`:
/// time of the last record.
pub(crate) fn described_until(reader: &CaptureReader, latest: Tsc) -> Option<Tsc> {
    let end = reader.completeness().end.as_ref();
    let is_whole = match end.map(|end| end.reason) {
        Some(EndReason::Exit | EndReason::Stopped) => true,
        // A recovery takes the records that were not written from the ring, unless the machine
        // went down as well.
        Some(EndReason::Recovered) => !end.is_some_and(|end| {
            end.counters.iter().any(|c| c.name.text() == "missing_metadata_bytes" && c.value > 0)
        }),
        _ => false,
    };
    // Records are in order of time.
    let until = reader.described().max(Some(latest)).unwrap_or_default();
    (!is_whole && until.0 != u64::MAX).then_some(until)
}

/// The first byte of the trace of `core` that may be later than `until`; `None` if all trace is
/// earlier.
pub(crate) fn decodable(
    reader: &CaptureReader,
    core: Core,
    stretches: &[Stretch],
    until: Tsc,
) -> Result<Option<StreamOffset>, Error> {
    let first = stretches.iter().find(|s| s.closed > until && s.from < s.to).map(|s| s.from);
    // Trace that no sideband record assigns to a thread is not decoded anyway.
    let Some(first) = first else { return Ok(None) };
    let mut end = first;
    let mut bytes = Vec::new();
    for piece in reader.pt(core).iter().filter(|p| p.end() > first.0) {
        match reader.read_into(piece, &mut bytes) {
            Ok(()) => {}
            Err(e @ jportal_capture::Error::Read { .. }) => return Err(e.into()),
            Err(_) => continue,
        }
        // A PSB+ that is split between two pieces is skipped: the previous one suffices.
        for psb in find_psbs(&bytes) {
            let Some(time) = time_at(&bytes[psb..], until) else { continue };
            let at = StreamOffset(piece.offset + psb as u64);
            if time > until {
                return Ok(Some(end));
            }
            end = end.max(at);
        }
    }
    Ok(Some(end))
}

/// The time that the PSB+ at the start of `bytes` carries. `near`: a time close to it.
fn time_at(bytes: &[u8], near: Tsc) -> Option<Tsc> {
    let mut packets = PacketDecoder::new(bytes);
    loop {
        match packets.next_packet().ok()??.1 {
            Packet::Tsc(low) => return Some(Tsc(nearest_tsc(low, near.0))),
            Packet::PsbEnd => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stretch;
    use jportal_capture::schema::{MethodFreed, Record, Stamped};
    use jportal_capture::{CaptureWriter, Counter, Header, encode_frame};
    use jportal_pt_packet::Encoder;

    /// A capture with a record at time 1000 and a PSB at each hundred from 100 to 2000. Also
    /// returns the offsets of the PSBs.
    fn capture(change: impl FnOnce(CaptureWriter)) -> (tempfile::TempDir, CaptureReader, Vec<u64>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut w = CaptureWriter::create(&path).unwrap();
        w.header(&Header::default()).unwrap();
        let record = Record::MethodFreed(MethodFreed { method: 1 });
        let mut frame = Vec::new();
        encode_frame(&Stamped { tsc: 1000, record }, &mut frame);
        w.metadata(&frame).unwrap();
        let (mut out, mut places) = (Encoder::new(), Vec::new());
        for time in 1..=20 {
            places.push(out.len() as u64);
            out.psb();
            out.tsc(100 * time);
            out.psbend();
            out.tip(0x1234);
        }
        w.pt(Core(0), StreamOffset(0), out.bytes()).unwrap();
        change(w);
        let reader = CaptureReader::open(&path).unwrap();
        (dir, reader, places)
    }

    #[test]
    fn the_last_word_on_metadata_counts() {
        let until = |change: fn(CaptureWriter)| {
            let (_dir, reader, _) = capture(change);
            described_until(&reader, Tsc(1000)).map(|t| t.0)
        };
        let end = |w: CaptureWriter, reason, counters| {
            w.finish(reason, "", counters).unwrap();
        };
        assert_eq!(until(drop), Some(1000));
        assert_eq!(until(|mut w| w.described(Tsc(1500)).unwrap()), Some(1500));
        assert_eq!(until(|mut w| w.described(Tsc(500)).unwrap()), Some(1000));
        assert_eq!(until(|mut w| w.described(Tsc(u64::MAX)).unwrap()), None);
        let finish = |reason| {
            let (_dir, reader, _) = capture(|w| end(w, reason, Vec::new()));
            described_until(&reader, Tsc(1000)).map(|t| t.0)
        };
        assert_eq!(finish(EndReason::Exit), None);
        assert_eq!(finish(EndReason::Stopped), None);
        assert_eq!(finish(EndReason::Recovered), None);
        assert_eq!(finish(EndReason::Failed), Some(1000));
        let missing = || vec![Counter { name: "missing_metadata_bytes".into(), value: 7 }];
        let (_dir, reader, _) = capture(|w| end(w, EndReason::Recovered, missing()));
        assert_eq!(described_until(&reader, Tsc(1000)), Some(Tsc(1000)));
    }

    #[test]
    fn trace_is_decoded_up_to_the_last_place_that_is_not_later() {
        let (_dir, reader, places) = capture(drop);
        let len = reader.pt_bytes(Core(0));
        let end = |stretches: &[Stretch], until| {
            decodable(&reader, Core(0), stretches, Tsc(until)).unwrap().map(|end| end.0)
        };
        let one = [stretch(1, 0, len, 2050)];
        assert_eq!(end(&one, 1234), Some(places[11]));
        assert_eq!(end(&one, 2040), Some(places[19]));
        assert_eq!(end(&one, 2050), None);
        // Nothing in the stretch is known to be early enough.
        assert_eq!(end(&one, 50), Some(0));
        let two = [stretch(1, 0, places[10], 1050), stretch(1, places[10], len, 2050)];
        assert_eq!(end(&two, 1060), Some(places[10]));
        assert_eq!(end(&two, 1340), Some(places[12]));
    }
}
