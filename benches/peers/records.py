#!/usr/bin/env python3
"""Checks that TVM reads and replays the records of tvmr.

usage: records.py TVMR FILE.tir [FILE.tir ...] [--trials N] [--bind NAME=N ...]

Tunes each workload with tvmr into a fresh directory, then, for every record with a result:

* `TuningRecord.from_json` reads the second element of the line, with the workload's module;
* `Trace.apply_json_to_schedule` replays its trace on a schedule of the same program, and the program is structurally
  equal to the one that `tvmr apply --trace` makes of it.

The program that `tvmr apply-best` prints must be one of these. A workload without a record is an error. Symbolic
extents without a `--bind` are 96.

Runs in an environment with apache-tvm==0.27.0.post1 and apache-tvm-ffi==0.1.14.post1 (benches/peers/README.md).
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import tvm
import tvm.s_tir.tensor_intrin  # registers the intrinsics that traces name
import tvm_ffi
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.script import ir as I
from tvm.script import tirx as T


def parse(text):
    return tvm.script.from_source(text, {"T": T, "I": I, "tvm": tvm})


def as_module(program):
    return program if isinstance(program, tvm.IRModule) else tvm.IRModule({"main": program})


def body(module):
    return list(module.functions.values())[0].body


def same(x, y):
    return bool(tvm_ffi.structural_equal(x, y, map_free_vars=True))


def bindings(path, given):
    """`--bind` for each symbolic extent of the file."""
    names = re.findall(r"^ *(\w+) = T\.int(?:32|64)\(\)", pathlib.Path(path).read_text(), re.MULTILINE)
    values = {name: "96" for name in names} | dict(b.split("=") for b in given)
    return [part for name in dict.fromkeys(names) for part in ("--bind", f"{name}={values[name]}")]


def run(*command):
    """The output of the command; raises an exception if it failed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"tvmr {command[1]}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def check(tvmr, path, trials, given):
    """The number of records, and None if all are right, else the problem."""
    bind = bindings(path, given)
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        run(tvmr, "tune", path, "--trials", trials, "--work-dir", work / "db", "--quiet", *bind)
        best = as_module(parse(run(tvmr, "apply-best", path, "--work-dir", work / "db", "--dialect", "current", *bind)))
        read = lambda name: [json.loads(line) for line in (work / "db" / name).read_text().splitlines()]
        workloads, records = read("database_workload.json"), read("database_tuning_record.json")
        n = 0
        for index, (_, entry) in enumerate(workloads):
            module = as_module(parse(entry["tir"]))
            workload = ms.database.Workload(module)
            (work / "workload.tir").write_text(entry["tir"])
            is_best = False
            for _, record, *_ in [r for r in records if r[0] == index and r[1][1]]:
                n += 1
                ms.database.TuningRecord.from_json(json.loads(json.dumps(record)), workload)
                schedule = Schedule(module)
                Trace.apply_json_to_schedule(json.loads(json.dumps(record[0])), schedule)
                (work / "trace.json").write_text(json.dumps(record[0]))
                ours = run(tvmr, "apply", work / "workload.tir", "--trace", work / "trace.json", "--dialect", "current")
                if not same(body(schedule.mod), body(as_module(parse(ours)))):
                    return n, f"record {n} gives another program in TVM"
                is_best |= any(same(body(schedule.mod), f.body) for f in best.functions.values())
            if not is_best:
                return n, f"no record of `{entry['name']}` gives the program that apply-best prints"
    return n, None if n else "no record"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tvmr")
    arguments.add_argument("files", nargs="+")
    arguments.add_argument("--trials", type=int, default=16)
    arguments.add_argument("--bind", action="append", default=[])
    options = arguments.parse_args()
    wrong = 0
    for path in options.files:
        n = 0
        try:
            n, problem = check(options.tvmr, path, options.trials, options.bind)
        except Exception as error:  # TVM raises many kinds.
            problem = f"TVM: {str(error).strip().splitlines()[-1][:300]}"
        wrong += problem is not None
        print(f"{pathlib.Path(path).stem}: {problem or f'{n} records equal'}", flush=True)
    print(f"{len(options.files) - wrong} of {len(options.files)} workloads agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
