//! The first elements of an order, by counting.
//!
//! Elements become keys, which are integers of 32 bits in the same order. The place of an element is the number of those before it:
//!
//! ```text
//! key[j]   = an integer, larger for elements that come earlier
//! place[j] = number of m with key[m] > key[j], or key[m] == key[j] and m < j
//! ```
//!
//! Counting needs n² comparisons, which are vectors. Of long rows the k-th largest key is found first, bit by bit: a bit of the threshold
//! stays set if at least k keys are not below it. This takes 32 passes, vectors too. Only the k elements that are not below the
//! threshold have places then, and where n is much larger than k, the passes are over the blocks with the largest keys alone. A few elements
//! are found one after the other. Of equal elements the first ones are kept, in their order; all zeros are equal, and what is no number
//! comes before or after all numbers by its sign.

use super::*;
use crate::ir::Builtin;
use crate::te::{INDEX, Reducer, Statements};

/// Rows of so many elements have places without a threshold.
pub(super) const SHORT: i64 = 128;
/// So many elements are in order by their places, and more by merging.
const MANY: i64 = 1024;
/// Up to so many comparisons bring elements to their places without stores at computed indices.
const CHEAP: i64 = 4096;
/// So few elements are found one after the other in any row.
const FEW: i64 = 4;
/// Keys of 64 bits that are compared together.
const LANES: i64 = 8;
/// What the first element of a row has in the lower half of its key.
const LAST: i64 = i32::MAX as i64;
/// Keys that are counted together.
const CHUNK: i64 = 64;
const LEAST: i64 = i32::MIN as i64;

/// The indices of the `k` largest or smallest elements along an axis, in order; the axis has at least `k`, and `k` is positive. Nothing
/// if the extent is unknown or elements have more than 32 bits.
pub(super) fn first_in_order(
    te: &mut Te,
    x: Tensor,
    axis: usize,
    k: i64,
    largest: bool,
    dtype: DType,
) -> Option<Tensor> {
    let shape = te.shape(x).to_vec();
    let n = te.as_int(shape[axis])?;
    if !has_keys(te.element_type(x)) {
        return None;
    }
    let mut rows = shape;
    rows.remove(axis);
    let keyed = Keyed { x, axis, n, rows, largest };
    let is_short = n <= SHORT;
    if k <= FEW || is_short && 2 * k <= n {
        return Some(keyed.one_after_the_other(te, k, dtype));
    }
    let keys = keyed.keys(te, if is_short { n } else { whole_chunks(n) });
    let rows = &keyed.rows;
    let candidates = match is_short {
        true => Candidates { keys, indices: None, n },
        false => match block_of(n, k) {
            Some(block) => in_blocks(te, keys, rows, block, k),
            None => above_threshold(te, keys, rows, k),
        },
    };
    Some(candidates.in_order(te, rows, axis, k, dtype))
}

fn whole_chunks(n: i64) -> i64 {
    (n + CHUNK - 1) / CHUNK * CHUNK
}

/// Rows of elements that have keys.
struct Keyed {
    x: Tensor,
    axis: usize,
    n: i64,
    /// The extents of the other axes.
    rows: Vec<ExprId>,
    largest: bool,
}

impl Keyed {
    /// The keys of each row, behind which the least key follows up to an extent.
    fn keys(&self, te: &mut Te, padded: i64) -> Tensor {
        let least = te.int(LEAST, DType::Int32);
        self.padded(te, padded, least, |_, key, _| key)
    }

    fn padded(&self, te: &mut Te, padded: i64, least: ExprId, of_key: fn(&mut Te, ExprId, ExprId) -> ExprId) -> Tensor {
        let extents = with_last(te, &self.rows, padded);
        te.compute("topk_key", &extents, |te, i| {
            let (j, row) = (i[self.rows.len()], &i[..self.rows.len()]);
            let x = te.at(self.x, &with_index(row, self.axis, j));
            let key = key(te, x, self.largest);
            let key = of_key(te, key, j);
            if padded == self.n {
                return key;
            }
            let end = te.extent(self.n);
            let exists = te.lt(j, end);
            te.if_then_else(exists, key, least)
        })
    }

    /// The first ones of few: each is the largest that is less than the one before. Keys of 64 bits have what is left behind an element in
    /// their lower halves, so that no two are equal.
    fn one_after_the_other(&self, te: &mut Te, k: i64, dtype: DType) -> Tensor {
        let int64 = DType::Int64;
        let padded = (self.n + LANES - 1) / LANES * LANES;
        let (least, most) = (te.int(i64::MIN, int64), te.int(i64::MAX, int64));
        let keys = self.padded(te, padded, least, |te, key, j| {
            let (key, j, bits) = (te.cast(DType::Int64, key), te.cast(DType::Int64, j), te.int(32, DType::Int64));
            let upper = te.call(Intrinsic::ShiftLeft, &[key, bits]);
            let last = te.int(LAST, DType::Int64);
            let lower = te.sub(last, j);
            te.add(upper, lower)
        });
        let kept = te.extent(k);
        let shape = with_index(&self.rows, self.axis, kept);
        let (vectors, lanes) = (te.extents(&[padded / LANES]), te.extents(&[LANES]));
        let written = [("topk", dtype, &shape[..])];
        te.statements("topk", &self.rows, &written, |s, out, i| {
            let (bound, found) = (s.local("bound", int64, &[]), s.local("found", int64, &lanes));
            s.set(bound, &[], most);
            s.for_each(&[kept], |s, place| {
                s.for_each(&lanes, |s, l| s.set(found, l, least));
                let before = s.at(bound, &[]);
                s.for_each(&vectors, |s, v| {
                    s.for_each(&lanes, |s, l| {
                        let first = s.mul_const(v[0], LANES);
                        let at = s.add(first, l[0]);
                        let (key, so_far) = (s.at(keys, &with_index(i, i.len(), at)), s.at(found, l));
                        let is_left = s.lt(key, before);
                        let key = s.select(is_left, key, least);
                        let larger = s.max(so_far, key);
                        s.set(found, l, larger);
                    });
                });
                s.set(bound, &[], least);
                s.for_each(&lanes, |s, l| {
                    let (so_far, other) = (s.at(bound, &[]), s.at(found, l));
                    let larger = s.max(so_far, other);
                    s.set(bound, &[], larger);
                });
                let (key, mask, last) = (s.at(bound, &[]), s.int(u32::MAX.into(), int64), s.int(LAST, int64));
                let lower = s.call(Intrinsic::BitAnd, &[key, mask]);
                let index = s.sub(last, lower);
                let index = s.cast(dtype, index);
                s.set(out[0], &with_index(i, self.axis, place[0]), index);
            });
        })[0]
    }
}

/// Elements of a block, of which the largest keys choose `k` blocks, if that leaves much fewer keys to count.
fn block_of(n: i64, k: i64) -> Option<i64> {
    let left = |block: &i64| n / block + k * block;
    [8, 16, 32, 64].into_iter().min_by_key(left).filter(|block| 2 * left(block) < n && n / block > k)
}

/// The `k` largest keys are in the `k` blocks whose largest keys come first: each block before has an element before.
fn in_blocks(te: &mut Te, keys: Tensor, rows: &[ExprId], block: i64, k: i64) -> Candidates {
    let (int32, row) = (DType::Int32, rows.len());
    let last = te.shape(keys)[row];
    let n = te.as_int(last).unwrap_or(0) / block;
    let padded = whole_chunks(n);
    let (extents, elements) = (with_last(te, rows, n), te.extent(block));
    let largest = te.reduce("topk_block", &extents, &[elements], Reducer::Max, |te, i, j| {
        let first = te.mul_const(i[row], block);
        let at = te.add(first, j[0]);
        te.at(keys, &with_index(&i[..row], row, at))
    });
    let extents = with_last(te, rows, padded);
    let largest = te.compute("topk_block_pad", &extents, |te, i| {
        let (end, least) = (te.extent(n), te.int(LEAST, int32));
        let (exists, key) = (te.lt(i[row], end), te.at(largest, i));
        te.if_then_else(exists, key, least)
    });
    let chosen = above_threshold(te, largest, rows, k);
    let position = |te: &mut Te, row: &[ExprId], which: ExprId, element: ExprId| {
        let block_index = chosen.index(te, row, which, INDEX);
        let first = te.mul_const(block_index, block);
        te.add(first, element)
    };
    let left = k * block;
    let (extents, blocks) = (with_last(te, rows, whole_chunks(left)), te.extent(k));
    let written = [("topk_block_key", int32, &extents[..])];
    let keys = te.statements("topk_block_key", rows, &written, |s, out, i| {
        s.for_each(&[blocks], |s, b| {
            s.for_each(&[elements], |s, j| {
                let at = position(s, i, b[0], j[0]);
                let key = s.at(keys, &with_index(i, row, at));
                let first = s.mul_const(b[0], block);
                let to = s.add(first, j[0]);
                s.set(out[0], &with_index(i, row, to), key);
            });
        });
        let (rest, least) = (s.extent(whole_chunks(left) - left), s.int(LEAST, int32));
        s.for_each(&[rest], |s, j| {
            let to = s.add_const(j[0], left);
            s.set(out[0], &with_index(i, row, to), least);
        });
    });
    let found = above_threshold(te, keys[0], rows, k);
    let extents = with_last(te, rows, k);
    let indices = te.compute("topk_index", &extents, |te, i| {
        let at = found.index(te, &i[..row], i[row], INDEX);
        let (which, element) = (te.floor_div(at, elements), te.floor_mod(at, elements));
        position(te, &i[..row], which, element)
    });
    Candidates { indices: Some(indices), ..found }
}

fn has_keys(dtype: DType) -> bool {
    match dtype {
        DType::Int32 => true,
        _ => dtype.is_float() && dtype.bits() <= 32 || dtype.is_integer() && dtype.bits() < 32,
    }
}

fn with_last(te: &mut Te, rows: &[ExprId], last: i64) -> Vec<ExprId> {
    let mut extents = rows.to_vec();
    extents.push(te.extent(last));
    extents
}

/// The key of an element. The bits of a float are its sign and its magnitude.
fn key(te: &mut Te, x: ExprId, largest: bool) -> ExprId {
    let key = if te.dtype(x).is_float() {
        let x = te.cast(DType::Float32, x);
        let bits = te.builtin(Builtin::Reinterpret, &[x], DType::Int32);
        let (zero, least) = (te.int(0, DType::Int32), te.int(LEAST, DType::Int32));
        let is_negative = te.lt(bits, zero);
        let below_zero = te.sub(least, bits);
        te.select(is_negative, below_zero, bits)
    } else {
        te.cast(DType::Int32, x)
    };
    if largest { key } else { te.call(Intrinsic::BitNot, &[key]) }
}

/// The elements of a row among which the first ones are, in the order of their indices.
struct Candidates {
    keys: Tensor,
    /// The indices in the row; those of the candidates if all are.
    indices: Option<Tensor>,
    n: i64,
}

/// The `k` largest keys of rows of whole chunks.
fn above_threshold(te: &mut Te, keys: Tensor, rows: &[ExprId], k: i64) -> Candidates {
    let int32 = DType::Int32;
    let last = te.shape(keys)[rows.len()];
    let n = te.as_int(last).unwrap_or(0);
    let chunks = te.extents(&[n / CHUNK, CHUNK]);
    let written = [("topk_threshold", int32, rows), ("topk_equal", int32, rows)];
    let threshold = te.statements("topk_threshold", rows, &written, |s, out, i| {
        let (threshold, counts, total) =
            (s.local("threshold", int32, &[]), s.local("counts", int32, &chunks[1..]), s.local("total", int32, &[]));
        let (zero, least, enough) = (s.int(0, int32), s.int(LEAST, int32), s.int(k, int32));
        s.set(threshold, &[], least);
        let bits = s.extent(32);
        let count = |s: &mut Statements<'_>, how: CmpOp, bound: ExprId| {
            s.for_each(&chunks[1..], |s, l| s.set(counts, l, zero));
            s.for_each(&chunks[..1], |s, c| {
                s.for_each(&chunks[1..], |s, l| {
                    let first = s.mul_const(c[0], CHUNK);
                    let at = s.add(first, l[0]);
                    let key = s.at(keys, &with_index(i, i.len(), at));
                    let counted = s.compare(how, key, bound);
                    let (counted, so_far) = (s.cast(int32, counted), s.at(counts, l));
                    let sum = s.add(so_far, counted);
                    s.set(counts, l, sum);
                });
            });
            s.set(total, &[], zero);
            s.for_each(&chunks[1..], |s, l| {
                let (so_far, more) = (s.at(total, &[]), s.at(counts, l));
                let sum = s.add(so_far, more);
                s.set(total, &[], sum);
            });
            s.at(total, &[])
        };
        s.for_each(&[bits], |s, b| {
            let (b, last, one) = (s.cast(int32, b[0]), s.int(31, int32), s.int(1, int32));
            let shift = s.sub(last, b);
            let bit = s.call(Intrinsic::ShiftLeft, &[one, shift]);
            let before = s.at(threshold, &[]);
            let raised = s.call(Intrinsic::BitXor, &[before, bit]);
            let total = count(s, CmpOp::Ge, raised);
            let has_enough = s.compare(CmpOp::Ge, total, enough);
            let next = s.select(has_enough, raised, before);
            s.set(threshold, &[], next);
        });
        let found = s.at(threshold, &[]);
        let larger = count(s, CmpOp::Gt, found);
        let equal = s.sub(enough, larger);
        s.set(out[0], i, found);
        s.set(out[1], i, equal);
    });
    let extents = with_last(te, rows, k);
    let written = [("topk_found", INDEX, &extents[..]), ("topk_found_key", int32, &extents[..])];
    let found = te.statements("topk_found", rows, &written, |s, out, i| {
        let (threshold, equal) = (s.at(threshold[0], i), s.at(threshold[1], i));
        let (zero, none) = (s.extent(0), s.int(0, int32));
        let (next, left, hits) = (s.counter("next", zero), s.local("left", int32, &[]), s.local("hits", int32, &[]));
        s.set(left, &[], equal);
        s.for_each(&chunks[..1], |s, c| {
            let first = s.mul_const(c[0], CHUNK);
            s.set(hits, &[], none);
            s.for_each(&chunks[1..], |s, l| {
                let at = s.add(first, l[0]);
                let key = s.at(keys, &with_index(i, i.len(), at));
                let is_hit = s.compare(CmpOp::Ge, key, threshold);
                let (is_hit, so_far) = (s.cast(int32, is_hit), s.at(hits, &[]));
                let sum = s.add(so_far, is_hit);
                s.set(hits, &[], sum);
            });
            let hits = s.at(hits, &[]);
            let has_hits = s.lt(none, hits);
            s.if_(has_hits, |s| {
                s.for_each(&chunks[1..], |s, l| {
                    let at = s.add(first, l[0]);
                    let (key, so_many) = (s.at(keys, &with_index(i, i.len(), at)), s.at(left, &[]));
                    let (is_larger, is_equal) = (s.lt(threshold, key), s.compare(CmpOp::Eq, key, threshold));
                    let is_wanted = s.lt(none, so_many);
                    let is_taken = s.and(is_equal, is_wanted);
                    let is_taken = s.or(is_larger, is_taken);
                    s.if_(is_taken, |s| {
                        let place = s.at(next, &[]);
                        let to = with_index(i, i.len(), place);
                        s.set(out[0], &to, at);
                        s.set(out[1], &to, key);
                        let following = s.add_const(place, 1);
                        s.set(next, &[], following);
                        let used = s.cast(int32, is_equal);
                        let fewer = s.sub(so_many, used);
                        s.set(left, &[], fewer);
                    });
                });
            });
        });
    });
    Candidates { keys: found[1], indices: Some(found[0]), n: k }
}

impl Candidates {
    /// The indices of the first `k` in order, along an axis.
    fn in_order(&self, te: &mut Te, rows: &[ExprId], axis: usize, k: i64, dtype: DType) -> Tensor {
        let kept = te.extent(k);
        let shape = with_index(rows, axis, kept);
        let row_of = |i: &[ExprId]| {
            let mut row = i.to_vec();
            let place = row.remove(axis);
            (row, place)
        };
        if self.n > MANY {
            let order = super::sort::argsort(te, self.keys, rows.len(), true, INDEX);
            return te.compute("topk", &shape, |te, i| {
                let (row, place) = row_of(i);
                let candidate = te.at(order, &with_index(&row, row.len(), place));
                self.index(te, &row, candidate, dtype)
            });
        }
        let places = self.places(te, rows);
        let n = te.extent(self.n);
        if self.n * k <= CHEAP {
            return te.reduce("topk", &shape, &[n], Reducer::Sum, |te, i, j| {
                let (row, place) = row_of(i);
                let (found, place) = (te.at(places, &with_index(&row, row.len(), j[0])), te.cast(DType::Int32, place));
                let is_there = te.compare(CmpOp::Eq, found, place);
                let index = self.index(te, &row, j[0], dtype);
                let zero = te.int(0, DType::Int32);
                let zero = te.cast(dtype, zero);
                te.select(is_there, index, zero)
            });
        }
        let written = [("topk", dtype, &shape[..])];
        te.statements("topk", rows, &written, |s, out, i| {
            let order = s.local("order", dtype, &[n]);
            s.for_each(&[n], |s, j| {
                let place = s.at(places, &with_index(i, i.len(), j[0]));
                let (place, index) = (s.cast(INDEX, place), self.index(s, i, j[0], dtype));
                s.set(order, &[place], index);
            });
            s.for_each(&[kept], |s, place| {
                let index = s.at(order, place);
                s.set(out[0], &with_index(i, axis, place[0]), index);
            });
        })[0]
    }

    /// The index in its row of a candidate.
    fn index(&self, te: &mut Te, row: &[ExprId], candidate: ExprId, dtype: DType) -> ExprId {
        let index = self.indices.map_or(candidate, |indices| te.at(indices, &with_index(row, row.len(), candidate)));
        te.cast(dtype, index)
    }

    /// The number of candidates before each.
    fn places(&self, te: &mut Te, rows: &[ExprId]) -> Tensor {
        let extents = with_last(te, rows, self.n);
        let n = te.extent(self.n);
        te.reduce("topk_place", &extents, &[n], Reducer::Sum, |te, i, m| {
            let (&j, row) = i.split_last().expect("rows have elements");
            let mut key = |at: ExprId| te.at(self.keys, &with_index(row, row.len(), at));
            let (other, own) = (key(m[0]), key(j));
            let (m, j) = (te.cast(DType::Int32, m[0]), te.cast(DType::Int32, j));
            let (is_larger, is_equal, is_earlier) = (te.lt(own, other), te.compare(CmpOp::Eq, other, own), te.lt(m, j));
            let is_first = te.and(is_equal, is_earlier);
            let is_before = te.or(is_larger, is_first);
            te.cast(DType::Int32, is_before)
        })
    }
}
