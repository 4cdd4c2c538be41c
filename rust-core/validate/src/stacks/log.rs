// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The stacks agent's log, as `tests/stacks-agent/FORMAT.md` defines it.

use std::io::{self, BufRead, Read};

use hashbrown::HashMap;
use serde::Serialize;

use crate::verify::{LogHeader, read_full};

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackLogError {
    /// Not a log of stacks.
    #[error("not a log of stacks: begins with {found:02x?}, expected \"JPSTACK\\0\"")]
    Magic {
        /// First bytes.
        found: [u8; 8],
    },
    /// Another version.
    #[error("log of stacks, version {found}, not 1; use the stacks agent of this `jportal`")]
    Version {
        /// As in the log.
        found: u32,
    },
    /// A sample that the format does not allow.
    #[error("the sample at byte {offset} of the log is malformed: {what}")]
    Sample {
        /// Offset of the sample.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A line of `methods.tsv` that the format does not allow.
    #[error("line {line} of methods.tsv does not have an id and four names: {text:?}")]
    Method {
        /// Number of the line, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// Reading failed, or the log ends inside its header.
    #[error("cannot read the log of stacks: {0}")]
    Io(#[from] io::Error),
}

/// How a stack was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
pub enum StackApi {
    /// JVMTI's GetStackTrace of the calling thread.
    #[serde(rename = "gst")]
    Gst,
    /// AsyncGetCallTrace called by the thread itself, in native code.
    #[serde(rename = "asgct")]
    Asgct,
    /// StackWalker in the calling thread, with hidden frames.
    #[serde(rename = "walker")]
    Walker,
    /// The backtrace that the VM stores in a new Throwable. It has no hidden frames.
    #[serde(rename = "throwable")]
    Throwable,
    /// AsyncGetCallTrace in a signal handler.
    #[serde(rename = "asgct-async")]
    AsgctAsync,
    /// JVMTI's GetStackTrace of another thread.
    #[serde(rename = "gst-other")]
    GstOther,
}

impl StackApi {
    /// All of them; the order of the rows of a table.
    pub const ALL: [Self; 6] =
        [Self::Gst, Self::Asgct, Self::Walker, Self::Throwable, Self::AsgctAsync, Self::GstOther];
    /// The name in texts and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gst => "gst",
            Self::Asgct => "asgct",
            Self::Walker => "walker",
            Self::Throwable => "throwable",
            Self::AsgctAsync => "asgct-async",
            Self::GstOther => "gst-other",
        }
    }
    /// The location that it gives to a frame of a native method.
    pub(crate) const fn native_location(self) -> i32 {
        match self {
            // Of walker and throwable, by the stacks agent.
            Self::Gst | Self::GstOther | Self::Walker | Self::Throwable => -1,
            Self::Asgct | Self::AsgctAsync => -3,
        }
    }
    fn of(number: u8) -> Option<Self> {
        usize::from(number).checked_sub(1).and_then(|n| Self::ALL.get(n)).copied()
    }
}

/// A frame of a taken stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TakenFrame {
    /// The VM's id of the method; 0 if it gave none.
    pub(crate) method: u64,
    /// A bci, or a number below 0 that stands for a native method.
    pub(crate) location: i32,
}

/// A stack that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TakenStack {
    pub(crate) api: StackApi,
    /// The frames stop at the maximum depth.
    pub(crate) truncated: bool,
    /// Number of the call of `Probe.hit` in the thread, from 0. Of a stack taken at any moment, its
    /// number in the thread.
    pub(crate) hit: u64,
    /// When it was taken. Of GetStackTrace of another thread, the time before the call.
    pub(crate) tsc: u64,
    /// The instruction that a signal interrupted. Of GetStackTrace of another thread, the time
    /// after the call.
    pub(crate) pc: u64,
    /// Error code, if there are no frames.
    pub(crate) error: i32,
    /// Innermost first.
    pub(crate) frames: Vec<TakenFrame>,
}

/// The stacks that were taken in one thread, read on demand.
pub struct StackLog {
    /// OS thread id.
    pub tid: u32,
    /// TSC at the thread's first call of `Probe.hit`.
    pub first_tsc: u64,
    source: Box<dyn Read + Send>,
    offset: u64,
    next: Option<TakenStack>,
    error: Option<StackLogError>,
}

impl std::fmt::Debug for StackLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackLog").field("tid", &self.tid).field("first_tsc", &self.first_tsc).finish()
    }
}

pub(crate) const MAGIC: [u8; 8] = *b"JPSTACK\0";
const SAMPLE: usize = 40;
const FRAME: usize = 16;
/// More frames than a Java thread's stack can hold.
const MOST_FRAMES: usize = 1 << 20;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

impl StackLog {
    /// Reads the header. `source` should be buffered.
    ///
    /// # Errors
    /// [`StackLogError`].
    pub fn open(mut source: Box<dyn Read + Send>) -> Result<Self, StackLogError> {
        let LogHeader { magic, version, tid, first_tsc } = LogHeader::read(&mut source)?;
        if magic != MAGIC {
            return Err(StackLogError::Magic { found: magic });
        }
        if version != 1 {
            return Err(StackLogError::Version { found: version });
        }
        let offset = LogHeader::SIZE as u64;
        let mut log = Self { tid, first_tsc, source, offset, next: None, error: None };
        log.advance();
        Ok(log)
    }

    /// The next stack, unless the log has ended.
    pub(crate) fn peek(&self) -> Option<&TakenStack> {
        self.next.as_ref()
    }

    /// The next stack, which is the last one's successor from then on.
    pub(crate) fn take(&mut self) -> Option<TakenStack> {
        let taken = self.next.take();
        self.advance();
        taken
    }

    /// Why the log could not be read to its end.
    pub(crate) fn error(&self) -> Option<&StackLogError> {
        self.error.as_ref()
    }

    fn advance(&mut self) {
        if self.error.is_some() {
            return;
        }
        match self.read() {
            Ok(next) => self.next = next,
            Err(error) => self.error = Some(error),
        }
    }

    fn read(&mut self) -> Result<Option<TakenStack>, StackLogError> {
        let offset = self.offset;
        let wrong = |what: String| StackLogError::Sample { offset, what };
        let mut h = [0; SAMPLE];
        match read_full(&mut self.source, &mut h)? {
            0 => return Ok(None),
            SAMPLE => {}
            n => return Err(wrong(format!("{n} bytes are left, fewer than the {SAMPLE} of a sample"))),
        }
        let (size, result) = (word(&h, 0) as usize, word(&h, 32).cast_signed());
        let count = usize::try_from(result).unwrap_or(0);
        if count > MOST_FRAMES || size != SAMPLE + count * FRAME {
            return Err(wrong(format!("it has {size} bytes and {result} frames")));
        }
        let api = StackApi::of(h[4]).ok_or_else(|| wrong(format!("there is no interface {}", h[4])))?;
        let mut bytes = vec![0; count * FRAME];
        if read_full(&mut self.source, &mut bytes)? != bytes.len() {
            return Err(wrong("its frames are cut off".to_owned()));
        }
        self.offset += size as u64;
        let frames = bytes.chunks_exact(FRAME);
        let frame = |f: &[u8]| TakenFrame { method: long(f, 0), location: word(f, 8).cast_signed() };
        Ok(Some(TakenStack {
            api,
            truncated: h[5] != 0,
            hit: long(&h, 8),
            tsc: long(&h, 16),
            pc: long(&h, 24),
            error: result.min(0),
            frames: frames.map(frame).collect(),
        }))
    }
}

/// Names of a method.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LoggedMethod {
    /// Internal name of the class.
    pub(crate) class: Box<str>,
    pub(crate) name: Box<str>,
    /// Empty if the interface does not give it.
    pub(crate) descriptor: Box<str>,
}

/// The methods that the log's frames name: `methods.tsv`.
#[derive(Debug, Default)]
pub struct LoggedMethods {
    by_id: HashMap<u64, LoggedMethod>,
}

impl LoggedMethods {
    /// Reads the file.
    ///
    /// # Errors
    /// [`StackLogError`].
    pub fn read(file: impl BufRead) -> Result<Self, StackLogError> {
        let mut by_id = HashMap::new();
        for (number, line) in file.lines().enumerate().skip(1) {
            let line = line?;
            let fields: Vec<&str> = line.split('\t').collect();
            let (id, method) = match fields[..] {
                [id, class, _loader, name, descriptor] => (
                    u64::from_str_radix(id, 16),
                    LoggedMethod { class: class.into(), name: name.into(), descriptor: descriptor.into() },
                ),
                _ => return Err(StackLogError::Method { line: number + 1, text: line }),
            };
            let Ok(id) = id else { return Err(StackLogError::Method { line: number + 1, text: line }) };
            by_id.insert(id, method);
        }
        Ok(Self { by_id })
    }
    /// Methods that are numbered from `first`.
    pub(crate) fn numbered(first: u64, methods: impl Iterator<Item = LoggedMethod>) -> Self {
        Self { by_id: (first..).zip(methods).collect() }
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &LoggedMethod)> {
        self.by_id.iter().map(|(&id, method)| (id, method))
    }
}
