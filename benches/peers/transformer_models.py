#!/usr/bin/env python3
"""Writes models of the kinds that language models are made of, with random weights, as ONNX files.

    python3 benches/peers/transformer_models.py DIRECTORY

* `bert.onnx`: an encoder of BERT-base's size: 12 layers, 768 wide, 12 heads, 128 tokens. Its input is what the embedding returns.
* `prefill.onnx` and `decode.onnx`: a decoder layer like Llama's: 2048 wide, 32 heads with 8 for keys and values, rotary positions,
  RMS norms, a gated network of 5632; for 128 tokens at once, and for one token behind 127 others.
* `prefill_int8.onnx` and `decode_int8.onnx`: the same with weights of bytes and a scale for each column (`DequantizeLinear`).

`models.py` compares them with ONNX Runtime and OpenVINO. It needs `onnx` and `numpy`.
"""

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """A graph in the making: each method adds a node and returns the name of its result."""

    def __init__(self, seed=1):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def node(self, op, *inputs, n_outputs=1, **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if n_outputs == 1 else names

    def constant(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, rows, columns, int8=False):
        values = self.rng.standard_normal((rows, columns)).astype(np.float32) / np.sqrt(rows, dtype=np.float32)
        if not int8:
            return self.constant(values)
        scale = np.abs(values).max(axis=0) / np.float32(127)
        whole = np.clip(np.round(values / scale), -127, 127).astype(np.int8)
        return self.node("DequantizeLinear", self.constant(whole), self.constant(scale), axis=1)

    def vector(self, n, around=0.0):
        return self.constant((around + self.rng.standard_normal(n) * 0.1).astype(np.float32))

    def linear(self, x, rows, columns, bias=True, int8=False):
        y = self.node("MatMul", x, self.weight(rows, columns, int8))
        return self.node("Add", y, self.vector(columns)) if bias else y

    def reshape(self, x, *shape):
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def save(self, path, inputs, outputs):
        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [value(n, s) for n, s in inputs.items()],
            [value(n, s) for n, s in outputs.items()],
            self.initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        onnx.save(model, path)


def attention(b, q, k, v, width_of_head, mask=None):
    """Attention over (batch, heads, tokens, width) tensors; `k` is transposed already."""
    scores = b.node("MatMul", q, k)
    scores = b.node("Mul", scores, b.constant(np.float32(width_of_head**-0.5)))
    if mask is not None:
        scores = b.node("Add", scores, mask)
    return b.node("MatMul", b.node("Softmax", scores, axis=-1), v)


def gelu(b, x):
    """GELU as frameworks export it."""
    erf = b.node("Erf", b.node("Div", x, b.constant(np.float32(2**0.5))))
    whole = b.node("Mul", x, b.node("Add", erf, b.constant(np.float32(1))))
    return b.node("Mul", whole, b.constant(np.float32(0.5)))


def bert(path, layers=12, width=768, heads=12, tokens=128):
    b = Builder()
    x = "x"
    head = width // heads
    norm = lambda x: b.node("LayerNormalization", x, b.vector(width, 1.0), b.vector(width), axis=-1, epsilon=1e-12)
    for _ in range(layers):
        split = lambda perm: b.node("Transpose", b.reshape(b.linear(x, width, width), 1, tokens, heads, head), perm=perm)
        q, k, v = split([0, 2, 1, 3]), split([0, 2, 3, 1]), split([0, 2, 1, 3])
        y = b.node("Transpose", attention(b, q, k, v, head), perm=[0, 2, 1, 3])
        y = b.linear(b.reshape(y, 1, tokens, width), width, width)
        x = norm(b.node("Add", x, y))
        y = b.linear(gelu(b, b.linear(x, width, 4 * width)), 4 * width, width)
        x = norm(b.node("Add", x, y))
    b.nodes.append(helper.make_node("Identity", [x], ["y"]))
    b.save(path, {"x": [1, tokens, width]}, {"y": [1, tokens, width]})


def decoder(path, tokens, past, int8=False, width=2048, heads=32, kv_heads=8, inner=5632):
    """One layer for `tokens` new tokens behind `past` others, whose keys and values are inputs; the new ones are outputs."""
    b = Builder()
    head, total = width // heads, past + tokens

    def rms_norm(x):
        mean = b.node("ReduceMean", b.node("Mul", x, x), axes=[-1], keepdims=1)
        root = b.node("Sqrt", b.node("Add", mean, b.constant(np.float32(1e-5))))
        return b.node("Mul", b.node("Div", x, root), b.vector(width, 1.0))

    angles = np.outer(np.arange(past, total), 10000.0 ** (-np.arange(0, head, 2) / head))
    cos, sin = (b.constant(np.tile(f(angles), 2).astype(np.float32)) for f in (np.cos, np.sin))

    def rotated(x):
        """Rotary positions in the form that turns halves."""
        first, second = b.node("Split", x, n_outputs=2, axis=-1)
        turned = b.node("Concat", b.node("Neg", second), first, axis=-1)
        return b.node("Add", b.node("Mul", x, cos), b.node("Mul", turned, sin))

    def heads_of(x, n):
        y = b.linear(x, width, n * head, bias=False, int8=int8)
        return b.node("Transpose", b.reshape(y, 1, tokens, n, head), perm=[0, 2, 1, 3])

    def for_all_heads(x):
        """Each head of keys or values serves several of queries."""
        each = heads // kv_heads
        wide = b.node("Expand", b.reshape(x, 1, kv_heads, 1, total, head),
                      b.constant(np.array([1, kv_heads, each, total, head], np.int64)))
        return b.reshape(wide, 1, heads, total, head)

    h = rms_norm("x")
    q, k, v = rotated(heads_of(h, heads)), rotated(heads_of(h, kv_heads)), heads_of(h, kv_heads)
    if past:
        k, v = b.node("Concat", "past_k", k, axis=2), b.node("Concat", "past_v", v, axis=2)
    mask = None
    if tokens > 1:
        later = np.arange(total)[None, :] > np.arange(past, total)[:, None]
        mask = b.constant(np.where(later, np.float32(-1e9), np.float32(0)))
    y = attention(b, q, b.node("Transpose", for_all_heads(k), perm=[0, 1, 3, 2]), for_all_heads(v), head, mask)
    y = b.reshape(b.node("Transpose", y, perm=[0, 2, 1, 3]), 1, tokens, width)
    x = b.node("Add", "x", b.linear(y, width, width, bias=False, int8=int8))
    h = rms_norm(x)
    gate = b.linear(h, width, inner, bias=False, int8=int8)
    gate = b.node("Mul", gate, b.node("Sigmoid", gate))
    y = b.node("Mul", gate, b.linear(h, width, inner, bias=False, int8=int8))
    y = b.node("Add", x, b.linear(y, inner, width, bias=False, int8=int8))
    for name, value in (("y", y), ("k", k), ("v", v)):
        b.nodes.append(helper.make_node("Identity", [value], [name]))
    cache = lambda n: [1, kv_heads, n, head]
    inputs = {"x": [1, tokens, width]} | ({"past_k": cache(past), "past_v": cache(past)} if past else {})
    b.save(path, inputs, {"y": [1, tokens, width], "k": cache(total), "v": cache(total)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    bert(directory / "bert.onnx")
    for name, int8 in (("", False), ("_int8", True)):
        decoder(directory / f"prefill{name}.onnx", 128, 0, int8)
        decoder(directory / f"decode{name}.onnx", 1, 127, int8)


if __name__ == "__main__":
    main()
