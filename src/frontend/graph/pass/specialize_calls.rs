//! Makes a prim_func for the shapes of each call, where it has symbols.
//!
//! ```text
//! R.call_tir(cls.linear0, (x, w), …)    →    R.call_tir(cls.linear0_1, (x, w), …)    with the extents of x and w
//! ```

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::function::{Arg, Callee};
use crate::graph::lower::Library;
use crate::graph::specialize::{passed, specialize};

pub(super) const PASS: Pass = Pass {
    name: "specialize_calls",
    doc: "Makes prim_funcs with symbols concrete for each call.",
    is_optional: false,
    run,
};

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    let GraphModule { module, functions } = module;
    let mut errors = Vec::new();
    let mut library = Library::of(module);
    for function in functions {
        for c in function.order.clone() {
            let call = function.call(c);
            let (Callee::CallTir(name) | Callee::CallTirInplace(name)) = call.callee else { continue };
            // Without constant extents, the function stays as it is.
            let Some(args) = passed(function, c) else { continue };
            let scalars: Vec<i64> = match call.args.get(1) {
                Some(Arg::Shape(extents)) => extents.iter().filter_map(|&e| function.arena.as_int(e)).collect(),
                _ => Vec::new(),
            };
            let Some(func) = module.func(name.as_str()) else {
                let message = format!("the module has no function `{name}`");
                errors.push(Diagnostic::error_at("unknown-function", call.span, message));
                continue;
            };
            match specialize(func, &args, &scalars) {
                Ok(None) => {}
                Ok(Some(func)) => {
                    let name = library.add(module, func);
                    let call = &mut function.calls[c.index()];
                    match call.callee {
                        Callee::CallTirInplace(_) => {
                            call.callee = Callee::CallTirInplace(name);
                            // The indices are the last argument.
                            call.args.retain(|arg| !matches!(arg, Arg::Shape(_)));
                        }
                        _ => {
                            call.callee = Callee::CallTir(name);
                            call.args.truncate(1);
                        }
                    }
                }
                Err(unfit) => errors.push(Diagnostic::error_at("arguments", call.span, unfit.to_string())),
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
