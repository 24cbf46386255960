//! The stages of a prim_func: its blocks.

use super::axis::Axis;
use super::stage::{Definition, StageId, Stages};
use crate::ir::visit::uses_var;
use crate::ir::{BlockId, BufferId, Func, IterKind};

/// The stages of a function, and the buffer of each stage's tensor.
///
/// Parameters that no block writes are inputs; each other stage is a block, with an axis for each of its loops. Parameters that a
/// block writes are results.
pub fn of_func(func: &Func) -> (Stages, Vec<(BufferId, StageId)>) {
    let mut stages = Stages::new();
    let mut buffers: Vec<(BufferId, StageId)> = Vec::new();
    let blocks = func.child_blocks(func.root.stmt());
    let written: Vec<BufferId> = blocks.iter().flat_map(|&b| func.block(b).writes.iter().map(|r| r.buffer)).collect();
    for (i, param) in func.params.iter().enumerate() {
        if let Some(buffer) = param.buffer.filter(|b| !written.contains(b)) {
            let (name, shape) = (func.arena.buffer(buffer).name, func.arena.list(func.arena.buffer(buffer).shape));
            let axis = |(i, &extent)| Axis {
                name: format!("ax{i}"),
                kind: IterKind::Spatial,
                extent: func.arena.as_int(extent),
                var: None,
            };
            let axes = shape.iter().enumerate().map(axis).collect();
            let stage = stages.add(name.as_str(), Definition::Input(i), axes, Vec::new());
            buffers.push((buffer, stage));
        }
    }
    for block in blocks {
        let node = func.block(block);
        let [region] = &node.writes[..] else { continue };
        let buffer = region.buffer;
        // A buffer that several blocks write is no tensor of one stage.
        let definition = match written.iter().filter(|&&b| b == buffer).count() {
            1 => Definition::Block(node.name),
            _ => Definition::Unplaced,
        };
        let stage_of = |b: BufferId| buffers.iter().find(|(other, _)| *other == b).map(|(_, s)| *s);
        let reads = node.reads.iter().filter(|r| r.buffer != buffer).filter_map(|r| stage_of(r.buffer)).collect();
        let name = func.arena.buffer(buffer).name;
        let stage = stages.add(name.as_str(), definition, axes_of(func, block), reads);
        if func.param_of(buffer).is_some() {
            stages.set_output(stage);
        }
        buffers.push((buffer, stage));
    }
    (stages, buffers)
}

/// The loops around a block as axes: those of its dimensions, then the reduced ones.
fn axes_of(func: &Func, block: BlockId) -> Vec<Axis> {
    let node = func.block(block);
    let loops = func.loops_above(block.stmt());
    let axis = |l| {
        let l = func.loop_(l);
        let drives_reduction = node
            .iters
            .iter()
            .any(|i| i.kind == IterKind::Reduce && uses_var(&func.arena, i.value, &mut |v| v == l.var));
        Axis {
            name: func.arena.var(l.var).name.to_string(),
            kind: if drives_reduction { IterKind::Reduce } else { IterKind::Spatial },
            extent: func.arena.as_int(l.extent),
            var: Some(l.var),
        }
    };
    loops.into_iter().map(axis).collect()
}
