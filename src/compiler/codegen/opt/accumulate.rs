//! Arranges nests that accumulate so that a tile of results can stay in registers over the reduction.
//!
//! ```text
//! for i in 8: for k in 64: for i1 in 4: for j in 8 vector:
//!   if k == 0: C[i * 32 + i1 * 8 + j] = 0
//!   C[i * 32 + i1 * 8 + j] = C[i * 32 + i1 * 8 + j] + A[(i * 4 + i1) * 64 + k] * B[k * 8 + j]
//! // becomes
//! for i in 8:
//!   for i1 in 4 unroll: for j in 8 vector: C[…] = 0
//!   for k in 64: for i1 in 4 unroll: for j in 8 vector: C[…] = C[…] + A[…] * B[…]
//! ```
//!
//! The loops around the tile keep their order. Spatial loops that the schedule put inside the reduction become the tile;
//! of what does not fit the registers a part does, and the reduction runs once for each part. Reduction loops move inward
//! where the ones inside are too short to pay for loading and storing the tile, or where nothing is lost by it. An
//! initialisation, guarded by the first iteration or in a nest of its own before this one, goes right before the reduction
//! if all of it is inside, else before the outermost reduction loop.
//!
//! Later passes turn the tile into vectors, write it out and put it into registers.

use super::machine::Machine;
use super::nest::{Fill, Init, Nest, Role};
use super::walk::replace_loops;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{Substitution, for_each_expr};
use crate::loopir::{Affine, Body, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Stmt, StmtId, VarId};
use crate::machine::register_tile::{self, Accumulation, NestLevel, TilePlan};

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
    let plan = plan(kernel, &nest, machine);
    // All reduction loops are right around the tile.
    let reduces_inside = plan.reductions.len() == nest.n_reductions();
    if nest.init.is_none()
        && reduces_inside
        && let Some(&before) = out.last()
        && let Some(fill) = Fill::of(kernel, before)
        && fill.covers(kernel, &nest)
    {
        out.pop();
        nest.init = Some(Init { value: fill.value, guards: Vec::new() });
    }
    let mut builder = Builder {
        fused: reduces_inside,
        kernel,
        nest: &nest,
        plan: &plan,
        starts: Vec::new(),
        sizes: plan.tile.iter().map(|t| t.size).collect(),
    };
    builder.outer(0, out);
}

/// The arrangement of the nest.
fn plan(kernel: &Kernel, nest: &Nest, machine: &Machine) -> TilePlan {
    let levels: Vec<NestLevel> = nest.levels.iter().map(|l| NestLevel { extent: l.extent, stride: l.stride }).collect();
    let accesses = accesses(kernel, nest);
    let operands: Vec<register_tile::Operand<'_>> =
        accesses.iter().map(|o| register_tile::Operand { strides: &o.strides, bytes: o.bytes }).collect();
    let dtype = kernel.arena.dtype(nest.value);
    let accumulation = Accumulation {
        levels: &levels,
        operands: &operands,
        lanes: machine.vectors.lanes(dtype),
        reassociates: machine.reassociates || !dtype.is_float(),
        fuses: machine.contracts && adds_product(kernel, nest),
    };
    TilePlan::new(&accumulation, &machine.vectors)
}

/// Whether a step adds a product of two elements, which becomes one multiply-add.
fn adds_product(kernel: &Kernel, nest: &Nest) -> bool {
    let arena = &kernel.arena;
    let is_element = |e: ExprId| {
        let from = if let Expr::Cast(from) = arena.expr(e) { from } else { e };
        matches!(arena.expr(from), Expr::Load(..))
    };
    let is_product =
        |e: ExprId| matches!(arena.expr(e), Expr::Binary(BinOp::Mul, a, b) if is_element(a) && is_element(b));
    let is_float = matches!(arena.dtype(nest.value), DType::Float32 | DType::Float64);
    let is_sum = matches!(arena.expr(nest.value), Expr::Binary(BinOp::Add, a, b)
        if is_element(a) && is_product(b) || is_product(a) && is_element(b));
    is_float && is_sum
}

/// The tile of a nest that accumulates, for comparison with what the search foresees.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RegisterTile {
    /// Whether the loop of results becomes lanes.
    pub is_vector: bool,
    /// Rows of the tile.
    pub rows: i64,
    /// Vectors of a row.
    pub vectors: i64,
    /// Iterations of the reduction around the tile.
    pub trips: i64,
    /// Updates of single elements by the nest in all.
    pub updates: f64,
}

/// The tiles of the nests of a kernel, in text order.
#[cfg(any(test, feature = "testing"))]
pub(super) fn register_tiles(kernel: &mut Kernel, machine: &Machine) -> Vec<RegisterTile> {
    fn visit(kernel: &mut Kernel, old: Body, around: f64, machine: &Machine, tiles: &mut Vec<RegisterTile>) -> Body {
        replace_loops(kernel, old, &mut |kernel, s, l, out| {
            let extent = kernel.arena.as_int(l.extent).unwrap_or(1);
            match Nest::of(kernel, l).filter(|n| n.n_reductions() > 0) {
                Some(nest) => {
                    let plan = plan(kernel, &nest, machine);
                    let iterations = |i: usize| nest.levels[i].extent.unwrap_or(1);
                    tiles.push(RegisterTile {
                        is_vector: plan.vector.is_some(),
                        rows: plan.n_rows,
                        vectors: plan.n_vectors,
                        trips: plan.reductions.iter().map(|&i| iterations(i)).product(),
                        updates: around * (0..nest.levels.len()).map(|i| iterations(i) as f64).product::<f64>(),
                    });
                }
                None => {
                    visit(kernel, l.body, around * extent as f64, machine, tiles);
                }
            }
            out.push(s);
        })
    }
    let mut tiles = Vec::new();
    visit(kernel, kernel.body, 1.0, machine, &mut tiles);
    tiles
}

/// The operands read, without the accumulated element: strides along the levels, and bytes of an element.
struct Operand {
    strides: Vec<i64>,
    bytes: i64,
}

fn accesses(kernel: &Kernel, nest: &Nest) -> Vec<Operand> {
    let arena = &kernel.arena;
    let mut operands = Vec::new();
    for_each_expr(arena, nest.value, &mut |e| {
        let Expr::Load(buffer, index) = arena.expr(e) else { return };
        if buffer == nest.buffer {
            return;
        }
        let affine = Affine::of(arena, index);
        // Bytes that are taken together count as one element.
        let lanes = i64::from(arena.lanes(e));
        let stride = |var| match affine.stride(arena, var) {
            Some(s) if s % lanes == 0 => s / lanes,
            _ => register_tile::IRREGULAR,
        };
        let strides = nest.levels.iter().map(|l| stride(l.l.var)).collect();
        operands.push(Operand { strides, bytes: arena.ty(e).bytes() as i64 });
    });
    operands
}

/// Builds the nest that a plan describes.
struct Builder<'a> {
    kernel: &'a mut Kernel,
    nest: &'a Nest,
    plan: &'a TilePlan,
    /// Whether the initialisation is placed directly before the reduction.
    fused: bool,
    /// The value of each variable of the loops around; for a loop of the tile, the start of its part.
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

    /// Whether the tile is a row of elements to which elements are added for long. Its vectors are written out, however many they are,
    /// since only then do the sums stay in registers. Other terms may need the registers themselves.
    fn stays_in_registers(&self) -> bool {
        let arena = &self.kernel.arena;
        let is_element = |e: ExprId| {
            let from = if let Expr::Cast(from) = arena.expr(e) { from } else { e };
            matches!(arena.expr(from), Expr::Load(..))
        };
        let adds_element =
            matches!(arena.expr(self.nest.value), Expr::Binary(_, a, b) if is_element(a) && is_element(b));
        let trips = self.plan.reductions.iter().map(|&i| self.nest.levels[i].extent.unwrap_or(i64::MAX));
        let is_long = trips.fold(1, i64::saturating_mul) >= register_tile::LONG_REDUCTION;
        self.fused && self.plan.n_rows == 1 && adds_element && is_long
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
            let kind =
                if n + 1 == made.len() && nest.levels[i].stride == 1 && (self.plan.vector.is_some() || !in_tile(i)) {
                    LoopKind::Vector
                } else if in_tile(i) {
                    LoopKind::Unroll
                } else {
                    LoopKind::Serial
                };
            let body = self.kernel.stmts.body(&[s]);
            let is_row = kind == LoopKind::Vector && in_tile(i) && self.stays_in_registers();
            let unroll = if is_row { self.plan.n_vectors as u32 } else { 0 };
            s = self.kernel.stmts.push(Stmt::For(For {
                var,
                extent,
                kind,
                iterations: Iterations::Independent,
                hints: Hints { unroll, ..l.hints },
                body,
            }));
        }
        out.push(s);
    }
}
