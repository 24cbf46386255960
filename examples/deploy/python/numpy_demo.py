"""Calls kernels over NumPy arrays through the generated module, which needs nothing but NumPy."""

import os
import subprocess
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
build = os.path.join(here, "build")
tvmr = os.environ.get("TVMR", "tvmr")
program = os.path.join(here, "..", "matmul.tir")
subprocess.run([tvmr, "build", program, "-o", os.path.join(build, "kernels"), "--emit", "python"], check=True)

sys.path.insert(0, build)
import kernels  # noqa: E402

rng = np.random.default_rng(0)
a = rng.standard_normal((64, 128), dtype=np.float32)
b = rng.standard_normal((128, 256), dtype=np.float32)
c = np.empty((64, 256), np.float32)
kernels.matmul(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
print("matmul agrees with NumPy")
