// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The errors of this crate.

use jportal_units::{Address, Core, StreamOffset};
use std::io;
use std::path::PathBuf;

/// The errors of export and import. `at` is a byte offset in the perf.data file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be created or written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The perf.data file could not be read.
    #[error("cannot read the perf.data at byte {at}: {source}")]
    Read {
        /// The offset.
        at: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no trace to export.
    #[error("the capture holds no PT: there is nothing to export")]
    NoTrace,
    /// The name of the code file is part of a filter, whose grammar has no quotes.
    #[error("{} has a blank, a comma or a line break in its name, which perf's address filters cannot hold: choose another folder", path.display())]
    FolderName {
        /// The folder.
        path: PathBuf,
    },
    /// perf's return stack works differently from that of the unit.
    #[error(
        "returns are compressed, and a return that is not takes no entry off the return stack (emulated unit, \
         return_pop=compressed): perf always takes one, and would go astray; record without --return-compression"
    )]
    ReturnPop,
    /// Sideband that does not consist of valid records.
    #[error("{core}: {source}")]
    Record {
        /// The core.
        core: Core,
        /// What is wrong.
        source: jportal_perf_abi::Error,
    },
    /// The capture cannot be read or written.
    #[error(transparent)]
    Capture(#[from] jportal_capture::Error),
    /// The capture cannot be decoded.
    #[error(transparent)]
    Decode(#[from] jportal_reconstruct::Error),
    /// The file is not one that perf wrote.
    #[error(
        "byte 0: this is no perf.data (it begins with {found:02x?}): give the file that `perf record -o` wrote"
    )]
    Magic {
        /// First bytes.
        found: Vec<u8>,
    },
    /// The file was written on a machine of the other byte order.
    #[error(
        "byte 0: a perf.data of a big-endian machine, and Intel PT is little-endian: this is another machine's file"
    )]
    Endian,
    /// The file was written to a pipe.
    #[error(
        "byte 8: a perf.data that was written to a pipe (header of {size} bytes): record with `perf record -o FILE`"
    )]
    Pipe {
        /// Size of its header.
        size: u64,
    },
    /// A structure with an impossible value.
    #[error(
        "byte {at}: {what} is {value}, expected {expected}: the file is damaged or cut off; record it anew"
    )]
    Layout {
        /// The offset.
        at: u64,
        /// The structure.
        what: &'static str,
        /// The value found.
        value: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// The file ends inside a structure.
    #[error(
        "byte {at}: the file ends inside {what} ({have} of {need} bytes): perf did not finish it; let `perf record` end by itself or with SIGINT"
    )]
    Truncated {
        /// The start of the structure.
        at: u64,
        /// The structure.
        what: &'static str,
        /// The bytes present.
        have: u64,
        /// The bytes that it should have.
        need: u64,
    },
    /// Compressed records.
    #[error("byte {at}: the records are compressed: record without `-z` (--compression-level)")]
    Compressed {
        /// The first of these records.
        at: u64,
    },
    /// No record says that there is a trace.
    #[error(
        "no AUXTRACE_INFO record: the file holds no hardware trace; record with `perf record -e intel_pt//u`"
    )]
    NoAuxtrace,
    /// The trace is of another unit.
    #[error(
        "byte {at}: AUXTRACE of type {found} and not of Intel PT (1): record with `perf record -e intel_pt//u`"
    )]
    OtherUnit {
        /// The record.
        at: u64,
        /// `auxtrace_type`.
        found: u32,
    },
    /// No event belongs to the unit.
    #[error(
        "no event of type {pmu_type}, which AUXTRACE_INFO names as that of Intel PT: the file is damaged"
    )]
    NoEvent {
        /// The number of the PMU.
        pmu_type: u64,
    },
    /// perf's times cannot be converted to the TSC.
    #[error(
        "byte {at}: no conversion between perf's time and the TSC (cap_user_time_zero {cap}, mult {mult}, shift {shift}): \
         the kernel does not trust this machine's TSC (a guest with kvm-clock, or an unstable TSC), or perf was told to \
         use another clock; record without `-k`, on a machine whose clock source is tsc"
    )]
    NoTimeConversion {
        /// The AUXTRACE_INFO record.
        at: u64,
        /// `cap_user_time_zero`.
        cap: u64,
        /// `time_mult`.
        mult: u64,
        /// `time_shift`.
        shift: u64,
    },
    /// Something required was not recorded.
    #[error("the event's {what}: {remedy}")]
    Event {
        /// What is missing.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The metadata belongs to another process.
    #[error(
        "the trace has no record of process {pid}, of which the metadata is (there are {found:?}): give the capture of the same run"
    )]
    OtherProcess {
        /// The process of the metadata.
        pid: u32,
        /// Some processes of the trace.
        found: Vec<u32>,
    },
    /// The offsets of the trace step back.
    #[error(
        "byte {at}: trace of {core} at {offset}, {known} bytes of it are known already: the file is damaged, or in snapshot mode; record without `-S`"
    )]
    Order {
        /// The AUXTRACE record.
        at: u64,
        /// The core.
        core: Core,
        /// The offset of the trace.
        offset: u64,
        /// The bytes known so far.
        known: u64,
    },
    /// The trace includes code outside the code cache.
    #[error(
        "the trace of {core} at {offset} goes to {ip}, outside the code cache, of which alone the capture has the code: \
         record with `--filter 'filter {low}/{size:#x}'` (kernel 5.18 and later)"
    )]
    NotFiltered {
        /// The core.
        core: Core,
        /// The offset of the packet.
        offset: StreamOffset,
        /// The address to which it goes.
        ip: Address,
        /// First address of the code cache.
        low: Address,
        /// Size of the code cache in bytes.
        size: u64,
    },
    /// The output is the input.
    #[error("{}: output and input are the same file", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
}
