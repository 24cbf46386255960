#!/usr/bin/env python3
"""Times calls of a kernel that does hardly anything: what a call from Python costs.

usage: overhead.py [--seconds S]

Prints the median over batches of the time of a call, in nanoseconds: in place, with new outputs, through DLPack, and of two of
NumPy's functions to compare with.
"""
import argparse
import statistics
import time

import numpy as np

import tvmr

PROGRAM = """
@T.prim_func
def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = A[v] + B[v]
"""

CALLS = 2000


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def nanoseconds(call, seconds):
    batches, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(batches) < 5:
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        batches.append((time.perf_counter_ns() - start) / CALLS)
    return statistics.median(batches)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=1.0)
    seconds = arguments.parse_args().seconds
    kernel = tvmr.tune(PROGRAM, trials=4, progress=False).kernel
    a, b, c = (np.ones(4, np.float32) for _ in range(3))
    foreign = [Foreign(x) for x in (a, b, c)]
    for what, call in [
        ("an empty function", lambda: None),
        ("numpy.add(a, b, out=c)", lambda: np.add(a, b, out=c)),
        ("numpy.add(a, b)", lambda: np.add(a, b)),
        ("kernel(a, b, c)", lambda: kernel(a, b, c)),
        ("kernel(a, b)", lambda: kernel(a, b)),
        ("kernel(a, b, c), DLPack", lambda: kernel(*foreign)),
    ]:
        print(f"{what:24} {nanoseconds(call, seconds):7.0f} ns")


if __name__ == "__main__":
    main()
