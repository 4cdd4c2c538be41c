//! Compares the compiled code of two captures of one deterministic program.
//!
//! `cargo run -p jportal-vm-image --example same_code -- CAPTURE1 CAPTURE2`; exit status 1 when code differs.
//!
//! Nmethods are paired by method name, level and OSR bci, in order of installation. Bytes that are equal need no
//! further look. Otherwise both are decoded in step: every instruction must have the same opcode, length and
//! operands, except that an immediate of 64 bits, a displacement or a 32-bit immediate may differ where both
//! values lie outside of the nmethod (addresses of oops, metadata, stubs, which another run puts elsewhere).
//!
//! `setarch -R` and one compiler thread make two runs alike: `java -Xbatch -XX:CICompilerCount=1 -XX:+UseSerialGC
//! -XX:TieredStopAtLevel=1` or `-XX:-TieredCompilation`. What then differs still is worth a look at a third run: the
//! iteration order of `java.util.ImmutableCollections` depends on the time of day.

mod installed;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use installed::Bytes;
use jportal_capture::CaptureReader;
use jportal_vm_image::Builder;

struct Compiled {
    start: u64,
    /// Instructions without the stub section.
    instructions: usize,
    code: Vec<u8>,
}

/// Method, level, OSR bci.
type Key = (String, u8, Option<u16>);

fn read(path: &str) -> Result<BTreeMap<Key, Vec<Compiled>>, Box<dyn Error>> {
    let reader = CaptureReader::open(path.as_ref())?;
    let (mut builder, mut code) = (Builder::default(), Bytes::default());
    for record in reader.metadata() {
        builder.record(record?, &mut code);
    }
    let image = builder.finish();
    let mut all: BTreeMap<Key, Vec<Compiled>> = BTreeMap::new();
    for version in image.codes() {
        let Some(n) = version.nmethod().filter(|n| !n.is_native_wrapper()) else { continue };
        let name =
            n.method.and_then(|id| image.table().get(id)).map_or("?".to_owned(), |m| m.qualified_name());
        // Hidden classes are numbered as they come.
        let name = name.split('+').next().unwrap_or("?").to_owned();
        all.entry((name, n.level, n.osr_bci)).or_default().push(Compiled {
            start: version.range.start.0,
            instructions: n.stub as usize,
            code: std::mem::take(&mut code.0[version.id.0 as usize]),
        });
    }
    Ok(all)
}

fn inside(c: &Compiled, address: u64) -> bool {
    (c.start..c.start + c.code.len() as u64).contains(&address)
}

fn same_instruction(a: &Compiled, x: &Instruction, b: &Compiled, y: &Instruction) -> bool {
    if x.code() != y.code() || x.len() != y.len() || x.op_count() != y.op_count() {
        return false;
    }
    (0..x.op_count()).all(|i| match (x.op_kind(i), y.op_kind(i)) {
        (OpKind::NearBranch64, OpKind::NearBranch64) => {
            let (p, q) = (x.near_branch64(), y.near_branch64());
            match (inside(a, p), inside(b, q)) {
                (true, true) => p - a.start == q - b.start,
                (false, false) => true,
                _ => false,
            }
        }
        (OpKind::Memory, OpKind::Memory) => {
            let (p, q) = (x.memory_displacement64(), y.memory_displacement64());
            let registers = x.memory_base() == y.memory_base()
                && x.memory_index() == y.memory_index()
                && x.memory_index_scale() == y.memory_index_scale();
            let rip = x.is_ip_rel_memory_operand();
            let near = |v: u64| (v as i64).unsigned_abs() < 1 << 16;
            registers
                && (p == q
                    || (rip && p.wrapping_sub(a.start) == q.wrapping_sub(b.start))
                    || (!near(p) && !near(q)))
        }
        (OpKind::Register, OpKind::Register) => x.op_register(i) == y.op_register(i),
        (p, q) if p != q => false,
        (OpKind::Immediate64 | OpKind::Immediate32 | OpKind::Immediate32to64, _) => {
            let (p, q) = (x.immediate(i), y.immediate(i));
            let address = |v: u64| v & 0xffff_ffff > 0xffff;
            p == q || (address(p) && address(q))
        }
        _ => x.immediate(i) == y.immediate(i),
    })
}

/// C1's patching stubs hold data between instructions: where decoding loses its way, every byte that differs must
/// belong to the operand of a `movabs`, or to the distance of a `call` or `jmp`.
fn same_but_operands(a: &[u8], b: &[u8]) -> Option<usize> {
    let operand = |i: usize| {
        let movabs = (2..10).any(|d| i >= d && a[i - d] & 0xfe == 0x48 && a[i - d + 1] & 0xf8 == 0xb8);
        movabs || (1..5).any(|d| i >= d && a[i - d] & 0xfe == 0xe8)
    };
    (0..a.len()).find(|&i| a[i] != b[i] && !operand(i))
}

fn same_code(a: &Compiled, b: &Compiled) -> Result<(), usize> {
    if a.instructions != b.instructions {
        return Err(a.instructions.min(b.instructions));
    }
    let (in_a, in_b) = (&a.code[..a.instructions], &b.code[..b.instructions]);
    same_instructions(a, b).or_else(|at| same_but_operands(in_a, in_b).map_or(Ok(()), |_| Err(at)))
}

fn same_instructions(a: &Compiled, b: &Compiled) -> Result<(), usize> {
    let mut in_a = Decoder::with_ip(64, &a.code[..a.instructions], a.start, DecoderOptions::NONE);
    let mut in_b = Decoder::with_ip(64, &b.code[..b.instructions], b.start, DecoderOptions::NONE);
    while in_a.can_decode() && in_b.can_decode() {
        let (x, y) = (in_a.decode(), in_b.decode());
        if !same_instruction(a, &x, b, &y) {
            return Err((x.ip() - a.start) as usize);
        }
    }
    Ok(())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(one), Some(two)) = (args.next(), args.next()) else {
        return Err("usage: same_code CAPTURE1 CAPTURE2".into());
    };
    let (one, mut two) = (read(&one)?, read(&two)?);
    let (mut equal, mut same, mut different, mut alone, mut bytes) = (0, 0, 0, 0, 0);
    for (key, list) in one {
        let others = two.remove(&key).unwrap_or_default();
        alone += list.len().abs_diff(others.len());
        for (a, b) in list.iter().zip(&others) {
            bytes += a.instructions;
            if a.code[..a.instructions.min(a.code.len())] == b.code[..b.instructions.min(b.code.len())] {
                equal += 1;
            } else if let Err(offset) = same_code(a, b) {
                different += 1;
                println!(
                    "{} level {} osr {:?}: {} and {} bytes, differ at {offset}",
                    key.0, key.1, key.2, a.instructions, b.instructions
                );
            } else {
                same += 1;
            }
        }
    }
    alone += two.values().map(Vec::len).sum::<usize>();
    println!(
        "{equal} nmethods equal byte by byte, {same} but for addresses, {different} different, {alone} without partner; {bytes} bytes of instructions"
    );
    Ok(ExitCode::from(u8::from(different > 0)))
}
