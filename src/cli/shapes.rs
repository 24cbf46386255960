//! The values of symbolic extents, as `--shape` tells them: `--shape x=1,3,224,224`.

use super::exit::Failure;
use super::load::Program;
use crate::diagnostic::nearest;
use crate::graph::{self, ty};
use crate::ir::Expr;

/// The shape of an input, by its name.
pub(super) type Shape = (String, Vec<i64>);

/// Parses `x=1,3,224,224`.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let (name, extents) = text.split_once('=').ok_or("expected `name=extents`, such as `x=1,3,224,224`")?;
    let (name, extents) = (name.trim(), extents.trim());
    if name.is_empty() {
        return Err("expected a name before `=`".to_owned());
    }
    let extent = |text: &str| match text.trim().parse::<i64>() {
        Ok(n) if n >= 0 => Ok(n),
        _ => Err(format!("expected an extent, which is a whole number from 0, found `{}`", text.trim())),
    };
    let extents = match extents {
        "" => Vec::new(),
        _ => extents.split(',').map(extent).collect::<Result<_, _>>()?,
    };
    Ok((name.to_owned(), extents))
}

/// The program with inputs of these shapes.
///
/// # Errors
/// There is no such input, its shape is another one, or an extent does not follow.
pub(super) fn shaped(program: Program, shapes: &[Shape]) -> Result<Program, Failure> {
    if shapes.is_empty() {
        return Ok(program);
    }
    if program.graphs().is_empty() {
        let help = "`--bind` gives extents of prim_funcs their values".to_owned();
        return Err(Failure::Usage(format!("`--shape` is for graphs, and `{}` has none", program.name), help));
    }
    let mut told: Vec<(String, i64)> = Vec::new();
    for (i, (name, wanted)) in shapes.iter().enumerate() {
        if shapes[..i].iter().any(|(other, _)| other == name) {
            return Err(Failure::Usage(format!("`--shape` gives `{name}` twice"), String::new()));
        }
        let (function, param) = input(&program, name)?;
        let Some(extents) = function.ty(param).as_tensor().and_then(|t| t.shape.as_ref()) else {
            // Only the rank is known, or not even that: no symbol could get a value.
            return Err(mismatch(function, param, wanted, &told));
        };
        if extents.len() != wanted.len() {
            return Err(mismatch(function, param, wanted, &told));
        }
        for (&extent, &n) in extents.iter().zip(wanted) {
            let Expr::Var(v) = function.arena.expr(extent) else { continue };
            let symbol = function.arena.var(v).name.to_string();
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
        let (function, param) = input(&bound, name)?;
        let found = function.ty(param).as_tensor().and_then(|t| t.constant_shape(&function.arena));
        if found.as_ref() != Some(wanted) {
            let (function, param) = input(&program, name)?;
            return Err(mismatch(function, param, wanted, &told));
        }
    }
    Ok(bound)
}

/// The parameter of a name, in `main` if that has it.
fn input<'p>(program: &'p Program, name: &str) -> Result<(&'p graph::Function, graph::ValueId), Failure> {
    let param = |f: &'p graph::Function| {
        let found = f.params.iter().find(|&&p| f.value(p).name == name);
        found.map(|&p| (f, p))
    };
    let graphs = program.graphs();
    let found = graphs.iter().filter(|f| f.name == "main").chain(graphs).find_map(param);
    found.ok_or_else(|| {
        let names: Vec<&str> = graphs.iter().flat_map(|f| f.params.iter().map(|&p| f.value(p).name.as_str())).collect();
        let help = match nearest(name, names.iter().copied()) {
            Some(near) => format!("there is `{near}`"),
            None => format!("there are `{}`", names.join("`, `")),
        };
        Failure::Usage(format!("no graph of `{}` has an input `{name}`", program.name), help)
    })
}

fn mismatch(function: &graph::Function, param: graph::ValueId, wanted: &[i64], told: &[(String, i64)]) -> Failure {
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
    Failure::Usage(message, help)
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn shapes_are_names_and_extents() {
        assert_eq!(shape("x=1,3, 224"), Ok(("x".to_owned(), vec![1, 3, 224])));
        assert_eq!(shape("x="), Ok(("x".to_owned(), vec![])));
        for (text, why) in
            [("x", "expected `name=extents`"), ("=1", "a name before"), ("x=1,-2", "found `-2`"), ("x=1,", "found ``")]
        {
            assert!(shape(text).is_err_and(|e| e.contains(why)), "{text}");
        }
    }
}
