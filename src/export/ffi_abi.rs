//! The layout of what functions of TVM-FFI take and give.
//!
//! The support code of exported objects, of which this file is a module too, is called this way, and [`crate::foreign`] calls
//! functions of other libraries.

/// An argument or result of TVM-FFI.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Any {
    /// What the payload is.
    pub type_index: i32,
    /// Unused.
    pub padding: u32,
    /// A number, its bits, or an address.
    pub payload: u64,
}

/// A function of TVM-FFI. It returns 0, or something else after it has raised an error.
pub type PackedFn = unsafe extern "C" fn(this: *mut u8, args: *const Any, n: i32, result: *mut Any) -> i32;

/// No value.
pub const NONE: i32 = 0;
/// An integer.
pub const INT: i32 = 1;
/// A truth value.
pub const BOOL: i32 = 2;
/// A float of 64 bits.
pub const FLOAT: i32 = 3;
/// The address of a [`Tensor`].
pub const DLTENSOR: i32 = 7;
/// The least type of objects, which have owners.
pub const OBJECTS: i32 = 64;
/// A tensor object.
pub const TENSOR_OBJECT: i32 = 70;
/// Bytes of an object's header, behind which a tensor object has its [`Tensor`].
pub const OBJECT_HEADER: usize = 24;

/// A tensor of DLPack.
#[repr(C)]
pub struct Tensor {
    /// The address of the memory.
    pub data: *mut u8,
    /// The kind of device that has the memory.
    pub device_type: i32,
    /// Its number.
    pub device_id: i32,
    /// The number of dimensions.
    pub ndim: i32,
    /// The kind of the elements.
    pub code: u8,
    /// The bits of an element.
    pub bits: u8,
    /// The elements of a vector; 1 for plain elements.
    pub lanes: u16,
    /// The extents.
    pub shape: *const i64,
    /// The distances of neighbours in elements; null if the tensor is compact.
    pub strides: *const i64,
    /// Where the first element is behind `data`.
    pub byte_offset: u64,
}

/// DLPack's number of the CPU.
pub const CPU: i32 = 1;
/// DLPack's number of the CPU, and of pinned memory of CUDA and ROCm, which the CPU reads too.
pub const CPU_DEVICES: [i32; 3] = [CPU, 3, 11];

/// DLPack's code of signed integers.
pub const CODE_INT: u8 = 0;
/// DLPack's code of unsigned integers.
pub const CODE_UINT: u8 = 1;
/// DLPack's code of floats.
pub const CODE_FLOAT: u8 = 2;
/// DLPack's code of what has no other.
pub const CODE_OPAQUE: u8 = 3;
/// DLPack's code of `bfloat16`.
pub const CODE_BFLOAT: u8 = 4;
/// DLPack's code of truth values.
pub const CODE_BOOL: u8 = 6;
