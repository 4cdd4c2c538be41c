// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The tokens of a call trace, and the words of 32 bits that they consist of.
//!
//! A word without bit 31 is the number of a site. A word with bit 31 is the head of an escape:
//!
//! | bits | content |
//! |---|---|
//! | 31 | 1 |
//! | 30–28 | number of words that follow the head and belong to the escape |
//! | 27–20 | kind |
//! | 19–0 | a small value |
//!
//! A reader can skip kinds that it does not know. The numbers of kinds, reasons and causes never
//! change; `docs/call-trace-format.md` lists them.

use crate::known::Known;

/// How a frame ended, if not by a return or an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The end was not seen.
    Lost,
    /// A return or an exception; it is unknown which.
    Unknown,
    /// A debugger removed the frame.
    PopFrame,
    /// A debugger made the frame return.
    EarlyReturn,
}

/// A place where tokens may be missing, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing is known for a part of the flow.
    Gap {
        /// Name of the reason, see `GapReason::name` of `jportal-flow`.
        reason: &'static str,
        /// The frames are not known any more.
        stack_lost: bool,
    },
    /// Compiled code whose bytecodes are not known.
    Unresolved {
        /// Name of the cause, see `Cause::name` of `jportal-flow`.
        cause: &'static str,
        /// The method, by its exceptional exit. `None`: outside of the scope.
        method: Option<u32>,
    },
    /// Bytecodes of frames whose methods are not known.
    Orphans,
    /// A frame of this method (by its exceptional exit) whose beginning was not seen.
    Found(u32),
    /// A frame ended without a return site or an exceptional exit.
    Left {
        /// The method, by its exceptional exit. `None`: outside of the scope.
        method: Option<u32>,
        /// How.
        ended: Ended,
    },
    /// A call left no frame, because a compiler inlined and removed the callee. It was made at
    /// the call site directly before this mark, or outside of the scope.
    Silent,
    /// Events that were left out at the caller's request.
    LeftOut,
}

/// One token. Methods are named by the number of their exceptional exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A call site, a return site or an exceptional exit.
    Site(u32),
    /// A method of the scope was called from outside of the scope.
    Callback {
        /// The site on which the nearest frame of the scope stands. `None`: it does not stand on a
        /// call site.
        site: Option<u32>,
        /// The method.
        method: u32,
        /// The caller is not known.
        blind: bool,
    },
    /// A method of the scope was called while no frame of the scope was on the stack.
    Entry {
        /// The method.
        method: u32,
        /// Frames below are not known.
        blind: bool,
    },
    /// The VM ran a class initialiser or a finaliser.
    Implicit(u32),
    /// The tokens that follow happened at or after this time, in ticks of the TSC.
    Time(u64),
    /// How the tokens that follow are known. At the beginning they are decoded.
    Known(Known),
    /// Tokens may be missing here.
    Mark(Mark),
    /// The trace ends here. Without this token, the file is incomplete.
    End {
        /// No token is missing or inferred.
        exact: bool,
    },
    /// An escape of a kind that this version does not know.
    Other {
        /// The kind.
        kind: u8,
        /// The small value.
        value: u32,
    },
}

const ESCAPE: u32 = 1 << 31;
/// A site or method that is absent.
const NONE: u32 = u32::MAX;
/// The greatest number of a site.
pub(super) const MOST_SITES: u32 = ESCAPE - 1;
const STACK_LOST: u32 = 1 << 8;

const CALLBACK: u32 = 1;
const ENTRY: u32 = 2;
const IMPLICIT: u32 = 3;
// 4 is reserved for `EXC` of Casper's logs.
const TIME: u32 = 5;
const GAP: u32 = 6;
const UNRESOLVED: u32 = 7;
const ORPHANS: u32 = 8;
const FOUND: u32 = 9;
const LEFT: u32 = 10;
const SILENT: u32 = 11;
const KNOWN: u32 = 12;
const LEFT_OUT: u32 = 13;
const END: u32 = 14;

/// Reasons of gaps by number. The list may only grow at its end.
const REASONS: [&str; 8] =
    ["other", "truncated", "overflow", "sideband", "packets", "machine-flow", "reconstruct", "left-out"];

/// Causes of unresolved stretches by number. The list may only grow at its end.
const CAUSES: [&str; 22] = [
    "other",
    "conditional-move",
    "empty-diamond",
    "folded-compares",
    "trichotomy",
    "clipping",
    "empty-loop",
    "array-fill",
    "shared-target",
    "conditional-expression",
    "too-many-markers",
    "unknown-instruction",
    "string-concatenation",
    "prepared-exception",
    "other-fold",
    "several-paths",
    "missing-marker",
    "hidden-callee",
    "unknown-method",
    "unknown-thrower",
    "unknown-end",
    "moved-allocation",
];

fn number(names: &[&str], name: &str) -> u32 {
    names.iter().position(|n| *n == name).unwrap_or(0) as u32
}

fn name(names: &[&'static str], number: u32) -> &'static str {
    names.get(number as usize).copied().unwrap_or("other")
}

fn some(word: u32) -> Option<u32> {
    Some(word).filter(|w| *w != NONE)
}

/// The head of an escape, followed by its words.
fn escape(out: &mut Vec<u32>, kind: u32, value: u32, words: &[u32]) {
    out.push(ESCAPE | ((words.len() as u32) << 28) | (kind << 20) | value);
    out.extend_from_slice(words);
}

impl Token {
    /// Appends the words of the token.
    pub fn encode(self, out: &mut Vec<u32>) {
        let absent = |id: Option<u32>| id.unwrap_or(NONE);
        match self {
            Self::Site(id) => out.push(id & !ESCAPE),
            Self::Callback { site, method, blind } => {
                escape(out, CALLBACK, blind.into(), &[absent(site), method]);
            }
            Self::Entry { method, blind } => escape(out, ENTRY, blind.into(), &[method]),
            Self::Implicit(method) => escape(out, IMPLICIT, 0, &[method]),
            Self::Time(tsc) => escape(out, TIME, 0, &[tsc as u32, (tsc >> 32) as u32]),
            Self::Known(known) => escape(out, KNOWN, known as u32, &[]),
            Self::Mark(mark) => mark.encode(out),
            Self::End { exact } => escape(out, END, exact.into(), &[]),
            Self::Other { kind, value } => escape(out, kind.into(), value & 0xf_ffff, &[]),
        }
    }
    /// The number of words that follow the first word of a token.
    pub const fn words_after(first: u32) -> usize {
        if first & ESCAPE == 0 { 0 } else { ((first >> 28) & 7) as usize }
    }
    /// The token of a first word and the words after it.
    pub fn decode(first: u32, rest: &[u32]) -> Self {
        if first & ESCAPE == 0 {
            return Self::Site(first);
        }
        let (kind, value) = ((first >> 20) & 0xff, first & 0xf_ffff);
        match (kind, rest) {
            (CALLBACK, [site, method]) => {
                Self::Callback { site: some(*site), method: *method, blind: value & 1 != 0 }
            }
            (ENTRY, [method]) => Self::Entry { method: *method, blind: value & 1 != 0 },
            (IMPLICIT, [method]) => Self::Implicit(*method),
            (TIME, [low, high]) => Self::Time((u64::from(*high) << 32) | u64::from(*low)),
            (KNOWN, []) if value == Known::Decoded as u32 => Self::Known(Known::Decoded),
            (KNOWN, []) if value == Known::Projected as u32 => Self::Known(Known::Projected),
            (KNOWN, []) if value == Known::Recovered as u32 => Self::Known(Known::Recovered),
            (END, []) => Self::End { exact: value & 1 != 0 },
            _ => Mark::decode(kind, value, rest).map_or(Self::Other { kind: kind as u8, value }, Self::Mark),
        }
    }
}

impl Mark {
    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gap { .. } => "gap",
            Self::Unresolved { .. } => "unresolved",
            Self::Orphans => "orphans",
            Self::Found(_) => "found",
            Self::Left { .. } => "left",
            Self::Silent => "silent",
            Self::LeftOut => "left-out",
        }
    }
    fn encode(self, out: &mut Vec<u32>) {
        match self {
            Self::Gap { reason, stack_lost } => {
                let lost = if stack_lost { STACK_LOST } else { 0 };
                escape(out, GAP, number(&REASONS, reason) | lost, &[]);
            }
            Self::Unresolved { cause, method } => {
                escape(out, UNRESOLVED, number(&CAUSES, cause), &[method.unwrap_or(NONE)]);
            }
            Self::Orphans => escape(out, ORPHANS, 0, &[]),
            Self::Found(method) => escape(out, FOUND, 0, &[method]),
            Self::Left { method, ended } => {
                escape(out, LEFT, ended as u32, &[method.unwrap_or(NONE)]);
            }
            Self::Silent => escape(out, SILENT, 0, &[]),
            Self::LeftOut => escape(out, LEFT_OUT, 0, &[]),
        }
    }
    fn decode(kind: u32, value: u32, rest: &[u32]) -> Option<Self> {
        Some(match (kind, rest) {
            (GAP, []) => {
                Self::Gap { reason: name(&REASONS, value & 0xff), stack_lost: value & STACK_LOST != 0 }
            }
            (UNRESOLVED, [method]) => Self::Unresolved { cause: name(&CAUSES, value), method: some(*method) },
            (ORPHANS, []) => Self::Orphans,
            (FOUND, [method]) => Self::Found(*method),
            (LEFT, [method]) => {
                let all = [Ended::Lost, Ended::Unknown, Ended::PopFrame, Ended::EarlyReturn];
                let ended = all.into_iter().find(|e| *e as u32 == value)?;
                Self::Left { method: some(*method), ended }
            }
            (SILENT, []) => Self::Silent,
            (LEFT_OUT, []) => Self::LeftOut,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_flow::{Cause, GapReason};

    #[test]
    fn a_token_is_its_words() {
        let marks = [
            Mark::Gap { reason: "overflow", stack_lost: true },
            Mark::Gap { reason: "sideband", stack_lost: false },
            Mark::Unresolved { cause: "several-paths", method: None },
            Mark::Unresolved { cause: "empty-loop", method: Some(7) },
            Mark::Orphans,
            Mark::Found(9),
            Mark::Left { method: Some(3), ended: Ended::EarlyReturn },
            Mark::Left { method: None, ended: Ended::Lost },
            Mark::Silent,
            Mark::LeftOut,
        ];
        let mut all = marks.map(Token::Mark).to_vec();
        all.extend([
            Token::Site(0),
            Token::Site(MOST_SITES),
            Token::Callback { site: Some(4), method: 5, blind: false },
            Token::Callback { site: None, method: 5, blind: true },
            Token::Entry { method: 1, blind: false },
            Token::Implicit(2),
            Token::Time(0x1234_5678_9abc_def0),
            Token::Known(Known::Recovered),
            Token::End { exact: true },
            Token::Other { kind: 200, value: 77 },
        ]);
        for token in all {
            let mut words = Vec::new();
            token.encode(&mut words);
            assert_eq!(Token::words_after(words[0]), words.len() - 1, "{token:?}");
            assert_eq!(Token::decode(words[0], &words[1..]), token);
        }
    }

    #[test]
    fn every_reason_and_cause_has_a_number() {
        assert!(Cause::ALL.iter().all(|c| number(&CAUSES, c.name()) > 0));
        for name in ["truncated", "overflow", "sideband", "packets", "left-out"] {
            let reason = GapReason::named(name, "", String::new()).unwrap();
            assert!(number(&REASONS, reason.name()) > 0);
        }
        assert_eq!(number(&REASONS, "reconstruct"), 6, "numbers never change");
        assert_eq!(number(&CAUSES, "unknown-end"), 20, "numbers never change");
    }
}
