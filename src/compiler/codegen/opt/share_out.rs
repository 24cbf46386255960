//! Splits parallel loops over single elements, so that what a thread runs at a time is a loop that can be vectorised.
//!
//! ```text
//! for i in 100000 parallel: C[i] = A[i] + B[i]
//! // becomes
//! for p in 195 parallel:
//!   for i in 512: C[p * 512 + i] = A[p * 512 + i] + B[p * 512 + i]
//! for i in 160: C[99840 + i] = A[99840 + i] + B[99840 + i]
//! ```
//!
//! Schedules written by hand often make the only loop of a program parallel. Compilers that give each thread one range of iterations
//! vectorise it; without this pass, each iteration would be a range of its own here.

use super::strip_mine::strips;
use super::walk::replace_loops;
use crate::loopir::{Body, For, Iterations, Kernel, LoopKind, Stmt};

/// Bounds of the number of elements that a thread takes at a time: a few vectors at least, and so few at most that threads end together.
const SHORTEST: i64 = 16;
const LONGEST: i64 = 512;

/// The least number of pieces that a loop is split into.
const PIECES: i64 = 8;

/// Splits all such loops. Returns whether there were any.
pub(super) fn share_out(kernel: &mut Kernel) -> bool {
    let old = kernel.body;
    kernel.body = body(kernel, old);
    kernel.body != old
}

fn body(kernel: &mut Kernel, old: Body) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if let Some(size) = piece(kernel, &l) {
            return strips(kernel, l, size, LoopKind::Serial, out);
        }
        let inner = body(kernel, l.body);
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// The number of elements in a piece, if the loop is to be split.
fn piece(kernel: &Kernel, l: &For) -> Option<i64> {
    if l.kind != LoopKind::Parallel || l.iterations != Iterations::Independent {
        return None;
    }
    let mut has_loops = false;
    kernel.for_each_stmt(l.body, &mut |_, stmt| has_loops |= matches!(stmt, Stmt::For(_) | Stmt::While { .. }));
    if has_loops {
        return None;
    }
    let size = match kernel.arena.as_int(l.extent) {
        // A power of two, so that pieces begin where vectors do.
        Some(n) => 1_i64.checked_shl((n / PIECES).max(1).ilog2())?,
        None => LONGEST,
    };
    (size >= SHORTEST).then_some(size.min(LONGEST))
}
