// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Source files from directories and JARs.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jportal::MethodTable;
use jportal::export::view::SourceFile;
use zip::ZipArchive;

use crate::messages::say;

/// Greatest size of a source file.
const LARGEST: u64 = 4 << 20;

/// Reads the files that have the names of the methods' source files. Warns of what cannot be read.
pub(super) fn read(paths: &[PathBuf], methods: &MethodTable) -> Result<Vec<SourceFile>> {
    let names = methods.iter().map(|m| &*m.source_file).filter(|name| !name.is_empty());
    let mut reader = Reader { wanted: names.collect(), found: Vec::new() };
    for path in paths {
        let before = reader.found.len();
        let kind = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if kind.is_dir() {
            reader.directory(path).with_context(|| format!("cannot read {}", path.display()))?;
        } else {
            reader.archive(path).with_context(|| format!("cannot read {} as a JAR", path.display()))?;
        }
        let found = &mut reader.found[before..];
        found.sort_by(|a, b| a.path.cmp(&b.path));
        if found.is_empty() {
            warn(path, "it has no source file of the capture's classes");
        }
    }
    Ok(reader.found)
}

fn warn(path: &Path, what: impl std::fmt::Display) {
    say(&format!("warning: {}: {what}", path.display()));
}

struct Reader<'m> {
    wanted: HashSet<&'m str>,
    found: Vec<SourceFile>,
}

impl Reader<'_> {
    /// Reads a directory and all below it. Links to directories are not followed.
    fn directory(&mut self, root: &Path) -> io::Result<()> {
        let mut open = vec![std::fs::read_dir(root)?];
        while let Some(entries) = open.last_mut() {
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                match std::fs::read_dir(&path) {
                    Ok(entries) => open.push(entries),
                    Err(e) => warn(&path, e),
                }
            } else if entry.file_name().to_str().is_some_and(|name| self.wanted.contains(name)) {
                let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                self.add(&path, relative, File::open(&path));
            }
        }
        Ok(())
    }
    /// Reads a JAR, or another ZIP file.
    fn archive(&mut self, path: &Path) -> io::Result<()> {
        let mut archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
        for index in 0..archive.len() {
            let name = match archive.name_for_index(index) {
                Some(Ok(name)) => name.into_owned(),
                Some(Err(e)) => {
                    warn(path, e);
                    continue;
                }
                None => break,
            };
            let simple = name.rsplit_once('/').map_or(name.as_str(), |(_, simple)| simple);
            if self.wanted.contains(simple) {
                let place = path.join(&name);
                self.add(&place, name, archive.by_index(index).map_err(io::Error::from));
            }
        }
        Ok(())
    }
    /// Adds a file, unless it cannot be read or is too large.
    fn add(&mut self, place: &Path, path: String, file: io::Result<impl Read>) {
        let mut bytes = Vec::new();
        match file.and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)) {
            Err(e) => warn(place, e),
            Ok(_) if bytes.len() as u64 > LARGEST => warn(place, "it is too large for a source file"),
            Ok(_) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.found.push(SourceFile { path, text });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use jportal::Method;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    /// The methods of `A.java` and `B.java`.
    fn methods() -> MethodTable {
        let mut methods = MethodTable::default();
        for file in ["A.java", "B.java", ""] {
            methods.push(Method { source_file: file.into(), ..Method::default() });
        }
        methods
    }

    fn read_all(paths: &[PathBuf]) -> Vec<(String, String)> {
        let all = read(paths, &methods()).unwrap();
        all.into_iter().map(|file| (file.path, file.text)).collect()
    }

    #[test]
    fn directories_are_searched_for_the_files_of_the_classes() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("src/p");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("B.java"), "package p;").unwrap();
        std::fs::write(below.join("C.java"), "class C {}").unwrap();
        std::fs::write(root.path().join("A.java"), b"// \xff").unwrap();
        std::os::unix::fs::symlink(root.path(), below.join("again")).unwrap();
        let expected = [("A.java", "// \u{fffd}"), ("src/p/B.java", "package p;")];
        let expected = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(read_all(&[root.path().to_owned()]), expected);
        let large = vec![b' '; LARGEST as usize + 1];
        std::fs::write(root.path().join("A.java"), &large).unwrap();
        assert_eq!(read_all(&[root.path().to_owned()]), expected[1..]);
        std::fs::write(root.path().join("A.java"), &large[1..]).unwrap();
        assert_eq!(read_all(&[root.path().to_owned()]).len(), 2);
    }

    #[test]
    fn archives_are_read_like_directories() {
        let folder = tempfile::tempdir().unwrap();
        let jar = folder.path().join("x-sources.jar");
        let mut writer = ZipWriter::new(File::create(&jar).unwrap());
        let files = [
            ("p/B.java", CompressionMethod::Deflated),
            ("A.java", CompressionMethod::Stored),
            ("p/C.java", CompressionMethod::Stored),
        ];
        for (name, method) in files {
            let options = SimpleFileOptions::default().compression_method(method);
            writer.start_file(name, options).unwrap();
            writer.write_all(name.repeat(99).as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        let expected = ["A.java", "p/B.java"].map(|name| (name.to_owned(), name.repeat(99)));
        assert_eq!(read_all(&[jar]), expected);
    }

    #[test]
    fn what_is_no_source_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "no archive").unwrap();
        let refused = |path: PathBuf| format!("{:#}", read(&[path], &methods()).unwrap_err());
        assert!(refused(text).contains("text as a JAR"));
        assert!(refused(folder.path().join("nothing")).contains("nothing"));
    }
}
