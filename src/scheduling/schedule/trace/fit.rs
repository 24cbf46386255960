//! Checks arguments that were read from a text against their parameters. Checks that need the program are left to the
//! primitive.

use crate::schedule::arg::Arg;
use crate::schedule::kind::{Param, Ty, default_arg};

/// The argument in the form of its parameter, or a description of the expected value.
pub(super) fn fit(param: &Param, arg: Arg) -> Result<Arg, &'static str> {
    if arg == Arg::None && default_arg(param) == Some(Arg::None) {
        return Ok(arg);
    }
    let fits = match (param.ty, arg) {
        (Ty::Bool, Arg::Int(v @ (0 | 1))) => return Ok(Arg::Bool(v == 1)),
        (Ty::Bool, arg) => (matches!(arg, Arg::Bool(_)), arg),
        (Ty::Int | Ty::BufferIndex, Arg::Bool(v)) => return Ok(Arg::Int(v as i64)),
        (Ty::Int, arg) => (is_int(&arg), arg),
        (Ty::BufferIndex, arg) => (is_int(&arg) || matches!(arg, Arg::Str(_)), arg),
        (Ty::Str, arg) => (matches!(arg, Arg::Str(_)), arg),
        (Ty::Ints, arg) => (all(&arg, is_int), arg),
        (Ty::Floats, arg) => (all(&arg, |a| matches!(a, Arg::Int(_) | Arg::Float(_))), arg),
        (Ty::Factors, arg) => (all(&arg, |a| is_int(a) || *a == Arg::None), arg),
        (Ty::Block | Ty::Loop | Ty::BlockOrLoop, arg) => (is_rv(&arg), arg),
        (Ty::Loops, arg) => (all(&arg, is_rv), arg),
        (Ty::Blocks, Arg::None) => return Ok(Arg::List(Vec::new())),
        (Ty::Blocks, arg) => (all(&arg, is_rv), arg),
        (Ty::Target, arg) => (is_rv(&arg) || all(&arg, is_rv), arg),
        (Ty::Buffer, arg) => (matches!(arg, Arg::List(_) | Arg::Str(_) | Arg::Int(_)), arg),
        (Ty::IndexMap | Ty::Ranges, arg) => (matches!(arg, Arg::Lambda(_)), arg),
        (Ty::PadValue, arg) => {
            (matches!(arg, Arg::Lambda(_) | Arg::None | Arg::Int(_) | Arg::Float(_) | Arg::Typed(..)), arg)
        }
        (Ty::Value, arg) => (true, arg),
    };
    if fits.0 { Ok(fits.1) } else { Err(expected(param.ty)) }
}

fn is_rv(arg: &Arg) -> bool {
    matches!(arg, Arg::Rv(_))
}

fn is_int(arg: &Arg) -> bool {
    matches!(arg, Arg::Int(_) | Arg::Rv(_) | Arg::Expr(_))
}

fn all(arg: &Arg, test: impl Fn(&Arg) -> bool) -> bool {
    matches!(arg, Arg::List(items) if items.iter().all(test))
}

fn expected(ty: Ty) -> &'static str {
    match ty {
        Ty::Block => "the name of a block",
        Ty::Loop => "the name of a loop",
        Ty::BlockOrLoop => "the name of a block or loop",
        Ty::Loops => "names of loops",
        Ty::Blocks => "a list of blocks",
        Ty::Target => "a block, a loop or a list of blocks",
        Ty::Factors => "factors: numbers, random variables and `None`",
        Ty::Int => "an integer",
        Ty::Bool => "a truth value",
        Ty::Str => "a text",
        Ty::Ints => "a list of integers",
        Ty::Floats => "a list of numbers",
        Ty::Buffer => "which buffer of the block: `read` or `write`, and a position",
        Ty::BufferIndex => "the position of a buffer",
        Ty::IndexMap => "an index map as the text of a lambda",
        Ty::Ranges => "a function from indices to ranges, as the text of a lambda",
        Ty::PadValue => "a number, a lambda, or none",
        Ty::Value => "a value",
    }
}
