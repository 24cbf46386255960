//! Lays out constant parameters in the order in which the loops read them.
//!
//! *What*: for each parameter in the function's `layout_free_buffers`, a `cache_read` under the root for the block that
//! reads it, annotated as a preparation (see [`crate::ir::preparation`]), and a `transform_layout` that makes the loops
//! read the copy sequentially. If the schedule has put copies between parameter and block, the last one determines the
//! layout, and all get it.
//!
//! TVM: `src/s_tir/meta_schedule/postproc/rewrite_layout.cc`.

use super::super::suggest_layout::suggest;
use super::Postproc;
use crate::ir::preparation::{PREPARATION, layout_free};
use crate::ir::{BlockId, BufferId, Func};
use crate::schedule::Schedule;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct RewriteLayout;

impl Postproc for RewriteLayout {
    fn name(&self) -> &'static str {
        "rewrite_layout"
    }

    fn apply(&self, sch: &mut Schedule) -> Result<(), String> {
        for_each_layout_free(sch, lay_out)
    }
}

/// Calls `f` with each layout-free parameter and the position of its function.
pub(super) fn for_each_layout_free(
    sch: &mut Schedule,
    f: fn(&mut Schedule, usize, BufferId) -> Result<(), ScheduleError>,
) -> Result<(), String> {
    for func in 0..sch.n_funcs() {
        for buffer in layout_free(sch.func(func)) {
            f(sch, func, buffer).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

fn lay_out(sch: &mut Schedule, func: usize, buffer: BufferId) -> Result<(), ScheduleError> {
    let f = sch.func(func);
    let copies = copies(f, buffer);
    let read = match copies.last() {
        Some(&last) => f.block(last).writes[0].buffer,
        None => buffer,
    };
    let Some(suggestion) = suggest(f, read) else { return Ok(()) };
    let func_name = f.name;
    let copy_names: Vec<_> = copies.iter().map(|&b| f.block(b).name).collect();
    let reader = f.block(suggestion.block).name;
    let reader = sch.get_block(reader.as_str(), func_name.as_str())?;
    let position = suggestion.read as i64;
    let Some((first, others)) = copy_names.split_first() else {
        prepare(sch, reader, position)?;
        return sch.transform_layout(reader, ("read", position), suggestion.map);
    };
    sch.transform_layout(reader, ("read", position), suggestion.map.clone())?;
    for name in others.iter().rev() {
        let copy = sch.get_block(name.as_str(), func_name.as_str())?;
        sch.transform_layout(copy, ("read", 0), suggestion.map.clone())?;
    }
    let copy = sch.get_block(first.as_str(), func_name.as_str())?;
    prepare(sch, copy, 0)?;
    sch.transform_layout(copy, ("read", 0), suggestion.map)
}

/// Makes a block read from a copy that is a preparation.
pub(super) fn prepare(sch: &mut Schedule, reader: Rv, read: i64) -> Result<(), ScheduleError> {
    let copy = sch.cache_read(reader, read, "global")?;
    sch.annotate(copy, PREPARATION, true)
}

/// The blocks that copy `buffer`, each reading the buffer that the previous one writes.
pub(super) fn copies(f: &Func, buffer: BufferId) -> Vec<BlockId> {
    let (mut copies, mut current) = (Vec::new(), buffer);
    for block in f.subtree(f.root.stmt()).into_iter().filter_map(|s| f.as_block(s)) {
        let node = f.block(block);
        if let ([read], [write], None) = (&node.reads[..], &node.writes[..], &node.init)
            && read.buffer == current
        {
            copies.push(block);
            current = write.buffer;
        }
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule_function::ScheduleFunction;
    use crate::script::{Dialect, ParseOptions, parse};

    const WEIGHTS: &str = "@T.prim_func
def main(X: T.Buffer((64, 512), \"float32\"), W: T.Buffer((256, 512), \"float32\"), Y: T.Buffer((64, 256), \"float32\")):
    T.func_attr({\"layout_free_buffers\": [1]})
    for i, j, k in T.grid(64, 256, 512):
        with T.block(\"Y\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
";
    const TILES: &str = "    i, j, k = sch.get_loops(Y)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(j0, k0, i0, k1, i1, j1)
";

    /// The instructions that the postprocessor adds after a schedule, as text.
    fn statements(program: &str, function: &str) -> Vec<String> {
        let module = parse(program, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let mut sch = Schedule::new(&module, 0);
        let text = format!("def f(sch):\n    Y = sch.get_block(\"Y\", \"main\")\n{function}");
        let function = ScheduleFunction::parse(&text, "f.py").unwrap_or_else(|e| panic!("{e}"));
        function.apply(&mut sch).unwrap_or_else(|e| panic!("{e:?}"));
        let before = sch.trace().python_statements(Dialect::Classic).len();
        RewriteLayout.apply(&mut sch).unwrap_or_else(|e| panic!("{e}"));
        sch.trace().python_statements(Dialect::Classic).split_off(before)
    }

    /// The maps that TVM 0.27 derives.
    #[test]
    fn the_copy_is_read_from_one_end_to_the_other() {
        let [_, copy, mark, layout] = &statements(WEIGHTS, TILES)[..] else { panic!("four instructions") };
        assert!(copy.contains("sch.cache_read(") && copy.contains("read_buffer_index=1"), "{copy}");
        assert!(mark.contains("\"meta_schedule.layout_rewrite_preproc\", ann_val=True"), "{mark}");
        let map = "buffer=(\"read\", 1), index_map=lambda i0, i1: (i0 // 32, i1 // 8, i1 % 8, i0 % 32,)";
        assert!(layout.contains(map), "{layout}");
    }

    #[test]
    fn a_copy_that_is_there_gets_the_layout_too() {
        let with_copy = format!("    sch.cache_read(Y, 1, \"local\")\n{TILES}");
        let statements = statements(WEIGHTS, &with_copy);
        let with = |text: &str| statements.iter().filter(|s| s.contains(text)).count();
        assert_eq!((with("transform_layout"), with("cache_read"), with("annotate")), (2, 1, 1), "{statements:#?}");
    }

    #[test]
    fn what_is_not_listed_stays_as_it_is() {
        let unlisted = WEIGHTS.replace("[1]", "[]");
        assert_eq!(statements(&unlisted, TILES), Vec::<String>::new());
    }
}
