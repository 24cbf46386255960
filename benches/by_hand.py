#!/usr/bin/env python3
"""How near does tuning come to the schedules that were written by hand?

    cargo build --release
    python3 benches/by_hand.py [--tvmr target/release/tvmr] [--workloads matmul,softmax] [--trials 64] [--options ...]

Tunes each workload that has a schedule in workloads/schedules, in a database of its own, then runs the winner and the
schedule by hand in turns. Printed are the medians of the fastest batches of each turn and their ratio: above 1, tuning has
found a faster program. `--options` are further options of tune, such as `--no-seeds --seed 3`.
"""

import argparse
import json
import math
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def output(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(str(c) for c in command)}\n{done.stderr}")
    return json.loads(done.stdout)


def fastest(tvmr, program, check, *what):
    return output([tvmr, "bench", program, *what, "--format", "json", *([] if check else ["--quiet", "--no-check"])])["min_us"]


def compare(tvmr, name, trials, rounds, options):
    program = ROOT / "workloads" / f"{name}.tir"
    schedule = ROOT / "workloads" / "schedules" / f"{name}.py"
    with tempfile.TemporaryDirectory() as work_dir:
        tune = [tvmr, "tune", program, "--trials", trials, "--work-dir", work_dir, "--format", "json", "--quiet", *options]
        seconds = output(tune)["elapsed_s"]
        tuned, by_hand = [], []
        for i in range(rounds):
            turns = [
                lambda: tuned.append(fastest(tvmr, program, i == 0, "--best", "--work-dir", work_dir)),
                lambda: by_hand.append(fastest(tvmr, program, i == 0, "--trace", schedule)),
            ]
            # Whoever comes second finds the clock where the other left it.
            for turn in turns if i % 2 else reversed(turns):
                turn()
    ratio = statistics.median(h / t for h, t in zip(by_hand, tuned))
    return statistics.median(tuned), statistics.median(by_hand), ratio, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tvmr", default=str(ROOT / "target" / "release" / "tvmr"))
    parser.add_argument("--workloads", help="separated by commas")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", default="", help="further options of tune, separated by spaces")
    args = parser.parse_args()
    names = sorted(p.stem for p in (ROOT / "workloads" / "schedules").glob("*.py"))
    names = [n for n in names if (ROOT / "workloads" / f"{n}.tir").exists()]
    if args.workloads:
        names = args.workloads.split(",")
    ratios = []
    print(f"{'workload':<18} {'tuned, µs':>12} {'by hand, µs':>12} {'ratio':>6} {'seconds':>8}")
    for name in names:
        tuned, by_hand, ratio, seconds = compare(args.tvmr, name, args.trials, args.rounds, shlex.split(args.options))
        ratios.append(ratio)
        print(f"{name:<18} {tuned:>12.2f} {by_hand:>12.2f} {ratio:>6.2f} {seconds:>8.2f}", flush=True)
    mean = math.exp(statistics.mean(math.log(r) for r in ratios))
    print(f"geometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
