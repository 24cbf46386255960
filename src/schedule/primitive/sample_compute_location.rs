//! # `sample_compute_location`
//!
//! Samples a compute location for a block: -2 inlined, -1 under the root, otherwise the number of a loop around the
//! first consumer. An invalid decision is replaced by the next smaller valid one.
//!
//! * Requires: not the root block.
//! * Errors: `RootBlockError`.
//! * Handles: persists: all; created: – (names a loop that is there, or a place).
//!
//! # Implementation
//!
//! `sample_compute_location`: samples a location at which a block is computed.
//!
//! ```text
//! l1 = sch.sample_compute_location(block=b0)
//! sch.compute_at(block=b0, loop=l1)
//! ```
//!
//! The candidates are, as decisions: -2, inlined, if the block can be inlined; -1, under the root; and the positions of
//! loops around the first consumer that `compute_at` would accept and that are useful. An invalid decision is replaced
//! by the next smaller candidate, or -1.
//!
//! Requires: not the root block. Preserves: the program. Returns: a loop, or one of the two special locations, which
//! `compute_at` and `reverse_compute_at` accept.

use super::super::analysis::location::{Location, compute_location, compute_locations};
use super::super::arg::{Decision, RvValue};
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::sampling::below;

/// `sample_compute_location(block)`.
pub(crate) static SAMPLE_COMPUTE_LOCATION: Kind = Kind {
    name: "SampleComputeLocation",
    method: "sample_compute_location",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::Loop,
    samples: true,
    run: sample_compute_location,
};

fn sample_compute_location(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    // A preferred decision of another type is ignored.
    let decision = call.decision.filter(|d| !call.is_preferred || matches!(d, Decision::Int(_)));
    let location = match decision {
        Some(Decision::Int(decision)) => {
            let decision = *decision;
            compute_location(call.state(func), block, decision)?
        }
        Some(Decision::Ints(_)) => {
            let message = "expected one number as the decision, found a list".to_string();
            return Err(ErrorKind::Argument { message }.into());
        }
        None => {
            let locations = compute_locations(call.state(func), block)?;
            locations[below(&mut call.sch.rng, locations.len() as u64) as usize]
        }
    };
    let value = match location {
        Location::Inlined => RvValue::Inlined,
        Location::AtRoot => RvValue::AtRoot,
        Location::Loop(_, l) => RvValue::Loop(func, l),
    };
    Ok(Outcome { outputs: vec![value], decision: Some(Decision::Int(location.decision())) })
}
