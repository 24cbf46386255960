//! Statements of the loop IR.

use super::expr::{ExprId, LocalId, VarId};
use super::kernel::BufferId;
use crate::ir::expr::id;

id! {
    /// A statement of [`Stmts`].
    pub StmtId
}

/// Statements that run one after the other: a list in [`Stmts`]. Bodies are values; changing one makes a new list.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Body {
    start: u32,
    len: u32,
}

impl Body {
    /// The body without statements.
    pub const EMPTY: Body = Body { start: 0, len: 0 };

    /// Whether the body has no statements.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The number of statements.
    pub fn len(self) -> usize {
        self.len as usize
    }
}

/// Execution order of a loop's iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LoopKind {
    /// One after the other.
    #[default]
    Serial,
    /// Distributed over the workers.
    Parallel,
    /// As vector lanes.
    Vector,
    /// One after the other, written out.
    Unroll,
}

/// Known dependences between a loop's iterations, beyond those visible in its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Iterations {
    /// No information.
    #[default]
    Unknown,
    /// Iterations do not depend on each other: no iteration reads or writes an element that another one writes, except
    /// for scratch that each iteration writes before it reads it.
    Independent,
    /// Iterations combine values into the same places by a commutative, associative operation: they may run in any
    /// order, but not at the same time.
    Reduction,
}

/// Advice of the schedule, which code generation may ignore.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Hints {
    /// Maximum number of statements up to which the loop and the loops inside may be unrolled; 0 gives no advice (TVM's
    /// `pragma_auto_unroll_max_step`).
    pub unroll: u32,
    /// Whether stores inside go to memory that is not read soon.
    pub stream: bool,
}

/// `for var in 0..extent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct For {
    /// The loop variable.
    pub var: VarId,
    /// Number of iterations: a scalar `int64`.
    pub extent: ExprId,
    /// Execution order of the iterations.
    pub kind: LoopKind,
    /// Dependences between the iterations.
    pub iterations: Iterations,
    /// Advice of the schedule.
    pub hints: Hints,
    /// The statements of an iteration.
    pub body: Body,
}

impl For {
    /// A serial loop without known dependences.
    pub fn serial(var: VarId, extent: ExprId, body: Body) -> For {
        For { var, extent, kind: LoopKind::Serial, iterations: Iterations::Unknown, hints: Hints::default(), body }
    }
}

/// The reason why a kernel stopped by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// An access that could not be proved in bounds was out of bounds.
    OutOfBounds {
        /// The buffer accessed.
        buffer: BufferId,
    },
    /// An integer was divided by zero, or the smallest one by -1.
    Division,
    /// An assertion of the program failed.
    Assertion {
        /// Index of the assertion in [`Kernel::assertions`](super::Kernel::assertions).
        index: u32,
    },
}

/// A statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stmt {
    /// A counted loop.
    For(For),
    /// A condition (a scalar) and its two branches.
    If {
        /// The condition, a scalar boolean.
        condition: ExprId,
        /// Statements that run if the condition holds.
        then: Body,
        /// Statements that run if the condition does not hold.
        otherwise: Body,
    },
    /// Writes consecutive elements, one per lane of `value`.
    Store {
        /// The written buffer.
        buffer: BufferId,
        /// Linear index of the first element: a scalar `int64`.
        index: ExprId,
        /// The stored value, whose lanes have the buffer's element type.
        value: ExprId,
    },
    /// Runs the body as long as a register, which the body sets, is true. Kernels that hold such a loop, or set
    /// boolean registers, are compiled as they are (see [`Kernel::is_irregular`]).
    ///
    /// [`Kernel::is_irregular`]: super::Kernel::is_irregular
    While {
        /// The register, a scalar boolean.
        running: LocalId,
        /// The statements of an iteration.
        body: Body,
    },
    /// Names a value for the rest of the enclosing body. The value is evaluated once, here.
    Let {
        /// The name.
        var: VarId,
        /// The value.
        value: ExprId,
    },
    /// Sets a register.
    Set {
        /// The register.
        local: LocalId,
        /// The value, of the register's type.
        value: ExprId,
    },
    /// Stops the kernel with `failure` unless the scalar boolean `condition` holds.
    Check {
        /// The condition, a scalar boolean.
        condition: ExprId,
        /// The failure that is reported.
        failure: Failure,
    },
}

impl Stmt {
    /// The bodies of the statement; empty bodies if it has fewer than two.
    pub fn bodies(&self) -> [Body; 2] {
        match *self {
            Stmt::For(l) => [l.body, Body::EMPTY],
            Stmt::While { body, .. } => [body, Body::EMPTY],
            Stmt::If { then, otherwise, .. } => [then, otherwise],
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => [Body::EMPTY; 2],
        }
    }
}

/// The owner of the statements of a kernel. Like expressions, statements are values: a rewritten statement is a new
/// one, and the old one may become unreachable.
#[derive(Clone, Default)]
pub struct Stmts {
    nodes: Vec<Stmt>,
    items: Vec<StmtId>,
}

impl Stmts {
    /// The statement.
    pub fn get(&self, s: StmtId) -> Stmt {
        self.nodes[s.index()]
    }

    /// The statements of a body.
    pub fn list(&self, body: Body) -> &[StmtId] {
        &self.items[body.start as usize..(body.start + body.len) as usize]
    }

    /// A new statement.
    pub fn push(&mut self, stmt: Stmt) -> StmtId {
        let id = StmtId(self.nodes.len() as u32);
        self.nodes.push(stmt);
        id
    }

    /// Changes a statement in place: every body that holds it sees the change.
    pub fn replace(&mut self, s: StmtId, stmt: Stmt) {
        self.nodes[s.index()] = stmt;
    }

    /// The body of these statements.
    pub fn body(&mut self, stmts: &[StmtId]) -> Body {
        let start = self.items.len() as u32;
        self.items.extend_from_slice(stmts);
        Body { start, len: stmts.len() as u32 }
    }

    /// The body of one new statement.
    pub fn single(&mut self, stmt: Stmt) -> Body {
        let s = self.push(stmt);
        self.body(&[s])
    }
}
