// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Holds the dependencies to `deny.toml`: licences, sources, versions that are left open.
//!
//! `cargo deny` does the same and more where it is installed. Its advisories need a database that
//! is not on crates.io.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

use crate::Result;

/// What `deny.toml` allows.
#[derive(Debug)]
pub struct Policy {
    /// The licences that a dependency may have.
    pub licences: Vec<Licensee>,
    /// The addresses of the registries that a dependency may be from.
    pub registries: Vec<String>,
    /// The targets whose dependencies count.
    pub targets: Vec<String>,
}

impl Policy {
    /// Reads the text of a `deny.toml`.
    ///
    /// # Errors
    /// It is not TOML, lacks one of the lists, or names a licence that does not exist.
    pub fn parse(text: &str) -> Result<Self> {
        let all: toml::Table = text.parse()?;
        let list = |section: &str, key: &str| -> Result<Vec<String>> {
            let value = all.get(section).and_then(|s| s.get(key)).cloned();
            Ok(value.ok_or_else(|| format!("deny.toml has no {section}.{key}"))?.try_into()?)
        };
        let licences = list("licenses", "allow")?;
        let licences = licences.iter().map(|l| Licensee::parse(l)).collect::<std::result::Result<_, _>>()?;
        Ok(Self {
            licences,
            registries: list("sources", "allow-registry")?,
            targets: list("graph", "targets")?,
        })
    }
}

/// What was found in a dependency graph.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The number of packages that are not ours.
    pub count: usize,
    /// A line for each offence against the policy.
    pub faults: Vec<String>,
    /// Packages that are there in several versions. This is no fault.
    pub several: BTreeMap<String, BTreeSet<String>>,
}

/// Holds the dependencies of the project at `root` to its `deny.toml`.
///
/// # Errors
/// There is no such file, it cannot be read, or cargo fails.
pub fn check(root: &Path) -> Result<Dependencies> {
    let root = root.canonicalize()?;
    let policy = Policy::parse(&std::fs::read_to_string(root.join("deny.toml"))?)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--all-features", "--format-version", "1"]).current_dir(&root);
    for target in &policy.targets {
        command.args(["--filter-platform", target]);
    }
    let out = command.output()?;
    if !out.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr)).into());
    }
    judge(&policy, &root, &serde_json::from_slice(&out.stdout)?)
}

/// Holds the packages of `cargo metadata` to a policy.
fn judge(policy: &Policy, root: &Path, metadata: &Value) -> Result<Dependencies> {
    let mut found = Dependencies::default();
    let mut used = vec![false; policy.licences.len()];
    for package in metadata["packages"].as_array().ok_or("cargo metadata lists no packages")? {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", text("name"), text("version"));
        found.several.entry(text("name").to_owned()).or_default().insert(text("version").to_owned());
        match package["source"].as_str() {
            None if Path::new(text("manifest_path")).starts_with(root) => {
                found.faults.extend(open(package).map(|d| format!("{name}: any version of {d} will do")));
                continue;
            }
            None => found.faults.push(format!("{name}: is at {}", text("manifest_path"))),
            Some(source) => {
                let is_known = policy.registries.iter().any(|r| source.strip_prefix("registry+") == Some(r));
                found.faults.extend((!is_known).then(|| format!("{name}: is from {source}")));
            }
        }
        found.count += 1;
        let fault = licence(policy, &mut used, text("license"));
        found.faults.extend(fault.map(|fault| format!("{name}: {fault}")));
    }
    found.several.retain(|_, versions| versions.len() > 1);
    let unused = policy.licences.iter().zip(&used).filter(|(_, used)| !**used);
    found.faults.extend(unused.map(|(licence, _)| format!("deny.toml: no dependency has {licence}")));
    Ok(found)
}

/// The dependencies of one of our packages that name neither a version nor a path.
fn open(package: &Value) -> impl Iterator<Item = &str> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|d| d["req"] == "*" && d["path"].is_null()).filter_map(|d| d["name"].as_str())
}

/// What is wrong with the licence of a package. Notes in `used` which licences it has.
fn licence(policy: &Policy, used: &mut [bool], text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("names no licence".to_owned());
    }
    let Ok(expression) = Expression::parse_mode(text, ParseMode::LAX) else {
        return Some(format!("the licence is not an SPDX expression: {text}"));
    };
    for requirement in expression.requirements() {
        for (licence, used) in policy.licences.iter().zip(&mut *used) {
            *used |= licence.satisfies(&requirement.req);
        }
    }
    let is_allowed = expression.evaluate(|r| policy.licences.iter().any(|licence| licence.satisfies(r)));
    (!is_allowed).then(|| format!("deny.toml does not allow {text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POLICY: &str = "[graph]\ntargets = [\"t\"]\n[licenses]\nallow = [\"MIT\", \"Zlib\"]\n\
        [sources]\nallow-registry = [\"https://a/index\"]\n";

    fn package(name: &str, licence: &str, source: &str) -> Value {
        json!({ "name": name, "version": "1.0.0", "license": licence, "source": source,
            "manifest_path": "/elsewhere/Cargo.toml", "dependencies": [{ "name": "x", "req": "*" }] })
    }

    fn judged(packages: &[Value]) -> Dependencies {
        let metadata = json!({ "packages": packages });
        judge(&Policy::parse(POLICY).unwrap(), Path::new("/here"), &metadata).unwrap()
    }

    #[test]
    fn what_is_allowed_is_no_fault() {
        let source = "registry+https://a/index";
        let (a, b) = (package("a", "GPL-3.0-only OR MIT", source), package("b", "MIT/Zlib", source));
        let mut other = a.clone();
        other["version"] = "2.0.0".into();
        let found = judged(&[a, b, other]);
        assert_eq!((found.count, found.faults), (3, Vec::<String>::new()));
        assert_eq!(found.several.into_keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn offences_are_faults() {
        let source = "registry+https://a/index";
        let mut ours = package("ours", "", source);
        ours["source"] = Value::Null;
        let elsewhere = ours.clone();
        ours["manifest_path"] = "/here/ours/Cargo.toml".into();
        let found = judged(&[
            package("both", "MIT AND GPL-3.0-only", source),
            package("none", "", source),
            package("word", "as you like", source),
            package("git", "MIT", "git+https://a/index"),
            package("far", "MIT", "registry+https://b/index"),
            elsewhere,
            ours,
        ]);
        let faults = [
            "both 1.0.0: deny.toml does not allow MIT AND GPL-3.0-only",
            "none 1.0.0: names no licence",
            "word 1.0.0: the licence is not an SPDX expression: as you like",
            "git 1.0.0: is from git+https://a/index",
            "far 1.0.0: is from registry+https://b/index",
            "ours 1.0.0: is at /elsewhere/Cargo.toml",
            "ours 1.0.0: names no licence",
            "ours 1.0.0: any version of x will do",
            "deny.toml: no dependency has Zlib",
        ];
        assert_eq!(found.faults, faults);
    }

    #[test]
    fn our_dependencies_are_allowed() {
        let found = check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert!(found.count > 100, "{}", found.count);
        assert_eq!(found.faults, Vec::<String>::new());
    }
}
