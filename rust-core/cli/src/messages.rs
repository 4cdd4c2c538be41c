// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Messages on stderr.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use crate::args::{Cli, Colour};

/// How messages are shown.
#[derive(Clone, Copy, Debug, Default)]
struct MessageStyle {
    coloured: bool,
    verbose: bool,
}

static SETTINGS: OnceLock<MessageStyle> = OnceLock::new();

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const PLAIN: &str = "\x1b[0m";

/// Sets what the arguments ask for. Before, messages have no colours.
pub(crate) fn set_up(cli: &Cli) {
    let coloured = match cli.color {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            let is_set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            std::io::stderr().is_terminal() && !is_set("NO_COLOR") && !dumb
        }
    };
    SETTINGS.get_or_init(|| MessageStyle { coloured, verbose: cli.verbose });
}

fn settings() -> MessageStyle {
    SETTINGS.get().copied().unwrap_or_default()
}

/// Prints a message of ours as one line to stderr. The prefix distinguishes it from the traced
/// program's output.
pub(crate) fn say(text: &str) {
    let line = jportal_plain::line(text.trim_end());
    // An error is ignored: there is no other way to report it.
    let _ = writeln!(std::io::stderr().lock(), "jportal: {}", painted(&line, settings().coloured));
}

/// Prints a message that only `--verbose` shows.
pub(crate) fn detail(text: impl FnOnce() -> String) {
    if settings().verbose {
        say(&text());
    }
}

/// The line with its first word in colour, if it is `error:` or `warning:`.
fn painted(line: &str, coloured: bool) -> String {
    for (word, colour) in [("error:", RED), ("warning:", YELLOW)] {
        if let Some(rest) = line.strip_prefix(word).filter(|_| coloured) {
            return format!("{colour}{word}{PLAIN}{rest}");
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_has_a_colour() {
        assert_eq!(painted("error: x", true), "\x1b[1;31merror:\x1b[0m x");
        assert_eq!(painted("warning: error: x", true), "\x1b[1;33mwarning:\x1b[0m error: x");
        assert_eq!((painted("error: x", false), painted("x", true)), ("error: x".into(), "x".into()));
    }
}
