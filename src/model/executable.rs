//! Compiling the kernels of a graph, and calling them.

use crate::arrays::Array;
use crate::codegen::{self, CompiledKernel, Pinning, RunContext, RuntimeFailure, Workers};
use crate::diagnostic::Diagnostic;
use crate::graph::memory::ALIGNMENT;
use crate::graph::pass::{self, Context, GraphModule};
use crate::graph::program::{Copy, Place, Program, Tensor};
use crate::ir::{Func, Module, Symbol};
use crate::lower;
use crate::measure::Timer;
use crate::run::{Parameter, Role};
use crate::search::isolated;
use crate::stop::StopFlag;
use crate::workload::{Setting, Workload};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A compiled graph.
pub struct Model {
    name: Symbol,
    program: Program,
    kernels: Vec<CompiledKernel>,
    /// The kernel of each step.
    kernel_of: Vec<usize>,
    constants: Memory,
    constant_offsets: Vec<usize>,
    workers: Arc<Workers>,
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
}

// SAFETY: the pointers are used by one call at a time, which sets those that do not lead into the state's own memory.
unsafe impl Send for State {}

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
        Model::of_lowered(&module, name, setting)
    }

    /// Compiles a graph whose operators are lowered.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn of_lowered(module: &GraphModule, name: &str, setting: &Setting) -> Result<Model, ModelError> {
        Model::with_kernels(module, name, setting, |module, index| {
            let workload = Workload::of(module, index);
            Ok(workload.func().clone())
        })
    }

    /// Compiles a graph whose operators are lowered, each kernel in the version that `choose` gives for the function of the module.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn with_kernels(
        module: &GraphModule,
        name: &str,
        setting: &Setting,
        mut choose: impl FnMut(&Module, usize) -> Result<Func, String>,
    ) -> Result<Model, ModelError> {
        let function = module.functions.iter().find(|f| f.name == name);
        let function = function.ok_or_else(|| ModelError::NoFunction(name.to_owned()))?;
        let program = Program::of(function).map_err(|d| ModelError::Graph(vec![d]))?;
        let threads = setting.threads.max(1) as usize;
        let workers = Workers::new(threads, &Pinning::None);
        let workers = workers.map_err(|e| ModelError::Machine(format!("cannot start threads: {e}")))?;
        let options = setting.codegen();
        let mut kernels = Vec::new();
        let mut known: HashMap<Symbol, usize> = HashMap::new();
        let mut kernel_of = Vec::with_capacity(program.steps.len());
        for step in &program.steps {
            let next = kernels.len();
            let kernel = *known.entry(step.func).or_insert(next);
            if kernel == next {
                let fail = |why: String| ModelError::Compile { func: step.func, why };
                let index = module.module.funcs.iter().position(|f| f.name == step.func);
                let index = index.ok_or_else(|| fail("the module has no such function".to_owned()))?;
                let func = choose(&module.module, index).map_err(fail)?;
                let compiled = isolated(|| {
                    let kernel = lower::lower(&func).map_err(|e| e.to_string())?;
                    codegen::compile(&kernel, &options).map_err(|e| e.to_string())
                });
                kernels.push(compiled.and_then(|r| r).map_err(fail)?);
            }
            let found = kernels[kernel].params().len();
            if found != step.args.len() {
                let why = format!("it takes {found} arrays, and the graph passes {}", step.args.len());
                return Err(ModelError::Compile { func: step.func, why });
            }
            kernel_of.push(kernel);
        }
        let mut constant_offsets = Vec::new();
        let mut bytes = 0;
        for constant in &program.constants {
            constant_offsets.push(bytes);
            bytes += constant.data().len().next_multiple_of(ALIGNMENT);
        }
        let mut constants = Memory::new(bytes)?;
        for (constant, &offset) in program.constants.iter().zip(&constant_offsets) {
            constants.bytes_mut()[offset..offset + constant.data().len()].copy_from_slice(constant.data());
        }
        let name = function.name;
        let (workers, idle) = (Arc::new(workers), Mutex::new(Vec::new()));
        Ok(Model { name, program, kernels, kernel_of, constants, constant_offsets, workers, idle })
    }

    /// The name of the graph.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Steps and places in memory.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The parameters: what callers pass, then the weights.
    pub fn inputs(&self) -> &[Tensor] {
        &self.program.inputs
    }

    /// The results.
    pub fn outputs(&self) -> &[Tensor] {
        &self.program.outputs
    }

    /// The parameters as those of a function: the inputs, then the results, whose names are unique.
    pub fn params(&self) -> Vec<Parameter> {
        let mut all: Vec<Parameter> = Vec::new();
        let inputs = self.inputs().iter().map(|t| (t, Role::Input));
        for (tensor, role) in inputs.chain(self.outputs().iter().map(|t| (t, Role::Output))) {
            let numbered = (1..).map(|i| format!("{}_{i}", tensor.name));
            let mut names = std::iter::once(tensor.name.clone()).chain(numbered);
            let name = names.find(|n| all.iter().all(|p| p.name != *n)).unwrap_or_default();
            all.push(Parameter { name, dtype: tensor.dtype, shape: tensor.shape.clone(), role });
        }
        all
    }

    /// Calls the model on an array for each parameter.
    ///
    /// # Errors
    /// An array does not fit, or a kernel fails.
    pub fn run(&self, inputs: &[Array]) -> Result<Vec<Array>, ModelError> {
        let mut call = self.bind(inputs)?;
        call.run()?;
        call.outputs()
    }

    /// Takes an array for each parameter; they are copied.
    ///
    /// # Errors
    /// An array does not fit, or there is not enough memory.
    pub fn bind(&self, inputs: &[Array]) -> Result<Call<'_>, ModelError> {
        if inputs.len() != self.program.inputs.len() {
            let (expected, found) = (self.program.inputs.len(), inputs.len());
            return Err(ModelError::Argument(format!("`{}` takes {expected} arrays, found {found}", self.name)));
        }
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
            (sizes(&self.program.inputs), sizes(&self.program.outputs));
        let (mut memory, outputs) = (Memory::new(input_bytes)?, Memory::new(output_bytes)?);
        for ((tensor, array), &offset) in self.program.inputs.iter().zip(inputs).zip(&input_offsets) {
            if array.dtype() != tensor.dtype || array.shape() != tensor.shape {
                let (dtype, shape) = (array.dtype(), array.shape());
                let expected = format!("`{}` is {} {:?}", tensor.name, tensor.dtype, tensor.shape);
                return Err(ModelError::Argument(format!("{expected}, and its array is {dtype} {shape:?}")));
            }
            memory.bytes_mut()[offset..offset + array.data().len()].copy_from_slice(array.data());
        }
        let state = match self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            Some(state) => state,
            None => State {
                context: RunContext::new(self.workers.clone()),
                memory: Memory::new(self.program.plan.bytes)?,
                arguments: Vec::new(),
                copies: Vec::new(),
            },
        };
        let mut call = Call { model: self, inputs: memory, outputs, input_offsets, output_offsets, state: Some(state) };
        call.set_arguments();
        Ok(call)
    }
}

/// A model with arrays for its parameters.
pub struct Call<'m> {
    model: &'m Model,
    inputs: Memory,
    outputs: Memory,
    input_offsets: Vec<usize>,
    output_offsets: Vec<usize>,
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
        for step in &self.model.program.steps {
            arguments.extend(step.args.iter().map(|&place| self.pointer(&state, place)));
            let pointers = |c: &Copy| (self.pointer(&state, c.from).cast_const(), self.pointer(&state, c.to), c.bytes);
            copies.extend(step.copies.iter().map(pointers));
        }
        state.arguments = arguments;
        state.copies = copies;
        self.state = Some(state);
    }

    fn pointer(&self, state: &State, place: Place) -> *mut u8 {
        let (memory, offset) = match place {
            Place::Input(i) => (&self.inputs, self.input_offsets[i]),
            Place::Output(i) => (&self.outputs, self.output_offsets[i]),
            Place::Constant(i) => (&self.model.constants, self.model.constant_offsets[i]),
            Place::Temporary(i) => (&state.memory, self.model.program.plan.offsets[i]),
        };
        memory.start.wrapping_add(offset)
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

    /// Runs the model once, and gives the seconds of each step.
    ///
    /// # Errors
    /// A kernel fails.
    pub fn time_steps(&mut self, timer: &dyn Timer) -> Result<Vec<f64>, ModelError> {
        let mut times = Vec::with_capacity(self.model.program.steps.len());
        for i in 0..self.model.program.steps.len() {
            let start = timer.now();
            self.steps(i..i + 1)?;
            times.push((timer.now() - start).as_secs_f64());
        }
        self.copy();
        Ok(times)
    }

    /// The stop flag of the calls: raised, it ends a running kernel.
    pub fn stop_flag(&self) -> Option<&StopFlag> {
        self.state.as_ref().map(|s| s.context.stop_flag())
    }

    /// Runs some of the steps, which read what earlier ones have written.
    ///
    /// # Errors
    /// A kernel fails.
    pub fn steps(&mut self, range: std::ops::Range<usize>) -> Result<(), ModelError> {
        let model = self.model;
        let Some(state) = self.state.as_mut() else { return Ok(()) };
        let mut rest = &state.arguments[..];
        let mut copies = &state.copies[..];
        for (i, step) in model.program.steps.iter().enumerate() {
            let (arguments, after) = rest.split_at(step.args.len());
            rest = after;
            let (own, after) = copies.split_at(step.copies.len());
            copies = after;
            if !range.contains(&i) {
                continue;
            }
            for &(from, to, bytes) in own {
                // SAFETY: both places have this size. They do not overlap: `to` is a temporary or an output, and `from` another
                // place that still lives.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            }
            let kernel = &model.kernels[model.kernel_of[i]];
            // SAFETY: there is a pointer for each parameter, of the size that the types of the graph say, which passes checked
            // against the parameters. What a step writes is a temporary or an output: temporaries that live at the same time do
            // not overlap, and no two places share an output.
            let result = unsafe { kernel.call(arguments, &mut state.context) };
            result.map_err(|failure| ModelError::Failed { func: step.func, why: reason(kernel, failure) })?;
        }
        Ok(())
    }

    /// Fills the outputs that no step writes.
    fn copy(&mut self) {
        let Some(state) = self.state.take() else { return };
        for &(from, to) in &self.model.program.copies {
            let bytes = self.model.program.outputs[to].bytes();
            let (from, to) = (self.pointer(&state, from), self.pointer(&state, Place::Output(to)));
            // SAFETY: both places have the size of the output, and no two places overlap.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        }
        self.state = Some(state);
    }

    /// The outputs after a run.
    ///
    /// # Errors
    /// The program has written a `bool` that is neither 0 nor 1.
    pub fn outputs(&self) -> Result<Vec<Array>, ModelError> {
        let outputs = self.model.program.outputs.iter().zip(&self.output_offsets);
        outputs
            .map(|(tensor, &offset)| {
                let data = self.outputs.bytes()[offset..offset + tensor.bytes()].to_vec();
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

fn reason(kernel: &CompiledKernel, failure: RuntimeFailure) -> String {
    match failure {
        RuntimeFailure::OutOfBounds { buffer } => match kernel.params().get(buffer.index()) {
            Some(param) => format!("access out of bounds of `{}`", param.name),
            None => "access out of bounds of an intermediate buffer".to_owned(),
        },
        RuntimeFailure::Assertion { index } => {
            kernel.assertion(index).map_or_else(|| failure.to_string(), |text| format!("{failure}: {text}"))
        }
        RuntimeFailure::Division | RuntimeFailure::Stopped => failure.to_string(),
    }
}

/// Memory aligned to [`ALIGNMENT`], filled with zeros.
struct Memory {
    start: *mut u8,
    bytes: usize,
    owner: Vec<u8>,
}

// SAFETY: the memory is owned, and the pointer leads into it.
unsafe impl Send for Memory {}
// SAFETY: as above; shared memory (that of constants) is only read.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(bytes: usize) -> Result<Memory, ModelError> {
        let mut owner: Vec<u8> = Vec::new();
        let too_large = |_| ModelError::Machine(format!("not enough memory: {bytes} bytes"));
        owner.try_reserve_exact(bytes + ALIGNMENT).map_err(too_large)?;
        owner.resize(bytes + ALIGNMENT, 0);
        let offset = owner.as_ptr().addr().next_multiple_of(ALIGNMENT) - owner.as_ptr().addr();
        let start = owner.as_mut_ptr().wrapping_add(offset);
        Ok(Memory { start, bytes, owner })
    }

    fn offset(&self) -> usize {
        self.start.addr() - self.owner.as_ptr().addr()
    }

    fn bytes(&self) -> &[u8] {
        &self.owner[self.offset()..self.offset() + self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let offset = self.offset();
        &mut self.owner[offset..offset + self.bytes]
    }
}
