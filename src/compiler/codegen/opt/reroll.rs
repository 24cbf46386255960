//! Rerolls an unrolled sum of four byte products into a loop, as tensor intrinsics contain:
//!
//! ```text
//! C[i] = C[i] + (cast(int32, A[0]) * cast(int32, B[i * 4]) + … + cast(int32, A[3]) * cast(int32, B[i * 4 + 3]))
//! // becomes
//! for q in 4 unroll reduction: C[i] = C[i] + cast(int32, A[q]) * cast(int32, B[i * 4 + q])
//! ```
//!
//! The sum wraps around, so the order of its terms does not matter. The products may also be computed in 16 bits, if
//! those hold them. [`super::dot`] transforms these loops; the others are unrolled again.

use crate::codegen::facts::loads;
use crate::ir::{BinOp, DType};
use crate::loopir::{Affine, Arena, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Stmt};
use smallvec::SmallVec;

/// Number of terms of a sum to reroll.
const TERMS: usize = 4;

/// Rerolls all such sums of the kernel. Returns whether there were any.
pub(super) fn reroll(kernel: &mut Kernel) -> bool {
    let before = kernel.body;
    kernel.body = kernel.rebuild(before, &mut |kernel, _, id, stmt, out| {
        out.push(rerolled(kernel, stmt).map_or(id, |l| kernel.stmts.push(Stmt::For(l))));
    });
    kernel.body != before
}

/// A product of two bytes, each as a load.
type Product = [ExprId; 2];

fn rerolled(kernel: &mut Kernel, stmt: Stmt) -> Option<For> {
    let Stmt::Store { buffer, index, value } = stmt else { return None };
    let arena = &kernel.arena;
    if arena.dtype(value) != DType::Int32 || arena.lanes(value) > 1 {
        return None;
    }
    let mut terms = SmallVec::<[ExprId; 8]>::new();
    addends(arena, value, &mut terms);
    let is_old = |&e: &ExprId| arena.expr(e) == Expr::Load(buffer, index);
    let old = terms.iter().position(is_old)?;
    let old = terms.remove(old);
    // No index may depend on the sum, which now changes between the terms.
    if terms.len() != TERMS || loads(arena, index, buffer) || terms.iter().any(|&e| loads(arena, e, buffer)) {
        return None;
    }
    let products: Vec<Product> = terms.iter().map(|&e| product(arena, e)).collect::<Option<_>>()?;
    let (first, order) = in_order(arena, &products)?;
    // Both factors must have the same order.
    let is_next =
        |q: usize, factor: usize| distance(arena, first[factor], products[order[q]][factor]) == Some(q as i64);
    if !(0..TERMS).all(|q| is_next(q, 0) && is_next(q, 1)) {
        return None;
    }
    let (var, q) = kernel.arena.new_index("q");
    let mut factor = |e: ExprId| {
        let arena = &mut kernel.arena;
        let Expr::Load(from, at) = arena.expr(e) else { return None };
        let (at, ty) = (arena.add(at, q), arena.ty(e));
        let byte = arena.load(from, at, ty);
        Some(arena.cast(DType::Int32, byte))
    };
    let (a, b) = (factor(first[0])?, factor(first[1])?);
    let product = kernel.arena.mul(a, b);
    let value = kernel.arena.add(old, product);
    let store = kernel.store(buffer, index, value);
    let (extent, body) = (kernel.arena.index(TERMS as i64), kernel.stmts.body(&[store]));
    let (kind, iterations) = (LoopKind::Unroll, Iterations::Reduction);
    Some(For { var, extent, kind, iterations, hints: Hints::default(), body })
}

fn addends(arena: &Arena, e: ExprId, out: &mut SmallVec<[ExprId; 8]>) {
    match arena.expr(e) {
        Expr::Binary(BinOp::Add, a, b) if out.len() <= TERMS => {
            addends(arena, a, out);
            addends(arena, b, out);
        }
        _ => out.push(e),
    }
}

fn product(arena: &Arena, e: ExprId) -> Option<Product> {
    let wide = match arena.expr(e) {
        Expr::Cast(short) if arena.dtype(short).bits() == 16 => short,
        _ => e,
    };
    let Expr::Binary(BinOp::Mul, a, b) = arena.expr(wide) else { return None };
    let product = [byte(arena, a)?, byte(arena, b)?];
    let is_exact = match arena.dtype(wide) {
        // 255 * -128 fits 16 bits, 255 * 255 does not.
        DType::Int16 => product.map(|e| arena.dtype(e)) != [DType::UInt8; 2],
        DType::UInt16 => product.map(|e| arena.dtype(e)) == [DType::UInt8; 2],
        _ => wide == e,
    };
    is_exact.then_some(product)
}

/// The load of a byte under conversions.
fn byte(arena: &Arena, e: ExprId) -> Option<ExprId> {
    let Expr::Cast(byte) = arena.expr(e) else { return None };
    let is_byte = matches!(arena.dtype(byte), DType::Int8 | DType::UInt8);
    (is_byte && matches!(arena.expr(byte), Expr::Load(..))).then_some(byte)
}

/// The first product, and the permutation of the products by the index of their first factors.
fn in_order(arena: &Arena, products: &[Product]) -> Option<(Product, Vec<usize>)> {
    let mut offsets = Vec::new();
    for p in products {
        offsets.push(distance(arena, products[0][0], p[0])?);
    }
    let mut order: Vec<usize> = (0..products.len()).collect();
    order.sort_by_key(|&i| offsets[i]);
    Some((products[order[0]], order))
}

/// The distance in elements between two loads of the same buffer.
fn distance(arena: &Arena, from: ExprId, to: ExprId) -> Option<i64> {
    let (Expr::Load(a, i), Expr::Load(b, j)) = (arena.expr(from), arena.expr(to)) else { return None };
    (a == b).then(|| Affine::of(arena, j).minus(&Affine::of(arena, i)).as_constant()).flatten()
}
