//! How freely a function may be rearranged.
//!
//! Primitives reason about blocks: what they read and write, and in which order they stand. Some statements between
//! blocks say more than that: a jump skips what stands behind it, a declared buffer shares the memory of another one,
//! memory that is allocated in place is known only behind its allocation. A function with such statements between its
//! blocks allows fewer primitives. Inside a block that holds no other block they are the block's own affair.
//!
//! No primitive makes such statements between blocks, so the answer holds as long as the schedule.

use crate::ir::{Func, Stmt, StmtId};

/// What may be done with a function, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Freedom {
    /// Only what changes no order: queries and annotations.
    Annotations,
    /// Also what changes loops where they stand.
    Loops,
    /// Everything.
    All,
}

/// How free a function is, and the statement that limits it.
pub fn freedom(func: &Func) -> (Freedom, Option<StmtId>) {
    let mut least = (Freedom::All, None);
    for s in func.subtree(func.root.stmt()) {
        let here = match func.get(s) {
            Stmt::Break | Stmt::Continue if jump_stays_in_leaf(func, s) => Freedom::All,
            Stmt::Break | Stmt::Continue | Stmt::Return(_) => Freedom::Annotations,
            Stmt::Declare { .. } if is_in_leaf(func, s) => Freedom::Loops,
            Stmt::While { .. } | Stmt::Alloc { .. } | Stmt::Assert(_) | Stmt::Attr(_) if is_in_leaf(func, s) => {
                Freedom::All
            }
            Stmt::Declare { .. } | Stmt::While { .. } => Freedom::Annotations,
            Stmt::Alloc { .. } | Stmt::Assert(_) | Stmt::Attr(_) => Freedom::Loops,
            Stmt::Loop(_)
            | Stmt::Block(_)
            | Stmt::Store { .. }
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_) => Freedom::All,
        };
        if here < least.0 {
            least = (here, Some(s));
        }
    }
    least
}

/// How free a function must be for a primitive.
pub fn needed(kind: &str) -> Freedom {
    match kind {
        "GetSBlock"
        | "GetChildBlocks"
        | "GetProducers"
        | "GetConsumers"
        | "GetOutputBlocks"
        | "GetLoops"
        | "SampleCategorical"
        | "SamplePerfectTile"
        | "SamplePartitionedTile"
        | "SampleComputeLocation"
        | "Annotate"
        | "Unannotate"
        | "EnterPostproc" => Freedom::Annotations,
        "Split"
        | "Fuse"
        | "Reorder"
        | "ReorderBlockIterVar"
        | "AddUnitLoop"
        | "Parallel"
        | "Vectorize"
        | "Unroll"
        | "Bind" => Freedom::Loops,
        _ => Freedom::All,
    }
}

/// Does the statement stand in a block that holds no other block?
fn is_in_leaf(func: &Func, s: StmtId) -> bool {
    func.block_above(s).is_some_and(|b| b != func.root && func.child_blocks(b.stmt()).is_empty())
}

/// Does a `break` or `continue` leave no block that schedules see?
fn jump_stays_in_leaf(func: &Func, s: StmtId) -> bool {
    let target = func.ancestors(s).find(|&p| matches!(func.get(p), Stmt::Loop(_) | Stmt::While { .. }));
    target.is_some_and(|l| is_in_leaf(func, l) && func.block_above(l) == func.block_above(s))
}
