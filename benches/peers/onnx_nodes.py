#!/usr/bin/env python3
"""Runs the node tests of the ONNX standard (`onnx.backend.test`): the first data set of each case whose values are numeric tensors.

    python3 benches/peers/onnx_nodes.py TVMR [FILTER ...] [--jobs 2] [--json FILE]

It needs `onnx` and `numpy` (benches/peers/README.md). A case passes, is refused with a reason, gives a wrong result or crashes.
Tolerances are those of the case; shapes, NaN and infinities must match. The exit code is 1 if a result is wrong or the command crashes.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

# NumPy 2 transforms in single precision, and so are the expected values of these cases: their error is above the case's tolerance,
# where exact results are 0.
ROUNDED = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


def identifier(name):
    """The name that tvmr gives to an input."""
    text = re.sub(r"[^A-Za-z0-9]", "_", name)
    if text in ("R", "T", "I"):
        return text + "_"
    return text if re.match(r"[A-Za-z_]", text) else "_" + text


def is_numeric(value):
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8


def cases(filters):
    """The cases of numeric tensors, by their names; functions' expansions (`_expanded`) are models of several nodes."""
    for case in collect_testcases(None):
        if case.model is None or not case.data_sets or filters and not any(f in case.name for f in filters):
            continue
        inputs, outputs = case.data_sets[0]
        if all(map(is_numeric, inputs)) and all(map(is_numeric, outputs)):
            yield case, inputs, outputs


def run(tvmr, directory, case, inputs, outputs):
    """What becomes of a case, and why."""
    base = pathlib.Path(directory) / case.name
    model, given, found = base.with_suffix(".onnx"), base.with_suffix(".in.npz"), base.with_suffix(".out.npz")
    onnx.save(case.model, model)
    np.savez(given, **{identifier(i.name): np.asarray(a) for i, a in zip(case.model.graph.input, inputs)})
    command = [tvmr, "run", model, "--inputs", given, "--output", found]
    if not inputs:
        command = [tvmr, "run", model, "--output", found]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "crashed", "no result in two minutes"
    if done.returncode == 2:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        return "refused", lines[0] if lines else done.stderr.strip()
    if done.returncode != 0:
        return "crashed", f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
    arrays = list(np.load(found).values())
    for path in (model, given, found):
        path.unlink()
    if len(arrays) != len(outputs):
        return "wrong", f"{len(arrays)} results, expected {len(outputs)}"
    for i, (a, b) in enumerate(zip(arrays, outputs)):
        b = np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return "wrong", f"result {i} is {a.dtype} {a.shape}, expected {b.dtype} {b.shape}"
        atol = max(case.atol, ROUNDED.get(case.name, 0))
        if not np.allclose(a, b, rtol=case.rtol, atol=atol, equal_nan=True):
            differ = ~np.isclose(a, b, rtol=case.rtol, atol=atol, equal_nan=True)
            x, y = a[differ].ravel()[0], b[differ].ravel()[0]
            return "wrong", f"{differ.sum()} of {b.size} elements of result {i} differ, such as {x} from {y}"
    return "pass", ""


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("tvmr")
    args.add_argument("filter", nargs="*", help="parts of names of cases")
    args.add_argument("--jobs", type=int, default=2, help="cases that run at the same time")
    args.add_argument("--json", help="file for what became of each case")
    args = args.parse_args()
    tvmr = str(pathlib.Path(args.tvmr).resolve())
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            futures = {c.name: pool.submit(run, tvmr, directory, c, i, o) for c, i, o in cases(args.filter)}
            for name, future in futures.items():
                found[name] = future.result()
    if not found:
        sys.exit("there is no such case")
    for kind in ("wrong", "crashed"):
        for name, (what, why) in found.items():
            if what == kind:
                print(f"{kind}: {name}: {why}")
    reasons = collections.Counter(re.sub(r"\((node|input|output|graph).*\)", "", w) for k, w in found.values() if k == "refused")
    for why, n in reasons.most_common():
        print(f"refused {n:4}: {why}")
    counts = collections.Counter(kind for kind, _ in found.values())
    print(f"{len(found)} cases: " + ", ".join(f"{counts[k]} {k}" for k in ("pass", "refused", "wrong", "crashed")))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found, indent=1))
    return 1 if counts["wrong"] or counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
