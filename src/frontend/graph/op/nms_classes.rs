//! Non-maximum suppression in each class by itself, as ONNX and TensorFlow have it. TVM: `topi/vision/nms.py`.

use super::nms::overlap;
use super::sort::argsort;
use super::*;
use crate::graph::lower::Operand;
use crate::te::INDEX;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "vision.all_class_non_max_suppression",
    params: &[
        required("boxes", Kind::Tensor),
        required("scores", Kind::Tensor),
        required("max_output_boxes_per_class", Kind::Tensor),
        required("iou_threshold", Kind::Tensor),
        required("score_threshold", Kind::Tensor),
        optional("output_format", Kind::Str, Default::Str("onnx")),
    ],
    infer,
    lower: Lowering::Stages(lower),
    doc: "For each image and class, the boxes that no better box overlaps, by descending score, in rows that are 0 behind their \
          number.",
}];

fn infer(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let (boxes, scores) = (cx.tensor("boxes")?, cx.tensor("scores")?);
    for (name, tensor) in [("boxes", &boxes), ("scores", &scores)] {
        cx.expect_rank(name, tensor, 3)?;
        if tensor.dtype != DType::Float32 {
            return cx.fail(format!("`{name}` must have float32, found {}", tensor.dtype));
        }
    }
    cx.expect_equal(("boxes", &boxes, 0), ("scores", &scores, 0))?;
    cx.expect_equal(("boxes", &boxes, 1), ("scores", &scores, 2))?;
    let four = cx.extent(4);
    if cx.differ(boxes.shape[2], four) {
        let shape = cx.extents(&boxes.shape);
        return cx.fail(format!("`boxes` must have 4 numbers in the last dimension, found {shape}"));
    }
    for (name, is_float) in [("max_output_boxes_per_class", false), ("iou_threshold", true), ("score_threshold", true)]
    {
        let number = cx.tensor(name)?;
        let is_single = number.shape.iter().all(|&e| cx.arena.is_int(e, 1));
        let fits = if is_float { number.dtype == DType::Float32 } else { number.dtype.is_integer() };
        if !is_single || !fits {
            let (kind, shape) = (if is_float { "float32" } else { "integer" }, cx.extents(&number.shape));
            return cx.fail(format!("`{name}` must be a single {kind}, found {} {shape}", number.dtype));
        }
    }
    let (batch, of_class) = (scores.shape[0], cx.product(&scores.shape[1..]));
    let int64 = |shape| Type::tensor(DType::Int64, shape);
    match cx.text("output_format") {
        "onnx" => {
            let (rows, three, one) = (cx.product(&scores.shape), cx.extent(3), cx.extent(1));
            Ok(Type::Tuple(vec![int64(vec![rows, three]), int64(vec![one])]))
        }
        "tensorflow" => {
            let two = cx.extent(2);
            let kept = Type::tensor(DType::Float32, vec![batch, of_class]);
            Ok(Type::Tuple(vec![int64(vec![batch, of_class, two]), kept, int64(vec![batch])]))
        }
        other => cx.fail(format!("`output_format` must be onnx or tensorflow, found `{other}`")),
    }
}

/// The kept boxes of each image and class, as indices and scores in front of their rows, and their numbers.
struct Kept {
    places: Tensor,
    scores: Tensor,
    counts: Tensor,
}

fn lower(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (boxes, scores) = (cx.input("boxes")?, cx.input("scores")?);
    let limits =
        [cx.operand("max_output_boxes_per_class")?, cx.operand("iou_threshold")?, cx.operand("score_threshold")?];
    let kept = suppress(&mut cx.te, boxes, scores, limits);
    let of_results: Vec<Vec<ExprId>> = (0..cx.n_results()).map(|r| cx.out_shape(r)).collect::<Result<_, _>>()?;
    let shape = cx.shape_of(scores);
    Ok(match cx.text("output_format") {
        "onnx" => one_list(&mut cx.te, &kept, &shape, &of_results),
        _ => lists_of_images(&mut cx.te, &kept, &shape, &of_results),
    })
}

/// The only element of an operand.
fn number(te: &mut Te, operand: Operand) -> ExprId {
    match operand {
        Operand::Scalar(e) => e,
        Operand::Tensor(t) => {
            let zeros = vec![te.extent(0); te.shape(t).len()];
            te.at(t, &zeros)
        }
    }
}

fn suppress(te: &mut Te, boxes: Tensor, scores: Tensor, limits: [Operand; 3]) -> Kept {
    let shape = te.shape(scores).to_vec();
    let (batch, n_classes, n) = (shape[0], shape[1], shape[2]);
    let order = argsort(te, scores, 2, true, INDEX);
    let written = [
        ("nms_places", INDEX, &shape[..]),
        ("nms_scores", DType::Float32, &shape[..]),
        ("nms_counts", INDEX, &shape[..2]),
    ];
    let results = te.statements("all_class_nms", &[batch, n_classes], &written, |s, out, i| {
        let [most, least_overlap, threshold] = limits.map(|limit| number(s, limit));
        let most = s.cast(INDEX, most);
        let (zero, none) = (s.extent(0), s.float(0.0, DType::Float32));
        let gone = s.float(-1.0, DType::Float32);
        let left = s.local("left", DType::Float32, &[n]);
        let kept = s.counter("kept", zero);
        s.for_each(&[n], |s, j| {
            let from = s.at(order, &[i[0], i[1], j[0]]);
            let score = s.at(scores, &[i[0], i[1], from]);
            s.set(left, j, score);
            s.set(out[0], &[i[0], i[1], j[0]], zero);
            s.set(out[1], &[i[0], i[1], j[0]], none);
        });
        let suppresses = s.lt(none, least_overlap);
        s.for_each(&[n], |s, j| {
            let (score, n_kept) = (s.at(left, j), s.at(kept, &[]));
            let (is_high, is_left, has_room) = (s.lt(threshold, score), s.lt(gone, score), s.lt(n_kept, most));
            let stays = s.and(is_high, is_left);
            let stays = s.and(stays, has_room);
            let stays = s.and(stays, suppresses);
            s.if_(stays, |s| {
                let from = s.at(order, &[i[0], i[1], j[0]]);
                s.set(out[0], &[i[0], i[1], n_kept], from);
                s.set(out[1], &[i[0], i[1], n_kept], score);
                let next = s.add_const(n_kept, 1);
                s.set(kept, &[], next);
                s.for_each(&[n], |s, k| {
                    let score = s.at(left, k);
                    let (is_behind, is_left) = (s.lt(j[0], k[0]), s.lt(none, score));
                    let counts = s.and(is_behind, is_left);
                    s.if_(counts, |s| {
                        let places = [j[0], k[0]].map(|place| s.at(order, &[i[0], i[1], place]));
                        let [a, b] = places.map(|place| {
                            [0, 1, 2, 3].map(|side| {
                                let side = s.extent(side);
                                s.at(boxes, &[i[0], place, side])
                            })
                        });
                        let found = overlap(s, a, b);
                        let is_much = s.compare(CmpOp::Ge, found, least_overlap);
                        s.if_(is_much, |s| s.set(left, k, gone));
                    });
                });
            });
        });
        let n_kept = s.at(kept, &[]);
        s.set(out[2], i, n_kept);
    });
    Kept { places: results[0], scores: results[1], counts: results[2] }
}

/// Image, class and place of all boxes in one list, and their number.
fn one_list(te: &mut Te, kept: &Kept, shape: &[ExprId], of_results: &[Vec<ExprId>]) -> Vec<Tensor> {
    let written = [("selected", DType::Int64, &of_results[0][..]), ("total", DType::Int64, &of_results[1][..])];
    te.statements("collect_indices", &[], &written, |s, out, _| {
        let zero = s.extent(0);
        let row = s.counter("row", zero);
        s.for_each(&of_results[0], |s, at| s.set(out[0], at, zero));
        s.for_each(shape, |s, i| {
            let count = s.at(kept.counts, &i[..2]);
            let is_kept = s.lt(i[2], count);
            s.if_(is_kept, |s| {
                let (place, to) = (s.at(kept.places, i), s.at(row, &[]));
                for (column, value) in [i[0], i[1], place].into_iter().enumerate() {
                    let column = s.extent(column as i64);
                    s.set(out[0], &[to, column], value);
                }
                let next = s.add_const(to, 1);
                s.set(row, &[], next);
            });
        });
        let total = s.at(row, &[]);
        s.set(out[1], &[zero], total);
    })
}

/// Class and place of the boxes of each image, their scores, and their number.
fn lists_of_images(te: &mut Te, kept: &Kept, shape: &[ExprId], of_results: &[Vec<ExprId>]) -> Vec<Tensor> {
    let written = [
        ("selected", DType::Int64, &of_results[0][..]),
        ("selected_scores", DType::Float32, &of_results[1][..]),
        ("total", DType::Int64, &of_results[2][..]),
    ];
    te.statements("collect_indices_and_scores", &shape[..1], &written, |s, out, image| {
        let (zero, one, none) = (s.extent(0), s.extent(1), s.float(0.0, DType::Float32));
        let row = s.counter("row", zero);
        s.for_each(&of_results[1][1..], |s, at| {
            s.set(out[0], &[image[0], at[0], zero], zero);
            s.set(out[0], &[image[0], at[0], one], zero);
            s.set(out[1], &[image[0], at[0]], none);
        });
        s.for_each(&shape[1..], |s, i| {
            let count = s.at(kept.counts, &[image[0], i[0]]);
            let is_kept = s.lt(i[1], count);
            s.if_(is_kept, |s| {
                let from = [image[0], i[0], i[1]];
                let (place, score, to) = (s.at(kept.places, &from), s.at(kept.scores, &from), s.at(row, &[]));
                s.set(out[0], &[image[0], to, zero], i[0]);
                s.set(out[0], &[image[0], to, one], place);
                s.set(out[1], &[image[0], to], score);
                let next = s.add_const(to, 1);
                s.set(row, &[], next);
            });
        });
        let total = s.at(row, &[]);
        s.set(out[2], image, total);
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Input, refused, results, type_of};

    const LIMITS: &str = r#"R.const(2, "int64"), R.const(0.5, "float32"), R.const(0.2, "float32")"#;

    #[test]
    fn shapes_are_those_of_the_most_boxes() {
        let params =
            r#"b: R.Tensor((2, 5, 4), "float32"), s: R.Tensor((2, 3, 5), "float32"), n: R.Tensor((1,), "int64")"#;
        let call = |format: &str| {
            let call = format!("R.vision.all_class_non_max_suppression(b, s, {LIMITS}, output_format=\"{format}\")");
            type_of(params, &call)
        };
        assert_eq!(call("onnx"), "(int64 [30, 3], int64 [1])");
        assert_eq!(call("tensorflow"), "(int64 [2, 15, 2], float32 [2, 15], int64 [2])");
        let of = |call: &str, parts: &[&str]| {
            refused(params, &format!("R.vision.all_class_non_max_suppression({call})"), parts);
        };
        of(&format!("s, s, {LIMITS}"), &["[2, 3, 5]"]);
        of("b, s, n, n, n", &["`iou_threshold` must be a single float32, found int64 [1]"]);
        of(&format!("b, s, {LIMITS}, output_format=\"rows\""), &["onnx or tensorflow", "`rows`"]);
    }

    #[test]
    fn classes_are_suppressed_by_themselves() {
        // The second box overlaps the first by 2/3.
        let boxes = [1.0, 0.0, 6.0, 1.0, 0.0, 0.0, 5.0, 1.0, 6.0, 0.0, 8.0, 1.0];
        let scores = [0.5, 0.9, 0.4, 0.8, 0.1, 0.3];
        let inputs: [Input<'_>; 2] = [("b", &[1, 3, 4], &boxes), ("s", &[1, 2, 3], &scores)];
        let found = |format: &str, item: usize| {
            let call = format!("R.vision.all_class_non_max_suppression(b, s, {LIMITS}, output_format=\"{format}\")");
            results(&inputs, &format!("R.astype({call}[{item}], \"float32\")")).swap_remove(0)
        };
        let rows =
            [[0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 2], [0; 3], [0; 3]].as_flattened().iter().map(|&v| v as f32);
        assert_eq!(found("onnx", 0), rows.collect::<Vec<f32>>());
        assert_eq!(found("onnx", 1), [4.0]);
        assert_eq!(found("tensorflow", 0), [0.0, 1.0, 0.0, 2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(found("tensorflow", 1), [0.9, 0.4, 0.8, 0.3, 0.0, 0.0]);
        assert_eq!(found("tensorflow", 2), [4.0]);
    }
}
