//! Bounds on the distance of each element from the reference.
//!
//! A [`Tolerance`](super::Tolerance) applies to a whole result. Next to a step, such as the rounding of a sum to an
//! integer, a single element may be further off and still correct. [`Intervals`] hold the minimum and maximum of each
//! element over all correct implementations, and statistics of sampled correct results ([`super::spread`]). They cost
//! several times as much as the reference, so they are computed on a thread of their own once a result is outside its
//! tolerance.

use super::arguments::{Arguments, ParamSpec};
use super::executable::RunFailure;
use super::spread::{ElementRanges, Spread};
use crate::ir::DType;
use crate::ir::interp::TensorRef;
use crate::loopir::Access;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The intervals of the elements of each parameter that is written and rounded, and samples of correct results.
#[derive(Debug)]
pub struct Intervals {
    ends: Vec<Option<Ends>>,
    /// The spread of each parameter's samples, if there are any.
    spreads: Vec<Option<Spread>>,
    /// Ranges of single elements.
    ranges: Option<ElementRanges>,
}

/// The minima and maxima of a parameter: `float64`, or integers of its type.
#[derive(Debug)]
struct Ends {
    least: Vec<u8>,
    greatest: Vec<u8>,
}

impl Intervals {
    /// Computes the intervals of a function's results by running it on its inputs. The run takes the function's
    /// parameters, which it does not write, followed by the interval ends: `ends` maps parameters to the positions of
    /// their ends.
    ///
    /// # Errors
    /// If there is not enough memory, or the run failed.
    pub fn compute(
        specs: &[ParamSpec],
        seed: u64,
        ends: &[Option<(usize, usize)>],
        run: impl FnOnce(&mut Arguments) -> Result<(), RunFailure>,
    ) -> Result<Intervals, String> {
        let inputs = specs.iter().map(|s| ParamSpec { access: Access::In, ..s.clone() });
        let twins = specs.iter().zip(ends).filter(|(_, ends)| ends.is_some()).flat_map(|(s, _)| {
            let dtype = if s.dtype.is_float() { DType::Float64 } else { s.dtype };
            let end = ParamSpec { dtype, access: Access::Out, below: None, ..s.clone() };
            [end.clone(), end]
        });
        let all: Vec<ParamSpec> = inputs.chain(twins).collect();
        let mut args = Arguments::new(&all, seed).map_err(|e| e.to_string())?;
        run(&mut args).map_err(|e| e.to_string())?;
        args.inspect().map_err(|damage| damage.to_string())?;
        let of = |&(least, greatest): &(usize, usize)| Ends {
            least: args.bytes(least).to_vec(),
            greatest: args.bytes(greatest).to_vec(),
        };
        let ends = ends.iter().map(|e| e.as_ref().map(of)).collect();
        Ok(Intervals { ends, spreads: Vec::new(), ranges: None })
    }

    /// Adds samples: their spread for each parameter, and ranges of single elements.
    #[must_use]
    pub fn with_samples(self, spreads: Vec<Option<Spread>>, ranges: ElementRanges) -> Intervals {
        Intervals { spreads, ranges: Some(ranges), ..self }
    }

    /// The spread of a parameter's samples, if there are any.
    pub(super) fn spread(&self, param: usize) -> Option<&Spread> {
        self.spreads.get(param)?.as_ref()
    }

    /// The ranges of single elements, if available.
    pub(super) fn ranges(&self) -> Option<&ElementRanges> {
        self.ranges.as_ref()
    }

    /// The interval of an element; `None` if it is unknown.
    pub fn of(&self, param: usize, spec: &ParamSpec, element: usize) -> Option<(f64, f64)> {
        let ends = self.ends.get(param)?.as_ref()?;
        let dtype = if spec.dtype.is_float() { DType::Float64 } else { spec.dtype };
        let value = |data: &[u8]| TensorRef { dtype, shape: &spec.shape, data }.get(element).as_f64();
        let (lo, hi) = (value(&ends.least), value(&ends.greatest));
        // The full range of an integer type carries no information either.
        let all = spec.dtype.min_value().ok().zip(spec.dtype.max_value().ok());
        let is_all =
            spec.dtype != DType::Bool && all.is_some_and(|(least, most)| lo <= least as f64 && hi >= most as f64);
        (lo <= hi && !is_all).then_some((lo, hi))
    }
}

type Compute = dyn FnOnce() -> Option<Intervals> + Send;

/// Intervals that are computed on demand. Clones share one job.
#[derive(Clone)]
pub struct IntervalsJob(Arc<Shared>);

struct Shared {
    /// The computation, until it is started.
    compute: Mutex<Option<Box<Compute>>>,
    found: OnceLock<Option<Intervals>>,
}

impl PartialEq for IntervalsJob {
    /// Whether both are the same job.
    fn eq(&self, other: &IntervalsJob) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for IntervalsJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IntervalsJob").field(&self.0.found.get().is_some()).finish()
    }
}

impl IntervalsJob {
    /// A job that runs `compute`; it returns `None` if there are no intervals.
    pub fn new(compute: impl FnOnce() -> Option<Intervals> + Send + 'static) -> IntervalsJob {
        IntervalsJob(Arc::new(Shared { compute: Mutex::new(Some(Box::new(compute))), found: OnceLock::new() }))
    }

    /// The intervals, if they are ready; otherwise starts computing them.
    pub fn poll(&self) -> Option<Option<&Intervals>> {
        if let Some(found) = self.0.found.get() {
            return Some(found.as_ref());
        }
        if let Some(compute) = self.take() {
            let shared = self.0.clone();
            let work = Arc::new(Mutex::new(Some(move || shared.finish(compute))));
            let here = work.clone();
            let run = move || {
                if let Some(work) = work.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    work();
                }
            };
            if std::thread::Builder::new().name("tvmr-intervals".into()).spawn(run).is_err()
                && let Some(work) = here.lock().unwrap_or_else(PoisonError::into_inner).take()
            {
                work();
            }
        }
        self.0.found.get().map(Option::as_ref)
    }

    /// Waits for the intervals.
    pub fn wait(&self) -> Option<&Intervals> {
        if let Some(compute) = self.take() {
            self.0.finish(compute);
        }
        self.0.found.wait().as_ref()
    }

    fn take(&self) -> Option<Box<Compute>> {
        self.0.compute.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Shared {
    fn finish(&self, compute: Box<Compute>) {
        // A panic must not leave a waiting thread blocked forever.
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compute)).unwrap_or(None);
        // Set only here, since the closure is taken once.
        let _ = self.found.set(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(dtype: DType, lo: &[f64], hi: &[f64]) -> (ParamSpec, Intervals) {
        use crate::ir::interp::{Tensor, Value};
        let spec = ParamSpec::new("C", dtype, &[lo.len() as i64], Access::Out);
        let wide = if dtype.is_float() { DType::Float64 } else { dtype };
        let data = |v: &[f64]| {
            let value = |&v: &f64| if dtype.is_float() { Value::Float(v) } else { Value::Int(v as i64) };
            Tensor::from_values(wide, &spec.shape, v.iter().map(value)).data
        };
        let (least, greatest) = (data(lo), data(hi));
        let found = Intervals::compute(std::slice::from_ref(&spec), 0, &[Some((1, 2))], |args| {
            args.bytes_mut(1).copy_from_slice(&least);
            args.bytes_mut(2).copy_from_slice(&greatest);
            Ok(())
        });
        (spec, found.expect("little memory"))
    }

    #[test]
    fn ends_that_say_nothing_are_none() {
        let nan = f64::NAN;
        let (spec, found) = intervals(DType::Float32, &[1.0, nan, 0.0], &[2.0, 3.0, nan]);
        let of = |i| found.of(0, &spec, i);
        assert_eq!((of(0), of(1), of(2)), (Some((1.0, 2.0)), None, None));
        let (spec, found) = intervals(DType::Int8, &[-128.0, -128.0], &[127.0, 126.0]);
        assert_eq!((found.of(0, &spec, 0), found.of(0, &spec, 1)), (None, Some((-128.0, 126.0))));
    }

    #[test]
    fn a_job_is_done_once_and_a_panic_ends_it() {
        let (_, found) = intervals(DType::Float32, &[1.0], &[2.0]);
        let job = IntervalsJob::new(move || Some(found));
        let other = job.clone();
        let _ = job.poll();
        let one = |found: Option<&Intervals>| std::ptr::from_ref(found.expect("they were computed"));
        assert_eq!(one(job.wait()), one(other.wait()));
        assert_eq!(other.poll().map(one), Some(one(job.wait())));
        assert!(IntervalsJob::new(|| panic!("broken")).wait().is_none());
    }
}
