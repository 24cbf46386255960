#!/usr/bin/env python3
"""Compares two builds of tvmr, such as that of a change with the one before: their kernels, and what they find in 64 trials.

    cargo build --release
    python3 benches/builds.py OLD [NEW] [--workloads matmul,softmax] [--pairs 50] [--seeds 5] [--threads 1]

Kernels: each workload with its schedule (or, without one, the best that OLD finds), benchmarked by both builds in turns. The ratio
NEW / OLD of each pair is free of slow changes of the machine; the table has its median and the 95 % interval of that. A kernel is
slower if the whole interval lies beyond 1.02.

Tuning: both builds tune in turns with each seed; the table has the ratio of the geometric means of the best times.
"""

import argparse
import pathlib
import tempfile

import runs

# Functions without a preparation of their own, with fixed extents.
WORKLOADS = [
    "activations", "argmax", "attention", "axpy_inplace", "batch_matmul", "blend_u8", "conv1d", "conv2d_nchw", "conv2d_nhwc",
    "depthwise_conv2d", "embedding", "ewise_chain", "ewise_large", "gelu", "gemv", "layer_norm", "linear0", "linear_weight",
    "matmul", "matmul_1024", "matmul_512", "matmul_add", "matmul_bf16", "matmul_bt", "matmul_f64", "matmul_int8", "matmul_odd",
    "matmul_relu", "matmul_u8s8", "max_pool2d", "relu", "row_max", "row_sum", "softmax", "stencil2d", "sum_all",
    "sum_all_scalar", "transpose", "vector_add",
]
LIMIT = 1.02


def kernels(old, new, workload, pairs, threads):
    """The ratios of the times of a workload's kernel."""
    with tempfile.TemporaryDirectory() as work_dir:
        chosen = runs.schedule(workload)
        if not chosen:
            runs.tvmr_tune(old, workload, work_dir, "--trials", 64, "--threads", threads)
            trace = pathlib.Path(work_dir) / "best.py"
            trace.write_text(runs.tvmr(old, "print-trace", runs.program(workload), "--work-dir", work_dir, "--threads", threads))
            chosen = ["--trace", trace]
        turn = lambda binary: lambda: runs.tvmr_bench(
            binary, runs.program(workload), *chosen, "--threads", threads, check=False)["us"]
        sides = runs.in_turns([turn(old), turn(new)], pairs)
        return [b / a for a, b in zip(*sides)]


def tuned(old, new, workload, seeds, threads):
    """The ratio of the geometric means of what both find in 64 trials."""
    found = ([], [])
    for seed in range(seeds):
        for side in (0, 1) if seed % 2 == 0 else (1, 0):
            with tempfile.TemporaryDirectory() as work_dir:
                options = ["--trials", 64, "--seed", seed, "--threads", threads]
                found[side].append(runs.tvmr_tune((old, new)[side], workload, work_dir, *options)["best_us"])
    return runs.geometric_mean(found[1]) / runs.geometric_mean(found[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path, nargs="?", default=runs.BINARY)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    old, new = args.old.resolve(), args.new.resolve()
    print(f"{'workload':<18} {'kernel':>7}  {'95 % interval':<15} {'64 trials':>9}", flush=True)
    medians, results, slower = [], [], []
    for workload in args.workloads.split(","):
        row = f"{workload:<18}"
        if args.pairs:
            ratios = kernels(old, new, workload, args.pairs, args.threads)
            median, (low, high) = runs.median_with_interval(ratios)
            medians.append(median)
            slower += [workload] if low > LIMIT else []
            row += f" {median:7.3f}  {low:.3f} to {high:.3f}  "
        if args.seeds:
            results.append(tuned(old, new, workload, args.seeds, args.threads))
            row += f" {results[-1]:8.3f}"
        print(row, flush=True)
    if medians:
        print(f"kernels: geometric mean {runs.geometric_mean(medians):.3f}; slower: {', '.join(slower) or 'none'}")
    if results:
        print(f"64 trials: geometric mean {runs.geometric_mean(results):.3f}")


if __name__ == "__main__":
    main()
