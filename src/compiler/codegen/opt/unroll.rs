//! Unrolls loops.
//!
//! ```text
//! for i in 2 unroll: Y[i * 4] = X[i]
//! // becomes
//! Y[0] = X[0]
//! Y[4] = X[1]
//! ```
//!
//! The pass unrolls loops annotated `Unroll`, and loops that a hint of an enclosing statement allows, while the code
//! stays small: unrolled code costs compile time, and beyond a few hundred operations there is no gain.

use super::machine::Machine;
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand, mentions_var};
use crate::loopir::{Arena, Body, Expr, ExprId, For, Iterations, Kernel, LoopKind, Stmt, StmtId, Storage, Ty};

/// Maximum number of operations after unrolling a loop annotated `Unroll`: the rows of a register tile for each place of a
/// window.
const MAX_WRITTEN_OUT: i64 = 2400;

/// Maximum extent of a loop annotated `Unroll` that is written out to see its size: where each iteration chooses another
/// of several values, the code is smaller than the body suggests.
const MAX_CASES: i64 = 16;

/// Maximum extent of a loop that is written out because each iteration loads other lanes: the remainders of columns by a stride.
const MAX_LANE_CHOICES: i64 = 4;

/// Maximum number of operations after unrolling a loop around registers; more than any register tile has.
const MAX_OPERATIONS: i64 = 400;

/// Maximum number of operations after unrolling a loop because of a hint.
const MAX_HINTED: i64 = 96;

/// Unrolls all loops of the kernel except reductions.
pub(super) fn unroll(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, &Unroll { machine, has_registers: false }, 0).0;
}

/// Partially unrolls innermost reductions. Their sums have been promoted to registers by now, and stay there even if no
/// loop remains. Loops over a tile that was just computed are unrolled too, so that they find it in registers.
pub(super) fn unroll_around_registers(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, &Unroll { machine, has_registers: true }, 0).0;
}

/// The state of the pass.
struct Unroll<'a> {
    machine: &'a Machine,
    /// Whether sums are in registers: then reductions and the loops after them are unrolled, otherwise all others.
    has_registers: bool,
}

/// The size of a body after unrolling.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Number of statements, except loops and conditions.
    statements: i64,
    /// Number of operations and accesses.
    operations: i64,
}

fn body(kernel: &mut Kernel, old: Body, how: &Unroll<'_>, hint: u32) -> (Body, Size) {
    let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
    let mut size = Size::default();
    for i in 0..old.len() {
        let s = kernel.stmts.list(old)[i];
        let stmt = kernel.stmts.get(s);
        for_each_operand(stmt, |e| size.operations += operations(&kernel.arena, e, how.machine));
        match stmt {
            Stmt::For(l) => {
                let hint = if l.hints.unroll > 0 { l.hints.unroll } else { hint };
                let (inner, of_inner) = body(kernel, l.body, how, hint);
                let of_loop = for_loop(kernel, s, For { body: inner, ..l }, of_inner, how, hint, &mut out);
                size.statements += of_loop.statements;
                size.operations += of_loop.operations;
            }
            Stmt::If { condition, then, otherwise } => {
                let (yes, a) = body(kernel, then, how, hint);
                let (no, b) = body(kernel, otherwise, how, hint);
                size.statements += a.statements + b.statements;
                size.operations += a.operations + b.operations;
                let same = (yes, no) == (then, otherwise);
                let new = Stmt::If { condition, then: yes, otherwise: no };
                out.push(if same { s } else { kernel.stmts.push(new) });
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {
                size.statements += 1;
                out.push(s);
            }
        }
    }
    (if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }, size)
}

/// Number of operations of an expression; those of indices are folded into addresses.
fn operations(arena: &Arena, e: ExprId, machine: &Machine) -> i64 {
    let mut n = 1;
    if matches!(arena.expr(e), Expr::Pack(_)) && machine.vectors.has_regions() {
        // Assembled from contiguous vectors.
        return 2;
    }
    if let Expr::IfThenElse(c, t, o) = arena.expr(e)
        && arena.lanes(c) > 1
    {
        // A masked load, whose mask is shared. The other lanes are zero by themselves, or another constant.
        let is_constant = matches!(arena.expr(o), Expr::Broadcast(value) if arena.as_const(value).is_some());
        let otherwise = if is_constant { 0 } else { operations(arena, o, machine) };
        return 1 + operations(arena, t, machine) + otherwise;
    }
    if !matches!(arena.expr(e), Expr::Load(..)) && arena.ty(e) != Ty::INDEX {
        arena.for_each_child(e, |c| n += operations(arena, c, machine));
    }
    n
}

fn for_loop(
    kernel: &mut Kernel,
    s: StmtId,
    l: For,
    inner: Size,
    how: &Unroll<'_>,
    hint: u32,
    out: &mut Vec<StmtId>,
) -> Size {
    let n = kernel.arena.as_int(l.extent).unwrap_or(i64::MAX);
    let size = Size { statements: inner.statements.saturating_mul(n), operations: inner.operations.saturating_mul(n) };
    if l.kind == LoopKind::Unroll && !how.has_registers && size.operations > MAX_WRITTEN_OUT && n <= MAX_CASES {
        let written = written_out(kernel, &l, n);
        let size = size_of(kernel, &written, how.machine);
        if size.operations <= MAX_WRITTEN_OUT {
            out.extend_from_slice(&written);
            return size;
        }
    }
    let wanted = match l.kind {
        _ if how.has_registers => size.operations <= MAX_OPERATIONS && reads_tile(kernel, &l, how.machine),
        LoopKind::Unroll => size.operations <= MAX_WRITTEN_OUT,
        LoopKind::Serial if n <= MAX_LANE_CHOICES && chooses_lanes(kernel, &l) => size.operations <= MAX_HINTED,
        LoopKind::Serial => size.statements <= hint as i64 && size.operations <= MAX_HINTED,
        LoopKind::Parallel | LoopKind::Vector => false,
    };
    if how.has_registers
        && let Some(by) = partial(kernel, &l, n, inner, how.machine)
    {
        let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
        let start = kernel.arena.mul_const(e, by);
        let mut written = Vec::new();
        for i in 0..by {
            let at = kernel.arena.add_const(start, i);
            let copy = Substitution::of(l.var, at).copy(kernel, l.body);
            written.extend_from_slice(kernel.stmts.list(copy));
        }
        if by == n {
            let body = kernel.stmts.body(&written);
            let zero = kernel.arena.index(0);
            let copy = Substitution::of(var, zero).copy(kernel, body);
            out.extend_from_slice(kernel.stmts.list(copy));
        } else {
            let (body, extent) = (kernel.stmts.body(&written), kernel.arena.index(n / by));
            out.push(kernel.stmts.push(Stmt::For(For { var, extent, body, ..l })));
        }
        for i in n / by * by..n {
            let at = kernel.arena.index(i);
            let copy = Substitution::of(l.var, at).copy(kernel, l.body);
            out.extend_from_slice(kernel.stmts.list(copy));
        }
        let times = by + n % by;
        return Size { statements: inner.statements * times, operations: inner.operations * times };
    }
    if !wanted {
        let same = kernel.stmts.get(s) == Stmt::For(l);
        out.push(if same { s } else { kernel.stmts.push(Stmt::For(l)) });
        return inner;
    }
    out.extend(written_out(kernel, &l, n));
    size
}

/// Whether a loop only stores vectors, of which each iteration loads other lanes: written out, these are constants.
///
/// ```text
/// for r in 2: Y[r * 16] = if_then_else(splat(1, 15) <= ramp(r, 2, 15), …)
/// ```
fn chooses_lanes(kernel: &Kernel, l: &For) -> bool {
    let arena = &kernel.arena;
    let (mut only_stores, mut depends) = (true, false);
    for &s in kernel.stmts.list(l.body) {
        let Stmt::Store { value, .. } = kernel.stmts.get(s) else {
            only_stores = false;
            continue;
        };
        for_each_expr(arena, value, &mut |e| {
            if let Expr::IfThenElse(c, ..) = arena.expr(e) {
                let mut compares_lanes = false;
                for_each_expr(arena, c, &mut |e| {
                    compares_lanes |= matches!(arena.expr(e), Expr::Compare(..)) && arena.lanes(e) > 1;
                });
                depends |= compares_lanes && mentions_var(arena, c, &mut |v| v == l.var);
            }
        });
    }
    only_stores && depends
}

/// The body of a loop, once for each of its `n` iterations.
fn written_out(kernel: &mut Kernel, l: &For, n: i64) -> Vec<StmtId> {
    let mut written = Vec::new();
    for i in 0..n {
        let at = kernel.arena.index(i);
        let copy = Substitution::of(l.var, at).copy(kernel, l.body);
        written.extend_from_slice(kernel.stmts.list(copy));
    }
    written
}

/// The size of statements; a loop counts as one iteration.
fn size_of(kernel: &mut Kernel, written: &[StmtId], machine: &Machine) -> Size {
    let mut size = Size::default();
    let all = kernel.stmts.body(written);
    kernel.for_each_stmt(all, &mut |_, stmt| {
        for_each_operand(stmt, |e| size.operations += operations(&kernel.arena, e, machine));
        size.statements += i64::from(!matches!(stmt, Stmt::For(_) | Stmt::If { .. }));
    });
    size
}

/// Whether it is a loop of stores that reads its own elements of a scratch buffer that fits the registers.
fn reads_tile(kernel: &Kernel, l: &For, machine: &Machine) -> bool {
    let arena = &kernel.arena;
    let (mut reads, mut simple) = (false, l.kind == LoopKind::Serial && l.iterations == Iterations::Independent);
    kernel.for_each_stmt(l.body, &mut |_, stmt| match stmt {
        Stmt::Store { value, .. } => for_each_expr(arena, value, &mut |e| {
            if let Expr::Load(buffer, index) = arena.expr(e)
                && let buffer = kernel.buffer(buffer)
                && matches!(buffer.storage, Storage::Scratch(_))
                && buffer.bytes() <= machine.vectors.registers * machine.vectors.bytes
            {
                reads |= mentions_var(arena, index, &mut |v| v == l.var);
            }
        }),
        _ => simple = false,
    });
    simple && reads
}

/// Unroll factor of a reduction. Cranelift's multiply-add overwrites a factor, so that each sum moves to another
/// register and back at the end of the loop; over several iterations this is negligible.
const TOGETHER: i64 = 4;

/// Maximum number of statements of a partially unrolled body: several iterations of a register tile.
const MAX_TOGETHER: i64 = 12;

/// Number of result registers of a region's body from which the loop overhead is negligible.
const BUSY: i64 = 4;

/// The partial unroll factor of a loop: for innermost reductions that are long enough.
fn partial(kernel: &Kernel, l: &For, n: i64, inner: Size, machine: &Machine) -> Option<i64> {
    let (mut innermost, mut only_sets) = (true, true);
    let mut registers = 0;
    kernel.for_each_stmt(l.body, &mut |_, stmt| match stmt {
        Stmt::Store { value, .. } | Stmt::Set { value, .. } => {
            let ty = kernel.arena.ty(value);
            registers += i64::from(ty.lanes) / machine.vectors.lanes(ty.dtype);
            only_sets &= matches!(stmt, Stmt::Set { .. });
        }
        _ => innermost = false,
    });
    if machine.vectors.has_regions() && registers >= BUSY {
        return None;
    }
    // Sums over windows whose sizes were computed are not annotated.
    let is_reduction = l.iterations == Iterations::Reduction || only_sets;
    let wanted = is_reduction && l.kind == LoopKind::Serial && innermost;
    let most = MAX_OPERATIONS / inner.operations.max(1);
    if !wanted || n == i64::MAX || most < 2 || inner.statements > MAX_TOGETHER {
        return None;
    }
    if n < 2 * TOGETHER && n <= most {
        return Some(n);
    }
    let all = [TOGETHER, TOGETHER + 1, TOGETHER - 1];
    let together = all.into_iter().filter(|&by| by <= most && by < n).min_by_key(|by| n % by);
    together.or((n > 2).then_some(2))
}
