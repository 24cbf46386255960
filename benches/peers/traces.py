#!/usr/bin/env python3
"""Checks that TVM runs the output of `tvmr print-trace`.

usage: traces.py TVMR FILE.tir [FILE.tir ...] [--trials N] [--ranks N] [--space SPACE]

Tunes each workload of one function with tvmr into a fresh directory. Then, for the best records, the trace is run in TVM
on the same program, both as Python text and as JSON, and the program must be structurally equal to what `tvmr apply`
makes of the text. If print-trace marks an instruction as unsupported by TVM, TVM must not give that program: an
unnecessary mark is an error, too.

Runs in an environment with apache-tvm==0.27.0.post1 and apache-tvm-ffi==0.1.14.post1 (benches/peers/README.md).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import tvm
import tvm.s_tir.tensor_intrin  # registers the intrinsics that traces name
import tvm_ffi
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm.script import ir as I
from tvm.script import tirx as T

MARK = "does not replay in TVM"


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


def parse(text):
    program = tvm.script.from_source(text, {"T": T, "I": I, "tvm": tvm})
    return program if isinstance(program, tvm.IRModule) else tvm.IRModule({"main": program})


def body(module):
    return list(module.functions.values())[0].body


def replay(program, expected, apply):
    """None if TVM makes the expected program, else the difference."""
    schedule = Schedule(parse(program))
    try:
        apply(schedule)
    except Exception as error:  # TVM raises many kinds.
        return str(error).strip().splitlines()[-1][:200]
    same = tvm_ffi.structural_equal(body(schedule.mod), body(parse(expected)), map_free_vars=True)
    return None if same else "another program"


def traces(tvmr, path, work, ranks):
    """For each rank and form: a name, whether it is marked, and the result of TVM."""
    program = run(tvmr, "fmt", "--dialect", "current", path).stdout
    for rank in range(1, ranks + 1):
        args = ["print-trace", path, "--work-dir", work, "--rank", rank, "--dialect", "current"]
        python, as_json = run(tvmr, *args), run(tvmr, *args, "--format", "json")
        if python.returncode != 0:
            return
        file = pathlib.Path(work) / "trace.py"
        file.write_text(python.stdout)
        expected = run(tvmr, "apply", path, "--trace", file, "--dialect", "current").stdout
        names = {"T": T, "s_tir": tvm.s_tir}  # as its first line says
        exec(python.stdout, names)
        yield f"rank {rank}, Python", MARK in python.stderr, replay(program, expected, names["apply_trace"])
        trace = json.loads(as_json.stdout)
        apply_json = lambda schedule: Trace.apply_json_to_schedule(trace, schedule)
        yield f"rank {rank}, JSON", MARK in as_json.stderr, replay(program, expected, apply_json)


def check(options, path):
    """The problems, the number of traces that TVM runs, and the number of marked ones."""
    wrong, runs, marked = [], 0, 0
    with tempfile.TemporaryDirectory() as work:
        tune = ["tune", path, "--trials", options.trials, "--space", options.space, "--work-dir", work, "--quiet"]
        done = run(options.tvmr, *tune)
        if done.returncode != 0:
            return [f"tvmr tune: exit code {done.returncode}: {done.stderr.strip()[-300:]}"], 0, 0
        for name, is_marked, problem in traces(options.tvmr, path, work, options.ranks):
            runs += problem is None
            marked += is_marked
            if is_marked == (problem is None):
                wrong.append(f"{name}: " + ("marked, but TVM runs it" if is_marked else problem))
    return wrong, runs, marked


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tvmr")
    arguments.add_argument("files", nargs="+")
    arguments.add_argument("--trials", type=int, default=16)
    arguments.add_argument("--ranks", type=int, default=4)
    arguments.add_argument("--space", default="auto")
    options = arguments.parse_args()
    failed = 0
    for path in options.files:
        try:
            wrong, runs, marked = check(options, path)
        except Exception as error:
            wrong, runs, marked = [str(error).strip().splitlines()[-1][:300]], 0, 0
        failed += bool(wrong)
        print(f"{pathlib.Path(path).stem}: {runs} run, {marked} marked", *wrong, sep="\n  ", flush=True)
    print(f"{len(options.files) - failed} of {len(options.files)} workloads are as print-trace says")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
