// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The methods of a plan with their bytecodes, and the sites that may follow each other.

use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{Cfg, Constant, EdgeKind, Instruction, Method, MethodTable, Transfer, instructions};
use jportal_units::{Bci, MethodId};

use super::plan::{Plan, PlannedMethod, PlannedSite};

/// Number of a method in [`Program`].
pub(super) type FunctionId = u32;
/// Number of a site in its function.
pub(super) type SiteIndex = u32;

/// A method whose bytecodes are known: the paper's call site control flow graph.
#[derive(Debug)]
pub(super) struct SiteGraph {
    cfg: Cfg,
    /// The instruction of each site.
    pub(super) insns: Vec<u32>,
    /// Sites that may be first.
    pub(super) entry: Vec<SiteIndex>,
    /// Sites of which one may be next in the same frame, by call site.
    pub(super) after: Vec<Vec<SiteIndex>>,
    /// By number of the handler's block: its first instruction, and the sites that may be next.
    pub(super) handlers: HashMap<u32, (u32, Vec<SiteIndex>)>,
    /// The segment of each instruction: a part of a block between call sites. Each site is a
    /// segment of its own.
    segments: Vec<u32>,
    /// The block of each handler's first instruction.
    blocks: HashMap<u32, u32>,
    /// In a constructor: the call of another constructor of this object. No handler can cover it.
    pub(super) super_call: Option<u32>,
}

/// Instructions that are reached from one without passing a site, and the sites at their ends.
struct Reached {
    insns: HashSet<u32>,
    sites: Vec<SiteIndex>,
}

impl SiteGraph {
    /// `None`: the method has other sites than the plan says.
    fn new(method: &Method, planned: &[PlannedSite]) -> Option<Self> {
        let parsed: Vec<Instruction<'_>> = instructions(&method.code).collect::<Result<_, _>>().ok()?;
        let cfg = Cfg::of(method).ok()?;
        let is_site =
            |i: &Instruction<'_>| matches!(i.opcode.transfer(), Transfer::Invoke | Transfer::Return);
        let insns: Vec<u32> = (0..).zip(&parsed).filter(|(_, i)| is_site(i)).map(|(at, _)| at).collect();
        let bcis = insns.iter().map(|at| parsed[*at as usize].bci);
        if !bcis.eq(planned.iter().map(|site| site.bci)) {
            return None;
        }
        let leaders = leaders(&parsed, &cfg);
        let mut segments = Vec::with_capacity(parsed.len());
        let (mut segment, mut is_alone) = (0, false);
        for (at, i) in (0..).zip(&parsed) {
            let own = is_site(i);
            segment += u32::from(at > 0 && (is_alone || own || leaders.binary_search(&at).is_ok()));
            segments.push(segment);
            is_alone = own;
        }
        let mut graph = Self {
            insns,
            entry: Vec::new(),
            after: Vec::new(),
            handlers: HashMap::new(),
            segments,
            blocks: HashMap::new(),
            super_call: super_call(method, &parsed),
            cfg,
        };
        graph.entry = graph.reach(0).sites;
        for (site, at) in planned.iter().zip(graph.insns.clone()) {
            let next = at + 1;
            let continues = site.is_call && (next as usize) < parsed.len();
            let sites = if continues { graph.reach(next).sites } else { Vec::new() };
            graph.after.push(sites);
        }
        for handler in graph.cfg.rows().iter().map(|row| row.handler).collect::<Vec<_>>() {
            let block = leaders.partition_point(|leader| *leader < handler) as u32;
            let sites = graph.reach(handler).sites;
            graph.handlers.insert(block, (handler, sites));
            graph.blocks.insert(handler, block);
        }
        Some(graph)
    }
    fn reach(&self, from: u32) -> Reached {
        let mut reached = Reached { insns: HashSet::new(), sites: Vec::new() };
        let mut open = vec![from];
        let mut seen = HashSet::new();
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            if let Ok(site) = self.insns.binary_search(&at) {
                reached.sites.push(site as u32);
            } else {
                reached.insns.insert(at);
                open.extend(self.cfg.edges(at).iter().map(|edge| edge.to));
            }
        }
        reached.sites.sort_unstable();
        reached
    }
    /// Whether a frame that continues from an instruction may stand in a segment before it comes
    /// to a site.
    pub(super) fn may_stand(&self, from: u32, segment: u32) -> bool {
        self.reach(from).insns.iter().any(|at| self.segments[*at as usize] == segment)
    }
    /// The segment of an instruction.
    pub(super) fn segment(&self, insn: u32) -> Option<u32> {
        self.segments.get(insn as usize).copied()
    }
    /// The instruction at a bci.
    pub(super) fn insn(&self, bci: Bci) -> Option<u32> {
        self.cfg.index_of(bci)
    }
    /// The number of the block with which a handler begins.
    pub(super) fn handler_block(&self, insn: u32) -> Option<u32> {
        self.blocks.get(&insn).copied()
    }
}

/// First instructions of blocks, ascending: targets, handlers, and what follows a transfer.
fn leaders(parsed: &[Instruction<'_>], cfg: &Cfg) -> Vec<u32> {
    let mut leaders = vec![0];
    for (at, i) in (0_u32..).zip(parsed) {
        let transfer = i.opcode.transfer();
        if matches!(transfer, Transfer::None | Transfer::Invoke) {
            continue;
        }
        if (at as usize) + 1 < parsed.len() {
            leaders.push(at + 1);
        }
        if transfer != Transfer::Ret {
            let targets = cfg.edges(at).iter().filter(|edge| edge.kind != EdgeKind::Fall);
            leaders.extend(targets.map(|edge| edge.to));
        }
    }
    leaders.extend(cfg.rows().iter().map(|row| row.handler));
    leaders.sort_unstable();
    leaders.dedup();
    leaders
}

/// A `new` is matched with the next call of a constructor of its class, as compilers order them.
fn super_call(method: &Method, parsed: &[Instruction<'_>]) -> Option<u32> {
    const NEW: u8 = 187;
    if &*method.name != "<init>" {
        return None;
    }
    let mut open: Vec<&str> = Vec::new();
    for (at, i) in (0..).zip(parsed) {
        if i.opcode.0 == NEW
            && let Some(Constant::Class(class)) = method.constant_of(i)
        {
            open.push(class);
        } else if let Some(call) = method.invoke_at(i.bci).filter(|call| &*call.name == "<init>") {
            if open.last() == Some(&&*call.class_name) {
                open.pop();
            } else {
                return Some(at);
            }
        }
    }
    None
}

/// A method of the plan.
#[derive(Debug)]
pub(super) struct KnownMethod {
    pub(super) plan: PlannedMethod,
    /// By site: the functions that a call may begin.
    targets: Vec<Vec<FunctionId>>,
    /// `None`: the recording does not have the method, so it was never executed.
    pub(super) graph: Option<SiteGraph>,
}

impl KnownMethod {
    /// `class.name(descriptor)`.
    pub(super) fn name(&self) -> String {
        let PlannedMethod { class, name, descriptor, .. } = &self.plan;
        format!("{}.{name}{descriptor}", class.replace('/', "."))
    }
    /// The functions that a call may begin.
    pub(super) fn targets(&self, site: SiteIndex) -> &[FunctionId] {
        self.targets.get(site as usize).map_or(&[], Vec::as_slice)
    }
    pub(super) fn is_initialiser(&self) -> bool {
        self.plan.name == "<clinit>"
    }
}

/// The methods of a plan, and what a recording knows of them.
#[derive(Debug)]
pub struct Program {
    pub(super) functions: Vec<KnownMethod>,
    by_method: HashMap<MethodId, FunctionId>,
    by_number: HashMap<u32, FunctionId>,
    by_site: HashMap<u32, (FunctionId, SiteIndex)>,
}

impl Program {
    /// Finds the methods of the plan among those of a recording.
    pub fn new(plan: Plan, methods: &MethodTable) -> Self {
        let mut named: HashMap<(&str, &str, &str), Vec<&Method>> = HashMap::new();
        for m in methods.iter().filter(|m| !m.code.is_empty()) {
            named.entry((&m.class_name, &m.name, &m.signature)).or_default().push(m);
        }
        let by_number: HashMap<u32, FunctionId> =
            (0..).zip(&plan.methods).map(|(id, method)| (method.exit, id)).collect();
        let mut this =
            Self { functions: Vec::new(), by_method: HashMap::new(), by_number, by_site: HashMap::new() };
        for (id, plan) in (0..).zip(plan.methods) {
            let found = named.get(&(&*plan.class, &*plan.name, &*plan.descriptor));
            let mut graph = None;
            let mut code: &[u8] = &[];
            for m in found.into_iter().flatten() {
                if graph.is_none() {
                    graph = SiteGraph::new(m, &plan.sites);
                    code = &m.code;
                }
                if graph.is_some() && *code == *m.code {
                    this.by_method.insert(m.id, id);
                }
            }
            this.by_site.extend((0..).zip(&plan.sites).map(|(at, site)| (site.id, (id, at))));
            let function = |number| this.by_number.get(number).copied();
            let targets = plan.sites.iter().map(|site| site.targets.iter().filter_map(function).collect());
            this.functions.push(KnownMethod { targets: targets.collect(), plan, graph });
        }
        this
    }
    /// Number of the plan's methods that the recording has.
    pub fn known(&self) -> usize {
        self.functions.iter().filter(|f| f.graph.is_some()).count()
    }
    pub(super) fn of(&self, method: MethodId) -> Option<FunctionId> {
        self.by_method.get(&method).copied()
    }
    pub(super) fn numbered(&self, number: u32) -> Option<FunctionId> {
        self.by_number.get(&number).copied()
    }
    pub(super) fn site(&self, id: u32) -> Option<&PlannedSite> {
        let (function, site) = self.by_site.get(&id)?;
        self.functions.get(*function as usize)?.plan.sites.get(*site as usize)
    }
    pub(super) fn function(&self, id: FunctionId) -> &KnownMethod {
        &self.functions[id as usize]
    }
    /// The name of a site or a method, by number: `class.method(descriptor)@bci`.
    pub fn name(&self, number: u32) -> String {
        let of_site = self.by_site.get(&number).and_then(|(function, site)| {
            let function = self.functions.get(*function as usize)?;
            let bci = function.plan.sites.get(*site as usize)?.bci.get();
            Some(format!("{}@{bci}", function.name()))
        });
        let of_method = || {
            let function = self.numbered(number)?;
            Some(format!("{}, left by an exception", self.function(function).name()))
        };
        of_site.or_else(of_method).unwrap_or_else(|| number.to_string())
    }
}
