// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Runs one program in several VMs.

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

/// The compilers that run, with as few threads as their policy permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compilers {
    /// C1 alone, without profiling.
    C1,
    /// C2 alone.
    C2,
    /// Both, as the VM's policy decides, with one thread each.
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

/// What JPortal does in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// The VM does not know JPortal.
    Unknown,
    /// `-XX:-JPortal`.
    Off,
    /// Records, without path markers.
    Unmarked,
    /// Records, with path markers at `default` precision.
    Marked,
    /// Records, with path markers at `exact` precision.
    Exact,
}

impl Recording {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Unknown => &[],
            Self::Off => &["-XX:-JPortal"],
            Self::Unmarked => &[
                "-XX:+JPortal",
                "-XX:JPortalSource=none",
                "-XX:+UnlockDiagnosticVMOptions",
                "-XX:-JPortalPathMarkers",
            ],
            Self::Marked => &["-XX:+JPortal", "-XX:JPortalSource=none"],
            Self::Exact => &["-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalPrecision=exact"],
        }
    }
}

/// Whether address space layout is randomised. C2 orders some things by address: a few nmethods
/// have one of two forms, and the same form in all runs with the same addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Not randomised; addresses are the same as in other runs where the VM permits it.
    Same,
    /// Randomised by the kernel.
    Random,
}

/// Runs the program of `arguments` (arguments of `java` from the class path on) and lists what is
/// compiled.
///
/// The program waits for each compilation. `agent` is `libsteadystart.so`, which keeps the class
/// library from folding its start time into constants.
///
/// # Errors
/// If the program fails or the log is not in the expected format.
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
    // The heap is large enough to avoid collections. After a collection, threads that clean up
    // would execute methods and so change their profiles.
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
    // The working directory is a system property, so it must be the same in each run.
    command.current_dir("/");
    let finished = process::run(&mut command, LIMIT)?;
    if !finished.status.success() {
        return Err(format!("{}: {}\n{}", jdk.display(), finished.status, finished.stderr).into());
    }
    listing::read(&log)
}

/// The VM with which the others are compared.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Its JDK.
    pub jdk: PathBuf,
    /// `Unknown` for a VM without JPortal, `Off` for ours.
    pub recording: Recording,
}

impl Reference {
    /// The JDK built without JPortal if it exists, else JPortal's JDK with `-XX:-JPortal`.
    /// Debian's own build is less suitable: its name is in system properties, and the handling of
    /// these affects profiles.
    pub fn built(root: &Path) -> Self {
        let plain = root.join("build/jdk-plain");
        if plain.exists() {
            return Self { jdk: plain, recording: Recording::Unknown };
        }
        Self { jdk: root.join("build/jdk"), recording: Recording::Off }
    }
}

/// A program in two VMs.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The VM to compare with.
    pub reference: Reference,
    /// The recording JDK.
    pub jdk: PathBuf,
    /// `libsteadystart.so`.
    pub agent: PathBuf,
    /// Arguments of `java`; see [`list`].
    pub arguments: Vec<String>,
    /// The copies of the two JDKs, if they had to be copied; removed with the last user.
    _homes: Option<Arc<TempDir>>,
}

/// The maximal number of attempts. All but the first use randomised addresses. Some decisions of
/// a VM depend on time or on addresses; the effect of a flag is the same in each run.
const ATTEMPTS: usize = 5;

impl Pair {
    /// Prepares the comparison of `jdk` with the reference. The path of a JDK is in system
    /// properties, and its length affects profiles (of `StringLatin1.indexOf`, for example). If
    /// the two paths have different lengths, both JDKs are copied to paths of the same length.
    ///
    /// # Errors
    /// If the JDKs cannot be copied.
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
    /// Runs both VMs until no nmethod differs in all attempts, at most `ATTEMPTS` times.
    /// Differences that the runs of the reference also have do not count. `references` grows, and
    /// can be reused with the same compilers.
    ///
    /// # Errors
    /// As for [`list`].
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
