"""Shared code of the scripts that run tvmr: paths of workloads, commands, and alternating timing."""
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = ROOT / "target" / "release" / "tvmr"
# The workloads for comparisons of tuning, with TVM and between strategies.
TUNED = [
    "matmul", "matmul_512", "matmul_1024", "matmul_relu", "linear0", "batch_matmul", "conv2d_nchw", "depthwise_conv2d",
    "softmax", "layer_norm", "row_sum", "matmul_odd", "gemv",
]


def program(name):
    """The program of a workload, or the one at a path."""
    return pathlib.Path(name) if str(name).endswith(".tir") else ROOT / "workloads" / f"{name}.tir"


def schedule(name):
    """Arguments that name the workload's schedule, if it has one."""
    path = ROOT / "workloads" / "schedules" / f"{name}.py"
    return ["--trace", path] if path.exists() else []


def tvmr(binary, *arguments):
    run = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"tvmr {' '.join(map(str, arguments))}: exit code {run.returncode}\n{run.stderr.strip()}")
    return run.stdout


def tvmr_tune(binary, name, work_dir, *options):
    """The JSON document of `tvmr tune`."""
    return json.loads(tvmr(binary, "tune", program(name), "--work-dir", work_dir, "--format", "json", "--quiet", *options))


def tvmr_bench(binary, path, *arguments, check=True):
    """The JSON document of `tvmr bench`."""
    unchecked = [] if check else ["--no-check", "--quiet"]
    return json.loads(tvmr(binary, "bench", path, "--format", "json", *arguments, *unchecked))


def records(work_dir):
    """The trace, the seconds (none for failures) and the context of each record of a database, in the order of checking."""
    with open(pathlib.Path(work_dir) / "database_tuning_record.json", encoding="utf-8") as lines:
        for line in lines:
            _, (trace, run_secs, _, _), context = json.loads(line)
            yield trace, run_secs, context


def trials(work_dir):
    """The records of trials."""
    return (r for r in records(work_dir) if r[2].get("role", "trial") == "trial")


def in_turns(sides, rounds):
    """Calls each side once per round; returns a list of results for each.

    Whoever comes second finds the clock where the other left it, so the order alternates.
    """
    results = [[] for _ in sides]
    for i in range(rounds):
        order = list(range(len(sides)))
        for k in order if i % 2 == 0 else reversed(order):
            results[k].append(sides[k]())
    return results


def bench_in_turns(binary, name, sides, rounds, field="us"):
    """Benchmarks a workload with the arguments of each side alternately; returns a list of times for each."""
    turn = lambda side: lambda: tvmr_bench(binary, program(name), *side, check=False)[field]
    return in_turns([turn(side) for side in sides], rounds)


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def median_with_interval(values):
    """The median, and its 95 % interval by resampling."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), (medians[50], medians[1949])
