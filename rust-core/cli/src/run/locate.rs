// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the JDK, QEMU and the emulated unit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use memchr::memmem;

/// How to install QEMU.
pub(crate) const QEMU_REMEDY: &str = "apt-get install qemu-user";

/// The environment variable with the home of the recording JDK.
const JAVA_HOME: &str = "JPORTAL_JAVA_HOME";
/// The environment variable with the path of the plugin.
const PLUGIN: &str = "JPORTAL_EMULATOR";
const PLUGIN_FILE: &str = "libjportal_emulator.so";
/// The environment variable with the path of the jar that replays.
const REPLAY: &str = "JPORTAL_REPLAY_JAR";
const REPLAY_FILE: &str = "jportal-replay.jar";

/// Whether kernel and CPU offer Intel PT.
pub(crate) fn has_intel_pt() -> bool {
    Path::new("/sys/bus/event_source/devices/intel_pt").exists()
}

/// The `java` of a JDK with JPortal: the given path, else the path from the environment, else
/// `build/jdk` beside the command or above the working directory.
pub(crate) fn java(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return with_jportal(java_of(path).with_context(|| format!("--java {}", path.display()))?);
    }
    if let Some(home) = std::env::var_os(JAVA_HOME).filter(|h| !h.is_empty()) {
        let java = java_of(Path::new(&home)).with_context(|| format!("{JAVA_HOME}={}", home.display()))?;
        return with_jportal(java);
    }
    let found = roots().into_iter().find_map(|root| java_of(&root.join("build/jdk")).ok());
    let java = found.ok_or(NoJava)?;
    with_jportal(java)
}

/// There is no recording JDK.
#[derive(Debug, thiserror::Error)]
#[error("no recording JDK found: run scripts/setup, set {JAVA_HOME}, or give --java")]
pub(crate) struct NoJava;

/// All ancestor directories of the command and of the working directory.
fn roots() -> Vec<PathBuf> {
    let places = [std::env::current_exe().ok(), std::env::current_dir().ok()];
    places.into_iter().flatten().flat_map(|p| p.ancestors().map(Path::to_owned).collect::<Vec<_>>()).collect()
}

/// The `java` of `path`, which may be a JDK's home or the `java` itself.
fn java_of(path: &Path) -> Result<PathBuf> {
    let java = if path.is_dir() { path.join("bin/java") } else { path.to_owned() };
    let java = java.canonicalize().with_context(|| format!("no java at {}", java.display()))?;
    Ok(java)
}

/// Refuses a JDK whose VM does not know JPortal's flags.
fn with_jportal(java: PathBuf) -> Result<PathBuf> {
    let home = java.parent().and_then(Path::parent).context("java lies outside a JDK")?;
    let vm = home.join("lib/server/libjvm.so");
    let known = contains(&vm, b"JPortalFile").with_context(|| format!("cannot read {}", vm.display()))?;
    if !known {
        bail!(
            "{} is no recording JDK: its VM does not know -XX:+JPortal; scripts/setup builds one",
            home.display()
        );
    }
    Ok(java)
}

/// Whether a file contains these bytes.
fn contains(path: &Path, wanted: &[u8]) -> std::io::Result<bool> {
    const BLOCK: usize = 1 << 20;
    let mut file = File::open(path)?;
    let mut buffer = vec![0; BLOCK];
    let mut kept = 0;
    loop {
        let n = file.read(&mut buffer[kept..])?;
        if n == 0 {
            return Ok(false);
        }
        let have = kept + n;
        if memmem::find(&buffer[..have], wanted).is_some() {
            return Ok(true);
        }
        kept = have.min(wanted.len() - 1);
        buffer.copy_within(have - kept..have, 0);
    }
}

/// QEMU's user-mode emulator.
pub(crate) struct Qemu {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

/// Finds `qemu-x86_64` on the PATH and checks that it supports plugins.
pub(crate) fn qemu() -> Result<Qemu> {
    let path = on_path("qemu-x86_64").ok_or_else(|| anyhow!("qemu-x86_64 is not on the PATH"))?;
    let ask = |argument| -> Result<String> {
        let out =
            Command::new(&path).arg(argument).output().with_context(|| format!("{}", path.display()))?;
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let version = ask("-version")?;
    let version = version.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    let version = version.unwrap_or("unknown version").to_owned();
    if !ask("-h")?.contains("-plugin") {
        bail!("{} ({version}) takes no plugins; Debian 12's does", path.display());
    }
    Ok(Qemu { path, version })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file())
}

/// The emulated unit: from the environment, else beside the command.
pub(crate) fn plugin() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(PLUGIN).filter(|p| !p.is_empty()) {
        let found = Path::new(&path).canonicalize();
        return found.with_context(|| format!("{PLUGIN}={}", path.display()));
    }
    installed(PLUGIN_FILE)?.ok_or_else(|| {
        anyhow!("{PLUGIN_FILE} is neither beside the command nor in ../lib, and {PLUGIN} is not set")
    })
}

/// The jar that replays: from the environment, else beside the command.
pub(crate) fn replay_jar() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(REPLAY).filter(|p| !p.is_empty()) {
        let found = Path::new(&path).canonicalize();
        return found.with_context(|| format!("{REPLAY}={}", path.display()));
    }
    installed(REPLAY_FILE)?.ok_or_else(|| {
        anyhow!(
            "{REPLAY_FILE} is neither beside the command nor in ../lib, and {REPLAY} is not set; \
             profiler/build.sh builds it"
        )
    })
}

/// A file beside the command, in its neighbour `lib`, or in `build/lib` above it or above the
/// working directory.
fn installed(name: &str) -> Result<Option<PathBuf>> {
    let exe = std::env::current_exe().context("where the command lies")?;
    let dir = exe.parent().unwrap_or(Path::new("/"));
    let beside = [dir.join(name), dir.join("../lib").join(name), dir.join("..").join(name)];
    let above = roots().into_iter().map(|r| r.join("build/lib").join(name));
    Ok(beside.into_iter().chain(above).find_map(|p| p.canonicalize().ok()))
}

/// Any `java`: the given one, else that of `$JAVA_HOME`, else that on the PATH.
pub(crate) fn plain_java(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return java_of(path).with_context(|| format!("--java {}", path.display()));
    }
    if let Some(home) = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        return java_of(Path::new(&home)).with_context(|| format!("JAVA_HOME={}", home.display()));
    }
    on_path("java").ok_or_else(|| {
        anyhow!(
            "no java found: give --java, set JAVA_HOME, or install one \
             (apt-get install openjdk-17-jre-headless)"
        )
    })
}

/// The command `jfr` of a JDK: the given one, which may be that JDK, else that of `$JAVA_HOME`,
/// else that beside the `java` on the PATH, else that on the PATH.
pub(crate) fn jfr_tool(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        let tool = if path.is_dir() { path.join("bin/jfr") } else { path.to_owned() };
        return tool.canonicalize().with_context(|| format!("--jfr-tool: no jfr at {}", tool.display()));
    }
    let home = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    let of_home = home.map(|home| Path::new(&home).join("bin/jfr"));
    let java = on_path("java").and_then(|java| java.canonicalize().ok());
    let beside = java.map(|java| java.with_file_name("jfr"));
    let found = [of_home, beside, on_path("jfr")].into_iter().flatten().find(|path| path.is_file());
    found.ok_or_else(|| {
        anyhow!(
            "no jfr found, the command of a JDK that prints recordings of JFR: give --jfr-tool, set \
             JAVA_HOME, install one (apt-get install openjdk-17-jdk-headless), or give what \
             `jfr print --json` printed"
        )
    })
}

/// A value for a QEMU option: commas are doubled.
pub(crate) fn qemu_value(value: &OsStr) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut out = Vec::with_capacity(value.len());
    for &b in value.as_bytes() {
        out.push(b);
        if b == b',' {
            out.push(b);
        }
    }
    std::ffi::OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_across_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut bytes = vec![b'J'; (1 << 20) - 3];
        bytes.extend_from_slice(b"JPortalFile");
        std::fs::write(&path, &bytes).unwrap();
        assert!(contains(&path, b"JPortalFile").unwrap());
        assert!(!contains(&path, b"JPortalPile").unwrap());
    }

    #[test]
    fn a_jdk_without_jportal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib/server"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(bin.join("java"), "").unwrap();
        std::fs::write(lib.join("libjvm.so"), "some vm").unwrap();
        let e = java(Some(dir.path())).unwrap_err().to_string();
        assert!(e.contains("is no recording JDK"), "{e}");
        std::fs::write(lib.join("libjvm.so"), "with JPortalFile in it").unwrap();
        assert!(java(Some(dir.path())).unwrap().ends_with("bin/java"));
        assert!(java(Some(&dir.path().join("nowhere"))).is_err());
    }

    #[test]
    fn the_jfr_of_a_jdk_is_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("bin")).unwrap();
        let e = format!("{:#}", jfr_tool(Some(dir.path())).unwrap_err());
        assert!(e.contains("--jfr-tool") && e.contains("bin/jfr"), "{e}");
        std::fs::write(dir.path().join("bin/jfr"), "").unwrap();
        let of_jdk = jfr_tool(Some(dir.path())).unwrap();
        assert_eq!(of_jdk, jfr_tool(Some(&dir.path().join("bin/jfr"))).unwrap());
    }

    #[test]
    fn commas_are_doubled() {
        assert_eq!(qemu_value(OsStr::new("a,b")), "a,,b");
    }
}
