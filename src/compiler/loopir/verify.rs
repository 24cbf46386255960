//! Checks the invariants marked (v) in the module's documentation.

use super::expr::{Arena, Expr, ExprId, Ty, VarId};
use super::kernel::{Kernel, Placement, Storage};
use super::rewrite::{for_each_expr, for_each_operand};
use super::stmt::{Body, For, LoopKind, Stmt};
use crate::ir::DType;

/// A violated invariant: a bug of the code that built the kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Violation {
    /// A variable has two bindings.
    #[error("variable `{0}` is bound twice")]
    BoundTwice(String),
    /// A variable is read outside its scope.
    #[error("variable `{0}` is read outside its scope")]
    Unbound(String),
    /// A register is read that no statement sets.
    #[error("register `{0}` is read and never set")]
    Unset(String),
    /// A statement has an operand of a wrong type.
    #[error("expected {expected} to be `{wanted}`, found `{found}`")]
    WrongType {
        /// The operand.
        expected: &'static str,
        /// The type it must have.
        wanted: Ty,
        /// Its type.
        found: Ty,
    },
    /// A load or store has another element type than its buffer.
    #[error("expected elements of buffer `{buffer}` to be `{wanted}`, found `{found}`")]
    WrongElement {
        /// The buffer.
        buffer: String,
        /// The type of its elements.
        wanted: DType,
        /// The type of the access.
        found: DType,
    },
    /// A store to a read-only parameter.
    #[error("buffer `{0}` is an input and is written")]
    WrittenInput(String),
    /// Per-worker scratch outside of parallel loops.
    #[error("buffer `{0}` belongs to a worker and is used outside of parallel loops")]
    OutsideWorker(String),
    /// A register used by two workers.
    #[error("register `{0}` is set outside of the parallel loop that uses it")]
    SharedRegister(String),
}

/// All violations, in text order.
pub(crate) fn verify(kernel: &Kernel) -> Vec<Violation> {
    let arena = &kernel.arena;
    let mut verifier = Verifier {
        kernel,
        bound: vec![false; arena.n_vars()],
        in_scope: vec![false; arena.n_vars()],
        set_in: vec![None; arena.n_locals()],
        parallel: None,
        n_parallel: 0,
        has_parallel: false,
        found: Vec::new(),
    };
    kernel.for_each_stmt(kernel.body, &mut |_, s| {
        verifier.has_parallel |= matches!(s, Stmt::For(For { kind: LoopKind::Parallel, .. }));
    });
    verifier.registers(kernel.body);
    verifier.n_parallel = 0;
    verifier.body(kernel.body);
    verifier.found
}

/// Panics with the violations and the text of the kernel, if a pass has broken an invariant.
pub(crate) fn assert_valid(kernel: &Kernel, after: &str) {
    let violations = verify(kernel);
    assert!(
        violations.is_empty(),
        "the kernel is invalid after {after}: {}\n{}",
        violations.iter().map(|v| v.to_string()).collect::<Vec<_>>().join("; "),
        super::print::print(kernel)
    );
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    bound: Vec<bool>,
    in_scope: Vec<bool>,
    /// For each register the number of the outermost parallel loop in which it is set, 0 outside of such loops.
    set_in: Vec<Option<u32>>,
    /// Number of the outermost enclosing parallel loop.
    parallel: Option<u32>,
    n_parallel: u32,
    has_parallel: bool,
    found: Vec<Violation>,
}

impl Verifier<'_> {
    fn arena(&self) -> &Arena {
        &self.kernel.arena
    }

    fn enter(&mut self, l: &For) -> Option<u32> {
        let before = self.parallel;
        if l.kind == LoopKind::Parallel && before.is_none() {
            self.n_parallel += 1;
            self.parallel = Some(self.n_parallel);
        }
        before
    }

    /// Records the places where registers are set.
    fn registers(&mut self, body: Body) {
        for i in 0..body.len() {
            match self.kernel.stmts.get(self.kernel.stmts.list(body)[i]) {
                Stmt::For(l) => {
                    let before = self.enter(&l);
                    self.registers(l.body);
                    self.parallel = before;
                }
                Stmt::While { body, .. } => self.registers(body),
                Stmt::If { then, otherwise, .. } => {
                    self.registers(then);
                    self.registers(otherwise);
                }
                Stmt::Set { local, .. } => {
                    let here = self.parallel.unwrap_or(0);
                    match self.set_in[local.index()] {
                        Some(there) if there != here => {
                            let name = self.arena().local(local).name.as_str().into();
                            self.found.push(Violation::SharedRegister(name));
                        }
                        _ => self.set_in[local.index()] = Some(here),
                    }
                }
                Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Check { .. } => {}
            }
        }
    }

    fn body(&mut self, body: Body) {
        let mut lets = Vec::new();
        for i in 0..body.len() {
            let stmt = self.kernel.stmts.get(self.kernel.stmts.list(body)[i]);
            for_each_operand(stmt, |e| self.expr(e));
            match stmt {
                Stmt::For(l) => {
                    self.expect("a loop's extent", Ty::INDEX, self.arena().ty(l.extent));
                    self.expect("a loop's variable", Ty::INDEX, self.arena().var(l.var).ty);
                    self.bind(l.var);
                    let before = self.enter(&l);
                    self.body(l.body);
                    self.parallel = before;
                    self.in_scope[l.var.index()] = false;
                }
                Stmt::If { condition, then, otherwise } => {
                    self.expect("a condition", Ty::BOOL, self.arena().ty(condition));
                    self.body(then);
                    self.body(otherwise);
                }
                Stmt::While { running, body } => {
                    self.expect("a condition", Ty::BOOL, self.arena().local(running).ty);
                    self.body(body);
                }
                Stmt::Check { condition, .. } => self.expect("a condition", Ty::BOOL, self.arena().ty(condition)),
                Stmt::Store { buffer, index, value } => {
                    self.expect("an index", Ty::INDEX, self.arena().ty(index));
                    self.access(buffer, self.arena().dtype(value));
                    if self.kernel.buffer(buffer).storage == Storage::Param(super::Access::In) {
                        self.found.push(Violation::WrittenInput(self.kernel.buffer(buffer).name.as_str().into()));
                    }
                }
                Stmt::Let { var, value } => {
                    self.expect("a variable", self.arena().ty(value), self.arena().var(var).ty);
                    self.bind(var);
                    lets.push(var);
                }
                Stmt::Set { local, value } => {
                    self.expect("a register's value", self.arena().local(local).ty, self.arena().ty(value));
                }
            }
        }
        for var in lets {
            self.in_scope[var.index()] = false;
        }
    }

    fn bind(&mut self, var: VarId) {
        if self.bound[var.index()] {
            self.found.push(Violation::BoundTwice(self.arena().var(var).name.as_str().into()));
        }
        self.bound[var.index()] = true;
        self.in_scope[var.index()] = true;
    }

    fn expect(&mut self, expected: &'static str, wanted: Ty, found: Ty) {
        if wanted != found {
            self.found.push(Violation::WrongType { expected, wanted, found });
        }
    }

    fn access(&mut self, buffer: super::BufferId, dtype: DType) {
        let b = *self.kernel.buffer(buffer);
        if b.dtype != dtype {
            let buffer = b.name.as_str().into();
            self.found.push(Violation::WrongElement { buffer, wanted: b.dtype, found: dtype });
        }
        if b.storage == Storage::Scratch(Placement::PerWorker) && self.has_parallel && self.parallel.is_none() {
            self.found.push(Violation::OutsideWorker(b.name.as_str().into()));
        }
    }

    fn expr(&mut self, e: ExprId) {
        let kernel = self.kernel;
        let arena = &kernel.arena;
        for_each_expr(arena, e, &mut |e| match arena.expr(e) {
            Expr::Var(v) if !self.in_scope[v.index()] => {
                self.found.push(Violation::Unbound(arena.var(v).name.as_str().into()));
            }
            Expr::Local(l) => {
                let name = || arena.local(l).name.as_str().into();
                match self.set_in[l.index()] {
                    None => self.found.push(Violation::Unset(name())),
                    Some(there) if there != self.parallel.unwrap_or(0) => {
                        self.found.push(Violation::SharedRegister(name()));
                    }
                    Some(_) => {}
                }
            }
            Expr::Load(b, _) => self.access(b, arena.dtype(e)),
            Expr::Var(_)
            | Expr::Int(_)
            | Expr::Float(_)
            | Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Reinterpret(_)
            | Expr::Dot4(..)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Call(..)
            | Expr::Broadcast(_)
            | Expr::Ramp(..)
            | Expr::Pack(_)
            | Expr::Lookup(..)
            | Expr::Extract(..)
            | Expr::Reduce(..) => {}
        });
    }
}
