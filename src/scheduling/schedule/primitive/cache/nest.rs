//! Makes the block that copies a box of a buffer, with its loops.

use super::super::super::analysis::region_bound::Ranges;
use crate::ir::{
    Block, BlockId, BlockIter, Body, BufferId, BufferRegion, ExprId, Func, IterKind, Stmt, StmtId, Symbol, VarId,
};
use smallvec::SmallVec;

/// The copied box.
pub(in super::super) struct CopyBox<'a> {
    /// The block's name.
    pub name: Symbol,
    /// The source.
    pub from: BufferId,
    /// The destination.
    pub to: BufferId,
    /// The buffer to which the ranges refer: one of the two.
    pub buffer: BufferId,
    /// The copied part, over the enclosing variables.
    pub ranges: &'a Ranges,
    /// Whether the other buffer has only this part, from index 0 on; otherwise both have the same shape.
    pub compact: bool,
}

/// Makes the nest, not inserted yet: loops `ax0`, …, around a block with iteration variables `v0`, ….
///
/// ```text
/// for ax0, ax1 in T.grid(extents):
///     with T.block(name):
///         v0 = T.axis.spatial(shape, min + ax0) …
///         to[v0, v1] = from[v0, v1]
/// ```
///
/// If one buffer is compact, the iteration variables take the values `0 .. extent`, and the other's index is
/// `min + v0`.
pub(in super::super) fn copy_nest(func: &mut Func, copy: &CopyBox<'_>) -> (BlockId, StmtId) {
    let a = &mut func.arena;
    let shape: SmallVec<[ExprId; 4]> = a.list(a.buffer(copy.buffer).shape).iter().copied().collect();
    let mut loops: SmallVec<[(VarId, ExprId); 4]> = SmallVec::new();
    let mut iters: Vec<BlockIter> = Vec::with_capacity(shape.len());
    let (mut of_buffer, mut of_other): (SmallVec<[ExprId; 4]>, SmallVec<[ExprId; 4]>) = Default::default();
    for (n, (&(start, extent), dim)) in copy.ranges.iter().zip(shape).enumerate() {
        let dtype = a.dtype(extent);
        let (loop_var, at) = a.new_var_expr(format!("ax{n}").as_str(), dtype);
        loops.push((loop_var, extent));
        let (whole, value) = if copy.compact { (extent, at) } else { (dim, a.add(start, at)) };
        // Loops and shapes may be of different types.
        let dtype = a.dtype(value);
        let (var, v) = a.new_var_expr(format!("v{n}").as_str(), dtype);
        let (min, whole) = (a.int(0, dtype), a.cast(dtype, whole));
        iters.push(BlockIter { var, min, extent: whole, kind: IterKind::Spatial, value });
        of_other.push(v);
        of_buffer.push(if copy.compact { a.add(start, v) } else { v });
    }
    let (read_at, write_at) = if copy.buffer == copy.from { (of_buffer, of_other) } else { (of_other, of_buffer) };
    let value = a.load(copy.from, &read_at);
    let (read_at, indices) = (a.new_list(&read_at), a.new_list(&write_at));
    let reads = vec![BufferRegion::point(a, copy.from, read_at)];
    let writes = vec![BufferRegion::point(a, copy.to, indices)];
    let always = a.bool(true);
    let store = func.add(Stmt::Store { buffer: copy.to, indices, value });
    let body = Body::from_slice(&[store]);
    let block = func.add_block(Block { iters, reads, writes, body, ..Block::new(copy.name, always) });
    let mut nest = block.stmt();
    for &(var, extent) in loops.iter().rev() {
        nest = func.make_loop(var, extent, Body::from_slice(&[nest])).stmt();
    }
    (block, nest)
}
