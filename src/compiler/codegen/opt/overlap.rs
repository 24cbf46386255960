//! Combines what several results of overlapping windows need once.
//!
//! ```text
//! a = max(a, X[0]); a = max(a, X[1]); a = max(a, X[2]); a = max(a, X[3])
//! b = max(b, X[2]); b = max(b, X[3]); b = max(b, X[4]); b = max(b, X[5])
//! // becomes
//! let t = max(X[2], X[3])
//! a = max(a, X[0]); a = max(a, X[1]); a = max(a, t)
//! b = max(b, t); b = max(b, X[4]); b = max(b, X[5])
//! ```
//!
//! The windows of pooling overlap: each row of an image, reduced along the row, serves several rows of results. Terms that
//! the same results need are combined first, then neighbouring terms that two results need. Where a reduction loop is left
//! around the window, each set of terms is accumulated in the loop, and the results are computed from these after it:
//!
//! ```text
//! for k in 9: a = max(a, X[k]); a = max(a, Y[k]); b = max(b, Y[k]); b = max(b, Z[k])
//! // becomes
//! x = -inf; y = -inf; z = -inf
//! for k in 9: x = max(x, X[k]); y = max(y, Y[k]); z = max(z, Z[k])
//! a = max(max(a, x), y); b = max(max(b, y), z)
//! ```
//!
//! Sums of products with a weight for each place of the window have no common terms, and stay. Floats are combined in another
//! order, so this is not done if they must be computed as written.

use super::machine::Machine;
use crate::codegen::facts::{fails, neutral};
use crate::ir::BinOp;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{Arena, Body, Expr, ExprId, For, Iterations, Kernel, LocalId, LoopKind, Stmt, StmtId, Ty};
use hashbrown::HashMap;

/// Maximum number of results whose terms are compared.
const MAX_RESULTS: usize = 64;

/// Vector registers that are reserved for operands.
const KEPT: usize = 4;

/// Combines common terms in the whole kernel.
pub(super) fn overlap(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, machine);
}

fn body(kernel: &mut Kernel, old: Body, machine: &Machine) -> Body {
    let stmts = kernel.stmts.list(old).to_vec();
    let mut out: Vec<StmtId> = Vec::with_capacity(stmts.len());
    let is_set = |kernel: &Kernel, s: StmtId| matches!(kernel.stmts.get(s), Stmt::Set { .. });
    let mut rest = &stmts[..];
    while let Some(&first) = rest.first() {
        if is_set(kernel, first) {
            let (run, others) = rest.split_at(rest.iter().take_while(|&&s| is_set(kernel, s)).count());
            rest = others;
            match Run::of(kernel, run, machine).and_then(|run| run.shared(kernel, machine)) {
                Some(new) => out.extend(new),
                None => out.extend(run),
            }
            continue;
        }
        rest = &rest[1..];
        let old = kernel.stmts.get(first);
        let new = match old {
            Stmt::For(l) => match in_loop(kernel, l, machine) {
                Some(new) => {
                    out.extend(new);
                    continue;
                }
                None => Stmt::For(For { body: body(kernel, l.body, machine), ..l }),
            },
            Stmt::If { condition, then, otherwise } => {
                Stmt::If { condition, then: body(kernel, then, machine), otherwise: body(kernel, otherwise, machine) }
            }
            Stmt::While { running, body: inner } => Stmt::While { running, body: body(kernel, inner, machine) },
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => old,
        };
        out.push(if new == old { first } else { kernel.stmts.push(new) });
    }
    if stmts == out { old } else { kernel.stmts.body(&out) }
}

/// The replacement of a reduction whose body only updates results, if they share terms.
fn in_loop(kernel: &mut Kernel, l: For, machine: &Machine) -> Option<Vec<StmtId>> {
    let runs = kernel.arena.as_int(l.extent).is_some_and(|n| n > 1);
    if l.iterations != Iterations::Reduction || l.kind != LoopKind::Serial || !runs {
        return None;
    }
    let stmts = kernel.stmts.list(l.body).to_vec();
    let run = Run::of(kernel, &stmts, machine)?;
    if run.results.iter().any(|r| r.start.is_some()) {
        return None;
    }
    if !run.shares_vectors(&kernel.arena) {
        return None;
    }
    let classes = run.classes();
    let n_terms = classes.iter().map(|c| c.terms.len()).sum::<usize>();
    let in_registers = |n: usize| n * machine.vectors.registers_of(run.ty.dtype, run.ty.lanes as usize);
    // All partial results live after the loop, when the first results are computed.
    let room = machine.vectors.registers.saturating_sub(KEPT);
    if n_terms >= run.n_updates() || in_registers(classes.len() + run.results.len()) > room {
        return None;
    }
    let start = neutral(&mut kernel.arena, run.op, run.ty.dtype)?;
    let start = kernel.arena.broadcast_to(start, run.ty.lanes);
    let (mut out, mut inside) = (Vec::new(), Vec::new());
    let mut results = run.results.clone();
    results.iter_mut().for_each(|r| r.terms.clear());
    for class in &classes {
        let name = kernel.arena.local(run.results[0].local).name;
        let local = kernel.arena.new_local(name, run.ty);
        let part = kernel.arena.local_expr(local);
        out.push(kernel.stmts.push(Stmt::Set { local, value: start }));
        for &term in &class.terms {
            let value = kernel.arena.binary(run.op, part, term);
            inside.push(kernel.stmts.push(Stmt::Set { local, value }));
        }
        results.iter_mut().enumerate().filter(|(i, _)| class.of >> i & 1 == 1).for_each(|(_, r)| r.terms.push(part));
    }
    let body = kernel.stmts.body(&inside);
    out.push(kernel.stmts.push(Stmt::For(For { body, ..l })));
    let after = Run { results, ..run };
    match after.clone().shared(kernel, machine) {
        Some(new) => out.extend(new),
        None => {
            let items = after.items();
            out.extend(after.emit(kernel, &items));
        }
    }
    Some(out)
}

/// A result that statements accumulate.
#[derive(Clone, Debug)]
struct Accumulated {
    local: LocalId,
    /// The value that it is set to first; `None` if it has one before.
    start: Option<ExprId>,
    /// What is added to it.
    terms: Vec<ExprId>,
}

/// Statements that accumulate several results by one operation.
#[derive(Clone, Debug)]
struct Run {
    op: BinOp,
    ty: Ty,
    results: Vec<Accumulated>,
}

/// Terms that the same results need, whose numbers are bits.
struct TermClass {
    of: u64,
    terms: Vec<ExprId>,
}

/// The values that results are computed from: terms, and combinations of them.
struct Items {
    all: Vec<Item>,
    /// The items of each result.
    of: Vec<Vec<usize>>,
}

/// A term or a combination.
enum Item {
    Terms(Vec<ExprId>),
    Pair(usize, usize),
}

impl Run {
    /// The statements as accumulations, without terms that change nothing.
    fn of(kernel: &Kernel, stmts: &[StmtId], machine: &Machine) -> Option<Run> {
        let arena = &kernel.arena;
        let mut results: Vec<Accumulated> = Vec::new();
        let mut operation: Option<(BinOp, Ty)> = None;
        for &s in stmts {
            let Stmt::Set { local, value } = kernel.stmts.get(s) else { return None };
            let at = results.iter().position(|r| r.local == local);
            let Some((op, term)) = updated(arena, local, value) else {
                if at.is_some() || reads_registers(arena, value) {
                    return None;
                }
                results.push(Accumulated { local, start: Some(value), terms: Vec::new() });
                continue;
            };
            if reads_registers(arena, term) || fails(arena, term) {
                return None;
            }
            let ty = arena.ty(value);
            if *operation.get_or_insert((op, ty)) != (op, ty) {
                return None;
            }
            let at = at.unwrap_or_else(|| {
                results.push(Accumulated { local, start: None, terms: Vec::new() });
                results.len() - 1
            });
            results[at].terms.push(term);
        }
        let (op, ty) = operation?;
        let is_exact = !ty.dtype.is_float() || machine.reassociates;
        if !is_exact || results.len() < 2 || results.len() > MAX_RESULTS {
            return None;
        }
        let is_idempotent = matches!(op, BinOp::Min | BinOp::Max);
        for r in &mut results {
            let mut terms: Vec<ExprId> = Vec::with_capacity(r.terms.len());
            for &term in &r.terms {
                if is_idempotent {
                    if Some(term) != r.start && !terms.contains(&term) {
                        terms.push(term);
                    }
                } else if terms.contains(&term) {
                    return None;
                } else {
                    terms.push(term);
                }
            }
            r.terms = terms;
        }
        Some(Run { op, ty, results })
    }

    /// Number of operations as written.
    fn n_updates(&self) -> usize {
        self.results.iter().map(|r| r.terms.len()).sum()
    }

    /// The distinct terms by the results that need them, in order of their first appearance.
    fn classes(&self) -> Vec<TermClass> {
        let mut order: Vec<ExprId> = Vec::new();
        let mut users: HashMap<ExprId, u64, FxBuild> = HashMap::default();
        // The first terms of all results come first, as in the statements of a window.
        let longest = self.results.iter().map(|r| r.terms.len()).max().unwrap_or(0);
        for n in 0..longest {
            for (i, r) in self.results.iter().enumerate() {
                let Some(&term) = r.terms.get(n) else { continue };
                let users = users.entry(term).or_insert_with(|| {
                    order.push(term);
                    0
                });
                *users |= 1 << i;
            }
        }
        let mut classes: Vec<TermClass> = Vec::new();
        let mut known: HashMap<u64, usize, FxBuild> = HashMap::default();
        for term in order {
            let of = users[&term];
            let at = *known.entry(of).or_insert_with(|| {
                classes.push(TermClass { of, terms: Vec::new() });
                classes.len() - 1
            });
            classes[at].terms.push(term);
        }
        classes
    }

    /// Whether several results need a term that is a vector of its own. What is the same in all lanes, such as a row of padding, is
    /// not worth another order of the others.
    fn shares_vectors(&self, arena: &Arena) -> bool {
        let is_vector = |e: ExprId| !matches!(arena.expr(e), Expr::Broadcast(_));
        self.classes().iter().any(|c| c.of.count_ones() > 1 && c.terms.iter().any(|&t| is_vector(t)))
    }

    /// The terms as items, those combined that the same results need.
    fn items(&self) -> Items {
        let mut items = Items { all: Vec::new(), of: vec![Vec::new(); self.results.len()] };
        for class in self.classes() {
            let number = items.all.len();
            items.all.push(Item::Terms(class.terms));
            items.of.iter_mut().enumerate().filter(|(i, _)| class.of >> i & 1 == 1).for_each(|(_, of)| of.push(number));
        }
        items
    }

    /// The statements with common terms combined; `None` if there are none, or not enough registers.
    fn shared(&self, kernel: &mut Kernel, machine: &Machine) -> Option<Vec<StmtId>> {
        if !self.shares_vectors(&kernel.arena) {
            return None;
        }
        let mut items = self.items();
        let separate = items.n_operations();
        let registers = machine.vectors.registers_of(self.ty.dtype, self.ty.lanes as usize);
        let fits = |items: &Items| items.most_live() * registers + KEPT <= machine.vectors.registers;
        let mut paired = self.items();
        paired.pair_up();
        if paired.n_operations() < separate && fits(&paired) {
            items = paired;
        } else if separate >= self.n_updates() || !fits(&items) {
            return None;
        }
        Some(self.emit(kernel, &items))
    }

    /// The statements that compute the results from items. An item is computed before its first use.
    fn emit(&self, kernel: &mut Kernel, items: &Items) -> Vec<StmtId> {
        let uses = items.uses();
        let mut names: Vec<Option<ExprId>> = vec![None; items.all.len()];
        let mut out = Vec::new();
        for (r, of) in self.results.iter().zip(&items.of) {
            let own = kernel.arena.local_expr(r.local);
            let mut start = r.start;
            if let (Some(value), true) = (start, of.is_empty()) {
                out.push(kernel.stmts.push(Stmt::Set { local: r.local, value }));
            }
            for &item in of {
                let term = self.value(kernel, items, &uses, item, &mut names, &mut out);
                let sum = start.take().unwrap_or(own);
                let value = kernel.arena.binary(self.op, sum, term);
                out.push(kernel.stmts.push(Stmt::Set { local: r.local, value }));
            }
        }
        out
    }

    /// An item's value, which gets a name if it is computed and used several times.
    fn value(
        &self,
        kernel: &mut Kernel,
        items: &Items,
        uses: &[usize],
        item: usize,
        names: &mut [Option<ExprId>],
        out: &mut Vec<StmtId>,
    ) -> ExprId {
        if let Some(known) = names[item] {
            return known;
        }
        let value = match &items.all[item] {
            Item::Terms(terms) => {
                let (&first, rest) = terms.split_first().expect("a class has a term");
                rest.iter().fold(first, |sum, &term| kernel.arena.binary(self.op, sum, term))
            }
            &Item::Pair(a, b) => {
                let a = self.value(kernel, items, uses, a, names, out);
                let b = self.value(kernel, items, uses, b, names, out);
                kernel.arena.binary(self.op, a, b)
            }
        };
        if uses[item] < 2 || matches!(&items.all[item], Item::Terms(terms) if terms.len() == 1) {
            return value;
        }
        let var = kernel.arena.new_var("t", self.ty);
        out.push(kernel.stmts.push(Stmt::Let { var, value }));
        let name = kernel.arena.var_expr(var);
        names[item] = Some(name);
        name
    }
}

impl Items {
    /// Number of operations that compute the results.
    fn n_operations(&self) -> usize {
        let inside = |item: &Item| match item {
            Item::Terms(terms) => terms.len() - 1,
            Item::Pair(..) => 1,
        };
        self.all.iter().map(inside).sum::<usize>() + self.of.iter().map(Vec::len).sum::<usize>()
    }

    /// Number of uses of each item.
    fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.all.len()];
        self.of.iter().flatten().for_each(|&item| uses[item] += 1);
        for item in &self.all {
            if let &Item::Pair(a, b) = item {
                uses[a] += 1;
                uses[b] += 1;
            }
        }
        uses
    }

    /// Replaces neighbours that several results need, the most needed ones first.
    fn pair_up(&mut self) {
        loop {
            let mut order: Vec<(usize, usize)> = Vec::new();
            let mut counts: HashMap<(usize, usize), usize, FxBuild> = HashMap::default();
            for pair in self.of.iter().flat_map(|of| of.windows(2)) {
                let count = counts.entry((pair[0], pair[1])).or_insert_with(|| {
                    order.push((pair[0], pair[1]));
                    0
                });
                *count += 1;
            }
            // The first of the most frequent ones.
            let best = order.into_iter().rev().max_by_key(|pair| counts[pair]);
            let Some(best) = best.filter(|pair| counts[pair] > 1) else { return };
            let number = self.all.len();
            self.all.push(Item::Pair(best.0, best.1));
            for of in &mut self.of {
                if let Some(at) = of.windows(2).position(|pair| (pair[0], pair[1]) == best) {
                    of.splice(at..at + 2, [number]);
                }
            }
        }
    }

    /// The most values that are live at the same time, if results are computed one after the other and all kept.
    fn most_live(&self) -> usize {
        let mut last_use = vec![0; self.all.len()];
        let mut first_use = vec![usize::MAX; self.all.len()];
        let mut mark = |items: &Items, item: usize, at: usize| {
            let mut open = vec![item];
            while let Some(item) = open.pop() {
                last_use[item] = at;
                // Once it is computed, its parts are not needed for it.
                if first_use[item] == usize::MAX {
                    first_use[item] = at;
                    if let Item::Pair(a, b) = items.all[item] {
                        open.extend([a, b]);
                    }
                }
            }
        };
        for (at, of) in self.of.iter().enumerate() {
            of.iter().for_each(|&item| mark(self, item, at));
        }
        let live = |at: usize| (0..self.all.len()).filter(|&i| first_use[i] <= at && at <= last_use[i]).count();
        (0..self.of.len()).map(|at| at + 1 + live(at)).max().unwrap_or(0)
    }
}

/// The operation and the term of an update of a register.
fn updated(arena: &Arena, local: LocalId, value: ExprId) -> Option<(BinOp, ExprId)> {
    let Expr::Binary(op @ (BinOp::Add | BinOp::Min | BinOp::Max), a, b) = arena.expr(value) else { return None };
    let is_own = |e| arena.expr(e) == Expr::Local(local);
    match (is_own(a), is_own(b)) {
        (true, false) => Some((op, b)),
        (false, true) => Some((op, a)),
        _ => None,
    }
}

/// Whether an expression reads registers of the loop IR.
pub(super) fn reads_registers(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| found |= matches!(arena.expr(e), Expr::Local(_)));
    found
}
