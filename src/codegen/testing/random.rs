//! Random kernels that keep the invariants of the loop IR: bounded loops, accesses in bounds or guarded.

use super::{below, rng};
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::{
    Access, Affine, BufferId, ExprId, Failure, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, Ty,
    VarId,
};
use rand_chacha::ChaCha8Rng;

/// What random kernels compute with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbers {
    /// Integers of all types: results are exact.
    Integers,
    /// Floats of one type, with operations that stay near the exact result.
    Floats(DType),
}

/// The kernel of a seed.
pub(crate) fn random_kernel(seed: u64, numbers: Numbers) -> Kernel {
    let mut g = Generator {
        rng: rng(seed),
        kernel: Kernel::new("random"),
        numbers,
        inputs: Vec::new(),
        loops: Vec::new(),
        needed: Vec::new(),
    };
    g.kernel()
}

struct Generator {
    rng: ChaCha8Rng,
    kernel: Kernel,
    numbers: Numbers,
    inputs: Vec<BufferId>,
    /// The loops around, with their extents.
    loops: Vec<(VarId, i64)>,
    /// Largest index used of each buffer.
    needed: Vec<i64>,
}

impl Generator {
    fn chance(&mut self, one_in: usize) -> bool {
        below(&mut self.rng, one_in) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[below(&mut self.rng, from.len())]
    }

    fn dtype(&mut self) -> DType {
        match self.numbers {
            Numbers::Floats(dtype) => dtype,
            Numbers::Integers => self.pick(&[
                DType::Int32,
                DType::Int32,
                DType::Int64,
                DType::Int8,
                DType::UInt8,
                DType::Int16,
                DType::UInt16,
                DType::UInt32,
                DType::UInt64,
                DType::Bool,
            ]),
        }
    }

    fn kernel(&mut self) -> Kernel {
        // Lengths are not known before the indices are; buffers get generous ones and indices are kept below.
        const LEN: i64 = 4000;
        for i in 0..3 {
            let dtype = self.dtype();
            let id = self.kernel.add_param(format!("X{i}").as_str(), dtype, LEN, Access::In);
            self.inputs.push(id);
        }
        let n_outputs = 1 + below(&mut self.rng, 2);
        let outputs: Vec<BufferId> = (0..n_outputs)
            .map(|i| {
                let dtype = self.dtype();
                self.kernel.add_param(format!("Y{i}").as_str(), dtype, LEN, Access::InOut)
            })
            .collect();
        let dtype = self.dtype();
        let scratch = self.kernel.add_scratch("T", dtype, LEN, Placement::Shared);
        self.needed = vec![0; self.kernel.n_buffers()];
        let mut stmts = Vec::new();
        if self.chance(2) {
            stmts.push(self.producer(scratch));
        }
        let has_scratch = !stmts.is_empty();
        if has_scratch {
            self.inputs.push(scratch);
        }
        for output in outputs {
            let depth = 1 + below(&mut self.rng, 3);
            stmts.push(self.nest(output, depth));
        }
        self.kernel.body = self.kernel.stmts.body(&stmts);
        let n = self.kernel.n_buffers();
        for i in 0..n {
            let (b, _) = self.kernel.buffers().nth(i).expect("counted");
            let (needed, dtype) = (self.needed[i], self.kernel.buffer(b).dtype);
            // Exactly as long as needed, unless scratch must not be read where it was not written.
            if b != scratch {
                self.kernel.buffer_mut(b).len = needed + 1;
                self.kernel.buffer_mut(b).align = dtype.bytes() as u32;
            }
        }
        self.kernel.clone()
    }

    /// A loop that writes all of the scratch buffer.
    fn producer(&mut self, scratch: BufferId) -> StmtId {
        let len = self.kernel.buffer(scratch).len;
        let (var, i) = self.kernel.arena.new_index("p");
        self.loops.push((var, len));
        let value = self.expr(self.kernel.buffer(scratch).dtype, 1);
        self.loops.pop();
        let store = self.kernel.store(scratch, i, value);
        let body = self.kernel.stmts.body(&[store]);
        let extent = self.kernel.arena.index(len);
        self.kernel.stmts.push(Stmt::For(For::serial(var, extent, body)))
    }

    fn nest(&mut self, output: BufferId, depth: usize) -> StmtId {
        if self.loops.len() == depth {
            return self.leaf(output);
        }
        let extent = self.pick(&[1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 19]);
        let (var, _) = self.kernel.arena.new_index(["i", "j", "k"][self.loops.len()]);
        self.loops.push((var, extent));
        let mut stmts = Vec::new();
        if self.chance(6) {
            stmts.push(self.leaf(output));
        }
        let inner = self.nest(output, depth);
        stmts.push(inner);
        if self.chance(6) {
            stmts.push(self.leaf(output));
        }
        if self.chance(6) {
            let condition = self.condition();
            let then = self.kernel.stmts.body(&stmts);
            let otherwise = if self.chance(2) {
                let leaf = self.leaf(output);
                self.kernel.stmts.body(&[leaf])
            } else {
                crate::loopir::Body::EMPTY
            };
            stmts = vec![self.kernel.stmts.push(Stmt::If { condition, then, otherwise })];
        }
        self.loops.pop();
        let body = self.kernel.stmts.body(&stmts);
        let kind = self.pick(&[LoopKind::Serial, LoopKind::Serial, LoopKind::Unroll]);
        let extent = self.kernel.arena.index(extent);
        let hints = Hints { unroll: self.pick(&[0, 0, 16, 64]), stream: false };
        let l = For { var, extent, kind, iterations: Iterations::Unknown, hints, body };
        self.kernel.stmts.push(Stmt::For(l))
    }

    /// A store, possibly with an initialisation before it, conditions and names around it.
    fn leaf(&mut self, output: BufferId) -> StmtId {
        let dtype = self.kernel.buffer(output).dtype;
        let (index, reduced) = self.output_index(output);
        let mut value = self.expr(dtype, 2);
        let mut init = None;
        if !reduced.is_empty() || self.chance(4) {
            let old = self.kernel.load(output, index);
            let op = match (dtype, self.numbers) {
                (DType::Bool, _) => self.pick(&[BinOp::And, BinOp::Or]),
                (_, Numbers::Integers) => self.pick(&[BinOp::Add, BinOp::Mul, BinOp::Min, BinOp::Max, BinOp::Sub]),
                (_, Numbers::Floats(_)) => self.pick(&[BinOp::Add, BinOp::Add, BinOp::Min, BinOp::Max]),
            };
            value = self.kernel.arena.binary(op, old, value);
            if !reduced.is_empty() && self.chance(2) {
                init = Some(reduced);
            }
        }
        let mut stmts = Vec::new();
        if let Some(reduced) = init {
            let mut condition = self.kernel.arena.bool(true);
            for v in reduced {
                let (v, zero) = (self.kernel.arena.var_expr(v), self.kernel.arena.index(0));
                let first = self.kernel.arena.compare(CmpOp::Eq, v, zero);
                condition = self.kernel.arena.and(condition, first);
            }
            let zero = self.kernel.arena.constant(0, Ty::scalar(dtype));
            let store = self.kernel.store(output, index, zero);
            let then = self.kernel.stmts.body(&[store]);
            let otherwise = crate::loopir::Body::EMPTY;
            stmts.push(self.kernel.stmts.push(Stmt::If { condition, then, otherwise }));
        }
        if self.chance(4) {
            let var = self.kernel.arena.new_var("v", Ty::scalar(dtype));
            stmts.push(self.kernel.stmts.push(Stmt::Let { var, value }));
            value = self.kernel.arena.var_expr(var);
        }
        if self.chance(12) {
            let condition = self.condition();
            let truth = self.kernel.arena.not(condition);
            let condition = self.kernel.arena.binary(BinOp::Or, condition, truth);
            let failure = Failure::Assertion;
            stmts.push(self.kernel.stmts.push(Stmt::Check { condition, failure }));
        }
        stmts.push(self.kernel.store(output, index, value));
        let condition =
            if stmts.len() == 1 && !self.chance(5) { self.kernel.arena.bool(true) } else { self.condition() };
        if stmts.len() == 1 && self.kernel.arena.as_int(condition) == Some(1) {
            return stmts[0];
        }
        let then = self.kernel.stmts.body(&stmts);
        self.kernel.stmts.push(Stmt::If { condition, then, otherwise: crate::loopir::Body::EMPTY })
    }

    /// An index over some of the loops around, and the loops it leaves out.
    fn output_index(&mut self, output: BufferId) -> (ExprId, Vec<VarId>) {
        let mut affine = Affine::constant(below(&mut self.rng, 3) as i64);
        let mut reduced = Vec::new();
        let mut stride = 1;
        let mut max = affine.constant;
        for (var, extent) in self.loops.clone().into_iter().rev() {
            if self.chance(3) {
                reduced.push(var);
                continue;
            }
            let v = self.kernel.arena.var_expr(var);
            affine.add_term(v, stride);
            max += stride * (extent - 1);
            stride *= extent;
            if self.chance(8) {
                stride += 1;
            }
        }
        self.need(output, max);
        (affine.to_expr(&mut self.kernel.arena), reduced)
    }

    fn need(&mut self, b: BufferId, max: i64) {
        let needed = &mut self.needed[b.index()];
        *needed = (*needed).max(max);
    }

    fn condition(&mut self) -> ExprId {
        let Some(&(var, extent)) = self.loops.last() else { return self.kernel.arena.bool(true) };
        let (var, extent) = if self.chance(2) { (var, extent) } else { self.pick(&self.loops.clone()) };
        let v = self.kernel.arena.var_expr(var);
        let c = self.kernel.arena.index(below(&mut self.rng, extent as usize + 1) as i64);
        let op = self.pick(&[CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge, CmpOp::Eq, CmpOp::Ne]);
        let mut condition = self.kernel.arena.compare(op, v, c);
        if self.chance(4) {
            let other = self.condition();
            let op = self.pick(&[BinOp::And, BinOp::Or]);
            condition = self.kernel.arena.binary(op, condition, other);
        }
        condition
    }

    /// An element of some input, converted to `dtype`.
    fn load(&mut self, dtype: DType) -> ExprId {
        let b = self.pick(&self.inputs.clone());
        let mut affine = Affine::constant(below(&mut self.rng, 4) as i64);
        let mut max = affine.constant;
        for (var, extent) in self.loops.clone() {
            let c = self.pick(&[0, 1, 1, 2, 3, 19]);
            if max + c * (extent - 1) >= 4000 {
                continue;
            }
            let v = self.kernel.arena.var_expr(var);
            affine.add_term(v, c);
            max += c * (extent - 1);
        }
        let mut index = affine.to_expr(&mut self.kernel.arena);
        if self.chance(6) {
            let (divisor, op) = (self.pick(&[2, 3, 4]), self.pick(&[BinOp::FloorDiv, BinOp::FloorMod]));
            let divisor = self.kernel.arena.index(divisor);
            index = self.kernel.arena.binary(op, index, divisor);
        }
        self.need(b, max.max(4));
        let value = self.kernel.load(b, index);
        if self.chance(5)
            && let Some(&(var, extent)) = self.loops.last()
        {
            // One that is out of bounds unless guarded.
            let v = self.kernel.arena.var_expr(var);
            let shift = 1 + below(&mut self.rng, 3) as i64;
            let index = self.kernel.arena.add_const(v, -shift);
            let limit = self.kernel.arena.index(shift);
            let inside = self.kernel.arena.compare(CmpOp::Ge, v, limit);
            let guarded = self.kernel.load(b, index);
            self.need(b, extent);
            let value = self.kernel.arena.if_then_else(inside, guarded, value);
            return self.kernel.arena.cast(dtype, value);
        }
        self.kernel.arena.cast(dtype, value)
    }

    fn expr(&mut self, dtype: DType, depth: usize) -> ExprId {
        if depth == 0 || self.chance(5) {
            return match below(&mut self.rng, 5) {
                0 => {
                    let value = below(&mut self.rng, 5) as i64 - 1;
                    self.kernel.arena.constant(value, Ty::scalar(dtype))
                }
                1 if !self.loops.is_empty() && dtype != DType::Bool => {
                    let (var, _) = self.pick(&self.loops.clone());
                    let v = self.kernel.arena.var_expr(var);
                    let v = self.kernel.arena.cast(dtype, v);
                    if self.numbers == Numbers::Integers {
                        return v;
                    }
                    let scale = self.kernel.arena.float(1.0 / 32.0, dtype);
                    self.kernel.arena.mul(v, scale)
                }
                _ => self.load(dtype),
            };
        }
        let a = self.expr(dtype, depth - 1);
        match (self.numbers, below(&mut self.rng, 10)) {
            (_, 0) => {
                let condition = self.condition();
                let b = self.expr(dtype, depth - 1);
                self.kernel.arena.select(condition, a, b)
            }
            (_, 1) => {
                let (x, y) = (self.load(dtype), self.load(dtype));
                let condition = self.kernel.arena.compare(CmpOp::Lt, x, y);
                let b = self.expr(dtype, depth - 1);
                self.kernel.arena.if_then_else(condition, a, b)
            }
            (Numbers::Integers, 2) if dtype != DType::Bool => {
                let divisor = self.pick(&[1, 2, 3, 7, 8]);
                let divisor = self.kernel.arena.constant(divisor, Ty::scalar(dtype));
                let op = self.pick(&[BinOp::Div, BinOp::Mod, BinOp::FloorDiv, BinOp::FloorMod]);
                self.kernel.arena.binary(op, a, divisor)
            }
            (Numbers::Integers, 3) => {
                let b = self.expr(dtype, depth - 1);
                let f = self.pick(&[
                    Intrinsic::BitAnd,
                    Intrinsic::BitOr,
                    Intrinsic::BitXor,
                    Intrinsic::ShiftLeft,
                    Intrinsic::ShiftRight,
                ]);
                self.kernel.arena.call(f, &[a, b])
            }
            (Numbers::Integers, 4) => {
                let f = self.pick(&[Intrinsic::BitNot, Intrinsic::PopCount, Intrinsic::Clz]);
                let v = self.kernel.arena.call(f, &[a]);
                self.kernel.arena.cast(dtype, v)
            }
            (Numbers::Floats(_), 2) => {
                let f = self.pick(&[Intrinsic::Abs, Intrinsic::Floor, Intrinsic::Round]);
                // Rounding functions jump; what they are given is exact.
                let exact = self.load(dtype);
                self.kernel.arena.call(f, &[exact])
            }
            (Numbers::Floats(_), 3) => {
                let f = self.pick(&[Intrinsic::Exp, Intrinsic::Tanh, Intrinsic::Sigmoid, Intrinsic::Erf]);
                let x = self.load(dtype);
                self.kernel.arena.call(f, &[x])
            }
            _ => {
                let b = self.expr(dtype, depth - 1);
                let op = match dtype {
                    DType::Bool => self.pick(&[BinOp::And, BinOp::Or]),
                    _ => self.pick(&[BinOp::Add, BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Min, BinOp::Max]),
                };
                self.kernel.arena.binary(op, a, b)
            }
        }
    }
}
