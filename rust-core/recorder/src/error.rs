// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use jportal_perf_abi::Refusal;
use jportal_perf_abi::kernel::FILES_SHARE;
use std::path::{Path, PathBuf};

/// Why a recording could not start or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value from the command line cannot be used.
    #[error("{field}: {value} is not usable, {rule}")]
    Configuration {
        /// Name of the option or field.
        field: &'static str,
        /// As given.
        value: String,
        /// The rule that the value violates.
        rule: &'static str,
    },
    /// There is no Intel PT, and no emulated unit was selected.
    #[error(
        "no source of Intel PT: {machine}; run the program through `jportal run --emulate` (an emulated unit that the \
         environment names is used with -XX:JPortalSource=emulated only), or record metadata only with -XX:JPortalSource=none"
    )]
    NoSource {
        /// Why there is no Intel PT.
        machine: String,
    },
    /// There is no Intel PT.
    #[error(
        "{0}; record with the emulated unit (`jportal run --emulate`), or metadata only with -XX:JPortalSource=none"
    )]
    NoIntelPt(String),
    /// The emulated unit was selected, but the environment names none.
    #[error(
        "the environment names no emulated PT unit ({variable}); run the program through `jportal run --emulate`, or record \
         metadata only with -XX:JPortalSource=none"
    )]
    NoUnit {
        /// The environment variable that would name the unit.
        variable: &'static str,
    },
    /// The kernel refused a system call.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The kernel does not report its cores.
    #[error("/sys/devices/system/cpu/possible names no core; mount sysfs, or use -XX:JPortalSource=none")]
    NoCores,
    /// The kernel does not report the threads of the process.
    #[error(
        "/proc/self/task: {0}; mount /proc in this mount namespace, or start the VM with -XX:+JPortalStart"
    )]
    Threads(std::io::Error),
    /// The events would take too many of the program's file descriptors.
    #[error(
        "the recording needs {needed} file descriptors ({threads} threads, {cores} cores), more than a quarter of the {limit} that \
         this process may open; raise the limit with `ulimit -n {}`{}",
        needed * FILES_SHARE,
        if *threads > 1 { ", or start the VM with -XX:+JPortalStart, which needs one set for all threads" } else { "" }
    )]
    Descriptors {
        /// Descriptors that all events together need.
        needed: u64,
        /// The limit of the process.
        limit: u64,
        /// Threads for which events are opened.
        threads: usize,
        /// Cores for which events are opened.
        cores: usize,
    },
    /// New threads appeared while events were opened for the existing ones.
    #[error(
        "new threads of native code came each of the {attempts} times that events were opened for those that were there; try again, or \
         start the VM with -XX:+JPortalStart"
    )]
    ThreadsComing {
        /// Number of attempts.
        attempts: usize,
    },
    /// The emulated unit belongs to another process (the environment was inherited).
    #[error(
        "the emulated PT unit {path} traces process {owner}, this is {pid}: a child VM needs an emulated unit of its \
         own; start it with -XX:-JPortal or under `jportal run --emulate`"
    )]
    ForeignUnit {
        /// Its shared file.
        path: PathBuf,
        /// Process it traces.
        owner: u32,
        /// This process.
        pid: u32,
    },
    /// The device could not be opened or stopped working.
    #[error("PT device: {0}")]
    Device(#[from] jportal_perf_abi::Error),
    /// The emulated unit reported a failure.
    #[error("the emulated PT unit failed: {0}")]
    Unit(String),
    /// The capture could not be created or written.
    #[error("{}", of_capture(path, source))]
    Capture {
        /// The capture.
        path: PathBuf,
        /// The capture's error.
        source: jportal_capture::Error,
    },
    /// The capture could be created but not written; the text is that of the first failure.
    #[error("{0}")]
    Unwritable(String),
    /// The start takes too long.
    #[error(
        "{path}: neither this capture nor its ring in /dev/shm could be created within {seconds} s, because a file system does \
         not answer; nothing is recorded, choose a capture in another folder (-XX:JPortalFile)"
    )]
    SlowStart {
        /// The capture.
        path: PathBuf,
        /// How long the VM has waited.
        seconds: u64,
    },
    /// The disk took nothing for so long that the recording was given up.
    #[error(
        "{path}: the file system has taken nothing for {seconds} s; what is missing of the metadata is added when the \
         capture is opened with jportal, the trace is lost"
    )]
    Stuck {
        /// The capture.
        path: PathBuf,
        /// How long a write has lasted.
        seconds: u64,
    },
    /// The end of the recording takes too long.
    #[error(
        "{path}: the file system is slow, and the end of the recording took {seconds} s; what is missing of the \
         metadata is added when the capture is opened with jportal, the trace is lost"
    )]
    SlowEnd {
        /// The capture.
        path: PathBuf,
        /// How long the VM has waited.
        seconds: u64,
    },
    /// The ring file could not be created.
    #[error(
        "ring file {path}: {source}; it is {bytes} bytes long, of which {allocated} need room at once, see \
         -XX:JPortalRingSize"
    )]
    Ring {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// What is allocated when it is made: the ring without its overflow.
        allocated: u64,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Somebody truncated the ring file.
    #[error(
        "another process has truncated the ring file {path}, and with it records that were not in the capture; nothing but \
         JPortal may change the files there, start a new recording (jcmd PID JPortal.start)"
    )]
    RingLost {
        /// The file.
        path: PathBuf,
    },
    /// The code cache cannot be the memory of a file and stays anonymous memory.
    #[error("the code cache cannot be the memory of a file: {0}")]
    CodeMemory(String),
    /// A thread could not be created.
    #[error("cannot create thread {name}: {source}")]
    Thread {
        /// Its name.
        name: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// There is nothing to dump, or the dump failed.
    #[error("no dump: {0}")]
    Dump(String),
    /// A bug in the recorder.
    #[error("internal error, please report: {0}")]
    Panic(String),
    /// A recording is running in this process.
    #[error("recording was already started in this process and has not been stopped")]
    AlreadyStarted,
}

impl Error {
    /// The code that the bridge returns (listed in [`crate::bridge`]).
    pub fn code(&self) -> i32 {
        match self {
            Self::Configuration { .. } => 1,
            Self::NoSource { .. }
            | Self::NoIntelPt(_)
            | Self::NoUnit { .. }
            | Self::NoCores
            | Self::Refused(_)
            | Self::Threads(_)
            | Self::Descriptors { .. }
            | Self::ThreadsComing { .. }
            | Self::ForeignUnit { .. }
            | Self::Device(_)
            | Self::Unit(_) => 2,
            Self::Capture { .. }
            | Self::Unwritable(_)
            | Self::SlowStart { .. }
            | Self::Stuck { .. }
            | Self::SlowEnd { .. } => 3,
            Self::Ring { .. } | Self::RingLost { .. } => 4,
            Self::Thread { .. } => 5,
            Self::Panic(_) => 6,
            Self::CodeMemory(_) => 7,
            Self::AlreadyStarted => 8,
            Self::Dump(_) => 10,
        }
    }
}

/// The text of [`Error::Capture`]. Some of the capture's own errors name the file.
fn of_capture(path: &Path, source: &jportal_capture::Error) -> String {
    use jportal_capture::Error::{Complete, Foreign, Live, Open};
    match source {
        Open { .. } | Foreign { .. } | Live { .. } | Complete { .. } => source.to_string(),
        _ => format!("{}: {source}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_capture_names_the_file_once() {
        let path = PathBuf::from("a");
        let text = |source| Error::Capture { path: path.clone(), source }.to_string();
        let named = text(jportal_capture::Error::Live { path: path.clone() });
        assert!(named.starts_with("a is in use"), "{named}");
        let unnamed = text(jportal_capture::Error::DiskFull { written: 7 });
        assert!(unnamed.starts_with("a: disk full after 7"), "{unnamed}");
    }
}
