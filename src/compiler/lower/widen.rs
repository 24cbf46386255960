//! Widens a kernel: all floats become `float64`, to compute reference values.
//!
//! Loads widen inputs; scratch and outputs are stored as `float64`, and outputs are rounded once at the end.
//! Half-precision intermediates are not rounded either, as in the interpreter's wide mode.

use crate::ir::expr::FxBuild;
use crate::ir::{DType, Intrinsic, Symbol};
use crate::loopir::rewrite::map_operands;
use crate::loopir::{
    Access, Body, BufferId, Expr, ExprId, For, Kernel, LocalId, LoopKind, Placement, Stmt, StmtId, Storage, Ty, VarId,
};
use hashbrown::HashMap;

/// The widened kernel, with the parameters of `kernel`.
pub(super) fn widen(kernel: &Kernel) -> Kernel {
    let widener = Widener {
        from: kernel,
        to: Kernel::new(kernel.name),
        buffers: Vec::new(),
        vars: HashMap::default(),
        locals: HashMap::default(),
        memo: HashMap::default(),
    };
    widener.run()
}

struct Widener<'a> {
    from: &'a Kernel,
    to: Kernel,
    /// The wide buffer for each buffer.
    buffers: Vec<BufferId>,
    vars: HashMap<VarId, VarId, FxBuild>,
    locals: HashMap<LocalId, LocalId, FxBuild>,
    memo: HashMap<ExprId, ExprId, FxBuild>,
}

fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::Float64 } else { dtype }
}

impl Widener<'_> {
    fn run(mut self) -> Kernel {
        self.to.assertions = self.from.assertions.clone();
        let mut copied: Vec<(BufferId, BufferId, Access)> = Vec::new();
        for (id, buffer) in self.from.buffers() {
            if let Storage::Param(access) = buffer.storage {
                let same = self.to.add_param(buffer.name, buffer.dtype, buffer.len, access);
                debug_assert_eq!(id, same);
                self.buffers.push(same);
            }
        }
        for (id, buffer) in self.from.buffers() {
            match buffer.storage {
                Storage::Param(Access::In) => {}
                Storage::Param(access) => {
                    if buffer.dtype.is_float() && buffer.dtype != DType::Float64 {
                        let name = Symbol::new(&format!("{}_wide", buffer.name));
                        let twin = self.to.add_scratch(name, DType::Float64, buffer.len, Placement::Shared);
                        copied.push((id, twin, access));
                        self.buffers[id.index()] = twin;
                    }
                }
                Storage::Scratch(placement) => {
                    let twin = self.to.add_scratch(buffer.name, wide(buffer.dtype), buffer.len, placement);
                    self.buffers.push(twin);
                }
            }
        }
        let mut out = Vec::new();
        for &(param, twin, access) in &copied {
            if access == Access::InOut {
                let copy = self.to.converting_copy(param, twin);
                out.push(copy);
            }
        }
        self.list(self.from.body, &mut out);
        for &(param, twin, _) in &copied {
            let copy = self.to.converting_copy(twin, param);
            out.push(copy);
        }
        self.to.body = self.to.stmts.body(&out);
        self.to
    }

    fn list(&mut self, body: Body, out: &mut Vec<StmtId>) {
        for &s in self.from.stmts.list(body) {
            let stmt = map_operands(self.from.stmts.get(s), |e| self.expr(e));
            let stmt = match stmt {
                // Vectors of float64 are no faster here, and threads bring no gain.
                Stmt::For(l) => {
                    let kind = if l.kind == LoopKind::Parallel { LoopKind::Parallel } else { LoopKind::Serial };
                    let var = self.var(l.var);
                    Stmt::For(For { var, kind, body: self.body(l.body), ..l })
                }
                Stmt::If { condition, then, otherwise } => {
                    Stmt::If { condition, then: self.body(then), otherwise: self.body(otherwise) }
                }
                Stmt::Store { buffer, index, value } => {
                    let buffer = self.buffers[buffer.index()];
                    let value = self.to.arena.cast(self.to.buffer(buffer).dtype, value);
                    Stmt::Store { buffer, index, value }
                }
                Stmt::Let { var, value } => Stmt::Let { var: self.var(var), value },
                Stmt::While { running, body } => Stmt::While { running: self.local(running), body: self.body(body) },
                // Registers contain conditions.
                Stmt::Set { local, value } => Stmt::Set { local: self.local(local), value },
                Stmt::Check { .. } => stmt,
            };
            out.push(self.to.stmts.push(stmt));
        }
    }

    fn body(&mut self, body: Body) -> Body {
        let mut out = Vec::with_capacity(body.len());
        self.list(body, &mut out);
        self.to.stmts.body(&out)
    }

    /// The new register for an old one; all contain conditions.
    fn local(&mut self, l: LocalId) -> LocalId {
        let Widener { from, to, locals, .. } = self;
        *locals.entry(l).or_insert_with(|| {
            let old = from.arena.local(l);
            to.arena.new_local(old.name, old.ty)
        })
    }

    fn var(&mut self, v: VarId) -> VarId {
        let Widener { from, to, vars, .. } = self;
        *vars.entry(v).or_insert_with(|| {
            let old = from.arena.var(v);
            to.arena.new_var(old.name, old.ty.with_dtype(wide(old.ty.dtype)))
        })
    }

    fn expr(&mut self, e: ExprId) -> ExprId {
        if let Some(&done) = self.memo.get(&e) {
            return done;
        }
        let ty = self.from.arena.ty(e);
        let dtype = wide(ty.dtype);
        let done = match self.from.arena.expr(e) {
            Expr::Int(v) => self.to.arena.int(v, ty.dtype),
            Expr::Float(bits) => self.to.arena.float(f64::from_bits(bits), DType::Float64),
            Expr::Var(v) => {
                let v = self.var(v);
                self.to.arena.var_expr(v)
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                self.to.arena.binary(op, a, b)
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                self.to.arena.compare(op, a, b)
            }
            Expr::Not(a) => {
                let a = self.expr(a);
                self.to.arena.not(a)
            }
            // A conversion between floats has no effect.
            Expr::Cast(a) => {
                let a = self.expr(a);
                self.to.arena.cast(dtype, a)
            }
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.expr(c), self.expr(t), self.expr(o));
                self.to.arena.select(c, t, o)
            }
            Expr::IfThenElse(c, t, o) => {
                let (c, t, o) = (self.expr(c), self.expr(t), self.expr(o));
                self.to.arena.if_then_else(c, t, o)
            }
            Expr::Load(buffer, index) => {
                let index = self.expr(index);
                let buffer = self.buffers[buffer.index()];
                let held = Ty::scalar(self.to.buffer(buffer).dtype);
                let value = self.to.arena.load(buffer, index, held);
                self.to.arena.cast(dtype, value)
            }
            // The bit pattern is that of the type as written.
            Expr::Reinterpret(a) => {
                let narrow = self.from.arena.dtype(a);
                let a = self.expr(a);
                let a = self.to.arena.cast(narrow, a);
                let value = self.to.arena.reinterpret(ty.dtype, a);
                self.to.arena.cast(dtype, value)
            }
            Expr::Call(Intrinsic::NextAfter, list) => {
                let args: Vec<ExprId> = self.from.arena.list(list).to_vec();
                let args: Vec<ExprId> = args
                    .into_iter()
                    .map(|a| {
                        let a = self.expr(a);
                        self.to.arena.cast(ty.dtype, a)
                    })
                    .collect();
                let value = self.to.arena.call(Intrinsic::NextAfter, &args);
                self.to.arena.cast(dtype, value)
            }
            Expr::Call(function, list) => {
                let args: Vec<ExprId> = self.from.arena.list(list).to_vec();
                let args: Vec<ExprId> = args.into_iter().map(|a| self.expr(a)).collect();
                self.to.arena.call(function, &args)
            }
            Expr::Local(l) => {
                let l = self.local(l);
                self.to.arena.local_expr(l)
            }
            Expr::Broadcast(_)
            | Expr::Ramp(..)
            | Expr::Pack(_)
            | Expr::Lookup(..)
            | Expr::Extract(..)
            | Expr::Dot4(..)
            | Expr::Reduce(..) => unreachable!("lowering makes no vectors"),
        };
        self.memo.insert(e, done);
        done
    }
}
