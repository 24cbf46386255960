#!/usr/bin/env python3
"""Does TVM read what tvmr recorded?

usage: records.py TVMR FILE.tir [FILE.tir ...] [--trials N]

Tunes each workload with tvmr into a fresh directory, then, for the best record of each function:

* `TuningRecord.from_json` reads the second element of the line, with the workload's module;
* `Trace.apply_json_to_schedule` replays its trace on a schedule of the same program, and the program is structurally
  equal to the one that `tvmr apply-best --dialect current` prints.

Runs in an environment with apache-tvm==0.27.0.post1 and apache-tvm-ffi==0.1.14.post1 (benches/peers/README.md).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import tvm
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


def check(tvmr, path, trials):
    """None if all is well, else what is not."""
    with tempfile.TemporaryDirectory() as work:
        tune = [tvmr, "tune", path, "--trials", str(trials), "--work-dir", work, "--quiet"]
        run = subprocess.run(tune, capture_output=True, text=True)
        if run.returncode != 0:
            return f"tvmr tune: exit code {run.returncode}: {run.stderr.strip()[-300:]}"
        best = [tvmr, "apply-best", path, "--work-dir", work, "--dialect", "current"]
        printed = subprocess.run(best, capture_output=True, text=True)
        if printed.returncode != 0:
            return f"tvmr apply-best: exit code {printed.returncode}: {printed.stderr.strip()[-300:]}"
        lines = (pathlib.Path(work) / "database_workload.json").read_text().splitlines()
        workloads = [json.loads(line) for line in lines]
        records = [json.loads(l) for l in (pathlib.Path(work) / "database_tuning_record.json").read_text().splitlines()]
        tuned = as_module(parse(printed.stdout))
        for index, (_, entry) in enumerate(workloads):
            mine = [r for r in records if r[0] == index and r[1][1]]
            if not mine:
                continue
            module = as_module(parse(entry["tir"]))
            workload = ms.database.Workload(module)
            for record in mine:
                ms.database.TuningRecord.from_json(json.loads(json.dumps(record[1])), workload)
            # The one that apply-best took, by its program. TVM has graphs of objects where ours has the text of index maps:
            # such traces it cannot read, and print-trace says so (traces.py asks whether it does).
            replayable = [r for r in mine if "lambda " not in json.dumps(r[1][0])]
            same = []
            for record in sorted(replayable, key=lambda r: sorted(r[1][1])[len(r[1][1]) // 2]):
                schedule = Schedule(module)
                Trace.apply_json_to_schedule(record[1][0], schedule)
                same.append(
                    any(
                        bool(tvm_ffi.structural_equal(body(schedule.mod), f.body, map_free_vars=True))
                        for f in tuned.functions.values()
                    )
                )
            if len(replayable) == len(mine) and not any(same):
                return f"no record of `{entry['name']}` gives the program that apply-best prints"
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tvmr")
    arguments.add_argument("files", nargs="+")
    arguments.add_argument("--trials", type=int, default=16)
    options = arguments.parse_args()
    wrong = 0
    for path in options.files:
        try:
            problem = check(options.tvmr, path, options.trials)
        except Exception as error:  # TVM raises many kinds.
            problem = f"TVM: {str(error).strip().splitlines()[-1][:300]}"
        wrong += problem is not None
        print(f"{pathlib.Path(path).stem}: {problem or 'equal'}", flush=True)
    print(f"{len(options.files) - wrong} of {len(options.files)} workloads agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
