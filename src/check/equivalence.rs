//! Compares the results of a scheduled program with those of the program as written.
//!
//! The right results come from the plain path of [`reference`](mod@super::reference), confirmed by the interpreter; if the
//! program as written does not compile, the interpreter alone computes them. The scheduled program is compiled and run as
//! in tuning, on poisoned outputs; if it does not compile and is small, the interpreter runs it.

use super::relayout::Layouts;
use super::{params, reference};
use crate::codegen::{self, CodegenOptions, CompiledKernel, Pinning, RunContext, Workers};
use crate::ir::interp::{self, Fault, Options, Precision, Tensor};
use crate::ir::{Block, BufferId, BufferRegion, Func};
use crate::loopir::Access;
use crate::lower;
use crate::measure::{Arguments, Executable, Loaded, ParamSpec, Poison, Reference, ReferenceError, Tolerance};
use crate::search::isolated;
use crate::stop::StopFlag;
use crate::workload::{Setting, Workload};
use std::fmt;
use std::sync::{Arc, Mutex};

/// The seed of the data.
const SEED: u64 = 0;
/// Stores that the interpreter may make: a few seconds.
const MAX_STEPS: u64 = 30_000_000;
/// Elements of a buffer that the interpreter takes at most.
const MAX_ELEMENTS: u64 = 1 << 24;
/// Runs of a program on several threads; several are needed because a race shows by chance.
const PARALLEL_RUNS: usize = 4;

/// The agreement of two programs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Agreement {
    /// The largest difference of floats; integers are equal.
    pub max_error: f64,
    /// The number of elements that were compared.
    pub elements: usize,
    /// Was the scheduled program interpreted because it does not compile?
    pub interpreted: bool,
}

impl Agreement {
    /// The agreement of two functions together.
    #[must_use]
    pub(crate) fn and(self, other: Agreement) -> Agreement {
        Agreement {
            max_error: self.max_error.max(other.max_error),
            elements: self.elements + other.elements,
            interpreted: self.interpreted || other.interpreted,
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements, max error ", self.elements)?;
        match self.max_error {
            0.0 => f.write_str("0")?,
            e => write!(f, "{e:.1e}")?,
        }
        if self.interpreted { f.write_str("; interpreted, since it does not compile") } else { Ok(()) }
    }
}

/// The reason why two programs do not agree.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum CheckError {
    /// Results differ.
    Different(String),
    /// The scheduled program stops with an error.
    Fails(String),
    /// Their results cannot be compared.
    NotComparable(String),
    /// The program as written cannot be run; the second text is a help.
    Program(String, String),
    /// The machine lacks memory or threads.
    Machine(String),
}

/// Compares versions of a function with the function as written.
pub(crate) struct Checker {
    specs: Vec<ParamSpec>,
    /// The data, in the layout as written.
    args: Arguments,
    reference: Reference,
    options: CodegenOptions,
    context: Arc<Mutex<RunContext>>,
}

impl Checker {
    /// Runs the function as written.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn new(workload: &Workload, setting: &Setting) -> Result<Checker, CheckError> {
        let func = workload.func();
        let (specs, reference) = match isolated(|| reference::plain(workload, StopFlag::new())) {
            Ok(Ok(plain)) => compiled(func, plain)?,
            // A program that cannot be lowered can still be interpreted.
            Ok(Err(_)) | Err(_) => interpreted(func)?,
        };
        let machine = |e: &dyn fmt::Display| CheckError::Machine(e.to_string());
        let args = Arguments::new(&specs, SEED).map_err(|e| machine(&e))?;
        let workers = Workers::new(setting.threads.max(1) as usize, &Pinning::None).map_err(|e| machine(&e))?;
        let mut context = RunContext::new(Arc::new(workers));
        context.poison_scratch(0xff);
        let options = setting.codegen();
        Ok(Checker { specs, args, reference, options, context: Arc::new(Mutex::new(context)) })
    }

    /// Compares a scheduled version, which takes its parameters in these layouts.
    ///
    /// # Errors
    /// They do not agree.
    pub(crate) fn check(&self, func: &Func, layouts: &Layouts) -> Result<Agreement, CheckError> {
        let compiled = isolated(|| {
            let kernel = lower::lower(func).map_err(|e| e.to_string())?;
            codegen::compile(&kernel, &self.options).map_err(|e| e.to_string())
        });
        match compiled.and_then(|r| r) {
            Ok(code) => self.check_compiled(code, layouts),
            Err(why) => self.check_interpreted(func, layouts, &why),
        }
    }

    fn check_compiled(&self, code: CompiledKernel, layouts: &Layouts) -> Result<Agreement, CheckError> {
        let code = Loaded::new(code, self.context.clone(), self.options.threads);
        let mut args = self.arguments(layouts)?;
        let mut max_error = 0f64;
        let runs = if self.options.threads > 1 { PARALLEL_RUNS } else { 1 };
        for _ in 0..runs {
            // The poison differs from the right result, so an element that is not written shows.
            args.reset(Poison::Opposite(self.reference.outputs()));
            code.run(&mut args).map_err(|e| CheckError::Fails(e.to_string()))?;
            args.inspect().map_err(|damage| CheckError::Fails(damage.to_string()))?;
            max_error = max_error.max(self.compare(&args, layouts)?);
        }
        Ok(Agreement { max_error, elements: self.elements(), interpreted: false })
    }

    /// Compares a version that does not compile because of `why`.
    fn check_interpreted(&self, func: &Func, layouts: &Layouts, why: &str) -> Result<Agreement, CheckError> {
        let mut args = self.arguments(layouts)?;
        interpret(func, &mut args, Precision::Exact).map_err(|e| match e {
            Interpreted::TooLong => {
                CheckError::NotComparable(format!("it does not compile ({why}), and is too large to interpret"))
            }
            Interpreted::Failed(e) => CheckError::Fails(e),
        })?;
        Ok(Agreement { max_error: self.compare(&args, layouts)?, elements: self.elements(), interpreted: true })
    }

    /// The number of elements that are compared.
    fn elements(&self) -> usize {
        self.specs.iter().filter(|s| s.is_written()).map(ParamSpec::len).sum()
    }

    /// The data in the layouts of the scheduled version.
    fn arguments(&self, layouts: &Layouts) -> Result<Arguments, CheckError> {
        let specs = layouts.specs(&self.specs);
        let mut args = Arguments::new(&specs, SEED).map_err(|e| CheckError::Machine(e.to_string()))?;
        for (i, spec) in specs.iter().enumerate() {
            if !layouts.is_as_written(i) && spec.access != Access::Out {
                let moved = layouts.to_scheduled(i, spec, self.args.bytes(i)).map_err(CheckError::NotComparable)?;
                args.set(i, &moved);
            }
        }
        Ok(args)
    }

    fn compare(&self, args: &Arguments, layouts: &Layouts) -> Result<f64, CheckError> {
        let mut outputs = args.outputs();
        for (i, spec) in self.specs.iter().enumerate() {
            if spec.is_written() {
                outputs[i] = layouts.to_written(i, spec, &outputs[i]).map_err(CheckError::NotComparable)?;
            }
        }
        self.reference.check_outputs(&self.specs, &outputs).map_err(|e| CheckError::Different(e.to_string()))
    }
}

impl CheckError {
    /// The error of a program that cannot be run as it is.
    fn program(what: impl Into<String>) -> CheckError {
        CheckError::Program(format!("the program as written cannot be run: {}", what.into()), String::new())
    }
}

fn compiled(func: &Func, plain: reference::Plain) -> Result<(Vec<ParamSpec>, Reference), CheckError> {
    let specs = params::specs(func, &plain.kernel).map_err(CheckError::program)?;
    let context = Arc::new(Mutex::new(RunContext::serial()));
    let (specs, stop) = (specs.clone(), StopFlag::new());
    let job =
        reference::Job { func: func.clone(), plain, specs: specs.clone(), seed: SEED, cache: None, context, stop };
    let reference = job.compute(|| false).map_err(|e| match e {
        ReferenceError::Arguments(e) => CheckError::Machine(e.to_string()),
        other => CheckError::program(other.to_string()),
    })?;
    Ok((specs, reference))
}

fn interpreted(func: &Func) -> Result<(Vec<ParamSpec>, Reference), CheckError> {
    let specs =
        accessed(func).ok_or_else(|| CheckError::program("it takes something else than buffers of known shape"))?;
    let mut args = Arguments::new(&specs, SEED).map_err(|e| CheckError::Machine(e.to_string()))?;
    interpret(func, &mut args, Precision::Wide).map_err(|e| match e {
        Interpreted::TooLong => CheckError::program("it does not compile, and is too large to interpret"),
        Interpreted::Failed(e) => CheckError::program(e),
    })?;
    let outputs = Reference::of_outputs(args.outputs(), &vec![Tolerance::EXACT; specs.len()]);
    let reference = reference::toleranced(outputs, func, &specs);
    Ok((specs, reference))
}

/// The parameters of a function that is not lowered; blocks tell how they are accessed.
fn accessed(func: &Func) -> Option<Vec<ParamSpec>> {
    let callable = func.callable();
    let func = &*callable.with_param_layouts();
    let blocks = func.blocks();
    let is_in = |b: BufferId, regions: &dyn Fn(&Block) -> &[BufferRegion]| {
        blocks.iter().any(|&block| regions(func.block(block)).iter().any(|r| r.buffer == b))
    };
    let spec = |p: &crate::ir::Param| {
        let b = p.buffer?;
        let buffer = func.arena.buffer(b);
        let shape = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e)).collect::<Option<Vec<_>>>()?;
        let access = match (is_in(b, &|block| &block.writes), is_in(b, &|block| &block.reads)) {
            (true, true) => Access::InOut,
            (true, false) => Access::Out,
            (false, _) => Access::In,
        };
        let spec = ParamSpec::new(buffer.name.as_str(), buffer.dtype, &shape, access);
        Some(spec.placed(func.param_layout(b)?))
    };
    func.params.iter().map(spec).collect()
}

/// Is a buffer small enough for the interpreter, which needs many times its bytes? Views of unknown shape need none.
fn is_small(func: &Func, b: BufferId) -> bool {
    let extents = func.arena.list(func.arena.buffer(b).shape).iter().filter_map(|&e| func.arena.as_int(e));
    let n = extents.map(|n| n.max(0) as u64).fold(1, u64::saturating_mul);
    n <= MAX_ELEMENTS
}

/// The reasons why interpretation ends early.
enum Interpreted {
    TooLong,
    Failed(String),
}

fn interpret(func: &Func, args: &mut Arguments, precision: Precision) -> Result<(), Interpreted> {
    if !func.arena.buffer_ids().all(|b| is_small(func, b)) {
        return Err(Interpreted::TooLong);
    }
    let tensor = |i: usize| {
        let t = args.tensor(i);
        interp::Arg::Tensor(Tensor { dtype: t.dtype, shape: t.shape.to_vec(), data: t.data.to_vec() })
    };
    let mut tensors: Vec<interp::Arg> = (0..args.specs().len()).map(tensor).collect();
    let options = Options { precision, max_steps: MAX_STEPS, ..Options::default() };
    interp::run(&func.callable(), &mut tensors, options).map_err(|e| match e.fault {
        Fault::TooLong => Interpreted::TooLong,
        _ => Interpreted::Failed(e.message(func)),
    })?;
    for (i, arg) in tensors.iter().enumerate() {
        if let (Some(t), true) = (arg.tensor(), args.specs()[i].is_written()) {
            args.bytes_mut(i).copy_from_slice(&t.data);
        }
    }
    Ok(())
}

#[cfg(test)]
mod judging;
#[cfg(test)]
mod tests;
