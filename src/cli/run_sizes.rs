//! The values of symbolic extents, as the arrays of `tvmr run` tell them.

use super::exit::Failure;
use super::run_files::{Named, Which, opened};
use crate::arrays::ArrayFile;
use crate::ir::{BufferId, Expr, Func, Stmt, Visitor, visit};
use std::path::{Path, PathBuf};

/// The values of symbols that are extents of inputs, by name. A symbol that no array tells is left out.
///
/// # Errors
/// A file cannot be read, an array has another number of dimensions than its parameter, or two arrays contradict each other.
pub(super) fn infer(func: &Func, single: &[Named], many: &[PathBuf]) -> Result<Vec<(String, i64)>, Failure> {
    let callable = func.callable();
    let mut sizes = Sizes { func: &callable, told: Vec::new() };
    let name_of = |b: BufferId| callable.arena.buffer(b).name;
    let buffers: Vec<Option<BufferId>> = callable.params.iter().map(|p| p.buffer).collect();
    let mut is_given = vec![false; buffers.len()];
    for named in single {
        let param = match &named.which {
            Which::Any => continue,
            Which::Name(name) => buffers.iter().position(|b| b.is_some_and(|b| name_of(b) == name.as_str())),
            Which::Position(i) => Some(*i).filter(|&i| i < buffers.len()),
        };
        let Some(param) = param else { continue };
        is_given[param] = true;
        sizes.one(buffers[param], &named.path)?;
    }
    for path in many {
        let file = opened(path)?;
        for (i, name) in file.names().into_iter().enumerate() {
            let param = buffers.iter().position(|b| b.is_some_and(|b| name_of(b) == name));
            if let Some(param) = param.filter(|&p| !is_given[p]) {
                is_given[param] = true;
                sizes.array(buffers[param], &file, i)?;
            }
        }
    }
    // Files without a name are for inputs in order. Whether a parameter that is written is one is known only once sizes are.
    let written = written(&callable);
    let mut files = single.iter().filter(|n| n.which == Which::Any);
    for (buffer, _) in buffers.iter().zip(&is_given).filter(|(_, is_given)| !**is_given) {
        if buffer.is_some_and(|b| written.contains(&b)) {
            break;
        }
        let Some(named) = files.next() else { break };
        sizes.one(*buffer, &named.path)?;
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
    func: &'a Func,
    told: Vec<Told>,
}

impl Sizes<'_> {
    /// Looks at a file for one parameter, as reading it does: its only array, or the one with the parameter's name.
    fn one(&mut self, buffer: Option<BufferId>, path: &Path) -> Result<(), Failure> {
        let Some(b) = buffer else { return Ok(()) };
        let buffer = self.func.arena.buffer(b);
        if self.func.arena.list(buffer.shape).is_empty() {
            // A number may stand in place of the file.
            return Ok(());
        }
        let file = opened(path)?;
        let names = file.names();
        let i = names.iter().position(|name| buffer.name == *name).or((names.len() == 1).then_some(0));
        i.map_or(Ok(()), |i| self.array(Some(b), &file, i))
    }

    /// Looks at the shape of an array.
    fn array(&mut self, buffer: Option<BufferId>, file: &ArrayFile, i: usize) -> Result<(), Failure> {
        let Some(b) = buffer else { return Ok(()) };
        let arena = &self.func.arena;
        let buffer = arena.buffer(b);
        let extents = arena.list(buffer.shape);
        let header = file.header(i).map_err(super::run_files::failure)?;
        // The lanes of a vector are one more dimension.
        let rank = extents.len() + usize::from(buffer.lanes > 1);
        if header.shape.len() != rank {
            let (name, func, path) = (buffer.name, self.func.name, file.path().display());
            let message =
                format!("`{name}` of `{func}` has {rank} dimensions, and the shape of `{path}` is {:?}", header.shape);
            return Err(Failure::Usage(message, String::new()));
        }
        for (axis, (&extent, &value)) in extents.iter().zip(&header.shape).enumerate() {
            let Expr::Var(v) = arena.expr(extent) else { continue };
            let name = arena.var(v).name.to_string();
            let by = format!("dimension {axis} of `{}` in `{}`", buffer.name, file.path().display());
            match self.told.iter().find(|told| told.name == name) {
                Some(told) if told.value != value => {
                    let (n, first) = (told.value, &told.by);
                    let message = format!("`{name}` of `{}` is {n} by {first}, and {value} by {by}", self.func.name);
                    return Err(Failure::Usage(message, String::new()));
                }
                Some(_) => {}
                None => self.told.push(Told { name, value, by }),
            }
        }
        Ok(())
    }
}
