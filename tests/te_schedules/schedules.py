# Schedules of tensor expressions. Each function defines a program of a small shape and schedules it; a test carries the schedule out,
# and compares the results of the program with those of the program as written.
from tvm import te, topi
import tvm


def vectors(n=50):
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    return te.create_schedule(C.op), A, B, C


def vector_add_as_written():
    s, A, B, C = vectors()
    return s, [A, B, C]


def vector_add_parallel():
    s, A, B, C = vectors()
    s[C].parallel(C.op.axis[0])
    return s, [A, B, C]


def vector_add_vectorized():
    s, A, B, C = vectors(64)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    return s, [A, B, C]


def vector_add_imperfect():
    s, A, B, C = vectors(50)
    outer, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].vectorize(inner)
    return s, [A, B, C]


def vector_add_bound_to_threads():
    s, A, B, C = vectors(50)
    bx, tx = s[C].split(C.op.axis[0], factor=8)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    return s, [A, B, C]


def vector_add_nparts():
    s, A, B, C = vectors(50)
    outer, inner = s[C].split(C.op.axis[0], nparts=4)
    s[C].unroll(outer)
    s.normalize()
    return s, [A, B, C]


def product(n=12, m=10, l=8):
    A = te.placeholder((n, l), name="A")
    B = te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), A, B, C, k


def matmul_blocked():
    s, A, B, C, k = product(16, 16, 8)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 4)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    return s, [A, B, C]


def matmul_vectorized_inside_the_reduction():
    s, A, B, C, k = product(16, 16, 8)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 4)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=4)
    s[C].reorder(xo, yo, ko, xi, ki, yi)
    s[C].vectorize(yi)
    return s, [A, B, C]


def matmul_imperfect():
    s, A, B, C, k = product(12, 10, 7)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 4)
    ko, ki = s[C].split(k, factor=3)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    return s, [A, B, C]


def matmul_cache_write():
    s, A, B, C, k = product(16, 16, 8)
    CC = s.cache_write(C, "local")
    xo, yo, xi, yi = s[C].tile(s[C].op.axis[0], s[C].op.axis[1], 8, 4)
    s[CC].compute_at(s[C], yo)
    xc, yc = s[CC].op.axis
    (kc,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kc, factor=4)
    s[CC].reorder(ko, xc, ki, yc)
    s[CC].unroll(ki)
    s[CC].vectorize(yc)
    s[C].parallel(xo)
    return s, [A, B, C]


def matmul_cache_write_imperfect():
    s, A, B, C, k = product(12, 10, 7)
    CC = s.cache_write(C, "local")
    xo, yo, xi, yi = s[C].tile(s[C].op.axis[0], s[C].op.axis[1], 8, 4)
    s[CC].compute_at(s[C], yo)
    ko, ki = s[CC].split(s[CC].op.reduce_axis[0], factor=4)
    s[CC].reorder(ko, s[CC].op.axis[0], ki, s[CC].op.axis[1])
    return s, [A, B, C]


def matmul_cache_read():
    s, A, B, C, k = product(16, 16, 8)
    AA = s.cache_read(A, "local", [C])
    BB = s.cache_read(B, "local", [C])
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 4)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    s[AA].compute_at(s[C], ko)
    s[BB].compute_at(s[C], ko)
    s[BB].vectorize(s[BB].op.axis[1])
    return s, [A, B, C]


def matmul_as_on_a_gpu():
    s, A, B, C, k = product(16, 16, 8)
    AA = s.cache_read(A, "shared", [C])
    AL = s.cache_read(AA, "local", [C])
    BB = s.cache_read(B, "shared", [C])
    BL = s.cache_read(BB, "local", [C])
    CL = s.cache_write(C, "local")
    block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis((0, 4), "threadIdx.x")
    y, x = s[C].op.axis
    by, yi = s[C].split(y, factor=8)
    bx, xi = s[C].split(x, factor=4)
    s[C].reorder(by, bx, yi, xi)
    s[C].bind(by, te.thread_axis("blockIdx.y"))
    s[C].bind(bx, block_x)
    s[C].bind(xi, thread_x)
    s[CL].compute_at(s[C], xi)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], factor=4)
    s[CL].reorder(ko, ki, s[CL].op.axis[0], s[CL].op.axis[1])
    for shared, local in [(AA, AL), (BB, BL)]:
        s[shared].compute_at(s[CL], ko)
        s[local].compute_at(s[CL], ki)
        tx, rest = s[shared].split(s[shared].op.axis[0], nparts=4)
        s[shared].bind(tx, thread_x)
    return s, [A, B, C]


def matmul_packed():
    A = te.placeholder((8, 8), name="A")
    B = te.placeholder((8, 16), name="B")
    k = te.reduce_axis((0, 8), name="k")
    packed = te.compute((4, 8, 4), lambda bigN, kk, littleN: B[kk, bigN * 4 + littleN], name="packedB")
    C = te.compute((8, 16), lambda m, n: te.sum(A[m, k] * packed[n // 4, k, tvm.tir.indexmod(n, 4)], axis=k), name="C")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 4)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=4)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].unroll(ki)
    s[CC].vectorize(nc)
    s[C].parallel(mo)
    bigN, _, littleN = s[packed].op.axis
    s[packed].vectorize(littleN)
    s[packed].parallel(bigN)
    return s, [A, B, C]


def matmul_add():
    A = te.placeholder((8, 8), name="A")
    B = te.placeholder((8, 12), name="B")
    C = te.placeholder((8, 12), name="C")
    k = te.reduce_axis((0, 8), name="k")
    matmul = te.compute((8, 12), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")
    out = te.compute((8, 12), lambda i, j: matmul[i, j] + C[i, j], name="out")
    s = te.create_schedule(out.op)
    io, jo, ii, ji = s[out].tile(out.op.axis[0], out.op.axis[1], 4, 4)
    fused = s[out].fuse(io, jo)
    s[out].parallel(fused)
    s[out].vectorize(ji)
    s[matmul].compute_at(s[out], fused)
    mi, mj = s[matmul].op.axis
    ko, ki = s[matmul].split(k, factor=4)
    s[matmul].reorder(ko, ki, mi, mj)
    s[matmul].vectorize(mj)
    return s, [A, B, C, out]


def matmul_order_of_calls_between_stages():
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] + B[j, i], name="C")
    D = te.compute((8, 8), lambda i, j: C[i, j] - 1.0, name="D")
    s = te.create_schedule(D.op)
    # Producers first, and the loop to which one is attached is split later.
    s[B].vectorize(B.op.axis[1])
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_root()
    jo, ji = s[D].split(D.op.axis[1], 4)
    s[D].vectorize(ji)
    return s, [A, D]


def sums(n=6, m=20):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_schedule(B.op), A, B, k


def sum_rfactor():
    s, A, B, k = sums()
    ko, ki = s[B].split(k, factor=4)
    BF = s.rfactor(B, ki)
    s[BF].vectorize(s[BF].op.axis[0])
    return s, [A, B]


def sum_rfactor_outer_attached():
    s, A, B, k = sums()
    ko, ki = s[B].split(k, factor=5)
    BF = s.rfactor(B, ko)
    s[BF].compute_at(s[B], s[B].op.axis[0])
    s[B].parallel(s[B].op.axis[0])
    s[BF].unroll(s[BF].op.reduce_axis[0])
    return s, [A, B]


def sum_rfactor_bound_to_threads():
    s, A, B, k = sums()
    ko, ki = s[B].split(k, factor=4)
    BF = s.rfactor(B, ki)
    xo, xi = s[B].split(s[B].op.axis[0], factor=3)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    return s, [A, B]


def sum_rfactor_last_dimension():
    s, A, B, k = sums()
    ko, ki = s[B].split(k, factor=4)
    BF = s.rfactor(B, ki, factor_axis=-1)
    i, f = s[BF].op.axis
    s[BF].parallel(i)
    s[BF].vectorize(f)
    return s, [A, B]


def sum_of_everything():
    A = te.placeholder((6, 8), name="A")
    k, l = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 8), "l")
    B = te.compute((), lambda: te.sum(A[k, l], axis=[k, l]), name="B")
    s = te.create_schedule(B.op)
    both = s[B].fuse(k, l)
    ko, ki = s[B].split(both, factor=8)
    BF = s.rfactor(B, ki)
    s[BF].vectorize(s[BF].op.axis[0])
    return s, [A, B]


def sum_with_reduction_outside():
    s, A, B, k = sums()
    ko, ki = s[B].split(k, factor=4)
    s[B].reorder(ko, B.op.axis[0], ki)
    return s, [A, B]


def sum_of_two_axes_reordered():
    A = te.placeholder((6, 5, 8), name="A")
    k, l = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 8), "l")
    B = te.compute((6,), lambda i: te.sum(A[i, k, l], axis=[k, l]), name="B")
    s = te.create_schedule(B.op)
    lo, li = s[B].split(l, 4)
    s[B].reorder(lo, k, B.op.axis[0], li)
    s[B].unroll(li)
    return s, [A, B]


def maximum_of_rows():
    A = te.placeholder((6, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    B = te.compute((6,), lambda i: te.max(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(k, nparts=4)
    BF = s.rfactor(B, ko)
    s[BF].compute_at(s[B], s[B].op.axis[0])
    return s, [A, B]


def convolution(inlined=True):
    data = te.placeholder((1, 3, 8, 8), name="data")
    weight = te.placeholder((4, 3, 3, 3), name="weight")
    pad = te.compute(
        (1, 3, 10, 10),
        lambda n, c, y, x: tvm.tir.if_then_else(
            tvm.tir.all(y >= 1, y < 9, x >= 1, x < 9), data[n, c, y - 1, x - 1], 0.0
        ),
        name="pad",
    )
    rc, ry, rx = te.reduce_axis((0, 3), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute(
        (1, 4, 8, 8),
        lambda n, f, y, x: te.sum(pad[n, rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    out = te.compute((1, 4, 8, 8), lambda n, f, y, x: te.max(conv[n, f, y, x], 0.0), name="out")
    return te.create_schedule(out.op), data, weight, pad, conv, out


def conv_inline_pad():
    s, data, weight, pad, conv, out = convolution()
    s[pad].compute_inline()
    n, f, y, x = s[out].op.axis
    s[conv].compute_at(s[out], y)
    s[out].vectorize(x)
    return s, [data, weight, out]


def conv_pad_in_a_tile():
    s, data, weight, pad, conv, out = convolution()
    n, f, y, x = s[out].op.axis
    fo, fi = s[out].split(f, 2)
    yo, yi = s[out].split(y, 4)
    s[out].reorder(n, fo, yo, fi, yi, x)
    s[conv].compute_at(s[out], yo)
    cn, cf, cy, cx = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    s[conv].reorder(cn, rc, cf, cy, ry, rx, cx)
    s[conv].vectorize(cx)
    s[pad].compute_at(s[conv], rc)
    s[out].parallel(fo)
    return s, [data, weight, out]


def conv_input_tensors():
    s, data, weight, _, _, out = convolution()
    conv = out.op.input_tensors[0]
    pad, _ = conv.op.input_tensors
    s[pad].compute_inline()
    BB = s.cache_read(weight, "local", [conv])
    n, f, y, x = s[out].op.axis
    s[conv].compute_at(s[out], f)
    s[BB].compute_at(s[conv], s[conv].op.axis[1])
    return s, [data, weight, out]


def softmax():
    A = te.placeholder((6, 10), name="A")
    k, l = te.reduce_axis((0, 10), "k"), te.reduce_axis((0, 10), "l")
    top = te.compute((6,), lambda i: te.max(A[i, k], axis=k), name="top")
    e = te.compute((6, 10), lambda i, j: te.exp(A[i, j] - top[i]), name="e")
    total = te.compute((6,), lambda i: te.sum(e[i, l], axis=l), name="total")
    out = te.compute((6, 10), lambda i, j: e[i, j] / total[i], name="out")
    return te.create_schedule(out.op), A, top, e, total, out


def softmax_by_rows():
    s, A, top, e, total, out = softmax()
    i, j = s[out].op.axis
    for stage in [top, e, total]:
        s[stage].compute_at(s[out], i)
    s[out].parallel(i)
    s[e].vectorize(s[e].op.axis[1])
    return s, [A, out]


def softmax_exp_inlined():
    s, A, top, e, total, out = softmax()
    s[e].compute_inline()
    s[top].compute_at(s[out], s[out].op.axis[0])
    s[total].compute_at(s[out], s[out].op.axis[0])
    return s, [A, out]


def depthwise_relu():
    data = te.placeholder((1, 4, 8, 8), name="data")
    weight = te.placeholder((4, 3, 3), name="weight")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute(
        (1, 4, 6, 6),
        lambda n, c, y, x: te.sum(data[n, c, y + ry, x + rx] * weight[c, ry, rx], axis=[ry, rx]),
        name="depthwise",
    )
    relu = te.compute((1, 4, 6, 6), lambda n, c, y, x: te.max(conv[n, c, y, x], 0.0), name="relu")
    s = te.create_schedule(relu.op)
    n, c, y, x = s[relu].op.axis
    nc = s[relu].fuse(n, c)
    yo, yi = s[relu].split(y, 4)
    s[relu].parallel(nc)
    s[relu].vectorize(x)
    s[conv].compute_at(s[relu], yo)
    s[conv].unroll(s[conv].op.reduce_axis[0])
    s[conv].unroll(s[conv].op.reduce_axis[1])
    return s, [data, weight, relu]


def storage_aligned():
    A = te.placeholder((6, 10), name="A")
    B = te.compute((6, 10), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((10, 6), lambda i, j: B[j, i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].storage_align(s[B].op.axis[0], 16, 1)
    io, ii = s[C].split(s[C].op.axis[0], 4)
    s[B].compute_at(s[C], io)
    return s, [A, C]


def pragma_unroll():
    s, A, B, C, k = product()
    ko, ki = s[C].split(k, 4)
    s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 16)
    s[C].pragma(C.op.axis[0], "unroll_explicit", False)
    return s, [A, B, C]


def set_scope():
    A = te.placeholder((6, 10), name="A")
    B = te.compute((6, 10), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 10), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].set_scope("local")
    s[B].compute_at(s[C], s[C].op.axis[0])
    return s, [A, C]


def fused_everything():
    s, A, B, C, k = product(6, 5, 8)
    fused = s[C].fuse(*s[C].op.axis)
    outer, inner = s[C].split(fused, factor=7)
    s[C].parallel(outer)
    return s, [A, B, C]


def split_twice():
    s, A, B, C = vectors(60)
    a, b = s[C].split(C.op.axis[0], factor=16)
    b, c = s[C].split(b, factor=3)
    s[C].reorder(c, a, b)
    return s, [A, B, C]


def transposed():
    A = te.placeholder((9, 14), name="A")
    B = te.compute((14, 9), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    AA = s.cache_read(A, "local", [B])
    io, jo, ii, ji = s[B].tile(*s[B].op.axis, 4, 4)
    s[AA].compute_at(s[B], jo)
    s[B].vectorize(ji)
    return s, [A, B]


def cumulative_chain():
    A = te.placeholder((8, 12), name="A")
    B = te.compute((8, 12), lambda i, j: A[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((8, 10), lambda i, j: te.sum(B[i, j + k], axis=k), name="C")
    D = te.compute((8, 8), lambda i, j: C[i, j] + C[i, j + 2], name="D")
    s = te.create_schedule(D.op)
    jo, ji = s[D].split(s[D].op.axis[1], 4)
    s[C].compute_at(s[D], jo)
    s[B].compute_at(s[C], s[C].op.axis[0])
    s[D].parallel(s[D].op.axis[0])
    return s, [A, D]


def several_readers():
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 8), lambda i, j: A[i, j] * B[i, j], name="C")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "local", [B, C])
    s[B].compute_at(s[C], s[C].op.axis[1])
    s[AA].compute_at(s[C], s[C].op.axis[0])
    return s, [A, C]


def two_results():
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule([B.op, C.op])
    s[B].vectorize(B.op.axis[1])
    s[C].parallel(C.op.axis[0])
    return s, [A, B, C]


def cached_reduction_stage():
    A = te.placeholder((6, 20), name="A")
    k = te.reduce_axis((0, 20), "k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((6,), lambda i: B[i] / 20.0, name="C")
    s = te.create_schedule(C.op)
    BL = s.cache_write(B, "local")
    ko, ki = s[BL].split(k, factor=5)
    s[BL].compute_at(s[B], s[B].op.axis[0])
    s[B].compute_at(s[C], s[C].op.axis[0])
    return s, [A, C]


def rfactor_then_cache_write():
    s, A, B, k = sums()
    ko, ki = s[B].split(k, factor=4)
    BF = s.rfactor(B, ki)
    BL = s.cache_write(B, "local")
    s[BL].compute_at(s[B], s[B].op.axis[0])
    s[BF].parallel(s[BF].op.axis[1])
    return s, [A, B]


def unit_extents():
    A = te.placeholder((1, 8, 1), name="A")
    B = te.compute((1, 8, 1), lambda i, j, l: A[i, j, l] + 1.0, name="B")
    C = te.compute((1, 8, 1), lambda i, j, l: B[i, j, l] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[1])
    s[B].unroll(s[B].op.axis[2])
    jo, ji = s[C].split(C.op.axis[0], 4)
    return s, [A, C]


def of_topi():
    A = te.placeholder((1, 2, 8, 8), name="A")
    W = te.placeholder((4, 2, 3, 3), name="W")
    conv = topi.nn.conv2d_nchw(A, W, 1, 1, 1)
    out = topi.nn.relu(conv)
    s = te.create_schedule(out.op)
    s[conv.op.input_tensors[0]].compute_inline()
    n, f, y, x = s[out].op.axis
    s[out].parallel(f)
    s[conv].compute_at(s[out], y)
    return s, [A, W, out]
