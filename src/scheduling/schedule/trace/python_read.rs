//! Reads traces from Python text without a program: sequences of calls, as all printers of traces write them.
//!
//! The number of results follows from the assigned names. A text that needs a program, such as one that iterates over
//! the loops of a block, is a schedule function and not read here.

use super::fit::fit;
use super::read_expr::{self, RvNames};
use super::{Instruction, Trace};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span, nearest};
use crate::schedule::arg::{Arg, Decision, Rv};
use crate::schedule::bind::{self, Source as From, mismatch};
use crate::schedule::kind::{Kind, Outputs, default_arg};
use crate::schedule::primitive;
use crate::script::python::{self, Call, Expr, ExprKind, Stmt, StmtKind};
use hashbrown::HashMap;

type Result<T> = std::result::Result<T, Diagnostic>;

impl Trace {
    /// Reads a trace from its Python text, in either dialect: the last function of the text, or its statements.
    /// `file_name` is only shown in messages.
    ///
    /// # Errors
    ///
    /// If the text is not Python, or the first statement that is not an instruction.
    pub fn from_python(text: &str, file_name: &str) -> std::result::Result<Trace, Diagnostics> {
        let all = |items| Diagnostics::new(Source { name: file_name, text }, items);
        let stmts = python::parse_module(text).map_err(all)?;
        read(&stmts).map_err(|d| all(vec![d]))
    }
}

fn read(stmts: &[Stmt<'_>]) -> Result<Trace> {
    let mut reader = Reader { names: HashMap::new(), n_rvs: 0, schedule: "sch", trace: Trace::default() };
    let mut functions = stmts.iter().filter_map(|s| match &s.kind {
        StmtKind::Function(f) => Some(f),
        _ => None,
    });
    let body = match functions.next_back() {
        Some(f) => {
            reader.schedule = f.params.first().map_or("", |p| p.name.name);
            &f.body[..]
        }
        None => stmts,
    };
    body.iter().try_for_each(|s| reader.stmt(s))?;
    Ok(reader.trace)
}

struct Reader<'a> {
    names: HashMap<&'a str, Rv>,
    n_rvs: u32,
    schedule: &'a str,
    trace: Trace,
}

impl RvNames for Reader<'_> {
    fn rv(&self, name: &str) -> Option<Rv> {
        self.names.get(name).copied()
    }

    fn all(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.names.keys().copied().collect();
        all.sort_unstable();
        all
    }
}

fn no_trace(span: Span) -> Diagnostic {
    Diagnostic::error_at("no-trace", span, "a trace is a list of instructions, such as `b0 = sch.get_block(…)`")
        .help("apply the text to a program as a schedule function")
}

impl<'a> Reader<'a> {
    fn stmt(&mut self, s: &Stmt<'a>) -> Result<()> {
        match &s.kind {
            StmtKind::Assign(targets, value) => match (&targets[..], &value.kind) {
                ([target], ExprKind::Call(call)) => self.instruction(call, Some(target), s.span),
                _ => Err(no_trace(s.span)),
            },
            StmtKind::Expr(e) => match &e.kind {
                ExprKind::Call(call) => self.instruction(call, None, s.span),
                ExprKind::Str(_) => Ok(()),
                _ => Err(no_trace(s.span)),
            },
            StmtKind::Return(_) | StmtKind::Pass | StmtKind::Import(_) | StmtKind::ImportFrom(..) => Ok(()),
            _ => Err(no_trace(s.span)),
        }
    }

    fn instruction(&mut self, call: &Call<'a>, target: Option<&Expr<'a>>, span: Span) -> Result<()> {
        let method = match &call.callee.kind {
            ExprKind::Attribute(of, method) if matches!(of.kind, ExprKind::Name(n) if n == self.schedule) => method,
            _ => return Err(no_trace(call.callee.span)),
        };
        let kind = primitive::by_method(method.name).ok_or_else(|| {
            let near = nearest(method.name, primitive::ALL.iter().map(|k| k.method));
            Diagnostic::error_at("unknown-method", method.span, format!("the schedule has no method `{}`", method.name))
                .maybe_help(near.map(|n| format!("did you mean `{n}`?")))
        })?;
        let (args, decision) = self.args(kind, call, method.span)?;
        let outputs = self.outputs(kind, target, span)?;
        self.trace.insts.push(Instruction { kind, args, outputs, decision });
        Ok(())
    }

    fn args(&self, kind: &'static Kind, call: &Call<'a>, method: Span) -> Result<(Vec<Arg>, Option<Decision>)> {
        let mut keywords = Vec::with_capacity(call.keywords.len());
        for (name, value) in &call.keywords {
            keywords.push(name.ok_or_else(|| no_trace(value.span))?);
        }
        let names: Vec<&str> = keywords.iter().map(|k| k.name).collect();
        let bound = bind::bind_args(kind, call.args.len(), &names).map_err(|e| {
            let spans: Vec<Span> = keywords.iter().map(|k| k.span).collect();
            mismatch(kind, e, method, call.args_span, None, &spans)
        })?;
        let given = |from: From| match from {
            From::Positional(i) => Some(&call.args[i]),
            From::Keyword(i) => Some(&call.keywords[i].1),
            From::Rest(_) | From::Default => None,
        };
        let mut args = Vec::with_capacity(kind.params.len());
        for (param, from) in kind.params.iter().zip(&bound.params) {
            let (arg, span) = match (*from, given(*from)) {
                (_, Some(e)) => (read_expr::arg(e, self)?, e.span),
                (From::Rest(first), _) => {
                    let loops = call.args[first..].iter().map(|e| read_expr::arg(e, self));
                    (Arg::List(loops.collect::<Result<_>>()?), call.args_span)
                }
                _ => {
                    args.push(default_arg(param).unwrap_or(Arg::None));
                    continue;
                }
            };
            args.push(
                fit(param, arg).map_err(|what| {
                    Diagnostic::error_at("type", span, format!("expected {what} for `{}`", param.name))
                })?,
            );
        }
        let decision = match given(bound.decision) {
            Some(e) => self.decision(e)?,
            None => None,
        };
        Ok((args, decision))
    }

    fn decision(&self, e: &Expr<'a>) -> Result<Option<Decision>> {
        let wrong = || Diagnostic::error_at("type", e.span, "expected an integer or a list of them as the decision");
        match read_expr::arg(e, self)? {
            Arg::None => Ok(None),
            Arg::Int(v) => Ok(Some(Decision::Int(v))),
            Arg::List(items) => {
                let sizes = items.iter().map(|i| if let Arg::Int(v) = i { Some(*v) } else { None });
                sizes.collect::<Option<Vec<i64>>>().map(|sizes| Some(Decision::Ints(sizes))).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    fn outputs(&mut self, kind: &Kind, target: Option<&Expr<'a>>, span: Span) -> Result<Vec<Rv>> {
        let mut outputs = Vec::new();
        match (target.map(|t| (t, &t.kind)), kind.outputs.is_list()) {
            // Results without names: TVM prints an empty list in this way.
            (None, true) | (None, false) if matches!(kind.outputs, Outputs::None) || kind.outputs.is_list() => {}
            (None, _) => {
                self.n_rvs += 1;
                outputs.push(Rv(self.n_rvs - 1));
            }
            (Some((_, ExprKind::Name(name))), false) if kind.outputs != Outputs::None => {
                outputs.push(self.define(name));
            }
            (Some((_, ExprKind::Tuple(items) | ExprKind::List(items))), true) => {
                for item in items {
                    let ExprKind::Name(name) = item.kind else { return Err(no_trace(item.span)) };
                    outputs.push(self.define(name));
                }
            }
            (Some((t, _)), true) => {
                let message = "without a program, only named results can be counted";
                return Err(Diagnostic::error_at("no-trace", t.span, message)
                    .help("write `l0, l1 = …`, or apply the text to a program as a schedule function"));
            }
            (Some((t, _)), false) => {
                let what = if kind.outputs == Outputs::None { "gives no result" } else { "gives one result" };
                let d = Diagnostic::error_at("unpack", t.span, format!("`{}` {what}", kind.method));
                return Err(d.label(span, ""));
            }
        }
        Ok(outputs)
    }

    fn define(&mut self, name: &'a str) -> Rv {
        let rv = Rv(self.n_rvs);
        self.n_rvs += 1;
        self.names.insert(name, rv);
        rv
    }
}
