//! The shapes of a graph's inputs, which give symbolic extents their values.

use super::Error;
use super::program::Program;
use crate::diagnostic::nearest;
use crate::graph::{self, ty};
use crate::ir::{Expr, ExprId};

/// The shape of an input, by its name.
pub type Shape = (String, Vec<i64>);

/// The program with inputs of these shapes.
///
/// # Errors
/// There is no such input, its shape is another one, or an extent does not follow.
pub fn shaped(program: Program, shapes: &[Shape]) -> Result<Program, Error> {
    if shapes.is_empty() {
        return Ok(program);
    }
    if program.graphs().is_empty() {
        let help = "`--bind` gives extents of prim_funcs their values".to_owned();
        return Err(Error::Usage(format!("`--shape` is for graphs, and `{}` has none", program.name), help));
    }
    let mut told: Vec<(String, i64)> = Vec::new();
    for (i, (name, wanted)) in shapes.iter().enumerate() {
        if shapes[..i].iter().any(|(other, _)| other == name) {
            let help = "only `tvmr build` takes several shapes of an input: it makes a version for each".to_owned();
            return Err(Error::Usage(format!("`--shape` gives `{name}` twice"), help));
        }
        let (function, param) = input(program.graphs(), &program.name, name)?;
        let Some(extents) = function.ty(param).as_tensor().and_then(|t| t.shape.as_ref()) else {
            // Only the rank is known, or not even that: no symbol could get a value.
            return Err(mismatch(function, param, wanted, &told));
        };
        if extents.len() != wanted.len() {
            return Err(mismatch(function, param, wanted, &told));
        }
        for (symbol, n) in symbols_of(function, extents, wanted) {
            match told.iter().find(|(other, _)| *other == symbol) {
                Some((_, value)) if *value != n => return Err(mismatch(function, param, wanted, &told)),
                Some(_) => {}
                None => told.push((symbol, n)),
            }
        }
    }
    let bound = match &told[..] {
        [] => program.with(program.graph_module()),
        told => program.bound(&[&program.bind[..], told].concat())?,
    };
    // Now extents that are computed from symbols are known too.
    for (name, wanted) in shapes {
        let (function, param) = input(bound.graphs(), &bound.name, name)?;
        let found = function.ty(param).as_tensor().and_then(|t| t.constant_shape(&function.arena));
        if found.as_ref() != Some(wanted) {
            let (function, param) = input(program.graphs(), &program.name, name)?;
            return Err(mismatch(function, param, wanted, &told));
        }
    }
    Ok(bound)
}

/// The symbols among the extents of a shape, with the values that another shape gives them.
fn symbols_of(function: &graph::Function, extents: &[ExprId], wanted: &[i64]) -> Vec<(String, i64)> {
    let symbol = |(&extent, &n): (&ExprId, &i64)| match function.arena.expr(extent) {
        Expr::Var(v) => Some((function.arena.var(v).name.to_string(), n)),
        _ => None,
    };
    extents.iter().zip(wanted).filter_map(symbol).collect()
}

/// The symbols that are extents of inputs, with the values that these have if the inputs have these shapes. Whether the shapes fit
/// is not looked at.
///
/// # Errors
/// There is no such input.
pub fn symbols(graphs: &[graph::Function], program: &str, shapes: &[Shape]) -> Result<Vec<(String, i64)>, Error> {
    let mut told = Vec::new();
    for (name, wanted) in shapes {
        let (function, param) = input(graphs, program, name)?;
        if let Some(extents) = function.ty(param).as_tensor().and_then(|t| t.shape.as_ref()) {
            told.extend(symbols_of(function, extents, wanted));
        }
    }
    Ok(told)
}

/// The parameter of a name, in `main` if that has it.
fn input<'p>(
    graphs: &'p [graph::Function],
    program: &str,
    name: &str,
) -> Result<(&'p graph::Function, graph::ValueId), Error> {
    let param = |f: &'p graph::Function| {
        let found = f.params.iter().find(|&&p| f.value(p).name == name);
        found.map(|&p| (f, p))
    };
    let found = graphs.iter().filter(|f| f.name == "main").chain(graphs).find_map(param);
    found.ok_or_else(|| {
        let names: Vec<&str> = graphs.iter().flat_map(|f| f.params.iter().map(|&p| f.value(p).name.as_str())).collect();
        let help = match nearest(name, names.iter().copied()) {
            Some(near) => format!("there is `{near}`"),
            None => format!("there are `{}`", names.join("`, `")),
        };
        Error::Usage(format!("no graph of `{program}` has an input `{name}`"), help)
    })
}

fn mismatch(function: &graph::Function, param: graph::ValueId, wanted: &[i64], told: &[(String, i64)]) -> Error {
    let (name, func) = (function.value(param).name, function.name);
    let found = function.ty(param).describe(&function.arena);
    let shape = function.ty(param).as_tensor().and_then(|t| t.shape.as_ref());
    let shown = shape.map_or(String::new(), |shape| ty::extents(&function.arena, shape));
    let symbols: Vec<String> = (told.iter())
        .filter(|(symbol, _)| shown.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == symbol))
        .map(|(symbol, value)| format!("`{symbol}` = {value}"))
        .collect();
    let with = if symbols.is_empty() { String::new() } else { format!(" with {}", symbols.join(", ")) };
    let message = format!("`{name}` of `{func}` is {found}{with}, and `--shape` gives {wanted:?}");
    let help = match with.is_empty() {
        true => "give as many extents as it has; those that are numbers stay".to_owned(),
        false => "give shapes that agree, or values of symbols by `--bind`".to_owned(),
    };
    Error::Usage(message, help)
}
