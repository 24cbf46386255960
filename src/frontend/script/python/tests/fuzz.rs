//! Random texts: nothing panics, and places are in the text.

use super::super::*;
use proptest::prelude::*;

/// Pieces of texts that mean something to the parser.
const PIECES: &[&str] = &[
    "a", "b1", "é", "€", "0", "1.5", "0x_f", "1e", "1_", "2j", "'", "\"", "'''", "\"\"\"", "f'", "rf\"", "t'", "b'",
    "r'", "\\", "\\N{", "\\x4", "{", "}", "{{", "}}", "(", ")", "[", "]", ":", ":=", "=", "==", "!", "!r", ",", ";",
    ".", "...", "*", "**", "-", "->", "@", "~", "<", "<<=", "+", " ", "  ", "\t", "\x0c", "\n", "\r", "\r\n", "\n    ",
    "\n  ", "\u{feff}", "#", "# c\n", " if ", " else ", "elif ", " for ", " in ", " not ", " is ", " and ", " or ",
    "lambda ", "await ", "async ", "yield ", "def ", "class ", "return ", "pass", "try", "except ", "finally", "with ",
    " as ", "import ", "from ", "match ", "case ", "type ", "del ", "raise ", "global ", "assert ", "while ", "None",
    "True", "$", "?",
];

/// Whether every statement lies in the text, behind the one before.
fn check_spans(text: &str, module: &[Stmt<'_>]) {
    let mut end = 0;
    for statement in module {
        assert!(statement.span.start >= end && text.get(statement.span.range()).is_some(), "{text:?}: {statement:?}");
        end = statement.span.end;
    }
}

fn check(text: &str) {
    match parse_module(text) {
        Ok(module) => check_spans(text, &module),
        Err(errors) => {
            assert!(!errors.is_empty(), "{text:?}");
            let starts: Vec<u32> = errors.iter().map(|d| d.labels[0].span.start).collect();
            assert!(starts.is_sorted() && starts.iter().all(|&s| s as usize <= text.len()), "{text:?}: {errors:?}");
        }
    }
    for comment in comments(text) {
        assert!(text[comment.range()].starts_with('#'));
    }
    // The result does not matter: some texts are expressions.
    let _expression = parse_expression(text, Span::new(0, text.len()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn random_pieces_are_read_or_refused(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn random_characters_are_read_or_refused(text in "\\PC{0,40}") {
        check(&text);
    }

    /// A program with one piece too many, one too few, or another one.
    #[test]
    fn changed_programs_are_read_or_refused(at in 0_usize..2000, len in 0_usize..3, piece in prop::sample::select(PIECES)) {
        let program = include_str!("program.py");
        let places: Vec<usize> = program.char_indices().map(|(i, _)| i).chain([program.len()]).collect();
        let start = at % places.len();
        let end = (start + len).min(places.len() - 1);
        check(&format!("{}{piece}{}", &program[..places[start]], &program[places[end]..]));
    }
}

#[test]
fn the_program_is_read_before_it_is_changed() {
    check_spans(include_str!("program.py"), &parse_module(include_str!("program.py")).expect("valid Python"));
}

#[test]
fn deep_nesting_in_formatted_strings_is_refused_not_suffered() {
    for (open, close) in [("f'{", "}'"), ("f'{a:{", "}}'"), ("f'\"{(", ")}'"), ("{a:", "}")] {
        let text = format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
        assert!(parse_module(&text).is_err_and(|errors| errors[0].code == "nesting"), "{open}");
    }
}

#[test]
fn the_deepest_texts_fit_the_stack() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("-", ""), ("f(", ")"), ("{a: ", "}"), ("lambda: ", ""), ("f'{", "}'")]
    {
        let text = |n: usize| format!("{}x{}\n", open.repeat(n), close.repeat(n));
        let deepest = (0..MAX_NESTING).rev().find(|&n| parse_module(&text(n)).is_ok()).expect("some depth is read");
        assert!(deepest >= MAX_NESTING / 2 - 1, "{open}: {deepest}");
    }
}
