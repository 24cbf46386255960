"""What `tune` takes as a program or a space."""

from __future__ import annotations

import inspect
import os
import pathlib
import textwrap
from typing import Any


def read(program: Any) -> tuple[str, str | None]:
    """The name and the text of a program; the text is None if the name is that of a file to read.

    A program is TVMScript, the path of a file with it, or a TVM module or function, which prints itself.
    """
    if isinstance(program, os.PathLike):
        return os.fspath(program), None
    if isinstance(program, str):
        # A program has several lines, and a path has one.
        return ("<text>", program) if "\n" in program else (program, None)
    if hasattr(program, "script"):
        return "<module>", _kernels(program).script()
    kind = type(program).__qualname__
    raise TypeError(f"expected TVMScript, a path, or a TVM module or function, found `{kind}`")


def _kernels(module: Any) -> Any:
    """The module with its TIR functions alone: it may have functions of Relax, which call them."""
    functions = getattr(module, "functions", None)
    if functions is None:
        return module
    kernels = {name: f for name, f in functions.items() if type(f).__name__ == "PrimFunc"}
    return module if len(kernels) == len(functions) else type(module)(kernels)


def space_file(space: Any, directory: pathlib.Path) -> str:
    """The name of a space: `auto`, `tvm`, the path of a file, or a schedule function, whose source is written to a file."""
    if not callable(space):
        return os.fspath(space)
    path = directory / f"{getattr(space, '__name__', 'space')}.py"
    path.write_text(textwrap.dedent(inspect.getsource(space)), encoding="utf-8")
    return str(path)
