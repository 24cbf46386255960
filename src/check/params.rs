//! The parameters of a workload as arrays that can be measured with.

use crate::database::{Failure, FailureKind};
use crate::ir::expr::{Expr, ExprId};
use crate::ir::stmt::{Stmt, StmtId};
use crate::ir::visit::{Visitor, walk_expr, walk_stmt};
use crate::ir::{BinOp, BufferId, Func};
use crate::loopir::{Kernel, Storage};
use crate::measure::ParamSpec;
use std::collections::{BTreeMap, BTreeSet};

/// The arrays that a function takes, in order. Shapes come from the function, accesses from its kernel. Integers that
/// index other buffers get a limit, and those that divide others are marked.
///
/// # Errors
/// A parameter is a scalar, or its extents are not known.
pub(crate) fn specs(func: &Func, kernel: &Kernel) -> Result<Vec<ParamSpec>, String> {
    let callable = func.callable();
    let func = &*callable.with_param_layouts();
    let mut uses = Uses::default();
    uses.visit_stmt(func, func.root.stmt());
    let mut specs = Vec::new();
    for (param, used) in func.params.iter().zip(kernel.params()) {
        let Some(id) = param.buffer else {
            return Err(format!("the parameter `{}` is a scalar", func.arena.var(param.var).name));
        };
        let buffer = func.arena.buffer(id);
        let shape: Option<Vec<i64>> = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e)).collect();
        let Some(mut shape) = shape else {
            return Err(format!("the extents of `{}` are not known; make them concrete with `--bind`", buffer.name));
        };
        // The lanes of a vector are one more dimension.
        shape.extend((buffer.lanes > 1).then_some(i64::from(buffer.lanes)));
        let access = match used.storage {
            Storage::Param(access) => access,
            Storage::Scratch(_) => return Err(format!("`{}` is not passed by the caller", buffer.name)),
        };
        let mut spec = ParamSpec::new(buffer.name.as_str(), buffer.dtype, &shape, access);
        if let Some(layout) = func.param_layout(id).filter(|_| buffer.lanes == 1) {
            spec = spec.placed(layout);
        }
        if buffer.dtype.is_integer() {
            spec.below = uses.limits.get(&id).copied();
            spec.is_divisor = uses.divisors.contains(&id);
        }
        specs.push(spec);
    }
    if func.params.len() != kernel.params().len() {
        return Err("the function takes something else than buffers".to_owned());
    }
    Ok(specs)
}

/// For each parameter of a function, the extent that its values index; `None` for one whose values are no indices.
pub(crate) fn index_limits(func: &Func) -> Vec<Option<i64>> {
    let func = &*func.callable();
    let mut uses = Uses::default();
    uses.visit_stmt(func, func.root.stmt());
    func.params.iter().map(|p| uses.limits.get(&p.buffer?).copied()).collect()
}

/// Checks that a scheduled version takes its parameters in the layout as written: arguments are made once for a task, in
/// that layout.
///
/// # Errors
/// The schedule has changed a layout; the parameter is then another buffer.
pub(crate) fn passed_as_written(written: &Func, scheduled: &Func) -> Result<(), Failure> {
    let changed = written.params.iter().zip(&scheduled.params).find(|(w, s)| w.buffer != s.buffer);
    let Some((param, _)) = changed else { return Ok(()) };
    let name = param.buffer.map_or(written.arena.var(param.var).name, |b| written.arena.buffer(b).name);
    let message = format!("the schedule changes the layout of the parameter `{name}`, which callers pass as written");
    Err(Failure { kind: FailureKind::Compile, stage: "parameters".to_owned(), primitive: None, message })
}

/// What elements of buffers are used for.
#[derive(Default)]
struct Uses {
    /// Buffers of indices, with the least extent that they index.
    limits: BTreeMap<BufferId, i64>,
    /// Buffers of integers by which others are divided.
    divisors: BTreeSet<BufferId>,
}

impl Uses {
    fn index_into(&mut self, func: &Func, buffer: BufferId, indices: &[ExprId]) {
        let shape = func.arena.list(func.arena.buffer(buffer).shape);
        for (&index, &extent) in indices.iter().zip(shape) {
            if let Some(extent) = func.arena.as_int(extent) {
                self.limit(func, index, extent);
            }
        }
    }

    fn limit(&mut self, func: &Func, index: ExprId, extent: i64) {
        if let Expr::Load(buffer, _) = func.arena.expr(index) {
            let limit = self.limits.entry(buffer).or_insert(extent);
            *limit = extent.min(*limit);
        }
        func.arena.for_each_child(index, |c| self.limit(func, c, extent));
    }
}

impl Visitor for Uses {
    fn visit_stmt(&mut self, func: &Func, s: StmtId) {
        if let Stmt::Store { buffer, indices, .. } = func.get(s) {
            self.index_into(func, *buffer, func.arena.list(*indices));
        }
        walk_stmt(self, func, s);
    }

    fn visit_expr(&mut self, func: &Func, e: ExprId) {
        if let Expr::Load(buffer, indices) = func.arena.expr(e) {
            self.index_into(func, buffer, func.arena.list(indices));
        }
        if let Expr::Binary(BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod, _, mut divisor) =
            func.arena.expr(e)
        {
            while let Expr::Cast(a) = func.arena.expr(divisor) {
                divisor = a;
            }
            if let Expr::Load(buffer, _) = func.arena.expr(divisor) {
                self.divisors.insert(buffer);
            }
        }
        walk_expr(self, func, e);
    }
}
