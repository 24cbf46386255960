//! Transposed convolutions with strides as one product, the columns of which are added where they meet:
//!
//! ```text
//! columns[n, (o, t), y]  = sum over c of weight[c, (o, t)] * data[n, c, y]
//! phases[n, o, r, q]     = sum over u of columns[n, (o, r + s * u), q - u]      u < ceil(extent of the kernel / s)
//! ```
//!
//! `y` are all positions of the data in one dimension, so that vectors cross the ends of rows, and nothing is multiplied by padding. `r`
//! and `q` are the remainder and the quotient of a position of the result by the stride, as in [`super::conv_transpose`].

use super::conv::Conv;
use super::*;
use crate::te::Reducer;

/// Below so many inputs the sums of columns cost as much as the product.
const INPUTS: i64 = 32;

/// Known extents of a transposed convolution.
pub(super) struct Columns {
    strides: Vec<i64>,
    /// Padding before, as a quotient by the stride.
    skipped: Vec<i64>,
    kernel: Vec<i64>,
    spatial: Vec<i64>,
    inputs: i64,
    outputs: i64,
}

impl Columns {
    /// Nothing if a product does not pay, or extents are not known.
    pub(super) fn of(te: &Te, conv: &Conv, data: &[ExprId], weight: &[ExprId]) -> Option<Columns> {
        let known = |extents: &[ExprId]| extents.iter().map(|&e| te.as_int(e)).collect::<Option<Vec<i64>>>();
        let is_plain = conv.data.name.starts_with("NC") && conv.data.spatial.is_sorted();
        let of_kernel = conv.kernel.name.starts_with("IO") && conv.kernel.spatial.is_sorted();
        if !is_plain || !of_kernel || conv.groups != 1 {
            return None;
        }
        if conv.strides.iter().any(|&s| s < 2) || conv.dilation.iter().any(|&d| d != 1) {
            return None;
        }
        let (data, weight) = (known(&data[1..])?, known(weight)?);
        let skipped = conv.before.iter().zip(&conv.strides).map(|(before, s)| before / s).collect();
        let columns = Columns {
            strides: conv.strides.clone(),
            skipped,
            kernel: weight[2..].to_vec(),
            spatial: data[1..].to_vec(),
            inputs: weight[0],
            outputs: weight[1],
        };
        (columns.inputs >= INPUTS).then_some(columns)
    }

    /// The sums by remainders and quotients of positions, of which there are so many.
    pub(super) fn phases(
        &self,
        te: &mut Te,
        (data, weight): (Tensor, Tensor),
        batch: ExprId,
        quotients: &[ExprId],
        dtype: DType,
    ) -> Tensor {
        let n = self.strides.len();
        let taps: i64 = self.kernel.iter().product();
        let positions: i64 = self.spatial.iter().product();
        let (inputs, rows, all) = (te.extent(self.inputs), te.extent(self.outputs * taps), te.extent(positions));
        let data = te.reshaped("data_rows", data, &[batch, inputs, all]);
        let weight = te.reshaped("kernel_rows", weight, &[inputs, rows]);
        let columns = te.reduce("columns", &[batch, rows, all], &[inputs], Reducer::Sum, |te, i, k| {
            let (x, w) = (te.at(data, &[i[0], k[0], i[2]]), te.at(weight, &[k[0], i[1]]));
            let (x, w) = (te.cast(dtype, x), te.cast(dtype, w));
            te.mul(x, w)
        });
        let mut shape = vec![batch, te.extent(self.outputs)];
        shape.extend(self.strides.iter().map(|&s| te.extent(s)));
        shape.extend(quotients);
        let known: Vec<Option<i64>> = quotients.iter().map(|&q| te.as_int(q)).collect();
        let of_taps: Vec<i64> = (0..n).map(|d| (self.kernel[d] + self.strides[d] - 1) / self.strides[d]).collect();
        let element = |te: &mut Te, i: &[ExprId], u: &[ExprId]| {
            let (remainder, quotient) = i[2..].split_at(n);
            let (mut tap, mut at, mut exists) = (i[1], te.extent(0), None);
            let mut require = |te: &mut Te, condition: ExprId| {
                exists = Some(match exists {
                    Some(all) => te.and(all, condition),
                    None => condition,
                });
            };
            for d in 0..n {
                let first = te.mul_const(u[d], self.strides[d]);
                let index = te.add(first, remainder[d]);
                let (extent, of_data) = (te.extent(self.kernel[d]), te.extent(self.spatial[d]));
                if self.kernel[d] % self.strides[d] != 0 {
                    let is_tap = te.lt(index, extent);
                    require(te, is_tap);
                }
                let position = te.add_const(quotient[d], self.skipped[d]);
                let position = te.sub(position, u[d]);
                if self.skipped[d] < of_taps[d] - 1 {
                    let zero = te.extent(0);
                    let is_inside = te.compare(CmpOp::Le, zero, position);
                    require(te, is_inside);
                }
                if known[d].is_none_or(|q| q + self.skipped[d] > self.spatial[d]) {
                    let is_inside = te.lt(position, of_data);
                    require(te, is_inside);
                }
                tap = te.mul(tap, extent);
                tap = te.add(tap, index);
                at = te.mul(at, of_data);
                at = te.add(at, position);
            }
            let value = te.at(columns, &[i[0], tap, at]);
            match exists {
                Some(exists) => {
                    let zero = like(te, value, 0.0);
                    te.if_then_else(exists, value, zero)
                }
                None => value,
            }
        };
        if of_taps.iter().all(|&taps| taps == 1) {
            let zeros = vec![te.extent(0); n];
            return te.compute("phases", &shape, |te, i| element(te, i, &zeros));
        }
        let domain = te.extents(&of_taps);
        te.reduce("phases", &shape, &domain, Reducer::Sum, element)
    }
}
