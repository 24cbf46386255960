//! Statements and the lines that they stand on.

use super::super::*;
use super::show::module;

/// Compares the statements of a text with how they are read.
fn check(text: &str, expected: &str) {
    assert_eq!(module(text).trim_end(), expected, "{text}");
    let carriage = text.replace('\n', "\r\n");
    assert_eq!(module(&carriage).trim_end(), expected, "{carriage}");
    assert_eq!(module(&text.replace('\n', "\r")).trim_end(), expected, "{text}");
}

#[test]
fn assignments_have_targets_and_a_value() {
    check("a = b = c\n", "a = b = c");
    check("a, (b, *c), d.e, f[0] = [g, h] = yield i\n", "(a, (b, *c,), d.e, f[0],) = [g, h] = <`yield`>");
    check("a: b\nc.d: e = f, *g\n(h): i = j\n", "a: b\nc.d: e = (f, *g,)\nh: i = j");
    check("a += b\na **= c, d\na //= e\na @= f\na >>= g\n", "a += b\na **= (c, d,)\na //= e\na @= f\na >>= g");
}

#[test]
fn small_statements_share_a_line() {
    check("a; b = c; pass;\nbreak; continue", "a\nb = c\nPass\nBreak\nContinue");
    check("if a: b; c\nelif d: e\nelse: f\n", "if a | d | \n  b\n  c\n|\n  e\n|\n  f");
    check("return\n", "return");
    check("return a, *b\n", "return (a, *b,)");
    check("assert a, b\n", "assert a, b");
}

#[test]
fn imports_have_names() {
    check("import a.b as c, d\n", "import a.b as c, d");
    check("from a.b import (c as d, e,)\n", "from a.b import c as d, e");
    check("from . import a\nfrom ...b import *\n", "from . import a\nfrom b import *");
    check("lazy import a\nlazy from b import c\nlazy = 1\n", "import a\nfrom b import c\nlazy = 1");
}

#[test]
fn bodies_are_indented_or_on_the_same_line() {
    check("for a, b in c, d:\n  e\n\n # comment\n  f\nelse:\n  g\nh\n", "for (a, b,) in (c, d,) else\n  e\n  f\nh");
    check("while a := b:\n\tc\n", "while <an assignment expression>\n  c");
    check("if a:\n    if b:\n        c\nelse:\n    d\n", "if a | \n  if b\n    c\n|\n  d");
    check("if a: \\\n b\n", "if a\n  b");
    check("if a:\n  b\n\x0c\nc\n", "if a\n  b\nc");
    check("a = \\\n  b\n", "a = b");
    check("\u{feff}a\n", "a");
    check("", "");
    check("# only a comment", "");
}

#[test]
fn contexts_may_have_parentheses() {
    check("with a as b, c: d\n", "with a as b, c\n  d");
    check("with (a as b, c as (d, *e),): f\n", "with a as b, c as (d, *e,)\n  f");
    check("with (a, b): c\n", "with a, b\n  c");
    check("with (a, b) as c: d\n", "with (a, b,) as c\n  d");
    check("with (a) + b as c: d\n", "with (a + b) as c\n  d");
    check("with (yield): a\n", "with <`yield`>\n  a");
    check("with (a for a in b): c\n", "with <a for a in b>\n  c");
}

#[test]
fn functions_and_classes_have_decorators_and_parameters() {
    check("@a.b(c)\n@d\ndef f(x: T = 1, y=2) -> R:\n  pass\n", "@a.b(c)\n@d\ndef f(x: T=1, y=2) -> R\n  Pass");
    check("def f(a, /, b): pass\n", "def f(a, b)\n  Pass");
    check("def f(a, *b): pass\n", "def f(a, *b, odd)\n  Pass");
    check("def f(*a, b=1, c, **d): pass\n", "def f(odd)\n  Pass");
    check("def f(*, a): pass\n", "def f(odd)\n  Pass");
    check("def f[T: int = a, *Ts, **P](a: T): pass\n", "def f(a: T)\n  Pass");
    check("@a\nclass C[T](B, metaclass=M): x: T\n", "@a\nclass C\n  x: T");
    check("f = lambda a, b=1: a\n", "f = <a lambda with defaults or keyword arguments>");
}

#[test]
fn statements_that_have_no_translation_are_described() {
    check("try:\n  a\nexcept (A, B) as e:\n  b\nexcept C: c\nelse: d\nfinally:\n  e\nf\n", "<`try`>\nf");
    check("try: a\nexcept* A, B: b\n", "<`try`>");
    check(
        "del a, (b, [c.d, e[0]]),\nraise a from b\nglobal a, b\nnonlocal c\n",
        "<`del`>\n<`raise`>\n<`global`>\n<`nonlocal`>",
    );
    check(
        "async def f(): await a\nasync for a in b: c\nasync with a: b\n@a\nasync def f(): pass\n",
        "<an `async` function>\n<an `async` loop>\n<an `async with`>\n<an `async` function>",
    );
    check("type A[T] = B\ntype = 1\ntype(a)\n", "<a type alias>\ntype = 1\ntype(a)");
}

#[test]
fn match_is_a_statement_only_before_cases() {
    let text = "match a, *b:
  case [1, -2.5, 3 + 4j, *_, 'a' 'b', None] | {'k': c, -1: _, d.e: f, **g} | C(h, i=1) as j if j > 1:
    pass
  case (*k, l), *m: pass
  case (n.o) | () | [] | {} | C(): pass
  case _: pass
after
";
    check(text, "<`match`>\nafter");
    check("match not a:\n  case b: pass\n", "<`match`>");
    check(
        "match(a)\nmatch[b]\nmatch = case\nmatch * c\nmatch: d\nmatch, e = f\n",
        "match(a)\nmatch[b]\nmatch = case\n(match * c)\nmatch: d\n(match, e,) = f",
    );
    check("match(a):\n  case b: pass\n", "<`match`>");
}

#[test]
fn spans_of_statements_end_with_their_last_word() {
    let text = "@a\ndef f():\n    if b:\n        c;\n    elif d: e  # comment\n\nx = (1,\n  2) ;\n";
    let module = parse_module(text).expect("valid Python");
    assert_eq!(&text[module[0].span.range()], "@a\ndef f():\n    if b:\n        c;\n    elif d: e");
    assert_eq!(&text[module[1].span.range()], "x = (1,\n  2)");
    let StmtKind::Function(function) = &module[0].kind else { panic!("{module:?}") };
    let StmtKind::If(branches) = &function.body[0].kind else { panic!("{module:?}") };
    assert_eq!(&text[branches[0].span.range()], "if b:\n        c");
    assert_eq!(&text[branches[1].span.range()], "elif d: e");
}

#[test]
fn comments_are_found_outside_of_strings() {
    let text = "# a\nx = '# b' # c\nf'{d # e\n}' # f\n(  # g\r\n";
    let found: Vec<&str> = comments(text).iter().map(|c| &text[c.range()]).collect();
    assert_eq!(found, ["# a", "# c", "# e", "# f", "# g"]);
}
