//! Where tensors of bytes stay between prim_funcs: they take a quarter of the memory of floats.
//!
//! ```text
//! q = quantize(conv2d(…))    one prim_func
//! a = dequantize(q)          becomes part of what reads it, if that reads other elements than it writes: a concatenation, a pooling
//! ```
//!
//! A sum over bytes reads them many times, and from memory: only copies of bytes, such as padding, become part of it.

use super::{reads_in_place, rearranges};
use crate::graph::function::{CallId, Callee, Function, ValueDef, ValueId};
use crate::ir::{DType, Module};
use std::collections::HashMap;

pub(super) struct Bytes<'a> {
    function: &'a Function,
    module: &'a Module,
    readers: HashMap<ValueId, Vec<CallId>>,
    outputs: Vec<ValueId>,
}

impl<'a> Bytes<'a> {
    pub(super) fn of(function: &'a Function, module: &'a Module) -> Bytes<'a> {
        let mut readers: HashMap<ValueId, Vec<CallId>> = HashMap::new();
        for &c in &function.order {
            function.call(c).inputs().for_each(|v| readers.entry(v).or_default().push(c));
        }
        Bytes { function, module, readers, outputs: function.output.values() }
    }

    fn is_bytes(&self, v: ValueId) -> bool {
        self.function.ty(v).as_tensor().and_then(|t| t.dtype).is_some_and(|t| matches!(t, DType::Int8 | DType::UInt8))
    }

    /// Whether a call makes wider elements of bytes.
    fn widens(&self, c: CallId) -> bool {
        let call = self.function.call(c);
        let is_data = |v: ValueId| {
            let shape = |v| self.function.ty(v).as_tensor().and_then(|t| t.shape.clone());
            self.is_bytes(v) && shape(v) == shape(call.result)
        };
        !self.is_bytes(call.result) && call.inputs().any(is_data)
    }

    /// Whether wider elements that a call makes of bytes should be made where they are read.
    pub(super) fn are_read_later(&self, c: CallId) -> bool {
        let result = self.function.call(c).result;
        if !self.widens(c) || self.outputs.contains(&result) {
            return false;
        }
        let in_place = |&reader: &CallId| {
            let call = self.function.call(reader);
            let (Callee::CallTir(name), Some(i)) = (call.callee, call.inputs().position(|v| v == result)) else {
                return false;
            };
            let func = self.module.func(name.as_str());
            func.is_some_and(|func| rearranges(func).is_some_and(|block| reads_in_place(func, block, i)))
        };
        !self.readers.get(&result).is_some_and(|all| all.iter().all(in_place))
    }

    /// Whether a value is what a call makes of bytes.
    pub(super) fn stands_for_bytes(&self, v: ValueId) -> bool {
        matches!(self.function.value(v).def, ValueDef::Call(c) if self.widens(c))
    }

    /// Whether a sum may compute the elements of a value itself, by the calls of a group: any but bytes, or copies of bytes.
    pub(super) fn may_be_read_by_sum(&self, v: ValueId, group: &[CallId]) -> bool {
        let copies = |&c: &CallId| {
            let call = self.function.call(c);
            self.is_bytes(call.result) && call.inputs().count() == 1 && call.inputs().all(|v| self.is_bytes(v))
        };
        !self.is_bytes(v) || group.iter().all(copies)
    }
}
