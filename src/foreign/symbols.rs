//! What a shared library exports, read from its file.

use super::ForeignError;
use object::read::elf::ElfFile64;
use object::read::{Object as _, ObjectKind, ObjectSymbol as _, SymbolKind};
use std::path::Path;

/// The beginning of the names of packed functions.
pub(super) const PREFIX: &str = "__tvm_ffi_";

/// Whether a file is a shared library, or another ELF file, by its first bytes.
pub(crate) fn is_library(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// The functions that a library exports by TVM-FFI's convention, without the beginning of their names; in order.
///
/// # Errors
/// It is no shared library of 64 bits, is damaged, or exports no such function.
pub(crate) fn functions(path: &Path, bytes: &[u8]) -> Result<Vec<String>, ForeignError> {
    let symbols = exported(path, bytes, SymbolKind::Text)?;
    let name = |symbol: String| Some(symbol.strip_prefix(PREFIX)?.to_owned());
    let mut names: Vec<String> = symbols.into_iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    match names.is_empty() {
        false => Ok(names),
        true => {
            let why =
                format!("`{}` exports no function of TVM-FFI: none whose name begins with `{PREFIX}`", path.display());
            Err(ForeignError(why))
        }
    }
}

/// The pointers in which a library that TVM has compiled expects the addresses of functions of its runtime: `__TVM…`.
pub(super) fn runtime_pointers(path: &Path, bytes: &[u8]) -> Result<Vec<String>, ForeignError> {
    let symbols = exported(path, bytes, SymbolKind::Data)?;
    Ok(symbols.into_iter().filter(|s| s.starts_with("__TVM")).collect())
}

/// The names of the symbols of a kind that a library defines and exports.
fn exported(path: &Path, bytes: &[u8], kind: SymbolKind) -> Result<Vec<String>, ForeignError> {
    let shown = path.display();
    let broken = |e: object::read::Error| ForeignError(format!("`{shown}` is no shared library: {e}"));
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).map_err(broken)?;
    if file.kind() != ObjectKind::Dynamic {
        let why = format!("`{shown}` is no shared library, but another ELF file; link it with `-shared`");
        return Err(ForeignError(why));
    }
    let is_it = |s: &object::read::elf::ElfSymbol64<'_, '_>| s.is_definition() && s.kind() == kind;
    let symbols = file.dynamic_symbols().filter(is_it);
    Ok(symbols.filter_map(|s| s.name().ok().map(str::to_owned)).collect())
}
