//! Instructions as methods, for rules and postprocessors written in Rust.
//!
//! Each method builds the arguments of one kind, looked up by its JSON name, and calls [`Schedule::execute`].

use super::Schedule;
use super::arg::{Arg, Decision, Lambda, LambdaExpr, Rv};
use super::error::ScheduleError;
use super::kind::Kind;
use super::primitive;
use crate::ir::DType;
use std::sync::Arc;

type Done = Result<(), ScheduleError>;
type One = Result<Rv, ScheduleError>;
type Many = Result<Vec<Rv>, ScheduleError>;

fn kind(name: &str) -> &'static Kind {
    primitive::by_name(name).expect("the table of primitives has every kind that has a method")
}

fn list(rvs: &[Rv]) -> Arg {
    Arg::List(rvs.iter().map(|&rv| Arg::Rv(rv)).collect())
}

impl Schedule {
    /// Executes an instruction of the kind with this name in JSON.
    pub(crate) fn run(&mut self, name: &str, args: Vec<Arg>) -> Many {
        self.execute(kind(name), args, None)
    }

    fn run_one(&mut self, name: &str, args: Vec<Arg>) -> One {
        Ok(self.run(name, args)?.into_iter().next().expect("the kind has one result"))
    }

    /// `get_sblock(name, func_name)`.
    pub fn get_block(&mut self, name: &str, func: &str) -> One {
        self.run_one("GetSBlock", vec![name.into(), func.into()])
    }

    /// `get_loops(block)`.
    pub fn get_loops(&mut self, block: Rv) -> Many {
        self.run("GetLoops", vec![block.into()])
    }

    /// `get_child_blocks(block_or_loop)`.
    pub fn get_child_blocks(&mut self, target: Rv) -> Many {
        self.run("GetChildBlocks", vec![target.into()])
    }

    /// `get_consumers(block)`.
    pub fn get_consumers(&mut self, block: Rv) -> Many {
        self.run("GetConsumers", vec![block.into()])
    }

    /// `get_producers(block)`.
    pub fn get_producers(&mut self, block: Rv) -> Many {
        self.run("GetProducers", vec![block.into()])
    }

    /// `rfactor(loop, factor_axis)`.
    pub fn rfactor(&mut self, loop_: Rv, factor_axis: i64) -> One {
        self.run_one("RFactor", vec![loop_.into(), factor_axis.into()])
    }

    /// `sample_compute_location(block)`, with the given decision or a drawn one.
    pub fn sample_compute_location(&mut self, block: Rv, decision: Option<i64>) -> One {
        let outputs = self.execute(kind("SampleComputeLocation"), vec![block.into()], decision.map(Decision::Int))?;
        Ok(outputs[0])
    }

    /// `sample_perfect_tile(loop, n, max_innermost_factor)`.
    pub fn sample_perfect_tile(&mut self, loop_: Rv, n: i64, max_innermost: i64) -> Many {
        self.run("SamplePerfectTile", vec![loop_.into(), n.into(), max_innermost.into()])
    }

    /// `sample_categorical(candidates, probs)`.
    pub fn sample_categorical(&mut self, candidates: &[i64], probs: &[f64]) -> One {
        self.choose(candidates, probs, None)
    }

    /// `sample_categorical(candidates, probs, decision)` with equal probabilities; the decision is a position.
    pub fn choose_among(&mut self, candidates: &[i64], decision: usize) -> One {
        let probs = vec![1.0 / candidates.len() as f64; candidates.len()];
        self.choose(candidates, &probs, Some(Decision::Int(decision as i64)))
    }

    fn choose(&mut self, candidates: &[i64], probs: &[f64], decision: Option<Decision>) -> One {
        let candidates = Arg::List(candidates.iter().map(|&c| c.into()).collect());
        let probs = Arg::List(probs.iter().map(|&p| Arg::Float(p)).collect());
        Ok(self.execute(kind("SampleCategorical"), vec![candidates, probs], decision)?[0])
    }

    /// `sample_perfect_tile(loop, n, max_innermost_factor, decision)`, where `n` is the length of the decision.
    pub fn choose_tile(&mut self, loop_: Rv, max_innermost: i64, decision: Vec<i64>) -> Many {
        let args = vec![loop_.into(), (decision.len() as i64).into(), max_innermost.into()];
        self.execute(kind("SamplePerfectTile"), args, Some(Decision::Ints(decision)))
    }

    /// `normalize_loop(loop)`.
    pub fn normalize_loop(&mut self, loop_: Rv) -> Done {
        self.run("NormalizeLoop", vec![loop_.into()]).map(drop)
    }

    /// `split(loop, factors)` with the default options.
    pub fn split(&mut self, loop_: Rv, factors: Vec<Arg>) -> Many {
        self.run("Split", vec![loop_.into(), Arg::List(factors), true.into(), false.into()])
    }

    /// `fuse(*loops)`.
    pub fn fuse(&mut self, loops: &[Rv]) -> One {
        self.run_one("Fuse", vec![list(loops), true.into()])
    }

    /// `reorder(*loops)`.
    pub fn reorder(&mut self, loops: &[Rv]) -> Done {
        self.run("Reorder", vec![list(loops)]).map(drop)
    }

    /// `parallel(loop)`.
    pub fn parallel(&mut self, loop_: Rv) -> Done {
        self.run("Parallel", vec![loop_.into()]).map(drop)
    }

    /// `vectorize(loop)`.
    pub fn vectorize(&mut self, loop_: Rv) -> Done {
        self.run("Vectorize", vec![loop_.into()]).map(drop)
    }

    /// `unroll(loop)`.
    pub fn unroll(&mut self, loop_: Rv) -> Done {
        self.run("Unroll", vec![loop_.into()]).map(drop)
    }

    /// `annotate(block_or_loop, ann_key, ann_val)`.
    pub fn annotate(&mut self, target: Rv, key: &str, value: impl Into<Arg>) -> Done {
        self.run("Annotate", vec![target.into(), key.into(), value.into()]).map(drop)
    }

    /// `unannotate(block_or_loop, ann_key)`.
    pub fn unannotate(&mut self, target: Rv, key: &str) -> Done {
        self.run("Unannotate", vec![target.into(), key.into()]).map(drop)
    }

    /// `cache_write(block, write_buffer_index, storage_scope)`.
    pub fn cache_write(&mut self, block: Rv, index: i64, scope: &str) -> One {
        self.run_one("CacheWrite", vec![block.into(), index.into(), scope.into(), Arg::List(Vec::new())])
    }

    /// `cache_read(block, read_buffer_index, storage_scope)`.
    pub fn cache_read(&mut self, block: Rv, index: i64, scope: &str) -> One {
        self.run_one("CacheRead", vec![block.into(), index.into(), scope.into(), Arg::List(Vec::new())])
    }

    /// `storage_align(block, buffer_index, axis, factor, offset)`.
    pub fn storage_align(&mut self, block: Rv, index: i64, axis: i64, [factor, offset]: [i64; 2]) -> Done {
        let args = vec![block.into(), index.into(), axis.into(), factor.into(), offset.into()];
        self.run("StorageAlign", args).map(drop)
    }

    /// `reindex(block, ("read", read_buffer_index))`.
    pub fn reindex_read(&mut self, block: Rv, index: i64) -> One {
        self.run_one("ReIndex", vec![block.into(), Arg::List(vec!["read".into(), index.into()])])
    }

    /// `transform_layout(block, buffer, map)` for the buffer that a block reads or writes at this position.
    pub fn transform_layout(&mut self, block: Rv, (access, index): (&str, i64), map: Lambda) -> Done {
        let buffer = Arg::List(vec![access.into(), index.into()]);
        let args = vec![block.into(), buffer, Arg::Lambda(Arc::new(map)), Arg::None, false.into()];
        self.run("TransformLayout", args).map(drop)
    }

    /// [`Self::transform_layout`], with zeros of the buffer's type where the new layout has no element.
    pub fn transform_layout_padded(
        &mut self,
        block: Rv,
        (access, index): (&str, i64),
        map: Lambda,
        dtype: DType,
    ) -> Done {
        let buffer = Arg::List(vec![access.into(), index.into()]);
        let zero = if dtype.is_float() { Arg::Float(0.0) } else { Arg::Int(0) };
        // In JSON, TVM has a form for typed constants only.
        let zero = Arg::Typed(dtype.to_string().as_str().into(), Box::new(zero));
        let args = vec![block.into(), buffer, Arg::Lambda(Arc::new(map)), zero, false.into()];
        self.run("TransformLayout", args).map(drop)
    }

    /// `transform_layout(block, ("write", 0), map)`, with a map of `n_dims` indices and these results.
    pub fn lay_out_written(&mut self, block: Rv, n_dims: usize, results: Vec<LambdaExpr>) -> Done {
        let params = (0..n_dims).map(|i| format!("i{i}").as_str().into()).collect();
        self.transform_layout(block, ("write", 0), Lambda { params, results, scalar: false, ranges: false })
    }

    /// [`Self::lay_out_written`], with zeros of the buffer's type where the new layout has no element.
    pub fn lay_out_padded(&mut self, block: Rv, n_dims: usize, results: Vec<LambdaExpr>, dtype: DType) -> Done {
        let params = (0..n_dims).map(|i| format!("i{i}").as_str().into()).collect();
        let map = Lambda { params, results, scalar: false, ranges: false };
        self.transform_layout_padded(block, ("write", 0), map, dtype)
    }

    /// `transform_block_layout(block, map)`.
    pub fn transform_block_layout(&mut self, block: Rv, map: Lambda) -> Done {
        self.run("TransformBlockLayout", vec![block.into(), Arg::Lambda(Arc::new(map))]).map(drop)
    }

    /// `compute_at(block, loop, preserve_unit_loops)` at the last possible position.
    pub fn compute_at(&mut self, block: Rv, loop_: Rv, preserve_unit_loops: bool) -> Done {
        self.run("ComputeAt", vec![block.into(), loop_.into(), preserve_unit_loops.into(), (-1).into()]).map(drop)
    }

    /// `reverse_compute_at(block, loop, preserve_unit_loops)` at the last possible position.
    pub fn reverse_compute_at(&mut self, block: Rv, loop_: Rv, preserve_unit_loops: bool) -> Done {
        self.run("ReverseComputeAt", vec![block.into(), loop_.into(), preserve_unit_loops.into(), (-1).into()])
            .map(drop)
    }

    /// `compute_inline(block)`.
    pub fn compute_inline(&mut self, block: Rv) -> Done {
        self.run("ComputeInline", vec![block.into()]).map(drop)
    }

    /// `decompose_reduction(block, loop)`.
    pub fn decompose_reduction(&mut self, block: Rv, loop_: Rv) -> One {
        self.run_one("DecomposeReduction", vec![block.into(), loop_.into()])
    }

    /// `enter_postproc()`.
    pub fn enter_postproc(&mut self) -> Done {
        self.run("EnterPostproc", Vec::new()).map(drop)
    }
}

impl From<&Rv> for Arg {
    fn from(rv: &Rv) -> Self {
        Arg::Rv(*rv)
    }
}
