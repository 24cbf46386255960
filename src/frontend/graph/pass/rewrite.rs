//! Rewriting of graphs by rules, for passes.
//!
//! A [`Rule`] looks at one call and returns the value that replaces its result, which is a value from before or the result of calls
//! that the rule adds. [`rewrite`] applies rules to all calls, in the order in which they run, until none applies. A value is only
//! replaced by one of the same type; a rule whose result has another type changes nothing.

use super::dead_code::remove_dead_code;
use crate::graph::constant::Constant;
use crate::graph::constness::invariant_values;
use crate::graph::function::{Arg, Call, CallId, Callee, Function, ValueId};
use crate::graph::infer::{Args, result_type};
use crate::graph::operator::Operator;
use crate::graph::{Type, op};
use crate::ir::{DType, ExprId};
use std::collections::{HashMap, HashSet};

/// What replaces the result of a call; `None` if the rule does not apply to it.
pub(super) type Rule = fn(&mut Rewriter<'_>, CallId) -> Option<ValueId>;

/// Applies rules until none applies. For each call, the first rule that applies is taken.
pub(super) fn rewrite(function: &mut Function, rules: &[Rule]) {
    // Each round removes a call that depends on the inputs, or moves one behind another; more rounds than calls find nothing.
    for _ in 0..=function.order.len() {
        if !Rewriter::new(function).round(rules) {
            break;
        }
        remove_dead_code(function);
    }
}

/// A function whose calls are being replaced.
pub(super) struct Rewriter<'a> {
    pub(super) function: &'a mut Function,
    /// An upper bound of how often each value is read, by calls and as an output.
    uses: Vec<usize>,
    /// Whether each value is the same in every call of the function.
    invariant: Vec<bool>,
    outputs: HashSet<ValueId>,
}

impl<'a> Rewriter<'a> {
    fn new(function: &'a mut Function) -> Rewriter<'a> {
        let mut uses = vec![0; function.values.len()];
        let read = function.order.iter().flat_map(|&c| function.call(c).inputs());
        read.chain(function.output.values()).for_each(|v| uses[v.index()] += 1);
        let (invariant, outputs) = (invariant_values(function), function.output.values().into_iter().collect());
        Rewriter { function, uses, invariant, outputs }
    }

    /// Applies the rules once to each call; returns whether one applied.
    fn round(&mut self, rules: &[Rule]) -> bool {
        let mut replaced: HashMap<ValueId, ValueId> = HashMap::new();
        for c in std::mem::take(&mut self.function.order) {
            for v in self.function.calls[c.index()].args.iter_mut().flat_map(Arg::values_mut) {
                *v = replaced.get(v).copied().unwrap_or(*v);
            }
            match rules.iter().find_map(|&rule| self.replacement(rule, c)) {
                Some(new) => {
                    replaced.insert(self.function.call(c).result, new);
                }
                None => self.function.order.push(c),
            }
        }
        self.function.output.map(&mut |v| replaced.get(&v).copied().unwrap_or(v));
        !replaced.is_empty()
    }

    /// What replaces the result of a call by a rule. The calls that the rule adds stay only if there is a replacement.
    fn replacement(&mut self, rule: Rule, c: CallId) -> Option<ValueId> {
        let (n_calls, n_values) = (self.function.order.len(), self.function.values.len());
        let old = self.function.call(c).result;
        let new = rule(self, c).filter(|&new| self.may_replace(old, new, n_values));
        let Some(new) = new else {
            self.function.order.truncate(n_calls);
            return None;
        };
        let span = self.function.call(c).span;
        self.uses.resize(self.function.values.len(), 0);
        let Function { order, calls, .. } = &mut *self.function;
        for added in &order[n_calls..] {
            let added = &mut calls[added.index()];
            added.span = span;
            added.inputs().for_each(|v| self.uses[v.index()] += 1);
        }
        self.uses[new.index()] += self.uses[old.index()];
        if new.index() >= n_values || self.outputs.contains(&old) {
            self.function.values[new.index()].name = self.function.value(old).name;
        }
        if self.outputs.contains(&old) {
            self.outputs.insert(new);
        }
        Some(new)
    }

    /// Whether a value has the type of another one and can be an output in its place. Outputs keep their names, so one that is an
    /// output already, a parameter or a constant cannot become another output.
    fn may_replace(&self, old: ValueId, new: ValueId, n_values: usize) -> bool {
        let is_nameable =
            new.index() >= n_values || (self.function.definition(new).is_some() && !self.outputs.contains(&new));
        self.function.ty(old) == self.function.ty(new) && (is_nameable || !self.outputs.contains(&old))
    }

    /// Whether the function returns the value.
    pub(super) fn is_output(&self, v: ValueId) -> bool {
        self.outputs.contains(&v)
    }

    /// Whether a value is read `n` times.
    pub(super) fn has_uses(&self, v: ValueId, n: usize) -> bool {
        self.uses.get(v.index()) == Some(&n)
    }

    /// Whether a value follows from weights and constants alone.
    pub(super) fn is_invariant(&self, v: ValueId) -> bool {
        self.invariant.get(v.index()).copied().unwrap_or(false)
    }

    /// The call of an operator with its arguments by name; `None` if it calls something else.
    pub(super) fn args(&self, c: CallId) -> Option<Args<'_>> {
        args_of(self.function, self.function.call(c))
    }

    /// The call that defines a value, if that is a call of the operator.
    pub(super) fn defined_by(&self, v: ValueId, name: &str) -> Option<Args<'_>> {
        args_of(self.function, self.function.definition(v)?).filter(|args| args.op.name == name)
    }

    /// [`Rewriter::defined_by`], if no other call reads the value.
    pub(super) fn only_use_of(&self, v: ValueId, name: &str) -> Option<Args<'_>> {
        self.defined_by(v, name).filter(|_| self.has_uses(v, 1))
    }

    /// The only operand of an operator that defines a value which no other call reads.
    pub(super) fn operand_of(&self, v: ValueId, name: &str) -> Option<ValueId> {
        let args = self.only_use_of(v, name)?;
        args.args.first()?.values().first().copied()
    }

    /// The operands of an operator of two tensors that defines a value which no other call reads.
    pub(super) fn operands_of(&self, v: ValueId, name: &str) -> Option<(ValueId, ValueId)> {
        let args = self.only_use_of(v, name)?;
        Some((args.value("x1")?, args.value("x2")?))
    }

    /// The element of a constant with one element.
    pub(super) fn scalar(&self, v: ValueId) -> Option<f64> {
        self.function.constant(self.function.resolved(v)).filter(|c| c.len() == 1)?.float(0)
    }

    /// The type of the elements of a tensor.
    pub(super) fn dtype(&self, v: ValueId) -> Option<DType> {
        self.function.ty(v).as_tensor()?.dtype
    }

    /// The extents of a tensor.
    pub(super) fn shape(&self, v: ValueId) -> Option<Vec<ExprId>> {
        self.function.ty(v).as_tensor()?.shape.clone()
    }

    /// Adds a constant without dimensions.
    pub(super) fn add_scalar(&mut self, value: f64, dtype: DType) -> Option<ValueId> {
        Some(self.add_constant(Constant::scalar(value, dtype)?))
    }

    /// Adds a constant.
    pub(super) fn add_constant(&mut self, constant: Constant) -> ValueId {
        let v = self.function.add_constant(constant);
        self.note(v, true)
    }

    /// Adds a call with an argument for each parameter. `None` if they do not fit the operator.
    pub(super) fn add_call(&mut self, op: &'static Operator, args: Vec<Arg>) -> Option<ValueId> {
        let ty = self.inferred(op, &args)?;
        let invariant = args.iter().flat_map(Arg::values).all(|&v| self.is_invariant(v));
        let v = self.function.add_call("lv", Callee::Op(op), args, ty, Default::default());
        Some(self.note(v, invariant))
    }

    /// Adds a call; parameters that are not named have their defaults.
    pub(super) fn add_op(&mut self, name: &str, args: Vec<(&str, Arg)>) -> Option<ValueId> {
        let op = op::find(name)?;
        let mut all: Vec<Arg> = op.params.iter().map(|p| p.default.arg()).collect();
        for (key, arg) in args {
            all[op.position(key)?] = arg;
        }
        self.add_call(op, all)
    }

    /// Adds the call of an operator of one tensor.
    pub(super) fn add_unary(&mut self, name: &str, x: ValueId) -> Option<ValueId> {
        self.add_call(op::find(name)?, vec![Arg::Value(x)])
    }

    /// Adds the call of an operator of two tensors.
    pub(super) fn add_binary(&mut self, name: &str, a: ValueId, b: ValueId) -> Option<ValueId> {
        self.add_call(op::find(name)?, vec![Arg::Value(a), Arg::Value(b)])
    }

    /// Adds another name of a value, by which a parameter or a constant can be an output.
    pub(super) fn add_alias(&mut self, v: ValueId) -> ValueId {
        let (ty, invariant) = (self.function.ty(v).clone(), self.is_invariant(v));
        let alias = self.function.add_call("lv", Callee::Alias, vec![Arg::Value(v)], ty, Default::default());
        self.note(alias, invariant)
    }

    /// A tensor by another shape: the tensor itself if it has this shape.
    pub(super) fn reshaped(&mut self, v: ValueId, shape: Vec<ExprId>) -> Option<ValueId> {
        if self.shape(v)? == shape {
            return Some(v);
        }
        self.add_op("reshape", vec![("x", Arg::Value(v)), ("shape", Arg::Shape(shape))])
    }

    /// A tensor by a shape of these extents and `n` dimensions of extent 1 behind them.
    pub(super) fn reshaped_with_ones(&mut self, v: ValueId, mut shape: Vec<ExprId>, n: usize) -> Option<ValueId> {
        let one = self.function.arena.int(1, DType::Int64);
        shape.extend(std::iter::repeat_n(one, n));
        self.reshaped(v, shape)
    }

    fn inferred(&mut self, op: &'static Operator, args: &[Arg]) -> Option<Type> {
        let mut arena = std::mem::take(&mut self.function.arena);
        let ty = result_type(op, args, self.function, &mut arena);
        self.function.arena = arena;
        ty.ok()
    }

    fn note(&mut self, v: ValueId, invariant: bool) -> ValueId {
        self.invariant.resize(self.function.values.len(), false);
        self.invariant[v.index()] = invariant;
        v
    }
}

fn args_of<'f>(function: &'f Function, call: &'f Call) -> Option<Args<'f>> {
    match call.callee {
        Callee::Op(op) => Some(Args { op, args: &call.args, function }),
        _ => None,
    }
}

/// The distance from 1 to the next number of a float type, by which constants in texts may be rounded; `None` for other types.
pub(super) fn epsilon(dtype: DType) -> Option<f64> {
    match dtype {
        DType::Float64 => Some(f64::EPSILON),
        DType::Float32 => Some(f64::from(f32::EPSILON)),
        DType::Float16 => Some(half::f16::EPSILON.to_f64()),
        DType::BFloat16 => Some(half::bf16::EPSILON.to_f64()),
        _ => None,
    }
}
