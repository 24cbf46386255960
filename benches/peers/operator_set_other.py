#!/usr/bin/env python3
"""As operator_set.py, with other operators, shapes and types: for what nobody had in view while the first set was improved.

    python3 benches/peers/operator_set_other.py TVMR [options of operator_set.py] [FILTER ...]

The shapes are of detection, segmentation, speech and language models, with odd extents, halves, bytes and 64-bit integers where these
appear. It needs what operator_set.py needs.
"""

import sys

import operator_set
import tvm
from operator_set import F32, FLOATS, HALVES, add, topi, typed


def convolutions():
    nchw = topi.nn.conv2d_nchw
    for n, ci, co, k, s, p, d in [(192, 3, 48, 3, 2, 1, 1), (160, 32, 16, 1, 1, 0, 1), (80, 24, 144, 1, 1, 0, 1), (40, 40, 240, 1, 1, 0, 1), (20, 112, 672, 1, 1, 0, 1),
              (10, 320, 1280, 1, 1, 0, 1), (52, 128, 256, 3, 2, 1, 1), (26, 256, 512, 3, 1, 1, 1), (20, 512, 255, 1, 1, 0, 1), (64, 96, 96, 3, 1, 1, 1), (48, 64, 64, 5, 2, 2, 1),
              (9, 512, 512, 3, 1, 0, 1), (24, 176, 176, 3, 1, 6, 6), (224, 3, 96, 11, 4, 2, 1), (32, 3, 768, 16, 16, 0, 1), (56, 96, 192, 2, 2, 0, 1), (19, 384, 64, 1, 1, 0, 1)]:
        typed(f"conv2d_{n}_{ci}_{co}_k{k}s{s}d{d}", lambda a, w, s=s, p=p, d=d: nchw(a, w, s, p, d, None), [(1, ci, n, n), (co, ci, k, k)])
    typed("conv2d_b4_28_64_64", lambda a, w: nchw(a, w, 1, 1, 1, None), [(4, 64, 28, 28), (64, 64, 3, 3)])
    typed("conv2d_bias_relu", lambda a, w, b: topi.nn.relu(topi.add(nchw(a, w, 1, 1, 1, None), b)), [(1, 96, 40, 40), (96, 96, 3, 3), (96, 1, 1)])
    typed("conv2d_add_relu", lambda a, w, r: topi.nn.relu(topi.add(nchw(a, w, 1, 0, 1, None), r)), [(1, 64, 40, 40), (256, 64, 1, 1), (1, 256, 40, 40)])
    typed("conv2d_rect", lambda a, w: nchw(a, w, (2, 1), (1, 1), 1, None), [(1, 64, 32, 100), (128, 64, 3, 3)])
    for n, ci, co, k in [(28, 96, 96, 3), (20, 128, 256, 1)]:
        typed(f"conv2d_{n}_{ci}_{co}_k{k}", lambda a, w, p=k // 2: nchw(a, w, 1, p, 1, None), [(1, ci, n, n), (co, ci, k, k)], HALVES)
        add(f"conv2d_{n}_{ci}_{co}_k{k}_int8", lambda a, w, p=k // 2: nchw(a, w, 1, p, 1, "int32"), ((1, ci, n, n), "int8"), ((co, ci, k, k), "int8"))
        add(f"conv2d_{n}_{ci}_{co}_k{k}_u8", lambda a, w, p=k // 2: nchw(a, w, 1, p, 1, "int32"), ((1, ci, n, n), "uint8"), ((co, ci, k, k), "int8"))
    for n, c, k, s in [(80, 96, 3, 1), (80, 144, 5, 2), (56, 96, 7, 1), (40, 240, 3, 2), (20, 480, 3, 1), (20, 672, 5, 1), (10, 960, 3, 1), (14, 384, 7, 1), (24, 288, 5, 2)]:
        typed(f"depthwise_{n}_{c}_k{k}s{s}", lambda a, w, s=s, p=k // 2: topi.nn.depthwise_conv2d_nchw(a, w, s, p, 1), [(1, c, n, n), (c, 1, k, k)])
    typed("depthwise_40_128_k3", lambda a, w: topi.nn.depthwise_conv2d_nchw(a, w, 1, 1, 1), [(1, 128, 40, 40), (128, 1, 3, 3)], HALVES)
    typed("depthwise_dilated", lambda a, w: topi.nn.depthwise_conv2d_nchw(a, w, 1, 4, 4), [(1, 128, 33, 33), (128, 1, 3, 3)])
    typed("depthwise_nhwc_20_672", lambda a, w: topi.nn.depthwise_conv2d_nhwc(a, w, 1, 2, 1), [(1, 20, 20, 672), (5, 5, 672, 1)])
    typed("depthwise_nhwc_80_96_s2", lambda a, w: topi.nn.depthwise_conv2d_nhwc(a, w, 2, 1, 1), [(1, 80, 80, 96), (3, 3, 96, 1)])
    typed("depthwise_1d", lambda a, w: topi.nn.group_conv1d_ncw(a, w, 1, 15, 1, 256), [(1, 256, 400), (256, 1, 31)])
    for n, c, g, s in [(28, 192, 8, 1), (14, 384, 48, 1), (56, 64, 4, 2)]:
        typed(f"grouped_{n}_{c}_g{g}s{s}", lambda a, w, g=g, s=s: topi.nn.group_conv2d_nchw(a, w, s, 1, 1, g), [(1, c, n, n), (c, c // g, 3, 3)])
    for n, ci, co, k, s in [(40, 48, 96, 3, 1), (20, 192, 64, 1, 1), (10, 256, 256, 3, 1), (96, 3, 32, 3, 2)]:
        typed(f"conv2d_nhwc_{n}_{ci}_{co}_k{k}s{s}", lambda a, w, s=s, p=k // 2: topi.nn.conv2d_nhwc(a, w, s, p, 1), [(1, n, n, ci), (k, k, ci, co)])
    for n, ci, co, k, s, d in [(400, 256, 256, 5, 1, 1), (2000, 64, 64, 7, 1, 3), (500, 192, 384, 1, 1, 1), (8000, 32, 64, 8, 4, 1)]:
        typed(f"conv1d_{n}_{ci}_{co}_k{k}s{s}d{d}", lambda a, w, s=s, p=k // 2 * d, d=d: topi.nn.conv1d_ncw(a, w, s, p, d), [(1, ci, n), (co, ci, k)])
    typed("conv3d_8_32_32", lambda a, w: topi.nn.conv3d_ncdhw(a, w, 1, 1, 1, 1), [(1, 32, 8, 32, 32), (32, 32, 3, 3, 3)])
    typed("conv3d_1x3x3", lambda a, w: topi.nn.conv3d_ncdhw(a, w, 1, (0, 1, 1), 1, 1), [(1, 64, 8, 28, 28), (96, 64, 1, 3, 3)])
    for n, ci, co, k, s in [(8, 256, 128, 4, 2), (32, 96, 48, 2, 2), (20, 128, 64, 3, 2), (128, 32, 3, 9, 1)]:
        typed(f"conv2d_transpose_{n}_{ci}_{co}_k{k}s{s}", lambda a, w, k=k, s=s: topi.nn.conv2d_transpose_nchw(a, w, (s, s), ((k - s) // 2,) * 4 if k > s else (0,) * 4, a.dtype, (0, 0)), [(1, ci, n, n), (ci, co, k, k)])
    typed("conv1d_transpose_k16s8", lambda a, w: topi.nn.conv1d_transpose_ncw(a, w, 8, (4, 4), "float32", (0,)), [(1, 128, 64), (128, 64, 16)])


def products():
    dense = topi.nn.dense
    for m, k, n in [(1, 512, 1000), (1, 5120, 1280), (4, 1024, 4096), (49, 384, 1536), (196, 192, 768), (256, 320, 320), (1500, 384, 384), (10, 10, 10), (3, 2000, 77), (64, 64, 10)]:
        typed(f"dense_{m}_{k}_{n}", lambda a, w: dense(a, w), [(m, k), (n, k)])
    for m, k, n in [(1, 2048, 2048), (49, 384, 384), (256, 1024, 256)]:
        typed(f"dense_{m}_{k}_{n}", lambda a, w: dense(a, w, out_dtype="float32"), [(m, k), (n, k)], HALVES)
        typed(f"dense_same_{m}_{k}_{n}", lambda a, w: dense(a, w), [(m, k), (n, k)], HALVES)
        add(f"dense_{m}_{k}_{n}_int8", lambda a, w: dense(a, w, out_dtype="int32"), ((m, k), "int8"), ((n, k), "int8"))
    for b, m, k, n in [(6, 197, 64, 197), (3, 64, 32, 64), (16, 1, 128, 512), (8, 77, 40, 77), (64, 49, 32, 49)]:
        typed(f"batch_matmul_{b}_{m}_{k}_{n}", lambda a, w: topi.nn.batch_matmul(a, w), [(b, m, k), (b, n, k)])
        typed(f"batch_matmul_nn_{b}_{m}_{k}_{n}", lambda a, w: topi.nn.batch_matmul(a, w, transpose_b=False), [(b, m, k), (b, k, n)])
    typed("batch_matmul_8_128_64_128", lambda a, w: topi.nn.batch_matmul(a, w), [(8, 128, 64), (8, 128, 64)], ("float16",))
    for m, k, n, ta, tb in [(300, 200, 100, True, False), (1024, 32, 1024, False, True), (5, 4096, 5, False, False), (129, 65, 511, True, True)]:
        typed(f"matmul_{m}_{k}_{n}{'_ta' * ta}{'_tb' * tb}", lambda a, b, ta=ta, tb=tb: topi.matmul(a, b, ta, tb), [(k, m) if ta else (m, k), (n, k) if tb else (k, n)])
    typed("dense_gelu", lambda a, w, b: (lambda x: topi.multiply(topi.multiply(x, 0.5), topi.add(1.0, topi.erf(topi.multiply(x, 0.70710678)))))(topi.add(dense(a, w), b)), [(49, 256), (1024, 256), (1024,)])
    typed("dense_residual", lambda a, w, b, r: topi.add(topi.add(dense(a, w), b), r), [(77, 512), (512, 512), (512,), (77, 512)])
    typed("einsum_bhqk_bhkd", lambda a, b: topi.einsum("bhqk,bhkd->bhqd", a, b), [(1, 6, 100, 100), (1, 6, 100, 64)])
    typed("einsum_bqhd", lambda a, b: topi.einsum("bqhd,bkhd->bhqk", a, b), [(1, 64, 8, 64), (1, 64, 8, 64)])
    typed("matvec", lambda a, b: topi.matmul(a, b), [(1, 3000), (3000, 500)])
    typed("gram", lambda a: topi.matmul(a, a, False, True), [(256, 128)])


def pools():
    pool = topi.nn.pool2d
    for n, c, k, s, p in [(80, 64, 3, 2, 1), (20, 256, 5, 1, 2), (40, 128, 2, 2, 0), (54, 64, 3, 2, 0), (17, 768, 3, 2, 0)]:
        typed(f"max_pool_{n}_{c}_k{k}s{s}", lambda a, k=k, s=s, p=p: pool(a, (k, k), (s, s), (1, 1), (p,) * 4, "max"), [(1, c, n, n)])
    for n, c, k, s, p in [(32, 128, 2, 2, 0), (17, 768, 3, 1, 1), (8, 1280, 8, 8, 0), (28, 480, 5, 3, 0)]:
        typed(f"avg_pool_{n}_{c}_k{k}s{s}", lambda a, k=k, s=s, p=p: pool(a, (k, k), (s, s), (1, 1), (p,) * 4, "avg", count_include_pad=True), [(1, c, n, n)])
    typed("avg_pool_nhwc", lambda a: pool(a, (2, 2), (2, 2), (1, 1), (0,) * 4, "avg", layout="NHWC"), [(1, 56, 56, 128)])
    typed("max_pool_40_64", lambda a: pool(a, (3, 3), (2, 2), (1, 1), (1,) * 4, "max"), [(1, 64, 40, 40)], HALVES + ("int8", "uint8"))
    for n, c in [(10, 1280), (20, 480), (112, 16)]:
        typed(f"global_pool_{n}_{c}", lambda a: topi.nn.global_pool(a, "avg"), [(1, c, n, n)])
    typed("global_pool_nhwc", lambda a: topi.nn.global_pool(a, "avg", layout="NHWC"), [(1, 14, 14, 512)])
    for m, n, c in [(7, 10, 512), (1, 20, 256), (3, 60, 128), (2, 7, 512), (5, 24, 96)]:
        typed(f"adaptive_pool_{m}_{n}", lambda a, m=m: topi.nn.adaptive_pool(a, (m, m), "avg"), [(1, c, n, n)])
    typed("adaptive_max_pool", lambda a: topi.nn.adaptive_pool(a, (7, 7), "max"), [(1, 256, 14, 14)])
    typed("pool1d_avg", lambda a: topi.nn.pool1d(a, [4], [4], [1], [0, 0], "avg"), [(1, 64, 8000)])
    typed("pool3d_max", lambda a: topi.nn.pool3d(a, [1, 3, 3], [1, 2, 2], [1, 1, 1], [0, 1, 1, 0, 1, 1], "max"), [(1, 32, 8, 56, 56)])


def norms():
    for shape, axis in [((49, 384), -1), ((6, 197, 197), -1), ((1, 19, 128, 128), 1), ((256, 256), 0), ((8, 77, 77), -1), ((1, 2, 8400), 1), ((4, 8, 1, 512), -1), ((100, 10), -1), ((1, 32000), -1), ((64, 49, 49), -1)]:
        typed(f"softmax_{'x'.join(map(str, shape))}_{axis}", lambda a, axis=axis: topi.nn.softmax(a, axis), [shape])
    typed("softmax_8x77x77", lambda a: topi.nn.softmax(a, -1), [(8, 77, 77)], HALVES)
    typed("softmax_64x512", lambda a: topi.nn.softmax(a, -1), [(64, 512)], HALVES)
    typed("fast_softmax", lambda a: topi.nn.fast_softmax(a, -1), [(128, 512)])
    typed("log_softmax_49x32000", lambda a: topi.nn.log_softmax(a), [(49, 32000)])
    for m, n in [(49, 384), (1500, 384), (3136, 96), (1, 4096), (77, 512)]:
        typed(f"layer_norm_{m}x{n}", lambda a, g, b: topi.nn.layer_norm(a, g, b, [1]), [(m, n), (n,), (n,)])
        typed(f"rms_norm_{m}x{n}", lambda a, g: topi.nn.rms_norm(a, g, [1]), [(m, n), (n,)])
    typed("rms_norm_77x512", lambda a, g: topi.nn.rms_norm(a, g, [1]), [(77, 512), (512,)], HALVES)
    typed("layer_norm_2", lambda a, g, b: topi.nn.layer_norm(a, g, b, [1, 2]), [(16, 32, 64), (32, 64), (32, 64)])
    typed("group_norm_8", lambda a, g, b: topi.nn.group_norm(a, g, b, 8, 1, [2, 3], 1e-5), [(1, 320, 16, 16), (320,), (320,)])
    typed("instance_norm_7", lambda a, g, b: topi.nn.instance_norm(a, g, b, 1, [2, 3]), [(1, 128, 28, 28), (128,), (128,)])
    typed("batch_norm_train", lambda a, g, b, m, v: topi.nn.batch_norm(a, g, b, m, v, 1, 1e-5, training=True)[0], [(8, 64, 14, 14), (64,), (64,), (64,), (64,)])
    typed("scale_shift", lambda a, g, b: topi.nn.scale_shift_nchw(a, g, b), [(1, 96, 40, 40), (96,), (96,)])


def reductions():
    for shape, axis in [((1, 96, 40, 40), (2, 3)), ((49, 384), (1,)), ((1000, 37), (0,)), ((32, 20, 20), (0, 1)), ((8, 77, 77), (0,)), ((77, 77), (0, 1)), ((1, 40, 40, 96), (1, 2)), ((64, 3000), (1,)), ((100, 7, 13), (1, 2)), ((2, 500, 40), (1,))]:
        name = f"{'x'.join(map(str, shape))}_{''.join(map(str, axis))}"
        typed(f"sum_{name}", lambda a, axis=axis: topi.sum(a, axis), [shape])
        typed(f"min_{name}", lambda a, axis=axis: topi.min(a, axis), [shape])
    typed("sum_keep", lambda a: topi.sum(a, -1, keepdims=True), [(8, 77, 77)], HALVES)
    typed("sum_last_half", lambda a: topi.sum(a, -1), [(512, 384)], HALVES)
    typed("max_last", lambda a: topi.max(a, -1), [(512, 384)], HALVES + ("int8", "uint8", "int32"))
    typed("sum_axis0", lambda a: topi.sum(a, 0), [(512, 384)], HALVES + ("int32", "int64"))
    typed("sum_sq", lambda a: topi.sum(topi.multiply(a, a), 1), [(200, 600)])
    typed("l2_norm", lambda a: topi.divide(a, topi.sqrt(topi.sum(topi.multiply(a, a), 1, keepdims=True))), [(200, 600)])
    typed("variance", lambda a: topi.divide(topi.sum(topi.power(topi.subtract(a, topi.divide(topi.sum(a, 1, keepdims=True), 600.0)), 2.0), 1), 600.0), [(200, 600)])
    for shape, axis in [((8, 32000), 1), ((1, 19, 128, 128), 1), ((300, 91), 1), ((77, 77, 8), 0)]:
        typed(f"argmax_{'x'.join(map(str, shape))}_{axis}", lambda a, axis=axis: topi.argmax(a, axis), [shape])
        typed(f"argmin_{'x'.join(map(str, shape))}_{axis}", lambda a, axis=axis: topi.argmin(a, axis), [shape])
    add("argmax_int32", lambda a: topi.argmax(a, 1), ((64, 1000), "int32"))
    typed("logsumexp", lambda a: topi.log(topi.sum(topi.exp(a), 1)), [(100, 1000)])
    typed("mse", lambda a, b: topi.sum(topi.power(topi.subtract(a, b), 2.0)), [(100, 1000), (100, 1000)])
    typed("cosine", lambda a, b: topi.sum(topi.multiply(a, b), 1), [(200, 600), (200, 600)])
    typed("cumsum", lambda a: topi.cumsum(a, 1), [(128, 500)])


def elementwise():
    v = (1, 50, 37, 41)
    for name in ["exp", "tanh", "sigmoid", "erf", "sin", "cos", "log", "rsqrt", "sqrt", "asin", "atan", "cosh", "asinh", "acosh", "atanh", "log10"]:
        typed(f"{name}_odd", lambda a, f=getattr(topi, name): f(a), [v], FLOATS if name in ("exp", "tanh", "sigmoid", "erf") else F32)
    typed("relu_odd", lambda a: topi.nn.relu(a), [v], FLOATS + ("int8", "int32"))
    typed("elu", lambda a: topi.where(topi.greater(a, 0.0), a, topi.subtract(topi.exp(a), 1.0)), [v])
    typed("mish", lambda a: topi.multiply(a, topi.tanh(topi.log(topi.add(topi.exp(a), 1.0)))), [v])
    typed("hardsigmoid", lambda a: topi.divide(topi.clip(topi.add(a, 3.0), 0.0, 6.0), 6.0), [v], FLOATS)
    typed("selu", lambda a: topi.multiply(1.0507, topi.where(topi.greater(a, 0.0), a, topi.multiply(1.67326, topi.subtract(topi.exp(a), 1.0)))), [v])
    typed("gelu_tanh", lambda a: topi.multiply(topi.multiply(a, 0.5), topi.add(1.0, topi.tanh(topi.multiply(0.7978846, topi.add(a, topi.multiply(0.044715, topi.multiply(a, topi.multiply(a, a)))))))), [(49, 1536)], FLOATS)
    typed("geglu", lambda a: topi.multiply(topi.strided_slice(a, [0, 0], [77, 1024], [1, 1]), topi.sigmoid(topi.strided_slice(a, [0, 1024], [77, 2048], [1, 1]))), [(77, 2048)])
    for name in ["add", "multiply", "divide", "maximum"]:
        typed(f"{name}_halves", lambda a, b, f=getattr(topi, name): f(a, b), [v, v], HALVES)
    typed("add_scalar_tensor", lambda a, b: topi.add(a, b), [v, (1,)], FLOATS)
    typed("add_4d", lambda a, b: topi.add(a, b), [(2, 8, 77, 77), (2, 1, 1, 77)])
    typed("mul_last1", lambda a, b: topi.multiply(a, b), [(512, 384), (512, 1)], FLOATS)
    typed("se_scale", lambda a, b: topi.multiply(a, topi.sigmoid(b)), [(1, 240, 28, 28), (1, 240, 1, 1)])
    typed("bias_nhwc", lambda a, b: topi.nn.relu(topi.add(a, b)), [(1, 40, 40, 96), (96,)])
    for name in ["add", "subtract", "multiply", "maximum", "floor_divide", "floor_mod", "right_shift", "bitwise_or"]:
        for t in ["int16", "int64", "uint8", "int8"]:
            add(f"{name}_{t}", lambda a, b, f=getattr(topi, name): f(a, b), ((50000,), t), ((50000,), t))
    for source, to in [("float16", "bfloat16"), ("int8", "int32"), ("int32", "int8"), ("uint8", "int32"), ("int16", "float32"), ("float32", "uint8"), ("float64", "float32"), ("int64", "int8"), ("float16", "int8"), ("int32", "bool")]:
        add(f"cast_{source}_{to}", lambda a, to=to: topi.cast(a, to), (v, source))
    typed("quantize", lambda a: topi.cast(topi.clip(topi.round(topi.add(topi.multiply(a, 20.0), 3.0)), -128.0, 127.0), "int8"), [v])
    add("dequantize", lambda a: topi.multiply(topi.subtract(topi.cast(a, "float32"), 3.0), 0.05), (v, "int8"))
    add("requantize", lambda a: topi.cast(topi.clip(topi.right_shift(topi.add(a, 32), 6), -128, 127), "int8"), (v, "int32"))
    add("add_q", lambda a, b: topi.cast(topi.clip(topi.round(topi.add(topi.multiply(topi.cast(a, "float32"), 0.3), topi.multiply(topi.cast(b, "float32"), 0.2))), -128.0, 127.0), "int8"), (v, "int8"), (v, "int8"))
    add("where_odd", lambda c, a, b: topi.where(c, a, b), ((50, 1, 41), "bool"), ((50, 37, 41), "float32"), ((50, 37, 41), "float32"))
    add("greater_halves", lambda a, b: topi.greater(a, b), (v, "float16"), (v, "float16"))
    add("not_equal_int64", lambda a, b: topi.not_equal(a, b), (v, "int64"), (v, "int64"))
    for name in ["exp", "sigmoid", "log", "sqrt"]:
        add(f"{name}_float64", getattr(topi, name), ((40000,), "float64"))
    typed("dropout_mask", lambda a, b: topi.multiply(a, topi.cast(topi.greater(b, 0.1), "float32")), [v, v])


def movements():
    for shape, axes in [((1, 96, 40, 40), (0, 2, 3, 1)), ((1, 40, 40, 96), (0, 3, 1, 2)), ((1, 49, 6, 64), (0, 2, 1, 3)), ((1, 6, 64, 49), (0, 1, 3, 2)), ((8, 7, 8, 7, 96), (0, 2, 1, 3, 4)), ((13, 17, 19, 23), (3, 1, 0, 2)), ((500, 3), (1, 0)), ((3, 224, 224), (1, 2, 0)), ((224, 224, 3), (2, 0, 1))]:
        typed(f"transpose_{'x'.join(map(str, shape))}_{''.join(map(str, axes))}", lambda a, axes=axes: topi.transpose(a, axes), [shape], FLOATS + ("int8",) if len(shape) == 4 else F32)
    typed("nhwc_u8_to_nchw_f32", lambda a: topi.multiply(topi.cast(topi.transpose(a, (0, 3, 1, 2)), "float32"), 0.0039), [(1, 128, 128, 3)], ("uint8",))
    typed("window_partition", lambda a: topi.reshape(topi.transpose(topi.reshape(a, (8, 7, 8, 7, 96)), (0, 2, 1, 3, 4)), (64, 49, 96)), [(56, 56, 96)])
    typed("roll", lambda a: topi.concatenate((topi.strided_slice(a, [3, 0], [56, 5376]), topi.strided_slice(a, [0, 0], [3, 5376])), 0), [(56, 5376)])
    typed("patchify", lambda a: topi.reshape(topi.transpose(topi.reshape(a, (3, 14, 16, 14, 16)), (1, 3, 0, 2, 4)), (196, 768)), [(3, 224, 224)])
    typed("qkv_split", lambda a: [topi.transpose(x, (0, 2, 1, 3)) for x in [topi.reshape(y, (1, 77, 8, 64)) for y in topi.split(a, 3, -1)]], [(1, 77, 1536)])
    typed("concat4", lambda a, b, c, d: topi.concatenate((a, b, c, d), 1), [(1, 32, 20, 20), (1, 64, 20, 20), (1, 96, 20, 20), (1, 24, 20, 20)], FLOATS + ("int8",))
    typed("concat_small_last", lambda a, b: topi.concatenate((a, b), -1), [(3000, 4), (3000, 2)])
    typed("split_channels", lambda a: list(topi.split(a, 2, 1)), [(1, 96, 40, 40)], FLOATS)
    typed("rope", lambda a, c, s: topi.add(topi.multiply(a, c), topi.multiply(topi.concatenate((topi.negative(topi.strided_slice(a, [0, 0, 32], [8, 77, 64])), topi.strided_slice(a, [0, 0, 0], [8, 77, 32])), -1), s)), [(8, 77, 64), (77, 64), (77, 64)])
    typed("slice_middle", lambda a: topi.strided_slice(a, [0, 0, 4, 4], [1, 96, 36, 36]), [(1, 96, 40, 40)], FLOATS + ("int8",))
    typed("slice_step3", lambda a: topi.strided_slice(a, [0, 0], [500, 600], [1, 3]), [(500, 600)])
    typed("pad_last", lambda a: topi.nn.pad(a, (0, 3), (0, 4)), [(500, 121)], FLOATS)
    typed("pad_asym", lambda a: topi.nn.pad(a, (0, 0, 0, 0), (0, 0, 1, 1)), [(1, 96, 40, 40)], FLOATS + ("int8",))
    typed("mirror_pad_1", lambda a: topi.nn.mirror_pad(a, (0, 0, 1, 1), (0, 0, 1, 1), "REFLECT"), [(1, 64, 40, 40)])
    typed("depth_to_space_2", lambda a: topi.nn.depth_to_space(a, 2), [(1, 48, 40, 40)], FLOATS)
    typed("space_to_depth_2", lambda a: topi.nn.space_to_depth(a, 2), [(1, 24, 40, 40)])
    typed("repeat_2d", lambda a: topi.repeat(topi.repeat(a, 2, 2), 2, 3), [(1, 32, 20, 20)])
    typed("tile_rows", lambda a: topi.tile(a, (1, 5)), [(200, 77)])
    typed("flip_mid", lambda a: topi.flip(a, 2), [(1, 50, 37, 41)])
    typed("flip_last_odd", lambda a: topi.flip(a, 3), [(1, 50, 37, 41)], FLOATS)
    typed("layout_nhwc_nchw8c", lambda a: topi.layout_transform(a, "NCHW", "NCHW8c"), [(1, 96, 40, 40)])
    typed("broadcast_last", lambda a: topi.broadcast_to(a, (300, 500)), [(300, 1)], FLOATS)
    typed("trilu_lower", lambda a: topi.trilu(a, tvm.tirx.const(0, "int32"), False), [(8, 77, 77)])
    typed("expand_squeeze", lambda a: topi.squeeze(topi.expand_dims(a, 0), 0), [(200, 300)])
    for index in ["int32", "int64"]:
        add(f"embedding_{index}", lambda a, i: topi.take(a, i, 0, mode="clip"), ((5000, 96), "float32"), ((300,), index))
        add(f"embedding_half_{index}", lambda a, i: topi.take(a, i, 0, mode="clip"), ((5000, 384), "float16"), ((77,), index))
        add(f"take_last_{index}", lambda a, i: topi.take(a, i, 1, mode="clip"), ((300, 91), "float32"), ((40,), index))
        add(f"gather_0_{index}", lambda a, i: topi.gather(a, 0, i), ((500, 64), "float32"), ((300, 64), index))
        add(f"gather_nd_3_{index}", lambda a, i: topi.gather_nd(a, i), ((20, 30, 40), "float32"), ((3, 5000), index))
    add("relative_bias", lambda t, i: topi.transpose(topi.take(t, i, 0, mode="clip"), (2, 0, 1)), ((169, 6), "float32"), ((49, 49), "int32"))
    add("one_hot_91", lambda i: topi.one_hot(i, 1.0, 0.0, 91, -1, "float32"), ((500,), "int32"))
    add("sequence_mask_0", lambda a, n: topi.sequence_mask(a, n, 0.0, 0), ((100, 16, 64), "float32"), ((16,), "int32"))
    add("positions", lambda: topi.arange(0, 20000, 1, "int64"))


def images():
    resize = topi.image.resize2d
    for n, m, method, co, ro in [(20, 40, "nearest_neighbor", "asymmetric", "floor"), (20, 40, "linear", "align_corners", ""), (64, 48, "linear", "half_pixel", ""), (40, 100, "cubic", "half_pixel", ""), (33, 65, "nearest_neighbor", "align_corners", "round")]:
        typed(f"resize_{n}_{m}_{method}", lambda a, m=m, method=method, co=co, ro=ro: resize(a, [0.0] * 4, (m, m), "NCHW", method, co, ro), [(1, 48, n, n)], FLOATS if n == 20 else F32)
    typed("resize_u8_nhwc", lambda a: resize(a, [0.0] * 4, (96, 96), "NHWC", "linear", "half_pixel", "", out_dtype="float32"), [(1, 160, 160, 3)], ("uint8",))
    typed("resize_nhwc_nearest", lambda a: resize(a, [0.0] * 4, (64, 64), "NHWC", "nearest_neighbor", "asymmetric", "floor"), [(1, 32, 32, 48)])
    typed("resize1d", lambda a: topi.image.resize1d(a, [0.0] * 2, (1000,), "NCW", "linear", "half_pixel", ""), [(1, 64, 500)])
    typed("resize3d", lambda a: topi.image.resize3d(a, [0.0] * 6, (16, 32, 32), "NCDHW", "linear", "half_pixel", ""), [(1, 16, 8, 16, 16)])
    typed("grid_sample_reflect", lambda a, g: topi.image.grid_sample(a, g, "bilinear", "NCHW", "reflection", False), [(1, 24, 40, 40), (1, 2, 30, 30)])
    typed("grid_sample_bicubic", lambda a, g: topi.image.grid_sample(a, g, "bicubic", "NCHW", "zeros", True), [(1, 16, 40, 40), (1, 2, 30, 30)])
    typed("roi_align_14", lambda a, r: topi.vision.roi_align_nchw(a, r, 14, 0.0625, "avg", 2), [(1, 48, 40, 40), (8, 5)])
    typed("roi_align_max", lambda a, r: topi.vision.roi_align_nchw(a, r, 7, 0.0625, "max", 2), [(1, 48, 40, 40), (8, 5)])
    typed("crop_and_resize_nn", lambda a, b, i: topi.image.crop_and_resize(a, b, topi.cast(i, "int32"), (10, 10), "NCHW", "nearest_neighbor", 0.0), [(1, 48, 40, 40), (10, 4), (10,)])
    typed("local_response", lambda a: topi.nn.lrn(a, 5, 1, 1e-4, 0.75, 2), [(1, 96, 27, 27)])
    typed("erosion", lambda a, w: topi.image.dilation2d_nchw(a, w, 1, 2, 1), [(1, 8, 80, 80), (8, 5, 5)])


if __name__ == "__main__":
    sys.exit(operator_set.main(__doc__, (convolutions, products, pools, norms, reductions, elementwise, movements, images)))
