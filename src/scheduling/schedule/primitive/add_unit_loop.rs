//! # `add_unit_loop`
//!
//! Adds a loop of one iteration around a block or loop.
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
//!     sch.add_unit_loop("B")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i, u in T.grid(30, 1):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: not the root block.
//! * Errors: `RootBlockError`.
//! * Handles: persists: all; created: the loop.
//!
//! # Implementation
//!
//! `add_unit_loop`: puts a loop of one iteration around a block or loop.
//!
//! ```text
//! S
//! // becomes
//! for u in range(1): S
//! ```
//!
//! Requires: not the root block. Preserves: everything inside. Returns: the new loop. Handles: all persist.

use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use crate::ir::{Body, DType};

/// `add_unit_loop(block_or_loop)`.
pub(crate) static ADD_UNIT_LOOP: Kind = Kind {
    name: "AddUnitLoop",
    method: "add_unit_loop",
    classic: None,
    positional: false,
    params: &[Param::input("block_or_loop", Ty::BlockOrLoop)],
    outputs: Outputs::Loop,
    samples: false,
    run: add_unit_loop,
};

fn add_unit_loop(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.block_or_loop(0)?;
    let state = call.state(func);
    let f = &mut state.func;
    let target = target.stmt();
    if target == f.root.stmt() {
        return Err(state.error(ErrorKind::RootBlock, target));
    }
    let (var, one) = (f.arena.new_var("u", DType::Int32), f.arena.int32(1));
    let place = f.cut(target);
    let new = f.make_loop(var, one, Body::from_slice(&[target]));
    f.insert_at(place, &[new.stmt()]);
    Ok(Outcome { outputs: vec![RvValue::Loop(func, new)], decision: None })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const TWO_NESTS: &str = r#"
def main(A: T.Buffer((4,)), B: T.Buffer((4,)), C: T.Buffer((4,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + T.float32(1)
    for j in range(4):
        with T.block("C"):
            vj = T.axis.spatial(4, j)
            C[vj] = A[vj] + T.float32(2)
"#;

    #[test]
    fn a_block_gets_a_loop_of_its_own() {
        check(
            TWO_NESTS,
            |t| {
                let (block, i) = (t.block("B"), t.loops("B")[0]);
                let unit = t.run("add_unit_loop", vec![block.into()])?[0];
                let loops = t.loops("B");
                assert_eq!(t.values(&loops), t.values(&[i, unit]));
                assert_eq!(t.names(&[unit]), ["u"]);
                assert!(t.is_alive(block));
                Ok(())
            },
            &TWO_NESTS.replacen("for i in range(4)", "for i, u in T.grid(4, 1)", 1),
        );
    }

    #[test]
    fn a_loop_gets_one_around_it_where_it_stands() {
        check(
            TWO_NESTS,
            |t| {
                let j = t.loops("C")[0];
                let unit = t.run("add_unit_loop", vec![j.into()])?[0];
                let loops = t.loops("C");
                assert_eq!(t.values(&loops), t.values(&[unit, j]));
                Ok(())
            },
            &TWO_NESTS.replacen("for j in range(4)", "for u, j in T.grid(1, 4)", 1),
        );
    }

    #[test]
    fn a_block_without_loops_and_a_loop_of_one_iteration_get_another() {
        let bare = TWO_NESTS.to_string() + "    with T.block(\"A\"):\n        A[0] = T.float32(3)\n";
        let inner = "    for u, v in T.grid(1, 1):\n        with T.block(\"A\"):\n            A[0] = T.float32(3)\n";
        check(&bare, |t| t.python("sch.add_unit_loop(sch.add_unit_loop('A'))"), &(TWO_NESTS.to_string() + inner));
    }

    #[test]
    fn there_is_nothing_around_the_root() {
        refuse(TWO_NESTS, |t| t.python("sch.add_unit_loop('root')"), "RootBlockError");
    }

    #[test]
    fn a_loop_that_is_gone_gets_none() {
        refuse(TWO_NESTS, |t| t.python("i, = sch.get_loops('B')\nsch.fuse(i)\nsch.add_unit_loop(i)"), "ValueError");
    }
}
