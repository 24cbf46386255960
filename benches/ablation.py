#!/usr/bin/env python3
"""Ablation of the search: best time found, by number of trials and by seconds, with parts of the search turned off.

    cargo build --release
    python3 benches/ablation.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--seeds 5] [--trials 64]

Runs `tvmr tune` for workloads x settings x seeds, each in a database of its own, and reads the trials in order with the
time at which each was reported. Times are relative to the best of all runs of the workload, as medians over seeds: 1.00
is as fast as that, 1.50 takes half as long again. Runs of the settings alternate, so that a busy period of the machine
affects all of them. Seconds count from the start of the process.
"""

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time

import runs

SETTINGS = {
    "evolutionary": ["--strategy", "evolutionary"],
    "no seeds": ["--strategy", "evolutionary", "--no-seeds"],
    "no cost model": ["--strategy", "evolutionary", "--no-cost-model"],
    "neither": ["--strategy", "evolutionary", "--no-seeds", "--no-cost-model"],
    "random": ["--strategy", "random"],
}
# Seconds after which the best time is shown.
SECONDS = [0.15, 0.25, 0.5, 1]
WORKLOADS = [
    "matmul", "matmul_512", "matmul_odd", "batch_matmul", "conv2d_nchw", "depthwise_conv2d", "gemv", "softmax",
    "layer_norm", "row_sum",
]


ANNOUNCED = re.compile(r"trial (\d+) of ")


def tune(binary, workload, work_dir, *options):
    """The JSON document of `tvmr tune`, and the seconds after which each trial was reported."""
    command = [binary, "tune", runs.program(workload), "--work-dir", work_dir, "--format", "json", "-v", *options]
    start, announced = time.monotonic(), {}
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if found := ANNOUNCED.search(line):
                announced[int(found[1])] = time.monotonic() - start
        document = process.stdout.read()
    if process.returncode != 0:
        sys.exit(f"tvmr tune {workload}: exit code {process.returncode}")
    return json.loads(document), announced


def run(binary, workload, setting, seed, trials, extra):
    """Each trial in order: its seconds (none for failures) and when it was reported; and the summary of the run."""
    with tempfile.TemporaryDirectory() as work_dir:
        options = ["--trials", trials, "--seed", seed, *SETTINGS[setting], *extra]
        document, announced = tune(binary, workload, work_dir, *options)
        times, latest = [], {}
        for _, run_secs, context in runs.records(work_dir):
            # Times are relative to the incumbent. If the incumbent was disturbed, they are too short; the fastest batch
            # is a lower bound.
            secs = max(run_secs[0], min(context["batch_secs"])) if run_secs else None
            latest[context["program"]] = secs
            if context.get("role", "trial") == "trial":
                times.append((context["trial"], context["program"]))
        # Finalists were timed against each other; the first trials are disturbed by the reference.
        times = [(trial, latest[program]) for trial, program in times]
    # Lines are in the order in which results were checked.
    return [(secs, announced.get(trial, math.inf)) for trial, secs in sorted(times, key=lambda t: t[0])], document


def best_after(times, n):
    """The best of the first `n` trials."""
    return min((t for t, _ in times[:n] if t is not None), default=math.inf)


def best_at(times, seconds):
    """The best of the trials that were reported by then."""
    return min((t for t, when in times if t is not None and when <= seconds), default=math.inf)


def first_within(times, limit):
    """The number of trials until one reaches the limit."""
    return next((i + 1 for i, (t, _) in enumerate(times) if t is not None and t <= limit), math.inf)


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
    columns = [f"{n} trials" for n in points] + [f"{s} s" for s in SECONDS]
    measures = [lambda t, n=n: best_after(t, n) for n in points] + [lambda t, s=s: best_at(t, s) for s in SECONDS]
    print("| workload | search | " + " | ".join(columns) + " | within 5 % after | seconds | of them searching |")
    print("| --- | --- |" + " --- |" * (len(columns) + 3))
    overall = {s: [] for s in settings}
    for workload in args.workloads.split(","):
        found = {s: [] for s in settings}
        for seed in range(args.seeds):
            for setting in settings:
                found[setting].append(run(args.tvmr, workload, setting, seed, args.trials, extra))
        best = min(best_after(times, args.trials) for all_runs in found.values() for times, _ in all_runs)
        if math.isinf(best):
            print(f"| {workload} | nothing to choose from |" + " |" * (len(columns) + 3), flush=True)
            continue
        for setting in settings:
            medians = [statistics.median(measure(t) / best for t, _ in found[setting]) for measure in measures]
            overall[setting].append(medians)
            within = statistics.median(first_within(t, best * 1.05) for t, _ in found[setting])
            seconds = statistics.median(s["elapsed_s"] for _, s in found[setting])
            share = statistics.median(s["breakdown_s"]["search"] / s["elapsed_s"] for _, s in found[setting])
            print(f"| {workload} | {setting} | " + " | ".join(map(cell, medians))
                  + f" | {cell(within, 0)} | {seconds:.2f} | {share:.0%} |", flush=True)
    for setting in settings:
        mean = lambda ratios: math.inf if any(map(math.isinf, ratios)) else statistics.geometric_mean(ratios)
        means = [mean(ratios) for ratios in zip(*overall[setting])]
        print(f"| all, geometric mean | {setting} | " + " | ".join(map(cell, means)) + " | | | |")


if __name__ == "__main__":
    main()
