// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Checks that the nodes of a call tree form trees. A tree that was read from a file may not.

use super::report::{CallTree, Kind};

/// A call tree whose nodes do not form trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the call tree is damaged: node {node} {why}; write the document again")]
pub struct BadTree {
    /// Index of the first node that is wrong.
    pub node: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

impl CallTree {
    /// The thread of each node, as an index into `threads`. An error if a number, a parent or a
    /// root is wrong.
    pub fn threads_of_nodes(&self) -> Result<Vec<u32>, BadTree> {
        const NONE: u32 = u32::MAX;
        let bad = |node, why| Err(BadTree { node, why });
        let mut owners = vec![NONE; self.nodes.len()];
        for (thread, t) in (0..).zip(&self.threads) {
            let root = t.root as usize;
            match owners.get_mut(root) {
                None => return bad(root, "is the root of a thread, and does not exist"),
                Some(owner) if *owner != NONE => return bad(root, "is the root of two threads"),
                Some(owner) => *owner = thread,
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if node.id as usize != at {
                return bad(at, "has another number");
            }
            match node.parent {
                None if owners[at] == NONE => return bad(at, "has neither a parent nor a thread"),
                None if node.kind != Kind::Root => return bad(at, "is a root of another kind"),
                None => {}
                Some(_) if owners[at] != NONE => return bad(at, "is a root and has a parent"),
                Some(_) if node.kind == Kind::Root => {
                    return bad(at, "is of the kind of roots and has a parent");
                }
                Some(parent) if parent as usize >= at => return bad(at, "comes before its parent"),
                Some(parent) => owners[at] = owners[parent as usize],
            }
        }
        Ok(owners)
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_hand::{call, root, tree};
    use super::*;

    #[test]
    fn nodes_belong_to_the_thread_of_their_root() {
        let nodes = || vec![root(), call(0, "a.B.f()V", 1, 2), root(), call(2, "a.B.g()V", 1, 3)];
        let names = ["main", "other"];
        let whole = tree(&names, nodes());
        assert_eq!(whole.threads_of_nodes().unwrap(), [0, 0, 1, 1]);
        let broken = |change: &dyn Fn(&mut CallTree)| {
            let mut t = tree(&names, nodes());
            change(&mut t);
            t.threads_of_nodes().unwrap_err().node
        };
        assert_eq!(broken(&|t| t.threads[1].root = 9), 9);
        assert_eq!(broken(&|t| t.threads[1].root = 0), 0);
        assert_eq!(broken(&|t| t.threads[1].root = 1), 1);
        assert_eq!(broken(&|t| drop(t.threads.pop())), 2);
        assert_eq!(broken(&|t| t.nodes[3].parent = Some(3)), 3);
        assert_eq!(broken(&|t| t.nodes[3].parent = None), 3);
        assert_eq!(broken(&|t| t.nodes[3].id = 7), 3);
        assert_eq!(broken(&|t| t.nodes[2].kind = Kind::Call), 2);
        assert_eq!(broken(&|t| t.nodes[1].kind = Kind::Root), 1);
    }
}
