//! `te`: placeholders, axes, computations and reductions.

use super::arguments::Bound;
use super::expr::{as_expr, dtype_of, integer, integers, to_expr};
use super::library::{Result, Run, count_tensors, known};
use super::limits::MAX_RANK;
use super::scheduling;
use super::value::{Own, Reducer, Reduction, Value, expr, tensor};
use crate::diagnostic::{Diagnostic, Severity, Span, nearest};
use crate::interpreter::call::Arguments;
use crate::interpreter::type_error;
use crate::ir::{AttrValue, DType, ExprId, Symbol};
use crate::te::{Combiner, DefinitionAxis, Te, Tensor, greatest, least};
use std::rc::Rc;

/// A function that defines something.
#[derive(Debug)]
pub(super) struct Definer {
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    params: &'static str,
    /// Whether it also stands in `tvm.tir`.
    pub in_tir: bool,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Placeholder,
    Var,
    ReduceAxis,
    Compute,
    Reduce(Combine),
    CommReducer,
    CreateSchedule,
    ThreadAxis,
    GetConfig,
}

/// The reducers that `te` has.
#[derive(Clone, Copy, Debug)]
enum Combine {
    Sum,
    Prod,
    Min,
    Max,
}

const REDUCE: &str = "expr, axis, where=None, init=None";

const ALL: &[Definer] = &[
    Definer {
        name: "placeholder",
        params: "shape, dtype='float32', name='placeholder'",
        in_tir: false,
        what: What::Placeholder,
    },
    Definer { name: "var", params: "name='tindex', dtype='int32', span=None", in_tir: false, what: What::Var },
    Definer { name: "size_var", params: "name='size', dtype='int32', span=None", in_tir: false, what: What::Var },
    Definer { name: "Var", params: "name, dtype='int32', span=None", in_tir: true, what: What::Var },
    Definer { name: "SizeVar", params: "name, dtype='int32', span=None", in_tir: true, what: What::Var },
    Definer {
        name: "reduce_axis",
        params: "dom, name='rv', thread_tag='', span=None",
        in_tir: false,
        what: What::ReduceAxis,
    },
    Definer {
        name: "compute",
        params: "shape, fcompute, name='compute', tag='', attrs=None, varargs_names=None",
        in_tir: false,
        what: What::Compute,
    },
    Definer { name: "sum", params: REDUCE, in_tir: true, what: What::Reduce(Combine::Sum) },
    Definer { name: "prod", params: REDUCE, in_tir: false, what: What::Reduce(Combine::Prod) },
    Definer { name: "min", params: REDUCE, in_tir: true, what: What::Reduce(Combine::Min) },
    Definer { name: "max", params: REDUCE, in_tir: true, what: What::Reduce(Combine::Max) },
    Definer {
        name: "comm_reducer",
        params: "fcombine, fidentity, name='reduce'",
        in_tir: true,
        what: What::CommReducer,
    },
    Definer { name: "create_schedule", params: "ops", in_tir: false, what: What::CreateSchedule },
    Definer {
        name: "thread_axis",
        params: "dom=None, tag='', name='', span=None",
        in_tir: false,
        what: What::ThreadAxis,
    },
    Definer { name: "get_config", params: "", in_tir: false, what: What::GetConfig },
];

/// The function called `name`.
pub(super) fn find(name: &str) -> Option<&'static Definer> {
    ALL.iter().find(|f| f.name == name)
}

/// The names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|f| f.name)
}

impl Definer {
    /// Whether the function stands in `autotvm`, instead of in `te`.
    pub(super) fn in_autotvm(&self) -> bool {
        matches!(self.what, What::GetConfig)
    }

    /// Calls the function.
    pub(super) fn call(&self, run: &mut Run<'_>, args: &Arguments<Own>, span: Span) -> Result<Value> {
        let bound = Bound::of(format!("te.{}", self.name), self.params, args, span)?;
        match self.what {
            What::Placeholder => placeholder(run, &bound),
            What::Var => {
                let name = bound.text(run, "name")?;
                let (dtype, at) = bound.get("dtype");
                let dtype = dtype_of(run, &dtype, at)?;
                let (var, value) = run.library.te.new_var_expr(name.as_str(), dtype);
                run.library.symbols.push(var);
                Ok(expr(value))
            }
            What::ReduceAxis => reduce_axis(run, &bound),
            What::Compute => compute(run, &bound),
            What::Reduce(how) => reduce(run, how, &bound),
            What::CreateSchedule => scheduling::create(run, &bound),
            What::ThreadAxis => scheduling::thread_axis(run, &bound),
            What::GetConfig => Ok(Value::Own(Own::Config)),
            What::CommReducer => {
                let reducer = Reducer {
                    combine: bound.get("fcombine").0,
                    identity: bound.get("fidentity").0,
                    name: bound.text(run, "name")?,
                };
                Ok(Value::Own(Own::Reducer(Rc::new(reducer))))
            }
        }
    }
}

fn placeholder(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let (shape, at) = bound.get("shape");
    let shape = extents(run, &shape, at)?;
    let dtype = match bound.get("dtype") {
        (Value::None, _) => DType::Float32,
        (dtype, at) => dtype_of(run, &dtype, at)?,
    };
    let name = bound.text(run, "name")?;
    count_tensors(run, 1, bound.span)?;
    Ok(tensor(run.library.te.placeholder(&name, dtype, &shape)))
}

/// The extents of a shape, which are not negative.
fn extents(run: &mut Run<'_>, value: &Value, span: Span) -> Result<Vec<ExprId>> {
    let shape = integers(run, value, span)?;
    if shape.len() > MAX_RANK {
        return Err(Diagnostic::error_at("limit", span, format!("a tensor has at most {MAX_RANK} dimensions")).into());
    }
    for &extent in &shape {
        if let Some(n) = run.library.te.as_int(extent).filter(|n| *n < 0) {
            return Err(type_error(span, format!("an extent cannot be negative, found {n}")));
        }
    }
    Ok(shape)
}

fn reduce_axis(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let (dom, at) = bound.get("dom");
    let items = match &dom {
        Value::Sequence(s) => s.items.clone(),
        _ => Vec::new(),
    };
    let [begin, end] = &items[..] else {
        return bound.wrong(run, "dom", "a range such as `(0, n)`");
    };
    let (min, end) = (integer(run, begin, at)?, integer(run, end, at)?);
    let te = &mut run.library.te;
    let extent = if te.is_int(min, 0) { end } else { te.sub(end, min) };
    if te.as_int(extent).is_some_and(|n| n < 0) {
        return Err(type_error(at, "the range ends before it begins"));
    }
    let name = bound.text(run, "name")?;
    let te = &mut run.library.te;
    // The first value has the type of the extent.
    let dtype = te.dtype(extent);
    let min = match te.as_int(min) {
        Some(v) if te.dtype(min) != dtype => te.int(v, dtype),
        _ => min,
    };
    Ok(Value::Own(Own::Axis(te.definition_axis(&name, min, extent))))
}

/// `te.compute(shape, lambda i, j: …)`
fn compute(run: &mut Run<'_>, bound: &Bound) -> Result<Value> {
    let (shape, shape_at) = bound.get("shape");
    let shape = extents(run, &shape, shape_at)?;
    let (function, at) = bound.get("fcompute");
    let name = bound.text(run, "name")?;
    let names = axis_names(run, bound, &function, shape.len())?;
    let te = &mut run.library.te;
    let axes: Vec<DefinitionAxis> = (names.iter().zip(&shape))
        .map(|(name, &extent)| {
            let dtype = te.dtype(extent);
            let min = te.int(0, dtype);
            te.definition_axis(name, min, extent)
        })
        .collect();
    let indices = axes.iter().map(|&a| Value::Own(Own::Axis(a))).collect();
    let result = run.call_value(&function, Arguments::positional(indices, at), at, bound.span)?;
    let results = match result {
        Value::Sequence(s) => s.items.clone(),
        one => vec![one],
    };
    count_tensors(run, results.len(), bound.span)?;
    let tensors = match results.first() {
        Some(Value::Own(Own::Reduction(reduction, _))) => {
            let all_of_it = results.iter().enumerate().all(
                |(i, v)| matches!(v, Value::Own(Own::Reduction(r, position)) if Rc::ptr_eq(r, reduction) && *position == i),
            );
            if !all_of_it || results.len() != reduction.values.len() {
                let d = Diagnostic::error_at("type", at, format!("the elements of `{name}` are of several reductions"));
                return Err(d.help("return all results of one reduction, or define each by a `te.compute`").into());
            }
            let Reduction { combiner, values, axes: reduced } = &**reduction;
            run.library.te.define_reduction(&name, &axes, reduced, combiner, values)
        }
        Some(_) => {
            let mut values = Vec::with_capacity(results.len());
            for value in &results {
                values.push(to_expr(run, value, at)?);
            }
            run.library.te.define(&name, &axes, &values)
        }
        None => return Err(type_error(at, format!("the function of `{name}` gives no element"))),
    };
    attributes(run, bound, &tensors)?;
    match &tensors[..] {
        [one] => Ok(tensor(*one)),
        several => run.list(several.iter().map(|&t| tensor(t)).collect(), true, bound.span),
    }
}

/// The names of the axes of a computation: those of its function's parameters.
fn axis_names(run: &mut Run<'_>, bound: &Bound, function: &Value, rank: usize) -> Result<Vec<String>> {
    let Value::Function(f) = function else {
        if let Value::Own(Own::Function(_) | Own::Tensor(_)) = function {
            return Ok((0..rank).map(|i| format!("i{i}")).collect());
        }
        return bound.wrong(run, "fcompute", "a function such as `lambda i, j: A[i, j]`");
    };
    let code = &run.functions[f.function];
    let mut names: Vec<String> = code.params.iter().map(|(name, _)| name.to_string()).collect();
    let at = bound.get("fcompute").1;
    if names.len() > rank {
        let (n, dimensions) = (names.len(), if rank == 1 { "dimension" } else { "dimensions" });
        let message = format!("the function has {n} parameters, and the shape {rank} {dimensions}");
        return Err(Diagnostic::error_at("index-count", at, message).into());
    }
    if code.rest.is_none() {
        return Ok(names);
    }
    let more = rank - names.len();
    match bound.get("varargs_names").0 {
        Value::Sequence(s) if s.items.len() == more => {
            for item in &s.items {
                names.push(run.text(item, at)?);
            }
        }
        Value::None => names.extend((0..more).map(|i| format!("i{i}"))),
        _ => return bound.wrong(run, "varargs_names", "as many names as there are further dimensions"),
    }
    Ok(names)
}

/// The attribute by which a computation says that the layout of inputs may be changed.
const LAYOUT_FREE: &str = "layout_free_placeholders";

/// Attributes that TVM removes from the program: they are for its own schedules.
const DROPPED: [&str; 3] = ["const_matrix", "auto_scheduler_simplify_const_tensor_indices", "workload"];

fn attributes(run: &mut Run<'_>, bound: &Bound, tensors: &[Tensor]) -> Result<()> {
    let items = match bound.get("attrs") {
        (Value::None, _) => return Ok(()),
        (Value::Dict(items), at) => items.iter().map(|(k, v)| (k.clone(), v.clone(), at)).collect::<Vec<_>>(),
        _ => return bound.wrong(run, "attrs", "a dictionary"),
    };
    for (key, value, at) in items {
        // Tensors stand in this attribute only, so another key that is near it is a misspelling.
        let holds_tensors = matches!(&value, Value::Sequence(s) if !s.items.is_empty()
            && s.items.iter().all(|v| matches!(v, Value::Own(Own::Tensor(_)))));
        let mut key = key;
        if *key != *LAYOUT_FREE && holds_tensors {
            let d = match nearest(&key, [LAYOUT_FREE]) {
                Some(near) => {
                    let message = format!("`{key}` is no attribute of tensors, and is taken as `{near}`");
                    let d = Diagnostic::error_at("unknown-attribute", at, message).help(format!("write `{near}`"));
                    Diagnostic { severity: Severity::Warning, ..d }
                }
                None => {
                    let d =
                        Diagnostic::error_at("unknown-attribute", at, format!("`{key}` is no attribute of tensors"));
                    return Err(d.help(format!("there is `{LAYOUT_FREE}`")).into());
                }
            };
            run.library.warnings.push(d);
            key = LAYOUT_FREE.into();
        }
        if *key == *LAYOUT_FREE {
            let Value::Sequence(s) = &value else {
                return bound.wrong(run, "attrs", "a list of tensors as `layout_free_placeholders`");
            };
            for item in &s.items {
                match item {
                    Value::Own(Own::Tensor(t)) => run.library.layout_free.push(*t),
                    other => {
                        let found = other.describe(&run.library);
                        return Err(type_error(at, format!("expected tensors in `{LAYOUT_FREE}`, found {found}")));
                    }
                }
            }
        } else if !DROPPED.contains(&&*key)
            && let Some(value) = attr_value(&value)
        {
            for &t in &tensors[..1] {
                run.library.te.annotate(t, &key, value.clone());
            }
        }
    }
    Ok(())
}

/// A value as an annotation; `None` if it cannot be one.
fn attr_value(value: &Value) -> Option<AttrValue> {
    Some(match value {
        Value::None => AttrValue::None,
        Value::Bool(v) => AttrValue::Bool(*v),
        Value::Int(v) => AttrValue::Int(*v),
        Value::Float(v) => AttrValue::Float(*v),
        Value::Str(s) => AttrValue::Str(Symbol::new(s)),
        Value::Sequence(s) => AttrValue::List(s.items.iter().map(attr_value).collect::<Option<_>>()?),
        Value::Own(Own::Expr(e)) => AttrValue::Expr(*e),
        Value::Range(..) | Value::Dict(_) | Value::Function(_) | Value::Own(_) => return None,
    })
}

/// `te.sum(expr, axis)`; of two scalars, `te.max(a, b)` is the larger one.
fn reduce(run: &mut Run<'_>, how: Combine, bound: &Bound) -> Result<Value> {
    let ((value, value_at), (axis, axis_at)) = (bound.get("expr"), bound.get("axis"));
    if let Value::Own(Own::Tensor(_)) = value {
        let name = bound.function.replace("te.", "");
        let d =
            Diagnostic::error_at("type", value_at, format!("`{}` combines elements, found a tensor", bound.function));
        return Err(d.help(format!("write `topi.{name}(…)`, or `{}(A[i, k], axis=k)`", bound.function)).into());
    }
    let Some(axes) = reduced_axes(run, &axis) else {
        // Two scalars.
        let (a, b) = (to_expr(run, &value, value_at)?, to_expr(run, &axis, axis_at)?);
        let (a, b) = super::expr::matched(run, a, b, bound.span)?;
        return Ok(expr(combined(&mut run.library.te, how, a, b)));
    };
    check_condition(run, bound)?;
    let value = to_expr(run, &value, value_at)?;
    let te = &mut run.library.te;
    let dtype = te.dtype(value);
    let identity = match how {
        Combine::Sum => te.constant(0, dtype),
        Combine::Prod => te.constant(1, dtype),
        Combine::Min => greatest(te, dtype),
        Combine::Max => least(te, dtype),
    };
    let combiner = te.combiner(dtype, identity, |te, a, b| combined(te, how, a, b));
    reduction(run, combiner, vec![value], axes, axis_at, bound.span)
}

/// Refuses `where` and `init`, which TVM drops silently.
fn check_condition(run: &mut Run<'_>, bound: &Bound) -> Result<()> {
    let (condition, at) = bound.get("where");
    if !matches!(condition, Value::None) && known(run, &condition, at)? != Some(true) {
        let d = Diagnostic::error_at("unsupported", at, "a reduction with a condition is not supported");
        return Err(d.help("put it into the value: `tvm.tir.if_then_else(condition, x, 0)`").into());
    }
    let (init, at) = bound.get("init");
    if !matches!(init, Value::None) {
        let d = Diagnostic::error_at("unsupported", at, "a reduction with another first value is not supported");
        return Err(d.help("add it in a `te.compute` that follows").into());
    }
    Ok(())
}

fn combined(te: &mut Te, how: Combine, a: ExprId, b: ExprId) -> ExprId {
    match how {
        Combine::Sum => te.add(a, b),
        Combine::Prod => te.mul(a, b),
        Combine::Min => te.min(a, b),
        Combine::Max => te.max(a, b),
    }
}

/// The axes of a reduction; `None` if the value is no axis.
fn reduced_axes(run: &Run<'_>, value: &Value) -> Option<Vec<DefinitionAxis>> {
    let axis = |v: &Value| match v {
        Value::Own(Own::Axis(a)) => Some(*a),
        _ => None,
    };
    let _ = run;
    match value {
        Value::Sequence(s) => s.items.iter().map(axis).collect(),
        one => axis(one).map(|a| vec![a]),
    }
}

fn reduction(
    run: &mut Run<'_>,
    combiner: Combiner,
    values: Vec<ExprId>,
    axes: Vec<DefinitionAxis>,
    axis_at: Span,
    span: Span,
) -> Result<Value> {
    if axes.is_empty() {
        return Err(type_error(axis_at, "a reduction needs an axis"));
    }
    if axes.len() > MAX_RANK {
        let message = format!("a reduction has at most {MAX_RANK} axes");
        return Err(Diagnostic::error_at("limit", axis_at, message).into());
    }
    let n = values.len();
    let reduction = Rc::new(Reduction { combiner, values, axes });
    let results = (0..n).map(|i| Value::Own(Own::Reduction(Rc::clone(&reduction), i)));
    match n {
        1 => Ok(Value::Own(Own::Reduction(reduction, 0))),
        _ => run.list(results.collect(), true, span),
    }
}

/// A call of what `te.comm_reducer` gave.
pub(super) fn reduce_by(run: &mut Run<'_>, reducer: &Reducer, args: &Arguments<Own>, span: Span) -> Result<Value> {
    let bound = Bound::of(reducer.name.clone(), REDUCE, args, span)?;
    let ((value, value_at), (axis, axis_at)) = (bound.get("expr"), bound.get("axis"));
    let Some(axes) = reduced_axes(run, &axis) else {
        let both = vec![value, axis];
        return run.call_value(&reducer.combine, Arguments::positional(both, span), span, span);
    };
    check_condition(run, &bound)?;
    let values = match &value {
        Value::Sequence(s) => s.items.clone(),
        one => vec![one.clone()],
    };
    let values = values.iter().map(|v| to_expr(run, v, value_at)).collect::<Result<Vec<ExprId>>>()?;
    let types: Vec<DType> = values.iter().map(|&v| run.library.te.dtype(v)).collect();
    let names = types.iter().map(|t| Value::Str(t.name().into())).collect();
    let identity = run.call_value(&reducer.identity, Arguments::positional(names, span), span, span)?;
    let te = &mut run.library.te;
    let mut vars = |prefix: &str| -> Vec<_> {
        types.iter().enumerate().map(|(i, &t)| te.new_var_expr(format!("{prefix}{i}").as_str(), t)).collect()
    };
    let (lhs, rhs) = (vars("lhs"), vars("rhs"));
    // A reducer of one value is given the values, one of several is given tuples of them.
    let mut pair = Vec::with_capacity(2);
    for side in [&lhs, &rhs] {
        let items: Vec<Value> = side.iter().map(|&(_, e)| expr(e)).collect();
        pair.push(match (items.len(), items.first()) {
            (1, Some(one)) => one.clone(),
            _ => run.list(items, true, span)?,
        });
    }
    let result = run.call_value(&reducer.combine, Arguments::positional(pair, span), span, span)?;
    let mut parts = |value: Value, what: &str| -> Result<Vec<ExprId>> {
        let items = match &value {
            Value::Sequence(s) => s.items.clone(),
            one => vec![one.clone()],
        };
        if items.len() != types.len() {
            let message =
                format!("`{}` combines {} values, and its {what} gives {}", reducer.name, types.len(), items.len());
            return Err(type_error(span, message));
        }
        let mut all = Vec::with_capacity(items.len());
        for (item, &dtype) in items.iter().zip(&types) {
            let e = to_expr(run, item, span)?;
            let is_literal = matches!(item, Value::Int(_) | Value::Float(_) | Value::Bool(_));
            let found = run.library.te.dtype(e);
            if found != dtype && !is_literal {
                let message = format!("the {what} of `{}` gives `{found}` where values are `{dtype}`", reducer.name);
                return Err(type_error(span, message));
            }
            all.push(run.library.te.converted(dtype, e));
        }
        Ok(all)
    };
    let (result, identity) = (parts(result, "combination")?, parts(identity, "identity")?);
    let vars = |side: Vec<(_, ExprId)>| side.into_iter().map(|(v, _)| v).collect();
    let combiner = Combiner { lhs: vars(lhs), rhs: vars(rhs), result, identity };
    reduction(run, combiner, values, axes, axis_at, span)
}

/// `of.name`
pub(super) fn attribute(run: &mut Run<'_>, of: &Value, name: &str, span: Span) -> Result<Value> {
    let te = &mut run.library.te;
    let found = match (of, name) {
        (Value::Own(Own::Tensor(t)), "shape") => {
            let shape = te.shape(*t).to_vec();
            Some(run.list(shape.into_iter().map(expr).collect(), true, span)?)
        }
        (Value::Own(Own::Tensor(t)), "ndim") => Some(Value::Int(te.shape(*t).len() as i64)),
        (Value::Own(Own::Tensor(t)), "dtype") => Some(Value::Str(te.element_type(*t).name().into())),
        (Value::Own(Own::Tensor(t) | Own::Operation(t)), "name") => {
            Some(Value::Str(te.buffer_name(*t).as_str().into()))
        }
        (Value::Own(Own::Tensor(t)), "op") => Some(Value::Own(Own::Operation(*t))),
        (Value::Own(Own::Tensor(_)), "value_index") => Some(Value::Int(0)),
        (Value::Own(Own::Operation(t)), "axis" | "reduce_axis") => {
            let reduced = name == "reduce_axis";
            let axes = te.stage_axes(*t).into_iter().filter(|(_, r)| *r == reduced).map(|(a, _)| Own::Axis(a));
            Some(Value::list_of(axes.collect::<Vec<_>>().into_iter()))
        }
        (Value::Own(Own::Operation(t)), "input_tensors") => {
            let all = te.producers(*t);
            Some(Value::list_of(all.into_iter().map(Own::Tensor)))
        }
        (Value::Own(Own::Operation(_)), "tag") => Some(Value::Str("".into())),
        (Value::Own(Own::Axis(a)), "var") => {
            let var = te.var_expr(a.var);
            Some(expr(var))
        }
        (Value::Own(Own::Axis(a)), "dom") => {
            let (min, extent) = (a.min, a.extent);
            Some(run.list(vec![expr(min), expr(extent)], true, span)?)
        }
        (Value::Own(Own::Expr(e)), "value") => match (te.as_int(*e), te.as_float(*e)) {
            (Some(v), _) => Some(Value::Int(v)),
            (_, Some(v)) => Some(Value::Float(v)),
            _ => None,
        },
        (Value::Own(Own::Expr(_) | Own::Axis(_)), "dtype") => {
            let e = as_expr(run, of);
            e.map(|e| Value::Str(run.library.te.dtype(e).name().into()))
        }
        _ => None,
    };
    found.ok_or_else(|| {
        let found = of.describe(&run.library);
        let known: &[&str] = match of {
            Value::Own(Own::Tensor(_)) => &["shape", "ndim", "dtype", "name", "op"],
            Value::Own(Own::Operation(_)) => &["name", "axis", "reduce_axis", "input_tensors", "output"],
            Value::Own(Own::Axis(_)) => &["var", "dom", "dtype"],
            _ => &[],
        };
        let near = nearest(name, known.iter().copied()).map(|n| format!("did you mean `{n}`?"));
        Diagnostic::error_at("unknown-attribute", span, format!("{found} has no attribute `{name}`"))
            .maybe_help(near)
            .into()
    })
}

/// `C.op.output(i)`
pub(super) fn output(run: &mut Run<'_>, t: Tensor, at: &Value, span: Span) -> Result<Value> {
    let all = run.library.te.computed_with(t);
    match at.int(&run.library).and_then(|i| usize::try_from(i).ok()).and_then(|i| all.get(i)) {
        Some(&one) => Ok(tensor(one)),
        None => Err(type_error(span, format!("the operation has {} outputs", all.len()))),
    }
}
