// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What several tests of the command share: a small capture, and the command itself.

use std::path::Path;
use std::process::{Command, Output};

use jportal_capture::schema::ThreadStarted;
use jportal_capture::{CaptureWriter, EndReason, Header, Record, Stamped, encode_frame};
use serde_json::Value;

/// Writes a capture without trace, of process 77 with one thread. It is cut off unless `finish`.
pub(crate) fn capture(path: &Path, finish: bool) {
    let mut w = CaptureWriter::create(path).unwrap();
    w.header(&Header { pid: 77, vm_version: "test VM".into(), ..Header::default() }).unwrap();
    let mut bytes = Vec::new();
    let record = ThreadStarted { tid: 78, flags: 1, java_tid: 1, name: "main".into() };
    encode_frame(&Stamped { tsc: 1, record: Record::ThreadStarted(record) }, &mut bytes);
    w.metadata(&bytes).unwrap();
    if finish {
        w.finish(EndReason::Exit, "", Vec::new()).unwrap();
    }
}

/// Runs the command.
pub(crate) fn jportal(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jportal")).args(args).output().unwrap()
}

/// The document that the command wrote to stdout.
pub(crate) fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)))
}
