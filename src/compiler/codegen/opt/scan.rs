//! Computes running sums and the like with full vectors.
//!
//! Each element of a scan (`cumsum`, `cumprod`) needs the one before it. Where scans lie side by side, the elements of neighbouring
//! scans are the lanes of a vector: the loop over the scans moves inside.
//!
//! ```text
//! for v in 64 independent: Y[v] = X[v]; for k in 99: Y[v + k * 64 + 64] = Y[v + k * 64] + X[v + k * 64 + 64]
//! // becomes
//! for v in 64 independent: Y[v] = X[v]
//! for k in 99: for v in 64 independent: Y[v + k * 64 + 64] = Y[v + k * 64] + X[v + k * 64 + 64]
//! ```
//!
//! Where each scan is contiguous, a tile of as many rows as a vector has lanes is transposed, scanned, and transposed back
//! (`transpose`). Each element is the result of the same operations in the same order as before.
//!
//! ```text
//! for v in 16 independent: s[0] = 0.0; for k in 64: { Y[v * 64 + k] = s[0] + X[v * 64 + k]; s[0] = s[0] + X[v * 64 + k] }
//! // becomes
//! for r in 16: s[r] = 0.0
//! for b in 4 {
//!   for r in 16: for k in 16: tile[k * 16 + r] = X[r * 64 + b * 16 + k]
//!   for k in 16: for r in 16: { s[r] = s[r] + tile[k * 16 + r]; tile[k * 16 + r] = s[r] }
//!   for r in 16: for k in 16: Y[r * 64 + b * 16 + k] = tile[k * 16 + r]
//! }
//! ```
//!
//! A scan alone is cut into parts that are the rows of a tile. Each part is scanned from its first element on, and what precedes
//! it is added at the end. This changes the order of operations, so floats must allow that.
//!
//! ```text
//! for r in 16: before[r] = s[0]; s[0] = s[0] + tile[r + 240]
//! for r in 16: for k in 16: Y[b * 256 + r * 16 + k] = before[r] + tile[k * 16 + r]
//! ```

use super::machine::Machine;
use super::vectorize::largest_power;
use super::walk::{around, as_first, counted, placement_inside, replace_loops};
use crate::codegen::facts::{fails, loads};
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{Substitution, for_each_operand, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, Ty, VarId,
};

/// Elements of a row in a tile: those of a cache line of 32-bit elements.
const COLUMNS: i64 = 16;
/// Minimum bytes of a vector of rows: fewer rows are scanned one by one.
const MIN_BYTES: i64 = 32;
/// Elements of neighbouring scans that run together: few enough for the rows of several to stay in the first cache.
const STRIP: i64 = 256;

/// Rewrites the scans of the kernel. Returns whether there are any.
pub(super) fn scan(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let before = kernel.body;
    kernel.body = body(kernel, before, machine, Placement::Shared);
    kernel.body != before
}

fn body(kernel: &mut Kernel, old: Body, machine: &Machine, placement: Placement) -> Body {
    let new = alone_in(kernel, old, machine, placement);
    replace_loops(kernel, new, &mut |kernel, s, l, out| {
        if let Some(new) = neighbours(kernel, &l).or_else(|| rows(kernel, &l, machine, placement)) {
            return out.extend(new);
        }
        let inner = body(kernel, l.body, machine, placement_inside(&l, placement));
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// A scan: a loop behind the statement that sets the first value.
struct Scan {
    l: For,
    steps: i64,
    /// The value before the loop.
    start: ExprId,
    /// How a value and an element combine.
    op: BinOp,
    /// Whether the element is the left operand.
    swapped: bool,
    /// The element of an iteration.
    element: ExprId,
    out: BufferId,
    /// Where an iteration stores its result.
    index: ExprId,
    /// Whether the result of an iteration is the value before its element.
    is_exclusive: bool,
    /// Whether the value is kept in the result: the statement before the loop stores the first one there. Otherwise it is kept in a
    /// scratch buffer, which nothing else reads.
    in_result: bool,
}

impl Scan {
    /// The scan that a statement and the loop behind it are.
    fn of(kernel: &Kernel, first: StmtId, next: StmtId) -> Option<Scan> {
        let arena = &kernel.arena;
        let Stmt::Store { buffer, index, value: start } = kernel.stmts.get(first) else { return None };
        let Stmt::For(l) = kernel.stmts.get(next) else { return None };
        let steps = arena.as_int(l.extent).filter(|&n| n > 0)?;
        if l.kind != LoopKind::Serial || mentions_var(arena, start, &mut |v| v == l.var) {
            return None;
        }
        let combined = |value, old| {
            let Expr::Binary(op, a, b) = arena.expr(value) else { return None };
            let is_scan = matches!(op, BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max);
            let is_old = |e| matches!(arena.expr(e), Expr::Load(b, i) if b == buffer && Affine::of(arena, i) == old);
            match (is_scan, is_old(a), is_old(b)) {
                (true, true, false) => Some((op, false, b)),
                (true, false, true) => Some((op, true, a)),
                _ => None,
            }
        };
        let scan = match *kernel.stmts.list(l.body) {
            [s] => {
                let Stmt::Store { buffer: out, index: to, value } = kernel.stmts.get(s) else { return None };
                let at = Affine::of(arena, to);
                let stride = at.stride(arena, l.var)?;
                let mut old = at.clone();
                old.constant = old.constant.checked_sub(stride)?;
                let (op, swapped, element) = combined(value, old.clone())?;
                // The first value lies before the first result.
                let var = old.terms.iter().find(|t| arena.as_var(t.0) == Some(l.var))?.0;
                old.add_term(var, -stride);
                if out != buffer || stride <= 0 || Affine::of(arena, index) != old {
                    return None;
                }
                let (is_exclusive, in_result) = (false, true);
                Scan { l, steps, start, op, swapped, element, out, index: to, is_exclusive, in_result }
            }
            [s, t] => {
                let Stmt::Store { buffer: out, index: to, value: result } = kernel.stmts.get(s) else { return None };
                let Stmt::Store { buffer: kept, index: at, value } = kernel.stmts.get(t) else { return None };
                let old = Affine::of(arena, at);
                let (op, swapped, element) = combined(value, old.clone())?;
                let is_exclusive = match arena.expr(result) {
                    Expr::Load(b, i) => b == buffer && Affine::of(arena, i) == old,
                    _ => false,
                };
                let is_kept = kept == buffer && Affine::of(arena, index) == old && old.terms.is_empty();
                if out == buffer || !is_kept || !(is_exclusive || result == value) || !is_own(kernel, buffer, 3) {
                    return None;
                }
                let in_result = false;
                Scan { l, steps, start, op, swapped, element, out, index: to, is_exclusive, in_result }
            }
            _ => return None,
        };
        // Elements may be read before others are written.
        let is_apart = |e| !loads(arena, e, buffer) && !loads(arena, e, scan.out) && !fails(arena, e);
        let same = kernel.buffer(scan.out).dtype == kernel.buffer(buffer).dtype;
        (same && [scan.element, scan.index, start].into_iter().all(is_apart)).then_some(scan)
    }

    fn dtype(&self, kernel: &Kernel) -> DType {
        kernel.buffer(self.out).dtype
    }

    /// A value combined with what follows.
    fn combine(&self, arena: &mut Arena, before: ExprId, element: ExprId) -> ExprId {
        let (a, b) = if self.swapped { (element, before) } else { (before, element) };
        arena.binary(self.op, a, b)
    }

    /// The element and the index of the result of iteration `k`.
    fn at(&self, kernel: &mut Kernel, outer: &mut Substitution, k: ExprId) -> (ExprId, ExprId) {
        outer.set(self.l.var, k);
        let arena = &mut kernel.arena;
        (outer.expr(arena, self.element), outer.expr(arena, self.index))
    }
}

/// Whether a buffer is scratch memory that only this many statements of the kernel access.
fn is_own(kernel: &Kernel, buffer: BufferId, statements: usize) -> bool {
    let mut n = 0;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        let mut uses = matches!(stmt, Stmt::Store { buffer: b, .. } if b == buffer);
        for_each_operand(stmt, |e| uses |= loads(&kernel.arena, e, buffer));
        n += usize::from(uses);
    });
    !kernel.buffer(buffer).is_param() && n == statements
}

// ---- scans side by side ------------------------------------------------------------------------------------

/// The loops of scans that are contiguous across each other.
fn neighbours(kernel: &mut Kernel, l: &For) -> Option<Vec<StmtId>> {
    let &[first, next] = kernel.stmts.list(l.body) else { return None };
    let n = kernel.arena.as_int(l.extent).filter(|&n| n > 1)?;
    let scan = Scan::of(kernel, first, next)?;
    if l.iterations != Iterations::Independent || !scan.in_result {
        return None;
    }
    let index = Affine::of(&kernel.arena, scan.index);
    // Scans of rows of rows: the loop over the scans counts both.
    let inner = match index.stride(&kernel.arena, l.var) {
        Some(1) => n,
        Some(_) => return None,
        None => period(&kernel.arena, &index, l.var).filter(|&inner| n % inner == 0)?,
    };
    // Short rows fill no vectors.
    if inner * (scan.dtype(kernel).bytes() as i64) < MIN_BYTES {
        return None;
    }
    let strip =
        if inner % STRIP == 0 { STRIP } else { (STRIP / 2..=STRIP).rev().find(|s| inner % s == 0).unwrap_or(inner) };
    let outer_loop = (inner < n).then(|| counted(kernel, "v", n / inner));
    let (_, strip_loop, s) = counted(kernel, "v", inner / strip);
    let mut base = kernel.arena.mul_const(s, strip);
    if let Some((_, _, o)) = outer_loop {
        let rows = kernel.arena.mul_const(o, inner);
        base = kernel.arena.add(rows, base);
    }
    let mut made = Vec::new();
    // The first values.
    let (_, lanes, v) = counted(kernel, "v", strip);
    let at = kernel.arena.add(base, v);
    let stmt = kernel.stmts.get(first);
    let copy = Substitution::of(l.var, at).copy_stmt(kernel, stmt);
    let copy = kernel.stmts.push(copy);
    made.push(around(kernel, lanes, &[copy]));
    // The others.
    let (_, lanes, v) = counted(kernel, "v", strip);
    let at = kernel.arena.add(base, v);
    let inside = Substitution::of(l.var, at).copy(kernel, scan.l.body);
    let inside = kernel.stmts.single(Stmt::For(For { body: inside, ..lanes }));
    made.push(kernel.stmts.push(Stmt::For(For { body: inside, ..scan.l })));
    let strips = around(kernel, strip_loop, &made);
    let outer = match outer_loop {
        Some((_, outer, _)) => around(kernel, outer, &[strips]),
        None => strips,
    };
    Some(vec![as_first(kernel, outer, l)])
}

/// The period of a variable in an index that is contiguous along its remainders.
fn period(arena: &Arena, index: &Affine, var: VarId) -> Option<i64> {
    let of_var = |e, by| arena.as_var(e) == Some(var) && arena.as_int(by).is_some_and(|n| n > 1);
    let mut period = None;
    for &(atom, c) in &index.terms {
        let n = match arena.expr(atom) {
            Expr::Binary(BinOp::FloorMod, e, by) if of_var(e, by) && c == 1 => arena.as_int(by),
            Expr::Binary(BinOp::FloorDiv, e, by) if of_var(e, by) => arena.as_int(by),
            _ if mentions_var(arena, atom, &mut |v| v == var) => return None,
            _ => continue,
        };
        if period.is_some() && period != n {
            return None;
        }
        period = n;
    }
    period
}

// ---- contiguous scans --------------------------------------------------------------------------------------

/// The statements for scans of contiguous rows, as many together as a vector has lanes.
fn rows(kernel: &mut Kernel, l: &For, machine: &Machine, placement: Placement) -> Option<Vec<StmtId>> {
    let &[first, next] = kernel.stmts.list(l.body) else { return None };
    let n = kernel.arena.as_int(l.extent)?;
    let scan = Scan::of(kernel, first, next)?;
    let index = Affine::of(&kernel.arena, scan.index);
    let is_row = index.stride(&kernel.arena, scan.l.var) == Some(1);
    let lanes = lanes(kernel, &scan, machine, n)?;
    if l.iterations != Iterations::Independent || !is_row || scan.steps < COLUMNS {
        return None;
    }
    let new_tile = |kernel: &mut Kernel, placement| {
        let buffer = kernel.add_scratch("tile", scan.dtype(kernel), (COLUMNS + 1) * lanes, placement);
        let last_type = last_type(scan.dtype(kernel));
        Tile { buffer, so_far: kernel.add_scratch("so_far", last_type, lanes, placement), lanes }
    };
    let tile = new_tile(kernel, placement_inside(l, placement));
    let mut made = Vec::new();
    let (_, blocks, b) = counted(kernel, "v", n / lanes);
    let base = kernel.arena.mul_const(b, lanes);
    let inside = block(kernel, l, first, &scan, tile, base);
    let blocks = around(kernel, blocks, &inside);
    made.push(as_first(kernel, blocks, l));
    // The last rows, and some before: no row that is read is written.
    if n % lanes != 0 {
        let tile = if l.kind == LoopKind::Parallel { new_tile(kernel, placement) } else { tile };
        let base = kernel.arena.index(n - lanes);
        made.extend(block(kernel, l, first, &scan, tile, base));
    }
    Some(made)
}

/// The number of rows that are scanned together; `None` if vectors are not worthwhile.
fn lanes(kernel: &Kernel, scan: &Scan, machine: &Machine, n: i64) -> Option<i64> {
    let dtype = scan.dtype(kernel);
    let lane = if dtype.bytes() < 4 { DType::Int32 } else { dtype };
    let lanes = machine.vectors.lanes(lane).min(largest_power(n));
    (lanes * lane.bytes() as i64 >= MIN_BYTES).then_some(lanes)
}

/// The statements for as many rows as there are lanes, from `base` on.
fn block(kernel: &mut Kernel, l: &For, first: StmtId, scan: &Scan, tile: Tile, base: ExprId) -> Vec<StmtId> {
    let mut made = Vec::new();
    if scan.in_result {
        let (_, rows, r) = counted(kernel, "r", tile.lanes);
        let at = kernel.arena.add(base, r);
        let stmt = kernel.stmts.get(first);
        let copy = Substitution::of(l.var, at).copy_stmt(kernel, stmt);
        let copy = kernel.stmts.push(copy);
        made.push(around(kernel, rows, &[copy]));
    }
    let (_, rows, r) = counted(kernel, "r", tile.lanes);
    let at = kernel.arena.add(base, r);
    let start = Substitution::of(l.var, at).expr(&mut kernel.arena, scan.start);
    let start = kernel.arena.cast(kernel.buffer(tile.so_far).dtype, start);
    let store = kernel.store(tile.so_far, r, start);
    made.push(around(kernel, rows, &[store]));
    let (_, blocks, b) = counted(kernel, "k", scan.steps / COLUMNS);
    let from = kernel.arena.mul_const(b, COLUMNS);
    let inside = columns(kernel, l, scan, tile, base, from, COLUMNS);
    made.push(around(kernel, For { iterations: Iterations::Unknown, ..blocks }, &inside));
    if scan.steps % COLUMNS != 0 {
        let from = kernel.arena.index(scan.steps / COLUMNS * COLUMNS);
        made.extend(columns(kernel, l, scan, tile, base, from, scan.steps % COLUMNS));
    }
    made
}

/// The statements for some columns of the rows of a tile.
fn columns(kernel: &mut Kernel, l: &For, scan: &Scan, tile: Tile, base: ExprId, from: ExprId, n: i64) -> Vec<StmtId> {
    let mut made = Vec::new();
    let Tile { buffer, lanes, .. } = tile;
    // In: elements, transposed.
    let (_, rows, r) = counted(kernel, "r", lanes);
    let (_, inner, k) = counted(kernel, "k", n);
    let (row, step) = (kernel.arena.add(base, r), kernel.arena.add(from, k));
    let (element, _) = scan.at(kernel, &mut Substitution::of(l.var, row), step);
    let to = tile.at(kernel, k, r, 1);
    let store = kernel.store(buffer, to, element);
    let inner = around(kernel, inner, &[store]);
    made.push(around(kernel, rows, &[inner]));
    // Scanned, all rows together. The first results of an exclusive scan are those before the elements.
    if scan.is_exclusive {
        made.push(tile.copy(kernel, tile.so_far, buffer, 0));
    }
    let (_, inner, k) = counted(kernel, "k", n);
    made.push(tile.scanned(kernel, scan, inner, k, 1));
    // Out: transposed back.
    let (_, rows, r) = counted(kernel, "r", lanes);
    let (_, inner, k) = counted(kernel, "k", n);
    let (row, step) = (kernel.arena.add(base, r), kernel.arena.add(from, k));
    let (_, index) = scan.at(kernel, &mut Substitution::of(l.var, row), step);
    let result = tile.at(kernel, k, r, i64::from(!scan.is_exclusive));
    let result = kernel.load(buffer, result);
    let store = kernel.store(scan.out, index, result);
    let inner = around(kernel, inner, &[store]);
    made.push(around(kernel, rows, &[inner]));
    made
}

// ---- a scan alone ------------------------------------------------------------------------------------------

/// Replaces the scans among the statements of a body, if they are long.
fn alone_in(kernel: &mut Kernel, old: Body, machine: &Machine, placement: Placement) -> Body {
    let stmts = kernel.stmts.list(old).to_vec();
    let mut out = Vec::with_capacity(stmts.len());
    let mut at = 0;
    while at < stmts.len() {
        let next = stmts.get(at + 1);
        match next.and_then(|&next| alone(kernel, stmts[at], next, machine, placement)) {
            Some(made) => {
                out.extend(made);
                at += 2;
            }
            None => {
                out.push(stmts[at]);
                at += 1;
            }
        }
    }
    if out == stmts { old } else { kernel.stmts.body(&out) }
}

/// The statements for a contiguous scan, whose parts are the rows of a tile.
fn alone(
    kernel: &mut Kernel,
    first: StmtId,
    next: StmtId,
    machine: &Machine,
    placement: Placement,
) -> Option<Vec<StmtId>> {
    let scan = Scan::of(kernel, first, next)?;
    let index = Affine::of(&kernel.arena, scan.index);
    let dtype = scan.dtype(kernel);
    let lanes = lanes(kernel, &scan, machine, scan.steps)?;
    let (block, neutral) = (lanes * COLUMNS, neutral(scan.op));
    let is_row = index.stride(&kernel.arena, scan.l.var) == Some(1);
    // Rounding errors of half-precision sums are as large as what the order changes.
    let may_reorder = !dtype.is_float() || (machine.reassociates && dtype.bytes() >= 4);
    if !is_row || !may_reorder || scan.steps < block || (scan.is_exclusive && neutral.is_none()) {
        return None;
    }
    let tile = kernel.add_scratch("tile", dtype, block + lanes, placement);
    let before = kernel.add_scratch("before", dtype, lanes, placement);
    let (so_far, zero) = (kernel.add_scratch("so_far", dtype, 1, placement), kernel.arena.index(0));
    let mut made = Vec::new();
    if scan.in_result {
        made.push(first);
    }
    made.push(kernel.store(so_far, zero, scan.start));
    if let (true, Some(neutral)) = (scan.is_exclusive, neutral) {
        let (_, rows, r) = counted(kernel, "r", lanes);
        let neutral = kernel.arena.constant(neutral, Ty::scalar(dtype));
        let store = kernel.store(tile, r, neutral);
        made.push(around(kernel, rows, &[store]));
    }
    let (_, blocks, b) = counted(kernel, "b", scan.steps / block);
    let start = kernel.arena.mul_const(b, block);
    let ends = kernel.add_scratch("ends", last_type(dtype), lanes, placement);
    let inside = parts(kernel, &scan, Tile { buffer: tile, so_far: ends, lanes }, before, so_far, start);
    made.push(around(kernel, For { iterations: Iterations::Unknown, ..blocks }, &inside));
    // The rest, one by one.
    if !scan.in_result {
        let Stmt::Store { buffer, index, .. } = kernel.stmts.get(first) else { return None };
        let last = kernel.load(so_far, zero);
        made.push(kernel.store(buffer, index, last));
    }
    if scan.steps % block != 0 {
        let (var, rest, k) = counted(kernel, "k", scan.steps % block);
        let k = kernel.arena.add_const(k, scan.steps / block * block);
        let body = Substitution::of(scan.l.var, k).copy(kernel, scan.l.body);
        made.push(kernel.stmts.push(Stmt::For(For { var, body, iterations: Iterations::Unknown, ..rest })));
    }
    Some(made)
}

/// The value that changes nothing.
fn neutral(op: BinOp) -> Option<i64> {
    match op {
        BinOp::Add => Some(0),
        BinOp::Mul => Some(1),
        _ => None,
    }
}

/// The statements for the parts of a scan from `start` on.
fn parts(
    kernel: &mut Kernel,
    scan: &Scan,
    tile: Tile,
    before: BufferId,
    so_far: BufferId,
    start: ExprId,
) -> Vec<StmtId> {
    let Tile { buffer, lanes, .. } = tile;
    let mut made = Vec::new();
    let step = |kernel: &mut Kernel, k: ExprId, r: ExprId| {
        let arena = &mut kernel.arena;
        let part = arena.mul_const(r, COLUMNS);
        let at = arena.add(start, k);
        arena.add(at, part)
    };
    // In: a part in each row, transposed.
    let (_, rows, r) = counted(kernel, "r", lanes);
    let (_, inner, k) = counted(kernel, "k", COLUMNS);
    let k_of_scan = step(kernel, k, r);
    let (element, _) = scan.at(kernel, &mut Substitution::default(), k_of_scan);
    let to = tile.at(kernel, k, r, 1);
    let store = kernel.store(buffer, to, element);
    let inner = around(kernel, inner, &[store]);
    made.push(around(kernel, rows, &[inner]));
    // Scanned, all parts together.
    made.push(tile.copy(kernel, buffer, tile.so_far, lanes));
    let (_, inner, k) = counted(kernel, "k", COLUMNS - 1);
    made.push(tile.scanned(kernel, scan, inner, k, 2));
    // What precedes each part.
    let (_, rows, r) = counted(kernel, "r", lanes);
    let zero = kernel.arena.index(0);
    let (old, part) = (kernel.load(so_far, zero), tile.last(kernel, scan, r));
    let new = scan.combine(&mut kernel.arena, old, part);
    let stores = [kernel.store(before, r, old), kernel.store(so_far, zero, new)];
    made.push(around(kernel, For { iterations: Iterations::Unknown, ..rows }, &stores));
    // Out: transposed back.
    let (_, rows, r) = counted(kernel, "r", lanes);
    let (_, inner, k) = counted(kernel, "k", COLUMNS);
    let k_of_scan = step(kernel, k, r);
    let (_, index) = scan.at(kernel, &mut Substitution::default(), k_of_scan);
    let from = tile.at(kernel, k, r, i64::from(!scan.is_exclusive));
    let (old, part) = (kernel.load(before, r), kernel.load(buffer, from));
    let value = scan.combine(&mut kernel.arena, old, part);
    let store = kernel.store(scan.out, index, value);
    let inner = around(kernel, inner, &[store]);
    made.push(around(kernel, rows, &[inner]));
    made
}

/// Rows side by side: a row of the tile holds an element of each.
#[derive(Clone, Copy)]
struct Tile {
    buffer: BufferId,
    /// The last result of each row.
    so_far: BufferId,
    lanes: i64,
}

impl Tile {
    /// The index of element `k` of row `r`, `below` elements further.
    fn at(self, kernel: &mut Kernel, k: ExprId, r: ExprId, below: i64) -> ExprId {
        let arena = &mut kernel.arena;
        let row = arena.mul_const(k, self.lanes);
        let at = arena.add(row, r);
        arena.add_const(at, below * self.lanes)
    }

    /// Combines the elements of each row, from `first` on, with its last result. This stays in a register all through the loop, which
    /// is given with its variable.
    fn scanned(self, kernel: &mut Kernel, scan: &Scan, l: For, k: ExprId, first: i64) -> StmtId {
        let (_, rows, r) = counted(kernel, "r", self.lanes);
        let at = self.at(kernel, k, r, first);
        let (before, element) = (self.last(kernel, scan, r), kernel.load(self.buffer, at));
        let value = scan.combine(&mut kernel.arena, before, element);
        let value = kernel.arena.cast(last_type(scan.dtype(kernel)), value);
        let last = kernel.store(self.so_far, r, value);
        let result = self.last(kernel, scan, r);
        let result = kernel.store(self.buffer, at, result);
        let rows = around(kernel, rows, &[last, result]);
        around(kernel, For { iterations: Iterations::Unknown, ..l }, &[rows])
    }

    /// The last result of row `r`.
    fn last(self, kernel: &mut Kernel, scan: &Scan, r: ExprId) -> ExprId {
        let last = kernel.load(self.so_far, r);
        kernel.arena.cast(scan.dtype(kernel), last)
    }

    /// Copies an element of each row, from `start` on, to the first ones of a buffer.
    fn copy(self, kernel: &mut Kernel, from: BufferId, to: BufferId, start: i64) -> StmtId {
        let (_, rows, r) = counted(kernel, "r", self.lanes);
        let at = kernel.arena.add_const(r, start);
        let element = kernel.load(from, at);
        let element = kernel.arena.cast(kernel.buffer(to).dtype, element);
        let store = kernel.store(to, r, element);
        around(kernel, rows, &[store])
    }
}

/// The type in which the last results stay in registers: no register holds floats of half precision.
fn last_type(dtype: DType) -> DType {
    match dtype {
        DType::Float16 | DType::BFloat16 => DType::Float32,
        _ => dtype,
    }
}
