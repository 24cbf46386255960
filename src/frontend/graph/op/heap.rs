//! The first elements of an order, by a heap of those found so far.
//!
//! The worst of `k` elements is at the root, so that most of the others are dismissed by one comparison: the time grows with
//! n + k log n log k on average. Of equal elements the first ones are kept, in their order.

use super::*;
use crate::te::Statements;

/// The indices of the `k` largest or smallest elements along an axis, in order; the axis has at least `k`, and `k` is positive.
pub(super) fn first_in_order(te: &mut Te, x: Tensor, axis: usize, k: i64, largest: bool, dtype: DType) -> Tensor {
    let shape = te.shape(x).to_vec();
    let (n, kept) = (shape[axis], te.extent(k));
    let mut rest = shape.clone();
    rest.remove(axis);
    let mut out_shape = shape.clone();
    out_shape[axis] = kept;
    let written = [("topk", dtype, &out_shape[..])];
    let found = te.statements("topk", &rest, &written, |s, out, i| {
        let (zero, one) = (s.extent(0), s.extent(1));
        let first_inner = s.extent(k / 2);
        let heap = Heap {
            x,
            axis,
            outer: i.to_vec(),
            largest,
            items: s.local("found", crate::te::INDEX, &[kept]),
            len: s.counter("len", kept),
            node: s.counter("node", zero),
            held: s.counter("held", zero),
        };
        s.for_each(&[kept], |s, k| s.set(heap.items, k, k[0]));
        let start = s.counter("start", first_inner);
        let from = s.at(start, &[]);
        let has_inner = s.lt(zero, from);
        s.while_(has_inner, |s| {
            let next = s.add_const(from, -1);
            s.set(start, &[], next);
            s.set(heap.node, &[], from);
            heap.sink(s);
        });
        let others = s.sub(n, kept);
        s.for_each(&[others], |s, j| {
            let new = s.add(j[0], kept);
            let root = heap.item(s, zero);
            let (old, value) = (heap.value(s, root), heap.value(s, new));
            let is_better = s.compare(if largest { CmpOp::Gt } else { CmpOp::Lt }, value, old);
            s.if_(is_better, |s| {
                s.set(heap.items, &[zero], new);
                s.set(heap.node, &[], zero);
                heap.sink(s);
            });
        });
        // The worst one goes to the end, again and again.
        let len = s.at(heap.len, &[]);
        let has_several = s.lt(one, len);
        s.while_(has_several, |s| {
            let last = s.add_const(len, -1);
            s.set(heap.len, &[], last);
            heap.swap(s, zero, len);
            s.set(heap.node, &[], zero);
            heap.sink(s);
        });
        s.for_each(&[kept], |s, k| {
            let index = s.at(heap.items, k);
            let index = s.cast(dtype, index);
            s.set(out[0], &with_index(i, axis, k[0]), index);
        });
    });
    found[0]
}

/// Indices of elements, each node of which is not better than those below it.
struct Heap {
    x: Tensor,
    axis: usize,
    /// The indices along the other axes.
    outer: Vec<ExprId>,
    largest: bool,
    items: Tensor,
    /// Number of items.
    len: Tensor,
    /// The node whose item may be in the wrong place.
    node: Tensor,
    /// An item while two are exchanged.
    held: Tensor,
}

impl Heap {
    fn item(&self, s: &mut Statements<'_>, node: ExprId) -> ExprId {
        s.at(self.items, &[node])
    }

    fn value(&self, s: &mut Statements<'_>, item: ExprId) -> ExprId {
        s.at(self.x, &with_index(&self.outer, self.axis, item))
    }

    /// Whether an item comes later in the order than another one.
    fn is_worse(&self, s: &mut Statements<'_>, a: ExprId, b: ExprId) -> ExprId {
        let (x, y) = (self.value(s, a), self.value(s, b));
        let is_less = s.compare(if self.largest { CmpOp::Lt } else { CmpOp::Gt }, x, y);
        let (is_equal, is_behind) = (s.compare(CmpOp::Eq, x, y), s.lt(b, a));
        let is_later = s.and(is_equal, is_behind);
        s.or(is_less, is_later)
    }

    fn swap(&self, s: &mut Statements<'_>, a: ExprId, b: ExprId) {
        let (x, y, held) = (self.item(s, a), self.item(s, b), s.at(self.held, &[]));
        s.set(self.held, &[], x);
        s.set(self.items, &[a], y);
        s.set(self.items, &[b], held);
    }

    /// Exchanges the item of the node with worse ones below it.
    fn sink(&self, s: &mut Statements<'_>) {
        let (node, len) = (s.at(self.node, &[]), s.at(self.len, &[]));
        let left = s.mul_const(node, 2);
        let left = s.add_const(left, 1);
        let right = s.add_const(left, 1);
        let has_child = s.lt(left, len);
        s.while_(has_child, |s| {
            let (a, b) = (self.item(s, left), self.item(s, right));
            let (has_right, right_is_worse, no) = (s.lt(right, len), self.is_worse(s, b, a), s.bool(false));
            // Not by `and`: TVM evaluates both its sides, and there may be no second item.
            let takes_right = s.if_then_else(has_right, right_is_worse, no);
            s.if_else(takes_right, |s| self.sink_to(s, node, right), |s| self.sink_to(s, node, left));
        });
    }

    fn sink_to(&self, s: &mut Statements<'_>, node: ExprId, child: ExprId) {
        let (a, b) = (self.item(s, child), self.item(s, node));
        let is_worse = self.is_worse(s, a, b);
        s.if_else(
            is_worse,
            |s| {
                self.swap(s, node, child);
                s.set(self.node, &[], child);
            },
            |s| {
                let end = s.at(self.len, &[]);
                s.set(self.node, &[], end);
            },
        );
    }
}
