//! Tokens of Python.

use crate::diagnostic::Span;

/// A token with its place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: Kind,
    pub span: Span,
}

macro_rules! kinds {
    (plain { $($plain:ident $what:literal)* } keywords { $($word:ident $text:literal)* } operators { $($op:ident $sign:literal)* }) => {
        /// The kinds of tokens.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kind { $($plain,)* $($word,)* $($op,)* }

        impl Kind {
            /// The keyword that a word is. `match`, `case` and `type` are names to the lexer.
            pub(super) fn keyword(word: &str) -> Option<Kind> {
                match word { $($text => Some(Kind::$word),)* _ => None }
            }

            /// What messages call such a token.
            pub(super) fn describe(self) -> &'static str {
                match self {
                    $(Kind::$plain => $what,)*
                    $(Kind::$word => concat!("`", $text, "`"),)*
                    $(Kind::$op => concat!("`", $sign, "`"),)*
                }
            }
        }
    };
}

kinds! {
    plain {
        Name "a name" Int "a number" Float "a number" Complex "a number" Str "a string"
        FormatStart "a formatted string" FormatText "text of a formatted string" FormatEnd "the end of the formatted string"
        Newline "the end of the line" Indent "an indentation" Dedent "the end of the block" End "the end of the text"
        Unknown "an unknown character"
    }
    keywords {
        False "False" None "None" True "True" And "and" As "as" Assert "assert" Async "async" Await "await" Break "break"
        Class "class" Continue "continue" Def "def" Del "del" Elif "elif" Else "else" Except "except" Finally "finally"
        For "for" From "from" Global "global" If "if" Import "import" In "in" Is "is" Lambda "lambda" Nonlocal "nonlocal"
        Not "not" Or "or" Pass "pass" Raise "raise" Return "return" Try "try" While "while" With "with" Yield "yield"
    }
    operators {
        LeftParen "(" RightParen ")" LeftBracket "[" RightBracket "]" LeftBrace "{" RightBrace "}"
        Comma "," Colon ":" Semicolon ";" Dot "." Ellipsis "..." Arrow "->" At "@" Equal "=" Walrus ":=" Exclamation "!"
        Plus "+" Minus "-" Star "*" Slash "/" DoubleSlash "//" Percent "%" DoubleStar "**" Shl "<<" Shr ">>"
        Ampersand "&" Bar "|" Caret "^" Tilde "~" Less "<" Greater ">" LessEqual "<=" GreaterEqual ">=" EqualEqual "=="
        NotEqual "!=" PlusEqual "+=" MinusEqual "-=" StarEqual "*=" SlashEqual "/=" DoubleSlashEqual "//="
        PercentEqual "%=" AtEqual "@=" AmpersandEqual "&=" BarEqual "|=" CaretEqual "^=" ShlEqual "<<=" ShrEqual ">>="
        DoubleStarEqual "**="
    }
}

/// The operator or bracket that a text begins with, and its length; the longest one counts.
pub(super) fn operator(text: &[u8]) -> Option<(Kind, usize)> {
    let at = |i: usize| text.get(i).copied().unwrap_or(0);
    let (second, third) = (at(1), at(2));
    // A sign that may be followed by `=`, as itself and in its combination.
    let or_equal = |plain, combined| if second == b'=' { (combined, 2) } else { (plain, 1) };
    // The same of a sign written twice.
    let doubled = |plain, combined| if third == b'=' { (combined, 3) } else { (plain, 2) };
    Some(match at(0) {
        b'(' => (Kind::LeftParen, 1),
        b')' => (Kind::RightParen, 1),
        b'[' => (Kind::LeftBracket, 1),
        b']' => (Kind::RightBracket, 1),
        b'{' => (Kind::LeftBrace, 1),
        b'}' => (Kind::RightBrace, 1),
        b',' => (Kind::Comma, 1),
        b';' => (Kind::Semicolon, 1),
        b'~' => (Kind::Tilde, 1),
        b':' => or_equal(Kind::Colon, Kind::Walrus),
        b'.' if second == b'.' && third == b'.' => (Kind::Ellipsis, 3),
        b'.' => (Kind::Dot, 1),
        b'-' if second == b'>' => (Kind::Arrow, 2),
        b'-' => or_equal(Kind::Minus, Kind::MinusEqual),
        b'+' => or_equal(Kind::Plus, Kind::PlusEqual),
        b'%' => or_equal(Kind::Percent, Kind::PercentEqual),
        b'@' => or_equal(Kind::At, Kind::AtEqual),
        b'&' => or_equal(Kind::Ampersand, Kind::AmpersandEqual),
        b'|' => or_equal(Kind::Bar, Kind::BarEqual),
        b'^' => or_equal(Kind::Caret, Kind::CaretEqual),
        b'=' => or_equal(Kind::Equal, Kind::EqualEqual),
        b'!' => or_equal(Kind::Exclamation, Kind::NotEqual),
        b'*' if second == b'*' => doubled(Kind::DoubleStar, Kind::DoubleStarEqual),
        b'*' => or_equal(Kind::Star, Kind::StarEqual),
        b'/' if second == b'/' => doubled(Kind::DoubleSlash, Kind::DoubleSlashEqual),
        b'/' => or_equal(Kind::Slash, Kind::SlashEqual),
        b'<' if second == b'<' => doubled(Kind::Shl, Kind::ShlEqual),
        b'<' if second == b'>' => return None,
        b'<' => or_equal(Kind::Less, Kind::LessEqual),
        b'>' if second == b'>' => doubled(Kind::Shr, Kind::ShrEqual),
        b'>' => or_equal(Kind::Greater, Kind::GreaterEqual),
        _ => return None,
    })
}
