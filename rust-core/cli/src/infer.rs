//! `--project` and `--recover`: on the way from the decoder to another consumer orphans get their place, then gaps are filled.

use std::sync::Arc;

use anyhow::{Context, Result};
use jportal_bytecode::{ByName, Icfg};
use jportal_completion::{Completion, Storage};
use jportal_flow::{FlowConsumer, ThreadInfo};
use jportal_projection::Projector;
use jportal_reconstruct::{DecodeSummary, Recording};

use crate::args::{DecodeArgs, InferArgs, Project, Recover};
use crate::{decode, say};

/// What was inferred, as far as it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Inference {
    pub(crate) projection: Option<jportal_projection::Summary>,
    pub(crate) recovery: Option<jportal_completion::Summary>,
}

/// Decodes what the arguments ask for, and infers what they ask for. With gaps filled, `consumer` gets thread after thread when
/// all is decoded.
pub(crate) fn decode_inferred(
    args: &DecodeArgs,
    infer: &InferArgs,
    recording: &Recording<'_>,
    consumer: &mut dyn FlowConsumer,
) -> Result<(DecodeSummary, Inference)> {
    use jportal_completion::{Method, Settings};
    let method = match infer.recover {
        Recover::None => {
            let (summary, projection) = decode_projected(args, infer, recording, consumer)?;
            return Ok((summary, Inference { projection, recovery: None }));
        }
        Recover::Basic => Method::Basic(Default::default()),
        Recover::Tiered => Method::Tiered(Default::default()),
        Recover::Follow => Method::Follow(Default::default()),
    };
    let methods = recording.methods();
    let icfg = Arc::new(Icfg::build(methods, &mut ByName::new(methods)));
    let open = |_: &ThreadInfo| Ok(Box::new(tempfile::tempfile()?) as Box<dyn Storage>);
    let mut completion = Completion::new(icfg, Settings::with(method), open);
    let (summary, projection) = decode_projected(args, infer, recording, &mut completion)?;
    let completed = completion.finish(consumer).with_context(|| format!("{}", args.capture.display()))?;
    if completed.not_learned > 0 {
        say(&format!(
            "warning: gaps were filled from the first {} bytecodes of the capture; {} more were not learned from",
            completed.learned, completed.not_learned
        ));
    }
    Ok((summary, Inference { projection, recovery: Some(completed) }))
}

fn decode_projected(
    args: &DecodeArgs,
    infer: &InferArgs,
    recording: &Recording<'_>,
    consumer: &mut dyn FlowConsumer,
) -> Result<(DecodeSummary, Option<jportal_projection::Summary>)> {
    use jportal_projection::{Method, Settings};
    let method = match infer.project {
        Project::None => return Ok((decode::decode(args, recording, consumer)?, None)),
        Project::Enumerate => Method::Enumerate,
        Project::Guided => Method::Guided,
        Project::Indexed => Method::Indexed,
    };
    let methods = Arc::new(recording.methods().clone());
    let mut projector = Projector::new(methods, Settings::new(method), consumer);
    let summary = decode::decode(args, recording, &mut projector)?;
    Ok((summary, Some(projector.summary())))
}
