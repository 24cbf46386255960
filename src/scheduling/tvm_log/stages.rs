//! The stages of a program, as the auto-scheduler numbers them.
//!
//! It sorts the stages of a program by their dependences. Where these leave a choice, the order follows from that of a search from the
//! results, so it is a part of what a log means (`TopoSortOps` in `src/auto_scheduler/compute_dag.cc` of TVM).

use super::Untranslated;
use crate::ir::Func;
use crate::te_schedule::{Definition, StageId, Stages, of_func};

/// The stages of a program, and the order in which steps count them.
#[derive(Clone, Debug)]
pub struct Numbered {
    /// The stages.
    pub stages: Stages,
    /// Their order.
    pub order: Vec<StageId>,
}

impl Numbered {
    /// The stages of a function that consists of tensor expressions: its parameters, and its blocks.
    ///
    /// # Errors
    /// A block is no stage.
    pub fn of(func: &Func) -> Result<Numbered, Untranslated> {
        let (stages, buffers) = of_func(func);
        let blocks = func.child_blocks(func.root.stmt());
        let of_block = |name| stages.ids().find(|&s| stages.stage(s).definition == Definition::Block(name));
        if let Some(other) = blocks.into_iter().map(|b| func.block(b).name).find(|&name| of_block(name).is_none()) {
            let detail = format!("the block `{other}` does not write one tensor alone");
            return Err(Untranslated::new("the program does not consist of stages", detail));
        }
        let of_param = |buffer| buffers.iter().find(|(b, _)| Some(*b) == buffer).map(|(_, stage)| *stage);
        let params: Vec<StageId> = func.params.iter().filter_map(|p| of_param(p.buffer)).collect();
        let order = sorted(&stages, params);
        Ok(Numbered { stages, order })
    }
}

/// The stages in the order of the auto-scheduler: a search from the parameters, the last one first, ranks them; of those whose
/// producers are done, the one that the search met last comes next.
fn sorted(stages: &Stages, params: Vec<StageId>) -> Vec<StageId> {
    let mut met: Vec<StageId> = Vec::new();
    let mut open = params;
    while let Some(stage) = open.pop() {
        if !met.contains(&stage) {
            met.push(stage);
            open.extend(stages.stage(stage).reads.iter().copied());
        }
    }
    let mut order: Vec<StageId> = Vec::with_capacity(met.len());
    let is_ready =
        |s: &StageId, order: &[StageId]| !order.contains(s) && stages.stage(*s).reads.iter().all(|r| order.contains(r));
    while let Some(&next) = met.iter().rev().find(|s| is_ready(s, &order)) {
        order.push(next);
    }
    order
}
