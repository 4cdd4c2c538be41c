// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Instructions as text.

use jportal_bytecode::{Instruction, Method, Opcode, Transfer};
use jportal_units::Bci;

/// The instruction at `bci` with the operands that a capture has: targets, callees, local
/// variables and constants. Class files' constant pools are not in captures.
pub(crate) fn instruction(method: &Method, bci: Bci) -> String {
    match Instruction::at(&method.code, bci.get().into()) {
        Ok(i) => {
            let wide = if i.wide { "wide " } else { "" };
            format!("{wide}{}{}", i.opcode.name(), operands(method, &i))
        }
        Err(_) => "?".to_owned(),
    }
}

fn operands(method: &Method, i: &Instruction<'_>) -> String {
    match i.opcode.transfer() {
        Transfer::If | Transfer::Goto | Transfer::Jsr => match i.branch_target() {
            Ok(Some(to)) => format!(" {to}"),
            _ => " ?".to_owned(),
        },
        Transfer::Switch => cases(i),
        Transfer::Invoke => callee(method, i.bci),
        _ => constants(method, i),
    }
}

fn cases(i: &Instruction<'_>) -> String {
    let Ok(Some(switch)) = i.switch() else { return " ?".to_owned() };
    let cases = switch.cases.iter().map(|(key, to)| format!("{key}: {to}, "));
    format!(" {}default: {}", cases.collect::<String>(), switch.default)
}

fn callee(method: &Method, bci: Bci) -> String {
    let Some(callee) = method.invoke_at(bci) else { return String::new() };
    let class = callee.class_name.replace('/', ".");
    let dot = if class.is_empty() { "" } else { "." };
    format!(" {class}{dot}{}{}", callee.name, callee.signature)
}

fn constants(method: &Method, i: &Instruction<'_>) -> String {
    let at = usize::from(i.bci.get()) + if i.wide { 2 } else { 1 };
    let byte = |n: usize| method.code.get(at + n).copied().unwrap_or(0);
    let short = |n: usize| u16::from_be_bytes([byte(n), byte(n + 1)]);
    match i.opcode {
        Opcode::BIPUSH | Opcode::SIPUSH => i.int_constant().map_or_else(String::new, |n| format!(" {n}")),
        Opcode::IINC if i.wide => format!(" {} {}", short(0), short(2) as i16),
        Opcode::IINC => format!(" {} {}", byte(0), byte(1) as i8),
        // Loads and stores with the number of a local variable, and ret.
        Opcode(21..=25 | 54..=58 | 169) if i.wide => format!(" {}", short(0)),
        Opcode(21..=25 | 54..=58 | 169) => format!(" {}", byte(0)),
        Opcode::MULTIANEWARRAY => format!(" {} dimensions", byte(2)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_bytecode::testing::{calls, method};

    #[test]
    fn operands_that_a_capture_has() {
        let mut m = method(
            "f",
            &[21, 7, 132, 1, 255, 184, 0, 9, 153, 255, 248, 196, 132, 1, 0, 255, 255, 16, 200, 177],
        );
        m.invokes = Box::new([calls(5, "a/B", "g")]);
        let text = |bci| instruction(&m, Bci(bci));
        assert_eq!(
            [0, 2, 5, 8, 11, 17, 19].map(text),
            [
                "iload 7",
                "iinc 1 -1",
                "invokestatic a.B.g()V",
                "ifeq 0",
                "wide iinc 256 -1",
                "bipush -56",
                "return"
            ]
        );
        // tableswitch at 0: low 5, high 6
        let mut code = vec![170, 0, 0, 0];
        [20i32, 5, 6, 21, 20].iter().for_each(|v| code.extend_from_slice(&v.to_be_bytes()));
        code.extend([0; 4]);
        assert_eq!(instruction(&method("f", &code), Bci(0)), "tableswitch 5: 21, 6: 20, default: 20");
        assert_eq!(instruction(&method("f", &[255]), Bci(0)), "?");
    }
}
