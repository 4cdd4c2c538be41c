// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a capture, decoded and analysed as the commands do. The last byte selects how.
#![no_main]

use std::num::NonZeroUsize;
use std::sync::Arc;

use jportal::analyses::Threads;
use jportal::analyses::calls::CallsAnalysis;
use jportal::analyses::coverage::CoverageAnalysis;
use jportal::analyses::hot::HotAnalysis;
use jportal::analyses::jit::{CodeClock, JitAnalysis, JitOptions};
use jportal::analyses::paths::PathsAnalysis;
use jportal::analyses::tree::{Options, TreeAnalysis};
use jportal::units::Tsc;
use jportal::validate::check::{CheckOptions, Checker};
use jportal::{Capture, Fill, Place, Positions};
use jportal_fuzz_targets::{file, repaired};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&options, data)) = data.split_last() else { return };
    let path = file("a.jportal", &repaired(data));
    let Ok(capture) = Capture::open(&path) else { return };
    let is = |bit: u8| options >> bit & 1 == 1;
    let (methods, inlined) = (Arc::new(capture.methods().clone()), Arc::new(capture.inlined()));
    let query = capture.query().jobs(NonZeroUsize::MIN);
    let query = query.positions(if is(0) { Positions::DebugInfo } else { Positions::Markers });
    let query = query.place(if is(1) { Place::Indexed } else { Place::Nothing });
    let query = query.fill(if is(2) { Fill::Follow } else { Fill::Nothing });
    match options >> 3 & 7 {
        0 => {
            drop(query.run(HotAnalysis::new(methods, inlined)).map(|a| a.analysis.report(9, |_| true).text()))
        }
        1 => drop(
            query.run(CallsAnalysis::new(methods, inlined)).map(|a| a.analysis.report(9, |_| true).text()),
        ),
        2 => drop(
            query.run(TreeAnalysis::new(methods, inlined, Options::default())).map(|a| a.analysis.tree()),
        ),
        3 => drop(query.run(CoverageAnalysis::new(methods, inlined)).map(|a| a.analysis.report(|_| true))),
        4 => {
            let jit = JitAnalysis::new(methods, inlined, Arc::new(capture.compilations()));
            let header = capture.recording().reader().header();
            let clock = CodeClock { start: Tsc(header.start_tsc), khz: header.tsc_khz };
            let options = JitOptions { top: 9, clock, whole: true, log: None };
            drop(
                query.run(jit.on_core(capture.clock())).map(|a| a.analysis.report(options, |_| true).text()),
            );
        }
        5 => drop(query.run(PathsAnalysis::new(methods, inlined))),
        _ => {
            let checker = Checker::new(methods, CheckOptions { keep: 9 });
            if let Ok(answer) = query.run((Threads::default(), checker)) {
                let _ = (answer.analysis.0.totals(), answer.analysis.1.report());
            }
        }
    }
});
