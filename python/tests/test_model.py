"""`compile`: models over arrays, and models that `tune` has tuned."""

import gc
import multiprocessing
import os
import threading
import warnings

import numpy as np
import pytest
from conftest import MATMUL, SEVERAL, W, node, onnx_model, value
from test_kernel import OfDlpack

import tvmr

# Two inputs and two outputs, of which one is read again.
TEXT = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((8,), "float32"), w: R.Tensor((4, 8), "float32")):
    R.func_attr({"num_input": 2})
    with R.dataflow():
        a = R.add(R.matmul(x, w), y)
        b = R.sum(a, axis=[1])
        R.output(a, b)
    return (a, b)
"""


def compiled(n=3, **options):
    return tvmr.compile(TEXT, shapes={"x": (n, 4)}, weights={"w": W}, **options)


def arrays(n=3):
    rng = np.random.default_rng(0)
    x, y = rng.random((n, 4), np.float32), rng.random(8, np.float32)
    return x, y, x @ W + y


def test_an_onnx_model_is_called_on_arrays(onnx_file):
    model = tvmr.compile(onnx_file, shapes={"x": (3, 4)})
    assert isinstance(model, tvmr.Model) and model.name == "main"
    x = np.random.default_rng(0).random((3, 4), np.float32) - 0.5
    y = model(x)
    assert y.shape == (3, 8) and y.dtype == np.float32
    np.testing.assert_allclose(y, np.maximum(x @ W, 0), rtol=1e-5, atol=1e-6)
    assert (tvmr.compile(str(onnx_file), bind={"n": 3})(x) == y).all()

    class Proto:
        """As `onnx.ModelProto` is."""

        def SerializeToString(self):
            return onnx_file.read_bytes()

    assert (tvmr.compile(Proto(), bind={"n": 3})(x) == y).all()


def test_a_model_says_what_it_takes(onnx_file):
    model = tvmr.compile(onnx_file, shapes={"x": (3, 4)})
    assert model.inputs == (("x", "float32", (3, 4)),) and model.outputs[0].shape == (3, 8)
    assert [t.name for t in compiled().outputs] == ["a", "b"]
    assert repr(model) == "<tvmr.Model main(x: in float32[3, 4], y: out float32[3, 8])>"


def test_arrays_are_passed_in_order_or_by_name():
    model = compiled()
    x, y, a = arrays()
    results = [model(x, y), model(x, y=y), model(y=y, x=x), model(OfDlpack(x), y)]
    for found, total in results:
        np.testing.assert_allclose(found, a, rtol=1e-5)
        np.testing.assert_allclose(total, a.sum(1), rtol=1e-5)


def test_outputs_are_written_in_place():
    model = compiled()
    x, y, a = arrays()

    def check(found, total):
        np.testing.assert_allclose(found, a, rtol=1e-5)
        np.testing.assert_allclose(total, a.sum(1), rtol=1e-5)

    def new():
        return np.full((3, 8), np.nan, np.float32), np.full(3, np.nan, np.float32)

    out = new()
    assert model(x, y, *out) is None
    check(*out)
    out = new()
    assert model(x, y, out=out) is out
    check(*out)
    out = new()
    assert model(x, b=out[1], a=out[0], y=y) is None
    check(*out)


@pytest.mark.parametrize(
    "args, named, text",
    [
        ("x", {}, r"`main` takes 2 arrays \(`x`, `y`\), and optionally the outputs \(`a`, `b`\); without `y`"),
        ("", {"z": "x"}, "has no parameter `z`; it has `x`, `y`, `a`, `b`"),
        ("xy", {"x": "x"}, "is given `x` twice"),
        ("xyxyx", {}, "takes at most 4 arrays .*; found 5"),
        ("xya", {}, r"is given 1 of its outputs \(`a`, `b`\); pass all or none"),
        ("xy", {"out": "a"}, "has 2 outputs, and `out` has 1"),
        ("yx", {}, r"argument 0 of `main`, `x`: expected shape \[3, 4\], found \[8\]"),
        ("dy", {}, "`x`: expected float32, found float64"),
        ("xyxb", {}, r"`a`: expected shape \[3, 8\]"),
        ("Ty", {}, "expected contiguous elements"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(args, named, text):
    x, y, a = arrays()
    known = {"x": x, "y": y, "a": a, "b": a.sum(1), "d": x.astype(float), "T": np.zeros((4, 3), np.float32).T}
    with pytest.raises(tvmr.ArgumentError, match=text):
        compiled()(*(known[name] for name in args), **{name: known[key] for name, key in named.items()})


def test_outputs_overlap_nothing():
    model = tvmr.compile(TEXT, shapes={"x": (8, 4)}, weights={"w": W})
    x, _, _ = arrays(8)
    both = np.zeros(8, np.float32)
    with pytest.raises(tvmr.ArgumentError, match="writes `b`, which overlaps `y`"):
        model(x, both, np.zeros((8, 8), np.float32), both)


def test_weights_are_arrays_or_a_file(tmp_path):
    x, y, a = arrays()
    np.savez(tmp_path / "values.npz", w=W)
    model = tvmr.compile(TEXT, bind={"n": 3}, weights=tmp_path / "values.npz")
    os.remove(tmp_path / "values.npz")
    np.testing.assert_allclose(model(x, y)[0], a, rtol=1e-5)
    # The file beside a program has its name.
    (tmp_path / "net.tir").write_text(TEXT)
    np.savez(tmp_path / "net.npz", w=W)
    np.testing.assert_allclose(tvmr.compile(tmp_path / "net.tir", bind={"n": 3})(x, y)[0], a, rtol=1e-5)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"bind": {"n": 3}}, "there are no values for `w`"),
        ({"bind": {"n": 3}, "weights": {"v": W}}, "has no array `w`"),
        ({"bind": {"n": 3}, "weights": {"w": W.T.copy()}}, r"`w` in .* is float32 \[8, 4\], and the graph expects"),
        ({"weights": {"w": W}}, "--bind"),
        ({"shapes": {"x": (3, 5)}}, r"`x` of `main` is float32 \[n, 4\] with `n` = 3"),
        ({"shapes": {"z": (3, 5)}}, "has an input `z`"),
        ({"const": {"y": [1]}}, "`--const` is for inputs of ONNX models"),
        ({"bind": {"n": 3}, "threads": 0}, "`threads` is 0"),
        ({"bind": {"n": 3}, "isa": "mmx"}, "no such instruction set"),
        ({"bind": {"n": 3}, "work_dir": "nowhere"}, "there is no database in `nowhere`"),
    ],
)
def test_mistakes_are_input_errors(options, text):
    with pytest.raises(tvmr.InputError, match=text):
        tvmr.compile(TEXT, **options)


def test_operators_that_are_not_supported_are_told(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_model([node("Det", ["x"], "y")], [value("x", [2, 2])], [value("y", [])]))
    with pytest.raises(tvmr.InputError, match="the operator `Det` is not supported"):
        tvmr.compile(path)
    with pytest.raises(tvmr.InputError, match="cannot read"):
        tvmr.compile(tmp_path / "nets.onnx")


@pytest.mark.parametrize("shape", [[3, 4], (3, 4), np.array([3, 4]), "3,4"])
def test_elements_of_inputs_are_constants(tmp_path, shape):
    path = tmp_path / "net.onnx"
    inputs = [value("x", [2, 6]), value("shape", [2], element=7)]
    path.write_bytes(onnx_model([node("Reshape", ["x", "shape"], "y")], inputs, [value("y", [3, 4])]))
    with pytest.raises(tvmr.InputError, match="--const shape="):
        tvmr.compile(path)
    model = tvmr.compile(path, const={"shape": shape})
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    assert [t.name for t in model.inputs] == ["x"] and (model(x) == x.reshape(3, 4)).all()


def test_several_threads_call_a_model():
    model = compiled(64, threads=2)
    x, y, a = arrays(64)
    wrong = []

    def call():
        for _ in range(50):
            if not np.allclose(model(x, y)[0], a, rtol=1e-5):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::tvmr.TuningWarning", "ignore::DeprecationWarning")
def test_a_forked_process_calls_models_with_threads():
    model = compiled(64, threads=2)
    x, y, a = arrays(64)
    model(x, y)
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(np.allclose(model(x, y)[0], a, rtol=1e-5)))
    child.start()
    assert receive.poll(60) and receive.recv() is True
    child.join(60)
    assert child.exitcode == 0


def test_a_model_that_fails_raises():
    text = """
@R.function
def main(x: R.Tensor((4,), "int32"), y: R.Tensor((4,), "int32")):
    with R.dataflow():
        z = R.floor_divide(x, y)
        R.output(z)
    return z
"""
    model = tvmr.compile(text)
    x = np.arange(4, dtype=np.int32)
    assert (model(x * 6, x + 1) == x * 6 // (x + 1)).all()
    with pytest.raises(tvmr.KernelError, match="`main` failed: .*division"):
        model(x, x)


def test_a_tuned_model_is_compiled_with_the_best_versions(tmp_path, onnx_file):
    db = tmp_path / "db"
    tuned = tvmr.tune(onnx_file, shapes={"x": (3, 4)}, trials=3, work_dir=db)
    assert len(tuned) == 1 and tuned.latency_us > 0
    x = np.random.default_rng(0).random((3, 4), np.float32)
    y = np.maximum(x @ W, 0)
    np.testing.assert_allclose(tuned.model(x), y, rtol=1e-5)
    assert tuned.model is tuned.model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tvmr.compile(onnx_file, shapes={"x": (3, 4)}, work_dir=db)
    np.testing.assert_allclose(model(x), y, rtol=1e-5)
    with pytest.warns(tvmr.TuningWarning, match="0 of 1 distinct prim_funcs of `main` have a record"):
        tvmr.compile(onnx_file, shapes={"x": (5, 4)}, work_dir=db)


def test_weights_of_a_tuned_model_are_kept_for_it():
    tuned = tvmr.tune(TEXT, bind={"n": 3}, weights={"w": W}, max_seconds=2)
    gc.collect()
    x, y, a = arrays()
    np.testing.assert_allclose(tuned.model(x, y)[0], a, rtol=1e-5)


def test_a_program_without_a_graph_is_a_kernel(tmp_path, matmul):
    kernel = tvmr.compile(MATMUL)
    a, b = np.random.default_rng(0).random((2, 48, 48), np.float32)
    assert isinstance(kernel, tvmr.Kernel)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    tvmr.tune(MATMUL, trials=2, work_dir=tmp_path / "db")
    np.testing.assert_allclose(tvmr.compile(MATMUL, work_dir=tmp_path / "db")(a, b), a @ b, rtol=1e-5)
    with pytest.raises(tvmr.InputError, match="has 2 functions: `double`, `add_to`"):
        tvmr.compile(SEVERAL)
    assert tvmr.compile(SEVERAL, func="double").name == "double"
    with pytest.raises(AttributeError, match="no graph"):
        matmul.model


def test_tensor_expressions_take_arguments(tmp_path):
    path = tmp_path / "add.py"
    path.write_text(
        "from tvm import te\n\n\n"
        "def add(n, dtype):\n"
        '    A = te.placeholder((n,), name="A", dtype=dtype)\n'
        '    B = te.placeholder((n,), name="B", dtype=dtype)\n'
        '    return [A, B, te.compute((n,), lambda i: A[i] + B[i], name="C")]\n'
    )
    a, b = np.random.default_rng(0).random((2, 16), np.float32)
    for kernel in (
        tvmr.compile(path, args=(16, "float32")),
        tvmr.compile(path, func="add", args="16,float32"),
        tvmr.tune(path, args=(16, "float32"), trials=1).kernel,
    ):
        np.testing.assert_allclose(kernel(a, b), a + b)
