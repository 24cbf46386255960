//! The verifier: checks the invariants of functions, whatever their origin.
//!
//! It reports every violation and never panics, whatever a parser or a primitive built. Parsing runs it on programs of
//! users; debug builds run it after every primitive and pass.
//!
//! # Tree
//! 1. Every statement stands at one place, and the table of parents agrees with the bodies.
//! 2. The root block has no parent, no iteration variables, no init, and the predicate `True`.
//!
//! # Variables
//! 3. A variable is bound once: by a parameter, a loop, a block iteration or a let statement. A symbolic extent is
//!    bound by the first parameter (or, for strides and offsets, matched buffer) whose shape mentions it. A let
//!    expression binds its variable for its body only, and may occur several times.
//! 4. A variable is used only in the scope of its binding.
//! 5. Inside a block with iteration variables, the loops around the block are out of scope: the block receives their values
//!    through its bindings. Blocks without iteration variables are transparent. The bindings, domains and predicate of a
//!    block are outside it.
//! 6. Variables of loops are integers, those of block iterations `int32` or `int64`. Their first value and extent have the
//!    same type, as has a loop's step; a binding may have any integer type. Constant steps are positive, constant
//!    extents of buffers and block iterations not negative.
//!
//! # Types
//! 7. A stored value has the element type of its buffer, the value of a let the type of its variable.
//! 8. Conditions and predicates are `bool`; indices, and the bounds of regions, are integers.
//!    Vectors are allowed in stored values, in lets and as the last index of an access; all other expressions are scalars.
//!    The number of lanes of a stored value is that of the index times that of an element.
//! 9. Arguments of a scalar function are in its domain and have the same type; operators take numbers only.
//!
//! # Buffers
//! 10. A buffer is bound once: by a parameter, an allocation or as a matched view, and is used only in the scope of its
//!     binding. A block's own allocations and views are not in its `reads` and `writes`.
//! 11. Accesses, regions and stated strides have one entry per dimension. Constant extents are positive.
//! 12. A block lists all loaded buffers in `reads` or `writes` and all stored buffers in `writes`; an access to a view
//!     counts as one to its source. A block without iteration variables and with empty lists promises nothing: this is the
//!     case for the root and the blocks of `loop_partition`. ([`Checks::signatures`])
//!
//! # Values
//! 13. No access is provably outside its buffer, except for the source of a block that only copies. "Provably" means that
//!     an instance that runs (its predicate holds, its bindings lie in their domains) reaches the offending value, found
//!     from constant bounds. The lanes of a vector index may continue in the next row of the buffer, up to the buffer's
//!     end. ([`Checks::bounds`])
//!
//! A block may have an `init` without reduction iterations: it then runs before each instance, as in TVM.

use super::func::Func;

mod bounds;
mod violation;
mod walk;

pub use violation::{Role, Violation, ViolationKind};

/// Optional checks beyond the well-formedness of the representation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// Invariant 12; primitives that hide accesses on purpose break it.
    pub signatures: bool,
    /// Invariant 13; a split without predicate breaks it on purpose.
    pub bounds: bool,
}

impl Checks {
    /// All checks.
    pub const ALL: Checks = Checks { signatures: true, bounds: true };
    /// Well-formedness only.
    pub const FORM: Checks = Checks { signatures: false, bounds: false };
}

/// Every violation in a function, in text order.
pub fn verify(func: &Func, checks: Checks) -> Vec<Violation> {
    walk::Walk::new(func, checks).run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples::{matmul, nest, padded_window, relu, set_root, store, tiled_matmul};
    use crate::ir::{AttrValue, BinOp, Block, BufferRegion, DType, Intrinsic, IterKind, MatchBuffer};

    fn messages(f: &Func, checks: Checks) -> Vec<String> {
        let mut all: Vec<String> = verify(f, checks).iter().map(|v| v.message(f)).collect();
        // The same violation is found at several places.
        all.dedup();
        all
    }

    fn check(f: &Func, expected: &[&str]) {
        assert_eq!(messages(f, Checks::ALL), expected);
    }

    #[test]
    fn sound_programs_pass() {
        check(&matmul(8, 9, 10, DType::Float32), &[]);
        check(&tiled_matmul(2), &[]);
        check(&padded_window(9), &[]);
        check(&relu(1, 1), &[]);
    }

    #[test]
    fn tree() {
        let f = relu(4, 4);
        let outer = f.block(f.root).body[0];

        let mut g = f.clone();
        let root = g.root.stmt();
        g.insert(root, 0, 1, &[outer]);
        check(&g, &["a statement stands at more than one place"]);

        let mut g = f.clone();
        let b = g.root;
        g.block_mut(b).predicate = g.arena.bool(false);
        check(&g, &["the root block must have no iteration variables, no `T.where` and no `T.init`"]);
    }

    #[test]
    fn variables() {
        let f = matmul(4, 4, 4, DType::Float32);
        let block = f.blocks()[0];
        let outer = f.as_loop(f.block(f.root).body[0]).expect("a loop");
        let (i, vi) = (f.loop_(outer).var, f.block(block).iters[0].var);

        let mut g = f.clone();
        g.block_mut(block).iters[1].var = vi;
        check(&g, &["variable `vi` is bound twice", "variable `vj` is not defined here"]);

        // A loop used inside a block.
        let mut g = f.clone();
        let e = g.arena.var_expr(i);
        g.block_mut(block).annotations.insert("k", AttrValue::Expr(e));
        check(&g, &["block `C` mentions loop `i` around it other than in its bindings"]);

        // A block iteration used outside its block.
        let mut g = f.clone();
        let e = g.arena.var_expr(vi);
        g.loop_mut(outer).annotations.insert("k", AttrValue::Expr(e));
        check(&g, &["variable `vi` is not defined here"]);

        // Extents.
        let mut g = f.clone();
        g.block_mut(block).iters[0].extent = g.arena.int32(-1);
        check(&g, &["the extent of `vi` must be at least 0, found -1"]);
        let mut g = f.clone();
        g.loop_mut(outer).extent = g.arena.int(4, DType::Int64);
        check(&g, &["the extent must be `int32`, found `int64`"]);
    }

    #[test]
    fn types_and_indices() {
        let mut f = Func::new("main");
        let x = f.add_param("X", DType::Float32, &[8, 8]);
        let y = f.add_param("Y", DType::Int8, &[8, 8]);
        let body = nest(&mut f, "B", &[("i", 8, IterKind::Spatial)], |f, v| {
            let value = f.arena.load(x, v);
            (None, store(f, y, &[v[0], value], value))
        });
        set_root(&mut f, &[body]);
        check(
            &f,
            &[
                "buffer `X` has 2 dimensions, found 1 indices",
                "a bound of a region must be an integer, found `float32`",
                "buffer `X` has 2 dimensions, found 1 indices",
                "an index must be an integer, found `float32`",
                "buffer `X` has 2 dimensions, found 1 indices",
                "the stored value must be `int8`, found `float32`",
            ],
        );
    }

    #[test]
    fn functions_of_scalars() {
        let mut f = Func::new("main");
        let y = f.add_param("Y", DType::Float32, &[8]);
        let body = nest(&mut f, "B", &[("i", 8, IterKind::Spatial)], |f, v| {
            let (one, two) = (f.arena.float(1.0, DType::Float32), f.arena.float(2.0, DType::Float64));
            let power = f.arena.call(Intrinsic::Pow, &[one, two]);
            let wrong = f.arena.call(Intrinsic::Exp, &[v[0]]);
            let wrong = f.arena.cast(DType::Float32, wrong);
            let value = f.arena.add(power, wrong);
            (None, store(f, y, v, value))
        });
        set_root(&mut f, &[body]);
        check(
            &f,
            &[
                "the arguments of `T.pow` must be of one type, found `float32` and `float64`",
                "an argument of `T.exp` must be a float, found `int32`",
            ],
        );
    }

    #[test]
    fn buffers() {
        let f = padded_window(8);
        let p = f.block(f.root).allocs[0];
        let mut g = f.clone();
        let root = g.root;
        g.block_mut(root).allocs.push(p);
        check(&g, &["buffer `P` is allocated twice"]);

        let mut g = f.clone();
        g.block_mut(root).allocs.clear();
        assert_eq!(messages(&g, Checks::ALL)[0], "buffer `P` is not defined here");

        let mut g = f.clone();
        let sum = g.blocks()[1];
        g.block_mut(sum).reads.clear();
        g.block_mut(sum).writes.clear();
        check(
            &g,
            &[
                "block `sum` writes buffer `Y`, which its `T.writes` does not list",
                "block `sum` reads buffer `Y`, which its `T.reads` does not list",
                "block `sum` reads buffer `P`, which its `T.reads` does not list",
            ],
        );
        assert_eq!(verify(&g, Checks::FORM), []);
    }

    #[test]
    fn views_count_as_what_they_show() {
        let mut f = relu(8, 8);
        let b = f.blocks()[0];
        let (x, root) = (f.params[0].buffer.expect("a buffer"), f.root);
        let view = f.constant_buffer("V", DType::Float32, &[8, 8]);
        let source = BufferRegion::full(&mut f.arena, x);
        f.block_mut(root).matches.push(MatchBuffer { buffer: view, source });
        let mut to_view = crate::ir::Substitution::of_buffers([(x, view)]);
        let body = f.block(b).body[0];
        f.rewrite_stmt(body, &mut to_view);
        check(&f, &[]);
    }

    #[test]
    fn provable_violations_of_bounds() {
        let shifted = |shift: i64, guard: Option<(i64, i64)>| {
            let mut f = Func::new("main");
            let x = f.add_param("X", DType::Float32, &[8]);
            let y = f.add_param("Y", DType::Float32, &[8]);
            let body = nest(&mut f, "B", &[("i", 8, IterKind::Spatial)], |f, v| {
                let at = f.arena.add_const(v[0], shift);
                let mut value = f.arena.load(x, &[at]);
                if let Some((lo, hi)) = guard {
                    let (lo, hi) = (f.arena.int32(lo), f.arena.int32(hi));
                    let (above, below) = (f.arena.compare(crate::ir::CmpOp::Le, lo, v[0]), f.arena.lt(v[0], hi));
                    let inside = f.arena.and(above, below);
                    let zero = f.arena.float(0.0, DType::Float32);
                    value = f.arena.if_then_else(inside, value, zero);
                }
                // This is not a plain copy, whose missing sources are allowed.
                value = f.arena.add(value, value);
                (None, store(f, y, v, value))
            });
            set_root(&mut f, &[body]);
            f
        };
        check(&shifted(0, None), &[]);
        check(&shifted(1, None), &["index 8 is out of bounds for dimension 0 of buffer `X`, which has extent 8"]);
        check(&shifted(-1, None), &["index -1 is out of bounds for dimension 0 of buffer `X`, which has extent 8"]);
        check(&shifted(1, Some((0, 7))), &[]);
        check(
            &shifted(2, Some((0, 7))),
            &["index 8 is out of bounds for dimension 0 of buffer `X`, which has extent 8"],
        );
        check(&shifted(100, Some((9, 20))), &[]);
    }

    #[test]
    fn domains_are_predicates() {
        let mut f = relu(8, 8);
        let b = f.blocks()[0];
        let value = f.block(b).iters[1].value;
        let three = f.arena.int32(3);
        f.block_mut(b).iters[1].value = f.arena.add(value, three);
        check(&f, &[]);
        // A wider domain lets these instances run.
        f.block_mut(b).iters[1].extent = f.arena.int32(16);
        check(
            &f,
            &[
                "index 10 is out of bounds for dimension 1 of buffer `Y`, which has extent 8",
                "index 10 is out of bounds for dimension 1 of buffer `X`, which has extent 8",
            ],
        );
        // The same check under a predicate over the loop passes.
        let four = f.arena.int32(4);
        f.block_mut(b).predicate = f.arena.lt(value, four);
        check(&f, &[]);
        // A predicate that is not understood proves nothing.
        let sum = f.arena.binary_unfolded(BinOp::Add, value, value);
        f.block_mut(b).predicate = f.arena.lt(sum, four);
        check(&f, &[]);
    }

    #[test]
    fn nested_blocks_without_iterations_are_transparent() {
        let mut f = relu(8, 8);
        let outer = f.block(f.root).body[0];
        let inner_loop = f.get(outer).children()[0];
        let predicate = f.arena.bool(true);
        let place = f.cut(inner_loop);
        let mut opaque = Block::new("opaque", predicate);
        opaque.body.push(inner_loop);
        let opaque = f.add_block(opaque);
        f.insert_at(place, &[opaque.stmt()]);
        check(&f, &[]);
    }
}
