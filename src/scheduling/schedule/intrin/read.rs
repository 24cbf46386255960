//! Reads pairs of description and implementation from a text.

use super::agree::{Disagreement, agree};
use super::{Intrinsics, TensorIntrin};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span, nearest};
use crate::ir::{DType, Func, LoopKind, Stmt, StmtId, Symbol};
use crate::script::{Dialect, ParseOptions, Spans, parse, print_func};

/// The intrinsics of a text. It is a mistake if `known` has one of them already.
///
/// # Errors
///
/// All mistakes found.
pub(super) fn pairs(text: &str, file_name: &str, known: &Intrinsics) -> Result<Vec<TensorIntrin>, Diagnostics> {
    let parsed = parse(text, file_name, &ParseOptions::default())?;
    let functions: Vec<Function<'_>> = parsed.module.funcs.iter().zip(&parsed.spans).map(Function::new).collect();
    let mut found = Vec::new();
    let mut mistakes = Vec::new();
    for f in &functions {
        match f.role {
            Some((stem, Role::Description)) if known.get(stem.into()).is_some() => {
                let message = format!("there is an intrinsic `{stem}` already");
                mistakes.push(
                    Diagnostic::error_at("intrin-twice", f.spans.name, message)
                        .help("choose another name: a trace that names an intrinsic must mean one thing"),
                );
            }
            Some((stem, role)) => match counterpart(f, stem, role, &functions) {
                Err(mistake) => mistakes.push(mistake),
                Ok(implementation) if role == Role::Description => match pair(stem, f, implementation) {
                    Ok(intrin) => found.push(intrin),
                    Err(mistake) => mistakes.push(mistake),
                },
                Ok(_) => {}
            },
            None => {
                let message = format!("function `{}` is neither a description nor an implementation", f.func.name);
                mistakes.push(
                    Diagnostic::error_at("intrin-name", f.spans.name, message).help(
                        "call it `NAME_desc` if it says what intrinsic NAME computes, `NAME_impl` if it says how",
                    ),
                );
            }
        }
    }
    match mistakes.is_empty() {
        true => Ok(found),
        false => Err(Diagnostics::new(Source { name: file_name, text }, mistakes)),
    }
}

/// A function of the text with its places.
struct Function<'a> {
    func: &'a Func,
    spans: &'a Spans,
    /// The name of its intrinsic, and its role.
    role: Option<(&'a str, Role)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Description,
    Implementation,
}

impl Role {
    const ALL: [Role; 2] = [Role::Description, Role::Implementation];

    fn suffix(self) -> &'static str {
        match self {
            Role::Description => "_desc",
            Role::Implementation => "_impl",
        }
    }

    fn other(self) -> Role {
        match self {
            Role::Description => Role::Implementation,
            Role::Implementation => Role::Description,
        }
    }
}

impl<'a> Function<'a> {
    fn new((func, spans): (&'a Func, &'a Spans)) -> Function<'a> {
        let name = func.name.as_str();
        let stem = |role: Role| name.strip_suffix(role.suffix()).filter(|s| !s.is_empty()).map(|s| (s, role));
        Function { func, spans, role: Role::ALL.into_iter().find_map(stem) }
    }

    fn param_span(&self, index: usize) -> Span {
        self.spans.params.get(index).copied().unwrap_or(self.spans.name)
    }

    fn stmt_span(&self, s: StmtId) -> Span {
        self.spans.stmt(s).map_or(self.spans.name, |s| s.name)
    }
}

fn counterpart<'a>(
    f: &Function<'_>,
    stem: &str,
    role: Role,
    functions: &'a [Function<'a>],
) -> Result<&'a Function<'a>, Diagnostic> {
    if let Some(other) = functions.iter().find(|g| g.role == Some((stem, role.other()))) {
        return Ok(other);
    }
    let wanted = format!("{stem}{}", role.other().suffix());
    let (lacks, does) = match role {
        Role::Description => ("implementation", "computes the same result, with the same parameters"),
        Role::Implementation => ("description", "defines the computation, with the same parameters"),
    };
    let near = nearest(&wanted, functions.iter().map(|g| g.func.name.as_str()).filter(|n| *n != f.func.name.as_str()));
    Err(Diagnostic::error_at("intrin-half", f.spans.name, format!("intrinsic `{stem}` has no {lacks}")).help(
        match near {
            Some(near) => format!("call `{near}` `{wanted}`, if it is that"),
            None => format!("add a function `{wanted}` that {does}"),
        },
    ))
}

fn pair(name: &str, desc: &Function<'_>, code: &Function<'_>) -> Result<TensorIntrin, Diagnostic> {
    let described = params(desc)?;
    let implemented = params(code)?;
    if described.len() != implemented.len() {
        let (n, m) = (described.len(), implemented.len());
        let message = format!("the implementation of `{name}` takes {m} parameters, its description {n}");
        return Err(Diagnostic::error_at("intrin-parameters", code.spans.name, message)
            .label(desc.spans.name, "the description")
            .help("give both the same parameters, in the same order"));
    }
    for (i, (d, c)) in described.iter().zip(&implemented).enumerate() {
        if d != c {
            let message = format!("parameter {i} of `{name}` is {c}, but {d} in the description");
            return Err(Diagnostic::error_at("intrin-parameters", code.param_span(i), message)
                .label(desc.param_span(i), "the description's")
                .help("give both the same parameters, in the same order"));
        }
    }
    one_nest(desc)?;
    small_allocations(code)?;
    every_parameter_is_used(name, desc)?;
    let intrin = TensorIntrin {
        name: name.into(),
        description: desc.func.clone(),
        implementation: code.func.clone(),
        summary: summary(desc.func),
    };
    agree(&intrin).map_err(|d| match d {
        Disagreement::DescriptionFails(e) => {
            let span = e.stmt.map_or(desc.spans.name, |s| desc.stmt_span(s));
            let message = format!("the description of `{name}` fails on random data: {}", e.message(desc.func));
            Diagnostic::error_at("intrin-run", span, message)
        }
        Disagreement::ImplementationFails(e) => {
            let span = e.stmt.map_or(code.spans.name, |s| code.stmt_span(s));
            let message = format!("the implementation of `{name}` fails on random data: {}", e.message(code.func));
            Diagnostic::error_at("intrin-run", span, message)
        }
        Disagreement::Results { param, index, expected, found } => {
            let message = format!(
                "the implementation of `{name}` computes something else: on random data, {param}{index:?} is {found} \
                 where the description gives {expected}"
            );
            Diagnostic::error_at("intrin-results", code.spans.name, message)
                .label(desc.spans.name, "the description")
                .help("make both compute the same result, for all contents of the parameters")
        }
    })?;
    Ok(intrin)
}

/// Maximum number of elements of a buffer of an intrinsic.
const MAX_ELEMENTS: u64 = 1 << 20;

/// The properties of a parameter that must be equal in both functions.
#[derive(PartialEq)]
struct Tile {
    dtype: DType,
    shape: Vec<i64>,
}

impl std::fmt::Display for Tile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` of shape {:?}", self.dtype, self.shape)
    }
}

fn params(f: &Function<'_>) -> Result<Vec<Tile>, Diagnostic> {
    let tile = |(i, p): (usize, &crate::ir::Param)| {
        let fail = |what: &str| {
            let message = format!("parameter {i} of `{}` {what}", f.func.name);
            Diagnostic::error_at("intrin-parameters", f.param_span(i), message)
                .help("an intrinsic works on buffers of known shape, such as `T.Buffer((16,), \"float32\")`")
        };
        let buffer = f.func.arena.buffer(p.buffer.ok_or_else(|| fail("is not a buffer"))?);
        let shape = f.func.arena.list(buffer.shape).iter().map(|&e| f.func.arena.as_int(e)).collect::<Option<Vec<_>>>();
        let shape = shape.ok_or_else(|| fail("has a shape that is not constant"))?;
        if !is_tile(&shape) {
            return Err(fail(&format!("has more than {MAX_ELEMENTS} elements")));
        }
        Ok(Tile { dtype: buffer.dtype, shape })
    };
    f.func.params.iter().enumerate().map(tile).collect()
}

/// A one-line summary of a description: its loops and its store.
fn summary(desc: &Func) -> Symbol {
    let text = print_func(desc, Dialect::default());
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let loops = lines.iter().copied().filter(|l| l.starts_with("for "));
    Symbol::new(&loops.chain(lines.last().copied()).collect::<Vec<_>>().join(" "))
}

/// Checks that `tensorize` can find the description in a program: nested loops and blocks around a single store.
fn one_nest(desc: &Function<'_>) -> Result<(), Diagnostic> {
    let func = desc.func;
    let fail = |s: StmtId, what: &str| {
        Diagnostic::error_at("intrin-description", desc.stmt_span(s), format!("the description {what}")).help(
            "describe one nest: serial loops from 0 around one block, whose body is one store; `tensorize` replaces \
             updates, so let `decompose_reduction` take inits out",
        )
    };
    let mut at = func.root.stmt();
    loop {
        let body = match func.get(at) {
            Stmt::Loop(l) if !matches!(l.kind, LoopKind::Serial) => {
                return Err(fail(at, "has a loop that is not serial"));
            }
            Stmt::Loop(l) if !func.arena.is_int(l.min, 0) || func.arena.as_int(l.extent).is_none() => {
                return Err(fail(at, "has a loop without constant bounds from 0"));
            }
            Stmt::Loop(l) => &l.body,
            Stmt::Block(b) if b.init.is_some() => return Err(fail(at, "has a block with an init")),
            Stmt::Block(b) if !func.arena.is_int(b.predicate, 1) => {
                return Err(fail(at, "has a block with a predicate"));
            }
            Stmt::Block(b) if !b.allocs.is_empty() || !b.matches.is_empty() => {
                return Err(fail(at, "has buffers of its own"));
            }
            Stmt::Block(b) => &b.body,
            Stmt::Store { .. } => return Ok(()),
            Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_)
            | Stmt::While { .. }
            | Stmt::Attr(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => {
                return Err(fail(at, "has a statement that is neither a loop, a block nor a store"));
            }
        };
        match body[..] {
            [only] => at = only,
            [] => return Err(fail(at, "computes nothing")),
            [_, second, ..] => return Err(fail(second, "is more than one nest")),
        }
    }
}

/// Limits the memory of the implementation, since it is run when it is read.
fn small_allocations(code: &Function<'_>) -> Result<(), Diagnostic> {
    let func = code.func;
    for &block in &func.blocks() {
        for &b in &func.block(block).allocs {
            let buffer = func.arena.buffer(b);
            let shape = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e)).collect::<Option<Vec<_>>>();
            if !shape.is_some_and(|s| is_tile(&s)) {
                let message = format!("the buffer `{}` has more than {MAX_ELEMENTS} elements", buffer.name);
                let span = code.spans.buffer(b).unwrap_or(code.spans.name);
                return Err(Diagnostic::error_at("intrin-parameters", span, message)
                    .help("an intrinsic works on a tile: use a smaller buffer of constant shape"));
            }
        }
    }
    Ok(())
}

fn is_tile(shape: &[i64]) -> bool {
    let n = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(u64::try_from(extent).ok()?));
    n.is_some_and(|n| n <= MAX_ELEMENTS)
}

fn every_parameter_is_used(name: &str, desc: &Function<'_>) -> Result<(), Diagnostic> {
    for (i, p) in desc.func.params.iter().enumerate() {
        if p.buffer.is_some_and(|b| desc.spans.accesses(b).next().is_none()) {
            let message = format!("the description of `{name}` does not use parameter {i}");
            return Err(Diagnostic::error_at("intrin-description", desc.param_span(i), message)
                .help("leave it out of both functions: nothing in a program could stand for it"));
        }
    }
    Ok(())
}
