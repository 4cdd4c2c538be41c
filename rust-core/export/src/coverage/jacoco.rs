// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! JaCoCo's XML report (`-//JACOCO//DTD Report 1.1//EN`, `report.dtd` in `org.jacoco.report`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use jportal_analyses::blocks::State;
use jportal_analyses::coverage::{ClassCoverage, Coverage, Detail, MethodCoverage, Ratio};

use super::common::{
    Lines, Xml, add_lines, branches, covered_and_missed, detail, name_and_descriptor, package, remarks,
};
use crate::Error;

/// How the file is written.
#[derive(Clone, Copy, Debug)]
pub struct JacocoOptions<'a> {
    /// The name of the report.
    pub name: &'a str,
}

impl Default for JacocoOptions<'_> {
    fn default() -> Self {
        Self { name: "JPortal" }
    }
}

const DOCTYPE: &str = r#"report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd""#;

/// Covered and missed items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    missed: u64,
    covered: u64,
}

impl Count {
    const fn of(ratio: &Ratio) -> Self {
        Self { missed: ratio.missed(), covered: ratio.executed.total() }
    }
    /// One item. An unknown one counts nowhere.
    fn one(state: State) -> Self {
        Self { missed: u64::from(state == State::Missed), covered: u64::from(state == State::Executed) }
    }
    const fn add(&mut self, other: Self) {
        self.missed += other.missed;
        self.covered += other.covered;
    }
}

/// JaCoCo's counters, as `ISourceNode` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    instructions: Count,
    branches: Count,
    lines: Count,
    complexity: Count,
    methods: Count,
    classes: Count,
}

impl Counters {
    fn of_method(method: &MethodCoverage, detail: &Detail) -> Self {
        let figures = &method.figures;
        Self {
            instructions: Count::of(&figures.bytecodes),
            branches: Count::of(&figures.branches),
            lines: Count::of(&figures.lines),
            complexity: complexity(detail),
            methods: Count::one(detail.state),
            classes: Count::default(),
        }
    }
    const fn add(&mut self, other: &Self) {
        self.instructions.add(other.instructions);
        self.branches.add(other.branches);
        self.lines.add(other.lines);
        self.complexity.add(other.complexity);
        self.methods.add(other.methods);
        self.classes.add(other.classes);
    }
    /// Writes the counters that have items, in JaCoCo's order.
    fn write(&self, xml: &mut Xml<'_>) -> io::Result<()> {
        for (name, count) in [
            ("INSTRUCTION", self.instructions),
            ("BRANCH", self.branches),
            ("LINE", self.lines),
            ("COMPLEXITY", self.complexity),
            ("METHOD", self.methods),
            ("CLASS", self.classes),
        ] {
            if count != Count::default() {
                let (missed, covered) = (count.missed.to_string(), count.covered.to_string());
                xml.empty("counter", &[("type", name), ("missed", &missed), ("covered", &covered)])?;
            }
        }
        Ok(())
    }
}

/// JaCoCo's complexity: paths that tests must take (`MethodCoverageImpl`): one for the method, and
/// for each branch one less than it has ways.
fn complexity(detail: &Detail) -> Count {
    let mut all = Count::one(detail.state);
    for ways in branches(detail) {
        let (covered, missed) = covered_and_missed(ways);
        if covered + missed > 1 {
            let done = covered.saturating_sub(1);
            all.add(Count { covered: done, missed: (covered + missed - 1).saturating_sub(done) });
        }
    }
    all
}

fn count_lines(lines: &Lines) -> Count {
    let mut all = Count::default();
    lines.values().for_each(|line| all.add(Count::one(line.state)));
    all
}

/// Writes JaCoCo's report. Unknown instructions, ways, lines, methods and classes are in no
/// counter, and unknown lines are left out.
///
/// # Errors
/// If the coverage has no counts of lines, or `out` fails.
pub fn write_jacoco(
    coverage: &Coverage,
    options: JacocoOptions<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut packages: BTreeMap<String, Vec<&ClassCoverage>> = BTreeMap::new();
    for class in &coverage.classes {
        packages.entry(package(&class.class)).or_default().push(class);
    }
    let mut xml = Xml::new(out, DOCTYPE, &remarks(coverage))?;
    xml.begin("report", &[("name", options.name)])?;
    let mut total = Counters::default();
    for (name, classes) in packages {
        xml.begin("package", &[("name", &name)])?;
        let counters = write_package(&mut xml, &classes)?;
        counters.write(&mut xml)?;
        xml.end("package")?;
        total.add(&counters);
    }
    total.write(&mut xml)?;
    xml.end("report")?;
    xml.finish()?;
    Ok(())
}

/// A package's counters are those of its source files, and of classes without one.
fn write_package(xml: &mut Xml<'_>, classes: &[&ClassCoverage]) -> Result<Counters, Error> {
    let mut files: BTreeMap<&str, (Counters, Lines)> = BTreeMap::new();
    let mut all = Counters::default();
    for class in classes {
        let counters = write_class(xml, class)?;
        if class.source_file.is_empty() {
            all.add(&counters);
            continue;
        }
        let (sum, of_file) = files.entry(&class.source_file).or_default();
        sum.add(&counters);
        for method in &class.methods {
            add_lines(of_file, detail(class, method)?);
        }
    }
    for (name, (counters, lines)) in files {
        let counters = Counters { lines: count_lines(&lines), ..counters };
        xml.begin("sourcefile", &[("name", name)])?;
        write_lines(xml, &lines)?;
        counters.write(xml)?;
        xml.end("sourcefile")?;
        all.add(&counters);
    }
    Ok(all)
}

fn write_lines(xml: &mut Xml<'_>, lines: &Lines) -> io::Result<()> {
    for (number, line) in lines.iter().filter(|(_, line)| line.state != State::Unknown) {
        let ((ci, mi), (cb, mb)) = (line.instructions, line.branches);
        let [nr, mi, ci, mb, cb] = [u64::from(*number), mi, ci, mb, cb].map(|n| n.to_string());
        xml.empty("line", &[("nr", &nr), ("mi", &mi), ("ci", &ci), ("mb", &mb), ("cb", &cb)])?;
    }
    Ok(())
}

fn write_class(xml: &mut Xml<'_>, class: &ClassCoverage) -> Result<Counters, Error> {
    let name = class.class.replace('.', "/");
    let attributes = [("name", &*name), ("sourcefilename", &class.source_file)];
    let known = if class.source_file.is_empty() { 1 } else { 2 };
    xml.begin("class", &attributes[..known])?;
    let (mut counters, mut lines) = (Counters::default(), Lines::new());
    for method in &class.methods {
        let detail = detail(class, method)?;
        let own = Counters::of_method(method, detail);
        write_method(xml, method, detail, &own)?;
        add_lines(&mut lines, detail);
        counters.add(&own);
    }
    // Methods may share lines.
    counters.lines = count_lines(&lines);
    counters.classes = Count::of(&class.units.classes);
    counters.write(xml)?;
    xml.end("class")?;
    Ok(counters)
}

fn write_method(
    xml: &mut Xml<'_>,
    method: &MethodCoverage,
    detail: &Detail,
    counters: &Counters,
) -> io::Result<()> {
    let (name, descriptor) = name_and_descriptor(&method.name);
    let line = detail.lines.first().map(|line| line.line.to_string());
    let mut attributes = vec![("name", name), ("desc", descriptor)];
    attributes.extend(line.as_deref().map(|line| ("line", line)));
    xml.begin("method", &attributes)?;
    counters.write(xml)?;
    xml.end("method")
}
