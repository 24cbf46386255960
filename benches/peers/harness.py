"""Shared code of the scripts: their environment, running tvmr, and alternating timing."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import venv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from runs import ROOT, TUNED, geometric_mean, in_turns, program, schedule, tvmr, tvmr_bench, tvmr_tune  # noqa: E402, F401

CACHE = pathlib.Path.home() / ".cache" / "tvmr-peers"
# Each list is one run of pip; if one after the second fails, the peers that need it are skipped.
PACKAGES = [
    ["numpy", "apache-tvm==0.27.0.post1", "threadpoolctl"],
    ["--no-deps", "apache-tvm-ffi==0.1.14.post1"],
    ["onnxruntime", "onnx"],
    # Imports of TVM's tuner.
    ["cloudpickle", "psutil", "tornado", "xgboost-cpu"],
]
# Minimum seconds of a batch: long compared to the clock's resolution, short compared to disturbances.
BATCH = 0.0005
BATCHES = 101
# Seconds of warm-up.
WARM_UP = 0.05


def environment(directory):
    """Restarts the script in its own environment, created if needed, with the variables that libraries read at start."""
    python = directory / "bin" / "python"
    done = directory / "packages-installed"
    wanted = json.dumps(PACKAGES)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing into {directory}", file=sys.stderr)
        venv.create(directory, with_pip=True)
        for packages in PACKAGES:
            run = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages])
            if run.returncode != 0 and packages in PACKAGES[:2]:
                sys.exit(f"cannot install {' '.join(packages)}")
        done.write_text(wanted)
    # OpenBLAS starts a thread per core; `openblas_threads` sets how many it uses.
    variables = {"OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": str(os.cpu_count())}
    if pathlib.Path(sys.prefix) != directory or any(os.environ.get(k) != v for k, v in variables.items()):
        os.environ.update(variables)
        os.execv(python, [str(python), *sys.argv])


def openblas_threads(n):
    """Sets the number of threads of NumPy's products."""
    import numpy  # The library must be loaded to be found.
    import threadpoolctl

    threadpoolctl.threadpool_limits(limits=n, user_api="blas")
    return numpy


# ---- timing ----------------------------------------------------------------------------------------------------


def batch(run, n, clock):
    """Seconds for a call."""
    start = clock()
    for _ in range(n):
        run()
    return (clock() - start) / n


def calls(run):
    """Number of calls in a batch."""
    n = 1
    while batch(run, n, time.perf_counter) * n < BATCH:
        n *= 2
    return n


def python_us(run, n):
    """The median of many batches in a warm loop, as tvmr reports the median of its own.

    The processor time of the process is, for one thread, what the clock shows when nothing else runs.
    """
    batch(run, max(n, int(n * WARM_UP / BATCH / 2)) if n > 1 else 2, time.process_time)
    return 1e6 * statistics.median(batch(run, n, time.process_time) for _ in range(BATCHES))


def least_python_us(run, n):
    """The fastest batch by wall-clock time, as tvmr reports it: for calls that cannot avoid disturbances."""
    batch(run, 2 * n, time.perf_counter)
    return 1e6 * min(batch(run, n, time.perf_counter) for _ in range(BATCHES))


def summary(ours, theirs):
    """Medians, the median of the rounds' ratios, and their deciles."""
    ratios = sorted(t / o for t, o in zip(theirs, ours))
    return {
        "tvmr_us": statistics.median(ours),
        "peer_us": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "ratio_range": [ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]],
    }
