// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Errors of the emulator.

use std::path::PathBuf;

/// The emulator's errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// QEMU listed a block without instructions.
    #[error("translation block without instructions")]
    EmptyBlock,
    /// The bytes of an instruction inside a block do not decode to their own length.
    #[error("undecodable instruction at {address:#x}")]
    Undecodable {
        /// Guest address of the instruction.
        address: u64,
    },
    /// A plugin argument without a value or with an unknown name.
    #[error("unknown plugin argument \"{argument}\" (known: {known})")]
    UnknownArgument {
        /// The argument as given.
        argument: String,
        /// The names that exist.
        known: String,
    },
    /// A plugin argument with an invalid value.
    #[error("plugin argument {key}={value}: {expected}")]
    BadValue {
        /// The argument's name.
        key: String,
        /// Its value as given.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// The argument `shm` is missing.
    #[error("plugin argument shm=PATH is missing: the file the recording VM shares the rings through")]
    NoSharedMemory,
    /// A file could not be created, sized or mapped.
    #[error("{path}: {what}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// An error of the shared file or its rings.
    #[error(transparent)]
    Rings(#[from] jportal_perf_abi::Error),
    /// The host thread could not be started.
    #[error("host thread: {0}")]
    Thread(std::io::Error),
}
