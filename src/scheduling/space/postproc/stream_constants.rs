//! Lays out constants that are read one by one in the order in which the loops read them.
//!
//! *When*: a layout-free parameter of at least [`MIN_BYTES`] that one reduction reads, a single element for all iterations of the
//! innermost loop, such as the weight of a tile's row beside the vector of its columns; no rule has prepared it, the loops read it in
//! another order than it lies in memory, and whole tiles of it take at most a quarter more memory. *What*: a `cache_read` under the
//! root, annotated as a preparation (see [`crate::ir::preparation`]), with a `transform_layout`, which pads the last tiles. *Why*: each
//! call of a model finds its weights in memory. One stream, which is prefetched, comes with the full bandwidth; a stream for each row,
//! or a few elements of each, with a half or a quarter of it.
//!
//! ```text
//! for f0 in 19: for k in 256: for f1 in 14: for x in 16: … W[k, f0 * 14 + f1] …        # W: (256, 256)
//! # reads from one end to the other with
//! lambda k, f: (f // 14, k, f % 14)
//! ```

use super::super::suggest_layout::suggest_padded;
use super::Postproc;
use super::rewrite_layout::{copies, for_each_layout_free, prepare};
use crate::ir::visit::uses_var;
use crate::ir::{BlockId, BufferId, Func, VarId};
use crate::schedule::Schedule;
use crate::schedule::arg::LambdaExpr;
use crate::schedule::error::ScheduleError;

pub(crate) struct StreamConstants;

/// Smaller constants come from memory in no time.
const MIN_BYTES: i64 = 32 << 10;

impl Postproc for StreamConstants {
    fn name(&self) -> &'static str {
        "stream_constants"
    }

    fn apply(&self, sch: &mut Schedule) -> Result<(), String> {
        for_each_layout_free(sch, lay_out)
    }
}

fn lay_out(sch: &mut Schedule, func: usize, buffer: BufferId) -> Result<(), ScheduleError> {
    let f = sch.func(func);
    let Some(reader) = only_reader(f, buffer).filter(|&b| f.block(b).init.is_some() && reads_one_by_one(f, b, buffer))
    else {
        return Ok(());
    };
    if !copies(f, buffer).is_empty() {
        return Ok(());
    }
    let Some(suggestion) = suggest_padded(f, buffer).filter(|s| s.block == reader) else { return Ok(()) };
    let info = f.arena.buffer(buffer);
    let mut extents = f.arena.list(info.shape).iter().map(|&e| f.arena.as_int(e));
    let Some(elements) = extents.try_fold(1_i64, |n, extent| n.checked_mul(extent?)) else { return Ok(()) };
    let is_small = elements.saturating_mul(info.dtype.bytes() as i64) < MIN_BYTES;
    let is_in_order = suggestion.map.results.iter().enumerate().all(|(i, e)| *e == LambdaExpr::Param(i));
    if is_small || is_in_order || suggestion.elements > elements.saturating_add(elements / 4) {
        return Ok(());
    }
    let dtype = info.dtype;
    let (block, func_name) = (f.block(reader).name, f.name);
    let position = suggestion.read as i64;
    let reader = sch.get_block(block.as_str(), func_name.as_str())?;
    prepare(sch, reader, position)?;
    if suggestion.elements == elements {
        return sch.transform_layout(reader, ("read", position), suggestion.map);
    }
    sch.transform_layout_padded(reader, ("read", position), suggestion.map, dtype)
}

/// The only block that reads a buffer.
fn only_reader(f: &Func, buffer: BufferId) -> Option<BlockId> {
    let mut readers = f
        .blocks()
        .into_iter()
        .filter(|&b| b != f.root)
        .filter(|&b| f.block(b).reads.iter().any(|r| r.buffer == buffer));
    readers.next().filter(|_| readers.next().is_none())
}

/// Whether a block reads the same single element of a buffer in all iterations of the innermost loop around it.
fn reads_one_by_one(f: &Func, block: BlockId, buffer: BufferId) -> bool {
    let Some(&innermost) = f.loops_above(block.stmt()).last() else { return false };
    let innermost = f.loop_(innermost).var;
    let node = f.block(block);
    let moving: Vec<VarId> =
        node.iters.iter().filter(|i| uses_var(&f.arena, i.value, &mut |v| v == innermost)).map(|i| i.var).collect();
    let of_buffer = || node.reads.iter().filter(|r| r.buffer == buffer);
    of_buffer().count() == 1
        && of_buffer().all(|region| {
            let is_point = f.arena.list(region.extents).iter().all(|&e| f.arena.is_int(e, 1));
            is_point && f.arena.list(region.mins).iter().all(|&e| !uses_var(&f.arena, e, &mut |v| moving.contains(&v)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule_function::ScheduleFunction;
    use crate::script::{Dialect, ParseOptions, parse};

    /// The instructions that the postprocessor adds after loops were tiled by rows, as text.
    fn statements(rows: i64, n_rows: i64, attrs: &str) -> Vec<String> {
        let program = format!(
            "@T.prim_func
def main(W: T.Buffer((256, {n_rows}), \"float32\"), X: T.Buffer((256, 16), \"float32\"), Y: T.Buffer(({n_rows}, 16), \"float32\")):
    T.func_attr({{{attrs}}})
    for i, j, k in T.grid({n_rows}, 16, 256):
        with T.block(\"Y\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + W[vk, vi] * X[vk, vj]
"
        );
        let module = parse(&program, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let mut sch = Schedule::new(&module, 0);
        let function = format!(
            "def f(sch):
    Y = sch.get_block(\"Y\", \"main\")
    i, j, k = sch.get_loops(Y)
    i0, i1 = sch.split(i, [None, {rows}])
    sch.reorder(i0, k, i1, j)
"
        );
        let function = ScheduleFunction::parse(&function, "f.py").unwrap_or_else(|e| panic!("{e}"));
        function.apply(&mut sch).unwrap_or_else(|e| panic!("{e:?}"));
        let before = sch.trace().python_statements(Dialect::Classic).len();
        StreamConstants.apply(&mut sch).unwrap_or_else(|e| panic!("{e}"));
        sch.trace().python_statements(Dialect::Classic).split_off(before)
    }

    const FREE: &str = "\"layout_free_buffers\": [0]";

    #[test]
    fn rows_of_a_tile_stand_together() {
        let [.., layout] = &statements(8, 256, FREE)[..] else { panic!("some instructions") };
        assert!(layout.contains("index_map=lambda i0, i1: (i1 // 8, i0, i1 % 8,)"), "{layout}");
        assert!(layout.contains("pad_value=None"), "{layout}");
    }

    #[test]
    fn the_last_tile_is_padded() {
        let [.., layout] = &statements(14, 256, FREE)[..] else { panic!("some instructions") };
        assert!(layout.contains("index_map=lambda i0, i1: (i1 // 14, i0, i1 % 14,)"), "{layout}");
        assert!(layout.contains("pad_value=T.float32(0.0)"), "{layout}");
    }

    #[test]
    fn what_gains_nothing_stays() {
        assert_eq!(statements(8, 256, ""), Vec::<String>::new(), "not constant");
        assert_eq!(statements(8, 16, FREE), Vec::<String>::new(), "small");
        assert_eq!(statements(256, 256, FREE), Vec::<String>::new(), "in order");
        assert_eq!(statements(100, 101, FREE), Vec::<String>::new(), "mostly padding");
    }
}
