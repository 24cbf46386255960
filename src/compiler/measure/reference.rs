//! Reference results.
//!
//! A reference is computed once per workload by an executable that shares as little as possible with the candidates
//! (the caller's choice: no loop optimisation, sums in `float64`), on arguments of its own, in the background if it
//! takes long. To detect errors that both share, the interpreter recomputes a few hundred of its elements. The
//! reference may be cached on disk.

use super::arguments::{Arguments, ArgumentsError, ParamSpec, Poison};
use super::check::{Difference, Expected, Mismatch, Tolerance, compare, compare_outputs};
use super::intervals::{Intervals, IntervalsJob};
use crate::ir::interp::{TensorRef, Value};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The correct outputs of a function for its arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    outputs: Vec<Vec<u8>>,
    tolerances: Vec<Tolerance>,
    /// Bounds on elements outside these narrower tolerances.
    intervals: Option<(IntervalsJob, Vec<Tolerance>)>,
    spots: usize,
}

/// Why there is no reference.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    /// No memory for its arguments.
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    /// The reference program failed, as every candidate would.
    #[error("the reference run failed: {0}")]
    Run(String),
    /// The interpreter found an error in the program.
    #[error("the program has an error: {0}")]
    Interpreter(String),
    /// Reference and interpreter disagree: a bug in the code generator.
    #[error("the reference is wrong: `{param}` at {:?} is {}, the interpreter says {}", at.index, at.found, at.expected)]
    Spot {
        /// Name of the output.
        param: String,
        /// The element, with both values.
        at: Box<Difference>,
    },
    /// The computation panicked.
    #[error("the reference run panicked: {0}")]
    Panicked(String),
}

/// Elements to recompute independently.
pub struct SpotCheck<'a> {
    /// Number of elements, over all outputs.
    pub points: usize,
    /// Computes an element of a parameter, given both positions; `None` if that is not possible.
    pub value: &'a mut SpotValue<'a>,
}

/// Computes an element from the positions of parameter and element, on arguments as before a run.
pub(super) type SpotValue<'a> = dyn FnMut(usize, usize) -> Result<Option<Value>, String> + 'a;

impl Reference {
    /// Computes the reference by a run on arguments like these; `tolerances` has one entry per parameter.
    ///
    /// # Errors
    /// See [`ReferenceError`].
    pub fn compute(
        args: &Arguments,
        tolerances: &[Tolerance],
        run: impl FnOnce(&mut Arguments) -> Result<(), String>,
        spot_check: Option<SpotCheck<'_>>,
    ) -> Result<Reference, ReferenceError> {
        let mut own = args.copy()?;
        own.reset(Poison::Ones);
        // Before the run, while buffers that are both read and written hold their inputs.
        let spots = match spot_check {
            Some(check) => check.compute(&own)?,
            None => Vec::new(),
        };
        run(&mut own).map_err(ReferenceError::Run)?;
        own.inspect().map_err(|damage| ReferenceError::Run(damage.to_string()))?;
        for &(param, element, expected) in &spots {
            let found = own.tensor(param).get(element);
            let right = match (expected, found) {
                (Value::Int(e), Value::Int(f)) => e == f,
                // A value that overflows the type is infinite in the reference.
                (e, f) => tolerances[param].admits(own.specs()[param].dtype.round(e.as_f64()), f.as_f64()),
            };
            if !right {
                let spec = &own.specs()[param];
                let (index, expected, found) =
                    (spec.indices(element).unwrap_or_default(), expected.as_f64(), found.as_f64());
                let at = Box::new(Difference { index, expected, found });
                return Err(ReferenceError::Spot { param: spec.name.clone(), at });
            }
        }
        let outputs = own.outputs();
        Ok(Reference { outputs, tolerances: tolerances.to_vec(), intervals: None, spots: spots.len() })
    }

    /// A reference with known outputs: bytes for each parameter that is written, empty for others.
    pub fn of_outputs(outputs: Vec<Vec<u8>>, tolerances: &[Tolerance]) -> Reference {
        Reference { outputs, tolerances: tolerances.to_vec(), intervals: None, spots: 0 }
    }

    /// Replaces the tolerances, one for each parameter.
    #[must_use]
    pub fn with_tolerances(self, tolerances: Vec<Tolerance>) -> Reference {
        Reference { tolerances, ..self }
    }

    /// Accepts elements within these tolerances, or else within intervals. The reference's own tolerances apply where
    /// there are no intervals.
    #[must_use]
    pub fn with_intervals(self, intervals: IntervalsJob, tolerances: Vec<Tolerance>) -> Reference {
        Reference { intervals: Some((intervals, tolerances)), ..self }
    }

    /// The tolerance of each parameter.
    pub fn tolerances(&self) -> &[Tolerance] {
        &self.tolerances
    }

    /// The bytes of each parameter that is written; empty for others.
    pub fn outputs(&self) -> &[Vec<u8>] {
        &self.outputs
    }

    /// An element of a parameter that is written.
    pub fn value(&self, param: usize, spec: &ParamSpec, element: usize) -> f64 {
        TensorRef { dtype: spec.dtype, shape: &spec.shape, data: &self.outputs[param] }.get(element).as_f64()
    }

    /// Number of elements that the interpreter confirmed.
    pub fn spots(&self) -> usize {
        self.spots
    }

    /// Compares outputs with the reference. Returns the largest error; `None` if this needs intervals that are not
    /// ready.
    pub fn try_check(&self, args: &Arguments) -> Option<Result<f64, Box<Mismatch>>> {
        self.settled(|expected| compare(args, expected))
    }

    /// Compares outputs with the reference, and waits for intervals if necessary. Returns the largest error.
    ///
    /// # Errors
    /// If they differ.
    pub fn check(&self, args: &Arguments) -> Result<f64, Box<Mismatch>> {
        self.waited(|expected| compare(args, expected))
    }

    /// [`Reference::try_check`] for outputs that were copied earlier ([`Arguments::outputs`]).
    pub fn try_check_outputs(&self, specs: &[ParamSpec], outputs: &[Vec<u8>]) -> Option<Result<f64, Box<Mismatch>>> {
        self.settled(|expected| compare_outputs(specs, outputs, expected))
    }

    /// [`Reference::check`] for outputs that were copied earlier.
    ///
    /// # Errors
    /// If they differ.
    pub fn check_outputs(&self, specs: &[ParamSpec], outputs: &[Vec<u8>]) -> Result<f64, Box<Mismatch>> {
        self.waited(|expected| compare_outputs(specs, outputs, expected))
    }

    /// The expected outputs: with tolerances only, or with intervals once they were requested.
    fn expected<'a>(&'a self, found: Option<Option<&'a Intervals>>) -> Expected<'a> {
        let (tolerances, intervals) = match (&self.intervals, found) {
            (Some((_, narrow)), Some(Some(found))) => (narrow, Some((found, &self.tolerances[..]))),
            (Some((_, narrow)), None) => (narrow, None),
            (Some(_), Some(None)) | (None, _) => (&self.tolerances, None),
        };
        Expected { outputs: &self.outputs, tolerances, intervals }
    }

    fn settled(&self, compare: impl Fn(Expected<'_>) -> Compared) -> Option<Compared> {
        match (compare(self.expected(None)), &self.intervals) {
            (Err(_), Some((job, _))) => job.poll().map(|found| compare(self.expected(Some(found)))),
            (result, _) => Some(result),
        }
    }

    fn waited(&self, compare: impl Fn(Expected<'_>) -> Compared) -> Compared {
        match (compare(self.expected(None)), &self.intervals) {
            (Err(_), Some((job, _))) => compare(self.expected(Some(job.wait()))),
            (result, _) => result,
        }
    }
}

/// The largest error, or the difference.
type Compared = Result<f64, Box<Mismatch>>;

/// About `n` elements of the results, by parameter and position: the first and last of each, where remainder loops go
/// wrong, and random others.
pub fn spots(specs: &[ParamSpec], seed: u64, n: usize) -> Vec<(usize, usize)> {
    let written: Vec<usize> = (0..specs.len()).filter(|&i| specs[i].is_written() && !specs[i].is_empty()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut all = Vec::new();
    for &param in &written {
        let len = specs[param].len();
        let mut chosen = BTreeSet::from([0, len - 1]);
        for _ in 0..n / written.len() {
            chosen.insert((rng.next_u64() % len as u64) as usize);
        }
        all.extend(chosen.into_iter().map(|element| (param, element)));
    }
    all
}

impl SpotCheck<'_> {
    /// Computes the values of the points: parameter, element, value.
    fn compute(self, args: &Arguments) -> Result<Vec<(usize, usize, Value)>, ReferenceError> {
        let mut values = Vec::new();
        for (param, element) in spots(args.specs(), args.seed(), self.points) {
            let value = (self.value)(param, element).map_err(ReferenceError::Interpreter)?;
            values.extend(value.map(|v| (param, element, v)));
        }
        Ok(values)
    }
}

/// A reference that may still be being computed. Clones share one job.
#[derive(Clone, Debug)]
pub struct ReferenceJob(Arc<OnceLock<Result<Reference, ReferenceError>>>);

impl ReferenceJob {
    /// A reference that is ready.
    pub fn ready(reference: Reference) -> ReferenceJob {
        ReferenceJob(Arc::new(OnceLock::from(Ok(reference))))
    }

    /// Computes a reference on a thread of its own, or at once if the system refuses a thread.
    pub fn spawn(compute: impl FnOnce() -> Result<Reference, ReferenceError> + Send + 'static) -> ReferenceJob {
        let job = ReferenceJob(Arc::default());
        let cell = job.0.clone();
        let compute = Arc::new(std::sync::Mutex::new(Some(compute)));
        let work = move || {
            let Some(compute) = compute.lock().unwrap_or_else(|e| e.into_inner()).take() else { return };
            // A panic must not leave a waiting thread blocked forever.
            let result = catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason");
                Err(ReferenceError::Panicked(text.to_owned()))
            });
            // Set only here, since the closure is taken once.
            let _ = cell.set(result);
        };
        let here = work.clone();
        if std::thread::Builder::new().name("tvmr-reference".into()).spawn(work).is_err() {
            here();
        }
        job
    }

    /// The reference, if it is ready.
    pub fn poll(&self) -> Option<&Result<Reference, ReferenceError>> {
        self.0.get()
    }

    /// Waits for the reference.
    pub fn wait(&self) -> &Result<Reference, ReferenceError> {
        self.0.wait()
    }
}

/// The key of a cached reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferenceKey {
    /// Structural hash of the function.
    pub workload: u64,
    /// Seed of its arguments.
    pub seed: u64,
}

/// References on disk: a directory with one file per function and seed. A file that is damaged, or has another version
/// or size, is ignored.
#[derive(Clone, Debug)]
pub struct ReferenceCache {
    dir: PathBuf,
}

/// Maximum size to cache; larger outputs are recomputed.
const MAX_BYTES: usize = 256 << 20;
/// The file format, and the version that computed the file: a new code generator computes references again.
const MAGIC: &str = concat!("tvmr reference 1 ", env!("CARGO_PKG_VERSION"), "\n");

impl ReferenceCache {
    /// The cache in a directory, which is created on the first store.
    pub fn new(dir: &Path) -> ReferenceCache {
        ReferenceCache { dir: dir.to_owned() }
    }

    fn path(&self, key: ReferenceKey) -> PathBuf {
        self.dir.join(format!("{:016x}-{:016x}.ref", key.workload, key.seed))
    }

    /// The cached reference, if it fits the parameters.
    pub fn load(&self, key: ReferenceKey, specs: &[ParamSpec], tolerances: &[Tolerance]) -> Option<Reference> {
        let file = fs::read(self.path(key)).ok()?;
        let (hash, body) = file.strip_prefix(MAGIC.as_bytes())?.split_first_chunk::<32>()?;
        if blake3::hash(body) != *hash {
            return None;
        }
        let mut rest = body;
        let mut outputs = Vec::with_capacity(specs.len());
        for spec in specs {
            let (len, tail) = rest.split_first_chunk::<8>()?;
            let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
            if len != if spec.is_written() { spec.bytes() } else { 0 } || len > tail.len() {
                return None;
            }
            outputs.push(tail[..len].to_vec());
            rest = &tail[len..];
        }
        rest.is_empty().then(|| Reference::of_outputs(outputs, tolerances))
    }

    /// Stores a reference.
    ///
    /// # Errors
    /// If the file cannot be written. Callers may ignore this.
    pub fn store(&self, key: ReferenceKey, reference: &Reference) -> io::Result<()> {
        if reference.outputs.iter().map(Vec::len).sum::<usize>() > MAX_BYTES {
            return Ok(());
        }
        let mut body = Vec::new();
        for output in &reference.outputs {
            body.extend((output.len() as u64).to_le_bytes());
            body.extend(output);
        }
        fs::create_dir_all(&self.dir)?;
        let path = self.path(key);
        // Write to a temporary file first: another process may be reading or writing the same file.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let written = fs::File::create(&new).and_then(|mut file| {
            file.write_all(MAGIC.as_bytes())?;
            file.write_all(blake3::hash(&body).as_bytes())?;
            file.write_all(&body)
        });
        let result = written.and_then(|()| fs::rename(&new, &path));
        if result.is_err() {
            // Remove the partial file.
            let _ = fs::remove_file(&new);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::fakes::{N, args, double, element, specs, store};
    use super::*;
    use crate::ir::DType;

    fn tolerances() -> Vec<Tolerance> {
        vec![Tolerance::of(DType::Float32, 1); 2]
    }

    fn right(args: &mut Arguments) -> Result<(), String> {
        double(args, 0..N);
        Ok(())
    }

    fn interpreted() -> Box<SpotValue<'static>> {
        let args = args();
        Box::new(move |param, i| {
            assert_eq!(param, 1);
            Ok(Some(Value::Float(2.0 * f64::from(element(&args, 0, i)))))
        })
    }

    #[test]
    fn a_reference_is_confirmed_by_spots() {
        let spots = SpotCheck { points: 300, value: &mut *interpreted() };
        let reference = Reference::compute(&args(), &tolerances(), right, Some(spots)).unwrap();
        assert!(reference.spots() > N - 5, "{}", reference.spots());
        let mut own = args();
        double(&mut own, 0..N);
        assert_eq!(reference.check(&own), Ok(0.0));
        assert_eq!(reference.check_outputs(&specs(), &own.outputs()), Ok(0.0));
        store(&mut own, 1, 5, 9.0);
        assert_eq!(reference.check(&own).unwrap_err().first[0].index, [5]);
    }

    #[test]
    fn a_wrong_reference_is_found_out() {
        // The last element, where remainder loops go wrong.
        let wrong = |args: &mut Arguments| {
            double(args, 0..N - 1);
            store(args, 1, N - 1, 0.25);
            Ok(())
        };
        let spots = SpotCheck { points: 1, value: &mut *interpreted() };
        let error = Reference::compute(&args(), &tolerances(), wrong, Some(spots)).unwrap_err();
        let ReferenceError::Spot { param, at } = &error else { panic!("{error}") };
        assert_eq!((param.as_str(), at.index.as_slice(), at.found), ("B", &[N as i64 - 1][..], 0.25));
        let fails = Reference::compute(&args(), &tolerances(), |_| Err("division".into()), None);
        assert_eq!(fails, Err(ReferenceError::Run("division".into())));
        let mut faulty = |_, _| Err("out of bounds".to_owned());
        let spots = SpotCheck { points: 1, value: &mut faulty };
        let fault = Reference::compute(&args(), &tolerances(), right, Some(spots));
        assert_eq!(fault, Err(ReferenceError::Interpreter("out of bounds".into())));
        let mut silent = |_, _| Ok(None);
        let spots = SpotCheck { points: 9, value: &mut silent };
        assert_eq!(Reference::compute(&args(), &tolerances(), right, Some(spots)).unwrap().spots(), 0);
    }

    #[test]
    fn jobs_run_beside_and_never_hang() {
        let job = ReferenceJob::spawn(move || Reference::compute(&args(), &tolerances(), right, None));
        assert!(job.wait().is_ok() && job.poll().is_some());
        let job = ReferenceJob::spawn(|| panic!("a bug"));
        assert_eq!(job.wait(), &Err(ReferenceError::Panicked("a bug".into())));
        let ready = ReferenceJob::ready(Reference::of_outputs(Vec::new(), &[]));
        assert!(ready.poll().is_some());
    }

    #[test]
    fn kept_references_come_back_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ReferenceCache::new(&dir.path().join("deep/reference"));
        let key = ReferenceKey { workload: 7, seed: 1 };
        let load = |key, specs: &[ParamSpec]| cache.load(key, specs, &tolerances());
        assert_eq!(load(key, &specs()), None);
        let reference = Reference::compute(&args(), &tolerances(), right, None).unwrap();
        cache.store(key, &reference).unwrap();
        assert_eq!(load(key, &specs()), Some(reference));
        assert_eq!(load(ReferenceKey { seed: 2, ..key }, &specs()), None);
        let mut other = specs();
        other[1].shape = vec![N as i64 + 1];
        assert_eq!(load(key, &other), None);
        let path = cache.path(key);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(load(key, &specs()), None, "{cut}");
            let mut flipped = whole.clone();
            flipped[cut] ^= 4;
            fs::write(&path, &flipped).unwrap();
            assert_eq!(load(key, &specs()), None, "{cut}");
        }
    }
}
