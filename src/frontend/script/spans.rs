//! Places of statements and expressions in the text from which they were read or to which they were printed.

use crate::diagnostic::Span;
use crate::ir::{BufferId, ExprId, StmtId};

/// The places of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StmtSpan {
    /// The whole statement, including its body. The loops of one `T.grid` share it.
    pub whole: Span,
    /// The name: a loop's variable, a block's name, the target of a store, the variable of a `let`; the first line for
    /// other statements.
    pub name: Span,
}

/// The places of the parts of a function in a text.
#[derive(Clone, Default, Debug)]
pub struct Spans {
    /// The function's name.
    pub name: Span,
    /// Each parameter with its annotation.
    pub params: Vec<Span>,
    stmts: Vec<Option<StmtSpan>>,
    exprs: Vec<(Option<StmtId>, ExprId, Span)>,
    accesses: Vec<(BufferId, Span)>,
    iters: Vec<(StmtId, usize, Span)>,
    regions: Vec<(StmtId, bool, usize, Span)>,
    buffers: Vec<(BufferId, Span)>,
}

impl Spans {
    /// The places of a statement; `None` for statements without text (an implied root block).
    pub fn stmt(&self, s: StmtId) -> Option<StmtSpan> {
        self.stmts.get(s.index()).copied().flatten()
    }

    /// The first place of an expression in a statement (its own header, for loops and blocks).
    pub fn expr(&self, s: StmtId, e: ExprId) -> Option<Span> {
        self.exprs.iter().find(|x| x.0 == Some(s) && x.1 == e).map(|x| x.2)
    }

    /// The first place of an expression in a statement where it is an index of `buffer`.
    pub fn index_of(&self, s: StmtId, e: ExprId, buffer: BufferId) -> Option<Span> {
        let inside = |span: Span| {
            let around = |a: &&(BufferId, Span)| a.0 == buffer && a.1.start <= span.start && span.end <= a.1.end;
            self.accesses.iter().any(|a| around(&a))
        };
        self.exprs.iter().find(|x| x.0 == Some(s) && x.1 == e && inside(x.2)).map(|x| x.2)
    }

    /// The places of elements and regions of a buffer, in the order of evaluation.
    pub fn accesses(&self, buffer: BufferId) -> impl Iterator<Item = Span> + '_ {
        self.accesses.iter().filter(move |a| a.0 == buffer).map(|a| a.1)
    }

    /// The declaration of a block's iteration variable.
    pub fn iter(&self, block: StmtId, index: usize) -> Option<Span> {
        self.iters.iter().find(|x| x.0 == block && x.1 == index).map(|x| x.2)
    }

    /// The place of a region of a block's `T.reads` (or, if `write`, of its `T.writes`); `None` for inferred ones.
    pub fn region(&self, block: StmtId, write: bool, index: usize) -> Option<Span> {
        self.regions.iter().find(|x| x.0 == block && x.1 == write && x.2 == index).map(|x| x.3)
    }

    /// The declaration of a buffer.
    pub fn buffer(&self, b: BufferId) -> Option<Span> {
        self.buffers.iter().find(|x| x.0 == b).map(|x| x.1)
    }

    /// Records a statement. Expressions recorded since `mark` that belong to no statement yet become expressions of it.
    pub(super) fn add_stmt(&mut self, s: StmtId, span: StmtSpan, mark: usize) {
        if self.stmts.len() <= s.index() {
            self.stmts.resize(s.index() + 1, None);
        }
        self.stmts[s.index()] = Some(span);
        for entry in self.exprs.iter_mut().skip(mark).filter(|x| x.0.is_none()) {
            entry.0 = Some(s);
        }
    }

    pub(super) fn mark(&self) -> usize {
        self.exprs.len()
    }

    pub(super) fn add_expr(&mut self, e: ExprId, span: Span) {
        self.exprs.push((None, e, span));
    }

    pub(super) fn add_access(&mut self, b: BufferId, span: Span) {
        self.accesses.push((b, span));
    }

    pub(super) fn add_expr_of(&mut self, s: StmtId, e: ExprId, span: Span) {
        self.exprs.push((Some(s), e, span));
    }

    pub(super) fn add_iter(&mut self, block: StmtId, index: usize, span: Span) {
        self.iters.push((block, index, span));
    }

    pub(super) fn add_region(&mut self, block: StmtId, write: bool, index: usize, span: Span) {
        self.regions.push((block, write, index, span));
    }

    pub(super) fn add_buffer(&mut self, b: BufferId, span: Span) {
        self.buffers.push((b, span));
    }
}
