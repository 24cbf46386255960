//! Copies statements and expressions of one function into another.

use super::attr::Annotations;
use super::buffer::{Buffer, BufferId, BufferRegion};
use super::expr::{Arena, Expr, ExprId, ExprList, VarId};
use super::func::Func;
use super::stmt::{Assert, Attr, Block, BlockIter, Body, Loop, MatchBuffer, Stmt, StmtId};
use hashbrown::HashMap;

/// Maps entities of the source function to their counterparts in the target. Variables bound inside a copied statement,
/// and buffers, get counterparts when they are first met.
pub struct Graft<'a> {
    from: &'a Func,
    vars: HashMap<VarId, VarId>,
    values: HashMap<VarId, ExprId>,
    buffers: HashMap<BufferId, BufferId>,
    done: HashMap<ExprId, ExprId>,
}

impl<'a> Graft<'a> {
    /// An empty mapping.
    pub fn new(from: &'a Func) -> Self {
        Graft { from, vars: HashMap::new(), values: HashMap::new(), buffers: HashMap::new(), done: HashMap::new() }
    }

    /// Maps a buffer of the source to a buffer of the target.
    pub fn set_buffer(&mut self, from: BufferId, to: BufferId) {
        self.buffers.insert(from, to);
    }

    /// Maps a variable of the source to a value in the target.
    pub fn set_var(&mut self, from: VarId, to: ExprId) {
        self.values.insert(from, to);
    }

    /// The counterpart of a buffer.
    pub fn buffer(&mut self, to: &mut Func, b: BufferId) -> BufferId {
        if let Some(&known) = self.buffers.get(&b) {
            return known;
        }
        let old = self.from.arena.buffer(b).clone();
        let copy = Buffer {
            shape: self.list(to, old.shape),
            strides: old.strides.map(|l| self.list(to, l)),
            elem_offset: old.elem_offset.map(|e| self.expr(to, e)),
            ..old
        };
        let copy = to.arena.new_buffer(copy);
        self.buffers.insert(b, copy);
        copy
    }

    /// The counterpart of a variable.
    pub fn var(&mut self, to: &mut Arena, v: VarId) -> VarId {
        let old = self.from.arena.var(v);
        *self.vars.entry(v).or_insert_with(|| {
            let new = to.new_var(old.name, old.ty());
            to.set_pointee(new, old.pointee);
            new
        })
    }

    fn list(&mut self, to: &mut Func, list: ExprList) -> ExprList {
        let items: Vec<ExprId> = self.from.arena.list(list).iter().map(|&e| self.expr(to, e)).collect();
        to.arena.new_list(&items)
    }

    /// The counterpart of an expression.
    pub fn expr(&mut self, to: &mut Func, e: ExprId) -> ExprId {
        if let Some(&known) = self.done.get(&e) {
            return known;
        }
        let from = &self.from.arena;
        let dtype = from.dtype(e);
        let copy = match from.expr(e) {
            Expr::Int(v) => to.arena.int(v, dtype),
            Expr::Float(bits) => to.arena.float(f64::from_bits(bits), dtype),
            Expr::Str(s) => to.arena.str(s),
            Expr::Var(v) if self.values.contains_key(&v) => self.values[&v],
            Expr::Var(v) => {
                let v = self.var(&mut to.arena, v);
                to.arena.var_expr(v)
            }
            Expr::Binary(op, x, y) => {
                let (x, y) = (self.expr(to, x), self.expr(to, y));
                to.arena.binary_unfolded(op, x, y)
            }
            Expr::Compare(op, x, y) => {
                let (x, y) = (self.expr(to, x), self.expr(to, y));
                to.arena.compare_unfolded(op, x, y)
            }
            Expr::Not(x) => {
                let x = self.expr(to, x);
                to.arena.not_unfolded(x)
            }
            Expr::Cast(x) => {
                let x = self.expr(to, x);
                to.arena.cast_unfolded(dtype, x)
            }
            Expr::Select(c, x, y) => {
                let (c, x, y) = (self.expr(to, c), self.expr(to, x), self.expr(to, y));
                to.arena.select(c, x, y)
            }
            Expr::IfThenElse(c, x, y) => {
                let (c, x, y) = (self.expr(to, c), self.expr(to, x), self.expr(to, y));
                to.arena.if_then_else(c, x, y)
            }
            Expr::Load(b, indices) => {
                let b = self.buffer(to, b);
                let indices = self.list(to, indices);
                let indices = to.arena.list(indices).to_vec();
                to.arena.load(b, &indices)
            }
            Expr::BufferData(b) => {
                let b = self.buffer(to, b);
                to.arena.buffer_data(b)
            }
            Expr::Call(function, args) => {
                let args = self.list(to, args);
                let args = to.arena.list(args).to_vec();
                to.arena.call(function, &args)
            }
            Expr::Let(v, value, body) => {
                let value = self.expr(to, value);
                let v = self.var(&mut to.arena, v);
                let body = self.expr(to, body);
                to.arena.let_(v, value, body)
            }
            Expr::Ramp(base, stride) => {
                let (base, stride) = (self.expr(to, base), self.expr(to, stride));
                to.arena.ramp(base, stride, from.lanes(e))
            }
            Expr::Broadcast(value) => {
                let value = self.expr(to, value);
                to.arena.broadcast(value, from.lanes(e))
            }
            Expr::Shuffle(vectors, indices) => {
                let (vectors, indices) = (self.list(to, vectors), self.list(to, indices));
                let (vectors, indices) = (to.arena.list(vectors).to_vec(), to.arena.list(indices).to_vec());
                to.arena.shuffle(&vectors, &indices)
            }
            Expr::Builtin(function, args) => {
                let args = self.list(to, args);
                let args = to.arena.list(args).to_vec();
                to.arena.builtin(function, &args, from.ty(e))
            }
        };
        self.done.insert(e, copy);
        copy
    }

    fn region(&mut self, to: &mut Func, r: &BufferRegion) -> BufferRegion {
        BufferRegion {
            buffer: self.buffer(to, r.buffer),
            mins: self.list(to, r.mins),
            extents: self.list(to, r.extents),
        }
    }

    /// The counterpart of annotations.
    pub fn annotations(&mut self, to: &mut Func, annotations: &Annotations) -> Annotations {
        let mut copy = annotations.clone();
        for value in copy.values_mut() {
            value.map_exprs(&mut |e| self.expr(to, e));
        }
        copy
    }

    /// Copies statements, and does not insert them yet.
    pub fn body(&mut self, to: &mut Func, body: &[StmtId]) -> Body {
        body.iter().map(|&s| self.stmt(to, s)).collect()
    }

    fn stmt(&mut self, to: &mut Func, s: StmtId) -> StmtId {
        let copy = match self.from.get(s) {
            Stmt::Loop(l) => Stmt::Loop(Loop {
                var: self.var(&mut to.arena, l.var),
                min: self.expr(to, l.min),
                extent: self.expr(to, l.extent),
                step: l.step.map(|step| self.expr(to, step)),
                kind: l.kind,
                annotations: self.annotations(to, &l.annotations),
                body: self.body(to, &l.body),
            }),
            Stmt::Block(b) => Stmt::Block(Box::new(self.block(to, b))),
            Stmt::Store { buffer, indices, value } => Stmt::Store {
                buffer: self.buffer(to, *buffer),
                indices: self.list(to, *indices),
                value: self.expr(to, *value),
            },
            Stmt::If { condition, then, otherwise } => Stmt::If {
                condition: self.expr(to, *condition),
                then: self.body(to, then),
                otherwise: self.body(to, otherwise),
            },
            Stmt::Let { var, value, body } => Stmt::Let {
                value: self.expr(to, *value),
                var: self.var(&mut to.arena, *var),
                body: self.body(to, body),
            },
            Stmt::Evaluate(e) => Stmt::Evaluate(self.expr(to, *e)),
            Stmt::Alloc { buffer, annotations } => {
                Stmt::Alloc { buffer: self.buffer(to, *buffer), annotations: self.annotations(to, annotations) }
            }
            Stmt::Declare { buffer, data } => {
                Stmt::Declare { buffer: self.buffer(to, *buffer), data: self.expr(to, *data) }
            }
            Stmt::While { condition, body } => {
                Stmt::While { condition: self.expr(to, *condition), body: self.body(to, body) }
            }
            Stmt::Break => Stmt::Break,
            Stmt::Continue => Stmt::Continue,
            Stmt::Return(value) => Stmt::Return(self.expr(to, *value)),
            Stmt::Assert(a) => {
                let condition = self.expr(to, a.condition);
                Stmt::Assert(Box::new(Assert { condition, ..(**a).clone() }))
            }
            Stmt::Attr(a) => {
                let mut node = a.node.clone();
                node.map_exprs(&mut |e| self.expr(to, e));
                let value = self.expr(to, a.value);
                Stmt::Attr(Box::new(Attr { node, key: a.key, value, body: self.body(to, &a.body) }))
            }
        };
        to.add(copy)
    }

    fn block(&mut self, to: &mut Func, b: &Block) -> Block {
        let iters = b
            .iters
            .iter()
            .map(|i| BlockIter {
                var: self.var(&mut to.arena, i.var),
                min: self.expr(to, i.min),
                extent: self.expr(to, i.extent),
                kind: i.kind,
                value: self.expr(to, i.value),
            })
            .collect();
        Block {
            name: b.name,
            iters,
            predicate: self.expr(to, b.predicate),
            reads: b.reads.iter().map(|r| self.region(to, r)).collect(),
            writes: b.writes.iter().map(|r| self.region(to, r)).collect(),
            allocs: b.allocs.iter().map(|&x| self.buffer(to, x)).collect(),
            matches: b
                .matches
                .iter()
                .map(|m| MatchBuffer { buffer: self.buffer(to, m.buffer), source: self.region(to, &m.source) })
                .collect(),
            annotations: self.annotations(to, &b.annotations),
            init: b.init.as_ref().map(|list| self.body(to, list)),
            body: self.body(to, &b.body),
        }
    }
}
