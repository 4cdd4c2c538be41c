// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The nodes of one thread's tree while it grows.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use jportal_flow::{Provenance, Tally, Tier};
use jportal_units::MethodId;

/// Number of a node. A parent's number is smaller than those of its children.
pub(super) type Id = u32;
/// The root of a thread's tree.
pub(super) const ROOT: Id = 0;
/// No call site.
pub(super) const NO_SITE: u16 = u16::MAX;

/// What a node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Tag {
    Root,
    Method,
    Unknown,
    Orphans,
    /// `method` and `site` are those of the invoke.
    Silent,
    Library,
}

/// Some activation was called by the VM or by native code.
pub(super) const FROM_VM: u8 = 1;
/// Some activation was called by Java code.
pub(super) const FROM_JAVA: u8 = 2;
/// The node's own figures may be too low.
pub(super) const LOWER: u8 = 4;
/// The figures of the node and of all nodes below may be too low.
pub(super) const LOSSY: u8 = 8;
/// Changed since the last time that somebody looked.
const CHANGED: u8 = 16;

/// A node: 64 bytes.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: Id,
    pub(super) method: MethodId,
    /// The child that was entered last; `ROOT` if none was.
    last: Id,
    pub(super) site: u16,
    pub(super) tag: Tag,
    pub(super) flags: u8,
    /// Invocations of all provenances.
    pub(super) invocations: u64,
    /// Bytecodes of all provenances: interpreter, C1, C2.
    pub(super) tiers: [u64; 3],
    /// Bytecodes counted by whole blocks.
    pub(super) default: u64,
    /// Time on a core, in ticks.
    pub(super) ticks: u64,
}

/// Figures that few nodes have.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// Projected and recovered invocations.
    pub(super) invocations: Tally,
    /// Projected and recovered bytecodes.
    pub(super) bytecodes: Tally,
    pub(super) unstarted: u64,
    pub(super) found: u64,
}

/// The key of a node among the children of its parent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) tag: Tag,
    pub(super) method: MethodId,
    pub(super) site: u16,
}

impl Key {
    /// A node that is unique among the children of its parent.
    pub(super) const fn only(tag: Tag) -> Self {
        Self { tag, method: MethodId(u32::MAX), site: NO_SITE }
    }
}

/// The number of nodes of all threads, and its limit.
#[derive(Debug)]
pub(super) struct Room {
    used: AtomicU64,
    most: u64,
}

impl Room {
    pub(super) fn new(most: u64) -> Self {
        Self { used: AtomicU64::new(0), most: most.min(u64::from(u32::MAX)) }
    }
    pub(super) const fn most(&self) -> u64 {
        self.most
    }
    fn take(&self) -> bool {
        self.used.fetch_add(1, Ordering::Relaxed) < self.most
    }
}

#[derive(Debug)]
pub(super) struct Arena {
    pub(super) nodes: Vec<Node>,
    pub(super) rare: HashMap<Id, Rare>,
    index: HashTable<Id>,
    hasher: DefaultHashBuilder,
    /// Where a node was refused: the parent, and the child's key.
    pub(super) refused: Option<(Id, Key)>,
    /// Whether changes are noted in `changed`.
    watched: bool,
    pub(super) changed: Vec<Id>,
}

impl Arena {
    pub(super) fn new(watched: bool) -> Self {
        let mut arena = Self {
            nodes: Vec::new(),
            rare: HashMap::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            refused: None,
            watched,
            changed: Vec::new(),
        };
        arena.nodes.push(Node::new(ROOT, Key::only(Tag::Root)));
        arena
    }
    /// No nodes will be added. Gives back what only their addition needs.
    pub(super) fn seal(&mut self) {
        self.index = HashTable::new();
        self.nodes.shrink_to_fit();
    }
    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }
    pub(super) fn flag(&mut self, id: Id, flags: u8) {
        self.nodes[id as usize].flags |= flags;
    }
    pub(super) fn rare(&mut self, id: Id) -> &mut Rare {
        self.rare.entry(id).or_default()
    }
    /// The child of `parent` with that key, which begins to exist if necessary. If there is no
    /// room for it, the parent takes its place.
    #[inline]
    pub(super) fn child(&mut self, room: &Room, parent: Id, key: Key) -> Id {
        let last = self.nodes[parent as usize].last;
        if last != ROOT && self.nodes[last as usize].key() == key {
            return last;
        }
        let id = self.look_up(room, parent, key);
        if id != parent {
            self.nodes[parent as usize].last = id;
        }
        id
    }
    /// The nearest node of `method` on the path to `from`, including `from`.
    pub(super) fn ancestor(&self, from: Id, method: MethodId) -> Option<Id> {
        let mut at = from;
        loop {
            let node = self.node(at);
            if node.tag == Tag::Method && node.method == method {
                return Some(at);
            }
            if at == ROOT {
                return None;
            }
            at = node.parent;
        }
    }
    /// A root that no key finds. If there is no room for it, the thread's root takes its place.
    pub(super) fn root(&mut self, room: &Room) -> Id {
        let key = Key::only(Tag::Root);
        if !room.take() {
            self.refused = self.refused.or(Some((ROOT, key)));
            return ROOT;
        }
        self.nodes.push(Node::new(ROOT, key));
        (self.nodes.len() - 1) as Id
    }
    fn look_up(&mut self, room: &Room, parent: Id, key: Key) -> Id {
        let hash = |parent: Id, key: Key| {
            struct Both(Id, Key);
            impl Hash for Both {
                fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                    state.write_u64(u64::from(self.0) << 32 | u64::from(self.1.method.get()));
                    state.write_u32(u32::from(self.1.site) << 8 | self.1.tag as u32);
                }
            }
            self.hasher.hash_one(Both(parent, key))
        };
        let (nodes, own) = (&self.nodes, hash(parent, key));
        let same = |id: &Id| nodes[*id as usize].parent == parent && nodes[*id as usize].key() == key;
        if let Some(id) = self.index.find(own, same) {
            return *id;
        }
        if !room.take() {
            self.refused = self.refused.or(Some((parent, key)));
            return parent;
        }
        let id = self.nodes.len() as Id;
        self.index.insert_unique(own, id, |id| {
            let node = &nodes[*id as usize];
            hash(node.parent, node.key())
        });
        self.nodes.push(Node::new(parent, key));
        id
    }
    #[inline]
    fn touch(&mut self, id: Id) -> &mut Node {
        let node = &mut self.nodes[id as usize];
        if self.watched && node.flags & CHANGED == 0 {
            node.flags |= CHANGED;
            self.changed.push(id);
        }
        node
    }
    #[inline]
    pub(super) fn invoked(&mut self, id: Id, provenance: Provenance) {
        self.touch(id).invocations += 1;
        if provenance != Provenance::Decoded {
            self.rare(id).invocations.add(provenance);
        }
    }
    /// An activation that was counted ended before its first bytecode.
    pub(super) fn unstarted(&mut self, id: Id, provenance: Provenance) {
        let node = self.touch(id);
        node.invocations = node.invocations.saturating_sub(1);
        let rare = self.rare(id);
        rare.unstarted += 1;
        let count = match provenance {
            Provenance::Decoded => return,
            Provenance::Projected { .. } => &mut rare.invocations.projected,
            Provenance::Recovered { .. } => &mut rare.invocations.recovered,
        };
        *count = count.saturating_sub(1);
    }
    #[inline]
    pub(super) fn executed(&mut self, id: Id, (tier, n): (Tier, u64), provenance: Provenance) {
        let at = match tier {
            // A native method executes no bytecode.
            Tier::Interpreter | Tier::Native => 0,
            Tier::C1 => 1,
            Tier::C2 => 2,
        };
        self.touch(id).tiers[at] += n;
        if provenance != Provenance::Decoded {
            self.rare(id).bytecodes.add_all(provenance, n);
        }
    }
    /// The numbers of the nodes that changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<Id> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().for_each(|id| self.nodes[*id as usize].flags &= !CHANGED);
        changed
    }
    pub(super) fn invocations(&self, id: Id) -> Tally {
        let rare = self.rare.get(&id).map_or_else(Tally::default, |r| r.invocations);
        tally(self.node(id).invocations, rare)
    }
    pub(super) fn bytecodes(&self, id: Id) -> Tally {
        let rare = self.rare.get(&id).map_or_else(Tally::default, |r| r.bytecodes);
        tally(self.node(id).tiers.iter().sum(), rare)
    }
}

fn tally(all: u64, rare: Tally) -> Tally {
    Tally { decoded: all.saturating_sub(rare.projected + rare.recovered), ..rare }
}

impl Node {
    const fn new(parent: Id, key: Key) -> Self {
        let Key { tag, method, site } = key;
        let (invocations, tiers, default, ticks) = (0, [0; 3], 0, 0);
        Self { parent, method, last: ROOT, site, tag, flags: 0, invocations, tiers, default, ticks }
    }
    const fn key(&self) -> Key {
        Key { tag: self.tag, method: self.method, site: self.site }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_small() {
        assert_eq!(size_of::<Node>(), 64);
    }

    #[test]
    fn children_are_found_again_and_limited() {
        let (room, mut arena) = (Room::new(200), Arena::new(false));
        let key = |m| Key { tag: Tag::Method, method: MethodId(m), site: NO_SITE };
        let ids: Vec<Id> = (0..100).map(|m| arena.child(&room, ROOT, key(m))).collect();
        let below: Vec<Id> = ids.iter().map(|id| arena.child(&room, *id, key(1))).collect();
        for (m, (id, child)) in (0..).zip(ids.iter().zip(&below)) {
            assert_eq!(arena.child(&room, ROOT, key(m)), *id);
            assert_eq!(arena.child(&room, *id, key(1)), *child);
        }
        assert_eq!((arena.nodes.len(), arena.refused), (201, None));
        assert_eq!(arena.child(&room, ids[7], key(3)), ids[7]);
        assert_eq!(arena.refused, Some((ids[7], key(3))));
        assert_ne!(arena.child(&room, ids[7], key(1)), ids[7]);
    }
}
