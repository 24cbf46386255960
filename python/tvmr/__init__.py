"""tvmr, an auto-tuner for tensor programs.

    import numpy as np, tvmr

    tuned = tvmr.tune("matmul.tir", trials=64)
    c = tuned.kernel(a, b)
    print(tuned.latency_us, tuned.trace)

    model = tvmr.compile("model.onnx", shapes={"x": (1, 3, 48, 192)})
    y = model(x)

`tune` searches for the fastest schedule of each function of a program, checks the results of every candidate, and returns
kernels over arrays. `compile` makes a model callable. docs/python.md is the guide.
"""

from tvmr._errors import ArgumentError, Error, InputError, KernelError, MachineError, NothingValid, TuningWarning
from tvmr._model import Tensor, compile
from tvmr._tune import Function, Progress, Tuned, tune
from tvmr._tvmr import Kernel, Model, __version__

__all__ = [
    "ArgumentError",
    "Error",
    "Function",
    "InputError",
    "Kernel",
    "KernelError",
    "MachineError",
    "Model",
    "NothingValid",
    "Progress",
    "Tensor",
    "Tuned",
    "TuningWarning",
    "__version__",
    "compile",
    "tune",
]
