"""`build`: libraries of what was tuned."""

import ctypes
import importlib.util
import json
import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import tvmr
from conftest import W, copies

needs_linker = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no linker")


def load(path):
    """The generated module of a file."""
    spec = importlib.util.spec_from_file_location("built_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_linker
def test_a_library_computes_what_the_kernel_computes(matmul, tmp_path):
    files = matmul.build(tmp_path / "lib" / "matmul", emit=["shared", "python", "manifest"])
    assert [f.name for f in files] == ["libmatmul.so", "matmul.py", "matmul.json"] and all(f.exists() for f in files)
    module = load(files[1])
    a, b = np.random.default_rng(0).random((2, 48, 48), np.float32)
    c = np.empty_like(a)
    module.matmul(a, b, c)
    np.testing.assert_array_equal(c, matmul.kernel(a, b))
    described = json.loads(files[2].read_text())["functions"][0]
    assert described["name"] == "matmul"


@needs_linker
def test_several_functions_are_one_library(several, tmp_path):
    shared, header = several.build(tmp_path / "both", emit=["shared", "header"], prefix="two", tvm_ffi=False)
    assert "two_double" in header.read_text() and "two_add_to" in header.read_text()
    library = ctypes.CDLL(str(shared))
    a = np.arange(32, dtype=np.int32)
    b = np.empty_like(a)
    pointer = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    assert library.two_double(pointer(a), pointer(b)) == 0 and (b == 2 * a).all()
    assert library.two_add_to(pointer(a), pointer(b)) == 0 and (b == 3 * a).all()
    assert not hasattr(library, "__tvm_ffi_double")


def test_objects_and_headers_are_the_default(several, tmp_path):
    files = several["double"].build(tmp_path / "double")
    assert [f.name for f in files] == ["double.o", "double.h"]
    assert "add_to" not in files[1].read_text()
    portable = (tmp_path / "double.o").stat().st_size
    several["double"].build(tmp_path / "double", emit="obj", only_this_cpu=True)
    assert (tmp_path / "double.o").stat().st_size <= portable


def test_mistakes_are_exceptions_and_write_nothing(matmul, tmp_path):
    with pytest.raises(tvmr.InputError, match="is a directory\n  help: name a directory and the name"):
        matmul.build(tmp_path)
    with pytest.raises(tvmr.InputError, match="there is no kind of file `dll`; there are `obj`"):
        matmul.build(tmp_path / "matmul", emit=["dll"])
    with pytest.raises(tvmr.InputError, match="`a-b` is not a name in C"):
        matmul.build(tmp_path / "matmul", prefix="a-b")
    (tmp_path / "file").write_text("")
    with pytest.raises(tvmr.MachineError, match="cannot make the directory"):
        matmul.build(tmp_path / "file" / "matmul")
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


@needs_linker
@pytest.mark.parametrize("external", [False, True])
def test_a_tuned_model_is_built_with_its_weights(onnx_file, tmp_path, external):
    tuned = tvmr.tune(onnx_file, shapes={"x": (3, 4)}, trials=2)
    weights = tmp_path / "net.weights"
    options = {"external_weights": weights} if external else {}
    built = tuned.build(tmp_path / "net", emit=["shared", "python"], **options)
    assert {f.name for f in built} == {"libnet.so", "net.py"} | ({"net.weights"} if external else set())
    x, y = np.random.default_rng(0).random((3, 4), np.float32), np.empty((3, 8), np.float32)
    expected = tuned.model(x)
    onnx_file.unlink()
    load(tmp_path / "net.py").main(x, y)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_allclose(y, np.maximum(x @ W, 0), rtol=1e-5)


def test_a_function_of_a_model_is_built_alone(onnx_file, tmp_path):
    tuned = tvmr.tune(onnx_file, shapes={"x": (3, 4)}, trials=2)
    header = next(iter(tuned.values())).build(tmp_path / "one")[1].read_text()
    assert "one_main(" not in header and next(iter(tuned)) in header


def test_external_weights_are_those_of_models(matmul, tmp_path):
    with pytest.raises(tvmr.InputError, match="no function has weights for `--external-weights`"):
        matmul.build(tmp_path / "matmul", external_weights=tmp_path / "matmul.weights")


SCALED = """
@T.prim_func
def scaled(alpha: T.{dtype}, a: T.handle, B: T.Buffer((4, 4), "{dtype}")):
    A = T.match_buffer(a, (4, 4), "{dtype}", strides=(6, 1))
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] * alpha
"""


@needs_linker
@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_a_module_takes_numbers_and_stated_strides(dtype, tmp_path):
    tuned = tvmr.tune(SCALED.format(dtype=dtype), trials=1)
    scaled = load(tuned.build(tmp_path / f"scaled_{dtype}", emit="python")[0]).scaled
    numpy_dtype = np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" else np.dtype(dtype)
    a = np.arange(24).astype(numpy_dtype).reshape(4, 6)[:, :4]
    b = np.zeros((4, 4), numpy_dtype)
    scaled(3, a, b)
    np.testing.assert_array_equal(b, a * numpy_dtype.type(3))
    with pytest.raises(ValueError, match="`A` has strides of"):
        scaled(3, np.zeros((4, 4), numpy_dtype), b)
    with pytest.raises(TypeError, match="`alpha` is a str; expected"):
        scaled("3", a, b)
    if dtype.startswith("int"):
        with pytest.raises(TypeError, match="`alpha` is a float; expected an integer"):
            scaled(2.5, a, b)
    if dtype == "int8":
        with pytest.raises(ValueError, match="`alpha` is 128, which no int8 is"):
            scaled(128, a, b)


@needs_linker
def test_a_module_rounds_numbers_to_halves_as_ml_dtypes_does(tmp_path):
    program = """
@T.prim_func
def number(alpha: T.bfloat16, B: T.Buffer((1,), "bfloat16")):
    for i in range(1):
        with T.block("B"):
            v = T.axis.spatial(1, i)
            B[v] = alpha
"""
    number = load(tvmr.tune(program, trials=1).build(tmp_path / "number", emit="python")[0]).number
    rng = np.random.default_rng(0)
    values = [0.0, -0.0, 1.00390625, 1.01171875, 3.4e38, 1e39, np.inf, np.nan, 1e-41, *rng.normal(0, 1, 200)]
    for value in values:
        found = np.zeros(1, ml_dtypes.bfloat16)
        number(float(value), found)
        expected = np.array([value]).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@needs_linker
def test_a_module_refuses_what_does_not_fit(tmp_path):
    copy = load(tvmr.tune(copies("float32"), trials=1).build(tmp_path / "copy", emit="python")[0]).copy
    a, b = np.ones(16, np.float32), np.zeros(16, np.float32)
    read_only = np.zeros(16, np.float32)
    read_only.flags.writeable = False
    odd = np.zeros(65, np.uint8)[1:].view(np.float32)
    for arrays, error, text in [
        (([1.0] * 16, b), TypeError, "`A` is a list; expected a numpy.ndarray"),
        ((a.astype(np.float64), b), TypeError, "`A` has elements of float64; expected float32"),
        ((a.astype(">f4"), b), TypeError, "`A` has elements of >f4; expected float32"),
        ((a.reshape(4, 4), b), ValueError, r"`A` has shape \(4, 4\); expected \(16,\)"),
        ((np.ones(32, np.float32)[::2], b), ValueError, "not contiguous"),
        ((a, read_only), ValueError, "`B` is written, but the array is read-only"),
        ((a, a), ValueError, "overlaps"),
        ((a,), TypeError, "argument"),
        ((a, b, b), TypeError, "argument"),
    ]:
        with pytest.raises(error, match=text):
            copy(*arrays)
    with pytest.raises(Exception, match="aligned"):
        copy(odd, b)
    copy(a, b)
    np.testing.assert_array_equal(a, b)


MODEL = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((8, 4), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        y = R.matmul(x, R.permute_dims(w))
        R.output(y)
    return y
"""


@needs_linker
def test_weights_beside_the_module_are_mapped(tmp_path):
    random = np.random.default_rng(0)
    x, w = random.random((2, 4), np.float32), random.random((8, 4), np.float32)
    (tmp_path / "net.tir").write_text(MODEL)
    np.savez(tmp_path / "net.npz", w=w)
    command = [sys.executable, "-m", "tvmr", "build", tmp_path / "net.tir", "--bind", "n=2", "--as-written", "--quiet"]
    command += ["-o", tmp_path / "b" / "net", "--emit", "python", "--external-weights", tmp_path / "b" / "net.weights"]
    subprocess.run(command, check=True)
    y = np.empty((2, 8), np.float32)

    module = load(tmp_path / "b" / "net.py")
    module.main(x, y)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-5)
    with pytest.raises(module.Error, match="other weights were set before"):
        module.set_weights()

    # Elsewhere, the path is told.
    away = tmp_path / "away"
    away.mkdir()
    for name in ["net.py", "libnet.so"]:
        shutil.copy(tmp_path / "b" / name, away)
    module = load(away / "net.py")
    with pytest.raises(module.Error, match="none were set"):
        module.main(x, y)
    module.set_weights(tmp_path / "b" / "net.weights")
    module.main(x, y)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-5)


@needs_linker
def test_batches_of_any_size_are_computed_in_parts(tmp_path):
    w = np.random.default_rng(1).random((8, 4), np.float32)
    np.savez(tmp_path / "net.npz", w=w)
    (tmp_path / "net.tir").write_text(
        """
@R.function
def main(x: R.Tensor(("n", 3, 8), "float32"), w: R.Tensor((8, 4), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        a = R.nn.softmax(R.matmul(x, w))
        b = R.argmax(R.sum(a, axis=[1]), axis=1)
        R.output(a, b)
    return (a, b)
"""
    )
    build = [sys.executable, "-m", "tvmr", "build", "net.tir", "--as-written", "-o", "built/net", "--emit", "python"]
    subprocess.run([*build, "--bind", "n=1,8", "--batch-loop", "n"], cwd=tmp_path, check=True, capture_output=True)
    net = load(tmp_path / "built" / "net.py")
    x = np.random.default_rng(0).random((19, 3, 8), np.float32)
    for n in (0, 1, 7, 8, 19):
        a, b = np.empty((n, 3, 4), np.float32), np.empty(n, np.int64)
        net.main(x[:n], a, b)
        for i in range(n):
            one, digit = np.empty((1, 3, 4), np.float32), np.empty(1, np.int64)
            net.main(x[i : i + 1], one, digit)
            np.testing.assert_allclose(a[i], one[0], rtol=1e-5)
            assert b[i] == digit[0]
    with pytest.raises((TypeError, ValueError)):
        net.main(x, np.empty((18, 3, 4), np.float32), np.empty(19, np.int64))
