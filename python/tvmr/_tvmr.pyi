"""The native part of the package."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, final

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

def tune(
    *,
    name: str,
    text: str | None,
    work_dir: str,
    hear: Callable[[str, int, int, str], None],
    bind: Sequence[tuple[str, int]],
    func: str | None,
    trials: int,
    max_seconds: float | None,
    patience: float | None,
    space: str,
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
) -> tuple[list[Found], BaseException | None]: ...
def build(
    *,
    found: Sequence[Found],
    output: str,
    emit: Sequence[str],
    prefix: str | None,
    tvm_ffi: bool,
    only_this_cpu: bool,
) -> list[pathlib.Path]: ...
def command(args: Sequence[str]) -> int: ...
def records(
    *, work_dir: str, threads: int | None, any_target: bool
) -> tuple[list[tuple[str, str, list[str]]], list[str]]: ...
