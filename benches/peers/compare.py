#!/usr/bin/env python3
"""Compares the speed of tvmr with other libraries and compilers.

usage: compare.py TVMR [FILTER ...] [--rounds N] [--venv DIR] [--json]

Times each workload with its schedule (workloads/schedules/NAME.py, if there is one) by `tvmr bench`, and the same
computation by a peer, on one thread each unless stated otherwise, alternately: a round is one run of tvmr and one of the
peer, in alternating order. Prints the medians over the rounds, and the median of their ratios; above 1, tvmr is faster.

* numpy (OpenBLAS) for products of matrices and vectors, on two threads as well, and for softmax;
* onnxruntime for convolutions, softmax and layer normalisation;
* TVM: the best schedule that MetaSchedule finds in 64 trials (cached, see metaschedule.py), and its LLVM back end on the
  program with our schedule: kernel time and compile time.

FILTER is part of the name of a workload or of a peer.

The script makes a virtual environment for itself at the first run (DIR, default ~/.cache/tvmr-peers) and runs in it.
"""
import argparse
import functools
import json
import pathlib
import statistics
import time

from harness import (
    CACHE, batch, calls, environment, in_turns, least_python_us, openblas_threads, program, python_us, schedule, summary,
    tvmr, tvmr_bench,
)  # fmt: skip

# Calls longer than this exceed a time slice of the system.
LONG = 0.002

# ---- peers -----------------------------------------------------------------------------------------------------
# Each returns a function that computes once.


def random(*shape):
    import numpy

    return numpy.random.default_rng(0).random(shape, dtype=numpy.float32) - numpy.float32(0.5)


def matmul(n):
    def make():
        import numpy

        a, b, c = random(n, n), random(n, n), random(n, n)
        return lambda: numpy.matmul(a, b, out=c)

    return make


def matmul_odd():
    import numpy

    a, b, c = random(127, 61), random(61, 93), random(127, 93)
    return lambda: numpy.matmul(a, b, out=c)


def matmul_add():
    import numpy

    a, b, c, d = (random(1024, 1024) for _ in range(4))

    def run():
        numpy.matmul(a, b, out=d)
        numpy.add(d, c, out=d)

    return run


def softmax():
    import numpy

    x, y, s = random(256, 1024), random(256, 1024), random(256, 1)

    def run():
        numpy.max(x, axis=1, keepdims=True, out=s)
        numpy.subtract(x, s, out=y)
        numpy.exp(y, out=y)
        numpy.sum(y, axis=1, keepdims=True, out=s)
        numpy.divide(y, s, out=y)

    return run


def gemv():
    import numpy

    a, x, y = random(1024, 1024), random(1024), random(1024)
    return lambda: numpy.dot(a, x, out=y)


def linear0():
    import numpy

    x, w, b, z = random(784), random(128, 784), random(128), random(128)

    def run():
        numpy.dot(w, x, out=z)
        numpy.add(z, b, out=z)

    return run


def conv2d(channels, **attributes):
    shape = (1, 64, 56, 56)
    return onnx("Conv", [shape, (64, channels, 3, 3)], shape, pads=[1, 1, 1, 1], **attributes)


def layer_norm():
    inputs = [(128, 768), (768,), (768,)]
    return onnx("LayerNormalization", inputs, (128, 768), axis=1, epsilon=1e-5)


def onnx(operator, inputs, output, opset=17, **attributes):
    """A model of one operator; all inputs but the first are constants, like weights."""

    def make():
        import numpy
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper

        data = [random(*shape) for shape in inputs]
        names = [f"x{i}" for i in range(len(data))]
        weights = [numpy_helper.from_array(d, n) for d, n in list(zip(data, names))[1:]]
        node = helper.make_node(operator, names, ["y"], **attributes)
        tensor = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph([node], "g", [tensor("x0", inputs[0])], [tensor("y", output)], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
        binding = session.io_binding()
        result = numpy.empty(output, dtype=numpy.float32)
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        binding.bind_ortvalue_input("x0", value(data[0]))
        binding.bind_ortvalue_output("y", value(result))
        return lambda: session.run_with_iobinding(binding)

    return make


# Workload, peer, the peer's function, threads.
PEERS = [
    ("matmul", "numpy", matmul(128), 1),
    ("matmul_512", "numpy", matmul(512), 1),
    ("matmul_512", "numpy", matmul(512), 2),
    ("matmul_1024", "numpy", matmul(1024), 1),
    ("matmul_add", "numpy", matmul_add, 1),
    ("matmul_odd", "numpy", matmul_odd, 1),
    ("gemv", "numpy", gemv, 1),
    ("linear0", "numpy", linear0, 1),
    ("softmax", "numpy", softmax, 1),
    ("softmax", "onnxruntime", onnx("Softmax", [(256, 1024)], (256, 1024), axis=1), 1),
    ("layer_norm", "onnxruntime", layer_norm(), 1),
    ("conv2d_nchw", "onnxruntime", conv2d(64), 1),
    ("depthwise_conv2d", "onnxruntime", conv2d(1, group=64), 1),
]
# Workloads to compare with the best schedule of MetaSchedule.
TUNED = ["layer_norm", "matmul_int8"]
# Workloads whose scheduled program TVM compiles as well.
COMPILED = ["matmul", "matmul_512", "matmul_int8", "conv2d_nchw", "softmax", "layer_norm", "depthwise_conv2d"]


# ---- comparing -------------------------------------------------------------------------------------------------


def beside_python(binary, name, make, threads, rounds):
    """Compares tvmr with a function; with several threads, also with tvmr on one."""
    openblas_threads(threads)
    run = make()
    n = calls(run)
    # Long or multi-threaded calls share cores with other processes, so the minimum is used for these.
    least = threads > 1 or batch(run, n, time.perf_counter) > LONG
    field, peer_us = ("min_us", least_python_us) if least else ("us", python_us)
    bench = lambda t: tvmr_bench(binary, program(name), *schedule(name), "--threads", t, check=False)[field]
    sides = [lambda: bench(threads), lambda: peer_us(run, n)]
    if threads > 1:
        sides.append(lambda: bench(1))
    ours, theirs, *alone = in_turns(sides, rounds)
    scaling = [one / several for one, several in zip(alone[0], ours)] if alone else None
    return {**summary(ours, theirs), **({"over_one_thread": statistics.median(scaling)} if alone else {})}


def beside_tuned(binary, name, rounds):
    """Compares tvmr's schedule with the best of MetaSchedule."""
    import tvm_kernels

    module = tvm_kernels.tvm.ir.load_json(tvm_kernels.tuned(binary, name)["module"])
    bench = lambda: tvmr_bench(binary, program(name), *schedule(name), check=False)["us"]
    return summary(*in_turns([bench, tvm_kernels.timer(tvm_kernels.build(module)[0], module)], rounds))


def beside_compiled(binary, name, rounds):
    """Compiles the scheduled program with both: kernel times and compile times."""
    import tvm_kernels

    # Without a schedule, the program is taken as written.
    apply = ["apply", program(name), *schedule(name)] if schedule(name) else ["fmt", program(name)]
    module = tvm_kernels.parse(tvmr(binary, *apply, "--dialect", "current"))
    kernel, _ = tvm_kernels.build(module)
    time_kernel = tvm_kernels.timer(kernel, module)
    theirs = lambda: (time_kernel(), 1e6 * tvm_kernels.build(module)[1])

    def ours():
        bench = tvmr_bench(binary, program(name), *schedule(name), check=False)
        return bench["us"], bench["compile_us"]

    mine, others = (list(zip(*side)) for side in in_turns([ours, theirs], rounds))
    return {**summary(mine[0], others[0]), "compiling": summary(mine[1], others[1])}


def comparisons():
    """Workload, peer, and a function of binary and rounds."""
    for name, peer, make, threads in PEERS:
        label = peer if threads == 1 else f"{peer}, {threads} threads"
        yield name, label, functools.partial(beside_python, name=name, make=make, threads=threads)
    for name in TUNED:
        yield name, "TVM, tuned", functools.partial(beside_tuned, name=name)
    for name in COMPILED:
        yield name, "TVM, compiled", functools.partial(beside_compiled, name=name)


def line(r):
    low, high = r["ratio_range"]
    text = (
        f"{r['workload']:<18} tvmr {r['tvmr_us']:10.2f} µs   {r['peer']:<18} {r['peer_us']:10.2f} µs   "
        f"ratio {r['ratio']:5.2f} ({low:.2f} to {high:.2f})"
    )
    if "over_one_thread" in r:
        text += f"   {r['over_one_thread']:.2f} times tvmr on one thread"
    if "compiling" in r:
        c = r["compiling"]
        text += f"   compiling {c['tvmr_us'] / 1e3:.2f} and {c['peer_us'] / 1e3:.0f} ms, ratio {c['ratio']:.0f}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tvmr")
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--venv", type=pathlib.Path, default=CACHE)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    environment(args.venv.absolute())
    results = []
    for name, peer, compare in comparisons():
        if args.filters and not any(f in name or f in peer for f in args.filters):
            continue
        r = {"workload": name, "peer": peer}
        try:
            # Check the results once before timing.
            tvmr_bench(args.tvmr, program(name), *schedule(name))
            r.update(compare(args.tvmr, rounds=args.rounds), rounds=args.rounds)
        except ImportError as missing:
            r["skipped"] = str(missing)
        results.append(r)
        if not args.json:
            print(f"{name:<18} skipped: {r['skipped']}" if "skipped" in r else line(r), flush=True)
    if args.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
