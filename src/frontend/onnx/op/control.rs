//! Control flow that is known: branches are chosen, and loops unrolled, while the model is read.

use super::super::extents::Extents;
use super::super::proto::GraphProto;
use super::*;
use crate::graph::known;
use crate::ir::DType;

pub(super) static OPERATORS: &[Operator] = &[
    many("If", 7, |n| {
        let (Some(yes), Some(no)) = (n.graph("then_branch"), n.graph("else_branch")) else {
            return n.fail("`If` lacks a branch");
        };
        if let Some(condition) = n.constant(0) {
            let branch = if condition.int(0).is_some_and(|v| v != 0) { yes } else { no };
            return n.cx.inline(branch, Vec::new());
        }
        // Both branches are computed, and the results chosen.
        let condition = n.value(0)?;
        let condition = n.reshape(condition, Vec::new())?;
        let (a, b) = (n.inlined_values(yes)?, n.inlined_values(no)?);
        let mut results = Vec::new();
        for (a, b) in a.into_iter().zip(b) {
            if n.shape(a)? != n.shape(b)? || n.dtype(a)? != n.dtype(b)? {
                return Err(n.unknown(0));
            }
            results.push(Operand::Value(n.select(condition, a, b)?));
        }
        Ok(results)
    }),
    many("Loop", 7, |n| {
        let Some(body) = n.graph("body") else { return n.fail("`Loop` lacks its body") };
        let most = if n.has(0) { n.known_ints(0)?.first().copied().unwrap_or(0) } else { i64::MAX };
        let mut goes_on = if n.has(1) { n.operand(1)? } else { truth(n, true) };
        let mut carried = (2..n.n_inputs()).map(|i| n.operand(i)).collect::<Result<Vec<_>>>()?;
        let n_carried = carried.len();
        let mut scanned: Vec<Vec<ValueId>> = vec![Vec::new(); body.output.len().saturating_sub(1 + n_carried)];
        let mut i = 0;
        while i < most && is_true(n, &goes_on)? {
            let step = n.index(i);
            let step = Extents { dtype: DType::Int64, shape: Vec::new(), elements: vec![step] };
            let mut args = vec![Operand::Extents(step), goes_on];
            args.append(&mut carried);
            let mut results = n.cx.inline(body, args)?.into_iter();
            goes_on = match results.next() {
                Some(condition) => condition,
                None => return n.fail("the body of `Loop` has no condition"),
            };
            carried = results.by_ref().take(n_carried).collect();
            for (j, (all, result)) in scanned.iter_mut().zip(results).enumerate() {
                let name = &body.output[1 + n_carried + j].name;
                let v = n.cx.value_of(name, result)?;
                all.push(n.expand_dims(v, &[0])?);
            }
            i += 1;
        }
        for all in scanned {
            if all.is_empty() {
                return n.fail("`Loop` without a step has no elements to scan, which is not supported");
            }
            carried.push(Operand::Value(n.concat(all, 0)?));
        }
        Ok(carried)
    }),
    many("Scan", 9, |n| {
        let Some(body) = n.graph("body") else { return n.fail("`Scan` lacks its body") };
        let n_scanned = usize::try_from(n.int("num_scan_inputs", 0)).unwrap_or(0);
        let Some(n_carried) = n.n_inputs().checked_sub(n_scanned).filter(|_| n_scanned > 0) else {
            return n.fail("`Scan` lacks inputs that it scans");
        };
        let mut carried = (0..n_carried).map(|i| n.operand(i)).collect::<Result<Vec<_>>>()?;
        let scanned = (n_carried..n.n_inputs()).map(|i| n.value(i)).collect::<Result<Vec<_>>>()?;
        let n_results = body.output.len().saturating_sub(n_carried);
        let mut flags = |name: &str, count: usize| n.ints(name).unwrap_or_else(|| vec![0; count]);
        let (in_axes, out_axes) = (flags("scan_input_axes", n_scanned), flags("scan_output_axes", n_results));
        let (reads_back, writes_back) =
            (flags("scan_input_directions", n_scanned), flags("scan_output_directions", n_results));
        if [in_axes.len(), reads_back.len()] != [n_scanned; 2] || [out_axes.len(), writes_back.len()] != [n_results; 2]
        {
            return n.fail("the axes and directions of `Scan` are not as many as its inputs and results");
        }
        let mut axes = Vec::new();
        for (&v, &axis) in scanned.iter().zip(&in_axes) {
            axes.push(n.axis(axis, n.rank(v)?)?);
        }
        let steps = n.known_shape(scanned[0])?[axes[0]];
        let mut written: Vec<Vec<ValueId>> = vec![Vec::new(); n_results];
        for t in 0..steps {
            let mut args = std::mem::take(&mut carried);
            for (i, &v) in scanned.iter().enumerate() {
                let at = if reads_back[i] != 0 { steps - 1 - t } else { t };
                args.push(Operand::Value(n.at(v, axes[i], at)?));
            }
            let mut results = n.cx.inline(body, args)?.into_iter();
            carried = results.by_ref().take(n_carried).collect();
            for (j, (all, result)) in written.iter_mut().zip(results).enumerate() {
                all.push(n.cx.value_of(&body.output[n_carried + j].name, result)?);
            }
        }
        for (j, mut all) in written.into_iter().enumerate() {
            let Some(&first) = all.first() else { return n.fail("`Scan` of no elements is not supported") };
            let axis = n.axis(out_axes[j], n.rank(first)? + 1)?;
            if writes_back[j] != 0 {
                all.reverse();
            }
            let args = vec![("tensors", Arg::Values(all)), ("axis", int(axis as i64))];
            carried.push(Operand::Value(n.call("stack", args)?));
        }
        Ok(carried)
    }),
];

fn truth<'m>(n: &mut Node<'_, 'm>, value: bool) -> Operand<'m> {
    let element = n.index(i64::from(value));
    Operand::Extents(Extents { dtype: DType::Bool, shape: Vec::new(), elements: vec![element] })
}

/// The value of a loop's condition, which must be known.
fn is_true<'m>(n: &mut Node<'_, 'm>, condition: &Operand<'m>) -> Result<bool> {
    match n.cx.extents_of(condition.clone()).and_then(|e| e.ints(n.arena())) {
        Some(known) => Ok(known.first().is_some_and(|&v| v != 0)),
        None => match condition {
            Operand::Refused => Err(Refusal::from(String::new())),
            Operand::Value(v) => {
                let function = &n.cx.function;
                if let Some(known) = known::elements(function, &function.arena, *v) {
                    return Ok(known.int(0).is_some_and(|v| v != 0));
                }
                let inputs = n.cx.inputs_of(*v);
                n.cx.needed.extend(inputs);
                n.fail("the condition of `Loop` must be known before the model runs, and depends on inputs")
            }
            _ => n.fail("the condition of `Loop` must be known before the model runs"),
        },
    }
}

impl<'m> Node<'_, 'm> {
    /// The results of a subgraph without arguments, as values of the graph.
    fn inlined_values(&mut self, graph: &'m GraphProto) -> Result<Vec<ValueId>> {
        let results = self.cx.inline(graph, Vec::new())?;
        results.into_iter().zip(&graph.output).map(|(r, output)| self.cx.value_of(&output.name, r)).collect()
    }
}
