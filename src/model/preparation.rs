//! What is the same in every call of a graph, computed once.
//!
//! The steps of [`Program::preparation`] that the graph states run as written: they run once, so tuning them would cost more than it
//! saves. The others are the preparations of scheduled kernels ([`Scheduled`]).

use super::ModelError;
use super::executable::start_workers;
use super::memory::{Fixed, Memory};
use super::step_kernels::StepKernels;
use crate::codegen::RunContext;
use crate::graph::Constant;
use crate::graph::libraries::Libraries;
use crate::graph::program::{Foreign, Kernels, Place, Program, Routine, Tensor};
use crate::graph::scheduled::Scheduled;
use crate::ir::hash::workload_hash;
use crate::workload::Setting;
use std::collections::{HashMap, HashSet};

/// The compiled preparation of a graph.
pub(super) struct Preparation {
    kernels: StepKernels,
}

/// Prepared tensors after the preparation: the memory of each one that calls read.
pub(super) struct Prepared(Vec<Option<Memory>>);

impl Prepared {
    /// The elements of the tensors that calls read, with their numbers.
    pub(super) fn kept(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.0.iter().enumerate().filter_map(|(i, memory)| Some((i, memory.as_ref()?.bytes())))
    }
}

impl Preparation {
    /// The preparation with these kernels.
    pub(super) fn new(kernels: StepKernels) -> Preparation {
        Preparation { kernels }
    }

    /// The preparation of steps, compiled.
    pub(super) fn compile(
        scheduled: &Scheduled,
        libraries: &Libraries,
        setting: &Setting,
    ) -> Result<Preparation, ModelError> {
        let (steps, funcs) = (&scheduled.program.preparation, &scheduled.preparation);
        Ok(Preparation::new(StepKernels::compiled(libraries, steps, funcs, &setting.codegen())?))
    }

    /// Runs the preparation on the elements of the weights, which have the sizes that the program states.
    pub(super) fn run(
        &self,
        program: &Program,
        weights: &[&[u8]],
        context: &mut RunContext,
    ) -> Result<Prepared, ModelError> {
        let read = program.read_places();
        let own = |(i, tensor): (usize, &Tensor)| {
            let is_kept = read.contains(&Place::Prepared(i));
            is_kept.then(|| Memory::new(tensor.bytes())).transpose()
        };
        let kept: Vec<Option<Memory>> = program.prepared.iter().enumerate().map(own).collect::<Result<_, _>>()?;
        let rest = Memory::new(program.prepared_plan.bytes)?;
        let known = Known::of(program, weights)?;
        for (i, step) in program.preparation.iter().enumerate() {
            let pointer = |&place: &Place| match place {
                Place::Prepared(tensor) => Some(match &kept[tensor] {
                    Some(own) => own.pointer(0),
                    None => rest.pointer(program.prepared_plan.offsets[tensor]),
                }),
                Place::Input(_) | Place::Constant(_) | Place::Output(_) | Place::Temporary(_) => known.pointer(place),
            };
            let arguments: Option<Vec<*mut u8>> = step.args.iter().map(pointer).collect();
            let missing =
                || ModelError::Argument(format!("a weight that `{}` reads has no elements", step.routine.name()));
            // SAFETY: there is a pointer for each argument, of the size that the types of the graph say, which passes checked
            // against the parameters. What a step writes is a prepared tensor: those that live at the same time do not overlap.
            unsafe { self.kernels.call(i, step, &arguments.ok_or_else(missing)?, context)? };
        }
        Ok(Prepared(kept))
    }
}

/// The weights and constants that the preparation reads, where they are: copying them would take as much memory again.
struct Known<'a> {
    in_place: HashMap<Place, &'a [u8]>,
    /// Copies of those that are not aligned to their elements.
    copied: Fixed,
}

impl<'a> Known<'a> {
    fn of(program: &'a Program, weights: &[&'a [u8]]) -> Result<Known<'a>, ModelError> {
        let mut in_place: HashMap<Place, &[u8]> = HashMap::new();
        let mut misaligned: Vec<(Place, &[u8])> = Vec::new();
        let mut seen: HashSet<Place> = HashSet::new();
        for &place in program.preparation.iter().flat_map(|s| &s.args[..s.n_reads]) {
            let found = match place {
                Place::Input(i) => {
                    let data = i.checked_sub(program.n_inputs).and_then(|weight| weights.get(weight).copied());
                    data.map(|data| (data, program.inputs[i].dtype))
                }
                Place::Constant(i) => Some((program.constants[i].data(), program.constants[i].dtype())),
                Place::Prepared(_) | Place::Output(_) | Place::Temporary(_) => None,
            };
            let Some((data, dtype)) = found.filter(|_| seen.insert(place)) else { continue };
            match data.as_ptr().addr() % dtype.bytes() {
                0 => drop(in_place.insert(place, data)),
                _ => misaligned.push((place, data)),
            }
        }
        Ok(Known { in_place, copied: Fixed::copy(&misaligned)? })
    }

    /// The address of a tensor, if it is known. It is only read.
    fn pointer(&self, place: Place) -> Option<*mut u8> {
        let data = self.in_place.get(&place).map(|data| data.as_ptr().cast_mut());
        data.or_else(|| self.copied.pointer(place))
    }
}

/// Preparations that may be the same, such as those of one graph for several sizes: each is run once.
#[derive(Default)]
pub struct Preparations {
    done: Vec<(Vec<StepKey>, Vec<Option<Constant>>)>,
}

/// What a step of a preparation computes.
#[derive(PartialEq)]
struct StepKey {
    kernel: KernelKey,
    reads: Vec<ReadKey>,
    /// The prepared tensors that it writes, and whether calls read them.
    writes: Vec<(Place, bool)>,
}

/// What such a step runs.
#[derive(Clone, PartialEq)]
enum KernelKey {
    /// The hash of a prim_func.
    PrimFunc(u64),
    /// A function of a shared library.
    Foreign(Foreign),
}

/// What a step of a preparation reads.
#[derive(PartialEq)]
enum ReadKey {
    /// Known elements. Tensors that share them are equal without a look at them.
    Known(Constant),
    /// A result of another step.
    Result(Place),
}

impl Preparations {
    /// Computes what is the same in every call of the steps with these weights, which follow the inputs. The result has an element
    /// for each of [`Program::prepared`]; `None` for those that only the preparation reads.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn results(
        &mut self,
        scheduled: &Scheduled,
        libraries: &Libraries,
        setting: &Setting,
        weights: &[Constant],
    ) -> Result<Vec<Option<Constant>>, ModelError> {
        let program = &scheduled.program;
        let expected = &program.inputs[program.n_inputs..];
        let fits = expected.iter().zip(weights).all(|(t, w)| t.dtype == w.dtype() && t.shape == w.shape());
        if !fits || expected.len() != weights.len() {
            return Err(ModelError::Argument(
                "the weights have other types or shapes than the graph expects".to_owned(),
            ));
        }
        let key = key(scheduled, weights);
        if let Some((_, results)) = self.done.iter().find(|(known, _)| *known == key) {
            return Ok(results.clone());
        }
        let mut context = RunContext::new(start_workers(setting)?);
        let weights: Vec<&[u8]> = weights.iter().map(Constant::data).collect();
        let preparation = Preparation::compile(scheduled, libraries, setting)?;
        let prepared = preparation.run(program, &weights, &mut context)?;
        let constant = |(tensor, memory): (&Tensor, Option<Memory>)| {
            memory.and_then(|memory| Constant::new(tensor.dtype, &tensor.shape, memory.bytes().to_vec()))
        };
        let results: Vec<Option<Constant>> = program.prepared.iter().zip(prepared.0).map(constant).collect();
        self.done.push((key, results.clone()));
        Ok(results)
    }
}

/// What the preparation of a program computes from these weights.
fn key(scheduled: &Scheduled, weights: &[Constant]) -> Vec<StepKey> {
    let program = &scheduled.program;
    let kernels = Kernels::of(&program.preparation);
    let mut hashes = scheduled.preparation.iter().map(|func| workload_hash(func).0);
    let kernel = |routine: &Routine| match routine {
        Routine::PrimFunc(_) => KernelKey::PrimFunc(hashes.next().unwrap_or_default()),
        Routine::Foreign(call) => KernelKey::Foreign(call.clone()),
    };
    let kernel_keys: Vec<KernelKey> = kernels.routines.iter().map(kernel).collect();
    let read = program.read_places();
    let keys = program.preparation.iter().zip(&kernels.of_step).map(|(step, &kernel)| {
        let (reads, writes) = step.args.split_at(step.n_reads);
        let reads = reads.iter().map(|&place| match place {
            Place::Input(i) if i >= program.n_inputs => ReadKey::Known(weights[i - program.n_inputs].clone()),
            Place::Constant(i) => ReadKey::Known(program.constants[i].clone()),
            Place::Input(_) | Place::Prepared(_) | Place::Output(_) | Place::Temporary(_) => ReadKey::Result(place),
        });
        let writes = writes.iter().map(|&place| (place, read.contains(&place)));
        StepKey { kernel: kernel_keys[kernel].clone(), reads: reads.collect(), writes: writes.collect() }
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::pass::{Context, GraphModule, run_all};
    use crate::script::{ParseOptions, parse};

    /// The steps of a graph for `n` rows. The transposed weight depends on none of them.
    fn lowered(n: i64) -> Scheduled {
        let text = format!(
            "@R.function
def main(x: R.Tensor(({n}, 3), \"float32\"), w: R.Tensor((2, 3), \"float32\")):
    R.func_attr({{\"num_input\": 1}})
    with R.dataflow():
        y = R.matmul(x, R.permute_dims(w))
        R.output(y)
    return y
"
        );
        let parsed = parse(&text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
        run_all(&mut module, &Context::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let program = Program::of(&module.functions[0]).unwrap_or_else(|e| panic!("{e:?}"));
        Scheduled::new(program, &module.module, |_, func| func).unwrap_or_else(|e| panic!("{e:?}"))
    }

    fn bytes(values: [f32; 6]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    const WEIGHT: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    const TRANSPOSED: [f32; 6] = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];

    #[test]
    fn equal_preparations_run_once() {
        let (setting, mut all) = (Setting::native(), Preparations::default());
        let mut results = |n: i64, weight: [f32; 6]| {
            let weight = Constant::new(crate::ir::DType::Float32, &[2, 3], bytes(weight)).expect("a matrix");
            let results =
                all.results(&lowered(n), &Libraries::default(), &setting, &[weight]).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(results.len(), 1);
            results[0].clone().expect("calls read it")
        };
        let (one, four) = (results(1, WEIGHT), results(4, WEIGHT));
        assert_eq!((one.data(), one.shape()), (&bytes(TRANSPOSED)[..], &[3, 2][..]));
        assert_eq!(one.data().as_ptr(), four.data().as_ptr());
        assert_eq!(results(4, [0.5; 6]).data(), bytes([0.5; 6]));
    }

    #[test]
    fn misaligned_weights_are_copied() {
        let (scheduled, setting) = (lowered(1), Setting::native());
        let preparation = Preparation::compile(&scheduled, &Libraries::default(), &setting);
        let mut context = RunContext::new(start_workers(&setting).expect("threads"));
        for shift in [0, 1] {
            let memory = [&vec![0; shift], &bytes(WEIGHT)[..]].concat();
            let run = preparation
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|p| p.run(&scheduled.program, &[&memory[shift..]], &mut context));
            let prepared = run.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(prepared.kept().collect::<Vec<_>>(), [(0, &bytes(TRANSPOSED)[..])]);
        }
    }
}
