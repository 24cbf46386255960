//! Finds values that are the same bit for bit in all correct implementations: values that are only loaded, copied,
//! compared, selected and indexed, and integers that do not depend on floats.

use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType, Intrinsic};
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{Body, BufferId, Expr, ExprId, Kernel, Stmt, VarId};
use hashbrown::{HashMap, HashSet};

/// The rounded values of a kernel.
pub(super) struct Exactness {
    buffers: Vec<bool>,
    vars: HashSet<VarId, FxBuild>,
    /// Whether an operation turns a small difference into a large one, or a type is narrower than the results show.
    pub is_sensitive: bool,
}

impl Exactness {
    /// `None` if a rounded value is an extent or an index of a store.
    pub(super) fn of(kernel: &Kernel) -> Option<Exactness> {
        let mut found =
            Exactness { buffers: vec![false; kernel.n_buffers()], vars: HashSet::default(), is_sensitive: false };
        // Rounded values propagate from buffer to buffer.
        loop {
            let before = (found.buffers.clone(), found.vars.len());
            let mut walk = Walk { kernel, found: &mut found, memo: HashMap::default(), is_supported: true };
            walk.body(kernel.body, false);
            if !walk.is_supported {
                return None;
            }
            if before == (found.buffers.clone(), found.vars.len()) {
                break;
            }
        }
        found.is_sensitive = is_sensitive(kernel);
        Some(found)
    }

    pub(super) fn is_rounded(&self, b: BufferId) -> bool {
        self.buffers[b.index()]
    }

    pub(super) fn is_rounded_var(&self, v: VarId) -> bool {
        self.vars.contains(&v)
    }
}

struct Walk<'a> {
    kernel: &'a Kernel,
    found: &'a mut Exactness,
    memo: HashMap<ExprId, bool, FxBuild>,
    is_supported: bool,
}

impl Walk<'_> {
    /// `is_open`: whether a rounded value decides if the statements run.
    fn body(&mut self, body: Body, is_open: bool) {
        for &s in self.kernel.stmts.list(body) {
            match self.kernel.stmts.get(s) {
                Stmt::For(l) => {
                    self.is_supported &= !self.is_rounded(l.extent);
                    self.body(l.body, is_open);
                }
                Stmt::If { condition, then, otherwise } => {
                    let is_open = is_open || self.is_rounded(condition);
                    self.body(then, is_open);
                    self.body(otherwise, is_open);
                }
                Stmt::Store { buffer, index, value } => {
                    self.is_supported &= !self.is_rounded(index);
                    if is_open || self.is_rounded(value) {
                        self.found.buffers[buffer.index()] = true;
                    }
                }
                Stmt::Let { var, value } => {
                    if self.is_rounded(value) {
                        self.found.vars.insert(var);
                    }
                }
                // The number of iterations of an uncounted loop may depend on any value.
                Stmt::Set { .. } | Stmt::While { .. } => self.is_supported = false,
                Stmt::Check { .. } => {}
            }
        }
    }

    fn is_rounded(&mut self, e: ExprId) -> bool {
        if let Some(&known) = self.memo.get(&e) {
            return known;
        }
        let arena = &self.kernel.arena;
        let dtype = arena.dtype(e);
        // 8-bit floats have too few numbers for useful intervals.
        self.is_supported &= !matches!(dtype, DType::Float8(_));
        let here = match arena.expr(e) {
            Expr::Binary(op, ..) => dtype.is_float() && !matches!(op, BinOp::Min | BinOp::Max),
            Expr::Cast(a) => dtype.is_float() && !holds_all(dtype, arena.dtype(a)),
            Expr::Call(function, _) => dtype.is_float() && !is_exact(function),
            Expr::Load(b, _) => self.found.buffers[b.index()],
            Expr::Var(v) => self.found.vars.contains(&v),
            Expr::Int(_)
            | Expr::Float(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Reinterpret(_) => false,
            Expr::Local(_)
            | Expr::Broadcast(_)
            | Expr::Ramp(..)
            | Expr::Pack(_)
            | Expr::Lookup(..)
            | Expr::Extract(..)
            | Expr::Dot4(..)
            | Expr::Reduce(..) => {
                self.is_supported = false;
                false
            }
        };
        let mut rounded = here;
        let mut children = Vec::new();
        arena.for_each_child(e, |c| children.push(c));
        for c in children {
            rounded |= self.is_rounded(c);
        }
        self.memo.insert(e, rounded);
        rounded
    }
}

/// Whether the float type `to` contains every number of type `from`.
fn holds_all(to: DType, from: DType) -> bool {
    let digits = |t: DType| match t {
        DType::Float64 => 53,
        DType::Float32 => 24,
        DType::Float16 => 11,
        DType::BFloat16 => 8,
        other => other.bits(),
    };
    match (from, to) {
        (DType::Float16, DType::BFloat16) | (DType::BFloat16, DType::Float16) => false,
        _ => digits(from) <= digits(to),
    }
}

/// Whether the results of a function of floats are exact.
fn is_exact(function: Intrinsic) -> bool {
    use Intrinsic::{Abs, Ceil, CopySign, Floor, Likely, NearbyInt, Round, Trunc};
    matches!(function, Abs | Ceil | CopySign | Floor | Likely | NearbyInt | Round | Trunc)
}

/// Whether an operation makes a tolerance of the results insufficient.
fn is_sensitive(kernel: &Kernel) -> bool {
    let arena = &kernel.arena;
    let mut found = false;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        crate::loopir::rewrite::for_each_operand(stmt, |operand| {
            for_each_expr(arena, operand, &mut |e| {
                found |= match arena.expr(e) {
                    Expr::Binary(op, a, _) if arena.dtype(a).is_float() => {
                        arena.dtype(e).is_half()
                            || !matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max)
                    }
                    Expr::Compare(_, a, _) => arena.dtype(a).is_float(),
                    Expr::Cast(a) => {
                        let (from, to) = (arena.dtype(a), arena.dtype(e));
                        from.is_float() && !(to.is_float() && holds_all(to, from))
                    }
                    Expr::Call(function, list) => {
                        arena.dtype(arena.list(list)[0]).is_float()
                            && !matches!(function, Intrinsic::Abs | Intrinsic::Likely)
                    }
                    Expr::Reinterpret(a) => arena.dtype(a).is_float(),
                    Expr::Int(_)
                    | Expr::Float(_)
                    | Expr::Var(_)
                    | Expr::Local(_)
                    | Expr::Binary(..)
                    | Expr::Not(_)
                    | Expr::Dot4(..)
                    | Expr::Select(..)
                    | Expr::IfThenElse(..)
                    | Expr::Load(..)
                    | Expr::Broadcast(_)
                    | Expr::Ramp(..)
                    | Expr::Pack(_)
                    | Expr::Lookup(..)
                    | Expr::Extract(..)
                    | Expr::Reduce(..) => false,
                };
            });
        });
    });
    found
}
