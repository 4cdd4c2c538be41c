// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads stacks with weights from a pprof profile, whoever wrote it.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use hashbrown::HashMap;
use prost::Message;

use super::pprof_proto::{Profile, Sample};

/// Bytes of a profile, unpacked, that are read at most.
const MOST: u64 = 1 << 30;

/// Why a pprof profile cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PprofError {
    /// Reading or unpacking failed.
    #[error("cannot be unpacked: {0}")]
    Unpack(#[from] io::Error),
    /// It is larger than what is read.
    #[error("is larger than {MOST} bytes when unpacked; collapsed stacks have no limit")]
    TooLarge,
    /// It is no message of pprof's `profile.proto`.
    #[error("is no profile of pprof: {0}")]
    Decode(#[from] prost::DecodeError),
    /// It refers to something that it does not have.
    #[error("names {what} {number}, which it does not have")]
    Missing {
        /// What it is: `location`, `function`, `text` or `sample type`.
        what: &'static str,
        /// Its number.
        number: i128,
    },
    /// A weight is negative, as in the difference of two profiles.
    #[error("has a stack with the weight {0}: it is the difference of two profiles")]
    Negative(i64),
}

/// The stacks of a pprof profile. Their weights are of the profile's default sample type, or of
/// the last one if there is no default, which is pprof's own rule.
#[derive(Debug)]
pub struct PprofStacks {
    profile: Profile,
    /// Names of each location, innermost first: a location has the frames inlined there.
    places: HashMap<u64, Vec<usize>>,
    value: usize,
}

impl PprofStacks {
    /// Reads a profile, compressed with gzip.
    ///
    /// # Errors
    /// [`PprofError`].
    pub fn read(from: impl Read) -> Result<Self, PprofError> {
        let mut bytes = Vec::new();
        MultiGzDecoder::new(from).take(MOST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST {
            return Err(PprofError::TooLarge);
        }
        Self::decode(&bytes)
    }
    /// Reads a profile that is not compressed.
    ///
    /// # Errors
    /// [`PprofError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, PprofError> {
        Self::new(Profile::decode(bytes)?)
    }
    fn new(profile: Profile) -> Result<Self, PprofError> {
        let functions: HashMap<u64, i64> = profile.function.iter().map(|f| (f.id, f.name)).collect();
        let mut places = HashMap::new();
        for location in &profile.location {
            let names = location.line.iter().map(|line| {
                let id = line.function_id;
                text(&profile, *functions.get(&id).ok_or_else(|| missing("function", id))?)
            });
            places.insert(location.id, names.collect::<Result<Vec<usize>, _>>()?);
        }
        let value = Self::value(&profile)?;
        let this = Self { profile, places, value };
        this.profile.sample.iter().try_for_each(|sample| this.stack(sample).map(drop))?;
        Ok(this)
    }
    /// Which value of a sample is its weight.
    fn value(profile: &Profile) -> Result<usize, PprofError> {
        let last = profile.sample_type.len().saturating_sub(1);
        if profile.default_sample_type == 0 {
            return Ok(last);
        }
        let name = |at: i64| text(profile, at).map(|at| &profile.string_table[at]);
        let default = name(profile.default_sample_type)?;
        for (at, sort) in profile.sample_type.iter().enumerate() {
            if name(sort.r#type)? == default {
                return Ok(at);
            }
        }
        Err(missing("sample type", profile.default_sample_type))
    }
    fn stack(&self, sample: &Sample) -> Result<(Vec<&str>, u64), PprofError> {
        let mut frames = Vec::new();
        for id in sample.location_id.iter().rev() {
            let place = self.places.get(id).ok_or_else(|| missing("location", *id))?;
            frames.extend(place.iter().rev().map(|at| self.profile.string_table[*at].as_str()));
        }
        let value = sample.value.get(self.value).copied();
        let value = value.ok_or_else(|| missing("sample type", self.value as u64))?;
        Ok((frames, u64::try_from(value).map_err(|_| PprofError::Negative(value))?))
    }
    /// The stacks that have a frame and a weight: frames, outermost first, and the weight.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&str>, u64)> {
        // All were looked at when the profile was read.
        let stacks = self.profile.sample.iter().filter_map(|sample| self.stack(sample).ok());
        stacks.filter(|(frames, weight)| !frames.is_empty() && *weight > 0)
    }
}

fn missing(what: &'static str, number: impl Into<i128>) -> PprofError {
    PprofError::Missing { what, number: number.into() }
}

/// The index of a text.
fn text(profile: &Profile, number: i64) -> Result<usize, PprofError> {
    let at = usize::try_from(number).ok().filter(|at| *at < profile.string_table.len());
    at.ok_or_else(|| missing("text", number))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::pprof_proto::{Function, FunctionLine, Location, ValueType};
    use super::super::testing::mixed;
    use super::super::{ProfileOptions, write_pprof};
    use super::*;

    fn packed(profile: &Profile) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(&profile.encode_to_vec()).unwrap();
        out.finish().unwrap()
    }

    /// `main` calls `f`, into which `g` is inlined: 7 samples of 70 ns.
    fn small() -> Profile {
        let function = |id, name| Function { id, name, ..Function::default() };
        let line = |function_id| FunctionLine { function_id, line: 0 };
        let location = |id, line| Location { id, mapping_id: 0, line };
        Profile {
            string_table: ["", "samples", "count", "cpu", "Main.main", "Main.f", "Main.g"]
                .map(String::from)
                .into(),
            sample_type: vec![ValueType { r#type: 1, unit: 2 }, ValueType { r#type: 3, unit: 2 }],
            function: vec![function(1, 4), function(2, 5), function(3, 6)],
            location: vec![location(10, vec![line(1)]), location(11, vec![line(3), line(2)])],
            sample: vec![Sample { location_id: vec![11, 10], value: vec![7, 70], label: vec![] }],
            ..Profile::default()
        }
    }

    #[test]
    fn inlined_frames_are_frames() {
        let read = |profile: &Profile| PprofStacks::read(&packed(profile)[..]).unwrap();
        let all = read(&small());
        assert_eq!(all.stacks().collect::<Vec<_>>(), [(vec!["Main.main", "Main.f", "Main.g"], 70)]);
        let all = read(&Profile { default_sample_type: 1, ..small() });
        assert_eq!(all.stacks().map(|s| s.1).sum::<u64>(), 7);
    }

    #[test]
    fn what_we_write_is_read() {
        let mut bytes = Vec::new();
        write_pprof(&mixed(), &ProfileOptions::default(), &mut bytes).unwrap();
        let read = PprofStacks::read(&bytes[..]).unwrap();
        let all: u64 = mixed().nodes.iter().map(|n| n.bytecodes.total()).sum();
        assert_eq!(read.stacks().map(|s| s.1).sum::<u64>(), all);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |change: &dyn Fn(&mut Profile)| {
            let mut profile = small();
            change(&mut profile);
            PprofStacks::read(&packed(&profile)[..]).unwrap_err().to_string()
        };
        assert_eq!(said(&|p| p.sample[0].location_id[0] = 5), "names location 5, which it does not have");
        assert_eq!(said(&|p| p.function.clear()), "names function 1, which it does not have");
        assert_eq!(said(&|p| p.function[1].name = -1), "names text -1, which it does not have");
        assert_eq!(said(&|p| p.default_sample_type = 6), "names sample type 6, which it does not have");
        assert_eq!(said(&|p| p.sample[0].value.truncate(1)), "names sample type 1, which it does not have");
        assert!(said(&|p| p.sample[0].value[1] = -3).starts_with("has a stack with the weight -3"));
        let text = PprofStacks::read(&b"a;b 1"[..]).unwrap_err().to_string();
        assert!(text.starts_with("cannot be unpacked: "), "{text}");
        let mut cut = packed(&small());
        cut.truncate(cut.len() - 9);
        assert!(PprofStacks::read(&cut[..]).is_err());
    }
}
