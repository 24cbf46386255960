//! Loop-invariant code motion.
//!
//! ```text
//! for j in 64: Y[i * 64 + j; 4] = X[i * 64 + j; 4] * splat(1.0 / S[i], 4)
//! // becomes
//! let t = splat(1.0 / S[i], 4)
//! for j in 64: Y[i * 64 + j; 4] = X[i * 64 + j; 4] * t
//! ```
//!
//! Loops are processed from the outside in, so that each expression is evaluated as rarely as possible. A conditional
//! expression stays, unless it is cheap and safe to evaluate. Indices stay as well: the back end uses induction
//! pointers instead. The number of registers used is limited.

use super::machine::Machine;
use super::walk::replace_loops;
use crate::codegen::facts::{fails, is_speculable};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, for_each_operand, map_expr, map_operands};
use crate::loopir::{Arena, Body, BufferId, Expr, ExprId, For, Kernel, LocalId, LoopKind, Stmt, StmtId, Ty, VarId};
use hashbrown::{HashMap, HashSet};

/// Hoists invariants out of all loops of the kernel.
pub(super) fn hoist(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, machine, machine.vectors.registers / 3);
}

/// `free` is the number of vector registers available for hoisted values.
fn body(kernel: &mut Kernel, old: Body, machine: &Machine, free: usize) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| for_loop(kernel, s, l, machine, free, out))
}

fn for_loop(kernel: &mut Kernel, s: StmtId, l: For, machine: &Machine, free: usize, out: &mut Vec<StmtId>) {
    let mut l = l;
    let (sums, is_innermost) = inside(kernel, l.body, machine);
    let mut left = free.min(machine.vectors.registers.saturating_sub(sums + KEPT));
    if l.kind != LoopKind::Parallel {
        let mut names = ExprMap::default();
        for e in invariants(kernel, &l, machine) {
            // Rematerialising a constant is cheaper than spilling it around inner loops.
            if !is_innermost && kernel.arena.as_const(e).is_some() {
                continue;
            }
            let ty = kernel.arena.ty(e);
            let registers = machine.vectors.registers_of(ty.dtype, ty.lanes as usize);
            // Equal vector parts share a register.
            let registers = if matches!(kernel.arena.expr(e), Expr::Broadcast(_)) { 1 } else { registers };
            if registers > left {
                continue;
            }
            left -= registers;
            let var = kernel.arena.new_var("t", ty);
            out.push(kernel.stmts.push(Stmt::Let { var, value: e }));
            names.insert(e, kernel.arena.var_expr(var));
        }
        if !names.is_empty() {
            l.body = kernel.rebuild(l.body, &mut |kernel, _, id, stmt, out| {
                let new = map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut names, &mut |_, _| None));
                out.push(if new == stmt { id } else { kernel.stmts.push(new) });
            });
        }
    }
    l.body = body(kernel, l.body, machine, left);
    let same = kernel.stmts.get(s) == Stmt::For(l);
    out.push(if same { s } else { kernel.stmts.push(Stmt::For(l)) });
}

/// Registers reserved for the computation inside a loop.
const KEPT: usize = 6;

/// Number of vector registers that sums in a loop occupy, and whether it is an innermost loop.
fn inside(kernel: &Kernel, body: Body, machine: &Machine) -> (usize, bool) {
    let (mut locals, mut is_innermost) = (HashSet::<LocalId, FxBuild>::default(), true);
    let mut registers = 0;
    kernel.for_each_stmt(body, &mut |_, stmt| match stmt {
        Stmt::For(_) => is_innermost = false,
        Stmt::Set { local, .. } if locals.insert(local) => {
            let ty = kernel.arena.local(local).ty;
            registers += machine.vectors.registers_of(ty.dtype, ty.lanes as usize);
        }
        Stmt::If { .. }
        | Stmt::Store { .. }
        | Stmt::Let { .. }
        | Stmt::Set { .. }
        | Stmt::Check { .. }
        | Stmt::While { .. } => {}
    });
    (registers, is_innermost)
}

/// The largest invariant expressions in a loop that are worth hoisting, in order of evaluation.
fn invariants(kernel: &Kernel, l: &For, machine: &Machine) -> Vec<ExprId> {
    let mut search = Search {
        arena: &kernel.arena,
        bound: HashSet::from_iter([l.var]),
        buffers: HashSet::default(),
        locals: HashSet::default(),
        changes: HashMap::default(),
        found: Vec::new(),
        seen: HashSet::default(),
        has_masks: machine.vectors.has_regions(),
    };
    kernel.for_each_stmt(l.body, &mut |_, stmt| match stmt {
        Stmt::For(For { var, .. }) | Stmt::Let { var, .. } => {
            search.bound.insert(var);
        }
        Stmt::Store { buffer, .. } => {
            search.buffers.insert(buffer);
        }
        Stmt::Set { local, .. } => {
            search.locals.insert(local);
        }
        Stmt::If { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
    });
    let mut runs = kernel.arena.as_int(l.extent).is_some_and(|n| n > 0);
    // A load must not move before the check that proves it in bounds.
    kernel.for_each_stmt(l.body, &mut |_, stmt| runs &= !matches!(stmt, Stmt::Check { .. }));
    search.body(kernel, l.body, runs);
    search.found
}

struct Search<'a> {
    arena: &'a Arena,
    /// Variables bound in the loop, buffers stored to, registers set.
    bound: HashSet<VarId, FxBuild>,
    buffers: HashSet<BufferId, FxBuild>,
    locals: HashSet<LocalId, FxBuild>,
    changes: HashMap<ExprId, bool, FxBuild>,
    found: Vec<ExprId>,
    seen: HashSet<(ExprId, bool), FxBuild>,
    /// Whether region code turns vectors of conditions into masks at their uses. It has no names for them.
    has_masks: bool,
}

impl Search<'_> {
    /// `certain`: whether each iteration reaches this point.
    fn body(&mut self, kernel: &Kernel, body: Body, certain: bool) {
        for &s in kernel.stmts.list(body) {
            let stmt = kernel.stmts.get(s);
            for_each_operand(stmt, |e| self.expr(e, certain));
            match stmt {
                Stmt::For(l) => {
                    let runs = kernel.arena.as_int(l.extent).is_some_and(|n| n > 0);
                    self.body(kernel, l.body, certain && runs);
                }
                Stmt::If { then, otherwise, .. } => {
                    self.body(kernel, then, false);
                    self.body(kernel, otherwise, false);
                }
                Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
            }
        }
    }

    fn changes(&mut self, e: ExprId) -> bool {
        if let Some(&known) = self.changes.get(&e) {
            return known;
        }
        let mut changes = match self.arena.expr(e) {
            Expr::Var(v) => self.bound.contains(&v),
            Expr::Local(l) => self.locals.contains(&l),
            Expr::Load(b, _) => self.buffers.contains(&b),
            _ => false,
        };
        let arena = self.arena;
        arena.for_each_child(e, |c| changes |= self.changes(c));
        self.changes.insert(e, changes);
        changes
    }

    fn expr(&mut self, e: ExprId, certain: bool) {
        if !self.seen.insert((e, certain)) {
            return;
        }
        let may_move = |arena| certain && !fails(arena, e) || is_speculable(arena, e);
        if self.is_worth(e) && !self.changes(e) && may_move(self.arena) {
            if !self.found.contains(&e) {
                self.found.push(e);
            }
            return;
        }
        let arena = self.arena;
        match arena.expr(e) {
            Expr::IfThenElse(c, t, o) => {
                self.expr(c, certain);
                self.expr(t, false);
                self.expr(o, false);
            }
            Expr::Binary(BinOp::And | BinOp::Or, a, b) if arena.lanes(e) == 1 => {
                self.expr(a, certain);
                self.expr(b, false);
            }
            _ => arena.for_each_child(e, |c| self.expr(c, certain)),
        }
    }

    /// Whether evaluating it costs more than using a name.
    fn is_worth(&self, e: ExprId) -> bool {
        if self.has_masks && self.arena.lanes(e) > 1 && self.arena.dtype(e) == DType::Bool {
            return false;
        }
        match self.arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Var(_) | Expr::Local(_) | Expr::Ramp(..) | Expr::Extract(..) => false,
            // Constants are always available; as an outer name, one would keep the loop from being a region.
            Expr::Broadcast(a) => self.arena.as_const(e).is_none() && self.arena.ty(a) != Ty::BOOL,
            Expr::Load(..) | Expr::Call(..) | Expr::Reduce(..) | Expr::Pack(_) => true,
            // Region code turns comparisons of indices into masks at their uses.
            Expr::Compare(_, a, _) if self.arena.dtype(a) == DType::Int64 => false,
            Expr::Binary(BinOp::And | BinOp::Or, a, b) if self.arena.lanes(e) > 1 => {
                self.is_worth(a) || self.is_worth(b)
            }
            Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Reinterpret(_)
            | Expr::Select(..)
            | Expr::Dot4(..)
            | Expr::Lookup(..)
            | Expr::IfThenElse(..) => self.arena.ty(e) != Ty::INDEX && self.arena.ty(e) != Ty::BOOL,
        }
    }
}
