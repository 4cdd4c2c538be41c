// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `--project` and `--recover`: between the decoder and another consumer, orphans are placed,
//! then gaps are filled.

use std::sync::Arc;

use anyhow::{Context, Result};
use jportal_analyses::execution::{Listener, Visits};
use jportal_analyses::{Execution, Unrolled};
use jportal_bytecode::SharedIcfg;
use jportal_flow::{FlowConsumer, ThreadInfo, relayed};
use jportal_infer::place::Projector;
use jportal_infer::replay::{Completion, Storage};
use jportal_reconstruct::{DecodeSummary, Recording};
use jportal_units::Tsc;

use crate::args::{DecodeArgs, InferArgs, Project, Recover};
use crate::{decode, say};

/// Summaries of placing and filling, if requested.
#[derive(Debug)]
pub(crate) struct Inference {
    pub(crate) projection: Option<jportal_infer::place::Summary>,
    pub(crate) recovery: Option<jportal_infer::replay::Summary>,
    /// Which share of the threads' execution is known, and how.
    pub(crate) execution: Execution,
}

/// Decodes the selected threads, then places and fills as requested. If gaps are filled,
/// `consumer` receives one thread after the other once everything is decoded.
pub(crate) fn decode_inferred(
    args: &DecodeArgs,
    infer: &InferArgs,
    recording: &Recording<'_>,
    consumer: &mut dyn FlowConsumer,
) -> Result<(DecodeSummary, Inference)> {
    use jportal_infer::replay::{Method, Settings};
    let visits = Arc::new(visits(recording));
    let mut unrolled;
    let consumer: &mut dyn FlowConsumer = if infer.recover == Recover::None || consumer.takes_runs() {
        consumer
    } else {
        unrolled = Unrolled::new(Arc::new(recording.methods().clone()), consumer);
        &mut unrolled
    };
    let mut shown = Listener::new(Arc::clone(&visits), consumer);
    let method = match infer.recover {
        Recover::None => {
            let (summary, projection) = decode_projected(args, infer, (recording, None), &mut shown)?;
            let heard = shown.heard();
            let execution = Execution::new(&visits, &heard, &heard);
            return Ok((summary, Inference { projection, recovery: None, execution }));
        }
        Recover::Basic => Method::Basic(Default::default()),
        Recover::Tiered => Method::Tiered(Default::default()),
        Recover::Follow => Method::Follow(Default::default()),
    };
    let open = |_: &ThreadInfo| Ok(Box::new(tempfile::tempfile()?) as Box<dyn Storage>);
    let on_core = Arc::clone(&visits);
    let clock = move |thread: &ThreadInfo, time: Tsc| {
        on_core.ticks((thread.tid.get(), thread.started.get()), time.get())
    };
    let (summary, projection, decoded, completed) = std::thread::scope(|scope| {
        // The decoder need not wait for the graph.
        let icfg = SharedIcfg::build(scope, recording.methods());
        let mut completion =
            Completion::new(icfg.clone(), Settings::with(method), open).timed_by(Arc::new(clock)).in_runs();
        let mut decoded = Listener::new(Arc::clone(&visits), &mut completion);
        let (summary, projection) = decode_projected(args, infer, (recording, Some(icfg)), &mut decoded)?;
        let decoded = decoded.heard();
        let completed = relayed(&mut shown, |to| completion.finish(to))
            .with_context(|| format!("{}", args.capture.display()))?;
        anyhow::Ok((summary, projection, decoded, completed))
    })?;
    if completed.not_learned > 0 {
        say(&format!(
            "warning: gaps were filled from the first {} bytecodes of the capture; {} more were not learned from",
            completed.learned, completed.not_learned
        ));
    }
    let execution = Execution::new(&visits, &decoded, &shown.heard());
    Ok((summary, Inference { projection, recovery: Some(completed), execution }))
}

fn visits(recording: &Recording<'_>) -> Visits {
    let mut all = Visits::default();
    for (core, started, v) in recording.visits() {
        all.add((v.tid.get(), started), core, (v.came, v.left));
    }
    all
}

/// Decodes and places orphans. Builds the graph of the methods if it is needed and `icfg` is
/// `None`.
fn decode_projected(
    args: &DecodeArgs,
    infer: &InferArgs,
    (recording, icfg): (&Recording<'_>, Option<SharedIcfg>),
    consumer: &mut dyn FlowConsumer,
) -> Result<(DecodeSummary, Option<jportal_infer::place::Summary>)> {
    use jportal_infer::place::{Method, Settings};
    let method = match infer.project {
        Project::None => return Ok((decode::decode(args, recording, consumer)?, None)),
        Project::Enumerate => Method::Enumerate,
        Project::Guided => Method::Guided,
        Project::Indexed => Method::Indexed,
    };
    let settings = Settings::new(method);
    let mut projector = match icfg {
        Some(icfg) => Projector::on(icfg, settings, consumer),
        None => Projector::new(Arc::new(recording.methods().clone()), settings, consumer),
    };
    let summary = relayed(&mut projector, |to| decode::decode(args, recording, to))?;
    Ok((summary, Some(projector.summary())))
}
