"""What the tests share: programs, and a module that is tuned once."""

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
