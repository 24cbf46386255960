//! # `sample_compute_location`
//!
//! Samples a compute location for a block: -2 inlined, -1 under the root, otherwise the number of a loop around the
//! first consumer. An invalid decision is replaced by the next smaller valid one.
//!
//! * Requires: not the root block.
//! * Errors: `RootBlockError`, `ValueError` (a decision that is no number).
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

#[cfg(test)]
mod tests {
    use super::super::super::arg::{Decision, Rv, RvValue};
    use super::super::testing::{Test, refuse};
    use std::collections::BTreeSet;

    /// A producer whose consumer has a loop of one iteration between two others.
    const CHAIN: &str = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, u, j in T.grid(4, 1, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"#;

    /// A sum, which cannot be inlined.
    const SUM: &str = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + T.float32(1)
"#;

    /// The location that the schedule chose for `block`, and the decision that its trace holds.
    fn sample(t: &mut Test, block: Rv, decision: Option<i64>) -> (RvValue, i64) {
        let chosen = t.sch.sample_compute_location(block, decision).expect("the block has places");
        let recorded = t.sch.trace().insts.last().and_then(|inst| inst.decision.clone());
        let Some(Decision::Int(recorded)) = recorded else { panic!("no decision was recorded") };
        (t.values(&[chosen])[0], recorded)
    }

    #[test]
    fn a_decision_names_a_place() {
        let mut t = Test::new(CHAIN);
        let (block, loops) = (t.block("B"), t.loops("C"));
        let loops = t.values(&loops);
        assert_eq!(sample(&mut t, block, Some(-2)), (RvValue::Inlined, -2));
        assert_eq!(sample(&mut t, block, Some(-1)), (RvValue::AtRoot, -1));
        assert_eq!(sample(&mut t, block, Some(0)), (loops[0], 0));
        assert_eq!(sample(&mut t, block, Some(2)), (loops[2], 2));
    }

    #[test]
    fn another_decision_becomes_the_next_smaller_or_the_root() {
        let mut t = Test::new(CHAIN);
        let (block, loops) = (t.block("B"), t.loops("C"));
        let loops = t.values(&loops);
        // A loop of one iteration is no candidate.
        assert_eq!(sample(&mut t, block, Some(1)), (loops[0], 0));
        assert_eq!(sample(&mut t, block, Some(7)), (loops[2], 2));
        assert_eq!(sample(&mut t, block, Some(-3)), (RvValue::AtRoot, -1));
        let mut t = Test::new(SUM);
        let block = t.block("B");
        assert_eq!(sample(&mut t, block, Some(-2)), (RvValue::AtRoot, -1));
    }

    #[test]
    fn all_candidates_are_drawn_and_no_others() {
        let drawn = |program: &str, block: &str| -> BTreeSet<i64> {
            let mut t = Test::new(program);
            let block = t.block(block);
            (0..100).map(|_| sample(&mut t, block, None).1).collect()
        };
        assert_eq!(drawn(CHAIN, "B"), BTreeSet::from([-2, -1, 0, 2]));
        assert_eq!(drawn(SUM, "B"), BTreeSet::from([-1, 0]));
        // Nothing reads an output in its scope.
        assert_eq!(drawn(CHAIN, "C"), BTreeSet::from([-1]));
    }

    #[test]
    fn a_preference_is_followed_and_one_of_another_form_is_not() {
        let mut t = Test::new(CHAIN);
        let block = t.block("B");
        t.sch.prefer_decisions([Decision::Int(2), Decision::Ints(vec![2])].into_iter());
        assert_eq!(sample(&mut t, block, None).1, 2);
        assert!([-2, -1, 0, 2].contains(&sample(&mut t, block, None).1));
    }

    #[test]
    fn the_root_has_no_place() {
        refuse(CHAIN, |t| t.python("sch.sample_compute_location('root')"), "RootBlockError");
    }

    #[test]
    fn a_decision_is_one_number() {
        refuse(
            CHAIN,
            |t| {
                let block = t.block("B");
                let decision = Some(Decision::Ints(vec![0]));
                t.sch.execute(&super::SAMPLE_COMPUTE_LOCATION, vec![block.into()], decision).map(drop)
            },
            "ValueError",
        );
    }
}
