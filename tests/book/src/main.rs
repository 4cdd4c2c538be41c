// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-book`: builds the book of `docs/` and checks its links. See `scripts/book`.

#![forbid(unsafe_code)]

mod links;
mod listen;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use mdbook_driver::MDBook;
use mdbook_driver::book::BookItem;
use mdbook_driver::config::Config;

const USAGE: &str = "usage: jportal-book [ROOT]
Builds the book of ROOT/docs (docs/book.toml, docs/SUMMARY.md) into build/book, and checks it.
Exit status: 0 the book is sound, 1 mdBook warned or failed, a link is broken or a page is not in SUMMARY.md.";

/// Builds the book of the project at `root` and returns its faults.
fn build(root: &Path) -> Result<Vec<String>> {
    let docs = root.join("docs");
    let mut config = Config::from_disk(docs.join("book.toml"))?;
    // mdBook would write a page that SUMMARY.md names and that is missing.
    config.build.create_missing = false;
    let book = MDBook::load_with_config(&docs, config)?;
    book.build()?;
    let mut faults = unlisted(&book, &docs)?;
    let checked = links::check(&book.build_dir_for("html"), root, &docs)?;
    println!("{} pages, {} links", checked.pages, checked.links);
    faults.extend(checked.faults);
    Ok(faults)
}

/// Pages below `docs` that `SUMMARY.md` does not name: mdBook leaves them out.
fn unlisted(book: &MDBook, docs: &Path) -> Result<Vec<String>> {
    let listed: BTreeSet<PathBuf> = book
        .iter()
        .filter_map(|item| match item {
            BookItem::Chapter(chapter) => chapter.source_path.as_ref().map(|path| docs.join(path)),
            _ => None,
        })
        .collect();
    let is_unlisted = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "md") && !path.ends_with("SUMMARY.md") && !listed.contains(path)
    };
    let pages = links::files(docs)?.into_iter().filter(is_unlisted);
    Ok(pages.map(|path| format!("{}: not in SUMMARY.md", path.display())).collect())
}

fn run() -> Result<usize> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = std::env::args().nth(1).map_or_else(built, PathBuf::from);
    let root = root.canonicalize().with_context(|| root.display().to_string())?;
    let (result, warnings) = listen::during(|| build(&root));
    let faults = result?;
    for fault in &faults {
        eprintln!("error: {fault}");
    }
    Ok(faults.len() + warnings)
}

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--help" || a == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(faults) => {
            eprintln!("error: the book has {faults} faults");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A project whose book has `first.md` with `text` and `notes/second.md`.
    fn project(summary: &str, text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "docs/book.toml",
            "[book]\ntitle = \"T\"\nsrc = \".\"\n[build]\nbuild-dir = \"../build/book\"\n\
             [output.html]\ninput-404 = \"\"\n",
        );
        write("docs/SUMMARY.md", &format!("# Summary\n\n- [First](first.md)\n{summary}"));
        write("docs/first.md", &format!("# First\n\n{text}\n"));
        write("docs/notes/second.md", "# Second\n\n## A part, and more\n\n[First](../first.md#first)\n");
        write("tool/README.md", "# Tool\n");
        root
    }

    const BOTH: &str = "- [Second](notes/second.md)\n";

    /// Builds such a project: its faults, or the error; and the number of mdBook's warnings.
    fn built(summary: &str, text: &str) -> (Result<Vec<String>>, usize) {
        let root = project(summary, text);
        listen::during(|| build(&root.path().canonicalize().unwrap()))
    }

    fn faults(text: &str) -> Vec<String> {
        let (faults, warnings) = built(BOTH, text);
        assert_eq!(warnings, 0);
        faults.unwrap()
    }

    #[test]
    fn a_sound_book_has_no_fault() {
        let root = project(BOTH, "[there](notes/second.md#a-part-and-more) [out](../tool/README.md)");
        let (faults, warnings) = listen::during(|| build(&root.path().canonicalize().unwrap()));
        assert_eq!((faults.unwrap(), warnings), (Vec::new(), 0));
        let page = std::fs::read_to_string(root.path().join("build/book/first.html")).unwrap();
        assert!(page.contains("href=\"../../tool/README.md\""), "{page}");
        let docs = links::files(&root.path().join("docs")).unwrap();
        assert_eq!(docs.len(), 4, "nothing is generated in docs: {docs:?}");
    }

    #[test]
    fn broken_links_are_faults() {
        let found = faults("[a](notes/third.md) [b](notes/second.md#no) [c](#no) [d](../tool/NONE.md)");
        for link in ["notes/third.html", "notes/second.html#no", "#no", "../tool/NONE.html"] {
            let fault = format!("first.html: {link}: ");
            assert!(found.iter().any(|f| f.starts_with(&fault)), "{link}: {found:?}");
        }
    }

    #[test]
    fn a_page_must_be_listed() {
        let (found, _) = built("", "");
        assert!(found.unwrap().iter().any(|f| f.ends_with("second.md: not in SUMMARY.md")));
    }

    #[test]
    fn a_listed_page_must_exist() {
        let (found, _) = built("- [Second](notes/second.md)\n- [Third](third.md)\n", "");
        assert!(format!("{:#}", found.unwrap_err()).contains("third.md"));
    }

    #[test]
    fn warnings_of_mdbook_count() {
        assert_ne!(built(BOTH, "{{#include none.txt}}").1, 0);
        assert_ne!(built(BOTH, "text <b>open").1, 0);
    }
}
