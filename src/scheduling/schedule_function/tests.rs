//! Tests of the values of schedule functions, which show in the trace. Refusals are filetests.

use super::*;
use crate::script::{self, Dialect, ParseOptions};

const MATMUL: &str = r#"
@T.prim_func
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for i, j, k in T.grid(64, 64, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"#;

fn schedule() -> Schedule {
    let parsed = script::parse(MATMUL, "matmul.tir", &ParseOptions::default()).expect("the program is right");
    Schedule::new(&parsed.module, 0)
}

/// Runs a text and returns the statements of its trace.
fn trace(text: &str) -> Vec<String> {
    let function = ScheduleFunction::parse(text, "test.py").unwrap_or_else(|d| panic!("{d}"));
    let mut schedule = schedule();
    function
        .apply(&mut schedule)
        .unwrap_or_else(|e| panic!("{}", function.render_error(&e, &schedule, Dialect::Classic, false)));
    let statements = schedule.trace().python_statements(Dialect::Classic);
    // The printed trace is itself a schedule function with the same trace.
    let again = ScheduleFunction::parse(&schedule.trace().to_python(Dialect::Classic), "trace.py");
    let mut second = self::schedule();
    again.unwrap_or_else(|d| panic!("{d}")).apply(&mut second).expect("the trace replays");
    assert_eq!(second.trace(), schedule.trace());
    statements
}

/// The values that a body annotates through `show(value)`, as the trace writes them.
fn values(body: &str) -> Vec<String> {
    let body: String = body.lines().map(|l| format!("    {l}\n")).collect();
    let text = format!(
        "def show(sch, b, v):\n    sch.annotate(b, 'x', v)\ndef schedule(sch):\n    b = sch.get_block('C')\n{body}"
    );
    let shown = trace(&text).into_iter().filter(|s| s.contains("annotate"));
    shown.map(|s| s.split("ann_val=").nth(1).unwrap_or_default().trim_end_matches(')').to_string()).collect()
}

fn value(expression: &str) -> String {
    let all = values(&format!("show(sch, b, {expression})"));
    assert_eq!(all.len(), 1);
    all.into_iter().next().unwrap_or_default()
}

#[test]
fn expressions_have_python_s_values() {
    for (expression, expected) in [
        ("7 // 2 - 7 % 3 * 2", "1"),
        ("-7 // 2", "-4"),
        ("-7 % 4", "1"),
        ("2 ** 10 + (1 << 4)", "1040"),
        ("7 / 2", "3.5"),
        ("1.5 + 1", "2.5"),
        ("-0.5", "-0.5"),
        ("[1, 2, 3][-1]", "3"),
        ("[1, 2, 3, 4][1:3]", "[2, 3]"),
        ("[1, 2, 3, 4][::-2]", "[4, 2]"),
        ("list(range(10))[8:2:-3]", "[8, 5]"),
        ("(1, 2) + (3,)", "[1, 2, 3]"),
        ("[0] * 3", "[0, 0, 0]"),
        ("[*range(2), *[5]]", "[0, 1, 5]"),
        ("len([1, 2]) + len('abc')", "5"),
        ("[i * j for i in range(3) for j in range(2) if i != j]", "[0, 0, 0, 2]"),
        ("[a + b for a, b in zip([1, 2], (3, 4))]", "[4, 6]"),
        ("[i * v for i, v in enumerate([5, 6], 1)]", "[5, 12]"),
        ("list(reversed([1, 2, 3]))", "[3, 2, 1]"),
        ("sorted([3, 1, 2], reverse=True)", "[3, 2, 1]"),
        ("[min(3, 1), max([1, 5]), sum([1, 2]), abs(-4), int(3.7), int('12')]", "[1, 5, 3, 4, 3, 12]"),
        ("f'{1 + 1}-{\"a\"}' + 'b'", "\"2-ab\""),
        ("1 if 2 > 1 else 0", "1"),
        ("1 < 2 <= 2 and not False", "True"),
        ("None or 3", "3"),
        ("0 and 3", "0"),
        ("3 in [1, 3] and 'a' not in 'xyz'", "True"),
        ("{'a': 1, 'b': [2]}", "{\"a\": 1, \"b\": [2]}"),
        ("{'a': 1, 'b': 2}['b']", "2"),
        ("any(x > 1 for x in [1, 2]) == all([])", "True"),
        ("T.int64(3)", "T.int64(3"),
        ("sch.get(sch.get_loops(b)[2]).extent", "32"),
        ("sch.get(b).name_hint", "\"C\""),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn statements_run_as_in_python() {
    assert_eq!(
        values(
            "for i in range(5):\n    if i == 1:\n        continue\n    if i == 3:\n        break\n    show(sch, b, i)"
        ),
        ["0", "2"]
    );
    assert_eq!(values("a, *b2, c = range(5)\nshow(sch, b, [a, b2, c])"), ["[0, [1, 2, 3], 4]"]);
    assert_eq!(values("x = y = 2\nx += 3\nshow(sch, b, x * y)"), ["10"]);
    assert_eq!(
        values("l = []\nfor i in range(3):\n    l.append(i)\nl[0] = 7\nl += [9]\nshow(sch, b, [l.pop(), *l])"),
        ["[9, 7, 1, 2]"]
    );
    assert_eq!(
        values("x: int = 1\nif x > 1:\n    pass\nelif x == 1:\n    show(sch, b, 'one')\nelse:\n    x = 4"),
        ["\"one\""]
    );
    assert_eq!(values("assert 1 < 2, 'never'\nshow(b=b, sch=sch, v=3)"), ["3"]);
}

#[test]
fn sampled_numbers_stay_symbolic_until_a_plain_one_is_needed() {
    let statements = trace(
        "def f(sch):
    b = sch.get_block('C')
    i, j, k = sch.get_loops(b)
    x, y = sch.sample_perfect_tile(i, 2, decision=[4, 16])
    sch.annotate(b, 'symbolic', [x, x * y - 1, (x + y) // 2, max(x, 2)])
    sch.annotate(b, 'plain', [int(x), sch.get(y)])
    if x == 4:
        sch.annotate(b, 'taken', f'{x}')
    for n in range(x // 2):
        sch.annotate(b, f'turn {n}', n)
",
    );
    assert_eq!(
        statements[2..],
        [
            "v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[4, 16])",
            "sch.annotate(block_or_loop=b0, ann_key=\"symbolic\", ann_val=[v4, v4 * v5 - 1, (v4 + v5) // 2, max(v4, 2)])",
            "sch.annotate(block_or_loop=b0, ann_key=\"plain\", ann_val=[4, 16])",
            "sch.annotate(block_or_loop=b0, ann_key=\"taken\", ann_val=\"4\")",
            "sch.annotate(block_or_loop=b0, ann_key=\"turn 0\", ann_val=0)",
            "sch.annotate(block_or_loop=b0, ann_key=\"turn 1\", ann_val=1)",
        ]
    );
}

#[test]
fn every_way_to_write_a_file_is_read() {
    let expected = ["b0 = sch.get_block(name=\"C\", func_name=\"main\")", "l1, l2, l3 = sch.get_loops(block=b0)"];
    for text in [
        "b = sch.get_block('C')\nl = sch.get_loops(b)\n",
        "b0 = sch.get_sblock(name=\"C\", func_name=\"main\")\nl1, l2, l3 = sch.get_loops(block=b0)",
        "# from tvm import tir\ndef apply_trace(sch: tir.Schedule) -> None:\n  l = sch.get_loops('C')",
        "from tvm import tir\nimport numpy as np\nNAME = 'C'\n\ndef helper(s, name=NAME):\n    \"\"\"doc\"\"\"\n    return s.get_loops(s.get_block(name))\n\ndef main(sch: tir.Schedule, depth=3) -> tir.Schedule:\n    helper(sch)\n    return sch\n\nif __name__ == '__main__':\n    main(None)\n",
        "def schedule(s):\n    t = s\n    t.work_on('main')\n    t.get_loops(block='C')\n    return [s]",
    ] {
        assert_eq!(trace(text), expected, "{text}");
    }
}

#[test]
fn one_of_several_functions_can_be_named() {
    let text = "def first(sch):\n    sch.get_block('C')\ndef second(sch):\n    pass\n";
    assert_eq!(ScheduleFunction::parse(text, "t.py").map(|f| f.name().to_string()).ok().as_deref(), Some("second"));
    let mut schedule = schedule();
    let first = ScheduleFunction::parse_named(text, "t.py", "first").unwrap_or_else(|d| panic!("{d}"));
    first.apply(&mut schedule).expect("it applies");
    assert_eq!(schedule.trace().insts.len(), 1);
    let wrong = ScheduleFunction::parse_named(text, "t.py", "frist").expect_err("no such function");
    assert_eq!(wrong.items[0].help.as_deref(), Some("did you mean `first`?"));
}

#[test]
fn endless_functions_end() {
    for (text, what) in [
        ("def f(sch):\n    for i in range(10 ** 12):\n        pass", "steps"),
        ("def f(sch):\n    for i in range(10 ** 6):\n        for j in range(10 ** 6):\n            pass", "steps"),
        ("def f(sch):\n    for i in range(10 ** 6):\n        sch.get_block('C')", "instructions"),
        ("def g(sch):\n    return g(sch)\ndef f(sch):\n    g(sch)", "levels deep"),
        ("def f(sch):\n    l = [0]\n    for i in range(60):\n        l = l + l", "steps"),
        ("def f(sch):\n    l = []\n    for i in range(10 ** 5):\n        l = [l]", "nested too deep"),
        ("def f(sch):\n    s = 'ab'\n    for i in range(60):\n        s = s + s", "longer than"),
        (
            "def f(sch):\n    v, w = sch.sample_perfect_tile(sch.get_loops('C')[0], 2)\n    for i in range(10 ** 5):\n        v = v + 1",
            "too deep",
        ),
        ("def f(sch):\n    x = 1\n    for i in range(100):\n        x = x * 10", "not defined"),
    ] {
        let function = ScheduleFunction::parse(text, "t.py").unwrap_or_else(|d| panic!("{d}"));
        let error = function.apply(&mut schedule()).expect_err("it must not end well");
        assert!(error.to_string().contains(what), "{error}\n{text}");
    }
}

#[test]
fn deep_texts_do_not_exhaust_the_stack() {
    let deep =
        |open: &str, middle: &str, close: &str, n: usize| format!("x = {}{middle}{}", open.repeat(n), close.repeat(n));
    for n in [90, 350, 5_000, 200_000] {
        for text in [
            deep("(", "1", ")", n),
            deep("-", "1", "", n),
            deep("[", "", "]", n),
            deep("abs(", "1", ")", n),
            deep("1 + (", "1", ")", n),
            deep("f'{", "1", "}'", n),
            deep("f'{'", "1", "'}'", n),
            deep("f'{(", "1", ")}'", 1).replace("((", &"(".repeat(n)),
            format!("x = f'{{{}1{}}}'", "(".repeat(n), ")".repeat(n)),
            format!("x = f'{{{}1}}'", "-".repeat(n)),
            deep("1 if 1 else ", "1", "", n),
            deep("lambda: ", "1", "", n),
            format!("x = 1{}", " + 1".repeat(n)),
            format!("x = sch{}", ".a".repeat(n)),
        ] {
            if let Ok(function) = ScheduleFunction::parse(&text, "deep.py") {
                let _ = function.apply(&mut schedule());
            }
            let _ = crate::schedule::Trace::from_python(&text, "deep.py");
        }
    }
}

#[test]
fn index_maps_with_an_inverse_are_those_of_their_function() {
    let of = |map: &str| {
        trace(&format!(
            "def f(sch):\n    b = sch.get_block('C')\n    sch.transform_layout(b, ('read', 0), {map})\n    \
             sch.annotate(b, 'meta_schedule.layout_rewrite_preproc', 1)"
        ))
    };
    let plain = of("lambda i, j: (j, i)");
    assert_eq!(of("tvm.tirx.IndexMap.from_func(lambda i, j: (j, i), inverse_index_map=lambda j, i: (i, j))"), plain);
    assert_eq!(of("tir.IndexMap.from_func(lambda i, j: (j, i), index_dtype='int64')"), plain);
    assert_eq!(of("IndexMap.from_func(lambda i, j: (T.Cast(\"int64\", j), T.Cast(\"int64\", i),))"), plain);
}
