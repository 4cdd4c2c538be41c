// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes tables and reads them back.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use jportal_analyses::Inlined;
use jportal_bytecode::MethodTable;
use jportal_bytecode::testing::{BRANCHY, method};
use jportal_flow::testing::{bytecode, enter, enter_as, feed_as, gap, leave, leave_as, recovered, thread};
use jportal_flow::{Cause, Entry, Event, EventKind, Exclude, Exit, Orphan, ThreadInfo};
use jportal_units::{Bci, MethodId, Tsc};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::*;
use crate::block_trace::example::{self, Files};

type Row = BTreeMap<String, String>;

/// The rows of a file, as texts; columns without a value are left out. And its metadata.
fn read(bytes: &[u8]) -> (Vec<Row>, BTreeMap<String, String>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let text = |field: &Field| match field {
        Field::Null => None,
        Field::Str(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let row = |row: parquet::record::Row| {
        row.get_column_iter().filter_map(|(name, field)| Some((name.clone(), text(field)?))).collect()
    };
    let rows = reader.get_row_iter(None).unwrap().map(|r| row(r.unwrap())).collect();
    let metadata = reader.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let pairs = metadata.into_iter().map(|pair| (pair.key, pair.value.unwrap_or_default())).collect();
    (rows, pairs)
}

fn tables(
    methods: Arc<MethodTable>,
    options: TableOptions,
    threads: &[(ThreadInfo, Vec<Event>)],
) -> (Files, bool) {
    let files = Files::default();
    let to = files.clone();
    let open = move |p: &Partition| -> io::Result<Output> { Ok(to.create(&p.path())) };
    let mut tables = TableAnalysis::new(methods, Arc::new(Inlined::default()), options, open);
    threads.iter().for_each(|(info, events)| feed_as(&mut tables, info, events));
    let exact = tables.finish().unwrap();
    (files, exact)
}

/// Two static methods `a/A.f` and `a/A.g`: `0 iload_0; 1 ifeq 8; 4 iconst_1; 5 goto 9; 8 iconst_0;
/// 9 ireturn`.
fn small() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    t.push(method("f", BRANCHY));
    t.push(method("g", BRANCHY));
    Arc::new(t)
}

fn with_events() -> TableOptions {
    TableOptions { events: true, ..TableOptions::default() }
}

/// The columns of each row, separated by spaces; `-` for no value.
fn shown(rows: &[Row], columns: &[&str]) -> Vec<String> {
    let cell = |row: &Row, c: &str| row.get(c).cloned().unwrap_or_else(|| "-".to_owned());
    rows.iter().map(|row| columns.iter().map(|c| cell(row, c)).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn e1_has_the_counts_that_were_worked_out_by_hand() {
    for runs in [true, false] {
        let threads = [(thread(1), example::flow(runs))];
        let (files, exact) = tables(example::methods(), TableOptions::default(), &threads);
        assert!(exact);
        let names = ["blocks/thread=1-0", "calls/thread=1-0", "methods", "threads"];
        assert_eq!(files.names(), names.map(|n| format!("{n}/part-0.parquet")));
        let (blocks, metadata) = read(&files.get("blocks/thread=1-0/part-0.parquet"));
        let columns = ["method", "leader", "end", "executions", "bytecodes", "exact"];
        let expected = [
            "0 0 11 1 5 true",
            "1 0 5 1 3 true",
            "2 0 2 1 2 true",
            "2 2 8 11 33 true",
            "2 8 23 10 70 true",
            "2 23 24 1 1 true",
            "3 0 2 10 20 true",
            "3 2 7 65 195 true",
            "3 7 17 55 220 true",
            "3 17 18 10 10 true",
            "4 0 1 65 65 true",
            "5 0 1 1 1 true",
        ];
        assert_eq!(shown(&blocks, &columns), expected);
        assert_eq!(metadata["jportal.exact"], "true");
        assert_eq!(metadata["jportal.column.executions"], "exact");
        assert_eq!(metadata["jportal.thread"], "1-0");
        let (calls, _) = read(&files.get("calls/thread=1-0/part-0.parquet"));
        let columns = ["origin", "caller", "bci", "callee", "count", "exact", "missing_max"];
        let expected = [
            "java 0 4 1 1 true 0",
            "java 0 7 2 1 true 0",
            "java 1 1 5 1 true 0",
            "java 2 9 4 10 true 0",
            "java 2 14 3 10 true 0",
            "java 3 8 4 55 true 0",
            "vm - - 0 1 true 0",
        ];
        assert_eq!(shown(&calls, &columns), expected);
        let (methods, _) = read(&files.get("methods/part-0.parquet"));
        let columns = ["method", "class", "name", "descriptor", "loader", "source", "code_bytes", "version"];
        assert_eq!(shown(&methods, &columns)[3], "3 Foo g (I)V app Foo.java 18 -");
        assert_eq!(methods[5]["stable_class"], "java.lang.Object");
        let (threads, _) = read(&files.get("threads/part-0.parquet"));
        let columns = ["thread", "tid", "java_tid", "name", "started", "bytecodes", "exact", "gaps"];
        assert_eq!(shown(&threads, &columns), ["1-0 1 1 t1 - 625 true 0"]);
    }
}

#[test]
fn what_is_missing_shows_in_rows_and_metadata() {
    let (from, to, cause) = (Some(Bci(1)), Some(Bci(9)), Cause::ConditionalMove);
    let stretch = EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 };
    let f = [enter(0), bytecode(0, 0), bytecode(0, 1), Event::decoded(stretch), bytecode(0, 9), leave(0)];
    let g = [enter(1), bytecode(1, 0), recovered(bytecode(1, 4)), leave(1), bytecode(9, 2)];
    let threads = [(thread(1), f.to_vec()), (thread(2), g.to_vec())];
    let (files, exact) = tables(small(), TableOptions::default(), &threads);
    assert!(!exact);
    let (blocks, metadata) = read(&files.get("blocks/thread=1-0/part-0.parquet"));
    let columns = ["method", "leader", "executions", "executions_recovered", "bytecodes", "exact"];
    let expected = ["0 0 1 0 2 false", "0 4 0 0 0 false", "0 8 0 0 0 false", "0 9 1 0 1 false"];
    assert_eq!(shown(&blocks, &columns), expected, "blocks that may have run are there");
    assert!(metadata["jportal.column.bytecodes"].starts_with("lower bounds"));
    assert!(
        metadata["jportal.inexact"].contains("\"conditional-move\":1"),
        "{}",
        metadata["jportal.inexact"]
    );
    let (blocks, metadata) = read(&files.get("blocks/thread=2-0/part-0.parquet"));
    let expected = ["1 0 1 0 1 false", "1 4 1 1 1 false", "9 - - - 1 false"];
    assert_eq!(shown(&blocks, &columns), expected);
    assert_eq!(metadata["jportal.exact"], "false");
    let (calls, _) = read(&files.get("calls/thread=2-0/part-0.parquet"));
    let columns = ["origin", "callee", "count", "exact", "missing_min", "missing_max"];
    assert_eq!(shown(&calls, &columns), ["unknown 1 1 false 0 -"], "no limit where events were filled in");
    let (threads, _) = read(&files.get("threads/part-0.parquet"));
    let columns = ["thread", "bytecodes", "bytecodes_recovered", "exact", "unresolved"];
    assert_eq!(shown(&threads, &columns), ["1-0 3 0 false 1", "2-0 3 1 false 0"]);
}

#[test]
fn events_with_the_times_around_them() {
    let time = |t| Event::decoded(EventKind::Time(Tsc(t)));
    let orphan = Event::decoded(EventKind::Orphan(Orphan::Bytecode { opcode: 26, taken: None }));
    let run = EventKind::Run {
        method: MethodId(0),
        first: Bci(0),
        last: Bci(1),
        len: 2,
        tier: jportal_flow::Tier::C2,
    };
    let (from, to, cause) = (Some(Bci(1)), None, Cause::EmptyDiamond);
    let stretch = EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 2 };
    let catch = EventKind::Catch { method: MethodId(0), bci: Bci(8) };
    let events = [
        enter_as(0, Entry::Upcall),
        time(10),
        Event::decoded(run),
        time(20),
        recovered(bytecode(0, 4)),
        Event::decoded(stretch),
        leave_as(0, Exit::Unknown),
        time(30),
        gap(true),
        orphan,
        Event::decoded(catch),
    ];
    let (files, exact) = tables(small(), with_events(), &[(thread(1), events.to_vec())]);
    assert!(!exact);
    let (rows, metadata) = read(&files.get("events/thread=1-0/part-0.parquet"));
    let columns =
        ["number", "since", "until", "kind", "method", "bci", "last", "len", "tier", "detail", "provenance"];
    let expected = [
        "0 - 10 enter 0 - - - interpreter upcall decoded",
        "2 10 20 bytecodes 0 0 1 2 C2 - decoded",
        "5 20 30 bytecodes 0 4 4 1 interpreter - recovered",
        "6 20 30 unresolved 0 1 - - - empty-diamond decoded",
        "7 20 30 leave 0 - - - - unknown decoded",
        "9 30 - gap - - - - - truncated decoded",
        "10 30 - orphan - - - 1 - iload_0 decoded",
        "11 30 - catch 0 8 - - - - decoded",
    ];
    assert_eq!(shown(&rows, &columns), expected);
    let columns = ["callers", "lost_bytes", "stack_lost", "confidence_percent"];
    let more = shown(&rows, &columns);
    assert_eq!((&*more[2], &*more[3], &*more[5]), ("- - - 50", "2 - - -", "- 100 true -"));
    assert_eq!(metadata["jportal.table"], "events");
}

#[test]
fn events_that_were_left_out_are_counted() {
    let exclude = Exclude { recovered: true, ..Exclude::default() };
    let options = TableOptions { exclude, ..with_events() };
    let events =
        [enter(0), bytecode(0, 0), recovered(bytecode(0, 1)), recovered(bytecode(0, 8)), bytecode(0, 9)];
    let (files, exact) = tables(small(), options, &[(thread(1), events.to_vec())]);
    let (rows, _) = read(&files.get("events/thread=1-0/part-0.parquet"));
    let expected = ["0 enter -", "1 bytecodes 1", "2 excluded 2", "4 bytecodes 1"];
    assert_eq!(shown(&rows, &["number", "kind", "len"]), expected);
    let (blocks, _) = read(&files.get("blocks/thread=1-0/part-0.parquet"));
    assert_eq!(shown(&blocks, &["leader", "executions", "exact"]), ["0 1 false", "9 1 false"]);
    assert!(!exact);
}

#[test]
fn partitions_of_time_and_the_column_of_threads() {
    let time = |t| Event::decoded(EventKind::Time(Tsc(t)));
    let ticks = NonZeroU64::new(100).unwrap();
    let options = TableOptions {
        slices: Some(Slices { origin: Tsc(1000), ticks }),
        thread_column: true,
        labels: vec![("capture".to_owned(), "a.jportal".to_owned())],
        ..with_events()
    };
    let started = |tid, at| ThreadInfo { started: Tsc(at), ..thread(tid) };
    let events = vec![
        enter(0),
        bytecode(0, 0),
        time(1050),
        bytecode(0, 1),
        time(1320),
        bytecode(0, 8),
        time(1340),
        leave(0),
    ];
    let threads = [(started(8, 1010), events.clone()), (started(8, 900), events)];
    let (files, _) = tables(small(), options, &threads);
    let events: Vec<String> = files.names().into_iter().filter(|n| n.starts_with("events")).collect();
    let expected = ["8-1010/time=0", "8-1010/time=3", "8-900/time=0", "8-900/time=3"];
    assert_eq!(events, expected.map(|n| format!("events/thread={n}/part-0.parquet")), "one tid, two threads");
    let (rows, metadata) = read(&files.get(&events[0]));
    let expected = ["8-1010 0 - 1050", "8-1010 1 - 1050", "8-1010 3 1050 1320"];
    assert_eq!(shown(&rows, &["thread", "number", "since", "until"]), expected);
    assert_eq!((&*metadata["capture"], &*metadata["jportal.time"]), ("a.jportal", "0"));
    let (rows, _) = read(&files.get(&events[3]));
    assert_eq!(
        shown(&rows, &["thread", "number", "since", "until"]),
        ["8-900 5 1320 1340", "8-900 7 1340 -"]
    );
    let (threads, metadata) = read(&files.get("threads/part-0.parquet"));
    assert_eq!(shown(&threads, &["thread", "started"]), ["8-900 900", "8-1010 1010"], "by start");
    assert_eq!(metadata["capture"], "a.jportal");
    let (blocks, _) = read(&files.get("blocks/thread=8-900/part-0.parquet"));
    assert_eq!(blocks[0]["thread"], "8-900");
}

#[test]
fn paths_are_partitions_of_hive() {
    let thread = ThreadKey { tid: 4711, started: 9 };
    let blocks = Partition { table: Table::Blocks, thread: Some(thread), slice: None };
    assert_eq!(blocks.path(), "blocks/thread=4711-9/part-0.parquet");
    let events = Partition { table: Table::Events, slice: Some(3), ..blocks };
    assert_eq!(events.path(), "events/thread=4711-9/time=3/part-0.parquet");
    let methods = Partition { table: Table::Methods, thread: None, slice: None };
    assert_eq!(methods.path_in_fleet("a/../b c"), "methods/capture=a%2F..%2Fb%20c/part-0.parquet");
    let path = events.path_in_fleet("web-1");
    assert_eq!(path, "events/capture=web-1/thread=4711-9/time=3/part-0.parquet");
}

#[test]
fn row_groups_are_bounded() {
    let groups = |events: Vec<Event>| {
        let (files, _) = tables(small(), with_events(), &[(thread(1), events)]);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&files.get("events/thread=1-0/part-0.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let until = events::COLUMNS.len() - 1;
        let nulls = |g: &parquet::file::metadata::RowGroupMetaData| {
            g.column(until).statistics().and_then(|s| s.null_count_opt()).unwrap()
        };
        reader.metadata().row_groups().iter().map(|g| (g.num_rows() as usize, nulls(g))).collect::<Vec<_>>()
    };
    let (half, full) = (sheet::ROWS, 2 * sheet::ROWS);
    let untimed = (0..2 * full + 5).map(|_| bytecode(0, 0)).collect();
    assert_eq!(groups(untimed), [(full, full as u64), (full, full as u64), (5, 5)], "no time ever comes");
    let time = |t: usize| Event::decoded(EventKind::Time(Tsc(t as u64 + 1)));
    let timed = (0..half + 10).flat_map(|t| [bytecode(0, 0), time(t)]).collect();
    assert_eq!(groups(timed), [(half, 0), (10, 0)]);
}

#[test]
fn the_sum_of_bytecodes_is_that_of_the_flow() {
    let methods = example::methods();
    let f = methods.get(MethodId(example::F)).unwrap();
    let blocks = jportal_bytecode::Blocks::of(f).unwrap();
    let starts = blocks.instruction_starts();
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..30 {
        let mut flows = [example::Flow::new(false), example::Flow::new(true)];
        let mut times: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for _ in 0..rng.usize(1..30) {
            let from = rng.usize(..starts.len());
            let to = rng.usize(from..starts.len());
            let bcis: Vec<u16> = starts[from..=to].iter().map(|b| b.get()).collect();
            for bci in &bcis {
                let leader = blocks.leaders().iter().rfind(|l| l.get() <= *bci).unwrap();
                let counted = times.entry(leader.to_string()).or_default();
                counted.0 += u64::from(leader.get() == *bci);
                counted.1 += 1;
            }
            flows.iter_mut().for_each(|flow| flow.at(example::F, &bcis));
        }
        for flow in flows {
            let (files, _) =
                tables(Arc::clone(&methods), TableOptions::default(), &[(thread(1), flow.events)]);
            let (rows, _) = read(&files.get("blocks/thread=1-0/part-0.parquet"));
            let number = |row: &Row, c: &str| row[c].parse::<u64>().unwrap();
            let seen: BTreeMap<String, (u64, u64)> = rows
                .iter()
                .map(|r| (r["leader"].clone(), (number(r, "executions"), number(r, "bytecodes"))))
                .collect();
            assert_eq!(seen, times);
        }
    }
}

#[test]
fn an_output_that_fails_is_reported() {
    struct FailingOutput;
    impl Write for FailingOutput {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no space left"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::other("no space left"))
        }
    }
    for events in [true, false] {
        let open = |_: &Partition| -> io::Result<Output> { Ok(Box::new(FailingOutput)) };
        let options = TableOptions { events, ..TableOptions::default() };
        let mut tables = TableAnalysis::new(small(), Arc::new(Inlined::default()), options, open);
        feed_as(&mut tables, &thread(1), &[enter(0), bytecode(0, 0), leave(0)]);
        let text = tables.finish().unwrap_err().to_string();
        assert!(
            text.starts_with("cannot write the Parquet file: ") && text.contains("no space left"),
            "{text}"
        );
    }
}

/// `JPORTAL_DATA_SET`: a folder for the files, which `tests/data-sets/check.py` can check.
#[test]
fn files_for_other_readers() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("JPORTAL_DATA_SET").map_or_else(|| temporary.path().into(), PathBuf::from);
    let to = folder.clone();
    let open = move |p: &Partition| -> io::Result<Output> {
        let path = to.join(p.path_in_fleet("E1"));
        std::fs::create_dir_all(path.parent().unwrap())?;
        Ok(Box::new(std::fs::File::create(path)?))
    };
    let mut tables = TableAnalysis::new(example::methods(), Arc::default(), with_events(), open);
    feed_as(&mut tables, &thread(1), &example::flow(true));
    feed_as(&mut tables, &thread(2), &example::flow(false));
    assert!(tables.finish().unwrap());
    let (calls, _) = read(&std::fs::read(folder.join("calls/capture=E1/thread=2-0/part-0.parquet")).unwrap());
    assert_eq!(calls.len(), 7);
}
