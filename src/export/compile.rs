//! Compiles a library into one relocatable object.

use super::abi::features;
use super::code_module::CodeModule;
use super::descriptors::{self, Described};
use super::elements::{Elements, KnownElements};
use super::interface::{Body, Function, Graph, Library, Param, Version};
use super::layout::{FunctionLayout, layouts};
use super::{ExportError, Kind, graph, support, wrappers};
use crate::codegen::object::{Cpu, Extensions, ObjectKernel, compile_into, isa_for};
use crate::codegen::{CodegenError, CodegenOptions};
use crate::graph::program::Place;
use crate::ir::Func;
use crate::ir::preparation::separate;
use crate::loopir::Kernel;
use crate::lower::lower;
use crate::machine::Isa;
use cranelift_codegen::ir::LibCall;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_object::{ObjectBuilder, ObjectModule};
use std::collections::HashMap;

/// A version of a function, compiled for one kind of CPU.
pub(super) struct Compiled {
    /// The CPU features that it needs, as the support code numbers them.
    pub needs: u32,
    /// The call.
    pub call: ObjectKernel,
    /// The preparation of constant parameters.
    pub prepare: Option<ObjectKernel>,
}

impl Compiled {
    /// Compiles a call, and the preparation of its constant parameters, for one kind of CPU.
    pub(super) fn of(
        module: &mut CodeModule,
        name: &str,
        call: &Kernel,
        prepare: Option<&Kernel>,
        options: &CodegenOptions,
    ) -> Result<Compiled, CodegenError> {
        let call = for_cpu(module, name, call, options)?;
        let prepare = prepare.map(|k| for_cpu(module, &format!("{name}.prepare"), k, options)).transpose()?;
        let extensions = prepare.as_ref().map_or(call.extensions, |k| k.extensions.or(call.extensions));
        Ok(Compiled { needs: needs(options, extensions)?, call, prepare })
    }
}

/// A function with fixed extents, compiled for all kinds of CPU.
pub(super) struct Sized {
    /// Values of the sizes.
    pub sizes: Vec<i64>,
    /// The parameters.
    pub params: Vec<Param>,
    /// Bytes of each prepared buffer.
    pub prepared: Vec<u64>,
    /// The kinds of CPU, the best first.
    pub compiled: Vec<Compiled>,
    /// Whether it reads external weights.
    pub needs_weights: bool,
}

/// The relocatable object of a library: an ELF file.
///
/// # Errors
/// A function cannot be lowered or compiled, or this system's objects are not supported.
pub fn object(library: &Library, kind: Kind) -> Result<Vec<u8>, ExportError> {
    let mut module = module(library)?;
    let mut described = Vec::new();
    let mut known = KnownElements::new(library.external_weights.as_ref());
    for layout in layouts(library)? {
        let function = layout.function;
        let sized: Result<Vec<Sized>, _> =
            function.versions.iter().map(|v| version(&mut module, &mut known, function, v)).collect();
        described.push((layout, sized?));
    }
    finish(module, library, &described, kind)
}

/// The module of a library, still empty.
pub(super) fn module(library: &Library) -> Result<CodeModule, ExportError> {
    if support::OBJECT.is_empty() {
        return Err(ExportError::Format);
    }
    let any = any_cpu(library)?;
    let builder = ObjectBuilder::new(any.clone(), library.name.as_bytes(), Box::new(name_of_libcall));
    Ok(CodeModule::new(ObjectModule::new(builder.map_err(|e| ExportError::Write(e.to_string()))?), any))
}

/// The description that wrappers are compiled by: they run before the CPU is known. Kernels have descriptions of their own.
fn any_cpu(library: &Library) -> Result<OwnedTargetIsa, ExportError> {
    isa_for(Cpu::Any).map_err(|error| ExportError::Codegen { func: library.name.clone(), error })
}

/// The object of a module with the kernels of a library: adds all that lies around them.
pub(super) fn finish(
    mut module: CodeModule,
    library: &Library,
    described: &[(FunctionLayout<'_>, Vec<Sized>)],
    kind: Kind,
) -> Result<Vec<u8>, ExportError> {
    let write = |e: &dyn std::fmt::Display| ExportError::Write(e.to_string());
    module.set_isa(any_cpu(library)?);
    let data: Described = descriptors::define(&mut module, library, described, kind)?;
    wrappers::define(&mut module, library, described, &data, kind)?;
    let mut product = module.finish().map_err(|e| write(&e))?;
    support::link(&mut product.object, library.has_tvm_ffi)?;
    let bytes = product.object.write().map_err(|e| write(&e))?;
    support::check_undefined(&bytes)?;
    Ok(bytes)
}

/// Compiles a function with fixed extents for each kind of CPU.
fn version(
    module: &mut CodeModule,
    known: &mut KnownElements<'_>,
    function: &Function,
    version: &Version,
) -> Result<Sized, ExportError> {
    let params = version.params()?;
    let sizes: Vec<String> = version.sizes.iter().map(i64::to_string).collect();
    let name_for = |cpu: &str| [&[function.c_name(), cpu.to_owned()][..], &sizes].concat().join(".");
    let names = version.targets.0.iter().map(|o| name_for(if o.any_cpu { "any" } else { o.isa.name() }));
    let targets = names.zip(&version.targets.0);
    let mut needs_weights = false;
    let (prepared, compiled) = match &version.body {
        Body::Func(func) => func_for_all(module, function, func, targets)?,
        Body::Graph(graph) => {
            let elements = known.of_graph(module, graph)?;
            needs_weights = elements.values().any(|e| matches!(e, Elements::Outside(_)));
            let one = |(name, options): (String, &CodegenOptions)| {
                graph_for_cpu(module, function, graph, &elements, &name, options)
            };
            (Vec::new(), targets.map(one).collect::<Result<_, _>>()?)
        }
    };
    Ok(Sized { sizes: version.sizes.clone(), params, prepared, compiled, needs_weights })
}

/// Compiles a scheduled function for each kind of CPU. Returns the bytes of prepared buffers, too.
fn func_for_all<'a>(
    module: &mut CodeModule,
    function: &Function,
    func: &Func,
    targets: impl Iterator<Item = (String, &'a CodegenOptions)>,
) -> Result<(Vec<u64>, Vec<Compiled>), ExportError> {
    let parts = separate(func);
    let mut prepared = Vec::new();
    if let Some(parts) = &parts {
        let kernel = lowered(function, &parts.call)?;
        let all = kernel.params();
        prepared = all[all.len() - parts.n_prepared..].iter().map(|b| b.bytes() as u64).collect();
    }
    let mut compiled = Vec::new();
    for (name, options) in targets {
        let (call, prepare) = match &parts {
            None => (lowered(function, func)?, None),
            Some(parts) => (lowered(function, &parts.call)?, Some(lowered(function, &parts.preparation)?)),
        };
        let one = Compiled::of(module, &name, &call, prepare.as_ref(), options);
        compiled.push(one.map_err(|error| ExportError::Codegen { func: function.name.clone(), error })?);
    }
    Ok((prepared, compiled))
}

/// Compiles the kernels of a graph and their calls for one kind of CPU.
fn graph_for_cpu(
    module: &mut CodeModule,
    function: &Function,
    graph: &Graph,
    elements: &HashMap<Place, Elements>,
    name: &str,
    options: &CodegenOptions,
) -> Result<Compiled, ExportError> {
    let failed = |error| ExportError::Codegen { func: function.name.clone(), error };
    let mut kernels = Vec::new();
    for (i, func) in graph.kernels.iter().enumerate() {
        let kernel = lowered(function, func)?;
        kernels.push(for_cpu(module, &format!("{name}.{i}"), &kernel, options).map_err(failed)?);
    }
    let call = graph::define_calls(module, name, graph, &kernels, elements)?;
    Ok(Compiled { needs: needs(options, call.extensions).map_err(failed)?, call, prepare: None })
}

fn lowered(function: &Function, func: &Func) -> Result<Kernel, ExportError> {
    lower(func).map_err(|error| ExportError::Lower { func: function.name.clone(), error })
}

/// Compiles a kernel for the CPU that options name, into a module whose own code is for every CPU.
fn for_cpu(
    module: &mut CodeModule,
    name: &str,
    kernel: &Kernel,
    options: &CodegenOptions,
) -> Result<ObjectKernel, CodegenError> {
    module.set_isa(isa_for(Cpu::of(options))?);
    let compiled = compile_into(module, name, kernel, options)?;
    for encoded in &compiled.encoded {
        module.add_frame_of_encoded(encoded);
    }
    Ok(compiled)
}

/// The CPU features that code needs, as the support code numbers them: those of Cranelift's description, and those of the vector
/// instruction set.
fn needs(options: &CodegenOptions, extensions: Extensions) -> Result<u32, CodegenError> {
    let mut needs = match options.isa {
        Isa::Portable => 0,
        Isa::Avx2 => features::AVX2,
        Isa::Avx512Ymm | Isa::Avx512 => features::AVX2 | features::AVX512,
    };
    if options.any_cpu {
        return Ok(needs);
    }
    if extensions.dots {
        needs |= if options.isa == Isa::Avx2 { features::AVX_VNNI } else { features::AVX512_VNNI };
    }
    if extensions.bf16 {
        needs |= features::AVX512_BF16;
    }
    if extensions.float16 {
        needs |= features::AVX512_FP16;
    }
    for flag in isa_for(Cpu::of(options))?.isa_flags() {
        if flag.as_bool() != Some(true) {
            continue;
        }
        needs |= feature_of(flag.name)
            .ok_or_else(|| CodegenError::Machine(format!("the feature `{}` is not known here", flag.name)))?;
    }
    Ok(needs)
}

/// The bit of a flag of Cranelift's description of the machine; `None` for one that is not known.
fn feature_of(flag: &str) -> Option<u32> {
    Some(match flag {
        "has_sse3" | "has_ssse3" | "has_cmpxchg16b" | "has_sse41" | "has_sse42" | "has_avx" | "has_avx2"
        | "has_fma" | "has_bmi1" | "has_bmi2" | "has_popcnt" | "has_lzcnt" => features::AVX2,
        "has_avx512f" | "has_avx512dq" | "has_avx512vl" => features::AVX512,
        "has_avx512vnni" => features::AVX512_VNNI,
        "has_avx_vnni" => features::AVX_VNNI,
        "has_avx512bitalg" => features::AVX512_BITALG,
        "has_avx512vbmi" => features::AVX512_VBMI,
        // AArch64: objects are for the machine that they were built on.
        _ if cfg!(target_arch = "aarch64") => 0,
        _ => return None,
    })
}

/// Names of the functions that Cranelift calls for lack of an instruction, as the support code has them.
fn name_of_libcall(call: LibCall) -> String {
    match call {
        LibCall::Memcpy => "memcpy".to_owned(),
        LibCall::Memset => "memset".to_owned(),
        LibCall::Memmove => "memmove".to_owned(),
        LibCall::Memcmp => "memcmp".to_owned(),
        LibCall::CeilF32 => "tvmr_libcall_ceilf".to_owned(),
        LibCall::CeilF64 => "tvmr_libcall_ceil".to_owned(),
        LibCall::FloorF32 => "tvmr_libcall_floorf".to_owned(),
        LibCall::FloorF64 => "tvmr_libcall_floor".to_owned(),
        LibCall::TruncF32 => "tvmr_libcall_truncf".to_owned(),
        LibCall::TruncF64 => "tvmr_libcall_trunc".to_owned(),
        LibCall::NearestF32 => "tvmr_libcall_nearbyintf".to_owned(),
        LibCall::NearestF64 => "tvmr_libcall_nearbyint".to_owned(),
        LibCall::FmaF32 => "tvmr_libcall_fmaf".to_owned(),
        LibCall::FmaF64 => "tvmr_libcall_fma".to_owned(),
        other => format!("tvmr_libcall_{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machines that have more than the one that runs this test set more of the flags.
    #[test]
    fn every_flag_of_a_machine_is_known() {
        let isa = isa_for(Cpu::of(&CodegenOptions::default())).expect("the machine is described");
        let flags = isa.isa_flags();
        let names: Vec<&str> = flags.iter().map(|f| f.name).filter(|name| name.starts_with("has_")).collect();
        assert!(!names.is_empty());
        for name in names {
            assert!(feature_of(name).is_some(), "{name}");
        }
    }
}
