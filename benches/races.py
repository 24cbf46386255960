#!/usr/bin/env python3
"""The value of races and the final: compares the program that they pick with the one that was fastest by its own batches.

    cargo build --release
    python3 benches/races.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--seeds 3] [--trials 64]

A tuner that times each candidate alone would pick the trial with the smallest median of its own batches. For each run
of `tvmr tune`, both programs are benchmarked alternately; a ratio above 1 means that race and final picked the faster one.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

import runs

WORKLOADS = [
    "matmul", "matmul_512", "matmul_odd", "batch_matmul", "conv2d_nchw", "depthwise_conv2d", "gemv", "softmax",
    "layer_norm",
]


def looked_fastest(work_dir):
    """The trace of the trial whose own batches were the fastest."""
    timed = [(statistics.median(c["batch_secs"]), trace) for trace, secs, c in runs.trials(work_dir) if secs and c["batch_secs"]]
    return min(timed, key=lambda t: t[0])[1]


def compare(binary, workload, seed, trials, rounds):
    """The seconds of tuning, and the ratio of the time of the seemingly fastest program to that of the winner."""
    with tempfile.TemporaryDirectory() as work_dir:
        options = ["--trials", trials, "--seed", seed, "--threads", 1]
        elapsed = runs.tvmr_tune(binary, workload, work_dir, *options)["elapsed_s"]
        trace = pathlib.Path(work_dir) / "trace.json"
        trace.write_text(json.dumps(looked_fastest(work_dir)))
        sides = [["--best", "--work-dir", work_dir], ["--trace", trace]]
        us = runs.bench_in_turns(binary, workload, sides, rounds)
        return elapsed, statistics.median(b / a for a, b in zip(*us))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tvmr", default=runs.BINARY)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    print(f"{'workload':<18} {'seconds':>8}  ratio, and that of each seed", flush=True)
    ratios = []
    for workload in args.workloads.split(","):
        found = [compare(args.tvmr, workload, seed, args.trials, args.rounds) for seed in range(args.seeds)]
        ratios.append(statistics.median(r for _, r in found))
        each = " ".join(f"{r:.2f}" for _, r in found)
        print(f"{workload:<18} {statistics.median(s for s, _ in found):8.2f}  {ratios[-1]:.2f} ({each})", flush=True)
    print(f"geometric mean {runs.geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
