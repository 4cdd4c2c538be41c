// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares two sums over the main thread with those of the peer: the targets of call sites, and
//! the hottest methods.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use serde_json::Value;

use crate::peer::{ALL, Fault, is_hidden, list, method, number, sum, text};
use crate::recording::RecordedRun;
use crate::{Error, Result};

/// What a comparison of sums found.
#[derive(Debug, Default)]
pub struct SumsCompared {
    /// Sums that are equal.
    pub equal: u64,
    /// A line for each difference.
    pub differences: Vec<String>,
}

/// Least and most, as the peer knows a number.
#[derive(Clone, Copy, Debug, Default)]
struct PeerBounds(u64, u64);

impl PeerBounds {
    fn add(&mut self, other: Self) {
        *self = Self(self.0 + other.0, self.1 + other.1);
    }
    const fn has(self, number: u64) -> bool {
        self.0 <= number && number <= self.1
    }
}

type MethodCells = [String; 3];

/// A table of the peer: cells by the names of the columns.
struct PeerTable {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl PeerTable {
    fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)?;
        let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned).collect());
        Ok(Self { columns: lines.next().ok_or("a table without columns")?, rows: lines.collect() })
    }
    fn column(&self, name: &str) -> Result<usize> {
        let at = self.columns.iter().position(|column| column == name);
        at.ok_or_else(|| Error::from(format!("the peer has no column {name}")))
    }
    fn columns<const N: usize>(&self, names: [&str; N]) -> Result<[usize; N]> {
        let mut at = [0; N];
        for (at, name) in at.iter_mut().zip(names) {
            *at = self.column(name)?;
        }
        Ok(at)
    }
}

fn cells<const N: usize>(row: &[String], at: [usize; N]) -> [String; N] {
    at.map(|at| row[at].clone())
}

fn bounds(row: &[String], at: [usize; 2]) -> Result<PeerBounds> {
    let [least, most] = [row[at[0]].parse()?, row[at[1]].parse()?];
    Ok(PeerBounds(least, most))
}

/// What the peer says of calls.
struct PeerCalls {
    /// By caller, bci and callee. The bci is `?` where the log does not tell it.
    calls: BTreeMap<(MethodCells, String, MethodCells), PeerBounds>,
    /// All classes that it knows.
    classes: HashSet<String>,
}

impl PeerCalls {
    fn read(file: &Path) -> Result<Self> {
        let table = PeerTable::read(file)?;
        let caller = table.columns(["class", "method", "descriptor"])?;
        let callee = table.columns(["callee_class", "callee_method", "callee_descriptor"])?;
        let [bci, least, most] = table.columns(["bci", "least", "most"])?;
        let mut this = Self { calls: BTreeMap::new(), classes: HashSet::new() };
        for row in &table.rows {
            let (caller, callee) = (cells(row, caller), cells(row, callee));
            this.classes.extend([caller[0].clone(), callee[0].clone()]);
            let key = (caller, row[bci].clone(), callee);
            this.calls.entry(key).or_default().add(bounds(row, [least, most])?);
        }
        Ok(this)
    }
    /// The calls at a site. Those of unknown sites may be there.
    fn at(&self, caller: &MethodCells, bci: &str, callee: &MethodCells) -> PeerBounds {
        let of = |bci: &str| {
            self.calls.get(&(caller.clone(), bci.to_owned(), callee.clone())).copied().unwrap_or_default()
        };
        let (known, open) = (of(bci), of("?"));
        PeerBounds(known.0, known.1 + open.1)
    }
}

/// `report polymorphism` of the application's call sites beside the peer's calls (`--what calls`).
///
/// # Errors
/// If the report cannot be made, or the table cannot be read.
pub fn targets(recording: &RecordedRun, peer: &Path, fault: Option<Fault>) -> Result<SumsCompared> {
    let options = ["--thread", "main", "--classes", "app", "--top", ALL, "--json"];
    let report = recording.jportal(&["report", "polymorphism"], &recording.capture(), &options)?.json()?;
    compare_targets(&report, &PeerCalls::read(peer)?, fault)
}

fn compare_targets(report: &Value, peer: &PeerCalls, mut fault: Option<Fault>) -> Result<SumsCompared> {
    let mut compared = SumsCompared::default();
    for site in list(report, "sites")? {
        let caller = method(text(site, "caller")?)?;
        if is_hidden(&caller[0]) {
            continue;
        }
        let bci = number(site, "bci")?.to_string();
        let (mut known, mut is_closed) = (BTreeSet::new(), true);
        for target in list(site, "targets")? {
            let callee = target["method"].as_str().map(method).transpose()?;
            // The peer does not see the library's methods, nor those of hidden classes.
            let Some(callee) = callee.filter(|callee| peer.classes.contains(&callee[0])) else {
                is_closed = false;
                continue;
            };
            let mut calls = sum(&target["calls"]);
            match fault.take() {
                None => {}
                Some(Fault::Count) => calls += 1,
                Some(Fault::Row) => continue,
            }
            let bounds = peer.at(&caller, &bci, &callee);
            if bounds.has(calls) {
                compared.equal += 1;
            } else {
                let place = format!("{}@{bci} to {}", caller.join("."), callee.join("."));
                compared.differences.push(format!("{place}: {calls} calls, the peer has {bounds:?}"));
            }
            known.insert(callee);
        }
        // A library method that the site calls may call back, which the peer has at the same site.
        let of_site = peer.calls.iter().filter(|((from, at, _), _)| *from == caller && *at == bci);
        for ((.., callee), bounds) in of_site.filter(|_| is_closed) {
            if bounds.0 > 0 && !known.contains(callee) {
                let place = format!("{}@{bci}", caller.join("."));
                compared.differences.push(format!("{place} has no target {}", callee.join(".")));
            }
        }
    }
    Ok(compared)
}

/// The ten hottest methods of the application by `report hot-methods` beside the peer's tree.
///
/// # Errors
/// If the report cannot be made, or the table cannot be read.
pub fn top_ten(recording: &RecordedRun, peer: &Path, fault: Option<Fault>) -> Result<SumsCompared> {
    let options = ["--thread", "main", "--classes", "app", "--top", "10", "--json"];
    let report = recording.jportal(&["report", "hot-methods"], &recording.capture(), &options)?.json()?;
    let table = PeerTable::read(peer)?;
    let of = table.columns(["class", "method", "descriptor"])?;
    let begun = table.columns(["begun_least", "begun_most"])?;
    let mut methods: BTreeMap<MethodCells, PeerBounds> = BTreeMap::new();
    for row in &table.rows {
        methods.entry(cells(row, of)).or_default().add(bounds(row, begun)?);
    }
    compare_top(&report, &methods, fault)
}

fn compare_top(
    report: &Value,
    peer: &BTreeMap<MethodCells, PeerBounds>,
    fault: Option<Fault>,
) -> Result<SumsCompared> {
    let mut compared = SumsCompared::default();
    let mut rows: Vec<(MethodCells, u64)> = Vec::new();
    for row in list(report, "methods")? {
        rows.push((method(text(row, "method")?)?, sum(&row["bytecodes"])));
    }
    match fault {
        None => {}
        Some(Fault::Count) => rows.first_mut().ok_or("no hot method")?.1 += 1,
        Some(Fault::Row) => drop(rows.remove(0)),
    }
    let last = rows.iter().map(|row| row.1).min().ok_or("no hot method")?;
    for (of, bytecodes) in rows.iter().filter(|(of, _)| !is_hidden(&of[0])) {
        let bounds = peer.get(of).copied().unwrap_or_default();
        if bounds.has(*bytecodes) {
            compared.equal += 1;
        } else {
            compared.differences.push(format!("{}: {bytecodes}, the peer has {bounds:?}", of.join(".")));
        }
    }
    for (of, bounds) in peer {
        if bounds.0 > last && !rows.iter().any(|row| row.0 == *of) {
            compared.differences.push(format!("{}: {bounds:?} is missing among the first", of.join(".")));
        }
    }
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cells(class: &str, name: &str) -> MethodCells {
        [class, name, "()I"].map(str::to_owned)
    }
    fn tally(n: u64) -> Value {
        json!({"decoded": n, "projected": 0, "recovered": 0})
    }
    /// `Main.main` calls `A.f` and `B.f` at 7, and once more at a place that is not known.
    fn peer() -> PeerCalls {
        let mut calls = BTreeMap::new();
        for (bci, class, n) in [("7", "A", 3), ("7", "B", 4), ("?", "B", 1)] {
            let least = if bci == "?" { 0 } else { n };
            calls.insert((cells("Main", "main"), bci.to_owned(), cells(class, "f")), PeerBounds(least, n));
        }
        PeerCalls { calls, classes: ["Main", "A", "B"].map(str::to_owned).into() }
    }
    fn site(targets: &[(&str, u64)]) -> Value {
        let target = |(of, n): &(&str, u64)| json!({"method": of, "calls": tally(*n)});
        let targets: Vec<Value> = targets.iter().map(target).collect();
        json!({"sites": [{"caller": "Main.main()I", "bci": 7, "targets": targets}]})
    }

    #[test]
    fn targets_are_within_bounds() {
        let found = |targets: &[(&str, u64)], fault| {
            let compared = compare_targets(&site(targets), &peer(), fault).unwrap();
            (compared.equal, compared.differences.len())
        };
        let right = [("A.f()I", 3), ("B.f()I", 5)];
        assert_eq!(found(&right, None), (2, 0), "the one of the unknown site may be here");
        assert_eq!(found(&[("A.f()I", 3), ("B.f()I", 6)], None), (1, 1));
        assert_eq!(found(&[("A.f()I", 3)], None), (1, 1), "a target is missing");
        assert_eq!(found(&[("A.f()I", 3), ("java.L.f()I", 9)], None), (1, 0), "the library may call back");
        assert_eq!(found(&right, Some(Fault::Count)), (1, 1));
        assert_eq!(found(&right, Some(Fault::Row)), (1, 1));
    }

    #[test]
    fn the_hottest_methods_are_the_peers() {
        let peer = BTreeMap::from([
            (cells("A", "f"), PeerBounds(90, 90)),
            (cells("A", "g"), PeerBounds(40, 44)),
            (cells("A", "h"), PeerBounds(12, 12)),
        ]);
        let found = |rows: &[(&str, u64)], fault| {
            let row = |(of, n): &(&str, u64)| json!({"method": of, "bytecodes": tally(*n)});
            let report = json!({"methods": rows.iter().map(row).collect::<Vec<_>>()});
            let compared = compare_top(&report, &peer, fault).unwrap();
            (compared.equal, compared.differences.len())
        };
        let right = [("A.f()I", 90), ("A.g()I", 42)];
        assert_eq!(found(&right, None), (2, 0));
        assert_eq!(found(&[("A.f()I", 90), ("A.h()I", 12)], None), (2, 1), "g is hotter");
        assert_eq!(found(&[("A.f()I", 90), ("A.g()I", 45)], None), (1, 1));
        assert_eq!(found(&right, Some(Fault::Count)), (1, 1));
        assert_eq!(found(&right, Some(Fault::Row)), (1, 1));
    }
}
