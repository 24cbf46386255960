//! Arrays of other libraries, through DLPack: the layout of its structures, and how they are read.
//!
//! <https://dmlc.github.io/dlpack/latest/c_api.html>

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, c_void};
use tvmr::ir::DType;

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensor`, as far as it is read.
#[repr(C)]
struct Managed {
    tensor: Tensor,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: *const c_void,
    flags: u64,
    tensor: Tensor,
}

const READ_ONLY: u64 = 1;
/// `kDLCPU`, and the kinds of host memory that GPUs share.
const HOST_DEVICES: [i32; 4] = [1, 3, 11, 13];
const PLAIN_NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// An array, as DLPack describes it.
pub(crate) struct Shared {
    pub data: *mut u8,
    pub dtype: DType,
    pub shape: Vec<i64>,
    /// In elements; `None` if they are contiguous.
    pub strides: Option<Vec<i64>>,
    pub is_writable: bool,
}

/// Asks an object for its array. The memory belongs to the capsule, which keeps it while it lives.
///
/// # Errors
/// The object refuses, or its array is not in host memory, or of no type of ours; `Ok(Err(…))` says why.
pub(crate) fn share<'py>(object: &Bound<'py, PyAny>) -> PyResult<Result<(Shared, Bound<'py, PyCapsule>), String>> {
    let py = object.py();
    let (device, _): (i32, i64) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    if !HOST_DEVICES.contains(&device) {
        return Ok(Err(format!("the array is on a device (of DLPack's type {device}), not in the memory of the CPU")));
    }
    // Libraries from before version 1 do not know the argument.
    let version = PyDict::new(py);
    version.set_item(intern!(py, "max_version"), (1, 0))?;
    let method = object.getattr(intern!(py, "__dlpack__"))?;
    let capsule = match method.call((), Some(&version)) {
        Err(e) if e.is_instance_of::<PyTypeError>(py) => method.call0(),
        other => other,
    }?;
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let (tensor, is_writable) = if capsule.is_valid_checked(Some(VERSIONED_NAME)) {
        let pointer = capsule.pointer_checked(Some(VERSIONED_NAME))?.cast::<Versioned>();
        // SAFETY: a capsule of this name holds such a structure, valid while the capsule lives and is not renamed.
        let managed = unsafe { pointer.as_ref() };
        if managed.major != 1 {
            return Ok(Err(format!("the array has version {} of DLPack, of which 1 is known", managed.major)));
        }
        (&managed.tensor, managed.flags & READ_ONLY == 0)
    } else {
        let pointer = capsule.pointer_checked(Some(PLAIN_NAME))?.cast::<Managed>();
        // SAFETY: as above.
        (&unsafe { pointer.as_ref() }.tensor, true)
    };
    let Some(dtype) = dtype_of(tensor.code, tensor.bits) else {
        let (code, bits) = (tensor.code, tensor.bits);
        return Ok(Err(format!(
            "the array has elements of DLPack's type {code} with {bits} bits, which no kernel takes"
        )));
    };
    let n = usize::try_from(tensor.ndim).unwrap_or(0);
    // SAFETY: shape and strides, unless null, have an entry for each dimension.
    let list = |p: *const i64| (!p.is_null()).then(|| unsafe { std::slice::from_raw_parts(p, n) }.to_vec());
    let mut shape = list(tensor.shape).unwrap_or_default();
    let mut strides = list(tensor.strides);
    if tensor.lanes > 1 {
        // The lanes of a vector are one more dimension.
        let lanes = i64::from(tensor.lanes);
        shape.push(lanes);
        if let Some(strides) = &mut strides {
            strides.iter_mut().for_each(|s| *s *= lanes);
            strides.push(1);
        }
    }
    let offset = usize::try_from(tensor.byte_offset).unwrap_or(0);
    let data = if tensor.data.is_null() { tensor.data } else { tensor.data.wrapping_byte_add(offset) };
    Ok(Ok((Shared { data: data.cast(), dtype, shape, strides, is_writable }, capsule)))
}

/// The type of a DLPack code with so many bits.
fn dtype_of(code: u8, bits: u8) -> Option<DType> {
    let name = match (code, bits) {
        (0, 8 | 16 | 32 | 64) => format!("int{bits}"),
        (1, 8 | 16 | 32 | 64) => format!("uint{bits}"),
        (2, 16 | 32 | 64) => format!("float{bits}"),
        (4, 16) => "bfloat16".to_owned(),
        (6, 8) => "bool".to_owned(),
        (7..=14, 8) => {
            let names = [
                "float8_e3m4",
                "float8_e4m3",
                "float8_e4m3b11fnuz",
                "float8_e4m3fn",
                "float8_e4m3fnuz",
                "float8_e5m2",
                "float8_e5m2fnuz",
                "float8_e8m0fnu",
            ];
            names[usize::from(code - 7)].to_owned()
        }
        _ => return None,
    };
    name.parse().ok()
}
