// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The programs of `docs/library.md`, in a crate outside of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The texts of the fences of one language.
fn fences(text: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    text.split(&opening).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned() + "\n").collect()
}

#[test]
fn the_guide_compiles_outside_of_the_workspace() {
    let root = root();
    let guide = std::fs::read_to_string(root.join("docs/library.md")).unwrap();
    let programs = fences(&guide, "rust");
    let example = std::fs::read_to_string(root.join("rust-core/jportal/examples/handlers.rs")).unwrap();
    assert_eq!(programs[0], example, "the guide shows the example");

    let folder = tempfile::tempdir().unwrap();
    let manifest = fences(&guide, "toml").remove(0);
    let library = root.join("rust-core/jportal");
    let manifest = manifest.replace("../JPortal/rust-core/jportal", library.to_str().unwrap());
    // With the workspace's profile and versions, cargo finds what is built already.
    let manifest = manifest + "\n[profile.dev]\nopt-level = 2\n";
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    std::fs::create_dir_all(folder.path().join("src/bin")).unwrap();
    std::fs::write(folder.path().join("src/main.rs"), &programs[0]).unwrap();
    for (n, program) in programs.iter().enumerate().skip(1) {
        let text = format!("#![allow(dead_code)]\n{program}\nfn main() {{}}\n");
        std::fs::write(folder.path().join(format!("src/bin/more{n}.rs")), text).unwrap();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let out = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--bins"])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", target)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
