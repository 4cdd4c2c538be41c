// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The figures of the paper's Table 3, and the other counts of a comparison.

use serde::Serialize;

use jportal_flow::Tally;
use jportal_plain::table::{Align, table};

/// Bins of confidence, a twentieth each.
pub(crate) const BINS: usize = 20;

/// The bin of a confidence. NaN and values below 0 belong to the first bin.
pub(crate) fn bin(confidence: f32) -> usize {
    ((confidence * BINS as f32) as usize).min(BINS - 1)
}

/// Bytecodes with a counterpart in the truth and without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// With a counterpart.
    pub right: u64,
    /// Without a counterpart.
    pub wrong: u64,
}

/// The counts of one thread or of all threads, from which the [`Shares`] follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccuracyFigures {
    /// Bytes of PT in the truth.
    pub truth_bytes: u64,
    /// Bytes of PT in the capture.
    pub capture_bytes: u64,
    /// Bytecodes of the truth.
    pub truth: u64,
    /// Bytecodes of the truth that ran while trace was being lost.
    pub lost: u64,
    /// Bytecodes of the capture's flow.
    pub flow: Tally,
    /// Bytecodes of the capture's flow that have a counterpart in the truth.
    pub right: Tally,
    /// Bytecodes of the capture's flow that have none.
    pub wrong: Tally,
    /// The placed bytecodes with one path.
    pub certain: Judged,
    /// Right filled bytecodes whose counterpart ran while trace was being lost.
    pub recovered_of_lost: u64,
    /// Bytecodes of the truth without a counterpart that ran while trace was being lost.
    pub missing_lost: u64,
    /// Bytecodes of the truth without a counterpart whose trace was captured.
    pub missing_captured: u64,
    /// Orphan bytecodes of the capture: only the opcode is known, not the frame. They are among
    /// the missing bytecodes.
    pub orphans: u64,
    /// Gaps of the capture at which no trace was lost.
    pub other_gaps: u64,
    /// Unresolved stretches of the truth, whose bytecodes are not known.
    pub unresolved_truth: u64,
}

impl AccuracyFigures {
    /// Adds the figures of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.truth_bytes += other.truth_bytes;
        self.capture_bytes += other.capture_bytes;
        self.truth += other.truth;
        self.lost += other.lost;
        self.flow.merge(&other.flow);
        self.right.merge(&other.right);
        self.wrong.merge(&other.wrong);
        self.certain.right += other.certain.right;
        self.certain.wrong += other.certain.wrong;
        self.recovered_of_lost += other.recovered_of_lost;
        self.missing_lost += other.missing_lost;
        self.missing_captured += other.missing_captured;
        self.orphans += other.orphans;
        self.other_gaps += other.other_gaps;
        self.unresolved_truth += other.unresolved_truth;
    }
    /// The paper's figures.
    pub fn shares(&self) -> Shares {
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        let captured = self.right.decoded + self.right.projected;
        let pmd = share(self.truth_bytes.saturating_sub(self.capture_bytes), self.truth_bytes);
        Shares {
            pmd,
            pmd_flow: share(self.lost, self.truth),
            pr: share(self.right.recovered, self.truth),
            ra: share(self.recovered_of_lost, self.lost),
            pdc: pmd.map(|p| 1.0 - p),
            pdc_flow: share(self.truth - self.lost, self.truth),
            pd: share(captured, self.truth),
            da: share(captured, self.truth - self.lost),
            overall: share(self.right.total(), self.truth),
            decoded_right: share(self.right.decoded, self.flow.decoded),
            recovered_right: share(self.right.recovered, self.flow.recovered),
        }
    }
}

/// Table 3 and Figure 7 of the paper, each between 0 and 1, `None` if the divisor is 0. [The
/// module](super) defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// PMD: bytes of trace lost, of the truth's.
    pub pmd: Option<f64>,
    /// The same in bytecodes.
    pub pmd_flow: Option<f64>,
    /// PR: right filled bytecodes, of the truth's.
    pub pr: Option<f64>,
    /// RA: right filled bytecodes, of the lost ones.
    pub ra: Option<f64>,
    /// PDC: bytes of trace captured, of the truth's.
    pub pdc: Option<f64>,
    /// The same in bytecodes.
    pub pdc_flow: Option<f64>,
    /// PD: right decoded or placed bytecodes, of the truth's.
    pub pd: Option<f64>,
    /// DA: right decoded or placed bytecodes, of the captured ones.
    pub da: Option<f64>,
    /// Figure 7: PD + PR.
    pub overall: Option<f64>,
    /// Not in the paper: the share of the decoded bytecodes that are right.
    pub decoded_right: Option<f64>,
    /// Not in the paper: the share of the filled bytecodes that are right.
    pub recovered_right: Option<f64>,
}

/// The filled bytecodes with about the same confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// Least confidence.
    pub from: f64,
    /// Least confidence of the next bin.
    pub to: f64,
    /// Filled bytecodes.
    pub bytecodes: u64,
    /// Right ones among them.
    pub right: u64,
    /// Mean of their confidences.
    pub claimed: f64,
}

/// Filled bytecodes by bin: all, right, sum of the confidences.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reliability {
    pub(crate) all: [u64; BINS],
    pub(crate) right: [u64; BINS],
    pub(crate) claimed: [f64; BINS],
}

impl Reliability {
    pub(crate) fn merge(&mut self, other: &Self) {
        for n in 0..BINS {
            self.all[n] += other.all[n];
            self.right[n] += other.right[n];
            self.claimed[n] += other.claimed[n];
        }
    }
    /// The bins that are not empty.
    pub(crate) fn bins(&self) -> Vec<Bin> {
        let bin = |n: usize| Bin {
            from: n as f64 / BINS as f64,
            to: (n + 1) as f64 / BINS as f64,
            bytecodes: self.all[n],
            right: self.right[n],
            claimed: self.claimed[n] / self.all[n] as f64,
        };
        (0..BINS).filter(|&n| self.all[n] > 0).map(bin).collect()
    }
}

/// A stretch of captured bytecodes that are not in the truth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongStretch {
    /// OS thread id.
    pub tid: u32,
    /// When the thread started (TSC).
    pub started: u64,
    /// Captured bytecodes of the thread before it.
    pub at: u64,
    /// Bytecodes of the truth before it.
    pub truth_at: u64,
    /// Number of bytecodes.
    pub bytecodes: u64,
    /// Number of bytecodes that the truth has instead.
    pub instead: u64,
    /// A gap is right before, inside or right after the stretch.
    pub at_gap: bool,
    /// The first bytecodes of the stretch.
    pub found: Vec<String>,
    /// The first bytecodes that the truth has instead.
    pub expected: Vec<String>,
}

/// Figures of one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadAccuracy {
    /// OS thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// When it started (TSC).
    pub started: u64,
    /// The counts.
    pub figures: AccuracyFigures,
    /// The shares that follow from the counts.
    pub shares: Shares,
}

/// Result of [`compare`](super::compare()).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Accuracy {
    /// All threads together.
    pub total: AccuracyFigures,
    /// The shares that follow from `total`.
    pub shares: Shares,
    /// By thread, in order of start.
    pub threads: Vec<ThreadAccuracy>,
    /// Filled bytecodes by confidence.
    pub reliability: Vec<Bin>,
    /// Mean distance between the claimed confidence and the share of right bytecodes, weighted
    /// by bytecodes; `None` if there are no filled bytecodes.
    pub calibration_error: Option<f64>,
    /// Wrong stretches of captured bytecodes.
    pub wrong_stretches: u64,
    /// The longest of them, the longest first.
    pub worst: Vec<WrongStretch>,
}

impl Accuracy {
    pub(crate) fn calibrated(mut self, reliability: &Reliability) -> Self {
        self.reliability = reliability.bins();
        let all: u64 = self.reliability.iter().map(|b| b.bytecodes).sum();
        let off = |b: &Bin| (b.claimed * b.bytecodes as f64 - b.right as f64).abs();
        self.calibration_error =
            (all > 0).then(|| self.reliability.iter().map(off).sum::<f64>() / all as f64);
        self
    }
    /// Whether no decoded bytecode is wrong.
    pub const fn decoded_is_right(&self) -> bool {
        self.total.wrong.decoded == 0
    }
    /// As tables.
    pub fn text(&self) -> String {
        let mut text = self.shares_text();
        text += &self.counts_text();
        text += &self.reliability_text();
        text += &self.wrong_text();
        text
    }

    fn shares_text(&self) -> String {
        use Align::{Left, Right};
        const COLUMNS: [(&str, Align); 11] = [
            ("thread", Right),
            ("bytecodes", Right),
            ("PMD", Right),
            ("lost", Right),
            ("PR", Right),
            ("RA", Right),
            ("PDC", Right),
            ("PD", Right),
            ("DA", Right),
            ("overall", Right),
            ("name", Left),
        ];
        let row = |id: String, f: &AccuracyFigures, s: &Shares, name: &str| {
            let mut cells = vec![id, f.truth.to_string()];
            cells.extend([s.pmd, s.pmd_flow, s.pr, s.ra, s.pdc, s.pd, s.da, s.overall].map(percent));
            cells.push(name.to_owned());
            cells
        };
        let mut rows: Vec<Vec<String>> =
            self.threads.iter().map(|t| row(t.tid.to_string(), &t.figures, &t.shares, &t.name)).collect();
        rows.push(row("all".into(), &self.total, &self.shares, ""));
        table(&COLUMNS, &rows)
    }

    fn counts_text(&self) -> String {
        use Align::{Left, Right};
        let t = &self.total;
        let row = |name: &str, right: u64, wrong: u64| {
            let share = (right + wrong > 0).then(|| right as f64 / (right + wrong) as f64);
            vec![name.to_owned(), right.to_string(), wrong.to_string(), percent(share)]
        };
        let rows = [
            row("decoded", t.right.decoded, t.wrong.decoded),
            row("projected", t.right.projected, t.wrong.projected),
            row("  one path", t.certain.right, t.certain.wrong),
            row("recovered", t.right.recovered, t.wrong.recovered),
        ];
        let columns = [("", Left), ("right", Right), ("wrong", Right), ("share right", Right)];
        format!(
            "\n{}missing: {} lost, {} captured but not decoded ({} of known opcode, {} gaps without lost trace)\n\
             of the recovered, {} fill lost trace and {} what was captured but not decoded\n",
            table(&columns, &rows),
            t.missing_lost,
            t.missing_captured,
            t.orphans,
            t.other_gaps,
            t.recovered_of_lost,
            t.right.recovered - t.recovered_of_lost,
        )
    }

    fn reliability_text(&self) -> String {
        use Align::Right;
        if self.reliability.is_empty() {
            return String::new();
        }
        let row = |b: &Bin| {
            let right = b.right as f64 / b.bytecodes as f64;
            vec![
                format!("{:.2} to {:.2}", b.from, b.to),
                b.bytecodes.to_string(),
                percent(Some(b.claimed)),
                percent(Some(right)),
            ]
        };
        let rows: Vec<Vec<String>> = self.reliability.iter().map(row).collect();
        let columns = [("confidence", Right), ("recovered", Right), ("claimed", Right), ("right", Right)];
        let error = percent(self.calibration_error);
        format!("\n{}claimed and right differ by {error} in the mean\n", table(&columns, &rows))
    }

    fn wrong_text(&self) -> String {
        if self.wrong_stretches == 0 {
            return String::new();
        }
        let mut text =
            format!("\n{} wrong stretches of captured bytecodes, the longest:\n", self.wrong_stretches);
        for w in &self.worst {
            let gap = if w.at_gap { ", at a gap" } else { "" };
            text += &format!(
                "thread {}, after {} captured bytecodes ({} of the truth{gap}): {} instead of {}\n",
                w.tid, w.at, w.truth_at, w.bytecodes, w.instead
            );
            for (name, lines) in [("found", &w.found), ("truth", &w.expected)] {
                lines.iter().for_each(|l| text += &format!("  {name} {}\n", jportal_plain::line(l)));
            }
        }
        text
    }
}

/// In per cent with two decimals, as in the paper; `-` for `None`.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{:.2}%", 100.0 * s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_those_of_table_3() {
        // H2 with 128 MB in the paper, in hundredths of a per cent of the truth: 54.36 captured
        // and decoded, 16.95 lost and filled.
        let f = AccuracyFigures {
            truth_bytes: 10_000,
            capture_bytes: 7197,
            truth: 10_000,
            lost: 2803,
            right: Tally { decoded: 5436, projected: 0, recovered: 1695 },
            recovered_of_lost: 1695,
            ..AccuracyFigures::default()
        };
        let s = f.shares();
        let hundredths = |s: Option<f64>| (1e4 * s.unwrap()).round() as u64;
        assert_eq!([s.pmd, s.pr, s.ra].map(hundredths), [2803, 1695, 6047]);
        assert_eq!([s.pdc, s.pd, s.da].map(hundredths), [7197, 5436, 7553]);
        assert_eq!(hundredths(s.overall), 7131, "71.3% in Figure 7");
    }

    #[test]
    fn nothing_has_no_share() {
        assert_eq!(AccuracyFigures::default().shares(), Shares::default());
        assert_eq!(percent(None), "-");
    }

    #[test]
    fn confidences_have_their_bins() {
        assert_eq!(
            [0.0, 0.049, 0.05, 0.5, 0.999, 1.0, 7.0, -1.0, f32::NAN].map(bin),
            [0, 0, 1, 10, 19, 19, 19, 0, 0]
        );
    }

    #[test]
    fn a_reliability_table() {
        let mut r = Reliability::default();
        (r.all[10], r.right[10], r.claimed[10]) = (10, 6, 5.0);
        (r.all[19], r.right[19], r.claimed[19]) = (30, 24, 30.0);
        let a = Accuracy::default().calibrated(&r);
        // Of the 40 bytecodes, bin 10 claims one too few and bin 19 claims six too many.
        assert_eq!(a.calibration_error, Some(7.0 / 40.0));
        assert_eq!(a.reliability[1].claimed, 1.0);
        assert!(a.text().contains("0.50 to 0.55         10   50.00%  60.00%"), "{}", a.text());
        assert!(a.text().contains("differ by 17.50%"), "{}", a.text());
    }
}
