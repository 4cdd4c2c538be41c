// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The comments of sources in other languages than Rust.

use std::io::Read as _;
use std::path::Path;

/// How a language writes comments and strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// `//` and `/* */`: C, C++, Java, JavaScript.
    Braces,
    /// `#`: shell, Python.
    Script,
    /// A patch of C++ sources. Only what it adds counts.
    Patch,
}

impl Language {
    /// The language of a file. `None` if it is none of these.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension().map(|e| e.to_string_lossy()).as_deref() {
            Some("c" | "h" | "cpp" | "hpp" | "java" | "js" | "mjs") => Some(Self::Braces),
            Some("sh" | "py") => Some(Self::Script),
            Some("patch") => Some(Self::Patch),
            Some(_) => None,
            None => begins_as_script(path).then_some(Self::Script),
        }
    }
}

/// Whether a file's first two bytes name an interpreter.
fn begins_as_script(path: &Path) -> bool {
    let mut begin = [0; 2];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *b"#!"
}

/// The comments of a text: the number of the line, from 0, and the comment's part of it. A line
/// that begins with a comment is taken whole, so that its columns count.
pub(super) fn of(text: &str, language: Language) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    match language {
        Language::Script => lines.filter(|(_, line)| line.trim_start().starts_with('#')).collect(),
        Language::Patch => {
            let added = lines.filter_map(|(n, line)| Some((n, line.strip_prefix('+')?)));
            added.filter(|(_, line)| line.trim_start().starts_with("//")).collect()
        }
        Language::Braces => {
            let mut state = State::Code;
            lines.filter_map(|(n, line)| state.comment(line).map(|part| (n, part))).collect()
        }
    }
}

/// What a line begins in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    Comment,
    /// A string of several lines, with the text that ends it.
    Text(&'static str),
}

impl State {
    /// The part of the next line from its first comment on.
    fn comment<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let mut found = (*self == Self::Comment).then_some(line);
        let mut rest = line;
        loop {
            match *self {
                Self::Comment => {
                    let Some(end) = rest.find("*/") else { return found };
                    rest = &rest[end + 2..];
                    *self = Self::Code;
                }
                Self::Text(end) => {
                    let Some(at) = rest.find(end) else { return found };
                    rest = &rest[at + end.len()..];
                    *self = Self::Code;
                }
                Self::Code => {
                    let Some(at) = rest.find(['/', '"', '\'', '`']) else { return found };
                    let from = &rest[at..];
                    let begins = line.trim_start().len() == from.len();
                    if from.starts_with("//") || from.starts_with("/*") {
                        found = found.or(Some(if begins { line } else { from }));
                        if from.starts_with("//") {
                            return found;
                        }
                        (*self, rest) = (Self::Comment, &from[2..]);
                    } else if let Some(text) = from.strip_prefix("\"\"\"") {
                        (*self, rest) = (Self::Text("\"\"\""), text);
                    } else if let Some(text) = from.strip_prefix('`') {
                        (*self, rest) = (Self::Text("`"), text);
                    } else {
                        rest = after_string(from);
                    }
                }
            }
        }
    }
}

/// What follows a string or character that the text begins with, or the text's first character.
fn after_string(text: &str) -> &str {
    let mut all = text.chars();
    let Some(quote @ ('"' | '\'')) = all.next() else { return &text[1..] };
    while let Some(c) = all.next() {
        if c == '\\' {
            all.next();
        } else if c == quote {
            break;
        }
    }
    all.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_not_strings() {
        let text = "  // a\nf(\"// b\", '\"', '\\'');  // c\n/* d\n e */ g(); /* h */\n\
                    x = \"\"\"\n// i\n\"\"\"; // j\ny = a / b;\n`\n/* k\n`\n";
        let found = of(text, Language::Braces);
        let expected = [(0, "  // a"), (1, "// c"), (2, "/* d"), (3, " e */ g(); /* h */"), (6, "// j")];
        assert_eq!(found, expected);
        assert_eq!(of("# a\nb # c\n", Language::Script), [(0, "# a")]);
        assert_eq!(of("-// a\n+ // b\n // c\n", Language::Patch), [(1, " // b")]);
    }
}
