//! # `normalize_loop`
//!
//! Normalises a loop to count from 0 by 1. TVM has no such primitive.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(20), B: T.Buffer(20)):
//!     for i in range(2, 20, 3):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(20, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.normalize_loop(i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((20,)), B: T.Buffer((20,))):
//!     for i in range(6):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(20, i * 3 + 2)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: a step that is a positive constant, or none.
//! * Errors: `LoopStepError`.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! `normalize_loop`: makes a loop count from 0 by 1.
//!
//! ```text
//! for i in range(2, 20, 3): S(i)
//! // becomes
//! for i in range(6): S(i * 3 + 2)
//! ```
//!
//! Requires: a step that is a positive constant. Preserves: the iterations and their order. Returns: nothing. Handles:
//! all persist.

use super::super::analysis::affine::simplify_bindings;
use super::super::analysis::freedom::limit;
use super::super::analysis::update_scope_info;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use std::sync::Arc;

/// `normalize_loop(loop)`.
pub(crate) static NORMALIZE_LOOP: Kind = Kind {
    name: "NormalizeLoop",
    method: "normalize_loop",
    classic: None,
    positional: false,
    params: &[Param::input("loop", Ty::Loop)],
    outputs: Outputs::None,
    samples: false,
    run: normalize_loop,
};

fn normalize_loop(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.loop_(0)?;
    let state = call.state(func);
    let step = state.func.loop_(target).step;
    if step.is_some_and(|step| state.func.arena.as_int(step).is_none_or(|n| n < 1)) {
        return Err(state.error(ErrorKind::LoopStep { statement: state.func.brief_stmt(target.stmt()) }, target));
    }
    state.func.count_from_zero(target);
    simplify_bindings(&mut state.func, target.stmt(), true);
    state.limit = limit(&state.func).map(Arc::new);
    let root = state.func.root;
    update_scope_info(state, root);
    Ok(Outcome { outputs: Vec::new(), decision: None })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const STEPPED: &str = r#"
def main(A: T.Buffer((64,)), B: T.Buffer((64,))):
    for i in range(0, 64, 16):
        for j in range(16):
            with T.block("B"):
                vi = T.axis.spatial(64, i + j)
                B[vi] = A[vi] + T.float32(1)
"#;

    #[test]
    fn the_variable_becomes_what_it_was() {
        check(
            STEPPED,
            |t| t.python("sch.normalize_loop(sch.get_loops(sch.get_block('B', 'main'))[0])"),
            &STEPPED.replace("range(0, 64, 16)", "range(4)").replace("i + j", "i * 16 + j"),
        );
        let block = "def main(A: T.Buffer((8,))):\n    for i in range(-3, 5):\n        with T.block(\"A\"):\n            \
                     vi = T.axis.spatial((-3, 5), i)\n            A[vi + 3] = T.float32(0)\n";
        check(
            block,
            |t| t.python("sch.normalize_loop(sch.get_loops(sch.get_block('A', 'main'))[0])"),
            &block.replace("range(-3, 5)", "range(8)").replace("(-3, 5), i)", "(-3, 5), i + -3)"),
        );
    }

    #[test]
    fn other_primitives_want_loops_without_a_step() {
        let first = "i, j = sch.get_loops(sch.get_block('B', 'main'))\n";
        refuse(STEPPED, |t| t.python(&format!("{first}sch.split(i, [2, 2])")), "LoopStepError");
        refuse(STEPPED, |t| t.python(&format!("{first}sch.parallel(j)")), "LoopStepError");
        check(
            STEPPED,
            |t| t.python(&format!("{first}sch.normalize_loop(i)\nsch.fuse(i, j)")),
            "def main(A: T.Buffer((64,)), B: T.Buffer((64,))):\n    for i in range(64):\n        with T.block(\"B\"):\n            \
             vi = T.axis.spatial(64, i)\n            B[vi] = A[vi] + T.float32(1)\n",
        );
    }

    #[test]
    fn a_step_must_be_known() {
        let symbolic =
            STEPPED.replace("B: T.Buffer((64,))", "B: T.Buffer((64,)), n: T.int32").replace("64, 16)", "64, n)");
        refuse(
            &symbolic,
            |t| t.python("sch.normalize_loop(sch.get_loops(sch.get_block('B', 'main'))[0])"),
            "LoopStepError",
        );
    }
}
