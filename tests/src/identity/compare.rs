// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares listings of one program.
//!
//! Two nmethods are the same if every byte is, except operands that hold addresses: those of
//! oops, metadata, stubs and the VM, which differ between runs and between VMs. Such an operand
//! must have a relocation with the same text in both listings (the text names the object or
//! routine), or be the 64-bit operand of a `mov` that is a user space address in both. The latter
//! are counted separately.

use std::collections::BTreeMap;
use std::fmt;

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, NasmFormatter, OpKind};

use super::listing::{Key, Listed, without_numbers};

/// The result of comparing two nmethods with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every byte is the same.
    Identical,
    /// Only addresses in operands and constants differ. The numbers of such addresses with a
    /// relocation, and without one.
    ButAddresses(u32, u32),
    /// The first difference.
    Different(String),
}

/// A difference, for the report.
#[derive(Debug, Clone)]
pub struct CodeDifference {
    /// What was compiled.
    pub key: Key,
    /// Index of the compilation among those with the same key.
    pub nth: usize,
    /// The first difference.
    pub what: String,
}

/// The result of comparing a listing with those of the reference.
#[derive(Debug, Default, Clone)]
pub struct Comparison {
    /// Nmethods with every byte the same.
    pub identical: u64,
    /// Nmethods that differ in addresses only.
    pub but_addresses: u64,
    /// Differing addresses with a relocation.
    pub relocated: u64,
    /// Differing addresses without a relocation.
    pub raw: u64,
    /// Bytes of code and constants compared.
    pub bytes: u64,
    /// Nmethods that differ from the first run of the reference, but are the same as in another
    /// run of it. They also count as `identical` or `but_addresses`.
    pub in_another_run: u64,
    /// Nmethods that differ, but the runs of the reference also differ there, or another attempt
    /// showed no difference.
    pub varying: Vec<CodeDifference>,
    /// Nmethods that differ in all attempts, although the runs of the reference agree.
    pub different: Vec<CodeDifference>,
    /// Compilations without a counterpart in the reference.
    pub alone: Vec<Key>,
    /// Whether the compilations are in the order of one of the reference's runs.
    pub same_order: bool,
    /// The number of attempts until nothing was different, or the maximum.
    pub attempts: usize,
}

impl Comparison {
    /// Nmethods compared.
    pub fn compared(&self) -> u64 {
        self.identical + self.but_addresses + (self.different.len() + self.varying.len()) as u64
    }
    /// Whether something was compared and nothing is different.
    pub fn same(&self) -> bool {
        self.compared() > 0 && self.different.is_empty()
    }
    /// Keeps in `different` only what was different in the attempt `before` too. The rest varies
    /// from run to run.
    pub fn differs_always(&mut self, before: &Self) {
        let was = |d: &CodeDifference| before.different.iter().any(|b| (&b.key, b.nth) == (&d.key, d.nth));
        let (different, varying) = std::mem::take(&mut self.different).into_iter().partition(was);
        self.different = different;
        self.varying.extend::<Vec<CodeDifference>>(varying);
    }
    fn add(&mut self, n: &Listed, nth: usize, partners: &[&Listed]) {
        let Some((first, others)) = partners.split_first() else {
            self.alone.push(n.key.clone());
            return;
        };
        self.bytes += (n.code.len() + 4 * n.constants.len()) as u64;
        let mut verdict = nmethods(first, n);
        for other in others {
            if matches!(verdict, Verdict::Different(_))
                && let found @ (Verdict::Identical | Verdict::ButAddresses(..)) = nmethods(other, n)
            {
                self.in_another_run += 1;
                verdict = found;
            }
        }
        match verdict {
            Verdict::Identical => self.identical += 1,
            Verdict::ButAddresses(relocated, raw) => {
                self.but_addresses += 1;
                self.relocated += u64::from(relocated);
                self.raw += u64::from(raw);
            }
            Verdict::Different(what) => {
                let agree = |other: &&Listed| !matches!(nmethods(first, other), Verdict::Different(_));
                let list = if others.iter().all(agree) { &mut self.different } else { &mut self.varying };
                list.push(CodeDifference { key: n.key.clone(), nth, what });
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identical, but_addresses, relocated, raw, bytes, .. } = self;
        write!(f, "{} nmethods ({bytes} bytes) compared, {identical} equal byte by byte, ", self.compared())?;
        write!(f, "{but_addresses} but for {relocated} relocated and {raw} other addresses, ")?;
        let (varying, different, alone) = (self.varying.len(), self.different.len(), self.alone.len());
        write!(
            f,
            "{} of these as in another run; {varying} different where runs differ too; ",
            self.in_another_run
        )?;
        write!(f, "{different} DIFFERENT; {alone} without partner; ")?;
        write!(f, "order {}", if self.same_order { "equal" } else { "not equal" })?;
        if self.attempts > 1 { write!(f, " ({} runs)", self.attempts) } else { Ok(()) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} level {}", self.method, self.level)?;
        self.osr_bci.map_or(Ok(()), |bci| write!(f, " osr {bci}"))
    }
}

type Compilations<'a> = BTreeMap<&'a Key, Vec<&'a Listed>>;

fn by_key(list: &[Listed]) -> Compilations<'_> {
    let mut map = Compilations::new();
    list.iter().for_each(|n| map.entry(&n.key).or_default().push(n));
    map
}

/// Compares `tested` with several runs of the reference. Pairs the compilations of one key in
/// their order. An nmethod that differs from the first run may be the same as in another one.
pub fn listings(references: &[Vec<Listed>], tested: &[Listed]) -> Comparison {
    let order = |list: &[Listed]| list.iter().map(|n| n.key.clone()).collect::<Vec<_>>();
    let same_order = references.iter().any(|r| order(r) == order(tested));
    let mut result = Comparison { same_order, ..Comparison::default() };
    let references: Vec<Compilations<'_>> = references.iter().map(|r| by_key(r)).collect();
    for (key, list) in by_key(tested) {
        for (nth, n) in list.into_iter().enumerate() {
            let partners: Vec<&Listed> =
                references.iter().filter_map(|r| r.get(key)?.get(nth).copied()).collect();
            result.add(n, nth, &partners);
        }
    }
    result
}

/// Compares two nmethods.
pub fn nmethods(a: &Listed, b: &Listed) -> Verdict {
    if a.code.len() != b.code.len() || a.constants.len() != b.constants.len() {
        let sizes =
            |n: &Listed| format!("{} bytes of code, {} of constants", n.code.len(), 4 * n.constants.len());
        return Verdict::Different(format!("{}; {}", sizes(a), sizes(b)));
    }
    if let Some(what) = notes(a, b) {
        return Verdict::Different(what);
    }
    if a.code == b.code && a.constants == b.constants {
        return Verdict::Identical;
    }
    let mut addresses = Addresses::default();
    match code(a, b, &mut addresses).and_then(|()| constants(a, b, &mut addresses)) {
        Ok(()) => Verdict::ButAddresses(addresses.relocated, addresses.raw),
        Err(what) => Verdict::Different(what),
    }
}

#[derive(Debug, Default)]
struct Addresses {
    relocated: u32,
    raw: u32,
}

/// Compares relocations and debug information, except addresses; returns the first difference.
fn notes(a: &Listed, b: &Listed) -> Option<String> {
    let differ = |(x, y): &(&(u32, String), &(u32, String))| x.0 != y.0 || normal(a, &x.1) != normal(b, &y.1);
    if let Some((x, y)) = a.notes.iter().zip(&b.notes).find(differ) {
        return Some(format!("at {}: {}; at {}: {}", x.0, x.1, y.0, y.1));
    }
    (a.notes.len() != b.notes.len())
        .then(|| format!("{} and {} relocations and debug records", a.notes.len(), b.notes.len()))
}

/// The text of a note with addresses inside the nmethod as offsets, and without other addresses.
fn normal(n: &Listed, text: &str) -> String {
    let text = without_numbers(text);
    let mut rest = &text[..];
    let mut out = String::with_capacity(text.len());
    while let Some(i) = rest.find("0x") {
        let digits = rest[i + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        out.push_str(&rest[..i]);
        if digits == 16 {
            match u64::from_str_radix(&rest[i + 2..i + 18], 16) {
                Ok(address) if n.holds(address) => {
                    out += &format!("+{}", address.wrapping_sub(n.start) as i64)
                }
                _ => out.push_str("ADDRESS"),
            }
        } else {
            out.push_str(&rest[i..i + 2 + digits]);
        }
        rest = &rest[i + 2 + digits..];
    }
    out.push_str(rest);
    out
}

/// Whether a relocation belongs to the instruction at `offset`. The listing locates a relocation
/// to four bytes. An empty relocation (`{no_reloc}`) precedes one that is far from its
/// predecessor, and the listing then shows only the empty one.
fn relocation(n: &Listed, offset: u32, length: usize) -> Relocation {
    let end = offset + length as u32;
    let here = n.notes.iter().filter(|(at, note)| at + 4 > offset && *at < end && note.starts_with('{'));
    here.map(|(_, note)| if note == "{no_reloc}" { Relocation::Hidden } else { Relocation::Named })
        .max()
        .unwrap_or(Relocation::None)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relocation {
    None,
    Hidden,
    Named,
}

/// A user space address above 4 GB.
fn is_address(value: u64) -> bool {
    (1 << 32..1 << 47).contains(&value)
}

fn code(a: &Listed, b: &Listed, addresses: &mut Addresses) -> Result<(), String> {
    let decoder = |n: &'_ Listed| (n.code.clone(), n.start);
    let ((code_a, start_a), (code_b, start_b)) = (decoder(a), decoder(b));
    let mut in_a = Decoder::with_ip(64, &code_a, start_a, DecoderOptions::NONE);
    let mut in_b = Decoder::with_ip(64, &code_b, start_b, DecoderOptions::NONE);
    while in_a.can_decode() && in_b.can_decode() {
        let (x, y) = (in_a.decode(), in_b.decode());
        let at = (x.ip() - a.start) as usize;
        let bytes = |code: &[u8], i: &Instruction| code[at..at + i.len()].to_vec();
        if bytes(&code_a, &x) != bytes(&code_b, &y) {
            let fits = x.code() == y.code() && x.len() == y.len() && x.op_count() == y.op_count();
            let has = relocation(a, at as u32, x.len());
            if !fits || !operands(a, &x, b, &y, has, addresses) {
                let what = || format!("at {at}: {}; {}", text(&x), text(&y));
                return data(a, b, at, addresses).ok_or_else(what);
            }
        }
    }
    Ok(())
}

/// Compares the bytes from `at`, where the instructions first differ. C1's patching stubs hold
/// data between instructions, after which decoding is out of step. Therefore, every differing
/// byte must belong to the operand of a 64-bit `mov` that is an address in both, or to the
/// displacement of a relocated `call`, `jmp` or `jcc`.
fn data(a: &Listed, b: &Listed, mut at: usize, addresses: &mut Addresses) -> Option<()> {
    let wide = |n: &Listed, i: usize| {
        let operand = n.code.get(i + 2..i + 10)?;
        let opcode = n.code[i] & 0xfe == 0x48 && n.code[i + 1] & 0xf8 == 0xb8;
        opcode.then(|| u64::from_le_bytes(operand.try_into().unwrap_or_default()))
    };
    let near = |n: &Listed, i: usize| {
        let short = n.code[i] & 0xfe == 0xe8;
        let jcc = n.code[i] == 0x0f && n.code.get(i + 1)? & 0xf0 == 0x80;
        let length = if short { 5 } else { 6 };
        let operand = n.code.get(i + length - 4..i + length)?;
        let distance = i32::from_le_bytes(operand.try_into().unwrap_or_default());
        let to = (n.start + (i + length) as u64).wrapping_add_signed(distance.into());
        ((short || jcc) && relocation(n, i as u32, length) != Relocation::None).then_some((to, length))
    };
    while let Some(i) = (at..a.code.len()).find(|&i| a.code[i] != b.code[i]) {
        let movs = (2..10).filter_map(|d| i.checked_sub(d)).find_map(|o| Some((o, wide(a, o)?, wide(b, o)?)));
        let jumps = (1..6).filter_map(|d| i.checked_sub(d)).find_map(|o| Some((o, near(a, o)?, near(b, o)?)));
        let (from, length, p, q) = match (movs, jumps) {
            (Some((o, p, q)), _) if is_operand((a, p), (b, q), o) => (o, 10, p, q),
            (_, Some((o, (p, length), (q, _)))) if a.holds(p) == b.holds(q) => (o, length, p, q),
            _ => return None,
        };
        if a.holds(p) && !same_place((a, p), (b, q)) {
            return None;
        }
        addresses.raw += u32::from(!a.holds(p));
        at = from + length;
    }
    Some(())
}

/// Whether the `mov` at `offset` loads the same offset of the nmethod in both, an address in
/// both, or a value with a named relocation.
fn is_operand((a, p): (&Listed, u64), (b, q): (&Listed, u64), offset: usize) -> bool {
    same_place((a, p), (b, q))
        || is_address(p) && is_address(q)
        || relocation(a, offset as u32, 10) == Relocation::Named
}

fn same_place((a, p): (&Listed, u64), (b, q): (&Listed, u64)) -> bool {
    a.holds(p) && b.holds(q) && p.wrapping_sub(a.start) == q.wrapping_sub(b.start)
}

fn text(i: &Instruction) -> String {
    let mut text = String::new();
    NasmFormatter::new().format(i, &mut text);
    text
}

fn operands(
    a: &Listed,
    x: &Instruction,
    b: &Listed,
    y: &Instruction,
    has: Relocation,
    seen: &mut Addresses,
) -> bool {
    (0..x.op_count()).all(|i| {
        if x.op_kind(i) != y.op_kind(i) {
            return false;
        }
        match x.op_kind(i) {
            OpKind::Register => x.op_register(i) == y.op_register(i),
            OpKind::NearBranch64 => {
                let wide = has == Relocation::Hidden;
                value((a, x.near_branch64()), (b, y.near_branch64()), has, wide, seen)
            }
            OpKind::Memory => {
                let registers = x.memory_base() == y.memory_base()
                    && x.memory_index() == y.memory_index()
                    && x.memory_index_scale() == y.memory_index_scale()
                    && x.segment_prefix() == y.segment_prefix();
                registers
                    && value((a, x.memory_displacement64()), (b, y.memory_displacement64()), has, false, seen)
            }
            OpKind::Immediate64 => value((a, x.immediate(i)), (b, y.immediate(i)), has, true, seen),
            OpKind::Immediate32 | OpKind::Immediate32to64 => {
                value((a, x.immediate(i)), (b, y.immediate(i)), has, false, seen)
            }
            _ => x.immediate(i) == y.immediate(i),
        }
    })
}

/// Whether two values have the same meaning. If `wide`, addresses may differ without a named
/// relocation.
fn value(
    (a, p): (&Listed, u64),
    (b, q): (&Listed, u64),
    has: Relocation,
    wide: bool,
    seen: &mut Addresses,
) -> bool {
    if a.holds(p) != b.holds(q) {
        return false;
    }
    if a.holds(p) {
        return p.wrapping_sub(a.start) == q.wrapping_sub(b.start);
    }
    if p == q {
        return true;
    }
    let named = has == Relocation::Named;
    seen.relocated += u32::from(named);
    seen.raw += u32::from(!named);
    named || wide && is_address(p) && is_address(q)
}

fn constants(a: &Listed, b: &Listed, addresses: &mut Addresses) -> Result<(), String> {
    if a.constants == b.constants {
        return Ok(());
    }
    let whole = |n: &Listed| n.constants.len().is_multiple_of(2) && n.constants_start.is_multiple_of(8);
    if !whole(a) || !whole(b) {
        return Err("constants".into());
    }
    for (i, (x, y)) in a.constants.chunks(2).zip(b.constants.chunks(2)).enumerate() {
        let [p, q] = [x, y].map(|w| u64::from(w[1]) << 32 | u64::from(w[0]));
        if p != q && !value((a, p), (b, q), Relocation::None, true, addresses) {
            return Err(format!("the constant at {}: {p:#x}; {q:#x}", 8 * i));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(start: u64, code: &[u8], notes: &[(u32, &str)]) -> Listed {
        Listed {
            key: Key { method: "A.f()V".into(), level: 4, osr_bci: None },
            start,
            code: code.to_vec(),
            constants_start: 0,
            constants: Vec::new(),
            notes: notes.iter().map(|(at, note)| (*at, (*note).to_owned())).collect(),
        }
    }

    /// `mov rax, value`
    fn load(value: u64) -> Vec<u8> {
        [&[0x48, 0xb8], &value.to_le_bytes()[..]].concat()
    }

    #[test]
    fn an_address_may_differ_and_a_number_may_not() {
        let (one, two) = (0x7fff_0000_1000, 0x7fff_8000_1000);
        let a = listed(0x10_0000, &load(one), &[]);
        assert_eq!(nmethods(&a, &a.clone()), Verdict::Identical);
        assert_eq!(nmethods(&a, &listed(0x20_0000, &load(two), &[])), Verdict::ButAddresses(0, 1));
        assert!(matches!(nmethods(&a, &listed(0x20_0000, &load(7), &[])), Verdict::Different(_)));
        let oop = &[(0, "{oop(a 'A'{0x00007fff00001000})}")][..];
        let other = &[(0, "{oop(a 'A'{0x00007fff80001000})}")][..];
        let verdict = nmethods(&listed(0x10_0000, &load(one), oop), &listed(0x20_0000, &load(two), other));
        assert_eq!(verdict, Verdict::ButAddresses(1, 0));
        let another = &[(0, "{oop(a 'B'{0x00007fff80001000})}")][..];
        let verdict = nmethods(&listed(0x10_0000, &load(one), oop), &listed(0x20_0000, &load(two), another));
        assert!(matches!(verdict, Verdict::Different(_)), "{verdict:?}");
    }

    #[test]
    fn what_differs_in_one_run_only_varies() {
        let method = |name: &str, value| Listed {
            key: Key { method: name.into(), level: 4, osr_bci: None },
            ..listed(0x10_0000, &load(value), &[])
        };
        let reference = [vec![method("a", 1), method("b", 1), method("c", 1)]];
        let first = listings(&reference, &[method("a", 2), method("b", 2), method("c", 1)]);
        let mut second = listings(&reference, &[method("a", 3), method("b", 1), method("c", 2)]);
        second.differs_always(&first);
        let names = |all: &[CodeDifference]| all.iter().map(|d| d.key.method.clone()).collect::<Vec<_>>();
        assert_eq!((names(&second.different), names(&second.varying)), (vec!["a".into()], vec!["c".into()]));
        assert!(!second.same());
    }

    #[test]
    fn a_call_needs_its_relocation() {
        let call = |to: i32| [&[0xe8], &to.to_le_bytes()[..]].concat();
        let (near, far) = (call(0x1000), call(0x2000));
        assert!(matches!(
            nmethods(&listed(0x10_0000, &near, &[]), &listed(0x10_0000, &far, &[])),
            Verdict::Different(_)
        ));
        let stub = &[(0, "{runtime_call stub}")][..];
        let verdict = nmethods(&listed(0x10_0000, &near, stub), &listed(0x10_0000, &far, stub));
        assert_eq!(verdict, Verdict::ButAddresses(1, 0));
    }

    #[test]
    fn jumps_inside_count_from_the_start() {
        let jump = [0xeb, 0x00, 0x90];
        assert_eq!(nmethods(&listed(0x1000, &jump, &[]), &listed(0x2000, &jump, &[])), Verdict::Identical);
        let other = [0xeb, 0x01, 0x90, 0x90];
        assert!(matches!(
            nmethods(&listed(0x1000, &[0xeb, 0x00, 0x90, 0x90], &[]), &listed(0x2000, &other, &[])),
            Verdict::Different(_)
        ));
    }

    #[test]
    fn a_turned_condition_is_different() {
        let verdict = nmethods(&listed(0x1000, &[0x74, 0x00], &[]), &listed(0x1000, &[0x75, 0x00], &[]));
        assert!(matches!(verdict, Verdict::Different(_)));
    }

    #[test]
    fn compilations_pair_in_order_and_none_is_forgotten() {
        let (first, second) = (listed(0x1000, &[0x90], &[]), listed(0x2000, &[0xf4], &[]));
        let both = vec![first.clone(), second.clone()];
        let c = listings(std::slice::from_ref(&both), &both);
        assert!(c.same() && c.same_order && c.compared() == 2, "{c}");
        let c = listings(std::slice::from_ref(&both), &[second.clone(), first.clone()]);
        assert_eq!((c.different.len(), c.same()), (2, false));
        let c = listings(&[vec![first.clone()]], &both);
        assert_eq!((c.identical, c.alone.len(), c.same_order), (1, 1, false));
        assert!(!listings(&[both], &[]).same());
    }

    #[test]
    fn what_varies_without_us_is_distinguished() {
        let runs: Vec<Vec<Listed>> = [0x90, 0xf4].map(|b| vec![listed(0x1000, &[b], &[])]).to_vec();
        let c = listings(&runs, &runs[1]);
        assert!(c.same() && c.in_another_run == 1 && c.identical == 1, "{c}");
        let third = [listed(0x1000, &[0xc3], &[])];
        let c = listings(&runs, &third);
        assert!(c.same() && c.varying.len() == 1, "{c}");
        let c = listings(&[runs[0].clone(), runs[0].clone()], &third);
        assert!(!c.same() && c.different.len() == 1, "{c}");
    }
}
