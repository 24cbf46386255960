//! Operators on integers that are known: from `Shape` to the shape that `Reshape` takes.
//!
//! ```text
//! s = Shape(x)                 [n, 3, 8]
//! b = Gather(s, 0)             n
//! t = Concat(Unsqueeze(b), -1) [n, -1]
//! y = Reshape(z, t)            R.reshape(z, (n, -1))
//! ```
//!
//! Where an operator, or a type of elements, is not followed, the node is translated like others.

use super::extents::{Extents, simplified};
use super::node::Node;
use crate::ir::{BinOp, DType, ExprId};

/// The result of a node whose arguments are known; `None` if it is not followed.
pub(super) fn fold(node: &mut Node<'_, '_>) -> Option<Extents> {
    let name = node.op_type();
    match name {
        "Shape" | "Size" => return of_shape(node, name),
        "Identity" | "Cast" | "Gather" | "Concat" | "Slice" | "Squeeze" | "Unsqueeze" | "Reshape" | "Flatten"
        | "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Max" | "Min" | "Neg" | "ReduceProd" | "ReduceSum" | "ReduceMax"
        | "ReduceMin" | "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" | "Not"
        | "Where" | "ConstantOfShape" | "Expand" | "Range" => {}
        _ => return None,
    }
    let inputs: Vec<Option<Extents>> = (0..node.n_inputs()).map(|i| node.extents(i)).collect();
    // An argument that is given must be known.
    if inputs.is_empty() || (0..inputs.len()).any(|i| node.has(i) && inputs[i].is_none()) {
        return None;
    }
    let x = inputs[0].clone()?;
    let at = |i: usize| inputs.get(i).cloned().flatten();
    match name {
        "Identity" => Some(x),
        "Cast" => {
            let to = super::types::dtype(i32::try_from(node.int("to", 0)).ok()?).ok()?;
            let fits = |v: i64| to == DType::Int64 || to == DType::Int32 && i32::try_from(v).is_ok();
            let known = x.ints(node.arena());
            match (x.dtype, to, known) {
                (DType::Int64 | DType::Int32, DType::Int64, _) => Some(Extents { dtype: to, ..x }),
                // Extents that are symbols fit 32 bits wherever tensors fit the memory.
                (DType::Int64 | DType::Int32, DType::Int32, None) => Some(Extents { dtype: to, ..x }),
                (_, DType::Int32 | DType::Int64, Some(all)) if all.iter().all(|&v| fits(v)) => {
                    Some(Extents { dtype: to, ..x })
                }
                (_, DType::Bool, Some(all)) => {
                    let bits = all.iter().map(|&v| node.index(i64::from(v != 0))).collect();
                    Extents::new(DType::Bool, x.shape, bits)
                }
                _ => None,
            }
        }
        "Gather" => gather(node, &x, &at(1)?),
        "Concat" => concat(node, inputs.into_iter().collect::<Option<Vec<_>>>()?),
        "Slice" if x.shape.len() == 1 => slice(node, &x, &inputs),
        "Squeeze" => {
            let axes = match at(1) {
                Some(axes) => axes.ints(node.arena())?,
                None => node.ints("axes").unwrap_or_else(|| ones(&x.shape)),
            };
            let rank = x.shape.len() as i64;
            let axes: Vec<i64> = axes.iter().map(|a| a.rem_euclid(rank.max(1))).collect();
            let kept = (0..rank).filter(|d| !axes.contains(d)).map(|d| x.shape[d as usize]).collect();
            Extents::new(x.dtype, kept, x.elements)
        }
        "Unsqueeze" => {
            let axes = match at(1) {
                Some(axes) => axes.ints(node.arena())?,
                None => node.ints("axes")?,
            };
            let rank = (x.shape.len() + axes.len()) as i64;
            let axes: Vec<i64> = axes.iter().map(|a| a.rem_euclid(rank)).collect();
            let mut rest = x.shape.iter();
            let shape = (0..rank).map(|d| if axes.contains(&d) { Some(1) } else { rest.next().copied() });
            Extents::new(x.dtype, shape.collect::<Option<_>>()?, x.elements)
        }
        "Reshape" => {
            let mut shape = at(1)?.ints(node.arena())?;
            if node.int("allowzero", 0) != 0 {
                return None;
            }
            for (d, n) in shape.iter_mut().enumerate() {
                if *n == 0 {
                    *n = *x.shape.get(d)?;
                }
            }
            if let Some(open) = shape.iter().position(|&n| n == -1) {
                let rest: i64 = shape.iter().filter(|&&n| n != -1).product();
                shape[open] = (x.elements.len() as i64).checked_div(rest)?;
            }
            Extents::new(x.dtype, shape, x.elements)
        }
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Max" | "Min" => {
            if name == "Mod" && node.int("fmod", 0) != 0 {
                return None;
            }
            let mut all = inputs.into_iter();
            let first = all.next().flatten()?;
            all.try_fold(first, |x, y| combine(node, name, &x, &y?))
        }
        "Neg" => {
            let zero = node.index(0);
            let elements = x.elements.iter().map(|&e| node.arena().sub(zero, e)).collect();
            Extents::new(x.dtype, x.shape, elements)
        }
        "ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin" if x.shape.len() == 1 && !x.elements.is_empty() => {
            let axes = match at(1) {
                Some(axes) => Some(axes.ints(node.arena())?),
                None => node.ints("axes"),
            };
            if axes.is_some_and(|axes| !matches!(axes[..], [0] | [-1])) || node.int("noop_with_empty_axes", 0) != 0 {
                return None;
            }
            let name = match name {
                "ReduceProd" => "Mul",
                "ReduceSum" => "Add",
                "ReduceMax" => "Max",
                _ => "Min",
            };
            let one = |e: ExprId| Extents { dtype: x.dtype, shape: Vec::new(), elements: vec![e] };
            let mut all = x.elements.iter().map(|&e| one(e));
            let first = all.next()?;
            let result = all.try_fold(first, |a, b| combine(node, name, &a, &b))?;
            let shape = if node.int("keepdims", 1) != 0 { vec![1] } else { Vec::new() };
            Extents::new(x.dtype, shape, result.elements)
        }
        "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" => {
            combine(node, name, &x, &at(1)?)
        }
        "Not" => {
            let bits = x.ints(node.arena())?.iter().map(|&v| node.index(i64::from(v == 0))).collect();
            Extents::new(DType::Bool, x.shape, bits)
        }
        "Where" => {
            let (yes, no) = (at(1)?, at(2)?);
            let shape = broadcast(&broadcast(&x.shape, &yes.shape)?, &no.shape)?;
            let conditions = Extents::new(DType::Int64, x.shape.clone(), x.elements.clone())?.ints(node.arena())?;
            let mut elements = Vec::new();
            for i in positions(&shape) {
                let condition = conditions[offset(&i, &x.shape)];
                let chosen = if condition != 0 { &yes } else { &no };
                elements.push(chosen.elements[offset(&i, &chosen.shape)]);
            }
            Extents::new(yes.dtype, shape, elements)
        }
        "ConstantOfShape" => {
            let shape = x.ints(node.arena())?;
            let value = match node.tensor("value") {
                Some(value) => node.constant_of(value).ok()?,
                None => return None,
            };
            let value = Extents::of(&value, node.arena())?;
            let n = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(usize::try_from(extent).ok()?))?;
            (n <= 64).then_some(())?;
            Extents::new(value.dtype, shape, vec![*value.elements.first()?; n])
        }
        "Expand" => {
            let shape = broadcast(&x.shape, &at(1)?.ints(node.arena())?)?;
            let n = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(usize::try_from(extent).ok()?))?;
            (n <= 64).then_some(())?;
            let elements = positions(&shape).iter().map(|i| x.elements[offset(i, &x.shape)]).collect();
            Extents::new(x.dtype, shape, elements)
        }
        "Range" => {
            let number = |node: &mut Node<'_, '_>, e: Extents| e.ints(node.arena())?.first().copied();
            let (start, limit) = (number(node, x.clone())?, number(node, at(1)?)?);
            let step = number(node, at(2)?)?;
            let n = match step {
                0 => return None,
                s if s > 0 => limit.checked_sub(start)?.checked_add(s - 1)?.div_euclid(s),
                s => start.checked_sub(limit)?.checked_add(-s - 1)?.div_euclid(-s),
            };
            let n = n.max(0);
            (n <= 64).then_some(())?;
            let elements = (0..n).map(|i| node.index(start + i * step)).collect();
            Extents::new(x.dtype, vec![n], elements)
        }
        _ => None,
    }
}

fn of_shape(node: &mut Node<'_, '_>, name: &str) -> Option<Extents> {
    let shape = node.input_shape(0)?;
    if name == "Size" {
        let mut n = node.index(1);
        for e in shape {
            n = node.arena().mul(n, e);
        }
        let n = simplified(node.arena(), n);
        return Extents::new(DType::Int64, Vec::new(), vec![n]);
    }
    let rank = shape.len() as i64;
    let bound = |v: i64| if v < 0 { v.saturating_add(rank) } else { v }.clamp(0, rank) as usize;
    let (start, end) = (bound(node.int("start", 0)), bound(node.int("end", rank)));
    let shape = shape.get(start..end.max(start))?.to_vec();
    Extents::new(DType::Int64, vec![shape.len() as i64], shape)
}

fn gather(node: &mut Node<'_, '_>, x: &Extents, indices: &Extents) -> Option<Extents> {
    // Shapes have one dimension.
    if x.shape.len() != 1 || !matches!(node.int("axis", 0), 0 | -1) {
        return None;
    }
    let n = x.elements.len() as i64;
    let at = |&i: &i64| x.elements.get(usize::try_from(if i < 0 { i + n } else { i }).ok()?).copied();
    let elements = indices.ints(node.arena())?.iter().map(at).collect::<Option<_>>()?;
    Extents::new(x.dtype, indices.shape.clone(), elements)
}

fn concat(node: &mut Node<'_, '_>, parts: Vec<Extents>) -> Option<Extents> {
    if parts.iter().any(|p| p.shape.len() != 1) || !matches!(node.int("axis", 0), 0 | -1) {
        return None;
    }
    let dtype = parts[0].dtype;
    let elements: Vec<ExprId> = parts.into_iter().flat_map(|p| p.elements).collect();
    Extents::new(dtype, vec![elements.len() as i64], elements)
}

fn slice(node: &mut Node<'_, '_>, x: &Extents, inputs: &[Option<Extents>]) -> Option<Extents> {
    let mut given = |i: usize, name: &str| match inputs.get(i).cloned().flatten() {
        Some(e) => e.ints(node.arena()),
        None => node.ints(name),
    };
    let (starts, ends) = (given(1, "starts")?, given(2, "ends")?);
    let axes = given(3, "axes").unwrap_or_else(|| vec![0]);
    let steps = given(4, "steps").unwrap_or_else(|| vec![1]);
    let ([start], [end], [0 | -1], [step]) = (&starts[..], &ends[..], &axes[..], &steps[..]) else { return None };
    let n = x.elements.len() as i64;
    let from_end = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    let mut elements = Vec::new();
    let (low, high) = if *step > 0 { (0, n) } else { (-1, n - 1) };
    let (mut at, end) = (from_end(*start).clamp(low.max(0), high), from_end(*end).clamp(low, high));
    while *step > 0 && at < end || *step < 0 && at > end {
        elements.push(*x.elements.get(usize::try_from(at).ok()?)?);
        at = at.checked_add(*step)?;
    }
    Extents::new(x.dtype, vec![elements.len() as i64], elements)
}

/// An elementwise function of two tensors.
fn combine(node: &mut Node<'_, '_>, name: &str, x: &Extents, y: &Extents) -> Option<Extents> {
    let shape = broadcast(&x.shape, &y.shape)?;
    let is_predicate = matches!(name, "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or");
    let mut elements = Vec::new();
    for i in positions(&shape) {
        let (a, b) = (x.elements[offset(&i, &x.shape)], y.elements[offset(&i, &y.shape)]);
        let known = (node.arena().as_int(a), node.arena().as_int(b));
        let e = match known {
            (Some(a), Some(b)) => {
                let value = match name {
                    "Add" => a.checked_add(b)?,
                    "Sub" => a.checked_sub(b)?,
                    "Mul" => a.checked_mul(b)?,
                    "Div" => a.checked_div(b)?,
                    "Mod" if b > 0 => a.rem_euclid(b),
                    "Max" => a.max(b),
                    "Min" => a.min(b),
                    "Equal" => i64::from(a == b),
                    "Less" => i64::from(a < b),
                    "Greater" => i64::from(a > b),
                    "LessOrEqual" => i64::from(a <= b),
                    "GreaterOrEqual" => i64::from(a >= b),
                    "And" => i64::from(a != 0 && b != 0),
                    "Or" => i64::from(a != 0 || b != 0),
                    _ => return None,
                };
                if x.dtype == DType::Int32 {
                    i32::try_from(value).ok()?;
                }
                node.index(value)
            }
            // Extents are never negative.
            (_, Some(b)) if name == "Equal" && b < 0 => node.index(0),
            (Some(a), _) if name == "Equal" && a < 0 => node.index(0),
            _ if is_predicate => return None,
            (_, b) => {
                let op = match name {
                    "Add" => BinOp::Add,
                    "Sub" => BinOp::Sub,
                    "Mul" => BinOp::Mul,
                    "Div" if b.is_some_and(|b| b > 0) => BinOp::FloorDiv,
                    "Mod" if b.is_some_and(|b| b > 0) => BinOp::FloorMod,
                    "Max" => BinOp::Max,
                    "Min" => BinOp::Min,
                    _ => return None,
                };
                let e = node.arena().binary(op, a, y.elements[offset(&i, &y.shape)]);
                simplified(node.arena(), e)
            }
        };
        elements.push(e);
    }
    Extents::new(if is_predicate { DType::Bool } else { x.dtype }, shape, elements)
}

fn ones(shape: &[i64]) -> Vec<i64> {
    (0..shape.len()).filter(|&d| shape[d] == 1).map(|d| d as i64).collect()
}

fn broadcast(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[i64], d: usize| (d + shape.len()).checked_sub(rank).map_or(1, |d| shape[d]);
    let one = |d| match (at(a, d), at(b, d)) {
        (x, y) if x == y => Some(x),
        (1, y) => Some(y),
        (x, 1) => Some(x),
        _ => None,
    };
    (0..rank).map(one).collect()
}

/// All indices of a shape, in row-major order.
fn positions(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for &n in shape {
        all = all.iter().flat_map(|i: &Vec<i64>| (0..n).map(|k| [&i[..], &[k]].concat())).collect();
    }
    all
}

/// The position of an element of a tensor that is repeated along dimensions of extent 1.
fn offset(index: &[i64], shape: &[i64]) -> usize {
    let index = &index[index.len() - shape.len()..];
    index.iter().zip(shape).fold(0, |at, (&i, &n)| at * n + if n == 1 { 0 } else { i }) as usize
}
