//! Represents uncounted loops and jumps by registers.
//!
//! The loop IR has no jumps. A `break` clears a register of its loop, a `continue` a register of its iteration, and the
//! statements after one that may jump run only if no register was cleared:
//!
//! ```text
//! while C[0] < 64:                    running = true
//!     if A[C[0]] > 0.5:               while running {
//!         break                 →         if C[0] < 64 {
//!     C[0] = C[0] + 1                         if A[C[0]] > 0.5 { running = false }
//!                                             if running { C[0] = C[0] + 1 }
//!                                         } else { running = false }
//!                                     }
//! ```
//!
//! A counted loop that is left early continues counting without effects. A `return` exits all enclosing loops, and
//! clears a register of the function.

use super::blocks::Lowerer;
use super::{LowerError, Result};
use crate::ir;
use crate::loopir::{Body, ExprId, LocalId, Stmt, StmtId, Ty};

/// The registers of a loop with jumps inside.
#[derive(Clone, Copy, Default)]
pub(super) struct Jumps {
    /// False once the loop has been left.
    running: Option<LocalId>,
    /// False once the iteration has been left.
    going: Option<LocalId>,
}

/// The jumps in a statement that leave it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Exits {
    breaks: bool,
    continues: bool,
    returns: bool,
}

impl Exits {
    fn any(self) -> bool {
        self.breaks || self.continues || self.returns
    }

    fn or(self, other: Exits) -> Exits {
        Exits {
            breaks: self.breaks || other.breaks,
            continues: self.continues || other.continues,
            returns: self.returns || other.returns,
        }
    }

    /// The jumps of a statement that leave it.
    fn of(func: &ir::Func, s: ir::StmtId) -> Exits {
        match func.get(s) {
            ir::Stmt::Break => Exits { breaks: true, ..Exits::default() },
            ir::Stmt::Continue => Exits { continues: true, ..Exits::default() },
            ir::Stmt::Return(_) => Exits { returns: true, ..Exits::default() },
            // Jumps inside belong to this loop, except those that leave the function.
            ir::Stmt::Loop(ir::Loop { body, .. }) | ir::Stmt::While { body, .. } => {
                Exits { returns: Exits::of_list(func, body).returns, ..Exits::default() }
            }
            other => other.children().into_iter().map(|c| Exits::of(func, c)).fold(Exits::default(), Exits::or),
        }
    }

    /// The jumps of the statements of a list.
    pub(super) fn of_list(func: &ir::Func, list: &[ir::StmtId]) -> Exits {
        list.iter().map(|&s| Exits::of(func, s)).fold(Exits::default(), Exits::or)
    }
}

impl Lowerer<'_> {
    /// Lowers a list of statements. The statements after a jump run only if it was not taken.
    pub(super) fn stmts(&mut self, list: &[ir::StmtId], out: &mut Vec<StmtId>) -> Result<()> {
        for (i, &s) in list.iter().enumerate() {
            self.stmt(s, out)?;
            let exits = Exits::of(self.func, s);
            let rest = &list[i + 1..];
            if exits.any() && !rest.is_empty() {
                let condition = self.goes_on(exits);
                let then = self.list(rest)?;
                if !then.is_empty() {
                    out.push(self.draft.kernel.stmts.push(Stmt::If { condition, then, otherwise: Body::EMPTY }));
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// The condition that none of these jumps was taken.
    fn goes_on(&mut self, exits: Exits) -> ExprId {
        let jumps = self.jumps.last().copied().unwrap_or_default();
        let arena = &mut self.draft.kernel.arena;
        let mut condition = arena.bool(true);
        let taken = [
            jumps.running.filter(|_| exits.breaks),
            jumps.going.filter(|_| exits.continues),
            self.alive.filter(|_| exits.returns),
        ];
        for local in taken.into_iter().flatten() {
            let still = arena.local_expr(local);
            condition = arena.and(condition, still);
        }
        condition
    }

    fn set(&mut self, local: LocalId, value: bool, out: &mut Vec<StmtId>) {
        let value = self.draft.kernel.arena.bool(value);
        out.push(self.draft.kernel.stmts.push(Stmt::Set { local, value }));
    }

    /// `break` and `continue`.
    pub(super) fn jump(&mut self, is_break: bool, out: &mut Vec<StmtId>) -> Result<()> {
        let jumps = self.jumps.last().copied().unwrap_or_default();
        match if is_break { jumps.running } else { jumps.going } {
            Some(local) => {
                self.set(local, false, out);
                Ok(())
            }
            None => Err(LowerError::Unsupported("a jump outside of a loop".to_string())),
        }
    }

    /// Sets the register that a `return` clears, at the start of a function with one.
    pub(super) fn enter_function(&mut self, out: &mut Vec<StmtId>) {
        if Exits::of(self.func, self.func.root.stmt()).returns {
            let alive = self.draft.kernel.arena.new_local("alive", Ty::BOOL);
            self.alive = Some(alive);
            self.set(alive, true, out);
        }
    }

    /// Lowers a `return` whose value has been stored.
    pub(super) fn return_(&mut self, out: &mut Vec<StmtId>) {
        let around: Vec<LocalId> = self.jumps.iter().filter_map(|j| j.running).chain(self.alive).collect();
        for local in around {
            self.set(local, false, out);
        }
    }

    /// The body of a loop with the jumps `exits`, including the statements that maintain the registers.
    pub(super) fn iteration(&mut self, exits: Exits, list: &[ir::StmtId], out: &mut Vec<StmtId>) -> Result<()> {
        let jumps = self.jumps.last().copied().unwrap_or_default();
        let mut inner = Vec::new();
        if let Some(going) = jumps.going {
            self.set(going, true, &mut inner);
        }
        self.stmts(list, &mut inner)?;
        match jumps.running.filter(|_| exits.breaks || exits.returns) {
            None => out.extend(inner),
            Some(running) => {
                let condition = self.draft.kernel.arena.local_expr(running);
                let then = self.draft.kernel.stmts.body(&inner);
                out.push(self.draft.kernel.stmts.push(Stmt::If { condition, then, otherwise: Body::EMPTY }));
            }
        }
        Ok(())
    }

    /// Sets the registers of a loop before it starts.
    pub(super) fn enter_loop(&mut self, exits: Exits, always_running: bool, out: &mut Vec<StmtId>) {
        let arena = &mut self.draft.kernel.arena;
        let running = (exits.breaks || exits.returns || always_running).then(|| arena.new_local("running", Ty::BOOL));
        let going = exits.continues.then(|| arena.new_local("going", Ty::BOOL));
        self.jumps.push(Jumps { running, going });
        if let Some(running) = running {
            self.set(running, true, out);
        }
    }

    pub(super) fn leave_loop(&mut self) {
        self.jumps.pop();
    }

    /// `while condition: body`
    pub(super) fn while_loop(
        &mut self,
        condition: ir::ExprId,
        list: &[ir::StmtId],
        out: &mut Vec<StmtId>,
    ) -> Result<()> {
        self.enter_loop(Exits::of_list(self.func, list), true, out);
        let Some(Jumps { running: Some(running), going }) = self.jumps.last().copied() else {
            unreachable!("just entered with a register")
        };
        // Facts from before the loop need not hold in its iterations.
        let condition = self.truth(condition)?;
        let mut inner = Vec::new();
        if let Some(going) = going {
            self.set(going, true, &mut inner);
        }
        self.stmts(list, &mut inner)?;
        let then = self.draft.kernel.stmts.body(&inner);
        let mut end = Vec::new();
        self.set(running, false, &mut end);
        let otherwise = self.draft.kernel.stmts.body(&end);
        let body = self.draft.kernel.stmts.single(Stmt::If { condition, then, otherwise });
        out.push(self.draft.kernel.stmts.push(Stmt::While { running, body }));
        self.leave_loop();
        Ok(())
    }

    /// A condition, which may be an integer.
    pub(super) fn truth(&mut self, condition: ir::ExprId) -> Result<ExprId> {
        let value = self.value(condition)?;
        let arena = &mut self.draft.kernel.arena;
        if arena.dtype(value) == ir::DType::Bool {
            return Ok(value);
        }
        let zero = arena.int(0, arena.dtype(value));
        Ok(arena.compare(ir::CmpOp::Ne, value, zero))
    }

    /// `assert condition, message`
    pub(super) fn assertion(&mut self, a: &ir::Assert, out: &mut Vec<StmtId>) -> Result<()> {
        let condition = self.truth(a.condition)?;
        let assertions = &mut self.draft.kernel.assertions;
        let index = assertions.len() as u32;
        assertions.push(format!("{}: {}", a.kind, a.text()));
        let failure = crate::loopir::Failure::Assertion { index };
        out.push(self.draft.kernel.stmts.push(Stmt::Check { condition, failure }));
        Ok(())
    }
}
