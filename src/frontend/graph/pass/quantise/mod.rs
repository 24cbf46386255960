//! Computes quantised products on bytes.
//!
//! ```text
//! R.matmul(R.subtract(R.astype(a, "int32"), z), R.astype(w, "int32"))
//!
//! // becomes, with the sums of the columns of weights computed once
//! R.subtract(R.matmul(a, w, out_dtype="int32"), z * R.sum(R.astype(w, "int32"), axis=0))
//! ```
//!
//! Sums of products of bytes with different signs are one instruction for four products on many machines. Each rule is a file, whose head
//! says what becomes what:
//!
//! * products of floats that bytes stand for become products of integers ([`floats`]);
//! * products of integers less their zero points become products of bytes ([`product`], [`convolution`]);
//! * rounding to bytes takes in the scales before it ([`rounding`]), and vanishes where it changes nothing ([`unrounded`]);
//! * signed bytes become unsigned ones ([`signs`]);
//! * convolutions of bytes have their channels last ([`channels_last`]).
//!
//! The products are exact: what is left out of a sum before is added behind it, and all of this wraps around alike.

mod channels_last;
mod convolution;
mod floats;
mod integers;
mod product;
mod rounding;
mod signs;
mod unrounded;

use super::canonicalise::{identity, permute};
use super::common_calls::share_calls;
use super::rewrite::{Rule, rewrite};
use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::function::{Callee, Function};
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass {
    name: "quantise",
    doc: "Computes products of quantised tensors on bytes, with sums of 32 bits.",
    is_optional: true,
    run,
};

const RULES: &[Rule] = &[
    signs::made_unsigned,
    signs::read_unsigned,
    unrounded::removed,
    floats::to_integers,
    product::of_bytes,
    convolution::of_bytes,
    rounding::with_scale,
];

/// Rules for permutations, which convolutions of bytes bring in.
const LAYOUT_RULES: &[Rule] = &[identity::remove, permute::compose, channels_last::sink];

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    for function in module.functions.iter_mut().filter(|f| is_quantised(f)) {
        rewrite(function, RULES);
        share_calls(function, HashMap::new());
        if function.order.iter().any(|&c| convolution::is_of_bytes(function, c)) {
            rewrite(function, LAYOUT_RULES);
            rewrite(function, &[channels_last::as_matrix]);
            share_calls(function, HashMap::new());
        }
    }
    Ok(())
}

/// Whether a function has bytes.
fn is_quantised(function: &Function) -> bool {
    let is_byte = |v| integers::is_byte(function.ty(v).as_tensor().and_then(|t| t.dtype));
    let converts = |c: &crate::graph::Call| matches!(c.callee, Callee::Op(op) if CONVERSIONS.contains(&op.name));
    function
        .order
        .iter()
        .map(|&c| function.call(c))
        .any(|c| converts(c) && (is_byte(c.result) || c.inputs().any(is_byte)))
}

const CONVERSIONS: [&str; 3] = ["astype", "dequantize", "quantize"];
