//! Combines the decisions of two traces.

use super::unit;
use crate::schedule::Trace;
use rand_chacha::ChaCha8Rng;

/// Takes each decision from the first trace, or from the second at the same position. Both belong to one sketch; where
/// their instructions differ, those of the first stay.
pub(crate) fn crossover(first: &Trace, second: &Trace, rng: &mut ChaCha8Rng) -> Trace {
    let mut child = first.clone();
    for (inst, other) in child.insts.iter_mut().zip(&second.insts) {
        if inst.decision.is_some() && inst.kind == other.kind && other.decision.is_some() && unit(rng) < 0.5 {
            inst.decision.clone_from(&other.decision);
        }
    }
    child
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::sample::stream;

    #[test]
    fn decisions_come_from_either() {
        let trace = |d: i64| {
            let line =
                |i: i64| format!("v{i} = sch.sample_categorical(candidates=[1, 2], probs=[0.5, 0.5], decision={d})\n");
            Trace::from_python(&(0..20).map(line).collect::<String>(), "t.py").expect("a trace")
        };
        let child = crossover(&trace(0), &trace(1), &mut stream(0, 0));
        let ones = child.decisions().filter(|(_, d)| **d == crate::schedule::arg::Decision::Int(1)).count();
        assert!((4..17).contains(&ones), "{ones} of 20");
    }
}
