#!/usr/bin/env python3
"""Compares whole models, given as graphs of operators, with NumPy and ONNX Runtime.

usage: text_models.py TVMR [MODEL…] [--rounds N] [--trials N] [--venv DIR]

Models: an MLP 784-128-10 with random weights, and the two classifiers of digits in workloads/models; one image, one thread. Each is tuned
into a new database, then built as a shared library. A round times, in alternating order, `tvmr bench --best`, a call of the library through
ctypes, ONNX Runtime with bound inputs and outputs, and NumPy. Prints medians over the rounds, and those of the ratios to the call of the
library; results of all are compared first.

The script makes a virtual environment for itself at the first run (DIR, default ~/.cache/tvmr-peers) and runs in it.
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import harness

MODELS = harness.ROOT / "workloads" / "models"
MLP_784 = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 784), "float32"), w0: R.Tensor((128, 784), "float32"), b0: R.Tensor((128,), "float32"),
             w1: R.Tensor((10, 128), "float32"), b1: R.Tensor((10,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            hidden = R.nn.relu(R.add(R.matmul(x, R.permute_dims(w0)), b0))
            logits = R.add(R.matmul(hidden, R.permute_dims(w1)), b1)
            R.output(logits)
        return logits
"""


def safetensors(path):
    """The float32 arrays of a file."""
    import numpy as np

    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    assert all(v["dtype"] == "F32" for v in header.values())
    part = lambda v: np.frombuffer(data[end + v["data_offsets"][0]:end + v["data_offsets"][1]], np.float32).reshape(v["shape"])
    return {name: part(v).copy() for name, v in header.items()}


def mlp_784(directory):
    """The text, the weights and the input."""
    import numpy as np

    rng = np.random.default_rng(0)
    shapes = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
    weights = {name: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32) for name, shape in shapes.items()}
    text, file = directory / "mlp_784.tir", directory / "mlp_784.npz"
    text.write_text(MLP_784)
    np.savez(file, **weights)
    return text, ["--weights", file], weights, rng.standard_normal((1, 784)).astype(np.float32)


def digits(name, input_name):
    """The text, the weights and the first test image."""
    import numpy as np

    path = MODELS / f"digits_{name}.tir"
    return path, ["--bind", "n=1"], safetensors(path.with_suffix(".safetensors")), np.load(MODELS / "digits_test.npz")[input_name][:1].copy()


def mlp_nodes(h):
    """The nodes of the MLPs in ONNX."""
    return [h.make_node("Gemm", ["in", "w0", "b0"], ["sums"], transB=1), h.make_node("Relu", ["sums"], ["hidden"]),
            h.make_node("Gemm", ["hidden", "w1", "b1"], ["logits"], transB=1)]


def cnn_nodes(h):
    """The nodes of the CNN in ONNX."""
    nodes, value = [], "in"
    for i in range(2):
        nodes += [h.make_node("Conv", [value, f"conv{i}_weight", f"conv{i}_bias"], [f"conv{i}"], pads=[1, 1, 1, 1]),
                  h.make_node("Relu", [f"conv{i}"], [f"relu{i}"]),
                  h.make_node("MaxPool", [f"relu{i}"], [f"pool{i}"], kernel_shape=[2, 2], strides=[2, 2])]
        value = f"pool{i}"
    return nodes + [h.make_node("Flatten", [value], ["flat"]),
                    h.make_node("Gemm", ["flat", "dense_weight", "dense_bias"], ["logits"], transB=1)]


def onnx_runtime(nodes, weights, given, with_digit):
    """A session for the nodes, with bound arrays, and the array of logits."""
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper as h
    from onnx import numpy_helper

    nodes = nodes(h)
    logits = np.zeros((1, 10), np.float32)
    outputs = [h.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [1, 10])]
    if with_digit:
        nodes.append(h.make_node("ArgMax", ["logits"], ["digit"], axis=1, keepdims=0))
        outputs.append(h.make_tensor_value_info("digit", onnx.TensorProto.INT64, [1]))
    graph = h.make_graph(nodes, "model", [h.make_tensor_value_info("in", onnx.TensorProto.FLOAT, given.shape)], outputs,
                         [numpy_helper.from_array(w, name) for name, w in weights.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    value = lambda array: onnxruntime.OrtValue.ortvalue_from_numpy(array)
    kept = [value(given), value(logits)]
    binding.bind_ortvalue_input("in", kept[0])
    binding.bind_ortvalue_output("logits", kept[1])
    if with_digit:
        kept.append(value(np.zeros(1, np.int64)))
        binding.bind_ortvalue_output("digit", kept[2])
    run = lambda: session.run_with_iobinding(binding)
    run()
    return run, kept[1].numpy()


def numpy_mlp(weights, given, with_digit):
    """A call of the MLP in NumPy, and its logits."""
    import numpy as np

    w0, b0, w1, b1 = (weights[k] for k in ("w0", "b0", "w1", "b1"))

    def run():
        logits = np.maximum(given @ w0.T + b0, 0) @ w1.T + b1
        if with_digit:
            logits.argmax(axis=1)
        return logits

    return run, run()


def library(tvmr, text, options, base, given, with_digit):
    """A call of the built library through ctypes, and its logits."""
    import numpy as np

    harness.tvmr(tvmr, "build", text, *options, "-o", base, "--emit", "shared", "--quiet")
    main = getattr(ctypes.CDLL(str(base.parent / f"lib{base.name}.so")), f"{base.name}_main")
    logits, digit = np.zeros((1, 10), np.float32), np.zeros(1, np.int64)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in [given, logits, digit][:3 if with_digit else 2]]
    run = lambda kept=(given, logits, digit): main(*pointers)
    assert run() == 0
    return run, logits


def compare(tvmr, name, rounds, trials, directory):
    """Prints the line of a model."""
    import numpy as np

    text, options, weights, given = {"mlp_784": lambda: mlp_784(directory), "digits_mlp": lambda: digits("mlp", "x"),
                                     "digits_cnn": lambda: digits("cnn", "images")}[name]()
    with_digit = name.startswith("digits")
    nodes = cnn_nodes if name.endswith("cnn") else mlp_nodes
    work_dir = directory / f"{name}_db"
    database = ["--work-dir", work_dir]
    harness.tvmr(tvmr, "tune", text, *options, *database, "--threads", "1", "--quiet", *(["--trials", trials] if trials else []))
    sides = {}
    call, ours = library(tvmr, text, [*options, *database], directory / name, given, with_digit)
    sides["library"] = call
    sides["ONNX Runtime"], theirs = onnx_runtime(nodes, weights, given, with_digit)
    results = {"ONNX Runtime": theirs}
    if nodes is mlp_nodes:
        sides["NumPy"], results["NumPy"] = numpy_mlp(weights, given, with_digit)
    for peer, logits in results.items():
        difference = np.abs(ours - logits).max() / np.abs(logits).max()
        assert difference < 1e-5, f"{name}: {peer} differs by {difference:.2g}"
    n = {side: harness.calls(run) for side, run in sides.items()}
    turns = [lambda side=side: harness.python_us(sides[side], n[side]) for side in sides]
    bench = lambda: json.loads(harness.tvmr(tvmr, "bench", text, *options, *database, "--best", "--threads", "1", "--format", "json",
                                            "--quiet"))
    before = json.loads(harness.tvmr(tvmr, "bench", text, *options, *database, "--threads", "1", "--format", "json", "--quiet"))
    *taken, benches = harness.in_turns([*turns, bench], rounds)
    line = f"{name:12} as written {before['us']:.2f} us, bench --best {statistics.median(b['us'] for b in benches):.2f} us"
    for side, times in zip(sides, taken):
        line += f"; {side} {statistics.median(times):.2f} us"
        if side != "library":
            line += f" ({statistics.median(t / o for t, o in zip(times, taken[0])):.1f} times)"
    print(line, flush=True)


def main():
    names = ["mlp_784", "digits_mlp", "digits_cnn"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tvmr", type=pathlib.Path)
    parser.add_argument("models", nargs="*", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--venv", type=pathlib.Path, default=harness.CACHE)
    args = parser.parse_intermixed_args()
    harness.environment(args.venv)
    unknown = set(args.models) - set(names)
    if unknown:
        sys.exit(f"unknown models: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    with tempfile.TemporaryDirectory() as directory:
        for name in args.models or names:
            compare(args.tvmr.resolve(), name, args.rounds, args.trials, pathlib.Path(directory))


if __name__ == "__main__":
    main()
