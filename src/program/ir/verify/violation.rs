//! Violations: the errors that the verifier reports.

use crate::ir::buffer::BufferId;
use crate::ir::dtype::{DType, Ty};
use crate::ir::expr::{ExprId, VarId};
use crate::ir::func::Func;
use crate::ir::op::{Domain, Intrinsic};
use crate::ir::stmt::StmtId;
use crate::ir::symbol::Symbol;

/// A violation of an invariant, and its place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Violation {
    /// The statement; `None` for the signature of the function.
    pub stmt: Option<StmtId>,
    /// The expression that causes it, if there is one.
    pub expr: Option<ExprId>,
    /// The violated rule, with the facts.
    pub kind: ViolationKind,
}

/// The role of an expression whose type is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the role it names")]
pub enum Role {
    FirstValue,
    Extent,
    Step,
    Binding,
    StoredValue,
    LetValue,
    Condition,
    Predicate,
    Index,
    RegionBound,
    Dimension,
    Stride,
    Offset,
    Operand,
    Pointer,
}

impl Role {
    fn text(self) -> &'static str {
        match self {
            Role::FirstValue => "the first value",
            Role::Extent => "the extent",
            Role::Step => "the step",
            Role::Binding => "the binding",
            Role::StoredValue => "the stored value",
            Role::LetValue => "the value of the let",
            Role::Condition => "the condition",
            Role::Predicate => "the predicate",
            Role::Index => "an index",
            Role::RegionBound => "a bound of a region",
            Role::Dimension => "a dimension",
            Role::Stride => "a stride",
            Role::Offset => "the offset",
            Role::Operand => "an operand",
            Role::Pointer => "the data of a buffer",
        }
    }
}

/// A violated rule, with the facts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ViolationKind {
    /// The statement stands at more than one place.
    SharedStatement,
    /// The table of parents does not agree with the bodies.
    WrongParent {
        /// The parent according to the table.
        recorded: Option<StmtId>,
    },
    /// The root block has iteration variables, a predicate, an init or another part that only other blocks may have.
    RootSignature,
    /// A variable has two bindings.
    VariableBoundTwice {
        /// The variable.
        var: VarId,
    },
    /// A variable is used outside its scope.
    VariableOutOfScope {
        /// The variable.
        var: VarId,
    },
    /// A loop around a block is mentioned inside it.
    LoopCrossesBlock {
        /// The loop's variable.
        var: VarId,
        /// The block's name.
        block: Symbol,
    },
    /// The variable of a loop or block iteration does not have an index type.
    VariableType {
        /// The variable.
        var: VarId,
        /// Its type.
        found: DType,
    },
    /// An expression does not have the required type.
    TypeMismatch {
        /// Role of the expression.
        role: Role,
        /// The required type.
        expected: Ty,
        /// Its type.
        found: Ty,
    },
    /// An expression has several lanes where a scalar is required.
    Vector {
        /// Role of the expression.
        role: Role,
        /// Its type.
        found: Ty,
    },
    /// An index other than the last is a vector.
    VectorIndex {
        /// The buffer.
        buffer: BufferId,
        /// The dimension.
        dim: usize,
    },
    /// `T.Shuffle` picks a lane that its vectors do not have, or an index that is not constant.
    Lane {
        /// Number of lanes of the vectors.
        lanes: i64,
    },
    /// `T.reinterpret` between types of different sizes.
    Reinterpretation {
        /// The type of the result.
        expected: Ty,
        /// The type of the argument.
        found: Ty,
    },
    /// An expression has the wrong kind of type, such as a float instead of an integer.
    WrongDomain {
        /// Role of the expression.
        role: Role,
        /// The required kind of type.
        expected: Domain,
        /// Its type.
        found: DType,
    },
    /// An argument of a scalar function has the wrong kind of type.
    Argument {
        /// The function.
        function: Intrinsic,
        /// The required kind of type.
        expected: Domain,
        /// The type of the argument.
        found: DType,
    },
    /// The arguments of a function are of different types.
    ArgumentTypes {
        /// The function.
        function: Intrinsic,
        /// The type of the first argument.
        expected: DType,
        /// The different type of another argument.
        found: DType,
    },
    /// A block iteration has a negative constant extent.
    NegativeExtent {
        /// Variable of the iteration.
        var: VarId,
        /// The extent.
        extent: i64,
    },
    /// A loop has a constant step below 1.
    Step {
        /// Variable of the loop.
        var: VarId,
        /// The step.
        found: i64,
    },
    /// A buffer has two bindings.
    BufferBoundTwice {
        /// The buffer.
        buffer: BufferId,
    },
    /// A buffer is used outside its scope.
    BufferOutOfScope {
        /// The buffer.
        buffer: BufferId,
    },
    /// A block lists one of its own allocations or views in `reads` or `writes`.
    OwnBufferInSignature {
        /// The buffer.
        buffer: BufferId,
    },
    /// `break` or `continue` outside of a loop.
    JumpOutsideLoop,
    /// A dimension of a buffer has a constant extent below 1.
    NegativeDimension {
        /// The buffer.
        buffer: BufferId,
        /// The dimension.
        dim: usize,
        /// The extent.
        extent: i64,
    },
    /// An access or region has the wrong number of indices.
    IndexCount {
        /// The accessed buffer.
        buffer: BufferId,
        /// The number of dimensions.
        expected: usize,
        /// The number of indices.
        found: usize,
    },
    /// The number of strides of a buffer differs from its number of dimensions.
    StrideCount {
        /// The buffer.
        buffer: BufferId,
        /// The number of dimensions.
        expected: usize,
        /// The number of strides.
        found: usize,
    },
    /// A block loads from a buffer that it does not list.
    UnlistedRead {
        /// The buffer.
        buffer: BufferId,
        /// The block's name.
        block: Symbol,
    },
    /// A block stores to a buffer that is not in its `writes`.
    UnlistedWrite {
        /// The buffer.
        buffer: BufferId,
        /// The block's name.
        block: Symbol,
    },
    /// An access reaches an element outside the buffer.
    OutOfBounds {
        /// The buffer.
        buffer: BufferId,
        /// The dimension.
        dim: usize,
        /// An index that is reached.
        reached: i64,
        /// The extent of the dimension.
        extent: i64,
    },
}

impl ViolationKind {
    /// A short stable name for diagnostics.
    pub fn code(&self) -> &'static str {
        match self {
            ViolationKind::SharedStatement => "shared-statement",
            ViolationKind::WrongParent { .. } => "wrong-parent",
            ViolationKind::RootSignature => "root-signature",
            ViolationKind::VariableBoundTwice { .. } => "variable-bound-twice",
            ViolationKind::VariableOutOfScope { .. } => "variable-out-of-scope",
            ViolationKind::LoopCrossesBlock { .. } => "loop-crosses-block",
            ViolationKind::VariableType { .. } => "variable-type",
            ViolationKind::TypeMismatch { .. } => "type-mismatch",
            ViolationKind::WrongDomain { .. } => "wrong-domain",
            ViolationKind::Vector { .. } => "vector",
            ViolationKind::VectorIndex { .. } => "vector-index",
            ViolationKind::Lane { .. } => "lane",
            ViolationKind::Reinterpretation { .. } => "reinterpretation",
            ViolationKind::Argument { .. } => "argument-type",
            ViolationKind::ArgumentTypes { .. } => "argument-types",
            ViolationKind::NegativeExtent { .. } => "negative-extent",
            ViolationKind::Step { .. } => "loop-step",
            ViolationKind::BufferBoundTwice { .. } => "buffer-bound-twice",
            ViolationKind::BufferOutOfScope { .. } => "buffer-out-of-scope",
            ViolationKind::OwnBufferInSignature { .. } => "own-buffer-in-signature",
            ViolationKind::NegativeDimension { .. } => "negative-dimension",
            ViolationKind::IndexCount { .. } => "index-count",
            ViolationKind::StrideCount { .. } => "stride-count",
            ViolationKind::UnlistedRead { .. } => "unlisted-read",
            ViolationKind::UnlistedWrite { .. } => "unlisted-write",
            ViolationKind::JumpOutsideLoop => "jump-outside-loop",
            ViolationKind::OutOfBounds { .. } => "out-of-bounds",
        }
    }
}

fn domain_text(domain: Domain) -> &'static str {
    match domain {
        Domain::Float => "a float",
        Domain::Integer => "an integer",
        Domain::Number => "a number",
        Domain::Bool => "a `bool`",
    }
}

impl Violation {
    /// The message, in the form of the other diagnostics.
    pub fn message(&self, func: &Func) -> String {
        let var = |v: VarId| func.arena.var(v).name;
        let name = |b: BufferId| func.arena.buffer(b).name;
        match self.kind {
            ViolationKind::SharedStatement => "a statement stands at more than one place".into(),
            ViolationKind::WrongParent { .. } => "the parent of a statement is not the statement it stands in".into(),
            ViolationKind::RootSignature => {
                "the root block must have no iteration variables, no `T.where` and no `T.init`".into()
            }
            ViolationKind::VariableBoundTwice { var: v } => format!("variable `{}` is bound twice", var(v)),
            ViolationKind::VariableOutOfScope { var: v } => format!("variable `{}` is not defined here", var(v)),
            ViolationKind::LoopCrossesBlock { var: v, block } => {
                format!("block `{block}` mentions loop `{}` around it other than in its bindings", var(v))
            }
            ViolationKind::VariableType { var: v, found } => {
                format!(
                    "variable `{}` must count in integers, those of blocks in `int32` or `int64`, found `{found}`",
                    var(v)
                )
            }
            ViolationKind::TypeMismatch { role, expected, found } => {
                format!("{} must be `{expected}`, found `{found}`", role.text())
            }
            ViolationKind::Vector { role, found } => format!("{} must be a scalar, found `{found}`", role.text()),
            ViolationKind::VectorIndex { buffer, dim } => {
                format!("index {dim} of buffer `{}` is a vector, which only the last index may be", name(buffer))
            }
            ViolationKind::Lane { lanes } => {
                format!("`T.Shuffle` picks by constants from 0 to {}, the lanes that its vectors have", lanes - 1)
            }
            ViolationKind::Reinterpretation { expected, found } => {
                format!("`T.reinterpret` to `{expected}` needs a value of as many bits, found `{found}`")
            }
            ViolationKind::WrongDomain { role, expected, found } => {
                format!("{} must be {}, found `{found}`", role.text(), domain_text(expected))
            }
            ViolationKind::Argument { function, expected, found } => {
                format!("an argument of `{function}` must be {}, found `{found}`", domain_text(expected))
            }
            ViolationKind::ArgumentTypes { function, expected, found } => {
                format!("the arguments of `{function}` must be of one type, found `{expected}` and `{found}`")
            }
            ViolationKind::NegativeExtent { var: v, extent } => {
                format!("the extent of `{}` must be at least 0, found {extent}", var(v))
            }
            ViolationKind::Step { var: v, found } => {
                format!("the step of loop `{}` must be positive, found {found}", var(v))
            }
            ViolationKind::BufferBoundTwice { buffer } => format!("buffer `{}` is allocated twice", name(buffer)),
            ViolationKind::BufferOutOfScope { buffer } => {
                format!("buffer `{}` is not defined here", name(buffer))
            }
            ViolationKind::OwnBufferInSignature { buffer } => {
                format!("a block must not list its own buffer `{}` in `T.reads` and `T.writes`", name(buffer))
            }
            ViolationKind::NegativeDimension { buffer, dim, extent } => {
                format!("dimension {dim} of buffer `{}` must be at least 0, found {extent}", name(buffer))
            }
            ViolationKind::JumpOutsideLoop => "`break` and `continue` stand inside a loop".into(),
            ViolationKind::IndexCount { buffer, expected, found } => {
                format!("buffer `{}` has {expected} dimensions, found {found} indices", name(buffer))
            }
            ViolationKind::StrideCount { buffer, expected, found } => {
                format!("buffer `{}` has {expected} dimensions, found {found} strides", name(buffer))
            }
            ViolationKind::UnlistedRead { buffer, block } => {
                format!("block `{block}` reads buffer `{}`, which its `T.reads` does not list", name(buffer))
            }
            ViolationKind::UnlistedWrite { buffer, block } => {
                format!("block `{block}` writes buffer `{}`, which its `T.writes` does not list", name(buffer))
            }
            ViolationKind::OutOfBounds { buffer, dim, reached, extent } => {
                format!(
                    "index {reached} is out of bounds for dimension {dim} of buffer `{}`, which has extent {extent}",
                    name(buffer)
                )
            }
        }
    }

    /// A proposal for the author of the program, if there is an obvious one.
    pub fn help(&self, func: &Func) -> Option<String> {
        let name = |b: BufferId| func.arena.buffer(b).name;
        match self.kind {
            ViolationKind::LoopCrossesBlock { var, .. } => {
                Some(format!("bind a block iteration to `{}` and use that", func.arena.var(var).name))
            }
            ViolationKind::Argument { expected: Domain::Float, found, .. } if found.is_integer() => {
                Some("convert it: `T.Cast(\"float32\", …)`".into())
            }
            ViolationKind::UnlistedRead { buffer, .. } => Some(format!(
                "add a region of `{}` to `T.reads`, or leave `T.reads` out to have it inferred",
                name(buffer)
            )),
            ViolationKind::UnlistedWrite { buffer, .. } => Some(format!(
                "add a region of `{}` to `T.writes`, or leave `T.writes` out to have it inferred",
                name(buffer)
            )),
            _ => None,
        }
    }
}
