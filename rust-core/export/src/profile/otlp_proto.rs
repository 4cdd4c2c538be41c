// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The messages of OTLP profiles, as far as we write them (see the module `otlp`). Names that end
//! with `_strindex` or `_index` are indices into the tables of the dictionary, in which entry 0 has
//! only default values and means "none".

use prost::{Message, Oneof};

/// Everything.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfilesData {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_profiles: Vec<ResourceProfiles>,
    #[prost(message, optional, tag = "2")]
    pub(super) dictionary: Option<ProfilesDictionary>,
}

/// Tables that all profiles share.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfilesDictionary {
    #[prost(message, repeated, tag = "1")]
    pub(super) mapping_table: Vec<Mapping>,
    #[prost(message, repeated, tag = "2")]
    pub(super) location_table: Vec<Location>,
    #[prost(message, repeated, tag = "3")]
    pub(super) function_table: Vec<Function>,
    #[prost(message, repeated, tag = "4")]
    pub(super) link_table: Vec<Link>,
    #[prost(string, repeated, tag = "5")]
    pub(super) string_table: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(super) attribute_table: Vec<KeyValueAndUnit>,
    #[prost(message, repeated, tag = "7")]
    pub(super) stack_table: Vec<SampleStack>,
}

/// The profiles of a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceProfiles {
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_profiles: Vec<ScopeProfiles>,
}

/// The profiles of a profiler.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeProfiles {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) profiles: Vec<Profile>,
}

/// The profiler (`opentelemetry.proto.common.v1`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// The values of one type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, optional, tag = "1")]
    pub(super) sample_type: Option<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<Sample>,
    /// Nanoseconds since 1970.
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(uint64, tag = "4")]
    pub(super) duration_nano: u64,
    #[prost(int32, repeated, tag = "11")]
    pub(super) attribute_indices: Vec<i32>,
}

/// The meaning of the values.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int32, tag = "1")]
    pub(super) type_strindex: i32,
    #[prost(int32, tag = "2")]
    pub(super) unit_strindex: i32,
}

/// A stack with a value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(int32, tag = "1")]
    pub(super) stack_index: i32,
    #[prost(int32, repeated, tag = "2")]
    pub(super) attribute_indices: Vec<i32>,
    #[prost(int64, repeated, tag = "4")]
    pub(super) values: Vec<i64>,
}

/// What was profiled.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(int32, tag = "4")]
    pub(super) filename_strindex: i32,
}

/// A link to a trace. We have none but the empty one.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Link {}

/// A stack, the innermost frame first. The format calls it `Stack`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SampleStack {
    #[prost(int32, repeated, tag = "1")]
    pub(super) location_indices: Vec<i32>,
}

/// A place in a function.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(int32, tag = "1")]
    pub(super) mapping_index: i32,
    #[prost(message, repeated, tag = "3")]
    pub(super) lines: Vec<Line>,
    #[prost(int32, repeated, tag = "4")]
    pub(super) attribute_indices: Vec<i32>,
}

/// A line of a function; 0 if it is not known.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Line {
    #[prost(int32, tag = "1")]
    pub(super) function_index: i32,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    /// For people.
    #[prost(int32, tag = "1")]
    pub(super) name_strindex: i32,
    /// As the system knows it.
    #[prost(int32, tag = "2")]
    pub(super) system_name_strindex: i32,
    #[prost(int32, tag = "3")]
    pub(super) filename_strindex: i32,
    #[prost(int64, tag = "4")]
    pub(super) start_line: i64,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValueAndUnit {
    #[prost(int32, tag = "1")]
    pub(super) key_strindex: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
    #[prost(int32, tag = "3")]
    pub(super) unit_strindex: i32,
}

/// An attribute's value (`opentelemetry.proto.common.v1`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    pub(super) value: Option<Value>,
}

/// The value itself.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A truth value.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A number.
    #[prost(int64, tag = "3")]
    Int(i64),
}
