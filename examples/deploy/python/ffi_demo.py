"""Calls kernels through TVM-FFI, with arrays of NumPy and, where it is installed, PyTorch: `pip install apache-tvm-ffi`."""

import os
import subprocess

import numpy as np
import tvm_ffi

here = os.path.dirname(os.path.abspath(__file__))
library = os.path.join(here, "build", "libkernels.so")
tvmr = os.environ.get("TVMR", "tvmr")
program = os.path.join(here, "..", "matmul.tir")
subprocess.run([tvmr, "build", program, "-o", os.path.join(here, "build", "kernels"), "--emit", "shared"], check=True)

kernels = tvm_ffi.load_module(library)
rng = np.random.default_rng(0)
a = rng.standard_normal((64, 128), dtype=np.float32)
b = rng.standard_normal((128, 256), dtype=np.float32)
c = np.empty((64, 256), np.float32)
kernels.matmul(*map(tvm_ffi.from_dlpack, (a, b, c)))
np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
print("matmul agrees with NumPy")

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
else:
    x, w = torch.from_numpy(a), torch.from_numpy(b)
    y = torch.empty(64, 256)
    kernels.matmul(x, w, y)
    torch.testing.assert_close(y, x @ w, rtol=1e-4, atol=1e-4)
    print("matmul agrees with PyTorch")
