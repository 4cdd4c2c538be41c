// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts the house: sizes of files and functions, prose, names of types.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::Result;
use comments::Language;

mod comments;

/// The longest line of a comment or document, in columns.
pub const MAX_COLUMNS: usize = 100;

/// The maximum number of types of one name. Each crate has an `Error`, which does not count.
pub const MOST_SHARED: usize = 2;

/// The phrases that `docs/contributing.md` bans in comments and documents: the first column of its
/// table, without what is in parentheses.
///
/// # Errors
/// There is no such document, or no such table.
pub fn banned_phrases(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("docs/contributing.md"))?;
    let rows = text.lines().skip_while(|l| !l.starts_with("| banned |")).skip(2);
    let cells = rows.take_while(|l| l.starts_with('|')).filter_map(|l| l.split(['|', '(']).nth(1));
    let phrases: Vec<String> = cells.flat_map(|c| c.split(',')).map(|p| p.trim().to_owned()).collect();
    if phrases.is_empty() {
        Err("docs/contributing.md has no table of banned phrases".into())
    } else {
        Ok(phrases)
    }
}

/// Median, 90th percentile and maximum of a list of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of values.
    pub count: usize,
    /// The median.
    pub median: usize,
    /// The value that nine tenths do not exceed.
    pub p90: usize,
    /// The maximum.
    pub max: usize,
}

impl Sizes {
    fn of(mut all: Vec<usize>) -> Self {
        all.sort_unstable();
        let at = |part: usize| all.get((all.len().saturating_sub(1)) * part / 10).copied().unwrap_or(0);
        Self { count: all.len(), median: at(5), p90: at(9), max: at(10) }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, median, p90, max } = self;
        write!(f, "{count}: median {median}, p90 {p90}, max {max}")
    }
}

/// What was counted.
#[derive(Debug)]
pub struct House {
    /// Lines per file.
    pub files: Sizes,
    /// Lines per function.
    pub functions: Sizes,
    /// Lines of comments and documents of more than [`MAX_COLUMNS`] columns: file, line, columns.
    /// Of a comment after code, only the comment itself counts. Rows of tables and lines with a URL
    /// do not count.
    pub long_lines: Vec<(PathBuf, usize, usize)>,
    /// Lines of comments and documents with a [banned phrase](banned_phrases): file, line, phrase.
    pub banned: Vec<(PathBuf, usize, String)>,
    /// Public items without a doc comment, outside of tests: file, line, name.
    pub undocumented: Vec<(PathBuf, usize, String)>,
    /// Types of the same name: the name and the files that declare it, outside of tests.
    pub same_names: BTreeMap<String, Vec<PathBuf>>,
}

impl House {
    /// The names that more than [`MOST_SHARED`] types have, with the number of these types.
    pub fn crowded_names(&self) -> Vec<(&str, usize)> {
        let all = self.same_names.iter().map(|(name, files)| (name.as_str(), files.len()));
        all.filter(|(name, types)| *types > MOST_SHARED && *name != "Error").collect()
    }
}

/// Counts the Rust sources below `rust-core` and `tests` of the project at `root`, and the comments
/// of its other sources. What is built does not count.
///
/// # Errors
/// A file cannot be read or is not Rust.
pub fn count(root: &Path) -> Result<House> {
    let mut paths = Vec::new();
    for folder in ["rust-core", "tests"] {
        sources(&root.join(folder), &mut paths)?;
    }
    paths.sort();
    let mut prose = Prose { phrases: banned_phrases(root)?, ..Prose::default() };
    for path in documents(root)? {
        let text = std::fs::read_to_string(&path)?;
        let mut fenced = false;
        let sentences = text.lines().enumerate().filter(|(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            fenced ^= is_fence;
            !fenced && !is_fence && !line.starts_with('|')
        });
        prose.read(path.strip_prefix(root).unwrap_or(&path), sentences);
    }
    for (path, language) in other_sources(root)? {
        // A source may have bytes that are no text, as data of a test.
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        prose.read(path.strip_prefix(root).unwrap_or(&path), comments::of(&text, language).into_iter());
    }
    let mut files = Vec::new();
    let mut items = Items::default();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let short = path.strip_prefix(root).unwrap_or(&path).to_owned();
        files.push(text.lines().count());
        prose.read(&short, text.lines().enumerate().filter(|(_, l)| l.trim_start().starts_with("//")));
        let is_test = short.components().any(|c| c.as_os_str() == "tests")
            || short.file_stem().is_some_and(|s| s == "tests" || s.to_string_lossy().ends_with("_tests"));
        (items.path, items.is_test) = (short, is_test);
        items.visit_file(&parsed);
    }
    let Items { functions, undocumented, mut names, .. } = items;
    names.retain(|_, declared| declared.len() > 1);
    let (files, functions) = (Sizes::of(files), Sizes::of(functions));
    let Prose { long_lines, banned, .. } = prose;
    Ok(House { files, functions, long_lines, banned, undocumented, same_names: names })
}

/// The Markdown files at the root and below `docs`.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for folder in [root.to_owned(), root.join("docs"), root.join("docs/notes")] {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry?.path();
            all.extend(path.extension().is_some_and(|e| e == "md").then_some(path));
        }
    }
    all.sort();
    Ok(all)
}

/// Holds lines of prose to the rules.
#[derive(Default)]
struct Prose {
    phrases: Vec<String>,
    long_lines: Vec<(PathBuf, usize, usize)>,
    banned: Vec<(PathBuf, usize, String)>,
}

impl Prose {
    /// Takes lines of a file, numbered from 0.
    fn read<'a>(&mut self, path: &Path, lines: impl Iterator<Item = (usize, &'a str)>) {
        for (n, line) in lines {
            let columns = line.chars().count();
            let is_row = line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with('|');
            if columns > MAX_COLUMNS && !is_row && !line.contains("://") {
                self.long_lines.push((path.to_owned(), n + 1, columns));
            }
            let found = self.phrases.iter().filter(|phrase| has_phrase(line, phrase));
            self.banned.extend(found.map(|phrase| (path.to_owned(), n + 1, phrase.clone())));
        }
    }
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) -> Result<()> {
    let mut files = Vec::new();
    walk(folder, &mut files)?;
    all.extend(files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")));
    Ok(())
}

/// The sources in other languages than Rust.
fn other_sources(root: &Path) -> Result<Vec<(PathBuf, Language)>> {
    let mut files = Vec::new();
    for folder in
        ["hotspot-patches", "rust-core", "tests", "profiler", "jtreg", "jdk-build", "scripts", ".ci"]
    {
        if root.join(folder).exists() {
            walk(&root.join(folder), &mut files)?;
        }
    }
    files.sort();
    Ok(files.into_iter().filter_map(|path| Language::of(&path).map(|language| (path, language))).collect())
}

/// The files of a folder, without those that are built.
fn walk(folder: &Path, all: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !path.is_dir() {
            all.push(path);
        } else if !["target", "build", "corpus", "artifacts"].contains(&&*name) {
            walk(&path, all)?;
        }
    }
    Ok(())
}

/// Whether a line has a phrase. Parts of identifiers do not count.
pub fn has_phrase(line: &str, phrase: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let lower = line.to_lowercase();
    lower.match_indices(phrase).any(|(at, found)| {
        let (before, after) = (&lower[..at], &lower[at + found.len()..]);
        !letter(before.chars().next_back()) && !letter(after.chars().next())
    })
}

/// Collects functions, public items and types of one file after the other.
#[derive(Default)]
struct Items {
    path: PathBuf,
    is_test: bool,
    functions: Vec<usize>,
    undocumented: Vec<(PathBuf, usize, String)>,
    names: BTreeMap<String, Vec<PathBuf>>,
}

impl Items {
    fn function(&mut self, span: proc_macro2::Span) {
        self.functions.push(span.end().line + 1 - span.start().line);
    }

    fn public(&mut self, visibility: &syn::Visibility, attributes: &[syn::Attribute], name: &syn::Ident) {
        let is_documented = attributes.iter().any(|a| a.path().is_ident("doc"));
        if matches!(visibility, syn::Visibility::Public(_)) && !is_documented && !self.is_test {
            self.undocumented.push((self.path.clone(), name.span().start().line, name.to_string()));
        }
    }

    fn named(&mut self, name: &syn::Ident) {
        if !self.is_test {
            self.names.entry(name.to_string()).or_default().push(self.path.clone());
        }
    }
}

/// Whether an item is compiled for tests only.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("test")
            || a.path().is_ident("cfg")
                && matches!(&a.meta, syn::Meta::List(l) if l.tokens.to_string() == "test")
    })
}

impl<'a> Visit<'a> for Items {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let before = self.is_test;
        self.is_test |= is_for_tests(&item.attrs);
        visit::visit_item_mod(self, item);
        self.is_test = before;
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(item.span());
        self.public(&item.vis, &item.attrs, &item.sig.ident);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(item.span());
        self.public(&item.vis, &item.attrs, &item.sig.ident);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.public(&item.vis, &item.attrs, &item.ident);
        self.named(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.public(&item.vis, &item.attrs, &item.ident);
        self.named(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.public(&item.vis, &item.attrs, &item.ident);
        self.named(&item.ident);
        visit::visit_item_trait(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_order_statistics() {
        let sizes = Sizes::of((1..=11).rev().collect());
        assert_eq!(sizes, Sizes { count: 11, median: 6, p90: 10, max: 11 });
        assert_eq!(Sizes::of(Vec::new()).max, 0);
    }

    #[test]
    fn a_house_is_counted() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("rust-core/one/src/lib.rs");
        std::fs::create_dir_all(source.parent().unwrap()).unwrap();
        std::fs::create_dir_all(root.path().join("tests")).unwrap();
        std::fs::create_dir_all(root.path().join("docs")).unwrap();
        let table = "| banned | write |\n|---|---|\n| foo (of order) | bar |\n| is foo, be foo | bar |\n\n| a | b |\n";
        std::fs::write(root.path().join("docs/contributing.md"), table).unwrap();
        assert_eq!(banned_phrases(root.path()).unwrap(), ["foo", "is foo", "be foo"]);
        let long = format!("// {}\n", "x".repeat(98));
        let text = format!(
            "/// One.\npub struct One;\npub struct Two;\n{long}// what lies foo it\n// foo_it\n\
             fn f() {{\n}}\nmod inner {{ struct One; }}\n#[cfg(test)]\nmod tests {{ pub struct Two; }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let page = "A foo.\n```\nfoo\n```\n| foo |\n";
        std::fs::write(root.path().join("README.md"), page).unwrap();
        let house = count(root.path()).unwrap();
        let path = PathBuf::from("rust-core/one/src/lib.rs");
        assert_eq!(house.long_lines, [(path.clone(), 4, 101)]);
        assert_eq!(
            house.banned,
            [(PathBuf::from("README.md"), 1, "foo".to_owned()), (path.clone(), 5, "foo".to_owned())]
        );
        assert_eq!(house.undocumented, [(path.clone(), 3, "Two".to_owned())]);
        assert_eq!(house.same_names, BTreeMap::from([("One".to_owned(), vec![path.clone(), path])]));
        assert_eq!((house.functions.max, house.files.count), (2, 1));
        assert_eq!(house.crowded_names(), []);
        let overlay = root.path().join("hotspot-patches/overlay");
        std::fs::create_dir_all(&overlay).unwrap();
        std::fs::write(overlay.join("a.hpp"), format!("f(\"// foo\");\n{long}g();  // foo\n")).unwrap();
        let house = count(root.path()).unwrap();
        let path = PathBuf::from("hotspot-patches/overlay/a.hpp");
        assert_eq!(house.long_lines[0], (path.clone(), 2, 101));
        assert_eq!(house.banned[1], (path, 3, "foo".to_owned()));
        std::fs::write(&source, "struct One; struct Error; mod a { struct One; struct Error; }\nmod b { struct One; struct Error; }").unwrap();
        assert_eq!(count(root.path()).unwrap().crowded_names(), [("One", 3)]);
    }

    #[test]
    fn this_house_keeps_its_rules() {
        let house = count(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert!(house.files.count > 400, "{}", house.files);
        assert_eq!(house.crowded_names(), []);
        assert_eq!((house.long_lines, house.banned, house.undocumented), Default::default());
    }

    /// Languages of fences in doc comments that rustdoc compiles.
    const COMPILED: [&str; 6] = ["", "rust", "no_run", "ignore", "should_panic", "compile_fail"];

    /// The doc comments of a source that rustdoc would take for tests: their lines, from 1.
    fn doc_tests(text: &str) -> Vec<usize> {
        let mut open = false;
        let opens = |(n, line): (usize, &str)| {
            let line = line.trim();
            let line = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
            let language = line.trim().strip_prefix("```")?.split([',', ' ']).next()?;
            open = !open;
            (open && COMPILED.contains(&language)).then_some(n + 1)
        };
        text.lines().enumerate().filter_map(opens).collect()
    }

    /// Cargo runs rustdoc for each library, even without doc tests, unless its manifest says
    /// `doctest = false`. A doc test there would not run.
    #[test]
    fn no_doc_test_is_left_out() {
        assert_eq!(doc_tests("/// ```\n/// ```\n//! ```text\n//! ```\n    /// ```no_run\n/// ```\n"), [1, 5]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut manifests = Vec::new();
        for folder in ["rust-core", "tests"] {
            walk(&root.join(folder), &mut manifests).unwrap();
        }
        manifests.retain(|path| path.ends_with("Cargo.toml"));
        let (mut without, mut with) = (0, 0);
        for manifest in manifests {
            let text: toml::Table = std::fs::read_to_string(&manifest).unwrap().parse().unwrap();
            let source = manifest.with_file_name("src");
            if !source.join("lib.rs").exists() {
                continue;
            }
            if text.get("lib").and_then(|lib| lib.get("doctest")) != Some(&toml::Value::Boolean(false)) {
                with += 1;
                continue;
            }
            without += 1;
            let mut paths = Vec::new();
            sources(&source, &mut paths).unwrap();
            for path in paths {
                let found = doc_tests(&std::fs::read_to_string(&path).unwrap());
                assert!(
                    found.is_empty(),
                    "{}: doc tests in {found:?}, none in {}",
                    path.display(),
                    manifest.display()
                );
            }
        }
        assert!(without > 10 && with > 2, "{without} libraries without doc tests, {with} with them");
    }
}
