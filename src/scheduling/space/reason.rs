//! Why the default space leaves a block without choices.

use std::fmt;

/// The reason why a block has no choices. Printed, it continues `block: nothing to choose: …`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No trace can refer to the block by its name.
    NoName,
    /// The code generator recognises the block as it is written.
    SmallMatrices,
    /// The block is the whole iteration of no loop.
    Single,
    /// One loop, along which every access is contiguous or stays.
    Contiguous,
    /// One loop, with other accesses.
    OneLoop,
    /// A reduction to a single result.
    OneResult,
    /// An axis along which iterations have an order, such as that of a running sum.
    Ordered,
    /// A reduction whose axes are not its innermost loops.
    ReducesOutside,
    /// The loops around the block are not its iteration variables one by one.
    Bindings,
    /// The loops are not serial loops of constant extents with nothing else in them.
    Loops,
    /// The loops have an order that was found faster than others.
    Order,
    /// Another block's loops determine those of this block.
    Chain,
    /// The rules that apply to the block sample nothing.
    Rules,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoName => "no trace can refer to it: it has no name, or shares it with another block",
            Reason::SmallMatrices => {
                "a product with a small matrix of constants, which the code generator writes out as numbers"
            }
            Reason::Single => "it runs once",
            Reason::Contiguous => {
                "one loop over elements that lie side by side; the code generator chooses vectors, unrolling and prefetching, \
                 and no tiles were found to be faster"
            }
            Reason::OneLoop => "one loop; the code generator chooses vectors and unrolling",
            Reason::OneResult => "a reduction to one result; the code generator chooses vectors and the number of partial results",
            Reason::Ordered => "its iterations have an order, which tiles would change",
            Reason::ReducesOutside => "a reduction along other loops than its innermost ones",
            Reason::Bindings => "its indices are more than the loop variables around it, so its loops stay as they are",
            Reason::Loops => {
                "its loops stay as they are: one of them has no constant extent, is not serial, or contains other \
                 statements"
            }
            Reason::Order => "a fixed order of its loops was found to be the fastest",
            Reason::Chain => "it is one of several blocks with reductions, and follows the loops of the others",
            Reason::Rules => "the rules that apply to it sample nothing",
        })
    }
}

/// A block of a space in which no sketch decides anything about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoChoice {
    /// Name of the block.
    pub block: String,
    /// Why.
    pub reason: Reason,
}
