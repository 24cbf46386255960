"""What tvmr found, for TVM: its records as a database of MetaSchedule.

    database = tvmr.tvm.load_database("tvmr_db")
    schedule = ms.tir_integration.compile_tir(database, module, target)

TVM must be installed: apache-tvm 0.27. Nothing else of the package needs it.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any

from tvmr import _tvmr
from tvmr._errors import Error, TuningWarning

if TYPE_CHECKING:
    from tvm.s_tir.meta_schedule.database import Database


def load_database(
    work_dir: str | os.PathLike[str],
    *,
    threads: int | None = None,
    any_target: bool = False,
    top: int | None = 1,
    module_equality: str = "structural",
) -> Database:
    """A database in memory with the workloads and the fastest records of a work directory.

    Args:
        work_dir: The directory that `tvmr.tune` or the command has written.
        threads: Only records for kernels with so many threads; by default any that this machine has cores for.
        any_target: Also records that were measured on other machines.
        top: The number of records of each workload, or None for all. By default TVM gets the winner; among several, it takes
            the one with the least time, and does not know that tvmr ranks finals first.
        module_equality: How TVM compares modules.

    Records whose traces TVM does not replay are left out, and so are those of programs as written, which TVM's databases never
    return. A warning names workloads none of whose schedules TVM replays.

    Raises:
        InputError: There is no database.
        Error: TVM is not installed, or too old.
    """
    try:
        from tvm.s_tir import Schedule
        from tvm.s_tir import meta_schedule as ms
        from tvm.s_tir.schedule import Trace
    except ImportError as missing:
        raise Error(f"this needs TVM: install apache-tvm 0.27 ({missing})") from missing
    found, problems = _tvmr.records(work_dir=os.fspath(work_dir), threads=threads, any_target=any_target)
    for problem in problems:
        warnings.warn(problem, TuningWarning, stacklevel=2)
    database = ms.database.MemoryDatabase(module_equality)
    for name, tir, records in found:
        try:
            module = _parse(tir)
        except Exception as refused:  # TVM raises many kinds.
            warnings.warn(f"TVM does not read the program of `{name}`: {_line(refused)}", TuningWarning, stacklevel=2)
            continue
        workloads = [database.commit_workload(form) for form in _forms(module, name)]
        kept, last = 0, None
        for record in records:
            if top is not None and kept == top:
                break
            try:
                parsed = json.loads(record)
                if not parsed[0][0]:
                    continue
                Trace.apply_json_to_schedule(parsed[0], Schedule(module))
                for workload in workloads:
                    database.commit_tuning_record(ms.database.TuningRecord.from_json(parsed, workload))
                kept += 1
            except Exception as refused:  # TVM raises many kinds.
                last = refused
        if last is not None and kept == 0:
            why = f"TVM replays none of the {len(records)} schedules of `{name}`: {_line(last)}"
            warnings.warn(why, TuningWarning, stacklevel=2)
    return database


def _parse(tir: str) -> Any:
    """The module of a stored program."""
    import tvm
    import tvm.s_tir.tensor_intrin  # Registers the intrinsics that traces name.
    from tvm.script import ir, tirx

    parsed = tvm.script.from_source(tir, {"T": tirx, "I": ir, "tvm": tvm})
    return parsed if isinstance(parsed, tvm.IRModule) else tvm.IRModule({"main": parsed})


def _forms(module: Any, name: str) -> list[Any]:
    """The forms in which TVM may look a program up: it compares attributes, of which its own passes add some.

    A function is called `main`, or as it was where it was tuned; and its buffers do not alias, or nothing is said of that.
    """
    import tvm

    function = module["main"]
    forms = {}
    for symbol in ("main", name):
        for aliases in (True, False):
            form = function.with_attr("global_symbol", symbol)
            if not aliases:
                form = form.with_attr("tirx.noalias", True)
            forms[symbol, aliases] = tvm.IRModule({"main": form})
    return list(forms.values())


def _line(error: Exception) -> str:
    """The last line of an error, which says what is wrong."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
