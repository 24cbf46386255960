#!/usr/bin/env python3
"""Checks that TVM uses what the Python package found.

usage: python_tvm.py [--trials N]

Tunes programs with `tvmr.tune` into a fresh work directory, and loads this with `tvmr.tvm.load_database`. Then

* `ms.tir_integration.compile_tir` finds a schedule for each program, given as a module and as a function, and its program is
  the one that tvmr prints, unless that is the program as written;
* what TVM compiles of it computes what tvmr's kernel computes;
* Relax's `MetaScheduleApplyDatabase` replaces the functions of a model, whose results stay right.

Runs in an environment with the package, apache-tvm==0.27.0.post1 and apache-tvm-ffi==0.1.14.post1 (benches/peers/README.md).
"""
import argparse
import tempfile

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import tvmr
import tvmr.tvm

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})


@T.prim_func(s_tir=True)
def matmul(A: T.Buffer((96, 64), "float32"), B: T.Buffer((64, 80), "float32"), C: T.Buffer((96, 80), "float32")):
    for i, j, k in T.grid(96, 80, 64):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def softmax(A: T.Buffer((16, 128), "float32"), B: T.Buffer((16, 128), "float32")):
    M = T.sblock_alloc_buffer((16,), "float32")
    S = T.sblock_alloc_buffer((16,), "float32")
    for i, j in T.grid(16, 128):
        with T.sblock("M"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vj])
    for i, j in T.grid(16, 128):
        with T.sblock("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + T.exp(A[vi, vj] - M[vi])
    for i, j in T.grid(16, 128):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj] - M[vi]) / S[vi]


def same(x, y):
    return bool(tvm_ffi.structural_equal(x, y, map_free_vars=True))


def parsed(script):
    program = tvm.script.from_source(script, {"T": T, "I": I, "tvm": tvm})
    return program if not isinstance(program, tvm.IRModule) else list(program.functions.values())[0]


def check_function(function, database, tuned):
    """Both ways to look a function up give the program that tvmr prints, and it computes the same. Returns whether there is a
    schedule, without which TVM takes the next record."""
    name = function.attrs["global_symbol"]
    for given in (function, tvm.IRModule({name: function})):
        schedule = ms.tir_integration.compile_tir(database, given, TARGET)
        assert schedule is not None, f"`{name}` is not in the database"
        found = list(schedule.mod.functions.values())[0]
        is_scheduled = bool(tuned[name].trace_json[0])
        assert same(found.body, parsed(tuned[name].script).body) == is_scheduled, f"`{name}` is another program in TVM"
    kernel = tuned[name].kernel
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, np.float32) for _, _, shape, _ in kernel.params]
    ours = [a.copy() for a in arrays]
    kernel(*ours)
    built = tvm.compile(schedule.mod, target=TARGET)
    theirs = [tvm.runtime.tensor(a) for a in arrays]
    built["main"](*theirs)
    np.testing.assert_allclose(theirs[-1].numpy(), ours[-1], rtol=1e-4)
    # Arrays of TVM go through DLPack.
    again = [tvm.runtime.tensor(a) for a in arrays]
    kernel(*again)
    np.testing.assert_array_equal(again[-1].numpy(), ours[-1])
    return is_scheduled


def model():
    """A model of two operators."""
    x = relax.Var("x", R.Tensor((64, 96), "float32"))
    w = relax.Var("w", R.Tensor((96, 80), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, w))
            out = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(out)
    return relax.transform.LegalizeOps()(builder.get())


def check_model(work_dir, trials):
    """Relax replaces each function of a model by what tvmr found."""
    module = model()
    tvmr.tune(module, trials=trials, work_dir=work_dir, progress=False)
    database = tvmr.tvm.load_database(work_dir)
    with TARGET, database, tvm.transform.PassContext(opt_level=3):
        applied = relax.transform.MetaScheduleApplyDatabase()(module)
    functions = lambda m: {g.name_hint: f for g, f in m.functions.items() if isinstance(f, tvm.tirx.PrimFunc)}
    before, after = functions(module), functions(applied)
    scheduled = [name for name, f in after.items() if f.attrs.get("tirx.is_scheduled") and not same(f.body, before[name].body)]
    assert scheduled, "Relax applied no record"
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, np.float32) - 0.5 for shape in ((64, 96), (96, 80))]
    executable = relax.VirtualMachine(tvm.compile(applied, TARGET), tvm.cpu())
    result = executable["main"](*[tvm.runtime.tensor(a) for a in arrays]).numpy()
    np.testing.assert_allclose(result, np.maximum(arrays[0] @ arrays[1], 0), rtol=1e-4, atol=1e-5)
    return len(scheduled)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--trials", type=int, default=16)
    trials = arguments.parse_args().trials
    functions = [matmul, softmax]
    with tempfile.TemporaryDirectory() as directory:
        work_dir = f"{directory}/functions"
        module = tvm.IRModule({f.attrs["global_symbol"]: f for f in functions})
        tuned = tvmr.tune(module, trials=trials * len(functions), work_dir=work_dir, progress=False)
        database = tvmr.tvm.load_database(work_dir)
        scheduled = 0
        for function in functions:
            scheduled += check_function(function, database, tuned)
            print(f"{function.attrs['global_symbol']}: TVM uses the schedule and computes the same")
        assert scheduled, "all programs are fastest as written: nothing was compared"
        n = check_model(f"{directory}/model", trials)
        print(f"model: Relax uses the schedules of {n} functions")


if __name__ == "__main__":
    main()
