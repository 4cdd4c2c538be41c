// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arguments of `jportal export`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::FormatArgs;

/// The formats.
#[derive(Subcommand, Debug)]
pub(crate) enum ExportCommand {
    /// `perf.data` and the code in `code.elf`, for `perf script --itrace`
    ///
    /// `perf script --itrace=b -i DIR/perf.data` lists the branches, with symbols. The
    /// directory cannot be moved, because perf.data contains the path of the code file. perf
    /// knows only from the time which version of the code ran. Where the times in the trace are
    /// too coarse for that, TSC packets are inserted and CYC packets are omitted. An OVF packet
    /// marks lost trace. Exit status 1 if perf will not see every change of code, or every
    /// switch of threads, at its place.
    PerfData(PerfDataArgs),
}

#[derive(Args, Debug)]
pub(crate) struct PerfDataArgs {
    /// The capture
    #[arg(value_name = "CAPTURE")]
    pub(crate) capture: PathBuf,
    /// The directory to write to; it is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
