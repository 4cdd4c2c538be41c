// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Files that exports write. They hold the program's code, so only their owner may read them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

/// A file that appears under its name when it is complete, or stdout. A device or a pipe of that
/// name is written to at once: to give a file its name would replace it.
pub(crate) struct OutputFile {
    path: PathBuf,
    to: To,
}

enum To {
    File(BufWriter<NamedTempFile>),
    Special(BufWriter<File>),
    Stdout(BufWriter<io::Stdout>),
}

impl OutputFile {
    /// The file `path`; `-` is stdout.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let to = if path == Path::new("-") {
            To::Stdout(BufWriter::new(io::stdout()))
        } else if std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let file = OpenOptions::new().write(true).open(path);
            To::Special(BufWriter::new(file.with_context(|| cannot_write(path))?))
        } else {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let file = NamedTempFile::new_in(folder);
            To::File(BufWriter::new(file.with_context(|| cannot_write(path))?))
        };
        Ok(Self { path: path.to_owned(), to })
    }
    /// Writes the content, and gives the file its name.
    pub(crate) fn fill<E>(mut self, content: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<()>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        content(&mut self.to).with_context(|| cannot_write(&self.path))?;
        self.finish()
    }
    /// Gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        let path = &self.path;
        match self.to {
            To::Stdout(mut out) => out.flush().context("cannot write to stdout"),
            To::Special(mut out) => out.flush().with_context(|| cannot_write(path)),
            To::File(out) => {
                let file = out.into_inner().map_err(io::IntoInnerError::into_error);
                let file = file.with_context(|| cannot_write(path))?;
                file.persist(path).map_err(|e| e.error).with_context(|| cannot_write(path))?;
                Ok(())
            }
        }
    }
    /// Whether it is stdout.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout(_))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(out) => out.write(bytes),
            Self::Special(out) => out.write(bytes),
            Self::Stdout(out) => out.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(out) => out.flush(),
            Self::Special(out) => out.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// A directory for the files of one export.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates the directory if there is none. It must be empty, so that no file of an older
    /// export is taken for one of this.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut entries =
            std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        if entries.next().is_some() {
            bail!("{} is not empty; remove what is in it, or choose another directory", path.display());
        }
        Ok(Self(path.to_owned()))
    }
    /// Creates a file, with the directories on the way to it. The error names the file.
    pub(crate) fn file(&self, name: &str) -> io::Result<BufWriter<File>> {
        let path = self.0.join(name);
        create(&path).map(BufWriter::new).map_err(|e| named(&path, &e))
    }
    /// As [`Self::file`], for one of as many files as there are threads.
    pub(crate) fn growing(&self, name: &str) -> io::Result<BufWriter<Growing>> {
        drop(self.file(name)?);
        Ok(BufWriter::new(Growing(self.0.join(name))))
    }
}

/// A file that is open only while something is written to it: a program may have more threads than
/// a process may have open files.
#[derive(Debug)]
pub(crate) struct Growing(PathBuf);

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = OpenOptions::new().append(true).open(&self.0);
        file.and_then(|mut file| file.write(bytes)).map_err(|e| named(&self.0, &e))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The error with the name of the file.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut target = OutputFile::create(&path).unwrap();
        target.write_all(b"text").unwrap();
        assert!(!path.exists());
        target.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let failed = OutputFile::create(&path).unwrap().fill(|_| Err(io::Error::other("no")));
        assert!(format!("{:#}", failed.unwrap_err()).contains("out: no"));
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        let nowhere = OutputFile::create(&folder.path().join("no/out")).err().unwrap();
        assert!(format!("{nowhere:#}").contains("no/out"));
    }

    #[test]
    fn a_pipe_or_a_device_is_written_to_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let from = path.clone();
        let reader = std::thread::spawn(move || std::fs::read(from).unwrap());
        OutputFile::create(&path).unwrap().fill(|out| out.write_all(b"text")).unwrap();
        assert!(std::fs::metadata(&path).unwrap().file_type().is_fifo(), "it was replaced");
        assert_eq!(reader.join().unwrap(), b"text");
    }

    #[test]
    fn a_folder_must_be_empty() {
        let folder = tempfile::tempdir().unwrap();
        let out = Folder::create(&folder.path().join("a/b")).unwrap();
        out.file("c/d").unwrap().write_all(b"x").unwrap();
        let file = folder.path().join("a/b/c/d");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(out.file("c/d").unwrap_err().to_string().contains("c/d"));
        let refused = Folder::create(&folder.path().join("a/b")).unwrap_err();
        assert!(refused.to_string().contains("is not empty"), "{refused}");
    }

    #[test]
    fn files_of_threads_are_not_kept_open() {
        let folder = tempfile::tempdir().unwrap();
        let out = Folder::create(folder.path()).unwrap();
        let mut files: Vec<_> = (0..3).map(|n| out.growing(&format!("t{n}")).unwrap()).collect();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| {
            let target = std::fs::read_link(fd.ok()?.path()).ok()?;
            target.starts_with(folder.path()).then_some(target)
        });
        assert_eq!(open.count(), 0);
        for part in [&[b'x'; 20_000][..], b"y"] {
            for file in &mut files {
                file.write_all(part).unwrap();
                file.flush().unwrap();
            }
        }
        let path = folder.path().join("t2");
        let kept = std::fs::read(&path).unwrap();
        assert_eq!((kept.len(), kept.last()), (20_001, Some(&b'y')));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(out.growing("t2").unwrap_err().to_string().contains("t2"));
        std::fs::remove_file(&path).unwrap();
        files[2].write_all(b"z").unwrap();
        assert!(files[2].flush().unwrap_err().to_string().contains("t2"), "it is not made anew");
    }
}
