#!/usr/bin/env python3
"""What each optional pass over graphs gives: the time of models, tuned, with all passes and without one of them.

    python3 benches/passes.py TVMR [--seconds 30] [--threads 1] [--rounds 5] [--shape NAME=1,3,224,224] [--bind n=1] [--pass fuse] MODEL ...

Each model is tuned once for each pass that is left out, in one database, so that functions which do not depend on the pass keep their
records; each run has the same seconds, but for the functions that are known by then. Then `tvmr bench --best` runs in turns. A row has
the medians; `gives` is the time without the pass divided by the time with all.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

PASSES = [
    "common_calls",
    "quantise",
    "canonicalise",
    "fold_affine",
    "common_constants",
    "own_floats",
    "winograd",
    "fuse",
    "layout_free",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tvmr")
    parser.add_argument("model", nargs="+", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("--pass", action="append", choices=PASSES, dest="passes", help="only this pass; may be repeated")
    args = parser.parse_args()
    given = [f"--shape={s}" for s in args.shape] + [f"--bind={b}" for b in args.bind] + [f"--threads={args.threads}"]
    print(f"{'model':20} {'without':18} {'us':>12} {'gives':>6} {'kernels':>8}")
    for model in args.model:
        with tempfile.TemporaryDirectory() as directory:
            common = [model, *given, "--work-dir", directory]
            cases = {name: [f"--skip-pass={name}"] for name in args.passes or PASSES}
            cases = {"": [], **cases, **({} if args.passes else {"any": sum(cases.values(), [])})}
            for options in cases.values():
                subprocess.run([args.tvmr, "tune", *common, *options, f"--max-seconds={args.seconds}"], check=True, capture_output=True)
            found = {name: [] for name in cases}
            for _ in range(args.rounds):
                for name, options in cases.items():
                    command = [args.tvmr, "bench", *common, *options, "--best", "--no-check", "--format", "json"]
                    ran = subprocess.run(command, check=True, capture_output=True, text=True)
                    found[name].append(json.loads(ran.stdout))
            medians = {name: statistics.median(run["us"] for run in runs) for name, runs in found.items()}
            for name, us in medians.items():
                n_calls = sum(kernel["calls"] for kernel in found[name][0]["kernels"])
                print(f"{model.stem:20} {name or '-':18} {us:12.2f} {us / medians['']:6.2f} {n_calls:8}", flush=True)


if __name__ == "__main__":
    main()
