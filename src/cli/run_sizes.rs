//! The values of symbolic extents, as the arrays of `tvmr run` tell them.

use super::exit::Failure;
use super::run_files::{Named, Which, opened};
use crate::arrays::ArrayFile;
use crate::graph;
use crate::ir::{Arena, BufferId, Expr, ExprId, Func, Param, Stmt, Visitor, visit};
use std::path::{Path, PathBuf};

/// A parameter, as far as arrays tell the values of symbols by it.
pub(super) struct Shaped {
    name: String,
    /// The name of each extent that is a symbol; `None` for a parameter that is no tensor.
    extents: Option<Vec<Option<String>>>,
    is_written: bool,
}

/// The parameters of a function.
pub(super) fn of_func(func: &Func) -> Vec<Shaped> {
    let callable = func.callable();
    let arena = &callable.arena;
    let written = written(&callable);
    let one = |param: &Param| {
        let Some(b) = param.buffer else {
            return Shaped { name: arena.var(param.var).name.to_string(), extents: None, is_written: false };
        };
        let buffer = arena.buffer(b);
        let mut extents = symbols(arena, arena.list(buffer.shape));
        // The lanes of a vector are one more dimension.
        extents.extend((buffer.lanes > 1).then_some(None));
        Shaped { name: buffer.name.to_string(), extents: Some(extents), is_written: written.contains(&b) }
    };
    callable.params.iter().map(one).collect()
}

/// The parameters of a graph.
pub(super) fn of_graph(graph: &graph::Function) -> Vec<Shaped> {
    let one = |&p: &graph::ValueId| {
        let shape = graph.ty(p).as_tensor().and_then(|t| t.shape.as_ref());
        let extents = shape.map(|shape| symbols(&graph.arena, shape));
        Shaped { name: graph.value(p).name.to_string(), extents, is_written: false }
    };
    graph.params.iter().map(one).collect()
}

/// The names of extents that are symbols.
fn symbols(arena: &Arena, shape: &[ExprId]) -> Vec<Option<String>> {
    let one = |&extent: &ExprId| match arena.expr(extent) {
        Expr::Var(v) => Some(arena.var(v).name.to_string()),
        _ => None,
    };
    shape.iter().map(one).collect()
}

/// The values of symbols that are extents of the parameters of `func`, by name. A symbol that no array tells is left out.
///
/// # Errors
/// A file cannot be read, an array has another number of dimensions than its parameter, or two arrays contradict each other.
pub(super) fn infer(
    func: &str,
    params: &[Shaped],
    single: &[Named],
    many: &[PathBuf],
) -> Result<Vec<(String, i64)>, Failure> {
    let mut sizes = Sizes { func, told: Vec::new() };
    let position = |name: &str| params.iter().position(|p| p.name == name);
    let mut is_given = vec![false; params.len()];
    for named in single {
        let param = match &named.which {
            Which::Any => continue,
            Which::Name(name) => position(name),
            Which::Position(i) => Some(*i).filter(|&i| i < params.len()),
        };
        let Some(param) = param else { continue };
        is_given[param] = true;
        sizes.one(&params[param], &named.path)?;
    }
    for path in many {
        let file = opened(path)?;
        for (i, name) in file.names().into_iter().enumerate() {
            if let Some(param) = position(name).filter(|&p| !is_given[p]) {
                is_given[param] = true;
                sizes.array(&params[param], &file, i)?;
            }
        }
    }
    // Files without a name are for inputs in order. Whether a parameter that is written is one is known only once sizes are.
    let mut files = single.iter().filter(|n| n.which == Which::Any);
    for (param, _) in params.iter().zip(&is_given).filter(|(_, is_given)| !**is_given) {
        if param.is_written {
            break;
        }
        let Some(named) = files.next() else { break };
        sizes.one(param, &named.path)?;
    }
    Ok(sizes.told.into_iter().map(|told| (told.name, told.value)).collect())
}

/// The buffers that a function stores to.
fn written(func: &Func) -> Vec<BufferId> {
    struct Stores(Vec<BufferId>);

    impl Visitor for Stores {
        fn visit_stmt(&mut self, func: &Func, s: crate::ir::StmtId) {
            match func.get(s) {
                Stmt::Store { buffer, .. } => self.0.push(*buffer),
                // Views and calls write what their blocks list.
                Stmt::Block(block) => self.0.extend(block.writes.iter().map(|w| w.buffer)),
                Stmt::Loop(_)
                | Stmt::If { .. }
                | Stmt::Let { .. }
                | Stmt::Evaluate(_)
                | Stmt::Alloc { .. }
                | Stmt::Declare { .. }
                | Stmt::While { .. }
                | Stmt::Break
                | Stmt::Continue
                | Stmt::Return(_)
                | Stmt::Assert(_)
                | Stmt::Attr(_) => {}
            }
            visit::walk_stmt(self, func, s);
        }
    }

    let mut stores = Stores(Vec::new());
    stores.visit_stmt(func, func.root.stmt());
    stores.0
}

/// The value of a symbol, and the dimension that tells it.
struct Told {
    name: String,
    value: i64,
    /// `dimension 0 of `A` in `a.npy``
    by: String,
}

struct Sizes<'a> {
    func: &'a str,
    told: Vec<Told>,
}

impl Sizes<'_> {
    /// Looks at a file for one parameter, as reading it does: its only array, or the one with the parameter's name.
    fn one(&mut self, param: &Shaped, path: &Path) -> Result<(), Failure> {
        // A number may stand in place of the file of a scalar.
        if param.extents.as_ref().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        let file = opened(path)?;
        let names = file.names();
        let i = names.iter().position(|name| param.name == *name).or((names.len() == 1).then_some(0));
        i.map_or(Ok(()), |i| self.array(param, &file, i))
    }

    /// Looks at the shape of an array.
    fn array(&mut self, param: &Shaped, file: &ArrayFile, i: usize) -> Result<(), Failure> {
        let Some(extents) = &param.extents else { return Ok(()) };
        let header = file.header(i).map_err(super::run_files::failure)?;
        let (name, func, rank) = (&param.name, self.func, extents.len());
        if header.shape.len() != rank {
            let path = file.path().display();
            let message =
                format!("`{name}` of `{func}` has {rank} dimensions, and the shape of `{path}` is {:?}", header.shape);
            return Err(Failure::Usage(message, String::new()));
        }
        for (axis, (extent, &value)) in extents.iter().zip(&header.shape).enumerate() {
            let Some(symbol) = extent else { continue };
            let by = format!("dimension {axis} of `{name}` in `{}`", file.path().display());
            match self.told.iter().find(|told| told.name == *symbol) {
                Some(told) if told.value != value => {
                    let (n, first) = (told.value, &told.by);
                    let message = format!("`{symbol}` of `{func}` is {n} by {first}, and {value} by {by}");
                    return Err(Failure::Usage(message, String::new()));
                }
                Some(_) => {}
                None => self.told.push(Told { name: symbol.clone(), value, by }),
            }
        }
        Ok(())
    }
}
