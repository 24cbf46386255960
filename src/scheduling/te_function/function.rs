//! The functions of modules: `te`, `tvm.tir`, `topi`.
//!
//! A text names them in many ways: `te.compute`, `tvm.te.compute`, after `from tvm.te import compute as c` also `c`. The
//! vocabulary resolves them to their full names; [`find`] knows what those mean.

use super::scalar::{self, Scalar};
use super::{define, topi};
use crate::diagnostic::nearest;

/// A function of a module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    /// It defines tensors, axes or variables.
    Define(&'static define::Definer),
    /// It gives a scalar expression.
    Scalar(&'static Scalar),
    /// It defines tensors by others.
    Topi(&'static crate::topi::Operator),
}

impl Function {
    /// The name, with that of its module.
    pub(super) fn name(self) -> String {
        match self {
            Function::Define(f) => format!("te.{}", f.name),
            Function::Scalar(f) => format!("tir.{}", f.name),
            Function::Topi(f) => format!("topi.{}", f.name),
        }
    }
}

/// What a name of a module stands for.
pub(super) enum Found {
    /// A function.
    Function(Function),
    /// Nothing that this library knows, with the nearest known name.
    Unknown(Option<String>),
    /// Something that is refused, with the reason.
    Refused(&'static str),
    /// No name of these modules.
    Foreign,
}

/// Functions that are refused, each with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("te.extern", "calls code that is not known here; write its computation by `te.compute`"),
    ("te.extern_primfunc", "puts a prim_func into tensor expressions; give the prim_func itself to the command"),
    ("te.scan", "is not supported, nor does `te.create_prim_func` support it; write the steps by `te.compute`"),
    (
        "te.decl_tensor_intrin",
        "stands for code that is not known here; give `tensorize` the name of an intrinsic (`--intrin`)",
    ),
    ("te.hybrid.script", "is not supported; write the computation by `te.compute`"),
];

/// Finds what a full name stands for.
pub(super) fn find(path: &str) -> Found {
    let path = path.strip_prefix("tvm.").unwrap_or(path);
    let (module, name) = path.split_once('.').unwrap_or(("", path));
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == path) {
        return Found::Refused(why);
    }
    let known: Vec<&'static str> = match module {
        // Before modules were split, `tvm.compute` and `tvm.const` stood in `tvm` itself.
        "te" | "" | "runtime" => {
            if let Some(f) = define::find(name).filter(|f| !f.in_autotvm()) {
                return Found::Function(Function::Define(f));
            }
            if let Some(f) = scalar::find(name) {
                return Found::Function(Function::Scalar(f));
            }
            if module.is_empty() && name.is_empty() {
                return Found::Foreign;
            }
            define::names().chain(scalar::names()).collect()
        }
        "tir" | "tirx" | "T" | "tir.op" => {
            // `tir.Var` and `tir.comm_reducer` stand there, too, and `tir.max` is also a reduction.
            if let Some(f) = define::find(name).filter(|f| f.in_tir) {
                return Found::Function(Function::Define(f));
            }
            if let Some(f) = scalar::find(name) {
                return Found::Function(Function::Scalar(f));
            }
            scalar::names().collect()
        }
        "autotvm" => {
            if let Some(f) = define::find(name.trim_start_matches("task.")).filter(|f| f.in_autotvm()) {
                return Found::Function(Function::Define(f));
            }
            vec!["get_config"]
        }
        "topi" => {
            if let Some(f) = topi::find(name) {
                return Found::Function(Function::Topi(f));
            }
            topi::names().collect()
        }
        _ => return Found::Foreign,
    };
    let prefix = if module.is_empty() { "tvm" } else { module };
    Found::Unknown(nearest(name, known).map(|n| format!("{prefix}.{n}")))
}
