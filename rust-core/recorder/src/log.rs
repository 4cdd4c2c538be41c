// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use crate::sys::Callback;
use std::sync::{Arc, Mutex, PoisonError};

/// How important a line is; the numbers are those of the VM's callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The recording does not start, or has ended because of an error.
    Error = 1,
    /// Something that the user should know.
    Warning = 2,
    /// What was done.
    Info = 3,
}

/// The destination of log lines: none, the VM, or a test.
#[derive(Clone, Default)]
pub struct Log(LogTarget);

#[derive(Clone, Default)]
enum LogTarget {
    #[default]
    Nowhere,
    Vm(Callback),
    Memory(Arc<Mutex<Vec<(Level, String)>>>),
}

impl Log {
    pub(crate) fn to_vm(callback: Option<Callback>) -> Self {
        Self(callback.map_or(LogTarget::Nowhere, LogTarget::Vm))
    }

    /// A log that keeps its lines.
    pub fn to_memory() -> Self {
        Self(LogTarget::Memory(Arc::default()))
    }

    /// The lines of a log made by [`Log::to_memory`].
    pub fn lines(&self) -> Vec<(Level, String)> {
        match &self.0 {
            LogTarget::Memory(lines) => lines.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn line(&self, level: Level, text: &str) {
        match &self.0 {
            LogTarget::Nowhere => {}
            LogTarget::Vm(callback) => callback.call(level as i32, text),
            LogTarget::Memory(lines) => {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push((level, text.into()));
            }
        }
    }
}
