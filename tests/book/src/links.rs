// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The links of a built book: each relative one leads to a file and, if it has a fragment, to an
//! id on that page.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};

/// What was found in a book.
pub struct Checked {
    /// The number of HTML pages.
    pub pages: usize,
    /// The number of links in them, without those to other sites.
    pub links: usize,
    /// A line for each broken link.
    pub faults: Vec<String>,
}

/// What a page refers to, and what can be referred to in it.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    ids: BTreeSet<String>,
}

/// A book and where it is from.
struct Book<'a> {
    folder: &'a Path,
    root: &'a Path,
    docs: &'a Path,
    pages: BTreeMap<PathBuf, Page>,
}

/// Where a link leads.
enum LinkTarget {
    Inside,
    /// To a file of the project that is not in the book: the link that leads there from the page.
    Outside(String),
    Broken(&'static str),
}

/// Checks the pages in `folder`, which are built from `docs`, a folder of the project at `root`.
///
/// A link in `docs` to a file of another folder of the project is right in the Markdown, but not in
/// the page: the page gets a link to that file in the checkout.
pub fn check(folder: &Path, root: &Path, docs: &Path) -> Result<Checked> {
    let folder = &normal(folder);
    let mut book = Book { folder, root, docs, pages: BTreeMap::new() };
    for path in files(folder)?.into_iter().filter(|path| path.extension().is_some_and(|e| e == "html")) {
        let page = read(&std::fs::read_to_string(&path)?);
        book.pages.insert(path, page);
    }
    let mut checked = Checked { pages: book.pages.len(), links: 0, faults: Vec::new() };
    for (path, page) in &book.pages {
        let mut moved = BTreeMap::new();
        for link in page.links.iter().filter(|link| !has_scheme(link)) {
            checked.links += 1;
            match book.find(path, link) {
                LinkTarget::Inside => {}
                LinkTarget::Outside(to) => drop(moved.insert(link, to)),
                LinkTarget::Broken(why) => {
                    let short = path.strip_prefix(folder).unwrap_or(path).display();
                    checked.faults.push(format!("{short}: {link}: {why}"));
                }
            }
        }
        rewrite(path, &moved)?;
    }
    Ok(checked)
}

impl Book<'_> {
    fn find(&self, page: &Path, link: &str) -> LinkTarget {
        let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
        let file = decoded(file.split('?').next().unwrap_or_default());
        let mut target = match &*file {
            "" => page.to_owned(),
            _ => normal(&page.with_file_name("").join(&file)),
        };
        if !target.starts_with(self.folder) {
            return self.leave(page, &file).map_or(LinkTarget::Broken("no such file"), LinkTarget::Outside);
        }
        if target.is_dir() {
            target.push("index.html");
        }
        let has_id = |page: &Page| fragment.is_empty() || page.ids.contains(&decoded(fragment));
        match self.pages.get(&target) {
            Some(page) if !has_id(page) => LinkTarget::Broken("no such id"),
            None if !target.is_file() => LinkTarget::Broken("no such file"),
            _ => LinkTarget::Inside,
        }
    }

    /// The link from `page` to the file that `link` leads to from the page's source.
    fn leave(&self, page: &Path, link: &str) -> Option<String> {
        let here = page.parent()?;
        let source = self.docs.join(here.strip_prefix(self.folder).ok()?);
        let built = normal(&source.join(link));
        // mdBook makes .html of .md in links.
        let file = [built.with_extension("md"), built].into_iter().find(|path| path.is_file())?;
        let up = here.strip_prefix(self.root).ok()?.components().count();
        Some("../".repeat(up) + file.strip_prefix(self.root).ok()?.to_str()?)
    }
}

/// Replaces links of a page.
fn rewrite(page: &Path, links: &BTreeMap<&String, String>) -> Result<()> {
    if links.is_empty() {
        return Ok(());
    }
    let mut text = std::fs::read_to_string(page)?;
    for (link, to) in links {
        let old = format!("href=\"{link}\"");
        anyhow::ensure!(text.contains(&old), "{}: {link} stands otherwise in the page", page.display());
        text = text.replace(&old, &format!("href=\"{to}\""));
    }
    Ok(std::fs::write(page, text)?)
}

/// All files below a folder, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(files(&path)?);
        } else {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// Whether a link leads to another site, or is no place at all (`data:`, `mailto:`).
fn has_scheme(link: &str) -> bool {
    let before = link.split(['/', '#', '?']).next().unwrap_or_default();
    before.contains(':') || link.starts_with("//")
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut all = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(all.pop()),
            part => all.push(part),
        }
    }
    all
}

/// Replaces `%41` and the like by what they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the links and ids of a page.
fn read(text: &str) -> Page {
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(text));
    let tokenizer = Tokenizer::new(PageSink::default(), Default::default());
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

#[derive(Default)]
struct PageSink(RefCell<Page>);

impl TokenSink for PageSink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        if tag.kind == TagKind::EndTag {
            return TokenSinkResult::Continue;
        }
        let mut page = self.0.borrow_mut();
        for attribute in &tag.attrs {
            match &*attribute.name.local {
                "href" | "src" => page.links.push(attribute.value.to_string()),
                "id" => drop(page.ids.insert(attribute.value.to_string())),
                _ => {}
            }
        }
        match &*tag.name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" => TokenSinkResult::RawData(RawKind::Rawtext),
            _ => TokenSinkResult::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_seen() {
        for link in ["https://a/b", "mailto:a@b", "data:x", "//a/b"] {
            assert!(has_scheme(link), "{link}");
        }
        for link in ["a.html", "../a:b.html", "#a:b", "", "a.html?x:y"] {
            assert!(!has_scheme(link), "{link}");
        }
    }

    #[test]
    fn percent_codes_are_decoded() {
        assert_eq!(decoded("a%20b%C3%A9%"), "a bé%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }

    #[test]
    fn scripts_have_no_links() {
        let page = read("<script>'<a href=x>'</script><a id=i href='a&amp;b'>t</a>");
        assert_eq!((page.links, page.ids), (vec!["a&b".to_owned()], BTreeSet::from(["i".to_owned()])));
    }
}
