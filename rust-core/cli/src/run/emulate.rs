// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The emulated PT unit: QEMU, its plugin, and the shared memory between plugin and VM.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jportal::file::ring_file;

use super::locate::{self, QEMU_REMEDY, qemu_value};
use crate::args::{OnFull, RunArgs, Timing};

/// The environment variable that passes the location of the unit's rings to the VM.
const ENVIRONMENT: &str = "JPORTAL_EMULATED_PT";

/// A prepared unit. Dropping it removes its shared memory.
pub(crate) struct PreparedUnit {
    qemu: PathBuf,
    plugin: OsString,
    shared: PathBuf,
    _dir: tempfile::TempDir,
    /// Locked while the unit is in use, so that nobody takes it for one that was left.
    _lock: File,
}

/// First part of the name of a unit's folder.
const PREFIX: &str = "unit-";
/// A folder this young may be about to be locked.
const YOUNG: Duration = Duration::from_secs(60);

/// The user's private folder in `root`, if the root is `/dev/shm`. Nobody else makes folders there,
/// so what looks like a unit's folder is one.
fn private_folder_in(root: &Path) -> Option<PathBuf> {
    let private = ring_file::make_folder(nix::unistd::geteuid().as_raw());
    private.ok().filter(|folder| folder.starts_with(root))
}

/// Removes the folders in the private `folder` that killed commands left. They hold megabytes of
/// memory.
fn remove_dead(folder: &Path, young: Duration) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_unit = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().map(|age| age >= young);
        if !is_unit || is_old() != Some(true) || !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        let path = entry.path();
        if File::open(&path).is_ok_and(|dir| dir.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// A memory-backed directory if one is available, because the rings are written constantly.
pub(crate) fn shared_memory_root() -> PathBuf {
    let shm = Path::new("/dev/shm");
    let usable = shm.is_dir() && tempfile::tempfile_in(shm).is_ok();
    if usable { shm.to_owned() } else { std::env::temp_dir() }
}

impl PreparedUnit {
    /// Finds QEMU and the plugin, and creates a private directory for the shared memory.
    pub(crate) fn prepare(args: &RunArgs) -> Result<Self> {
        let qemu =
            locate::qemu().with_context(|| format!("the emulated PT unit needs QEMU ({QEMU_REMEDY})"))?;
        let plugin = locate::plugin().context("the emulated PT unit")?;
        let root = shared_memory_root();
        let private = private_folder_in(&root);
        private.iter().for_each(|folder| remove_dead(folder, YOUNG));
        let folder = private.unwrap_or(root);
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&folder)
            .with_context(|| format!("cannot make a directory in {}", folder.display()))?;
        let lock = File::open(dir.path()).context("the unit's directory")?;
        lock.try_lock().context("the unit's directory")?;
        let shared = dir.path().join("unit");
        let plugin = option(&plugin, &shared, args)?;
        Ok(Self { qemu: qemu.path, plugin, shared, _dir: dir, _lock: lock })
    }
    /// QEMU running `java`, without the arguments of `java`.
    pub(crate) fn command(&self, java: &Path) -> Command {
        let mut command = Command::new(&self.qemu);
        command.arg("-plugin").arg(&self.plugin).arg(java).env(ENVIRONMENT, &self.shared);
        command
    }
}

/// The value of QEMU's `-plugin` option.
fn option(plugin: &Path, shared: &Path, args: &RunArgs) -> Result<OsString> {
    let mut all = qemu_value(plugin.as_os_str());
    let mut put = |key: &str, value: OsString| {
        all.push(",");
        all.push(key);
        all.push("=");
        all.push(qemu_value(&value));
    };
    put("shm", shared.as_os_str().to_owned());
    put("cores", args.cores.unwrap_or(2).to_string().into());
    let on_full = args.on_full.unwrap_or(OnFull::Stall);
    let mode = match on_full {
        OnFull::Stall => "stall",
        OnFull::Drop => "drop",
    };
    put("mode", mode.into());
    let timing = match args.timing.unwrap_or(Timing::Mtc) {
        Timing::Tsc => "tsc",
        Timing::Mtc => "mtc",
        Timing::Cyc => "cyc",
    };
    put("timing", timing.into());
    if args.return_compression {
        put("retcomp", "1".into());
    }
    if args.drain_bandwidth.is_some() && !matches!(on_full, OnFull::Drop) {
        bail!(
            "--drain-bandwidth needs --on-full drop: with stall nothing is lost, the program would only wait"
        );
    }
    let numbers =
        [("aux", args.aux), ("drain", args.drain_bandwidth), ("seed", args.seed), ("quantum", args.quantum)];
    for (key, value) in numbers {
        if let Some(n) = value {
            put(key, n.to_string().into());
        }
    }
    for text in &args.unit_options {
        let Some((key, value)) = text.split_once('=') else {
            bail!("--unit-option {text}: expected KEY=VALUE");
        };
        put(key, value.into());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn run_args(args: &[&str]) -> RunArgs {
        let all = ["jportal", "run"].iter().chain(args).chain(&["--", "Main"]);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Record(a) => a,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn folders_of_killed_commands_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("unit"), "rings").unwrap();
            path
        };
        let (dead, living, other) = (make("unit-1"), make("unit-2"), make("ring-3"));
        let lock = File::open(&living).unwrap();
        lock.try_lock().unwrap();
        std::os::unix::fs::symlink(&other, root.path().join("unit-4")).unwrap();
        remove_dead(root.path(), YOUNG);
        assert!(dead.exists(), "it is young");
        remove_dead(root.path(), Duration::ZERO);
        assert!(!dead.exists() && living.exists() && other.join("unit").exists());
        // In a folder that others use, such a name proves nothing.
        assert_eq!(private_folder_in(root.path()), None);
        let private = private_folder_in(Path::new("/dev/shm")).unwrap();
        assert_eq!(std::fs::metadata(private).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn arguments_become_plugin_options() {
        let text = |args: &[&str]| option(Path::new("/l/p.so"), Path::new("/s,m/u"), &run_args(args));
        assert_eq!(text(&[]).unwrap(), "/l/p.so,shm=/s,,m/u,cores=2,mode=stall,timing=mtc");
        let all =
            ["--cores", "3", "--on-full", "drop", "--aux", "64k", "--timing", "cyc", "--return-compression"];
        let more = ["--drain-bandwidth", "1m", "--seed", "9", "--quantum", "500", "--unit-option", "irq=5"];
        assert_eq!(
            text(&[&all[..], &more[..]].concat()).unwrap(),
            "/l/p.so,shm=/s,,m/u,cores=3,mode=drop,timing=cyc,retcomp=1,aux=65536,drain=1048576,seed=9,quantum=500,irq=5"
        );
        assert!(text(&["--unit-option", "irq"]).is_err());
        let refused = text(&["--drain-bandwidth", "1m"]).unwrap_err().to_string();
        assert!(refused.contains("--on-full drop"), "{refused}");
    }
}
