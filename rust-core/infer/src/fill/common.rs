// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The number of instructions on which two sequences agree, compared block by block: a gap is
//! compared with some dozen places over thousands of instructions each.

use jportal_bytecode::Node;

/// Number of instructions compared at once.
const BLOCK: usize = 16;

/// The length of the common prefix.
pub(super) fn prefix(a: &[Node], b: &[Node]) -> usize {
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let same = BLOCK * blocks.take_while(|(a, b)| a == b).count();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// The length of the common suffix.
pub(super) fn suffix(a: &[Node], b: &[Node]) -> usize {
    let blocks = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK));
    let same = BLOCK * blocks.take_while(|(a, b)| a == b).count();
    let (a, b) = (a[..a.len() - same].iter().rev(), b[..b.len() - same].iter().rev());
    same + a.zip(b).take_while(|(a, b)| a == b).count()
}

/// The length of the common prefix of `a` reversed and `b`.
pub(super) fn mirrored(a: &[Node], b: &[Node]) -> usize {
    let blocks = a.as_rchunks::<BLOCK>().1.iter().rev().zip(b.as_chunks::<BLOCK>().0);
    // Compares all of a block even if its first instructions differ: the comparisons can then
    // run in parallel.
    let same = |a: &[Node; BLOCK], b: &[Node; BLOCK]| {
        a.iter().rev().zip(b).fold(true, |same, (a, b)| same & (a == b))
    };
    let same = BLOCK * blocks.take_while(|(a, b)| same(a, b)).count();
    same + a[..a.len() - same].iter().rev().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_make_no_difference(
            lens in (0usize..70, 0usize..70),
            differs in proptest::option::of(0usize..70),
        ) {
            let a: Vec<Node> = (0..lens.0 as u32).map(Node).collect();
            let mut b: Vec<Node> = (0..lens.1 as u32).map(Node).collect();
            if let Some(node) = differs.and_then(|at| b.get_mut(at)) {
                *node = Node(100);
            }
            let expected = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(prefix(&a, &b), expected);
            let reversed = |all: &[Node]| all.iter().rev().copied().collect::<Vec<_>>();
            prop_assert_eq!(mirrored(&reversed(&a), &b), expected);
            prop_assert_eq!(suffix(&reversed(&a), &reversed(&b)), expected);
        }
    }
}
