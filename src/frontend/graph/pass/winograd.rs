//! Computes convolutions by 3 x 3 weights from tiles of the image, with fewer multiplications (Winograd's algorithm).
//!
//! ```text
//!                                     u = R.call_tir(cls.winograd_weight, (w,), …)         once for all calls
//! y = R.nn.conv2d(x, w, padding=1) →  v = R.call_tir(cls.winograd_data, (x,), …)
//!                                     p = R.call_tir(cls.winograd_product, (u, v), …)
//!                                     y = R.call_tir(cls.winograd_result, (p,), …)
//! ```
//!
//! A tile of `m` x `m` results needs `(m + 2)²` products of a channel of the image and one of the result, instead of `9 m²`: with `m` = 4, a
//! quarter, with `m` = 2, 4 of 9. Tiles and weights are transformed by constant matrices before, and the sums of products behind. The products
//! over all tiles are `(m + 2)²` products of matrices.
//!
//! The transforms move more data, and the transformed weights are 4 or 1.8 times as many as the weights. [`Shape::cost`] estimates whether
//! that pays: there must be many channels, and many tiles for each weight.
//!
//! The results have rounding errors of their own: sums of products of numbers that the matrices have made up to 8 times as large. Relative to the
//! largest result, they are about 10⁻⁶. Where operations shall stay as written, the pass does nothing.
//!
//! Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016).

use super::{Context, GraphModule, Pass};
use crate::diagnostic::{Diagnostic, Span};
use crate::graph::constness::invariant_values;
use crate::graph::function::{Arg, CallId, Callee, Function, ValueId};
use crate::graph::infer::Args;
use crate::graph::lower::Library;
use crate::graph::op::{self, Geometry, padded};
use crate::graph::ty::Type;
use crate::ir::{CmpOp, DType, ExprId, Func, Module, Symbol};
use crate::te::{Reducer, Te, Tensor};

pub(super) const PASS: Pass = Pass {
    name: "winograd",
    doc: "Computes convolutions by 3 x 3 weights from tiles, with fewer multiplications, where that pays; not with strict floats.",
    is_optional: true,
    run,
};

fn run(module: &mut GraphModule, cx: &Context) -> Result<(), Vec<Diagnostic>> {
    if !cx.strict_fp {
        let GraphModule { module, functions } = module;
        let mut library = Library::of(module);
        functions.iter_mut().for_each(|function| convolutions(function, module, &mut library));
    }
    Ok(())
}

fn convolutions(function: &mut Function, module: &mut Module, library: &mut Library) {
    let invariant = invariant_values(function);
    for c in std::mem::take(&mut function.order) {
        if let Some(convolution) = Convolution::of(function, c, &invariant)
            && let Some(tiles) = convolution.shape.best_tiles()
        {
            convolution.replace(function, c, tiles, &mut |func| library.add(module, func));
        }
        function.order.push(c);
    }
}

/// The matrices for tiles of `m` x `m` results.
struct Tiles {
    m: i64,
    /// `m + 2` rows, for an element of the transformed image each, with a factor for each row or column of the window.
    data: &'static [&'static [f64]],
    /// As many rows, with a factor for each of the three weights.
    weight: &'static [&'static [f64]],
    /// `m` rows, for a result each, with a factor for each product.
    result: &'static [&'static [f64]],
}

static TILES: [Tiles; 2] = [
    Tiles {
        m: 2,
        data: &[&[1., 0., -1., 0.], &[0., 1., 1., 0.], &[0., -1., 1., 0.], &[0., 1., 0., -1.]],
        weight: &[&[1., 0., 0.], &[0.5, 0.5, 0.5], &[0.5, -0.5, 0.5], &[0., 0., 1.]],
        result: &[&[1., 1., 1., 0.], &[0., 1., -1., -1.]],
    },
    Tiles {
        m: 4,
        data: &[
            &[4., 0., -5., 0., 1., 0.],
            &[0., -4., -4., 1., 1., 0.],
            &[0., 4., -4., -1., 1., 0.],
            &[0., -2., -1., 2., 1., 0.],
            &[0., 2., -1., -2., 1., 0.],
            &[0., 4., 0., -5., 0., 1.],
        ],
        weight: &[
            &[1. / 4., 0., 0.],
            &[-1. / 6., -1. / 6., -1. / 6.],
            &[-1. / 6., 1. / 6., -1. / 6.],
            &[1. / 24., 1. / 12., 1. / 6.],
            &[1. / 24., -1. / 12., 1. / 6.],
            &[0., 0., 1.],
        ],
        result: &[
            &[1., 1., 1., 1., 1., 0.],
            &[0., 1., -1., 2., -2., 0.],
            &[0., 1., 1., 4., 4., 0.],
            &[0., 1., -1., 8., -8., 1.],
        ],
    },
];

/// The extents of a convolution.
struct Shape {
    items: i64,
    channels: i64,
    features: i64,
    /// Rows and columns of the result.
    result: [i64; 2],
}

/// Floating-point operations in the time that a product of matrices wastes, or that other work takes: on CPUs of 2022 to 2025 a core computes 120 to
/// 260 GFLOP/s.
mod costs {
    /// A transformed element: its computation, and its way to a cache and back.
    pub(super) const ELEMENT: f64 = 40.0;
    /// A byte of weights, which comes from memory.
    pub(super) const WEIGHT_BYTE: f64 = 9.0;
    /// Three calls instead of one.
    pub(super) const CALLS: f64 = 3e6;
    /// The part of the peak that products with few columns reach.
    pub(super) const PRODUCT: f64 = 0.9;
    /// Elements of the widest vector, to multiples of which columns are computed.
    pub(super) const LANES: i64 = 16;
    /// How many times faster tiles must be.
    pub(super) const GAIN: f64 = 1.2;
}

impl Shape {
    /// Tiles in rows and columns, the last ones with results that do not exist.
    fn tiles(&self, m: i64) -> [i64; 2] {
        self.result.map(|n| (n + m - 1) / m)
    }

    /// The number of columns of the products of matrices.
    fn columns(&self, m: i64) -> i64 {
        self.items * self.tiles(m).iter().product::<i64>()
    }

    fn weights(&self) -> f64 {
        (self.channels * self.features) as f64
    }

    /// The estimated cost with tiles, in floating-point operations.
    fn cost(&self, m: i64) -> f64 {
        let products = ((m + 2) * (m + 2)) as f64;
        let columns = self.columns(m);
        let whole = (columns + costs::LANES - 1) / costs::LANES * costs::LANES;
        let sums = 2.0 * self.weights() * whole as f64 / costs::PRODUCT;
        let elements = ((self.channels + self.features) * columns) as f64;
        products * (sums + elements * costs::ELEMENT + 4.0 * self.weights() * costs::WEIGHT_BYTE) + costs::CALLS
    }

    /// The estimated cost of the convolution as it is.
    fn direct_cost(&self) -> f64 {
        let results = (self.items * self.result[0] * self.result[1]) as f64;
        9.0 * self.weights() * (2.0 * results + 4.0 * costs::WEIGHT_BYTE)
    }

    /// The best tiles, if they pay.
    fn best_tiles(&self) -> Option<&'static Tiles> {
        let best = TILES.iter().min_by(|a, b| self.cost(a.m).total_cmp(&self.cost(b.m)))?;
        (self.cost(best.m) * costs::GAIN < self.direct_cost()).then_some(best)
    }
}

/// A convolution that can be computed from tiles.
struct Convolution {
    shape: Shape,
    data: ValueId,
    weight: ValueId,
    image: [i64; 2],
    before: [i64; 2],
    span: Span,
}

impl Convolution {
    fn of(function: &Function, c: CallId, invariant: &[bool]) -> Option<Convolution> {
        let call = function.call(c);
        let Callee::Op(op) = call.callee else { return None };
        if op.name != "nn.conv2d" {
            return None;
        }
        let args = Args { op, args: &call.args, function };
        let is_plain = args.ints("strides").iter().chain(&args.ints("dilation")).all(|&n| n == 1)
            && args.int("groups") == 1
            && args.text("data_layout") == "NCHW"
            && args.text("kernel_layout") == "OIHW"
            && args.opt_text("out_layout").is_none_or(|layout| layout.is_empty() || layout == "NCHW");
        let (data, weight) = (args.value("data")?, args.value("weight")?);
        let shape_of = |v: ValueId| {
            let ty = function.ty(v).as_tensor()?;
            ty.constant_shape(&function.arena).filter(|_| ty.dtype == Some(DType::Float32))
        };
        let (of_data, of_weight, result) = (shape_of(data)?, shape_of(weight)?, shape_of(call.result)?);
        let &[items, channels, rows, columns] = &of_data[..] else { return None };
        let &[features, _, 3, 3] = &of_weight[..] else { return None };
        let is_weight = invariant.get(weight.index()).copied().unwrap_or(false);
        if !is_plain || !is_weight || invariant.get(data.index()).copied().unwrap_or(false) {
            return None;
        }
        let before = Geometry::of(&args)?.before;
        Some(Convolution {
            shape: Shape { items, channels, features, result: [result[2], result[3]] },
            data,
            weight,
            image: [rows, columns],
            before: [before[0], before[1]],
            span: call.span,
        })
    }

    /// Adds the transforms and the products to the end of the function, and makes the call itself the last transform.
    fn replace(&self, function: &mut Function, c: CallId, tiles: &Tiles, add: &mut impl FnMut(Func) -> Symbol) {
        let Shape { items, channels, features, .. } = self.shape;
        let (edge, [down, across]) = (tiles.m + 2, self.shape.tiles(tiles.m));
        let (products, columns) = (edge * edge, self.shape.columns(tiles.m));
        let mut call = |function: &mut Function, func: Func, inputs: Vec<ValueId>, shape: &[i64]| {
            let ty = tensor_type(function, shape);
            let args = vec![Arg::Values(inputs)];
            function.add_call("lv", Callee::CallTir(add(func)), args, ty, self.span)
        };
        let weight = self.transformed_weight(tiles);
        let weight = call(function, weight, vec![self.weight], &[edge, edge, channels, features]);
        let weight = reshaped(function, weight, &[products, channels, features], self.span);
        let data = self.transformed_data(tiles);
        let data = call(function, data, vec![self.data], &[edge, edge, channels, items, down, across]);
        let data = reshaped(function, data, &[products, channels, columns], self.span);
        let product = self.product(products, columns);
        let product = call(function, product, vec![weight, data], &[products, features, columns]);
        let product = reshaped(function, product, &[edge, edge, features, items, down, across], self.span);
        let last = &mut function.calls[c.index()];
        last.callee = Callee::CallTir(add(self.transformed_result(tiles)));
        last.args = vec![Arg::Values(vec![product])];
    }

    fn transformed_weight(&self, tiles: &Tiles) -> Func {
        let Shape { channels, features, .. } = self.shape;
        let mut te = Te::new();
        let shape = te.extents(&[features, channels, 3, 3]);
        let weight = te.placeholder("weight", DType::Float32, &shape);
        let shape = te.extents(&[tiles.m + 2, 3, channels, features]);
        let rows = te.compute("rows", &shape, |te, i| {
            combined(te, i[0], tiles.weight, |te, k| te.at(weight, &[i[3], i[2], k, i[1]]))
        });
        let shape = te.extents(&[tiles.m + 2, tiles.m + 2, channels, features]);
        let result = te.compute("transformed", &shape, |te, i| {
            combined(te, i[1], tiles.weight, |te, k| te.at(rows, &[i[0], k, i[2], i[3]]))
        });
        te.prim_func("winograd_weight", &[weight], &[result])
    }

    fn transformed_data(&self, tiles: &Tiles) -> Func {
        let Shape { items, channels, .. } = self.shape;
        let (m, [down, across]) = (tiles.m, self.shape.tiles(tiles.m));
        let mut te = Te::new();
        let shape = te.extents(&[items, channels, self.image[0], self.image[1]]);
        let data = te.placeholder("data", DType::Float32, &shape);
        let padded = self.whole_windows(&mut te, data, m);
        // The rows that lie at the same place of their tiles stand together: then what a tile needs of them is contiguous over all tiles.
        let shape = te.extents(&[m + 2, channels, items, m, down + 1, across]);
        let columns = te.compute("columns", &shape, |te, i| {
            combined(te, i[0], tiles.data, |te, k| {
                let (row, column) = (inside(te, i[4], m, i[3]), inside(te, i[5], m, k));
                te.at(padded, &[i[2], i[1], row, column])
            })
        });
        let shape = te.extents(&[m + 2, m + 2, channels, items, down, across]);
        let edge = te.extent(m);
        let result = te.compute("transformed", &shape, |te, i| {
            combined(te, i[0], tiles.data, |te, k| {
                let (place, further) = (te.floor_mod(k, edge), te.floor_div(k, edge));
                let tile = te.add(i[4], further);
                te.at(columns, &[i[1], i[2], i[3], place, tile, i[5]])
            })
        });
        te.prim_func("winograd_data", &[data], &[result])
    }

    /// The image with its padding, and with zeros for results that do not exist.
    fn whole_windows(&self, te: &mut Te, data: Tensor, m: i64) -> Tensor {
        let [down, across] = self.shape.tiles(m);
        let whole = [m * (down + 1), m * across + 2];
        let after = [0, 1].map(|d| whole[d] - self.image[d] - self.before[d]);
        let zero = te.float(0.0, DType::Float32);
        padded(te, "padded", data, &[0, 0, self.before[0], self.before[1]], &[0, 0, after[0], after[1]], zero)
    }

    fn product(&self, products: i64, columns: i64) -> Func {
        let Shape { channels, features, .. } = self.shape;
        let mut te = Te::new();
        let shape = te.extents(&[products, channels, features]);
        let weight = te.placeholder("weight", DType::Float32, &shape);
        let shape = te.extents(&[products, channels, columns]);
        let data = te.placeholder("data", DType::Float32, &shape);
        let (shape, domain) = (te.extents(&[products, features, columns]), te.extents(&[channels]));
        let result = te.reduce("product", &shape, &domain, Reducer::Sum, |te, i, k| {
            let (w, x) = (te.at(weight, &[i[0], k[0], i[1]]), te.at(data, &[i[0], k[0], i[2]]));
            te.mul(w, x)
        });
        te.prim_func("winograd_product", &[weight, data], &[result])
    }

    fn transformed_result(&self, tiles: &Tiles) -> Func {
        let Shape { items, features, result, .. } = self.shape;
        let (m, [down, across]) = (tiles.m, self.shape.tiles(tiles.m));
        let mut te = Te::new();
        let shape = te.extents(&[m + 2, m + 2, features, items, down, across]);
        let product = te.placeholder("product", DType::Float32, &shape);
        let shape = te.extents(&[features, items, m, m + 2, down, across]);
        let rows = te.compute("rows", &shape, |te, i| {
            combined(te, i[2], tiles.result, |te, k| te.at(product, &[k, i[3], i[0], i[1], i[4], i[5]]))
        });
        let shape = te.extents(&[items, features, result[0], result[1]]);
        let edge = te.extent(m);
        let result = te.compute("conv2d_nchw", &shape, |te, i| {
            let (row, column) = (te.floor_mod(i[2], edge), te.floor_mod(i[3], edge));
            let (down, across) = (te.floor_div(i[2], edge), te.floor_div(i[3], edge));
            combined(te, column, tiles.result, |te, k| te.at(rows, &[i[1], i[0], row, k, down, across]))
        });
        te.prim_func("winograd_result", &[product], &[result])
    }
}

/// The sum of elements, with the factors of the row that the index selects.
fn combined(te: &mut Te, row: ExprId, rows: &[&[f64]], mut element: impl FnMut(&mut Te, ExprId) -> ExprId) -> ExprId {
    let mut sums = rows.iter().map(|factors| {
        let terms = factors.iter().enumerate().filter(|(_, f)| **f != 0.0);
        terms.fold(None, |sum: Option<ExprId>, (k, &factor)| {
            let k = te.extent(k as i64);
            let value = element(te, k);
            let factor_of = |te: &mut Te, f: f64| te.float(f, DType::Float32);
            Some(match sum {
                None if factor == 1.0 => value,
                None => {
                    let factor = factor_of(te, factor);
                    te.mul(value, factor)
                }
                Some(sum) => {
                    let size = factor.abs();
                    let term = if size == 1.0 {
                        value
                    } else {
                        let size = factor_of(te, size);
                        te.mul(value, size)
                    };
                    if factor > 0.0 { te.add(sum, term) } else { te.sub(sum, term) }
                }
            })
        })
    });
    let sums: Vec<ExprId> = std::iter::from_fn(|| sums.next()).flatten().collect();
    let (&last, others) = sums.split_last().expect("matrices have rows");
    others.iter().enumerate().rev().fold(last, |otherwise, (n, &sum)| {
        let n = te.extent(n as i64);
        let is_row = te.compare(CmpOp::Eq, row, n);
        te.select(is_row, sum, otherwise)
    })
}

/// The row or column of the image at a position in the window of a tile.
fn inside(te: &mut Te, tile: ExprId, m: i64, position: ExprId) -> ExprId {
    let first = te.mul_const(tile, m);
    te.add(first, position)
}

fn tensor_type(function: &mut Function, shape: &[i64]) -> Type {
    let shape = shape.iter().map(|&n| function.arena.int(n, DType::Int64)).collect();
    Type::tensor(DType::Float32, shape)
}

fn reshaped(function: &mut Function, v: ValueId, shape: &[i64], span: Span) -> ValueId {
    let ty = tensor_type(function, shape);
    let extents: Vec<ExprId> = shape.iter().map(|&n| function.arena.int(n, DType::Int64)).collect();
    let op = op::find("reshape").expect("there is an operator for shapes");
    function.add_call("lv", Callee::Op(op), vec![Arg::Value(v), Arg::Shape(extents)], ty, span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rows: &[&[f64]], column: &[f64]) -> Vec<f64> {
        rows.iter().map(|row| row.iter().zip(column).map(|(a, b)| a * b).sum()).collect()
    }

    #[test]
    fn matrices_give_windowed_sums_of_products() {
        let weights = [0.75, -2.0, 3.5];
        for tiles in &TILES {
            let n = tiles.m as usize;
            let data: Vec<f64> = (0..n + 2).map(|i| ((i * 5 + 3) % 7) as f64 - 2.5).collect();
            let products: Vec<f64> =
                times(tiles.weight, &weights).iter().zip(times(tiles.data, &data)).map(|(a, b)| a * b).collect();
            let expected: Vec<f64> =
                (0..n).map(|i| weights.iter().zip(&data[i..]).map(|(a, b)| a * b).sum::<f64>()).collect();
            let found = times(tiles.result, &products);
            let is_close = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(is_close && found.len() == n, "{n}: {found:?}, expected {expected:?}");
        }
    }

    #[test]
    fn tiles_depend_on_the_number_of_products_for_each_weight() {
        let size = |channels, n| {
            let shape = Shape { items: 1, channels, features: channels, result: [n, n] };
            shape.best_tiles().map(|tiles| tiles.m)
        };
        assert_eq!(size(64, 56), Some(4));
        assert_eq!(size(256, 14), Some(4));
        assert_eq!(size(448, 8), Some(2));
        // The weights of the last layers of a network are read once for few results.
        assert_eq!(size(512, 7), None);
        assert_eq!(size(3, 224), None);
    }
}
