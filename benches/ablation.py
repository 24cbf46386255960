#!/usr/bin/env python3
"""What each part of the search is worth: best time found against trials and seconds.

    cargo build --release
    python3 benches/ablation.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--seeds 5] [--trials 64]

Runs `tvmr tune` for workloads x settings x seeds, each in a database of its own, and reads the trials in their order. Times are relative to the best that any run of the workload found, as medians over seeds: 1.00
is as fast as that, 1.50 half as long again. Runs of the settings alternate, so that a machine that is busy for a while
is so for all of them.
"""

import argparse
import math
import statistics
import tempfile

import runs

SETTINGS = {
    "evolutionary": ["--strategy", "evolutionary"],
    "no seeds": ["--strategy", "evolutionary", "--no-seeds"],
    "no cost model": ["--strategy", "evolutionary", "--no-cost-model"],
    "neither": ["--strategy", "evolutionary", "--no-seeds", "--no-cost-model"],
    "random": ["--strategy", "random"],
}
WORKLOADS = [
    "matmul", "matmul_512", "matmul_odd", "batch_matmul", "conv2d_nchw", "depthwise_conv2d", "gemv", "softmax",
    "layer_norm", "row_sum",
]


def run(binary, workload, setting, seed, trials, extra):
    """The seconds of each trial in order (none for failures), and what the run says of itself."""
    with tempfile.TemporaryDirectory() as work_dir:
        document = runs.tvmr_tune(binary, workload, work_dir, "--trials", trials, "--seed", seed, *SETTINGS[setting], *extra)
        times = []
        for _, run_secs, context in runs.trials(work_dir):
            # Times are by comparison with the best of their moment. Should that have been disturbed, they are too good
            # to be true: nothing is faster than its fastest batch.
            secs = max(run_secs[0], min(context["batch_secs"])) if run_secs else None
            times.append((context["trial"], secs))
    # Lines are in the order in which results were checked.
    return [secs for _, secs in sorted(times, key=lambda t: t[0])], document


def best_after(times, n):
    """The best of the first `n` trials."""
    right = [t for t in times[:n] if t is not None]
    return min(right) if right else math.inf


def first_within(times, limit):
    """The number of trials until one is as fast as the limit."""
    return next((i + 1 for i, t in enumerate(times) if t is not None and t <= limit), math.inf)


def cell(value, digits=2):
    return "-" if math.isinf(value) else f"{value:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tvmr", default=runs.BINARY)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--extra", default="", help="further options of tune, separated by spaces")
    args = parser.parse_args()
    settings, extra = args.settings.split(","), args.extra.split()
    points = [n for n in (8, 16, 32, 64, 128, 256) if n <= args.trials]
    print("| workload | search | " + " | ".join(f"{n} trials" for n in points) + " | within 5 % after | seconds | of them searching |")
    print("| --- | --- |" + " --- |" * (len(points) + 3))
    overall = {s: {n: [] for n in points} for s in settings}
    for workload in args.workloads.split(","):
        found = {s: [] for s in settings}
        for seed in range(args.seeds):
            for setting in settings:
                found[setting].append(run(args.tvmr, workload, setting, seed, args.trials, extra))
        best = min(best_after(times, args.trials) for all_runs in found.values() for times, _ in all_runs)
        if math.isinf(best):
            print(f"| {workload} | nothing to choose from |" + " |" * (len(points) + 3), flush=True)
            continue
        for setting in settings:
            medians = [statistics.median(best_after(t, n) / best for t, _ in found[setting]) for n in points]
            for n, m in zip(points, medians):
                overall[setting][n].append(m)
            within = statistics.median(first_within(t, best * 1.05) for t, _ in found[setting])
            seconds = statistics.median(s["elapsed_s"] for _, s in found[setting])
            share = statistics.median(s["breakdown_s"]["search"] / s["elapsed_s"] for _, s in found[setting])
            print(f"| {workload} | {setting} | " + " | ".join(map(cell, medians))
                  + f" | {cell(within, 0)} | {seconds:.2f} | {share:.0%} |", flush=True)
    for setting in settings:
        means = [statistics.geometric_mean(overall[setting][n]) if not any(map(math.isinf, overall[setting][n])) else math.inf for n in points]
        print(f"| all, geometric mean | {setting} | " + " | ".join(map(cell, means)) + " | | | |")


if __name__ == "__main__":
    main()
