// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Makes names and messages of foreign origin plain text.
//!
//! Names of methods, classes, threads and files, and messages in a capture, may contain any
//! character: line feeds, which forge lines of our output; escape sequences, which a terminal
//! obeys; characters that change the direction of the text after them; and invisible
//! characters. Text for people shows these as escapes. JSON has its own escapes and does not
//! use this crate.
//!
//! Two functions together cover all output: [`line()`] is applied where a line is composed of
//! foreign names, and [`lines`] to all text that leaves the command, whatever its origin.
//! [`table`] applies the former to its cells.
#![forbid(unsafe_code)]

pub mod table;

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is shown as an escape: it controls the terminal, ends a line, changes
/// the direction of the text, or is invisible.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !is_escaped(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string does not fail.
            _ if c.is_ascii() => drop(write!(out, "\\x{:02x}", c as u32)),
            _ => drop(write!(out, "\\u{{{:x}}}", c as u32)),
        }
    }
    Cow::Owned(out)
}

/// Escapes a text that is to stay on one line.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_escaped)
}

/// Escapes a text of several lines whose foreign parts went through [`line()`]. Line feeds stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_escaped(c))
}

/// At most `most` characters of `text`: a longer text is reduced to its beginning and its end.
/// `most` is at least 3.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    // A character has at least one byte, so the characters of most texts need not be counted.
    if text.len() <= most || text.chars().count() <= most {
        return Cow::Borrowed(text);
    }
    let tail = (most - 1) / 2;
    let head = most - 1 - tail;
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |c| c.0);
    let back = text.char_indices().rev().nth(tail.saturating_sub(1)).map_or(0, |c| c.0);
    Cow::Owned(format!("{}…{}", &text[..at(head)], if tail == 0 { "" } else { &text[back..] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        assert_eq!(line("f\nthread \"fake\""), "f\\nthread \"fake\"");
        assert_eq!(line("\x1b[31mred\x07\r\t\x7f\u{9b}2J"), "\\x1b[31mred\\x07\\r\\t\\x7f\\u{9b}2J");
        assert_eq!(
            line("a\u{202e}b\u{2066}c\u{200b}d\u{2028}e"),
            "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{2028}e"
        );
        assert_eq!(lines("a\nb\x1b[0m\n"), "a\nb\\x1b[0m\n");
        assert!(matches!(line("naïve.日本 ≥ – …"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("abcdefgh", 8), "abcdefgh");
        assert_eq!(shortened("abcdefghi", 8), "abcd…ghi");
        assert_eq!(shortened("äöüäöüäöü", 3), "ä…ü");
        assert_eq!(shortened("äöü", 3), "äöü");
        let long = shortened(&"x".repeat(65_520), 100).into_owned();
        assert_eq!(long.chars().count(), 100);
    }
}
