// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which source file belongs to which class.

use hashbrown::HashMap;

use super::model::SourceFile;

/// Finds the source files of classes.
pub(super) struct Finder<'a> {
    /// By package and the last part of the path.
    files: HashMap<(String, &'a str), Vec<&'a str>>,
    /// By path.
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(all: &'a [SourceFile]) -> Self {
        let (mut files, mut numbers) = (HashMap::<_, Vec<_>>::new(), HashMap::new());
        for (i, file) in all.iter().enumerate() {
            let name = file.path.rsplit_once('/').map_or(file.path.as_str(), |(_, name)| name);
            files.entry((package(&file.text), name)).or_default().push(file.path.as_str());
            numbers.entry(file.path.as_str()).or_insert(i);
        }
        Self { files, numbers }
    }
    /// The file of a class: it has the name of the class's `SourceFile` attribute, and its text
    /// says that it is of the class's package. Of several files, those in a directory of the
    /// package's name come first, then those with the shortest path.
    pub(super) fn find(&self, class: &str, source_file: &str) -> Option<usize> {
        let package = class.rsplit_once('.').map_or("", |(package, _)| package);
        let directory = package.replace('.', "/");
        let placed = |path: &str| {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            parent.strip_suffix(&directory).is_some_and(|head| head.is_empty() || head.ends_with('/'))
        };
        let all = self.files.get(&(package.to_owned(), source_file))?;
        let path = all.iter().min_by_key(|path| (!placed(path), path.len(), **path))?;
        self.numbers.get(path).copied()
    }
}

/// The package that a source text in Java, Kotlin, Scala or Groovy declares at its beginning. Scala
/// may declare it in several clauses.
fn package(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut in_comment = false;
    for line in text.lines() {
        let mut line = line.trim_start_matches('\u{feff}').trim();
        if in_comment {
            let Some((_, rest)) = line.split_once("*/") else { continue };
            (in_comment, line) = (false, rest.trim());
        }
        while let Some(rest) = line.strip_prefix("/*") {
            let Some((_, rest)) = rest.split_once("*/") else {
                (in_comment, line) = (true, "");
                break;
            };
            line = rest.trim();
        }
        if let Some(clause) = line.strip_prefix("package ") {
            let end = clause.find([';', '{', '/']).unwrap_or(clause.len());
            parts.push(clause[..end].trim());
        } else if !(line.is_empty() || line.starts_with("//") || line.starts_with('@')) {
            break;
        }
    }
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_declared_at_the_beginning() {
        for (text, expected) in [
            ("package a.b;\n", "a.b"),
            ("\u{feff}/* c\n * package x;\n */ package a.b; // d", "a.b"),
            ("// package x;\n@file:JvmName(\"F\")\n\npackage a.b\nimport c", "a.b"),
            ("package a\npackage b {", "a.b"),
            ("/* package x; */ /* y */\nimport c;\npackage a;", ""),
            ("/* no end", ""),
            ("", ""),
        ] {
            assert_eq!(package(text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_is_found_by_package_and_name() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [
            file("java.base/java/util/Map.java", "package java.util;"),
            file("src/main/java/a/b/Map.java", "package a.b;"),
            file("Main.java", "class Main {}"),
            file("old/src/main/java/a/b/Map.java", "package a.b;"),
            file("Map.java", "package a.b;"),
            file("flat/F.kt", "package a.b"),
        ];
        let finder = Finder::new(&files);
        assert_eq!(finder.find("java.util.Map$Entry", "Map.java"), Some(0));
        assert_eq!(finder.find("a.b.Map", "Map.java"), Some(1), "in the directory of the package");
        assert_eq!(finder.find("Main", "Main.java"), Some(2));
        assert_eq!(finder.find("b.Map", "Map.java"), None, "`a.b` is another package");
        assert_eq!(finder.find("a.b.FKt", "F.kt"), Some(5), "Kotlin allows any directory");
        assert_eq!(finder.find("a.b.Map", ""), None);
    }
}
