// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares what reports and exports say of a capture with what the peer (`tests/peer`) computes
//! from the oracle's log of another run of the same program. Both runs must execute the same.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::Installation;
use crate::process;
use crate::recording::{LIMIT, RecordedRun};
use crate::{Error, Result};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// `report call-tree`: invocations, bytecodes, and bytecodes by whole blocks of each node.
    Tree,
    /// `report blocks`: executions of blocks, bytecodes, lines, branch outcomes and exceptions.
    Counts,
    /// `report paths`: executions of each path, and where paths were cut.
    Paths,
    /// `export call-trace`: the sequence of sites.
    Trace,
    /// `export block-trace`: the sequence of starts and ends of methods and of blocks.
    Blocks,
}

/// More rows than any report has.
pub(crate) const ALL: &str = "1000000000";

/// All kinds.
pub const KINDS: [TableKind; 5] =
    [TableKind::Tree, TableKind::Counts, TableKind::Paths, TableKind::Trace, TableKind::Blocks];

impl TableKind {
    /// Its name in the command line of the peer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Counts => "counts",
            Self::Paths => "paths",
            Self::Trace => "trace",
            Self::Blocks => "blocks",
        }
    }
}

/// A fault that is planted into a table of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The greatest number becomes greater by one; of a sequence, a token is missing.
    Count,
    /// The row of the greatest number is missing; of a sequence, two tokens are swapped.
    Row,
}

/// The oracle's log of a run without recording.
#[derive(Debug)]
pub struct Logged {
    folder: PathBuf,
    peer: PathBuf,
    java: PathBuf,
    classes: String,
}

impl Logged {
    /// Runs `java` with the oracle agent and these arguments; writes into `folder`.
    ///
    /// # Errors
    /// If the program fails, or has no class path, or the peer was not built.
    pub fn run(place: &Installation, arguments: &[String], folder: &Path) -> Result<Self> {
        let peer = place.root.join("build/peer/jportal-peer.jar");
        if !peer.exists() {
            return Err(format!("{} is missing; run tests/peer/build.sh", peer.display()).into());
        }
        let at = arguments.iter().position(|argument| argument == "-cp").ok_or("no class path")?;
        let classes = arguments.get(at + 1).ok_or("no class path")?.clone();
        std::fs::create_dir_all(folder)?;
        let (log, saved) = (folder.join("log"), folder.join("saved"));
        let agent =
            format!("-javaagent:{}=out={},save={}", place.oracle.display(), log.display(), saved.display());
        let finished = process::run(Command::new(&place.java).arg(agent).args(arguments), LIMIT)?;
        if !finished.status.success() {
            return Err(format!("the program failed, {}: {}", finished.status, finished.stderr).into());
        }
        Ok(Self { folder: folder.to_owned(), peer, java: place.java.clone(), classes })
    }

    /// The file with the calls that the peer found, once it has explained the log.
    pub fn calls(&self) -> PathBuf {
        self.folder.join("peer.calls")
    }

    /// What the peer says of the first thread with probes, the main thread: the files of
    /// [`KINDS`], in that order.
    ///
    /// # Errors
    /// If the peer cannot explain the log.
    pub fn explain(&self) -> Result<[PathBuf; KINDS.len()]> {
        let out = |kind: TableKind| self.folder.join(format!("peer.{}", kind.name()));
        let mut command = Command::new(&self.java);
        command.arg("-jar").arg(&self.peer).arg("--oracle").arg(self.folder.join("log"));
        command.args(["--classes", &self.classes]).arg("--saved").arg(self.folder.join("saved"));
        command.args(["--what", &format!("{},calls", KINDS.map(TableKind::name).join(",")), "--thread", "0"]);
        command.arg("--out").arg(self.folder.join("peer"));
        let finished = process::run(&mut command, LIMIT)?;
        if finished.status.success() {
            return Ok(KINDS.map(out));
        }
        Err(format!("the peer ends with {}: {:.2000}", finished.status, finished.stderr).into())
    }

    /// Compares two tables: how many rows are equal, and the first differences.
    ///
    /// # Errors
    /// If they cannot be compared.
    pub fn compare(&self, kind: TableKind, peer: &Path, client: &str) -> Result<Compared> {
        let file = self.folder.join(format!("client.{}", kind.name()));
        std::fs::write(&file, client)?;
        let mut command = Command::new(&self.java);
        command.arg("-cp").arg(&self.peer).args(["jportal.peer.Compare", kind.name()]).arg(peer).arg(&file);
        let finished = process::run(&mut command, LIMIT)?;
        let equal = finished.stderr.split("compare: ").nth(1).and_then(|rest| rest.split(' ').next());
        match (finished.status.code(), equal.and_then(|n| n.parse().ok())) {
            (Some(0 | 1), Some(equal)) => {
                Ok(Compared { equal, same: finished.status.success(), text: finished.text() })
            }
            _ => Err(format!("{}: {:.2000}", finished.status, finished.stderr).into()),
        }
    }
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Compared {
    /// Rows, or tokens, that are equal.
    pub equal: u64,
    /// Whether all are.
    pub same: bool,
    /// The first differences.
    pub text: String,
}

/// What a client says of the main thread's application methods, as the table that the peer's
/// `Compare` reads.
///
/// # Errors
/// If the command fails.
pub fn table(recording: &RecordedRun, kind: TableKind, fault: Option<Fault>) -> Result<String> {
    let report = |command: &[&str]| -> Result<Value> {
        let scope = ["--thread", "main", "--classes", "app", "--json"];
        let finished = recording.jportal(command, &recording.capture(), &scope)?;
        if !finished.status.success() {
            return Err(format!("{command:?} ends with {}: {}", finished.status, finished.stderr).into());
        }
        finished.json()
    };
    match kind {
        TableKind::Tree => {
            // The peer does not see native methods.
            let shape = ["--merge", "--bba", "both", "--hide", "splice", "--native", "none"];
            let tree = report(&[&["report", "call-tree"][..], &shape].concat())?;
            tree_table(&tree, fault)
        }
        TableKind::Counts => {
            counts_table(&report(&["report", "blocks", "--lines", "--bytecodes", "--top", ALL])?, fault)
        }
        TableKind::Paths => paths_table(&report(&["report", "paths", "--cut", "--top", ALL])?, fault),
        TableKind::Trace => {
            let folder = recording.file("call-trace");
            if !folder.exists() {
                let folder = folder.to_str().ok_or("the path is not UTF-8")?;
                report(&["export", "call-trace", "-o", folder])?;
            }
            trace_table(&folder, fault)
        }
        TableKind::Blocks => {
            let folder = recording.file("block-trace");
            if !folder.exists() {
                let folder = folder.to_str().ok_or("the path is not UTF-8")?;
                report(&["export", "block-trace", "--unwinds", "-o", folder])?;
            }
            blocks_table(&folder, fault)
        }
    }
}

/// A method as `package.Class.name(…)…` in parts: internal name of the class, name, descriptor.
pub(crate) fn method(text: &str) -> Result<[String; 3]> {
    let broken = || Error::from(format!("no method: {text}"));
    let (qualified, _) = text.split_once('(').ok_or_else(broken)?;
    let (class, name) = qualified.rsplit_once('.').ok_or_else(broken)?;
    Ok([class.replace('.', "/"), name.to_owned(), text[qualified.len()..].to_owned()])
}

/// Whether a class is hidden. The agent does not instrument such classes.
pub(crate) fn is_hidden(class: &str) -> bool {
    class.contains("+0x") || class.contains("/0x")
}

pub(crate) fn sum(tally: &Value) -> u64 {
    tally.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
}

pub(crate) fn list<'v>(value: &'v Value, field: &str) -> Result<&'v Vec<Value>> {
    value[field].as_array().ok_or_else(|| format!("no list {field}").into())
}

pub(crate) fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str> {
    value[field].as_str().ok_or_else(|| format!("no text {field}").into())
}

pub(crate) fn number(value: &Value, field: &str) -> Result<u64> {
    value[field].as_u64().ok_or_else(|| format!("no number {field}").into())
}

/// Rows that are counted. The last column is the count, or counts, of the row.
struct CountedRows {
    text: String,
    /// Place of the row with the greatest count in `text`, and that count.
    greatest: Option<(usize, u64)>,
}

impl CountedRows {
    fn new(columns: &str) -> Self {
        Self { text: format!("{columns}\n"), greatest: None }
    }
    fn add(&mut self, cells: &[&str], count: u64, more: &[u64]) -> Result<()> {
        if self.greatest.is_none_or(|(_, greatest)| count > greatest) {
            self.greatest = Some((self.text.len(), count));
        }
        write!(self.text, "{}\t{count}", cells.join("\t"))?;
        for n in more {
            write!(self.text, "\t{n}")?;
        }
        self.text.push('\n');
        Ok(())
    }
    fn finish(mut self, fault: Option<Fault>) -> Result<String> {
        let Some(fault) = fault else { return Ok(self.text) };
        let (place, count) = self.greatest.ok_or("no row for a fault")?;
        let end = self.text[place..].find('\n').map_or(self.text.len(), |n| place + n + 1);
        let row = self.text[place..end].to_owned();
        let spoiled = match fault {
            Fault::Row => String::new(),
            Fault::Count => row.replacen(&format!("\t{count}"), &format!("\t{}", count + 1), 1),
        };
        self.text.replace_range(place..end, &spoiled);
        Ok(self.text)
    }
}

/// A node of the call tree under construction.
struct TableNode {
    parent: usize,
    cells: [String; 3],
    /// Invocations, bytecodes by whole blocks, bytecodes.
    figures: [u64; 3],
}

/// The tree without frames of hidden classes: their callees become those of the frame below. Nodes
/// of one method below one node become one.
fn tree_table(report: &Value, fault: Option<Fault>) -> Result<String> {
    let mut nodes: Vec<TableNode> =
        vec![TableNode { parent: 0, cells: ["(root)", "", ""].map(str::to_owned), figures: [0; 3] }];
    let mut known: HashMap<(usize, [String; 3]), usize> = HashMap::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for node in list(report, "nodes")? {
        let parent = match node["parent"].as_u64() {
            None => 0,
            Some(parent) => *places.get(&parent).ok_or("a node precedes its parent")?,
        };
        let is_frame = matches!(text(node, "kind")?, "call" | "upcall");
        let cells = if is_frame { Some(method(text(node, "method")?)?) } else { None };
        let place = match cells.filter(|[class, ..]| !is_hidden(class)) {
            None => parent,
            Some(cells) => *known.entry((parent, cells.clone())).or_insert_with(|| {
                nodes.push(TableNode { parent, cells, figures: [0; 3] });
                nodes.len() - 1
            }),
        };
        places.insert(number(node, "id")?, place);
        if place != parent {
            let figures = [sum(&node["invocations"]), number(node, "default")?, sum(&node["bytecodes"])];
            for (all, own) in nodes[place].figures.iter_mut().zip(figures) {
                *all += own;
            }
        }
    }
    let mut rows = CountedRows::new("thread\tid\tparent\tclass\tmethod\tdescriptor\tcalls\twhole\tbegun");
    for (id, TableNode { parent, cells: [class, name, descriptor], figures: [calls, whole, begun] }) in
        nodes.iter().enumerate()
    {
        let parent = if id == 0 { "-1".to_owned() } else { parent.to_string() };
        // The tree stays a tree: of a row that is missing, the figures are.
        if fault == Some(Fault::Row) && nodes.len() / 2 == id {
            rows.add(&["0", &id.to_string(), &parent, class, name, descriptor], 0, &[0, 0])?;
        } else {
            rows.add(&["0", &id.to_string(), &parent, class, name, descriptor], *calls, &[*whole, *begun])?;
        }
    }
    rows.finish(fault.filter(|fault| *fault == Fault::Count))
}

fn counts_table(report: &Value, fault: Option<Fault>) -> Result<String> {
    let mut rows = CountedRows::new("thread\tkind\tclass\tmethod\tdescriptor\tbci\tline\tto\tcount");
    for class in list(report, "classes")? {
        let name = text(class, "class")?;
        if is_hidden(name) {
            continue;
        }
        for of in list(class, "methods")? {
            if sum(&of["entries"]["calls"]) == 0 {
                continue;
            }
            let [class, method, descriptor] = method(&format!("{name}.{}", text(of, "name")?))?;
            let mut add = |kind: &str, [bci, line, to]: [&str; 3], count: &Value| {
                rows.add(&["0", kind, &class, &method, &descriptor, bci, line, to], sum(count), &[])
            };
            for block in list(of, "blocks")? {
                add("block", [&number(block, "bci")?.to_string(), "", ""], &block["executions"])?;
            }
            for row in list(of, "code")? {
                add("bytecode", [&number(row, "bci")?.to_string(), "", ""], &row["executions"])?;
            }
            for row in list(of, "lines")? {
                add("line", ["", &number(row, "line")?.to_string(), ""], &row["times"])?;
            }
            for row in list(of, "ways")? {
                let (bci, to) = (number(row, "bci")?.to_string(), number(row, "to")?.to_string());
                add("way", [&bci, "", &to], &row["times"])?;
            }
            for row in list(of, "exceptions")? {
                let from = row["from"].as_u64().map_or_else(|| "?".to_owned(), |bci| bci.to_string());
                let to = row["to"].as_u64().map_or_else(|| "out".to_owned(), |bci| bci.to_string());
                add("exception", [&from, "", &to], &row["times"])?;
            }
        }
    }
    rows.finish(fault)
}

fn paths_table(report: &Value, fault: Option<Fault>) -> Result<String> {
    let mut rows = CountedRows::new("thread\tclass\tmethod\tdescriptor\tkind\tid\tblocks\tcount");
    for of in list(report, "methods")? {
        let [class, method, descriptor] = method(text(of, "method")?)?;
        if is_hidden(&class) {
            continue;
        }
        let mut add = |kind: &str, id: &str, blocks: &str, count: &Value| {
            rows.add(&["0", &class, &method, &descriptor, kind, id, blocks], sum(count), &[])
        };
        for row in list(of, "rows")? {
            add("path", &number(row, "id")?.to_string(), "", &row["times"])?;
        }
        for row in of["cuts"].as_array().into_iter().flatten() {
            let register = row["prefix"].as_u64().map_or_else(|| "?".to_owned(), |n| n.to_string());
            let block = list(row, "blocks")?.last().map_or_else(|| "?".to_owned(), Value::to_string);
            add("cut", &register, &block, &row["times"])?;
        }
    }
    rows.finish(fault)
}

/// A site of a call trace as the cells of a row; `None` in a hidden class.
fn sites(folder: &Path) -> Result<Vec<Option<String>>> {
    let table = std::fs::read_to_string(folder.join("sites.tsv"))?;
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().ok_or("sites.tsv is empty")?.split('\t').collect();
    let at = |name: &str| columns.iter().position(|c| *c == name).ok_or_else(|| format!("no column {name}"));
    let (kind, class, method) = (at("kind")?, at("class")?, at("method")?);
    let (descriptor, bci) = (at("descriptor")?, at("bci")?);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let letter = match cells[kind] {
                "call" => "c",
                "return" => "r",
                "exit" => "x",
                other => return Err(format!("a site of kind {other}").into()),
            };
            let site =
                [letter, &cells[class].replace('.', "/"), cells[method], cells[descriptor], cells[bci]];
            Ok((!is_hidden(cells[class])).then(|| format!("0\t{}\n", site.join("\t"))))
        })
        .collect()
}

/// The file with this extension, as words of 32 bits: the main thread's, as no other was exported.
fn sequence(folder: &Path, extension: &str) -> Result<Vec<u32>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    let [file] = files.as_slice() else { return Err(format!("not one thread: {files:?}").into()) };
    Ok(std::fs::read(file)?.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// The columns of a sequence.
const SEQUENCE: &str = "thread\tkind\tclass\tmethod\tdescriptor\tbci\n";

/// The rows of a sequence, with the fault in its middle.
fn spoiled(mut tokens: Vec<&str>, fault: Option<Fault>) -> Result<String> {
    let middle = tokens.len() / 2;
    match fault {
        None => {}
        Some(Fault::Count) => drop(tokens.remove(middle)),
        Some(Fault::Row) => {
            let next = (middle + 1..tokens.len()).find(|n| tokens[*n] != tokens[middle]);
            tokens.swap(middle, next.ok_or("all tokens are the same")?);
        }
    }
    Ok(SEQUENCE.to_owned() + &tokens.concat())
}

/// A method of a block trace: the rows of its start, end and exceptional end, then of its blocks.
struct BlockRows([String; 3], Vec<String>);

/// By number of the method; `None` for methods of hidden classes.
fn block_rows(folder: &Path) -> Result<Vec<Option<BlockRows>>> {
    let mut table = csv::Reader::from_path(folder.join("methods.csv"))?;
    let columns = table.headers()?.clone();
    let at = |name: &str| columns.iter().position(|c| c == name).ok_or_else(|| format!("no column {name}"));
    let (number, class, name) = (at("method")?, at("class")?, at("name")?);
    let (descriptor, blocks) = (at("descriptor")?, at("blocks")?);
    let mut methods = Vec::new();
    for cells in table.records() {
        let cells = cells?;
        if cells[number] != *methods.len().to_string() {
            return Err(format!("methods.csv has no method {}", methods.len()).into());
        }
        let row = |kind: &str, bci: &str| {
            let [class, name, descriptor] = [&cells[class], &cells[name], &cells[descriptor]];
            format!("0\t{kind}\t{class}\t{name}\t{descriptor}\t{bci}\n")
        };
        methods.push((!is_hidden(&cells[class])).then(|| {
            let leaders = cells[blocks].split_whitespace();
            BlockRows(["s", "e", "x"].map(|kind| row(kind, "")), leaders.map(|bci| row("b", bci)).collect())
        }));
    }
    Ok(methods)
}

/// The events of the main thread's block trace (docs/block-trace-format.md). A mark, where events
/// may be missing, is an error.
fn blocks_table(folder: &Path, fault: Option<Fault>) -> Result<String> {
    let methods = block_rows(folder)?;
    let words = sequence(folder, "events")?;
    let name = *words.get(10).ok_or("a file without a header")? as usize;
    if words[2] != 4 << 16 | 1 || words[3] & 1 != 0 {
        return Err("the events are compressed, or do not have 32 bits".into());
    }
    let rest = words.get(12 + name.div_ceil(8) * 2..).ok_or("the header is cut off")?;
    let mut tokens: Vec<&str> = Vec::new();
    let (mut at, mut is_whole) = (0, false);
    while let Some(&word) = rest.get(at) {
        at += 1;
        let (number, block) = ((word >> 11 & 0x7_ffff) as usize, (word & 0x7ff) as usize);
        let method = |number: usize| methods.get(number).ok_or("an event names no method");
        match (word >> 30, word >> 29 & 1) {
            (0, 0) => {}
            (0, _) => {
                let more = (word & 0xff_ffff) as usize;
                let mark = rest.get(at..at + more).ok_or("a mark is cut off")?;
                match (word >> 24 & 0x1f, mark) {
                    (0, _) => is_whole = true,
                    // The end of a frame that an exception left, and an exception before the
                    // first bytecode, which has no start.
                    (6, [of, 0]) => tokens.extend(method(*of as usize)?.as_ref().map(|rows| &*rows.0[2])),
                    (6, [_, 3]) | (7 | 10 | 13, _) => {}
                    (kind, _) => {
                        let events = tokens.len();
                        return Err(format!("events may be missing after {events} ones: mark {kind}").into());
                    }
                }
                at += more;
            }
            (1, _) => {
                at += block;
                tokens.extend(method(number)?.as_ref().map(|rows| &*rows.0[0]));
            }
            (2, _) => tokens.extend(method(number)?.as_ref().map(|rows| &*rows.0[1])),
            _ => {
                if let Some(rows) = method(number)? {
                    tokens.push(rows.1.get(block).ok_or("an event names no block")?);
                }
            }
        }
    }
    if !is_whole {
        return Err("the block trace was cut off".into());
    }
    spoiled(tokens, fault)
}

/// The tokens of the main thread. A mark, where tokens may be missing, is an error.
fn trace_table(folder: &Path, fault: Option<Fault>) -> Result<String> {
    let sites = sites(folder)?;
    let words = sequence(folder, "trace")?;
    let (Some(0), Some(rest)) = (words.get(3).map(|flags| flags & 1), words.get(4..)) else {
        return Err("the tokens are compressed, or there are none".into());
    };
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&word) = rest.get(at) {
        at += 1;
        if word >> 31 == 0 {
            tokens.extend(sites.get(word as usize).ok_or("a token names no site")?.as_deref());
            continue;
        }
        at += (word >> 28 & 7) as usize;
        // Mark 11, a callee that a compiler removed, does not end the comparison: if the callee was
        // an application's method, its tokens are missing, and the comparison shows it.
        if let kind @ (6..=10 | 13) = word >> 20 & 0xff {
            return Err(format!("tokens may be missing after {} ones: mark {kind}", tokens.len()).into());
        }
    }
    spoiled(tokens, fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a block trace with a name of `Foo`, and words after it.
    fn folder(words: &[u32]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let methods = "method,class,name,descriptor,blocks\n0,Foo,main,\"(I,\"\"J)V\",0 7\n1,Foo$$Lambda/0x1,run,()V,0\n";
        std::fs::write(folder.path().join("methods.csv"), methods).unwrap();
        let mut all = vec![0x4c42_504a, 0x534b_434f, 0x0004_0001, 0, 9, 2, 0, 0, 0, 0, 3, 0, 0x006f_6f46, 0];
        all.extend(words);
        let bytes: Vec<u8> = all.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        std::fs::write(folder.path().join("t9.events"), bytes).unwrap();
        folder
    }

    const END: [u32; 3] = [0x2000_0002, 0, 0];

    #[test]
    fn a_block_trace_becomes_rows_without_hidden_classes() {
        // A load, start of 0 with a class, both blocks, a call of the hidden method, an exception.
        let events = [
            7,
            0x4000_0001,
            7,
            0xc000_0000,
            0x4000_0800,
            0xc000_0800,
            0x8000_0800,
            0xc000_0001,
            0x2600_0002,
            0,
            0,
        ];
        let folder = folder(&[&events[..], &END].concat());
        let rows = |fault| {
            let table = blocks_table(folder.path(), fault).unwrap();
            let rows = table.strip_prefix(SEQUENCE).unwrap().lines();
            rows.map(|row| row.replace("0\t", "").replace("\tFoo\tmain\t(I,\"J)V\t", "")).collect::<Vec<_>>()
        };
        assert_eq!(rows(None), ["s", "b0", "b7", "x"]);
        assert_eq!(rows(Some(Fault::Count)), ["s", "b0", "x"]);
        assert_eq!(rows(Some(Fault::Row)), ["s", "b0", "x", "b7"]);
    }

    #[test]
    fn a_block_trace_that_is_not_exact_is_refused() {
        let error = |words: &[u32]| blocks_table(folder(words).path(), None).unwrap_err().to_string();
        assert_eq!(error(&[0xc000_0000]), "the block trace was cut off");
        assert_eq!(
            error(&[&[0xc000_0000, 0x2300_0001, 0], &END[..]].concat()),
            "events may be missing after 1 ones: mark 3"
        );
        assert_eq!(error(&[&[0xc000_0002], &END[..]].concat()), "an event names no block");
    }
}
