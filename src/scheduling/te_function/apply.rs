//! Schedules and templates of a text, carried out on a program.
//!
//! ```text
//! def vector_add(n):
//!     A = te.placeholder((n,), name="A")
//!     B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
//!     s = te.create_schedule(B.op)
//!     outer, inner = s[B].split(B.op.axis[0], factor=8)
//!     s[B].vectorize(inner)
//!     return s, [A, B]
//! ```
//!
//! A function may define the program that it schedules, as above; then it is called with the arguments of the workload. Or its
//! parameters are tensors, `def schedule(A, B): …`, which are those of the program: parameters that have the name of a tensor stand
//! for it; if none has, they are the tensors of the program's parameters in order.

use super::knob::Preset;
use super::library::Tensors;
use super::scheduling::{Created, Scheduling, wrong};
use super::value::{Value, tensor};
use super::vocabulary::Code;
use super::{Place, WorkloadChoice, called, compiled, parts, run, workload_args};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, nearest};
use crate::interpreter::Failure;
use crate::interpreter::compile::Program;
use crate::ir::{BufferId, Func, Module};
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::{Schedule, render};
use crate::script::Dialect;
use crate::te_schedule::{RefusalCause, of_func, translate};
use std::rc::Rc;
use std::sync::Arc;

/// A schedule of tensor expressions or a template, ready to be applied any number of times.
#[derive(Debug)]
pub struct TeSchedule {
    program: Program<Code>,
    main: usize,
    /// The arguments of the workload, and where its prim_func has the tensors; `None` if the function takes tensors.
    defines: Option<(Option<String>, Vec<Place>)>,
    file_name: Arc<str>,
    text: Arc<str>,
}

impl TeSchedule {
    /// Whether a text has schedules of tensor expressions.
    pub fn is_in(text: &str) -> bool {
        super::mentions(text, &["create_schedule"]) && super::is_te_text(text)
    }

    /// Reads the function of a text that is asked for; with arguments, or if it needs none, it is one that defines its program.
    ///
    /// # Errors
    /// The text has mistakes, or the function makes one when it defines its program.
    pub fn parse(text: &str, file_name: &str, wanted: WorkloadChoice<'_>) -> Result<TeSchedule, Diagnostics> {
        let source = Source { name: file_name, text };
        let read = || {
            let (program, main) = compiled(text, wanted.func)?;
            let function = &program.functions[main];
            let needs_none = function.params.iter().all(|(_, default)| default.is_some());
            let defines = match wanted.args.is_some() || needs_none {
                false => None,
                true => {
                    let values = workload_args::values(function, wanted.args)?;
                    let (_, places) = run(&program, main, values).map_err(|d| vec![d])?;
                    Some((wanted.args.map(str::to_owned), places))
                }
            };
            Ok((program, main, defines))
        };
        let (program, main, defines) = read().map_err(|items| Diagnostics::new(source, items))?;
        Ok(TeSchedule { program, main, defines, file_name: file_name.into(), text: text.into() })
    }

    /// The text with its name, for rendering diagnostics.
    pub fn source(&self) -> Source<'_> {
        Source { name: &self.file_name, text: &self.text }
    }

    /// Carries the schedule out. The decisions of a template are drawn by the schedule.
    ///
    /// # Errors
    /// The text makes a mistake, or an instruction is refused. The instructions before stay carried out.
    pub fn apply(&self, schedule: &mut Schedule) -> Result<(), Failure<ScheduleError>> {
        self.with_presets(None, schedule)
    }

    /// Carries a template out with these candidates of its knobs, by their names.
    ///
    /// # Errors
    /// As for [`TeSchedule::apply`]; also, a knob is given no candidate, or one that it does not have.
    pub fn apply_with(
        &self,
        presets: &[(String, Preset)],
        schedule: &mut Schedule,
    ) -> Result<(), Failure<ScheduleError>> {
        self.with_presets(Some(presets.into()), schedule)
    }

    fn with_presets(
        &self,
        presets: Option<Rc<[(String, Preset)]>>,
        schedule: &mut Schedule,
    ) -> Result<(), Failure<ScheduleError>> {
        let (result, n_knobs) = self.carried_out(presets, schedule);
        result.map_err(|mut failure| {
            // Other decisions of a template may do.
            if n_knobs > 0 && failure.refused.is_none() && failure.diagnostic.code == "schedule" {
                let message = failure.diagnostic.message.clone();
                failure.refused = Some(Box::new(ErrorKind::Argument { message }.into()));
            }
            failure
        })
    }

    fn carried_out(
        &self,
        presets: Option<Rc<[(String, Preset)]>>,
        schedule: &mut Schedule,
    ) -> (Result<(), Failure<ScheduleError>>, usize) {
        let function = &self.program.functions[self.main];
        let Some(index) = schedule.implied_func() else {
            let message = format!("the program has several functions, and `{}` schedules one", function.name);
            let d = Diagnostic::error_at("schedule", function.span, message);
            return (Err(d.help("choose the function by `--func`").into()), 0);
        };
        let mut library = Tensors::new();
        library.scheduling.presets = presets;
        let values = match &self.defines {
            Some((args, places)) => {
                library.scheduling.places = places.iter().cloned().collect();
                workload_args::values(function, args.as_deref()).map_err(|mut found| found.swap_remove(0))
            }
            None => self.tensors(&mut library, schedule.func(index)),
        };
        let values = match values {
            Ok(values) => values,
            Err(diagnostic) => return (Err(diagnostic.into()), 0),
        };
        // The library holds the schedule while the text runs, so that knobs can draw decisions.
        let nothing = Schedule::new(&Module { funcs: Vec::new(), ..schedule.module() }, 0);
        library.scheduling.sampler = Some(std::mem::replace(schedule, nothing));
        let (result, library) = called(&self.program, self.main, values, library, |_, result| Ok(parts(result).0));
        let Scheduling { created, sampler, knobs, .. } = library.scheduling;
        if let Some(sampler) = sampler {
            *schedule = sampler;
        }
        let result = result.and_then(|returned| {
            let chosen = returned.or(created.len().checked_sub(1)).and_then(|i| created.get(i));
            let Some(Created { stages, .. }) = chosen else {
                let message = format!("`{}` creates no schedule", function.name);
                let d = Diagnostic::error_at("schedule", function.span, message);
                return Err(d
                    .help("create one, and return it: `s = te.create_schedule(C.op)`, `return s, [A, B, C]`")
                    .into());
            };
            translate(stages, schedule, index).map_err(|refusal| match refusal.cause {
                RefusalCause::Mistake(mistake) => wrong(refusal.at, mistake),
                RefusalCause::Schedule(error) => {
                    let diagnostic = Box::new(render::of_error(&error).label(refusal.at, ""));
                    Failure { diagnostic, refused: Some(error) }
                }
            })
        });
        (result, knobs.len())
    }

    /// Renders an error of [`TeSchedule::apply`]: the lines of the text and, where an instruction was refused, the loop or block in
    /// the program. The schedule must be as the error left it.
    pub fn render_error(
        &self,
        error: &Failure<ScheduleError>,
        schedule: &Schedule,
        dialect: Dialect,
        color: bool,
    ) -> String {
        match &error.refused {
            Some(refused) => render::refusal(&error.diagnostic, self.source(), refused, schedule, dialect, color),
            None => error.diagnostic.render(self.source(), color),
        }
    }

    /// The tensors of a function as arguments.
    fn tensors(&self, library: &mut Tensors, func: &Func) -> Result<Vec<Value>, Diagnostic> {
        let function = &self.program.functions[self.main];
        let (stages, buffers) = of_func(func);
        let mut given = Created { stages, tensors: Vec::new() };
        let mut named = Vec::with_capacity(buffers.len());
        for (buffer, stage) in buffers {
            let data = func.arena.buffer(buffer);
            let te = &mut library.te;
            let shape: Vec<_> = (func.arena.list(data.shape).iter())
                .map(|&extent| match func.arena.as_int(extent) {
                    Some(n) => te.extent(n),
                    None => te.symbol("n"),
                })
                .collect();
            let made = te.placeholder(data.name.as_str(), data.dtype, &shape);
            given.tensors.push((made, stage));
            named.push((data.name, buffer, made));
        }
        library.scheduling.given = Some(given);
        let of_params: Vec<_> = (func.params.iter())
            .filter_map(|p| named.iter().find(|(_, b, _)| Some(*b) == p.buffer).map(|(_, _, t)| *t))
            .collect();
        let by_name = |name: &str| named.iter().find(|(n, ..)| *n == name).map(|(_, _, t)| *t);
        let required = function.params.iter().filter(|(_, default)| default.is_none());
        let names: Vec<&str> = required.map(|(name, _)| &**name).collect();
        let found: Vec<_> = names.iter().filter_map(|n| by_name(n)).collect();
        if found.len() == names.len() {
            return Ok(found.into_iter().map(tensor).collect());
        }
        if found.is_empty() && names.len() == of_params.len() {
            return Ok(of_params.into_iter().map(tensor).collect());
        }
        let known: Vec<&str> = named.iter().map(|(n, ..)| n.as_str()).collect();
        let unknown = names.iter().find(|n| by_name(n).is_none()).copied().unwrap_or_default();
        let message = format!("the program has no tensor `{unknown}` for this parameter of `{}`", function.name);
        let d = Diagnostic::error_at("schedule", function.span, message);
        Err(match nearest(unknown, known.iter().copied()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!(
                "its tensors are `{}`; if the function defines its program, pass `--args`",
                known.join("`, `")
            )),
        })
    }
}

/// Where a function has the tensors with these buffers: at a parameter, or in a block.
pub(super) fn places(func: &Func, buffers: &[BufferId]) -> Vec<Place> {
    let (stages, of) = of_func(func);
    let place =
        |b: &BufferId| of.iter().find(|(other, _)| other == b).map(|(_, s)| stages.stage(*s).definition.clone());
    buffers.iter().map(|b| place(b).unwrap_or(Place::Unplaced)).collect()
}
