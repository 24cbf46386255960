mod expressions;
mod fuzz;
mod mistakes;
mod show;
mod statements;

use super::*;

/// The codes of the syntax errors of a text.
fn check(text: &str) -> Vec<&'static str> {
    parse_module(text).err().unwrap_or_default().iter().map(|d| d.code).collect()
}

#[test]
fn spans_point_into_the_text() {
    let text = "x = f(a, key=b[1:2])\n";
    let module = parse_module(text).expect("valid Python");
    let StmtKind::Assign(targets, value) = &module[0].kind else { panic!("{module:?}") };
    assert_eq!(&text[targets[0].span.range()], "x");
    let ExprKind::Call(call) = &value.kind else { panic!("{value:?}") };
    assert_eq!(&text[call.args_span.range()], "(a, key=b[1:2])");
    assert_eq!(&text[call.keywords[0].1.span.range()], "b[1:2]");
}

#[test]
fn an_expression_inside_a_text_keeps_its_place() {
    let text = "T.Buffer((\"n * 2\",))";
    let e = parse_expression(text, Span::new(11, 16)).expect("valid Python");
    assert_eq!(&text[e.span.range()], "n * 2");
    assert!(parse_expression("\"n +\"", Span::new(1, 4)).is_err());
}

#[test]
fn deep_nesting_is_refused_not_suffered() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("f(", ")"), ("lambda: ", ""), ("x if y else ", "")]
    {
        let text = |n: usize| format!("a = {}x{}\n", open.repeat(n), close.repeat(n));
        assert_eq!(check(&text(100)), Vec::<&str>::new(), "{open}");
        assert_eq!(check(&text(100_000)), ["nesting"], "{open}");
    }
    for (first, repeated) in [("x", " + x"), ("x", ".y"), ("x", "()"), ("x", "[0]"), ("x", " and x"), ("x", " ** x")] {
        let text = |n: usize| format!("a = {first}{}\n", repeated.repeat(n));
        assert_eq!(check(&text(150)), Vec::<&str>::new(), "{repeated}");
        assert_eq!(check(&text(100_000)), ["nesting"], "{repeated}");
    }
    let nest = |n: usize| (0..n).map(|i| format!("{}if x:\n", " ".repeat(i))).collect::<String>();
    assert_eq!(check(&(nest(90) + &" ".repeat(90) + "pass\n")), Vec::<&str>::new());
    assert_eq!(check(&nest(10_000)), ["nesting"]);
}

#[test]
fn long_but_flat_texts_are_read() {
    let list = format!("a = [{}]\n", "x + f(1), ".repeat(10_000));
    assert_eq!(check(&list), Vec::<&str>::new());
    let lines = "a = x.y(1)[2] + 3 # (((\n".repeat(1_000);
    assert_eq!(check(&lines), Vec::<&str>::new());
    assert_eq!(check(&format!("a = '{}'\n", "(".repeat(10_000))), Vec::<&str>::new());
}

#[test]
fn errors_have_codes() {
    assert_eq!(check("a = \n"), ["syntax"]);
    assert_eq!(check("a = 1\n  b = 2\n"), ["indentation"]);
    assert_eq!(check("a = \0\n"), ["syntax"]);
    assert_eq!(check("a = )\nb = ]\n"), ["syntax", "syntax"]);
}
