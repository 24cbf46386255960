//! Merges stores of four adjacent bytes into one.
//!
//! ```text
//! for q in 4: P[j * 4 + q] = B[q * 32 + j]
//! // becomes
//! P[j * 4; 4] = reinterpret(int8, cast(int32, cast(uint8, B[j])) | cast(int32, cast(uint8, B[32 + j])) << 8 | …)
//! ```
//!
//! Along `j` the loaded bytes are contiguous, and so are the 32-bit values: packing bytes for dot products becomes
//! vector code. The pass handles innermost loops of four iterations that copy, from any place.

use super::walk::replace_loops;
use crate::ir::{DType, Intrinsic};
use crate::loopir::rewrite::{Substitution, mentions_var};
use crate::loopir::{Affine, Body, Expr, ExprId, For, Iterations, Kernel, LoopKind, Stmt, StmtId, Ty, VarId};

/// Merges the stores of all such loops. Returns whether there were any.
pub(super) fn merge_stores(kernel: &mut Kernel) -> bool {
    let before = kernel.body;
    kernel.body = body(kernel, before);
    kernel.body != before
}

fn body(kernel: &mut Kernel, old: Body) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if let Some(store) = merged(kernel, &l) {
            return out.push(store);
        }
        let inner = body(kernel, l.body);
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// Bytes per value.
const BYTES: i64 = 4;

/// The replacement of a loop.
fn merged(kernel: &mut Kernel, l: &For) -> Option<StmtId> {
    let is_copy = l.kind != LoopKind::Parallel && l.iterations == Iterations::Independent;
    let &[s] = kernel.stmts.list(l.body) else { return None };
    let Stmt::Store { buffer, index, value } = kernel.stmts.get(s) else { return None };
    let Expr::Load(from, source) = kernel.arena.expr(value) else { return None };
    let (ty, to) = (kernel.arena.ty(value), kernel.buffer(buffer).dtype);
    let is_byte = ty.lanes == 1 && matches!(ty.dtype, DType::Int8 | DType::UInt8);
    if !is_copy
        || !is_byte
        || from == buffer
        || kernel.arena.as_int(l.extent) != Some(BYTES)
        || step(kernel, index, l.var) != Some(1)
    {
        return None;
    }
    let at = |kernel: &mut Kernel, e: ExprId, i: i64| {
        let i = kernel.arena.index(i);
        Substitution::of(l.var, i).expr(&mut kernel.arena, e)
    };
    let word = if step(kernel, source, l.var) == Some(1) {
        let first = at(kernel, source, 0);
        let bytes = kernel.arena.load(from, first, Ty::vector(ty.dtype, BYTES as u16));
        kernel.arena.reinterpret(DType::Int32, bytes)
    } else {
        let mut word = None;
        for i in 0..BYTES {
            let byte = at(kernel, value, i);
            let arena = &mut kernel.arena;
            // The sign extension of the highest byte is shifted out.
            let byte = if i + 1 < BYTES { arena.cast(DType::UInt8, byte) } else { byte };
            let wide = arena.cast(DType::Int32, byte);
            let by = arena.int(8 * i, DType::Int32);
            let shifted = if i == 0 { wide } else { arena.call(Intrinsic::ShiftLeft, &[wide, by]) };
            word = Some(match word {
                None => shifted,
                Some(word) => arena.call(Intrinsic::BitOr, &[word, shifted]),
            });
        }
        word?
    };
    let (index, value) = (at(kernel, index, 0), kernel.arena.reinterpret(to, word));
    Some(kernel.store(buffer, index, value))
}

/// The stride of an index along a variable, if constant.
fn step(kernel: &Kernel, index: ExprId, var: VarId) -> Option<i64> {
    let (arena, affine) = (&kernel.arena, Affine::of(&kernel.arena, index));
    let is_var = |e| arena.as_var(e) == Some(var);
    let fits = affine.terms.iter().all(|t| is_var(t.0) || !mentions_var(arena, t.0, &mut |v| v == var));
    fits.then(|| affine.coefficient_of(arena, var))
}
