//! # `merge_axes`
//!
//! *When*: a reduction over several axes that lie next to each other in everything that it reads with them; or one
//! whose innermost axes of results do, in its operands, its result and the consumer of it: a 1x1 convolution over rows
//! and columns; or such axes of a program without reductions. *What*: `transform_block_layout`, and `transform_layout` of the result if it is not a parameter. *Why*:
//! one long axis fills vectors and tiles where several short ones do not.
//!
//! ```python
//! @T.prim_func
//! def before(X: T.Buffer((64, 7, 7)), W: T.Buffer((32, 64)), Y: T.Buffer((32, 7, 7))):
//!     P = T.sblock_alloc_buffer((32, 7, 7))
//!     for o, h, w, c in T.grid(32, 7, 7, 64):
//!         with T.sblock("P"):
//!             vo, vh, vw, vc = T.axis.remap("SSSR", [o, h, w, c])
//!             with T.init():
//!                 P[vo, vh, vw] = 0.0
//!             P[vo, vh, vw] = P[vo, vh, vw] + X[vc, vh, vw] * W[vo, vc]
//!     for o, h, w in T.grid(32, 7, 7):
//!         with T.sblock("Y"):
//!             vo, vh, vw = T.axis.remap("SSS", [o, h, w])
//!             Y[vo, vh, vw] = T.max(P[vo, vh, vw], 0.0)
//!
//! # becomes
//!
//! @T.prim_func
//! def after(X: T.Buffer((64, 7, 7)), W: T.Buffer((32, 64)), Y: T.Buffer((32, 7, 7))):
//!     P = T.sblock_alloc_buffer((32, 49))
//!     for ax0, ax1, ax2 in T.grid(32, 49, 64):
//!         with T.sblock("P"):
//!             v0, v1, v2 = T.axis.remap("SSR", [ax0, ax1, ax2])
//!             with T.init():
//!                 P[v0, v1] = 0.0
//!             P[v0, v1] = P[v0, v1] + X[v2, v1 // 7, v1 % 7] * W[v0, v2]
//!     for ax0, ax1 in T.grid(32, 49):
//!         with T.sblock("Y"):
//!             v0, v1 = T.axis.remap("SS", [ax0, ax1])
//!             Y[v0, v1 // 7, v1 % 7] = T.max(P[v0, v1], 0.0)
//! ```
//!
//! # Implementation
//!
//! Makes one axis of several that are walked as one.
//!
//! *When*: the axes of a reduction stand side by side, in order, in each index list that contains any of them, the
//! inner ones over the whole of their dimension, and nowhere else: all elements then lie at the distance that one axis
//! gives them. Axes of results are merged only up to the innermost dimension of the result, and only together with
//! those of its one consumer. *What*: `transform_block_layout` of the block and the consumer, `transform_layout` of the
//! result between them. *Why*: rows of 7 or 13 columns leave most of a vector, or of a tile, empty. Axes of one
//! iteration that a reduction has besides are left out.
//!
//! ```text
//! for o, h, w, c: P[o, h, w] += X[c, h, w] * W[o, c]
//! # becomes, with rows of 7
//! for o, p, c: P[o, p] += X[c, p // 7, p % 7] * W[o, c]
//! ```

use super::super::analysis::{is_spatial, is_trivial_binding, live_block};
use super::super::draft::Draft;
use super::Rule;
use crate::ir::visit::uses_var;
use crate::ir::{BinOp, BlockId, BufferId, BufferRegion, Expr, ExprId, ExprList, Func, IterKind, Stmt, VarId};
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::{Lambda, LambdaExpr, Rv};
use crate::schedule::error::ScheduleError;
use std::ops::Range;

pub(crate) struct MergeAxes;

impl Rule for MergeAxes {
    fn name(&self) -> &'static str {
        "merge_axes"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        // What a primitive refuses stays as it is.
        Ok(vec![MergeAxes::merged(draft.clone(), block).unwrap_or(draft)])
    }
}

impl MergeAxes {
    /// The draft with the axes of a block merged; `None` if there are none to merge, or a primitive refuses.
    pub(super) fn merged(mut draft: Draft, block: Rv) -> Option<Draft> {
        let (index, id) = live_block(&draft.sch, block)?;
        let plan = Plan::of(draft.sch.func(index), id)?;
        plan.carry_out(&mut draft.sch, block).is_ok().then_some(draft)
    }
}

/// What is merged in a block.
struct Plan {
    /// The index map of the block.
    map: Lambda,
    /// Where results are merged that are not a parameter.
    between: Option<Between>,
}

/// A result that only the consumer reads, whose axes are merged.
struct Between {
    n_dims: usize,
    /// The new indices of the result, by the old ones.
    indices: Vec<LambdaExpr>,
    /// The index map of the consumer.
    map: Lambda,
}

impl Plan {
    fn of(func: &Func, block: BlockId) -> Option<Plan> {
        let axes = Axes::of(func, block)?;
        let reduces = axes.positions(IterKind::Reduce).next().is_some();
        if !reduces && !func.blocks().iter().all(|&b| is_spatial(func, b)) {
            // The consumer of a reduction is merged together with it.
            return None;
        }
        let mut runs = axes.reductions();
        let results = axes.results();
        let between = results.and_then(|(run, between)| {
            runs.push(run);
            between
        });
        (!runs.is_empty()).then(|| Plan { map: axes.map(&runs), between })
    }

    fn carry_out(&self, sch: &mut Schedule, block: Rv) -> Result<(), ScheduleError> {
        let Some(between) = &self.between else { return sch.transform_block_layout(block, self.map.clone()) };
        sch.lay_out_written(block, between.n_dims, between.indices.clone())?;
        let consumers = sch.get_consumers(block)?;
        sch.transform_block_layout(block, self.map.clone())?;
        consumers.iter().try_for_each(|&one| sch.transform_block_layout(one, between.map.clone()))
    }
}

/// The iteration variables of a block, each with its extent.
struct Axes<'a> {
    func: &'a Func,
    block: BlockId,
    all: Vec<(VarId, IterKind, i64)>,
}

impl<'a> Axes<'a> {
    /// `None` unless the block is bound to its loops one by one, with constant extents.
    fn of(func: &'a Func, block: BlockId) -> Option<Axes<'a>> {
        if block == func.root || !is_trivial_binding(func, block) {
            return None;
        }
        let iters = &func.block(block).iters;
        let all = iters.iter().map(|i| Some((i.var, i.kind, func.arena.as_int(i.extent)?))).collect::<Option<_>>()?;
        Some(Axes { func, block, all })
    }

    /// The axes of a kind with more than one iteration.
    fn positions(&self, kind: IterKind) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.all.len()).filter(move |&i| self.all[i].1 == kind && self.all[i].2 > 1)
    }

    /// The longest runs of reduction axes that can be merged.
    fn reductions(&self) -> Vec<Vec<usize>> {
        let axes: Vec<usize> = self.positions(IterKind::Reduce).collect();
        let mut runs = Vec::new();
        let mut start = 0;
        while start < axes.len() {
            let ends = (start + 2..=axes.len()).rev();
            let end = ends.into_iter().find(|&end| self.are_one(&axes[start..end])).unwrap_or(start + 1);
            if end - start > 1 {
                runs.push(axes[start..end].to_vec());
            }
            start = end;
        }
        runs
    }

    /// The longest run of axes of results that ends at the innermost dimension of the result and can be merged, with what
    /// that changes outside the block.
    fn results(&self) -> Option<(Vec<usize>, Option<Between>)> {
        let axes: Vec<usize> = self.positions(IterKind::Spatial).collect();
        (0..axes.len().checked_sub(1)?)
            .find_map(|start| Some((axes[start..].to_vec(), self.results_of(&axes[start..])?)))
    }

    fn results_of(&self, run: &[usize]) -> Option<Option<Between>> {
        if !self.are_one(run) {
            return None;
        }
        let func = self.func;
        let [write] = &func.block(self.block).writes[..] else { return None };
        let n_dims = func.arena.list(write.mins).len();
        let dims = self.dims_of(run, write.mins).filter(|dims| dims.end == n_dims)?;
        // Only what is contiguous along the axes needs no new layout, which would keep their dimensions apart.
        let is_innermost = |read: &BufferRegion| {
            self.dims_of(run, read.mins).is_none_or(|dims| dims.end == func.arena.list(read.mins).len())
        };
        if !func.block(self.block).reads.iter().all(is_innermost) {
            return None;
        }
        if !func.block(func.root).allocs.contains(&write.buffer) {
            return Some(None);
        }
        let scope = func.block_above(self.block.stmt()).unwrap_or(func.root);
        let consumer = Scope::of(func, scope).only_consumer(func, self.block).filter(|&one| is_spatial(func, one))?;
        let theirs = Axes::of(func, consumer)?;
        let read = func.block(consumer).reads.iter().find(|r| r.buffer == write.buffer)?;
        let read_at = &func.arena.list(read.mins)[dims.clone()];
        let position = |&e: &ExprId| theirs.all.iter().position(|&(v, ..)| func.arena.as_var(e) == Some(v));
        let their_run: Vec<usize> = read_at.iter().map(position).collect::<Option<_>>()?;
        let same_extents = run.iter().zip(&their_run).all(|(&a, &b)| self.all[a].2 == theirs.all[b].2);
        if !same_extents || !their_run.is_sorted() || !theirs.are_one(&their_run) {
            return None;
        }
        let extents: Vec<i64> = run.iter().map(|&a| self.all[a].2).collect();
        let outer = (0..dims.start).map(LambdaExpr::Param);
        let indices = outer.chain([merged(&dims.collect::<Vec<_>>(), &extents)]).collect();
        Some(Some(Between { n_dims, indices, map: theirs.map(&[their_run]) }))
    }

    /// The index map that merges runs of axes. Reduction axes of one iteration are left out.
    fn map(&self, runs: &[Vec<usize>]) -> Lambda {
        let result = |i: usize| match runs.iter().find(|run| run.contains(&i)) {
            Some(run) if run[0] != i => None,
            Some(run) => Some(merged(run, &run.iter().map(|&a| self.all[a].2).collect::<Vec<_>>())),
            None if self.all[i].1 == IterKind::Reduce && self.all[i].2 == 1 => None,
            None => Some(LambdaExpr::Param(i)),
        };
        let n = self.all.len();
        let params = (0..n).map(|i| format!("i{i}").as_str().into()).collect();
        Lambda { params, results: (0..n).filter_map(result).collect(), scalar: false, ranges: false }
    }

    /// Whether the block walks through everything along these axes as if they were one.
    fn are_one(&self, run: &[usize]) -> bool {
        let subtree = self.func.subtree(self.block.stmt());
        let own = subtree.into_iter().filter(|&s| s != self.block.stmt());
        own.into_iter().all(|s| match self.func.get(s) {
            Stmt::Store { buffer, indices, value, .. } => {
                self.indices_fit(run, *buffer, *indices) && self.expr_fits(run, *value)
            }
            _ => false,
        })
    }

    fn expr_fits(&self, run: &[usize], e: ExprId) -> bool {
        let arena = &self.func.arena;
        match arena.expr(e) {
            Expr::Load(buffer, indices) => self.indices_fit(run, buffer, indices),
            Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Call(..) => {
                let mut fits = true;
                arena.for_each_child(e, |child| fits = fits && self.expr_fits(run, child));
                fits
            }
            _ => !self.uses(run, e),
        }
    }

    fn indices_fit(&self, run: &[usize], buffer: BufferId, indices: ExprList) -> bool {
        let arena = &self.func.arena;
        let list = arena.list(indices);
        let Some(dims) = self.dims_of(run, indices) else { return list.iter().all(|&e| !self.uses(run, e)) };
        let shape = arena.list(arena.buffer(buffer).shape);
        let whole = dims.clone().zip(run).skip(1).all(|(d, &a)| arena.is_int(shape[d], self.all[a].2));
        whole && (0..list.len()).filter(|d| !dims.contains(d)).all(|d| !self.uses(run, list[d]))
    }

    /// The dimensions whose indices are these axes, in this order.
    fn dims_of(&self, run: &[usize], indices: ExprList) -> Option<Range<usize>> {
        let list = self.func.arena.list(indices);
        let at = |first: usize| run.iter().zip(&list[first..]).all(|(&a, &e)| self.axis(e) == Some(a));
        let first = (0..(list.len() + 1).checked_sub(run.len())?).find(|&first| at(first))?;
        Some(first..first + run.len())
    }

    /// The axis that an index is, if it is one; axes of one iteration add nothing.
    fn axis(&self, e: ExprId) -> Option<usize> {
        match self.func.arena.expr(e) {
            Expr::Var(v) => self.all.iter().position(|&(var, ..)| var == v),
            Expr::Binary(BinOp::Add, a, b) if self.is_zero(b) => self.axis(a),
            Expr::Binary(BinOp::Add, a, b) if self.is_zero(a) => self.axis(b),
            _ => None,
        }
    }

    /// Whether an index is an axis of one iteration, or a multiple of one: the start of the only window.
    fn is_zero(&self, e: ExprId) -> bool {
        match self.func.arena.expr(e) {
            Expr::Var(v) => self.all.iter().any(|&(var, _, extent)| var == v && extent == 1),
            Expr::Binary(BinOp::Mul, a, b) => self.is_zero(a) || self.is_zero(b),
            _ => false,
        }
    }

    fn uses(&self, run: &[usize], e: ExprId) -> bool {
        uses_var(&self.func.arena, e, &mut |v| run.iter().any(|&a| self.all[a].0 == v))
    }
}

/// The position along several axes as along one: `(i * b + j) * c + k` for extents `a`, `b`, `c`.
pub(super) fn merged(axes: &[usize], extents: &[i64]) -> LambdaExpr {
    let binary = |op, a, b| LambdaExpr::Binary(op, Box::new(a), Box::new(b));
    let first = LambdaExpr::Param(axes[0]);
    axes.iter().zip(extents).skip(1).fold(first, |outer, (&axis, &extent)| {
        binary(BinOp::Add, binary(BinOp::Mul, outer, LambdaExpr::Int(extent)), LambdaExpr::Param(axis))
    })
}
