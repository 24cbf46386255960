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
//! The instruction multiplies unsigned by signed bytes. If both factors have the same signedness, one is shifted by 128,
//! and the sums are corrected (`same_sign`).
//!
//! This pass runs before reduction nests are arranged, so that those see four bytes as one element.

mod same_sign;

use super::nest::{conjuncts, zero_vars};
use super::walk::replace_loops;
use crate::codegen::facts::loads;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{Substitution, mentions_var};
use crate::loopir::{Affine, Arena, Body, BufferId, Expr, ExprId, For, Kernel, LoopKind, Stmt, StmtId, Ty, VarId};
use same_sign::SameSign;

/// Forms dot products in all loops of the kernel. Returns whether there were any.
pub(super) fn dot(kernel: &mut Kernel) -> bool {
    let before = kernel.body;
    let mut same_sign = SameSign::new(kernel);
    let new = body(kernel, before, &mut same_sign);
    kernel.body = same_sign.finish(kernel, new);
    kernel.body != before
}

fn body(kernel: &mut Kernel, old: Body, same_sign: &mut SameSign) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if same_sign.replace(kernel, l, out).is_some() || either_sign(kernel, &l, out).is_some() {
            return;
        }
        same_sign.around.push(l);
        let inner = body(kernel, l.body, same_sign);
        same_sign.around.pop();
        out.extend(same_sign.hoisted_here());
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
