//! Vectorises the search for the largest or smallest of contiguous elements and its place.
//!
//! ```text
//! for k in 64 {
//!   let i = select(V[0] > X[k] | V[0] == X[k] & I[0] < k, I[0], k)
//!   let v = select(V[0] > X[k], V[0], X[k])
//!   I[0] = i
//!   V[0] = v
//! }
//! // becomes: each lane searches among elements of its own
//! v = X[0; 16]
//! i = splat(0, 16)
//! for j in 3 {
//!   i = select(v >= X[j * 16 + 16; 16], i, splat(j * 16 + 16, 16))
//!   v = max(v, X[j * 16 + 16; 16])
//! }
//! // the best value of all lanes, and the first of its places
//! best = reduce(max, v)
//! first = reduce(min, select(v < splat(best, 16), splat(2147483647, 16), i + ramp(0, 1, 16)))
//! ```
//!
//! If elements are left, the last row ends with the last element and overlaps the one before: an element that is found twice has one
//! place. The element before the loop is compared at the end. As with other reductions of floats, which of several NaN counts is not defined.

use super::machine::Machine;
use super::widen::Widener;
use crate::codegen::facts::loads;
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::rewrite::Substitution;
use crate::loopir::{Affine, Arena, BufferId, Expr, ExprId, For, Kernel, LoopKind, Stmt, StmtId, Ty};

/// The search that a loop performs.
struct Search {
    /// Where the best value so far is.
    value: (BufferId, ExprId),
    /// Where its place is.
    place: (BufferId, ExprId),
    /// How the best value so far compares with an element that does not replace it: `>` or `<`.
    better: CmpOp,
    /// How the place so far compares with that of an equal element that does not replace it: `<` for the first one.
    earlier: CmpOp,
    /// The element of an iteration.
    element: ExprId,
    /// Its place.
    at: ExprId,
}

/// Maximum number of vectors that search at the same time.
const PARTS: i64 = 4;

/// Half cycles that a vector takes: a comparison, a selection and a maximum.
const STEP: i64 = 3;

/// Half cycles until the next vector of a lane can be compared.
const LATENCY: i64 = 10;

/// Emits the vectorised loop; `false` if it is no search, or too short.
pub(super) fn search(kernel: &mut Kernel, l: &For, machine: &Machine, out: &mut Vec<StmtId>) -> bool {
    let Some(found) = Search::of(kernel, l) else { return false };
    let arena = &kernel.arena;
    let dtype = arena.dtype(found.element);
    let Some(n) = arena.as_int(l.extent) else { return false };
    let lanes = machine.vectors.lanes(DType::Int32);
    // Places are computed with 32 bits, in as many lanes as elements.
    let fits = dtype.bytes() == 4 && n < i64::from(i32::MAX) && (machine.reassociates || !dtype.is_float());
    if !fits || n < lanes {
        return false;
    }
    let row = parts_of(n, lanes) * lanes;
    let Some(vectors) = Vectors::of(kernel, l, &found, row) else { return false };
    vectors.emit(kernel, l, &found, out);
    true
}

/// The number of vectors that search at the same time: many, but few where the last ones would visit elements again.
fn parts_of(n: i64, lanes: i64) -> i64 {
    let most = (n / lanes).clamp(1, PARTS);
    let takes = |&parts: &i64| (n + parts * lanes - 1) / (parts * lanes) * (parts * STEP).max(LATENCY);
    (1..=most).rev().min_by_key(takes).unwrap_or(most)
}

impl Search {
    fn of(kernel: &Kernel, l: &For) -> Option<Search> {
        let arena = &kernel.arena;
        let &[a, b, c, d] = kernel.stmts.list(l.body) else { return None };
        let named = |s| match kernel.stmts.get(s) {
            Stmt::Let { var, value } => Some((var, value)),
            _ => None,
        };
        let lets = [named(a)?, named(b)?];
        let stored = |s| match kernel.stmts.get(s) {
            Stmt::Store { buffer, index, value } => {
                let (_, value) = lets.into_iter().find(|&(var, _)| arena.as_var(value) == Some(var))?;
                (Affine::of(arena, index).stride(arena, l.var) == Some(0)).then_some(((buffer, index), value))
            }
            _ => None,
        };
        let (one, other) = (stored(c)?, stored(d)?);
        let found = Search::with(arena, one, other).or_else(|| Search::with(arena, other, one))?;
        // Only the two results are read and written.
        let (value, place) = (found.value.0, found.place.0);
        let is_apart = [found.element, found.at, found.value.1, found.place.1]
            .into_iter()
            .all(|e| !loads(arena, e, value) && !loads(arena, e, place));
        let counts = Affine::of(arena, found.at).stride(arena, l.var) == Some(1);
        (value != place && is_apart && counts).then_some(found)
    }

    /// The search with a value `(old > x ? old : x)` and a place `(old > x or old == x and p < k ? p : k)`.
    fn with(
        arena: &Arena,
        (value, of_value): ((BufferId, ExprId), ExprId),
        (place, of_place): ((BufferId, ExprId), ExprId),
    ) -> Option<Search> {
        let is_old = |e, (buffer, index)| arena.expr(e) == Expr::Load(buffer, index);
        let Expr::Select(is_better, old, element) = arena.expr(of_value) else { return None };
        let Expr::Compare(better @ (CmpOp::Gt | CmpOp::Lt), a, b) = arena.expr(is_better) else { return None };
        if !is_old(old, value) || a != old || b != element {
            return None;
        }
        let Expr::Select(stays, old_place, next) = arena.expr(of_place) else { return None };
        if !is_old(old_place, place) {
            return None;
        }
        let (first, second) = both(arena, stays, BinOp::Or, Intrinsic::BitOr)?;
        let (equal, before) = both(arena, second, BinOp::And, Intrinsic::BitAnd)?;
        let Expr::Compare(CmpOp::Eq, x, y) = arena.expr(equal) else { return None };
        let Expr::Compare(earlier @ (CmpOp::Lt | CmpOp::Gt), p, k) = arena.expr(before) else { return None };
        let fits = first == is_better && (x, y) == (old, element) && (p, k) == (old_place, next);
        let at = match arena.expr(next) {
            Expr::Cast(at) => at,
            _ => next,
        };
        let is_index = arena.ty(at) == Ty::INDEX && matches!(arena.dtype(next), DType::Int32 | DType::Int64);
        (fits && is_index).then_some(Search { value, place, better, earlier, element, at })
    }
}

/// The operands of a connective of conditions.
pub(super) fn both(arena: &Arena, e: ExprId, op: BinOp, bitwise: Intrinsic) -> Option<(ExprId, ExprId)> {
    match arena.expr(e) {
        Expr::Binary(o, a, b) if o == op => Some((a, b)),
        Expr::Call(f, list) if f == bitwise => match arena.list(list) {
            &[a, b] => Some((a, b)),
            _ => None,
        },
        _ => None,
    }
}

/// The elements of rows, and the places of the first ones in all lanes, as `int32`.
struct Vectors {
    row: i64,
    first: (ExprId, ExprId),
    next: (ExprId, ExprId),
    /// The loop over the rows behind the first one.
    rows: Option<For>,
    /// The last row, if it overlaps the one before.
    last: Option<(ExprId, ExprId)>,
}

impl Vectors {
    fn of(kernel: &mut Kernel, l: &For, search: &Search, row: i64) -> Option<Vectors> {
        let arena = &mut kernel.arena;
        let n = arena.as_int(l.extent)?;
        let of_row = |arena: &mut Arena, base| {
            let mut widener = Widener::new(l.var, base, row as u16);
            let element = widener.value(arena, search.element)?;
            let at = Substitution::of(l.var, base).expr(arena, search.at);
            let at = arena.cast(DType::Int32, at);
            Some((element, arena.broadcast(at, row as u16)))
        };
        let start = arena.index(0);
        let first = of_row(arena, start)?;
        let (var, e) = arena.new_index(arena.var(l.var).name);
        let base = arena.mul_const(e, row);
        let base = arena.add_const(base, row);
        let next = of_row(arena, base)?;
        let base = arena.index(n - row);
        let last = if n % row > 0 { Some(of_row(arena, base)?) } else { None };
        let rows = (n / row > 1).then(|| {
            let extent = kernel.arena.index(n / row - 1);
            For { var, extent, body: l.body, kind: LoopKind::Serial, ..*l }
        });
        Some(Vectors { row, first, next, rows, last })
    }

    fn emit(self, kernel: &mut Kernel, l: &For, search: &Search, out: &mut Vec<StmtId>) {
        let lanes = self.row as u16;
        let dtype = kernel.arena.dtype(search.element);
        let name = kernel.arena.var(l.var).name;
        let values = kernel.arena.new_local(kernel.buffer(search.value.0).name, Ty::vector(dtype, lanes));
        let places = kernel.arena.new_local(name, Ty::vector(DType::Int32, lanes));
        out.push(kernel.stmts.push(Stmt::Set { local: values, value: self.first.0 }));
        out.push(kernel.stmts.push(Stmt::Set { local: places, value: self.first.1 }));
        let arena = &mut kernel.arena;
        let (v, p) = (arena.local_expr(values), arena.local_expr(places));
        // The best of the lanes, and the earliest of its places: a lane that is not worse has it.
        let (best_of, worse) = match search.better {
            CmpOp::Gt => (BinOp::Max, CmpOp::Lt),
            _ => (BinOp::Min, CmpOp::Gt),
        };
        let step = |kernel: &mut Kernel, (x, k): (ExprId, ExprId)| {
            let arena = &mut kernel.arena;
            // In a lane, places grow: the first one of equal elements stays, or the last one replaces it.
            let stays = match (search.earlier, search.better) {
                (CmpOp::Lt, CmpOp::Gt) => CmpOp::Ge,
                (CmpOp::Lt, _) => CmpOp::Le,
                (_, better) => better,
            };
            let stays = arena.compare(stays, v, x);
            let (place, value) = (arena.select(stays, p, k), arena.binary(best_of, v, x));
            let step = [Stmt::Set { local: places, value: place }, Stmt::Set { local: values, value }];
            step.map(|s| kernel.stmts.push(s))
        };
        if let Some(rows) = self.rows {
            let step = step(kernel, self.next);
            let body = kernel.stmts.body(&step);
            out.push(kernel.stmts.push(Stmt::For(For { body, ..rows })));
        }
        if let Some(last) = self.last {
            out.extend(step(kernel, last));
        }
        let arena = &mut kernel.arena;
        let (place_of, never) = match search.earlier {
            CmpOp::Lt => (BinOp::Min, i32::MAX),
            _ => (BinOp::Max, i32::MIN),
        };
        let best = arena.reduce(best_of, v);
        let name_of_best = kernel.buffer(search.value.0).name;
        let (best_var, place_var) = (
            kernel.arena.new_var(name_of_best, Ty::scalar(dtype)),
            kernel.arena.new_var(name, Ty::scalar(DType::Int32)),
        );
        out.push(kernel.stmts.push(Stmt::Let { var: best_var, value: best }));
        let arena = &mut kernel.arena;
        let best = arena.var_expr(best_var);
        let all = arena.broadcast(best, lanes);
        let is_worse = arena.compare(worse, v, all);
        let never = arena.int(i64::from(never), DType::Int32);
        let never = arena.broadcast(never, lanes);
        let start = arena.index(0);
        let own = arena.ramp(start, 1, lanes);
        let own = arena.cast(DType::Int32, own);
        let p = arena.binary(BinOp::Add, p, own);
        let candidates = arena.select(is_worse, never, p);
        let place = arena.reduce(place_of, candidates);
        out.push(kernel.stmts.push(Stmt::Let { var: place_var, value: place }));
        // Compared with the element before the loop, as in an iteration.
        let of_place = kernel.buffer(search.place.0).dtype;
        let arena = &mut kernel.arena;
        let (old, old_place) = (
            arena.load(search.value.0, search.value.1, Ty::scalar(dtype)),
            arena.load(search.place.0, search.place.1, Ty::scalar(of_place)),
        );
        let place = arena.var_expr(place_var);
        let place = arena.cast(of_place, place);
        let better = arena.compare(search.better, old, best);
        let (equal, before) = (arena.compare(CmpOp::Eq, old, best), arena.compare(search.earlier, old_place, place));
        let tie = arena.binary(BinOp::And, equal, before);
        let stays = arena.binary(BinOp::Or, better, tie);
        let (new_place, new) = (arena.select(stays, old_place, place), arena.select(better, old, best));
        let (value_var, new_place_var) =
            (arena.new_var(name_of_best, Ty::scalar(dtype)), arena.new_var(name, Ty::scalar(of_place)));
        let (value, place) = (arena.var_expr(value_var), arena.var_expr(new_place_var));
        for stmt in [
            Stmt::Let { var: new_place_var, value: new_place },
            Stmt::Let { var: value_var, value: new },
            Stmt::Store { buffer: search.place.0, index: search.place.1, value: place },
            Stmt::Store { buffer: search.value.0, index: search.value.1, value },
        ] {
            out.push(kernel.stmts.push(stmt));
        }
    }
}
