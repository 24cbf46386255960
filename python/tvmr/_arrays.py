"""The NumPy types of new outputs."""

import numpy as np

# What NumPy itself lacks, by the types of its bits.
_BITS = {"bfloat16": "uint16", "float8": "uint8"}


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy type of elements called `name`: that of `ml_dtypes` if it is installed, else their bits."""
    bits = _BITS.get(name.split("_")[0])
    if bits is None:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(bits)
    known = getattr(ml_dtypes, name, None)
    return np.dtype(bits if known is None else known)
