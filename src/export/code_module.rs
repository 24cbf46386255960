//! The module that objects are made in: as Cranelift's object module, but functions of one object may be for different CPUs, and
//! functions that were encoded by hand have unwind information too.

use crate::codegen::object::EncodedFunction;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Signature;
use cranelift_codegen::isa::unwind::UnwindInfo;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_module::{
    DataDescription, DataId, FuncId, Linkage, Module, ModuleDeclarations, ModuleReloc, ModuleResult,
};
use cranelift_object::{ObjectModule, ObjectProduct};
use gimli::write::{
    Address, CallFrameInstruction, EhFrame, EndianVec, FrameDescriptionEntry, FrameTable, RelocateWriter, Relocation,
    RelocationTarget,
};
use object::write::{StandardSection, SymbolSection};
use object::{RelocationEncoding, RelocationFlags, RelocationKind};

/// An object module with a machine description that can be changed between functions.
pub(super) struct CodeModule {
    module: ObjectModule,
    isa: OwnedTargetIsa,
    /// Unwind information by function. The symbol of an entry is its index here.
    frames: Vec<(FuncId, FrameDescriptionEntry)>,
}

impl CodeModule {
    /// A module whose functions are compiled by this description.
    pub(super) fn new(module: ObjectModule, isa: OwnedTargetIsa) -> CodeModule {
        CodeModule { module, isa, frames: Vec::new() }
    }

    /// Compiles the functions that follow by another description, for the same architecture.
    pub(super) fn set_isa(&mut self, isa: OwnedTargetIsa) {
        self.isa = isa;
    }

    fn next_address(&self) -> Address {
        Address::Symbol { symbol: self.frames.len(), addend: 0 }
    }

    /// Adds unwind information of a function that was encoded by hand. Such functions save registers by pushing them first, and
    /// do nothing else to the stack until their ends.
    pub(super) fn add_frame_of_encoded(&mut self, function: &EncodedFunction) {
        if cfg!(not(target_arch = "x86_64")) {
            return;
        }
        let mut entry = FrameDescriptionEntry::new(self.next_address(), function.len as u32);
        // Distance from the stack pointer to the caller's: the return address at first.
        let mut distance = 8;
        let mut at = 0;
        while let Some(len) = push_len(&function.head[at..]) {
            at += len;
            distance += 8;
            entry.add_instruction(at as u32, CallFrameInstruction::CfaOffset(distance));
        }
        self.frames.push((function.id, entry));
    }

    /// The object, with its unwind information.
    pub(super) fn finish(self) -> Result<ObjectProduct, gimli::write::Error> {
        let CodeModule { module, isa, frames } = self;
        let mut product = module.finish();
        let Some(mut cie) = isa.create_systemv_cie() else { return Ok(product) };
        // Relative addresses: absolute ones would be written at load time, into memory that processes share.
        cie.fde_address_encoding = gimli::DwEhPe(gimli::DW_EH_PE_pcrel.0 | gimli::DW_EH_PE_sdata4.0);
        let mut table = FrameTable::default();
        let cie = table.add_cie(cie);
        let mut symbols = Vec::with_capacity(frames.len());
        for (function, entry) in frames {
            symbols.push(product.function_symbol(function));
            table.add_fde(cie, entry);
        }
        let mut section = EhFrame(Frames { writer: EndianVec::new(gimli::LittleEndian), relocations: Vec::new() });
        table.write_eh_frame(&mut section)?;
        let EhFrame(Frames { writer, relocations }) = section;
        let id = product.object.section_id(StandardSection::EhFrame);
        let base = product.object.append_section_data(id, &writer.into_vec(), 8);
        for relocation in relocations {
            let RelocationTarget::Symbol(symbol) = relocation.target else { continue };
            let kind = if relocation.eh_pe.is_some_and(|pe| pe.application() == gimli::DW_EH_PE_pcrel) {
                RelocationKind::Relative
            } else {
                RelocationKind::Absolute
            };
            let flags =
                RelocationFlags::Generic { kind, encoding: RelocationEncoding::Generic, size: relocation.size * 8 };
            // By section and offset: a symbol that is visible outside might be replaced at load time.
            let function = product.object.symbol(symbols[symbol]);
            let (value, section) = (function.value, function.section);
            let SymbolSection::Section(section) = section else { continue };
            let written = object::write::Relocation {
                offset: base + relocation.offset as u64,
                symbol: product.object.section_symbol(section),
                addend: relocation.addend + value as i64,
                flags,
            };
            product.object.add_relocation(id, written).map_err(|_| gimli::write::Error::InvalidAddress)?;
        }
        Ok(product)
    }
}

/// Number of bytes of the `push` that code begins with, if it does.
fn push_len(code: &[u8]) -> Option<usize> {
    match code {
        [0x50..=0x57, ..] => Some(1),
        [0x41, 0x50..=0x57, ..] => Some(2),
        _ => None,
    }
}

/// The section of unwind information while it is written.
struct Frames {
    writer: EndianVec<gimli::LittleEndian>,
    relocations: Vec<Relocation>,
}

impl RelocateWriter for Frames {
    type Writer = EndianVec<gimli::LittleEndian>;

    fn writer(&self) -> &Self::Writer {
        &self.writer
    }

    fn writer_mut(&mut self) -> &mut Self::Writer {
        &mut self.writer
    }

    fn relocate(&mut self, relocation: Relocation) {
        self.relocations.push(relocation);
    }
}

impl Module for CodeModule {
    fn isa(&self) -> &dyn TargetIsa {
        &*self.isa
    }

    fn declarations(&self) -> &ModuleDeclarations {
        self.module.declarations()
    }

    fn declare_function(&mut self, name: &str, linkage: Linkage, signature: &Signature) -> ModuleResult<FuncId> {
        self.module.declare_function(name, linkage, signature)
    }

    fn declare_anonymous_function(&mut self, signature: &Signature) -> ModuleResult<FuncId> {
        self.module.declare_anonymous_function(signature)
    }

    fn declare_data(&mut self, name: &str, linkage: Linkage, writable: bool, tls: bool) -> ModuleResult<DataId> {
        self.module.declare_data(name, linkage, writable, tls)
    }

    fn declare_anonymous_data(&mut self, writable: bool, tls: bool) -> ModuleResult<DataId> {
        self.module.declare_anonymous_data(writable, tls)
    }

    fn define_function_with_control_plane(
        &mut self,
        id: FuncId,
        context: &mut Context,
        control: &mut ControlPlane,
    ) -> ModuleResult<()> {
        context.compile(&*self.isa, control)?;
        let Some(compiled) = context.compiled_code() else { return Ok(()) };
        if let Some(UnwindInfo::SystemV(info)) = compiled.create_unwind_info(&*self.isa)? {
            let address = self.next_address();
            self.frames.push((id, info.to_fde(address)));
        }
        let buffer = &compiled.buffer;
        let alignment = u64::from(buffer.alignment);
        let relocations: Vec<ModuleReloc> =
            buffer.relocs().iter().map(|r| ModuleReloc::from_mach_reloc(r, &context.func, id)).collect();
        self.module.define_function_bytes(id, alignment, buffer.data(), &relocations)
    }

    fn define_function_bytes(
        &mut self,
        id: FuncId,
        alignment: u64,
        bytes: &[u8],
        relocations: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.module.define_function_bytes(id, alignment, bytes, relocations)
    }

    fn define_data(&mut self, id: DataId, data: &DataDescription) -> ModuleResult<()> {
        self.module.define_data(id, data)
    }
}
