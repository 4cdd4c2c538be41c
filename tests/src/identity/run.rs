// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One program in several virtual machines.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::compare::{self, Comparison};
use super::listing::{self, Listed};
use crate::process;
use crate::{Error, Result};

const LIMIT: Duration = Duration::from_secs(1200);

/// Which compilers run, with as few threads as their policy permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compilers {
    /// C1 alone, without profiling.
    C1,
    /// C2 alone.
    C2,
    /// Both, as the VM sees fit: one thread each.
    Tiered,
}

impl Compilers {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::C1, Self::C2, Self::Tiered];

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::C1 => &["-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1"],
            Self::C2 => &["-XX:-TieredCompilation", "-XX:CICompilerCount=1"],
            Self::Tiered => &["-XX:CICompilerCount=2"],
        }
    }
}

impl fmt::Display for Compilers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::C1 => "c1",
            Self::C2 => "c2",
            Self::Tiered => "tiered",
        })
    }
}

impl FromStr for Compilers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|c| c.to_string() == text);
        found.ok_or_else(|| format!("no compilers {text:?}: c1, c2 or tiered").into())
    }
}

/// What JPortal does in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// The VM does not know JPortal.
    Unknown,
    /// `-XX:-JPortal`.
    Off,
    /// It records, without path markers.
    Unmarked,
    /// It records path markers with `default` precision.
    Marked,
    /// It records path markers with `exact` precision.
    Exact,
}

impl Recording {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Unknown => &[],
            Self::Off => &["-XX:-JPortal"],
            Self::Unmarked => &["-XX:+JPortal", "-XX:JPortalSource=none", "-XX:-JPortalPathMarkers"],
            Self::Marked => &["-XX:+JPortal", "-XX:JPortalSource=none"],
            Self::Exact => &["-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalPrecision=exact"],
        }
    }
}

/// Whether a process has its memory where the last one had it. C2 sorts some things by their address: a few nmethods have
/// one of two forms, and the same form in all runs with the same addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// As near as flags and VM permit.
    Same,
    /// As the kernel sees fit.
    Random,
}

/// Runs the program that `arguments` name (`java`'s own from the class path on) and lists what is compiled.
///
/// Nothing runs while something is compiled; `agent` is `libsteadystart.so`, which keeps
/// the class library from folding the time of its start into its constants.
///
/// # Errors
/// When the program does not end well or the log is not as expected.
pub fn list(
    jdk: &Path,
    agent: &Path,
    arguments: &[String],
    compilers: Compilers,
    recording: Recording,
    addresses: Addresses,
) -> Result<Vec<Listed>> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("vm.log");
    let java = jdk.join("bin/java");
    let mut command = Command::new(if addresses == Addresses::Same { Path::new("setarch") } else { &java });
    if addresses == Addresses::Same {
        command.arg("-R").arg(&java);
    }
    // Without collections the threads that clean up after them do not count in profiles.
    command.args([
        "-Xshare:off",
        "-Xbatch",
        "-XX:+UseSerialGC",
        "-Xmx1g",
        "-Xmn900m",
        "-XX:MetaspaceSize=256m",
    ]);
    command.args(compilers.flags()).args(recording.flags());
    command.args(["-XX:+UnlockDiagnosticVMOptions", "-XX:+PrintNMethods", "-XX:-DisplayVMOutput"]);
    command.args(["-XX:+LogVMOutput", &format!("-XX:LogFile={}", log.display())]);
    if recording != Recording::Unknown && recording != Recording::Off {
        command.arg(format!("-XX:JPortalFile={}", folder.path().join("capture").display()));
    }
    command.arg(format!("-agentpath:{}", agent.display())).args(arguments);
    // Not in the folder, whose name is another in each run, and a system property.
    command.current_dir("/");
    let finished = process::run(&mut command, LIMIT)?;
    if !finished.status.success() {
        return Err(format!("{}: {}\n{}", jdk.display(), finished.status, finished.stderr).into());
    }
    listing::read(&log)
}

/// The virtual machine that the others are compared with.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Its JDK.
    pub jdk: PathBuf,
    /// `Unknown` for a VM without JPortal, `Off` for ours.
    pub recording: Recording,
}

impl Reference {
    /// The tree without the feature where it has been built, else ours with `-XX:-JPortal`. Debian's own build serves less
    /// well: its name is in system properties, whose handling is in the profiles.
    pub fn built(root: &Path) -> Self {
        let plain = root.join("build/jdk-plain");
        if plain.exists() {
            return Self { jdk: plain, recording: Recording::Unknown };
        }
        Self { jdk: root.join("build/jdk"), recording: Recording::Off }
    }
}

/// A program in two virtual machines.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The one to compare with.
    pub reference: Reference,
    /// The recording JDK.
    pub jdk: PathBuf,
    /// `libsteadystart.so`.
    pub agent: PathBuf,
    /// See [`list`].
    pub arguments: Vec<String>,
    /// Where the two JDKs stand, if they had to be copied: kept until nobody needs them.
    _homes: Option<Arc<TempDir>>,
}

/// So many times both run at most, from the second on with random addresses. Some decisions of a VM hang on time or on
/// addresses; what a flag changes, it changes always.
const ATTEMPTS: usize = 5;

impl Pair {
    /// The reference and the recording JDK. Where one lies is in system properties, and how long these are is in profiles (of
    /// `StringLatin1.indexOf`, say): JDKs with paths of different lengths are copied to such of the same.
    ///
    /// # Errors
    /// When they cannot be copied.
    pub fn new(
        mut reference: Reference,
        mut jdk: PathBuf,
        agent: PathBuf,
        arguments: Vec<String>,
    ) -> Result<Self> {
        let mut homes = None;
        if reference.jdk.canonicalize()?.as_os_str().len() != jdk.canonicalize()?.as_os_str().len() {
            let folder = tempfile::tempdir_in(jdk.parent().unwrap_or(Path::new(".")))?;
            for (name, home) in [("a", &mut reference.jdk), ("b", &mut jdk)] {
                let copy = folder.path().join(name);
                let mut cp = Command::new("cp");
                cp.arg("-rlL").arg(&*home).arg(&copy);
                let copied = process::run(&mut cp, LIMIT)?;
                if !copied.status.success() {
                    return Err(format!("cannot copy {}: {}", home.display(), copied.stderr).into());
                }
                *home = copy;
            }
            homes = Some(Arc::new(folder));
        }
        Ok(Self { reference, jdk, agent, arguments, _homes: homes })
    }
    /// Compares until nothing differs in all runs, and not among those of the reference either. `references` grows, and may be
    /// used again with the same compilers.
    ///
    /// # Errors
    /// As [`list`].
    pub fn compare(
        &self,
        references: &mut Vec<Vec<Listed>>,
        compilers: Compilers,
        recording: Recording,
    ) -> Result<Comparison> {
        let list = |jdk, recording, attempt| {
            let addresses = if attempt == 1 { Addresses::Same } else { Addresses::Random };
            list(jdk, &self.agent, &self.arguments, compilers, recording, addresses)
        };
        let mut result: Option<Comparison> = None;
        for attempt in 1..=ATTEMPTS {
            if references.len() < attempt {
                references.push(list(&self.reference.jdk, self.reference.recording, attempt)?);
            }
            let tested = list(&self.jdk, recording, attempt)?;
            let mut now = Comparison { attempts: attempt, ..compare::listings(references, &tested) };
            if let Some(before) = &result {
                now.differs_always(before);
            }
            let same = now.same();
            result = Some(now);
            if same {
                break;
            }
        }
        Ok(result.unwrap_or_default())
    }
}
