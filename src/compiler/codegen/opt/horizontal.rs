//! Vectorises innermost reductions over contiguous elements in several partial sums, if the operation is associative or may
//! be reassociated.
//!
//! ```text
//! for k in 64: C[i] = C[i] + X[i * 64 + k]
//! // becomes
//! s = splat(0.0, 16)
//! for k in 4: s = s + X[i * 64 + k * 16; 16]
//! C[i] = C[i] + reduce(add, s)
//! ```
//!
//! Several reductions of one loop, such as a sum and a sum of squares, have registers of their own in the same loop. They may be
//! named before they are stored, as results of a block that reduces several values are:
//!
//! ```text
//! for k in 64:
//!   let a = C[i] + X[i * 64 + k]
//!   let b = D[i] + X[i * 64 + k] * X[i * 64 + k]
//!   C[i] = a
//!   D[i] = b
//! ```

use super::functions::pressure;
use super::machine::Machine;
use super::vectorize::{MEMORY_BYTES, gcd_of, largest_power, period, stride};
use super::widen::{Widener, is_byte, is_masked, is_short as is_short_element};
use crate::codegen::facts::{loads, neutral};
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::rewrite::{Substitution, for_each_expr, mentions_var};
use crate::loopir::{Arena, BufferId, Expr, ExprId, For, Kernel, LoopKind, Stmt, StmtId, Ty};
use smallvec::SmallVec;

/// Number of partial sums, in vectors.
const PARTIAL: i64 = 4;

/// Number of partial results of conditions, in vectors of bytes.
const PARTIAL_OF_BYTES: i64 = 2;

/// Minimum number of conditions that are combined in lanes of bytes, in vectors: with 3 (200 conditions in a row) lanes of 32 bits
/// were faster, with 8 lanes of bytes by three times.
const SHORTEST_OF_BYTES: i64 = 4;

/// Minimum number of contiguous elements that become one vector.
const SHORTEST: i64 = 4;

/// Elements of 32 bits in a row of partial sums of the widest vectors. Digits of indices, such as those of packed numbers, repeat after
/// as many at most.
pub(super) const ROW: i64 = PARTIAL * 16;

/// Maximum number of reductions in one loop.
const MOST: usize = 4;

/// Vectorises the reductions of a loop, whose partial sums live through all loops around it that belong to the reduction; `false` if
/// the loop does anything else, or this does not pay.
pub(super) fn sums(kernel: &mut Kernel, l: &For, machine: &Machine, out: &mut Vec<StmtId>) -> bool {
    let (mut outer, mut inner) = (SmallVec::<[For; 4]>::new(), *l);
    while let &[s] = kernel.stmts.list(inner.body)
        && let Stmt::For(next) = kernel.stmts.get(s)
    {
        if next.kind == LoopKind::Parallel {
            return false;
        }
        outer.push(inner);
        inner = next;
    }
    let Some(stores) = stores(kernel, &inner) else { return false };
    let nest = Nest { outer: &outer, inner: &inner };
    let Some(found) = stores.into_iter().map(|s| Reduction::of(kernel, &nest, s, machine)).collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    // The sums must neither determine each other nor the places of the results.
    let is_apart = |r: &Reduction| {
        let other = |o: &Reduction| o.buffer != r.buffer || std::ptr::eq(o, r);
        found
            .iter()
            .all(|o| other(o) && !loads(&kernel.arena, r.term, o.buffer) && !loads(&kernel.arena, r.index, o.buffer))
    };
    if !found.iter().all(is_apart) {
        return false;
    }
    let Some(rows) = Rows::of(kernel, &nest, &found, machine) else { return false };
    rows.emit(kernel, &nest, &found, machine, out)
}

/// The stores of a loop whose body is nothing else, but for names of the values stored.
fn stores(kernel: &mut Kernel, l: &For) -> Option<SmallVec<[(BufferId, ExprId, ExprId); 2]>> {
    let mut named = Substitution::default();
    let mut stores = SmallVec::new();
    for i in 0..l.body.len() {
        match kernel.stmts.get(kernel.stmts.list(l.body)[i]) {
            Stmt::Let { var, value } => {
                let value = named.expr(&mut kernel.arena, value);
                named.set(var, value);
            }
            Stmt::Store { buffer, index, value } => {
                let (index, value) = (named.expr(&mut kernel.arena, index), named.expr(&mut kernel.arena, value));
                stores.push((buffer, index, value));
            }
            _ => return None,
        }
    }
    (1..=MOST).contains(&stores.len()).then_some(stores)
}

/// The loops of a reduction.
struct Nest<'a> {
    /// Loops around the innermost one, from the outermost.
    outer: &'a [For],
    inner: &'a For,
}

/// One of the reductions of a loop: `buffer[index] = buffer[index] op term`.
struct Reduction {
    buffer: BufferId,
    index: ExprId,
    op: BinOp,
    /// The operator on lanes: that of numbers, for conditions.
    lanes_op: BinOp,
    term: ExprId,
    /// The type of a lane.
    dtype: DType,
    neutral: ExprId,
    is_condition: bool,
    /// Whether lanes are bytes, as many in a register as it has.
    is_of_bytes: bool,
    /// Number of partial sums, in vectors.
    partial: i64,
    /// Whether the remainder can be read with a mask.
    has_short: bool,
    /// Number of iterations after which the digits of indices repeat, such as those of packed numbers; 1 if there are none.
    period: i64,
}

impl Reduction {
    fn of(
        kernel: &mut Kernel,
        nest: &Nest,
        (buffer, index, value): (BufferId, ExprId, ExprId),
        machine: &Machine,
    ) -> Option<Reduction> {
        let l = nest.inner;
        let arena = &kernel.arena;
        if nest.outer.iter().chain([l]).any(|o| stride(arena, index, o.var) != Some(0)) {
            return None;
        }
        let n = arena.as_int(l.extent)?;
        let (op, term) = combined(&mut kernel.arena, buffer, index, value)?;
        let arena = &kernel.arena;
        let is_condition = arena.dtype(value) == DType::Bool;
        // Conditions in memory are bytes, as many in a register as it has. To join as many lanes in the end takes longer.
        let around = nest.outer.iter().map(|o| arena.as_int(o.extent).unwrap_or(1)).fold(n, i64::saturating_mul);
        let is_of_bytes = is_condition
            && machine.vectors.has_regions()
            && n >= MEMORY_BYTES
            && around >= SHORTEST_OF_BYTES * machine.vectors.bytes as i64
            && is_of_booleans(arena, term);
        let (lanes_op, term, dtype) = match is_condition {
            // All hold if the least of the numbers is 1, and any if the greatest is.
            true => {
                let least = if op == BinOp::And { BinOp::Min } else { BinOp::Max };
                let dtype = if is_of_bytes { DType::UInt8 } else { DType::Int32 };
                (least, kernel.arena.cast(dtype, term), dtype)
            }
            false => (op, term, arena.dtype(value)),
        };
        let arena = &kernel.arena;
        if dtype.is_float() && !machine.reassociates {
            return None;
        }
        // Operands are contiguous or invariant; the term itself is not.
        let mut fits = true;
        let mut is_busy = false;
        // Whether the remainder can be read with a mask.
        let has_narrow = machine.vectors.has_narrow_masks();
        // Minima and maxima of 16-bit elements take lanes of 16 bits, whose remainder overlaps.
        let is_sum = matches!(lanes_op, BinOp::Add | BinOp::Mul);
        let mut has_short =
            machine.vectors.has_regions() && (is_masked(dtype) || has_narrow && is_sum && dtype.is_half());
        // Wider elements take several registers for each of the sums.
        let mut is_wide = false;
        let mut repeats = 1;
        for_each_expr(arena, term, &mut |e| match arena.expr(e) {
            Expr::Call(f, _) => is_busy |= pressure(f, arena.dtype(e), machine) > 0,
            Expr::Load(b, i) => {
                is_wide |= kernel.buffer(b).dtype.bytes() > dtype.bytes();
                match stride(arena, i, l.var) {
                    Some(0) => {}
                    Some(n) if n == i64::from(arena.lanes(e)) => {
                        let of = kernel.buffer(b).dtype;
                        let is_widened = has_narrow
                            && arena.lanes(e) == 1
                            && dtype.bytes() == 4
                            && (is_short_element(of) || is_byte(of));
                        has_short &= of == dtype || is_widened;
                    }
                    None if arena.lanes(e) == 1 && machine.vectors.has_regions() => {
                        match period(arena, i, l.var, ROW) {
                            Some(period) => repeats = repeats / gcd_of(repeats, period) * period,
                            None => fits = false,
                        }
                    }
                    _ => fits = false,
                }
            }
            Expr::Local(_) => fits = false,
            _ => {}
        });
        if !fits || repeats > ROW || !mentions_var(arena, term, &mut |v| v == l.var) {
            return None;
        }
        // Functions keep the machine busy, and need the registers.
        let partial = if is_busy || is_wide { 1 } else { PARTIAL };
        let neutral = neutral(&mut kernel.arena, lanes_op, dtype)?;
        Some(Reduction {
            buffer,
            index,
            op,
            lanes_op,
            term,
            dtype,
            neutral,
            is_condition,
            is_of_bytes,
            partial,
            has_short,
            period: repeats,
        })
    }

    fn lanes(&self, machine: &Machine) -> i64 {
        if self.is_of_bytes { machine.vectors.bytes as i64 } else { machine.vectors.lanes(self.dtype) }
    }
}

/// How the iterations of the innermost loop are shared out.
struct Rows {
    n: i64,
    /// Elements of an iteration of the new loop.
    row: i64,
    /// Whether the last row may overlap the one before: an element may count twice for a minimum.
    may_overlap: bool,
    /// Whether a remainder of a row can be read with a mask.
    has_short: bool,
    /// Whether digits of indices repeat in each row.
    repeats: bool,
}

/// What is left after the last whole row.
enum Left {
    Nothing,
    /// A shorter row.
    Short(ExprId),
    /// A row that overlaps the one before.
    Overlapping(ExprId),
    /// Iterations of their own.
    Loop,
}

impl Rows {
    /// `None` if the iterations are too few, or the reductions need different rows.
    fn of(kernel: &Kernel, nest: &Nest, found: &[Reduction], machine: &Machine) -> Option<Rows> {
        let n = kernel.arena.as_int(nest.inner.extent)?;
        let first = found.first()?;
        let lanes = first.lanes(machine);
        if found.iter().any(|r| r.lanes(machine) != lanes) {
            return None;
        }
        let has_short = found.iter().all(|r| r.has_short);
        let most = if found.len() > 2 { PARTIAL / 2 } else { PARTIAL };
        let partial = found.iter().map(|r| r.partial).fold(most, i64::min);
        let row = if first.is_of_bytes {
            largest_power(n.min(PARTIAL_OF_BYTES * lanes))
        } else if has_short && n >= SHORTEST && n <= partial * lanes {
            n
        } else if n >= 2 * lanes {
            largest_power((n / lanes).min(partial)) * lanes
        } else {
            return None;
        };
        // Whole rows have whole periods.
        let period = found.iter().fold(1, |period, r| period / gcd_of(period, r.period) * r.period);
        if period > 1 && (row % period != 0 || n % row != 0) {
            return None;
        }
        // Without a loop, a condition that is stored would be kept in a register of one byte, which regions with lanes of 32 bits
        // do not have.
        let has_loop = n / row > 1 || !nest.outer.is_empty();
        let overlaps = |r: &Reduction| matches!(r.lanes_op, BinOp::Min | BinOp::Max) && (has_loop || !r.is_condition);
        let may_overlap = found.iter().all(overlaps);
        // In loops around it, the remainder has sums of its own.
        let is_covered = n % row == 0 || has_short || may_overlap;
        (is_covered || nest.outer.is_empty()).then_some(Rows { n, row, may_overlap, has_short, repeats: period > 1 })
    }

    fn emit(
        &self,
        kernel: &mut Kernel,
        nest: &Nest,
        found: &[Reduction],
        machine: &Machine,
        out: &mut Vec<StmtId>,
    ) -> bool {
        let Rows { n, row, .. } = *self;
        let (outer, l) = (nest.outer, nest.inner);
        let left = n % row;
        let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
        let base = kernel.arena.mul_const(e, row);
        let mut terms = Vec::with_capacity(found.len());
        for r in found {
            let widener = Widener::new(l.var, base, row as u16);
            let mut widener = if self.repeats { widener.with_repeated_lanes() } else { widener };
            let Some(whole) = widener.value(&mut kernel.arena, r.term) else { return false };
            terms.push((whole, self.left(kernel, l, r.term)));
        }
        let loops = terms.iter().filter(|(_, rest)| matches!(rest, Left::Loop)).count();
        if loops > 0 && (loops < found.len() || !outer.is_empty()) {
            return false;
        }
        // The steps of the new loop, what follows it in the loops around, and the partial sums of each reduction.
        let (mut steps, mut after) = (Vec::new(), Vec::new());
        let mut sums: Vec<SmallVec<[ExprId; 2]>> = Vec::with_capacity(found.len());
        for (r, (whole, rest)) in found.iter().zip(&terms) {
            let (sum, step) = r.sum(kernel, row, *whole, out);
            let mut of_row: SmallVec<[ExprId; 2]> = SmallVec::from_slice(&[sum]);
            match *rest {
                // In loops around it, it has a register of its own, so that it need not wait for the row before it.
                Left::Overlapping(term) if !outer.is_empty() => {
                    let (other, step) = r.sum(kernel, row, term, out);
                    after.push(kernel.stmts.push(step));
                    of_row[0] = kernel.arena.binary(r.lanes_op, sum, other);
                }
                Left::Overlapping(term) => {
                    if let Stmt::Set { local, .. } = step {
                        let value = kernel.arena.binary(r.lanes_op, sum, term);
                        after.push(kernel.stmts.push(Stmt::Set { local, value }));
                    }
                }
                Left::Short(term) if !outer.is_empty() => {
                    let (sum, step) = r.sum(kernel, left, term, out);
                    after.push(kernel.stmts.push(step));
                    of_row.push(sum);
                }
                // Once, it needs no register.
                Left::Short(term) => of_row.push(term),
                Left::Nothing | Left::Loop => {}
            }
            steps.push(kernel.stmts.push(step));
            sums.push(of_row);
        }
        let body = kernel.stmts.body(&steps);
        let extent = kernel.arena.index(n / row);
        let mut inside = vec![kernel.stmts.push(Stmt::For(For { var, extent, body, kind: LoopKind::Serial, ..*l }))];
        inside.extend(after);
        for o in outer.iter().rev() {
            let body = kernel.stmts.body(&inside);
            inside = vec![kernel.stmts.push(Stmt::For(For { body, ..*o }))];
        }
        out.extend(inside);
        for (r, sums) in found.iter().zip(sums) {
            let element = kernel.arena.load(r.buffer, r.index, Ty::scalar(kernel.buffer(r.buffer).dtype));
            let value = sums.into_iter().fold(element, |value, sum| {
                let mut all = kernel.arena.reduce(r.lanes_op, sum);
                if r.is_condition {
                    let zero = kernel.arena.int(0, r.dtype);
                    all = kernel.arena.compare(CmpOp::Ne, all, zero);
                }
                kernel.arena.binary(r.op, value, all)
            });
            out.push(kernel.stmts.push(Stmt::Store { buffer: r.buffer, index: r.index, value }));
        }
        if loops > 0 {
            let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
            let at = kernel.arena.add_const(e, n - left);
            let body = Substitution::of(l.var, at).copy(kernel, l.body);
            let extent = kernel.arena.index(left);
            let rest = For { var, extent, body, kind: LoopKind::Serial, ..*l };
            // The remainder may still fill a vector.
            if !self::sums(kernel, &rest, machine, out) {
                out.push(kernel.stmts.push(Stmt::For(rest)));
            }
        }
        true
    }

    /// What is left of a term after the last whole row.
    fn left(&self, kernel: &mut Kernel, l: &For, term: ExprId) -> Left {
        let Rows { n, row, may_overlap, has_short, .. } = *self;
        let left = n % row;
        if left == 0 {
            return Left::Nothing;
        }
        let mut widened = |from: i64, lanes: i64| {
            let at = kernel.arena.index(from);
            Widener::new(l.var, at, lanes as u16).value(&mut kernel.arena, term)
        };
        if left > 1
            && has_short
            && let Some(term) = widened(n - left, left)
        {
            return Left::Short(term);
        }
        match may_overlap.then(|| widened(n - row, row)).flatten() {
            Some(term) => Left::Overlapping(term),
            None => Left::Loop,
        }
    }
}

/// Whether a condition consists of conditions in memory.
fn is_of_booleans(arena: &Arena, e: ExprId) -> bool {
    let all = |list: &[ExprId]| list.iter().all(|&a| is_of_booleans(arena, a));
    arena.dtype(e) == DType::Bool
        && match arena.expr(e) {
            Expr::Load(..) => true,
            Expr::Not(a) => all(&[a]),
            Expr::Binary(BinOp::And | BinOp::Or, a, b) | Expr::Compare(CmpOp::Eq | CmpOp::Ne, a, b) => all(&[a, b]),
            Expr::Call(Intrinsic::BitAnd | Intrinsic::BitOr, list) => all(arena.list(list)),
            _ => false,
        }
}

impl Reduction {
    /// A register of partial sums, set before the loops, and the statement that adds a term.
    fn sum(&self, kernel: &mut Kernel, lanes: i64, term: ExprId, out: &mut Vec<StmtId>) -> (ExprId, Stmt) {
        let name = kernel.buffer(self.buffer).name;
        let local = kernel.arena.new_local(name, Ty::vector(self.dtype, lanes as u16));
        let start = kernel.arena.broadcast(self.neutral, lanes as u16);
        out.push(kernel.stmts.push(Stmt::Set { local, value: start }));
        let sum = kernel.arena.local_expr(local);
        let value = match kernel.arena.expr(term) {
            // A dot product accumulates by itself.
            Expr::Dot4(zero, a, b) if self.lanes_op == BinOp::Add && kernel.arena.is_number(zero, 0) => {
                kernel.arena.dot4(sum, a, b)
            }
            _ => kernel.arena.binary(self.lanes_op, sum, term),
        };
        (sum, Stmt::Set { local, value })
    }
}

/// The operator and the other operand of `buffer[index] op term`, if reordering is allowed.
fn combined(arena: &mut Arena, buffer: BufferId, index: ExprId, value: ExprId) -> Option<(BinOp, ExprId)> {
    let is_old = |arena: &Arena, e| matches!(arena.expr(e), Expr::Load(b, i) if b == buffer && i == index);
    if let Expr::Dot4(acc, a, b) = arena.expr(value)
        && is_old(arena, acc)
    {
        let zero = arena.int(0, DType::Int32);
        return Some((BinOp::Add, arena.dot4(zero, a, b)));
    }
    let (op, a, b) = match arena.expr(value) {
        Expr::Binary(op, a, b) => (op, a, b),
        // Both operands are evaluated, unlike those of `and` and `or`.
        Expr::Call(f @ (Intrinsic::BitAnd | Intrinsic::BitOr), list) if arena.dtype(value) == DType::Bool => {
            let &[a, b] = arena.list(list) else { return None };
            let op = if f == Intrinsic::BitAnd { BinOp::And } else { BinOp::Or };
            return if is_old(arena, a) { Some((op, b)) } else { is_old(arena, b).then_some((op, a)) };
        }
        _ => return None,
    };
    match op {
        BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max => {
            // If an operand is NaN, minimum and maximum return the second one, so the order determines which NaN
            // remains. That order is not preserved for floats that may be reassociated.
            if is_old(arena, a) {
                Some((op, b))
            } else if is_old(arena, b) {
                Some((op, a))
            } else {
                None
            }
        }
        BinOp::Sub | BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod | BinOp::And | BinOp::Or => None,
    }
}
