// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Says at build time what the end-to-end tests can run here. A test that cannot run is ignored,
//! with its reason, and does not count as passed.

use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // A file that only an installation of the JDK changes.
    let jdk = root.join("build/jdk/release");
    let unit = Path::new("/sys/bus/event_source/devices/intel_pt");
    // On a fresh machine scripts/test builds the tests while it builds the JDK. Cargo runs this
    // program again each time if a file that it watches is missing, and then compiles all tests.
    println!("cargo::rerun-if-env-changed=JPORTAL_INSTALLED");
    let will_be_installed = std::env::var_os("JPORTAL_INSTALLED").is_some();
    for (name, path) in [("installed", jdk.as_path()), ("intel_pt", unit)] {
        println!("cargo::rustc-check-cfg=cfg({name})");
        // A machine has the unit from its start on, or never.
        if !will_be_installed && (path == jdk || path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        if path.exists() || (will_be_installed && path == jdk) {
            println!("cargo::rustc-cfg={name}");
        }
    }
}
