//! Sequences and optional values: they are lists of values while the model is read, so their lengths and positions are known.

use super::super::extents::Extents;
use super::*;
use crate::ir::DType;

/// Longer tensors are not split.
const MOST_PARTS: i64 = 1 << 16;

pub(super) static OPERATORS: &[Operator] = &[
    many("ConcatFromSequence", 11, |n| {
        let all = n.sequence(0)?;
        let axis = n.int("axis", 0);
        let is_new = n.flag("new_axis", false);
        let values = all.into_iter().map(|v| n.element(v)).collect::<Result<Vec<_>>>()?;
        let Some(&first) = values.first() else { return n.fail("`ConcatFromSequence` of no tensors") };
        let rank = n.rank(first)? + usize::from(is_new);
        let axis = n.axis(axis, rank)?;
        let y = match is_new {
            true => n.call("stack", vec![("tensors", Arg::Values(values)), ("axis", int(axis as i64))])?,
            false => n.concat(values, axis)?,
        };
        Ok(vec![Operand::Value(y)])
    }),
    many("Optional", 15, |n| {
        n.ignore("type");
        match n.has(0) {
            true => Ok(vec![n.operand(0)?]),
            false => n.fail("`Optional` of nothing is not supported"),
        }
    }),
    many("OptionalGetElement", 15, |n| Ok(vec![n.operand(0)?])),
    many("OptionalHasElement", 15, |n| {
        let is_there = n.has(0);
        if is_there {
            n.operand(0)?;
        }
        let element = n.index(i64::from(is_there));
        Ok(vec![Operand::Extents(Extents { dtype: DType::Bool, shape: Vec::new(), elements: vec![element] })])
    }),
    many("SequenceAt", 11, |n| {
        let mut all = n.sequence(0)?;
        let at = n.known_ints(1)?.first().copied().unwrap_or(0);
        let at = n.axis(at, all.len())?;
        Ok(vec![all.swap_remove(at)])
    }),
    many("SequenceConstruct", 11, |n| {
        let all = (0..n.n_inputs()).map(|i| n.operand(i)).collect::<Result<Vec<_>>>()?;
        Ok(vec![Operand::Sequence(all)])
    }),
    many("SequenceEmpty", 11, |n| {
        n.ignore("dtype");
        Ok(vec![Operand::Sequence(Vec::new())])
    }),
    many("SequenceErase", 11, |n| {
        let mut all = n.sequence(0)?;
        let at = if n.has(1) { n.known_ints(1)?.first().copied().unwrap_or(0) } else { -1 };
        let at = n.axis(at, all.len())?;
        all.remove(at);
        Ok(vec![Operand::Sequence(all)])
    }),
    many("SequenceInsert", 11, |n| {
        let mut all = n.sequence(0)?;
        let new = n.operand(1)?;
        let at = match n.has(2) {
            // The position behind the last element is one, too.
            true => match n.known_ints(2)?.first().copied().unwrap_or(0) {
                at if at == all.len() as i64 => all.len(),
                at => n.axis(at, all.len())?,
            },
            false => all.len(),
        };
        all.insert(at, new);
        Ok(vec![Operand::Sequence(all)])
    }),
    many("SequenceLength", 11, |n| {
        let length = n.sequence(0)?.len() as i64;
        let length = n.index(length);
        Ok(vec![Operand::Extents(Extents { dtype: DType::Int64, shape: Vec::new(), elements: vec![length] })])
    }),
    many("SplitToSequence", 11, |n| {
        let x = n.value(0)?;
        let axis = n.int("axis", 0);
        let axis = n.axis(axis, n.rank(x)?)?;
        let extent = n.known_shape(x)?[axis];
        if extent > MOST_PARTS {
            return n.fail(format!("`SplitToSequence` of {extent} elements is not supported"));
        }
        let keeps = n.flag("keepdims", true) || n.has(1);
        let sizes = if n.has(1) {
            let sizes = n.known_ints(1)?;
            let is_number = n.input_shape(1).is_some_and(|shape| shape.is_empty());
            match sizes[..] {
                [each] if is_number && each > 0 => {
                    (0..extent).step_by(each as usize).map(|at| each.min(extent - at)).collect()
                }
                _ => sizes,
            }
        } else {
            vec![1; usize::try_from(extent).unwrap_or(0)]
        };
        if sizes.iter().any(|size| !(0..=extent).contains(size)) || sizes.iter().sum::<i64>() != extent {
            return n.fail(format!("`SplitToSequence` of {extent} elements into {sizes:?}"));
        }
        let mut parts = Vec::new();
        let mut at = 0;
        for size in sizes {
            let part = n.part(x, axis, (at, at + size), 1)?;
            parts.push(Operand::Value(if keeps { part } else { n.squeeze(part, axis)? }));
            at += size;
        }
        Ok(vec![Operand::Sequence(parts)])
    }),
];

impl<'m> Node<'_, 'm> {
    /// The elements of an argument that is a sequence.
    fn sequence(&mut self, i: usize) -> Result<Vec<Operand<'m>>> {
        match self.operand(i)? {
            Operand::Sequence(all) => Ok(all),
            _ => self.fail(format!("argument {i} of `{}` must be a sequence that the model makes", self.op_type())),
        }
    }

    /// An element of a sequence as a value of the graph.
    fn element(&mut self, element: Operand<'m>) -> Result<ValueId> {
        self.cx.value_of("", element)
    }
}
