//! TVM's operator inventory (`topi`): functions that define tensors by others.
//!
//! A function has TVM's name, parameters and defaults, and its stages have TVM's names and formulas. What an operator of graphs
//! also computes is computed by that ([`graph::apply`](crate::graph::apply)); the tables here say which, and how arguments
//! correspond.
//!
//! | file | content |
//! | --- | --- |
//! | this one | the table of all functions |
//! | [`call`] | the arguments of a call |
//! | [`elementwise`] | functions of single elements |
//! | `broadcast` | functions of the elements of two tensors, which are broadcast |
//! | [`reduction`] | sums, extremes and their positions |
//! | [`transform`] | other shapes and orders of elements |
//! | [`nn`], [`conv`] | layers of neural networks |

mod broadcast;
mod call;
mod conv;
mod elementwise;
mod nn;
mod reduction;
mod transform;

pub use broadcast::{Side, broadcast};
pub use call::{Argument, Call, TopiError};

use crate::te::{Te, Tensor};

/// A function.
#[derive(Debug)]
pub struct Operator {
    /// Its name after `topi.`.
    pub name: &'static str,
    /// Its parameters, as Python states them.
    pub params: &'static str,
    compute: Compute,
}

/// What a call defines.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The results.
    pub tensors: Vec<Tensor>,
    /// Operands whose layout may be changed.
    pub layout_free: Vec<Tensor>,
}

/// How a function is computed.
#[derive(Clone, Copy, Debug)]
enum Compute {
    /// Each element is this function of graphs of the element of `x`.
    Elementwise(&'static str),
    /// Each element is this function of graphs of two elements.
    Broadcast(&'static str),
    /// By a function.
    By(fn(&mut Call<'_>) -> Result<Vec<Tensor>, TopiError>),
}

const fn by(
    name: &'static str,
    params: &'static str,
    compute: fn(&mut Call<'_>) -> Result<Vec<Tensor>, TopiError>,
) -> Operator {
    Operator { name, params, compute: Compute::By(compute) }
}

// Statics: constants, with their closures, would be compiled again in each crate that uses them.
static GROUPS: &[&[Operator]] = &[
    elementwise::OPERATORS,
    broadcast::OPERATORS,
    reduction::OPERATORS,
    transform::OPERATORS,
    nn::OPERATORS,
    conv::OPERATORS,
];

/// All functions.
pub fn all() -> impl Iterator<Item = &'static Operator> {
    GROUPS.iter().flat_map(|g| g.iter())
}

/// The function called `name` after `topi.`.
pub fn find(name: &str) -> Option<&'static Operator> {
    all().find(|o| o.name == name)
}

impl Operator {
    /// Adds the stages of a call to others. There is one argument for each parameter.
    ///
    /// # Errors
    /// The arguments do not fit.
    pub fn apply(&'static self, te: &mut Te, args: Vec<(&'static str, Argument)>) -> Result<Applied, TopiError> {
        let index = te.index_type();
        let mut call = Call::new(te, args);
        call.choose_index_type();
        let result = match self.compute {
            Compute::Elementwise(of) => elementwise::compute(&mut call, of),
            Compute::Broadcast(of) => broadcast::compute(&mut call, of),
            Compute::By(f) => f(&mut call),
        };
        let layout_free = call.layout_free;
        te.set_index_type(index);
        Ok(Applied { tensors: result?, layout_free })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        let page = include_str!("../../../docs/te.md");
        let mut names: Vec<&str> = all().map(|o| o.name).collect();
        for name in &names {
            assert!(page.contains(&format!("`{name}`")), "docs/te.md lacks `{name}`");
        }
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), n >= 60), (n, true));
        let table =
            page.lines().filter(|l| l.starts_with("| ") && l.contains("`nn.relu`") || l.contains("`transpose`"));
        let listed = table.flat_map(|l| l.split('`').skip(1).step_by(2));
        for name in listed {
            assert!(find(name).is_some(), "docs/te.md has `{name}`");
        }
    }
}
