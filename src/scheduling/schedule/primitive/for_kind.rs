//! How the iterations of a loop run: `parallel`, `vectorize`, `unroll`, `bind`.
//!
//! # `parallel`
//!
//! Makes a loop parallel: its iterations run on several threads.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.parallel(i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i in T.parallel(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: blocks below are complete or reduction blocks for the loop; only spatial bindings use it.
//! * Errors: `NotCompactDataFlowError`, `WrongBlockIterTypeError`.
//! * Handles: persists: all.
//!
//! # `vectorize`
//!
//! Vectorises a loop: its iterations become vector lanes.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.vectorize(i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i in T.vectorized(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: as `parallel`.
//! * Errors: as `parallel`.
//! * Handles: persists: all.
//!
//! # `unroll`
//!
//! Unrolls a loop.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.unroll(i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i in T.unroll(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: nothing.
//! * Errors: –.
//! * Handles: persists: all.
//!
//! # `bind`
//!
//! Binds a loop to a GPU thread axis. A CPU emulates it: blocks of threads (`blockIdx`) run in parallel, the threads of a block
//! one after the other.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.bind(i, "threadIdx.x")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i in T.thread_binding(30, thread="threadIdx.x"):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: as `parallel`; a known axis; `threadIdx` may drive reductions.
//! * Errors: `NotCompactDataFlowError`, `WrongBlockIterTypeError`.
//! * Handles: persists: all.
//! * Refused, though TVM accepts it: unknown thread axes.
//!
//! # Implementation
//!
//! ```text
//! for i in range(n): S(i)
//! // becomes, with sch.parallel(loop=i)
//! for i in T.parallel(n): S(i)
//! ```
//!
//! Requires (except for `unroll`, which keeps the order): every block directly below is complete or a reduction block
//! with respect to the loop, and the loop drives only spatial iteration variables of the blocks below, at any depth.
//! `bind` to `threadIdx` may also drive reduction variables.
//!
//! Preserves: everything but the loop's kind. Handles: the loop persists.

use super::super::analysis::block_class::require_compact_data_flow;
use super::super::analysis::interference::carried_buffer;
use super::super::analysis::tree::ThreadAxis;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::ir::visit::uses_var;
use crate::ir::{BlockId, IterKind, LoopId, LoopKind};

const LOOP: &[Param] = &[Param::input("loop", Ty::Loop)];

const fn kind(
    name: &'static str,
    method: &'static str,
    run: fn(&mut Call<'_>) -> Result<Outcome, ScheduleError>,
) -> Kind {
    Kind { name, method, classic: None, positional: false, params: LOOP, outputs: Outputs::None, samples: false, run }
}

/// `parallel(loop)`.
pub(crate) static PARALLEL: Kind = kind("Parallel", "parallel", |call| set_kind(call, LoopKind::Parallel));

/// `vectorize(loop)`.
pub(crate) static VECTORIZE: Kind = kind("Vectorize", "vectorize", |call| set_kind(call, LoopKind::Vectorized));

/// `unroll(loop)`.
pub(crate) static UNROLL: Kind = kind("Unroll", "unroll", |call| set_kind(call, LoopKind::Unrolled));

/// `bind(loop, thread_axis)`.
pub(crate) static BIND: Kind = Kind {
    params: &[Param::input("loop", Ty::Loop), Param::attr("thread_axis", Ty::Str)],
    ..kind("Bind", "bind", |call| {
        let axis = call.str(1)?;
        set_kind(call, LoopKind::ThreadBinding(axis))
    })
};

fn set_kind(call: &mut Call<'_>, kind: LoopKind) -> Result<Outcome, ScheduleError> {
    let (func, l) = call.loop_(0)?;
    let state = call.state(func);
    check(state, l, kind)?;
    state.func.loop_mut(l).kind = kind;
    Ok(Outcome::none())
}

fn check(state: &mut State, l: LoopId, kind: LoopKind) -> Result<(), ScheduleError> {
    let (op, allow_reduce) = match kind {
        LoopKind::Serial | LoopKind::Unrolled => return Ok(()),
        LoopKind::Parallel => ("parallel", false),
        LoopKind::Vectorized => ("vectorize", false),
        LoopKind::ThreadBinding(name) => match ThreadAxis::parse(name) {
            Some(axis) => ("bind", matches!(axis, ThreadAxis::Thread(0..))),
            None => {
                let message =
                    format!("`{name}` is no thread axis; there are `blockIdx.x`, `threadIdx.x`, `vthread.x` and so on");
                return Err(state.error(ErrorKind::Argument { message }, l));
            }
        },
    };
    require_compact_data_flow(state, l)?;
    let blocks = state.func.child_blocks(l.stmt());
    check_blocks(state, l, &blocks, op, allow_reduce)?;
    if matches!(kind, LoopKind::Parallel | LoopKind::Vectorized)
        && blocks.len() > 1
        && let Some(buffer) = carried_buffer(&mut state.func, l)
    {
        let (loop_name, buffer) =
            (state.func.arena.var(state.func.loop_(l).var).name, state.func.arena.buffer(buffer).name);
        return Err(state.error(ErrorKind::LoopCarried { op, loop_name, buffer }, l));
    }
    Ok(())
}

fn check_blocks(
    state: &State,
    l: LoopId,
    blocks: &[BlockId],
    op: &'static str,
    allow_reduce: bool,
) -> Result<(), ScheduleError> {
    let func = &state.func;
    let node = func.loop_(l);
    for &b in blocks {
        let block = func.block(b);
        for iter in &block.iters {
            let allowed = match iter.kind {
                IterKind::Spatial => true,
                IterKind::Reduce => allow_reduce,
                IterKind::Scan | IterKind::Opaque => false,
            };
            if !allowed && uses_var(&func.arena, iter.value, &mut |v| v == node.var) {
                let kind = ErrorKind::WrongBlockIterType {
                    op,
                    loop_name: func.arena.var(node.var).name,
                    block: block.name,
                    kind: iter.kind.name(),
                };
                return Err(state.error(kind, b));
            }
        }
        check_blocks(state, l, &func.child_blocks(b.stmt()), op, allow_reduce)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const MERGED: &str = r#"
def main(A: T.Buffer((6, 8)), C: T.Buffer((6, 8))):
    B = T.alloc_buffer((6, 8))
    for i in range(6):
        for j in range(8):
            with T.block("B"):
                vi = T.axis.spatial(6, 5 - i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj]
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
"#;

    #[test]
    fn iterations_that_read_what_others_write_do_not_run_at_the_same_time() {
        let parallel = "sch.parallel(sch.get_loops(sch.get_block('C', 'main'))[0])";
        refuse(MERGED, |t| t.python(parallel), "LoopCarriedDependencyError");
        let own = MERGED.replace("5 - i", "i");
        check(&own, |t| t.python(parallel), &own.replace("for i in range(6)", "for i in T.parallel(6)"));
    }

    /// Row sums, with the headers of the two loops.
    fn sums(i: &str, k: &str) -> String {
        format!(
            r#"
def main(A: T.Buffer((4, 8)), B: T.Buffer((4,))):
    for i in {i}:
        for k in {k}:
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
"#
        )
    }

    fn steps(calls: &str) -> String {
        format!("i, k = sch.get_loops('B')\n{calls}")
    }

    #[test]
    fn a_loop_takes_the_kind_and_lives_on() {
        for (call, header) in [
            ("sch.parallel(i)", "T.parallel(4)"),
            ("sch.vectorize(i)", "T.vectorized(4)"),
            ("sch.unroll(i)", "T.unroll(4)"),
            ("sch.bind(i, 'blockIdx.x')", "T.thread_binding(4, thread=\"blockIdx.x\")"),
            ("sch.bind(i, 'vthread.x')", "T.thread_binding(4, thread=\"vthread.x\")"),
        ] {
            check(
                &sums("range(4)", "range(8)"),
                |t| {
                    let loops = t.loops("B");
                    t.python(&steps(call))?;
                    assert!(loops.iter().all(|&l| t.is_alive(l)));
                    Ok(())
                },
                &sums(header, "range(8)"),
            );
        }
    }

    #[test]
    fn the_last_kind_counts() {
        check(
            &sums("range(4)", "range(8)"),
            |t| t.python(&steps("sch.parallel(i)\nsch.unroll(i)")),
            &sums("T.unroll(4)", "range(8)"),
        );
    }

    #[test]
    fn reductions_may_be_unrolled_or_bound_to_threads() {
        for (call, header) in [
            ("sch.unroll(k)", "T.unroll(8)"),
            ("sch.bind(k, 'threadIdx.x')", "T.thread_binding(8, thread=\"threadIdx.x\")"),
        ] {
            check(&sums("range(4)", "range(8)"), |t| t.python(&steps(call)), &sums("range(4)", header));
        }
        for call in ["sch.parallel(k)", "sch.vectorize(k)", "sch.bind(k, 'blockIdx.x')", "sch.bind(k, 'vthread.x')"] {
            refuse(&sums("range(4)", "range(8)"), |t| t.python(&steps(call)), "WrongBlockIterTypeError");
        }
    }

    #[test]
    fn extents_of_one_and_symbolic_ones_are_loops_as_others() {
        for (extent, header) in [("1", "main("), ("n", "main(n: T.int32, ")] {
            let of = |text: String| text.replace("(4", &format!("({extent}")).replace("main(", header);
            let program = of(sums("range(4)", "range(8)"));
            check(&program, |t| t.python(&steps("sch.parallel(i)")), &of(sums("T.parallel(4)", "range(8)")));
        }
    }

    #[test]
    fn refused_axes_and_blocks() {
        let program = sums("range(4)", "range(8)");
        refuse(&program, |t| t.python(&steps("sch.bind(i, 'thread.x')")), "ValueError");
        let update = program.replace("with T.init():\n                    B[vi] = T.float32(0)\n                ", "");
        for call in ["sch.parallel(i)", "sch.vectorize(i)", "sch.bind(i, 'threadIdx.x')"] {
            refuse(&update, |t| t.python(&steps(call)), "NotCompactDataFlowError");
        }
        refuse(&program, |t| t.python(&steps("sch.fuse(i)\nsch.unroll(i)")), "ValueError");
    }
}
