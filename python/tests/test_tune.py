"""`tvmr.tune`: what it takes, what it returns, and how it fails."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pytest
from conftest import MATMUL, SEVERAL

import tvmr

ROOT = pathlib.Path(__file__).parents[2]


def test_a_single_function_has_the_attributes_of_the_result(matmul):
    assert list(matmul) == ["matmul"] and matmul["matmul"].name == "matmul"
    assert matmul.latency_us > 0 and matmul.gflops == pytest.approx(2 * 48**3 / matmul.latency_us / 1e3, rel=1e-6)
    assert "def matmul(" in matmul.script and "def apply_trace(sch" in matmul.trace
    assert matmul.trace_json[0] and matmul.summary["trials"] == 8
    assert "matmul: " in repr(matmul) and "GFLOP/s" in repr(matmul["matmul"])


def test_several_functions_are_chosen_by_name(several):
    assert sorted(several) == ["add_to", "double"] and len(several) == 2
    with pytest.raises(AttributeError, match="choose one of `double`, `add_to`"):
        several.kernel
    assert several["double"].kernel(np.arange(32, dtype=np.int32))[5] == 10


def test_a_program_is_a_text_a_path_or_an_object_with_a_script(tmp_path, monkeypatch):
    path = tmp_path / "program.tir"
    path.write_text(SEVERAL)

    class Module:
        def script(self):
            return SEVERAL

    for program in (path, str(path), Module()):
        assert list(tvmr.tune(program, trials=1, func="double")) == ["double"]
    with pytest.raises(TypeError, match="found `int`"):
        tvmr.tune(3)


def test_what_is_in_the_database_is_not_measured_again(tmp_path):
    first = tvmr.tune(MATMUL, trials=4, work_dir=tmp_path / "db")
    again = tvmr.tune(MATMUL, trials=4, work_dir=tmp_path / "db")
    assert (first.summary["resumed"], again.summary["resumed"]) == (0, 4)
    assert again.trace == first.trace and again.latency_us is not None


def test_a_space_is_a_function(tmp_path):
    def by_eight(sch):
        block = sch.get_block("C", "main")
        i, j, k = sch.get_loops(block)
        sch.split(i, sch.sample_perfect_tile(i, 2, 8))

    tuned = tvmr.tune(MATMUL, trials=3, space=by_eight)
    assert tuned.summary["space"] == "by_eight.py"
    with pytest.raises(tvmr.InputError, match="there is no space `fast`\n  help: name `auto`"):
        tvmr.tune(MATMUL, space="fast")


def test_mistakes_have_the_text_of_the_command_line(tmp_path):
    wrong = MATMUL.replace("B[vk, vj]", "D[vk, vj]")
    (tmp_path / "wrong.tir").write_text(wrong)
    with pytest.raises(tvmr.InputError) as error:
        tvmr.tune(tmp_path / "wrong.tir")
    command = [sys.executable, "-m", "tvmr", "tune", str(tmp_path / "wrong.tir")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert str(error.value) == done.stderr.strip()
    assert "D" in str(error.value) and isinstance(error.value, (tvmr.Error, ValueError))
    with pytest.raises(tvmr.InputError, match="cannot read `nowhere.tir`"):
        tvmr.tune("nowhere.tir")
    with pytest.raises(tvmr.InputError, match="has no function `mutmal`\n  help: there is `matmul`"):
        tvmr.tune(MATMUL, func="mutmal")


@pytest.mark.parametrize(
    "option, value",
    [("trials", 0), ("max_seconds", 0), ("patience", 2), ("threads", 0), ("strategy", "luck"), ("isa", "mmx"), ("jobs", 0)],
)
def test_an_option_out_of_range_is_refused(option, value):
    with pytest.raises(tvmr.InputError):
        tvmr.tune(MATMUL, **{option: value})


def test_symbolic_extents_are_bound():
    program = MATMUL.replace('A: T.Buffer((48, 48), "float32")', "a: T.handle").replace(
        "    for i, j, k", '    n = T.int64()\n    A = T.match_buffer(a, (n, 48), "float32")\n    for i, j, k', 1
    )
    with pytest.raises(tvmr.InputError, match="no value for `n`"):
        tvmr.tune(program, trials=1)
    assert tvmr.tune(program, trials=1, bind={"n": 48}).kernel.params[0][2] == [48, 48]


def test_nothing_valid_is_an_error_that_keeps_the_rest(tmp_path):
    # The space refuses every candidate of one function.
    space = """
def only_double(sch):
    block = sch.get_block("B", "main")
    loop, = sch.get_loops(block)
    sch.compute_at(block, loop)
"""
    with pytest.raises(tvmr.NothingValid, match="no valid schedule for `double`") as error:
        path = tmp_path / "only_double.py"
        path.write_text(space)
        tvmr.tune(SEVERAL, trials=2, func="double", space=path)
    assert "the first refusal" in str(error.value)
    assert isinstance(error.value.tuned, tvmr.Tuned)


def test_a_time_limit_ends_a_search():
    started = time.monotonic()
    tvmr.tune(MATMUL, trials=1_000_000, max_seconds=2)
    assert time.monotonic() - started < 20


def test_progress_is_told_to_a_function():
    told = []
    tvmr.tune(MATMUL, trials=3, progress=told.append)
    assert told[-1].wanted == 3 and max(p.done for p in told) == 3
    assert any(p.text.startswith("best ") for p in told)


def test_nothing_is_printed_unless_asked(capfd):
    tvmr.tune(MATMUL, trials=2)
    assert capfd.readouterr() == ("", "")


def test_an_exception_in_the_progress_function_ends_the_search():
    class Enough(Exception):
        pass

    def stop(progress):
        raise Enough

    with pytest.raises(Enough):
        tvmr.tune(MATMUL, trials=1_000_000, progress=stop)


def test_warnings_are_python_warnings():
    # Nothing initialises the sum: almost surely a slip.
    program = MATMUL.replace("            with T.init():\n                C[vi, vj] = T.float32(0)\n", "")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tvmr.tune(program, trials=1)
    caught = [w for w in caught if w.category is tvmr.TuningWarning]
    assert caught and all(w.filename == __file__ for w in caught)


def test_other_threads_run_meanwhile():
    steps, stop = 0, threading.Event()

    def count():
        nonlocal steps
        while not stop.wait(0.001):
            steps += 1

    thread = threading.Thread(target=count)
    thread.start()
    tvmr.tune(MATMUL, trials=8)
    stop.set()
    thread.join()
    assert steps > 10


def test_the_affinity_of_the_caller_is_left_alone():
    before = os.sched_getaffinity(0)
    seen = []
    tvmr.tune(MATMUL, trials=4, pin=True, progress=lambda p: seen.append(os.sched_getaffinity(0)))
    assert seen and all(s == before for s in seen) and os.sched_getaffinity(0) == before


def heed_ctrl_c():
    """In a new process: Ctrl-C is not ignored, whatever the caller of the tests ignores, such as a shell in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_a_search_and_keeps_what_was_measured(tmp_path):
    script = f"""
        import os, tvmr
        def tell(progress):
            # In one system call: Ctrl-C may come between the text that print writes and the end of its line.
            if progress.done >= 2:
                os.write(1, b"measured\\n")
        try:
            tvmr.tune({MATMUL!r}, trials=1_000_000, work_dir={str(tmp_path / "db")!r}, progress=tell)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c)
    assert run.stdout.readline() == "measured\n"
    sent = time.monotonic()
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted" and run.returncode == 0
    assert time.monotonic() - sent < 20
    records = (tmp_path / "db" / "database_tuning_record.json").read_text().splitlines()
    assert len(records) >= 2


def test_the_command_is_the_command_line(tmp_path):
    (tmp_path / "matmul.tir").write_text(MATMUL)
    command = [pathlib.Path(sys.executable).with_name("tvmr"), "tune", "matmul.tir", "--trials", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("matmul: "), done.stderr
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True)
    assert version.stdout == f"tvmr {tvmr.__version__}\n"
    assert subprocess.run([command[0], "frobnicate"], capture_output=True).returncode == 2


def test_ctrl_c_ends_the_command_with_its_exit_code(tmp_path):
    (tmp_path / "matmul.tir").write_text(MATMUL)
    command = [sys.executable, "-m", "tvmr", "tune", "matmul.tir", "--trials", "1000000", "-v"]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    run = subprocess.Popen(command, **pipes, text=True, cwd=tmp_path, preexec_fn=heed_ctrl_c)
    for line in run.stderr:
        if "trial 2 " in line:
            break
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130 and "Traceback" not in err
