"""Writes workload_points.json: elements of the workloads' results as NumPy computes them in float64.

Run with a Python that has NumPy:  python tests/data/workload_points.py

Element number n of parameter p is a hash of (p, n), so that tests/interpreter.rs can make the same inputs.
"""

import json
import pathlib

import numpy as np

N_POINTS = 8


def splitmix(x):
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def param(number, *shape, integer=False):
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        h = splitmix(np.arange(n, dtype=np.uint64) + (np.uint64(number) << np.uint64(32))) >> np.uint64(40)
    values = (h % np.uint64(15)).astype(np.int64) - 7 if integer else h.astype(np.float64) / 2**23 - 1
    return values.reshape(shape)


def f32(x):
    return float(np.float32(x))


def pad(x, axes):
    return np.pad(x, [(1, 1) if a in axes else (0, 0) for a in range(x.ndim)])


def windows(x, size, axes, stride=1):
    w = np.lib.stride_tricks.sliding_window_view(x, size, axes)
    return w[tuple(slice(None, None, stride if a in axes else 1) for a in range(x.ndim))]


def matmul(n, m, k):
    return param(0, n, k) @ param(1, k, m)


def layer_norm(n, m):
    x, g, b = param(0, n, m), param(1, m), param(2, m)
    inv = f32(1 / m)
    s1, s2 = x.sum(1, keepdims=True), (x * x).sum(1, keepdims=True)
    return (x - s1 * inv) / np.sqrt(s2 * inv - (s1 * inv) ** 2 + f32(1e-5)) * g + b


def softmax(n, m):
    x = param(0, n, m)
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def mlp():
    r = np.maximum(param(0, 1, 784) @ param(1, 128, 784).T + param(2, 128), 0)
    return r @ param(3, 10, 128).T + param(4, 10)


def gelu(x):
    inner = np.tanh(f32(0.7978845608) * (x + f32(0.044715) * x * x * x))
    return 0.5 * x * (1 + inner)


RESULTS = {
    "batch_matmul": lambda: param(0, 16, 128, 128) @ param(1, 16, 128, 128),
    "conv1d": lambda: np.einsum("nclr,ocr->nol", windows(param(0, 1, 64, 258), (3,), (2,)), param(1, 64, 64, 3)),
    "conv2d_nchw": lambda: np.einsum(
        "nchwrs,ocrs->nohw",
        windows(pad(param(0, 1, 64, 56, 56), (2, 3)), (3, 3), (2, 3)),
        param(1, 64, 64, 3, 3),
        optimize=True,
    ),
    "conv2d_nhwc": lambda: np.einsum(
        "nhwcrs,rsco->nhwo",
        windows(pad(param(0, 1, 56, 56, 64), (1, 2)), (3, 3), (1, 2)),
        param(1, 3, 3, 64, 64),
        optimize=True,
    ),
    "depthwise_conv2d": lambda: np.einsum(
        "nchwrs,crs->nchw", windows(pad(param(0, 1, 64, 56, 56), (2, 3)), (3, 3), (2, 3)), param(1, 64, 3, 3)
    ),
    "ewise_chain": lambda: (param(0, 512, 512) + 1) * 2 - param(0, 512, 512),
    "gelu": lambda: gelu(param(0, 512, 768)),
    "gemv": lambda: param(0, 1024, 1024) @ param(1, 1024),
    "layer_norm": lambda: layer_norm(128, 768),
    "linear0": lambda: param(0, 1, 784) @ param(1, 128, 784).T + param(2, 128),
    "matmul": lambda: matmul(128, 128, 128),
    "matmul_512": lambda: matmul(512, 512, 512),
    "matmul_1024": lambda: matmul(1024, 1024, 1024),
    "matmul_add": lambda: matmul(1024, 1024, 1024) + param(2, 1024, 1024),
    "matmul_bt": lambda: param(0, 256, 256) @ param(1, 256, 256).T,
    "matmul_int8": lambda: param(0, 256, 256, integer=True) @ param(1, 256, 256, integer=True),
    "matmul_odd": lambda: matmul(127, 93, 61),
    "matmul_relu": lambda: np.maximum(matmul(128, 128, 128), 0),
    "max_pool2d": lambda: windows(param(0, 1, 64, 112, 112), (2, 2), (2, 3), stride=2).max((4, 5)),
    "mlp": mlp,
    "relu": lambda: np.maximum(param(0, 512, 512), 0),
    "row_max": lambda: param(0, 512, 512).max(1),
    "row_sum": lambda: param(0, 256, 4096).sum(1),
    "softmax": lambda: softmax(256, 1024),
    "sum_all": lambda: param(0, 1024, 1024).sum().reshape(1),
    "sum_all_scalar": lambda: param(0, 1024, 1024).sum().reshape(1),
    "transpose": lambda: param(0, 1024, 512).T,
    "vector_add": lambda: param(0, 65536) + param(1, 65536),
}


def main():
    lines = []
    for name, result in RESULTS.items():
        y = result()
        chosen = splitmix(np.arange(N_POINTS, dtype=np.uint64)) % np.uint64(y.size)
        at = sorted({0, y.size - 1, *map(int, chosen)})
        points = [[[int(i) for i in np.unravel_index(p, y.shape)], float(y.flat[p])] for p in at]
        lines.append(f"  {json.dumps(name)}: {json.dumps({'shape': y.shape, 'points': points})}")
    out = pathlib.Path(__file__).with_suffix(".json")
    out.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
