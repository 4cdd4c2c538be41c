// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The bytecode of a method, with counts.

use std::fmt::Write;

use jportal_bytecode::{Instruction, Method, Opcode, Shape, Transfer, instructions};
use jportal_units::Bci;

/// How often something was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Executions seen.
    pub seen: u64,
    /// Whether there were no others. If none was seen either, the item was missed; if it is not
    /// known whether there were others, it is unknown.
    pub exact: bool,
}

/// The bytecode of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The instructions, by bci.
    pub rows: Vec<ListingRow>,
    /// The ways of its branches, by bci and destination.
    pub ways: Vec<BranchWay>,
    /// Exception handlers: first covered bci, first bci after that, handler, caught class.
    pub handlers: Vec<(u16, u16, u16, String)>,
    /// Whether the rest of the code could not be parsed.
    pub malformed: bool,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingRow {
    /// Its place.
    pub bci: u16,
    /// Its source line, if known.
    pub line: Option<u16>,
    /// Mnemonic and operands.
    pub text: String,
    /// How often it began.
    pub times: Times,
}

/// A way of a conditional or a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchWay {
    /// The branch.
    pub from: u16,
    /// Its destination. Cases with the same destination are one way.
    pub to: u16,
    /// How often the branch led there.
    pub times: Times,
}

impl Listing {
    /// The bytecode of `method`. `counts` says how often the instruction at a bci began, `ways` how
    /// often a branch led to a destination; `None` if the ways were not counted.
    pub fn of(
        method: &Method,
        counts: impl Fn(Bci) -> Times,
        ways: Option<&dyn Fn(Bci, Bci) -> Times>,
    ) -> Self {
        let mut listing = Self::default();
        for instruction in instructions(&method.code) {
            let Ok(i) = instruction else {
                listing.malformed = true;
                break;
            };
            let (bci, line) = (i.bci.get(), method.line_at(i.bci));
            listing.rows.push(ListingRow { bci, line, text: text(method, &i), times: counts(i.bci) });
        }
        if let Some(ways) = ways {
            for branch in &Shape::of(method).branches {
                let all = branch.successors.iter().map(|to| BranchWay {
                    from: branch.bci.get(),
                    to: to.get(),
                    times: ways(branch.bci, *to),
                });
                listing.ways.extend(all);
            }
        }
        let rows = method.exceptions.iter();
        listing.handlers = rows
            .map(|r| {
                let caught = r.catch_type.as_deref().unwrap_or("any").replace('/', ".");
                (r.start.get(), r.end.get(), r.handler.get(), caught)
            })
            .collect();
        listing
    }
}

/// `invokestatic java.lang.Math.abs(I)I`, `goto 12`, `iinc 3, 1`. Operands that only the constant
/// pool knows are left out.
fn text(method: &Method, i: &Instruction<'_>) -> String {
    let mut text = i.opcode.name().to_owned();
    if i.wide {
        text.insert_str(0, "wide ");
    }
    // Writing to a string does not fail.
    let _ = match i.opcode.transfer() {
        Transfer::Invoke => invoke(&mut text, method, i.bci),
        Transfer::Switch => switch(&mut text, i),
        _ => match i.branch_target() {
            Ok(Some(to)) => write!(text, " {to}"),
            Ok(None) => operand(&mut text, method, i),
            Err(_) => write!(text, " (outside of the code)"),
        },
    };
    text
}

fn invoke(text: &mut String, method: &Method, bci: Bci) -> std::fmt::Result {
    match method.invoke_at(bci) {
        Some(i) if i.class_name.is_empty() => write!(text, " {}{}", i.name, i.signature),
        Some(i) => write!(text, " {}.{}{}", i.class_name.replace('/', "."), i.name, i.signature),
        None => Ok(()),
    }
}

/// The cases of a switch that the text of a row contains; the branch ways have all destinations.
const CASES: usize = 8;

fn switch(text: &mut String, i: &Instruction<'_>) -> std::fmt::Result {
    let Ok(Some(switch)) = i.switch() else { return write!(text, " (outside of the code)") };
    for (key, to) in switch.cases.iter().take(CASES) {
        write!(text, " {key}: {to},")?;
    }
    if switch.cases.len() > CASES {
        write!(text, " … {} more,", switch.cases.len() - CASES)?;
    }
    write!(text, " default: {}", switch.default)
}

fn operand(text: &mut String, method: &Method, i: &Instruction<'_>) -> std::fmt::Result {
    let at = usize::from(i.bci.get()) + usize::from(i.wide);
    let byte = |n: usize| method.code.get(at + n).copied().unwrap_or_default();
    let short = |n: usize| u16::from_be_bytes([byte(n), byte(n + 1)]);
    let local = if i.wide { short(1) } else { byte(1).into() };
    match i.opcode {
        Opcode::BIPUSH => write!(text, " {}", byte(1) as i8),
        Opcode::SIPUSH => write!(text, " {}", short(1) as i16),
        Opcode(21..=25 | 54..=58 | 169) => write!(text, " {local}"),
        Opcode::IINC if i.wide => write!(text, " {local}, {}", short(3) as i16),
        Opcode::IINC => write!(text, " {local}, {}", byte(2) as i8),
        Opcode::NEWARRAY => {
            let types = ["boolean", "char", "float", "double", "byte", "short", "int", "long"];
            let name = usize::from(byte(1)).checked_sub(4).and_then(|n| types.get(n));
            write!(text, " {}", name.unwrap_or(&"?"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_bytecode::LineRow;
    use jportal_bytecode::testing::{BRANCHY, calls, method, row};

    fn texts(code: &[u8]) -> Vec<String> {
        let m = Method { invokes: [calls(0, "b/B", "g")].into(), ..method("f", code) };
        Listing::of(&m, |_| Times::default(), None).rows.into_iter().map(|r| r.text).collect()
    }

    #[test]
    fn operands_are_those_of_the_code() {
        assert_eq!(texts(&[184, 0, 1, 177]), ["invokestatic b.B.g()V", "return"]);
        assert_eq!(texts(&[16, 0xff, 17, 0x80, 0, 21, 200]), ["bipush -1", "sipush -32768", "iload 200"]);
        assert_eq!(texts(&[132, 3, 0xfe]), ["iinc 3, -2"]);
        assert_eq!(texts(&[196, 132, 1, 0, 0xff, 0xfe]), ["wide iinc 256, -2"]);
        assert_eq!(texts(&[196, 21, 1, 1]), ["wide iload 257"]);
        assert_eq!(texts(&[188, 10, 188, 3]), ["newarray int", "newarray ?"]);
        assert_eq!(texts(&[167, 0, 3, 167, 0, 99]), ["goto 3", "goto (outside of the code)"]);
        let switch = [170, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 24, 0, 0, 0, 0, 177];
        assert_eq!(texts(&switch)[0], "tableswitch 5: 24, 6: 0, default: 0");
    }

    #[test]
    fn a_listing_has_lines_counts_ways_and_handlers() {
        let mut m = method("f", BRANCHY);
        m.lines = [LineRow { bci: Bci(4), line: 7 }].into();
        m.exceptions = [row(0, 4, 8, None), row(0, 4, 9, Some("a/E"))].into();
        let counts = |bci: Bci| Times { seen: u64::from(bci.get()), exact: bci.get() != 5 };
        let ways = |from: Bci, to: Bci| Times { seen: u64::from(from.get() + to.get()), exact: true };
        let l = Listing::of(&m, counts, Some(&ways));
        let rows: Vec<_> = l.rows.iter().map(|r| (r.bci, r.line, r.times.seen, r.times.exact)).collect();
        let lines = [None, None, Some(7), Some(7), Some(7), Some(7)];
        let expected: Vec<_> = [0, 1, 4, 5, 8, 9]
            .iter()
            .zip(lines)
            .map(|(bci, line)| (*bci, line, u64::from(*bci), *bci != 5))
            .collect();
        assert_eq!(rows, expected);
        let ways: Vec<_> = l.ways.iter().map(|w| (w.from, w.to, w.times.seen)).collect();
        assert_eq!(ways, [(1, 4, 5), (1, 8, 9)]);
        assert_eq!(l.handlers, [(0, 4, 8, "any".to_owned()), (0, 4, 9, "a.E".to_owned())]);
        assert!(!l.malformed);
    }

    #[test]
    fn malformed_code_ends_the_listing() {
        let l = Listing::of(&method("f", &[3, 255]), |_| Times::default(), None);
        assert_eq!((l.rows.len(), l.malformed), (1, true));
    }
}
