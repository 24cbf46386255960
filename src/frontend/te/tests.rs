//! Programs of tensor expressions, as text and as values.

use super::{Reducer, Te, Tensor};
use crate::ir::verify::{Checks, verify};
use crate::ir::{CmpOp, DType, Func};
use crate::script::{Dialect, print_func};

/// Checks the text of a function, which must be well-formed, without its signature.
#[track_caller]
fn check(func: &Func, body: &str) {
    let violations = verify(func, Checks::ALL);
    assert!(violations.is_empty(), "{violations:?}");
    let text = print_func(func, Dialect::Current);
    let found: Vec<&str> =
        text.lines().skip_while(|l| !l.contains("# with T.sblock")).skip(1).map(|l| &l[4..]).collect();
    let expected: Vec<&str> = body.lines().skip(1).map(|l| l.strip_prefix("        ").unwrap_or(l)).collect();
    assert_eq!(found.join("\n"), expected.join("\n").trim_end(), "{text}");
}

fn of_float32(te: &mut Te, name: &str, shape: &[i64]) -> Tensor {
    let shape = te.extents(shape);
    te.placeholder(name, DType::Float32, &shape)
}

#[test]
fn a_stage_without_dimensions_is_one_block() {
    let mut te = Te::new();
    let (a, b) = (of_float32(&mut te, "A", &[]), of_float32(&mut te, "B", &[]));
    let c = te.compute("T_add", &[], |te, i| {
        let (x, y) = (te.at(a, i), te.at(b, i));
        te.add(x, y)
    });
    check(
        &te.prim_func("main", &[a, b], &[c]),
        r#"
        with T.sblock("T_add"):
            vi = T.axis.spatial(T.int64(1), T.int64(0))
            T.reads(A[()], B[()])
            T.writes(T_add[()])
            T_add[()] = A[()] + B[()]
"#,
    );
}

#[test]
fn a_reduction_of_pairs_computes_both_before_it_stores() {
    let mut te = Te::new();
    let a = of_float32(&mut te, "A", &[4, 5]);
    let shape = te.shape(a).to_vec();
    let at = te.reduce_many("A_red", &shape[..1], &shape[1..], Reducer::ArgMax, |te, i, k| {
        vec![k[0], te.at(a, &[i[0], k[0]])]
    });
    check(
        &te.prim_func("main", &[a], &at[..1]),
        r#"
        A_red_v1 = T.sblock_alloc_buffer((T.int64(4),))
        for i0, k in T.grid(T.int64(4), T.int64(5)):
            with T.sblock("A_red"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                T.reads(A[v_i0, v_k])
                T.writes(A_red_v0[v_i0], A_red_v1[v_i0])
                with T.init():
                    A_red_v0[v_i0] = T.int64(-1)
                    A_red_v1[v_i0] = T.float32(-340282346638528859811704183484516925440.0)
                v_A_red_v0: T.let[T.int64] = T.Select(A_red_v1[v_i0] > A[v_i0, v_k] or A_red_v1[v_i0] == A[v_i0, v_k] and A_red_v0[v_i0] < v_k, A_red_v0[v_i0], v_k)
                v_A_red_v1: T.let[T.float32] = T.Select(A_red_v1[v_i0] > A[v_i0, v_k], A_red_v1[v_i0], A[v_i0, v_k])
                A_red_v0[v_i0] = v_A_red_v0
                A_red_v1[v_i0] = v_A_red_v1
"#,
    );
}

#[test]
fn only_needed_stages_are_computed_and_names_of_blocks_differ() {
    let mut te = Te::new();
    let n = te.symbol("n");
    let a = te.placeholder("A", DType::Float32, &[n]);
    let one = te.float(1.0, DType::Float32);
    let add_one = |te: &mut Te, x: Tensor| {
        te.compute("T_add", &[n], |te, i| {
            let v = te.at(x, i);
            te.add(v, one)
        })
    };
    let b = add_one(&mut te, a);
    add_one(&mut te, b);
    let c = add_one(&mut te, b);
    check(
        &te.prim_func("main", &[a], &[c]),
        r#"
        T_add_1 = T.sblock_alloc_buffer((n,))
        for i0 in range(n):
            with T.sblock("T_add"):
                v_i0 = T.axis.spatial(n, i0)
                T.reads(A[v_i0])
                T.writes(T_add_1[v_i0])
                T_add_1[v_i0] = A[v_i0] + T.float32(1.0)
        for i0 in range(n):
            with T.sblock("T_add_1"):
                v_i0 = T.axis.spatial(n, i0)
                T.reads(T_add_1[v_i0])
                T.writes(T_add[v_i0])
                T_add[v_i0] = T_add_1[v_i0] + T.float32(1.0)
"#,
    );
}

#[test]
fn a_reduction_over_nothing_is_the_neutral_element() {
    let mut te = Te::new();
    let a = of_float32(&mut te, "A", &[2, 0]);
    let shape = te.shape(a).to_vec();
    let b = te.reduce("S", &shape[..1], &shape[1..], Reducer::Prod, |te, i, k| te.at(a, &[i[0], k[0]]));
    check(
        &te.prim_func("main", &[a], &[b]),
        r#"
        for i0 in range(T.int64(2)):
            with T.sblock("S"):
                v_i0 = T.axis.spatial(T.int64(2), i0)
                T.reads()
                T.writes(S[v_i0])
                S[v_i0] = T.float32(1.0)
"#,
    );
}

#[test]
fn guards_are_part_of_elements() {
    let mut te = Te::new();
    let a = of_float32(&mut te, "A", &[3]);
    let five = te.extents(&[5]);
    let padded = te.compute("PadInput", &five, |te, i| {
        let (one, three, zero) = (te.extent(1), te.extent(3), te.float(0.0, DType::Float32));
        let at = te.sub(i[0], one);
        let low = te.compare(CmpOp::Le, one, i[0]);
        let high = te.compare(CmpOp::Le, i[0], three);
        let inside = te.and(low, high);
        let x = te.at(a, &[at]);
        te.if_then_else(inside, x, zero)
    });
    check(
        &te.prim_func("main", &[a], &[padded]),
        r#"
        for i0 in range(T.int64(5)):
            with T.sblock("PadInput"):
                v_i0 = T.axis.spatial(T.int64(5), i0)
                T.reads(A[v_i0 - T.int64(1)])
                T.writes(PadInput[v_i0])
                PadInput[v_i0] = T.if_then_else(T.int64(1) <= v_i0 and v_i0 <= T.int64(3), A[v_i0 - T.int64(1)], T.float32(0.0))
"#,
    );
}

#[test]
fn statements_are_one_block_with_memory_of_its_own() {
    let mut te = Te::new();
    let a = of_float32(&mut te, "A", &[4, 5]);
    let shape = te.shape(a).to_vec();
    let written = [("S", DType::Float32, &shape[..])];
    let s = te.statements("scan", &shape[..1], &written, |s, out, i| {
        let sum = s.local("sum", DType::Float32, &[]);
        let zero = s.float(0.0, DType::Float32);
        s.set(sum, &[], zero);
        s.for_each(&shape[1..], |s, k| {
            let (so_far, x) = (s.at(sum, &[]), s.at(a, &[i[0], k[0]]));
            let next = s.add(so_far, x);
            s.set(sum, &[], next);
            s.set(out[0], &[i[0], k[0]], so_far);
        });
    });
    check(
        &te.prim_func("main", &[a], &s),
        r#"
        for i0 in range(T.int64(4)):
            with T.sblock("scan"):
                v_i0 = T.axis.spatial(T.int64(4), i0)
                T.reads(A[v_i0, T.int64(0):T.int64(5)])
                T.writes(S[v_i0, T.int64(0):T.int64(5)])
                sum = T.sblock_alloc_buffer(())
                sum[()] = T.float32(0.0)
                for j in range(T.int64(5)):
                    sum[()] = sum[()] + A[v_i0, j]
                    S[v_i0, j] = sum[()]
"#,
    );
}

#[test]
fn an_update_keeps_the_order_of_looked_up_indices_only() {
    let mut te = Te::new();
    let data = of_float32(&mut te, "A", &[8, 5]);
    let new = of_float32(&mut te, "N", &[3, 5]);
    let three = te.extents(&[3]);
    let rows = te.placeholder("I", DType::Int64, &three);
    let domain = te.shape(new).to_vec();
    let updated = te.update("T_rows", data, &domain, |te, out, k| {
        let at = [te.at(rows, &k[..1]), k[1]];
        let (before, more) = (te.at(out, &at), te.at(new, k));
        let sum = te.add(before, more);
        (at.to_vec(), sum)
    });
    let func = te.prim_func("main", &[data, rows, new], &[updated]);
    let text = print_func(&func, Dialect::Current);
    let axes = ["v_k0 = T.axis.opaque(T.int64(3), k0)", "v_k1 = T.axis.spatial(T.int64(5), k1)"];
    assert!(axes.iter().all(|axis| text.contains(axis)), "{text}");
}
