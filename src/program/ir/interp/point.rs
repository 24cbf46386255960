//! Computes single elements of a function's results on demand.
//!
//! The element `C[3, 5]` of a matmul needs one row and one column, whatever the size of the matrices. [`Points`] finds
//! the last block that stores to an element, solves the store's indices for the block's iterations, runs the reduction
//! over the remaining iterations, and computes the loaded elements in the same way. Results are memoised.
//!
//! This works for programs in the form of workloads: each block has its own loop nest, bound to the loops one to one,
//! and makes one store. For other programs [`Points::new`] returns `None`; an element that depends on another element
//! of the same nest has no value. The order of a reduction is that of the loops, so the result equals that of
//! [`run`](super::run()) bit for bit.

use super::Value;
use super::eval::{Env, Indices, Lane, eval, eval_int};
use super::fault::{Fault, RunError};
use super::layout::Layout;
use super::tensor::TensorRef;
use super::{ArgRef, Options};
use crate::ir::buffer::BufferId;
use crate::ir::expr::{Arena, Expr, ExprId, ExprList, VarId};
use crate::ir::func::Func;
use crate::ir::op::BinOp;
use crate::ir::scalar::Trap;
use crate::ir::stmt::{IterKind, Stmt, StmtId};
use hashbrown::HashMap;

/// Computes elements of one function for one set of arguments.
pub struct Points<'a> {
    func: &'a Func,
    options: Options,
    /// The argument of each buffer that is a parameter.
    inputs: Vec<Option<TensorRef<'a>>>,
    layouts: Vec<Option<Layout>>,
    producers: Vec<Producer>,
    /// The producers of each buffer, in program order.
    by_buffer: Vec<Vec<usize>>,
    vars: Vec<Option<Value>>,
    vectors: HashMap<VarId, Vec<Value>>,
    /// Values of elements after a producer: by number of the producer and position of the element.
    known: HashMap<(usize, usize), Value>,
    /// The element that is being computed.
    target: Option<Target>,
    steps: u64,
}

/// A block that stores to one element per instance.
struct Producer {
    stmt: StmtId,
    buffer: BufferId,
    value: ExprId,
    init: Option<ExprId>,
    predicate: Option<ExprId>,
    /// The enclosing loops, outermost first: variable, first value, extent.
    loops: Vec<(VarId, i64, i64)>,
    iters: Vec<Iter>,
    /// The indices of the store as functions of the loops.
    indices: Vec<Index>,
}

struct Iter {
    var: VarId,
    value: Binding,
    /// The first value of a reduction's domain.
    reduce_min: Option<i64>,
}

enum Binding {
    /// The loop at a position among the producer's loops.
    Loop(usize),
    Constant(i64),
}

enum Index {
    Constant(i64),
    /// `scale * (value of a loop) + offset`.
    Loop {
        position: usize,
        scale: i64,
        offset: i64,
    },
}

struct Target {
    producer: usize,
    indices: Indices,
    /// The current value; `None` before the first store.
    value: Option<Value>,
}

/// The reason why there is no value.
pub(super) enum Stop {
    Fault(Box<Fault>),
    /// The program does not have the supported form.
    Unsupported,
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(Box::new(fault))
    }
}

impl From<Trap> for Stop {
    fn from(trap: Trap) -> Stop {
        Stop::Fault(trap.into())
    }
}

impl Env for Points<'_> {
    type Stop = Stop;

    fn var(&self, v: VarId) -> Option<Value> {
        self.vars[v.index()]
    }

    fn set_var(&mut self, v: VarId, value: Option<Value>) -> Option<Value> {
        std::mem::replace(&mut self.vars[v.index()], value)
    }

    fn vectors(&mut self) -> &mut HashMap<VarId, Vec<Value>> {
        &mut self.vectors
    }

    fn load(&mut self, buffer: BufferId, indices: &[i64], lane: Lane) -> Result<Value, Stop> {
        let Some(target) = self.target.as_ref().filter(|_| !lane.of_vector) else { return Err(Stop::Unsupported) };
        let before = target.producer;
        if self.producers[before].buffer != buffer {
            return self.element(buffer, indices, before);
        }
        if target.indices[..] != *indices {
            return Err(Stop::Unsupported);
        }
        match target.value {
            Some(value) => Ok(value),
            None => self.element(buffer, indices, before),
        }
    }
}

impl<'a> Points<'a> {
    /// Prepares a verified function; `None` if its form is not supported or the arguments do not fit.
    pub fn new(func: &'a Func, args: &[ArgRef<'a>], options: Options) -> Option<Points<'a>> {
        let mut points = Points {
            func,
            options,
            inputs: vec![None; func.arena.n_buffers()],
            layouts: vec![None; func.arena.n_buffers()],
            producers: Vec::new(),
            by_buffer: vec![Vec::new(); func.arena.n_buffers()],
            vars: vec![None; func.arena.n_vars()],
            vectors: HashMap::new(),
            known: HashMap::new(),
            target: None,
            steps: 0,
        };
        points.prepare(args).ok()?;
        Some(points)
    }

    /// The element of a buffer at the end of the function; `None` if it cannot be computed on its own.
    pub fn eval(&mut self, buffer: BufferId, indices: &[i64]) -> Result<Option<Value>, RunError> {
        match self.element(buffer, indices, self.producers.len()) {
            Ok(value) => Ok(Some(value)),
            Err(stop) => {
                let stmt = self.target.take().map(|t| self.producers[t.producer].stmt);
                match stop {
                    Stop::Unsupported => Ok(None),
                    Stop::Fault(fault) => Err(RunError { stmt, fault: *fault }),
                }
            }
        }
    }

    // ---- analysis ------------------------------------------------------------------------------------------

    fn prepare(&mut self, args: &[ArgRef<'a>]) -> Result<(), Stop> {
        let func = self.func;
        if args.len() != func.params.len() {
            return Err(Stop::Unsupported);
        }
        for (p, arg) in func.params.iter().zip(args) {
            if let (None, ArgRef::Scalar(v)) = (p.buffer, arg) {
                self.vars[p.var.index()] = Some(*v);
            }
        }
        for (p, arg) in func.params.iter().zip(args) {
            if let (Some(b), ArgRef::Tensor(t)) = (p.buffer, arg) {
                Layout::bind_extents(&func.arena, self, b, *t);
            }
        }
        for (i, (p, arg)) in func.params.iter().zip(args).enumerate() {
            match (p.buffer, arg) {
                (Some(b), ArgRef::Tensor(t)) => {
                    self.layouts[b.index()] = Some(Layout::of_param(&func.arena, self, i, b, *t)?);
                    self.inputs[b.index()] = Some(*t);
                }
                (None, ArgRef::Scalar(_)) => {}
                _ => return Err(Stop::Unsupported),
            }
        }
        if func.arena.buffer_ids().any(|b| func.arena.buffer(b).lanes > 1) {
            return Err(Stop::Unsupported);
        }
        let root = func.block(func.root);
        for &b in &root.allocs {
            self.layouts[b.index()] = Some(Layout::of(&func.arena, self, b)?);
        }
        if !root.matches.is_empty() {
            return Err(Stop::Unsupported);
        }
        for &nest in &root.body {
            let producer = self.producer(nest)?;
            self.by_buffer[producer.buffer.index()].push(self.producers.len());
            self.producers.push(producer);
        }
        Ok(())
    }

    fn producer(&mut self, nest: StmtId) -> Result<Producer, Stop> {
        let func = self.func;
        let arena = &func.arena;
        let mut loops = Vec::new();
        let mut s = nest;
        while let Stmt::Loop(l) = func.get(s) {
            let (min, extent) = (self.constant(l.min)?, self.constant(l.extent)?);
            if l.step.is_some() {
                return Err(Stop::Unsupported);
            }
            loops.push((l.var, min, extent));
            let &[inner] = &l.body[..] else { return Err(Stop::Unsupported) };
            s = inner;
        }
        let Stmt::Block(block) = func.get(s) else { return Err(Stop::Unsupported) };
        let (buffer, list, value) = self.only_store(&block.body)?;
        let init = match &block.init {
            None => None,
            Some(init) => {
                let (b, l, value) = self.only_store(init)?;
                if (b, l) != (buffer, list) {
                    return Err(Stop::Unsupported);
                }
                Some(value)
            }
        };
        if !block.allocs.is_empty() || !block.matches.is_empty() {
            return Err(Stop::Unsupported);
        }
        let mut iters = Vec::new();
        let mut bound = vec![false; loops.len()];
        for iter in &block.iters {
            let (min, extent) = (self.constant(iter.min)?, self.constant(iter.extent)?);
            let domain = min..min + extent;
            let value = match arena.as_var(iter.value).and_then(|v| loops.iter().position(|l| l.0 == v)) {
                Some(position) if !bound[position] => {
                    let (_, first, n) = loops[position];
                    if first < domain.start || first + n > domain.end {
                        return Err(Stop::Unsupported);
                    }
                    bound[position] = true;
                    Binding::Loop(position)
                }
                Some(_) => return Err(Stop::Unsupported),
                None => {
                    let value = self.constant(iter.value)?;
                    if !domain.contains(&value) {
                        return Err(Stop::Unsupported);
                    }
                    Binding::Constant(value)
                }
            };
            let reduce_min = match iter.kind {
                IterKind::Reduce => Some(min),
                IterKind::Spatial | IterKind::Scan | IterKind::Opaque => None,
            };
            iters.push(Iter { var: iter.var, value, reduce_min });
        }
        let mut indices = Vec::new();
        let mut solved = vec![false; loops.len()];
        for &e in arena.list(list) {
            let index = self.index(e, &iters)?;
            if let Index::Loop { position, .. } = index {
                solved[position] = true;
            }
            indices.push(index);
        }
        // Loops that the indices do not determine must be reductions, or have one iteration.
        for (position, &(_, _, extent)) in loops.iter().enumerate() {
            let reduces =
                iters.iter().any(|i| i.reduce_min.is_some() && matches!(i.value, Binding::Loop(p) if p == position));
            if extent < 1 || (extent != 1 && !solved[position] && !reduces) {
                return Err(Stop::Unsupported);
            }
        }
        let predicate = (!arena.is_int(block.predicate, 1)).then_some(block.predicate);
        Ok(Producer { stmt: s, buffer, value, init, predicate, loops, iters, indices })
    }

    fn only_store(&self, body: &[StmtId]) -> Result<(BufferId, ExprList, ExprId), Stop> {
        match body {
            &[s] => match self.func.get(s) {
                Stmt::Store { buffer, indices, value } if self.func.arena.lanes(*value) == 1 => {
                    Ok((*buffer, *indices, *value))
                }
                _ => Err(Stop::Unsupported),
            },
            _ => Err(Stop::Unsupported),
        }
    }

    /// The value of an expression that no loop changes.
    fn constant(&mut self, e: ExprId) -> Result<i64, Stop> {
        let options = self.options;
        eval_int(&self.func.arena, self, options.precision, e)
    }

    /// An index as a multiple of one loop.
    fn index(&mut self, e: ExprId, iters: &[Iter]) -> Result<Index, Stop> {
        let arena = &self.func.arena;
        let Some((var, scale, offset)) = affine(arena, e) else {
            return Ok(Index::Constant(self.constant(e)?));
        };
        match iters.iter().find(|i| i.var == var).map(|i| &i.value) {
            Some(&Binding::Loop(position)) => Ok(Index::Loop { position, scale, offset }),
            Some(&Binding::Constant(v)) => Ok(Index::Constant(scale * v + offset)),
            None => Ok(Index::Constant(self.constant(e)?)),
        }
    }

    // ---- evaluation ----------------------------------------------------------------------------------------

    /// The element before a producer runs.
    fn element(&mut self, buffer: BufferId, indices: &[i64], before: usize) -> Result<Value, Stop> {
        let Some(layout) = &self.layouts[buffer.index()] else { return Err(Fault::UnboundBuffer { buffer }.into()) };
        let Some(at) = layout.position(indices) else {
            let shape = layout.shape.to_vec();
            return Err(Fault::OutOfBounds { buffer, indices: indices.to_vec(), shape }.into());
        };
        for i in (0..self.by_buffer[buffer.index()].len()).rev() {
            let producer = self.by_buffer[buffer.index()][i];
            if producer >= before {
                continue;
            }
            if let Some(&value) = self.known.get(&(producer, at)) {
                return Ok(value);
            }
            if let Some(loops) = self.solve(producer, indices) {
                let value = self.produce(producer, indices, &loops)?;
                self.known.insert((producer, at), value);
                return Ok(value);
            }
        }
        match self.inputs[buffer.index()] {
            Some(t) if at < t.n_elements() => Ok(t.get(at)),
            _ => Err(Fault::Unwritten { buffer, indices: indices.to_vec() }.into()),
        }
    }

    /// The values of the loops for which a producer stores to an element, `None` for reduction loops; `None` if it does
    /// not store to the element.
    fn solve(&self, producer: usize, indices: &[i64]) -> Option<Vec<Option<i64>>> {
        let p = &self.producers[producer];
        let mut loops = vec![None; p.loops.len()];
        for (index, &wanted) in p.indices.iter().zip(indices) {
            match *index {
                Index::Constant(v) if v == wanted => {}
                Index::Constant(_) => return None,
                Index::Loop { position, scale, offset } => {
                    let (_, min, extent) = p.loops[position];
                    let scaled = wanted - offset;
                    let value = scaled / scale;
                    let fits = scaled % scale == 0 && value >= min && value < min + extent;
                    if !fits || loops[position].is_some_and(|v| v != value) {
                        return None;
                    }
                    loops[position] = Some(value);
                }
            }
        }
        Some(loops)
    }

    /// The element after a producer that stores to it in the instances given by `solved`.
    fn produce(&mut self, producer: usize, indices: &[i64], solved: &[Option<i64>]) -> Result<Value, Stop> {
        let arena = &self.func.arena;
        let precision = self.options.precision;
        let outer = self.target.replace(Target { producer, indices: Indices::from_slice(indices), value: None });
        let mut current: Vec<i64> =
            self.producers[producer].loops.iter().zip(solved).map(|(l, s)| s.unwrap_or(l.1)).collect();
        loop {
            let p = &self.producers[producer];
            let mut first = true;
            for (&(var, _, _), &v) in p.loops.iter().zip(&current) {
                self.vars[var.index()] = Some(Value::Int(v));
            }
            for iter in &p.iters {
                let v = match iter.value {
                    Binding::Loop(position) => current[position],
                    Binding::Constant(v) => v,
                };
                first &= iter.reduce_min.is_none_or(|min| min == v);
                self.vars[iter.var.index()] = Some(Value::Int(v));
            }
            let (value, init) = (p.value, p.init.filter(|_| first));
            let runs = match p.predicate {
                None => true,
                Some(e) => eval(arena, self, precision, e)? != Value::Int(0),
            };
            if runs {
                for e in init.into_iter().chain([value]) {
                    let value = eval(arena, self, precision, e)?;
                    if let Some(target) = &mut self.target {
                        target.value = Some(value);
                    }
                }
            }
            self.steps += 1;
            if self.steps > self.options.max_steps {
                return Err(Fault::TooLong.into());
            }
            // Advance to the next instance: increment the innermost reduction loop that has one left.
            let loops = &self.producers[producer].loops;
            let next = (0..loops.len()).rev().find(|&i| {
                let (_, min, extent) = loops[i];
                if solved[i].is_some() {
                    return false;
                }
                current[i] += 1;
                if current[i] < min + extent {
                    return true;
                }
                current[i] = min;
                false
            });
            if next.is_none() {
                break;
            }
        }
        let target = std::mem::replace(&mut self.target, outer);
        match target.and_then(|t| t.value) {
            Some(value) => Ok(value),
            // The predicate held in no instance.
            None => self.element(self.producers[producer].buffer, indices, producer),
        }
    }
}

/// `scale * var + offset`, with a scale that is not 0.
fn affine(arena: &Arena, e: ExprId) -> Option<(VarId, i64, i64)> {
    match arena.expr(e) {
        Expr::Var(v) => Some((v, 1, 0)),
        Expr::Cast(a) if arena.dtype(a).is_index() && arena.dtype(e).is_index() => affine(arena, a),
        Expr::Binary(op, a, b) => {
            let (linear, c, swapped) = match (affine(arena, a), arena.as_int(b), arena.as_int(a), affine(arena, b)) {
                (Some(l), Some(c), _, _) => (l, c, false),
                (_, _, Some(c), Some(l)) => (l, c, true),
                _ => return None,
            };
            let (v, scale, offset) = linear;
            match op {
                BinOp::Add => Some((v, scale, offset.checked_add(c)?)),
                BinOp::Sub if swapped => Some((v, -scale, c.checked_sub(offset)?)),
                BinOp::Sub => Some((v, scale, offset.checked_sub(c)?)),
                BinOp::Mul if c != 0 => Some((v, scale.checked_mul(c)?, offset.checked_mul(c)?)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;
    use crate::ir::interp::{Arg, Precision, Tensor, run};
    use crate::ir::samples::{matmul, padded_window, relu, tiled_matmul};

    fn arguments(f: &Func) -> Vec<Arg> {
        let mut x = 1u64;
        f.params
            .iter()
            .map(|p| {
                let b = f.arena.buffer(p.buffer.expect("all parameters are buffers"));
                let shape: Vec<i64> =
                    f.arena.list(b.shape).iter().map(|&e| f.arena.as_int(e).expect("constant shape")).collect();
                Arg::Tensor(Tensor::from_values(
                    b.dtype,
                    &shape,
                    std::iter::from_fn(|| {
                        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        Some(Value::Float((x >> 40) as f64 / f64::from(1 << 23) - 1.0))
                    }),
                ))
            })
            .collect()
    }

    /// Checks that every element of the last parameter equals the result of a whole run.
    fn check(f: &Func) {
        for precision in [Precision::Exact, Precision::Wide] {
            let options = Options { precision, ..Options::default() };
            let before = arguments(f);
            let views: Vec<ArgRef<'_>> = before.iter().map(Arg::view).collect();
            let mut points = Points::new(f, &views, options).expect("the form is supported");
            let mut after = before.clone();
            run(f, &mut after, options).expect("the program runs");
            let last = after.last().and_then(Arg::tensor).expect("a tensor");
            let buffer = f.params.last().and_then(|p| p.buffer).expect("a buffer");
            for i in 0..last.n_elements() {
                let mut rest = i as i64;
                let mut indices: Vec<i64> = Vec::new();
                for n in last.shape.iter().rev() {
                    indices.insert(0, rest % n);
                    rest /= n;
                }
                let found = points.eval(buffer, &indices).expect("no fault").expect("supported");
                let mut rounded = Tensor::zeros(last.dtype, &[1]);
                rounded.set(0, found);
                assert_eq!(rounded.get(0), last.get(i), "{indices:?}");
            }
        }
    }

    #[test]
    fn points_are_what_a_run_gives() {
        check(&matmul(5, 6, 7, DType::Float32));
        check(&matmul(5, 6, 7, DType::Float16));
        check(&padded_window(9));
        check(&relu(3, 3));
    }

    #[test]
    fn scheduled_programs_are_left_to_the_whole_run() {
        let f = tiled_matmul(2);
        let args = arguments(&f);
        let views: Vec<ArgRef<'_>> = args.iter().map(Arg::view).collect();
        assert!(Points::new(&f, &views, Options::default()).is_none());
    }

    #[test]
    fn faults_name_the_block() {
        let mut f = padded_window(9);
        let pad = f.block(f.root).body[0];
        f.replace(pad, &[]);
        let args = arguments(&f);
        let views: Vec<ArgRef<'_>> = args.iter().map(Arg::view).collect();
        let mut points = Points::new(&f, &views, Options::default()).expect("the form is supported");
        let y = f.params[1].buffer.expect("a buffer");
        let message = points.eval(y, &[2]).unwrap_err().message(&f);
        assert_eq!(message, "block `sum`: load of `P` at [2], which nothing was stored to");
        let outside = points.eval(y, &[9]).unwrap_err().message(&f);
        assert_eq!(outside, "access to `Y` at [9] is out of bounds of its shape [9]");
    }
}
