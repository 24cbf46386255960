//! A function that is compiled for this machine and called on arrays.

use super::error::RunError;
use super::parameter::{Parameter, Role};
use super::place;
use crate::arrays::Array;
use crate::callable::{Callable, CallableError};
use crate::check::reference;
use crate::codegen::Workers;
use crate::ir::Func;
use crate::measure::{
    Arguments, Executable, ParamSpec, Pinned, RealTimer, Tolerance, cores, pin_here, pin_to, placement, repeat,
};
use crate::stop::StopFlag;
use crate::workload::{Setting, Workload};
use std::sync::Arc;

/// A compiled function.
pub struct Function {
    /// As written.
    func: Func,
    params: Vec<Parameter>,
    code: Callable,
    /// Whether threads are pinned while it runs.
    pins: bool,
    /// The core of the calling thread while it runs; `None` for its current one.
    core: Option<usize>,
}

/// The values of parameters that are read and were given none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unset {
    /// An error.
    Refused,
    /// Random values, as measurement has them: floats in [-1, 1), integers in -10..=10 or below the extent that they index.
    Random {
        /// The seed.
        seed: u64,
    },
}

impl Function {
    /// Compiles a version of a workload: `func` is its function with a schedule, or as written. The system decides on which
    /// cores threads run.
    ///
    /// # Errors
    /// If it cannot be compiled, or the machine lacks threads.
    pub fn compile(workload: &Workload, func: &Func, setting: &Setting) -> Result<Function, RunError> {
        Function::with(workload, func, setting, false)
    }

    /// Compiles like [`Function::compile`], and pins threads to cores: that of the caller during calls, whose affinity is
    /// restored afterwards, and its own for parallel loops. Times vary less.
    ///
    /// # Errors
    /// As [`Function::compile`].
    pub fn pinned(workload: &Workload, func: &Func, setting: &Setting) -> Result<Function, RunError> {
        Function::with(workload, func, setting, true)
    }

    fn with(workload: &Workload, func: &Func, setting: &Setting, pins: bool) -> Result<Function, RunError> {
        let threads = setting.threads.max(1) as usize;
        let all = if pins { cores() } else { Vec::new() };
        let (pinning, core) = placement(&all, threads);
        let workers = Workers::new(threads, &pinning);
        let workers = workers.map_err(|e| RunError::Machine(format!("cannot start threads: {e}")))?;
        let code = Callable::compile(workload, func, setting, Some(Arc::new(workers))).map_err(|e| match e {
            CallableError::Program(why) => RunError::Compile(why),
            CallableError::Machine(_) => RunError::Machine(e.to_string()),
        })?;
        let of = |spec: &ParamSpec| Parameter {
            name: spec.name.clone(),
            dtype: spec.dtype,
            shape: spec.shape.clone(),
            role: Role::of(spec.access),
        };
        let params = code.params().iter().map(of).collect();
        Ok(Function { func: workload.func().clone(), params, code, pins, core })
    }

    /// The parameters, in order. What the function returns is the last one, called `result`.
    pub fn params(&self) -> &[Parameter] {
        &self.params
    }

    /// The position of the parameter with this name; `None` if there is none, or several.
    pub fn position(&self, name: &str) -> Option<usize> {
        let mut found = (0..self.params.len()).filter(|&i| self.params[i].name == name);
        found.next().filter(|_| found.next().is_none())
    }

    /// The tolerance within which results of other correct implementations are: how far reordering and rounding of this
    /// function's operations may change a parameter whose right value is `expected`. Integers must be equal.
    pub fn tolerance(&self, i: usize, expected: &Array) -> Tolerance {
        reference::result_tolerance(&self.func, &self.code.params()[i], expected.data())
    }

    /// Takes a value for each parameter, in order; `None` for those without.
    ///
    /// # Errors
    /// If a value has another type or shape than its parameter, or is for one that is only written; if a parameter that is
    /// read has none and that is refused; or if there is not enough memory.
    ///
    /// # Panics
    /// If there are more or fewer values than parameters.
    pub fn bind(&self, values: Vec<Option<Array>>, unset: Unset) -> Result<Call<'_>, RunError> {
        assert_eq!(values.len(), self.params.len(), "one value for each parameter");
        for (param, value) in self.params.iter().zip(&values) {
            match value {
                Some(_) if !param.role.is_read() => return Err(RunError::NotRead(param.clone())),
                Some(array) if !param.takes(array) => {
                    let found = format!("{} {:?}", array.dtype(), array.shape());
                    return Err(RunError::Mismatch(param.clone(), found));
                }
                _ => {}
            }
        }
        let is_missing = |(param, value): &(&Parameter, &Option<Array>)| param.role.is_read() && value.is_none();
        let missing: Vec<Parameter> =
            self.params.iter().zip(&values).filter(is_missing).map(|(param, _)| param.clone()).collect();
        let seed = match unset {
            Unset::Refused if !missing.is_empty() => return Err(RunError::Missing(missing)),
            Unset::Refused => 0,
            Unset::Random { seed } => seed,
        };
        let mut args = Arguments::new(self.code.params(), seed)?;
        for (i, value) in values.into_iter().enumerate() {
            let Some(array) = value else { continue };
            let spec = &self.code.params()[i];
            match &spec.layout {
                None => args.set(i, array.data()),
                Some(layout) => {
                    let mut memory = args.bytes(i).to_vec();
                    if !place::put(&mut memory, layout, spec.dtype.bytes(), array.data()) {
                        return Err(RunError::Shared(spec.name.clone()));
                    }
                    args.set(i, &memory);
                }
            }
        }
        Ok(Call { function: self, args })
    }

    /// Calls the function once on arrays by name, and gives what it writes.
    ///
    /// # Errors
    /// If a name is not that of a parameter, as for [`Function::bind`], or if the program fails.
    pub fn run(&self, inputs: Vec<(&str, Array)>) -> Result<Vec<(String, Array)>, RunError> {
        let mut values = vec![None; self.params.len()];
        for (name, array) in inputs {
            let i = self.position(name).ok_or_else(|| RunError::Unknown(name.to_owned()))?;
            values[i] = Some(array);
        }
        let mut call = self.bind(values, Unset::Refused)?;
        call.run()?;
        Ok(call.outputs()?.into_iter().map(|(i, array)| (self.params[i].name.clone(), array)).collect())
    }

    fn pin(&self) -> Option<Pinned> {
        self.pins.then(|| self.core.map_or_else(pin_here, pin_to))
    }
}

/// A function with values for its parameters.
pub struct Call<'f> {
    function: &'f Function,
    args: Arguments,
}

impl Call<'_> {
    /// Runs the function once. What is prepared from constant parameters is prepared first.
    ///
    /// # Errors
    /// If the program fails, for example by an access out of bounds.
    pub fn run(&mut self) -> Result<(), RunError> {
        let _pinned = self.function.pin();
        self.args.restore();
        Executable::prepare(&self.function.code, &mut self.args)?;
        Executable::run(&self.function.code, &mut self.args)?;
        self.inspect()
    }

    /// Runs the function `n` times, each time on the values that were bound, and gives the seconds of each call.
    /// Preparation is not timed.
    ///
    /// # Errors
    /// As [`Call::run`], or if the machine lacks threads.
    pub fn repeat(&mut self, n: u64) -> Result<Vec<f64>, RunError> {
        let timer = RealTimer::new(Arc::new(StopFlag::new()));
        let timer = timer.map_err(|e| RunError::Machine(format!("cannot start threads: {e}")))?;
        let _pinned = self.function.pin();
        Executable::prepare(&self.function.code, &mut self.args)?;
        let secs = repeat(&self.function.code, &mut self.args, &timer, n)?;
        self.inspect()?;
        Ok(secs)
    }

    fn inspect(&mut self) -> Result<(), RunError> {
        self.args.inspect().map_err(|damage| RunError::Failed(damage.to_string()))
    }

    /// The outputs after a run: positions of parameters, and arrays.
    ///
    /// # Errors
    /// If the program has written a `bool` that is neither 0 nor 1.
    pub fn outputs(&self) -> Result<Vec<(usize, Array)>, RunError> {
        let output = |(i, param): (usize, &Parameter)| {
            let spec = &self.args.specs()[i];
            let data = match &spec.layout {
                None => self.args.bytes(i).to_vec(),
                Some(layout) => place::take(self.args.bytes(i), layout, spec.dtype.bytes()),
            };
            let array = Array::new(param.dtype, &param.shape, data);
            array.map(|array| (i, array)).map_err(|e| RunError::Failed(format!("`{}`: {e}", param.name)))
        };
        let params = self.function.params.iter().enumerate();
        params.filter(|(_, param)| param.role.is_written()).map(output).collect()
    }
}
