//! The context of an instruction during its execution: the schedule, and the resolved arguments.

use super::Schedule;
use super::arg::{Arg, Decision, FuncIndex, Lambda, LambdaExpr, Rv, RvValue};
use super::error::{ErrorKind, ScheduleError};
use super::kind::Kind;
use super::state::State;
use crate::ir::{AttrValue, Block, BlockId, BufferRegion, DType, LoopId, StmtId, Symbol};
use std::sync::Arc;

/// An instruction during its execution.
pub struct Call<'a> {
    /// The schedule.
    pub sch: &'a mut Schedule,
    /// The instruction's kind.
    pub kind: &'static Kind,
    /// The arguments, in the order of the kind's parameters; all are present.
    pub args: &'a [Arg],
    /// The decision of a sampling instruction; `None` if it must be drawn.
    pub decision: Option<&'a Decision>,
    /// Whether an invalid decision may be replaced by a valid one.
    pub is_preferred: bool,
}

/// A block or a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockOrLoop {
    /// A block.
    Block(BlockId),
    /// A loop.
    Loop(LoopId),
}

impl BlockOrLoop {
    /// As a statement.
    pub fn stmt(self) -> StmtId {
        match self {
            BlockOrLoop::Block(b) => b.stmt(),
            BlockOrLoop::Loop(l) => l.stmt(),
        }
    }
}

/// A kind of access to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The block reads the buffer.
    Read,
    /// The block writes the buffer.
    Write,
}

impl Access {
    /// Parses `"read"` or `"write"`.
    pub fn parse(name: Symbol) -> Option<Access> {
        match name.as_str() {
            "read" => Some(Access::Read),
            "write" => Some(Access::Write),
            _ => None,
        }
    }

    /// The verb for messages.
    pub fn verb(self) -> &'static str {
        match self {
            Access::Read => "reads",
            Access::Write => "writes",
        }
    }

    /// The regions of a block with this kind of access.
    pub fn regions(self, block: &Block) -> &[BufferRegion] {
        match self {
            Access::Read => &block.reads,
            Access::Write => &block.writes,
        }
    }
}

/// The result of `sample_compute_location` for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopOrSpecial {
    /// Under a loop.
    Loop(FuncIndex, LoopId),
    /// Directly under the root.
    AtRoot,
    /// Into its consumers.
    Inlined,
}

impl Call<'_> {
    /// The state of a function.
    pub fn state(&mut self, func: FuncIndex) -> &mut State {
        &mut self.sch.states[func]
    }

    fn wrong(&self, index: usize, expected: &'static str) -> ScheduleError {
        let name = self.kind.params[index].name;
        let found = match &self.args[index] {
            Arg::None => "None",
            Arg::Rv(_) | Arg::Expr(_) => "a random variable of another kind",
            Arg::Int(_) => "an integer",
            Arg::Float(_) => "a float",
            Arg::Bool(_) => "a boolean",
            Arg::Str(_) => "a text",
            Arg::List(_) => "a list",
            Arg::Dict(_) => "a dictionary",
            Arg::Lambda(_) => "a function",
            Arg::Typed(..) => "a typed constant",
        };
        ErrorKind::Argument { message: format!("argument `{name}`: expected {expected}, found {found}") }.into()
    }

    /// The block that a random variable refers to, if it still exists.
    pub fn block_of(&self, rv: Rv) -> Result<(FuncIndex, BlockId), ScheduleError> {
        match self.sch.value(rv)? {
            RvValue::Block(f, b) if self.sch.states[f].func.is_alive(b.stmt()) => Ok((f, b)),
            RvValue::Block(f, b) => Err(ScheduleError::new(self.sch.dead(rv, "block")).at(f, b)),
            other => Err(wrong_handle("block", other)),
        }
    }

    /// The loop that a random variable refers to, if it still exists.
    pub fn loop_of(&self, rv: Rv) -> Result<(FuncIndex, LoopId), ScheduleError> {
        match self.sch.value(rv)? {
            RvValue::Loop(f, l) if self.sch.states[f].func.is_alive(l.stmt()) => Ok((f, l)),
            RvValue::Loop(f, l) => Err(ScheduleError::new(self.sch.dead(rv, "loop")).at(f, l)),
            other => Err(wrong_handle("loop", other)),
        }
    }

    /// Argument `index` as a block.
    pub fn block(&self, index: usize) -> Result<(FuncIndex, BlockId), ScheduleError> {
        match &self.args[index] {
            Arg::Rv(rv) => self.block_of(*rv),
            _ => Err(self.wrong(index, "a block")),
        }
    }

    /// Argument `index` as a loop.
    pub fn loop_(&self, index: usize) -> Result<(FuncIndex, LoopId), ScheduleError> {
        match &self.args[index] {
            Arg::Rv(rv) => self.loop_of(*rv),
            _ => Err(self.wrong(index, "a loop")),
        }
    }

    /// Argument `index` as a loop of the function of another argument.
    pub fn loop_in(&self, index: usize, func: FuncIndex) -> Result<LoopId, ScheduleError> {
        match self.loop_(index)? {
            (f, l) if f == func => Ok(l),
            (f, l) => Err(ScheduleError::new(other_function("loop")).at(f, l)),
        }
    }

    /// Argument `index` as a block of the function of another argument.
    pub fn block_in(&self, index: usize, func: FuncIndex) -> Result<BlockId, ScheduleError> {
        match self.block(index)? {
            (f, b) if f == func => Ok(b),
            (f, b) => Err(ScheduleError::new(other_function("block")).at(f, b)),
        }
    }

    /// Argument `index` as a list of blocks of the function of another argument.
    pub fn blocks_in(&self, index: usize, func: FuncIndex) -> Result<Vec<BlockId>, ScheduleError> {
        self.blocks(index)?
            .into_iter()
            .map(|(f, b)| match f == func {
                true => Ok(b),
                false => Err(ScheduleError::new(other_function("block")).at(f, b)),
            })
            .collect()
    }

    /// Argument `index` as the position of a buffer among those that a block reads or writes.
    ///
    /// # Errors
    ///
    /// If the position is out of range, or no region of that kind is of a buffer with that name.
    pub fn buffer_index(
        &self,
        index: usize,
        func: FuncIndex,
        block: BlockId,
        access: Access,
    ) -> Result<usize, ScheduleError> {
        let f = self.sch.func(func);
        let regions = access.regions(f.block(block));
        let found = match &self.args[index] {
            Arg::Str(name) => {
                let found = regions.iter().position(|r| f.arena.buffer(r.buffer).name == *name);
                return found.ok_or_else(|| {
                    let message = format!("block `{}` {} no buffer `{name}`", f.block(block).name, access.verb());
                    ScheduleError::new(ErrorKind::Argument { message }).at(func, block)
                });
            }
            _ => self.int(index).map_err(|_| self.wrong(index, "the number or name of a buffer"))?,
        };
        usize::try_from(found).ok().filter(|&i| i < regions.len()).ok_or_else(|| {
            let kind = ErrorKind::BufferIndexOutOfRange { index: found, count: regions.len(), access: access.verb() };
            ScheduleError::new(kind).at(func, block)
        })
    }

    /// Argument `index` as a kind of access and the position of a buffer among the block's regions of that kind:
    /// `("read", 0)`, `("write", 0)`, or the name of a buffer that the block only reads or only writes.
    ///
    /// # Errors
    ///
    /// If the position is out of range, or the name is ambiguous.
    pub fn buffer_access(
        &self,
        index: usize,
        func: FuncIndex,
        block: BlockId,
    ) -> Result<(Access, usize), ScheduleError> {
        let expected = r#"`("read", index)`, `("write", index)` or the name of a buffer"#;
        let f = self.sch.func(func);
        let (access, position) = match &self.args[index] {
            Arg::List(items) => match &items[..] {
                [Arg::Str(kind), position] => {
                    let access = Access::parse(*kind).ok_or_else(|| self.wrong(index, expected))?;
                    (access, self.number(position).ok_or_else(|| self.wrong(index, expected))?)
                }
                _ => return Err(self.wrong(index, expected)),
            },
            Arg::Str(name) => {
                let find = |access: Access| {
                    let named = |r: &BufferRegion| f.arena.buffer(r.buffer).name == *name;
                    access.regions(f.block(block)).iter().position(named).map(|i| (access, i))
                };
                let what = match (find(Access::Read), find(Access::Write)) {
                    (Some(found), None) | (None, Some(found)) => return Ok(found),
                    (None, None) => "does not access",
                    (Some(_), Some(_)) => "both reads and writes",
                };
                let message = format!("block `{}` {what} buffer `{name}`", f.block(block).name);
                return Err(ScheduleError::new(ErrorKind::Argument { message }).at(func, block));
            }
            _ => return Err(self.wrong(index, expected)),
        };
        let count = access.regions(f.block(block)).len();
        match usize::try_from(position).ok().filter(|&i| i < count) {
            Some(i) => Ok((access, i)),
            None => {
                let kind = ErrorKind::BufferIndexOutOfRange { index: position, count, access: access.verb() };
                Err(ScheduleError::new(kind).at(func, block))
            }
        }
    }

    /// Argument `index` as a loop, or as one of the special locations.
    pub fn loop_or_special(&self, index: usize) -> Result<LoopOrSpecial, ScheduleError> {
        match &self.args[index] {
            Arg::Rv(rv) => match self.sch.value(*rv)? {
                RvValue::AtRoot => Ok(LoopOrSpecial::AtRoot),
                RvValue::Inlined => Ok(LoopOrSpecial::Inlined),
                _ => self.loop_of(*rv).map(|(f, l)| LoopOrSpecial::Loop(f, l)),
            },
            _ => Err(self.wrong(index, "a loop")),
        }
    }

    /// Argument `index` as a block or loop.
    pub fn block_or_loop(&self, index: usize) -> Result<(FuncIndex, BlockOrLoop), ScheduleError> {
        match &self.args[index] {
            Arg::Rv(rv) => match self.sch.value(*rv)? {
                RvValue::Block(..) => self.block_of(*rv).map(|(f, b)| (f, BlockOrLoop::Block(b))),
                _ => self.loop_of(*rv).map(|(f, l)| (f, BlockOrLoop::Loop(l))),
            },
            _ => Err(self.wrong(index, "a block or loop")),
        }
    }

    /// Argument `index` as a list of loops of one function.
    pub fn loops(&self, index: usize) -> Result<(FuncIndex, Vec<LoopId>), ScheduleError> {
        let Arg::List(items) = &self.args[index] else { return Err(self.wrong(index, "loops")) };
        let mut func = None;
        let mut loops = Vec::with_capacity(items.len());
        for item in items {
            let Arg::Rv(rv) = item else { return Err(self.wrong(index, "loops")) };
            let (f, l) = self.loop_of(*rv)?;
            if *func.get_or_insert(f) != f {
                let message = "the loops are of different functions".to_string();
                return Err(ScheduleError::new(ErrorKind::Argument { message }).at(f, l));
            }
            loops.push(l);
        }
        match func {
            Some(f) => Ok((f, loops)),
            None => Err(ErrorKind::Argument { message: "expected at least one loop".to_string() }.into()),
        }
    }

    /// Argument `index` as a list of blocks.
    pub fn blocks(&self, index: usize) -> Result<Vec<(FuncIndex, BlockId)>, ScheduleError> {
        match &self.args[index] {
            Arg::List(items) => items
                .iter()
                .map(|item| match item {
                    Arg::Rv(rv) => self.block_of(*rv),
                    _ => Err(self.wrong(index, "a list of blocks")),
                })
                .collect(),
            Arg::None => Ok(Vec::new()),
            Arg::Rv(rv) => Ok(vec![self.block_of(*rv)?]),
            _ => Err(self.wrong(index, "a list of blocks")),
        }
    }

    /// The number, or the value of a random variable or expression.
    pub fn number(&self, arg: &Arg) -> Option<i64> {
        match arg {
            Arg::Int(v) => Some(*v),
            Arg::Bool(v) => Some(*v as i64),
            Arg::Rv(rv) => self.sch.int_value(*rv),
            Arg::Expr(e) => e.eval(&|rv| self.sch.int_value(rv)),
            Arg::Typed(_, inner) => self.number(inner),
            Arg::None | Arg::Float(_) | Arg::Str(_) | Arg::List(_) | Arg::Dict(_) | Arg::Lambda(_) => None,
        }
    }

    /// Argument `index` as an integer.
    pub fn int(&self, index: usize) -> Result<i64, ScheduleError> {
        self.number(&self.args[index]).ok_or_else(|| self.wrong(index, "an integer"))
    }

    /// Argument `index` as a boolean.
    pub fn bool(&self, index: usize) -> Result<bool, ScheduleError> {
        self.int(index).map(|v| v != 0).map_err(|_| self.wrong(index, "a boolean"))
    }

    /// Argument `index` as a text.
    pub fn str(&self, index: usize) -> Result<Symbol, ScheduleError> {
        match &self.args[index] {
            Arg::Str(s) => Ok(*s),
            _ => Err(self.wrong(index, "a text")),
        }
    }

    /// Argument `index` as a list of integers.
    pub fn ints(&self, index: usize) -> Result<Vec<i64>, ScheduleError> {
        match &self.args[index] {
            Arg::List(items) => items
                .iter()
                .map(|item| self.number(item).ok_or_else(|| self.wrong(index, "a list of integers")))
                .collect(),
            _ => Err(self.wrong(index, "a list of integers")),
        }
    }

    /// Argument `index` as a list of numbers.
    pub fn floats(&self, index: usize) -> Result<Vec<f64>, ScheduleError> {
        match &self.args[index] {
            Arg::List(items) => items
                .iter()
                .map(|item| match item {
                    Arg::Float(v) => Ok(*v),
                    other => self.number(other).map(|v| v as f64).ok_or_else(|| self.wrong(index, "a list of numbers")),
                })
                .collect(),
            _ => Err(self.wrong(index, "a list of numbers")),
        }
    }

    /// Argument `index` as factors: numbers, or `None` for one to be inferred.
    pub fn factors(&self, index: usize) -> Result<Vec<Option<i64>>, ScheduleError> {
        match &self.args[index] {
            Arg::List(items) => items
                .iter()
                .map(|item| match item {
                    Arg::None => Ok(None),
                    other => match self.number(other) {
                        Some(v) => Ok(Some(v)),
                        None => Err(self.wrong(index, "a list of factors")),
                    },
                })
                .collect(),
            _ => Err(self.wrong(index, "a list of factors")),
        }
    }

    /// Argument `index` as a function of indices, with random variables replaced by their numbers.
    pub fn lambda(&self, index: usize) -> Result<Arc<Lambda>, ScheduleError> {
        match &self.args[index] {
            Arg::Lambda(l) if !l.ranges => self.resolved(l),
            _ => Err(self.wrong(index, "an index map such as `lambda i, j: (j, i)`")),
        }
    }

    /// A function of indices with its random variables replaced by their numbers.
    pub fn resolved(&self, lambda: &Arc<Lambda>) -> Result<Arc<Lambda>, ScheduleError> {
        if !lambda.has_rvs() {
            return Ok(lambda.clone());
        }
        let resolved = lambda.map_rvs(&|rv| self.sch.int_value(rv).map_or(LambdaExpr::Rv(rv), LambdaExpr::Int));
        if resolved.has_rvs() {
            let message = "an index map cannot use a loop or block".to_string();
            return Err(ErrorKind::Argument { message }.into());
        }
        Ok(Arc::new(resolved))
    }

    /// An argument as the value of an annotation, with random variables replaced by their numbers.
    pub fn attr_value(&mut self, func: FuncIndex, arg: &Arg) -> Result<AttrValue, ScheduleError> {
        Ok(match arg {
            Arg::None => AttrValue::None,
            Arg::Rv(_) | Arg::Expr(_) => match self.number(arg) {
                Some(v) => AttrValue::Int(v),
                None => {
                    return Err(
                        ErrorKind::Argument { message: "an annotation cannot hold a loop or block".into() }.into()
                    );
                }
            },
            Arg::Int(v) => AttrValue::Int(*v),
            Arg::Float(v) => AttrValue::Float(*v),
            Arg::Bool(v) => AttrValue::Bool(*v),
            Arg::Str(s) => AttrValue::Str(*s),
            Arg::List(items) => {
                AttrValue::List(items.iter().map(|a| self.attr_value(func, a)).collect::<Result<_, _>>()?)
            }
            Arg::Dict(items) => {
                let mut map = items
                    .iter()
                    .map(|(k, a)| Ok((*k, self.attr_value(func, a)?)))
                    .collect::<Result<Vec<_>, ScheduleError>>()?;
                map.sort_by_key(|(k, _)| *k);
                AttrValue::Dict(map)
            }
            Arg::Typed(dtype, inner) => {
                let dtype: DType = dtype
                    .as_str()
                    .parse()
                    .map_err(|e: crate::ir::dtype::UnknownDType| ErrorKind::Argument { message: e.to_string() })?;
                let arena = &mut self.sch.states[func].func.arena;
                match (&**inner, dtype.is_float()) {
                    (Arg::Float(v), true) => AttrValue::Expr(arena.float(*v, dtype)),
                    (Arg::Int(v), true) => AttrValue::Expr(arena.float(*v as f64, dtype)),
                    (Arg::Int(v), false) => AttrValue::Expr(arena.int(*v, dtype)),
                    (Arg::Bool(v), false) => AttrValue::Expr(arena.int(*v as i64, dtype)),
                    _ => {
                        return Err(
                            ErrorKind::Argument { message: format!("expected a constant of type `{dtype}`") }.into()
                        );
                    }
                }
            }
            Arg::Lambda(_) => {
                return Err(ErrorKind::Argument { message: "an annotation cannot hold a function".into() }.into());
            }
        })
    }
}

fn other_function(what: &'static str) -> ErrorKind {
    ErrorKind::Argument { message: format!("the {what} is of another function than the arguments before it") }
}

fn wrong_handle(expected: &'static str, found: RvValue) -> ScheduleError {
    let found = match found {
        RvValue::Block(..) => "block",
        RvValue::Loop(..) => "loop",
        RvValue::AtRoot => "place under the root",
        RvValue::Inlined => "place inside the consumers",
        RvValue::Int(_) => "number",
    };
    ErrorKind::WrongHandle { expected, found }.into()
}
