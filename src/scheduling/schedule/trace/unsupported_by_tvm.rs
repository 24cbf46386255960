//! Finds the parts of a trace that TVM does not accept.
//!
//! A trace with only TVM's instructions and forms of arguments replays in TVM 0.27. tvmr's traces may contain more:
//! instructions that TVM lacks, values that its annotations cannot represent, tensor intrinsics that it does not know;
//! and in JSON arithmetic on random variables, and untyped constants to pad with, for which TVM has no form. This
//! module finds those instructions, so that users are warned. It considers only forms: docs/primitives.md lists
//! programs that TVM refuses or transforms differently.

use super::names::Names;
use super::{Instruction, Trace, object_graph};
use crate::schedule::arg::{Arg, Lambda, LambdaExpr};
use crate::schedule::kind::Ty;

/// A written form of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceForm {
    /// Python, which TVM runs where `T` is `tvm.script.tirx`.
    Python,
    /// JSON, which TVM's `Trace.apply_json_to_schedule` reads.
    Json,
}

/// The instructions of TVM 0.27, by their names in JSON. All others are specific to tvmr.
const TVM_KINDS: [&str; 52] = [
    "AddUnitLoop",
    "Annotate",
    "AnnotateBufferAccess",
    "Bind",
    "Blockize",
    "CacheIndex",
    "CacheInplace",
    "CacheRead",
    "CacheWrite",
    "ComputeAt",
    "ComputeInline",
    "DecomposePadding",
    "DecomposeReduction",
    "EnterPostproc",
    "Fuse",
    "FuseReductionEpilogue",
    "GetChildBlocks",
    "GetConsumers",
    "GetLoops",
    "GetOutputBlocks",
    "GetProducers",
    "GetSBlock",
    "LoopPartition",
    "Merge",
    "PadEinsum",
    "Parallel",
    "ReIndex",
    "ReadAt",
    "ReindexCacheRead",
    "ReindexCacheWrite",
    "Reorder",
    "ReorderBlockIterVar",
    "ReverseComputeAt",
    "ReverseComputeInline",
    "RFactor",
    "RollingBuffer",
    "SampleCategorical",
    "SampleComputeLocation",
    "SamplePartitionedTile",
    "SamplePerfectTile",
    "SetScope",
    "Split",
    "StorageAlign",
    "Tensorize",
    "TransformBlockLayout",
    "TransformLayout",
    "Unannotate",
    "Unroll",
    "UnsafeHideBufferAccess",
    "UnsafeSetDType",
    "Vectorize",
    "WriteAt",
];

/// The built-in intrinsics that TVM 0.27 registers under the same names (`tvm.s_tir.tensor_intrin`).
const TVM_INTRINSICS: [&str; 6] = [
    "dot_16x4_avx512",
    "dot_16x4_vnni",
    "dot_4x4_i8i8s32_neon",
    "dot_4x4_i8i8s32_sdot",
    "dot_4x4_u8u8i32_hdot",
    "dot_4x4_u8u8u32_udot",
];

impl Trace {
    /// The positions of the instructions that TVM does not accept in this form, each with the reason.
    pub fn unsupported_by_tvm(&self, form: TraceForm) -> Vec<(usize, String)> {
        let marked = |(i, inst): (usize, &Instruction)| Some((i, reason(inst, form)?));
        self.insts.iter().enumerate().filter_map(marked).collect()
    }
}

fn reason(inst: &Instruction, form: TraceForm) -> Option<String> {
    let kind = inst.kind;
    if !TVM_KINDS.contains(&kind.name) {
        return Some(format!("TVM has no `{}`", kind.method));
    }
    if kind.name == "GetOutputBlocks" && form == TraceForm::Python {
        return Some("TVM prints the argument like this, but only takes it as `scope_block`".to_string());
    }
    for (param, arg) in kind.params.iter().zip(&inst.args) {
        if param.name == "tensor_intrin"
            && let Arg::Str(name) = arg
            && !TVM_INTRINSICS.contains(&name.as_str())
        {
            return Some(format!("TVM has no intrinsic `{name}` unless it is registered there"));
        }
        if param.ty == Ty::Value && !is_annotation(arg, true) {
            return Some("TVM's annotations cannot hold the value".to_string());
        }
        if form == TraceForm::Json && is_text_of_ours(param.ty, arg) {
            return Some(format!("TVM's JSON has no form for the value of `{}`", param.name));
        }
        if has_axis_separator(arg) {
            return Some("TVM has no name for an axis separator".to_string());
        }
    }
    None
}

/// Whether the argument is a number, a text, an expression, a list of these, or a dictionary of these.
fn is_annotation(arg: &Arg, is_outermost: bool) -> bool {
    let is_plain = |a: &Arg| match a {
        Arg::Rv(_) | Arg::Expr(_) | Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Str(_) | Arg::Typed(..) => true,
        Arg::None | Arg::List(_) | Arg::Dict(_) | Arg::Lambda(_) => false,
    };
    match arg {
        Arg::List(items) => !items.is_empty() && items.iter().all(is_plain),
        Arg::Dict(items) => is_outermost && items.iter().all(|(_, v)| is_annotation(v, false)),
        other => is_plain(other),
    }
}

/// Whether tvmr's JSON writes the argument as Python text, or a plain number to pad with, because TVM's has no form for
/// it.
fn is_text_of_ours(ty: Ty, arg: &Arg) -> bool {
    match arg {
        Arg::Expr(_) => true,
        Arg::Lambda(l) => object_graph::write(l, &Names::default(), ty == Ty::PadValue).is_none(),
        Arg::Typed(..) => ty != Ty::PadValue,
        Arg::Int(_) | Arg::Float(_) => ty == Ty::PadValue,
        Arg::List(items) => items.iter().any(|v| is_text_of_ours(ty, v)),
        Arg::Dict(items) => items.iter().any(|(_, v)| is_text_of_ours(ty, v)),
        Arg::None | Arg::Rv(_) | Arg::Bool(_) | Arg::Str(_) => false,
    }
}

fn has_axis_separator(arg: &Arg) -> bool {
    let of = |l: &Lambda| l.results.iter().any(|r| matches!(r, LambdaExpr::AxisSeparator));
    matches!(arg, Arg::Lambda(l) if of(l))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsupported(lines: &[&str], form: TraceForm) -> Vec<usize> {
        let trace = Trace::from_python(&lines.join("\n"), "t.py").unwrap_or_else(|e| panic!("{e}"));
        trace.unsupported_by_tvm(form).into_iter().map(|(i, _)| i).collect()
    }

    #[test]
    fn what_tvm_has_is_not_marked() {
        let plain = [
            "b0 = sch.get_sblock(name=\"C\")",
            "l1, l2 = sch.get_loops(block=b0)",
            "v3, v4 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=64, decision=[4, 4])",
            "l5, l6 = sch.split(loop=l1, factors=[v3, v4])",
            "sch.annotate(block_or_loop=b0, ann_key=\"k\", ann_val={\"a\": [1, 2], \"b\": \"x\"})",
            "sch.tensorize(block_or_loop=l6, tensor_intrin=\"dot_16x4_vnni\")",
            "sch.enter_postproc()",
        ];
        assert!(unsupported(&plain, TraceForm::Python).is_empty());
        assert!(unsupported(&plain, TraceForm::Json).is_empty());
    }

    #[test]
    fn what_only_we_have_is_marked() {
        let ours = [
            "b0 = sch.get_sblock(name=\"C\")",
            "sch.annotate(block_or_loop=b0, ann_key=\"k\", ann_val=[[1], 2])",
            "sch.tensorize(block_or_loop=b0, tensor_intrin=\"mine\")",
            "b1, = sch.get_output_blocks(block=b0)",
        ];
        assert_eq!(unsupported(&ours, TraceForm::Python), [1, 2, 3]);
        assert_eq!(unsupported(&ours, TraceForm::Json), [1, 2]);
    }

    #[test]
    fn texts_in_json_are_marked() {
        let lines = [
            "b0 = sch.get_sblock(name=\"C\")",
            "sch.transform_layout(block=b0, buffer=(\"write\", 0), index_map=lambda i, j: (j, i,))",
            "v1 = sch.sample_categorical(candidates=[1, 2], probs=[0.5, 0.5])",
            "sch.annotate(block_or_loop=b0, ann_key=\"k\", ann_val=v1 * 2)",
            "sch.transform_layout(block=b0, buffer=0, index_map=lambda i, j: (j, i // v1,), pad_value=T.float32(0))",
            "sch.transform_layout(block=b0, buffer=0, index_map=lambda i, j: (j, i,), pad_value=7)",
        ];
        assert!(unsupported(&lines, TraceForm::Python).is_empty());
        assert_eq!(unsupported(&lines, TraceForm::Json), [3, 5]);
    }

    #[test]
    fn the_list_is_of_instructions_that_there_are() {
        let all: Vec<&str> = crate::schedule::primitive::ALL.iter().map(|k| k.name).collect();
        assert!(TVM_KINDS.iter().all(|name| all.contains(name)), "{:?}", TVM_KINDS.iter().find(|n| !all.contains(n)));
    }
}
