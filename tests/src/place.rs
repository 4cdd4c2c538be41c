// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Paths of the built tools and programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::recording::LIMIT;
use crate::{Result, skip};

/// The paths in the repository that tests use. All exist.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The repository.
    pub root: PathBuf,
    /// The command.
    pub jportal: PathBuf,
    /// `java` of the recording VM.
    pub java: PathBuf,
    /// The oracle agent's jar.
    pub oracle: PathBuf,
    /// Folder of the test programs.
    pub programs: PathBuf,
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository").to_path_buf()
}

/// All paths; if one is missing, `None` after counting the test as skipped.
pub fn installed(test: &str) -> Option<Installation> {
    let root = root();
    let place = Installation {
        jportal: root.join("build/bin/jportal"),
        java: root.join("build/jdk/bin/java"),
        oracle: root.join("build/oracle/jportal-oracle.jar"),
        programs: root.join("build/programs"),
        root,
    };
    for (path, maker) in [
        (&place.jportal, "scripts/setup"),
        (&place.java, "scripts/setup"),
        (&place.oracle, "scripts/setup"),
        (&place.programs.join("programs.jar"), "tests/programs/build.sh"),
    ] {
        if !path.exists() {
            skip::skip(test, &format!("{} is missing; run {maker}", path.display()));
            return None;
        }
    }
    Some(place)
}

impl Installation {
    /// The start of a `jportal run` command with three cores of the emulated unit and no loss.
    /// The caller appends the arguments of `java`.
    pub fn run(&self, capture: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(&self.jportal);
        command.args(["run", "--emulate", "--cores", "3", "--on-full", "stall"]).args(options);
        command.arg("--java").arg(&self.java).arg("-o").arg(capture).arg("--");
        command
    }

    /// The answer of `jcmd` to a command for the VM `pid`.
    ///
    /// # Errors
    /// If it fails.
    pub fn jcmd(&self, pid: u32, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.java.with_file_name("jcmd"));
        let finished = process::run(command.arg(pid.to_string()).args(words), LIMIT)?;
        if !finished.status.success() {
            return Err(format!("{words:?}: {} {}", finished.text(), finished.stderr).into());
        }
        Ok(finished.text())
    }

    /// The same with the fastdebug VM; if it is missing, `None` after counting the test as
    /// skipped.
    pub fn fastdebug(self, test: &str) -> Option<Self> {
        let java = self.root.join("build/jdk-fastdebug/bin/java");
        if !java.exists() {
            let what =
                format!("{} is missing; run jdk-build/build.sh --debug-level fastdebug", java.display());
            skip::skip(test, &what);
            return None;
        }
        Some(Self { java, ..self })
    }
}

/// A JDK 17 with the oracle agent and the programs, for the agent's own tests. The JDK is
/// build/jdk if it exists, else the system's.
pub fn agent(test: &str) -> Option<Installation> {
    let root = root();
    let built = root.join("build/jdk/bin/java");
    let java = if built.exists() { built } else { PathBuf::from("/usr/bin/java") };
    let place = Installation {
        jportal: root.join("build/bin/jportal"),
        java,
        oracle: root.join("build/oracle/jportal-oracle.jar"),
        programs: root.join("build/programs"),
        root,
    };
    for path in [&place.java, &place.oracle, &place.programs.join("programs.jar")] {
        if !path.exists() {
            skip::skip(test, &format!("{} is missing; run scripts/setup", path.display()));
            return None;
        }
    }
    Some(place)
}
