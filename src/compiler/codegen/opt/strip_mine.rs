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
use crate::loopir::{ExprId, For, Kernel, Stmt, StmtId};
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
    let arena = &mut kernel.arena;
    let (n_strips, strip, rest) = match arena.as_int(l.extent) {
        Some(n) => {
            let strip = divisor_near(n, strip);
            (arena.index(n / strip), strip, arena.index(n % strip))
        }
        None => {
            let size = arena.index(strip);
            let (strips, rest) = (arena.binary(BinOp::Div, l.extent, size), arena.binary(BinOp::Mod, l.extent, size));
            (strips, strip, rest)
        }
    };
    let (outer, p) = kernel.arena.new_index("p");
    let start = kernel.arena.mul_const(p, strip);
    let size = kernel.arena.index(strip);
    let inner = counted_from(kernel, &l, start, size);
    let inner = kernel.stmts.push(inner);
    let body = kernel.stmts.body(&[inner]);
    out.push(kernel.stmts.push(Stmt::For(For { var: outer, extent: n_strips, body, ..l })));
    if kernel.arena.as_int(rest) != Some(0) {
        let done = kernel.arena.mul_const(n_strips, strip);
        let tail = counted_from(kernel, &l, done, rest);
        out.push(kernel.stmts.push(tail));
    }
}

/// A copy of the loop with `n` iterations, starting at `start`.
fn counted_from(kernel: &mut Kernel, l: &For, start: ExprId, n: ExprId) -> Stmt {
    let (var, i) = kernel.arena.new_index(kernel.arena.var(l.var).name);
    let value = kernel.arena.add(start, i);
    let body = Substitution::of(l.var, value).copy(kernel, l.body);
    Stmt::For(For { var, extent: n, body, ..*l })
}

/// The largest divisor of `n` between half of `strip` and `strip`; `strip` if there is none.
fn divisor_near(n: i64, strip: i64) -> i64 {
    (strip / 2..=strip).rev().take(4096).find(|&d| d > 1 && n % d == 0).unwrap_or(strip)
}
