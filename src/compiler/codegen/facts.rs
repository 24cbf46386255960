//! Properties of expressions.

use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{Arena, Body, BufferId, Expr, ExprId, Kernel, LocalId, Stmt, StmtId, Ty};
use hashbrown::HashSet;

/// Whether the operation of this node (not its operands) can stop the kernel. Only integer division can, unless the
/// divisor is a constant other than 0 and -1.
pub(crate) fn can_fail(arena: &Arena, e: ExprId) -> bool {
    match arena.expr(e) {
        Expr::Binary(BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod, _, b) => {
            let ty = arena.ty(e);
            !ty.dtype.is_float()
                && match arena.as_const(b) {
                    Some(crate::ir::Const::Int(d)) => d == 0 || d == -1 && ty.dtype.is_int(),
                    _ => true,
                }
        }
        _ => false,
    }
}

/// The buffers that statements access, in order.
pub(crate) fn buffers_in(kernel: &Kernel, body: Body) -> Vec<BufferId> {
    let mut used = vec![false; kernel.n_buffers()];
    kernel.for_each_stmt(body, &mut |_, stmt| {
        if let Stmt::Store { buffer, .. } = stmt {
            used[buffer.index()] = true;
        }
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(b, _) = kernel.arena.expr(e) {
                    used[b.index()] = true;
                }
            });
        });
    });
    kernel.buffers().map(|(b, _)| b).filter(|b| used[b.index()]).collect()
}

/// Whether evaluating `e` can stop the kernel.
pub(crate) fn fails(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| found |= can_fail(arena, e));
    found
}

/// Whether running a statement, including nested ones, can stop the kernel.
pub(crate) fn may_stop(kernel: &Kernel, stmt: Stmt) -> bool {
    let stops = |stmt: Stmt| {
        let mut found = matches!(stmt, Stmt::Check { .. });
        for_each_operand(stmt, |e| found = found || fails(&kernel.arena, e));
        found
    };
    let mut found = stops(stmt);
    for body in stmt.bodies() {
        kernel.for_each_stmt(body, &mut |_, stmt| found = found || stops(stmt));
    }
    found
}

/// Whether the value of `e` depends on memory or registers, and so may change over time. Equal indices of this kind
/// need not select the same element.
pub(crate) fn reads_state(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| found |= matches!(arena.expr(e), Expr::Load(..) | Expr::Local(_)));
    found
}

/// Whether `e` loads from `buffer`.
pub(crate) fn loads(arena: &Arena, e: ExprId, buffer: BufferId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| found |= matches!(arena.expr(e), Expr::Load(b, _) if b == buffer));
    found
}

/// Whether `e` may be evaluated speculatively: it reads no memory, cannot fail, and is cheap.
pub(crate) fn is_speculable(arena: &Arena, e: ExprId) -> bool {
    let mut cost = 0;
    let mut safe = true;
    for_each_expr(arena, e, &mut |e| {
        safe &= !can_fail(arena, e);
        match arena.expr(e) {
            Expr::Load(..) => safe = false,
            Expr::Call(..) => cost += 8,
            Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Cast(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Dot4(..)
            | Expr::Pack(_)
            | Expr::Lookup(..)
            | Expr::Reduce(..) => cost += 1,
            Expr::Int(_)
            | Expr::Float(_)
            | Expr::Var(_)
            | Expr::Local(_)
            | Expr::Not(_)
            | Expr::Broadcast(_)
            | Expr::Ramp(..)
            | Expr::Reinterpret(_)
            | Expr::Extract(..) => {}
        }
    });
    safe && cost <= 8
}

/// The state that the value of an expression depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reads {
    /// Variables only.
    Nothing,
    /// One buffer.
    Buffer(BufferId),
    /// One register.
    Local(LocalId),
    /// Several.
    Several,
}

impl Reads {
    /// The union of the state that two operands depend on.
    pub(crate) fn and(self, other: Reads) -> Reads {
        match (self, other) {
            (Reads::Nothing, x) | (x, Reads::Nothing) => x,
            (x, y) if x == y => x,
            _ => Reads::Several,
        }
    }
}

/// Computes [`Reads`] for the expressions of a kernel, with a cache.
#[derive(Default)]
pub(crate) struct ReadsOf {
    known: Vec<Option<Reads>>,
}

impl ReadsOf {
    /// The state that `e` depends on.
    pub(crate) fn get(&mut self, arena: &Arena, e: ExprId) -> Reads {
        if self.known.len() < arena.n_exprs() {
            self.known.resize(arena.n_exprs(), None);
        }
        if let Some(known) = self.known[e.index()] {
            return known;
        }
        let mut reads = match arena.expr(e) {
            Expr::Load(b, _) => Reads::Buffer(b),
            Expr::Local(l) => Reads::Local(l),
            _ => Reads::Nothing,
        };
        let mut children = smallvec::SmallVec::<[ExprId; 4]>::new();
        arena.for_each_child(e, |c| children.push(c));
        for c in children {
            reads = reads.and(self.get(arena, c));
        }
        self.known[e.index()] = Some(reads);
        reads
    }
}

/// The neutral element of an operator.
pub(super) fn neutral(arena: &mut Arena, op: BinOp, dtype: DType) -> Option<ExprId> {
    let float = dtype.is_float();
    Some(match op {
        BinOp::Add => arena.constant(0, Ty::scalar(dtype)),
        BinOp::Mul => arena.constant(1, Ty::scalar(dtype)),
        BinOp::Min if float => arena.float(f64::INFINITY, dtype),
        BinOp::Max if float => arena.float(f64::NEG_INFINITY, dtype),
        BinOp::Min => arena.int(dtype.max_value().ok()?, dtype),
        BinOp::Max => arena.int(dtype.min_value().ok()?, dtype),
        BinOp::Sub | BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod | BinOp::And | BinOp::Or => {
            return None;
        }
    })
}
/// Whether an expression is made of indices by sums and products. Other scalars must be known before: whether the loops around a
/// statement change them is for the caller to find out.
pub(crate) fn is_index_sum(arena: &Arena, e: ExprId) -> bool {
    arena.dtype(e) == DType::Int64
        && match arena.expr(e) {
            Expr::Int(_) | Expr::Var(_) => true,
            _ if arena.lanes(e) == 1 && !reads_state(arena, e) => true,
            Expr::Broadcast(a) | Expr::Ramp(a, _) => is_index_sum(arena, a),
            Expr::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, a, b) => {
                is_index_sum(arena, a) && is_index_sum(arena, b)
            }
            _ => false,
        }
}

/// Adds the buffers that a statement, or one inside it, writes.
pub(super) fn note_stores(kernel: &Kernel, s: StmtId, written: &mut HashSet<BufferId, FxBuild>) {
    kernel.for_each_within(s, &mut |_, stmt| {
        if let Stmt::Store { buffer, .. } = stmt {
            written.insert(buffer);
        }
    });
}
