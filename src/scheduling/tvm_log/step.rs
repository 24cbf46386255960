//! Steps of the auto-scheduler: what it did to the stages of a program, in order (`src/auto_scheduler/transform_step.h` of TVM).
//!
//! A step names stages and axes by their positions at that moment.

use super::fields::Fields;
use serde_json::Value;

/// From which end the sizes of a split are counted off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// They are those of the inner parts; the outermost part follows.
    Inner,
    /// They are those of the outer parts; the innermost part follows.
    Outer,
}

/// How a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Annotation {
    /// One iteration after the other.
    None,
    /// Written one after the other.
    Unroll,
    /// As lanes of vectors.
    Vectorize,
    /// On several threads.
    Parallel,
    /// On virtual threads, or on the blocks or threads of a GPU.
    Gpu(&'static str),
    /// By an intrinsic.
    Tensorize,
}

/// Annotations by their numbers in logs.
const ANNOTATIONS: [Annotation; 12] = [
    Annotation::None,
    Annotation::Unroll,
    Annotation::Vectorize,
    Annotation::Parallel,
    Annotation::Gpu("vthread"),
    Annotation::Gpu("blockIdx.x"),
    Annotation::Gpu("threadIdx.x"),
    Annotation::Gpu("blockIdx.y"),
    Annotation::Gpu("threadIdx.y"),
    Annotation::Gpu("blockIdx.z"),
    Annotation::Gpu("threadIdx.z"),
    Annotation::Tensorize,
];

/// A step.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "`stage` and `axis` are positions in each variant")]
pub enum Step {
    /// `AN`: says how a loop runs.
    Annotate { stage: usize, axis: usize, how: Annotation },
    /// `FU`: fuses neighbouring axes.
    Fuse { stage: usize, axes: Vec<usize> },
    /// `PR`: a pragma, as `key$value`.
    Pragma { stage: usize, axis: usize, pragma: String },
    /// `RE`: the present positions of all axes, in their new order.
    Reorder { stage: usize, order: Vec<usize> },
    /// `SP`: splits an axis of `extent` iterations, if that was known.
    Split { stage: usize, axis: usize, extent: Option<i64>, sizes: Vec<i64>, given: Sizes },
    /// `FSP`: splits an axis into `parts + 1`, with the sizes of the step at `source`.
    FollowSplit { stage: usize, axis: usize, source: usize, parts: usize },
    /// `FFSP`: splits an axis into two, the size being the product of those that the steps at `sources` have at `level`.
    FollowFusedSplit { stage: usize, axis: usize, sources: Vec<usize>, level: usize, given: Sizes },
    /// `SA`: the distance of neighbours in the dimension of an axis.
    StorageAlign { stage: usize, axis: usize, factor: i64, offset: i64 },
    /// `CA`: computes a stage in a loop of another.
    ComputeAt { stage: usize, target: usize, axis: usize },
    /// `CI`: computes a stage in the expressions that read it.
    ComputeInline { stage: usize },
    /// `CR`: computes a stage in loops of its own.
    ComputeRoot { stage: usize },
    /// `CHR`: copies the tensor of a stage for some that read it.
    CacheRead { stage: usize, scope: String, readers: Vec<usize> },
    /// `CHW`: computes a stage in a copy of its tensor.
    CacheWrite { stage: usize, scope: String },
    /// `RF`: makes partial results of a reduction.
    Rfactor { stage: usize, axis: usize, dimension: usize },
}

impl Step {
    /// Reads a step: `["SP", 2, 0, 512, [8, 1, 2], 1]`.
    ///
    /// # Errors
    /// It has another form, which the text tells.
    pub fn read(json: &Value) -> Result<Step, String> {
        let mut f = Fields::of(json, "a step")?;
        let name = f.text("its kind")?;
        let stage = f.position("the stage")?;
        Ok(match name {
            "AN" => {
                let (axis, number) = (f.position("the axis")?, f.int("the annotation")?);
                let how = usize::try_from(number).ok().and_then(|n| ANNOTATIONS.get(n)).copied();
                Step::Annotate { stage, axis, how: how.ok_or_else(|| format!("there is no annotation {number}"))? }
            }
            "FU" => Step::Fuse { stage, axes: f.positions("the axes")? },
            "PR" => Step::Pragma { stage, axis: f.position("the axis")?, pragma: f.text("the pragma")?.to_owned() },
            "RE" => Step::Reorder { stage, order: f.positions("the order")? },
            "SP" => {
                let (axis, extent) = (f.position("the axis")?, f.int("the extent")?);
                let (sizes, given) = (f.ints("the sizes")?, sizes(&mut f)?);
                Step::Split { stage, axis, extent: (extent > 0).then_some(extent), sizes, given }
            }
            "FSP" => {
                let (axis, source) = (f.position("the axis")?, f.position("the other step")?);
                Step::FollowSplit { stage, axis, source, parts: f.position("the number of parts")? }
            }
            "FFSP" => {
                let (axis, sources) = (f.position("the axis")?, f.positions("the other steps")?);
                Step::FollowFusedSplit { stage, axis, sources, level: f.position("the level")?, given: sizes(&mut f)? }
            }
            "SA" => {
                let (axis, factor) = (f.position("the axis")?, f.int("the factor")?);
                Step::StorageAlign { stage, axis, factor, offset: f.int("the offset")? }
            }
            "CA" => Step::ComputeAt { stage, target: f.position("the other stage")?, axis: f.position("the axis")? },
            "CI" => Step::ComputeInline { stage },
            "CR" => Step::ComputeRoot { stage },
            "CHR" => {
                let scope = f.text("the memory")?.to_owned();
                Step::CacheRead { stage, scope, readers: f.positions("the readers")? }
            }
            "CHW" => Step::CacheWrite { stage, scope: f.text("the memory")?.to_owned() },
            "RF" => Step::Rfactor { stage, axis: f.position("the axis")?, dimension: f.position("the dimension")? },
            other => return Err(format!("there is no step `{other}`")),
        })
    }
}

fn sizes(f: &mut Fields<'_>) -> Result<Sizes, String> {
    Ok(if f.int("the direction")? != 0 { Sizes::Inner } else { Sizes::Outer })
}
