//! Expressions and literals.

use super::super::*;
use super::show::{expression, show};

/// Compares expressions with how they are read.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(expression(text).as_deref(), Ok(*expected), "{text}");
    }
}

#[test]
fn operators_bind_by_their_precedence() {
    check(&[
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a * b // c % d / e @ f", "(((((a * b) // c) % d) / e) @ f)"),
        ("-a ** -b ** c", "(Neg (a ** (Neg (b ** c))))"),
        ("~+-a.b", "(Invert (Pos (Neg a.b)))"),
        ("a << b + c >> d", "((a << (b + c)) >> d)"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a or b and not c or d", "(Or a, (And b, (Not c)), d)"),
        ("(a or b) or c", "(Or (Or a, b), c)"),
        ("a < b <= c != d", "(a < b <= c != d)"),
        ("not a in b is not c not in d", "(Not (a in b is not c not in d))"),
        ("a == b | c", "(a == (b | c))"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("lambda x, *y: x if y else z", "(lambda x, *y: (x if y else z))"),
        ("lambda: (a, b)", "(lambda : (a, b,))"),
        ("await f(x) ** 2", "(<`await`> ** 2)"),
    ]);
}

#[test]
fn calls_subscripts_and_attributes_follow_an_operand() {
    check(&[
        ("a.b(c)[d].e", "a.b(c)[d].e"),
        ("f(a, *b, c=d, *e, **g, h=i,)", "f(a, *b, *e, c=d, **g, h=i)"),
        ("f(x for x in y)", "f(<x for x in y>)"),
        ("f((x for x in y), a)", "f(<x for x in y>, a)"),
        ("a[b]", "a[b]"),
        ("a[b,]", "a[(b,)]"),
        ("a[*b]", "a[(*b,)]"),
        ("a[b:c, ::d, :, e if f else g:]", "a[(b:c:, ::d, ::, (e if f else g)::,)]"),
        ("a[()]", "a[(,)]"),
    ]);
}

#[test]
fn brackets_hold_collections() {
    check(&[
        ("()", "(,)"),
        ("(a)", "a"),
        ("(a,)", "(a,)"),
        ("a, b", "(a, b,)"),
        ("[*a, b,]", "[*a, b]"),
        ("{}", "{}"),
        ("{a: b, **c}", "{a: b, **c}"),
        ("{a}", "<a set>"),
        ("{a for a in b}", "<a set>"),
        ("{a: b for a in c}", "<a dictionary comprehension>"),
        ("[a for a, *b in c if d if e for f in g]", "<a for (a, *b,) in c if d if e for f in g>"),
        ("[a async for a in b]", "<an `async` comprehension>"),
        ("(a := b, c)", "(<an assignment expression>, c,)"),
        ("(yield a)", "<`yield`>"),
        ("(yield from a)", "<`yield`>"),
        ("(\n  a # (\n  +\n\n  b)", "(a + b)"),
    ]);
}

#[test]
fn numbers_have_all_forms_of_python() {
    check(&[
        ("0xFf_0 + 0o17 + 0B1_0 + 1_000 + 00", "((((4080 + 15) + 2) + 1000) + 0)"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "big"),
        ("1. + .5 + 1e3 + 1_0.0_1E-1 + 09.5", "((((1.0 + 0.5) + 1000.0) + 1.001) + 9.5)"),
        ("1e999", "inf"),
        ("1j + 0.5J", "(<a complex number> + <a complex number>)"),
        ("1if 2else 3", "(1 if 2 else 3)"),
        ("1 .real", "1.real"),
    ]);
    for wrong in ["012", "0x", "0b2", "1__0", "1_", "0o8", "1.e_5", "1abc"] {
        assert!(expression(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn strings_have_escapes_and_prefixes() {
    check(&[
        (r#"'a"' "b'" '''c'd''' """e""f""""#, r#""a\"b'c'de\"\"f""#),
        (r"'\x41\u0042\U00000043\104\n\t\\\'\q'", r#""ABCD\n\t\\'\\q""#),
        ("'a\\\nb\\\r\nc'", r#""abc""#),
        (r"r'\x4\'' R'\n' u'a' U'b'", r#""\\x4\\'\\nab""#),
        ("'''a\nb'''", r#""a\nb""#),
        (r"b'\x00' Rb'\x' bR'a'", "<a bytes literal>"),
        (r"'\ud800'", "\"\u{fffd}\""),
    ]);
    for wrong in
        [r"'\x4'", r"'\u12'", r"'\U00110000'", "b'é'", "'a' b'b'", "'a", "'''a''", "'a\nb'", "br'a", "ub'a'", r"b'\x1'"]
    {
        assert!(expression(wrong).is_err(), "{wrong}");
    }
    let error = expression(r"'\N{BULLET}'").expect_err("names of characters need a table");
    assert_eq!(error, "names of characters are not supported: write the character, or `\\u` and its number");
}

#[test]
fn formatted_strings_have_texts_and_values() {
    check(&[
        ("f'a{b}c{{d}}{e.f(g)}'", r#"f("a", b, "c{d}", e.f(g))"#),
        ("f''", "f()"),
        ("'a' f'{b}' 'c'", r#"f("a", b, "c")"#),
        (r"f'\n{a}' rf'\n{b}'", r#"f("\n", a, "\\n", b)"#),
        (r#"f"{a["b"]}{'c'}{f"{d}"}""#, r#"f(a["b"], "c", f(d))"#),
        ("f'''{\na\n+ b # }\n}'''", "f((a + b))"),
        ("f'{ {1: 2}[1] }{(lambda x: x)(3)}'", "f({1: 2}[1], (lambda x: x)(3))"),
        ("f'{a, *b}'", "f((a, *b,))"),
        ("f'{a != b}{a == b}'", "f((a != b), (a == b))"),
        ("t'{a}'", "<a template string>"),
    ]);
    for specified in
        ["f'{a!r}'", "f'{a=}'", "f'{a:>{width}.{precision}}'", "f'{a:=5}'", "f'{a!s:^}'", "f'{a:%H:%M}' 'b'"]
    {
        check(&[(specified, "<a format specification>")]);
    }
    for wrong in [
        "f'{}'",
        "f'{a'",
        "f'a}'",
        "f'{a!x}'",
        "f'{a! r}'",
        "f'{a:{b}'",
        "f'{a +}'",
        "f'{(a}'",
        "f'{a)}'",
        "f'{a b}'",
        "f'",
        "f'{'",
        "f'{a:'",
        "t'a' 'b'",
    ] {
        assert!(expression(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn spans_leave_out_parentheses_around_an_expression() {
    let parts = |text: &'static str| {
        let e = parse_expression(text, Span::new(0, text.len())).expect(text);
        let inner = match &e.kind {
            ExprKind::Binary(_, left, _) => left.span,
            ExprKind::Call(call) => call.args[0].span,
            ExprKind::Subscript(_, index) => index.span,
            _ => e.span,
        };
        (&text[e.span.range()], &text[inner.range()])
    };
    assert_eq!(parts("((a))"), ("a", "a"));
    assert_eq!(parts("(a) + (b)"), ("(a) + (b)", "a"));
    assert_eq!(parts("(a, b)"), ("(a, b)", "(a, b)"));
    assert_eq!(parts("((a, b))"), ("(a, b)", "(a, b)"));
    assert_eq!(parts(" a, b, "), ("a, b,", "a, b,"));
    assert_eq!(parts("f((a for a in b))"), ("f((a for a in b))", "(a for a in b)"));
    assert_eq!(parts("f((a) for a in b)"), ("f((a) for a in b)", "(a) for a in b"));
    assert_eq!(parts("(f)(*(a))"), ("(f)(*(a))", "*(a)"));
    assert_eq!(parts("(a)[b, c]"), ("(a)[b, c]", "b, c"));
    assert_eq!(parts("'a' 'b'"), ("'a' 'b'", "'a' 'b'"));
}

#[test]
fn names_may_have_letters_of_all_languages() {
    check(&[("größe + 名前", "(größe + 名前)"), ("_1a", "_1a"), ("match + case + type", "((match + case) + type)")]);
    for wrong in ["€", "a€", "1é", "$", "?", "a ! b", "a <> b"] {
        assert!(expression(wrong).is_err(), "{wrong}");
    }
    let text = "é";
    let e = parse_expression(text, Span::new(0, text.len())).expect("a name");
    assert_eq!(show(&e), "é");
}
