//! # `tensorize`
//!
//! Replaces a computation that matches the description of a tensor intrinsic by its implementation. Intrinsics are
//! pairs of functions, `x_desc` and `x_impl`; there is a built-in table, and `--intrin FILE` registers others: see
//! [adding-an-intrinsic.md](adding-an-intrinsic.md).
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), s: T.Buffer(1), C: T.Buffer(32)):
//!     for i_0, i_1 in T.grid(4, 8):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i_0 * 8 + i_1)
//!             C[vi] = C[vi] + s[0] * A[vi]
//!
//! def steps(sch):
//!     i_0, i_1 = sch.get_loops("C")
//!     sch.tensorize(i_1, "fma_8_f32")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,)), s: T.Buffer((1,)), C: T.Buffer((32,))):
//!     for i_0 in range(4):
//!         with T.sblock("C_o"):
//!             vi_o = T.axis.spatial(4, i_0)
//!             a = T.match_buffer(A[vi_o * 8:vi_o * 8 + 8], (8,))
//!             b = T.match_buffer(s[0], (1,))
//!             c = T.match_buffer(C[vi_o * 8:vi_o * 8 + 8], (8,))
//!             for i in T.vectorized(8):
//!                 with T.sblock("fma"):
//!                     vi = T.axis.spatial(8, i)
//!                     c[vi] = c[vi] + b[0] * a[vi]
//! ```
//!
//! * Requires: a registered intrinsic; a block without init that matches the description, up to names and offsets.
//! * Errors: `ValueError` (an unknown name; it lists those that are registered), `TensorizeError`, and those of
//!   `blockize`.
//! * Handles: dies: what is inside the block, the loop, of a loop; persists: the block; created: of a loop: the block,
//!   which `get_child_blocks` finds.
//! * Refused, though TVM accepts it: implementations that do not compute what the description says: the pair is
//!   compared on random data when it is registered.
//!
//! # Implementation
//!
//! Replaces a computation that matches the description of a tensor intrinsic by its implementation.
//!
//! ```text
//! for j_1 in range(8):
//!     with T.block("C"): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//! # becomes, with an intrinsic described as c[i] = c[i] + b[0] * a[i]
//! with T.block("C_o"):
//!     a = T.match_buffer(B[vk, vj_o * 8:vj_o * 8 + 8], (8,)); …
//!     … # the implementation, over a, b and c
//! ```
//!
//! A loop is first converted to a block, as by `blockize`.
//!
//! Requires: a registered intrinsic (see [`intrin`](super::super::intrin)); a block without init whose body equals that
//! of the description, up to names and to the starts of the regions in the buffers; the regions of the description,
//! possibly after dimensions of extent 1. Preserves: what the block computes; both functions were compared when the
//! intrinsic was registered. Returns: nothing.
//!
//! Handles: dies, the contents of the block; the block persists (for a loop: the loop and its contents die).

use super::super::analysis::set_unknown_info;
use super::super::call::{BlockOrLoop, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::intrin::TensorIntrin;
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::{BlockInfo, State};
use super::blockize;
use crate::arith::Analyzer;
use crate::ir::graft::Graft;
use crate::ir::{
    BlockId, Body, Buffer, BufferId, BufferRegion, Expr, ExprId, Func, LoopKind, MatchBuffer, Stmt, StmtId, VarId,
};
use hashbrown::HashMap;

/// `tensorize(block_or_loop, tensor_intrin, preserve_unit_iters=True)`.
pub(crate) static TENSORIZE: Kind = Kind {
    name: "Tensorize",
    method: "tensorize",
    classic: None,
    positional: false,
    params: &[
        Param::input("block_or_loop", Ty::BlockOrLoop),
        Param::attr("tensor_intrin", Ty::Str),
        Param::attr("preserve_unit_iters", Ty::Bool).or(Default::Bool(true)),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.block_or_loop(0)?;
    let name = call.str(1)?;
    let preserve_unit_iters = call.bool(2)?;
    let known = call.sch.intrinsics();
    let Some(intrin) = known.get(name) else {
        let names: Vec<String> = known.names().map(|n| format!("`{n}`")).collect();
        let near = known.near(name).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        return Err(ErrorKind::UnknownIntrin { name, near, known: names.join(", ") }.into());
    };
    // The conversion of a loop to a block is discarded with the copy, if a later check fails.
    let mut trial = call.state(func).clone();
    let block = match target {
        BlockOrLoop::Block(b) => b,
        BlockOrLoop::Loop(l) => blockize::of_loop(&mut trial, l, preserve_unit_iters)?,
    };
    // The block made from a loop is discarded with the copy, so the error shows the loop.
    let plan = check(&mut trial, block, intrin).map_err(|e| e.at(func, target.stmt()))?;
    apply(&mut trial, block, intrin, plan);
    *call.state(func) = trial;
    Ok(Outcome::none())
}

/// For each parameter, the matching region of the program.
struct TensorizePlan {
    regions: Vec<(BufferId, BufferRegion)>,
}

fn check(state: &mut State, block: BlockId, intrin: &TensorIntrin) -> Result<TensorizePlan, ScheduleError> {
    let fail = |state: &State, why: &'static str| {
        Err(state.error(ErrorKind::TensorizeMismatch { intrin: intrin.name, described: intrin.summary, why }, block))
    };
    let desc = &intrin.description;
    let node = state.func.block(block).clone();
    if node.init.is_some() {
        return fail(state, "the block has an init, which `decompose_reduction` takes out");
    }
    if !node.matches.is_empty() || !node.allocs.is_empty() {
        return fail(state, "the block has buffers of its own");
    }
    let root = desc.block(desc.root).clone();
    let mut matcher = Matcher {
        desc,
        vars: HashMap::new(),
        buffers: HashMap::new(),
        regions: node.reads.iter().chain(&node.writes).copied().collect(),
        analyzer: Analyzer::new(),
    };
    if let Err(why) = matcher.bodies(&mut state.func, &root.body, &node.body) {
        return fail(state, why);
    }
    let mut regions = Vec::new();
    for p in &desc.params {
        let Some(b) = p.buffer else { return fail(state, "the intrinsic has a parameter that is not a buffer") };
        match matcher.buffers.get(&b) {
            Some(&region) => regions.push((b, region)),
            None => return fail(state, "the description does not use one of its parameters"),
        }
    }
    Ok(TensorizePlan { regions })
}

/// Compares a description with a program.
struct Matcher<'a> {
    desc: &'a Func,
    /// The program's variable for each variable of the description.
    vars: HashMap<VarId, VarId>,
    /// The program's region for each buffer of the description.
    buffers: HashMap<BufferId, BufferRegion>,
    /// The regions of the block.
    regions: Vec<BufferRegion>,
    analyzer: Analyzer,
}

type Matched = Result<(), &'static str>;

impl Matcher<'_> {
    fn bodies(&mut self, f: &mut Func, desc: &[StmtId], body: &[StmtId]) -> Matched {
        if desc.len() != body.len() {
            return Err("it has another number of statements than the description");
        }
        desc.iter().zip(body).try_for_each(|(&d, &s)| self.stmt(f, d, s))
    }

    fn stmt(&mut self, f: &mut Func, desc: StmtId, s: StmtId) -> Matched {
        let d = self.desc;
        match (d.get(desc), f.get(s).clone()) {
            (Stmt::Loop(x), Stmt::Loop(y)) => {
                if !matches!(y.kind, LoopKind::Serial | LoopKind::Unrolled) {
                    return Err("a loop is not serial");
                }
                let same = d.arena.as_int(x.extent).is_some()
                    && d.arena.as_int(x.extent) == f.arena.as_int(y.extent)
                    && d.arena.is_int(x.min, 0)
                    && f.arena.is_int(y.min, 0);
                if !same {
                    return Err("a loop runs over another range");
                }
                self.vars.insert(x.var, y.var);
                self.analyzer.bind(&mut f.arena, y.var, y.min, y.extent);
                self.bodies(f, &x.body, &y.body)
            }
            (Stmt::Block(x), Stmt::Block(y)) => {
                if x.init.is_some() || y.init.is_some() || !y.allocs.is_empty() || !y.matches.is_empty() {
                    return Err("a block inside has an init or buffers of its own");
                }
                if !d.arena.is_int(x.predicate, 1) || !f.arena.is_int(y.predicate, 1) {
                    return Err("a block inside has a predicate");
                }
                if x.iters.len() != y.iters.len() {
                    return Err("a block inside has another number of iteration variables");
                }
                for (i, j) in x.iters.iter().zip(&y.iters) {
                    let same = i.kind == j.kind
                        && d.arena.as_int(i.extent).is_some()
                        && d.arena.as_int(i.extent) == f.arena.as_int(j.extent)
                        && d.arena.as_int(i.min) == f.arena.as_int(j.min);
                    if !same {
                        return Err("an iteration variable inside is of another kind or range");
                    }
                    self.index(f, i.value, j.value, None)?;
                    self.vars.insert(i.var, j.var);
                    self.analyzer.bind(&mut f.arena, j.var, j.min, j.extent);
                }
                self.bodies(f, &x.body, &y.body)
            }
            (Stmt::Store { buffer: b, indices: at, value: x }, Stmt::Store { buffer, indices, value }) => {
                self.access(f, (*b, d.arena.list(*at)), (buffer, indices))?;
                self.value(f, *x, value)
            }
            _ => Err("a statement is of another kind"),
        }
    }

    /// Matches an access of the description with one of the program.
    fn access(
        &mut self,
        f: &mut Func,
        (b, at): (BufferId, &[ExprId]),
        (buffer, indices): (BufferId, crate::ir::ExprList),
    ) -> Matched {
        let region = match self.buffers.get(&b) {
            Some(region) if region.buffer == buffer => *region,
            Some(_) => return Err("one buffer of the description would be two"),
            None => {
                if self.buffers.values().any(|r| r.buffer == buffer) {
                    return Err("two buffers of the description would be one");
                }
                let found = self.regions.iter().find(|r| r.buffer == buffer);
                let region = *found.ok_or("it accesses a buffer outside its regions")?;
                if self.desc.arena.buffer(b).dtype != f.arena.buffer(buffer).dtype {
                    return Err("a buffer has another type");
                }
                self.buffers.insert(b, region);
                region
            }
        };
        // Dimensions of one element may precede those of the description.
        let shape: Vec<Option<i64>> =
            self.desc.arena.list(self.desc.arena.buffer(b).shape).iter().map(|&e| self.desc.arena.as_int(e)).collect();
        let indices: Vec<ExprId> = f.arena.list(indices).to_vec();
        let ranges: Vec<(ExprId, ExprId)> = region.ranges(&f.arena).collect();
        let Some(rest) = ranges.len().checked_sub(shape.len()) else {
            return Err("a region has fewer dimensions than the description's buffer");
        };
        for ((&extent, &e), i) in shape.iter().zip(at).zip(rest..) {
            let (min, length) = ranges[i];
            if extent.is_none() || f.arena.as_int(length) != extent {
                return Err("a region has another shape than the description's buffer");
            }
            self.index(f, e, indices[i], Some(min))?;
        }
        let fixed = (0..rest).all(|i| f.arena.is_int(ranges[i].1, 1) && self.equal(f, indices[i], ranges[i].0));
        if fixed { Ok(()) } else { Err("a region has another shape than the description's buffer") }
    }

    fn equal(&mut self, f: &mut Func, x: ExprId, y: ExprId) -> bool {
        x == y || (f.arena.dtype(x) == f.arena.dtype(y) && self.analyzer.can_prove_equal(&mut f.arena, x, y))
    }

    /// Whether an index of the program equals that of the description plus `min`.
    fn index(&mut self, f: &mut Func, desc: ExprId, e: ExprId, min: Option<ExprId>) -> Matched {
        let mut mapped = self.translate(f, desc).ok_or("an index of the description is none that can be compared")?;
        let dtype = f.arena.dtype(e);
        mapped = f.arena.cast(dtype, mapped);
        if let Some(min) = min {
            let min = f.arena.cast(dtype, min);
            mapped = f.arena.add(min, mapped);
        }
        if self.equal(f, mapped, e) { Ok(()) } else { Err("an index is another") }
    }

    /// An index expression of the description over the program's variables.
    fn translate(&mut self, f: &mut Func, desc: ExprId) -> Option<ExprId> {
        let d = &self.desc.arena;
        Some(match d.expr(desc) {
            Expr::Int(v) => f.arena.int(v, d.dtype(desc)),
            Expr::Var(v) => f.arena.var_expr(*self.vars.get(&v)?),
            Expr::Binary(op, x, y) => {
                let (x, y) = (self.translate(f, x)?, self.translate(f, y)?);
                if f.arena.dtype(x) != f.arena.dtype(y) {
                    return None;
                }
                f.arena.binary(op, x, y)
            }
            Expr::Cast(x) => {
                let x = self.translate(f, x)?;
                f.arena.cast(d.dtype(desc), x)
            }
            _ => return None,
        })
    }

    fn value(&mut self, f: &mut Func, desc: ExprId, e: ExprId) -> Matched {
        let d = &self.desc.arena;
        const OTHER: &str = "the stored value is computed differently";
        if d.dtype(desc) != f.arena.dtype(e) {
            return Err(OTHER);
        }
        let pairs: Vec<(ExprId, ExprId)> = match (d.expr(desc), f.arena.expr(e)) {
            (Expr::Int(x), Expr::Int(y)) if x == y => Vec::new(),
            (Expr::Float(x), Expr::Float(y)) if x == y => Vec::new(),
            (Expr::Load(b, at), Expr::Load(buffer, indices)) => {
                let at = d.list(at).to_vec();
                return self.access(f, (b, &at), (buffer, indices));
            }
            (Expr::Binary(p, a, b), Expr::Binary(q, x, y)) if p == q => vec![(a, x), (b, y)],
            (Expr::Compare(p, a, b), Expr::Compare(q, x, y)) if p == q => vec![(a, x), (b, y)],
            (Expr::Not(a), Expr::Not(x)) => vec![(a, x)],
            (Expr::Cast(a), Expr::Cast(x)) => vec![(a, x)],
            (Expr::Select(a, b, c), Expr::Select(x, y, z)) | (Expr::IfThenElse(a, b, c), Expr::IfThenElse(x, y, z)) => {
                vec![(a, x), (b, y), (c, z)]
            }
            (Expr::Call(p, a), Expr::Call(q, x)) if p == q => {
                let (a, x) = (d.list(a), f.arena.list(x));
                if a.len() != x.len() {
                    return Err(OTHER);
                }
                a.iter().copied().zip(x.iter().copied()).collect()
            }
            (Expr::Var(_), _) => return self.index(f, desc, e, None),
            _ => return Err(OTHER),
        };
        pairs.into_iter().try_for_each(|(x, y)| self.value(f, x, y))
    }
}

fn apply(state: &mut State, block: BlockId, intrin: &TensorIntrin, plan: TensorizePlan) {
    let code = &intrin.implementation;
    let func = &mut state.func;
    let mut graft = Graft::new(code);
    let mut matches = Vec::new();
    for (p, (b, region)) in code.params.iter().zip(&plan.regions) {
        let (Some(own), described) = (p.buffer, intrin.description.arena.buffer(*b)) else { continue };
        let shape: Vec<ExprId> = intrin
            .description
            .arena
            .list(described.shape)
            .iter()
            .filter_map(|&e| intrin.description.arena.as_int(e))
            .map(|n| func.arena.int32(n))
            .collect();
        let shape = func.arena.new_list(&shape);
        let source = func.arena.buffer(region.buffer);
        let Buffer { name, offset_factor, .. } = *code.arena.buffer(own);
        let view = Buffer { scope: source.scope, offset_factor, ..Buffer::new(name, described.dtype, shape) };
        let view = func.arena.new_buffer(view);
        graft.set_buffer(own, view);
        matches.push(MatchBuffer { buffer: view, source: *region });
    }
    let root = code.block(code.root).clone();
    let body: Body = graft.body(func, &root.body);
    let allocs: Vec<BufferId> = root.allocs.iter().map(|&b| graft.buffer(func, b)).collect();
    let annotations = graft.annotations(func, &root.annotations);
    func.set_body(block.stmt(), body);
    let node = func.block_mut(block);
    node.matches = matches;
    node.allocs = allocs;
    for (key, value) in annotations.iter() {
        node.annotations.insert(*key, value.clone());
    }
    let inner: Vec<BlockId> = func.subtree(block.stmt()).into_iter().skip(1).filter_map(|s| func.as_block(s)).collect();
    for b in inner {
        set_unknown_info(state, b);
    }
    state.update_info(block, |info: &mut BlockInfo| info.stage_pipeline = false);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const AXPY: &str = r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((4, 16)), C: T.Buffer((6, 16))):
    for i, k, j_0, j_1 in T.grid(6, 4, 2, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            vj = T.axis.spatial(16, j_0 * 8 + j_1)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"#;
    const STEP: &str = "sch.tensorize(sch.get_loops(sch.get_block('C', 'main'))[3], 'fma_8_f32')";

    #[test]
    fn a_loop_becomes_the_implementation() {
        check(
            AXPY,
            |t| t.python(STEP),
            r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((4, 16)), C: T.Buffer((6, 16))):
    for i, k, j_0 in T.grid(6, 4, 2):
        with T.block("C_o"):
            vi_o, vk_o, vj_o = T.axis.remap("SRS", [i, k, j_0])
            T.reads(C[vi_o, vj_o * 8:vj_o * 8 + 8], A[vi_o, vk_o], B[vk_o, vj_o * 8:vj_o * 8 + 8])
            T.writes(C[vi_o, vj_o * 8:vj_o * 8 + 8])
            a = T.match_buffer(B[vk_o, vj_o * 8:vj_o * 8 + 8], (8,))
            b = T.match_buffer(A[vi_o, vk_o], (1,))
            c = T.match_buffer(C[vi_o, vj_o * 8:vj_o * 8 + 8], (8,))
            for i_1 in T.vectorized(8):
                with T.block("fma"):
                    vi = T.axis.spatial(8, i_1)
                    T.reads(c[vi], b[0], a[vi])
                    T.writes(c[vi])
                    c[vi] = c[vi] + b[0] * a[vi]
"#,
        );
    }

    #[test]
    fn what_is_not_described_is_refused() {
        refuse(&AXPY.replace("C[vi, vj] + A", "C[vi, vj] - A"), |t| t.python(STEP), "TensorizeError");
        refuse(AXPY, |t| t.python(&STEP.replace("[3]", "[2]")), "TensorizeError");
        refuse(AXPY, |t| t.python(&STEP.replace("fma_8_f32", "nothing")), "ValueError");
    }
}
