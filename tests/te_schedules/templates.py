# Templates of AutoTVM: programs with schedules that have knobs. benches/peers/te_templates.py tunes each of them.
from tvm import autotvm, te
import tvm


@autotvm.template("templates/matmul")
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)

    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


@autotvm.template("templates/conv2d_nchw")
def conv2d_nchw(N, CI, H, W, CO, K, dtype="float32"):
    data = te.placeholder((N, CI, H, W), name="data", dtype=dtype)
    weight = te.placeholder((CO, CI, K, K), name="weight", dtype=dtype)
    p = K // 2
    pad = te.compute(
        (N, CI, H + 2 * p, W + 2 * p),
        lambda n, c, y, x: tvm.tir.if_then_else(
            tvm.tir.all(y >= p, y < H + p, x >= p, x < W + p),
            data[n, c, y - p, x - p],
            tvm.tir.const(0, dtype),
        ),
        name="pad",
    )
    rc = te.reduce_axis((0, CI), name="rc")
    ry = te.reduce_axis((0, K), name="ry")
    rx = te.reduce_axis((0, K), name="rx")
    conv = te.compute(
        (N, CO, H, W),
        lambda n, f, y, x: te.sum(pad[n, rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    cfg = autotvm.get_config()
    s = te.create_schedule(conv.op)
    n, f, y, x = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    cfg.define_split("tile_f", f, num_outputs=2)
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_split("tile_rc", rc, num_outputs=2)
    cfg.define_knob("auto_unroll_max_step", [0, 64, 512])
    cfg.add_flop(2 * N * H * W * CO * CI * K * K)

    s[pad].compute_inline()
    cache = s.cache_write(conv, "local")
    n, f, y, x = s[conv].op.axis
    fo, fi = cfg["tile_f"].apply(s, conv, f)
    yo, yi = cfg["tile_y"].apply(s, conv, y)
    xo, xi = cfg["tile_x"].apply(s, conv, x)
    s[conv].reorder(n, fo, yo, xo, fi, yi, xi)
    outer = s[conv].fuse(n, fo, yo)
    s[conv].parallel(outer)
    s[conv].vectorize(xi)
    s[cache].compute_at(s[conv], xo)
    n, f, y, x = s[cache].op.axis
    rc, ry, rx = s[cache].op.reduce_axis
    ro, ri = cfg["tile_rc"].apply(s, cache, rc)
    s[cache].reorder(ro, ry, rx, ri, n, f, y, x)
    s[cache].vectorize(x)
    s[cache].pragma(ro, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    return s, [data, weight, conv]


@autotvm.template("templates/depthwise_conv2d")
def depthwise_conv2d(C, H, W, K, dtype="float32"):
    data = te.placeholder((1, C, H + K - 1, W + K - 1), name="data", dtype=dtype)
    weight = te.placeholder((C, K, K), name="weight", dtype=dtype)
    ry, rx = te.reduce_axis((0, K), name="ry"), te.reduce_axis((0, K), name="rx")
    conv = te.compute(
        (1, C, H, W),
        lambda n, c, y, x: te.sum(data[n, c, y + ry, x + rx] * weight[c, ry, rx], axis=[ry, rx]),
        name="depthwise",
    )
    relu = te.compute((1, C, H, W), lambda n, c, y, x: te.max(conv[n, c, y, x], tvm.tir.const(0, dtype)), name="relu")
    s = te.create_schedule(relu.op)
    cfg = autotvm.get_config()
    n, c, y, x = s[relu].op.axis
    cfg.define_split("tile_c", c, num_outputs=2)
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_annotate("ann_reduce", [ry, rx], policy="try_unroll")
    co, ci = cfg["tile_c"].apply(s, relu, c)
    yo, yi = cfg["tile_y"].apply(s, relu, y)
    s[relu].reorder(n, co, yo, ci, yi, x)
    s[relu].parallel(s[relu].fuse(n, co))
    s[relu].vectorize(x)
    s[conv].compute_at(s[relu], yo)
    cfg["ann_reduce"].apply(s, conv, list(s[conv].op.reduce_axis))
    s[conv].vectorize(s[conv].op.axis[3])
    return s, [data, weight, relu]


@autotvm.template("templates/dense")
def dense(N, K, M, dtype="float32"):
    data = te.placeholder((N, K), name="data", dtype=dtype)
    weight = te.placeholder((M, K), name="weight", dtype=dtype)
    k = te.reduce_axis((0, K), name="k")
    out = te.compute((N, M), lambda i, j: te.sum(data[i, k] * weight[j, k], axis=k), name="dense")
    s = te.create_schedule(out.op)
    cfg = autotvm.get_config()
    y, x = s[out].op.axis
    (k,) = s[out].op.reduce_axis
    y_axes = cfg.define_split("tile_y", y, num_outputs=3)
    x_axes = cfg.define_split("tile_x", x, num_outputs=3)
    k_axes = cfg.define_split("tile_k", k, num_outputs=2)
    cfg.define_reorder(
        "reorder",
        [y_axes[0], x_axes[0], y_axes[1], x_axes[1], k_axes[0], k_axes[1], y_axes[2], x_axes[2]],
        policy="interval_all",
        interval=(4, 6),
    )
    yo, ym, yi = cfg["tile_y"].apply(s, out, y)
    xo, xm, xi = cfg["tile_x"].apply(s, out, x)
    ko, ki = cfg["tile_k"].apply(s, out, k)
    cfg["reorder"].apply(s, out, [yo, xo, ym, xm, ko, ki, yi, xi])
    s[out].parallel(yo)
    s[out].vectorize(xi)
    return s, [data, weight, out]


@autotvm.template("templates/batch_matmul")
def batch_matmul(B, N, K, M, dtype="float32"):
    X = te.placeholder((B, N, K), name="X", dtype=dtype)
    Y = te.placeholder((B, M, K), name="Y", dtype=dtype)
    k = te.reduce_axis((0, K), name="k")
    Z = te.compute((B, N, M), lambda b, i, j: te.sum(X[b, i, k] * Y[b, j, k], axis=k), name="Z")
    cfg = autotvm.get_config()
    s = te.create_schedule(Z.op)
    local = s.cache_write(Z, "local")
    b, y, x = s[Z].op.axis
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=16)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=64)
    cfg.define_knob("vectorize", [True, False])
    yo, yi = cfg["tile_y"].apply(s, Z, y)
    xo, xi = cfg["tile_x"].apply(s, Z, x)
    s[Z].reorder(b, yo, xo, yi, xi)
    bxyo = s[Z].fuse(b, yo, xo)
    s[Z].parallel(bxyo)
    s[local].compute_at(s[Z], bxyo)
    (k,) = s[local].op.reduce_axis
    _, y, x = s[local].op.axis
    s[local].reorder(k, y, x)
    if cfg["vectorize"].val:
        s[local].vectorize(x)
    return s, [X, Y, Z]


@autotvm.template("templates/gemv")
def gemv(N, K, dtype="float32"):
    A = te.placeholder((N, K), name="A", dtype=dtype)
    x = te.placeholder((K,), name="x", dtype=dtype)
    k = te.reduce_axis((0, K), name="k")
    y = te.compute((N,), lambda i: te.sum(A[i, k] * x[k], axis=k), name="y")
    cfg = autotvm.get_config()
    s = te.create_schedule(y.op)
    cfg.define_split("tile_k", k, num_outputs=2, filter=lambda e: e.size[-1] in [4, 8, 16, 32])
    cfg.define_split("tile_y", y.op.axis[0], num_outputs=2, policy="power2", max_factor=16)
    ko, ki = cfg["tile_k"].apply(s, y, k)
    partial = s.rfactor(y, ki)
    io, ii = cfg["tile_y"].apply(s, y, s[y].op.axis[0])
    s[y].parallel(io)
    s[partial].compute_at(s[y], ii)
    s[partial].reorder(s[partial].op.reduce_axis[0], s[partial].op.axis[0])
    s[partial].vectorize(s[partial].op.axis[0])
    return s, [A, x, y]


@autotvm.template("templates/reduction")
def reduction(N, M, dtype="float32"):
    A = te.placeholder((N, M), name="A", dtype=dtype)
    k = te.reduce_axis((0, M), name="k")
    B = te.compute((N,), lambda i: te.sum(A[i, k], axis=k), name="B")
    cfg = autotvm.get_config()
    s = te.create_schedule(B.op)
    cfg.define_knob("lanes", [4, 8, 16])
    ko, ki = s[B].split(k, factor=cfg["lanes"].val)
    partial = s.rfactor(B, ki)
    s[B].parallel(s[B].op.axis[0])
    s[partial].compute_at(s[B], s[B].op.axis[0])
    s[partial].reorder(s[partial].op.reduce_axis[0], s[partial].op.axis[0])
    s[partial].vectorize(s[partial].op.axis[0])
    return s, [A, B]


@autotvm.template("templates/softmax")
def softmax(N, M, dtype="float32"):
    A = te.placeholder((N, M), name="A", dtype=dtype)
    k, l = te.reduce_axis((0, M), "k"), te.reduce_axis((0, M), "l")
    top = te.compute((N,), lambda i: te.max(A[i, k], axis=k), name="top")
    e = te.compute((N, M), lambda i, j: te.exp(A[i, j] - top[i]), name="e")
    total = te.compute((N,), lambda i: te.sum(e[i, l], axis=l), name="total")
    out = te.compute((N, M), lambda i, j: e[i, j] / total[i], name="out")
    cfg = autotvm.get_config()
    s = te.create_schedule(out.op)
    i, j = s[out].op.axis
    cfg.define_split("rows", i, num_outputs=2)
    cfg.define_knob("inline", [0, 1])
    io, ii = cfg["rows"].apply(s, out, i)
    s[out].parallel(io)
    s[out].vectorize(j)
    s[top].compute_at(s[out], ii)
    s[total].compute_at(s[out], ii)
    if cfg["inline"].val == 1:
        s[e].compute_inline()
    else:
        s[e].compute_at(s[out], ii)
        s[e].vectorize(s[e].op.axis[1])
    return s, [A, out]


@autotvm.template("templates/transpose")
def transpose(N, M, dtype="float32"):
    A = te.placeholder((N, M), name="A", dtype=dtype)
    B = te.compute((M, N), lambda i, j: A[j, i], name="B")
    cfg = autotvm.get_config()
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    cfg.define_split("tile_i", i, num_outputs=2, policy="verbose", max_factor=64)
    cfg.define_split("tile_j", j, num_outputs=2, policy="verbose", max_factor=64)
    cfg.define_annotate("ann", [cfg.axis(i), cfg.axis(j)], policy="try_unroll_vec")
    io, ii = cfg["tile_i"].apply(s, B, i)
    jo, ji = cfg["tile_j"].apply(s, B, j)
    s[B].reorder(io, jo, ii, ji)
    s[B].parallel(io)
    cfg["ann"].apply(s, B, [ii, ji])
    return s, [A, B]


@autotvm.template("templates/vector_add")
def vector_add(N, dtype="float32"):
    A = te.placeholder((N,), name="A", dtype=dtype)
    B = te.placeholder((N,), name="B", dtype=dtype)
    C = te.compute((N,), lambda i: A[i] + B[i], name="C")
    cfg = autotvm.get_config()
    s = te.create_schedule(C.op)
    cfg.define_split("tile", C.op.axis[0], num_outputs=3, policy="candidate", candidate=[[-1, 4, 8], [-1, 16, 8], [-1, 16, 16]])
    outer, middle, inner = cfg["tile"].apply(s, C, C.op.axis[0])
    s[C].parallel(outer)
    s[C].vectorize(inner)
    return s, [A, B, C]
