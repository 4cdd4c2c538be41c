// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-fault FAULT IN OUT`: copies a capture with a planted fault, to try a check by hand.

use std::path::Path;
use std::process::ExitCode;

use jportal_tests::fault::{self, Fault};

const USAGE: &str = "usage: jportal-fault FAULT IN OUT
  drop-patch=N[:REASON]    the N-th code patch of that reason (1 call, 2 jump, 3 verified entry, …) is missing
  flip-tnt=N               the N-th TNT packet has its oldest branch turned round
  shift-template=NAME[:BY] the interpreter's codelet NAME is reported BY bytes further on
  swap-stub=N              the N-th method stub is credited to the method of the one before
  move-marker=N            the N-th place of path markers in the test programs' compiled code lies further on
  shift-scope=N            the N-th position of debug info there has that of the position behind
  drop-frame=N             the N-th place there at which C2 deoptimises several frames lacks one of them";

fn parse(text: &str) -> Option<Fault> {
    let (kind, value) = text.split_once('=')?;
    let (first, second) = value.split_once(':').unwrap_or((value, ""));
    let number = |text: &str, default: u64| if text.is_empty() { Some(default) } else { text.parse().ok() };
    Some(match kind {
        "drop-patch" => {
            Fault::DropPatch { n: first.parse().ok()?, reason: u8::try_from(number(second, 1)?).ok()? }
        }
        "flip-tnt" => Fault::FlipTnt { n: first.parse().ok()? },
        "shift-template" => Fault::ShiftTemplate { codelet: first.into(), by: number(second, 8)? },
        "swap-stub" => Fault::SwapStub { n: first.parse().ok()? },
        "move-marker" => Fault::MoveMarker { n: first.parse().ok()? },
        "shift-scope" => Fault::ShiftScope { n: first.parse().ok()? },
        "drop-frame" => Fault::DropFrame { n: first.parse().ok()? },
        _ => return None,
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [fault, source, target] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let Some(fault) = parse(fault) else {
        eprintln!("unknown fault {fault:?}\n{USAGE}");
        return ExitCode::from(2);
    };
    match fault::plant(Path::new(source), Path::new(target), &fault) {
        Ok(change) => {
            println!("{change}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
