//! Products of matrices and vectors.

use super::*;
use crate::te::Reducer;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "matmul",
        params: &[
            required("x1", Kind::Tensor),
            required("x2", Kind::Tensor),
            optional("out_dtype", Kind::OptDType, Default::None),
        ],
        infer: |cx| {
            let (a, b) = (cx.tensor("x1")?, cx.tensor("x2")?);
            let dtype = cx.opt_dtype("out_dtype");
            if dtype.is_none() {
                expect_same_type(cx, ("x1", a.dtype), ("x2", b.dtype))?;
            }
            if a.rank() == 0 || b.rank() == 0 {
                let (x, y) = (cx.extents(&a.shape), cx.extents(&b.shape));
                return cx.fail(format!("expected matrices or vectors, found the shapes {x} and {y}"));
            }
            let (k_a, k_b) = (a.rank() - 1, b.rank().saturating_sub(2));
            if cx.differ(a.shape[k_a], b.shape[k_b]) {
                let (x, y) = (cx.extents(&a.shape), cx.extents(&b.shape));
                return cx.fail(format!(
                    "the shapes {x} and {y} do not fit: the last extent of the first must be the last but one of the second"
                ));
            }
            let (batch_a, batch_b) = (&a.shape[..a.rank().saturating_sub(2)], &b.shape[..b.rank().saturating_sub(2)]);
            let mut shape = cx.broadcast(batch_a, batch_b)?;
            shape.extend((a.rank() > 1).then(|| a.shape[a.rank() - 2]));
            shape.extend((b.rank() > 1).then(|| b.shape[b.rank() - 1]));
            Ok(Type::tensor(dtype.unwrap_or(a.dtype), shape))
        },
        lower: Lowering::Stages(|cx| {
            let (a, b) = (cx.input("x1")?, cx.input("x2")?);
            let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
            let (of_a, of_b) = (cx.shape_of(a), cx.shape_of(b));
            let (rows, columns) = (of_a.len() > 1, of_b.len() > 1);
            let batch = shape.len() - usize::from(rows) - usize::from(columns);
            let k = of_a[of_a.len() - 1];
            Ok(vec![cx.te.reduce("matmul", &shape, &[k], Reducer::Sum, |te, i, k| {
                let mut at_a = batch_indices(te, &of_a, &i[..batch]);
                at_a.extend(rows.then(|| i[batch]));
                at_a.push(k[0]);
                let mut at_b = batch_indices(te, &of_b, &i[..batch]);
                at_b.push(k[0]);
                at_b.extend(columns.then(|| i[i.len() - 1]));
                let (x, y) = (te.at(a, &at_a), te.at(b, &at_b));
                let (x, y) = (te.cast(dtype, x), te.cast(dtype, y));
                te.mul(x, y)
            })])
        }),
        doc: "The product of matrices, of batches of them, or of vectors.",
    },
    Operator {
        name: "outer",
        params: &[required("x1", Kind::Tensor), required("x2", Kind::Tensor)],
        infer: |cx| {
            let (a, b) = (cx.tensor("x1")?, cx.tensor("x2")?);
            cx.expect_rank("x1", &a, 1)?;
            cx.expect_rank("x2", &b, 1)?;
            expect_same_type(cx, ("x1", a.dtype), ("x2", b.dtype))?;
            Ok(Type::tensor(a.dtype, vec![a.shape[0], b.shape[0]]))
        },
        lower: Lowering::Stages(|cx| {
            let (a, b) = (cx.input("x1")?, cx.input("x2")?);
            let shape = cx.out_shape(0)?;
            Ok(vec![cx.te.compute("outer", &shape, |te, i| {
                let (x, y) = (te.at(a, &i[..1]), te.at(b, &i[1..]));
                te.mul(x, y)
            })])
        }),
        doc: "The product of each element of a vector with each of another.",
    },
    Operator {
        name: "einsum",
        params: &[required("operands", Kind::Tensors), required("subscripts", Kind::Str)],
        infer: |cx| {
            let operands = cx.tensors("operands")?;
            let Some(first) = operands.first() else { return cx.fail("has no operands") };
            for other in &operands[1..] {
                expect_same_type(cx, ("operands[0]", first.dtype), ("operands", other.dtype))?;
            }
            let ranks: Vec<usize> = operands.iter().map(Known::rank).collect();
            let spec = Subscripts::parse(cx.text("subscripts"), &ranks).map_err(|reason| cx.error(reason))?;
            let mut extents: Vec<(char, ExprId)> = Vec::new();
            for (letters, operand) in spec.inputs.iter().zip(&operands) {
                for (&letter, &extent) in letters.iter().zip(&operand.shape) {
                    match extents.iter_mut().find(|(l, _)| *l == letter) {
                        None => extents.push((letter, extent)),
                        Some((_, known)) if cx.arena.is_int(*known, 1) => *known = extent,
                        Some((_, known)) => {
                            let known = *known;
                            if !cx.arena.is_int(extent, 1) && cx.differ(known, extent) {
                                let shapes: Vec<String> = operands.iter().map(|o| cx.extents(&o.shape)).collect();
                                let shapes = shapes.join(" and ");
                                return cx.fail(format!("the shapes {shapes} differ in dimension `{letter}`"));
                            }
                        }
                    }
                }
            }
            let of = |letter: &char| extents.iter().find(|(l, _)| l == letter).map(|(_, e)| *e);
            match spec.output.iter().map(of).collect() {
                Some(shape) => Ok(Type::tensor(first.dtype, shape)),
                None => cx.fail("its result has a dimension that no operand has"),
            }
        },
        lower: Lowering::Stages(|cx| {
            let operands = cx.inputs("operands")?;
            let shapes: Vec<Vec<ExprId>> = operands.iter().map(|&o| cx.shape_of(o)).collect();
            let ranks: Vec<usize> = shapes.iter().map(Vec::len).collect();
            let spec = Subscripts::parse(cx.text("subscripts"), &ranks).map_err(|reason| cx.error(reason))?;
            let shape = cx.out_shape(0)?;
            let mut summed: Vec<(char, ExprId)> = Vec::new();
            for (&letter, &extent) in spec.inputs.iter().zip(&shapes).flat_map(|(l, s)| l.iter().zip(s)) {
                match summed.iter_mut().find(|(l, _)| *l == letter) {
                    Some((_, known)) if cx.te.is_int(*known, 1) => *known = extent,
                    Some(_) => {}
                    None if spec.output.contains(&letter) => {}
                    None => summed.push((letter, extent)),
                }
            }
            let domain: Vec<ExprId> = summed.iter().map(|(_, e)| *e).collect();
            let element = |te: &mut Te, i: &[ExprId], k: &[ExprId]| {
                let mut product = None;
                for ((letters, &operand), shape) in spec.inputs.iter().zip(&operands).zip(&shapes) {
                    let mut at = Vec::with_capacity(letters.len());
                    for (letter, &extent) in letters.iter().zip(shape) {
                        let out = spec.output.iter().position(|l| l == letter).map(|d| i[d]);
                        let index = out.or_else(|| summed.iter().position(|(l, _)| l == letter).map(|d| k[d]));
                        let zero = te.extent(0);
                        at.push(if te.is_int(extent, 1) { zero } else { index.unwrap_or(zero) });
                    }
                    let x = te.at(operand, &at);
                    product = Some(match product {
                        Some(product) => te.mul(product, x),
                        None => x,
                    });
                }
                product.expect("an operand")
            };
            Ok(vec![match domain.is_empty() {
                true => cx.te.compute("T_einsum", &shape, |te, i| element(te, i, &[])),
                false => cx.te.reduce("T_einsum", &shape, &domain, Reducer::Sum, element),
            }])
        }),
        doc: "The sum of products that Einstein's notation states, such as `ij,jk->ik`.",
    },
];

/// The indices of the batch dimensions of an operand, at those of the result.
fn batch_indices(te: &mut Te, shape: &[ExprId], i: &[ExprId]) -> Vec<ExprId> {
    let own = shape.len().saturating_sub(2);
    (0..own)
        .map(|d| match te.is_int(shape[d], 1) {
            true => te.extent(0),
            false => i[i.len() - own + d],
        })
        .collect()
}

/// The letters of Einstein's notation. The dimensions of an ellipsis have digits.
struct Subscripts {
    inputs: Vec<Vec<char>>,
    output: Vec<char>,
}

impl Subscripts {
    /// Reads the notation for operands of these numbers of dimensions.
    fn parse(text: &str, ranks: &[usize]) -> Result<Subscripts, String> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs.to_owned(), Some(output.to_owned())),
            None => (text, None),
        };
        let inputs: Vec<&str> = inputs.split(',').collect();
        if inputs.len() != ranks.len() {
            return Err(format!("`subscripts` names {} operands, found {}", inputs.len(), ranks.len()));
        }
        let longest = (inputs.iter().zip(ranks))
            .filter(|(input, _)| input.contains("..."))
            .map(|(input, rank)| (rank + 3).saturating_sub(input.len()))
            .max()
            .unwrap_or(0);
        if longest > 10 {
            return Err("an ellipsis of more than 10 dimensions is not supported".to_owned());
        }
        let ellipsis = |n: usize| (longest - n..longest).filter_map(|d| char::from_digit(d as u32, 10));
        let letters = |part: &str, n: usize| -> Vec<char> {
            match part.split_once("...") {
                Some((before, after)) => before.chars().chain(ellipsis(n)).chain(after.chars()).collect(),
                None => part.chars().collect(),
            }
        };
        let mut read = Vec::with_capacity(inputs.len());
        for (input, &rank) in inputs.iter().zip(ranks) {
            let found = letters(input, (rank + 3).saturating_sub(input.len()).min(longest));
            if found.len() != rank || found.iter().any(|c| !c.is_alphanumeric()) {
                return Err(format!("`{input}` in `subscripts` does not name the {rank} dimensions of its operand"));
            }
            read.push(found);
        }
        let output = match output {
            Some(output) => letters(&output, longest),
            None => {
                let all: Vec<char> = read.iter().flatten().copied().collect();
                let mut once: Vec<char> =
                    all.iter().copied().filter(|c| all.iter().filter(|o| *o == c).count() == 1).collect();
                once.sort_unstable();
                let once: Vec<char> = once.into_iter().filter(|c| !c.is_numeric()).collect();
                ellipsis(longest).chain(once).collect()
            }
        };
        Ok(Subscripts { inputs: read, output })
    }
}
