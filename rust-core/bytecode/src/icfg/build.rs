// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Builds the graph from methods.

use super::{CallSite, CalleeResolver, Callees, INSIDE, Icfg, Node, OUTSIDE, Sets, Target};
use crate::cfg::{Cfg, EdgeKind, HandlerRow};
use crate::method::{Method, MethodTable};
use crate::opcode::{Opcode, Transfer};
use jportal_units::MethodId;
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{SyncSender, sync_channel};

impl Icfg {
    /// The graph of `methods`, with the callees from `resolver`. Methods with malformed bytecodes
    /// are left out.
    pub fn build(methods: &MethodTable, resolver: &mut dyn CalleeResolver) -> Self {
        let mut builder = GraphBuilder::default();
        builder.targets.push(None);
        let all: Vec<&Method> = methods.iter().collect();
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(AHEAD);
            // If there are many methods, another thread parses them.
            let parse = |send: SyncSender<_>| {
                for some in all.chunks(SOME) {
                    let graphs: Vec<_> = some.iter().map(|method| (*method, Cfg::of(method).ok())).collect();
                    // The receiver stays until it has received all of them.
                    let _ = send.send(graphs);
                }
            };
            if methods.len() > SOME {
                scope.spawn(move || parse(send));
            } else {
                parse(send);
            }
            for (method, cfg) in receive.into_iter().flatten() {
                builder.begin_method();
                match cfg {
                    Some(cfg) if builder.has_room(&cfg) => builder.add(method, &cfg, resolver),
                    _ => builder.left_out.push(method.id),
                }
            }
        });
        builder.finish(methods, resolver)
    }
}

/// Number of methods that are parsed in one batch; and (`AHEAD`) the number of batches that may
/// wait.
const SOME: usize = 256;
const AHEAD: usize = 16;

#[derive(Default)]
struct GraphBuilder {
    opcodes: Vec<Opcode>,
    bcis: Vec<jportal_units::Bci>,
    methods: Vec<MethodId>,
    first: Vec<u32>,
    edge_first: Vec<u32>,
    edge_to: Vec<u32>,
    edge_kinds: Vec<EdgeKind>,
    row_first: Vec<u32>,
    rows: Vec<HandlerRow>,
    jumps: Vec<(Node, Node)>,
    /// The target of each set; the set [`OUTSIDE`] has none.
    targets: Vec<Option<Target>>,
    sets: HashMap<Target, u32>,
    /// Pairs of a set and the node after a site.
    sites: Vec<(u32, Node)>,
    left_out: Vec<MethodId>,
}

/// One bit per opcode: whether `is` holds for its transfer.
fn bits(opcodes: &[Opcode], is: impl Fn(Transfer) -> bool) -> Box<[u64]> {
    let word = |word: &[Opcode]| {
        word.iter().rev().fold(0, |bits, opcode| bits << 1 | u64::from(is(opcode.transfer())))
    };
    opcodes.chunks(64).map(word).collect()
}

impl GraphBuilder {
    fn begin_method(&mut self) {
        self.first.push(self.opcodes.len() as u32);
        self.row_first.push(self.rows.len() as u32);
    }
    /// Whether 32 bits suffice to count the nodes and edges with those of `cfg`.
    fn has_room(&self, cfg: &Cfg) -> bool {
        let edges: usize = (0..cfg.starts().len() as u32).map(|i| cfg.edges(i).len() + 1).sum();
        self.edge_to.len() + edges < u32::MAX as usize
            && self.rows.len() + cfg.rows().len() < u32::MAX as usize
    }
    fn add(&mut self, method: &Method, cfg: &Cfg, resolver: &mut dyn CalleeResolver) {
        let base = self.opcodes.len() as u32;
        let opcodes = crate::instructions(&method.code).map_while(Result::ok).map(|i| i.opcode);
        for ((index, bci), opcode) in (0..).zip(cfg.starts()).zip(opcodes) {
            let node = Node(base + index);
            self.opcodes.push(opcode);
            self.bcis.push(*bci);
            self.methods.push(method.id);
            self.edge_first.push(self.edge_to.len() as u32);
            if opcode.transfer() == Transfer::Invoke {
                let site = CallSite { caller: method, opcode, target: method.invoke_at(*bci) };
                self.add_site(cfg.edges(index).first().map(|e| Node(base + e.to)), resolver.target(&site));
            }
            for edge in cfg.edges(index) {
                self.add_edge(node, edge.kind, Node(base + edge.to));
            }
        }
        self.rows.extend(cfg.rows().iter().map(|row| HandlerRow {
            start: row.start + base,
            end: row.end + base,
            handler: row.handler + base,
            ..*row
        }));
    }
    fn add_edge(&mut self, from: Node, kind: EdgeKind, to: Node) {
        self.edge_to.push(to.0);
        self.edge_kinds.push(kind);
        if matches!(kind, EdgeKind::Taken | EdgeKind::Jump | EdgeKind::Case) {
            self.jumps.push((to, from));
        }
    }
    /// Adds the site's set, which precedes its edges.
    fn add_site(&mut self, behind: Option<Node>, target: Target) {
        let next = self.targets.len() as u32;
        let set = *self.sets.entry(target).or_insert(next);
        if set == next {
            self.targets.push(Some(target));
        }
        self.edge_to.push(set);
        self.edge_kinds.push(EdgeKind::Behind);
        self.sites.extend(behind.map(|b| (set, b)));
    }

    fn finish(mut self, methods: &MethodTable, resolver: &mut dyn CalleeResolver) -> Icfg {
        self.begin_method();
        self.edge_first.push(self.edge_to.len() as u32);
        self.jumps.sort_unstable();
        self.jumps.dedup();
        let sets = self.make_sets(methods, resolver);
        let (code_first, at_bci) = self.by_bci();
        let transfers = bits(&self.opcodes, |transfer| transfer != Transfer::None);
        let calls = bits(&self.opcodes, |transfer| matches!(transfer, Transfer::Invoke | Transfer::Return));
        Icfg {
            transfers,
            calls,
            opcodes: self.opcodes.into(),
            bcis: self.bcis.into(),
            methods: self.methods.into(),
            first: self.first.into(),
            code_first,
            at_bci,
            edge_first: self.edge_first.into(),
            edge_to: self.edge_to.into(),
            edge_kinds: self.edge_kinds.into(),
            row_first: self.row_first.into(),
            rows: self.rows.into(),
            jumps: self.jumps.into(),
            sets,
            left_out: self.left_out,
        }
    }
    /// The start of each method's code, and the index of the node at each byte.
    fn by_bci(&self) -> (Box<[u32]>, Box<[u16]>) {
        let mut first = vec![0];
        let mut all: Vec<u16> = Vec::new();
        for nodes in self.first.windows(2) {
            let start = all.len();
            for (index, bci) in self.bcis[nodes[0] as usize..nodes[1] as usize].iter().enumerate() {
                all.resize(start + usize::from(bci.0), INSIDE);
                all.push(index as u16);
            }
            first.push(all.len() as u32);
        }
        (first.into(), all.into())
    }
    fn entry(&self, method: MethodId) -> Option<Node> {
        let at = method.0 as usize;
        let (a, b) = (*self.first.get(at)?, *self.first.get(at + 1)?);
        (a < b).then_some(Node(a))
    }
    fn make_sets(&mut self, methods: &MethodTable, resolver: &mut dyn CalleeResolver) -> Sets {
        let answers: Vec<Callees> =
            self.targets.iter().map(|t| t.map(|t| resolver.callees(t)).unwrap_or_default()).collect();
        let mut sets = Sets::default();
        let (mut entries, mut members) = (Vec::new(), Vec::new());
        let (mut passes, mut outside, mut unknown) = (vec![false], vec![false], vec![false]);
        let mut calling_any = Vec::new();
        let left_out: HashSet<MethodId> = self.left_out.iter().copied().collect();
        for m in methods.iter().filter(|m| resolver.enterable(m)) {
            members.push((m.id.0, OUTSIDE));
            entries.extend(self.entry(m.id).map(|e| (OUTSIDE, e)));
        }
        for (set, callees) in (0..).zip(&answers).skip(1) {
            // A method without nodes cannot be seen. The resolver accounts for those without
            // bytecodes, but not for those that were left out.
            let hidden = callees.methods.iter().any(|m| left_out.contains(m));
            members.extend(callees.methods.iter().map(|m| (m.0, set)));
            calling_any.extend(callees.any.then_some(set));
            entries.extend(callees.methods.iter().filter_map(|m| self.entry(*m)).map(|e| (set, e)));
            passes.push(callees.passes || hidden);
            outside.push(callees.outside || hidden);
            unknown.push(callees.methods.is_empty() && !callees.any);
        }
        let outside_sites: Vec<_> =
            self.sites.iter().filter(|s| outside[s.0 as usize]).map(|s| (OUTSIDE, s.1)).collect();
        self.sites.extend(outside_sites);
        let by_opcode = |n: &Node| (self.opcodes[n.at()], *n);
        entries.sort_unstable_by_key(|(set, n)| (*set, by_opcode(n)));
        entries.dedup();
        self.sites.sort_unstable_by_key(|(set, n)| (*set, by_opcode(n)));
        members.sort_unstable();
        members.dedup();
        (sets.entry_first, sets.entries) = rows_of(entries, self.targets.len());
        (sets.after_first, sets.behind) = rows_of(std::mem::take(&mut self.sites), self.targets.len());
        (sets.of_first, sets.of) = rows_of(members, methods.len());
        (sets.passes, sets.outside, sets.unknown) = (passes.into(), outside.into(), unknown.into());
        sets.calling_any = calling_any.into();
        sets
    }
}

/// Converts pairs that ascend by row to a table with rows.
fn rows_of<T>(pairs: Vec<(u32, T)>, rows: usize) -> (Box<[u32]>, Box<[T]>) {
    let mut first = Vec::with_capacity(rows + 1);
    let mut all = Vec::with_capacity(pairs.len());
    for (row, value) in pairs {
        first.resize(first.len().max(row as usize + 1), all.len() as u32);
        all.push(value);
    }
    first.resize(rows + 1, all.len() as u32);
    (first.into(), all.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icfg::ByName;
    use crate::testing::{calls, method, row};
    use jportal_units::Bci;

    fn program() -> MethodTable {
        let mut t = MethodTable::default();
        // 0 invokestatic leaf; 3 nop; 4 invokestatic native; 7 return; 8 astore_0; 9 return
        let mut main = method("main", &[184, 0, 1, 0, 184, 0, 2, 177, 75, 177]);
        main.invokes = [calls(0, "a/A", "leaf"), calls(4, "a/A", "native")].into();
        main.exceptions = [row(0, 3, 8, None)].into();
        t.push(main);
        // 0 iload_0; 1 ifne 0; 4 return
        t.push(method("leaf", &[26, 154, 0xff, 0xff, 177]));
        t.push(Method { code: Box::new([]), access_flags: 0x108, ..method("native", &[]) });
        t.push(method("malformed", &[203]));
        t
    }
    fn graph() -> Icfg {
        let t = program();
        Icfg::build(&t, &mut ByName::new(&t))
    }

    #[test]
    fn nodes_are_instructions() {
        let g = graph();
        assert_eq!((g.len(), g.method_count(), g.left_out()), (9, 4, &[MethodId(3)][..]));
        assert_eq!(g.node_at(MethodId(1), Bci(1)), Some(Node(7)));
        assert_eq!(g.node_at(MethodId(1), Bci(2)), None);
        assert_eq!(
            (g.method(Node(7)), g.bci(Node(7)), g.opcode(Node(7))),
            (MethodId(1), Bci(1), Opcode::IFNE)
        );
        assert_eq!((g.entry(MethodId(1)), g.entry(MethodId(2))), (Some(Node(6)), None));
        assert!(g.memory() > 0);
    }

    #[test]
    fn transfers_across_words() {
        // A hundred times `iload_0; ifne +0; invokestatic leaf`, and a return.
        let code: Vec<u8> = [26, 154, 0, 3, 184, 0, 1].repeat(100).into_iter().chain([177]).collect();
        let mut t = MethodTable::default();
        t.push(method("long", &code));
        let g = Icfg::build(&t, &mut ByName::new(&t));
        for start in 0..301 {
            for end in start..=301.min(start + 64) {
                let transfer = |n: &u32| g.opcode(Node(*n)).transfer();
                let bits = |is: &dyn Fn(Transfer) -> bool| {
                    (start..end).rev().fold(0, |bits, n| bits << 1 | u64::from(is(transfer(&n))))
                };
                let calls = |t| matches!(t, Transfer::Invoke | Transfer::Return);
                let expected = (bits(&|t| t != Transfer::None), bits(&calls));
                assert_eq!(g.transfers(start..end), expected, "{start}..{end}");
            }
        }
    }

    #[test]
    fn calls_and_returns() {
        let g = graph();
        assert_eq!(g.callees(Node(0)), [Node(6)]);
        assert!(!g.passes(Node(0)) && !g.is_outside(Node(0)));
        assert_eq!(g.edges(Node(0)).collect::<Vec<_>>(), [(EdgeKind::Behind, Node(1))]);
        // After its own site, and after the native call that may call back.
        let behind: Vec<_> = g.after_calls_of(MethodId(1)).collect();
        assert_eq!(behind, [&[Node(3)][..], &[Node(1)]]);
        // Control may pass the native method, which may call methods that can be entered from
        // outside.
        assert!(g.passes(Node(2)) && g.is_outside(Node(2)) && g.callees(Node(2)).is_empty());
        assert!(!g.calls_unknown(Node(0)) && !g.calls_unknown(Node(2)));
        assert!(
            g.may_call(Node(2), Node(6)) && g.may_call(Node(0), Node(6)) && !g.may_call(Node(0), Node(0))
        );
    }

    #[test]
    fn entries_by_opcode() {
        let g = graph();
        assert_eq!(g.outside_entries(), [Node(6), Node(0)]);
        assert_eq!(g.with_opcode(g.outside_entries(), Opcode::INVOKESTATIC), [Node(0)]);
        assert_eq!(g.with_opcode(g.outside_entries(), Opcode::NOP), []);
    }

    #[test]
    fn jumps_and_handlers_backwards() {
        let g = graph();
        assert_eq!(g.jumps_to(Node(6)).collect::<Vec<_>>(), [Node(7)]);
        assert_eq!(g.handlers(Node(0)).collect::<Vec<_>>(), [Node(4)]);
        assert!(g.catches_all(Node(0)) && !g.catches_all(Node(1)));
        assert_eq!(g.rows_into(Node(4)).count(), 1);
    }
}
