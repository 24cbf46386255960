//! Index-set splitting and unswitching: splits loops where conditions on their variables change, and moves invariant
//! conditions out of loops.
//!
//! ```text
//! for i in 16: for j in 64 vector: if i * 64 + j < 1000: Y[i * 64 + j] = X[i * 64 + j]
//! // becomes, once simplified
//! for i in 15: for j in 64 vector: Y[i * 64 + j] = X[i * 64 + j]
//! for j in 40 vector: Y[960 + j] = X[960 + j]
//! ```
//!
//! A loop is split where a comparison has the same outcome for all values of the other variables: at the bounds of
//! padding, at predicates of unevenly split loops, and, with `Cuts::All`, after the first iteration of a reduction.
//! Pieces run in the order of the loop. The amount of copied code is limited. Parallel loops are not split; their
//! bodies are multiversioned ([`multiversion`](super::multiversion)). Nor is a loop split where padding starts or ends
//! inside a vector that can be loaded partially: the comparison becomes a mask.

use super::machine::Machine;
use super::nest::conjuncts;
use super::walk::replace_loops;
use super::widen::{is_byte, is_masked, is_near, is_short};
use crate::codegen::facts::{is_speculable, reads_state};
use crate::ir::CmpOp;
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand, mentions_var, reads_memory};
use crate::loopir::{
    Affine, Arena, Body, Expr, ExprId, For, Iterations, Kernel, LoopKind, Range, Ranges, Stmt, StmtId, Ty, VarId,
};

/// The comparisons at which to split loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cuts {
    /// Order comparisons only.
    Order,
    /// Equality comparisons as well, which mostly test for the first iteration of a reduction.
    All,
}

/// Splits the loops of the kernel. Returns whether there is anything to simplify now.
pub(super) fn partition(kernel: &mut Kernel, machine: &Machine, cuts: Cuts) -> bool {
    let mut p = Partition {
        ranges: Ranges::default(),
        cuts,
        masks: machine.vectors.has_regions(),
        narrow_masks: machine.vectors.has_narrow_masks(),
        is_reduced: false,
        changed: false,
    };
    let mut compares = false;
    let body = kernel.body;
    kernel.for_each_stmt(body, &mut |_, stmt| {
        if let Stmt::For(l) = stmt
            && let Some(n) = kernel.arena.as_int(l.extent).filter(|&n| n > 0)
        {
            p.ranges.set(l.var, Range { lo: 0, hi: n - 1 });
        }
        for_each_operand(stmt, |e| {
            if !compares {
                for_each_expr(&kernel.arena, e, &mut |e| compares |= is_comparison(&kernel.arena, e));
            }
        });
    });
    if compares {
        kernel.body = p.body(kernel, body);
    }
    p.changed
}

pub(super) fn is_comparison(arena: &Arena, e: ExprId) -> bool {
    matches!(arena.expr(e), Expr::Compare(_, a, _) if arena.ty(a) == Ty::INDEX)
}

/// Maximum number of stores after splitting a loop, if they are simple.
const MAX_STORES: usize = 24;

/// Maximum number of stores after splitting a loop with reductions inside: each becomes an unrolled register tile. A softmax has six
/// stores, and rows or strips of it a remainder.
const MAX_SUMS: usize = 16;

pub(super) struct Partition {
    pub(super) ranges: Ranges,
    cuts: Cuts,
    /// Whether the machine has masked vector loads.
    masks: bool,
    /// Whether there are masked loads of elements of 8 and 16 bits as well.
    narrow_masks: bool,
    /// Whether there is an enclosing reduction loop.
    is_reduced: bool,
    pub(super) changed: bool,
}

impl Partition {
    pub(super) fn body(&mut self, kernel: &mut Kernel, old: Body) -> Body {
        replace_loops(kernel, old, &mut |kernel, s, l, out| self.for_loop(kernel, s, l, out))
    }

    fn for_loop(&mut self, kernel: &mut Kernel, s: StmtId, l: For, out: &mut Vec<StmtId>) {
        let outer = self.is_reduced;
        self.is_reduced |= l.iterations == Iterations::Reduction;
        self.pieces(kernel, s, l, out);
        self.is_reduced = outer;
    }

    fn pieces(&mut self, kernel: &mut Kernel, s: StmtId, l: For, out: &mut Vec<StmtId>) {
        let may_cut = !matches!(l.kind, LoopKind::Parallel | LoopKind::Unroll);
        // Masks for padding suffice if there would be too many pieces.
        let kinds: &[bool] = if self.is_reduced { &[true] } else { &[false, true] };
        let mut points = kinds.iter().filter(|_| may_cut).map(|&masks| self.points(kernel, &l, masks));
        let points = points.find(|points| may_copy(kernel, &l, points.len() + 1)).unwrap_or_default();
        if points.is_empty() {
            let body = match l.kind {
                LoopKind::Parallel => self.multiversion(kernel, &l, l.body, 0),
                _ => self.body(kernel, l.body),
            };
            let same = body == l.body;
            let s = if same { s } else { kernel.stmts.push(Stmt::For(For { body, ..l })) };
            return out.push(self.unswitch(kernel, s));
        }
        self.changed = true;
        let n = kernel.arena.as_int(l.extent).expect("only loops of known extent have points to cut at");
        let mut start = 0;
        for end in points.into_iter().chain([n]) {
            let size = end - start;
            if size == 1 {
                let at = kernel.arena.index(start);
                let copy = Substitution::of(l.var, at).copy(kernel, l.body);
                self.set_ranges(kernel, copy);
                let copy = self.body(kernel, copy);
                out.extend_from_slice(kernel.stmts.list(copy));
            } else {
                let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
                self.ranges.set(var, Range { lo: 0, hi: size - 1 });
                let at = kernel.arena.add_const(e, start);
                let copy = Substitution::of(l.var, at).copy(kernel, l.body);
                self.set_ranges(kernel, copy);
                // Conditions that are now decided may show where to split inner loops.
                let body = self.body(kernel, copy);
                let extent = kernel.arena.index(size);
                let piece = kernel.stmts.push(Stmt::For(For { var, extent, body, ..l }));
                out.push(self.unswitch(kernel, piece));
            }
            start = end;
        }
    }

    pub(super) fn set_ranges(&mut self, kernel: &Kernel, body: Body) {
        kernel.for_each_stmt(body, &mut |_, stmt| {
            if let Stmt::For(l) = stmt
                && let Some(n) = kernel.arena.as_int(l.extent).filter(|&n| n > 0)
            {
                self.ranges.set(l.var, Range { lo: 0, hi: n - 1 });
            }
        });
    }

    /// Split points of a loop, ascending, strictly inside it; with `masks`, excluding those of padding along a vector.
    fn points(&mut self, kernel: &Kernel, l: &For, masks: bool) -> Vec<i64> {
        let arena = &kernel.arena;
        let Some(n) = arena.as_int(l.extent).filter(|&n| n > 1) else { return Vec::new() };
        let (mut comparisons, mut masked, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        let mut lanes = Vec::from_iter(may_be_lanes(kernel, l).then_some(l.var));
        kernel.for_each_stmt(l.body, &mut |_, stmt| {
            if let Stmt::For(l) = stmt
                && may_be_lanes(kernel, &l)
            {
                lanes.push(l.var);
            }
            for_each_operand(stmt, |e| {
                for_each_expr(arena, e, &mut |e| {
                    if is_comparison(arena, e) && !comparisons.contains(&e) {
                        comparisons.push(e);
                    }
                    // Elements of two arrays that are joined.
                    if let Expr::IfThenElse(c, t, o) = arena.expr(e)
                        && reads_memory(arena, t)
                        && reads_memory(arena, o)
                    {
                        sources.push(c);
                    }
                    if self.masks {
                        note_masks(arena, e, &lanes, masks, self.narrow_masks, &mut masked);
                    }
                });
            });
        });
        comparisons.retain(|e| !masked.contains(e));
        let mut points: Vec<i64> = Vec::new();
        for e in comparisons {
            let Some((from, to)) = self.undecided(arena, e, l.var) else { continue };
            let (from, to) = (from.clamp(0, n), to.clamp(0, n));
            // A reduction is not split except after its first iteration, so that its nest is recognised, and where its
            // terms come from another array: each part is a nest of its own.
            let is_order = !matches!(arena.expr(e), Expr::Compare(CmpOp::Eq | CmpOp::Ne, ..));
            let changes_source = from == to && sources.contains(&e);
            if is_order && l.iterations == Iterations::Reduction && !changes_source {
                continue;
            }
            // If most of the loop stays undecided, splitting gains nothing.
            if (to - from) * 2 > n {
                continue;
            }
            points.extend([from, to].into_iter().filter(|&p| p > 0 && p < n));
        }
        points.sort_unstable();
        points.dedup();
        points
    }

    /// The iterations `from..to` of a loop outside which a comparison is decided; if it flips at one point, both are
    /// the first iteration after it.
    fn undecided(&mut self, arena: &Arena, e: ExprId, var: VarId) -> Option<(i64, i64)> {
        let Expr::Compare(op, a, b) = arena.expr(e) else { return None };
        self.ranges.get(arena, a)?;
        self.ranges.get(arena, b)?;
        let mut difference = Affine::of(arena, a).minus(&Affine::of(arena, b));
        let at = difference.terms.iter().position(|t| arena.as_var(t.0) == Some(var))?;
        let (_, c) = difference.terms.remove(at);
        if difference.terms.iter().any(|t| mentions_var(arena, t.0, &mut |v| v == var)) {
            return None;
        }
        let Range { lo, hi } = self.ranges.of_affine(arena, &difference).known()?;
        // The comparison has the form c * v + r, with r from lo to hi; a negative factor is handled by negation.
        let (c, lo, hi, negated) = if c > 0 { (c, lo, hi, false) } else { (-c, -hi, -lo, true) };
        let first_at_least = |bound: i64, r: i64| ceil_div(bound.checked_sub(r)?, c);
        match op {
            // Decided once the sum reaches the bound for the smallest r, and before it does for the largest r.
            CmpOp::Ge | CmpOp::Lt => {
                let bound = if negated { 1 } else { 0 };
                Some((first_at_least(bound, hi)?, first_at_least(bound, lo)?))
            }
            CmpOp::Gt | CmpOp::Le => {
                let bound = if negated { 0 } else { 1 };
                Some((first_at_least(bound, hi)?, first_at_least(bound, lo)?))
            }
            CmpOp::Eq | CmpOp::Ne if self.cuts == Cuts::All => Some((first_at_least(0, hi)?, first_at_least(1, lo)?)),
            CmpOp::Eq | CmpOp::Ne => None,
        }
    }

    /// Moves the invariant part of a loop's only condition out of the loop.
    fn unswitch(&mut self, kernel: &mut Kernel, s: StmtId) -> StmtId {
        let Stmt::For(l) = kernel.stmts.get(s) else { return s };
        let &[inner] = kernel.stmts.list(l.body) else { return s };
        let Stmt::If { condition, then, otherwise } = kernel.stmts.get(inner) else { return s };
        if l.kind == LoopKind::Parallel || !otherwise.is_empty() {
            return s;
        }
        let (mut outside, mut inside) = (Vec::new(), Vec::new());
        conjuncts(&kernel.arena, condition, &mut |c| {
            let changes = mentions_var(&kernel.arena, c, &mut |v| v == l.var);
            // Without memory and registers, the condition has the same value before the loop.
            if changes || !is_speculable(&kernel.arena, c) || reads_state(&kernel.arena, c) {
                inside.push(c);
            } else {
                outside.push(c);
            }
        });
        let Some(outside) = all(&mut kernel.arena, &outside) else { return s };
        self.changed = true;
        let body = match all(&mut kernel.arena, &inside) {
            None => then,
            Some(condition) => kernel.stmts.single(Stmt::If { condition, then, otherwise }),
        };
        let then = kernel.stmts.single(Stmt::For(For { body, ..l }));
        kernel.stmts.push(Stmt::If { condition: outside, then, otherwise })
    }
}

/// Whether a loop may be vectorised if its accesses are contiguous: it is annotated, or innermost.
fn may_be_lanes(kernel: &Kernel, l: &For) -> bool {
    let mut contiguous = true;
    kernel.for_each_stmt(l.body, &mut |_, stmt| match stmt {
        Stmt::Store { index, .. } => {
            contiguous &= Affine::of(&kernel.arena, index).coefficient_of(&kernel.arena, l.var) == 1;
        }
        Stmt::If { .. } => {}
        Stmt::For(_) | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {
            contiguous = false
        }
    });
    l.kind == LoopKind::Vector || l.kind == LoopKind::Serial && l.iterations == Iterations::Independent && contiguous
}

/// Collects the comparisons of a selection that become masks: those of padding along a vector, outside of which nothing
/// is read. With `all`, also comparisons that all lanes share: inside a reduction, a split would divide a tile. `narrow`: whether
/// there are masks for elements of 8 and 16 bits; inside a reduction, bytes are taken four at a time, and have none.
fn note_masks(arena: &Arena, e: ExprId, lanes: &[VarId], all: bool, narrow: bool, masked: &mut Vec<ExprId>) {
    let Expr::IfThenElse(c, t, o) = arena.expr(e) else { return };
    let Expr::Load(_, index) = arena.expr(t) else { return };
    let index = Affine::of(arena, index);
    let stride = |v: VarId| Some(index.coefficient_of(arena, v)).filter(|&n| n == 1 || is_near(arena.dtype(t), n));
    let Some((lane, stride)) = lanes.iter().find_map(|&v| Some((v, stride(v)?))) else { return };
    let dtype = arena.dtype(t);
    let has_masks = is_masked(dtype) || narrow && (is_short(dtype) || !all && is_byte(dtype));
    if !has_masks || !is_speculable(arena, o) {
        return;
    }
    conjuncts(arena, c, &mut |c| {
        let Expr::Compare(CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge, a, b) = arena.expr(c) else { return };
        if is_comparison(arena, c) {
            let difference = Affine::of(arena, a).minus(&Affine::of(arena, b));
            let step = difference.coefficient_of(arena, lane).abs();
            if step == stride || all && step == 0 {
                masked.push(c);
            }
        }
    });
}

/// The conjunction of conditions; `None` if there are none.
fn all(arena: &mut Arena, conditions: &[ExprId]) -> Option<ExprId> {
    let (&first, rest) = conditions.split_first()?;
    Some(rest.iter().fold(first, |a, &b| arena.and(a, b)))
}

/// `a / b`, rounded up.
fn ceil_div(a: i64, b: i64) -> Option<i64> {
    Some(a.checked_add(b - 1)?.div_euclid(b))
}

/// Whether a loop may be copied `times` times. With reductions inside, each copy becomes an unrolled register tile: if
/// there are further spatial loops around, which may be split themselves, a second copy for the remainder is allowed,
/// but no third.
pub(super) fn may_copy(kernel: &Kernel, l: &For, times: usize) -> bool {
    let (mut stores, mut sums, mut space) = (0, l.iterations == Iterations::Reduction, false);
    kernel.for_each_stmt(l.body, &mut |_, stmt| match stmt {
        Stmt::For(l) if l.iterations == Iterations::Reduction => sums = true,
        Stmt::For(_) => space = true,
        Stmt::Store { .. } => stores += 1,
        Stmt::If { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
    });
    if sums {
        stores * times <= MAX_SUMS && (!space || times == 2 || l.kind == LoopKind::Vector)
    } else {
        stores * times <= MAX_STORES
    }
}
