//! Graphs: kernels that are called one after the other, on places in memory.
//!
//! The calls are a kernel themselves, of Cranelift's IR: it finds the address of each argument and passes its own frame on, so that
//! the rest of an object need not know of graphs. Intermediate values lie at the begin of the shared scratch memory, that of the
//! kernels behind them.

use super::ExportError;
use super::abi::{self, Frame};
use super::code_module::CodeModule;
use super::descriptors::declare_library;
use super::elements::Elements;
use super::interface::{Graph, Param};
use super::names::{c_name, distinct};
use crate::codegen::object::{Extensions, ObjectKernel};
use crate::graph::Constant;
use crate::graph::memory::ALIGNMENT;
use crate::graph::program::{Kernels, Place, Tensor};
use crate::graph::scheduled::Scheduled;
use crate::loopir::Access;
use cranelift_codegen::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, FuncRef, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module};
use std::collections::HashMap;
use std::mem::{offset_of, size_of};

/// What is loaded and stored is there.
const FLAGS: MemFlagsData = MemFlagsData::trusted();

impl Graph {
    /// The graph of steps with their kernels. `weights` follow the inputs; `prepared` has the results of the preparation. What calls do
    /// not read is left out.
    pub fn new(scheduled: Scheduled, weights: &[Constant], prepared: &[Option<Constant>]) -> Graph {
        let Scheduled { program, kernels, .. } = scheduled;
        let n_inputs = program.n_inputs;
        let weights = weights.iter().enumerate().map(|(i, w)| (Place::Input(n_inputs + i), w));
        let constants = program.constants.iter().enumerate().map(|(i, c)| (Place::Constant(i), c));
        let prepared = prepared.iter().enumerate().filter_map(|(i, p)| Some((Place::Prepared(i), p.as_ref()?)));
        let read = program.read_places();
        let all = weights.chain(constants).chain(prepared).filter(|(place, _)| read.contains(place));
        let known = all.map(|(place, constant)| (place, constant.clone())).collect();
        let kernel_of = Kernels::of(&program.steps).of_step;
        Graph { program, kernels, kernel_of, known }
    }

    /// The parameters: the inputs, then the results. Their names are unique.
    pub(super) fn params(&self) -> Vec<Param> {
        let inputs = self.program.inputs[..self.program.n_inputs].iter().map(|t| (t, Access::In));
        let all: Vec<(&Tensor, Access)> = inputs.chain(self.program.outputs.iter().map(|t| (t, Access::Out))).collect();
        let names = distinct(all.iter().map(|(t, _)| t.name.clone()));
        let c_names = distinct(names.iter().map(|n| c_name(n)));
        let param = |((name, c_name), (tensor, access)): ((String, String), (&Tensor, Access))| Param {
            name,
            c_name,
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            strides: None,
            offset: 0,
            by_value: false,
            access,
        };
        names.into_iter().zip(c_names).zip(all).map(param).collect()
    }

    /// The positions of inputs and results among the parameters.
    fn positions(&self) -> HashMap<Place, usize> {
        let inputs = (0..self.program.n_inputs).map(Place::Input);
        inputs.chain((0..self.program.outputs.len()).map(Place::Output)).zip(0..).collect()
    }
}

/// Defines the calls of a graph as a kernel.
pub(super) fn define_calls(
    module: &mut CodeModule,
    name: &str,
    graph: &Graph,
    kernels: &[ObjectKernel],
    elements: &HashMap<Place, Elements>,
) -> Result<ObjectKernel, ExportError> {
    let signature = kernel_signature();
    let entry = module.declare_function(name, Linkage::Local, &signature)?;
    let mut context = Context::new();
    context.func.signature = signature;
    context.func.name = UserFuncName::user(0, entry.as_u32());
    let mut builder = FunctionBuilderContext::new();
    let b = FunctionBuilder::new(&mut context.func, &mut builder);
    let (positions, callees) = (graph.positions(), HashMap::new());
    let mut writer = Writer { b, module, graph, elements, weights: None, positions, callees };
    writer.write(kernels)?;
    writer.b.finalize(writer.module.target_config());
    module.define_function(entry, &mut context)?;
    let most = |bytes: fn(&ObjectKernel) -> usize| kernels.iter().map(bytes).max().unwrap_or(0);
    Ok(ObjectKernel {
        entry,
        shared_bytes: arena_bytes(graph) + most(|k| k.shared_bytes),
        private_bytes: most(|k| k.private_bytes),
        is_parallel: kernels.iter().any(|k| k.is_parallel),
        extensions: kernels.iter().map(|k| k.extensions).fold(Extensions::default(), Extensions::or),
        encoded: Vec::new(),
    })
}

/// The size of the memory for intermediate values.
fn arena_bytes(graph: &Graph) -> usize {
    graph.program.plan.bytes.next_multiple_of(ALIGNMENT)
}

/// `uint32_t kernel(const Frame *)`
fn kernel_signature() -> Signature {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

struct Writer<'a> {
    b: FunctionBuilder<'a>,
    module: &'a mut CodeModule,
    graph: &'a Graph,
    elements: &'a HashMap<Place, Elements>,
    /// The address of the external weights, if it reads any.
    weights: Option<Value>,
    positions: HashMap<Place, usize>,
    callees: HashMap<FuncId, FuncRef>,
}

impl Writer<'_> {
    fn write(&mut self, kernels: &[ObjectKernel]) -> Result<(), ExportError> {
        let first = self.b.create_block();
        self.b.append_block_params_for_function_params(first);
        self.b.switch_to_block(first);
        self.b.seal_block(first);
        let failed = self.b.create_block();
        self.b.append_block_param(failed, types::I32);

        let outer = self.b.block_params(first)[0];
        let mut load = |offset: usize| self.b.ins().load(types::I64, FLAGS, outer, offset as i32);
        let params = load(offset_of!(Frame, params));
        let shared = load(offset_of!(Frame, shared));
        let passed_on =
            [offset_of!(Frame, private), offset_of!(Frame, stop), offset_of!(Frame, fork), offset_of!(Frame, workers)]
                .map(|offset| (offset, load(offset)));
        let most = self.graph.program.steps.iter().map(|s| s.args.len()).max().unwrap_or(0);
        let arguments = self.slot(most.max(1) * 8);
        let frame = self.slot(size_of::<Frame>());
        let scratch = self.b.ins().iadd_imm_s(shared, arena_bytes(self.graph) as i64);
        let own = [(offset_of!(Frame, params), arguments), (offset_of!(Frame, shared), scratch)];
        for (offset, value) in own.into_iter().chain(passed_on) {
            self.b.ins().store(FLAGS, value, frame, offset as i32);
        }

        if self.elements.values().any(|e| matches!(e, Elements::Outside(_))) {
            // The support code has checked that they were passed.
            let library = declare_library(self.module)?;
            let library = self.module.declare_data_in_func(library, self.b.func);
            let library = self.b.ins().symbol_value(types::I64, library);
            let at = offset_of!(abi::Library, weights) as i32;
            self.weights = Some(self.b.ins().load(types::I64, FLAGS, library, at));
        }

        let program = &self.graph.program;
        for (step, &kernel) in program.steps.iter().zip(&self.graph.kernel_of) {
            for copy in &step.copies {
                let bytes = self.b.ins().iconst(types::I64, copy.bytes as i64);
                let (from, to) = (self.address(copy.from, params, shared)?, self.address(copy.to, params, shared)?);
                let config = self.module.target_config();
                self.b.call_memcpy(config, to, from, bytes);
            }
            for (i, &place) in step.args.iter().enumerate() {
                let address = self.address(place, params, shared)?;
                self.b.ins().store(FLAGS, address, arguments, i as i32 * 8);
            }
            let entry = kernels[kernel].entry;
            let callee = match self.callees.get(&entry) {
                Some(&known) => known,
                None => self.module.declare_func_in_func(entry, self.b.func),
            };
            self.callees.insert(entry, callee);
            let call = self.b.ins().call(callee, &[frame]);
            let status = self.b.inst_results(call)[0];
            let next = self.b.create_block();
            let is_failure = self.b.ins().icmp_imm_u(IntCC::NotEqual, status, 0);
            self.b.ins().brif(is_failure, failed, &[status.into()], next, &[]);
            self.b.switch_to_block(next);
            self.b.seal_block(next);
        }
        for &(from, to) in &program.copies {
            let bytes = self.b.ins().iconst(types::I64, program.outputs[to].bytes() as i64);
            let (from, to) = (self.address(from, params, shared)?, self.address(Place::Output(to), params, shared)?);
            let config = self.module.target_config();
            self.b.call_memcpy(config, to, from, bytes);
        }
        let success = self.b.ins().iconst(types::I32, 0);
        self.b.ins().return_(&[success]);
        self.b.seal_block(failed);
        self.b.switch_to_block(failed);
        let status = self.b.block_params(failed)[0];
        self.b.ins().return_(&[status]);
        Ok(())
    }

    fn slot(&mut self, bytes: usize) -> Value {
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// The address of a place, given the parameters and the memory of intermediate values.
    ///
    /// # Errors
    /// It is no intermediate value, no parameter, and has no known elements.
    fn address(&mut self, place: Place, params: Value, shared: Value) -> Result<Value, ExportError> {
        match (self.elements.get(&place), self.weights) {
            (Some(&Elements::Inside(data)), _) => {
                let data = self.module.declare_data_in_func(data, self.b.func);
                return Ok(self.b.ins().symbol_value(types::I64, data));
            }
            (Some(&Elements::Outside(offset)), Some(weights)) => {
                return Ok(self.b.ins().iadd_imm_s(weights, offset as i64));
            }
            (Some(Elements::Outside(_)), None) | (None, _) => {}
        }
        if let Some(&position) = self.positions.get(&place) {
            return Ok(self.b.ins().load(types::I64, FLAGS, params, position as i32 * 8));
        }
        match place {
            Place::Temporary(i) => {
                let offset = self.graph.program.plan.offsets[i];
                Ok(self.b.ins().iadd_imm_s(shared, offset as i64))
            }
            Place::Input(_) | Place::Constant(_) | Place::Prepared(_) | Place::Output(_) => {
                Err(ExportError::UnknownElements { place })
            }
        }
    }
}
