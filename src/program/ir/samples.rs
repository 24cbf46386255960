//! Small programs for tests, built through the interface of the representation.

use super::*;

/// A loop nest over `extents` with one block whose iterations are bound to the loops in order. `body` is given the
/// iteration variables and returns the init (or nothing) and the body. `first` names the loops `i`, `j`, … of the
/// caller.
pub fn nest(
    f: &mut Func,
    name: &str,
    axes: &[(&str, i64, IterKind)],
    make: impl FnOnce(&mut Func, &[ExprId]) -> (Option<StmtId>, StmtId),
) -> StmtId {
    let mut iters = Vec::new();
    let mut values = Vec::new();
    let mut loops = Vec::new();
    for &(axis, extent, kind) in axes {
        let (var, value) = f.arena.new_var_expr(axis, DType::Int32);
        let (iter, e) = f.arena.new_var_expr(format!("v{axis}").as_str(), DType::Int32);
        let (min, extent) = (f.arena.int32(0), f.arena.int32(extent));
        iters.push(BlockIter { var: iter, min, extent, kind, value });
        values.push(e);
        loops.push((var, extent));
    }
    let (init, body) = make(f, &values);
    let predicate = f.arena.bool(true);
    let mut block = Block::new(name, predicate);
    block.iters = iters;
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    for s in init.into_iter().chain([body]) {
        if let Stmt::Store { buffer, indices, value } = f.get(s).clone() {
            let target = BufferRegion::point(&mut f.arena, buffer, indices);
            if !writes.contains(&target) {
                writes.push(target);
            }
            let mut loads = Vec::new();
            visit::for_each_subexpr(&f.arena, value, &mut |e| {
                if let Expr::Load(b, l) = f.arena.expr(e) {
                    loads.push((b, l));
                }
            });
            for (b, l) in loads {
                let region = BufferRegion::point(&mut f.arena, b, l);
                let own_output = init.is_some() && region == target;
                if !own_output && !reads.contains(&region) {
                    reads.push(region);
                }
            }
        }
    }
    (block.reads, block.writes) = (reads, writes);
    block.init = init.map(|s| Body::from_slice(&[s]));
    block.body = Body::from_slice(&[body]);
    let mut inner = f.add_block(block).stmt();
    for (var, extent) in loops.into_iter().rev() {
        inner = f.make_loop(var, extent, Body::from_slice(&[inner])).stmt();
    }
    inner
}

/// `buffer[indices] = value`.
pub fn store(f: &mut Func, buffer: BufferId, indices: &[ExprId], value: ExprId) -> StmtId {
    let indices = f.arena.new_list(indices);
    f.add(Stmt::Store { buffer, indices, value })
}

/// Puts statements below the root block.
pub fn set_root(f: &mut Func, body: &[StmtId]) {
    let root = f.root.stmt();
    f.set_body(root, Body::from_slice(body));
}

/// `C[i, j] = sum over k of A[i, k] * B[k, j]`.
pub fn matmul(n: i64, m: i64, k: i64, dtype: DType) -> Func {
    let mut f = Func::new("main");
    let a = f.add_param("A", dtype, &[n, k]);
    let b = f.add_param("B", dtype, &[k, m]);
    let c = f.add_param("C", dtype, &[n, m]);
    f.attrs.insert("tirx.noalias", AttrValue::Bool(true));
    let axes = [("i", n, IterKind::Spatial), ("j", m, IterKind::Spatial), ("k", k, IterKind::Reduce)];
    let body = nest(&mut f, "C", &axes, |f, v| {
        let zero = f.arena.constant(0, dtype);
        let init = store(f, c, &v[..2], zero);
        let (x, y, z) = (f.arena.load(c, &v[..2]), f.arena.load(a, &[v[0], v[2]]), f.arena.load(b, &[v[2], v[1]]));
        let product = f.arena.mul(y, z);
        let sum = f.arena.add(x, product);
        (Some(init), store(f, c, &v[..2], sum))
    });
    set_root(&mut f, &[body]);
    f
}

/// A matmul with spatial loops split in four and the reduction in two, as `SSRSRS` tiling leaves it, all extents
/// being powers of `t`.
pub fn tiled_matmul(t: i64) -> Func {
    let mut f = matmul(t.pow(4), t.pow(4), t.pow(2), DType::Float32);
    let body = f.block(f.root).body[0];
    let block = f.blocks()[0];
    let order =
        [("i0", 0), ("j0", 1), ("i1", 0), ("j1", 1), ("k0", 2), ("i2", 0), ("j2", 1), ("k1", 2), ("i3", 0), ("j3", 1)];
    let mut values: [Option<ExprId>; 3] = [None; 3];
    let mut loops = Vec::new();
    let extent = f.arena.int32(t);
    for (name, axis) in order {
        let (var, e) = f.arena.new_var_expr(name, DType::Int32);
        let value = match values[axis] {
            None => e,
            Some(outer) => {
                let scaled = f.arena.mul_const(outer, t);
                f.arena.add(scaled, e)
            }
        };
        values[axis] = Some(value);
        loops.push(var);
    }
    f.cut(block.stmt());
    for (iter, value) in f.block_mut(block).iters.iter_mut().zip(values) {
        iter.value = value.expect("every axis has loops");
    }
    let mut inner = block.stmt();
    for var in loops.into_iter().rev() {
        inner = f.make_loop(var, extent, Body::from_slice(&[inner])).stmt();
    }
    f.replace(body, &[inner]);
    f
}

/// `Y[i] = max(X[i] padded by one zero on both sides …)`: an intermediate with a conditional, then a window sum.
pub fn padded_window(n: i64) -> Func {
    let mut f = Func::new("main");
    let x = f.add_param("X", DType::Float32, &[n]);
    let y = f.add_param("Y", DType::Float32, &[n]);
    let p = f.constant_buffer("P", DType::Float32, &[n + 2]);
    let root = f.root;
    f.block_mut(root).allocs.push(p);
    let pad = nest(&mut f, "pad", &[("i", n + 2, IterKind::Spatial)], |f, v| {
        let (one, last) = (f.arena.int32(1), f.arena.int32(n + 1));
        let (lo, hi) = (f.arena.compare(CmpOp::Le, one, v[0]), f.arena.lt(v[0], last));
        let inside = f.arena.and(lo, hi);
        let at = f.arena.add_const(v[0], -1);
        let (value, zero) = (f.arena.load(x, &[at]), f.arena.float(0.0, DType::Float32));
        let chosen = f.arena.if_then_else(inside, value, zero);
        (None, store(f, p, v, chosen))
    });
    let sum = nest(&mut f, "sum", &[("i", n, IterKind::Spatial), ("r", 3, IterKind::Reduce)], |f, v| {
        let zero = f.arena.float(0.0, DType::Float32);
        let init = store(f, y, &v[..1], zero);
        let at = f.arena.add(v[0], v[1]);
        let (acc, value) = (f.arena.load(y, &v[..1]), f.arena.load(p, &[at]));
        let total = f.arena.add(acc, value);
        (Some(init), store(f, y, &v[..1], total))
    });
    set_root(&mut f, &[pad, sum]);
    f
}

/// `Y = max(X, 0)` element by element.
pub fn relu(n: i64, m: i64) -> Func {
    let mut f = Func::new("main");
    let x = f.add_param("X", DType::Float32, &[n, m]);
    let y = f.add_param("Y", DType::Float32, &[n, m]);
    let body = nest(&mut f, "relu", &[("i", n, IterKind::Spatial), ("j", m, IterKind::Spatial)], |f, v| {
        let (value, zero) = (f.arena.load(x, v), f.arena.float(0.0, DType::Float32));
        let value = f.arena.max(value, zero);
        (None, store(f, y, v, value))
    });
    set_root(&mut f, &[body]);
    f
}
