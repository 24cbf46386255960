#!/usr/bin/env python3
"""Compares whole models with ONNX Runtime and OpenVINO, side by side: results, times, memory and loading.

    python3 benches/peers/models.py TVMR [--seconds 60] [--threads 1] [--rounds 9] [--shape NAME=1,3,640,640] [--quantise]
        [--memory] [--tuning] MODEL ...

A model is a path, or the name of one of the networks of the `onnx` package (`onnx_models.py` lists them), which get random weights.
Each is tuned for so many seconds, into a database that `--work-dir` keeps. Then the three run in turns: each waits until the threads
of the others sleep, then makes a call to warm up and three that count; a row has the medians. `vs best` is the time of the faster peer
divided by ours: above 1 we are faster. `bound` is the sum of the rooflines of the tuned functions, as `tvmr bench` knows them, divided by
the measured time. `error` is max|a - b| / max|b| against ONNX Runtime.

All compute in float32. Where floats are multiplied with weights of bytes, the others would round the floats to bytes as well, which is
faster and less precise; `--quantise` lets them.

tvmr is called as its users call it: the model is built into a shared library with its weights, which Python loads. The same process
calls all three. With `--memory`, a process of its own loads the model by each of them and calls it once: milliseconds of both, and how
much that added to the process's largest resident memory. With `--tuning`, there is the expected time of a call after so many seconds of
tuning, from the records (a function without a result counts as written), and the trials of the functions that took most of the time.
It needs `onnx`, `onnxruntime`, `openvino` and `numpy` (benches/peers/README.md).
"""

import argparse
import datetime
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx_models import LIGHT, with_random_weights
from onnx_nodes import identifier


# Seconds for the threads of the other libraries to fall asleep.
PAUSE = 0.05


def arrays_of(model, shapes):
    """Random inputs of a model: those that are not initializers, with the shapes given or written in it."""
    rng = np.random.default_rng(1)
    weights = {t.name for t in model.graph.initializer}
    arrays = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        shape = shapes.get(value.name) or [d.dim_value or 1 for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        random = rng.standard_normal(shape) if np.issubdtype(dtype, np.floating) else rng.integers(0, 100, shape)
        arrays[value.name] = random.astype(dtype)
    return arrays


class OnnxRuntime:
    def __init__(self, path, arrays, threads, quantise=True):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        if not quantise:
            # 1 is float32.
            options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.arrays = arrays

    def __call__(self):
        return self.session.run(None, self.arrays)


class OpenVino:
    def __init__(self, path, arrays, threads, quantise=True):
        import openvino

        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({name: list(a.shape) for name, a in arrays.items()})
        config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        if not quantise:
            config["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
        self.request = core.compile_model(model, "CPU", config).create_infer_request()
        self.arrays = arrays

    def __call__(self):
        self.request.infer(self.arrays, share_inputs=True)
        return [np.array(o.data) for o in self.request.output_tensors]


class Tvmr:
    """A model in a shared library, called by the module that `tvmr build --emit python` writes."""

    def __init__(self, path, arrays, threads, results):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        if threads > 1:
            self.module.set_num_threads(threads)
        self.arrays = [np.ascontiguousarray(a) for a in arrays.values()]
        self.results = [np.empty_like(r, order="C") for r in results]

    def __call__(self):
        self.module.main(*self.arrays, *self.results)
        return self.results


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def loaded(make):
    """What `make` makes, with the milliseconds that it and a first call took."""
    start = time.perf_counter()
    made = make()
    made()
    return made, (time.perf_counter() - start) * 1e3


def resident(which):
    """The resident memory of this process in MiB: now (`VmRSS`), or the largest (`VmHWM`)."""
    line = next(l for l in pathlib.Path("/proc/self/status").read_text().splitlines() if l.startswith(which))
    return int(line.split()[1]) / 1024


def load_alone(kind, path, threads, inputs, outputs):
    """Loads a model in this process and calls it once; prints the milliseconds, and the MiB that this took."""
    arrays, results = dict(np.load(inputs)), list(np.load(outputs).values())
    if kind == "OpenVino":
        import openvino  # noqa: F401, so that its import does not count
    # The largest memory so far is forgotten.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    make = {
        "Tvmr": lambda: Tvmr(pathlib.Path(path), arrays, threads, results),
        "OnnxRuntime": lambda: OnnxRuntime(path, arrays, threads),
        "OpenVino": lambda: OpenVino(path, arrays, threads),
    }[kind]
    _, ms = loaded(make)
    print(json.dumps([ms, resident("VmHWM") - before]))


def print_memory(args, path, module, arrays, expected, directory):
    inputs, outputs = (pathlib.Path(directory) / name for name in ("inputs.npz", "outputs.npz"))
    np.savez(inputs, **arrays)
    np.savez(outputs, **{f"{i:04}": a for i, a in enumerate(expected)})
    row = []
    for kind, file in (("Tvmr", module), ("OnnxRuntime", path), ("OpenVino", path)):
        alone = ["--load-alone", kind, str(file), str(args.threads), str(inputs), str(outputs)]
        found = subprocess.run([sys.executable, __file__, *alone], capture_output=True, text=True, check=True)
        ms, mib = json.loads(found.stdout.splitlines()[-1])
        row.append(f"{ms:8.0f} ms {mib:6.0f} MiB")
    print(f"    loaded and called once: tvmr {row[0]}, ONNX Runtime {row[1]}, OpenVINO {row[2]}", flush=True)


def print_tuning(tuned, work_dir):
    """The expected time of a call over the seconds of tuning, and the trials of the longest functions."""
    weights = {t["hash"]: t["weight"] for t in tuned["tasks"]}
    ms = {t["hash"]: (t["baseline_us"] or 0) * t["weight"] / 1e3 for t in tuned["tasks"]}
    found = []
    for line in (pathlib.Path(work_dir) / "database_tuning_record.json").read_text().splitlines():
        _, (_, secs, *_), context = json.loads(line)
        if context["workload"] in weights and context.get("status") == "ok":
            when = datetime.datetime.fromisoformat(context["time"]).timestamp()
            found.append((when, context["workload"], min(secs) * weights[context["workload"]] * 1e3))
    found.sort()
    first, curve, points = found[0][0] if found else 0, [], [0, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120]
    for when, function, cost in found:
        while points and when - first > points[0]:
            curve.append(f"{points.pop(0)} s {sum(ms.values()):.2f}")
        ms[function] = min(ms[function] or math.inf, cost)
    curve.append(f"end {sum(ms.values()):.2f}")
    print(f"    expected ms after: {', '.join(curve)}")
    tasks = sorted(tuned["tasks"], key=lambda t: -(t["weighted_us"] or 0))
    trials = ", ".join(f"{t['func']} {t['trials']}" for t in tasks[:10])
    print(f"    {tuned['trials']} trials of {len(tasks)} functions in {tuned['elapsed_s']:.0f} s; the longest: {trials}", flush=True)


def compare(args, path, directory):
    """Prints the row of a model, and returns the times of the faster peer and of tvmr."""
    cores = os.sched_getaffinity(0)
    model = onnx.load(path)
    shapes = {name: [int(n) for n in extents.split(",")] for name, extents in (s.split("=") for s in args.shape)}
    arrays = arrays_of(model, shapes)
    given = [f"--shape={identifier(name)}={','.join(map(str, a.shape))}" for name, a in arrays.items()]
    work_dir = args.work_dir or directory
    common = [path, *given, "--threads", str(args.threads), "--work-dir", work_dir]
    start = time.perf_counter()
    limits = ["--max-seconds", str(args.seconds), "--trials", "100000"]
    tuned = subprocess.run([args.tvmr, "tune", *common, *limits, "--format", "json"],
                           capture_output=True, text=True)
    spent = time.perf_counter() - start
    if tuned.returncode != 0:
        print(f"{path.stem:24} {tuned.stderr.strip().splitlines()[-1]}")
        return None
    module = pathlib.Path(directory) / f"built_{identifier(path.stem)}.py"
    subprocess.run([args.tvmr, "build", *common, "-o", module.with_suffix(""), "--emit", "python"], check=True,
                   capture_output=True)
    bench = subprocess.run([args.tvmr, "bench", *common, "--best", "--format", "json"], check=True, capture_output=True, text=True)
    bound = json.loads(bench.stdout)["bound_us"] / 1e6
    theirs, load_theirs = loaded(lambda: OnnxRuntime(path, arrays, args.threads, args.quantise))
    expected = theirs()
    vino, _ = loaded(lambda: OpenVino(path, arrays, args.threads, args.quantise))
    # OpenVINO may leave the calling thread on one core, where threads started by it would stay.
    os.sched_setaffinity(0, cores)
    ours, load_ours = loaded(lambda: Tvmr(module, arrays, args.threads, expected))
    error = max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(ours(), expected, strict=True))
    times = ([], [], [])
    deadline = time.perf_counter() + args.measure
    while len(times[0]) < args.rounds or time.perf_counter() < deadline and len(times[0]) < 1000:
        for call, list_ in zip((ours, theirs, vino), times):
            # Threads of the others go on spinning for a while, and the first call finds their data in the caches.
            time.sleep(PAUSE)
            call()
            list_.extend(seconds(call) for _ in range(3))
    us, ort, ov = (statistics.median(t) for t in times)
    faster = min(ort, ov)
    print(f"{path.stem:24} {us * 1e3:9.3f} {ort * 1e3:9.3f} {ov * 1e3:9.3f} {faster / us:8.2f} {bound / us:6.2f} {error:8.1e} {spent:7.0f} "
          f"{load_ours:7.0f} {load_theirs:7.0f}", flush=True)
    if args.memory:
        print_memory(args, path, module, arrays, expected, directory)
    if args.tuning:
        print_tuning(json.loads(tuned.stdout), work_dir)
    return faster / us


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tvmr")
    parser.add_argument("model", nargs="+")
    parser.add_argument("--seconds", type=float, default=60, help="of tuning, for each model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15, help="at least so many calls of each")
    parser.add_argument("--measure", type=float, default=5, help="seconds of calls for each model")
    parser.add_argument("--shape", action="append", default=[], help="of an input: NAME=1,3,640,640")
    parser.add_argument("--work-dir", help="keeps the database")
    parser.add_argument("--quantise", action="store_true", help="the others may quantise what they multiply with weights of bytes")
    parser.add_argument("--memory", action="store_true", help="memory and time of loading, each in a process of its own")
    parser.add_argument("--tuning", action="store_true", help="expected times over the seconds of tuning, and trials")
    args = parser.parse_args()
    args.tvmr = str(pathlib.Path(args.tvmr).resolve())
    print(f"{'model':24} {'tvmr ms':>9} {'ORT ms':>9} {'OV ms':>9} {'vs best':>8} {'bound':>6} {'error':>8} {'tuned s':>7} {'load ms':>7} {'ORT ms':>7}")
    ratios = []
    for name in args.model:
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(name)
            if path.suffix != ".onnx":
                path = pathlib.Path(directory) / f"{name}.onnx"
                onnx.save(with_random_weights(onnx.load(LIGHT / f"light_{name}.onnx")), path)
            ratios.append(compare(args, path, directory))
    known = [r for r in ratios if r]
    if known:
        mean = math.exp(statistics.mean(map(math.log, known)))
        print(f"geometric mean of {len(known)} of {len(ratios)} models: {mean:.2f}; worst {min(known):.2f}")
    return 0 if len(known) == len(ratios) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load-alone"]:
        kind, path, threads, inputs, outputs = sys.argv[2:]
        load_alone(kind, path, int(threads), inputs, outputs)
    else:
        sys.exit(main())
