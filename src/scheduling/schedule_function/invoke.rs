//! Calls of the schedule's methods.

use super::FunctionError;
use super::code::{Expr, Method, Special};
use super::library::{MAX_INSTRUCTIONS, Result, Run, refused};
use super::value::{Own, Value, to_arg};
use crate::diagnostic::{Diagnostic, Span, listed, nearest};
use crate::interpreter::type_error;
use crate::ir::Symbol;
use crate::schedule::arg::{Arg, Decision, Rv, RvValue};
use crate::schedule::bind::{self, Mismatch, Source, mismatch};
use crate::schedule::call::Access;
use crate::schedule::kind::{Kind, Param, Ty, default_arg};
use crate::schedule::primitive::get_block::GET_BLOCK;

impl<'a> Run<'a, '_> {
    /// `sch.method(…)`
    pub(super) fn method(&mut self, m: &'a Method) -> Result<Value> {
        if !matches!(self.eval(&m.receiver)?, Value::Own(Own::Schedule)) {
            let message = format!("expected the schedule before `.{}`", m.kind.method);
            return Err(type_error(m.receiver.span, message));
        }
        let (positional, spans) = self.spread(&m.args)?;
        let mut keywords = Vec::with_capacity(m.keywords.len());
        for (_, _, value) in &m.keywords {
            keywords.push(self.eval(value)?);
        }
        let open;
        let bound = match &m.bound {
            Some(bound) => bound,
            None => {
                let names: Vec<&str> = m.keywords.iter().map(|k| &*k.0).collect();
                open = bind::bind_args(m.kind, positional.len(), &names).map_err(|e| {
                    let keyword_spans: Vec<Span> = m.keywords.iter().map(|k| k.1).collect();
                    let extra = match &e {
                        Mismatch::TooMany { at_most } => spans.get(*at_most).copied(),
                        _ => None,
                    };
                    FunctionError::from(mismatch(m.kind, e, m.name, m.args_span, extra, &keyword_spans))
                })?;
                &open
            }
        };
        let keyword_span = |i: usize| m.keywords[i].2.span;
        let mut args: Vec<Arg> = Vec::with_capacity(m.kind.params.len());
        for (param, source) in m.kind.params.iter().zip(&bound.params) {
            let arg = match *source {
                Source::Positional(i) => self.argument(m.kind, param, &positional[i], spans[i], &args)?,
                Source::Keyword(i) => self.argument(m.kind, param, &keywords[i], keyword_span(i), &args)?,
                Source::Rest(from) => Arg::List(self.loops(m.kind, param, &positional[from..], &spans[from..])?),
                Source::Default => default_arg(param).unwrap_or(Arg::None),
            };
            args.push(arg);
        }
        let decision = match bound.decision {
            Source::Positional(i) => self.decision(&positional[i], spans[i])?,
            Source::Keyword(i) => self.decision(&keywords[i], keyword_span(i))?,
            Source::Rest(_) | Source::Default => None,
        };
        self.name_function(m.kind, &mut args);
        let outputs = self.execute(m.kind, args, decision, m.name)?;
        Ok(match outputs[..] {
            _ if m.kind.outputs.is_list() => Value::list_of(outputs.iter().map(|&rv| Own::Rv(rv))),
            [one] => Value::Own(Own::Rv(one)),
            _ => Value::None,
        })
    }

    fn execute(
        &mut self,
        kind: &'static Kind,
        args: Vec<Arg>,
        decision: Option<Decision>,
        span: Span,
    ) -> Result<Vec<Rv>> {
        self.library.instructions = self.library.instructions.checked_sub(1).ok_or_else(|| {
            let message = format!("gave up after {MAX_INSTRUCTIONS} instructions");
            FunctionError::from(Diagnostic::error_at("limit", span, message))
        })?;
        let recorded = match &mut self.library.decisions {
            Some(decisions) if kind.samples && decision.is_none() => decisions,
            _ => return self.library.schedule.execute(kind, args, decision).map_err(|e| refused(span, e)),
        };
        let decision = recorded.take(span)?;
        let outputs = self
            .library
            .schedule
            .execute(kind, args, Some(decision))
            .map_err(|e| recorded.blame(refused(span, e), span))?;
        let used = self.library.schedule.trace().insts.last().and_then(|inst| inst.decision.as_ref());
        recorded.check_used(used, span)?;
        Ok(outputs)
    }

    /// Converts a value to the argument of a parameter.
    fn argument(&mut self, kind: &Kind, param: &Param, value: &Value, span: Span, before: &[Arg]) -> Result<Arg> {
        let fail = |run: &Self, expected: &str| {
            let found = value.describe(&run.library);
            let message = format!("expected {expected} for `{}`, found {found}", param.name);
            Diagnostic::error_at("type", span, message)
        };
        // `None` may be written for a parameter that is `None` by default.
        if matches!(value, Value::None) && default_arg(param) == Some(Arg::None) {
            return Ok(Arg::None);
        }
        let is_block = |run: &Self, v: &Value| matches!(v, Value::Own(Own::Rv(rv)) if matches!(run.library.schedule.value(*rv), Ok(RvValue::Block(..))));
        let is_loop = |run: &Self, v: &Value| {
            let value = if let Value::Own(Own::Rv(rv)) = v { run.library.schedule.value(*rv).ok() } else { None };
            matches!(value, Some(RvValue::Loop(..) | RvValue::AtRoot | RvValue::Inlined))
        };
        let plain = |v: &Value| to_arg(v).unwrap_or(Arg::None);
        match param.ty {
            Ty::Block | Ty::BlockOrLoop | Ty::Target if matches!(value, Value::Str(_)) => {
                self.block_called(value, span)
            }
            Ty::Block if is_block(self, value) => Ok(plain(value)),
            Ty::Block => Err(fail(self, "a block").into()),
            Ty::Loop if is_loop(self, value) => Ok(plain(value)),
            Ty::Loop => {
                let d = fail(self, "a loop");
                let is_list = matches!(value, Value::Sequence(_));
                Err(if is_list { d.help("take one of them, such as `loops[0]`") } else { d }.into())
            }
            Ty::BlockOrLoop if is_block(self, value) || is_loop(self, value) => Ok(plain(value)),
            Ty::BlockOrLoop => Err(fail(self, "a block or loop").into()),
            Ty::Loops => Ok(Arg::List(self.loops(kind, param, std::slice::from_ref(value), &[span])?)),
            Ty::Target if is_block(self, value) || is_loop(self, value) => Ok(plain(value)),
            Ty::Blocks | Ty::Target => {
                let expected = if param.ty == Ty::Blocks { "a list of blocks" } else { "a loop or a list of blocks" };
                match value {
                    Value::None if param.ty == Ty::Blocks => Ok(Arg::List(Vec::new())),
                    Value::Sequence(s) => {
                        let mut blocks = Vec::with_capacity(s.items.len());
                        for item in &s.items {
                            blocks.push(match item {
                                Value::Str(_) => self.block_called(item, span)?,
                                item if is_block(self, item) => plain(item),
                                item => {
                                    let found = item.describe(&self.library);
                                    let message =
                                        format!("expected {expected} for `{}`, found {found} among them", param.name);
                                    return Err(type_error(span, message));
                                }
                            });
                        }
                        Ok(Arg::List(blocks))
                    }
                    _ => Err(fail(self, expected).into()),
                }
            }
            Ty::Factors => self
                .sequence(value, span, |run, v| matches!(v, Value::None) || is_number(run, v))
                .ok_or_else(|| fail(self, "a list of integers and `None`").into()),
            Ty::Ints => self.sequence(value, span, is_number).ok_or_else(|| fail(self, "a list of integers").into()),
            Ty::Floats => self
                .sequence(value, span, |run, v| v.number(&run.library).is_some())
                .ok_or_else(|| fail(self, "a list of numbers").into()),
            Ty::Int | Ty::BufferIndex if is_number(self, value) => Ok(match value {
                Value::Bool(v) => Arg::Int(*v as i64),
                v => plain(v),
            }),
            // A buffer may be given by its name instead of its position.
            Ty::BufferIndex | Ty::Buffer if matches!(value, Value::Str(_)) => {
                Ok(self.buffer_called(param, value, before))
            }
            Ty::Int => Err(fail(self, "an integer").into()),
            Ty::BufferIndex => Err(fail(self, "the position or name of a buffer").into()),
            Ty::Bool => match value {
                Value::Bool(v) => Ok(Arg::Bool(*v)),
                Value::Int(v @ (0 | 1)) => Ok(Arg::Bool(*v == 1)),
                _ => Err(fail(self, "`True` or `False`").into()),
            },
            Ty::Str => match value {
                Value::Str(_) => Ok(plain(value)),
                _ => Err(fail(self, "a text").into()),
            },
            Ty::Buffer => match value {
                Value::Sequence(s) => match &s.items[..] {
                    [Value::Str(access), index]
                        if is_number(self, index) && Access::parse(Symbol::new(access)).is_some() =>
                    {
                        Ok(plain(value))
                    }
                    _ => Err(fail(self, "`(\"read\", index)`, `(\"write\", index)` or a buffer's name").into()),
                },
                v if is_number(self, v) => Ok(plain(v)),
                _ => Err(fail(self, "`(\"read\", index)`, `(\"write\", index)` or a buffer's name").into()),
            },
            Ty::IndexMap => match value {
                Value::Own(Own::Lambda(_)) => Ok(plain(value)),
                _ => Err(fail(self, "an index map such as `lambda i, j: (j, i)`").into()),
            },
            Ty::Ranges => match value {
                Value::Own(Own::Lambda(_)) => Ok(plain(value)),
                _ => Err(fail(self, "a function such as `lambda i, j: ((i - 1, i + 1), j)`").into()),
            },
            Ty::PadValue => match value {
                Value::Own(Own::Lambda(_))
                | Value::Int(_)
                | Value::Float(_)
                | Value::Bool(_)
                | Value::Own(Own::Typed(..)) => Ok(plain(value)),
                _ => Err(fail(self, "a number or a function of indices").into()),
            },
            Ty::Value => match to_arg(value) {
                Some(arg) if !is_block(self, value) && !is_loop(self, value) => Ok(arg),
                _ => Err(fail(self, "a number, text, list or dictionary").into()),
            },
        }
    }

    /// A list or tuple all of whose items pass `test`.
    fn sequence(&mut self, value: &Value, span: Span, test: impl Fn(&Self, &Value) -> bool) -> Option<Arg> {
        let items = match value {
            Value::Sequence(_) | Value::Range(..) => self.iterate(value.clone(), span).ok()?,
            _ => return None,
        };
        items.iter().all(|v| test(self, v)).then(|| Arg::List(items.iter().filter_map(to_arg).collect()))
    }

    fn loops(&mut self, kind: &Kind, param: &Param, values: &[Value], spans: &[Span]) -> Result<Vec<Arg>> {
        let mut loops = Vec::with_capacity(values.len());
        for (value, &span) in values.iter().zip(spans) {
            match value {
                Value::Own(Own::Rv(rv))
                    if matches!(
                        self.library.schedule.value(*rv),
                        Ok(RvValue::Loop(..) | RvValue::AtRoot | RvValue::Inlined)
                    ) =>
                {
                    loops.push(Arg::Rv(*rv));
                }
                other => {
                    let found = other.describe(&self.library);
                    let message = format!("expected loops for `{}`, found {found}", param.name);
                    let d = Diagnostic::error_at("type", span, message);
                    let is_list = matches!(other, Value::Sequence(_));
                    let help = || format!("spread it with a star: `sch.{}(*…)`", kind.method);
                    return Err(d.maybe_help(is_list.then(help)).into());
                }
            }
        }
        Ok(loops)
    }

    /// Looks up the block of that name by an instruction of its own, as TVM does.
    fn block_called(&mut self, name: &Value, span: Span) -> Result<Arg> {
        let mut args = vec![to_arg(name).unwrap_or(Arg::None), Arg::None];
        self.name_function(&GET_BLOCK, &mut args);
        let outputs = self.execute(&GET_BLOCK, args, None, span)?;
        Ok(outputs.first().map_or(Arg::None, |&rv| Arg::Rv(rv)))
    }

    /// Adds the function to a look-up of a block that does not name one, so that the trace names it.
    fn name_function(&self, kind: &Kind, args: &mut [Arg]) {
        if kind.name != GET_BLOCK.name {
            return;
        }
        if let Some(func @ Arg::None) = args.get_mut(1)
            && let Some(index) = self.library.schedule.implied_func()
        {
            *func = Arg::Str(self.library.schedule.func(index).name);
        }
    }

    /// The position of the buffer of that name among those that the block accesses. Without such a buffer, or with several,
    /// the name itself is passed on, and the primitive reports the mistake.
    fn buffer_called(&self, param: &Param, value: &Value, before: &[Arg]) -> Arg {
        let unresolved = to_arg(value).unwrap_or(Arg::None);
        let Arg::Str(name) = unresolved else { return unresolved };
        let block = before.iter().find_map(|a| match a {
            Arg::Rv(rv) => match self.library.schedule.value(*rv) {
                Ok(RvValue::Block(f, b)) if self.library.schedule.func(f).is_alive(b.stmt()) => Some((f, b)),
                _ => None,
            },
            _ => None,
        });
        let Some((f, b)) = block else { return unresolved };
        let func = self.library.schedule.func(f);
        let block = func.block(b);
        let find = |access: Access| {
            let mut found = access.regions(block).iter().enumerate();
            let mut found = found.by_ref().filter(|(_, r)| func.arena.buffer(r.buffer).name == name);
            let first = found.next()?.0 as i64;
            found.next().is_none().then_some(first)
        };
        let index = match param.ty {
            // A buffer that is both read and written is the written one, as in TVM.
            Ty::Buffer => {
                let pair = |access: &str, i: i64| Arg::List(vec![access.into(), Arg::Int(i)]);
                let written = find(Access::Write).map(|i| pair("write", i));
                written.or_else(|| find(Access::Read).map(|i| pair("read", i)))
            }
            _ if param.name.starts_with("read") => find(Access::Read).map(Arg::Int),
            _ => find(Access::Write).map(Arg::Int),
        };
        index.unwrap_or(unresolved)
    }

    fn decision(&mut self, value: &Value, span: Span) -> Result<Option<Decision>> {
        match value {
            Value::None => Ok(None),
            Value::Sequence(_) | Value::Range(..) => {
                let items = self.iterate(value.clone(), span)?;
                let sizes: Option<Vec<i64>> = items.iter().map(|v| v.int(&self.library)).collect();
                match sizes {
                    Some(sizes) => Ok(Some(Decision::Ints(sizes))),
                    None => Err(type_error(span, "expected integers as the decision")),
                }
            }
            other => match other.int(&self.library) {
                Some(v) => Ok(Some(Decision::Int(v))),
                None => {
                    let found = other.describe(&self.library);
                    Err(type_error(
                        span,
                        format!("expected an integer or a list of them as the decision, found {found}"),
                    ))
                }
            },
        }
    }

    /// `sch.get(rv)` and `sch.work_on(name)`
    pub(super) fn special(&mut self, which: Special, parts: &'a [Expr; 2], span: Span) -> Result<Value> {
        let [receiver, arg] = parts;
        if !matches!(self.eval(receiver)?, Value::Own(Own::Schedule)) {
            return Err(type_error(receiver.span, "expected the schedule before the method"));
        }
        let value = self.eval(arg)?;
        match (which, &value) {
            (Special::Get, Value::Own(Own::Rv(rv))) => match self.library.schedule.value(*rv) {
                Ok(RvValue::Int(v)) => Ok(Value::Int(v)),
                Ok(RvValue::Block(f, b)) if self.library.schedule.func(f).is_alive(b.stmt()) => {
                    Ok(Value::Own(Own::View(*rv)))
                }
                Ok(RvValue::Loop(f, l)) if self.library.schedule.func(f).is_alive(l.stmt()) => {
                    Ok(Value::Own(Own::View(*rv)))
                }
                _ => Err(type_error(arg.span, "the loop or block no longer exists, or is at no place")),
            },
            (Special::Get, v) if v.int(&self.library).is_some() => {
                Ok(Value::Int(v.int(&self.library).unwrap_or_default()))
            }
            (Special::WorkOn, Value::Str(name)) => {
                let n = self.library.schedule.n_funcs();
                match (0..n).find(|&i| self.library.schedule.func(i).name == **name) {
                    Some(i) => {
                        self.library.schedule.work_on(i);
                        Ok(Value::None)
                    }
                    None => {
                        let known: Vec<&str> = (0..n).map(|i| self.library.schedule.func(i).name.as_str()).collect();
                        let d = Diagnostic::error_at(
                            "unknown-function",
                            arg.span,
                            format!("the module has no function `{name}`"),
                        );
                        let near = nearest(name, known.iter().copied()).map(|n| format!("did you mean `{n}`?"));
                        Err(d.help(format!("its functions are {}", listed(known))).maybe_help(near).into())
                    }
                }
            }
            (Special::Get, v) => {
                let found = v.describe(&self.library);
                Err(type_error(span, format!("expected a block, loop or sampled number, found {found}")))
            }
            (Special::WorkOn, v) => {
                let found = v.describe(&self.library);
                Err(type_error(arg.span, format!("expected the name of a function, found {found}")))
            }
        }
    }
}

fn is_number(run: &Run<'_, '_>, value: &Value) -> bool {
    value.int(&run.library).is_some()
}
