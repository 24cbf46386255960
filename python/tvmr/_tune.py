"""`tune` and its results."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tvmr import _progress, _program, _tvmr
from tvmr._errors import NothingValid, TuningWarning


class Progress(NamedTuple):
    """How far a run is."""

    done: int
    """Trials in the database."""
    wanted: int
    """Trials that were asked for."""
    text: str
    """What there is to say, such as ``best 18.2 µs, 230.3 GFLOP/s, 99 % of peak``."""


class Function:
    """The best version of a function."""

    def __init__(self, found: _tvmr.Found) -> None:
        self._found = found

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._found.name

    @functools.cached_property
    def kernel(self) -> _tvmr.Kernel:
        """The compiled function, to call with arrays. It is compiled when it is first asked for."""
        return self._found.compile()

    @property
    def script(self) -> str:
        """The program with the schedule applied, in TVMScript."""
        return self._found.script

    @property
    def trace(self) -> str:
        """The schedule, as Python that TVM runs. It is empty if the program as written is the fastest."""
        return self._found.trace

    @property
    def trace_json(self) -> list[Any]:
        """The schedule, as TVM's JSON."""
        return json.loads(self._found.trace_json)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """The summary of the tuning, with the fields of `tvmr tune --format json`."""
        return json.loads(self._found.summary)

    @property
    def latency_us(self) -> float | None:
        """The time of a call in microseconds, as it was measured."""
        return self.summary["best_us"]

    @property
    def gflops(self) -> float | None:
        """10^9 operations per second; None if the function has no arithmetic."""
        return self.summary["gflops"]

    def build(
        self,
        output: str | os.PathLike[str],
        emit: Sequence[str] = ("obj", "header"),
        *,
        prefix: str | None = None,
        tvm_ffi: bool = True,
        only_this_cpu: bool = False,
    ) -> list[pathlib.Path]:
        """Writes a library of native code with this function alone; see `Tuned.build`."""
        return _build([self], None, output, emit, prefix, tvm_ffi, only_this_cpu, None)

    def __repr__(self) -> str:
        return f"<tvmr.Function {_line(self)}>"


class Tuned(Mapping[str, Function]):
    """The best version of each function of a module, by name.

    If the module has a single function, it also has the attributes of that. If it is of a graph, `model` is the graph with these
    functions.
    """

    def __init__(
        self,
        functions: Sequence[Function],
        model: _tvmr.FoundModel | None = None,
        files: _program.Files | None = None,
    ) -> None:
        self._functions = {f.name: f for f in functions}
        self._model = model
        # The weights may be there.
        self._files = files

    @functools.cached_property
    def model(self) -> _tvmr.Model:
        """The compiled graph with the best version of each function. It is compiled, and its weights are loaded, when it is first
        asked for."""
        if self._model is None:
            raise AttributeError("the program has no graph, or a single function of it was tuned")
        return self._model.compile()

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def _only(self) -> Function:
        if len(self._functions) != 1:
            names = ", ".join(f"`{name}`" for name in self._functions)
            raise AttributeError(f"there are several functions: choose one of {names} by its name")
        return next(iter(self._functions.values()))

    @property
    def kernel(self) -> _tvmr.Kernel:
        """`Function.kernel` of the only function."""
        return self._only().kernel

    @property
    def script(self) -> str:
        """`Function.script` of the only function."""
        return self._only().script

    @property
    def trace(self) -> str:
        """`Function.trace` of the only function."""
        return self._only().trace

    @property
    def trace_json(self) -> list[Any]:
        """`Function.trace_json` of the only function."""
        return self._only().trace_json

    @property
    def summary(self) -> dict[str, Any]:
        """`Function.summary` of the only function."""
        return self._only().summary

    @property
    def latency_us(self) -> float | None:
        """`Function.latency_us` of the only function."""
        return self._only().latency_us

    @property
    def gflops(self) -> float | None:
        """`Function.gflops` of the only function."""
        return self._only().gflops

    def build(
        self,
        output: str | os.PathLike[str],
        emit: Sequence[str] = ("obj", "header"),
        *,
        prefix: str | None = None,
        tvm_ffi: bool = True,
        only_this_cpu: bool = False,
        external_weights: str | os.PathLike[str] | None = None,
    ) -> list[pathlib.Path]:
        """Writes a library of native code, which needs nothing of tvmr: of the whole model with its weights, or of all functions
        if there is none.

        Args:
            output: The directory and the name of the files, such as ``"build/matmul"``.
            emit: What to write: ``"obj"``, ``"static"``, ``"shared"``, ``"header"``, ``"python"``, ``"rust"``, ``"manifest"``.
            prefix: The first part of all symbols; the name of the files if left out.
            tvm_ffi: Export symbols of TVM-FFI.
            only_this_cpu: Code for this CPU alone, without a version for others of the architecture.
            external_weights: A file for the weights of a model, which the library does not contain then. Callers map it and pass it
                once. Weights above 1 GiB need it.

        Returns:
            The paths of the files.

        Raises:
            InputError: An option is wrong, a parameter has no form in C, or weights are missing.
            MachineError: A file cannot be written, or there is no linker.
        """
        return _build(list(self.values()), self._model, output, emit, prefix, tvm_ffi, only_this_cpu, external_weights)

    def __repr__(self) -> str:
        return f"<tvmr.Tuned {'; '.join(_line(f) for f in self._functions.values())}>"


def _build(
    functions: Sequence[Function],
    model: _tvmr.FoundModel | None,
    output: str | os.PathLike[str],
    emit: Sequence[str],
    prefix: str | None,
    tvm_ffi: bool,
    only_this_cpu: bool,
    external_weights: str | os.PathLike[str] | None,
) -> list[pathlib.Path]:
    return _tvmr.build(
        found=[f._found for f in functions],
        model=model,
        output=os.fspath(output),
        emit=[emit] if isinstance(emit, str) else list(emit),
        prefix=prefix,
        tvm_ffi=tvm_ffi,
        only_this_cpu=only_this_cpu,
        external_weights=None if external_weights is None else os.fspath(external_weights),
    )


def _line(function: Function) -> str:
    text = function.name
    if function.latency_us is not None:
        text += f": {function.latency_us:.4g} µs"
    if function.gflops is not None:
        text += f", {function.gflops:.1f} GFLOP/s"
    return text


def tune(
    program: Any,
    *,
    trials: int | None = None,
    max_seconds: float | None = None,
    func: str | None = None,
    bind: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    args: str | Sequence[Any] | None = None,
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    const: Mapping[str, Any] | None = None,
    library: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    threads: int | str = 1,
    space: str | os.PathLike[str] | Callable[..., Any] | None = None,
    strategy: str = "evolutionary",
    seed: int = 0,
    patience: float | None = None,
    seed_from: Sequence[str | os.PathLike[str]] = (),
    intrin: Sequence[str | os.PathLike[str]] = (),
    work_dir: str | os.PathLike[str] | None = None,
    target: str | os.PathLike[str] = "native",
    isa: str | None = None,
    strict_fp: bool = False,
    check: bool = True,
    jobs: int | None = None,
    pin: bool = False,
    progress: bool | Callable[[Progress], Any] | None = None,
) -> Tuned:
    """Searches for the fastest schedule of each function of a program, or of each one that a graph calls.

    Args:
        program: A text, or the path of a file: TVMScript, a graph, a definition by tensor expressions, or an ONNX model; a TVM
            IRModule or PrimFunc; or a model of the package `onnx`.
        trials: Distinct programs to try, over all functions. Those in the database count. 64 if left out, or 32 for each distinct
            function if these are more, up to 4096.
        max_seconds: The time limit.
        func: The only function to tune.
        bind: Values of symbolic extents, by name.
        shapes: Shapes of inputs of a graph, by name: they give symbolic extents their values.
        args: Arguments of a definition by tensor expressions, such as ``(1024, 1024, "float32")``.
        weights, const, library: What a graph refers to; see `compile`.
        threads: Threads that a kernel's parallel loops use, or ``"all"``.
        space: The search space: ``"auto"``, ``"tvm"``, a file with a schedule function, or a schedule function. If left out, that
            of the template that defines the program, else ``"auto"``.
        strategy: ``"evolutionary"``, ``"random"`` or ``"replay"``.
        seed: The seed of the search.
        patience: Stop when four rounds together improve the best time by less than this share.
        seed_from: Databases of schedules to try first.
        intrin: Files of tensor intrinsics.
        work_dir: The directory of the database, which later runs resume from. Without it, nothing is kept.
        target: The machine that the space is made for: ``"native"``, or a file that describes it.
        isa: The instruction set to generate code for; the best one of this CPU if left out.
        strict_fp: Keep floating-point operations as written.
        check: Compare the results of each candidate with the reference.
        jobs: Threads for proposing and compiling, which do not affect results; all cores if left out.
        pin: Keep the measuring threads, which are not the caller's, on their cores: times are steadier.
        progress: Show progress: None in a terminal or notebook, True always, False never; or a function to call.

    Raises:
        InputError: The program or an option is wrong.
        NothingValid: A function has no valid schedule.
        MachineError: The system failed.
        KeyboardInterrupt: Ctrl-C. What was measured is in the database.
    """
    files = _program.Files()
    source = _program.source(
        program,
        files,
        kernels_only=True,
        bind=bind,
        shapes=shapes,
        const=const,
        func=func,
        args=args,
        weights=weights,
        library=library,
    )
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tvmr-")))
        display = None if callable(progress) else _progress.display(progress)
        if display is not None:
            stack.callback(display.end)

        def hear(kind: str, done: int, wanted: int, text: str) -> None:
            if kind == "warning":
                # The caller of `tune` is two frames further up.
                warnings.warn(text, TuningWarning, stacklevel=3)
            elif kind == "progress" and callable(progress):
                progress(Progress(done, wanted, text))
            elif kind == "progress" and display is not None:
                display.progress(done, wanted, text)

        found, model, failure = _tvmr.tune(
            source=source,
            work_dir=os.fspath(scratch / "database" if work_dir is None else work_dir),
            hear=hear,
            trials=trials,
            max_seconds=max_seconds,
            patience=patience,
            space=None if space is None else _program.space_file(space, scratch),
            strategy=strategy,
            seed=seed,
            seed_from=[os.fspath(path) for path in seed_from],
            intrin=[os.fspath(path) for path in intrin],
            target=os.fspath(target),
            threads=None if threads == "all" else threads,
            isa=isa,
            strict_fp=strict_fp,
            check=check,
            jobs=jobs,
            pin=pin,
        )
    tuned = Tuned([Function(f) for f in found], model, files)
    if failure is not None:
        if isinstance(failure, NothingValid):
            failure.tuned = tuned
        raise failure
    return tuned
