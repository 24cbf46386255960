"""NumPy types of new outputs, and numbers as arrays."""

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


def scalar(value: bool | int | float, name: str) -> np.ndarray:
    """A number of Python as an array without dimensions, of the type called `name`.

    Raises:
        ValueError: The type does not have this number; floats are rounded, but not cut to integers.
    """
    dtype = numpy_dtype(name)
    is_float = name.startswith(("float", "bfloat"))
    if is_float and dtype.kind == "u":
        raise ValueError(f"expected {name}; install `ml_dtypes` for numbers of this type, or pass its bits in an array")
    fits = is_float or (isinstance(value, bool) if name == "bool" else isinstance(value, int))
    try:
        return np.array(value if fits else None, dtype)
    except (OverflowError, TypeError):
        raise ValueError(f"expected {name}, found {value!r}") from None
