"""What `tune` and `compile` take as a program, and `tune` as a space."""

from __future__ import annotations

import inspect
import os
import pathlib
import shutil
import tempfile
import textwrap
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Files:
    """A directory for what is passed in files. It is made when it is needed, and deleted with this object."""

    def __init__(self) -> None:
        self._directory: pathlib.Path | None = None

    def path(self, name: str) -> str:
        """The path of a new file."""
        if self._directory is None:
            self._directory = pathlib.Path(tempfile.mkdtemp(prefix="tvmr-"))
            weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        return str(self._directory / name)


def source(
    program: Any,
    files: Files,
    *,
    kernels_only: bool,
    bind: Mapping[str, int] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    const: Mapping[str, Any] | None,
    func: str | None,
    args: str | Sequence[Any] | None,
    weights: str | os.PathLike[str] | Mapping[str, Any] | None,
    library: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> dict[str, Any]:
    """A program and what is known of its inputs, as the native part takes it. Arrays are written to files."""
    name, text = _read(program, files, kernels_only)
    if isinstance(weights, Mapping):
        path = files.path("weights.npz")
        np.savez(path, **{name: np.asarray(array) for name, array in weights.items()})
        weights = path
    if args is not None and not isinstance(args, str):
        args = ",".join(str(value) for value in args)
    return {
        "name": name,
        "text": text,
        "bind": list((bind or {}).items()),
        "shapes": [(name, [int(n) for n in shape]) for name, shape in (shapes or {}).items()],
        "constants": [(name, _elements(value, i, files)) for i, (name, value) in enumerate((const or {}).items())],
        "func": func,
        "args": args,
        "weights": None if weights is None else os.fspath(weights),
        "library": [os.fspath(path) for path in ([library] if isinstance(library, (str, os.PathLike)) else library)],
    }


def _elements(value: Any, i: int, files: Files) -> str:
    """Elements of an input as the command line states them: numbers, or the name of a file."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (bool, int, float)) for v in value):
        return ",".join(str(v).lower() for v in value)
    path = files.path(f"const_{i}.npy")
    np.save(path, np.zeros(0, np.int64) if isinstance(value, (list, tuple)) and not value else np.asarray(value))
    return path


def _read(program: Any, files: Files, kernels_only: bool) -> tuple[str, str | None]:
    """The name and the text of a program; the text is None if the name is that of a file to read.

    A program is a text, the path of a file, a TVM module or function, which prints itself, or a model of `onnx`.
    """
    if isinstance(program, os.PathLike):
        return os.fspath(program), None
    if isinstance(program, str):
        # A program has several lines, and a path has one.
        return ("<text>", program) if "\n" in program else (program, None)
    if hasattr(program, "script"):
        return "<module>", _kernels(program).script() if kernels_only else _whole(program)
    if hasattr(program, "SerializeToString"):
        path = files.path("model.onnx")
        pathlib.Path(path).write_bytes(program.SerializeToString())
        return path, None
    kind = type(program).__qualname__
    raise TypeError(f"expected a text, a path, a TVM module or function, or an ONNX model, found `{kind}`")


def _whole(module: Any) -> str:
    """The text of a module with its constants, which TVM prints on request."""
    if hasattr(module, "functions"):
        return module.script(show_meta=True)
    return module.script()


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
