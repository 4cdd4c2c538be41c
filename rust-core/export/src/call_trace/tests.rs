// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use jportal_analyses::call_trace::{CallTraceAnalysis, Mark, Sites, Token, TraceSink};
use jportal_analyses::names::Naming;
use jportal_analyses::select::is_application;
use jportal_bytecode::testing::{calls, method};
use jportal_bytecode::{LineRow, Method, MethodTable};
use jportal_flow::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, thread};
use jportal_flow::{Entry, Event, EventKind, Exit, ThreadInfo};
use jportal_units::{Bci, Tsc};

use super::*;

/// A stream whose bytes the test keeps.
#[derive(Clone, Default)]
struct TokenBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for TokenBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `main`: 0 invokestatic `f`; 3 return. `f`: 0 athrow.
fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    let invokes = Box::new([calls(0, "a/A", "f")]);
    let lines = Box::new([LineRow { bci: Bci(0), line: 7 }, LineRow { bci: Bci(3), line: 8 }]);
    t.push(Method { invokes, lines, ..method("main", &[184, 0, 1, 177]) });
    t.push(method("f\nforged\t1", &[191]));
    Arc::new(t)
}

fn flow() -> Vec<Event> {
    let mut events = vec![enter_as(0, Entry::Upcall)];
    for _ in 0..3 {
        events.extend([bytecode(0, 0), enter(1), bytecode(1, 0), leave_as(1, Exit::Unwind)]);
    }
    events.extend([bytecode(0, 3), leave(0)]);
    events
}

fn written(deflate: bool) -> (Vec<u8>, Vec<u8>) {
    let sites = Arc::new(Sites::new(methods(), Naming::default(), is_application).unwrap());
    let out = TokenBuffer::default();
    let to = out.clone();
    let open = move |info: &ThreadInfo| {
        let writer = TraceWriter::new(to.clone(), info, deflate, false)?;
        Ok(Some(Box::new(writer) as Box<dyn TraceSink>))
    };
    let mut analysis = CallTraceAnalysis::new(Arc::clone(&sites), Arc::default(), open);
    feed(&mut analysis, 9, &flow());
    assert!(analysis.error().is_none() && analysis.report().exact);
    let mut table = Vec::new();
    write_sites(&sites, &mut table).unwrap();
    let bytes = out.0.lock().unwrap().clone();
    (bytes, table)
}

#[test]
fn the_bytes_of_a_trace() {
    let (bytes, table) = written(false);
    // f: exit 0. main: call 1, return 2, exit 3.
    let words = [1, 9, 0, 0x9020_0000, 3, 1, 0, 1, 0, 1, 0, 2, 0x80e0_0001_u32];
    let body: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(bytes, [&b"JPCT"[..], &body].concat());
    let table = String::from_utf8(table).unwrap();
    assert_eq!(
        table,
        "id\tkind\tclass\tloader\tmethod\tdescriptor\tbci\tline\topcode\ttargets\tversion\n\
         0\texit\ta.A\tapp\tf\\nforged\\t1\t()V\t\t\t\t\t\n\
         1\tcall\ta.A\tapp\tmain\t()V\t0\t7\tinvokestatic\ta.A.f()V\t\n\
         2\treturn\ta.A\tapp\tmain\t()V\t3\t8\treturn\t\t\n\
         3\texit\ta.A\tapp\tmain\t()V\t\t\t\t\t\n"
    );
}

fn read(bytes: &[u8]) -> (Vec<Token>, Option<ReadError>) {
    let mut input = bytes;
    let mut trace = match CallTrace::read(&mut input) {
        Ok(trace) => trace,
        Err(e) => return (Vec::new(), Some(e)),
    };
    let mut tokens = Vec::new();
    let mut failed = None;
    for token in &mut trace {
        assert!(failed.is_none(), "an error is the last item");
        match token {
            Ok(token) => tokens.push(token),
            Err(e) => failed = Some(e),
        }
    }
    assert!(trace.next().is_none());
    (tokens, failed)
}

#[test]
fn text_of_a_trace() {
    for deflate in [false, true] {
        let (bytes, table) = written(deflate);
        let sites = SiteTable::read(&mut &table[..]).unwrap();
        let mut input = &bytes[..];
        let trace = CallTrace::read(&mut input).unwrap();
        assert_eq!((trace.tid().get(), trace.is_deflated(), trace.has_times()), (9, deflate, false));
        let mut text = Vec::new();
        decode(trace, &sites, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "        0  entry       a.A.main()V");
        assert_eq!(lines[1], "        1  call        a.A.main()V @0 line 7 -> a.A.f()V");
        assert_eq!(lines[2], "        2  exit        a.A.f\\nforged\\t1()V");
        assert_eq!(
            lines[7..],
            ["        7  return      a.A.main()V @3 line 8", "        8  end         exact"]
        );
    }
}

/// Random tokens, longer than a zlib stream holds.
fn random() -> Vec<Token> {
    let mut rng = Rng::with_seed(3);
    let mut tokens: Vec<Token> = (0..300_000)
        .map(|_| match rng.u8(..16) {
            0 => Token::Time(rng.u64(..)),
            1 => Token::Callback { site: rng.bool().then_some(5), method: rng.u32(..9), blind: rng.bool() },
            2 => Token::Mark(Mark::Orphans),
            _ => Token::Site(rng.u32(..1 << 31)),
        })
        .collect();
    tokens.push(Token::End { exact: false });
    tokens
}

fn encoded(tokens: &[Token], deflate: bool) -> Vec<u8> {
    let out = TokenBuffer::default();
    let mut writer = TraceWriter::new(out.clone(), &thread(4), deflate, true).unwrap();
    for part in tokens.chunks(7001) {
        let mut words = Vec::new();
        part.iter().for_each(|t| t.encode(&mut words));
        writer.words(&words).unwrap();
    }
    writer.end().unwrap();
    out.0.lock().unwrap().clone()
}

#[test]
fn what_is_read_is_what_was_written() {
    let tokens = random();
    for deflate in [false, true] {
        let bytes = encoded(&tokens, deflate);
        let (found, failed) = read(&bytes);
        assert!(failed.is_none() && found == tokens, "{failed:?}");
        let (found, failed) = read(&[&bytes[..], &[0; 4]].concat());
        assert!(found == tokens && failed.is_some(), "bytes after the end");
    }
    // The tokens fill more than one stream, and streams hold at most 1 MiB.
    let bytes = encoded(&tokens, true);
    let (mut rest, mut lens) = (&bytes[16..], Vec::new());
    while !rest.is_empty() {
        let mut stream = Vec::new();
        let mut decoder = flate2::bufread::ZlibDecoder::new(&mut rest);
        decoder.read_to_end(&mut stream).unwrap();
        lens.push(stream.len());
    }
    assert!(lens.len() > 1 && lens[..lens.len() - 1].iter().all(|n| *n == CHUNK), "{lens:?}");
}

#[test]
fn a_cut_file_is_a_prefix() {
    let tokens = random();
    for deflate in [false, true] {
        let bytes = encoded(&tokens, deflate);
        for end in [16, 17, 23, bytes.len() / 3, bytes.len() - 5, bytes.len() - 1] {
            let (found, failed) = read(&bytes[..end]);
            let whole = found.len() == tokens.len();
            assert!(found == tokens[..found.len()], "{end}");
            assert!(matches!(failed, Some(ReadError::Cut { tokens: n }) if n == found.len() as u64) || whole);
            assert!(end < bytes.len() / 3 || found.len() > 1000 || deflate, "{end} {}", found.len());
        }
    }
}

#[test]
fn other_files_are_refused() {
    let error = |bytes: &[u8]| read(bytes).1.unwrap().to_string();
    let no_trace = "this is no call trace: it does not begin with JPCT";
    assert_eq!(error(b""), no_trace);
    assert_eq!(error(b"JPCT\x01\0\0"), no_trace);
    assert_eq!(error(b"JPCX\x01\0\0\0\0\0\0\0\0\0\0\0"), no_trace);
    assert!(error(b"JPCT\x02\0\0\0\0\0\0\0\0\0\0\0").contains("version 2"));
    assert!(error(b"JPCT\x01\0\0\0\0\0\0\0\x01\0\0\0no zlib stream").contains("damaged after token 0"));
    // A stream of more than 1 MiB.
    let mut bytes = b"JPCT\x01\0\0\0\0\0\0\0\x01\0\0\0".to_vec();
    let mut stream = flate2::write::ZlibEncoder::new(&mut bytes, flate2::Compression::fast());
    stream.write_all(&vec![0; CHUNK + 4]).unwrap();
    stream.finish().unwrap();
    assert!(error(&bytes).contains("more than 1048576 bytes"));
    for (table, why) in [
        ("", "no column \"id\""),
        ("id\tkind\tclass\tloader\tmethod\tdescriptor\tbci\tline\ttargets\n0\tcall\n", "a cell is missing"),
        ("id\tkind\tclass\tloader\tmethod\tdescriptor\tbci\tline\ttargets\n1\t\t\t\t\t\t\t\t\n", "not 0"),
    ] {
        let e = SiteTable::read(&mut table.as_bytes()).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    }
}

/// The table and the bytes of a run. `numbered`: the classes have other numbers, and the methods
/// another order.
fn run_of(numbered: bool, events: &[Event]) -> (SiteTable, Vec<u8>) {
    let lambda = if numbered { "a/A$$Lambda$14+0x0000000800c01208" } else { "a/A$$Lambda$9" };
    let mut methods = vec![
        Method { invokes: Box::new([calls(0, "a/A", "f")]), ..method("main", &[184, 0, 1, 177]) },
        method("f", &[177]),
        Method { class_name: lambda.into(), ..method("run", &[177]) },
    ];
    methods.iter_mut().for_each(|m| m.loader = "app".into());
    if numbered {
        methods.insert(0, Method { loader: "app".into(), ..method("aaa", &[177]) });
    }
    let mut table = MethodTable::default();
    for m in methods {
        table.push(m);
    }
    let naming = Naming { stable: true, merge_versions: false };
    let sites = Arc::new(Sites::new(Arc::new(table), naming, |_| true).unwrap());
    let out = TokenBuffer::default();
    let to = out.clone();
    let open = move |info: &ThreadInfo| {
        let writer = TraceWriter::new(to.clone(), info, numbered, numbered)?;
        Ok(Some(Box::new(writer) as Box<dyn TraceSink>))
    };
    let shift = |mut e: Event| {
        if numbered {
            match &mut e.kind {
                EventKind::Enter { method, .. }
                | EventKind::Leave { method, .. }
                | EventKind::Bytecode { method, .. } => method.0 += 1,
                _ => {}
            }
        }
        e
    };
    let mut analysis = CallTraceAnalysis::new(Arc::clone(&sites), Arc::default(), open).times(numbered);
    let time = Event::decoded(EventKind::Time(Tsc(5)));
    let events: Vec<Event> = [time].into_iter().chain(events.iter().cloned()).map(shift).collect();
    feed(&mut analysis, 9, &events);
    let bytes = out.0.lock().unwrap().clone();
    (SiteTable::of(&sites), bytes)
}

fn compared(before: &[Event], after: &[Event]) -> ComparedTraces {
    let runs = [run_of(false, before), run_of(true, after)];
    let sites = CommonSites::new([&runs[0].0, &runs[1].0]);
    let [mut a, mut b] = [&runs[0].1[..], &runs[1].1[..]];
    let traces = [CallTrace::read(&mut a).unwrap(), CallTrace::read(&mut b).unwrap()];
    compare_traces(&sites, traces, &mut |_| ()).unwrap()
}

#[test]
fn traces_of_two_runs_part_at_the_first_call_that_differs() {
    let main = |calls: &[u32]| {
        let mut events = vec![enter_as(0, Entry::Upcall)];
        for callee in calls {
            events.extend([bytecode(0, 0), enter(*callee), bytecode(*callee, 0), leave(*callee)]);
        }
        events.extend([bytecode(0, 3), leave(0)]);
        events
    };
    let same = compared(&main(&[1, 2, 1]), &main(&[1, 2, 1]));
    assert_eq!(same, ComparedTraces { same: 8, ..ComparedTraces::default() }, "entry, calls, returns");
    let parting = compared(&main(&[1, 1, 1]), &main(&[1, 2, 1])).parting.unwrap();
    assert_eq!((parting.token, parting.common.len()), (4, 4));
    assert_eq!(parting.common[3], "call a.A.main()V @0 -> a.A.f()V");
    assert_eq!(parting.before[0], "return a.A.f()V @0");
    assert_eq!(parting.after[0], "return a.A$$Lambda.run()V @0");
    assert_eq!(parting.before.len(), 4);
    let longer = compared(&main(&[1]), &main(&[1])[..5]).parting.unwrap();
    assert_eq!((longer.token, longer.before.len(), longer.after.len()), (3, 1, 0), "{longer:?}");
}

#[test]
fn a_comparison_of_traces_ends_where_tokens_may_be_missing() {
    let lost = [enter_as(0, Entry::Upcall), bytecode(0, 0), gap(true), bytecode(1, 0)];
    let whole = [enter_as(0, Entry::Upcall), bytecode(0, 0), enter(1), bytecode(1, 0), leave(1)];
    for (before, after, which) in [(&whole[..], &lost[..], "second"), (&lost[..], &whole[..], "first")] {
        let compared = compared(before, after);
        assert_eq!((compared.same, compared.parting), (2, None));
        let why = compared.stopped.unwrap();
        assert!(why.starts_with(&format!("tokens of the {which} may be missing: gap: ")), "{why}");
    }
}
