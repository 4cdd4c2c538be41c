// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Loops: counted and uncounted, ascending and descending, with exits at any place, and shapes
//! that compilers recognise.

use super::body::{Body, JumpLabel};

impl Body<'_> {
    /// A loop with up to `nesting` levels of blocks inside.
    pub(super) fn a_loop(&mut self, nesting: u32) {
        match self.rng().weighted(&[10, 4, 4, 3, 3, 5, 2]) {
            0 => self.counted(nesting),
            1 => self.while_loop(nesting),
            2 => self.endless(nesting),
            3 => self.do_while(nesting),
            4 => self.long_counted(nesting),
            5 => self.known_shape(),
            _ => self.empty(),
        }
    }

    /// The number of iterations of a loop; small inside other loops.
    fn trips(&mut self) -> u64 {
        let most = match self.times {
            0..=1 => 40,
            2..=20 => 12,
            21..=60 => 6,
            _ => 2,
        };
        let room = self.budget.saturating_sub(self.cost) / self.times.max(1) / 30;
        let most = most.min(room.max(1));
        self.rng().range(1, most)
    }

    fn body_of_loop(&mut self, label: &str, trips: u64, nesting: u32) {
        self.targets.push(JumpLabel { label: label.to_owned(), is_loop: true });
        self.repeated(trips, |b| {
            b.spend(4);
            b.statements(nesting);
        });
        self.targets.pop();
    }

    /// A loop with an `int` counter. Some bounds are not constants.
    fn counted(&mut self, nesting: u32) {
        let (label, i, n) = (self.fresh("loop"), self.fresh("i"), self.trips());
        let head = match self.rng().below(7) {
            0 => format!("for (int {i} = {n}; {i} > 0; {i}--)"),
            1 => format!("for (int {i} = 0; {i} < {}; {i} += 3)", 3 * n),
            2 => format!("for (int {i} = 0; {i} < ({} & {}); {i}++)", self.int_leaf(), mask(n)),
            3 => format!("for (int {i} = {} & 3; {i} != {}; {i}++)", self.int_leaf(), n + 4),
            4 => format!("for (int {i} = -{n}; {i} <= 0; {i}++)"),
            5 => format!("for (int {i} = IA.length - 1; {i} >= {}; {i} -= 2)", 16 - n.min(16)),
            _ => format!("for (int {i} = 0; {i} < {n}; {i}++)"),
        };
        self.block(&format!("{label}: {head}"), |b| {
            b.scope(|b| {
                b.names.fixed.push(i.clone());
                b.body_of_loop(&label, n + 4, nesting);
            });
        });
    }

    fn long_counted(&mut self, nesting: u32) {
        let (label, i, n) = (self.fresh("loop"), self.fresh("n"), self.trips());
        let step = self.rng().range(1, 5);
        let head = format!("for (long {i} = 0; {i} < {}L; {i} += {step}L)", n * step);
        self.block(&format!("{label}: {head}"), |b| {
            b.scope(|b| {
                let copy = b.fresh("w");
                b.line(&format!("long {copy} = {i} * 3;"));
                b.names.longs.push(copy);
                b.body_of_loop(&label, n, nesting);
            });
        });
    }

    fn while_loop(&mut self, nesting: u32) {
        let (label, fuel, n) = (self.fresh("loop"), self.fresh("fuel"), self.trips());
        let condition = self.condition(2);
        self.line(&format!("int {fuel} = {n};"));
        let head = match self.rng().below(2) {
            0 => format!("while ({condition} && {fuel}-- > 0)"),
            _ => format!("while (--{fuel} >= 0 && {condition})"),
        };
        self.block(&format!("{label}: {head}"), |b| b.body_of_loop(&label, n, nesting));
    }

    fn do_while(&mut self, nesting: u32) {
        let (label, fuel, n) = (self.fresh("loop"), self.fresh("fuel"), self.trips());
        self.line(&format!("int {fuel} = {n};"));
        self.line(&format!("{label}:"));
        self.block("do", |b| b.body_of_loop(&label, n, nesting));
        let condition = self.condition(1);
        self.line(&format!("while ({condition} && --{fuel} > 0);"));
    }

    /// A `for (;;)` loop that only `break` leaves.
    fn endless(&mut self, nesting: u32) {
        let (label, fuel, n) = (self.fresh("loop"), self.fresh("fuel"), self.trips());
        self.line(&format!("int {fuel} = {n};"));
        self.block(&format!("{label}: for (;;)"), |b| {
            b.line(&format!("if (--{fuel} < 0) break;"));
            b.body_of_loop(&label, n, nesting);
            if b.rng().chance(60) {
                let condition = b.condition(1);
                b.line(&format!("if ({condition}) break;"));
            }
        });
    }

    /// Loops without a body, which compilers may remove.
    fn empty(&mut self) {
        let (i, n) = (self.fresh("i"), self.trips());
        self.spend(4 * n);
        let bound = if self.rng().chance(50) {
            format!("({} & {})", self.int_leaf(), mask(n))
        } else {
            n.to_string()
        };
        if self.rng().chance(50) {
            self.line(&format!("for (int {i} = 0; {i} < {bound}; {i}++) {{ }}"));
        } else {
            self.line(&format!("int {i} = 0;"));
            self.line(&format!("while ({i} < {bound}) {i}++;"));
            self.names.ints.push(i);
        }
    }

    /// Loops that fill, copy, sum or search arrays. Compilers vectorise them, replace them by
    /// calls, or remove them.
    fn known_shape(&mut self) {
        if !self.affords(200) {
            return self.empty();
        }
        self.spend(200);
        let (i, value) = (self.fresh("i"), self.int_leaf());
        let each = format!("for (int {i} = 0; {i} < 16; {i}++)");
        match self.rng().below(9) {
            0 => self.line(&format!("{each} IB[{i}] = {value};")),
            1 => self.line(&format!("{each} IB[{i}] = IA[{i}];")),
            2 => self.line(&format!("{each} IB[{i}] = IA[{i}] * 3 + IB[{i}];")),
            3 => self.line(&format!("{each} S0 += IA[{i}];")),
            4 => self.line(&format!("{each} if (IA[{i}] > S1) S1 = IA[{i}];")),
            5 => self.line(&format!("{each} S2 = Math.max(S2, IA[{i}]);")),
            6 => {
                self.line(&format!("int {i} = 0;"));
                self.line(&format!("while ({i} < IA.length && IA[{i}] != {value}) {i}++;"));
                self.names.ints.push(i);
            }
            7 => {
                let j = self.fresh("j");
                let inner = format!("for (int {j} = 0; {j} < 4; {j}++)");
                let outer = format!("for (int {i} = 0; {i} < 4; {i}++)");
                self.line(&format!("{outer} {inner} GRID[{i}][{j}] += GRID[{j}][{i}] ^ {value};"));
            }
            _ => {
                // The condition is loop-invariant, so the compiler may unswitch the loop.
                let flag = self.condition(1);
                let name = self.fresh("flag");
                self.line(&format!("boolean {name} = {flag};"));
                self.line(&format!("{each} if ({name}) S0 += IA[{i}]; else IB[{i}] ^= {i};"));
            }
        }
    }
}

/// The smallest number of the form 2^k - 1 that is at least `n`.
fn mask(n: u64) -> u64 {
    (n + 1).next_power_of_two() - 1
}
