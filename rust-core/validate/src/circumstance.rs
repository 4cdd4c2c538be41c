// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The circumstances in a flow between two compared items, to which a mismatch is attributed,
//! and figures by the tier that executed.

use std::collections::BTreeMap;

use jportal_flow::{Cause, Entry, EventKind, Exit, Tier, UnresolvedCounts};
use serde::Serialize;

use jportal_plain::table::{Align, percent, table};

/// The set of circumstances in a flow since a certain event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Behind(u16);

macro_rules! circumstances {
    ($($name:ident = $bit:literal, $text:literal;)*) => {
        impl Behind {
            $(const $name: Self = Self(1 << $bit);)*
            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$name, $text)),*];
        }
    };
}

circumstances! {
    GAP = 0, "gap";
    FOUND = 1, "found frame";
    UNRESOLVED = 2, "unresolved stretch";
    DEOPTIMISATION = 3, "deoptimisation";
    OSR = 4, "on-stack replacement";
    UNWIND = 5, "exception leaving a frame";
    CATCH = 6, "caught exception";
    UPCALL = 7, "call by the VM";
    TIER = 8, "call into another tier";
    UNKNOWN_END = 9, "frame that ended unseen";
    DEBUGGER = 10, "frame that a debugger ended";
}

impl Behind {
    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
    /// The names of the circumstances; empty when control continued in the ordinary way.
    pub(crate) fn names(self) -> Vec<&'static str> {
        Self::NAMES.iter().filter(|(bit, _)| self.0 & bit.0 != 0).map(|(_, name)| *name).collect()
    }
}

/// Follows the events of a thread.
#[derive(Debug, Default)]
pub(crate) struct Circumstances {
    /// The tiers that execute the frames on the stack.
    tiers: Vec<Tier>,
    behind: Behind,
    /// Unresolved stretches so far.
    pub(crate) unresolved: UnresolvedCounts,
    /// The last unresolved stretch since the last [`Self::take_hole`].
    hole: Option<(Tier, Cause)>,
}

impl Circumstances {
    /// The next event.
    #[inline]
    pub(crate) fn see(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::Bytecode { .. }
            | EventKind::Run { .. }
            | EventKind::Time(_)
            | EventKind::Code(_)
            | EventKind::Orphan(_) => {}
            EventKind::Enter { tier, entry, .. } => {
                let before = self.tiers.last().copied();
                self.tiers.push(tier);
                self.behind.add(match entry {
                    Entry::Osr => Behind::OSR,
                    Entry::Deoptimisation => Behind::DEOPTIMISATION,
                    Entry::Found => Behind::FOUND,
                    Entry::Upcall => Behind::UPCALL,
                    Entry::Call if before.is_some_and(|b| b != tier) => Behind::TIER,
                    Entry::Call => Behind::default(),
                });
            }
            EventKind::Leave { exit, .. } => {
                self.tiers.pop();
                self.behind.add(match exit {
                    Exit::Unwind => Behind::UNWIND,
                    Exit::Unknown => Behind::UNKNOWN_END,
                    Exit::PopFrame | Exit::EarlyReturn => Behind::DEBUGGER,
                    Exit::Return | Exit::Replaced | Exit::Lost => Behind::default(),
                });
            }
            EventKind::Catch { .. } => self.behind.add(Behind::CATCH),
            EventKind::Unresolved { cause, .. } => {
                let tier = self.tiers.last().copied().unwrap_or(Tier::C2);
                self.unresolved.add(tier, cause);
                self.hole = Some((tier, cause));
                self.behind.add(Behind::UNRESOLVED);
            }
            EventKind::Gap(ref gap) => {
                if gap.stack_lost {
                    self.tiers.clear();
                }
                self.behind.add(Behind::GAP);
            }
        }
    }
    /// Returns the circumstances since the last call, and resets them.
    #[inline]
    pub(crate) fn take(&mut self) -> Behind {
        std::mem::take(&mut self.behind)
    }
    /// Returns the last unresolved stretch since the last call, and resets it.
    #[inline]
    pub(crate) fn take_hole(&mut self) -> Option<(Tier, Cause)> {
        self.hole.take()
    }
}

/// Figures of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TierFigures {
    /// Both happened and are in the flow, in order.
    pub exact: u64,
    /// Happened and are not in the flow, though the flow claims to be complete there.
    pub missing: u64,
    /// Are in the flow and did not happen.
    pub extra: u64,
    /// Happened on an unresolved stretch of the flow.
    pub unresolved: u64,
}

impl TierFigures {
    fn add(&mut self, other: &Self) {
        self.exact += other.exact;
        self.missing += other.missing;
        self.extra += other.extra;
        self.unresolved += other.unresolved;
    }
}

/// Figures by the tier that executed. What the flow lacks counts for the tier that executed
/// what the flow has at that place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByTier {
    /// The template interpreter.
    pub interpreter: TierFigures,
    /// C1.
    pub c1: TierFigures,
    /// C2.
    pub c2: TierFigures,
}

impl ByTier {
    pub(crate) fn of(&mut self, tier: Tier) -> &mut TierFigures {
        match tier {
            Tier::Interpreter | Tier::Native => &mut self.interpreter,
            Tier::C1 => &mut self.c1,
            Tier::C2 => &mut self.c2,
        }
    }
    pub(crate) fn merge(&mut self, other: &Self) {
        self.interpreter.add(&other.interpreter);
        self.c1.add(&other.c1);
        self.c2.add(&other.c2);
    }
    /// As a table; `what` names the counted items.
    pub(crate) fn text(&self, what: &str) -> String {
        let rows =
            [("interpreter", &self.interpreter), ("C1", &self.c1), ("C2", &self.c2)].map(|(name, f)| {
                let all = f.exact + f.missing + f.unresolved;
                let share = if f.exact == all { percent(f.exact, all) } else { fine_percent(f.exact, all) };
                vec![
                    name.to_owned(),
                    all.to_string(),
                    f.exact.to_string(),
                    share,
                    (f.missing + f.extra).to_string(),
                    f.unresolved.to_string(),
                ]
            });
        let mut columns = vec![("executed by", Align::Left), (what, Align::Right)];
        columns.extend(["exact", "", "wrong", "unresolved"].map(|name| (name, Align::Right)));
        table(&columns, &rows)
    }
}

/// With four decimals, so that one in a million shows.
fn fine_percent(part: u64, whole: u64) -> String {
    format!("{:.4}%", 100.0 * part as f64 / whole as f64)
}

/// Unresolved stretches of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnresolvedGroup {
    /// The tier that executed the frame.
    pub tier: &'static str,
    /// Stable name ([`Cause::name`]).
    pub cause: &'static str,
    /// Stretches in the flow, including those without compared items.
    pub stretches: u64,
    /// Compared items that lie in them.
    pub hidden: u64,
}

/// Number of compared items that lie in unresolved stretches, by tier and cause.
pub(crate) type Hidden = BTreeMap<(Tier, Cause), u64>;

pub(crate) fn unresolved_groups(counts: &UnresolvedCounts, hidden: &Hidden) -> Vec<UnresolvedGroup> {
    let group = |(tier, cause, stretches): (Tier, Cause, u64)| UnresolvedGroup {
        tier: tier.name(),
        cause: cause.name(),
        stretches,
        hidden: hidden.get(&(tier, cause)).copied().unwrap_or(0),
    };
    let mut groups: Vec<_> = counts.iter().map(group).collect();
    groups.sort_by_key(|g| std::cmp::Reverse((g.hidden, g.stretches)));
    groups
}

pub(crate) fn unresolved_text(groups: &[UnresolvedGroup], what: &str) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let row = |g: &UnresolvedGroup| {
        vec![g.cause.to_owned(), g.tier.to_owned(), g.stretches.to_string(), g.hidden.to_string()]
    };
    let hidden = format!("{what} hidden");
    let columns = [
        ("unresolved because", Align::Left),
        ("in", Align::Left),
        ("stretches", Align::Right),
        (hidden.as_str(), Align::Right),
    ];
    table(&columns, &groups.iter().map(row).collect::<Vec<_>>())
}

/// How flow and truth differ at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MismatchKind {
    Missing,
    Extra,
    Other,
}

impl MismatchKind {
    pub(crate) const fn of(missing: u64, extra: u64) -> Self {
        match (missing, extra) {
            (_, 0) => Self::Missing,
            (0, _) => Self::Extra,
            _ => Self::Other,
        }
    }
    const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Other => "other path",
        }
    }
}

/// The properties by which mismatches are grouped: tier, kind of difference, and circumstances
/// before the mismatch.
pub(crate) type GroupKey = (Tier, MismatchKind, Behind);

/// A group of similar mismatches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MismatchGroup {
    /// The tier that executed.
    pub tier: &'static str,
    /// `missing`: the flow lacks something that happened; `extra`: the flow has something that
    /// did not happen; `other path`: both.
    pub kind: &'static str,
    /// The circumstances in the flow between the last agreement and the mismatch; empty when
    /// control continued in the ordinary way.
    pub behind: Vec<&'static str>,
    /// Number of places.
    pub places: u64,
    /// Sum of the missing items over the places.
    pub missing: u64,
    /// Sum of the extra items over the places.
    pub extra: u64,
    /// Description of the first place.
    pub first: String,
}

/// Sums of a group, and its first member.
#[derive(Clone, Debug)]
pub(crate) struct Grouped<T> {
    pub(crate) places: u64,
    pub(crate) missing: u64,
    pub(crate) extra: u64,
    pub(crate) first: T,
}

pub(crate) type Groups<T> = BTreeMap<GroupKey, Grouped<T>>;

/// Adds a place to its group.
pub(crate) fn group<T>(groups: &mut Groups<T>, key: GroupKey, (missing, extra): (u64, u64), first: T) {
    let g = groups.entry(key).or_insert(Grouped { places: 0, missing: 0, extra: 0, first });
    g.places += 1;
    g.missing += missing;
    g.extra += extra;
}

/// The groups, most places first; `words` describes where a member is.
pub(crate) fn mismatch_groups<T>(groups: &Groups<T>, words: impl Fn(&T) -> String) -> Vec<MismatchGroup> {
    let one = |(&(tier, kind, behind), g): (&GroupKey, &Grouped<T>)| MismatchGroup {
        tier: tier.name(),
        kind: kind.name(),
        behind: behind.names(),
        places: g.places,
        missing: g.missing,
        extra: g.extra,
        first: words(&g.first),
    };
    let mut all: Vec<_> = groups.iter().map(one).collect();
    all.sort_by_key(|g| std::cmp::Reverse(g.places));
    all
}

pub(crate) fn mismatch_text(groups: &[MismatchGroup]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let row = |g: &MismatchGroup| {
        let behind = if g.behind.is_empty() { "nothing special".to_owned() } else { g.behind.join(", ") };
        let mut cells = vec![g.kind.to_owned(), g.tier.to_owned(), behind];
        cells.extend([g.places, g.missing, g.extra].map(|n| n.to_string()));
        cells.push(g.first.clone());
        cells
    };
    let columns = [
        ("mismatch", Align::Left),
        ("in", Align::Left),
        ("behind", Align::Left),
        ("places", Align::Right),
        ("missing", Align::Right),
        ("extra", Align::Right),
        ("first", Align::Left),
    ];
    table(&columns, &groups.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, gap, leave_as};
    use jportal_units::MethodId;

    #[test]
    fn what_stands_between_is_remembered_once() {
        let mut c = Circumstances::default();
        for e in [
            enter(1),
            bytecode(1, 0),
            enter_as(2, Entry::Deoptimisation),
            leave_as(2, Exit::Unwind),
            gap(false),
        ] {
            c.see(&e.kind);
        }
        assert_eq!(c.take().names(), ["gap", "deoptimisation", "exception leaving a frame"]);
        assert!(c.take().names().is_empty());
        let compiled = EventKind::Enter { method: MethodId(3), tier: Tier::C1, entry: Entry::Call };
        c.see(&compiled);
        let hole = EventKind::Unresolved {
            method: MethodId(3),
            from: None,
            to: None,
            cause: Cause::EmptyLoop,
            callers: 0,
        };
        c.see(&hole);
        assert_eq!(c.take().names(), ["unresolved stretch", "call into another tier"]);
        assert_eq!((c.take_hole(), c.take_hole()), (Some((Tier::C1, Cause::EmptyLoop)), None));
        assert_eq!(c.unresolved.total(), 1);
    }

    #[test]
    fn groups_add_up() {
        let mut groups = Groups::new();
        let key = (Tier::C2, MismatchKind::of(3, 0), Behind::OSR);
        group(&mut groups, key, (3, 0), 7);
        group(&mut groups, key, (1, 0), 8);
        group(&mut groups, (Tier::C2, MismatchKind::of(1, 1), Behind::default()), (1, 1), 9);
        let all = mismatch_groups(&groups, ToString::to_string);
        assert_eq!((all[0].kind, all[0].places, all[0].missing, &*all[0].first), ("missing", 2, 4, "7"));
        assert_eq!(all[1].kind, "other path");
        let text = mismatch_text(&all);
        assert!(text.contains("on-stack replacement") && text.contains("nothing special"), "{text}");
    }

    #[test]
    fn one_in_a_million_shows() {
        let mut tiers = ByTier::default();
        *tiers.of(Tier::C2) = TierFigures { exact: 999_999, missing: 1, extra: 0, unresolved: 0 };
        assert!(tiers.text("probes").contains("99.9999%"), "{}", tiers.text("probes"));
    }
}
