//! From operators to prim_funcs.
//!
//! ```text
//! lv = R.nn.relu(x)    →    lv = R.call_tir(cls.relu, (x,), out_ty=R.Tensor(…))
//! ```
//!
//! Each call of an operator becomes a call of a prim_func, which its lowering builds from tensor expressions. Equal prim_funcs
//! are one. Operators that cost nothing stay: those that only give memory another shape, and concatenations whose parts are written
//! where they belong ([`joined`](super::joined)).

use super::function::{Arg, Call, CallId, Callee, Function, ValueId};
use super::infer::Args;
use super::joined::Joined;
use super::operator::{Lowering, OpError};
use super::ty::Type;
use crate::diagnostic::Span;
use crate::ir::equal::Equality;
use crate::ir::hash::workload_hash;
use crate::ir::{Arena, DType, Expr, ExprId, Func, Module, Symbol, VarId};
use crate::te::{INDEX, Te, Tensor};
use std::collections::HashMap;
use std::ops::Deref;

/// The prim_func of one call.
pub struct Lowered {
    /// The function: its parameters are the inputs, then the results.
    pub func: Func,
    /// The values that it reads.
    pub inputs: Vec<ValueId>,
}

/// Replaces calls of operators by calls of prim_funcs, which join those of the module.
///
/// # Errors
/// Operators that have no computation for these arguments, with the places of their calls.
pub fn to_prim_funcs(function: &mut Function, module: &mut Module) -> Result<(), Vec<(Span, OpError)>> {
    let mut errors = Vec::new();
    let mut library = Library::of(module);
    let joined = Joined::of(function);
    for c in function.order.clone() {
        let Callee::Op(op) = function.call(c).callee else { continue };
        if matches!(op.lower, Lowering::Reshape) || joined.contains(c) {
            continue;
        }
        match lower_call(function, c) {
            Ok(Lowered { func, inputs }) => {
                let name = library.add(module, func);
                let call = &mut function.calls[c.index()];
                call.callee = Callee::CallTir(name);
                call.args = vec![Arg::Values(inputs)];
            }
            Err(error) => errors.push((function.call(c).span, error)),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The prim_func of a call of an operator.
///
/// # Errors
/// The operator has no computation for these arguments.
///
/// # Panics
/// If the call calls something else.
pub fn lower_call(function: &Function, c: CallId) -> Result<Lowered, OpError> {
    let call = function.call(c);
    let Callee::Op(op) = call.callee else { unreachable!("only operators are lowered") };
    let args = Args { op, args: &call.args, function };
    let mut lower = Lower::new(args, function.ty(call.result), Te::new());
    let outputs = lower.stages()?;
    let name = op.name.rsplit('.').next().unwrap_or(op.name);
    Ok(lower.finish(name, call, &outputs))
}

/// What a lowering is given.
pub struct Lower<'a> {
    args: Args<'a>,
    /// The stages.
    pub te: Te,
    result: &'a Type,
    /// The symbols of the function's extents in the stages.
    symbols: HashMap<VarId, ExprId>,
    placeholders: Vec<(ValueId, Tensor)>,
}

impl<'a> Deref for Lower<'a> {
    type Target = Args<'a>;

    fn deref(&self) -> &Args<'a> {
        &self.args
    }
}

/// An operand of a computation.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// A constant.
    Scalar(ExprId),
}

impl<'a> Lower<'a> {
    /// The lowering of a call, whose stages join others.
    pub(super) fn new(args: Args<'a>, result: &'a Type, te: Te) -> Lower<'a> {
        Lower { args, te, result, symbols: HashMap::new(), placeholders: Vec::new() }
    }

    /// Makes a value a tensor that exists, and the symbols of extents those of its shape.
    pub(super) fn provide(&mut self, v: ValueId, tensor: Tensor) {
        self.placeholders.push((v, tensor));
    }

    /// Makes a symbol of the function an expression of the stages.
    pub(super) fn provide_symbol(&mut self, symbol: VarId, e: ExprId) {
        self.symbols.insert(symbol, e);
    }

    /// The stages of the operator: one tensor for each tensor of the result.
    pub(super) fn stages(&mut self) -> Result<Vec<Tensor>, OpError> {
        Ok(match self.args.op.lower {
            Lowering::Elementwise(stage, element) => vec![self.elementwise(stage, element)?],
            Lowering::Stages(stages) => stages(self)?,
            Lowering::Reshape => vec![self.reshape()?],
            // The pass `known_results` replaces it in graphs.
            Lowering::Known(_) => {
                return Err(OpError {
                    help: Some("its result must follow from shapes and constants alone".into()),
                    ..self.args.error("cannot be computed here: it depends on data")
                });
            }
        })
    }
}

impl Lower<'_> {
    /// The tensor of a parameter.
    ///
    /// # Errors
    /// There is none.
    pub fn input(&mut self, name: &str) -> Result<Tensor, OpError> {
        match self.value(name) {
            Some(v) => self.placeholder(v),
            None => self.fail(format!("`{name}` is missing")),
        }
    }

    /// The tensor of a parameter that may be absent.
    ///
    /// # Errors
    /// Its type is not known.
    pub fn opt_input(&mut self, name: &str) -> Result<Option<Tensor>, OpError> {
        self.value(name).map(|v| self.placeholder(v)).transpose()
    }

    /// The tensors of a parameter.
    ///
    /// # Errors
    /// The type of one is not known.
    pub fn inputs(&mut self, name: &str) -> Result<Vec<Tensor>, OpError> {
        self.get(name).values().to_vec().into_iter().map(|v| self.placeholder(v)).collect()
    }

    /// The operand of a parameter: constants without dimensions are part of the computation.
    ///
    /// # Errors
    /// There is none.
    pub fn operand(&mut self, name: &str) -> Result<Operand, OpError> {
        match self.value(name) {
            Some(v) => self.operand_of(v),
            None => self.fail(format!("`{name}` is missing")),
        }
    }

    fn operand_of(&mut self, v: ValueId) -> Result<Operand, OpError> {
        let v = self.function.resolved(v);
        if let Some(constant) = self.function.constant(v).filter(|c| c.shape().is_empty())
            && let Some(e) = scalar(&mut self.te, constant)
        {
            return Ok(Operand::Scalar(e));
        }
        self.placeholder(v).map(Operand::Tensor)
    }

    fn placeholder(&mut self, v: ValueId) -> Result<Tensor, OpError> {
        if let Some(&(_, tensor)) = self.placeholders.iter().find(|(known, _)| *known == v) {
            return Ok(tensor);
        }
        let value = self.function.value(v);
        let Some((dtype, shape)) = value.ty.as_tensor().and_then(|t| Some((t.dtype?, t.shape.clone()?))) else {
            return self.fail(format!("the shape of `{}` is not known", value.name));
        };
        let shape: Vec<ExprId> = shape.iter().map(|&e| self.number(e)).collect();
        let tensor = self.te.placeholder(value.name.as_str(), dtype, &shape);
        self.placeholders.push((v, tensor));
        Ok(tensor)
    }

    /// A number of the function, such as an extent, in the stages.
    pub fn number(&mut self, e: ExprId) -> ExprId {
        let index = self.te.index_type();
        copy_between(&mut self.te, index, &self.args.function.arena, INDEX, &mut self.symbols, e)
    }

    /// A number of a copy of the function's arena.
    pub fn number_of(&mut self, arena: &Arena, e: ExprId) -> ExprId {
        copy(&mut self.te, arena, &mut self.symbols, e)
    }

    /// The last extent of a tensor, which must be constant.
    ///
    /// # Errors
    /// It is a symbol, or the tensor has no dimensions.
    pub fn constant_last(&self, tensor: Tensor) -> Result<i64, OpError> {
        match self.te.shape(tensor).last().and_then(|&e| self.te.as_int(e)) {
            Some(n) => Ok(n),
            None => self.fail("needs a constant last extent here"),
        }
    }

    /// The number of a parameter.
    pub fn prim(&mut self, name: &str) -> Option<ExprId> {
        match self.get(name) {
            Arg::Prim(e) => Some(self.number(*e)),
            _ => None,
        }
    }

    /// The numbers of a parameter.
    pub fn prims(&mut self, name: &str) -> Vec<ExprId> {
        match self.get(name) {
            Arg::Prims(all) | Arg::Shape(all) => all.iter().map(|&e| self.number(e)).collect(),
            _ => Vec::new(),
        }
    }

    /// The type of the elements of the result, or of one of several results.
    ///
    /// # Errors
    /// It is not known.
    pub fn out_dtype(&self, i: usize) -> Result<DType, OpError> {
        match self.result.tensors().get(i).and_then(|t| t.dtype) {
            Some(dtype) => Ok(dtype),
            None => self.fail("the type of its result is not known"),
        }
    }

    /// The extents of the result, or of one of several results.
    ///
    /// # Errors
    /// They are not known.
    pub fn out_shape(&mut self, i: usize) -> Result<Vec<ExprId>, OpError> {
        match self.result.tensors().get(i).and_then(|t| t.shape.clone()) {
            Some(shape) => Ok(shape.iter().map(|&e| self.number(e)).collect()),
            None => self.fail("the shape of its result is not known"),
        }
    }

    /// The number of tensors of the result.
    pub fn n_results(&self) -> usize {
        self.result.tensors().len()
    }

    /// The extents of a tensor.
    pub fn shape_of(&self, tensor: Tensor) -> Vec<ExprId> {
        self.te.shape(tensor).to_vec()
    }

    /// The constant extents of a tensor.
    ///
    /// # Errors
    /// One is a symbol.
    pub fn constant_shape(&self, tensor: Tensor) -> Result<Vec<i64>, OpError> {
        let extents: Option<Vec<i64>> = self.te.shape(tensor).iter().map(|&e| self.te.as_int(e)).collect();
        match extents {
            Some(extents) => Ok(extents),
            None => Err(OpError {
                help: Some("give the symbol a value by `--bind`".into()),
                ..self.error("needs constant extents here")
            }),
        }
    }

    fn elementwise(&mut self, stage: &str, element: fn(&mut Te, &[ExprId]) -> ExprId) -> Result<Tensor, OpError> {
        let operands: Vec<ValueId> = self.args.args.iter().flat_map(|a| a.values().iter().copied()).collect();
        let operands: Vec<Operand> = operands.into_iter().map(|v| self.operand_of(v)).collect::<Result<_, _>>()?;
        let shape = self.out_shape(0)?;
        Ok(self.te.compute(stage, &shape, |te, i| {
            let elements: Vec<ExprId> = operands.iter().map(|&o| te.element_in(o, i, &shape)).collect();
            element(te, &elements)
        }))
    }

    /// The result of an operator that only changes the shape.
    fn reshape(&mut self) -> Result<Tensor, OpError> {
        let Some(v) = self.args.args.iter().find_map(|a| a.values().first().copied()) else {
            return self.fail("has no operand");
        };
        let input = self.placeholder(v)?;
        let shape = self.out_shape(0)?;
        Ok(self.te.reshaped("T_reshape", input, &shape))
    }

    /// The function of the stages.
    fn finish(self, name: &str, call: &Call, outputs: &[Tensor]) -> Lowered {
        let mut inputs: Vec<ValueId> = Vec::new();
        let order = call.inputs().map(|v| self.args.function.resolved(v));
        for v in call.inputs().chain(order) {
            if self.placeholders.iter().any(|(known, _)| *known == v) && !inputs.contains(&v) {
                inputs.push(v);
            }
        }
        let tensor = |v: &ValueId| self.placeholders.iter().find(|(known, _)| known == v).map(|&(_, t)| t);
        let tensors: Vec<Tensor> = inputs.iter().filter_map(tensor).collect();
        Lowered { func: self.te.prim_func(name, &tensors, outputs), inputs }
    }
}

impl Te {
    /// The element of an operand at the indices of a result, to whose shape it is broadcast.
    pub fn element(&mut self, operand: Operand, i: &[ExprId]) -> ExprId {
        match operand {
            Operand::Scalar(e) => e,
            Operand::Tensor(t) => self.broadcast_at(t, i),
        }
    }

    /// [`Te::element`], where the shape of the result is known: dimensions of equal extents have equal indices, also if that is 1.
    fn element_in(&mut self, operand: Operand, i: &[ExprId], shape: &[ExprId]) -> ExprId {
        match operand {
            Operand::Tensor(t) if self.shape(t) == shape => self.at(t, i),
            other => self.element(other, i),
        }
    }

    /// The element of a tensor at the indices of a shape to which it is broadcast: missing dimensions come first, those of
    /// extent 1 are repeated.
    pub fn broadcast_at(&mut self, tensor: Tensor, i: &[ExprId]) -> ExprId {
        let shape = self.shape(tensor).to_vec();
        let first = i.len() - shape.len();
        let indices: Vec<ExprId> = (shape.iter().zip(&i[first..]))
            .map(|(&extent, &index)| if self.is_int(extent, 1) { self.extent(0) } else { index })
            .collect();
        self.at(tensor, &indices)
    }

    /// A tensor by another shape of as many elements, in the same order.
    pub fn reshaped(&mut self, name: &str, tensor: Tensor, shape: &[ExprId]) -> Tensor {
        let from = self.shape(tensor).to_vec();
        self.compute(name, shape, |te, i| {
            let indices = te.reshaped_indices(shape, i, &from);
            te.at(tensor, &indices)
        })
    }

    /// The indices by the shape `to` of the element that has indices by the shape `from`.
    pub fn reshaped_indices(&mut self, from: &[ExprId], i: &[ExprId], to: &[ExprId]) -> Vec<ExprId> {
        if from == to {
            return i.to_vec();
        }
        let mut flat = self.extent(0);
        for (&index, &extent) in i.iter().zip(from) {
            flat = self.mul(flat, extent);
            flat = self.add(flat, index);
        }
        let mut indices = Vec::with_capacity(to.len());
        for (d, &extent) in to.iter().enumerate().rev() {
            // The outermost index needs no remainder, and an extent of 1 has one index.
            indices.push(match self.as_int(extent) {
                Some(1) => self.extent(0),
                _ if d == 0 => flat,
                _ => self.floor_mod(flat, extent),
            });
            flat = self.floor_div(flat, extent);
        }
        indices.reverse();
        indices
    }
}

/// A constant without dimensions as an expression; `None` if there are no expressions of its type.
pub fn scalar(arena: &mut Arena, constant: &super::Constant) -> Option<ExprId> {
    let dtype = constant.dtype();
    match dtype.is_float() {
        true => Some(arena.float(constant.float(0)?, dtype)),
        false => Some(arena.int(constant.int(0)?, dtype)),
    }
}

/// A number of another arena. Symbols become those of `symbols`, or new ones of the same name.
pub fn copy(to: &mut Arena, from: &Arena, symbols: &mut HashMap<VarId, ExprId>, e: ExprId) -> ExprId {
    copy_between(to, INDEX, from, INDEX, symbols, e)
}

/// [`copy`] where indices have other types: those of `from_index` become those of `to_index`.
pub fn copy_between(
    to: &mut Arena,
    to_index: DType,
    from: &Arena,
    from_index: DType,
    symbols: &mut HashMap<VarId, ExprId>,
    e: ExprId,
) -> ExprId {
    let mut copy = |to: &mut Arena, e| copy_between(to, to_index, from, from_index, symbols, e);
    let dtype = if from.dtype(e) == from_index { to_index } else { from.dtype(e) };
    match from.expr(e) {
        Expr::Int(v) => to.int(v, dtype),
        Expr::Float(bits) => to.float(f64::from_bits(bits), dtype),
        Expr::Var(v) => match symbols.get(&v) {
            Some(&known) => known,
            None => {
                let symbol = to.new_var_expr(from.var(v).name, dtype).1;
                symbols.insert(v, symbol);
                symbol
            }
        },
        Expr::Binary(op, a, b) => {
            let (a, b) = (copy(to, a), copy(to, b));
            to.binary(op, a, b)
        }
        Expr::Compare(op, a, b) => {
            let (a, b) = (copy(to, a), copy(to, b));
            to.compare(op, a, b)
        }
        Expr::Not(a) => {
            let a = copy(to, a);
            to.not(a)
        }
        Expr::Cast(a) => {
            let a = copy(to, a);
            to.cast(dtype, a)
        }
        Expr::Select(c, a, b) | Expr::IfThenElse(c, a, b) => {
            let (c, a, b) = (copy(to, c), copy(to, a), copy(to, b));
            to.select(c, a, b)
        }
        Expr::Call(function, args) => {
            let args: Vec<ExprId> = from.list(args).to_vec().iter().map(|&a| copy(to, a)).collect();
            to.call(function, &args)
        }
        other @ (Expr::Str(_)
        | Expr::Load(..)
        | Expr::BufferData(_)
        | Expr::Let(..)
        | Expr::Ramp(..)
        | Expr::Broadcast(_)
        | Expr::Shuffle(..)
        | Expr::Builtin(..)) => unreachable!("no number of a graph is {other:?}"),
    }
}

/// The prim_funcs of a module by their structure.
pub struct Library {
    known: HashMap<u64, Vec<Symbol>>,
}

impl Library {
    /// Those of a module.
    pub fn of(module: &Module) -> Library {
        let mut library = Library { known: HashMap::new() };
        for func in &module.funcs {
            library.known.entry(workload_hash(func).0).or_default().push(func.name);
        }
        library
    }

    /// Adds a function to the module unless it has an equal one; gives the name by which to call it.
    pub fn add(&mut self, module: &mut Module, mut func: Func) -> Symbol {
        let same = self.known.entry(workload_hash(&func).0).or_default();
        for name in same.iter() {
            if let Some(known) = module.func(name.as_str())
                && Equality::default().funcs(known, &func).is_ok()
            {
                return *name;
            }
        }
        let base = func.name;
        let separator = if base.as_str().ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
        let numbered = (1..).map(|i| base.with_suffix(&format!("{separator}{i}")));
        let mut names = std::iter::once(base).chain(numbered);
        let name = names.find(|n| module.func(n.as_str()).is_none()).unwrap_or(base);
        func.name = name;
        same.push(name);
        module.funcs.push(func);
        name
    }
}
