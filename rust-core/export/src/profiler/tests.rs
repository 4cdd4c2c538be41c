// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fastrand::Rng;
use jportal_analyses::Inexact;
use jportal_analyses::tree::{Options, Replay, TreeAnalysis};
use jportal_bytecode::testing::method;
use jportal_bytecode::{Method, MethodTable};
use jportal_flow::testing::{bytecode, enter_as, feed, gap, leave};
use jportal_flow::{Entry, Event};

use super::peer::{PeerFault, SeenByPeer, Sums, play};
use super::{RemoteProfiler, ReplayTotals, reason};
use crate::Error;

/// Four methods of six bytecodes.
fn methods() -> Arc<MethodTable> {
    let mut all = MethodTable::default();
    for name in ["f", "g", "h", "naïve 𝓓"] {
        all.push(Method { class_name: "a/b/C".into(), ..method(name, &[0, 0, 0, 0, 0, 177]) });
    }
    Arc::new(all)
}

/// Calls one another at random. Few flows fit a program, but each has a tree.
fn flow(rng: &mut Rng, depth: u32, to: &mut Vec<Event>) {
    let m = rng.u32(..4);
    to.push(enter_as(m, if depth == 0 { Entry::Upcall } else { Entry::Call }));
    to.push(bytecode(m, 0));
    for _ in 0..rng.u32(..12) {
        to.push(bytecode(m, rng.u16(..6)));
        if depth < 8 && rng.u8(..5) == 0 {
            flow(rng, depth + 1, to);
        }
    }
    to.push(leave(m));
}

fn flows(seed: u64) -> Vec<Vec<Event>> {
    let mut rng = Rng::with_seed(seed);
    let mut all: Vec<Vec<Event>> = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let mut events = Vec::new();
        (0..20).for_each(|_| flow(&mut rng, 0, &mut events));
        all.push(events);
    }
    all
}

/// Replays into the test's process. Returns what the process saw, the result, and the tree.
fn replay(
    flows: &[Vec<Event>],
    seed: u64,
    fault: PeerFault,
) -> (SeenByPeer, Result<ReplayTotals, Error>, TreeAnalysis) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let process = std::thread::spawn(move || play(theirs, seed, fault));
    let tree = TreeAnalysis::new(methods(), Arc::default(), Options::default());
    let profiler = RemoteProfiler::start(ours.try_clone().unwrap(), ours).unwrap();
    let mut replay = Replay::new(tree, profiler);
    (1..).zip(flows).for_each(|(tid, events)| feed(&mut replay, tid, events));
    let (profiler, tree) = replay.finish();
    let (exact, inexact) = tree.exactness().unwrap();
    let totals = profiler.finish(exact, &reason(exact, &inexact));
    (process.join().unwrap(), totals, tree)
}

fn expected(tree: &TreeAnalysis) -> Sums {
    let (tree, mut paths, mut sums) = (tree.tree().unwrap(), Vec::<String>::new(), Sums::new());
    for node in &tree.nodes {
        let name =
            if node.loader.is_empty() { node.method.to_string() } else { format!("app:{}", node.method) };
        let path = node.parent.map_or_else(String::new, |p| format!("{} > {name}", paths[p as usize]));
        let sum = sums.entry(path.clone()).or_default();
        *sum = (sum.0 + node.invocations.total() as i64, sum.1 + node.bytecodes.total());
        paths.push(path);
    }
    sums.retain(|_, sum| *sum != (0, 0));
    sums
}

#[test]
fn the_process_sees_the_trees_of_random_flows() {
    let mut reports = 0;
    for seed in 0..150 {
        let mut flows = flows(seed);
        let lossy = seed % 5 == 4;
        if lossy {
            let middle = flows[0].len() / 2;
            flows[0].insert(middle, gap(seed % 2 == 0));
        }
        let (mut seen, totals, tree) = replay(&flows, seed, PeerFault::None);
        seen.sums.retain(|_, sum| *sum != (0, 0));
        assert_eq!(seen.sums, expected(&tree), "seed {seed}");
        let threads: Vec<String> = (1..=flows.len()).map(|n| format!("t{n} 1 {n}")).collect();
        assert_eq!((&seen.threads, seen.ended), (&threads, threads.len()));
        let totals = totals.unwrap();
        assert_eq!((totals.threads, totals.reports), (threads.len() as u64, seen.reports.len() as u64));
        assert_eq!((seen.exact, seen.reason.contains("1 gap")), (Some(!lossy), lossy), "{}", seen.reason);
        // All but the last report of a thread come after as many bytecodes as asked for.
        for (n, (thread, bytecodes, granularity)) in seen.reports.iter().enumerate() {
            let is_last = !seen.reports[n + 1..].iter().any(|(t, ..)| t == thread);
            assert!(is_last || *bytecodes >= u64::from(*granularity), "seed {seed}, report {n}");
        }
        reports += seen.reports.len();
    }
    assert!(reports > 3000, "{reports}");
}

#[test]
fn a_fault_ends_the_replay_with_its_message() {
    let flows = flows(0);
    let after = |fault| {
        let (seen, totals, _) = replay(&flows, 0, fault);
        (seen.reports.len(), totals.unwrap_err().to_string())
    };
    assert_eq!(after(PeerFault::Fails(7)), (7, "it is \u{fffd}brok".to_owned()));
    let gone = "the profiler's process ended before the replay was complete";
    assert_eq!(after(PeerFault::Closes(3)), (3, gone.to_owned()));
    let sent = |what: &str| (1, format!("the profiler's process sent {what}"));
    assert_eq!(after(PeerFault::Granularity(0)), sent("the granularity 0"));
    assert_eq!(after(PeerFault::Answers(9)), sent("an answer of the kind 9"));
    assert_eq!(after(PeerFault::Answers(3)), sent("Done in place of a granularity"));
}

fn start(answers: &[u8]) -> Error {
    RemoteProfiler::start(answers, io::sink()).map(drop).unwrap_err()
}

#[test]
fn what_is_no_greeting_is_refused() {
    for (answers, text) in [
        (&b""[..], "ended before"),
        (b"JPREPLA", "ended before"),
        (b"Error: no", "sent Error: n at the beginning"),
        (b"JPREPLAY\x02", "version 2 of the format of replays, and this command version 1"),
        (b"JPREPLAY\x01", "ended before"),
        (b"JPREPLAY\x01\x02\x05there", "there"),
        (b"JPREPLAY\x01\x03", "sent Done in place of that the profiler is loaded"),
        (b"JPREPLAY\x01\x02\xff\xff\xff\x7f", "a message of 268435455 bytes"),
        (b"JPREPLAY\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 63 bits"),
    ] {
        let error = start(answers).to_string();
        assert!(error.contains(text), "{}: {error}", answers.escape_ascii());
    }
}

#[test]
fn random_answers_end_in_an_error() {
    let mut rng = Rng::with_seed(3);
    let flows = flows(3);
    for _ in 0..2000 {
        let mut answers = b"JPREPLAY\x01\x00".to_vec();
        (0..rng.usize(..40)).for_each(|_| answers.push(if rng.bool() { rng.u8(..4) } else { rng.u8(..) }));
        let tree = TreeAnalysis::new(methods(), Arc::default(), Options::default());
        let profiler = RemoteProfiler::start(io::Cursor::new(answers).take(60), io::sink()).unwrap();
        let mut replay = Replay::new(tree, profiler);
        (1..).zip(&flows).for_each(|(tid, events)| feed(&mut replay, tid, events));
        let error = replay.finish().0.finish(true, "").unwrap_err();
        assert!(
            matches!(error, Error::Profiler(_) | Error::ProfilerGone | Error::ProfilerAnswer(_)),
            "{error}"
        );
    }
}

#[test]
fn reasons_are_named() {
    assert_eq!(reason(true, &Inexact::default()), "");
    assert!(reason(false, &Inexact::default()).starts_with("frames ended unseen"));
    let inexact = Inexact { gaps: 2, silent_calls: 3, recovered: 4, ..Inexact::default() };
    assert_eq!(reason(false, &inexact), "2 gaps; 3 calls without a frame; 4 events that were filled in");
}
