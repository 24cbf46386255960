//! Queries for blocks: by name, below a block or loop, along dependences. They change nothing.
//!
//! # `get_sblock`
//!
//! Returns the block with this name; formerly `get_block`.
//!
//! * Requires: exactly one block with this name.
//! * Errors: `BlockNotFoundError`, `MultipleBlocksFoundError`.
//! * Handles: persists: all.
//!
//! # `get_child_blocks`
//!
//! Returns the blocks directly below, in text order.
//!
//! * Requires: a block that still exists.
//! * Errors: –.
//! * Handles: persists: all.
//!
//! # `get_producers`
//!
//! Returns the earlier blocks of the scope that write what this block reads or writes.
//!
//! * Requires: a block that still exists; not the root.
//! * Errors: `RootBlockError`.
//! * Handles: persists: all.
//!
//! # `get_consumers`
//!
//! Returns the later blocks of the scope that read or write what this block writes.
//!
//! * Requires: a block that still exists; not the root.
//! * Errors: `RootBlockError`.
//! * Handles: persists: all.
//!
//! # `get_output_blocks`
//!
//! Returns the blocks below that write buffers which their scope does not allocate.
//!
//! * Requires: a block that still exists.
//! * Errors: –.
//! * Handles: persists: all.
//!
//! # Implementation
//!

use super::super::analysis::block_class::is_output_block;
use super::super::analysis::dependence::Scope;
use super::super::arg::{FuncIndex, RvValue};
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use crate::ir::{BlockId, Func, Symbol};

/// `get_sblock(name, func_name)`, formerly `get_block`.
pub(crate) static GET_BLOCK: Kind = Kind {
    name: "GetSBlock",
    method: "get_sblock",
    classic: Some(("GetBlock", "get_block")),
    positional: false,
    params: &[Param::attr("name", Ty::Str), Param::attr("func_name", Ty::Str).or(Default::None)],
    outputs: Outputs::Block,
    samples: false,
    run: get_block,
};

/// `get_child_blocks(block_or_loop)`: the blocks directly below, in text order.
pub(crate) static GET_CHILD_BLOCKS: Kind = Kind {
    name: "GetChildBlocks",
    method: "get_child_blocks",
    classic: None,
    positional: true,
    params: &[Param::input("block_or_loop", Ty::BlockOrLoop)],
    outputs: Outputs::Blocks,
    samples: false,
    run: get_child_blocks,
};

/// `get_producers(block)`: the earlier blocks of the same scope that write a buffer that it reads or writes.
pub(crate) static GET_PRODUCERS: Kind = Kind {
    name: "GetProducers",
    method: "get_producers",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::Blocks,
    samples: false,
    run: |call| neighbours(call, Scope::producers),
};

/// `get_consumers(block)`: the later blocks of the same scope that read or write a buffer that it writes.
pub(crate) static GET_CONSUMERS: Kind = Kind {
    name: "GetConsumers",
    method: "get_consumers",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::Blocks,
    samples: false,
    run: |call| neighbours(call, Scope::consumers),
};

/// `get_output_blocks(block)`: the blocks below, at any depth, that write buffers which their scope does not allocate;
/// in text order, a block before its inner blocks.
pub(crate) static GET_OUTPUT_BLOCKS: Kind = Kind {
    name: "GetOutputBlocks",
    method: "get_output_blocks",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::Blocks,
    samples: false,
    run: get_output_blocks,
};

fn blocks(func: FuncIndex, found: Vec<BlockId>) -> Outcome {
    Outcome { outputs: found.into_iter().map(|b| RvValue::Block(func, b)).collect(), decision: None }
}

fn get_block(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let name = call.str(0)?;
    let func = match &call.args[1] {
        super::super::arg::Arg::None => match (call.sch.work_func(), call.sch.n_funcs()) {
            (Some(f), _) => f,
            (None, 1) => 0,
            (None, _) => function(call, Symbol::new("main"))?,
        },
        _ => {
            let name = call.str(1)?;
            function(call, name)?
        }
    };
    let f = &call.sch.func(func);
    let outline = f.outline();
    match *outline.named(f, name) {
        [one] => Ok(blocks(func, vec![one])),
        [] => {
            let mut names: Vec<&str> = f.blocks().iter().map(|&b| f.block(b).name.as_str()).collect();
            names.dedup();
            let near = format!("its blocks are `{}`", names.join("`, `"));
            Err(ErrorKind::BlockNotFound { name, func: f.name, near }.into())
        }
        [_, second, ..] => {
            let count = outline.named(f, name).len();
            Err(ScheduleError::new(ErrorKind::MultipleBlocksFound { name, count }).at(func, second))
        }
    }
}

fn function(call: &Call<'_>, name: Symbol) -> Result<FuncIndex, ScheduleError> {
    (0..call.sch.n_funcs()).find(|&i| call.sch.func(i).name == name).ok_or_else(|| {
        let known: Vec<String> = (0..call.sch.n_funcs()).map(|i| format!("`{}`", call.sch.func(i).name)).collect();
        ErrorKind::UnknownFunction { name, known: known.join(", ") }.into()
    })
}

fn get_child_blocks(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.block_or_loop(0)?;
    Ok(blocks(func, call.sch.func(func).child_blocks(target.stmt())))
}

fn neighbours(
    call: &mut Call<'_>,
    which: impl Fn(&Scope, &Func, BlockId) -> Vec<BlockId>,
) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let f = call.sch.func(func);
    let Some(scope) = f.block_above(block.stmt()) else {
        return Err(ScheduleError::new(ErrorKind::RootBlock).at(func, block));
    };
    Ok(blocks(func, which(&Scope::of(f, scope), f, block)))
}

fn get_output_blocks(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, scope) = call.block(0)?;
    fn visit(f: &Func, scope: BlockId, found: &mut Vec<BlockId>) {
        for b in f.child_blocks(scope.stmt()) {
            if is_output_block(f, b, scope) {
                found.push(b);
            }
            visit(f, b, found);
        }
    }
    let mut found = Vec::new();
    visit(call.sch.func(func), scope, &mut found);
    Ok(blocks(func, found))
}
