//! Recognises reductions: finds the associative and commutative operation of a block's init and update (TVM's
//! `src/s_tir/schedule/analysis/reducer.cc` and the registry in `primitive/reduction.cc`).
//!
//! A reduction of one buffer is a store in the init and one in the body; a reduction of tuples stores several buffers
//! in each, in the body through `let` variables, so that all new values are computed from the old ones:
//!
//! ```text
//! with T.init(): I[vi] = -1; V[vi] = T.min_value("float32")
//! v_I: T.let[T.int32] = T.Select(V[vi] >= x, I[vi], y)
//! v_V: T.let[T.float32] = T.Select(V[vi] >= x, V[vi], x)
//! I[vi] = v_I; V[vi] = v_V
//! ```

use crate::ir::{Arena, BinOp, Block, BufferId, CmpOp, DType, Expr, ExprId, ExprList, Func, Stmt, VarId};
use smallvec::{SmallVec, smallvec};

/// The values of a tuple, usually a single one.
pub(crate) type Tuple = SmallVec<[ExprId; 2]>;

/// An associative and commutative operation on values or pairs of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reducer {
    /// `x + y`.
    Sum,
    /// `x * y`.
    Product,
    /// The smaller value.
    Min,
    /// The larger value.
    Max,
    /// Componentwise sums of pairs.
    SumPair,
    /// Selection between pairs of index and value by their values.
    Best(Best),
}

/// The order by which one of two pairs of index and value is selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Best {
    /// Relation of the selected value to the other one.
    value: CmpOp,
    /// Relation of the selected index to the other one if the values are equal; `None` if the comparison of the values
    /// includes equality, so that the left pair is selected.
    tie: Option<CmpOp>,
}

impl Reducer {
    /// All reducers, in TVM's order of matching.
    const ALL: [Reducer; 11] = [
        Reducer::Sum,
        Reducer::Product,
        Reducer::Min,
        Reducer::Max,
        Reducer::SumPair,
        Reducer::Best(Best { value: CmpOp::Ge, tie: None }),
        Reducer::Best(Best { value: CmpOp::Gt, tie: Some(CmpOp::Lt) }),
        Reducer::Best(Best { value: CmpOp::Le, tie: None }),
        Reducer::Best(Best { value: CmpOp::Lt, tie: Some(CmpOp::Lt) }),
        Reducer::Best(Best { value: CmpOp::Gt, tie: Some(CmpOp::Gt) }),
        Reducer::Best(Best { value: CmpOp::Lt, tie: Some(CmpOp::Gt) }),
    ];

    /// The number of values in a tuple.
    pub(crate) fn arity(self) -> usize {
        match self {
            Reducer::Sum | Reducer::Product | Reducer::Min | Reducer::Max => 1,
            Reducer::SumPair | Reducer::Best(_) => 2,
        }
    }

    /// The operation on two tuples of [`Reducer::arity`] values each.
    pub(crate) fn combine(self, arena: &mut Arena, x: &[ExprId], y: &[ExprId]) -> Tuple {
        match self {
            Reducer::Sum => smallvec![arena.add(x[0], y[0])],
            Reducer::Product => smallvec![arena.mul(x[0], y[0])],
            Reducer::Min => smallvec![arena.min(x[0], y[0])],
            Reducer::Max => smallvec![arena.max(x[0], y[0])],
            Reducer::SumPair => smallvec![arena.add(x[0], y[0]), arena.add(x[1], y[1])],
            Reducer::Best(best) => {
                let value_wins = arena.compare(best.value, x[1], y[1]);
                let index_wins = match best.tie {
                    None => value_wins,
                    Some(tie) => {
                        let equal = arena.compare(CmpOp::Eq, x[1], y[1]);
                        let first = arena.compare(tie, x[0], y[0]);
                        let at_tie = arena.and(equal, first);
                        arena.or(value_wins, at_tie)
                    }
                };
                smallvec![arena.select(index_wins, x[0], y[0]), arena.select(value_wins, x[1], y[1])]
            }
        }
    }

    /// The identity: the tuple that changes no other when combined with it.
    pub(crate) fn identity(self, arena: &mut Arena, types: &[DType]) -> Tuple {
        let limit = |arena: &mut Arena, value: Result<i64, f64>, dtype: DType| match value {
            Ok(v) => arena.int(v, dtype),
            Err(v) => arena.float(v, dtype),
        };
        match self {
            Reducer::Sum => smallvec![arena.constant(0, types[0])],
            Reducer::Product => smallvec![arena.constant(1, types[0])],
            Reducer::Min => smallvec![limit(arena, types[0].max_value(), types[0])],
            Reducer::Max => smallvec![limit(arena, types[0].min_value(), types[0])],
            Reducer::SumPair => smallvec![arena.constant(0, types[0]), arena.constant(0, types[1])],
            Reducer::Best(best) => {
                let worst = match best.value {
                    CmpOp::Ge | CmpOp::Gt => types[1].min_value(),
                    CmpOp::Le | CmpOp::Lt | CmpOp::Eq | CmpOp::Ne => types[1].max_value(),
                };
                smallvec![arena.constant(-1, types[0]), limit(arena, worst, types[1])]
            }
        }
    }

    /// The values that are combined with the left side, if the values match this reducer.
    fn right_side(self, arena: &Arena, values: &[ExprId]) -> Option<Tuple> {
        let operand = |op: BinOp, e: ExprId| match arena.expr(e) {
            Expr::Binary(found, _, right) if found == op => Some(right),
            _ => None,
        };
        let otherwise = |e: ExprId| match arena.expr(e) {
            Expr::Select(_, _, right) => Some(right),
            _ => None,
        };
        match self {
            Reducer::Sum | Reducer::SumPair => values.iter().map(|&v| operand(BinOp::Add, v)).collect(),
            Reducer::Product => values.iter().map(|&v| operand(BinOp::Mul, v)).collect(),
            Reducer::Min => values.iter().map(|&v| operand(BinOp::Min, v)).collect(),
            Reducer::Max => values.iter().map(|&v| operand(BinOp::Max, v)).collect(),
            Reducer::Best(_) => values.iter().map(|&v| otherwise(v)).collect(),
        }
    }
}

/// A store of a reduction's update; its value may come from a `let`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Update {
    /// The buffer.
    pub buffer: BufferId,
    /// Indices of the element.
    pub indices: ExprList,
    /// The value, combined from the old one.
    pub value: ExprId,
}

/// A recognised reduction block.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    /// The operation.
    pub reducer: Reducer,
    /// The stores of the update, in the order of the tuple.
    pub updates: SmallVec<[Update; 2]>,
    /// The old values: loads of the elements to which the updates store.
    pub lhs: Tuple,
    /// The values combined with them.
    pub rhs: Tuple,
}

/// The reason why a block is not recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotRecognised {
    /// Init or body do not have the required form.
    Form(&'static str),
    /// The form is right, but the operation is unknown.
    Operation,
}

/// The reduction of a block.
///
/// # Errors
///
/// The first violated requirement.
pub(crate) fn recognise(func: &mut Func, block: &Block) -> Result<Reduction, NotRecognised> {
    use NotRecognised::Form;
    let inits = init_stores(func, block)?;
    let updates = update_stores(func, block, inits.len())?;
    if updates.len() != inits.len() {
        return Err(Form("init and body store different numbers of buffers"));
    }
    let arena = &mut func.arena;
    let shape = arena.buffer(updates[0].buffer).shape;
    let indices = updates[0].indices;
    let mut identities: SmallVec<[Option<ExprId>; 2]> = smallvec![None; updates.len()];
    for (init, update) in inits.iter().zip(&updates) {
        if arena.buffer(update.buffer).shape != shape {
            return Err(Form("the buffers differ in shape"));
        }
        if init.indices != indices || update.indices != indices {
            return Err(Form("the buffers are accessed at different indices"));
        }
        let Some(i) = updates.iter().position(|u| u.buffer == init.buffer) else {
            return Err(Form("init and body store different buffers"));
        };
        identities[i] = Some(init.value);
    }
    let identities: Tuple = identities.into_iter().flatten().collect();
    let values: Tuple = updates.iter().map(|u| u.value).collect();
    let types: SmallVec<[DType; 2]> = values.iter().map(|&v| arena.dtype(v)).collect();
    let index_list: SmallVec<[ExprId; 4]> = arena.list(indices).iter().copied().collect();
    let lhs: Tuple = updates.iter().map(|u| arena.load(u.buffer, &index_list)).collect();
    for reducer in Reducer::ALL.into_iter().filter(|r| r.arity() == values.len()) {
        let Some(rhs) = reducer.right_side(arena, &values) else { continue };
        if rhs.iter().zip(&types).all(|(&r, &t)| arena.dtype(r) == t)
            && reducer.identity(arena, &types) == identities
            && reducer.combine(arena, &lhs, &rhs) == values
        {
            return Ok(Reduction { reducer, updates, lhs, rhs });
        }
    }
    Err(NotRecognised::Operation)
}

fn init_stores(func: &Func, block: &Block) -> Result<SmallVec<[Update; 2]>, NotRecognised> {
    let mut stores: SmallVec<[Update; 2]> = SmallVec::new();
    for &s in block.init.iter().flatten() {
        let Stmt::Store { buffer, indices, value } = *func.get(s) else {
            return Err(NotRecognised::Form("its init is more than stores"));
        };
        if stores.iter().any(|u| u.buffer == buffer) {
            return Err(NotRecognised::Form("its init stores a buffer twice"));
        }
        stores.push(Update { buffer, indices, value });
    }
    if stores.is_empty() { Err(NotRecognised::Form("its init is empty")) } else { Ok(stores) }
}

/// The stores of the body: a single one, or `count` stores below `count` `let`s.
fn update_stores(func: &Func, block: &Block, count: usize) -> Result<SmallVec<[Update; 2]>, NotRecognised> {
    use NotRecognised::Form;
    let mut body = &block.body;
    if let [s] = body[..]
        && let Stmt::Store { buffer, indices, value } = *func.get(s)
    {
        return Ok(smallvec![Update { buffer, indices, value }]);
    }
    let mut lets: SmallVec<[(VarId, ExprId); 2]> = SmallVec::new();
    while let [s] = body[..]
        && let Stmt::Let { var, value, body: inner } = func.get(s)
    {
        lets.push((*var, *value));
        body = inner;
    }
    if lets.len() != count {
        return Err(Form("its body has not one `let` per buffer that the init stores"));
    }
    if body.len() != count {
        return Err(Form("its body has not one store per `let`"));
    }
    let mut updates: SmallVec<[Option<Update>; 2]> = smallvec![None; count];
    for &s in body {
        let Stmt::Store { buffer, indices, value } = *func.get(s) else {
            return Err(Form("its body is more than `let`s and stores"));
        };
        let position = func.arena.as_var(value).and_then(|v| lets.iter().position(|l| l.0 == v));
        let Some(i) = position else { return Err(Form("a store in its body stores no `let` variable")) };
        if updates[i].is_some() {
            return Err(Form("a `let` variable is stored twice"));
        }
        if updates.iter().flatten().any(|u| u.buffer == buffer) {
            return Err(Form("its body stores a buffer twice"));
        }
        updates[i] = Some(Update { buffer, indices, value: lets[i].1 });
    }
    Ok(updates.into_iter().flatten().collect())
}
