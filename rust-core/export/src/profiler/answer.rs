// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads what the profiler's process answers.

use std::io::{self, Read};

use super::{HEAD, VERSION};
use crate::Error;

/// Longest message of a fault in bytes.
const LONGEST: u64 = 1 << 20;

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The profiler is loaded.
    Ready,
    /// After how many bytecodes to report.
    Granularity(u32),
    /// The profiler has finished.
    Done,
}

/// What an error of a stream means. A process that ended leaves a closed stream.
pub(super) fn stream_error(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            Error::ProfilerGone
        }
        _ => Error::ProfilerStream(error),
    }
}

fn byte(from: &mut impl Read) -> Result<u8, Error> {
    let mut one = [0];
    from.read_exact(&mut one).map_err(stream_error)?;
    Ok(one[0])
}

fn number(from: &mut impl Read) -> Result<u64, Error> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = byte(from)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Error::ProfilerAnswer("a number of more than 63 bits".to_owned()))
}

/// Reads the beginning.
pub(super) fn head(from: &mut impl Read) -> Result<(), Error> {
    let mut found = [0; HEAD.len()];
    from.read_exact(&mut found).map_err(stream_error)?;
    if found != *HEAD {
        return Err(Error::ProfilerAnswer(format!("{} at the beginning", found.escape_ascii())));
    }
    match number(from)? {
        VERSION => Ok(()),
        found => Err(Error::ProfilerVersion { found, wanted: VERSION }),
    }
}

/// Reads an answer. That the profiler failed is an error.
pub(super) fn answer(from: &mut impl Read) -> Result<Answer, Error> {
    match byte(from)? {
        0 => Ok(Answer::Ready),
        1 => match number(from)? {
            n @ 1..=0x7fff_ffff => Ok(Answer::Granularity(n as u32)),
            n => Err(Error::ProfilerAnswer(format!("the granularity {n}"))),
        },
        2 => {
            let length = number(from)?;
            if length > LONGEST {
                return Err(Error::ProfilerAnswer(format!("a message of {length} bytes")));
            }
            let mut text = vec![0; length as usize];
            from.read_exact(&mut text).map_err(stream_error)?;
            Err(Error::Profiler(String::from_utf8_lossy(&text).into_owned()))
        }
        3 => Ok(Answer::Done),
        other => Err(Error::ProfilerAnswer(format!("an answer of the kind {other}"))),
    }
}
