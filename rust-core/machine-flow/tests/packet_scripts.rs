// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Scripted tests: code, packets and the items that must result, one case per file in
//! `packet-scripts/`, named after the packet sequence or the erratum.
//!
//! A line is a word with arguments; numbers are hexadecimal unless they are times or ids;
//! `;` begins a comment. Words before `expect`:
//! ```text
//! cache START SIZE                 the code cache, first line
//! config NAME[=VALUE]...           retcomp=always|compressed  strict-tips  mtc=FREQ,NUM,DEN
//!                                  nominal=RATIO  slack=BEFORE,AFTER
//! install TIME ID START : BYTES    code, bytes in hexadecimal
//! patch TIME ADDRESS : BYTES       free TIME START SIZE
//! patch-between SINCE TIME ADDRESS : BYTES
//!                                  a patch that says when its store began
//! leaves-by-calls ID               control leaves the cache from this code only by calls
//! resolves-calls ID                this code calls the VM to have a call resolved
//! resolution TIME ADDRESS          the VM resolved, for the traced thread, the call that
//!                                  returns to ADDRESS
//! resolved TIME ADDRESS : BYTES    destination of a call, patched by the traced thread
//! resolved-between SINCE TIME ADDRESS : BYTES
//!                                  such a destination that says when its store began
//! patched TIME ADDRESS : BYTES     instruction of a patch stub of C1, patched by the traced
//!                                  thread
//! upcalls ID                       the VM calls Java code through this code
//! calls-out ID                     calls of this code through a register lead out of the cache
//! window SINCE LATEST              the sideband's bounds of the time
//! goes-on SINCE                    the thread left the core and came back to it at this time
//! psb psbend pad ovf mode64 mode32 stop       tsc T  tma CTC FC  mtc N  cyc N  cbr N
//! tnt TN...  tnt64 TN...           oldest branch first
//! tip A  pge A  pgd A|-  fup A     ptw  exstop  tsx-begin  tsx-abort    raw BYTES
//! lost                             trace was lost here
//! stale ADDRESS : BYTES            the unit reports the bytes of the block that the next TIP.PGE
//!                                  enters
//! ```
//! After `expect`, the items: `block START END cID EXIT`, `enter A`, `leave A|-`, `interrupt A`,
//! `time T`, and `gap WHY` with `start`, `truncated`, `overflow`, or words of the error.

use jportal_machine_flow::{
    CodeHistory, Config, CoreDecoder, Item, MachineGapReason, MtcConfig, Patch, PopRule, Progress, Slack,
    Stretch,
};
use jportal_pt_packet::{CodeSize, Encoder, Packet, Tnt};
use jportal_units::{Address, AddressRange, CodeId, StreamOffset, Tid, Tsc};
use std::path::Path;

/// The thread that runs.
const THREAD: Tid = Tid(7);

struct Script {
    history: Option<CodeHistory>,
    config: Config,
    window: (u64, u64),
    /// Offset and time.
    goes_on: Vec<(u64, u64)>,
    trace: Encoder,
    losses: Vec<u64>,
    stale: Vec<(u64, u64, Vec<u8>)>,
    expect: Vec<String>,
}

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word, 16).unwrap_or_else(|_| panic!("not a hexadecimal number: {word}"))
}

fn dec(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

fn code_id(word: &str) -> CodeId {
    CodeId(dec(word.trim_start_matches('c')) as u32)
}

fn bytes(words: &[&str]) -> Vec<u8> {
    words.iter().map(|w| hex(w) as u8).collect()
}

fn outcomes(word: &str) -> Tnt {
    let bits = word.chars().fold(0, |b, c| b << 1 | u64::from(c == 'T'));
    Tnt { bits, len: word.len() as u8 }
}

impl Script {
    fn parse(text: &str) -> Self {
        let mut script = Self {
            history: None,
            config: Config { slack: Slack { before: 0, after: 0 }, ..Config::default() },
            window: (0, u64::MAX),
            goes_on: Vec::new(),
            trace: Encoder::new(),
            losses: Vec::new(),
            stale: Vec::new(),
            expect: Vec::new(),
        };
        let mut expecting = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split(';').next().unwrap_or("").split_whitespace().collect();
            match words[..] {
                [] => {}
                ["expect"] => expecting = true,
                _ if expecting => script.expect.push(words.join(" ")),
                [word, ref rest @ ..] => script.line(word, rest),
            }
        }
        assert!(expecting, "no `expect`");
        script
    }

    fn line(&mut self, word: &str, rest: &[&str]) {
        match (word, rest) {
            ("cache", [start, size]) => {
                let range = AddressRange::at(Address(hex(start)), hex(size));
                self.history = Some(CodeHistory::new(range).unwrap());
            }
            ("config", settings) => settings.iter().for_each(|s| self.setting(s)),
            ("window", [since, latest]) => self.window = (dec(since), dec(latest)),
            (
                "install" | "leaves-by-calls" | "resolves-calls" | "upcalls" | "calls-out" | "patch"
                | "patch-between" | "resolved-between" | "resolved" | "patched" | "resolution" | "free",
                _,
            ) => {
                self.change(word, rest);
            }
            ("goes-on", [since]) => self.goes_on.push((self.trace.len() as u64, dec(since))),
            ("lost", []) => self.losses.push(self.trace.len() as u64),
            ("stale", [at, ":", code @ ..]) => {
                self.stale.push((self.trace.len() as u64, hex(at), bytes(code)));
            }
            ("raw", _) => self.trace.raw(&bytes(rest)),
            _ => self.packet(word, rest),
        }
    }

    fn setting(&mut self, setting: &str) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let numbers: Vec<u64> = value.split(',').filter_map(|n| n.parse().ok()).collect();
        match (name, value, &numbers[..]) {
            ("retcomp", "always", _) => self.config.return_compression = Some(PopRule::Always),
            ("retcomp", "compressed", _) => self.config.return_compression = Some(PopRule::Compressed),
            ("strict-tips", ..) => self.config.deferred_tips = false,
            ("slack", _, &[before, after]) => self.config.slack = Slack { before, after },
            ("nominal", _, &[ratio]) => self.config.nominal_ratio = Some(ratio as u8),
            ("mtc", _, &[f, n, d]) => {
                let (frequency, numerator, denominator) = (f as u8, n as u32, d as u32);
                self.config.mtc = Some(MtcConfig { frequency, numerator, denominator });
            }
            _ => panic!("unknown setting {setting}"),
        }
    }

    fn change(&mut self, word: &str, rest: &[&str]) {
        let history = self.history.as_mut().expect("`cache` comes first");
        match (word, rest) {
            ("leaves-by-calls", [id]) => history.mark_leaves_by_calls(code_id(id)),
            ("resolves-calls", [id]) => history.mark_resolves_calls(code_id(id)),
            ("upcalls", [id]) => history.mark_upcalls(code_id(id)),
            ("calls-out", [id]) => history.mark_calls_out(code_id(id)),
            ("resolution", [time, at]) => history.resolution(Tsc(dec(time)), THREAD, Address(hex(at))),
            ("install", [time, id, start, ":", code @ ..]) => {
                let id = code_id(id);
                history.install(Tsc(dec(time)), Address(hex(start)), &bytes(code), id).unwrap();
            }
            ("patch" | "resolved" | "patched", [time, at, ":", code @ ..]) => {
                let (writer, what) = match word {
                    "resolved" => (Some(THREAD), Patch::Call),
                    "patched" => (Some(THREAD), Patch::PatchStub),
                    _ => (None, Patch::Other),
                };
                history.patch(Tsc(dec(time)), None, Address(hex(at)), &bytes(code), writer, what).unwrap();
            }
            ("patch-between" | "resolved-between", [since, time, at, ":", code @ ..]) => {
                let (writer, what) = match word {
                    "resolved-between" => (Some(THREAD), Patch::Call),
                    _ => (None, Patch::Other),
                };
                let (since, time) = (Some(Tsc(dec(since))), Tsc(dec(time)));
                history.patch(time, since, Address(hex(at)), &bytes(code), writer, what).unwrap();
            }
            ("free", [time, start, size]) => {
                history.free(Tsc(dec(time)), Address(hex(start)), hex(size)).unwrap();
            }
            _ => panic!("cannot read: {word} {rest:?}"),
        }
    }

    fn packet(&mut self, word: &str, rest: &[&str]) {
        let e = &mut self.trace;
        match (word, rest) {
            ("psb", []) => e.psb(),
            ("psbend", []) => e.psbend(),
            ("pad", []) => e.pad(1),
            ("ovf", []) => e.ovf(),
            ("mode64", []) => e.mode_exec(CodeSize::Bits64),
            ("mode32", []) => e.mode_exec(CodeSize::Bits32),
            ("stop", []) => e.packet(&Packet::TraceStop),
            ("tsc", [t]) => e.tsc(dec(t)),
            ("tma", [ctc, fc]) => e.tma(dec(ctc) as u16, dec(fc) as u16),
            ("mtc", [n]) => e.mtc(dec(n) as u8),
            ("cyc", [n]) => e.cyc(dec(n)),
            ("cbr", [n]) => e.cbr(dec(n) as u8),
            ("tnt", [way]) => e.packet(&Packet::TntShort(outcomes(way))),
            ("tnt64", [way]) => e.tnt_long(outcomes(way)),
            ("tip", [a]) => e.tip(hex(a)),
            ("pge", [a]) => e.tip_pge(hex(a)),
            ("pgd", ["-"]) => e.tip_pgd(None),
            ("pgd", [a]) => e.tip_pgd(Some(hex(a))),
            ("fup", [a]) => e.fup(hex(a)),
            ("ptw", []) => e.packet(&Packet::Ptw { payload: 7, wide: false, ip: true }),
            ("exstop", []) => e.packet(&Packet::Exstop { ip: true }),
            ("tsx-begin", []) => e.packet(&Packet::ModeTsx { in_transaction: true, aborted: false }),
            ("tsx-abort", []) => e.packet(&Packet::ModeTsx { in_transaction: false, aborted: true }),
            _ => panic!("cannot read: {word} {rest:?}"),
        }
    }

    fn run(mut self) -> Vec<Item> {
        let history = self.history.take().expect("a `cache`");
        let trace = self.trace.take();
        let mut decoder = CoreDecoder::new(self.config, &history);
        decoder.push(StreamOffset(0), &trace);
        self.losses.iter().for_each(|&l| decoder.loss(StreamOffset(l)));
        self.stale.iter().for_each(|(o, a, b)| decoder.stale(StreamOffset(*o), Address(*a), b));
        let mut items = Vec::new();
        let mut since = self.window.0;
        for (until, then) in self.goes_on.iter().copied().chain([(trace.len() as u64, u64::MAX)]) {
            let continues = then != u64::MAX;
            let stretch = Stretch {
                until: StreamOffset(until),
                since: Tsc(since),
                latest: Tsc(if continues { then } else { self.window.1 }),
                tid: THREAD,
                left: Tsc(0),
                continues,
            };
            while decoder.decode(stretch, &history, &mut items) == Progress::More {}
            since = then;
        }
        decoder.finish(&mut items);
        items
    }
}

/// An item in the words of the scripts; a gap with its error's text.
fn words(item: &Item, low: u64) -> String {
    match item {
        Item::Block { start, end, code, exit } => {
            let (start, end) = (low + u64::from(*start), low + u64::from(*end));
            let exit: String = format!("{exit:?}");
            format!("block {start:x} {end:x} {code} {exit}")
        }
        Item::Enter { ip } => format!("enter {:x}", ip.0),
        Item::Leave { target: Some(t) } => format!("leave {:x}", t.address().0),
        Item::Leave { target: None } => "leave -".into(),
        Item::Interrupt { ip } => format!("interrupt {:x}", ip.0),
        Item::Time(t) => format!("time {t}"),
        Item::Gap(gap) => match &gap.reason {
            MachineGapReason::Start => "gap start".into(),
            MachineGapReason::Truncated => "gap truncated".into(),
            MachineGapReason::Overflow => "gap overflow".into(),
            MachineGapReason::Sideband => "gap sideband".into(),
            MachineGapReason::Undecodable(error) => format!("gap {error}"),
            other => format!("gap {other:?}"),
        },
    }
}

/// Whether the two are equal; an expected gap may be a part of the error's text.
fn agrees(expect: &str, found: &str) -> bool {
    match (expect.strip_prefix("gap "), found.strip_prefix("gap ")) {
        (Some(part), Some(text)) => text.contains(part),
        _ => expect == found,
    }
}

#[test]
fn all_scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packet-scripts");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "pts"));
    files.sort();
    assert!(files.len() >= 25, "only {} scripts in {}", files.len(), folder.display());
    let mut failed = 0;
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let script = Script::parse(&std::fs::read_to_string(&file).unwrap());
        let low = script.history.as_ref().expect("a `cache`").range().start.0;
        let expect = script.expect.clone();
        let found: Vec<String> = script.run().iter().map(|i| words(i, low)).collect();
        let same = expect.len() == found.len() && expect.iter().zip(&found).all(|(e, f)| agrees(e, f));
        if !same {
            failed += 1;
            println!("{name}: expected\n  {}\nfound\n  {}", expect.join("\n  "), found.join("\n  "));
        }
    }
    assert_eq!(failed, 0, "scripts that failed");
}
