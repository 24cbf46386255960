//! Emits statements: one [`Emitter`] per function.
//!
//! Computed values are cached ([`Emitter::expr`]) and reused while valid: pure values in the block that computed them
//! and the blocks that it dominates, loaded values in addition only until their buffer is written, all others within
//! their statement.

use super::memory::{AddressPlan, LinkId, local_lane_bytes};
use super::value::{Parts, Val, part_type};
use super::{BodyJob, Captured, Shared};
use crate::codegen::facts::{ReadsOf, buffers_in};
use crate::codegen::runtime::frame::{Frame, Status};
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{Body, BufferId, ExprId, Failure, For, Kernel, LocalId, LoopKind, Stmt, StmtId, Storage, VarId};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Block, BlockArg, FuncRef, InstBuilder, SigRef, Signature, Value, types};
use cranelift_codegen::ir::{StackSlotData, StackSlotKind};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_module::{FuncId, Linkage, Module};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use std::mem::offset_of;

use super::memory::FLAGS;

/// Emits one function.
pub(super) struct Emitter<'a, 'b> {
    pub b: FunctionBuilder<'b>,
    pub kernel: &'a Kernel,
    pub module: &'a mut dyn Module,
    pub shared: &'a mut Shared,
    /// The functions of the module that this one calls.
    functions: HashMap<&'static str, FuncRef, FxBuild>,
    pub plan: AddressPlan,
    /// Values of the variables in scope.
    pub vars: Vec<Option<Val>>,
    locals: Vec<Option<SmallVec<[Variable; 4]>>>,
    bases: Vec<Option<Value>>,
    frame: Value,
    worker: Value,
    stop: Option<Value>,
    /// The exit block, with the status as parameter.
    exit: Block,
    in_body: bool,
    pub reads: ReadsOf,
    memo: Memo,
    /// The bytes at even and odd positions as 16-bit lanes, by block, vector, and signedness.
    pub byte_halves: HashMap<(Block, Value, bool), [Value; 2], FxBuild>,
    /// Pointers computed so far, and their order, to discard them at the end of a scope.
    pub link_values: HashMap<LinkId, Value, FxBuild>,
    pub scoped_links: Vec<LinkId>,
}

/// Cache of computed expressions.
#[derive(Default)]
struct Memo {
    values: HashMap<ExprId, Val, FxBuild>,
    /// Keys in the order of insertion, to discard them at the end of a scope.
    scoped: Vec<ExprId>,
    /// Keys whose values depend on a buffer.
    by_buffer: HashMap<BufferId, Vec<ExprId>, FxBuild>,
    /// Keys whose values depend on a register.
    by_local: HashMap<LocalId, Vec<ExprId>, FxBuild>,
    /// Keys to discard at the end of the statement.
    statement: Vec<ExprId>,
}

/// State of the caches at the start of a scope, to return to at its end.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    memo: usize,
    links: usize,
}

impl<'a, 'b> Emitter<'a, 'b> {
    /// An emitter for a function without blocks. `order` numbers variables from the outermost inwards.
    pub(super) fn new(
        b: FunctionBuilder<'b>,
        kernel: &'a Kernel,
        module: &'a mut dyn Module,
        shared: &'a mut Shared,
        stmts: &[StmtId],
    ) -> Self {
        let plan = AddressPlan::new(kernel, &shared.regions, stmts, &shared.order);
        let invalid = Value::from_u32(0);
        Emitter {
            b,
            kernel,
            module,
            shared,
            functions: HashMap::default(),
            plan,
            vars: vec![None; kernel.arena.n_vars()],
            locals: vec![None; kernel.arena.n_locals()],
            bases: vec![None; kernel.n_buffers()],
            frame: invalid,
            worker: invalid,
            stop: None,
            exit: Block::from_u32(0),
            in_body: false,
            reads: ReadsOf::default(),
            memo: Memo::default(),
            byte_halves: HashMap::default(),
            link_values: HashMap::default(),
            scoped_links: Vec::new(),
        }
    }

    // ---- functions -----------------------------------------------------------------------------------------

    /// Emits the kernel function.
    pub(super) fn kernel_function(mut self, body: Body) {
        let entry = self.enter();
        self.frame = self.b.block_params(entry)[0];
        let state = self.begin(body);
        self.body(body);
        self.end(state);
    }

    /// Emits the body of a parallel loop, for iterations `begin..end`.
    pub(super) fn body_function(mut self, job: &BodyJob) {
        let entry = self.enter();
        let params: SmallVec<[Value; 5]> = self.b.block_params(entry).into();
        self.frame = params[0];
        self.worker = params[4];
        self.in_body = true;
        let state = self.begin(job.l.body);
        if self.stop.is_some() {
            self.poll();
        }
        let (env, begin, end) = (params[1], params[2], params[3]);
        for captured in &job.env {
            let mut parts = Parts::new();
            let ty = part_type(captured.ty, captured.lane_bytes);
            for i in 0..captured.n_parts {
                let offset = captured.offset + (i * 16) as i32;
                parts.push(self.b.ins().load(ty, FLAGS, env, offset));
            }
            let val = Val { ty: captured.ty, lane_bytes: captured.lane_bytes, parts };
            self.vars[captured.var.index()] = Some(val);
        }
        self.count(job.stmt, &job.l, begin, end);
        self.end(state);
    }

    fn enter(&mut self) -> Block {
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        self.b.seal_block(entry);
        self.exit = self.b.create_block();
        self.b.append_block_param(self.exit, types::I32);
        entry
    }

    /// Emits the prologue: floating-point state, base pointers, registers.
    fn begin(&mut self, body: Body) -> Value {
        let state = {
            let enter = self.module_function("fp_enter", self.shared.fp_enter);
            let call = self.b.ins().call(enter, &[]);
            self.b.inst_results(call)[0]
        };
        if !self.in_body {
            self.worker = self.b.ins().iconst(types::I64, 0);
        }
        for buffer in buffers_in(self.kernel, body) {
            let base = self.base_pointer(buffer);
            self.bases[buffer.index()] = Some(base);
        }
        if self.shared.can_stop && (self.in_body || !self.shared.polls.is_empty()) {
            let stop = offset_of!(Frame, stop) as i32;
            self.stop = Some(self.b.ins().load(types::I64, FLAGS, self.frame, stop));
        }
        state
    }

    /// Emits the epilogue.
    fn end(mut self, state: Value) {
        let done = self.b.ins().iconst(types::I32, Status::Done.code() as i64);
        self.b.ins().jump(self.exit, &[BlockArg::Value(done)]);
        self.b.seal_block(self.exit);
        self.b.switch_to_block(self.exit);
        let leave = self.module_function("fp_leave", self.shared.fp_leave);
        self.b.ins().call(leave, &[state]);
        let status = self.b.block_params(self.exit)[0];
        self.b.ins().return_(&[status]);
        let config = self.module.target_config();
        self.b.finalize(config);
    }

    fn module_function(&mut self, name: &'static str, id: FuncId) -> FuncRef {
        if let Some(&f) = self.functions.get(name) {
            return f;
        }
        let f = self.module.declare_func_in_func(id, self.b.func);
        self.functions.insert(name, f);
        f
    }

    fn base_pointer(&mut self, buffer: BufferId) -> Value {
        match self.kernel.buffer(buffer).storage {
            Storage::Param(_) => {
                let params = self.b.ins().load(types::I64, FLAGS, self.frame, offset_of!(Frame, params) as i32);
                self.b.ins().load(types::I64, FLAGS, params, buffer.index() as i32 * 8)
            }
            Storage::Scratch(placement) => {
                let offset = self.shared.scratch.offset(buffer);
                let base = match placement {
                    crate::loopir::Placement::Shared => {
                        self.b.ins().load(types::I64, FLAGS, self.frame, offset_of!(Frame, shared) as i32)
                    }
                    crate::loopir::Placement::PerWorker => {
                        let first = self.b.ins().load(types::I64, FLAGS, self.frame, offset_of!(Frame, private) as i32);
                        let mine = self.b.ins().imul_imm_s(self.worker, self.shared.scratch.private_bytes as i64);
                        self.b.ins().iadd(first, mine)
                    }
                };
                self.b.ins().iadd_imm_s(base, offset as i64)
            }
        }
    }

    /// The address of a buffer's first element.
    pub(super) fn base(&mut self, buffer: BufferId) -> Value {
        self.bases[buffer.index()].expect("every buffer that the function touches has its base loaded on entry")
    }

    /// Calls a scalar function of the runtime.
    pub(super) fn call_function(
        &mut self,
        f: &'static crate::codegen::runtime::functions::ScalarFunction,
        args: &[Value],
        result: cranelift_codegen::ir::Type,
    ) -> Value {
        let callee = match self.functions.get(f.name) {
            Some(&callee) => callee,
            None => {
                let mut signature = Signature::new(self.shared.call_conv);
                signature.params.extend(args.iter().map(|&a| AbiParam::new(self.b.func.dfg.value_type(a))));
                signature.returns.push(AbiParam::new(result));
                let id = self
                    .module
                    .declare_function(f.name, Linkage::Import, &signature)
                    .expect("a function of the runtime is declared with one signature");
                let callee = self.module.declare_func_in_func(id, self.b.func);
                self.functions.insert(f.name, callee);
                callee
            }
        };
        let call = self.b.ins().call(callee, args);
        self.b.inst_results(call)[0]
    }

    // ---- scopes and memory of values -----------------------------------------------------------------------

    pub(super) fn open(&self) -> Scope {
        Scope { memo: self.memo.scoped.len(), links: self.scoped_links.len() }
    }

    pub(super) fn close(&mut self, scope: Scope) {
        for e in self.memo.scoped.drain(scope.memo..) {
            self.memo.values.remove(&e);
        }
        for id in self.scoped_links.drain(scope.links..) {
            self.link_values.remove(&id);
        }
    }

    pub(super) fn remembered(&self, e: ExprId) -> Option<&Val> {
        self.memo.values.get(&e)
    }

    /// Caches the value of an expression while it is valid.
    pub(super) fn remember(&mut self, e: ExprId, value: &Val) {
        use crate::codegen::facts::Reads;
        match self.reads.get(&self.kernel.arena, e) {
            Reads::Nothing => {}
            Reads::Buffer(b) => self.memo.by_buffer.entry(b).or_default().push(e),
            Reads::Local(l) => self.memo.by_local.entry(l).or_default().push(e),
            Reads::Several => self.memo.statement.push(e),
        }
        self.memo.scoped.push(e);
        self.memo.values.insert(e, value.clone());
    }

    fn forget_buffer(&mut self, b: BufferId) {
        if let Some(keys) = self.memo.by_buffer.get_mut(&b) {
            for e in keys.drain(..) {
                self.memo.values.remove(&e);
            }
        }
    }

    fn forget_local(&mut self, l: LocalId) {
        if let Some(keys) = self.memo.by_local.get_mut(&l) {
            for e in keys.drain(..) {
                self.memo.values.remove(&e);
            }
        }
    }

    fn forget_statement(&mut self) {
        for e in std::mem::take(&mut self.memo.statement) {
            self.memo.values.remove(&e);
        }
    }

    /// Discards cached values of everything that these statements write, because they will run again or may have run.
    fn forget_written(&mut self, body: Body) {
        let mut buffers = HashSet::<BufferId, FxBuild>::default();
        let mut locals = HashSet::<LocalId, FxBuild>::default();
        self.kernel.for_each_stmt(body, &mut |_, stmt| match stmt {
            Stmt::Store { buffer, .. } => {
                buffers.insert(buffer);
            }
            Stmt::Set { local, .. } => {
                locals.insert(local);
            }
            Stmt::For(_) | Stmt::While { .. } | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Check { .. } => {}
        });
        for b in buffers {
            self.forget_buffer(b);
        }
        for l in locals {
            self.forget_local(l);
        }
    }

    /// Discards cached values of everything that a statement writes, including nested statements.
    fn forget_written_by(&mut self, s: StmtId) {
        match self.kernel.stmts.get(s) {
            Stmt::For(l) => self.forget_written(l.body),
            Stmt::While { body, .. } => self.forget_written(body),
            Stmt::Store { buffer, .. } => self.forget_buffer(buffer),
            Stmt::Set { local, .. } => self.forget_local(local),
            Stmt::If { then, otherwise, .. } => {
                self.forget_written(then);
                self.forget_written(otherwise);
            }
            Stmt::Let { .. } | Stmt::Check { .. } => {}
        }
        self.forget_statement();
    }

    // ---- statements ----------------------------------------------------------------------------------------

    /// Emits statements; their let bindings go out of scope at the end.
    fn body(&mut self, body: Body) {
        let mut bound = SmallVec::<[VarId; 8]>::new();
        let mut next = 0;
        while next < body.len() {
            let s = self.kernel.stmts.list(body)[next];
            if let Some(len) = self.region(s) {
                for &s in &self.kernel.stmts.list(body)[next..next + len] {
                    self.forget_written_by(s);
                }
                next += len;
                continue;
            }
            next += 1;
            match self.kernel.stmts.get(s) {
                Stmt::For(l) => self.for_loop(s, &l),
                Stmt::While { running, body } => self.while_loop(s, running, body),
                Stmt::If { condition, then, otherwise } => self.if_else(condition, then, otherwise),
                Stmt::Store { buffer, index, value } => {
                    let value = self.expr(value);
                    self.store(buffer, index, &value);
                    self.forget_buffer(buffer);
                }
                Stmt::Let { var, value } => {
                    let value = self.expr(value);
                    self.vars[var.index()] = Some(value);
                    bound.push(var);
                }
                Stmt::Set { local, value } => self.set(local, value),
                Stmt::Check { condition, failure } => {
                    let holds = self.expr(condition).single();
                    self.fail_unless(holds, failure);
                }
            }
            self.forget_statement();
        }
        for var in bound {
            self.vars[var.index()] = None;
        }
    }

    fn set(&mut self, local: LocalId, value: ExprId) {
        let mut value = self.expr(value);
        let ty = self.kernel.arena.local(local).ty;
        if ty.lanes > 1 && ty.dtype == crate::ir::DType::Bool {
            value = self.mask_to(&value, local_lane_bytes(ty));
        }
        let variables = self.variables(local);
        for (&variable, &part) in variables.iter().zip(&value.parts) {
            self.b.def_var(variable, part);
        }
        self.forget_local(local);
    }

    fn variables(&mut self, local: LocalId) -> SmallVec<[Variable; 4]> {
        if let Some(variables) = &self.locals[local.index()] {
            return variables.clone();
        }
        let (n, part) = self.local_parts(self.kernel.arena.local(local).ty);
        let variables: SmallVec<[Variable; 4]> = (0..n).map(|_| self.b.declare_var(part)).collect();
        self.locals[local.index()] = Some(variables.clone());
        variables
    }

    /// The current value of a register.
    pub(super) fn local(&mut self, local: LocalId) -> Val {
        let ty = self.kernel.arena.local(local).ty;
        let variables = self.variables(local);
        let parts = variables.iter().map(|&v| self.b.use_var(v)).collect();
        Val { ty, lane_bytes: local_lane_bytes(ty), parts }
    }

    /// Exits with `failure` unless `holds`.
    pub(super) fn fail_unless(&mut self, holds: Value, failure: Failure) {
        let next = self.b.create_block();
        let fail = self.b.create_block();
        self.b.set_cold_block(fail);
        self.b.ins().brif(holds, next, &[], fail, &[]);
        self.b.seal_block(fail);
        self.b.switch_to_block(fail);
        let status = self.b.ins().iconst(types::I32, Status::Failed(failure).code() as i64);
        self.b.ins().jump(self.exit, &[BlockArg::Value(status)]);
        self.b.seal_block(next);
        self.b.switch_to_block(next);
    }

    fn if_else(&mut self, condition: ExprId, then: Body, otherwise: Body) {
        let holds = self.expr(condition).single();
        let (yes, no, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().brif(holds, yes, &[], no, &[]);
        for (block, body) in [(yes, then), (no, otherwise)] {
            self.b.seal_block(block);
            self.b.switch_to_block(block);
            let scope = self.open();
            self.body(body);
            self.close(scope);
            self.b.ins().jump(after, &[]);
        }
        self.b.seal_block(after);
        self.b.switch_to_block(after);
        // Discard what either branch wrote: a value that one branch computed again is not valid after the other.
        self.forget_written(then);
        self.forget_written(otherwise);
    }

    fn for_loop(&mut self, s: StmtId, l: &For) {
        let extent = self.expr(l.extent).single();
        if l.kind == LoopKind::Parallel && !self.in_body && self.shared.options.threads > 1 {
            return self.parallel(s, l, extent);
        }
        let zero = self.b.ins().iconst(types::I64, 0);
        self.count(s, l, zero, extent);
    }

    /// Emits a loop for counter values `begin..end`.
    fn count(&mut self, s: StmtId, l: &For, begin: Value, end: Value) {
        self.forget_statement();
        self.forget_written(l.body);
        let advanced = self.prepare_addresses(s, l);
        let header = self.b.create_block();
        let inside = self.b.create_block();
        let after = self.b.create_block();
        let mut args: SmallVec<[BlockArg; 8]> = SmallVec::new();
        args.push(BlockArg::Value(begin));
        for &(id, step) in &advanced {
            let mut start = self.link_start(id);
            if !self.is_zero(begin) {
                let offset = self.scaled(begin, step);
                start = self.b.ins().iadd(start, offset);
            }
            args.push(BlockArg::Value(start));
        }
        self.b.ins().jump(header, &args);
        let counter = self.b.append_block_param(header, types::I64);
        let pointers: SmallVec<[Value; 8]> =
            advanced.iter().map(|_| self.b.append_block_param(header, types::I64)).collect();
        self.b.switch_to_block(header);
        // The test is at the top: accumulators then reach only the body, so that loads can be folded into their users.
        let more = self.b.ins().icmp(IntCC::SignedLessThan, counter, end);
        self.b.ins().brif(more, inside, &[], after, &[]);
        self.b.seal_block(inside);
        self.b.switch_to_block(inside);

        let scope = self.open();
        self.vars[l.var.index()] = Some(Val::scalar(crate::ir::DType::Int64, counter));
        for (&(id, _), &pointer) in advanced.iter().zip(&pointers) {
            self.link_values.insert(id, pointer);
            self.scoped_links.push(id);
        }
        self.body(l.body);
        self.close(scope);
        self.vars[l.var.index()] = None;
        self.forget_written(l.body);

        if self.shared.polls.contains(&s) {
            self.poll();
        }
        let mut args: SmallVec<[BlockArg; 8]> = SmallVec::new();
        args.push(BlockArg::Value(self.b.ins().iadd_imm_s(counter, 1)));
        for (&(_, step), &pointer) in advanced.iter().zip(&pointers) {
            args.push(BlockArg::Value(self.b.ins().iadd_imm_s(pointer, step)));
        }
        self.b.ins().jump(header, &args);
        self.b.seal_block(header);
        self.b.seal_block(after);
        self.b.switch_to_block(after);
    }

    /// Emits a loop that runs while a register is true.
    fn while_loop(&mut self, s: StmtId, running: LocalId, body: Body) {
        self.forget_statement();
        self.forget_written(body);
        let (header, inside, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().jump(header, &[]);
        self.b.switch_to_block(header);
        let more = self.local(running).single();
        self.b.ins().brif(more, inside, &[], after, &[]);
        self.b.seal_block(inside);
        self.b.switch_to_block(inside);
        let scope = self.open();
        self.body(body);
        self.close(scope);
        self.forget_written(body);
        if self.shared.polls.contains(&s) {
            self.poll();
        }
        self.b.ins().jump(header, &[]);
        self.b.seal_block(header);
        self.b.seal_block(after);
        self.b.switch_to_block(after);
    }

    fn is_zero(&self, v: Value) -> bool {
        use cranelift_codegen::ir::{InstructionData, Opcode, ValueDef};
        let ValueDef::Result(inst, _) = self.b.func.dfg.value_def(v) else { return false };
        matches!(self.b.func.dfg.insts[inst],
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } if imm.bits() == 0)
    }

    /// Exits if the stop flag is raised.
    fn poll(&mut self) {
        let stop = self.stop.expect("the flag's address is loaded where anything polls");
        let raised = self.b.ins().load(types::I32, FLAGS, stop, 0);
        let next = self.b.create_block();
        let stopped = self.b.create_block();
        self.b.set_cold_block(stopped);
        self.b.ins().brif(raised, stopped, &[], next, &[]);
        self.b.seal_block(stopped);
        self.b.switch_to_block(stopped);
        let status = self.b.ins().iconst(types::I32, Status::Stopped.code() as i64);
        self.b.ins().jump(self.exit, &[BlockArg::Value(status)]);
        self.b.seal_block(next);
        self.b.switch_to_block(next);
    }

    /// Forks a loop to the workers; outer variables that it needs are passed in a stack slot.
    fn parallel(&mut self, s: StmtId, l: &For, extent: Value) {
        let mut env = Vec::new();
        let mut size = 0;
        for var in self.captured(l.body) {
            let Some(val) = self.vars[var.index()].clone() else { continue };
            let n_parts = val.parts.len();
            env.push((Captured { var, ty: val.ty, lane_bytes: val.lane_bytes, n_parts, offset: size }, val));
            size += n_parts as i32 * 16;
        }
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size.max(16) as u32, 4);
        let slot = self.b.create_sized_stack_slot(slot);
        let address = self.b.ins().stack_addr(types::I64, slot, 0);
        for (captured, val) in &env {
            for (i, &part) in val.parts.iter().enumerate() {
                self.b.ins().store(FLAGS, part, address, captured.offset + (i * 16) as i32);
            }
        }
        let job = BodyJob { stmt: s, l: *l, env: env.into_iter().map(|(c, _)| c).collect(), id: None };
        let body = self.shared.add_body(self.module, job);
        let body = self.module.declare_func_in_func(body, self.b.func);
        let body = self.b.ins().func_addr(types::I64, body);
        let grain = self.shared.grain(s);
        let grain = self.b.ins().iconst(types::I64, grain);
        let fork = self.b.ins().load(types::I64, FLAGS, self.frame, offset_of!(Frame, fork) as i32);
        let signature = self.fork_signature();
        let call = self.b.ins().call_indirect(signature, fork, &[self.frame, body, address, extent, grain]);
        let status = self.b.inst_results(call)[0];
        let next = self.b.create_block();
        self.b.ins().brif(status, self.exit, &[BlockArg::Value(status)], next, &[]);
        self.b.seal_block(next);
        self.b.switch_to_block(next);
        self.forget_written(l.body);
    }

    fn fork_signature(&mut self) -> SigRef {
        let mut signature = Signature::new(self.shared.call_conv);
        signature.params.extend([AbiParam::new(types::I64); 5]);
        signature.returns.push(AbiParam::new(types::I32));
        self.b.import_signature(signature)
    }

    /// The outer variables that statements use, in order of their ids.
    fn captured(&self, body: Body) -> Vec<VarId> {
        let arena = &self.kernel.arena;
        let mut mentioned = vec![false; arena.n_vars()];
        self.kernel.for_each_stmt(body, &mut |_, stmt| {
            for_each_operand(stmt, |e| {
                for_each_expr(arena, e, &mut |e| {
                    if let Some(v) = arena.as_var(e) {
                        mentioned[v.index()] = true;
                    }
                });
            });
        });
        (0..arena.n_vars()).filter(|&i| mentioned[i]).map(|i| VarId(i as u32)).collect()
    }
}
