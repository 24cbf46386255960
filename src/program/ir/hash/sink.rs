//! Destinations of the walk of [`hash`](super): the canonical bytes, or a fast hash.

use super::super::equal::key_parts;
use super::super::expr::ExprId;
use super::super::symbol::Symbol;
use std::cell::RefCell;

/// A destination of the walk.
pub(super) trait Sink {
    /// A small number that identifies the next item.
    fn tag(&mut self, tag: u8);
    /// A count or a number of a variable.
    fn count(&mut self, n: usize);
    /// A constant.
    fn int(&mut self, v: i64);
    /// A text.
    fn text(&mut self, s: Symbol);
    /// A key of a map, in the current spelling.
    fn key(&mut self, s: Symbol);
    /// Called before an expression. `Err` means that the expression is known and now written; the value of `Ok` is
    /// passed to `leave`.
    fn enter(&mut self, e: ExprId, may_remember: bool) -> Result<u64, ()>;
    /// Called after an expression.
    fn leave(&mut self, e: ExprId, entered: u64, may_remember: bool);
}

/// Writes the canonical byte form.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Sink for Bytes {
    fn tag(&mut self, tag: u8) {
        self.0.push(tag);
    }

    fn count(&mut self, n: usize) {
        let mut n = n as u64;
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn int(&mut self, v: i64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn text(&mut self, s: Symbol) {
        self.count(s.as_str().len());
        self.0.extend_from_slice(s.as_str().as_bytes());
    }

    fn key(&mut self, s: Symbol) {
        let (prefix, rest) = key_parts(s.as_str());
        self.count(prefix.len() + rest.len());
        self.0.extend_from_slice(prefix.as_bytes());
        self.0.extend_from_slice(rest.as_bytes());
    }

    fn enter(&mut self, _: ExprId, _: bool) -> Result<u64, ()> {
        Ok(0)
    }

    fn leave(&mut self, _: ExprId, _: u64, _: bool) {}
}

/// Mixes all items into 64 bits. An expression is hashed on its own, and its hash memoised.
pub(super) struct Mixer {
    pub(super) state: u64,
    /// Hash of each expression; 0 if not known yet.
    pub(super) memo: Vec<u64>,
}

/// Combines the two halves of a 128-bit product: every bit of the result depends on every bit of both factors.
pub(super) fn mix(state: u64, v: u64) -> u64 {
    let product = u128::from(state ^ 0x9e37_79b9_7f4a_7c15) * u128::from(v ^ 0xd6e8_feb8_6659_fd93);
    (product as u64).rotate_left(23) ^ (product >> 64) as u64 ^ v
}

thread_local! {
    /// Hashes of the texts of symbols by id, as text and as key; symbols are numbered differently in every run.
    static TEXTS: RefCell<Vec<Option<(u64, u64)>>> = const { RefCell::new(Vec::new()) };
}

fn text_hashes(s: Symbol) -> (u64, u64) {
    let of = |parts: [&str; 2]| parts.iter().flat_map(|p| p.bytes()).fold(1, |h, b| mix(h, u64::from(b)));
    TEXTS.with_borrow_mut(|known| {
        if known.len() <= s.index() {
            known.resize(s.index() + 1, None);
        }
        *known[s.index()].get_or_insert_with(|| {
            let (prefix, rest) = key_parts(s.as_str());
            (of([s.as_str(), ""]), of([prefix, rest]))
        })
    })
}

impl Sink for Mixer {
    fn tag(&mut self, tag: u8) {
        self.state = mix(self.state, u64::from(tag));
    }

    fn count(&mut self, n: usize) {
        self.state = mix(self.state, n as u64);
    }

    fn int(&mut self, v: i64) {
        self.state = mix(self.state, v as u64);
    }

    fn text(&mut self, s: Symbol) {
        self.state = mix(self.state, text_hashes(s).0);
    }

    fn key(&mut self, s: Symbol) {
        self.state = mix(self.state, text_hashes(s).1);
    }

    fn enter(&mut self, e: ExprId, may_remember: bool) -> Result<u64, ()> {
        if may_remember && self.memo[e.index()] != 0 {
            self.state = mix(self.state, self.memo[e.index()]);
            return Err(());
        }
        Ok(std::mem::replace(&mut self.state, 0))
    }

    fn leave(&mut self, e: ExprId, entered: u64, may_remember: bool) {
        let own = self.state;
        if may_remember {
            self.memo[e.index()] = own;
        }
        self.state = mix(entered, own);
    }
}
