#!/usr/bin/env python3
"""Does evolutionary search find better programs than random search does in as many trials?

    cargo build --release
    python3 benches/strategies.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--seeds 5] [--trials 16]
                                   [--options="--space tvm"]

Tunes with both, on one thread, and benchmarks what they found in turns. Printed are the medians over the seeds, and their
ratio: above 1, evolutionary search is ahead. Where both find equal programs for every seed, there is nothing to compare.
"""

import argparse
import statistics
import tempfile

import runs

STRATEGIES = ["evolutionary", "random"]


def compare(binary, workload, seed, trials, rounds, further):
    """Microseconds of what each strategy found, and whether those are the same program."""
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
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--options", default="", help="further options of tune, as one word: --options='--space tvm'")
    args = parser.parse_args()
    print(f"{'workload':<18} {'evolutionary':>12} {'random':>10}  ratio  the same program", flush=True)
    ahead = []
    for workload in args.workloads.split(","):
        found = [compare(args.tvmr, workload, seed, args.trials, args.rounds, args.options.split())
                 for seed in range(args.seeds)]
        ours, random = (statistics.median(f[i] for f in found) for i in (0, 1))
        same = sum(f[2] for f in found)
        if same < len(found):
            ahead.append(random / ours)
        print(f"{workload:<18} {ours:12.2f} {random:10.2f}  {random / ours:5.3f}  {same} of {len(found)}", flush=True)
    n_ahead = sum(r > 1 for r in ahead)
    print(f"ahead in {n_ahead} of {len(ahead)} with different programs; geometric mean {runs.geometric_mean(ahead):.3f}")


if __name__ == "__main__":
    main()
