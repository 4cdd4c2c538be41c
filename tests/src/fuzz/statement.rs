// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Statements, other than loops.

use super::body::{Body, JumpLabel};

/// Exceptions that generated code throws. `catch` clauses are in this order.
const CAUGHT: &[&str] = &[
    "ArithmeticException",
    "ArrayIndexOutOfBoundsException",
    "NullPointerException",
    "ClassCastException",
    "NegativeArraySizeException",
    "Oops",
    "RuntimeException",
];

impl Body<'_> {
    /// Some statements in a scope of their own.
    pub(super) fn statements(&mut self, nesting: u32) {
        let most = if nesting > 1 { 4 } else { 2 };
        let n = self.rng().range(1, most);
        self.scope(|b| {
            for _ in 0..n {
                b.statement(nesting);
            }
        });
    }

    /// One statement. `nesting` is the number of further levels of blocks that it may have.
    pub(super) fn statement(&mut self, nesting: u32) {
        if nesting == 0 || !self.affords(40) {
            return self.simple();
        }
        let n = nesting - 1;
        match self.rng().weighted(&[10, 12, 14, 5, 3, 2, 6, 3, 3, 3, 3, 2, 3, 1]) {
            0 => self.simple(),
            1 => self.branch(n),
            2 => self.a_loop(n),
            3 => self.int_switch(n),
            4 => self.text_switch(n),
            5 => self.enum_switch(n),
            6 => self.try_catch(n),
            7 => self.locked(n),
            8 => self.labelled_block(n),
            9 => self.lambda(),
            10 => self.rare(n),
            11 => self.class_initialiser(),
            12 => self.allocation(),
            _ => self.collection(),
        }
    }

    /// A statement without blocks.
    pub(super) fn simple(&mut self) {
        self.spend(3);
        match self.rng().weighted(&[8, 3, 2, 3, 3, 2, 2, 3, 2]) {
            0 => self.assign_int(),
            1 => self.assign_long(),
            2 => self.assign_double(),
            3 => self.store_array(),
            4 => self.declare(),
            5 => {
                let value = self.int(2);
                let field = self.rng().below(4);
                self.line(&format!("S{field} = {value};"));
            }
            6 => {
                let (receiver, value) = (self.receiver(1), self.int(2));
                self.line(&format!("{receiver}.x += {value};"));
            }
            7 => self.leave(),
            _ => self.throw(),
        }
    }

    fn assign_int(&mut self) {
        let ints = self.names.ints.clone();
        let value = self.int(3);
        if ints.is_empty() {
            return self.line(&format!("S0 ^= {value};"));
        }
        let v = self.rng().pick(&ints).clone();
        let operator = *self.rng().pick(&["=", "=", "=", "+=", "^=", "-=", "*=", ">>>=", "|="]);
        self.line(&format!("{v} {operator} {value};"));
    }

    fn assign_long(&mut self) {
        let longs = self.names.longs.clone();
        let value = self.long(3);
        let operator = *self.rng().pick(&["=", "+=", "^=", "-="]);
        let v = if longs.is_empty() { "L0".into() } else { self.rng().pick(&longs).clone() };
        self.line(&format!("{v} {operator} {value};"));
    }

    fn assign_double(&mut self) {
        let doubles = self.names.doubles.clone();
        let value = self.double(2);
        if doubles.is_empty() {
            let name = self.fresh("d");
            self.line(&format!("double {name} = {value};"));
            self.names.doubles.push(name);
        } else {
            let v = self.rng().pick(&doubles).clone();
            self.line(&format!("{v} = {value};"));
        }
    }

    fn store_array(&mut self) {
        let index = self.index(1);
        match self.rng().below(5) {
            0 => {
                let value = self.long(2);
                self.line(&format!("LA[{index}] = {value};"));
            }
            1 => {
                let value = self.double(1);
                self.line(&format!("DA[{index}] = {value};"));
            }
            2 => {
                let value = self.int(1);
                self.line(&format!("BYTES[{index}] = (byte) {value};"));
            }
            _ => {
                let value = self.int(2);
                self.line(&format!("IA[{index}] += {value};"));
            }
        }
    }

    fn declare(&mut self) {
        if self.rng().chance(70) {
            let (name, value) = (self.fresh("v"), self.int(2));
            self.line(&format!("int {name} = {value};"));
            self.names.ints.push(name);
        } else {
            let (name, value) = (self.fresh("w"), self.long(2));
            self.line(&format!("long {name} = {value};"));
            self.names.longs.push(name);
        }
    }

    /// Leaves a block, a loop or the method if a condition holds.
    pub(super) fn leave(&mut self) {
        let condition = self.condition(1);
        let targets = self.targets.clone();
        if targets.is_empty() || self.rng().chance(10) {
            if self.may_return {
                let value = self.int(1);
                self.line(&format!("if ({condition}) return {value};"));
            }
            return;
        }
        // Prefer the innermost target.
        let target = if self.rng().chance(60) {
            targets[targets.len() - 1].clone()
        } else {
            self.rng().pick(&targets).clone()
        };
        let how = if target.is_loop && self.rng().chance(50) { "continue" } else { "break" };
        self.line(&format!("if ({condition}) {how} {};", target.label));
    }

    fn throw(&mut self) {
        if !self.risky(30) {
            return self.assign_int();
        }
        let (condition, code) = (self.condition(1), self.rng().below(90));
        match self.rng().below(5) {
            0 => self.line(&format!("if ({condition}) throw new IllegalStateException();")),
            1 => self.line(&format!("if ({condition}) throw new ArithmeticException();")),
            2 => self.line(&format!("if ({condition}) S1 += ((B) P[S2 & 7]).x;")),
            3 => self.line(&format!("if ({condition}) S1 += new int[S2 | 0x80000000].length;")),
            _ => self.line(&format!("if ({condition}) throw new Oops({code});")),
        }
    }

    fn branch(&mut self, nesting: u32) {
        let condition = self.condition(2);
        self.block(&format!("if ({condition})"), |b| b.statements(nesting));
        for _ in 0..self.rng().below(3) {
            let condition = self.condition(1);
            self.block(&format!("else if ({condition})"), |b| b.statements(nesting));
        }
        if self.rng().chance(50) {
            self.block("else", |b| b.statements(nesting));
        }
    }

    fn int_switch(&mut self, nesting: u32) {
        if self.rng().chance(30) {
            return self.table_switch();
        }
        const SPARSE: &[&str] = &["-100", "0", "7", "99", "1000", "65536", "0x7fffffff", "-2000000000"];
        let dense = self.rng().chance(60);
        let keys: Vec<String> = if dense {
            let first = self.rng().below(3);
            (first..first + self.shared.rng.range(2, 8)).map(|k| k.to_string()).collect()
        } else {
            let n = usize::try_from(self.rng().range(2, 8)).unwrap_or(2);
            SPARSE[..n].iter().map(|k| (*k).to_owned()).collect()
        };
        let selector = if self.rng().chance(25) { format!("(int) {}", self.long(1)) } else { self.int(2) };
        let selector = match dense {
            true => format!("({selector}) & 7"),
            false => format!("KEYS[({selector}) & 7]"),
        };
        self.cases(&selector, &keys, nesting);
    }

    /// A `switch` with enough cases for a jump table, all of them taken equally often: C2 would
    /// test for frequent cases first. Many cases are empty or fall through.
    fn table_switch(&mut self) {
        self.spend(6);
        let first = self.rng().below(3);
        let keys = first..first + self.rng().range(12, 24);
        let selector = format!("({}) ^ (S3 = S3 * 69069 + 1) >>> 20", self.int(2));
        let default = self.rng().chance(50);
        self.block(&format!("switch (({selector}) & 31)"), |b| {
            for key in keys {
                b.line(&format!("case {key}:"));
                match b.rng().below(4) {
                    0 => {}
                    1 => b.line("break;"),
                    _ => {
                        b.block("", |b| b.statements(0));
                        if b.rng().chance(80) {
                            b.line("break;");
                        }
                    }
                }
            }
            if default {
                b.line("default:");
                b.block("", |b| b.statements(0));
            }
        });
    }

    fn text_switch(&mut self, nesting: u32) {
        const TEXTS: &[&str] = &["\"a\"", "\"Aa\"", "\"BB\"", "\"AaAa\"", "\"BBBB\"", "\"zeta\""];
        let n = usize::try_from(self.rng().range(2, 6)).unwrap_or(2);
        let keys: Vec<String> = TEXTS[..n].iter().map(|k| (*k).to_owned()).collect();
        let selector = format!("NAMES[{} & 7]", self.int(2));
        self.cases(&selector, &keys, nesting);
    }

    fn enum_switch(&mut self, nesting: u32) {
        let keys = ["RED", "GREEN", "BLUE"].map(str::to_owned);
        let selector = format!("Colour.ALL[{} & 3]", self.int(2));
        self.cases(&selector, &keys, nesting);
    }

    fn cases(&mut self, selector: &str, keys: &[String], nesting: u32) {
        self.spend(6);
        let default = self.rng().chance(70);
        self.block(&format!("switch ({selector})"), |b| {
            for key in keys {
                b.line(&format!("case {key}:"));
                // Some cases share their code, some fall through.
                if b.rng().chance(80) {
                    b.block("", |b| b.statements(nesting.min(1)));
                    if b.rng().chance(75) {
                        b.line("break;");
                    }
                }
            }
            if default {
                b.line("default:");
                b.block("", |b| b.statements(nesting));
            }
        });
    }

    fn try_catch(&mut self, nesting: u32) {
        let guarded = self.guarded;
        self.guarded = true;
        self.block("try", |b| b.statements(nesting));
        self.guarded = guarded;
        let mut clauses: Vec<&str> = CAUGHT.to_vec();
        clauses.retain(|_| self.rng().chance(40));
        let with_finally = clauses.is_empty() || self.rng().chance(25);
        for clause in clauses {
            let name = self.fresh("e");
            self.block(&format!("catch ({clause} {name})"), |b| {
                b.line(&format!("S3 += code({name});"));
                b.statements(0);
                if b.rng().chance(15) {
                    b.line(&format!("if ((S3 & 3) == 0) throw {name};"));
                }
            });
        }
        if with_finally {
            let may_return = std::mem::replace(&mut self.may_return, false);
            let targets = std::mem::take(&mut self.targets);
            self.block("finally", |b| b.statements(nesting.min(1)));
            self.targets = targets;
            self.may_return = may_return;
        }
    }

    fn locked(&mut self, nesting: u32) {
        let lock = match self.rng().below(3) {
            0 => "LOCK".to_owned(),
            1 => self.receiver(1),
            _ => "new Object()".to_owned(),
        };
        self.spend(6);
        self.block(&format!("synchronized ({lock})"), |b| b.statements(nesting));
    }

    fn labelled_block(&mut self, nesting: u32) {
        let label = self.fresh("block");
        self.targets.push(JumpLabel { label: label.clone(), is_loop: false });
        self.block(&format!("{label}:"), |b| {
            b.scope(|b| {
                b.statement(nesting);
                b.leave();
                b.statement(nesting);
            });
        });
        self.targets.pop();
    }

    /// A lambda that captures a variable and is called at once.
    fn lambda(&mut self) {
        let [captured, function, p, q, result] = ["c", "fn", "p", "q", "v"].map(|prefix| self.fresh(prefix));
        let value = self.int(1);
        self.line(&format!("final int {captured} = {value};"));
        self.spend(30);
        let inside = self.inside_lambda(&[&p, &q, &captured], |b| b.int(3));
        self.line(&format!("IntBinaryOperator {function} = ({p}, {q}) -> {inside};"));
        let (a, b) = (self.int(1), self.int_leaf());
        self.line(&format!("int {result} = {function}.applyAsInt({a}, {b});"));
        self.names.ints.push(result);
    }

    /// Lets `inside` write an expression that sees only these variables and cannot assign them.
    fn inside_lambda(&mut self, visible: &[&str], inside: impl FnOnce(&mut Self) -> String) -> String {
        let names = std::mem::take(&mut self.names);
        self.names.fixed = visible.iter().map(|n| (*n).to_owned()).collect();
        let text = inside(self);
        self.names = names;
        text
    }

    /// Code that runs only in a few late rounds. By then, the code around it is compiled without
    /// it.
    fn rare(&mut self, nesting: u32) {
        let rounds = self.shared.rounds;
        let round = self.rng().range(rounds / 3, rounds - 1);
        let condition = match self.rng().below(3) {
            0 => format!("round == {round}"),
            1 => format!("round > {round}"),
            _ => format!("round % {} == 77", self.rng().range(150, 400)),
        };
        self.block(&format!("if ({condition})"), |b| b.statements(nesting));
    }

    fn class_initialiser(&mut self) {
        let lazy = self.shared.lazy.clone();
        let rounds = self.shared.rounds;
        let from = self.rng().below(rounds);
        if lazy.is_empty() {
            return self.simple();
        }
        let class = self.rng().pick(&lazy).clone();
        let value = self.int(1);
        self.spend(20);
        match self.rng().below(3) {
            0 => self.line(&format!("if (round >= {from}) S1 ^= {class}.get({value});")),
            1 => self.line(&format!("if (round >= {from}) {class}.value += {value};")),
            _ => self.line(&format!("if (round >= {from}) S2 += new {class}().number;")),
        }
    }

    fn allocation(&mut self) {
        self.spend(25);
        let name = self.fresh("o");
        let value = self.int(2);
        let class = *self.rng().pick(&["A", "B", "C", "D"]);
        if self.rng().chance(40) {
            let condition = self.condition(1);
            self.line(&format!("Base {name} = {condition} ? new {class}({value}) : P[3];"));
        } else {
            self.line(&format!("Base {name} = new {class}({value});"));
        }
        if self.rng().chance(20) {
            let slot = self.rng().below(8);
            self.line(&format!("HOLES[{slot}] = {name};"));
        }
        self.names.objects.push(name);
    }

    /// A collection whose methods call lambdas of the program.
    fn collection(&mut self) {
        if !self.affords(200) {
            return self.simple();
        }
        self.spend(200);
        let [list, e, k, result] = ["list", "e", "k", "v"].map(|prefix| self.fresh(prefix));
        let (a, b) = (self.int(1), self.int(1));
        self.line(&format!("List<Integer> {list} = new ArrayList<>(List.of({a} + 0, {b} + 1, 3));"));
        self.line(&format!("int {result} = 0;"));
        match self.rng().below(3) {
            0 => {
                let key = self.inside_lambda(&[&k], |b| b.int(2));
                let function = format!("{e} -> {{ int {k} = {e}; return {key}; }}");
                self.line(&format!("{list}.sort(Comparator.comparingInt({function}));"));
            }
            1 => {
                let test = self.inside_lambda(&[&k], |b| b.condition(2));
                self.line(&format!("{list}.removeIf({e} -> {{ int {k} = {e}; return {test}; }});"));
            }
            _ => self.block(&format!("for (int {e} : {list})"), |b| {
                b.names.fixed.push(e.clone());
                b.repeated(3, |b| b.statements(0));
                b.names.fixed.pop();
            }),
        }
        self.line(&format!("for (int {e} : {list}) {result} = {result} * 31 + {e};"));
        self.names.ints.push(result);
    }
}
