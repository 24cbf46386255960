//! Mutators: change the decisions of a trace.
//!
//! A mutator gives one sampling instruction another decision; it never sees a program. The trace is then replayed, and
//! later decisions that have become invalid are replaced by the nearest valid ones
//! ([`Schedule::prefer_decisions`](crate::schedule::Schedule::prefer_decisions)).
//!
//! TVM: `src/s_tir/meta_schedule/mutator`.

mod categorical;
mod compute_location;
mod crossover;
mod parallel;
mod tile_size;
mod unroll;

pub(crate) use crossover::crossover;

use crate::schedule::arg::Decision;
use crate::schedule::primitive::sampling::below;
use crate::schedule::{Instruction, Trace};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Mutates decisions of one kind.
pub(crate) trait Mutator: Send + Sync {
    /// Relative probability of choosing an instruction of this kind.
    fn weight(&self) -> f64;

    /// Whether it applies to this instruction of the trace.
    fn is_for(&self, trace: &Trace, inst: &Instruction) -> bool;

    /// A random other decision, near or far; `None` if there is no other.
    fn mutate(&self, inst: &Instruction, rng: &mut ChaCha8Rng) -> Option<Decision>;

    /// All decisions one small step away.
    fn neighbours(&self, inst: &Instruction) -> Vec<Decision>;
}

/// All mutators; the first one that applies to an instruction is used. Adding one is a file and a line here.
///
/// Weights are per instruction, unlike TVM's weights per mutator (tile size 0.9, compute location 0.05, unroll 0.03,
/// parallel 0.02). For a tiled matmul, with three tile sizes and one unroll limit, this is nearly the same; if rules
/// offer many choices, each is mutated often enough.
static ALL: [&dyn Mutator; 5] = [
    &tile_size::TileSize,
    &unroll::Unroll,
    &parallel::Parallel,
    &categorical::Categorical,
    &compute_location::ComputeLocation,
];

/// The mutator for an instruction that has a decision.
pub(crate) fn of(trace: &Trace, inst: &Instruction) -> Option<&'static dyn Mutator> {
    inst.decision.as_ref()?;
    ALL.into_iter().find(|m| m.is_for(trace, inst))
}

/// A new decision for instruction `index` of a trace.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Change {
    /// Position of the instruction.
    pub index: usize,
    /// Its new decision.
    pub decision: Decision,
}

/// A random change; `None` if there is nothing to change.
pub(crate) fn mutate(trace: &Trace, rng: &mut ChaCha8Rng) -> Option<Change> {
    let mut open: Vec<(usize, &'static dyn Mutator)> = Vec::new();
    for (index, inst) in trace.insts[..trace.space_len()].iter().enumerate() {
        open.extend(of(trace, inst).map(|m| (index, m)));
    }
    while !open.is_empty() {
        let chosen = weighted(rng, open.iter().map(|(_, m)| m.weight()));
        let (index, mutator) = open.swap_remove(chosen);
        if let Some(decision) = mutator.mutate(&trace.insts[index], rng) {
            return Some(Change { index, decision });
        }
    }
    None
}

/// All single changes by one small step, in the order of the instructions.
pub(crate) fn neighbours(trace: &Trace) -> Vec<Change> {
    let mut found = Vec::new();
    for (index, inst) in trace.insts[..trace.space_len()].iter().enumerate() {
        let Some(mutator) = of(trace, inst) else { continue };
        found.extend(mutator.neighbours(inst).into_iter().map(|decision| Change { index, decision }));
    }
    found
}

impl Change {
    /// Applies the change.
    pub(crate) fn apply(self, trace: &mut Trace) {
        if let Some(inst) = trace.insts.get_mut(self.index) {
            inst.decision = Some(self.decision);
        }
    }
}

/// A random position with these weights, of which there is at least one.
pub(crate) fn weighted(rng: &mut ChaCha8Rng, weights: impl Iterator<Item = f64> + Clone) -> usize {
    let mut rest = unit(rng) * weights.clone().sum::<f64>();
    let mut last = 0;
    for (i, w) in weights.enumerate() {
        if rest < w {
            return i;
        }
        rest -= w;
        last = i;
    }
    // Rounding errors may leave a remainder.
    last
}

/// A uniform random number in [0, 1).
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A random item; `None` if there is none.
fn choose<T>(rng: &mut ChaCha8Rng, mut items: Vec<T>) -> Option<T> {
    match items.len() as u64 {
        0 => None,
        n => Some(items.swap_remove(below(rng, n) as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Core;
    use crate::machine::Isa;
    use crate::machine::cascade_lake;
    use crate::schedule::Schedule;
    use crate::script::{ParseOptions, parse};
    use crate::space::sample::stream;
    use crate::space::{Rules, Space, generate};

    const PROGRAMS: [(&str, &str); 3] = [
        ("matmul", include_str!("../../../../workloads/matmul.tir")),
        ("conv2d_nchw", include_str!("../../../../workloads/conv2d_nchw.tir")),
        ("row_sum", include_str!("../../../../workloads/row_sum.tir")),
    ];

    fn spaces(text: &str, name: &str) -> (Schedule, Vec<Space>) {
        let module = parse(text, name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let rules = [Rules::tvm(4), Rules::auto(Core::new(&cascade_lake(), Isa::Avx512, 1))];
        let spaces =
            rules.map(|r| generate(&module, 0, r, &crate::stop::StopFlag::new()).unwrap_or_else(|e| panic!("{e}")));
        (Schedule::new(&module, 0), spaces.into())
    }

    /// Any mutation gives a trace of the same sketch that replays.
    #[test]
    fn mutants_are_candidates() {
        let mut n = 0;
        for (name, text) in PROGRAMS {
            let (base, spaces) = spaces(text, name);
            for space in spaces {
                for seed in 0..40 {
                    let mut rng = stream(1, seed);
                    let sketch = seed as usize % space.sketches().len();
                    let Ok(first) = space.build(&base, sketch, &[], stream(2, seed)) else { continue };
                    let mut trace = first.trace().without_postproc();
                    for _ in 0..6 {
                        let Some(change) = mutate(&trace, &mut rng) else { break };
                        assert_ne!(trace.insts[change.index].decision.as_ref(), Some(&change.decision), "{name}");
                        change.apply(&mut trace);
                        n += 1;
                        let preferred: Vec<_> = trace.decisions().map(|(_, d)| d.clone()).collect();
                        let mutant = match space.build(&base, sketch, &preferred, stream(3, seed)) {
                            Ok(mutant) => mutant,
                            // Rules may refuse a combination, but no decision may be invalid on its own.
                            Err(r) => panic!("{name}: {} refuses: {}", r.by, r.message),
                        };
                        trace = mutant.trace().without_postproc();
                        assert_eq!(space.sketch_of(&trace), Some(sketch), "{name}");
                    }
                }
            }
        }
        assert!(n > 200, "only {n} mutants");
    }

    #[test]
    fn what_was_decided_is_decided_again() {
        let mut n = 0;
        for (name, text) in PROGRAMS {
            let (base, spaces) = spaces(text, name);
            for space in spaces {
                for seed in 0..20 {
                    let sketch = seed as usize % space.sketches().len();
                    let Ok(one) = space.build(&base, sketch, &[], stream(2, seed)) else { continue };
                    let preferred: Vec<_> = one.trace().decisions().map(|(_, d)| d.clone()).collect();
                    let again =
                        space.build(&base, sketch, &preferred, stream(9, seed)).expect("it was possible before");
                    assert_eq!(one.trace(), again.trace(), "{name}");
                    n += 1;
                }
            }
        }
        assert!(n > 50, "only {n} candidates");
    }
}
