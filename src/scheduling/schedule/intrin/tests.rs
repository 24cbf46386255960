use super::*;

const PAIR: &str = r#"
@T.prim_func
def twice_desc(a: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("twice"):
            vi = T.axis.spatial(4, i)
            c[vi] = a[vi] * T.float32(2)

@T.prim_func
def twice_impl(a: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")):
    for i in T.vectorized(4):
        with T.block("twice"):
            vi = T.axis.spatial(4, i)
            c[vi] = a[vi] + a[vi]
"#;

/// The mistakes of a text, as `line:column code: message`.
fn mistakes(text: &str) -> Vec<String> {
    let errors = match Intrinsics::built_in().as_ref().clone().register_text(text, "t.tir") {
        Ok(()) => return Vec::new(),
        Err(errors) => errors,
    };
    let show = |d: &crate::diagnostic::Diagnostic| {
        let (line, column) = errors.source().line_column(d.labels[0].span.start as usize);
        assert!(d.help.is_some() || d.code == "intrin-run", "{errors}");
        format!("{line}:{column} {}: {}", d.code, d.message)
    };
    errors.items.iter().map(show).collect()
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    assert_ne!(text, PAIR);
    assert_eq!(mistakes(text), expected);
}

#[test]
fn a_pair_is_an_intrinsic() {
    let mut table = Intrinsics::default();
    table.register_text(PAIR, "t.tir").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(table.names().map(|n| n.as_str().to_string()).collect::<Vec<_>>(), ["twice"]);
    assert_eq!(table.near("twise".into()), Some("twice".into()));
    assert!(table.register_text(PAIR, "t.tir").is_err(), "a name is taken once");
}

#[test]
fn names_of_tvm_are_built_in() {
    let table = Intrinsics::built_in();
    for name in [
        "dot_16x4_vnni",
        "dot_16x4_avx512",
        "dot_4x4_i8i8s32_neon",
        "dot_4x4_i8i8s32_sdot",
        "dot_4x4_u8u8u32_udot",
        "dot_4x4_u8u8i32_hdot",
    ] {
        assert!(table.get(name.into()).is_some(), "{name}");
    }
}

#[test]
fn the_guide_lists_all_that_are_built_in() {
    let guide = include_str!("../../../../docs/adding-an-intrinsic.md");
    for name in Intrinsics::built_in().names() {
        assert!(guide.contains(&format!("`{name}`")), "docs/adding-an-intrinsic.md does not list `{name}`");
    }
}

#[test]
fn halves_and_odd_names_are_refused() {
    let (alone, _) = PAIR.split_once("@T.prim_func\ndef twice_impl").expect("two functions");
    refused(alone, &["3:5 intrin-half: intrinsic `twice` has no implementation"]);
    refused(
        &PAIR.replace("twice_impl", "twise_impl"),
        &[
            "3:5 intrin-half: intrinsic `twice` has no implementation",
            "10:5 intrin-half: intrinsic `twise` has no description",
        ],
    );
    refused(
        &format!("{PAIR}\n@T.prim_func\ndef helper(a: T.Buffer((1,), \"int8\")):\n    a[0] = T.int8(0)\n"),
        &["17:5 intrin-name: function `helper` is neither a description nor an implementation"],
    );
    refused(&PAIR.replace("twice_", "fma_8_f32_"), &["3:5 intrin-twice: there is an intrinsic `fma_8_f32` already"]);
}

#[test]
fn parameters_must_match() {
    let at_impl = |from: &str, to: &str| {
        let (desc, code) = PAIR.split_once("@T.prim_func\ndef twice_impl").expect("two functions");
        format!("{desc}@T.prim_func\ndef twice_impl{}", code.replacen(from, to, 1))
    };
    refused(
        &at_impl("a: T.Buffer((4,), \"float32\")", "a: T.Buffer((8,), \"float32\")"),
        &[
            "10:16 intrin-parameters: parameter 0 of `twice` is `float32` of shape [8], but `float32` of shape [4] in the \
           description",
        ],
    );
    refused(
        &at_impl("a: T.Buffer", "b: T.Buffer((1,), \"int8\"), a: T.Buffer"),
        &["10:5 intrin-parameters: the implementation of `twice` takes 3 parameters, its description 2"],
    );
    refused(
        &PAIR.replace("a: T.Buffer((4,), \"float32\")", "n: T.int32, a: T.Buffer((4,), \"float32\")"),
        &["3:16 intrin-parameters: parameter 0 of `twice_desc` is not a buffer"],
    );
}

#[test]
fn buffers_are_small() {
    refused(
        &PAIR.replace("a: T.Buffer((4,)", "a: T.Buffer((4000000000,)"),
        &["3:16 intrin-parameters: parameter 0 of `twice_desc` has more than 1048576 elements"],
    );
    let code = "    for i in T.vectorized(4)";
    refused(
        &PAIR.replace(
            code,
            &format!("    s = T.alloc_buffer((1 << 40,), \"float32\")\n{code}").replace("1 << 40", "1099511627776"),
        ),
        &["11:5 intrin-parameters: the buffer `s` has more than 1048576 elements"],
    );
}

#[test]
fn a_description_is_one_nest() {
    let desc = |from: &str, to: &str| PAIR.replacen(from, to, 1);
    refused(
        &desc(
            "            c[vi] = a[vi] * T.float32(2)\n",
            "            c[vi] = a[vi] * T.float32(2)\n    c[0] = a[0]\n",
        ),
        &["8:5 intrin-description: the description is more than one nest"],
    );
    refused(
        &desc("for i in range(4)", "for i in T.parallel(4)"),
        &["4:9 intrin-description: the description has a loop that is not serial"],
    );
    refused(
        &desc(
            "            c[vi] = a[vi]",
            "            with T.init():\n                c[vi] = T.float32(0)\n            c[vi] = a[vi]",
        ),
        &["5:22 intrin-description: the description has a block with an init"],
    );
    refused(
        &desc("c[vi] = a[vi] * T.float32(2)", "c[vi] = T.float32(2)"),
        &["3:16 intrin-description: the description of `twice` does not use parameter 0"],
    );
}

#[test]
fn another_result_is_refused() {
    let found = mistakes(&PAIR.replace("a[vi] + a[vi]", "a[vi]"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("10:5 intrin-results: the implementation of `twice` computes something else"),
        "{found:?}"
    );
}
