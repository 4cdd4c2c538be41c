// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The call tree as an indented table.

use jportal_flow::Tally;
use jportal_plain::table::{Align, percent, table};

use super::report::{BucketTree, CallTree, Context, Delta, Kind, ThreadTree};
use crate::hidden::{Bounds, Inexact, Most, counted};
use crate::hot::{at_least, least_note};

/// What the figures of a tree are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Weight {
    /// Bytecodes executed in the node itself.
    #[default]
    Bytecodes,
    /// Invocations.
    Calls,
    /// Bytecodes executed in the node and in all nodes below.
    Total,
    /// Time on a core, in ticks of the TSC.
    Time,
}

impl Weight {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Bytecodes, Self::Calls, Self::Total, Self::Time];
    /// The value of the command's option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytecodes => "bytecodes",
            Self::Calls => "calls",
            Self::Total => "total",
            Self::Time => "time",
        }
    }
    /// The figure of a node.
    pub const fn of(self, node: &Context) -> u64 {
        match self {
            Self::Bytecodes => node.bytecodes.total(),
            Self::Calls => node.invocations.total(),
            Self::Total => node.total,
            Self::Time => node.ticks,
        }
    }
}

/// Which part of a tree a text shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Layout {
    /// What the figures are. [`Weight::Total`] is shown as [`Weight::Bytecodes`]: the table has
    /// both columns.
    pub weight: Weight,
    /// Maximum depth, where what the root calls has depth 1. `None`: no limit.
    pub depth: Option<usize>,
    /// Minimum share of the thread's total, between 0 and 1. Siblings with less are one line.
    pub min: f64,
    /// Maximum number of children shown of one node. `None`: no limit.
    pub top: Option<usize>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { weight: Weight::default(), depth: None, min: 0.005, top: None }
    }
}

/// Levels that are shown by indentation. Deeper ones are shown by their number.
const INDENTED: usize = 40;
/// Column at which the summary of a thread begins.
const SUMMARY: usize = 61;

/// Sums over the subtrees of a tree.
struct SubtreeSums<'a> {
    tree: &'a CallTree,
    weight: Weight,
    totals: Vec<u64>,
    /// Number of nodes of the subtree.
    sizes: Vec<u32>,
    /// Activations, without calls that have no frame.
    activations: Vec<u64>,
    /// The total is a lower bound.
    lower: Vec<bool>,
}

/// A line of the table.
enum TreeLine {
    Node(u32, usize),
    /// Number, total, calls and depth of the nodes that are left out.
    More(usize, u64, u64, usize),
}

impl<'a> SubtreeSums<'a> {
    fn new(tree: &'a CallTree, weight: Weight) -> Self {
        let n = tree.nodes.len();
        let (mut totals, mut activations) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let mut lower = Vec::with_capacity(n);
        for node in &tree.nodes {
            totals.push(own(tree, weight, node));
            let silent = node.kind == Kind::Silent;
            activations.push(if silent { 0 } else { node.invocations.total() });
            // No bytecode is missing where an intrinsic's instructions ran.
            lower.push(!node.exact && !silent);
        }
        let mut sizes = vec![1; n];
        for node in tree.nodes.iter().rev() {
            let (at, Some(parent)) = (node.id as usize, node.parent) else { continue };
            totals[parent as usize] += totals[at];
            sizes[parent as usize] += sizes[at];
            activations[parent as usize] += activations[at];
            lower[parent as usize] |= lower[at];
        }
        Self { tree, weight, totals, sizes, activations, lower }
    }
    /// The children of a node, largest first.
    fn children(&self, id: u32) -> Vec<u32> {
        let end = id + self.sizes[id as usize];
        let (mut at, mut children) = (id + 1, Vec::new());
        while at < end {
            children.push(at);
            at += self.sizes[at as usize];
        }
        children.sort_by_key(|c| (u64::MAX - self.totals[*c as usize], *c));
        children
    }
    /// The lines of a thread, the last one first.
    fn push_children(&self, (id, depth): (u32, usize), all: u64, layout: &Layout, open: &mut Vec<TreeLine>) {
        if layout.depth.is_some_and(|most| depth > most) {
            return;
        }
        let mut children = self.children(id);
        let large = |id: &u32| self.totals[*id as usize] as f64 >= layout.min * all as f64;
        let shown = children.iter().take_while(|id| large(id)).count().min(layout.top.unwrap_or(usize::MAX));
        let more = children.split_off(shown);
        if !more.is_empty() {
            let total = more.iter().map(|id| self.totals[*id as usize]).sum();
            let calls = more.iter().map(|id| self.tree.nodes[*id as usize].invocations.total()).sum();
            open.push(TreeLine::More(more.len(), total, calls, depth));
        }
        open.extend(children.into_iter().rev().map(|id| TreeLine::Node(id, depth)));
    }
    fn rows(&self, root: u32, layout: &Layout) -> Vec<Vec<String>> {
        let all = self.totals[root as usize];
        let (mut open, mut rows) = (Vec::new(), Vec::new());
        self.push_children((root, 1), all, layout, &mut open);
        while let Some(line) = open.pop() {
            rows.push(self.row(&line, all));
            if let TreeLine::Node(id, depth) = line {
                self.push_children((id, depth + 1), all, layout, &mut open);
            }
        }
        rows
    }
    fn row(&self, line: &TreeLine, all: u64) -> Vec<String> {
        let mut cells = match *line {
            TreeLine::More(n, total, calls, depth) => {
                let name = indented(depth, &format!("({n} more)"));
                let (default, tiers) = (String::new(), String::new());
                vec![
                    total.to_string(),
                    percent(total, all),
                    String::new(),
                    default,
                    calls.to_string(),
                    tiers,
                    name,
                ]
            }
            TreeLine::Node(id, depth) => self.node(&self.tree.nodes[id as usize], depth, all),
        };
        if !self.has_default() {
            cells.remove(3);
        }
        cells
    }
    fn node(&self, node: &Context, depth: usize, all: u64) -> Vec<String> {
        let total = self.totals[node.id as usize];
        let least = |lower: bool, n: u64| if lower { format!("≥ {n}") } else { n.to_string() };
        let silent = node.kind == Kind::Silent;
        let own = match self.weight {
            _ if silent => "-".to_owned(),
            Weight::Bytecodes | Weight::Total if self.tree.settings.blocks != "default" => bytecodes(node),
            weight => least(!node.exact, own(self.tree, weight, node)),
        };
        let calls = at_least(&node.invocations, Bounds::default(), 0, !node.exact && !silent);
        let extra = [(node.found, "found"), (node.unstarted, "unstarted")];
        let extra = extra.iter().filter(|e| e.0 > 0).map(|(n, what)| format!(" + {n} {what}"));
        let mark = if node.kind == Kind::Upcall { " (via VM)" } else { "" };
        let site = node.site.map_or_else(String::new, |s| match s.line {
            Some(line) => format!(" from @{} line {line}", s.bci),
            None => format!(" from @{}", s.bci),
        });
        vec![
            least(self.lower[node.id as usize], total),
            percent(total, all),
            own,
            node.default.map_or_else(String::new, |n| n.to_string()),
            calls + &extra.collect::<String>(),
            tiers(node),
            indented(depth, &format!("{}{site}{mark}", node.method)),
        ]
    }
    fn has_default(&self) -> bool {
        self.tree.settings.blocks == "both"
    }
    fn header(&self, thread: &ThreadTree) -> String {
        let name = jportal_plain::line(&thread.name);
        let title = match (&thread.bucket, thread.tid) {
            (Some(bucket), _) => bucket_title(&name, thread.tid, bucket),
            (None, Some(tid)) => format!("thread \"{name}\" (tid {tid})"),
            (None, None) => format!("all threads {name}"),
        };
        let all = self.totals[thread.root as usize];
        let least = if self.lower[thread.root as usize] { "≥ " } else { "" };
        let complete = thread.bucket.as_ref().is_none_or(|bucket| bucket.complete);
        let exact = match (complete, thread.exact) {
            (false, _) => "not complete",
            (true, true) => "exact",
            (true, false) => "not exact",
        };
        let what = match self.weight {
            Weight::Bytecodes | Weight::Total => format!("{least}{all} bytecodes, "),
            Weight::Calls => String::new(),
            Weight::Time => format!("{least}{all} ticks, "),
        };
        let calls = self.activations[thread.root as usize];
        let pad = SUMMARY.saturating_sub(title.chars().count()).max(2);
        format!("{title}{:pad$}{exact}, {what}{least}{calls} invocations\n", "")
    }
}

/// `a.B.f()V#1, thread "main" (tid 7)`.
fn bucket_title(name: &str, tid: Option<u32>, bucket: &BucketTree) -> String {
    match (&bucket.thread, tid, bucket.activations) {
        (Some(thread), Some(tid), _) => {
            format!("{name}, thread \"{}\" (tid {tid})", jportal_plain::line(thread))
        }
        (_, _, 0) => name.to_owned(),
        (_, _, n) => format!("{name}, {}", counted(n, "activation")),
    }
}

/// The figure of a node that its subtree adds up.
fn own(tree: &CallTree, weight: Weight, node: &Context) -> u64 {
    match weight {
        Weight::Bytecodes | Weight::Total => {
            let default = node.default.filter(|_| tree.settings.blocks == "default");
            default.unwrap_or(node.bytecodes.total())
        }
        Weight::Calls | Weight::Time => weight.of(node),
    }
}

/// The bytecodes of a node, as a lower bound if some may be missing.
fn bytecodes(node: &Context) -> String {
    let limits = node.unresolved.unwrap_or(super::Limits { stretches: 0, min: 0, max: Some(0) });
    let missing = Bounds { min: limits.min, max: Most(limits.max) };
    let all: &Tally = &node.bytecodes;
    at_least(all, missing, 0, !node.exact && limits.max == Some(0))
}

/// Shares of the tiers in percent: `100/0/0`.
fn tiers(node: &Context) -> String {
    let (t, all) = (node.tiers, node.bytecodes.total());
    if all == 0 {
        return "-".to_owned();
    }
    let share = |n: u64| format!("{:.0}", 100.0 * n as f64 / all as f64);
    format!("{}/{}/{}", share(t.interpreter), share(t.c1), share(t.c2))
}

fn indented(depth: usize, name: &str) -> String {
    let levels = depth.saturating_sub(1);
    match levels.checked_sub(INDENTED + 1) {
        None => format!("{:1$}{name}", "", 2 * levels),
        Some(_) => format!("{:1$}[{depth}] {name}", "", 2 * INDENTED),
    }
}

impl CallTree {
    /// The trees as tables, one for each thread. A lower bound is shown as `≥`.
    pub fn text(&self, layout: &Layout) -> String {
        let sums = SubtreeSums::new(self, layout.weight);
        let (total, own) = match layout.weight {
            Weight::Bytecodes | Weight::Total => ("total", "self"),
            Weight::Calls => ("total calls", "calls"),
            Weight::Time => ("total ticks", "ticks"),
        };
        let mut columns = vec![
            (total, Align::Right),
            ("share", Align::Right),
            (own, Align::Right),
            ("default", Align::Right),
            ("calls", Align::Right),
            ("int/C1/C2", Align::Left),
            ("method", Align::Left),
        ];
        if !sums.has_default() {
            columns.remove(3);
        }
        let mut text = String::new();
        for thread in &self.threads {
            text.push_str(&sums.header(thread));
            text.push_str(&table(&columns, &sums.rows(thread.root, layout)));
        }
        if let Some(depth) = layout.depth {
            text.push_str(&format!("nodes below depth {depth} are not shown\n"));
        }
        if let Some(delta) = self.delta {
            text.push_str(&delta.text());
        }
        text.push_str(&least_note(&self.inexact, self.exact));
        if !self.exact && self.inexact == Inexact::default() {
            text.push_str("≥: frames ended unseen, or events of the flow contradict each other\n");
        }
        text
    }
}

impl Delta {
    /// The line of the report.
    fn text(self) -> String {
        let error = self.error();
        let error = if self.default == self.precise { "0".to_owned() } else { format!("{error:.6}") };
        format!("delta of default block counting: {error} ({} / {})\n", self.default, self.precise)
    }
}
