// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-loss`: measures what remains of a run when trace is lost, and how well lost bytecodes
//! are placed and filled: the figures of the paper's Table 3, Figure 7 and Table 5 on real
//! programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use jportal_tests::programs::{self, Size};
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use jportal_tests::{Result, place, process, tool};
use serde_json::{Value, json};

const USAGE: &str = "usage: jportal-loss [--full] [--loss PERCENT]... [--method NAME]... [--json FILE] [SUBJECT]...
  --full         at the size of the long tests
  --loss PERCENT of the recorded bytes; may be repeated (20, 30, 50)
  --method NAME  none: decoded and projected only; basic: Algorithms 1 and 3 of the paper; tiered: 2 and 4; follow: JPortal's
                 own; may be repeated (all)
  SUBJECT        a real program; see jportal-program (h2, fop, sunflow, xalan, hsqldb, antlr)
Each subject is recorded once without loss, without instrumentation, in the VM's default mode; `jportal degrade` takes trace out of
that, and `jportal accuracy` compares.
Exit status: 0 done, 2 something failed.";

/// Time limit of one command.
const LIMIT: Duration = Duration::from_secs(4 * 3600);
const SUBJECTS: [&str; 6] = ["h2", "fop", "sunflow", "xalan", "hsqldb", "antlr"];

/// A method: its name and its values of `--project` and `--recover`.
type Method = (&'static str, &'static str, &'static str);
const METHODS: [Method; 4] = [
    ("none", "indexed", "none"),
    ("basic", "enumerate", "basic"),
    ("tiered", "guided", "tiered"),
    ("follow", "indexed", "follow"),
];

struct LossOptions {
    size: Size,
    losses: Vec<u32>,
    methods: Vec<Method>,
    json: Option<PathBuf>,
    subjects: Vec<String>,
}

fn options() -> Result<LossOptions> {
    let mut o = LossOptions {
        size: Size::Small,
        losses: Vec::new(),
        methods: Vec::new(),
        json: None,
        subjects: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--full" => o.size = Size::Full,
            "--loss" => o.losses.push(value()?.trim_end_matches('%').parse()?),
            "--method" => {
                let name = value()?;
                let known = METHODS.into_iter().find(|m| m.0 == name);
                o.methods.push(known.ok_or_else(|| format!("no method {name:?}"))?);
            }
            "--json" => o.json = Some(value()?.into()),
            subject if !subject.starts_with('-') => o.subjects.push(subject.into()),
            _ => return Err(format!("unknown argument {argument:?}").into()),
        }
    }
    if o.losses.is_empty() {
        o.losses = vec![20, 30, 50];
    }
    if o.methods.is_empty() {
        o.methods = METHODS.to_vec();
    }
    if o.subjects.is_empty() {
        o.subjects = SUBJECTS.map(str::to_owned).to_vec();
    }
    Ok(o)
}

/// Runs a `jportal` command that prints JSON. Exit status 1 means findings and is accepted.
fn jportal(jportal: &Path, arguments: &[&str], captures: &[&Path]) -> Result<(Value, process::Finished)> {
    let mut command = Command::new(jportal);
    let finished = process::run(command.args(arguments).arg("--json").args(captures), LIMIT)?;
    if finished.status.code().is_none_or(|code| code > 1) {
        return Err(format!("jportal {arguments:?}: {}: {}", finished.status, finished.stderr).into());
    }
    Ok((finished.json()?, finished))
}

/// Sums the accuracy report's bins whose confidence is 0.9 or more: right bytecodes, and all
/// bytecodes.
fn sure(accuracy: &Value) -> (f64, f64) {
    let bins = accuracy["reliability"].as_array().into_iter().flatten();
    let high = bins.filter(|b| b["from"].as_f64().is_some_and(|from| from > 0.899));
    let of = |b: &Value, name: &str| b[name].as_f64().unwrap_or(0.0);
    high.fold((0.0, 0.0), |sum, b| (sum.0 + of(b, "right"), sum.1 + of(b, "bytecodes")))
}

/// Computes one row of the table: one subject with one share of loss and one method.
fn row(at: &Path, truth: &Path, lossy: &Path, (name, project, recover): Method) -> Result<Value> {
    let infer = ["--project", project, "--recover", recover];
    let (accuracy, _) = jportal(at, &[&["accuracy"], &infer[..]].concat(), &[truth, lossy])?;
    let plain = ["info", "--project", "none", "--recover", "none"];
    let (_, decoding) = jportal(at, &plain, &[lossy])?;
    let (info, all) = jportal(at, &[&["info"], &infer[..]].concat(), &[lossy])?;
    let decode = decoding.elapsed.as_secs_f64();
    let (right, claimed) = sure(&accuracy);
    Ok(json!({
        "method": name,
        "shares": accuracy["shares"],
        "total": accuracy["total"],
        "reliability": accuracy["reliability"],
        "sure_right": right, "sure": claimed,
        "projection": info["projection"],
        "recovery": info["recovery"],
        "seconds": {"decoding": decode, "inferring": all.elapsed.as_secs_f64() - decode},
        "peak_kib": {"decoding": decoding.peak_kib, "all": all.peak_kib},
    }))
}

const HEAD: &str = "subject  loss  method     PMD    lost     PDC      PR      PD      RA      DA overall  wrong   filled  sure right  decoding inferring     peak";

fn text(subject: &str, loss: u32, row: &Value) -> String {
    let share = |name: &str| match row["shares"][name].as_f64() {
        Some(share) => format!("{:6.2}%", 100.0 * share),
        None => "      -".into(),
    };
    let number = |at: &str| row.pointer(at).and_then(Value::as_f64).unwrap_or(0.0);
    let mut line = format!("{subject:<8} {loss:>3}%  {:<6}", row["method"].as_str().unwrap_or_default());
    for name in ["pmd", "pmd_flow", "pdc", "pr", "pd", "ra", "da", "overall"] {
        let _ = write!(line, " {}", share(name));
    }
    let wrong = number("/total/wrong/decoded") + number("/total/certain/wrong");
    let sure = match number("/sure") {
        0.0 => "-".into(),
        all => format!("{:.1}%", 100.0 * number("/sure_right") / all),
    };
    let filled = match row["recovery"].is_object() {
        true => format!("{}/{}", number("/recovery/gaps_filled"), number("/recovery/gaps")),
        false => "-".into(),
    };
    let _ = write!(
        line,
        " {wrong:>6} {filled:>8} {sure:>11} {:>8.1}s {:>8.1}s {:>6.0}MB",
        number("/seconds/decoding"),
        number("/seconds/inferring"),
        number("/peak_kib/all") / 1024.0
    );
    line
}

fn run() -> Result<()> {
    let options = options()?;
    let Some(place) = place::installed("jportal-loss") else {
        return Err("nothing is built; run scripts/setup".into());
    };
    let mut rows = Vec::new();
    println!("{HEAD}");
    for name in &options.subjects {
        let program = programs::by_name(name).ok_or_else(|| format!("no program {name}"))?;
        if let Some(missing) = program.missing() {
            return Err(format!("{name}: {missing}; run scripts/setup").into());
        }
        // Recovery uses the times of events, so record with the timing packets that `jportal run`
        // uses by default.
        let plan = Plan { oracle: false, size: options.size, timing: "mtc", ..Plan::new(EngineMode::Tiered) };
        let recording = RecordedRun::make(&place, &program, &plan)?;
        let truth = recording.capture();
        for loss in &options.losses {
            let lossy = recording.file("lossy.jportal");
            let target = lossy.to_str().ok_or("the path is not UTF-8")?;
            let share = format!("{loss}%");
            jportal(&place.jportal, &["degrade", "-o", target, "--loss", &share], &[&truth])?;
            for method in &options.methods {
                let mut found = row(&place.jportal, &truth, &lossy, *method)?;
                println!("{}", text(name, *loss, &found));
                found["subject"] = json!(name);
                found["loss"] = json!(loss);
                rows.push(found);
            }
            std::fs::remove_file(&lossy)?;
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_vec_pretty(&rows)?)?;
        println!("wrote {}", file.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    tool::main(USAGE, || run().map(|()| true))
}
