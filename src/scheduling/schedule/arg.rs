//! Arguments and results of schedule instructions, as stored in a trace.

use crate::ir::{BinOp, BlockId, CmpOp, LoopId, Symbol, scalar::int::checked};
use std::sync::Arc;

/// A random variable of a schedule: the name of an instruction's result. One counter numbers all kinds, in order of
/// creation; a number is never used again within a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Rv(pub u32);

impl Rv {
    /// The position in the schedule's table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The value of a random variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RvValue {
    /// A block of the function at this position of the module.
    Block(FuncIndex, BlockId),
    /// A loop of the function at this position of the module.
    Loop(FuncIndex, LoopId),
    /// "Under the root", a result of `sample_compute_location`.
    AtRoot,
    /// "Inlined", a result of `sample_compute_location`.
    Inlined,
    /// A number.
    Int(i64),
}

/// Position of a function in a module.
pub type FuncIndex = usize;

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// `None`, or a factor to be inferred.
    None,
    /// A random variable.
    Rv(Rv),
    /// Arithmetic on random variables with integer values.
    Expr(Arc<RvExpr>),
    /// A number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Str(Symbol),
    /// A list or tuple.
    List(Vec<Arg>),
    /// A dictionary with text keys, in the given order.
    Dict(Vec<(Symbol, Arg)>),
    /// An index map or another function of indices, such as `lambda i, j: (j, i)`.
    Lambda(Arc<Lambda>),
    /// A typed constant, such as `T.float32(0)`: the name of the type and the number.
    Typed(Symbol, Box<Arg>),
}

/// Arithmetic on random variables, kept symbolic so that a trace replays with other decisions.
#[derive(Clone, PartialEq, Debug)]
pub enum RvExpr {
    /// A random variable.
    Rv(Rv),
    /// A number.
    Int(i64),
    /// `a op b` on integers.
    Binary(BinOp, Box<RvExpr>, Box<RvExpr>),
}

impl RvExpr {
    /// The value for given values of the random variables; `None` if one has no value or the arithmetic is undefined.
    pub fn eval(&self, value: &impl Fn(Rv) -> Option<i64>) -> Option<i64> {
        Some(match self {
            RvExpr::Rv(rv) => value(*rv)?,
            RvExpr::Int(v) => *v,
            RvExpr::Binary(op, a, b) => {
                let (x, y) = (a.eval(value)?, b.eval(value)?);
                checked(*op, x, y)?
            }
        })
    }

    /// The expression with its variables renamed.
    pub fn map(&self, f: &impl Fn(Rv) -> Rv) -> RvExpr {
        match self {
            RvExpr::Rv(rv) => RvExpr::Rv(f(*rv)),
            RvExpr::Int(v) => RvExpr::Int(*v),
            RvExpr::Binary(op, a, b) => RvExpr::Binary(*op, Box::new(a.map(f)), Box::new(b.map(f))),
        }
    }

    /// Calls `f` with each variable.
    pub fn for_each(&self, f: &mut impl FnMut(Rv)) {
        match self {
            RvExpr::Rv(rv) => f(*rv),
            RvExpr::Int(_) => {}
            RvExpr::Binary(_, a, b) => {
                a.for_each(f);
                b.for_each(f);
            }
        }
    }
}

/// A function of indices, independent of any program.
#[derive(Clone, PartialEq, Debug)]
pub struct Lambda {
    /// Names of the parameters.
    pub params: Vec<Symbol>,
    /// The results.
    pub results: Vec<LambdaExpr>,
    /// Whether the result is a single value instead of a tuple (`lambda i: i // 4`).
    pub scalar: bool,
    /// Whether the results are pairs of first and end index (`lambda i, j: [(i - 1, i + 1), (j, j + 1)]`).
    pub ranges: bool,
}

impl Lambda {
    /// The map of `n` indices that replaces some of them by quotient and remainder: `parts` has their positions and divisors.
    #[must_use]
    pub fn splitting(n: usize, parts: &[(usize, i64)]) -> Lambda {
        let part = |i, op, by| LambdaExpr::Binary(op, Box::new(LambdaExpr::Param(i)), Box::new(LambdaExpr::Int(by)));
        let results = (0..n).flat_map(|i| match parts.iter().find(|(at, _)| *at == i) {
            Some(&(_, by)) => vec![part(i, BinOp::FloorDiv, by), part(i, BinOp::FloorMod, by)],
            None => vec![LambdaExpr::Param(i)],
        });
        let params = (0..n).map(|i| format!("i{i}").as_str().into()).collect();
        Lambda { params, results: results.collect(), scalar: false, ranges: false }
    }
}

/// An expression of a [`Lambda`].
#[derive(Clone, PartialEq, Debug)]
pub enum LambdaExpr {
    /// The parameter at this position.
    Param(usize),
    /// A random variable with an integer value; primitives get that value instead.
    Rv(Rv),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A constant of a stated type, such as `T.float32(0)`.
    Typed(Symbol, Box<LambdaExpr>),
    /// `a op b`.
    Binary(BinOp, Box<LambdaExpr>, Box<LambdaExpr>),
    /// `a op b`, a condition.
    Compare(CmpOp, Box<LambdaExpr>, Box<LambdaExpr>),
    /// `not a`.
    Not(Box<LambdaExpr>),
    /// `T.if_then_else(c, a, b)`.
    IfThenElse(Box<[LambdaExpr; 3]>),
    /// `IndexMap.AXIS_SEPARATOR`.
    AxisSeparator,
}

impl LambdaExpr {
    /// The value for these indices, with conditions as 0 and 1; `None` if it is not an integer.
    fn eval(&self, indices: &[i64]) -> Option<i64> {
        Some(match self {
            LambdaExpr::Param(i) => *indices.get(*i)?,
            LambdaExpr::Int(v) => *v,
            LambdaExpr::Typed(_, a) => a.eval(indices)?,
            LambdaExpr::Binary(op, a, b) => {
                let (x, y) = (a.eval(indices)?, b.eval(indices)?);
                match op {
                    BinOp::And => i64::from(x != 0 && y != 0),
                    BinOp::Or => i64::from(x != 0 || y != 0),
                    op => RvExpr::Binary(*op, Box::new(RvExpr::Int(x)), Box::new(RvExpr::Int(y))).eval(&|_| None)?,
                }
            }
            LambdaExpr::Compare(op, a, b) => {
                let (x, y) = (a.eval(indices)?, b.eval(indices)?);
                i64::from(match op {
                    CmpOp::Eq => x == y,
                    CmpOp::Ne => x != y,
                    CmpOp::Lt => x < y,
                    CmpOp::Le => x <= y,
                    CmpOp::Gt => x > y,
                    CmpOp::Ge => x >= y,
                })
            }
            LambdaExpr::Not(a) => i64::from(a.eval(indices)? == 0),
            LambdaExpr::IfThenElse(parts) => {
                let [c, a, b] = &**parts;
                if c.eval(indices)? != 0 { a.eval(indices)? } else { b.eval(indices)? }
            }
            LambdaExpr::Rv(_) | LambdaExpr::Float(_) | LambdaExpr::AxisSeparator => return None,
        })
    }

    /// Replaces each random variable by the result of `f`.
    pub fn map_rvs(&self, f: &impl Fn(Rv) -> LambdaExpr) -> LambdaExpr {
        match self {
            LambdaExpr::Rv(rv) => f(*rv),
            LambdaExpr::Param(_) | LambdaExpr::Int(_) | LambdaExpr::Float(_) | LambdaExpr::AxisSeparator => {
                self.clone()
            }
            LambdaExpr::Typed(dtype, a) => LambdaExpr::Typed(*dtype, Box::new(a.map_rvs(f))),
            LambdaExpr::Binary(op, a, b) => LambdaExpr::Binary(*op, Box::new(a.map_rvs(f)), Box::new(b.map_rvs(f))),
            LambdaExpr::Compare(op, a, b) => LambdaExpr::Compare(*op, Box::new(a.map_rvs(f)), Box::new(b.map_rvs(f))),
            LambdaExpr::Not(a) => LambdaExpr::Not(Box::new(a.map_rvs(f))),
            LambdaExpr::IfThenElse(parts) => LambdaExpr::IfThenElse(Box::new([0, 1, 2].map(|i| parts[i].map_rvs(f)))),
        }
    }

    /// Calls `f` with each random variable inside.
    pub fn for_each_rv(&self, f: &mut impl FnMut(Rv)) {
        match self {
            LambdaExpr::Rv(rv) => f(*rv),
            LambdaExpr::Param(_) | LambdaExpr::Int(_) | LambdaExpr::Float(_) | LambdaExpr::AxisSeparator => {}
            LambdaExpr::Typed(_, a) | LambdaExpr::Not(a) => a.for_each_rv(f),
            LambdaExpr::Binary(_, a, b) | LambdaExpr::Compare(_, a, b) => {
                a.for_each_rv(f);
                b.for_each_rv(f);
            }
            LambdaExpr::IfThenElse(parts) => parts.iter().for_each(|p| p.for_each_rv(f)),
        }
    }
}

impl Lambda {
    /// The results for these indices, without axis separators; `None` if they are not integers, or depend on random
    /// variables.
    pub fn eval(&self, indices: &[i64]) -> Option<Vec<i64>> {
        let results = self.results.iter().filter(|r| !matches!(r, LambdaExpr::AxisSeparator));
        results.map(|r| r.eval(indices)).collect()
    }

    /// Whether it mentions random variables.
    pub fn has_rvs(&self) -> bool {
        let mut found = false;
        self.results.iter().for_each(|r| r.for_each_rv(&mut |_| found = true));
        found
    }

    /// Replaces each random variable by the result of `f`.
    pub fn map_rvs(&self, f: &impl Fn(Rv) -> LambdaExpr) -> Lambda {
        let results = self.results.iter().map(|r| r.map_rvs(f)).collect();
        Lambda { params: self.params.clone(), results, scalar: self.scalar, ranges: self.ranges }
    }
}

impl Arg {
    /// Calls `f` with each random variable inside.
    pub fn for_each_rv(&self, f: &mut impl FnMut(Rv)) {
        match self {
            Arg::Rv(rv) => f(*rv),
            Arg::Expr(e) => e.for_each(f),
            Arg::List(items) => items.iter().for_each(|a| a.for_each_rv(f)),
            Arg::Dict(items) => items.iter().for_each(|(_, a)| a.for_each_rv(f)),
            Arg::Lambda(l) => l.results.iter().for_each(|r| r.for_each_rv(f)),
            Arg::None | Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Str(_) | Arg::Typed(..) => {}
        }
    }

    /// The argument with its random variables renamed.
    pub fn map_rvs(&self, f: &impl Fn(Rv) -> Rv) -> Arg {
        match self {
            Arg::Rv(rv) => Arg::Rv(f(*rv)),
            Arg::Expr(e) => Arg::Expr(Arc::new(e.map(f))),
            Arg::List(items) => Arg::List(items.iter().map(|a| a.map_rvs(f)).collect()),
            Arg::Dict(items) => Arg::Dict(items.iter().map(|(k, a)| (*k, a.map_rvs(f))).collect()),
            Arg::Lambda(l) if l.has_rvs() => Arg::Lambda(Arc::new(l.map_rvs(&|rv| LambdaExpr::Rv(f(rv))))),
            Arg::None | Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Str(_) | Arg::Lambda(_) | Arg::Typed(..) => {
                self.clone()
            }
        }
    }
}

impl From<Rv> for Arg {
    fn from(rv: Rv) -> Self {
        Arg::Rv(rv)
    }
}

impl From<i64> for Arg {
    fn from(v: i64) -> Self {
        Arg::Int(v)
    }
}

impl From<bool> for Arg {
    fn from(v: bool) -> Self {
        Arg::Bool(v)
    }
}

impl From<&str> for Arg {
    fn from(v: &str) -> Self {
        Arg::Str(v.into())
    }
}

/// The decision of a sampling instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Decision {
    /// The chosen index or location.
    Int(i64),
    /// The chosen tile sizes, outermost first.
    Ints(Vec<i64>),
}
