// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use fastrand::Rng;
use jportal_flow::{EventKind, GapReason};
use jportal_units::{Core, StreamOffset};

use super::*;
use crate::testing::{bytecode, enter, enter_as, feed, leave, leave_as, methods};

type Kept = Arc<Mutex<Vec<String>>>;

/// Keeps what it receives as text.
struct TextKeeper(Kept);

impl TimelineSink for TextKeeper {
    fn begin(&mut self, s: &Slice<'_>) -> io::Result<()> {
        let line = s.line.map_or_else(String::new, |l| format!(" line {l}"));
        let text = format!("{} {} {:?} {:?}{line}", s.begin.0, s.name, s.tier, s.entry);
        self.0.lock().unwrap().push(format!("{}{text}", "  ".repeat(s.depth as usize)));
        Ok(())
    }
    fn end(&mut self, e: &SliceEnd) -> io::Result<()> {
        let exit = e.exit.map_or_else(|| "cut".to_owned(), |e| format!("{e:?}"));
        self.0.lock().unwrap().push(format!("{} end {exit} {:?}", e.end.0, e.tier));
        Ok(())
    }
    fn lost(&mut self, l: &Lost) -> io::Result<()> {
        let until = l.until.map_or_else(|| "?".to_owned(), |t| t.to_string());
        self.0.lock().unwrap().push(format!("{} lost {} until {until}", l.since.0, l.reason));
        Ok(())
    }
    fn load(&mut self, l: &Load) -> io::Result<()> {
        self.0.lock().unwrap().push(format!("load {}-{} {:?}", l.since.0, l.until.0, l.bytecodes));
        Ok(())
    }
    fn finish(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().push("finish".to_owned());
        Ok(())
    }
}

fn time(t: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(t)))
}

fn gap(since: u64, until: Option<u64>, stack_lost: bool) -> Event {
    Event::decoded(EventKind::Gap(Box::new(jportal_flow::Gap {
        reason: GapReason::Overflow,
        core: Core(0),
        offset: StreamOffset(0),
        address: None,
        since: Some(Tsc(since)),
        until: until.map(Tsc),
        bytes: None,
        stack_lost,
    })))
}

fn show(events: &[Event], (min, depth, load): (u64, u32, Option<u64>)) -> (Vec<String>, Timelines) {
    let kept = Kept::default();
    let to = Arc::clone(&kept);
    let open = move |_: &ThreadInfo| Ok(Some(Box::new(TextKeeper(Arc::clone(&to))) as Box<dyn TimelineSink>));
    let limits = (Limits { min, depth, load }, Exclude::default());
    let mut a = TimelineAnalysis::new(methods(), Naming::default(), limits, open);
    feed(&mut a, 1, events);
    assert!(a.error().is_none());
    let mut texts = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(texts.pop().as_deref(), Some("finish"));
    (texts, a.report())
}

#[test]
fn short_activations_are_left_out() {
    let events = [
        time(0),
        enter_as(0, Entry::Upcall),
        bytecode(0, 4),
        time(5),
        enter(1),
        time(12),
        enter(2),
        time(14),
        leave(2),
        time(20),
        leave(1),
        enter(2),
        time(25),
        leave(2),
        leave(0),
    ];
    let (texts, r) = show(&events, (10, 9, None));
    assert_eq!(
        texts,
        [
            "0 a.B.f(I)I Interpreter Upcall",
            "  5 a.B.g(I)I Interpreter Call line 11",
            "20 end Return Interpreter",
            "25 end Return Interpreter"
        ]
    );
    assert_eq!(r.total, Shown { slices: 2, short: 2, ..Shown::default() });
    assert!(r.exact && r.text().contains("The timelines are exact."));
    let (texts, r) = show(&events, (0, 9, None));
    assert_eq!((texts.len(), r.total.slices, r.total.short), (8, 4, 0));
    let (texts, r) = show(&events, (0, 1, None));
    assert_eq!((texts.len(), r.total.slices, r.total.deep), (2, 1, 3));
}

#[test]
fn a_replaced_frame_is_the_same_slice() {
    let c2 = |entry| Event::decoded(EventKind::Enter { method: MethodId(1), tier: Tier::C2, entry });
    let events = [
        time(0),
        enter_as(1, Entry::Upcall),
        time(20),
        leave_as(1, Exit::Replaced),
        c2(Entry::Osr),
        time(30),
        leave_as(1, Exit::Unwind),
    ];
    let (texts, r) = show(&events, (10, 9, None));
    assert_eq!(texts, ["0 a.B.g(I)I Interpreter Upcall", "30 end Unwind C2"]);
    assert_eq!((r.total.slices, r.total.open), (1, 0));
    // Replaced before it was long enough, together with its caller.
    let mut events = vec![time(0), enter_as(0, Entry::Upcall), enter(1), time(3)];
    events.extend([leave_as(1, Exit::Replaced), leave_as(0, Exit::Replaced)]);
    events.extend([enter_as(0, Entry::Deoptimisation), enter_as(1, Entry::Deoptimisation)]);
    events.extend([time(30), leave(1), leave(0)]);
    let (texts, r) = show(&events, (10, 9, None));
    assert_eq!((texts.len(), r.total.slices, r.total.open), (4, 2, 0));
}

#[test]
fn gaps_end_slices_or_lie_on_them() {
    let first = [time(0), enter_as(0, Entry::Upcall), time(5)];
    let kept = [gap(7, Some(9), false), time(30), leave(0)];
    let (texts, r) = show(&[&first[..], &kept[..]].concat(), (10, 9, None));
    let begin = "0 a.B.f(I)I Interpreter Upcall";
    assert_eq!(texts, [begin, "7 lost overflow until 9", "30 end Return Interpreter"]);
    assert!(!r.exact && r.text().contains("not exact: 1 gap"), "{}", r.text());
    let lost = [time(30), gap(31, None, true), enter_as(1, Entry::Found), time(50)];
    let (texts, r) = show(&[&first[..], &lost[..]].concat(), (10, 9, None));
    assert_eq!(
        texts,
        [
            begin,
            "31 end cut Interpreter",
            "31 lost overflow until ?",
            "31 a.B.g(I)I Interpreter Found",
            "50 end cut Interpreter"
        ]
    );
    assert_eq!(r.total, Shown { slices: 2, open: 2, gaps: 1, ..Shown::default() });
}

#[test]
fn tiers_are_counted_between_times() {
    let events = [
        time(100),
        enter_as(0, Entry::Upcall),
        bytecode(0, 0),
        bytecode(0, 1),
        time(104),
        bytecode(0, 4),
        time(110),
        time(125),
        time(140),
        leave(0),
    ];
    let (texts, _) = show(&events, (1000, 9, Some(10)));
    assert_eq!(texts, ["load 100-110 [3, 0, 0]", "load 110-125 [0, 0, 0]"]);
}

#[test]
fn frames_before_the_first_time_begin_with_it() {
    let events = [bytecode(1, 0), enter(0), time(40), leave(0), time(60), leave(1)];
    let (texts, _) = show(&events, (10, 9, None));
    assert_eq!(texts, ["40 a.B.g(I)I Interpreter Found", "60 end Return Interpreter"]);
}

#[test]
fn an_output_that_fails_stops_its_thread() {
    let open = |_: &ThreadInfo| Err(io::Error::other("disk full"));
    let limits = (Limits::new(1_000_000), Exclude::default());
    assert_eq!((limits.0.min, limits.0.load), (100_000, Some(10_000_000)));
    let mut a = TimelineAnalysis::new(methods(), Naming::default(), limits, open);
    feed(&mut a, 1, &[time(1), enter(0)]);
    assert!(a.error().unwrap().to_string().contains("disk full") && a.report().threads.is_empty());
}

/// Slices nest, times do not decrease, every slice ends, and each is long enough, whatever the
/// flow is.
#[test]
fn random_flows_give_nested_slices() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let (mut events, mut open, mut now) = (Vec::new(), Vec::new(), 0);
        for _ in 0..120 {
            now += rng.u64(..6);
            match rng.u8(..20) {
                0..6 => events.push(time(now)),
                6..12 if !open.is_empty() => events.push(leave(open.pop().unwrap())),
                12 => {
                    let lost = rng.bool();
                    events.push(gap(now, Some(now + rng.u64(..9)).filter(|_| rng.bool()), lost));
                    if lost {
                        open.clear();
                    }
                }
                13 if !open.is_empty() => {
                    let n = rng.usize(1..=open.len());
                    let top = open.split_off(open.len() - n);
                    events.extend(top.iter().rev().map(|m| leave_as(*m, Exit::Replaced)));
                    events.extend(top.iter().map(|m| enter_as(*m, Entry::Deoptimisation)));
                    open.extend(top);
                }
                _ => {
                    open.push(rng.u32(..3));
                    events.push(enter(*open.last().unwrap()));
                }
            }
        }
        let calls = events.iter().filter(|e| matches!(e.kind, EventKind::Enter { entry: Entry::Call, .. }));
        let calls = calls.count() as u64;
        for min in [0, 7] {
            let (texts, r) = show(&events, (min, 4, None));
            let (mut begins, mut last) = (Vec::new(), 0);
            for text in &texts {
                let at: u64 = text.trim_start().split(' ').next().unwrap().parse().unwrap();
                assert!(at >= last, "seed {seed}: {texts:#?}");
                last = at;
                if text.contains(" end ") {
                    begins.pop().unwrap();
                } else if !text.contains(" lost ") {
                    assert_eq!(text.len() - text.trim_start().len(), 2 * begins.len(), "seed {seed}");
                    begins.push(at);
                }
            }
            assert!(begins.is_empty(), "seed {seed}");
            assert_eq!(r.total.slices + r.total.short + r.total.deep, calls, "seed {seed}");
        }
    }
}

#[test]
fn frames_of_unwanted_methods_are_transparent() {
    let c2 = |m, entry| Event::decoded(EventKind::Enter { method: MethodId(m), tier: Tier::C2, entry });
    let events = [
        time(0),
        enter_as(0, Entry::Upcall),
        bytecode(0, 4),
        time(5),
        enter(1),
        bytecode(1, 0),
        time(10),
        enter(2),
        time(15),
        leave(2),
        time(20),
        leave_as(1, Exit::Replaced),
        c2(1, Entry::Osr),
        bytecode(1, 1),
        enter(2),
        time(30),
        leave(2),
        leave(1),
        leave(0),
    ];
    let kept = Kept::default();
    let to = Arc::clone(&kept);
    let open = move |_: &ThreadInfo| Ok(Some(Box::new(TextKeeper(Arc::clone(&to))) as Box<dyn TimelineSink>));
    let limits = (Limits { min: 0, depth: 2, load: Some(100) }, Exclude::default());
    let mut a = TimelineAnalysis::new(methods(), Naming::default(), limits, open).within(|m| m.id.get() != 1);
    feed(&mut a, 1, &events);
    // The line is that of the call in the frame that is shown.
    assert_eq!(
        *kept.lock().unwrap(),
        [
            "0 a.B.f(I)I Interpreter Upcall",
            "  10 java.lang.Math.abs(I)I Interpreter Call line 11",
            "15 end Return Interpreter",
            "  20 java.lang.Math.abs(I)I Interpreter Call line 11",
            "30 end Return Interpreter",
            "30 end Return Interpreter",
            "load 0-30 [1, 0, 0]",
            "finish"
        ]
    );
    // The depth counts only what is shown.
    assert_eq!(a.report().total, Shown { slices: 3, outside: 1, ..Shown::default() });
}
