//! # `get_loops`
//!
//! Returns the loops around a block up to the next block, outermost first.
//!
//! * Requires: a block that still exists.
//! * Errors: –.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! `get_loops`: the loops around a block, outermost first, up to the next block. Changes nothing.

use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::ScheduleError;
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};

/// `get_loops(block)`.
pub(crate) static GET_LOOPS: Kind = Kind {
    name: "GetLoops",
    method: "get_loops",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::Loops,
    samples: false,
    run: get_loops,
};

fn get_loops(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let loops = call.state(func).func.loops_above(block.stmt());
    Ok(Outcome { outputs: loops.into_iter().map(|l| RvValue::Loop(func, l)).collect(), decision: None })
}
