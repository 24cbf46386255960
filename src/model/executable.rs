//! Compiling the kernels of a graph, and calling them.

use super::memory::{Fixed, Memory};
use super::preparation::Preparation;
use super::step_kernels::StepKernels;
use crate::arrays::Array;
use crate::codegen::{Pinning, RunContext, Workers};
use crate::diagnostic::Diagnostic;
use crate::graph::Constant;
use crate::graph::libraries::Libraries;
use crate::graph::memory::ALIGNMENT;
use crate::graph::pass::{self, Context, GraphModule};
use crate::graph::program::{Copy, Place, Program, Tensor};
use crate::graph::scheduled::Scheduled;
use crate::ir::{DType, Func, Symbol};
use crate::measure::Timer;
use crate::run::{Parameter, Role};
use crate::stop::StopFlag;
use crate::workload::Setting;
use std::sync::{Arc, Mutex};

/// A compiled graph.
pub struct Model {
    name: Symbol,
    program: Program,
    preparation: Preparation,
    kernels: StepKernels,
    /// Weights, constants and prepared tensors that calls read; `None` until the weights are loaded.
    fixed: Option<Fixed>,
    workers: Arc<Workers>,
    /// Raised, it ends the kernels of all calls.
    stop: StopFlag,
    /// What finished calls used, for later ones.
    idle: Mutex<Vec<State>>,
}

/// What a call needs for itself.
struct State {
    context: RunContext,
    memory: Memory,
    /// The arguments of all steps, one after the other. Those of inputs and outputs change with each call.
    arguments: Vec<*mut u8>,
    /// The copies of all steps: from, to, size.
    copies: Vec<(*const u8, *mut u8, usize)>,
    /// The first argument and the first copy of each step.
    starts: Vec<(usize, usize)>,
}

// SAFETY: the pointers are used by one call at a time, which sets those that do not lead into the state's own memory.
unsafe impl Send for State {}

/// The elements of a weight or input.
struct Elements<'a> {
    dtype: DType,
    shape: &'a [i64],
    data: &'a [u8],
}

impl Elements<'_> {
    fn of_array(array: &Array) -> Elements<'_> {
        Elements { dtype: array.dtype(), shape: array.shape(), data: array.data() }
    }
}

/// Why a graph was not compiled or a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ModelError {
    /// The text has mistakes that only passes find.
    #[error("{}", .0.first().map_or("", |d| &d.message))]
    Graph(Vec<Diagnostic>),
    /// There is no such graph.
    #[error("there is no graph function `{0}`")]
    NoFunction(String),
    /// A kernel cannot be compiled.
    #[error("`{func}`: {why}")]
    Compile {
        /// The prim_func.
        func: Symbol,
        /// The reason.
        why: String,
    },
    /// An array does not fit.
    #[error("{0}")]
    Argument(String),
    /// A shared library cannot be used.
    #[error("{0}")]
    Library(String),
    /// The program failed by itself.
    #[error("`{func}` failed: {why}")]
    Failed {
        /// The prim_func.
        func: Symbol,
        /// The reason.
        why: String,
    },
    /// The machine lacks memory or threads.
    #[error("{0}")]
    Machine(String),
}

impl Model {
    /// Runs the passes on a module and compiles one of its graphs, each kernel as written.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn compile(mut module: GraphModule, name: &str, cx: &Context, setting: &Setting) -> Result<Model, ModelError> {
        pass::run_all(&mut module, cx).map_err(ModelError::Graph)?;
        Model::with_schedules(&module, name, &cx.libraries, setting, |_| None)
    }

    /// Compiles a graph whose operators are lowered, and which calls no functions of shared libraries.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn of_lowered(module: &GraphModule, name: &str, setting: &Setting) -> Result<Model, ModelError> {
        Model::with_schedules(module, name, &Libraries::default(), setting, |_| None)
    }

    /// Compiles a graph whose operators are lowered, each kernel in the version that `scheduled` gives for its name; as written where
    /// that is `None`. What runs only once is as written; what schedules prepare of weights runs when these are loaded. Functions of shared libraries come from those of `libraries`.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn with_schedules(
        module: &GraphModule,
        name: &str,
        libraries: &Libraries,
        setting: &Setting,
        scheduled: impl Fn(Symbol) -> Option<Func>,
    ) -> Result<Model, ModelError> {
        let version = |func, written| scheduled(func).unwrap_or(written);
        let scheduled = Scheduled::new(program(module, name)?, &module.module, version);
        let scheduled = scheduled.map_err(|d| ModelError::Graph(vec![d]))?;
        let preparation = Preparation::compile(&scheduled, libraries, setting)?;
        let Scheduled { program, kernels, .. } = scheduled;
        let kernels = StepKernels::compiled(libraries, &program.steps, &kernels, &setting.codegen())?;
        Model::new(name, program, preparation, kernels, setting, StopFlag::new())
    }

    /// A model of these kernels, which end when the flag is raised.
    pub(super) fn new(
        name: &str,
        program: Program,
        preparation: Preparation,
        kernels: StepKernels,
        setting: &Setting,
        stop: StopFlag,
    ) -> Result<Model, ModelError> {
        let (workers, idle) = (start_workers(setting)?, Mutex::new(Vec::new()));
        let mut model = Model { name: name.into(), program, preparation, kernels, fixed: None, workers, stop, idle };
        if model.weights().is_empty() {
            model.load_weights(&[])?;
        }
        Ok(model)
    }

    /// Takes an array for each weight, and computes what follows from them. A model that has weights needs this before its first call;
    /// it keeps what its calls read.
    ///
    /// # Errors
    /// An array does not fit, there is not enough memory, or a kernel fails.
    pub fn load_weights(&mut self, weights: &[Array]) -> Result<(), ModelError> {
        self.load(&weights.iter().map(Elements::of_array).collect::<Vec<_>>())
    }

    /// As [`Model::load_weights`], of constants.
    ///
    /// # Errors
    /// As [`Model::load_weights`].
    pub fn load_constants(&mut self, weights: &[Constant]) -> Result<(), ModelError> {
        let one = |c| Elements { dtype: Constant::dtype(c), shape: Constant::shape(c), data: Constant::data(c) };
        self.load(&weights.iter().map(one).collect::<Vec<_>>())
    }

    fn load(&mut self, weights: &[Elements<'_>]) -> Result<(), ModelError> {
        self.check("weights", self.weights(), weights)?;
        let weights: Vec<&[u8]> = weights.iter().map(|w| w.data).collect();
        let mut context = RunContext::new(self.workers.clone()).stopped_by(self.stop.clone());
        let prepared = self.preparation.run(&self.program, &weights, &mut context)?;
        let read = self.program.read_places();
        let n_inputs = self.program.n_inputs;
        let weights = weights.iter().enumerate().map(|(i, data)| (Place::Input(n_inputs + i), *data));
        let constants = self.program.constants.iter().enumerate().map(|(i, c)| (Place::Constant(i), c.data()));
        let results = prepared.kept().map(|(i, data)| (Place::Prepared(i), data));
        let all = weights.chain(constants).chain(results);
        let kept: Vec<(Place, &[u8])> = all.filter(|(place, _)| read.contains(place)).collect();
        self.fixed = Some(Fixed::copy(&kept)?);
        Ok(())
    }

    /// Whether there are elements for each tensor.
    fn check(&self, what: &str, tensors: &[Tensor], arrays: &[Elements<'_>]) -> Result<(), ModelError> {
        if arrays.len() != tensors.len() {
            let (expected, found) = (tensors.len(), arrays.len());
            return Err(ModelError::Argument(format!("`{}` takes {expected} {what}, found {found}", self.name)));
        }
        for (tensor, array) in tensors.iter().zip(arrays) {
            if array.dtype != tensor.dtype || array.shape != tensor.shape {
                let (dtype, shape) = (array.dtype, array.shape);
                let expected = format!("`{}` is {} {:?}", tensor.name, tensor.dtype, tensor.shape);
                return Err(ModelError::Argument(format!("{expected}, and its array is {dtype} {shape:?}")));
            }
        }
        Ok(())
    }

    /// Runs parallel loops on this pool, which several models may share, instead of on the model's own.
    pub fn set_workers(&mut self, workers: Arc<Workers>) {
        self.workers = workers;
        self.idle = Mutex::new(Vec::new());
    }

    /// The name of the graph.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The stop flag of all calls: raised, it ends a running kernel.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    #[cfg(test)]
    pub(super) fn fixed(&self) -> Option<&Fixed> {
        self.fixed.as_ref()
    }

    /// Steps and places in memory.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The inputs, which callers pass.
    pub fn inputs(&self) -> &[Tensor] {
        &self.program.inputs[..self.program.n_inputs]
    }

    /// The weights.
    pub fn weights(&self) -> &[Tensor] {
        &self.program.inputs[self.program.n_inputs..]
    }

    /// The size of what calls read besides the inputs and intermediate values: weights, constants and prepared tensors. 0 until the
    /// weights are loaded.
    pub fn fixed_bytes(&self) -> usize {
        self.fixed.as_ref().map_or(0, Fixed::size)
    }

    /// The results.
    pub fn outputs(&self) -> &[Tensor] {
        &self.program.outputs
    }

    /// The parameters as those of a function: the inputs, the weights, then the results, whose names are unique.
    pub fn params(&self) -> Vec<Parameter> {
        let mut all: Vec<Parameter> = Vec::new();
        let inputs = self.program.inputs.iter().map(|t| (t, Role::Input));
        for (tensor, role) in inputs.chain(self.outputs().iter().map(|t| (t, Role::Output))) {
            let numbered = (1..).map(|i| format!("{}_{i}", tensor.name));
            let mut names = std::iter::once(tensor.name.clone()).chain(numbered);
            let name = names.find(|n| all.iter().all(|p| p.name != *n)).unwrap_or_default();
            all.push(Parameter { name, dtype: tensor.dtype, shape: tensor.shape.clone(), role });
        }
        all
    }

    /// Calls the model on an array for each input.
    ///
    /// # Errors
    /// An array does not fit, or a kernel fails.
    pub fn run(&self, inputs: &[Array]) -> Result<Vec<Array>, ModelError> {
        let mut call = self.bind(inputs)?;
        call.run()?;
        call.outputs()
    }

    /// Takes an array for each input; they are copied.
    ///
    /// # Errors
    /// An array does not fit, the weights were not loaded, or there is not enough memory.
    pub fn bind(&self, inputs: &[Array]) -> Result<Call<'_>, ModelError> {
        self.check("arrays", self.inputs(), &inputs.iter().map(Elements::of_array).collect::<Vec<_>>())?;
        let sizes = |tensors: &[Tensor]| {
            let mut offsets = Vec::with_capacity(tensors.len());
            let mut bytes = 0;
            for tensor in tensors {
                offsets.push(bytes);
                bytes += tensor.bytes().next_multiple_of(ALIGNMENT);
            }
            (offsets, bytes)
        };
        let ((input_offsets, input_bytes), (output_offsets, output_bytes)) =
            (sizes(self.inputs()), sizes(&self.program.outputs));
        let (mut memory, outputs) = (Memory::new(input_bytes)?, Memory::new(output_bytes)?);
        for (array, &offset) in inputs.iter().zip(&input_offsets) {
            memory.bytes_mut()[offset..offset + array.data().len()].copy_from_slice(array.data());
        }
        let pointers = |memory: &Memory, offsets: &[usize]| offsets.iter().map(|&at| memory.pointer(at)).collect();
        let ends = Ends { inputs: pointers(&memory, &input_offsets), outputs: pointers(&outputs, &output_offsets) };
        self.begin(ends, Some(Owned { _inputs: memory, outputs, output_offsets }))
    }

    /// A call with these arrays, which passed the checks.
    ///
    /// # Errors
    /// The weights were not loaded, or there is not enough memory.
    pub(super) fn begin(&self, ends: Ends, owned: Option<Owned>) -> Result<Call<'_>, ModelError> {
        let Some(fixed) = &self.fixed else {
            return Err(ModelError::Argument(format!("the weights of `{}` have no values", self.name)));
        };
        let mut call = Call { model: self, fixed, ends, owned, state: Some(self.state()?) };
        call.set_arguments();
        Ok(call)
    }

    /// What no other call uses.
    fn state(&self) -> Result<State, ModelError> {
        // The lock is never waited for: in a forked process, its owner may not exist.
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        if let Some(state) = idle
            && state.context.workers().are_here()
        {
            return Ok(state);
        }
        let context = match self.workers.are_here() {
            true => RunContext::new(self.workers.clone()),
            false => RunContext::serial(),
        };
        let context = context.stopped_by(self.stop.clone());
        let memory = Memory::new(self.program.plan.bytes)?;
        Ok(State { context, memory, arguments: Vec::new(), copies: Vec::new(), starts: Vec::new() })
    }
}

/// Where inputs and outputs lie.
pub(super) struct Ends {
    pub inputs: Vec<*mut u8>,
    pub outputs: Vec<*mut u8>,
}

/// The memory of inputs and outputs, where a call owns it.
pub(super) struct Owned {
    _inputs: Memory,
    outputs: Memory,
    output_offsets: Vec<usize>,
}

/// A model with arrays for its parameters.
pub struct Call<'m> {
    pub(super) model: &'m Model,
    fixed: &'m Fixed,
    ends: Ends,
    owned: Option<Owned>,
    /// There until dropped.
    state: Option<State>,
}

impl Call<'_> {
    /// Finds the pointer of each argument of each step.
    fn set_arguments(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let mut arguments = std::mem::take(&mut state.arguments);
        arguments.clear();
        let mut copies = std::mem::take(&mut state.copies);
        copies.clear();
        state.starts.clear();
        for step in &self.model.program.steps {
            state.starts.push((arguments.len(), copies.len()));
            arguments.extend(step.args.iter().map(|&place| self.pointer(&state, place)));
            let pointers = |c: &Copy| (self.pointer(&state, c.from).cast_const(), self.pointer(&state, c.to), c.bytes);
            copies.extend(step.copies.iter().map(pointers));
        }
        state.arguments = arguments;
        state.copies = copies;
        self.state = Some(state);
    }

    fn pointer(&self, state: &State, place: Place) -> *mut u8 {
        if let Some(fixed) = self.fixed.pointer(place) {
            return fixed;
        }
        match place {
            Place::Input(i) => self.ends.inputs[i],
            Place::Output(i) => self.ends.outputs[i],
            Place::Temporary(i) => state.memory.pointer(self.model.program.plan.offsets[i]),
            Place::Constant(_) | Place::Prepared(_) => unreachable!("what calls read is there"),
        }
    }

    /// Runs all kernels.
    ///
    /// # Errors
    /// A kernel fails, such as by an integer division by zero.
    pub fn run(&mut self) -> Result<(), ModelError> {
        self.steps(0..self.model.program.steps.len())?;
        self.copy();
        Ok(())
    }

    /// Runs the model `n` times, and gives the seconds of each call.
    ///
    /// # Errors
    /// A kernel fails.
    pub fn repeat(&mut self, n: u64, timer: &dyn Timer) -> Result<Vec<f64>, ModelError> {
        let mut times = Vec::new();
        for _ in 0..n {
            let start = timer.now();
            self.run()?;
            times.push((timer.now() - start).as_secs_f64());
        }
        Ok(times)
    }

    /// Runs some of the steps, which read what earlier ones have written.
    ///
    /// # Errors
    /// A kernel fails.
    pub fn steps(&mut self, range: std::ops::Range<usize>) -> Result<(), ModelError> {
        self.repeat_steps(range, 1)
    }

    /// As [`Call::steps`], but each step runs `n` times in a row.
    pub(super) fn repeat_steps(&mut self, range: std::ops::Range<usize>, n: u32) -> Result<(), ModelError> {
        let model = self.model;
        let Some(state) = self.state.as_mut() else { return Ok(()) };
        let Some(&(mut argument, mut copy)) = state.starts.get(range.start) else { return Ok(()) };
        for (i, step) in range.clone().zip(&model.program.steps[range]) {
            let arguments = &state.arguments[argument..argument + step.args.len()];
            argument += step.args.len();
            let copies = &state.copies[copy..copy + step.copies.len()];
            copy += step.copies.len();
            for _ in 0..n {
                for &(from, to, bytes) in copies {
                    // SAFETY: both places have this size. They do not overlap: `to` is a temporary or an output, and `from`
                    // another place that still lives.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
                }
                // SAFETY: there is a pointer for each parameter, of the size that the types of the graph say, which passes
                // checked against the parameters. What a step writes is a temporary or an output: temporaries that live at the
                // same time do not overlap, but for results of concatenations, which no step writes, and their parts, which
                // are written before any step reads the result; no two places share an output.
                unsafe { model.kernels.call(i, step, arguments, &mut state.context)? };
            }
        }
        Ok(())
    }

    /// Fills the outputs that no step writes.
    pub(super) fn copy(&mut self) {
        let Some(state) = self.state.take() else { return };
        for &(from, to) in &self.model.program.copies {
            let bytes = self.model.program.outputs[to].bytes();
            let (from, to) = (self.pointer(&state, from), self.pointer(&state, Place::Output(to)));
            // SAFETY: both places have the size of the output, and no two places overlap.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        }
        self.state = Some(state);
    }

    /// The outputs after a run; none if they are the caller's.
    ///
    /// # Errors
    /// The program has written a `bool` that is neither 0 nor 1.
    pub fn outputs(&self) -> Result<Vec<Array>, ModelError> {
        let Some(owned) = &self.owned else { return Ok(Vec::new()) };
        let outputs = self.model.program.outputs.iter().zip(&owned.output_offsets);
        outputs
            .map(|(tensor, &offset)| {
                let data = owned.outputs.bytes()[offset..offset + tensor.bytes()].to_vec();
                Array::new(tensor.dtype, &tensor.shape, data)
                    .map_err(|e| ModelError::Failed { func: self.model.name, why: format!("`{}`: {e}", tensor.name) })
            })
            .collect()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let (Some(state), Ok(mut idle)) = (self.state.take(), self.model.idle.try_lock()) {
            idle.push(state);
        }
    }
}

/// The steps of a graph of the module.
pub(super) fn program(module: &GraphModule, name: &str) -> Result<Program, ModelError> {
    let function = module.functions.iter().find(|f| f.name == name);
    let function = function.ok_or_else(|| ModelError::NoFunction(name.to_owned()))?;
    Program::of(function).map_err(|d| ModelError::Graph(vec![d]))
}

pub(super) fn start_workers(setting: &Setting) -> Result<Arc<Workers>, ModelError> {
    let workers = Workers::new(setting.threads.max(1) as usize, &Pinning::None);
    Ok(Arc::new(workers.map_err(|e| ModelError::Machine(format!("cannot start threads: {e}")))?))
}
