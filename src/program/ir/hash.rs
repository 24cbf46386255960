//! Hashes of functions: equal functions (in the sense of [`equal`](super::equal), block names counting) have equal
//! hashes, on every machine and in every run.
//!
//! * [`workload_hash`] names a workload in the database: the first 64 bits of BLAKE3 over the canonical byte form that
//!   docs/database.md describes. It must never change without raising [`FORMAT_VERSION`].
//! * [`program_hash`] tells candidates of a search apart: a fast 64-bit hash of the same walk. It is recorded with
//!   results, so it is stable too, under [`PROGRAM_HASH_VERSION`].
//!
//! Both are one walk over the function that writes small items into a [`Sink`].

mod sink;

use super::attr::{Annotations, AttrValue};
use super::buffer::{BufferId, BufferRegion};
use super::dtype::{DType, Ty};
use super::equal::{alignment, float_bits, key_parts, offset};
use super::expr::{Expr, ExprId, ExprList, VarId};
use super::float8::Float8;
use super::func::Func;
use super::narrow::Narrow;
use super::op::{BinOp, CmpOp};
use super::stmt::{Block, Body, IterKind, LoopKind, Stmt, StmtId};
use super::symbol::Symbol;
use sink::{Bytes, Mixer, Sink, mix};
use std::fmt;
use std::str::FromStr;

/// Version of the canonical byte form, which is its first byte.
pub const FORMAT_VERSION: u8 = 1;

/// Version of [`program_hash`], mixed in first.
pub const PROGRAM_HASH_VERSION: u64 = 1;

/// The name of a workload in the database; prints as a decimal number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WorkloadHash(pub u64);

impl fmt::Display for WorkloadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for WorkloadHash {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(WorkloadHash)
    }
}

/// The hash of a workload: the first eight bytes of BLAKE3 over [`canonical_bytes`], as a little-endian number.
pub fn workload_hash(func: &Func) -> WorkloadHash {
    let digest = blake3::hash(&canonical_bytes(func));
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    WorkloadHash(u64::from_le_bytes(first))
}

/// The canonical byte form of a function (docs/database.md), equal for structurally equal functions.
pub fn canonical_bytes(func: &Func) -> Vec<u8> {
    Walk::new(func, Bytes(vec![FORMAT_VERSION])).run().0
}

/// A fast hash of a candidate program; a few microseconds for a tiled matmul.
pub fn program_hash(func: &Func) -> u64 {
    let sink = Mixer { state: mix(0, PROGRAM_HASH_VERSION), memo: vec![0; func.arena.n_exprs()] };
    Walk::new(func, sink).run().state
}

/// Number of a variable bound by a let expression: this plus the number of let expressions around.
const LET: u32 = 1 << 31;
const UNKNOWN: u32 = u32::MAX;

struct Walk<'a, S> {
    func: &'a Func,
    sink: S,
    /// Number of each variable, in the order of binding.
    vars: Vec<u32>,
    n_vars: u32,
    /// Number of each buffer, in the order of binding.
    buffers: Vec<u32>,
    n_buffers: u32,
    /// Numbers of enclosing let expressions and of let expressions visited so far; see `Compare` of [`super::equal`].
    open_lets: u32,
    n_lets: u32,
}

impl<'a, S: Sink> Walk<'a, S> {
    fn new(func: &'a Func, sink: S) -> Self {
        Walk {
            func,
            sink,
            vars: vec![UNKNOWN; func.arena.n_vars()],
            n_vars: 0,
            buffers: vec![UNKNOWN; func.arena.n_buffers()],
            n_buffers: 0,
            open_lets: 0,
            n_lets: 0,
        }
    }

    fn run(mut self) -> S {
        let func = self.func;
        self.sink.count(func.params.len());
        for p in &func.params {
            match p.buffer {
                Some(b) => {
                    self.sink.tag(b'b');
                    self.bind_buffer(b);
                }
                None => {
                    self.sink.tag(b's');
                    self.bind_var(p.var);
                }
            }
        }
        if let Some(dtype) = func.returns {
            self.sink.tag(b'r');
            self.sink.tag(dtype_code(dtype));
        }
        self.annotations(&func.attrs, Some(Symbol::new("global_symbol")));
        self.stmt(func.root.stmt());
        self.sink
    }

    // ---- variables and buffers -----------------------------------------------------------------------------

    fn bind_var(&mut self, v: VarId) {
        let var = self.func.arena.var(v);
        self.ty(var.ty());
        if let Some(pointee) = var.pointee {
            self.ty(pointee.ty);
            self.sink.text(pointee.scope);
        }
        self.number(v);
    }

    /// Writes the code of a scalar type, or for a vector the code of its lanes with the high bit set, then their
    /// number.
    fn ty(&mut self, ty: Ty) {
        if ty.lanes == 1 {
            self.sink.tag(dtype_code(ty.dtype));
        } else {
            self.sink.tag(dtype_code(ty.dtype) | 0x80);
            self.sink.count(usize::from(ty.lanes));
        }
    }

    fn number(&mut self, v: VarId) -> u32 {
        let slot = &mut self.vars[v.index()];
        if *slot == UNKNOWN {
            *slot = self.n_vars;
            self.n_vars += 1;
        }
        *slot
    }

    fn bind_buffer(&mut self, b: BufferId) {
        if self.buffers[b.index()] == UNKNOWN {
            self.buffers[b.index()] = self.n_buffers;
            self.n_buffers += 1;
        }
        let buffer = self.func.arena.buffer(b);
        self.ty(buffer.ty());
        self.list(buffer.shape);
        self.sink.text(buffer.scope);
        match buffer.strides {
            None => self.sink.tag(0),
            Some(strides) => {
                self.sink.tag(1);
                self.list(strides);
            }
        }
        match offset(self.func, buffer.elem_offset) {
            None => self.sink.tag(0),
            Some(e) => {
                self.sink.tag(1);
                self.expr(e);
            }
        }
        self.sink.count(alignment(buffer.align) as usize);
        self.sink.count(buffer.offset_factor.max(1) as usize);
        self.sink.count(buffer.axis_separators.len());
        for &axis in &buffer.axis_separators {
            self.sink.count(axis as usize);
        }
        // A buffer with a default layout hashes as it did before layouts could be stated.
        if buffer.no_layout {
            self.sink.tag(b'L');
        }
    }

    fn buffer(&mut self, b: BufferId) {
        match self.buffers[b.index()] {
            UNKNOWN => {
                self.sink.tag(b'n');
                self.bind_buffer(b);
            }
            n => {
                self.sink.tag(b'o');
                self.sink.count(n as usize);
            }
        }
    }

    fn region(&mut self, r: &BufferRegion) {
        self.buffer(r.buffer);
        self.list(r.mins);
        self.list(r.extents);
    }

    fn regions(&mut self, all: &[BufferRegion]) {
        self.sink.count(all.len());
        all.iter().for_each(|r| self.region(r));
    }

    // ---- expressions ---------------------------------------------------------------------------------------

    fn list(&mut self, l: ExprList) {
        let func = self.func;
        let items = func.arena.list(l);
        self.sink.count(items.len());
        items.iter().for_each(|&e| self.expr(e));
    }

    fn expr(&mut self, e: ExprId) {
        let may_remember = self.open_lets == 0;
        let Ok(entered) = self.sink.enter(e, may_remember) else { return };
        let n_lets = self.n_lets;
        self.expr_inside(e);
        self.sink.leave(e, entered, may_remember && n_lets == self.n_lets);
    }

    fn expr_inside(&mut self, e: ExprId) {
        let arena = &self.func.arena;
        let dtype = arena.dtype(e);
        let mut head = |tag: u8| {
            self.sink.tag(tag);
            self.ty(arena.ty(e));
        };
        match arena.expr(e) {
            Expr::Int(v) => {
                head(b'i');
                self.sink.int(v);
            }
            Expr::Float(bits) => {
                head(b'f');
                self.sink.int(float_bits(bits, dtype) as i64);
            }
            Expr::Str(text) => {
                head(b't');
                self.sink.text(text);
            }
            Expr::Var(v) => {
                head(b'v');
                match self.number(v) {
                    n if n >= LET => {
                        self.sink.tag(1);
                        self.sink.count((n - LET) as usize);
                    }
                    n => {
                        self.sink.tag(0);
                        self.sink.count(n as usize);
                    }
                }
            }
            Expr::Binary(op, a, b) => {
                head(b'o');
                self.sink.tag(binary_code(op));
                self.expr(a);
                self.expr(b);
            }
            Expr::Compare(op, a, b) => {
                head(b'c');
                self.sink.tag(compare_code(op));
                self.expr(a);
                self.expr(b);
            }
            Expr::Not(a) => {
                head(b'n');
                self.expr(a);
            }
            Expr::Cast(a) => {
                head(b'a');
                self.expr(a);
            }
            Expr::BufferData(b) => {
                head(b'd');
                self.buffer(b);
            }
            Expr::Select(c, t, o) => {
                head(b's');
                self.expr(c);
                self.expr(t);
                self.expr(o);
            }
            Expr::IfThenElse(c, t, o) => {
                head(b'e');
                self.expr(c);
                self.expr(t);
                self.expr(o);
            }
            Expr::Load(b, indices) => {
                head(b'l');
                self.buffer(b);
                self.list(indices);
            }
            Expr::Call(function, args) => {
                head(b'p');
                self.sink.text(Symbol::new(function.name()));
                self.list(args);
            }
            Expr::Let(v, value, body) => {
                head(b'w');
                self.ty(arena.var(v).ty());
                self.expr(value);
                let before = std::mem::replace(&mut self.vars[v.index()], LET + self.open_lets);
                self.n_lets += 1;
                self.open_lets += 1;
                self.expr(body);
                self.open_lets -= 1;
                self.vars[v.index()] = before;
            }
            Expr::Ramp(base, stride) => {
                head(b'r');
                self.expr(base);
                self.expr(stride);
            }
            Expr::Broadcast(value) => {
                head(b'b');
                self.expr(value);
            }
            Expr::Shuffle(vectors, indices) => {
                head(b'h');
                self.list(vectors);
                self.list(indices);
            }
            Expr::Builtin(function, args) => {
                head(b'u');
                self.sink.text(Symbol::new(function.name()));
                self.list(args);
            }
        }
    }

    // ---- attributes ----------------------------------------------------------------------------------------

    fn annotations(&mut self, all: &Annotations, ignored: Option<Symbol>) {
        let mut kept: Vec<&(Symbol, AttrValue)> = all.iter().filter(|(k, _)| Some(*k) != ignored).collect();
        if kept.len() > 1 {
            // Sort by the current spelling, whichever one was written.
            kept.sort_by_key(|(k, _)| key_parts(k.as_str()));
        }
        self.sink.count(kept.len());
        for (key, value) in kept {
            self.sink.key(*key);
            self.value(value);
        }
    }

    fn value(&mut self, value: &AttrValue) {
        match value {
            AttrValue::Int(v) => {
                self.sink.tag(b'i');
                self.sink.int(*v);
            }
            AttrValue::Float(v) => {
                self.sink.tag(b'f');
                self.sink.int(float_bits(v.to_bits(), DType::Float64) as i64);
            }
            AttrValue::Bool(v) => {
                self.sink.tag(b'b');
                self.sink.tag(u8::from(*v));
            }
            AttrValue::Str(text) => {
                self.sink.tag(b't');
                self.sink.text(*text);
            }
            AttrValue::None => self.sink.tag(b'n'),
            AttrValue::List(items) => {
                self.sink.tag(b'l');
                self.sink.count(items.len());
                items.iter().for_each(|v| self.value(v));
            }
            AttrValue::Dict(items) => {
                self.sink.tag(b'd');
                self.sink.count(items.len());
                for (key, v) in items {
                    self.sink.text(*key);
                    self.value(v);
                }
            }
            AttrValue::Expr(e) => {
                self.sink.tag(b'e');
                self.expr(*e);
            }
            AttrValue::Buffer(e) => {
                self.sink.tag(b'B');
                self.expr(*e);
            }
            AttrValue::Region { data, ranges } => {
                self.sink.tag(b'R');
                self.expr(*data);
                self.sink.count(ranges.len());
                for &(min, extent) in ranges {
                    self.expr(min);
                    self.expr(extent);
                }
            }
            AttrValue::Target(target) => {
                self.sink.tag(b'T');
                self.value(target);
            }
            AttrValue::Object(kind, items) => {
                self.sink.tag(b'o');
                self.sink.text(Symbol::new(kind.name()));
                self.sink.count(items.len());
                items.iter().for_each(|v| self.value(v));
            }
            AttrValue::IndexMap(vars, results) => {
                self.sink.tag(b'm');
                self.sink.count(vars.len());
                for &e in vars {
                    if let Some(v) = self.func.arena.as_var(e) {
                        self.bind_var(v);
                    }
                }
                self.sink.count(results.len());
                results.iter().for_each(|&e| self.expr(e));
            }
        }
    }

    // ---- statements ----------------------------------------------------------------------------------------

    fn body(&mut self, body: &Body) {
        self.sink.count(body.len());
        body.iter().for_each(|&s| self.stmt(s));
    }

    fn stmt(&mut self, s: StmtId) {
        let func = self.func;
        match func.get(s) {
            Stmt::Loop(l) => {
                self.sink.tag(b'L');
                self.expr(l.min);
                self.expr(l.extent);
                // A loop without a step hashes as it did before steps existed.
                if let Some(step) = l.step {
                    self.sink.tag(b'/');
                    self.expr(step);
                }
                match l.kind {
                    LoopKind::Serial => self.sink.tag(0),
                    LoopKind::Parallel => self.sink.tag(1),
                    LoopKind::Vectorized => self.sink.tag(2),
                    LoopKind::Unrolled => self.sink.tag(3),
                    LoopKind::ThreadBinding(axis) => {
                        self.sink.tag(4);
                        self.sink.text(axis);
                    }
                }
                self.bind_var(l.var);
                self.annotations(&l.annotations, None);
                self.body(&l.body);
            }
            Stmt::Block(b) => self.block(b),
            Stmt::Store { buffer, indices, value } => {
                self.sink.tag(b'S');
                self.buffer(*buffer);
                self.list(*indices);
                self.expr(*value);
            }
            Stmt::If { condition, then, otherwise } => {
                self.sink.tag(b'I');
                self.expr(*condition);
                self.body(then);
                self.body(otherwise);
            }
            Stmt::Let { var, value, body } => {
                self.sink.tag(b'T');
                self.expr(*value);
                self.bind_var(*var);
                self.body(body);
            }
            Stmt::Evaluate(value) => {
                self.sink.tag(b'E');
                self.expr(*value);
            }
            Stmt::Alloc { buffer, annotations } => {
                self.sink.tag(b'A');
                self.bind_buffer(*buffer);
                self.annotations(annotations, None);
            }
            Stmt::Declare { buffer, data } => {
                self.sink.tag(b'D');
                self.expr(*data);
                self.bind_buffer(*buffer);
            }
            Stmt::While { condition, body } => {
                self.sink.tag(b'W');
                self.expr(*condition);
                self.body(body);
            }
            Stmt::Break => self.sink.tag(b'K'),
            Stmt::Continue => self.sink.tag(b'C'),
            Stmt::Return(value) => {
                self.sink.tag(b'R');
                self.expr(*value);
            }
            Stmt::Assert(a) => {
                self.sink.tag(b'a');
                self.expr(a.condition);
                self.sink.text(a.kind);
                self.sink.count(a.message.len());
                a.message.iter().for_each(|&part| self.sink.text(part));
            }
            Stmt::Attr(a) => {
                self.sink.tag(b't');
                self.value(&a.node);
                self.sink.text(a.key);
                self.expr(a.value);
                self.body(&a.body);
            }
        }
    }

    fn block(&mut self, b: &Block) {
        self.sink.tag(b'B');
        self.sink.text(b.name);
        self.sink.count(b.iters.len());
        for iter in &b.iters {
            self.sink.tag(match iter.kind {
                IterKind::Spatial => 0,
                IterKind::Reduce => 1,
                IterKind::Scan => 2,
                IterKind::Opaque => 3,
            });
            self.expr(iter.min);
            self.expr(iter.extent);
            self.expr(iter.value);
            self.bind_var(iter.var);
        }
        self.expr(b.predicate);
        self.sink.count(b.allocs.len());
        b.allocs.iter().for_each(|&a| self.bind_buffer(a));
        self.sink.count(b.matches.len());
        for m in &b.matches {
            self.region(&m.source);
            self.bind_buffer(m.buffer);
        }
        self.regions(&b.reads);
        self.regions(&b.writes);
        self.annotations(&b.annotations, None);
        match &b.init {
            None => self.sink.tag(0),
            Some(init) => {
                self.sink.tag(1);
                self.body(init);
            }
        }
        self.body(&b.body);
    }
}

/// The numbers of the types in the byte form; they are part of the format.
fn dtype_code(t: DType) -> u8 {
    match t {
        DType::Float16 => 1,
        DType::BFloat16 => 2,
        DType::Float32 => 3,
        DType::Float64 => 4,
        DType::Int8 => 5,
        DType::Int16 => 6,
        DType::Int32 => 7,
        DType::Int64 => 8,
        DType::UInt8 => 9,
        DType::UInt16 => 10,
        DType::UInt32 => 11,
        DType::UInt64 => 12,
        DType::Bool => 13,
        DType::Handle => 14,
        DType::Str => 15,
        DType::Float8(t) => match t {
            Float8::E3M4 => 16,
            Float8::E4M3 => 17,
            Float8::E4M3B11FNUZ => 18,
            Float8::E4M3FN => 19,
            Float8::E4M3FNUZ => 20,
            Float8::E5M2 => 21,
            Float8::E5M2FNUZ => 22,
            Float8::E8M0FNU => 23,
        },
        DType::Narrow(t) => match t {
            Narrow::Float4E2M1FN => 24,
            Narrow::Float6E2M3FN => 25,
            Narrow::Float6E3M2FN => 26,
            Narrow::Int1 => 27,
            Narrow::Int2 => 28,
            Narrow::Int4 => 29,
            Narrow::UInt1 => 30,
            Narrow::UInt2 => 31,
            Narrow::UInt4 => 32,
        },
    }
}

/// The numbers of the operators in the byte form.
fn binary_code(op: BinOp) -> u8 {
    match op {
        BinOp::Add => 1,
        BinOp::Sub => 2,
        BinOp::Mul => 3,
        BinOp::Div => 4,
        BinOp::Mod => 5,
        BinOp::FloorDiv => 6,
        BinOp::FloorMod => 7,
        BinOp::Min => 8,
        BinOp::Max => 9,
        BinOp::And => 10,
        BinOp::Or => 11,
    }
}

/// The numbers of the comparisons in the byte form.
fn compare_code(op: CmpOp) -> u8 {
    match op {
        CmpOp::Eq => 1,
        CmpOp::Ne => 2,
        CmpOp::Lt => 3,
        CmpOp::Le => 4,
        CmpOp::Gt => 5,
        CmpOp::Ge => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples::{matmul, padded_window, relu, tiled_matmul};

    #[test]
    fn golden_values() {
        let cases = [
            ("matmul 128", matmul(128, 128, 128, DType::Float32), (6987635585991223185, 6528257442762386947)),
            ("matmul 128 float64", matmul(128, 128, 128, DType::Float64), (12527347569210736678, 13913940501249905125)),
            ("tiled matmul", tiled_matmul(4), (15808304152998973584, 14879925812284991049)),
            ("padded window", padded_window(56), (1852232963661279224, 2212357962860796451)),
            ("relu", relu(1, 4096), (17489429489671245720, 11906989101359758228)),
        ];
        for (name, f, expected) in cases {
            assert_eq!((workload_hash(&f).0, program_hash(&f)), expected, "{name}");
        }
    }

    #[test]
    fn the_byte_form_is_as_documented() {
        let f = relu(2, 3);
        let bytes = canonical_bytes(&f);
        // Version, two parameters, the first a float32 buffer of two int32 extents.
        let start: [u8; 16] = [1, 2, b'b', 3, 2, b'i', 7, 2, 0, 0, 0, 0, 0, 0, 0, b'i'];
        assert_eq!(bytes[..16], start);
    }

    fn same(f: &Func, g: &Func) -> bool {
        let (w, p) = (workload_hash(f) == workload_hash(g), program_hash(f) == program_hash(g));
        assert_eq!(w, p, "both hashes agree on what is equal");
        w
    }

    #[test]
    fn names_of_variables_buffers_and_functions_do_not_count() {
        let f = padded_window(9);
        let mut g = f.clone();
        g.name = "other".into();
        g.attrs.insert("global_symbol", AttrValue::Str("other".into()));
        for v in g.arena.var_ids() {
            g.arena.rename_var(v, "x");
        }
        for b in g.arena.buffer_ids() {
            g.arena.update_buffer(b, |b| b.name = "X".into());
        }
        let first = g.block(g.root).body[0];
        let copy = g.copy_subtree(first, &mut Default::default());
        g.replace(first, &[copy]);
        assert!(same(&f, &g));
    }

    #[test]
    fn structure_counts() {
        let f = matmul(8, 8, 8, DType::Float32);
        let mut others = vec![matmul(8, 8, 4, DType::Float32), matmul(8, 8, 8, DType::Int32), relu(8, 8)];
        let mut change = |edit: &dyn Fn(&mut Func)| {
            let mut g = f.clone();
            edit(&mut g);
            others.push(g);
        };
        change(&|g| {
            let b = g.blocks()[0];
            g.block_mut(b).name = "D".into();
        });
        change(&|g| {
            g.attrs.remove("tirx.noalias");
        });
        change(&|g| {
            let b = g.blocks()[0];
            g.block_mut(b).annotations.insert("k", AttrValue::Int(1));
        });
        change(&|g| {
            let b = g.blocks()[0];
            g.block_mut(b).annotations.insert("k", AttrValue::Float(1.0));
        });
        change(&|g| {
            let b = g.blocks()[0];
            g.block_mut(b).reads.reverse();
        });
        change(&|g| {
            let l = g.as_loop(g.block(g.root).body[0]).expect("a loop");
            g.loop_mut(l).kind = LoopKind::ThreadBinding("threadIdx.x".into());
        });
        for (i, g) in others.iter().enumerate() {
            assert!(!same(&f, g), "change {i}");
            for h in &others[..i] {
                assert!(!same(h, g), "change {i}");
            }
        }
    }

    #[test]
    fn classic_and_current_spelling_are_one() {
        let f = matmul(4, 4, 4, DType::Float32);
        let mut g = f.clone();
        g.attrs.remove("tirx.noalias");
        g.attrs.insert("tir.noalias", AttrValue::Bool(true));
        assert!(same(&f, &g));
    }
}
