//! The loop IR: programs without blocks, which code generation optimises and emits.
//!
//! A [`Kernel`] is one function over flat arrays: parameters and scratch buffers of known length, counted loops, stores
//! by linear element index, conditions and checks. Lowering (blocks → loops) builds it, the passes of `codegen::opt`
//! rewrite it, the back ends emit it. It knows nothing of blocks, schedules or machine code.
//!
//! # Invariants
//! [`verify`] checks those marked (v).
//! * Expressions are interned in the kernel's [`Arena`]; equal ids are equal expressions. [`Expr::Load`] and
//!   [`Expr::Local`] read state, so equal ids are equal *values* only while nothing in between writes that buffer or
//!   register.
//! * Buffers never overlap, neither parameters nor scratch: a store to one cannot change a load from another.
//! * A buffer is aligned to its elements, and an access no more than that: callers pass slices of their arrays.
//! * Every access lies within its buffer's length, or is never reached: the builder of a kernel proves it, or puts an
//!   `if` or a [`Stmt::Check`] before it. Passes never move an access out of its guard.
//! * Loop variables are `int64`, run from 0 in steps of 1 and are bound once (v); variables are read only inside their
//!   scope (v). An extent is a scalar `int64`, evaluated on entry; 0 or less means no iterations.
//! * Operands agree in type as [`Expr`] says (v); indices are scalar `int64` (v).
//! * The contents of scratch are undefined until stored. [`Placement::PerWorker`] scratch is used inside one parallel
//!   loop only, and is undefined again in each of its iterations.
//! * `Parallel` and `Vector` promise that iterations do not depend on each other; [`Iterations`] states the known
//!   dependences of other loops. A parallel loop inside another runs serially.
//!
//! # Semantics
//! Scalars follow [`crate::ir::expr`], but errors of the program are failures: integer division by zero (also the
//! smallest integer by -1) stops the kernel with [`Failure::Division`], a false check with its failure. Earlier stores
//! stay. Vectors apply the scalar operation in each lane; `and` and `or` of vectors evaluate both sides. `eval`
//! implements this definition simply and slowly.
//!
//! # Text
//! [`mod@print`] and [`parse`] are inverse up to names:
//!
//! ```text
//! kernel @scale(X: in float32[100], Y: out float32[100]) {
//!   for i in 25 {
//!     let x: float32x4 = X[i * 4; 4]
//!     Y[i * 4] = x * splat(2.0, 4)
//!   }
//! }
//! ```
//!
//! Start reading at [`kernel`], then [`expr`] and [`stmt`].

pub(crate) mod affine;
#[cfg(any(test, feature = "testing"))]
pub mod eval;
pub(crate) mod expr;
pub(crate) mod kernel;
pub(crate) mod operators;
pub mod parse;
pub mod print;
pub(crate) mod range;
pub(crate) mod rewrite;
pub(crate) mod stmt;
pub(crate) mod verify;

pub use affine::Affine;
pub use expr::{Arena, Expr, ExprId, ExprList, LocalId, Ty, VarId};
pub use kernel::{Access, Buffer, BufferId, Kernel, Placement, Storage};
pub use range::{Range, Ranges};
pub use stmt::{Body, Failure, For, Hints, Iterations, LoopKind, Stmt, StmtId, Stmts};
