//! Elements in places that a function of their indices gives (TVM's `src/relax/op/tensor/manipulate.cc`, `layout_transform`).

use super::*;
use crate::arith::index_map::IndexMap;
use crate::arith::{Analyzer, IterMapLevel};
use crate::graph::infer::Args;
use crate::graph::lower::copy;
use crate::ir::{Arena, AttrValue, VarId};
use std::collections::HashMap;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "layout_transform",
    params: &[
        required("x", Kind::Tensor),
        required("index_map", Kind::IndexMap),
        optional("pad_value", Kind::OptNumber, Default::None),
    ],
    infer: |cx| {
        let x = cx.tensor("x")?;
        let map = index_map(cx, cx.arena, x.rank())?;
        if !map.is_injective(cx.arena, &x.shape) {
            let shape = cx.extents(&x.shape);
            return cx.fail(format!("`index_map` must give each element of {shape} a place of its own"));
        }
        match map.map_shape(cx.arena, &x.shape) {
            Some(shape) => Ok(Type::tensor(x.dtype, shape.to_vec())),
            None => cx.fail("`index_map` must give indices from 0 on"),
        }
    },
    lower: Lowering::Stages(|cx| {
        let x = cx.input("x")?;
        let dtype = cx.out_dtype(0)?;
        let from = cx.shape_of(x);
        let shape = cx.out_shape(0)?;
        let fill = cx.opt_float("pad_value").unwrap_or(0.0);
        let map = index_map(cx, &cx.function.arena, from.len())?;
        let function = cx.function;
        let map = in_arena(&mut cx.te, &function.arena, &map);
        let Some(inverse) = map.inverse(&mut cx.te, &from, IterMapLevel::NoCheck) else {
            return cx.fail("`index_map` must split, fuse and reorder dimensions");
        };
        Ok(vec![cx.te.compute("T_layout_trans", &shape, |te, i| {
            let mut analyzer = Analyzer::new();
            let at = inverse.map.apply(te, &mut analyzer, i);
            let element = te.at(x, &at);
            let padding = IndexMap { results: [inverse.padding].into_iter().collect(), ..inverse.map.clone() };
            let padding = padding.apply(te, &mut analyzer, i)[0];
            if te.as_int(padding) == Some(0) {
                return element;
            }
            let fill = if dtype.is_float() { te.float(fill, dtype) } else { te.int(fill as i64, dtype) };
            te.if_then_else(padding, fill, element)
        })])
    }),
    doc: "Each element in the place that a function of its indices gives; places without an element have `pad_value`, or 0.",
}];

/// The map of a call, over the expressions of its function.
fn index_map(args: &Args<'_>, arena: &Arena, rank: usize) -> Result<IndexMap, OpError> {
    let AttrValue::IndexMap(params, results) = args.attr("index_map") else {
        return args.fail("`index_map` must be an index map");
    };
    if params.len() != rank {
        let n = params.len();
        return args
            .fail(format!("`index_map` must have a parameter for each of the {rank} dimensions of `x`, found {n}"));
    }
    let params = params.iter().filter_map(|&p| arena.as_var(p)).collect();
    Ok(IndexMap { params, results: results.iter().copied().collect(), separators: Vec::new() })
}

/// The same map over the expressions of another arena.
fn in_arena(to: &mut Arena, from: &Arena, map: &IndexMap) -> IndexMap {
    let mut symbols = HashMap::<VarId, ExprId>::new();
    let params = map.params.iter().map(|&p| {
        let (var, e) = to.new_var_expr(from.var(p).name, from.var(p).dtype);
        symbols.insert(p, e);
        var
    });
    let params = params.collect();
    let results = map.results.iter().map(|&r| copy(to, from, &mut symbols, r)).collect();
    IndexMap { params, results, separators: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn types_follow_from_the_map() {
        let x = "x: R.Tensor((2, 6, 4), \"float32\")";
        let blocks = "R.layout_transform(x, index_map=T.index_map(lambda a, b, c: (a, b // 4, c, b % 4)))";
        assert_eq!(type_of(x, blocks), "float32 [2, 2, 4, 4]");
        assert_eq!(
            type_of(x, "R.layout_transform(x, index_map=T.index_map(lambda a, b, c: (c, a * 6 + b)))"),
            "float32 [4, 12]"
        );
    }

    #[test]
    fn maps_that_lose_elements_are_refused() {
        let x = "x: R.Tensor((2, 6), \"float32\")";
        refused(
            x,
            "R.layout_transform(x, index_map=T.index_map(lambda a, b: (b,)))",
            &["[2, 6]", "a place of its own"],
        );
        refused(x, "R.layout_transform(x, index_map=T.index_map(lambda a: (a,)))", &["2 dimensions", "found 1"]);
    }

    #[test]
    fn elements_move_and_gaps_are_filled() {
        let x = ("x", &[2, 3][..], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]);
        let turned = "R.layout_transform(x, index_map=T.index_map(lambda a, b: (b, a)))";
        check(&[x], turned, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let blocks = "R.layout_transform(x, index_map=T.index_map(lambda a, b: (a, b // 2, b % 2)), pad_value=9)";
        check(&[x], blocks, &[1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0, 9.0]);
    }
}
