//! A function as steps, with a kernel for each: as written, or with a schedule.
//!
//! A schedule may lay out weights anew by a preparation ([`separate`]), whose results are the same in every call. It becomes a step of
//! the program's preparation, once for each weight that the kernel is called with, and the calls get its results:
//!
//! ```text
//! step: matmul(x, w, y)        →    preparation: matmul_prepare(w, p)
//!                                   step: matmul(x, p, y)
//! ```
//!
//! So the weight itself is no longer read, unless another step does.

use super::program::{Kernels, Place, Program, Routine, Step, Tensor};
use crate::diagnostic::Diagnostic;
use crate::ir::inline::with_calls_inlined;
use crate::ir::preparation::{Separated, separate};
use crate::ir::{Func, Module, Param, Symbol};
use std::collections::HashMap;

/// Steps and their kernels.
#[derive(Clone)]
pub struct Scheduled {
    /// The steps.
    pub program: Program,
    /// The prim_funcs that the steps run, in the order of [`Kernels::of`].
    pub kernels: Vec<Func>,
    /// Those of the steps of the preparation, in the same order.
    pub preparation: Vec<Func>,
}

impl Scheduled {
    /// The steps of a program with prim_funcs of the module: those of each call in the version that `version` gives for its name and
    /// the prim_func as written, those of the preparation as written.
    ///
    /// # Errors
    /// The module lacks a prim_func.
    pub fn new(
        program: Program,
        module: &Module,
        version: impl Fn(Symbol, Func) -> Func,
    ) -> Result<Scheduled, Diagnostic> {
        let preparation = as_written(module, &program.preparation)?;
        let funcs: Vec<Symbol> = Kernels::of(&program.steps).routines.iter().filter_map(Routine::prim_func).collect();
        let written = as_written(module, &program.steps)?;
        let kernels = funcs.iter().zip(written).map(|(&name, func)| version(name, func)).collect();
        let mut scheduled = Scheduled { program, kernels, preparation };
        for (kernel, &name) in funcs.iter().enumerate() {
            scheduled.separate(kernel, name);
        }
        scheduled.program.plan_prepared();
        Ok(scheduled)
    }

    /// Makes the preparation of a kernel, a prim_func of this name, part of the program's preparation, if there is one.
    fn separate(&mut self, kernel: usize, func: Symbol) {
        let is_it = |&i: &usize| self.program.steps[i].routine.prim_func() == Some(func);
        let steps: Vec<usize> = (0..self.program.steps.len()).filter(is_it).collect();
        let Some(mut parts) = Parts::of(&self.kernels[kernel]) else { return };
        let arguments = |step: &Step| -> Option<Vec<Place>> {
            let place = |&i: &usize| step.args[..step.n_reads].get(i).filter(|p| self.program.is_fixed(**p)).copied();
            parts.reads.iter().map(place).collect()
        };
        let reads: Option<Vec<Vec<Place>>> = steps.iter().map(|&i| arguments(&self.program.steps[i])).collect();
        let (n_args, n_reads) = (self.kernels[kernel].params.len(), self.program.steps[steps[0]].n_reads);
        let fits = |step: &Step| (step.args.len(), step.n_reads) == (n_args, n_reads);
        let all_fit = steps.iter().all(|&i| fits(&self.program.steps[i]));
        let Some(reads) = reads.filter(|_| all_fit) else { return };

        let taken: Vec<Symbol> = self.preparation.iter().map(|f| f.name).collect();
        let base = func.with_suffix("_prepare");
        let numbered = (1..).map(|i| base.with_suffix(&format!("_{i}")));
        let name = std::iter::once(base).chain(numbered).find(|n| !taken.contains(n)).unwrap_or(base);
        parts.preparation.name = name;
        self.preparation.push(parts.preparation);
        // Arguments are what a step reads, then what it writes.
        let n_kept_reads = parts.kept.iter().filter(|&&i| i < n_reads).count();
        let own = parts.call.params.split_off(parts.kept.len());
        parts.call.params.splice(n_kept_reads..n_kept_reads, own);
        self.kernels[kernel] = parts.call;
        let mut known: HashMap<Vec<Place>, Vec<Place>> = HashMap::new();
        for (i, reads) in steps.into_iter().zip(reads) {
            let program = &mut self.program;
            let call = program.steps[i].call;
            let prepared = known.entry(reads.clone()).or_insert_with(|| {
                let first = program.prepared.len();
                program.prepared.extend(parts.prepared.iter().cloned());
                let written: Vec<Place> = (first..program.prepared.len()).map(Place::Prepared).collect();
                let (args, n_reads) = ([&reads[..], &written].concat(), reads.len());
                let routine = Routine::PrimFunc(name);
                let step = Step { routine, args, n_reads, call, copies: Vec::new(), overwrites: false };
                program.preparation.push(step);
                written
            });
            let step = &mut program.steps[i];
            let kept = parts.kept.iter().map(|&i| step.args[i]);
            let mut args: Vec<Place> = kept.collect();
            args.splice(n_kept_reads..n_kept_reads, prepared.iter().copied());
            (step.n_reads, step.args) = (n_kept_reads + prepared.len(), args);
        }
    }
}

/// A kernel in two parts, for places in memory.
struct Parts {
    preparation: Func,
    call: Func,
    /// The arguments that the preparation reads.
    reads: Vec<usize>,
    /// The arguments that the call still takes, before the prepared tensors.
    kept: Vec<usize>,
    prepared: Vec<Tensor>,
}

impl Parts {
    /// `None` if the kernel has no preparation, or one that no place in memory suits.
    fn of(kernel: &Func) -> Option<Parts> {
        let mut parts = separate(kernel).filter(|_| kernel.returns.is_none())?;
        let kept = parts.without_idle_params();
        let Separated { preparation, call, n_prepared } = parts;
        let own = &preparation.params[preparation.params.len() - n_prepared..];
        let prepared = own.iter().map(|p| tensor(&preparation, p)).collect::<Option<Vec<_>>>()?;
        Some(Parts { preparation, call, reads: kept.preparation, kept: kept.call, prepared })
    }
}

/// The tensor of a parameter whose extents are constant and whose elements lie one after the other.
fn tensor(func: &Func, param: &Param) -> Option<Tensor> {
    let buffer = func.arena.buffer(param.buffer?);
    let extents = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e));
    let is_dense = buffer.strides.is_none() && buffer.elem_offset.is_none_or(|e| func.arena.is_int(e, 0));
    let shape = extents.collect::<Option<Vec<i64>>>().filter(|_| is_dense)?;
    Some(Tensor { name: buffer.name.to_string(), dtype: buffer.dtype, shape })
}

/// The prim_funcs of steps as written, in the order of [`Kernels::of`].
fn as_written(module: &Module, steps: &[Step]) -> Result<Vec<Func>, Diagnostic> {
    let positions = Kernels::of(steps).positions(module)?;
    Ok(positions.into_iter().map(|i| with_calls_inlined(module, i).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::pass::{self, Context, GraphModule};
    use crate::script::{ParseOptions, parse};

    /// A product whose schedule has laid the weight out by columns.
    const PRODUCT: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def product(x: T.Buffer((2, 4), "float32"), w: T.Buffer((4, 4), "float32"), y: T.Buffer((2, 4), "float32")):
        T.func_attr({"layout_free_buffers": [1]})
        p = T.sblock_alloc_buffer((2, 4, 2))
        for i, j in T.grid(4, 4):
            with T.sblock("p"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.sblock_attr({"meta_schedule.layout_rewrite_preproc": True})
                p[vj // 2, vi, vj % 2] = w[vi, vj]
        for i, j, k in T.grid(2, 4, 4):
            with T.sblock("y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * p[vj // 2, vk, vj % 2]

    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.product, (x, w), out_ty=R.Tensor((2, 4), "float32"))
            b = R.call_tir(cls.product, (a, THIRD), out_ty=R.Tensor((2, 4), "float32"))
            c = R.call_tir(cls.product, (b, w), out_ty=R.Tensor((2, 4), "float32"))
            R.output(c)
        return c
"#;

    fn scheduled(third: &str) -> Scheduled {
        let text = PRODUCT.replace("THIRD", third);
        let parsed = parse(&text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
        pass::run_all(&mut module, &Context::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let program = Program::of(&module.functions[0]).unwrap_or_else(|e| panic!("{e:?}"));
        Scheduled::new(program, &module.module, |_, func| func).unwrap_or_else(|e| panic!("{e:?}"))
    }

    #[test]
    fn each_weight_is_prepared_once() {
        let Scheduled { program, kernels, preparation } = scheduled("v");
        let args = |steps: &[Step]| -> Vec<(Vec<Place>, usize)> {
            steps.iter().map(|s| (s.args.clone(), s.n_reads)).collect()
        };
        use Place::{Input, Output, Prepared, Temporary};
        let prepared = [(vec![Input(1), Prepared(0)], 1), (vec![Input(2), Prepared(1)], 1)];
        assert_eq!(args(&program.preparation), prepared);
        let calls = [
            (vec![Input(0), Prepared(0), Temporary(0)], 2),
            (vec![Temporary(0), Prepared(1), Temporary(1)], 2),
            (vec![Temporary(1), Prepared(0), Output(0)], 2),
        ];
        assert_eq!(args(&program.steps), calls);
        assert_eq!(program.read_places(), [Input(0), Prepared(0), Prepared(1)].into());
        assert_eq!(program.prepared.iter().map(|t| &t.shape[..]).collect::<Vec<_>>(), [[2, 4, 2], [2, 4, 2]]);
        let params = |f: &Func| -> Vec<String> {
            f.params.iter().filter_map(|p| p.buffer).map(|b| f.arena.buffer(b).name.to_string()).collect()
        };
        assert_eq!((kernels.len(), preparation.len()), (1, 1));
        assert_eq!(
            (params(&kernels[0]), params(&preparation[0])),
            (["x", "p", "y"].map(str::to_owned).to_vec(), ["w", "p"].map(str::to_owned).to_vec(),)
        );
    }

    /// The attribute of the text does not count if a call passes something else.
    #[test]
    fn what_is_computed_is_not_prepared() {
        let Scheduled { program, .. } = scheduled("R.matmul(R.permute_dims(a), a)");
        assert!(program.preparation.is_empty());
        assert!(program.read_places().contains(&Place::Input(1)));
    }
}
