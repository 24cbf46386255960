//! Coalesces a short innermost loop with the loop around it, if together they run over contiguous elements.
//!
//! ```text
//! for x in 512: for c in 3: Y[x * 3 + c] = X[x * 3 + c] * A[x] + B[c]
//! // becomes
//! for f in 1536: Y[f] = X[f] * A[f // 3] + B[f % 3]
//! ```
//!
//! For example, the channels of an image's points. The short loop would leave most lanes empty; a vector of the
//! coalesced loop ends at a multiple of it, so that its elements have constant offsets, which region code gathers from
//! contiguous vectors. The order of iterations is unchanged. A loop that was split, although indices are divided by
//! something else, is coalesced for the same reason:
//!
//! ```text
//! for i in 24: for j in 64: Y[i * 64 + j] = X[i * 64 + j] * A[(i * 64 + j) // 3]
//! // becomes
//! for f in 1536: Y[f] = X[f] * A[f // 3]
//! ```
//!
//! Rows that do not fill their last vector are coalesced as well, where both loops together run over all elements in order: only the
//! last vector of all rows is then partly empty, instead of one in each row.
//!
//! ```text
//! for i in 64: for j in 56: Y[i * 56 + j] = exp(X[i * 56 + j])
//! // becomes
//! for f in 3584: Y[f] = exp(X[f])
//! ```
//!
//! Short rows of a copy that reads along them and writes across, such as the taps of the weights of a convolution, are coalesced where
//! both loops advance all accesses by the same step, so that the copy is a transposition of long rows:
//!
//! ```text
//! for o in 32: for c in 64: for t in 9: P[o + c * 288 + t * 32] = W[o * 576 + c * 9 + t]
//! // becomes
//! for o in 32: for f in 576: P[o + f * 32] = W[o * 576 + f]
//! ```
//!
//! Channels of points whose place is another function of the counter, as in a resized image, are coalesced with a short row of points,
//! since all places of such a row are numbers ([`super::constant_lanes`]):
//!
//! ```text
//! for x in 96: for c in 3: Y[x * 3 + c] = X[r(x) * 3 + c] * w(x)
//! // becomes
//! for f in 288: Y[f] = X[r(f // 3) * 3 + f % 3] * w(f // 3)
//! ```
//!
//! This pass runs after reductions have been arranged, just before vectorisation.

use super::constant_lanes::{is_tabular, offsets_of};
use super::machine::Machine;
use super::vectorize::MOST_TABULATED;
use super::walk::replace_loops;
use super::widen::is_masked;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr};
use crate::loopir::rewrite::{for_each_operand, for_each_value, map_expr, map_operands, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Stmt, StmtId, VarId,
};
use crate::machine::register_tile::MOST_APART;
use hashbrown::HashMap;

/// Maximum number of iterations of the inner loop.
const SHORT: i64 = 8;

/// Maximum number of iterations of the inner loop of a transposing copy.
const SHORT_ROW: i64 = 64;

/// Maximum number of vectors of a row: with more, the part of the last one that is empty costs little.
const FEW_VECTORS: i64 = 8;

/// Maximum number of iterations of coalesced rows. The loops around, which poll the stop flag, should have some left.
const MOST_COALESCED: i64 = 8192;

/// Coalesces all such pairs of loops. Returns whether there were any.
pub(super) fn coalesce(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let mut changed = false;
    kernel.body = body(kernel, kernel.body, machine, &mut changed);
    changed
}

fn body(kernel: &mut Kernel, old: Body, machine: &Machine, changed: &mut bool) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if let Some(coalesced) = coalesced(kernel, l, None).or_else(|| points(kernel, l, machine)) {
            *changed = true;
            return out.push(kernel.stmts.push(coalesced));
        }
        let inner = body(kernel, l.body, machine, changed);
        let l = For { body: inner, ..l };
        if let Some(coalesced) = coalesced(kernel, l, Some(machine)) {
            *changed = true;
            return out.push(kernel.stmts.push(coalesced));
        }
        let is_same = matches!(kernel.stmts.get(s), Stmt::For(old) if old.body == inner);
        out.push(if is_same { s } else { kernel.stmts.push(Stmt::For(l)) });
    })
}

/// Whether rows of `m` iterations leave much of their last vectors empty, and the code around has nothing to do with them.
fn is_ragged(kernel: &Kernel, stmts: &[StmtId], n: i64, m: i64, machine: &Machine) -> bool {
    let mut own = Accesses::default();
    let (mut narrowest, mut widest) = (8, 1);
    for &s in stmts {
        if let Stmt::Store { value, .. } = kernel.stmts.get(s) {
            narrowest = narrowest.min(kernel.arena.dtype(value).bytes());
            for_each_value(&kernel.arena, value, &mut |e| widest = widest.max(kernel.arena.dtype(e).bytes()));
        }
        own.note(kernel, kernel.stmts.get(s));
    }
    // Elements of less than 32 bits take lanes of 32 bits, except where all are bytes.
    let lanes = (machine.vectors.bytes / if widest == 1 { 1 } else { narrowest.max(4) }) as i64;
    // Fewer elements may be a tile of results, which stays in registers.
    let in_registers = lanes * machine.vectors.registers as i64;
    let total = n.saturating_mul(m);
    if m % lanes == 0 || m > FEW_VECTORS * lanes || total <= in_registers || total > MOST_COALESCED {
        return false;
    }
    // Other loops over the same elements may be fused with these.
    let mut all = Accesses::default();
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| all.note(kernel, stmt));
    own.stores.iter().all(|(b, n)| all.stores.get(b) == Some(n) && all.loads.get(b) == own.loads.get(b))
        && own.loads.keys().all(|b| all.stores.get(b) == own.stores.get(b))
}

/// The number of statements that load from each buffer, and that store to it.
#[derive(Default)]
struct Accesses {
    loads: HashMap<BufferId, u32, FxBuild>,
    stores: HashMap<BufferId, u32, FxBuild>,
}

impl Accesses {
    fn note(&mut self, kernel: &Kernel, stmt: Stmt) {
        if let Stmt::Store { buffer, .. } = stmt {
            *self.stores.entry(buffer).or_default() += 1;
        }
        let mut loaded: Vec<BufferId> = Vec::new();
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(buffer, _) = kernel.arena.expr(e)
                    && !loaded.contains(&buffer)
                {
                    loaded.push(buffer);
                }
            });
        });
        loaded.into_iter().for_each(|b| *self.loads.entry(b).or_default() += 1);
    }
}

/// The coalesced loop, if legal: of short loops and split ones, or, with a machine, of rows that do not fill its vectors.
fn coalesced(kernel: &mut Kernel, outer: For, ragged_on: Option<&Machine>) -> Option<Stmt> {
    let &[s] = kernel.stmts.list(outer.body) else { return None };
    let Stmt::For(inner) = kernel.stmts.get(s) else { return None };
    let is_plain =
        |l: &For| matches!(l.kind, LoopKind::Serial | LoopKind::Vector) && l.iterations == Iterations::Independent;
    let (n, m) = (kernel.arena.as_int(outer.extent)?, kernel.arena.as_int(inner.extent)?);
    if !is_plain(&outer) || !is_plain(&inner) || m < 2 || n < 2 {
        return None;
    }
    let pair = Pair { x: outer.var, c: inner.var, m };
    let stmts = kernel.stmts.list(inner.body).to_vec();
    let (var, f) = kernel.arena.new_index(kernel.arena.var(outer.var).name);
    let mut indices = Vec::new();
    for &s in &stmts {
        let stmt = kernel.stmts.get(s);
        let Stmt::Store { index, value, .. } = stmt else { return None };
        if !pair.is_hidden(&kernel.arena, value) {
            return None;
        }
        indices.push((index, true));
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(_, index) = kernel.arena.expr(e) {
                    indices.push((index, false));
                }
            });
        });
    }
    let is_channel = m <= SHORT && indices.iter().all(|&(index, is_store)| pair.fits(&kernel.arena, index, is_store));
    let is_whole = |arena: &mut Arena, divides: &mut bool| {
        indices.iter().all(|&(index, _)| pair.whole(arena, index, f, divides).is_some())
    };
    let is_transposing = m <= SHORT_ROW && pair.crosses(&kernel.arena, &indices);
    let fits = match ragged_on {
        None if is_channel => true,
        _ if is_transposing && is_whole(&mut kernel.arena, &mut false) => true,
        None => {
            let mut divides = false;
            is_whole(&mut kernel.arena, &mut divides) && divides
        }
        Some(machine) => is_ragged(kernel, &stmts, n, m, machine) && is_whole(&mut kernel.arena, &mut false),
    };
    if !fits {
        return None;
    }
    let mut memo = ExprMap::default();
    let mut out = Vec::new();
    for s in stmts {
        let stmt = kernel.stmts.get(s);
        let arena = &mut kernel.arena;
        let stmt = match stmt {
            Stmt::Store { buffer, index, value } => Stmt::Store { buffer, index: pair.index(arena, index, f), value },
            other => other,
        };
        let new = map_operands(stmt, |e| {
            map_expr(arena, e, &mut memo, &mut |arena, e| match arena.expr(e) {
                Expr::Load(buffer, index) => {
                    let (index, ty) = (pair.index(arena, index, f), arena.ty(e));
                    Some(arena.load(buffer, index, ty))
                }
                _ => None,
            })
        });
        out.push(kernel.stmts.push(new));
    }
    let body = kernel.stmts.body(&out);
    let extent = kernel.arena.index(n.checked_mul(m)?);
    let kind = if inner.kind == LoopKind::Vector { LoopKind::Vector } else { outer.kind };
    Some(Stmt::For(For { var, extent, kind, body, ..outer }))
}

/// Minimum number of points of which a vector has the channels.
const POINTS: i64 = 3;

/// The coalesced loop of a row of points and their few channels, if the places of the points are functions of the outer loop.
fn points(kernel: &mut Kernel, outer: For, machine: &Machine) -> Option<Stmt> {
    let &[s] = kernel.stmts.list(outer.body) else { return None };
    let Stmt::For(inner) = kernel.stmts.get(s) else { return None };
    let is_plain = |l: &For| l.kind == LoopKind::Serial && l.iterations == Iterations::Independent;
    let (n, m) = (kernel.arena.as_int(outer.extent)?, kernel.arena.as_int(inner.extent)?);
    if !is_plain(&outer) || !is_plain(&inner) || m < 2 || n < 2 {
        return None;
    }
    let (var, f) = kernel.arena.new_index(kernel.arena.var(outer.var).name);
    let divisor = kernel.arena.index(m);
    let point = kernel.arena.binary(BinOp::FloorDiv, f, divisor);
    let channel = kernel.arena.binary(BinOp::FloorMod, f, divisor);
    let pair = Pair { x: outer.var, c: inner.var, m };
    let mut substitution = Substitution::of(outer.var, point);
    substitution.set(inner.var, channel);
    let mut loads = Vec::new();
    let (mut places, mut copies) = (false, true);
    let (mut narrowest, mut widest) = (DType::Float64, DType::Bool);
    let mut note = |dtype: DType| {
        if dtype.bytes() < narrowest.bytes() {
            narrowest = dtype;
        }
        if dtype.bytes() > widest.bytes() {
            widest = dtype;
        }
    };
    let mut out = Vec::new();
    for s in kernel.stmts.list(inner.body).to_vec() {
        let Stmt::Store { buffer, index, value } = kernel.stmts.get(s) else { return None };
        let arena = &mut kernel.arena;
        if !pair.fits(arena, index, true) || arena.lanes(value) != 1 {
            return None;
        }
        note(arena.dtype(value));
        copies &= matches!(arena.expr(value), Expr::Load(..));
        for_each_expr(arena, value, &mut |e| {
            if let Expr::Load(_, index) = arena.expr(e) {
                note(arena.dtype(e));
                loads.push(index);
                places |= pair.steps(arena, index).is_none();
            }
        });
        let index = pair.index(arena, index, f);
        let value = substitution.expr(arena, value);
        out.push(kernel.store(buffer, index, value));
    }
    let lanes = machine.vectors.lanes(widest);
    // Any number of elements must be a vector.
    let is_any = machine.vectors.has_narrow_masks() || is_masked(widest) && narrowest.bytes() == widest.bytes();
    let total = n.checked_mul(m)?;
    if !places || !is_any || m * POINTS > lanes || total > MOST_TABULATED * lanes {
        return None;
    }
    // Elements that are only copied keep their width.
    let lanes = if copies && machine.vectors.has_narrow_masks() {
        (machine.vectors.bytes / widest.bytes()) as i64
    } else {
        lanes
    };
    for index in loads {
        let index = substitution.expr(&mut kernel.arena, index);
        if !is_near(&kernel.arena, index, var, (total, lanes))? {
            return None;
        }
    }
    let (extent, body) = (kernel.arena.index(total), kernel.stmts.body(&out));
    Some(Stmt::For(For { var, extent, body, ..outer }))
}

/// Whether the elements of each vector of a loop are so near to each other that they are taken from a few registers; `None` if their
/// places are no functions of the counter.
fn is_near(arena: &Arena, index: ExprId, var: VarId, (n, lanes): (i64, i64)) -> Option<bool> {
    if !is_tabular(arena, index, var) {
        return None;
    }
    let mut moving = Affine::of(arena, index).terms;
    moving.retain(|t| mentions_var(arena, t.0, &mut |v| v == var));
    let offsets = offsets_of(arena, &moving, var, 0..n)?;
    let is_near = |vector: &[i64]| {
        let (least, most) = (vector.iter().min(), vector.iter().max());
        least.zip(most).is_some_and(|(least, most)| most.saturating_sub(*least) < MOST_APART * vector.len() as i64)
    };
    Some(offsets.chunks(usize::try_from(lanes).ok()?).all(is_near))
}

/// Two nested loops, the inner one of `m` iterations.
struct Pair {
    x: VarId,
    c: VarId,
    m: i64,
}

impl Pair {
    /// The strides of an index along both loops, if it is affine in them.
    fn steps(&self, arena: &Arena, index: ExprId) -> Option<(i64, i64)> {
        let affine = Affine::of(arena, index);
        let both = |v: VarId| v == self.x || v == self.c;
        let is_own = |atom: ExprId| arena.as_var(atom).is_none() && mentions_var(arena, atom, &mut { both });
        if affine.terms.iter().any(|t| is_own(t.0)) {
            return None;
        }
        Some((affine.coefficient_of(arena, self.x), affine.coefficient_of(arena, self.c)))
    }

    /// Whether the inner loop reads contiguous elements, but stores elsewhere; indices are given with whether they are of stores.
    fn crosses(&self, arena: &Arena, indices: &[(ExprId, bool)]) -> bool {
        let step = |index| self.steps(arena, index).map(|(_, c)| c);
        let stores_across = indices.iter().filter(|i| i.1).all(|i| step(i.0).is_some_and(|c| c.abs() > 1));
        stores_across && indices.iter().any(|i| !i.1 && step(i.0) == Some(1))
    }

    /// Whether a value uses the loop variables only in indices of accesses.
    fn is_hidden(&self, arena: &Arena, e: ExprId) -> bool {
        let mut hidden = true;
        for_each_value(arena, e, &mut |e| {
            hidden &= arena.lanes(e) == 1 && arena.as_var(e).is_none_or(|v| v != self.x && v != self.c);
        });
        hidden
    }

    /// Whether an access is contiguous, or, for loads, also invariant or periodic.
    fn fits(&self, arena: &Arena, index: ExprId, is_store: bool) -> bool {
        match self.steps(arena, index) {
            Some((x, 1)) if x == self.m => true,
            Some((0, 0..=2) | (1..=2, 0)) => !is_store,
            _ => false,
        }
    }

    /// Rewrites an index in terms of the coalesced variable, if it uses both loops as one; records whether it divides
    /// that.
    fn whole(&self, arena: &mut Arena, index: ExprId, f: ExprId, divides: &mut bool) -> Option<ExprId> {
        let old = Affine::of(arena, index);
        let mut new = Affine::constant(old.constant);
        if old.coefficient_of(arena, self.x) != old.coefficient_of(arena, self.c).checked_mul(self.m)? {
            return None;
        }
        for &(atom, k) in &old.terms {
            match arena.expr(atom) {
                Expr::Var(v) if v == self.x => {}
                Expr::Var(v) if v == self.c => new.add_term(f, k),
                _ if !mentions_var(arena, atom, &mut |v| v == self.x || v == self.c) => new.add_term(atom, k),
                Expr::Binary(op @ (BinOp::FloorDiv | BinOp::FloorMod), x, d) if arena.as_int(d).is_some() => {
                    *divides = true;
                    let x = self.whole(arena, x, f, divides)?;
                    let atom = arena.binary(op, x, d);
                    new.add_term(atom, k);
                }
                _ => return None,
            }
        }
        Some(new.to_expr(arena))
    }

    /// Rewrites an index in terms of the coalesced variable.
    fn index(&self, arena: &mut Arena, index: ExprId, f: ExprId) -> ExprId {
        if let Some(whole) = self.whole(arena, index, f, &mut false) {
            return whole;
        }
        let Some((x, c)) = self.steps(arena, index) else { return index };
        let mut affine = Affine::of(arena, index);
        affine.terms.retain(|t| arena.as_var(t.0).is_none_or(|v| v != self.x && v != self.c));
        let m = arena.index(self.m);
        if x == self.m * c {
            affine.add_term(f, c);
        } else {
            let (point, channel) = (arena.binary(BinOp::FloorDiv, f, m), arena.binary(BinOp::FloorMod, f, m));
            affine.add_term(point, x);
            affine.add_term(channel, c);
        }
        affine.to_expr(arena)
    }
}
