//! Random programs of each kind that regions are made for, as texts.
//!
//! Unlike [`super::random`], which tries what the loop IR allows, these are what schedules leave: nests over whole
//! buffers, at lengths and strides that make vectors end where nothing is even.

mod lanes;
mod layout;
mod padded;
mod picked;
mod rows;
mod siblings;
mod sums;

use super::{Closeness, below, rng};
use rand_chacha::ChaCha8Rng;

/// What a program is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Matrix products and convolutions: initialisation in several ways, split reductions, epilogues.
    Contraction,
    /// Arithmetic of one type over up to three loops, operands broadcast along some.
    Elementwise,
    /// Choices and functions that are exact.
    Condition,
    /// From one type to another.
    Conversion,
    /// Functions that are computed by polynomials.
    Function,
    /// Sums, products, minima and maxima along rows or columns.
    Reduction,
    /// Several results of one pass, such as a maximum with its place.
    Tuple,
    /// Transposes, packing and unpacking.
    Copy,
    /// Sums of products of bytes.
    Dot,
    /// Loops cut by a bound.
    Tail,
    /// Accesses at strides and offsets, rows found by an index.
    Strided,
    /// Rows worked on several times, with scalars from outside: softmax, normalisation.
    Several,
    /// Elements at small distances, and channels of points.
    Picked,
    /// Quotients and rests by constants.
    Division,
    /// Rows that are there under a condition.
    Padded,
    /// Elements of a vector that are.
    Window,
    /// Loops over the same extents, one after the other.
    Siblings,
    /// Rows whose last nest scales what functions gave.
    Rows,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 18] = [
        Kind::Contraction,
        Kind::Elementwise,
        Kind::Condition,
        Kind::Conversion,
        Kind::Function,
        Kind::Reduction,
        Kind::Tuple,
        Kind::Copy,
        Kind::Dot,
        Kind::Tail,
        Kind::Strided,
        Kind::Several,
        Kind::Picked,
        Kind::Division,
        Kind::Padded,
        Kind::Window,
        Kind::Siblings,
        Kind::Rows,
    ];
}

/// A program and what is expected of it.
pub(crate) struct Program {
    pub text: String,
    /// How close fast floats come to the evaluator.
    pub fast: Closeness,
    /// The same of strict floats.
    pub strict: Closeness,
    /// May inputs be infinite, NaN or out of range? Not where the result depends on the order of operations.
    pub specials: bool,
}

/// The program of a seed.
pub(crate) fn program(kind: Kind, seed: u64) -> Program {
    let mut g = Generator { rng: rng(seed ^ (kind as u64) << 56) };
    match kind {
        Kind::Contraction => g.contraction(),
        Kind::Elementwise => g.elementwise(),
        Kind::Condition => g.condition(),
        Kind::Conversion => g.conversion(),
        Kind::Function => g.function(),
        Kind::Reduction => g.reduction(),
        Kind::Tuple => g.tuple(),
        Kind::Copy => g.copy(),
        Kind::Dot => g.dot(),
        Kind::Tail => g.tail(),
        Kind::Strided => g.strided(),
        Kind::Several => g.several(),
        Kind::Picked => g.picked(),
        Kind::Division => g.division(),
        Kind::Padded => g.padded(),
        Kind::Window => g.window(),
        Kind::Siblings => g.siblings(),
        Kind::Rows => g.rows(),
    }
}

const NARROW: [&str; 4] = ["int8", "uint8", "int16", "uint16"];
const ALL: [&str; 9] = ["float32", "float32", "float64", "int32", "float16", "bfloat16", "int8", "uint8", "int16"];

fn is_float(dtype: &str) -> bool {
    dtype.contains("float")
}

fn is_half(dtype: &str) -> bool {
    dtype.ends_with("float16")
}

/// A constant of a type.
fn c(dtype: &str, v: f64) -> String {
    if is_float(dtype) { format!("{dtype}({v:?})") } else { format!("{dtype}({})", v.abs() as i64) }
}

struct Generator {
    rng: ChaCha8Rng,
}

impl Generator {
    fn chance(&mut self, one_in: usize) -> bool {
        below(&mut self.rng, one_in) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[below(&mut self.rng, from.len())]
    }

    /// A length: short and odd, a round one, or one beside it.
    fn extent(&mut self, most: usize) -> usize {
        let n = match below(&mut self.rng, 4) {
            0 => self.pick(&[1, 2, 3, 4, 5, 7]),
            1 => self.pick(&[8, 16, 24, 32, 48, 64]),
            2 => self.pick(&[8, 16, 32, 64]) + self.pick(&[1, 2, 3]) - 2,
            _ => 1 + below(&mut self.rng, 40),
        };
        n.min(most)
    }

    /// What a loop says besides its extent.
    fn vector(&mut self) -> &'static str {
        self.pick(&["independent", "independent", "independent vector", ""])
    }

    fn space(&mut self) -> &'static str {
        self.pick(&["independent", "independent", "independent unroll", ""])
    }
}
