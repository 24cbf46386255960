//! Schedules: a program, the instructions that transform it, and the trace of executed instructions.
//!
//! A [`Schedule`] holds a module and applies instructions to it. All instructions go through [`Schedule::execute`]: the
//! arguments are resolved, the primitive checks and transforms (on an error, the program is unchanged), its results get
//! fresh [`Rv`]s, and the [`Instruction`] is appended to the [`Trace`]. The table [`primitive::ALL`] lists all kinds;
//! each has a file under `primitive/`, whose head describes its transformation.
//!
//! Semantics follow TVM's TensorIR schedule (`src/s_tir/schedule`). If TVM accepts a transformation that would change
//! results, tvmr refuses it, and docs/primitives.md says so.

pub(crate) mod analysis;
pub(crate) mod api;
pub mod arg;
pub(crate) mod bind;
pub(crate) mod call;
mod choices;
pub mod error;
pub mod intrin;
pub mod kind;
pub mod primitive;
pub mod render;
pub(crate) mod state;
pub mod trace;

use crate::ir::{Func, Module, StmtId};
use crate::stop::StopFlag;
pub use analysis::declared::undeclared_use;
use analysis::{freedom, tree};
use arg::{Arg, Decision, FuncIndex, Rv, RvValue};
use call::Call;
pub use choices::Choices;
use error::{ErrorKind, ScheduleError};
use intrin::Intrinsics;
use kind::{Kind, Outcome};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use state::State;
use std::sync::Arc;
pub use trace::{Instruction, Trace};

/// A module being scheduled.
#[derive(Clone)]
pub struct Schedule {
    pub(crate) states: Vec<State>,
    /// The states before the first instruction.
    origin: Arc<[State]>,
    module_name: Option<crate::ir::Symbol>,
    module_attributes: Arc<crate::ir::ModuleAttrs>,
    rvs: Vec<RvValue>,
    trace: Trace,
    pub(crate) rng: ChaCha8Rng,
    /// The function that `get_block` searches if no function is named.
    work_func: Option<FuncIndex>,
    /// The intrinsics of `tensorize`; `None` means the built-in table, which is parsed on demand.
    intrinsics: Option<Arc<Intrinsics>>,
    /// Decisions for the next sampling instructions, in reverse order.
    preferred: Vec<Decision>,
    /// If raised, every instruction is refused.
    stop: StopFlag,
}

impl Schedule {
    /// A schedule of `module` with an empty trace. Decisions that are not given are drawn from the random stream of
    /// `seed`.
    pub fn new(module: &Module, seed: u64) -> Schedule {
        let states: Vec<State> = module.funcs.iter().enumerate().map(|(i, f)| State::new(i, f.clone())).collect();
        Schedule {
            origin: states.clone().into(),
            states,
            module_name: module.name,
            module_attributes: module.attributes.clone(),
            rvs: Vec::new(),
            trace: Trace::default(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            work_func: None,
            intrinsics: None,
            preferred: Vec::new(),
            stop: StopFlag::new(),
        }
    }

    /// Draws further decisions from `rng`.
    pub fn set_rng(&mut self, rng: ChaCha8Rng) {
        self.rng = rng;
    }

    /// Sets the decisions of the next sampling instructions, in order, unless they are given explicitly. An invalid one
    /// is replaced by the nearest valid one, or drawn if there is none: after a change of an earlier decision, the
    /// later ones stay as similar as possible.
    pub fn prefer_decisions(&mut self, decisions: impl DoubleEndedIterator<Item = Decision>) {
        self.preferred = decisions.rev().collect();
    }

    /// Refuses every instruction once the flag is raised, so that work on this schedule and its clones ends.
    #[must_use]
    pub fn until(mut self, stop: StopFlag) -> Schedule {
        self.stop = stop;
        self
    }

    /// The flag that ends work on the schedule.
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// Sets the intrinsics of `tensorize` instead of the built-in ones, if given.
    #[must_use]
    pub fn with_intrinsics(mut self, intrinsics: Option<Arc<Intrinsics>>) -> Schedule {
        self.intrinsics = intrinsics;
        self
    }

    pub(crate) fn intrinsics(&self) -> Arc<Intrinsics> {
        self.intrinsics.clone().unwrap_or_else(Intrinsics::built_in)
    }

    /// The current program.
    pub fn module(&self) -> Module {
        Module {
            name: self.module_name,
            attributes: self.module_attributes.clone(),
            funcs: self.states.iter().map(|s| s.func.clone()).collect(),
        }
    }

    /// A function of the current program.
    pub fn func(&self, index: FuncIndex) -> &Func {
        &self.states[index].func
    }

    /// A function of the program, for analyses that make expressions. Statements must stay unchanged: only instructions
    /// change them.
    pub(crate) fn func_mut(&mut self, index: FuncIndex) -> &mut Func {
        &mut self.states[index].func
    }

    /// The number of functions.
    pub fn n_funcs(&self) -> usize {
        self.states.len()
    }

    /// The instructions executed so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The trace of a schedule that is no longer needed.
    pub fn into_trace(self) -> Trace {
        self.trace
    }

    /// The number of random variables made so far.
    pub fn n_rvs(&self) -> usize {
        self.rvs.len()
    }

    /// Restricts `get_block` without a function name to one function.
    pub fn work_on(&mut self, func: FuncIndex) {
        self.work_func = Some(func);
    }

    pub(crate) fn work_func(&self) -> Option<FuncIndex> {
        self.work_func
    }

    /// The function that is meant where none is named: the one to work on, the only one, or `main`.
    pub(crate) fn implied_func(&self) -> Option<FuncIndex> {
        match (self.work_func, self.n_funcs()) {
            (Some(f), _) => Some(f),
            (None, 1) => Some(0),
            (None, n) => (0..n).find(|&i| self.func(i).name == "main"),
        }
    }

    /// The value of a random variable.
    ///
    /// # Errors
    ///
    /// If the schedule has made no such variable.
    pub fn value(&self, rv: Rv) -> Result<RvValue, ScheduleError> {
        self.rvs.get(rv.index()).copied().ok_or_else(|| {
            ErrorKind::Argument { message: "the random variable belongs to another schedule".to_string() }.into()
        })
    }

    /// The integer value of a random variable.
    pub fn int_value(&self, rv: Rv) -> Option<i64> {
        match self.rvs.get(rv.index()) {
            Some(RvValue::Int(v)) => Some(*v),
            _ => None,
        }
    }

    /// Executes one instruction and records it.
    ///
    /// # Errors
    ///
    /// If the primitive refuses; then the program and the trace are unchanged.
    pub fn execute(
        &mut self,
        kind: &'static Kind,
        args: Vec<Arg>,
        decision: Option<Decision>,
    ) -> Result<Vec<Rv>, ScheduleError> {
        debug_assert_eq!(args.len(), kind.params.len(), "arguments of {}", kind.name);
        if self.stop.is_raised() {
            return Err(ErrorKind::Stopped.into());
        }
        let preferred = if kind.samples { self.preferred.pop() } else { None };
        let is_preferred = decision.is_none() && preferred.is_some();
        let decision = decision.or(preferred);
        self.check_freedom(kind, &args)?;
        self.check_vectors(kind, &args)?;
        let nest = self.deep_nest(kind, &args);
        let mut call = Call { sch: self, kind, args: &args, decision: decision.as_ref(), is_preferred };
        let outcome = (kind.run)(&mut call);
        let outcome = match nest {
            Some(before) => outcome.and_then(|outcome| self.check_depth(before).map(|()| outcome)),
            None => outcome,
        };
        let outcome = outcome.and_then(|outcome| self.check_buffers(kind, &args).map(|()| outcome));
        let outcome: Outcome = outcome.map_err(|mut e| {
            e.primitive = kind.method;
            // An error about an argument or a buffer is shown at the loop or block given with it.
            e.at = e.at.or_else(|| self.first_place(&args));
            e
        })?;
        let outputs = outcome
            .outputs
            .into_iter()
            .map(|value| {
                let rv = Rv(self.rvs.len() as u32);
                self.rvs.push(value);
                rv
            })
            .collect::<Vec<Rv>>();
        self.trace.insts.push(Instruction { kind, args, outputs: outputs.clone(), decision: outcome.decision });
        Ok(outputs)
    }

    /// A copy of the function's state, if its nest is so deep that the instruction may exceed the limit. Usual programs
    /// are not, and cost no copy.
    fn deep_nest(&mut self, kind: &Kind, args: &[Arg]) -> Option<State> {
        if !kind.may_change_program() {
            return None;
        }
        let (index, _) = self.first_place(args)?;
        let state = &mut self.states[index];
        // A loop for each factor, or for each dimension of a copy, with a block or two.
        let factors = args.iter().map(|a| if let Arg::List(items) = a { items.len() } else { 0 });
        let added = factors.max().unwrap_or(0).max(state.max_rank()) + 2;
        // An instruction adds far fewer levels than the other half, or counts its levels itself.
        let is_deep = |levels: usize| levels > tree::MAX_DEPTH / 2;
        state.levels += added;
        if is_deep(state.levels) {
            state.levels = tree::depth(&state.func) + added;
        }
        is_deep(state.levels).then(|| state.clone())
    }

    /// Refuses primitives that rewrite indices one by one, if a block of the function accesses vectors.
    fn check_vectors(&self, kind: &'static Kind, args: &[Arg]) -> Result<(), ScheduleError> {
        if !kind.may_change_program() || primitive::KEEPS_INDICES.contains(&kind.name) {
            return Ok(());
        }
        let Some((index, s)) = self.first_place(args) else { return Ok(()) };
        let state = &self.states[index];
        if !state.func.accesses_vectors() {
            return Ok(());
        }
        let what = format!("`{}` in a function with accesses to vectors, such as `A[0:4]`,", kind.method);
        let mut error = state.error(ErrorKind::NotSupported { what }, s);
        error.primitive = kind.method;
        Err(error)
    }

    /// # Errors
    ///
    /// If the function contains a feature that the instruction does not support, such as statements between its blocks.
    fn check_freedom(&self, kind: &'static Kind, args: &[Arg]) -> Result<(), ScheduleError> {
        let Some((index, _)) = self.first_place(args) else { return Ok(()) };
        let state = &self.states[index];
        match &state.limit {
            Some(limit) if limit.freedom < freedom::required_by(kind.name) && state.func.is_alive(limit.at) => {
                let mut error = state.error(limit.error.clone(), limit.at);
                error.primitive = kind.method;
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// # Errors
    ///
    /// If an instruction nested the program deeper than it can be parsed again; then its function is restored from
    /// `before`.
    fn check_depth(&mut self, before: State) -> Result<(), ScheduleError> {
        let state = &mut self.states[before.index()];
        let depth = tree::depth(&state.func);
        if depth <= tree::MAX_DEPTH.max(tree::depth(&before.func)) {
            return Ok(());
        }
        *state = before;
        Err(ErrorKind::NestTooDeep { depth }.into())
    }

    /// # Errors
    ///
    /// If the instruction's function now uses an undeclared buffer; then the program is restored.
    fn check_buffers(&mut self, kind: &Kind, args: &[Arg]) -> Result<(), ScheduleError> {
        if !kind.may_change_program() {
            return Ok(());
        }
        let Some((index, _)) = self.first_place(args) else { return Ok(()) };
        let state = &mut self.states[index];
        let Some(buffer) = state.undeclared_buffer() else { return Ok(()) };
        let buffer = state.func.arena.buffer(buffer).name;
        self.restore();
        Err(ErrorKind::UndeclaredBuffer { buffer }.into())
    }

    /// Undoes all changes that are not in the trace. Checks come before changes, so this only handles bugs of
    /// primitives, and may cost as much as all instructions so far.
    fn restore(&mut self) {
        let mut again = self.clone();
        again.states = self.origin.to_vec();
        again.rvs.clear();
        again.trace = Trace::default();
        again.preferred.clear();
        // A raised flag must not stop this replay.
        again.stop = StopFlag::new();
        self.trace.replay(&mut again).expect("the instructions of a trace were carried out once");
        self.states = again.states;
        self.rvs = again.rvs;
    }

    /// The first loop or block among arguments.
    fn first_place(&self, args: &[Arg]) -> Option<(FuncIndex, StmtId)> {
        let mut place = None;
        let mut look = |rv: Rv| {
            place = place.or(match self.rvs.get(rv.index()) {
                Some(&RvValue::Block(f, b)) => Some((f, b.stmt())),
                Some(&RvValue::Loop(f, l)) => Some((f, l.stmt())),
                Some(RvValue::AtRoot | RvValue::Inlined | RvValue::Int(_)) | None => None,
            });
        };
        args.iter().for_each(|a| a.for_each_rv(&mut look));
        place
    }

    /// The instruction that consumed a loop or block: the last one of a consuming kind that got it as an argument,
    /// under this name or another. Only errors pay for the search.
    pub(crate) fn dead(&self, rv: Rv, what: &'static str) -> ErrorKind {
        const CONSUMERS: [&str; 9] = [
            "Split",
            "Fuse",
            "Merge",
            "LoopPartition",
            "Blockize",
            "Tensorize",
            "ComputeInline",
            "ReverseComputeInline",
            "FuseReductionEpilogue",
        ];
        let value = self.rvs.get(rv.index());
        let is_given = |inst: &Instruction| {
            let mut given = false;
            inst.args.iter().for_each(|a| a.for_each_rv(&mut |r| given |= self.rvs.get(r.index()) == value));
            given
        };
        let consumer = self.trace.insts.iter().rev().find(|inst| CONSUMERS.contains(&inst.kind.name) && is_given(inst));
        let by = match consumer {
            Some(inst) => format!("`{}` consumed it", inst.kind.method),
            None => "an earlier instruction removed it".to_string(),
        };
        ErrorKind::DeadHandle { what, by }
    }
}

#[cfg(test)]
mod tests {
    use super::kind::{Kind, Outcome, Outputs, Param, Ty};
    use super::primitive::testing::{Test, module};
    use super::*;
    use crate::ir::equal::Equality;

    /// A primitive with a bug: it removes the allocations of the root.
    static FORGET: Kind = Kind {
        name: "Forget",
        method: "forget",
        classic: None,
        positional: false,
        params: &[Param::input("block", Ty::Block)],
        outputs: Outputs::None,
        samples: false,
        run: |call| {
            let (index, _) = call.block(0)?;
            let func = &mut call.state(index).func;
            let root = func.root;
            func.block_mut(root).allocs.clear();
            Ok(Outcome::none())
        },
    };

    #[test]
    fn a_primitive_that_leaves_an_undeclared_buffer_is_refused() {
        let program = r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"#;
        let mut test = Test { sch: Schedule::new(&module(program), 0) };
        test.python("i, = sch.get_loops(sch.get_block(\"B\"))\nsch.split(i, [2, 4])").expect("both are right");
        let block = test.block("C");
        let before = test.sch.module();
        let error = test.sch.execute(&FORGET, vec![block.into()], None).expect_err("the buffer is used");
        assert_eq!(error.kind, ErrorKind::UndeclaredBuffer { buffer: "B".into() });
        assert_eq!(error.to_string(), "`forget`: buffer `B` would be used where nothing declares it");
        Equality::default().modules(&before, &test.sch.module()).expect("the program is as before");
        // Handles from before the error stay valid.
        let loops = test.sch.get_loops(block).expect("the block is there");
        test.sch.parallel(loops[0]).expect("the loop is there");
    }

    #[test]
    fn a_raised_flag_refuses_every_instruction_of_every_clone() {
        use crate::script::{ParseOptions, parse};
        let text = "@T.prim_func
def main(B: T.Buffer((8,))):
    for i in range(8):
        with T.block(\"B\"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.float32(1)
";
        let module = parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let stop = StopFlag::new();
        let mut schedule = Schedule::new(&module, 0).until(stop.clone());
        let block = schedule.get_block("B", "main").expect("there is one");
        stop.raise();
        let mut clone = schedule.clone();
        for schedule in [&mut schedule, &mut clone] {
            let refused = schedule.get_loops(block).expect_err("it is stopped");
            assert_eq!(refused.kind.class(), "Stopped");
            assert_eq!(schedule.trace().insts.len(), 1);
        }
    }
}
