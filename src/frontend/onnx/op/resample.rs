//! Resizing by constant matrices, one for each axis, where relax has no such mapping of positions: results whose size is no whole
//! multiple, filters against aliasing, and regions.

use super::*;
use crate::ir::DType;

/// Larger matrices are refused.
const MOST_WEIGHTS: i64 = 1 << 20;

/// How positions become positions, and these weights.
pub(super) struct Sampling<'a> {
    pub mode: &'a str,
    pub transformation: &'a str,
    pub nearest: &'a str,
    pub cubic: f64,
    /// Whether places outside have no weight.
    pub excludes: bool,
    pub antialias: bool,
    /// The value of results whose position is outside, for regions.
    pub outside: f64,
}

/// One axis that is resized.
pub(super) struct Axis {
    pub axis: usize,
    pub extent: i64,
    pub result: i64,
    /// The exact ratio of the result.
    pub scale: f64,
    /// The region, as shares of the extent.
    pub region: (f64, f64),
}

pub(super) fn resample(n: &mut Node<'_, '_>, x: ValueId, axes: &[Axis], how: &Sampling<'_>) -> Result<ValueId> {
    let dtype = n.dtype(x)?;
    if how.mode != "nearest" && !dtype.is_float() {
        return n.fail(format!("`{}` of {dtype} by these attributes is not supported", n.op_type()));
    }
    let rank = n.rank(x)?;
    let mut y = x;
    let mut inside: Option<ValueId> = None;
    for a in axes {
        if a.extent < 1 && a.result > 0 || a.result > MOST_WEIGHTS {
            return n.fail(format!("`{}` of {} elements to {} is not supported", n.op_type(), a.extent, a.result));
        }
        let positions: Vec<f64> = (0..a.result).map(|i| a.position(i as f64, how.transformation)).collect();
        y = if how.mode == "nearest" {
            let nearest: Vec<f64> = positions.iter().map(|&p| a.nearest(p, how.nearest)).collect();
            let nearest = n.numbers(&nearest, &[a.result], DType::Int64)?;
            let args = vec![("x", Arg::Value(y)), ("indices", Arg::Value(nearest)), ("axis", int(a.axis as i64))];
            n.call("take", args)?
        } else {
            if a.extent.saturating_mul(a.result) > MOST_WEIGHTS {
                let op = n.op_type();
                return n.fail(format!("`{op}` of {} elements to {} is not supported", a.extent, a.result));
            }
            let weights: Vec<f64> = positions.iter().flat_map(|&p| a.weights(p, how)).collect();
            // Rows are results; the matrix is multiplied from the right.
            let weights = n.numbers(&weights, &[a.result, a.extent], dtype)?;
            let weights = n.permute(weights, &[1, 0])?;
            let mut order: Vec<i64> = (0..rank as i64).filter(|&d| d != a.axis as i64).collect();
            order.push(a.axis as i64);
            let mut back: Vec<i64> = (0..rank as i64 - 1).collect();
            back.insert(a.axis, rank as i64 - 1);
            let rows = n.permute(y, &order)?;
            let product = n.matmul(rows, weights)?;
            n.permute(product, &back)?
        };
        if how.transformation == "tf_crop_and_resize" {
            let is_inside = |&p: &f64| f64::from(u8::from((0.0..=(a.extent - 1) as f64).contains(&p)));
            let mut shape = vec![1; rank];
            shape[a.axis] = a.result;
            let flags = n.numbers(&positions.iter().map(is_inside).collect::<Vec<_>>(), &shape, DType::Bool)?;
            inside = Some(match inside {
                Some(others) => n.binary("logical_and", others, flags)?,
                None => flags,
            });
        }
    }
    match inside {
        Some(inside) => {
            let outside = n.scalar(how.outside, dtype)?;
            n.select(inside, y, outside)
        }
        None => Ok(y),
    }
}

impl Axis {
    /// The position in the data of an element of the result.
    fn position(&self, i: f64, transformation: &str) -> f64 {
        let (extent, exact) = (self.extent as f64, self.extent as f64 * self.scale);
        let half_pixel = (i + 0.5) / self.scale - 0.5;
        match transformation {
            "align_corners" if exact == 1.0 => 0.0,
            "align_corners" => i * (extent - 1.0) / (exact - 1.0),
            "asymmetric" => i / self.scale,
            "pytorch_half_pixel" if exact <= 1.0 => 0.0,
            "half_pixel_symmetric" => extent / 2.0 * (1.0 - self.result as f64 / exact) + half_pixel,
            "tf_crop_and_resize" => {
                let (start, end) = self.region;
                match self.result {
                    1 => 0.5 * (start + end) * (extent - 1.0),
                    n => start * (extent - 1.0) + i * (end - start) * (extent - 1.0) / (n - 1) as f64,
                }
            }
            _ => half_pixel,
        }
    }

    fn nearest(&self, position: f64, mode: &str) -> f64 {
        let nearest = match mode {
            "round_prefer_ceil" => (position + 0.5).floor(),
            "floor" => position.floor(),
            "ceil" => position.ceil(),
            _ => (position - 0.5).ceil(),
        };
        nearest.clamp(0.0, (self.extent - 1) as f64)
    }

    /// The weights of all elements of the data at a position.
    fn weights(&self, position: f64, how: &Sampling<'_>) -> Vec<f64> {
        // The filter is as wide as the distance between results where these are fewer.
        let stretch = if how.antialias { self.scale.min(1.0) } else { 1.0 };
        let reach = if how.mode == "cubic" { 2.0 } else { 1.0 } / stretch;
        let mut weights = vec![0.0; self.extent.max(0) as usize];
        let (first, last) = ((position - reach).floor() as i64, (position + reach).ceil() as i64);
        for i in first..=last {
            let distance = ((i as f64 - position) * stretch).abs();
            let weight = if how.mode == "cubic" { keys(distance, how.cubic) } else { (1.0 - distance).max(0.0) };
            if how.excludes && !(0..self.extent).contains(&i) {
                continue;
            }
            // Places outside are those at the edge.
            if let Some(w) = weights.get_mut(i.clamp(0, self.extent - 1) as usize) {
                *w += weight;
            }
        }
        let sum: f64 = weights.iter().sum();
        if (how.antialias || how.excludes) && sum != 0.0 {
            weights.iter_mut().for_each(|w| *w /= sum);
        }
        weights
    }
}

/// Cubic convolution (Keys, 1981, equation 4).
fn keys(d: f64, a: f64) -> f64 {
    match d {
        d if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
        d if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
        _ => 0.0,
    }
}
