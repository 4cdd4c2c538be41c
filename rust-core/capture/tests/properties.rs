// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Properties of the record codec and of the metadata stream, on generated input.

mod common;

use jportal_capture::chunk::{self, Head, Kind};
use jportal_capture::codec::{Bytes, Source, Str, Wire};
use jportal_capture::schema::{
    ExceptionEntry, InvokeTarget, LineEntry, MethodDefined, NMethodInstalled, PcDescriptor, PoolConstant,
    SCHEMA, Scope,
};
use jportal_capture::{
    CaptureReader, CaptureWriter, EndReason, Header, Record, Stamped, decode_frame, encode_frame,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Str> {
    vec(any::<u8>(), 0..40).prop_map(|b| Str(b.into()))
}
fn code() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..200).prop_map(|b| Bytes(b.into()))
}

prop_compose! {
    fn method()(
        (method, klass, intrinsic, access_flags) in any::<(u64, u64, u16, u32)>(),
        (name, signature, code) in (text(), text(), code()),
        exceptions in vec((any::<(u16, u16, u16)>(), text()), 0..4),
        lines in vec(any::<(u16, u16)>(), 0..10),
        invokes in vec((any::<u16>(), text(), text(), text()), 0..4),
        constants in vec((any::<(u16, u8)>(), text(), text(), text()), 0..4),
    ) -> MethodDefined {
        MethodDefined {
            method, klass, intrinsic, access_flags, name, signature, code,
            exceptions: exceptions.into_iter().map(|((start_bci, end_bci, handler_bci), catch_type)|
                ExceptionEntry { start_bci, end_bci, handler_bci, catch_type }).collect(),
            lines: lines.into_iter().map(|(bci, line)| LineEntry { bci, line }).collect(),
            invokes: invokes.into_iter().map(|(bci, class_name, name, signature)|
                InvokeTarget { bci, class_name, name, signature }).collect(),
            constants: Some(constants.into_iter().map(|((index, tag), class_name, name, signature)|
                PoolConstant { index, tag, class_name, name, signature }).collect()),
            ..MethodDefined::default()
        }
    }
}
prop_compose! {
    fn nmethod()(
        (start, method, nmethod, compile_id) in any::<(u64, u64, u64, u32)>(),
        osr_bci in any::<i32>(),
        code in code(),
        scopes in vec(any::<(u32, u64, i32)>(), 0..8),
        pcs in vec(any::<(u32, u32, u8)>(), 0..8),
    ) -> NMethodInstalled {
        NMethodInstalled {
            start, method, nmethod, compile_id, osr_bci, code,
            scopes: scopes.into_iter().map(|(parent, method, bci)| Scope { parent, method, bci }).collect(),
            pc_descs: pcs.into_iter()
                .map(|(pc_offset, scope, flags)| PcDescriptor { pc_offset, scope, flags }).collect(),
            ..NMethodInstalled::default()
        }
    }
}
fn record() -> impl Strategy<Value = Record> {
    prop_oneof![method().prop_map(Record::MethodDefined), nmethod().prop_map(Record::NMethodInstalled),]
}

proptest! {
    #[test]
    fn any_text_in_modified_utf_8_is_read(text in any::<String>()) {
        let s = Str(simd_cesu8::mutf8::encode(&text).into());
        prop_assert_eq!(s.text(), text);
    }

    #[test]
    fn any_bytes_have_a_text(s in text()) {
        prop_assert!(s.text().chars().count() <= s.0.len());
    }

    #[test]
    fn records_survive_the_round_trip(record in record(), tsc: u64) {
        let stamped = Stamped { tsc, record };
        let mut bytes = Vec::new();
        encode_frame(&stamped, &mut bytes);
        prop_assert_eq!(decode_frame(&bytes, 0).unwrap(), Some((stamped, bytes.len())));
    }

    #[test]
    fn a_shortened_body_is_an_error_and_a_longer_one_is_not(record in record(), cut: prop::sample::Index) {
        let mut body = Vec::new();
        record.encode(&mut body);
        let shortened = &body[..cut.index(body.len())];
        if let Ok(older) = Record::decode(record.kind(), shortened) {
            let without = matches!(&older, Record::MethodDefined(MethodDefined { constants: None, .. }));
            let mut again = Vec::new();
            older.encode(&mut again);
            prop_assert!(without && again == shortened, "only a body of an older version is whole");
        }
        body.extend_from_slice(b"fields of a later version");
        prop_assert_eq!(Record::decode(record.kind(), &body).unwrap(), record);
    }

    #[test]
    fn any_bytes_decode_or_fail_cleanly(kind in 0u16..40, body in vec(any::<u8>(), 0..300)) {
        if let Ok(record) = Record::decode(kind, &body) {
            let mut again = Vec::new();
            record.encode(&mut again);
            prop_assert!(body.starts_with(&again));
        }
        let _ = Header::decode(&mut Source::new(&body));
    }

    #[test]
    fn any_division_of_the_stream_gives_the_same_records(
        records in vec(record(), 1..6),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stamped: Vec<Stamped> =
            (0..).zip(records).map(|(tsc, record)| Stamped { tsc, record }).collect();
        let mut stream = Vec::new();
        stamped.iter().for_each(|s| encode_frame(s, &mut stream));
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut w = CaptureWriter::create(&path).unwrap();
        w.header(&common::header()).unwrap();
        for c in cuts.windows(2) {
            w.metadata(&stream[c[0]..c[1]]).unwrap();
        }
        w.finish(EndReason::Exit, "", Vec::new()).unwrap();
        let r = CaptureReader::open(&path).unwrap();
        let read: Result<Vec<_>, _> = r.metadata().collect();
        prop_assert_eq!(read.unwrap(), stamped);
    }
}

proptest! {
    /// Whole chunks with sound checksums and any content, as a faulty writer could leave them.
    #[test]
    fn any_chunks_are_read_without_a_panic(
        chunks in vec((0u16..10, prop_oneof![0u32..4, any::<u32>()], prop_oneof![0u64..500, any::<u64>()],
                       vec(any::<u8>(), 0..120)), 0..20),
        tail in vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = chunk::preamble().to_vec();
        let mut header = Vec::new();
        common::header().encode(&mut header);
        let first = (1, 0, 0, header);
        let count = chunks.len() + 1;
        for (kind, aux, offset, payload) in std::iter::once(first).chain(chunks) {
            bytes.extend(Head::of(Kind::of(kind), aux, offset, &payload).to_bytes());
            bytes.extend(payload);
        }
        let whole = bytes.len() as u64;
        bytes.extend(&tail);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, &bytes).unwrap();
        let r = CaptureReader::open(&path).unwrap();
        let c = r.completeness();
        prop_assert_eq!(c.torn.map(|t| (t.place, t.bytes)), (!tail.is_empty()).then_some((whole, tail.len() as u64)));
        prop_assert!(c.damaged.len() + (c.unknown_chunks as usize) < count);
        prop_assert!(r.check().is_empty(), "checksums are sound");
        prop_assert!(r.metadata().count() <= bytes.len());
        for core in r.cores() {
            prop_assert!(r.pt(core).windows(2).all(|w| w[0].end() <= w[1].offset));
            prop_assert_eq!(r.sideband_bytes(core).count(), r.sideband(core).len());
        }
        // Reopening the file succeeds or returns an error; it does not panic.
        let _ = CaptureWriter::reopen(&path);
    }
}

#[test]
fn every_kind_refuses_an_empty_body() {
    for s in SCHEMA {
        if let Some(kind) = s.kind {
            assert!(Record::decode(kind, &[]).is_err(), "{}", s.name);
        }
    }
}
