//! Libraries: functions that graphs call by name, and that no module of the text has.

use crate::ir::{AttrValue, Func, Symbol, identifier};
use std::path::PathBuf;

/// The libraries that the user names.
#[derive(Clone, Default)]
pub struct Libraries {
    /// Texts with prim_funcs.
    pub texts: Vec<TextLibrary>,
    /// Shared libraries.
    pub shared: Vec<SharedLibrary>,
}

/// The prim_funcs of a text.
#[derive(Clone)]
pub struct TextLibrary {
    /// The file.
    pub path: PathBuf,
    /// Its prim_funcs.
    pub funcs: Vec<Func>,
}

/// What a shared library has to call. Its code stays outside of the graph: passes leave calls of its functions as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLibrary {
    /// The file.
    pub path: PathBuf,
    /// Names of the functions that it exports by TVM-FFI's convention, without `__tvm_ffi_`.
    pub functions: Vec<String>,
}

impl SharedLibrary {
    /// The exported name of a function: `env.relu` as it is, as TVM exports it, or as `env_relu`, as `tvmr build` does.
    pub fn exported(&self, name: &str) -> Option<&str> {
        let find = |name: &str| self.functions.iter().find(|f| *f == name).map(String::as_str);
        find(name).or_else(|| find(&identifier(name)))
    }
}

impl Libraries {
    /// The prim_func of a name, in the first text that has it.
    pub fn prim_func(&self, name: Symbol) -> Option<&Func> {
        self.texts.iter().flat_map(|text| &text.funcs).find(|f| is_called(f, name))
    }

    /// The first shared library that exports a function of this name, and the exported name.
    pub fn shared(&self, name: Symbol) -> Option<(&SharedLibrary, &str)> {
        self.shared.iter().find_map(|library| Some((library, library.exported(name.as_str())?)))
    }

    /// The names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let texts = self.texts.iter().flat_map(|text| &text.funcs).map(|f| f.name.as_str());
        texts.chain(self.shared.iter().flat_map(|library| &library.functions).map(String::as_str))
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.texts.iter().map(|text| &text.path).chain(self.shared.iter().map(|library| &library.path))
    }
}

/// Whether graphs call a prim_func by this name.
pub fn is_called(func: &Func, name: Symbol) -> bool {
    func.name == name || func.attrs.get("global_symbol") == Some(&AttrValue::Str(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exported_as_they_are_or_as_identifiers() {
        let functions = ["env.relu", "env_relu", "env_linear"].map(str::to_owned).to_vec();
        let library = SharedLibrary { path: "a.so".into(), functions };
        assert_eq!(library.exported("env.relu"), Some("env.relu"));
        assert_eq!(library.exported("env.linear"), Some("env_linear"));
        assert_eq!(library.exported("linear"), None);
    }
}
