//! Turns sums of byte products into dot products of four, a single instruction on many machines.
//!
//! ```text
//! for q in 4 reduction: C[j] = C[j] + cast(int32, A[k * 4 + q]) * cast(int32, B[j * 4 + q])
//! // becomes, for unsigned A and signed B
//! C[j] = dot4(C[j], reinterpret(int32, A[k * 4; 4]), reinterpret(int32, B[j * 4; 4]))
//! ```
//!
//! The pass transforms innermost reduction loops with a multiple of four iterations, along which both factors are
//! contiguous.
//!
//! The instruction multiplies unsigned by signed bytes. If both factors have the same signedness, one is shifted by 128
//! in a copy before the nest, and the resulting excess is subtracted from the initial value:
//!
//! ```text
//! for i in 64: for j in 16: for k in 32: C[i, j] += A[i, k] * B[j, k]
//! // becomes, for signed A and B
//! for i in 64: for k in 32: A1[i, k] = A[i, k] + 128
//! for j in 16: for k in 32: D[j] += 128 * B[j, k]
//! for i in 64: for j in 16: for k in 32: C[i, j] += A1[i, k] * B[j, k]       with D[j] subtracted from the init
//! ```
//!
//! All of this wraps around like the sum itself, so the result is exact. It is done only if copy and correction are
//! small compared to the nest.
//!
//! This pass runs before reduction nests are arranged, so that those see four bytes as one element.

use super::nest::{Fill, Init, Level, Nest, Role, conjuncts, zero_vars};
use super::walk::replace_loops;
use crate::codegen::facts::loads;
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::rewrite::{Substitution, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, Ty, VarId,
};

/// Forms dot products in all loops of the kernel. Returns whether there were any.
pub(super) fn dot(kernel: &mut Kernel) -> bool {
    let before = kernel.body;
    kernel.body = body(kernel, before, Placement::Shared);
    kernel.body != before
}

/// `placement` is the placement of scratch buffers allocated here.
fn body(kernel: &mut Kernel, old: Body, placement: Placement) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if same_sign(kernel, l, placement, out).is_some() || either_sign(kernel, &l, out).is_some() {
            return;
        }
        let placement = if l.kind == LoopKind::Parallel { Placement::PerWorker } else { placement };
        let inner = body(kernel, l.body, placement);
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// Number of terms of a dot product.
const TERMS: i64 = 4;

/// A factor of the products: contiguous bytes of a buffer.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    buffer: BufferId,
    index: ExprId,
    dtype: DType,
}

impl Bytes {
    /// Four of the bytes as one value.
    fn word(self, kernel: &mut Kernel, at: &mut Substitution) -> ExprId {
        let index = at.expr(&mut kernel.arena, self.index);
        let bytes = kernel.arena.load(self.buffer, index, Ty::vector(self.dtype, TERMS as u16));
        kernel.arena.reinterpret(DType::Int32, bytes)
    }
}

/// The factors of `buffer[index] + cast(A[..]) * cast(B[..])`, if they are bytes that are contiguous along `var`.
fn factors(kernel: &Kernel, var: VarId, buffer: BufferId, index: ExprId, value: ExprId) -> Option<[Bytes; 2]> {
    let arena = &kernel.arena;
    let Expr::Binary(BinOp::Add, x, y) = arena.expr(value) else { return None };
    let is_sum = |e| arena.expr(e) == Expr::Load(buffer, index);
    let product = if is_sum(x) { y } else { Some(x).filter(|_| is_sum(y))? };
    let Expr::Binary(BinOp::Mul, a, b) = arena.expr(product) else { return None };
    if arena.ty(value) != Ty::scalar(DType::Int32) || mentions(arena, index, var) {
        return None;
    }
    // The places of bytes and sum must not depend on the sum, which now changes less often.
    if loads(arena, index, buffer) || loads(arena, product, buffer) {
        return None;
    }
    let factor = |e: ExprId| {
        let Expr::Cast(byte) = arena.expr(e) else { return None };
        let Expr::Load(buffer, index) = arena.expr(byte) else { return None };
        let dtype = arena.dtype(byte);
        let contiguous = steps(arena, index, &[var])? == [1];
        (matches!(dtype, DType::UInt8 | DType::Int8) && contiguous).then_some(Bytes { buffer, index, dtype })
    };
    Some([factor(a)?, factor(b)?])
}

fn mentions(arena: &Arena, e: ExprId, var: VarId) -> bool {
    mentions_var(arena, e, &mut |v| v == var)
}

/// The stride of an index along each variable; `None` if it is not affine in them.
fn steps(arena: &Arena, index: ExprId, vars: &[VarId]) -> Option<Vec<i64>> {
    let affine = Affine::of(arena, index);
    let is_var = |v| vars.contains(&v);
    let fits = affine.terms.iter().all(|t| arena.as_var(t.0).is_some() || !mentions_var(arena, t.0, &mut { is_var }));
    fits.then(|| vars.iter().map(|&v| affine.coefficient_of(arena, v)).collect())
}

/// The number of iterations, if they form whole dot products.
fn whole_dots(arena: &Arena, l: &For) -> Option<i64> {
    let n = arena.as_int(l.extent).filter(|&n| n > 0 && n % TERMS == 0)?;
    matches!(l.kind, LoopKind::Serial | LoopKind::Unroll).then_some(n / TERMS)
}

// ---- factors of different signs ----------------------------------------------------------------------------

/// Emits the replacement of an innermost loop over products of unsigned and signed bytes.
fn either_sign(kernel: &mut Kernel, l: &For, out: &mut Vec<StmtId>) -> Option<()> {
    let n = whole_dots(&kernel.arena, l)?;
    let (init, s) = match *kernel.stmts.list(l.body) {
        [s] => (None, s),
        [init, s] => (Some(init), s),
        _ => return None,
    };
    let Stmt::Store { buffer, index, value } = kernel.stmts.get(s) else { return None };
    let (a, b) = match factors(kernel, l.var, buffer, index, value)? {
        [a, b] if (a.dtype, b.dtype) == (DType::UInt8, DType::Int8) => (a, b),
        [b, a] if (a.dtype, b.dtype) == (DType::UInt8, DType::Int8) => (a, b),
        _ => return None,
    };
    if init.is_some_and(|init| !is_first(kernel, l.var, init, buffer, index)) {
        return None;
    }
    let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
    let start = if n == 1 { kernel.arena.index(0) } else { kernel.arena.mul_const(e, TERMS) };
    let mut at = Substitution::of(l.var, start);
    let mut stmts = Vec::new();
    if let Some(init) = init {
        let init = kernel.stmts.body(&[init]);
        let copy = Substitution::of(l.var, start).copy(kernel, init);
        stmts.extend_from_slice(kernel.stmts.list(copy));
    }
    let old = kernel.arena.load(buffer, index, Ty::scalar(DType::Int32));
    let (a, b) = (a.word(kernel, &mut at), b.word(kernel, &mut at));
    let value = kernel.arena.dot4(old, a, b);
    stmts.push(kernel.store(buffer, index, value));
    if n == 1 {
        out.extend(stmts);
    } else {
        let (body, extent) = (kernel.stmts.body(&stmts), kernel.arena.index(n));
        out.push(kernel.stmts.push(Stmt::For(For { var, extent, body, ..*l })));
    }
    Some(())
}

/// Whether `s` is `if … && var == 0: buffer[index] = …`, which only the first iteration runs.
fn is_first(kernel: &Kernel, var: VarId, s: StmtId, buffer: BufferId, index: ExprId) -> bool {
    let arena = &kernel.arena;
    let Stmt::If { condition, then, otherwise } = kernel.stmts.get(s) else { return false };
    let &[store] = kernel.stmts.list(then) else { return false };
    let Stmt::Store { buffer: to, index: at, value } = kernel.stmts.get(store) else { return false };
    let (mut first, mut other) = (false, mentions(arena, value, var) || !otherwise.is_empty());
    conjuncts(arena, condition, &mut |c| match zero_vars(arena, c) {
        Some(vars) if vars.contains(&var) => first = true,
        _ => other |= mentions(arena, c, var),
    });
    first && !other && (to, at) == (buffer, index)
}

// ---- factors of the same sign ------------------------------------------------------------------------------

/// Maximum size in bytes of a shifted copy.
const MAX_COPY: i64 = 4 << 20;

/// Minimum ratio of the nest's dot products to the operations for the copy and the correction.
const PAYS: i64 = 3;

/// 128 in each byte: the sign bit of signed bytes.
const HALF: i64 = 0x8080_8080;

/// Emits the replacement of a nest over products of bytes of the same signedness.
fn same_sign(kernel: &mut Kernel, outer: For, placement: Placement, out: &mut Vec<StmtId>) -> Option<()> {
    let nest = Nest::of(kernel, outer)?;
    let last = *nest.levels.last()?;
    let n = whole_dots(&kernel.arena, &last.l)?;
    let [a, b] = factors(kernel, last.l.var, nest.buffer, nest.index, nest.value)?;
    if a.dtype != b.dtype || nest.levels.iter().any(|l| l.extent.is_none_or(|n| n <= 0)) {
        return None;
    }
    // The factor that does not move along the vectorised loop is shifted, so that the correction of the other is a
    // vector.
    let vars: Vec<VarId> = nest.levels.iter().map(|l| l.l.var).collect();
    let (of_a, of_b) = (steps(&kernel.arena, a.index, &vars)?, steps(&kernel.arena, b.index, &vars)?);
    let vector = nest.levels.iter().rposition(|l| l.role == Role::Space && l.stride == 1);
    let shifts_b = vector.is_some_and(|v| of_b[v] == 0 && of_a[v] != 0);
    let (shifted, of_shifted, kept, of_kept) = if shifts_b { (b, of_b, a, of_a) } else { (a, of_a, b, of_b) };

    let extent = |l: &Level| l.extent.unwrap_or(1);
    let size = |levels: &mut dyn Iterator<Item = usize>| {
        levels.map(|i| extent(&nest.levels[i])).fold(1i64, i64::saturating_mul)
    };
    let all = 0..nest.levels.len();
    let copied = size(&mut all.clone().filter(|&i| of_shifted[i] != 0));
    let is_corrected = |i: usize| nest.levels[i].role == Role::Reduction || of_kept[i] != 0;
    let corrected = size(&mut all.clone().filter(|&i| is_corrected(i)));
    let is_small =
        copied <= MAX_COPY && (copied.saturating_add(corrected)).saturating_mul(PAYS) <= size(&mut all.clone());
    // An init other than in the first iterations would need another correction.
    if !is_small || nest.init.as_ref().is_some_and(|init| !init.guards.is_empty()) {
        return None;
    }
    let init = nest.init.clone().or_else(|| {
        let fill = Fill::of(kernel, *out.last()?).filter(|fill| fill.covers(kernel, &nest))?;
        out.pop();
        Some(Init { value: fill.value, guards: Vec::new() })
    });

    let mut rewriter = SameSign { kernel, nest: &nest, n, placement };
    let copy = rewriter.copy(shifted, &of_shifted, out);
    let (factor, other) = if copy.dtype == DType::UInt8 { (copy, kept) } else { (kept, copy) };
    let correction = rewriter.correction(kept, &is_corrected, &of_kept, out);
    rewriter.sums(init, factor, other, correction, out);
    Some(())
}

struct SameSign<'a> {
    kernel: &'a mut Kernel,
    nest: &'a Nest,
    /// Number of dot products of the innermost loop.
    n: i64,
    placement: Placement,
}

impl SameSign<'_> {
    /// Copies of loops of the nest with fresh variables, and the substitution for these. The innermost one counts dot
    /// products.
    fn loops(&mut self, levels: &[usize]) -> (Vec<For>, Substitution) {
        let mut at = Substitution::default();
        let mut loops = Vec::new();
        for &i in levels {
            let l = self.nest.levels[i].l;
            let (var, mut e) = self.kernel.arena.new_index(self.kernel.arena.var(l.var).name);
            let mut extent = l.extent;
            if i + 1 == self.nest.levels.len() {
                extent = self.kernel.arena.index(self.n);
                e = if self.n == 1 { self.kernel.arena.index(0) } else { self.kernel.arena.mul_const(e, TERMS) };
            }
            at.set(l.var, e);
            if i + 1 < self.nest.levels.len() || self.n > 1 {
                loops.push(For { var, extent, ..l });
            }
        }
        (loops, at)
    }

    fn nested(&mut self, loops: &[For], stmts: Vec<StmtId>, out: &mut Vec<StmtId>) {
        let wrap = |stmts: Vec<StmtId>, l: &For| {
            let body = self.kernel.stmts.body(&stmts);
            vec![self.kernel.stmts.push(Stmt::For(For { body, ..*l }))]
        };
        out.extend(loops.iter().rev().fold(stmts, wrap));
    }

    /// The index into a new buffer over some levels, the last of which is contiguous, and the buffer's length.
    fn index(&mut self, levels: &[usize]) -> (ExprId, i64) {
        let mut sum = Affine::default();
        let mut stride = 1;
        for &i in levels.iter().rev() {
            let l = &self.nest.levels[i];
            let e = self.kernel.arena.var_expr(l.l.var);
            sum.add_term(e, stride);
            stride *= l.extent.unwrap_or(1);
        }
        (sum.to_expr(&mut self.kernel.arena), stride)
    }

    /// Emits a copy of the factor, shifted by 128, to a new buffer in the same order.
    fn copy(&mut self, from: Bytes, of: &[i64], out: &mut Vec<StmtId>) -> Bytes {
        let mut levels: Vec<usize> = (0..of.len()).filter(|&i| of[i] != 0).collect();
        levels.sort_by_key(|&i| (i + 1 == of.len(), std::cmp::Reverse(of[i].unsigned_abs())));
        let dtype = if from.dtype == DType::Int8 { DType::UInt8 } else { DType::Int8 };
        let (index, len) = self.index(&levels);
        let name = format!("{}_shifted", self.kernel.buffer(from.buffer).name);
        let buffer = self.kernel.add_scratch(name.as_str(), dtype, len, self.placement);
        let (mut loops, mut at) = self.loops(&levels);
        loops.iter_mut().for_each(|l| *l = For { kind: LoopKind::Serial, iterations: Iterations::Independent, ..*l });
        let word = from.word(self.kernel, &mut at);
        let half = self.half();
        let shifted = self.kernel.arena.call(Intrinsic::BitXor, &[word, half]);
        let bytes = self.kernel.arena.reinterpret(dtype, shifted);
        let to = at.expr(&mut self.kernel.arena, index);
        let store = self.kernel.store(buffer, to, bytes);
        self.nested(&loops, vec![store], out);
        Bytes { buffer, index, dtype }
    }

    fn half(&mut self) -> ExprId {
        self.kernel.arena.int(HALF, DType::Int32)
    }

    /// Emits the excess of each sum into a new buffer: 128 times the sum of the other factor.
    fn correction(
        &mut self,
        kept: Bytes,
        is_corrected: &dyn Fn(usize) -> bool,
        of: &[i64],
        out: &mut Vec<StmtId>,
    ) -> (BufferId, ExprId) {
        let levels: Vec<usize> = (0..of.len()).filter(|&i| is_corrected(i)).collect();
        let (of_sums, sums): (Vec<usize>, Vec<usize>) =
            levels.iter().partition(|&&i| self.nest.levels[i].role == Role::Space);
        let (index, len) = self.index(&of_sums);
        let buffer = self.kernel.add_scratch("correction", DType::Int32, len, self.placement);
        let (loops, mut at) = self.loops(&levels);
        let zero = self.kernel.arena.int(0, DType::Int32);
        let word = kept.word(self.kernel, &mut at);
        let to = at.expr(&mut self.kernel.arena, index);
        let half = self.half();
        let is_signed = kept.dtype == DType::Int8;
        let dot = |k: &mut Kernel, old| {
            if is_signed { k.arena.dot4(old, half, word) } else { k.arena.dot4(old, word, half) }
        };
        self.update(&loops, &mut at, &sums, (buffer, to), zero, dot, out);
        (buffer, index)
    }

    /// Emits the nest itself.
    fn sums(
        &mut self,
        init: Option<Init>,
        a: Bytes,
        b: Bytes,
        (correction, of): (BufferId, ExprId),
        out: &mut Vec<StmtId>,
    ) {
        let nest = self.nest;
        let all: Vec<usize> = (0..nest.levels.len()).collect();
        let (space, sums): (Vec<usize>, Vec<usize>) = all.iter().partition(|&&i| nest.levels[i].role == Role::Space);
        let corrected = |k: &mut Kernel, at: &mut Substitution, value: ExprId| {
            let (value, of) = (at.expr(&mut k.arena, value), at.expr(&mut k.arena, of));
            let correction = k.load(correction, of);
            k.arena.sub(value, correction)
        };
        let int32 = Ty::scalar(DType::Int32);
        if init.is_none() {
            // The sums have been initialised already.
            let (loops, mut at) = self.loops(&space);
            let to = at.expr(&mut self.kernel.arena, nest.index);
            let old = self.kernel.arena.load(nest.buffer, nest.index, int32);
            let value = corrected(self.kernel, &mut at, old);
            let store = self.kernel.store(nest.buffer, to, value);
            self.nested(&loops, vec![store], out);
        }
        let (loops, mut at) = self.loops(&all);
        let (a, b) = (a.word(self.kernel, &mut at), b.word(self.kernel, &mut at));
        let to = at.expr(&mut self.kernel.arena, nest.index);
        let dot = |k: &mut Kernel, old| k.arena.dot4(old, a, b);
        match init {
            Some(init) => {
                let first = corrected(self.kernel, &mut at, init.value);
                self.update(&loops, &mut at, &sums, (nest.buffer, to), first, dot, out);
            }
            None => {
                let old = self.kernel.arena.load(nest.buffer, to, int32);
                let value = dot(self.kernel, old);
                let store = self.kernel.store(nest.buffer, to, value);
                self.nested(&loops, vec![store], out);
            }
        }
    }

    /// A nest that sets an element to `first` in the first iteration of the loops over `sums`, and updates it in all.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a nest")]
    fn update(
        &mut self,
        loops: &[For],
        at: &mut Substitution,
        sums: &[usize],
        (buffer, index): (BufferId, ExprId),
        first: ExprId,
        update: impl FnOnce(&mut Kernel, ExprId) -> ExprId,
        out: &mut Vec<StmtId>,
    ) {
        let zero = self.kernel.arena.index(0);
        let mut condition = self.kernel.arena.bool(true);
        for &i in sums {
            let var = self.kernel.arena.var_expr(self.nest.levels[i].l.var);
            let var = at.expr(&mut self.kernel.arena, var);
            let is_first = self.kernel.arena.compare(CmpOp::Eq, var, zero);
            condition = self.kernel.arena.and(condition, is_first);
        }
        let stmts = if self.kernel.arena.as_int(condition) == Some(1) {
            let value = update(self.kernel, first);
            vec![self.kernel.store(buffer, index, value)]
        } else {
            let store = self.kernel.store(buffer, index, first);
            let then = self.kernel.stmts.body(&[store]);
            let init = self.kernel.stmts.push(Stmt::If { condition, then, otherwise: Body::EMPTY });
            let old = self.kernel.arena.load(buffer, index, Ty::scalar(DType::Int32));
            let value = update(self.kernel, old);
            vec![init, self.kernel.store(buffer, index, value)]
        };
        self.nested(loops, stmts, out);
    }
}
