//! What the translation of an operator is given: the arguments and attributes of a node, and the graph to add calls to.

use super::extents::{Extents, simplified};
use super::model::Model;
use super::proto::{AttributeProto, GraphProto, NodeProto, TensorProto};
use super::tensor;
use super::translate::{Operand, Translator};
use crate::diagnostic::Span;
use crate::graph::known;
use crate::graph::op;
use crate::graph::{Arg, Callee, Constant, Type, ValueId};
use crate::ir::{Arena, AttrValue, DType, ExprId};
use std::collections::BTreeSet;

/// Why a node is not translated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub reason: String,
    pub help: Option<String>,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal { reason, help: None }
    }
}

/// The result of a translation.
pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// A node that is translated.
pub(super) struct Node<'t, 'm> {
    pub cx: &'t mut Translator<'m>,
    pub proto: &'m NodeProto,
    /// The version of its set of operators.
    pub version: i64,
    read_attrs: BTreeSet<&'m str>,
    read_inputs: BTreeSet<usize>,
}

impl<'t, 'm> Node<'t, 'm> {
    pub(super) fn new(cx: &'t mut Translator<'m>, proto: &'m NodeProto, version: i64) -> Node<'t, 'm> {
        Node { cx, proto, version, read_attrs: BTreeSet::new(), read_inputs: BTreeSet::new() }
    }

    /// The operator.
    pub(super) fn op_type(&self) -> &'m str {
        &self.proto.op_type
    }

    pub(super) fn model(&self) -> &'m Model {
        self.cx.model
    }

    pub(super) fn arena(&mut self) -> &mut Arena {
        &mut self.cx.function.arena
    }

    /// Refuses the node.
    pub(super) fn fail<T>(&self, reason: impl Into<String>) -> Result<T> {
        Err(Refusal { reason: reason.into(), help: None })
    }

    /// Refuses what was given and nothing has read.
    pub(super) fn check_all_read(&self) -> Result<()> {
        for attr in &self.proto.attribute {
            if !self.read_attrs.contains(attr.name.as_str()) {
                return self.fail(format!("the attribute `{}` of `{}` is not supported", attr.name, self.op_type()));
            }
        }
        for i in 0..self.n_inputs() {
            if self.has(i) && !self.read_inputs.contains(&i) {
                return self.fail(format!("argument {i} of `{}` is not supported", self.op_type()));
            }
        }
        Ok(())
    }

    // Arguments.

    pub(super) fn n_inputs(&self) -> usize {
        self.proto.input.len()
    }

    /// Whether an argument is given.
    pub(super) fn has(&self, i: usize) -> bool {
        self.proto.input.get(i).is_some_and(|name| !name.is_empty())
    }

    /// Whether a result is used by name.
    pub(super) fn wants(&self, i: usize) -> bool {
        self.proto.output.get(i).is_some_and(|name| !name.is_empty())
    }

    pub(super) fn operand(&mut self, i: usize) -> Result<Operand<'m>> {
        self.read_inputs.insert(i);
        match self.proto.input.get(i).filter(|name| !name.is_empty()) {
            Some(name) => self.cx.operand(name),
            None => self.fail(format!("`{}` lacks its argument {i}", self.op_type())),
        }
    }

    /// An argument as a value of the graph.
    pub(super) fn value(&mut self, i: usize) -> Result<ValueId> {
        let operand = self.operand(i)?;
        let name = &self.proto.input[i];
        self.cx.value_of(name, operand)
    }

    /// An argument that may be absent.
    pub(super) fn opt_value(&mut self, i: usize) -> Result<Option<ValueId>> {
        if self.has(i) { self.value(i).map(Some) } else { Ok(None) }
    }

    /// All arguments.
    pub(super) fn values(&mut self) -> Result<Vec<ValueId>> {
        (0..self.n_inputs()).map(|i| self.value(i)).collect()
    }

    /// The integers of an argument, if they are known.
    pub(super) fn extents(&mut self, i: usize) -> Option<Extents> {
        if !self.has(i) {
            return None;
        }
        let operand = self.operand(i).ok()?;
        self.cx.extents_of(operand)
    }

    /// The elements of an argument, if they follow from constants.
    pub(super) fn constant(&mut self, i: usize) -> Option<Constant> {
        if let Ok(Operand::Tensor(tensor)) = self.operand(i) {
            return tensor::constant(tensor, &self.model().folder).ok();
        }
        if let Some(extents) = self.extents(i)
            && let Some(constant) = extents.constant(self.arena())
        {
            return Some(constant);
        }
        let v = self.value(i).ok()?;
        known::elements(&self.cx.function, &self.cx.function.arena, v)
    }

    /// The extents of an argument, which is not read otherwise.
    pub(super) fn input_shape(&mut self, i: usize) -> Option<Vec<ExprId>> {
        let known = match self.operand(i).ok()? {
            Operand::Value(v) => return self.shape(v).ok(),
            Operand::Extents(x) => x.shape,
            Operand::Tensor(tensor) => tensor::header(tensor).ok()?.1,
            Operand::Sequence(_) | Operand::Refused => return None,
        };
        Some(known.into_iter().map(|n| self.index(n)).collect())
    }

    /// The refusal of an argument that must be known. The inputs that it depends on are noted.
    pub(super) fn unknown(&mut self, i: usize) -> Refusal {
        let inputs = match self.operand(i) {
            Ok(Operand::Value(v)) => self.cx.inputs_of(v),
            _ => Vec::new(),
        };
        self.cx.needed.extend(inputs.iter().cloned());
        let (argument, op) = (&self.proto.input[i], self.op_type());
        let on = match &inputs[..] {
            [] => "does not follow from constants".to_owned(),
            inputs => format!("depends on `{}`", inputs.join("`, `")),
        };
        Refusal {
            reason: format!("argument {i} of `{op}`, `{argument}`, must be known before the model runs, and {on}"),
            help: inputs
                .first()
                .map(|name| format!("give its elements: `--const {name}=FILE`, or such as `{name}=1,2`")),
        }
    }

    /// The integers of an argument, which must be numbers.
    pub(super) fn known_ints(&mut self, i: usize) -> Result<Vec<i64>> {
        if let Some(extents) = self.extents(i) {
            return match extents.ints(self.arena()) {
                Some(all) => Ok(all),
                None => Err(Refusal {
                    help: Some("give sizes by `--shape` or `--bind`".to_owned()),
                    reason: format!(
                        "argument {i} of `{}` must be numbers, and depends on symbolic sizes",
                        self.op_type()
                    ),
                }),
            };
        }
        let constant = self.constant(i);
        let ints = constant.and_then(|c| (0..c.len()).map(|e| c.int(e)).collect::<Option<Vec<_>>>());
        ints.ok_or_else(|| self.unknown(i))
    }

    /// The integers of an argument, which may depend on symbols.
    pub(super) fn known_extents(&mut self, i: usize) -> Result<Vec<ExprId>> {
        if let Some(extents) = self.extents(i) {
            return Ok(extents.elements);
        }
        let ints = self.known_ints(i)?;
        Ok(ints.into_iter().map(|n| self.index(n)).collect())
    }

    /// The floats of an argument.
    pub(super) fn known_floats(&mut self, i: usize) -> Result<Vec<f64>> {
        let constant = self.constant(i);
        let floats = constant.and_then(|c| (0..c.len()).map(|e| c.float(e)).collect::<Option<Vec<_>>>());
        floats.ok_or_else(|| self.unknown(i))
    }

    /// The elements of an argument, which must be known.
    pub(super) fn known_constant(&mut self, i: usize) -> Result<Constant> {
        match self.constant(i) {
            Some(constant) => Ok(constant),
            None => Err(self.unknown(i)),
        }
    }

    // Attributes.

    fn attr(&mut self, name: &str) -> Option<&'m AttributeProto> {
        let found = self.proto.attribute.iter().find(|a| a.name == name)?;
        self.read_attrs.insert(&found.name);
        match found.ref_attr_name.as_str() {
            "" => Some(found),
            name => self.cx.frames.last()?.attributes.get(name).copied(),
        }
    }

    /// Allows an attribute that changes nothing here.
    pub(super) fn ignore(&mut self, name: &str) {
        self.attr(name);
    }

    pub(super) fn int(&mut self, name: &str, default: i64) -> i64 {
        self.attr(name).map_or(default, |a| a.i)
    }

    pub(super) fn opt_int(&mut self, name: &str) -> Option<i64> {
        self.attr(name).map(|a| a.i)
    }

    pub(super) fn flag(&mut self, name: &str, default: bool) -> bool {
        self.int(name, i64::from(default)) != 0
    }

    pub(super) fn float(&mut self, name: &str, default: f64) -> f64 {
        self.attr(name).map_or(default, |a| f64::from(a.f))
    }

    pub(super) fn opt_float(&mut self, name: &str) -> Option<f64> {
        self.attr(name).map(|a| f64::from(a.f))
    }

    pub(super) fn floats(&mut self, name: &str) -> Option<&'m [f32]> {
        self.attr(name).map(|a| &a.floats[..])
    }

    pub(super) fn ints(&mut self, name: &str) -> Option<Vec<i64>> {
        self.attr(name).map(|a| a.ints.clone())
    }

    pub(super) fn text(&mut self, name: &str, default: &str) -> String {
        self.attr(name).map_or(default.to_owned(), |a| String::from_utf8_lossy(&a.s).into_owned())
    }

    pub(super) fn tensor(&mut self, name: &str) -> Option<&'m TensorProto> {
        self.attr(name)?.t.as_ref()
    }

    pub(super) fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        self.attr(name).map(|a| a.strings.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect())
    }

    pub(super) fn graph(&mut self, name: &str) -> Option<&'m GraphProto> {
        self.attr(name)?.g.as_ref()
    }

    /// Known elements of an attribute.
    pub(super) fn constant_of(&self, tensor: &TensorProto) -> Result<Constant> {
        tensor::constant(tensor, &self.model().folder)
            .map_err(|why| Refusal::from(format!("a tensor of `{}` {why}", self.op_type())))
    }

    /// Axes: an attribute up to a version, an argument from then on.
    pub(super) fn axes(&mut self, since: i64, i: usize) -> Result<Option<Vec<i64>>> {
        if self.version < since {
            return Ok(self.ints("axes"));
        }
        if self.has(i) { self.known_ints(i).map(Some) } else { Ok(None) }
    }

    // Types.

    pub(super) fn dtype(&self, v: ValueId) -> Result<DType> {
        match self.cx.function.ty(v).as_tensor().and_then(|t| t.dtype) {
            Some(dtype) => Ok(dtype),
            None => self.fail("the type of an argument is not known"),
        }
    }

    pub(super) fn shape(&self, v: ValueId) -> Result<Vec<ExprId>> {
        match self.cx.function.ty(v).as_tensor().and_then(|t| t.shape.clone()) {
            Some(shape) => Ok(shape),
            None => self.fail("the shape of an argument is not known"),
        }
    }

    pub(super) fn rank(&self, v: ValueId) -> Result<usize> {
        Ok(self.shape(v)?.len())
    }

    /// The extents, which must be numbers.
    pub(super) fn known_shape(&self, v: ValueId) -> Result<Vec<i64>> {
        let shape = self.shape(v)?;
        let ints = shape.iter().map(|&e| self.cx.function.arena.as_int(e)).collect::<Option<Vec<_>>>();
        ints.ok_or_else(|| Refusal {
            reason: format!("`{}` needs sizes that are numbers", self.op_type()),
            help: Some("give sizes by `--bind`".to_owned()),
        })
    }

    /// One extent, which must be a number; others may be symbols.
    pub(super) fn known_extent(&self, v: ValueId, d: usize) -> Result<i64> {
        match self.shape(v)?.get(d).map(|&e| self.cx.function.arena.as_int(e)) {
            Some(Some(n)) => Ok(n),
            Some(None) => Err(Refusal {
                reason: format!("`{}` needs dimension {d} of an argument as a number", self.op_type()),
                help: Some("give sizes by `--shape` or `--bind`".to_owned()),
            }),
            None => self.fail(format!("an argument of `{}` has no dimension {d}", self.op_type())),
        }
    }

    /// The extent of the last dimension, which must be a number.
    pub(super) fn last_extent(&self, v: ValueId) -> Result<i64> {
        match self.rank(v)?.checked_sub(1) {
            Some(last) => self.known_extent(v, last),
            None => self.fail(format!("`{}` of a number is not supported", self.op_type())),
        }
    }

    /// An axis, counted from the end if it is negative.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let found = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        match usize::try_from(found) {
            Ok(found) if found < rank => Ok(found),
            _ => self.fail(format!("the axis {axis} of `{}` is outside of {rank} dimensions", self.op_type())),
        }
    }

    // Calls.

    /// Calls an operator of the graph.
    pub(super) fn call(&mut self, op: &str, args: Vec<(&str, Arg)>) -> Result<ValueId> {
        let Some(op) = op::find(op) else {
            unreachable!("the table of graph operators has `{op}`");
        };
        let name = self.proto.output.first().map_or("lv".to_owned(), |o| super::names::identifier(o));
        self.cx.function.call_op(&name, op, args).map_err(|e| Refusal { reason: e.to_string(), help: e.help })
    }

    /// Calls an operator whose only argument is its first parameter.
    pub(super) fn unary(&mut self, op: &str, x: ValueId) -> Result<ValueId> {
        let param = op::find(op).map_or("x", |op| op.params[0].name);
        self.call(op, vec![(param, Arg::Value(x))])
    }

    /// Calls an elementwise operator of two arguments.
    pub(super) fn binary(&mut self, op: &str, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.call(op, vec![("x1", Arg::Value(x)), ("x2", Arg::Value(y))])
    }

    /// Calls an elementwise operator whose second argument is a number.
    pub(super) fn with_number(&mut self, op: &str, x: ValueId, number: f64) -> Result<ValueId> {
        let y = self.scalar(number, self.dtype(x)?)?;
        self.binary(op, x, y)
    }

    /// A part of a tuple.
    pub(super) fn item(&mut self, tuple: ValueId, i: usize) -> Result<ValueId> {
        let Type::Tuple(items) = self.cx.function.ty(tuple) else {
            return self.fail("has a part of what is no tuple");
        };
        let Some(ty) = items.get(i).cloned() else { return self.fail(format!("has no part {i}")) };
        Ok(self.cx.function.add_call("lv", Callee::Item(i), vec![Arg::Value(tuple)], ty, Span::default()))
    }

    /// A number as a tensor without dimensions.
    pub(super) fn scalar(&mut self, value: f64, dtype: DType) -> Result<ValueId> {
        match Constant::scalar(value, dtype) {
            Some(constant) => Ok(self.cx.function.add_constant(constant)),
            None => self.fail(format!("{dtype} has no numbers")),
        }
    }

    /// An integer as an expression.
    pub(super) fn index(&mut self, n: i64) -> ExprId {
        self.arena().int(n, DType::Int64)
    }

    pub(super) fn add_extents(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let sum = self.arena().add(a, b);
        simplified(self.arena(), sum)
    }

    /// The elements by another type.
    pub(super) fn cast(&mut self, x: ValueId, dtype: DType) -> Result<ValueId> {
        if self.dtype(x)? == dtype {
            return Ok(x);
        }
        self.call("astype", vec![("x", Arg::Value(x)), ("dtype", text(&dtype.to_string()))])
    }

    pub(super) fn reshape(&mut self, x: ValueId, shape: Vec<ExprId>) -> Result<ValueId> {
        if self.shape(x)? == shape {
            return Ok(x);
        }
        self.call("reshape", vec![("x", Arg::Value(x)), ("shape", Arg::Shape(shape))])
    }

    pub(super) fn permute(&mut self, x: ValueId, axes: &[i64]) -> Result<ValueId> {
        self.call("permute_dims", vec![("x", Arg::Value(x)), ("axes", ints(axes))])
    }

    pub(super) fn expand_dims(&mut self, x: ValueId, axes: &[i64]) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(x);
        }
        self.call("expand_dims", vec![("x", Arg::Value(x)), ("axis", ints(axes))])
    }

    pub(super) fn reduce(&mut self, op: &str, x: ValueId, axes: &[i64], keep: bool) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(x);
        }
        self.call(op, vec![("x", Arg::Value(x)), ("axis", ints(axes)), ("keepdims", flag(keep))])
    }

    /// `condition ? x : y`
    pub(super) fn select(&mut self, condition: ValueId, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.call("where", vec![("condition", Arg::Value(condition)), ("x1", Arg::Value(x)), ("x2", Arg::Value(y))])
    }
}

/// Integers as an attribute.
pub(super) fn ints(all: &[i64]) -> Arg {
    Arg::Attr(AttrValue::List(all.iter().map(|&v| AttrValue::Int(v)).collect()))
}

/// An integer as an attribute.
pub(super) fn int(v: i64) -> Arg {
    Arg::Attr(AttrValue::Int(v))
}

/// A float as an attribute.
pub(super) fn float(v: f64) -> Arg {
    Arg::Attr(AttrValue::Float(v))
}

/// A truth value as an attribute.
pub(super) fn flag(v: bool) -> Arg {
    Arg::Attr(AttrValue::Bool(v))
}

/// A text as an attribute.
pub(super) fn text(v: &str) -> Arg {
    Arg::Attr(AttrValue::Str(v.into()))
}
