//! Samples of right results: the interpreter computes a few hundred elements with the roundings of the program, and again
//! with roundings in random directions ([`Precision::Perturbed`]).

use crate::ir::Func;
use crate::ir::interp::{ArgRef, Fault, Options, Points, Precision, Value};
use crate::measure::{Arguments, ElementRanges, ParamSpec, Range, Reference, Spread, Tolerance, distance, spots};
use hashbrown::HashMap;

/// Elements that are sampled.
const ELEMENTS: usize = 256;
/// Random runs of these elements.
const RUNS: u64 = 8;
/// Random runs of an element whose range is requested.
const RUNS_OF_ONE: u64 = 32;
/// The factor by which its roundings are enlarged in these runs.
const SCALE_OF_ONE: u32 = 4;
/// Stores of one run at most: about a tenth of a second.
const MAX_STEPS: u64 = 2_000_000;

/// Computes an element of a result, given parameter and position; `None` if that is not possible.
pub(super) type ElementValue<'a> = dyn FnMut(usize, usize) -> Result<Option<Value>, String> + 'a;

/// Calls `work` with a function that computes single elements of the results for these arguments.
pub(super) fn with_elements<R>(
    func: &Func,
    args: &Arguments,
    options: Options,
    work: impl FnOnce(&mut ElementValue<'_>) -> R,
) -> R {
    let tensors: Vec<ArgRef<'_>> = (0..args.specs().len()).map(|i| ArgRef::Tensor(args.tensor(i))).collect();
    let callable = func.callable();
    let placed = callable.with_param_layouts();
    let meant = placed.with_builtins_expanded();
    let mut points = Points::new(&meant, &tensors, options);
    work(&mut |param, element| {
        let Some(points) = &mut points else { return Ok(None) };
        let Some(buffer) = meant.params[param].buffer else { return Ok(None) };
        // A parameter with strides has gaps between its elements.
        let Some(indices) = args.specs()[param].indices(element) else { return Ok(None) };
        match points.eval(buffer, &indices) {
            Ok(value) => Ok(value),
            Err(e) if e.fault == Fault::TooLong => Ok(None),
            Err(e) => Err(e.message(&meant)),
        }
    })
}

/// A plan of samples for one function.
pub(super) struct Sampling {
    func: Func,
    specs: Vec<ParamSpec>,
    seed: u64,
    /// Results within these tolerances count as equal to the reference.
    tolerances: Vec<Tolerance>,
    /// The sampled elements: parameter, position, reference value.
    elements: Vec<(usize, usize, f64)>,
}

impl Sampling {
    /// A plan for the results of a function on arguments from this seed.
    pub(super) fn new(
        func: &Func,
        specs: &[ParamSpec],
        seed: u64,
        reference: &Reference,
        tolerances: &[Tolerance],
    ) -> Sampling {
        // The seed differs, so that these are other elements than those that confirm the reference.
        let elements = spots(specs, !seed, ELEMENTS);
        let elements = elements.into_iter().map(|(p, e)| (p, e, reference.value(p, &specs[p], e))).collect();
        Sampling { func: func.clone(), specs: specs.to_vec(), seed, tolerances: tolerances.to_vec(), elements }
    }

    /// The distances of each parameter's samples from the reference; `None` for a parameter without samples.
    pub(super) fn spreads(&self) -> Vec<Option<Spread>> {
        let mut distances = vec![Vec::new(); self.specs.len()];
        if let Ok(args) = Arguments::new(&self.specs, self.seed) {
            let as_written = std::iter::once(Precision::Exact);
            for precision in as_written.chain(perturbed(RUNS, 1)) {
                with_elements(&self.func, &args, options(precision), |value| {
                    for &(param, element, expected) in &self.elements {
                        // An element that takes too long, or fails, is no sample.
                        if let Ok(Some(v)) = value(param, element) {
                            let v = rounded(&self.specs[param], v);
                            let is_near = self.tolerances[param].admits(expected, v);
                            distances[param].push(if is_near { 0.0 } else { distance(expected, v) });
                        }
                    }
                });
            }
        }
        distances.into_iter().map(Spread::new).collect()
    }

    /// A function that computes the ranges of single elements.
    pub(super) fn ranges(self) -> ElementRanges {
        ElementRanges::new(move |elements| {
            let Ok(args) = Arguments::new(&self.specs, self.seed) else { return vec![None; elements.len()] };
            let mut samples: HashMap<(usize, usize), Vec<f64>> = HashMap::default();
            let ends = [Precision::Exact, Precision::Wide];
            let random = perturbed(RUNS, 1).chain(perturbed(RUNS_OF_ONE, SCALE_OF_ONE));
            for precision in ends.into_iter().chain(random) {
                with_elements(&self.func, &args, options(precision), |value| {
                    for &(param, element) in elements {
                        if let Ok(Some(v)) = value(param, element) {
                            samples.entry((param, element)).or_default().push(rounded(&self.specs[param], v));
                        }
                    }
                });
            }
            let range = |key| match samples.get(key)?.as_slice() {
                // The first is rounded as written, the second as exact as possible, the others are random. An element that
                // fails in some run has no range.
                [first, last, random @ ..] if random.len() as u64 == RUNS + RUNS_OF_ONE => {
                    let (ordinary, larger) = random.split_at(RUNS as usize);
                    Some(Range::new(*first, *last, ordinary, larger))
                }
                _ => None,
            };
            elements.iter().map(range).collect()
        })
    }
}

fn perturbed(runs: u64, scale: u32) -> impl Iterator<Item = Precision> {
    (1..=runs).map(move |seed| Precision::Perturbed { seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), scale })
}

fn options(precision: Precision) -> Options {
    Options { precision, max_steps: MAX_STEPS, ..Options::default() }
}

/// A result as it is stored.
fn rounded(spec: &ParamSpec, v: Value) -> f64 {
    match v {
        Value::Int(v) => v as f64,
        Value::Float(v) => spec.dtype.round(v),
    }
}
