//! Arrays of Python as the library takes them, without copies.
//!
//! NumPy's arrays are read directly, since this is the way that must be fast; then whatever has `__dlpack__`; then buffers,
//! which NumPy makes arrays of. Numbers are arrays without dimensions.

use super::{dlpack, errors};
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyMemoryView};
use tvmr::callable::ArrayRef;
use tvmr::ir::DType;

/// An array, and the object that keeps its memory.
pub(crate) struct Borrowed<'py> {
    pub array: ArrayRef<'py>,
    _owner: Bound<'py, PyAny>,
}

/// Borrows a number for an input without dimensions; `None` if the object is no number.
///
/// # Errors
/// `ArgumentError`: the type does not have this number.
pub(crate) fn borrow_number<'py>(object: &Bound<'py, PyAny>, wanted: DType) -> PyResult<Option<Borrowed<'py>>> {
    // A truth value is an integer in Python.
    if !object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyFloat>() {
        return Ok(None);
    }
    static SCALAR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let array = SCALAR.import(py, "tvmr._arrays", "scalar")?.call1((object, wanted.name()));
    let array = array.map_err(|e| errors::argument(py, e.value(py).to_string()))?;
    of_numpy(array.cast::<PyUntypedArray>()?, wanted).map(Some)
}

/// Borrows the array of an object for a parameter of this type.
///
/// Types that NumPy lacks may be passed as bits: `uint16` for `bfloat16`, `uint8` for floats of 8 bits.
///
/// # Errors
/// `ArgumentError`: the object is no array, or not in the memory of the CPU.
pub(crate) fn borrow<'py>(object: &Bound<'py, PyAny>, wanted: DType) -> PyResult<Borrowed<'py>> {
    let py = object.py();
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        return of_numpy(array, wanted);
    }
    if object.hasattr(intern!(py, "__dlpack__"))? {
        let shared = dlpack::share(object).map_err(|e| refused(py, &e))?;
        let (shared, owner) = shared.map_err(|why| errors::argument(py, why))?;
        let dtype = as_wanted(shared.dtype, wanted);
        // SAFETY: DLPack describes memory that the capsule keeps, which lives as long as the borrow. Python's users
        // answer for threads that write it meanwhile, as with NumPy's own functions.
        let array = unsafe {
            ArrayRef::from_raw(shared.data, dtype, &shared.shape, shared.strides.as_deref(), shared.is_writable)
        };
        return Ok(Borrowed { array, _owner: owner.into_any() });
    }
    match PyMemoryView::from(object) {
        Ok(view) => {
            static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            // Of a view, NumPy makes an array without a copy.
            let array = ASARRAY.import(py, "numpy", "asarray")?.call1((view,))?;
            of_numpy(array.cast::<PyUntypedArray>()?, wanted)
        }
        Err(e) if e.is_instance_of::<PyTypeError>(py) => {
            let kind = object.get_type().qualname()?;
            let text =
                format!("expected an array (NumPy's, or anything with `__dlpack__` or a buffer), found `{kind}`");
            Err(errors::argument(py, text))
        }
        Err(e) => Err(refused(py, &e)),
    }
}

/// The error for an object that does not share its array.
fn refused(py: Python<'_>, why: &PyErr) -> PyErr {
    let error = errors::argument(py, format!("the array is not shared: {why}"));
    error.set_cause(py, Some(why.clone_ref(py)));
    error
}

fn of_numpy<'py>(object: &Bound<'py, PyUntypedArray>, wanted: DType) -> PyResult<Borrowed<'py>> {
    let py = object.py();
    let found = object.dtype();
    let Some(dtype) = dtype_of(&found)? else {
        return Err(errors::argument(py, format!("expected {wanted}, found NumPy's {}", found.str()?)));
    };
    let shape: smallvec::SmallVec<[i64; 6]> = object.shape().iter().map(|&n| n as i64).collect();
    let bytes = dtype.bytes() as isize;
    let strides: Option<smallvec::SmallVec<[i64; 6]>> = (!object.is_c_contiguous())
        .then(|| {
            let elements = |&s: &isize| if s % bytes == 0 { Ok((s / bytes) as i64) } else { Err(s) };
            object.strides().iter().map(elements).collect::<Result<_, _>>()
        })
        .transpose()
        .map_err(|s| {
            errors::argument(py, format!("the array has a stride of {s} bytes, no multiple of its elements"))
        })?;
    // SAFETY: the pointer is that of a live array.
    let fields = unsafe { &(*object.as_array_ptr()).fields };
    let is_writable = fields.flags & numpy::npyffi::NPY_ARRAY_WRITEABLE != 0;
    // SAFETY: the array describes memory that it keeps, and it lives as long as the borrow. Python's users answer for
    // threads that write it meanwhile, as with NumPy's own functions.
    let array = unsafe {
        ArrayRef::from_raw(fields.data.cast(), as_wanted(dtype, wanted), &shape, strides.as_deref(), is_writable)
    };
    Ok(Borrowed { array, _owner: object.clone().into_any() })
}

/// The type of NumPy's elements; `None` if no kernel takes them.
fn dtype_of(found: &Bound<'_, PyArrayDescr>) -> PyResult<Option<DType>> {
    if found.is_native_byteorder() == Some(false) {
        return Ok(None);
    }
    Ok(match (found.kind(), found.itemsize()) {
        (b'b', 1) => Some(DType::Bool),
        (b'i', 1) => Some(DType::Int8),
        (b'i', 2) => Some(DType::Int16),
        (b'i', 4) => Some(DType::Int32),
        (b'i', 8) => Some(DType::Int64),
        (b'u', 1) => Some(DType::UInt8),
        (b'u', 2) => Some(DType::UInt16),
        (b'u', 4) => Some(DType::UInt32),
        (b'u', 8) => Some(DType::UInt64),
        (b'f', 2) => Some(DType::Float16),
        (b'f', 4) => Some(DType::Float32),
        (b'f', 8) => Some(DType::Float64),
        // Types of `ml_dtypes` have the names of ours.
        _ => {
            let name: String = found.getattr(intern!(found.py(), "name"))?.extract()?;
            name.parse().ok().filter(|t: &DType| t.bytes() == found.itemsize())
        }
    })
}

/// Bits of a type that NumPy lacks are taken for it.
fn as_wanted(found: DType, wanted: DType) -> DType {
    match (wanted, found) {
        (DType::BFloat16, DType::UInt16) | (DType::Float8(_), DType::UInt8) => wanted,
        _ => found,
    }
}
