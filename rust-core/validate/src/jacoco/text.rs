// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The comparison as text.

use crate::jacoco::{Count, JacocoComparison, JacocoDifference};
use jportal_plain::line;
use jportal_plain::table::{Align, percent, table};

impl JacocoComparison {
    /// A table of the sums, the reasons for the difference, and the differences; with `classes`
    /// one row per class.
    pub fn text(&self, classes: bool) -> String {
        let t = &self.total;
        let mut text = format!(
            "JaCoCo {}: {} methods of {} classes\n",
            line(&self.version),
            t.methods,
            self.classes.len()
        );
        let columns = [
            ("", Align::Left),
            ("JaCoCo", Align::Right),
            ("", Align::Right),
            ("flow, JaCoCo's rules", Align::Right),
            ("flow", Align::Right),
            ("", Align::Right),
        ];
        let row = |name: &str, jacoco: Count, rule: Count, flow: Count| {
            let share = |c: Count| percent(c.covered, c.present);
            vec![name.to_owned(), cell(jacoco), share(jacoco), cell(rule), cell(flow), share(flow)]
        };
        let mut rows = Vec::new();
        for (name, f) in self.classes.iter().filter(|(_, f)| classes || f.different > 0) {
            rows.push(row(
                &format!("{name} instructions"),
                f.jacoco.instructions,
                f.by_rule.instructions,
                f.flow.instructions,
            ));
            rows.push(row("  branches", f.jacoco.branches, f.by_rule.branches, f.flow.branches));
        }
        rows.push(row(
            "all instructions",
            t.jacoco.instructions,
            t.by_rule.instructions,
            t.flow.instructions,
        ));
        rows.push(row("all branches", t.jacoco.branches, t.by_rule.branches, t.flow.branches));
        text += &table(&columns, &rows);
        let p = &t.probes;
        let equal = p.compared - p.flow_only - p.jacoco_only;
        text += &format!(
            "{equal} of {} probes equal, {} of them hit; {} only in the flow, {} only in JaCoCo's run\n",
            p.compared, p.hit, p.flow_only, p.jacoco_only
        );
        if p.not_told > 0 {
            text +=
                &format!("{} probes not compared, on ways that the flow does not tell apart\n", p.not_told);
        }
        text += &self.reasons();
        for (why, names) in &self.left_out {
            let some: Vec<&str> = names.iter().take(5).map(String::as_str).collect();
            let more = if names.len() > some.len() { ", …" } else { "" };
            let some = some.join(", ");
            text += &format!("{} classes not compared, {why}: {}{more}\n", names.len(), line(&some));
        }
        for (why, n) in &self.methods_left_out {
            text += &format!("{n} methods not compared, {why}\n");
        }
        text += &format!("{} of {} methods differ\n", t.different, t.methods);
        self.differences.iter().take(20).for_each(|d| text += &difference(d));
        text
    }

    fn reasons(&self) -> String {
        let r = &self.total.reasons;
        let mut text = String::from("between the flow's own counters and JaCoCo's lie:\n");
        for (counters, what) in [
            (&r.filtered, "left out, merged or given other branches by JaCoCo's filters"),
            (&r.no_probe_behind, "executed, but no later probe was passed (an exception, or the end)"),
            (&r.not_in_flow, "concluded from a later probe, not in the flow"),
            (&r.same_target, "conditionals whose two ways lead to the same instruction"),
        ] {
            let (i, b) = (counters.instructions, counters.branches);
            if (i, b) != Default::default() {
                text += &format!("  instructions {}, branches {}: {what}\n", cell(i), cell(b));
            }
        }
        if self.unresolved > 0 {
            text += &format!("the flow has {} unresolved stretches\n", self.unresolved);
        }
        text
    }
}

fn cell(c: Count) -> String {
    format!("{}/{}", c.covered, c.present)
}

fn difference(d: &JacocoDifference) -> String {
    let f = &d.figures;
    let mut text = format!(
        "{}: JaCoCo {} and {}, flow {} and {}\n",
        line(&d.method),
        cell(f.jacoco.instructions),
        cell(f.jacoco.branches),
        cell(f.by_rule.instructions),
        cell(f.by_rule.branches)
    );
    d.probes.iter().for_each(|p| text += &format!("  {}\n", line(p)));
    if d.arithmetic {
        text += "  its counters do not follow from its probes\n";
    }
    text
}
