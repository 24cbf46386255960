//! Python's own functions, as far as schedule functions may use them.

/// A function that is there without an import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Builtin {
    Len,
    Range,
    Enumerate,
    Zip,
    Reversed,
    List,
    Tuple,
    Int,
    Float,
    Bool,
    Str,
    Min,
    Max,
    Sum,
    Abs,
    Sorted,
    Any,
    All,
}

impl Builtin {
    /// The functions by name.
    pub const ALL: [(&'static str, Builtin); 18] = [
        ("len", Builtin::Len),
        ("range", Builtin::Range),
        ("enumerate", Builtin::Enumerate),
        ("zip", Builtin::Zip),
        ("reversed", Builtin::Reversed),
        ("list", Builtin::List),
        ("tuple", Builtin::Tuple),
        ("int", Builtin::Int),
        ("float", Builtin::Float),
        ("bool", Builtin::Bool),
        ("str", Builtin::Str),
        ("min", Builtin::Min),
        ("max", Builtin::Max),
        ("sum", Builtin::Sum),
        ("abs", Builtin::Abs),
        ("sorted", Builtin::Sorted),
        ("any", Builtin::Any),
        ("all", Builtin::All),
    ];

    /// The function called `name`.
    pub fn by_name(name: &str) -> Option<Builtin> {
        Builtin::ALL.iter().find(|(n, _)| *n == name).map(|(_, b)| *b)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Builtin::ALL.iter().find(|(_, b)| *b == self).map_or("", |(n, _)| n)
    }

    /// The keywords that it takes.
    pub fn keywords(self) -> &'static [&'static str] {
        match self {
            Builtin::Enumerate => &["start"],
            Builtin::Sorted => &["reverse"],
            Builtin::Len
            | Builtin::Range
            | Builtin::Zip
            | Builtin::Reversed
            | Builtin::List
            | Builtin::Tuple
            | Builtin::Int
            | Builtin::Float
            | Builtin::Bool
            | Builtin::Str
            | Builtin::Min
            | Builtin::Max
            | Builtin::Sum
            | Builtin::Abs
            | Builtin::Any
            | Builtin::All => &[],
        }
    }

    /// How many positional arguments it takes.
    pub fn arity(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Builtin::Len
            | Builtin::Reversed
            | Builtin::Float
            | Builtin::Bool
            | Builtin::Str
            | Builtin::Abs
            | Builtin::Sorted
            | Builtin::Any
            | Builtin::All
            | Builtin::Int => 1..=1,
            Builtin::Range => 1..=3,
            Builtin::Enumerate | Builtin::Sum => 1..=2,
            Builtin::List | Builtin::Tuple => 0..=1,
            Builtin::Zip => 0..=usize::MAX,
            Builtin::Min | Builtin::Max => 1..=usize::MAX,
        }
    }
}
