//! An analyzer's conclusions about expressions, by id.
//!
//! A table has one row per expression, stamped with the epoch in which the row was written; an epoch is one state of
//! one analyzer's knowledge, so a row is valid exactly if its stamp is the current epoch. Starting afresh is a new
//! epoch and clears nothing; leaving a constraint returns to the epoch before it, whose rows are valid again. Tables
//! are handed from analyzer to analyzer of a thread, which makes creating one almost free.

use super::bound::Bound;
use super::modular::Modular;
use crate::ir::expr::ExprId;
use std::cell::RefCell;

/// Values by expression and epoch.
pub(super) struct Table<T> {
    rows: Vec<(u32, T)>,
}

impl<T: Copy> Table<T> {
    const fn new() -> Self {
        Table { rows: Vec::new() }
    }

    /// The value noted in this epoch.
    pub(super) fn get(&self, epoch: u32, e: ExprId) -> Option<&T> {
        self.rows.get(e.index()).and_then(|(stamp, value)| (*stamp == epoch).then_some(value))
    }

    /// Notes a value. `n_exprs` is the number of expressions that exist.
    pub(super) fn set(&mut self, epoch: u32, e: ExprId, value: T, n_exprs: usize) {
        if e.index() >= self.rows.len() {
            self.rows.resize(n_exprs + n_exprs / 2 + 64, (0, value));
        }
        self.rows[e.index()] = (epoch, value);
    }
}

/// A simplified expression, and the depth of nested rewrites that produced it.
#[derive(Clone, Copy)]
pub(super) struct Simplified {
    pub(super) result: ExprId,
    pub(super) nesting: u8,
}

/// The tables of one analyzer.
pub(super) struct Memo {
    pub(super) bounds: Table<Bound>,
    pub(super) modular: Table<Modular>,
    /// By [`Mode`](super::rewrite::Mode).
    pub(super) simplified: [Table<Simplified>; 2],
    last_epoch: u32,
}

impl Memo {
    /// Empty tables.
    pub(super) const fn new() -> Self {
        Memo { bounds: Table::new(), modular: Table::new(), simplified: [const { Table::new() }; 2], last_epoch: 0 }
    }

    /// An epoch that no row is stamped with.
    pub(super) fn next_epoch(&mut self) -> u32 {
        if self.last_epoch == u32::MAX {
            *self = Memo::new();
        }
        self.last_epoch += 1;
        self.last_epoch
    }
}

thread_local! {
    static POOL: RefCell<Vec<Memo>> = const { RefCell::new(Vec::new()) };
}

/// Tables to use, from an analyzer that is gone or new.
pub(super) fn take() -> Memo {
    POOL.try_with(|pool| pool.borrow_mut().pop()).ok().flatten().unwrap_or_else(Memo::new)
}

/// Returns tables for the next analyzer.
pub(super) fn give_back(memo: Memo) {
    // While a thread ends its pool may be gone already; then the tables go too.
    let _ = POOL.try_with(|pool| pool.borrow_mut().push(memo));
}
