//! Strip-mines long loops with short iterations, so that the stop flag can be polled between strips.
//!
//! ```text
//! for i in 1000000: S(i)
//! // becomes
//! for p in 500:
//!   for i in 2000: S(p * 2000 + i)
//! ```
//!
//! Polling after every short iteration would take noticeable time; polling after every strip does not. The order of
//! iterations is unchanged. A remainder loop follows for an incomplete strip.
//!
//! This pass runs last, since cost estimates apply to loops as they will be emitted.

use crate::codegen::cost::{Costs, LoopCost};
use crate::ir::BinOp;
use crate::loopir::rewrite::Substitution;
use crate::loopir::{ExprId, For, Kernel, LoopKind, Stmt, StmtId};
use crate::machine::Isa;

/// Target for the estimated nanoseconds of a strip.
const STRIP_NS: f64 = 10_000.0;

/// Strip-mines all loops of the kernel that need it.
pub fn strip_mine(kernel: &mut Kernel, isa: Isa) {
    let costs = Costs::new(kernel, isa);
    if costs.all_short_enough() {
        return;
    }
    let body = kernel.body;
    kernel.body = kernel.rebuild(body, &mut |kernel, old, id, stmt, out| match stmt {
        Stmt::For(l) if costs.of(old).needs_strip_mining() => split(kernel, l, costs.of(old), out),
        Stmt::For(_)
        | Stmt::If { .. }
        | Stmt::Store { .. }
        | Stmt::Let { .. }
        | Stmt::Set { .. }
        | Stmt::Check { .. }
        | Stmt::While { .. } => out.push(id),
    });
}

fn split(kernel: &mut Kernel, l: For, cost: LoopCost, out: &mut Vec<StmtId>) {
    let strip = (STRIP_NS / cost.iteration).ceil().max(2.0) as i64;
    let strip = kernel.arena.as_int(l.extent).map_or(strip, |n| divisor_near(n, strip));
    strips(kernel, l, strip, l.kind, out);
}

/// Emits the strips of a loop, `size` iterations each, and a remainder loop if there may be one. The loop over the strips runs as the
/// loop did; those over the iterations of a strip, and of the remainder, are of the kind `inside`.
pub(super) fn strips(kernel: &mut Kernel, l: For, size: i64, inside: LoopKind, out: &mut Vec<StmtId>) {
    let arena = &mut kernel.arena;
    let length = arena.index(size);
    let (n_strips, rest) = match arena.as_int(l.extent) {
        Some(n) => (arena.index(n / size), arena.index(n % size)),
        None => (arena.binary(BinOp::Div, l.extent, length), arena.binary(BinOp::Mod, l.extent, length)),
    };
    let (outer, p) = arena.new_index("p");
    let start = arena.mul_const(p, size);
    let inner = counted_from(kernel, &l, start, length, inside, Substitution::default());
    let inner = kernel.stmts.push(inner);
    let body = kernel.stmts.body(&[inner]);
    out.push(kernel.stmts.push(Stmt::For(For { var: outer, extent: n_strips, body, ..l })));
    if kernel.arena.as_int(rest) != Some(0) {
        let done = kernel.arena.mul_const(n_strips, size);
        let mut own = Substitution::default();
        if l.kind == LoopKind::Parallel {
            own.own_registers(kernel, l.body);
        }
        let tail = counted_from(kernel, &l, done, rest, inside, own);
        out.push(kernel.stmts.push(tail));
    }
}

/// A copy of the loop after a replacement, with `n` iterations, starting at `start`.
fn counted_from(
    kernel: &mut Kernel,
    l: &For,
    start: ExprId,
    n: ExprId,
    kind: LoopKind,
    mut replacement: Substitution,
) -> Stmt {
    let (var, i) = kernel.arena.new_index(kernel.arena.var(l.var).name);
    let value = kernel.arena.add(start, i);
    replacement.set(l.var, value);
    let body = replacement.copy(kernel, l.body);
    Stmt::For(For { var, extent: n, kind, body, ..*l })
}

/// The largest divisor of `n` between half of `strip` and `strip`; `strip` if there is none.
fn divisor_near(n: i64, strip: i64) -> i64 {
    (strip / 2..=strip).rev().take(4096).find(|&d| d > 1 && n % d == 0).unwrap_or(strip)
}
