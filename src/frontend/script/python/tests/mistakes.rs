//! What is refused, where, and how the parser goes on.

use super::super::*;

/// The messages of a text's mistakes, each with the text that it points at.
fn mistakes(text: &str) -> Vec<(String, &str)> {
    let errors = parse_module(text).expect_err(text);
    errors.iter().map(|d| (d.message.clone(), text.get(d.labels[0].span.range()).unwrap_or_default())).collect()
}

/// Compares the only mistake of a text.
fn check(text: &str, message: &str, at: &str) {
    assert_eq!(mistakes(text), [(message.to_string(), at)], "{text}");
}

#[test]
fn messages_name_what_is_expected_and_found() {
    check("a = (1 2)\n", "expected `)`, found `2`", "2");
    check("a = [1, 2\n", "`[` is never closed", "[");
    check("a = (]\n", "expected an expression, found `]`", "]");
    check("f(a, b]\n", "expected `)`, found `]`", "]");
    check("a = \n", "expected an expression, found the end of the line", "\n");
    check("a b\n", "expected the end of the line, found `b`", "b");
    check("for a in b\n  c\n", "expected `:`, found the end of the line", "\n");
    check("for a in b:\nc\n", "expected an indented block after `for` statement", "c");
    check("def f(a):\n", "expected an indented block after function definition", "");
    check("a = class\n", "expected an expression, found `class`", "class");
    check("pass = 1\n", "expected the end of the line, found `=`", "=");
    check("def if(): pass\n", "expected a name, found `if`", "if");
    check("else: a\n", "expected a statement, found `else`", "else");
    check("a = 'b\n", "missing closing quote in string literal", "'b");
    check("a = '''b\n", "missing closing quote in string literal", "'''b\n");
    check("a = f'b{c\n", "`{` is never closed", "{");
    check("a = b \\ c\n", "expected the end of the line after `\\`", "\\");
    check("a = 1 $ 2\n", "the character `$` is not expected here", "$");
    check("a = 012\n", "a decimal number must not begin with `0`", "012");
    check("try: a\nb\n", "expected `except` or `finally` after the body of `try`, found `b`", "b");
    check("@a\nb\n", "expected a function or a class after its decorators, found `b`", "b");
    check("async a\n", "expected `def`, `for` or `with` after `async`, found `a`", "a");
    check("match a\n  case b: c\n", "expected `:`, found the end of the line", "\n");
    check("match a:\n  b\n", "expected `case`, found `b`", "b");
}

#[test]
fn only_targets_are_assigned_to() {
    for (text, at) in [
        ("1 = a", "1"),
        ("f() = a", "f()"),
        ("a + b = c", "a + b"),
        ("(a, f()) = b", "f()"),
        ("a = 'b' = c", "'b'"),
        ("None = a", "None"),
        ("for f() in a: b", "f()"),
        ("with a as 1: b", "1"),
        ("[a for 1 in b]", "1"),
        ("(a := 1) = b", "a := 1"),
    ] {
        check(text, "invalid assignment target", at);
    }
    check("a, b: c", "invalid target of an annotation", "a, b");
    check("a, b += c", "invalid target of `+=`", "a, b");
    check("del f()", "invalid target of `del`", "f()");
    check("(a.b := 1)", "the target of `:=` must be a name", "a.b");
}

#[test]
fn arguments_and_parameters_have_an_order() {
    check("f(a=1, b)", "a positional argument cannot follow a keyword argument", "b");
    check("f(**a, b)", "a positional argument cannot follow one with `**`", "b");
    check("f(**a, *b)", "an argument with `*` cannot follow one with `**`", "*b");
    check("f(a.b=1)", "the name of a keyword argument must be a name", "a.b");
    check("f(a for a in b, c)", "the generator needs parentheses of its own", "a for a in b");
    check("class C(a for a in b): pass", "the generator needs parentheses of its own", "a for a in b");
    check("def f(a=1, b): pass", "a parameter without a default cannot follow one with a default", "b");
    check("def f(*): pass", "expected a name, found `)`", ")");
    check("def f(*, **a): pass", "a parameter with a name must follow `*`", "*");
    check("def f(*a, *b): pass", "only one parameter can have `*`", "*");
    check("def f(*a=1): pass", "a parameter with `*` or `**` cannot have a default", "=");
    check("def f(**a, b): pass", "no parameter can follow one with `**`", "**a");
    check("def f(/, a): pass", "`/` must follow the parameters that have only a position", "/");
    check("def f((a, b)): pass", "expected a parameter, found `(`", "(");
}

#[test]
fn other_mistakes_are_refused() {
    for text in [
        "*",
        "(*a)",
        "a = *",
        "a[]",
        "a[b := 1:2]",
        "{a: b, c}",
        "{a, b: c}",
        "{a := 1: b}",
        "a := 1",
        "a.1",
        "a = b = ",
        "a not b",
        "a == not b",
        "x = yield = 1",
        "[a, b for a in c]",
        "[a for a in b if]",
        "lambda a=1, b: c",
        "lambda: yield",
        "f(**)",
        "await await a",
        "import a.b as c.d",
        "import",
        "from a import",
        "from a import b,",
        "from a import (b",
        "from a import (*)",
        "from import a",
        "global",
        "del",
        "assert",
        "return yield",
        "raise a from",
        "with: a",
        "with a as: b",
        "while: a",
        "for a: b",
        "if a: for b in c: d",
        "a; if b: c",
        "class C: def f(): pass",
        "type A",
        "try: a\nexcept A: b\nexcept* B: c",
        "try: a\nexcept A, B as e: c",
        "match a:\n  case {**_}: b",
        "match a:\n  case *b: c",
        "match a:\n  case b as _: c",
        "match a:\n  case 1 + 2: c",
        "match a:\n  case C(b=1, c): d",
        "match *a:\n  case b: c",
        "print a",
        "a = b c = d",
        "a\\",
    ] {
        assert!(parse_module(text).is_err(), "{text}");
    }
}

#[test]
fn indentation_must_fit() {
    let codes = |text: &str| parse_module(text).expect_err(text).iter().map(|d| d.code).collect::<Vec<_>>();
    assert_eq!(codes("  a\n"), ["indentation"]);
    assert_eq!(codes("if a:\n    b\n  c\nd\n"), ["indentation"]);
    assert_eq!(codes("if a:\n        b\n\tc\n"), ["indentation"]);
    assert_eq!(codes("if a:\n    b\n      c\n      d\n    e\nf\n"), ["indentation"]);
    assert!(parse_module("if a:\n\tb\n\tc\n").is_ok());
}

#[test]
fn reading_goes_on_behind_a_mistake() {
    let lines = |text: &str| mistakes(text).iter().map(|(_, at)| at.to_string()).collect::<Vec<_>>();
    assert_eq!(lines("a = )\nb = 1\nc = }\n"), [")", "}"]);
    assert_eq!(lines("a = ) ]\n"), [")"]);
    // The body of a statement is read, and what belongs to it is no second mistake.
    assert_eq!(lines("if a b:\n  c = )\nelif d:\n  e\nelse:\n  f = ]\ng\n"), ["b", ")", "]"]);
    assert_eq!(lines("def f(1):\n  a\n  return )\nb = ]\n"), ["1", ")", "]"]);
    assert_eq!(lines("try a:\n  b\nexcept c:\n  d\nfinally:\n  e\n"), ["a"]);
    assert_eq!(lines("match a:\n  case 1 +: b\n  case c: d = )\ne = ]\n"), [":", ")", "]"]);
    // Everything behind an open bracket is its contents.
    assert_eq!(lines("a = )\nb = (1\nc = 2\n"), [")", "("]);
}
