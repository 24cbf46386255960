//! The manifest: what a library holds, for programs.

use super::interface::{Library, Version};
use super::layout::{FunctionLayout, layouts};
use super::weights::ExternalWeights;
use super::{ABI_VERSION, ExportError};
use crate::loopir::Access;
use serde_json::{Value, json};

/// The manifest of a library, as JSON.
///
/// # Errors
/// A function has a parameter without a form in C.
pub fn manifest(library: &Library) -> Result<String, ExportError> {
    let functions: Vec<Value> =
        layouts(library)?.iter().map(|l| function(library, l)).collect::<Result<_, ExportError>>()?;
    let document = json!({
        "name": library.name,
        "tvmr": env!("CARGO_PKG_VERSION"),
        "abi_version": ABI_VERSION,
        "prefix": library.prefix,
        "weights": library.external_weights.as_ref().map(weights),
        "functions": functions,
    });
    Ok(format!("{document:#}\n"))
}

fn weights(file: &ExternalWeights) -> Value {
    json!({"file": file.file_name(), "bytes": file.bytes(), "hash": file.hash()})
}

fn function(library: &Library, layout: &FunctionLayout<'_>) -> Result<Value, ExportError> {
    let function = layout.function;
    let ffi = library.has_tvm_ffi.then(|| library.ffi_name(function));
    let versions: Vec<Value> = function.versions.iter().map(|v| version(layout, v)).collect::<Result<_, _>>()?;
    Ok(json!({
        "name": function.name,
        "symbol": library.symbol(function),
        "tvm_ffi": ffi,
        "sizes": function.size_names,
        "batch": function.batch.map(|size| &function.size_names[size]),
        "prepares": layout.has_preparation(),
        "versions": versions,
    }))
}

fn version(layout: &FunctionLayout<'_>, version: &Version) -> Result<Value, ExportError> {
    let params = version.params()?;
    let param = |(i, p): (usize, &super::Param)| {
        let access = match p.access {
            Access::In => "in",
            Access::Out => "out",
            Access::InOut => "inout",
        };
        json!({
            "name": p.name,
            "dtype": p.dtype.name(),
            "shape": p.shape,
            "strides": p.strides,
            "by_value": p.by_value,
            "access": access,
            "align": p.dtype.bytes(),
            "constant": layout.is_constant(i),
        })
    };
    let isas: Vec<&str> = version.targets.0.iter().map(|o| if o.any_cpu { "portable" } else { o.isa.name() }).collect();
    let first = version.targets.0.first();
    let measured = version.measured.as_ref();
    Ok(json!({
        "sizes": version.sizes,
        "params": params.iter().enumerate().map(param).collect::<Vec<_>>(),
        "isa": isas,
        "threads": first.map_or(1, |o| o.threads),
        "strict_fp": first.is_some_and(|o| o.strict_fp),
        "workload": measured.map(|m| m.workload.to_string()),
        "schedule": measured.map(|m| m.program.to_string()),
        "latency_us": measured.map(|m| m.latency_us),
    }))
}
