"""What the tests share: programs, and a module that is tuned once."""

import numpy as np
import pytest

import tvmr

MATMUL = """
@T.prim_func
def matmul(A: T.Buffer((48, 48), "float32"), B: T.Buffer((48, 48), "float32"), C: T.Buffer((48, 48), "float32")):
    for i, j, k in T.grid(48, 48, 48):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

# `double` writes an output, `add_to` what it also reads.
SEVERAL = """
@I.ir_module
class Module:
    @T.prim_func
    def double(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        for i in range(32):
            with T.block("B"):
                v = T.axis.spatial(32, i)
                B[v] = A[v] * 2

    @T.prim_func
    def add_to(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        for i in range(32):
            with T.block("B"):
                v = T.axis.spatial(32, i)
                B[v] = B[v] + A[v]
"""


def copies(dtype):
    """A program that copies 16 elements of a type."""
    return f"""
@T.prim_func
def copy(A: T.Buffer((16,), "{dtype}"), B: T.Buffer((16,), "{dtype}")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
"""


@pytest.fixture(scope="session")
def matmul():
    return tvmr.tune(MATMUL, trials=8)


@pytest.fixture(scope="session")
def several():
    return tvmr.tune(SEVERAL, trials=4)


W = np.random.default_rng(1).random((4, 8), np.float32)


def field(number, content):
    """A field of a protobuf message: bytes, a text, or an integer."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def value(name, dims, element=1):
    """The description of an input or output."""
    dims = b"".join(field(1, field(2 if isinstance(d, str) else 1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, dims)))


def node(op, inputs, output):
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op)


def onnx_model(nodes, inputs, outputs, weights=()):
    graph = b"".join(field(1, n) for n in nodes)
    for name, array in weights:
        dims = b"".join(field(1, n) for n in array.shape)
        graph += field(5, dims + field(2, 1) + field(8, name) + field(9, array.tobytes()))
    graph += b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


@pytest.fixture
def onnx_file(tmp_path):
    """relu(x · w), with a dimension that has no value."""
    nodes = [node("MatMul", ["x", "w"], "a"), node("Relu", ["a"], "y")]
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_model(nodes, [value("x", ["n", 4])], [value("y", ["n", 8])], [("w", W)]))
    return path
