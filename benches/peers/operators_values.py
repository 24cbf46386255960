"""Calls of operators on values for operators.py: reductions, sorting, indexing, creation, quantisation, losses, shapes.

A case is the text of a call and its inputs as arrays. Inputs are given as `name=(shape, dtype, values)`, where the values are `None`
(floats from 0 to 1, or truth values), the bounds of integers, or the name of a kind: see `draw`.
"""

import numpy as np

RNG = np.random.default_rng(11)
F, I = "float32", "int64"
CASES = []


def draw(shape, dtype, values):
    if values == "sorted":
        return np.sort(RNG.integers(-2, 12, shape) if dtype.startswith("int") else RNG.random(shape)).astype(dtype)
    if values == "distinct below 8":
        return RNG.permutation(8)[:int(np.prod(shape))].reshape(shape).astype(dtype)
    if values == "wide":
        return (RNG.standard_normal(shape) * 30).astype(dtype)
    if values == "positive":
        return np.asarray(RNG.random(shape) * 0.4 + 0.05).astype(dtype)
    if values == "distribution":
        a = RNG.random(shape) + 0.01
        return (a / a.sum(-1, keepdims=True)).astype(dtype)
    if values is not None:
        return np.asarray(RNG.integers(*values, shape)).astype(dtype)
    return np.asarray(RNG.integers(0, 2, shape) if dtype == "bool" else RNG.random(shape)).astype(dtype)


def case(call, **inputs):
    CASES.append((call, {name: draw(*i) for name, i in inputs.items()}))


X = ((2, 3, 4), F, None)
for op in ["sum", "mean", "prod", "max", "min", "std", "variance"]:
    case(f"R.{op}(x)", x=X)
    case(f"R.{op}(x, axis=[1])", x=X)
    case(f"R.{op}(x, axis=[-1, 0], keepdims=True)", x=X)
for op in ["sum", "prod", "max", "min"]:
    case(f"R.{op}(x, axis=[1])", x=((3, 5), "int32", (-4, 5)))
case("R.sum(x, axis=[0])", x=((3, 5), "bool", None))
case("R.prod(x, axis=[0])", x=((3, 5), "bool", None))
case("R.sum(x)", x=((), F, None))
case("R.mean(x, axis=[2])", x=((3, 5, 7), "float64", None))
case("R.sum(x, axis=[1])", x=((3, 65), "float16", None))
for op in ["argmax", "argmin"]:
    case(f"R.{op}(x)", x=X)
    case(f"R.{op}(x, axis=1)", x=X)
    case(f"R.{op}(x, axis=-1, keepdims=True)", x=X)
    case(f"R.{op}(x, axis=1)", x=((3, 9), "int32", (0, 3)))
    case(f"R.{op}(x, keepdims=True)", x=((3, 9), "int8", (-3, 3)))
for op in ["cumsum", "cumprod"]:
    case(f"R.{op}(x)", x=X)
    case(f"R.{op}(x, axis=1)", x=X)
    case(f"R.{op}(x, axis=-1, exclusive=True)", x=X)
    case(f'R.{op}(x, axis=0, dtype="float64")', x=X)
    case(f'R.{op}(x, axis=0, dtype="int32")', x=((5, 3), "bool", None))
for n in [1, 2, 3, 7, 64, 100]:
    case("R.sort(x)", x=((3, n), F, None))
    case("R.argsort(x)", x=((3, n), F, None))
    case('R.argsort(x, descending=True, dtype="int64")', x=((3, n), "int32", (0, 5)))
case("R.sort(x, axis=0, descending=True)", x=((9, 4), F, None))
case("R.sort(x, axis=1)", x=((2, 9, 4), "int64", (-9, 9)))
case('R.argsort(x, axis=1, dtype="int64")', x=((2, 9, 4), F, None))
case("R.topk(x, k=3)", x=((4, 9), F, None))
case('R.topk(x, k=2, axis=0, largest=False, dtype="int64")', x=((9, 4), F, None))
case('R.topk(x, k=5, ret_type="values")', x=((4, 9), F, None))
case('R.topk(x, k=5, ret_type="indices")', x=((4, 9), "int32", (0, 4)))
case("R.topk(x, k=0)", x=((4, 9), F, None))
case("R.median(x)", x=X)
case("R.median(x)", x=((9,), F, None))
case("R.median(x, axis=[1])", x=((4, 7), F, None))
case("R.median(x, axis=[-1])", x=((4, 8), F, None))
case("R.median(x, axis=[0], keepdims=True)", x=((5, 3), F, None))
for mode in ["fast", "clip", "wrap", "nan"]:
    r = (0, 3) if mode == "fast" else (-7, 9)
    case(f'R.take(x, i, axis=1, mode="{mode}")', x=X, i=((5, 2), "int64", r))
    case(f'R.take(x, i, axis=-2, mode="{mode}")', x=X, i=((5,), "int32", r))
case("R.take(x, i)", x=((7,), F, None), i=((5, 2), "int64", (0, 7)))
case("R.take(x, i, axis=0)", x=((7, 3), F, None), i=((), "int64", (0, 7)))
case("R.take(x, R.const(2, \"int64\"), axis=0)", x=((7, 3), F, None))
case("R.gather_elements(x, i, axis=1)", x=X, i=((2, 5, 4), I, (0, 3)))
case("R.gather_elements(x, i, axis=-1)", x=((3, 4), "int32", (0, 99)), i=((3, 2), "int32", (0, 4)))
case("R.gather_nd(x, i)", x=X, i=((5, 2), I, (0, 2)))
case("R.gather_nd(x, i)", x=X, i=((3, 2, 3), I, (0, 2)))
case("R.gather_nd(x, i, batch_dims=1)", x=X, i=((2, 5, 1), I, (0, 3)))
case("R.gather_nd(x, i, batch_dims=1)", x=X, i=((2, 1), I, (0, 3)))
case("R.index_tensor(x, (i,))", x=X, i=((5,), I, (0, 2)))
case("R.index_tensor(x, (i, j))", x=X, i=((5, 1), I, (0, 2)), j=((6,), I, (0, 3)))
case("R.strided_slice(x, axes=[0], begin=[1], end=[7])", x=((8, 4), F, None))
case("R.strided_slice(x, axes=[0], begin=[7], end=[0], strides=[-2])", x=((8, 4), F, None))
case("R.strided_slice(x, axes=[0, 1], begin=[-3, 0], end=[100, -1], strides=[1, 2])", x=((8, 4), F, None))
case("R.strided_slice(x, axes=[1], begin=[9223372036854775807], end=[-9223372036854775807], strides=[-1])", x=((8, 4), F, None))
case("R.strided_slice(x, axes=[1], begin=[0], end=[9223372036854775807])", x=((8, 4), F, None))
case("R.strided_slice(x, axes=[0], begin=[1], end=[7], strides=[3], assume_inbound=True)", x=((8, 4), F, None))
case("R.dynamic_strided_slice(x, R.const([1, 3], \"int64\"), R.const([7, 0], \"int64\"), R.const([2, -1], \"int64\"))", x=((8, 4), F, None))
case("R.one_hot(x, T.float32(1), T.float32(0), depth=5)", x=((2, 3), "int32", (-1, 6)))
case("R.one_hot(x, T.float32(2), T.float32(-1), depth=5, axis=1)", x=((2, 3), "int64", (0, 5)))
case("R.one_hot(x, T.int64(1), T.int64(0), depth=4, axis=0)", x=((5,), "int64", (0, 4)))
for right in [False, True]:
    for n in [1, 2, 9]:
        case(f"R.bucketize(x, b, right={right})", x=((4, 5), "int32", (-2, 12)), b=((n,), "int32", "sorted"))
case("R.bucketize(x, b, out_int32=True)", x=((20,), F, None), b=((7,), F, "sorted"))
case("R.reverse_sequence(x, n)", x=((4, 6, 3), F, None), n=((4,), "int64", (0, 9)))
case("R.reverse_sequence(x, n, seq_axis=0, batch_axis=1)", x=((6, 4), F, None), n=((4,), "int32", (0, 7)))
for how in ["update", "add", "mul", "mean", "min", "max"]:
    case(f'R.scatter_elements(x, i, u, axis=0, reduction="{how}")', x=((8, 4), F, None), i=((3, 4), I, (-8, 8)), u=((3, 4), F, None))
case('R.scatter_elements(x, i, u, axis=1, reduction="add")', x=((2, 8, 4), F, None), i=((2, 3, 4), "int32", (-8, 8)), u=((2, 3, 4), F, None))
for how in ["update", "add", "mul", "min", "max"]:
    case(f'R.scatter_nd(x, i, u, reduction="{how}")', x=((8, 4), F, None), i=((5, 1), I, "distinct below 8"), u=((5, 4), F, None))
case('R.scatter_nd(x, i, u, reduction="add")', x=((8, 4), F, None), i=((3, 5, 2), I, (0, 4)), u=((3, 5), F, None))
case("R.index_put(x, (i, j), u)", x=((8, 4), F, None), i=((6,), I, "distinct below 8"), j=((6,), I, (-4, 4)), u=((6,), F, None))
case("R.index_put(x, (i, j), u, accumulate=True)", x=((8, 4), F, None), i=((2, 3), I, (-8, 8)), j=((3,), I, (0, 4)), u=((6,), F, None))
case("R.index_put(x, (i,), u, accumulate=True)", x=((8,), F, None), i=((6,), I, (0, 8)), u=((6,), F, None))
case("R.slice_scatter(x, s, T.int64(1), T.int64(7), T.int64(2), axis=0)", x=((8, 4), F, None), s=((3, 4), F, None))
case("R.slice_scatter(x, s, T.int64(0), T.int64(4), T.int64(1), axis=1)", x=((8, 4), F, None), s=((8, 4), F, None))
case("R.slice_scatter(x, s, T.int64(2), T.int64(4), T.int64(1), axis=1)", x=((8, 4), F, None), s=((8, 2), F, None))
# TVM does not read what it prints of `R.grad.take_backward`: it has no case here, but a unit test.
case('R.full((2, 3), R.const(2.5, "float32"), dtype="float32")')
case('R.full((2, 3), x, dtype="float32")', x=((), F, None))
case('R.full_like(x, R.const(2.5, "float32"), dtype="int32")', x=X)
case('R.full_like(x, R.const(2.5, "float32"))', x=X)
for op in ["ones", "zeros"]:
    case(f'R.{op}((2, 3), dtype="int32")')
    case(f'R.{op}((2, 3), dtype="float32")')
    case(f'R.{op}_like(x, dtype="int32")', x=X)
    case(f"R.{op}_like(x)", x=((3,), "int8", (0, 5)))
case('R.arange(T.int64(0), T.int64(7), T.int64(2), dtype="float32")')
# No negative step: TVM gives such an `arange` a wrong extent.
case('R.arange(T.int64(5), dtype="int64")')
case('R.arange(T.float32(0.5), T.float32(7), T.float32(2), dtype="float32")')
case('R.eye(T.int64(3), T.int64(4), T.int64(-1), dtype="float32")')
case('R.eye(T.int64(3))')
case('R.eye_like(x, T.int64(1))', x=((4, 6), F, None))

case("R.tril(x)", x=((4, 6), F, None))
case("R.tril(x, T.int64(1))", x=((2, 4, 6), F, None))
case("R.triu(x, T.int64(-1))", x=((2, 6, 4), "int32", (0, 50)))
case('R.hamming_window(T.int64(10), T.bool(True), T.float32(0.54), T.float32(0.46), dtype="float32")')
case('R.hamming_window(T.int64(9), T.bool(False), T.float32(0.5), T.float32(0.5), dtype="float32")')
case('R.meshgrid((x, y), indexing="ij")', x=((2,), F, None), y=((3,), F, None))
case('R.meshgrid((x, y, z), indexing="ij")', x=((2,), F, None), y=((3,), F, None), z=((4,), F, None))
for dtype in ["int8", "uint8", "int16"]:
    case(f'R.quantize(x, s, z, axis=1, out_dtype="{dtype}")', x=((5, 4), F, "wide"), s=((4,), F, "positive"), z=((4,), "int8" if dtype != "uint8" else "uint8", (0, 9)))
case('R.quantize(x, R.const(0.5, "float32"), R.const(3, "int8"), axis=1, out_dtype="int8")', x=((5, 4), F, "wide"))
case('R.quantize(x, s, z, axis=-1, out_dtype="int8")', x=((5, 4), F, "wide"), s=((), F, "positive"), z=((), "int8", (0, 9)))
case('R.dequantize(x, s, z, axis=1, out_dtype="float32")', x=((5, 4), "int8", (-128, 128)), s=((4,), F, "positive"), z=((4,), "int8", (-9, 9)))
case('R.dequantize(x, s, z, axis=0, out_dtype="float16")', x=((4, 5), "uint8", (0, 256)), s=((4,), "float16", "positive"), z=((4,), "uint8", (0, 9)))
case('R.dequantize(x, R.const(0.5, "float32"), R.const(3, "int8"), axis=1, out_dtype="float32")', x=((5, 4), "int8", (-128, 128)))
case("R.nn.cross_entropy_with_logits(x, y)", x=((4, 5), F, None), y=((4, 5), F, None))
case("R.nn.cross_entropy_with_logits(x, y)", x=((5,), F, None), y=((5,), F, None))
for how in ["mean", "sum", "none"]:
    for ignore in [-100, 2]:
        case(f'R.nn.nll_loss(x, y, w, reduction="{how}", ignore_index={ignore})', x=((6, 4, 5), F, None), y=((6, 5), I, (0, 4)), w=((4,), F, None))
        case(f'R.nn.nll_loss(x, y, reduction="{how}", ignore_index={ignore})', x=((6, 4), F, None), y=((6,), "int32", (0, 4)))
        g = ((6, 5) if how == "none" else (), F, None)
        case(f'R.grad.nll_loss_backward(g, x, y, w, reduction="{how}", ignore_index={ignore})', g=g, x=((6, 4, 5), F, None), y=((6, 5), I, (0, 4)), w=((4,), F, None))
        g = ((6,) if how == "none" else (), F, None)
        case(f'R.grad.nll_loss_backward(g, x, y, reduction="{how}", ignore_index={ignore})', g=g, x=((6, 4), F, None), y=((6,), I, (0, 4)))
case('R.nn.nll_loss(x, y, w, reduction="mean")', x=((4,), F, None), y=((), I, (0, 4)), w=((4,), F, None))
case("R.collapse_sum_to(x, R.shape([4, 1]))", x=((2, 4, 5), F, None))
case("R.collapse_sum_to(x, R.shape([2, 4, 5]))", x=((2, 4, 5), F, None))
case("R.collapse_sum_to(x, R.shape([1, 1, 5]))", x=((2, 4, 5), F, None))
case("R.collapse_sum_like(x, y)", x=((2, 4, 5), F, None), y=((1, 4, 5), F, None))
case("R.size(x)", x=((2, 4, 5), F, None))
case("R.shape_to_tensor(R.shape([2, 3]))")
case("R.shape_to_tensor(R.shape_of(y))", y=((3, 4), F, None))
case("R.multinomial_from_uniform(p, u, i)", p=((3, 6), F, "distribution"), u=((8, 1), F, None), i=((8, 1), I, (0, 3)))
case('R.multinomial_from_uniform(p, u, i, dtype="int32")', p=((3, 40), F, "distribution"), u=((8, 1), F, None), i=((8, 1), I, (0, 3)))
case('R.nonzero(R.const([[0, 1, 2], [3, 0, 0]], "float32"))')
case('R.nonzero(R.const([0, 1, 2, 0], "int32"))')
case('R.unique(R.const([3, 1, 2, 3, 1], "float32"))')
case('R.unique(R.const([3, 1, 2, 3, 1, 7], "int64"), T.bool(True), T.bool(True), T.bool(True), T.bool(True))')
case('R.nonzero(R.const([True, False, True], "bool"))')
case('R.nonzero(R.const([[[0.0, -1.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]], "float64"))')
case('R.unique(R.const([3, 1, 2, 3, 1, 7], "int32"), T.bool(False))')
for flags in ("True, False, False", "False, True, False", "False, False, True", "True, True, True"):
    for is_sorted in ("True", "False"):
        given = ", ".join(f"T.bool({flag})" for flag in [is_sorted, *flags.split(", ")])
        case(f'R.unique(R.const([3.5, 1.0, 2.0, 3.5, 1.0, 7.0, 2.0], "float32"), {given})')
        # Of rows and of columns.
        for axis in (0, 1, -1):
            case(f'R.unique(R.const([[3, 1, 3], [2, 2, 2], [3, 1, 3], [0, 5, 0]], "int64"), {given}, T.int64({axis}))')
case('R.unique(R.const([[3, 1], [3, 1]], "int32"), T.bool(True), T.bool(False), T.bool(False), T.bool(False), T.int64(0))')
case("R.grad.no_grad(x)", x=X)
