#!/usr/bin/env python3
"""Compares tuned schedules with those written by hand.

    cargo build --release
    python3 benches/by_hand.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--trials 64] [--options ...]

Tunes each workload that has a schedule in workloads/schedules, in a database of its own, then runs the winner and the
schedule by hand alternately. Prints the medians of the fastest batches of each turn and their ratio: above 1, tuning
found a faster program. `--options` are further options of tune, such as `--no-seeds --seed 3`.
"""

import argparse
import shlex
import statistics
import tempfile

import runs

def compare(binary, name, trials, rounds, options):
    with tempfile.TemporaryDirectory() as work_dir:
        seconds = runs.tvmr_tune(binary, name, work_dir, "--trials", trials, *options)["elapsed_s"]
        sides = [["--best", "--work-dir", work_dir], runs.schedule(name)]
        for side in sides:
            runs.tvmr_bench(binary, runs.program(name), *side)
        tuned, by_hand = runs.bench_in_turns(binary, name, sides, rounds, "min_us")
    ratio = statistics.median(h / t for h, t in zip(by_hand, tuned))
    return statistics.median(tuned), statistics.median(by_hand), ratio, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tvmr", default=runs.BINARY)
    parser.add_argument("--workloads", help="separated by commas")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", default="", help="further options of tune, separated by spaces")
    args = parser.parse_args()
    names = sorted(p.stem for p in (runs.ROOT / "workloads" / "schedules").glob("*.py"))
    names = [n for n in names if runs.program(n).exists()]
    if args.workloads:
        names = args.workloads.split(",")
    ratios = []
    print(f"{'workload':<18} {'tuned, µs':>12} {'by hand, µs':>12} {'ratio':>6} {'seconds':>8}")
    for name in names:
        tuned, by_hand, ratio, seconds = compare(args.tvmr, name, args.trials, args.rounds, shlex.split(args.options))
        ratios.append(ratio)
        print(f"{name:<18} {tuned:>12.2f} {by_hand:>12.2f} {ratio:>6.2f} {seconds:>8.2f}", flush=True)
    print(f"geometric mean {runs.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
