//! How far the outputs of a model are from those of its reference.
//!
//! The difference of an output of floats is `max |found - expected| / max |expected|`: single small elements may be the rest of large
//! terms that cancel. Integers and `bool`s must be equal, but for bytes that floats are rounded to: these are compared like floats.

use crate::arrays::{Array, Element};
use crate::graph::program::Tensor;
use crate::graph::{Callee, Function};
use crate::ir::DType;
use std::fmt;

/// The relative difference that a model of `float32` may have: different orders of sums, over many layers.
const TOLERANCE: f64 = 1e-4;
/// The same for `float64`.
const TOLERANCE_F64: f64 = 1e-10;
/// Roundings to the coarsest type of a graph that may add up.
const ROUNDINGS: f64 = 16.0;
/// The rounding of values in 8-bit integers, relative to the largest.
const ROUNDING_INT8: f64 = 1.0 / 256.0;
/// No tolerance is larger.
const LARGEST: f64 = 0.5;

/// How far the outputs of a model are from those of its reference.
#[derive(Clone, PartialEq, Debug)]
pub struct Agreement {
    /// One for each output.
    pub outputs: Vec<OutputAgreement>,
    /// The largest relative difference of floats that is right.
    pub tolerance: f64,
}

/// How far an output is from that of the reference.
#[derive(Clone, PartialEq, Debug)]
pub struct OutputAgreement {
    /// The output.
    pub name: String,
    /// The number of its elements.
    pub elements: usize,
    /// The elements that are certainly wrong: integers that differ; NaN or infinity in one of both alone.
    pub different: usize,
    /// The largest difference of floats, relative to the largest expected one.
    pub relative: f64,
}

impl Agreement {
    /// Compares outputs.
    pub(super) fn of(
        tensors: &[Tensor],
        found: &[Array],
        expected: &[Array],
        tolerance: f64,
        quantises: bool,
    ) -> Agreement {
        let outputs = tensors.iter().zip(found.iter().zip(expected));
        let is_rounded = |t: &Tensor| quantises && matches!(t.dtype, DType::Int8 | DType::UInt8);
        let outputs =
            outputs.map(|(t, (found, expected))| of_output(&t.name, found, expected, is_rounded(t))).collect();
        Agreement { outputs, tolerance }
    }

    /// The largest relative difference over all outputs.
    pub fn relative(&self) -> f64 {
        self.outputs.iter().map(|o| o.relative).fold(0.0, f64::max)
    }

    /// Whether all outputs are right.
    pub fn is_right(&self) -> bool {
        self.outputs.iter().all(|o| self.is_output_right(o))
    }

    fn is_output_right(&self, output: &OutputAgreement) -> bool {
        output.different == 0 && output.relative <= self.tolerance
    }
}

/// The outputs that are wrong, or the largest difference.
impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_right() {
            return match self.relative() {
                0.0 => f.write_str("results agree"),
                relative => write!(f, "results agree (largest relative difference {relative:.1e})"),
            };
        }
        let wrong: Vec<&OutputAgreement> = self.outputs.iter().filter(|o| !self.is_output_right(o)).collect();
        for (i, output) in wrong.into_iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}output `{}`: ", output.name)?;
            match output.different {
                0 => write!(f, "relative difference {:.1e}, allowed {:.1e}", output.relative, self.tolerance)?,
                n => write!(f, "{n} of {} elements differ", output.elements)?,
            }
        }
        Ok(())
    }
}

fn of_output(name: &str, found: &Array, expected: &Array, is_rounded: bool) -> OutputAgreement {
    let elements = expected.len();
    let (mut different, mut largest, mut scale) = (0, 0f64, 0f64);
    for i in 0..if found.data() == expected.data() { 0 } else { elements } {
        let (found, expected) = (found.element(i), expected.element(i));
        if let (Element::Int(found), Element::Int(expected), false) = (found, expected, is_rounded) {
            different += usize::from(found != expected);
            continue;
        }
        let (found, expected) = (found.as_f64(), expected.as_f64());
        match found.is_finite() && expected.is_finite() {
            true => {
                largest = largest.max((found - expected).abs());
                scale = scale.max(expected.abs());
            }
            false => different += usize::from(found != expected && !(found.is_nan() && expected.is_nan())),
        }
    }
    // Next to nothing but zeros, the difference itself counts.
    let relative = if scale > 0.0 { largest / scale } else { largest };
    OutputAgreement { name: name.to_owned(), elements, different, relative }
}

/// Whether a graph as it was read rounds floats to bytes.
pub(super) fn quantises(function: &Function) -> bool {
    let is_rounding = |&c| matches!(function.call(c).callee, Callee::Op(op) if op.name == "quantize");
    function.order.iter().any(is_rounding)
}

/// The tolerance for a lowered graph: that of the coarsest type of what it computes. Values that are computed in 8-bit integers are quantised:
/// which of two neighbours they are rounded to may depend on the last bits of a float.
pub(super) fn coarsest(function: &Function) -> f64 {
    let calls = function.order.iter().map(|&c| function.call(c));
    let computed = calls.filter(|c| match c.callee {
        Callee::CallTir(_) | Callee::CallTirInplace(_) | Callee::CallDpsPacked(_) | Callee::CallPurePacked(_) => true,
        Callee::Op(_) | Callee::CallGraph(_) | Callee::Tuple | Callee::Item(_) | Callee::Alias | Callee::Shape => false,
    });
    let types = computed.flat_map(|call| function.ty(call.result).tensors()).filter_map(|t| t.dtype);
    types.map(tolerance).fold(0.0, f64::max)
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::Float32 => TOLERANCE,
        DType::Float64 => TOLERANCE_F64,
        DType::Float16 | DType::BFloat16 | DType::Float8(_) => (ROUNDINGS * dtype.half_ulp()).min(LARGEST),
        DType::Int8 | DType::UInt8 => ROUNDINGS * ROUNDING_INT8,
        DType::Int16
        | DType::Int32
        | DType::Int64
        | DType::UInt16
        | DType::UInt32
        | DType::UInt64
        | DType::Bool
        | DType::Narrow(_)
        | DType::Handle
        | DType::Str => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_compared_with_the_largest() {
        let floats = |v: &[f32]| Array::from(v);
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let output = of_output("y", &floats(&[1.0, 4.0, nan, inf]), &floats(&[1.5, 4.0, nan, inf]), false);
        assert_eq!((output.elements, output.different, output.relative), (4, 0, 0.125));
        let output = of_output("y", &floats(&[nan, 1.0, inf, 0.0]), &floats(&[0.0, nan, -inf, 0.0]), false);
        assert_eq!((output.different, output.relative), (3, 0.0));
        let output = of_output("y", &floats(&[0.5]), &floats(&[0.0]), false);
        assert_eq!(output.relative, 0.5);
    }

    #[test]
    fn integers_are_counted() {
        let of = |v: &[i64]| Array::from(v);
        let agreement =
            Agreement { outputs: vec![of_output("i", &of(&[1, 2, 3]), &of(&[1, 3, 2]), false)], tolerance: 1.0 };
        assert_eq!(agreement.to_string(), "output `i`: 2 of 3 elements differ");
        let rounded = of_output("i", &of(&[1, 2, 200]), &of(&[1, 3, 200]), true);
        assert_eq!((rounded.different, rounded.relative), (0, 0.005));
    }
}
