//! The intermediate representation: modules of functions, each a tree of loops and blocks over buffers.
//!
//! A [`Func`] owns two tables: an [`Arena`] of interned expressions, variables and buffers, and [`Stmts`], the loop and
//! block tree. Both name their entries by small ids. Expressions have value: equal ids are equal expressions.
//! Statements have identity: a [`LoopId`] or [`BlockId`] means the same loop or block for as long as it exists, which
//! is what schedule handles are made of. Names, spans and ids are never part of the structure.
//!
//! This module knows no other module of the crate. Start reading at [`func`].

pub mod alignment;
pub(crate) mod attr;
pub mod barriers;
pub(crate) mod brief;
pub mod buffer;
pub(crate) mod builtins;
mod callable;
pub mod difference;
pub mod dtype;
pub mod equal;
pub mod expr;
pub mod float8;
pub(crate) mod fold;
pub(crate) mod func;
pub mod graft;
pub mod hash;
pub mod infer_accesses;
pub mod inline;
pub mod interp;
pub mod mix;
pub(crate) mod narrow;
pub mod op;
pub(crate) mod operators;
pub mod outline;
pub(crate) mod param_layout;
pub mod preparation;
pub mod rounding;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
pub mod scalar;
mod sorting;
pub(crate) mod steps;
pub mod stmt;
pub(crate) mod symbol;
pub mod verify;
pub mod visit;

pub use attr::{Annotations, AttrValue, ObjectKind};
pub use buffer::{Buffer, BufferId, BufferRegion};
pub use dtype::{DType, Ty};
pub use equal::{Difference, Equality};
pub use expr::{Arena, Const, Expr, ExprId, ExprList, Pointee, VarId};
pub use float8::Float8;
pub use func::{BoundParam, Func, Module, ModuleAttrs, Param};
pub use op::{BinOp, Builtin, CmpOp, Intrinsic};
pub use param_layout::ParamLayout;
pub use stmt::{
    Assert, Attr, Block, BlockId, BlockIter, Body, IterKind, Loop, LoopId, LoopKind, MatchBuffer, Place, Stmt, StmtId,
    Stmts,
};
pub use symbol::{Symbol, identifier};
pub use visit::{Rewriter, Substitution, Visitor};
