#!/usr/bin/env python3
"""Compares the convolutional networks of the `onnx` package with ONNX Runtime: the results.

    python3 benches/peers/onnx_models.py TVMR [MODEL ...]

It needs `onnx`, `onnxruntime` and `numpy` (benches/peers/README.md). The weights of these files are of one value each, so that a
wrong layout would not show: they are replaced by seeded random ones, which keep the variance from layer to layer (He et al., 2015).
The error is max|a - b| / max|b| over the outputs; the exit code is 1 if it is above 1e-4.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from onnx_nodes import identifier

LIGHT = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
TOLERANCE = 1e-4


def with_random_weights(model):
    """The model with He-scaled weights, and means and variances that a trained network could have."""
    rng = np.random.default_rng(0)
    graph = model.graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    shapes = {k: a.shape for k, a in arrays.items() if a.dtype == np.float32 and a.size > 1}
    nodes = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in arrays:
            shapes[node.output[0]] = tuple(int(n) for n in arrays[node.input[0]])
        else:
            nodes.append(node)
    variances = {n.input[4] for n in nodes if n.op_type == "BatchNormalization"}
    scales = {n.input[1] for n in nodes if n.op_type == "BatchNormalization"}
    for name, shape in shapes.items():
        if name in variances or name in scales:
            a = rng.uniform(0.5, 1.5, shape)
        elif len(shape) > 1:
            a = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        else:
            a = rng.uniform(-0.1, 0.1, shape)
        arrays[name] = a.astype("float32")
    # Softmax of random logits is nearly 0 or 1, which hides errors.
    if nodes[-1].op_type == "Softmax":
        logits = onnx.helper.make_tensor_value_info(nodes.pop().input[0], onnx.TensorProto.FLOAT, None)
        del graph.output[:]
        graph.output.append(logits)
    read = {name for node in nodes for name in node.input}
    inputs = [i for i in graph.input if i.name not in arrays]
    for field, content in (
        (graph.node, nodes),
        (graph.initializer, [numpy_helper.from_array(a, name) for name, a in arrays.items() if name in read]),
        (graph.input, inputs),
    ):
        del field[:]
        field.extend(content)
    return model


def compare(tvmr, directory, name):
    path = pathlib.Path(directory) / f"{name}.onnx"
    model = with_random_weights(onnx.load(LIGHT / f"light_{name}.onnx"))
    onnx.save(model, path)
    rng = np.random.default_rng(1)
    shape = lambda i: [d.dim_value for d in i.type.tensor_type.shape.dim]  # noqa: E731
    inputs = {i.name: rng.standard_normal(shape(i)).astype("float32") for i in model.graph.input}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    given, found = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    np.savez(given, **{identifier(k): a for k, a in inputs.items()})
    command = [tvmr, "run", path, "--inputs", given, "--output", found, "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{name:14} {done.stderr.strip()}")
        return False
    results = list(np.load(found).values())
    error = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(results, expected, strict=True))
    print(f"{name:14} {error:.1e}", flush=True)
    path.unlink()
    return error <= TOLERANCE


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("tvmr")
    args.add_argument("model", nargs="*")
    args = args.parse_args()
    tvmr = str(pathlib.Path(args.tvmr).resolve())
    known = sorted(p.stem.removeprefix("light_") for p in LIGHT.glob("light_*.onnx"))
    with tempfile.TemporaryDirectory() as directory:
        return 0 if all([compare(tvmr, directory, n) for n in args.model or known]) else 1


if __name__ == "__main__":
    sys.exit(main())
