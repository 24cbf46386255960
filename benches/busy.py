#!/usr/bin/env python3
"""Checks that the reported peak of the machine is right while another process keeps a core busy.

    cargo build --release && benches/busy.py [target/release/tvmr]

Run it on an otherwise idle machine. For one and for two threads, the peak is measured twenty times, then ten times with
a busy loop on one core. The reported peak must never exceed 1.03 times the highest of the twenty, and each of the ten
runs must warn that the machine is busy. Otherwise the exit code is 1.
"""

import json
import multiprocessing
import os
import subprocess
import sys

QUIET, BUSY, ALLOWED = 20, 10, 1.03
PROGRAM = os.path.join(os.path.dirname(__file__), "..", "workloads", "matmul.tir")


def spin(core):
    os.sched_setaffinity(0, {core})
    while True:
        pass


def stated(tvmr, threads):
    """The peak that a benchmark reports, and whether it warns."""
    run = subprocess.run(
        [tvmr, "bench", PROGRAM, "--threads", str(threads), "--format", "json"], capture_output=True, text=True
    )
    if run.returncode != 0:
        sys.exit(f"tvmr bench failed:\n{run.stderr}")
    return json.loads(run.stdout)["peak_gflops"], "the machine is busy" in run.stderr


def main():
    tvmr = sys.argv[1] if len(sys.argv) > 1 else "target/release/tvmr"
    failed = False
    for threads in (1, 2):
        quiet = [stated(tvmr, threads) for _ in range(QUIET)]
        highest = max(peak for peak, _ in quiet)
        print(f"{threads} threads, quiet: {min(p for p, _ in quiet):.1f} to {highest:.1f} GFLOP/s, "
              f"{sum(w for _, w in quiet)} of {QUIET} warned")
        busy = multiprocessing.Process(target=spin, args=(min(os.sched_getaffinity(0)),), daemon=True)
        busy.start()
        runs = [stated(tvmr, threads) for _ in range(BUSY)]
        busy.kill()
        busy.join()
        peaks, warned = [peak for peak, _ in runs], sum(warned for _, warned in runs)
        print(f"{threads} threads, busy:  {min(peaks):.1f} to {max(peaks):.1f} GFLOP/s, at most "
              f"{max(peaks) / highest:.3f} of the highest; {warned} of {BUSY} warned")
        failed |= max(peaks) > ALLOWED * highest or warned < BUSY
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
