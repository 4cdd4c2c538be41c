// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call traces as text.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use jportal::export::call_trace::{CallTrace, SiteTable, decode};

use crate::CommandOutcome;
use crate::messages::say;
use crate::output::PlainStdout;

/// The name of the table of sites, and the ending of traces.
pub(super) const SITES: &str = "sites.tsv";
pub(super) const TRACE: &str = "trace";

/// Shows the traces of a directory, or one trace. A trace that is cut or damaged is shown as far as
/// it can be read.
pub(super) fn call_trace(path: &Path) -> Result<CommandOutcome> {
    let is_folder = path.is_dir();
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = if is_folder { path } else { parent };
    let traces = if is_folder { traces(folder)? } else { vec![path.to_owned()] };
    let sites = read_sites(&folder.join(SITES))?;
    let mut unread = 0;
    for trace in &traces {
        if let Err(e) = show(trace, &sites) {
            say(&format!("error: {e:#}"));
            unread += 1;
        }
    }
    match unread {
        0 => Ok(CommandOutcome::Done),
        n => bail!("{n} of {} call traces could not be read to the end", traces.len()),
    }
}

/// The traces of a directory, by name.
fn traces(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut all = entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    all.retain(|path| path.extension().is_some_and(|e| e == TRACE));
    all.sort();
    if all.is_empty() {
        bail!(
            "{} has no call traces (*.{TRACE}); name the directory that `jportal export call-trace -o` wrote",
            folder.display()
        );
    }
    Ok(all)
}

fn read_sites(path: &Path) -> Result<SiteTable> {
    let file = File::open(path).with_context(|| {
        format!("cannot read {}, the table of sites, which must be beside the traces", path.display())
    })?;
    SiteTable::read(&mut BufReader::new(file)).with_context(|| path.display().to_string())
}

fn show(path: &Path, sites: &SiteTable) -> Result<()> {
    let name = || path.display().to_string();
    let mut file = File::open(path).with_context(name)?;
    let trace = CallTrace::read(&mut file).with_context(name)?;
    let mut out = PlainStdout::default();
    let file_name = path.file_name().ok_or_else(|| anyhow!("{} is no file", name()))?.to_string_lossy();
    writeln!(out, "thread {} in {file_name}", trace.tid().get())?;
    let shown = decode(trace, sites, &mut out);
    out.flush()?;
    shown.with_context(name)
}
