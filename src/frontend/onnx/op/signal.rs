//! Signals: windows, Fourier transforms, weights of the mel scale.
//!
//! A transform is the product with a constant matrix of cosines and sines, which is exact but takes n operations for each result.

use super::*;
use crate::ir::DType;
use std::f64::consts::TAU;

/// Longer transforms are refused: their matrices would be large.
const MOST_POINTS: i64 = 2048;

pub(super) static OPERATORS: &[Operator] = &[
    one("BlackmanWindow", 17, |n| window(n, &[0.42, -0.5, 0.08])),
    one("DFT", 17, |n| {
        let x = n.value(0)?;
        let rank = n.rank(x)?;
        let axis = if n.version < 20 {
            n.int("axis", 1)
        } else if n.has(2) {
            n.known_ints(2)?.first().copied().unwrap_or(-2)
        } else {
            -2
        };
        let axis = n.axis(axis, rank)?;
        let (is_inverse, is_onesided) = (n.flag("inverse", false), n.flag("onesided", false));
        let length = if n.has(1) { n.known_ints(1)?.first().copied() } else { None };
        transform(n, x, axis, length, is_inverse, is_onesided)
    }),
    one("HammingWindow", 17, |n| window(n, &[25.0 / 46.0, -21.0 / 46.0])),
    one("HannWindow", 17, |n| window(n, &[0.5, -0.5])),
    one("MelWeightMatrix", 17, |n| {
        let dtype = n.dtype_attr("output_datatype", DType::Float32)?;
        let mut numbers = Vec::new();
        for i in 0..5 {
            match n.known_floats(i)?.first() {
                Some(&v) => numbers.push(v),
                None => return n.fail("`MelWeightMatrix` lacks a number"),
            }
        }
        let [bins, length, rate, low, high] = numbers[..] else { return n.fail("`MelWeightMatrix` lacks a number") };
        let in_range = (1.0..=4096.0).contains(&bins) && (1.0..=1e5).contains(&length) && rate > 0.0;
        if !in_range || bins * length > 1e6 {
            return n.fail("the sizes of `MelWeightMatrix` are out of range");
        }
        let (columns, rows) = (bins as usize, length as usize / 2 + 1);
        let weights = mel_weights(columns, rows, length, rate, (low, high));
        n.numbers(&weights, &[rows as i64, columns as i64], dtype)
    }),
    one("STFT", 17, |n| {
        let (x, step) = (n.value(0)?, n.known_ints(1)?.first().copied().unwrap_or(0));
        let window = n.opt_value(2)?;
        let shape = n.known_shape(x)?;
        let (length, width) = (shape.get(1).copied().unwrap_or(0), shape.get(2).copied().unwrap_or(1));
        let frame = match (n.has(3), window) {
            (true, _) => n.known_ints(3)?.first().copied().unwrap_or(0),
            (false, Some(window)) => n.known_shape(window)?.first().copied().unwrap_or(0),
            (false, None) => length,
        };
        let is_onesided = n.flag("onesided", true);
        if step < 1 || !(1..=length).contains(&frame) {
            return n.fail(format!("`STFT` has frames of {frame} of {length} elements, {step} apart"));
        }
        let frames = (length - frame) / step + 1;
        let positions: Vec<f64> = (0..frames).flat_map(|f| (0..frame).map(move |i| (f * step + i) as f64)).collect();
        let positions = n.numbers(&positions, &[frames, frame], DType::Int64)?;
        let x = n.reshape_to(x, &[shape[0], length, width])?;
        let args = vec![("x", Arg::Value(x)), ("indices", Arg::Value(positions)), ("axis", int(1))];
        let mut cut = n.call("take", args)?;
        if let Some(window) = window {
            let window = n.reshape_to(window, &[frame, 1])?;
            cut = n.binary("multiply", cut, window)?;
        }
        transform(n, cut, 2, None, false, is_onesided)
    }),
];

/// A sum of cosines: coefficient i belongs to i periods.
fn window(n: &mut Node<'_, '_>, coefficients: &[f64]) -> Result<ValueId> {
    let size = n.known_ints(0)?.first().copied().unwrap_or(0);
    let dtype = n.dtype_attr("output_datatype", DType::Float32)?;
    if !(0..1 << 20).contains(&size) {
        return n.fail(format!("`{}` has the size {size}", n.op_type()));
    }
    let period = if n.flag("periodic", true) { size } else { size - 1 }.max(1) as f64;
    let at = |i: i64| {
        let terms = coefficients.iter().enumerate().map(|(k, c)| c * (TAU * k as f64 * i as f64 / period).cos());
        terms.sum::<f64>()
    };
    let all: Vec<f64> = (0..size).map(at).collect();
    n.numbers(&all, &[size], dtype)
}

/// Triangles in the mel scale: `[rows, columns]`.
fn mel_weights(columns: usize, rows: usize, length: f64, rate: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mel = |f: f64| 2595.0 * (1.0 + f / 700.0).log10();
    let (from, to) = (mel(low), mel(high));
    let step = (to - from) / (columns + 2) as f64;
    let bin = |i: usize| {
        let f = 700.0 * (10_f64.powf((from + i as f64 * step) / 2595.0) - 1.0);
        (((length.floor() + 1.0) * f / rate).floor().max(0.0) as usize).min(rows)
    };
    let mut weights = vec![0.0; rows * columns];
    for column in 0..columns {
        let (lower, centre, upper) = (bin(column), bin(column + 1), bin(column + 2));
        let mut set = |row: usize, value: f64| {
            if let Some(weight) = weights.get_mut(row * columns + column) {
                *weight = value;
            }
        };
        if centre == lower {
            set(centre, 1.0);
        }
        for row in lower..=centre {
            if centre > lower {
                set(row, (row - lower) as f64 / (centre - lower) as f64);
            }
        }
        for row in centre..upper {
            set(row, (upper - row) as f64 / (upper - centre) as f64);
        }
    }
    weights
}

/// The Fourier transform along an axis of numbers whose last dimension is the real part, and perhaps the imaginary one.
fn transform(
    n: &mut Node<'_, '_>,
    x: ValueId,
    axis: usize,
    length: Option<i64>,
    is_inverse: bool,
    is_onesided: bool,
) -> Result<ValueId> {
    let (dtype, shape) = (n.dtype(x)?, n.known_shape(x)?);
    let last = shape.len().saturating_sub(1);
    let (extent, width) = match (shape.get(axis), shape.get(last)) {
        (Some(&extent), Some(&width @ (1 | 2))) if axis < last => (extent, width),
        _ => return n.fail(format!("`{}` needs real or complex numbers along its last dimension", n.op_type())),
    };
    // Half of the points of a real signal follow from the others.
    let is_real = is_inverse && is_onesided;
    let points = length.unwrap_or(if is_real { 2 * (extent - 1) } else { extent });
    if !(1..=MOST_POINTS).contains(&points) {
        let op = n.op_type();
        return n.fail(format!("`{op}` of {points} points is not supported, but of 1 to {MOST_POINTS}"));
    }
    let half = points / 2 + 1;
    let inputs = extent.min(if is_real { half } else { points });
    let outputs = if is_onesided && !is_inverse { half } else { points };
    let mut order: Vec<i64> = (0..last as i64).filter(|&d| d != axis as i64).collect();
    order.push(axis as i64);
    let part = |n: &mut Node<'_, '_>, i: i64| {
        let x = n.at(x, last, i)?;
        let x = n.part(x, axis, (0, inputs), 1)?;
        n.permute(x, &order)
    };
    let real = part(n, 0)?;
    let imaginary = if width == 2 { Some(part(n, 1)?) } else { None };
    let scale = if is_inverse { 1.0 / points as f64 } else { 1.0 };
    let matrix = |f: fn(f64) -> f64| -> Vec<f64> {
        let of = |i: i64, k: i64| {
            let twice = is_real && i != 0 && 2 * i != points;
            let angle = TAU * ((i * k) % points) as f64 / points as f64;
            f(angle) * scale * if twice { 2.0 } else { 1.0 }
        };
        (0..inputs).flat_map(|i| (0..outputs).map(move |k| of(i, k))).collect()
    };
    let cos = n.numbers(&matrix(f64::cos), &[inputs, outputs], dtype)?;
    let sin = n.numbers(&matrix(f64::sin), &[inputs, outputs], dtype)?;
    let (cos_real, sin_real) = (n.matmul(real, cos)?, n.matmul(real, sin)?);
    // exp(-ia) (x + iy) = x cos a + y sin a + i (y cos a - x sin a)
    let (mut re, mut im) = (cos_real, if is_inverse { sin_real } else { n.unary("negative", sin_real)? });
    if let Some(imaginary) = imaginary {
        let (cos_imaginary, sin_imaginary) = (n.matmul(imaginary, cos)?, n.matmul(imaginary, sin)?);
        re = n.binary(if is_inverse { "subtract" } else { "add" }, re, sin_imaginary)?;
        im = n.binary("add", im, cos_imaginary)?;
    }
    let parts = if is_real { vec![re] } else { vec![re, im] };
    let y = n.call("stack", vec![("tensors", Arg::Values(parts)), ("axis", int(-1))])?;
    let mut back: Vec<i64> = (0..last as i64 - 1).collect();
    back.insert(axis, last as i64 - 1);
    back.push(last as i64);
    n.permute(y, &back)
}
