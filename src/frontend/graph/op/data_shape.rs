//! Operators the shapes of whose results depend on elements: these must follow from constants, and so do the results. The meaning is
//! NumPy's, as TVM computes them by NumPy.

use super::*;
use crate::graph::infer::Args;
use crate::graph::{Arg, Constant};
use crate::ir::Arena;
use std::cmp::Ordering;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "nonzero",
        params: &[required("x", Kind::Constant)],
        infer: |cx| types(cx, nonzero),
        lower: Lowering::Known(nonzero),
        doc: "The indices of the elements of a constant that are not 0: one row for each dimension.",
    },
    Operator {
        name: "unique",
        params: &[
            required("x", Kind::Constant),
            optional("sorted", Kind::Prim, Default::Absent),
            optional("return_index", Kind::Prim, Default::Absent),
            optional("return_inverse", Kind::Prim, Default::Absent),
            optional("return_counts", Kind::Prim, Default::Absent),
            optional("axis", Kind::Prim, Default::Absent),
        ],
        infer: |cx| types(cx, unique),
        lower: Lowering::Known(unique),
        doc: "The distinct elements of a constant, or its distinct parts along an axis, in ascending order or that in which they come; \
              on demand their first indices, the index of each element among them, and how often each occurs.",
    },
];

/// The type of known results.
fn types(
    cx: &mut Infer<'_>,
    results: fn(&Args<'_>, &Arena) -> Result<Vec<Constant>, OpError>,
) -> Result<Type, OpError> {
    let results = results(cx, cx.arena)?;
    let mut types: Vec<Type> = (results.iter())
        .map(|result| {
            let shape = result.shape().iter().map(|&n| cx.extent(n)).collect();
            Type::tensor(result.dtype(), shape)
        })
        .collect();
    Ok(if types.len() == 1 { types.swap_remove(0) } else { Type::Tuple(types) })
}

fn nonzero(args: &Args<'_>, arena: &Arena) -> Result<Vec<Constant>, OpError> {
    let x = args.elements("x", arena)?;
    // A number is a tensor of one.
    let shape = if x.shape().is_empty() { &[1][..] } else { x.shape() };
    let is_counted = |&i: &usize| x.float(i) != Some(0.0);
    let found: Vec<usize> = (0..x.len()).filter(is_counted).collect();
    let mut indices = Vec::with_capacity(shape.len() * found.len());
    let mut inner = x.len();
    for &extent in shape {
        // There is an element only if no extent is 0.
        inner /= (extent as usize).max(1);
        indices.extend(found.iter().map(|&i| (i / inner) as i64 % extent));
    }
    Ok(vec![Constant::integers(&indices).reshaped(&[shape.len() as i64, found.len() as i64])])
}

fn unique(args: &Args<'_>, arena: &Arena) -> Result<Vec<Constant>, OpError> {
    let x = args.elements("x", arena)?;
    let number = |name: &str| match args.get(name) {
        Arg::Prim(e) => arena.as_const(*e).map(|c| c.as_f64()),
        _ => None,
    };
    let is_set = |name: &str| number(name).is_some_and(|v| v != 0.0);
    let axis = match number("axis") {
        Some(axis) => Some(args.axis(axis as i64, x.shape().len())?),
        None => None,
    };
    let parts = Parts::of(&x, axis);
    let mut order: Vec<usize> = (0..parts.n).collect();
    order.sort_by(|&a, &b| parts.compare(a, b));
    // The first parts of each kind, and the kind of each part.
    let (mut first, mut kind) = (Vec::new(), vec![0; parts.n]);
    for &part in &order {
        if first.last().is_none_or(|&last| !parts.are_equal(last, part)) {
            first.push(part);
        }
        kind[part] = first.len() - 1;
    }
    let is_sorted = number("sorted").is_none_or(|v| v != 0.0);
    if !is_sorted {
        let mut by_place: Vec<usize> = (0..first.len()).collect();
        by_place.sort_by_key(|&k| first[k]);
        let mut place = vec![0; first.len()];
        by_place.iter().enumerate().for_each(|(at, &k)| place[k] = at);
        first.sort_unstable();
        kind.iter_mut().for_each(|k| *k = place[*k]);
    }
    let integers =
        |values: &mut dyn Iterator<Item = usize>| Constant::integers(&values.map(|v| v as i64).collect::<Vec<_>>());
    let mut results = vec![parts.taken(&first)];
    if is_set("return_index") {
        results.push(integers(&mut first.iter().copied()));
    }
    if is_set("return_inverse") {
        results.push(integers(&mut kind.iter().copied()));
    }
    if is_set("return_counts") {
        let mut counts = vec![0; first.len()];
        kind.iter().for_each(|&k| counts[k] += 1);
        results.push(integers(&mut counts.into_iter()));
    }
    Ok(results)
}

/// A tensor as parts: elements, or what has one index along an axis.
struct Parts<'a> {
    x: &'a Constant,
    axis: Option<usize>,
    /// The number of parts.
    n: usize,
    /// The number of elements in front of the axis, by dimensions before it, and behind each index of the axis.
    outer: usize,
    inner: usize,
}

impl<'a> Parts<'a> {
    fn of(x: &'a Constant, axis: Option<usize>) -> Parts<'a> {
        let product = |extents: &[i64]| extents.iter().product::<i64>() as usize;
        match axis {
            None => Parts { x, axis, n: x.len(), outer: 1, inner: 1 },
            Some(d) => {
                let shape = x.shape();
                Parts { x, axis, n: shape[d] as usize, outer: product(&shape[..d]), inner: product(&shape[d + 1..]) }
            }
        }
    }

    /// The elements of a part, as positions in the tensor.
    fn positions(&self, part: usize) -> impl Iterator<Item = usize> + use<> {
        let (n, inner) = (self.n, self.inner);
        (0..self.outer).flat_map(move |o| (0..inner).map(move |i| (o * n + part) * inner + i))
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let pairs = self.positions(a).zip(self.positions(b));
        pairs.map(|(a, b)| compare(self.x, a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Elements that are no numbers are equal; parts with such differ.
    fn are_equal(&self, a: usize, b: usize) -> bool {
        let has_nan =
            |part| self.axis.is_some() && self.positions(part).any(|i| self.x.float(i).is_some_and(f64::is_nan));
        self.compare(a, b).is_eq() && !has_nan(a)
    }

    /// Some of the parts, in this order.
    fn taken(&self, parts: &[usize]) -> Constant {
        let size = self.x.dtype().bytes();
        let mut data = Vec::with_capacity(parts.len() * self.outer * self.inner * size);
        for o in 0..self.outer {
            for &part in parts {
                let start = (o * self.n + part) * self.inner * size;
                data.extend_from_slice(&self.x.data()[start..start + self.inner * size]);
            }
        }
        let mut shape = vec![parts.len() as i64];
        if let Some(axis) = self.axis {
            shape = self.x.shape().to_vec();
            shape[axis] = parts.len() as i64;
        }
        Constant::of_bytes(self.x.dtype(), &shape, data)
    }
}

/// Compares two elements; what is no number comes last.
fn compare(x: &Constant, a: usize, b: usize) -> Ordering {
    if x.dtype() == DType::UInt64 {
        return x.int(a).map(|v| v as u64).cmp(&x.int(b).map(|v| v as u64));
    }
    if let (Some(a), Some(b)) = (x.int(a), x.int(b)) {
        return a.cmp(&b);
    }
    let (a, b) = (x.float(a).unwrap_or(f64::NAN), x.float(b).unwrap_or(f64::NAN));
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused, results, type_of};

    #[test]
    fn shapes_follow_from_constants() {
        assert_eq!(type_of("", r#"R.nonzero(R.const([[0, 1], [2, 0]], "int32"))"#), "int64 [2, 2]");
        assert_eq!(type_of("", r#"R.nonzero(R.const(3, "int32"))"#), "int64 [1, 1]");
        assert_eq!(type_of("", r#"R.unique(R.const([2, 1, 2], "float32"))"#), "float32 [2]");
        let all = r#"R.unique(R.const([2, 1, 2], "float32"), True, True, True, True)"#;
        assert_eq!(type_of("", all), "(float32 [2], int64 [2], int64 [3], int64 [2])");
        let rows = r#"R.unique(R.const([[2, 1], [3, 1], [2, 1]], "int8"), axis=-2)"#;
        assert_eq!(type_of("", rows), "int8 [2, 2]");
    }

    #[test]
    fn operands_may_be_computed_from_constants() {
        let call = r#"R.nonzero(R.greater(R.add(R.const([1, 5, 3], "int32"), R.const([1, 1, 1], "int32")), R.const(3, "int32")))"#;
        assert_eq!(type_of("", call), "int64 [1, 2]");
        let call = r#"R.unique(R.split(R.const([1, 1, 2, 3], "int32"), 2)[0])"#;
        assert_eq!(type_of("", call), "int32 [1]");
    }

    #[test]
    fn inputs_are_refused() {
        let params = r#"x: R.Tensor((3,), "float32")"#;
        refused(params, "R.nonzero(x)", &["`R.nonzero`", "`x` must follow from constants or weights"]);
        refused(params, "R.unique(R.exp(x))", &["`R.unique`", "`x` must follow from constants or weights"]);
        refused("", r#"R.unique(R.const([1, 2], "int32"), axis=1)"#, &["axis 1 is outside of the 1 dimensions"]);
    }

    #[test]
    fn elements_are_found() {
        let call = r#"R.astype(R.nonzero(R.const([[0, 1, 0], [2, 0, 3]], "int32")), "float32")"#;
        check(&[], call, &[0.0, 1.0, 1.0, 1.0, 0.0, 2.0]);
        check(&[], r#"R.unique(R.const([[3, 1], [2, 3]], "float32"))"#, &[1.0, 2.0, 3.0]);
        check(&[], r#"R.unique(R.const([[3, 1], [2, 3]], "float32"), False)"#, &[3.0, 1.0, 2.0]);
        check(&[], r#"R.unique(R.const([[3, 1, 3], [2, 5, 2]], "float32"), axis=1)"#, &[1.0, 3.0, 5.0, 2.0]);
    }

    #[test]
    fn kinds_are_counted_in_either_order() {
        let of = |item: usize, sorted: &str| {
            let call = format!(r#"R.unique(R.const([7, 3, 7, 9, 3, 7], "int32"), {sorted}, True, True, True)"#);
            results(&[], &format!("R.astype({call}[{item}], \"float32\")")).swap_remove(0)
        };
        let ascending: [&[f32]; 4] =
            [&[3.0, 7.0, 9.0], &[1.0, 0.0, 3.0], &[1.0, 0.0, 1.0, 2.0, 0.0, 1.0], &[2.0, 3.0, 1.0]];
        let as_they_come: [&[f32]; 4] =
            [&[7.0, 3.0, 9.0], &[0.0, 1.0, 3.0], &[0.0, 1.0, 0.0, 2.0, 1.0, 0.0], &[3.0, 2.0, 1.0]];
        for item in 0..4 {
            assert_eq!(of(item, "True"), ascending[item]);
            assert_eq!(of(item, "False"), as_they_come[item]);
        }
    }
}
