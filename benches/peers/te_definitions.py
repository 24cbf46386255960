"""Compares definitions of tensors with TVM: the prim_func that tvmr makes of a text, and that of te.create_prim_func.

    python benches/peers/te_definitions.py target/release/tvmr [NAME ...]

Runs every function of tests/te in both, and compares the programs structurally: names of variables and functions do not count.
Prints the functions that differ, with both texts, and the number of equal ones. Needs apache-tvm 0.27.
"""

import inspect
import pathlib
import subprocess
import sys
from typing import TypeVar

import tvm
from tvm import te
from tvm.script import ir as I
from tvm.script import tirx as T

# The module has this name in the texts of AutoTVM's users.
tvm.tir = tvm.tirx

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "te"


def ours(command, path, name):
    """The program that tvmr makes, or its message."""
    args = [command, "emit", str(path), "--func", name, "--stage", "tir"]
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr
    module = tvm.script.from_source(done.stdout, {"T": T, "I": I, "tvm": tvm, "TypeVar": TypeVar})
    return (module[name] if isinstance(module, tvm.IRModule) else module), done.stdout


def theirs(function):
    """The program that TVM makes."""
    return te.create_prim_func(list(function()))


def same_name(program):
    return program.with_attr("global_symbol", "main")


def main():
    command, *wanted = sys.argv[1:]
    equal = total = 0
    for path in sorted(FOLDER.glob("*.py")):
        scope = {}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        functions = [f for f in scope.values() if inspect.isfunction(f) and f.__code__.co_filename == str(path)]
        for function in functions:
            name = function.__name__
            if wanted and name not in wanted:
                continue
            total += 1
            program, text = ours(command, path, name)
            try:
                expected = theirs(function)
            except Exception as error:  # TVM refuses the definition
                print(f"==== {path.name}: {name}: TVM: {error}")
                continue
            if program is not None:
                try:
                    tvm.ir.assert_structural_equal(same_name(program), same_name(expected), map_free_vars=True)
                    equal += 1
                    continue
                except Exception as error:  # also where TVM refuses the comparison
                    text += f"\n{error}"
            print(f"==== {path.name}: {name}\n{text}\n---- TVM\n{expected.script()}\n")
    print(f"{equal} of {total} definitions are equal")
    return 0 if equal == total and total else 1


if __name__ == "__main__":
    sys.exit(main())
