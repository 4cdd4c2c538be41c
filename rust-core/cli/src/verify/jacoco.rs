// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal verify --jacoco`: compares coverage with JaCoCo's.
//!
//! Only JaCoCo's own library can read an .exec file. A small Java program
//! (`java/JacocoListing.java`, which the recording JDK runs from its source) uses that library
//! and prints a listing, which is then compared.

use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use jportal::Method;
use jportal::validate::check::Checker;
use jportal::validate::jacoco::{JacocoComparison, Listing, MarksAnalysis};

use crate::args::VerifyArgs;
use crate::check::checker;
use crate::output::{ResultKind, put_text, put_value};
use crate::run::locate;
use crate::{CommandOutcome, decode, say};

const KIND: ResultKind = ResultKind::new("verify-jacoco", None);

const LISTING: &str = include_str!("../../java/JacocoListing.java");
/// The directory of the jars of Debian's packages libjacoco-java and libasm-java.
const DEBIAN: &str = "/usr/share/java";
const JARS: [&str; 4] = ["org.jacoco.core.jar", "asm.jar", "asm-tree.jar", "asm-commons.jar"];

pub(super) fn verify(args: &VerifyArgs, exec: &Path) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    let wanted = |m: &Method| {
        let hidden = m.class_name.contains("/0x") || m.class_name.contains("+0x");
        !hidden && !m.code.is_empty() && super::is_wanted(args, m)
    };
    let methods = Arc::new(capture.methods().clone());
    let names: BTreeSet<&str> = methods.iter().filter(|m| wanted(m)).map(|m| &*m.class_name).collect();
    if names.is_empty() {
        bail!("the capture has no class to compare; name some with --class");
    }
    let listing = list(args, exec, &names)?;
    let analysis = (MarksAnalysis::new(Arc::clone(&methods)), checker(&args.check, &capture));
    let answer = decode::query(&args.decode, &capture)?.run(analysis)?;
    decode::remark(&args.decode, &capture, &answer)?;
    let (marks, checker) = answer.analysis;
    let check = checker.as_ref().map(Checker::report);
    let comparison = JacocoComparison::new(&marks, &listing, wanted);
    if args.decode.format.is_for_programs() {
        let mut all = serde_json::to_value(&comparison)?;
        if let Some(check) = &check {
            all["check"] = serde_json::to_value(check)?;
        }
        put_value(&args.decode.format, KIND, &all)?;
    } else {
        put_text(&comparison.text(args.rows))?;
        check.as_ref().map_or(Ok(()), |c| put_text(&c.text()))?;
    }
    if comparison.total.probes.hit == 0 {
        say("JaCoCo hit no probe in the classes compared: is the .exec file of this program?");
        return Ok(CommandOutcome::Findings);
    }
    let clean = check.is_none_or(|c| c.is_clean());
    Ok(if comparison.equal() && clean { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Runs the Java program and reads its listing.
fn list(args: &VerifyArgs, exec: &Path, names: &BTreeSet<&str>) -> Result<Listing> {
    if !exec.is_file() {
        bail!("{}: no such file; record one with JaCoCo's agent", exec.display());
    }
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("JacocoListing.java");
    std::fs::write(&source, LISTING)?;
    let mut child = Command::new(locate::java(args.java.as_deref())?)
        .arg("-cp")
        .arg(class_path(args.jacoco_jars.as_deref())?)
        .args([source.as_path(), exec])
        .args(&args.classes)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start java")?;
    let mut input = child.stdin.take().ok_or_else(|| anyhow!("java has no standard input"))?;
    let all: String = names.iter().map(|n| format!("{n}\n")).collect();
    // A Java program that fails immediately does not read its input. Its message is on stderr.
    let feeder = std::thread::spawn(move || input.write_all(all.as_bytes()));
    let output = child.stdout.take().ok_or_else(|| anyhow!("java has no standard output"))?;
    let listing = Listing::read(BufReader::new(output));
    let status = child.wait()?;
    let _ = feeder.join();
    if !status.success() {
        bail!("JaCoCo's library could not read {} and the classes: java ended with {status}", exec.display());
    }
    Ok(listing?)
}

/// The class path of JaCoCo's and ASM's jars.
fn class_path(folder: Option<&Path>) -> Result<String> {
    let folder = folder.unwrap_or(Path::new(DEBIAN));
    let jars: Vec<PathBuf> = JARS.iter().map(|jar| folder.join(jar)).collect();
    if let Some(missing) = jars.iter().find(|jar| !jar.exists()) {
        bail!(
            "{} is missing: apt-get install libjacoco-java libasm-java, or give --jacoco-jars",
            missing.display()
        );
    }
    Ok(jars.iter().map(|jar| jar.display().to_string()).collect::<Vec<_>>().join(":"))
}
