// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Prints the machine code of compiled methods with their path markers.
//!
//! `cargo run -p jportal-vm-image --example markers -- CAPTURE [PART-OF-A-METHOD-NAME]`
//!
//! Without a name, it prints only the sums.

mod installed;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use iced_x86::{Decoder, DecoderOptions, OpKind};
use installed::Bytes;
use jportal_capture::CaptureReader;
use jportal_vm_image::markers::ambiguity_name;
use jportal_vm_image::{Builder, CodeVersion, Marker, NMethod, PathMarkers, VmImage};

fn list(image: &VmImage, all: &PathMarkers, markers: &[Marker]) -> String {
    let mut text = String::new();
    for m in markers {
        match *m {
            Marker::Ambiguous(cause) => write!(text, " <{}>", ambiguity_name(cause)),
            Marker::PollState => write!(text, " <state of the poll>"),
            Marker::Block { context, bci } => {
                let method = all.context(context).and_then(|c| c.method).and_then(|id| image.table().get(id));
                write!(text, " {}#{context}@{bci}", method.map_or("?", |m| &m.name))
            }
        }
        .expect("writing to a string");
    }
    text
}

fn print(image: &VmImage, version: &CodeVersion, n: &NMethod, code: &[u8]) {
    let name = |m| image.methods.table().get(m).map_or("?".to_owned(), |m| m.qualified_name());
    println!(
        "\n{} compile id {}, compiler {}, level {}, osr {:?}, verified entry {}, {} bytes",
        n.method.map_or("?".to_owned(), name),
        n.compile_id,
        n.compiler,
        n.level,
        n.osr_bci,
        n.verified_entry,
        n.stub
    );
    let Some(markers) = &n.markers else { return println!("  no markers") };
    for (i, c) in markers.contexts().iter().enumerate() {
        println!("  #{i}: {} in {:?} at {}", c.method.map_or("?".to_owned(), name), c.parent, c.call_bci);
    }
    let start = version.range.start.0;
    let body = &code[..(n.stub as usize).min(code.len())];
    let mut decoder = Decoder::with_ip(64, body, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        let i = decoder.decode();
        let offset = (i.ip() - start) as u32;
        let at = markers.at(offset);
        if !at.is_empty() {
            println!("{offset:6} ---{}", list(image, markers, at));
        }
        let target = if i.op0_kind() == OpKind::NearBranch64 {
            format!("{}", i.near_branch64().wrapping_sub(start) as i64)
        } else {
            String::new()
        };
        println!("{offset:6}     {:?} {target}", i.code());
        for (from, outcome, to, m) in markers.edges().filter(|e| e.0 == offset) {
            println!("{from:6}   edge outcome {outcome} -> {to}:{}", list(image, markers, m));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let capture = args.next().ok_or("usage: markers CAPTURE [PART-OF-A-METHOD-NAME]")?;
    let wanted = args.next();
    let reader = CaptureReader::open(capture.as_ref())?;
    let (mut builder, mut code) = (Builder::default(), Bytes::default());
    for record in reader.metadata() {
        builder.record(record?, &mut code);
    }
    let image = builder.finish();
    let (mut marked, mut unmarked, mut offsets, mut edges, mut blocks) = (0, 0, 0, 0, 0);
    let mut causes = BTreeMap::new();
    for version in image.codes() {
        let Some(n) = version.nmethod().filter(|n| !n.is_native_wrapper()) else { continue };
        match &n.markers {
            None => unmarked += 1,
            Some(m) => {
                marked += 1;
                let lists = m.offsets().map(|o| o.1).chain(m.edges().map(|e| e.3));
                for marker in lists.flatten() {
                    match marker {
                        Marker::Block { .. } => blocks += 1,
                        Marker::PollState => *causes.entry("state of a poll").or_insert(0) += 1,
                        Marker::Ambiguous(cause) => *causes.entry(ambiguity_name(*cause)).or_insert(0) += 1,
                    }
                }
                offsets += m.offsets().count();
                edges += m.edges().count();
            }
        }
        let method = n.method.and_then(|id| image.table().get(id));
        if let (Some(wanted), Some(method)) = (&wanted, method)
            && method.qualified_name().contains(wanted.as_str())
        {
            print(&image, version, n, &code.0[version.id.0 as usize]);
        }
    }
    println!(
        "{marked} nmethods with markers, {unmarked} without; {blocks} markers at {offsets} offsets and on {edges} edges"
    );
    println!("ambiguous: {causes:?}; contradictions: {} {:?}", image.oddity_count, image.oddities);
    Ok(())
}
