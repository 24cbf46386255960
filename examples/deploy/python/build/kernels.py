"""kernels: functions compiled by tvmr 0.1.0."""

import ctypes
import os

import numpy as np

_library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libkernels.so"))
_CODES = {
    0: "success",
    1: "a pointer is null",
    2: "a pointer is not aligned to its elements, or a workspace not to 64 bytes",
    3: "this CPU lacks the instruction set, and there is no portable version",
    4: "out of memory",
    5: "the program accessed an array out of bounds",
    6: "the program divided an integer by zero, or the minimum by -1",
    7: "an assertion of the program failed",
    8: "no version was built for these sizes",
    9: "the hook for parallel loops failed, or did not run every worker",
}

if _library.kernels_abi_version() != 1:
    raise ImportError("the library and this module are of different versions of tvmr")
_set_num_threads = _library.kernels_set_num_threads
_set_num_threads.restype = ctypes.c_int32


class Error(RuntimeError):
    """A call failed; `code` is the error number."""

    def __init__(self, code):
        super().__init__(_CODES.get(code, "error %d" % code))
        self.code = code


def _is(array, dtype):
    """Whether an array has elements of a type. NumPy has no bfloat16: ml_dtypes' or 16 unsigned bits are taken."""
    if dtype == "bfloat16":
        return array.dtype.name == "bfloat16" or array.dtype == np.uint16
    if dtype.startswith(("float8", "int4", "uint4", "float4", "float6")):
        return array.dtype.name == dtype or array.dtype == np.uint8
    return array.dtype == np.dtype(dtype)


def _pointer(array, name, dtype, shape, written):
    """The address of an array, after checks."""
    if not isinstance(array, np.ndarray):
        raise TypeError("`%s` is a %s; expected a numpy.ndarray" % (name, type(array).__name__))
    if not _is(array, dtype):
        raise TypeError("`%s` has elements of %s; expected %s" % (name, array.dtype, dtype))
    if array.shape != shape:
        raise ValueError("`%s` has shape %s; expected %s" % (name, array.shape, shape))
    if not array.flags.c_contiguous:
        raise ValueError("`%s` is not contiguous in C order; use numpy.ascontiguousarray" % name)
    if not array.dtype.isnative:
        raise TypeError("`%s` is not in the byte order of this machine" % name)
    if written and not array.flags.writeable:
        raise ValueError("`%s` is written, but the array is read-only" % name)
    return ctypes.c_void_p(array.ctypes.data)


def _apart(arrays, written):
    """Checks that what is written overlaps nothing else."""
    for i in written:
        for j, other in enumerate(arrays):
            if i != j and np.may_share_memory(arrays[i], other):
                raise ValueError("argument %d, which is written, overlaps argument %d" % (i, j))


def _done(code):
    if code != 0:
        raise Error(code)


def set_num_threads(n):
    """The number of threads that parallel loops use; they are serial by default."""
    _done(_set_num_threads(ctypes.c_int32(n)))


class Prepared:
    """Memory with prepared parameters."""

    def __init__(self, n_bytes):
        self._memory = np.empty(n_bytes + 64, np.uint8)
        start = -self._memory.ctypes.data % 64
        self.array = self._memory[start:start + n_bytes]
        self.pointer = ctypes.c_void_p(self.array.ctypes.data)


_matmul = _library.kernels_matmul
_matmul.restype = ctypes.c_int32


def matmul(A, B, C):
    """`matmul` of
    A: float32[64, 128]
    B: float32[128, 256]
    C: float32[64, 256], written
    """
    pointers = (
        _pointer(A, "A", "float32", (64, 128), False),
        _pointer(B, "B", "float32", (128, 256), False),
        _pointer(C, "C", "float32", (64, 256), True),
    )
    _apart((A, B, C,), (2,))
    _done(_matmul(*pointers))


_relu = _library.kernels_relu
_relu.restype = ctypes.c_int32


def relu(X, Y):
    """`relu` of
    X: float32[64, 256]
    Y: float32[64, 256], written
    """
    pointers = (
        _pointer(X, "X", "float32", (64, 256), False),
        _pointer(Y, "Y", "float32", (64, 256), True),
    )
    _apart((X, Y,), (1,))
    _done(_relu(*pointers))

