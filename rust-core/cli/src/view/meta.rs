// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the page says of the capture as a whole.

use jportal::export::view::ViewMeta;
use jportal::{Answer, Capture};

use crate::args::{CommonArgs, EventProvenance, RecordingPlace, ViewArgs};
use crate::decode;
use crate::report::Subject;

/// Warnings that the page shows.
const WARNINGS: usize = 20;

/// What is known without the results of analyses.
pub(super) fn of<A>(args: &ViewArgs, subject: &Subject, answer: &Answer<A>) -> ViewMeta {
    let header = subject.capture.recording().reader().header();
    let mut notes = warnings(&subject.capture);
    notes.extend(selection(&args.common));
    notes.extend(limits(answer));
    ViewMeta {
        capture: subject.name(),
        jvm: header.vm_version.text().into_owned(),
        recorded: if header.start_unix_ns == 0 { String::new() } else { utc(header.start_unix_ns) },
        producer: concat!("jportal ", env!("CARGO_PKG_VERSION")).to_owned(),
        command: command(std::env::args_os().map(|word| word.to_string_lossy().into_owned())),
        ticks_per_second: Some(header.tsc_khz as f64 * 1000.0).filter(|hz| *hz > 0.0),
        notes,
        ..ViewMeta::default()
    }
}

fn warnings(capture: &Capture) -> Vec<String> {
    let all = capture.warnings();
    let mut shown: Vec<String> = all.iter().take(WARNINGS).map(|w| format!("Warning: {w}.")).collect();
    if let Some(more) = all.len().checked_sub(WARNINGS).filter(|n| *n > 0) {
        shown.push(format!("There are {more} more warnings."));
    }
    shown
}

/// What was selected and left out.
fn selection(args: &CommonArgs) -> Vec<String> {
    let mut notes = Vec::new();
    if !args.decode.threads.is_empty() {
        notes.push(format!("Only these threads are shown: {}.", args.decode.threads.join(", ")));
    }
    let bounds = [("from", args.range.from), ("to", args.range.to)];
    let bounds = bounds.iter().filter_map(|(word, bound)| Some(format!("{word} {}", place((*bound)?))));
    let bounds: Vec<String> = bounds.collect();
    if !bounds.is_empty() {
        notes.push(format!("Only a part of the recording is shown: {}.", bounds.join(" ")));
    }
    if args.scope.classes.is_some() || !args.scope.class.is_empty() {
        notes.push(
            "Methods, flame graph and coverage are limited to the classes that were selected.".to_owned(),
        );
    } else {
        notes.push("Coverage is limited to the classes of the application.".to_owned());
    }
    if !args.exclude.exclude.is_empty() {
        let words: Vec<&str> = args.exclude.exclude.iter().map(|known| provenance(*known)).collect();
        notes.push(format!("Events of these provenances are left out: {}.", words.join(", ")));
    }
    notes
}

fn place(place: RecordingPlace) -> String {
    match place {
        RecordingPlace::Nanos(nanos) => format!("{} s", nanos as f64 / 1e9),
        RecordingPlace::Tsc(tsc) => format!("TSC {tsc}"),
        RecordingPlace::Event(number) => format!("event {number}"),
    }
}

const fn provenance(known: EventProvenance) -> &'static str {
    match known {
        EventProvenance::Decoded => "decoded",
        EventProvenance::Projected => "placed",
        EventProvenance::Recovered => "filled",
        EventProvenance::Lost => "gaps",
    }
}

/// How much of the trace was decoded, placed and filled.
fn limits<A>(answer: &Answer<A>) -> Vec<String> {
    let mut notes = Vec::new();
    if answer.summary.completeness() < 1.0 {
        notes.push(format!("{}.", decode::share_decoded(&answer.summary)));
    }
    if let Some(placed) = answer.placed.as_ref().filter(|placed| placed.orphans > 0) {
        let all = placed.certain + placed.ambiguous;
        let orphans = placed.orphans;
        notes.push(format!("{all} of {orphans} bytecodes of frames that were lost are placed."));
    }
    if let Some(filled) = &answer.filled {
        let total = &filled.total;
        notes.push(format!("{} of {} gaps are filled ({}).", total.gaps_filled, total.gaps, filled.method));
    }
    notes
}

/// The command as a line for a shell.
fn command(words: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = words.skip(1).map(|word| match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    std::iter::once("jportal".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// A time in nanoseconds since 1970 as date and time of day.
fn utc(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: years begin
    // in March, so that a leap day is the last day of a year, and 400 years are an era.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let [hour, minute, second] = [second / 3600, second / 60 % 60, second % 60];
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_leap_days() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_799, "2000-02-29 23:59:59 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_741_944_413, "2025-03-14 09:26:53 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1_000_000_000 + 7), text);
        }
    }

    #[test]
    fn a_command_can_be_given_to_a_shell() {
        let line = |words: &[&str]| command(words.iter().map(|w| (*w).to_owned()));
        assert_eq!(line(&["/x/jportal", "view", "a.jportal"]), "jportal view a.jportal");
        let words = ["jportal", "view", "my file", "--class", "a.**#<init>", "it's", ""];
        assert_eq!(line(&words), r"jportal view 'my file' --class 'a.**#<init>' 'it'\''s' ''");
    }

    #[test]
    fn places_have_units() {
        let all = [RecordingPlace::Nanos(1_500_000_000), RecordingPlace::Tsc(7), RecordingPlace::Event(9)];
        assert_eq!(all.map(place), ["1.5 s", "TSC 7", "event 9"]);
    }
}
