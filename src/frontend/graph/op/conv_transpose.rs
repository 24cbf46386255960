//! Transposed convolutions: each element of the data adds the kernel, times itself, to a window of the result.
//!
//! With a stride `s`, elements of the result whose positions have one remainder by `s` get products with the same taps of the
//! kernel, each of which is a convolution without stride:
//!
//! ```text
//! kernel_transform[…, r, t] = weight[…, r + s * (T - 1 - t)]      T = ceil(extent of the kernel / s)
//! phases[…, r, q]           = sum of data_pad[…, q + t] * kernel_transform[…, r, t]
//! out[…, p]                 = phases[…, p % s, p / s]
//! ```
//!
//! Where the data has many channels, one product comes before the sums ([`super::columns`]).
//!
//! So no product has an inserted zero, as it would if the data were spread by the stride first.

use super::columns::Columns;
use super::conv::Conv;
use super::pad::of_type;
use super::*;
use crate::te::Reducer;

/// A transposed convolution of some dimensions, with its default layouts.
macro_rules! transposed {
    ($name:literal, $ones:expr, $zeros:expr, $paddings:expr, $data:literal, $kernel:literal, $doc:literal) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                required("weight", Kind::Tensor),
                optional("strides", Kind::Ints, Default::Ints(&$ones)),
                optional("padding", Kind::Ints, Default::Ints(&$paddings)),
                optional("output_padding", Kind::Ints, Default::Ints(&$zeros)),
                optional("dilation", Kind::Ints, Default::Ints(&$ones)),
                optional("groups", Kind::Int, Default::Int(1)),
                optional("data_layout", Kind::Str, Default::Str($data)),
                optional("kernel_layout", Kind::Str, Default::Str($kernel)),
                optional("out_layout", Kind::OptStr, Default::None),
                optional("out_dtype", Kind::OptDType, Default::None),
            ],
            infer: result,
            lower: Lowering::Stages(stages),
            doc: $doc,
        }
    };
}

pub(super) static OPERATORS: &[Operator] = &[
    transposed!("nn.conv1d_transpose", [1], [0], [0, 0], "NCW", "IOW", "The gradient of conv1d for its data."),
    transposed!(
        "nn.conv2d_transpose",
        [1, 1],
        [0, 0],
        [0, 0, 0, 0],
        "NCHW",
        "IOHW",
        "The gradient of conv2d for its data."
    ),
    transposed!(
        "nn.conv3d_transpose",
        [1, 1, 1],
        [0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        "NCDHW",
        "IODHW",
        "The gradient of conv3d for its data."
    ),
];

fn result(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let conv = Conv::of(cx)?;
    let (data, weight, dtype) = conv.operands(cx)?;
    let added = cx.spatial("output_padding", conv.n())?;
    if let Some(d) = (0..conv.n()).find(|&d| added[d] < 0 || added[d] >= conv.strides[d]) {
        let (added, stride) = (added[d], conv.strides[d]);
        return cx.fail(format!("`output_padding` {added} must be less than the stride {stride} and not negative"));
    }
    let (c, i, o) = (conv.data.at('C'), conv.kernel.at('I'), conv.kernel.at('O'));
    cx.expect_equal(("data", &data, c), ("weight", &weight, i))?;
    conv.expect_groups(cx, "data", &data, c)?;
    let kernel = conv.dilated(cx.arena, &weight.shape);
    let mut spatial = conv.data.spatial_of(&data.shape);
    for (d, extent) in spatial.iter_mut().enumerate() {
        let last = cx.arena.add_const(*extent, -1);
        let first_of_last = cx.arena.mul_const(last, conv.strides[d]);
        let whole = cx.arena.add(first_of_last, kernel[d]);
        let whole = cx.arena.add_const(whole, added[d] - conv.before[d] - conv.after[d]);
        *extent = cx.simplified(whole);
        if cx.known_extent(*extent).is_some_and(|n| n < 1) {
            let (of_data, of_weight) = (cx.extents(&data.shape), cx.extents(&weight.shape));
            let reason = format!("`padding` leaves nothing of the result of `data` {of_data} and `weight` {of_weight}");
            return cx.fail(reason);
        }
    }
    let (items, features) = (data.shape[conv.data.at('N')], cx.arena.mul_const(weight.shape[o], conv.groups));
    let shape = conv.out.placed(('N', items), ('C', features), &spatial);
    Ok(Type::tensor(dtype, shape))
}

fn stages(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let conv = Conv::of(cx)?;
    let (data, weight) = (cx.input("data")?, cx.input("weight")?);
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let (of_data, of_weight) = (cx.shape_of(data), cx.shape_of(weight));
    let te = &mut cx.te;
    let out = conv.out.spatial_of(&shape);
    let phases = Phases::of(te, &conv, &conv.kernel.spatial_of(&of_weight), &out);

    let strided: Vec<usize> = (0..conv.n()).filter(|&d| conv.strides[d] > 1).collect();
    let operands = (data, weight);
    let by_phase = match Columns::of(te, &conv, &of_data, &of_weight) {
        Some(columns) => columns.phases(te, operands, shape[conv.out.at('N')], &phases.quotients, dtype),
        None => by_phase(te, &conv, &phases, operands, &strided, &shape, dtype),
    };
    let is_final = strided.is_empty() && conv.out.name.starts_with("NC") && conv.out.spatial.is_sorted();
    if is_final {
        return Ok(vec![by_phase]);
    }
    Ok(vec![te.compute("T_interleave", &shape, |te, i| {
        let mut at = vec![i[conv.out.at('N')], i[conv.out.at('C')]];
        let mut quotients = Vec::with_capacity(conv.n());
        for (d, &dim) in conv.out.spatial.iter().enumerate() {
            let stride = te.extent(conv.strides[d]);
            if conv.strides[d] == 1 {
                quotients.push(i[dim]);
                continue;
            }
            // The position before padding is taken away, from the first quotient on.
            let position = te.add_const(i[dim], conv.before[d] % conv.strides[d]);
            at.push(te.floor_mod(position, stride));
            quotients.push(te.floor_div(position, stride));
        }
        at.extend(quotients);
        te.at(by_phase, &at)
    })])
}

/// The sums by remainders and quotients of positions, as convolutions.
fn by_phase(
    te: &mut Te,
    conv: &Conv,
    phases: &Phases<'_>,
    (data, weight): (Tensor, Tensor),
    strided: &[usize],
    shape: &[ExprId],
    dtype: DType,
) -> Tensor {
    let (of_data, of_weight) = (te.shape(data).to_vec(), te.shape(weight).to_vec());
    let (batch, features) = (shape[conv.out.at('N')], shape[conv.out.at('C')]);
    let (inputs, outputs) = (of_data[conv.data.at('C')], of_weight[conv.kernel.at('O')]);
    let mut of_kernel = vec![outputs, inputs];
    of_kernel.extend(&phases.remainders);
    of_kernel.extend(&phases.taps);
    let kernel = te.compute("kernel_transform", &of_kernel, |te, i| {
        let (remainder, tap) = i[2..].split_at(conv.n());
        let zero = of_type(te, 0.0, te.element_type(weight));
        let mut at = Vec::with_capacity(conv.n());
        let mut exists = None;
        for d in 0..conv.n() {
            let (index, is_tap) = phases.tap(te, d, remainder[d], tap[d]);
            at.push(index);
            exists = both(te, exists, is_tap);
        }
        let w = te.at(weight, &conv.kernel.placed(('O', i[0]), ('I', i[1]), &at));
        match exists {
            Some(exists) => te.if_then_else(exists, w, zero),
            None => w,
        }
    });

    let mut of_padded = vec![batch, inputs];
    of_padded.extend(&phases.padded);
    let data_pad = te.compute("data_pad", &of_padded, |te, i| {
        let zero = of_type(te, 0.0, te.element_type(data));
        let mut at = Vec::with_capacity(conv.n());
        let mut inside = None;
        for d in 0..conv.n() {
            let index = te.add(i[2 + d], phases.first[d]);
            let extent = of_data[conv.data.spatial[d]];
            let none = zero_index(te);
            let (low, high) = (te.compare(CmpOp::Le, none, index), te.lt(index, extent));
            at.push(index);
            inside = both(te, inside, Some(low));
            inside = both(te, inside, Some(high));
        }
        let x = te.at(data, &conv.data.placed(('N', i[0]), ('C', i[1]), &at));
        match inside {
            Some(inside) => te.if_then_else(inside, x, zero),
            None => x,
        }
    });

    let groups = te.extent(conv.groups);
    let in_group = te.floor_div(inputs, groups);
    let mut of_phases = vec![batch, features];
    of_phases.extend(strided.iter().map(|&d| phases.remainders[d]));
    of_phases.extend(&phases.quotients);
    let mut domain = vec![in_group];
    domain.extend(&phases.taps);
    te.reduce("compute", &of_phases, &domain, Reducer::Sum, |te, i, k| {
        let (remainder, quotient) = i[2..].split_at(strided.len());
        let (mut to, mut from) = (i[1], k[0]);
        if conv.groups > 1 {
            let group = te.floor_div(i[1], outputs);
            let first = te.mul(group, in_group);
            to = te.floor_mod(i[1], outputs);
            from = te.add(first, k[0]);
        }
        let mut of_data = vec![i[0], from];
        let mut of_kernel = vec![to, from];
        let at = |te: &mut Te, d| match strided.iter().position(|&s| s == d) {
            Some(s) => remainder[s],
            None => zero_index(te),
        };
        of_kernel.extend((0..conv.n()).map(|d| at(te, d)));
        for (d, &tap) in k[1..].iter().enumerate() {
            let step = if conv.strides[d] == 1 { te.mul_const(tap, conv.dilation[d]) } else { tap };
            of_data.push(te.add(quotient[d], step));
            of_kernel.push(tap);
        }
        let (x, w) = (te.at(data_pad, &of_data), te.at(kernel, &of_kernel));
        let (x, w) = (te.cast(dtype, x), te.cast(dtype, w));
        te.mul(x, w)
    })
}

fn zero_index(te: &mut Te) -> ExprId {
    te.extent(0)
}

fn both(te: &mut Te, a: Option<ExprId>, b: Option<ExprId>) -> Option<ExprId> {
    match (a, b) {
        (Some(a), Some(b)) => Some(te.and(a, b)),
        (one, other) => one.or(other),
    }
}

/// The extents of the convolutions for each remainder of positions.
struct Phases<'a> {
    conv: &'a Conv,
    /// Taps of the kernel.
    kernel: Vec<ExprId>,
    /// Remainders of positions by the stride.
    remainders: Vec<ExprId>,
    /// Taps of the kernel for one remainder.
    taps: Vec<ExprId>,
    /// Quotients of positions by the stride.
    quotients: Vec<ExprId>,
    /// The padded data.
    padded: Vec<ExprId>,
    /// The index in the data of the first element of the padded data.
    first: Vec<ExprId>,
}

impl Phases<'_> {
    fn of<'a>(te: &mut Te, conv: &'a Conv, kernel: &[ExprId], out: &[ExprId]) -> Phases<'a> {
        let mut phases = Phases {
            conv,
            kernel: kernel.to_vec(),
            remainders: Vec::new(),
            taps: Vec::new(),
            quotients: Vec::new(),
            padded: Vec::new(),
            first: Vec::new(),
        };
        for d in 0..conv.n() {
            let (s, before) = (conv.strides[d], conv.before[d]);
            let stride = te.extent(s);
            phases.remainders.push(stride);
            let whole = super::conv::dilated_extent(te, kernel[d], conv.dilation[d]);
            // Without a stride the taps stay where they are, and dilation is a distance in the data.
            let (taps, reach, quotients) = match s {
                1 => (kernel[d], te.add_const(whole, -1), out[d]),
                _ => {
                    let rounded = te.add_const(whole, s - 1);
                    let taps = te.floor_div(rounded, stride);
                    let rounded = te.add_const(out[d], before % s + s - 1);
                    (taps, te.add_const(taps, -1), te.floor_div(rounded, stride))
                }
            };
            phases.taps.push(taps);
            phases.quotients.push(quotients);
            phases.padded.push(te.add(quotients, reach));
            let skipped = te.extent(before / s);
            phases.first.push(te.sub(skipped, reach));
        }
        phases
    }

    /// The index of a tap in the kernel, and whether it exists, if that is not sure.
    fn tap(&self, te: &mut Te, d: usize, remainder: ExprId, tap: ExprId) -> (ExprId, Option<ExprId>) {
        let (s, dilation) = (self.conv.strides[d], self.conv.dilation[d]);
        let last = te.add_const(self.taps[d], -1);
        let from_last = te.sub(last, tap);
        if s == 1 {
            return (from_last, None);
        }
        let first = te.mul_const(from_last, s);
        let position = te.add(first, remainder);
        let distance = te.extent(dilation);
        let index = te.floor_div(position, distance);
        let mut exists = Some(te.lt(index, self.kernel[d]));
        if dilation > 1 {
            let (rest, zero) = (te.floor_mod(position, distance), te.extent(0));
            let is_tap = te.compare(CmpOp::Eq, rest, zero);
            exists = both(te, exists, Some(is_tap));
        }
        (index, exists)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused, type_of, varied};

    #[test]
    fn shapes_grow_by_the_stride() {
        let params = r#"x: R.Tensor((1, 4, 5, "w"), "float32"), k: R.Tensor((4, 3, 3, 2), "float32")"#;
        let call = "R.nn.conv2d_transpose(x, k, strides=2, padding=(1, 0, 1, 0), output_padding=(1, 0), groups=2)";
        assert_eq!(type_of(params, call), "float32 [1, 6, 10, w * 2]");
    }

    #[test]
    fn mistakes_name_both_shapes() {
        let params = r#"x: R.Tensor((1, 3, 5), "float32"), k: R.Tensor((4, 3, 3), "float32")"#;
        refused(params, "R.nn.conv1d_transpose(x, k)", &["R.nn.conv1d_transpose", "[1, 3, 5]", "[4, 3, 3]"]);
        let params = r#"x: R.Tensor((1, 3, 5), "float32"), k: R.Tensor((3, 3, 3), "float32")"#;
        refused(params, "R.nn.conv1d_transpose(x, k, output_padding=1)", &["`output_padding` 1", "stride 1"]);
        refused(params, "R.nn.conv1d_transpose(x, k, padding=4)", &["[1, 3, 5]", "nothing"]);
    }

    /// Adds the kernel times each element to the result.
    fn scattered(
        x: &[f32],
        k: &[f32],
        taps: usize,
        (stride, dilation, before, out): (usize, usize, i64, usize),
    ) -> Vec<f32> {
        // Two channels become three.
        let n = x.len() / 2;
        let mut result = vec![0.0; 3 * out];
        for c in 0..2 {
            for i in 0..n {
                for o in 0..3 {
                    for t in 0..taps {
                        let at = (i * stride + t * dilation) as i64 - before;
                        if (0..out as i64).contains(&at) {
                            result[o * out + at as usize] += x[c * n + i] * k[(c * 3 + o) * taps + t];
                        }
                    }
                }
            }
        }
        result
    }

    #[test]
    fn each_element_adds_the_kernel() {
        let x = varied(&[1, 2, 5]);
        // Stride, padding before and after, dilation, what is added to the result, and taps.
        for (stride, before, after, dilation, added, taps) in [
            (1, 0, 0, 1, 0, 3),
            (1, 1, 0, 2, 0, 3),
            (2, 0, 0, 1, 0, 2),
            (2, 1, 1, 1, 1, 3),
            (3, 2, 4, 2, 2, 4),
            (4, 0, 1, 1, 0, 1),
        ] {
            let k = varied(&[2, 3, taps]);
            let out = 4 * stride + (taps - 1) * dilation + 1 + added - before - after;
            let call = format!(
                "R.nn.conv1d_transpose(x, k, strides={stride}, padding=({before}, {after}), dilation={dilation}, output_padding={added})"
            );
            let expected = scattered(&x, &k, taps as usize, (stride as usize, dilation as usize, before, out as usize));
            check(&[("x", &[1, 2, 5], &x), ("k", &[2, 3, taps], &k)], &call, &expected);
        }
    }

    #[test]
    fn products_of_many_channels_are_added_where_they_meet() {
        // Rows, columns, taps, stride, padding before and after, and what is added to the result.
        for (h, w, taps, stride, before, after, added) in [
            (3, 4, 2, 2, 0, 0, 0),
            (3, 4, 4, 2, 1, 1, 0),
            (2, 3, 3, 2, 1, 1, 1),
            (3, 2, 5, 3, 3, 0, 2),
            (2, 2, 1, 2, 0, 0, 1),
        ] {
            let (x, k) = (varied(&[2, 32, h, w]), varied(&[32, 3, taps, taps]));
            let out = |n: i64| (n - 1) * stride + taps + added - before - after;
            let (rows, columns) = (out(h), out(w));
            let mut expected = vec![0.0; (2 * 3 * rows * columns) as usize];
            for (at, value) in x.iter().enumerate() {
                let at = at as i64;
                let (n, c, y, z) = (at / (32 * h * w), at / (h * w) % 32, at / w % h, at % w);
                for (tap, weight) in
                    k.iter().enumerate().skip((c * 3 * taps * taps) as usize).take((3 * taps * taps) as usize)
                {
                    let tap = tap as i64;
                    let (o, u, v) = (tap / (taps * taps) % 3, tap / taps % taps, tap % taps);
                    let (row, column) = (y * stride + u - before, z * stride + v - before);
                    if (0..rows).contains(&row) && (0..columns).contains(&column) {
                        expected[(((n * 3 + o) * rows + row) * columns + column) as usize] += value * weight;
                    }
                }
            }
            let call = format!(
                "R.nn.conv2d_transpose(x, k, strides={stride}, padding=({before}, {before}, {after}, {after}), output_padding={added})"
            );
            check(&[("x", &[2, 32, h, w], &x), ("k", &[32, 3, taps, taps], &k)], &call, &expected);
        }
    }
}
