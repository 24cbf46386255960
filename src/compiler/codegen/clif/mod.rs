//! The Cranelift back end: compiles a kernel to functions of a module.
//!
//! Cranelift's x86-64 vectors have 128 bits; wider ones are split into parts ([`value`]). Cranelift's own optimiser is
//! off, since it would make all loads of an unrolled body live at once; earlier passes have optimised. The same code
//! serves a JIT module and an object file.
//!
//! A kernel becomes one function that takes a frame ([`crate::codegen::runtime::frame`]), and one for the body of each
//! parallel loop. Both set the floating-point state that they need and restore the previous one.

#![expect(clippy::disallowed_methods, reason = "stages are timed")]

mod call;
mod convert;
mod expr;
mod fp_state;
mod func;
mod memory;
mod region;
mod remainder;
mod value;

use super::cost::Costs;
use super::scratch::ScratchLayout;
use super::wide::Regions;
use super::{CodegenError, CodegenOptions};
use crate::ir::expr::FxBuild;
use crate::loopir::{ExprList, For, Kernel, Stmt, StmtId, Ty, VarId};
use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId, Linkage, Module};
use func::Emitter;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Data shared by the functions of a kernel.
struct Shared {
    options: CodegenOptions,
    call_conv: CallConv,
    fp_enter: FuncId,
    fp_leave: FuncId,
    /// Whether anything looks at the stop flag.
    can_stop: bool,
    /// Loops that poll the stop flag after each iteration.
    polls: hashbrown::HashSet<StmtId, FxBuild>,
    /// Minimum number of iterations of a parallel loop that a worker takes at once.
    grains: HashMap<StmtId, i64, FxBuild>,
    scratch: ScratchLayout,
    /// The regions of the wide-vector back end.
    regions: Regions,
    /// Functions given as bytes so far.
    encoded: Vec<Encoded>,
    /// Numbers of the variables, from the outermost inwards.
    order: Vec<u32>,
    /// Parallel loops whose bodies become functions, in order of discovery.
    bodies: Vec<BodyJob>,
    /// Lookup tables in the module's data.
    tables: HashMap<ExprList, DataId, FxBuild>,
}

/// The body of a parallel loop, as a function.
struct BodyJob {
    stmt: StmtId,
    l: For,
    /// The outer variables that it reads, and their offsets in its environment.
    env: Vec<Captured>,
    id: Option<FuncId>,
}

/// A variable passed to the body of a parallel loop.
#[derive(Clone, Copy)]
struct Captured {
    var: VarId,
    ty: Ty,
    lane_bytes: u8,
    n_parts: usize,
    offset: i32,
}

/// The text of all functions of a kernel.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct FunctionText {
    /// Cranelift's IR.
    pub clif: String,
    /// Cranelift's machine instructions.
    pub assembly: String,
}

/// A function that our own encoders made.
#[derive(Clone)]
pub(super) struct Encoded {
    /// The function.
    pub id: FuncId,
    /// Number of its bytes.
    pub len: usize,
    /// The first bytes, among which are those that save registers.
    pub head: [u8; 16],
}

impl Encoded {
    pub(super) fn new(id: FuncId, bytes: &[u8]) -> Encoded {
        let mut head = [0; 16];
        let n = bytes.len().min(head.len());
        head[..n].copy_from_slice(&bytes[..n]);
        Encoded { id, len: bytes.len(), head }
    }
}

/// The result of emission.
pub(super) struct Emitted {
    /// The kernel function.
    pub entry: FuncId,
    /// The functions that Cranelift did not compile.
    pub encoded: Vec<Encoded>,
    /// The text of all functions, if requested.
    pub text: Option<FunctionText>,
    /// Time spent building Cranelift's IR.
    pub build: Duration,
    /// Time spent compiling it.
    pub compile: Duration,
}

thread_local! {
    /// Contexts are expensive to make and cheap to reuse.
    static CONTEXTS: RefCell<(Context, FunctionBuilderContext)> =
        RefCell::new((Context::new(), FunctionBuilderContext::new()));
}

/// How a kernel is emitted.
#[derive(Clone, Copy)]
pub(super) struct Emission<'a> {
    /// Name of the kernel function; those of others begin with it.
    pub name: &'a str,
    /// Whether the kernel looks at the stop flag of its frame.
    pub can_stop: bool,
    /// Whether the text of all functions is wanted.
    pub want_text: bool,
}

impl Emission<'_> {
    /// The same with or without text.
    pub(super) fn with_text(self, want_text: bool) -> Self {
        Emission { want_text, ..self }
    }
}

/// Emits a kernel into `module`.
pub(super) fn emit(
    module: &mut dyn Module,
    kernel: &Kernel,
    regions: Regions,
    options: &CodegenOptions,
    scratch: &ScratchLayout,
    emission: Emission<'_>,
) -> Result<Emitted, CodegenError> {
    let call_conv = module.target_config().default_call_conv;
    let costs = Costs::new(kernel, options.isa);
    let [fp_enter, fp_leave] = fp_state::define(module, options, emission.name)?;
    let mut shared = Shared {
        options: *options,
        call_conv,
        fp_enter: fp_enter.id,
        fp_leave: fp_leave.id,
        can_stop: emission.can_stop,
        polls: if emission.can_stop { costs.polls() } else { hashbrown::HashSet::default() },
        grains: costs.grains(),
        scratch: scratch.clone(),
        regions,
        encoded: vec![fp_enter.clone(), fp_leave.clone()],
        order: variable_order(kernel),
        bodies: Vec::new(),
        tables: HashMap::default(),
    };
    let mut signature = Signature::new(call_conv);
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I32));
    let entry = module.declare_function(emission.name, Linkage::Local, &signature)?;
    let mut emitted = Emitted {
        entry,
        encoded: Vec::new(),
        text: emission.want_text.then(FunctionText::default),
        build: Duration::ZERO,
        compile: Duration::ZERO,
    };
    CONTEXTS.with_borrow_mut(|(context, builder)| -> Result<(), CodegenError> {
        define(module, context, builder, entry, signature, &mut emitted, |b, module| {
            let emitter = Emitter::new(b, kernel, module, &mut shared, kernel.stmts.list(kernel.body));
            emitter.kernel_function(kernel.body);
        })?;
        let mut next = 0;
        while next < shared.bodies.len() {
            let job = BodyJob { env: std::mem::take(&mut shared.bodies[next].env), ..shared.bodies[next] };
            let id = job.id.expect("a job is declared when it is added");
            let signature = body_signature(call_conv);
            define(module, context, builder, id, signature, &mut emitted, |b, module| {
                Emitter::new(b, kernel, module, &mut shared, &[job.stmt]).body_function(&job);
            })?;
            next += 1;
        }
        Ok(())
    })?;
    emitted.encoded = shared.encoded;
    Ok(emitted)
}

/// Builds and compiles one function.
fn define(
    module: &mut dyn Module,
    context: &mut Context,
    builder: &mut FunctionBuilderContext,
    id: FuncId,
    signature: Signature,
    emitted: &mut Emitted,
    build: impl FnOnce(FunctionBuilder<'_>, &mut dyn Module),
) -> Result<(), CodegenError> {
    let started = Instant::now();
    module.clear_context(context);
    context.func.signature = signature;
    context.func.name = cranelift_codegen::ir::UserFuncName::user(0, id.as_u32());
    context.set_disasm(emitted.text.is_some());
    build(FunctionBuilder::new(&mut context.func, builder), module);
    let built = Instant::now();
    if let Some(text) = &mut emitted.text {
        text.clif.push_str(&format!("{}\n", context.func.display()));
    }
    module.define_function(id, context)?;
    emitted.compile += built.elapsed();
    emitted.build += built - started;
    let vcode = context.compiled_code().and_then(|code| code.vcode.as_ref());
    if let (Some(text), Some(vcode)) = (&mut emitted.text, vcode) {
        text.assembly.push_str(&format!("function u0:{}:\n{vcode}\n", id.as_u32()));
    }
    Ok(())
}

impl Shared {
    /// Adds a function for the body of a parallel loop.
    fn add_body(&mut self, module: &mut dyn Module, mut job: BodyJob) -> FuncId {
        let id = module
            .declare_anonymous_function(&body_signature(self.call_conv))
            .expect("a function without a name clashes with none");
        job.id = Some(id);
        self.bodies.push(job);
        id
    }

    fn grain(&self, s: StmtId) -> i64 {
        self.grains.get(&s).copied().unwrap_or(1)
    }
}

impl Emitter<'_, '_> {
    /// Whether every operation must round as written.
    fn is_strict(&self) -> bool {
        self.shared.options.strict_fp
    }
}

fn body_signature(call_conv: CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params.extend([AbiParam::new(types::I64); 5]);
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

/// Numbers variables in the order in which they are bound, from 1.
fn variable_order(kernel: &Kernel) -> Vec<u32> {
    let mut order = vec![0; kernel.arena.n_vars()];
    let mut n = 0;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        if let Stmt::For(For { var, .. }) | Stmt::Let { var, .. } = stmt {
            n += 1;
            order[var.index()] = n;
        }
    });
    order
}
