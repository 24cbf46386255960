"""tvmr, an auto-tuner for tensor programs.

    import numpy as np, tvmr

    tuned = tvmr.tune("matmul.tir", trials=64)
    c = tuned.kernel(a, b)
    print(tuned.latency_us, tuned.trace)

`tune` searches for the fastest schedule of each function of a program, checks the results of every candidate, and returns
kernels over arrays. docs/python.md is the guide.
"""

from tvmr._errors import ArgumentError, Error, InputError, KernelError, MachineError, NothingValid, TuningWarning
from tvmr._tune import Function, Progress, Tuned, tune
from tvmr._tvmr import Kernel, __version__

__all__ = [
    "ArgumentError",
    "Error",
    "Function",
    "InputError",
    "Kernel",
    "KernelError",
    "MachineError",
    "NothingValid",
    "Progress",
    "Tuned",
    "TuningWarning",
    "__version__",
    "tune",
]
