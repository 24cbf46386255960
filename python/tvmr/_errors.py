"""The exceptions of the package. Their texts are those of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvmr._tune import Tuned


class Error(Exception):
    """Any failure of tvmr."""

    __module__ = "tvmr"


class InputError(Error, ValueError):
    """A program or an option is wrong. The command's exit code is 2."""

    __module__ = "tvmr"


class NothingValid(Error):
    """A function has no valid schedule. The command's exit code is 1."""

    __module__ = "tvmr"

    tuned: Tuned | None = None
    """The functions of the module that have a valid one."""


class MachineError(Error, RuntimeError):
    """The system failed: disk, memory, threads. The command's exit code is 3."""

    __module__ = "tvmr"


class ArgumentError(Error, ValueError):
    """An array does not fit the parameter of a kernel, or there are too many or too few."""

    __module__ = "tvmr"


class KernelError(Error, RuntimeError):
    """A kernel failed, such as by an integer division by zero. What it stored until then remains."""

    __module__ = "tvmr"


class TuningWarning(UserWarning):
    """What is doubtful about a program, a database or the machine."""

    __module__ = "tvmr"
