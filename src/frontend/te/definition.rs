//! Stages whose elements are expressions of named axes, as a text of tensor expressions gives them.
//!
//! ```text
//! k = te.reduce_axis((0, 32), "k")                                     axis
//! C = te.compute((16, 8), lambda i, j: te.sum(A[i, k] * B[k, j], k))   axis, axis, define_reduction
//! ```
//!
//! An axis may be used by several stages: each has loops and iteration variables of its own.

use super::{Axis, Sibling, Te, Tensor};
use crate::ir::visit::Substitution;
use crate::ir::{DType, ExprId, IterKind, VarId};

/// An axis of definitions: a variable, and the range of its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefinitionAxis {
    /// The variable, of which elements are expressions.
    pub var: VarId,
    /// The first value.
    pub min: ExprId,
    /// The number of values.
    pub extent: ExprId,
}

/// How a definition combines values: `result` is what becomes of the values so far (`lhs`) and new ones (`rhs`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Combiner {
    /// The values so far.
    pub lhs: Vec<VarId>,
    /// The new values.
    pub rhs: Vec<VarId>,
    /// Their combination.
    pub result: Vec<ExprId>,
    /// The values before the first ones.
    pub identity: Vec<ExprId>,
}

impl Te {
    /// An axis over `extent` values from `min` on. Its variable has the wider of their types.
    pub fn definition_axis(&mut self, name: &str, min: ExprId, extent: ExprId) -> DefinitionAxis {
        let (a, b) = (self.dtype(min), self.dtype(extent));
        let var = self.new_var(name, if a.bits() < b.bits() { b } else { a });
        DefinitionAxis { var, min, extent }
    }

    /// Tensors of one shape, the extents of `axes`: the elements of each are one of `values`. Several are computed in one nest of
    /// loops.
    ///
    /// # Panics
    /// If there is no value.
    pub fn define(&mut self, name: &str, axes: &[DefinitionAxis], values: &[ExprId]) -> Vec<Tensor> {
        let stage = self.stages.len();
        let tensors = self.tensors_of(name, axes, values, stage);
        let shape: Vec<ExprId> = axes.iter().map(|a| a.extent).collect();
        let mut blocks = Vec::with_capacity(values.len());
        for (&tensor, &value) in tensors.iter().zip(values) {
            let mut stage_axes = Vec::with_capacity(axes.len());
            let mut substitution = self.own_axes(axes, IterKind::Spatial, &mut stage_axes);
            let value = substitution.apply(&mut self.func.arena, value);
            let value = self.simplified(value);
            let indices = self.indices(&stage_axes);
            self.point_of_rank_0(&mut stage_axes, &shape);
            blocks.push((stage_axes, [self.store(tensor, &indices, value)].into_iter().collect()));
        }
        let mut blocks = blocks.into_iter();
        let (first_axes, first_body) = blocks.next().expect("a definition has a value");
        let first = if values.len() == 1 { name.to_owned() } else { self.buffer_name(tensors[0]).to_string() };
        self.add_stage(&first, first_axes, None, first_body, &tensors);
        let names: Vec<_> = tensors.iter().map(|&t| self.buffer_name(t)).collect();
        let siblings = blocks.zip(names.into_iter().skip(1)).map(|((axes, body), name)| {
            let iter_vars = axes.iter().map(|a| a.iter_var).collect();
            Sibling { name, iter_vars, body }
        });
        self.stages[stage].siblings = siblings.collect();
        tensors
    }

    /// Tensors that one reduction computes: the values of `values` for all `reduced`, combined.
    ///
    /// # Panics
    /// If the combiner combines another number of values, or `reduced` is empty.
    pub fn define_reduction(
        &mut self,
        name: &str,
        axes: &[DefinitionAxis],
        reduced: &[DefinitionAxis],
        combiner: &Combiner,
        values: &[ExprId],
    ) -> Vec<Tensor> {
        assert!(!reduced.is_empty(), "a reduction has a domain");
        assert_eq!(values.len(), combiner.result.len(), "the combiner combines as many values");
        let stage = self.stages.len();
        let tensors = self.tensors_of(name, axes, &combiner.identity, stage);
        let mut stage_axes = Vec::with_capacity(axes.len() + reduced.len());
        let mut substitution = self.own_axes(axes, IterKind::Spatial, &mut stage_axes);
        let indices = self.indices(&stage_axes);
        let of_reduced = self.own_axes(reduced, IterKind::Reduce, &mut stage_axes);
        for axis in reduced {
            if let Some(own) = of_reduced.var(axis.var) {
                substitution.add_var(axis.var, own);
            }
        }
        let values: Vec<ExprId> = (values.iter())
            .map(|&value| {
                let value = substitution.apply(&mut self.func.arena, value);
                self.simplified(value)
            })
            .collect();
        let init = tensors.iter().zip(&combiner.identity).map(|(&t, &value)| self.store(t, &indices, value)).collect();
        let so_far: Vec<ExprId> = tensors.iter().map(|&t| self.at(t, &indices)).collect();
        let pairs = combiner.lhs.iter().copied().zip(so_far).chain(combiner.rhs.iter().copied().zip(values));
        let mut combination = Substitution::of_vars(pairs).unfolded();
        let combined: Vec<ExprId> =
            combiner.result.iter().map(|&e| combination.apply(&mut self.func.arena, e)).collect();
        let body = match (&tensors[..], &combined[..]) {
            (&[tensor], &[value]) => [self.store(tensor, &indices, value)].into_iter().collect(),
            _ => self.stores_together(&tensors, &indices, &combined),
        };
        self.add_stage(name, stage_axes, Some(init), body, &tensors);
        tensors
    }

    /// The axes of the stage that computes a tensor, as they were defined, and whether they are reduced. Empty for placeholders.
    pub fn stage_axes(&self, tensor: Tensor) -> Vec<(DefinitionAxis, bool)> {
        let Some(stage) = self.tensors[tensor.0 as usize].stage else { return Vec::new() };
        let axis = |a: &Axis| {
            let axis = DefinitionAxis { var: a.defined, min: a.min, extent: a.extent };
            (axis, a.kind == IterKind::Reduce)
        };
        let stage = &self.stages[stage];
        // The block of a tensor without dimensions has a variable that is no axis.
        let is_axis = |a: &&Axis| !stage.rank_0 || a.kind == IterKind::Reduce;
        stage.axes.iter().filter(is_axis).map(axis).collect()
    }

    /// The combiner of one value that an operator gives.
    pub fn combiner(
        &mut self,
        dtype: DType,
        identity: ExprId,
        combine: impl FnOnce(&mut Te, ExprId, ExprId) -> ExprId,
    ) -> Combiner {
        let ((lhs, x), (rhs, y)) = (self.new_var_expr("x", dtype), self.new_var_expr("y", dtype));
        let result = vec![combine(self, x, y)];
        Combiner { lhs: vec![lhs], rhs: vec![rhs], result, identity: vec![identity] }
    }

    fn tensors_of(&mut self, name: &str, axes: &[DefinitionAxis], values: &[ExprId], stage: usize) -> Vec<Tensor> {
        let shape: Vec<ExprId> = axes.iter().map(|a| a.extent).collect();
        let one = values.len() == 1;
        let mut tensor = |(i, &value): (usize, &ExprId)| {
            let name = if one { name.to_owned() } else { format!("{name}_v{i}") };
            self.tensor(&name, self.dtype(value), &shape, Some(stage))
        };
        values.iter().enumerate().map(&mut tensor).collect()
    }

    /// Loops and iteration variables for axes.
    fn own_axes(&mut self, axes: &[DefinitionAxis], kind: IterKind, own: &mut Vec<Axis>) -> Substitution {
        let mut pairs = Vec::with_capacity(axes.len());
        for axis in axes {
            let var = self.var(axis.var);
            let (name, ty) = (var.name, var.ty());
            let loop_var = self.new_var(name, ty);
            let iter_var = self.new_var(format!("v_{name}").as_str(), ty);
            own.push(Axis { defined: axis.var, loop_var, iter_var, min: axis.min, extent: axis.extent, kind });
            pairs.push((axis.var, self.var_expr(iter_var)));
        }
        Substitution::of_vars(pairs).unfolded()
    }
}
