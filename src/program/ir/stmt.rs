//! Statements: the loop and block tree of a function.
//!
//! Statements are stored in one table ([`Stmts`]) and named by ids that survive rewriting: a loop or block keeps its id
//! as long as it exists, even if its surroundings change, and ids are never reused. A statement list is a [`Body`];
//! there is no sequence node. Parents are stored beside the nodes and always agree with the bodies.

use super::attr::{Annotations, AttrValue};
use super::buffer::{BufferId, BufferRegion};
use super::expr::{ExprId, ExprList, VarId, id};
use super::outline::Outline;
use super::symbol::Symbol;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

id! {
    /// A statement.
    pub StmtId
}
id! {
    /// A loop: the id of a loop statement.
    pub LoopId
}
id! {
    /// A block: the id of a block statement.
    pub BlockId
}

impl LoopId {
    /// The loop as a statement.
    pub fn stmt(self) -> StmtId {
        StmtId(self.0)
    }
}

impl BlockId {
    /// The block as a statement.
    pub fn stmt(self) -> StmtId {
        StmtId(self.0)
    }
}

impl From<LoopId> for StmtId {
    fn from(l: LoopId) -> Self {
        l.stmt()
    }
}

impl From<BlockId> for StmtId {
    fn from(b: BlockId) -> Self {
        b.stmt()
    }
}

/// Statements that run one after the other.
pub type Body = SmallVec<[StmtId; 4]>;

/// Execution order of a loop's iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LoopKind {
    /// One after the other.
    Serial,
    /// Spread over threads; iterations must not depend on each other.
    Parallel,
    /// As vector lanes; iterations must not depend on each other.
    Vectorized,
    /// One after the other, written out.
    Unrolled,
    /// Bound to a thread axis of a GPU. On a CPU, an emulation: blocks of threads run in parallel, the threads of a block one
    /// after the other ([`barriers`](super::barriers)).
    ThreadBinding(Symbol),
}

/// `for var in range(min, min + extent, step)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// The loop variable.
    pub var: VarId,
    /// First value of the variable.
    pub min: ExprId,
    /// Size of the range: all values are smaller than `min + extent`. Without a step, the number of iterations.
    pub extent: ExprId,
    /// Difference of successive values. `None` means 1; the step is never the constant 1.
    pub step: Option<ExprId>,
    /// Execution order of the iterations.
    pub kind: LoopKind,
    /// Annotations, for schedules and code generation.
    pub annotations: Annotations,
    /// The statements of an iteration.
    pub body: Body,
}

/// Dependences between the values of a block's iteration variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IterKind {
    /// Data-parallel: instances are independent and write disjoint places.
    Spatial,
    /// Instances combine into one place by a commutative, associative operation.
    Reduce,
    /// Each instance depends on the previous ones (`T.axis.scan`).
    Scan,
    /// Unknown.
    Opaque,
}

impl IterKind {
    /// The name after `T.axis.`.
    pub fn name(self) -> &'static str {
        match self {
            IterKind::Spatial => "spatial",
            IterKind::Reduce => "reduce",
            IterKind::Scan => "scan",
            IterKind::Opaque => "opaque",
        }
    }
}

/// An iteration variable of a block, and the value to which the block's realization binds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockIter {
    /// The variable.
    pub var: VarId,
    /// First value of the domain.
    pub min: ExprId,
    /// Size of the domain.
    pub extent: ExprId,
    /// Kind of its dependences.
    pub kind: IterKind,
    /// The value, an expression over the loops around the block (TVM's `iter_values` of the block's realize).
    pub value: ExprId,
}

/// `buffer = T.match_buffer(source[…])`: a view of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatchBuffer {
    /// The view.
    pub buffer: BufferId,
    /// The viewed region.
    pub source: BufferRegion,
}

/// A block with its realization: the unit of scheduling.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Name of the block, by which schedules find it.
    pub name: Symbol,
    /// Iteration variables with their bindings.
    pub iters: Vec<BlockIter>,
    /// Condition under which the instance runs, over the loops around the block (`T.where`).
    pub predicate: ExprId,
    /// Regions that an instance reads, over the iteration variables.
    pub reads: Vec<BufferRegion>,
    /// Regions that an instance writes, over the iteration variables.
    pub writes: Vec<BufferRegion>,
    /// Buffers that are allocated for each instance.
    pub allocs: Vec<BufferId>,
    /// Views of regions.
    pub matches: Vec<MatchBuffer>,
    /// Annotations, for schedules and code generation.
    pub annotations: Annotations,
    /// Statements that run before the body if all reduction iteration variables are at their first value.
    pub init: Option<Body>,
    /// The computation.
    pub body: Body,
}

/// `with T.attr(node, key, value): body`, or `T.attr(node, key, value)` followed by `body`.
#[derive(Clone, PartialEq, Debug)]
pub struct Attr {
    /// The subject of the attribute: usually `0`.
    pub node: AttrValue,
    /// Name of the attribute.
    pub key: Symbol,
    /// Value of the attribute.
    pub value: ExprId,
    /// The statements in its scope.
    pub body: Body,
}

/// `assert condition, (kind, [parts…])`.
#[derive(Clone, PartialEq, Debug)]
pub struct Assert {
    /// The asserted condition.
    pub condition: ExprId,
    /// The Python exception of a failure, such as `RuntimeError`.
    pub kind: Symbol,
    /// The parts of the message.
    pub message: Vec<Symbol>,
}

impl Assert {
    /// The whole message.
    pub fn text(&self) -> String {
        self.message.iter().map(|part| part.as_str()).collect()
    }
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// A loop.
    Loop(Loop),
    /// A block and its place.
    Block(Box<Block>),
    /// `buffer[indices] = value`.
    Store {
        /// The written buffer.
        buffer: BufferId,
        /// Indices of the element.
        indices: ExprList,
        /// The stored value, of the buffer's type.
        value: ExprId,
    },
    /// `if condition: then else: otherwise`.
    If {
        /// The condition, a boolean.
        condition: ExprId,
        /// Statements that run if the condition holds.
        then: Body,
        /// Statements that run if the condition does not hold; may be empty.
        otherwise: Body,
    },
    /// `with T.LetStmt(value, var=var): body`, or `var: T.let[…] = value` followed by `body`.
    Let {
        /// The bound variable.
        var: VarId,
        /// Value of the variable.
        value: ExprId,
        /// The scope of the variable.
        body: Body,
    },
    /// `T.evaluate(value)`: evaluates a call for its effect.
    Evaluate(ExprId),
    /// `buffer = T.alloc_buffer(…)` as a statement: memory that lives to the end of the statement list.
    /// ([`Block::allocs`] has the allocations by `T.sblock_alloc_buffer`.)
    Alloc {
        /// The buffer, in scope in the rest of the list.
        buffer: BufferId,
        /// Annotations.
        annotations: Annotations,
    },
    /// `buffer = T.decl_buffer(…, data=data)`: another name for existing memory.
    Declare {
        /// The buffer, in scope in the rest of the list.
        buffer: BufferId,
        /// The address of the memory: a handle.
        data: ExprId,
    },
    /// `while condition: body`.
    While {
        /// The condition, evaluated before each iteration: a boolean or an integer, which is true if it is not 0.
        condition: ExprId,
        /// The statements of an iteration.
        body: Body,
    },
    /// Ends the innermost enclosing loop.
    Break,
    /// Continues with the next iteration of the innermost enclosing loop.
    Continue,
    /// `return value`: ends the function.
    Return(ExprId),
    /// An assertion.
    Assert(Box<Assert>),
    /// An attribute of statements.
    Attr(Box<Attr>),
}

impl Stmt {
    /// The lists of statements directly inside, in order: a block's `init` before its body, `then` before
    /// `otherwise`.
    pub fn bodies(&self) -> SmallVec<[&Body; 2]> {
        match self {
            Stmt::Loop(l) => SmallVec::from_slice(&[&l.body]),
            Stmt::Block(b) => b.init.iter().chain([&b.body]).collect(),
            Stmt::If { then, otherwise, .. } => SmallVec::from_slice(&[then, otherwise]),
            Stmt::Let { body, .. } | Stmt::While { body, .. } => SmallVec::from_slice(&[body]),
            Stmt::Attr(a) => SmallVec::from_slice(&[&a.body]),
            Stmt::Store { .. }
            | Stmt::Evaluate(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => SmallVec::new(),
        }
    }

    fn bodies_mut(&mut self) -> SmallVec<[&mut Body; 2]> {
        match self {
            Stmt::Loop(l) => [&mut l.body].into_iter().collect(),
            Stmt::Block(b) => {
                let b = &mut **b;
                b.init.iter_mut().chain([&mut b.body]).collect()
            }
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().collect(),
            Stmt::Let { body, .. } | Stmt::While { body, .. } => [body].into_iter().collect(),
            Stmt::Attr(a) => [&mut a.body].into_iter().collect(),
            Stmt::Store { .. }
            | Stmt::Evaluate(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => SmallVec::new(),
        }
    }

    /// Replaces the lists of [`Stmt::bodies`]; their number must be the same.
    pub(crate) fn replace_bodies(&mut self, new: Vec<Body>) {
        for (slot, list) in self.bodies_mut().into_iter().zip(new) {
            *slot = list;
        }
    }

    /// The statements directly inside, in order.
    pub fn children(&self) -> SmallVec<[StmtId; 8]> {
        match self {
            Stmt::Loop(l) => SmallVec::from_slice(&l.body),
            _ => self.bodies().into_iter().flatten().copied().collect(),
        }
    }
}

/// The position of a statement in its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The parent.
    pub parent: StmtId,
    /// Index of the list among [`Stmt::bodies`] of the parent.
    pub body: usize,
    /// Index in that list.
    pub position: usize,
}

/// The table of statements of a function. Removed statements stay as unreachable entries, so that an id found in a
/// message or trace never comes to mean something else.
#[derive(Clone, Default)]
pub struct Stmts {
    nodes: Vec<Stmt>,
    parents: Vec<Option<StmtId>>,
    /// Made on demand; removed by any change of a block or its position.
    outline: OnceLock<Arc<Outline>>,
    /// Statements that were changed, moved, added or removed since [`Stmts::take_touched`]; a changed list touches its
    /// parent.
    touched: Vec<StmtId>,
}

impl Stmts {
    /// Adds a statement; the contained statements become its children.
    pub fn add(&mut self, stmt: Stmt) -> StmtId {
        self.outline.take();
        let id = StmtId(self.nodes.len() as u32);
        for child in stmt.children() {
            self.parents[child.index()] = Some(id);
        }
        self.nodes.push(stmt);
        self.parents.push(None);
        self.touch(id);
        id
    }

    /// Adds a loop.
    pub fn add_loop(&mut self, l: Loop) -> LoopId {
        LoopId(self.add(Stmt::Loop(l)).0)
    }

    /// Adds a block.
    pub fn add_block(&mut self, b: Block) -> BlockId {
        BlockId(self.add(Stmt::Block(Box::new(b))).0)
    }

    /// The statement.
    pub fn get(&self, s: StmtId) -> &Stmt {
        &self.nodes[s.index()]
    }

    /// The number of entries; ids are smaller.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The statement as a loop's id.
    pub fn as_loop(&self, s: StmtId) -> Option<LoopId> {
        matches!(self.get(s), Stmt::Loop(_)).then_some(LoopId(s.0))
    }

    /// The statement as a block's id.
    pub fn as_block(&self, s: StmtId) -> Option<BlockId> {
        matches!(self.get(s), Stmt::Block(_)).then_some(BlockId(s.0))
    }

    /// The loop.
    pub fn loop_(&self, l: LoopId) -> &Loop {
        match self.get(l.stmt()) {
            Stmt::Loop(node) => node,
            other => unreachable!("a LoopId names a loop, found {other:?}"),
        }
    }

    /// The block.
    pub fn block(&self, b: BlockId) -> &Block {
        match self.get(b.stmt()) {
            Stmt::Block(node) => node,
            other => unreachable!("a BlockId names a block, found {other:?}"),
        }
    }

    /// The loop, for changes except of its body (see [`Stmts::set_body`]).
    pub fn loop_mut(&mut self, l: LoopId) -> &mut Loop {
        self.touch(l.stmt());
        match &mut self.nodes[l.index()] {
            Stmt::Loop(node) => node,
            other => unreachable!("a LoopId names a loop, found {other:?}"),
        }
    }

    /// The block, for changes except of its body and init (see [`Stmts::set_body`], [`Stmts::set_init`]).
    pub fn block_mut(&mut self, b: BlockId) -> &mut Block {
        self.outline.take();
        self.touch(b.stmt());
        match &mut self.nodes[b.index()] {
            Stmt::Block(node) => node,
            other => unreachable!("a BlockId names a block, found {other:?}"),
        }
    }

    /// The statement, for changes of its expressions. Its statement lists must stay unchanged.
    pub fn stmt_mut(&mut self, s: StmtId) -> &mut Stmt {
        if matches!(self.get(s), Stmt::Block(_)) {
            self.outline.take();
        }
        self.touch(s);
        &mut self.nodes[s.index()]
    }

    fn touch(&mut self, s: StmtId) {
        if self.touched.last() != Some(&s) {
            self.touched.push(s);
        }
    }

    /// Whether a statement was changed, moved, added or removed since [`Stmts::take_touched`].
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The statements that were changed, moved, added or removed since the last call, possibly with repetitions.
    pub fn take_touched(&mut self) -> Vec<StmtId> {
        std::mem::take(&mut self.touched)
    }

    /// The stored outline, or a new one.
    pub(super) fn kept_outline(&self, make: impl FnOnce() -> Outline) -> &Arc<Outline> {
        self.outline.get_or_init(|| Arc::new(make()))
    }

    /// The parent of a statement; `None` for a function's root block and for removed statements.
    pub fn parent(&self, s: StmtId) -> Option<StmtId> {
        self.parents[s.index()]
    }

    /// The enclosing statements, innermost first.
    pub fn ancestors(&self, s: StmtId) -> impl Iterator<Item = StmtId> + '_ {
        std::iter::successors(self.parent(s), |&p| self.parent(p))
    }

    /// The position of a statement in its parent.
    pub fn place(&self, s: StmtId) -> Option<Place> {
        let parent = self.parent(s)?;
        self.get(parent)
            .bodies()
            .iter()
            .enumerate()
            .find_map(|(body, list)| list.iter().position(|&c| c == s).map(|position| Place { parent, body, position }))
    }

    /// The statement list into which a [`Place`] points.
    pub fn body_at(&self, parent: StmtId, body: usize) -> &Body {
        self.get(parent).bodies()[body]
    }

    /// Replaces a statement by others (or removes it, if there are none). The old statement loses its parent and keeps
    /// its id. To put a statement into its own replacement, [`Stmts::cut`] it first.
    pub fn replace(&mut self, old: StmtId, new: &[StmtId]) {
        let place = self.cut(old);
        self.insert_at(place, new);
    }

    /// Removes a statement from its parent and returns its position; it keeps its id and its contents.
    ///
    /// # Panics
    ///
    /// If the statement has no parent.
    pub fn cut(&mut self, s: StmtId) -> Place {
        let place = self.place(s).expect("a statement that is moved stands in the tree");
        self.outline.take();
        self.list_mut(place.parent, place.body).remove(place.position);
        self.parents[s.index()] = None;
        self.touch(place.parent);
        self.touch(s);
        place
    }

    /// Inserts statements at a place.
    pub fn insert_at(&mut self, place: Place, new: &[StmtId]) {
        self.insert(place.parent, place.body, place.position, new);
    }

    fn list_mut(&mut self, parent: StmtId, body: usize) -> &mut Body {
        self.nodes[parent.index()].bodies_mut().swap_remove(body)
    }

    /// Inserts statements before position `position` of a list.
    pub fn insert(&mut self, parent: StmtId, body: usize, position: usize, new: &[StmtId]) {
        self.outline.take();
        self.list_mut(parent, body).insert_many(position, new.iter().copied());
        self.touch(parent);
        for &n in new {
            self.parents[n.index()] = Some(parent);
            self.touch(n);
        }
    }

    /// Replaces the statement list of a loop, let or block (its body; for an `if`, the list of the true branch). Former
    /// children that are not in the new list lose their parent.
    pub fn set_body(&mut self, s: StmtId, new: Body) {
        let index = match self.get(s) {
            Stmt::Block(b) if b.init.is_some() => 1,
            _ => 0,
        };
        self.set_list(s, index, new);
    }

    /// Replaces or removes a block's init.
    pub fn set_init(&mut self, b: BlockId, new: Option<Body>) {
        match new {
            None => {
                for child in self.block_mut(b).init.take().unwrap_or_default() {
                    if self.parents[child.index()] == Some(b.stmt()) {
                        self.parents[child.index()] = None;
                    }
                }
            }
            Some(list) => {
                if self.block(b).init.is_none() {
                    self.block_mut(b).init = Some(Body::new());
                }
                self.set_list(b.stmt(), 0, list);
            }
        }
    }

    /// Replaces one list of [`Stmt::bodies`].
    pub fn set_list(&mut self, s: StmtId, body: usize, new: Body) {
        self.outline.take();
        let old = std::mem::replace(self.list_mut(s, body), new.clone());
        self.touch(s);
        for child in old {
            if self.parents[child.index()] == Some(s) {
                self.parents[child.index()] = None;
            }
            self.touch(child);
        }
        for child in new {
            self.parents[child.index()] = Some(s);
            self.touch(child);
        }
    }
}
