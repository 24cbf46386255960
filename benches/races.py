#!/usr/bin/env python3
"""What races and the final are worth: the program that they pick, against the one that looked fastest when it was timed.

    cargo build --release
    python3 benches/races.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--seeds 3] [--trials 64]

Of each run of `tvmr tune`, the trial with the least median of its own batches is what a tuner would pick that times each
candidate by itself. Both are benchmarked in turns; a ratio above 1 means that the race and the final picked the faster one.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

WORKLOADS = [
    "matmul", "matmul_512", "matmul_odd", "batch_matmul", "conv2d_nchw", "depthwise_conv2d", "gemv", "softmax",
    "layer_norm",
]
ROOT = pathlib.Path(__file__).resolve().parent.parent


def tvmr(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tvmr {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def looked_fastest(work_dir):
    """The trace of the trial whose own batches were the fastest."""
    fastest, trace = math.inf, None
    with open(pathlib.Path(work_dir) / "database_tuning_record.json", encoding="utf-8") as lines:
        for line in lines:
            _, (its_trace, run_secs, _, _), context = json.loads(line)
            if context.get("role", "trial") == "trial" and run_secs and context["batch_secs"]:
                secs = statistics.median(context["batch_secs"])
                if secs < fastest:
                    fastest, trace = secs, its_trace
    return trace


def compare(binary, workload, seed, trials, rounds):
    """The seconds of tuning, and how much longer the program takes that looked fastest."""
    program = ROOT / "workloads" / f"{workload}.tir"
    with tempfile.TemporaryDirectory() as work_dir:
        options = ["--trials", trials, "--seed", seed, "--threads", 1, "--work-dir", work_dir, "--format", "json", "--quiet"]
        elapsed = json.loads(tvmr(binary, "tune", program, *options))["elapsed_s"]
        trace = pathlib.Path(work_dir) / "trace.json"
        trace.write_text(json.dumps(looked_fastest(work_dir)))
        sides = [["--best", "--work-dir", work_dir], ["--trace", trace]]
        us = [[], []]
        for i in range(rounds):
            for k in (0, 1) if i % 2 == 0 else (1, 0):
                bench = tvmr(binary, "bench", program, *sides[k], "--no-check", "--quiet", "--format", "json")
                us[k].append(json.loads(bench)["us"])
        return elapsed, statistics.median(b / a for a, b in zip(*us))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tvmr", default=ROOT / "target" / "release" / "tvmr")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    print(f"{'workload':<18} {'seconds':>8}  ratio, and that of each seed", flush=True)
    ratios = []
    for workload in args.workloads.split(","):
        runs = [compare(args.tvmr, workload, seed, args.trials, args.rounds) for seed in range(args.seeds)]
        ratios.append(statistics.median(r for _, r in runs))
        each = " ".join(f"{r:.2f}" for _, r in runs)
        print(f"{workload:<18} {statistics.median(s for s, _ in runs):8.2f}  {ratios[-1]:.2f} ({each})", flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.3f}")


if __name__ == "__main__":
    main()
