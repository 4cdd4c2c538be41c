// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report `blocks`: how it is made from what is known of each method.

use jportal_bytecode::{Blocks as Leaders, Method};
use jportal_flow::Tally;
use jportal_units::Bci;

use super::facts::OfLine;
use super::instruction::instruction;
use super::planes::Throw;
use super::report::{
    BlockCount, Blocks, BlocksOptions, BranchWay, BytecodeCount, ClassBlocks, ExceptionWay, Level, LineCount,
    MethodBlocks,
};
use super::rows::{ClassRows, MethodVariants};
use super::{CountsAnalysis, Facts, Parts};
use crate::names::Version;

/// How the counts of a report may be incomplete.
#[derive(Clone, Copy)]
struct Doubt {
    /// Any method may have run unseen.
    blind: bool,
}

impl Doubt {
    const fn exact(self, times: &Tally, perhaps_more: bool) -> bool {
        !self.blind && !perhaps_more && times.projected + times.recovered == 0
    }
}

impl CountsAnalysis {
    /// The report over the methods that `wanted` accepts.
    pub fn blocks(&self, options: BlocksOptions, wanted: impl Fn(&Method) -> bool) -> Blocks {
        let doubt = Doubt { blind: self.hidden.inexact.is_blind() };
        let mut classes: Vec<ClassBlocks> =
            self.rows(wanted).into_iter().map(|rows| class_of(rows, options, doubt)).collect();
        let methods = || classes.iter().flat_map(|c| &c.methods);
        let (mut bytecodes, mut executions) = (Tally::default(), Tally::default());
        methods().for_each(|m| bytecodes.merge(&m.bytecodes));
        methods().flat_map(|m| &m.blocks).for_each(|b| executions.merge(&b.executions));
        let exact = !self.hidden.inexact.is_lossy() && self.table.repeated == 0 && methods().all(|m| m.exact);
        let methods_left_out = options.top.map_or(0, |top| keep_top(&mut classes, top));
        classes.retain(|class| !class.methods.is_empty());
        Blocks {
            exact,
            inexact: self.hidden.inexact.clone(),
            repeated: self.table.repeated,
            bytecodes,
            executions,
            methods_left_out,
            classes,
        }
    }
}

/// Keeps the `top` methods with the most bytecodes. Returns the number of the others.
fn keep_top(classes: &mut [ClassBlocks], top: usize) -> usize {
    let mut all: Vec<(u64, usize, usize)> = Vec::new();
    for (c, class) in classes.iter().enumerate() {
        let of = class.methods.iter().enumerate();
        all.extend(of.map(|(m, method)| (u64::MAX - method.bytecodes.total(), c, m)));
    }
    all.sort_unstable();
    let mut rest = all.split_off(top.min(all.len()));
    // From the back, so that the places stay valid.
    rest.sort_unstable_by_key(|(_, c, m)| std::cmp::Reverse((*c, *m)));
    for (_, c, m) in &rest {
        classes[*c].methods.remove(*m);
    }
    rest.len()
}

fn class_of(rows: ClassRows<'_>, options: BlocksOptions, doubt: Doubt) -> ClassBlocks {
    let ClassRows { class, loader, source_file, rows, .. } = rows;
    let mut methods = Vec::new();
    for MethodVariants { name, version, variants } in rows {
        let of = variants.len() as u32;
        for (number, (parts, facts)) in (1..).zip(&variants) {
            if !options.idle && facts.is_idle() {
                continue;
            }
            let variant = (of > 1).then_some(Version { number, of });
            let counts = VariantCounts { parts, facts, doubt };
            methods.push(MethodBlocks { variant, ..counts.method((&name, version), options.level) });
        }
    }
    ClassBlocks { class, loader, source_file, methods }
}

/// One method of the report.
struct VariantCounts<'a> {
    parts: &'a Parts<'a>,
    facts: &'a Facts,
    doubt: Doubt,
}

impl VariantCounts<'_> {
    fn method(&self, (name, version): (&str, Option<Version>), level: Level) -> MethodBlocks {
        let leaders = Leaders::of(self.parts.method);
        let (bytecodes, perhaps_more) = (self.facts.bytecodes(), self.facts.has_more());
        let ways = self.ways();
        let exceptions = self.exceptions();
        let whole = ways.iter().all(|w| w.exact) && exceptions.iter().all(|e| e.exact);
        let leaders = leaders.map(|l| l.leaders().to_vec());
        MethodBlocks {
            name: name.to_owned(),
            version,
            variant: None,
            entries: self.facts.entries,
            bytecodes,
            exact: whole && self.doubt.exact(&bytecodes, perhaps_more),
            perhaps_more,
            malformed: leaders.is_err(),
            blocks: leaders.as_ref().map_or_else(|_| Vec::new(), |l| self.blocks(l)),
            ways,
            exceptions,
            lines: (level >= Level::Lines).then(|| self.lines()),
            code: (level >= Level::Bytecodes).then(|| self.code(leaders.as_deref().unwrap_or_default())),
        }
    }
    fn line(&self, bci: Bci) -> Option<u16> {
        self.parts.method.line_at(bci)
    }
    fn blocks(&self, leaders: &[Bci]) -> Vec<BlockCount> {
        let starts = &self.parts.shape.starts;
        let firsts: Vec<usize> = leaders.iter().filter_map(|l| self.parts.number(*l)).collect();
        let ends = firsts.iter().skip(1).copied().chain([starts.len()]);
        let block = |(first, end): (usize, usize)| {
            let code = starts.get(first..end)?;
            let (executions, perhaps_more) = self.facts.at(first);
            let lines = code.iter().filter_map(|bci| self.line(*bci));
            Some(BlockCount {
                bci: code.first()?.get(),
                end: code.last()?.get(),
                bytecodes: code.len() as u32,
                lines: lines.clone().min().zip(lines.max()),
                executions,
                exact: self.doubt.exact(&executions, perhaps_more),
                perhaps_more,
            })
        };
        firsts.iter().copied().zip(ends).filter_map(block).collect()
    }
    fn ways(&self) -> Vec<BranchWay> {
        let branches = self.parts.shape.branches.iter();
        let ways = branches.flat_map(|b| (b.slot..).zip(&b.successors).map(|(slot, to)| (b.bci, slot, *to)));
        ways.map(|(bci, slot, to)| {
            let (times, perhaps_more) = self.facts.way(slot);
            let exact = self.doubt.exact(&times, perhaps_more);
            BranchWay { bci: bci.get(), to: to.get(), line: self.line(bci), times, exact, perhaps_more }
        })
        .collect()
    }
    fn exceptions(&self) -> Vec<ExceptionWay> {
        let way = |(way, times): (&Throw, &Tally)| {
            let number = way.from.and_then(|bci| self.parts.number(bci));
            let perhaps_more = self.facts.may_throw_more(number);
            ExceptionWay {
                from: way.from.map(Bci::get),
                to: way.to.map(Bci::get),
                line: way.from.and_then(|bci| self.line(bci)),
                times: *times,
                exact: self.doubt.exact(times, perhaps_more),
                perhaps_more,
            }
        };
        self.facts.throws.iter().map(way).collect()
    }
    fn lines(&self) -> Vec<LineCount> {
        let line = |(line, of): (u16, OfLine)| LineCount {
            line,
            times: of.times,
            entered: of.entered,
            executed: of.bytecodes.executed.total(),
            bytecodes: of.bytecodes.present,
            exact: self.doubt.exact(&of.times, of.perhaps_more),
            perhaps_more: of.perhaps_more,
        };
        self.facts.lines(self.parts).into_iter().map(line).collect()
    }
    fn code(&self, leaders: &[Bci]) -> Vec<BytecodeCount> {
        let starts = self.parts.shape.starts.iter().enumerate();
        starts
            .map(|(number, bci)| {
                let (executions, perhaps_more) = self.facts.at(number);
                BytecodeCount {
                    bci: bci.get(),
                    instruction: instruction(self.parts.method, *bci),
                    line: self.line(*bci),
                    leader: leaders.binary_search(bci).is_ok(),
                    executions,
                    exact: self.doubt.exact(&executions, perhaps_more),
                    perhaps_more,
                }
            })
            .collect()
    }
}
