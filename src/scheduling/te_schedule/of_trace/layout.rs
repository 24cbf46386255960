//! `transform_layout`, and copies of constants that are laid out before the program runs.
//!
//! A schedule of tensor expressions has no layouts, and the auto-scheduler rewrote those of constants outside of its schedules: its
//! `print_best` does not show them. So layouts are remarks of the schedule. A copy that is prepared once is no stage, since its readers
//! read the constant in the program that is scheduled; a copy that the program makes at each call is a stage.

use super::{Done, Reader, wrong};
use crate::ir::preparation::PREPARATION;
use crate::ir::{BlockId, Symbol};
use crate::schedule::arg::{Arg, LambdaExpr, Rv};
use crate::schedule::trace::index_map_text;
use crate::schedule::{Instruction, Trace};
use crate::te_schedule::stage::StageId;
use hashbrown::HashSet;

/// The copies that a trace marks as prepared before the program runs.
pub(super) fn prepared(trace: &Trace) -> HashSet<Rv> {
    let marks = trace.insts.iter().filter(|i| i.kind.name == "Annotate");
    let of_mark = |i: &Instruction| match (i.args.first(), i.args.get(1)) {
        (Some(Arg::Rv(block)), Some(Arg::Str(key))) if key.as_str() == PREPARATION => Some(*block),
        _ => None,
    };
    marks.filter_map(of_mark).collect()
}

impl Reader {
    /// A copy that is prepared: its loops are not those of the program.
    pub(super) fn prepared_copy(&mut self, block: BlockId, of: StageId) -> Done {
        let f = self.program();
        let (name, loops) = (f.block(block).name, f.loops_above(block.stmt()));
        if loops.iter().any(|l| self.loops.contains_key(l)) {
            return wrong("a copy that is prepared stands in a loop of a stage");
        }
        self.silent.extend(loops);
        self.prepared.insert(name, of);
        Ok(())
    }

    /// The stage that a prepared copy is of, by the name of its block.
    pub(super) fn prepared_from(&self, block: Symbol) -> Option<StageId> {
        self.prepared.get(&block).copied()
    }

    pub(super) fn transform_layout(&mut self, inst: &Instruction) -> Done {
        if inst.args.get(3).is_some_and(|pad| *pad != Arg::None) {
            return wrong("the padding of a layout is computed by loops of its own");
        }
        let (Some(block), Some(Arg::Lambda(map))) = (self.block_id(&inst.args[0]), inst.args.get(2)) else {
            return wrong("the layout has no index map");
        };
        let Some(Arg::List(which)) = inst.args.get(1) else { return wrong("the buffer has no position") };
        let [Arg::Str(access), Arg::Int(position)] = which[..] else { return wrong("the buffer has no position") };
        let f = self.program();
        let regions = if access.as_str() == "write" { &f.block(block).writes } else { &f.block(block).reads };
        let Some(buffer) = usize::try_from(position).ok().and_then(|p| regions.get(p)).map(|r| r.buffer) else {
            return wrong("the buffer has no position");
        };
        if f.param_of(buffer).is_some() {
            let name = f.arena.buffer(buffer).name;
            return wrong(format!("`{name}` is a parameter, whose layout is that of the arguments"));
        }
        let Some(stage) = self.stage_of_buffer(buffer) else { return wrong("the buffer is no tensor") };
        let number = |rv| self.schedule.int_value(rv).map_or(LambdaExpr::Rv(rv), LambdaExpr::Int);
        let map = index_map_text(&map.map_rvs(&number));
        self.stages.layouts.push((stage, map));
        Ok(())
    }
}
