#!/usr/bin/env python3
"""Compares evolutionary search with random search at equal numbers of trials.

    cargo build --release
    python3 benches/strategies.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--seeds 5] [--trials 4,8,16,32]
                                   [--options="--space tvm"]

Tunes with both on one thread, from scratch for each number of trials, and benchmarks the winners alternately. Prints for
each number of trials the ratio of the medians over the seeds, and the geometric mean of these ratios: above 1,
evolutionary search is ahead. If both find equal programs for every seed, there is nothing to compare.
"""

import argparse
import statistics
import tempfile

import runs

STRATEGIES = ["evolutionary", "random"]
# Smaller relative differences are within the noise of benchmarks.
TIE = 0.005


def compare(binary, workload, seed, trials, rounds, further):
    """Microseconds of the winner of each strategy, and whether they are the same program."""
    with tempfile.TemporaryDirectory() as work:
        options = ["--trials", trials, "--seed", seed, "--threads", 1, *further]
        sides, programs = [], []
        for strategy in STRATEGIES:
            where = ["--work-dir", f"{work}/{strategy}"]
            runs.tvmr_tune(binary, workload, where[1], *options, "--strategy", strategy)
            sides.append(["--best", *where])
            programs.append(runs.tvmr(binary, "apply-best", runs.program(workload), *where, "--quiet"))
        us = runs.bench_in_turns(binary, workload, sides, rounds)
        return *(statistics.median(u) for u in us), programs[0] == programs[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tvmr", default=runs.BINARY)
    parser.add_argument("--workloads", default=",".join(runs.TUNED))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", default="4,8,16,32", help="numbers of trials, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--options", default="", help="further options of tune, as one word: --options='--space tvm'")
    args = parser.parse_args()
    budgets = [int(n) for n in args.trials.split(",")]
    print(f"{'workload':<18}" + "".join(f"{n:>8}" for n in budgets) + "    mean  the same program", flush=True)
    means = []
    for workload in args.workloads.split(","):
        ratios, same, n_found = [], 0, 0
        for trials in budgets:
            found = [compare(args.tvmr, workload, seed, trials, args.rounds, args.options.split())
                     for seed in range(args.seeds)]
            ours, random = (statistics.median(f[i] for f in found) for i in (0, 1))
            ratios.append(random / ours)
            same += sum(f[2] for f in found)
            n_found += len(found)
        means.append(runs.geometric_mean(ratios))
        cells = "".join(f"{r:8.3f}" for r in ratios)
        print(f"{workload:<18}{cells}{means[-1]:8.3f}  {same} of {n_found}", flush=True)
    ahead, behind = sum(m > 1 + TIE for m in means), sum(m < 1 - TIE for m in means)
    print(f"ahead in {ahead} of {len(means)}, behind in {behind}; geometric mean {runs.geometric_mean(means):.3f}")


if __name__ == "__main__":
    main()
