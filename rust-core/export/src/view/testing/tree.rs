// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A made-up call tree.

use jportal_analyses::tree::{CallTree, Context, Kind, Limits, Settings, ThreadTree, Tiers};
use jportal_flow::Tally;

use super::{MadeUpNumbers, THREADS, inexact};

const PACKAGES: [&str; 8] = [
    "org.h2.engine",
    "org.h2.command.dml",
    "org.h2.index",
    "org.h2.mvstore.db",
    "org.h2.value",
    "java.util",
    "java.lang",
    "org.dacapo.h2",
];
const CLASSES: [&str; 10] = [
    "Session",
    "Select",
    "Cursor",
    "TransactionMap",
    "ValueString",
    "HashMap",
    "Page",
    "Database",
    "Parser",
    "Table$Row",
];
const NAMES: [&str; 12] = [
    "get",
    "next",
    "query",
    "readRow",
    "hashCode",
    "compareTo",
    "update",
    "<init>",
    "binarySearch",
    "commit",
    "lambda$run$0",
    "close",
];
const DESCRIPTORS: [&str; 5] =
    ["()V", "(I)I", "(Ljava/lang/Object;)Ljava/lang/Object;", "(JLjava/lang/String;)Z", "([BII)[B"];

/// The class of a method.
pub(super) fn class(method: usize) -> String {
    let n = method / 8;
    let number = if n < 80 { String::new() } else { (n / 80).to_string() };
    let (outer, inner) = CLASSES[n % 10].split_once('$').map_or((CLASSES[n % 10], ""), |(o, i)| (o, i));
    let inner = if inner.is_empty() { String::new() } else { format!("${inner}") };
    format!("{}.{outer}{number}{inner}", PACKAGES[(n / 10) % 8])
}

/// The name and the descriptor of a method.
pub(super) fn name(method: usize) -> String {
    format!("{}{}", NAMES[(method * 5 + method / 8) % 12], DESCRIPTORS[(method / 2) % 5])
}

/// The loader of a class.
pub(super) fn loader(class: &str) -> &'static str {
    if class.starts_with("java.") { "" } else { "app" }
}

/// A tree with that many different methods and about that many nodes.
pub fn tree(methods: usize, nodes: usize) -> CallTree {
    let mut grown = Growing { methods, random: MadeUpNumbers::new(7), nodes: Vec::with_capacity(nodes) };
    let mut threads = Vec::new();
    for (i, thread) in THREADS.iter().enumerate() {
        let root = grown.nodes.len() as u32;
        grown.push(None, Kind::Root, "(root)".into(), "");
        let share = if i == 0 { nodes * 6 / 10 } else { nodes / 10 };
        grown.grow(root, share.saturating_sub(1), 0);
        let exact = i != 3;
        let tid = Some(4711 + i as u32);
        let (java_tid, name, bucket) = (1 + i as u64, (*thread).into(), None);
        threads.push(ThreadTree { tid, java_tid, name, exact, root, bucket });
    }
    let mut nodes = grown.nodes;
    for i in (0..nodes.len()).rev() {
        nodes[i].total += nodes[i].bytecodes.total();
        if let Some(parent) = nodes[i].parent {
            nodes[parent as usize].total += nodes[i].total;
        }
    }
    let settings = Settings {
        merged: false,
        blocks: "precise".into(),
        upcalls: "nested".into(),
        natives: "show".into(),
        sites: false,
        hide: "show".into(),
        folded_recursion: false,
        split: false,
    };
    CallTree { exact: false, inexact: inexact(), settings, threads, delta: None, nodes }
}

struct Growing {
    methods: usize,
    random: MadeUpNumbers,
    nodes: Vec<Context>,
}

impl Growing {
    /// Adds up to `share` nodes below `parent`.
    fn grow(&mut self, parent: u32, share: usize, depth: usize) {
        let mut left = share;
        let most = if depth > 60 { share } else { 1 + self.random.below(6) as usize };
        for i in 0..most {
            if left == 0 {
                return;
            }
            // A child's subtree takes a random part of what is left, the last child all of it.
            let part = match i + 1 == most || depth > 60 {
                true if depth > 60 => 1,
                true => left,
                false => (1 + self.random.below(left as u64)) as usize,
            };
            left -= part;
            let id = self.nodes.len() as u32;
            self.call(parent, depth, part);
            self.grow(id, part - 1, depth + 1);
        }
    }
    fn call(&mut self, parent: u32, depth: usize, part: usize) {
        let methods = self.methods as u64;
        let method = (self.random.below(methods) * self.random.below(methods) / methods.max(1)) as usize;
        let kind = match self.random.below(40) {
            0 if part == 1 => Kind::Silent,
            1 => Kind::Upcall,
            _ => Kind::Call,
        };
        let class = class(method);
        self.push(Some(parent), kind, format!("{class}.{}", name(method)), loader(&class));
        let calls = 1 + self.random.below(1 << (4 + depth.min(8)));
        let bytecodes = calls * (3 + self.random.below(60)) * (1 + self.random.below(9));
        let cold = self.random.below(bytecodes / 8 + 2).min(bytecodes);
        let c1 = self.random.below(bytecodes - cold + 1);
        let (native, inexact) = (self.random.below(25) == 0, self.random.below(200) == 0);
        let Some(node) = self.nodes.last_mut() else { return };
        node.invocations.decoded = calls;
        if native || kind == Kind::Silent {
            return;
        }
        node.bytecodes.decoded = bytecodes;
        node.tiers = Tiers { interpreter: cold, c1, c2: bytecodes - cold - c1 };
        node.ticks = bytecodes * 2;
        node.exact = !inexact;
        node.unresolved = inexact.then_some(Limits { stretches: 2, min: 4, max: Some(90) });
    }
    fn push(&mut self, parent: Option<u32>, kind: Kind, method: String, loader: &str) {
        self.nodes.push(Context {
            id: self.nodes.len() as u32,
            parent,
            kind,
            method: method.into(),
            loader: loader.into(),
            site: None,
            invocations: Tally::default(),
            unstarted: 0,
            found: 0,
            bytecodes: Tally::default(),
            default: None,
            total: 0,
            tiers: Tiers::default(),
            ticks: 0,
            exact: true,
            unresolved: None,
        });
    }
}
