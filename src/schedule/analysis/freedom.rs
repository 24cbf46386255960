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

#[cfg(test)]
mod tests {
    use super::super::super::primitive::testing::{check, refuse};

    /// Two blocks, and statements in front of the second nest.
    fn program(between: &str) -> String {
        format!(
            r#"
def main(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32")):
    C = T.sblock_alloc_buffer((8, 4), "int32")
    for i, j in T.grid(8, 4):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + 1
{between}
    for i, j in T.grid(8, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] * 2
"#
        )
    }

    const ASSERTION: &str = "    assert C[0, 0] > 0, \"positive\"";
    const NAME: &str = "    V = T.decl_buffer((32,), \"int32\", data=C.data)";

    #[test]
    fn what_stands_between_blocks_limits_primitives() {
        let inline = "sch.compute_inline(sch.get_sblock('C', 'main'))";
        let split = "sch.split(sch.get_loops(sch.get_sblock('C', 'main'))[0], [2, 4])";
        refuse(&program(ASSERTION), |t| t.python(inline), "StatementBetweenBlocksError");
        refuse(&program(NAME), |t| t.python(split), "StatementBetweenBlocksError");
        let jump = "    while B[0, 0] > 0:\n        B[0, 0] = B[0, 0] - 1";
        refuse(&program(jump), |t| t.python(split), "StatementBetweenBlocksError");
        let annotated = "    T.attr({\"a\": 1})";
        refuse(&program(annotated), |t| t.python(inline), "StatementBetweenBlocksError");
    }

    #[test]
    fn loops_stay_free_beside_an_assertion() {
        check(
            &program(ASSERTION),
            |t| t.python("i, j = sch.get_loops(sch.get_sblock('C', 'main'))\nsch.reorder(j, i)"),
            &program(ASSERTION).replacen("for i, j in T.grid(8, 4):", "for j, i in T.grid(4, 8):", 1),
        );
    }
}
