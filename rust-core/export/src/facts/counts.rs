// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The 19 counts of a block (JBInsTrace, section 3.2.1), in the order of the paper.

use jportal_bytecode::{Constant, Instruction, Method, Opcode, Transfer};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The names of the counts.
pub const NAMES: [&str; 19] = [
    "instructions",
    "array_reads",
    "array_writes",
    "floating_point",
    "reference_loads",
    "control",
    "changing_control",
    "own_object_reads",
    "own_object_writes",
    "own_primitive_reads",
    "own_primitive_writes",
    "other_object_reads",
    "other_object_writes",
    "other_primitive_reads",
    "other_primitive_writes",
    "other_class_calls",
    "allocations",
    "virtual_calls",
    "static_calls",
];

/// The counts that need the class and type of each field, which older captures do not have.
pub(super) const OF_FIELDS: std::ops::Range<usize> = 7..15;

/// The 19 counts of a block. `None`: unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts(pub [Option<u32>; 19]);

impl Counts {
    /// The counts of no instruction. `fields`: whether the fields that the method accesses are
    /// known.
    pub(super) fn none(fields: bool) -> Self {
        let mut all = [Some(0); 19];
        if !fields {
            all[OF_FIELDS].fill(None);
        }
        Self(all)
    }
    /// The names of the known counts, and the counts.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        NAMES.iter().zip(self.0).filter_map(|(name, n)| Some((*name, n?)))
    }
    /// All counts in order, separated by spaces; `-` for an unknown one.
    pub fn text(&self) -> String {
        let text = |n: &Option<u32>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        self.0.iter().map(text).collect::<Vec<_>>().join(" ")
    }
    fn add(&mut self, paper: usize, counts: bool) {
        if let Some(Some(n)) = self.0.get_mut(paper - 1) {
            *n += u32::from(counts);
        }
    }
    /// Counts an instruction of `method`.
    pub(super) fn count(&mut self, method: &Method, i: &Instruction<'_>) {
        let (op, transfer) = (i.opcode, i.opcode.transfer());
        let within = |all: &[std::ops::RangeInclusive<u8>]| all.iter().any(|range| range.contains(&op.0));
        self.add(1, true);
        self.add(2, within(&[46..=53]));
        self.add(3, within(&[79..=86]));
        self.add(4, is_floating_point(op));
        self.add(5, within(&[25..=25, 42..=45]));
        self.add(6, !matches!(transfer, Transfer::None | Transfer::Invoke));
        self.add(7, may_change(i));
        self.add(17, within(&[187..=189, 197..=197]));
        self.add(18, matches!(op, Opcode::INVOKEVIRTUAL | Opcode::INVOKEINTERFACE));
        self.add(19, op == Opcode::INVOKESTATIC);
        if let Some(write) = field_access(op) {
            match method.constant_of(i) {
                Some(Constant::Field { class_name, descriptor, .. }) => {
                    let other = *class_name != method.class_name;
                    let primitive = !descriptor.starts_with(['L', '[']);
                    let count = 8 + usize::from(write) + 2 * usize::from(primitive) + 4 * usize::from(other);
                    self.add(count, true);
                }
                _ => self.0[OF_FIELDS].fill(None),
            }
        }
        if transfer == Transfer::Invoke {
            match method.invoke_at(i.bci) {
                Some(to) => self.add(16, !to.class_name.is_empty() && to.class_name != method.class_name),
                None if op == Opcode::INVOKEDYNAMIC => {}
                // The target of the call is not known, and so is its class.
                None => self.0[15] = None,
            }
        }
    }
}

/// Whether an instruction accesses a field, static or not: `Some(true)` if it writes it.
fn field_access(op: Opcode) -> Option<bool> {
    match op {
        Opcode::GETSTATIC | Opcode::GETFIELD => Some(false),
        Opcode::PUTSTATIC | Opcode::PUTFIELD => Some(true),
        _ => None,
    }
}

/// Whether an instruction computes with `float` or `double`: arithmetic, comparisons and
/// conversions, but no loads, stores and constants.
const fn is_floating_point(op: Opcode) -> bool {
    match op.0 {
        // add, sub, mul, div, rem, neg: int, long, float, double in turn.
        96..=119 => op.0 % 4 >= 2,
        // i2f, i2d, l2f, l2d, and all from float and double.
        134 | 135 | 137..=144 => true,
        149..=152 => true,
        _ => false,
    }
}

/// Whether the instruction is a conditional or a switch with at least two different ways.
fn may_change(i: &Instruction<'_>) -> bool {
    match i.opcode.transfer() {
        Transfer::If => !matches!(i.branch_target(), Ok(Some(to)) if to == i.next()),
        Transfer::Switch => {
            let default = i.switch_default();
            (0..i.switch_len()).any(|n| i.switch_case(n) != default)
        }
        _ => false,
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (name, n) in self.known() {
            map.serialize_entry(name, &n)?;
        }
        map.end()
    }
}
