//! Python's built-in functions that texts may use.

use super::Library;
use super::eval::index_error;
use super::failure::type_error;
use super::operators::undefined;
use super::run::{Result, Run, ValueOf};
use super::value::{Value, range_len};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::BinOp;
use crate::script::python::BinaryOp;
use std::cmp::Ordering;

/// A built-in function of Python.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Builtin {
    Len,
    Range,
    Enumerate,
    Zip,
    Reversed,
    List,
    Tuple,
    Int,
    Float,
    Bool,
    Str,
    Min,
    Max,
    Sum,
    Abs,
    Sorted,
    Any,
    All,
}

impl Builtin {
    /// The functions by name.
    pub(crate) const ALL: [(&'static str, Builtin); 18] = [
        ("len", Builtin::Len),
        ("range", Builtin::Range),
        ("enumerate", Builtin::Enumerate),
        ("zip", Builtin::Zip),
        ("reversed", Builtin::Reversed),
        ("list", Builtin::List),
        ("tuple", Builtin::Tuple),
        ("int", Builtin::Int),
        ("float", Builtin::Float),
        ("bool", Builtin::Bool),
        ("str", Builtin::Str),
        ("min", Builtin::Min),
        ("max", Builtin::Max),
        ("sum", Builtin::Sum),
        ("abs", Builtin::Abs),
        ("sorted", Builtin::Sorted),
        ("any", Builtin::Any),
        ("all", Builtin::All),
    ];

    /// The function called `name`.
    pub(crate) fn by_name(name: &str) -> Option<Builtin> {
        Builtin::ALL.iter().find(|(n, _)| *n == name).map(|(_, b)| *b)
    }

    /// The name of the function.
    pub(crate) fn name(self) -> &'static str {
        Builtin::ALL.iter().find(|(_, b)| *b == self).map_or("", |(n, _)| n)
    }

    /// The keyword arguments that it takes.
    pub(crate) fn keywords(self) -> &'static [&'static str] {
        match self {
            Builtin::Enumerate => &["start"],
            Builtin::Sorted => &["reverse"],
            Builtin::Len
            | Builtin::Range
            | Builtin::Zip
            | Builtin::Reversed
            | Builtin::List
            | Builtin::Tuple
            | Builtin::Int
            | Builtin::Float
            | Builtin::Bool
            | Builtin::Str
            | Builtin::Min
            | Builtin::Max
            | Builtin::Sum
            | Builtin::Abs
            | Builtin::Any
            | Builtin::All => &[],
        }
    }

    /// The range of the number of positional arguments.
    pub(crate) fn arity(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Builtin::Len
            | Builtin::Reversed
            | Builtin::Float
            | Builtin::Bool
            | Builtin::Str
            | Builtin::Abs
            | Builtin::Sorted
            | Builtin::Any
            | Builtin::All
            | Builtin::Int => 1..=1,
            Builtin::Range => 1..=3,
            Builtin::Enumerate | Builtin::Sum => 1..=2,
            Builtin::List | Builtin::Tuple => 0..=1,
            Builtin::Zip => 0..=usize::MAX,
            Builtin::Min | Builtin::Max => 1..=usize::MAX,
        }
    }
}

impl<'a, L: Library> Run<'a, L> {
    pub(crate) fn builtin(
        &mut self,
        f: Builtin,
        mut args: Vec<ValueOf<L>>,
        keyword: Option<ValueOf<L>>,
        spans: &[Span],
        span: Span,
    ) -> Result<ValueOf<L>, L> {
        let arity = f.arity();
        if !arity.contains(&args.len()) {
            let message = format!("`{}` does not take {} arguments", f.name(), args.len());
            return Err(Diagnostic::error_at("argument-count", span, message).into());
        }
        let at = |i: usize| spans.get(i).copied().unwrap_or(span);
        let int = |run: &Self, v: &ValueOf<L>, i: usize| {
            let found = v.describe(&run.library);
            let error = || type_error(at(i), format!("expected an integer, found {found}"));
            v.int(&run.library).ok_or_else(error)
        };
        match f {
            Builtin::Len => match &args[0] {
                Value::Sequence(s) => Ok(Value::Int(s.items.len() as i64)),
                Value::Range(a, b, step) => Ok(Value::Int(range_len(*a, *b, *step) as i64)),
                Value::Dict(items) => Ok(Value::Int(items.len() as i64)),
                Value::Str(s) => Ok(Value::Int(s.chars().count() as i64)),
                other => {
                    let found = other.describe(&self.library);
                    Err(type_error(at(0), format!("expected a list, tuple or text, found {found}")))
                }
            },
            Builtin::Range => {
                let bounds = args.iter().enumerate().map(|(i, v)| int(self, v, i)).collect::<Result<Vec<i64>, L>>()?;
                match bounds[..] {
                    [stop] => Ok(Value::Range(0, stop, 1)),
                    [start, stop] => Ok(Value::Range(start, stop, 1)),
                    [_, _, 0] => Err(index_error(at(2), "a range cannot have the step 0".to_string())),
                    [start, stop, step] => Ok(Value::Range(start, stop, step)),
                    _ => Ok(Value::None),
                }
            }
            Builtin::Enumerate => {
                let start = match keyword.as_ref().or(args.get(1)) {
                    Some(v) => int(self, v, 1)?,
                    None => 0,
                };
                let items = self.iterate(args.swap_remove(0), at(0))?;
                let pairs = items
                    .into_iter()
                    .enumerate()
                    .map(|(i, v)| self.list(vec![Value::Int(start.saturating_add(i as i64)), v], true, span))
                    .collect::<Result<_, L>>()?;
                self.list(pairs, false, span)
            }
            Builtin::Zip => {
                let mut columns = Vec::with_capacity(args.len());
                for (i, v) in args.into_iter().enumerate() {
                    columns.push(self.iterate(v, at(i))?);
                }
                let n = columns.iter().map(Vec::len).min().unwrap_or(0);
                let rows = (0..n)
                    .map(|i| self.list(columns.iter().map(|c| c[i].clone()).collect(), true, span))
                    .collect::<Result<_, L>>()?;
                self.list(rows, false, span)
            }
            Builtin::Reversed => {
                let mut items = self.iterate(args.swap_remove(0), at(0))?;
                items.reverse();
                self.list(items, false, span)
            }
            Builtin::List | Builtin::Tuple => {
                let items = match args.pop() {
                    Some(v) => self.iterate(v, at(0))?,
                    None => Vec::new(),
                };
                self.list(items, f == Builtin::Tuple, span)
            }
            Builtin::Int => match &args[0] {
                Value::Float(v) if v.abs() < 9e18 => Ok(Value::Int(*v as i64)),
                Value::Str(s) => s
                    .trim()
                    .parse()
                    .map(Value::Int)
                    .map_err(|_| type_error(at(0), format!("expected the digits of an integer, found `{s}`"))),
                v => int(self, v, 0).map(Value::Int),
            },
            Builtin::Float => match &args[0] {
                Value::Str(s) => s
                    .trim()
                    .parse()
                    .map(Value::Float)
                    .map_err(|_| type_error(at(0), format!("expected the digits of a number, found `{s}`"))),
                v => {
                    let found = v.describe(&self.library);
                    let error = || type_error(at(0), format!("expected a number, found {found}"));
                    v.number(&self.library).map(Value::Float).ok_or_else(error)
                }
            },
            Builtin::Bool => Ok(Value::Bool(self.truth(&args[0], at(0))?)),
            Builtin::Str => {
                let text = self.text(&args[0], at(0))?;
                self.limited(text, span)
            }
            Builtin::Min | Builtin::Max => {
                let items = if args.len() == 1 { self.iterate(args.swap_remove(0), at(0))? } else { args };
                let op = if f == Builtin::Min { BinOp::Min } else { BinOp::Max };
                let mut items = items.into_iter();
                let Some(mut best) = items.next() else {
                    return Err(type_error(at(0), format!("`{}` of nothing is not defined", f.name())));
                };
                for v in items {
                    best = self.extremum(op, best, v, span)?;
                }
                Ok(best)
            }
            Builtin::Sum => {
                let mut total = args.get(1).cloned().unwrap_or(Value::Int(0));
                for v in self.iterate(args.swap_remove(0), at(0))? {
                    total = self.binary(BinaryOp::Add, total, v, span, span)?;
                }
                Ok(total)
            }
            Builtin::Abs => match &args[0] {
                Value::Float(v) => Ok(Value::Float(v.abs())),
                v => int(self, v, 0)?.checked_abs().map(Value::Int).ok_or_else(|| undefined("abs", span)),
            },
            Builtin::Sorted => {
                let mut items = self.iterate(args.swap_remove(0), at(0))?;
                self.sort(&mut items, at(0))?;
                if let Some(reverse) = keyword
                    && self.truth(&reverse, span)?
                {
                    items.reverse();
                }
                self.list(items, false, span)
            }
            Builtin::Any | Builtin::All => {
                let items = self.iterate(args.swap_remove(0), at(0))?;
                let any = f == Builtin::Any;
                for item in &items {
                    if self.truth(item, at(0))? == any {
                        return Ok(Value::Bool(any));
                    }
                }
                Ok(Value::Bool(!any))
            }
        }
    }

    fn sort(&self, items: &mut [ValueOf<L>], span: Span) -> Result<(), L> {
        for pair in items.windows(2) {
            self.order(&pair[0], &pair[1], span)?;
        }
        // Sorting needs a total order, which mixed integers and floats do not have.
        let library = &self.library;
        if items.iter().all(|v| v.int(library).is_some()) {
            items.sort_by_key(|v| v.int(library));
        } else if items.iter().all(|v| v.number(library).is_some()) {
            let key = |v: &ValueOf<L>| v.number(library).unwrap_or(f64::NAN);
            items.sort_by(|a, b| key(a).total_cmp(&key(b)));
        } else {
            items.sort_by(|a, b| match (a, b) {
                (Value::Str(x), Value::Str(y)) => x.cmp(y),
                _ => Ordering::Equal,
            });
        }
        Ok(())
    }

    fn extremum(&mut self, op: BinOp, a: ValueOf<L>, b: ValueOf<L>, span: Span) -> Result<ValueOf<L>, L> {
        if let (Value::Own(_), _) | (_, Value::Own(_)) = (&a, &b)
            && let Some(value) = L::extremum(self, op, &a, &b, span)?
        {
            return Ok(value);
        }
        let keep = match self.order(&a, &b, span)? {
            Some(Ordering::Greater) => op == BinOp::Max,
            Some(Ordering::Less) => op == BinOp::Min,
            _ => true,
        };
        Ok(if keep { a } else { b })
    }
}
