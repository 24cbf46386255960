//! Tests of primitives: a program, the instructions, and the expected result.

use super::super::arg::{Arg, Rv, RvValue};
use super::super::error::ScheduleError;
use super::super::kind::Kind;
use super::super::{Schedule, primitive};
use crate::ir::Module;
use crate::ir::equal::Equality;
use crate::ir::verify::Checks;
use crate::schedule_function::ScheduleFunction;
use crate::script::{Dialect, ParseOptions, parse, print_module};

/// A schedule with short methods for tests.
pub(crate) struct Test {
    /// The schedule.
    pub sch: Schedule,
}

impl Test {
    /// A schedule of the program with nothing done yet.
    pub(crate) fn new(program: &str) -> Test {
        Test { sch: Schedule::new(&module(program), 0) }
    }

    /// The block with this name in `main`.
    pub(crate) fn block(&mut self, name: &str) -> Rv {
        self.sch.get_block(name, "main").expect("the program has the block")
    }

    /// The loops around the block with this name.
    pub(crate) fn loops(&mut self, name: &str) -> Vec<Rv> {
        let block = self.block(name);
        self.sch.get_loops(block).expect("a block has loops")
    }

    /// The loops or blocks that handles stand for; handles of one loop or block give equal ones.
    pub(crate) fn values(&self, handles: &[Rv]) -> Vec<RvValue> {
        handles.iter().map(|&rv| self.sch.value(rv).expect("a handle of this schedule")).collect()
    }

    /// Whether the loop or block still exists.
    pub(crate) fn is_alive(&self, handle: Rv) -> bool {
        match self.values(&[handle])[0] {
            RvValue::Block(f, b) => self.sch.func(f).is_alive(b.stmt()),
            RvValue::Loop(f, l) => self.sch.func(f).is_alive(l.stmt()),
            other @ (RvValue::AtRoot | RvValue::Inlined | RvValue::Int(_)) => panic!("{other:?} is no loop or block"),
        }
    }

    /// The names of blocks and of the variables of loops.
    pub(crate) fn names(&self, handles: &[Rv]) -> Vec<String> {
        let name = |value| match value {
            RvValue::Block(f, b) => self.sch.func(f).block(b).name,
            RvValue::Loop(f, l) => {
                let func = self.sch.func(f);
                func.arena.var(func.loop_(l).var).name
            }
            other @ (RvValue::AtRoot | RvValue::Inlined | RvValue::Int(_)) => panic!("{other:?} has no name"),
        };
        self.values(handles).into_iter().map(|value| name(value).to_string()).collect()
    }

    /// Executes the instruction with this Python method. Omitted arguments take their defaults.
    pub(crate) fn run(&mut self, method: &str, args: Vec<Arg>) -> Result<Vec<Rv>, ScheduleError> {
        let kind: &'static Kind = primitive::by_method(method).expect("a primitive of that name");
        let defaults = kind.params.iter().skip(args.len());
        let defaults = defaults.map(|p| super::super::kind::default_arg(p).expect("all required arguments"));
        let args = args.into_iter().chain(defaults).collect();
        self.sch.execute(kind, args, None)
    }

    /// Executes Python statements; the schedule is called `sch`.
    pub(crate) fn python(&mut self, statements: &str) -> Result<(), ScheduleError> {
        let lines: Vec<String> = statements.trim().lines().map(|l| format!("    {}\n", l.trim())).collect();
        let text = format!("def steps(sch):\n{}", lines.concat());
        let function = ScheduleFunction::parse(&text, "steps.py").expect("the steps are Python");
        function.apply(&mut self.sch).map_err(|e| *e.refused.expect("the steps only fail where a primitive refuses"))
    }
}

/// Parses a module from a text: one function without its header lines.
pub(crate) fn module(text: &str) -> Module {
    let text = format!("@T.prim_func\n{}", text.trim_start_matches('\n'));
    // Some primitives violate the verifier's checks of signatures and bounds intentionally.
    let options = ParseOptions { checks: Some(Checks::FORM), ..ParseOptions::default() };
    match parse(&text, "test", &options) {
        Ok(parsed) => parsed.module,
        Err(e) => panic!("{e}"),
    }
}

/// Executes `steps` on the program and compares the result with `expected`, including block names.
pub(crate) fn check(program: &str, steps: impl FnOnce(&mut Test) -> Result<(), ScheduleError>, expected: &str) {
    let mut test = Test::new(program);
    steps(&mut test).expect("no instruction is refused");
    let found = test.sch.module();
    if let Err(difference) = (Equality { block_names: true, fold: true }).modules(&module(expected), &found) {
        panic!("{difference}\n{}", print_module(&found, Dialect::Classic));
    }
}

/// Executes `steps` on the program: the last one must be refused, with an error of this class, and must change nothing.
pub(crate) fn refuse(program: &str, steps: impl FnOnce(&mut Test) -> Result<(), ScheduleError>, class: &str) {
    let mut test = Test::new(program);
    let error = steps(&mut test).expect_err("the instruction is refused");
    assert_eq!(error.kind.class(), class, "{error}");
    let mut again = Schedule::new(&module(program), 0);
    test.sch.trace().replay(&mut again).expect("what was carried out once can be again");
    Equality::default().modules(&again.module(), &test.sch.module()).expect("a refused instruction changes nothing");
}
