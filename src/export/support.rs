//! Copies support code into an object, as a linker would: the sections that its undefined symbols need, with all that those refer
//! to. What stays undefined is a function of the C library.

use super::ExportError;
use object::read::elf::ElfFile64;
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex, SymbolIndex};
use object::write::{Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{LittleEndian, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use std::collections::{BTreeMap, HashMap};

/// The support code, as `build.rs` compiled it; empty where objects cannot be exported.
pub(super) const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/support.o"));

/// The symbol of TVM-FFI that reports errors. It is weak, so that an object needs no TVM.
pub(super) const RAISE: &str = "TVMFFIErrorSetRaisedFromCStr";

/// The function of the C library that looks symbols up.
pub(super) const DLSYM: &str = "dlsym";

/// Functions of the C library that a linked object may refer to; shared libraries also have what threads need.
const C_LIBRARY: &[&str] = &[
    "aligned_alloc",
    "free",
    "madvise",
    "memcpy",
    "memset",
    "memmove",
    "getpid",
    "sched_getaffinity",
    "sched_getcpu",
    "sched_setaffinity",
    "sched_yield",
    "pthread_create",
    "pthread_detach",
    "syscall",
];

/// Defines the symbols of an object that the support code has.
pub(super) fn link(object: &mut Object<'_>, has_tvm_ffi: bool) -> Result<(), ExportError> {
    let file = ElfFile64::<LittleEndian>::parse(OBJECT).map_err(|e| broken(&e))?;
    let mut linker = Linker { object, file: &file, sections: HashMap::new(), symbols: HashMap::new() };
    let mut wanted = Vec::new();
    for symbol in file.symbols().filter(|s| s.is_global() && s.is_definition()) {
        let name = symbol.name_bytes().map_err(|e| broken(&e))?;
        if let Some(id) = linker.object.symbol_id(name) {
            wanted.push((id, symbol.index()));
        }
    }
    for (id, index) in wanted {
        linker.define(id, index)?;
    }
    linker.copy_frames()?;
    for name in [RAISE, DLSYM] {
        if has_tvm_ffi && let Some(id) = object.symbol_id(name.as_bytes()) {
            object.symbol_mut(id).weak = true;
        }
    }
    Ok(())
}

/// Checks that nothing is left undefined in an object but functions of the C library.
pub(super) fn check_undefined(object: &[u8]) -> Result<(), ExportError> {
    let file = ElfFile64::<LittleEndian>::parse(object).map_err(|e| broken(&e))?;
    for symbol in file.symbols().filter(|s| s.is_undefined()) {
        let name = symbol.name().map_err(|e| broken(&e))?;
        if !name.is_empty() && name != RAISE && name != DLSYM && !C_LIBRARY.contains(&name) {
            return Err(ExportError::Write(format!("`{name}` is not defined")));
        }
    }
    Ok(())
}

fn broken(e: &dyn std::fmt::Display) -> ExportError {
    ExportError::Write(format!("the support code is damaged: {e}"))
}

/// An object that receives sections of the support code.
struct Linker<'a, 'b> {
    object: &'a mut Object<'b>,
    file: &'a ElfFile64<'static, LittleEndian>,
    /// Where sections were copied to.
    sections: HashMap<SectionIndex, (SectionId, u64)>,
    /// Symbols of the object for those of the support code.
    symbols: HashMap<SymbolIndex, SymbolId>,
}

impl Linker<'_, '_> {
    /// Gives an undefined symbol of the object the definition that the support code has.
    fn define(&mut self, id: SymbolId, index: SymbolIndex) -> Result<(), ExportError> {
        let symbol = self.file.symbol_by_index(index).map_err(|e| broken(&e))?;
        let section = symbol.section_index().ok_or_else(|| broken(&"a symbol without a section"))?;
        self.symbols.insert(index, id);
        let (copied, base) = self.section(section)?;
        let defined = self.object.symbol_mut(id);
        defined.section = SymbolSection::Section(copied);
        defined.value = base + symbol.address();
        defined.size = symbol.size();
        defined.kind = SymbolKind::Text;
        defined.scope = SymbolScope::Compilation;
        defined.weak = false;
        defined.flags = SymbolFlags::None;
        Ok(())
    }

    /// The copy of a section.
    fn section(&mut self, index: SectionIndex) -> Result<(SectionId, u64), ExportError> {
        if let Some(&copied) = self.sections.get(&index) {
            return Ok(copied);
        }
        let section = self.file.section_by_index(index).map_err(|e| broken(&e))?;
        let name = section.name().map_err(|e| broken(&e))?;
        let kind = match section.kind() {
            SectionKind::Text => StandardSection::Text,
            SectionKind::ReadOnlyData | SectionKind::ReadOnlyString => StandardSection::ReadOnlyData,
            SectionKind::ReadOnlyDataWithRel => StandardSection::ReadOnlyDataWithRel,
            // The compiler's name for constants with addresses.
            SectionKind::Data if name.starts_with(".data.rel.ro") => StandardSection::ReadOnlyDataWithRel,
            _ => return Err(broken(&format!("section `{name}` is of no kind that support code has"))),
        };
        let id = self.object.section_id(kind);
        let data = section.data().map_err(|e| broken(&e))?;
        let base = self.object.append_section_data(id, data, section.align());
        self.sections.insert(index, (id, base));
        let relocations: Vec<_> = section.relocations().collect();
        for (offset, relocation) in relocations {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { return Err(broken(&"a relocation")) };
            let RelocationTarget::Symbol(target) = relocation.target() else { return Err(broken(&"a relocation")) };
            self.relocate(id, base + offset, target, relocation.addend(), r_type)?;
        }
        Ok((id, base))
    }

    fn relocate(
        &mut self,
        section: SectionId,
        offset: u64,
        target: SymbolIndex,
        addend: i64,
        r_type: u32,
    ) -> Result<(), ExportError> {
        let symbol = self.file.symbol_by_index(target).map_err(|e| broken(&e))?;
        let (symbol, addend) = match symbol.section_index().filter(|_| symbol.kind() == SymbolKind::Section) {
            Some(of) => {
                let (copied, base) = self.section(of)?;
                (self.object.section_symbol(copied), addend + base as i64)
            }
            None => (self.symbol(target)?, addend),
        };
        let relocation = Relocation { offset, symbol, addend, flags: RelocationFlags::Elf { r_type } };
        self.object.add_relocation(section, relocation).map_err(|e| broken(&e))
    }

    /// The object's symbol for one of the support code.
    fn symbol(&mut self, index: SymbolIndex) -> Result<SymbolId, ExportError> {
        if let Some(&id) = self.symbols.get(&index) {
            return Ok(id);
        }
        let symbol = self.file.symbol_by_index(index).map_err(|e| broken(&e))?;
        let name = symbol.name_bytes().map_err(|e| broken(&e))?.to_vec();
        let Some(section) = symbol.section_index() else {
            // A function of the C library.
            let id = match self.object.symbol_id(&name) {
                Some(id) => id,
                None => self.object.add_symbol(Symbol {
                    name,
                    value: 0,
                    size: 0,
                    kind: SymbolKind::Text,
                    scope: SymbolScope::Unknown,
                    weak: false,
                    section: SymbolSection::Undefined,
                    flags: SymbolFlags::None,
                }),
            };
            self.symbols.insert(index, id);
            return Ok(id);
        };
        // Registered before its section is copied, which may refer to it.
        let id = self.object.add_symbol(Symbol {
            name,
            value: 0,
            size: symbol.size(),
            kind: if symbol.kind() == SymbolKind::Text { SymbolKind::Text } else { SymbolKind::Data },
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Undefined,
            flags: SymbolFlags::None,
        });
        self.symbols.insert(index, id);
        let (copied, base) = self.section(section)?;
        let defined = self.object.symbol_mut(id);
        defined.section = SymbolSection::Section(copied);
        defined.value = base + symbol.address();
        Ok(id)
    }

    /// Copies the unwind information of the sections that were copied.
    fn copy_frames(&mut self) -> Result<(), ExportError> {
        let Some(section) = self.file.section_by_name(".eh_frame") else { return Ok(()) };
        let data = section.data().map_err(|e| broken(&e))?;
        let relocations: BTreeMap<u64, object::read::Relocation> = section.relocations().collect();
        let word = |at: usize| data.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let mut bytes: Vec<u8> = Vec::new();
        let mut functions = Vec::new();
        // The common parts that were copied: their old and new offsets.
        let mut commons: BTreeMap<usize, usize> = BTreeMap::new();
        let mut at = 0;
        // Each record has a length, and for a function the distance back to its common part.
        while let (Some(len), Some(back)) = (word(at), word(at + 4)) {
            let end = at + 4 + len;
            if len == 0 || end > data.len() {
                break;
            }
            let begin = relocations.get(&(at as u64 + 8)).filter(|_| back != 0);
            if let Some(relocation) = begin
                && let RelocationTarget::Symbol(target) = relocation.target()
                && let Ok(symbol) = self.file.symbol_by_index(target)
                && symbol.section_index().is_some_and(|s| self.sections.contains_key(&s))
            {
                let old = at + 4 - back;
                let common = match commons.get(&old) {
                    Some(&new) => new,
                    None => {
                        let len = word(old).unwrap_or(0);
                        let new = bytes.len();
                        bytes.extend_from_slice(data.get(old..old + 4 + len).unwrap_or_default());
                        commons.insert(old, new);
                        new
                    }
                };
                let new = bytes.len();
                bytes.extend_from_slice(&data[at..end]);
                bytes[new + 4..new + 8].copy_from_slice(&((new + 4 - common) as u32).to_le_bytes());
                functions.push((new as u64 + 8, target, relocation.addend(), relocation.flags()));
            }
            at = end;
        }
        let id = self.object.section_id(StandardSection::EhFrame);
        let base = self.object.append_section_data(id, &bytes, 8);
        for (offset, target, addend, flags) in functions {
            let RelocationFlags::Elf { r_type } = flags else { continue };
            self.relocate(id, base + offset, target, addend, r_type)?;
        }
        Ok(())
    }
}
