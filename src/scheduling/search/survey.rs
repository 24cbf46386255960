//! Surveys the sketches of a space: their size, and how many of their samples the space rejects.
//!
//! The number of decision combinations is a product if each sampling instruction has the same number of choices whatever the
//! earlier decisions are. Otherwise the combinations are the leaves of a tree that is too large to walk; the mean of
//! the products of the inverse probabilities along random paths is an unbiased estimate of their number (D. E. Knuth,
//! *Estimating the efficiency of backtrack programs*, 1975).

use super::{in_order, isolated};
use crate::schedule::trace::Replay;
use crate::schedule::{Schedule, Trace};
use crate::space::sample::stream;
use crate::space::{Rejection, Space, Stage};

/// A number of decision combinations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
    /// The exact number, as far as samples tell: all had the same sampling instructions, each with the same number of choices.
    Exactly(u128),
    /// An estimate from samples.
    About(f64),
}

impl Size {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Size) -> Size {
        match (self, other) {
            (Size::Exactly(a), Size::Exactly(b)) => Size::Exactly(a.saturating_add(b)),
            (a, b) => Size::About(a.as_f64() + b.as_f64()),
        }
    }

    /// As a number.
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Size::Exactly(n) => n as f64,
            Size::About(n) => n,
        }
    }
}

/// The result of sampling a sketch.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Number of decision combinations.
    pub size: Size,
    /// Number of candidates drawn.
    pub samples: usize,
    /// Number of candidates that the space rejected.
    pub refused: usize,
    /// Distinct rejections with their counts, most frequent first.
    pub reasons: Vec<(Rejection, usize)>,
    /// The instructions of one candidate with decisions, before the postprocessors: the first accepted candidate, or
    /// else the first one.
    pub example: Trace,
    /// For each instruction of the example, the minimum and maximum number of choices; `None` if it chooses nothing.
    pub choices: Vec<Option<(u128, u128)>>,
    /// Whether all candidates had these instructions. Those of a schedule function may differ.
    pub is_uniform: bool,
}

/// One candidate of a survey.
struct Sample {
    trace: Trace,
    /// Number of choices of each instruction.
    choices: Vec<Option<u128>>,
    /// The inverse probability of all decisions together.
    weight: f64,
    rejection: Option<Rejection>,
}

/// Draws candidates of sketch `index` (one, if there is nothing to choose) and counts. Equal seeds give equal results,
/// whatever the number of threads.
pub fn survey(space: &Space, index: usize, base: &Schedule, samples: usize, seed: u64, jobs: usize) -> Survey {
    let draw = |i: usize| {
        isolated(|| sample(space, index, base, seed, i as u64)).unwrap_or_else(|message| Sample {
            trace: Trace::default(),
            choices: Vec::new(),
            weight: 0.0,
            rejection: Some(Rejection {
                sketch: Some(index),
                stage: Stage::Schedule,
                by: "panic".to_string(),
                message,
            }),
        })
    };
    let mut all: Vec<Sample> = (0..samples.min(1)).map(draw).collect();
    // Without choices, all candidates are equal.
    if all.iter().any(|first| first.weight != 1.0) {
        all.extend(in_order(samples - 1, jobs, |i| draw(i + 1)));
    }
    let samples = all.len();
    let shown = all.iter().position(|s| s.rejection.is_none()).unwrap_or(0);
    let Some(example) = all.get(shown).map(|s| s.trace.clone()) else {
        return Survey {
            size: Size::Exactly(0),
            samples: 0,
            refused: 0,
            reasons: Vec::new(),
            example: Trace::default(),
            choices: Vec::new(),
            is_uniform: true,
        };
    };
    let kinds = |t: &Trace| t.insts.iter().map(|i| i.kind).collect::<Vec<_>>();
    let expected = kinds(&example);
    let is_uniform = all.iter().all(|s| expected.starts_with(&kinds(&s.trace)));
    let choices: Vec<Option<(u128, u128)>> = (0..example.insts.len())
        .map(|i| {
            let counts = all.iter().filter_map(|s| s.choices.get(i).copied().flatten());
            counts.fold(None, |range: Option<(u128, u128)>, n| {
                Some(range.map_or((n, n), |(low, high)| (low.min(n), high.max(n))))
            })
        })
        .collect();
    // Only the sampling instructions count: what follows from a decision may be other instructions.
    let counts = |s: &Sample| s.choices.iter().copied().flatten().collect::<Vec<u128>>();
    let longest = all.iter().map(counts).max_by_key(Vec::len).unwrap_or_default();
    let same = all.iter().all(|s| {
        let counts = counts(s);
        longest.starts_with(&counts) && (s.rejection.is_some() || counts.len() == longest.len())
    });
    let size = if same {
        Size::Exactly(longest.iter().fold(1u128, |product, n| product.saturating_mul(*n)))
    } else {
        Size::About(all.iter().map(|s| s.weight).sum::<f64>() / all.len() as f64)
    };
    let mut reasons: Vec<(Rejection, usize)> = Vec::new();
    for rejection in all.into_iter().filter_map(|s| s.rejection) {
        match reasons.iter_mut().find(|(r, _)| (&r.by, &r.message) == (&rejection.by, &rejection.message)) {
            Some((_, count)) => *count += 1,
            None => reasons.push((rejection, 1)),
        }
    }
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let refused = reasons.iter().map(|(_, count)| count).sum();
    Survey { size, samples, refused, reasons, example, choices, is_uniform }
}

fn sample(space: &Space, index: usize, base: &Schedule, seed: u64, i: u64) -> Sample {
    let mut sch = base.clone();
    sch.set_rng(stream(seed, i));
    let drawn = space.sample_sketch(&space.sketches()[index], &mut sch);
    // The choices depend on the program before each instruction, so the trace is replayed step by step.
    let trace = sch.trace().without_postproc();
    let mut again = base.clone();
    let mut replay = Replay::default();
    let mut choices = Vec::with_capacity(trace.insts.len());
    let mut weight = 1.0;
    for inst in &trace.insts {
        // Cannot fail: the instruction was applied before.
        if replay.step(&mut again, inst, inst.decision.clone()).is_err() {
            break;
        }
        let had = again.last_choices();
        weight *= had.map_or(1.0, |c| c.weight);
        choices.push(had.map(|c| c.count));
    }
    Sample { trace, choices, weight, rejection: drawn.err() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule_function::ScheduleFunction;
    use crate::script::{ParseOptions, parse};
    use crate::space::sample::{ScheduleSource, SourceError};
    use std::sync::Arc;

    const PROGRAM: &str = "@T.prim_func
def main(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\")):
    for i in range(64):
        with T.block(\"B\"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] + T.float32(1)
";

    struct Source(ScheduleFunction);

    impl ScheduleSource for Source {
        fn apply(&self, sch: &mut Schedule) -> Result<(), SourceError> {
            self.0.apply(sch).map_err(|e| SourceError::Function(e.diagnostic.message))
        }
    }

    fn surveyed(body: &str, samples: usize) -> Survey {
        let text = format!("def f(sch):\n    i, = sch.get_loops(sch.get_block(\"B\"))\n{body}");
        let function = ScheduleFunction::parse(&text, "f.py").unwrap_or_else(|e| panic!("{e}"));
        let module = parse(PROGRAM, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let space = Space::of_function(Arc::new(Source(function)));
        survey(&space, 0, &Schedule::new(&module, 0), samples, 0, 2)
    }

    #[test]
    fn independent_choices_multiply() {
        let s = surveyed(
            "    a, b = sch.split(i, sch.sample_perfect_tile(i, 2, 8))
    sch.annotate(a, \"k\", sch.sample_categorical([1, 2, 3], [0.5, 0.25, 0.25]))\n",
            16,
        );
        assert_eq!((s.size, s.refused, s.is_uniform), (Size::Exactly(4 * 3), 0, true));
        let choices: Vec<_> = s.choices.iter().flatten().collect();
        assert_eq!(choices, [&(4, 4), &(3, 3)]);
    }

    #[test]
    fn choices_that_depend_on_others_are_estimated() {
        // The outer loop has seven sizes, 2^0 to 2^6, which can be split again in 1 to 7 ways: 28 in total.
        let s = surveyed(
            "    a, b = sch.split(i, sch.sample_perfect_tile(i, 2, 64))
    sch.split(a, sch.sample_perfect_tile(a, 2, 64))\n",
            4000,
        );
        let Size::About(n) = s.size else { panic!("{:?}", s.size) };
        assert!((26.0..30.0).contains(&n), "{n}");
    }

    #[test]
    fn refusals_are_counted_with_their_reasons() {
        let s = surveyed(
            "    c = sch.sample_categorical([0, 1], [0.5, 0.5])
    if c == 1:
        sch.fuse(i, i)\n",
            64,
        );
        assert!((16..48).contains(&s.refused), "{}", s.refused);
        assert_eq!((s.reasons.len(), s.reasons[0].0.by.as_str(), s.reasons[0].1), (1, "schedule function", s.refused));
        assert_eq!(s.size, Size::Exactly(2));
    }
}
