//! Rejects programs with loops of non-constant extent.

use super::Postproc;
use crate::ir::Stmt;
use crate::schedule::Schedule;

pub(crate) struct DisallowDynamicLoop;

impl Postproc for DisallowDynamicLoop {
    fn name(&self) -> &'static str {
        "disallow_dynamic_loop"
    }

    fn apply(&self, sch: &mut Schedule) -> Result<(), String> {
        for i in 0..sch.n_funcs() {
            let func = sch.func(i);
            for s in func.subtree(func.root.stmt()) {
                if let Stmt::Loop(l) = func.get(s)
                    && func.arena.as_int(l.extent).is_none()
                {
                    return Err(format!("loop `{}` has no constant extent", func.arena.var(l.var).name));
                }
            }
        }
        Ok(())
    }
}
