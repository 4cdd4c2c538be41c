// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The host thread: carries out the VM's commands, moves queued trace into the rings and
//! publishes the counters.
//!
//! It is not a guest thread: it may wait for cores and rings, and guest threads may wait for
//! it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use jportal_perf_abi::emulated::Counter;

use crate::clock;
use crate::config::OnFull;
use crate::outlet::Totals;
use crate::plugin::Plugin;

const PERIOD: Duration = Duration::from_micros(500);
/// Maximum time in milliseconds that a thread may have no event while its section of a stream
/// is open.
const LONGEST_STAY_MS: u64 = 2000;
/// Rounds of the host thread between two checks for such threads.
const STAY_ROUNDS: u64 = 1000;
/// Exit status of a run that was ended because its trace could not be kept.
const EXIT_LIMIT: i32 = 112;

/// State of the host thread.
#[derive(Debug, Default)]
pub struct Host {
    /// Generation of the command that was carried out last.
    generation: u64,
    /// Whether that command has been acknowledged.
    acknowledged: bool,
    rounds: u64,
    /// Number of TSC ticks after which the host thread ends a detached stay.
    longest_stay: u64,
}

/// Runs until the process exits.
pub fn run(plugin: &'static Plugin) {
    let longest_stay = plugin.shared.config().tsc_khz.saturating_mul(LONGEST_STAY_MS);
    let mut host = Host { acknowledged: true, longest_stay, ..Host::default() };
    while !plugin.exiting.load(Relaxed) {
        host.step(plugin);
        std::thread::sleep(PERIOD);
    }
}

impl Host {
    /// One round.
    pub fn step(&mut self, plugin: &Plugin) {
        if plugin.shared.generation() != self.generation {
            self.command(plugin);
        }
        self.rounds += 1;
        if self.rounds.is_multiple_of(STAY_ROUNDS) {
            plugin.scheduler.end_stays_before(clock::tsc().saturating_sub(self.longest_stay));
        }
        let settled = plugin.scheduler.settled();
        let queued = advance(plugin);
        plugin.peak.fetch_max(queued, Relaxed);
        if plugin.config.mode == OnFull::Stall && queued > plugin.config.limit {
            give_up(plugin, queued);
        }
        publish(plugin);
        let is_drained = is_drained(plugin);
        if let Some(tsc) = settled.filter(|_| is_drained) {
            plugin.shared.set_complete_until(tsc);
        }
        if !self.acknowledged && is_drained {
            self.acknowledged = true;
            plugin.shared.acknowledge(self.generation);
        }
    }

    fn command(&mut self, plugin: &Plugin) {
        let command = plugin.shared.command();
        self.generation = command.generation;
        self.acknowledged = false;
        if command.enabled {
            match plugin.filter.set(command.low, command.high) {
                Ok(()) => {
                    for outlet in &plugin.outlets {
                        outlet.lock().unwrap_or_else(|e| e.into_inner()).set_overwrite(command.overwrite);
                    }
                    plugin.filter.activate(command.high > command.low);
                }
                Err((low, high)) => {
                    let text = format!(
                        "the filter is {low:#x}..{high:#x} and cannot become {:#x}..{:#x}",
                        command.low, command.high
                    );
                    plugin.log.error(&text);
                    plugin.shared.fail(&text);
                }
            }
        } else {
            stop(plugin);
        }
        plugin.log.line(&format!("command {command:x?}"));
    }
}

/// Ends tracing on every core: sends the last packets and writes the AUX records.
fn stop(plugin: &Plugin) {
    plugin.filter.activate(false);
    plugin.scheduler.stop_all(|n, core| {
        for text in core.take_anomalies() {
            plugin.log.error(&format!("core {n}: {text}"));
        }
        if let Err(e) = core.flush_truth() {
            plugin.log.error(&format!("record of executed blocks: {e}"));
        }
        plugin.log.line(&format!("core {n}: {:?} {:?}", core.counts(), core.sent()));
    });
    plugin.flush_code_log();
}

/// Moves queued trace into the rings; returns the bytes that are still queued.
fn advance(plugin: &Plugin) -> u64 {
    let mut queued = 0;
    for outlet in &plugin.outlets {
        let mut outlet = outlet.lock().unwrap_or_else(|e| e.into_inner());
        outlet.advance();
        queued += outlet.queued();
    }
    plugin.queued.store(queued, Relaxed);
    queued
}

fn is_drained(plugin: &Plugin) -> bool {
    plugin.outlets.iter().all(|o| o.lock().unwrap_or_else(|e| e.into_inner()).is_drained())
}

fn totals(plugin: &Plugin) -> Totals {
    let mut sum = Totals::default();
    for outlet in &plugin.outlets {
        let t = outlet.lock().unwrap_or_else(|e| e.into_inner()).totals();
        sum.bytes += t.bytes;
        sum.lost_bytes += t.lost_bytes;
        sum.losses += t.losses;
        sum.lost_records += t.lost_records;
        sum.switches += t.switches;
    }
    sum
}

fn publish(plugin: &Plugin) {
    let t = totals(plugin);
    let (blocks, anomalies) = plugin
        .boards
        .iter()
        .fold((0, 0), |(b, a), board| (b + board.blocks.load(Relaxed), a + board.anomalies.load(Relaxed)));
    let (undecodable, handlers) = plugin.translation_anomalies();
    for (counter, value) in [
        (Counter::TraceBytes, t.bytes),
        (Counter::LostBytes, t.lost_bytes),
        (Counter::Losses, t.losses),
        (Counter::LostRecords, t.lost_records),
        (Counter::Switches, t.switches),
        (Counter::PeakQueue, plugin.peak.load(Relaxed)),
        (Counter::Blocks, blocks),
        (Counter::Anomalies, anomalies + undecodable + handlers),
    ] {
        plugin.shared.set_counter(counter, value);
    }
}

fn give_up(plugin: &Plugin, queued: u64) {
    let text = format!(
        "{queued} bytes of trace wait for the drain, more than limit={}: use larger rings (aux=), a larger limit= or mode=drop",
        plugin.config.limit
    );
    plugin.log.error(&text);
    plugin.shared.fail(&text);
    // SAFETY: ends the process at once. The guest cannot continue without losing trace, and the
    // queued trace must not pass for a complete recording.
    unsafe { libc::_exit(EXIT_LIMIT) }
}

/// The process ends. QEMU holds every guest thread outside of callbacks.
pub fn exit(plugin: &Plugin) {
    if plugin.exiting.swap(true, Relaxed) {
        return;
    }
    stop(plugin);
    let left = advance(plugin);
    publish(plugin);
    if left > 0 && !plugin.shared.is_finished() {
        let text = format!("the process ended with {left} bytes of trace not drained");
        plugin.log.error(&text);
        plugin.shared.fail(&text);
    }
    plugin.shared.acknowledge(plugin.shared.generation());
    plugin.log.line(&format!("{:?}, most bytes queued {}", totals(plugin), plugin.peak.load(Relaxed)));
    let (undecodable, handlers) = plugin.translation_anomalies();
    plugin.log.line(&format!("undecodable blocks {undecodable}, handlers inside the range {handlers}"));
}

/// Starts the host thread with every signal blocked: QEMU's handlers must not run on it.
pub fn spawn(plugin: &'static Plugin) -> std::io::Result<()> {
    // SAFETY: `all` and `old` are plain data that the calls fill in; blocking every signal for the
    // moment of thread creation changes nothing else, and the old mask is restored.
    let old = unsafe {
        let mut all = std::mem::zeroed();
        let mut old = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let result = std::thread::Builder::new().name("jportal-pt".into()).spawn(move || run(plugin));
    // SAFETY: `old` was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    result.map(|_| ())
}
