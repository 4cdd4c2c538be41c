// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Machine flow: JPortal's decoder and libipt's block decoder.

use crate::trace::{Trace, Turn};
use crate::{Row, best, cpu_time};
use anyhow::{Result, anyhow};
use jportal_capture::header::{packet_flags, return_pops};
use jportal_machine_flow::{CodeHistory, Config, CoreDecoder, Item, PopRule, Progress, Stretch};
use jportal_reconstruct::Recording;
use jportal_units::{StreamOffset, Tsc};
use libipt::block::BlockDecoder;
use libipt::enc_dec_builder::PtEncoderDecoder;
use libipt::error::PtErrorCode;
use libipt::image::Image;
use libipt::status::Status;
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

const ROUNDS: usize = 3;
const PORTION: usize = 256 << 10;

/// Measures both decoders.
pub fn measure(recording: &Recording, traces: &[Trace], rows: &mut Vec<Row>) -> Result<()> {
    let bytes = traces.iter().map(|t| t.bytes.len() as u64).sum();
    let (time, sums) = best(ROUNDS, || {
        let mut sums = DecoderSums::default();
        traces.iter().for_each(|t| ours(recording, t, &mut sums));
        Ok(sums)
    })?;
    let counts = vec![
        ("blocks", sums.blocks),
        ("errors", sums.errors),
        ("choices", sums.choices),
        ("backtracks", sums.backtracks),
    ];
    rows.push(Row { what: "machine flow: jportal-machine-flow", bytes, time, counts });

    let image = StaticImage::of(recording.history())?;
    let (time, (bytes, instructions, errors)) = best(1, || {
        let mut sum = (0, 0, 0);
        for t in traces {
            let (b, i, e) = libipt_blocks(t, &image)?;
            sum = (sum.0 + b, sum.1 + i, sum.2 + e);
        }
        Ok(sum)
    })?;
    let counts = vec![("instructions", instructions), ("errors", errors)];
    let what = "machine flow: libipt block decoder, last code, cache";
    rows.push(Row { what, bytes, time, counts });
    Ok(())
}

#[derive(Default)]
struct DecoderSums {
    blocks: u64,
    errors: u64,
    choices: u64,
    backtracks: u64,
}

fn config(recording: &Recording) -> Config {
    let pt = &recording.reader().header().pt;
    let pop =
        if pt.return_pop == return_pops::COMPRESSED_ONLY { PopRule::Compressed } else { PopRule::Always };
    Config {
        return_compression: pt.has(packet_flags::RETURN_COMPRESSION).then_some(pop),
        ..Config::default()
    }
}

fn ours(recording: &Recording, trace: &Trace, sums: &mut DecoderSums) {
    let mut decoder = CoreDecoder::new(config(recording), recording.history());
    let mut out: Vec<Item> = Vec::new();
    let mut at = 0;
    for turn in &trace.turns {
        let end = (turn.until.0 as usize).min(trace.bytes.len());
        while at < end {
            let next = end.min(at + PORTION);
            decoder.push(StreamOffset(at as u64), &trace.bytes[at..next]);
            at = next;
            if at == end && turn.truncated {
                decoder.loss(turn.until);
            }
            let until = StreamOffset(at as u64);
            let Turn { since, latest, tid, .. } = *turn;
            let stretch = Stretch { until, since, latest, tid, left: Tsc(0), continues: at < end };
            loop {
                out.clear();
                let progress = decoder.decode(stretch, recording.history(), &mut out);
                sums.take(&out);
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
}

impl DecoderSums {
    fn take(&mut self, items: &[Item]) {
        self.blocks += items.iter().filter(|i| matches!(i, Item::Block { .. })).count() as u64;
    }
}

/// The code cache as it was at the end of the recording, in a file, for a decoder that uses one
/// image.
struct StaticImage {
    file: tempfile::NamedTempFile,
    /// (offset in the file, size, address)
    spans: Vec<(u64, u64, u64)>,
}

impl StaticImage {
    fn of(history: &CodeHistory) -> Result<Self> {
        const PAGE: u64 = 4096;
        // Small gaps are included so that there are few sections: libipt keeps only some of them
        // mapped.
        const SMALL_GAP: u64 = 32 << 20;
        let mut file = tempfile::NamedTempFile::new()?;
        let mut spans: Vec<(u64, u64, u64)> = Vec::new();
        let mut written = 0;
        for page in 0..history.range().len() / PAGE {
            let address = history.range().start.plus(page * PAGE);
            let last = history.versions(address, PAGE as usize, Tsc(u64::MAX), Tsc(u64::MAX)).pop();
            let Some(bytes) = last.map(|v| v.bytes).filter(|b| b.iter().any(|&b| b != 0)) else { continue };
            match spans.last_mut() {
                Some((_, size, start)) if address.0 - (*start + *size) <= SMALL_GAP => {
                    let gap = address.0 - (*start + *size);
                    file.seek(SeekFrom::Current(gap as i64))?;
                    *size += gap + PAGE;
                    written += gap + PAGE;
                }
                _ => {
                    spans.push((written, PAGE, address.0));
                    written += PAGE;
                }
            }
            file.write_all(&bytes)?;
        }
        file.flush()?;
        Ok(Self { file, spans })
    }
}

/// Returns the bytes of trace decoded, instructions and errors. Where code changed while the
/// program ran, a single image loses most of the trace, and slowly. Decoding therefore stops
/// after `LIMIT`.
fn libipt_blocks(trace: &Trace, image: &StaticImage) -> Result<(u64, u64, u64)> {
    const LIMIT: Duration = Duration::from_secs(20);
    let start = cpu_time()?;
    let failed = |e: libipt::error::PtError| anyhow!("libipt: {e}");
    let builder = BlockDecoder::builder();
    // SAFETY: libipt only reads the buffer, which outlives the decoder.
    let builder = unsafe { builder.buffer_from_raw(trace.bytes.as_ptr().cast_mut(), trace.bytes.len()) };
    let mut code = Image::new(None).map_err(failed)?;
    let path = image.file.path().to_str().unwrap_or_default();
    for &(offset, size, address) in &image.spans {
        code.add_file(path, offset, size, None, address).map_err(failed)?;
    }
    let mut decoder = builder.build().map_err(failed)?;
    decoder.set_image(Some(&mut code)).map_err(failed)?;
    let (mut instructions, mut errors) = (0, 0);
    while let Ok(mut status) = decoder.sync_forward() {
        if cpu_time()?.saturating_sub(start) > LIMIT {
            return Ok((decoder.offset().map_err(failed)?, instructions, errors));
        }
        loop {
            let step = match status.event_pending() {
                true => decoder.event().map(|(_, s)| (0, s)),
                false if status.contains(Status::EOS) => {
                    return Ok((trace.bytes.len() as u64, instructions, errors));
                }
                false => decoder.decode_next().map(|(b, s)| (u64::from(b.ninsn()), s)),
            };
            match step {
                Ok((n, s)) => {
                    instructions += n;
                    status = s;
                }
                Err(e) if e.code() == PtErrorCode::Eos => {
                    return Ok((trace.bytes.len() as u64, instructions, errors));
                }
                Err(_) => {
                    errors += 1;
                    break;
                }
            }
        }
    }
    Ok((trace.bytes.len() as u64, instructions, errors))
}
