#!/usr/bin/env python3
"""Tunes the workloads for a narrower instruction set, and compares them with its peak and with libraries restricted to it.

    python3 benches/peers/instruction_set.py TVMR [--isa avx2] [--trials 64] [--rounds 7] [WORKLOAD ...]

Each workload is tuned on one thread with `--isa`, then its best program and the peers of `compare.py` run in turns. A row has the time,
the share of the peak of the instruction set, measured in the same run, and the share of the machine's roofline bound; then the peer, its
time, and the median of its time divided by ours. OpenBLAS (NumPy) is restricted to Haswell's kernels, and oneDNN to AVX2; ONNX Runtime's
own kernels have no such switch and use the widest vectors of the machine, which the row says. It needs `numpy`, `onnx`, `onnxruntime` and
`threadpoolctl` (benches/peers/README.md).
"""

import argparse
import os
import statistics
import sys
import tempfile

# Read when the libraries are loaded.
RESTRICTED = {"OPENBLAS_CORETYPE": "Haswell", "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
if __name__ == "__main__" and any(os.environ.get(k) != v for k, v in RESTRICTED.items()):
    os.environ.update(RESTRICTED)
    os.execv(sys.executable, [sys.executable, *sys.argv])

import harness  # noqa: E402
from compare import PEERS  # noqa: E402

sys.path.insert(0, str(harness.ROOT / "benches"))
from builds import WORKLOADS  # noqa: E402


def row(args, name):
    """Tunes a workload and prints its row; returns the share of the peak."""
    with tempfile.TemporaryDirectory() as work_dir:
        options = ["--isa", args.isa, "--threads", 1]
        harness.tvmr_tune(args.tvmr, name, work_dir, "--trials", args.trials, *options)
        best = ["--best", "--work-dir", work_dir, *options]
        found = []

        def mine():
            found.append(harness.tvmr_bench(args.tvmr, harness.program(name), *best, check=False))
            return found[-1]["us"]

        peers = [(label, make) for workload, label, make, threads in PEERS if workload == name and threads == 1]
        runs = [(label, make()) for label, make in peers]
        sides = [mine] + [lambda run=run, n=harness.calls(run): harness.python_us(run, n) for _, run in runs]
        ours, *theirs = harness.in_turns(sides, args.rounds)
    share = lambda field: statistics.median(f[field] for f in found) if all(f[field] is not None for f in found) else None
    peak, roofline = share("isa_peak_fraction"), share("roofline_fraction")
    text = lambda value: "" if value is None else f"{value:.2f}"
    rest = [f"{label}{' (not restricted)' * (label == 'onnxruntime')} {statistics.median(us):.1f} µs, "
            f"{statistics.median(t / o for t, o in zip(us, ours)):.2f}" for (label, _), us in zip(runs, theirs)]
    print(f"{name:18} {statistics.median(ours):10.2f} {text(peak):>6} {text(roofline):>6}  {'; '.join(rest)}", flush=True)
    return peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tvmr")
    parser.add_argument("workload", nargs="*", default=WORKLOADS)
    parser.add_argument("--isa", default="avx2", choices=["portable", "avx2", "avx512-256"])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_intermixed_args()
    print(f"{'workload':18} {'µs':>10} {'peak':>6} {'bound':>6}  peer, its time over ours")
    for name in args.workload:
        row(args, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
