"""TVM's side: reads workloads, tunes them with MetaSchedule, compiles them with LLVM, and times them.

usage: tvm_kernels.py TEXT.tir OUT.json [--trials N] [--seed S]

As a script it tunes one program (in TVM's current dialect) and writes the result; `tuned` runs it in a process of its
own and caches the result, because tuning takes minutes. Importing this module imports TVM.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

import harness

# All kernels run on one thread, for this machine.
TARGET = {"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": 1}


def parse(text):
    module = tvm.script.from_source(text, {"T": T, "I": I, "tvm": tvm})
    return module if isinstance(module, tvm.IRModule) else tvm.IRModule({"main": module})


def build(module):
    """The compiled kernel, and the seconds that TVM took to lower and compile it."""
    start = time.perf_counter()
    kernel = tvm.compile(module, tvm.target.Target(TARGET)).jit()
    kernel["main"]  # LLVM emits machine code on demand.
    return kernel, time.perf_counter() - start


def arguments(module):
    """An array for each parameter, filled at random; TVM aligns them to 64 bytes, as tvmr does."""
    generator = numpy.random.default_rng(0)
    arrays = []
    for buffer in module["main"].params:
        shape = [int(extent) for extent in buffer.shape]
        kind = numpy.dtype(str(buffer.dtype))
        if kind.kind == "f":
            data = generator.random(shape) - 0.5
        else:
            data = generator.integers(-10 if kind.kind == "i" else 0, 10, shape)
        arrays.append(tvm.runtime.tensor(data.astype(kind)))
    return arrays


def timer(kernel, module):
    """A function that times the kernel: the median of warm batches, in microseconds."""
    arrays = arguments(module)
    evaluate = lambda n, repeat: kernel.time_evaluator("main", tvm.cpu(), number=n, repeat=repeat)(*arrays).results
    once = max(statistics.median(evaluate(3, 3)), 1e-8)
    n = max(1, round(harness.BATCH / once))
    warm = max(1, round(harness.WARM_UP / once / n))

    def time_it():
        evaluate(n, warm)
        return 1e6 * statistics.median(evaluate(n, harness.BATCHES))

    return time_it


def current(binary, path):
    return harness.tvmr(binary, "fmt", path, "--dialect", "current")


def tuned(binary, name, trials=64, seed=0, reuse=True, store=harness.CACHE / "tuned"):
    """The result of MetaSchedule for a workload, from the cache if it is there."""
    store.mkdir(parents=True, exist_ok=True)
    kept = store / f"{pathlib.Path(name).stem}-trials{trials}-seed{seed}-tvm{tvm.__version__}.json"
    text = current(binary, harness.program(name))
    if reuse and kept.exists():
        found = json.loads(kept.read_text())
        if found["program"] == text and found["target"] == TARGET:
            return found
    with tempfile.TemporaryDirectory() as work:
        source, result = pathlib.Path(work) / "program.py", pathlib.Path(work) / "result.json"
        source.write_text(text)
        command = [sys.executable, __file__, source, result, "--trials", str(trials), "--seed", str(seed)]
        start = time.perf_counter()
        with open(kept.with_suffix(".log"), "w") as log:
            run = subprocess.run(command, stdout=log, stderr=log, cwd=work)
        seconds = time.perf_counter() - start
        if run.returncode != 0:
            sys.exit(f"tuning {name} by TVM failed, see {kept.with_suffix('.log')}")
        found = {**json.loads(result.read_text()), "command_s": seconds, "program": text, "target": TARGET}
    kept.write_text(json.dumps(found))
    return found


def tune(text, work, trials, seed):
    """Tunes with MetaSchedule's defaults, one core for everything."""
    from tvm.s_tir import meta_schedule as ms

    module, target = parse(text), tvm.target.Target(TARGET)
    # Both start processes that import TVM, which does not count as tuning.
    builder, runner = ms.builder.LocalBuilder(max_workers=1), ms.runner.LocalRunner()
    start = time.perf_counter()
    database = ms.tune_tir(
        module, target, str(work), trials, builder=builder, runner=runner, num_tuning_cores=1, seed=seed
    )
    best = ms.tir_integration.compile_tir(database, module, target)
    seconds = time.perf_counter() - start
    if best is None:
        sys.exit("no valid candidate")
    records = len(database.get_all_tuning_records())
    return {"module": tvm.ir.save_json(best.mod), "trace": str(best.trace), "tuning_s": seconds, "records": records}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    # MetaSchedule takes 0 for "no seed".
    result = tune(args.text.read_text(), args.text.parent, args.trials, args.seed + 1)
    args.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
