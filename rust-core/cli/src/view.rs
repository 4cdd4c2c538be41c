// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal view`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use jportal::analyses::blocks::{BlocksOptions, CountsAnalysis, Level};
use jportal::analyses::coverage::CoverageOptions;
use jportal::analyses::hot::HotAnalysis;
use jportal::analyses::latency::LatencyAnalysis;
use jportal::analyses::names::Names;
use jportal::analyses::tree::{Options, TreeAnalysis};
use jportal::analyses::{Threads, latency};
use jportal::export::view::{
    Jit, JitEvent, JitKind, OverviewAnalysis, SourceFile, View, ViewMeta, ViewMethod, ViewTree, write_view,
};
use jportal::{Method, Tsc};

use crate::args::{Classes, ViewArgs};
use crate::files::Target;
use crate::messages::say;
use crate::report::Subject;
use crate::{Outcome, decode};
