// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a block trace contains.

use jportal_analyses::block_trace::{Known, Left};
use jportal_flow::CoreSwitch;

use super::format::Format;

/// The beginning of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The form of event numbers.
    pub format: Format,
    /// Whether words come in zlib streams.
    pub zlib: bool,
    /// Whether the beginnings of instance methods carry a class.
    pub receivers: bool,
    /// Whether there are beginnings and ends of native methods.
    pub natives: bool,
    /// Whether there are marks for exceptions.
    pub unwinds: bool,
    /// Whether there are marks for times.
    pub times: bool,
    /// Whether methods were left out.
    pub scoped: bool,
    /// Whether there are loads of classes. The capture of another trace does not say when classes
    /// were loaded.
    pub loads: bool,
    /// Whether there are marks for switches.
    pub switches: bool,
    /// OS thread id.
    pub tid: u32,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// TSC at the thread's start, 0 if unknown.
    pub started: u64,
    /// Number of methods in the recording.
    pub methods: u32,
    /// Name of the thread.
    pub name: String,
}

pub(super) const MAGIC: [u8; 8] = *b"JPBLOCKS";
pub(super) const VERSION: u16 = 1;
/// Bytes before the name.
pub(super) const HEAD: usize = 48;

impl Header {
    fn flags(&self) -> u32 {
        let all = [
            self.zlib,
            self.receivers,
            self.natives,
            self.unwinds,
            self.times,
            self.scoped,
            self.loads,
            self.switches,
        ];
        (0..).zip(all).map(|(bit, set)| u32::from(set) << bit).sum()
    }
    /// The header's bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.push(self.format.bytes() as u8);
        out.push(0);
        out.extend(self.flags().to_le_bytes());
        out.extend(self.tid.to_le_bytes());
        out.extend(self.methods.to_le_bytes());
        out.extend(self.java_tid.to_le_bytes());
        out.extend(self.started.to_le_bytes());
        out.extend((self.name.len() as u32).to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(self.name.as_bytes());
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }
    /// The header without its name, and the name's length. `None` if these are other bytes.
    pub(super) fn of(bytes: &[u8; HEAD]) -> Option<(Self, usize)> {
        let u32_at = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let u64_at = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        if bytes[..8] != MAGIC || u16::from_le_bytes([bytes[8], bytes[9]]) != VERSION {
            return None;
        }
        let format =
            [Format::Jbi32, Format::Jbi64].into_iter().find(|f| f.bytes() == usize::from(bytes[10]))?;
        let flags = u32_at(12)?;
        let set = |bit: u32| flags >> bit & 1 == 1;
        let header = Self {
            format,
            zlib: set(0),
            receivers: set(1),
            natives: set(2),
            unwinds: set(3),
            times: set(4),
            scoped: set(5),
            loads: set(6),
            switches: set(7),
            tid: u32_at(16)?,
            methods: u32_at(20)?,
            java_tid: u64_at(24)?,
            started: u64_at(32)?,
            name: String::new(),
        };
        Some((header, u32_at(40)? as usize))
    }
}

/// The class beside the start of an instance method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiver {
    /// The class of the receiver.
    Exactly(u32),
    /// The class that declares the method. The receiver's class is this one or a subclass.
    Declared(u32),
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockTraceRecord {
    /// A class was loaded.
    ClassLoaded {
        /// Number of the class.
        class: u32,
    },
    /// A method began.
    Start {
        /// Its number.
        method: u32,
        /// The receiver, for instance methods that are no constructors.
        receiver: Option<Receiver>,
    },
    /// A method returned.
    End {
        /// Its number.
        method: u32,
    },
    /// The first bytecode of a block began.
    Block {
        /// The method's number.
        method: u32,
        /// The block's number.
        block: u32,
    },
    /// An escape.
    Mark(Mark),
}

/// What the event numbers of the paper have no place for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mark {
    /// The thread's flow is complete.
    Complete {
        /// Number of words before this mark.
        words: u64,
    },
    /// Nothing is known of a part of the flow.
    Gap {
        /// Whether the frames after the gap are other ones.
        stack_lost: bool,
        /// Bytes of trace that were lost, if known.
        bytes: Option<u64>,
        /// Why.
        reason: String,
    },
    /// A stretch of compiled code whose blocks are not known.
    Unresolved {
        /// The method's number.
        method: u32,
        /// Last known bytecode before. `None`: the method's beginning.
        from: Option<u16>,
        /// First known bytecode after. `None`: the method's end.
        to: Option<u16>,
        /// Number of callers that may have ended and begun again.
        callers: u16,
        /// Why.
        cause: String,
    },
    /// A frame whose beginning was not seen.
    Found {
        /// The method's number.
        method: u32,
    },
    /// A frame whose end was not seen.
    Lost {
        /// The method's number.
        method: u32,
        /// Whether it ended, by a return or an exception.
        ended: bool,
    },
    /// Bytecodes of frames whose methods are not known.
    Orphans {
        /// Their number.
        bytecodes: u64,
    },
    /// A frame ended other than by a return.
    Left {
        /// The method's number.
        method: u32,
        /// How.
        how: Left,
    },
    /// An exception handler was entered.
    Catch {
        /// The method's number.
        method: u32,
        /// First bytecode of the handler.
        bci: u16,
    },
    /// How the events that follow are known.
    Known(Known),
    /// Events that were left out at the user's request.
    Excluded {
        /// Their number.
        events: u64,
    },
    /// The events that follow happened at this time or later.
    Time {
        /// TSC.
        tsc: u64,
    },
    /// Bytecodes of a method whose blocks are not known.
    NoBlocks {
        /// The method's number.
        method: u32,
        /// Number of bytecodes.
        bytecodes: u64,
    },
    /// Where control stands after something unknown.
    At {
        /// The method's number.
        method: u32,
        /// The bytecode that began.
        bci: u16,
    },
    /// The thread came to a core, or left it.
    Switch(CoreSwitch),
    /// A mark of a later version.
    Other {
        /// Its kind.
        kind: u8,
        /// Its words.
        words: Vec<u64>,
    },
}

/// The numbers of marks.
pub(super) mod kind {
    pub(crate) const COMPLETE: u8 = 0;
    pub(crate) const GAP: u8 = 1;
    pub(crate) const UNRESOLVED: u8 = 2;
    pub(crate) const FOUND: u8 = 3;
    pub(crate) const LOST: u8 = 4;
    pub(crate) const ORPHANS: u8 = 5;
    pub(crate) const LEFT: u8 = 6;
    pub(crate) const CATCH: u8 = 7;
    pub(crate) const KNOWN: u8 = 8;
    pub(crate) const EXCLUDED: u8 = 9;
    pub(crate) const TIME: u8 = 10;
    pub(crate) const NO_BLOCKS: u8 = 11;
    pub(crate) const AT: u8 = 12;
    pub(crate) const SWITCH: u8 = 13;
}
