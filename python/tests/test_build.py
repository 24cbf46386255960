"""`build`: libraries of what was tuned."""

import ctypes
import importlib.util
import json
import shutil

import numpy as np
import pytest

import tvmr

needs_linker = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no linker")


@needs_linker
def test_a_library_computes_what_the_kernel_computes(matmul, tmp_path):
    files = matmul.build(tmp_path / "lib" / "matmul", emit=["shared", "python", "manifest"])
    assert [f.name for f in files] == ["libmatmul.so", "matmul.py", "matmul.json"] and all(f.exists() for f in files)
    spec = importlib.util.spec_from_file_location("built_matmul", files[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
