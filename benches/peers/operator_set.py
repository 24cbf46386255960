#!/usr/bin/env python3
"""Tunes operators of TVM's operator library, with shapes of real networks, and shows how far each is from its roofline bound.

    python3 benches/peers/operator_set.py TVMR [--trials 64] [--threads 1] [--rounds 1] [--list] [--write DIRECTORY] [--json FILE] [FILTER ...]

The programs are what `te.create_prim_func` makes of the library's functions. Each is tuned into a database of its own, and then timed by
`tvmr bench --best`. A row has its time, the share of its bound, what the bound is (operations, or a level of memory), the number of
different programs that were measured, and the time as written. At the end: the share of all operators that take more than 5 µs, and
those below one half. With `--rounds`, the tuned programs are timed that many times, each time all of them one after the other, so that
the times of one are minutes apart: neighbours on a shared machine slow it down for minutes. The end then takes the median of each
operator's shares, and lists the best as well. With filters, only operators whose names contain one of them. `--write` writes the programs and does not tune.
It needs `apache-tvm` and `numpy` (benches/peers/README.md). The exit code is 1 if tvmr fails on an operator.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import tvm
from tvm import te, topi

# Shorter calls are bounded by what a call costs.
SHORTEST_US = 5

SET = {}


def add(name, make, *inputs):
    """Adds an operator: a function from tensors to a tensor or several, and their shapes with data types."""
    assert name not in SET, name
    SET[name] = (make, inputs)


def typed(name, make, shapes, dtypes=("float32",)):
    for dtype in dtypes:
        add(f"{name}_{dtype}", make, *((shape, dtype) for shape in shapes))


F32 = ("float32",)
HALVES = ("float16", "bfloat16")
FLOATS = F32 + HALVES


def convolutions():
    nchw = topi.nn.conv2d_nchw
    shapes = [
        # image, channels in and out, kernel, stride, padding, dilation
        (224, 3, 64, 7, 2, 3, 1), (224, 3, 32, 3, 2, 1, 1), (299, 3, 32, 3, 2, 0, 1), (112, 32, 64, 3, 1, 1, 1), (56, 64, 64, 3, 1, 1, 1),
        (56, 64, 64, 1, 1, 0, 1), (56, 64, 256, 1, 1, 0, 1), (56, 256, 128, 1, 2, 0, 1), (28, 128, 128, 3, 1, 1, 1),
        (28, 128, 128, 3, 2, 1, 1), (28, 512, 256, 1, 2, 0, 1), (28, 192, 96, 1, 1, 0, 1), (28, 16, 32, 5, 1, 2, 1),
        (14, 256, 256, 3, 1, 1, 1), (14, 1024, 256, 1, 1, 0, 1), (13, 64, 256, 1, 1, 0, 1), (13, 512, 1000, 1, 1, 0, 1),
        (13, 256, 384, 3, 1, 1, 1), (7, 512, 512, 3, 1, 1, 1), (7, 512, 2048, 1, 1, 0, 1), (7, 832, 384, 1, 1, 0, 1),
        (33, 256, 256, 3, 1, 2, 2), (28, 128, 128, 3, 1, 4, 4), (35, 48, 64, 5, 1, 2, 1), (17, 192, 192, 7, 1, 3, 1), (8, 448, 384, 3, 1, 1, 1),
    ]
    for n, ci, co, k, s, p, d in shapes:
        typed(f"conv2d_{n}_{ci}_{co}_k{k}s{s}d{d}", lambda a, w, s=s, p=p, d=d: nchw(a, w, s, p, d, None), [(1, ci, n, n), (co, ci, k, k)])
    for n, ci, co, k, s, p in [(56, 64, 64, 3, 1, 1), (14, 256, 256, 1, 1, 0), (7, 512, 512, 3, 1, 1)]:
        typed(f"conv2d_{n}_{ci}_{co}_k{k}", lambda a, w, s=s, p=p: nchw(a, w, s, p, 1, None), [(1, ci, n, n), (co, ci, k, k)], HALVES)
        add(f"conv2d_{n}_{ci}_{co}_k{k}_int8", lambda a, w, s=s, p=p: nchw(a, w, s, p, 1, "int32"),
            ((1, ci, n, n), "int8"), ((co, ci, k, k), "int8"))
    for h, w, kh, kw, ci, co in [(17, 17, 1, 7, 192, 192), (17, 17, 7, 1, 160, 192), (12, 80, 1, 3, 120, 120)]:
        typed(f"conv2d_{h}x{w}_{kh}x{kw}", lambda a, b, p=(kh // 2, kw // 2): nchw(a, b, 1, p, 1, None), [(1, ci, h, w), (co, ci, kh, kw)])
    for n, c, k, s in [(112, 32, 3, 1), (112, 96, 3, 2), (56, 144, 3, 1), (28, 192, 5, 1), (28, 240, 5, 2), (14, 576, 3, 1), (14, 672, 5, 2), (7, 960, 5, 1),
                       (7, 1024, 3, 1)]:
        typed(f"depthwise_{n}_{c}_k{k}s{s}", lambda a, w, s=s, p=k // 2: topi.nn.depthwise_conv2d_nchw(a, w, s, p, 1), [(1, c, n, n), (c, 1, k, k)])
    typed("depthwise_nhwc_56_144", lambda a, w: topi.nn.depthwise_conv2d_nhwc(a, w, 1, 1, 1), [(1, 56, 56, 144), (3, 3, 144, 1)])
    typed("depthwise_nhwc_28_240_s2", lambda a, w: topi.nn.depthwise_conv2d_nhwc(a, w, 2, 2, 1), [(1, 28, 28, 240), (5, 5, 240, 1)])
    for n, ci, co, g, s in [(56, 128, 128, 32, 1), (28, 256, 256, 32, 2), (14, 512, 512, 32, 1), (28, 58, 58, 2, 1)]:
        typed(f"grouped_{n}_{ci}_g{g}s{s}", lambda a, w, g=g, s=s: topi.nn.group_conv2d_nchw(a, w, s, 1, 1, g), [(1, ci, n, n), (co, ci // g, 3, 3)])
    for n, ci, co, k, s in [(56, 64, 64, 3, 1), (14, 256, 256, 3, 1), (28, 256, 512, 1, 2), (224, 3, 64, 7, 2)]:
        typed(f"conv2d_nhwc_{n}_{ci}_{co}_k{k}s{s}", lambda a, w, s=s, p=k // 2: topi.nn.conv2d_nhwc(a, w, s, p, 1), [(1, n, n, ci), (k, k, ci, co)])
    typed("conv2d_NCHWc_28", lambda a, w: topi.nn.conv2d_NCHWc(a, w, 1, 1, 1, "NCHW16c", "NCHW16c"), [(1, 8, 28, 28, 16), (8, 8, 3, 3, 16, 16)])
    for n, ci, co, k, s in [(1024, 80, 512, 3, 1), (3000, 80, 384, 3, 1), (3000, 384, 384, 3, 2), (16000, 1, 64, 80, 4), (256, 512, 512, 1, 1)]:
        typed(f"conv1d_{n}_{ci}_{co}_k{k}s{s}", lambda a, w, s=s, p=k // 2: topi.nn.conv1d_ncw(a, w, s, p, 1), [(1, ci, n), (co, ci, k)])
    typed("conv1d_nwc_1024", lambda a, w: topi.nn.conv1d_nwc(a, w, 1, 1, 1), [(1, 1024, 128), (3, 128, 128)])
    for d, n, ci, co, k, s in [(16, 56, 3, 32, 3, 1), (8, 28, 64, 64, 3, 1), (8, 14, 128, 128, 3, 2), (16, 28, 64, 64, 1, 1)]:
        typed(f"conv3d_{d}_{n}_{ci}_{co}_k{k}s{s}", lambda a, w, s=s, p=k // 2: topi.nn.conv3d_ncdhw(a, w, s, p, 1, 1), [(1, ci, d, n, n), (co, ci, k, k, k)])
    for n, ci, co, k, s in [(4, 512, 256, 4, 2), (16, 256, 128, 4, 2), (64, 64, 3, 4, 2), (28, 128, 64, 2, 2), (14, 256, 256, 3, 1)]:
        typed(f"conv2d_transpose_{n}_{ci}_{co}_k{k}s{s}",
              lambda a, w, k=k, s=s: topi.nn.conv2d_transpose_nchw(a, w, (s, s), ((k - s) // 2,) * 4 if k > s else (0, 0, 0, 0), a.dtype, (0, 0)),
              [(1, ci, n, n), (ci, co, k, k)])
    typed("conv1d_transpose", lambda a, w: topi.nn.conv1d_transpose_ncw(a, w, 4, (2, 2), "float32", (0,)), [(1, 256, 128), (256, 128, 8)])
    typed("conv3d_transpose", lambda a, w: topi.nn.conv3d_transpose_ncdhw(a, w, (2, 2, 2), (1,) * 6, "float32", (0, 0, 0)), [(1, 64, 4, 8, 8), (64, 32, 4, 4, 4)])
    typed("winograd_56_64", lambda a, w: topi.nn.conv2d_winograd_nhwc(a, w, 1, 1, 1, "float32"), [(1, 56, 56, 64), (3, 3, 64, 64)])
    typed("winograd_14_256", lambda a, w: topi.nn.conv2d_winograd_nhwc(a, w, 1, 1, 1, "float32"), [(1, 14, 14, 256), (3, 3, 256, 256)])
    typed("deformable_28", lambda a, o, w: topi.nn.deformable_conv2d_nchw(a, o, w, 1, 1, 1, 1, 1, "float32"), [(1, 64, 28, 28), (1, 18, 28, 28), (64, 64, 3, 3)])


def products():
    dense = topi.nn.dense
    for m, k, n in [(1, 2048, 1000), (1, 4096, 4096), (1, 768, 3072), (128, 768, 768), (128, 768, 3072), (197, 768, 768), (50, 512, 2048), (16, 1024, 1024),
                    (8, 256, 512), (1000, 16, 64), (77, 768, 768)]:
        typed(f"dense_{m}_{k}_{n}", lambda a, w: dense(a, w), [(m, k), (n, k)])
    for m, k, n in [(1, 4096, 4096), (128, 768, 768), (16, 1024, 1024)]:
        typed(f"dense_{m}_{k}_{n}", lambda a, w: dense(a, w, out_dtype="float32"), [(m, k), (n, k)], HALVES)
        add(f"dense_{m}_{k}_{n}_int8", lambda a, w: dense(a, w, out_dtype="int32"), ((m, k), "int8"), ((n, k), "int8"))
    for b, m, k, n in [(12, 128, 64, 128), (8, 197, 64, 197), (12, 1, 64, 128), (4, 16, 1024, 16), (32, 49, 32, 49)]:
        typed(f"batch_matmul_{b}_{m}_{k}_{n}", lambda a, w: topi.nn.batch_matmul(a, w), [(b, m, k), (b, n, k)])
        typed(f"batch_matmul_nn_{b}_{m}_{k}_{n}", lambda a, w: topi.nn.batch_matmul(a, w, transpose_b=False), [(b, m, k), (b, k, n)])
    for m, k, n, ta, tb in [(512, 512, 512, True, False), (384, 1024, 64, False, True), (64, 4096, 64, True, True), (2048, 8, 2048, False, False), (33, 257, 129, False, False)]:
        typed(f"matmul_{m}_{k}_{n}{'_ta' * ta}{'_tb' * tb}", lambda a, b, ta=ta, tb=tb: topi.matmul(a, b, ta, tb),
              [(k, m) if ta else (m, k), (n, k) if tb else (k, n)])
    typed("dense_bias_relu", lambda a, w, b: topi.nn.relu(dense(a, w, b)), [(64, 1024), (1024, 1024), (1024,)])
    typed("tensordot", lambda a, b: topi.tensordot(a, b, 2), [(64, 28, 28), (28, 28, 128)])
    typed("einsum_attention", lambda a, b: topi.einsum("bhqd,bhkd->bhqk", a, b), [(1, 8, 64, 64), (1, 8, 64, 64)])


def pools():
    pool = topi.nn.pool2d
    for n, c, k, s, p in [(112, 64, 3, 2, 1), (56, 128, 2, 2, 0), (28, 192, 3, 1, 1), (13, 512, 3, 1, 1), (35, 192, 3, 2, 0), (13, 256, 13, 1, 6)]:
        typed(f"max_pool_{n}_{c}_k{k}s{s}", lambda a, k=k, s=s, p=p: pool(a, (k, k), (s, s), (1, 1), (p,) * 4, "max"), [(1, c, n, n)])
    for n, c, k, s, p in [(28, 256, 2, 2, 0), (35, 192, 3, 1, 1), (14, 512, 2, 2, 0)]:
        typed(f"avg_pool_{n}_{c}_k{k}s{s}", lambda a, k=k, s=s, p=p: pool(a, (k, k), (s, s), (1, 1), (p,) * 4, "avg", count_include_pad=False), [(1, c, n, n)])
    typed("max_pool_nhwc", lambda a: pool(a, (3, 3), (2, 2), (1, 1), (1,) * 4, "max", layout="NHWC"), [(1, 112, 112, 64)])
    typed("max_pool_56_128", lambda a: pool(a, (2, 2), (2, 2), (1, 1), (0,) * 4, "max"), [(1, 128, 56, 56)], HALVES + ("int8",))
    for n, c in [(7, 2048), (14, 672), (56, 64)]:
        typed(f"global_pool_{n}_{c}", lambda a: topi.nn.global_pool(a, "avg"), [(1, c, n, n)])
    typed("global_max_pool", lambda a: topi.nn.global_pool(a, "max"), [(1, 1280, 7, 7)])
    typed("adaptive_pool_6", lambda a: topi.nn.adaptive_pool(a, (6, 6), "avg"), [(1, 256, 13, 13)])
    typed("pool1d", lambda a: topi.nn.pool1d(a, [3], [2], [1], [1, 1], "max"), [(1, 128, 4096)])
    typed("pool3d", lambda a: topi.nn.pool3d(a, [2, 2, 2], [2, 2, 2], [1, 1, 1], [0] * 6, "avg"), [(1, 64, 16, 28, 28)])


def norms():
    for shape, axis in [((128, 768), -1), ((12, 128, 128), -1), ((1, 1000), -1), ((1, 21, 64, 64), 1), ((64, 1024), 0), ((8, 197, 197), -1), ((1, 3, 8400), 1)]:
        typed(f"softmax_{'x'.join(map(str, shape))}_{axis}", lambda a, axis=axis: topi.nn.softmax(a, axis), [shape])
    typed("softmax_12x128x128", lambda a: topi.nn.softmax(a, -1), [(12, 128, 128)], ("float16",))
    typed("log_softmax_64x1000", lambda a: topi.nn.log_softmax(a), [(64, 1000)])
    typed("log_softmax_32x8192", lambda a: topi.nn.log_softmax(a), [(32, 8192)])
    for m, n in [(128, 768), (197, 768), (16, 4096), (4096, 96)]:
        typed(f"layer_norm_{m}x{n}", lambda a, g, b: topi.nn.layer_norm(a, g, b, [1]), [(m, n), (n,), (n,)])
        typed(f"rms_norm_{m}x{n}", lambda a, g: topi.nn.rms_norm(a, g, [1]), [(m, n), (n,)])
    typed("layer_norm_128x768", lambda a, g, b: topi.nn.layer_norm(a, g, b, [1]), [(128, 768), (768,), (768,)], ("float16",))
    typed("group_norm", lambda a, g, b: topi.nn.group_norm(a, g, b, 32, 1, [2, 3], 1e-5), [(1, 128, 32, 32), (128,), (128,)])
    typed("instance_norm", lambda a, g, b: topi.nn.instance_norm(a, g, b, 1, [2, 3]), [(1, 64, 64, 64), (64,), (64,)])
    typed("batch_norm", lambda a, g, b, m, v: topi.nn.batch_norm(a, g, b, m, v, 1, 1e-5, training=False)[0], [(1, 64, 56, 56), (64,), (64,), (64,), (64,)])
    typed("lrn", lambda a: topi.nn.lrn(a, 5, 1), [(1, 64, 28, 28)])


def reductions():
    shapes = [((1, 64, 112, 112), (2, 3)), ((128, 768), (1,)), ((128, 768), (0,)), ((64, 28, 28), (0, 2)), ((32, 49, 32, 8), (1, 2)), ((512, 512), (0, 1)),
              ((16, 7, 7, 512), (1, 2)), ((1000, 100), (1,)), ((4, 1000, 33), (1,))]
    for shape, axis in shapes:
        name = f"{'x'.join(map(str, shape))}_{''.join(map(str, axis))}"
        typed(f"sum_{name}", lambda a, axis=axis: topi.sum(a, axis), [shape])
        typed(f"max_{name}", lambda a, axis=axis: topi.max(a, axis), [shape])
    typed("mean_16x7x7x512", lambda a: topi.divide(topi.sum(a, (1, 2)), 49.0), [(16, 7, 7, 512)])
    typed("prod_512x128", lambda a: topi.prod(a, 1), [(512, 128)])
    typed("min_64x56x56", lambda a: topi.min(a, (1, 2)), [(64, 56, 56)], FLOATS)
    typed("sum_64x56x56", lambda a: topi.sum(a, (1, 2)), [(64, 56, 56)], HALVES + ("int32",))
    typed("max_64x56x56", lambda a: topi.max(a, (1, 2)), [(64, 56, 56)], ("int8",))
    for shape, axis in [((64, 1000), 1), ((1, 21, 64, 64), 1), ((1000, 64), 0), ((8, 32, 128), 2)]:
        typed(f"argmax_{'x'.join(map(str, shape))}_{axis}", lambda a, axis=axis: topi.argmax(a, axis), [shape])
    typed("argmin_128x512_1", lambda a: topi.argmin(a, 1), [(128, 512)])
    add("all_512x512", lambda a: topi.all(a, 1), ((512, 512), "bool"))
    add("any_512x512", lambda a: topi.any(a, 0), ((512, 512), "bool"))


def elementwise():
    plane = (1, 64, 56, 56)
    for name in ["exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "atan", "floor", "ceil", "round", "trunc", "abs", "sign", "negative", "tan", "log2",
                 "sinh", "acos", "fast_exp", "fast_tanh", "fast_erf", "isnan", "isfinite", "isinf"]:
        typed(f"{name}_200704", lambda a, f=getattr(topi, name): f(a), [plane])
    typed("relu", lambda a: topi.nn.relu(a), [plane], FLOATS + ("int8",))
    typed("leaky_relu", lambda a: topi.nn.leaky_relu(a, 0.1), [plane])
    typed("prelu", lambda a, b: topi.nn.prelu(a, b), [plane, (64,)])
    typed("softplus", lambda a: topi.nn.softplus(a), [plane])
    typed("clip", lambda a: topi.clip(a, 0.0, 6.0), [plane], FLOATS)
    typed("hardswish", lambda a: topi.multiply(a, topi.divide(topi.clip(topi.add(a, 3.0), 0.0, 6.0), 6.0)), [plane])
    typed("gelu", lambda a: topi.multiply(topi.multiply(a, 0.5), topi.add(1.0, topi.erf(topi.multiply(a, 0.70710678)))), [(128, 3072)])
    typed("silu", lambda a: topi.multiply(a, topi.sigmoid(a)), [(128, 3072)], FLOATS)
    for name in ["add", "multiply", "divide", "maximum", "power", "subtract", "minimum", "floor_divide", "mod"]:
        typed(f"{name}_200704", lambda a, b, f=getattr(topi, name): f(a, b), [plane, plane])
    typed("add_channels", lambda a, b: topi.add(a, b), [plane, (64, 1, 1)], FLOATS)
    typed("add_rows", lambda a, b: topi.add(a, b), [(128, 768), (768,)], FLOATS)
    typed("outer_sum", lambda a, b: topi.add(a, b), [(1, 768), (384, 1)])
    for name in ["equal", "greater", "less_equal"]:
        typed(f"{name}_200704", lambda a, b, f=getattr(topi, name): f(a, b), [plane, plane])
    for name in ["logical_and", "logical_or", "logical_xor"]:
        add(f"{name}_200704", lambda a, b, f=getattr(topi, name): f(a, b), (plane, "bool"), (plane, "bool"))
    add("logical_not_200704", topi.logical_not, (plane, "bool"))
    for name in ["bitwise_and", "bitwise_xor", "left_shift", "right_shift", "floor_divide", "floor_mod", "add"]:
        add(f"{name}_int32", lambda a, b, f=getattr(topi, name): f(a, b), ((65536,), "int32"), ((65536,), "int32"))
    for name in ["add", "multiply", "maximum"]:
        add(f"{name}_int64", lambda a, b, f=getattr(topi, name): f(a, b), ((65536,), "int64"), ((65536,), "int64"))
        add(f"{name}_uint8", lambda a, b, f=getattr(topi, name): f(a, b), ((65536,), "uint8"), ((65536,), "uint8"))
    add("bitwise_not_int32", topi.bitwise_not, ((65536,), "int32"))
    add("exp_float64", topi.exp, ((65536,), "float64"))
    add("tanh_float64", topi.tanh, ((65536,), "float64"))
    for source, to in [("float32", "float16"), ("float16", "float32"), ("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "int8"), ("int8", "float32"),
                       ("uint8", "float32"), ("float32", "int32"), ("int32", "float32"), ("int64", "float32"), ("int64", "int32"), ("float32", "int64"), ("bool", "float32"),
                       ("float32", "float64"), ("int32", "int64"), ("uint8", "float16")]:
        add(f"cast_{source}_{to}", lambda a, to=to: topi.cast(a, to), (plane, source))
    add("where", lambda c, a, b: topi.where(c, a, b), (plane, "bool"), (plane, "float32"), (plane, "float32"))
    add("where_mask", lambda c, a: topi.where(c, a, topi.full_like(a, -1e9)), ((1, 1, 128, 128), "bool"), ((1, 12, 128, 128), "float32"))


def movements():
    for shape, axes in [((1, 64, 56, 56), (0, 2, 3, 1)), ((1, 56, 56, 64), (0, 3, 1, 2)), ((1, 128, 12, 64), (0, 2, 1, 3)), ((768, 768), (1, 0)), ((1, 12, 128, 64), (0, 1, 3, 2)),
                        ((2, 58, 28, 28), (1, 0, 2, 3)), ((30, 40, 50), (2, 1, 0)), ((77, 131), (1, 0))]:
        typed(f"transpose_{'x'.join(map(str, shape))}_{''.join(map(str, axes))}", lambda a, axes=axes: topi.transpose(a, axes), [shape], F32 if len(shape) != 2 else FLOATS + ("int8",))
    typed("channel_shuffle", lambda a: topi.reshape(topi.transpose(topi.reshape(a, (1, 2, 58, 784)), (0, 2, 1, 3)), (1, 116, 28, 28)), [(1, 116, 28, 28)])
    typed("reshape", lambda a: topi.reshape(a, (128, 768)), [(1, 128, 12, 64)])
    typed("concat_channels", lambda a, b: topi.concatenate((a, b), 1), [(1, 64, 28, 28), (1, 128, 28, 28)], FLOATS)
    typed("concat_last", lambda a, b: topi.concatenate((a, b), -1), [(784, 96), (784, 48)])
    typed("concat_odd", lambda a, b, c: topi.concatenate((a, b, c), -1), [(784, 13), (784, 7), (784, 3)])
    typed("split_last", lambda a: list(topi.split(a, 3, -1)), [(128, 2304)])
    typed("stack", lambda a, b: topi.stack((a, b), -1), [(64, 1024), (64, 1024)])
    typed("strided_slice_2", lambda a: topi.strided_slice(a, [0, 0, 0], [64, 112, 112], [1, 2, 2]), [(64, 112, 112)])
    typed("slice_columns", lambda a: topi.strided_slice(a, [0, 5], [512, 389]), [(512, 768)])
    typed("slice_back", lambda a: topi.strided_slice(a, [0, 767], [512, -769], [1, -1]), [(512, 768)])
    typed("flip_rows", lambda a: topi.flip(a, 0), [(512, 512)])
    typed("flip_columns", lambda a: topi.flip(a, 1), [(512, 512)], F32 + ("float16", "int8"))
    typed("tile", lambda a: topi.tile(a, (4, 3)), [(128, 100)])
    typed("repeat_rows", lambda a: topi.repeat(a, 4, 0), [(128, 256)])
    typed("repeat_columns", lambda a: topi.repeat(a, 2, 1), [(256, 512)])
    typed("broadcast_to", lambda a: topi.broadcast_to(a, (64, 12, 1024)), [(64, 1, 1024)])
    typed("pad", lambda a: topi.nn.pad(a, (0, 0, 1, 1), (0, 0, 1, 1)), [(1, 64, 56, 56)], FLOATS + ("int8",))
    typed("mirror_pad", lambda a: topi.nn.mirror_pad(a, (0, 0, 3, 3), (0, 0, 3, 3), "REFLECT"), [(1, 32, 64, 64)])
    typed("replicate_pad", lambda a: topi.nn.replicate_pad(a, (0, 0, 2, 2), (0, 0, 2, 2)), [(1, 32, 64, 64)])
    typed("depth_to_space", lambda a: topi.nn.depth_to_space(a, 2), [(1, 64, 64, 64)])
    typed("depth_to_space_3", lambda a: topi.nn.depth_to_space(a, 3, mode="CRD"), [(1, 27, 64, 64)])
    typed("space_to_depth", lambda a: topi.nn.space_to_depth(a, 2), [(1, 12, 256, 256)])
    typed("space_to_batch", lambda a: topi.nn.space_to_batch_nd(a, [2, 2], [0, 0], [0, 0]), [(1, 56, 56, 64)])
    typed("dilate", lambda a: topi.nn.dilate(a, (1, 1, 2, 2)), [(1, 64, 28, 28)])
    typed("layout_nchw16c", lambda a: topi.layout_transform(a, "NCHW", "NCHW16c"), [(1, 64, 56, 56)])
    typed("layout_nchw", lambda a: topi.layout_transform(a, "NCHW16c", "NCHW"), [(1, 4, 56, 56, 16)])
    typed("trilu", lambda a: topi.trilu(a, tvm.tirx.const(0, "int32"), True), [(12, 128, 128)])
    for index in ["int32", "int64"]:
        add(f"take_rows_{index}", lambda a, i: topi.take(a, i, 0, mode="fast"), ((30522, 768), "float32"), ((1, 128), index))
        add(f"take_clipped_{index}", lambda a, i: topi.take(a, i, 0), ((1000, 256), "float32"), ((196,), index))
        add(f"gather_columns_{index}", lambda a, i: topi.gather(a, 1, i), ((128, 1024), "float32"), ((128, 512), index))
        add(f"gather_nd_{index}", lambda a, i: topi.gather_nd(a, i), ((64, 64, 128), "float32"), ((2, 512), index))
    add("one_hot", lambda i: topi.one_hot(i, 1.0, 0.0, 1000, -1, "float32"), ((128,), "int32"))
    add("sequence_mask", lambda a, n: topi.sequence_mask(a, n, 0.0, 1), ((16, 128, 256), "float32"), ((16,), "int32"))
    add("reverse_sequence", lambda a, n: topi.reverse_sequence(a, n, 1, 0), ((16, 128, 256), "float32"), ((16,), "int32"))
    add("matrix_set_diag", lambda a, d: topi.matrix_set_diag(a, d), ((16, 128, 128), "float32"), ((16, 128), "float32"))
    add("meshgrid", lambda a, b: list(topi.meshgrid([a, b], "ij")), ((256,), "float32"), ((512,), "float32"))
    add("arange", lambda: topi.arange(0, 65536, 1, "float32"))
    add("full", lambda: topi.full((512, 512), "float32", 1.0))


def images():
    resize = topi.image.resize2d
    for method in ["nearest_neighbor", "linear", "cubic"]:
        typed(f"resize_{method}", lambda a, m=method: resize(a, [0.0] * 4, (56, 56), "NCHW", m, "asymmetric" if m == "nearest_neighbor" else "half_pixel",
                                                          "floor" if m == "nearest_neighbor" else ""), [(1, 64, 28, 28)])
    typed("resize_nhwc", lambda a: resize(a, [0.0] * 4, (224, 224), "NHWC", "linear", "align_corners", ""), [(1, 112, 112, 8)])
    typed("upsampling", lambda a: topi.nn.upsampling(a, 2, 2, "NCHW", "nearest_neighbor"), [(1, 128, 26, 26)])
    typed("grid_sample", lambda a, g: topi.image.grid_sample(a, g, "bilinear", "NCHW", "zeros", True), [(1, 32, 32, 32), (1, 2, 32, 32)])
    typed("grid_sample_nearest", lambda a, g: topi.image.grid_sample(a, g, "nearest", "NCHW", "border", True), [(1, 32, 32, 32), (1, 2, 32, 32)])
    typed("affine_grid", lambda a: topi.image.affine_grid(a, (64, 64)), [(4, 2, 3)])
    typed("roi_align", lambda a, r: topi.vision.roi_align_nchw(a, r, 7, 0.0625, "avg", 2), [(1, 64, 32, 32), (16, 5)])
    typed("crop_and_resize", lambda a, b, i: topi.image.crop_and_resize(a, b, topi.cast(i, "int32"), (14, 14), "NCHW", "bilinear", 0.0), [(1, 64, 32, 32), (16, 4), (16,)])
    typed("dilation2d", lambda a, w: topi.image.dilation2d_nchw(a, w, 1, 1, 1), [(1, 16, 64, 64), (16, 3, 3)])
    typed("correlation", lambda a, b: topi.nn.correlation_nchw(a, b, 1, 4, 1, 1, 4, True), [(1, 32, 24, 24), (1, 32, 24, 24)])


def program(name):
    make, inputs = SET[name]
    tensors = [te.placeholder(shape, dtype, f"p{i}") for i, (shape, dtype) in enumerate(inputs)]
    with tvm.target.Target("llvm"):
        results = make(*tensors)
    results = list(results) if isinstance(results, (list, tuple)) or type(results).__name__ == "Array" else [results]
    return te.create_prim_func([*tensors, *results]).script()


def run(tvmr, *arguments):
    done = subprocess.run([tvmr, *map(str, arguments)], capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    return (json.loads(done.stdout), None) if done.returncode == 0 else (None, next((l for l in lines if "error" in l), lines[-1] if lines else "no message"))


def options(args, name, directory):
    work_dir = pathlib.Path(directory) / name
    return [pathlib.Path(directory) / f"{name}.tir", "--work-dir", work_dir, "--threads", args.threads, "--format", "json", "--quiet"]


def measured(args, name, directory):
    """The row of an operator, or a message."""
    (pathlib.Path(directory) / f"{name}.tir").write_text(program(name))
    tuned, message = run(args.tvmr, "tune", *options(args, name, directory), "--trials", args.trials)
    if tuned is None:
        return None, message
    row = {"rounds": [], "programs": tuned["distinct_programs"], "trials": tuned["trials"], "written_us": tuned["baseline_us"]}
    message = timed(args, name, directory, row)
    return (None, message) if message else (row, None)


def timed(args, name, directory, row):
    """Times the best program once more; returns a message if that fails."""
    bench, message = run(args.tvmr, "bench", *options(args, name, directory), "--best")
    if bench is None:
        return message
    row["rounds"].append({"us": bench["us"], "share": bench["roofline_fraction"]})
    row["by"] = bench["bound_by"]
    row["us"] = statistics.median(r["us"] for r in row["rounds"])
    shares = [r["share"] for r in row["rounds"] if r["share"]]
    row["share"], row["best_share"] = (statistics.median(shares), max(shares)) if shares else (None, None)
    return None


def main(description, families):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("tvmr", type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("filter", nargs="*")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="times of each tuned program, minutes apart")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_intermixed_args()
    for fill in families:
        fill()
    names = [n for n in SET if not args.filter or any(f in n for f in args.filter)]
    if not names:
        sys.exit("no operator has such a name")
    if args.list:
        print("\n".join(names))
        return 0
    if args.write:
        args.write.mkdir(parents=True, exist_ok=True)
        for name in names:
            (args.write / f"{name}.tir").write_text(program(name))
        return 0
    rows, failures = {}, {}
    print(f"{'operator':42} {'us':>10} {'share':>6} {'bound by':12} {'programs':>8} {'as written':>11}")
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            row, message = measured(args, name, directory)
            if row is None:
                failures[name] = message
                print(f"{name:42} {message}", flush=True)
                continue
            rows[name] = row
            written = "" if row["written_us"] is None else f"{row['written_us']:11.1f}"
            print(f"{name:42} {row['us']:10.2f} {row['share'] or 0:6.2f} {row['by'] or '-':12} {row['programs'] or row['trials']:8} {written:>11}", flush=True)
        for again in range(2, args.rounds + 1):
            for name, row in rows.items():
                if message := timed(args, name, directory, row):
                    failures[name] = message
                    print(f"{name:42} {message}", flush=True)
            print(f"round {again} of {args.rounds} done", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"rows": rows, "failures": failures}, indent=1))
    long = {name: row for name, row in rows.items() if row["us"] > SHORTEST_US and row["share"]}
    if long:
        low = sorted((row["share"], name, row["best_share"]) for name, row in long.items() if row["share"] < 0.5)
        print(f"\n{len(rows)} operators, {len(failures)} failed; {len(long)} of more than {SHORTEST_US} us: median share "
              f"{statistics.median(row['share'] for row in long.values()):.2f}, below 0.5: {len(low)}")
        if args.rounds > 1:
            best = [row["best_share"] for row in long.values()]
            print(f"in the best of {args.rounds} rounds: median share {statistics.median(best):.2f}, below 0.5: {sum(b < 0.5 for b in best)}")
        for share, name, best in low:
            print(f"{share:6.2f} {name}" + f" (best {best:.2f})" * (args.rounds > 1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(__doc__, (convolutions, products, pools, norms, reductions, elementwise, movements, images)))
