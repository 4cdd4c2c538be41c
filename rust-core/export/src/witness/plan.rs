// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which sites are logged.

use std::io::{self, BufRead};

use hashbrown::HashSet;
use jportal_units::Bci;

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read the plan: {0}")]
    Read(#[from] io::Error),
    /// A line is no row of a plan.
    #[error("line {line} of the plan: {why}; make it with jportal-baselines.jar plan")]
    Row {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// Who writes the token of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoggedBy {
    /// Nobody.
    Nobody,
    /// The site, before it is executed.
    Site,
    /// The method that it calls, as a callback: the site has several targets.
    Callee,
}

/// A call site or return site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedSite {
    pub(super) id: u32,
    pub(super) is_call: bool,
    pub(super) bci: Bci,
    pub(super) logged: LoggedBy,
    /// Whether callees are watched: methods of the application log that they were called.
    pub(super) is_checked: bool,
    /// Numbers of the methods that a call may reach without library code in between.
    pub(super) targets: Vec<u32>,
}

impl PlannedSite {
    /// Whether a call may reach library code, or a receiver of an unknown class.
    pub(super) fn may_leave(&self) -> bool {
        self.is_checked && self.logged != LoggedBy::Callee
    }
}

/// A method of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedMethod {
    /// Internal name of the class.
    pub(super) class: String,
    pub(super) name: String,
    pub(super) descriptor: String,
    /// Number of the exceptional exit. It also stands for the method.
    pub(super) exit: u32,
    /// By bci.
    pub(super) sites: Vec<PlannedSite>,
}

/// Which sites of a program are logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub(super) methods: Vec<PlannedMethod>,
}

const COLUMNS: [&str; 9] =
    ["id", "kind", "class", "method", "descriptor", "bci", "logged", "checked", "targets"];

impl Plan {
    /// Reads a plan: `java -jar jportal-baselines.jar plan` writes it.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn read(from: impl BufRead) -> Result<Self, PlanError> {
        let mut lines = from.lines();
        let head = lines.next().transpose()?.unwrap_or_default();
        let names: Vec<&str> = head.split('\t').collect();
        let mut at = [0; COLUMNS.len()];
        for (at, name) in at.iter_mut().zip(COLUMNS) {
            let column = names.iter().position(|n| *n == name);
            *at = column.ok_or_else(|| bad(1, format!("there is no column {name:?}")))?;
        }
        let mut plan = Self::default();
        let mut sites = Vec::new();
        let (mut numbers, mut named) = (HashSet::new(), HashSet::new());
        let mut of = None;
        for (line, text) in (2..).zip(lines) {
            let text = text?;
            let cells: Vec<&str> = text.split('\t').collect();
            let cells: Option<Vec<&str>> = at.iter().map(|at| cells.get(*at).copied()).collect();
            let cells: Option<[&str; 9]> = cells.and_then(|cells| cells.try_into().ok());
            let [id, kind, class, name, descriptor, bci, logged, checked, targets] =
                cells.ok_or_else(|| bad(line, "a cell is missing".to_owned()))?;
            let number = |text: &str| text.parse().map_err(|_| bad(line, format!("{text:?} is no number")));
            let id: u32 = number(id)?;
            if !numbers.insert(id) {
                return Err(bad(line, format!("an earlier line has the number {id}")));
            }
            let method = [class, name, descriptor].map(str::to_owned);
            if of.get_or_insert_with(|| method.clone()) != &method {
                return Err(bad(line, "the method before it has no row of kind exit".to_owned()));
            }
            if kind == "exit" {
                of = None;
                if !named.insert(method) {
                    return Err(bad(line, format!("{class}.{name}{descriptor} is there twice")));
                }
                plan.methods.push(PlannedMethod {
                    class: class.to_owned(),
                    name: name.to_owned(),
                    descriptor: descriptor.to_owned(),
                    exit: id,
                    sites: std::mem::take(&mut sites),
                });
                continue;
            }
            sites.push(PlannedSite {
                id,
                is_call: kind == "call",
                bci: Bci(bci.parse().map_err(|_| bad(line, format!("{bci:?} is no bci")))?),
                logged: match logged {
                    "0" => LoggedBy::Nobody,
                    "1" => LoggedBy::Site,
                    "2" => LoggedBy::Callee,
                    _ => return Err(bad(line, format!("{logged:?} is not 0, 1 or 2"))),
                },
                is_checked: checked == "1",
                targets: targets.split_whitespace().map(number).collect::<Result<_, _>>()?,
            });
        }
        if !sites.is_empty() {
            return Err(bad(plan.lines() + 1, "the last method has no row of kind exit".to_owned()));
        }
        plan.check_targets()?;
        Ok(plan)
    }
    /// Number of lines up to the end of the last method.
    fn lines(&self) -> usize {
        1 + self.methods.iter().map(|m| m.sites.len() + 1).sum::<usize>()
    }
    fn check_targets(&self) -> Result<(), PlanError> {
        let known: HashSet<u32> = self.methods.iter().map(|m| m.exit).collect();
        let mut line = 1;
        for m in &self.methods {
            for (number, site) in (line + 1..).zip(&m.sites) {
                if let Some(target) = site.targets.iter().find(|target| !known.contains(*target)) {
                    return Err(bad(number, format!("there is no method {target}")));
                }
            }
            line += m.sites.len() + 1;
        }
        Ok(())
    }
}

const fn bad(line: usize, why: String) -> PlanError {
    PlanError::Row { line, why }
}
