//! Random kernels that keep the invariants of the loop IR: bounded loops, accesses in bounds or guarded.

use super::{below, rng};
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::{
    Access, Affine, BufferId, ExprId, Failure, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, Ty,
    VarId,
};
use rand_chacha::ChaCha8Rng;

/// The kind of numbers that random kernels use.
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

/// A kernel of the kind that lowering makes of scheduled blocks: loops with kinds, some fused, some vectorised or
/// unrolled; sums whose initialisation is in place, before, or missing; predicates; local results that are copied.
pub(crate) fn random_scheduled(seed: u64, numbers: Numbers) -> Kernel {
    let mut g = Generator {
        rng: rng(seed),
        kernel: Kernel::new("scheduled"),
        numbers,
        inputs: Vec::new(),
        loops: Vec::new(),
        needed: Vec::new(),
    };
    g.scheduled()
}

/// A loop of a scheduled nest.
#[derive(Clone, Copy)]
struct Planned {
    extent: i64,
    is_reduction: bool,
    /// Distance of the elements that successive iterations write.
    stride: i64,
    /// Whether the variable is derived from a fused loop's: `fused // divisor % extent`.
    is_fused: bool,
}

struct Generator {
    rng: ChaCha8Rng,
    kernel: Kernel,
    numbers: Numbers,
    inputs: Vec<BufferId>,
    /// The enclosing loops, with their extents.
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
        // Lengths are known only after the indices, so buffers are long and indices are kept below.
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
            let needed = self.needed[i];
            // Exactly as long as needed, except scratch, which must not be read where it was not written.
            if b != scratch {
                self.kernel.buffer_mut(b).len = needed + 1;
            }
        }
        self.kernel.clone()
    }

    fn scheduled(&mut self) -> Kernel {
        const LEN: i64 = 4000;
        for i in 0..3 {
            let dtype = self.dtype();
            let id = self.kernel.add_param(format!("X{i}").as_str(), dtype, LEN, Access::In);
            self.inputs.push(id);
        }
        let dtype = self.dtype();
        let output = self.kernel.add_param("Y", dtype, LEN, Access::InOut);
        let copy = self.kernel.add_param("Z", dtype, LEN, Access::InOut);
        let local = self.kernel.add_scratch("L", dtype, LEN, Placement::Shared);
        self.needed = vec![0; self.kernel.n_buffers()];
        // The loops, innermost last; strides from the inside out, sometimes in another order.
        let n_space = 1 + below(&mut self.rng, 3);
        let n_reduction = below(&mut self.rng, 3);
        let mut loops: Vec<Planned> = Vec::new();
        for i in 0..n_space + n_reduction {
            let small = [1, 2, 2, 3, 4, 5, 6, 8];
            let any = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 19, 33];
            let extent = if n_space + n_reduction > 3 { self.pick(&small) } else { self.pick(&any) };
            let at = below(&mut self.rng, loops.len() + 1);
            loops.insert(at, Planned { extent, is_reduction: i >= n_space, stride: 0, is_fused: false });
        }
        let mut order: Vec<usize> = (0..loops.len()).filter(|&i| !loops[i].is_reduction).rev().collect();
        if self.chance(4) {
            order.reverse();
        }
        let mut stride = if self.chance(8) { 2 } else { 1 };
        for i in order {
            loops[i].stride = stride;
            stride *= loops[i].extent;
        }
        let fuse = below(&mut self.rng, loops.len());
        if self.chance(3) && fuse + 1 < loops.len() && loops[fuse].is_reduction == loops[fuse + 1].is_reduction {
            loops[fuse].is_fused = true;
            loops[fuse + 1].is_fused = true;
        }
        let to = if self.chance(3) { local } else { output };
        let mut stmts = Vec::new();
        let has_init = n_reduction == 0 || to == local || self.chance(2);
        let in_place = has_init && n_reduction > 0 && self.chance(2);
        if has_init && !in_place && n_reduction > 0 {
            let space: Vec<Planned> = loops.iter().copied().filter(|l| !l.is_reduction).collect();
            let init = self.space_nest(&space, to, None);
            stmts.push(init);
        }
        let nest = self.update_nest(&loops, to, in_place);
        stmts.push(nest);
        if to == local || self.chance(3) {
            let space: Vec<Planned> = loops.iter().copied().filter(|l| !l.is_reduction).collect();
            let nest = self.space_nest(&space, copy, Some(to));
            stmts.push(nest);
        }
        self.kernel.body = self.kernel.stmts.body(&stmts);
        for i in 0..self.kernel.n_buffers() {
            let (b, _) = self.kernel.buffers().nth(i).expect("counted");
            let needed = self.needed[i];
            self.kernel.buffer_mut(b).len = needed + 1;
        }
        self.kernel.clone()
    }

    /// Opens loops around the innermost body, which `f` makes.
    fn planned(
        &mut self,
        loops: &[Planned],
        at: usize,
        indices: &mut Vec<ExprId>,
        f: &mut dyn FnMut(&mut Self, &[ExprId]) -> Vec<StmtId>,
    ) -> Vec<StmtId> {
        let Some(&l) = loops.get(at) else { return f(self, indices) };
        let fused = l.is_fused && loops.get(at + 1).is_some_and(|n| n.is_fused);
        let extent = if fused { l.extent * loops[at + 1].extent } else { l.extent };
        let (var, v) = self.kernel.arena.new_index(["i", "j", "k", "l", "m"][at.min(4)]);
        self.loops.push((var, extent));
        if fused {
            let d = self.kernel.arena.index(loops[at + 1].extent);
            indices.push(self.kernel.arena.binary(BinOp::FloorDiv, v, d));
            indices.push(self.kernel.arena.binary(BinOp::FloorMod, v, d));
        } else {
            indices.push(v);
        }
        let next = at + 1 + fused as usize;
        let stmts = self.planned(loops, next, indices, f);
        self.loops.pop();
        indices.truncate(at);
        let body = self.kernel.stmts.body(&stmts);
        let innermost = next == loops.len();
        let kind = match below(&mut self.rng, 6) {
            0 if at == 0 && !l.is_reduction && loops.iter().all(|l| !l.is_reduction) => LoopKind::Parallel,
            0..=2 if innermost && !l.is_reduction => LoopKind::Vector,
            3 => LoopKind::Unroll,
            _ => LoopKind::Serial,
        };
        let iterations = match (self.chance(6), l.is_reduction) {
            (true, _) if kind == LoopKind::Serial => Iterations::Unknown,
            (_, true) => Iterations::Reduction,
            (_, false) => Iterations::Independent,
        };
        let hints = Hints { unroll: self.pick(&[0, 0, 0, 16, 64]), stream: false };
        let extent = self.kernel.arena.index(extent);
        vec![self.kernel.stmts.push(Stmt::For(For { var, extent, kind, iterations, hints, body }))]
    }

    fn element(&mut self, loops: &[Planned], indices: &[ExprId], b: BufferId) -> ExprId {
        let mut index = self.kernel.arena.index(0);
        let mut max = 0;
        for (l, &i) in loops.iter().zip(indices) {
            if !l.is_reduction {
                let term = self.kernel.arena.mul_const(i, l.stride);
                index = self.kernel.arena.add(index, term);
                max += l.stride * (l.extent - 1);
            }
        }
        self.need(b, max);
        index
    }

    /// A nest that stores to each element: a constant, or a function of another buffer's element.
    fn space_nest(&mut self, loops: &[Planned], to: BufferId, from: Option<BufferId>) -> StmtId {
        let stmts = self.planned(loops, 0, &mut Vec::new(), &mut |g, indices| {
            let dtype = g.kernel.buffer(to).dtype;
            let index = g.element(loops, indices, to);
            let value = match from {
                None => g.kernel.arena.constant(1, Ty::scalar(dtype)),
                Some(from) => {
                    let index = g.element(loops, indices, from);
                    let x = g.kernel.load(from, index);
                    let y = g.load(dtype);
                    let op = if dtype == DType::Bool { BinOp::Or } else { BinOp::Add };
                    g.kernel.arena.binary(op, x, y)
                }
            };
            vec![g.kernel.store(to, index, value)]
        });
        stmts[0]
    }

    fn update_nest(&mut self, loops: &[Planned], to: BufferId, in_place: bool) -> StmtId {
        let reduces = loops.iter().any(|l| l.is_reduction);
        let stmts = self.planned(loops, 0, &mut Vec::new(), &mut |g, indices| {
            let dtype = g.kernel.buffer(to).dtype;
            let index = g.element(loops, indices, to);
            let depth = below(&mut g.rng, 3);
            let mut value = match (dtype, below(&mut g.rng, 3)) {
                (DType::Bool, _) | (_, 0) => g.expr(dtype, depth),
                _ => {
                    let (x, y) = (g.load(dtype), g.load(dtype));
                    g.kernel.arena.mul(x, y)
                }
            };
            let mut stmts = Vec::new();
            if reduces {
                let old = g.kernel.load(to, index);
                let op = match (dtype, g.numbers) {
                    (DType::Bool, _) => g.pick(&[BinOp::And, BinOp::Or]),
                    (_, Numbers::Integers) => g.pick(&[BinOp::Add, BinOp::Add, BinOp::Mul, BinOp::Min, BinOp::Max]),
                    (_, Numbers::Floats(_)) => g.pick(&[BinOp::Add, BinOp::Add, BinOp::Max]),
                };
                value = g.kernel.arena.binary(op, old, value);
            }
            if in_place {
                let mut condition = g.kernel.arena.bool(true);
                let zero = g.kernel.arena.index(0);
                for (l, &i) in loops.iter().zip(indices) {
                    if l.is_reduction {
                        let first = g.kernel.arena.compare(CmpOp::Eq, i, zero);
                        condition = g.kernel.arena.and(condition, first);
                    }
                }
                let start = g.kernel.arena.constant(0, Ty::scalar(dtype));
                let store = g.kernel.store(to, index, start);
                let then = g.kernel.stmts.body(&[store]);
                stmts.push(g.kernel.stmts.push(Stmt::If { condition, then, otherwise: crate::loopir::Body::EMPTY }));
            }
            stmts.push(g.kernel.store(to, index, value));
            // Local results are undefined where the predicate does not hold.
            if g.chance(4) && g.kernel.buffer(to).is_param() {
                let condition = g.condition();
                let then = g.kernel.stmts.body(&stmts);
                stmts = vec![g.kernel.stmts.push(Stmt::If { condition, then, otherwise: crate::loopir::Body::EMPTY })];
            }
            stmts
        });
        stmts[0]
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

    /// A store, possibly with an initialisation before it, and conditions and let bindings around it.
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
            let failure = Failure::Assertion { index: 0 };
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

    /// An index over some of the enclosing loops, and the loops that it does not use.
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
            // An index that is out of bounds unless guarded.
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
            (Numbers::Integers, 4) if matches!(dtype.bytes(), 4 | 8) && self.chance(2) => {
                let entries = self.pick(&[1, 2, 8]);
                let constant = |value| self.kernel.arena.int(value, dtype);
                let table: Vec<ExprId> = (0..entries).map(|i| i * i - 7 * i).map(constant).collect();
                self.kernel.arena.lookup(&table, a)
            }
            (Numbers::Integers, 4) => {
                let f = self.pick(&[Intrinsic::BitNot, Intrinsic::PopCount, Intrinsic::Clz]);
                let v = self.kernel.arena.call(f, &[a]);
                self.kernel.arena.cast(dtype, v)
            }
            (Numbers::Floats(_), 2) => {
                let f = self.pick(&[Intrinsic::Abs, Intrinsic::Floor, Intrinsic::Round]);
                // Rounding functions are discontinuous, so their operands must be exact.
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
