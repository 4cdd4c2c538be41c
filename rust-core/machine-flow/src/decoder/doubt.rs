// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Returns that cast doubt on a choice.
//!
//! Two versions of a call may lead to code that sends the same packets up to a return. In the
//! wrong version, that return leads to a caller that has not called in this flow
//! ([`Error::OtherCaller`]), or out of the code cache although the caller is inside. Usually such
//! a return proves that the choice was wrong. The choice may also be right: exceptions and
//! deoptimisation remove frames without a return, and the decoder remembers only the latest
//! calls. A doubt therefore tries the other versions, one choice at a time. If none of them
//! explains the return, the flow stays as it was.

use super::choice::{Alternative, Choice, Trouble, Window};
use super::state::DecoderState;
use super::{CoreDecoder, Decision};
use crate::error::Error;
use crate::image::CodeHistory;
use crate::item::Item;
use crate::view::Seen;

/// Alternatives tried for one return.
const MAX_TRIALS: usize = 16;

/// A return that is being examined.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    /// Number of branch packets up to and including the return.
    branches: u64,
    /// The untried alternatives, each with the index of its choice in [`DecoderSnapshot`]. The
    /// next one to try is last.
    trials: Vec<(usize, Alternative)>,
    before: DecoderSnapshot,
}

/// The state of the decoder when it reached the return.
#[derive(Clone, Debug)]
struct DecoderSnapshot {
    state: DecoderState,
    choices: Vec<Choice>,
    /// The items since the first choice.
    items: Vec<Item>,
    decisions: Vec<Decision>,
    seen: Seen,
    window: Window,
    trouble: Option<Trouble>,
    level: u32,
}

impl Doubt {
    /// Whether the flow, after `branches` packets, has passed the return. The caller has called
    /// then.
    pub fn is_over(&self, branches: u64) -> bool {
        branches > self.branches
    }
}

impl CoreDecoder {
    /// Whether a doubtful return may lead to another try, because an untried version is left.
    pub(super) fn may_doubt(&self) -> bool {
        let is_settled =
            self.surrender || self.give_up_at == self.state.packet || self.trusted_at == self.state.packet;
        !is_settled && self.choices.iter().any(Choice::has_alternatives)
    }

    /// Starts or continues a doubt: `error` is the reason to try another version, or ends such a
    /// trial. Returns `false` if it is neither.
    pub(super) fn doubt(&mut self, error: &Error, image: &CodeHistory) -> bool {
        if self.doubt.as_ref().is_some_and(|d| d.is_over(self.state.branches)) {
            self.doubt = None;
        }
        if self.doubt.is_none() {
            if !matches!(error, Error::OtherCaller { .. }) {
                return false;
            }
            self.doubt = Some(Box::new(self.new_doubt()));
        }
        self.next_of_doubt(image);
        true
    }

    fn new_doubt(&self) -> Doubt {
        let of = |(n, choice): (usize, &Choice)| {
            choice.alternatives().iter().map(move |a| (n, a.clone())).collect::<Vec<_>>()
        };
        let mut trials: Vec<(usize, Alternative)> = self.choices.iter().enumerate().flat_map(of).collect();
        trials.drain(..trials.len().saturating_sub(MAX_TRIALS));
        let from = self.choices.first().map_or(self.items.len(), |c| (c.items - self.handed) as usize);
        Doubt {
            branches: self.state.branches,
            trials,
            before: DecoderSnapshot {
                state: self.state.clone(),
                choices: self.choices.clone(),
                items: self.items[from..].to_vec(),
                decisions: self.decisions.clone(),
                seen: self.view.seen(),
                window: self.window,
                trouble: self.trouble.clone(),
                level: self.level,
            },
        }
    }

    fn next_of_doubt(&mut self, image: &CodeHistory) {
        let Some(mut doubt) = self.doubt.take() else { return };
        let Some((number, alternative)) = doubt.trials.pop() else { return self.trust(*doubt, image) };
        self.statistics.backtracks += 1;
        self.rewind(&doubt.before, image);
        self.choices.truncate(number + 1);
        if let Some(choice) = self.choices.pop() {
            self.restore(&choice, image);
            self.choices.push(choice.without(&alternative));
            self.forced = Some(alternative);
        }
        self.trouble = None;
        self.doubt = Some(doubt);
    }

    /// Nothing else explains the return: restores the flow as it was and accepts the return.
    fn trust(&mut self, doubt: Doubt, image: &CodeHistory) {
        self.rewind(&doubt.before, image);
        self.trusted_at = self.state.packet;
    }

    fn rewind(&mut self, before: &DecoderSnapshot, image: &CodeHistory) {
        self.choices.clone_from(&before.choices);
        let from = self.choices.first().map_or(self.items.len() as u64, |c| c.items - self.handed);
        self.items.truncate(from as usize);
        self.items.extend_from_slice(&before.items);
        self.decisions.clone_from(&before.decisions);
        self.level = before.level;
        self.trouble.clone_from(&before.trouble);
        self.come_back(&before.state, &before.seen, before.window, image);
    }
}
