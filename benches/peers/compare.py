#!/usr/bin/env python3
"""How fast is tvmr beside others?

usage: compare.py TVMR [FILTER ...] [--rounds N] [--venv DIR] [--json]

Times each workload with its schedule (workloads/schedules/NAME.py, if there is one) by `tvmr bench`, and the same
computation by a peer, on one thread each, in turns: a round is one run of tvmr and one of the peer, in alternating order.
Printed are the medians over the rounds, and the median of the rounds' ratios; above 1, tvmr is faster.

* numpy (OpenBLAS) for products of matrices and vectors;
* onnxruntime for convolutions, softmax and layer normalisation.

The script makes a virtual environment for itself at the first run (DIR, default ~/.cache/tvmr-peers) and runs in it.
TVM is installed there as well, for records.py.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each list is one run of pip; the last may fail, which costs the workloads that need it.
PACKAGES = [
    ["numpy", "apache-tvm==0.27.0.post1"],
    ["--no-deps", "apache-tvm-ffi==0.1.14.post1"],
    ["onnxruntime", "onnx"],
]
# A batch of calls takes at least so many seconds: long against the clock, short against what else may run.
BATCH = 0.0005
BATCHES = 101
# So long calls are made before any is timed.
WARM_UP = 0.05


def environment(directory):
    """Goes on in the environment of its own, made if it is not there; sets what must be set before numpy starts."""
    python = directory / "bin" / "python"
    done = directory / "packages-installed"
    if not done.exists():
        print(f"installing into {directory}", file=sys.stderr)
        venv.create(directory, with_pip=True, clear=True)
        for packages in PACKAGES:
            run = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages])
            if run.returncode != 0 and packages is not PACKAGES[-1]:
                sys.exit(f"cannot install {' '.join(packages)}")
        done.touch()
    variables = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    if pathlib.Path(sys.prefix) != directory or any(os.environ.get(k) != v for k, v in variables.items()):
        os.environ.update(variables)
        os.execv(python, [str(python), *sys.argv])


# ---- peers -----------------------------------------------------------------------------------------------------
# Each gives the name of the peer and a function that computes once.


def random(*shape):
    import numpy

    return numpy.random.default_rng(0).random(shape, dtype=numpy.float32) - numpy.float32(0.5)


def matmul(n):
    def make():
        import numpy

        a, b, c = random(n, n), random(n, n), random(n, n)
        return "numpy", lambda: numpy.matmul(a, b, out=c)

    return make


def gemv():
    import numpy

    a, x, y = random(1024, 1024), random(1024), random(1024)
    return "numpy", lambda: numpy.dot(a, x, out=y)


def linear0():
    import numpy

    x, w, b, z = random(784), random(128, 784), random(128), random(128)

    def run():
        numpy.dot(w, x, out=z)
        numpy.add(z, b, out=z)

    return "numpy", run


def onnx(operator, inputs, output, opset=17, **attributes):
    """A model of one operator; inputs but the first are constants, as weights are."""

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
        return "onnxruntime", lambda: session.run_with_iobinding(binding)

    return make


PEERS = {
    "matmul": matmul(128),
    "matmul_512": matmul(512),
    "matmul_1024": matmul(1024),
    "gemv": gemv,
    "linear0": linear0,
    "conv2d_nchw": onnx("Conv", [(1, 64, 56, 56), (64, 64, 3, 3)], (1, 64, 56, 56), pads=[1, 1, 1, 1]),
    "depthwise_conv2d": onnx("Conv", [(1, 64, 56, 56), (64, 1, 3, 3)], (1, 64, 56, 56), pads=[1, 1, 1, 1], group=64),
    "softmax": onnx("Softmax", [(256, 1024)], (256, 1024), axis=1),
    "layer_norm": onnx("LayerNormalization", [(128, 768), (768,), (768,)], (128, 768), axis=1, epsilon=1e-5),
}


# ---- timing ----------------------------------------------------------------------------------------------------


def program(name):
    return ROOT / "workloads" / f"{name}.tir"


def schedule(name):
    return ROOT / "workloads" / "schedules" / f"{name}.py"


def tvmr_us(tvmr, name, check):
    command = [tvmr, "bench", program(name), "--format", "json", *([] if check else ["--no-check", "--quiet"])]
    if schedule(name).exists():
        command += ["--trace", schedule(name)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"tvmr bench {name}: exit code {run.returncode}\n{run.stderr.strip()}")
    return json.loads(run.stdout)["us"]


def batch(run, n):
    """Seconds of the processor for a call: of one thread, what the clock shows when nothing else runs."""
    start = time.process_time()
    for _ in range(n):
        run()
    return (time.process_time() - start) / n


def calls(run):
    """How many calls make a batch."""
    n = 1
    while batch(run, n) * n < BATCH:
        n *= 2
    return n


def peer_us(run, n):
    """The median of many batches in a warm loop, as tvmr reports the median of its own."""
    batch(run, max(n, int(n * WARM_UP / BATCH / 2)) if n > 1 else 2)
    return 1e6 * statistics.median(batch(run, n) for _ in range(BATCHES))


def compare(tvmr, name, make, rounds):
    try:
        peer, run = make()
    except ImportError as missing:
        return {"workload": name, "skipped": str(missing)}
    n = calls(run)
    ours, theirs = [tvmr_us(tvmr, name, check=True)], [peer_us(run, n)]
    for i in range(1, rounds):
        # Whoever comes second finds the clock where the other left it.
        turns = [lambda: ours.append(tvmr_us(tvmr, name, check=False)), lambda: theirs.append(peer_us(run, n))]
        for turn in turns if i % 2 else reversed(turns):
            turn()
    ratios = sorted(t / o for t, o in zip(theirs, ours))
    return {
        "workload": name,
        "peer": peer,
        "tvmr_us": statistics.median(ours),
        "peer_us": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "ratio_range": [ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]],
        "rounds": rounds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tvmr")
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--venv", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "tvmr-peers")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    environment(args.venv.absolute())
    results = []
    for name, make in PEERS.items():
        if args.filters and not any(f in name for f in args.filters):
            continue
        r = compare(args.tvmr, name, make, args.rounds)
        results.append(r)
        if args.json:
            continue
        if "skipped" in r:
            print(f"{name:<18} skipped: {r['skipped']}", flush=True)
            continue
        low, high = r["ratio_range"]
        print(
            f"{name:<18} tvmr {r['tvmr_us']:10.2f} µs   {r['peer']:<12} {r['peer_us']:10.2f} µs   "
            f"ratio {r['ratio']:5.2f} ({low:.2f} to {high:.2f})",
            flush=True,
        )
    if args.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
