//! Arranges nests that accumulate so that a tile of results can stay in registers over the reduction.
//!
//!     for i in 8: for k in 64: for i1 in 4: for j in 8 vector:
//!       if k == 0: C[i * 32 + i1 * 8 + j] = 0
//!       C[i * 32 + i1 * 8 + j] = C[i * 32 + i1 * 8 + j] + A[(i * 4 + i1) * 64 + k] * B[k * 8 + j]
//!     // becomes
//!     for i in 8:
//!       for i1 in 4 unroll: for j in 8 vector: C[…] = 0
//!       for k in 64: for i1 in 4 unroll: for j in 8 vector: C[…] = C[…] + A[…] * B[…]
//!
//! The loops around the tile keep their order. Spatial loops that the schedule put inside the reduction become the tile;
//! of what does not fit the registers a part does, and the reduction runs once for each part. Reduction loops move inward
//! where the ones inside are too short to pay for loading and storing the tile, or where nothing is lost by it. An
//! initialisation, guarded by the first iteration or in a nest of its own before this one, goes right before the reduction
//! if all of it is inside, else before the outermost reduction loop.
//!
//! Later passes turn the tile into vectors, write it out and put it into registers.

use super::machine::Machine;
use super::nest::{Fill, Init, Level, Nest, Role};
use super::vectorize::MOST_APART;
use super::walk::replace_loops;
use crate::loopir::rewrite::{Substitution, for_each_expr, mentions_var};
use crate::loopir::{Affine, Body, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Stmt, StmtId, VarId};

/// Arranges all nests of the kernel.
pub(super) fn accumulate(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, machine);
}

fn body(kernel: &mut Kernel, old: Body, machine: &Machine) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if let Some(nest) = Nest::of(kernel, l)
            && nest.n_reductions() > 0
        {
            arrange(kernel, nest, machine, out);
            return;
        }
        let inner = body(kernel, l.body, machine);
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

fn arrange(kernel: &mut Kernel, mut nest: Nest, machine: &Machine, out: &mut Vec<StmtId>) {
    let plan = Plan::new(kernel, &nest, machine);
    if nest.init.is_none()
        && plan.reduces_inside(&nest)
        && let Some(&before) = out.last()
        && let Some(fill) = Fill::of(kernel, before)
        && fill.covers(kernel, &nest)
    {
        out.pop();
        nest.init = Some(Init { value: fill.value, guards: Vec::new() });
    }
    let mut builder = Builder {
        fused: plan.reduces_inside(&nest),
        kernel,
        nest: &nest,
        plan: &plan,
        starts: Vec::new(),
        sizes: plan.tile.iter().map(|t| t.size).collect(),
    };
    builder.outer(0, out);
}

/// A loop of the tile, or the inner part of one.
#[derive(Clone, Copy, Debug)]
struct TileLevel {
    level: usize,
    size: i64,
}

/// How a nest will look.
#[derive(Debug)]
struct Plan {
    /// The loops around the tile's reduction, and the parts of loops whose inner part is in the tile.
    outer: Vec<usize>,
    /// The reduction loops right around the tile.
    reductions: Vec<usize>,
    /// The tile: rows first, the contiguous loop last.
    tile: Vec<TileLevel>,
    /// Is the last loop of the tile contiguous?
    is_vector: bool,
}

/// Iterations of the reduction that pay for loading and storing the tile around it: with 4, a third of the time went
/// there on an AVX-512 machine, with 16 nothing could be seen.
const LONG_REDUCTION: i64 = 16;

/// Bytes of operands that stay in any first-level cache: a reduction over no more loses nothing by moving inward.
const CACHED_BYTES: i64 = 24 << 10;

/// Sums in flight that hide the latency of multiply-add.
const BUSY: i64 = 8;

/// Registers that are needed beside a tile where its operands are picked from others.
const PICKING: usize = 6;

impl Plan {
    fn new(kernel: &Kernel, nest: &Nest, machine: &Machine) -> Plan {
        let levels = &nest.levels;
        let last = levels.iter().rposition(|l| l.role == Role::Reduction).expect("a nest that reduces");
        let first_of_group = |end: usize| {
            let mut first = end;
            while first > 0 && levels[first - 1].role == Role::Reduction {
                first -= 1;
            }
            first
        };
        let lanes = machine.lanes(kernel.arena.dtype(nest.value));
        let accesses = accesses(kernel, nest);
        let vector = vector_level(kernel, nest, last, &accesses, machine);
        // Vectors that are put together from others need registers for those.
        let picks = vector.is_some_and(|v| accesses.iter().any(|o| (2..=MOST_APART).contains(&o.strides[v])));
        let machine = &Machine { registers: machine.registers - if picks { PICKING } else { 0 }, ..*machine };

        // What is inside a reduction already: the rows.
        let group = first_of_group(last);
        let inside = levels[..group].iter().rposition(|l| l.role == Role::Reduction).unwrap_or(last);
        let is_row = |i: usize| levels[i].role == Role::Space && Some(i) != vector;
        let rows: Vec<usize> = (inside + 1..levels.len()).filter(|&i| is_row(i)).collect();
        let parts = vector.and_then(|v| levels[v].extent).map_or(1, |n| (n as u64).div_ceil(lanes as u64) as i64);
        let (mut n_rows, n_parts) = best_tile(levels, &rows, parts, machine);
        let mut tile: Vec<TileLevel> = Vec::new();
        let mut left = n_rows;
        let mut whole = true;
        for &i in rows.iter().rev() {
            let n = levels[i].extent.unwrap_or(i64::MAX);
            let size = if left >= n { n } else { left };
            whole &= size == n;
            if size > 1 {
                tile.push(TileLevel { level: i, size });
                left /= size;
            }
        }
        tile.reverse();
        whole &= n_parts == parts;
        // More of what is around, as a whole, while there are too few sums to keep the machine busy.
        for i in (0..group).rev().take_while(|&i| levels[i].role == Role::Space) {
            match levels[i].extent {
                _ if Some(i) == vector => {}
                _ if inside != last => break,
                Some(n)
                    if whole
                        && n_rows * n_parts < BUSY
                        && machine.holds_tile(n_rows.saturating_mul(n), n_parts)
                        && last + 1 < levels.len() =>
                {
                    tile.insert(0, TileLevel { level: i, size: n });
                    n_rows *= n;
                }
                _ => break,
            }
        }
        if let Some(v) = vector {
            let n = levels[v].extent.unwrap_or(0);
            tile.push(TileLevel { level: v, size: if n_parts == parts { n } else { n_parts * lanes } });
        }

        // Which reduction loops go inside.
        let mut from = group;
        loop {
            let trips = levels[from..]
                .iter()
                .filter(|l| l.role == Role::Reduction)
                .map(|l| l.extent.unwrap_or(LONG_REDUCTION))
                .fold(1, i64::saturating_mul);
            let Some(end) = levels[..from].iter().rposition(|l| l.role == Role::Reduction) else { break };
            let next = first_of_group(end);
            if trips >= LONG_REDUCTION && footprint(&levels[next..], &accesses) > CACHED_BYTES {
                break;
            }
            from = next;
        }
        let is_whole = |i: usize| tile.iter().any(|t| t.level == i && levels[i].extent == Some(t.size));
        let sinks = |i: usize| i >= from && levels[i].role == Role::Reduction;
        Plan {
            outer: (0..levels.len()).filter(|&i| !is_whole(i) && !sinks(i)).collect(),
            reductions: (0..levels.len()).filter(|&i| sinks(i)).collect(),
            is_vector: vector.is_some(),
            tile,
        }
    }

    /// Are all reduction loops right around the tile?
    fn reduces_inside(&self, nest: &Nest) -> bool {
        self.reductions.len() == nest.n_reductions()
    }
}

/// The operands read, without the accumulated element: strides along the levels, and bytes of an element.
struct Operand {
    strides: Vec<i64>,
    bytes: i64,
    /// Does the index have the form that the strides say?
    is_affine: bool,
}

fn accesses(kernel: &Kernel, nest: &Nest) -> Vec<Operand> {
    let arena = &kernel.arena;
    let is_loop = |v: VarId| nest.levels.iter().any(|l| l.l.var == v);
    let mut operands = Vec::new();
    for_each_expr(arena, nest.value, &mut |e| {
        let Expr::Load(buffer, index) = arena.expr(e) else { return };
        if buffer == nest.buffer {
            return;
        }
        let affine = Affine::of(arena, index);
        let is_affine =
            affine.terms.iter().all(|t| arena.as_var(t.0).is_some() || !mentions_var(arena, t.0, &mut |v| is_loop(v)));
        // Bytes that are taken together count as one element.
        let lanes = i64::from(arena.lanes(e));
        let stride = |var| match affine.coefficient_of(arena, var) {
            s if s % lanes == 0 => s / lanes,
            _ => i64::MAX,
        };
        let strides = nest.levels.iter().map(|l| stride(l.l.var)).collect();
        operands.push(Operand { strides, bytes: arena.ty(e).bytes() as i64, is_affine });
    });
    operands
}

/// Bytes that a nest of loops reads.
fn footprint(levels: &[Level], operands: &[Operand]) -> i64 {
    let skipped = |o: &Operand| o.strides.len() - levels.len();
    operands
        .iter()
        .map(|o| {
            let moving = levels.iter().zip(&o.strides[skipped(o)..]).filter(|(_, s)| **s != 0);
            moving.map(|(l, _)| l.extent.unwrap_or(1 << 20)).fold(o.bytes, i64::saturating_mul)
        })
        .fold(0, i64::saturating_add)
}

/// The loop to run as vector lanes: the innermost one along which the results are contiguous. None where the operands
/// are contiguous along the innermost reduction instead, and sums may be computed in another order.
fn vector_level(kernel: &Kernel, nest: &Nest, last: usize, operands: &[Operand], machine: &Machine) -> Option<usize> {
    let levels = &nest.levels;
    let v = levels.iter().rposition(|l| l.role == Role::Space && l.stride == 1 && l.extent.is_some_and(|n| n > 1))?;
    let serves = |i: usize| operands.iter().all(|o| o.is_affine && matches!(o.strides[i], 0 | 1));
    let is_float = kernel.arena.dtype(nest.value).is_float();
    let inner_reduction = last + 1 == levels.len() && (machine.reassociates || !is_float);
    // Region code picks elements that lie apart, which is better than a reduction that fills no vectors.
    let is_near = |o: &Operand| o.is_affine && (0..=MOST_APART).contains(&o.strides[v]);
    let is_short = levels[last].extent.is_some_and(|n| n < 2 * machine.lanes(kernel.arena.dtype(nest.value)));
    if machine.has_regions && is_short && operands.iter().all(is_near) {
        return Some(v);
    }
    if !serves(v) && (inner_reduction && serves(last) || v < last) {
        return None;
    }
    Some(v)
}

/// How many rows and vectors of the tile's loops to keep in registers: the pair that keeps the machine busiest. A row
/// count is a product of whole inner loops and a divisor of the next.
fn best_tile(levels: &[Level], rows: &[usize], parts: i64, machine: &Machine) -> (i64, i64) {
    let fits = machine.registers as i64;
    let mut counts = vec![1];
    let mut inner = 1;
    for &i in rows.iter().rev() {
        let Some(n) = levels[i].extent else { break };
        counts.extend((2..=fits / inner).filter(|d| n % d == 0).map(|d| d * inner));
        inner = inner.saturating_mul(n);
        if inner > fits {
            break;
        }
    }
    let mut best = (1, 1);
    let mut best_score = (0.0, 0.0);
    for &mr in &counts {
        for nv in (1..=parts).take_while(|&nv| machine.holds_tile(mr, nv)) {
            let n = (mr * nv) as f64;
            // Two multiply-adds and two loads in a cycle, and a chain of sums takes four.
            let cycles = (n / 2.0).max((mr + nv) as f64 / 2.0).max(4.0);
            let rounds = (parts as u64).div_ceil(nv as u64) as i64;
            let filled = parts as f64 / (rounds * nv) as f64;
            let score = (n / 2.0 / cycles * filled * machine.ease_of_tile(mr, nv), n / (mr + nv) as f64);
            if score > best_score {
                (best, best_score) = ((mr, nv), score);
            }
        }
    }
    best
}

/// Builds the nest that a plan describes.
struct Builder<'a> {
    kernel: &'a mut Kernel,
    nest: &'a Nest,
    plan: &'a Plan,
    /// Does the initialisation go right before the reduction?
    fused: bool,
    /// What the variables of the loops around stand for; of a loop in the tile, where its part begins.
    starts: Vec<(VarId, ExprId)>,
    /// Sizes of the tile's loops.
    sizes: Vec<i64>,
}

impl Builder<'_> {
    /// The loops around from `at` on.
    fn outer(&mut self, at: usize, out: &mut Vec<StmtId>) {
        let Some(&level) = self.plan.outer.get(at) else { return self.inner(out) };
        let l = self.nest.levels[level].l;
        let is_reduction = self.nest.levels[level].role == Role::Reduction;
        if is_reduction && !self.fused && !self.plan.outer[..at].iter().any(|&i| self.is_reduction(i)) {
            self.separate_init(at, out);
        }
        let Some(t) = self.plan.tile.iter().position(|t| t.level == level) else {
            let (var, e) = self.fresh(l.var);
            self.starts.push((l.var, e));
            let body = self.nested(|b, out| b.outer(at + 1, out));
            self.starts.pop();
            let kind = if l.kind == LoopKind::Vector { LoopKind::Serial } else { l.kind };
            return out.push(self.kernel.stmts.push(Stmt::For(For { var, body, kind, ..l })));
        };
        let n = self.nest.levels[level].extent.expect("loops of the tile have constant extents");
        let size = self.sizes[t];
        let (var, e) = self.fresh(l.var);
        let start = self.kernel.arena.mul_const(e, size);
        self.starts.push((l.var, start));
        let body = self.nested(|b, out| b.outer(at + 1, out));
        self.starts.pop();
        let extent = self.kernel.arena.index(n / size);
        let kind = if l.kind == LoopKind::Vector { LoopKind::Serial } else { l.kind };
        out.push(self.kernel.stmts.push(Stmt::For(For { var, extent, body, kind, ..l })));
        if n % size > 0 {
            let start = self.kernel.arena.index(n / size * size);
            self.starts.push((l.var, start));
            self.sizes[t] = n % size;
            self.outer(at + 1, out);
            self.sizes[t] = size;
            self.starts.pop();
        }
    }

    fn is_reduction(&self, level: usize) -> bool {
        self.nest.levels[level].role == Role::Reduction
    }

    fn nested(&mut self, f: impl FnOnce(&mut Self, &mut Vec<StmtId>)) -> Body {
        let mut out = Vec::new();
        f(self, &mut out);
        self.kernel.stmts.body(&out)
    }

    fn fresh(&mut self, like: VarId) -> (VarId, ExprId) {
        let name = self.kernel.arena.var(like).name;
        self.kernel.arena.new_index(name)
    }

    /// The initialisation in a nest of its own, over all spatial loops that are not around it.
    fn separate_init(&mut self, at: usize, out: &mut Vec<StmtId>) {
        let Some(init) = &self.nest.init else { return };
        let (nest, init) = (self.nest, init.clone());
        let around = &self.plan.outer[..at];
        let loops: Vec<(usize, i64)> = (0..nest.levels.len())
            .filter(|&i| !self.is_reduction(i) && !around.contains(&i))
            .map(|i| (i, nest.levels[i].extent.unwrap_or(-1)))
            .collect();
        // A part of the tile whose outer part is around is covered by the tile's own size.
        let mut all = loops;
        for (t, tile) in self.plan.tile.iter().enumerate() {
            if around.contains(&tile.level) {
                all.push((tile.level, self.sizes[t]));
            }
        }
        self.store_nest(&all, init.value, &init.guards, out);
    }

    /// The reduction loops, around the tile.
    fn inner(&mut self, out: &mut Vec<StmtId>) {
        let nest = self.nest;
        let tile: Vec<(usize, i64)> =
            self.plan.tile.iter().zip(&self.sizes).map(|(t, &size)| (t.level, size)).collect();
        if let Some(init) = nest.init.clone().filter(|_| self.fused) {
            self.store_nest(&tile, init.value, &init.guards, out);
        }
        let mut vars = Vec::new();
        for &i in &self.plan.reductions {
            let l = nest.levels[i].l;
            let (var, e) = self.fresh(l.var);
            vars.push(var);
            self.starts.push((l.var, e));
        }
        let mut stmts = Vec::new();
        self.store_nest(&tile, nest.value, &[], &mut stmts);
        for (&i, var) in self.plan.reductions.iter().zip(vars).rev() {
            self.starts.pop();
            let l = nest.levels[i].l;
            let kind = if l.kind == LoopKind::Vector { LoopKind::Serial } else { l.kind };
            let body = self.kernel.stmts.body(&stmts);
            stmts = vec![self.kernel.stmts.push(Stmt::For(For { var, body, kind, ..l }))];
        }
        out.extend(stmts);
    }

    /// Loops over (part of) the given levels around a store to the accumulated elements. A size of -1 stands for all of a
    /// loop whose extent is not constant.
    fn store_nest(&mut self, loops: &[(usize, i64)], value: ExprId, guards: &[ExprId], out: &mut Vec<StmtId>) {
        let nest = self.nest;
        let mut substitution = Substitution::default();
        for &(var, start) in &self.starts {
            substitution.set(var, start);
        }
        let mut made = Vec::new();
        for &(i, size) in loops {
            let l = nest.levels[i].l;
            let (var, e) = self.fresh(l.var);
            let start = self.starts.iter().find(|s| s.0 == l.var).map(|s| s.1);
            let value = match start {
                Some(start) => self.kernel.arena.add(start, e),
                None => e,
            };
            substitution.set(l.var, value);
            made.push((i, var, size));
        }
        let arena = &mut self.kernel.arena;
        let index = substitution.expr(arena, nest.index);
        let value = substitution.expr(arena, value);
        let mut s = self.kernel.store(nest.buffer, index, value);
        for &g in guards.iter().rev() {
            let condition = substitution.expr(&mut self.kernel.arena, g);
            let then = self.kernel.stmts.body(&[s]);
            s = self.kernel.stmts.push(Stmt::If { condition, then, otherwise: Body::EMPTY });
        }
        let in_tile = |i: usize| self.plan.tile.iter().any(|t| t.level == i);
        for (n, &(i, var, size)) in made.iter().enumerate().rev() {
            let l = nest.levels[i].l;
            let extent = if size < 0 { l.extent } else { self.kernel.arena.index(size) };
            let kind = if n + 1 == made.len() && nest.levels[i].stride == 1 && (self.plan.is_vector || !in_tile(i)) {
                LoopKind::Vector
            } else if in_tile(i) {
                LoopKind::Unroll
            } else {
                LoopKind::Serial
            };
            let body = self.kernel.stmts.body(&[s]);
            s = self.kernel.stmts.push(Stmt::For(For {
                var,
                extent,
                kind,
                iterations: Iterations::Independent,
                hints: Hints { unroll: 0, ..l.hints },
                body,
            }));
        }
        out.push(s);
    }
}
