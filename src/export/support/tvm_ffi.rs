//! The TVM-FFI convention: packed arguments, checked one by one, with messages like TVM's.

use crate::abi::{Code, Entry, Function, Param, Raise};
use crate::call::{Mode, call, call_in_parts};
use crate::ffi_abi::{
    Any, BOOL, CODE_BFLOAT, CODE_BOOL, CODE_FLOAT, CODE_INT, CODE_UINT, CPU_DEVICES, DLTENSOR, FLOAT, INT, NONE, OBJECT_HEADER,
    TENSOR_OBJECT, Tensor,
};
use crate::pool::tvmr_support_set_num_threads;
use core::ffi::CStr;

/// A message that is being written.
struct Message {
    bytes: [u8; 1024],
    len: usize,
}

impl Message {
    fn new() -> Message {
        Message { bytes: [0; 1024], len: 0 }
    }

    fn byte(&mut self, byte: u8) -> &mut Message {
        // The last byte stays zero.
        if self.len < self.bytes.len() - 1 {
            self.bytes[self.len] = byte;
            self.len = self.len.wrapping_add(1);
        }
        self
    }

    fn text(&mut self, text: &str) -> &mut Message {
        text.bytes().for_each(|b| {
            self.byte(b);
        });
        self
    }

    /// A string that ends with a zero byte.
    fn c_text(&mut self, text: *const u8) -> &mut Message {
        let mut at = text;
        loop {
            // SAFETY: the exporter writes such strings, and this stops at their ends.
            let byte = unsafe { *at };
            if byte == 0 {
                return self;
            }
            self.byte(byte);
            at = at.wrapping_add(1);
        }
    }

    /// A list of `n` numbers: `[8, 1]`.
    fn numbers(&mut self, numbers: *const i64, n: u32) -> &mut Message {
        self.byte(b'[');
        for i in 0..n as usize {
            if i > 0 {
                self.text(", ");
            }
            // SAFETY: there are that many.
            self.number(unsafe { *numbers.wrapping_add(i) });
        }
        self.byte(b']')
    }

    fn number(&mut self, number: i64) -> &mut Message {
        if number < 0 {
            self.byte(b'-');
        }
        let mut rest = number.unsigned_abs();
        let mut power = 1u64;
        while rest.wrapping_div(power) >= 10 {
            power = power.wrapping_mul(10);
        }
        while power > 0 {
            self.byte(b'0'.wrapping_add((rest.checked_div(power).unwrap_or(0)) as u8));
            rest = rest.checked_rem(power).unwrap_or(0);
            power /= 10;
        }
        self
    }
}

/// Why an argument is refused.
enum Refusal {
    /// It is no tensor, or not the scalar expected.
    Type(&'static str),
    Ndim,
    Dtype,
    Extent(usize),
    Strides,
    /// A scalar that the parameter's type does not hold.
    Range,
    Device,
    Null,
    Alignment,
}

/// Called by the wrapper of each function: `args` has room for a pointer to each parameter and prepared buffer, `scalars` for
/// eight bytes of each parameter.
#[unsafe(no_mangle)]
unsafe extern "C" fn tvmr_support_tvm_ffi(
    entry: &Entry,
    packed: *const Any,
    n: i32,
    result: *mut Any,
    args: *mut *mut u8,
    scalars: *mut u64,
) -> i32 {
    let n_params = entry.functions().first().map_or(0, |f| f.n_params);
    if n < 0 || n as u32 != n_params {
        let mut message = Message::new();
        message.text("Mismatched number of arguments when calling: `").c_text(entry.signature).text("`, expected ");
        message.number(i64::from(n_params));
        return raise(entry, c"TypeError", &message);
    }
    let mut refused = None;
    // SAFETY: there are `n` packed arguments.
    let samples = unsafe { samples_of(entry, packed) };
    for (i, function) in entry.functions().iter().enumerate() {
        // SAFETY: there are `n` packed arguments, and room for as many pointers and scalars.
        match unsafe { unpack(function, samples, packed, args, scalars) } {
            Ok(()) => {
                if let Some((a, b)) = overlap(function, samples, args) {
                    let mut message = Message::new();
                    message.text("Argument #").number(a as i64).text(" (`").c_text(function.params()[a].name);
                    message.text("`), which is written, overlaps argument #").number(b as i64).text(" when calling: `");
                    message.c_text(entry.signature).byte(b'`');
                    return raise(entry, c"ValueError", &message);
                }
                let none = core::ptr::null_mut();
                // SAFETY: all pointers were checked.
                let code = unsafe {
                    match samples {
                        Some(samples) => call_in_parts(entry, args, entry.sizes_of(i), samples, none),
                        None => call(entry, function, args, none, none, Mode::Plain),
                    }
                };
                if code == Code::Ok {
                    // SAFETY: the caller passes a place for the result.
                    unsafe { *result = Any { type_index: NONE, padding: 0, payload: 0 } };
                    return 0;
                }
                return raise_code(entry, code);
            }
            // The version that comes furthest says why.
            Err((index, why)) => {
                let is_extent = matches!(why, Refusal::Extent(_));
                if refused.as_ref().is_none_or(|(_, (i, w))| index > *i || (index == *i && !is_extent && matches!(w, Refusal::Extent(_)))) {
                    refused = Some((function, (index, why)));
                }
            }
        }
    }
    let Some((function, (index, why))) = refused else { return -1 };
    let mut message = Message::new();
    let kind = describe(&mut message, entry, function, samples, index, &why);
    raise(entry, kind, &message)
}

/// Writes the message of a refused argument.
fn describe(
    message: &mut Message,
    entry: &Entry,
    function: &Function,
    samples: Option<i64>,
    index: usize,
    why: &Refusal,
) -> &'static CStr {
    let Some(param) = function.params().get(index) else { return c"TypeError" };
    // The number of samples is that of the first argument; any would do.
    let is_sized = match (why, samples) {
        (Refusal::Extent(axis), Some(_)) => *axis != 0 && entry.n_sizes > 1,
        (Refusal::Extent(_), None) => entry.n_functions > 1,
        _ => false,
    };
    message.text("Mismatched ");
    match why {
        Refusal::Type(_) => message.text("type"),
        Refusal::Ndim => message.c_text(param.name).text(".ndim"),
        Refusal::Dtype => message.c_text(param.name).text(".dtype"),
        Refusal::Extent(axis) => message.c_text(param.name).text(".shape[").number(*axis as i64).byte(b']'),
        Refusal::Strides => message.c_text(param.name).text(".strides"),
        Refusal::Range => message.c_text(param.name),
        Refusal::Device => message.c_text(param.name).text(".device_type"),
        Refusal::Null => message.c_text(param.name).text(".data"),
        Refusal::Alignment => message.c_text(param.name).text(".data alignment"),
    };
    message.text(" on argument #").number(index as i64).text(" when calling: `").c_text(entry.signature);
    message.text("`, expected ");
    match why {
        Refusal::Type(expected) => message.text(expected),
        Refusal::Ndim => message.number(i64::from(param.ndim)),
        Refusal::Dtype => message.c_text(param.dtype),
        Refusal::Extent(_) if is_sized => message.text("one of the sizes ").c_text(entry.known_sizes),
        Refusal::Extent(axis) => message.number(extent_of(param, samples, *axis)),
        Refusal::Strides if param.strides.is_null() => message.text("a compact array"),
        Refusal::Strides => message.numbers(param.strides, param.ndim),
        Refusal::Range => message.text("a value of ").c_text(param.dtype),
        Refusal::Device => message.text("cpu"),
        Refusal::Null => message.text("a pointer that is not null"),
        Refusal::Alignment => message.number(i64::from(param.align)).text(" bytes"),
    };
    match why {
        Refusal::Type(_) | Refusal::Dtype => c"TypeError",
        Refusal::Ndim
        | Refusal::Extent(_)
        | Refusal::Strides
        | Refusal::Range
        | Refusal::Device
        | Refusal::Null
        | Refusal::Alignment => c"ValueError",
    }
}

/// The number of samples in a batch, by the leading extent of the first argument; `None` if the function has no batch. An argument that
/// is no such tensor is refused later.
unsafe fn samples_of(entry: &Entry, packed: *const Any) -> Option<i64> {
    if entry.batch == 0 {
        return None;
    }
    // SAFETY: the caller says that there is an argument for each parameter, of which there is one at least: a result.
    let tensor = tensor_of(unsafe { *packed });
    // SAFETY: a tensor argument points to a `DLTensor`, which has `ndim` extents.
    let extent = tensor.and_then(|tensor| unsafe { ((*tensor).ndim > 0).then(|| *(*tensor).shape) });
    Some(extent.unwrap_or(0))
}

/// The extent that a parameter has in a batch of this many samples.
fn extent_of(param: &Param, samples: Option<i64>, axis: usize) -> i64 {
    match samples {
        Some(samples) if axis == 0 => samples,
        // SAFETY: the axis is one of the parameter's.
        _ => unsafe { *param.shape.wrapping_add(axis) },
    }
}

/// The size of a parameter in a batch of this many samples.
fn bytes_of(param: &Param, samples: Option<i64>) -> u64 {
    let Some(samples) = samples.filter(|_| param.ndim > 0) else { return param.bytes };
    // SAFETY: there is an extent.
    let own = unsafe { *param.shape } as u64;
    param.bytes.checked_div(own).unwrap_or(0).wrapping_mul(samples as u64)
}

/// Pointers of the packed arguments, checked against the parameters.
unsafe fn unpack(
    function: &Function,
    samples: Option<i64>,
    packed: *const Any,
    args: *mut *mut u8,
    scalars: *mut u64,
) -> Result<(), (usize, Refusal)> {
    for (i, param) in function.params().iter().enumerate() {
        // SAFETY: there is an argument for each parameter.
        let any = unsafe { *packed.wrapping_add(i) };
        let pointer = if param.is_scalar != 0 {
            let slot = scalars.wrapping_add(i);
            // SAFETY: there is a slot for each parameter.
            unsafe { *slot = scalar(param, any).map_err(|why| (i, why))? };
            slot.cast()
        } else {
            let Some(tensor) = tensor_of(any) else { return Err((i, Refusal::Type("Tensor"))) };
            // SAFETY: a tensor argument points to a `DLTensor`.
            unsafe { data_of(param, samples, &*tensor) }.map_err(|why| (i, why))?
        };
        // SAFETY: there is room for a pointer of each parameter.
        unsafe { *args.wrapping_add(i) = pointer };
    }
    Ok(())
}

/// The tensor that an argument is.
fn tensor_of(any: Any) -> Option<*const Tensor> {
    let tensor: *const Tensor = match any.type_index {
        DLTENSOR => any.payload as *const Tensor,
        TENSOR_OBJECT => (any.payload as *const u8).wrapping_add(OBJECT_HEADER).cast(),
        _ => return None,
    };
    (!tensor.is_null()).then_some(tensor)
}

/// The elements of a tensor, if it is what the parameter says.
unsafe fn data_of(param: &Param, samples: Option<i64>, tensor: &Tensor) -> Result<*mut u8, Refusal> {
    if tensor.ndim < 0 || tensor.ndim as u32 != param.ndim {
        return Err(Refusal::Ndim);
    }
    // Booleans arrive with their own code, or as the bytes that they are.
    let is_bool = param.code == CODE_BOOL && tensor.code == CODE_UINT && tensor.bits == 8;
    if !((tensor.code == param.code && tensor.bits == param.bits) || is_bool) || tensor.lanes != 1 {
        return Err(Refusal::Dtype);
    }
    let ndim = param.ndim as usize;
    for axis in 0..ndim {
        // SAFETY: both have `ndim` extents.
        if unsafe { *tensor.shape.wrapping_add(axis) } != extent_of(param, samples, axis) {
            return Err(Refusal::Extent(axis));
        }
    }
    if !CPU_DEVICES.contains(&tensor.device_type) {
        return Err(Refusal::Device);
    }
    let bytes = bytes_of(param, samples);
    if bytes > 0 {
        let mut compact = 1i64;
        for axis in (0..ndim).rev() {
            // SAFETY: there are `ndim` extents, and strides unless the pointer is null.
            let stride = |strides: *const i64| if strides.is_null() { compact } else { unsafe { *strides.wrapping_add(axis) } };
            let extent = extent_of(param, samples, axis);
            // The stride of a single element says nothing.
            if extent != 1 && stride(tensor.strides) != stride(param.strides) {
                return Err(Refusal::Strides);
            }
            compact = compact.wrapping_mul(extent);
        }
    }
    if tensor.data.is_null() {
        return if bytes == 0 { Ok(tensor.data) } else { Err(Refusal::Null) };
    }
    let data = tensor.data.wrapping_add(tensor.byte_offset as usize);
    if data as usize & (param.align as usize).wrapping_sub(1) != 0 {
        return Err(Refusal::Alignment);
    }
    Ok(data)
}

fn expected_scalar(param: &Param) -> &'static str {
    match param.code {
        CODE_FLOAT | CODE_BFLOAT => "float",
        CODE_BOOL => "bool",
        _ => "int",
    }
}

/// The bits of a scalar argument in the parameter's type.
fn scalar(param: &Param, any: Any) -> Result<u64, Refusal> {
    let as_int = any.payload as i64;
    let is_int = matches!(any.type_index, INT | BOOL);
    match param.code {
        CODE_FLOAT | CODE_BFLOAT => {
            let value = match any.type_index {
                FLOAT => f64::from_bits(any.payload),
                _ if is_int => as_int as f64,
                _ => return Err(Refusal::Type(expected_scalar(param))),
            };
            Ok(match (param.code, param.bits) {
                (CODE_FLOAT, 64) => value.to_bits(),
                (CODE_FLOAT, 16) => u64::from(crate::math::tvmr_f64_to_f16(value)),
                (CODE_BFLOAT, _) => u64::from(crate::math::tvmr_f64_to_bf16(value)),
                _ => u64::from((value as f32).to_bits()),
            })
        }
        CODE_BOOL if is_int => Ok(u64::from(as_int != 0)),
        CODE_INT if is_int => {
            let unused = 64u32.wrapping_sub(u32::from(param.bits));
            let held = as_int.wrapping_shl(unused).wrapping_shr(unused);
            if held == as_int { Ok(any.payload) } else { Err(Refusal::Range) }
        }
        CODE_UINT if is_int => {
            let unused = 64u32.wrapping_sub(u32::from(param.bits));
            let held = any.payload.wrapping_shl(unused).wrapping_shr(unused);
            if as_int >= 0 && held == any.payload { Ok(any.payload) } else { Err(Refusal::Range) }
        }
        _ => Err(Refusal::Type(expected_scalar(param))),
    }
}

/// A parameter that is written and another one that overlaps it.
fn overlap(function: &Function, samples: Option<i64>, args: *const *mut u8) -> Option<(usize, usize)> {
    let params = function.params();
    // SAFETY: there is a pointer for each parameter.
    let begin = |i: usize| unsafe { *args.wrapping_add(i) } as u64;
    for (i, a) in params.iter().enumerate().filter(|(_, p)| p.is_written != 0) {
        for (j, b) in params.iter().enumerate() {
            let (x, y) = (begin(i), begin(j));
            if i != j && x < y.wrapping_add(bytes_of(b, samples)) && y < x.wrapping_add(bytes_of(a, samples)) {
                return Some((i, j));
            }
        }
    }
    None
}

fn raise_code(entry: &Entry, code: Code) -> i32 {
    let mut message = Message::new();
    message.text("`").c_text(entry.signature).text("` failed: ").text(reason(code));
    raise(entry, c"RuntimeError", &message)
}

fn reason(code: Code) -> &'static str {
    match code {
        Code::Ok => "",
        Code::Null => "a pointer is null",
        Code::Misaligned => "a pointer is misaligned",
        Code::Cpu => "this CPU lacks the instruction set that the function was built for",
        Code::Memory => "out of memory",
        Code::Bounds => "access out of bounds",
        Code::Division => "integer division by zero or overflow",
        Code::Assertion => "an assertion of the program failed",
        Code::Size => "no version was built for these sizes",
        Code::Parallel => "the hook for parallel loops failed",
        Code::WeightsMissing => "the weights were not set; pass them by `set_weights`",
        Code::WeightsMagic => "this is no file of weights",
        Code::WeightsVersion => "the file of weights has another format version",
        Code::WeightsIsa => "the file of weights was made for another instruction set",
        Code::WeightsModel => "the file of weights is that of another model or build",
        Code::WeightsSize => "the file of weights was cut off or is too long",
        Code::WeightsSet => "other weights were set before",
        Code::WeightsFile => "the file of weights cannot be read",
    }
}

fn raise(entry: &Entry, kind: &'static CStr, message: &Message) -> i32 {
    // SAFETY: the library of an entry is static data; both strings end with a zero byte.
    unsafe {
        let library = &*entry.library;
        let found = library.raise.or_else(|| {
            let address = library.dlsym?(core::ptr::null_mut(), c"TVMFFIErrorSetRaisedFromCStr".as_ptr().cast());
            core::mem::transmute::<*mut u8, Option<Raise>>(address)
        });
        if let Some(raise) = found {
            raise(kind.as_ptr().cast(), message.bytes.as_ptr());
        }
    }
    -1
}

/// `set_weights` as a packed function of the bytes of the file.
#[unsafe(no_mangle)]
unsafe extern "C" fn tvmr_support_ffi_set_weights(
    entry: &Entry,
    packed: *const Any,
    n: i32,
    result: *mut Any,
) -> i32 {
    // SAFETY: there are `n` arguments.
    let tensor = (n == 1).then(|| tensor_of(unsafe { *packed })).flatten();
    // SAFETY: a tensor argument points to a `DLTensor`.
    let bytes = tensor.map(|tensor| unsafe { &*tensor }).filter(|t| {
        let is_byte = matches!(t.code, CODE_INT | CODE_UINT) && t.bits == 8 && t.lanes == 1;
        // SAFETY: there is a stride for the one dimension, unless the pointer is null.
        let is_compact = t.ndim == 1 && (t.strides.is_null() || unsafe { *t.strides } == 1);
        is_byte && is_compact && CPU_DEVICES.contains(&t.device_type)
    });
    let Some(bytes) = bytes else {
        let mut message = Message::new();
        message.text("Mismatched arguments when calling: `set_weights(weights: Tensor([n], uint8))`, expected the bytes of the file");
        return raise(entry, c"TypeError", &message);
    };
    // SAFETY: the library of an entry is static data; the tensor has one extent and that many bytes; the caller passes a place for
    // the result.
    unsafe {
        let data = bytes.data.wrapping_add(bytes.byte_offset as usize);
        let code = crate::weights::set(&*entry.library, data, *bytes.shape as usize);
        if code != Code::Ok {
            let mut message = Message::new();
            message.text("`set_weights` failed: ").text(reason(code));
            return raise(entry, c"RuntimeError", &message);
        }
        *result = Any { type_index: NONE, padding: 0, payload: 0 };
    }
    0
}

/// `set_num_threads` as a packed function.
#[unsafe(no_mangle)]
unsafe extern "C" fn tvmr_support_ffi_set_num_threads(
    entry: &Entry,
    packed: *const Any,
    n: i32,
    result: *mut Any,
) -> i32 {
    // SAFETY: there are `n` arguments.
    let first = (n == 1).then(|| unsafe { *packed }).filter(|any| any.type_index == INT);
    let Some(any) = first else {
        let mut message = Message::new();
        message.text("Mismatched arguments when calling: `set_num_threads(n: int)`, expected one int");
        return raise(entry, c"TypeError", &message);
    };
    let threads = (any.payload as i64).clamp(0, i64::from(i32::MAX)) as i32;
    // SAFETY: the library of an entry is static data; the caller passes a place for the result.
    unsafe {
        if tvmr_support_set_num_threads(&*entry.library, threads) != 0 {
            return raise_code(entry, Code::Memory);
        }
        *result = Any { type_index: NONE, padding: 0, payload: 0 };
    }
    0
}
