//! Functions of a library as callers see them.

use super::ExportError;
use super::names::{c_name, distinct};
use super::weights::ExternalWeights;
use crate::codegen::CodegenOptions;
use crate::graph::Constant;
use crate::graph::program::{Place, Program};
use crate::ir::preparation::{Separated, separate};
use crate::ir::{DType, Func, identifier};
use crate::loopir::{Access, Storage};
use crate::lower::lower;
use crate::machine::Isa;
use std::sync::Arc;

/// A library: functions that are compiled into one object.
#[derive(Clone)]
pub struct Library {
    /// Name of its files.
    pub name: String,
    /// First part of the symbols of the plain convention, an identifier of C.
    pub prefix: String,
    /// First part of the symbols of TVM-FFI, behind `__tvm_ffi_`; empty by default.
    pub ffi_prefix: String,
    /// Whether to export symbols of TVM-FFI.
    pub has_tvm_ffi: bool,
    /// The functions.
    pub functions: Vec<Function>,
    /// The weights of its graphs as a file, made for these functions; `None` if the object contains them.
    pub external_weights: Option<ExternalWeights>,
}

/// A function, in one version for each choice of its sizes.
#[derive(Clone)]
pub struct Function {
    /// Its name in the program.
    pub name: String,
    /// Names of the sizes that a caller passes; empty if all extents are fixed.
    pub size_names: Vec<String>,
    /// The size that is a number of samples, by its position: callers pass any, and versions run on parts of the batch. It is the leading
    /// extent of all parameters, and there is a version for 1 with each choice of the other sizes.
    pub batch: Option<usize>,
    /// At least one version. All have the same parameters, but for extents.
    pub versions: Vec<Version>,
}

/// A function with fixed extents and a schedule.
#[derive(Clone)]
pub struct Version {
    /// Values of the sizes, in the order of their names.
    pub sizes: Vec<i64>,
    /// What it computes.
    pub body: Body,
    /// How the function as written accesses its parameters; empty if that is not known. A schedule may hide that a result is only
    /// written, as one does that initialises sums apart.
    pub accesses: Vec<Access>,
    /// Kinds of CPU that code is generated for.
    pub targets: Versions,
    /// The database's measurement of it.
    pub measured: Option<Measured>,
}

/// What a version computes.
#[derive(Clone)]
pub enum Body {
    /// A scheduled function.
    Func(Box<Func>),
    /// Calls of scheduled functions.
    Graph(Arc<Graph>),
}

/// Calls of scheduled functions, one after the other.
pub struct Graph {
    /// The calls, and where their arguments lie.
    pub program: Program,
    /// The functions.
    pub kernels: Vec<Func>,
    /// The function of each call.
    pub kernel_of: Vec<usize>,
    /// The weights, constants and results of the preparation that calls read, with their places.
    pub known: Vec<(Place, Constant)>,
}

impl Body {
    /// The preparation of constant parameters, if there is one.
    pub(super) fn separate(&self) -> Option<Separated> {
        match self {
            Body::Func(func) => separate(func),
            Body::Graph(_) => None,
        }
    }
}

/// The kinds of CPU that code is generated for, the best first. The support code chooses one by the features of the CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versions(pub Vec<CodegenOptions>);

impl Versions {
    /// The kind of CPU that `options` are for, and every CPU of the architecture unless there is to be `only` that one.
    pub fn of(options: CodegenOptions, only: bool) -> Versions {
        let portable = CodegenOptions { isa: Isa::Portable, any_cpu: true, ..options };
        Versions(match (options.isa, only) {
            (Isa::Portable, _) => vec![portable],
            (_, true) => vec![options],
            (_, false) => vec![options, portable],
        })
    }
}

/// The database's measurement of a schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Time of a call in microseconds.
    pub latency_us: f64,
    /// Hash of the scheduled program.
    pub program: u64,
    /// Hash of the workload.
    pub workload: u64,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Its name in the program.
    pub name: String,
    /// Its name in C.
    pub c_name: String,
    /// Type of its elements.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<i64>,
    /// Distances of elements in memory, in elements; `None` if they are contiguous in row-major order.
    pub strides: Option<Vec<i64>>,
    /// Number of elements that the program's buffer has before the first one that callers pass.
    pub offset: u64,
    /// Whether it is a scalar, which callers pass by value.
    pub by_value: bool,
    /// Whether it is read, written, or both.
    pub access: Access,
}

impl Param {
    /// Size in bytes, from the first element to the end of the last one.
    pub fn bytes(&self) -> u64 {
        self.span() * self.dtype.bytes() as u64
    }

    /// Number of elements from the first to the last one, with those in gaps between them.
    pub fn span(&self) -> u64 {
        let extents = self.shape.iter().map(|&n| n.max(0) as u64);
        match &self.strides {
            Some(strides) if extents.clone().all(|n| n > 0) => {
                extents.zip(strides).map(|(n, &stride)| (n - 1) * stride.max(0) as u64).sum::<u64>() + 1
            }
            Some(_) | None => extents.product(),
        }
    }

    /// Whether the function writes it.
    pub fn is_written(&self) -> bool {
        match self.access {
            Access::In => false,
            Access::Out | Access::InOut => true,
        }
    }
}

impl Version {
    /// The parameters, in order.
    ///
    /// # Errors
    /// A parameter has no form in C, or the function cannot be lowered.
    pub fn params(&self) -> Result<Vec<Param>, ExportError> {
        let func = match &self.body {
            Body::Func(func) => func,
            Body::Graph(graph) => return Ok(graph.params()),
        };
        let func_name = func.name.to_string();
        let kernel = lower(func).map_err(|error| ExportError::Lower { func: func_name.clone(), error })?;
        let scalars = func.scalars();
        let callable = func.callable();
        let func = &*callable.with_param_layouts();
        let mut params = Vec::new();
        for (param, lowered) in func.params.iter().zip(kernel.params()) {
            let refuse = |why: &str| ExportError::Param {
                func: func_name.clone(),
                param: func.arena.var(param.var).name.to_string(),
                why: why.to_owned(),
            };
            let Some(id) = param.buffer else {
                return Err(refuse("it is a size without a value; give it one with `--bind`"));
            };
            let buffer = func.arena.buffer(id);
            let shape: Option<Vec<i64>> = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e)).collect();
            let mut shape =
                shape.ok_or_else(|| refuse("its extents are not known; make them concrete with `--bind`"))?;
            // The lanes of a vector are one more dimension.
            shape.extend((buffer.lanes > 1).then_some(i64::from(buffer.lanes)));
            let placed = func.param_layout(id).filter(|layout| !layout.is_compact());
            if placed.is_some() && buffer.lanes > 1 {
                return Err(refuse("its elements are vectors with gaps between them; make the lanes a dimension"));
            }
            let (strides, offset) = placed.map_or((None, 0), |layout| (Some(layout.strides), layout.offset as u64));
            let Storage::Param(access) = lowered.storage else { return Err(refuse("it is not passed by the caller")) };
            let access = self.accesses.get(params.len()).copied().unwrap_or(access);
            params.push(Param {
                name: buffer.name.to_string(),
                c_name: String::new(),
                dtype: buffer.dtype,
                shape,
                strides,
                offset,
                by_value: scalars.contains(&param.var),
                access,
            });
        }
        let names = distinct(params.iter().map(|p| c_name(&p.name)));
        for (param, name) in params.iter_mut().zip(names) {
            param.c_name = name;
        }
        Ok(params)
    }
}

impl Function {
    /// Its name in C, which follows the prefix of the library.
    pub fn c_name(&self) -> String {
        identifier(&self.name)
    }

    /// Names of its sizes in C.
    pub fn c_size_names(&self) -> Vec<String> {
        distinct(self.size_names.iter().map(|n| c_name(n)))
    }

    /// The parameters of the first version; of others, extents may differ.
    ///
    /// # Errors
    /// As [`Version::params`].
    pub fn params(&self) -> Result<Vec<Param>, ExportError> {
        self.versions.first().map_or(Ok(Vec::new()), Version::params)
    }

    /// Whether it has parameters that are prepared once.
    pub fn has_preparation(&self) -> bool {
        self.versions.iter().any(|v| v.body.separate().is_some())
    }
}

impl Library {
    /// Symbol of a function in the plain convention.
    pub fn symbol(&self, function: &Function) -> String {
        format!("{}_{}", self.prefix, function.c_name())
    }

    /// Name of a function in TVM-FFI, as `load_module` finds it.
    pub fn ffi_name(&self, function: &Function) -> String {
        if self.ffi_prefix.is_empty() {
            function.c_name()
        } else {
            format!("{}_{}", self.ffi_prefix, function.c_name())
        }
    }

    /// Checks that no two functions have the same symbol.
    ///
    /// # Errors
    /// Two functions have.
    pub fn check_names(&self) -> Result<(), ExportError> {
        // Suffixes of the plain convention, which a function's own name may end with too.
        const SUFFIXES: [&str; 6] = ["", "_ws", "_workspace_bytes", "_prepared_bytes", "_prepare", "_run"];
        const OWN: [&str; 6] =
            ["abi_version", "set_parallel_for", "set_num_threads", "set_weights", "map_weights", "strerror"];
        let mut seen: Vec<(String, &str)> = OWN.iter().map(|n| (format!("{}_{n}", self.prefix), *n)).collect();
        for function in &self.functions {
            for suffix in SUFFIXES {
                let name = format!("{}{suffix}", self.symbol(function));
                if let Some((_, first)) = seen.iter().find(|(other, _)| *other == name) {
                    let (first, second) = ((*first).to_owned(), function.name.clone());
                    return Err(ExportError::Collision { first, second, name });
                }
            }
            seen.extend(SUFFIXES.iter().map(|s| (format!("{}{s}", self.symbol(function)), function.name.as_str())));
        }
        Ok(())
    }
}
