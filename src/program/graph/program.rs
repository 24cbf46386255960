//! A function as steps: calls of kernels on places in memory.
//!
//! Tuples, their items, other names and other shapes of values cost nothing: they are resolved here. What is left are the tensors
//! that kernels write, each with the place where it lies.

use super::constant::Constant;
use super::function::{Arg, CallId, Callee, Function, ValueDef, ValueId};
use super::memory::{self, Plan, Request};
use super::operator::Lowering;
use super::ty::{TensorType, Type};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{DType, Symbol};
use std::collections::HashMap;

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
    /// The calls of kernels, in order.
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
    /// The prim_func.
    pub func: Symbol,
    /// The arguments: what it reads, then what it writes.
    pub args: Vec<Place>,
    /// How many of the arguments it reads.
    pub n_reads: usize,
    /// The call of the graph.
    pub call: CallId,
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
    /// Among the intermediate values.
    Temporary(usize),
}

impl Program {
    /// The steps of a function whose operators are lowered and whose extents are known.
    ///
    /// # Errors
    /// An extent is a symbol, or a value is no tensor.
    pub fn of(function: &Function) -> Result<Program, Diagnostic> {
        let mut builder = Builder { function, constants: Vec::new(), places: HashMap::new(), sizes: Vec::new() };
        let inputs: Vec<Tensor> = (function.params.iter())
            .map(|&p| builder.tensor(function.value(p).name.as_str(), function.ty(p), Span::default()))
            .collect::<Result<_, _>>()?;
        for (i, &p) in function.params.iter().enumerate() {
            builder.places.insert(p, vec![Place::Input(i)]);
        }
        let mut steps = Vec::new();
        for &c in &function.order {
            builder.call(c, &mut steps)?;
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
        Ok(builder.finish(inputs, outputs, found, steps))
    }
}

struct Builder<'a> {
    function: &'a Function,
    constants: Vec<Constant>,
    /// The places of the tensors of each value.
    places: HashMap<ValueId, Vec<Place>>,
    /// The size of each temporary.
    sizes: Vec<usize>,
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

    fn call(&mut self, c: CallId, steps: &mut Vec<Step>) -> Result<(), Diagnostic> {
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
            Callee::CallTir(func) => {
                let mut written = Vec::new();
                for ty in self.function.ty(call.result).tensors() {
                    let name = self.function.value(call.result).name;
                    let tensor = self.tensor(name.as_str(), &Type::Tensor(ty.clone()), call.span)?;
                    let n: i64 = tensor.shape.iter().product();
                    self.sizes.push(usize::try_from(n).unwrap_or(0) * tensor.dtype.bytes());
                    written.push(Place::Temporary(self.sizes.len() - 1));
                }
                let is_empty = |p: &Place| matches!(p, Place::Temporary(t) if self.sizes[*t] == 0);
                // Nothing is computed where there are no elements.
                if !written.iter().all(is_empty) {
                    let n_reads = reads.len();
                    let args = reads.into_iter().chain(written.iter().copied()).collect();
                    steps.push(Step { func, args, n_reads, call: c });
                }
                written
            }
            Callee::Op(op) => return self.fail(call.span, format!("`R.{}` is not lowered", op.name)),
            Callee::CallTirInplace(func) | Callee::CallDpsPacked(func) | Callee::CallGraph(func) => {
                return self.fail(call.span, format!("the call of `{func}` is not lowered"));
            }
        };
        self.places.insert(call.result, places);
        Ok(())
    }

    /// Outputs that a step writes lie in the caller's memory; the other temporaries are placed.
    fn finish(self, inputs: Vec<Tensor>, outputs: Vec<Tensor>, found: Vec<Place>, mut steps: Vec<Step>) -> Program {
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
        for (at, step) in steps.iter_mut().enumerate() {
            for (i, place) in step.args.iter_mut().enumerate() {
                let Place::Temporary(old) = *place else { continue };
                let new = *outside.entry(*place).or_insert_with(|| {
                    temporaries.push(Request { bytes: self.sizes[old], first: at, last: at });
                    Place::Temporary(temporaries.len() - 1)
                });
                if let Place::Temporary(t) = new
                    && i < step.n_reads
                {
                    temporaries[t].last = at;
                }
                *place = new;
            }
        }
        let plan = memory::plan(&temporaries);
        let n_inputs = self.function.n_inputs();
        Program { inputs, n_inputs, outputs, constants: self.constants, steps, copies, temporaries, plan }
    }
}
