#!/usr/bin/env python3
"""Compares tuning by tvmr with TVM's MetaSchedule.

usage: metaschedule.py TVMR [WORKLOAD ...] [--runs N] [--trials N] [--seed S] [--rounds N] [--reuse] [--json]

A workload is a name or the path of a program (`operator_set.py --write` writes many). Tunes each with both, with the same number of trials, on one core; then times both winners alternately. Each run
has a seed of its own. Prints the medians of N runs: seconds of tuning and of the whole command, microseconds of the
kernels, and the ratio of the kernels, above 1 if tvmr's is faster. At the end, the geometric means.

TVM's results are cached in ~/.cache/tvmr-peers/tuned; with --reuse, cached workloads are not tuned again.
"""
import argparse
import json
import pathlib
import statistics
import tempfile
import time

import harness

# Measures the overhead of a call.
ONE_NUMBER = """
@tvm.script.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in range(1):
            with T.block("B"):
                vi = T.axis.spatial(1, i)
                B[vi] = A[vi] + T.float32(1)
"""


def tune_tvmr(binary, name, trials, seed, work):
    """Seconds of tuning, and of the whole command."""
    start = time.perf_counter()
    options = ["--trials", trials, "--threads", 1, "--jobs", 1, "--seed", seed]
    tuned = harness.tvmr_tune(binary, name, work, *options)
    return {"tuning_s": tuned["elapsed_s"], "command_s": time.perf_counter() - start}


def compare(binary, name, seed, args):
    import tvm_kernels

    found = tvm_kernels.tuned(binary, name, args.trials, seed, args.reuse)
    module = tvm_kernels.tvm.ir.load_json(found["module"])
    kernel, _ = tvm_kernels.build(module)
    time_theirs = tvm_kernels.timer(kernel, module)
    with tempfile.TemporaryDirectory() as work:
        mine = tune_tvmr(binary, name, args.trials, seed, work)
        best = ["--best", "--work-dir", work]
        time_mine = lambda: harness.tvmr_bench(binary, harness.program(name), *best, check=False)["us"]
        ours, theirs = harness.in_turns([time_mine, time_theirs], args.rounds)
    return {
        "seed": seed,
        **harness.summary(ours, theirs),
        "tvmr_tuning_s": mine["tuning_s"],
        "tvmr_command_s": mine["command_s"],
        "peer_tuning_s": found["tuning_s"],
        "peer_command_s": found["command_s"],
    }


def call_overhead(binary):
    """Microseconds of a call of a kernel with one number, as measured by tvmr and by TVM."""
    import tvm_kernels

    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "one_number.tir"
        path.write_text(ONE_NUMBER)
        module = tvm_kernels.parse(tvm_kernels.current(binary, path))
        mine = harness.tvmr_bench(binary, path)["us"]
    return mine, tvm_kernels.timer(tvm_kernels.build(module)[0], module)()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tvmr")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--venv", type=pathlib.Path, default=harness.CACHE)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    binary = str(pathlib.Path(args.tvmr).absolute())
    harness.environment(args.venv.absolute())
    say = (lambda text: None) if args.json else (lambda text: print(text, flush=True))
    overhead = call_overhead(binary)
    say(f"a call takes {1000 * overhead[0]:.0f} ns by tvmr's clock, {1000 * overhead[1]:.0f} ns by TVM's")
    say(f"{'':<18} {'tuning, s (command)':>33}   {'kernel, µs':>21}")
    say(f"{'':<18} {'tvmr':>14} {'TVM':>18}   {'tvmr':>10} {'TVM':>10}   ratio")
    results = []
    for name in args.workloads or harness.TUNED:
        runs = [compare(binary, name, args.seed + k, args) for k in range(args.runs)]
        m = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key not in ("seed", "ratio_range")}
        results.append({"workload": name, **m, "runs": runs})
        say(
            f"{pathlib.Path(name).stem:<18} {m['tvmr_tuning_s']:6.2f} ({m['tvmr_command_s']:5.2f}) "
            f"{m['peer_tuning_s']:8.1f} ({m['peer_command_s']:7.1f})   "
            f"{m['tvmr_us']:10.2f} {m['peer_us']:10.2f}   {m['ratio']:5.2f} "
            f"({min(r['ratio'] for r in runs):.2f} to {max(r['ratio'] for r in runs):.2f})"
        )
    means = {
        "kernels": harness.geometric_mean([r["ratio"] for r in results]),
        "tuning": harness.geometric_mean([r["peer_tuning_s"] / r["tvmr_tuning_s"] for r in results]),
        "commands": harness.geometric_mean([r["peer_command_s"] / r["tvmr_command_s"] for r in results]),
    }
    say(f"geometric means: kernels {means['kernels']:.2f}, tuning {means['tuning']:.0f}, commands {means['commands']:.0f}")
    if args.json:
        print(json.dumps({"call_us": overhead, "workloads": results, "geometric_means": means}, indent=2))


if __name__ == "__main__":
    main()
