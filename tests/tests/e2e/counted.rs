// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a report or an export of a recording and the result of an agent of `tests/baselines` say,
//! in a form in which the two can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

/// What is compared: counts by a text that names what is counted.
pub(crate) type Counts = BTreeMap<String, u64>;

/// An event of a block trace: `start`, `end`, `block` or [`OPEN`], number of the block, method.
pub(crate) type TraceEvent = (&'static str, u32, Arc<str>);
/// The last event of a thread whose frames have no end: a daemon thread when the VM ends.
pub(crate) const OPEN: &str = "open";

/// More rows than any report has.
pub(crate) const ALL: &str = "1000000000";

/// What an agent did not instrument. Both sides leave it out.
#[derive(Default)]
pub(crate) struct Skipped(BTreeSet<String>);

impl Skipped {
    /// The list in an agent's result. All its logs must be whole.
    pub(crate) fn of(result: &Value) -> Self {
        let rows = list(result, "skipped").iter();
        let cut: Vec<_> = rows.clone().filter(|row| text(row, "class") == "*").collect();
        assert!(cut.is_empty(), "{cut:?}");
        Self(rows.map(|row| format!("{}.{}", text(row, "class"), text(row, "method"))).collect())
    }
    /// Whether nothing is left out by name.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether a method is left out. Agents see no hidden classes, and leave alone what core
    /// reflection generates.
    pub(crate) fn leaves_out(&self, method: &str) -> bool {
        let (class, _) = method.split('(').next().and_then(|name| name.rsplit_once('.')).unwrap_or(("", ""));
        class.contains("+0x")
            || class.contains("/0x")
            || class.starts_with("jdk.internal.reflect.Generated")
            || self.0.contains(method)
            || self.0.contains(&format!("{class}.*"))
    }
}

pub(crate) fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("no list {field} in {value:.300}"))
}

pub(crate) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value:.300}"))
}

pub(crate) fn sum(tally: &Value) -> u64 {
    tally.as_object().unwrap_or_else(|| panic!("{tally}")).values().filter_map(Value::as_u64).sum()
}

/// Executions of blocks.
pub(crate) fn blocks(report: &Value, skipped: &Skipped) -> Counts {
    let mut counts = Counts::new();
    for class in list(report, "classes") {
        for method in list(class, "methods") {
            let name = format!("{}.{}", text(class, "class"), text(method, "name"));
            if skipped.leaves_out(&name) {
                continue;
            }
            for block in list(method, "blocks") {
                let key = format!("{name} {}", block["bci"]);
                *counts.entry(key).or_default() += sum(&block["executions"]);
            }
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// Executions of paths, paths that were cut, numbers of paths.
pub(crate) fn paths(report: &Value, skipped: &Skipped) -> Counts {
    let mut counts = Counts::new();
    for method in list(report, "methods").iter().filter(|method| !skipped.leaves_out(text(method, "method")))
    {
        let name = text(method, "method");
        counts.insert(format!("{name} cut"), sum(&method["cut"]));
        counts.insert(format!("{name} paths"), method["paths"].as_u64().unwrap());
        for row in list(method, "rows") {
            counts.insert(format!("{name} {} {}", row["id"], row["blocks"]), sum(&row["times"]));
        }
    }
    counts
}

/// Calls and bytecodes of methods.
pub(crate) fn methods(report: &Value, skipped: &Skipped) -> Counts {
    let mut counts = Counts::new();
    for method in list(report, "methods").iter().filter(|method| !skipped.leaves_out(text(method, "method")))
    {
        counts.insert(format!("{} calls", text(method, "method")), sum(&method["calls"]));
        counts.insert(format!("{} bytecodes", text(method, "method")), sum(&method["bytecodes"]));
    }
    counts
}

/// The nodes of all threads by path: invocations, bytecodes, bytecodes by whole blocks.
pub(crate) fn tree(report: &Value, skipped: &Skipped) -> Counts {
    let (mut counts, mut places) = (Counts::new(), Vec::<String>::new());
    for node in list(report, "nodes") {
        let parent = node["parent"].as_u64().map(|parent| places[parent as usize].clone());
        let name = text(node, "method");
        let left_out = skipped.leaves_out(name);
        let path = match parent {
            Some(parent) if left_out => parent,
            // A path of deep recursion is long: a short text stands for it.
            Some(parent) => format!("{:016x}/{name}", hash(&parent)),
            None => String::new(),
        };
        for (what, count) in [
            ("invocations", sum(&node["invocations"])),
            ("bytecodes", sum(&node["bytecodes"])),
            ("default", node["default"].as_u64().unwrap()),
        ] {
            if count > 0 && !left_out {
                *counts.entry(format!("{path} {what}")).or_default() += count;
            }
        }
        places.push(path);
    }
    counts
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The rows of a table whose first row names the columns. No cell is quoted.
pub(crate) fn table(file: &Path, separator: char) -> Vec<BTreeMap<String, String>> {
    let content = std::fs::read_to_string(file).unwrap();
    let mut lines = content.lines().map(|line| {
        assert!(separator != ',' || !line.contains('"'), "{}: a quoted cell", file.display());
        line.split(separator).map(str::to_owned).collect::<Vec<_>>()
    });
    let names = lines.next().unwrap();
    lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect()
}

/// The threads' traces in a folder of block traces, by OS thread id. Classes of the JDK have no
/// events.
pub(crate) fn traces(folder: &Path, skipped: &Skipped) -> BTreeMap<u32, Vec<TraceEvent>> {
    let mut names: BTreeMap<u32, Option<Arc<str>>> = BTreeMap::new();
    for row in table(&folder.join("methods.csv"), ',') {
        let name = format!("{}.{}{}", row["class"], row["name"], row["descriptor"]);
        let name = Some(name).filter(|name| !skipped.leaves_out(name)).map(Arc::from);
        names.insert(row["method"].parse().unwrap(), name);
    }
    let mut all: BTreeMap<u32, Vec<TraceEvent>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "events") {
            let bytes = std::fs::read(&path).unwrap();
            let tid = u32::from_le_bytes(bytes[16..20].try_into().unwrap());
            all.entry(tid).or_default().extend(events(&bytes, &names));
        }
    }
    all.retain(|_, events| !events.is_empty());
    all
}

fn events(bytes: &[u8], names: &BTreeMap<u32, Option<Arc<str>>>) -> Vec<TraceEvent> {
    assert_eq!((&bytes[..8], bytes[10]), (&b"JPBLOCKS"[..], 4));
    let name_length = u32::from_le_bytes(bytes[40..44].try_into().unwrap()) as usize;
    let words = bytes[48 + name_length.next_multiple_of(8)..].chunks_exact(4);
    let words: Vec<u32> = words.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let (mut events, mut at, mut ended, mut open) = (Vec::new(), 0, false, false);
    while let Some(word) = words.get(at) {
        let (kind, method, block) = (word >> 30, word >> 11 & 0x7_ffff, word & 0x7ff);
        let name = || names[&method].clone();
        match kind {
            0 if word >> 29 & 1 == 1 => {
                let mark = word >> 24 & 31;
                ended = mark == 0;
                assert!(ended || mark == 4, "mark {mark}");
                if mark == 4 && !open {
                    open = true;
                    events.push((OPEN, 0, Arc::from("")));
                }
                at += (word & 0xff_ffff) as usize;
            }
            _ if open => panic!("events follow a frame whose end was not seen"),
            0 => {}
            1 => {
                events.extend(name().map(|name| ("start", 0, name)));
                at += block as usize;
            }
            2 => events.extend(name().map(|name| ("end", 0, name))),
            _ => events.extend(name().map(|name| ("block", block, name))),
        }
        at += 1;
    }
    assert!(ended, "the trace has no end");
    events
}

/// The first differences.
pub(crate) fn differences(ours: &Counts, theirs: &Counts) -> Vec<String> {
    let keys = ours.keys().chain(theirs.keys()).collect::<std::collections::BTreeSet<_>>();
    let differing = keys.into_iter().filter(|key| ours.get(*key) != theirs.get(*key));
    let line =
        |key: &String| format!("{key}: {:?} in the flow, {:?} by probes", ours.get(key), theirs.get(key));
    differing.map(line).take(10).collect()
}

pub(crate) fn check(what: &str, ours: &Counts, theirs: &Counts, least: usize) {
    assert!(ours.len() >= least, "{what}: only {} counts", ours.len());
    let differences = differences(ours, theirs);
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}

/// The first event that differs of two traces, with those after it.
pub(crate) fn divergence(ours: &[TraceEvent], theirs: &[TraceEvent]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let next = |events: &[TraceEvent]| format!("{:?}", events.iter().skip(same).take(3).collect::<Vec<_>>());
    Some(format!(
        "event {same} of {} and {}: {} in the flow, {} by probes",
        ours.len(),
        theirs.len(),
        next(ours),
        next(theirs)
    ))
}
