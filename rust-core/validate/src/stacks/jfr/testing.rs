// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Recordings of JFR, for unit tests.

use serde_json::{Value, json};

/// A frame as `jfr print --json` prints it.
pub(in crate::stacks) fn frame((class, name, descriptor): (&str, &str, &str), bci: u16, kind: &str) -> Value {
    json!({
        "method": {
            "type": {"classLoader": {"type": null, "name": "app"}, "name": class, "hidden": false},
            "name": name, "descriptor": descriptor, "modifiers": 8, "hidden": false
        },
        "lineNumber": 1, "bytecodeIndex": bci, "type": kind
    })
}

/// An event with a stack.
pub(in crate::stacks) fn event(kind: &str, time: &str, tid: u32, truncated: bool, frames: &[Value]) -> Value {
    json!({
        "type": kind,
        "values": {
            "startTime": time,
            "sampledThread": {"osName": "main", "osThreadId": tid, "javaName": "main", "javaThreadId": 1},
            "stackTrace": {"truncated": truncated, "frames": frames},
            "state": "STATE_RUNNABLE"
        }
    })
}

pub(in crate::stacks) fn recording(events: &[Value]) -> String {
    json!({"recording": {"events": events}}).to_string()
}
