//! Dot products of bytes of the same signedness: one factor is shifted by 128, and the resulting excess is subtracted
//! from the initial value.
//!
//! ```text
//! for i in 64: for j in 16: for k in 32: C[i, j] += A[i, k] * B[j, k]
//! // becomes, for signed A and B
//! for i in 64: for k in 32: D[i] += 128 * A[i, k]
//! for i in 64: for j in 16: for k in 32: C[i, j] += A[i, k] * (B[j, k] + 128)       with D[i] subtracted from the init
//! ```
//!
//! All of this wraps around like the sum itself, so the result is exact. There are three ways to shift a factor:
//!
//! * where it is *stored*, if it is scratch that only such products read: a packed panel, at no cost;
//! * in *registers*, at every use, which pays if vectors of it serve several rows of results;
//! * in a *copy* before the nest, if that is small compared to the nest.
//!
//! The factor and the way are those with the fewest operations, together with the sums of the other factor. The copy and
//! these sums are hoisted out of the loops around the nest that do not change what they read. The sums are hoisted also out of
//! loops that they move with, into a buffer for all iterations, if that takes them out of a loop that would repeat them.

use super::super::nest::{Fill, Init, Nest, Role};
use super::{Bytes, TERMS, factors, steps, whole_dots};
use crate::ir::expr::FxBuild;
use crate::ir::{CmpOp, DType, Intrinsic};
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand};
use crate::loopir::{
    Affine, Body, BufferId, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, Storage,
    Ty, VarId,
};
use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;

/// Maximum size in bytes of a shifted copy.
const MAX_COPY: i64 = 4 << 20;

/// Minimum ratio of the nest's dot products to the operations for the shift and the correction.
const PAYS: f64 = 3.0;

/// Maximum number of sums that are kept for the iterations of loops around a nest.
const MOST_SUMS: i64 = 1 << 16;

/// Operations to copy four bytes.
const COPY: f64 = 2.0;

/// Shifts in registers for each dot product: of a factor that moves along vectors, which a tile of rows shares, and of another.
const IN_REGISTERS: [f64; 2] = [1.0 / 12.0, 1.0 / 3.0];

/// 128 in each byte: the sign bit of signed bytes.
const HALF: i64 = 0x8080_8080;

/// The way to shift a factor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Stored,
    Registers,
    Copied,
}

/// The transformation of a kernel.
pub(super) struct SameSign {
    /// The loops around the current statement.
    pub around: Vec<For>,
    /// Scratch that holds shifted bytes.
    stored: HashSet<BufferId, FxBuild>,
    /// Statements to emit before a loop, with the number of loops around it.
    hoisted: Vec<(usize, StmtId)>,
}

impl SameSign {
    /// Decides for the whole kernel which scratch is to hold shifted bytes.
    pub(super) fn new(kernel: &Kernel) -> SameSign {
        let mut products = Vec::new();
        collect(kernel, kernel.body, &mut products);
        let stored = if products.is_empty() { HashSet::default() } else { shifted_when_stored(kernel, &products) };
        SameSign { around: Vec::new(), stored, hoisted: Vec::new() }
    }

    /// Removes and returns the statements to emit before the loop that is left.
    pub(super) fn hoisted_here(&mut self) -> Vec<StmtId> {
        let depth = self.around.len();
        let here = self.hoisted.iter().filter(|h| h.0 == depth).map(|h| h.1).collect();
        self.hoisted.retain(|h| h.0 != depth);
        here
    }

    /// Emits the replacement of a nest over products of bytes of the same signedness.
    pub(super) fn replace(&mut self, kernel: &mut Kernel, outer: For, out: &mut Vec<StmtId>) -> Option<()> {
        let products = Products::of(kernel, outer)?;
        let (shifted, way) = self.choice(kernel, &products)?;
        let mut guarded = products.nest.init.clone();
        let init = match &guarded {
            // Conditions that the nest does not decide: the sums are initialised before.
            Some(init) if !init.guards.is_empty() => None,
            Some(_) => guarded.take(),
            None => Fill::of_last(kernel, out, &products.nest).map(|value| Init { value, guards: Vec::new() }),
        };
        let kept = 1 - shifted;
        let mut rewriter = Rewriter { kernel, around: &self.around, products: &products };
        if let Some(init) = guarded {
            rewriter.init(init, out);
        }
        let mut factor = products.factors[shifted];
        let mut hoisted = Vec::new();
        if way == Way::Copied {
            let (depth, copy, loops) = rewriter.copy(shifted);
            hoisted.push((depth, loops));
            factor = copy;
        }
        let (depth, correction, loops) = rewriter.correction(kept);
        hoisted.push((depth, loops));
        out.extend(hoisted.iter().filter(|h| h.0 == self.around.len()).map(|h| h.1));
        let half = rewriter.half();
        let pair = [shifted, kept].map(|i| {
            let word = if i == shifted { factor } else { products.factors[i] };
            (word, (i == shifted && way == Way::Registers).then_some(half))
        });
        // The unsigned factor comes first.
        let [shifted, kept] = pair;
        let operands = if products.is_signed() { [shifted, kept] } else { [kept, shifted] };
        rewriter.sums(init, operands, correction, out);
        self.hoisted.extend(hoisted.into_iter().filter(|h| h.0 < self.around.len()));
        Some(())
    }

    /// The factor to shift, and the way, if that pays.
    fn choice(&self, kernel: &Kernel, products: &Products) -> Option<(usize, Way)> {
        let is_stored = |i: usize| self.stored.contains(&products.factors[i].buffer);
        if let Some(i) = (0..2).find(|&i| is_stored(i)) {
            return Some((i, Way::Stored));
        }
        let mut best: Option<(f64, usize, Way)> = None;
        for i in 0..2 {
            let (_, repeated) = hoisting(kernel, &self.around, products, i);
            let kept_repeated = hoisting_of_sums(kernel, &self.around, products, 1 - i).repeated;
            let copied = products.copied(i);
            let cost = |way| match way {
                Way::Stored => f64::INFINITY,
                Way::Registers => products.all() * IN_REGISTERS[usize::from(!products.moves_along_vectors(i))],
                Way::Copied if copied * (TERMS as f64) > MAX_COPY as f64 => f64::INFINITY,
                Way::Copied => copied * COPY / repeated,
            };
            for way in [Way::Copied, Way::Registers] {
                let cost = cost(way) + products.corrected(1 - i) / kept_repeated;
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, i, way));
                }
            }
        }
        best.filter(|&(cost, ..)| cost * PAYS <= products.all()).map(|(_, i, way)| (i, way))
    }

    /// Shifts what is stored to the scratch that holds shifted bytes; returns the finished body.
    pub(super) fn finish(&self, kernel: &mut Kernel, body: Body) -> Body {
        if self.stored.is_empty() {
            return body;
        }
        kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
            let Stmt::Store { buffer, index, value } = stmt else { return out.push(id) };
            if !self.stored.contains(&buffer) {
                return out.push(id);
            }
            let value = shifted_value(kernel, value);
            out.push(kernel.stmts.push(Stmt::Store { buffer, index, value }));
        })
    }
}

/// A byte, or four of them, plus 128.
fn shifted_value(kernel: &mut Kernel, value: ExprId) -> ExprId {
    let arena = &mut kernel.arena;
    let ty = arena.ty(value);
    if ty.lanes == 1 {
        let (wide, half) = (arena.cast(DType::Int32, value), arena.int(128, DType::Int32));
        let shifted = arena.call(Intrinsic::BitXor, &[wide, half]);
        return arena.cast(ty.dtype, shifted);
    }
    let (word, half) = (arena.reinterpret(DType::Int32, value), arena.int(HALF, DType::Int32));
    let shifted = arena.call(Intrinsic::BitXor, &[word, half]);
    arena.reinterpret(ty.dtype, shifted)
}

impl Fill {
    /// The value that the last of the statements fills the nest's elements with; removes the statement.
    fn of_last(kernel: &Kernel, out: &mut Vec<StmtId>, nest: &Nest) -> Option<ExprId> {
        let fill = Fill::of(kernel, *out.last()?).filter(|fill| fill.covers(kernel, nest))?;
        out.pop();
        Some(fill.value)
    }
}

/// A nest over products of bytes of the same signedness.
struct Products {
    nest: Nest,
    /// Number of dot products of the innermost loop.
    n: i64,
    factors: [Bytes; 2],
    /// The strides of each factor along the levels.
    steps: [Vec<i64>; 2],
    /// The level that becomes lanes.
    vector: Option<usize>,
}

impl Products {
    fn of(kernel: &Kernel, outer: For) -> Option<Products> {
        let nest = Nest::of(kernel, outer)?;
        let last = *nest.levels.last()?;
        let n = whole_dots(&kernel.arena, &last.l)?;
        let factors = factors(kernel, last.l.var, nest.buffer, nest.index, nest.value)?;
        if factors[0].dtype != factors[1].dtype || nest.levels.iter().any(|l| l.extent.is_none_or(|n| n <= 0)) {
            return None;
        }
        let vars: Vec<VarId> = nest.levels.iter().map(|l| l.l.var).collect();
        let steps = [steps(&kernel.arena, factors[0].index, &vars)?, steps(&kernel.arena, factors[1].index, &vars)?];
        let vector = nest.levels.iter().rposition(|l| l.role == Role::Space && l.stride == 1);
        Some(Products { nest, n, factors, steps, vector })
    }

    fn is_signed(&self) -> bool {
        self.factors[0].dtype == DType::Int8
    }

    /// The variable and the extent of a level.
    fn dim(&self, level: usize) -> (VarId, i64) {
        let level = &self.nest.levels[level];
        (level.l.var, level.extent.unwrap_or(1))
    }

    /// Number of iterations of a level; the innermost one counts dot products.
    fn extent(&self, level: usize) -> i64 {
        if level + 1 == self.nest.levels.len() { self.n } else { self.nest.levels[level].extent.unwrap_or(1) }
    }

    /// The distance of a factor's elements in successive iterations.
    fn step(&self, factor: usize, level: usize) -> i64 {
        self.steps[factor][level] * if level + 1 == self.nest.levels.len() { TERMS } else { 1 }
    }

    fn size(&self, is_counted: impl Fn(usize) -> bool) -> f64 {
        (0..self.nest.levels.len()).filter(|&i| is_counted(i)).map(|i| self.extent(i) as f64).product()
    }

    /// Number of dot products.
    fn all(&self) -> f64 {
        self.size(|_| true)
    }

    /// Number of words of a factor's copy.
    fn copied(&self, factor: usize) -> f64 {
        self.size(|i| self.steps[factor][i] != 0)
    }

    /// Number of dot products to correct for a factor that is not shifted.
    fn corrected(&self, factor: usize) -> f64 {
        self.size(|i| self.is_corrected(factor, i))
    }

    fn is_corrected(&self, factor: usize, level: usize) -> bool {
        self.nest.levels[level].role == Role::Reduction || self.steps[factor][level] != 0
    }

    fn moves_along_vectors(&self, factor: usize) -> bool {
        self.vector.is_some_and(|v| self.steps[factor][v] != 0)
    }
}

// ---- shifting where bytes are stored -------------------------------------------------------------------------------

/// The nests that the pass will consider, in order.
fn collect(kernel: &Kernel, body: Body, out: &mut Vec<Products>) {
    for &s in kernel.stmts.list(body) {
        match kernel.stmts.get(s) {
            Stmt::For(l) => match Products::of(kernel, l) {
                Some(products) => out.push(products),
                None => collect(kernel, l.body, out),
            },
            Stmt::If { then, otherwise, .. } => {
                collect(kernel, then, out);
                collect(kernel, otherwise, out);
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        }
    }
}

/// The scratch that is read as a factor of such products only, at most one of each nest, in as many nests as possible.
fn shifted_when_stored(kernel: &Kernel, products: &[Products]) -> HashSet<BufferId, FxBuild> {
    let mut reads: HashMap<BufferId, usize, FxBuild> = HashMap::default();
    let mut others: HashSet<BufferId, FxBuild> = HashSet::default();
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        if let Stmt::Store { buffer, value, .. } = stmt
            && !matches!(kernel.arena.lanes(value), 1 | 4)
        {
            others.insert(buffer);
        }
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(buffer, _) = kernel.arena.expr(e) {
                    *reads.entry(buffer).or_default() += 1;
                }
            });
        });
    });
    let mut settled = vec![false; products.len()];
    let mut stored = HashSet::default();
    for (at, product) in products.iter().enumerate() {
        // The columns of a tile are packed more often, and the sums of the other factor are fewer.
        let mut order = [0, 1];
        order.sort_by_key(|&i| !product.moves_along_vectors(i));
        for i in order {
            let buffer = product.factors[i].buffer;
            let factor = |p: &Products| (0..2).filter(|&i| p.factors[i].buffer == buffer).collect::<Vec<_>>();
            let users: Vec<usize> = (0..products.len()).filter(|&p| !factor(&products[p]).is_empty()).collect();
            let is_scratch = matches!(kernel.buffer(buffer).storage, Storage::Scratch(_));
            let fits = |&p: &usize| {
                let products = &products[p];
                let once = factor(products).len() == 1;
                let pays = factor(products).iter().all(|i| products.corrected(1 - i) * PAYS <= products.all());
                !settled[p] && once && pays
            };
            if settled[at]
                || !is_scratch
                || others.contains(&buffer)
                || reads.get(&buffer) != Some(&users.len())
                || !users.iter().all(fits)
            {
                continue;
            }
            stored.insert(buffer);
            for p in users {
                settled[p] = true;
            }
        }
    }
    stored
}

// ---- hoisting ------------------------------------------------------------------------------------------------------

/// The number of loops around the nest from the outermost one to the last with which a factor moves; `None` if its elements
/// may be read only where the nest is.
fn moves_with(kernel: &Kernel, around: &[For], products: &Products, factor: usize) -> Option<usize> {
    let Bytes { buffer, index, .. } = products.factors[factor];
    let mut depth = 0;
    let (mut least, mut most) = (0i64, TERMS - 1);
    let mut reach = |step: i64, n: i64| {
        let last = step.saturating_mul(n - 1);
        least = least.saturating_add(last.min(0));
        most = most.saturating_add(last.max(0));
    };
    for level in 0..products.nest.levels.len() {
        reach(products.step(factor, level), products.extent(level));
    }
    let start = Affine::of(&kernel.arena, index);
    for &(atom, step) in &start.terms {
        let var = kernel.arena.as_var(atom)?;
        if products.nest.levels.iter().any(|l| l.l.var == var) {
            continue;
        }
        let i = around.iter().position(|l| l.var == var)?;
        let n = kernel.arena.as_int(around[i].extent).filter(|&n| n > 0)?;
        depth = depth.max(i + 1);
        reach(step, n);
    }
    // Loops that do not run at all, and conditions, no longer protect the reads.
    let (least, most) = (start.constant.saturating_add(least), start.constant.saturating_add(most));
    (least >= 0 && most < kernel.buffer(buffer).len).then_some(depth)
}

/// The number of loops that must stay around work on a factor alone, and how often the others repeat it; `None` if all must
/// stay, whatever they do.
fn hoisted(kernel: &Kernel, around: &[For], products: &Products, factor: usize) -> Option<(usize, f64)> {
    let depth = moves_with(kernel, around, products, factor)?;
    let mut repeated = 1.0;
    for i in (depth..around.len()).rev() {
        if writes(kernel, around[i].body, products.factors[factor].buffer) {
            return Some((i + 1, repeated));
        }
        repeated *= kernel.arena.as_int(around[i].extent).map_or(1.0, |n| n.max(1) as f64);
    }
    Some((depth, repeated))
}

/// As [`hoisted`], with all loops if they must stay.
fn hoisting(kernel: &Kernel, around: &[For], products: &Products, factor: usize) -> (usize, f64) {
    hoisted(kernel, around, products, factor).unwrap_or((around.len(), 1.0))
}

/// Whether statements store to a buffer.
fn writes(kernel: &Kernel, body: Body, buffer: BufferId) -> bool {
    let mut written = false;
    kernel.for_each_stmt(body, &mut |_, stmt| {
        written |= matches!(stmt, Stmt::Store { buffer: to, .. } if to == buffer);
    });
    written
}

/// Where the sums of a factor belong.
struct Hoisted {
    /// The number of loops that stay around them.
    depth: usize,
    /// The other loops around the nest with which they move: there is a sum for each iteration.
    over: Vec<usize>,
    /// How often the loops that they leave would repeat them.
    repeated: f64,
}

/// Where the sums of a factor belong: also outside loops with which they move, if these are in a loop that repeats them.
fn hoisting_of_sums(kernel: &Kernel, around: &[For], products: &Products, factor: usize) -> Hoisted {
    let Some((depth, repeated)) = hoisted(kernel, around, products, factor) else {
        return Hoisted { depth: around.len(), over: Vec::new(), repeated: 1.0 };
    };
    let mut best = Hoisted { depth, over: Vec::new(), repeated };
    let Bytes { buffer, index, .. } = products.factors[factor];
    let start = Affine::of(&kernel.arena, index);
    let (mut over, mut repeated) = (Vec::new(), repeated);
    let mut len: i64 = (0..products.nest.levels.len())
        .filter(|&i| products.is_corrected(factor, i) && products.nest.levels[i].role != Role::Reduction)
        .map(|i| products.extent(i))
        .product();
    // Threads compute their own sums.
    for (i, l) in around.iter().enumerate().take(depth).rev().take_while(|(_, l)| l.kind != LoopKind::Parallel) {
        let extent = kernel.arena.as_int(l.extent).filter(|&n| n > 0 && !writes(kernel, l.body, buffer));
        let Some(extent) = extent else { break };
        if start.terms.iter().any(|t| kernel.arena.as_var(t.0) == Some(l.var)) {
            len = len.saturating_mul(extent);
            over.push(i);
            if len > MOST_SUMS {
                break;
            }
        } else {
            repeated *= extent as f64;
            best = Hoisted { depth: i, over: over.clone(), repeated };
        }
    }
    best
}

// ---- rewriting -----------------------------------------------------------------------------------------------------

/// The words of a factor, and what they are combined with in registers.
type Operand = (Bytes, Option<ExprId>);

struct Rewriter<'a> {
    kernel: &'a mut Kernel,
    around: &'a [For],
    products: &'a Products,
}

impl Rewriter<'_> {
    /// Copies of loops of the nest with fresh variables, and the substitution for these. The innermost one counts dot
    /// products.
    fn loops(&mut self, levels: &[usize]) -> (Vec<For>, Substitution) {
        let mut at = Substitution::default();
        let mut loops = Vec::new();
        for &i in levels {
            let l = self.products.nest.levels[i].l;
            let (var, mut e) = self.kernel.arena.new_index(self.kernel.arena.var(l.var).name);
            let mut extent = l.extent;
            let n = self.products.n;
            if i + 1 == self.products.nest.levels.len() {
                extent = self.kernel.arena.index(n);
                e = if n == 1 { self.kernel.arena.index(0) } else { self.kernel.arena.mul_const(e, TERMS) };
            }
            at.set(l.var, e);
            if i + 1 < self.products.nest.levels.len() || n > 1 {
                loops.push(For { var, extent, ..l });
            }
        }
        (loops, at)
    }

    fn nested(&mut self, loops: &[For], stmts: Vec<StmtId>) -> Vec<StmtId> {
        let wrap = |stmts: Vec<StmtId>, l: &For| {
            let body = self.kernel.stmts.body(&stmts);
            vec![self.kernel.stmts.push(Stmt::For(For { body, ..*l }))]
        };
        loops.iter().rev().fold(stmts, wrap)
    }

    /// One statement: a nest, or what stands for one without loops.
    fn single(&mut self, loops: &[For], stmts: Vec<StmtId>) -> StmtId {
        match self.nested(loops, stmts)[..] {
            [one] => one,
            ref several => {
                // Several statements without a loop stand in a loop of one iteration.
                let body = self.kernel.stmts.body(several);
                let (var, _) = self.kernel.arena.new_index("once");
                let extent = self.kernel.arena.index(1);
                self.kernel.stmts.push(Stmt::For(For::serial(var, extent, body)))
            }
        }
    }

    fn half(&mut self) -> ExprId {
        self.kernel.arena.int(HALF, DType::Int32)
    }

    /// The placement of scratch that is used inside the outermost `depth` loops.
    fn placement(&self, depth: usize) -> Placement {
        let is_parallel = self.around[..depth].iter().any(|l| l.kind == LoopKind::Parallel);
        if is_parallel { Placement::PerWorker } else { Placement::Shared }
    }

    /// The index into a new buffer over variables with their extents, the last of which is contiguous, and the buffer's
    /// length.
    fn index(&mut self, dims: &[(VarId, i64)]) -> (ExprId, i64) {
        let mut sum = Affine::default();
        let mut stride = 1;
        for &(var, extent) in dims.iter().rev() {
            let e = self.kernel.arena.var_expr(var);
            sum.add_term(e, stride);
            stride *= extent;
        }
        (sum.to_expr(&mut self.kernel.arena), stride)
    }

    /// A copy of the factor, shifted by 128, in a new buffer in the same order; where it belongs, its bytes and its loops.
    fn copy(&mut self, factor: usize) -> (usize, Bytes, StmtId) {
        let (depth, _) = hoisting(self.kernel, self.around, self.products, factor);
        let (from, of) = (self.products.factors[factor], &self.products.steps[factor]);
        let mut levels: Vec<usize> = (0..of.len()).filter(|&i| of[i] != 0).collect();
        levels.sort_by_key(|&i| (i + 1 == of.len(), Reverse(of[i].unsigned_abs())));
        let dtype = if from.dtype == DType::Int8 { DType::UInt8 } else { DType::Int8 };
        let dims: Vec<(VarId, i64)> = levels.iter().map(|&i| self.products.dim(i)).collect();
        let (index, len) = self.index(&dims);
        let name = format!("{}_shifted", self.kernel.buffer(from.buffer).name);
        let placement = self.placement(depth);
        let buffer = self.kernel.add_scratch(name.as_str(), dtype, len, placement);
        let (mut loops, mut at) = self.loops(&levels);
        loops.iter_mut().for_each(|l| *l = For { kind: LoopKind::Serial, iterations: Iterations::Independent, ..*l });
        let word = from.word(self.kernel, &mut at);
        let half = self.half();
        let shifted = self.kernel.arena.call(Intrinsic::BitXor, &[word, half]);
        let bytes = self.kernel.arena.reinterpret(dtype, shifted);
        let to = at.expr(&mut self.kernel.arena, index);
        let store = self.kernel.store(buffer, to, bytes);
        (depth, Bytes { buffer, index, dtype }, self.single(&loops, vec![store]))
    }

    /// The excess of each sum in a new buffer: 128 times the sum of the factor that is not shifted. Returns where it
    /// belongs, the buffer with the index, and the loops.
    fn correction(&mut self, factor: usize) -> (usize, (BufferId, ExprId), StmtId) {
        let products = self.products;
        let Hoisted { depth, over, .. } = hoisting_of_sums(self.kernel, self.around, products, factor);
        let levels: Vec<usize> =
            (0..products.nest.levels.len()).filter(|&i| products.is_corrected(factor, i)).collect();
        let is_sum = |i: usize| products.nest.levels[i].role == Role::Reduction;
        let kept = products.factors[factor];
        let mut from = Affine::of(&self.kernel.arena, kept.index);
        // Loops around the nest: their variables, the distances of words, their numbers.
        let outer: Vec<(VarId, i64, i64)> = over
            .iter()
            .rev()
            .map(|&i| {
                let l = self.around[i];
                let step = from.terms.iter().find(|t| self.kernel.arena.as_var(t.0) == Some(l.var)).map_or(0, |t| t.1);
                (l.var, step, self.kernel.arena.as_int(l.extent).unwrap_or(1))
            })
            .collect();
        let of_sums = levels.iter().filter(|&&i| !is_sum(i)).map(|&i| products.dim(i));
        let dims: Vec<(VarId, i64)> = outer.iter().map(|&(var, _, n)| (var, n)).chain(of_sums).collect();
        let (index, len) = self.index(&dims);
        let placement = self.placement(depth);
        let buffer = self.kernel.add_scratch("correction", DType::Int32, len, placement);
        // Loops in the order of memory, adjacent ones of the reduction merged: a variable, the distance of words, their number.
        let mut walks: Vec<(Option<VarId>, i64, i64)> =
            outer.iter().map(|&(var, step, n)| (Some(var), step, n)).collect();
        let mut sorted = levels;
        sorted.sort_by_key(|&i| (Reverse(products.step(factor, i).unsigned_abs()), i));
        for i in sorted {
            let (step, n) = (products.step(factor, i), products.extent(i));
            match walks.last_mut() {
                Some((None, last, count)) if is_sum(i) && *last == step.saturating_mul(n) => {
                    *last = step;
                    *count *= n;
                }
                _ => walks.push(((!is_sum(i)).then_some(products.nest.levels[i].l.var), step, n)),
            }
        }
        walks.retain(|w| w.0.is_some() || w.2 > 1);
        let is_walked = |v: Option<VarId>| {
            products.nest.levels.iter().any(|l| Some(l.l.var) == v) || outer.iter().any(|o| Some(o.0) == v)
        };
        from.terms.retain(|t| !is_walked(self.kernel.arena.as_var(t.0)));
        let (mut loops, mut at, mut sums) = (Vec::new(), Substitution::default(), Vec::new());
        for (of, step, n) in walks {
            let name = of.map_or("c".into(), |var| self.kernel.arena.var(var).name);
            let (var, e) = self.kernel.arena.new_index(name);
            from.add_term(e, step);
            match of {
                Some(of) => at.set(of, e),
                None => sums.push(e),
            }
            let iterations = if of.is_some() { Iterations::Independent } else { Iterations::Reduction };
            let (kind, extent) = (LoopKind::Serial, self.kernel.arena.index(n));
            loops.push(For { var, extent, kind, iterations, hints: Hints::default(), body: Body::EMPTY });
        }
        let zero = self.kernel.arena.int(0, DType::Int32);
        let from = from.to_expr(&mut self.kernel.arena);
        let word = Bytes { index: from, ..kept }.word(self.kernel, &mut Substitution::default());
        let to = at.expr(&mut self.kernel.arena, index);
        let half = self.half();
        let is_signed = products.is_signed();
        let dot = |k: &mut Kernel, old| {
            if is_signed { k.arena.dot4(old, half, word) } else { k.arena.dot4(old, word, half) }
        };
        let stmts = self.update(&sums, (buffer, to), zero, dot);
        (depth, (buffer, index), self.single(&loops, stmts))
    }

    /// Emits the initialisation of the sums under its conditions.
    fn init(&mut self, init: Init, out: &mut Vec<StmtId>) {
        let (loops, mut at) = self.loops(&self.space());
        let nest = &self.products.nest;
        let arena = &mut self.kernel.arena;
        let (to, value) = (at.expr(arena, nest.index), at.expr(arena, init.value));
        let mut condition = arena.bool(true);
        for guard in init.guards {
            let guard = at.expr(arena, guard);
            condition = arena.and(condition, guard);
        }
        let store = self.kernel.store(nest.buffer, to, value);
        let then = self.kernel.stmts.body(&[store]);
        let guarded = self.kernel.stmts.push(Stmt::If { condition, then, otherwise: Body::EMPTY });
        out.extend(self.nested(&loops, vec![guarded]));
    }

    /// The levels over results.
    fn space(&self) -> Vec<usize> {
        let levels = &self.products.nest.levels;
        (0..levels.len()).filter(|&i| levels[i].role == Role::Space).collect()
    }

    /// Emits the nest itself. The first operand is unsigned.
    fn sums(
        &mut self,
        init: Option<Init>,
        operands: [Operand; 2],
        (correction, of): (BufferId, ExprId),
        out: &mut Vec<StmtId>,
    ) {
        let nest = &self.products.nest;
        let all: Vec<usize> = (0..nest.levels.len()).collect();
        let corrected = |k: &mut Kernel, at: &mut Substitution, value: ExprId| {
            let (value, of) = (at.expr(&mut k.arena, value), at.expr(&mut k.arena, of));
            let correction = k.load(correction, of);
            k.arena.sub(value, correction)
        };
        let int32 = Ty::scalar(DType::Int32);
        if init.is_none() {
            // The sums have been initialised already.
            let (loops, mut at) = self.loops(&self.space());
            let to = at.expr(&mut self.kernel.arena, nest.index);
            let old = self.kernel.arena.load(nest.buffer, nest.index, int32);
            let value = corrected(self.kernel, &mut at, old);
            let store = self.kernel.store(nest.buffer, to, value);
            out.extend(self.nested(&loops, vec![store]));
        }
        let (loops, mut at) = self.loops(&all);
        let [a, b] = operands.map(|(bytes, half)| {
            let word = bytes.word(self.kernel, &mut at);
            half.map_or(word, |half| self.kernel.arena.call(Intrinsic::BitXor, &[word, half]))
        });
        let to = at.expr(&mut self.kernel.arena, nest.index);
        let dot = |k: &mut Kernel, old| k.arena.dot4(old, a, b);
        let stmts = match init {
            Some(init) => {
                let first = corrected(self.kernel, &mut at, init.value);
                let arena = &mut self.kernel.arena;
                let reductions = nest.levels.iter().filter(|l| l.role == Role::Reduction);
                let sums: Vec<ExprId> = reductions
                    .map(|l| {
                        let var = arena.var_expr(l.l.var);
                        at.expr(arena, var)
                    })
                    .collect();
                self.update(&sums, (nest.buffer, to), first, dot)
            }
            None => {
                let old = self.kernel.arena.load(nest.buffer, to, int32);
                let value = dot(self.kernel, old);
                vec![self.kernel.store(nest.buffer, to, value)]
            }
        };
        out.extend(self.nested(&loops, stmts));
    }

    /// Statements that set an element to `first` if all variables of the sums are 0, and then update it.
    fn update(
        &mut self,
        sums: &[ExprId],
        (buffer, index): (BufferId, ExprId),
        first: ExprId,
        update: impl FnOnce(&mut Kernel, ExprId) -> ExprId,
    ) -> Vec<StmtId> {
        let zero = self.kernel.arena.index(0);
        let mut condition = self.kernel.arena.bool(true);
        for &var in sums {
            let is_first = self.kernel.arena.compare(CmpOp::Eq, var, zero);
            condition = self.kernel.arena.and(condition, is_first);
        }
        if self.kernel.arena.as_int(condition) == Some(1) {
            let value = update(self.kernel, first);
            return vec![self.kernel.store(buffer, index, value)];
        }
        let store = self.kernel.store(buffer, index, first);
        let then = self.kernel.stmts.body(&[store]);
        let init = self.kernel.stmts.push(Stmt::If { condition, then, otherwise: Body::EMPTY });
        let old = self.kernel.arena.load(buffer, index, Ty::scalar(DType::Int32));
        let value = update(self.kernel, old);
        vec![init, self.kernel.store(buffer, index, value)]
    }
}
