//! Inlines calls of functions of the same module.
//!
//! A kernel is one function. [`with_calls_inlined`] replaces calls by the bodies of the called functions:
//!
//! ```text
//! def scale(X: T.Buffer((8,), "float32")): …        def main(A: T.Buffer((8,), "float32")):
//! def main(A: T.Buffer((8,), "float32")):      →        …    # of `scale`, with A for X
//!     Module.scale(A)
//! ```
//!
//! If a parameter and the caller's buffer have the same shape and type, the buffer replaces the parameter; otherwise
//! the parameter becomes another name for the buffer's memory (`T.decl_buffer`). A call with a value is replaced by the
//! returned expression, if the function does nothing else. Other calls stay, and lowering refuses them by name: a
//! function that calls itself, returns before its end, or is given an address that does not belong to a buffer.

use super::buffer::{Buffer, BufferId};
use super::dtype::DType;
use super::expr::{Arena, Expr, ExprId};
use super::func::{Func, Module, Param};
use super::graft::Graft;
use super::op::Builtin;
use super::stmt::{Body, Stmt, StmtId};
use super::symbol::Symbol;
use super::visit::{Rewriter, for_each_subexpr, walk_rewrite};
use std::borrow::Cow;

/// Maximum depth of nested calls; functions that call each other exceed it.
const MAX_DEPTH: usize = 32;
/// Maximum number of statements of a function after inlining.
const MAX_STMTS: usize = 1 << 16;

/// Function `index` of a module with its calls of the module's functions inlined as far as possible.
pub fn with_calls_inlined(module: &Module, index: usize) -> Cow<'_, Func> {
    let func = &module.funcs[index];
    if calls(func).is_empty() {
        return Cow::Borrowed(func);
    }
    let mut with_calls_inlined = func.clone();
    let mut linker = Linker { module, stack: vec![func.name] };
    linker.func(&mut with_calls_inlined);
    Cow::Owned(with_calls_inlined)
}

/// The functions of the module that a function calls.
pub fn calls(func: &Func) -> Vec<Symbol> {
    let mut found = Vec::new();
    for s in func.subtree(func.root.stmt()) {
        super::visit::for_each_own_expr(func, s, &mut |e| {
            for_each_subexpr(&func.arena, e, &mut |e| {
                if let Some((name, _)) = call_of(&func.arena, e)
                    && !found.contains(&name)
                {
                    found.push(name);
                }
            });
        });
    }
    found
}

/// The function and the arguments of a call.
fn call_of(arena: &Arena, e: ExprId) -> Option<(Symbol, Vec<ExprId>)> {
    let Expr::Builtin(Builtin::CallModule, args) = arena.expr(e) else { return None };
    let (&name, rest) = arena.list(args).split_first()?;
    match arena.expr(name) {
        Expr::Str(name) => Some((name, rest.to_vec())),
        _ => None,
    }
}

/// The argument for a parameter of the callee.
enum Given {
    /// A buffer of the same shape and type: the callee's and the caller's.
    Same(BufferId, BufferId),
    /// Another name for memory: the callee's buffer, the address of the memory, and an offset in elements.
    Memory(BufferId, ExprId, Option<ExprId>),
    /// A scalar: the parameter and its value.
    Value(Param, ExprId),
}

struct Linker<'m> {
    module: &'m Module,
    /// The functions that are being inlined, outermost first.
    stack: Vec<Symbol>,
}

impl Linker<'_> {
    fn func(&mut self, func: &mut Func) {
        self.values(func);
        for s in func.subtree(func.root.stmt()) {
            if let Stmt::Evaluate(e) = *func.get(s)
                && let Some((name, args)) = call_of(&func.arena, e)
            {
                self.statement(func, s, name, &args);
            }
        }
    }

    /// The function of that name with its own calls inlined; `None` if it is being inlined already.
    fn callee(&mut self, name: Symbol) -> Option<Func> {
        if self.stack.contains(&name) || self.stack.len() > MAX_DEPTH {
            return None;
        }
        let mut callee = self.module.func(name.as_str())?.clone();
        self.stack.push(name);
        self.func(&mut callee);
        self.stack.pop();
        calls(&callee).is_empty().then_some(callee)
    }

    /// Inlines a call whose value is unused.
    fn statement(&mut self, func: &mut Func, call: StmtId, name: Symbol, args: &[ExprId]) -> Option<()> {
        let callee = self.callee(name)?;
        let body = without_result(&callee)?;
        if func.len() + callee.len() > MAX_STMTS {
            return None;
        }
        let given = arguments(func, &callee, args)?;
        let mut graft = Graft::new(&callee);
        let mut made: Vec<StmtId> = Vec::new();
        let mut lets = Vec::new();
        for given in &given {
            match *given {
                Given::Same(theirs, ours) => graft.set_buffer(theirs, ours),
                Given::Memory(..) => {}
                Given::Value(param, value) if is_plain(&func.arena, value) => graft.set_var(param.var, value),
                Given::Value(param, value) => lets.push((graft.var(&mut func.arena, param.var), value)),
            }
        }
        symbols(func, &callee, &given, &mut graft)?;
        for given in given {
            if let Given::Memory(theirs, data, offset) = given {
                let buffer = graft.buffer(func, theirs);
                func.arena.update_buffer(buffer, |b| b.elem_offset = offset);
                made.push(func.add(Stmt::Declare { buffer, data }));
            }
        }
        let place = func.place(call)?;
        let root = callee.block(callee.root);
        let allocs: Vec<BufferId> = root.allocs.iter().map(|&b| graft.buffer(func, b)).collect();
        match func.as_block(place.parent) {
            Some(block) => func.block_mut(block).allocs.extend(allocs),
            // In a loop, each iteration has its own memory.
            None => {
                for buffer in allocs {
                    made.push(func.add(Stmt::Alloc { buffer, annotations: Default::default() }));
                }
            }
        }
        let new = graft.body(func, &body);
        rename_blocks(func, &new);
        made.extend(new);
        // Computed arguments are evaluated once.
        for (var, value) in lets.into_iter().rev() {
            let body: Body = std::mem::take(&mut made).into();
            made.push(func.add(Stmt::Let { var, value, body }));
        }
        func.replace(call, &made);
        Some(())
    }

    /// Replaces calls whose value is used.
    fn values(&mut self, func: &mut Func) {
        for name in calls(func) {
            let Some(callee) = self.callee(name) else { continue };
            let Some(result) = pure_result(&callee) else { continue };
            let mut left = Vec::new();
            while let Some(e) = innermost_call(func, name, &left) {
                match self.value(func, &callee, result, e) {
                    Some(value) => {
                        let root = func.root.stmt();
                        func.rewrite_subtree(root, &mut Replace { from: e, to: value });
                    }
                    None => left.push(e),
                }
            }
        }
    }

    fn value(&mut self, func: &mut Func, callee: &Func, result: ExprId, call: ExprId) -> Option<ExprId> {
        let (_, args) = call_of(&func.arena, call)?;
        let given = arguments(func, callee, &args)?;
        let mut graft = Graft::new(callee);
        let mut lets = Vec::new();
        for given in &given {
            match *given {
                Given::Same(theirs, ours) => graft.set_buffer(theirs, ours),
                // An expression cannot declare another name for memory.
                Given::Memory(..) => return None,
                Given::Value(param, value) if is_plain(&func.arena, value) => graft.set_var(param.var, value),
                Given::Value(param, value) => lets.push((param, value)),
            }
        }
        symbols(func, callee, &given, &mut graft)?;
        let mut e = graft.expr(func, result);
        for (param, value) in lets.into_iter().rev() {
            let var = graft.var(&mut func.arena, param.var);
            e = func.arena.let_(var, value, e);
        }
        (func.arena.ty(e) == func.arena.ty(call)).then_some(e)
    }
}

/// A call of the function without a call in its arguments, and not in `but`.
fn innermost_call(func: &Func, name: Symbol, but: &[ExprId]) -> Option<ExprId> {
    let is_call = |e: ExprId| call_of(&func.arena, e).is_some_and(|c| c.0 == name) && !but.contains(&e);
    let mut found = None;
    for s in func.subtree(func.root.stmt()) {
        super::visit::for_each_own_expr(func, s, &mut |e| {
            for_each_subexpr(&func.arena, e, &mut |e| {
                if found.is_none() && is_call(e) {
                    let mut n = 0;
                    for_each_subexpr(&func.arena, e, &mut |e| n += usize::from(is_call(e)));
                    found = (n == 1).then_some(e);
                }
            });
        });
    }
    found
}

/// Replaces one expression by another.
struct Replace {
    from: ExprId,
    to: ExprId,
}

impl Rewriter for Replace {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if e == self.from { self.to } else { walk_rewrite(self, arena, e) }
    }
}

/// Whether the expression is a constant or a variable, which may be duplicated.
fn is_plain(arena: &Arena, e: ExprId) -> bool {
    arena.as_const(e).is_some() || arena.as_var(e).is_some()
}

/// The statements of a function whose result is unused; `None` if it returns before its end.
fn without_result(callee: &Func) -> Option<Body> {
    let mut body = callee.block(callee.root).body.clone();
    if let Some(&last) = body.last()
        && matches!(callee.get(last), Stmt::Return(_))
    {
        body.pop();
    }
    let returns = |&s: &StmtId| callee.subtree(s).iter().any(|&s| matches!(callee.get(s), Stmt::Return(_)));
    let plain = callee.block(callee.root).matches.is_empty() && callee.block(callee.root).init.is_none();
    (plain && !body.iter().any(returns)).then_some(body)
}

/// The returned expression of a function that does nothing else.
fn pure_result(callee: &Func) -> Option<ExprId> {
    let block = callee.block(callee.root);
    match block.body.as_slice() {
        [only] if block.allocs.is_empty() => match callee.get(*only) {
            Stmt::Return(value) => Some(*value),
            _ => None,
        },
        _ => None,
    }
}

/// Matches the arguments with the parameters of the callee.
fn arguments(func: &mut Func, callee: &Func, args: &[ExprId]) -> Option<Vec<Given>> {
    if args.len() != callee.params.len() || !callee.bound.is_empty() {
        return None;
    }
    callee.params.iter().zip(args).map(|(&param, &arg)| argument(func, callee, param, arg)).collect()
}

fn argument(func: &mut Func, callee: &Func, param: Param, arg: ExprId) -> Option<Given> {
    let Some(theirs) = param.buffer else {
        let wanted = callee.arena.var(param.var).ty();
        if func.arena.ty(arg) == wanted {
            return Some(Given::Value(param, arg));
        }
        // A constant takes the type of the parameter.
        let literal = func.arena.as_int(arg).filter(|_| wanted.dtype.is_integer() && wanted.lanes == 1)?;
        let fits = wanted.dtype.wrap(literal) == literal;
        return fits.then(|| Given::Value(param, func.arena.int(literal, wanted.dtype)));
    };
    let new = callee.arena.buffer(theirs);
    let (data, offset) = match func.arena.expr(arg) {
        Expr::Builtin(Builtin::WholeBuffer, _) => (func.arena.whole_buffer(arg)?, None),
        Expr::BufferData(b) => (b, None),
        // The handle of a buffer parameter.
        Expr::Var(v) => (func.params.iter().find(|p| p.var == v)?.buffer?, None),
        Expr::Builtin(Builtin::AddressOf, list) => {
            let &[element] = func.arena.list(list) else { return None };
            let Expr::Load(b, indices) = func.arena.expr(element) else { return None };
            (b, Some(offset_of(func, b, indices)?))
        }
        _ => return None,
    };
    let old = func.arena.buffer(data);
    let is_plain = |b: &Buffer| b.strides.is_none() && b.elem_offset.is_none() && b.dtype != DType::Handle;
    if !is_plain(old) || new.dtype != old.dtype || new.lanes != old.lanes || new.elem_offset.is_some() {
        return None;
    }
    let same_shape = offset.is_none() && new.strides.is_none() && {
        let (ours, theirs) = (func.arena.list(old.shape), callee.arena.list(new.shape));
        ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(|(&a, &b)| {
                callee.arena.as_var(b).is_some() || func.arena.as_int(a).is_some_and(|n| callee.arena.is_int(b, n))
            })
    };
    if same_shape {
        return Some(Given::Same(theirs, data));
    }
    // The memory of a window is not compact.
    let is_window = |s: StmtId| match func.as_block(s) {
        Some(b) => func.block(b).matches.iter().any(|m| m.buffer == data),
        None => false,
    };
    if func.subtree(func.root.stmt()).into_iter().any(is_window) {
        return None;
    }
    Some(Given::Memory(theirs, func.arena.buffer_data(data), offset))
}

/// The number of elements of a compact buffer before the one at `indices`.
fn offset_of(func: &mut Func, b: BufferId, indices: super::expr::ExprList) -> Option<ExprId> {
    let shape = func.arena.list(func.arena.buffer(b).shape).to_vec();
    let indices = func.arena.list(indices).to_vec();
    let mut sum: Option<ExprId> = None;
    for (index, extent) in indices.into_iter().zip(shape) {
        if !func.arena.dtype(index).is_index() || func.arena.dtype(extent) != func.arena.dtype(index) {
            return None;
        }
        sum = Some(match sum {
            None => index,
            Some(sum) => {
                let rows = func.arena.mul(sum, extent);
                func.arena.add(rows, index)
            }
        });
    }
    sum
}

/// Gives symbolic extents of the callee's parameters the values of the caller's buffers. `None` if two values differ,
/// or a symbol has none.
fn symbols(func: &mut Func, callee: &Func, given: &[Given], graft: &mut Graft) -> Option<()> {
    let mut known: Vec<(super::expr::VarId, ExprId)> = Vec::new();
    for given in given {
        let Given::Same(theirs, ours) = *given else { continue };
        let (new, old) = (callee.arena.buffer(theirs).shape, func.arena.buffer(ours).shape);
        for (&theirs, &ours) in callee.arena.list(new).iter().zip(func.arena.list(old)) {
            let Some(v) = callee.arena.as_var(theirs) else { continue };
            if callee.params.iter().any(|p| p.var == v) {
                return None;
            }
            match known.iter().find(|k| k.0 == v) {
                Some(k) if k.1 == ours => {}
                Some(_) => return None,
                None => known.push((v, ours)),
            }
        }
    }
    for &(v, value) in &known {
        let wanted = callee.arena.var(v).ty();
        let value = match func.arena.as_int(value) {
            Some(n) => func.arena.int(n, wanted.dtype),
            None if func.arena.ty(value) == wanted => value,
            None => return None,
        };
        graft.set_var(v, value);
    }
    let open = |e: ExprId| super::visit::vars_of(&callee.arena, e).iter().any(|v| known.iter().all(|k| k.0 != *v));
    let memory = given.iter().filter_map(|g| match g {
        Given::Memory(b, ..) => Some(*b),
        Given::Same(..) | Given::Value(..) => None,
    });
    for b in memory {
        let buffer = callee.arena.buffer(b);
        let strides = buffer.strides.map(|l| callee.arena.list(l)).unwrap_or_default();
        if callee.arena.list(buffer.shape).iter().chain(strides).any(|&e| open(e)) {
            return None;
        }
    }
    Some(())
}

/// Renames blocks whose names another block of the function has: schedules find blocks by name.
fn rename_blocks(func: &mut Func, new: &[StmtId]) {
    let mut taken: Vec<Symbol> = func.blocks().iter().map(|&b| func.block(b).name).collect();
    for &s in new {
        for s in func.subtree(s) {
            let Some(b) = func.as_block(s) else { continue };
            let name = func.block(b).name;
            let mut own = name;
            let mut n = 1;
            while taken.contains(&own) {
                own = name.with_suffix(&format!("_{n}"));
                n += 1;
            }
            taken.push(own);
            func.block_mut(b).name = own;
        }
    }
}
