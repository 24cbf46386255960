//! # `unsafe_set_dtype`
//!
//! Changes the element type of a buffer, with conversions at every access. Values may lose precision, hence the name.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), C: T.Buffer(32)):
//!     B = T.sblock_alloc_buffer(32)
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = A[vi] * 2.0
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = B[vi] + 1.0
//!
//! def steps(sch):
//!     sch.unsafe_set_dtype("B", 0, "float16")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,)), C: T.Buffer((32,))):
//!     B = T.sblock_alloc_buffer((32,), "float16")
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = T.Cast("float16", A[vi] * T.float32(2.0))
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = T.Cast("float32", B[vi]) + T.float32(1.0)
//! ```
//!
//! * Requires: the block writes an allocated buffer.
//! * Errors: `BufferIndexOutOfRangeError`, `NonAllocatedBufferError`.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! Changes the element type of a buffer, with conversions at every access.
//!
//! ```text
//! B[vi] = A[vi] + T.float32(1)
//! C[vi] = B[vi] * T.float32(2)
//! # becomes, with float16
//! B[vi] = T.Cast("float16", A[vi] + T.float32(1))
//! C[vi] = T.Cast("float32", B[vi]) * T.float32(2)
//! ```
//!
//! Requires: the block writes the buffer at that index, and an enclosing block allocates the buffer. Preserves:
//! everything except the precision of the buffer's values; hence the name. Returns: nothing.
//!
//! Handles: persist.

use super::super::analysis::alloc_site::{require_alloc_site, views_below};
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use crate::ir::dtype::UnknownDType;
use crate::ir::visit::walk_rewrite;
use crate::ir::{Arena, Buffer, BufferId, DType, Expr, ExprId, Rewriter, Stmt};
use hashbrown::HashMap;

/// `unsafe_set_dtype(block, buffer_index, dtype)`.
pub(crate) static UNSAFE_SET_DTYPE: Kind = Kind {
    name: "UnsafeSetDType",
    method: "unsafe_set_dtype",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("buffer_index", Ty::BufferIndex),
        Param::attr("dtype", Ty::Str),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (index, block) = call.block(0)?;
    let position = call.buffer_index(1, index, block, Access::Write)?;
    let name = call.str(2)?;
    let dtype: DType =
        name.as_str().parse().map_err(|e: UnknownDType| ErrorKind::Argument { message: e.to_string() })?;
    if !DType::ELEMENTS.contains(&dtype) {
        return Err(ErrorKind::Argument { message: format!("a buffer has no elements of type `{dtype}`") }.into());
    }
    let state = call.state(index);
    let buffer = state.func.block(block).writes[position].buffer;
    if state.func.arena.buffer(buffer).dtype == dtype {
        return Ok(Outcome::none());
    }
    let site = require_alloc_site(state, block, buffer)?;

    let func = &mut state.func;
    let mut to = HashMap::new();
    for b in std::iter::once(buffer).chain(views_below(func, site.stmt(), buffer)) {
        let new = Buffer { dtype, ..func.arena.buffer(b).clone() };
        to.insert(b, func.arena.new_buffer(new));
    }
    let mut conversion = Conversion { to, done: HashMap::new() };
    for s in func.subtree(site.stmt()) {
        let converted = matches!(func.get(s), Stmt::Store { buffer, .. } if conversion.to.contains_key(buffer));
        func.rewrite_stmt(s, &mut conversion);
        if converted && let Stmt::Store { buffer, indices, value } = *func.get(s) {
            let value = func.arena.cast_unfolded(dtype, value);
            *func.stmt_mut(s) = Stmt::Store { buffer, indices, value };
        }
    }
    Ok(Outcome::none())
}

/// Loads from other buffers, converted back to the old type.
struct Conversion {
    to: HashMap<BufferId, BufferId>,
    done: HashMap<ExprId, ExprId>,
}

impl Rewriter for Conversion {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&new) = self.done.get(&e) {
            return new;
        }
        let dtype = arena.dtype(e);
        let is_converted = matches!(arena.expr(e), Expr::Load(b, _) if self.to.contains_key(&b));
        let mut new = walk_rewrite(self, arena, e);
        if is_converted {
            new = arena.cast_unfolded(dtype, new);
        }
        self.done.insert(e, new);
        new
    }

    fn rewrite_buffer(&mut self, b: BufferId) -> BufferId {
        self.to.get(&b).copied().unwrap_or(b)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const CHAIN: &str = r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * T.float32(2)
"#;

    #[test]
    fn accesses_convert() {
        check(
            CHAIN,
            |t| {
                let block = t.block("B");
                t.run("unsafe_set_dtype", vec![block.into(), 0.into(), "float16".into()]).map(drop)
            },
            r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,), "float16")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.Cast("float16", A[vi] + T.float32(1))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.Cast("float32", B[vi]) * T.float32(2)
"#,
        );
    }

    #[test]
    fn parameters_are_refused() {
        refuse(
            CHAIN,
            |t| {
                let block = t.block("C");
                t.run("unsafe_set_dtype", vec![block.into(), 0.into(), "float16".into()]).map(drop)
            },
            "NonAllocatedBufferError",
        );
    }

    #[test]
    fn scope_alignment_and_hiding() {
        check(
            CHAIN,
            |t| {
                let (b, c) = (t.block("B"), t.block("C"));
                t.run("set_scope", vec![b.into(), "B".into(), "shared".into()])?;
                t.run("storage_align", vec![b.into(), 0.into(), (-1).into(), 32.into(), 8.into()])?;
                t.run("storage_align", vec![b.into(), 0.into(), 0.into(), 16.into(), 4.into()])?;
                t.run(
                    "unsafe_hide_buffer_access",
                    vec![c.into(), "read".into(), crate::schedule::arg::Arg::List(vec![0.into()])],
                )
                .map(drop)
            },
            r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B_shared = T.alloc_buffer((8,), scope="shared")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.block_attr({"buffer_dim_align": [[0, 0, 16, 4]]})
            B_shared[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(C[vi])
            C[vi] = B_shared[vi] * T.float32(2)
"#,
        );
    }
}
