// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Folders for the files of a run. Captures are large, but those of a failed test must be kept.

use std::path::{Path, PathBuf};

use crate::Result;

/// A folder of its own under `build/e2e` or `$JPORTAL_SCRATCH`. It is removed when this is
/// dropped, unless the thread is panicking.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Creates the folder.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new() -> Result<Self> {
        let parent = std::env::var_os("JPORTAL_SCRATCH")
            .map_or_else(|| crate::place::root().join("build/e2e"), PathBuf::from);
        std::fs::create_dir_all(&parent)?;
        Ok(Self(tempfile::Builder::new().prefix("jportal-e2e-").tempdir_in(parent)?))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Keeps the folder; returns its path.
    pub fn keep(self) -> PathBuf {
        let mut this = self;
        this.0.disable_cleanup(true);
        this.path().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("the files of this run are in {}", self.path().display());
        }
    }
}
