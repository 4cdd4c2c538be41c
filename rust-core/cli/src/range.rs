// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Places and lengths of time on the command line.

use std::time::Duration;

use anyhow::{Result, bail};
use jportal::{Bound, Capture, Tsc};

use crate::args::{RangeArgs, RecordingPlace};

/// Parses seconds: `10`, `2.5`, `2.5s`, `500ms`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let number = digits.parse::<f64>().ok().map(|n| n * unit);
    let length = number.and_then(|n| Duration::try_from_secs_f64(n).ok());
    length.ok_or_else(|| "expected seconds: 10, 2.5 or 500ms".to_owned())
}

/// Parses a place of a recording.
pub(crate) fn place(text: &str) -> Result<RecordingPlace, String> {
    let number = |digits: &str| digits.parse().map_err(|_| format!("{digits:?} is no number"));
    match text.split_once(':') {
        Some(("tsc", digits)) => number(digits).map(RecordingPlace::Tsc),
        Some(("event", digits)) => number(digits).map(RecordingPlace::Event),
        Some(_) => Err("expected seconds, tsc:N or event:N".to_owned()),
        None => seconds(text).map(|t| RecordingPlace::Nanos(t.as_nanos() as u64)),
    }
}

/// The bounds that the arguments name in a capture.
pub(crate) fn bounds(args: &RangeArgs, capture: &Capture) -> Result<(Option<Bound>, Option<Bound>)> {
    let header = capture.recording().reader().header();
    let bound = |place: RecordingPlace| {
        Ok(match place {
            RecordingPlace::Tsc(tsc) => Bound::Time(Tsc(tsc)),
            RecordingPlace::Event(number) => Bound::Event(number),
            RecordingPlace::Nanos(_) if header.tsc_khz == 0 => {
                bail!("the capture does not say how fast its clock is; give --from and --to as tsc:N")
            }
            RecordingPlace::Nanos(nanos) => {
                let ticks = u128::from(nanos) * u128::from(header.tsc_khz) / 1_000_000;
                let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
                Bound::Time(Tsc(header.start_tsc.saturating_add(ticks)))
            }
        })
    };
    Ok((args.from.map(bound).transpose()?, args.to.map(bound).transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_times_or_events() {
        assert_eq!(place("1.5"), Ok(RecordingPlace::Nanos(1_500_000_000)));
        assert_eq!(place("250ms"), Ok(RecordingPlace::Nanos(250_000_000)));
        assert_eq!(place("2s"), Ok(RecordingPlace::Nanos(2_000_000_000)));
        assert_eq!(
            (place("tsc:77"), place("event:5")),
            (Ok(RecordingPlace::Tsc(77)), Ok(RecordingPlace::Event(5)))
        );
        for bad in ["", "-1", "x", "tsc:", "event:x", "line:3", "1e30"] {
            assert!(place(bad).is_err(), "{bad:?}");
        }
    }
}
