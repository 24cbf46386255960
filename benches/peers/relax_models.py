#!/usr/bin/env python3
"""Runs modules that TVM's pipeline prints: six models at four stages, whose results must be TVM's.

    python3 benches/peers/relax_models.py TVMR [MODEL…] [--keep DIR]

The models are parts of common networks with random weights: `resnet`, `mobilenet`, `bert`, `llama`, `unet`, `lstm`. The stages are

* `imported`: operators;
* `legalised`: `call_tir` of a prim_func for each operator (`LegalizeOps`);
* `fused`: functions of several calls each (`FoldConstant`, `FuseOps`);
* `lowered`: `call_tir` of fused prim_funcs (`FuseTIR`).

tvmr runs each printed module (`tvmr run`, with the weights in a file) and compares with what TVM computes. The text that tvmr
prints of it (`tvmr fmt`, and each stage of `tvmr emit`) must be read by TVM and give the same numbers there.

Runs in an environment with numpy, safetensors, apache-tvm==0.27.0.post1 and apache-tvm-ffi==0.1.14.post1 (README.md).
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tvm
from safetensors.numpy import save_file
from tvm import relax, tirx
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from typing import TypeVar

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})
STAGES = ["imported", "legalised", "fused", "lowered"]


class Model:
    """A module under construction: `main` takes the inputs, then the weights."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.inputs, self.weights = [], []
        self.builder = relax.BlockBuilder()

    def input(self, name, *shape, dtype="float32", high=None):
        value = self.rng.normal(0, 1, shape) if high is None else self.rng.integers(0, high, shape)
        return self._add(self.inputs, name, value.astype(dtype))

    def weight(self, name, *shape, scale=None, positive=False):
        """Random values whose products with inputs have about the variance of these."""
        scale = scale or np.sqrt(2 / max(1, np.prod(shape[1:])))
        value = self.rng.normal(0, scale, shape).astype("float32")
        return self._add(self.weights, name, np.abs(value) + np.float32(0.5) if positive else value)

    @staticmethod
    def values(group):
        """Names with values."""
        return [(var.name, value) for var, value in group]

    def _add(self, group, name, value):
        var = relax.Var(name, R.Tensor(value.shape, str(value.dtype)))
        group.append((var, value))
        return var

    def module(self, build):
        """`main` computes what `build` emits. All parameters are declared before."""
        params = [var for var, _ in self.inputs + self.weights]
        with self.builder.function("main", params, attrs={"num_input": len(self.inputs)}):
            with self.builder.dataflow():
                out = self.builder.emit_output(build(self.builder.emit))
            self.builder.emit_func_output(out)
        return self.builder.get()


class Layers:
    """Declares weights first and emits later: a model is a list of functions of the values before."""

    def __init__(self, m):
        self.m, self.n = m, 0

    def name(self, kind):
        self.n += 1
        return f"{kind}{self.n}"

    def conv(self, i, o, k, stride=1, groups=1, bias=False):
        name = self.name("conv")
        w = self.m.weight(f"{name}_weight", o, i // groups, k, k)
        b = self.m.weight(f"{name}_bias", o, scale=0.1) if bias else None

        def run(emit, x):
            y = emit(op.nn.conv2d(x, w, strides=stride, padding=k // 2, groups=groups))
            return y if b is None else emit(op.add(y, emit(op.reshape(b, (1, o, 1, 1)))))

        return run

    def norm(self, channels):
        name, m = self.name("norm"), self.m
        params = [m.weight(f"{name}_{p}", channels, scale=0.1, positive=p in ("gamma", "var")) for p in ("gamma", "beta", "mean", "var")]
        return lambda emit, x: emit(relax.TupleGetItem(emit(op.nn.batch_norm(x, *params, axis=1, training=False)), 0))

    def dense(self, i, o, bias=True):
        name = self.name("dense")
        w = self.m.weight(f"{name}_weight", o, i)
        b = self.m.weight(f"{name}_bias", o, scale=0.1) if bias else None
        return lambda emit, x: emit(op.linear(x, w, b))

    def layer_norm(self, n):
        name = self.name("layer_norm")
        g, b = self.m.weight(f"{name}_gamma", n, scale=0.1, positive=True), self.m.weight(f"{name}_beta", n, scale=0.1)
        return lambda emit, x: emit(op.nn.layer_norm(x, g, b, axes=-1))

    def rms_norm(self, n):
        w = self.m.weight(f"{self.name('rms_norm')}_weight", n, scale=0.1, positive=True)
        return lambda emit, x: emit(op.nn.rms_norm(x, w, axes=-1))


def relu(emit, x):
    return emit(op.nn.relu(x))


def chain(*layers):
    def run(emit, x):
        for layer in layers:
            x = layer(emit, x)
        return x

    return run


def resnet(m):
    """A stem, a block of each kind, and the classifier of ResNet-18."""
    x, l = m.input("x", 1, 3, 64, 64), Layers(m)
    stem = chain(l.conv(3, 16, 7, 2), l.norm(16), relu)
    same = chain(l.conv(16, 16, 3), l.norm(16), relu, l.conv(16, 16, 3), l.norm(16))
    down = chain(l.conv(16, 32, 3, 2), l.norm(32), relu, l.conv(32, 32, 3), l.norm(32))
    short = chain(l.conv(16, 32, 1, 2), l.norm(32))
    classify = l.dense(32, 10)

    def build(emit):
        y = emit(op.nn.max_pool2d(stem(emit, x), pool_size=3, strides=2, padding=1))
        y = relu(emit, emit(op.add(same(emit, y), y)))
        y = relu(emit, emit(op.add(down(emit, y), short(emit, y))))
        y = emit(op.nn.adaptive_avg_pool2d(y, 1))
        return emit(op.nn.softmax(classify(emit, emit(op.reshape(y, (1, 32))))))

    return m.module(build)


def mobilenet(m):
    """Two inverted residuals and hard swish, as in MobileNet-v2 and v3."""
    x, l = m.input("x", 1, 3, 48, 48), Layers(m)
    relu6 = lambda emit, y: emit(op.clip(y, 0, 6))
    stem = chain(l.conv(3, 8, 3, 2), l.norm(8), relu6)
    block = lambda i, o, stride: chain(l.conv(i, 6 * i, 1), l.norm(6 * i), relu6, l.conv(6 * i, 6 * i, 3, stride, 6 * i),
                                       l.norm(6 * i), relu6, l.conv(6 * i, o, 1), l.norm(o))
    first, second = block(8, 8, 1), block(8, 12, 2)
    squeeze, excite = l.conv(12, 4, 1, bias=True), l.conv(4, 12, 1, bias=True)

    def hard_swish(emit, y):
        gate = emit(op.clip(emit(op.add(y, relax.const(3.0, "float32"))), 0, 6))
        return emit(op.divide(emit(op.multiply(y, gate)), relax.const(6.0, "float32")))

    def build(emit):
        y = stem(emit, x)
        y = second(emit, emit(op.add(first(emit, y), y)))
        gate = excite(emit, relu(emit, squeeze(emit, emit(op.nn.adaptive_avg_pool2d(y, 1)))))
        y = hard_swish(emit, emit(op.multiply(y, emit(op.sigmoid(gate)))))
        return emit(op.mean(y, [2, 3]))

    return m.module(build)


def bert(m):
    """An encoder layer with an embedding: 32 tokens, 4 heads of 16."""
    n, d, h = 32, 64, 4
    ids, mask, l = m.input("ids", 1, n, dtype="int64", high=100), m.input("mask", 1, 1, 1, n), Layers(m)
    table = m.weight("embedding", 100, d, scale=1.0)
    q, k, v, o = (l.dense(d, d) for _ in range(4))
    norm0, norm1, up, down = l.layer_norm(d), l.layer_norm(d), l.dense(d, 4 * d), l.dense(4 * d, d)

    def build(emit):
        x = emit(op.reshape(emit(op.take(table, emit(op.reshape(ids, (n,))), axis=0)), (1, n, d)))
        heads = lambda y: emit(op.permute_dims(emit(op.reshape(y, (1, n, h, d // h))), [0, 2, 1, 3]))
        scores = emit(op.matmul(heads(q(emit, x)), emit(op.permute_dims(heads(k(emit, x)), [0, 1, 3, 2]))))
        scores = emit(op.divide(scores, relax.const(float(np.sqrt(d // h)), "float32")))
        attention = emit(op.nn.softmax(emit(op.add(scores, mask)), axis=-1))
        y = emit(op.permute_dims(emit(op.matmul(attention, heads(v(emit, x)))), [0, 2, 1, 3]))
        x = norm0(emit, emit(op.add(o(emit, emit(op.reshape(y, (1, n, d)))), x)))
        return norm1(emit, emit(op.add(down(emit, emit(op.nn.gelu(up(emit, x)))), x)))

    return m.module(build)


def llama(m):
    """A decoder layer: rotary positions, a causal mask, grouped queries, gated silu. 16 tokens, 4 heads of 16."""
    n, d, h, g, c = 16, 64, 4, 2, 16
    x, l = m.input("x", 1, n, d), Layers(m)
    cosines, sines = m.input("cos", n, c), m.input("sin", n, c)
    norm0, norm1 = l.rms_norm(d), l.rms_norm(d)
    q, k, v, o = l.dense(d, h * c, False), l.dense(d, g * c, False), l.dense(d, g * c, False), l.dense(h * c, d, False)
    gate, up, down = l.dense(d, 2 * d, False), l.dense(d, 2 * d, False), l.dense(2 * d, d, False)

    def build(emit):
        def rotary(y):
            half = emit(op.split(y, 2, axis=-1))
            turned = emit(op.concat([emit(op.negative(emit(relax.TupleGetItem(half, 1)))), emit(relax.TupleGetItem(half, 0))], axis=-1))
            return emit(op.add(emit(op.multiply(y, cosines)), emit(op.multiply(turned, sines))))

        heads = lambda y, count: emit(op.permute_dims(emit(op.reshape(y, (1, n, count, c))), [0, 2, 1, 3]))
        y = norm0(emit, x)
        queries, keys, values = rotary(heads(q(emit, y), h)), rotary(heads(k(emit, y), g)), heads(v(emit, y), g)
        keys, values = emit(op.repeat(keys, h // g, axis=1)), emit(op.repeat(values, h // g, axis=1))
        scores = emit(op.matmul(queries, emit(op.permute_dims(keys, [0, 1, 3, 2]))))
        scores = emit(op.multiply(scores, relax.const(1 / np.sqrt(c).astype("float32"), "float32")))
        mask = emit(op.triu(emit(op.full((n, n), relax.const(-1e9, "float32"))), 1))
        weights = emit(op.nn.softmax(emit(op.add(scores, mask)), axis=-1))
        y = emit(op.reshape(emit(op.permute_dims(emit(op.matmul(weights, values)), [0, 2, 1, 3])), (1, n, h * c)))
        y = emit(op.add(o(emit, y), x))
        z = norm1(emit, y)
        z = emit(op.multiply(emit(op.nn.silu(gate(emit, z))), up(emit, z)))
        return emit(op.add(down(emit, z), y))

    return m.module(build)


def unet(m):
    """A level down, a level up, with group normalisation, a skip connection, nearest and transposed upsampling."""
    x, l = m.input("x", 1, 4, 24, 24), Layers(m)
    gamma, beta = m.weight("gamma", 8, scale=0.1, positive=True), m.weight("beta", 8, scale=0.1)
    enter, down, middle, leave = l.conv(4, 8, 3, bias=True), l.conv(8, 16, 3, 2, bias=True), l.conv(16, 8, 3), l.conv(24, 4, 3)
    up = m.weight("up_weight", 16, 8, 2, 2)

    def build(emit):
        normal = emit(op.nn.group_norm(enter(emit, x), gamma, beta, num_groups=2, channel_axis=1, axes=[2, 3]))
        high = emit(op.nn.silu(normal))
        low = relu(emit, down(emit, high))
        nearest = emit(op.image.resize2d(middle(emit, low), (24, 24), method="nearest_neighbor",
                                         coordinate_transformation_mode="asymmetric", rounding_method="floor"))
        learned = emit(op.nn.conv2d_transpose(low, up, strides=2))
        return emit(op.tanh(leave(emit, emit(op.concat([high, nearest, learned], axis=1)))))

    return m.module(build)


def lstm(m):
    """Three steps of an LSTM cell, and all hidden states as a second result."""
    n, d, h = 2, 12, 16
    x, h0, c0, l = m.input("x", 3, n, d), m.input("h0", n, h), m.input("c0", n, h), Layers(m)
    of_input, of_state = l.dense(d, 4 * h), l.dense(h, 4 * h)

    def build(emit):
        state, cell, all_states = h0, c0, []
        for t in range(3):
            step = emit(op.squeeze(emit(op.strided_slice(x, [0], [t], [t + 1])), [0]))
            gates = emit(op.split(emit(op.add(of_input(emit, step), of_state(emit, state))), 4, axis=1))
            i, f, g, o = (emit(relax.TupleGetItem(gates, k)) for k in range(4))
            kept = emit(op.multiply(emit(op.sigmoid(f)), cell))
            cell = emit(op.add(kept, emit(op.multiply(emit(op.sigmoid(i)), emit(op.tanh(g))))))
            state = emit(op.multiply(emit(op.sigmoid(o)), emit(op.tanh(cell))))
            all_states.append(state)
        return emit(relax.Tuple([emit(op.stack(all_states, axis=0)), state, cell]))

    return m.module(build)


MODELS = {f.__name__: f for f in (resnet, mobilenet, bert, llama, unet, lstm)}


def staged(module):
    """The module at each stage."""
    legal = relax.transform.LegalizeOps()(module)
    marked = relax.transform.AnnotateTIROpPattern()(legal)
    fused = relax.transform.FuseOps()(relax.transform.FoldConstant()(marked))
    return dict(zip(STAGES, [module, legal, fused, relax.transform.FuseTIR()(fused)]))


def evaluate(module, values):
    """What TVM computes, as a list of arrays."""
    machine = relax.VirtualMachine(tvm.compile(relax.transform.LegalizeOps()(module), TARGET), tvm.cpu())
    out = machine["main"](*[tvm.runtime.tensor(v) for v in values])
    return [t.numpy() for t in (out if isinstance(out, (list, tuple)) or type(out).__name__ == "Array" else [out])]


def parse(text):
    return tvm.script.from_source(text, {"I": I, "R": R, "T": T, "TypeVar": TypeVar, "tvm": tvm})


def call(tvmr, *arguments):
    done = subprocess.run([tvmr, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, (done.stderr.strip().splitlines() or [""])[0]


def is_close(found, expected):
    worst = max(np.abs(f - e).max() / max(np.abs(e).max(), 1e-30) for f, e in zip(found, expected))
    return len(found) == len(expected) and worst <= 1e-4


def check(tvmr, directory, name, stage, module, inputs, weights, expected):
    """The problems with a module."""
    path = directory / f"{name}_{stage}.tir"
    path.write_text(module.script(show_meta=True))
    save_file(dict(weights), directory / f"{name}_{stage}.safetensors")
    np.savez(directory / f"{name}_inputs.npz", **dict(inputs))
    out = directory / f"{name}_{stage}_out.npz"
    code, _, error = call(tvmr, "run", path, "--inputs", directory / f"{name}_inputs.npz", "--output", out)
    if code != 0:
        return [f"run: exit code {code}: {error}"]
    problems = []
    with np.load(out) as found:
        if not is_close([found[k] for k in found.files], expected):
            problems.append("run: the results differ")
    values = [v for _, v in inputs + weights]
    for command in (["fmt", path, "--dialect", "current"], ["emit", path, "--stage", "graph"], ["emit", path, "--stage", "after:fuse"]):
        label = " ".join(str(c) for c in command if c != path)
        code, text, error = call(tvmr, *command)
        if code != 0:
            problems.append(f"{label}: exit code {code}: {error}")
            continue
        try:
            if not is_close(evaluate(parse(text), values), expected):
                problems.append(f"{label}: TVM computes something else")
        except Exception as refused:  # TVM raises many kinds.
            problems.append(f"{label}: TVM refuses it: {(str(refused).strip().splitlines() or ['?'])[-1]}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tvmr", type=pathlib.Path)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], default=[])
    parser.add_argument("--keep", type=pathlib.Path, help="keep the files in this directory")
    args = parser.parse_intermixed_args()
    n, failed = 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        directory = args.keep or pathlib.Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        for name in args.models or MODELS:
            model = Model()
            module = MODELS[name](model)
            inputs = model.values(model.inputs)
            weights = model.values(model.weights)
            expected = evaluate(module, [v for _, v in inputs + weights])
            for stage, text in staged(module).items():
                problems = check(args.tvmr.resolve(), directory, name, stage, text, inputs, weights, expected)
                n, failed = n + 1, failed + bool(problems)
                print(f"{name:<10} {stage:<10} {'ok' if not problems else '; '.join(problems)}", flush=True)
    print(f"{n - failed} of {n} modules agree with TVM")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
