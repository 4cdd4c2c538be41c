// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The bytes of block traces, their limits, and files that are damaged or cannot be written.

use std::io::{self, Write};
use std::sync::Arc;

use jportal_analyses::Inlined;
use jportal_analyses::select::is_application;
use jportal_bytecode::{Method, MethodTable, testing::method};
use jportal_flow::testing::{feed, thread};
use jportal_flow::{Analysis, Event, ThreadInfo};
use jportal_units::MethodId;

use super::example::{F, flow, methods};
use super::tests::{read, written};
use super::*;
use crate::Error;

#[test]
fn words_are_those_of_the_paper() {
    let (file, _) = written(methods(), BlockTraceOptions::default(), is_application, &flow(true));
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(file[..8], *b"JPBLOCKS");
    // 48 bytes, and the name `t1` with six zeros.
    assert_eq!(word(56), 1 << 30, "start of method 0");
    assert_eq!(word(60), 3 << 30, "its block 0");
    let f = (56..).step_by(4).find(|at| word(*at) == 1 << 30 | F << 11 | 1).unwrap();
    assert_eq!(word(f + 4), 1 << 31 | 7, "the declaring class");
    assert_eq!(word(f + 12), 3 << 30 | F << 11 | 1);
    // The example of the paper.
    assert_eq!(Format::Jbi32.id(MethodId(2488), 16), 5_095_440);
    assert_eq!(Format::Jbi64.id(MethodId(3), 16), 3 << 31 | 16);
}

#[test]
fn both_forms_and_zlib_hold_the_same_events() {
    // 2.8 MiB of words.
    let rounds: Vec<Event> = (0..800).flat_map(|_| flow(true)).collect();
    let plain = written(methods(), BlockTraceOptions::default(), |_| true, &rounds).0;
    let expected = read(&plain);
    for (format, zlib) in [(Format::Jbi64, false), (Format::Jbi32, true), (Format::Jbi64, true)] {
        let options = BlockTraceOptions { format, zlib, ..BlockTraceOptions::default() };
        let (file, _) = written(methods(), options, |_| true, &rounds);
        assert_eq!(read(&file), expected, "{format:?} {zlib}");
        if zlib {
            assert!(10 * file.len() < plain.len());
            assert_eq!(file[60..64], (1u32 << 20).to_le_bytes(), "bytes of the first stream");
        }
    }
}

#[test]
fn there_must_be_room_for_all_methods_and_blocks() {
    let code: Vec<u8> = [167, 0, 3].repeat(2048).into_iter().chain([177]).collect();
    let mut t = MethodTable::default();
    t.push(method("fits", &code[3..]));
    t.push(method("large", &code));
    assert!(Format::Jbi32.check(&t, |m| &*m.name == "fits").is_ok());
    let refused = Format::Jbi32.check(&t, |_| true).unwrap_err();
    assert!(matches!(&refused, Error::TooManyBlocks { blocks: 2049, .. }));
    let text = refused.to_string();
    assert!(text.contains("a.A.large()V") && text.contains("jbi64"), "{text}");
    assert!(Format::Jbi64.check(&t, |_| true).is_ok());
    let mut many = MethodTable::default();
    for _ in 0..1 << 19 {
        many.push(Method::default());
    }
    assert!(Format::Jbi32.check(&many, |_| true).is_ok());
    many.push(method("last", &[177]));
    let text = Format::Jbi32.check(&many, |_| false).unwrap_err().to_string();
    assert!(text.contains("524288, a.A.last()V") && text.contains("jbi64"), "{text}");
    assert!(Format::Jbi64.check(&many, |_| true).is_ok());
}

#[test]
fn files_that_are_cut_or_damaged() {
    let (file, _) = written(
        methods(),
        BlockTraceOptions { unwinds: true, ..BlockTraceOptions::default() },
        |_| true,
        &flow(true),
    );
    let last = |file: &[u8]| Reader::new(file).unwrap().last().unwrap();
    assert!(last(&file).is_ok());
    for cut in [56, 57, 60, file.len() - 12, file.len() - 4, file.len() - 1] {
        assert!(matches!(last(&file[..cut]), Err(ReadError::Cut { .. })), "{cut}");
    }
    assert!(matches!(Reader::new(&file[..20]), Err(ReadError::Header)));
    let mut other = file.clone();
    other[8] = 9;
    assert!(matches!(Reader::new(&other[..]), Err(ReadError::Header)));
    let mut other = file.clone();
    let at = other.len() - 8;
    other[at] ^= 1;
    assert!(matches!(last(&other), Err(ReadError::Damaged { .. })), "the number of words");
    let zlib = BlockTraceOptions { zlib: true, ..BlockTraceOptions::default() };
    let (packed, _) = written(methods(), zlib, |_| true, &flow(true));
    let mut rng = fastrand::Rng::with_seed(7);
    for file in [&file, &packed] {
        for _ in 0..2000 {
            let mut other = file.clone();
            let (at, to) = (rng.usize(..other.len()), rng.u8(..));
            other[at] = to;
            if let Ok(reader) = Reader::new(&other[..]) {
                assert!(reader.count() > 0);
            }
        }
    }
}

#[test]
fn an_output_that_fails_is_reported() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The header fits.
            if bytes.len() == 56 { Ok(56) } else { Err(io::Error::other("no space left")) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let open = |info: &ThreadInfo| -> io::Result<Output> {
        if info.tid.get() == 1 { Ok(Box::new(Full)) } else { Ok(Box::new(io::sink())) }
    };
    let new = || {
        let inlined = Arc::new(Inlined::default());
        BlockTraceAnalysis::new(methods(), inlined, BlockTraceOptions::default(), |_| true, open).unwrap()
    };
    let mut trace = new();
    feed(&mut trace, 1, &flow(true));
    assert_eq!(trace.finish().unwrap_err().to_string(), "cannot write the output: no space left");
    let mut trace = new();
    feed(&mut trace, 2, &flow(true));
    let mut early = trace.begin(&thread(3));
    assert!(trace.events(&mut early, &[]).is_continue());
    trace.merge(early);
    assert_eq!(trace.finish().unwrap().threads.iter().map(|t| t.tid).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn the_table_of_methods() {
    let mut out = Vec::new();
    write_methods(&methods(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "method,class_id,loader,class,name,descriptor,flags,blocks");
    assert_eq!(lines[3], "2,7,app,Foo,f,()V,0,0 2 8 23");
    assert_eq!(lines.len(), 7);
}
