//! Checks the table of handles in docs/primitives.md against the primitives.
//!
//! Each case looks up every block and loop of a program, and then applies one primitive. If the table says that handles
//! become invalid, some must; if it says that none do, none may. The error of a later use of a handle that the primitive was
//! given must name the primitive.

use tvmr::schedule::Schedule;
use tvmr::schedule::arg::{Rv, RvValue};
use tvmr::schedule::primitive;
use tvmr::schedule_function::ScheduleFunction;
use tvmr::script::{ParseOptions, parse};

/// A producer, a reduction and a consumer.
const PROGRAM: &str = r#"
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16, 16))
    C = T.alloc_buffer((16,))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, k in T.grid(16, 16):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] + T.float32(1)
"#;

const SCALE: &str = r#"
@T.prim_func
def main(A: T.Buffer((16,), "float32"), s: T.Buffer((1,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = C[vi] + s[0] * A[vi]
"#;

const PADDED: &str = r#"
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((20,), "float32")):
    for i in range(20):
        with T.block("C"):
            vi = T.axis.spatial(20, i)
            C[vi] = T.if_then_else(2 <= vi and vi < 18, A[vi - 2], T.float32(0))
"#;

const TWO: &str = r#"
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi] + T.float32(1)
"#;

const STRIDED: &str = r#"
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(0, 16, 2):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi] + T.float32(1)
"#;

const SCATTERED: &str = r#"
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi // 2, vj // 2] + T.float32(1)
"#;

const CHAIN: &str = r#"
@T.prim_func
def main(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = B[vi] + T.float32(1)
"#;

const WINDOW: &str = r#"
@T.prim_func
def main(A: T.Buffer((18, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((18, 16))
    for i, j in T.grid(18, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 2, vj]
"#;

const MATMUL: &str = r#"
@T.prim_func
def main(A: T.Buffer((15, 15), "float32"), B: T.Buffer((15, 15), "float32"), C: T.Buffer((15, 15), "float32")):
    A_1 = T.alloc_buffer((15, 15))
    for i, j in T.grid(15, 15):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A_1[vi, vj] = A[vi, vj]
    for i, j, k in T.grid(15, 15, 15):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A_1[vi, vk] * B[vk, vj]
"#;

/// A program, its preparation, and the primitive. Blocks are called `b`, `c`, `d` after their names, their loops
/// `b_loops` and so on.
const CASES: &[(&str, &str, &str)] = &[
    (PROGRAM, "", "sch.add_unit_loop(c_loops[1])"),
    (PROGRAM, "", "sch.annotate(c, 'key', 1)"),
    (PROGRAM, "", "sch.annotate_buffer_access(b, 0, 'read', lambda i, j: ((i, i + 1), (0, 16)))"),
    (PROGRAM, "", "sch.bind(b_loops[0], 'threadIdx.x')"),
    (PROGRAM, "", "sch.blockize(b_loops[1])"),
    (SCATTERED, "", "sch.cache_index(c, 'global', 0)"),
    (SCALE, "", "sch.cache_inplace(c, 0, 'local')"),
    (PROGRAM, "", "sch.cache_read(c, 0, 'local')"),
    (PROGRAM, "", "sch.cache_write(c, 0, 'local')"),
    (PROGRAM, "", "sch.compute_at(b, c_loops[0])"),
    (PROGRAM, "", "sch.compute_inline(b)"),
    (PADDED, "", "sch.decompose_padding(c, c_loops[0])"),
    (PROGRAM, "", "sch.decompose_reduction(c, c_loops[0])"),
    (PROGRAM, "", "sch.enter_postproc()"),
    (PROGRAM, "", "sch.fuse(*b_loops)"),
    (PROGRAM, "", "sch.fuse_reduction_epilogue(c, d)"),
    (PROGRAM, "", "sch.get_child_blocks(c_loops[0])"),
    (PROGRAM, "", "sch.get_consumers(b)"),
    (PROGRAM, "", "sch.get_loops(b)"),
    (PROGRAM, "", "sch.get_output_blocks('root')"),
    (PROGRAM, "", "sch.get_producers(c)"),
    (PROGRAM, "", "sch.get_sblock('B')"),
    (PROGRAM, "", "sch.loop_partition(b_loops[0], [4, None])"),
    (TWO, "", "sch.merge(b_loops[0], c_loops[0])"),
    (MATMUL, "", "sch.pad_einsum(c, [16, 16, 1])"),
    (STRIDED, "", "sch.normalize_loop(c_loops[0])"),
    (PROGRAM, "", "sch.parallel(b_loops[0])"),
    (PROGRAM, "", "sch.read_at(b_loops[0], b, 0, 'local')"),
    (PROGRAM, "", "sch.reindex(b, ('read', 0))"),
    (PROGRAM, "", "sch.reindex_cache_read(b, 0, 'local', lambda i, j: (j, i))"),
    (PROGRAM, "", "sch.reindex_cache_write(b, 0, 'local', lambda i, j: (j, i))"),
    (PROGRAM, "", "sch.reorder(b_loops[1], b_loops[0])"),
    (PROGRAM, "", "sch.reorder_block_iter_var(b, [1, 0])"),
    (PROGRAM, "", "sch.reverse_compute_at(d, c_loops[0])"),
    (CHAIN, "", "sch.reverse_compute_inline(d)"),
    (PROGRAM, "k_0, k_1 = sch.split(c_loops[1], [4, 4])", "sch.rfactor(k_0, 0)"),
    (WINDOW, "sch.compute_at(b, c_loops[0])", "sch.rolling_buffer(b, 0)"),
    (PROGRAM, "", "sch.sample_categorical([1, 2], [0.5, 0.5])"),
    (PROGRAM, "", "sch.sample_compute_location(b)"),
    (PROGRAM, "", "sch.sample_partitioned_tile(b_loops[0], 3, 2, 2)"),
    (PROGRAM, "", "sch.sample_perfect_tile(b_loops[0], 2)"),
    (PROGRAM, "", "sch.set_scope(b, 0, 'local')"),
    (PROGRAM, "", "sch.split(b_loops[0], [None, 4])"),
    (PROGRAM, "", "sch.storage_align(b, 0, 0, 16, 1)"),
    (SCALE, "i_0, i_1 = sch.split(c_loops[0], [None, 8])", "sch.tensorize(i_1, 'fma_8_f32')"),
    (PROGRAM, "", "sch.transform_block_layout(b, lambda i, j: (j, i))"),
    (PROGRAM, "", "sch.transform_layout(b, ('write', 0), lambda i, j: (j, i))"),
    (PROGRAM, "sch.annotate(c, 'key', 1)", "sch.unannotate(c, 'key')"),
    (PROGRAM, "", "sch.unroll(c_loops[1])"),
    (PROGRAM, "", "sch.unsafe_hide_buffer_access(b, 'read', [0])"),
    (PROGRAM, "", "sch.unsafe_set_dtype(b, 0, 'float16')"),
    (PROGRAM, "", "sch.vectorize(b_loops[1])"),
    (PROGRAM, "", "sch.write_at(b_loops[0], b, 0, 'local')"),
];

/// Primitives that invalidate handles only in cases that the table names, which the test does not cover.
const ONLY_SOMETIMES: [&str; 1] = ["transform_layout"];

/// The column `dies` of the table.
fn dies<'p>(page: &'p str, method: &str) -> Option<&'p str> {
    page.lines().find_map(|l| l.strip_prefix(&format!("| `{method}` | ")))?.split(" | ").next()
}

#[test]
fn handles_die_where_the_table_says_so() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/primitives.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut failures = String::new();
    for (program, before, call) in CASES {
        let method = call["sch.".len()..].split('(').next().unwrap_or_default();
        match (deaths(program, before, call), dies(&page, method)) {
            (Err(why), _) => failures += &format!("{call}: {why}\n"),
            (_, None) => {
                failures += &format!("no row for `{method}`: `TVMR_BLESS=1` writes it (see CONTRIBUTING.md)\n")
            }
            (Ok(deaths), _) if ONLY_SOMETIMES.contains(&method) => assert_eq!(deaths.count, 0, "{call}"),
            (Ok(Deaths { count, given }), Some(stated)) => {
                if (count > 0) == (stated == "–") {
                    failures += &format!("{call}: {count} handles died, the table says `{stated}`\n");
                }
                for error in given.iter().filter(|e| !e.contains(&format!("`{method}` consumed it"))) {
                    failures +=
                        &format!("{call}: a handle that it was given is dead, but `Schedule::dead` says: {error}\n");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_primitive_has_a_case() {
    for kind in primitive::ALL {
        let call = format!("sch.{}(", kind.method);
        assert!(CASES.iter().any(|c| c.2.starts_with(&call)), "no case for `{}`", kind.method);
    }
}

/// The effect of the last instruction on handles.
struct Deaths {
    /// Number of handles that are valid before it and invalid after it.
    count: usize,
    /// The error of using each of them that it was given.
    given: Vec<String>,
}

fn deaths(program: &str, before: &str, call: &str) -> Result<Deaths, String> {
    let module = parse(program, "program.tir", &ParseOptions::default()).map_err(|e| e.to_string())?.module;
    let mut text = String::from("def f(sch):\n");
    for block in ["B", "C", "D"].iter().filter(|b| program.contains(&format!("block(\"{b}\")"))) {
        let name = block.to_lowercase();
        text += &format!("    {name} = sch.get_block('{block}')\n    {name}_loops = sch.get_loops({name})\n");
    }
    for line in [before, call].into_iter().filter(|l| !l.is_empty()) {
        text += &format!("    {line}\n");
    }
    let function = ScheduleFunction::parse(&text, "f.py").map_err(|e| e.to_string())?;
    let mut done = Schedule::new(&module, 0);
    function.apply(&mut done).map_err(|e| e.to_string())?;
    let insts = &done.trace().insts;
    let n = insts.last().map_or(0, |last| done.n_rvs() - last.outputs.len());
    let handles = (0..n).map(|i| Rv(i as u32)).collect::<Vec<_>>();
    let mut schedule = Schedule::new(&module, 0);
    let mut replay = tvmr::schedule::trace::Replay::default();
    for inst in &insts[..insts.len() - 1] {
        replay.step(&mut schedule, inst, inst.decision.clone()).map_err(|e| e.to_string())?;
    }
    let died = |rv: &Rv| is_alive(&schedule, *rv) && !is_alive(&done, *rv);
    let dead: Vec<Rv> = handles.into_iter().filter(died).collect();
    let mut arguments = Vec::new();
    if let Some(last) = insts.last() {
        last.args.iter().for_each(|a| a.for_each_rv(&mut |rv| arguments.push(rv)));
    }
    let use_of = |&rv: &Rv| match done.clone().get_child_blocks(rv) {
        Ok(_) => "no error".to_string(),
        Err(e) => e.to_string(),
    };
    let given = dead.iter().filter(|rv| arguments.contains(rv)).map(use_of).collect();
    Ok(Deaths { count: dead.len(), given })
}

fn is_alive(schedule: &Schedule, rv: Rv) -> bool {
    match schedule.value(rv) {
        Ok(RvValue::Block(f, b)) => schedule.func(f).is_alive(b.stmt()),
        Ok(RvValue::Loop(f, l)) => schedule.func(f).is_alive(l.stmt()),
        _ => true,
    }
}
