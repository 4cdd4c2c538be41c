// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arguments of `jportal replay`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use jportal::analyses::tree;

use super::tree::{Hide, Natives, Upcalls};
use super::{DecodeArgs, ExcludeArgs, InferArgs, RangeArgs, ScopeArgs};

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    /// The profiler: a class that implements jportal.profile.Profiler
    #[arg(long, value_name = "CLASS")]
    pub(crate) profiler: String,
    /// Where the classes of the profiler are: folders and jars, separated by colons
    #[arg(long, visible_alias = "cp", value_name = "PATH")]
    pub(crate) classpath: OsString,
    /// A class that implements jportal.profile.MIDFactory: it makes the identifiers of methods
    #[arg(long, value_name = "CLASS")]
    pub(crate) mid_factory: Option<String>,
    /// The java that runs the profiler, or its JDK; default: $JAVA_HOME, else that on the PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) java: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) infer: InferArgs,
    #[command(flatten)]
    pub(crate) exclude: ExcludeArgs,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Where frames are placed that the VM or native code called
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Upcalls::Nested)]
    pub(crate) upcalls: Upcalls,
    /// Whether native methods have nodes
    #[arg(long, value_enum, value_name = "WHETHER", default_value_t = Natives::None)]
    pub(crate) native: Natives,
    /// What happens to frames outside of --classes and --class
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Hide::Splice)]
    pub(crate) hide: Hide,
    /// A frame of a method that is already on the path counts for that node
    #[arg(long)]
    pub(crate) fold_recursion: bool,
    /// Maximum number of nodes; a node takes 64 bytes here, and as many in the java
    #[arg(long, value_name = "N", default_value_t = tree::MAX_NODES)]
    pub(crate) max_nodes: u64,
    /// Arguments of the java, such as -Xmx4g or -Dname=value
    #[arg(last = true, value_name = "JAVA ARGS")]
    pub(crate) java_args: Vec<OsString>,
}

impl ReplayArgs {
    /// How the trees are built.
    pub(crate) fn options(&self) -> tree::Options {
        tree::Options {
            upcalls: self.upcalls.into(),
            natives: self.native.into(),
            hide: self.hide.into(),
            fold_recursion: self.fold_recursion,
            max_nodes: self.max_nodes,
            ..tree::Options::default()
        }
    }
}
