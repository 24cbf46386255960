#!/usr/bin/env python3
"""Compares the operators of graphs with TVM's: each on random inputs, in TVM's text, its numbers with those of TVM's own lowering.

    python3 benches/peers/operators.py [--tvmr target/release/tvmr] [NAME ...]

It needs `apache-tvm` and `numpy` (benches/peers/README.md). For each case it prints the largest relative difference; the exit code
is 1 if a case differs, is refused by tvmr though TVM computes it, or if TVM does not read what tvmr prints.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from tvm.script import relax as R

import operators_spatial
import operators_values

RNG = np.random.default_rng(7)


class Case:
    """An operator, a function from variables to its call, and its inputs: shapes of random floats, or arrays."""

    def __init__(self, name, build, *inputs):
        self.name, self.build = name, build
        self.inputs = [RNG.uniform(-2, 2, i).astype("float32") if isinstance(i, tuple) else np.asarray(i) for i in inputs]
        self.params = [f"p{i}" for i in range(len(inputs))]

    def module(self):
        params = [relax.Var(name, R.Tensor(a.shape, str(a.dtype))) for name, a in zip(self.params, self.inputs)]
        builder = relax.BlockBuilder()
        with builder.function("main", params):
            with builder.dataflow():
                out = builder.emit_output(builder.emit(self.build(*params)))
            builder.emit_func_output(out)
        return builder.get()


class TextCase:
    """A call as text, and its inputs: arrays, or how to draw them as in operators_spatial.py."""

    def __init__(self, call, inputs):
        self.name, self.call = call.partition("(")[0].removeprefix("R."), call
        self.params = list(inputs)
        self.inputs = [i if isinstance(i, np.ndarray) else self.random(*i) for i in inputs.values()]

    @staticmethod
    def random(shape, dtype, low=None, high=None):
        if dtype.startswith("float"):
            return RNG.uniform(-1 if low is None else low, 1 if high is None else high, shape).astype(dtype)
        return RNG.integers(-4, 8, shape).astype(dtype)

    def module(self):
        params = ", ".join(f"{name}: R.Tensor({a.shape}, \"{a.dtype}\")" for name, a in zip(self.params, self.inputs))
        return tvm.script.from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main({params}):
        with R.dataflow():
            gv = {self.call}
            R.output(gv)
        return gv
""")


def positive(*shape):
    return RNG.uniform(0.1, 2, shape).astype("float32")


def unit(*shape):
    return RNG.uniform(-0.9, 0.9, shape).astype("float32")


def ints(low, high, *shape, dtype="int64"):
    return RNG.integers(low, high, shape).astype(dtype)


def truth(*shape):
    return RNG.integers(0, 2, shape).astype("bool")


def cases():
    c = []

    def add(name, build, *inputs):
        c.append(Case(name, build, *inputs))

    for name in ["abs", "atan", "asinh", "ceil", "cos", "cosh", "erf", "exp", "floor", "isfinite", "isinf", "isnan", "negative",
                 "sigmoid", "sign", "sin", "sinh", "square", "tan", "tanh", "trunc"]:
        add(name, getattr(op, name), (3, 5))
    for name in ["log", "sqrt", "rsqrt"]:
        add(name, getattr(op, name), positive(3, 5))
    for name in ["acos", "asin", "atanh"]:
        add(name, getattr(op, name), unit(3, 5))
    add("acosh", op.acosh, positive(3, 5) + 1)
    add("round", op.round, np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4, 0.6], "float32"))
    add("logical_not", op.logical_not, truth(3, 5))
    add("bitwise_not", op.bitwise_not, ints(-9, 9, 3, 5, dtype="int32"))
    add("astype", lambda x: op.astype(x, "int32"), (3, 5))
    add("astype", lambda x: op.astype(x, "float16"), (3, 5))
    add("clip", lambda x: op.clip(x, -0.5, 1.0), (3, 5))
    for name in ["add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater",
                 "greater_equal", "atan2", "log_add_exp"]:
        add(name, getattr(op, name), (3, 1, 5), (4, 1))
    add("divide", op.divide, (3, 5), positive(5))
    add("divide", op.divide, ints(-9, 9, 3, 5, dtype="int32"), ints(1, 5, 5, dtype="int32"))
    for name in ["floor_divide", "floor_mod", "mod"]:
        add(name, getattr(op, name), (3, 5), positive(5))
        add(name, getattr(op, name), ints(-9, 9, 3, 5, dtype="int32"), ints(1, 5, 5, dtype="int32"))
    add("power", op.power, positive(3, 5), (5,))
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        add(name, getattr(op, name), ints(0, 99, 3, 5, dtype="int32"), ints(0, 99, 5, dtype="int32"))
    for name in ["left_shift", "right_shift"]:
        add(name, getattr(op, name), ints(0, 99, 3, 5, dtype="int32"), ints(0, 5, 5, dtype="int32"))
    for name in ["logical_and", "logical_or", "logical_xor"]:
        add(name, getattr(op, name), truth(3, 5), truth(5))
    add("where", op.where, truth(3, 1), (3, 5), (5,))
    for name in ["relu", "gelu", "gelu_tanh", "selu", "silu", "softplus", "leakyrelu", "softmax", "log_softmax"]:
        add("nn." + name, getattr(op.nn, name), (3, 5))
    add("nn.softmax", lambda x: op.nn.softmax(x, 1), (3, 5, 4))
    add("nn.prelu", lambda x, a: op.nn.prelu(x, a, 1), (2, 3, 4), (3,))
    add("nn.dropout", op.nn.dropout, (3, 5))
    add("nn.layer_norm", lambda x, g, b: op.nn.layer_norm(x, g, b, [-1]), (2, 3, 8), (8,), (8,))
    add("nn.layer_norm", lambda x, g, b: op.nn.layer_norm(x, g, b, [-2, -1]), (2, 3, 8), (3, 8), (3, 8))
    add("nn.rms_norm", lambda x, w: op.nn.rms_norm(x, w, [-1]), (2, 3, 8), (8,))
    add("nn.group_norm", lambda x, g, b: op.nn.group_norm(x, g, b, 2, 1, [2, 3]), (2, 4, 3, 3), (4,), (4,))
    add("nn.instance_norm", lambda x, g, b: op.nn.instance_norm(x, g, b, 1, [2, 3]), (2, 4, 3, 3), (4,), (4,))
    for training in [False, True]:
        add("nn.batch_norm", lambda x, g, b, m, v, t=training: op.nn.batch_norm(x, g, b, m, v, 1, training=t),
            (2, 4, 3, 3), (4,), (4,), (4,), positive(4))
    for a, b in [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,))]:
        add("matmul", op.matmul, a, b)
    add("outer", op.outer, (3,), (4,))
    for text, *shapes in [("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ij->ji", (3, 4)), ("ij->", (3, 4)),
                          ("i,j->ij", (3,), (4,))]:
        add("einsum", lambda *xs, t=text: op.einsum(xs, t), *shapes)
    for name in ["sum", "mean", "max", "min", "prod", "variance", "std"]:
        f = getattr(op, name)
        add(name, lambda x, f=f: f(x, [1]), (2, 3, 4))
        add(name, lambda x, f=f: f(x, [0, 2], True), (2, 3, 4))
        add(name, lambda x, f=f: f(x), (2, 3, 4))
    for name in ["argmax", "argmin"]:
        f = getattr(op, name)
        add(name, lambda x, f=f: f(x, 1), (2, 3, 4))
        add(name, lambda x, f=f: f(x, 1, True), (2, 3, 4))
        add(name, lambda x, f=f: f(x), (2, 3, 4))
    add("collapse_sum_to", lambda x: op.collapse_sum_to(x, (3, 1)), (2, 3, 4))
    add("collapse_sum_like", op.collapse_sum_like, (2, 3, 4), (3, 1))
    conv = op.nn
    add("nn.conv1d", lambda x, w: conv.conv1d(x, w, 2, 1), (2, 3, 9), (4, 3, 3))
    add("nn.conv2d", lambda x, w: conv.conv2d(x, w), (2, 3, 8, 8), (4, 3, 3, 3))
    add("nn.conv2d", lambda x, w: conv.conv2d(x, w, (2, 1), (1, 2), (1, 2)), (1, 3, 9, 8), (4, 3, 3, 2))
    add("nn.conv2d", lambda x, w: conv.conv2d(x, w, padding=1, groups=2), (1, 4, 6, 6), (6, 2, 3, 3))
    add("nn.conv2d", lambda x, w: conv.conv2d(x, w, padding=1, groups=4), (1, 4, 6, 6), (4, 1, 3, 3))
    add("nn.conv2d", lambda x, w: conv.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"), (1, 6, 6, 3), (3, 3, 3, 5))
    add("nn.conv3d", lambda x, w: conv.conv3d(x, w, padding=1), (1, 2, 4, 4, 4), (3, 2, 3, 3, 3))
    add("nn.conv1d_transpose", lambda x, w: conv.conv1d_transpose(x, w, 2, 1), (2, 3, 5), (3, 4, 3))
    add("nn.conv2d_transpose", lambda x, w: conv.conv2d_transpose(x, w, 2, 1, 1), (1, 3, 4, 4), (3, 4, 3, 3))
    add("nn.conv2d_transpose", lambda x, w: conv.conv2d_transpose(x, w, groups=2), (1, 4, 4, 4), (4, 3, 3, 3))
    add("nn.conv3d_transpose", lambda x, w: conv.conv3d_transpose(x, w), (1, 2, 3, 3, 3), (2, 2, 2, 2, 2))
    for n, shape in [(1, (1, 3, 9)), (2, (1, 3, 9, 8)), (3, (1, 2, 5, 5, 5))]:
        maximum, average = getattr(op.nn, f"max_pool{n}d"), getattr(op.nn, f"avg_pool{n}d")
        add(f"nn.max_pool{n}d", lambda x, f=maximum: f(x, 3, 2, 1), shape)
        add(f"nn.max_pool{n}d", lambda x, f=maximum: f(x, 2, 2, ceil_mode=True), shape)
        for include in [False, True]:
            add(f"nn.avg_pool{n}d", lambda x, f=average, i=include: f(x, 3, 2, 1, count_include_pad=i), shape)
            add(f"nn.avg_pool{n}d", lambda x, f=average, i=include: f(x, 2, 2, ceil_mode=True, count_include_pad=i), shape)
        adaptive = getattr(op.nn, f"adaptive_avg_pool{n}d")
        add(f"nn.adaptive_avg_pool{n}d", lambda x, f=adaptive, n=n: f(x, (1,) * n), shape)
        add(f"nn.adaptive_avg_pool{n}d", lambda x, f=adaptive, n=n: f(x, (3,) * n), shape)
    add("nn.pad", lambda x: op.nn.pad(x, [0, 0, 1, 2]), (3, 4))
    add("nn.pad", lambda x: op.nn.pad(x, [0, 1, 2, 0], "constant", 1.5), (3, 4))
    for mode in ["reflect", "replicate", "circular"]:
        add("nn.pad", lambda x, m=mode: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 2, 1], m), (1, 2, 4, 5))
    add("nn.pixel_shuffle", lambda x: op.nn.pixel_shuffle(x, 2), (1, 8, 3, 3))
    add("reshape", lambda x: op.reshape(x, (4, -1)), (2, 3, 4))
    add("permute_dims", lambda x: op.permute_dims(x, [1, 2, 0]), (2, 3, 4))
    add("permute_dims", op.permute_dims, (2, 3, 4))
    add("layout_transform", lambda x: op.layout_transform(x, lambda a, b, c: (a, b // 4, c, b % 4)), (2, 8, 3))
    add("layout_transform", lambda x: op.layout_transform(x, lambda a, b, c: (c, a * 8 + b)), (2, 8, 3))
    add("layout_transform", lambda x: op.layout_transform(x, lambda a, b, c: (a, b // 4, c, b % 4), 1.5), (2, 6, 3))
    add("layout_transform", lambda x: op.layout_transform(x, lambda a, b, c: (b // 4, a, c, b % 4), 7),
        ints(-9, 9, 2, 7, 3, dtype="int32"))
    add("expand_dims", lambda x: op.expand_dims(x, [0, -1]), (2, 3))
    add("squeeze", lambda x: op.squeeze(x, [0]), (1, 3, 1))
    add("squeeze", op.squeeze, (1, 3, 1))
    add("flatten", op.flatten, (2, 3, 4))
    add("nn.batch_flatten", op.nn.batch_flatten, (2, 3, 4))
    add("broadcast_to", lambda x: op.broadcast_to(x, (2, 3, 4)), (3, 1))
    add("concat", lambda x, y, z: op.concat([x, y, z], 1), (2, 3), (2, 1), (2, 4))
    add("concat", lambda x, y: op.concat([x, y], None), (4,), (6,))
    add("split", lambda x: op.split(x, 2, 1), (2, 4))
    add("split", lambda x: op.split(x, [1, 3], 1), (2, 6))
    add("stack", lambda x, y: op.stack([x, y], 1), (2, 3), (2, 3))
    add("tile", lambda x: op.tile(x, (2, 1, 3)), (2, 3))
    add("repeat", lambda x: op.repeat(x, 2, 1), (2, 3))
    add("repeat", lambda x: op.repeat(x, 2), (2, 3))
    add("flip", lambda x: op.flip(x, 1), (2, 3))
    add("take", lambda x, i: op.take(x, i, 1), (2, 5, 3), ints(0, 5, 2, 4))
    add("take", lambda x, i: op.take(x, i, 0), (7, 3), ints(0, 7, 4, dtype="int32"))
    add("take", lambda x, i: op.take(x, i, 1, "clip"), (2, 5), ints(-3, 9, 4))
    add("take", lambda x, i: op.take(x, i, 1, "wrap"), (2, 5), ints(-3, 9, 4))
    add("strided_slice", lambda x: op.strided_slice(x, [0, 1], [0, 1], [2, 6], [1, 2]), (3, 7))
    add("strided_slice", lambda x: op.strided_slice(x, [1], [-1], [-9], [-1]), (3, 7))
    add("strided_slice", lambda x: op.strided_slice(x, [1], [-4], [100]), (3, 7))
    add("gather_elements", lambda x, i: op.gather_elements(x, i, 1), (3, 5), ints(0, 5, 3, 2))
    add("gather_nd", op.gather_nd, (3, 4, 5), ints(0, 3, 6, 2))
    add("gather_nd", lambda x, i: op.gather_nd(x, i, 1), (2, 4, 5), ints(0, 4, 2, 3, 1))
    add("index_tensor", lambda x, i, j: op.index_tensor(x, [i, j]), (4, 5, 3), ints(0, 4, 6), ints(0, 5, 6))
    for reduction in ["update", "add", "mul", "min", "max"]:
        add("scatter_elements", lambda x, i, u, r=reduction: op.scatter_elements(x, i, u, 1, r), (3, 5),
            np.array([[0, 2], [1, 4], [3, 0]], "int64"), (3, 2))
        add("scatter_nd", lambda x, i, u, r=reduction: op.scatter_nd(x, i, u, r), (4, 5), np.array([[0], [2]], "int64"), (2, 5))
    add("index_put", lambda x, i, j, v: op.index_put(x, relax.Tuple([i, j]), v), (4, 5), np.array([0, 2, 3], "int64"),
        np.array([1, 1, 4], "int64"), (3,))
    add("slice_scatter", lambda x, s: op.slice_scatter(x, s, 1, 4, 1, axis=0), (6, 3), (3, 3))
    add("reverse_sequence", lambda x, n: op.reverse_sequence(x, n, 1, 0), (3, 5), np.array([2, 5, 1], "int64"))
    for k in [0, 1, -1]:
        add("tril", lambda x, k=k: op.tril(x, k), (4, 5))
        add("triu", lambda x, k=k: op.triu(x, k), (4, 5))
    add("full", lambda x: op.add(x, op.full((3, 5), relax.const(1.5, "float32"))), (3, 5))
    add("zeros", lambda x: op.add(x, op.zeros((3, 5), "float32")), (3, 5))
    add("ones", lambda x: op.add(x, op.ones((3, 5), "float32")), (3, 5))
    add("full_like", lambda x: op.full_like(x, relax.const(2.5, "float32")), (3, 5))
    add("zeros_like", op.zeros_like, (3, 5))
    add("ones_like", op.ones_like, (3, 5))
    add("eye", lambda x: op.add(x, op.eye(4, 5, 1)), (4, 5))
    add("eye_like", lambda x: op.eye_like(x, -1), (4, 5))
    add("arange", lambda x: op.add(x, op.astype(op.arange(2, 12, 3, "int64"), "float32")), (4,))
    add("one_hot", lambda i: op.one_hot(i, relax.const(1.0, "float32").value if False else tvm.tirx.FloatImm("float32", 1.0),
                                        tvm.tirx.FloatImm("float32", 0.0), 6), ints(0, 6, 4))
    add("meshgrid", lambda x, y: op.meshgrid([x, y]), (3,), (4,))
    add("hamming_window", lambda x: op.add(x, op.hamming_window(8, True, 0.54, 0.46, "float32")), (8,))
    for exclusive in [False, True]:
        add("cumsum", lambda x, e=exclusive: op.cumsum(x, 1, exclusive=e), (3, 5))
        add("cumprod", lambda x, e=exclusive: op.cumprod(x, 0, exclusive=e), (3, 5))
    add("cumsum", op.cumsum, (3, 5))
    for descending in [False, True]:
        add("sort", lambda x, d=descending: op.sort(x, -1, d), (3, 7))
        add("argsort", lambda x, d=descending: op.argsort(x, 0, d), (3, 7))
    add("topk", lambda x: op.topk(x, 3), (3, 7))
    add("topk", lambda x: op.topk(x, 2, 0, "values", False), (5, 3))
    add("bucketize", op.bucketize, (6,), np.array([-1.0, 0.0, 1.0], "float32"))
    add("nn.attention", op.nn.attention, (2, 5, 2, 4), (2, 6, 2, 4), (2, 6, 2, 3))
    add("nn.attention", lambda q, k, v: op.nn.attention(q, k, v, causal_mask="TopLeft"), (1, 5, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4))
    add("nn.attention_bias", lambda q, k, v, b: op.nn.attention(q, k, v, b), (2, 5, 2, 4), (2, 6, 2, 4), (2, 6, 2, 4), (2, 2, 5, 6))
    add("nn.cross_entropy_with_logits", op.nn.cross_entropy_with_logits, (3, 5), (3, 5))
    for reduction in ["mean", "sum", "none"]:
        add("nn.nll_loss", lambda p, t, w, r=reduction: op.nn.nll_loss(p, t, w, r, 1), (4, 5), ints(0, 5, 4), positive(5))
    for method in ["nearest_neighbor", "linear", "cubic"]:
        for mode in ["half_pixel", "align_corners", "asymmetric"]:
            add("image.resize2d", lambda x, m=method, c=mode: op.image.resize2d(
                x, (7, 9), method=m, coordinate_transformation_mode=c, rounding_method="round" if c == "align_corners" else "floor"),
                (1, 2, 4, 5))
    add("image.resize2d", lambda x: op.image.resize2d(x, (3, 2), layout="NHWC"), (1, 6, 5, 2))
    add("quantize", lambda x, s, z: op.quantize(x, s, z, 1), (2, 3, 4), positive(3), ints(-3, 3, 3, dtype="int8"))
    add("dequantize", lambda x, s, z: op.dequantize(x, s, z, 1), ints(-99, 99, 2, 3, 4, dtype="int8"), positive(3),
        ints(-3, 3, 3, dtype="int8"))
    add("ewise_fma", op.ewise_fma, (3, 5), (3, 5), (3, 5))
    return c + [TextCase(call, inputs) for call, inputs in operators_spatial.CASES + operators_values.CASES]


def flattened(value):
    if isinstance(value, (list, tuple)) or type(value).__name__ == "Array":
        return [a for v in value for a in flattened(v)]
    return [value.numpy()]


def theirs(mod, inputs):
    executable = tvm.relax.build(mod, target="llvm")
    vm = relax.VirtualMachine(executable, tvm.cpu())
    return flattened(vm["main"](*[tvm.runtime.tensor(a) for a in inputs]))


def ours(tvmr, text, case, folder):
    model, arrays, results = folder / "model.tir", folder / "in.npz", folder / "out.npz"
    model.write_text(text)
    np.savez(arrays, **dict(zip(case.params, case.inputs)))
    run = subprocess.run([tvmr, "run", model, "--inputs", arrays, "--output", results], capture_output=True, text=True)
    if run.returncode != 0:
        return None, run.stderr.strip()
    with np.load(results) as found:
        return [found[name] for name in found.files], ""


def without_empty_rows(case, found, expected):
    """TVM cuts the indices of boxes to their number when it runs; tvmr leaves rows of zeros, as the type in the text has it."""
    if "onnx" in getattr(case, "call", "") and not found[0][expected[0].shape[0]:].any():
        return [found[0][:expected[0].shape[0]], *found[1:]]
    return found


def difference(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {list(a.shape)}, expected {b.dtype} {list(b.shape)}"
    if a.dtype.kind == "f":
        a, b = a.astype("float64"), b.astype("float64")
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return "NaN elsewhere"
        a, b = np.nan_to_num(a), np.nan_to_num(b)
        return float(np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-6))
    return 0.0 if np.array_equal(a, b) else "other integers"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tvmr", default="target/release/tvmr")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    right, wrong, theirs_only = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for case in cases():
            if args.names and case.name not in args.names:
                continue
            try:
                mod = case.module()
                text = mod.script(show_meta=True)
                expected = theirs(mod, case.inputs)
            except Exception as error:  # TVM refuses some of its own operators.
                theirs_only.append((case.name, str(error).strip().splitlines()[-1] if str(error) else type(error).__name__))
                continue
            found, message = ours(args.tvmr, text, case, folder)
            if found is None:
                wrong.append((case.name, message))
                continue
            found = without_empty_rows(case, found, expected)
            differences = [difference(a, b) for a, b in zip(found, expected)]
            worst = max((d for d in differences if isinstance(d, float)), default=0.0)
            half = any(b.dtype == np.float16 for b in expected)
            texts = [d for d in differences if isinstance(d, str)]
            if texts or len(found) != len(expected) or worst > (2e-3 if half else 2e-5):
                wrong.append((case.name, f"differs: {texts or worst}, {len(found)} of {len(expected)} results"))
                continue
            for stage in ["graph", "after:used_functions"]:
                printed = subprocess.run([args.tvmr, "emit", folder / "model.tir", "--stage", stage, "--dialect", "current"],
                                         capture_output=True, text=True)
                try:
                    tvm.script.from_source(printed.stdout)
                except Exception as error:
                    wrong.append((case.name, f"TVM does not read {stage}: {str(error).strip().splitlines()[0]}"))
                    break
            else:
                right.append((case.name, worst))
    for name, worst in right:
        print(f"equal    {name:32} {worst:.1e}")
    for name, why in theirs_only:
        print(f"TVM      {name:32} {why[:150]}")
    for name, why in wrong:
        print(f"WRONG    {name:32} {why[:600]}")
    names = {name for name, _ in right}
    print(f"{len(right)} cases of {len(names)} operators are equal, {len(wrong)} are not; TVM refuses {len(theirs_only)}")
    sys.exit(1 if wrong or not right else 0)


main()
