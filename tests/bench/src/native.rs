//! Native flow: ours.

use crate::trace::Trace;
use crate::{Row, best};
use anyhow::Result;
use jportal_capture::header::{packet_flags, return_pops};
use jportal_native_flow::{Config, CoreDecoder, Item, PopRule, Progress, Stretch};
use jportal_reconstruct::Recording;
use jportal_units::StreamOffset;

const ROUNDS: usize = 3;
const PORTION: usize = 256 << 10;

pub fn measure(recording: &Recording<'_>, traces: &[Trace], rows: &mut Vec<Row>) -> Result<()> {
    let bytes = traces.iter().map(|t| t.bytes.len() as u64).sum();
    let (time, sums) = best(ROUNDS, || {
        let mut sums = Sums::default();
        traces.iter().for_each(|t| ours(recording, t, &mut sums));
        Ok(sums)
    })?;
    let counts = vec![
        ("blocks", sums.blocks),
        ("errors", sums.errors),
        ("choices", sums.choices),
        ("backtracks", sums.backtracks),
        ("widenings", sums.widenings),
    ];
    rows.push(Row { what: "native flow: jportal-native-flow", bytes, time, counts });
    Ok(())
}

#[derive(Default)]
struct Sums {
    blocks: u64,
    errors: u64,
    choices: u64,
    backtracks: u64,
    widenings: u64,
}

fn config(recording: &Recording<'_>) -> Config {
    let pt = &recording.reader().header().pt;
    let pop =
        if pt.return_pop == return_pops::COMPRESSED_ONLY { PopRule::Compressed } else { PopRule::Always };
    Config {
        return_compression: pt.has(packet_flags::RETURN_COMPRESSION).then_some(pop),
        deferred_tips: false,
        ..Config::default()
    }
}

fn ours(recording: &Recording<'_>, trace: &Trace, sums: &mut Sums) {
    let mut decoder = CoreDecoder::new(config(recording), recording.history());
    let mut out: Vec<Item> = Vec::new();
    let mut at = 0;
    for turn in &trace.turns {
        let end = turn.until.0 as usize;
        while at < end {
            let next = end.min(at + PORTION);
            decoder.push(StreamOffset(at as u64), &trace.bytes[at..next]);
            at = next;
            if at == end && turn.truncated {
                decoder.loss(turn.until);
            }
            let until = StreamOffset(at as u64);
            let stretch = Stretch { until, since: turn.since, latest: turn.latest, continues: at < end };
            loop {
                out.clear();
                let progress = decoder.decode(stretch, recording.history(), &mut out);
                sums.take(&out);
                debug(recording, &out);
                if progress == Progress::Done {
                    break;
                }
            }
        }
    }
    out.clear();
    decoder.finish(&mut out);
    sums.take(&out);
    let s = decoder.statistics();
    sums.errors += s.errors;
    sums.choices += s.choices;
    sums.backtracks += s.backtracks;
    sums.widenings += s.widenings;
}

impl Sums {
    fn take(&mut self, items: &[Item]) {
        self.blocks += items.iter().filter(|i| matches!(i, Item::Block { .. })).count() as u64;
    }
}

fn debug(recording: &Recording<'_>, items: &[Item]) {
    if std::env::var_os("JPORTAL_BENCH_GAPS").is_none() { return; }
    for (i, g) in items.iter().enumerate() {
        let Item::Gap(g) = g else { continue };
        let tail: Vec<_> = items[i.saturating_sub(6)..i].iter().collect();
        eprintln!("{g:x?}\n  after {tail:x?}");
        let h = recording.history();
        for b in tail {
            if let Item::Block { start, end, .. } = b {
                let a = h.range().start.plus((*start).into());
                for v in h.versions(a, (*end - *start) as usize, g.since.unwrap_or_default(), g.until.unwrap_or_default()) {
                    eprintln!("     at {a:x?} since {} {:?} {}", v.since, v.code, v.bytes.iter().map(|b| format!("{b:02x}")).collect::<String>());
                }
                for n in 0..h.len() as u32 {
                    let (t, r) = h.change(n).unwrap();
                    let lo = h.range().start.plus((*start).into());
                    let hi = h.range().start.plus((*end).into());
                    if r.start < hi && lo < r.end && r.len() < 300000 {
                        eprintln!("   {start:x}..{end:x} change {n} at {} = since{:+} {r:?}", t, t.0 as i64 - g.since.unwrap_or_default().0 as i64);
                    }
                }
            }
        }
    }
}
