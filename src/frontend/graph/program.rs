//! A function as steps: calls of kernels on places in memory.
//!
//! Tuples, their items, other names and other shapes of values cost nothing: they are resolved here. What is left are the tensors
//! that kernels write, each with the place where it lies.
//!
//! A result of `R.call_tir_inplace` takes the place of an argument if nothing reads the argument later; else the argument is copied
//! first:
//!
//! ```text
//! b = R.call_tir_inplace(cls.relu, (a,), inplace_indices=[0], …)
//!
//! a is an intermediate value, read here last:   relu(a)                 b lies where a does
//! else:                                         b = copy of a; relu(b)
//! ```
//!
//! The parts of a concatenation may be written where they lie in its result ([`joined`](super::joined)); it is no step then.
//!
//! What follows from weights and constants alone ([`constness`](super::constness)) is computed once, by the steps of the
//! preparation. The steps of a call read its results like weights, from memory that no intermediate value shares.

use super::constant::Constant;
use super::constness::invariant_values;
use super::function::{Arg, CallId, Callee, Function, ValueDef, ValueId};
use super::joined::{Joined, Piece};
use super::memory::{self, Plan, Request};
use super::operator::Lowering;
use super::specialize::{Passed, passed};
use super::ty::{TensorType, Type};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{DType, Module, Symbol};
use std::collections::{HashMap, HashSet};

/// A function as steps.
#[derive(Clone, Debug)]
pub struct Program {
    /// What callers pass, then the weights.
    pub inputs: Vec<Tensor>,
    /// How many of the inputs callers pass.
    pub n_inputs: usize,
    /// What callers receive.
    pub outputs: Vec<Tensor>,
    /// Tensors with known elements.
    pub constants: Vec<Constant>,
    /// The calls of kernels that run once, when the weights are known. They read weights, constants and prepared tensors, and write
    /// prepared tensors.
    pub preparation: Vec<Step>,
    /// The tensors that these calls write.
    pub prepared: Vec<Tensor>,
    /// Where the prepared tensors lie that only the preparation reads. Those that calls need have memory of their own, and no size
    /// here.
    pub prepared_plan: Plan,
    /// The calls of kernels in each call of the function, in order.
    pub steps: Vec<Step>,
    /// Outputs that no step writes, and the place from which they are copied.
    pub copies: Vec<(Place, usize)>,
    /// The sizes and lifetimes of intermediate values.
    pub temporaries: Vec<Request>,
    /// Where they lie.
    pub plan: Plan,
}

/// A tensor outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<i64>,
}

impl Tensor {
    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        let n: i64 = self.shape.iter().product();
        usize::try_from(n).unwrap_or(0) * self.dtype.bytes()
    }
}

/// A call of a kernel.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it runs.
    pub routine: Routine,
    /// The arguments: what it reads, then what it writes.
    pub args: Vec<Place>,
    /// How many of the arguments it reads.
    pub n_reads: usize,
    /// The call of the graph.
    pub call: CallId,
    /// What is copied before the kernel runs.
    pub copies: Vec<Copy>,
    /// Whether the kernel overwrites an argument that is not copied: a second run would read what the first one wrote.
    pub overwrites: bool,
}

/// What a step runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Routine {
    /// A prim_func of the module.
    PrimFunc(Symbol),
    /// A function of a shared library.
    Foreign(Foreign),
}

/// A function of a shared library, as a step calls it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Foreign {
    /// The name by which the graph calls it.
    pub name: Symbol,
    /// The types of the tensors that it reads, then of those that it writes.
    pub tensors: Vec<Passed>,
    /// Whether it returns its result, which is then the last of the tensors, instead of being given the memory for it.
    pub returns: bool,
}

impl Routine {
    /// The name by which the graph calls it.
    pub fn name(&self) -> Symbol {
        match self {
            Routine::PrimFunc(name) | Routine::Foreign(Foreign { name, .. }) => *name,
        }
    }

    /// The name of a prim_func; `None` if it is none.
    pub fn prim_func(&self) -> Option<Symbol> {
        match self {
            Routine::PrimFunc(name) => Some(*name),
            Routine::Foreign(_) => None,
        }
    }
}

/// A copy of an argument that a kernel overwrites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    /// The argument, which lives on.
    pub from: Place,
    /// The memory of the result.
    pub to: Place,
    /// The size.
    pub bytes: usize,
}

/// Where a tensor lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// In the memory of an input.
    Input(usize),
    /// In a constant.
    Constant(usize),
    /// In the memory of an output.
    Output(usize),
    /// Among the results of the preparation.
    Prepared(usize),
    /// Among the intermediate values.
    Temporary(usize),
}

/// The kernels of steps, each listed once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Kernels {
    /// What runs, in the order of the first calls.
    pub routines: Vec<Routine>,
    /// The kernel of each step.
    pub of_step: Vec<usize>,
}

impl Kernels {
    /// The kernels of these steps.
    pub fn of(steps: &[Step]) -> Kernels {
        let mut kernels = Kernels::default();
        let mut known: HashMap<&Routine, usize> = HashMap::new();
        for step in steps {
            let kernel = *known.entry(&step.routine).or_insert_with(|| {
                kernels.routines.push(step.routine.clone());
                kernels.routines.len() - 1
            });
            kernels.of_step.push(kernel);
        }
        kernels
    }

    /// The functions of shared libraries, each once.
    pub fn foreign(&self) -> Vec<Symbol> {
        let mut names: Vec<Symbol> = Vec::new();
        for routine in &self.routines {
            if routine.prim_func().is_none() && !names.contains(&routine.name()) {
                names.push(routine.name());
            }
        }
        names
    }

    /// The position of each prim_func among the functions of the module.
    ///
    /// # Errors
    /// The module lacks one.
    pub fn positions(&self, module: &Module) -> Result<Vec<usize>, Diagnostic> {
        self.routines.iter().filter_map(Routine::prim_func).map(|name| position(module, name)).collect()
    }
}

/// The position of a prim_func among the functions of the module.
///
/// # Errors
/// The module lacks it.
pub fn position(module: &Module, name: Symbol) -> Result<usize, Diagnostic> {
    let found = module.funcs.iter().position(|f| f.name == name);
    found.ok_or_else(|| Diagnostic::error("unknown-function", format!("the module has no function `{name}`")))
}

impl Program {
    /// The steps of a function whose operators are lowered and whose extents are known.
    ///
    /// # Errors
    /// An extent is a symbol, or a value is no tensor.
    pub fn of(function: &Function) -> Result<Program, Diagnostic> {
        let mut builder = Builder {
            function,
            invariant: invariant_values(function),
            joined: Joined::of(function),
            pieces: HashMap::new(),
            constants: Vec::new(),
            places: HashMap::new(),
            prepared: Vec::new(),
            sizes: Vec::new(),
            preparation: Vec::new(),
            steps: Vec::new(),
        };
        let inputs: Vec<Tensor> = (function.params.iter())
            .map(|&p| builder.tensor(function.value(p).name.as_str(), function.ty(p), Span::default()))
            .collect::<Result<_, _>>()?;
        for (i, &p) in function.params.iter().enumerate() {
            builder.places.insert(p, vec![Place::Input(i)]);
        }
        for &c in &function.order {
            builder.call(c)?;
        }
        let mut outputs = Vec::new();
        let mut found = Vec::new();
        for v in function.output.values() {
            let types: Vec<Type> = function.ty(v).tensors().into_iter().cloned().map(Type::Tensor).collect();
            for (place, ty) in builder.places_of(v)?.into_iter().zip(types) {
                let name = function.value(v).name;
                outputs.push(builder.tensor(name.as_str(), &ty, Span::default())?);
                found.push(place);
            }
        }
        builder.share_places(&mut found);
        Ok(builder.finish(inputs, outputs, found))
    }

    /// The sizes of prepared tensors, and their lifetimes in steps of the preparation.
    fn prepared_requests(&self) -> Vec<Request> {
        let mut requests: Vec<Request> =
            self.prepared.iter().map(|t| Request { bytes: t.bytes(), first: 0, last: 0, piece: None }).collect();
        for (at, step) in self.preparation.iter().enumerate() {
            for (i, &place) in step.args.iter().enumerate() {
                let Place::Prepared(tensor) = place else { continue };
                requests[tensor].last = at;
                if i >= step.n_reads {
                    requests[tensor].first = at;
                }
            }
        }
        let kept = self.read_places();
        for (i, request) in requests.iter_mut().enumerate() {
            if kept.contains(&Place::Prepared(i)) {
                request.bytes = 0;
            }
        }
        requests
    }

    /// Finds places for the prepared tensors that only the preparation reads.
    pub(super) fn plan_prepared(&mut self) {
        self.prepared_plan = memory::plan(&self.prepared_requests());
    }

    /// Whether what lies at a place is the same in every call: a weight, a constant, a prepared tensor.
    pub(super) fn is_fixed(&self, place: Place) -> bool {
        match place {
            Place::Input(i) => i >= self.n_inputs,
            Place::Constant(_) | Place::Prepared(_) => true,
            Place::Output(_) | Place::Temporary(_) => false,
        }
    }

    /// The places that calls of the function read: those of inputs and weights, constants, prepared tensors.
    pub fn read_places(&self) -> HashSet<Place> {
        let read_by =
            |s: &Step| s.args[..s.n_reads].iter().copied().chain(s.copies.iter().map(|c| c.from)).collect::<Vec<_>>();
        let read = self.steps.iter().flat_map(read_by).chain(self.copies.iter().map(|&(from, _)| from));
        let is_fixed = |p: &Place| matches!(p, Place::Input(_) | Place::Constant(_) | Place::Prepared(_));
        read.filter(is_fixed).collect()
    }
}

struct Builder<'a> {
    function: &'a Function,
    /// Whether each value is the same in every call.
    invariant: Vec<bool>,
    joined: Joined,
    /// The temporaries that lie in memory of others.
    pieces: HashMap<Place, Piece>,
    constants: Vec<Constant>,
    /// The places of the tensors of each value.
    places: HashMap<ValueId, Vec<Place>>,
    prepared: Vec<Tensor>,
    /// The size of each temporary.
    sizes: Vec<usize>,
    preparation: Vec<Step>,
    steps: Vec<Step>,
}

impl Builder<'_> {
    fn fail<T>(&self, span: Span, message: impl Into<String>) -> Result<T, Diagnostic> {
        let name = self.function.name;
        Err(match span == Span::default() {
            true => Diagnostic::error("graph", format!("`{name}`: {}", message.into())),
            false => Diagnostic::error_at("graph", span, message),
        })
    }

    fn tensor(&self, name: &str, ty: &Type, span: Span) -> Result<Tensor, Diagnostic> {
        let Type::Tensor(TensorType { dtype: Some(dtype), .. }) = ty else {
            return self.fail(span, format!("`{name}` is no tensor: {}", ty.describe(&self.function.arena)));
        };
        match ty.as_tensor().and_then(|t| t.constant_shape(&self.function.arena)) {
            Some(shape) if shape.iter().any(|&n| n < 0) => {
                let found = ty.describe(&self.function.arena);
                self.fail(span, format!("an extent of `{name}` is negative: {found}"))
            }
            Some(shape) => Ok(Tensor { name: name.to_owned(), dtype: *dtype, shape }),
            None => {
                let found = ty.describe(&self.function.arena);
                self.fail(span, format!("an extent of `{name}` has no value: {found}"))
                    .map_err(|d| d.help("give it one by `--bind`, such as `--bind n=1`"))
            }
        }
    }

    fn places_of(&mut self, v: ValueId) -> Result<Vec<Place>, Diagnostic> {
        if let Some(known) = self.places.get(&v) {
            return Ok(known.clone());
        }
        let places = match &self.function.value(v).def {
            ValueDef::Constant(constant) => {
                self.constants.push(constant.clone());
                vec![Place::Constant(self.constants.len() - 1)]
            }
            ValueDef::Param | ValueDef::Call(_) => {
                return self.fail(Span::default(), format!("`{}` is not computed", self.function.value(v).name));
            }
        };
        self.places.insert(v, places.clone());
        Ok(places)
    }

    fn call(&mut self, c: CallId) -> Result<(), Diagnostic> {
        let call = self.function.call(c);
        let mut reads = Vec::new();
        let mut first = Vec::new();
        for (i, arg) in call.args.iter().enumerate() {
            for &v in arg.values() {
                let places = self.places_of(v)?;
                if i == 0 {
                    first.push(places.clone());
                }
                reads.extend(places);
            }
        }
        let places = match call.callee {
            Callee::Tuple => reads,
            Callee::Alias => reads,
            Callee::Shape => Vec::new(),
            Callee::Item(i) => {
                // The item of a nested tuple may have several tensors.
                let Some(Arg::Value(tuple)) = call.args.first() else { return self.fail(call.span, "no tuple") };
                let Type::Tuple(items) = self.function.ty(*tuple) else { return self.fail(call.span, "no tuple") };
                let before: usize = items[..i.min(items.len())].iter().map(|t| t.tensors().len()).sum();
                let n = items.get(i).map_or(0, |t| t.tensors().len());
                reads[before..before + n].to_vec()
            }
            Callee::Op(op) if matches!(op.lower, Lowering::Reshape) => first.concat(),
            Callee::Op(_) if self.joined.contains(c) => {
                let name = self.function.value(call.result).name;
                let tensor = self.tensor(name.as_str(), self.function.ty(call.result), call.span)?;
                vec![self.temporary(tensor.bytes())]
            }
            Callee::CallTir(_) | Callee::CallTirInplace(_) | Callee::CallDpsPacked(_) | Callee::CallPurePacked(_) => {
                let routine = self.routine(c)?;
                let is_invariant = self.invariant[call.result.index()];
                let mut written = Vec::new();
                let mut bytes = 0;
                for ty in self.function.ty(call.result).tensors() {
                    let name = self.function.value(call.result).name;
                    let tensor = self.tensor(name.as_str(), &Type::Tensor(ty.clone()), call.span)?;
                    bytes += tensor.bytes();
                    if is_invariant {
                        self.prepared.push(tensor);
                        written.push(Place::Prepared(self.prepared.len() - 1));
                    } else {
                        written.push(self.temporary(tensor.bytes()));
                    }
                }
                let indices = self.inplace_indices(c, written.len())?;
                // Nothing is computed where there are no elements.
                if bytes > 0 {
                    let n_reads = reads.len();
                    let mut args = reads.clone();
                    let mut copies = Vec::new();
                    for (&to, index) in written.iter().zip(indices) {
                        match (index, to) {
                            (Some(i), Place::Temporary(t)) => {
                                copies.push(Copy { from: reads[i], to, bytes: self.sizes[t] });
                                args[i] = to;
                            }
                            _ => args.push(to),
                        }
                    }
                    let steps = if is_invariant { &mut self.preparation } else { &mut self.steps };
                    steps.push(Step { routine, args, n_reads, call: c, copies, overwrites: false });
                }
                written
            }
            Callee::Op(op) => return self.fail(call.span, format!("`R.{}` is not lowered", op.name)),
            Callee::CallGraph(func) => {
                return self.fail(call.span, format!("the call of `{func}` is not lowered"));
            }
        };
        if let (Some(piece), &[place]) = (self.joined.piece(call.result), &places[..]) {
            self.pieces.insert(place, piece);
        }
        self.places.insert(call.result, places);
        Ok(())
    }

    fn temporary(&mut self, bytes: usize) -> Place {
        self.sizes.push(bytes);
        Place::Temporary(self.sizes.len() - 1)
    }

    /// What a call runs.
    fn routine(&self, c: CallId) -> Result<Routine, Diagnostic> {
        let call = self.function.call(c);
        let (name, returns) = match call.callee {
            Callee::CallTir(name) | Callee::CallTirInplace(name) => return Ok(Routine::PrimFunc(name)),
            Callee::CallDpsPacked(name) => (name, false),
            Callee::CallPurePacked(name) => (name, true),
            Callee::Op(_) | Callee::CallGraph(_) | Callee::Tuple | Callee::Item(_) | Callee::Alias | Callee::Shape => {
                return self.fail(call.span, "this calls no function");
            }
        };
        match passed(self.function, c) {
            Some(tensors) => Ok(Routine::Foreign(Foreign { name, tensors, returns })),
            None => self
                .fail(call.span, format!("an extent that `{name}` is given has no value"))
                .map_err(|d| d.help("give it one by `--bind`, such as `--bind n=1`")),
        }
    }

    /// For each of `n` results of a call, the argument whose memory it takes.
    fn inplace_indices(&self, c: CallId, n: usize) -> Result<Vec<Option<usize>>, Diagnostic> {
        let (function, call) = (self.function, self.function.call(c));
        if !matches!(call.callee, Callee::CallTirInplace(_)) {
            return Ok(vec![None; n]);
        }
        let indices = call.inplace_indices();
        if indices.len() != n {
            let found = indices.len();
            let message = format!("`inplace_indices` needs an index for each result: expected {n}, found {found}");
            return self.fail(call.span, message).map_err(|d| d.help("-1 stands for a result with memory of its own"));
        }
        let args: Vec<&TensorType> = call.inputs().flat_map(|v| function.ty(v).tensors()).collect();
        let results = function.ty(call.result).tensors();
        for (i, (index, result)) in indices.iter().zip(results).enumerate() {
            let Some(index) = *index else { continue };
            let Some(arg) = args.get(index) else {
                let message = format!("`inplace_indices` names argument {index} of a call with {}", args.len());
                return self.fail(call.span, message);
            };
            if indices[..i].contains(&Some(index)) {
                return self.fail(call.span, format!("`inplace_indices` names argument {index} twice"));
            }
            let same = |t: &TensorType| (t.dtype, t.constant_shape(&function.arena));
            if same(arg) != same(result) {
                let describe = |t: &TensorType| Type::Tensor(t.clone()).describe(&function.arena);
                let (result, arg) = (describe(result), describe(arg));
                let message = format!("result {i} is {result}, and argument {index}, whose memory it takes, is {arg}");
                return self.fail(call.span, message);
            }
        }
        Ok(indices)
    }

    /// Lets results take the places of arguments that nothing reads later. Inputs, constants, prepared tensors and parts of
    /// concatenations are never overwritten.
    fn share_places(&mut self, outputs: &mut [Place]) {
        let steps = &mut self.steps;
        for at in 0..steps.len() {
            for copy in std::mem::take(&mut steps[at].copies) {
                let Copy { from, to, .. } = copy;
                let reads = |step: &Step| step.args.contains(&from) || step.copies.iter().any(|c| c.from == from);
                let is_free = matches!(from, Place::Temporary(_)) && !self.pieces.contains_key(&from);
                let is_free = is_free && !self.pieces.contains_key(&to);
                if !is_free || outputs.contains(&from) || steps[at..].iter().any(reads) {
                    steps[at].copies.push(copy);
                    continue;
                }
                steps[at].overwrites = true;
                let rename = |place: &mut Place| {
                    if *place == to {
                        *place = from;
                    }
                };
                for step in &mut steps[at..] {
                    step.args.iter_mut().for_each(rename);
                    step.copies.iter_mut().for_each(|c| rename(&mut c.from));
                }
                outputs.iter_mut().for_each(rename);
            }
        }
    }

    /// Outputs that a step writes lie in the caller's memory; the other temporaries are placed.
    fn finish(mut self, inputs: Vec<Tensor>, outputs: Vec<Tensor>, found: Vec<Place>) -> Program {
        let mut copies = Vec::new();
        let mut outside: HashMap<Place, Place> = HashMap::new();
        for (i, &place) in found.iter().enumerate() {
            match place {
                Place::Temporary(_) if !outside.contains_key(&place) => {
                    outside.insert(place, Place::Output(i));
                }
                _ => copies.push((outside.get(&place).copied().unwrap_or(place), i)),
            }
        }
        // The temporaries that are left get new numbers, in the order in which they are written.
        let mut temporaries: Vec<Request> = Vec::new();
        let mut settle = |place: &mut Place, at: usize, is_read: bool| {
            let Place::Temporary(old) = *place else { return };
            let new = *outside.entry(*place).or_insert_with(|| {
                let piece = self.pieces.get(place).copied();
                temporaries.push(Request { bytes: self.sizes[old], first: at, last: at, piece });
                Place::Temporary(temporaries.len() - 1)
            });
            if let (Place::Temporary(t), true) = (new, is_read) {
                temporaries[t].last = at;
            }
            *place = new;
        };
        for (at, step) in self.steps.iter_mut().enumerate() {
            for copy in &mut step.copies {
                settle(&mut copy.from, at, true);
                settle(&mut copy.to, at, false);
            }
            for (i, place) in step.args.iter_mut().enumerate() {
                settle(place, at, i < step.n_reads);
            }
        }
        let mut program = Program {
            inputs,
            n_inputs: self.function.n_inputs(),
            outputs,
            constants: self.constants,
            preparation: self.preparation,
            prepared: self.prepared,
            prepared_plan: memory::plan(&[]),
            steps: self.steps,
            copies,
            plan: memory::plan(&temporaries),
            temporaries,
        };
        program.plan_prepared();
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::libraries::{Libraries, SharedLibrary};
    use crate::graph::pass::{self, Context, GraphModule};
    use crate::script::{ParseOptions, parse};

    #[test]
    fn functions_of_shared_libraries_are_steps() {
        let text = r#"
@R.function
def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        p = R.call_dps_packed("prepare", (w,), out_ty=R.Tensor((4,), "float16"))
        a = R.call_dps_packed("add", (x, p), out_ty=[R.Tensor((4,), "float32"), R.Tensor((), "bool")])
        b = R.call_dps_packed("add", (x, p), out_ty=[R.Tensor((4,), "float32"), R.Tensor((), "bool")])
        y = R.add(R.nn.relu(a[0]), b[0])
        R.output(y)
    return y
"#;
        let functions = ["add", "prepare"].map(str::to_owned).to_vec();
        let shared = vec![SharedLibrary { path: "l.so".into(), functions }];
        let (module, program) = program_with(
            text,
            &Context { libraries: Libraries { shared, ..Libraries::default() }, ..Context::default() },
        );
        let types = |step: &Step| match &step.routine {
            Routine::Foreign(f) => f.tensors.iter().map(|t| t.dtype.name().to_owned()).collect(),
            Routine::PrimFunc(_) => Vec::new(),
        };
        // What follows from weights alone is computed once, and equal calls too; operators do not join calls of libraries.
        let preparation: Vec<Vec<String>> = program.preparation.iter().map(types).collect();
        assert_eq!(preparation, [["float32", "float16"]]);
        let steps: Vec<Vec<String>> = program.steps.iter().map(types).collect();
        assert_eq!(steps, [vec!["float32", "float16", "float32", "bool"], vec![]]);
        let kernels = Kernels::of(&program.steps);
        assert_eq!(kernels.foreign(), ["add"]);
        assert_eq!(kernels.positions(&module.module).map(|p| p.len()).map_err(|d| d.message), Ok(1));
    }

    fn program(text: &str) -> (GraphModule, Program) {
        program_with(text, &Context::default())
    }

    fn program_with(text: &str, cx: &Context) -> (GraphModule, Program) {
        let parsed = parse(text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
        pass::run_all(&mut module, cx).unwrap_or_else(|e| panic!("{e:?}"));
        let program = Program::of(&module.functions[0]).unwrap_or_else(|e| panic!("{e:?}"));
        (module, program)
    }

    const CHAINS: &str = r#"
@R.function
def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        a = R.matmul(w, w)
        b = R.matmul(a, w)
        c = R.matmul(b, w)
        y = R.matmul(x, c)
        z = R.matmul(y, c)
        R.output(z)
    return z
"#;

    #[test]
    fn invariant_steps_are_the_preparation() {
        let (module, program) = program(CHAINS);
        let results = |steps: &[Step]| -> Vec<Place> { steps.iter().map(|s| s.args[s.n_reads]).collect() };
        assert_eq!(results(&program.preparation), [Place::Prepared(0), Place::Prepared(1), Place::Prepared(2)]);
        assert_eq!(results(&program.steps), [Place::Temporary(0), Place::Output(0)]);
        // The calls read neither the weight nor `a` and `b`, whose memory is used again.
        assert_eq!(program.read_places(), [Place::Input(0), Place::Prepared(2)].into());
        assert_eq!(program.prepared_plan.bytes, 2 * 64);
        assert_eq!(program.plan.bytes, 64);
        let kernels = Kernels::of(&program.steps);
        assert_eq!((kernels.routines.len(), &kernels.of_step[..]), (1, &[0, 0][..]));
        assert_eq!(kernels.positions(&module.module).map_err(|d| d.message), Ok(vec![1]));
        let missing = kernels.positions(&Module::default()).map_err(|d| d.message);
        assert_eq!(missing, Err(format!("the module has no function `{}`", kernels.routines[0].name())));
    }
}
