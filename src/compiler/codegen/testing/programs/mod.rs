//! Random programs of each kind of region, as text.
//!
//! Unlike [`super::random`], which exercises the whole loop IR, these resemble the output of schedules: nests over
//! whole buffers, with lengths and strides that leave partial vectors.

mod bytes;
mod columns;
mod halves;
mod lanes;
mod layout;
mod lookups;
mod narrow;
mod packed;
mod padded;
mod picked;
mod planes;
mod rows;
mod scans;
mod scattered;
mod siblings;
mod sliding;
mod sums;

use super::{Closeness, below, rng};
use rand_chacha::ChaCha8Rng;

/// A kind of program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Matrix products and convolutions: with various initialisations, split reductions, and epilogues.
    Contraction,
    /// Arithmetic of one type over up to three loops, with operands broadcast along some.
    Elementwise,
    /// Selections, and functions with exact results.
    Condition,
    /// Conversions between types.
    Conversion,
    /// Functions that are computed by polynomials.
    Function,
    /// Sums, products, minima and maxima along rows or columns.
    Reduction,
    /// Several results of one pass, such as a maximum and its index.
    Tuple,
    /// Transposes, packing and unpacking.
    Copy,
    /// Sums of products of bytes.
    Dot,
    /// Loops that a bound cuts short.
    Tail,
    /// Accesses with strides and offsets, and rows at loaded indices.
    Strided,
    /// Rows with several passes and scalars from outside: softmax, normalisation.
    Several,
    /// Elements at small distances, and channels of points.
    Picked,
    /// Quotients and remainders by constants and by other values.
    Division,
    /// Rows that exist under a condition.
    Padded,
    /// Elements of a vector that exist under a condition.
    Window,
    /// Consecutive loops over the same extents.
    Siblings,
    /// Rows whose last nest scales function values.
    Rows,
    /// Elements at any indices.
    Scattered,
    /// Bytes and truth values alone.
    Bytes,
    /// Windows that slide over rows and columns, written out.
    Sliding,
    /// Rows at places that tables or counters decide.
    Lookup,
    /// Elements of 8 and 16 bits that are only moved and compared.
    Narrow,
    /// Rows that are divided by statistics of their columns.
    Columns,
    /// Sums, products, minima and maxima of all elements up to each.
    Scan,
    /// Windows of small planes, each with a size of its own.
    Planes,
    /// Rows of bfloat16 that are computed lane by lane, and summed.
    Halves,
    /// Numbers of a few bits, several to a word.
    Packed,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 28] = [
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
        Kind::Scattered,
        Kind::Bytes,
        Kind::Sliding,
        Kind::Lookup,
        Kind::Narrow,
        Kind::Columns,
        Kind::Scan,
        Kind::Planes,
        Kind::Halves,
        Kind::Packed,
    ];
}

/// A program with the required precision of its results.
pub struct Program {
    /// The loop IR.
    pub text: String,
    /// Required precision with fast floats.
    pub fast: Closeness,
    /// Required precision with strict floats.
    pub strict: Closeness,
    /// Whether inputs may be infinite, NaN or out of range: not if the result depends on the order of operations.
    pub specials: bool,
}

/// The program of a seed.
pub fn program(kind: Kind, seed: u64) -> Program {
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
        Kind::Scattered => g.scattered(),
        Kind::Bytes => g.bytes(),
        Kind::Sliding => g.sliding(),
        Kind::Lookup => g.lookups(),
        Kind::Narrow => g.narrow(),
        Kind::Columns => g.columns(),
        Kind::Scan => g.scans(),
        Kind::Planes => g.planes(),
        Kind::Halves => g.halves(),
        Kind::Packed => g.packed(),
    }
}

const NARROW: [&str; 4] = ["int8", "uint8", "int16", "uint16"];
const ALL: [&str; 10] =
    ["float32", "float32", "float64", "int32", "float16", "bfloat16", "int8", "uint8", "int16", "int64"];

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

    /// A random length: short and odd, round, or next to a round one.
    fn extent(&mut self, most: usize) -> usize {
        let n = match below(&mut self.rng, 4) {
            0 => self.pick(&[1, 2, 3, 4, 5, 6, 7]),
            1 => self.pick(&[8, 16, 24, 32, 48, 64]),
            2 => self.pick(&[8, 16, 32, 64]) + self.pick(&[1, 2, 3]) - 2,
            _ => 1 + below(&mut self.rng, 40),
        };
        n.min(most)
    }

    /// An annotation of the loop besides its extent.
    fn vector(&mut self) -> &'static str {
        self.pick(&["independent", "independent", "independent vector", ""])
    }

    fn space(&mut self) -> &'static str {
        self.pick(&["independent", "independent", "independent unroll", ""])
    }
}
