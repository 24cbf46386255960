//! The intermediate representation: modules of functions, each a tree of loops and blocks over buffers.
//!
//! A [`Func`] owns two tables: an [`Arena`] of interned expressions, variables and buffers, and [`Stmts`], the loop and
//! block tree. Both name their entries by small ids. Expressions have value: equal ids are equal expressions.
//! Statements have identity: a [`LoopId`] or [`BlockId`] means the same loop or block for as long as it exists, which
//! is what schedule handles are made of. Names, spans and ids are never part of the structure.
//!
//! This module knows no other module of the crate. Start reading at [`func`].

pub(crate) mod alignment;
pub(crate) mod attr;
pub(crate) mod brief;
pub(crate) mod buffer;
pub(crate) mod builtins;
mod callable;
pub(crate) mod difference;
pub(crate) mod dtype;
pub mod equal;
pub(crate) mod expr;
pub(crate) mod float8;
pub(crate) mod fold;
pub(crate) mod func;
pub(crate) mod graft;
pub mod hash;
pub(crate) mod infer_accesses;
pub mod inline;
pub mod interp;
pub(crate) mod mix;
pub(crate) mod narrow;
pub(crate) mod op;
pub(crate) mod operators;
pub(crate) mod outline;
pub(crate) mod param_layout;
pub(crate) mod preparation;
pub(crate) mod rounding;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod scalar;
mod sorting;
pub(crate) mod steps;
pub(crate) mod stmt;
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
pub use symbol::Symbol;
pub use visit::{Rewriter, Substitution, Visitor};
