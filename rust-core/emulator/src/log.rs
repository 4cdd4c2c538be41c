//! The log file.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use crate::error::Error;

/// Where messages go. Errors go to stderr as well.
#[derive(Debug)]
pub struct Log {
    file: Option<Mutex<File>>,
}

impl Log {
    /// Creates the file, if one is wanted.
    pub fn open(path: Option<&Path>) -> Result<Log, Error> {
        let open = |p: &Path| {
            File::create(p).map_err(|source| Error::File { path: p.into(), what: "create", source })
        };
        Ok(Log { file: path.map(open).transpose()?.map(Mutex::new) })
    }

    /// One line.
    pub fn line(&self, text: &str) {
        if let Some(f) = &self.file {
            // A log that cannot be written must not disturb the traced program.
            let _ = writeln!(f.lock().unwrap_or_else(|e| e.into_inner()), "{text}");
        }
    }

    /// One line, on stderr too.
    pub fn error(&self, text: &str) {
        self.line(&format!("error: {text}"));
        eprintln!("jportal-emulator: {text}");
    }
}
