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
use crate::diagnostic::listed;
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
        let known = listed((0..call.sch.n_funcs()).map(|i| call.sch.func(i).name.as_str()));
        ErrorKind::UnknownFunction { name, known }.into()
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

#[cfg(test)]
mod tests {
    use super::super::super::Schedule;
    use super::super::testing::{Test, refuse};
    use crate::script::{ParseOptions, parse};

    /// A producer, a block with two inside it that shares a buffer of its own between them, and another consumer.
    const CHAIN: &str = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8)), D: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(4):
        with T.block("rows"):
            vi = T.axis.spatial(4, i)
            X = T.alloc_buffer((8,))
            for j in range(8):
                with T.block("X"):
                    vj = T.axis.spatial(8, j)
                    X[vj] = B[vi, vj] + T.float32(1)
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = X[vj]
    for i, j in T.grid(4, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + C[vi, vj]
"#;

    /// The names of the blocks that a query gives for the block of that name.
    fn query(method: &str, block: &str) -> Vec<String> {
        let mut t = Test::new(CHAIN);
        let block = t.block(block);
        let found = t.run(method, vec![block.into()]).expect("a query");
        t.names(&found)
    }

    #[test]
    fn a_name_finds_one_block_at_any_depth() {
        let mut t = Test::new(CHAIN);
        for name in ["B", "X", "rows", "root"] {
            for method in ["get_block", "get_sblock"] {
                let found = t.run(method, vec![name.into()]).expect("the program has the block");
                assert_eq!(t.names(&found), [name]);
            }
        }
    }

    #[test]
    fn a_name_must_be_that_of_one_block() {
        refuse(CHAIN, |t| t.python("sch.get_block('E')"), "BlockNotFoundError");
        refuse(CHAIN, |t| t.python("sch.get_block('B', 'other')"), "ValueError");
        let twice = CHAIN.replace("T.block(\"D\")", "T.block(\"B\")");
        refuse(&twice, |t| t.python("sch.get_block('B')"), "MultipleBlocksFoundError");
        let error = Test::new(CHAIN).python("sch.get_block('E')").expect_err("there is no such block");
        assert_eq!(error.kind.help(), "its blocks are `B`, `X`, `C`, `rows`, `D`, `root`");
    }

    #[test]
    fn without_a_function_name_it_is_the_only_one_or_main_or_the_one_to_work_on() {
        let class = |names: [&str; 2]| {
            let func = |name: &str| {
                format!(
                    "    @T.prim_func\n    def {name}(A: T.Buffer((4,))):\n        for i in range(4):\n            with \
                     T.block(\"A\"):\n                vi = T.axis.spatial(4, i)\n                A[vi] = T.float32(1)\n"
                )
            };
            format!("@tvm.script.ir_module\nclass Module:\n{}{}", func(names[0]), func(names[1]))
        };
        let schedule = |text: &str| {
            let parsed = parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
            Test { sch: Schedule::new(&parsed.module, 0) }
        };
        let function_of = |t: &mut Test| {
            let found = t.run("get_sblock", vec!["A".into()])?;
            let super::RvValue::Block(func, _) = t.values(&found)[0] else { panic!("a block was asked for") };
            Ok::<String, super::ScheduleError>(t.sch.func(func).name.to_string())
        };
        let mut t = schedule(&class(["first", "main"]));
        assert_eq!(function_of(&mut t).as_deref(), Ok("main"));
        t.sch.work_on(0);
        assert_eq!(function_of(&mut t).as_deref(), Ok("first"));
        let mut t = schedule(&class(["first", "second"]));
        assert_eq!(function_of(&mut t).map_err(|e| e.kind.class()), Err("ValueError"));
        let mut t = Test::new(&CHAIN.replace("def main", "def other").replace("T.block(\"B\")", "T.block(\"A\")"));
        assert_eq!(function_of(&mut t).as_deref(), Ok("other"));
    }

    #[test]
    fn child_blocks_are_those_directly_below() {
        assert_eq!(query("get_child_blocks", "root"), ["B", "rows", "D"]);
        assert_eq!(query("get_child_blocks", "rows"), ["X", "C"]);
        assert!(query("get_child_blocks", "X").is_empty());
        let mut t = Test::new(CHAIN);
        let i = t.loops("rows")[0];
        let found = t.run("get_child_blocks", vec![i.into()]).expect("a query");
        assert_eq!(t.names(&found), ["rows"]);
    }

    #[test]
    fn producers_and_consumers_are_of_the_same_scope() {
        assert!(query("get_producers", "B").is_empty());
        assert_eq!(query("get_consumers", "B"), ["rows", "D"]);
        assert_eq!(query("get_producers", "rows"), ["B"]);
        assert_eq!(query("get_consumers", "rows"), ["D"]);
        // In the order in which the block lists what it reads.
        assert_eq!(query("get_producers", "D"), ["B", "rows"]);
        assert!(query("get_consumers", "D").is_empty());
        assert!(query("get_producers", "X").is_empty());
        assert_eq!(query("get_consumers", "X"), ["C"]);
    }

    #[test]
    fn who_overwrites_is_a_consumer_too() {
        let program = CHAIN.replace("D[vi, vj] = B[vi, vj] + C[vi, vj]", "C[vi, vj] = A[vi, vj]");
        let mut t = Test::new(&program);
        let (rows, over) = (t.block("rows"), t.block("D"));
        let consumers = t.run("get_consumers", vec![rows.into()]).expect("a query");
        assert_eq!(t.names(&consumers), ["D"]);
        let producers = t.run("get_producers", vec![over.into()]).expect("a query");
        assert_eq!(t.names(&producers), ["rows"]);
    }

    #[test]
    fn the_root_has_no_scope_around_it() {
        refuse(CHAIN, |t| t.python("sch.get_producers('root')"), "RootBlockError");
        refuse(CHAIN, |t| t.python("sch.get_consumers('root')"), "RootBlockError");
    }

    #[test]
    fn output_blocks_write_what_their_scope_does_not_allocate() {
        assert_eq!(query("get_output_blocks", "root"), ["rows", "C", "D"]);
        assert_eq!(query("get_output_blocks", "rows"), ["C"]);
        assert!(query("get_output_blocks", "D").is_empty());
    }

    #[test]
    fn a_block_that_is_gone_answers_nothing() {
        for method in ["get_child_blocks", "get_producers", "get_consumers", "get_output_blocks"] {
            let steps = format!(
                "block = sch.get_block('D')\ni, j = sch.get_loops(block)\nsch.loop_partition(i, [2])\nsch.{method}(block)"
            );
            refuse(CHAIN, |t| t.python(&steps), "ValueError");
        }
    }
}
