// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The table in `rust-core/README.md` agrees with cargo's metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

struct LayerRow {
    layer: u32,
    ours: BTreeSet<String>,
    outside: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder of a package. The library has the name of its folder.
fn folder(package: &str) -> &str {
    package.strip_prefix("jportal-").unwrap_or(package)
}

fn package_of(folder: &str) -> String {
    if folder == "jportal" { folder.to_owned() } else { format!("jportal-{folder}") }
}

fn names(cell: &str) -> BTreeSet<String> {
    cell.split(',').map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()
}

/// The rows of the table whose first cell is a number.
fn table() -> BTreeMap<String, LayerRow> {
    let text = std::fs::read_to_string(root().join("rust-core/README.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [layer, name, _, ours, outside] = cells[..] else { continue };
        if let Ok(layer) = layer.parse() {
            let row = LayerRow { layer, ours: names(ours), outside: names(outside) };
            assert!(rows.insert(name.to_owned(), row).is_none(), "{name} stands in the table twice");
        }
    }
    rows
}

/// Our crates under `rust-core`: name and dependencies, without those of tests and builds.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let inside = |p: &&Value| text(&p["manifest_path"]).contains("/rust-core/");
    all["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(inside)
        .map(|p| {
            let dependencies = p["dependencies"].as_array().unwrap();
            let normal = dependencies.iter().filter(|d| d["kind"].is_null()).map(|d| text(&d["name"]));
            (text(&p["name"]), normal.collect())
        })
        .collect()
}

#[test]
fn dependencies_are_those_of_the_table() {
    let (table, crates) = (table(), crates());
    assert!(crates.len() >= 10, "cargo sees {} crates only", crates.len());
    for (package, dependencies) in &crates {
        let name = folder(package);
        let row = table.get(name).unwrap_or_else(|| panic!("{name} is missing in rust-core/README.md"));
        let ours = row.ours.iter().map(|name| package_of(name));
        let listed: BTreeSet<String> = ours.chain(row.outside.iter().cloned()).collect();
        assert_eq!(&listed, dependencies, "{name}: rust-core/README.md (left) and cargo (right)");
    }
    for name in table.keys() {
        assert!(crates.contains_key(&package_of(name)), "{name} stands in the table but is no crate");
    }
}

/// The text of all sources below `folder`.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries
        .map(|path| match path.is_dir() {
            true => sources(&path),
            false => std::fs::read_to_string(&path).unwrap_or_default(),
        })
        .collect()
}

#[test]
fn each_dependency_is_used() {
    for (package, dependencies) in crates() {
        let text = sources(&root().join("rust-core").join(folder(&package)).join("src"));
        for dependency in dependencies {
            let name = dependency.replace('-', "_");
            let is_used = [format!("{name}::"), format!("use {name} as "), format!("extern crate {name}")];
            assert!(is_used.iter().any(|u| text.contains(u)), "{package} does not use {dependency}");
        }
    }
}

#[test]
fn a_crate_depends_on_lower_layers_only() {
    let table = table();
    for (name, row) in &table {
        for ours in &row.ours {
            let below = table.get(ours).unwrap_or_else(|| panic!("{name} names {ours}, which has no row"));
            assert!(below.layer < row.layer, "{name} (layer {}) may not know {ours}", row.layer);
        }
        assert_eq!(row.outside.contains("anyhow"), name == "cli", "anyhow is for the command only");
    }
}

#[test]
fn the_vm_side_and_the_decoding_side_meet_in_four_crates() {
    let table = table();
    let below = |start: &[&str]| {
        let mut all: BTreeSet<String> = start.iter().map(|s| (*s).to_owned()).collect();
        loop {
            let more: Vec<String> = all.iter().flat_map(|n| table[n].ours.iter().cloned()).collect();
            let before = all.len();
            all.extend(more);
            if all.len() == before {
                return all;
            }
        }
    };
    let shared: Vec<String> =
        below(&["recorder", "emulator"]).intersection(&below(&["cli"])).cloned().collect();
    assert_eq!(shared, ["capture", "perf-abi", "pt-packet", "units"]);
}
