//! Determines which primitives a function allows.
//!
//! Primitives reason about the accesses and the order of blocks. Some statements between blocks have further effects: a
//! jump skips the following statements, a declared buffer shares the memory of another one, and memory allocated in
//! place is in scope only after its allocation. A function with such statements between its blocks allows fewer
//! primitives. Inside a block without inner blocks they are allowed.
//!
//! Primitives do not support loops with steps either (a region over the range includes the skipped values), nor loops
//! of types other than `int32` and `int64`, bindings of another type than their variables, empty ranges, and blocks
//! that do not list their accesses.
//!
//! No primitive except the `unsafe` ones makes such functions, so the result holds for the whole schedule;
//! `normalize_loop` computes it again.

use super::super::error::ErrorKind;
use crate::ir::verify::{Checks, ViolationKind, verify};
use crate::ir::{BlockIter, Buffer, Func, Stmt, StmtId};

/// The set of allowed primitives, the smallest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Freedom {
    /// Primitives that change no order: queries and annotations.
    Annotations,
    /// In addition, primitives that change loops in place.
    Loops,
    /// All primitives.
    All,
}

/// A limit of a function.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    /// The allowed primitives.
    pub freedom: Freedom,
    /// The statement that causes the limit.
    pub at: StmtId,
    /// The error of other primitives.
    pub error: ErrorKind,
}

/// The limit of a function, if there is one.
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

/// The limit of a buffer without elements: bounds of accesses have no meaning for it.
fn empty_buffer(func: &Func) -> Option<Limit> {
    let is_empty = |b: &Buffer| func.arena.list(b.shape).iter().any(|&n| func.arena.as_int(n).is_some_and(|n| n < 1));
    let buffer = func.arena.buffer_ids().map(|b| func.arena.buffer(b)).find(|b| is_empty(b))?;
    let error = ErrorKind::EmptyRange { what: format!("buffer `{}`", buffer.name) };
    Some(Limit { freedom: Freedom::Annotations, at: func.root.stmt(), error })
}

/// The limit of a block that does not list its accesses.
fn unlisted_access(func: &Func) -> Option<Limit> {
    let checks = Checks { signatures: true, bounds: false };
    let is_unlisted =
        |k: &ViolationKind| matches!(k, ViolationKind::UnlistedRead { .. } | ViolationKind::UnlistedWrite { .. });
    let found = verify(func, checks).into_iter().find(|v| is_unlisted(&v.kind))?;
    let error = ErrorKind::UnlistedAccess { what: found.message(func) };
    Some(Limit { freedom: Freedom::Annotations, at: found.stmt?, error })
}

/// The limit of a statement between blocks, as allowed primitives and error; `None` if it causes none.
fn limit_at(func: &Func, s: StmtId) -> Option<(Freedom, ErrorKind)> {
    let arena = &func.arena;
    let is_empty = |extent| arena.as_int(extent).is_some_and(|n| n < 1);
    let freedom = match func.get(s) {
        Stmt::Break | Stmt::Continue if jump_stays_in_leaf(func, s) => return None,
        // A return at the end skips nothing, but it reads its value there.
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
            // Loop primitives only change the binding itself.
            let freedom = if found.is_index() { Freedom::Loops } else { Freedom::Annotations };
            return Some((freedom, ErrorKind::IndexType { what, found, expected: "the type of the iteration" }));
        }
        Stmt::Store { .. } | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) => return None,
    };
    Some((freedom, ErrorKind::StatementBetweenBlocks { statement: func.brief_stmt(s) }))
}

/// The freedom that a primitive requires.
pub(crate) fn required_by(kind: &str) -> Freedom {
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

/// Whether the statement is in a block without inner blocks.
fn is_in_leaf(func: &Func, s: StmtId) -> bool {
    func.block_above(s).is_some_and(|b| b != func.root && func.child_blocks(b.stmt()).is_empty())
}

/// Whether a `break` or `continue` stays inside the innermost block.
fn jump_stays_in_leaf(func: &Func, s: StmtId) -> bool {
    let target = func.ancestors(s).find(|&p| matches!(func.get(p), Stmt::Loop(_) | Stmt::While { .. }));
    target.is_some_and(|l| is_in_leaf(func, l) && func.block_above(l) == func.block_above(s))
}

#[cfg(test)]
mod tests {
    use super::super::super::primitive::testing::{check, refuse};

    /// A program with two blocks, and statements before the second nest.
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
