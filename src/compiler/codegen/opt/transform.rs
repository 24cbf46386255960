//! Applies small matrices of constants one after the other, with their elements as numbers.
//!
//! ```text
//! for i in 6: for j in 3: G[i * 3 + j] = select(i == 5 && j == 2, 1.0, …)
//! for e in 6: for u in 6: for c in 64:
//!   Y[e * 384 + u * 64 + c] = 0.0
//!   for a in 3: for b in 3: Y[…] = Y[…] + X[a * 192 + b * 64 + c] * G[e * 3 + a] * G[u * 3 + b]
//! // becomes
//! for a in 3: for c in 64: T[a * 384 + c] = X[a * 192 + c]; T[a * 384 + c + 64] = …; …
//! for u in 6: for c in 64: Y[u * 64 + c] = T[u * 64 + c]; Y[u * 64 + c + 384] = …; …
//! ```
//!
//! The transforms of Winograd's convolution are products of each tile with such a matrix from both sides. As written, each
//! result sums all elements of the tile. One side at a time, it sums those of a row and then those of a column; terms with
//! zero vanish, and those with one need no product. The results that a statement computes share the elements that they read.
//!
//! The loops over other axes go outside, but for the one along which the elements are contiguous, which becomes the vector.
//! Where the results are contiguous along another axis, a tile of them is computed in the order of the elements and copied.
//!
//! As with [`reciprocal`](super::reciprocal), this is not done if floats must be computed as written.

use super::machine::Machine;
use super::nest::{Level, Nest, Role};
use super::walk::placement_inside;
use crate::codegen::facts::reads_state;
use crate::ir::{BinOp, Const, DType};
use crate::loopir::rewrite::{Substitution, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, Ty,
    VarId,
};
use std::collections::BTreeMap;

/// Maximum number of elements of a matrix.
const MAX_MATRIX: i64 = 128;

/// Maximum extent of a matrix: as many results are computed by one statement each.
const MAX_EXTENT: i64 = 12;

/// Maximum number of intermediate elements, which should stay in a near cache.
const MAX_PARTS: i64 = 1 << 16;

/// Numbers of results in a tile that is copied, best first.
const TILES: [i64; 6] = [16, 32, 24, 8, 12, 64];

/// Numbers of elements along the vector that are copied together, best first.
const SQUARES: [i64; 4] = [64, 48, 32, 16];

/// Separates the transforms of a kernel. Returns whether there are any.
pub(super) fn transform(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.reassociates {
        return false;
    }
    let tables = tables(kernel);
    if tables.is_empty() {
        return false;
    }
    let old = kernel.body;
    kernel.body = body(kernel, &tables, old, Placement::Shared);
    kernel.body != old
}

type Tables = BTreeMap<BufferId, Vec<f64>>;

/// The constants in scratch memory: buffers that one loop nest of the kernel's body fills from its indices alone.
fn tables(kernel: &mut Kernel) -> Tables {
    let mut found = Tables::new();
    for s in kernel.stmts.list(kernel.body).to_vec() {
        if let Some((buffer, values)) = table(kernel, s) {
            found.insert(buffer, values);
        }
    }
    let mut stores: BTreeMap<BufferId, usize> = BTreeMap::new();
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        if let Stmt::Store { buffer, .. } = stmt {
            *stores.entry(buffer).or_default() += 1;
        }
    });
    found.retain(|b, _| stores.get(b) == Some(&1));
    found
}

fn table(kernel: &mut Kernel, mut s: StmtId) -> Option<(BufferId, Vec<f64>)> {
    let mut loops: Vec<(VarId, i64)> = Vec::new();
    let (buffer, index, value) = loop {
        match kernel.stmts.get(s) {
            Stmt::For(l) if l.kind != LoopKind::Parallel => {
                loops.push((l.var, kernel.arena.as_int(l.extent).filter(|n| (1..=MAX_MATRIX).contains(n))?));
                let &[inner] = kernel.stmts.list(l.body) else { return None };
                s = inner;
            }
            Stmt::Store { buffer, index, value } => break (buffer, index, value),
            _ => return None,
        }
    };
    let len = kernel.buffer(buffer).len;
    let count = loops.iter().try_fold(1i64, |n, l| n.checked_mul(l.1))?;
    if kernel.buffer(buffer).is_param() || len > MAX_MATRIX || count != len || reads_state(&kernel.arena, value) {
        return None;
    }
    let mut values = vec![None; len as usize];
    for i in 0..len {
        let (mut at, mut rest) = (Substitution::default(), i);
        for &(var, n) in loops.iter().rev() {
            let number = kernel.arena.index(rest % n);
            at.set(var, number);
            rest /= n;
        }
        let place = at.expr(&mut kernel.arena, index);
        let element = at.expr(&mut kernel.arena, value);
        let place = Affine::of(&kernel.arena, place).as_constant()?;
        let Const::Float(element) = kernel.arena.as_const(element)? else { return None };
        *values.get_mut(usize::try_from(place).ok()?)? = Some(element);
    }
    Some((buffer, values.into_iter().collect::<Option<_>>()?))
}

fn body(kernel: &mut Kernel, tables: &Tables, old: Body, placement: Placement) -> Body {
    let stmts = kernel.stmts.list(old).to_vec();
    let mut out: Vec<StmtId> = Vec::with_capacity(stmts.len());
    for &s in &stmts {
        let new = match kernel.stmts.get(s) {
            Stmt::For(l) => match Transform::of(kernel, tables, l) {
                Some(t) => {
                    out.push(t.emit(kernel, placement));
                    continue;
                }
                None => {
                    let inside = placement_inside(&l, placement);
                    let inner = body(kernel, tables, l.body, inside);
                    if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) }
                }
            },
            _ => s,
        };
        out.push(new);
    }
    if stmts == out { old } else { kernel.stmts.body(&out) }
}

/// A matrix that sums over one loop of a nest for each iteration of another.
#[derive(Clone, Debug)]
struct Side {
    /// The loop over the elements that are summed.
    from: Level,
    /// The loop over the results.
    to: Level,
    n_from: i64,
    n_to: i64,
    /// The coefficients, `n_to` for each element.
    matrix: Vec<f64>,
}

/// A nest that applies matrices.
#[derive(Clone, Debug)]
struct Transform {
    nest: Nest,
    sides: Vec<Side>,
    /// The elements that are transformed.
    elements: ExprId,
    /// The loops outside, with their extents.
    outer: Vec<(For, i64)>,
    /// The loop that becomes the vector.
    lane: (For, i64),
    /// The loop along which the results are contiguous, if it is another, and the tile.
    across: Option<(For, i64, i64)>,
}

/// The operands of a product.
fn factors(arena: &Arena, e: ExprId, f: &mut Vec<ExprId>) {
    match arena.expr(e) {
        Expr::Binary(BinOp::Mul, a, b) => {
            factors(arena, a, f);
            factors(arena, b, f);
        }
        _ => f.push(e),
    }
}

impl Transform {
    fn of(kernel: &Kernel, tables: &Tables, l: For) -> Option<Transform> {
        let nest = Nest::of(kernel, l)?;
        let arena = &kernel.arena;
        let ty = arena.ty(nest.value);
        let init = nest.init.as_ref()?;
        if ![DType::Float32, DType::Float64].contains(&ty.dtype)
            || !init.guards.is_empty()
            || !arena.is_number(init.value, 0)
        {
            return None;
        }
        let Expr::Binary(BinOp::Add, a, b) = arena.expr(nest.value) else { return None };
        let is_sum = |e| matches!(arena.expr(e), Expr::Load(buffer, at) if buffer == nest.buffer && at == nest.index);
        let product = if is_sum(a) {
            b
        } else if is_sum(b) {
            a
        } else {
            return None;
        };
        let mut operands = Vec::new();
        factors(arena, product, &mut operands);
        let (mut sides, mut elements): (Vec<Side>, Option<ExprId>) = (Vec::new(), None);
        for e in operands {
            match arena.expr(e) {
                Expr::Load(buffer, at) if tables.contains_key(&buffer) => {
                    sides.push(side(arena, &nest, &tables[&buffer], at)?);
                }
                _ if elements.is_none() => elements = Some(e),
                _ => return None,
            }
        }
        let elements = elements?;
        // Each loop belongs to one side.
        let mut vars: Vec<VarId> = sides.iter().flat_map(|s| [s.from.l.var, s.to.l.var]).collect();
        vars.sort_unstable();
        vars.dedup();
        let own = |v: VarId| vars.contains(&v);
        if sides.is_empty() || vars.len() != 2 * sides.len() || nest.n_reductions() != sides.len() {
            return None;
        }
        if mentions_var(arena, elements, &mut |v| sides.iter().any(|s| s.to.l.var == v)) {
            return None;
        }
        let Expr::Load(_, at) = arena.expr(elements) else { return None };
        let place = Affine::of(arena, at);
        let mut free: Vec<(Level, i64)> = Vec::new();
        for level in nest.levels.iter().filter(|l| !own(l.l.var)) {
            free.push((*level, level.extent.filter(|&n| n > 0)?));
        }
        let lane = *free.iter().find(|f| place.stride(arena, f.0.l.var) == Some(1))?;
        let to = *free.iter().find(|f| f.0.stride == 1)?;
        let across = if to.0.l.var == lane.0.l.var {
            None
        } else {
            let n = to.1;
            Some((to.0.l, n, TILES.into_iter().find(|t| n % t == 0)?))
        };
        // Elements of a tile between the first and the last side, or of the results before they are copied.
        let parts = sides.iter().map(|s| s.n_from.max(s.n_to)).product::<i64>().saturating_mul(lane.1);
        if parts > MAX_PARTS || across.is_some_and(|a| parts.saturating_mul(a.2) > 16 * MAX_PARTS) {
            return None;
        }
        let is_outer = |v: VarId| v != lane.0.l.var && v != to.0.l.var;
        let outer = free.iter().filter(|f| is_outer(f.0.l.var)).map(|f| (f.0.l, f.1)).collect();
        Some(Transform { nest, sides, elements, outer, lane: (lane.0.l, lane.1), across })
    }

    /// The nest one side after the other.
    fn emit(&self, kernel: &mut Kernel, placement: Placement) -> StmtId {
        let ty = kernel.arena.ty(self.nest.value);
        let n_lane = self.lane.1;
        let mut outside = Substitution::default();
        let mut loops: Vec<(VarId, i64)> = Vec::new();
        for &(l, n) in &self.outer {
            let (var, e) = fresh(kernel, l.var);
            outside.set(l.var, e);
            loops.push((var, n));
        }
        // The results of a tile, if they are to be copied.
        let results: i64 = self.sides.iter().map(|s| s.n_to).product();
        let tile = self.across.map(|(l, n, tile)| {
            let (block, block_var) = fresh(kernel, l.var);
            let (within, within_var) = fresh(kernel, l.var);
            loops.push((block, n / tile));
            let first = kernel.arena.mul_const(block_var, tile);
            let buffer = kernel.add_scratch("tile", ty.dtype, results * tile * n_lane, placement);
            let at = kernel.arena.add(first, within_var);
            outside.set(l.var, at);
            (buffer, l, tile, first, within, within_var)
        });
        // The axes of the elements that come from a side and are not transformed yet.
        let mut extents: Vec<i64> = self.sides.iter().map(|s| s.n_from).collect();
        let mut from: Option<BufferId> = None;
        let mut steps: Vec<StmtId> = Vec::new();
        for k in (0..self.sides.len()).rev() {
            let side = &self.sides[k];
            let before = extents.clone();
            extents[k] = side.n_to;
            let to = (k > 0).then(|| {
                let len = extents.iter().product::<i64>() * n_lane;
                kernel.add_scratch("parts", ty.dtype, len, placement)
            });
            let (lane, lane_var) = fresh(kernel, self.lane.0.var);
            let mut at = outside.clone();
            at.set(self.lane.0.var, lane_var);
            let mut own: Vec<(VarId, i64)> = Vec::new();
            let mut coordinates: Vec<ExprId> = Vec::new();
            for (i, other) in self.sides.iter().enumerate() {
                // Sides behind this one are transformed already.
                let level = if i > k { other.to } else { other.from };
                let (var, e) = fresh(kernel, level.l.var);
                coordinates.push(e);
                if i != k {
                    at.set(level.l.var, e);
                    own.push((var, before[i]));
                }
            }
            own.push((lane, n_lane));
            let place = |arena: &mut Arena, extents: &[i64], coordinates: &[ExprId]| {
                let (mut index, mut stride) = (Affine::default(), n_lane);
                for (&n, &c) in extents.iter().zip(coordinates).rev() {
                    match arena.as_int(c) {
                        Some(c) => index.constant += c * stride,
                        None => index.add_term(c, stride),
                    }
                    stride *= n;
                }
                index.add_term(lane_var, 1);
                index
            };
            let mut terms: Vec<ExprId> = Vec::new();
            for r in 0..side.n_from {
                let number = kernel.arena.index(r);
                terms.push(match from {
                    Some(buffer) => {
                        coordinates[k] = number;
                        let index = place(&mut kernel.arena, &before, &coordinates).to_expr(&mut kernel.arena);
                        kernel.load(buffer, index)
                    }
                    None => {
                        let mut at = at.clone();
                        at.set(side.from.l.var, number);
                        at.expr(&mut kernel.arena, self.elements)
                    }
                });
            }
            let mut stores: Vec<StmtId> = Vec::new();
            for m in 0..side.n_to {
                let number = kernel.arena.index(m);
                let coefficients = (0..side.n_from).map(|r| side.matrix[(r * side.n_to + m) as usize]);
                let value = sum(&mut kernel.arena, ty, &terms, coefficients);
                coordinates[k] = number;
                let s = match (to, tile) {
                    (Some(buffer), _) => {
                        let index = place(&mut kernel.arena, &extents, &coordinates).to_expr(&mut kernel.arena);
                        kernel.store(buffer, index, value)
                    }
                    (None, Some((buffer, _, n_tile, _, _, within))) => {
                        let mut index = Affine::default();
                        let mut stride = n_lane * n_tile;
                        for (&n, &c) in extents.iter().zip(&coordinates).rev() {
                            match kernel.arena.as_int(c) {
                                Some(c) => index.constant += c * stride,
                                None => index.add_term(c, stride),
                            }
                            stride *= n;
                        }
                        index.add_term(within, n_lane);
                        index.add_term(lane_var, 1);
                        let index = index.to_expr(&mut kernel.arena);
                        kernel.store(buffer, index, value)
                    }
                    (None, None) => {
                        let mut at = at.clone();
                        at.set(side.to.l.var, number);
                        let index = at.expr(&mut kernel.arena, self.nest.index);
                        kernel.store(self.nest.buffer, index, value)
                    }
                };
                stores.push(s);
            }
            let inner = kernel.stmts.body(&stores);
            steps.extend(nest(kernel, &own, inner));
            from = to;
        }
        if let Some((buffer, l, n_tile, first, within, _)) = tile {
            let inner = kernel.stmts.body(&steps);
            steps = nest(kernel, &[(within, n_tile)], inner);
            steps.extend(self.copy(kernel, buffer, &outside, l, n_tile, first));
        }
        let inner = kernel.stmts.body(&steps);
        if loops.is_empty() {
            let (once, _) = kernel.arena.new_index("once");
            loops.push((once, 1));
        }
        nest(kernel, &loops, inner)[0]
    }

    /// Copies a tile of results to where they belong.
    fn copy(
        &self,
        kernel: &mut Kernel,
        tile: BufferId,
        outside: &Substitution,
        l: For,
        n_tile: i64,
        first: ExprId,
    ) -> Vec<StmtId> {
        let mut at = outside.clone();
        let mut own: Vec<(VarId, i64)> = Vec::new();
        let mut from = Affine::default();
        let mut stride = self.lane.1 * n_tile;
        for side in self.sides.iter().rev() {
            let (var, e) = fresh(kernel, side.to.l.var);
            at.set(side.to.l.var, e);
            from.add_term(e, stride);
            stride *= side.n_to;
            own.insert(0, (var, side.n_to));
        }
        // Small enough for the pass that transposes in registers.
        let n_lane = self.lane.1;
        let n_inner = SQUARES.into_iter().find(|n| n_lane % n == 0).unwrap_or(n_lane);
        let (block, block_var) = fresh(kernel, self.lane.0.var);
        let (lane, lane_var) = fresh(kernel, self.lane.0.var);
        let lane_first = kernel.arena.mul_const(block_var, n_inner);
        let lane_at = kernel.arena.add(lane_first, lane_var);
        at.set(self.lane.0.var, lane_at);
        from.add_term(block_var, n_inner);
        from.add_term(lane_var, 1);
        own.push((block, n_lane / n_inner));
        own.push((lane, n_inner));
        let (within, within_var) = fresh(kernel, l.var);
        from.add_term(within_var, self.lane.1);
        own.push((within, n_tile));
        let place = kernel.arena.add(first, within_var);
        at.set(l.var, place);
        let from = from.to_expr(&mut kernel.arena);
        let value = kernel.load(tile, from);
        let index = at.expr(&mut kernel.arena, self.nest.index);
        let s = kernel.store(self.nest.buffer, index, value);
        let inner = kernel.stmts.body(&[s]);
        nest(kernel, &own, inner)
    }
}

/// The side that reads a matrix at an index.
fn side(arena: &Arena, nest: &Nest, values: &[f64], at: ExprId) -> Option<Side> {
    let at = Affine::of(arena, at);
    let &[a, b] = &at.terms[..] else { return None };
    let level = |t: (ExprId, i64)| nest.levels.iter().find(|l| Some(l.l.var) == arena.as_var(t.0)).copied();
    let (x, y) = (level(a)?, level(b)?);
    let ((from, step_from), (to, step_to)) = match (x.role, y.role) {
        (Role::Reduction, Role::Space) => ((x, a.1), (y, b.1)),
        (Role::Space, Role::Reduction) => ((y, b.1), (x, a.1)),
        _ => return None,
    };
    let within = |n: &i64| (1..=MAX_EXTENT).contains(n);
    let (n_from, n_to) = (from.extent.filter(within)?, to.extent.filter(within)?);
    let mut matrix = Vec::new();
    for r in 0..n_from {
        for m in 0..n_to {
            let index = at.constant.checked_add(r.checked_mul(step_from)?)?.checked_add(m.checked_mul(step_to)?)?;
            matrix.push(*values.get(usize::try_from(index).ok()?)?);
        }
    }
    matrix.iter().all(|v| v.is_finite()).then_some(Side { from, to, n_from, n_to, matrix })
}

/// `Σ coefficient * term`.
fn sum(arena: &mut Arena, ty: Ty, terms: &[ExprId], coefficients: impl Iterator<Item = f64>) -> ExprId {
    let mut sum: Option<ExprId> = None;
    for (&term, c) in terms.iter().zip(coefficients) {
        if c == 0.0 {
            continue;
        }
        sum = Some(match sum {
            Some(sum) if c == 1.0 => arena.binary(BinOp::Add, sum, term),
            Some(sum) if c == -1.0 => arena.binary(BinOp::Sub, sum, term),
            sum => {
                let factor = arena.float(c, ty.dtype);
                let product = if c == 1.0 { term } else { arena.binary(BinOp::Mul, term, factor) };
                sum.map_or(product, |sum| arena.binary(BinOp::Add, sum, product))
            }
        });
    }
    sum.unwrap_or_else(|| arena.constant(0, ty))
}

/// A new variable with the name of another.
fn fresh(kernel: &mut Kernel, old: VarId) -> (VarId, ExprId) {
    kernel.arena.new_index(kernel.arena.var(old).name)
}

/// Independent loops around statements, outermost first.
fn nest(kernel: &mut Kernel, loops: &[(VarId, i64)], mut inner: Body) -> Vec<StmtId> {
    for &(var, n) in loops.iter().rev() {
        let extent = kernel.arena.index(n);
        let (kind, iterations) = (LoopKind::Serial, Iterations::Independent);
        inner =
            kernel.stmts.single(Stmt::For(For { var, extent, kind, iterations, hints: Hints::default(), body: inner }));
    }
    kernel.stmts.list(inner).to_vec()
}
