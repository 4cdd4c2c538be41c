// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Prints path markers that contradict each other, without any trace.
//!
//! `cargo run -p jportal-reconstruct --example implausible -- CAPTURE`. A recording with
//! `-XX:JPortalSource=none` suffices. The exit status is 1 if there are such markers.
//! `jportal-vm-image`'s example `markers` shows the code of a method that is listed here.

use jportal_capture::CaptureReader;
use jportal_reconstruct::Recording;
use jportal_vm_image::{Marker, PathMarkers, VmImage};
use std::error::Error;
use std::process::ExitCode;

fn name(image: &VmImage, markers: &PathMarkers, marker: Marker) -> String {
    let Marker::Block { context, bci } = marker else { return format!("{marker:?}") };
    let mut text = String::new();
    let mut at = bci;
    for c in markers.chain(context) {
        let method = c.method.and_then(|id| image.table().get(id));
        let name = method.map_or_else(|| "?".into(), |m| m.qualified_name());
        text.push_str(&format!(" < {name} @ {at}"));
        at = c.call_bci;
    }
    text.split_off(3)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let capture = std::env::args().nth(1).ok_or("usage: implausible CAPTURE")?;
    let reader = CaptureReader::open(capture.as_ref())?;
    let recording = Recording::open(reader)?;
    let image = recording.image();
    let steps = recording.implausible_steps();
    for step in &steps {
        let Some(n) = image.code(step.code).and_then(|v| v.nmethod()) else { continue };
        let Some(markers) = &n.markers else { continue };
        let method = n.method.and_then(|id| image.table().get(id));
        let method = method.map_or_else(|| "?".into(), |m| m.qualified_name());
        println!("{method}, compile id {}, level {}, offset {}", n.compile_id, n.level, step.offset);
        println!("  from {}", name(image, markers, step.from));
        println!("  to   {}", name(image, markers, step.to));
    }
    let marked = image.codes().iter().filter(|v| v.nmethod().is_some_and(|n| n.markers.is_some()));
    println!("{} implausible steps in {} nmethods with markers", steps.len(), marked.count());
    Ok(ExitCode::from(u8::from(!steps.is_empty())))
}
