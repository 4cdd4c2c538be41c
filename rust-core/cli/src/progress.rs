// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A progress line on the terminal for work that takes longer than two seconds. Prints nothing
//! to pipes.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Progress of one decode or of other work that reads a trace.
pub(crate) struct ProgressLine {
    verb: &'static str,
    /// The name of a million of the counted items.
    unit: &'static str,
    terminal: bool,
    begun: Instant,
    shown: Option<Instant>,
}

const SILENT: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_millis(200);

impl ProgressLine {
    /// Shows nothing at first. `verb` is the action on the bytes of trace.
    pub(crate) fn new(verb: &'static str) -> Self {
        Self::counting(verb, "MB of trace")
    }
    /// Like `new`, for items other than bytes. `unit` names a million of them.
    pub(crate) fn counting(verb: &'static str, unit: &'static str) -> Self {
        Self { verb, unit, terminal: std::io::stderr().is_terminal(), begun: Instant::now(), shown: None }
    }
    /// `done` of `all` bytes or other items are finished.
    pub(crate) fn update(&mut self, done: u64, all: u64) {
        let now = Instant::now();
        let due = self.shown.map_or(self.begun + SILENT, |t| t + EVERY);
        if !self.terminal || now < due {
            return;
        }
        self.shown = Some(now);
        eprint!("\r\x1b[Kjportal: {}", text((self.verb, self.unit), done, all, now - self.begun));
        let _ = std::io::stderr().flush();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn text((verb, unit): (&str, &str), done: u64, all: u64, elapsed: Duration) -> String {
    let mb = |n: u64| n / 1_000_000;
    let share = (100 * done.min(all)).checked_div(all).unwrap_or(100);
    let rest = match done {
        0 => String::new(),
        done => {
            let left = elapsed.as_secs_f64() * (all.saturating_sub(done)) as f64 / done as f64;
            format!(", about {left:.0} s left")
        }
    };
    format!("{verb} {share}% ({} of {} {unit}){rest}", mb(done), mb(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let mb = "MB of trace";
        let t = text(("decoding", mb), 25_000_000, 100_000_000, Duration::from_secs(5));
        assert_eq!(t, "decoding 25% (25 of 100 MB of trace), about 15 s left");
        assert_eq!(text(("degrading", mb), 0, 0, SILENT), "degrading 100% (0 of 0 MB of trace)");
    }
}
