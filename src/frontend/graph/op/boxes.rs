//! Boxes of objects and their scores.

use super::normalize::softmax;
use super::*;
use crate::graph::infer::Args;
use crate::ir::AttrValue;
use crate::te::{INDEX, Reducer};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "vision.get_valid_counts",
        params: &[
            required("data", Kind::Tensor),
            optional("score_threshold", Kind::Float, Default::Float(0.0)),
            optional("id_index", Kind::Int, Default::Int(0)),
            optional("score_index", Kind::Int, Default::Int(1)),
        ],
        infer: |cx| {
            let data = cx.tensor("data")?;
            cx.expect_rank("data", &data, 3)?;
            let n = cx.known_extent(data.shape[2]).unwrap_or(i64::MAX);
            for (name, least) in [("id_index", -1), ("score_index", 0)] {
                let at = cx.int(name);
                if at < least || at >= n {
                    let shape = cx.extents(&data.shape);
                    return cx.fail(format!("`{name}` {at} is outside of the last dimension of `data` {shape}"));
                }
            }
            let (batch, boxes) = (data.shape[0], data.shape[1]);
            let counts = Type::tensor(DType::Int32, vec![batch]);
            let indices = Type::tensor(DType::Int32, vec![batch, boxes]);
            Ok(Type::Tuple(vec![counts, data.into(), indices]))
        },
        lower: Lowering::Stages(valid_counts),
        doc: "The boxes whose score is above a threshold, first; their number, and where they were.",
    },
    Operator {
        name: "vision.multibox_transform_loc",
        params: &[
            required("cls_pred", Kind::Tensor),
            required("loc_pred", Kind::Tensor),
            required("anchor", Kind::Tensor),
            optional("clip", Kind::Bool, Default::Bool(false)),
            optional("threshold", Kind::Float, Default::Float(0.0)),
            optional("variances", Kind::OptFloats, Default::None),
            optional("keep_background", Kind::Bool, Default::Bool(true)),
            optional("apply_softmax", Kind::Bool, Default::Bool(true)),
        ],
        infer: |cx| {
            let (scores, moves, anchors) = (cx.tensor("cls_pred")?, cx.tensor("loc_pred")?, cx.tensor("anchor")?);
            expect_float(cx, "cls_pred", scores.dtype)?;
            for (name, tensor, rank) in [("cls_pred", &scores, 3), ("loc_pred", &moves, 2), ("anchor", &anchors, 3)] {
                cx.expect_rank(name, tensor, rank)?;
                expect_same_type(cx, ("cls_pred", scores.dtype), (name, tensor.dtype))?;
            }
            cx.expect_equal(("cls_pred", &scores, 0), ("loc_pred", &moves, 0))?;
            cx.expect_equal(("cls_pred", &scores, 2), ("anchor", &anchors, 1))?;
            let (four, one) = (cx.extent(4), cx.extent(1));
            let numbers = cx.arena.mul_const(scores.shape[2], 4);
            let misfits = cx.differ(moves.shape[1], numbers)
                || cx.differ(anchors.shape[0], one)
                || cx.differ(anchors.shape[2], four);
            if misfits {
                let (a, b, c) = (cx.extents(&scores.shape), cx.extents(&moves.shape), cx.extents(&anchors.shape));
                return cx.fail(format!(
                    "`cls_pred` {a}, `loc_pred` {b} and `anchor` {c} must be [b, classes, n], [b, 4 * n] and [1, n, 4]"
                ));
            }
            variances(cx)?;
            let boxes = Type::tensor(scores.dtype, vec![scores.shape[0], scores.shape[2], four]);
            Ok(Type::Tuple(vec![boxes, scores.into()]))
        },
        lower: Lowering::Stages(multibox),
        doc: "Boxes from anchors and predicted moves, and the scores of their classes above a threshold.",
    },
];

fn valid_counts(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let data = cx.input("data")?;
    let shape = cx.shape_of(data);
    let (threshold, id, score) = (cx.float("score_threshold"), cx.int("id_index"), cx.int("score_index"));
    let te = &mut cx.te;
    let (batch, boxes) = (shape[0], shape[1]);
    let is_valid = |te: &mut Te, i: ExprId, j: ExprId| {
        let at = te.extent(score);
        let x = te.at(data, &[i, j, at]);
        let threshold = like(te, x, threshold);
        let valid = te.lt(threshold, x);
        if id < 0 {
            return valid;
        }
        let at = te.extent(id);
        let class = te.at(data, &[i, j, at]);
        let zero = like(te, class, 0.0);
        let has_class = te.compare(CmpOp::Ge, class, zero);
        te.and(valid, has_class)
    };
    let one_if = |te: &mut Te, condition: ExprId| {
        let (zero, one) = (te.int32(0), te.int32(1));
        te.if_then_else(condition, one, zero)
    };
    let counts = te.reduce("valid_count", &[batch], &[boxes], Reducer::Sum, |te, i, k| {
        let valid = is_valid(te, i[0], k[0]);
        one_if(te, valid)
    });
    let places = te.reduce("valid_places", &[batch, boxes], &[boxes], Reducer::Sum, |te, i, k| {
        let (valid, before) = (is_valid(te, i[0], k[0]), te.lt(k[0], i[1]));
        let counts = te.and(valid, before);
        one_if(te, counts)
    });
    let found = te.reduce("valid_boxes", &[batch, boxes], &[boxes], Reducer::Sum, |te, i, k| {
        let (valid, place) = (is_valid(te, i[0], k[0]), te.at(places, &[i[0], k[0]]));
        let wanted = te.cast(DType::Int32, i[1]);
        let is_here = te.compare(CmpOp::Eq, place, wanted);
        let is_it = te.and(valid, is_here);
        let (zero, index) = (te.int32(0), te.cast(DType::Int32, k[0]));
        te.if_then_else(is_it, index, zero)
    });
    let exists = |te: &mut Te, i: &[ExprId]| {
        let (count, place) = (te.at(counts, &i[..1]), te.cast(DType::Int32, i[1]));
        te.lt(place, count)
    };
    let sorted = te.compute("valid_data", &shape, |te, i| {
        let exists = exists(te, i);
        let index = te.at(found, &i[..2]);
        let index = te.cast(INDEX, index);
        let x = te.at(data, &[i[0], index, i[2]]);
        let none = like(te, x, -1.0);
        te.if_then_else(exists, x, none)
    });
    let indices = te.compute("valid_indices", &[batch, boxes], |te, i| {
        let (exists, index, none) = (exists(te, i), te.at(found, i), te.int32(-1));
        te.if_then_else(exists, index, none)
    });
    Ok(vec![counts, sorted, indices])
}

/// The factors of predicted moves: two of centres, two of extents.
fn variances(args: &Args<'_>) -> Result<[f64; 4], OpError> {
    let AttrValue::List(items) = args.attr("variances") else { return Ok([1.0; 4]) };
    let number = |item: &AttrValue| match item {
        AttrValue::Float(v) => Some(*v),
        AttrValue::Int(v) => Some(*v as f64),
        _ => None,
    };
    let all: Option<Vec<f64>> = items.iter().map(number).collect();
    match all.as_deref() {
        Some(&[a, b, c, d]) => Ok([a, b, c, d]),
        _ => args.fail(format!("`variances` must be 4 numbers, found {}", items.len())),
    }
}

fn multibox(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (classes, moves, anchors) = (cx.input("cls_pred")?, cx.input("loc_pred")?, cx.input("anchor")?);
    let (of_boxes, of_scores) = (cx.out_shape(0)?, cx.out_shape(1)?);
    let (clip, threshold) = (cx.flag("clip"), cx.float("threshold"));
    let (background, normalise) = (cx.flag("keep_background"), cx.flag("apply_softmax"));
    let variances = variances(cx)?;
    let te = &mut cx.te;
    let boxes = te.compute("multibox_boxes", &of_boxes, |te, i| {
        let zero = te.extent(0);
        let mut sides = Vec::with_capacity(4);
        // Along columns, then along rows.
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for d in 0..2 {
            let (first, last) = (te.extent(d), te.extent(d + 2));
            let (start, end) = (te.at(anchors, &[zero, i[1], first]), te.at(anchors, &[zero, i[1], last]));
            let mut moved = |at: i64| {
                let base = te.mul_const(i[1], 4);
                let at = te.add_const(base, at);
                te.at(moves, &[i[0], at])
            };
            let (shift, growth) = (moved(d), moved(d + 2));
            let half = like(te, start, 0.5);
            let center = te.add(start, end);
            let center = te.mul(center, half);
            let length = te.sub(end, start);
            let (of_shift, of_growth) = (variances[d as usize], variances[d as usize + 2]);
            let (of_shift, of_growth) = (like(te, start, of_shift), like(te, start, of_growth));
            let shift = te.mul(shift, of_shift);
            let shift = te.mul(shift, length);
            let center = te.add(shift, center);
            let growth = te.mul(growth, of_growth);
            let growth = te.call(Intrinsic::Exp, &[growth]);
            let reach = te.mul(half, growth);
            let reach = te.mul(reach, length);
            low.push(te.sub(center, reach));
            high.push(te.add(center, reach));
        }
        for side in [low[1], low[0], high[1], high[0]] {
            sides.push(match clip {
                true => {
                    let (none, one) = (like(te, side, 0.0), like(te, side, 1.0));
                    let side = te.min(one, side);
                    te.max(none, side)
                }
                false => side,
            });
        }
        let mut value = sides[3];
        for (k, &side) in sides[..3].iter().enumerate().rev() {
            let k = te.extent(k as i64);
            let is_it = te.compare(CmpOp::Eq, i[2], k);
            value = te.select(is_it, side, value);
        }
        value
    });
    let scores = if normalise { softmax(te, classes, 1) } else { classes };
    let kept = te.compute("multibox_scores", &of_scores, |te, i| {
        let score = te.at(scores, i);
        let (threshold, zero, one) = (like(te, score, threshold), like(te, score, 0.0), like(te, score, 1.0));
        let is_high = te.compare(CmpOp::Ge, score, threshold);
        let factor = te.select(is_high, one, zero);
        let kept = te.mul(score, factor);
        if background {
            return kept;
        }
        let first = te.extent(0);
        let is_background = te.compare(CmpOp::Eq, i[1], first);
        te.if_then_else(is_background, zero, kept)
    });
    Ok(vec![boxes, kept])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Input, refused, results};

    #[test]
    fn mistakes_name_the_shapes() {
        let params = r#"x: R.Tensor((2, 3, 8, 9), "float32"), c: R.Tensor((1, 2, 3), "float32"), l: R.Tensor((1, 11), "float32"), a: R.Tensor((1, 3, 4), "float32")"#;
        refused(params, "R.vision.get_valid_counts(x)", &["must have 3 dimensions", "[2, 3, 8, 9]"]);
        refused(params, "R.vision.get_valid_counts(c, score_index=3)", &["`score_index` 3", "[1, 2, 3]"]);
        refused(params, "R.vision.multibox_transform_loc(c, l, a)", &["[1, 2, 3]", "[1, 11]", "[1, 3, 4]"]);
    }

    #[test]
    fn valid_boxes_come_first() {
        // Class, score, and one number of the box.
        let x = [0.0, 0.1, 5.0, 1.0, 0.9, 6.0, -1.0, 0.9, 7.0, 2.0, 0.6, 8.0];
        let found = results(&[("x", &[1, 4, 3], &x)], "R.vision.get_valid_counts(x, score_threshold=0.5)");
        assert_eq!(found[0], [2.0]);
        assert_eq!(found[1], [1.0, 0.9, 6.0, 2.0, 0.6, 8.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]);
        assert_eq!(found[2], [1.0, 3.0, -1.0, -1.0]);
    }

    #[test]
    fn anchors_are_moved() {
        let (scores, moves, anchor) = ([0.3, 0.7], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 4.0]);
        let inputs: [Input<'_>; 3] = [("c", &[1, 2, 1], &scores), ("l", &[1, 4], &moves), ("a", &[1, 1, 4], &anchor)];
        let call = "R.vision.multibox_transform_loc(c, l, a, threshold=0.5, variances=(0.5, 1.0, 1.0, 1.0), apply_softmax=False)";
        let found = results(&inputs, call);
        // Rows before columns; the centre is half an extent further.
        assert_eq!(found[0], [0.0, 1.0, 4.0, 3.0]);
        assert_eq!(found[1], [0.0, 0.7]);
    }
}
