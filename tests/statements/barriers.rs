//! Loops that are bound to threads of a GPU, with barriers: the results are those of threads that run at once.

use super::{A, check, execute, program, read};
use tvmr::lint::lint;
use tvmr::script::{Dialect, ParseOptions, parse};

/// Bodies over `A`, `N` and `B`, of 8 elements each, and what `B` holds at the end.
fn programs() -> Vec<(&'static str, &'static str, [f64; 8])> {
    let sum: f64 = A.iter().sum();
    let reversed = |half: usize| std::array::from_fn(|i| A[i / half * half + half - 1 - i % half]);
    vec![
        (
            "reversed within blocks through shared memory",
            r#"
for bx in T.thread_binding(2, thread="blockIdx.x"):
    S = T.alloc_buffer((4,), "float32", scope="shared")
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        S[tx] = A[bx * 4 + tx]
        T.tvm_storage_sync("shared")
        B[bx * 4 + tx] = S[3 - tx]
"#,
            reversed(4),
        ),
        (
            "memory of a thread lives across the barrier",
            r#"
S = T.alloc_buffer((8,), "float32", scope="shared")
for tx in T.thread_binding(8, thread="threadIdx.x"):
    x = T.alloc_buffer((1,), "float32", scope="local")
    x[0] = A[tx]
    S[tx] = x[0] * T.float32(2)
    T.tvm_storage_sync("shared")
    B[tx] = S[7 - tx] + x[0]
"#,
            std::array::from_fn(|i| A[7 - i] * 2.0 + A[i]),
        ),
        (
            "a sum as a tree",
            r#"
S = T.alloc_buffer((8,), "float32", scope="shared")
for tx in T.thread_binding(8, thread="threadIdx.x"):
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    for k in range(3):
        half: T.let[T.int32] = T.shift_right(4, k)
        if tx < half:
            S[tx] = S[tx] + S[tx + half]
        T.tvm_storage_sync("shared")
    B[tx] = S[0]
"#,
            [sum; 8],
        ),
        (
            "two axes, of which one counts from another number, and a condition that all threads share",
            r#"
S = T.alloc_buffer((8,), "float32", scope="shared")
for ty in T.thread_binding(2, thread="threadIdx.y"):
    for tx in T.thread_binding(1, 5, thread="threadIdx.x"):
        x: T.float32 = A[ty * 4 + tx - 1]
        if N[0] > 0:
            S[ty * 4 + tx - 1] = x
            T.tvm_storage_sync("shared")
            x = x + S[7 - (ty * 4 + tx - 1)]
        B[ty * 4 + tx - 1] = x
"#,
            std::array::from_fn(|i| A[i] + A[7 - i]),
        ),
        (
            "blocks of the program around a barrier",
            r#"
for tx in T.thread_binding(8, thread="threadIdx.x"):
    with T.sblock("all"):
        vt = T.axis.spatial(8, tx)
        S = T.sblock_alloc_buffer((8,), scope="shared")
        x = T.sblock_alloc_buffer((1,), scope="local")
        with T.sblock("in"):
            S[vt] = A[vt]
            x[0] = A[vt]
        T.tvm_storage_sync("shared")
        with T.sblock("out"):
            B[vt] = S[7 - vt] - x[0]
"#,
            std::array::from_fn(|i| A[7 - i] - A[i]),
        ),
        (
            "a barrier of all blocks",
            r#"
S = T.alloc_buffer((8,), "float32", scope="global")
for bx in T.thread_binding(2, thread="blockIdx.x"):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        S[bx * 4 + tx] = A[bx * 4 + tx]
        T.tvm_storage_sync("global", True, 2)
        B[bx * 4 + tx] = S[7 - (bx * 4 + tx)]
"#,
            reversed(8),
        ),
        (
            "a barrier of one thread",
            r#"
for i in range(8):
    T.tvm_storage_sync("shared")
    B[i] = A[i]
"#,
            A,
        ),
    ]
}

#[test]
fn threads_meet_at_barriers() {
    for (name, body, expected) in programs() {
        let text = program(Dialect::Current, body);
        check(name, &text, expected);
        assert_eq!(execute(&read(&text), 3).as_deref(), Ok(&expected[..]), "{name}: on three threads");
    }
}

#[test]
fn threads_that_do_not_meet_are_an_error() {
    for (name, body, reason) in [
        (
            "condition",
            "for tx in T.thread_binding(8, thread=\"threadIdx.x\"):\n    if tx < 4:\n        T.tvm_storage_sync(\"shared\")\n    B[tx] = A[tx]",
            "has a barrier inside, and differs between threads",
        ),
        (
            "loop",
            "for tx in T.thread_binding(8, thread=\"threadIdx.x\"):\n    for k in range(tx):\n        T.tvm_storage_sync(\"shared\")\n    B[tx] = A[tx]",
            "has a barrier inside, and differs between threads",
        ),
        (
            "value",
            "for tx in T.thread_binding(8, thread=\"threadIdx.x\"):\n    x: T.let[T.float32] = A[tx]\n    T.tvm_storage_sync(\"shared\")\n    B[tx] = x",
            "has a value that is read before a barrier",
        ),
        (
            "jump",
            "for tx in T.thread_binding(8, thread=\"threadIdx.x\"):\n    for k in range(4):\n        T.tvm_storage_sync(\"shared\")\n        if N[0] > 0:\n            break\n    B[tx] = A[tx]",
            "leaves a loop of threads",
        ),
    ] {
        let text = program(Dialect::Current, body);
        let parsed = parse(&text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let found = lint(&parsed);
        assert!(found.iter().any(|d| d.code == "divergent-barrier" && d.message.contains(reason)), "{name}: {found:?}");
    }
}
