// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What JaCoCo says of a run: the lines that `cli/java/JacocoListing.java` prints.
//!
//! Fields are separated by tabs:
//!
//! ```text
//! jacoco  VERSION
//! class   NAME  ran | silent | other | synthetic | failed  REASON
//! method  NAME  DESCRIPTOR  COUNTERS  OPERATIONS  FILTERS
//! ```
//! *ran*: the .exec file has probes of this class; *silent*: it has none, so nothing of it ran; *other*: it has probes of a
//! class of that name with other bytes; *synthetic*: made up by the Java compiler, which JaCoCo leaves out; *failed*: JaCoCo
//! cannot analyse it. COUNTERS are instructions covered and
//! present, branches covered and present, or `-` where JaCoCo's report leaves the method out. Instructions are numbered
//! from 0 in each method. OPERATIONS are, separated by blanks and in JaCoCo's order: `N` that many instructions with
//! nothing particular; `L` what follows is not reached from the instruction before; `Pp` a probe between two
//! instructions; `Rp` a return or throw behind a probe; `Jt` a jump to instruction t; `Kt:p` the same through a probe; `S`
//! a switch, followed by its distinct targets, `tb:t` or `tb:t:p` for branch b to t. A probe is its number and `+`
//! when it was hit, else `-`. OPERATIONS is `inlined` where JaCoCo rewrites subroutines. FILTERS are `-` or `iA:B`
//! (leave out A to B), `mA:B` (count as one), `rA:B:C…` (the branches of A are B, C, …).

use std::io::{self, BufRead};

/// Why a listing cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// A line is not in the format.
    #[error("line {line} of JaCoCo's listing is malformed: {text:?}")]
    Malformed {
        /// Its number, from 1.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// Reading failed.
    #[error("cannot read JaCoCo's listing: {0}")]
    Io(#[from] io::Error),
}

/// So many covered, of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Count {
    /// Covered.
    pub covered: u64,
    /// Present.
    pub present: u64,
}

impl Count {
    pub(crate) fn add(&mut self, other: Self) {
        self.covered += other.covered;
        self.present += other.present;
    }
}

/// Instructions and branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Bytecode instructions.
    pub instructions: Count,
    /// Ways out of conditionals and switches.
    pub branches: Count,
}

impl Counters {
    pub(crate) fn add(&mut self, other: &Self) {
        self.instructions.add(other.instructions);
        self.branches.add(other.branches);
    }
}

/// A probe, and whether it was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) hit: bool,
}

/// A step of JaCoCo's walk over a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Plain(usize),
    Unreached,
    Between(Probe),
    Exit(Probe),
    Jump { target: usize, probe: Option<Probe> },
    Switch,
    Case { branch: u32, target: usize, probe: Option<Probe> },
}

/// What a filter of JaCoCo's does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Ignore(usize, usize),
    Merge(usize, usize),
    Replace(usize, Vec<usize>),
}

/// A method as JaCoCo sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedMethod {
    pub(crate) name: String,
    pub(crate) descriptor: String,
    pub(crate) counters: Option<Counters>,
    /// `None` where JaCoCo rewrites it.
    pub(crate) operations: Option<Vec<Operation>>,
    pub(crate) filters: Vec<Filter>,
}

/// What JaCoCo has of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ran,
    Silent,
    Other,
    Synthetic,
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedClass {
    /// Internal name.
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) methods: Vec<ListedMethod>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub(crate) version: String,
    pub(crate) classes: Vec<ListedClass>,
}

impl Listing {
    /// Reads the lines.
    ///
    /// # Errors
    /// [`ListingError`].
    pub fn read(from: impl BufRead) -> Result<Self, ListingError> {
        let mut listing = Self::default();
        for (number, line) in from.lines().enumerate() {
            let line = line?;
            listing.line(&line).ok_or_else(|| ListingError::Malformed {
                line: number + 1,
                text: line.chars().take(120).collect(),
            })?;
        }
        Ok(listing)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let mut fields = line.split('\t');
        match fields.next()? {
            "jacoco" => self.version = fields.next()?.to_owned(),
            "class" => {
                let name = fields.next()?.to_owned();
                let state = match fields.next()? {
                    "ran" => State::Ran,
                    "silent" => State::Silent,
                    "other" => State::Other,
                    "synthetic" => State::Synthetic,
                    "failed" => State::Failed(fields.next().unwrap_or_default().to_owned()),
                    _ => return None,
                };
                self.classes.push(ListedClass { name, state, methods: Vec::new() });
            }
            "method" => {
                let [name, descriptor, numbers, form, filters] =
                    std::array::from_fn(|_| fields.next().unwrap_or("?"));
                let method = ListedMethod {
                    name: name.to_owned(),
                    descriptor: descriptor.to_owned(),
                    counters: if numbers == "-" { None } else { Some(counters(numbers)?) },
                    operations: if form == "inlined" { None } else { Some(operations(form)?) },
                    filters: if filters == "-" { Vec::new() } else { each(filters, filter)? },
                };
                self.classes.last_mut()?.methods.push(method);
            }
            _ => return None,
        }
        Some(())
    }
}

fn each<T>(text: &str, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.split_ascii_whitespace().map(one).collect()
}

fn counters(text: &str) -> Option<Counters> {
    let numbers: Vec<u64> = each(text, |n| n.parse().ok())?;
    let [covered, present, taken, ways] = numbers[..] else { return None };
    Some(Counters {
        instructions: Count { covered, present },
        branches: Count { covered: taken, present: ways },
    })
}

fn operations(text: &str) -> Option<Vec<Operation>> {
    each(text, operation)
}

fn probe(text: &str) -> Option<Probe> {
    let (id, hit) = match text.strip_suffix('+') {
        Some(id) => (id, true),
        None => (text.strip_suffix('-')?, false),
    };
    id.parse::<u32>().ok()?;
    Some(Probe { hit })
}

/// `target` or `target:probe`.
fn target(text: &str) -> Option<(usize, Option<Probe>)> {
    match text.split_once(':') {
        Some((to, p)) => Some((to.parse().ok()?, Some(probe(p)?))),
        None => Some((text.parse().ok()?, None)),
    }
}

fn operation(text: &str) -> Option<Operation> {
    let rest = text.get(1..)?;
    Some(match text.as_bytes()[0] {
        b'L' => Operation::Unreached,
        b'P' => Operation::Between(probe(rest)?),
        b'R' => Operation::Exit(probe(rest)?),
        b'S' => Operation::Switch,
        b'J' | b'K' => {
            let (target, probe) = target(rest)?;
            Operation::Jump { target, probe }
        }
        b't' => {
            let (branch, to) = rest.split_once(':')?;
            let (target, probe) = target(to)?;
            Operation::Case { branch: branch.parse().ok()?, target, probe }
        }
        _ => Operation::Plain(text.parse().ok()?),
    })
}

fn filter(text: &str) -> Option<Filter> {
    let numbers: Option<Vec<usize>> = text.get(1..)?.split(':').map(|n| n.parse().ok()).collect();
    match (text.as_bytes()[0], &numbers?[..]) {
        (b'i', &[from, to]) => Some(Filter::Ignore(from, to)),
        (b'm', &[one, other]) => Some(Filter::Merge(one, other)),
        (b'r', [source, branches @ ..]) => Some(Filter::Replace(*source, branches.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let text = "jacoco\t0.8.6\nclass\ta/B\tran\nmethod\tf\t(I)I\t5 6 1 2\tL 1 J4 P0+ 1 K5:1+ L 1 P2- R3+\ti0:2 r1:4:5\n\
                    method\tg\t()V\t-\tinlined\t-\nclass\tc/D\tfailed\tPermittedSubclasses requires ASM9\n";
        let listing = Listing::read(text.as_bytes()).unwrap();
        let [first, second] = &listing.classes[..] else { panic!("{listing:?}") };
        assert_eq!(second.state, State::Failed("PermittedSubclasses requires ASM9".into()));
        let f = &first.methods[0];
        assert_eq!(f.counters.unwrap().instructions, Count { covered: 5, present: 6 });
        let operations = f.operations.as_ref().unwrap();
        assert_eq!(operations.len(), 10);
        assert_eq!(operations[5], Operation::Jump { target: 5, probe: Some(Probe { hit: true }) });
        assert_eq!(f.filters, [Filter::Ignore(0, 2), Filter::Replace(1, vec![4, 5])]);
        assert_eq!((first.methods[1].operations.as_ref(), first.methods[1].counters), (None, None));
    }

    #[test]
    fn what_is_malformed_is_named() {
        for text in [
            "nonsense",
            "class\ta\tgone",
            "method\tf\t()V\t-\t-\t-",
            "class\ta\tran\nmethod\tf\t()V\t1 2\t3\t-",
        ] {
            let e = Listing::read(text.as_bytes()).unwrap_err();
            assert!(e.to_string().contains("malformed"), "{text}: {e}");
        }
    }
}
