//! Tensor expressions: programs written as formulas of their elements.
//!
//! A [`Te`] collects *stages*. A placeholder is an argument; [`Te::compute`] gives each element of a tensor as an expression of
//! its indices; [`Te::reduce`] combines the values of an expression over a domain. [`Te::prim_func`] makes a function of them,
//! with one block for each stage, as TVM's `te.create_prim_func` does: the same blocks and names, so that a workload is
//! recognised whichever of the two wrote it. A `Te` dereferences to the [`Arena`] of its expressions.
//!
//! ```
//! use tvmr::ir::DType;
//! use tvmr::script::{Dialect, print_func};
//! use tvmr::te::{Reducer, Te};
//!
//! let mut te = Te::new();
//! let (n, m, l) = (te.extent(16), te.extent(8), te.extent(32));
//! let a = te.placeholder("A", DType::Float32, &[n, l]);
//! let b = te.placeholder("B", DType::Float32, &[l, m]);
//! let c = te.reduce("C", &[n, m], &[l], Reducer::Sum, |te, i, k| {
//!     let (x, y) = (te.at(a, &[i[0], k[0]]), te.at(b, &[k[0], i[1]]));
//!     te.mul(x, y)
//! });
//! let zero = te.float(0.0, DType::Float32);
//! let d = te.compute("D", &[n, m], |te, i| {
//!     let x = te.at(c, i);
//!     te.max(x, zero)
//! });
//! let func = te.prim_func("matmul_relu", &[a, b], &[d]);
//! let text = print_func(&func, Dialect::Current);
//! assert!(text.contains("C[v_i0, v_i1] = C[v_i0, v_i1] + A[v_i0, v_k] * B[v_k, v_i1]"), "{text}");
//! assert!(text.contains("D[v_i0, v_i1] = T.max(C[v_i0, v_i1], T.float32(0.0))"), "{text}");
//! ```
//!
//! Extents are expressions, so that they may be symbols ([`Te::symbol`]). Lowerings of graph operators use this interface, and
//! so do the texts that `te_function` reads.
//!
//! | file | content |
//! | --- | --- |
//! | this one | stages |
//! | [`mod@dag`] | the lines of a DAG of stages |
//! | [`definition`] | stages that expressions of named axes define |
//! | [`float_tests`] | tests of floats, as formulas |
//! | [`reducer`] | what reductions combine by, also several values at once |
//! | [`sequential`] | stages whose elements depend on others of the same tensor |
//! | [`statements`] | stages that are statements |
//! | [`prim_func`] | the function of the stages |

mod dag;
mod definition;
mod float_tests;
mod prim_func;
mod reducer;
mod sequential;
mod statements;
#[cfg(test)]
mod tests;

pub use dag::dag;
pub use definition::{Combiner, DefinitionAxis};
pub use prim_func::Parameter;
pub use reducer::Reducer;
pub use reducer::{greatest, least};
pub use statements::{Statements, Written};

use crate::arith::Analyzer;
use crate::ir::{Arena, AttrValue, Body, Buffer, BufferId, DType, ExprId, Func, IterKind, Stmt, Symbol, VarId};
use std::ops::{Deref, DerefMut};

/// The type of extents and indices, unless [`Te::set_index_type`] chooses another one.
pub const INDEX: DType = DType::Int64;

/// A tensor of a [`Te`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tensor(u32);

/// A collection of stages.
pub struct Te {
    func: Func,
    /// The type of constant extents and indices.
    index: DType,
    /// Whether elements are simplified.
    simplify: bool,
    tensors: Vec<TensorData>,
    stages: Vec<Stage>,
}

/// What is known of a tensor.
struct TensorData {
    buffer: BufferId,
    /// The stage that computes it; `None` for placeholders.
    stage: Option<usize>,
}

/// The computation of one tensor, or of several by one reduction.
struct Stage {
    name: Symbol,
    axes: Vec<Axis>,
    /// What the block stores before the first step of a reduction.
    init: Option<Body>,
    body: Body,
    writes: Vec<BufferId>,
    annotations: Vec<(Symbol, AttrValue)>,
    /// Whether its tensors have no dimensions.
    rank_0: bool,
    /// A copy that comes before, into the same tensor.
    copy: Option<(Vec<Axis>, Body)>,
    /// The memory of one instance, if the stage is statements.
    locals: Option<Vec<BufferId>>,
    /// Further blocks in the loops of this one.
    siblings: Vec<Sibling>,
}

/// A block in the loops of another one, with iteration variables of the same ranges.
struct Sibling {
    name: Symbol,
    iter_vars: Vec<VarId>,
    body: Body,
}

/// A loop of a stage, and the iteration variable that is bound to it.
struct Axis {
    /// The variable of the definition.
    defined: VarId,
    loop_var: VarId,
    iter_var: VarId,
    min: ExprId,
    extent: ExprId,
    kind: IterKind,
}

impl Default for Te {
    fn default() -> Te {
        Te::new()
    }
}

impl Deref for Te {
    type Target = Arena;

    fn deref(&self) -> &Arena {
        &self.func.arena
    }
}

impl DerefMut for Te {
    fn deref_mut(&mut self) -> &mut Arena {
        &mut self.func.arena
    }
}

impl Te {
    /// Without stages.
    pub fn new() -> Te {
        Te { func: Func::new("main"), index: INDEX, simplify: false, tensors: Vec::new(), stages: Vec::new() }
    }

    /// The type of constant extents and indices.
    pub fn index_type(&self) -> DType {
        self.index
    }

    /// Makes constant extents and indices from now on have this type.
    pub fn set_index_type(&mut self, dtype: DType) {
        self.index = dtype;
    }

    /// Simplifies the elements of stages from now on, as TVM's `te.create_prim_func` does: without knowing the ranges of indices.
    pub fn simplify_elements(&mut self) {
        self.simplify = true;
    }

    /// Whether elements are simplified, so that a formula may stand as TVM writes it.
    pub fn simplifies(&self) -> bool {
        self.simplify
    }

    fn simplified(&mut self, value: ExprId) -> ExprId {
        match self.simplify {
            true => Analyzer::new().simplify(&mut self.func.arena, value),
            false => value,
        }
    }

    /// A constant extent or index.
    pub fn extent(&mut self, n: i64) -> ExprId {
        let index = self.index;
        self.int(n, index)
    }

    /// Constant extents or indices.
    pub fn extents(&mut self, all: &[i64]) -> Vec<ExprId> {
        all.iter().map(|&n| self.extent(n)).collect()
    }

    /// A symbolic extent. Its value follows from the shape of an argument when the function is called.
    pub fn symbol(&mut self, name: &str) -> ExprId {
        let index = self.index;
        self.new_var_expr(name, index).1
    }

    /// An argument.
    pub fn placeholder(&mut self, name: &str, dtype: DType, shape: &[ExprId]) -> Tensor {
        self.tensor(name, dtype, shape, None)
    }

    /// A tensor whose element at the indices `i` is `element(i)`.
    pub fn compute(
        &mut self,
        name: &str,
        shape: &[ExprId],
        element: impl FnOnce(&mut Te, &[ExprId]) -> ExprId,
    ) -> Tensor {
        let axes = self.axes("i", shape, IterKind::Spatial);
        let indices = self.indices(&axes);
        let value = element(self, &indices);
        self.computed(name, shape, axes, &indices, value)
    }

    // What does not depend on the type of `element` is compiled once.
    fn computed(
        &mut self,
        name: &str,
        shape: &[ExprId],
        mut axes: Vec<Axis>,
        indices: &[ExprId],
        value: ExprId,
    ) -> Tensor {
        let value = self.simplified(value);
        let tensor = self.tensor(name, self.dtype(value), shape, Some(self.stages.len()));
        self.point_of_rank_0(&mut axes, shape);
        let body = [self.store(tensor, indices, value)].into_iter().collect();
        self.add_stage(name, axes, None, body, &[tensor]);
        tensor
    }

    /// A tensor whose element at the indices `i` combines `element(i, k)` for all `k` of the domain. It is the reducer's neutral
    /// element where the domain is empty.
    ///
    /// # Panics
    /// If the domain has no dimensions, or the reducer combines several values.
    pub fn reduce(
        &mut self,
        name: &str,
        shape: &[ExprId],
        domain: &[ExprId],
        reducer: Reducer,
        element: impl FnOnce(&mut Te, &[ExprId], &[ExprId]) -> ExprId,
    ) -> Tensor {
        let all = self.reduce_many(name, shape, domain, reducer, |te, i, k| vec![element(te, i, k)]);
        all[0]
    }

    /// Tensors that one reduction computes together: `element(i, k)` gives as many values as the reducer combines, and each of
    /// them has its tensor. See [`Te::reduce`].
    ///
    /// # Panics
    /// If the domain has no dimensions, or `element` gives another number of values.
    pub fn reduce_many(
        &mut self,
        name: &str,
        shape: &[ExprId],
        domain: &[ExprId],
        reducer: Reducer,
        element: impl FnOnce(&mut Te, &[ExprId], &[ExprId]) -> Vec<ExprId>,
    ) -> Vec<Tensor> {
        assert!(!domain.is_empty(), "a reduction has a domain");
        if domain.iter().any(|&k| self.is_int(k, 0)) {
            // Only the types of the values matter.
            let (i, k) = (vec![self.extent(0); shape.len()], vec![self.extent(0); domain.len()]);
            let values = element(self, &i, &k);
            return self.neutral(name, shape, reducer, &values);
        }
        let mut axes = self.axes("i", shape, IterKind::Spatial);
        let indices = self.indices(&axes);
        let reduced = self.axes("k", domain, IterKind::Reduce);
        let steps = self.indices(&reduced);
        let values = element(self, &indices, &steps);
        axes.extend(reduced);
        self.reduced(name, shape, axes, &indices, reducer, values)
    }

    fn reduced(
        &mut self,
        name: &str,
        shape: &[ExprId],
        axes: Vec<Axis>,
        indices: &[ExprId],
        reducer: Reducer,
        values: Vec<ExprId>,
    ) -> Vec<Tensor> {
        let values: Vec<ExprId> = values.into_iter().map(|value| self.simplified(value)).collect();
        assert_eq!(values.len(), reducer.n_values(), "the reducer combines as many values");
        let tensors: Vec<Tensor> = (values.iter().enumerate())
            .map(|(i, &value)| {
                let name = if values.len() == 1 { name.to_owned() } else { format!("{name}_v{i}") };
                self.tensor(&name, self.dtype(value), shape, Some(self.stages.len()))
            })
            .collect();
        let neutral = reducer.neutral(self, &values);
        let init = tensors.iter().zip(neutral).map(|(&t, value)| self.store(t, indices, value)).collect();
        let so_far: Vec<ExprId> = tensors.iter().map(|&t| self.at(t, indices)).collect();
        let combined = reducer.combine(self, &so_far, &values);
        let body = match (&tensors[..], &combined[..]) {
            (&[tensor], &[value]) => [self.store(tensor, indices, value)].into_iter().collect(),
            _ => self.stores_together(&tensors, indices, &combined),
        };
        self.add_stage(name, axes, Some(init), body, &tensors);
        tensors
    }

    /// The element of a tensor at indices. There are as many as the tensor has dimensions.
    pub fn at(&mut self, tensor: Tensor, indices: &[ExprId]) -> ExprId {
        let buffer = self.buffer_of(tensor);
        assert_eq!(indices.len(), self.shape(tensor).len(), "one index for each dimension");
        self.load(buffer, indices)
    }

    /// The extents of a tensor.
    pub fn shape(&self, tensor: Tensor) -> &[ExprId] {
        self.list(self.buffer(self.buffer_of(tensor)).shape)
    }

    /// The type of a tensor's elements.
    pub fn element_type(&self, tensor: Tensor) -> DType {
        self.buffer(self.buffer_of(tensor)).dtype
    }

    /// The name of a tensor.
    pub fn buffer_name(&self, tensor: Tensor) -> Symbol {
        self.buffer(self.buffer_of(tensor)).name
    }

    /// Annotates the block of the stage that computes a tensor (`T.sblock_attr`).
    ///
    /// # Panics
    /// If the tensor is a placeholder.
    pub fn annotate(&mut self, tensor: Tensor, key: &str, value: AttrValue) {
        let stage = self.tensors[tensor.0 as usize].stage.expect("placeholders have no block");
        self.stages[stage].annotations.push((key.into(), value));
    }

    fn buffer_of(&self, tensor: Tensor) -> BufferId {
        self.tensors[tensor.0 as usize].buffer
    }

    fn tensor(&mut self, name: &str, dtype: DType, shape: &[ExprId], stage: Option<usize>) -> Tensor {
        let shape = self.new_list(shape);
        let buffer = self.new_buffer(Buffer::new(name, dtype, shape));
        self.tensors.push(TensorData { buffer, stage });
        Tensor(self.tensors.len() as u32 - 1)
    }

    fn axes(&mut self, prefix: &str, extents: &[ExprId], kind: IterKind) -> Vec<Axis> {
        let only = extents.len() == 1 && kind == IterKind::Reduce;
        let mut axis = |(i, &extent): (usize, &ExprId)| {
            let name = if only { prefix.to_owned() } else { format!("{prefix}{i}") };
            let ty = self.dtype(extent);
            let loop_var = self.new_var(name.as_str(), ty);
            let iter_var = self.new_var(format!("v_{name}").as_str(), ty);
            let min = self.int(0, ty);
            Axis { defined: loop_var, loop_var, iter_var, min, extent, kind }
        };
        extents.iter().enumerate().map(&mut axis).collect()
    }

    fn indices(&mut self, axes: &[Axis]) -> Vec<ExprId> {
        axes.iter().map(|axis| self.var_expr(axis.iter_var)).collect()
    }

    /// The block of a tensor without dimensions has one iteration variable, as in TVM.
    fn point_of_rank_0(&mut self, axes: &mut Vec<Axis>, shape: &[ExprId]) {
        if shape.is_empty() {
            let (min, extent) = (self.extent(0), self.extent(1));
            let index = self.index;
            let (loop_var, iter_var) = (self.new_var("i", index), self.new_var("vi", index));
            axes.push(Axis { defined: loop_var, loop_var, iter_var, min, extent, kind: IterKind::Spatial });
        }
    }

    fn store(&mut self, tensor: Tensor, indices: &[ExprId], value: ExprId) -> crate::ir::StmtId {
        let (buffer, indices) = (self.buffer_of(tensor), self.new_list(indices));
        self.func.stmts.add(Stmt::Store { buffer, indices, value })
    }

    /// Stores of values that are computed from the tensors: all are computed before the first is stored.
    fn stores_together(&mut self, tensors: &[Tensor], indices: &[ExprId], values: &[ExprId]) -> Body {
        let vars: Vec<VarId> = (tensors.iter().zip(values))
            .map(|(&tensor, &value)| {
                let name = self.buffer(self.buffer_of(tensor)).name;
                let ty = self.dtype(value);
                self.new_var(format!("v_{name}").as_str(), ty)
            })
            .collect();
        let mut body: Body = (tensors.iter().zip(&vars))
            .map(|(&tensor, &var)| {
                let value = self.var_expr(var);
                self.store(tensor, indices, value)
            })
            .collect();
        for (&var, &value) in vars.iter().zip(values).rev() {
            body = [self.func.stmts.add(Stmt::Let { var, value, body })].into_iter().collect();
        }
        body
    }

    /// The result of a reduction over nothing.
    fn neutral(&mut self, name: &str, shape: &[ExprId], reducer: Reducer, values: &[ExprId]) -> Vec<Tensor> {
        let neutral = reducer.neutral(self, values);
        let of = |(i, value): (usize, ExprId)| {
            let name = if neutral.len() == 1 { name.to_owned() } else { format!("{name}_v{i}") };
            self.compute(&name, shape, |_, _| value)
        };
        neutral.clone().into_iter().enumerate().map(of).collect()
    }

    fn add_stage(&mut self, name: &str, axes: Vec<Axis>, init: Option<Body>, body: Body, tensors: &[Tensor]) {
        let writes = tensors.iter().map(|&t| self.buffer_of(t)).collect();
        let rank_0 = self.shape(tensors[0]).is_empty();
        self.stages.push(Stage {
            name: name.into(),
            axes,
            init,
            body,
            writes,
            annotations: Vec::new(),
            rank_0,
            copy: None,
            locals: None,
            siblings: Vec::new(),
        });
    }
}
