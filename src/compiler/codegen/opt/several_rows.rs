//! Reduces as many short rows together as a vector has lanes.
//!
//! ```text
//! for i in 2048: a = 0.0; a = a + reduce(add, X[i * 49; 49]); Y[i] = a * 0.02
//! // becomes
//! for i in 128: Y[i * 16; 16] = pack(reduce(add, X[i * 784; 49]), reduce(add, X[i * 784 + 49; 49]), …) * splat(0.02, 16)
//! ```
//!
//! The lanes of one vector become one number in as many steps, each of which leaves half of them unused. Those of 16 vectors become a
//! vector of 16 numbers with 15 additions (`wide/reduce`). A loop qualifies if an iteration computes one element of a row of results,
//! and reads each row once. Floats of 16 bits are summed in lanes of `float32`. Floats are added in another order, so this is not done if they
//! must be computed as written.

use super::machine::Machine;
use super::walk::replace_loops;
use crate::codegen::facts::fails;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr, for_each_operand, map_expr, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Hints, Iterations, Kernel, LocalId, LoopKind, Stmt, StmtId, Ty,
    VarId,
};
use hashbrown::{HashMap, HashSet};

/// Maximum number of vectors of a row: of longer ones, the reduction of the last vector is a small part.
const MAX_VECTORS: i64 = 8;

/// Reduces rows together in the whole kernel. Returns whether there are any.
pub(super) fn several_rows(kernel: &mut Kernel, machine: &Machine) -> bool {
    let lanes = machine.vectors.lanes(DType::Float32);
    if !machine.reassociates || !machine.vectors.has_regions() || !matches!(lanes, 8 | 16) {
        return false;
    }
    let before = kernel.body;
    kernel.body = body(kernel, before, lanes);
    kernel.body != before
}

fn body(kernel: &mut Kernel, old: Body, lanes: i64) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| match Rows::of(kernel, &l, lanes) {
        Some(rows) => rows.emit(kernel, l, lanes, out),
        None => {
            let inner = body(kernel, l.body, lanes);
            out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
        }
    })
}

/// A loop in which each iteration reduces a row.
struct Rows {
    n: i64,
    buffer: BufferId,
    index: ExprId,
    /// What is stored, without registers.
    value: ExprId,
}

impl Rows {
    fn of(kernel: &mut Kernel, l: &For, lanes: i64) -> Option<Rows> {
        let n = kernel.arena.as_int(l.extent).filter(|&n| n >= lanes)?;
        let is_free = l.kind == LoopKind::Serial && l.iterations == Iterations::Independent;
        let stmts = kernel.stmts.list(l.body).to_vec();
        let (&last, before) = stmts.split_last()?;
        let Stmt::Store { buffer, index, value } = kernel.stmts.get(last) else { return None };
        if !is_free || !is_computed_in_float32(kernel.arena.ty(value)) {
            return None;
        }
        let value = inlined(kernel, before, value)?;
        let rows = Rows { n, buffer, index, value };
        let arena = &kernel.arena;
        let fits =
            step(arena, index, l.var) == Some(1) && rows.is_row(arena, value, l.var, lanes) && rows.reduces(arena);
        (fits && are_own(kernel, l.body, before)).then_some(rows)
    }

    /// Whether a value can be computed for several rows in a vector.
    fn is_row(&self, arena: &Arena, e: ExprId, var: VarId, lanes: i64) -> bool {
        match arena.expr(e) {
            Expr::Float(_) => true,
            Expr::Load(buffer, index) => {
                let is_near = matches!(step(arena, index, var), Some(0 | 1));
                buffer != self.buffer && is_near && is_computed_in_float32(arena.ty(e))
            }
            _ if reduced(arena, e).is_some() => reduced(arena, e).is_some_and(|(op, vectors)| {
                // Region code finds extremes of narrow elements in lanes of their own width.
                let is_narrow = arena.dtype(e).is_half() && matches!(op, BinOp::Min | BinOp::Max);
                let pieces = |v: &ExprId| (i64::from(arena.lanes(*v)) + lanes - 1) / lanes;
                let n: i64 = vectors.iter().map(pieces).sum();
                !is_narrow && n <= MAX_VECTORS && vectors.iter().all(|&v| self.is_plain(arena, v, lanes))
            }),
            Expr::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Min | BinOp::Max, a, b) => {
                self.is_row(arena, a, var, lanes) && self.is_row(arena, b, var, lanes)
            }
            _ => false,
        }
    }

    /// Whether a vector fills registers, has no state but memory that the loop leaves alone, and cannot fail.
    fn is_plain(&self, arena: &Arena, vector: ExprId, lanes: i64) -> bool {
        let is_float = is_computed_in_float32(Ty::scalar(arena.dtype(vector)));
        let mut is_plain = is_float && i64::from(arena.lanes(vector)) > lanes / 2;
        for_each_expr(arena, vector, &mut |e| {
            is_plain &= match arena.expr(e) {
                Expr::Local(_) | Expr::Reduce(..) => false,
                Expr::Load(buffer, _) => buffer != self.buffer,
                _ => true,
            };
        });
        is_plain && !fails(arena, vector)
    }

    fn reduces(&self, arena: &Arena) -> bool {
        let mut found = 0;
        for_each_expr(arena, self.value, &mut |e| found += usize::from(matches!(arena.expr(e), Expr::Reduce(..))));
        found > 0
    }

    fn emit(&self, kernel: &mut Kernel, l: For, lanes: i64, out: &mut Vec<StmtId>) {
        let (var, group) = kernel.arena.new_index(kernel.arena.var(l.var).name);
        let first = kernel.arena.mul_const(group, lanes);
        let mut copies: Vec<Substitution> = (0..lanes)
            .map(|lane| {
                let lane = kernel.arena.index(lane);
                let at = kernel.arena.add(first, lane);
                Substitution::of(l.var, at)
            })
            .collect();
        let value = vector_of(&mut kernel.arena, self.value, l.var, &mut copies);
        let index = copies[0].expr(&mut kernel.arena, self.index);
        let store = kernel.store(self.buffer, index, value);
        let (extent, body) = (kernel.arena.index(self.n / lanes), kernel.stmts.body(&[store]));
        let (kind, iterations) = (LoopKind::Serial, Iterations::Independent);
        out.push(kernel.stmts.push(Stmt::For(For { var, extent, kind, iterations, hints: Hints::default(), body })));
        let rest = self.n % lanes;
        if rest > 0 {
            let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
            let done = kernel.arena.index(self.n - rest);
            let at = kernel.arena.add(done, e);
            let body = Substitution::of(l.var, at).copy(kernel, l.body);
            let extent = kernel.arena.index(rest);
            out.push(kernel.stmts.push(Stmt::For(For { var, extent, body, ..l })));
        }
    }
}

/// Whether a type is that of scalars that have lanes of `float32`.
fn is_computed_in_float32(ty: Ty) -> bool {
    !ty.is_vector() && (ty.dtype == DType::Float32 || ty.dtype.is_half())
}

/// The operation and the vectors, if a value consists of reductions by one operation, combined by the same.
fn reduced(arena: &Arena, e: ExprId) -> Option<(BinOp, Vec<ExprId>)> {
    let (Expr::Reduce(op, _) | Expr::Binary(op, ..)) = arena.expr(e) else { return None };
    let (mut vectors, mut pending) = (Vec::new(), vec![e]);
    while let Some(e) = pending.pop() {
        match arena.expr(e) {
            Expr::Binary(same, a, b) if same == op => pending.extend([b, a]),
            Expr::Reduce(same, a) if same == op => vectors.push(a),
            _ => return None,
        }
    }
    Some((op, vectors))
}

/// A value of several rows, whose index each of `copies` replaces.
fn vector_of(arena: &mut Arena, e: ExprId, var: VarId, copies: &mut [Substitution]) -> ExprId {
    let lanes = copies.len() as u16;
    if reduced(arena, e).is_some() {
        let items: Vec<ExprId> = copies.iter_mut().map(|copy| copy.expr(arena, e)).collect();
        return arena.pack(&items);
    }
    match arena.expr(e) {
        Expr::Load(buffer, index) if step(arena, index, var) == Some(1) => {
            let index = copies[0].expr(arena, index);
            let ty = arena.ty(e);
            arena.load(buffer, index, ty.with_lanes(lanes))
        }
        Expr::Binary(op, a, b) => {
            let (a, b) = (vector_of(arena, a, var, copies), vector_of(arena, b, var, copies));
            arena.binary(op, a, b)
        }
        _ => arena.broadcast(e, lanes),
    }
}

/// By how much a loop advances an index in each iteration; `None` if that differs.
fn step(arena: &Arena, index: ExprId, var: VarId) -> Option<i64> {
    if arena.lanes(index) > 1 {
        return None;
    }
    let index = Affine::of(arena, index);
    let mut step = 0;
    for &(atom, n) in &index.terms {
        if arena.as_var(atom) == Some(var) {
            step = n;
        } else if mentions_var(arena, atom, &mut |v| v == var) {
            return None;
        }
    }
    Some(step)
}

/// The value behind statements that set registers and names, in terms of memory alone. What starts with 0 is the rest of the sum.
fn inlined(kernel: &mut Kernel, stmts: &[StmtId], value: ExprId) -> Option<ExprId> {
    let mut locals: HashMap<LocalId, ExprId, FxBuild> = HashMap::default();
    let mut names: HashMap<VarId, ExprId, FxBuild> = HashMap::default();
    let in_memory = |arena: &mut Arena,
                     locals: &HashMap<LocalId, ExprId, FxBuild>,
                     names: &HashMap<VarId, ExprId, FxBuild>,
                     e: ExprId| {
        let mut memo = ExprMap::default();
        let e = map_expr(arena, e, &mut memo, &mut |arena, e| match arena.expr(e) {
            Expr::Local(local) => locals.get(&local).copied(),
            Expr::Var(v) => names.get(&v).copied(),
            _ => None,
        });
        without_zeros(arena, e)
    };
    for &s in stmts {
        match kernel.stmts.get(s) {
            Stmt::Set { local, value } => {
                let value = in_memory(&mut kernel.arena, &locals, &names, value);
                locals.insert(local, value);
            }
            Stmt::Let { var, value } => {
                let value = in_memory(&mut kernel.arena, &locals, &names, value);
                names.insert(var, value);
            }
            Stmt::Store { .. } | Stmt::For(_) | Stmt::If { .. } | Stmt::Check { .. } | Stmt::While { .. } => {
                return None;
            }
        }
    }
    let value = in_memory(&mut kernel.arena, &locals, &names, value);
    let mut is_free = true;
    for_each_expr(&kernel.arena, value, &mut |e| is_free &= !matches!(kernel.arena.expr(e), Expr::Local(_)));
    is_free.then_some(value)
}

/// A sum without a term that is 0.
fn without_zeros(arena: &mut Arena, e: ExprId) -> ExprId {
    let mut memo = ExprMap::default();
    map_expr(arena, e, &mut memo, &mut |arena, e| {
        let Expr::Binary(BinOp::Add, a, b) = arena.expr(e) else { return None };
        let is_zero = |arena: &Arena, e: ExprId| match arena.expr(e) {
            Expr::Broadcast(a) => arena.is_number(a, 0),
            _ => arena.is_number(e, 0),
        };
        match (is_zero(arena, a), is_zero(arena, b)) {
            (true, _) => Some(without_zeros(arena, b)),
            (false, true) => Some(without_zeros(arena, a)),
            (false, false) => None,
        }
    })
}

/// Whether the registers that statements of a loop's body set are read nowhere else.
fn are_own(kernel: &Kernel, inside: Body, stmts: &[StmtId]) -> bool {
    let set = stmts.iter().filter_map(|&s| match kernel.stmts.get(s) {
        Stmt::Set { local, .. } => Some(local),
        _ => None,
    });
    let own: HashSet<LocalId, FxBuild> = set.collect();
    let count = |body: Body| {
        let mut reads = 0;
        kernel.for_each_stmt(body, &mut |_, stmt| {
            for_each_operand(stmt, |e| {
                for_each_expr(&kernel.arena, e, &mut |e| {
                    reads += usize::from(matches!(kernel.arena.expr(e), Expr::Local(l) if own.contains(&l)));
                });
            });
        });
        reads
    };
    own.is_empty() || count(inside) == count(kernel.body)
}
