//! Combines the rows of windows before their columns, where windows move by several narrow elements.
//!
//! ```text
//! for i in 20: for j in 20:
//!   Y[i * 20 + j] = -inf
//!   for r in 3: for s in 3: Y[i * 20 + j] = max(Y[i * 20 + j], X[i * 84 + r * 42 + j * 2 + s])
//! // becomes
//! for i in 20:
//!   for q in 41: row[q] = max(max(X[i * 84 + q], X[i * 84 + q + 42]), X[i * 84 + q + 84])
//!   for j in 20: Y[i * 20 + j] = max(max(max(-inf, row[j * 2]), row[j * 2 + 1]), row[j * 2 + 2])
//! ```
//!
//! The columns of neighbouring windows are apart, so vectors of them are permuted from contiguous ones. Rows that are combined first are
//! read as they lie, and permuted once instead of once for each row. The combined row stays in registers
//! ([`rows_in_registers`](super::rows_in_registers)), so long rows are computed in parts.
//!
//! Windows of 32-bit elements are left as they are: single instructions permute those of two registers, and rule
//! `deinterleave_windows` orders them. Floats are combined in another order than as written, so theirs are only changed if they may.

use super::machine::Machine;
use super::nest::{Level, Nest, Role};
use super::walk::{around, counted, replace_nests};
use crate::codegen::facts::loads;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{Substitution, for_each_expr};
use crate::loopir::{Affine, Arena, Expr, ExprId, For, Kernel, LoopKind, Placement, StmtId, Ty};

/// Minimum number of windows of a row: with fewer, vectors would be almost empty.
const FEWEST: i64 = 8;
/// Maximum number of rows or columns of a window, which are written out.
const LONGEST: i64 = 9;
/// Registers that hold a combined row: as many as one instruction permutes.
const REGISTERS: i64 = 2;
/// Bytes of elements from which on a permutation of two registers is a single instruction.
const WIDE: usize = 4;

/// Rewrites such nests of the kernel. Returns whether there are any.
pub(super) fn separate_windows(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_narrow_masks() {
        return false;
    }
    let before = kernel.body;
    kernel.body = replace_nests(kernel, before, Placement::Shared, &mut |kernel, l, placement, out| {
        let windows = Windows::of(kernel, l, machine);
        out.extend(windows.iter().flat_map(|w| w.rewritten(kernel, placement)));
        windows.is_some()
    });
    kernel.body != before
}

/// A nest that combines the elements of windows.
struct Windows {
    nest: Nest,
    op: BinOp,
    /// The operand of a step.
    term: ExprId,
    /// The loop from window to window of a row, and its iterations.
    column: (For, i64),
    /// The loop along the row of a window, and its iterations.
    step: (For, i64),
    /// The loops over the rows of a window.
    rows: Vec<(For, i64)>,
    /// Elements from window to window.
    stride: i64,
    /// Maximum number of windows whose row fits the registers for it.
    part: i64,
}

impl Windows {
    fn of(kernel: &Kernel, l: &For, machine: &Machine) -> Option<Windows> {
        let mut nest = Nest::of(kernel, *l)?;
        let arena = &kernel.arena;
        let dtype = kernel.buffer(nest.buffer).dtype;
        if dtype.is_float() && !machine.reassociates || nest.init.as_ref().is_some_and(|i| !i.guards.is_empty()) {
            return None;
        }
        let (op, term) = combined(arena, &nest)?;
        let known = |l: &Level| Some((l.l, l.extent?));
        let column = known(nest.levels.iter().find(|l| l.role == Role::Space && l.stride == 1)?)?;
        let reductions = nest.levels.iter().filter(|l| l.role == Role::Reduction);
        let mut rows: Vec<(For, i64)> = reductions.map(known).collect::<Option<_>>()?;
        let (at, stride) =
            rows.iter().enumerate().find_map(|(i, (l, _))| Some((i, stride_of(arena, term, &column.0, l)?)))?;
        let step = rows.remove(at);
        let n_rows = rows.iter().try_fold(1_i64, |n, &(_, extent)| n.checked_mul(extent))?;
        // Elements between windows need not exist.
        let fits = (2..=LONGEST).contains(&n_rows) && (2..=LONGEST).contains(&step.1) && (2..=step.1).contains(&stride);
        if !fits || column.1 < FEWEST || !reads_narrow(arena, term) {
            return None;
        }
        let lanes = (machine.vectors.bytes / dtype.bytes()) as i64;
        let part = (REGISTERS * lanes - step.1) / stride + 1;
        // Loops inside those of the column become loops around them.
        for level in nest.levels.iter_mut().filter(|level| level.l.kind == LoopKind::Vector) {
            level.l.kind = LoopKind::Serial;
        }
        Some(Windows { nest, op, term, column, step, rows, stride, part })
    }

    fn rewritten(&self, kernel: &mut Kernel, placement: Placement) -> Vec<StmtId> {
        let windows = self.column.1;
        let n_parts = (windows + self.part - 1) / self.part;
        let part = (windows + n_parts - 1) / n_parts;
        let whole = windows / part;
        let mut body = Vec::new();
        if whole == 1 {
            let first = kernel.arena.index(0);
            body.extend(self.part(kernel, first, part, placement));
        } else {
            let (_, parts, p) = counted(kernel, "p", whole);
            let first = kernel.arena.mul_const(p, part);
            let made = self.part(kernel, first, part, placement);
            body.push(around(kernel, parts, &made));
        }
        if windows % part != 0 {
            let first = kernel.arena.index(whole * part);
            body.extend(self.part(kernel, first, windows % part, placement));
        }
        let space = self.nest.levels.iter().filter(|l| l.role == Role::Space && l.l.var != self.column.0.var);
        for level in space.rev() {
            body = vec![around(kernel, level.l, &body)];
        }
        body
    }

    /// The loops that compute `n` windows of a row from the window `first` on.
    fn part(&self, kernel: &mut Kernel, first: ExprId, n: i64, placement: Placement) -> [StmtId; 2] {
        let Nest { buffer, index, init, .. } = &self.nest;
        let dtype = kernel.buffer(*buffer).dtype;
        let width = (n - 1) * self.stride + self.step.1;
        let row = kernel.add_scratch("row", dtype, width, placement);

        let (_, along, q) = counted(kernel, "q", width);
        let arena = &mut kernel.arena;
        let mut place = Substitution::of(self.column.0.var, first);
        place.set(self.step.0.var, q);
        let mut terms = vec![place.expr(arena, self.term)];
        for &(l, n) in &self.rows {
            let of_row = |arena: &mut Arena, term, r| {
                let r = arena.index(r);
                Substitution::of(l.var, r).expr(arena, term)
            };
            terms = (0..n).flat_map(|r| terms.iter().map(|&t| of_row(arena, t, r)).collect::<Vec<_>>()).collect();
        }
        let (&start, others) = terms.split_first().expect("a window has rows");
        let value = others.iter().fold(start, |a, &b| arena.binary(self.op, a, b));
        let store = kernel.store(row, q, value);
        let rows = around(kernel, along, &[store]);

        let (_, windows, j) = counted(kernel, "j", n);
        let arena = &mut kernel.arena;
        let column = arena.add(first, j);
        let mut place = Substitution::of(self.column.0.var, column);
        let index = place.expr(arena, *index);
        let start = init.as_ref().map(|init| place.expr(arena, init.value));
        let mut value = match start {
            Some(start) => start,
            None => kernel.load(*buffer, index),
        };
        for s in 0..self.step.1 {
            let at = kernel.arena.mul_const(j, self.stride);
            let at = kernel.arena.add_const(at, s);
            let element = kernel.load(row, at);
            value = kernel.arena.binary(self.op, value, element);
        }
        let store = kernel.store(*buffer, index, value);
        [rows, around(kernel, windows, &[store])]
    }
}

/// The operator and the operand that a nest combines with each element.
fn combined(arena: &Arena, nest: &Nest) -> Option<(BinOp, ExprId)> {
    let Expr::Binary(op @ (BinOp::Add | BinOp::Max | BinOp::Min), a, b) = arena.expr(nest.value) else { return None };
    let is_old = |e| matches!(arena.expr(e), Expr::Load(b, at) if (b, at) == (nest.buffer, nest.index));
    let term = match (is_old(a), is_old(b)) {
        (true, false) => b,
        (false, true) => a,
        _ => return None,
    };
    (!loads(arena, term, nest.buffer)).then_some((op, term))
}

/// The number of steps by which an expression moves with a column, if it depends on both by such sums alone.
fn stride_of(arena: &Arena, e: ExprId, column: &For, step: &For) -> Option<i64> {
    let mut strides = Vec::new();
    note_strides(arena, e, column, step, &mut strides)?;
    let stride = *strides.first()?;
    strides.iter().all(|&s| s == stride).then_some(stride)
}

fn note_strides(arena: &Arena, e: ExprId, column: &For, step: &For, strides: &mut Vec<i64>) -> Option<()> {
    if arena.ty(e) == Ty::INDEX {
        let index = Affine::of(arena, e);
        let (by_column, by_step) = (index.stride(arena, column.var)?, index.stride(arena, step.var)?);
        match (by_column, by_step) {
            (0, 0) => {}
            _ if by_step != 0 && by_column % by_step == 0 => strides.push(by_column / by_step),
            _ => return None,
        }
        return Some(());
    }
    let mut parts = Vec::new();
    arena.for_each_child(e, |c| parts.push(c));
    parts.into_iter().try_for_each(|c| note_strides(arena, c, column, step, strides))
}

/// Whether an expression reads elements of less than 32 bits.
fn reads_narrow(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| {
        found |=
            matches!(arena.expr(e), Expr::Load(..)) && arena.dtype(e) != DType::Bool && arena.dtype(e).bytes() < WIDE
    });
    found
}
