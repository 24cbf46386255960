//! Non-maximum suppression: of boxes that overlap much, the one with the highest score stays.
//!
//! Boxes are visited by descending score. One that is still there is kept, and suppresses those after it that overlap it by at least
//! the threshold; soft suppression (Bodla et al., "Soft-NMS", 2017) lowers their scores instead, and then continues with the highest.
//! TVM: `topi/vision/nms.py`.

use super::sort::argsort;
use super::*;
use crate::te::Statements;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "vision.non_max_suppression",
    params: &[
        required("data", Kind::Tensor),
        required("valid_count", Kind::Tensor),
        required("indices", Kind::Tensor),
        optional("max_output_size", Kind::Int, Default::Int(-1)),
        optional("iou_threshold", Kind::Float, Default::Float(0.5)),
        optional("force_suppress", Kind::Bool, Default::Bool(false)),
        optional("top_k", Kind::Int, Default::Int(-1)),
        optional("coord_start", Kind::Int, Default::Int(2)),
        optional("score_index", Kind::Int, Default::Int(1)),
        optional("id_index", Kind::Int, Default::Int(0)),
        optional("return_indices", Kind::Bool, Default::Bool(true)),
        optional("invalid_to_bottom", Kind::Bool, Default::Bool(false)),
        optional("soft_nms_sigma", Kind::Float, Default::Float(0.0)),
        optional("score_threshold", Kind::Float, Default::Float(0.0)),
    ],
    infer,
    lower: Lowering::Stages(lower),
    doc: "The boxes that no better box overlaps, by descending score: their number and where they were, or the boxes themselves.",
}];

fn infer(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let (data, count, indices) = (cx.tensor("data")?, cx.tensor("valid_count")?, cx.tensor("indices")?);
    expect_float(cx, "data", data.dtype)?;
    cx.expect_rank("data", &data, 3)?;
    for (name, tensor, rank) in [("valid_count", &count, 1), ("indices", &indices, 2)] {
        cx.expect_rank(name, tensor, rank)?;
        if tensor.dtype != DType::Int32 {
            return cx.fail(format!("`{name}` must have int32, found {}", tensor.dtype));
        }
        for d in 0..rank {
            cx.expect_equal(("data", &data, d), (name, tensor, d))?;
        }
    }
    let n = cx.known_extent(data.shape[2]).unwrap_or(i64::MAX);
    for (name, least, after) in [("id_index", -1, 1), ("score_index", 0, 1), ("coord_start", 0, 4)] {
        let at = cx.int(name);
        if at < least || at > n - after {
            let shape = cx.extents(&data.shape);
            return cx.fail(format!("`{name}` {at} is outside of the last dimension of `data` {shape}"));
        }
    }
    if !cx.flag("return_indices") {
        return Ok(data.into());
    }
    let counts = Type::tensor(DType::Int32, vec![data.shape[0], cx.extent(1)]);
    let found = [Type::tensor(DType::Int32, indices.shape), counts];
    let boxes = (cx.float("soft_nms_sigma") > 0.0).then(|| data.into());
    Ok(Type::Tuple(boxes.into_iter().chain(found).collect()))
}

/// The boxes of one image while they are suppressed.
struct Boxes {
    /// The index of the image.
    image: ExprId,
    /// The boxes by descending score; `-1` in all places where there is none.
    out: Tensor,
    /// Where each box was; `-1` where there is none.
    places: Tensor,
    /// How many places there are, and numbers in each.
    shape: [ExprId; 2],
    /// How many boxes there are before suppression.
    count: ExprId,
    /// Boxes need a higher score.
    threshold: ExprId,
    score: ExprId,
    /// The class; `None` if boxes of all classes suppress each other.
    class: Option<ExprId>,
    first_side: i64,
    overlap: ExprId,
    /// At most this many are kept; all if it is not positive.
    most: i64,
}

impl Boxes {
    fn number(&self, s: &mut Statements<'_>, place: ExprId, number: ExprId) -> ExprId {
        s.at(self.out, &[self.image, place, number])
    }

    /// `-1` in all numbers of a place.
    fn clear(&self, s: &mut Statements<'_>, place: ExprId) {
        s.for_each(&self.shape[1..], |s, k| {
            let none = like(s, self.threshold, -1.0);
            s.set(self.out, &[self.image, place, k[0]], none);
        });
    }

    fn forget(&self, s: &mut Statements<'_>, place: ExprId) {
        let none = s.int32(-1);
        s.set(self.places, &[self.image, place], none);
    }

    /// Runs statements for each place behind `after` where a box is that has a high enough score.
    fn for_each_behind(
        &self,
        s: &mut Statements<'_>,
        after: ExprId,
        body: impl FnOnce(&mut Statements<'_>, ExprId, ExprId),
    ) {
        s.for_each(&self.shape[..1], |s, k| {
            let (is_behind, is_there) = (s.lt(after, k[0]), s.lt(k[0], self.count));
            let score = self.number(s, k[0], self.score);
            let is_high = s.lt(self.threshold, score);
            let counts = s.and(is_behind, is_there);
            let counts = s.and(counts, is_high);
            s.if_(counts, |s| body(s, k[0], score));
        });
    }

    /// Whether two boxes may suppress each other.
    fn are_of_a_class(&self, s: &mut Statements<'_>, a: ExprId, b: ExprId) -> ExprId {
        let Some(class) = self.class else { return s.bool(true) };
        let (a, b) = (self.number(s, a, class), self.number(s, b, class));
        s.compare(CmpOp::Eq, a, b)
    }

    fn overlap_of(&self, s: &mut Statements<'_>, a: ExprId, b: ExprId) -> ExprId {
        let [a, b] = [a, b].map(|place| {
            [0, 1, 2, 3].map(|side| {
                let side = s.extent(self.first_side + side);
                self.number(s, place, side)
            })
        });
        overlap(s, a, b)
    }

    /// Whether another box may be kept.
    fn has_room(&self, s: &mut Statements<'_>, kept: ExprId) -> ExprId {
        if self.most <= 0 {
            return s.bool(true);
        }
        let most = s.extent(self.most);
        s.lt(kept, most)
    }

    fn suppress(&self, s: &mut Statements<'_>) {
        let zero = s.extent(0);
        let kept = s.counter("kept", zero);
        s.for_each(&self.shape[..1], |s, j| {
            let is_there = s.lt(j[0], self.count);
            s.if_(is_there, |s| {
                let (score, n_kept) = (self.number(s, j[0], self.score), s.at(kept, &[]));
                let (is_high, has_room) = (s.lt(self.threshold, score), self.has_room(s, n_kept));
                let stays = s.and(is_high, has_room);
                s.if_else(
                    stays,
                    |s| {
                        let next = s.add_const(n_kept, 1);
                        s.set(kept, &[], next);
                        self.for_each_behind(s, j[0], |s, k, _| {
                            let (related, found) = (self.are_of_a_class(s, j[0], k), self.overlap_of(s, j[0], k));
                            let is_much = s.compare(CmpOp::Ge, found, self.overlap);
                            let falls = s.and(related, is_much);
                            s.if_(falls, |s| {
                                let none = like(s, self.threshold, -1.0);
                                s.set(self.out, &[self.image, k, self.score], none);
                                self.forget(s, k);
                            });
                        });
                    },
                    |s| {
                        self.clear(s, j[0]);
                        self.forget(s, j[0]);
                    },
                );
            });
        });
    }

    /// Gives the number of boxes that are kept: they come first.
    fn suppress_softly(&self, s: &mut Statements<'_>, sigma: f64) -> Tensor {
        let (zero, none) = (s.extent(0), s.extent(-1));
        let dtype = s.dtype(self.threshold);
        let kept = s.counter("kept", zero);
        let (best, best_score) = (s.counter("best", none), s.local("best_score", dtype, &[]));
        let n_kept = s.at(kept, &[]);
        s.for_each(&self.shape[..1], |s, round| {
            let (is_round, has_room) = (s.lt(round[0], self.count), self.has_room(s, n_kept));
            let goes_on = s.and(is_round, has_room);
            s.if_(goes_on, |s| {
                s.set(best, &[], none);
                s.set(best_score, &[], self.threshold);
                let before = s.add_const(n_kept, -1);
                self.for_each_behind(s, before, |s, j, score| {
                    let (place, best_so_far) = (s.at(self.places, &[self.image, j]), s.at(best_score, &[]));
                    let no_place = s.int32(0);
                    let (is_there, is_better) = (s.compare(CmpOp::Ge, place, no_place), s.lt(best_so_far, score));
                    let is_best = s.and(is_there, is_better);
                    s.if_(is_best, |s| {
                        s.set(best, &[], j);
                        s.set(best_score, &[], score);
                    });
                });
                let found = s.at(best, &[]);
                let is_found = s.compare(CmpOp::Ge, found, zero);
                s.if_(is_found, |s| {
                    self.swap(s, n_kept, found);
                    self.for_each_behind(s, n_kept, |s, j, score| self.weaken(s, n_kept, j, score, sigma));
                    let next = s.add_const(n_kept, 1);
                    s.set(kept, &[], next);
                });
            });
        });
        s.for_each(&self.shape[..1], |s, j| {
            let is_behind = s.compare(CmpOp::Ge, j[0], n_kept);
            s.if_(is_behind, |s| {
                self.clear(s, j[0]);
                self.forget(s, j[0]);
            });
        });
        kept
    }

    fn swap(&self, s: &mut Statements<'_>, a: ExprId, b: ExprId) {
        let place = s.local("place", DType::Int32, &[]);
        let [at_a, at_b] = [[self.image, a], [self.image, b]];
        let (of_a, of_b, saved) = (s.at(self.places, &at_a), s.at(self.places, &at_b), s.at(place, &[]));
        s.set(place, &[], of_a);
        s.set(self.places, &at_a, of_b);
        s.set(self.places, &at_b, saved);
        let number = s.local("number", s.dtype(self.threshold), &[]);
        s.for_each(&self.shape[1..], |s, k| {
            let (of_a, of_b, saved) = (self.number(s, a, k[0]), self.number(s, b, k[0]), s.at(number, &[]));
            s.set(number, &[], of_a);
            s.set(self.out, &[self.image, a, k[0]], of_b);
            s.set(self.out, &[self.image, b, k[0]], saved);
        });
    }

    /// Lowers the score of a box that overlaps a kept one.
    fn weaken(&self, s: &mut Statements<'_>, kept: ExprId, j: ExprId, score: ExprId, sigma: f64) {
        let (place, no_place) = (s.at(self.places, &[self.image, j]), s.int32(0));
        let (is_there, related) = (s.compare(CmpOp::Ge, place, no_place), self.are_of_a_class(s, kept, j));
        let counts = s.and(is_there, related);
        s.if_(counts, |s| {
            let found = self.overlap_of(s, kept, j);
            let is_much = s.compare(CmpOp::Ge, found, self.overlap);
            s.if_else(
                is_much,
                |s| self.forget(s, j),
                |s| {
                    let rate = like(s, score, -0.5 / sigma);
                    let exponent = s.mul(rate, found);
                    let exponent = s.mul(exponent, found);
                    let factor = s.call(Intrinsic::Exp, &[exponent]);
                    let lower = s.mul(score, factor);
                    s.set(self.out, &[self.image, j, self.score], lower);
                    let lower = self.number(s, j, self.score);
                    let is_low = s.compare(CmpOp::Le, lower, self.threshold);
                    s.if_(is_low, |s| self.forget(s, j));
                },
            );
        });
    }
}

/// Intersection over union of two boxes, each by two opposite corners.
pub(super) fn overlap(te: &mut Te, a: [ExprId; 4], b: [ExprId; 4]) -> ExprId {
    let zero = like(te, a[0], 0.0);
    let [a, b] = [a, b].map(|[x, y, z, w]| [te.min(x, z), te.min(y, w), te.max(x, z), te.max(y, w)]);
    let [width, height] = [0, 1].map(|d| {
        let (end, start) = (te.min(a[d + 2], b[d + 2]), te.max(a[d], b[d]));
        let length = te.sub(end, start);
        te.max(zero, length)
    });
    let common = te.mul(height, width);
    let [of_a, of_b] = [a, b].map(|corners| {
        let (width, height) = (te.sub(corners[2], corners[0]), te.sub(corners[3], corners[1]));
        te.mul(width, height)
    });
    let all = te.add(of_a, of_b);
    let all = te.sub(all, common);
    let is_empty = te.compare(CmpOp::Le, all, zero);
    let part = te.binary(BinOp::Div, common, all);
    te.if_then_else(is_empty, zero, part)
}

fn lower(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (data, valid, indices) = (cx.input("data")?, cx.input("valid_count")?, cx.input("indices")?);
    let (shape, dtype) = (cx.shape_of(data), cx.te.element_type(data));
    let sigma = cx.float("soft_nms_sigma");
    let (score, class) = (cx.int("score_index"), cx.int("id_index"));
    let (top, first_side, most) = (cx.int("top_k"), cx.int("coord_start"), cx.int("max_output_size"));
    let (overlap, threshold) = (cx.float("iou_threshold"), if sigma > 0.0 { cx.float("score_threshold") } else { 0.0 });
    let ignores_class = cx.flag("force_suppress") || class < 0;
    let (returns_indices, rearranges) = (cx.flag("return_indices"), cx.flag("invalid_to_bottom"));
    let te = &mut cx.te;
    let order = order(te, data, valid, score);
    let (one, n) = (te.extent(1), shape[1]);
    let of_counts = [shape[0], one];
    let written = [
        ("nms_boxes", dtype, &shape[..]),
        ("nms_indices", DType::Int32, &shape[..2]),
        ("nms_counts", DType::Int32, &of_counts[..]),
    ];
    let results = te.statements("non_max_suppression", &shape[..1], &written, |s, out, i| {
        let zero = s.extent(0);
        let valid = s.at(valid, i);
        let valid = s.cast(crate::te::INDEX, valid);
        let count = if top > 0 {
            let top = s.extent(top);
            s.min(valid, top)
        } else {
            valid
        };
        let (score, threshold, overlap) = (s.extent(score), s.float(threshold, dtype), s.float(overlap, dtype));
        let class = (!ignores_class).then(|| s.extent(class));
        let (image, shape) = (i[0], [n, shape[2]]);
        let (places, count_at) = (out[1], [i[0], zero]);
        let boxes =
            Boxes { image, out: out[0], places, shape, count, threshold, score, class, first_side, overlap, most };
        s.for_each(&[n], |s, j| {
            let is_there = s.lt(j[0], count);
            s.if_else(
                is_there,
                |s| {
                    let from = s.at(order, &[image, j[0]]);
                    s.for_each(&boxes.shape[1..], |s, k| {
                        let number = s.at(data, &[image, from, k[0]]);
                        s.set(out[0], &[image, j[0], k[0]], number);
                    });
                    let from = s.cast(DType::Int32, from);
                    s.set(places, &[image, j[0]], from);
                },
                |s| {
                    boxes.clear(s, j[0]);
                    boxes.forget(s, j[0]);
                },
            );
        });
        if sigma > 0.0 {
            boxes.suppress_softly(s, sigma);
        } else {
            boxes.suppress(s);
        }
        // The places of the boxes that are left, without gaps.
        let found = s.counter("found", zero);
        s.for_each(&[n], |s, j| {
            let (place, none) = (s.at(places, &[image, j[0]]), s.int32(0));
            let is_there = s.compare(CmpOp::Ge, place, none);
            s.if_(is_there, |s| {
                let place = s.cast(crate::te::INDEX, place);
                let (was, to) = (s.at(indices, &[image, place]), s.at(found, &[]));
                s.set(places, &[image, to], was);
                let next = s.add_const(to, 1);
                s.set(found, &[], next);
            });
        });
        let n_found = s.at(found, &[]);
        let count = s.cast(DType::Int32, n_found);
        s.set(out[2], &count_at, count);
        s.for_each(&[n], |s, j| {
            let is_behind = s.compare(CmpOp::Ge, j[0], n_found);
            s.if_(is_behind, |s| boxes.forget(s, j[0]));
        });
    });
    Ok(match (returns_indices, sigma > 0.0) {
        (true, true) => results,
        (true, false) => results[1..].to_vec(),
        (false, _) if rearranges => vec![without_gaps(te, results[0], score)],
        (false, _) => results[..1].to_vec(),
    })
}

/// The indices of the valid boxes of each image by descending score.
fn order(te: &mut Te, data: Tensor, valid: Tensor, score: i64) -> Tensor {
    let shape = te.shape(data).to_vec();
    let scores = te.compute("nms_scores", &shape[..2], |te, i| {
        let (valid, score) = (te.at(valid, &i[..1]), te.extent(score));
        let valid = te.cast(crate::te::INDEX, valid);
        let x = te.at(data, &[i[0], i[1], score]);
        // Equal elements keep their order, so the others come behind.
        let (is_valid, least) = (te.lt(i[1], valid), like(te, x, f64::NEG_INFINITY));
        te.if_then_else(is_valid, x, least)
    });
    argsort(te, scores, 1, true, crate::te::INDEX)
}

/// The boxes that have a score, followed by `-1`.
fn without_gaps(te: &mut Te, boxes: Tensor, score: i64) -> Tensor {
    let (shape, dtype) = (te.shape(boxes).to_vec(), te.element_type(boxes));
    let written = [("nms_rearranged", dtype, &shape[..])];
    let results = te.statements("rearrange_out", &shape[..1], &written, |s, out, i| {
        let (zero, least, none) = (s.extent(0), s.float(0.0, dtype), s.float(-1.0, dtype));
        let score = s.extent(score);
        let found = s.counter("found", zero);
        s.for_each(&shape[1..2], |s, j| {
            let (score, to) = (s.at(boxes, &[i[0], j[0], score]), s.at(found, &[]));
            let is_there = s.compare(CmpOp::Ge, score, least);
            s.if_(is_there, |s| {
                s.for_each(&shape[2..], |s, k| {
                    let number = s.at(boxes, &[i[0], j[0], k[0]]);
                    s.set(out[0], &[i[0], to, k[0]], number);
                });
                let next = s.add_const(to, 1);
                s.set(found, &[], next);
            });
        });
        s.for_each(&shape[1..], |s, at| {
            let n_found = s.at(found, &[]);
            let is_behind = s.compare(CmpOp::Ge, at[0], n_found);
            s.if_(is_behind, |s| s.set(out[0], &[i[0], at[0], at[1]], none));
        });
    });
    results[0]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{refused, results, type_of};

    const PARAMS: &str = r#"x: R.Tensor((2, 5, 6), "float32"), n: R.Tensor((2,), "int32"), i: R.Tensor((2, 5), "int32"), m: R.Tensor((3,), "int32")"#;

    #[test]
    fn results_follow_from_attributes() {
        let of = |attributes: &str| type_of(PARAMS, &format!("R.vision.non_max_suppression(x, n, i{attributes})"));
        assert_eq!(of(""), "(int32 [2, 5], int32 [2, 1])");
        assert_eq!(of(", soft_nms_sigma=0.5"), "(float32 [2, 5, 6], int32 [2, 5], int32 [2, 1])");
        assert_eq!(of(", return_indices=False"), "float32 [2, 5, 6]");
    }

    #[test]
    fn mistakes_name_the_shapes() {
        let of = |call: &str, parts: &[&str]| refused(PARAMS, &format!("R.vision.non_max_suppression({call})"), parts);
        of("x, m, i", &["`data` [2, 5, 6]", "`valid_count` [3]"]);
        of("x, n, n", &["`indices` must have 2 dimensions"]);
        of("x, n, i, coord_start=3", &["`coord_start` 3", "[2, 5, 6]"]);
        of("x, n, i, id_index=-2", &["`id_index` -2"]);
    }

    /// Class, score and corners. The second box overlaps the first by 2/3, and the third by nothing.
    const BOXES: [f32; 24] = [
        0.0, 0.5, 1.0, 0.0, 6.0, 1.0, //
        0.0, 0.9, 0.0, 0.0, 5.0, 1.0, //
        0.0, 0.4, 6.0, 0.0, 8.0, 1.0, //
        1.0, 0.3, 0.0, 0.0, 5.0, 1.0, //
    ];

    fn of_boxes(attributes: &str) -> Vec<Vec<f32>> {
        let call = format!(
            "R.vision.non_max_suppression(x, R.const([4], \"int32\"), R.const([[10, 11, 12, 13]], \"int32\"){attributes})"
        );
        results(&[("x", &[1, 4, 6], &BOXES)], &call)
    }

    #[test]
    fn boxes_that_a_better_one_overlaps_are_suppressed() {
        assert_eq!(of_boxes(""), [vec![11.0, 12.0, 13.0, -1.0], vec![3.0]]);
        assert_eq!(of_boxes(", force_suppress=True"), [vec![11.0, 12.0, -1.0, -1.0], vec![2.0]]);
        assert_eq!(of_boxes(", max_output_size=1"), [vec![11.0, -1.0, -1.0, -1.0], vec![1.0]]);
        let scores = |attributes: &str| -> Vec<f32> { of_boxes(attributes)[0].chunks(6).map(|b| b[1]).collect() };
        assert_eq!(scores(", return_indices=False"), [0.9, -1.0, 0.4, 0.3]);
        assert_eq!(scores(", return_indices=False, invalid_to_bottom=True"), [0.9, 0.4, 0.3, -1.0]);
    }

    #[test]
    fn soft_suppression_lowers_scores() {
        let found = of_boxes(", iou_threshold=0.8, soft_nms_sigma=0.5, score_threshold=0.1");
        // The first one's score is 0.5 times exp(-4/9), which is below that of the third.
        let scores: Vec<f32> = found[0].chunks(6).map(|b| b[1]).collect();
        for (found, expected) in scores.iter().zip([0.9, 0.4, 0.320_588, 0.3]) {
            assert!((found - expected).abs() < 1e-5, "{scores:?}");
        }
        assert_eq!(found[1..], [vec![11.0, 12.0, 10.0, 13.0], vec![4.0]]);
    }
}
