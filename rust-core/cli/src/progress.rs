// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A progress line on the terminal for work that takes longer than two seconds. Prints nothing
//! to pipes.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Progress of one decode or of other work that reads a trace. The line is cleared when this is
/// dropped.
pub(crate) struct ProgressLine {
    /// `None` if stderr is no terminal. At first it measures the rate and shows nothing.
    bar: Option<ProgressBar>,
    begun: Instant,
    shown: bool,
    done: u64,
    all: u64,
}

const SILENT: Duration = Duration::from_secs(2);
/// Most redraws in a second.
const RATE: u8 = 5;
/// The clock is read once in this number of items: `update` may be called for each event.
const STEP: u64 = 1 << 14;

impl ProgressLine {
    /// Shows nothing at first. `verb` is the action on the bytes of trace.
    pub(crate) fn new(verb: &'static str) -> Self {
        Self::counting(verb, "MB of trace")
    }
    /// Like `new`, for items other than bytes. `unit` names a million of them.
    pub(crate) fn counting(verb: &'static str, unit: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar(verb, unit, ProgressDrawTarget::hidden()));
        Self { bar, begun: Instant::now(), shown: false, done: 0, all: 0 }
    }
    /// `done` of `all` bytes or other items are finished.
    pub(crate) fn update(&mut self, done: u64, all: u64) {
        let Some(bar) = &self.bar else { return };
        if all == self.all && done.abs_diff(self.done) < STEP {
            return;
        }
        self.done = done;
        if all != self.all {
            self.all = all;
            bar.set_length(all);
        }
        if !self.shown && self.begun.elapsed() >= SILENT {
            self.shown = true;
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(RATE));
        }
        bar.set_position(done);
    }
}

fn bar(verb: &'static str, unit: &'static str, target: ProgressDrawTarget) -> ProgressBar {
    let template = "jportal: {prefix} {percent}% ({done} of {all} {msg}, {rate}/s), about {eta} left";
    // A test shows that the template is valid.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style
        .with_key("done", |state: &ProgressState, to: &mut dyn Write| {
            let _ = write!(to, "{}", state.pos() / 1_000_000);
        })
        .with_key("all", |state: &ProgressState, to: &mut dyn Write| {
            let _ = write!(to, "{}", state.len().unwrap_or(0) / 1_000_000);
        })
        .with_key("rate", |state: &ProgressState, to: &mut dyn Write| {
            let _ = write!(to, "{:.1}", state.per_sec() / 1e6);
        });
    ProgressBar::with_draw_target(Some(0), target).with_style(style).with_prefix(verb).with_message(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::sync::{Arc, Mutex};

    /// A terminal that keeps what is written to it. It notes the clear of a line as a line feed.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn put(&self, s: &str) -> std::io::Result<()> {
            self.0.lock().unwrap().push_str(s);
            Ok(())
        }
        fn last(&self) -> String {
            self.0.lock().unwrap().rsplit('\n').next().unwrap().trim_end().to_owned()
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn write_line(&self, s: &str) -> std::io::Result<()> {
            self.put(s)
        }
        fn write_str(&self, s: &str) -> std::io::Result<()> {
            self.put(s)
        }
        fn clear_line(&self) -> std::io::Result<()> {
            self.put("\n")
        }
        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn words() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let bar = bar("decoding", "MB of trace", target);
        bar.set_length(100_000_000);
        bar.set_position(25_000_000);
        bar.tick();
        let text = screen.last();
        assert!(text.starts_with("jportal: decoding 25% (25 of 100 MB of trace, "), "{text}");
        assert!(text.ends_with(" left") && text.contains("/s), about "), "{text}");
        drop(bar);
        assert_eq!(screen.last(), "", "the line is cleared");
    }

    #[test]
    fn nothing_is_shown_at_first() {
        let bar = bar("decoding", "MB of trace", ProgressDrawTarget::hidden());
        let mut line = ProgressLine { bar: Some(bar), begun: Instant::now(), shown: false, done: 0, all: 0 };
        line.update(STEP, 10 * STEP);
        assert!(!line.shown);
        line.begun -= SILENT;
        line.update(2 * STEP - 1, 10 * STEP);
        assert!(!line.shown, "less than a step");
        line.update(2 * STEP, 10 * STEP);
        assert!(line.shown);
    }
}
