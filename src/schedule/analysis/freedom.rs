//! How freely a function may be rearranged.
//!
//! Primitives reason about blocks: what they read and write, and in which order they stand. Some statements between
//! blocks say more than that: a jump skips what stands behind it, a declared buffer shares the memory of another one,
//! memory that is allocated in place is known only behind its allocation. A function with such statements between its
//! blocks allows fewer primitives. Inside a block that holds no other block they are the block's own affair.
//!
//! Nor do primitives know loops with steps, between whose values lie others that a region over the range includes; loops of
//! types other than `int32` and `int64`, and bindings of another type than what they are bound to; empty ranges; and blocks
//! that do not list what they access.
//!
//! No primitive makes such functions, but for the `unsafe` ones, so the answer holds as long as the schedule;
//! `normalize_loop` asks anew.

use super::super::error::ErrorKind;
use crate::ir::verify::{Checks, ViolationKind, verify};
use crate::ir::{BlockIter, Buffer, Func, Stmt, StmtId};

/// What may be done with a function, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Freedom {
    /// Only what changes no order: queries and annotations.
    Annotations,
    /// Also what changes loops where they stand.
    Loops,
    /// Everything.
    All,
}

/// What limits a function.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    /// What may be done with it.
    pub freedom: Freedom,
    /// The statement that limits it.
    pub at: StmtId,
    /// How primitives refuse that need more.
    pub error: ErrorKind,
}

/// What limits a function, if anything does.
pub(crate) fn limit(func: &Func) -> Option<Limit> {
    let mut least: Option<Limit> = None;
    for at in func.subtree(func.root.stmt()) {
        if let Some((freedom, error)) = limit_at(func, at)
            && least.as_ref().is_none_or(|l| freedom < l.freedom)
        {
            least = Some(Limit { freedom, at, error });
        }
    }
    least.or_else(|| empty_buffer(func)).or_else(|| unlisted_access(func))
}

/// A buffer without elements: bounds of what is accessed mean nothing there.
fn empty_buffer(func: &Func) -> Option<Limit> {
    let is_empty = |b: &Buffer| func.arena.list(b.shape).iter().any(|&n| func.arena.as_int(n).is_some_and(|n| n < 1));
    let buffer = func.arena.buffer_ids().map(|b| func.arena.buffer(b)).find(|b| is_empty(b))?;
    let error = ErrorKind::EmptyRange { what: format!("buffer `{}`", buffer.name) };
    Some(Limit { freedom: Freedom::Annotations, at: func.root.stmt(), error })
}

/// A block that does not list what it accesses.
fn unlisted_access(func: &Func) -> Option<Limit> {
    let checks = Checks { signatures: true, bounds: false };
    let is_unlisted =
        |k: &ViolationKind| matches!(k, ViolationKind::UnlistedRead { .. } | ViolationKind::UnlistedWrite { .. });
    let found = verify(func, checks).into_iter().find(|v| is_unlisted(&v.kind))?;
    let error = ErrorKind::UnlistedAccess { what: found.message(func) };
    Some(Limit { freedom: Freedom::Annotations, at: found.stmt?, error })
}

/// What a statement between blocks allows, and how what it does not allow is refused; `None` where it limits nothing.
fn limit_at(func: &Func, s: StmtId) -> Option<(Freedom, ErrorKind)> {
    let arena = &func.arena;
    let is_empty = |extent| arena.as_int(extent).is_some_and(|n| n < 1);
    let freedom = match func.get(s) {
        Stmt::Break | Stmt::Continue if jump_stays_in_leaf(func, s) => return None,
        // Behind the last statement there is nothing to skip; but the value is read there.
        Stmt::Return(_) if func.block(func.root).body.last() == Some(&s) => Freedom::Loops,
        Stmt::Break | Stmt::Continue | Stmt::Return(_) => Freedom::Annotations,
        Stmt::Declare { .. } if is_in_leaf(func, s) => Freedom::Loops,
        Stmt::While { .. } | Stmt::Alloc { .. } | Stmt::Assert(_) | Stmt::Attr(_) if is_in_leaf(func, s) => {
            return None;
        }
        Stmt::Declare { .. } | Stmt::While { .. } => Freedom::Annotations,
        Stmt::Alloc { .. } | Stmt::Assert(_) | Stmt::Attr(_) => Freedom::Loops,
        Stmt::Loop(_) if is_in_leaf(func, s) => return None,
        Stmt::Loop(l) => {
            let statement = func.brief_stmt(s);
            let error = if l.step.is_some() {
                ErrorKind::LoopStep { statement }
            } else if !arena.var(l.var).dtype.is_index() {
                let what = format!("the variable of {statement}");
                ErrorKind::IndexType { what, found: arena.var(l.var).dtype, expected: "`int32` or `int64`" }
            } else if is_empty(l.extent) {
                ErrorKind::EmptyRange { what: statement }
            } else {
                return None;
            };
            return Some((Freedom::Annotations, error));
        }
        Stmt::Block(b) => {
            let what = |i: usize| format!("iteration `{}` of block `{}`", arena.var(b.iters[i].var).name, b.name);
            if let Some(i) = b.iters.iter().position(|i| is_empty(i.extent)) {
                return Some((Freedom::Annotations, ErrorKind::EmptyRange { what: what(i) }));
            }
            let odd = |i: &BlockIter| arena.dtype(i.value) != arena.var(i.var).dtype;
            let i = b.iters.iter().position(odd)?;
            let (what, found) = (format!("the binding of {}", what(i)), arena.dtype(b.iters[i].value));
            // Loops only change the binding itself.
            let freedom = if found.is_index() { Freedom::Loops } else { Freedom::Annotations };
            return Some((freedom, ErrorKind::IndexType { what, found, expected: "the type of the iteration" }));
        }
        Stmt::Store { .. } | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) => return None,
    };
    Some((freedom, ErrorKind::StatementBetweenBlocks { statement: func.brief_stmt(s) }))
}

/// How free a function must be for a primitive.
pub(crate) fn needed(kind: &str) -> Freedom {
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
        | "EnterPostproc"
        | "NormalizeLoop" => Freedom::Annotations,
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
