//! What is asked of functions, on functions given as text.

use tvmr::ir::Func;
use tvmr::script::{ParseOptions, parse};

/// The first function of a text.
fn func(text: &str) -> Func {
    let parsed = parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    parsed.module.funcs[0].clone()
}

mod preparation {
    use super::func;
    use tvmr::ir::Func;
    use tvmr::ir::preparation::separate;
    use tvmr::ir::verify::{Checks, verify};

    /// `Y = P * X`, where `P` is `copy`, annotated with `mark`; parameter 1 is constant.
    fn program(mark: &str, copy: &str, more: &str) -> Func {
        func(&format!(
            "@T.prim_func
def main(X: T.Buffer((8,), \"float32\"), W: T.Buffer((8,), \"float32\"), Y: T.Buffer((8,), \"float32\")):
    T.func_attr({{\"layout_free_buffers\": [1]}})
    P = T.alloc_buffer((8,), \"float32\")
    for i in range(8):
        with T.block(\"P\"):
            v = T.axis.spatial(8, i)
            T.block_attr({{\"meta_schedule.layout_rewrite_preproc\": {mark}}})
            P[v] = {copy}
    for i in range(8):
        with T.block(\"Y\"):
            v = T.axis.spatial(8, i)
            Y[v] = P[v] * X[v]
{more}"
        ))
    }

    #[test]
    fn a_marked_copy_of_a_constant_parameter_is_taken_out() {
        for mark in ["True", "1"] {
            let func = program(mark, "W[7 - v]", "");
            let parts = separate(&func).expect("a preparation");
            assert_eq!(parts.n_prepared, 1);
            for part in [&parts.preparation, &parts.call] {
                assert_eq!(verify(part, Checks::ALL), []);
                assert_eq!(part.params.len(), 4);
                assert!(part.block(part.root).allocs.is_empty());
            }
            let blocks = |f: &Func| f.blocks().iter().map(|&b| f.block(b).name.to_string()).collect::<Vec<_>>();
            assert_eq!(blocks(&parts.preparation), ["P", "root"]);
            assert_eq!(blocks(&parts.call), ["Y", "root"]);
        }
    }

    #[test]
    fn what_may_change_between_calls_is_no_preparation() {
        // The annotation is missing or false.
        assert!(separate(&program("False", "W[v]", "")).is_none());
        assert!(separate(&program("0", "W[v]", "")).is_none());
        // The nest reads a parameter that is not constant.
        assert!(separate(&program("1", "W[v] + X[v]", "")).is_none());
        // The constant parameter is written.
        let store = |buffer: &str| {
            format!(
                "    for i in range(8):
        with T.block(\"more\"):
            v = T.axis.spatial(8, i)
            {buffer}[v] = X[v]
"
            )
        };
        assert!(separate(&program("1", "W[v]", &store("W"))).is_none());
        // Another statement writes the copy, too.
        assert!(separate(&program("1", "W[v]", &store("P"))).is_none());
    }
}

mod outline {
    use tvmr::ir::{Func, StmtId};

    fn func() -> Func {
        let text = r#"
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    X = T.alloc_buffer((8, 8))
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(8):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j)
                    X[vi, vj] = A[vi, vj]
            for j in range(8):
                with T.block("again"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = X[vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("last"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = X[vi, vj] + B[vi, vj]
"#;
        super::func(text)
    }

    fn names(func: &Func) -> Vec<&str> {
        func.outline().blocks().iter().map(|&b| func.block(b).name.as_str()).collect()
    }

    #[test]
    fn blocks_are_found_by_name_scope_and_buffer() {
        let func = func();
        assert_eq!(names(&func), ["inner", "again", "outer", "last", "root"]);
        let outline = func.outline();
        let [outer] = outline.named(&func, "outer".into())[..] else { panic!("one block has the name") };
        assert!(outline.named(&func, "none".into()).is_empty());
        let inside = outline.scope(outer).expect("it holds others");
        let x = func.arena.buffer_ids().find(|&b| func.arena.buffer(b).name == "X").expect("a buffer");
        assert_eq!((inside.writers(x).collect::<Vec<_>>(), inside.readers(x).collect::<Vec<_>>()), (vec![0], vec![1]));
        assert_eq!(outline.scope(func.root).map(|s| s.blocks.len()), Some(2));
    }

    #[test]
    fn what_changes_statements_changes_the_outline() {
        let mut func = func();
        let before = func.outline();
        assert!(std::sync::Arc::ptr_eq(&before, &func.outline()), "it is kept");
        let [outer] = before.named(&func, "outer".into())[..] else { panic!("one block has the name") };
        func.block_mut(outer).name = "other".into();
        assert_eq!(names(&func), ["inner", "again", "other", "last", "root"]);
        let nest: StmtId = func.parent(outer.stmt()).expect("a loop");
        let copy = func.clone();
        func.cut(nest);
        assert_eq!(names(&func), ["last", "root"]);
        assert_eq!(names(&copy), ["inner", "again", "other", "last", "root"]);
    }
}

mod callable {
    use tvmr::ir::Module;
    use tvmr::script::{Dialect, print_module};

    const PROGRAM: &str = r#"@T.prim_func
def f(alpha: T.float32, A: T.Buffer((8,), "float32"), n: T.int32, off: T.int32, unused: T.bool, C: T.Buffer((8,), "float32")):
    for i in range(n):
        with T.block("C"):
            v = T.axis.spatial(n, i)
            T.where(i + off < 8)
            T.reads(A[v + off])
            T.writes(C[v])
            C[v] = A[v + off] * alpha
"#;

    #[test]
    fn scalars_become_buffers_and_sizes_stay() {
        let func = super::func(PROGRAM);
        let names: Vec<&str> = func.scalars().iter().map(|&v| func.arena.var(v).name.as_str()).collect();
        assert_eq!(names, ["alpha", "off", "unused"]);
        let callable = func.callable().into_owned();
        let is_buffer: Vec<bool> = callable.params.iter().map(|p| p.buffer.is_some()).collect();
        assert_eq!(is_buffer, [true, true, false, true, true, true]);
        let module = Module { funcs: vec![callable], ..Default::default() };
        let text = print_module(&module, Dialect::Classic);
        for part in ["T.where(i + off[()] < 8)", "T.reads(A[v + off[()]], alpha[()], off[()])", "* alpha[()]"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
