#!/usr/bin/env python3
"""Compares whole models with ONNX Runtime and OpenVINO, side by side: results, times, memory and loading.

    python3 benches/peers/models.py TVMR [--seconds 60] [--threads 1] [--rounds 9] [--shape NAME=1,3,640,640] MODEL ...

A model is a path, or the name of one of the networks of the `onnx` package (`onnx_models.py` lists them), which get random weights.
Each is tuned for so many seconds, into a database that `--work-dir` keeps. Then the three run in turns: each waits until the threads
of the others sleep, then makes a call to warm up and three that count; a row has the medians. `vs best` is the time of the faster peer
divided by ours: above 1 we are faster. `error` is max|a - b| / max|b| against ONNX Runtime.

tvmr is called as its users call it: the model is built into a shared library with its weights, which Python loads. The same process
calls all three. It needs `onnx`, `onnxruntime`, `openvino` and `numpy` (benches/peers/README.md).
"""

import argparse
import importlib.util
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
    def __init__(self, path, arrays, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.arrays = arrays

    def __call__(self):
        return self.session.run(None, self.arrays)


class OpenVino:
    def __init__(self, path, arrays, threads):
        import openvino

        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({name: list(a.shape) for name, a in arrays.items()})
        config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        self.request = core.compile_model(model, "CPU", config).create_infer_request()
        self.arrays = arrays

    def __call__(self):
        self.request.infer(self.arrays, share_inputs=True)
        return [np.array(o.data) for o in self.request.output_tensors]


class Tvmr:
    """A model in a shared library, called by the module that `tvmr build --emit python` writes."""

    def __init__(self, module, arrays, results):
        spec = importlib.util.spec_from_file_location(module.stem, module)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
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


def compare(args, path, directory):
    """Prints the row of a model, and returns the times of the faster peer and of tvmr."""
    cores = os.sched_getaffinity(0)
    model = onnx.load(path)
    shapes = {name: [int(n) for n in extents.split(",")] for name, extents in (s.split("=") for s in args.shape)}
    arrays = arrays_of(model, shapes)
    given = [f"--shape={identifier(name)}={','.join(map(str, a.shape))}" for name, a in arrays.items()]
    common = [path, *given, "--threads", str(args.threads), "--work-dir", args.work_dir or directory]
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
    theirs, load_theirs = loaded(lambda: OnnxRuntime(path, arrays, args.threads))
    expected = theirs()
    vino, _ = loaded(lambda: OpenVino(path, arrays, args.threads))
    # OpenVINO may leave the calling thread on one core, where threads started by it would stay.
    os.sched_setaffinity(0, cores)
    ours, load_ours = loaded(lambda: Tvmr(module, arrays, expected))
    if args.threads > 1:
        ours.module.set_num_threads(args.threads)
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
    print(f"{path.stem:24} {us * 1e3:9.3f} {ort * 1e3:9.3f} {ov * 1e3:9.3f} {faster / us:8.2f} {error:8.1e} {spent:7.0f} "
          f"{load_ours:7.0f} {load_theirs:7.0f}", flush=True)
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
    args = parser.parse_args()
    args.tvmr = str(pathlib.Path(args.tvmr).resolve())
    print(f"{'model':24} {'tvmr ms':>9} {'ORT ms':>9} {'OV ms':>9} {'vs best':>8} {'error':>8} {'tuned s':>7} {'load ms':>7} {'ORT ms':>7}")
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
    sys.exit(main())
