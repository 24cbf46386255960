//! Calls of functions of shared libraries.

use super::library::{DecRef, Library, MoveFromRaised};
use super::{ForeignError, host};
use crate::export::dlpack;
use crate::export::ffi_abi::{
    Any, CODE_BFLOAT, CODE_BOOL, CODE_FLOAT, CODE_INT, CODE_UINT, CPU, CPU_DEVICES, DLTENSOR, NONE, OBJECT_HEADER,
    OBJECTS, PackedFn, TENSOR_OBJECT, Tensor,
};
use crate::graph::libraries::Libraries;
use crate::graph::program::Foreign;
use crate::graph::{self, Callee};
use crate::ir::Symbol;
use smallvec::SmallVec;
use std::ffi::c_void;

/// A function of a loaded library, for tensors of certain types.
pub(crate) struct Function {
    address: PackedFn,
    /// The types of the tensors that it reads, then of those that it writes.
    tensors: Vec<TensorType>,
    /// Whether it returns its result, the last of the tensors.
    returns: bool,
    move_from_raised: Option<MoveFromRaised>,
    dec_ref: Option<DecRef>,
}

/// The type of a compact tensor, as DLPack states it.
struct TensorType {
    code: u8,
    bits: u8,
    shape: Vec<i64>,
    strides: Vec<i64>,
    bytes: usize,
}

impl TensorType {
    fn tensor(&self, data: *mut u8) -> Tensor {
        Tensor {
            data,
            device_type: CPU,
            device_id: 0,
            ndim: self.shape.len() as i32,
            code: self.code,
            bits: self.bits,
            lanes: 1,
            shape: self.shape.as_ptr(),
            strides: self.strides.as_ptr(),
            byte_offset: 0,
        }
    }
}

/// Loads the functions of shared libraries that a graph calls, to tell early if one cannot be used.
///
/// # Errors
/// A library has no such function, or cannot be loaded.
pub(crate) fn check(libraries: &Libraries, graph: &graph::Function) -> Result<(), ForeignError> {
    graph.order.iter().try_for_each(|&c| match graph.call(c).callee {
        Callee::CallDpsPacked(name) | Callee::CallPurePacked(name) => load(libraries, name).map(|_| ()),
        Callee::Op(_)
        | Callee::CallTir(_)
        | Callee::CallTirInplace(_)
        | Callee::CallGraph(_)
        | Callee::Tuple
        | Callee::Item(_)
        | Callee::Alias
        | Callee::Shape => Ok(()),
    })
}

/// The library that has a function, loaded, and the function.
fn load(libraries: &Libraries, name: Symbol) -> Result<(Library, PackedFn), ForeignError> {
    let missing = || ForeignError(format!("no shared library with `{name}` is named by `--library`"));
    let (found, exported) = libraries.shared(name).ok_or_else(missing)?;
    let library = Library::load(&found.path)?;
    let gone = || ForeignError(format!("`{}` has no function `{exported}`", found.path.display()));
    let address = library.packed(exported).ok_or_else(gone)?;
    Ok((library, address))
}

impl Function {
    /// Loads the function that a step calls.
    ///
    /// # Errors
    /// No library has it, or its library cannot be loaded.
    pub(crate) fn load(libraries: &Libraries, call: &Foreign) -> Result<Function, ForeignError> {
        let (library, address) = load(libraries, call.name)?;
        let tensor = |t: &crate::graph::specialize::Passed| {
            let (code, bits) = dlpack(t.dtype);
            let mut strides = vec![1; t.shape.len()];
            for d in (1..t.shape.len()).rev() {
                strides[d - 1] = strides[d] * t.shape[d];
            }
            let n: i64 = t.shape.iter().product();
            let bytes = usize::try_from(n).unwrap_or(0) * t.dtype.bytes();
            TensorType { code, bits, shape: t.shape.clone(), strides, bytes }
        };
        Ok(Function {
            address,
            tensors: call.tensors.iter().map(tensor).collect(),
            returns: call.returns,
            move_from_raised: library.move_from_raised(),
            dec_ref: library.dec_ref(),
        })
    }

    /// The number of its tensors, with those that it writes.
    pub(crate) fn n_tensors(&self) -> usize {
        self.tensors.len()
    }

    /// Calls the function on the memory of its tensors.
    ///
    /// # Errors
    /// What it raises, or that it returns another tensor than the graph states.
    ///
    /// # Safety
    /// There is a pointer for each tensor, to memory of the tensor's size, which nothing else writes meanwhile. The function keeps to
    /// the tensors that it is given, as their types state them.
    pub(crate) unsafe fn call(&self, pointers: &[*mut u8]) -> Result<(), String> {
        let n_passed = self.tensors.len() - usize::from(self.returns);
        let pairs = self.tensors.iter().zip(pointers).take(n_passed);
        let mut tensors: SmallVec<[Tensor; 8]> = pairs.map(|(ty, &data)| ty.tensor(data)).collect();
        let any = |t: &mut Tensor| Any { type_index: DLTENSOR, padding: 0, payload: std::ptr::from_mut(t) as u64 };
        let args: SmallVec<[Any; 8]> = tensors.iter_mut().map(any).collect();
        let mut result = Any { type_index: NONE, padding: 0, payload: 0 };
        let _ = host::take_raised();
        // SAFETY: the arguments and their tensors live through the call; the caller promises the rest.
        let code = unsafe { (self.address)(std::ptr::null_mut(), args.as_ptr(), n_passed as i32, &mut result) };
        if code != 0 {
            return Err(self.raised().unwrap_or_else(|| format!("it returned {code}, and no message")));
        }
        let done = match (self.returns, self.tensors.last(), pointers.get(n_passed)) {
            // SAFETY: the result is one of TVM-FFI, and the memory has the size of the tensor.
            (true, Some(ty), Some(&to)) => unsafe { copy(&result, ty, to) },
            _ => Ok(()),
        };
        if let Some(dec_ref) = self.dec_ref.filter(|_| result.type_index >= OBJECTS) {
            // SAFETY: the caller of a function owns the object that it returns, and it is not used any more.
            unsafe { dec_ref(result.payload as *mut u8) };
        }
        done
    }

    /// The message of the error that the function has raised.
    fn raised(&self) -> Option<String> {
        if let Some(message) = host::take_raised() {
            return Some(message);
        }
        let mut error: *mut u8 = std::ptr::null_mut();
        // SAFETY: there is a place for the error.
        unsafe { self.move_from_raised?(&mut error) };
        if error.is_null() {
            return None;
        }
        // SAFETY: behind its header, an error object begins with its kind and its message.
        let message = unsafe {
            let cell = error.wrapping_add(OBJECT_HEADER).cast::<[Bytes; 2]>();
            let [kind, message] = &*cell;
            format!("{}: {}", kind.text(), message.text())
        };
        if let Some(dec_ref) = self.dec_ref {
            // SAFETY: the error was handed over, and is not used any more.
            unsafe { dec_ref(error) };
        }
        Some(message)
    }
}

/// Text of TVM-FFI.
#[repr(C)]
struct Bytes {
    data: *const u8,
    len: usize,
}

impl Bytes {
    /// # Safety
    /// There are as many bytes as are stated.
    unsafe fn text(&self) -> String {
        if self.data.is_null() {
            return String::new();
        }
        // SAFETY: the caller promises it.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(self.data, self.len) }).into_owned()
    }
}

/// The name of DLPack's types of elements.
fn type_name(code: u8, bits: u8) -> String {
    let kind = match code {
        CODE_INT => "int",
        CODE_UINT => "uint",
        CODE_FLOAT => "float",
        CODE_BFLOAT => "bfloat",
        CODE_BOOL => return "bool".to_owned(),
        _ => return format!("DLPack's type {code} of {bits} bits"),
    };
    format!("{kind}{bits}")
}

/// Copies the tensor that a function returned.
///
/// # Safety
/// The result was returned by a function of TVM-FFI, and `to` has the size of the type.
unsafe fn copy(result: &Any, ty: &TensorType, to: *mut u8) -> Result<(), String> {
    let tensor = match result.type_index {
        TENSOR_OBJECT => (result.payload as *const u8).wrapping_add(OBJECT_HEADER).cast::<Tensor>(),
        DLTENSOR => result.payload as *const Tensor,
        other => return Err(format!("it returned no tensor, but a value of TVM-FFI's type {other}")),
    };
    // SAFETY: such a result points to a tensor, which has as many extents and strides as dimensions.
    unsafe {
        let Some(tensor) = tensor.as_ref() else { return Err("it returned no tensor".to_owned()) };
        let list = |start: *const i64| match usize::try_from(tensor.ndim) {
            Ok(n) if n > 0 && !start.is_null() => std::slice::from_raw_parts(start, n).to_vec(),
            _ => Vec::new(),
        };
        let shape = list(tensor.shape);
        // Booleans come with their own code, or as the bytes that they are.
        let is_bool = ty.code == CODE_BOOL && tensor.code == CODE_UINT;
        let is_typed = (tensor.code == ty.code || is_bool) && tensor.bits == ty.bits && tensor.lanes == 1;
        if shape != ty.shape || !is_typed {
            let (found, expected) = (type_name(tensor.code, tensor.bits), type_name(ty.code, ty.bits));
            return Err(format!("it returned a tensor of {found} {shape:?}, expected {expected} {:?}", ty.shape));
        }
        if !CPU_DEVICES.contains(&tensor.device_type) {
            return Err("it returned a tensor in the memory of another device".to_owned());
        }
        let strides = list(tensor.strides);
        let differs = |d: usize| shape[d] != 1 && strides[d] != ty.strides[d];
        if !tensor.strides.is_null() && ty.bytes > 0 && (0..shape.len()).any(differs) {
            return Err("it returned a tensor that is not compact".to_owned());
        }
        if ty.bytes > 0 {
            let data = tensor.data.wrapping_add(tensor.byte_offset as usize).cast::<c_void>();
            std::ptr::copy(data, to.cast::<c_void>(), ty.bytes);
        }
    }
    Ok(())
}
