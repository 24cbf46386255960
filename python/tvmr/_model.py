"""`compile`, and what describes models."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tvmr import _program, _tvmr
from tvmr._errors import TuningWarning


class Tensor(NamedTuple):
    """An input or output of a model."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def compile(  # noqa: A001
    program: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    bind: Mapping[str, int] | None = None,
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    const: Mapping[str, Any] | None = None,
    library: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    func: str | None = None,
    args: str | Sequence[Any] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    intrin: Sequence[str | os.PathLike[str]] = (),
    threads: int | str = 1,
    isa: str | None = None,
    strict_fp: bool = False,
) -> _tvmr.Model | _tvmr.Kernel:
    """Compiles a model for calls in this process, and loads its weights.

    Args:
        program: The path of an ONNX model, of a text with a graph or of a definition by tensor expressions; such a text itself; a
            TVM IRModule; or a model of the package `onnx`.
        shapes: Shapes of inputs, by name: they give symbolic extents their values.
        bind: Values of symbolic extents, by name.
        weights: The file of weights, or arrays by name; the file beside the program if left out.
        const: Elements of inputs of an ONNX model that must be known: numbers, arrays or files, by name. The inputs are no
            parameters then.
        library: Files with functions that a graph calls by name.
        func: The graph, or the function, if there are several.
        args: Arguments of a definition by tensor expressions, such as ``(1024, 1024, "float32")``.
        work_dir: The directory of a database, whose best records are used; without it, kernels are compiled as written.
        intrin: Files of tensor intrinsics.
        threads: Threads that parallel loops use, or ``"all"``.
        isa: The instruction set to generate code for; the best one of this CPU if left out.
        strict_fp: Keep floating-point operations as written.

    Returns:
        A `Model`; of a program without a graph, the `Kernel` of its function.

    Raises:
        InputError: The program or an option is wrong, or weights are missing.
        MachineError: The system failed.
    """

    def hear(kind: str, done: int, wanted: int, text: str) -> None:
        if kind == "warning":
            # The caller of `compile` is two frames further up.
            warnings.warn(text, TuningWarning, stacklevel=3)

    files = _program.Files()
    source = _program.source(
        program,
        files,
        kernels_only=False,
        bind=bind,
        shapes=shapes,
        const=const,
        func=func,
        args=args,
        weights=weights,
        library=library,
    )
    return _tvmr.compile(
        source=source,
        hear=hear,
        threads=None if threads == "all" else threads,
        isa=isa,
        strict_fp=strict_fp,
        work_dir=None if work_dir is None else os.fspath(work_dir),
        intrin=[os.fspath(path) for path in intrin],
    )
