//! Concatenations that nothing computes: their parts are written where they lie in the result.
//!
//! ```text
//! a = R.call_tir(cls.conv2d, …)          (1, 64, 56, 56) floats, from byte 0 of y
//! b = R.call_tir(cls.conv2d1, …)         (1, 32, 56, 56) floats, from byte 802816 of y
//! y = R.concat((a, b), axis=1)           no step
//! ```
//!
//! The extents before the axis are 1, so each part is one piece of the result. A part may itself be such a concatenation, and may be a
//! part of several results, if it has one place in all of them: `concat((a, b))` lies at the start of `concat((a, b, c))`. Values whose
//! places depend on each other form a *block* of memory.
//!
//! Other concatenations are computed by kernels: those of what the caller passes or receives, of weights, of one value twice, of parts
//! that do not start at multiples of [`ALIGNMENT`], and of conversions of bytes, which are cheaper where they are read.

use super::constness::invariant_values;
use super::function::{Arg, Call, CallId, Callee, Function, ValueDef, ValueId};
use super::infer::Args;
use super::memory::ALIGNMENT;
use super::operator::Lowering;
use crate::ir::DType;
use std::collections::{HashMap, HashSet};

/// The concatenations of a function that need no kernel, and where the values lie that they join.
#[derive(Clone, Default, Debug)]
pub struct Joined {
    calls: HashSet<CallId>,
    blocks: Blocks,
}

/// Where a value lies in memory that it shares with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The block of memory.
    pub block: usize,
    /// The first byte, in a block that starts at 0.
    pub offset: usize,
}

impl Joined {
    /// The concatenations of operators in a function, before or after other operators were lowered.
    pub fn of(function: &Function) -> Joined {
        let invariant = invariant_values(function);
        let shared = values_of_others(function);
        let is_free = |v: ValueId| !invariant[v.index()] && !shared.contains(&v);
        let mut joined = Joined::default();
        for &c in &function.order {
            let result = function.call(c).result;
            let Some(parts) = is_free(result).then(|| parts(function, c)).flatten() else { continue };
            if !parts.iter().all(|part| is_free(part.value) && is_computed(function, part.value)) {
                continue;
            }
            if joined.blocks.join(&parts, result) {
                joined.calls.insert(c);
            }
        }
        joined
    }

    /// Whether a call is a concatenation without a kernel.
    pub fn contains(&self, c: CallId) -> bool {
        self.calls.contains(&c)
    }

    /// Where a value lies, if it is a part or the result of such a concatenation.
    pub fn piece(&self, v: ValueId) -> Option<Piece> {
        let &(block, offset) = self.blocks.place_of.get(&v)?;
        let start = self.blocks.members[block].iter().map(|m| m.offset).min()?;
        Some(Piece { block, offset: usize::try_from(offset - start).ok()? })
    }
}

/// A part of a concatenation.
struct Part {
    /// The value whose memory it is: not another name or another shape of one.
    value: ValueId,
    /// Its first byte in the result.
    offset: i64,
    /// Its size in bytes.
    bytes: i64,
}

/// The parts of a concatenation whose result they fill one after the other; `None` for other calls.
fn parts(function: &Function, c: CallId) -> Option<Vec<Part>> {
    let Call { callee: Callee::Op(op), args, result, .. } = function.call(c) else { return None };
    if op.name != "concat" {
        return None;
    }
    let ty = function.ty(*result).as_tensor()?;
    let (dtype, shape) = (ty.dtype.filter(|t| t.bits() >= 8)?, ty.constant_shape(&function.arena)?);
    let args = Args { op, args, function };
    let axis = args.axis(args.opt_int("axis")?, shape.len()).ok()?;
    if shape[..axis].iter().any(|&n| n != 1) {
        return None;
    }
    let mut parts = Vec::new();
    let mut offset = 0;
    for &v in args.get("tensors").values() {
        let extents = function.ty(v).as_tensor()?.constant_shape(&function.arena)?;
        let bytes = size(dtype, &extents)?;
        if bytes == 0 || offset % ALIGNMENT as i64 != 0 {
            return None;
        }
        parts.push(Part { value: memory_of(function, v), offset, bytes });
        offset += bytes;
    }
    Some(parts)
}

fn size(dtype: DType, shape: &[i64]) -> Option<i64> {
    shape.iter().try_fold(dtype.bytes() as i64, |bytes, &n| bytes.checked_mul(n))
}

/// The value in whose memory another one lies, by another name or another shape.
fn memory_of(function: &Function, mut v: ValueId) -> ValueId {
    while let Some(call) = function.definition(v) {
        let is_same = match call.callee {
            Callee::Alias => true,
            Callee::Op(op) => matches!(op.lower, Lowering::Reshape),
            _ => false,
        };
        match call.args.first() {
            Some(&Arg::Value(other)) if is_same => v = other,
            _ => break,
        }
    }
    v
}

/// The values whose memory is the caller's, or that tuples and other graphs are given.
fn values_of_others(function: &Function) -> HashSet<ValueId> {
    let outputs = function.output.values();
    let passed = function.order.iter().map(|&c| function.call(c));
    let passed = passed.filter(|call| matches!(call.callee, Callee::Tuple | Callee::CallGraph(_)));
    let all = outputs.into_iter().chain(passed.flat_map(Call::inputs));
    all.map(|v| memory_of(function, v)).collect()
}

/// Whether a kernel writes a value, or several do, piece by piece.
fn is_computed(function: &Function, v: ValueId) -> bool {
    let ValueDef::Call(c) = function.value(v).def else { return false };
    let is_one = function.ty(v).as_tensor().is_some();
    is_one
        && match function.call(c).callee {
            Callee::CallTir(_) => true,
            Callee::Op(op) => !matches!(op.name, "astype" | "dequantize"),
            _ => false,
        }
}

/// Blocks of memory that are laid out as concatenations say.
#[derive(Clone, Default, Debug)]
struct Blocks {
    /// The block of each value, and its first byte there, which may be negative.
    place_of: HashMap<ValueId, (usize, i64)>,
    /// The values of each block; none in blocks that became part of others.
    members: Vec<Vec<Member>>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    value: ValueId,
    offset: i64,
    /// 0 for results of concatenations, which consist of other members.
    bytes: i64,
}

impl Blocks {
    /// Places parts in a result; `false`, and nothing is changed, if one lies elsewhere already, or if two values that kernels write
    /// would overlap.
    fn join(&mut self, parts: &[Part], result: ValueId) -> bool {
        let mut members: Vec<Member> = Vec::new();
        // The blocks that become one, and the bytes by which each is moved, if the result starts at 0.
        let mut moved: Vec<(usize, i64)> = Vec::new();
        let result = Member { value: result, offset: 0, bytes: 0 };
        let parts = parts.iter().map(|p| Member { value: p.value, offset: p.offset, bytes: p.bytes });
        for member in std::iter::once(result).chain(parts) {
            let place = self.place_of.get(&member.value);
            let found = match place {
                Some(&(block, at)) => moved.iter().find(|(b, _)| *b == block).map(|(_, by)| at + by),
                None => members.iter().find(|m| m.value == member.value).map(|m| m.offset),
            };
            match (found, place) {
                (Some(offset), _) if offset == member.offset => {}
                (Some(_), _) => return false,
                (None, Some(&(block, at))) => {
                    let by = member.offset - at;
                    moved.push((block, by));
                    members.extend(self.members[block].iter().map(|m| Member { offset: m.offset + by, ..*m }));
                }
                (None, None) => members.push(member),
            }
        }
        if !are_disjoint(&members) {
            return false;
        }
        for (block, _) in moved {
            self.members[block].clear();
        }
        let block = self.members.len();
        self.place_of.extend(members.iter().map(|m| (m.value, (block, m.offset))));
        self.members.push(members);
        true
    }
}

/// Whether no two values that kernels write overlap.
fn are_disjoint(members: &[Member]) -> bool {
    let mut written: Vec<(i64, i64)> =
        members.iter().filter(|m| m.bytes > 0).map(|m| (m.offset, m.offset + m.bytes)).collect();
    written.sort_unstable();
    written.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{ParseOptions, parse};

    /// The places of the named values; `None` where the memory is their own.
    fn places(body: &str, names: &[&str]) -> Vec<Option<(usize, usize)>> {
        let lines: String = body.trim().lines().map(|l| format!("        {}\n", l.trim())).collect();
        let text = format!(
            "@R.function\ndef main(x: R.Tensor((1, 16, 4), \"float32\"), w: R.Tensor((1, 16, 4), \"float32\"), \
             n: R.Tensor((16, 1), \"float32\")):\n    R.func_attr({{\"num_input\": 1}})\n    with R.dataflow():\n{lines}\
             \x20       R.output(out)\n    return out\n"
        );
        let parsed = parse(&text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let function = &parsed.graphs[0];
        let joined = Joined::of(function);
        let place = |name: &&str| {
            let v = function.values.iter().position(|v| v.name.as_str() == *name).unwrap_or_else(|| panic!("{name}"));
            joined.piece(ValueId(v as u32)).map(|p| (p.block, p.offset))
        };
        names.iter().map(place).collect()
    }

    #[test]
    fn parts_lie_one_behind_the_other() {
        let body = "
            a = R.nn.relu(x)
            b = R.exp(x)
            s = R.reshape(b, (1, 8, 8))
            t = R.reshape(s, (1, 16, 4))
            y = R.concat((a, t), axis=1)
            out = R.nn.relu(y)";
        assert_eq!(places(body, &["a", "b", "y", "out"]), [Some((0, 0)), Some((0, 256)), Some((0, 0)), None]);
    }

    #[test]
    fn concatenations_nest_and_share_their_starts() {
        let nested = "
            a = R.nn.relu(x)
            b = R.exp(x)
            y = R.concat((a, b), axis=1)
            c = R.sin(x)
            z = R.concat((c, y), axis=1)
            out = R.nn.relu(z)";
        let all = places(nested, &["a", "b", "c", "y", "z"]);
        let offsets: Vec<Option<usize>> = all.iter().map(|p| p.map(|(_, offset)| offset)).collect();
        assert_eq!(offsets, [Some(256), Some(512), Some(0), Some(256), Some(0)]);
        let prefix = "
            a = R.nn.relu(x)
            b = R.exp(x)
            y = R.concat((a, b), axis=1)
            c = R.exp(y)
            z = R.concat((a, b, c), axis=1)
            out = R.nn.relu(z)";
        let all = places(prefix, &["a", "b", "c", "y", "z"]);
        let offsets: Vec<Option<usize>> = all.iter().map(|p| p.map(|(_, offset)| offset)).collect();
        assert_eq!(offsets, [Some(0), Some(256), Some(512), Some(0), Some(0)]);
    }

    #[test]
    fn what_has_two_places_is_copied() {
        let twice = "
            a = R.nn.relu(x)
            y = R.concat((a, a), axis=1)
            out = R.nn.relu(y)";
        assert_eq!(places(twice, &["a", "y"]), [None, None]);
        // `b` follows `a` in the first result, and would have to follow it at another place in the second one.
        let elsewhere = "
            a = R.nn.relu(x)
            b = R.exp(x)
            y = R.concat((a, b), axis=1)
            z = R.concat((b, a), axis=1)
            out = R.add(y, z)";
        assert_eq!(places(elsewhere, &["a", "b", "y", "z"]), [Some((0, 0)), Some((0, 256)), Some((0, 0)), None]);
        // `c` would lie over `b`.
        let over = "
            a = R.nn.relu(x)
            b = R.exp(x)
            c = R.sin(x)
            y = R.concat((a, b), axis=1)
            z = R.concat((a, c), axis=1)
            out = R.add(y, z)";
        assert_eq!(places(over, &["b", "c", "z"]), [Some((0, 256)), None, None]);
    }

    #[test]
    fn memory_of_the_caller_weights_and_pieces_apart_are_copied() {
        let cases = [
            "a = R.nn.relu(x)\ny = R.concat((a, x), axis=1)\nout = R.nn.relu(y)",
            "a = R.nn.relu(x)\nb = R.exp(w)\ny = R.concat((a, b), axis=1)\nout = R.nn.relu(y)",
            "a = R.nn.relu(x)\nb = R.exp(x)\ny = R.concat((a, b), axis=2)\nout = R.nn.relu(y)",
            "a = R.nn.relu(x)\nb = R.exp(x)\ny = R.concat((a, b), axis=1)\nout = R.reshape(y, (128,))",
            "a = R.nn.relu(x)\nb = R.exp(x)\ny = R.concat((a, b), axis=1)\nz = R.nn.relu(y)\nout = (z, a)",
            "a = R.sum(x, axis=1)\nb = R.max(x, axis=1)\ny = R.concat((a, b), axis=1)\nout = R.nn.relu(y)",
        ];
        for body in cases {
            assert_eq!(places(body, &["a", "y"]), [None, None], "{body}");
        }
    }
}
