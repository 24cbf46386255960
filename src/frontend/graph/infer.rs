//! Shape rules: what they are given, and what several of them need.

use super::constant::Constant;
use super::function::{Arg, Function, ValueId};
use super::known;
use super::operator::{OpError, Operator};
use super::ty::{self, TensorType, Type};
use crate::arith::Analyzer;
use crate::ir::{Arena, AttrValue, DType, ExprId};
use std::ops::Deref;

/// The type of the result of an operator. `arena` owns the extents of the function's types.
///
/// # Errors
/// The arguments do not fit the operator.
pub fn result_type(
    op: &'static Operator,
    args: &[Arg],
    function: &Function,
    arena: &mut Arena,
) -> Result<Type, OpError> {
    let args = Args { op, args, function };
    for (param, arg) in op.params.iter().zip(args.args) {
        if matches!((&param.default, arg), (super::operator::Default::Required, Arg::Missing)) {
            return args.fail(format!("lacks its argument `{}`", param.name));
        }
    }
    (op.infer)(&mut Infer { args, arena })
}

/// What the shape rule of a call is given, for lowerings that need the same numbers.
pub(super) fn rule<'a>(
    op: &'static Operator,
    args: &'a [Arg],
    function: &'a Function,
    arena: &'a mut Arena,
) -> Infer<'a> {
    Infer { args: Args { op, args, function }, arena }
}

/// The arguments of a call, by the names of the operator's parameters.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The operator.
    pub op: &'static Operator,
    /// One argument for each parameter.
    pub args: &'a [Arg],
    /// The function that contains the call.
    pub function: &'a Function,
}

/// Accessors of attributes. An argument has the kind that its parameter states, since the reader has checked it.
impl<'a> Args<'a> {
    /// The argument of a parameter.
    ///
    /// # Panics
    /// If the operator has no such parameter.
    pub fn get(&self, name: &str) -> &'a Arg {
        let i = self.op.position(name).unwrap_or_else(|| panic!("`{}` has no parameter `{name}`", self.op.name));
        &self.args[i]
    }

    /// The value of a parameter that takes a tensor; `None` if it is absent.
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.get(name).values().first().copied()
    }

    /// The elements of the tensor of a parameter, from which the shape of the result follows. `arena` owns the extents of the function.
    ///
    /// # Errors
    /// They depend on inputs, or on weights without known elements.
    pub fn elements(&self, name: &str, arena: &Arena) -> Result<Constant, OpError> {
        let found = self.value(name).and_then(|v| known::elements(self.function, arena, v));
        found.ok_or_else(|| OpError {
            help: Some("make it a constant, or a weight (`num_input`) with a file of weights beside the text".into()),
            ..self.error(format!(
                "`{name}` must follow from constants or weights: the shape of the result depends on its elements"
            ))
        })
    }

    /// The attribute of a parameter.
    pub fn attr(&self, name: &str) -> &'a AttrValue {
        match self.get(name) {
            Arg::Attr(value) => value,
            _ => &AttrValue::None,
        }
    }

    /// An integer; 0 for `None`.
    pub fn int(&self, name: &str) -> i64 {
        self.opt_int(name).unwrap_or(0)
    }

    /// An integer or `None`.
    pub fn opt_int(&self, name: &str) -> Option<i64> {
        self.attr(name).as_int()
    }

    /// Integers or `None`.
    pub fn opt_ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.attr(name) {
            AttrValue::Int(v) => Some(vec![*v]),
            AttrValue::List(items) => items.iter().map(AttrValue::as_int).collect(),
            _ => None,
        }
    }

    /// Integers; none for `None`.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        self.opt_ints(name).unwrap_or_default()
    }

    /// A float or `None`.
    pub fn opt_float(&self, name: &str) -> Option<f64> {
        match self.attr(name) {
            AttrValue::Float(v) => Some(*v),
            AttrValue::Int(v) => Some(*v as f64),
            AttrValue::Expr(e) => self.function.arena.as_const(*e).map(|c| c.as_f64()),
            _ => None,
        }
    }

    /// A float; 0 for `None`.
    pub fn float(&self, name: &str) -> f64 {
        self.opt_float(name).unwrap_or(0.0)
    }

    /// A truth value.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.attr(name), AttrValue::Bool(true) | AttrValue::Int(1))
    }

    /// A text or `None`.
    pub fn opt_text(&self, name: &str) -> Option<&'static str> {
        match self.attr(name) {
            AttrValue::Str(s) => Some(s.as_str()),
            _ => None,
        }
    }

    /// A text; empty for `None`.
    pub fn text(&self, name: &str) -> &'static str {
        self.opt_text(name).unwrap_or("")
    }

    /// An element type or `None`; `"void"` is none.
    pub fn opt_dtype(&self, name: &str) -> Option<DType> {
        self.opt_text(name).filter(|t| !t.is_empty()).and_then(|t| t.parse().ok())
    }

    /// A mistake in the call.
    ///
    /// # Errors
    /// Always.
    pub fn fail<T>(&self, reason: impl Into<String>) -> Result<T, OpError> {
        Err(self.error(reason))
    }

    /// A mistake in the call.
    pub fn error(&self, reason: impl Into<String>) -> OpError {
        OpError { operator: self.op.name, reason: reason.into(), help: None }
    }

    /// An axis, counted from the end if it is negative.
    ///
    /// # Errors
    /// The tensor has no such axis.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize, OpError> {
        let found = if axis < 0 { axis + rank as i64 } else { axis };
        match usize::try_from(found) {
            Ok(found) if found < rank => Ok(found),
            _ => self.fail(format!("axis {axis} is outside of the {rank} dimensions")),
        }
    }

    /// Axes, counted from the end if they are negative.
    ///
    /// # Errors
    /// The tensor has no such axis, or one is named twice.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
        let mut found = Vec::with_capacity(axes.len());
        for &axis in axes {
            let axis = self.axis(axis, rank)?;
            if found.contains(&axis) {
                return self.fail(format!("axis {axis} is named twice"));
            }
            found.push(axis);
        }
        Ok(found)
    }

    /// As many integers as there are spatial dimensions; one counts for all.
    ///
    /// # Errors
    /// There is another number of them.
    pub fn spatial(&self, name: &str, n: usize) -> Result<Vec<i64>, OpError> {
        match &self.ints(name)[..] {
            [one] => Ok(vec![*one; n]),
            all if all.len() == n => Ok(all.to_vec()),
            all => self.fail(format!("`{name}` has {} integers, expected 1 or {n}", all.len())),
        }
    }

    /// The padding before and after each spatial dimension, from one integer, one for each dimension, or two for each: first all
    /// before, then all after.
    ///
    /// # Errors
    /// There is another number of them.
    pub fn padding(&self, name: &str, n: usize) -> Result<(Vec<i64>, Vec<i64>), OpError> {
        match &self.ints(name)[..] {
            [one] => Ok((vec![*one; n], vec![*one; n])),
            all if all.len() == n => Ok((all.to_vec(), all.to_vec())),
            all if all.len() == 2 * n => Ok((all[..n].to_vec(), all[n..].to_vec())),
            all => self.fail(format!("`{name}` has {} integers, expected 1, {n} or {}", all.len(), 2 * n)),
        }
    }
}

/// What a shape rule is given.
pub struct Infer<'a> {
    args: Args<'a>,
    /// The extents of all shapes.
    pub arena: &'a mut Arena,
}

impl<'a> Deref for Infer<'a> {
    type Target = Args<'a>;

    fn deref(&self) -> &Args<'a> {
        &self.args
    }
}

/// A tensor type of which everything is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// The type of the elements.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<ExprId>,
}

impl Known {
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

impl From<Known> for Type {
    fn from(known: Known) -> Type {
        Type::tensor(known.dtype, known.shape)
    }
}

impl Infer<'_> {
    /// The tensor of a parameter.
    ///
    /// # Errors
    /// It is no tensor, or its type or shape is not known.
    pub fn tensor(&self, name: &str) -> Result<Known, OpError> {
        match self.value(name) {
            Some(v) => self.known(v, name),
            None => self.fail(format!("`{name}` is missing")),
        }
    }

    /// The tensor of a parameter that may be absent.
    ///
    /// # Errors
    /// It is no tensor, or its type or shape is not known.
    pub fn opt_tensor(&self, name: &str) -> Result<Option<Known>, OpError> {
        self.value(name).map(|v| self.known(v, name)).transpose()
    }

    /// The tensors of a parameter.
    ///
    /// # Errors
    /// One is no tensor, or its type or shape is not known.
    pub fn tensors(&self, name: &str) -> Result<Vec<Known>, OpError> {
        self.get(name).values().iter().map(|&v| self.known(v, name)).collect()
    }

    fn known(&self, v: ValueId, name: &str) -> Result<Known, OpError> {
        let ty = self.function.ty(v);
        match ty {
            Type::Tensor(TensorType { dtype: Some(dtype), shape: Some(shape), .. }) => {
                Ok(Known { dtype: *dtype, shape: shape.clone() })
            }
            Type::Tensor(_) => Err(OpError {
                help: Some("state the shape where the value is defined, such as by `R.match_cast`".into()),
                ..self.error(format!("the shape of `{name}` is not known: {}", ty.describe(self.arena)))
            }),
            _ => self.fail(format!("`{name}` must be a tensor, found {}", ty.describe(self.arena))),
        }
    }

    /// The extents of a parameter that takes a shape.
    ///
    /// # Errors
    /// They are not known.
    pub fn shape(&self, name: &str) -> Result<Vec<ExprId>, OpError> {
        match self.get(name) {
            Arg::Shape(shape) => Ok(shape.clone()),
            Arg::Value(v) => match self.function.ty(*v) {
                Type::Shape(Some(shape)) => Ok(shape.clone()),
                _ => Err(OpError {
                    help: Some("only shapes that do not depend on data are supported".into()),
                    ..self.error(format!("the shape `{name}` is not known"))
                }),
            },
            _ => self.fail(format!("`{name}` is no shape")),
        }
    }

    /// The number of a parameter; `None` if it is absent.
    pub fn prim(&self, name: &str) -> Option<ExprId> {
        match self.get(name) {
            Arg::Prim(e) => Some(*e),
            _ => None,
        }
    }

    /// An extent.
    pub fn extent(&mut self, n: i64) -> ExprId {
        self.arena.int(n, DType::Int64)
    }

    /// A constant extent; `None` if it is a symbol.
    pub fn known_extent(&self, e: ExprId) -> Option<i64> {
        self.arena.as_int(e)
    }

    /// An extent in its simplest form.
    pub fn simplified(&mut self, e: ExprId) -> ExprId {
        match self.arena.as_int(e) {
            Some(_) => e,
            None => Analyzer::new().simplify(self.arena, e),
        }
    }

    /// Whether two extents are equal for all values of symbols.
    pub fn are_equal(&mut self, a: ExprId, b: ExprId) -> bool {
        a == b || Analyzer::new().can_prove_equal(self.arena, a, b)
    }

    /// Whether two extents differ for all values of symbols.
    pub fn differ(&mut self, a: ExprId, b: ExprId) -> bool {
        match (self.arena.as_int(a), self.arena.as_int(b)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        }
    }

    /// `[1, n]`
    pub fn extents(&self, shape: &[ExprId]) -> String {
        ty::extents(self.arena, shape)
    }

    /// The product of extents.
    pub fn product(&mut self, shape: &[ExprId]) -> ExprId {
        let mut product = self.extent(1);
        for &e in shape {
            product = self.arena.mul(product, e);
        }
        self.simplified(product)
    }

    /// The shape of the elements that two shapes have in common when those of extent 1 are repeated.
    ///
    /// # Errors
    /// The shapes do not fit; the message has both.
    pub fn broadcast(&mut self, a: &[ExprId], b: &[ExprId]) -> Result<Vec<ExprId>, OpError> {
        let rank = a.len().max(b.len());
        let at = |shape: &[ExprId], d: usize| (d + shape.len()).checked_sub(rank).map(|d| shape[d]);
        let mut shape = Vec::with_capacity(rank);
        for d in 0..rank {
            shape.push(match (at(a, d), at(b, d)) {
                (Some(x), Some(y)) if self.arena.is_int(x, 1) => y,
                (Some(x), Some(y)) if self.arena.is_int(y, 1) || self.are_equal(x, y) => x,
                (Some(x), None) | (None, Some(x)) => x,
                _ => {
                    let (a, b) = (self.extents(a), self.extents(b));
                    return self.fail(format!("the shapes {a} and {b} do not fit: their extents must be equal or 1"));
                }
            });
        }
        Ok(shape)
    }

    /// Checks that a tensor has a number of dimensions.
    ///
    /// # Errors
    /// It has another number of them.
    pub fn expect_rank(&self, name: &str, tensor: &Known, rank: usize) -> Result<(), OpError> {
        if tensor.rank() == rank {
            return Ok(());
        }
        let shape = self.extents(&tensor.shape);
        self.fail(format!("`{name}` must have {rank} dimensions, found {} {shape}", tensor.dtype))
    }

    /// Checks that two extents can be equal.
    ///
    /// # Errors
    /// They differ.
    pub fn expect_equal(&mut self, a: (&str, &Known, usize), b: (&str, &Known, usize)) -> Result<(), OpError> {
        let (x, y) = (a.1.shape[a.2], b.1.shape[b.2]);
        if !self.differ(x, y) {
            return Ok(());
        }
        let (of_a, of_b) = (self.extents(&a.1.shape), self.extents(&b.1.shape));
        let (x, y) = (ty::extent(self.arena, x), ty::extent(self.arena, y));
        self.fail(format!(
            "dimension {} of `{}` {of_a} is {x}, and dimension {} of `{}` {of_b} is {y}; they must be equal",
            a.2, a.0, b.2, b.0
        ))
    }
}
