#!/usr/bin/env python3
"""Compares quantised ONNX models with ONNX Runtime, side by side: results and times on one thread.

    python3 benches/peers/onnx_quantized.py TVMR [CASE ...] [--seconds 30] [--rounds 15] [--measure 3] [--reference]

A case is an operator by itself, or a network of the `onnx` package with random weights (`onnx_models.py`), which ONNX Runtime's tools
quantise: `NAME:qdq` and `NAME:qoperator` with ranges from a few random images, `NAME:dynamic` without. Without cases, all operators and
SqueezeNet run. Each is tuned for so many seconds and built into a shared library, which Python loads. Then both run in turns, one call
of each after the other; a row has the medians. `vs ORT` is the time of ONNX Runtime divided by ours: above 1 we are faster.

`quanta` is the largest difference of results of bytes, and `error` is max|a - b| / max|b| of floats. With `--reference` there are the
errors of both against the evaluation by `onnx.reference`, which takes long. It needs `onnx`, `onnxruntime` and `numpy` (benches/peers/README.md). The exit code is 1 if
bytes of an operator differ by more than 1.
"""

import argparse
import logging
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnx.reference
import onnx.version_converter
import onnxruntime
import onnxruntime.quantization
from models import OnnxRuntime, Tvmr, seconds
from onnx import TensorProto, helper, numpy_helper
from onnx_models import LIGHT, with_random_weights
from onnx_nodes import identifier

RNG = np.random.default_rng(0)


def model(nodes, inputs, outputs, arrays):
    """A model of these nodes; inputs and outputs have a name, a type and a shape."""
    infos = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    weights = [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()]
    graph = helper.make_graph(nodes, "graph", *infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def scales(zero_type="uint8", zero=110, columns=None):
    """Scales and zero points of data, weights and results."""
    of_weights = np.float32(0.01) if columns is None else RNG.uniform(0.005, 0.02, columns).astype("float32")
    zeros = np.int8(0) if columns is None else np.zeros(columns, "int8")
    number = np.dtype(zero_type).type
    return {"sx": np.float32(0.02), "zx": number(zero), "sw": of_weights, "zw": zeros, "sy": np.float32(0.3), "zy": number(3)}


def product(rows, terms, columns, data="uint8", zero=110, per_column=False):
    """QLinearMatMul."""
    arrays = {"w": RNG.integers(-127, 128, (terms, columns)).astype("int8")}
    arrays |= scales(data, zero, columns if per_column else None)
    node = helper.make_node("QLinearMatMul", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["y"])
    of = helper.np_dtype_to_tensor_dtype(np.dtype(data))
    return model([node], [("x", of, [rows, terms])], [("y", of, [rows, columns])], arrays)


def convolution(channels, size, features, kernel, groups=1, data="uint8", zero=110, per_channel=False):
    """QLinearConv."""
    arrays = {"w": RNG.integers(-127, 128, (features, channels // groups, kernel, kernel)).astype("int8")}
    arrays |= scales(data, zero, features if per_channel else None)
    arrays["b"] = RNG.integers(-1000, 1000, features).astype("int32")
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[kernel // 2] * 4, group=groups, kernel_shape=[kernel] * 2)
    of = helper.np_dtype_to_tensor_dtype(np.dtype(data))
    shapes = [1, channels, size, size], [1, features, size, size]
    return model([node], [("x", of, shapes[0])], [("y", of, shapes[1])], arrays)


def dynamic_product(rows, terms, columns):
    """DynamicQuantizeLinear and MatMulInteger, as `quantize_dynamic` writes a product."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "zw"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "sw"], ["t"]),
        helper.make_node("Mul", ["f", "t"], ["y"]),
    ]
    arrays = {"w": RNG.integers(-127, 128, (terms, columns)).astype("int8"), "sw": np.float32(0.01), "zw": np.int8(0)}
    x, y = ("x", TensorProto.FLOAT, [rows, terms]), ("y", TensorProto.FLOAT, [rows, columns])
    return model(nodes, [x], [y], arrays)


OPERATORS = {
    "matmul_768": lambda: product(128, 768, 768),
    "matmul_512": lambda: product(512, 512, 512),
    "matmul_512_int8": lambda: product(512, 512, 512, "int8", -5, per_column=True),
    "conv_3x3": lambda: convolution(64, 56, 64, 3),
    "conv_3x3_int8": lambda: convolution(64, 56, 64, 3, data="int8", zero=-5, per_channel=True),
    "conv_1x1": lambda: convolution(256, 14, 256, 1),
    "depthwise_3x3": lambda: convolution(128, 56, 128, 3, groups=128),
    "dynamic_matmul": lambda: dynamic_product(128, 768, 3072),
}


class Images(onnxruntime.quantization.CalibrationDataReader):
    """Random images for the ranges of `quantize_static`."""

    def __init__(self, graph):
        rng = np.random.default_rng(2)
        shapes = {i.name: [d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in graph.input}
        draw = lambda: {k: rng.standard_normal(s).astype("float32") for k, s in shapes.items()}  # noqa: E731
        self.images = iter([draw() for _ in range(4)])

    def get_next(self):
        return next(self.images, None)


def quantised(name, kind, directory):
    """The path of a network of the `onnx` package, quantised by ONNX Runtime's tools."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization.preprocess import quant_pre_process

    plain, prepared = pathlib.Path(directory) / f"{name}.onnx", pathlib.Path(directory) / f"{name}_prepared.onnx"
    content = with_random_weights(onnx.load(LIGHT / f"light_{name}.onnx"))
    # The tools know operators from set 13 on, and initializers that are no inputs.
    content.ir_version = 9
    content = onnx.version_converter.convert_version(content, 13)
    onnx.save(content, plain)
    quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
    path = pathlib.Path(directory) / f"{name}_{kind}.onnx"
    if kind == "dynamic":
        q.quantize_dynamic(prepared, path)
    else:
        form = {"qdq": q.QuantFormat.QDQ, "qoperator": q.QuantFormat.QOperator}[kind]
        types = {"activation_type": q.QuantType.QUInt8, "weight_type": q.QuantType.QInt8, "per_channel": kind == "qdq"}
        q.quantize_static(prepared, path, Images(content.graph), quant_format=form, **types)
    return path


def inputs_of(content):
    """Random inputs."""
    rng = np.random.default_rng(1)
    arrays = {}
    weights = {t.name for t in content.graph.initializer}
    for value in content.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        shape, dtype = [d.dim_value or 1 for d in tensor.shape.dim], helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.integer):
            bounds = np.iinfo(dtype)
            arrays[value.name] = rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)
        else:
            arrays[value.name] = rng.standard_normal(shape).astype(dtype)
    return arrays


def difference(found, expected):
    """The largest difference of bytes, and that of floats as a part of the largest number."""
    quanta, error = 0, 0.0
    for a, b in zip(found, expected, strict=True):
        if a.dtype.itemsize == 1:
            quanta = max(quanta, int(np.abs(a.astype("int32") - b.astype("int32")).max()))
        else:
            a, b = a.astype("float64"), b.astype("float64")
            error = max(error, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return quanta, error


def compare(args, name, path, directory):
    """Prints the row of a case; returns the ratio of times, and whether the bytes of an operator agree."""
    content = onnx.load(path)
    arrays = inputs_of(content)
    given = [f"--shape={identifier(k)}={','.join(map(str, a.shape))}" for k, a in arrays.items()]
    common = [path, *given, "--threads", "1", "--work-dir", args.work_dir or directory]
    tuned = subprocess.run([args.tvmr, "tune", *common, "--max-seconds", str(args.seconds), "--format", "json"],
                           capture_output=True, text=True)
    if tuned.returncode != 0:
        print(f"{name:24} tune: {(tuned.stderr.strip().splitlines() or tuned.stdout.splitlines())[-1][:200]}", flush=True)
    module = pathlib.Path(directory) / f"built_{identifier(path.stem)}.py"
    built = subprocess.run([args.tvmr, "build", *common, "-o", module.with_suffix(""), "--emit", "python"],
                           capture_output=True, text=True)
    if built.returncode != 0:
        print(f"{name:24} {built.stderr.strip().splitlines()[-1]}", flush=True)
        return None, False
    theirs = OnnxRuntime(path, arrays, 1)
    expected = theirs()
    ours = Tvmr(module, arrays, 1, expected)
    found = ours()
    quanta, error = difference(found, expected)
    agree = f"{quanta:6} {error:8.1e}"
    if args.reference:
        exact = onnx.reference.ReferenceEvaluator(content).run(None, arrays)
        agree += f" {difference(found, exact)[1]:8.1e} {difference(expected, exact)[1]:8.1e}"
    times = ([], [])
    deadline = time.perf_counter() + args.measure
    while len(times[0]) < args.rounds or time.perf_counter() < deadline and len(times[0]) < 2000:
        for call, list_ in zip((ours, theirs), times):
            list_.append(seconds(call))
    us, ort = (statistics.median(t) for t in times)
    print(f"{name:24} {us * 1e3:9.3f} {ort * 1e3:9.3f} {ort / us:7.2f} {agree}", flush=True)
    return ort / us, quanta <= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tvmr")
    parser.add_argument("case", nargs="*")
    parser.add_argument("--seconds", type=float, default=30, help="of tuning, for each case")
    parser.add_argument("--rounds", type=int, default=15, help="at least so many calls of each")
    parser.add_argument("--measure", type=float, default=3, help="seconds of calls for each case")
    parser.add_argument("--reference", action="store_true", help="compares both with the package's reference as well")
    parser.add_argument("--work-dir", help="keeps the database")
    args = parser.parse_intermixed_args()
    logging.disable(logging.WARNING)
    args.tvmr = str(pathlib.Path(args.tvmr).resolve())
    cases = args.case or [*OPERATORS, "squeezenet:qdq", "squeezenet:qoperator", "squeezenet:dynamic"]
    print(f"{'case':24} {'tvmr ms':>9} {'ORT ms':>9} {'vs ORT':>7} {'quanta':>6} {'error':>8}"
          + (f" {'ours':>8} {'ORT':>8}" if args.reference else ""))
    ratios, fine = [], True
    for name in cases:
        with tempfile.TemporaryDirectory() as directory:
            network, _, kind = name.partition(":")
            if kind:
                path = quantised(network, kind, directory)
            else:
                path = pathlib.Path(directory) / f"{name}.onnx"
                onnx.save(OPERATORS[name](), path)
            ratio, agrees = compare(args, name, path, directory)
            ratios.append(ratio)
            fine &= agrees
    known = [r for r in ratios if r]
    if known:
        mean = math.exp(statistics.mean(map(math.log, known)))
        print(f"geometric mean of {len(known)} of {len(ratios)} cases: {mean:.2f}; worst {min(known):.2f}")
    return 0 if fine and len(known) == len(ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
