// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Profiles: stacks with weights.

use std::io::{self, BufRead};

use hashbrown::HashMap;

use super::names::{FrameName, FrameSort, method_name};
use crate::stacks::jfr::JfrSamples;

/// Why collapsed stacks cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A line that is no stack with a weight.
    #[error("line {line} is no collapsed stack, `frame;frame weight`: {text:?}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The line, shortened.
        text: String,
    },
    /// There is no stack.
    #[error("there is no stack in it")]
    Empty,
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A stack of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProfileStack {
    /// Numbers of the frames' names, outermost first.
    pub(super) frames: Vec<u32>,
    pub(super) weight: u64,
    /// Outer frames are missing.
    pub(super) truncated: bool,
}

/// Stacks with weights, as a profiler wrote them.
#[derive(Debug)]
pub struct StackProfile {
    pub(super) format: &'static str,
    pub(super) names: Vec<FrameName>,
    numbers: HashMap<Box<str>, u32>,
    pub(super) stacks: Vec<ProfileStack>,
}

impl StackProfile {
    const fn new(format: &'static str, numbers: HashMap<Box<str>, u32>) -> Self {
        Self { format, names: Vec::new(), numbers, stacks: Vec::new() }
    }
    /// Reads collapsed stacks (Brendan Gregg's format): a stack per line, its frames separated by
    /// semicolons, outermost first, and its weight after a blank.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn read_collapsed(mut from: impl BufRead) -> Result<Self, ProfileError> {
        const SHOWN: usize = 80;
        let mut profile = Self::new("collapsed", HashMap::new());
        let (mut bytes, mut number) = (Vec::new(), 0);
        while from.read_until(b'\n', &mut bytes)? > 0 {
            number += 1;
            // Names of other languages need not be UTF-8.
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim();
            if !text.is_empty() {
                let parsed =
                    text.rsplit_once(char::is_whitespace).filter(|(stack, _)| !stack.trim().is_empty());
                let parsed = parsed.and_then(|(stack, weight)| Some((stack.trim(), weight.parse().ok()?)));
                let Some((stack, weight)) = parsed else {
                    return Err(ProfileError::Line {
                        line: number,
                        text: text.chars().take(SHOWN).collect(),
                    });
                };
                let frames = stack.split(';').map(|frame| profile.number(frame)).collect();
                profile.stacks.push(ProfileStack { frames, weight, truncated: false });
            }
            bytes.clear();
        }
        if profile.stacks.is_empty() {
            return Err(ProfileError::Empty);
        }
        Ok(profile)
    }
    /// The profile of JFR's samples.
    ///
    /// # Errors
    /// [`ProfileError::Empty`].
    pub fn of_jfr(samples: &JfrSamples) -> Result<Self, ProfileError> {
        let mut profile = Self::new("jfr", HashMap::new());
        let name = |m: &crate::stacks::log::LoggedMethod| FrameName {
            method: method_name(&m.class, &m.name),
            sort: FrameSort::Java,
        };
        profile.names = samples.methods.iter().map(name).collect();
        let mut weights: HashMap<(Vec<u32>, bool), u64> = HashMap::new();
        for sample in &samples.all {
            let frames = sample.frames.iter().rev().map(|f| f.method).collect();
            *weights.entry((frames, sample.truncated)).or_default() += 1;
        }
        let stack = |((frames, truncated), weight)| ProfileStack { frames, weight, truncated };
        profile.stacks = weights.into_iter().map(stack).collect();
        profile.stacks.sort_by(|a, b| (&a.frames, a.truncated).cmp(&(&b.frames, b.truncated)));
        if profile.stacks.is_empty() { Err(ProfileError::Empty) } else { Ok(profile) }
    }
    /// The profile of stacks that another format holds: frames, outermost first, and a weight.
    ///
    /// # Errors
    /// [`ProfileError::Empty`].
    pub fn of_stacks<'a>(
        format: &'static str,
        stacks: impl IntoIterator<Item = (Vec<&'a str>, u64)>,
    ) -> Result<Self, ProfileError> {
        let mut profile = Self::new(format, HashMap::new());
        for (frames, weight) in stacks {
            let frames = frames.into_iter().map(|frame| profile.number(frame)).collect();
            profile.stacks.push(ProfileStack { frames, weight, truncated: false });
        }
        if profile.stacks.is_empty() { Err(ProfileError::Empty) } else { Ok(profile) }
    }
    fn number(&mut self, frame: &str) -> u32 {
        if let Some(&number) = self.numbers.get(frame) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(FrameName::of(frame));
        self.numbers.insert(frame.into(), number);
        number
    }
}
