// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The messages of Perfetto's traces, as far as timelines need them.
//!
//! Field numbers are those of `protos/perfetto/trace` in Perfetto's repository. Members of a
//! `oneof` are optional fields here: the bytes are the same.

use prost::Message;

/// `TracePacket.SequenceFlags`: the sequence's interned names begin anew.
pub const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// `TracePacket.SequenceFlags`: the packet uses interned names of packets before.
pub const NEEDS_INCREMENTAL_STATE: u32 = 2;
/// `TrackEvent.Type`: a slice begins.
pub const SLICE_BEGIN: i32 = 1;
/// `TrackEvent.Type`: the slice that began last on the track ends.
pub const SLICE_END: i32 = 2;
/// `TrackEvent.Type`: an event without length.
pub const INSTANT: i32 = 3;
/// `TrackEvent.Type`: a counter's value.
pub const COUNTER: i32 = 4;

/// A file.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// The packets.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// The unit of a file.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// The sequence to which interned names belong.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// New names.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// Bits: see the constants.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    /// The sequence begins.
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
}

/// Names by number.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Categories of events.
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<Named>,
    /// Names of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Named>,
    /// Names of annotations.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<Named>,
}

/// `EventCategory`, `EventName` and `DebugAnnotationName`.
#[derive(Clone, PartialEq, Message)]
pub struct Named {
    /// The number, not 0.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// An event on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Interned categories.
    #[prost(uint64, repeated, tag = "3")]
    pub category_iids: Vec<u64>,
    /// Arguments.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// `Type`.
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Interned name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// The track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// The value of a counter.
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
}

/// An argument of an event.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Interned name.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// Value.
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    /// Value.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// Value.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Its number in the file.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Its name, if it is not that of a process or thread.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The track is that of a process.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The track is that of a thread.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// The track to which it belongs.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// The track holds a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Process id.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    /// Process id.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Thread id.
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
    /// Name.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// A counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// The unit of its values.
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}
