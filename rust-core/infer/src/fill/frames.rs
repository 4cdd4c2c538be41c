// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The known frames of a thread along a path.

use crate::cut::FrameSites;
use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node, Transfer};

/// A stack of call sites.
#[derive(Clone, Debug)]
pub(super) struct Frames<'a> {
    icfg: &'a Icfg,
    /// Outermost first.
    sites: Vec<Node>,
    /// Whether nothing lies below the outermost frame.
    whole: bool,
}

impl<'a> Frames<'a> {
    /// The frames below an instruction.
    pub(super) fn new(icfg: &'a Icfg, below: Below<'_>) -> Self {
        let (sites, whole): (&[Node], _) = match below {
            Below::Unpaired | Below::Unknown => (&[], false),
            Below::Top(sites) => (sites, false),
            Below::Frames(sites) => (sites, true),
        };
        Self { icfg, sites: sites.to_vec(), whole }
    }
    /// The call site in the frame directly below, if it is known.
    pub(super) fn site(&self) -> Option<Node> {
        self.sites.last().copied()
    }
    /// The known call sites, outermost first.
    pub(super) fn sites(&self) -> &[Node] {
        &self.sites
    }
    /// Whether nothing lies below the known frames.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole
    }
    /// The known call sites.
    pub(super) fn known(&self) -> FrameSites {
        FrameSites { sites: self.sites.clone(), whole: self.whole }
    }
    /// Writes the known call sites to `known`, and reuses its memory.
    pub(super) fn known_in(&self, known: &mut FrameSites) {
        known.sites.clone_from(&self.sites);
        known.whole = self.whole;
    }
    /// Number of known frames.
    pub(super) fn depth(&self) -> usize {
        self.sites.len()
    }
    /// Whether `to` may follow `from` with these frames.
    pub(super) fn allow(&self, from: Node, to: Node) -> bool {
        self.step(from, to).is_some()
    }
    /// Steps from `from` to `to`. Returns false and changes nothing if these frames do not
    /// allow it.
    pub(super) fn follow(&mut self, from: Node, to: Node) -> bool {
        match self.step(from, to) {
            Some(FrameChange::Push) => self.sites.push(from),
            Some(FrameChange::Keep(depth)) => self.sites.truncate(depth),
            None => return false,
        }
        true
    }
    /// Steps from `from` to `to`, which really followed it elsewhere. Returns false and changes
    /// nothing if these frames contradict the step. If no frames could explain it, they become
    /// unknown: the VM called Java or came back in a way that the graph does not hold.
    pub(super) fn follow_seen(&mut self, from: Node, to: Node) -> bool {
        if self.follow(from, to) {
            return true;
        }
        let g = self.icfg;
        // A return leads to the frame below or, if the VM calls again, to an entry.
        if g.opcode(from).transfer() == Transfer::Return && !self.sites.is_empty() {
            return g.is_entry(to);
        }
        let contradicted = Frames::new(g, Below::Unknown).allow(from, to);
        if !contradicted {
            self.sites.clear();
            self.whole = false;
        }
        !contradicted
    }
    fn step(&self, from: Node, to: Node) -> Option<FrameChange> {
        let g = self.icfg;
        let depth = self.sites.len();
        let transfer = g.opcode(from).transfer();
        if transfer == Transfer::Return {
            return self.returns(from, to);
        }
        // The entry of another method is reached only by a call, even if the graph does not
        // know this call.
        if g.is_entry(to) && g.method(to) != g.method(from) {
            return Some(FrameChange::Push);
        }
        // An entry that is also a handler is taken for the callee's entry.
        if transfer == Transfer::Invoke && g.may_call(from, to) {
            return Some(FrameChange::Push);
        }
        if g.edges(from).any(|(_, n)| n == to) || g.handlers(from).any(|n| n == to) {
            return Some(FrameChange::Keep(depth));
        }
        if g.is_entry(to) {
            return Some(FrameChange::Push);
        }
        self.unwinds(to)
    }
    fn returns(&self, from: Node, to: Node) -> Option<FrameChange> {
        let g = self.icfg;
        // Code outside the graph that called this frame may call again.
        if g.is_entry(to) && self.sites.last().is_none_or(|site| g.is_outside(*site)) {
            return Some(FrameChange::Keep(self.sites.len()));
        }
        match self.sites.last() {
            Some(site) => {
                g.edges(*site).any(|(_, n)| n == to).then_some(FrameChange::Keep(self.sites.len() - 1))
            }
            None => {
                let entry = g.entry(g.method(from))?;
                let site = Node(to.0.checked_sub(1)?);
                let behind = g.edges(site).any(|(_, n)| n == to);
                (!self.whole && behind && g.may_call(site, entry)).then_some(FrameChange::Keep(0))
            }
        }
    }
    /// An exception leaves frames until one of them has `handler`.
    fn unwinds(&self, handler: Node) -> Option<FrameChange> {
        let g = self.icfg;
        g.rows_into(handler).next()?;
        for (depth, site) in self.sites.iter().enumerate().rev() {
            if g.handlers(*site).any(|h| h == handler) {
                return Some(FrameChange::Keep(depth));
            }
            if g.catches_all(*site) {
                return None;
            }
        }
        (!self.whole).then_some(FrameChange::Keep(0))
    }
    /// Whether these frames may be `others`: they are the same where both are known.
    pub(super) fn agree(&self, others: &Self) -> bool {
        self.may_have(self.sites.len(), &others.sites, others.whole)
    }
    /// Whether the `known` outermost of these frames may have the call sites `sites`, outermost
    /// first. `whole` says that nothing lies below `sites`.
    pub(super) fn may_have(&self, known: usize, sites: &[Node], whole: bool) -> bool {
        let own = &self.sites[..known];
        let same = own.iter().rev().zip(sites.iter().rev()).all(|(a, b)| a == b);
        same && (!self.whole || sites.len() <= known) && (!whole || known <= sites.len())
    }
}

enum FrameChange {
    Push,
    /// The number of frames that remain.
    Keep(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{at, calling, catching, graph, method};

    /// main and other call f; f and catcher call g, which throws. main and catcher catch
    /// exceptions.
    fn program() -> Icfg {
        let caller = |name: &str, callee| calling(method(name, &[184, 0, 1, 177, 75, 177]), &[callee]);
        graph(vec![
            catching(caller("main", "f"), 0, 3, 4),
            caller("other", "f"),
            caller("f", "g"),
            method("g", &[1, 191]),
            catching(caller("catcher", "g"), 0, 3, 4),
        ])
    }
    fn node(g: &Icfg, method: u32, bci: u16) -> Node {
        at(g, method, &[bci])[0]
    }

    #[test]
    fn calls_and_returns_are_paired() {
        let g = program();
        let n = |m, b| node(&g, m, b);
        let mut frames = Frames::new(&g, Below::Frames(&[]));
        assert!(frames.follow(n(1, 0), n(2, 0)));
        assert_eq!(frames.site(), Some(n(1, 0)));
        assert!(!frames.allow(n(2, 3), n(0, 3)));
        assert!(frames.follow(n(2, 3), n(1, 3)));
        assert_eq!(frames.site(), None);
        // Nothing lies below, but code outside the graph may call again.
        assert!(frames.allow(n(1, 3), n(3, 0)));
        assert!(!frames.follow(n(1, 3), n(1, 3)) && !frames.allow(n(2, 3), n(0, 3)));
        // An unknown frame lies below, which may have called f.
        let unknown = Frames::new(&g, Below::Unknown);
        assert!(unknown.allow(n(2, 3), n(0, 3)) && unknown.allow(n(2, 3), n(1, 3)));
        assert!(!unknown.allow(n(2, 3), n(2, 3)) && !unknown.allow(n(2, 3), n(0, 4)));
    }

    #[test]
    fn what_was_seen_elsewhere_is_believed_or_contradicted() {
        let g = program();
        let n = |m, b| node(&g, m, b);
        let mut frames = Frames::new(&g, Below::Frames(&[n(1, 0)]));
        assert!(!frames.follow_seen(n(2, 3), n(0, 3)));
        assert_eq!(frames.site(), Some(n(1, 0)));
        // From the middle of f into the middle of g: the graph has no such step.
        assert!(frames.follow_seen(n(2, 4), n(3, 1)));
        assert_eq!(frames.site(), None);
        // A return into the middle of another method, which the VM may have made: not if the
        // caller is known.
        let mut called = Frames::new(&g, Below::Top(&[n(1, 0)]));
        assert!(!called.follow_seen(n(1, 3), n(4, 4)));
        // But the return may lead to an entry, if the VM calls again.
        assert!(called.follow_seen(n(1, 3), n(4, 0)));
        assert_eq!(called.site(), Some(n(1, 0)));
        assert!(frames.follow_seen(n(2, 3), n(0, 3)));
    }

    #[test]
    fn exceptions_leave_frames() {
        let g = program();
        let n = |m, b| node(&g, m, b);
        let mut frames = Frames::new(&g, Below::Frames(&[n(1, 0), n(0, 0), n(2, 0)]));
        assert!(frames.follow(n(3, 1), n(0, 4)));
        assert_eq!(frames.site(), Some(n(1, 0)));
        // An exception does not pass a handler that catches all.
        let frames = Frames::new(&g, Below::Frames(&[n(0, 0), n(4, 0)]));
        assert!(frames.allow(n(3, 1), n(4, 4)) && !frames.allow(n(3, 1), n(0, 4)));
        assert!(!Frames::new(&g, Below::Frames(&[n(1, 0)])).allow(n(3, 1), n(0, 4)));
        assert!(Frames::new(&g, Below::Unknown).allow(n(3, 1), n(0, 4)));
        assert!(!Frames::new(&g, Below::Unknown).allow(n(3, 1), n(1, 4)));
    }

    #[test]
    fn frames_agree_as_far_as_they_are_known() {
        let g = program();
        let all = [node(&g, 1, 0), node(&g, 2, 0)];
        let whole = |sites: &[Node]| Frames::new(&g, Below::Frames(sites));
        let top = Frames::new(&g, Below::Top(&all[1..]));
        assert!(whole(&all).agree(&whole(&all)) && whole(&all).agree(&top) && top.agree(&whole(&all)));
        assert!(!whole(&all).agree(&whole(&all[1..])) && !whole(&all[1..]).agree(&whole(&all)));
        assert!(!top.agree(&whole(&[])) && !whole(&all[..1]).agree(&top));
        assert!(Frames::new(&g, Below::Unknown).agree(&whole(&all)));
    }
}
