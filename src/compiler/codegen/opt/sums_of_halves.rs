//! Computes long sums of products of 16-bit floats in `float32`, from operands that are converted once.
//!
//! ```text
//! for i in 64: for j in 64:
//!     C[i * 64 + j] = 0.0
//!     for k in 128: C[i * 64 + j] = C[i * 64 + j] + A[i * 128 + k] * B[k * 64 + j]
//! // becomes, if all are bfloat16
//! for i in 64: for j in 64:
//!     S[i * 64 + j] = 0.0
//!     for k in 128: S[i * 64 + j] = S[i * 64 + j] + cast(float32, A[i * 128 + k]) * cast(float32, B[k * 64 + j])
//! for c in 4096: C[c] = cast(bfloat16, S[c])
//! ```
//!
//! Region code computes with 16-bit floats in lanes of `float32` in any case. With conversions that are visible, operands that
//! are used often are converted once ([`preconvert`](super::preconvert)), and the sums keep their digits when they leave the
//! registers. This is not done if floats must be computed as written.

use super::machine::Machine;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, for_each_expr, for_each_operand, map_expr, map_operands, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId,
    Storage, Ty,
};
use hashbrown::HashSet;

/// Minimum number of terms of a sum: for shorter ones, the further pass over the results takes longer than it saves.
const LONG: i64 = 64;

/// Maximum number of sums of a buffer.
const MOST: i64 = 1 << 22;

/// Number of sums from which their conversion is shared among threads, if the loops that make them are.
const SHARED: i64 = 1 << 14;

/// Number of parts in which the conversion is shared.
const PARTS: i64 = 16;

/// Moves the sums of all buffers to `float32`. Returns whether there are any.
pub(super) fn sums_of_halves(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.reassociates || !machine.vectors.has_regions() {
        return false;
    }
    let is_half = |dtype| matches!(dtype, DType::Float16 | DType::BFloat16);
    let halves = kernel.buffers().filter(|(_, b)| is_half(b.dtype) && b.len <= MOST).map(|(id, _)| id);
    let mut changed = false;
    for sums in halves.collect::<Vec<_>>() {
        if let Some(uses) = Uses::of(kernel, sums) {
            uses.widen(kernel);
            changed = true;
        }
    }
    changed
}

/// How a kernel uses a buffer with sums.
struct Uses {
    sums: BufferId,
    /// The first and the last statement of the kernel that stores to it.
    stores: (usize, usize),
    /// The statements of the kernel that read it for another purpose than to add to it.
    reads: HashSet<usize, FxBuild>,
    /// Whether the sums are long and have products as terms.
    pays: bool,
    /// Whether sums are made by several threads.
    is_parallel: bool,
    /// Whether everything is made of scalars.
    is_plain: bool,
    /// Whether all elements are set.
    sets_all: bool,
    /// The number of conditions around the current statement.
    conditions: usize,
    /// The loops around the current statement.
    loops: Vec<For>,
}

impl Uses {
    /// The uses of a buffer whose sums should be made in `float32`.
    fn of(kernel: &Kernel, sums: BufferId) -> Option<Uses> {
        let mut uses = Uses {
            sums,
            stores: (usize::MAX, 0),
            reads: HashSet::default(),
            pays: false,
            is_parallel: false,
            is_plain: true,
            sets_all: false,
            conditions: 0,
            loops: Vec::new(),
        };
        for (at, &s) in kernel.stmts.list(kernel.body).iter().enumerate() {
            uses.stmt(kernel, at, s);
        }
        let (first, last) = uses.stores;
        let is_apart = uses.reads.iter().all(|&at| at < first || at > last);
        let fits = uses.pays && uses.is_plain && (is_apart || !kernel.buffer(sums).is_param());
        fits.then_some(uses)
    }

    fn stmt(&mut self, kernel: &Kernel, at: usize, s: StmtId) {
        let stmt = kernel.stmts.get(s);
        let mut own = None;
        if let Stmt::Store { buffer, index, value } = stmt
            && buffer == self.sums
        {
            self.stores = (self.stores.0.min(at), self.stores.1.max(at));
            self.is_parallel |= self.loops.iter().any(|l| l.kind == LoopKind::Parallel);
            self.is_plain &= kernel.arena.lanes(value) == 1;
            own = term(&kernel.arena, self.sums, index, value);
            self.sets_all |= own.is_none() && self.conditions == 0 && self.is_whole(kernel, index);
            if let Some((_, term)) = own {
                self.pays |= self.terms(kernel, index) >= LONG && has_product(&kernel.arena, term);
            }
        }
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if matches!(kernel.arena.expr(e), Expr::Load(buffer, _) if buffer == self.sums)
                    && own.is_none_or(|(old, _)| old != e)
                {
                    self.is_plain &= kernel.arena.lanes(e) == 1;
                    self.reads.insert(at);
                }
            });
        });
        match stmt {
            Stmt::For(l) => {
                self.loops.push(l);
                self.body(kernel, at, l.body);
                self.loops.pop();
            }
            Stmt::While { body, .. } => {
                self.conditions += 1;
                self.body(kernel, at, body);
                self.conditions -= 1;
            }
            Stmt::If { then, otherwise, .. } => {
                self.conditions += 1;
                self.body(kernel, at, then);
                self.body(kernel, at, otherwise);
                self.conditions -= 1;
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
        }
    }

    fn body(&mut self, kernel: &Kernel, at: usize, body: Body) {
        for &s in kernel.stmts.list(body) {
            self.stmt(kernel, at, s);
        }
    }

    /// Whether the loops around take an index through all elements.
    fn is_whole(&self, kernel: &Kernel, index: ExprId) -> bool {
        let index = Affine::of(&kernel.arena, index);
        let extent = |atom: ExprId| {
            let l = self.loops.iter().find(|l| kernel.arena.as_var(atom) == Some(l.var))?;
            kernel.arena.as_int(l.extent)
        };
        let steps = index.terms.iter().map(|&(atom, step)| Some((step, extent(atom)?)));
        let Some(mut steps) = steps.collect::<Option<Vec<_>>>() else { return false };
        steps.sort_unstable();
        let all = steps.iter().try_fold(1_i64, |all, &(step, n)| (step == all).then(|| all.saturating_mul(n)));
        index.constant == 0 && all == Some(kernel.buffer(self.sums).len)
    }

    /// The number of terms that the loops around add to an element.
    fn terms(&self, kernel: &Kernel, index: ExprId) -> i64 {
        let adds = |l: &&For| !mentions_var(&kernel.arena, index, &mut |v| v == l.var);
        let extents = self.loops.iter().filter(adds).map(|l| kernel.arena.as_int(l.extent).unwrap_or(1));
        extents.fold(1, i64::saturating_mul)
    }

    /// Replaces the buffer where sums are made, and converts the results behind.
    fn widen(&self, kernel: &mut Kernel) {
        let old = *kernel.buffer(self.sums);
        let placement = match old.storage {
            Storage::Scratch(placement) => placement,
            Storage::Param(_) => Placement::Shared,
        };
        let wide = kernel.add_scratch(format!("{}_wide", old.name).as_str(), DType::Float32, old.len, placement);
        let top = kernel.stmts.list(kernel.body).to_vec();
        let (first, last) = self.stores;
        let mut out = Vec::with_capacity(top.len() + 2);
        for (at, &s) in top.iter().enumerate() {
            let is_inside = (first..=last).contains(&at);
            if at == first && old.is_param() && !self.sets_all {
                // What no statement stores to keeps its value.
                out.push(self.copy(kernel, old.len, |kernel, at| {
                    let narrow = kernel.load(self.sums, at);
                    (wide, kernel.arena.cast(DType::Float32, narrow))
                }));
            }
            if is_inside || !old.is_param() {
                let body = kernel.stmts.body(&[s]);
                let body = self.rewritten(kernel, body, wide);
                out.extend_from_slice(kernel.stmts.list(body));
            } else {
                out.push(s);
            }
            if at == last && old.is_param() {
                out.push(self.copy(kernel, old.len, |kernel, at| {
                    let sum = kernel.load(wide, at);
                    (self.sums, kernel.arena.cast(old.dtype, sum))
                }));
            }
        }
        kernel.body = kernel.stmts.body(&out);
    }

    /// A loop over all elements that stores what `element` says of each.
    fn copy(
        &self,
        kernel: &mut Kernel,
        len: i64,
        element: impl FnOnce(&mut Kernel, ExprId) -> (BufferId, ExprId),
    ) -> StmtId {
        let parts = if self.is_parallel && len >= SHARED && len % PARTS == 0 { PARTS } else { 1 };
        let (part, p) = kernel.arena.new_index("p");
        let (var, c) = kernel.arena.new_index("c");
        let start = kernel.arena.mul_const(p, len / parts);
        let at = if parts > 1 { kernel.arena.add(start, c) } else { c };
        let (buffer, value) = element(kernel, at);
        let s = kernel.store(buffer, at, value);
        let mut nested = |var, n: i64, kind, s| {
            let (extent, body) = (kernel.arena.index(n), kernel.stmts.body(&[s]));
            let (iterations, hints) = (Iterations::Independent, Hints::default());
            kernel.stmts.push(Stmt::For(For { var, extent, kind, iterations, hints, body }))
        };
        let s = nested(var, len / parts, LoopKind::Serial, s);
        if parts > 1 { nested(part, parts, LoopKind::Parallel, s) } else { s }
    }

    /// Statements that make the sums in another buffer.
    fn rewritten(&self, kernel: &mut Kernel, body: Body, wide: BufferId) -> Body {
        let dtype = kernel.buffer(self.sums).dtype;
        let mut memo = ExprMap::default();
        kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
            let mut narrowed = |arena: &mut Arena, e| {
                map_expr(arena, e, &mut memo, &mut |arena, e| match arena.expr(e) {
                    Expr::Load(buffer, index) if buffer == self.sums => {
                        let sum = arena.load(wide, index, Ty::scalar(DType::Float32));
                        Some(arena.cast(dtype, sum))
                    }
                    _ => None,
                })
            };
            let new = match stmt {
                Stmt::Store { buffer, index, value } if buffer == self.sums => {
                    let value = self.in_float32(&mut kernel.arena, value, wide);
                    let value = narrowed(&mut kernel.arena, value);
                    let index = narrowed(&mut kernel.arena, index);
                    Stmt::Store { buffer: wide, index, value }
                }
                _ => map_operands(stmt, |e| narrowed(&mut kernel.arena, e)),
            };
            out.push(if new == stmt { id } else { kernel.stmts.push(new) });
        })
    }

    /// A value as `float32`: sums, products and constants without rounding, all else converted.
    fn in_float32(&self, arena: &mut Arena, e: ExprId, wide: BufferId) -> ExprId {
        match arena.expr(e) {
            Expr::Load(buffer, index) if buffer == self.sums => arena.load(wide, index, Ty::scalar(DType::Float32)),
            Expr::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul), a, b) => {
                let (a, b) = (self.in_float32(arena, a, wide), self.in_float32(arena, b, wide));
                arena.binary(op, a, b)
            }
            Expr::Float(bits) => arena.float(f64::from_bits(bits), DType::Float32),
            _ => arena.cast(DType::Float32, e),
        }
    }
}

/// The old value and the term, if a store adds a term to an element.
fn term(arena: &Arena, sums: BufferId, index: ExprId, value: ExprId) -> Option<(ExprId, ExprId)> {
    let Expr::Binary(BinOp::Add, a, b) = arena.expr(value) else { return None };
    let is_old = |e| matches!(arena.expr(e), Expr::Load(buffer, at) if (buffer, at) == (sums, index));
    match (is_old(a), is_old(b)) {
        (true, false) => Some((a, b)),
        (false, true) => Some((b, a)),
        _ => None,
    }
}

fn has_product(arena: &Arena, e: ExprId) -> bool {
    matches!(arena.expr(e), Expr::Binary(BinOp::Mul, ..))
}
