"""The native part of the package."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from tvmr._model import Tensor

__version__: str

@final
class Kernel:
    """A compiled function. Call it with an array for each parameter; outputs are written in place. If all outputs are left
    out, new NumPy arrays are returned for them.
    """

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> list[tuple[str, str, list[int], str]]: ...
    @property
    def constants(self) -> list[str]: ...
    def __call__(self, *arrays: Any) -> Any: ...
    def prepare(self, *arrays: Any) -> None: ...

@final
class Model:
    """A compiled model. Call it with an array for each input, in order or by name; new NumPy arrays are returned for the outputs,
    unless arrays to write are passed behind the inputs, by name, or as `out`.
    """

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[Tensor, ...]: ...
    @property
    def outputs(self) -> tuple[Tensor, ...]: ...
    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any: ...

@final
class Found:
    @property
    def name(self) -> str: ...
    @property
    def script(self) -> str: ...
    @property
    def trace(self) -> str: ...
    @property
    def trace_json(self) -> str: ...
    @property
    def summary(self) -> str: ...
    def compile(self) -> Kernel: ...

@final
class FoundModel:
    def compile(self) -> Model: ...

def compile(
    *,
    source: Mapping[str, Any],
    hear: Callable[[str, int, int, str], None],
    threads: int | None,
    isa: str | None,
    strict_fp: bool,
    work_dir: str | None,
    intrin: Sequence[str],
) -> Model | Kernel: ...
def tune(
    *,
    source: Mapping[str, Any],
    work_dir: str,
    hear: Callable[[str, int, int, str], None],
    trials: int | None,
    max_seconds: float | None,
    patience: float | None,
    space: str | None,
    strategy: str,
    seed: int,
    seed_from: Sequence[str],
    intrin: Sequence[str],
    target: str,
    threads: int | None,
    isa: str | None,
    strict_fp: bool,
    check: bool,
    jobs: int | None,
    pin: bool,
) -> tuple[list[Found], FoundModel | None, BaseException | None]: ...
def build(
    *,
    found: Sequence[Found],
    model: FoundModel | None,
    output: str,
    emit: Sequence[str],
    prefix: str | None,
    tvm_ffi: bool,
    only_this_cpu: bool,
    external_weights: str | None,
) -> list[pathlib.Path]: ...
def command(args: Sequence[str]) -> int: ...
def records(
    *, work_dir: str, threads: int | None, any_target: bool
) -> tuple[list[tuple[str, str, list[str]]], list[str]]: ...
