// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compiles the shims of `src/bridge.rs` with the flags that HotSpot uses for its own files,
//! and copies the generated headers to `<target dir>/jportal-recorder-include/`, where the VM's
//! build finds them without knowing cargo's hashed paths.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/bridge.rs");
    cxx_build::bridge("src/bridge.rs")
        .std("c++14")
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fPIC")
        .flag("-fvisibility=hidden")
        .compile("jportal-recorder-bridge");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    publish(&out.join("cxxbridge/include"), &include_dir(&out))
}

/// `OUT_DIR` is `<target>/<profile>/build/<package>-<hash>/out`.
fn include_dir(out: &Path) -> PathBuf {
    let target = out.ancestors().nth(4).unwrap_or(out);
    target.join("jportal-recorder-include")
}

/// Copies the tree, following links. A file whose content is unchanged is not written, so that
/// the VM's incremental build does not rebuild for it.
fn publish(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if fs::metadata(&source)?.is_dir() {
            publish(&source, &target)?;
        } else {
            let content = fs::read(&source)?;
            if fs::read(&target).ok().as_deref() != Some(&content) {
                fs::write(&target, content)?;
            }
        }
    }
    Ok(())
}
