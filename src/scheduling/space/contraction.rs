//! A block as tiling sees it: how each iteration variable moves through each operand.

use super::access::Access;
use super::analysis::{const_extent, is_trivial_binding};
use crate::ir::preparation::layout_free;
use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{BlockId, BufferId, DType, Expr, ExprList, Func, IterKind, VarId};

/// An iteration variable of the block, bound to the loop at the same position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    /// Spatial or reduction.
    pub kind: IterKind,
    /// Number of iterations.
    pub extent: i64,
}

/// An operand of the contraction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Input {
    /// Position among the block's reads.
    pub read: usize,
    /// Access of the operand.
    pub access: Access,
    /// Whether the block reads the buffer at a single point per iteration. Others keep their layout, and are an operand for each point.
    pub is_point: bool,
    /// Whether it is a constant parameter of free layout.
    pub is_constant: bool,
    /// Whether its elements are integers.
    pub is_integer: bool,
}

/// A reduction over operands, with a loop of its own for each iteration variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Contraction {
    /// The iteration variables, in the order of their loops.
    pub axes: Vec<Axis>,
    /// All operands except the result itself.
    pub inputs: Vec<Input>,
    /// Access of the result.
    pub output: Access,
    /// The type of the result.
    pub dtype: DType,
}

impl Contraction {
    /// The block as a contraction; `None` unless it writes one buffer, has a reduction, is bound to its loops one by
    /// one, and has constant extents.
    pub(crate) fn of(func: &Func, block: BlockId) -> Option<Contraction> {
        let node = func.block(block);
        let [write] = &node.writes[..] else { return None };
        if func.root == block || !is_trivial_binding(func, block) {
            return None;
        }
        let loops = func.loops_above(block.stmt());
        let axes: Vec<Axis> = node
            .iters
            .iter()
            .zip(&loops)
            .map(|(iter, &l)| Some(Axis { kind: iter.kind, extent: const_extent(func, l)? }))
            .collect::<Option<_>>()?;
        if axes.iter().any(|a| !matches!(a.kind, IterKind::Spatial | IterKind::Reduce))
            || !axes.iter().any(|a| a.kind == IterKind::Reduce && a.extent > 1)
        {
            return None;
        }
        let vars: Vec<_> = node.iters.iter().map(|i| i.var).collect();
        let constant = layout_free(func);
        let mut inputs = Vec::new();
        for (read, region) in node.reads.iter().enumerate().filter(|(_, r)| r.buffer != write.buffer) {
            let is_point = func.arena.list(region.extents).iter().all(|&e| func.arena.is_int(e, 1));
            let is_integer = func.arena.buffer(region.buffer).dtype.is_integer();
            let is_constant = constant.contains(&region.buffer);
            let of_region = || Access::of(func, region, &vars).map(|access| vec![access]);
            let accesses = if is_point { None } else { points(func, block, region.buffer, &vars) };
            for access in accesses.or_else(of_region)? {
                inputs.push(Input { read, access, is_point, is_constant, is_integer });
            }
        }
        let output = Access::of(func, write, &vars)?;
        Some(Contraction { axes, inputs, output, dtype: func.arena.buffer(write.buffer).dtype })
    }

    /// Positions of the axes of a kind.
    pub(crate) fn of_kind(&self, kind: IterKind) -> impl Iterator<Item = usize> + '_ {
        self.axes.iter().enumerate().filter(move |(_, a)| a.kind == kind).map(|(i, _)| i)
    }

    /// Approximate number of results that an element of an input serves: the iterations of the spatial axes that it
    /// does not move with.
    pub(crate) fn reuse(&self, input: &Input) -> i64 {
        self.of_kind(IterKind::Spatial)
            .filter(|&a| input.access.strides[a] == 0)
            .map(|a| self.axes[a].extent)
            .fold(1, i64::saturating_mul)
    }

    /// Whether neighbouring results read some of the same elements of an input, in different iterations of the reduction.
    pub(crate) fn overlaps(&self, input: &Input) -> bool {
        let dims = |kind| self.of_kind(kind).filter(|&a| self.axes[a].extent > 1).filter_map(|a| input.access.dims[a]);
        dims(IterKind::Reduce).any(|r| dims(IterKind::Spatial).any(|s| s == r))
    }
}

/// How the block's variables move the different elements that it reads of a buffer, of which its region is only the hull (`A[i, k]` and
/// `A[j, k]` in `A * A^T`); `None` if there is only one, or one is not arithmetic on the variables.
fn points(func: &Func, block: BlockId, buffer: BufferId, vars: &[VarId]) -> Option<Vec<Access>> {
    let mut found: Vec<ExprList> = Vec::new();
    for s in func.subtree(block.stmt()) {
        for_each_own_expr(func, s, &mut |root| {
            for_each_subexpr(&func.arena, root, &mut |e| match func.arena.expr(e) {
                Expr::Load(of, indices) if of == buffer && !found.contains(&indices) => found.push(indices),
                _ => {}
            });
        });
    }
    let accesses: Vec<Access> =
        found.iter().map(|&at| Access::of_point(func, buffer, at, vars)).collect::<Option<_>>()?;
    (accesses.len() > 1).then_some(accesses)
}
