//! The frames of a thread along a path, as far as they are known.

use jportal_bytecode::{Icfg, Node, Transfer};

/// A stack of call sites.
#[derive(Clone, Debug)]
pub(super) struct Frames<'a> {
    icfg: &'a Icfg,
    /// Outermost first.
    sites: Vec<Node>,
    /// Whether nothing lies below the outermost.
    whole: bool,
}

impl<'a> Frames<'a> {
    /// The frames below an instruction; `None`: unknown.
    pub(super) fn new(icfg: &'a Icfg, sites: Option<&[Node]>) -> Self {
        Self { icfg, sites: sites.unwrap_or_default().to_vec(), whole: sites.is_some() }
    }
    /// The call site of the frame below, if it is known.
    pub(super) fn site(&self) -> Option<Node> {
        self.sites.last().copied()
    }
    /// Whether `to` may follow `from` with these frames.
    pub(super) fn allow(&self, from: Node, to: Node) -> bool {
        self.step(from, to).is_some()
    }
    /// Goes on from `from` to `to`; nothing happens where these frames do not allow it.
    pub(super) fn follow(&mut self, from: Node, to: Node) -> bool {
        match self.step(from, to) {
            Some(Change::Push) => self.sites.push(from),
            Some(Change::Keep(depth)) => self.sites.truncate(depth),
            None => return false,
        }
        true
    }
    fn step(&self, from: Node, to: Node) -> Option<Change> {
        let g = self.icfg;
        let depth = self.sites.len();
        if g.opcode(from).transfer() == Transfer::Return {
            return self.returns(from, to);
        }
        // A handler that is an entry, too, is taken for the callee.
        if g.may_call(from, to) {
            return Some(Change::Push);
        }
        if g.edges(from).any(|(_, n)| n == to) || g.handlers(from).any(|n| n == to) {
            return Some(Change::Keep(depth));
        }
        if g.is_entry(to) {
            return Some(Change::Push);
        }
        self.unwinds(to)
    }
    fn returns(&self, from: Node, to: Node) -> Option<Change> {
        let g = self.icfg;
        match self.sites.last() {
            Some(site) => g.edges(*site).any(|(_, n)| n == to).then_some(Change::Keep(self.sites.len() - 1)),
            None => {
                let entry = g.entry(g.method(from))?;
                let site = Node(to.0.checked_sub(1)?);
                let behind = g.edges(site).any(|(_, n)| n == to);
                (!self.whole && behind && g.may_call(site, entry)).then_some(Change::Keep(0))
            }
        }
    }
    /// An exception leaves frames until one has `handler`.
    fn unwinds(&self, handler: Node) -> Option<Change> {
        let g = self.icfg;
        g.rows_into(handler).next()?;
        for (depth, site) in self.sites.iter().enumerate().rev() {
            if g.handlers(*site).any(|h| h == handler) {
                return Some(Change::Keep(depth));
            }
            if g.catches_all(*site) {
                return None;
            }
        }
        (!self.whole).then_some(Change::Keep(0))
    }
    /// Whether these frames may be `others`: as far as both are known they are the same.
    pub(super) fn agree(&self, others: &Self) -> bool {
        let same = self.sites.iter().rev().zip(others.sites.iter().rev()).all(|(a, b)| a == b);
        let (a, b) = (self.sites.len(), others.sites.len());
        same && (!self.whole || b <= a) && (!others.whole || a <= b)
    }
}

enum Change {
    Push,
    /// So many frames are left.
    Keep(usize),
}
