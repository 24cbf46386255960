#!/usr/bin/env python3
"""Compares operators of `com.microsoft` with ONNX Runtime: the results of models of one node.

    python3 benches/peers/onnx_fused.py TVMR [FILTER ...]

It needs `onnx`, `onnxruntime` and `numpy` (benches/peers/README.md). Inputs are seeded random numbers. The exit code is 1 if a result is
refused or differs by more than 2e-4 of the largest element.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

TOLERANCE = 2e-4
BATCH, ROWS, WIDTH, HEADS = 2, 5, 8, 2


def cases():
    """Names of cases, operators, arguments, the positions of those that are constants, and attributes."""
    rng = np.random.default_rng(0)
    floats = lambda *shape: rng.standard_normal(shape).astype("float32")  # noqa: E731
    uint8 = lambda *shape: rng.integers(0, 256, shape).astype("uint8")  # noqa: E731
    int8 = lambda *shape: rng.integers(-128, 128, shape).astype("int8")  # noqa: E731
    scale = lambda v: np.array(v, "float32")  # noqa: E731
    zero = lambda v: np.array(v, "uint8")  # noqa: E731
    x, keys = floats(BATCH, ROWS, WIDTH), lambda: floats(BATCH, ROWS, WIDTH)
    packed = [x, floats(WIDTH, 3 * WIDTH), floats(3 * WIDTH)]
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], "int32")
    past = lambda *front: floats(*front, BATCH, HEADS, 3, WIDTH // HEADS)  # noqa: E731
    heads = {"num_heads": HEADS}
    yield "attention", "Attention", packed, (), heads
    yield "attention_mask", "Attention", [*packed, mask], (), heads
    yield "attention_lengths", "Attention", [*packed, np.array([3, 5], "int32")], (), heads
    yield "attention_causal", "Attention", packed, (), heads | {"unidirectional": 1}
    yield "attention_past", "Attention", [*packed, None, past(2)], (), heads | {"unidirectional": 1, "results": 2}
    yield "attention_bias", "Attention", [*packed, None, None, floats(BATCH, HEADS, ROWS, ROWS)], (), heads
    yield "heads", "MultiHeadAttention", [x, keys(), keys()], (), heads
    yield "heads_bias", "MultiHeadAttention", [x, keys(), keys(), floats(3 * WIDTH)], (), heads
    yield "heads_mask", "MultiHeadAttention", [x, keys(), keys(), None, mask], (), heads
    yield "heads_causal", "MultiHeadAttention", [x, keys(), keys()], (), heads | {"unidirectional": 1}
    args = [x, keys(), keys(), None, None, None, past(), past()]
    yield "heads_past", "MultiHeadAttention", args, (), heads | {"results": 3}
    args = [uint8(BATCH, ROWS, WIDTH), int8(WIDTH, 3 * WIDTH), floats(3 * WIDTH), scale(0.02), scale(0.01)]
    zeros = [zero(120), np.array(0, "int8")]
    yield "attention_quantised", "QAttention", [*args, None, *zeros], tuple(range(1, 5)) + (6, 7), heads
    yield "attention_quantised_mask", "QAttention", [*args, mask, *zeros], tuple(range(1, 5)) + (6, 7), heads
    yield "attention_quantised_past", "QAttention", [*args, None, *zeros, past(2)], (), heads | {"unidirectional": 1, "results": 2}
    # 4 heads share 2 of keys and values.
    size, tokens = 16, lambda n: np.array([n - 1] * BATCH, "int32")  # noqa: E731
    angles = [floats(16, size // 2), floats(16, size // 2)]
    kv = lambda rows: floats(BATCH, 2, rows, size)  # noqa: E731
    group = {"num_heads": 4, "kv_num_heads": 2, "results": 3}
    first = [floats(BATCH, ROWS, 4 * size), floats(BATCH, ROWS, 2 * size), floats(BATCH, ROWS, 2 * size)]
    count = lambda n: [tokens(n), np.array(n, "int32")]  # noqa: E731
    known = (5, 6)
    yield "group", "GroupQueryAttention", [*first, None, None, *count(ROWS)], known, group
    yield "group_packed", "GroupQueryAttention", [floats(BATCH, ROWS, 8 * size), *[None] * 4, *count(ROWS)], known, group
    rotary = group | {"do_rotary": 1}
    yield "group_rotary", "GroupQueryAttention", [*first, None, None, *count(ROWS), *angles], known, rotary
    past_kv = [kv(7), kv(7)]
    new = [floats(BATCH, 1, 4 * size), floats(BATCH, 1, 2 * size), floats(BATCH, 1, 2 * size)]
    yield "group_decode", "GroupQueryAttention", [*new, *past_kv, *count(8), *angles], known, rotary
    yield "group_interleaved", "GroupQueryAttention", [*new, *past_kv, *count(8), *angles], known, rotary | {"rotary_interleaved": 1}
    yield "group_window", "GroupQueryAttention", [*new, *past_kv, *count(8)], known, group | {"local_window_size": 3}
    yield "group_window_rows", "GroupQueryAttention", [*first, None, None, *count(ROWS)], known, group | {"local_window_size": 2}
    yield "group_cap", "GroupQueryAttention", [*new, *past_kv, *count(8)], known, group | {"softcap": 2.0, "scale": 0.7}
    yield "group_chunk", "GroupQueryAttention", [*[a[:1] for a in [*first, kv(7), kv(7), tokens(12)]], np.array(12, "int32")], known, group
    yield "group_buffer", "GroupQueryAttention", [*new, kv(12), kv(12), *count(8), *angles], known, rotary
    by_heads, at = floats(BATCH, 4, ROWS, size), np.arange(BATCH * ROWS).reshape(BATCH, ROWS) % 16
    yield "rotary", "RotaryEmbedding", [by_heads, at, *angles], (), {}
    yield "rotary_flat", "RotaryEmbedding", [first[0], at, *angles], (), {}
    yield "rotary_offset", "RotaryEmbedding", [first[0], np.array([3]), *angles], (), {"interleaved": 1}
    half = [a[:, : size // 4].copy() for a in angles]
    yield "rotary_part", "RotaryEmbedding", [first[0], at, *half], (), {"num_heads": 4, "rotary_embedding_dim": size // 2}
    norm = [x, keys(), floats(WIDTH)]
    yield "skip", "SkipLayerNormalization", [*norm, floats(WIDTH), floats(WIDTH)], (), {"epsilon": 1e-5}
    yield "skip_plain", "SkipLayerNormalization", norm, (), {"epsilon": 1e-5}
    yield "skip_simplified", "SkipSimplifiedLayerNormalization", norm, (), {"epsilon": 1e-5}
    ids = rng.integers(0, 7, (BATCH, ROWS)).astype("int32")
    words, places, rows = floats(7, WIDTH), floats(9, WIDTH), [floats(WIDTH), floats(WIDTH)]
    embed = [ids, ids % 2, words, places, floats(2, WIDTH), *rows]
    yield "embed", "EmbedLayerNormalization", embed, (), {"epsilon": 1e-5, "results": 2}
    embed = [ids, None, words, places, None, *rows]
    yield "embed_no_segments", "EmbedLayerNormalization", embed, (), {"epsilon": 1e-5, "results": 2}
    yield "gelu", "Gelu", [x], (), {}
    yield "gelu_bias", "BiasGelu", [x, floats(WIDTH)], (), {}
    yield "gelu_fast", "FastGelu", [x, floats(WIDTH)], (), {}
    yield "gelu_quick", "QuickGelu", [x], (), {}
    factors = [floats(2, 4, 3), floats(2, 5, 4)]
    yield "product", "FusedMatMul", factors, (), {"transA": 1, "transB": 1, "alpha": 0.5}
    gemm = [floats(4, 3), floats(4, 5), floats(5)]
    for name, numbers in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {})):
        attributes = {"transA": 1, "alpha": 0.5, "beta": 2.0, "activation": name} | numbers
        yield f"gemm_{name}", "FusedGemm", gemm, (), attributes
    image = [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4)]
    for name, numbers in (("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4])):
        attributes = {"activation": name, "pads": [1, 1, 1, 1]} | ({"activation_params": numbers} if numbers else {})
        yield f"conv_{name}", "FusedConv", image, (), attributes
    yield "conv_sum", "FusedConv", [*image, floats(1, 4, 6, 6)], (), {"activation": "Relu", "pads": [1, 1, 1, 1]}
    two = [uint8(3, 4), scale(0.1), zero(128), uint8(3, 4), scale(0.2), zero(100), scale(0.9), zero(120)]
    yield "quantised_sum", "QLinearAdd", two, (), {}
    yield "quantised_product", "QLinearMul", two, (), {}
    one = [uint8(3, 40), scale(0.05), zero(128), scale(1 / 256), zero(0)]
    yield "quantised_sigmoid", "QLinearSigmoid", one, (1, 2, 3, 4), {}
    yield "quantised_leaky", "QLinearLeakyRelu", one, (1, 2, 3, 4), {"alpha": 0.1}
    yield "quantised_softmax", "QLinearSoftmax", [uint8(3, 40), scale(0.05), zero(128), scale(1 / 256), zero(0)], (1, 2, 3, 4), {"opset": 13}
    factors = [uint8(3, 40), int8(40, 6), scale(0.02), floats(6) ** 2 + 0.01, zero(100)]
    yield "integers_to_floats", "MatMulIntegerToFloat", [*factors, np.zeros(6, "int8"), floats(6)], (), {}
    yield "integers_to_floats_plain", "MatMulIntegerToFloat", [*factors[:3], scale(0.1)], (), {}
    dynamic = [floats(2, 3, 40), int8(40, 6), floats(6) ** 2 + 0.01]
    yield "dynamic_product", "DynamicQuantizeMatMul", [*dynamic, None, floats(6)], (1, 2), {}
    yield "dynamic_product_zeros", "DynamicQuantizeMatMul", [*dynamic, np.arange(6).astype("int8")], (1, 2, 3), {}
    pool = [uint8(2, 3, 5, 5), scale(0.05), zero(128), scale(0.02), zero(10)]
    yield "quantised_pool", "QLinearGlobalAveragePool", pool, (), {"channels_last": 0}
    yield "quantised_average", "QLinearAveragePool", pool, (), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]}
    gemm = [uint8(3, 40), scale(0.05), zero(128), int8(6, 40), floats(6) ** 2 + 0.01, np.zeros(6, "int8")]
    gemm += [rng.integers(-900, 900, 6).astype("int32"), scale(0.9), zero(120)]
    yield "quantised_gemm", "QGemm", gemm, tuple(range(1, 9)), {"transB": 1}
    yield "quantised_gemm_float", "QGemm", gemm[:7], tuple(range(1, 7)), {"transB": 1, "alpha": 0.5}
    parts = [scale(0.05), zero(128), uint8(2, 3), scale(0.02), zero(10), uint8(2, 5), scale(0.1), zero(0)]
    yield "quantised_concat", "QLinearConcat", parts, (0, 1, 3, 4, 6, 7), {"axis": 1}
    yield "quantise", "QuantizeLinear", [x, scale(0.02), zero(10)], (), {}
    yield "dequantise", "DequantizeLinear", [int8(3, 4), scale(0.02), np.array(-3, "int8")], (), {}
    blocks = {"K": 40, "N": 6, "block_size": 16}
    a, scales = floats(2, 40), floats(18)
    yield "bits_4", "MatMulNBits", [a, uint8(6, 3, 8), scales], (1, 2), blocks | {"bits": 4}
    yield "bits_4_zeros", "MatMulNBits", [a, uint8(6, 3, 8), scales, uint8(12)], (1, 2, 3), blocks | {"bits": 4}
    yield "bits_8", "MatMulNBits", [a, uint8(6, 3, 16), scales], (1, 2), blocks | {"bits": 8}


def model(op, args, constants, attributes):
    """A model of one node."""
    names = ["" if a is None else f"i{k}" for k, a in enumerate(args)]
    outputs = [f"o{k}" for k in range(attributes.pop("results", 1))]
    node = helper.make_node(op, names, outputs, domain="com.microsoft", **attributes)
    info = lambda k: helper.make_tensor_value_info(names[k], helper.np_dtype_to_tensor_dtype(args[k].dtype), args[k].shape)  # noqa: E731
    inputs = [k for k, a in enumerate(args) if a is not None and k not in constants]
    weights = [numpy_helper.from_array(args[k], names[k]) for k in constants]
    results = [onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph([node], "graph", [info(k) for k in inputs], results, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), {names[k]: args[k] for k in inputs}


def compare(tvmr, directory, name, op, args, constants, attributes):
    path = pathlib.Path(directory) / f"{name}.onnx"
    content, inputs = model(op, args, constants, dict(attributes))
    onnx.save(content, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    given, found = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    np.savez(given, **inputs)
    done = subprocess.run([tvmr, "run", path, "--inputs", given, "--output", found], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{name:20} {done.stderr.strip()}")
        return False
    error = 0.0
    for a, b in zip(np.load(found).values(), expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            print(f"{name:20} {a.dtype} {a.shape}, expected {b.dtype} {b.shape}")
            return False
        a, b = a.astype("float64"), b.astype("float64")
        if not np.isfinite(a).all() or not np.isfinite(b).all():
            print(f"{name:20} results are not finite")
            return False
        error = max(error, np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
    print(f"{name:20} {error:.1e}", flush=True)
    return error <= TOLERANCE


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("tvmr")
    args.add_argument("filter", nargs="*", help="parts of names of cases")
    args = args.parse_args()
    tvmr = str(pathlib.Path(args.tvmr).resolve())
    wanted = [c for c in cases() if not args.filter or any(f in c[0] for f in args.filter)]
    if not wanted:
        sys.exit("there is no such case")
    with tempfile.TemporaryDirectory() as directory:
        return 0 if all([compare(tvmr, directory, *c) for c in wanted]) else 1


if __name__ == "__main__":
    sys.exit(main())
