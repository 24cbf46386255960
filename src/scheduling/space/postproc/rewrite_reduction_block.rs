//! Hoists the init of every reduction out of the loops that do not need it.
//!
//! *What*: `decompose_reduction` at the outermost non-spatial loop around the block, repeated until no init can be
//! hoisted.
//!
//! TVM: `src/s_tir/meta_schedule/postproc/rewrite_reduction_block.cc`.

use super::super::analysis::loop_iter_kind;
use super::Postproc;
use crate::ir::{BlockId, IterKind};
use crate::schedule::Schedule;

pub(crate) struct RewriteReductionBlock;

impl Postproc for RewriteReductionBlock {
    fn name(&self) -> &'static str {
        "rewrite_reduction_block"
    }

    fn apply(&self, sch: &mut Schedule) -> Result<(), String> {
        loop {
            let mut rewritten = false;
            for func in 0..sch.n_funcs() {
                for block in blocks_with_init(sch, func) {
                    let f = sch.func(func);
                    if !f.is_alive(block.stmt()) {
                        continue;
                    }
                    let loops = f.loops_above(block.stmt());
                    let Some(position) = loops.iter().position(|&l| loop_iter_kind(f, l) != IterKind::Spatial) else {
                        continue;
                    };
                    let (name, func_name) = (f.block(block).name, f.name);
                    let rv = sch.get_block(name.as_str(), func_name.as_str()).map_err(|e| e.to_string())?;
                    let loops = sch.get_loops(rv).map_err(|e| e.to_string())?;
                    sch.decompose_reduction(rv, loops[position]).map_err(|e| e.to_string())?;
                    rewritten = true;
                }
            }
            if !rewritten {
                return Ok(());
            }
        }
    }
}

/// The blocks with an init, outer blocks before inner ones, in text order.
fn blocks_with_init(sch: &Schedule, func: usize) -> Vec<BlockId> {
    let f = sch.func(func);
    f.subtree(f.root.stmt()).into_iter().filter_map(|s| f.as_block(s)).filter(|&b| f.block(b).init.is_some()).collect()
}
