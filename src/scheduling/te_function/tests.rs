//! Tests of what texts define, and of what is refused.

use super::*;
use crate::script::{Dialect, print_func};

/// The definitions of `tests/te`, which benches/peers/te_definitions.py compares with TVM.
const FILES: [(&str, &str); 2] = [
    ("basics.py", include_str!("../../../tests/te/basics.py")),
    ("operators.py", include_str!("../../../tests/te/operators.py")),
];

fn defined(text: &str, args: Option<&str>) -> Result<Definition, Diagnostics> {
    define(text, "test.py", WorkloadChoice { func: None, args })
}

/// The program of a function whose body this is; it has an `A` of 4 x 6 elements.
fn body(lines: &str) -> Result<String, Diagnostics> {
    let lines: String = lines.lines().map(|l| format!("    {l}\n")).collect();
    let text =
        format!("import tvm\nfrom tvm import te, topi\ndef f():\n    A = te.placeholder((4, 6), name=\"A\")\n{lines}");
    defined(&text, None).map(|d| print_func(&d.func, Dialect::Current))
}

/// The element of `B`, which is defined by this formula of `i` and `j`.
fn element(formula: &str) -> String {
    let text = body(&format!("B = te.compute((4, 6), lambda i, j: {formula}, name=\"B\")\nreturn [A, B]"))
        .unwrap_or_else(|d| panic!("{}", d.render(false)));
    text.lines().find_map(|l| l.trim().strip_prefix("B[v_i, v_j] = ")).unwrap_or_default().to_owned()
}

#[test]
fn every_definition_of_the_comparison_is_one() {
    let mut n = 0;
    for (file, text) in FILES {
        assert!(is_te_text(text), "{file}");
        let names = text.lines().filter_map(|l| l.strip_prefix("def ")?.split('(').next());
        for name in names {
            let wanted = WorkloadChoice { func: Some(name), args: None };
            let definition = define(text, file, wanted).unwrap_or_else(|d| panic!("{}", d.render(false)));
            assert!(definition.warnings.is_empty(), "{name}");
            let printed = print_func(&definition.func, Dialect::Current);
            let read = crate::script::parse(&printed, file, &crate::script::ParseOptions::default());
            assert!(read.is_ok(), "{name}: {printed}");
            n += 1;
        }
    }
    assert!(n >= 60, "{n} definitions");
}

#[test]
fn scalars_have_tvm_s_types_and_forms() {
    for (formula, expected) in [
        ("A[i, j] + 1", "A[v_i, v_j] + T.float32(1.0)"),
        ("-A[i, j] * 2", "A[v_i, v_j] * T.float32(-1.0) * T.float32(2.0)"),
        ("A[i, j].astype(\"float64\") + 0.5", "T.Cast(\"float64\", A[v_i, v_j]) + T.float64(0.5)"),
        ("i // 2 + j % 3", "v_i // 2 + v_j % 3"),
        (
            "te.if_then_else(te.all(i > 0, j < 5), A[i - 1, j], 0.0)",
            "T.if_then_else(0 < v_i and v_j < 5, A[v_i - 1, v_j], T.float32(0.0))",
        ),
        (
            "tvm.tir.Select(i == j, A[i, j], tvm.tir.const(1, \"float32\"))",
            "T.Select(v_i == v_j, A[v_i, v_j], T.float32(1.0))",
        ),
        (
            "te.max(te.exp(A[i, j]), te.power(A[i, 0], 2))",
            "T.max(T.exp(A[v_i, v_j]), T.pow(A[v_i, 0], T.float32(2.0)))",
        ),
        ("A(i, j) * A[i][j]", "A[v_i, v_j] * A[v_i, v_j]"),
        ("sum([A[i, x] for x in range(3)])", "T.float32(0.0) + A[v_i, 0] + A[v_i, 1] + A[v_i, 2]"),
    ] {
        let found = element(formula);
        // The simplifier, which has tests of its own, decides about neutral elements.
        let expected = expected.replace("T.float32(0.0) + A", "A");
        assert_eq!(found, expected, "{formula}");
    }
}

#[test]
fn modules_may_have_any_name() {
    for import in [
        "import tvm\nfrom tvm import te",
        "import tvm.te as te",
        "from tvm import te as te, auto_scheduler",
        "from tvm.te import placeholder, compute\nfrom tvm import te",
        "import tvm.te",
    ] {
        for (placeholder, compute) in
            [("te.placeholder", "te.compute"), ("placeholder", "compute"), ("tvm.te.placeholder", "tvm.te.compute")]
        {
            if placeholder == "placeholder" && !import.contains("placeholder") {
                continue;
            }
            let text = format!(
                "{import}\nN = 8\ntask = unknown.thing(N)\ndef helper(n):\n    return {placeholder}((n,), name='A')\ndef f(n=N):\n    A = helper(n)\n    B = {compute}((n,), lambda *i: A(*i) * 2, name='B')\n    return A, B\n"
            );
            let definition = defined(&text, None).unwrap_or_else(|d| panic!("{}", d.render(false)));
            assert_eq!(definition.func.name, "f");
        }
    }
}

#[test]
fn a_misspelt_attribute_is_taken_as_meant() {
    let text = "from tvm import te\ndef f():\n    A = te.placeholder((4,), name='A')\n    B = te.compute((4,), lambda i: A[i] + 1, name='B', attrs={'layout_free_placeholers': [A]})\n    return [A, B]\n";
    let definition = defined(text, None).unwrap_or_else(|d| panic!("{}", d.render(false)));
    let free = vec![AttrValue::Int(0)];
    assert_eq!(definition.func.attrs.get("layout_free_buffers"), Some(&AttrValue::List(free)));
    assert_eq!(definition.warnings.len(), 1);
    assert_eq!(definition.warnings[0].help.as_deref(), Some("write `layout_free_placeholders`"));
}

#[test]
fn arguments_are_those_of_the_signature() {
    let text = "from tvm import te\ndef f(n, dtype='float32'):\n    A = te.placeholder((n,), name='A', dtype=dtype)\n    return [A, te.compute((n,), lambda i: A[i], name='B')]\n";
    for (args, expected) in [(Some("8"), "(8,), \"float32\""), (Some("4, float16"), "(4,), \"float16\"")] {
        let definition = defined(text, args).unwrap_or_else(|d| panic!("{}", d.render(false)));
        assert!(print_func(&definition.func, Dialect::Current).contains(expected));
    }
    for (args, message, help) in [
        (None, "`f(n, dtype=…)` needs arguments", "`--args 1024`"),
        (Some("1,2,3"), "`f(n, dtype=…)` takes 1 to 2 arguments, and `--args` gives 3", "`--args 1024`"),
        (Some("8,float31"), "`float31` is no data type of elements", "did you mean `float"),
        (Some("x"), "expected a scalar expression, found a text", ""),
    ] {
        let Err(d) = defined(text, args) else { panic!("{args:?} is accepted") };
        assert_eq!(d.items[0].message, message);
        assert!(d.items[0].help.as_deref().unwrap_or_default().contains(help), "{:?}", d.items[0].help);
    }
}

#[test]
fn one_of_several_workloads_is_chosen() {
    let text = "from tvm import te\ndef one():\n    A = te.placeholder((4,), name='A')\n    return [A, te.compute((4,), lambda i: A[i])]\ndef two():\n    return unknown()\n";
    let Err(d) = defined(text, None) else { panic!("it chooses") };
    assert_eq!(d.items[0].message, "the text defines 2 workloads: `one`, `two`");
    let named = |func| define(text, "t.py", WorkloadChoice { func: Some(func), args: None });
    // A mistake in a function that is not called does not matter.
    assert!(named("one").is_ok());
    let Err(d) = named("on") else { panic!("there is no such function") };
    assert_eq!(d.items[0].help.as_deref(), Some("did you mean `one`?"));
    let decorated = text.replace("def one", "@auto_scheduler.register_workload\ndef one");
    assert!(defined(&decorated, None).is_ok());
}

#[test]
fn mistakes_are_refused_with_a_mend() {
    for (lines, message, help) in [
        ("return te.expp(A)", "`te.expp` is not known here", "did you mean `te.exp`?"),
        ("return topi.nn.reluu(A)", "`topi.nn.reluu` is not known here", "did you mean `topi.nn.relu`?"),
        ("return te.extern((4,), [A], 1)", "`te.extern` calls code", ""),
        ("return te.decl_tensor_intrin(A.op, A)", "`te.decl_tensor_intrin` stands for code", ""),
        (
            "return [A, te.compute((4, 6), lambda i, j: A[i] + 1)]",
            "found a tensor with too few indices",
            "has 2 dimensions",
        ),
        (
            "return [A, te.compute((4,), lambda i: A + 1)]",
            "expected a scalar expression, found a tensor",
            "T_add[…, …]",
        ),
        ("return [A, te.compute((4,), lambda i: A[i, 0, 0])]", "`A` has 2 dimensions, found 3 indices", ""),
        (
            "return [A, te.compute((4, 6), lambda i, j: A[i, j] if i < 2 else 0.0)]",
            "the condition is not known",
            "if_then_else",
        ),
        (
            "return [A, te.compute((4,), lambda i, j: A[i, j])]",
            "the function has 2 parameters, and the shape 1 dimension",
            "",
        ),
        (
            "k = te.reduce_axis((0, 6))\nreturn [A, te.compute((4,), lambda i: te.sum(A[i, k], axis=k) * 2)]",
            "found a reduction",
            "a reduction is the whole value",
        ),
        (
            "return [A, te.compute((4, 6), lambda i, j: A[i, j], nam='B')]",
            "`te.compute` has no parameter `nam`",
            "did you mean `name`?",
        ),
        ("return [A, te.compute((4, 6))]", "`te.compute` lacks the argument `fcompute`", "te.compute(shape, fcompute"),
        ("return [A, te.compute((4, 6), lambda i, j: te.log(i))]", "`log` takes floats, found `int32`", "astype"),
        ("return [A, topi.add(A, te.placeholder((3,), name='C'))]", "the shapes [4, 6] and [3] do not fit", ""),
        ("return [A, topi.nn.matmul(A, A)]", "`topi.nn.matmul`: the extents over which is summed differ: 6 and 4", ""),
        (
            "n = te.var('n')\nreturn [A, te.compute((4,), lambda i: A[i, 0] + n)]",
            "`n` has no value",
            "return [A, n, B]",
        ),
        ("return [A, topi.nn.pad(A, (9223372036854775807, 0))]", "expected widths from 0", ""),
        ("return [topi.exp(A)]", "does not return the placeholder `A`", "return all inputs"),
        ("return topi.exp(A)", "expected `f` to return a list of its tensors, found a tensor", "return [A, B, C]"),
        ("return [A, A]", "returns a tensor twice", ""),
        ("return [A]", "returns no tensor that is computed", ""),
        ("return [A, te.placeholder((-1,))]", "an extent cannot be negative", ""),
        ("A.shap", "a tensor has no attribute `shap`", "did you mean `shape`?"),
        (
            "return [A, te.compute((4, 6), lambda i, j: A[i, j] // 2)]",
            "`//` takes integers, found `float32`",
            "te.floor",
        ),
        ("return [A, te.compute((4, 6), lambda i, j: i % 0)]", "is not defined", "divides by zero"),
    ] {
        let Err(d) = body(lines) else { panic!("`{lines}` is accepted") };
        let item = &d.items[0];
        assert!(item.message.contains(message), "{lines}: {}", item.message);
        assert!(item.help.as_deref().unwrap_or_default().contains(help), "{lines}: {:?}", item.help);
    }
}

#[test]
fn large_definitions_end() {
    for (lines, what) in [
        ("x = A[0, 0]\nfor _ in range(100):\n    x = x + x", "too large"),
        ("x = A[0, 0]\nfor _ in range(10000):\n    x = x + 1", "too large"),
        ("x = A\nfor _ in range(10000):\n    x = te.compute((4, 6), lambda i, j: x[i, j])", "tensors"),
        ("for i in range(10 ** 12):\n    pass", "steps"),
        ("(lambda g: g(g))(lambda g: g(g))", "levels deep"),
        ("f = lambda x: x\nfor _ in range(100):\n    f = (lambda g: lambda x: g(x))(f)", "nested too deep"),
        ("te.placeholder([1] * 100)", "at most"),
        ("topi.concatenate([A] * 1000)", "too long"),
    ] {
        let Err(d) = body(lines) else { panic!("`{lines}` ends well") };
        assert!(d.items[0].message.contains(what), "{lines}: {}", d.items[0].message);
    }
}

#[test]
fn scripts_are_no_definitions() {
    assert!(!is_te_text("from tvm.script import tirx as T\nte = 1\n@T.prim_func\ndef f(): pass"));
    assert!(!is_te_text("te = 1\n@I.ir_module\nclass M:\n    pass\ndef g(): pass"));
    assert!(!is_te_text("def schedule(sch):\n    sch.get_block('C')"));
    assert!(is_te_text("from tvm import topi\ndef f(): pass"));
}
