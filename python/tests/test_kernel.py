"""Kernels over arrays."""

import array
import ctypes
import multiprocessing
import sys
import threading

import numpy as np
import pytest
from conftest import copies

import tvmr


def arrays(rng=np.random.default_rng(0)):
    return rng.random((48, 48), np.float32), rng.random((48, 48), np.float32)


def test_outputs_are_written_in_place_or_returned(matmul):
    a, b = arrays()
    c = np.full((48, 48), np.nan, np.float32)
    assert matmul.kernel(a, b, c) is None
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    new = matmul.kernel(a, b)
    assert isinstance(new, np.ndarray) and (new == c).all()


def test_parameters_that_are_read_and_written_are_passed(several):
    add_to = several["add_to"].kernel
    assert [p[3] for p in add_to.params] == ["in", "inout"]
    b = np.ones(32, np.int32)
    assert add_to(np.arange(32, dtype=np.int32), b) is None
    assert (b == np.arange(32) + 1).all()
    with pytest.raises(tvmr.ArgumentError, match=r"`add_to` takes 2 arrays \(`A`, `B`\); found 1"):
        add_to(b)


def test_a_kernel_says_what_it_takes(matmul):
    kernel = matmul.kernel
    assert kernel.name == "matmul" and kernel.constants == []
    assert kernel.params[2] == ("C", "float32", [48, 48], "out")
    assert repr(kernel).startswith("<tvmr.Kernel matmul(A: in float32[48, 48], ")


@pytest.mark.parametrize(
    "b, text",
    [
        (np.zeros((48, 48)), "argument 1 of `matmul`, `B`: expected float32, found float64"),
        (np.zeros((48, 48), ">f4"), "expected float32, found NumPy's >f4"),
        (np.zeros((48, 48), object), "found NumPy's object"),
        (np.zeros((48, 47), np.float32), r"expected shape \[48, 48\], found \[48, 47\]"),
        (np.zeros(2304, np.float32), r"expected shape \[48, 48\], found \[2304\]"),
        (np.zeros((48, 48), np.float32).T, r"expected contiguous elements, .* found \[1, 48\]"),
        (np.zeros((48, 96), np.float32)[:, ::2], r"found \[96, 2\]"),
        (np.frombuffer(bytearray(9217), np.uint8)[1:].view(np.float32).reshape(48, 48), "not aligned"),
        ([[0.0] * 48] * 48, "argument 1 of `matmul`, `B`: expected an array .* found `list`"),
        (None, "found `NoneType`"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(matmul, b, text):
    a, _ = arrays()
    with pytest.raises(tvmr.ArgumentError, match=text):
        matmul.kernel(a, b)


def test_outputs_must_be_writable_and_overlap_nothing(matmul):
    a, b = arrays()
    c = np.zeros((48, 48), np.float32)
    c.flags.writeable = False
    with pytest.raises(tvmr.ArgumentError, match="`C`: it is written, but the array is read-only"):
        matmul.kernel(a, b, c)
    with pytest.raises(tvmr.ArgumentError, match="writes `C`, which overlaps `A`"):
        matmul.kernel(a, b, a)
    # Inputs may be read-only, and the same array.
    a.flags.writeable = False
    np.testing.assert_allclose(matmul.kernel(a, a), a @ a, rtol=1e-5)


def test_alignment_to_elements_is_enough(matmul):
    a, b = arrays()
    expected = matmul.kernel(a, b)
    for offset in range(1, 17):
        odd = np.zeros(48 * 48 + offset, np.float32)[offset:].reshape(48, 48)
        odd[:] = a
        c = np.zeros(48 * 48 + offset, np.float32)[offset:].reshape(48, 48)
        matmul.kernel(odd, b, c)
        assert (c == expected).all()


@pytest.mark.parametrize(
    "dtype", "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
)
def test_types(dtype):
    copy = tvmr.tune(copies(dtype), trials=1).kernel
    a = (np.arange(16) % 2).astype(dtype) if dtype == "bool" else np.arange(16).astype(dtype)
    b = copy(a)
    assert b.dtype == np.dtype(dtype) and (a == b).all()


def test_bfloat16_is_that_of_ml_dtypes_or_its_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    copy = tvmr.tune(copies("bfloat16"), trials=1).kernel
    a = np.arange(16).astype(ml_dtypes.bfloat16)
    b = copy(a)
    assert b.dtype == ml_dtypes.bfloat16 and (a == b).all()
    bits = np.zeros(16, np.uint16)
    copy(a.view(np.uint16), bits)
    assert (bits == a.view(np.uint16)).all()
    with pytest.raises(tvmr.ArgumentError, match="expected bfloat16, found float16"):
        copy(np.zeros(16, np.float16))


def test_buffers_are_arrays():
    copy = tvmr.tune(copies("int32"), trials=1).kernel
    given, taken = array.array("i", range(16)), array.array("i", [0] * 16)
    copy(given, taken)
    assert taken == given
    foreign = (ctypes.c_int32 * 16)()
    copy(memoryview(given), foreign)
    assert list(foreign) == list(range(16))
    with pytest.raises(tvmr.ArgumentError, match="read-only"):
        copy(given, memoryview(given.tobytes()).cast("i"))


class OfDlpack:
    """An array that is only known through DLPack."""

    def __init__(self, array, device=(1, 0), versions=True):
        self._array, self._device, self._versions = array, device, versions

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, **options):
        if options and not self._versions:
            raise TypeError("unexpected keyword argument")
        # NumPy before 2.1 does not know versions.
        known = options if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else {}
        return self._array.__dlpack__(**known)


@pytest.mark.parametrize("versions", [True, False])
def test_arrays_of_other_libraries_are_shared(matmul, versions):
    a, b = arrays()
    c = np.zeros((48, 48), np.float32)
    matmul.kernel(OfDlpack(a, versions=versions), b, OfDlpack(c, versions=versions))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    with pytest.raises(tvmr.ArgumentError, match=r"`A`: expected contiguous .* found \[1, 48\]"):
        matmul.kernel(OfDlpack(a.T, versions=versions), b)
    with pytest.raises(tvmr.ArgumentError, match="`A`: the array is on a device"):
        matmul.kernel(OfDlpack(a, device=(2, 0)), b)


def test_the_memory_of_other_libraries_is_given_back(matmul):
    a, b = arrays()
    references = sys.getrefcount(a)
    for _ in range(10):
        matmul.kernel(OfDlpack(a), b)
    assert sys.getrefcount(a) == references


def test_read_only_arrays_are_shared_where_dlpack_can_say_so(matmul):
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy refuses to share read-only arrays")
    a, b = arrays()
    a.flags.writeable = False
    np.testing.assert_allclose(matmul.kernel(OfDlpack(a), b), a @ b, rtol=1e-5)
    with pytest.raises(tvmr.ArgumentError, match="read-only"):
        matmul.kernel(b, b, OfDlpack(a))


PREPARED = """
@T.prim_func
def main(X: T.Buffer((64,), "float32"), W: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    P = T.alloc_buffer((64,), "float32")
    for i in range(64):
        with T.block("P"):
            v = T.axis.spatial(64, i)
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            P[v] = W[63 - v]
    for i in range(64):
        with T.block("Y"):
            v = T.axis.spatial(64, i)
            Y[v] = P[v] + X[v]
"""


def test_constants_are_prepared_at_the_first_call_and_when_asked():
    # A space that changes nothing keeps the preparation.
    kernel = tvmr.tune(PREPARED, trials=1, space=lambda_free).kernel
    assert kernel.constants == ["W"]
    x, w = np.arange(64, dtype=np.float32), np.random.default_rng(1).random(64, np.float32)
    np.testing.assert_array_equal(kernel(x, w), w[::-1] + x)
    other = w + 1
    np.testing.assert_array_equal(kernel(x, other), w[::-1] + x)
    kernel.prepare(other)
    np.testing.assert_array_equal(kernel(x, w), other[::-1] + x)
    with pytest.raises(tvmr.ArgumentError, match=r"takes 1 array \(`W`\); found 2"):
        kernel.prepare(w, w)


def lambda_free(sch):
    block = sch.get_block("Y", "main")
    loops = sch.get_loops(block)
    sch.vectorize(loops[0])


def test_a_kernel_that_fails_is_an_error():
    program = copies("int32").replace("B[v] = A[v]", "B[v] = T.truncdiv(A[v], A[0])")
    kernel = tvmr.tune(program, trials=1, check=False).kernel
    assert (kernel(np.full(16, 3, np.int32)) == 1).all()
    with pytest.raises(tvmr.KernelError, match="`copy` failed: integer division by zero"):
        kernel(np.zeros(16, np.int32))


def test_threads_share_a_kernel(matmul):
    kernel = matmul.kernel
    wrong = []

    def work(seed):
        a, b = arrays(np.random.default_rng(seed))
        expected = kernel(a, b)
        wrong.extend(1 for _ in range(200) if not (kernel(a, b) == expected).all())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


@pytest.mark.filterwarnings("ignore::tvmr.TuningWarning", "ignore::DeprecationWarning")
def test_a_forked_process_calls_kernels_with_threads():
    program = copies("int32").replace("range(16)", "T.parallel(16)")
    kernel = tvmr.tune(program, trials=1, threads=2).kernel
    a = np.arange(16, dtype=np.int32)
    assert (kernel(a) == a).all()
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(kernel(a).tolist()))
    child.start()
    assert receive.poll(60) and receive.recv() == a.tolist()
    child.join(60)
    assert child.exitcode == 0


def axpy(dtype):
    return f"""
@T.prim_func
def axpy(alpha: T.{dtype}, A: T.Buffer((16,), "{dtype}"), B: T.Buffer((16,), "{dtype}")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * alpha
"""


def test_numbers_are_inputs_without_dimensions():
    kernel = tvmr.tune(axpy("float32"), trials=1).kernel
    a = np.arange(16, dtype=np.float32)
    for alpha in (2.5, 2, True, np.float32(2.5), np.array(2.5, np.float32)):
        np.testing.assert_array_equal(kernel(alpha, a), a * np.float32(alpha))
    with pytest.raises(tvmr.ArgumentError, match="argument 0 of `axpy`, `alpha`: expected .*float32"):
        kernel(np.array(2.5), a)
    with pytest.raises(tvmr.ArgumentError, match="argument 0 of `axpy`, `alpha`: expected an array"):
        kernel("2.5", a)
    kernel = tvmr.tune(axpy("int8"), trials=1).kernel
    a = np.arange(16, dtype=np.int8)
    np.testing.assert_array_equal(kernel(-3, a), a * np.int8(-3))
    for wrong in (2.5, 128):
        with pytest.raises(tvmr.ArgumentError, match=f"argument 0 of `axpy`, `alpha`: expected int8, found {wrong}"):
            kernel(wrong, a)
