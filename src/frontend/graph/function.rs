//! Functions, values and calls.

use super::constant::Constant;
use super::operator::Operator;
use super::ty::Type;
use crate::diagnostic::Span;
use crate::ir::{Annotations, Arena, AttrValue, DType, ExprId, Symbol};
use std::collections::BTreeMap;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The position in the function's table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A value of a function.
    ValueId
}
id! {
    /// A call of a function.
    CallId
}

/// A value: a tensor, a tuple, a shape.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name under which it prints.
    pub name: Symbol,
    /// The type.
    pub ty: Type,
    /// Where it comes from.
    pub def: ValueDef,
}

/// The definition of a value.
#[derive(Clone, Debug)]
pub enum ValueDef {
    /// A parameter of the function.
    Param,
    /// The result of a call.
    Call(CallId),
    /// Known elements.
    Constant(Constant),
}

/// What a call computes.
#[derive(Clone, Copy, Debug)]
pub enum Callee {
    /// An operator.
    Op(&'static Operator),
    /// `R.call_tir(cls.func, args, out_ty=…)`: a prim_func of the module.
    CallTir(Symbol),
    /// `R.call_dps_packed("func", args, out_ty=…)`: a library function, which writes its results to its last arguments.
    CallDpsPacked(Symbol),
    /// `R.call_pure_packed("func", a, b, ty_args=(…,))`: a library function, which returns its result.
    CallPurePacked(Symbol),
    /// `R.call_tir_inplace(cls.func, args, inplace_indices=[…], out_ty=…)`: the results take the memory of arguments. The
    /// indices are the last argument of the call.
    CallTirInplace(Symbol),
    /// `cls.func(a, b)`: another graph of the module.
    CallGraph(Symbol),
    /// `(a, b)`
    Tuple,
    /// `a[0]`
    Item(usize),
    /// `a` by another name, perhaps with a more precise type (`R.match_cast`).
    Alias,
    /// `R.shape([…])` as a value.
    Shape,
}

/// An argument of a call. An operator has one argument for each of its parameters.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// A value.
    Value(ValueId),
    /// Several values: `(a, b)`.
    Values(Vec<ValueId>),
    /// Extents: `R.shape([1, n])`.
    Shape(Vec<ExprId>),
    /// A number: `T.float64(0.5)`, `n`.
    Prim(ExprId),
    /// Several numbers: `(0, n)`.
    Prims(Vec<ExprId>),
    /// An attribute.
    Attr(AttrValue),
    /// Not given, and without a default.
    Missing,
}

impl Arg {
    /// The values that are read.
    pub fn values(&self) -> &[ValueId] {
        match self {
            Arg::Value(v) => std::slice::from_ref(v),
            Arg::Values(all) => all,
            Arg::Shape(_) | Arg::Prim(_) | Arg::Prims(_) | Arg::Attr(_) | Arg::Missing => &[],
        }
    }

    /// The values that are read, for replacing them.
    pub fn values_mut(&mut self) -> &mut [ValueId] {
        match self {
            Arg::Value(v) => std::slice::from_mut(v),
            Arg::Values(all) => all,
            Arg::Shape(_) | Arg::Prim(_) | Arg::Prims(_) | Arg::Attr(_) | Arg::Missing => &mut [],
        }
    }
}

/// A call and its result.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub callee: Callee,
    /// The arguments.
    pub args: Vec<Arg>,
    /// The value that it defines.
    pub result: ValueId,
    /// The place in the text; empty if the call was made by a pass.
    pub span: Span,
}

impl Call {
    /// The values that the call reads.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.args.iter().flat_map(|a| a.values().iter().copied())
    }

    /// For each result of a call of `R.call_tir_inplace`, the argument whose memory it takes; `None` for a result with memory of
    /// its own. Empty for other calls.
    pub fn inplace_indices(&self) -> Vec<Option<usize>> {
        let index = |v: &AttrValue| v.as_int().and_then(|i| usize::try_from(i).ok());
        match (self.callee, self.args.last()) {
            (Callee::CallTirInplace(_), Some(Arg::Attr(AttrValue::List(all)))) => all.iter().map(index).collect(),
            (Callee::CallTirInplace(_), Some(Arg::Attr(one))) => vec![index(one)],
            _ => Vec::new(),
        }
    }
}

/// What a function returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// A value.
    Value(ValueId),
    /// Several values.
    Tuple(Vec<Output>),
}

impl Output {
    /// The values, in order.
    pub fn values(&self) -> Vec<ValueId> {
        match self {
            Output::Value(v) => vec![*v],
            Output::Tuple(items) => items.iter().flat_map(Output::values).collect(),
        }
    }

    /// Replaces each value.
    pub fn map(&mut self, f: &mut impl FnMut(ValueId) -> ValueId) {
        match self {
            Output::Value(v) => *v = f(*v),
            Output::Tuple(items) => items.iter_mut().for_each(|o| o.map(f)),
        }
    }
}

/// A function of a graph.
#[derive(Clone)]
pub struct Function {
    /// Its name.
    pub name: Symbol,
    /// The extents of shapes, and other numbers.
    pub arena: Arena,
    /// The parameters, in order.
    pub params: Vec<ValueId>,
    /// All values, used or not.
    pub values: Vec<Value>,
    /// All calls, reachable or not.
    pub calls: Vec<Call>,
    /// The calls in the order in which they run.
    pub order: Vec<CallId>,
    /// What it returns.
    pub output: Output,
    /// Attributes (`R.func_attr`).
    pub attrs: Annotations,
    /// Whether it is marked `private`.
    pub private: bool,
    /// Elements of weights that were read with the text, for operators whose shapes depend on them. Calls are given the same weights.
    pub known_weights: BTreeMap<ValueId, Constant>,
}

impl Function {
    /// A function without parameters that returns an empty tuple.
    pub fn new(name: impl Into<Symbol>) -> Function {
        Function {
            name: name.into(),
            arena: Arena::new(),
            params: Vec::new(),
            values: Vec::new(),
            calls: Vec::new(),
            order: Vec::new(),
            output: Output::Tuple(Vec::new()),
            attrs: Annotations::new(),
            private: false,
            known_weights: BTreeMap::new(),
        }
    }

    /// The value.
    pub fn value(&self, v: ValueId) -> &Value {
        &self.values[v.index()]
    }

    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &Type {
        &self.value(v).ty
    }

    /// The call.
    pub fn call(&self, c: CallId) -> &Call {
        &self.calls[c.index()]
    }

    /// The call that defines a value.
    pub fn definition(&self, v: ValueId) -> Option<&Call> {
        match self.value(v).def {
            ValueDef::Call(c) => Some(self.call(c)),
            ValueDef::Param | ValueDef::Constant(_) => None,
        }
    }

    /// The elements of a value, if they are known.
    pub fn constant(&self, v: ValueId) -> Option<&Constant> {
        match &self.value(v).def {
            ValueDef::Constant(c) => Some(c),
            ValueDef::Param | ValueDef::Call(_) => None,
        }
    }

    /// Adds a parameter.
    pub fn add_param(&mut self, name: impl Into<Symbol>, ty: Type) -> ValueId {
        let v = self.add_value(name.into(), ty, ValueDef::Param);
        self.params.push(v);
        v
    }

    /// Adds a constant. Its extents become expressions of `arena`, which is the function's own or will become it.
    pub fn add_constant_in(&mut self, arena: &mut Arena, constant: Constant) -> ValueId {
        let shape = constant.shape().iter().map(|&n| arena.int(n, DType::Int64)).collect();
        let ty = Type::tensor(constant.dtype(), shape);
        self.add_value("c".into(), ty, ValueDef::Constant(constant))
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, constant: Constant) -> ValueId {
        let mut arena = std::mem::take(&mut self.arena);
        let v = self.add_constant_in(&mut arena, constant);
        self.arena = arena;
        v
    }

    /// Adds a call to the end of the function. The type is that which the shape rule gives; see
    /// [`infer::result_type`](super::infer::result_type).
    pub fn add_call(
        &mut self,
        name: impl Into<Symbol>,
        callee: Callee,
        args: Vec<Arg>,
        ty: Type,
        span: Span,
    ) -> ValueId {
        let c = CallId(self.calls.len() as u32);
        let result = self.add_value(name.into(), ty, ValueDef::Call(c));
        self.calls.push(Call { callee, args, result, span });
        self.order.push(c);
        result
    }

    /// Calls an operator at the end of the function. Parameters without an argument get their defaults.
    ///
    /// # Errors
    /// The arguments do not fit the operator.
    ///
    /// # Panics
    /// If the operator has no parameter of a name.
    pub fn call_op(
        &mut self,
        name: &str,
        op: &'static Operator,
        args: Vec<(&str, Arg)>,
    ) -> Result<ValueId, super::OpError> {
        let mut all: Vec<Arg> = op.params.iter().map(|p| p.default.arg()).collect();
        for (key, arg) in args {
            let i = op.position(key).unwrap_or_else(|| panic!("`{}` has no parameter `{key}`", op.name));
            all[i] = arg;
        }
        let mut arena = std::mem::take(&mut self.arena);
        let ty = super::infer::result_type(op, &all, self, &mut arena);
        self.arena = arena;
        Ok(self.add_call(name, Callee::Op(op), all, ty?, Span::default()))
    }

    fn add_value(&mut self, name: Symbol, ty: Type, def: ValueDef) -> ValueId {
        let v = ValueId(self.values.len() as u32);
        self.values.push(Value { name, ty, def });
        v
    }

    /// The number of parameters that callers give; those behind are weights. All, if no attribute says.
    pub fn n_inputs(&self) -> usize {
        match self.attrs.get("num_input").and_then(AttrValue::as_int) {
            Some(n) => usize::try_from(n).unwrap_or(0).min(self.params.len()),
            None => self.params.len(),
        }
    }

    /// The prim_funcs that it calls by `R.call_tir` and `R.call_tir_inplace`, once for each call.
    pub fn called_prim_funcs(&self) -> Vec<Symbol> {
        let callee = |&c| match self.call(c).callee {
            Callee::CallTir(name) | Callee::CallTirInplace(name) => Some(name),
            _ => None,
        };
        self.order.iter().filter_map(callee).collect()
    }

    /// The value that an alias, or a chain of them, stands for.
    pub fn resolved(&self, mut v: ValueId) -> ValueId {
        while let Some(Call { callee: Callee::Alias, args, .. }) = self.definition(v) {
            let Some(Arg::Value(other)) = args.first() else { break };
            v = *other;
        }
        v
    }
}
