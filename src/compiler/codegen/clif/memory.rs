//! Emits addresses, loads and stores.
//!
//! An affine index becomes a chain of pointers, one link per variable, outermost variable first:
//!
//! ```text
//! A[i*K + k + 3]   base(A)  →  + 4K * i  →  + 4 * k  →  displacement 12
//! ```
//!
//! Accesses with a common prefix share its links. A link whose variable is a loop counter is an induction pointer that
//! the loop advances ([`AddressPlan::induction`]); a loop-invariant link is computed before the loop. Constants become
//! displacements of the instructions.

use super::func::Emitter;
use super::value::{PART, Parts, Val, int_scalar, int_vector, lane_bytes, n_parts, part_type, scalar_type};
use crate::codegen::wide::{RegionArg, Regions};
use crate::ir::DType;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{Affine, BufferId, Expr, ExprId, ExprList, For, Kernel, Stmt, StmtId, Ty, VarId};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_module::DataDescription;
use hashbrown::HashMap;

/// A link of a pointer chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LinkId(u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Link {
    buffer: BufferId,
    /// The pointer that this link adds to; the buffer's base if `None`.
    parent: Option<LinkId>,
    /// The link adds `scale * atom` bytes.
    atom: ExprId,
    scale: i64,
}

/// The address of an access: the end of a chain, and a displacement in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    link: Option<LinkId>,
    displacement: i64,
}

/// The pointer chains of all accesses in a body.
#[derive(Default)]
pub(super) struct AddressPlan {
    links: Vec<Link>,
    table: HashMap<Link, LinkId, FxBuild>,
    addresses: HashMap<(BufferId, ExprId), Address, FxBuild>,
    /// For each loop, the links that accesses inside it use.
    used: HashMap<StmtId, Vec<LinkId>, FxBuild>,
}

impl AddressPlan {
    /// The plan for statements and everything nested in them. `order` numbers variables from the outermost inwards.
    pub(super) fn new(kernel: &Kernel, regions: &Regions, stmts: &[StmtId], order: &[u32]) -> AddressPlan {
        let mut plan = AddressPlan::default();
        plan.stmts(kernel, regions, stmts, order, &mut Vec::new());
        plan
    }

    fn stmts(&mut self, kernel: &Kernel, regions: &Regions, stmts: &[StmtId], order: &[u32], around: &mut Vec<StmtId>) {
        let mut next = 0;
        while let Some(&s) = stmts.get(next) {
            next += 1;
            if let Some(region) = regions.at(s) {
                // A region has pointers of its own, which start here.
                for arg in &region.args {
                    if let RegionArg::Address { buffer, index } = *arg {
                        self.access(kernel, buffer, index, order, around);
                    }
                }
                next += region.len - 1;
                continue;
            }
            let stmt = kernel.stmts.get(s);
            for_each_operand(stmt, |e| {
                for_each_expr(&kernel.arena, e, &mut |e| {
                    if let Expr::Load(buffer, index) = kernel.arena.expr(e) {
                        self.access(kernel, buffer, index, order, around);
                    }
                });
            });
            match stmt {
                Stmt::For(l) => {
                    around.push(s);
                    self.stmts(kernel, regions, kernel.stmts.list(l.body), order, around);
                    around.pop();
                }
                Stmt::While { body, .. } => self.stmts(kernel, regions, kernel.stmts.list(body), order, around),
                Stmt::If { then, otherwise, .. } => {
                    self.stmts(kernel, regions, kernel.stmts.list(then), order, around);
                    self.stmts(kernel, regions, kernel.stmts.list(otherwise), order, around);
                }
                Stmt::Store { buffer, index, .. } => self.access(kernel, buffer, index, order, around),
                Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
            }
        }
    }

    fn access(&mut self, kernel: &Kernel, buffer: BufferId, index: ExprId, order: &[u32], around: &[StmtId]) {
        if kernel.arena.lanes(index) > 1 {
            // Each lane has an address of its own.
            return;
        }
        let address = match self.addresses.get(&(buffer, index)) {
            Some(&a) => a,
            None => {
                let a = self.chain(kernel, buffer, index, order);
                self.addresses.insert((buffer, index), a);
                a
            }
        };
        let mut next = address.link;
        while let Some(id) = next {
            for &l in around {
                let used = self.used.entry(l).or_default();
                if !used.contains(&id) {
                    used.push(id);
                }
            }
            next = self.links[id.0 as usize].parent;
        }
    }

    fn chain(&mut self, kernel: &Kernel, buffer: BufferId, index: ExprId, order: &[u32]) -> Address {
        let affine = Affine::of(&kernel.arena, index);
        let bytes = kernel.buffer(buffer).dtype.bytes() as i64;
        let mut terms: Vec<(u32, ExprId, i64)> =
            affine.terms.iter().map(|&(atom, c)| (depth(kernel, atom, order), atom, c)).collect();
        terms.sort_unstable();
        let mut parent = None;
        for (_, atom, c) in terms {
            let link = Link { buffer, parent, atom, scale: c.wrapping_mul(bytes) };
            parent = Some(match self.table.get(&link) {
                Some(&id) => id,
                None => {
                    let id = LinkId(self.links.len() as u32);
                    self.links.push(link);
                    self.table.insert(link, id);
                    id
                }
            });
        }
        Address { link: parent, displacement: affine.constant.wrapping_mul(bytes) }
    }

    /// The links used inside a loop, parents before their children.
    pub(super) fn used_in(&self, l: StmtId) -> Vec<LinkId> {
        let mut used = self.used.get(&l).cloned().unwrap_or_default();
        used.sort_unstable_by_key(|id| id.0);
        used
    }

    /// The link's step per unit of `var`, if the link adds that variable.
    pub(super) fn induction(&self, kernel: &Kernel, id: LinkId, var: VarId) -> Option<i64> {
        let link = self.links[id.0 as usize];
        (kernel.arena.as_var(link.atom) == Some(var)).then_some(link.scale)
    }
}

/// The nesting depth at which an atom's value is known: variables by their order, other expressions by their deepest
/// variable; expressions that read memory or registers are known last.
fn depth(kernel: &Kernel, atom: ExprId, order: &[u32]) -> u32 {
    let mut deepest = 0;
    for_each_expr(&kernel.arena, atom, &mut |e| match kernel.arena.expr(e) {
        Expr::Var(v) => deepest = deepest.max(order[v.index()]),
        Expr::Load(..) | Expr::Local(_) => deepest = u32::MAX,
        _ => {}
    });
    deepest
}

impl Emitter<'_, '_> {
    /// Looks up each lane of an index in a constant table of the module.
    pub(super) fn lookup(&mut self, index: ExprId, table: ExprList, ty: Ty) -> Val {
        let arena = &self.kernel.arena;
        let constants = arena.list(table);
        let (low, scalar) = (constants.len() as i64 - 1, scalar_type(ty.dtype));
        let bits = |&c: &ExprId| match (arena.expr(c), scalar) {
            (Expr::Float(bits), types::F32) => u64::from((f64::from_bits(bits) as f32).to_bits()),
            (Expr::Float(bits), _) => bits,
            (Expr::Int(v), _) => v as u64,
            _ => unreachable!("tables are of constants"),
        };
        let bytes: Vec<u8> =
            constants.iter().flat_map(|c| bits(c).to_le_bytes()[..ty.dtype.bytes()].to_vec()).collect();
        let Emitter { shared, module, .. } = self;
        let data = *shared.tables.entry(table).or_insert_with(|| {
            let id = module.declare_anonymous_data(false, false).expect("data without a name clashes with none");
            let mut contents = DataDescription::new();
            contents.set_align(ty.dtype.bytes() as u64);
            contents.define(bytes.into());
            module.define_data(id, &contents).expect("data is defined once");
            id
        });
        let place = self.module.declare_data_in_func(data, self.b.func);
        let base = self.b.ins().symbol_value(types::I64, place);
        let index = self.expr(index);
        let mut lanes = Parts::new();
        for lane in 0..ty.lanes {
            let i = self.lane(&index, lane);
            let i = if self.b.func.dfg.value_type(i) == types::I64 { i } else { self.b.ins().uextend(types::I64, i) };
            let i = self.b.ins().band_imm_u(i, low);
            let offset = self.b.ins().imul_imm_u(i, ty.dtype.bytes() as i64);
            let address = self.b.ins().iadd(base, offset);
            lanes.push(self.b.ins().load(scalar, FLAGS, address, 0));
        }
        if ty.lanes == 1 { Val::scalar(ty.dtype, lanes[0]) } else { self.pack(ty, &lanes) }
    }

    /// Computes the loop-invariant parts of addresses before a loop, and returns its induction pointers with their
    /// steps in bytes.
    pub(super) fn prepare_addresses(&mut self, s: StmtId, l: &For) -> Vec<(LinkId, i64)> {
        let mut advanced = Vec::new();
        for id in self.plan.used_in(s) {
            let link = self.plan.links[id.0 as usize];
            let parent_known = link.parent.is_none_or(|p| self.link_values.contains_key(&p));
            if !parent_known || self.link_values.contains_key(&id) {
                continue;
            }
            if let Some(step) = self.plan.induction(self.kernel, id, l.var) {
                // Further accesses are indexed by the loop counter.
                if advanced.len() < MAX_ADVANCED {
                    advanced.push((id, step));
                }
            } else if self.is_stable(link.atom) {
                self.link_value(id);
            }
        }
        advanced
    }

    /// Whether `e` can be computed here for later use: its variables are known, it cannot fail, and it reads no state.
    fn is_stable(&self, e: ExprId) -> bool {
        let arena = &self.kernel.arena;
        let mut stable = true;
        for_each_expr(arena, e, &mut |e| match arena.expr(e) {
            Expr::Var(v) => stable &= self.vars[v.index()].is_some(),
            Expr::Load(..) | Expr::Local(_) => stable = false,
            _ => stable &= !crate::codegen::facts::can_fail(arena, e),
        });
        stable
    }

    /// The pointer at the end of a chain, before a loop advances it.
    pub(super) fn link_start(&mut self, id: LinkId) -> Value {
        let link = self.plan.links[id.0 as usize];
        match link.parent {
            Some(p) => self.link_value(p),
            None => self.base(link.buffer),
        }
    }

    /// The pointer at the end of a chain.
    fn link_value(&mut self, id: LinkId) -> Value {
        if let Some(&v) = self.link_values.get(&id) {
            return v;
        }
        let link = self.plan.links[id.0 as usize];
        let start = self.link_start(id);
        let atom = self.expr(link.atom).single();
        let offset = self.scaled(atom, link.scale);
        let value = self.b.ins().iadd(start, offset);
        if self.is_stable(link.atom) {
            self.link_values.insert(id, value);
            self.scoped_links.push(id);
        }
        value
    }

    /// `value * scale`, by a shift if possible.
    pub(super) fn scaled(&mut self, value: Value, scale: i64) -> Value {
        match scale {
            1 => value,
            s if s > 0 && (s as u64).is_power_of_two() => self.b.ins().ishl_imm_u(value, s.trailing_zeros() as i64),
            s => self.b.ins().imul_imm_s(value, s),
        }
    }

    /// The pointer and displacement of an access.
    pub(super) fn address(&mut self, buffer: BufferId, index: ExprId) -> (Value, i32) {
        let address = self.plan.addresses[&(buffer, index)];
        let pointer = match address.link {
            Some(id) => self.link_value(id),
            None => self.base(buffer),
        };
        // The other parts of a wide vector follow within a few hundred bytes.
        match i32::try_from(address.displacement) {
            Ok(d) if d < i32::MAX - 4096 => (pointer, d),
            _ => (self.b.ins().iadd_imm_s(pointer, address.displacement), 0),
        }
    }

    /// Loads `ty.lanes` elements.
    pub(super) fn load(&mut self, buffer: BufferId, index: ExprId, ty: Ty) -> Val {
        if self.kernel.arena.lanes(index) > 1 {
            let indices = self.expr(index);
            let lanes: Vec<Value> = (0..ty.lanes).map(|lane| self.element_at(buffer, &indices, lane, ty)).collect();
            return self.pack(ty, &lanes);
        }
        let (pointer, offset) = self.address(buffer, index);
        self.load_at(pointer, offset, ty)
    }

    /// Loads the element whose index is a lane of a vector.
    pub(super) fn element_at(&mut self, buffer: BufferId, indices: &Val, lane: u16, ty: Ty) -> Value {
        let index = self.lane(indices, lane);
        let index = if indices.ty.dtype == DType::Int32 { self.b.ins().sextend(types::I64, index) } else { index };
        let offset = self.scaled(index, ty.dtype.bytes() as i64);
        let base = self.base(buffer);
        let pointer = self.b.ins().iadd(base, offset);
        self.load_at(pointer, 0, ty.with_lanes(1)).single()
    }

    /// Loads `ty.lanes` elements from an address.
    pub(super) fn load_at(&mut self, pointer: Value, offset: i32, ty: Ty) -> Val {
        let flags = FLAGS;
        if ty.lanes == 1 {
            return match ty.dtype {
                DType::Float16 | DType::BFloat16 => {
                    let bits = self.b.ins().load(types::I16, flags, pointer, offset);
                    let bits = self.b.ins().uextend(types::I32, bits);
                    let value = self.widen_half(ty.dtype, bits, types::I32, types::F32);
                    Val::scalar(ty.dtype, value)
                }
                DType::Bool => {
                    let byte = self.b.ins().load(types::I8, flags, pointer, offset);
                    Val::scalar(ty.dtype, self.is_nonzero(byte))
                }
                _ => Val::scalar(ty.dtype, self.b.ins().load(scalar_type(ty.dtype), flags, pointer, offset)),
            };
        }
        let stored = ty.dtype.bytes() as u8;
        let memory = match ty.dtype {
            DType::Float16 | DType::BFloat16 | DType::Bool => int_vector(stored),
            _ => part_type(ty, stored),
        };
        let total = ty.bytes();
        let mut raw = Parts::new();
        for at in (0..total).step_by(PART) {
            let left = total - at;
            let at = offset + at as i32;
            raw.push(if left >= PART {
                self.b.ins().load(memory, flags, pointer, at)
            } else {
                let part = self.load_short(pointer, at, left);
                self.recast(memory, part)
            });
        }
        match ty.dtype {
            DType::Bool => {
                let zero = self.zero(types::I8X16);
                let one_bits = raw.iter().map(|&v| self.icmp_ne(v, zero)).collect();
                Val::mask(ty.lanes, 1, one_bits)
            }
            DType::Float16 | DType::BFloat16 => {
                let bits = self.widen_ints(&raw, ty.lanes, 2, 4, false);
                let parts = bits.iter().map(|&v| self.widen_half(ty.dtype, v, types::I32X4, types::F32X4));
                Val::vector(ty, parts.collect())
            }
            _ => Val::vector(ty, raw),
        }
    }

    /// Stores all lanes of `value`.
    pub(super) fn store(&mut self, buffer: BufferId, index: ExprId, value: &Val) {
        let (pointer, offset) = self.address(buffer, index);
        let flags = FLAGS;
        let dtype = value.ty.dtype;
        if value.ty.lanes == 1 {
            let mut v = value.single();
            if dtype.is_half() {
                v = self.narrow_half(dtype, v, types::I32);
                v = self.b.ins().ireduce(types::I16, v);
            }
            self.b.ins().store(flags, v, pointer, offset);
            return;
        }
        let lanes = value.ty.lanes;
        let parts = match dtype {
            DType::Bool => {
                let mask = self.mask_to(value, 1);
                let one = self.b.ins().iconst(types::I8, 1);
                let ones = self.b.ins().splat(types::I8X16, one);
                mask.parts.iter().map(|&m| self.b.ins().band(m, ones)).collect()
            }
            DType::Float16 | DType::BFloat16 => {
                let bits: Parts = value.parts.iter().map(|&v| self.narrow_half(dtype, v, types::I32X4)).collect();
                self.narrow_ints(&bits, lanes, 4, 2)
            }
            _ => value.parts.clone(),
        };
        let total = value.ty.bytes();
        for (i, &part) in parts.iter().enumerate() {
            let left = total - i * PART;
            let at = offset + (i * PART) as i32;
            if left >= PART {
                self.b.ins().store(flags, part, pointer, at);
            } else {
                for (from, size) in words(left) {
                    let vector = self.recast(int_vector(size as u8), part);
                    let word = self.b.ins().extractlane(vector, (from / size) as u8);
                    self.b.ins().store(flags, word, pointer, at + from as i32);
                }
            }
        }
    }

    /// Loads the first bytes of a part, fewer than a full part; the others are undefined.
    fn load_short(&mut self, pointer: Value, at: i32, bytes: usize) -> Value {
        let mut part = None;
        for (from, size) in words(bytes) {
            let word = self.b.ins().load(int_scalar(size), FLAGS, pointer, at + from as i32);
            let vector = int_vector(size as u8);
            part = Some(match part {
                None => self.vector_of(vector, word),
                Some(part) => {
                    let part = self.recast(vector, part);
                    self.b.ins().insertlane(part, word, (from / size) as u8)
                }
            });
        }
        part.unwrap_or_else(|| self.zero(types::I8X16))
    }

    /// The number of parts in a register of the type, and their type.
    pub(super) fn local_parts(&self, ty: Ty) -> (usize, cranelift_codegen::ir::Type) {
        let bytes = local_lane_bytes(ty);
        (n_parts(ty, bytes), part_type(ty, bytes))
    }
}

/// Splits a number of bytes less than a part into words, longest first: offset and size of each.
fn words(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    [8, 4, 2, 1].into_iter().filter(move |size| bytes & size != 0).map(move |size| {
        from += size;
        (from - size, size)
    })
}

/// Bytes per lane in a register; all masks have the same width there.
pub(super) fn local_lane_bytes(ty: Ty) -> u8 {
    if ty.dtype == DType::Bool && ty.lanes > 1 { 4 } else { lane_bytes(ty.dtype) }
}

/// Maximum number of induction pointers of a loop; further addresses are computed from its counter.
const MAX_ADVANCED: usize = 8;

/// Accesses never trap, by the invariants of the loop IR, and are aligned only to their elements.
pub(super) const FLAGS: MemFlagsData = MemFlagsData::new().with_notrap();
