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
