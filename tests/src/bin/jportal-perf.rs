// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-perf CAPTURE PERF.DATA [LIMIT]`: checks that `perf script` lists the branches of the
//! capture's machine flow.

use std::path::Path;
use std::process::ExitCode;

use jportal_capture::CaptureReader;
use jportal_reconstruct::Recording;
use jportal_tests::perf;

fn run(capture: &str, data: &str, limit: u64) -> Result<bool, String> {
    let reader = CaptureReader::open(Path::new(capture)).map_err(|e| format!("{capture}: {e}"))?;
    let recording = Recording::open(reader).map_err(|e| format!("{capture}: {e}"))?;
    let found = perf::compare(&recording, Path::new(data), limit).map_err(|e| e.to_string())?;
    print!("{found}");
    Ok(found.is_equal())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [capture, data] => run(capture, data, u64::MAX),
        [capture, data, limit] => match limit.parse() {
            Ok(limit) => run(capture, data, limit),
            Err(_) => Err(format!("{limit:?} is no number")),
        },
        _ => Err("usage: jportal-perf CAPTURE PERF.DATA [LIMIT]".to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
