//! The data of an object that the support code reads: functions, parameters, versions, laid out as [`abi`] says.

use super::abi;
use super::compile::Sized;
use super::interface::{Function, Library, Param};
use super::layout::FunctionLayout;
use super::support::{DLSYM, RAISE};
use super::{ExportError, Kind, ffi_abi};
use crate::codegen::object::ObjectKernel;
use crate::ir::DType;
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};
use std::mem::{offset_of, size_of};

/// The data of a library.
pub(super) struct Described {
    /// The state of the library.
    pub library: DataId,
    /// The entry of each function.
    pub entries: Vec<DataId>,
}

/// Size of a pointer.
const POINTER: usize = 8;

/// Bytes with addresses in them.
struct Block {
    bytes: Vec<u8>,
    functions: Vec<(usize, FuncId)>,
    data: Vec<(usize, DataId)>,
}

impl Block {
    fn new(len: usize) -> Block {
        Block { bytes: vec![0; len], functions: Vec::new(), data: Vec::new() }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u32(&mut self, at: usize, value: usize) {
        self.put(at, &(value as u32).to_le_bytes());
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn data(&mut self, at: usize, id: DataId) {
        self.data.push((at, id));
    }

    fn function(&mut self, at: usize, id: FuncId) {
        self.functions.push((at, id));
    }

    /// Defines the block as local data.
    fn define(self, module: &mut dyn Module, name: &str, writable: bool) -> Result<DataId, ExportError> {
        let id = module.declare_data(name, Linkage::Local, writable, false)?;
        let mut description = DataDescription::new();
        description.set_align(POINTER as u64);
        if self.bytes.is_empty() {
            description.define_zeroinit(POINTER);
        } else {
            description.define(self.bytes.into());
        }
        for (at, function) in self.functions {
            let function = module.declare_func_in_data(function, &mut description);
            description.write_function_addr(at as u32, function);
        }
        for (at, data) in self.data {
            let data = module.declare_data_in_data(data, &mut description);
            description.write_data_addr(at as u32, data, 0);
        }
        module.define_data(id, &description)?;
        Ok(id)
    }
}

/// The symbol of the library's state.
const LIBRARY: &str = "library";

/// The state of the library, which kernels may refer to before it is defined.
pub(super) fn declare_library(module: &mut dyn Module) -> Result<DataId, ExportError> {
    Ok(module.declare_data(LIBRARY, Linkage::Local, true, false)?)
}

/// Defines the data of all functions.
pub(super) fn define(
    module: &mut dyn Module,
    library: &Library,
    functions: &[(FunctionLayout<'_>, Vec<Sized>)],
    kind: Kind,
) -> Result<Described, ExportError> {
    let mut state = Block::new(size_of::<abi::Library>());
    if library.has_tvm_ffi {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.extend([AbiParam::new(types::I64); 2]);
        let raise = module.declare_function(RAISE, Linkage::Import, &signature)?;
        state.function(offset_of!(abi::Library, raise), raise);
        if kind == Kind::Shared {
            signature.returns.push(AbiParam::new(types::I64));
            let dlsym = module.declare_function(DLSYM, Linkage::Import, &signature)?;
            state.function(offset_of!(abi::Library, dlsym), dlsym);
        }
    }
    if let Some(weights) = &library.external_weights {
        let header = weights.header().to_vec();
        let header = Block { bytes: header, functions: Vec::new(), data: Vec::new() };
        let header = header.define(module, "expected_weights", false)?;
        state.data(offset_of!(abi::Library, expected_weights), header);
    }
    let state = state.define(module, LIBRARY, true)?;
    let mut entries = Vec::new();
    for (layout, sized) in functions {
        entries.push(entry(module, library, layout, sized, state)?);
    }
    Ok(Described { library: state, entries })
}

fn entry(
    module: &mut dyn Module,
    library: &Library,
    layout: &FunctionLayout<'_>,
    sized: &[Sized],
    state: DataId,
) -> Result<DataId, ExportError> {
    let function = layout.function;
    let name = function.c_name();
    let size = size_of::<abi::Function>();
    let mut all = Block::new(size * sized.len());
    for (i, one) in sized.iter().enumerate() {
        self::function(module, &format!("{name}.{i}"), layout, one, &mut all, i * size)?;
    }
    let all = all.define(module, &format!("{name}.functions"), false)?;
    let sizes: Vec<u8> = sized.iter().flat_map(|s| s.sizes.iter().flat_map(|n| n.to_le_bytes())).collect();
    let sizes = Block { bytes: sizes, functions: Vec::new(), data: Vec::new() }.define(
        module,
        &format!("{name}.sizes"),
        false,
    )?;
    let known = string(module, &format!("{name}.known"), &known_sizes(function))?;
    let signature = signature(&library.ffi_name(function), layout);
    let signature = string(module, &format!("{name}.signature"), &signature)?;
    let mut block = Block::new(size_of::<abi::Entry>());
    block.data(offset_of!(abi::Entry, library), state);
    block.data(offset_of!(abi::Entry, signature), signature);
    block.data(offset_of!(abi::Entry, functions), all);
    block.data(offset_of!(abi::Entry, sizes), sizes);
    block.data(offset_of!(abi::Entry, known_sizes), known);
    block.u32(offset_of!(abi::Entry, n_functions), sized.len());
    block.u32(offset_of!(abi::Entry, n_sizes), function.size_names.len());
    block.u32(offset_of!(abi::Entry, batch), function.batch.map_or(0, |size| size + 1));
    block.define(module, &format!("{name}.entry"), false)
}

/// Writes a function into a table of functions, at an offset.
fn function(
    module: &mut dyn Module,
    name: &str,
    layout: &FunctionLayout<'_>,
    sized: &Sized,
    table: &mut Block,
    at: usize,
) -> Result<(), ExportError> {
    let mut params = Block::new(size_of::<abi::Param>() * sized.params.len());
    for (i, param) in sized.params.iter().enumerate() {
        let (run, prepare) = layout.passed[i];
        let used = if run { abi::USED_BY_CALL } else { 0 } | if prepare { abi::USED_BY_PREPARATION } else { 0 };
        self::param(module, &format!("{name}.{i}"), param, used, &mut params, i * size_of::<abi::Param>())?;
    }
    let params = params.define(module, &format!("{name}.params"), false)?;
    let size = size_of::<abi::Version>();
    let mut versions = Block::new(size * sized.compiled.len());
    for (i, compiled) in sized.compiled.iter().enumerate() {
        let base = i * size;
        versions.u32(base + offset_of!(abi::Version, needs), compiled.needs as usize);
        code(&mut versions, base + offset_of!(abi::Version, call), &compiled.call);
        if let Some(prepare) = &compiled.prepare {
            code(&mut versions, base + offset_of!(abi::Version, prepare), prepare);
        }
    }
    let versions = versions.define(module, &format!("{name}.versions"), false)?;
    let (offsets, bytes) = prepared_layout(&sized.prepared);
    let offsets = offsets.iter().flat_map(|o| o.to_le_bytes()).collect();
    let offsets = Block { bytes: offsets, functions: Vec::new(), data: Vec::new() }.define(
        module,
        &format!("{name}.prepared"),
        false,
    )?;
    table.data(at + offset_of!(abi::Function, params), params);
    table.data(at + offset_of!(abi::Function, versions), versions);
    table.data(at + offset_of!(abi::Function, prepared), offsets);
    table.u64(at + offset_of!(abi::Function, prepared_bytes), bytes);
    table.u32(at + offset_of!(abi::Function, n_params), sized.params.len());
    table.u32(at + offset_of!(abi::Function, n_versions), sized.compiled.len());
    table.u32(at + offset_of!(abi::Function, n_prepared), sized.prepared.len());
    let is_parallel = |k: &ObjectKernel| k.is_parallel;
    let parallel = sized.compiled.iter().any(|c| is_parallel(&c.call) || c.prepare.as_ref().is_some_and(is_parallel));
    table.u32(at + offset_of!(abi::Function, is_parallel), usize::from(parallel));
    table.u32(at + offset_of!(abi::Function, needs_weights), usize::from(sized.needs_weights));
    Ok(())
}

fn code(block: &mut Block, at: usize, kernel: &ObjectKernel) {
    block.function(at + offset_of!(abi::Code1, kernel), kernel.entry);
    block.u64(at + offset_of!(abi::Code1, shared), kernel.shared_bytes as u64);
    block.u64(at + offset_of!(abi::Code1, private), kernel.private_bytes as u64);
}

fn param(
    module: &mut dyn Module,
    name: &str,
    param: &Param,
    used: u32,
    block: &mut Block,
    at: usize,
) -> Result<(), ExportError> {
    let text = string(module, &format!("{name}.name"), &param.name)?;
    let dtype = string(module, &format!("{name}.dtype"), param.dtype.name())?;
    let shape = numbers(module, &format!("{name}.shape"), &param.shape)?;
    if let Some(strides) = &param.strides {
        let strides = numbers(module, &format!("{name}.strides"), strides)?;
        block.data(at + offset_of!(abi::Param, strides), strides);
    }
    let (code, bits) = dlpack(param.dtype);
    block.data(at + offset_of!(abi::Param, name), text);
    block.data(at + offset_of!(abi::Param, dtype), dtype);
    block.data(at + offset_of!(abi::Param, shape), shape);
    block.u32(at + offset_of!(abi::Param, ndim), param.shape.len());
    block.put(at + offset_of!(abi::Param, code), &[code]);
    block.put(at + offset_of!(abi::Param, bits), &[bits]);
    block.put(at + offset_of!(abi::Param, is_written), &[u8::from(param.is_written())]);
    block.put(at + offset_of!(abi::Param, is_scalar), &[u8::from(param.by_value)]);
    block.u64(at + offset_of!(abi::Param, bytes), param.bytes());
    block.u64(at + offset_of!(abi::Param, offset), param.offset * param.dtype.bytes() as u64);
    block.u32(at + offset_of!(abi::Param, align), param.dtype.bytes());
    block.u32(at + offset_of!(abi::Param, used), used as usize);
    Ok(())
}

/// Offsets of prepared buffers in the prepared memory, each a multiple of 64, and the size of all.
pub(super) fn prepared_layout(bytes: &[u64]) -> (Vec<u64>, u64) {
    let mut end = 0;
    let mut offsets = Vec::with_capacity(bytes.len());
    for b in bytes {
        offsets.push(end);
        end += b.next_multiple_of(64);
    }
    (offsets, end)
}

fn numbers(module: &mut dyn Module, name: &str, numbers: &[i64]) -> Result<DataId, ExportError> {
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    Block { bytes, functions: Vec::new(), data: Vec::new() }.define(module, name, false)
}

fn string(module: &mut dyn Module, name: &str, text: &str) -> Result<DataId, ExportError> {
    let id = module.declare_data(name, Linkage::Local, false, false)?;
    let mut description = DataDescription::new();
    description.define(text.bytes().filter(|&b| b != 0).chain([0]).collect());
    module.define_data(id, &description)?;
    Ok(id)
}

/// The sizes that there are versions for, for messages.
pub(super) fn known_sizes(function: &Function) -> String {
    let one = |(k, (name, value)): (usize, (&String, &i64))| match function.batch == Some(k) {
        true => format!("any {name}"),
        false => format!("{name}={value}"),
    };
    let mut all: Vec<String> = Vec::new();
    for version in &function.versions {
        let pairs: Vec<String> = function.size_names.iter().zip(&version.sizes).enumerate().map(one).collect();
        let text = pairs.join(", ");
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.join("; ")
}

/// The signature of a function as TVM prints it: `f(alpha: float32, A: Tensor([4, 4], float32))`.
fn signature(name: &str, layout: &FunctionLayout<'_>) -> String {
    let param = |(i, p): (usize, &Param)| match p.by_value {
        true => format!("{}: {}", p.name, p.dtype.name()),
        false => format!("{}: Tensor([{}], {})", p.name, layout.shape_text(i), p.dtype.name()),
    };
    let params: Vec<String> = layout.params.iter().enumerate().map(param).collect();
    format!("{name}({})", params.join(", "))
}

/// DLPack's type code and number of bits.
pub(crate) fn dlpack(dtype: DType) -> (u8, u8) {
    let bits = (dtype.bytes() * 8) as u8;
    let code = match dtype {
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => ffi_abi::CODE_INT,
        DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => ffi_abi::CODE_UINT,
        DType::Float16 | DType::Float32 | DType::Float64 => ffi_abi::CODE_FLOAT,
        DType::BFloat16 => ffi_abi::CODE_BFLOAT,
        DType::Bool => ffi_abi::CODE_BOOL,
        // Callers pass bytes.
        DType::Float8(_) | DType::Narrow(_) => ffi_abi::CODE_UINT,
        DType::Handle | DType::Str => ffi_abi::CODE_OPAQUE,
    };
    (code, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_buffers_begin_at_cache_lines() {
        assert_eq!(prepared_layout(&[]), (vec![], 0));
        assert_eq!(prepared_layout(&[1, 64, 65, 4]), (vec![0, 64, 128, 256], 320));
    }
}
