//! Random walks of primitives over small programs: no accepted primitive may change results.
//!
//! Each walk applies a few random instructions to a program; most are refused. The resulting program runs in the
//! interpreter, once as it is and once with every parallel and vectorized loop running backwards, and is compared with
//! the original: integers exactly, floats with a tolerance, since reductions may be reordered. On a mismatch the
//! shortest failing prefix of the trace is printed.
//!
//! Primitives that deliberately understate accesses are excluded: `loop_partition`, whose blocks, as in TVM, do not
//! declare their accesses, and those called `unsafe_…`.
//!
//! `TVMR_WALKS=20000` runs more walks, `TVMR_WALK_SEED=N` starts at another seed.

use std::fmt::Write as _;
use tvmr::ir::interp::{Arg as Value, Options, Tensor, Value as Number, run};
use tvmr::ir::verify::{Checks, verify};
use tvmr::ir::{Arena, DType, Func, IterKind, LoopKind, Module, Stmt, Substitution};
use tvmr::schedule::arg::{Arg, Lambda, LambdaExpr, Rv};
use tvmr::schedule::{Schedule, primitive};
use tvmr::script::{Dialect, ParseOptions, parse, print_module};

const PROGRAMS: &[(&str, &str)] = &[
    (
        "matmul_relu",
        r#"
def main(A: T.Buffer((6, 8), "int32"), B: T.Buffer((8, 4), "int32"), C: T.Buffer((6, 4), "int32")):
    Y = T.alloc_buffer((6, 4), "int32")
    for i, j, k in T.grid(6, 4, 8):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = 0
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(6, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(Y[vi, vj], 0)
"#,
    ),
    (
        "chain",
        r#"
def main(A: T.Buffer((6, 10), "int32"), D: T.Buffer((10, 6), "int32")):
    B = T.alloc_buffer((6, 10), "int32")
    C = T.alloc_buffer((6, 10), "int32")
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
    for i, j in T.grid(6, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * 2 - A[5 - vi, vj]
    for i, j in T.grid(10, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj, vi] - 3
"#,
    ),
    (
        "statements_in_blocks",
        r#"
def main(A: T.Buffer((8, 6), "int32"), B: T.Buffer((8, 6), "int32"), D: T.Buffer((8, 6), "int32")):
    for i, j in T.grid(8, 6):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            x: T.int32 = A[vi, vj]
            while x > 3:
                x = x - 3
                if x == 4:
                    break
            B[vi, vj] = x
    for i, j in T.grid(8, 6):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] * 2
"#,
    ),
    (
        "memory_in_place",
        r#"
def main(A: T.Buffer((8, 6), "int32"), D: T.Buffer((8, 6), "int32")):
    C = T.alloc_local((8, 6), "int32")
    for i, j in T.grid(8, 6):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + 1
    V = T.decl_buffer((48,), "int32", data=C.data)
    for i, j in T.grid(8, 6):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * 2
"#,
    ),
    (
        "stencil",
        r#"
def main(A: T.Buffer((10, 8), "int32"), C: T.Buffer((8, 6), "int32")):
    B = T.alloc_buffer((10, 6), "int32")
    for i, j in T.grid(10, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + A[vi, vj + 1] + A[vi, vj + 2]
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj] + B[vi + 2, vj]
"#,
    ),
    (
        "pad_pool",
        r#"
def main(A: T.Buffer((6, 6), "int32"), Y: T.Buffer((6, 6), "int32")):
    P = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block("pad"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(1 <= vi and vi < 7 and 1 <= vj and vj < 7, A[vi - 1, vj - 1], 0)
    for i, j, r, s in T.grid(6, 6, 3, 3):
        with T.block("pool"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                Y[vi, vj] = -1000
            Y[vi, vj] = T.max(Y[vi, vj], P[vi + vr, vj + vs])
"#,
    ),
    (
        "softmax_like",
        r#"
def main(A: T.Buffer((4, 12), "float32"), D: T.Buffer((4, 12), "float32")):
    M = T.alloc_buffer((4,))
    E = T.alloc_buffer((4, 12))
    S = T.alloc_buffer((4,))
    for i, k in T.grid(4, 12):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid(4, 12):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.exp(A[vi, vj] - M[vi])
    for i, k in T.grid(4, 12):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + E[vi, vk]
    for i, j in T.grid(4, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = E[vi, vj] / S[vi]
"#,
    ),
    (
        "two_outputs",
        r#"
def main(A: T.Buffer((9, 5), "int32"), bias: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32"), D: T.Buffer((9, 5), "int32")):
    B = T.alloc_buffer((9, 5), "int32")
    R = T.alloc_buffer((9,), "int32")
    for i, j in T.grid(9, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 3
    for i, k in T.grid(9, 5):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                R[vi] = 0
            R[vi] = R[vi] + B[vi, vk]
    for i in range(9):
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = R[vi] + bias[vi]
    for i, j in T.grid(9, 5):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] - 1
"#,
    ),
    (
        "updates",
        r#"
def main(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "int32"), C: T.Buffer((8, 12), "int32")):
    for i, j in T.grid(6, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, 7 - vj] = A[vi, 7 - vj] + 3 * vi
    for i, j, k in T.grid(6, 8, 3):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            B[vi, vj] = B[vi, vj] + A[vi, vj] * vk
    for i, j in T.grid(5, 12):
        with T.block("C"):
            vi = T.axis.spatial(8, i + 2)
            vj = T.axis.spatial(12, j)
            T.where(i * 12 + j < 50)
            C[vi, vj] = B[vi // 2, vj * 5 % 8] - C[vi, vj] * 2
"#,
    ),
    (
        // Inits without reductions, a block that lists its own output among its reads, and a reduction that starts
        // late.
        "inits",
        r#"
def main(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32"), D: T.Buffer((8, 6), "int32"), S: T.Buffer((6,), "int32")):
    B = T.alloc_buffer((6, 8), "int32")
    E = T.alloc_buffer((6, 8), "int32")
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            with T.init():
                B[vi, vj] = 3
            B[vi, vj] = B[vi, vj] * 2 + A[vi, vj]
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
    for i, j in T.grid(6, 8):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(E[vi, vj], A[vi, vj])
            T.writes(E[vi, vj])
            with T.init():
                E[vi, vj] = vi
            if vj < 5:
                E[vi, vj] = E[vi, vj] - A[vi, vj]
    for i, j in T.grid(8, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = E[vj, vi] * 5
    for i, k in T.grid(6, 7):
        with T.block("S"):
            vi = T.axis.spatial(6, i)
            vk = T.axis.reduce(8, k + 1)
            T.reads(S[vi], A[vi, vk])
            T.writes(S[vi])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
"#,
    ),
    (
        "spatial_init",
        r#"
def main(A: T.Buffer((6, 8), "int32"), D: T.Buffer((8, 5), "int32")):
    B = T.alloc_buffer((6, 8), "int32")
    C = T.alloc_buffer((8, 5), "int32")
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            with T.init():
                B[vi, vj] = vj
            B[vi, vj] = B[vi, vj] * 2 + A[vi, vj]
    for i, j in T.grid(8, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi]
    for i, j in T.grid(8, 5):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i * 5 + j < 37)
            with T.init():
                D[vi, vj] = 1
            D[vi, vj] = D[vi, vj] + C[vi, vj] * 3
"#,
    ),
    (
        // Nested blocks, whose inner loops belong to a scope of their own.
        "nested",
        r#"
def main(A: T.Buffer((24,), "int32"), C: T.Buffer((24,), "int32"), S: T.Buffer((6,), "int32")):
    B = T.alloc_buffer((24,), "int32")
    for i0 in range(6):
        with T.block("outer"):
            vo = T.axis.spatial(6, i0)
            B2 = T.alloc_buffer((24,), "int32")
            for x in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(24, vo * 4 + x)
                    B[vi] = A[vi] + 1
            for x in range(4):
                with T.block("B2"):
                    vi = T.axis.spatial(24, vo * 4 + x)
                    B2[vi] = B[vi] * A[vi]
            for x in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(24, vo * 4 + x)
                    C[vi] = B2[vi] - 7
            for x in range(4):
                with T.block("S"):
                    vx = T.axis.reduce(4, x)
                    T.reads(S[vo], B[vo * 4 + vx])
                    T.writes(S[vo])
                    with T.init():
                        S[vo] = 0
                    S[vo] = S[vo] + B[vo * 4 + vx]
"#,
    ),
    (
        "long_loops",
        r#"
def main(A: T.Buffer((12, 10), "int32"), D: T.Buffer((1, 6), "int32"), E: T.Buffer((12,), "int32")):
    B = T.alloc_buffer((12, 10), "int32")
    for i, j in T.grid(T.int64(12), T.int64(10)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for a, b in T.grid(T.int64(1), T.int64(6)):
        with T.block("D"):
            va, vb = T.axis.remap("SS", [a, b])
            D[va, vb] = B[va, vb] + 1
    for i, k in T.grid(T.int64(12), T.int64(10)):
        with T.block("E"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                E[vi] = 0
            E[vi] = E[vi] + B[vi, vk]
"#,
    ),
    (
        // Shapes, loops and indices of both integer types.
        "mixed_integers",
        r#"
def main(A: T.Buffer((T.int64(10), T.int64(8)), "int32"), C: T.Buffer((8, 6), "int32"), P: T.Buffer((T.int64(12),), "int32")):
    B = T.alloc_buffer((10, T.int64(6)), "int32")
    for i in range(10):
        for j in range(T.int64(6)):
            with T.block("B"):
                vi = T.axis.spatial(10, i)
                vj = T.axis.spatial(T.int64(6), j)
                B[vi, vj] = A[vi, vj] + A[T.Cast("int64", vi), vj + T.int64(2)]
    for i, j in T.grid(T.int64(8), 6):
        with T.block("C"):
            vi = T.axis.spatial(T.int64(8), i)
            vj = T.axis.spatial(6, j)
            C[vi, vj] = B[vi, vj] + B[vi + T.int64(2), vj]
    for i, k in T.grid(T.int64(12), 8):
        with T.block("P"):
            vi = T.axis.spatial(T.int64(12), i)
            vk = T.axis.reduce(8, k)
            T.where(i < T.int64(11))
            with T.init():
                P[vi] = 0
            P[vi] = P[vi] + T.if_then_else(T.int64(1) <= vi, A[vi - T.int64(1), T.Cast("int64", vk)], 0)
"#,
    ),
    (
        // Bindings whose type differs from that of the iteration variable.
        "mixed_bindings",
        r#"
def main(A: T.Buffer((12, 10), "int32"), C: T.Buffer((12, 8), "int32"), E: T.Buffer((12,), "int32")):
    B = T.alloc_buffer((12, 10), "int32")
    for i in range(T.int64(12)):
        for j in range(10):
            with T.block("B"):
                vi = T.axis.spatial(12, i)
                vj = T.axis.spatial(T.int64(10), j)
                B[vi, vj] = A[vi, vj] * 2 + vi
    for i, j in T.grid(12, T.int64(8)):
        with T.block("C"):
            vi = T.axis.spatial(T.int64(12), i)
            vj = T.axis.spatial(8, j)
            C[vi, vj] = B[vi, vj] + B[vi, vj + 2]
    for i, k in T.grid(T.int64(12), 10):
        with T.block("E"):
            vi = T.axis.spatial(12, i)
            vk = T.axis.reduce(T.int64(10), k)
            with T.init():
                E[vi] = 0
            E[vi] = E[vi] + B[vi, vk]
"#,
    ),
    (
        // Loops with other starts and steps.
        "starts_and_steps",
        r#"
def main(A: T.Buffer((12, 8), "int32"), C: T.Buffer((12,), "int32")):
    B = T.alloc_buffer((12, 8), "int32")
    for i in range(0, 12, 4):
        for i1, j in T.grid(4, (-2, 8)):
            with T.block("B"):
                vi = T.axis.spatial(12, i + i1)
                vj = T.axis.spatial(8, j + 2)
                B[vi, vj] = A[vi, vj] * 3 - vj
    for i in range(12):
        for k in range(3, 11):
            with T.block("C"):
                vi = T.axis.spatial(12, i)
                vk = T.axis.reduce(8, k - 3)
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + B[vi, vk]
"#,
    ),
    (
        "predicates",
        r#"
def main(A: T.Buffer((48,), "int32"), C: T.Buffer((40,), "int32"), D: T.Buffer((5,), "int32")):
    B = T.alloc_buffer((44,), "int32")
    for i0, i1 in T.grid(6, 8):
        with T.block("B"):
            vi = T.axis.spatial(44, i0 * 8 + i1)
            T.where(i0 * 8 + i1 < 44)
            B[vi] = A[vi] * 3 - vi
    for i0, i1 in T.grid(7, 6):
        with T.block("C"):
            vi = T.axis.spatial(40, i0 * 6 + i1)
            T.where(i0 * 6 + i1 < 40)
            C[vi] = B[vi] + 1
    for i, k0, k1 in T.grid(5, 3, 3):
        with T.block("D"):
            vi = T.axis.spatial(5, i)
            vk = T.axis.reduce(8, k0 * 3 + k1)
            T.where(k0 * 3 + k1 < 8 and i * 8 + k0 * 3 + k1 < 38)
            with T.init():
                D[vi] = -5
            D[vi] = T.max(D[vi], B[vi * 8 + vk])
"#,
    ),
    (
        // Consecutive overlapping windows.
        "pools",
        r#"
def main(A: T.Buffer((24,), "int32"), C: T.Buffer((8,), "int32")):
    B0 = T.alloc_buffer((22,), "int32")
    B1 = T.alloc_buffer((10,), "int32")
    for i, k in T.grid(22, 3):
        with T.block("B0"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B0[vi] = -128
            B0[vi] = T.max(B0[vi], A[vi + vk])
    for i, k in T.grid(10, 3):
        with T.block("B1"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B1[vi] = -128
            B1[vi] = T.max(B1[vi], B0[vi * 2 + vk])
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = -128
            C[vi] = T.max(C[vi], B1[vi + vk])
"#,
    ),
];

/// A small random generator, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len())) }
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

fn module(text: &str) -> Module {
    let text = format!("@T.prim_func\n{}", text.trim_start());
    match parse(&text, "program.tir", &ParseOptions::default()) {
        Ok(parsed) => parsed.module,
        Err(e) => panic!("{e}"),
    }
}

/// A walk: a schedule, and the source of random choices.
struct Walk {
    sch: Schedule,
    random: Random,
}

impl Walk {
    /// Applies an instruction if it exists and is accepted.
    fn run(&mut self, method: &str, args: Vec<Arg>) -> Option<Vec<Rv>> {
        let kind = primitive::by_method(method)?;
        let rest = kind.params.iter().skip(args.len()).filter_map(tvmr::schedule::kind::default_arg);
        let args: Vec<Arg> = args.into_iter().chain(rest).collect();
        if args.len() != kind.params.len() {
            return None;
        }
        self.sch.execute(kind, args, None).ok()
    }

    fn block(&mut self) -> Option<Rv> {
        let f = self.sch.func(0);
        let names: Vec<String> =
            f.blocks().into_iter().filter(|&b| b != f.root).map(|b| f.block(b).name.to_string()).collect();
        let name = self.random.pick(&names)?.clone();
        self.run("get_sblock", vec![name.as_str().into(), "main".into()])?.first().copied()
    }

    fn loops(&mut self, block: Rv) -> Vec<Rv> {
        self.run("get_loops", vec![block.into()]).unwrap_or_default()
    }

    fn loop_(&mut self) -> Option<Rv> {
        let block = self.block()?;
        let loops = self.loops(block);
        self.random.pick(&loops).copied()
    }

    /// A random map of `n` indices: a permutation, possibly with one index split or two fused.
    fn index_map(&mut self, n: usize) -> Arg {
        let params: Vec<_> = (0..n).map(|i| format!("i{i}").as_str().into()).collect();
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            if self.random.coin() {
                order.swap(i, self.random.below(i + 1));
            }
        }
        let mut results: Vec<LambdaExpr> = order.into_iter().map(LambdaExpr::Param).collect();
        if self.random.coin() && n > 0 {
            let at = self.random.below(n);
            let by = Box::new(LambdaExpr::Int(2 + self.random.below(4) as i64));
            let e = Box::new(results[at].clone());
            results[at] = LambdaExpr::Binary(tvmr::ir::BinOp::FloorDiv, e.clone(), by.clone());
            let to = self.random.below(results.len()) + 1;
            results.insert(to, LambdaExpr::Binary(tvmr::ir::BinOp::FloorMod, e, by));
        }
        let scalar = false;
        Arg::Lambda(Lambda { params, results, scalar, ranges: false }.into())
    }

    fn step(&mut self) -> Option<()> {
        let small = |r: &mut Random| 1 + r.below(6) as i64;
        match self.random.below(32) {
            0..=3 => {
                let l = self.loop_()?;
                let (x, y) = (small(&mut self.random), small(&mut self.random));
                let factors = match self.random.below(4) {
                    0 => vec![Arg::None, x.into()],
                    1 => vec![x.into(), Arg::None],
                    2 => vec![x.into(), Arg::None, y.into()],
                    _ => vec![x.into(), y.into()],
                };
                let preserve = self.random.coin();
                self.run("split", vec![l.into(), Arg::List(factors), preserve.into()])?;
            }
            4 | 5 => {
                let block = self.block()?;
                let loops = self.loops(block);
                let at = self.random.below(loops.len());
                let end = (at + 1 + self.random.below(2) + 1).min(loops.len());
                let fused: Vec<Arg> = loops.get(at..end)?.iter().map(Arg::from).collect();
                self.run("fuse", vec![Arg::List(fused)])?;
            }
            6..=8 => {
                let block = self.block()?;
                let mut loops = self.loops(block);
                for i in (1..loops.len()).rev() {
                    loops.swap(i, self.random.below(i + 1));
                }
                loops.truncate(1 + self.random.below(loops.len().max(1)));
                self.run("reorder", vec![Arg::List(loops.iter().map(Arg::from).collect())])?;
            }
            9..=11 => {
                let (block, l) = (self.block()?, self.loop_()?);
                let method = if self.random.coin() { "compute_at" } else { "reverse_compute_at" };
                let (preserve, index) = (self.random.coin(), -1 - self.random.below(2) as i64);
                self.run(method, vec![block.into(), l.into(), preserve.into(), index.into()])?;
            }
            12 => {
                let block = self.block()?;
                let method = if self.random.coin() { "compute_inline" } else { "reverse_compute_inline" };
                self.run(method, vec![block.into()])?;
            }
            13 | 14 => {
                let block = self.block()?;
                let loops = self.loops(block);
                let l = *self.random.pick(&loops)?;
                self.run("decompose_reduction", vec![block.into(), l.into()])?;
            }
            15 | 16 => {
                let l = self.loop_()?;
                let axis = self.random.below(3) as i64;
                self.run("rfactor", vec![l.into(), axis.into()])?;
            }
            17 | 18 => {
                let l = self.loop_()?;
                let method = *self.random.pick(&["parallel", "vectorize", "unroll"])?;
                self.run(method, vec![l.into()])?;
            }
            19 | 20 => self.transform_layout()?,
            21 => {
                let block = self.block()?;
                let n = self.loops(block).len();
                let map = self.index_map(n);
                self.run("transform_block_layout", vec![block.into(), map])?;
            }
            22 | 23 => {
                let l = self.loop_()?;
                let preserve = self.random.coin();
                self.run("blockize", vec![l.into(), preserve.into()])?;
            }
            24 => {
                let block = self.block()?;
                match self.random.below(3) {
                    0 => self.run("add_unit_loop", vec![block.into()])?,
                    1 => self.run("set_scope", vec![block.into(), 0.into(), "local".into()])?,
                    _ => self.run("rolling_buffer", vec![block.into(), 0.into()])?,
                };
            }
            25 => {
                let (x, y) = (self.loop_()?, self.loop_()?);
                match self.random.below(3) {
                    0 => self.run("merge", vec![Arg::List(vec![x.into(), y.into()])])?,
                    _ => self.run("normalize_loop", vec![x.into()])?,
                };
            }
            26 => {
                let l = self.loop_()?;
                self.run("annotate", vec![l.into(), "pragma_auto_unroll_max_step".into(), 16.into()])?;
            }
            27 => {
                let block = self.block()?;
                let n = self.n_iters(block);
                let padding = (0..n).map(|_| small(&mut self.random).into()).collect();
                self.run("pad_einsum", vec![block.into(), Arg::List(padding)])?;
            }
            28 => {
                let block = self.block()?;
                let loops = self.loops(block);
                let l = *self.random.pick(&loops)?;
                match self.random.below(3) {
                    0 => self.run("decompose_padding", vec![block.into(), l.into()])?,
                    1 => self.run("read_at", vec![l.into(), block.into(), 0.into(), "local".into()])?,
                    _ => self.run("write_at", vec![l.into(), block.into(), 0.into(), "local".into()])?,
                };
            }
            29 => {
                let (x, y) = (self.block()?, self.block()?);
                self.run("fuse_reduction_epilogue", vec![x.into(), y.into()])?;
            }
            30 => {
                let block = self.block()?;
                let n = self.n_iters(block);
                let mut order: Vec<i64> = (0..n as i64).collect();
                for i in (1..n).rev() {
                    order.swap(i, self.random.below(i + 1));
                }
                let order = order.into_iter().map(Arg::from).collect();
                self.run("reorder_block_iter_var", vec![block.into(), Arg::List(order)])?;
            }
            _ => {
                let block = self.block()?;
                let index = Arg::from(self.random.below(2) as i64);
                match self.random.below(8) {
                    0 | 1 => self.run("cache_read", vec![block.into(), index, "global".into()])?,
                    2 | 3 => self.run("cache_write", vec![block.into(), 0.into(), "global".into()])?,
                    4 => self.run("cache_index", vec![block.into(), "global".into(), index])?,
                    5 => self.run("cache_inplace", vec![block.into(), index, "local".into()])?,
                    6 => {
                        let which: &str = if self.random.coin() { "read" } else { "write" };
                        self.run("reindex", vec![block.into(), Arg::List(vec![which.into(), index])])?
                    }
                    _ => {
                        let map = self.iter_map(block);
                        let (method, index) = match self.random.coin() {
                            true => ("reindex_cache_read", index),
                            false => ("reindex_cache_write", 0.into()),
                        };
                        self.run(method, vec![block.into(), index, "global".into(), map])?
                    }
                };
            }
        }
        Some(())
    }

    /// A map of the block's spatial iterations in some order.
    fn iter_map(&mut self, block: Rv) -> Arg {
        let Ok(tvmr::schedule::arg::RvValue::Block(f, b)) = self.sch.value(block) else { return Arg::None };
        let kinds: Vec<IterKind> = self.sch.func(f).block(b).iters.iter().map(|i| i.kind).collect();
        let params = (0..kinds.len()).map(|i| format!("i{i}").as_str().into()).collect();
        let spatial = (0..kinds.len()).filter(|&i| kinds[i] == IterKind::Spatial || self.random.below(4) == 0);
        let mut results: Vec<LambdaExpr> = spatial.map(LambdaExpr::Param).collect();
        if self.random.coin() {
            results.reverse();
        }
        Arg::Lambda(Lambda { params, results, scalar: false, ranges: false }.into())
    }

    fn n_iters(&self, block: Rv) -> usize {
        match self.sch.value(block) {
            Ok(tvmr::schedule::arg::RvValue::Block(f, b)) => self.sch.func(f).block(b).iters.len(),
            _ => 0,
        }
    }

    /// Only for allocated buffers: another layout of a parameter changes the interface.
    fn transform_layout(&mut self) -> Option<()> {
        let block = self.block()?;
        let Ok(tvmr::schedule::arg::RvValue::Block(f, b)) = self.sch.value(block) else { return None };
        let write = self.random.coin();
        let func = self.sch.func(f);
        let regions = if write { &func.block(b).writes } else { &func.block(b).reads };
        let index = self.random.below(regions.len());
        let buffer = regions.get(index)?.buffer;
        if func.param_of(buffer).is_some() {
            return None;
        }
        let (rank, dtype) = (func.arena.list(func.arena.buffer(buffer).shape).len(), func.arena.buffer(buffer).dtype);
        let map = self.index_map(rank);
        let pad = match self.random.below(3) {
            0 => Arg::None,
            _ if dtype.is_float() => Arg::Float(7.5),
            _ => Arg::Int(77),
        };
        let which: &str = if write { "write" } else { "read" };
        let place = Arg::List(vec![which.into(), (index as i64).into()]);
        let assume = self.random.below(4) == 0;
        self.run("transform_layout", vec![block.into(), place, map, pad, assume.into()])?;
        Some(())
    }
}

fn arguments(f: &Func) -> Vec<Value> {
    let mut random = Random(1);
    let argument = |b| {
        let buffer = f.arena.buffer(b);
        let shape: Vec<i64> =
            f.arena.list(buffer.shape).iter().map(|&e| f.arena.as_int(e).expect("constant shapes")).collect();
        let values = std::iter::repeat_with(|| match buffer.dtype {
            DType::Float32 => Number::Float((random.below(2000) as f64 - 1000.0) / 512.0),
            _ => Number::Int(random.below(200) as i64 - 100),
        });
        Value::Tensor(Tensor::from_values(buffer.dtype, &shape, values))
    };
    f.params.iter().filter_map(|p| p.buffer).map(argument).collect()
}

/// The final contents of all parameters, or the reason why the program cannot run.
fn results(f: &Func) -> Result<Vec<Vec<f64>>, String> {
    let violations = verify(f, Checks::FORM);
    if let Some(v) = violations.first() {
        return Err(format!("ill-formed: {v:?}"));
    }
    let mut args = arguments(f);
    run(f, &mut args, Options { max_steps: 50_000_000, ..Options::default() }).map_err(|e| format!("{e:?}"))?;
    Ok(args.iter().filter_map(Value::tensor).map(Tensor::to_f64s).collect())
}

/// The function with all loops reversed whose iterations may run in any order.
fn backwards(f: &Func) -> Func {
    let mut f = f.clone();
    for s in f.subtree(f.root.stmt()) {
        let Stmt::Loop(l) = f.get(s).clone() else { continue };
        if !matches!(l.kind, LoopKind::Parallel | LoopKind::Vectorized) {
            continue;
        }
        let a: &mut Arena = &mut f.arena;
        let v = a.var_expr(l.var);
        let last = a.add(l.min, l.extent);
        let last = a.add_const(last, -1);
        let from_end = a.sub(last, v);
        let mirrored = a.add(from_end, l.min);
        let mut mirror = Substitution::of_vars([(l.var, mirrored)]);
        for child in f.get(s).children() {
            f.rewrite_subtree(child, &mut mirror);
        }
    }
    f
}

fn differs(expected: &[Vec<f64>], found: &[Vec<f64>]) -> Option<String> {
    for (n, (x, y)) in expected.iter().zip(found).enumerate() {
        for (i, (p, q)) in x.iter().zip(y).enumerate() {
            let close = p == q || (p - q).abs() <= 1e-4 * p.abs().max(1.0);
            if !close {
                return Some(format!("parameter {n}, element {i}: {q}, expected {p}"));
            }
        }
    }
    None
}

/// The error of a scheduled function, if there is one.
fn wrong(f: &Func, expected: &[Vec<f64>]) -> Option<String> {
    let check = |f: &Func, how: &str| match results(f) {
        Err(why) => Some(format!("{how}: {why}")),
        Ok(found) => differs(expected, &found).map(|d| format!("{how}: {d}")),
    };
    check(f, "in order").or_else(|| check(&backwards(f), "parallel loops backwards"))
}

fn report(name: &str, seed: u64, module: &Module, sch: &Schedule, expected: &[Vec<f64>], why: &str) -> String {
    // The shortest failing prefix.
    let mut prefix = sch.trace().clone();
    let all = prefix.insts.clone();
    for n in 1..=all.len() {
        prefix.insts.truncate(0);
        prefix.insts.extend(all[..n].iter().cloned());
        let mut again = Schedule::new(module, 0);
        if prefix.replay(&mut again).is_ok() && wrong(again.func(0), expected).is_some() {
            break;
        }
    }
    let mut text = format!("{name}, seed {seed}: {why}\n{}\n", prefix.to_python(Dialect::Classic));
    let mut again = Schedule::new(module, 0);
    let _ = prefix.replay(&mut again);
    let _ = write!(text, "{}", print_module(&again.module(), Dialect::Classic));
    text
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

#[test]
fn accepted_schedules_keep_results() {
    let walks = variable("TVMR_WALKS").unwrap_or(300);
    let first = variable("TVMR_WALK_SEED").unwrap_or(0);
    let programs: Vec<(&str, Module, Vec<Vec<f64>>)> = PROGRAMS
        .iter()
        .map(|(name, text)| {
            let module = module(text);
            let expected = results(&module.funcs[0]).expect("the program runs");
            (*name, module, expected)
        })
        .collect();
    let mut failures = Vec::new();
    let mut accepted = 0;
    for seed in first..first + walks {
        let (name, module, expected) = &programs[(seed % programs.len() as u64) as usize];
        let mut walk = Walk { sch: Schedule::new(module, seed), random: Random(seed) };
        for _ in 0..4 + walk.random.below(12) {
            accepted += walk.step().is_some() as usize;
        }
        if let Some(why) = wrong(walk.sch.func(0), expected) {
            failures.push(report(name, seed, module, &walk.sch, expected, &why));
        }
    }
    println!("{walks} walks, {accepted} instructions accepted, {} wrong", failures.len());
    for f in &failures {
        let last = f.lines().take_while(|l| !l.starts_with("# from tvm.script")).last().unwrap_or_default();
        println!("{}\n    {last}", f.lines().next().unwrap_or_default());
    }
    assert!(accepted as u64 > walks, "only {accepted} instructions of {walks} walks were accepted");
    assert!(
        failures.is_empty(),
        "{} walks changed results:\n\n{}",
        failures.len(),
        failures[..failures.len().min(5)].join("\n")
    );
}

/// Primitives that no walk executes, each with the reason.
const NOT_WALKED: [(&str, &str); 9] = [
    ("annotate_buffer_access", "states accesses, which it cannot verify"),
    ("bind", "threads of a device do not exist in the interpreter"),
    ("enter_postproc", "changes the trace only"),
    ("loop_partition", "its blocks do not declare their accesses"),
    ("storage_align", "changes the layout of memory only"),
    ("tensorize", "needs a program for each intrinsic; space and codegen test it"),
    ("unannotate", "needs an annotation, and changes nothing else"),
    ("unsafe_hide_buffer_access", "hides accesses on purpose"),
    ("unsafe_set_dtype", "changes results on purpose"),
];

#[test]
fn walks_execute_every_primitive_that_they_can() {
    let steps =
        include_str!("random_walks.rs").split_once("/// Primitives that no walk executes").map(|(steps, _)| steps);
    let steps = steps.expect("the source ends with this list");
    for kind in primitive::ALL.iter().filter(|k| k.may_change_program()) {
        let is_excluded = NOT_WALKED.iter().any(|(method, _)| *method == kind.method);
        let is_walked = steps.contains(&format!("\"{}\"", kind.method));
        assert!(is_walked != is_excluded, "`{}`: a step of a walk, or a line in `NOT_WALKED`", kind.method);
    }
}
