//! Combines two constants of steps into one, where that is no loss.
//!
//! Combined constants are not larger than the larger of the two, since calls read them: `(4, 1)` and `(1, 4)` stay apart. And they must
//! be finite, and not vanish: `x * 1e38 * 10` may be finite where `1e38 * 10` is not. The elements of constants in the text are known;
//! those of weights in files are assumed to be moderate ([`Exponents::ASSUMED`]).

use super::step::Kind;
use crate::graph::function::{Callee, ValueDef, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::DType;

/// The constant `a KIND b` for a step; `None` if it is larger than both, or may not be finite.
pub(super) fn combined(rw: &mut Rewriter<'_>, kind: Kind, a: ValueId, b: ValueId) -> Option<ValueId> {
    let constant = rw.add_binary(kind.name(), a, b)?;
    let is_one_of_both = [a, b].iter().any(|&v| rw.function.ty(v) == rw.function.ty(constant));
    (is_one_of_both && is_moderate(rw, constant)).then_some(constant)
}

/// Whether all elements of a computed constant are finite, and the largest is not so small that it loses digits.
pub(super) fn is_moderate(rw: &Rewriter<'_>, v: ValueId) -> bool {
    // One power of two inside of the largest number and the least one of all digits.
    let most = match rw.dtype(v) {
        Some(DType::Float64) => 1021.0,
        _ => 125.0,
    };
    Exponents::of(rw, v).high.abs() <= most
}

/// Powers of two between which the absolute values of all elements lie that are not 0.
#[derive(Clone, Copy)]
struct Exponents {
    low: f64,
    high: f64,
}

impl Exponents {
    /// Those of weights in files: trained ones are within.
    const ASSUMED: Exponents = Exponents { low: -32.0, high: 32.0 };

    fn of(rw: &Rewriter<'_>, v: ValueId) -> Exponents {
        let call = match &rw.function.value(v).def {
            ValueDef::Param => return Exponents::ASSUMED,
            ValueDef::Constant(c) => return Exponents::of_numbers((0..c.len()).filter_map(|i| c.float(i))),
            ValueDef::Call(c) => rw.function.call(*c),
        };
        let operands: Vec<Exponents> = call.inputs().map(|v| Exponents::of(rw, v)).collect();
        let Callee::Op(op) = call.callee else { return Exponents::ASSUMED };
        match (op.name, &operands[..]) {
            ("multiply", [a, b]) => Exponents { low: a.low + b.low, high: a.high + b.high },
            ("divide", [a, b]) => Exponents { low: a.low - b.high, high: a.high - b.low },
            ("add" | "subtract", [a, b]) => Exponents { low: a.low.min(b.low), high: a.high.max(b.high) + 1.0 },
            ("reshape", [a]) => *a,
            _ => Exponents::ASSUMED,
        }
    }

    fn of_numbers(numbers: impl Iterator<Item = f64>) -> Exponents {
        let (mut least, mut largest) = (f64::INFINITY, 0.0);
        for x in numbers.map(f64::abs).filter(|x| *x != 0.0) {
            // NaN is as far away as infinity.
            let x = if x.is_nan() { f64::INFINITY } else { x };
            (least, largest) = (x.min(least), x.max(largest));
        }
        match largest == 0.0 {
            true => Exponents { low: 0.0, high: 0.0 },
            false => Exponents { low: least.log2(), high: largest.log2() },
        }
    }
}
