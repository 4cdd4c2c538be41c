// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::collections::HashSet;

use fastrand::Rng;
use jportal_bytecode::testing::row;
use jportal_bytecode::{Blocks, ExceptionRow, Instruction, Method, Transfer, instructions};
use jportal_units::Bci;

use super::{End, LIMIT, Numbering};
use crate::testing::method;

/// Assembles methods: each block is some instructions of one byte and an instruction that ends it.
pub(super) struct Assembler {
    code: Vec<u8>,
    starts: Vec<u16>,
    /// Places of 16-bit offsets: of the field, of the instruction, block that it leads to.
    short: Vec<(usize, usize, usize)>,
    long: Vec<(usize, usize, usize)>,
}

/// The end of a block.
#[derive(Clone, Debug)]
pub(super) enum Last {
    Fall,
    If(usize),
    Goto(usize),
    /// Default and cases.
    Switch(Vec<usize>),
    Jsr(usize),
    Ret,
    Return,
    Throw,
}

impl Assembler {
    pub(super) fn code(blocks: &[(u8, Last)]) -> (Vec<u8>, Vec<u16>) {
        let mut a = Self { code: Vec::new(), starts: Vec::new(), short: Vec::new(), long: Vec::new() };
        blocks.iter().for_each(|(nops, last)| a.block(*nops, last));
        for &(at, from, to) in &a.short {
            let offset = (i32::from(a.starts[to]) - from as i32) as i16;
            a.code[at..at + 2].copy_from_slice(&offset.to_be_bytes());
        }
        for &(at, from, to) in &a.long {
            let offset = i32::from(a.starts[to]) - from as i32;
            a.code[at..at + 4].copy_from_slice(&offset.to_be_bytes());
        }
        (a.code, a.starts)
    }
    fn block(&mut self, nops: u8, last: &Last) {
        self.starts.push(self.code.len() as u16);
        self.code.extend(std::iter::repeat_n(0, nops.into()));
        let at = self.code.len();
        let mut jump = |opcode: u8, to: usize| {
            self.code.extend([opcode, 0, 0]);
            self.short.push((at + 1, at, to));
        };
        match last {
            Last::Fall => self.code.push(0),
            Last::If(to) => jump(153, *to),
            Last::Goto(to) => jump(167, *to),
            Last::Jsr(to) => jump(168, *to),
            Last::Ret => self.code.extend([169, 0]),
            Last::Return => self.code.push(177),
            Last::Throw => self.code.push(191),
            Last::Switch(to) => {
                self.code.push(170);
                self.code.resize((at + 4) & !3, 0);
                let cases = to.len() as i32 - 1;
                for (n, word) in [-1, 0, cases - 1].into_iter().chain(vec![-1; to.len() - 1]).enumerate() {
                    if word == -1 {
                        let case = if n == 0 { 0 } else { n - 2 };
                        self.long.push((self.code.len(), at, to[case]));
                    }
                    self.code.extend(word.to_be_bytes());
                }
            }
        }
    }
}

pub(super) fn assemble(blocks: &[(u8, Last)], handlers: &[(usize, usize, usize)]) -> (Method, Vec<u16>) {
    let (code, starts) = Assembler::code(blocks);
    let end = |n: usize| starts.get(n).copied().unwrap_or(code.len() as u16);
    let rows = handlers.iter().map(|h| row(starts[h.0], end(h.1), starts[h.2], None));
    let exceptions: Box<[ExceptionRow]> = rows.collect();
    (Method { exceptions, ..method("a/B", "f", &code) }, starts)
}

/// A random method of a few blocks. The last one returns.
pub(super) fn random(rng: &mut Rng) -> (Method, Vec<u16>) {
    let n = rng.usize(2..9);
    let mut blocks: Vec<(u8, Last)> = (0..n - 1)
        .map(|_| {
            let mut to = || rng.usize(..n);
            let (a, b, c) = (to(), to(), to());
            let last = match rng.u8(..14) {
                0..=6 => Last::If(a),
                7 => Last::Fall,
                8 => Last::Goto(a),
                9 => Last::Switch(vec![a, b, c, a]),
                10 => Last::Jsr(a),
                11 => Last::Ret,
                12 => Last::Throw,
                _ => Last::Return,
            };
            (rng.u8(..3), last)
        })
        .collect();
    blocks.push((1, Last::Return));
    let handlers: Vec<_> = (0..rng.usize(..3))
        .map(|_| {
            let from = rng.usize(..n);
            (from, rng.usize(from + 1..=n), rng.usize(..n))
        })
        .collect();
    assemble(&blocks, &handlers)
}

fn bcis(blocks: &[Bci]) -> Vec<u16> {
    blocks.iter().map(|b| b.0).collect()
}

/// All paths as texts: the first bcis of blocks, and the end.
fn paths(m: &Method) -> Vec<String> {
    let n = Numbering::of(m).unwrap();
    let text = |id| {
        let path = n.path(id).unwrap();
        let end = match path.end {
            End::Back { from, to } => format!("back {from}>{to}"),
            End::Limit { from, to } => format!("limit {from}>{to}"),
            End::Return(at) => format!("return {at}"),
            End::Throw(at) => format!("throw {at}"),
            End::Nothing(at) => format!("nothing {at}"),
        };
        let blocks: Vec<String> = path.blocks.iter().map(|b| b.0.to_string()).collect();
        format!("{} {end}", blocks.join(" ")).replace("bci ", "")
    };
    (0..n.paths()).map(text).collect()
}

#[test]
fn every_path_of_random_graphs_has_its_identity() {
    let mut rng = Rng::with_seed(7);
    let (mut graphs, mut all) = (0, 0);
    while graphs < 2000 {
        let (m, _) = random(&mut rng);
        for limit in [LIMIT, 5] {
            let numbering = Numbering::with_limit(&m, limit).unwrap();
            if numbering.paths() > 1000 {
                continue;
            }
            graphs += 1;
            let mut seen = HashSet::new();
            for id in 0..numbering.paths() {
                let path = numbering.path(id).unwrap();
                assert_eq!(numbering.id_of(&path), Some(id), "{path:?}");
                let last = *path.blocks.last().unwrap();
                let prefix = numbering.id_of(&path).unwrap();
                assert_eq!(numbering.blocks_of_prefix(prefix, last), Some(path.blocks.clone()));
                assert!(seen.insert(format!("{:?} {:?}", path.blocks, path.end)), "twice: {path:?}");
            }
            all += numbering.paths();
            assert_eq!(numbering.path(numbering.paths()), None);
        }
    }
    assert!(all > 8000, "{all}");
}

/// The definition, word by word and with recursion: paths in the order of their edges.
struct Naive<'m> {
    method: &'m Method,
    leaders: Vec<Bci>,
    returns: Vec<Bci>,
    open: Vec<Bci>,
    done: HashSet<Bci>,
    back: HashSet<(Bci, Bci)>,
}

impl<'m> Naive<'m> {
    fn new(method: &'m Method) -> Self {
        let all = instructions(&method.code).map(Result::unwrap);
        let returns = all.filter(|i| i.opcode.transfer() == Transfer::Jsr).map(|i| i.next()).collect();
        let leaders = Blocks::of(method).unwrap().leaders().to_vec();
        let (open, done, back) = Default::default();
        Self { method, leaders, returns, open, done, back }
    }
    fn successors(&self, block: Bci) -> Vec<Bci> {
        let mut at = block;
        loop {
            let i = Instruction::at(&self.method.code, at.0.into()).unwrap();
            let target = || i.branch_target().unwrap().unwrap();
            match i.opcode.transfer() {
                Transfer::If if target() == i.next() => return vec![target()],
                Transfer::If => return vec![i.next(), target()],
                Transfer::Goto | Transfer::Jsr => return vec![target()],
                Transfer::Ret => return self.returns.clone(),
                Transfer::Return | Transfer::Throw => return vec![],
                Transfer::Switch => {
                    let s = i.switch().unwrap().unwrap();
                    let mut to: Vec<Bci> = s.cases.iter().map(|c| c.1).chain([s.default]).collect();
                    to.sort_unstable();
                    to.dedup();
                    return to;
                }
                Transfer::None | Transfer::Invoke if self.leaders.contains(&i.next()) => {
                    return vec![i.next()];
                }
                Transfer::None | Transfer::Invoke => at = i.next(),
            }
        }
    }
    fn search(&mut self, block: Bci) {
        self.open.push(block);
        for to in self.successors(block) {
            if self.open.contains(&to) {
                self.back.insert((block, to));
            } else if !self.done.contains(&to) {
                self.search(to);
            }
        }
        self.open.pop();
        self.done.insert(block);
    }
    /// Blocks of a path, and the block that follows a back edge. At most 1001.
    fn paths(&self, so_far: &mut Vec<Bci>, out: &mut Vec<(Vec<Bci>, Option<Bci>)>) {
        let block = so_far[so_far.len() - 1];
        let successors = self.successors(block);
        if successors.is_empty() && out.len() <= 1000 {
            out.push((so_far.clone(), None));
        }
        for to in successors {
            if out.len() > 1000 {
                return;
            }
            if self.back.contains(&(block, to)) {
                out.push((so_far.clone(), Some(to)));
            } else {
                so_far.push(to);
                self.paths(so_far, out);
                so_far.pop();
            }
        }
    }
    fn all(mut self) -> Vec<(Vec<Bci>, Option<Bci>)> {
        self.search(Bci(0));
        let mut handlers: Vec<Bci> = self.method.exceptions.iter().map(|e| e.handler).collect();
        handlers.sort_unstable();
        for handler in handlers.clone() {
            if !self.done.contains(&handler) {
                self.search(handler);
            }
        }
        let mut heads: Vec<Bci> = self.back.iter().map(|edge| edge.1).collect();
        heads.sort_unstable();
        let (mut out, mut begun) = (Vec::new(), HashSet::new());
        for block in [Bci(0)].into_iter().chain(heads).chain(handlers) {
            if begun.insert(block) {
                self.paths(&mut vec![block], &mut out);
            }
        }
        out
    }
}

#[test]
fn identities_are_those_of_the_definition() {
    let mut rng = Rng::with_seed(17);
    let (mut all, mut backs) = (0, 0);
    for _ in 0..3000 {
        let (m, _) = random(&mut rng);
        let expected = Naive::new(&m).all();
        let numbering = Numbering::of(&m).unwrap();
        if expected.len() > 1000 {
            assert!(numbering.paths() > 1000);
            continue;
        }
        assert_eq!(numbering.paths(), expected.len() as u64);
        for (id, (blocks, to)) in (0..).zip(&expected) {
            let path = numbering.path(id).unwrap();
            let next = if let End::Back { to, .. } = path.end { Some(to) } else { None };
            assert_eq!((&path.blocks, &next), (blocks, to), "{id}");
            backs += u64::from(next.is_some());
        }
        all += numbering.paths();
    }
    assert!(all > 10_000 && backs > 3000, "{all} {backs}");
}

#[test]
fn a_loop() {
    // 0 nop; 1 if 8; 4 nop; 5 goto 0; 8 return
    let (m, starts) = assemble(&[(1, Last::If(2)), (1, Last::Goto(0)), (0, Last::Return)], &[]);
    assert_eq!(starts, [0, 4, 8]);
    assert_eq!(paths(&m), ["0 4 back 5>0", "0 8 return 8"]);
    let begin = Numbering::of(&m).unwrap().path(0).unwrap().begin;
    assert!(begin.entry && begin.head && !begin.handler, "block 0 is the head of the loop");
}

#[test]
fn a_loop_with_two_entries() {
    // 0: if 2; 1: fall; 2: if 1; 3: return. The search comes to block 1 first, from there to 2.
    let (m, starts) =
        assemble(&[(0, Last::If(2)), (0, Last::Fall), (0, Last::If(1)), (0, Last::Return)], &[]);
    assert_eq!(starts, [0, 3, 4, 7]);
    assert_eq!(
        paths(&m),
        [
            "0 3 4 7 return 7",
            "0 3 4 back 4>3",
            "0 4 7 return 7",
            "0 4 back 4>3",
            "3 4 7 return 7",
            "3 4 back 4>3"
        ]
    );
}

#[test]
fn a_switch_whose_cases_share_targets() {
    let switch = Last::Switch(vec![3, 1, 2, 1, 3]);
    let (m, starts) = assemble(&[(0, switch), (0, Last::Return), (0, Last::Throw), (0, Last::Return)], &[]);
    let [_, a, b, c] = starts[..] else { panic!() };
    let ends = [format!("0 {a} return {a}"), format!("0 {b} throw {b}"), format!("0 {c} return {c}")];
    assert_eq!(paths(&m), ends, "distinct targets, ascending");
}

#[test]
fn a_conditional_whose_ways_lead_to_one_place() {
    let (m, _) = assemble(&[(0, Last::If(1)), (0, Last::Return)], &[]);
    assert_eq!(paths(&m), ["0 3 return 3"]);
}

#[test]
fn subroutines() {
    // 0 jsr 7; 3 jsr 7; 6 return; 7 nop; 8 ret
    let blocks = [(0, Last::Jsr(3)), (0, Last::Jsr(3)), (0, Last::Return), (1, Last::Ret)];
    let (m, starts) = assemble(&blocks, &[]);
    assert_eq!(starts, [0, 3, 6, 7]);
    // The way from the subroutine to block 3 and back is the back edge.
    assert_eq!(paths(&m), ["0 7 3 back 3>7", "0 7 6 return 6", "7 3 back 3>7", "7 6 return 6"]);
}

#[test]
fn code_that_nothing_reaches_has_no_paths() {
    // 0 goto 2; 1: if 0 (dead), falls to 2; 2: return
    let (m, starts) = assemble(&[(0, Last::Goto(2)), (0, Last::If(0)), (0, Last::Return)], &[]);
    assert_eq!((starts[2], paths(&m)), (6, vec!["0 6 return 6".to_owned()]));
    // A handler is reached.
    let (m, _) = assemble(&[(0, Last::Goto(2)), (0, Last::Throw), (0, Last::Return)], &[(0, 1, 1)]);
    assert_eq!(paths(&m), ["0 4 return 4", "3 throw 3"]);
}

#[test]
fn handlers_come_after_heads_and_each_block_once() {
    // 0: if 2; 1: goto 0; 2: goto 1 (a handler, too); 3: return (a handler)
    let blocks = [(0, Last::If(2)), (0, Last::Goto(0)), (0, Last::If(2)), (0, Last::Return)];
    let (m, starts) = assemble(&blocks, &[(0, 1, 3), (0, 1, 2), (1, 2, 3)]);
    assert_eq!(starts, [0, 3, 6, 9]);
    assert_eq!(
        paths(&m),
        ["0 3 back 3>0", "0 6 9 return 9", "0 6 back 6>6", "6 9 return 9", "6 back 6>6", "9 return 9"]
    );
    let numbering = Numbering::of(&m).unwrap();
    let kinds = |id| numbering.path(id).map(|p| (p.begin.head, p.begin.handler)).unwrap();
    assert_eq!((kinds(3), kinds(5)), ((true, true), (false, true)));
}

#[test]
fn too_many_paths_are_cut() {
    // 40 conditionals in a row: 2^40 paths.
    let mut blocks = Vec::new();
    for n in 0..40 {
        blocks.extend([(0, Last::If(2 * n + 2)), (0, Last::Fall)]);
    }
    blocks.push((0, Last::Return));
    let (m, starts) = assemble(&blocks, &[]);
    let numbering = Numbering::of(&m).unwrap();
    // The 32nd conditional from the end has more than 2^31 paths.
    let cut = starts[2 * (40 - 32)];
    assert_eq!(bcis(numbering.limited()), [cut]);
    // Eight conditionals come before it, each of which doubles the ways to its two ends; both
    // targets of its edges begin paths, 2^31 each.
    assert_eq!(numbering.paths(), (1 << 8) * 2 + 2 * (1 << 31));
    let last = numbering.path((1 << 9) - 1).unwrap();
    assert!(matches!(last.end, End::Limit { from, .. } if from.0 == cut), "{last:?}");
    let after = numbering.path(1 << 9).unwrap();
    assert!(after.begin.limit && !after.begin.head && after.begin.bci.0 == starts[2 * 8 + 1]);
    for id in [0, 511, 512, 1 << 31, (1 << 32) + 511] {
        let path = numbering.path(id).unwrap();
        assert_eq!(numbering.id_of(&path), Some(id));
    }
}

#[test]
fn lines_and_lengths() {
    use crate::testing::BRANCHY;
    use jportal_bytecode::LineRow;
    let line = |(bci, line): (u16, u16)| LineRow { bci: Bci(bci), line };
    // 0 iload_0; 1 ifeq 8; 4 iconst_1; 5 goto 9; 8 iconst_0; 9 ireturn
    let lines = [(0, 4), (1, 5), (4, 7), (8, 8), (9, 6)].map(line);
    let m = Method { lines: lines.into(), ..method("a/B", "f", BRANCHY) };
    let numbering = Numbering::of(&m).unwrap();
    let of = |id| {
        let path = numbering.path(id).unwrap();
        (numbering.lines(&m, &path.blocks), numbering.len_of(id).unwrap())
    };
    assert_eq!((of(0), of(1)), (("4-7".to_owned(), 5), ("4-6,8".to_owned(), 4)));
    assert_eq!(Numbering::of(&method("a/B", "native", &[])).unwrap().paths(), 0);
    assert!(Numbering::of(&method("a/B", "f", &[203])).is_err());
}
