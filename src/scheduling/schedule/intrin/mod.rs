//! Tensor intrinsics, by which `tensorize` replaces computations.
//!
//! An intrinsic is a pair of functions with the same parameters. Its *description* defines the computation as a nest of
//! loops and blocks; its *implementation* replaces it. Both are TVMScript: in a file of intrinsics, `dot4_desc` and
//! `dot4_impl` are the intrinsic `dot4`. docs/adding-an-intrinsic.md is the guide.
//!
//! * [`read`] pairs the functions of a text, and reports mistakes;
//! * [`agree`] runs both on random data, so that a wrong implementation never gets into a program;
//! * [`built_in`] has the intrinsics of every schedule;
//! * [`Graft`](crate::ir::graft::Graft) copies an implementation into a program.

mod agree;
mod built_in;
mod read;

use crate::diagnostic::{Diagnostics, nearest};
use crate::ir::{Func, Symbol};
use std::sync::{Arc, LazyLock};

/// A description with its implementation.
#[derive(Clone)]
pub struct TensorIntrin {
    /// The name that schedules use.
    pub name: Symbol,
    /// The function that defines the computation.
    pub description: Func,
    /// The function that replaces the computation.
    pub implementation: Func,
    /// The description in one line, for messages.
    pub summary: Symbol,
}

/// The intrinsics available to a schedule.
#[derive(Clone, Default)]
pub struct Intrinsics {
    table: Vec<TensorIntrin>,
}

impl Intrinsics {
    /// The built-in intrinsics.
    pub fn built_in() -> Arc<Intrinsics> {
        static TABLE: LazyLock<Arc<Intrinsics>> = LazyLock::new(|| {
            let mut table = Intrinsics::default();
            let registered = table.register_text(&built_in::text(), "built-in intrinsics");
            registered.unwrap_or_else(|e| panic!("the built-in intrinsics are right: {e}"));
            Arc::new(table)
        });
        TABLE.clone()
    }

    /// The intrinsic with this name.
    pub fn get(&self, name: Symbol) -> Option<&TensorIntrin> {
        self.table.iter().find(|i| i.name == name)
    }

    /// The names of all intrinsics, in the order of registration.
    pub fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.table.iter().map(|i| i.name)
    }

    /// The intrinsic whose name is most similar to a misspelt one.
    pub fn near(&self, name: Symbol) -> Option<Symbol> {
        nearest(name.as_str(), self.table.iter().map(|i| i.name.as_str())).map(Symbol::new)
    }

    /// Registers the intrinsics of a text. `file_name` is only shown in messages.
    ///
    /// # Errors
    ///
    /// All mistakes of the text: it does not parse, a function has no counterpart, a name is in use, or description and
    /// implementation do not match or do not agree. Then no intrinsic is registered.
    pub fn register_text(&mut self, text: &str, file_name: &str) -> Result<(), Diagnostics> {
        let new = read::pairs(text, file_name, self)?;
        self.table.extend(new);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
