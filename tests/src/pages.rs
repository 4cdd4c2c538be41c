// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The `jportal` command lines of README and the book.

use std::path::{Path, PathBuf};

use crate::Result;

/// A command line of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The page, from the root of the repository.
    pub page: String,
    /// The line of the page, from 1.
    pub line: usize,
    /// The arguments of `jportal`.
    pub words: Vec<String>,
    /// The file to which the shell writes the output.
    pub to: Option<String>,
}

/// The command lines of README and its siblings, and of the book's pages, except for the pages
/// that clap generates. A line of a fence that begins with `jportal` is a command line. So is a
/// span of code in a sentence if it has an operand, such as `jportal info CAPTURE`; without one,
/// it only names a command.
///
/// # Errors
/// A page cannot be read, or a quotation does not end.
pub fn command_lines(root: &Path) -> Result<Vec<CommandLine>> {
    let mut all = Vec::new();
    for path in pages(root)? {
        let text = std::fs::read_to_string(&path)?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        all.extend(of_page(&name, &text)?);
    }
    Ok(all)
}

fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let siblings = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    let mut all: Vec<PathBuf> = siblings.iter().map(|name| root.join(name)).collect();
    for folder in ["docs", "docs/notes", "docs/schemas"] {
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            pages.extend(path.extension().is_some_and(|e| e == "md").then_some(path));
        }
        pages.sort();
        all.extend(pages);
    }
    Ok(all)
}

fn of_page(page: &str, text: &str) -> Result<Vec<CommandLine>> {
    let mut all = Vec::new();
    let mut fenced = false;
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let mut line = line.to_owned();
        while let Some(rest) = line.strip_suffix('\\').filter(|_| fenced) {
            let Some((_, next)) = lines.next() else { break };
            line = rest.to_owned() + next.trim_start();
        }
        let spans: Vec<&str> = match (is_fence, fenced) {
            (true, _) => Vec::new(),
            (false, true) => vec![line.trim()],
            (false, false) => line.split('`').skip(1).step_by(2).filter(|span| has_operand(span)).collect(),
        };
        for span in spans {
            let command = span.trim_start_matches("$ ");
            let command = command.strip_prefix("build/bin/").unwrap_or(command);
            let Some(arguments) = command.strip_prefix("jportal ") else { continue };
            let words = words(arguments).ok_or_else(|| format!("{page}:{}: an open quotation", n + 1))?;
            let (words, to) = match words.iter().position(|word| word == ">") {
                Some(at) => (words[..at].to_vec(), words.get(at + 1).cloned()),
                None => (words, None),
            };
            all.push(CommandLine { page: page.to_owned(), line: n + 1, words, to });
        }
    }
    Ok(all)
}

/// Whether a span of code has a path or a word in capitals that is not the value of an option.
fn has_operand(span: &str) -> bool {
    let is_operand = |word: &str| {
        let stem = word.split('.').next().unwrap_or_default();
        let is_capital = stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase() || c == '-');
        !word.starts_with('-') && (is_capital || word.contains('/'))
    };
    span.split_whitespace().skip(1).any(is_operand)
}

/// The words that a shell makes of a line, up to a comment. `None` if a quotation does not end.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let all = |line| words(line).unwrap();
        assert_eq!(all("a  'b c'd \"\" e#f # g"), ["a", "b cd", "", "e#f"]);
        assert_eq!(words("a 'b"), None);
    }

    #[test]
    fn fences_and_complete_spans_have_command_lines() {
        let text = "`jportal info` and `jportal info CAPTURE`, `jportal x -o a/b`, `jportal y T`\n\
                    ```\n$ jportal a \\\n  b > c\n  jportal: output\nbuild/bin/jportal d # e\njportals f\n```\n\
                    jportal g H\n";
        let found = of_page("p", text).unwrap();
        let command = |line, words: &[&str], to: Option<&str>| CommandLine {
            page: "p".into(),
            line,
            words: words.iter().map(ToString::to_string).collect(),
            to: to.map(str::to_owned),
        };
        let expected = [
            command(1, &["info", "CAPTURE"], None),
            command(1, &["x", "-o", "a/b"], None),
            command(3, &["a", "b"], Some("c")),
            command(6, &["d"], None),
        ];
        assert_eq!(found, expected);
        assert!(of_page("p", "```\njportal 'a\n```").is_err());
    }

    #[test]
    fn these_pages_have_command_lines() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let all = command_lines(&root).unwrap();
        let of = |page: &str| all.iter().filter(|c| c.page == page).count();
        assert!(all.len() >= 60 && of("README.md") == 5 && of("docs/reports.md") >= 10, "{all:#?}");
    }
}
