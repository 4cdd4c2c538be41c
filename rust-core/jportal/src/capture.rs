// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! An opened capture.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jportal_analyses::Inlined;
use jportal_analyses::execution::{OnCore, Visits};
use jportal_analyses::original::{BadMap, OriginalMethods};
use jportal_bytecode::MethodTable;
use jportal_capture::ring_file::{Recovery, recover};
use jportal_capture::{CaptureReader, Damage, EndReason};
use jportal_flow::{CoreSwitch, SwitchSide, Switches};
use jportal_reconstruct::Recording;
use jportal_units::{Tid, Tsc};

use crate::{Error, Query};

/// A capture whose metadata has been read.
#[derive(Debug)]
pub struct Capture {
    recording: Recording,
    warnings: Vec<Warning>,
    original: Option<Arc<OriginalMethods>>,
}

/// Something that is missing or damaged in a capture. Its text says what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The VM died. Metadata was recovered from its ring file, so nothing is missing because of
    /// it.
    Recovered {
        /// Bytes of metadata.
        bytes: u64,
        /// The VM's error handler ran; otherwise the VM was killed.
        crashed: bool,
    },
    /// The VM still writes to the capture.
    Live,
    /// The ring file of a dead VM cannot be used.
    RingFile(String),
    /// The recorder gave up. The text is its reason.
    GaveUp(String),
    /// The capture has no end.
    CutOff,
    /// The last chunk is incomplete.
    Torn {
        /// Offset of the chunk in the file.
        place: u64,
        /// Bytes that are there.
        bytes: u64,
    },
    /// A part of the file is damaged.
    Damaged(Damage),
    /// Chunks of kinds that this version does not know.
    UnknownChunks(u64),
    /// Metadata records that cannot be read.
    Records(u64),
    /// Bytes of trace at the end that are not decoded, because metadata that they need may be
    /// missing.
    Undescribed(u64),
    /// The records of who ran when are damaged.
    Sideband {
        /// Number of places.
        places: u64,
        /// Times that were out of order.
        disordered: u64,
    },
    /// A compiled method whose metadata contradicts itself.
    Code {
        /// The code.
        code: String,
        /// What is wrong with it.
        flaw: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered { bytes, crashed } => {
                let how = if *crashed { "crashed" } else { "was killed" };
                write!(f, "the VM {how}; {bytes} bytes of metadata were recovered from its ring file")
            }
            Self::Live => f.write_str("the VM is still writing to this capture; its end is not there yet"),
            Self::RingFile(e) => write!(f, "the ring file cannot be used: {e}"),
            Self::GaveUp(why) => write!(f, "the recorder gave up: {why}"),
            Self::CutOff => f.write_str("the capture was cut off: the VM died, or is still running"),
            Self::Torn { place, bytes } => {
                write!(f, "the last chunk, at byte {place}, is incomplete ({bytes} bytes)")
            }
            Self::Damaged(Damage { from, to, kind }) => {
                write!(f, "bytes {from} to {to} are damaged: {}", kind.what())
            }
            Self::UnknownChunks(n) => {
                write!(f, "{n} chunks are of kinds this version does not know")
            }
            Self::Records(n) => write!(
                f,
                "{n} metadata records cannot be read (damaged, or of a VM of another version): what depends on them is wrong"
            ),
            Self::Undescribed(bytes) => write!(
                f,
                "the last {bytes} bytes of trace are not decoded: the capture was cut off, and metadata that they need may be missing"
            ),
            Self::Sideband { places, disordered } => write!(
                f,
                "the records of who ran when are damaged: {places} places are gaps, {disordered} times were out of order"
            ),
            Self::Code { code, flaw } => write!(f, "{code}: {flaw}; wherever it runs there is a gap"),
        }
    }
}

impl Capture {
    /// Opens a capture and reads its metadata. If the VM died, its capture is first completed
    /// from its ring file, which is then removed.
    ///
    /// # Errors
    /// When the file is no capture, or has trace but lacks what is needed to decode it. Damage in
    /// parts of a capture is not an error: see [`Self::warnings`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (reader, mut warnings) = open_file(path)?;
        let recording = Recording::open(reader);
        let recording = recording.map_err(|source| Error::Decode { path: path.to_owned(), source })?;
        warnings.extend(of_metadata(&recording));
        Ok(Self { recording, warnings, original: None })
    }
    /// What is missing or damaged.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
    /// Shows methods as they were before an agent instrumented them. `map` is what the agent says
    /// of them: see [`OriginalMethods`].
    ///
    /// # Errors
    /// If `map` cannot be used.
    pub fn restored(self, map: &str) -> Result<Self, BadMap> {
        let original = Some(Arc::new(OriginalMethods::new(self.recording.methods(), map)?));
        Ok(Self { original, ..self })
    }
    pub(crate) fn original(&self) -> Option<&Arc<OriginalMethods>> {
        self.original.as_ref()
    }
    /// The methods of the VM.
    pub fn methods(&self) -> &MethodTable {
        self.original.as_ref().map_or_else(|| self.recording.methods(), |original| original.methods())
    }
    /// Which methods the compilers inlined where. Reports need it to bound what a flow does not
    /// show.
    pub fn inlined(&self) -> Inlined {
        let (calls, complete) = self.recording.inlined_calls();
        match &self.original {
            Some(original) => Inlined::new(self.methods(), original.calls(calls), complete),
            None => Inlined::new(self.methods(), calls, complete),
        }
    }
    /// The metadata and the trace.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }
    /// The file.
    pub fn path(&self) -> &Path {
        self.recording.reader().path()
    }
    /// The threads of this name or OS thread id: id and start identify a thread, because the OS
    /// reuses ids.
    ///
    /// # Errors
    /// When there is none.
    pub fn threads(&self, wanted: &str) -> Result<Vec<(Tid, Tsc)>, Error> {
        let tid: Option<u32> = wanted.parse().ok();
        let threads = &self.recording.image().threads;
        let named = threads.iter().filter(|t| Some(t.tid.get()) == tid || t.name == wanted);
        let found: Vec<_> = named.map(|t| (t.tid, t.started)).collect();
        if found.is_empty() {
            let known = threads.iter().map(|t| (t.name.clone(), t.tid.get())).collect();
            return Err(Error::NoSuchThread { wanted: wanted.to_owned(), known });
        }
        Ok(found)
    }
    /// When each thread was on which core.
    pub fn visits(&self) -> Visits {
        let mut all = Visits::default();
        for (core, started, v) in self.recording.visits() {
            all.add((v.tid.get(), started), core, (v.came, v.left));
        }
        all
    }
    /// When each thread came to which core, and when and why it left. A flow does not say it; an
    /// analysis takes the switches between two events by the times of the flow
    /// ([`Switches::before`]).
    pub fn switches(&self) -> Switches {
        Switches::new(self.recording.visits().flat_map(|(core, started, v)| {
            let came = CoreSwitch { tsc: v.came, core, side: SwitchSide::Came { seen: v.arrived } };
            let left = CoreSwitch { tsc: v.left, core, side: SwitchSide::Left(v.departure) };
            [came, left].map(|switch| ((v.tid, started), switch))
        }))
    }
    /// A clock that says for how many ticks a thread was on cores up to a time.
    pub fn clock(&self) -> OnCore {
        let visits = self.visits();
        Arc::new(move |thread, time| visits.ticks((thread.tid.get(), thread.started.get()), time.get()))
    }
    /// A query over all threads and the whole recording.
    pub fn query(&self) -> Query<'_> {
        Query::new(self)
    }
}

/// Completes the capture of a dead VM.
fn complete(path: &Path) -> Option<Warning> {
    match recover(path) {
        Ok(Recovery::Done { bytes, crashed }) => Some(Warning::Recovered { bytes, crashed }),
        Ok(Recovery::Live) => Some(Warning::Live),
        Ok(Recovery::NotNeeded) => None,
        // Opening the capture reports that it does not exist.
        Err(_) if !path.exists() => None,
        Err(e) => Some(Warning::RingFile(e.to_string())),
    }
}

fn of_file(reader: &CaptureReader) -> Vec<Warning> {
    let c = reader.completeness();
    let mut all = Vec::new();
    match &c.end {
        Some(end) if end.reason == EndReason::Failed => {
            all.push(Warning::GaveUp(end.text.text().into_owned()));
        }
        Some(_) => {}
        None => all.push(Warning::CutOff),
    }
    all.extend(c.torn.map(|t| Warning::Torn { place: t.place, bytes: t.bytes }));
    all.extend(c.damaged.iter().cloned().map(Warning::Damaged));
    if c.unknown_chunks > 0 {
        all.push(Warning::UnknownChunks(c.unknown_chunks));
    }
    all
}

fn of_metadata(recording: &Recording) -> Vec<Warning> {
    let mut all = Vec::new();
    let records = recording.damaged_records();
    if records > 0 {
        all.push(Warning::Records(records));
    }
    let bytes = recording.undescribed_bytes();
    if bytes > 0 {
        all.push(Warning::Undescribed(bytes));
    }
    let (places, disordered) = (recording.damaged_sideband(), recording.disordered_sideband());
    if places + disordered > 0 {
        all.push(Warning::Sideband { places, disordered });
    }
    let codes = recording.image().codes().iter();
    all.extend(codes.filter_map(|c| {
        let flaw = c.nmethod()?.flaw.as_ref()?.to_string();
        Some(Warning::Code { code: c.describe(), flaw })
    }));
    all
}

/// Opens the file of a capture without reading its metadata, for tools that copy or change
/// captures. Completes the capture of a dead VM as [`Capture::open`] does.
///
/// # Errors
/// When the file cannot be read, or is no capture.
pub fn open_file(path: &Path) -> Result<(CaptureReader, Vec<Warning>), Error> {
    let mut warnings: Vec<Warning> = complete(path).into_iter().collect();
    let opened = CaptureReader::open(path);
    let reader = opened.map_err(|source| Error::Open { path: path.to_owned(), source })?;
    warnings.extend(of_file(&reader));
    Ok((reader, warnings))
}
