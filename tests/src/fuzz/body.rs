// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The body of one method while it is being written: names in scope, cost, and the places that
//! `break` and `continue` can leave.

use super::rng::Rng;

/// A method that others may call.
#[derive(Debug, Clone)]
pub(super) struct Callee {
    /// Its name, with the class where that is needed.
    pub(super) name: String,
    /// Parameters, all `int`; it returns `int`.
    pub(super) arity: usize,
    /// An upper estimate of the bytecodes that one call executes.
    pub(super) cost: u64,
    /// A mask for the first argument, if that is a depth of recursion.
    pub(super) depth_mask: Option<u32>,
}

/// State that all methods of one program share while they are written.
#[derive(Debug)]
pub(super) struct ProgramDraft {
    pub(super) rng: Rng,
    pub(super) callees: Vec<Callee>,
    /// Classes with an initialiser that only the generated statements trigger.
    pub(super) lazy: Vec<String>,
    /// Number of rounds that the program makes.
    pub(super) rounds: u64,
    fresh: u32,
}

impl ProgramDraft {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), callees: Vec::new(), lazy: Vec::new(), rounds: 0, fresh: 0 }
    }

    /// A name that occurs nowhere else.
    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        self.fresh += 1;
        format!("{prefix}{}", self.fresh)
    }
}

/// Names in scope; restored at the end of each block.
#[derive(Debug, Clone, Default)]
pub(super) struct ScopeNames {
    /// `int` variables that may be assigned.
    pub(super) ints: Vec<String>,
    /// `long` variables that may be assigned.
    pub(super) longs: Vec<String>,
    /// `double` variables that may be assigned.
    pub(super) doubles: Vec<String>,
    /// `int` variables that may only be read: loop variables, parameters of lambdas.
    pub(super) fixed: Vec<String>,
    /// References to `Base` that are never null.
    pub(super) objects: Vec<String>,
}

/// A label that `break` and, for a loop, `continue` can name.
#[derive(Debug, Clone)]
pub(super) struct JumpLabel {
    pub(super) label: String,
    pub(super) is_loop: bool,
}

/// A method body while it is being written.
#[derive(Debug)]
pub(super) struct Body<'s> {
    pub(super) shared: &'s mut ProgramDraft,
    pub(super) names: ScopeNames,
    pub(super) targets: Vec<JumpLabel>,
    /// How often the code at the current place runs per call.
    pub(super) times: u64,
    /// Bytecodes per call so far, estimated.
    pub(super) cost: u64,
    /// The approximate upper limit of `cost`.
    pub(super) budget: u64,
    /// Whether this method would catch an exception at the current place.
    pub(super) guarded: bool,
    /// Whether virtual methods and functions may be called. Their bodies call neither, so every
    /// call returns.
    pub(super) dispatches: bool,
    /// Whether `return` with an `int` is allowed here.
    pub(super) may_return: bool,
    text: String,
    indent: usize,
}

impl<'s> Body<'s> {
    pub(super) fn new(shared: &'s mut ProgramDraft, budget: u64) -> Self {
        Self {
            shared,
            names: ScopeNames::default(),
            targets: Vec::new(),
            times: 1,
            cost: 0,
            budget,
            guarded: false,
            dispatches: true,
            may_return: true,
            text: String::new(),
            indent: 2,
        }
    }

    /// Adds parameters that may be assigned.
    pub(super) fn with_ints(mut self, names: &[&str]) -> Self {
        self.names.ints.extend(names.iter().map(|n| (*n).to_owned()));
        self
    }

    pub(super) fn finish(self) -> (String, u64) {
        (self.text, self.cost)
    }

    pub(super) fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.text.push_str("    ");
        }
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Writes `head {`, the text that `inside` writes in a block of its own, and `}`.
    pub(super) fn block(&mut self, head: &str, inside: impl FnOnce(&mut Self)) {
        self.open(head);
        inside(self);
        self.close();
    }

    fn open(&mut self, head: &str) {
        self.line(&format!("{head} {{"));
        self.indent += 1;
    }

    fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    /// Runs `inside`; the names that it declares are out of scope afterwards.
    pub(super) fn scope<R>(&mut self, inside: impl FnOnce(&mut Self) -> R) -> R {
        let names = self.names.clone();
        let result = inside(self);
        self.names = names;
        result
    }

    /// Runs `inside`; the code that it writes runs `n` times as often as the code around it.
    pub(super) fn repeated(&mut self, n: u64, inside: impl FnOnce(&mut Self)) {
        let times = self.times;
        self.times = times.saturating_mul(n);
        inside(self);
        self.times = times;
    }

    /// Adds the cost of `bytecodes` at the current place.
    pub(super) fn spend(&mut self, bytecodes: u64) {
        self.cost = self.cost.saturating_add(self.times.saturating_mul(bytecodes));
    }

    /// Whether `bytecodes` more at the current place are within the budget.
    pub(super) fn affords(&self, bytecodes: u64) -> bool {
        self.cost.saturating_add(self.times.saturating_mul(bytecodes)) <= self.budget
    }

    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.shared.rng
    }

    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        self.shared.fresh(prefix)
    }
}
