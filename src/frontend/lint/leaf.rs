//! Leaf blocks: those without blocks inside, which compute.

use crate::arith::Analyzer;
use crate::ir::visit::{for_each_subexpr, uses_var};
use crate::ir::{Block, BlockId, BufferId, Expr, ExprId, Func, IterKind, Stmt, StmtId, VarId};

/// A leaf block with its stores.
pub(super) struct Leaf {
    /// The block.
    pub block: BlockId,
    /// Stores of its body.
    pub stores: Vec<Store>,
    /// Stores of its init.
    pub init: Vec<Store>,
}

/// A store, with its indices simplified over the domains of the block's iteration variables and of inner loops.
pub(super) struct Store {
    /// The statement.
    pub stmt: StmtId,
    /// The buffer stored to.
    pub buffer: BufferId,
    /// The indices as written.
    pub written: Vec<ExprId>,
    /// The indices, simplified.
    pub indices: Vec<ExprId>,
    /// The stored value.
    pub value: ExprId,
    /// Whether it executes exactly once per block instance: not under a condition or in a loop.
    pub is_plain: bool,
}

/// The leaf blocks of a function, except those with let statements, calls for their effect, or views.
pub(super) fn leaves(func: &mut Func) -> Vec<Leaf> {
    let blocks: Vec<BlockId> = func.blocks().into_iter().filter(|&b| b != func.root).collect();
    blocks.into_iter().filter_map(|b| leaf(func, b)).collect()
}

fn leaf(func: &mut Func, block: BlockId) -> Option<Leaf> {
    let node = func.block(block).clone();
    let inside = func.subtree(block.stmt());
    let is_opaque = |&s: &StmtId| {
        s != block.stmt() && (func.as_block(s).is_some() || matches!(func.get(s), Stmt::Let { .. } | Stmt::Evaluate(_)))
    };
    if !node.matches.is_empty() || inside.iter().any(is_opaque) {
        return None;
    }
    let mut analyzer = Analyzer::new();
    for iter in &node.iters {
        analyzer.bind(&mut func.arena, iter.var, iter.min, iter.extent);
    }
    for &s in &inside {
        if let Some(l) = func.as_loop(s) {
            let (var, min, extent) = (func.loop_(l).var, func.loop_(l).min, func.loop_(l).extent);
            analyzer.bind(&mut func.arena, var, min, extent);
        }
    }
    let mut stores_in = |bodies: &[StmtId]| {
        let mut found = Vec::new();
        for &s in bodies {
            for inner in func.subtree(s) {
                let Stmt::Store { buffer, indices, value } = *func.get(inner) else { continue };
                let written = func.arena.list(indices).to_vec();
                let indices = written.iter().map(|&i| analyzer.simplify(&mut func.arena, i)).collect();
                found.push(Store { stmt: inner, buffer, written, indices, value, is_plain: inner == s });
            }
        }
        found
    };
    let stores = stores_in(&node.body);
    let init = node.init.as_ref().map_or_else(Vec::new, |init| stores_in(init));
    Some(Leaf { block, stores, init })
}

impl Leaf {
    /// The block's data.
    pub(super) fn node<'a>(&self, func: &'a Func) -> &'a Block {
        func.block(self.block)
    }

    /// Positions of the iteration variables of a kind that take more than one value.
    pub(super) fn iters(&self, func: &Func, kind: IterKind) -> Vec<usize> {
        let node = self.node(func);
        let many = |i: &usize| node.iters[*i].kind == kind && !func.arena.is_int(node.iters[*i].extent, 1);
        (0..node.iters.len()).filter(many).collect()
    }

    /// Whether every instance runs: the predicate is always true.
    pub(super) fn always_runs(&self, func: &Func) -> bool {
        func.arena.as_int(self.node(func).predicate) == Some(1)
    }

    /// The kinds of the iteration variables as written in `T.axis.remap`, with the one at `changed` replaced.
    pub(super) fn kinds_with(&self, func: &Func, changed: usize, kind: char) -> String {
        let letter = |kind: IterKind| match kind {
            IterKind::Spatial => 'S',
            IterKind::Reduce => 'R',
            IterKind::Scan => 'C',
            IterKind::Opaque => 'O',
        };
        let iters = self.node(func).iters.iter().enumerate();
        iters.map(|(i, iter)| if i == changed { kind } else { letter(iter.kind) }).collect()
    }
}

impl Store {
    /// Whether the indices depend on a variable.
    pub(super) fn place_uses(&self, func: &Func, var: VarId) -> bool {
        self.indices.iter().any(|&i| uses_var(&func.arena, i, &mut |v| v == var))
    }

    /// Whether the indices depend on loaded values, and thus on anything.
    pub(super) fn place_loads(&self, func: &Func) -> bool {
        let mut found = false;
        for &index in &self.indices {
            for_each_subexpr(&func.arena, index, &mut |e| found |= matches!(func.arena.expr(e), Expr::Load(..)));
        }
        found
    }

    /// Whether the value depends on the old value of the element.
    pub(super) fn accumulates(&self, func: &Func) -> bool {
        let mut found = false;
        for_each_subexpr(&func.arena, self.value, &mut |e| {
            if let Expr::Load(buffer, indices) = func.arena.expr(e) {
                found |= buffer == self.buffer && func.arena.list(indices) == self.written;
            }
        });
        found
    }
}
