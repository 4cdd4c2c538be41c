// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The log file.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;

/// Maximum number of errors that are written. A recurring error must not fill stderr: if stderr
/// is a pipe that nobody reads, the write would block the traced program.
const MAX_ERRORS: usize = 100;

/// The destination of messages. Errors go to stderr as well.
#[derive(Debug)]
pub struct Log {
    file: Option<Mutex<File>>,
    /// Errors so far.
    errors: AtomicUsize,
}

impl Log {
    /// Creates the log file if `path` names one.
    pub fn open(path: Option<&Path>) -> Result<Log, Error> {
        let open = |p: &Path| {
            File::create(p).map_err(|source| Error::File { path: p.into(), what: "create", source })
        };
        Ok(Log { file: path.map(open).transpose()?.map(Mutex::new), errors: AtomicUsize::new(0) })
    }

    /// Writes one line to the log file.
    pub fn line(&self, text: &str) {
        if let Some(f) = &self.file {
            // A log that cannot be written must not disturb the traced program.
            let _ = writeln!(f.lock().unwrap_or_else(|e| e.into_inner()), "{text}");
        }
    }

    /// Writes one line to the log file and to stderr. Only the first `MAX_ERRORS` are
    /// written.
    pub fn error(&self, text: &str) {
        let before = self.errors.fetch_add(1, Ordering::Relaxed);
        if before < MAX_ERRORS {
            self.write_error(text);
        } else if before == MAX_ERRORS {
            self.write_error("further errors are not written");
        }
    }

    fn write_error(&self, text: &str) {
        self.line(&format!("error: {text}"));
        // The traced program may have closed its stderr.
        let _ = writeln!(std::io::stderr(), "jportal-emulator: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recurring_error_is_written_a_limited_number_of_times() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = Log::open(Some(file.path())).unwrap();
        (0..MAX_ERRORS + 50).for_each(|n| log.error(&format!("no frame at {n}")));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count(), MAX_ERRORS + 1);
        assert!(text.lines().next_back().unwrap().contains("not written"));
    }
}
