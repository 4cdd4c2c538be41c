// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Puts HotSpot's log of its compilers beside the recording of the same run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::JitAnalysis;
use super::compilation::Compilation;
use super::log::{CompilationLog, LogTrap, TaskKey};
use super::report::DeoptRow;
use crate::names::Names;

/// Something of the log that the recording does not have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogOnly {
    /// The compilation.
    pub compile_id: u32,
    /// Whether it is one for on-stack replacement.
    pub osr: bool,
    /// What the log says of it.
    pub what: String,
}

/// Uncommon traps of one compilation at one place of which log and flow say different numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrapMismatch {
    /// The compilation.
    pub compile_id: u32,
    /// Whether it is one for on-stack replacement.
    pub osr: bool,
    /// The innermost method: `class.name(descriptor)`.
    pub method: String,
    /// Its position.
    pub bci: i32,
    /// HotSpot's name of the reason; `null` if the code does not say it.
    pub reason: Option<String>,
    /// How often the log has it.
    pub log: u64,
    /// How often the flow has it.
    pub flow: u64,
}

/// The comparison of a recording with HotSpot's log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogJoin {
    /// Why the log was not read to its end.
    pub broken: Option<String>,
    /// Compilations that both have, with the same level.
    pub matched: usize,
    /// Compilations of the log that the recording does not have, or has with another level.
    pub log_only: Vec<LogOnly>,
    /// Number of these.
    pub all_log_only: usize,
    /// Compilations of the recording that the log does not have.
    pub recording_only: Vec<u32>,
    /// Number of these.
    pub all_recording_only: usize,
    /// Compilations that became not entrant by both.
    pub not_entrant: usize,
    /// Those that did by only one of both: compilation, and whether it is the log.
    pub not_entrant_differs: Vec<(u32, bool)>,
    /// Uncommon traps that both have, at the same bytecode for the same reason.
    pub traps: u64,
    /// Those of which they say different numbers.
    pub traps_differ: Vec<TrapMismatch>,
    /// Number of these.
    pub all_traps_differ: usize,
    /// Frames that the VM deoptimised, by the log. The flow shows them when control comes back to
    /// them.
    pub deoptimised_by_vm: usize,
    /// Tasks that made no code, by HotSpot's reason.
    pub failed_tasks: BTreeMap<String, u64>,
    /// Elements of the log that were not used, by name.
    pub unused: BTreeMap<String, u64>,
    /// Elements of the log that lack an attribute, by name.
    pub damaged: BTreeMap<String, u64>,
}

const fn key(c: &Compilation) -> TaskKey {
    (c.compile_id, c.osr_bci.is_some())
}

/// A place of a trap: compilation, method, bci, reason.
type TrapPlace = (TaskKey, String, i32, Option<String>);

impl LogJoin {
    /// `deopts`: all deoptimisations of the flow. Lists have at most `top` rows.
    pub(super) fn new(
        of: &JitAnalysis,
        log: &CompilationLog,
        deopts: &[DeoptRow],
        names: &Names<'_>,
        top: usize,
    ) -> Self {
        let all = of.compilations.all();
        let known: BTreeMap<TaskKey, &Compilation> = all.iter().map(|c| (key(c), c)).collect();
        let mut logged = BTreeSet::new();
        let (mut matched, mut log_only) = (0, Vec::new());
        for n in &log.nmethods {
            let (compile_id, osr) = (n.compile_id, n.osr);
            logged.insert((compile_id, osr));
            let what = match known.get(&(compile_id, osr)) {
                Some(c) if c.level == n.level && names_agree(c, &n.method, names) => {
                    matched += 1;
                    continue;
                }
                Some(c) => format!("level {} {}, in the recording level {}", n.level, n.method, c.level),
                None => format!("level {} {}", n.level, n.method),
            };
            log_only.push(LogOnly { compile_id, osr, what });
        }
        let mut recording_only: Vec<u32> =
            known.iter().filter(|(key, _)| !logged.contains(*key)).map(|(key, _)| key.0).collect();
        let by_log: BTreeSet<TaskKey> = log.not_entrant.iter().copied().collect();
        let ended = all.iter().filter(|c| c.not_entrant().is_some());
        let by_us: BTreeSet<TaskKey> = ended.map(key).collect();
        let differs = by_log.symmetric_difference(&by_us).map(|k| (k.0, by_log.contains(k)));
        let mut failed_tasks: BTreeMap<String, u64> = BTreeMap::new();
        for task in log.tasks.values().filter(|t| t.success == Some(false)) {
            let why = task.failure.clone().unwrap_or_else(|| "(not said)".to_owned());
            *failed_tasks.entry(why).or_default() += 1;
        }
        let (traps, mut traps_differ) = compare_traps(&log.traps, deopts);
        let (all_log_only, all_recording_only) = (log_only.len(), recording_only.len());
        let all_traps_differ = traps_differ.len();
        log_only.truncate(top);
        recording_only.truncate(top);
        traps_differ.truncate(top);
        Self {
            broken: log.broken.clone(),
            matched,
            log_only,
            all_log_only,
            recording_only,
            all_recording_only,
            not_entrant: by_log.intersection(&by_us).count(),
            not_entrant_differs: differs.collect(),
            traps,
            traps_differ,
            all_traps_differ,
            deoptimised_by_vm: log.deoptimised.len(),
            failed_tasks,
            unused: log.unused.clone(),
            damaged: log.damaged.clone(),
        }
    }
}

/// Whether the log means the same method. A method that the recording does not describe may be any.
fn names_agree(c: &Compilation, logged: &str, names: &Names<'_>) -> bool {
    c.method.is_none_or(|m| {
        let name = names.get(m).qualified();
        name == logged || crate::names::stable_qualified(&name) == crate::names::stable_qualified(logged)
    })
}

/// The traps that log and flow have at the same places, and the places where numbers differ.
fn compare_traps(logged: &[LogTrap], deopts: &[DeoptRow]) -> (u64, Vec<TrapMismatch>) {
    let mut places: BTreeMap<TrapPlace, (u64, u64)> = BTreeMap::new();
    for trap in logged {
        let place = ((trap.compile_id, trap.osr), trap.method.clone(), trap.bci, Some(trap.reason.clone()));
        places.entry(place).or_default().0 += 1;
    }
    for row in deopts.iter().filter(|row| row.kind == "uncommon-trap") {
        let bci = row.bci.map_or(-1, i32::from);
        let reason = row.reason.map(str::to_owned);
        let place = ((row.compile_id, row.osr), row.method.clone(), bci, reason);
        places.entry(place).or_default().1 += row.times;
    }
    let same = places.values().map(|(log, flow)| log.min(flow)).sum();
    let differ = places.into_iter().filter(|(_, (log, flow))| log != flow);
    let mismatch = |((key, method, bci, reason), (log, flow)): (TrapPlace, (u64, u64))| TrapMismatch {
        compile_id: key.0,
        osr: key.1,
        method,
        bci,
        reason,
        log,
        flow,
    };
    (same, differ.map(mismatch).collect())
}
