// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Expressions: each function returns Java source that is valid wherever an operand is.

use super::body::Body;

/// Numbers that are special cases of compiler transformations.
const INTS: &[&str] = &[
    "0",
    "1",
    "(-1)",
    "2",
    "3",
    "5",
    "7",
    "8",
    "10",
    "16",
    "31",
    "63",
    "64",
    "100",
    "127",
    "255",
    "(-128)",
    "1000",
    "65535",
    "0x7fffffff",
    "0x80000000",
    "0x55555555",
];
const LONGS: &[&str] = &[
    "0L",
    "1L",
    "(-1L)",
    "2L",
    "10L",
    "63L",
    "1000L",
    "0xffffffffL",
    "0x100000000L",
    "0x7fffffffffffffffL",
    "0x8000000000000000L",
];
const DOUBLES: &[&str] = &["0.0", "(-0.0)", "1.0", "(-1.5)", "2.25", "1e3", "1e10", "(-1e19)", "Double.NaN"];
const COMPARE: &[&str] = &["<", "<=", ">", ">=", "==", "!="];

/// Estimated bytecodes of a dispatched call, callee included.
const CALL: u64 = 60;

impl Body<'_> {
    fn compare(&mut self) -> &'static str {
        COMPARE[self.rng().weighted(&[1; 6])]
    }

    /// A variable, field or number.
    pub(super) fn int_leaf(&mut self) -> String {
        if self.rng().chance(75) {
            return self.int_variable();
        }
        self.spend(1);
        (*self.rng().pick(INTS)).to_owned()
    }

    /// A variable or field; recently declared variables are preferred.
    pub(super) fn int_variable(&mut self) -> String {
        self.spend(1);
        let known: Vec<String> = self.names.ints.iter().chain(&self.names.fixed).cloned().collect();
        match self.rng().weighted(&[5, 4, 1, 1]) {
            0 if !known.is_empty() => self.rng().pick(&known).clone(),
            1 if !known.is_empty() => {
                let latest = known.len().saturating_sub(4);
                self.rng().pick(&known[latest..]).clone()
            }
            2 => match self.object() {
                Some(object) => format!("{object}.x"),
                None => "S0".into(),
            },
            _ => format!("S{}", self.rng().below(4)),
        }
    }

    /// A value between 0 and some small number, so that comparisons go both ways.
    fn small(&mut self) -> String {
        let mask = *self.rng().pick(&[1, 3, 7, 15, 63, 127]);
        format!("({} & {mask})", self.int_variable())
    }

    /// Two different operands for a comparison.
    fn operands(&mut self, d: u32) -> (String, String) {
        if self.rng().chance(40) {
            return (self.small(), self.rng().below(20).to_string());
        }
        let first = if d == 0 { self.int_variable() } else { self.int(d) };
        let mut second = self.int_leaf();
        if first == second {
            second = self.small();
        }
        (first, second)
    }

    fn object(&mut self) -> Option<String> {
        let objects = self.names.objects.clone();
        if objects.is_empty() { None } else { Some(self.rng().pick(&objects).clone()) }
    }

    /// An expression of type `int`, nested at most `depth` deep.
    pub(super) fn int(&mut self, depth: u32) -> String {
        if depth == 0 || !self.affords(8) {
            return self.int_leaf();
        }
        self.spend(2);
        let d = depth - 1;
        match self.rng().weighted(&[4, 10, 5, 6, 5, 4, 5, 6, 2, 2, 2, 2, 3, 2, 2, 5]) {
            0 => self.int_leaf(),
            1 => self.int_binary(d),
            2 => format!("({} ? {} : {})", self.condition(d), self.int(d), self.int(d)),
            3 => self.int_idiom(d),
            4 => self.int_array(d),
            5 => self.int_narrowed(d),
            6 => self.static_call(d),
            7 => self.virtual_call(d),
            8 => self.int_division(d),
            9 => self.switch_expression(d),
            10 => format!("({} ? 1 : 0)", self.condition(d)),
            11 => self.functional_call(d),
            12 => self.side_effect(d),
            13 => self.text_operation(d),
            14 => self.small(),
            _ => self.boxed(d),
        }
    }

    fn int_binary(&mut self, d: u32) -> String {
        const OPERATORS: &[&str] = &["+", "-", "*", "&", "|", "^", "<<", ">>", ">>>"];
        let operator = *self.rng().pick(OPERATORS);
        format!("({} {operator} {})", self.int(d), self.int(d))
    }

    fn int_idiom(&mut self, d: u32) -> String {
        let (a, b) = (self.int_variable(), self.int_leaf());
        self.spend(6);
        match self.rng().below(11) {
            0 => format!("Math.min({a}, {})", self.int(d)),
            1 => format!("Math.max({}, {b})", self.int(d)),
            2 => format!("Math.abs({})", self.int(d)),
            3 => format!("({a} < {b} ? {a} : {b})"),
            4 => format!("({a} >= {b} ? {a} : {b})"),
            5 => format!("({a} < 0 ? -{a} : {a})"),
            6 => format!("({a} < {b} ? -1 : {a} == {b} ? 0 : 1)"),
            7 => format!("({a} > 100 ? 100 : {a} < -100 ? -100 : {a})"),
            8 => format!("Long.compare({}, {})", self.long(d), self.long_leaf()),
            9 => format!("({a} == 0 ? 0 : {})", self.int(d)),
            _ => format!("({a} == {b} ? {b} : {a})"),
        }
    }

    fn int_array(&mut self, d: u32) -> String {
        let index = self.index(d);
        match self.rng().below(5) {
            0 => format!("BYTES[{index}]"),
            1 => format!("GRID[{} & 3][{}]", self.int_leaf(), self.index(0)),
            2 => "IA.length".into(),
            _ => format!("IA[{index}]"),
        }
    }

    /// An index for arrays of 16 elements. It is sometimes out of bounds, mostly where the
    /// exception is caught.
    pub(super) fn index(&mut self, d: u32) -> String {
        let risky = self.risky(12);
        let value = self.int(d);
        if risky { format!("({value} & 31) - 2") } else { format!("{value} & 15") }
    }

    /// Whether to write code that may throw: often where the exception is caught, rarely
    /// elsewhere.
    pub(super) fn risky(&mut self, percent: u64) -> bool {
        let percent = if self.guarded { percent * 3 } else { percent / 8 };
        self.rng().chance(percent)
    }

    fn int_narrowed(&mut self, d: u32) -> String {
        match self.rng().below(6) {
            0 => format!("((byte) {})", self.int(d)),
            1 => format!("((short) {})", self.int(d)),
            2 => format!("((char) {})", self.int(d)),
            3 => format!("((int) {})", self.double(d)),
            _ => format!("((int) {})", self.long(d)),
        }
    }

    pub(super) fn static_call(&mut self, d: u32) -> String {
        let callees = self.shared.callees.clone();
        let affordable: Vec<_> = callees.into_iter().filter(|c| self.affords(c.cost + 8)).collect();
        if affordable.is_empty() {
            return self.int_binary(d);
        }
        let callee = self.rng().pick(&affordable).clone();
        self.spend(callee.cost + 2);
        let mut arguments: Vec<String> = (0..callee.arity).map(|_| self.int(d.min(1))).collect();
        if let (Some(mask), Some(first)) = (callee.depth_mask, arguments.first_mut()) {
            *first = format!("{first} & {mask}");
        }
        format!("{}({})", callee.name, arguments.join(", "))
    }

    fn functional_call(&mut self, d: u32) -> String {
        if !self.dispatches || !self.affords(CALL) {
            return self.int_binary(d);
        }
        self.spend(CALL);
        format!("OPS[{} & 3].applyAsInt({}, {})", self.int(d), self.int(d), self.int_leaf())
    }

    fn virtual_call(&mut self, d: u32) -> String {
        if !self.dispatches || !self.affords(CALL) {
            return self.int_binary(d);
        }
        self.spend(CALL);
        let receiver = self.receiver(d);
        match self.rng().below(5) {
            0 => format!("{receiver}.g({})", self.int(d)),
            1 => format!("{receiver}.h({})", self.int(d)),
            2 => format!("{receiver}.locked({})", self.int(d)),
            3 => format!("((Op) {receiver}).f({}, {})", self.int(d), self.int_leaf()),
            _ => format!("{receiver}.f({}, {})", self.int(d), self.int_leaf()),
        }
    }

    /// A receiver of one class, of two classes or of all. Where the exception is caught, it may
    /// be null.
    pub(super) fn receiver(&mut self, d: u32) -> String {
        if self.risky(8) {
            return format!("HOLES[{} & 7]", self.int(d));
        }
        match self.rng().below(4) {
            0 => format!("P[{}]", self.rng().below(8)),
            1 => format!("P[{} & 1]", self.int(d)),
            2 => format!("P[{} & 7]", self.int(d)),
            _ => self.object().unwrap_or_else(|| "P[2]".into()),
        }
    }

    fn int_division(&mut self, d: u32) -> String {
        let operator = *self.rng().pick(&["/", "%"]);
        if self.risky(15) {
            return format!("({} {operator} ({} & 7))", self.int(d), self.int(d));
        }
        match self.rng().below(3) {
            0 => format!("({} {operator} {})", self.int(d), self.shared.rng.range(2, 40)),
            _ => format!("({} {operator} ({} | 1))", self.int(d), self.int(d)),
        }
    }

    fn switch_expression(&mut self, d: u32) -> String {
        let selector = self.int(d);
        let cases = self.rng().range(2, 5);
        let mut text = format!("(switch ({selector} & 7) {{ ");
        for i in 0..cases {
            let value = self.int(d.min(1));
            text += &format!("case {i} -> {value}; ");
        }
        text + &format!("default -> {}; }})", self.int(d.min(1)))
    }

    fn side_effect(&mut self, d: u32) -> String {
        let ints = self.names.ints.clone();
        if ints.is_empty() {
            return self.int_leaf();
        }
        let v = self.rng().pick(&ints).clone();
        match self.rng().below(4) {
            0 => format!("({v}++)"),
            1 => format!("(--{v})"),
            2 => format!("({v} += {})", self.int(d)),
            _ => format!("({v} = {})", self.int(d)),
        }
    }

    fn text_operation(&mut self, d: u32) -> String {
        let name = format!("NAMES[{} & 7]", self.int(d));
        match self.rng().below(4) {
            0 => format!("{name}.length()"),
            1 => format!("{name}.hashCode()"),
            2 => format!("(NAMES[{} & 7].equals({name}) ? 3 : 4)", self.int_leaf()),
            _ => format!("({name} + {}).length()", self.int_leaf()),
        }
    }

    fn boxed(&mut self, d: u32) -> String {
        match self.rng().below(3) {
            0 => format!("Integer.valueOf({}).hashCode()", self.int(d)),
            1 if self.dispatches => format!("new A({}).f({}, 1)", self.int(d), self.int_leaf()),
            _ => format!("sum({}, {}, {})", self.int(d), self.int_leaf(), self.int_leaf()),
        }
    }

    pub(super) fn long_leaf(&mut self) -> String {
        self.spend(1);
        let longs = self.names.longs.clone();
        match self.rng().below(4) {
            0 => (*self.rng().pick(LONGS)).to_owned(),
            1 => format!("(long) {}", self.int_leaf()),
            _ if longs.is_empty() => "L0".into(),
            _ => self.rng().pick(&longs).clone(),
        }
    }

    /// An expression of type `long`.
    pub(super) fn long(&mut self, depth: u32) -> String {
        if depth == 0 || !self.affords(8) {
            return format!("({})", self.long_leaf());
        }
        self.spend(2);
        let d = depth - 1;
        match self.rng().below(10) {
            0..=3 => {
                let operator = *self.rng().pick(&["+", "-", "*", "&", "|", "^", "<<", ">>", ">>>"]);
                format!("({} {operator} {})", self.long(d), self.long(d))
            }
            4 => format!("({} ? {} : {})", self.condition(d), self.long(d), self.long(d)),
            5 => format!("LA[{}]", self.index(d)),
            6 => format!("((long) {})", self.double(d)),
            7 if self.risky(15) => format!("({} / ({} & 7L))", self.long(d), self.long(d)),
            7 => format!("({} % ({} | 1L))", self.long(d), self.long(d)),
            8 => format!("Math.max({}, {})", self.long(d), self.long(d)),
            _ => format!("(L0 + {})", self.int(d)),
        }
    }

    /// An expression of type `double`.
    pub(super) fn double(&mut self, depth: u32) -> String {
        self.spend(1);
        let doubles = self.names.doubles.clone();
        if depth == 0 || !self.affords(8) {
            return match self.rng().below(3) {
                0 => format!("({})", self.rng().pick(DOUBLES)),
                1 if !doubles.is_empty() => self.rng().pick(&doubles).clone(),
                _ => format!("((double) {})", self.int_leaf()),
            };
        }
        let d = depth - 1;
        match self.rng().below(5) {
            0 => format!("({} ? {} : {})", self.condition(d), self.double(d), self.double(d)),
            1 => format!("DA[{}]", self.index(d)),
            _ => {
                let operator = *self.rng().pick(&["+", "-", "*", "/"]);
                format!("({} {operator} {})", self.double(d), self.double(d))
            }
        }
    }

    /// A condition; never a constant expression.
    pub(super) fn condition(&mut self, depth: u32) -> String {
        self.spend(3);
        if depth == 0 || !self.affords(8) {
            let (first, second) = self.operands(0);
            return format!("({first} {} {second})", self.compare());
        }
        let d = depth - 1;
        let compare = self.compare();
        match self.rng().weighted(&[8, 3, 2, 4, 3, 3, 2, 2, 2, 2]) {
            0 => {
                let (first, second) = self.operands(d);
                format!("({first} {compare} {second})")
            }
            1 => format!("({} {compare} {})", self.long(d), self.long_leaf()),
            2 => format!("({} {compare} {})", self.double(d), self.double(0)),
            3 => self.range_check(d),
            4 => format!("({} && {})", self.condition(d), self.condition(d)),
            5 => format!("({} || {})", self.condition(d), self.condition(d)),
            6 => format!("(!{})", self.condition(d)),
            7 => self.reference_check(d),
            8 => format!("(({} & {}) != 0)", self.int(d), 1 << self.shared.rng.below(6)),
            _ => format!("({} % {} == 0)", self.int(d), self.shared.rng.range(2, 9)),
        }
    }

    fn range_check(&mut self, d: u32) -> String {
        let value = self.int_variable();
        let low = self.rng().below(8);
        let high = low + self.rng().range(1, 40);
        match self.rng().below(4) {
            0 => format!("({value} >= {low} && {value} < {high})"),
            1 => format!("({value} < {low} || {value} > {high})"),
            2 => format!("({value} > -{high} && {value} <= {})", self.int(d)),
            _ => format!("({low} <= {value} && {value} <= {high})"),
        }
    }

    fn reference_check(&mut self, d: u32) -> String {
        match self.rng().below(5) {
            0 => format!("(HOLES[{} & 7] == null)", self.int(d)),
            1 => format!("(HOLES[{} & 7] != null)", self.int(d)),
            2 => format!(
                "(P[{} & 7] instanceof {})",
                self.int(d),
                self.shared.rng.pick(&["A", "B", "Op", "C"])
            ),
            3 => format!("(HOLES[{} & 7] instanceof B)", self.int(d)),
            _ => format!("(P[{} & 7] == P[{}])", self.int(d), self.shared.rng.below(8)),
        }
    }
}
