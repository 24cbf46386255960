//! The functions that callers see: each puts its arguments into memory and calls the support code.
//!
//! ```text
//! int32_t NAME_FUNC(const float *A, float alpha, float *C, int64_t n)
//!     void *args[] = {A, &alpha, C, /* room for prepared buffers */};
//!     int64_t sizes[] = {n};
//!     return tvmr_support_call(&entry, args, sizes, prepared, workspace, mode);
//! ```

use super::compile::Sized;
use super::descriptors::Described;
use super::interface::{Library, Param};
use super::layout::FunctionLayout;
use super::{ExportError, Kind};
use crate::export::abi::ABI_VERSION;
use crate::ir::DType;
use cranelift_codegen::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, Type, UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId, Linkage, Module};

/// Functions of the support code.
struct Support {
    call: FuncId,
    workspace_bytes: FuncId,
    prepared_bytes: FuncId,
    set_parallel_for: FuncId,
    set_num_threads: Option<FuncId>,
    tvm_ffi: Option<FuncId>,
    ffi_set_num_threads: Option<FuncId>,
    set_weights: Option<FuncId>,
    ffi_set_weights: Option<FuncId>,
}

/// Stores to the stack cannot fail.
const FLAGS: MemFlagsData = MemFlagsData::trusted();

/// Modes of `tvmr_support_call`.
const PLAIN: i64 = 0;
const PREPARED: i64 = 1;
const PREPARE: i64 = 2;

/// Defines the functions of a library.
pub(super) fn define(
    module: &mut dyn Module,
    library: &Library,
    functions: &[(FunctionLayout<'_>, Vec<Sized>)],
    data: &Described,
    kind: Kind,
) -> Result<(), ExportError> {
    let mut import = |name: &str, params: &[Type], returns: Option<Type>| {
        module.declare_function(name, Linkage::Import, &signature(params, returns)).map_err(ExportError::from)
    };
    let (p, i) = (types::I64, types::I32);
    let is_shared = kind == Kind::Shared;
    let has_weights = library.external_weights.is_some();
    let support = Support {
        call: import("tvmr_support_call", &[p, p, p, p, p, i], Some(i))?,
        workspace_bytes: import("tvmr_support_workspace_bytes", &[p, p], Some(p))?,
        prepared_bytes: import("tvmr_support_prepared_bytes", &[p, p], Some(p))?,
        set_parallel_for: import("tvmr_support_set_parallel_for", &[p, p, p, i], None)?,
        set_num_threads: if is_shared { Some(import("tvmr_support_set_num_threads", &[p, i], Some(i))?) } else { None },
        tvm_ffi: if library.has_tvm_ffi {
            Some(import("tvmr_support_tvm_ffi", &[p, p, i, p, p, p], Some(i))?)
        } else {
            None
        },
        ffi_set_num_threads: if library.has_tvm_ffi && is_shared {
            Some(import("tvmr_support_ffi_set_num_threads", &[p, p, i, p], Some(i))?)
        } else {
            None
        },
        set_weights: if has_weights { Some(import("tvmr_support_set_weights", &[p, p, p], Some(i))?) } else { None },
        ffi_set_weights: if library.has_tvm_ffi && has_weights {
            Some(import("tvmr_support_ffi_set_weights", &[p, p, i, p], Some(i))?)
        } else {
            None
        },
    };
    let mut writer = Writer {
        module,
        context: Context::new(),
        builder: FunctionBuilderContext::new(),
        support,
        prefix: &library.prefix,
    };
    writer.library(data.library, is_shared)?;
    for ((layout, sized), &entry) in functions.iter().zip(&data.entries) {
        writer.function(library, layout, sized, entry)?;
        if library.has_tvm_ffi {
            let symbol = format!("__tvm_ffi_{}", library.ffi_name(layout.function));
            writer.tvm_ffi(&symbol, entry, slots(sized), is_shared)?;
        }
    }
    let own =
        [("set_num_threads", writer.support.ffi_set_num_threads), ("set_weights", writer.support.ffi_set_weights)];
    for (name, callee) in own {
        let (Some(callee), Some(&entry)) = (callee, data.entries.first()) else { continue };
        let prefix = if library.ffi_prefix.is_empty() { String::new() } else { format!("{}_", library.ffi_prefix) };
        // A function of the program goes first.
        if functions.iter().all(|(l, _)| l.function.c_name() != name) {
            writer.ffi_of_library(&format!("__tvm_ffi_{prefix}{name}"), entry, callee, is_shared)?;
        }
    }
    Ok(())
}

/// Numbers of parameters, and of pointers of the array of arguments: prepared buffers come behind the parameters.
fn slots(sized: &[Sized]) -> (usize, usize) {
    let n_params = sized.first().map_or(0, |s| s.params.len());
    (n_params, n_params + sized.iter().map(|s| s.prepared.len()).max().unwrap_or(0))
}

fn signature(params: &[Type], returns: Option<Type>) -> Signature {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.extend(params.iter().map(|&t| AbiParam::new(t)));
    signature.returns.extend(returns.map(AbiParam::new));
    signature
}

/// Writes functions into a module.
struct Writer<'a> {
    module: &'a mut dyn Module,
    context: Context,
    builder: FunctionBuilderContext,
    support: Support,
    prefix: &'a str,
}

/// A variant of a function: what it takes besides parameters, and the mode in which it calls the support code.
#[derive(Clone, Copy)]
struct Variant {
    suffix: &'static str,
    mode: i64,
    has_workspace: bool,
}

impl Variant {
    /// Whether it takes a parameter, of which `_run` and `_prepare` take those of their own.
    fn takes(self, (run, prepare): (bool, bool)) -> bool {
        match self.mode {
            PREPARED => run,
            PREPARE => prepare,
            _ => true,
        }
    }

    fn has_prepared(self) -> bool {
        self.mode != PLAIN
    }
}

impl Writer<'_> {
    /// Functions of the library itself.
    fn library(&mut self, state: DataId, is_shared: bool) -> Result<(), ExportError> {
        let (p, i) = (types::I64, types::I32);
        let name = format!("{}_abi_version", self.prefix);
        self.define(&name, &[], Some(i), Linkage::Export, |b, _, _| {
            let version = b.ins().iconst(types::I32, i64::from(ABI_VERSION));
            Some(version)
        })?;
        let callee = self.support.set_parallel_for;
        let name = format!("{}_set_parallel_for", self.prefix);
        self.define(&name, &[p, p, i], None, Linkage::Export, |b, module, args| {
            let state = address(b, module, state);
            call(b, module, callee, &[state, args[0], args[1], args[2]])
        })?;
        if let Some(callee) = self.support.set_num_threads.filter(|_| is_shared) {
            let name = format!("{}_set_num_threads", self.prefix);
            self.define(&name, &[i], Some(i), Linkage::Export, |b, module, args| {
                let state = address(b, module, state);
                call(b, module, callee, &[state, args[0]])
            })?;
        }
        if let Some(callee) = self.support.set_weights {
            let name = format!("{}_set_weights", self.prefix);
            self.define(&name, &[p, p], Some(i), Linkage::Export, |b, module, args| {
                let state = address(b, module, state);
                call(b, module, callee, &[state, args[0], args[1]])
            })?;
        }
        Ok(())
    }

    /// The plain convention: the call, with and without workspace, and the preparation.
    fn function(
        &mut self,
        library: &Library,
        layout: &FunctionLayout<'_>,
        sized: &[Sized],
        entry: DataId,
    ) -> Result<(), ExportError> {
        let function = layout.function;
        let symbol = library.symbol(function);
        let n_sizes = function.size_names.len();
        let variant = |suffix, mode, has_workspace| Variant { suffix, mode, has_workspace };
        let mut variants = vec![variant("", PLAIN, false), variant("_ws", PLAIN, true)];
        if layout.has_preparation() {
            variants.extend([
                variant("_run", PREPARED, false),
                variant("_run_ws", PREPARED, true),
                variant("_prepare", PREPARE, false),
            ]);
            let callee = self.support.prepared_bytes;
            self.bytes(&format!("{symbol}_prepared_bytes"), n_sizes, entry, callee)?;
        }
        let callee = self.support.workspace_bytes;
        self.bytes(&format!("{symbol}_workspace_bytes"), n_sizes, entry, callee)?;
        for variant in variants {
            self.variant(&format!("{symbol}{}", variant.suffix), layout, slots(sized), entry, variant)?;
        }
        Ok(())
    }

    fn variant(
        &mut self,
        symbol: &str,
        layout: &FunctionLayout<'_>,
        (_, n_slots): (usize, usize),
        entry: DataId,
        variant: Variant,
    ) -> Result<(), ExportError> {
        let n_sizes = layout.function.size_names.len();
        let passed: Vec<bool> = layout.passed.iter().map(|&p| variant.takes(p)).collect();
        let extra = usize::from(variant.has_prepared()) + usize::from(variant.has_workspace);
        let mut params: Vec<Type> =
            layout.params.iter().zip(&passed).filter(|(_, p)| **p).map(|(param, _)| passed_as(param)).collect();
        params.extend(vec![types::I64; n_sizes + extra]);
        let callee = self.support.call;
        self.define(symbol, &params, Some(types::I32), Linkage::Export, |b, module, args| {
            let null = b.ins().iconst(types::I64, 0);
            let pointers = array(b, n_slots.max(1));
            let mut next = args.iter().copied();
            for (i, (param, &is_passed)) in layout.params.iter().zip(&passed).enumerate() {
                let mut value = if is_passed { next.next().unwrap_or(null) } else { null };
                if is_passed && param.by_value {
                    value = spilled(b, param, value);
                }
                b.ins().store(FLAGS, value, pointers, i as i32 * 8);
            }
            let sizes = array(b, n_sizes.max(1));
            for i in 0..n_sizes {
                let value = next.next().unwrap_or(null);
                b.ins().store(FLAGS, value, sizes, i as i32 * 8);
            }
            let prepared = if variant.has_prepared() { next.next().unwrap_or(null) } else { null };
            let workspace = if variant.has_workspace { next.next().unwrap_or(null) } else { null };
            let entry = address(b, module, entry);
            let mode = b.ins().iconst(types::I32, variant.mode);
            call(b, module, callee, &[entry, pointers, sizes, prepared, workspace, mode])
        })
    }

    /// A function of the sizes that returns a number of bytes.
    fn bytes(&mut self, symbol: &str, n_sizes: usize, entry: DataId, callee: FuncId) -> Result<(), ExportError> {
        let params = vec![types::I64; n_sizes];
        self.define(symbol, &params, Some(types::I64), Linkage::Export, |b, module, args| {
            let sizes = array(b, n_sizes.max(1));
            for (i, &value) in args.iter().enumerate() {
                b.ins().store(FLAGS, value, sizes, i as i32 * 8);
            }
            let entry = address(b, module, entry);
            call(b, module, callee, &[entry, sizes])
        })
    }

    /// The packed convention: `(self, args, num_args, result)`.
    fn tvm_ffi(
        &mut self,
        symbol: &str,
        entry: DataId,
        slots: (usize, usize),
        is_shared: bool,
    ) -> Result<(), ExportError> {
        let Some(callee) = self.support.tvm_ffi else { return Ok(()) };
        let (n_params, n_slots) = slots;
        let (p, i) = (types::I64, types::I32);
        self.define(symbol, &[p, p, i, p], Some(i), ffi_linkage(is_shared), |b, module, args| {
            let pointers = array(b, n_slots.max(1));
            let scalars = array(b, n_params.max(1));
            let entry = address(b, module, entry);
            call(b, module, callee, &[entry, args[1], args[2], args[3], pointers, scalars])
        })
    }

    /// A function of the library itself in the packed convention.
    fn ffi_of_library(
        &mut self,
        symbol: &str,
        entry: DataId,
        callee: FuncId,
        is_shared: bool,
    ) -> Result<(), ExportError> {
        let (p, i) = (types::I64, types::I32);
        self.define(symbol, &[p, p, i, p], Some(i), ffi_linkage(is_shared), |b, module, args| {
            let entry = address(b, module, entry);
            call(b, module, callee, &[entry, args[1], args[2], args[3]])
        })
    }

    /// Defines a function; `body` returns its result.
    fn define(
        &mut self,
        symbol: &str,
        params: &[Type],
        returns: Option<Type>,
        linkage: Linkage,
        body: impl FnOnce(&mut FunctionBuilder<'_>, &mut dyn Module, &[Value]) -> Option<Value>,
    ) -> Result<(), ExportError> {
        let signature = signature(params, returns);
        let id = self.module.declare_function(symbol, linkage, &signature)?;
        self.module.clear_context(&mut self.context);
        self.context.func.signature = signature;
        self.context.func.name = UserFuncName::user(0, id.as_u32());
        let mut b = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let args = b.block_params(block).to_vec();
        let result = body(&mut b, self.module, &args);
        b.ins().return_(result.as_slice());
        b.finalize(self.module.target_config());
        Ok(self.module.define_function(id, &mut self.context)?)
    }
}

/// Symbols of TVM-FFI are weak in what a program links, so that several objects may have a function of one name.
fn ffi_linkage(is_shared: bool) -> Linkage {
    if is_shared { Linkage::Export } else { Linkage::Preemptible }
}

/// The type in which a parameter is passed: its own if it is a scalar, else an address.
fn passed_as(param: &Param) -> Type {
    match (param.by_value, param.dtype) {
        (false, _) => types::I64,
        (true, DType::Float32) => types::F32,
        (true, DType::Float64) => types::F64,
        (true, dtype) => match dtype.bytes() {
            1 => types::I8,
            2 => types::I16,
            4 => types::I32,
            _ => types::I64,
        },
    }
}

/// Puts a scalar argument on the stack; kernels take the address.
fn spilled(b: &mut FunctionBuilder<'_>, param: &Param, value: Value) -> Value {
    // Kernels expect 0 or 1. The caller's byte may be any that C takes for true.
    let value = if param.dtype == DType::Bool { b.ins().icmp_imm_u(IntCC::NotEqual, value, 0) } else { value };
    let place = array(b, 1);
    b.ins().store(FLAGS, value, place, 0);
    place
}

/// Address of an array of words on the stack.
fn array(b: &mut FunctionBuilder<'_>, words: usize) -> Value {
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, words as u32 * 8, 3);
    let slot = b.create_sized_stack_slot(slot);
    b.ins().stack_addr(types::I64, slot, 0)
}

fn address(b: &mut FunctionBuilder<'_>, module: &mut dyn Module, data: DataId) -> Value {
    let place = module.declare_data_in_func(data, b.func);
    b.ins().symbol_value(types::I64, place)
}

fn call(b: &mut FunctionBuilder<'_>, module: &mut dyn Module, callee: FuncId, args: &[Value]) -> Option<Value> {
    let callee = module.declare_func_in_func(callee, b.func);
    let call = b.ins().call(callee, args);
    b.inst_results(call).first().copied()
}
