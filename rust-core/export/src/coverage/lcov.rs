// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! LCOV's trace files (`geninfo(1)`, section "Files").

use std::collections::BTreeMap;
use std::io::Write;

use jportal_analyses::blocks::State;
use jportal_analyses::coverage::{Coverage, Detail, WayCoverage};
use jportal_plain::line;

use super::common::{Lines, add_lines, detail, remarks, source_path};
use crate::Error;

/// How the file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct LcovOptions<'a> {
    /// The name of the test (`TN`); letters, digits and `_`, other characters become `_`.
    pub test: &'a str,
    /// What precedes the path of a source file (`com/example/Foo.java`), such as
    /// `src/main/java/`.
    pub prefix: &'a str,
}

/// A function of a source file.
struct SourceFunction {
    line: u16,
    name: String,
    times: u64,
}

/// A source file.
#[derive(Default)]
struct File {
    functions: Vec<SourceFunction>,
    /// By class and method. Those of several loaders are added.
    methods: BTreeMap<(String, String), Lines>,
}

/// Writes an LCOV trace file: functions (`FN`, `FNDA`), branch ways (`BRDA`) and lines (`DA`).
///
/// Lines starting with `#` are comments. Functions, ways and lines that are unknown are left out.
/// A way of a branch that was never reached has `-`. Classes without a source file, and methods
/// without lines, are left out; a comment counts them.
///
/// # Errors
/// If the coverage has no counts of lines, or `out` fails.
pub fn write_lcov(coverage: &Coverage, options: LcovOptions<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    let (mut without_file, mut without_lines) = (0, 0);
    for class in &coverage.classes {
        let Some(path) = source_path(class) else {
            without_file += 1;
            continue;
        };
        let file = files.entry(path).or_default();
        for method in &class.methods {
            let detail = detail(class, method)?;
            let Some(first) = detail.lines.first() else {
                without_lines += 1;
                continue;
            };
            if detail.state != State::Unknown {
                let name = format!("{}.{}", class.class, method.name);
                file.functions.push(SourceFunction { line: first.line, name, times: times(detail) });
            }
            file.add((class.class.clone(), method.name.clone()), detail);
        }
    }
    let mut remarks = remarks(coverage);
    for (n, what) in
        [(without_file, "Classes without a source file"), (without_lines, "Methods without lines")]
    {
        if n > 0 {
            remarks.push(format!("{what}, which are left out: {n}."));
        }
    }
    for remark in remarks {
        writeln!(out, "# {remark}")?;
    }
    let test: String = options.test.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    for (path, file) in files {
        writeln!(out, "TN:{test}\nSF:{}{}", line(options.prefix), line(&path))?;
        file.write(out)?;
        writeln!(out, "end_of_record")?;
    }
    out.flush()?;
    Ok(())
}

/// How often a method was entered. One that was executed without a call that was seen was entered
/// at least once.
fn times(detail: &Detail) -> u64 {
    detail.entries.activations().max(u64::from(detail.state == State::Executed))
}

impl File {
    fn add(&mut self, key: (String, String), detail: &Detail) {
        let mut lines = Lines::new();
        add_lines(&mut lines, detail);
        match self.methods.get_mut(&key) {
            None => drop(self.methods.insert(key, lines)),
            Some(known) => {
                for (number, line) in lines {
                    let times = known.get(&number).map_or(0, |l| l.times) + line.times;
                    let into = known.entry(number).or_insert_with(|| line.clone());
                    into.state = into.state.or(line.state);
                    into.times = times;
                    into.ways = added(std::mem::take(&mut into.ways), &line.ways);
                }
            }
        }
    }
    fn write(&self, out: &mut dyn Write) -> Result<(), Error> {
        self.write_functions(out)?;
        let mut lines: BTreeMap<u16, (State, u64)> = BTreeMap::new();
        let mut branches = Vec::new();
        for (number, line) in self.methods.values().flatten() {
            let (state, times) = lines.entry(*number).or_insert((State::Missed, 0));
            *state = state.or(line.state);
            *times = line.times.max(*times);
            branches.extend(line.ways.iter().map(|ways| (*number, ways)));
        }
        branches.sort_by_key(|(number, _)| *number);
        let (mut found, mut hit) = (0, 0);
        for (block, (number, ways)) in branches.into_iter().enumerate() {
            let reached = ways.iter().any(|way| way.times.total() > 0);
            for (way, of) in ways.iter().enumerate().filter(|(_, w)| w.state != State::Unknown) {
                let taken = if reached { of.times.total().to_string() } else { "-".to_owned() };
                writeln!(out, "BRDA:{number},{block},{way},{taken}")?;
                found += 1;
                hit += u64::from(of.state == State::Executed);
            }
        }
        writeln!(out, "BRF:{found}\nBRH:{hit}")?;
        let known: Vec<_> = lines.into_iter().filter(|(_, (state, _))| *state != State::Unknown).collect();
        for (number, (_, times)) in &known {
            writeln!(out, "DA:{number},{times}")?;
        }
        let hit = known.iter().filter(|(_, (_, times))| *times > 0).count();
        writeln!(out, "LF:{}\nLH:{hit}", known.len())?;
        Ok(())
    }
    fn write_functions(&self, out: &mut dyn Write) -> Result<(), Error> {
        let mut functions: BTreeMap<(u16, &str), u64> = BTreeMap::new();
        for function in &self.functions {
            *functions.entry((function.line, &function.name)).or_default() += function.times;
        }
        for (number, name) in functions.keys() {
            writeln!(out, "FN:{number},{}", line(name))?;
        }
        for ((_, name), times) in &functions {
            writeln!(out, "FNDA:{times},{}", line(name))?;
        }
        let hit = functions.values().filter(|times| **times > 0).count();
        writeln!(out, "FNF:{}\nFNH:{hit}", functions.len())?;
        Ok(())
    }
}

/// The branches of a line in the code of two loaders: added if the code is equal, else both.
fn added(mut known: Vec<Vec<WayCoverage>>, other: &[Vec<WayCoverage>]) -> Vec<Vec<WayCoverage>> {
    let place = |way: &WayCoverage| (way.code, way.from, way.to);
    let is_same = |a: &[WayCoverage], b: &[WayCoverage]| a.iter().map(place).eq(b.iter().map(place));
    for ways in other {
        match known.iter_mut().find(|k| is_same(k, ways)) {
            None => known.push(ways.clone()),
            Some(same) => {
                for (into, from) in same.iter_mut().zip(ways) {
                    into.times.merge(&from.times);
                    into.state = into.state.or(from.state);
                    into.perhaps_more |= from.perhaps_more;
                }
            }
        }
    }
    known
}
