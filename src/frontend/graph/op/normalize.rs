//! Softmax, and normalisation by mean and variance.

use super::*;
use crate::ir::AttrValue;
use crate::te::Reducer;

const DATA_AXIS: &[Param] = &[required("data", Kind::Tensor), optional("axis", Kind::Int, Default::Int(-1))];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "nn.softmax",
        params: DATA_AXIS,
        infer: along_axis,
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let axis = cx.axis(cx.int("axis"), cx.te.shape(data).len())?;
            Ok(vec![softmax(&mut cx.te, data, axis)])
        }),
        doc: "exp(x) divided by the sum of exp(x) along an axis.",
    },
    Operator {
        name: "nn.log_softmax",
        params: DATA_AXIS,
        infer: along_axis,
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let shape = cx.shape_of(data);
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            let rest = without(&shape, axis);
            let maximum = maximum(&mut cx.te, data, axis);
            let sum = cx.te.reduce("compute", &rest, &[shape[axis]], Reducer::Sum, |te, i, k| {
                let (x, most) = (te.at(data, &with_index(i, axis, k[0])), te.at(maximum, i));
                let difference = te.sub(x, most);
                te.call(Intrinsic::Exp, &[difference])
            });
            Ok(vec![cx.te.compute("compute", &shape, |te, i| {
                let others = without(i, axis);
                let (x, most, sum) = (te.at(data, i), te.at(maximum, &others), te.at(sum, &others));
                let log = te.call(Intrinsic::Log, &[sum]);
                let difference = te.sub(x, most);
                te.sub(difference, log)
            })])
        }),
        doc: "The logarithm of softmax.",
    },
    Operator {
        name: "nn.layer_norm",
        params: &[
            required("data", Kind::Tensor),
            required("gamma", Kind::Tensor),
            required("beta", Kind::Tensor),
            required("axes", Kind::Ints),
            optional("epsilon", Kind::Float, Default::Float(1e-5)),
            optional("center", Kind::Bool, Default::Bool(true)),
            optional("scale", Kind::Bool, Default::Bool(true)),
        ],
        infer: |cx| {
            let (data, gamma, beta) = (cx.tensor("data")?, cx.tensor("gamma")?, cx.tensor("beta")?);
            expect_float(cx, "data", data.dtype)?;
            let axes = cx.axes(&cx.ints("axes"), data.rank())?;
            for (name, tensor) in [("gamma", &gamma), ("beta", &beta)] {
                cx.expect_rank(name, tensor, axes.len())?;
                expect_same_type(cx, ("data", data.dtype), (name, tensor.dtype))?;
                for (d, &axis) in axes.iter().enumerate() {
                    cx.expect_equal(("data", &data, axis), (name, tensor, d))?;
                }
            }
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let (data, gamma, beta) = (cx.input("data")?, cx.input("gamma")?, cx.input("beta")?);
            let axes = cx.axes(&cx.ints("axes"), cx.te.shape(data).len())?;
            let epsilon = cx.float("epsilon");
            let moments = Moments::of(&mut cx.te, data, &axes);
            let shape = cx.shape_of(data);
            Ok(vec![cx.te.compute("T_layer_norm", &shape, |te, i| {
                let normal = moments.normalised(te, i, epsilon);
                let along: Vec<ExprId> = axes.iter().map(|&a| i[a]).collect();
                let (gamma, beta) = (te.at(gamma, &along), te.at(beta, &along));
                affine(te, normal, gamma, beta)
            })])
        }),
        doc: "The data less its mean, divided by its standard deviation along axes, times gamma, plus beta.",
    },
    Operator {
        name: "nn.rms_norm",
        params: &[
            required("data", Kind::Tensor),
            required("weight", Kind::Tensor),
            optional("axes", Kind::Ints, Default::Int(-1)),
            optional("epsilon", Kind::Float, Default::Float(1e-5)),
        ],
        infer: |cx| {
            let (data, weight) = (cx.tensor("data")?, cx.tensor("weight")?);
            expect_float(cx, "data", data.dtype)?;
            let axes = cx.axes(&cx.ints("axes"), data.rank())?;
            cx.expect_rank("weight", &weight, axes.len())?;
            for (d, &axis) in axes.iter().enumerate() {
                cx.expect_equal(("data", &data, axis), ("weight", &weight, d))?;
            }
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let (data, weight) = (cx.input("data")?, cx.input("weight")?);
            let shape = cx.shape_of(data);
            let axes = cx.axes(&cx.ints("axes"), shape.len())?;
            let dtype = cx.te.element_type(data);
            let wide = accumulator(dtype);
            let epsilon = cx.float("epsilon");
            let (rest, domain) = split_axes(&shape, &axes);
            let squares = cx.te.reduce("T_multiply_red", &rest, &domain, Reducer::Sum, |te, i, k| {
                let x = te.at(data, &joined(i, k, &axes));
                let x = te.cast(wide, x);
                te.mul(x, x)
            });
            let scale = cx.te.compute("rsqrt", &rest, |te, i| {
                let sum = te.at(squares, i);
                let mean = divided_by_extents(te, sum, &domain);
                let epsilon = like(te, mean, epsilon);
                let mean = te.add(mean, epsilon);
                te.call(Intrinsic::Rsqrt, &[mean])
            });
            Ok(vec![cx.te.compute("T_rms_norm", &shape, |te, i| {
                let (rest, along) = split_axes(i, &axes);
                let (scale, x, weight) = (te.at(scale, &rest), te.at(data, i), te.at(weight, &along));
                let (x, weight) = (te.cast(wide, x), te.cast(wide, weight));
                let scaled = te.mul(scale, x);
                let scaled = te.mul(scaled, weight);
                te.cast(dtype, scaled)
            })])
        }),
        doc: "The data divided by the root of its mean square along axes, times the weight.",
    },
    Operator {
        name: "nn.batch_norm",
        params: &[
            required("data", Kind::Tensor),
            required("gamma", Kind::Tensor),
            required("beta", Kind::Tensor),
            required("moving_mean", Kind::Tensor),
            required("moving_var", Kind::Tensor),
            required("axis", Kind::Int),
            optional("epsilon", Kind::Float, Default::Float(1e-5)),
            optional("center", Kind::Bool, Default::Bool(true)),
            optional("scale", Kind::Bool, Default::Bool(true)),
            optional("momentum", Kind::Float, Default::Float(0.1)),
            optional("training", Kind::Bool, Default::Bool(true)),
        ],
        infer: |cx| {
            let data = cx.tensor("data")?;
            expect_float(cx, "data", data.dtype)?;
            let axis = cx.axis(cx.int("axis"), data.rank())?;
            for name in ["gamma", "beta", "moving_mean", "moving_var"] {
                let tensor = cx.tensor(name)?;
                cx.expect_rank(name, &tensor, 1)?;
                cx.expect_equal(("data", &data, axis), (name, &tensor, 0))?;
            }
            let moving = [cx.tensor("moving_mean")?.into(), cx.tensor("moving_var")?.into()];
            Ok(Type::Tuple([data.into()].into_iter().chain(moving).collect()))
        },
        lower: Lowering::Stages(batch_norm),
        doc: "The data normalised for each channel: by the moving mean and variance, or while training by its own.",
    },
    Operator {
        name: "nn.group_norm",
        params: &[
            required("data", Kind::Tensor),
            required("gamma", Kind::Tensor),
            required("beta", Kind::Tensor),
            required("num_groups", Kind::Int),
            required("channel_axis", Kind::Int),
            required("axes", Kind::Ints),
            optional("epsilon", Kind::Float, Default::Float(1e-5)),
            optional("center", Kind::Bool, Default::Bool(true)),
            optional("scale", Kind::Bool, Default::Bool(true)),
        ],
        infer: |cx| {
            let data = channels(cx)?;
            let axis = cx.axis(cx.int("channel_axis"), data.rank())?;
            let groups = cx.int("num_groups");
            match cx.known_extent(data.shape[axis]) {
                Some(n) if groups < 1 || n % groups != 0 => {
                    cx.fail(format!("its {n} channels are no multiple of {groups} groups"))
                }
                _ => Ok(data.into()),
            }
        },
        lower: Lowering::Stages(group_norm),
        doc: "The data normalised for each group of channels, times gamma, plus beta.",
    },
    Operator {
        name: "nn.instance_norm",
        params: &[
            required("data", Kind::Tensor),
            required("gamma", Kind::Tensor),
            required("beta", Kind::Tensor),
            required("channel_axis", Kind::Int),
            required("axes", Kind::Ints),
            optional("epsilon", Kind::Float, Default::Float(1e-5)),
            optional("center", Kind::Bool, Default::Bool(true)),
            optional("scale", Kind::Bool, Default::Bool(true)),
        ],
        infer: |cx| Ok(channels(cx)?.into()),
        lower: Lowering::Stages(|cx| {
            let (data, gamma, beta) = (cx.input("data")?, cx.input("gamma")?, cx.input("beta")?);
            let shape = cx.shape_of(data);
            let channel = cx.axis(cx.int("channel_axis"), shape.len())?;
            let axes = cx.axes(&cx.ints("axes"), shape.len())?;
            let epsilon = cx.float("epsilon");
            let moments = Moments::of(&mut cx.te, data, &axes);
            Ok(vec![cx.te.compute("T_instance_norm", &shape, |te, i| {
                let normal = moments.normalised(te, i, epsilon);
                let (gamma, beta) = (te.at(gamma, &[i[channel]]), te.at(beta, &[i[channel]]));
                affine(te, normal, gamma, beta)
            })])
        }),
        doc: "The data normalised for each channel of each item, times gamma, plus beta.",
    },
];

fn along_axis(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let data = cx.tensor("data")?;
    expect_float(cx, "data", data.dtype)?;
    cx.axis(cx.int("axis"), data.rank())?;
    Ok(data.into())
}

/// The data of a normalisation with one gamma and one beta for each channel.
fn channels(cx: &mut Infer<'_>) -> Result<Known, OpError> {
    let (data, gamma, beta) = (cx.tensor("data")?, cx.tensor("gamma")?, cx.tensor("beta")?);
    expect_float(cx, "data", data.dtype)?;
    let axis = cx.axis(cx.int("channel_axis"), data.rank())?;
    cx.axes(&cx.ints("axes"), data.rank())?;
    for (name, tensor) in [("gamma", &gamma), ("beta", &beta)] {
        cx.expect_rank(name, tensor, 1)?;
        expect_same_type(cx, ("data", data.dtype), (name, tensor.dtype))?;
        cx.expect_equal(("data", &data, axis), (name, tensor, 0))?;
    }
    Ok(data)
}

/// The items but one.
fn without(items: &[ExprId], axis: usize) -> Vec<ExprId> {
    let mut rest = items.to_vec();
    rest.remove(axis);
    rest
}

fn maximum(te: &mut Te, data: Tensor, axis: usize) -> Tensor {
    let shape = te.shape(data).to_vec();
    te.reduce("T_softmax_maxelem", &without(&shape, axis), &[shape[axis]], Reducer::Max, |te, i, k| {
        te.at(data, &with_index(i, axis, k[0]))
    })
}

/// Softmax along an axis, by the maximum, the exponentials and their sum.
pub(super) fn softmax(te: &mut Te, data: Tensor, axis: usize) -> Tensor {
    let shape = te.shape(data).to_vec();
    let maximum = maximum(te, data, axis);
    let exp = te.compute("T_softmax_exp", &shape, |te, i| {
        let (x, most) = (te.at(data, i), te.at(maximum, &without(i, axis)));
        let difference = te.sub(x, most);
        te.call(Intrinsic::Exp, &[difference])
    });
    let sum = te.reduce("T_softmax_expsum", &without(&shape, axis), &[shape[axis]], Reducer::Sum, |te, i, k| {
        te.at(exp, &with_index(i, axis, k[0]))
    });
    let norm = te.compute("T_softmax_norm", &shape, |te, i| {
        let (exp, sum) = (te.at(exp, i), te.at(sum, &without(i, axis)));
        te.binary(BinOp::Div, exp, sum)
    });
    te.annotate(norm, "axis", AttrValue::Int(axis as i64));
    norm
}

/// The items that are not at these axes, and those that are, in the order of the axes.
pub(super) fn split_axes(items: &[ExprId], axes: &[usize]) -> (Vec<ExprId>, Vec<ExprId>) {
    let rest = (0..items.len()).filter(|d| !axes.contains(d)).map(|d| items[d]).collect();
    (rest, axes.iter().map(|&d| items[d]).collect())
}

/// The items of [`split_axes`] in their places.
pub(super) fn joined(rest: &[ExprId], along: &[ExprId], axes: &[usize]) -> Vec<ExprId> {
    let mut rest = rest.iter();
    let n = rest.len() + axes.len();
    let of = |d: usize| match axes.iter().position(|&a| a == d) {
        Some(k) => along[k],
        None => *rest.next().expect("as many items as dimensions"),
    };
    (0..n).map(of).collect()
}

/// A sum divided by the number of its summands.
pub(super) fn divided_by_extents(te: &mut Te, sum: ExprId, domain: &[ExprId]) -> ExprId {
    let mut n = te.extent(1);
    for &extent in domain {
        n = te.mul(n, extent);
    }
    let dtype = te.dtype(sum);
    let n = te.cast(dtype, n);
    te.binary(BinOp::Div, sum, n)
}

fn affine(te: &mut Te, x: ExprId, gamma: ExprId, beta: ExprId) -> ExprId {
    let scaled = te.mul(x, gamma);
    te.add(scaled, beta)
}

/// Mean and variance of a tensor along axes.
struct Moments {
    data: Tensor,
    mean: Tensor,
    squares: Tensor,
    axes: Vec<usize>,
    domain: Vec<ExprId>,
}

impl Moments {
    fn of(te: &mut Te, data: Tensor, axes: &[usize]) -> Moments {
        let shape = te.shape(data).to_vec();
        let dtype = accumulator(te.element_type(data));
        let (rest, domain) = split_axes(&shape, axes);
        let name = te.buffer_name(data);
        let sum = te.reduce(&format!("{name}_sum"), &rest, &domain, Reducer::Sum, |te, i, k| {
            let x = te.at(data, &joined(i, k, axes));
            te.cast(dtype, x)
        });
        let mean = te.compute(&format!("{name}_mean"), &rest, |te, i| {
            let sum = te.at(sum, i);
            divided_by_extents(te, sum, &domain)
        });
        let squares = te.reduce(&format!("{name}_var_sum"), &rest, &domain, Reducer::Sum, |te, i, k| {
            let (x, mean) = (te.at(data, &joined(i, k, axes)), te.at(mean, i));
            let x = te.cast(dtype, x);
            let difference = te.sub(x, mean);
            te.mul(difference, difference)
        });
        Moments { data, mean, squares, axes: axes.to_vec(), domain }
    }

    /// The variance at the indices that are left.
    fn variance(&self, te: &mut Te, rest: &[ExprId]) -> ExprId {
        let squares = te.at(self.squares, rest);
        divided_by_extents(te, squares, &self.domain)
    }

    /// The element less the mean, divided by the standard deviation.
    fn normalised(&self, te: &mut Te, i: &[ExprId], epsilon: f64) -> ExprId {
        let dtype = te.element_type(self.data);
        let (rest, _) = split_axes(i, &self.axes);
        let (x, mean) = (te.at(self.data, i), te.at(self.mean, &rest));
        let x = te.cast(accumulator(dtype), x);
        let difference = te.sub(x, mean);
        let variance = self.variance(te, &rest);
        let epsilon = like(te, variance, epsilon);
        let variance = te.add(variance, epsilon);
        let scale = te.call(Intrinsic::Rsqrt, &[variance]);
        let normal = te.mul(difference, scale);
        te.cast(dtype, normal)
    }
}

fn batch_norm(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let data = cx.input("data")?;
    let (gamma, beta) = (cx.input("gamma")?, cx.input("beta")?);
    let (moving_mean, moving_var) = (cx.input("moving_mean")?, cx.input("moving_var")?);
    let shape = cx.shape_of(data);
    let axis = cx.axis(cx.int("axis"), shape.len())?;
    let (epsilon, momentum, training) = (cx.float("epsilon"), cx.float("momentum"), cx.flag("training"));
    let (center, scale) = (cx.flag("center"), cx.flag("scale"));
    let te = &mut cx.te;
    let others: Vec<usize> = (0..shape.len()).filter(|&d| d != axis).collect();
    let own = training.then(|| Moments::of(te, data, &others));
    let out = te.compute("T_batch_norm", &shape, |te, i| {
        let channel = &[i[axis]];
        let (mean, variance) = match &own {
            Some(own) => (te.at(own.mean, channel), own.variance(te, channel)),
            None => (te.at(moving_mean, channel), te.at(moving_var, channel)),
        };
        let x = te.at(data, i);
        let difference = te.sub(x, mean);
        let epsilon = like(te, variance, epsilon);
        let variance = te.add(variance, epsilon);
        let deviation = te.call(Intrinsic::Sqrt, &[variance]);
        let mut value = te.binary(BinOp::Div, difference, deviation);
        if scale {
            let gamma = te.at(gamma, channel);
            value = te.mul(value, gamma);
        }
        if center {
            let beta = te.at(beta, channel);
            value = te.add(value, beta);
        }
        value
    });
    let channels = [shape[axis]];
    let mut moved = |moving: Tensor, of: fn(&Moments, &mut Te, &[ExprId]) -> ExprId| {
        te.compute("T_moving", &channels, |te, i| {
            let before = te.at(moving, i);
            let Some(own) = &own else { return before };
            let now = of(own, te, i);
            let (stays, comes) = (like(te, before, 1.0 - momentum), like(te, before, momentum));
            let (before, now) = (te.mul(stays, before), te.mul(comes, now));
            te.add(before, now)
        })
    };
    let mean = moved(moving_mean, |own, te, i| te.at(own.mean, i));
    let variance = moved(moving_var, |own, te, i| own.variance(te, i));
    Ok(vec![out, mean, variance])
}

fn group_norm(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (data, gamma, beta) = (cx.input("data")?, cx.input("gamma")?, cx.input("beta")?);
    let shape = cx.shape_of(data);
    let channel = cx.axis(cx.int("channel_axis"), shape.len())?;
    let axes = cx.axes(&cx.ints("axes"), shape.len())?;
    let epsilon = cx.float("epsilon");
    let n_groups = cx.int("num_groups");
    let te = &mut cx.te;
    let groups = te.extent(n_groups);
    let size = te.floor_div(shape[channel], groups);
    // Channels in groups: [n, c, h, w] is [n, groups, c / groups, h, w].
    let mut grouped = shape.clone();
    grouped[channel] = groups;
    grouped.insert(channel + 1, size);
    let data = te.reshaped("T_reshape", data, &grouped);
    let (gamma, beta) =
        (te.reshaped("T_reshape", gamma, &[groups, size]), te.reshaped("T_reshape", beta, &[groups, size]));
    let mut along = vec![channel + 1];
    along.extend(axes.iter().filter(|&&a| a != channel).map(|&a| if a > channel { a + 1 } else { a }));
    let moments = Moments::of(te, data, &along);
    let normal = te.compute("T_group_norm", &grouped, |te, i| {
        let normal = moments.normalised(te, i, epsilon);
        let of_channel = &[i[channel], i[channel + 1]];
        let (gamma, beta) = (te.at(gamma, of_channel), te.at(beta, of_channel));
        affine(te, normal, gamma, beta)
    });
    Ok(vec![te.reshaped("T_reshape", normal, &shape)])
}
