//! Stages whose elements depend on others of the same tensor, so that their order matters.

use super::{Te, Tensor};
use crate::ir::{DType, ExprId, IterKind};

impl Te {
    /// A tensor whose element at the indices `i` is `element(out, i)`, which may read elements of the tensor `out` itself that have
    /// smaller indices along one axis: those are computed before.
    pub fn recurrence(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[ExprId],
        axis: usize,
        element: impl FnOnce(&mut Te, Tensor, &[ExprId]) -> ExprId,
    ) -> Tensor {
        let mut axes = self.axes("i", shape, IterKind::Spatial);
        axes[axis].kind = IterKind::Opaque;
        let indices = self.indices(&axes);
        let tensor = self.tensor(name, dtype, shape, Some(self.stages.len()));
        let value = element(self, tensor, &indices);
        let body = [self.store(tensor, &indices, value)].into_iter().collect();
        self.add_stage(name, axes, None, body, &[tensor]);
        tensor
    }

    /// A copy of a tensor of which elements are changed, one after the other. For each `k` of the domain, `change` gives the
    /// indices of an element and its new value; of the tensor that it is given, it may read that element, as it is so far.
    pub fn update(
        &mut self,
        name: &str,
        base: Tensor,
        domain: &[ExprId],
        change: impl FnOnce(&mut Te, Tensor, &[ExprId]) -> (Vec<ExprId>, ExprId),
    ) -> Tensor {
        let shape = self.shape(base).to_vec();
        let dtype = self.element_type(base);
        let tensor = self.tensor(name, dtype, &shape, Some(self.stages.len()));
        let mut copied = self.axes("i", &shape, IterKind::Spatial);
        let indices = self.indices(&copied);
        let value = self.at(base, &indices);
        self.point_of_rank_0(&mut copied, &shape);
        let copy = [self.store(tensor, &indices, value)].into_iter().collect();
        let mut axes = self.axes("k", domain, IterKind::Opaque);
        let steps = self.indices(&axes);
        let (indices, value) = change(self, tensor, &steps);
        // Elements with different indices are different, so that the order along such axes does not matter.
        for (axis, _) in axes.iter_mut().zip(&steps).filter(|(_, step)| indices.contains(step)) {
            axis.kind = IterKind::Spatial;
        }
        let body = [self.store(tensor, &indices, value)].into_iter().collect();
        self.add_stage(name, axes, None, body, &[tensor]);
        if let Some(stage) = self.stages.last_mut() {
            stage.copy = Some((copied, copy));
        }
        tensor
    }
}
