#!/usr/bin/env python3
"""Compares the results of networks with an evaluation in float64: those of tvmr, and those of ONNX Runtime.

    python3 benches/peers/onnx_models.py TVMR [--shape NAME=1,3,640,640] [MODEL ...]

A model is a path, or the name of one of the convolutional networks of the `onnx` package, which are all compared if none is given. The
weights of those files are of one value each, so that a wrong layout would not show: they are replaced by seeded random ones, which keep
the variance from layer to layer (He et al., 2015). The package's reference evaluator runs the model in float64. The error is
max|a - b| / max|b| over the outputs; the exit code is 1 if tvmr's is above 1e-4 and above four times that of ONNX Runtime. It needs
`onnx`, `onnxruntime` and `numpy` (benches/peers/README.md).
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from onnx_nodes import identifier

LIGHT = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
TOLERANCE = 1e-4
# How much larger than that of ONNX Runtime an error above the tolerance may be.
MARGIN = 4


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


class BatchNormalization(OpRun):
    """Normalisation by given statistics; the package's evaluator takes those of the batch in models of old opsets."""

    op_domain = ""

    def _run(self, x, scale, bias, mean, variance, epsilon=1e-5, **_):
        scale, bias, mean, variance = (a.reshape(-1, *[1] * (x.ndim - 2)) for a in (scale, bias, mean, variance))
        return (scale * (x - mean) / np.sqrt(variance + epsilon) + bias,)


class LRN(OpRun):
    """Normalisation over neighbouring channels; the package's evaluator leaves out most channels."""

    op_domain = ""

    def _run(self, x, alpha=1e-4, beta=0.75, bias=1.0, size=None):
        before, after = (size - 1) // 2, size // 2
        squares = np.pad(x**2, ((0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)))
        sums = sum(squares[:, i : i + x.shape[1]] for i in range(size))
        return (x / (bias + alpha / size * sums) ** beta,)


def doubled(tensor):
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name)


def in_float64(model):
    """The model with float64 for all that is float32."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    arrays = [doubled(t) for t in graph.initializer]
    del graph.initializer[:]
    graph.initializer.extend(arrays)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.CopyFrom(doubled(attribute.t))
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return copy


def error(results, expected):
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(results, expected, strict=True))


def compare(tvmr, directory, name, shapes):
    known = LIGHT / f"light_{name}.onnx"
    model = with_random_weights(onnx.load(known)) if known.exists() else onnx.load(name)
    path = pathlib.Path(directory) / "model.onnx"
    onnx.save(model, path)
    rng = np.random.default_rng(1)
    weights = {t.name for t in model.graph.initializer}
    given = [i for i in model.graph.input if i.name not in weights]
    shape = lambda i: shapes.get(i.name) or [d.dim_value for d in i.type.tensor_type.shape.dim]  # noqa: E731
    inputs = {i.name: rng.standard_normal(shape(i)).astype("float32") for i in given}
    evaluator = ReferenceEvaluator(in_float64(model), new_ops=[BatchNormalization, LRN])
    expected = evaluator.run(None, {k: a.astype("float64") for k, a in inputs.items()})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    theirs = error(session.run(None, inputs), expected)
    given, found = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    np.savez(given, **{identifier(k): a for k, a in inputs.items()})
    command = [tvmr, "run", path, "--inputs", given, "--output", found, "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    title = pathlib.Path(name).stem
    if done.returncode != 0:
        print(f"{title:14} {done.stderr.strip()}")
        return False
    own = error(list(np.load(found).values()), expected)
    print(f"{title:14} {own:8.1e} {theirs:13.1e}", flush=True)
    return own <= max(TOLERANCE, MARGIN * theirs)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("tvmr")
    args.add_argument("--shape", action="append", default=[])
    args.add_argument("model", nargs="*")
    args = args.parse_intermixed_args()
    tvmr = str(pathlib.Path(args.tvmr).resolve())
    shapes = {name: [int(n) for n in extents.split(",")] for name, extents in (s.split("=") for s in args.shape)}
    known = sorted(p.stem.removeprefix("light_") for p in LIGHT.glob("light_*.onnx"))
    print(f"{'error of':14} {'tvmr':>8} {'ONNX Runtime':>13}")
    with tempfile.TemporaryDirectory() as directory:
        return 0 if all([compare(tvmr, directory, n, shapes) for n in args.model or known]) else 1


if __name__ == "__main__":
    sys.exit(main())
