# Definitions by te alone: scalar arithmetic, several results, reductions, functions in functions.
import tvm
from tvm import te


def matmul(n=16, l=8, m=12, dtype="float32"):
    A = te.placeholder((n, l), name="A", dtype=dtype)
    B = te.placeholder((l, m), name="B", dtype=dtype)
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, C]


def matmul_in_wider_type(n=16, dtype="float16"):
    A = te.placeholder((n, n), name="A", dtype=dtype)
    B = te.placeholder((n, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, n), name="k")
    wide = "float32"
    C = te.compute(
        (n, n), lambda i, j: te.sum(A[i, k].astype(wide) * B[j, k].astype(wide), axis=[k]), name="C"
    )
    return A, B, C


def vector_add_of_any_length():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    return [A, B, C]


def scaled_by_a_number(dtype="float32"):
    n = te.var("n")
    scale = te.var("scale", dtype)
    A = te.placeholder((n, 4), name="A", dtype=dtype)
    C = te.compute(A.shape, lambda i, j: A[i, j] * scale + 1, name="C")
    return [A, scale, C]


def two_results():
    A = te.placeholder((8, 8), name="A")
    low, high = te.compute((8, 8), lambda i, j: (te.min(A[i, j], 0.0), te.max(A[i, j], 0.0)), name="parts")
    total = te.compute((8, 8), lambda *i: low(*i) - high(*i), name="total")
    return [A, low, high, total]


def scalar_result():
    A = te.placeholder((16,), name="A")
    k = te.reduce_axis((0, 16), "k")
    total = te.compute((), lambda: te.sum(A[k], axis=k), name="total")
    half = te.compute((), lambda: total[()] * 0.5, name="half")
    return [A, half]


def several_axes():
    A = te.placeholder((4, 6, 8), name="A")
    k = te.reduce_axis((0, 6), "k")
    r = te.reduce_axis((2, 7), "r")
    B = te.compute((4,), lambda i: te.max(A[i, k, r], axis=[k, r]), name="B")
    return [A, B]


def product_and_minimum():
    A = te.placeholder((4, 6), name="A", dtype="int32")
    k = te.reduce_axis((0, 6), "k")
    product = tvm.te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
    B = te.compute((4,), lambda i: product(A[i, k], axis=k), name="B")
    r = te.reduce_axis((0, 6), "r")
    C = te.compute((4,), lambda i: te.min(A[i, r], axis=r), name="C")
    return [A, B, C]


def position_of_the_largest():
    def combine(x, y):
        is_first = x[1] >= y[1]
        return tvm.tir.Select(is_first, x[0], y[0]), tvm.tir.Select(is_first, x[1], y[1])

    def identity(t0, t1):
        return tvm.tir.const(-1, t0), tvm.te.min_value(t1)

    argmax = te.comm_reducer(combine, identity, name="argmax")
    A = te.placeholder((5, 7), name="A")
    k = te.reduce_axis((0, 7), "k")
    at, value = te.compute((5,), lambda i: argmax((k.var, A[i, k]), axis=k), name="best")
    return [A, at, value]


def padded_and_blurred(n=10):
    A = te.placeholder((n, n), name="A")
    P = te.compute(
        (n + 2, n + 2),
        lambda i, j: te.if_then_else(
            te.all(i >= 1, i < n + 1, j >= 1, j < n + 1), A[i - 1, j - 1], tvm.tir.const(0.0, "float32")
        ),
        name="P",
    )
    di = te.reduce_axis((0, 3), "di")
    dj = te.reduce_axis((0, 3), "dj")
    B = te.compute((n, n), lambda i, j: te.sum(P[i + di, j + dj] / 9.0, axis=[di, dj]), name="B")
    return [A, B]


def every_second_row(n=9):
    A = te.placeholder((n, 6), name="A")
    B = te.compute(((n + 1) // 2, 6), lambda i, j: A[i * 2, 5 - j], name="B")
    return [A, B]


def arithmetic_of_indices(n=12):
    A = te.placeholder((n * n,), name="A", dtype="int32")
    B = te.compute(
        (n, n),
        lambda i, j: A[(i * n + j) % (n * n)] + (i // 3) * 2 - te.truncmod(j, 5) + (i & 3) * (j >> 1),
        name="B",
    )
    return [A, B]


def functions_of_floats():
    A = te.placeholder((6, 6), name="A")
    B = te.compute(
        (6, 6),
        lambda i, j: te.exp(A[i, j]) + te.tanh(A[i, j]) * te.sqrt(te.abs(A[i, j])) - te.log(te.power(A[i, j], 2.0)),
        name="B",
    )
    C = te.compute((6, 6), lambda i, j: te.sigmoid(B[i, j]) + te.floor(B[i, j]) + te.erf(B[i, j]), name="C")
    return [A, C]


def gathered():
    A = te.placeholder((32, 4), name="A")
    at = te.placeholder((6,), name="at", dtype="int32")
    B = te.compute((6, 4), lambda i, j: A[at[i], j], name="B")
    return [A, at, B]


def conditions_and_casts():
    A = te.placeholder((8,), name="A", dtype="int8")
    B = te.compute(
        (8,),
        lambda i: tvm.tir.Select(tvm.tir.any(A[i] > 3, i % 2 == 0), A[i].astype("int32") * 2, -A[i].astype("int32")),
        name="B",
    )
    return [A, B]


def chain_in_a_loop(depth=4):
    A = te.placeholder((8,), name="A")
    x = A
    for d in range(depth):
        if d % 2 == 0:
            x = te.compute((8,), lambda i: x[i] * (d + 1), name=f"up{d}")
        else:
            x = te.compute((8,), lambda i: x[i] - 0.5, name=f"down{d}")
    return [A, x]


def sum_of_a_list():
    inputs = [te.placeholder((4, 4), name=f"x{i}") for i in range(3)]
    out = te.compute((4, 4), lambda i, j: sum([x[i, j] for x in inputs[1:]]) + inputs[0][j, i], name="out")
    return [*inputs, out]


def depthwise_by_hand(c=4, n=8):
    data = te.placeholder((1, c, n, n), name="data")
    kernel = te.placeholder((c, 3, 3), name="kernel")
    ry = te.reduce_axis((0, 3), name="ry")
    rx = te.reduce_axis((0, 3), name="rx")

    def element(b, ch, y, x):
        return te.sum(data[b, ch, y + ry, x + rx] * kernel[ch, ry, rx], axis=[ry, rx])

    out = te.compute((1, c, n - 2, n - 2), element, name="out")
    return [data, kernel, out]


def matmul_add_with_a_free_layout(n=16):
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    C = te.placeholder((n, n), name="C")
    k = te.reduce_axis((0, n), name="k")
    matmul = te.compute(
        (n, n),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="matmul",
        attrs={"layout_free_placeholders": [B]},
    )
    out = te.compute((n, n), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]
