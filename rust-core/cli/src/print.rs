// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal print`.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use jportal::analyses::print::{Options, Output, Printer, PrinterLevel};
use jportal::reconstruct::Watch;
use jportal::{Capture, Execution, ThreadInfo, Tid};
use serde_json::{Value, json};

use crate::args::{self, BlocksAroundArgs, DecodeArgs, Format, PrintArgs};
use crate::look::Look;
use crate::output::{ResultKind, put, put_text};
use crate::{CommandOutcome, decode};

const LOOK: ResultKind = ResultKind::new("blocks-around", Some("steps"));

pub(crate) fn print(args: &PrintArgs) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    if let Some(event) = args.around {
        return print_around(&args.decode, &capture, event);
    }
    let json = match args.decode.format.get() {
        Format::Text => false,
        Format::Json | Format::Jsonl => true,
        Format::Csv => bail!("events have different fields: print has no CSV; use --format jsonl"),
    };
    let methods = Arc::new(capture.methods().clone());
    let options = Options {
        level: match args.level {
            args::PrintLevel::Call => PrinterLevel::Call,
            args::PrintLevel::Block => PrinterLevel::Block,
            args::PrintLevel::Bytecode => PrinterLevel::Bytecode,
        },
        json,
        limit: args.limit,
        exclude: decode::excluded(&args.exclude),
    };
    let spills = Arc::new(Spills::default());
    let opened = Arc::clone(&spills);
    let printer = Printer::new(methods, options, move |_: &ThreadInfo| opened.open());
    let query = decode::query_part(&args.decode, &args.range, &args.infer, &capture)?.leave_out();
    let query = if args.limit == u64::MAX { query } else { query.leave_out_vm_threads() };
    let answer = query.run(printer)?;
    decode::remark(&args.decode, &capture, &answer)?;
    if let Some(e) = answer.analysis.error() {
        return Err(e).context("cannot write the output");
    }
    spills.replay().context("cannot write the output")?;
    let Some(execution) = &answer.execution else { return Ok(CommandOutcome::Done) };
    let text = match json {
        true => execution_lines(execution),
        false => execution.text(capture.recording().reader().header().tsc_khz),
    };
    put_text(&text)?;
    Ok(CommandOutcome::Done)
}

/// The shares of the threads' execution, one object per line. The last line covers all threads
/// and has no thread id.
fn execution_lines(execution: &Execution) -> String {
    let event = |value: Value| match value {
        Value::Object(mut fields) => {
            fields.insert("event".into(), "execution".into());
            format!("{}\n", Value::Object(fields))
        }
        other => format!("{other}\n"),
    };
    let mut all = json!(execution.total);
    all["silent"] = json!(execution.silent);
    execution.threads.iter().map(|t| json!(t)).chain([all]).map(event).collect()
}

/// `jportal dev blocks-around`.
pub(crate) fn blocks_around(args: &BlocksAroundArgs) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    print_around(&args.decode, &capture, args.event)
}

/// The machine blocks around one event of one thread. An OS thread id may be reused, so the
/// event is searched in all threads that had it, in order of their start.
fn print_around(args: &DecodeArgs, capture: &Capture, event: u64) -> Result<CommandOutcome> {
    let chosen = args.threads.iter().map(|want| capture.threads(want)).collect::<Result<Vec<_>, _>>()?;
    let chosen = chosen.concat();
    let mut tids: Vec<Tid> = chosen.iter().map(|t| t.0).collect();
    tids.dedup();
    if tids.len() != 1 {
        bail!("an event needs one thread, and {} are chosen; name it with --thread", tids.len());
    }
    let mut look = None;
    for (tid, started) in chosen {
        let one = Look::at(args, capture, Watch { tid, started, event })?;
        let found = one.has_event();
        look = Some(one);
        if found {
            break;
        }
    }
    let Some(look) = look else { return Ok(CommandOutcome::Findings) };
    put(&args.format, LOOK, &look.json(), || Ok(look.text()))?;
    Ok(if look.has_event() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// The flows of several threads arrive interleaved. The first goes directly to stdout. Each
/// other one goes through an unnamed temporary file and is printed after it.
#[derive(Default)]
struct Spills {
    first_taken: Mutex<bool>,
    files: Mutex<Vec<File>>,
}

impl Spills {
    fn open(&self) -> io::Result<Option<Output>> {
        let mut taken = self.first_taken.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *taken, true) {
            return Ok(Some(Box::new(BufWriter::with_capacity(1 << 16, io::stdout()))));
        }
        let file = tempfile::tempfile()?;
        let writer = BufWriter::new(file.try_clone()?);
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Ok(Some(Box::new(writer)))
    }
    fn replay(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for file in self.files.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            file.seek(SeekFrom::Start(0))?;
            io::copy(file, &mut out)?;
        }
        out.flush()
    }
}
