// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Cobertura's report (`coverage-04.dtd`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use jportal_analyses::blocks::State;
use jportal_analyses::coverage::{ClassCoverage, Coverage, Detail, MethodCoverage, WayCoverage};

use super::common::{
    Lines, Xml, add_lines, branches, covered_and_missed, detail, name_and_descriptor, package, remarks,
    source_path,
};
use crate::Error;

/// How the file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoberturaOptions<'a> {
    /// Directories of source files.
    pub sources: &'a [&'a str],
    /// When the report was made, in milliseconds since 1970.
    pub timestamp: u64,
    /// The version of the writing program.
    pub version: &'a str,
}

const DOCTYPE: &str = r#"coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd""#;

/// Covered and valid items, and complexity. Unknown items are not valid.
#[derive(Clone, Copy, Debug, Default)]
struct RateSums {
    /// Lines covered, and lines.
    lines: (u64, u64),
    /// Ways covered, and ways.
    branches: (u64, u64),
    /// Sum of the cyclomatic complexity of the methods.
    complexity: u64,
    methods: u64,
}

impl RateSums {
    const fn add(&mut self, other: &Self) {
        self.lines = (self.lines.0 + other.lines.0, self.lines.1 + other.lines.1);
        self.branches = (self.branches.0 + other.branches.0, self.branches.1 + other.branches.1);
        self.complexity += other.complexity;
        self.methods += other.methods;
    }
    fn add_lines(&mut self, lines: &Lines) {
        for line in lines.values() {
            self.lines.0 += u64::from(line.state == State::Executed);
            self.lines.1 += u64::from(line.state != State::Unknown);
            self.branches.0 += line.branches.0;
            self.branches.1 += line.branches.0 + line.branches.1;
        }
    }
    /// `line-rate`, `branch-rate` and `complexity`, the mean of the methods.
    fn texts(&self) -> [String; 3] {
        let mean = if self.methods == 0 { 0.0 } else { self.complexity as f64 / self.methods as f64 };
        [rate(self.lines), rate(self.branches), format!("{mean:.2}")]
    }
}

/// A share; 1 of nothing.
fn rate((covered, valid): (u64, u64)) -> String {
    if valid == 0 { "1.0".to_owned() } else { format!("{:.4}", covered as f64 / valid as f64) }
}

fn rates(texts: &[String; 3]) -> [(&str, &str); 3] {
    [("line-rate", &texts[0]), ("branch-rate", &texts[1]), ("complexity", &texts[2])]
}

/// Cyclomatic complexity: 1, and for each branch one less than it has ways.
fn complexity(detail: &Detail) -> u64 {
    1 + branches(detail).map(|ways| ways.len().saturating_sub(1) as u64).sum::<u64>()
}

/// Writes Cobertura's report. Unknown lines and ways are left out, and are not in the rates. A
/// class without a source file has its own name as file name.
///
/// # Errors
/// If the coverage has no counts of lines, or `out` fails.
pub fn write_cobertura(
    coverage: &Coverage,
    options: CoberturaOptions<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut packages: BTreeMap<String, Vec<(&ClassCoverage, Lines, RateSums)>> = BTreeMap::new();
    let mut total = RateSums::default();
    for class in &coverage.classes {
        let (mut lines, mut sums) = (Lines::new(), RateSums::default());
        for method in &class.methods {
            let detail = detail(class, method)?;
            add_lines(&mut lines, detail);
            sums.complexity += complexity(detail);
            sums.methods += 1;
        }
        sums.add_lines(&lines);
        total.add(&sums);
        packages.entry(package(&class.class)).or_default().push((class, lines, sums));
    }
    let mut xml = Xml::new(out, DOCTYPE, &remarks(coverage))?;
    begin_report(&mut xml, &total, options)?;
    for (name, classes) in &packages {
        let mut sums = RateSums::default();
        classes.iter().for_each(|(.., of)| sums.add(of));
        let (name, texts) = (name.replace('/', "."), sums.texts());
        xml.begin("package", &[&[("name", &*name)][..], &rates(&texts)].concat())?;
        xml.begin("classes", &[])?;
        for (class, lines, sums) in classes {
            write_class(&mut xml, class, lines, sums)?;
        }
        xml.end("classes")?;
        xml.end("package")?;
    }
    xml.end("packages")?;
    xml.end("coverage")?;
    xml.finish()?;
    Ok(())
}

fn begin_report(xml: &mut Xml<'_>, total: &RateSums, options: CoberturaOptions<'_>) -> io::Result<()> {
    let texts = total.texts();
    let numbers = [total.lines.0, total.lines.1, total.branches.0, total.branches.1, options.timestamp];
    let [lines, all_lines, ways, all_ways, timestamp] = numbers.map(|n| n.to_string());
    let counts = [
        ("lines-covered", &*lines),
        ("lines-valid", &all_lines),
        ("branches-covered", &ways),
        ("branches-valid", &all_ways),
        ("version", options.version),
        ("timestamp", &timestamp),
    ];
    xml.begin("coverage", &[&rates(&texts)[..], &counts].concat())?;
    if !options.sources.is_empty() {
        xml.begin("sources", &[])?;
        for source in options.sources {
            xml.text("source", source)?;
        }
        xml.end("sources")?;
    }
    xml.begin("packages", &[])
}

fn write_class(
    xml: &mut Xml<'_>,
    class: &ClassCoverage,
    lines: &Lines,
    sums: &RateSums,
) -> Result<(), Error> {
    let file = source_path(class).unwrap_or_else(|| class.class.replace('.', "/"));
    let texts = sums.texts();
    let names = [("name", &*class.class), ("filename", &file)];
    xml.begin("class", &[&names[..], &rates(&texts)].concat())?;
    xml.begin("methods", &[])?;
    for method in &class.methods {
        let detail = detail(class, method)?;
        if detail.state != State::Unknown {
            write_method(xml, method, detail)?;
        }
    }
    xml.end("methods")?;
    write_lines(xml, lines)?;
    xml.end("class")?;
    Ok(())
}

fn write_method(xml: &mut Xml<'_>, method: &MethodCoverage, detail: &Detail) -> io::Result<()> {
    let (mut lines, mut sums) = (Lines::new(), RateSums::default());
    add_lines(&mut lines, detail);
    sums.add_lines(&lines);
    (sums.complexity, sums.methods) = (complexity(detail), 1);
    let (name, descriptor) = name_and_descriptor(&method.name);
    let texts = sums.texts();
    let names = [("name", name), ("signature", descriptor)];
    xml.begin("method", &[&names[..], &rates(&texts)].concat())?;
    write_lines(xml, &lines)?;
    xml.end("method")
}

fn write_lines(xml: &mut Xml<'_>, lines: &Lines) -> io::Result<()> {
    xml.begin("lines", &[])?;
    for (number, line) in lines.iter().filter(|(_, line)| line.state != State::Unknown) {
        let (number, hits) = (number.to_string(), line.times.to_string());
        let attributes = [("number", &*number), ("hits", &hits)];
        let known: Vec<_> = line.ways.iter().filter(|ways| covered_and_missed(ways) != (0, 0)).collect();
        if known.is_empty() {
            xml.empty("line", &[&attributes[..], &[("branch", "false")]].concat())?;
            continue;
        }
        let all = known.iter().fold((0, 0), |(c, m), ways| {
            let (covered, missed) = covered_and_missed(ways);
            (c + covered, m + missed)
        });
        let coverage = format!("{} ({}/{})", percent(all), all.0, all.0 + all.1);
        let branch = [("branch", "true"), ("condition-coverage", &*coverage)];
        xml.begin("line", &[&attributes[..], &branch].concat())?;
        xml.begin("conditions", &[])?;
        for (number, ways) in known.iter().enumerate() {
            write_condition(xml, number, ways)?;
        }
        xml.end("conditions")?;
        xml.end("line")?;
    }
    xml.end("lines")
}

fn write_condition(xml: &mut Xml<'_>, number: usize, ways: &[WayCoverage]) -> io::Result<()> {
    let (number, coverage) = (number.to_string(), percent(covered_and_missed(ways)));
    // A switch of two ways is a jump to readers of the report.
    let kind = if ways.len() > 2 { "switch" } else { "jump" };
    xml.empty("condition", &[("number", &number), ("type", kind), ("coverage", &coverage)])
}

/// A whole percentage, as the format has it.
fn percent((covered, missed): (u64, u64)) -> String {
    let share = (covered * 100).checked_div(covered + missed);
    format!("{}%", share.unwrap_or(100))
}
