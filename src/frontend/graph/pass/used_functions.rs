//! Removes prim_funcs that no graph calls any more, such as those with symbols after they were made concrete.

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::function::Callee;
use crate::ir::Symbol;
use crate::ir::inline;

pub(super) const PASS: Pass =
    Pass { name: "used_functions", doc: "Removes prim_funcs that no graph calls.", is_optional: false, run };

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    let GraphModule { module, functions } = module;
    let mut used: Vec<Symbol> = Vec::new();
    for function in functions.iter() {
        for &c in &function.order {
            if let Callee::CallTir(name) | Callee::CallTirInplace(name) = function.call(c).callee
                && !used.contains(&name)
            {
                used.push(name);
            }
        }
    }
    let mut next = 0;
    while next < used.len() {
        if let Some(func) = module.func(used[next].as_str()) {
            let new: Vec<Symbol> = inline::calls(func).into_iter().filter(|n| !used.contains(n)).collect();
            used.extend(new);
        }
        next += 1;
    }
    module.funcs.retain(|f| used.contains(&f.name));
    Ok(())
}
