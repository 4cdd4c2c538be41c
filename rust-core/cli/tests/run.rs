// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal run` with a stand-in for QEMU: the program's input and the way it ends must pass
//! through unchanged.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory with a plugin, a JDK, and a shell script in place of `qemu-x86_64`.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    /// `body` runs with `$@` = the arguments of `java`.
    fn new(body: &str) -> Self {
        let stage = Self { dir: tempfile::tempdir().unwrap() };
        stage.file("bin/qemu-x86_64", &format!(
            "#!/bin/sh\ncase $1 in -version) echo 'qemu-x86_64 version 7.2.0'; exit;; -h) echo ' -plugin'; exit;; esac\n\
             [ \"$1\" = -plugin ] || exit 90\noption=$2\nshift 3\n{body}\n"
        ));
        stage.file("plugin.so", "");
        stage.file("jdk/bin/java", "");
        stage.file("jdk/lib/server/libjvm.so", "... JPortalFile ...");
        stage
    }
    fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn command(&self) -> Command {
        // The process that started the tests may ignore signals (`nohup`, a background job).
        // Children inherit this, and a shell cannot trap signals that were ignored when it
        // started.
        let mut c = Command::new("/usr/bin/env");
        c.args(["--default-signal", env!("CARGO_BIN_EXE_jportal")])
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("JPORTAL_JAVA_HOME", self.path("jdk"))
            .env("JPORTAL_EMULATOR", self.path("plugin.so"))
            .current_dir(self.dir.path())
            .args(["run", "--emulate", "--quiet", "-o", "a.jportal", "--"]);
        c
    }
    fn run(&self, java_args: &[&str]) -> Output {
        self.command().args(java_args).output().unwrap()
    }
}

/// A parent may ignore SIGCHLD. Then the kernel reaps our children, unless we change it back.
#[test]
fn a_parent_that_ignores_its_children_does_no_harm() {
    let stage = Stage::new("trap '' TERM; exit 7");
    let jportal = env!("CARGO_BIN_EXE_jportal");
    let mut command = stage.command();
    let arguments: Vec<_> = command.get_args().map(|a| a.to_owned()).collect();
    let environment: Vec<_> =
        command.get_envs().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
    assert_eq!(arguments[1], jportal);
    command = Command::new("/usr/bin/env");
    command.envs(environment).current_dir(stage.dir.path());
    command.arg("--ignore-signal=CHLD").args(&arguments[1..]).arg("Main");
    let status = command.status().unwrap();
    assert_eq!(status.code(), Some(7));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn arguments_environment_and_streams() {
    let stage = Stage::new(
        "echo \"$@\"; echo \"$option\" | sed 's/.*shm=\\([^,]*\\),.*/\\1/'; echo $JPORTAL_EMULATED_PT; cat; echo err >&2; exit 7",
    );
    let mut command = stage.command();
    let command = command.args(["-cp", "x", "Main", "a b"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    let out = child.wait_with_output().unwrap();
    let stdout = text(&out.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    let file = stage.path("a.jportal");
    let logging = "-Xlog:jportal*=off:stdout -Xlog:jportal*=error:stderr";
    let flags =
        format!("-XX:+JPortal -XX:JPortalSource=emulated {logging} -XX:JPortalFile={}", file.display());
    assert_eq!(lines[0], format!("{flags} -cp x Main a b"));
    assert_eq!(lines[1], lines[2], "plugin and VM are told the same place");
    assert_eq!(lines[3..], ["from stdin"]);
    assert!(!Path::new(lines[1]).parent().unwrap().exists(), "the shared memory is gone afterwards");
    assert_eq!(out.status.code(), Some(7));
    let stderr = text(&out.stderr);
    assert!(stderr.starts_with("err\n") && stderr.contains("jportal: warning: no capture"), "{stderr}");
}

#[test]
fn death_by_signal_is_reproduced() {
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGABRT] {
        let out = Stage::new(&format!("kill -{signal} $$")).run(&["Main"]);
        assert_eq!(out.status.signal(), Some(signal));
    }
}

#[test]
fn the_exit_status_survives_a_closed_stderr() {
    let stage = Stage::new("exit 5");
    let mut child = stage.command().arg("Main").stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    // The warning about the missing capture is lost.
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn signals_sent_to_us_reach_the_program() {
    for (signal, name) in [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGHUP, "HUP")] {
        // `read` ends when a signal with a trap arrives.
        let stage = Stage::new(&format!(
            "trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.1; done"
        ));
        let mut child = stage.command().arg("Main").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", &signal.to_string(), &pid]).status().unwrap().success());
        assert_eq!(lines.next().unwrap().unwrap(), format!("got {name}"));
        assert_eq!(child.wait().unwrap().code(), Some(9));
    }
}

#[test]
fn what_is_missing_is_named_with_a_remedy() {
    let refused = |prepare: &dyn Fn(&Stage, &mut Command)| {
        let stage = Stage::new("exit 0");
        let mut command = stage.command();
        prepare(&stage, &mut command);
        let out = command.arg("Main").output().unwrap();
        // Not a status that the program may have.
        assert_eq!(out.status.code(), Some(125));
        text(&out.stderr)
    };
    let e = refused(&|_, c| {
        c.env("PATH", "/nonexistent");
    });
    assert!(e.contains("apt-get install qemu-user"), "{e}");
    let e = refused(&|s, _| fs::write(s.path("jdk/lib/server/libjvm.so"), "another VM").unwrap());
    assert!(e.contains("is no recording JDK"), "{e}");
    let e = refused(&|s, c| {
        c.env("JPORTAL_EMULATOR", s.path("nowhere.so"));
    });
    assert!(e.contains("nowhere.so"), "{e}");
}

/// Failures of the command have statuses that a program does not use.
#[test]
fn failures_before_the_program_are_125_to_127() {
    let jportal = || Command::new(env!("CARGO_BIN_EXE_jportal"));
    for arguments in
        [&["run"][..], &["record"], &["record", "--pid", "1", "--", "Main"], &["-v", "run", "--no"]]
    {
        assert_eq!(jportal().args(arguments).output().unwrap().status.code(), Some(125), "{arguments:?}");
    }
    assert_eq!(jportal().args(["record", "--help"]).output().unwrap().status.code(), Some(0));
    let stage = Stage::new("exit 0");
    let out = stage.command().env("JPORTAL_JAVA_HOME", "").arg("Main").output().unwrap();
    // Above the command is this project, which may have a recording JDK.
    let found = out.status.success();
    assert!(found || out.status.code() == Some(127), "{}", text(&out.stderr));
    // QEMU cannot be executed: it is a script of an interpreter that does not exist.
    let stage = Stage::new("exit 0");
    let body = "#!/bin/sh\ncase $1 in -version) echo 'version 7.2.0';; -h) echo ' -plugin'; echo '#!/none' > $0;; esac\n";
    stage.file("bin/qemu-x86_64", body);
    let code = stage.run(&["Main"]).status.code();
    assert!(matches!(code, Some(126 | 127)), "{code:?}");
}

#[test]
fn the_word_java_and_an_earlier_capture() {
    let stage = Stage::new("echo \"$@\"");
    stage.file("a.jportal", "earlier");
    stage.file("a.jportal.ring", "its ring");
    let out = stage.run(&["java", "-jar", "x.jar"]);
    assert!(text(&out.stdout).trim_end().ends_with("a.jportal -jar x.jar"), "{}", text(&out.stdout));
    assert_eq!(fs::read_to_string(stage.path("a.jportal.old")).unwrap(), "earlier");
    assert_eq!(fs::read_to_string(stage.path("a.jportal.old.ring")).unwrap(), "its ring");
    assert!(!stage.path("a.jportal").exists());
}

/// A VM that writes to a capture holds a lock on it.
#[test]
fn a_capture_that_is_written_stays_where_it_is() {
    for name in ["a.jportal", "a.jportal.old"] {
        let stage = Stage::new("exit 0");
        stage.file("a.jportal", "earlier");
        stage.file(name, "live");
        let live = fs::File::open(stage.path(name)).unwrap();
        live.try_lock().unwrap();
        let out = stage.run(&["Main"]);
        let error = text(&out.stderr);
        assert_eq!(out.status.code(), Some(125), "{error}");
        assert!(error.contains(name) && error.contains("in use by a running VM"), "{error}");
        assert_eq!(fs::read_to_string(stage.path(name)).unwrap(), "live");
    }
}

/// Only files are renamed: `-o /dev/null` must not move the device.
#[test]
fn what_is_no_file_stays_where_it_is() {
    let stage = Stage::new("exit 0");
    fs::create_dir(stage.path("a.jportal")).unwrap();
    stage.run(&["Main"]);
    assert!(stage.path("a.jportal").is_dir() && !stage.path("a.jportal.old").exists());
}

/// A stand-in for jcmd notes its arguments.
#[test]
fn a_process_that_runs_is_recorded_with_jcmd() {
    let stage = Stage::new("exit 0");
    let log = stage.path("log");
    stage.file(
        "jdk/bin/jcmd",
        &format!("#!/bin/sh\necho \"$@\" >> {}\necho state: recording\n", log.display()),
    );
    let mut target = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    let pid = target.id().to_string();
    let record = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jportal"));
        command.env("JPORTAL_JAVA_HOME", stage.path("jdk")).current_dir(stage.dir.path());
        command.args(["record", "--pid", &pid, "-o", "b.jportal"]).args(more).output().unwrap()
    };
    let out = record(&["--for", "300ms"]);
    let noted = fs::read_to_string(&log).unwrap();
    let file = stage.path("b.jportal");
    assert_eq!(noted, format!("{pid} JPortal.start file={}\n{pid} JPortal.stop\n", file.display()));
    // The stand-in writes no capture.
    assert_eq!(out.status.code(), Some(125));
    assert!(text(&out.stderr).contains("for 0.3 s"), "{}", text(&out.stderr));
    stage.file("jdk/bin/jcmd", "#!/bin/sh\necho 'Unknown diagnostic command'; exit 1\n");
    stage.file("b.jportal", "earlier");
    let error = text(&record(&[]).stderr);
    assert_eq!(fs::read_to_string(stage.path("b.jportal")).unwrap(), "earlier", "no recording began");
    assert!(error.contains("JPortal.start") && error.contains("-XX:+JPortal"), "{error}");
    target.kill().unwrap();
    target.wait().unwrap();
    assert!(text(&record(&[]).stderr).contains("there is no process"));
}

#[test]
fn usage_errors_are_status_2() {
    let run = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_jportal")).args(args).output().unwrap();
        (out.status.code(), text(&out.stderr))
    };
    assert_eq!(run(&["frobnicate"]).0, Some(2));
    let (code, stderr) = run(&["reprot", "calls", "x"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("'report'"), "a typo gets a suggestion: {stderr}");
    let (code, stderr) = run(&["info", "/nonexistent/x.jportal"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("/nonexistent/x.jportal"), "{stderr}");
    let (code, stderr) = run(&["info", "/etc/passwd"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("not a capture"), "{stderr}");
}
