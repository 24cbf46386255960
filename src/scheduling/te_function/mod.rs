//! Workloads as tensor expressions: functions in Python that define tensors, as users of AutoTVM and the auto-scheduler wrote them.
//!
//! ```text
//! @auto_scheduler.register_workload
//! def matmul_add(N, L, M, dtype):
//!     A = te.placeholder((N, L), name="A", dtype=dtype)
//!     B = te.placeholder((L, M), name="B", dtype=dtype)
//!     C = te.placeholder((N, M), name="C", dtype=dtype)
//!     k = te.reduce_axis((0, L), name="k")
//!     matmul = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")
//!     out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
//!     return [A, B, C, out]
//! ```
//!
//! [`interpreter`](crate::interpreter) reads Python. Here is what these texts have beside it: tensors, axes, scalar expressions, and
//! the functions of `te`, `tvm.tir` and `topi`. The function is called with arguments that a user gives; the tensors that it returns
//! are the parameters of a prim_func, which is the one that TVM's `te.create_prim_func` makes of them.
//!
//! # Files
//! | file | content |
//! | --- | --- |
//! | [`function`], [`vocabulary`] | what names of modules mean; calls, compiled |
//! | [`workload_args`] | arguments of the workload, from a command line |
//! | [`arguments`] | arguments of functions, bound to parameters |
//! | `define` | placeholders, axes, computations, reductions |
//! | [`scalar`], [`expr`] | scalar functions, conversions of types |
//! | [`topi`] | functions that define tensors by others |
//! | [`scheduling`], [`stage_methods`] | schedules: `s[C].split(…)`, recorded in a [`te_schedule`](crate::te_schedule) |
//! | [`knob`] | templates of AutoTVM: `cfg.define_split(…)` |
//! | [`apply`] | schedules and templates, carried out on a program |
//! | [`library`], [`value`] | operators, attributes and methods; values |
//! | [`limits`] | how large expressions may become |
//!
//! The text is untrusted, so the number of tensors and the size of expressions are limited, too.

mod apply;
mod arguments;
mod define;
mod expr;
mod function;
mod knob;
mod library;
mod limits;
#[cfg(test)]
mod printed_tests;
mod scalar;
#[cfg(test)]
mod schedule_tests;
mod scheduling;
mod stage_methods;
#[cfg(test)]
mod tests;
mod topi;
mod value;
mod vocabulary;
mod workload_args;

pub use apply::TeSchedule;
pub use knob::{Literal, Preset};

use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span, listed, nearest};
use crate::interpreter::call::Arguments;
use crate::interpreter::code::Function;
use crate::interpreter::compile::{Program, Text};
use crate::ir::visit::{for_each_own_expr, vars_of};
use crate::ir::{AttrValue, Func, Symbol, VarId};
use crate::script::python::{self, ExprKind, Stmt, StmtKind};
use crate::te::{Parameter, Tensor};
use crate::te_schedule::Definition as Place;
use library::{Result as RunResult, Run, Tensors};
use value::{Own, Value};
use vocabulary::Code;

/// What a text with tensor expressions is asked for.
#[derive(Clone, Copy, Default, Debug)]
pub struct WorkloadChoice<'a> {
    /// The function; without a name, the only one that is a workload.
    pub func: Option<&'a str>,
    /// Its arguments, separated by commas: `1024,1024,float32`.
    pub args: Option<&'a str>,
}

/// The program of a workload.
pub struct Definition {
    /// The prim_func, called as the function of the text.
    pub func: Func,
    /// Suspicious constructs of the text.
    pub warnings: Vec<Diagnostic>,
    /// Whether the function returned a schedule as well.
    pub is_scheduled: bool,
    /// Whether the function is a template: a schedule with knobs.
    pub is_template: bool,
}

/// Whether a text defines workloads by tensor expressions, instead of being TVMScript.
pub fn is_te_text(text: &str) -> bool {
    // Most texts are none, which shows without parsing them.
    if !mentions(text, &["te", "topi", "autotvm", "auto_scheduler"]) || !text.contains("def ") {
        return false;
    }
    let Ok(stmts) = python::parse_module(text) else { return false };
    let is_script =
        |decorators: &[python::Expr<'_>]| decorators.iter().any(|d| is_script_decorator(&text[d.span.range()]));
    let mut any = false;
    for stmt in &stmts {
        match &stmt.kind {
            StmtKind::Function(f) if is_script(&f.decorators) => return false,
            StmtKind::Class(c) if is_script(&c.decorators) => return false,
            StmtKind::Function(_) => any = true,
            _ => {}
        }
    }
    any
}

/// Whether a decorator is TVMScript's: `T.prim_func`, `I.ir_module(…)`, `R.function`.
fn is_script_decorator(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or(text).trim();
    matches!(name.rsplit('.').next(), Some("prim_func" | "ir_module" | "function"))
}

/// Whether one of the words stands in a text.
fn mentions(text: &str, words: &[&str]) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| words.contains(&word))
}

/// Reads a text, and runs the function that is asked for.
///
/// # Errors
/// The text has mistakes, the function is not found or chosen, its arguments do not fit, or it makes a mistake.
pub fn define(text: &str, file_name: &str, wanted: WorkloadChoice<'_>) -> Result<Definition, Diagnostics> {
    let source = Source { name: file_name, text };
    read(text, wanted).map_err(|items| Diagnostics::new(source, items))
}

/// The function of a text that tuners knew as a task: the one of this name, or the one that a decorator registers under it, such as
/// `@autotvm.template("tutorial/matmul")`.
pub fn function_of_task(text: &str, task: &str) -> Option<String> {
    let stmts = python::parse_module(text).ok()?;
    let parts = Text::of(&stmts);
    let quoted = [format!("\"{task}\""), format!("'{task}'")];
    let registers = |d: &python::Expr<'_>| quoted.iter().any(|q| text[d.span.range()].contains(q.as_str()));
    let is_it = |f: &&&python::Function<'_>| f.name.name == task || f.decorators.iter().any(registers);
    parts.definitions.iter().rev().find(is_it).map(|f| f.name.name.to_owned())
}

/// The code of a text, and the position of the function that is asked for.
fn compiled(text: &str, wanted: Option<&str>) -> Result<(Program<Code>, usize), Vec<Diagnostic>> {
    let stmts = python::parse_module(text)?;
    let mut parts = Text::of(&stmts);
    let main = chosen(text, &parts, wanted)?;
    let main = keep_called(text, &mut parts, main);
    let mut errors = Vec::new();
    let module = needed(text, &parts);
    let program: Program<Code> = parts.compile(&module, &mut errors);
    if errors.is_empty() { Ok((program, main)) } else { Err(errors) }
}

fn read(text: &str, wanted: WorkloadChoice<'_>) -> Result<Definition, Vec<Diagnostic>> {
    let (program, main) = compiled(text, wanted.func)?;
    let function = &program.functions[main];
    let values = workload_args::values(function, wanted.args)?;
    let description = workload_args::describe(function, &values);
    let (definition, _) = run(&program, main, values).map_err(|mut diagnostic| {
        diagnostic.notes.extend(description);
        vec![diagnostic]
    })?;
    Ok(definition)
}

/// The function that is asked for: its position among those of the text.
fn chosen(text: &str, parts: &Text<'_>, wanted: Option<&str>) -> Result<usize, Vec<Diagnostic>> {
    let all = &parts.definitions;
    if let Some(name) = wanted {
        return all.iter().rposition(|f| f.name.name == name).ok_or_else(|| {
            let names = all.iter().map(|f| f.name.name);
            let d = Diagnostic::error("unknown-function", format!("the text defines no function `{name}`"));
            let known: Vec<&str> = names.clone().collect();
            let help = match nearest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its functions are {}", listed(known)),
            };
            vec![d.help(help)]
        });
    }
    // Decorated functions are workloads. Without any, those that no other one calls are.
    let is_decorated = |f: &python::Function<'_>| !f.decorators.is_empty();
    let candidates: Vec<usize> = match all.iter().any(|f| is_decorated(f)) {
        true => (0..all.len()).filter(|&i| is_decorated(all[i])).collect(),
        false => {
            let bodies: Vec<Span> =
                all.iter().filter_map(|f| Some(f.body.first()?.span.to(f.body.last()?.span))).collect();
            let is_called = |i: usize| {
                (bodies.iter().enumerate())
                    .any(|(j, span)| i != j && mentions(&text[span.range()], &[all[i].name.name]))
            };
            (0..all.len()).filter(|&i| !is_called(i)).collect()
        }
    };
    match candidates[..] {
        [one] => Ok(one),
        [] => Err(vec![
            Diagnostic::error("no-function", "the text defines no workload")
                .help("define a function that returns its tensors: `return [A, B, C]`"),
        ]),
        _ => {
            let names: Vec<&str> = candidates.iter().map(|&i| all[i].name.name).collect();
            let message = format!("the text defines {} workloads: `{}`", names.len(), names.join("`, `"));
            let help = format!("choose one, such as `--func {}`", names[0]);
            Err(vec![Diagnostic::error("several-functions", message).help(help)])
        }
    }
}

/// Keeps the functions that one calls, directly or not: others may be Python that is none of a definition's. Gives its position
/// among those that stay.
fn keep_called(text: &str, parts: &mut Text<'_>, main: usize) -> usize {
    let all = &parts.definitions;
    let mut called = vec![false; all.len()];
    let mut open = vec![main];
    while let Some(i) = open.pop() {
        if std::mem::replace(&mut called[i], true) {
            continue;
        }
        let Some(span) = all[i].body.first().zip(all[i].body.last()).map(|(a, b)| a.span.to(b.span)) else { continue };
        open.extend((0..all.len()).filter(|&j| !called[j] && mentions(&text[span.range()], &[all[j].name.name])));
    }
    let position = called[..main].iter().filter(|c| **c).count();
    let mut called = called.into_iter();
    parts.definitions.retain(|_| called.next().unwrap_or(false));
    position
}

/// The assignments outside of functions that functions need. Others, such as those that start a search, are Python's alone.
fn needed<'a>(text: &str, parts: &Text<'a>) -> Vec<Stmt<'a>> {
    let mut used: Vec<Span> = Vec::new();
    for f in &parts.definitions {
        let params = f.params.iter().filter_map(|p| p.default.as_ref()).map(|d| d.span);
        used.extend(f.body.iter().map(|s| s.span).chain(params));
    }
    let mut kept: Vec<Stmt<'a>> = Vec::new();
    for stmt in parts.rest.iter().rev() {
        let mut names = Vec::new();
        match &stmt.kind {
            StmtKind::Assign(targets, _) => targets.iter().for_each(|t| target_names(t, &mut names)),
            StmtKind::AnnAssign(target, ..) => target_names(target, &mut names),
            _ => {}
        }
        if used.iter().any(|span| mentions(&text[span.range()], &names)) {
            used.push(stmt.span);
            kept.push(stmt.clone());
        }
    }
    kept.reverse();
    kept
}

fn target_names<'a>(target: &python::Expr<'a>, names: &mut Vec<&'a str>) {
    match &target.kind {
        ExprKind::Name(name) => names.push(name),
        ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().for_each(|t| target_names(t, names)),
        _ => {}
    }
}

/// Runs a function, and hands its result to `then`. Also returns the library, whatever happened.
fn called<T>(
    program: &Program<Code>,
    main: usize,
    values: Vec<Value>,
    library: Tensors,
    then: impl FnOnce(&mut Run<'_>, &Value) -> RunResult<T>,
) -> (RunResult<T>, Tensors) {
    let mut run = Run::new(library, &program.functions, &program.module);
    let function = &program.functions[main];
    let result = (|| {
        run.body()?;
        run.globals = std::mem::take(&mut run.locals);
        let args = Arguments::positional(values, function.span);
        let result = run.call_function(main, &[], args, function.span)?;
        then(&mut run, &result)
    })();
    let result = result.map_err(|mut failure| {
        // The call of the function itself is no place of the text.
        let is_call = |l: &crate::diagnostic::Label| l.span == function.span && l.text == "called from here";
        if failure.diagnostic.labels.len() > 1 {
            failure.diagnostic.labels.retain(|l| !is_call(l));
        }
        failure
    });
    (result, run.library)
}

/// Runs a function, and makes the prim_func of what it returns. Also returns where that has the tensors of the text, in the order
/// in which they are defined.
fn run(program: &Program<Code>, main: usize, values: Vec<Value>) -> Result<(Definition, Vec<Place>), Diagnostic> {
    let function = &program.functions[main];
    let (result, library) = called(program, main, values, Tensors::new(), |run, result| {
        let (schedule, tensors) = parts(result);
        Ok((schedule.is_some(), parameters(run, function, tensors)?))
    });
    let (is_scheduled, params) = result.map_err(|failure| *failure.diagnostic)?;
    let Tensors { te, layout_free, symbols, mut warnings, scheduling, .. } = library;
    let position = |t: &Tensor| params.iter().position(|p| *p == Parameter::Tensor(*t));
    let mut free: Vec<usize> = layout_free.iter().filter_map(position).collect();
    free.sort_unstable();
    free.dedup();
    if let Some(t) = layout_free.iter().find(|t| position(t).is_none()) {
        let message = format!("`{}` is no parameter, so its layout stays", te.buffer_name(*t));
        let mut d = Diagnostic::error_at("layout-free", function.span, message);
        d.severity = crate::diagnostic::Severity::Warning;
        warnings.push(d);
    }
    let buffers = te.buffers();
    let mut func = te.prim_func_of(&function.name, &params);
    func.private = false;
    if let Some(name) = without_value(&func, &symbols) {
        let message = format!("`{name}` has no value: it is no extent of a tensor that `{}` returns", function.name);
        let d = Diagnostic::error_at("unbound-symbol", function.span, message);
        return Err(d.help(format!("return it among the tensors, as a parameter: `return [A, {name}, B]`")));
    }
    if !free.is_empty() {
        let free = free.into_iter().map(|i| AttrValue::Int(i as i64)).collect();
        func.attrs.insert("layout_free_buffers", AttrValue::List(free));
    }
    let places = apply::places(&func, &buffers);
    let is_template = is_scheduled && !scheduling.knobs.is_empty();
    Ok((Definition { func, warnings, is_scheduled, is_template }, places))
}

/// The schedule and the tensors that a function returned: `return s, [A, B, C]`, or the tensors alone.
fn parts(result: &Value) -> (Option<usize>, &Value) {
    match result {
        Value::Own(Own::Schedule(s)) => (Some(*s), result),
        Value::Sequence(items) => match &items.items[..] {
            [Value::Own(Own::Schedule(s)), tensors] => (Some(*s), tensors),
            _ => (None, result),
        },
        _ => (None, result),
    }
}

/// The name of a variable that a program uses, and that its parameters do not tell.
fn without_value(func: &Func, symbols: &[VarId]) -> Option<Symbol> {
    let mut told: Vec<VarId> = Vec::new();
    for param in &func.params {
        match param.buffer {
            Some(b) => {
                let shape = func.arena.list(func.arena.buffer(b).shape);
                told.extend(shape.iter().filter_map(|&e| func.arena.as_var(e)));
            }
            None => told.push(param.var),
        }
    }
    let mut missing = None;
    for s in func.subtree(func.root.stmt()) {
        for_each_own_expr(func, s, &mut |e| {
            for var in vars_of(&func.arena, e) {
                if missing.is_none() && symbols.contains(&var) && !told.contains(&var) {
                    missing = Some(func.arena.var(var).name);
                }
            }
        });
    }
    missing
}

/// The parameters of the prim_func: the tensors that a workload returned.
fn parameters(run: &mut Run<'_>, function: &Function<Code>, result: &Value) -> RunResult<Vec<Parameter>> {
    let name = &function.name;
    let fail = |message: String, help: &str| -> RunResult<Vec<Parameter>> {
        Err(Diagnostic::error_at("return", function.span, message).help(help).into())
    };
    const HELP: &str = "return all inputs and results: `return [A, B, C]`";
    let items = match result {
        Value::Sequence(s) => &s.items,
        other => {
            let found = other.describe(&run.library);
            return fail(format!("expected `{name}` to return a list of its tensors, found {found}"), HELP);
        }
    };
    let mut params = Vec::with_capacity(items.len());
    for item in items {
        let te = &run.library.te;
        let param = match item {
            Value::Own(Own::Tensor(t)) => Parameter::Tensor(*t),
            Value::Own(Own::Expr(e)) if te.as_var(*e).is_some() => match te.as_var(*e) {
                Some(var) => Parameter::Scalar(var),
                None => continue,
            },
            other => {
                let found = other.describe(&run.library);
                return fail(format!("expected `{name}` to return tensors, found {found} among them"), HELP);
            }
        };
        if params.contains(&param) {
            return fail(format!("`{name}` returns a tensor twice"), "return each tensor once");
        }
        params.push(param);
    }
    let te = &run.library.te;
    let tensors: Vec<Tensor> = params
        .iter()
        .filter_map(|p| match p {
            Parameter::Tensor(t) => Some(*t),
            Parameter::Scalar(_) => None,
        })
        .collect();
    if !tensors.iter().any(|&t| te.is_computed(t)) {
        return fail(format!("`{name}` returns no tensor that is computed"), HELP);
    }
    if let Some(missing) = te.unlisted(&tensors) {
        let missing = te.buffer_name(missing);
        return fail(format!("`{name}` does not return the placeholder `{missing}`, which a result needs"), HELP);
    }
    Ok(params)
}
