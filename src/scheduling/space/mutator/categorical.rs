//! Mutates a choice: mostly to an adjacent candidate, sometimes to any.
//!
//! Rules list candidates in a meaningful order, such as by size, so adjacent ones are similar.

use super::{Mutator, choose, unit};
use crate::schedule::arg::{Arg, Decision};
use crate::schedule::{Instruction, Trace};
use rand_chacha::ChaCha8Rng;

pub(super) struct Categorical;

/// Probability of a step to a neighbour.
const NEAR: f64 = 0.6;

impl Mutator for Categorical {
    fn weight(&self) -> f64 {
        1.0
    }

    fn is_for(&self, _: &Trace, inst: &Instruction) -> bool {
        inst.kind.name == "SampleCategorical"
    }

    fn mutate(&self, inst: &Instruction, rng: &mut ChaCha8Rng) -> Option<Decision> {
        let others = if unit(rng) < NEAR { near(inst) } else { all(inst) };
        choose(rng, others).map(Decision::Int)
    }

    fn neighbours(&self, inst: &Instruction) -> Vec<Decision> {
        // A choice has few candidates, and not all lists are ordered.
        all(inst).into_iter().map(Decision::Int).collect()
    }
}

/// The position of the chosen candidate, and the probabilities of all.
fn chosen(inst: &Instruction) -> Option<(i64, &[Arg])> {
    match (&inst.decision, inst.args.get(1)) {
        (Some(Decision::Int(i)), Some(Arg::List(probs))) => Some((*i, probs)),
        _ => None,
    }
}

/// The other candidates with a probability above 0.
fn all(inst: &Instruction) -> Vec<i64> {
    let Some((now, probs)) = chosen(inst) else { return Vec::new() };
    let possible = |p: &Arg| !matches!(p, Arg::Int(0)) && *p != Arg::Float(0.0);
    (0..).zip(probs).filter(|&(i, p)| i != now && possible(p)).map(|(i, _)| i).collect()
}

fn near(inst: &Instruction) -> Vec<i64> {
    let Some((now, _)) = chosen(inst) else { return Vec::new() };
    let others = all(inst);
    let below = others.iter().copied().filter(|&i| i < now).max();
    let above = others.iter().copied().filter(|&i| i > now).min();
    below.into_iter().chain(above).collect()
}

/// Whether a random variable of the instruction annotates something under one of these keys.
pub(super) fn annotates(trace: &Trace, inst: &Instruction, keys: &[&str]) -> bool {
    let [output] = inst.outputs[..] else { return false };
    trace.insts.iter().any(|user| {
        let is_key = |a: &Arg| matches!(a, Arg::Str(s) if keys.contains(&s.as_str()));
        user.kind.name == "Annotate" && user.args.iter().any(is_key) && user.args.contains(&Arg::Rv(output))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Trace;

    fn choice(text: &str) -> Instruction {
        let trace = Trace::from_python(text, "t.py").expect("a trace");
        trace.insts[0].clone()
    }

    #[test]
    fn steps_and_jumps() {
        let inst =
            choice("v0 = sch.sample_categorical(candidates=[0, 16, 64, 512], probs=[0.4, 0.3, 0.3, 0], decision=1)");
        assert_eq!((near(&inst), all(&inst)), (vec![0, 2], vec![0, 2]));
        let inst = choice("v0 = sch.sample_categorical(candidates=[7], probs=[1], decision=0)");
        assert_eq!((near(&inst), all(&inst)), (vec![], vec![]));
    }
}
