// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report jit`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use jportal::analyses::jit::{CodeClock, CompilationLog, JitAnalysis, JitOptions};
use jportal::{Fill, Tsc};

use super::{Subject, show};
use crate::args::{Classes, JitArgs, JitList};
use crate::output::ResultKind;
use crate::{CommandOutcome, decode, say};

const KIND: ResultKind = ResultKind::new("report-jit", Some("nmethods"));

pub(super) fn jit(args: &JitArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    if Fill::from(common.infer.recover()) != Fill::Nothing {
        bail!(
            "report jit does not fill gaps, because no compiled code is known to have run there; leave out --gaps fill"
        );
    }
    let log = args.log_compilation.as_deref().map(read_log).transpose()?;
    let subject = Subject::of(common)?;
    let compilations = Arc::new(subject.capture.compilations());
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = JitAnalysis::new(methods, inlined, compilations).on_core(subject.capture.clock());
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let header = subject.capture.recording().reader().header();
    let options = JitOptions {
        top: args.top,
        clock: CodeClock { start: Tsc(header.start_tsc), khz: header.tsc_khz },
        whole: common.decode.threads.is_empty() && common.range.from.is_none() && common.range.to.is_none(),
        log: log.as_ref(),
    };
    let report = answer.analysis.report(options, |m| common.scope.selects(m, Classes::All));
    let rows = match args.list {
        JitList::Nmethods => "nmethods",
        JitList::Sites => "sites",
        JitList::Branches => "branches",
        JitList::Deoptimisations => "deoptimisations",
        JitList::Untaken => "untaken",
    };
    let kind = ResultKind { rows: Some(rows), ..KIND };
    show(common, kind, &report, || report.text(), &subject.capture, &answer)
}

fn read_log(path: &Path) -> Result<CompilationLog> {
    let file = File::open(path).with_context(|| format!("{}", path.display()))?;
    let log = CompilationLog::read(BufReader::new(file));
    match log.broken() {
        Some(why) if log.is_empty() => bail!(
            "{}: {why}; write the log with -XX:+UnlockDiagnosticVMOptions -XX:+LogCompilation -XX:LogFile=FILE",
            path.display()
        ),
        Some(why) => say(&format!("warning: {}: {why}", path.display())),
        None => {}
    }
    Ok(log)
}
