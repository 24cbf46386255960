//! Emits calls of regions.

use super::Encoded;
use super::func::Emitter;
use super::memory::FLAGS;
use crate::codegen::wide::RegionArg;
use crate::loopir::StmtId;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, StackSlotData, StackSlotKind, Value, types};
use smallvec::SmallVec;

/// Alignment of regions: a cache line, so that loops inside can be aligned within it.
const ALIGN: u64 = 64;

impl Emitter<'_, '_> {
    /// Emits the call of the region that starts with this statement, if there is one; returns the number of statements
    /// covered.
    pub(super) fn region(&mut self, s: StmtId) -> Option<usize> {
        let region = self.shared.regions.at(s)?;
        let (len, args) = (region.len, region.args.clone());
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, (args.len() * 8).max(8) as u32, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let values: SmallVec<[Value; 8]> = args
            .iter()
            .map(|&arg| match arg {
                RegionArg::Address { buffer, index } => {
                    let (pointer, displacement) = self.address(buffer, index);
                    self.b.ins().iadd_imm_s(pointer, i64::from(displacement))
                }
                RegionArg::Value(e) => self.expr(e).single(),
            })
            .collect();
        let frame = self.b.ins().stack_addr(types::I64, slot, 0);
        for (i, value) in values.into_iter().enumerate() {
            self.b.ins().store(FLAGS, value, frame, i as i32 * 8);
        }
        let mut signature = Signature::new(self.shared.call_conv);
        signature.params.push(AbiParam::new(types::I64));
        let id =
            self.module.declare_anonymous_function(&signature).expect("a function without a name clashes with none");
        let bytes = self.shared.regions.at(s).map_or(&[][..], |r| &r.bytes);
        self.module.define_function_bytes(id, ALIGN, bytes, &[]).expect("it is defined once");
        self.shared.encoded.push(Encoded::new(id, bytes));
        let callee = self.module.declare_func_in_func(id, self.b.func);
        self.b.ins().call(callee, &[frame]);
        Some(len)
    }
}
