//! Execution of whole functions.

use super::Value;
use super::eval::{Env, Indices, Lane, eval, eval_indices, eval_int, eval_lane_indices, eval_lanes};
use super::fault::{Fault, RunError};
use super::layout::{Layout, bind_symbol};
use super::tensor::Tensor;
use super::{Arg, Fresh, Options, Precision};
use crate::ir::buffer::{Buffer, BufferId};
use crate::ir::dtype::DType;
use crate::ir::expr::{Expr, ExprId, VarId};
use crate::ir::func::Func;
use crate::ir::op::{Builtin, Effect, Intrinsic};
use crate::ir::steps::STEP_ERROR;
use crate::ir::stmt::{Block, Body, IterKind, MatchBuffer, Stmt, StmtId};
use hashbrown::HashMap;

/// Maximum number of elements of a buffer.
const MAX_ELEMENTS: usize = 1 << 31;

/// Runs a verified function. Reads and changes the tensors of buffer parameters in place; they are unspecified after a
/// fault. Returns the function's result, if it has one.
pub fn run(func: &Func, args: &mut [Arg], options: Options) -> Result<Option<Value>, RunError> {
    if let Some(t) = func.arena.narrow() {
        return Err(RunError { stmt: None, fault: Fault::UnknownType { name: t.name() } });
    }
    let placed = func.with_param_layouts();
    let meant = placed.with_builtins_expanded();
    let func = &*meant;
    let mut m = Machine {
        func,
        options,
        vars: vec![None; func.arena.n_vars()],
        vectors: HashMap::new(),
        pointers: vec![None; func.arena.n_vars()],
        places: vec![None; func.arena.n_buffers()],
        memories: Vec::new(),
        steps: 0,
        stmt: None,
        result: None,
    };
    match m.run(args) {
        Ok(()) => Ok(m.result),
        Err(fault) => Err(RunError { stmt: m.stmt, fault: *fault }),
    }
}

/// The continuation after a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// The next statement.
    Next,
    /// The end of the innermost loop.
    Break,
    /// The next iteration of the innermost loop.
    Continue,
    /// The end of the function.
    Return,
}

/// The elements of a parameter or of one instance of an allocation.
struct Memory {
    /// The type of the elements.
    dtype: DType,
    values: Vec<Value>,
    /// For each element, whether it was stored to; only with [`Fresh::Checked`].
    written: Option<Vec<bool>>,
}

/// The memory and layout of a buffer.
#[derive(Clone)]
struct Place {
    memory: usize,
    layout: Layout,
}

struct Machine<'a> {
    func: &'a Func,
    options: Options,
    vars: Vec<Option<Value>>,
    vectors: HashMap<VarId, Vec<Value>>,
    /// The memory to which each handle points.
    pointers: Vec<Option<usize>>,
    places: Vec<Option<Place>>,
    memories: Vec<Memory>,
    steps: u64,
    /// The current statement, for errors.
    stmt: Option<StmtId>,
    /// The returned value.
    result: Option<Value>,
}

impl Env for Machine<'_> {
    type Stop = Box<Fault>;

    fn var(&self, v: VarId) -> Option<Value> {
        self.vars[v.index()]
    }

    fn set_var(&mut self, v: VarId, value: Option<Value>) -> Option<Value> {
        std::mem::replace(&mut self.vars[v.index()], value)
    }

    fn vectors(&mut self) -> &mut HashMap<VarId, Vec<Value>> {
        &mut self.vectors
    }

    fn load(&mut self, buffer: BufferId, indices: &[i64], lane: Lane) -> Result<Value, Box<Fault>> {
        let in_rows = lane.of_vector.then(|| self.in_rows(buffer, indices));
        let indices = in_rows.as_deref().unwrap_or(indices);
        let (memory, at) = self.locate(buffer, indices, lane.inside)?;
        let memory = &self.memories[memory];
        match &memory.written {
            Some(written) if !written[at] => Err(Box::new(Fault::Unwritten { buffer, indices: indices.to_vec() })),
            _ => Ok(memory.values[at]),
        }
    }
}

impl Machine<'_> {
    fn run(&mut self, args: &mut [Arg]) -> Result<(), Box<Fault>> {
        let func = self.func;
        if args.len() != func.params.len() {
            return Err(Box::new(Fault::ArgumentCount { expected: func.params.len(), found: args.len() }));
        }
        // Bind scalars first: shapes may mention them.
        for (param, arg) in args.iter().enumerate() {
            let p = func.params[param];
            match (arg, p.buffer) {
                (Arg::Scalar(v), None) => {
                    let is_float = func.arena.var(p.var).dtype.is_float();
                    if is_float != matches!(v, Value::Float(_)) {
                        return Err(Box::new(Fault::ArgumentKind { param }));
                    }
                    self.vars[p.var.index()] = Some(*v);
                }
                (Arg::Tensor(_), Some(_)) => {}
                _ => return Err(Box::new(Fault::ArgumentKind { param })),
            }
        }
        for (arg, p) in args.iter().zip(&func.params) {
            if let (Arg::Tensor(t), Some(b)) = (arg, p.buffer) {
                Layout::bind_extents(&func.arena, self, b, t.view());
            }
        }
        for (param, arg) in args.iter().enumerate() {
            if let (Arg::Tensor(t), Some(b)) = (arg, func.params[param].buffer) {
                self.bind_param(param, b, t)?;
            }
        }
        self.exec(func.root.stmt())?;
        for (param, arg) in args.iter_mut().enumerate() {
            if let (Arg::Tensor(t), Some(Some(place))) =
                (arg, func.params[param].buffer.map(|b| &self.places[b.index()]))
            {
                for (i, v) in self.memories[place.memory].values.iter().enumerate() {
                    t.set(i, *v);
                }
            }
        }
        Ok(())
    }

    // ---- memory --------------------------------------------------------------------------------------------

    fn bind_param(&mut self, param: usize, b: BufferId, t: &Tensor) -> Result<(), Box<Fault>> {
        let layout = Layout::of_param(&self.func.arena, self, param, b, t.view())?;
        let values = (0..t.n_elements()).map(|i| t.get(i)).collect();
        self.memories.push(Memory { dtype: t.dtype, values, written: None });
        self.places[b.index()] = Some(Place { memory: self.memories.len() - 1, layout });
        Ok(())
    }

    fn bind_symbol(&mut self, e: ExprId, value: i64) {
        bind_symbol(&self.func.arena, self, e, value);
    }

    fn allocate(&mut self, b: BufferId) -> Result<(), Box<Fault>> {
        let layout = Layout::of(&self.func.arena, self, b)?;
        let n = layout.n_elements().filter(|&n| n <= MAX_ELEMENTS).ok_or(Fault::Allocation { buffer: b })?;
        let Buffer { dtype, lanes, .. } = *self.func.arena.buffer(b);
        let n = n * usize::from(lanes);
        let written = (self.options.fresh == Fresh::Checked).then(|| vec![false; n]);
        self.memories.push(Memory { dtype, values: vec![poison(dtype); n], written });
        self.places[b.index()] = Some(Place { memory: self.memories.len() - 1, layout });
        Ok(())
    }

    /// Makes a view of a region: of the last dimensions of the source; the others must have extent 1.
    fn show(&mut self, m: &MatchBuffer) -> Result<(), Box<Fault>> {
        let arena = &self.func.arena;
        let wrong = Box::new(Fault::View { buffer: m.buffer });
        let mins = eval_indices(arena, self, Precision::Exact, arena.list(m.source.mins))?;
        let extents = eval_indices(arena, self, Precision::Exact, arena.list(m.source.extents))?;
        let Some(Place { memory, layout: source }) = self.places[m.source.buffer.index()].clone() else {
            return Err(Box::new(Fault::UnboundBuffer { buffer: m.source.buffer }));
        };
        let view = arena.buffer(m.buffer);
        let dims = arena.list(view.shape);
        let inside = mins.iter().zip(&extents).zip(&source.shape).all(|((lo, n), size)| *lo >= 0 && lo + n <= *size);
        let Some(skipped) = source.shape.len().checked_sub(dims.len()) else { return Err(wrong) };
        if !inside || extents[..skipped].iter().any(|&n| n != 1) {
            return Err(wrong);
        }
        let strides: Indices = source.strides[skipped..].into();
        let offset = source.offset + mins.iter().zip(&source.strides).map(|(i, s)| i * s).sum::<i64>();
        for (&e, &n) in dims.iter().zip(&extents[skipped..]) {
            self.bind_symbol(e, n);
            if self.int(e)? != n {
                return Err(wrong);
            }
        }
        for (&e, &stride) in view.strides.map_or(&[][..], |l| arena.list(l)).iter().zip(&strides) {
            self.bind_symbol(e, stride);
            if self.int(e)? != stride {
                return Err(wrong);
            }
        }
        if let Some(e) = view.elem_offset {
            self.bind_symbol(e, offset);
        }
        let shape = extents[skipped..].into();
        self.places[m.buffer.index()] =
            Some(Place { memory, layout: Layout { offset, strides, shape, is_unbounded: source.is_unbounded } });
        Ok(())
    }

    /// The indices of an element selected by one of several lanes: a position beyond the end of a row continues in the
    /// next row.
    fn in_rows(&self, buffer: BufferId, indices: &[i64]) -> Indices {
        let mut indices = Indices::from_slice(indices);
        if let Some(place) = &self.places[buffer.index()] {
            for dim in (1..indices.len()).rev() {
                let extent = place.layout.shape[dim].max(1);
                if indices[dim] >= extent {
                    indices[dim - 1] += indices[dim] / extent;
                    indices[dim] %= extent;
                }
            }
        }
        indices
    }

    /// The memory of an element's lane, and its position there.
    fn locate(&self, buffer: BufferId, indices: &[i64], lane: usize) -> Result<(usize, usize), Box<Fault>> {
        let width = usize::from(self.func.arena.buffer(buffer).lanes);
        let Some(place) = &self.places[buffer.index()] else { return Err(Box::new(Fault::UnboundBuffer { buffer })) };
        let at = place.layout.position(indices).map(|at| at * width + lane);
        match at.filter(|&at| at < self.memories[place.memory].values.len()) {
            Some(at) => Ok((place.memory, at)),
            None => {
                let shape = place.layout.shape.to_vec();
                Err(Box::new(Fault::OutOfBounds { buffer, indices: indices.to_vec(), shape }))
            }
        }
    }

    /// Stores a lane of an element.
    fn store(&mut self, buffer: BufferId, indices: &[i64], lane: usize, value: Value) -> Result<(), Box<Fault>> {
        let (memory, at) = self.locate(buffer, indices, lane)?;
        let memory = &mut self.memories[memory];
        memory.values[at] = value;
        if let Some(written) = &mut memory.written {
            written[at] = true;
        }
        Ok(())
    }

    /// Stores the lanes of a vector, to the elements that a vector of indices selects or to the lanes of one element.
    fn store_lanes(&mut self, buffer: BufferId, indices: &[ExprId], value: ExprId) -> Result<(), Box<Fault>> {
        let func = self.func;
        let values = eval_lanes(&func.arena, self, self.options.precision, value)?;
        let indices = eval_lane_indices(&func.arena, self, indices)?;
        let width = values.len() / indices.len();
        for (lane, value) in values.into_iter().enumerate() {
            let at = &indices[lane / width];
            let in_rows = (indices.len() > 1).then(|| self.in_rows(buffer, at));
            self.store(buffer, in_rows.as_ref().unwrap_or(at), lane % width, value)?;
        }
        Ok(())
    }

    // ---- statements ----------------------------------------------------------------------------------------

    fn value(&mut self, e: ExprId) -> Result<Value, Box<Fault>> {
        eval(&self.func.arena, self, self.options.precision, e)
    }

    fn int(&mut self, e: ExprId) -> Result<i64, Box<Fault>> {
        eval_int(&self.func.arena, self, Precision::Exact, e)
    }

    fn holds(&mut self, e: ExprId) -> Result<bool, Box<Fault>> {
        Ok(self.value(e)? != Value::Int(0))
    }

    /// Runs a list of statements. Buffers allocated in it live to its end.
    fn exec_body(&mut self, body: &Body) -> Result<Flow, Box<Fault>> {
        let n_memories = self.memories.len();
        let mut flow = Flow::Next;
        for &s in body {
            flow = self.exec(s)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.memories.truncate(n_memories);
        for &s in body {
            if let Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } = self.func.get(s) {
                self.places[buffer.index()] = None;
            }
        }
        Ok(flow)
    }

    /// Declares another name for existing memory.
    fn declare(&mut self, b: BufferId, data: ExprId) -> Result<(), Box<Fault>> {
        let memory = self.pointer(data)?;
        let layout = Layout::of(&self.func.arena, self, b)?;
        let dtype = self.func.arena.buffer(b).dtype;
        if self.memories[memory].dtype != dtype {
            return Err(Box::new(Fault::View { buffer: b }));
        }
        self.places[b.index()] = Some(Place { memory, layout: layout.unbounded() });
        Ok(())
    }

    /// The memory that a handle points to.
    fn pointer(&self, e: ExprId) -> Result<usize, Box<Fault>> {
        match self.func.arena.expr(e) {
            Expr::BufferData(b) => match &self.places[b.index()] {
                Some(place) => Ok(place.memory),
                None => Err(Box::new(Fault::UnboundBuffer { buffer: b })),
            },
            Expr::Var(v) => self.pointers[v.index()].ok_or_else(|| Box::new(Fault::Unbound { var: v })),
            _ => Err(Box::new(Fault::IllTyped)),
        }
    }

    fn exec(&mut self, s: StmtId) -> Result<Flow, Box<Fault>> {
        // After a fault the statement stays, for the error.
        let outside = self.stmt.replace(s);
        let func = self.func;
        let mut flow = Flow::Next;
        match func.get(s) {
            Stmt::Loop(l) => {
                let (min, extent) = (self.int(l.min)?, self.int(l.extent)?);
                let step = l.step.map_or(Ok(1), |step| self.int(step))?;
                let Some(step) = usize::try_from(step).ok().filter(|&step| step > 0) else {
                    return Err(Box::new(Fault::Assertion {
                        kind: STEP_ERROR.into(),
                        message: func.step_message(l.var),
                    }));
                };
                for i in (0..extent.max(0)).step_by(step) {
                    self.set_var(l.var, Some(Value::Int(min.wrapping_add(i))));
                    let inner = self.exec_body(&l.body)?;
                    self.stmt = Some(s);
                    match inner {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Return => {
                            flow = inner;
                            break;
                        }
                    }
                }
                self.set_var(l.var, None);
            }
            Stmt::While { condition, body } => {
                while self.holds(*condition)? {
                    // Count an iteration as a step, since its body may be empty.
                    self.step()?;
                    let inner = self.exec_body(body)?;
                    self.stmt = Some(s);
                    match inner {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Return => {
                            flow = inner;
                            break;
                        }
                    }
                }
            }
            Stmt::Block(b) => flow = self.exec_block(b)?,
            Stmt::Store { value, .. } if func.arena.is_undefined(*value) => self.step()?,
            Stmt::Store { buffer, indices, value } => {
                let list = func.arena.list(*indices);
                if func.arena.lanes(*value) == 1 {
                    let value = self.value(*value)?;
                    let indices = eval_indices(&func.arena, self, Precision::Exact, list)?;
                    self.store(*buffer, &indices, 0, value)?;
                } else {
                    self.store_lanes(*buffer, list, *value)?;
                }
                self.step()?;
            }
            Stmt::If { condition, then, otherwise } => {
                let holds = self.holds(*condition)?;
                flow = self.exec_body(if holds { then } else { otherwise })?;
            }
            Stmt::Let { var, value, body } if func.arena.lanes(*value) > 1 => {
                let lanes = eval_lanes(&func.arena, self, self.options.precision, *value)?;
                self.vectors.insert(*var, lanes);
                flow = self.exec_body(body)?;
                self.vectors.remove(var);
            }
            Stmt::Let { var, value, body } => {
                if func.arena.var(*var).dtype == DType::Handle {
                    self.pointers[var.index()] = Some(self.pointer(*value)?);
                } else {
                    let value = self.value(*value)?;
                    self.set_var(*var, Some(value));
                }
                flow = self.exec_body(body)?;
                self.set_var(*var, None);
            }
            Stmt::Alloc { buffer, .. } => self.allocate(*buffer)?,
            Stmt::Declare { buffer, data } => self.declare(*buffer, *data)?,
            Stmt::Break => flow = Flow::Break,
            Stmt::Continue => flow = Flow::Continue,
            Stmt::Return(value) => {
                self.result = Some(self.value(*value)?);
                flow = Flow::Return;
            }
            Stmt::Assert(a) => {
                if !self.holds(a.condition)? {
                    return Err(Box::new(Fault::Assertion { kind: a.kind, message: a.text() }));
                }
            }
            Stmt::Attr(a) => flow = self.exec_body(&a.body)?,
            Stmt::Evaluate(value) => {
                let does_nothing = match func.arena.expr(*value) {
                    Expr::Call(Intrinsic::Assume, _) => true,
                    Expr::Builtin(Builtin::StartProfile | Builtin::EndProfile, _) => true,
                    Expr::Builtin(function, _) => function.effect() == Effect::Pure,
                    _ => false,
                };
                if !does_nothing && func.arena.lanes(*value) == 0 {
                    // A call without a value.
                    self.value(*value)?;
                } else if !does_nothing {
                    eval_lanes(&func.arena, self, self.options.precision, *value)?;
                }
                self.step()?;
            }
        }
        self.stmt = outside;
        Ok(flow)
    }

    fn step(&mut self) -> Result<(), Box<Fault>> {
        self.steps += 1;
        if self.steps > self.options.max_steps { Err(Box::new(Fault::TooLong)) } else { Ok(()) }
    }

    /// Whether the source of a copy is inside its buffer; true for other blocks.
    fn has_source(&mut self, b: &Block) -> Result<bool, Box<Fault>> {
        let Some((source, indices)) = self.func.copied(b) else { return Ok(true) };
        let mut at = Indices::new();
        for &e in self.func.arena.list(indices) {
            at.push(self.int(e)?);
        }
        match self.locate(source, &at, 0) {
            Err(fault) if matches!(*fault, Fault::OutOfBounds { .. }) => Ok(false),
            _ => Ok(true),
        }
    }

    fn exec_block(&mut self, b: &Block) -> Result<Flow, Box<Fault>> {
        let block = self.stmt;
        if !self.holds(b.predicate)? {
            return Ok(Flow::Next);
        }
        let mut values = Indices::new();
        let mut first = true;
        for iter in &b.iters {
            let (value, min, extent) = (self.int(iter.value)?, self.int(iter.min)?, self.int(iter.extent)?);
            if !(0..extent).contains(&(value - min)) {
                return Ok(Flow::Next);
            }
            first &= iter.kind != IterKind::Reduce || value == min;
            values.push(value);
        }
        // Bindings are outside the block: all are evaluated before any is visible.
        for (iter, value) in b.iters.iter().zip(values) {
            self.set_var(iter.var, Some(Value::Int(value)));
        }
        let n_memories = self.memories.len();
        b.allocs.iter().try_for_each(|&a| self.allocate(a))?;
        b.matches.iter().try_for_each(|m| self.show(m))?;
        let mut flow = Flow::Next;
        if let (true, Some(init)) = (first, &b.init) {
            flow = self.exec_body(init)?;
            self.stmt = block;
        }
        if flow == Flow::Next && self.has_source(b)? {
            flow = self.exec_body(&b.body)?;
        }
        self.stmt = block;
        self.memories.truncate(n_memories);
        for &buffer in b.allocs.iter().chain(b.matches.iter().map(|m| &m.buffer)) {
            self.places[buffer.index()] = None;
        }
        for m in &b.matches {
            self.forget_symbols(m.buffer);
        }
        for iter in &b.iters {
            self.set_var(iter.var, None);
        }
        Ok(flow)
    }

    /// Removes the strides and offset of a view, which each instance binds anew.
    fn forget_symbols(&mut self, view: BufferId) {
        let arena = &self.func.arena;
        let view = arena.buffer(view);
        for &e in view.strides.map_or(&[][..], |l| arena.list(l)).iter().chain(&view.elem_offset) {
            if let Some(v) = arena.as_var(e) {
                self.set_var(v, None);
            }
        }
    }
}

/// The initial value of fresh memory.
fn poison(dtype: DType) -> Value {
    if dtype.is_float() { Value::Float(f64::NAN) } else { Value::Int(dtype.wrap(i64::from_le_bytes([0xa5; 8]))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples::{matmul, nest, padded_window, relu, set_root, store, tiled_matmul};
    use crate::ir::{BinOp, BufferRegion};

    /// Small values for all elements.
    fn ramp(dtype: DType, shape: &[i64], seed: i64) -> Tensor {
        let mut i = seed;
        Tensor::from_values(
            dtype,
            shape,
            std::iter::from_fn(|| {
                i = (i * 7 + 3) % 23;
                Some(if dtype.is_float() { Value::Float(i as f64 / 4.0 - 2.0) } else { Value::Int(i - 11) })
            }),
        )
    }

    /// Runs a function on ramps, and returns the arguments and the result in the last one.
    fn output(f: &Func, shapes: &[&[i64]], options: Options) -> Result<(Vec<Tensor>, Tensor), String> {
        let mut args: Vec<Arg> = Vec::new();
        for (i, shape) in shapes.iter().enumerate() {
            let b = f.params[i].buffer.expect("all parameters are buffers");
            args.push(Arg::Tensor(ramp(f.arena.buffer(b).dtype, shape, i as i64)));
        }
        assert_eq!(crate::ir::verify::verify(f, crate::ir::verify::Checks::FORM), []);
        run(f, &mut args, options).map_err(|e| e.message(f))?;
        let mut tensors: Vec<Tensor> = args.iter().filter_map(|a| a.tensor().cloned()).collect();
        let last = tensors.pop().expect("at least one argument");
        Ok((tensors, last))
    }

    fn run_ok(f: &Func, shapes: &[&[i64]]) -> (Vec<Tensor>, Tensor) {
        output(f, shapes, Options { fresh: Fresh::Checked, ..Options::default() }).expect("the program runs")
    }

    #[test]
    fn matmul_by_hand() {
        for dtype in [DType::Float32, DType::Int32, DType::Float16, DType::Float64] {
            let (inputs, c) = run_ok(&matmul(3, 4, 5, dtype), &[&[3, 5], &[5, 4], &[3, 4]]);
            for i in 0..3 {
                for j in 0..4 {
                    let terms = (0..5).map(|k| inputs[0].get(i * 5 + k).as_f64() * inputs[1].get(k * 4 + j).as_f64());
                    assert_eq!(c.get(i * 4 + j).as_f64(), terms.sum::<f64>(), "{dtype} [{i}, {j}]");
                }
            }
        }
    }

    #[test]
    fn tiling_changes_nothing() {
        let shapes: [&[i64]; 3] = [&[16, 4], &[4, 16], &[16, 16]];
        assert_eq!(run_ok(&tiled_matmul(2), &shapes), run_ok(&matmul(16, 16, 4, DType::Float32), &shapes));
    }

    #[test]
    fn conditionals_guard_accesses() {
        let (inputs, y) = run_ok(&padded_window(6), &[&[6], &[6]]);
        let x = inputs[0].to_f64s();
        for (i, found) in y.to_f64s().into_iter().enumerate() {
            let lo = i.saturating_sub(1);
            assert_eq!(found, x[lo..(i + 2).min(6)].iter().sum::<f64>());
        }
    }

    #[test]
    fn predicates_skip_instances() {
        let mut f = relu(4, 4);
        let b = f.blocks()[0];
        let (i, two) = (f.block(b).iters[0].value, f.arena.int32(2));
        f.block_mut(b).predicate = f.arena.lt(i, two);
        let before = ramp(DType::Float32, &[4, 4], 1).to_f64s();
        let (inputs, y) = run_ok(&f, &[&[4, 4], &[4, 4]]);
        for (k, v) in y.to_f64s().into_iter().enumerate() {
            assert_eq!(v, if k < 8 { inputs[0].get(k).as_f64().max(0.0) } else { before[k] });
        }
    }

    #[test]
    fn views_show_their_source() {
        // The view of row i as a vector, read by relu's block.
        let mut f = relu(4, 4);
        let (x, b) = (f.params[0].buffer.expect("a buffer"), f.blocks()[0]);
        let view = f.constant_buffer("V", DType::Float32, &[4]);
        let (_, stride) = f.arena.new_var_expr("s", DType::Int32);
        let strides = f.arena.new_list(&[stride]);
        f.arena.update_buffer(view, |v| v.strides = Some(strides));
        let (vi, vj) = (f.block(b).iters[0].var, f.block(b).iters[1].var);
        let (vi, vj) = (f.arena.var_expr(vi), f.arena.var_expr(vj));
        let (zero, one, four) = (f.arena.int32(0), f.arena.int32(1), f.arena.int32(4));
        let source = BufferRegion::new(&mut f.arena, x, &[(vi, one), (zero, four)]);
        f.block_mut(b).matches.push(MatchBuffer { buffer: view, source });
        let y = f.params[1].buffer.expect("a buffer");
        let value = f.arena.load(view, &[vj]);
        let new = store(&mut f, y, &[vi, vj], value);
        let old = f.block(b).body[0];
        f.replace(old, &[new]);
        let (inputs, out) = run_ok(&f, &[&[4, 4], &[4, 4]]);
        assert_eq!(inputs[0].data, out.data);
    }

    #[test]
    fn faults_name_the_statement() {
        let shifted = |op: BinOp, by: i64, copies: bool| {
            let mut f = Func::new("main");
            let x = f.add_param("X", DType::Float32, &[8]);
            let y = f.add_param("Y", DType::Float32, &[8]);
            let body = nest(&mut f, "B", &[("i", 8, crate::ir::IterKind::Spatial)], |f, v| {
                let by = f.arena.int32(by);
                let at = f.arena.binary_unfolded(op, v[0], by);
                let value = f.arena.load(x, &[at]);
                // This is not a plain copy, whose missing sources are allowed.
                let value = if copies { value } else { f.arena.add(value, value) };
                (None, store(f, y, v, value))
            });
            set_root(&mut f, &[body]);
            output(&f, &[&[8], &[8]], Options::default()).map(|_| ())
        };
        assert_eq!(shifted(BinOp::Add, 0, false), Ok(()));
        assert_eq!(
            shifted(BinOp::Add, 1, false),
            Err("store to `Y[vi]`: access to `X` at [8] is out of bounds of its shape [8]".into())
        );
        assert_eq!(shifted(BinOp::Add, 1, true), Ok(()));
        assert_eq!(shifted(BinOp::FloorMod, 0, false), Err("store to `Y[vi]`: integer division by zero".into()));
    }

    #[test]
    fn arguments_are_checked() {
        let f = relu(4, 4);
        let shapes = |a: &[i64], b: &[i64]| output(&f, &[a, b], Options::default()).map(|_| ());
        assert_eq!(shapes(&[4, 4], &[4]), Err("argument 1 must be of shape [4, 4], found [4]".into()));
        let scalar = run(&f, &mut [Arg::Scalar(Value::Int(0)), Arg::Scalar(Value::Int(0))], Options::default());
        assert_eq!(scalar.unwrap_err().message(&f), "argument 0 must be a tensor");
    }

    #[test]
    fn reading_fresh_memory_is_a_fault_if_checked() {
        // Remove the nest that fills P.
        let mut f = padded_window(6);
        let pad = f.block(f.root).body[0];
        f.replace(pad, &[]);
        let fresh = |fresh| output(&f, &[&[6], &[6]], Options { fresh, ..Options::default() });
        assert_eq!(
            fresh(Fresh::Checked).unwrap_err(),
            "store to `Y[vi]`: load of `P` at [0], which nothing was stored to"
        );
        assert!(fresh(Fresh::Poison).expect("runs").1.to_f64s().iter().all(|v| v.is_nan()));
    }

    #[test]
    fn symbolic_extents_come_from_the_arguments() {
        let mut f = relu(4, 4);
        let (_, e) = f.arena.new_var_expr("n", DType::Int32);
        for b in f.arena.buffer_ids() {
            let shape = f.arena.new_list(&[e, e]);
            f.arena.update_buffer(b, |b| b.shape = shape);
        }
        let four = f.arena.int32(4);
        let root = f.root.stmt();
        struct Widen(crate::ir::ExprId, crate::ir::ExprId);
        impl crate::ir::Rewriter for Widen {
            fn rewrite_expr(&mut self, arena: &mut crate::ir::Arena, e: ExprId) -> ExprId {
                if e == self.0 { self.1 } else { crate::ir::visit::walk_rewrite(self, arena, e) }
            }
        }
        f.rewrite_subtree(root, &mut Widen(four, e));
        let (_, y) = run_ok(&f, &[&[7, 7], &[7, 7]]);
        assert!(y.to_f64s().iter().all(|&v| v >= 0.0));
    }

    #[test]
    fn wide_floats_round_at_the_end() {
        // 2^24 + 1 - 2^24 is 1 only if the sum is not rounded.
        let mut f = Func::new("main");
        let y = f.add_param("Y", DType::Float32, &[1]);
        let body = nest(&mut f, "B", &[("i", 1, crate::ir::IterKind::Spatial)], |f, v| {
            let mut at = |v: f64| f.arena.float(v, DType::Float32);
            let (big, one) = (at(16777216.0), at(1.0));
            let sum = f.arena.binary_unfolded(BinOp::Add, big, one);
            let value = f.arena.sub(sum, big);
            (None, store(f, y, v, value))
        });
        set_root(&mut f, &[body]);
        let value = |precision| {
            let options = Options { precision, ..Options::default() };
            output(&f, &[&[1]], options).expect("runs").1.to_f64s()
        };
        assert_eq!(value(Precision::Exact), [0.0]);
        assert_eq!(value(Precision::Wide), [1.0]);
    }

    #[test]
    fn long_runs_are_cut_short() {
        let f = matmul(8, 8, 8, DType::Float32);
        let options = Options { max_steps: 100, ..Options::default() };
        let shapes: [&[i64]; 3] = [&[8, 8], &[8, 8], &[8, 8]];
        let message = output(&f, &shapes, options).unwrap_err();
        assert!(message.ends_with("the limit of steps was reached"), "{message}");
    }
}
