// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `--check`: the checker beside another analysis.

use std::sync::Arc;

use jportal::Capture;
use jportal::validate::check::{CheckOptions, Checker};

use crate::args::CheckArgs;

/// The checker, if the arguments ask for it.
pub(crate) fn checker(args: &CheckArgs, capture: &Capture) -> Option<Checker> {
    let options = CheckOptions { keep: args.findings };
    args.check.then(|| Checker::new(Arc::new(capture.methods().clone()), options))
}
