//! Blocks that the default space leaves to the code generator: products with small matrices of constants.
//!
//! The transforms of Winograd's convolution sum the elements of a tile, each times an element of two matrices that blocks
//! fill from their indices. As written, the code generator recognises them, and applies the matrices one after the other with
//! their elements as numbers. Inlined, a matrix would be a nest of conditions at each term; tiled, the sum would not be
//! recognised.

use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{BlockId, BufferId, Expr, Func, IterKind};

/// Maximum number of elements of a matrix.
const MAX_MATRIX: i64 = 128;

/// The blocks that fill the matrices, those that apply them, and those that compute nothing but their operands. Empty if
/// there are no matrices.
pub(super) fn left_to_code(func: &Func) -> Vec<BlockId> {
    let blocks = func.blocks();
    let is_sum = |b: BlockId| func.block(b).iters.iter().any(|i| i.kind == IterKind::Reduce);
    let fills = |b: BlockId| -> Option<BufferId> {
        let node = func.block(b);
        let [write] = &node.writes[..] else { return None };
        let shape = func.arena.list(func.arena.buffer(write.buffer).shape);
        let len = shape.iter().try_fold(1i64, |n, &e| n.checked_mul(func.arena.as_int(e)?))?;
        let is_matrix =
            shape.len() == 2 && len <= MAX_MATRIX && !func.params.iter().any(|p| p.buffer == Some(write.buffer));
        let has_iterations = !node.iters.is_empty() && node.iters.iter().all(|i| i.kind == IterKind::Spatial);
        (is_matrix && has_iterations && reads(func, b).is_empty()).then_some(write.buffer)
    };
    let matrices: Vec<(BlockId, BufferId)> = blocks.iter().filter_map(|&b| Some((b, fills(b)?))).collect();
    let applies = |b: &BlockId| is_sum(*b) && reads(func, *b).iter().any(|r| matrices.iter().any(|m| m.1 == *r));
    let transforms: Vec<BlockId> = blocks.iter().copied().filter(applies).collect();
    if transforms.is_empty() {
        return transforms;
    }
    let mut found: Vec<BlockId> = matrices.iter().map(|m| m.0).collect();
    // Elements that only transforms read stay where they are, but sums, which have schedules of their own.
    for &b in blocks.iter().filter(|b| **b != func.root && !is_sum(**b)) {
        let [write] = &func.block(b).writes[..] else { continue };
        let mut readers =
            blocks.iter().filter(|r| **r != func.root && **r != b && reads(func, **r).contains(&write.buffer));
        let first = readers.next();
        if first.is_some_and(|r| transforms.contains(r)) && readers.all(|r| transforms.contains(r)) {
            found.push(b);
        }
    }
    found.extend(transforms);
    found
}

/// The buffers that a block loads from.
fn reads(func: &Func, b: BlockId) -> Vec<BufferId> {
    let mut found = Vec::new();
    for s in func.subtree(b.stmt()) {
        for_each_own_expr(func, s, &mut |root| {
            for_each_subexpr(&func.arena, root, &mut |e| {
                if let Expr::Load(buffer, _) = func.arena.expr(e)
                    && !found.contains(&buffer)
                {
                    found.push(buffer);
                }
            });
        });
    }
    // The sum of a reduction is no operand.
    found.retain(|r| func.block(b).writes.iter().all(|w| w.buffer != *r));
    found
}
