//! `--project`: orphans get their place on the way from the decoder to another consumer.

use std::sync::Arc;

use anyhow::Result;
use jportal_flow::FlowConsumer;
use jportal_projection::{Method, Projector, Settings, Summary};
use jportal_reconstruct::{DecodeSummary, Recording};

use crate::args::{DecodeArgs, Project, ProjectArgs};
use crate::decode;

/// Decodes what the arguments ask for, and places orphans; the second summary is that of the projection, if it was asked for.
pub(crate) fn decode_projected(
    args: &DecodeArgs,
    project: &ProjectArgs,
    recording: &Recording<'_>,
    consumer: &mut dyn FlowConsumer,
) -> Result<(DecodeSummary, Option<Summary>)> {
    let method = match project.project {
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
