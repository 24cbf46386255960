//! Statements: the loop and block tree of a function.
//!
//! Statements live in one table ([`Stmts`]) and are named by ids that survive rewriting: a loop or block keeps its
//! id while it exists, whatever is built around it, and ids are never reused. A statement list is a [`Body`]; there
//! is no sequence node. Parents are kept beside the nodes and always agree with the bodies.

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
    /// A loop: the id of a statement that is one.
    pub LoopId
}
id! {
    /// A block: the id of a statement that is one.
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

/// Statements run one after the other.
pub type Body = SmallVec<[StmtId; 4]>;

/// How the iterations of a loop run.
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
    /// Bound to the thread axis of that name; on a CPU, serial.
    ThreadBinding(Symbol),
}

/// `for var in range(min, min + extent, step)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// The loop variable.
    pub var: VarId,
    /// First value.
    pub min: ExprId,
    /// Size of the range: all values are smaller than `min + extent`. Without a step, the number of iterations.
    pub extent: ExprId,
    /// The distance of one value from the next; `None` is 1, and no constant 1 stands here.
    pub step: Option<ExprId>,
    /// How the iterations run.
    pub kind: LoopKind,
    /// Annotations, for schedules and code generation.
    pub annotations: Annotations,
    /// What is repeated.
    pub body: Body,
}

/// What a block's iteration variable means for dependences.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IterKind {
    /// Data-parallel: instances are independent and write disjoint places.
    Spatial,
    /// Instances combine into one place by a commutative, associative operation.
    Reduce,
    /// Instances depend on those before, in order (`T.axis.scan`).
    Scan,
    /// Nothing is known.
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

/// An iteration variable of a block and what the block's place binds it to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockIter {
    /// The variable.
    pub var: VarId,
    /// First value of its domain.
    pub min: ExprId,
    /// Size of its domain.
    pub extent: ExprId,
    /// Its meaning.
    pub kind: IterKind,
    /// Its value, an expression over the loops around the block (TVM's `iter_values` of the block's realize).
    pub value: ExprId,
}

/// `buffer = T.match_buffer(source[…])`: a view of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatchBuffer {
    /// The view.
    pub buffer: BufferId,
    /// What it shows.
    pub source: BufferRegion,
}

/// A block with its realization: the unit of scheduling.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// The name by which schedules find it.
    pub name: Symbol,
    /// Iteration variables with their bindings.
    pub iters: Vec<BlockIter>,
    /// The instance runs only where this holds; over the loops around the block (`T.where`).
    pub predicate: ExprId,
    /// What an instance reads, over the iteration variables.
    pub reads: Vec<BufferRegion>,
    /// What an instance writes, over the iteration variables.
    pub writes: Vec<BufferRegion>,
    /// Buffers that live inside an instance.
    pub allocs: Vec<BufferId>,
    /// Views of regions.
    pub matches: Vec<MatchBuffer>,
    /// Annotations, for schedules and code generation.
    pub annotations: Annotations,
    /// Runs before the body where all reduction iteration variables are at their first value.
    pub init: Option<Body>,
    /// The computation.
    pub body: Body,
}

/// `with T.attr(node, key, value): body`, or `T.attr(node, key, value)` followed by `body`.
#[derive(Clone, PartialEq, Debug)]
pub struct Attr {
    /// What the attribute is about: mostly `0`.
    pub node: AttrValue,
    /// Its name.
    pub key: Symbol,
    /// Its value.
    pub value: ExprId,
    /// The statements it holds for.
    pub body: Body,
}

/// `assert condition, (kind, [parts…])`.
#[derive(Clone, PartialEq, Debug)]
pub struct Assert {
    /// What must hold.
    pub condition: ExprId,
    /// The Python exception it raises, such as `RuntimeError`.
    pub kind: Symbol,
    /// The pieces of the message.
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
        /// Where.
        buffer: BufferId,
        /// At which element.
        indices: ExprList,
        /// What, of the buffer's type.
        value: ExprId,
    },
    /// `if condition: then else: otherwise`.
    If {
        /// A boolean.
        condition: ExprId,
        /// Runs if it holds.
        then: Body,
        /// Runs if it does not; may be empty.
        otherwise: Body,
    },
    /// `with T.LetStmt(value, var=var): body`, or `var: T.let[…] = value` followed by `body`.
    Let {
        /// The variable.
        var: VarId,
        /// Its value.
        value: ExprId,
        /// Where it is visible.
        body: Body,
    },
    /// `T.evaluate(value)`: for the effect of a call.
    Evaluate(ExprId),
    /// `buffer = T.alloc_buffer(…)` in its place: memory that lives to the end of the list of statements. (What
    /// `T.sblock_alloc_buffer` allocates is in [`Block::allocs`].)
    Alloc {
        /// The buffer, known in the rest of the list.
        buffer: BufferId,
        /// Annotations.
        annotations: Annotations,
    },
    /// `buffer = T.decl_buffer(…, data=data)`: a name for memory that exists.
    Declare {
        /// The buffer, known in the rest of the list.
        buffer: BufferId,
        /// Where its memory begins: a handle.
        data: ExprId,
    },
    /// `while condition: body`.
    While {
        /// Evaluated before each iteration: a boolean or an integer, which holds if it is not 0.
        condition: ExprId,
        /// What is repeated.
        body: Body,
    },
    /// Ends the innermost loop around.
    Break,
    /// Goes on with the next iteration of the innermost loop around.
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

    /// Sets the lists of [`Stmt::bodies`], of which there must be as many.
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

/// Which list of its parent a statement stands in, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The statement around.
    pub parent: StmtId,
    /// Which of [`Stmt::bodies`] of the parent.
    pub body: usize,
    /// Position in that list.
    pub position: usize,
}

/// The table of statements of a function. Removed statements stay as unreachable entries, so that an id found in a
/// message or trace never comes to mean something else.
#[derive(Clone, Default)]
pub struct Stmts {
    nodes: Vec<Stmt>,
    parents: Vec<Option<StmtId>>,
    /// Made when it is asked for; forgotten by whatever changes a block or where one stands.
    outline: OnceLock<Arc<Outline>>,
    /// What was changed, moved, added or removed since [`Stmts::take_touched`]; a list that changed touches its parent.
    touched: Vec<StmtId>,
}

impl Stmts {
    /// Adds a statement; the statements inside become its children.
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

    /// Is the table empty?
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

    /// The loop, for changing anything but its body (see [`Stmts::set_body`]).
    pub fn loop_mut(&mut self, l: LoopId) -> &mut Loop {
        self.touch(l.stmt());
        match &mut self.nodes[l.index()] {
            Stmt::Loop(node) => node,
            other => unreachable!("a LoopId names a loop, found {other:?}"),
        }
    }

    /// The block, for changing anything but its body and init (see [`Stmts::set_body`], [`Stmts::set_init`]).
    pub fn block_mut(&mut self, b: BlockId) -> &mut Block {
        self.outline.take();
        self.touch(b.stmt());
        match &mut self.nodes[b.index()] {
            Stmt::Block(node) => node,
            other => unreachable!("a BlockId names a block, found {other:?}"),
        }
    }

    /// The statement, for changing its expressions. The lists of statements inside must stay as they are.
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

    /// Was something changed, moved, added or removed since [`Stmts::take_touched`]?
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The statements that were changed, moved, added or removed since this was called before, some more than once.
    pub fn take_touched(&mut self) -> Vec<StmtId> {
        std::mem::take(&mut self.touched)
    }

    /// The outline that was kept, or a new one.
    pub(super) fn kept_outline(&self, make: impl FnOnce() -> Outline) -> &Arc<Outline> {
        self.outline.get_or_init(|| Arc::new(make()))
    }

    /// The statement around this one; `None` for a function's root block and for removed statements.
    pub fn parent(&self, s: StmtId) -> Option<StmtId> {
        self.parents[s.index()]
    }

    /// The statements around this one, innermost first.
    pub fn ancestors(&self, s: StmtId) -> impl Iterator<Item = StmtId> + '_ {
        std::iter::successors(self.parent(s), |&p| self.parent(p))
    }

    /// Where the statement stands in its parent.
    pub fn place(&self, s: StmtId) -> Option<Place> {
        let parent = self.parent(s)?;
        self.get(parent)
            .bodies()
            .iter()
            .enumerate()
            .find_map(|(body, list)| list.iter().position(|&c| c == s).map(|position| Place { parent, body, position }))
    }

    /// The list of statements a [`Place`] points into.
    pub fn body_at(&self, parent: StmtId, body: usize) -> &Body {
        self.get(parent).bodies()[body]
    }

    /// Replaces a statement by others at its place (by none: removes it). What was there loses its parent and keeps
    /// its id. To put a statement into one that takes its place, [`Stmts::cut`] it first.
    pub fn replace(&mut self, old: StmtId, new: &[StmtId]) {
        let place = self.cut(old);
        self.insert_at(place, new);
    }

    /// Removes a statement from its parent and says where it stood; it keeps its id and what is inside.
    ///
    /// # Panics
    /// If the statement stands nowhere.
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

    /// Replaces the list of statements of a loop, let or block (its body; for an `if`, what runs if it holds).
    /// Former children that are not in the new list lose their parent.
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
